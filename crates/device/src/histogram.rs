//! Counts by powers of two: of nanoseconds, or of bytes.
//!
//! Plain numbers: whoever counts from several threads does it under a lock he holds anyway, or in
//! [`AtomicHistogram`], where a snapshot may be one value apart between its fields.

use core::sync::atomic::{AtomicU64, Ordering};

/// Classes of a histogram. Class `n` holds values from 2^n on and below 2^(n+1), the first also 0,
/// the last all that is more: nine minutes in nanoseconds, half a terabyte in bytes.
pub const HISTOGRAM_CLASSES: usize = 40;

/// How many values were seen, by size, and their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Values of each class.
    pub counts: [u64; HISTOGRAM_CLASSES],
    /// All values together.
    pub sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; HISTOGRAM_CLASSES], sum: 0 }
    }
}

/// The class that holds `value`.
#[must_use]
pub fn histogram_class(value: u64) -> usize {
    let highest = (u64::BITS - 1).saturating_sub(value.leading_zeros());
    (highest as usize).min(HISTOGRAM_CLASSES - 1)
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        self.counts[histogram_class(value)] += 1;
        self.sum = self.sum.wrapping_add(value);
    }

    /// Counts what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Values seen.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A histogram that several threads count in.
#[derive(Debug)]
pub struct AtomicHistogram {
    counts: [AtomicU64; HISTOGRAM_CLASSES],
    sum: AtomicU64,
}

impl Default for AtomicHistogram {
    fn default() -> Self {
        Self { counts: core::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }
}

impl AtomicHistogram {
    /// Counts one value.
    pub fn add(&self, value: u64) {
        self.counts[histogram_class(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// What was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> Histogram {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = core::array::from_fn(|class| get(&self.counts[class]));
        Histogram { counts, sum: get(&self.sum) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 1023, 1024].map(histogram_class), [0, 0, 1, 1, 2, 9, 10]);
        assert_eq!(histogram_class(u64::MAX), HISTOGRAM_CLASSES - 1);
    }

    #[test]
    fn both_kinds_count_alike() {
        let (mut plain, shared) = (Histogram::default(), AtomicHistogram::default());
        for value in [0, 7, 8, 5000, 5000] {
            plain.add(value);
            shared.add(value);
        }
        assert_eq!(shared.snapshot(), plain);
        assert_eq!((plain.count(), plain.sum, plain.counts[12]), (5, 10_015, 2));
        plain.merge(&shared.snapshot());
        assert_eq!((plain.count(), plain.sum), (10, 20_030));
    }
}
