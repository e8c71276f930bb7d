//! The same writer in a pool that is there already, with the tunables it has: one volume more for
//! some seconds, which is destroyed in the end.
//!
//! Nothing is changed for the measurement, so txgs are as large as the pool makes them, and what
//! is written beside the experiment counts too.

use super::MIB;
use crate::error::LabError;
use crate::experiment::Setting;
use crate::outcome::{Outcome, Series};
use crate::row::Row;
use crate::stream::{self, RECORD_BYTES, StreamError};
use crate::target::Target;
use crate::workspace::{self, OpenWorkspace};
use engine::live::TxgRecord;
use std::time::Duration;

/// Seconds of writing for each second that a figure of a device is measured: several txgs.
const SECONDS: f64 = 5.0;

/// Rows of single txgs.
const TXGS_SHOWN: usize = 12;

pub(super) fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    let records = workspace::with_workspace(target, setting, |workspace| {
        workspace.open(|open| syncs(open, setting))
    })?;
    Ok(outcome(target, &records))
}

fn syncs(open: &OpenWorkspace<'_>, setting: &Setting) -> Result<Vec<TxgRecord>, LabError> {
    let (pool, name) = (open.pool, "volume");
    (setting.progress)(&format!("writing to {}", open.name(name)));
    let volume = open.volume(name, open.budget()?, RECORD_BYTES)?;
    let first = pool.last_synced();
    let time = Duration::from_secs_f64((setting.seconds * SECONDS).clamp(0.01, 3600.0));
    stream::write_until(pool, &volume, pool.rt().now() + time)?;
    pool.sync().map_err(StreamError::from)?;
    Ok(pool.txgs().into_iter().filter(|r| r.txg > first && r.dirty > 0).collect())
}

fn outcome(target: &Target, records: &[TxgRecord]) -> Outcome {
    let mut rows = Vec::new();
    let mut show = |row: String, unit, measured| rows.push(Row::own(row, unit, measured));
    let megabytes = |bytes: u64| bytes as f64 / MIB;
    let rate = |r: &TxgRecord| megabytes(r.write_bytes) / r.sync.as_secs_f64().max(1e-9);
    for (n, record) in records.iter().enumerate().take(TXGS_SHOWN) {
        show(format!("txg {}: throughput", n + 1), "MB/s", rate(record));
        show(format!("txg {}: sync time", n + 1), "ms", record.sync.as_secs_f64() * 1e3);
        show(format!("txg {}: written", n + 1), "MB", megabytes(record.write_bytes));
    }
    let bytes: u64 = records.iter().map(|r| r.write_bytes).sum();
    let writes: u64 = records.iter().map(|r| r.writes).sum();
    let syncing: f64 = records.iter().map(|r| r.sync.as_secs_f64()).sum();
    let all = megabytes(bytes) / syncing.max(1e-9);
    show(ALL.to_owned(), "MB/s", all);
    show("all txgs: average I/O".to_owned(), "KiB", bytes as f64 / 1024.0 / writes.max(1) as f64);
    let points = records.iter().enumerate().map(|(n, r)| (n as f64 + 1.0, rate(r))).collect();
    Outcome {
        rows,
        charts: vec![super::chart(vec![Series { name: "measured".to_owned(), points }])],
        meaning,
        ..Outcome::new(super::EXPERIMENT.name, target.describe(&super::EXPERIMENT))
    }
}

/// The row of all txgs.
const ALL: &str = "all txgs: throughput";

fn meaning(outcome: &Outcome) -> String {
    let Some(all) = outcome.measured(ALL) else { return String::new() };
    format!(
        "One sequential writer with records of 128 KiB kept {} at {all:.0} MB/s through its syncs, \
         with the tunables it has. `zinc lab run sync-stream --device` says what the disk alone \
         could do, `zinc txgs` why txgs had their sizes.",
        outcome.place,
    )
}
