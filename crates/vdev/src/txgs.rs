//! Sets of txgs: what a dirty time log holds.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A set of txgs. A device that was away missed long runs of them, so runs are what is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txgs(
    /// Half-open runs by their beginnings, apart from each other and not empty.
    BTreeMap<u64, u64>,
);

impl Txgs {
    /// Adds the txgs from `start` to before `end`.
    pub fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((s, e)) = self.0.range(..=end).next_back().map(|(s, e)| (*s, *e)) {
            if e < start {
                break;
            }
            self.0.remove(&s);
            (start, end) = (start.min(s), end.max(e));
        }
        if start < end {
            self.0.insert(start, end);
        }
    }

    /// Removes the txgs from `start` to before `end`.
    pub fn remove(&mut self, start: u64, end: u64) {
        while let Some((s, e)) = self.0.range(..end).next_back().map(|(s, e)| (*s, *e)) {
            if e <= start || start >= end {
                break;
            }
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start);
            }
            if end < e {
                self.0.insert(end, e);
            }
        }
    }

    /// Adds all of another set.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(start, end)| self.add(*start, *end));
    }

    /// Removes all of another set.
    pub fn subtract(&mut self, other: &Self) {
        other.0.iter().for_each(|(start, end)| self.remove(*start, *end));
    }

    /// Whether `txg` is among them.
    #[must_use]
    pub fn contains(&self, txg: u64) -> bool {
        self.0.range(..=txg).next_back().is_some_and(|(_, end)| txg < *end)
    }

    /// Whether the two have a txg in common.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let before = |end: u64| self.0.range(..end).next_back();
        other.0.iter().any(|(start, end)| before(*end).is_some_and(|(_, e)| e > start))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The runs, ascending.
    pub fn runs(&self) -> impl Iterator<Item = RangeInclusive<u64>> + '_ {
        self.0.iter().map(|(start, end)| *start..=end - 1)
    }

    /// The first and the last.
    #[must_use]
    pub fn bounds(&self) -> Option<(u64, u64)> {
        let first = self.0.first_key_value().map(|(start, _)| *start)?;
        Some((first, self.0.last_key_value().map(|(_, end)| end - 1)?))
    }
}

impl FromIterator<RangeInclusive<u64>> for Txgs {
    fn from_iter<T: IntoIterator<Item = RangeInclusive<u64>>>(runs: T) -> Self {
        let mut out = Self::default();
        runs.into_iter().for_each(|r| out.add(*r.start(), r.end().saturating_add(1)));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(steps: &[(bool, u64, u64)]) -> Vec<(u64, u64)> {
        let mut t = Txgs::default();
        for (add, start, end) in steps {
            if *add { t.add(*start, *end) } else { t.remove(*start, *end) }
        }
        t.0.into_iter().collect()
    }

    #[test]
    fn runs_merge_and_split() {
        assert_eq!(of(&[(true, 5, 9), (true, 1, 3)]), [(1, 3), (5, 9)]);
        assert_eq!(of(&[(true, 5, 9), (true, 1, 3), (true, 3, 5)]), [(1, 9)]);
        assert_eq!(of(&[(true, 1, 9), (true, 2, 3)]), [(1, 9)]);
        assert_eq!(of(&[(true, 1, 9), (false, 2, 3)]), [(1, 2), (3, 9)]);
        assert_eq!(of(&[(true, 1, 3), (true, 5, 9), (false, 2, 6)]), [(1, 2), (6, 9)]);
        assert_eq!(of(&[(true, 1, 3), (false, 0, 9), (true, 4, 4), (false, 7, 7)]), []);
    }

    #[test]
    fn a_set_knows_what_is_in_it() {
        let mut set: Txgs = [5..=8, 1..=2].into_iter().collect();
        assert_eq!((0..10).filter(|t| set.contains(*t)).collect::<Vec<_>>(), [1, 2, 5, 6, 7, 8]);
        assert_eq!(set.bounds(), Some((1, 8)));
        assert_eq!(set.runs().collect::<Vec<_>>(), [1..=2, 5..=8]);
        for (other, want) in [(3..=4, false), (2..=2, true), (3..=5, true), (9..=20, false)] {
            assert_eq!(set.meets(&[other].into_iter().collect()), want);
        }
        set.subtract(&[0..=5].into_iter().collect());
        set.merge(&[9..=9].into_iter().collect());
        assert_eq!(set.runs().collect::<Vec<_>>(), [6..=9]);
    }
}
