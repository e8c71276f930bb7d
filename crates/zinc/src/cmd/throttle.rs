//! `zinc throttle`: how writers were held back, in the manner of the observation script of 2008.

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use crate::txgs::Records;
use crate::txgs::history::Line;
use crate::ui;
use engine::live::TxgRecord;
use lab::throttle::report::Report;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;
use views::txg_lines::intervals;

/// Arguments of `zinc throttle`.
#[derive(clap::Args)]
#[command(after_help = "\
For each interval and pool: how many txgs were synced in a second, MB (2^20 bytes) that became dirty
in a second, delays of writers in a second, and the distributions of the time of a sync, of the data
of a txg, and of the throttle's limit. Txgs without data are left out.")]
pub struct Args {
    #[command(flatten)]
    records: Records,
    /// Seconds of each interval of a history; 0 is one interval over all
    #[arg(short = 'i', long = "interval", value_name = "SECONDS", default_value_t = 0)]
    span: u64,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let Some(lines) = self.records.history() else {
            self.live(session)?;
            return Ok(ExitCode::SUCCESS);
        };
        let reports = reports(&lines?, Duration::from_secs(self.span));
        if self.records.json {
            let list: Vec<Value> = reports
                .iter()
                .map(|(at, report)| json!({ "begin_s": at.as_secs_f64(), "report": report }))
                .collect();
            ui::json(session, &json!({ "throttle": list }));
        } else {
            for (at, report) in &reports {
                let seconds = report.seconds;
                let text = report.to_text();
                ui::out(
                    session,
                    &format!("--- {:.3} for {seconds:.3} s\n{text}\n\n", at.as_secs_f64()),
                );
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// A report on what a server remembers, or on what comes in each interval.
    fn live(&self, session: &Session) -> Result<(), Failure> {
        let mut server = self.records.server(session)?;
        let name = server.name.clone();
        let interval = self.records.repeat.interval()?;
        let mut seen = 0;
        if interval.is_some() {
            seen = server.txgs(false)?.last().map_or(0, |r| r.txg);
            session.sleep(interval.unwrap_or_default())?;
        }
        self.records.repeat.run(session, || {
            let mut records = server.txgs(false)?;
            records.retain(|r| r.txg > seen);
            seen = records.last().map_or(seen, |r| r.txg);
            let began = records.first().map_or(Duration::ZERO, |r| r.opened);
            let ended = records.last().map_or(Duration::ZERO, TxgRecord::ended);
            let span = interval.unwrap_or(ended.saturating_sub(began));
            let report = Report::new(&name, &records, span);
            if self.records.json {
                ui::json(session, &json!({ "report": report }));
            } else {
                ui::out(session, &format!("{}\n\n", report.to_text()));
            }
            Ok(())
        })
    }
}

/// Reports by interval and pool; with the begin of each, since 1970.
fn reports(lines: &[Line], interval: Duration) -> Vec<(Duration, Report)> {
    let groups = intervals(lines, interval).into_iter();
    groups.map(|g| (g.begin, Report::new(&g.pool, &g.records, g.span))).collect()
}
