//! Reads and writes of users, by object set.
//!
//! An operation is one request of a caller: a `read` of any length, a `write` of any length. The
//! requests that the caches, the tree and the devices make of it are counted elsewhere. Counted are
//! the contents of files and volumes, not tables and attributes. Files and volumes count where they
//! are called, with the wait for a transaction; work on the objects themselves is counted there. So
//! one may happen within the other, and then only the outer one counts.
//!
//! The counters of a set are found once, when it is first used after it was opened ([`Usage::of`]);
//! from then on they are a pointer, and an operation costs two relaxed atomics; one that is timed,
//! two more and two looks at the clock. Of small operations one in 16 is timed and represents all
//! ([`device::sample_weight`]), but in a simulation all are. All that open the same set over one
//! store share its counters.

use device::{AtomicHistogram, Histogram, sample_weight};
use parking_lot::Mutex;
use rt::Rt;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

thread_local! {
    /// An operation of this thread is being counted.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Operations of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UseCount {
    /// How many began.
    pub ops: u64,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// Nanoseconds of each.
    pub time_ns: Histogram,
}

/// The use of one object set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetCounts {
    /// Number of the dataset's object in the MOS.
    pub set: u64,
    /// Reads.
    pub read: UseCount,
    /// Writes.
    pub written: UseCount,
}

#[derive(Default)]
struct Meter {
    ops: AtomicU64,
    bytes: AtomicU64,
    time_ns: AtomicHistogram,
}

impl Meter {
    fn snapshot(&self) -> UseCount {
        let (ops, bytes) = (self.ops.load(Relaxed), self.bytes.load(Relaxed));
        UseCount { ops, bytes, time_ns: self.time_ns.snapshot() }
    }
}

/// The counters of one object set.
pub struct SetUse {
    rt: Rt,
    on: Arc<AtomicBool>,
    read: Meter,
    written: Meter,
}

impl SetUse {
    /// Counters that are never shown, and that count nothing.
    pub(crate) fn uncounted(rt: &Rt) -> Self {
        Self::new(rt, Arc::default())
    }

    fn new(rt: &Rt, on: Arc<AtomicBool>) -> Self {
        Self { rt: rt.clone(), on, read: Meter::default(), written: Meter::default() }
    }

    /// Does `work`, which reads this many bytes for a user.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn reading<T, E>(&self, bytes: u64, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.watch(&self.read, bytes, work)
    }

    /// Does `work`, which writes this many bytes for a user.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn writing<T, E>(&self, bytes: u64, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.watch(&self.written, bytes, work)
    }

    fn watch<T, E>(
        &self,
        meter: &Meter,
        bytes: u64,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if !self.on.load(Relaxed) || WITHIN.get() {
            return work();
        }
        let within = Within::begin();
        let n = meter.ops.fetch_add(1, Relaxed);
        let weight = sample_weight(&self.rt, n, bytes);
        let out = match weight {
            0 => work(),
            _ => {
                let began = self.rt.now();
                let out = work();
                let took = self.rt.now().saturating_sub(began);
                let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                meter.time_ns.add_many(nanos, weight);
                out
            }
        };
        drop(within);
        if out.is_ok() {
            meter.bytes.fetch_add(bytes, Relaxed);
        }
        out
    }
}

/// Marks the work of this thread as part of an operation that counts; ends also when `work` panics.
struct Within;

impl Within {
    fn begin() -> Self {
        WITHIN.set(true);
        Self
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        WITHIN.set(false);
    }
}

/// The counters of all object sets of a pool that were used.
pub struct Usage {
    rt: Rt,
    on: Arc<AtomicBool>,
    sets: Mutex<BTreeMap<u64, Arc<SetUse>>>,
}

impl Usage {
    /// Nothing was counted yet; `rt` has the clock.
    #[must_use]
    pub fn new(rt: &Rt) -> Self {
        Self { rt: rt.clone(), on: Arc::new(AtomicBool::new(true)), sets: Mutex::default() }
    }

    /// The counters of a set.
    #[must_use]
    pub fn of(&self, set: u64) -> Arc<SetUse> {
        let mut sets = self.sets.lock();
        let new = || Arc::new(SetUse::new(&self.rt, Arc::clone(&self.on)));
        Arc::clone(sets.entry(set).or_insert_with(new))
    }

    /// Forgets a set: its number may be another's soon. A thread that has it open continues to
    /// count unseen.
    pub fn forget(&self, set: u64) {
        self.sets.lock().remove(&set);
    }

    /// Switches the counting off, to measure what it costs, or on again.
    pub fn set_counting(&self, on: bool) {
        self.on.store(on, Relaxed);
    }

    /// The numbers of the sets.
    #[must_use]
    pub fn sets(&self) -> Vec<u64> {
        self.sets.lock().keys().copied().collect()
    }

    /// The counts so far, by number.
    #[must_use]
    pub fn snapshot(&self) -> Vec<SetCounts> {
        let sets = self.sets.lock();
        let counts = |(set, used): (&u64, &Arc<SetUse>)| SetCounts {
            set: *set,
            read: used.read.snapshot(),
            written: used.written.snapshot(),
        };
        sets.iter().map(counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::{SAMPLE, SMALL_BYTES};
    use std::time::Duration;

    #[test]
    fn operations_are_counted_with_their_bytes_and_times() {
        let counts = Rt::simulate(1, |rt| {
            let usage = Usage::new(&Rt::current());
            let (one, same) = (usage.of(54), usage.of(54));
            let sleep = |ms| {
                rt.sleep(Duration::from_millis(ms));
                Ok::<(), ()>(())
            };
            one.reading(100, || sleep(2)).expect("read");
            same.reading(100, || sleep(2)).expect("read");
            assert_eq!(one.writing(7, || Err::<(), i32>(5)), Err(5));
            // Part of one is no other one, whatever it does and however it ends.
            let part = || one.reading(50, || Err::<(), ()>(())).or_else(|()| sleep(1));
            one.writing(30, || one.writing(30, part)).expect("write");
            usage.set_counting(false);
            one.reading(100, || sleep(2)).expect("read");
            let _ = usage.of(60);
            usage.forget(60);
            usage.snapshot()
        });
        assert_eq!(counts.len(), 1);
        let SetCounts { set, read, written } = &counts[0];
        assert_eq!((*set, read.bytes, read.time_ns.count()), (54, 200, 2));
        assert_eq!(read.time_ns.mean(), 2_000_000);
        let times = &written.time_ns;
        assert_eq!((written.ops, written.bytes, times.count()), (2, 30, 2), "one failed");
        assert_eq!(times.sum, 1_000_000);
    }

    #[test]
    fn times_of_small_operations_are_sampled_and_nothing_else() {
        let usage = Usage::new(&Rt::current());
        let set = usage.of(54);
        for bytes in (0..20).map(|_| 512).chain([SMALL_BYTES; 3]) {
            set.reading(bytes, || Ok::<(), ()>(())).expect("read");
        }
        let read = &usage.snapshot()[0].read;
        assert_eq!((read.ops, read.bytes), (23, 20 * 512 + 3 * SMALL_BYTES));
        assert_eq!(read.time_ns.count(), 2 * SAMPLE + 3);
    }
}
