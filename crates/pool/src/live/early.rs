//! Blocks that an intent log names, written before the sync of their txg.
//!
//! ```text
//! written early --> known here --sync: born--> in a tree, an ordinary block
//!                             \--sync without--> freed
//! ```
//!
//! A block is in no tree when what it held was overwritten, cut off or destroyed in the same txg.
//! Its space must not be handed out before that txg is durable: until then the log leads to it from
//! the uberblock before. So it is freed as if an older txg had written it.

use super::clones::SharedBlocks;
use dmu::BlockOwner;
use ondisk::BlkPtr;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A block that was written early.
struct EarlyBlock {
    bp: BlkPtr,
    /// Whether a record of a log names it.
    is_named: bool,
}

/// Such blocks by txg, and by their first address.
#[derive(Default)]
pub(super) struct EarlyBlocks {
    blocks: Mutex<BTreeMap<u64, HashMap<[u64; 2], EarlyBlock>>>,
    /// Their number: most syncs find none, and lock nothing for each block.
    len: AtomicUsize,
}

impl EarlyBlocks {
    /// A block that was written in the open `txg`.
    pub(super) fn add(&self, txg: u64, bp: &BlkPtr) {
        let block = EarlyBlock { bp: *bp, is_named: false };
        self.blocks.lock().entry(txg).or_default().insert(bp.dva(0).words(), block);
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks a block as named by a record. False if it is not one of these any more, or another
    /// record names it.
    pub(super) fn name(&self, bp: &BlkPtr) -> bool {
        let mut blocks = self.blocks.lock();
        let of_txg = blocks.get_mut(&bp.logical_birth());
        let known = of_txg.and_then(|all| all.get_mut(&bp.dva(0).words()));
        known.is_some_and(|known| known.bp == *bp && !std::mem::replace(&mut known.is_named, true))
    }

    pub(super) fn is_empty(&self, txg: u64) -> bool {
        self.blocks.lock().get(&txg).is_none_or(HashMap::is_empty)
    }

    /// The block is in a tree.
    fn born(&self, bp: &BlkPtr) {
        if self.len.load(Ordering::Relaxed) == 0 || bp.is_embedded() {
            return;
        }
        let mut blocks = self.blocks.lock();
        let of_txg = blocks.get_mut(&bp.logical_birth());
        if of_txg.is_some_and(|all| all.remove(&bp.dva(0).words()).is_some()) {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// What no tree has now that all of `txg` are written, in the order of the addresses.
    pub(super) fn take_left(&self, txg: u64) -> Vec<BlkPtr> {
        let left = self.blocks.lock().remove(&txg).unwrap_or_default();
        self.len.fetch_sub(left.len(), Ordering::Relaxed);
        let mut left: Vec<_> = left.into_values().map(|block| block.bp).collect();
        left.sort_unstable_by_key(|bp| bp.dva(0).words());
        left
    }
}

/// The owner of a tree's blocks, and what is to be known of those written early and of shared ones.
pub(super) struct TreeOwner<'a> {
    pub(super) owner: &'a dyn BlockOwner,
    pub(super) early: &'a EarlyBlocks,
    pub(super) clones: &'a SharedBlocks,
}

impl BlockOwner for TreeOwner<'_> {
    fn born(&self, bp: &BlkPtr) {
        self.early.born(bp);
        self.clones.born(bp);
        self.owner.born(bp);
    }

    fn kill(&self, bp: &BlkPtr) {
        self.owner.kill(bp);
    }

    fn dsize(&self, bp: &BlkPtr) -> u64 {
        self.owner.dsize(bp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::blkptr::BlkPtrParts;
    use ondisk::{Checksum, Compression, DmuType, Dva, Endian};

    fn block(offset: u64, birth: u64) -> BlkPtr {
        BlkPtr::build(&BlkPtrParts {
            dvas: [Dva::new(0, offset, 4096, false), Dva::default(), Dva::default()],
            lsize: 4096,
            psize: 4096,
            compression: Compression::OFF,
            checksum_kind: Checksum::FLETCHER_4,
            checksum: [1, 2, 3, 4],
            kind: DmuType::PLAIN_FILE_CONTENTS,
            level: 0,
            endian: Endian::Little,
            birth,
            fill: 1,
            crypt: None,
        })
    }

    #[test]
    fn a_block_is_named_by_one_record_while_it_is_in_no_tree() {
        let early = EarlyBlocks::default();
        let (one, other, in_tree) = (block(0, 7), block(4096, 7), block(8192, 7));
        [&one, &in_tree].into_iter().for_each(|bp| early.add(7, bp));
        assert!(early.name(&one));
        assert!(!early.name(&one), "its space would be claimed twice");
        assert!(!early.name(&other));
        early.born(&in_tree);
        assert!(!early.name(&in_tree));
        assert_eq!(early.take_left(7), [one]);
    }
}
