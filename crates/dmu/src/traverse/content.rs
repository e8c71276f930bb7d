//! The pointers and dnodes inside a block, and their places.

use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::dnode::{DNODE_SLOT_SIZE, EXTRA_SLOTS_AT};
use ondisk::{BlkPtr, Dnode, ObjsetPhys};
use zio::{Block, Place};

/// The dnode of the table of projects, groups and users, counted down from the largest number.
const ACCOUNTING: [u64; 3] = [u64::MAX - 2, u64::MAX - 1, u64::MAX];

/// The pointers in an indirect block at `place`, and the place of each.
pub fn pointers(
    block: &Block,
    place: Place,
) -> impl Iterator<Item = (Place, ondisk::Result<BlkPtr>)> {
    let fanout = (block.len() / BLKPTR_SIZE) as u64;
    let first = place.blkid.saturating_mul(fanout);
    let level = place.level.saturating_sub(1);
    let pointers = block.chunks_exact(BLKPTR_SIZE).zip(0..);
    pointers.map(move |(bytes, slot)| {
        let place = Place { level, blkid: first.saturating_add(slot), ..place };
        (place, BlkPtr::decode(bytes, block.endian()))
    })
}

/// The dnodes in a block of the meta dnode's data at `place`, with their numbers. The slot of
/// number 0 is empty, unless it is damaged: that is the meta dnode itself.
pub fn dnodes(block: &Block, place: Place) -> impl Iterator<Item = (u64, ondisk::Result<Dnode>)> {
    let slots = (block.len() / DNODE_SLOT_SIZE) as u64;
    let first = place.blkid.saturating_mul(slots);
    Slots::new(block).map(move |(slot, dnode)| (first.saturating_add(slot as u64), dnode))
}

/// The dnodes in the header of an object set beside the meta dnode, in the order of a walk, with
/// their numbers.
pub fn accounting(phys: &ObjsetPhys) -> impl Iterator<Item = (u64, &Dnode)> {
    let tables = [&phys.project_used, &phys.group_used, &phys.user_used];
    ACCOUNTING.into_iter().zip(tables).filter_map(|(number, dnode)| Some((number, dnode.as_ref()?)))
}

/// The pointers in a dnode, and their places; the spill block is the last.
pub fn tops(objset: u64, object: u64, dnode: &Dnode) -> impl Iterator<Item = (Place, &BlkPtr)> {
    let top =
        Place { objset, object, level: dnode.levels.saturating_sub(1).cast_signed(), blkid: 0 };
    let beside = (0..).zip(&dnode.blkptrs).map(move |(blkid, bp)| (Place { blkid, ..top }, bp));
    let spill = Place { level: 0, blkid: Place::BLKID_SPILL, ..top };
    beside.chain(dnode.spill.iter().map(move |bp| (spill, bp)))
}

/// The dnodes of one block with their slot numbers.
pub(crate) struct Slots<'a> {
    block: &'a Block,
    slot: usize,
}

impl<'a> Slots<'a> {
    pub(crate) fn new(block: &'a Block) -> Self {
        Self { block, slot: 0 }
    }

    /// Passes over the dnodes before slot `to` without decoding them; stops behind it when the
    /// slot is the inside of a larger dnode.
    pub(crate) fn skip_to(&mut self, to: usize) {
        while self.slot < to {
            let bytes = self.block.get(self.slot * DNODE_SLOT_SIZE..).unwrap_or_default();
            self.slot += match bytes.get(EXTRA_SLOTS_AT) {
                // A damaged dnode must not hide those behind it.
                Some(extra @ 0..=31) if !Dnode::is_free_slot(bytes) => usize::from(*extra) + 1,
                Some(_) => 1,
                None => return,
            };
        }
    }
}

impl Iterator for Slots<'_> {
    type Item = (usize, ondisk::Result<Dnode>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.slot;
            let bytes = self.block.get(at * DNODE_SLOT_SIZE..)?;
            if bytes.len() < DNODE_SLOT_SIZE {
                return None;
            }
            if Dnode::is_free_slot(bytes) {
                self.slot += 1;
                continue;
            }
            let dnode = Dnode::decode(bytes, self.block.endian());
            self.slot += match &dnode {
                Ok(d) => usize::from(d.extra_slots) + 1,
                Err(_) => 1,
            };
            return Some((at, dnode));
        }
    }
}
