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
//! Small blocks are looked at one in eight, and that one is counted as eight; but not in `read`,
//! and not in a simulation, where everything is exact.

use device::{AtomicHistogram, Histogram};
use rt::Rt;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Blocks of fewer bytes are sampled.
pub(crate) const SMALL: usize = 32 << 10;

/// Of so many small blocks one is looked at.
pub(crate) const SAMPLE: u32 = 8;

thread_local! {
    /// Small blocks seen, for each thing that is sampled.
    static TICKS: [Cell<u32>; 5] = const { [const { Cell::new(0) }; 5] };
}

/// Things that are sampled each for itself: who looked at every eighth block of two that take turns
/// would only ever see one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sampled {
    Write,
    Verify,
    Decrypt,
    Decompress,
    Io,
}

/// As how many a block of so many bytes counts; 0: it is not looked at.
pub(crate) fn weight(rt: &Rt, what: Sampled, bytes: usize) -> u64 {
    if bytes >= SMALL || rt.is_simulated() {
        return 1;
    }
    TICKS.with(|ticks| {
        let cell = &ticks[what as usize];
        let tick = cell.get();
        cell.set(tick.wrapping_add(1));
        if tick.is_multiple_of(SAMPLE) { u64::from(SAMPLE) } else { 0 }
    })
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What went through one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageCount {
    /// Bytes of the blocks, as they went in.
    pub bytes: u64,
    /// Nanoseconds of each block; how many there were, too.
    pub time_ns: Histogram,
}

impl StageCount {
    /// Adds another one's.
    pub fn merge(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time_ns.merge(&other.time_ns);
    }
}

/// Counts what goes through one stage.
#[derive(Debug, Default)]
pub(crate) struct StageMeter {
    bytes: AtomicU64,
    time_ns: AtomicHistogram,
}

impl StageMeter {
    /// A block of so many bytes took so long, and stands for `weight` of them.
    pub(crate) fn add(&self, time: Duration, bytes: usize, weight: u64) {
        self.bytes.fetch_add((bytes as u64).wrapping_mul(weight), Relaxed);
        self.time_ns.add_many(nanos(time), weight);
    }

    pub(crate) fn snapshot(&self) -> StageCount {
        StageCount { bytes: self.bytes.load(Relaxed), time_ns: self.time_ns.snapshot() }
    }

    pub(crate) fn reset(&self) {
        self.bytes.store(0, Relaxed);
        self.time_ns.reset();
    }
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

    /// The time, when somebody counts.
    pub(crate) fn now(&self) -> Option<Duration> {
        self.on.load(Relaxed).then(|| self.rt.now())
    }

    /// A block of so many bytes came from its device after `time`.
    pub(crate) fn was_read(&self, time: Duration, bytes: u64) {
        self.read.add(time, usize::try_from(bytes).unwrap_or(usize::MAX), 1);
    }

    /// Does `work` with a block of so many bytes.
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

    /// What went through so far, by name, in the order of the stages.
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

    #[test]
    fn small_blocks_are_sampled_each_stage_for_itself() {
        let stages = ReadStages::new(Rt::real());
        for _ in 0..SAMPLE * 5 {
            stages.watch(Sampled::Verify, 512, || ());
            stages.watch(Sampled::Decompress, 512, || ());
        }
        stages.watch(Sampled::Verify, SMALL, || ());
        stages.was_read(Duration::from_micros(3), 512);
        stages.set_counting(false);
        stages.watch(Sampled::Verify, SMALL, || ());
        assert_eq!(stages.now(), None);
        let counts = stages.snapshot();
        let seen: Vec<_> = counts.iter().map(|(n, c)| (*n, c.time_ns.count(), c.bytes)).collect();
        let expected = [
            ("read", 1, 512),
            ("verify", 41, 40 * 512 + SMALL as u64),
            ("decrypt", 0, 0),
            ("decompress", 40, 40 * 512),
        ];
        assert_eq!(seen, expected);
    }
}
