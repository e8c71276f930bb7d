//! Which objects of two states of a file system may differ.

use crate::error::Result;
use dmu::{Object, Objset, Place, Step, Visitor};
use ondisk::BlkPtr;
use ondisk::dnode::DNODE_SLOT_SIZE;
use rt::Progress;
use std::collections::BTreeSet;

/// Dnodes in one block, at most: more than any block has room for.
const SLOTS_MAX: u64 = 1 << 15;

/// The numbers of the objects whose dnodes are in blocks of the meta dnode that changed after txg
/// `since`, in order. A block that is gone from the later state counts as changed.
pub(super) fn changed(
    earlier: &Objset,
    later: &Objset,
    since: u64,
    progress: &Progress,
) -> Result<BTreeSet<u64>> {
    let mut out = BTreeSet::new();
    let mut gone = vec![(0, u64::MAX)];
    if let Some(meta) = later.meta_object() {
        let mut search =
            Search { meta: &meta, found: &mut out, gone: Vec::new(), progress, lost: None };
        // Where it ended early is in `lost`, or it was cancelled.
        let _ = meta.traverse(since, &mut search);
        search.gap(covered(&meta), u64::MAX);
        if let Some(error) = search.lost {
            return Err(error.into());
        }
        gone = search.gone;
    }
    if let Some(meta) = earlier.meta_object() {
        for (first, end) in gone {
            let mut at = first;
            while let Some(block) = meta.next_block(at).map_err(|(e, _)| e)?.filter(|b| *b < end) {
                progress.check()?;
                out.extend(slots(block, &meta));
                at = block.saturating_add(1);
            }
        }
    }
    progress.check()?;
    // A replayed intent log changes objects that no block on disk refers to.
    out.extend(later.changed_objects());
    out.remove(&0);
    Ok(out)
}

/// Numbers of the dnodes in a block.
fn slots(block: u64, meta: &Object) -> std::ops::Range<u64> {
    let per_block = (meta.dnode().block_size() / DNODE_SLOT_SIZE as u64).min(SLOTS_MAX);
    let first = block.saturating_mul(per_block);
    first..first.saturating_add(per_block)
}

/// Blocks of level 0 up to block `blkid` of `level`.
pub(super) fn blocks_before(meta: &Object, level: u8, blkid: u64) -> u64 {
    let shift = u32::from(meta.dnode().indirect_shift).saturating_sub(7) * u32::from(level);
    let one = 1u64.checked_shl(shift).unwrap_or(u64::MAX);
    blkid.saturating_mul(one)
}

/// Blocks of level 0 that the pointers in a dnode can lead to.
pub(super) fn covered(meta: &Object) -> u64 {
    let dnode = meta.dnode();
    blocks_before(meta, dnode.levels.saturating_sub(1), dnode.blkptrs.len() as u64)
}

/// Looks for blocks of dnodes that changed, and for gaps where earlier ones may have been.
struct Search<'a> {
    meta: &'a Object,
    found: &'a mut BTreeSet<u64>,
    /// Blocks of level 0 that the later state does not have, from the first up to the second.
    gone: Vec<(u64, u64)>,
    progress: &'a Progress,
    lost: Option<dmu::Error>,
}

impl Search<'_> {
    fn gap(&mut self, first: u64, end: u64) {
        match self.gone.last_mut() {
            Some(last) if last.1 == first => last.1 = end,
            _ => self.gone.push((first, end)),
        }
    }
}

impl Visitor for Search<'_> {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step {
        if self.lost.is_some() || self.progress.check().is_err() {
            return Step::Stop;
        }
        if bp.is_hole() {
            self.unborn(place);
        } else if place.level == 0 {
            self.found.extend(slots(place.blkid, self.meta));
        }
        Step::Descend
    }

    /// Where the pool does not note the births of holes, earlier blocks may have been here.
    fn unborn(&mut self, place: Place) {
        let level = place.level.cast_unsigned();
        let first = blocks_before(self.meta, level, place.blkid);
        let end = blocks_before(self.meta, level, place.blkid.saturating_add(1));
        self.gap(first, end);
    }

    fn lost(&mut self, _: Place, error: dmu::Error) {
        self.lost.get_or_insert(error);
    }
}
