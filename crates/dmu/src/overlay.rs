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

use crate::ranges::BlockRanges;
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

#[cfg(test)]
mod tests {
    use super::*;

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
