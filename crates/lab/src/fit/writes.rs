//! What only writes show: whether a disk has a write cache and how large it is, how long its heads
//! settle before they write, and what flash needs to write a page.
//!
//! - A small write of one place again and again: without a cache it comes a turn after the last
//!   one; with it, as soon as the bus has carried it.
//! - Random writes into an empty cache are as fast until it is full. What it took until then, less
//!   what the disk wrote meanwhile, is its size.
//! - Without a cache, random writes take as long as random reads but for the settling.
//! - Long random writes to flash, many at once and for long, come as fast as pages are written.

use super::{Effort, Fitted, SMALL, until};
use crate::disk::{Preset, Rotating, Spec, Ssd};
use crate::error::LabError;
use crate::raw_disk::pace;
use engine::inside::device::ModelKind;
use engine::inside::rt::{Rng, Xoshiro256};

/// Bytes of the writes that fill a cache.
const PIECE: u64 = 64 << 10;
/// How many are timed together.
const BATCH: usize = 16;
/// The largest cache that is looked for.
const LARGEST: u64 = 1 << 30;
/// A batch takes this many times as long as the fastest when the cache is full.
const SLOWER: f64 = 8.0;
/// Bytes of a long write, how many are under way, and how many of them there are where time allows:
/// a buffer of hundreds of MiB has to be full first.
const LONG: u64 = 128 << 10;
const UNDER_WAY: usize = 32;
const LEAST: u64 = 32_768;

/// The same preset, with what writes say. What is on the disk is lost.
///
/// # Errors
/// When it cannot be written.
pub fn with_writes(
    disk: &mut dyn Fitted,
    mut preset: Preset,
    effort: Effort,
    progress: &dyn Fn(&str),
) -> Result<Preset, LabError> {
    progress("writes");
    let failed = |e| LabError::new("a write failed", e);
    match &mut preset.disk {
        Spec::Rotating(spec) => platter(disk, spec, effort).map_err(failed)?,
        Spec::Ssd(spec) => flash(disk, spec, effort).map_err(failed)?,
        Spec::Lun(_) | Spec::Lanes(_) => {}
    }
    preset.source = "zinc lab fit --write: reads and writes; track switches are assumed".to_owned();
    Ok(preset)
}

/// Seconds of a small write whose place was written just before.
fn same_place(disk: &mut dyn Fitted, effort: Effort) -> std::io::Result<f64> {
    let pace = pace(disk, ModelKind::Write, SMALL, until(effort), || 0)?;
    Ok(pace.seconds / pace.count.max(1) as f64)
}

fn places(disk: &dyn Fitted, len: u64, count: usize, rng: &mut Xoshiro256) -> Vec<u64> {
    let places = (disk.size() / len).max(1);
    (0..count).map(|_| rng.below(places) * len).collect()
}

fn platter(disk: &mut dyn Fitted, spec: &mut Rotating, effort: Effort) -> std::io::Result<()> {
    let rotation = 60.0 / spec.rpm;
    spec.write_cache = same_place(disk, effort)? < rotation / 2.0;
    let mut rng = Xoshiro256::seeded(3);
    if spec.write_cache {
        spec.write_cache_bytes = cache(disk, &mut rng)?;
        return Ok(());
    }
    spec.write_cache_bytes = 0;
    let count = effort.requests.clamp(64, 2000) as usize;
    let offsets = places(disk, SMALL, count, &mut rng);
    let reads = disk.read_many(1, SMALL, &offsets)? / count as f64;
    let writes = disk.write_many(1, SMALL, &offsets)? / count as f64;
    spec.write_settle_us = ((writes - reads) * 1e6).max(0.0);
    Ok(())
}

/// Bytes of a write cache that is on.
fn cache(disk: &mut dyn Fitted, rng: &mut Xoshiro256) -> std::io::Result<u64> {
    let (mut taken, mut fastest, mut times) = (0, f64::INFINITY, Vec::new());
    while taken < LARGEST {
        let offsets = places(disk, PIECE, BATCH, rng);
        let seconds = disk.write_many(1, PIECE, &offsets)?;
        fastest = fastest.min(seconds);
        times.push(seconds);
        taken += BATCH as u64 * PIECE;
        let last = &times[times.len().saturating_sub(3)..];
        if times.len() > 3 && last.iter().all(|time| *time > SLOWER * fastest) {
            break;
        }
    }
    // Three batches were slow: in that time, and as fast before, the disk wrote back.
    let slow: f64 = times.iter().rev().take(3).sum::<f64>().max(1e-9);
    let written_back = 3.0 * BATCH as f64 * PIECE as f64 / slow;
    let before: f64 = times.iter().rev().skip(3).sum();
    let held = taken as f64 - written_back * (before + slow);
    Ok((held.max(0.0) as u64).max(PIECE) / PIECE * PIECE)
}

fn flash(disk: &mut dyn Fitted, spec: &mut Ssd, effort: Effort) -> std::io::Result<()> {
    let alone = same_place(disk, Effort { requests: effort.requests.min(64), ..effort })?;
    let mut rng = Xoshiro256::seeded(3);
    let mut rates = Vec::new();
    let (mut written, mut seconds) = (0, 0.0);
    while written < LEAST || (written < effort.requests && seconds < effort.seconds) {
        let offsets = places(disk, LONG, 16 * UNDER_WAY, &mut rng);
        let took = disk.write_many(UNDER_WAY, LONG, &offsets)?;
        rates.push(offsets.len() as f64 * LONG as f64 / took.max(1e-9));
        written += offsets.len() as u64;
        seconds += took;
        if seconds > 4.0 * effort.seconds {
            break;
        }
    }
    // The later half: the buffer is full by then.
    let later = &rates[rates.len() / 2..];
    let rate = later.iter().sum::<f64>() / later.len().max(1) as f64;
    spec.program_us = spec.units as f64 * spec.page_bytes as f64 / rate.max(1.0) * 1e6;
    spec.write_cache = alone * 1e6 < 0.8 * spec.program_us;
    if !spec.write_cache {
        // What one write takes beyond what many at once say of each.
        let carried = SMALL as f64 / spec.bus_bytes_per_second * 1e6;
        let model = spec.command_us + carried + spec.program_us + spec.latency_us;
        spec.write_latency_us = (alone * 1e6 - model).max(0.0);
    }
    Ok(())
}
