//! The shape of the tree of an object: its levels, its holes, and the place of its spill block.

use ondisk::dnode::MAX_LEVELS;
use ondisk::{BlkPtr, DmuType, Dnode};
use zio::Place;

/// Levels that a tree needs to reach block `last`; `None`: more than a byte can say.
pub(crate) fn levels_for(dnode: &Dnode, last: u64) -> Option<u8> {
    let fanout = u32::from(dnode.indirect_shift) - 7;
    let mut reach = dnode.blkptrs.len() as u128;
    let mut levels = 1u8;
    while reach <= u128::from(last) {
        reach <<= fanout;
        levels = levels.checked_add(1)?;
    }
    Some(levels)
}

/// Whether the levels of a dnode reach its last block, and no further than numbers do.
pub(crate) fn is_tree(dnode: &Dnode) -> bool {
    let shift = u32::from(dnode.indirect_shift).saturating_sub(7) * u32::from(dnode.levels);
    let is_known = ondisk::dnode::INDIRECT_SHIFT_RANGE.contains(&dnode.indirect_shift);
    let last = dnode.max_block.checked_mul(dnode.block_size());
    is_known
        && (1..=MAX_LEVELS).contains(&dnode.levels)
        && shift <= u64::BITS + 13
        && last.is_some_and(|last| last <= i64::MAX as u64)
        && levels_for(dnode, dnode.max_block).is_some_and(|needed| needed <= dnode.levels)
}

/// The pointer of an object's spill block, for errors and writes.
pub(crate) fn spill_place(objset: u64, object: u64) -> Place {
    Place { objset, object, level: 0, blkid: Place::BLKID_SPILL }
}

/// A hole that was made in `txg` where `old` was.
pub(crate) fn hole(old: &BlkPtr, kind: DmuType, level: u8, lsize: u64, txg: u64) -> BlkPtr {
    if old.logical_birth() == 0 {
        return BlkPtr::HOLE;
    }
    let mut words = [0; 16];
    words[6] = (lsize / 512).wrapping_sub(1) & 0xffff;
    words[6] |= u64::from(kind.0) << 48 | u64::from(level) << 56;
    words[10] = txg;
    BlkPtr::from_words(words)
}
