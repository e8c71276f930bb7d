//! The counts of a device, without locks.
//!
//! Every counter is one relaxed atomic: a snapshot taken while requests complete may be one
//! request apart between two of its fields, and adding costs a few nanoseconds.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// Latency classes: class `n` holds what took less than 2^n microseconds (and not less than half
/// of that); the last one, from about half an hour on, holds all that is slower.
pub const LATENCY_CLASSES: usize = 32;

/// A device's counters.
#[derive(Default)]
pub struct Counters {
    reads: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    in_flight: AtomicU64,
    resubmitted: AtomicU64,
    direct_refused: AtomicU64,
    latency: [AtomicU64; LATENCY_CLASSES],
    writes: AtomicU64,
    written: AtomicU64,
    write_errors: AtomicU64,
    write_calls: AtomicU64,
    write_latency: [AtomicU64; LATENCY_CLASSES],
    flushes: AtomicU64,
    flush_errors: AtomicU64,
    flush_latency: [AtomicU64; LATENCY_CLASSES],
}

impl Counters {
    /// A request arrived.
    pub fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// A request ended, with its bytes or an error.
    pub fn end(&self, result: Result<usize, ()>, took: Duration) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
        match result {
            Ok(bytes) => self.bytes.fetch_add(bytes as u64, Ordering::Relaxed),
            Err(()) => self.errors.fetch_add(1, Ordering::Relaxed),
        };
        count(&self.latency, took);
    }

    /// A write ended, with its bytes or an error.
    pub fn end_write(&self, result: Result<usize, ()>, took: Duration) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
        match result {
            Ok(bytes) => self.written.fetch_add(bytes as u64, Ordering::Relaxed),
            Err(()) => self.write_errors.fetch_add(1, Ordering::Relaxed),
        };
        count(&self.write_latency, took);
    }

    /// Several writes went to the system as one, or one did.
    pub fn write_call(&self) {
        self.write_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// A flush ended.
    pub fn flushed(&self, success: bool, took: Duration) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flush_errors.fetch_add(u64::from(!success), Ordering::Relaxed);
        count(&self.flush_latency, took);
    }

    /// Part of a request had to be issued again: a short read, an interruption.
    pub fn resubmitted(&self) {
        self.resubmitted.fetch_add(1, Ordering::Relaxed);
    }

    /// The device refused direct I/O.
    pub fn direct_refused(&self) {
        self.direct_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            reads: get(&self.reads),
            bytes: get(&self.bytes),
            errors: get(&self.errors),
            in_flight: get(&self.in_flight),
            resubmitted: get(&self.resubmitted),
            direct_refused: get(&self.direct_refused),
            latency: core::array::from_fn(|class| get(&self.latency[class])),
            writes: get(&self.writes),
            written: get(&self.written),
            write_errors: get(&self.write_errors),
            write_calls: get(&self.write_calls),
            write_latency: core::array::from_fn(|class| get(&self.write_latency[class])),
            flushes: get(&self.flushes),
            flush_errors: get(&self.flush_errors),
            flush_latency: core::array::from_fn(|class| get(&self.flush_latency[class])),
            store: None,
        }
    }
}

fn count(classes: &[AtomicU64; LATENCY_CLASSES], took: Duration) {
    if let Some(class) = classes.get(latency_class(took)) {
        class.fetch_add(1, Ordering::Relaxed);
    }
}

fn latency_class(took: Duration) -> usize {
    let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    ((u64::BITS - us.leading_zeros()) as usize).min(LATENCY_CLASSES - 1)
}

/// A device's counters at one moment, since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads ended, with or without success.
    pub reads: u64,
    /// Bytes delivered by reads.
    pub bytes: u64,
    /// Reads that failed.
    pub errors: u64,
    /// Reads and writes accepted and not yet ended.
    pub in_flight: u64,
    /// Times a part of a request was issued again after a short read or an interruption.
    pub resubmitted: u64,
    /// Requests the device refused to do directly, so that they were buffered.
    pub direct_refused: u64,
    /// Reads by the time from submission to completion: class `n` counts those that took less
    /// than 2^n microseconds and not less than half of that.
    pub latency: [u64; LATENCY_CLASSES],
    /// Writes ended, with or without success.
    pub writes: u64,
    /// Bytes written.
    pub written: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// System calls these writes began as, fewer where neighbours were merged; 0 for a device that
    /// makes none.
    pub write_calls: u64,
    /// Writes by the time from submission to completion, as `latency`.
    pub write_latency: [u64; LATENCY_CLASSES],
    /// Flushes ended, with or without success.
    pub flushes: u64,
    /// Flushes that failed.
    pub flush_errors: u64,
    /// Flushes by the time they took, as `latency`.
    pub flush_latency: [u64; LATENCY_CLASSES],
    /// The requests to the object store that it is kept in; `None`: it is not in one.
    pub store: Option<StoreUsage>,
}

/// The requests to an object store, and how many of them were repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct StoreUsage {
    /// Attempts to create.
    pub creates: u64,
    /// Attempts to read, and to learn a size.
    pub gets: u64,
    /// Attempts to list.
    pub lists: u64,
    /// Attempts to delete.
    pub deletes: u64,
    /// Attempts after the first one of a request.
    pub retries: u64,
    /// Bytes of objects that were sent.
    pub sent_bytes: u64,
    /// Bytes of objects that came.
    pub received_bytes: u64,
    /// Caches on local disks that could not be opened or written to: of a device one at most.
    pub cache_failures: u64,
    /// Other writers that have taken it over: of a device one at most.
    pub takeovers: u64,
    /// Seconds for which it has been asked and has answered nothing, as it is now: no count.
    pub silent_secs: u64,
    /// Bytes of garbage that are not collected, because their budget is used up, as it is now: no
    /// count.
    pub unpaid_bytes: u64,
}

impl StoreUsage {
    fn each(self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            creates: of(self.creates, other.creates),
            gets: of(self.gets, other.gets),
            lists: of(self.lists, other.lists),
            deletes: of(self.deletes, other.deletes),
            retries: of(self.retries, other.retries),
            sent_bytes: of(self.sent_bytes, other.sent_bytes),
            received_bytes: of(self.received_bytes, other.received_bytes),
            cache_failures: of(self.cache_failures, other.cache_failures),
            takeovers: of(self.takeovers, other.takeovers),
            silent_secs: self.silent_secs,
            unpaid_bytes: self.unpaid_bytes,
        }
    }

    /// The requests between `earlier` and this.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        self.each(earlier, u64::saturating_sub)
    }

    /// The same times a number, rounded.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        // A float that is too large becomes the largest number.
        self.each(&Self::default(), |n, _| (n as f64 * factor).round() as u64)
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        self.each(other, u64::saturating_add)
    }
}

impl Stats {
    /// Time within which at least `percent` of the reads ended, rounded up to a power of two
    /// of microseconds; `None` before the first.
    #[must_use]
    pub fn latency_percentile(&self, percent: u8) -> Option<Duration> {
        percentile(&self.latency, percent)
    }

    /// The same of the writes.
    #[must_use]
    pub fn write_latency_percentile(&self, percent: u8) -> Option<Duration> {
        percentile(&self.write_latency, percent)
    }

    /// The same of the flushes.
    #[must_use]
    pub fn flush_latency_percentile(&self, percent: u8) -> Option<Duration> {
        percentile(&self.flush_latency, percent)
    }
}

fn percentile(classes: &[u64; LATENCY_CLASSES], percent: u8) -> Option<Duration> {
    let total: u64 = classes.iter().sum();
    let wanted = (u128::from(total) * u128::from(percent.min(100))).div_ceil(100).max(1);
    let mut seen = 0u128;
    let class = classes.iter().position(|count| {
        seen += u128::from(*count);
        seen >= wanted
    })?;
    Some(Duration::from_micros(1 << class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two_of_microseconds() {
        let us = Duration::from_micros;
        assert_eq!(latency_class(Duration::from_nanos(999)), 0);
        assert_eq!([us(1), us(2), us(3), us(4)].map(latency_class), [1, 2, 2, 3]);
        assert_eq!(latency_class(Duration::MAX), LATENCY_CLASSES - 1);
    }

    #[test]
    fn snapshot_and_percentiles() {
        let counters = Counters::default();
        assert_eq!(counters.snapshot().latency_percentile(50), None);
        for us in [3, 3, 3, 900] {
            counters.begin();
            counters.end(Ok(10), Duration::from_micros(us));
        }
        counters.begin();
        let stats = counters.snapshot();
        assert_eq!((stats.reads, stats.bytes, stats.errors, stats.in_flight), (4, 40, 0, 1));
        assert_eq!(stats.latency_percentile(75), Some(Duration::from_micros(4)));
        assert_eq!(stats.latency_percentile(100), Some(Duration::from_micros(1024)));
    }
}
