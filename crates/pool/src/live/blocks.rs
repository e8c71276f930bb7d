//! Blocks as the sync of a txg accounts them.

use super::clones::SharedBlocks;
use crate::alloc::Allocator;
use dsl::write::Blocks;
use ondisk::BlkPtr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zio::Writer;

/// Blocks that are freed while one txg is synced, and what blocks take.
pub(super) struct TxgBlocks {
    alloc: Arc<Allocator>,
    writer: Arc<Writer>,
    clones: Arc<SharedBlocks>,
    txg: AtomicU64,
    /// Deduplicated blocks stay allocated when they are freed.
    keeps_dedup: AtomicBool,
}

impl TxgBlocks {
    /// Of no txg yet.
    pub(super) fn new(
        alloc: &Arc<Allocator>,
        writer: &Arc<Writer>,
        clones: &Arc<SharedBlocks>,
    ) -> Self {
        let (alloc, writer, clones) = (Arc::clone(alloc), Arc::clone(writer), Arc::clone(clones));
        let (txg, keeps_dedup) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { alloc, writer, clones, txg, keeps_dedup }
    }

    /// From now on deduplicated blocks stay allocated when they are freed: their tables, which are
    /// not kept up, do not say whether others refer to them. For a repair, which counts the
    /// references and the space again when the pool is closed.
    pub(super) fn keep_deduplicated(&self) {
        self.keeps_dedup.store(true, Ordering::Relaxed);
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
        if bp.is_dedup() && self.keeps_dedup.load(Ordering::Relaxed) {
            return;
        }
        let txg = self.txg.load(Ordering::Relaxed);
        if !self.clones.put_aside(bp, txg) {
            self.writer.free(bp, txg);
        }
    }

    fn mark_obsolete(&self, bp: &BlkPtr) {
        self.alloc.mark_obsolete(bp.dva(0), self.txg.load(Ordering::Relaxed));
    }
}
