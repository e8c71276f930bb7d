//! The time of the threads of the write pipeline, by kind of thread and stage.
//!
//! ```text
//! application   changes blocks in memory, in transactions
//! spa_sync      syncs a txg: serial work, metadata, the uberblock
//! leaf_sync     the workers of a sync's level 0: compress, checksum, allocate
//! zio_issue     blocking device writes (none by default: devices are written asynchronously)
//! ```
//!
//! A block costs one look at the clock before its first stage and one after each, and a few relaxed
//! atomics; small blocks are looked at one in 16 and counted as this many, but in a simulation,
//! where everything is exact. Always on, but to measure what it costs.
//!
//! *At once* is the mean number of threads (or of I/Os) that are in a stage while any is: the
//! time spent in it, of all together, over the time in which at least one was. Where small blocks
//! are sampled it is that of the sample, and so a lower bound.

use crate::stages::{Sampled, StageCount, StageMeter, nanos, weight};
use rt::Rt;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The kind of a thread, as far as the pipeline is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadKind {
    /// The program that uses the engine.
    #[default]
    Application,
    /// The thread that syncs txgs.
    SpaSync,
    /// A worker of a sync's level 0.
    LeafSync,
    /// A thread that issues device writes; or, when there are none, the devices' queues.
    ZioIssue,
}

impl ThreadKind {
    /// All, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Application, Self::SpaSync, Self::LeafSync, Self::ZioIssue];

    /// That of the calling thread, which is its mark.
    fn here() -> Self {
        Self::ALL.get(usize::from(rt::mark())).copied().unwrap_or_default()
    }
}

impl fmt::Display for ThreadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Application => "application",
            Self::SpaSync => "spa_sync",
            Self::LeafSync => "leaf_sync",
            Self::ZioIssue => "zio_issue",
        })
    }
}

/// An activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Compressing.
    Compress,
    /// Summing, and before it encrypting, in datasets that are encrypted.
    Checksum,
    /// Finding space, and building the pointer.
    Allocate,
    /// Waiting for devices.
    Io,
}

const STAGES: usize = 4;

/// Names of the stages, in the order of [`Stage`].
const STAGE_NAMES: [&str; STAGES] = ["compress", "checksum", "allocate", "write"];

/// Makes the calling thread one of a kind, until it is dropped.
#[derive(Debug)]
pub struct Role<'a> {
    profiler: Option<&'a Profiler>,
    kind: ThreadKind,
    /// The mark of the thread before.
    before: u8,
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        rt::replace_mark(self.before);
        if let Some(profiler) = self.profiler {
            profiler.of(self.kind).threads.fetch_sub(1, Relaxed);
        }
    }
}

/// One stage of one kind of thread.
#[derive(Debug, Default)]
struct Meter {
    /// All of it, with the weights of samples.
    seen: StageMeter,
    /// Time that was watched: what `at once` is made of.
    watched: AtomicU64,
    /// Time in which a thread was in it.
    busy: AtomicU64,
    inside: AtomicU32,
    since: AtomicU64,
}

impl Meter {
    fn enter(&self, now: Duration) {
        if self.inside.fetch_add(1, Relaxed) == 0 {
            self.since.store(nanos(now), Relaxed);
        }
    }

    /// Ends a visit with a block of this many bytes, which represents `weight` of them.
    fn leave(&self, began: Duration, now: Duration, bytes: usize, weight: u64) {
        let time = now.saturating_sub(began);
        self.seen.add(time, bytes, weight);
        self.watched.fetch_add(nanos(time), Relaxed);
        // While this one is inside, no other is the first to enter: `since` does not change.
        let since = self.since.load(Relaxed);
        if self.inside.fetch_sub(1, Relaxed) == 1 {
            self.busy.fetch_add(nanos(now).saturating_sub(since), Relaxed);
        }
    }

    fn snapshot(&self) -> StageProfile {
        let time = |n: &AtomicU64| Duration::from_nanos(n.load(Relaxed));
        let seen = self.seen.snapshot();
        StageProfile {
            count: seen.count,
            time: Duration::from_nanos(seen.time_ns.sum),
            watched: time(&self.watched),
            busy: time(&self.busy),
        }
    }
}

#[derive(Debug, Default)]
struct KindCounters {
    threads: AtomicU64,
    threads_most: AtomicU64,
    stages: [Meter; STAGES],
}

/// The counters of a pool.
#[derive(Debug)]
pub struct Profiler {
    rt: Rt,
    on: AtomicBool,
    kinds: [KindCounters; 4],
}

impl Profiler {
    /// Nothing has happened.
    #[must_use]
    pub fn new(rt: &Rt) -> Self {
        Self { rt: rt.clone(), on: AtomicBool::new(true), kinds: Default::default() }
    }

    /// Switches the counting off, to measure what it costs, or on again.
    pub fn set_counting(&self, on: bool) {
        self.on.store(on, Relaxed);
    }

    fn of(&self, kind: ThreadKind) -> &KindCounters {
        &self.kinds[kind as usize]
    }

    fn meter(&self, kind: ThreadKind, stage: Stage) -> &Meter {
        &self.of(kind).stages[stage as usize]
    }

    /// Makes the calling thread one of this kind, and counts it.
    #[must_use]
    pub fn role(&self, kind: ThreadKind) -> Role<'_> {
        let of = self.of(kind);
        let now = of.threads.fetch_add(1, Relaxed) + 1;
        of.threads_most.fetch_max(now, Relaxed);
        Role { profiler: Some(self), kind, before: rt::replace_mark(kind as u8) }
    }

    /// Watches the stages of one block of this many bytes, on the calling thread.
    pub(crate) fn block(&self, bytes: usize) -> Laps<'_> {
        let on = self.on.load(Relaxed);
        let weight = if on { weight(&self.rt, Sampled::Write, bytes) } else { 0 };
        let last = if weight == 0 { Duration::ZERO } else { self.rt.now() };
        Laps { profiler: self, kind: ThreadKind::here(), bytes, weight, last }
    }

    /// Does `work` with this many bytes as this stage of the calling thread's kind.
    pub fn watch<T>(&self, stage: Stage, bytes: usize, work: impl FnOnce() -> T) -> T {
        let span = self.span(ThreadKind::here(), stage, bytes, 1);
        let out = work();
        if let Some(span) = span {
            self.end(span);
        }
        out
    }

    /// Begins a write that no thread waits for; or that one will, which watches it itself
    /// (`by_thread`): then the time is only told by [`Self::end`]. `None` when nothing is counted,
    /// or not this one.
    pub(crate) fn begin_write(&self, bytes: usize, by_thread: bool) -> Option<Span> {
        let on = self.on.load(Relaxed);
        let weight = if on { weight(&self.rt, Sampled::Io, bytes) } else { 0 };
        if weight == 0 {
            return None;
        }
        let (kind, stage) = (ThreadKind::ZioIssue, Stage::Io);
        if by_thread {
            let began = self.rt.now();
            return Some(Span { kind, stage, bytes, weight, began, is_metered: false });
        }
        self.span(kind, stage, bytes, weight)
    }

    fn span(&self, kind: ThreadKind, stage: Stage, bytes: usize, weight: u64) -> Option<Span> {
        if !self.on.load(Relaxed) {
            return None;
        }
        let began = self.rt.now();
        self.meter(kind, stage).enter(began);
        Some(Span { kind, stage, bytes, weight, began, is_metered: true })
    }

    /// How long it was, and how many it represents.
    pub(crate) fn end(&self, span: Span) -> (Duration, u64) {
        let now = self.rt.now();
        if span.is_metered {
            self.meter(span.kind, span.stage).leave(span.began, now, span.bytes, span.weight);
        }
        (now.saturating_sub(span.began), span.weight)
    }

    /// The counts of the stages so far, of all kinds of threads together.
    #[must_use]
    pub fn stages(&self) -> Vec<(&'static str, StageCount)> {
        let all = STAGE_NAMES.iter().enumerate().map(|(stage, name)| {
            let mut sum = StageCount::default();
            self.kinds.iter().for_each(|k| sum.merge(&k.stages[stage].seen.snapshot()));
            (*name, sum)
        });
        all.collect()
    }

    /// The counts so far.
    #[must_use]
    pub fn snapshot(&self) -> Profile {
        let kinds = ThreadKind::ALL.map(|kind| {
            let of = self.of(kind);
            let [compress, checksum, allocate, io] =
                [0, 1, 2, 3].map(|stage: usize| of.stages[stage].snapshot());
            let threads = of.threads_most.load(Relaxed);
            KindProfile { kind, threads, compress, checksum, allocate, io }
        });
        Profile { kinds: kinds.to_vec() }
    }

    /// Restarts the count of the most threads at a time; returns the counts so far, for
    /// [`Profile::since`].
    pub fn begin(&self) -> Profile {
        for of in &self.kinds {
            of.threads_most.store(of.threads.load(Relaxed), Relaxed);
        }
        self.snapshot()
    }
}

/// A stage under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    kind: ThreadKind,
    stage: Stage,
    bytes: usize,
    weight: u64,
    began: Duration,
    /// Its stage counts it.
    is_metered: bool,
}

/// The stages of one block, one after the other.
pub(crate) struct Laps<'a> {
    profiler: &'a Profiler,
    kind: ThreadKind,
    bytes: usize,
    /// Blocks this one represents; 0: it is not looked at.
    weight: u64,
    last: Duration,
}

impl Laps<'_> {
    /// Does `work` as the next stage.
    pub(crate) fn stage<T>(&mut self, stage: Stage, work: impl FnOnce() -> T) -> T {
        if self.weight == 0 {
            return work();
        }
        let meter = self.profiler.meter(self.kind, stage);
        meter.enter(self.last);
        let out = work();
        let now = self.profiler.rt.now();
        meter.leave(self.last, now, self.bytes, self.weight);
        self.last = now;
        out
    }
}

/// One stage of one kind of thread. As JSON, times are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageProfile {
    /// How often: blocks, or I/Os.
    pub count: u64,
    /// Time in it, of all threads together.
    #[serde(rename = "time_ns", with = "as_nanos")]
    pub time: Duration,
    /// The part of that time that `at_once` is made of.
    #[serde(rename = "watched_ns", with = "as_nanos")]
    pub watched: Duration,
    /// Time in which at least one was in it.
    #[serde(rename = "busy_ns", with = "as_nanos")]
    pub busy: Duration,
}

/// Durations as nanoseconds.
mod as_nanos {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(super::nanos(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

impl StageProfile {
    /// Mean number of threads or I/Os in it, while there is any; 0 when there never was.
    #[must_use]
    pub fn at_once(&self) -> f64 {
        if self.busy.is_zero() { 0.0 } else { self.watched.as_secs_f64() / self.busy.as_secs_f64() }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            time: self.time.saturating_sub(earlier.time),
            watched: self.watched.saturating_sub(earlier.watched),
            busy: self.busy.saturating_sub(earlier.busy),
        }
    }
}

/// One kind of thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KindProfile {
    /// Which.
    pub kind: ThreadKind,
    /// Threads of it, at most at the same time.
    pub threads: u64,
    /// Compressing.
    pub compress: StageProfile,
    /// Summing, and before it encrypting, in datasets that are encrypted.
    pub checksum: StageProfile,
    /// Finding space.
    pub allocate: StageProfile,
    /// I/O.
    pub io: StageProfile,
}

impl KindProfile {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            kind: self.kind,
            threads: self.threads,
            compress: self.compress.since(&earlier.compress),
            checksum: self.checksum.since(&earlier.checksum),
            allocate: self.allocate.since(&earlier.allocate),
            io: self.io.since(&earlier.io),
        }
    }

    /// Its stages, by name, in their order.
    #[must_use]
    pub fn stages(&self) -> [(&'static str, &StageProfile); STAGES] {
        let [a, b, c, d] = STAGE_NAMES;
        [(a, &self.compress), (b, &self.checksum), (c, &self.allocate), (d, &self.io)]
    }

    /// Seconds of a stage per thread.
    #[must_use]
    pub fn per_thread(&self, stage: &StageProfile) -> f64 {
        stage.time.as_secs_f64() / self.threads.max(1) as f64
    }
}

/// The counts of all kinds of threads, in the order of [`ThreadKind::ALL`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// One entry for each kind.
    pub kinds: Vec<KindProfile>,
}

impl Profile {
    /// One kind.
    #[must_use]
    pub fn of(&self, kind: ThreadKind) -> Option<&KindProfile> {
        self.kinds.iter().find(|k| k.kind == kind)
    }

    /// The difference to `earlier`; of the threads it is the most there ever were.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |kind| earlier.of(kind).copied().unwrap_or_default();
        Self { kinds: self.kinds.iter().map(|k| k.since(&before(k.kind))).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::{SAMPLE, SMALL_BYTES};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn stages_are_timed_and_counted_at_once() {
        let profile = Rt::simulate(1, |rt| {
            let profiler = Profiler::new(rt);
            let work = |n: u32| {
                let _role = profiler.role(ThreadKind::LeafSync);
                let mut laps = profiler.block(100);
                laps.stage(Stage::Compress, || rt.sleep(MS * 2));
                laps.stage(Stage::Checksum, || rt.sleep(MS * n));
                Ok::<(), ()>(())
            };
            rt.for_each_parallel(2, [3, 1], work).expect("work");
            profiler.watch(Stage::Io, 300, || rt.sleep(MS * 5));
            profiler.snapshot()
        });
        let leaf = profile.of(ThreadKind::LeafSync).expect("kind");
        assert_eq!((leaf.threads, leaf.checksum.count), (2, 2));
        assert_eq!((leaf.compress.time, leaf.compress.busy), (MS * 4, MS * 2));
        assert_eq!((leaf.checksum.time, leaf.checksum.busy), (MS * 4, MS * 3));
        assert!((leaf.checksum.at_once() - 4.0 / 3.0).abs() < 1e-9);
        assert!((leaf.per_thread(&leaf.checksum) - 0.002).abs() < 1e-9);
        let app = profile.of(ThreadKind::Application).expect("kind");
        assert_eq!((app.io.count, app.io.time), (1, MS * 5));
        let text = serde_json::to_string(&profile).expect("plain data");
        assert!(text.contains(r#""time_ns":5000000"#), "{text}");
        assert_eq!(serde_json::from_str::<Profile>(&text).expect("its own text"), profile);
        let none = profile.since(&profile);
        assert_eq!(
            none.of(ThreadKind::LeafSync).map(|k| (k.threads, k.checksum.count)),
            Some((2, 0))
        );
    }

    #[test]
    fn stages_are_those_of_all_threads_and_can_be_switched_off() {
        let stages = Rt::simulate(1, |rt| {
            let profiler = Profiler::new(rt);
            for kind in [ThreadKind::LeafSync, ThreadKind::SpaSync] {
                let _role = profiler.role(kind);
                profiler.block(100).stage(Stage::Checksum, || rt.sleep(MS));
            }
            profiler.set_counting(false);
            profiler.block(100).stage(Stage::Checksum, || rt.sleep(MS));
            profiler.watch(Stage::Io, 100, || rt.sleep(MS));
            profiler.stages()
        });
        let seen: Vec<_> = stages.iter().map(|(n, c)| (*n, c.bytes, c.time_ns.sum)).collect();
        let expected =
            [("compress", 0, 0), ("checksum", 200, 2_000_000), ("allocate", 0, 0), ("write", 0, 0)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn small_blocks_are_sampled_and_counted_as_all() {
        let profiler = Profiler::new(&Rt::real());
        for _ in 0..SAMPLE * 10 {
            profiler.block(512).stage(Stage::Checksum, || ());
        }
        for _ in 0..10 {
            profiler.block(SMALL_BYTES as usize).stage(Stage::Checksum, || ());
        }
        let app = profiler.snapshot();
        let count = app.of(ThreadKind::Application).expect("kind").checksum.count;
        assert_eq!(count, SAMPLE * 10 + 10);
        // Earlier counts are separated from new ones, and no counters begin again.
        let before = profiler.begin();
        profiler.block(SMALL_BYTES as usize).stage(Stage::Checksum, || ());
        let now = profiler.snapshot();
        let count = |p: &Profile| p.of(ThreadKind::Application).expect("kind").checksum.count;
        assert_eq!((count(&now), count(&now.since(&before))), (SAMPLE * 10 + 11, 1));
    }
}
