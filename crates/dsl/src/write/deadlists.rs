//! Dead lists, as the tasks use them.

use super::meta::DslCx;
use crate::error::Result;
use crate::tree::VisitedLinks;
use dmu::bpobj::{self, Lists};
use dmu::deadlist;
use ondisk::BlkPtr;
use ondisk::bpobj::Space;

/// Runs `f` with the lists of the MOS.
fn with<T>(cx: &DslCx<'_>, f: impl FnOnce(&Lists<'_>) -> dmu::Result<T>) -> Result<T> {
    let dsize = |bp: &BlkPtr| cx.blocks.dsize(bp);
    Ok(f(&Lists::new(cx.mos, cx.tx, &dsize)?)?)
}

/// A new list of blocks.
pub(super) fn new_list(cx: &DslCx<'_>) -> Result<u64> {
    with(cx, |l| l.create())
}

/// A new dead list without keys.
pub(super) fn create(cx: &DslCx<'_>) -> Result<u64> {
    with(cx, deadlist::create)
}

/// A new dead list with the keys of `like` below `max_txg`, and no blocks.
pub(super) fn create_like(cx: &DslCx<'_>, like: u64, max_txg: u64) -> Result<u64> {
    with(cx, |l| deadlist::clone(l, like, max_txg))
}

/// A key for blocks born after `txg`.
pub(super) fn add_key(cx: &DslCx<'_>, list: u64, txg: u64) -> Result<()> {
    with(cx, |l| match deadlist::keys(l.mos(), list)?.contains_key(&txg) {
        true => Ok(()),
        false => deadlist::add_key(l, list, txg),
    })
}

/// Removes a key: its blocks go to the one before. A list without that key stays as it is, as one
/// whose first key it is: more keys than needed do no harm.
pub(super) fn remove_key(cx: &DslCx<'_>, list: u64, txg: u64) -> Result<()> {
    with(cx, |l| match deadlist::keys(l.mos(), list)?.range(..=txg).rev().take(2).count() {
        2 if deadlist::keys(l.mos(), list)?.contains_key(&txg) => {
            deadlist::remove_key(l, list, txg)
        }
        _ => Ok(()),
    })
}

/// Adds blocks.
pub(super) fn insert(cx: &DslCx<'_>, list: u64, blocks: &[BlkPtr]) -> Result<()> {
    if blocks.is_empty() {
        return Ok(());
    }
    with(cx, |l| deadlist::insert(l, list, blocks.iter().map(|bp| (*bp, false))))
}

/// Space of all blocks.
pub(super) fn space(cx: &DslCx<'_>, list: u64) -> Result<Space> {
    Ok(deadlist::space(cx.mos, list)?)
}

/// Space of the blocks born after `min_txg` and up to `max_txg`; `u64::MAX`: no bound.
pub(super) fn space_range(cx: &DslCx<'_>, list: u64, min_txg: u64, max_txg: u64) -> Result<Space> {
    Ok(deadlist::space_range(cx.mos, list, min_txg, max_txg)?)
}

/// Moves the blocks born after `min_txg` to the list of blocks `to`, and returns their space.
pub(super) fn move_from(cx: &DslCx<'_>, list: u64, min_txg: u64, to: u64) -> Result<Space> {
    let space = space_range(cx, list, min_txg, u64::MAX)?;
    with(cx, |l| deadlist::move_to(l, list, to, min_txg))?;
    Ok(space)
}

/// Moves all blocks of `from` to `list`, and removes `from`.
pub(super) fn merge(cx: &DslCx<'_>, list: u64, from: u64) -> Result<()> {
    with(cx, |l| {
        deadlist::merge(l, list, from)?;
        deadlist::free(l, from)
    })
}

/// Removes a dead list. Its blocks are not freed.
pub(super) fn free(cx: &DslCx<'_>, list: u64) -> Result<()> {
    with(cx, |l| deadlist::free(l, list))
}

/// Rebuilds the dead list of a dataset from these blocks. Its keys are those of the snapshots
/// before the last.
pub fn renew_deadlist(cx: &DslCx<'_>, dataset: u64, blocks: &[BlkPtr]) -> Result<()> {
    let ds = cx.dataset(dataset)?;
    let list = create(cx)?;
    let mut seen = VisitedLinks::default();
    let mut at = ds.prev_snap;
    while at != 0 {
        seen.step(at, "snapshots form a loop")?;
        let snapshot = cx.dataset(at)?;
        add_key(cx, list, snapshot.prev_snap_txg)?;
        at = snapshot.prev_snap;
    }
    insert(cx, list, blocks)?;
    if ds.deadlist != 0 {
        with(cx, |l| deadlist::remove_damaged(l, ds.deadlist))?;
    }
    cx.update_dataset(dataset, |ds| ds.deadlist = list)
}

/// Removes a list of blocks. Its blocks are not freed.
pub(super) fn free_blocks(cx: &DslCx<'_>, list: u64) -> Result<()> {
    with(cx, |l| l.free(list))
}

/// Takes up to `max_blocks` blocks off a list of blocks.
pub(super) fn consume(
    cx: &DslCx<'_>,
    list: u64,
    max_blocks: u64,
    each: &mut dyn FnMut(&BlkPtr),
) -> Result<()> {
    with(cx, |l| l.drain(list, max_blocks, &mut |bp| each(&bp)).map(drop))
}

/// Nothing is in a list of blocks.
pub(super) fn is_empty(cx: &DslCx<'_>, list: u64) -> Result<bool> {
    Ok(bpobj::header(cx.mos, list)?.is_empty())
}
