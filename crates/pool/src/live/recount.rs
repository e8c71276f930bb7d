//! Counting anew what belongs to whom, in heads whose tables do not have all of it.
//!
//! It begins when a file system is opened that may be changed: its key is there, and the owners of
//! its files are known. Each txg counts a piece (`dmu`, `live/recount.rs`), and one txg follows the
//! other until all is counted. Until then no quota of an owner is kept. So who opens a file system
//! waits for the end, but not for long: the rest is counted in the background, for as long as the
//! pool is open. The next to open it begins again.

use super::head::Head;
use super::record::PushReason;
use super::shared::Shared;
use super::tunables::Tunable;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Who opens a file system waits no longer than that. A second is some hundred thousand files.
const PATIENCE: Duration = Duration::from_secs(5);

impl Shared {
    /// The heads of which the next txg can count a piece. The blocks that are written anew for that
    /// may stay in snapshots, so a pool that is full counts nothing.
    fn recounted_heads(&self) -> Vec<Arc<Head>> {
        let is_counted = |head: &Arc<Head>| head.objset.is_recounting() && !head.is_gone();
        let mut heads: Vec<_> =
            self.heads.read().values().filter(|h| is_counted(h)).cloned().collect();
        if self.tunables.get(Tunable::RecountPiece) == 0 || self.space.for_writing() == 0 {
            heads.clear();
        }
        heads
    }

    /// Whether there is a piece to be counted.
    pub(super) fn is_recounting(&self) -> bool {
        !self.recounted_heads().is_empty()
    }

    /// The sync of `txg` counts a piece of each.
    pub(super) fn recount_in(&self, txg: u64) {
        let blocks = self.tunables.get(Tunable::RecountPiece);
        for head in self.recounted_heads() {
            head.objset.recount_in(txg, usize::try_from(blocks).unwrap_or(usize::MAX));
        }
    }

    /// Waits until all of a head is counted, for a while: the first time, and not each time that it
    /// is opened meanwhile.
    pub(super) fn await_recount(&self, head: &Head) {
        let until = self.rt.now() + PATIENCE;
        let is_left = || self.recounted_heads().iter().any(|one| one.dataset == head.dataset);
        if !is_left() || head.was_awaited.swap(true, Ordering::Relaxed) {
            return;
        }
        while is_left() && self.rt.now() < until {
            let txg = self.txgs.open();
            if self.txgs.wait_synced_unless_suspended(txg, PushReason::Freeing).is_err() {
                return;
            }
        }
    }
}
