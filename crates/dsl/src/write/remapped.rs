//! Lists of remapped blocks, of datasets in pools that lost a vdev.
//!
//! # Theory
//!
//! A pointer to a removed vdev is read through a mapping. When OpenZFS writes the block that has
//! such a pointer, it puts the place where the data is now into it; then the range of the mapping
//! is *obsolete*, unless a snapshot has the old pointer. If one has, the range waits in a dead list
//! of the dataset, the list of remapped blocks: entries have a place on the removed vdev and a
//! birth, and nothing else. Nothing is freed by them, as the data is where it was.
//!
//! Pointers are not replaced here, so no entry is made. But the lists are kept right:
//!
//! ```text
//! a snapshot is taken       it takes over the head's list, as it does with the dead list
//! a snapshot is destroyed   of the list after it, what is younger than the one before it is
//!                           obsolete: it goes to the pool's list; its own is merged into that
//! a head is destroyed or    its list goes: older snapshots have the old pointers still
//! rolled back
//! in each txg               the pool's list is emptied: ranges are marked as obsolete
//! ```
//!
//! Each list, and the pool's, counts for the feature `obsolete_counts`.

use super::deadlists;
use super::meta::DslCx;
use crate::error::Result;
use ondisk::dsl::{DslDataset, dataset_field};
use ondisk::mos;

/// Counts of what is obsolete in mappings.
const OBSOLETE_COUNTS: &str = "com.delphix:obsolete_counts";

/// The list of a dataset.
fn list_of(cx: &DslCx<'_>, dataset: u64) -> Result<Option<u64>> {
    Ok(cx.field(dataset, dataset_field::REMAP_DEADLIST)?.filter(|list| *list != 0))
}

/// A snapshot takes over the list of its head.
pub(super) fn pass_on(cx: &DslCx<'_>, head: u64, snap: u64) -> Result<()> {
    let Some(list) = list_of(cx, head)? else { return Ok(()) };
    cx.remove(head, dataset_field::REMAP_DEADLIST)?;
    cx.zapify(snap)?;
    cx.put(snap, dataset_field::REMAP_DEADLIST, list)
}

/// A snapshot goes, whose dead list was merged into that of `next`, the dataset after it.
pub(super) fn close_gap(cx: &DslCx<'_>, (object, ds): (u64, &DslDataset), next: u64) -> Result<()> {
    let mut after = list_of(cx, next)?;
    if let Some(list) = after {
        deadlists::move_from(cx, list, ds.prev_snap_txg, pools_list(cx)?)?;
    }
    let Some(own) = list_of(cx, object)? else { return Ok(()) };
    if after.is_none() {
        let list = deadlists::create_like(cx, cx.dataset(next)?.deadlist, u64::MAX)?;
        cx.zapify(next)?;
        cx.put(next, dataset_field::REMAP_DEADLIST, list)?;
        cx.features.incr(cx, OBSOLETE_COUNTS)?;
        after = Some(list);
    }
    if let Some(list) = after {
        deadlists::merge(cx, list, own)?;
    }
    cx.features.decr(cx, OBSOLETE_COUNTS)
}

/// The key of a destroyed snapshot leaves the list of a head.
pub(super) fn remove_key(cx: &DslCx<'_>, head: u64, txg: u64) -> Result<()> {
    match list_of(cx, head)? {
        Some(list) => deadlists::remove_key(cx, list, txg),
        None => Ok(()),
    }
}

/// Removes the list of a head that is destroyed or rolled back.
pub(super) fn drop_list(cx: &DslCx<'_>, head: u64) -> Result<()> {
    let Some(list) = list_of(cx, head)? else { return Ok(()) };
    deadlists::free(cx, list)?;
    cx.remove(head, dataset_field::REMAP_DEADLIST)?;
    cx.features.decr(cx, OBSOLETE_COUNTS)
}

/// The pool's list of ranges that are obsolete, made when it is needed.
fn pools_list(cx: &DslCx<'_>) -> Result<u64> {
    if let Some(list) = cx.directory(mos::OBSOLETE_BPOBJ)? {
        return Ok(list);
    }
    let list = deadlists::new_list(cx)?;
    cx.put(mos::DIRECTORY_OBJECT, mos::OBSOLETE_BPOBJ, list)?;
    cx.features.incr(cx, OBSOLETE_COUNTS)?;
    Ok(list)
}

/// Whether no ranges wait to be marked as obsolete.
pub(super) fn is_drained(cx: &DslCx<'_>) -> Result<bool> {
    Ok(cx.directory(mos::OBSOLETE_BPOBJ)?.is_none())
}

/// Marks up to `max_blocks` ranges of the pool's list as obsolete. An empty list goes.
pub(super) fn drain(cx: &DslCx<'_>, max_blocks: u64) -> Result<()> {
    let Some(list) = cx.directory(mos::OBSOLETE_BPOBJ)? else { return Ok(()) };
    deadlists::consume(cx, list, max_blocks, &mut |bp| cx.blocks.mark_obsolete(bp))?;
    if deadlists::is_empty(cx, list)? {
        deadlists::free_blocks(cx, list)?;
        cx.remove(mos::DIRECTORY_OBJECT, mos::OBSOLETE_BPOBJ)?;
        cx.features.decr(cx, OBSOLETE_COUNTS)?;
    }
    Ok(())
}
