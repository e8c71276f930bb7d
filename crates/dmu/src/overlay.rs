//! Changes that exist in memory only.
//!
//! A replayed intent log must look as if it had been written, without a byte being written. The
//! overlay of an object set holds, by object, a changed dnode, changed blocks and changed table
//! entries; [`crate::Objset`] and its objects look here before they look at the disk.
//!
//! A data block is looked for in this order:
//!
//! ```text
//! blocks   changed: the bytes, or the pointer to a block that is on disk already
//! holes    ranges of blocks that were freed
//! detached the object is new, no block on disk is its own
//! disk
//! ```
//!
//! Freed ranges are kept as ranges and blocks on disk as pointers, so that what an overlay takes
//! in memory grows with what was written, never with how far a number reaches.

use crate::zap::ZapValue;
use ondisk::{BlkPtr, Dnode};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use zio::Block;

/// Changes to one object set.
#[derive(Debug, Default, Clone)]
pub struct Overlay {
    /// Changed objects by number.
    pub objects: HashMap<u64, OverlayObject>,
}

/// A changed block of level 0.
#[derive(Debug, Clone)]
pub enum OverlayBlock {
    /// Its bytes.
    Data(Arc<Block>),
    /// A block on disk that the tree on disk does not point to from here.
    Stored(Box<BlkPtr>),
}

/// Changes to one object.
#[derive(Debug, Default, Clone)]
pub struct OverlayObject {
    /// The object is gone.
    pub freed: bool,
    /// The new dnode with its bonus; `None`: the one on disk.
    pub dnode: Option<Arc<Dnode>>,
    /// No block on disk belongs to the object any more: it is new, or was emptied.
    pub detached: bool,
    /// Changed level-0 blocks.
    pub blocks: BTreeMap<u64, OverlayBlock>,
    /// Ranges of blocks that are holes unless they are in `blocks`.
    pub holes: BlockRanges,
    /// Changed spill block; `Some(None)`: removed.
    pub spill: Option<Option<Arc<Block>>>,
    /// Normalisation of names, for a table that exists in memory only.
    pub norm_flags: u64,
    /// Changed table entries by name; `None`: removed.
    pub zap: BTreeMap<Vec<u8>, Option<ZapValue>>,
}

impl OverlayObject {
    /// Makes the blocks from `start` up to, not including, `end` holes; `u64::MAX`: all behind.
    pub fn free_blocks(&mut self, start: u64, end: u64) {
        if start < end {
            let gone: Vec<u64> = self.blocks.range(start..end).map(|(b, _)| *b).collect();
            for b in gone {
                self.blocks.remove(&b);
            }
            self.holes.add(start, end);
        }
    }

    /// Where the block is by this overlay: `None` on disk if anywhere, `Some(None)` a hole.
    pub(crate) fn block(&self, blkid: u64) -> Option<Option<&OverlayBlock>> {
        match self.blocks.get(&blkid) {
            Some(b) => Some(Some(b)),
            None => (self.detached || self.holes.covering(blkid).is_some()).then_some(None),
        }
    }
}

/// A set of block numbers as disjoint half-open ranges; `u64::MAX` as an end stands for no end.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct BlockRanges {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
}

impl BlockRanges {
    /// Adds the blocks from `start` up to, not including, `end`.
    pub fn add(&mut self, start: u64, end: u64) {
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
    #[must_use]
    pub fn covering(&self, block: u64) -> Option<u64> {
        let (_, end) = self.ranges.range(..=block).next_back()?;
        (*end > block || *end == u64::MAX).then_some(*end)
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
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
        let mut rng = testkit::Rng::new(7);
        for _ in 0..200 {
            let mut ranges = BlockRanges::default();
            let mut plain = [false; 64];
            for _ in 0..8 {
                let (a, b) = (rng.below(64), rng.below(64));
                ranges.add(a.min(b), a.max(b));
                plain[a.min(b) as usize..a.max(b) as usize].fill(true);
            }
            for (block, set) in plain.iter().enumerate() {
                assert_eq!(ranges.covering(block as u64).is_some(), *set, "{ranges:?} {block}");
            }
        }
    }

    #[test]
    fn freeing_hides_what_was_changed_before() {
        let mut o = OverlayObject::default();
        o.blocks.insert(3, OverlayBlock::Stored(Box::new(BlkPtr::HOLE)));
        o.free_blocks(2, 8);
        assert!(matches!(o.block(3), Some(None)));
        assert!(o.block(8).is_none());
        o.blocks.insert(4, OverlayBlock::Stored(Box::new(BlkPtr::HOLE)));
        assert!(matches!(o.block(4), Some(Some(_))));
    }
}
