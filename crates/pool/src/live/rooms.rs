//! How much room a pool has: for all that is written, for datasets, and for one of them.

use super::budget::{HeadRoom, PoolRoom};
use super::shared::Shared;
use crate::error::Result;
use dsl::write::AvailableSpace;
use dsl::{Dataset, Dsl};

impl Shared {
    /// Bytes that the whole pool still has, beside its reserve. What one dataset has reserved is
    /// free here: [`Self::room_of`] says what the others may not have.
    pub(super) fn room_of_pool(&self) -> PoolRoom {
        let figures = self.alloc.figures();
        let deferred = figures.normal.deferred;
        let left = figures.dspace.saturating_sub(deferred);
        let allocated = figures.normal.deflated_allocated.saturating_sub(figures.leaving);
        let left = left.saturating_sub(allocated).saturating_sub(figures.to_copy);
        let slop = figures.slop();
        PoolRoom {
            for_writing: left.saturating_sub(slop),
            for_freeing: left.saturating_sub(slop / 2),
            deferred,
        }
    }

    /// Bytes that all datasets together may take.
    pub(super) fn size_for_datasets(&self) -> u64 {
        let figures = self.alloc.figures();
        // What is shared counts for each that has it, and is there once.
        let whole = figures.dspace.saturating_add(self.clones.saved());
        whole.saturating_sub(figures.slop()).saturating_sub(figures.kept)
    }

    /// Bytes a dataset may still use.
    pub(super) fn room_of(&self, dsl: &Dsl, dataset: &Dataset) -> Result<HeadRoom> {
        let figures = self.alloc.figures();
        // What is freed but not free yet cannot be written to.
        let usable = self.size_for_datasets().saturating_sub(figures.normal.deferred);
        let AvailableSpace { bytes: now, quota } = dsl::write::room(dsl, dataset, usable, 0)?;
        // A quota counts what is referenced, whatever becomes free.
        let deferred = if quota.is_some() { 0 } else { figures.normal.deferred };
        let is_quota = quota.is_some();
        Ok(HeadRoom { now, later: now.saturating_add(deferred), is_quota })
    }
}
