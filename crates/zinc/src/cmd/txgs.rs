//! `zinc txgs`: what each transaction group did.

use crate::failure::Failure;
use crate::served::{Repeat, Server};
use crate::txgs::{Style, history, table};
use crate::ui;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `zinc txgs`.
#[derive(clap::Args)]
#[command(after_help = "\
Columns: txg, birth (seconds on the clock of the process), state (O open, Q quiescing, W waiting, S
being synced, C durable), ndirty (bytes that became dirty), nread, nwritten, reads, writes (what the
devices did during its sync), otime, qtime, wtime, stime (open, quiescing, waiting, being synced),
limit (of the throttle), delays and delayed, stops and stopped (of writers), pushed (why).")]
pub struct Args {
    /// Records that --txgs-log wrote, instead of those of a pool that is served
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Search this directory, file or disk for the pool's devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    /// Ask the server that listens here
    #[arg(long, value_name = "PATH", conflicts_with = "history")]
    socket: Option<PathBuf>,
    /// Only the last N
    #[arg(short = 'n', value_name = "N")]
    last: Option<usize>,
    /// Exact numbers: bytes and nanoseconds
    #[arg(short = 'p')]
    exact: bool,
    /// No headings, tabs between columns, exact numbers
    #[arg(short = 'H')]
    script: bool,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// The pool, which is served; or of a history, only of this pool
    #[arg(required_unless_present_any = ["history", "socket"])]
    pool: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let Some(path) = &self.history else {
            self.live()?;
            return Ok(ExitCode::SUCCESS);
        };
        let mut lines = history::read(path, self.pool.as_deref())?;
        let skipped = lines.len().saturating_sub(self.last.unwrap_or(usize::MAX));
        lines.drain(..skipped);
        if self.json {
            ui::json(&json!({ "txgs": lines }));
            return Ok(ExitCode::SUCCESS);
        }
        let records: Vec<_> = lines.into_iter().map(|l| l.record).collect();
        table(&records, self.style()).print();
        Ok(ExitCode::SUCCESS)
    }

    fn style(&self) -> Style {
        match (self.script, self.exact) {
            (true, _) => Style::Script,
            (false, true) => Style::Exact,
            (false, false) => Style::Human,
        }
    }

    /// Those a server remembers, and with an interval those that come.
    fn live(&self) -> Result<(), Failure> {
        let name = self.pool.as_deref().unwrap_or_default();
        let mut server = Server::must(self.socket.as_deref(), &self.search, name)?;
        let mut seen = 0;
        self.repeat.run(|| {
            let mut records = server.txgs()?;
            records.retain(|r| r.txg > seen);
            seen = records.last().map_or(seen, |r| r.txg);
            let skipped = records.len().saturating_sub(self.last.unwrap_or(usize::MAX));
            records.drain(..skipped);
            if self.json {
                ui::json(&json!({ "txgs": records }));
            } else {
                table(&records, self.style()).print();
            }
            Ok(())
        })
    }
}
