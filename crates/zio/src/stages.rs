//! Stages that blocks go through: how many, how many bytes, and how long each took.
//!
//! Those of writing belong to kinds of threads ([`crate::profile`]); those of reading are here:
//!
//! ```text
//! read -> (verify) -> decrypt -> decompress
//! ```
//!
//! *Read* is what the reader waits for the devices, and verifying happens within it. A block of a
//! batch takes as long as the whole batch: so the sum of the times over the time that went by is
//! the number of blocks that were being read at once.
//!
//! Small blocks are looked at one in 16, and that one is counted as this many, but not in a
//! simulation, where everything is exact; in `read` only the times are sampled, and only where one
//! block is read by itself.

use device::{AtomicHistogram, Histogram, SMALL_BYTES, sample_weight};
use rt::Rt;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

thread_local! {
    /// Small blocks seen, for each thing that is sampled.
    static TICKS: [Cell<u64>; 6] = const { [const { Cell::new(0) }; 6] };
}

/// Things that are sampled each for itself: a sampler that looked at every second block of two that
/// take turns would only ever see one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sampled {
    Write,
    Verify,
    Decrypt,
    Decompress,
    Io,
    Read,
}

/// As how many a block of this many bytes counts; 0: it is not looked at.
pub(crate) fn weight(rt: &Rt, what: Sampled, bytes: usize) -> u64 {
    // Large ones are not part of the count: small ones among them are sampled as evenly.
    if bytes as u64 >= SMALL_BYTES {
        return 1;
    }
    TICKS.with(|ticks| {
        let cell = &ticks[what as usize];
        let tick = cell.get();
        cell.set(tick.wrapping_add(1));
        sample_weight(rt, tick, bytes as u64)
    })
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The counts of one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageCount {
    /// Blocks.
    pub count: u64,
    /// Their bytes, as they went in.
    pub bytes: u64,
    /// Nanoseconds of each.
    pub time_ns: Histogram,
}

impl StageCount {
    /// Adds another one's.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time_ns.merge(&other.time_ns);
    }
}

/// Counts what goes through one stage.
#[derive(Debug, Default)]
pub(crate) struct StageMeter {
    count: AtomicU64,
    bytes: AtomicU64,
    time_ns: AtomicHistogram,
}

impl StageMeter {
    /// A block of `bytes` bytes took `time`, and represents `weight` of them.
    pub(crate) fn add(&self, time: Duration, bytes: usize, weight: u64) {
        self.count(weight, (bytes as u64).wrapping_mul(weight));
        self.time_ns.add_many(nanos(time), weight);
    }

    fn count(&self, blocks: u64, bytes: u64) {
        self.count.fetch_add(blocks, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> StageCount {
        let (count, bytes) = (self.count.load(Relaxed), self.bytes.load(Relaxed));
        StageCount { count, bytes, time_ns: self.time_ns.snapshot() }
    }
}

/// Blocks that are being read together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    weight: u64,
    began: Duration,
}

/// How long threads waited for blocks, and how many that represents; 0: it is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) weight: u64,
    pub(crate) time: Duration,
}

/// The stages of reading.
#[derive(Debug)]
pub struct ReadStages {
    rt: Rt,
    on: AtomicBool,
    read: StageMeter,
    /// By [`Sampled`], from `Verify` on.
    work: [StageMeter; 3],
}

impl ReadStages {
    /// Nothing has happened.
    pub(crate) fn new(rt: Rt) -> Self {
        let on = AtomicBool::new(true);
        Self { rt, on, read: StageMeter::default(), work: Default::default() }
    }

    pub(crate) fn set_counting(&self, on: bool) {
        self.on.store(on, Relaxed);
    }

    /// Begins to read this many bytes together. `None` when nothing is counted, or there is nothing
    /// to read.
    pub(crate) fn begin(&self, bytes: usize) -> Option<Reading> {
        if bytes == 0 || !self.on.load(Relaxed) {
            return None;
        }
        let weight = weight(&self.rt, Sampled::Read, bytes);
        Some(Reading { weight, began: if weight > 0 { self.rt.now() } else { Duration::ZERO } })
    }

    /// They have come from their devices.
    pub(crate) fn end(&self, reading: Reading) -> Waited {
        let Reading { weight, began } = reading;
        let time = if weight > 0 { self.rt.now().saturating_sub(began) } else { Duration::ZERO };
        Waited { weight, time }
    }

    /// A block of this many bytes was among them.
    pub(crate) fn was_read(&self, waited: Waited, bytes: u64) {
        self.read.count(1, bytes);
        if waited.weight > 0 {
            self.read.time_ns.add_many(nanos(waited.time), waited.weight);
        }
    }

    /// Does `work` with a block of this many bytes.
    pub(crate) fn watch<T>(&self, what: Sampled, bytes: usize, work: impl FnOnce() -> T) -> T {
        if !self.on.load(Relaxed) {
            return work();
        }
        let weight = weight(&self.rt, what, bytes);
        if weight == 0 {
            return work();
        }
        let began = self.rt.now();
        let out = work();
        let time = self.rt.now().saturating_sub(began);
        if let Some(meter) = self.work.get((what as usize).wrapping_sub(1)) {
            meter.add(time, bytes, weight);
        }
        out
    }

    /// The counts so far, by name, in the order of the stages.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(&'static str, StageCount)> {
        let [verify, decrypt, decompress] = &self.work;
        let all = [
            ("read", &self.read),
            ("verify", verify),
            ("decrypt", decrypt),
            ("decompress", decompress),
        ];
        all.map(|(name, meter)| (name, meter.snapshot())).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::SAMPLE;

    const SMALL: usize = SMALL_BYTES as usize;

    #[test]
    fn small_blocks_are_sampled_each_stage_for_itself() {
        let stages = ReadStages::new(Rt::real());
        let small = || (0..SAMPLE * 5).map(|_| 512);
        for bytes in small() {
            stages.watch(Sampled::Verify, bytes, || ());
            stages.watch(Sampled::Decompress, bytes, || ());
        }
        stages.watch(Sampled::Verify, SMALL, || ());
        // Reads are counted exactly: alone, in a batch, and when no time was taken.
        for bytes in small().skip(1).chain([SMALL]) {
            let reading = stages.begin(bytes).expect("counting");
            stages.was_read(stages.end(reading), bytes as u64);
        }
        stages.set_counting(false);
        stages.watch(Sampled::Verify, SMALL, || ());
        assert!(stages.begin(SMALL).is_none());
        let counts = stages.snapshot();
        let seen: Vec<_> =
            counts.iter().map(|(n, c)| (*n, c.count, c.bytes, c.time_ns.count())).collect();
        let expected = [
            ("read", 80, 79 * 512 + SMALL as u64, 81),
            ("verify", 81, 80 * 512 + SMALL as u64, 81),
            ("decrypt", 0, 0, 0),
            ("decompress", 80, 80 * 512, 80),
        ];
        assert_eq!(seen, expected);
    }
}
