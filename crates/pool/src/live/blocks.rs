//! Blocks as the sync of a txg accounts them.

use super::clones::SharedBlocks;
use crate::alloc::Allocator;
use dsl::write::Blocks;
use ondisk::BlkPtr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zio::Writer;

/// Blocks that are freed while one txg is synced, and what blocks take.
pub(super) struct TxgBlocks {
    alloc: Arc<Allocator>,
    writer: Arc<Writer>,
    clones: Arc<SharedBlocks>,
    txg: AtomicU64,
}

impl TxgBlocks {
    /// Of no txg yet.
    pub(super) fn new(
        alloc: &Arc<Allocator>,
        writer: &Arc<Writer>,
        clones: &Arc<SharedBlocks>,
    ) -> Self {
        let (alloc, writer, clones) = (Arc::clone(alloc), Arc::clone(writer), Arc::clone(clones));
        Self { alloc, writer, clones, txg: AtomicU64::new(0) }
    }

    /// What is freed from now on is freed in `txg`.
    pub(super) fn begin(&self, txg: u64) {
        self.txg.store(txg, Ordering::Relaxed);
    }
}

impl Blocks for TxgBlocks {
    fn dsize(&self, bp: &BlkPtr) -> u64 {
        self.alloc.dsize(bp)
    }

    fn free(&self, bp: &BlkPtr) {
        if !self.clones.put_aside(bp) {
            self.writer.free(bp, self.txg.load(Ordering::Relaxed));
        }
    }

    fn mark_obsolete(&self, bp: &BlkPtr) {
        self.alloc.mark_obsolete(bp.dva(0), self.txg.load(Ordering::Relaxed));
    }
}
