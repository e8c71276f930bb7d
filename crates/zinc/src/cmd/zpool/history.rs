//! `zinc zpool history`: the commands and events a pool remembers.

use crate::common::PoolArgs;
use crate::failure::Failure;
use crate::{local_time, names, ui};
use engine::Pool;
use engine::pool::{HistoryFormat, history_text};
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
    #[command(flatten)]
    pool: PoolArgs,
    /// Pools; all found ones when none is named
    pools: Vec<String>,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        super::for_each_pool(&self.pool, &self.pools, |pool| self.show(pool))
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
