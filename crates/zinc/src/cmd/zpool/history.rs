//! `zinc zpool history`: the commands and events a pool remembers.

use crate::common::PoolArgs;
use crate::failure::Failure;
use crate::{json, local_time, names, ui};
use engine::Pool;
use engine::pool::{HistoryFormat, history_text};
use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// Arguments of `zinc zpool history`.
#[derive(clap::Args)]
pub struct Args {
    /// Show events of the pool itself too
    #[arg(short = 'i')]
    internal: bool,
    /// Show who, where and in which zone
    #[arg(short = 'l')]
    long: bool,
    /// Print JSON: of each record everything the pool remembers
    #[arg(short = 'j', long)]
    json: bool,
    #[command(flatten)]
    pool: PoolArgs,
    /// Pools; all found ones when none is named
    pools: Vec<String>,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        if !self.json {
            return super::for_each_pool(&self.pool, &self.pools, |pool| self.show(pool));
        }
        let mut content = Map::new();
        let code = super::for_each_pool(&self.pool, &self.pools, |pool| {
            content.insert(pool.name().to_owned(), self.records(pool)?);
            Ok(())
        })?;
        ui::json(&json::document("zpool history", "pools", content));
        Ok(code)
    }

    fn records(&self, pool: &Pool) -> Result<Value, Failure> {
        let user = |id| names::user(id).map(str::to_owned);
        let mut out = Vec::new();
        for record in pool.history()? {
            let record = record?;
            let time = record.time().unwrap_or(0);
            let format = HistoryFormat { internal: self.internal, long: self.long, utc_offset: 0 };
            if let Some(text) = history_text(&record, format, &user) {
                // The text begins with the time, which stands beside it in full.
                let text = text.split_once(' ').map_or(text.as_str(), |(_, rest)| rest);
                out.push(json!({ "time": time, "record": text }));
            }
        }
        Ok(json!({ "name": pool.name(), "history": out }))
    }

    fn show(&self, pool: &Pool) -> Result<(), Failure> {
        ui::out(&format!("History for '{}':\n", pool.name()));
        let user = |id| names::user(id).map(str::to_owned);
        for record in pool.history()? {
            let record = record?;
            let format = HistoryFormat {
                internal: self.internal,
                long: self.long,
                utc_offset: local_time::utc_offset(record.time().unwrap_or(0)),
            };
            if let Some(text) = history_text(&record, format, &user) {
                ui::out(&text);
                ui::out("\n");
            }
        }
        ui::out("\n");
        Ok(())
    }
}
