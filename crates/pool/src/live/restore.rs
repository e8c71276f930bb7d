//! Blocks of a snapshot, made good with what was kept of them elsewhere.
//!
//! # Theory
//!
//! A snapshot does not change, so a block of it that was kept elsewhere, in a stream, is what
//! should be on the devices. Each block that comes is looked for in the snapshot, and read there in
//! all its copies, as a scrub does. One that no copy has is written again to the same places, when
//! what came has its checksum (`zio`, `reader/restore.rs`); it is read again after that.
//!
//! Blocks are found as the last durable txg has them, and no txg becomes durable meanwhile: what
//! the snapshot has then is given to no other block. So nothing is a part of a txg here.
//!
//! Only blocks that stand at the bottom of a tree come in streams. What leads to them must be
//! readable.

use super::LivePool;
use super::scan::dataset;
use crate::error::Result;
use crate::refusal::PoolRefusal;
use dmu::{BlockStore, Key, Objset, Place, SealedStore};
use ondisk::BlkPtr;
use std::sync::Arc;
use vdev::Heal;
use zio::Kept;

/// A snapshot: its object in the MOS, and its guid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotId {
    /// Its object.
    pub object: u64,
    /// What tells it from another of this object.
    pub guid: u64,
}

/// Which block of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichBlock {
    /// The one that begins there, in bytes, if it has this size.
    At {
        /// Where it begins.
        offset: u64,
        /// Its size.
        size: u64,
    },
    /// Its spill block.
    Spill,
}

/// A block that was kept.
#[derive(Clone, Copy, Debug)]
pub struct KeptBlock<'a> {
    /// The object that it is of.
    pub object: u64,
    /// Which of its blocks.
    pub which: WhichBlock,
    /// What was kept.
    pub kept: Kept<'a>,
}

/// What became of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Blocks that the snapshot has, and that were read.
    pub read: u64,
    /// Those of them that were written again, because no device had them.
    pub restored: u64,
    /// Those that are lost still: what was kept is not what was stored, or is not taken.
    pub left: u64,
    /// Blocks that cannot be looked for, because what leads to them is lost, or that the snapshot
    /// has in another size.
    pub unseen: u64,
    /// Bytes that were written to devices, those included that others had.
    pub written: u64,
}

impl Restored {
    /// Adds what became of others.
    pub fn add(&mut self, other: Self) {
        let Self { read, restored, left, unseen, written } = other;
        self.read += read;
        self.restored += restored;
        self.left += left;
        self.unseen += unseen;
        self.written += written;
    }
}

/// A block that is there, and what was kept of it.
type BlockToRestore<'k> = (BlkPtr, Place, Kept<'k>);

/// A block as the snapshot has it.
enum Found {
    There(BlkPtr, Place),
    /// A hole, or in its pointer: nothing of it can be damaged.
    Nothing,
    Unseen,
}

impl LivePool {
    /// Makes blocks of a snapshot good. All are in memory at the same time. `key` is that of the
    /// snapshot, if it is encrypted and what was kept is not.
    ///
    /// # Errors
    /// The snapshot is gone or cannot be opened, the pool takes no changes, or devices do not
    /// flush.
    pub fn restore_blocks(
        &self,
        snapshot: SnapshotId,
        blocks: &[KeptBlock<'_>],
        key: Option<&Key>,
    ) -> Result<Restored> {
        self.check_takes_changes()?;
        let shared = &self.shared;
        let _gate = shared.gate.read();
        let store = || Arc::clone(&shared.store) as Arc<dyn BlockStore>;
        let rootbp = shared.uberblock.lock().rootbp;
        let mos = Objset::open(store(), 0, &rootbp, None)?;
        let root = dataset(&mos, snapshot.object).filter(|d| d.guid == snapshot.guid);
        let root = root.ok_or_else(|| self.shared.refused(PoolRefusal::SnapshotGone))?;
        let clear = Arc::new(SealedStore::new(store()));
        let set = Objset::open(clear, snapshot.object, &root.bp, None)?;
        let mut out = Restored::default();
        let mut there = Vec::with_capacity(blocks.len());
        for block in blocks {
            match find(&set, block) {
                Found::There(bp, place) => there.push((bp, place, block.kept)),
                Found::Nothing => {}
                Found::Unseen => out.unseen += 1,
            }
        }
        out.read = there.len() as u64;
        let lost = self.lost_of(&there, &mut out);
        if lost.is_empty() {
            return self.flush_restored(out);
        }
        for (bp, place, kept) in &lost {
            let stored = shared.reader.stored_form(bp, *kept, key.map(|key| &**key));
            if let Some(stored) = stored {
                let bytes = stored.len() as u64 * bp.dvas().count() as u64;
                if shared.reader.write_in_place(bp, *place, stored) {
                    out.written += bytes;
                }
            }
        }
        out.left = self.lost_of(&lost, &mut out).len() as u64;
        out.restored = (lost.len() as u64).saturating_sub(out.left);
        self.flush_restored(out)
    }

    /// Those that no device has; what some have is brought to the others.
    fn lost_of<'k>(
        &self,
        blocks: &[BlockToRestore<'k>],
        out: &mut Restored,
    ) -> Vec<BlockToRestore<'k>> {
        let places: Vec<_> = blocks.iter().map(|(bp, place, _)| (*bp, *place)).collect();
        let mended = self.shared.reader.heal_many(&places, Heal::All);
        out.written += mended.iter().map(|m| m.repaired).sum::<u64>();
        let lost = blocks.iter().zip(mended).filter(|(_, mended)| mended.lost.is_some());
        lost.map(|(block, _)| *block).collect()
    }

    fn flush_restored(&self, out: Restored) -> Result<Restored> {
        if out.written > 0 {
            let flushed = self.shared.reader.vdevs().flush();
            flushed.map_err(|e| self.shared.failed("flushing", e))?;
        }
        Ok(out)
    }
}

fn find(set: &Objset, block: &KeptBlock<'_>) -> Found {
    let Ok(object) = set.object(block.object) else { return Found::Unseen };
    let dnode = object.dnode();
    let (bp, blkid) = match block.which {
        WhichBlock::Spill => (Ok(dnode.spill), Place::BLKID_SPILL),
        WhichBlock::At { offset, size } => {
            if size == 0 || dnode.block_size() != size || !offset.is_multiple_of(size) {
                return Found::Unseen;
            }
            (object.block_pointer(0, offset / size), offset / size)
        }
    };
    match bp {
        Ok(Some(bp)) if !bp.is_hole() && !bp.is_embedded() => {
            Found::There(bp, object.place(0, blkid))
        }
        Ok(_) => Found::Nothing,
        Err(_) => Found::Unseen,
    }
}
