//! Content: writes, freed ranges, cloned blocks, and the growth of a file's first block.

use super::refusal::Refusal;
use super::state::State;
use device::AlignedBuf;
use dmu::{Block, OverlayBlock, Place};
use ondisk::blkptr::SECTOR_SIZE;
use ondisk::{BlkPtr, Endian};
use std::borrow::Cow;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Refusal>;

/// Largest block a pool can have.
const BLOCK_MAX: u64 = 16 << 20;
/// Files end before 2^63.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// What a write record says to write.
pub(super) struct Logged<'a> {
    pub(super) offset: u64,
    pub(super) bytes: Cow<'a, [u8]>,
    /// The block on disk that is exactly these bytes.
    block: Option<BlkPtr>,
}

impl Logged<'_> {
    /// First byte behind the write.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64)
    }
}

impl State {
    /// The data of a write record: in the record, or in the block it names. Such a block is a
    /// whole one of the file, written when only a part of it may have changed, and the whole of it
    /// counts: what a later record relies on may be in it.
    pub(super) fn logged<'a>(
        &self,
        object: u64,
        offset: u64,
        length: u64,
        bp: &BlkPtr,
        data: &'a [u8],
    ) -> Result<Logged<'a>> {
        if offset.checked_add(length).is_none_or(|end| end > OFFSET_MAX) {
            return Err(Refusal::Damaged("the write ends behind the largest file"));
        }
        if !data.is_empty() || length == 0 {
            return Ok(Logged { offset, bytes: Cow::Borrowed(data), block: None });
        }
        let size = bp.lsize();
        if bp.is_hole() {
            if length.max(size) > BLOCK_MAX {
                return Err(Refusal::Damaged("the write is longer than any block"));
            }
            let (offset, length) =
                if length < size { (offset - offset % size, size) } else { (offset, length) };
            return Ok(Logged { offset, bytes: vec![0; length as usize].into(), block: None });
        }
        if length > size || bp.level() != 0 {
            return Err(Refusal::Damaged("the block is not one of the write"));
        }
        let offset = if length < size { offset - offset % size } else { offset };
        let view = self.view();
        let place =
            Place { objset: view.id(), object, level: Place::LEVEL_ZIL, blkid: offset / size };
        let block = view.store().read(bp, place, view.key()).map_err(dmu::Error::from)?;
        Ok(Logged { offset, bytes: Cow::Owned(block.bytes().to_vec()), block: Some(*bp) })
    }

    fn block_size(&self, object: u64) -> Result<u64> {
        match self.object(object)?.dnode().block_size() {
            0 => Err(Refusal::Damaged("the object has blocks of no size")),
            n => Ok(n),
        }
    }

    /// Writes into blocks of the size the object has.
    pub(super) fn write(&mut self, object: u64, logged: &Logged<'_>) -> Result<()> {
        let bs = self.block_size(object)?;
        let bytes: &[u8] = &logged.bytes;
        if let Some(bp) = logged.block
            && logged.offset.is_multiple_of(bs)
            && bytes.len() as u64 == bs
        {
            return self.set_stored(object, logged.offset / bs, &bp);
        }
        let mut rest = bytes;
        let mut at = logged.offset;
        while !rest.is_empty() {
            let start = (at % bs) as usize;
            let n = rest.len().min(bs as usize - start);
            let (now, later) = rest.split_at(n);
            let mut buf = AlignedBuf::try_zeroed(bs as usize).ok_or(Refusal::Memory)?;
            if n < bs as usize
                && let Some(old) = self.object(object)?.read_block(at / bs)?
            {
                copy_start(&mut buf, &old);
            }
            if let Some(part) = buf.get_mut(start..start + n) {
                part.copy_from_slice(now);
            }
            self.set_block(object, at / bs, buf)?;
            at += n as u64;
            rest = later;
        }
        Ok(())
    }

    /// Frees the bytes from `offset` up to `end`; `u64::MAX`: all behind.
    pub(super) fn free(&mut self, object: u64, offset: u64, end: u64) -> Result<()> {
        if offset >= end {
            return Ok(());
        }
        let bs = self.block_size(object)?;
        let (first, last) = (offset / bs, end / bs);
        let (head, tail) = ((offset % bs) as usize, (end % bs) as usize);
        let open = end == u64::MAX;
        if first == last && !open {
            return self.zero_part(object, first, head, tail);
        }
        if head != 0 {
            self.zero_part(object, first, head, bs as usize)?;
        }
        if tail != 0 && !open {
            self.zero_part(object, last, 0, tail)?;
        }
        let start = if head == 0 { first } else { first + 1 };
        self.free_blocks(object, start, if open { u64::MAX } else { last });
        Ok(())
    }

    fn free_blocks(&mut self, object: u64, start: u64, end: u64) {
        let entry = self.edit(object);
        let gone = entry.blocks.range(start..end.max(start)).map(|(_, b)| held_by(b));
        let gone = gone.fold(0u64, u64::saturating_add);
        entry.free_blocks(start, end);
        self.let_go(gone);
    }

    fn zero_part(&mut self, object: u64, blkid: u64, from: usize, to: usize) -> Result<()> {
        let Some(old) = self.object(object)?.read_block(blkid)? else { return Ok(()) };
        let mut buf = AlignedBuf::copy_of(&old);
        let to = to.min(buf.len());
        if let Some(part) = buf.get_mut(from..to) {
            part.fill(0);
        }
        self.set_block(object, blkid, buf)
    }

    fn set_block(&mut self, object: u64, blkid: u64, buf: AlignedBuf) -> Result<()> {
        if self.settings.zeros_are_holes && buf.iter().all(|b| *b == 0) {
            self.free_blocks(object, blkid, blkid.saturating_add(1));
        } else {
            self.hold(buf.len() as u64)?;
            let block = OverlayBlock::Data(Arc::new(Block::new(buf, Endian::Little)));
            self.insert(object, blkid, block);
        }
        self.reach(object, blkid)
    }

    /// Lets a block be one that is on disk already.
    fn set_stored(&mut self, object: u64, blkid: u64, bp: &BlkPtr) -> Result<()> {
        self.insert(object, blkid, OverlayBlock::Stored(Box::new(*bp)));
        self.reach(object, blkid)
    }

    fn insert(&mut self, object: u64, blkid: u64, block: OverlayBlock) {
        let before = self.edit(object).blocks.insert(blkid, block);
        self.let_go(before.as_ref().map_or(0, held_by));
    }

    /// The object has a block of that number.
    fn reach(&mut self, object: u64, blkid: u64) -> Result<()> {
        if self.object(object)?.dnode().max_block >= blkid {
            return Ok(());
        }
        self.edit_dnode(object, |d| d.max_block = blkid)
    }

    /// Takes over blocks that are on disk already.
    pub(super) fn clone_blocks(
        &mut self,
        object: u64,
        offset: u64,
        length: u64,
        block_size: u64,
        blocks: &[BlkPtr],
    ) -> Result<()> {
        let bs = self.block_size(object)?;
        let count = length.div_ceil(bs);
        if block_size != bs || !offset.is_multiple_of(bs) || count != blocks.len() as u64 {
            return Err(Refusal::Damaged("the blocks cloned do not fit the file"));
        }
        if offset.checked_add(length).is_none_or(|end| end > OFFSET_MAX) {
            return Err(Refusal::Damaged("the clone ends behind the largest file"));
        }
        if blocks.iter().any(|bp| !bp.is_hole() && (bp.level() != 0 || bp.lsize() != bs)) {
            return Err(Refusal::Damaged("a block cloned is not one of a file"));
        }
        for (blkid, bp) in (offset / bs..).zip(blocks) {
            if bp.is_hole() {
                self.free_blocks(object, blkid, blkid.saturating_add(1));
                self.reach(object, blkid)?;
            } else {
                self.set_stored(object, blkid, bp)?;
            }
        }
        Ok(())
    }

    /// Grows the only block of a file to hold a file of `end` bytes, as a write or an extension
    /// to there does: while the file fits one block, the block is the file rounded up to sectors;
    /// a longer file has blocks of the record size. A block that is larger than the record size
    /// (the property was lowered) grows to the next power of two.
    pub(super) fn grow(&mut self, object: u64, size: u64, end: u64) -> Result<()> {
        let bs = self.block_size(object)?;
        let max = self.settings.record_size;
        if end > bs && (!bs.is_power_of_two() || bs < max) {
            let target = if bs > max { bs.next_power_of_two() } else { max };
            self.set_block_size(object, size, end.min(target))?;
        }
        Ok(())
    }

    /// Sets the block size of a file of one block; nothing happens when it has more.
    pub(super) fn set_block_size(&mut self, object: u64, size: u64, wanted: u64) -> Result<()> {
        let before = self.object(object)?;
        let bs = before.dnode().block_size();
        let wanted = wanted.next_multiple_of(SECTOR_SIZE).min(BLOCK_MAX);
        if wanted <= bs || size > bs || before.dnode().max_block > 0 {
            return Ok(());
        }
        let sectors = (wanted / SECTOR_SIZE) as u16;
        let only = before.read_block(0)?;
        drop(before);
        self.edit_dnode(object, |d| d.data_sectors = sectors)?;
        if let Some(old) = only {
            let mut buf = AlignedBuf::try_zeroed(wanted as usize).ok_or(Refusal::Memory)?;
            copy_start(&mut buf, &old);
            self.set_block(object, 0, buf)?;
        }
        Ok(())
    }
}

/// Bytes of memory a changed block holds.
fn held_by(block: &OverlayBlock) -> u64 {
    match block {
        OverlayBlock::Data(b) => b.len() as u64,
        OverlayBlock::Stored(_) => 0,
    }
}

/// Copies `from` to the start of `to`, as much as fits.
fn copy_start(to: &mut [u8], from: &[u8]) {
    let n = to.len().min(from.len());
    let (to, from) = (to.get_mut(..n).unwrap_or_default(), from.get(..n).unwrap_or_default());
    to.copy_from_slice(from);
}
