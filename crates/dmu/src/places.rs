//! The places of the indirect blocks of an object set: each is in one place of one object.
//!
//! A pointer does not record which block of which object it is for, so a few KiB on a disk can
//! claim exabytes: blocks of pointers that all lead to one block of pointers, and thousands of
//! objects that all lead to one tree. No valid object set has that. Deduplication and block cloning
//! share blocks of data alone, and what snapshots share is in the same place of both.
//!
//! So each indirect block that is come to is noted with its place, and one that has another place
//! already is an error. All copies are noted: of an address that leads nowhere the next copy would
//! be read. The work on an object set is then bounded by the indirect blocks that are really there.
//!
//! Memory: some 60 bytes for each copy of an indirect block that was read, of [`NOTED_MAX`] copies
//! at most, in [`SHARDS`] parts so that threads that read do not wait for each other. A part that
//! is full is forgotten: a set that is changed for long has had more blocks than it has. To be
//! shared unnoticed, a block must be come to after as many others, which is work in proportion to
//! the size of the pool.

use ondisk::{BlkPtr, Dnode};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Copies that are noted, at most.
const NOTED_MAX: usize = 1 << 20;
/// Parts of what is noted, each with a lock of its own.
const SHARDS: usize = 16;

/// Vdev, offset, and the txg in which it was allocated: the place on a disk may be used again.
type Address = (u32, u64, u64);

/// Object, level and block.
type BlockId = (u64, u8, u64);

/// The places of one object set.
#[derive(Debug, Default)]
pub(crate) struct Places([Mutex<HashMap<Address, BlockId>>; SHARDS]);

impl Places {
    /// Checks whether an indirect block of object `number` may be at its place; otherwise returns
    /// the rule that it breaks. A pointer that loops back up the tree is an error, not a loop.
    pub(crate) fn judge(
        &self,
        (number, dnode): (u64, &Dnode),
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
            () if !self.is_only(bp, (number, level, blkid)) => {
                Err("an indirect block stands in several places")
            }
            () => Ok(()),
        }
    }

    /// Notes an indirect block; whether this is its only place so far.
    pub(crate) fn is_only(&self, bp: &BlkPtr, id: BlockId) -> bool {
        bp.dvas().all(|(_, dva)| {
            // Offsets are in sectors, and of large blocks in many of them.
            let shard = (dva.offset() >> 9) ^ (dva.offset() >> 17);
            let Some(shard) = self.0.get((shard % SHARDS as u64) as usize) else { return true };
            let mut noted = shard.lock();
            if noted.len() >= NOTED_MAX / SHARDS {
                noted.clear();
            }
            *noted.entry((dva.vdev(), dva.offset(), bp.physical_birth())).or_insert(id) == id
        })
    }
}
