//! `zinc throttle`: how writers were held back, in the manner of the observation script of 2008.

use crate::failure::Failure;
use crate::served::{Repeat, Server};
use crate::txgs::history::{self, Line};
use crate::ui;
use engine::live::TxgRecord;
use lab::throttle::report::Report;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `zinc throttle`.
#[derive(clap::Args)]
#[command(after_help = "\
For each interval and pool: how many txgs were synced in a second, MB (2^20 bytes) that became dirty
in a second, delays of writers in a second, and the distributions of the time of a sync, of the data
of a txg, and of the throttle's limit. Txgs without data are left out.")]
pub struct Args {
    /// Records that --txgs-log wrote, instead of those of a pool that is served
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Seconds of an interval of a history; 0 for one over all
    #[arg(short = 'i', long = "interval", value_name = "SECONDS", default_value_t = 0)]
    span: u64,
    /// Search this directory, file or disk for the pool's devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    /// Ask the server that listens here
    #[arg(long, value_name = "PATH", conflicts_with = "history")]
    socket: Option<PathBuf>,
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
        let lines = history::read(path, self.pool.as_deref())?;
        let reports = reports(&lines, Duration::from_secs(self.span));
        if self.json {
            let list: Vec<Value> = reports
                .iter()
                .map(|(at, report)| json!({ "begin_s": at.as_secs_f64(), "report": report }))
                .collect();
            ui::json(&json!({ "throttle": list }));
        } else {
            for (at, report) in &reports {
                let seconds = report.seconds;
                let text = report.to_text();
                ui::out(&format!("--- {:.3} for {seconds:.3} s\n{text}\n\n", at.as_secs_f64()));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// A report on what a server remembers, or on what comes in each interval.
    fn live(&self) -> Result<(), Failure> {
        let name = self.pool.as_deref().unwrap_or_default();
        let mut server = Server::must(self.socket.as_deref(), &self.search, name)?;
        let name = server.name.clone();
        let interval = self.repeat.interval()?;
        let mut seen = 0;
        if interval.is_some() {
            seen = server.txgs()?.last().map_or(0, |r| r.txg);
            std::thread::sleep(interval.unwrap_or_default());
        }
        self.repeat.run(|| {
            let mut records = server.txgs()?;
            records.retain(|r| r.txg > seen);
            seen = records.last().map_or(seen, |r| r.txg);
            let began = records.first().map_or(Duration::ZERO, |r| r.opened);
            let ended = records.last().map_or(Duration::ZERO, TxgRecord::ended);
            let span = interval.unwrap_or(ended.saturating_sub(began));
            let report = Report::new(&name, &records, span);
            if self.json {
                ui::json(&json!({ "report": report }));
            } else {
                ui::out(&format!("{}\n\n", report.to_text()));
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
