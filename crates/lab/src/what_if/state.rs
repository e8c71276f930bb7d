//! In what state a pool is when the load begins.

use super::Question;
use super::load::Files;
use crate::content::{CONTENTS, contents};
use crate::disk::Preset;
use crate::error::LabError;
use crate::stream::{StreamError, write_record};
use engine::inside::rt::{Rng as _, Xoshiro256};
use engine::live::{Devices, LivePool, OfflineMode, OwnChanges};
use std::fmt;
use std::str::FromStr;

/// In what state a pool is when the load begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was just made, and has nothing but the files of the load.
    New,
    /// 80 % of it are allocated, and as many records as it has were overwritten at random places.
    Full,
    /// A disk is missing.
    Degraded,
    /// A disk that missed all that is in the pool has come back, and is filled meanwhile.
    Resilvering,
}

/// What is allocated of a full pool, in percent.
const FULL_PERCENT: f64 = 80.0;
/// A full pool has room for no less than this: of a small one, a pool keeps a large part back.
const SMALLEST: f64 = (2_u64 << 30) as f64;
/// What a pool keeps for itself of each disk, labels and rounded metaslabs.
const OVERHEAD: u64 = 32 << 20;
/// The part of what a pool holds that is written between two syncs while it is filled, and that may
/// be dirty, as one in this many bytes: what was freed is free again only some txgs later.
const BATCH_PART: u64 = 64;

impl State {
    /// Whether a disk is missing while the files are written, or from then on.
    pub(super) fn lacks_a_disk(self) -> bool {
        matches!(self, Self::Degraded | Self::Resilvering)
    }

    /// What may be dirty.
    pub(super) fn dirty_max(self, q: &Question) -> u64 {
        match self {
            Self::Full => ((room(q) * q.compression) as u64 / BATCH_PART).min(super::DIRTY_MAX),
            // What is written again before it was written to the disks costs nothing.
            _ => q.bytes.clamp(16 << 20, super::DIRTY_MAX),
        }
    }

    /// The disks: of a full pool so small that the files fill them.
    pub(super) fn disk(self, q: &Question) -> Preset {
        let mut disk = q.disk.clone();
        if self == Self::Full {
            // A filler takes what is left.
            let size = (room(q) * q.layout.copies() / q.disks as f64) as u64 + OVERHEAD;
            disk.capacity_bytes = size.min(disk.capacity_bytes) >> 20 << 20;
        }
        disk
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "new",
            Self::Full => "full",
            Self::Degraded => "degraded",
            Self::Resilvering => "resilvering",
        })
    }
}

impl FromStr for State {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let all = [Self::New, Self::Full, Self::Degraded, Self::Resilvering];
        all.into_iter().find(|state| state.to_string() == text).ok_or_else(|| {
            LabError::new(format!("no state {text:?}"), "it is not one that can be simulated")
                .hint("new, full, degraded, resilvering")
        })
    }
}

/// Brings a new pool into its state; its files.
pub(super) fn prepare(
    pool: &LivePool,
    q: &Question,
    devices: &Devices,
) -> Result<Files, StreamError> {
    let mut rng = Xoshiro256::seeded(q.seed);
    let blocks = contents(u64::from(q.record), q.compression, CONTENTS, &mut rng);
    let content = |n: u64| &blocks[(n % blocks.len() as u64) as usize];
    let files = Files::new(pool, q)?;
    let first = pool.stats().vdevs.into_iter().find(|v| v.name.ends_with("disk0"));
    let first = first.map_or(0, |v| v.guid);
    if q.state == State::Resilvering {
        pool.offline_leaf(first, OfflineMode::OfflineForNow)?;
    }
    let records = Files::records(q);
    if q.has_files() {
        for file in 0..q.threads {
            (0..records).try_for_each(|n| files.write(file, n, content(n)))?;
        }
    }
    pool.sync()?;
    match q.state {
        State::New => {}
        State::Full => {
            let filler = fill(pool, q, |n| content(n))?;
            age(pool, q, &files, filler, |n| content(n), &mut rng)?;
        }
        State::Degraded => pool.offline_leaf(first, OfflineMode::Offline)?,
        State::Resilvering => pool.online_leaf(first, OwnChanges::GiveUp, None, devices)?,
    }
    Ok(files)
}

/// Bytes for which a full pool has room, compressed as they are.
fn room(q: &Question) -> f64 {
    let files = q.bytes as f64 / q.compression * 1.25 / (FULL_PERCENT / 100.0);
    files.max(SMALLEST)
}

const FILLER: &str = "h/filler";

/// Writes another file until the pool is full; the records that it has then.
fn fill<'a>(
    pool: &LivePool,
    q: &Question,
    content: impl Fn(u64) -> &'a std::sync::Arc<engine::inside::zio::Block>,
) -> Result<u64, StreamError> {
    let percent = || {
        let root = pool.stats().vdevs.into_iter().next();
        root.map_or(100.0, |v| v.allocated_bytes as f64 * 100.0 / (v.size_bytes as f64).max(1.0))
    };
    let disks: u64 = q.state.disk(q).capacity_bytes * q.disks as u64;
    let most = (disks as f64 * q.compression) as u64 / u64::from(q.record);
    pool.create_volume(FILLER, most * u64::from(q.record), q.record, Vec::new())?;
    let volume = pool.volume(FILLER)?;
    let (mut records, batch) = (0, (most / BATCH_PART).max(1));
    while records < most && percent() < FULL_PERCENT {
        let end = (records + batch).min(most);
        (records..end).try_for_each(|n| write_record(&volume, n, content(n)))?;
        records = end;
        pool.sync()?;
    }
    Ok(records)
}

/// Overwrites as many records as there are, at random places.
fn age<'a>(
    pool: &LivePool,
    q: &Question,
    files: &Files,
    filler: u64,
    content: impl Fn(u64) -> &'a std::sync::Arc<engine::inside::zio::Block>,
    rng: &mut Xoshiro256,
) -> Result<(), StreamError> {
    let volume = pool.volume(FILLER)?;
    let each = Files::records(q);
    let all = each * q.threads as u64 + filler;
    for n in 0..all {
        let record = rng.below(all);
        match record.checked_sub(filler) {
            None => write_record(&volume, record, content(n))?,
            Some(at) => files.write((at / each) as usize, at % each, content(n))?,
        }
        if n % (all / BATCH_PART).max(1) == 0 {
            pool.sync()?;
        }
    }
    Ok(pool.sync()?)
}
