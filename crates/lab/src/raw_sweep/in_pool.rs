//! The same sizes in a pool: writes to a volume through the engine, one at a time.
//!
//! A write to a pool is done when it is in the open txg, so the rows of the sizes are of writes
//! that the pool makes durable together: their time ends with a sync. What the raw writes of the
//! study are is the last row: there every single one is synced.

use super::{ENOUGH, EXPERIMENT, PUBLISHED, chart, size_in_words};
use crate::error::LabError;
use crate::experiment::Setting;
use crate::outcome::Outcome;
use crate::raw_disk::{Pace, RawDisk as _, StopAt, VolumeDisk, in_a_row, pace};
use crate::row::Row;
use crate::stream::StreamError;
use crate::target::Target;
use crate::workspace::{self, OpenWorkspace};
use engine::inside::device::ModelKind;

/// Bytes of a block of the volume: those of the smallest write, so that none has to read first.
const BLOCK_BYTES: u32 = 16 << 10;

pub(super) fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    let (paces, synced) = workspace::with_workspace(target, setting, |workspace| {
        workspace.open(|open| measure(open, setting))
    })?;
    let mut rows: Vec<Row> = Vec::new();
    let mut points = Vec::new();
    for pace in &paces {
        let (kib, rate) = (pace.len >> 10, pace.mib_per_second());
        points.push((kib as f64, rate));
        rows.push(Row::own(format!("{kib} KiB"), "MB/s", rate));
    }
    rows.push(Row::own(SYNCED, "MB/s", synced.mib_per_second()));
    Ok(Outcome {
        rows,
        charts: vec![chart("Bandwidth of writes to a volume, synced in the end", points)],
        meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    })
}

/// The row of writes that are each synced.
const SYNCED: &str = "16 KiB, a sync after each";

fn meaning(outcome: &Outcome) -> String {
    let rate = |kib: u64| outcome.measured(&format!("{kib} KiB"));
    let rates: Vec<(u64, f64)> =
        PUBLISHED.iter().filter_map(|p| Some((p.kib, rate(p.kib)?))).collect();
    let best = rates.iter().map(|p| p.1).fold(0.0, f64::max);
    let enough = rates.iter().find(|p| p.1 >= ENOUGH * best).map_or(0, |p| p.0);
    format!(
        "In {}: writes that the pool makes durable together reach {:.0} % of the best of these \
         sizes ({best:.0} MB/s) from {} on. With a sync after each, 16 KiB get {:.2} MB/s.",
        outcome.place,
        100.0 * ENOUGH,
        size_in_words(enough as f64),
        outcome.measured(SYNCED).unwrap_or_default(),
    )
}

/// All sizes, and the smallest with a sync after each write.
fn measure(open: &OpenWorkspace<'_>, setting: &Setting) -> Result<(Vec<Pace>, Pace), LabError> {
    let volume = open.volume("volume", open.budget()?, BLOCK_BYTES)?;
    let mut disk = VolumeDisk::new(volume, open.pool.rt())?;
    let size = disk.size();
    let mut paces = Vec::new();
    for kib in PUBLISHED.iter().map(|p| p.kib).filter(|kib| kib << 10 <= size) {
        setting.step(&format!("writes of {kib} KiB"))?;
        let (len, begin) = (kib << 10, disk.now());
        let until = StopAt { seconds: setting.seconds, count: u64::MAX };
        let pace = pace(&mut disk, ModelKind::Write, len, until, in_a_row(size, len))
            .map_err(|e| LabError::new(format!("a write of {len} bytes failed"), e))?;
        open.pool.sync().map_err(StreamError::from)?;
        paces.push(Pace { seconds: (disk.now() - begin).as_secs_f64(), ..pace });
    }
    setting.step("writes with a sync after each")?;
    let (len, begin) = (u64::from(BLOCK_BYTES), disk.now());
    let (mut next, mut count) = (in_a_row(size, len), 0);
    let seconds = loop {
        disk.write(next(), len).map_err(|e| LabError::new("a write failed", e))?;
        open.pool.sync().map_err(StreamError::from)?;
        count += 1;
        let seconds = (disk.now() - begin).as_secs_f64();
        if seconds >= setting.seconds {
            break seconds;
        }
    };
    Ok((paces, Pace { count, len, seconds, cpu_seconds: None }))
}
