//! `zinc tunables`: the knobs of a pool that is open for writing.

use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use engine::LivePool;
use engine::live::{Setting, Tunable};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use views::tunables::{details, table, to_json};

/// Arguments of `zinc tunables`.
#[derive(clap::Args)]
#[command(after_help = "\
Every verb that opens a pool for writing takes `--tunable NAME=VALUE`, and `--tunables FILE` with
such lines. Bytes take k, M, G, T in powers of 1024, numbers in powers of 1000. The names are those
of zfs(4) where OpenZFS has the tunable.")]
pub struct Args {
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Print no headings, and tabs between columns
    #[arg(short = 'H')]
    script: bool,
    /// The tunables of this pool, which must be served, with their current values; NAME=VALUE sets
    /// one
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Search this directory, file or disk for the pool's devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH", requires = "pool")]
    search: Vec<PathBuf>,
    /// Only these, in detail
    names: Vec<String>,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if let Some(pool) = &self.pool {
            crate::served::forward(session, &self.search, pool)?;
            let held = session.held(pool);
            let held = held.ok_or_else(|| crate::served::not_served(pool))?;
            return self.of_pool(session, &held);
        }
        if let Some(setting) = self.names.iter().find(|name| name.contains('=')) {
            let what = format!("cannot set {setting}: tunables are those of a pool that is served");
            return Err(Failure::usage(what).hint("--pool POOL names it"));
        }
        let chosen = self.names.iter().map(|name| Tunable::named(name));
        let chosen = chosen.collect::<Result<Vec<_>, _>>()?;
        let all = chosen.is_empty();
        let chosen = if all { Tunable::ALL.to_vec() } else { chosen };
        if self.json {
            let list: Vec<Value> = chosen.iter().map(|t| to_json(t.row(), None)).collect();
            ui::json(session, &json!({ "tunables": list }));
        } else if all || self.script {
            let rows = chosen.iter().map(|t| (t.row(), t.row().default()));
            ui::table(session, &table(rows, "DEFAULT", self.script));
        } else {
            let text: Vec<String> = chosen.iter().map(|t| details(t.row())).collect();
            ui::out(session, &text.join("\n"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// Sets what is to be set, and shows the values of a pool that is held.
    fn of_pool(&self, session: &Session, pool: &LivePool) -> Result<ExitCode, Failure> {
        let is_setting = |name: &&String| name.contains('=');
        let (settings, names): (Vec<_>, Vec<_>) = self.names.iter().partition(is_setting);
        // All are right, or none is set.
        let settings = settings.iter().map(|setting| Setting::parse(setting));
        let settings = settings.collect::<Result<Vec<_>, _>>()?;
        let chosen = names.iter().map(|name| Tunable::named(name));
        let mut chosen = chosen.collect::<Result<Vec<_>, _>>()?;
        settings.iter().for_each(|s| pool.set_tunable(*s));
        if chosen.is_empty() && settings.is_empty() {
            chosen = Tunable::ALL.to_vec();
        }
        let values = chosen.iter().map(|t| (t.row(), pool.tunables().get(*t)));
        if self.json {
            let list: Vec<Value> = values.map(|(row, value)| to_json(row, Some(value))).collect();
            ui::json(session, &json!({ "tunables": list }));
        } else if !chosen.is_empty() {
            ui::table(session, &table(values, "VALUE", self.script));
        }
        Ok(ExitCode::SUCCESS)
    }
}
