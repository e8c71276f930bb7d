//! What the threads of the write pipeline spend their time on, by kind of thread and stage.
//!
//! ```text
//! application   changes blocks in memory, in transactions
//! spa_sync      syncs a txg: serial work, metadata, the uberblock
//! leaf_sync     the workers of a sync's level 0: compress, checksum, allocate
//! zio_issue     blocking device writes (none by default: devices are written asynchronously)
//! ```
//!
//! Always on. A block costs one look at the clock before its first stage and one after each, and a
//! few relaxed atomics; small blocks are looked at one in eight and counted as so many, but in
//! a simulation, where everything is exact.
//!
//! *At once* is the mean number of threads (or of I/Os) that are in a stage while any is: the
//! time spent in it, of all together, over the time in which at least one was.

use rt::Rt;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Blocks of fewer bytes are sampled.
const SMALL: usize = 32 << 10;

/// Of so many small blocks one is looked at.
const SAMPLE: u32 = 8;

/// What a thread is, as far as the pipeline is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Whoever uses the engine.
    #[default]
    Application,
    /// The thread that syncs txgs.
    SpaSync,
    /// A worker of a sync's level 0.
    LeafSync,
    /// A thread that issues device writes; or, when there are none, the devices' queues.
    ZioIssue,
}

impl Kind {
    /// All, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Application, Self::SpaSync, Self::LeafSync, Self::ZioIssue];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Application => "application",
            Self::SpaSync => "spa_sync",
            Self::LeafSync => "leaf_sync",
            Self::ZioIssue => "zio_issue",
        })
    }
}

/// What time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Compressing.
    Compress,
    /// Summing.
    Checksum,
    /// Finding space, and building the pointer.
    Allocate,
    /// Waiting for devices.
    Io,
}

const STAGES: usize = 4;

thread_local! {
    static KIND: Cell<Kind> = const { Cell::new(Kind::Application) };
    static TICK: Cell<u32> = const { Cell::new(0) };
}

/// Makes the calling thread one of a kind, until it is dropped.
#[derive(Debug)]
pub struct Role<'a> {
    profiler: Option<&'a Profiler>,
    kind: Kind,
    before: Kind,
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        KIND.set(self.before);
        if let Some(profiler) = self.profiler {
            profiler.of(self.kind).threads.fetch_sub(1, Relaxed);
        }
    }
}

/// One stage of one kind of thread.
#[derive(Debug, Default)]
struct Meter {
    count: AtomicU64,
    /// All time, with what samples stand for.
    nanos: AtomicU64,
    /// Time that was watched: what `at once` is made of.
    watched: AtomicU64,
    /// Time in which somebody was in it.
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

    fn leave(&self, began: Duration, now: Duration, weight: u64) {
        let time = nanos(now.saturating_sub(began));
        self.count.fetch_add(weight, Relaxed);
        self.nanos.fetch_add(time * weight, Relaxed);
        self.watched.fetch_add(time, Relaxed);
        // While this one is inside, nobody is the first to enter: `since` stands.
        let since = self.since.load(Relaxed);
        if self.inside.fetch_sub(1, Relaxed) == 1 {
            self.busy.fetch_add(nanos(now).saturating_sub(since), Relaxed);
        }
    }

    fn snapshot(&self) -> StageProfile {
        let get = |n: &AtomicU64| n.load(Relaxed);
        let [time, watched, busy] =
            [&self.nanos, &self.watched, &self.busy].map(|n| Duration::from_nanos(get(n)));
        StageProfile { count: get(&self.count), time, watched, busy }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Debug, Default)]
struct OfKind {
    threads: AtomicU64,
    threads_most: AtomicU64,
    stages: [Meter; STAGES],
}

/// The counters of a pool.
#[derive(Debug)]
pub struct Profiler {
    rt: Rt,
    kinds: [OfKind; 4],
}

impl Profiler {
    /// Nothing has happened.
    #[must_use]
    pub fn new(rt: &Rt) -> Self {
        Self { rt: rt.clone(), kinds: Default::default() }
    }

    fn of(&self, kind: Kind) -> &OfKind {
        &self.kinds[kind as usize]
    }

    fn meter(&self, kind: Kind, stage: Stage) -> &Meter {
        &self.of(kind).stages[stage as usize]
    }

    /// Makes the calling thread one of this kind, and counts it.
    #[must_use]
    pub fn role(&self, kind: Kind) -> Role<'_> {
        let of = self.of(kind);
        let now = of.threads.fetch_add(1, Relaxed) + 1;
        of.threads_most.fetch_max(now, Relaxed);
        Role { profiler: Some(self), kind, before: KIND.replace(kind) }
    }

    /// Watches the stages of one block of so many bytes, on the calling thread.
    pub(crate) fn block(&self, bytes: usize) -> Laps<'_> {
        let mut weight = 1;
        if bytes < SMALL && !self.rt.is_simulated() {
            let tick = TICK.get();
            TICK.set(tick.wrapping_add(1));
            weight = if tick.is_multiple_of(SAMPLE) { u64::from(SAMPLE) } else { 0 };
        }
        let last = if weight == 0 { Duration::ZERO } else { self.rt.now() };
        Laps { profiler: self, kind: KIND.get(), weight, last }
    }

    /// Does `work` as this stage of the calling thread's kind.
    pub fn watch<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let span = self.begin(KIND.get(), stage);
        let out = work();
        self.end(span);
        out
    }

    pub(crate) fn begin(&self, kind: Kind, stage: Stage) -> Span {
        let began = self.rt.now();
        self.meter(kind, stage).enter(began);
        Span { kind, stage, began }
    }

    pub(crate) fn end(&self, span: Span) {
        self.meter(span.kind, span.stage).leave(span.began, self.rt.now(), 1);
    }

    /// What has happened so far.
    #[must_use]
    pub fn snapshot(&self) -> Profile {
        let kinds = Kind::ALL.map(|kind| {
            let of = self.of(kind);
            let [compress, checksum, allocate, io] =
                [0, 1, 2, 3].map(|stage: usize| of.stages[stage].snapshot());
            let threads = of.threads_most.load(Relaxed);
            KindProfile { kind, threads, compress, checksum, allocate, io }
        });
        Profile { kinds: kinds.to_vec() }
    }

    /// Begins to count anew; what is under way counts in part.
    pub fn reset(&self) {
        for of in &self.kinds {
            of.threads_most.store(of.threads.load(Relaxed), Relaxed);
            for m in &of.stages {
                for n in [&m.count, &m.nanos, &m.watched, &m.busy] {
                    n.store(0, Relaxed);
                }
                m.since.store(nanos(self.rt.now()), Relaxed);
            }
        }
    }
}

/// A stage under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    kind: Kind,
    stage: Stage,
    began: Duration,
}

/// The stages of one block, one after the other.
pub(crate) struct Laps<'a> {
    profiler: &'a Profiler,
    kind: Kind,
    /// Blocks this one stands for; 0: it is not looked at.
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
        meter.leave(self.last, now, self.weight);
        self.last = now;
        out
    }
}

/// One stage of one kind of thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageProfile {
    /// How often: blocks, or I/Os.
    pub count: u64,
    /// Time in it, of all threads together.
    pub time: Duration,
    /// The part of that time that `at_once` is made of.
    pub watched: Duration,
    /// Time in which at least one was in it.
    pub busy: Duration,
}

impl StageProfile {
    /// Mean number of threads or I/Os in it, while there is any; 0 when there never was.
    #[must_use]
    pub fn at_once(&self) -> f64 {
        if self.busy.is_zero() { 0.0 } else { self.watched.as_secs_f64() / self.busy.as_secs_f64() }
    }
}

/// One kind of thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindProfile {
    /// Which.
    pub kind: Kind,
    /// Threads of it, at most at the same time.
    pub threads: u64,
    /// Compressing.
    pub compress: StageProfile,
    /// Summing.
    pub checksum: StageProfile,
    /// Finding space.
    pub allocate: StageProfile,
    /// I/O.
    pub io: StageProfile,
}

impl KindProfile {
    /// Seconds of a stage per thread.
    #[must_use]
    pub fn per_thread(&self, stage: &StageProfile) -> f64 {
        stage.time.as_secs_f64() / self.threads.max(1) as f64
    }
}

/// What all kinds of threads did, in the order of [`Kind::ALL`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// One entry for each kind.
    pub kinds: Vec<KindProfile>,
}

impl Profile {
    /// One kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> Option<&KindProfile> {
        self.kinds.iter().find(|k| k.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn stages_are_timed_and_counted_at_once() {
        let profile = Rt::simulate(1, |rt| {
            let profiler = Profiler::new(rt);
            let work = |n: u32| {
                let _role = profiler.role(Kind::LeafSync);
                let mut laps = profiler.block(100);
                laps.stage(Stage::Compress, || rt.sleep(MS * 2));
                laps.stage(Stage::Checksum, || rt.sleep(MS * n));
                Ok::<(), ()>(())
            };
            rt.for_each_parallel(2, [3, 1], work).expect("work");
            profiler.watch(Stage::Io, || rt.sleep(MS * 5));
            profiler.snapshot()
        });
        let leaf = profile.of(Kind::LeafSync).expect("kind");
        assert_eq!((leaf.threads, leaf.checksum.count), (2, 2));
        assert_eq!((leaf.compress.time, leaf.compress.busy), (MS * 4, MS * 2));
        assert_eq!((leaf.checksum.time, leaf.checksum.busy), (MS * 4, MS * 3));
        assert!((leaf.checksum.at_once() - 4.0 / 3.0).abs() < 1e-9);
        assert!((leaf.per_thread(&leaf.checksum) - 0.002).abs() < 1e-9);
        let app = profile.of(Kind::Application).expect("kind");
        assert_eq!((app.io.count, app.io.time), (1, MS * 5));
    }

    #[test]
    fn small_blocks_are_sampled_and_counted_as_all() {
        let profiler = Profiler::new(&Rt::real());
        for _ in 0..SAMPLE * 10 {
            profiler.block(512).stage(Stage::Checksum, || ());
        }
        for _ in 0..10 {
            profiler.block(SMALL).stage(Stage::Checksum, || ());
        }
        let app = profiler.snapshot();
        let count = app.of(Kind::Application).expect("kind").checksum.count;
        assert_eq!(count, u64::from(SAMPLE) * 10 + 10);
        profiler.reset();
        assert_eq!(profiler.snapshot().of(Kind::Application).expect("kind").checksum.count, 0);
    }
}
