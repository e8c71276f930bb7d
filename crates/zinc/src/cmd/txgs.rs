//! `zinc txgs`: what each transaction group did.

use crate::failure::Failure;
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
    /// Records that --txgs-log wrote
    #[arg(long, value_name = "FILE", required = true)]
    history: Option<PathBuf>,
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
    /// Only of this pool
    pool: Option<String>,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let Some(path) = &self.history else {
            return Err(Failure::usage("whose txgs? --history FILE names a file of records"));
        };
        let mut lines = history::read(path, self.pool.as_deref())?;
        let skipped = lines.len().saturating_sub(self.last.unwrap_or(usize::MAX));
        lines.drain(..skipped);
        if self.json {
            ui::json(&json!({ "txgs": lines }));
            return Ok(ExitCode::SUCCESS);
        }
        let style = match (self.script, self.exact) {
            (true, _) => Style::Script,
            (false, true) => Style::Exact,
            (false, false) => Style::Human,
        };
        let records: Vec<_> = lines.into_iter().map(|l| l.record).collect();
        table(&records, style).print();
        Ok(ExitCode::SUCCESS)
    }
}
