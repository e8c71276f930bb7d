//! Counts by powers of two: of nanoseconds, or of bytes.
//!
//! Plain numbers: what counts from several threads does it under a lock that it holds anyway, or in
//! [`AtomicHistogram`], where a snapshot may be one value apart between its fields.

use core::sync::atomic::{AtomicU64, Ordering};
use rt::Rt;
use serde::{Deserialize, Deserializer, Serialize};

/// Classes of a histogram. Class `n` holds values from 2^n on and below 2^(n+1), the first also 0,
/// the last all that is more: nine minutes in nanoseconds, half a terabyte in bytes.
pub const HISTOGRAM_CLASSES: usize = 40;

/// Requests of fewer bytes are sampled where timing them costs looks at the clock.
pub const SMALL_BYTES: u64 = 32 << 10;

/// Of this many small ones one is timed, and counts as this many.
pub const SAMPLE: u64 = 16;

/// As how many the `n`th of a kind, which moves this many bytes, counts in a histogram of times; 0:
/// it is not timed. How many there were, and their bytes, are counted elsewhere, and exactly. In a
/// simulation looks at the clock cost nothing that counts, and all are timed.
#[must_use]
pub fn sample_weight(rt: &Rt, n: u64, bytes: u64) -> u64 {
    match (bytes >= SMALL_BYTES || rt.is_simulated(), n.is_multiple_of(SAMPLE)) {
        (true, _) => 1,
        (false, true) => SAMPLE,
        (false, false) => 0,
    }
}

/// How many values were seen, by size, and their sum. As JSON, classes behind the last one with a
/// value are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histogram {
    /// All values together.
    pub sum: u64,
    /// Values of each class.
    #[serde(serialize_with = "until_last", deserialize_with = "from_list")]
    pub counts: [u64; HISTOGRAM_CLASSES],
}

fn until_last<S: serde::Serializer>(
    counts: &[u64; HISTOGRAM_CLASSES],
    to: S,
) -> Result<S::Ok, S::Error> {
    let used = counts.iter().rposition(|c| *c != 0).map_or(0, |last| last + 1);
    to.collect_seq(counts.iter().take(used))
}

fn from_list<'de, D: Deserializer<'de>>(from: D) -> Result<[u64; HISTOGRAM_CLASSES], D::Error> {
    let list: Vec<u64> = Vec::deserialize(from)?;
    let mut counts = [0u64; HISTOGRAM_CLASSES];
    for (class, count) in list.into_iter().enumerate() {
        let class = &mut counts[class.min(HISTOGRAM_CLASSES - 1)];
        *class = class.saturating_add(count);
    }
    Ok(counts)
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
        self.add_many(value, 1);
    }

    /// Counts one value as `weight` of them.
    pub fn add_many(&mut self, value: u64, weight: u64) {
        self.counts[histogram_class(value)] += weight;
        self.sum = self.sum.wrapping_add(value.wrapping_mul(weight));
    }

    /// Counts what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine = mine.saturating_add(theirs);
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Values seen.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, c| sum.saturating_add(*c))
    }

    /// Their mean; 0 when there are none.
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count()).unwrap_or(0)
    }

    /// The value below which at least `percent` of the values lie, rounded up to a power of two;
    /// `None` without values.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * percent.clamp(0.0, 100.0) / 100.0).ceil().max(1.0);
        let mut seen = 0u64;
        let class = self.counts.iter().position(|count| {
            seen = seen.saturating_add(*count);
            seen as f64 >= wanted
        })?;
        Some(1u64 << (class + 1))
    }

    /// The values that came since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut out = self.clone();
        for (now, then) in out.counts.iter_mut().zip(earlier.counts) {
            *now = now.saturating_sub(then);
        }
        out.sum = self.sum.wrapping_sub(earlier.sum);
        out
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
        self.add_many(value, 1);
    }

    /// Counts one value as `weight` of them.
    pub fn add_many(&self, value: u64, weight: u64) {
        self.counts[histogram_class(value)].fetch_add(weight, Ordering::Relaxed);
        self.sum.fetch_add(value.wrapping_mul(weight), Ordering::Relaxed);
    }

    /// The counts so far.
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

    #[test]
    fn samples_stand_for_all_small_ones() {
        let weights = |rt: &Rt, bytes| -> Vec<u64> {
            (0..SAMPLE * 3).map(|n| sample_weight(rt, n, bytes)).collect()
        };
        let small = weights(&Rt::real(), SMALL_BYTES - 1);
        assert_eq!(small.iter().sum::<u64>(), SAMPLE * 3);
        assert_eq!(small.iter().filter(|w| **w > 0).count(), 3);
        assert!(weights(&Rt::real(), SMALL_BYTES).iter().all(|w| *w == 1));
        let simulated = Rt::simulate(1, |rt| weights(rt, SMALL_BYTES - 1));
        assert!(simulated.iter().all(|w| *w == 1));
    }

    #[test]
    fn percentiles_and_means() {
        let mut h = Histogram::default();
        assert_eq!((h.percentile(50.0), h.mean()), (None, 0));
        for value in [1, 2, 3, 1000] {
            h.add(value);
        }
        assert_eq!((h.mean(), h.percentile(50.0), h.percentile(99.0)), (251, Some(4), Some(1024)));
        let before = h.clone();
        h.add(1000);
        let since = h.since(&before);
        assert_eq!((since.count(), since.sum, since.counts[9]), (1, 1000, 1));
    }
}
