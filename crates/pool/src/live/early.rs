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

use dmu::BlockOwner;
use ondisk::BlkPtr;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Such blocks by txg, and by their first address.
#[derive(Default)]
pub(super) struct EarlyBlocks {
    blocks: Mutex<BTreeMap<u64, HashMap<[u64; 2], BlkPtr>>>,
    /// Their number: most syncs find none, and lock nothing for each block.
    len: AtomicUsize,
}

impl EarlyBlocks {
    /// A block that was written in the open `txg`.
    pub(super) fn add(&self, txg: u64, bp: &BlkPtr) {
        self.blocks.lock().entry(txg).or_default().insert(bp.dva(0).words(), *bp);
        self.len.fetch_add(1, Ordering::Relaxed);
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
        let mut left: Vec<_> = left.into_values().collect();
        left.sort_unstable_by_key(|bp| bp.dva(0).words());
        left
    }
}

/// The owner of a tree's blocks, and what is to be known of those written early.
pub(super) struct TreeOwner<'a> {
    pub(super) owner: &'a dyn BlockOwner,
    pub(super) early: &'a EarlyBlocks,
}

impl BlockOwner for TreeOwner<'_> {
    fn born(&self, bp: &BlkPtr) {
        self.early.born(bp);
        self.owner.born(bp);
    }

    fn kill(&self, bp: &BlkPtr) {
        self.owner.kill(bp);
    }

    fn dsize(&self, bp: &BlkPtr) -> u64 {
        self.owner.dsize(bp)
    }
}
