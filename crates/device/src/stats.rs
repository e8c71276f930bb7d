//! What a device has done, counted without locks.
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
pub(crate) struct Counters {
    reads: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    in_flight: AtomicU64,
    resubmitted: AtomicU64,
    direct_refused: AtomicU64,
    latency: [AtomicU64; LATENCY_CLASSES],
}

impl Counters {
    /// A request arrived.
    pub(crate) fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// A request ended, with its bytes or an error.
    pub(crate) fn end(&self, result: Result<usize, ()>, took: Duration) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
        match result {
            Ok(bytes) => self.bytes.fetch_add(bytes as u64, Ordering::Relaxed),
            Err(()) => self.errors.fetch_add(1, Ordering::Relaxed),
        };
        if let Some(class) = self.latency.get(latency_class(took)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Part of a request had to be issued again: a short read, an interruption.
    pub(crate) fn resubmitted(&self) {
        self.resubmitted.fetch_add(1, Ordering::Relaxed);
    }

    /// The device refused direct I/O.
    pub(crate) fn direct_refused(&self) {
        self.direct_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters now.
    pub(crate) fn snapshot(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            reads: get(&self.reads),
            bytes: get(&self.bytes),
            errors: get(&self.errors),
            in_flight: get(&self.in_flight),
            resubmitted: get(&self.resubmitted),
            direct_refused: get(&self.direct_refused),
            latency: core::array::from_fn(|class| get(&self.latency[class])),
        }
    }
}

fn latency_class(took: Duration) -> usize {
    let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    ((u64::BITS - us.leading_zeros()) as usize).min(LATENCY_CLASSES - 1)
}

/// A device's counters at one moment, since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests ended, with or without success.
    pub reads: u64,
    /// Bytes delivered.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests accepted and not yet ended.
    pub in_flight: u64,
    /// Times a part of a request was issued again after a short read or an interruption.
    pub resubmitted: u64,
    /// Reads the device refused to do directly, so that they were buffered.
    pub direct_refused: u64,
    /// Requests by the time from submission to completion: class `n` counts those that took less
    /// than 2^n microseconds and not less than half of that.
    pub latency: [u64; LATENCY_CLASSES],
}

impl Stats {
    /// Time within which at least `percent` of the requests ended, rounded up to a power of two
    /// of microseconds; `None` before the first.
    #[must_use]
    pub fn latency_percentile(&self, percent: u8) -> Option<Duration> {
        let total: u64 = self.latency.iter().sum();
        let wanted = (u128::from(total) * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut seen = 0u128;
        let class = self.latency.iter().position(|count| {
            seen += u128::from(*count);
            seen >= wanted
        })?;
        Some(Duration::from_micros(1 << class))
    }
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
