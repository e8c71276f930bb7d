//! `zinc zpool history`: the commands and events a pool remembers.

use super::each::each;
use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::{FAILED, Failure};
use crate::session::Session;
use crate::{json, local_time, ui};
use engine::Pool;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::process::ExitCode;
use views::history::{HistoryFormat, history_text};

/// Arguments of `zinc zpool history`.
#[derive(clap::Args)]
pub struct Args {
    /// Also show internal events of the pool
    #[arg(short = 'i')]
    internal: bool,
    /// Also show user, host and zone
    #[arg(short = 'l')]
    long: bool,
    /// Print JSON with all fields of each record
    #[arg(short = 'j', long)]
    json: bool,
    #[command(flatten)]
    pool: PoolArgs,
    /// Pools; all found ones when none is named
    pools: Vec<String>,
}

/// The text for a pool.
#[derive(Serialize, Deserialize)]
struct Text {
    text: String,
    /// The rest could not be read.
    is_cut: bool,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if self.json {
            let look = |pool: &Pool| Ok((pool.name().to_owned(), self.records(session, pool)?));
            return each(session, &self.pool, &self.pools, look, |all: Vec<(String, Value)>, _| {
                let content = all.into_iter().collect();
                ui::json(session, &json::document("zpool history", "pools", content));
            });
        }
        let mut is_cut = false;
        let look = |pool: &Pool| Ok(self.text(session, pool));
        let code = each(session, &self.pool, &self.pools, look, |all: Vec<Text>, _| {
            all.iter().for_each(|text| ui::out(session, &text.text));
            is_cut = all.iter().any(|text| text.is_cut);
        })?;
        Ok(if is_cut { ExitCode::from(FAILED) } else { code })
    }
}

impl Args {
    fn records(&self, session: &Session, pool: &Pool) -> Result<Value, Failure> {
        let user = |id| session.user_name(id).map(str::to_owned);
        let mut out = Vec::new();
        for record in pool.history()? {
            let record = record?;
            let time = record.time().unwrap_or(0);
            let format = HistoryFormat { internal: self.internal, long: self.long, utc_offset: 0 };
            if let Some(text) = history_text(&record, format, &user) {
                // The text begins with the time, which is beside it in full.
                let text = text.split_once(' ').map_or(text.as_str(), |(_, rest)| rest);
                out.push(json!({ "time": time, "record": text }));
            }
        }
        Ok(json!({ "name": pool.name(), "history": out }))
    }

    /// The text; if it cannot be read any further, that is reported at once.
    fn text(&self, session: &Session, pool: &Pool) -> Text {
        let mut text = format!("History for '{}':\n", pool.name());
        let is_cut = match self.add_records(session, pool, &mut text) {
            Ok(()) => {
                text.push('\n');
                false
            }
            Err(failure) => {
                failure.report(session);
                true
            }
        };
        Text { text, is_cut }
    }

    fn add_records(
        &self,
        session: &Session,
        pool: &Pool,
        text: &mut String,
    ) -> Result<(), Failure> {
        let user = |id| session.user_name(id).map(str::to_owned);
        for record in pool.history()? {
            let record = record?;
            let format = HistoryFormat {
                internal: self.internal,
                long: self.long,
                utc_offset: local_time::utc_offset(session, record.time().unwrap_or(0)),
            };
            if let Some(line) = history_text(&record, format, &user) {
                text.push_str(&line);
                text.push('\n');
            }
        }
        Ok(())
    }
}
