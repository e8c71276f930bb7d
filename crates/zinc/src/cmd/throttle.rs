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
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `zinc throttle`.
#[derive(clap::Args)]
#[command(after_help = "\
For each interval and pool: how many txgs were synced in a second, MB (2^20 bytes) that became dirty
in a second, delays of writers in a second, and the distributions of the time of a sync, of the data
of a txg, and of the throttle's limit. Txgs without data are left out.")]
pub struct Args {
    #[command(flatten)]
    records: Records,
    /// Seconds of an interval of a history; 0 for one over all
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
    let born = |l: &Line| Duration::from_nanos(l.birth_wall_ns);
    let Some(first) = lines.iter().map(born).min() else { return Vec::new() };
    let last = lines.iter().map(Line::ended).max().unwrap_or(first);
    let mut groups: BTreeMap<(u128, &str), Vec<_>> = BTreeMap::new();
    for line in lines {
        let since = line.ended().saturating_sub(first).as_nanos();
        let number = since.checked_div(interval.as_nanos()).unwrap_or(0);
        groups.entry((number, &line.pool)).or_default().push(line.record.clone());
    }
    let span = if interval.is_zero() { last - first } else { interval };
    let report = |((number, pool), records): ((u128, &str), Vec<_>)| {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        (first + interval * number, Report::new(pool, &records, span))
    };
    groups.into_iter().map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A txg of this many milliseconds that began this many after 1970.
    fn line(pool: &str, txg: u64, began: u64, took: u64) -> Line {
        let sync = Duration::from_millis(took);
        let record = TxgRecord { txg, sync, dirty: 1 << 20, ..TxgRecord::default() };
        Line { pool: pool.to_owned(), birth_wall_ns: began * 1_000_000, record }
    }

    #[test]
    fn a_history_is_cut_into_intervals_by_pool() {
        let lines = [
            line("tank", 1, 5_000, 300),
            line("tank", 2, 5_300, 600),
            // It ended in the interval after the one in which it began.
            line("tank", 3, 5_900, 200),
            line("dozer", 7, 7_500, 100),
        ];
        let show = |seconds| -> Vec<(u64, String, u64)> {
            let reports = reports(&lines, Duration::from_secs(seconds));
            let shown =
                reports.iter().map(|(at, r)| (at.as_millis() as u64, r.pool.clone(), r.syncs));
            shown.collect()
        };
        let row = |at, pool: &str, txgs| (at, pool.to_owned(), txgs);
        assert_eq!(show(0), [row(5_000, "dozer", 1), row(5_000, "tank", 3)]);
        assert_eq!(show(1), [row(5_000, "tank", 2), row(6_000, "tank", 1), row(7_000, "dozer", 1)]);
        assert!(reports(&[], Duration::ZERO).is_empty());
    }
}
