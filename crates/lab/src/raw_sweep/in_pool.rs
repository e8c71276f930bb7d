//! The same sizes in a pool: writes to a volume through the engine, one at a time.
//!
//! A write to a pool is done when it is in the open txg, so the rows of the sizes are of writes
//! that the pool makes durable together: their time ends with a sync. What the raw writes of the
//! study are is the last row: there every single one is synced.

use super::{ENOUGH, EXPERIMENT, PUBLISHED, chart, size_in_words};
use crate::bare::{Bare as _, Pace, Until, VolumeBare, in_a_row, pace};
use crate::experiment::{Bound, LabError, Outcome, Row, Setting};
use crate::stay::{self, Visit};
use crate::stream::StreamError;
use crate::target::Target;
use engine::device::ModelKind;

/// Bytes of a block of the volume: those of the smallest write, so that none has to read first.
const BLOCK_BYTES: u32 = 16 << 10;

pub(super) fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    let (paces, synced) =
        stay::stay(target, setting, |stay| stay.visit(|visit| measure(visit, setting)))?;
    let row = |row: String, published, pace: &Pace| Row {
        row,
        unit: "MB/s",
        published: Some(published),
        measured: pace.mib_per_second(),
        bound: Bound::Shown,
    };
    let named = PUBLISHED.iter().zip(&paces);
    let mut rows: Vec<_> =
        named.map(|((kib, mb), pace)| row(format!("{kib} KiB"), *mb, pace)).collect();
    let (kib, mb) = PUBLISHED[0];
    rows.push(row(format!("{kib} KiB, a sync after each"), mb, &synced));
    let points: Vec<_> =
        paces.iter().map(|pace| ((pace.len >> 10) as f64, pace.mib_per_second())).collect();
    let best = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let enough = points.iter().find(|p| p.1 >= ENOUGH * best).map_or(0.0, |p| p.0);
    let meaning = format!(
        "Writes that the pool makes durable together reach {:.0} % of its best ({best:.0} MB/s) \
         from {} on: it keeps many blocks under way whatever size they came in. \
         With a sync after each, {kib} KiB get {:.2} MB/s: one txg for every write.",
        100.0 * ENOUGH,
        size_in_words(enough),
        synced.mib_per_second(),
    );
    let place = target.describe(&EXPERIMENT);
    let charts = vec![chart("Bandwidth of writes to a volume, synced in the end", points)];
    Ok(Outcome { experiment: EXPERIMENT.name, place, rows, charts, texts: Vec::new(), meaning })
}

/// All sizes, and the smallest with a sync after each write.
fn measure(visit: &Visit<'_>, setting: &Setting) -> Result<(Vec<Pace>, Pace), LabError> {
    let volume = visit.volume("volume", visit.budget()?, BLOCK_BYTES)?;
    let mut disk = VolumeBare::new(volume, visit.pool.rt())?;
    let size = disk.size();
    let mut paces = Vec::new();
    for (kib, _) in PUBLISHED.iter().filter(|(kib, _)| kib << 10 <= size) {
        (setting.progress)(&format!("writes of {kib} KiB"));
        let (len, begin) = (kib << 10, disk.now());
        let until = Until { seconds: setting.seconds, count: u64::MAX };
        let pace = pace(&mut disk, ModelKind::Write, len, until, in_a_row(size, len))
            .map_err(|e| LabError::new(format!("a write of {len} bytes failed"), e))?;
        visit.pool.sync().map_err(StreamError::from)?;
        paces.push(Pace { seconds: (disk.now() - begin).as_secs_f64(), ..pace });
    }
    (setting.progress)("writes with a sync after each");
    let (len, begin) = (u64::from(BLOCK_BYTES), disk.now());
    let (mut next, mut count) = (in_a_row(size, len), 0);
    let seconds = loop {
        disk.write(next(), len).map_err(|e| LabError::new("a write failed", e))?;
        visit.pool.sync().map_err(StreamError::from)?;
        count += 1;
        let seconds = (disk.now() - begin).as_secs_f64();
        if seconds >= setting.seconds {
            break seconds;
        }
    };
    Ok((paces, Pace { count, len, seconds, cpu_seconds: None }))
}
