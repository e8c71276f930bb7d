//! The same writer in a pool that is there already, with the tunables it has: one volume more for
//! some seconds, which is destroyed in the end.
//!
//! Nothing is changed for the measurement, so txgs are as large as the pool makes them, and what
//! is written beside the experiment counts too.

use super::MIB;
use crate::experiment::{Bound, LabError, Outcome, Row, Series, Setting};
use crate::stream::{self, RECORD_BYTES, StreamError};
use crate::target::PoolTarget;
use engine::dsl::DatasetKind;
use engine::dsl::write::{PropertyChange, parse_value};
use engine::live::{LivePool, TxgRecord};
use std::time::Duration;

/// Part of the pool's free space that is written at most.
const PART_OF_FREE: u64 = 4;

/// Seconds of writing for each second that a figure of a device is measured: several txgs.
const SECONDS: f64 = 5.0;

/// Rows of single txgs.
const TXGS_SHOWN: usize = 12;

pub(super) fn run(target: &PoolTarget, setting: &Setting) -> Result<Outcome, LabError> {
    let name = format!("{}/zinc-lab-{}", target.dataset, setting.seed);
    let mut records = Vec::new();
    target.with(&mut |pool| {
        (setting.progress)(&format!("writing to {name}"));
        records = syncs(pool, &name, setting)?;
        Ok(())
    })?;
    Ok(outcome(target, &records))
}

fn syncs(pool: &LivePool, name: &str, setting: &Setting) -> Result<Vec<TxgRecord>, StreamError> {
    let space = pool.look()?.space().total();
    let free = space.size.saturating_sub(space.allocated);
    let record = u64::from(RECORD_BYTES);
    let size = free / PART_OF_FREE / record * record;
    // Blocks of zeros shall be written, and nothing be told from them.
    let off = |name: &str| {
        let value = parse_value(name, "off", DatasetKind::Volume, true)
            .map_err(engine::pool::Error::from)?;
        Ok::<_, StreamError>(PropertyChange { name: name.to_owned(), value: Some(value) })
    };
    let plain = vec![off("compression")?, off("dedup")?];
    pool.create_volume(name, size.max(record), RECORD_BYTES, plain)?;
    let first = pool.last_synced();
    let time = Duration::from_secs_f64((setting.seconds * SECONDS).clamp(0.01, 3600.0));
    let written = stream::write_until(pool, name, pool.rt().now() + time);
    let synced = pool.sync();
    let records = pool.txgs().into_iter().filter(|r| r.txg > first && r.dirty > 0).collect();
    let destroyed = pool.destroy_dataset(name);
    written?;
    synced?;
    destroyed?;
    Ok(records)
}

fn outcome(target: &PoolTarget, records: &[TxgRecord]) -> Outcome {
    let mut rows = Vec::new();
    let mut show = |row: String, unit, measured| {
        rows.push(Row { row, unit, published: None, measured, bound: Bound::Shown });
    };
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
    show("all txgs: throughput".to_owned(), "MB/s", all);
    show("all txgs: average I/O".to_owned(), "KiB", bytes as f64 / 1024.0 / writes.max(1) as f64);
    let points = records.iter().enumerate().map(|(n, r)| (n as f64 + 1.0, rate(r))).collect();
    Outcome {
        experiment: super::EXPERIMENT.name,
        place: format!("pool {}", target.dataset),
        rows,
        charts: vec![super::chart(vec![Series { name: "measured".to_owned(), points }])],
        texts: Vec::new(),
        meaning: format!(
            "One sequential writer with records of 128 KiB kept this pool at {all:.0} MB/s \
             through its syncs, with the tunables it has. `zinc lab run sync-stream --device` says \
             what the disk alone could do, `zinc txgs` why txgs had their sizes."
        ),
    }
}
