//! Finds the changes, in order, in the batches in which they are read and written.

use super::SendStream;
use super::emit::Emit;
use super::item::{Data, Item, Reading, Ready};
use crate::error::{Error, ErrorKind, Result, Unsendable};
use dmu::{Place, Step, Visitor};
use ondisk::dnode::DNODE_SLOT_SIZE;
use ondisk::{BlkPtr, Dnode};
use parking_lot::Mutex;
use rt::Progress;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use stream::Writer;
use zio::Block;

/// Bytes of blocks in one batch, at most (but always one block).
const BATCH_BYTES: u64 = 8 << 20;
/// Items of one batch, at most.
const BATCH_ITEMS: usize = 2048;
/// Threads that read a batch.
const READERS: usize = 3;

/// The object whose blocks are being visited.
struct Current {
    number: u64,
    kind: ondisk::DmuType,
    size: u64,
    max_block: u64,
    indirect_shift: u8,
}

/// Visits what changed.
struct Walk<'a, W: Write> {
    send: &'a SendStream<'a>,
    progress: &'a Progress,
    emit: Mutex<Emit<'a, W>>,
    batch: Vec<Item>,
    bytes: u64,
    /// The batch before, read and not yet written.
    ready: Vec<Ready>,
    current: Option<Current>,
    /// Slots of the block of dnodes that were not reported yet: from the first up to the second.
    slots: (u64, u64),
    /// Behind the last object that can be.
    objects_end: u64,
    failure: Option<Error>,
}

/// Sends what changed, and gives the writer back.
pub(super) fn send<'a, W: Write + Send>(
    send: &'a SendStream<'a>,
    emit: Emit<'a, W>,
    progress: &'a Progress,
) -> Result<Writer<std::io::BufWriter<W>>> {
    let meta = send.objset.phys().meta_dnode.clone();
    let mut walk = Walk {
        send,
        progress,
        emit: Mutex::new(emit),
        batch: Vec::new(),
        bytes: 0,
        ready: Vec::new(),
        current: None,
        slots: (0, 0),
        objects_end: meta.as_ref().map_or(0, |meta| {
            let per_block = meta.block_size() / DNODE_SLOT_SIZE as u64;
            meta.max_block.saturating_add(1).saturating_mul(per_block)
        }),
        failure: None,
    };
    // Why it ended early is in `failure`.
    let _ = send.objset.traverse(send.since(), &mut walk);
    progress.check()?;
    // One batch is read, and then it is written.
    walk.turn();
    walk.turn();
    match walk.failure {
        Some(error) => Err(error),
        None => Ok(walk.emit.into_inner().into_writer()),
    }
}

impl<W: Write + Send> Visitor for Walk<'_, W> {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step {
        if self.failure.is_some() || self.progress.is_cancelled() {
            return Step::Stop;
        }
        match () {
            () if place.level < 0 => Step::Descend,
            // The tables of space by owner: a receiver makes its own.
            () if place.object >= u64::MAX - 2 => Step::Skip,
            () if self.was_received(place) => Step::Skip,
            () if self.send.is_raw() && !bp.is_hole() && !bp.uses_crypt() => {
                self.fail(Error::new(ErrorKind::Damaged));
                Step::Stop
            }
            () if bp.is_redacted() => {
                self.fail(Error::new(ErrorKind::NotSent(Unsendable::Redacted)));
                Step::Stop
            }
            () if bp.is_hole() => {
                self.hole(place);
                Step::Skip
            }
            () if place.level > 0 => Step::Descend,
            () if place.object == 0 => {
                let per_block = bp.lsize() / DNODE_SLOT_SIZE as u64;
                let first = place.blkid.saturating_mul(per_block);
                // Number 0 is the meta dnode.
                let first_left = first.max(1).max(self.send.start.object);
                self.slots = (first_left, first.saturating_add(per_block));
                if self.send.is_raw() {
                    self.push(Item::Range { first, slots: per_block, bp: *bp }, 0);
                }
                Step::Descend
            }
            () => {
                self.block(bp, place);
                Step::Descend
            }
        }
    }

    fn leave(&mut self, _: &BlkPtr, place: Place) -> ControlFlow<()> {
        if (place.object, place.level) == (0, 0) {
            self.free_slots(self.slots.1);
        }
        if self.failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn object(&mut self, number: u64, dnode: &Dnode) -> Step {
        if number < self.send.start.object {
            return Step::Skip;
        }
        self.free_slots(number);
        self.slots.0 = number.saturating_add(u64::from(dnode.extra_slots) + 1);
        self.current = Some(Current {
            number,
            kind: dnode.kind,
            size: dnode.block_size(),
            max_block: dnode.max_block,
            indirect_shift: dnode.indirect_shift,
        });
        let since = self.send.since();
        let old_spill = dnode.spill.filter(|bp| !bp.is_hole() && bp.logical_birth() <= since);
        self.push(Item::Object { number, dnode: Box::new(dnode.clone()) }, 0);
        if let Some(bp) = old_spill {
            self.push(Item::Spill { object: number, bp }, bp.lsize());
        }
        if self.failure.is_some() { Step::Stop } else { Step::Descend }
    }

    fn unborn(&mut self, place: Place) {
        if place.level >= 0 && place.object < u64::MAX - 2 && !self.was_received(place) {
            self.hole(place);
        }
    }

    fn lost(&mut self, _: Place, error: dmu::Error) {
        self.fail(error.into());
    }
}

impl<W: Write + Send> Walk<'_, W> {
    fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Whether the rest of a stream begins behind all that is there.
    fn was_received(&self, place: Place) -> bool {
        let start = &self.send.start;
        if start.object == 0 || place.blkid == Place::BLKID_SPILL {
            return false;
        }
        if place.object == 0 {
            let Some(meta) = &self.send.objset.phys().meta_dnode else { return false };
            let per_block = meta.block_size() / DNODE_SLOT_SIZE as u64;
            let covered = Self::covered(place, meta.indirect_shift);
            return covered.is_some_and(|(_, end)| end.saturating_mul(per_block) <= start.object);
        }
        let current = self.current.as_ref().filter(|current| current.number == place.object);
        let covered = current.and_then(|current| Self::covered(place, current.indirect_shift));
        covered.is_some_and(|(_, end)| start.is_behind(place.object, end))
    }

    /// The slots up to `end` that no object took.
    fn free_slots(&mut self, end: u64) {
        let first = self.slots.0;
        if let Some(count) = end.checked_sub(first).filter(|count| *count > 0) {
            self.push(Item::FreeObjects { first, count }, 0);
        }
        self.slots.0 = end;
    }

    /// Blocks of level 0 that a hole replaces, from the first to behind the last. A range beyond 64
    /// bits was never anything but a hole.
    fn covered(place: Place, indirect_shift: u8) -> Option<(u64, u64)> {
        let shift = u32::from(indirect_shift).saturating_sub(7);
        let shift = shift.checked_mul(u32::from(place.level.cast_unsigned()))?;
        let span = 1u64.checked_shl(shift)?;
        let first = place.blkid.checked_mul(span)?;
        Some((first, first.saturating_add(span)))
    }

    fn hole(&mut self, place: Place) {
        let phys = self.send.objset.phys();
        if place.object == 0 {
            let Some(meta) = &phys.meta_dnode else { return };
            let per_block = meta.block_size() / DNODE_SLOT_SIZE as u64;
            let Some((start, end)) = Self::covered(place, meta.indirect_shift) else { return };
            let Some(first) = start.checked_mul(per_block) else { return };
            // Older receivers visit every number of the range.
            let end = end.saturating_mul(per_block).min(self.objects_end);
            if let Some(count) = end.checked_sub(first).filter(|count| *count > 0) {
                self.push(Item::FreeObjects { first, count }, 0);
            }
            return;
        }
        let Some(current) = &self.current else { return };
        if place.blkid == Place::BLKID_SPILL {
            return;
        }
        let Some((start, end)) = Self::covered(place, current.indirect_shift) else { return };
        if !current.kind.is_metadata() && start > current.max_block {
            return;
        }
        let Some(offset) = start.checked_mul(current.size) else { return };
        let length = end.saturating_mul(current.size) - offset;
        self.push(Item::Free { object: current.number, offset, length }, 0);
    }

    fn block(&mut self, bp: &BlkPtr, place: Place) {
        let Some(current) = &self.current else { return };
        if place.blkid == Place::BLKID_SPILL {
            return self.push(Item::Spill { object: place.object, bp: *bp }, bp.lsize());
        }
        if bp.lsize() != current.size {
            let object = dmu::Error {
                objset: place.objset,
                object: place.object,
                kind: dmu::ErrorKind::Tree("a block differs in size from the others of its object"),
            };
            return self.fail(object.into());
        }
        let (object, kind, size) = (current.number, current.kind.0, current.size);
        let data = Data { object, kind, blkid: place.blkid, size, bp: *bp };
        self.push(Item::Write(data), size);
    }

    fn push(&mut self, item: Item, bytes: u64) {
        let is_full = self.bytes.saturating_add(bytes) > BATCH_BYTES;
        if !self.batch.is_empty() && (is_full || self.batch.len() >= BATCH_ITEMS) {
            self.turn();
        }
        self.bytes += bytes;
        self.batch.push(item);
    }

    /// Reads the batch, while the one before is written.
    fn turn(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        let ready = Mutex::new(std::mem::take(&mut self.ready));
        let wanted = self.emit.get_mut().readings(&batch);
        let share = wanted.len().div_ceil(READERS).max(1);
        let parts: Vec<&[(usize, Reading)]> = wanted.chunks(share).collect();
        let blocks = Mutex::new(vec![None; batch.len()]);
        let emit = &self.emit;
        let (send, batch_ref) = (self.send, &batch);
        let work = |part: Option<&[(usize, Reading)]>| match part {
            None => emit.lock().all(std::mem::take(&mut *ready.lock())),
            Some(part) => {
                let read = read(send, batch_ref, part)?;
                let mut blocks = blocks.lock();
                for (at, block) in read {
                    if let Some(slot) = blocks.get_mut(at) {
                        *slot = Some(block);
                    }
                }
                Ok(())
            }
        };
        let parts = parts.into_iter().map(Some);
        let rt = self.send.pool.rt();
        let done = rt.for_each_parallel(READERS + 1, std::iter::once(None).chain(parts), work);
        if self.failure.is_some() {
            return;
        }
        match done {
            Ok(()) => self.ready = batch.into_iter().zip(blocks.into_inner()).collect(),
            Err(error) => self.failure = Some(error),
        }
    }
}

/// Reads the blocks of these items.
fn read(
    send: &SendStream<'_>,
    batch: &[Item],
    part: &[(usize, Reading)],
) -> Result<Vec<(usize, Arc<Block>)>> {
    let objset = send.objset.id();
    let wanted = |how: Reading| {
        let of = part.iter().filter(move |(_, reading)| *reading == how);
        of.filter_map(move |(at, _)| {
            let (bp, object, blkid) = batch.get(*at)?.block()?;
            Some((*at, (bp, Place { objset, object, level: 0, blkid })))
        })
    };
    let failed = |error: zio::Error| Error::from(dmu::Error::from(error));
    let (at, plain): (Vec<usize>, Vec<(BlkPtr, Place)>) = wanted(Reading::Plain).unzip();
    let read = send.objset.store().read_many(&plain, send.objset.key());
    let mut out = Vec::with_capacity(part.len());
    for (at, block) in at.into_iter().zip(read) {
        out.push((at, block.map_err(failed)?));
    }
    let (at, stored): (Vec<usize>, Vec<(BlkPtr, Place)>) = wanted(Reading::Stored).unzip();
    let requests: Vec<_> = stored
        .iter()
        .map(|(bp, place)| zio::Request {
            bp,
            place: *place,
            key: None,
            scope: vdev::Scope::Data,
            raw: true,
        })
        .collect();
    let read = send.pool.reader().read_many(&requests);
    for (at, outcome) in at.into_iter().zip(read) {
        out.push((at, Arc::new(outcome.block.map_err(failed)?)));
    }
    Ok(out)
}
