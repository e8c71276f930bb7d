//! Which objects of two states of a file system may differ.

use crate::error::Result;
use dmu::{Object, Objset};
use ondisk::dnode::DNODE_SLOT_SIZE;
use rt::Progress;
use std::collections::BTreeSet;

/// Pointers in a dnode, at most.
const TOP_MAX: u64 = 3;
/// Dnodes in one block, at most: more than any block has room for.
const SLOTS_MAX: u64 = 1 << 15;

/// The numbers of the objects whose dnodes stand in blocks of the meta dnode that changed after
/// txg `since`, in order. A block that is gone from the later state counts as changed.
pub(super) fn changed(
    earlier: &Objset,
    later: &Objset,
    since: u64,
    progress: &Progress,
) -> Result<BTreeSet<u64>> {
    let mut out = BTreeSet::new();
    let (Some(a), Some(b)) = (earlier.meta_object(), later.meta_object()) else {
        let one = earlier.meta_object().or_else(|| later.meta_object());
        let Some(meta) = one else { return Ok(out) };
        let mut at = 0;
        while let Some(block) = meta.next_block(at).map_err(|(e, _)| e)? {
            progress.check()?;
            let (first, last) = slots(block, Some(&meta));
            out.extend(first..last);
            at = block.saturating_add(1);
        }
        return Ok(out);
    };
    let walk = Walk { a: &a, b: &b, since, progress };
    walk.below(a.dnode().levels.max(b.dnode().levels), 0, &mut |block| {
        let (first, last) = slots(block, Some(&b));
        out.extend(first..last);
    })?;
    // A replayed intent log changes objects that no block on disk tells of.
    out.extend(later.changed_objects());
    out.remove(&0);
    Ok(out)
}

/// Numbers of the dnodes in a block.
fn slots(block: u64, meta: Option<&Object>) -> (u64, u64) {
    let size = meta.map_or(0, |m| m.dnode().block_size());
    let per_block = (size / DNODE_SLOT_SIZE as u64).min(SLOTS_MAX);
    let first = block.saturating_mul(per_block);
    (first, first.saturating_add(per_block))
}

/// Blocks of `level` that the tree can have.
fn blocks(meta: &Object, level: u8) -> u64 {
    let shift = fanout_shift(meta) * u32::from(level);
    let last = meta.dnode().max_block;
    last.checked_shr(shift).unwrap_or(0) + 1
}

fn fanout_shift(meta: &Object) -> u32 {
    u32::from(meta.dnode().indirect_shift).saturating_sub(7)
}

struct Walk<'a> {
    a: &'a Object,
    b: &'a Object,
    since: u64,
    progress: &'a Progress,
}

impl Walk<'_> {
    /// Visits the changed level-0 blocks below block `id` of `level`; `level` above both trees
    /// stands for the dnodes themselves. Depth is bounded by `level`, which falls, and the width by
    /// the pointers that are there, whatever the dnodes say of their last block.
    fn below(&self, level: u8, id: u64, found: &mut dyn FnMut(u64)) -> Result<()> {
        self.progress.check()?;
        let Some(below) = level.checked_sub(1) else {
            found(id);
            return Ok(());
        };
        let shift = fanout_shift(self.b).max(fanout_shift(self.a));
        let end = blocks(self.a, below).max(blocks(self.b, below));
        let top = level >= self.a.dnode().levels.max(self.b.dnode().levels);
        let (first, last) = match top {
            true => (0, end.min(TOP_MAX)),
            false => (id << shift, ((id + 1) << shift).min(end)),
        };
        for child in first..last {
            if self.may_differ(below, child)? {
                self.below(below, child, found)?;
            }
        }
        Ok(())
    }

    /// The trees may differ below this block.
    fn may_differ(&self, level: u8, id: u64) -> dmu::Result<bool> {
        // The lower of two trees has no pointer here, and all its blocks below the first one.
        let is_lower = |o: &Object| level >= o.dnode().levels;
        if id == 0 && (is_lower(self.a) || is_lower(self.b)) {
            return Ok(true);
        }
        let is = self.b.block_pointer(level, id)?.filter(|bp| !bp.is_hole());
        if let Some(bp) = &is {
            return Ok(bp.logical_birth() > self.since);
        }
        let was = self.a.block_pointer(level, id)?.filter(|bp| !bp.is_hole());
        Ok(was.is_some())
    }
}
