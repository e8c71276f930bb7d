//! Sets of block numbers.

use std::collections::BTreeMap;

/// A set of block numbers as disjoint half-open ranges; `u64::MAX` as an end means no end.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct BlockRanges {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
}

impl BlockRanges {
    /// Adds the blocks from `start` up to, not including, `end`.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        while let Some((&s, &e)) =
            self.ranges.range(..=end).next_back().filter(|(_, e)| **e >= start)
        {
            self.ranges.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.ranges.insert(start, end);
    }

    /// The end of the range that `block` is in.
    pub(crate) fn covering(&self, block: u64) -> Option<u64> {
        let (_, end) = self.ranges.range(..=block).next_back()?;
        (*end > block || *end == u64::MAX).then_some(*end)
    }

    /// The ranges in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(s, e)| (*s, *e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_where_they_touch() {
        let mut r = BlockRanges::default();
        r.add(10, 20);
        r.add(30, 40);
        r.add(5, 5);
        assert_eq!(r.iter().collect::<Vec<_>>(), [(10, 20), (30, 40)]);
        r.add(20, 30);
        assert_eq!(r.iter().collect::<Vec<_>>(), [(10, 40)]);
        r.add(50, u64::MAX);
        r.add(0, 3);
        assert_eq!(r.iter().collect::<Vec<_>>(), [(0, 3), (10, 40), (50, u64::MAX)]);
        assert_eq!(r.covering(3), None);
        assert_eq!(r.covering(39), Some(40));
        assert_eq!(r.covering(u64::MAX), Some(u64::MAX));
        r.add(2, 60);
        assert_eq!(r.iter().collect::<Vec<_>>(), [(0, u64::MAX)]);
    }

    #[test]
    fn a_range_is_a_union_whatever_the_order() {
        testkit::shrinking(200, 12, |steps| {
            let mut ranges = BlockRanges::default();
            let mut plain = [false; 64];
            for step in steps {
                let (a, b) = (step % 64, step / 64 % 64);
                ranges.add(a.min(b), a.max(b));
                plain[a.min(b) as usize..a.max(b) as usize].fill(true);
            }
            for (block, set) in plain.iter().enumerate() {
                assert_eq!(ranges.covering(block as u64).is_some(), *set, "{ranges:?} {block}");
            }
        });
    }
}
