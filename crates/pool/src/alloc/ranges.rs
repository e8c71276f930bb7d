//! Sets of byte ranges: what is free, what was allocated, what waits.
//!
//! A set keeps its ranges disjoint and as long as possible: ranges that touch are one. [`Free`]
//! also knows its ranges by length, for best fit and for the longest; the other sets of a metaslab
//! do not pay for that.

use std::collections::{BTreeMap, BTreeSet};

/// log2 of any length is below this.
const BUCKETS: usize = 64;

/// An index that a set keeps beside its ranges.
pub(super) trait Index: Default {
    /// A range is there now.
    fn added(&mut self, start: u64, end: u64);
    /// A range is there no more.
    fn gone(&mut self, start: u64, end: u64);
}

impl Index for () {
    fn added(&mut self, _: u64, _: u64) {}
    fn gone(&mut self, _: u64, _: u64) {}
}

/// Ranges by length, and how many there are of each power of two.
pub(super) struct BySize {
    by_len: BTreeSet<(u64, u64)>,
    histogram: [u64; BUCKETS],
}

impl Default for BySize {
    fn default() -> Self {
        Self { by_len: BTreeSet::new(), histogram: [0; BUCKETS] }
    }
}

impl Index for BySize {
    fn added(&mut self, start: u64, end: u64) {
        self.by_len.insert((end - start, start));
        self.histogram[bucket(end - start)] += 1;
    }

    fn gone(&mut self, start: u64, end: u64) {
        self.by_len.remove(&(end - start, start));
        self.histogram[bucket(end - start)] -= 1;
    }
}

fn bucket(len: u64) -> usize {
    len.max(1).ilog2() as usize
}

/// A set of disjoint ranges of bytes; ranges that touch are merged.
#[derive(Default)]
pub(super) struct Ranges<I: Index = ()> {
    /// Start to end.
    map: BTreeMap<u64, u64>,
    bytes: u64,
    index: I,
}

/// Free space: ranges that are also known by length.
pub(super) type Free = Ranges<BySize>;

impl<I: Index> Ranges<I> {
    /// One range; none when it is empty.
    pub(super) fn whole(start: u64, end: u64) -> Self {
        let mut out = Self::default();
        out.insert(start, end);
        out
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Number of ranges.
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Bytes in all ranges.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The ranges `(start, end)` in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.map.iter().map(|(s, e)| (*s, *e))
    }

    fn put(&mut self, start: u64, end: u64) {
        self.map.insert(start, end);
        self.index.added(start, end);
        self.bytes += end - start;
    }

    fn drop_range(&mut self, start: u64, end: u64) {
        self.map.remove(&start);
        self.index.gone(start, end);
        self.bytes -= end - start;
    }

    /// The range that begins at or before `at`.
    fn before(&self, at: u64) -> Option<(u64, u64)> {
        self.map.range(..=at).next_back().map(|(s, e)| (*s, *e))
    }

    /// Adds a range. False, and nothing changed, when some of it is there already.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> bool {
        if start >= end {
            return true;
        }
        let left = self.before(start);
        let right = self.map.range(start..).next().map(|(s, e)| (*s, *e));
        if left.is_some_and(|(_, e)| e > start) || right.is_some_and(|(s, _)| s < end) {
            return false;
        }
        let (mut from, mut to) = (start, end);
        if let Some((s, e)) = left.filter(|(_, e)| *e == start) {
            self.drop_range(s, e);
            from = s;
        }
        if let Some((s, e)) = right.filter(|(s, _)| *s == end) {
            self.drop_range(s, e);
            to = e;
        }
        self.put(from, to);
        true
    }

    /// Some of the range is there.
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        start < end && self.before(end - 1).is_some_and(|(_, e)| e > start)
    }

    /// Takes a range out. False, and nothing changed, when it is not there as a whole.
    pub(super) fn remove(&mut self, start: u64, end: u64) -> bool {
        if start >= end {
            return true;
        }
        let Some((s, e)) = self.before(start).filter(|(_, e)| *e >= end) else { return false };
        self.drop_range(s, e);
        if s < start {
            self.put(s, start);
        }
        if end < e {
            self.put(end, e);
        }
        true
    }

    /// Takes out what the set has of a range; returns those parts.
    pub(super) fn take(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        if start >= end {
            return out;
        }
        let first = self.before(start).filter(|(_, e)| *e > start).map_or(start, |(s, _)| s);
        let found = self.map.range(first..end).map(|(s, e)| (start.max(*s), end.min(*e)));
        out.extend(found);
        for (s, e) in &out {
            self.remove(*s, *e);
        }
        out
    }

    /// Adds all of another set; what is there already stays.
    pub(super) fn absorb<J: Index>(&mut self, other: &Ranges<J>) {
        for (s, e) in other.iter() {
            self.take(s, e);
            self.insert(s, e);
        }
    }

    /// Adds to `out` how many ranges there are of each power of two bytes.
    pub(super) fn count_into(&self, out: &mut [u64; BUCKETS]) {
        for (s, e) in self.iter() {
            out[bucket(e - s)] += 1;
        }
    }
}

impl Free {
    /// Length of the longest range.
    pub(super) fn longest(&self) -> u64 {
        self.index.by_len.last().map_or(0, |(len, _)| *len)
    }

    /// How many ranges there are of each power of two bytes.
    pub(super) fn histogram(&self) -> &[u64; BUCKETS] {
        &self.index.histogram
    }

    /// Most of the bytes are in ranges of `len` and more, as far as powers of two tell.
    pub(super) fn is_mostly_at_least(&self, len: u64) -> bool {
        let long = self.index.histogram.iter().enumerate().skip(bucket(len.saturating_sub(1)) + 1);
        let at_least: u64 = long.map(|(log2, n)| n << log2).sum();
        at_least > self.bytes / 2
    }

    /// The shortest range of at least `len` bytes, the first of those.
    pub(super) fn best_fit(&self, len: u64) -> Option<(u64, u64)> {
        self.index.by_len.range((len, 0)..).next().map(|(len, s)| (*s, s + len))
    }

    /// The first range of at least `len` bytes at or behind `from`, among the next `tries`; the
    /// range that `from` lies in counts from `from` on.
    pub(super) fn next_fit(&self, from: u64, len: u64, tries: usize) -> Option<(u64, u64)> {
        let inside = self.before(from).filter(|(_, e)| *e > from).map(|(_, e)| (from, e));
        let behind = self.map.range(from..).map(|(s, e)| (*s, *e)).take(tries);
        inside.into_iter().chain(behind).find(|(s, e)| e - s >= len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn sets_agree_with_a_bitmap() {
        testkit::shrinking_seed(7, 20_000, agree);
    }

    fn agree(steps: &[u64]) {
        const SIZE: u64 = 256;
        let mut set = Free::default();
        let mut bits = [false; SIZE as usize];
        for number in steps {
            let mut rng = Rng::new(*number);
            let a = rng.below(SIZE);
            let b = a + rng.below(SIZE - a).min(rng.below(40) + 1);
            let part = &mut bits[a as usize..b as usize];
            match rng.below(4) {
                0 | 1 => {
                    let clash = part.iter().any(|x| *x);
                    assert_eq!(set.insert(a, b), !clash);
                    if !clash {
                        part.fill(true);
                    }
                }
                2 => {
                    let all = part.iter().all(|x| *x);
                    assert_eq!(set.remove(a, b), all);
                    if all {
                        part.fill(false);
                    }
                }
                _ => {
                    assert_eq!(set.overlaps(a, b), part.iter().any(|x| *x));
                    let taken: u64 = set.take(a, b).iter().map(|(s, e)| e - s).sum();
                    assert_eq!(taken, part.iter().filter(|x| **x).count() as u64);
                    part.fill(false);
                }
            }
            check(&set, &bits);
        }
    }

    fn check(set: &Free, bits: &[bool]) {
        let mut runs = Vec::new();
        let mut at = 0;
        for run in bits.chunk_by(|a, b| a == b) {
            if run[0] {
                runs.push((at, at + run.len() as u64));
            }
            at += run.len() as u64;
        }
        assert!(set.iter().eq(runs.iter().copied()));
        assert_eq!(set.bytes(), runs.iter().map(|(s, e)| e - s).sum::<u64>());
        assert_eq!(set.longest(), runs.iter().map(|(s, e)| e - s).max().unwrap_or(0));
        let mut histogram = [0; BUCKETS];
        set.count_into(&mut histogram);
        assert_eq!(&histogram, set.histogram());
        let best = runs.iter().filter(|(s, e)| e - s >= 5).min_by_key(|(s, e)| (e - s, *s));
        assert_eq!(set.best_fit(5), best.copied());
    }

    #[test]
    fn next_fit_goes_on_where_the_cursor_is() {
        let mut set = Free::default();
        for (s, e) in [(0, 10), (20, 24), (30, 60)] {
            set.insert(s, e);
        }
        assert_eq!(set.next_fit(5, 5, 8), Some((5, 10)));
        assert_eq!(set.next_fit(6, 5, 8), Some((30, 60)));
        assert_eq!(set.next_fit(6, 5, 1), None);
        assert_eq!(set.next_fit(60, 1, 8), None);
    }
}
