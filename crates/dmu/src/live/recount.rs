//! Counting anew what belongs to whom, in a set whose tables do not have all of it.
//!
//! # Theory
//!
//! A set that was received as it was encrypted elsewhere, one from before there was accounting, and
//! one whose pool has got another table to keep lack a flag in their header. All objects are then
//! counted once more, in memory, by a cursor over their numbers that each sync moves on by a piece.
//! What the dnodes say of having been counted is not believed: it may come from elsewhere.
//!
//! ```text
//! objects below the cursor    counted; what a sync changes of them, by the difference
//! those of the piece          counted as the sync leaves them
//! those from there on         not counted yet, whatever is changed
//! ```
//!
//! A sync is alone and sees each object before and after, so an object that is made, freed, or made
//! again with the same number in any txg is counted once, however many txgs are open. The dnodes of
//! the piece are given their flags, as if they had been changed; what is in the tables until the
//! end is what another implementation would put there when it does the same, object by object.
//! With the last piece the tables become what was counted, and the header says that they are
//! complete, in one txg. So a snapshot that is taken before says that they are not, and what
//! becomes of the head (it goes back to a snapshot, is closed, loses its key, a crash) only makes
//! the next one that opens it begin from nothing.
//!
//! A block of dnodes that cannot be read ends it: the tables stay incomplete.

use crate::objset::Objset;
use crate::versions::set::LiveSet;
use crate::versions::spec::Accounting;
use ondisk::objset::{
    FLAG_PROJECTQUOTA_COMPLETE, FLAG_USERACCOUNTING_COMPLETE, FLAG_USEROBJACCOUNTING_COMPLETE,
    OBJSET_SIZE_V3,
};
use std::sync::atomic::Ordering;

/// The flags in a header of that size, of a set that has all that is counted.
pub(super) fn complete_flags(accounting: &dyn Accounting, header_size: usize) -> u64 {
    let mut flags = FLAG_USERACCOUNTING_COMPLETE;
    if accounting.objects() {
        flags |= FLAG_USEROBJACCOUNTING_COMPLETE;
    }
    if accounting.projects() && header_size >= OBJSET_SIZE_V3 {
        flags |= FLAG_PROJECTQUOTA_COMPLETE;
    }
    flags
}

impl LiveSet {
    /// The flags in its header when all is counted.
    pub(crate) fn complete_flags(&self) -> u64 {
        self.accounting.as_ref().map_or(0, |a| complete_flags(&**a, OBJSET_SIZE_V3))
    }

    /// The size of its header from the next sync on: all tables have room when it is counted anew.
    pub(crate) fn header_size(&self, now: usize) -> usize {
        match self.recounting.state.lock().is_some() {
            true => now.max(OBJSET_SIZE_V3),
            false => now,
        }
    }
}

impl Objset {
    /// Begins to count the space of all owners anew, unless the tables have it, it was begun
    /// before, or an object was met that cannot be read.
    pub fn begin_recount(&self) {
        let Some(live) = self.inner.live.as_ref().filter(|live| !live.scratch) else { return };
        let (flags, wanted) = (live.base().phys.flags, live.complete_flags());
        if flags & wanted == wanted || live.recounting.is_given_up.load(Ordering::Relaxed) {
            return;
        }
        live.recounting.state.lock().get_or_insert_default();
    }

    /// Whether the space of all owners is being counted anew.
    #[must_use]
    pub fn is_recounting(&self) -> bool {
        self.inner.live.as_ref().is_some_and(|live| live.recounting.state.lock().is_some())
    }

    /// The sync of `txg`, which no transaction may change any more, is to count the objects in so
    /// many blocks of dnodes.
    pub fn recount_in(&self, txg: u64, blocks: usize) {
        if let Some(live) = self.inner.live.as_ref().filter(|_| self.is_recounting()) {
            live.dirty.lock().entry(txg).or_default().recount = blocks;
        }
    }
}
