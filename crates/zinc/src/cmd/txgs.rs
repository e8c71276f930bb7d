//! `zinc txgs`: what each transaction group did.

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use crate::txgs::{Records, Style, keep_last, table};
use crate::ui;
use engine::live::TxgState;
use serde_json::json;
use std::process::ExitCode;

/// Arguments of `zinc txgs`.
#[derive(clap::Args)]
#[command(after_help = "\
A pool that is served shows its last txgs, and behind them those that are not durable yet; with an
interval, each time those that became durable meanwhile, and the others as they are now.

Columns: txg, birth (seconds on the clock of the process), state (O open, Q quiescing, W waiting, S
being synced, C durable), ndirty (bytes that became dirty), nread, nwritten, reads, writes (what the
devices did during its sync), otime, qtime, wtime, stime (open, quiescing, waiting, being synced),
limit (of the throttle), delays and delayed, stops and stopped (of writers), pushed (why).")]
pub struct Args {
    #[command(flatten)]
    records: Records,
    /// Only the last N
    #[arg(short = 'n', value_name = "N")]
    last: Option<usize>,
    /// Exact numbers: bytes and nanoseconds
    #[arg(short = 'p')]
    exact: bool,
    /// No headings, tabs between columns, exact numbers
    #[arg(short = 'H')]
    script: bool,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let Some(lines) = self.records.history() else {
            self.live(session)?;
            return Ok(ExitCode::SUCCESS);
        };
        let mut lines = lines?;
        keep_last(&mut lines, self.last);
        if self.records.json {
            ui::json(session, &json!({ "txgs": lines }));
            return Ok(ExitCode::SUCCESS);
        }
        let records: Vec<_> = lines.into_iter().map(|l| l.record).collect();
        ui::table(session, &table(&records, self.style()));
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    fn style(&self) -> Style {
        match (self.script, self.exact) {
            (true, _) => Style::Script,
            (false, true) => Style::Exact,
            (false, false) => Style::Human,
        }
    }

    /// Those a server remembers, and with an interval those that come.
    fn live(&self, session: &Session) -> Result<(), Failure> {
        let mut server = self.records.server(session)?;
        let mut seen = 0;
        self.records.repeat.run(session, || {
            let mut records = server.txgs(true)?;
            records.retain(|r| r.txg > seen);
            let mut durable = records.iter().filter(|r| r.state == TxgState::Committed);
            seen = durable.next_back().map_or(seen, |r| r.txg);
            keep_last(&mut records, self.last);
            if self.records.json {
                ui::json(session, &json!({ "txgs": records }));
            } else {
                ui::table(session, &table(&records, self.style()));
            }
            Ok(())
        })
    }
}
