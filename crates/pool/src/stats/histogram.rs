//! A histogram as plain data.

use serde::{Deserialize, Serialize};

/// Values by powers of two: class `n` counts those from 2^n on and below 2^(n+1), the first one
/// also 0. Classes behind the last one with a value are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histogram {
    /// The sum of all values.
    pub sum: u64,
    /// Values of each class.
    pub counts: Vec<u64>,
}

impl From<&device::Histogram> for Histogram {
    fn from(h: &device::Histogram) -> Self {
        let used = h.counts.iter().rposition(|c| *c != 0).map_or(0, |last| last + 1);
        Self { sum: h.sum, counts: h.counts.iter().take(used).copied().collect() }
    }
}

impl Histogram {
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
        Some(1u64.checked_shl(class as u32 + 1).unwrap_or(u64::MAX))
    }

    /// Adds the values of another one.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The values that came since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(before).map(|(now, then)| now.saturating_sub(then));
        let mut counts: Vec<u64> = counts.collect();
        while counts.last() == Some(&0) {
            counts.pop();
        }
        Self { sum: self.sum.wrapping_sub(earlier.sum), counts }
    }
}
