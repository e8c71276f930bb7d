//! Content that is on disk already: writes whose data were written before them, and blocks that
//! are cloned.
//!
//! In a set that is thrown away, such a block becomes one of the file as it is. In a set that is
//! synced, the data of a write are read and written again: the block belongs to the log, and goes
//! with it. A cloned block is the file's there too, and the sync counts the reference; until then
//! the log keeps the block from being freed that is replayed, or the pool does, which expects it
//! (`cloning.rs`).

use crate::error::{Error, Result};
use crate::op::{Cloned, Data};
use crate::refusal::{Excess, InvalidRequest, Unsupported};
use dmu::{Object, Objset, Place, Tx};
use ondisk::BlkPtr;
use std::borrow::Cow;

/// Files end before 2^63.
pub(super) const OFFSET_MAX: u64 = i64::MAX as u64;
/// Largest block a pool can have.
pub(super) const BLOCK_MAX: u64 = 16 << 20;

/// Data and where they go.
pub(super) struct Content<'a> {
    pub(super) offset: u64,
    pub(super) bytes: Cow<'a, [u8]>,
    /// The block on disk that is exactly these bytes.
    block: Option<&'a BlkPtr>,
    /// Where the write ended that the block is of, which may be before the block does.
    logged_end: Option<u64>,
}

impl<'a> Content<'a> {
    /// The data of a write at `offset` of `object`; those in a block are read. Such a block is a
    /// whole one of the file, written when only a part of it may have changed, and the whole of it
    /// counts: what a later write relies on may be in it.
    pub(super) fn of(objset: &Objset, object: u64, offset: u64, data: &Data<'a>) -> Result<Self> {
        let end = offset.checked_add(data.len()).filter(|end| *end <= OFFSET_MAX);
        let end = end.ok_or(Error::refused(Excess::WriteEnd))?;
        let stored = match data {
            Data::Bytes(bytes) => {
                let bytes = Cow::Borrowed(*bytes);
                return Ok(Self { offset, bytes, block: None, logged_end: None });
            }
            Data::Stored(stored) => stored,
        };
        let (length, size, logged_end) = (stored.length, stored.block.lsize(), Some(end));
        if length.max(size) > BLOCK_MAX {
            return Err(Error::refused(Excess::WriteLength));
        }
        let offset = if length < size { offset - offset % size } else { offset };
        if stored.block.is_hole() {
            let bytes = vec![0; length.max(size) as usize].into();
            return Ok(Self { offset, bytes, block: None, logged_end });
        }
        if length > size || stored.block.level() != 0 {
            return Err(Error::refused(InvalidRequest::ForeignBlock));
        }
        let place =
            Place { objset: objset.id(), object, level: Place::LEVEL_ZIL, blkid: offset / size };
        let block = objset.store().read(stored.block, place, objset.key());
        let bytes = block.map_err(dmu::Error::from)?.bytes().to_vec();
        Ok(Self { offset, bytes: bytes.into(), block: Some(stored.block), logged_end })
    }

    /// First byte behind them.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64)
    }

    /// Where a file of `size` bytes ends after the write.
    pub(super) fn end_of_file(&self, size: u64) -> u64 {
        match self.logged_end {
            Some(end) if size < end => end,
            _ => size.max(self.end()),
        }
    }

    /// Puts them into the object, whose blocks have the right size.
    pub(super) fn put(&self, object: &Object, tx: &Tx) -> Result<()> {
        let size = object.dnode().block_size();
        if let Some(block) = self.block
            && object.objset().is_scratch()
            && self.offset.is_multiple_of(size)
            && self.bytes.len() as u64 == size
        {
            return Ok(object.write_stored(tx, self.offset / size, block)?);
        }
        Ok(object.write_at(tx, self.offset, &self.bytes)?)
    }
}

/// Lets blocks of an object be those that are on disk. `are_kept`: a log keeps them until the sync
/// counts the references, or the pool does.
pub(super) fn put_cloned(
    object: &Object,
    tx: &Tx,
    cloned: &Cloned<'_>,
    are_kept: bool,
) -> Result<()> {
    let Cloned { offset, length, block_size, blocks } = *cloned;
    let is_scratch = object.objset().is_scratch();
    if !is_scratch && (!are_kept || blocks.iter().any(BlkPtr::is_dedup)) {
        return Err(Error::refused(Unsupported::SharedBlocks));
    }
    let size = object.dnode().block_size();
    let count = length.div_ceil(size.max(1));
    if block_size != size || !offset.is_multiple_of(size) || count != blocks.len() as u64 {
        return Err(Error::refused(InvalidRequest::CloneMisaligned));
    }
    if offset.checked_add(length).is_none_or(|end| end > OFFSET_MAX) {
        return Err(Error::refused(Excess::CloneEnd));
    }
    if blocks.iter().any(|bp| !bp.is_hole() && (bp.level() != 0 || bp.lsize() != size)) {
        return Err(Error::refused(InvalidRequest::CloneOfNoFile));
    }
    for (blkid, bp) in (offset / size..).zip(blocks) {
        match bp.is_hole() {
            true => object.free_range(tx, blkid.saturating_mul(size), size)?,
            false => object.write_stored(tx, blkid, &bp.shared_in(tx.txg()))?,
        }
    }
    Ok(())
}
