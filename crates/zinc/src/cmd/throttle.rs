//! `zinc throttle`: how writers were held back, in the manner of the observation script of 2008.

use crate::failure::Failure;
use crate::txgs::history::{self, Line};
use crate::ui;
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
    /// Records that --txgs-log wrote
    #[arg(long, value_name = "FILE", required = true)]
    history: Option<PathBuf>,
    /// Seconds of an interval; 0 for one over all
    #[arg(short = 'i', long, value_name = "SECONDS", default_value_t = 0)]
    interval: u64,
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
            return Err(Failure::usage("of which pool? --history FILE names a file of records"));
        };
        let lines = history::read(path, self.pool.as_deref())?;
        let reports = reports(&lines, Duration::from_secs(self.interval));
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
