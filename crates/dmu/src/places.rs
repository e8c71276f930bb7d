//! Where the indirect blocks of a tree stand: each of them in one place.
//!
//! A pointer does not say which block of an object it is for, so a few KiB on a disk can claim
//! exabytes: blocks of pointers that all lead to one block of pointers. No honest tree has that.
//! Deduplication and block cloning share blocks of data alone, and what snapshots share stands in
//! the same place of both.
//!
//! So each indirect block that is come to is noted with its place, and one that has another place
//! already is an error. All copies are noted: of an address that leads nowhere the next copy would
//! be read. The work on a tree is then bounded by the indirect blocks that are really there.
//!
//! Memory: some 50 bytes for each copy of an indirect block, of [`NOTED_MAX`] copies at most. A
//! tree must have that many before a later one can be shared, which is work in proportion to the
//! size of the pool.

use ondisk::{BlkPtr, Dnode};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Copies that are noted, at most.
const NOTED_MAX: usize = 1 << 20;

/// Vdev, offset, and the txg in which it was allocated: the place on a disk may be used again.
type Address = (u32, u64, u64);

/// The places of one tree.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<Address, (u8, u64)>>);

impl Places {
    /// Whether an indirect block of this tree can stand where it stands; else the rule that it
    /// breaks. A pointer that loops back up the tree is an error, not a loop.
    pub(crate) fn judge(
        &self,
        dnode: &Dnode,
        bp: &BlkPtr,
        level: u8,
        blkid: u64,
    ) -> Result<(), &'static str> {
        match () {
            () if bp.level() != level => Err("a pointer has another level than its place"),
            () if bp.lsize() != 1 << dnode.indirect_shift => {
                Err("an indirect block has another size")
            }
            () if bp.is_embedded() => Err("an indirect block is embedded"),
            () if !self.is_only(bp, level, blkid) => {
                Err("an indirect block stands in several places of its tree")
            }
            () => Ok(()),
        }
    }

    /// Notes an indirect block; whether this is its only place so far.
    pub(crate) fn is_only(&self, bp: &BlkPtr, level: u8, blkid: u64) -> bool {
        let mut noted = self.0.lock();
        let place = (level, blkid);
        bp.dvas().all(|(_, dva)| {
            let room = noted.len() < NOTED_MAX;
            match noted.entry((dva.vdev(), dva.offset(), bp.physical_birth())) {
                Entry::Occupied(known) => *known.get() == place,
                Entry::Vacant(free) => {
                    if room {
                        free.insert(place);
                    }
                    true
                }
            }
        })
    }
}
