//! Space that is kept for a checkpoint: freed since it was made, and not free before the checkpoint
//! is discarded.
//!
//! # Theory
//!
//! ```text
//! free, of a block born up to the checkpoint   a range of its metaslab, by vdev, in memory
//! sync, in passes                              appended to the vdev's checkpoint space map
//! discard, a piece in each txg                 off the end of that map, and freed as any space is
//! ```
//!
//! To the metaslab nothing happens before the checkpoint is discarded: its map and its counts have
//! the space as allocated. A block counts by its physical birth: a clone made since of an earlier
//! block is a block of the checkpoint.
//!
//! The map is written by the vdev, and its ranges do not reach over the end of a metaslab: OpenZFS
//! relies on that when it frees them. It is taken apart from its end on, whole blocks at a time, so
//! that a crash in the middle finds a map that is only shorter.
//!
//! The txg that gives the checkpoint up has freed blocks before it did: those of its datasets and
//! of their logs. They wait in memory for the map, and are freed by the discard instead: a map that
//! came after the last piece would belong to no checkpoint.

use super::checkpointed::Checkpointed;
use super::maps::{self, Change, Shape, WriteMaps};
use super::mos_writer::{MosWriter, format_error};
use super::ranges::Ranges;
use super::stored::header_of;
use super::top::Top;
use super::{Allocator, Tops};
use dmu::{Objset, Tx, Zap, zap};
use ondisk::mos::vdev_zap;
use ondisk::spacemap::{self, Entry};
use ondisk::{BlkPtr, Endian};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Ranges that one txg frees of what was kept, about: some ten thousand are a fraction of a second.
const FREES_PER_TXG: usize = 50_000;

/// The result of discarding in one txg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Bytes that are free from now on.
    pub bytes: u64,
    /// Nothing is kept any more.
    pub done: bool,
    /// To be added to the count of the feature `spacemap_histogram`.
    pub histograms: i64,
}

impl Allocator {
    /// From now on what was born up to `txg` is kept when it is freed; `None`: nothing is.
    pub fn set_checkpoint(&self, txg: Option<u64>) {
        self.checkpoint.store(txg.unwrap_or(0), Relaxed);
    }

    /// A block that `txg` frees is a part of the checkpoint.
    pub(super) fn is_kept(&self, bp: &BlkPtr, txg: u64) -> bool {
        let checkpoint = self.checkpoint.load(Relaxed);
        checkpoint != 0 && bp.physical_birth() <= checkpoint && checkpoint < txg
    }

    /// Keeps a range of a block that was freed. False: it is kept already, or in no metaslab.
    pub(super) fn keep(top: &Top, start: u64, end: u64) -> bool {
        let index = usize::try_from(start >> top.ms_shift).unwrap_or(usize::MAX);
        top.kept.keep(index, start, end)
    }

    /// Appends what was kept since the last pass to the maps of the vdevs.
    pub(super) fn sync_kept(
        &self,
        writer: &mut dyn WriteMaps,
        txg: u64,
        pass: u32,
    ) -> dmu::Result<bool> {
        let mut wrote = false;
        for top in self.tops().values() {
            let new = std::mem::take(&mut *top.kept.new.lock());
            for ranges in new.into_values() {
                self.append(writer, top, ranges, (txg, pass))?;
                wrote = true;
            }
        }
        Ok(wrote)
    }

    fn append(
        &self,
        writer: &mut dyn WriteMaps,
        top: &Top,
        ranges: Ranges,
        (txg, pass): (u64, u32),
    ) -> dmu::Result<()> {
        let object = match top.kept.object.load(Relaxed) {
            0 => writer.create_named(top.zap, vdev_zap::CHECKPOINT_SPACE_MAP)?,
            object => object,
        };
        top.kept.object.store(object, Relaxed);
        let (header, block_size) = writer.open(object)?;
        let shape = Shape {
            length: header.length,
            block_size,
            shift: top.ashift,
            two_words: self.options.two_words,
            condense: false,
            tells_frees: false,
        };
        let bytes = ranges.bytes();
        let change = Change { frees: ranges, ..Change::default() };
        let new = maps::encode(&change, 0, &shape, &header, txg, pass);
        let new = new.map_err(|error| format_error(object, error))?;
        writer.write(object, new.at, &new.bytes, &new.header)?;
        top.kept.bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Frees a piece of what was kept in the txg of `tx`. Comes after [`Self::set_checkpoint`] with
    /// `None`, until it is done.
    ///
    /// # Errors
    /// When a map cannot be read or changed. The txg cannot be finished then.
    pub fn discard_kept(&self, mos: &Objset, tx: &Tx) -> dmu::Result<Discarded> {
        let tops = self.tops();
        let mut out = Discarded::default();
        let mut left = FREES_PER_TXG;
        for top in tops.values() {
            let new = std::mem::take(&mut *top.kept.new.lock());
            for (start, end) in new.values().flat_map(Ranges::iter) {
                self.free_kept(top, start, end, tx.txg());
                out.bytes = out.bytes.saturating_add(end - start);
            }
            while left > 0 && top.kept.object.load(Relaxed) != 0 {
                left = left.saturating_sub(self.discard_end(top, mos, tx, &mut out)?);
            }
        }
        out.done = is_empty(&tops);
        Ok(out)
    }

    /// Frees what the last block of a vdev's map holds, and takes it off; how many ranges.
    fn discard_end(
        &self,
        top: &Top,
        mos: &Objset,
        tx: &Tx,
        out: &mut Discarded,
    ) -> dmu::Result<usize> {
        let number = top.kept.object.load(Relaxed);
        let object = mos.object(number)?;
        let mut header = header_of(&object)?;
        let block = object.dnode().block_size().max(1);
        let start = header.length.saturating_sub(1) / block * block;
        let mut bytes = vec![0; header.length.saturating_sub(start) as usize];
        object.read_at(start, &mut bytes)?;
        let endian: Endian = object.dnode().endian;
        let mut count = 0;
        for entry in spacemap::entries(&bytes, endian, 0, top.ashift) {
            let entry = entry.map_err(|e| format_error(number, e))?;
            let Entry::Range(r) = entry else { continue };
            self.free_kept(top, r.offset, r.offset.saturating_add(r.size), tx.txg());
            count += 1;
            out.bytes = out.bytes.saturating_add(r.size);
            header.allocated = header.allocated.saturating_add(r.size.cast_signed());
        }
        header.length = start;
        if start > 0 {
            let mut writer = MosWriter::new(mos, tx, self.options.histograms);
            writer.write(number, start, &[], &header)?;
            let bytes = header.allocated.min(0).unsigned_abs();
            top.kept.bytes.store(bytes, Relaxed);
        } else {
            out.histograms -= i64::from(header.histogram.is_some());
            mos.free(tx, number)?;
            let key = vdev_zap::CHECKPOINT_SPACE_MAP;
            zap::remove(&mos.object(top.zap)?, tx, key)?;
            top.kept.bytes.store(0, Relaxed);
            top.kept.object.store(0, Relaxed);
        }
        // A block with nothing but debug words costs something as well.
        Ok(count.max(1))
    }

    fn free_kept(&self, top: &Top, start: u64, end: u64, txg: u64) {
        let done = top.metaslab(start, end).is_some_and(|m| m.free(&top.room, start, end, txg));
        if !done {
            let id = top.id;
            let size = end - start;
            self.problem(format!(
                "{size} bytes at {start:#x} of vdev {id}, kept for the checkpoint, are free already"
            ));
        }
    }

    /// Bytes that are kept, as datasets count them.
    #[must_use]
    pub fn kept(&self) -> u64 {
        let tops = self.tops();
        let of = |t: &Arc<Top>| t.deflate_ratio.deflate(t.kept.bytes());
        tops.values().map(of).fold(0, u64::saturating_add)
    }
}

fn is_empty(tops: &Tops) -> bool {
    tops.values().all(|top| top.kept.object.load(Relaxed) == 0)
}

/// Reads the kept space from the ZAP of a vdev.
pub(super) fn open(mos: &Objset, table: &Zap) -> dmu::Result<Checkpointed> {
    let object = table.get_u64(vdev_zap::CHECKPOINT_SPACE_MAP)?.unwrap_or(0);
    if object == 0 {
        return Ok(Checkpointed::default());
    }
    let allocated = header_of(&mos.object(object)?)?.allocated;
    Ok(Checkpointed::new(object, allocated.min(0).unsigned_abs()))
}
