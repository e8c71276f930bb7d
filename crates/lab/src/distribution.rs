//! Distributions as text: one row for each bucket of equal width, with a bar of `@`, as DTrace
//! prints them.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

/// Columns of the longest bar.
const BAR_COLUMNS: u64 = 40;

/// Buckets between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// What is below this has a bucket of its own; 0 for none.
    pub low: u64,
    /// What is not below this has one too.
    pub high: u64,
    /// Width of a bucket.
    pub step: u64,
}

/// How many values fell into each bucket. As JSON: the buckets that hold something, by their lower
/// bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// The buckets.
    pub buckets: Buckets,
    /// The count below `low`, of each bucket, and of `high` and above.
    pub counts: Vec<u64>,
}

impl Distribution {
    /// Counts the values.
    pub fn of(buckets: Buckets, values: impl IntoIterator<Item = u64>) -> Self {
        let Buckets { low, high, step } = buckets;
        let step = step.max(1);
        let between = usize::try_from(high.saturating_sub(low).div_ceil(step)).unwrap_or(0);
        let mut counts = vec![0; between + 2];
        for value in values {
            let at = match value {
                v if v < low => 0,
                v if v >= high => between + 1,
                v => usize::try_from((v - low) / step).unwrap_or(0) + 1,
            };
            counts[at] += 1;
        }
        Self { buckets: Buckets { step, ..buckets }, counts }
    }

    /// Lower bounds of the buckets that hold something, and how much; the one below `low` has 0.
    #[must_use]
    pub fn rows(&self) -> Vec<(u64, u64)> {
        let holding = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        holding.map(|(i, n)| (self.bound(i), *n)).collect()
    }

    fn bound(&self, index: usize) -> u64 {
        match index {
            0 => 0,
            i if i + 1 == self.counts.len() => self.buckets.high,
            i => self.buckets.low + (i as u64 - 1) * self.buckets.step,
        }
    }

    fn label(&self, index: usize) -> String {
        match index {
            0 => format!("< {}", self.buckets.low),
            i if i + 1 == self.counts.len() => format!(">= {}", self.buckets.high),
            i => self.bound(i).to_string(),
        }
    }

    /// The distribution as text. Empty buckets are shown beside those that are not; more of them
    /// in a row are three dots.
    #[must_use]
    pub fn to_text(&self) -> String {
        let total: u64 = self.counts.iter().sum();
        let mut text = format!("{:>16}  ------------- Distribution ------------- count\n", "value");
        let near = |i: usize| {
            let holds = |i: usize| self.counts.get(i).is_some_and(|n| *n > 0);
            // Nothing is below zero.
            let exists = i > 0 || self.buckets.low > 0;
            exists && (holds(i) || holds(i + 1) || (i > 0 && holds(i - 1)))
        };
        let mut last = None;
        for (i, count) in self.counts.iter().enumerate().filter(|(i, _)| near(*i)) {
            if last.is_some_and(|last| last + 1 < i) {
                text += &format!("{:>16}\n", "...");
            }
            last = Some(i);
            let bar = (count * BAR_COLUMNS + total / 2).checked_div(total).unwrap_or(0);
            let bar = "@".repeat(usize::try_from(bar).unwrap_or(0));
            text += &format!("{:>16} |{bar:<40} {count}\n", self.label(i));
        }
        text
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut out = to.serialize_struct("Distribution", 4)?;
        out.serialize_field("low", &self.buckets.low)?;
        out.serialize_field("high", &self.buckets.high)?;
        out.serialize_field("step", &self.buckets.step)?;
        out.serialize_field("rows", &self.rows())?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_those_of_the_study() {
        let times = [100, 105, 119, 120, 260, 580, 780, 1320, 1330, 1360, 1520];
        let d = Distribution::of(Buckets { low: 0, high: 10_000, step: 20 }, times);
        let text = d.to_text();
        let want = "           value  ------------- Distribution ------------- count
              80 |                                         0
             100 |@@@@@@@@@@@                              3
             120 |@@@@                                     1
             140 |                                         0
             ...
             240 |                                         0
             260 |@@@@                                     1
";
        assert!(text.starts_with(want), "{text}");
        assert!(text.contains("            1320 |@@@@@@@                                  2\n"));
        assert!(
            text.ends_with(
                "            1520 |@@@@                                     1
            1540 |                                         0\n"
            ),
            "{text}"
        );
        assert_eq!(d.rows()[0], (100, 3));
    }

    #[test]
    fn ends_have_buckets_of_their_own() {
        let buckets = Buckets { low: 200, high: 4000, step: 200 };
        let d = Distribution::of(buckets, [0, 199, 200, 3999, 4000, 9000]);
        assert_eq!(d.rows(), [(0, 2), (200, 1), (3800, 1), (4000, 2)]);
        let text = d.to_text();
        assert!(text.contains("           < 200 |@@@@@@@@@@@@@                            2\n"));
        assert!(text.contains("         >= 4000 |@@@@@@@@@@@@@                            2\n"));
        let none = Distribution::of(buckets, []);
        assert_eq!(none.to_text().lines().count(), 1);
    }
}
