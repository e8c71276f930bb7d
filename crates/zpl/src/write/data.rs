//! Content: writing, truncating, holes, and the growth of a file's first block.
//!
//! While a file fits one block, its block is the file rounded up to sectors; a longer one has
//! blocks of the record size, and never another size again.

use super::attrs::Attrs;
use super::check_flags;
use super::stored::{Content, OFFSET_MAX};
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::op::{Data, Op};
use crate::refusal::Excess;
use dmu::Tx;
use ondisk::blkptr::SECTOR_SIZE;
use ondisk::sa::zpl;
use ondisk::znode::{Time, flags};

/// Which flags forbid to change the content.
pub(super) const UNCHANGEABLE: u64 = flags::IMMUTABLE | flags::READONLY;

/// The size that the only block of a file must have before the file ends at `end`; `None` when it
/// has it already, or the file has more blocks.
pub(super) fn grown_block(block: u64, size: u64, end: u64, record: u64) -> Option<u64> {
    let end = end.max(size);
    if end <= block || size > block || (block.is_power_of_two() && block >= record) {
        return None;
    }
    // A block larger than a record (the property was lowered) grows to the next power of two.
    let limit = if block > record { block.next_power_of_two() } else { record };
    let wanted = end.min(limit).next_multiple_of(SECTOR_SIZE);
    (wanted > block).then_some(wanted)
}

impl Filesystem {
    pub(super) fn write_now(
        &self,
        tx: &Tx,
        file: u64,
        offset: u64,
        data: &Data<'_>,
        now: Time,
    ) -> Result<()> {
        let data = Content::of(self.objset(), file, offset, data)?;
        if data.bytes.is_empty() {
            return Ok(());
        }
        let (offset, end) = (data.offset, data.end());
        let content = &self.inner.state.content;
        let mut lock = content.shared(file);
        if self.before_write(file, offset, end)?.is_some() {
            drop(lock);
            lock = content.exclusive(file);
            if let Some(size) = self.before_write(file, offset, end)? {
                self.objset().object(file)?.set_block_size(tx, size)?;
            }
        }
        self.write_locked(tx, file, &data, now)?;
        drop(lock);
        Ok(())
    }

    pub(super) fn append_now(&self, tx: &Tx, file: u64, data: &[u8], now: Time) -> Result<u64> {
        let _content = self.inner.state.content.exclusive(file);
        let size = {
            let _look = self.look(file);
            let attrs = Attrs::load_regular(self, file)?;
            check_flags(&attrs, UNCHANGEABLE)?;
            self.check_space_of(&attrs)?;
            attrs.size()
        };
        let data = Content::of(self.objset(), file, size, &Data::Bytes(data))?;
        if data.bytes.is_empty() {
            return Ok(size);
        }
        if let Some(block) = self.block_for(file, data.end())? {
            self.objset().object(file)?.set_block_size(tx, block)?;
        }
        self.write_locked(tx, file, &data, now)?;
        Ok(size)
    }

    /// Writes into blocks of the right size; the content is locked.
    fn write_locked(&self, tx: &Tx, file: u64, data: &Content<'_>, now: Time) -> Result<()> {
        data.put(&self.objset().object(file)?, tx)?;
        let _attrs = self.inner.state.attrs.exclusive(file);
        let mut attrs = Attrs::load(self, file)?;
        let end = data.end_of_file(attrs.size());
        if end != attrs.size() {
            attrs.set(zpl::SIZE, end);
        }
        attrs.content_changed(now);
        attrs.save(self, tx)?;
        let (offset, data) = (data.offset, Data::Bytes(&data.bytes));
        self.note(tx, &Op::Write { file, offset, data }, &[], &[]);
        Ok(())
    }

    /// Lets a file end at `size` at least; what is there was written before.
    pub(super) fn extend_now(&self, tx: &Tx, file: u64, size: u64) -> Result<()> {
        let _attrs = self.inner.state.attrs.exclusive(file);
        let mut attrs = Attrs::load_regular(self, file)?;
        if size <= attrs.size() {
            return Ok(());
        }
        if size > OFFSET_MAX {
            return Err(Error::refused(Excess::FileEnd));
        }
        attrs.set(zpl::SIZE, size);
        attrs.save(self, tx)
    }

    /// Whether a regular file may be written from `offset` to `end`, and the size its block must
    /// have for that; the content is locked.
    fn before_write(&self, file: u64, offset: u64, end: u64) -> Result<Option<u32>> {
        let _look = self.look(file);
        let attrs = Attrs::load_regular(self, file)?;
        check_flags(&attrs, UNCHANGEABLE)?;
        self.check_space_of(&attrs)?;
        if offset < attrs.size() {
            check_flags(&attrs, flags::APPENDONLY)?;
        }
        Ok(self.block_of(&attrs, end))
    }

    /// See [`grown_block`]; the content is locked.
    fn block_for(&self, file: u64, end: u64) -> Result<Option<u32>> {
        let _look = self.look(file);
        let attrs = Attrs::load_regular(self, file)?;
        Ok(self.block_of(&attrs, end))
    }

    /// See [`grown_block`]; content and attributes are locked.
    pub(super) fn block_of(&self, attrs: &Attrs, end: u64) -> Option<u32> {
        let dnode = attrs.object().dnode();
        if dnode.max_block > 0 {
            return None;
        }
        let record = u64::from(self.settings().record_size);
        let grown = grown_block(dnode.block_size(), attrs.size(), end, record);
        grown.and_then(|n| u32::try_from(n).ok())
    }

    pub(super) fn truncate_now(&self, tx: &Tx, file: u64, size: u64, now: Time) -> Result<()> {
        let _content = self.inner.state.content.exclusive(file);
        self.grow_block(tx, file, size)?;
        let _attrs = self.inner.state.attrs.exclusive(file);
        let mut attrs = self.resized(tx, file, size)?;
        attrs.content_changed(now);
        attrs.save(self, tx)?;
        self.note(tx, &Op::Truncate { file, size }, &[], &[]);
        Ok(())
    }

    /// Grows the only block of a file that will end at `size`; the content is locked.
    pub(super) fn grow_block(&self, tx: &Tx, file: u64, size: u64) -> Result<()> {
        if size > OFFSET_MAX {
            return Err(Error::refused(Excess::FileEnd));
        }
        if let Some(block) = self.block_for(file, size)? {
            let _attrs = self.inner.state.attrs.exclusive(file);
            check_flags(&Attrs::load_regular(self, file)?, UNCHANGEABLE | flags::APPENDONLY)?;
            self.objset().object(file)?.set_block_size(tx, block)?;
        }
        Ok(())
    }

    /// Frees what is behind `size`; the attributes it then has are not saved. Content and
    /// attributes are locked.
    pub(super) fn resized(&self, tx: &Tx, file: u64, size: u64) -> Result<Attrs> {
        let mut attrs = Attrs::load_regular(self, file)?;
        check_flags(&attrs, UNCHANGEABLE | flags::APPENDONLY)?;
        let before = attrs.size();
        if size < before {
            attrs.object().free_range(tx, size, u64::MAX)?;
            // The tree may have got lower, and the bonus goes into the dnode as it is now.
            attrs = Attrs::load_regular(self, file)?;
        }
        if size != before {
            attrs.set(zpl::SIZE, size);
        }
        if size == 0 {
            attrs.set_flag(flags::SPARSE, false);
        }
        Ok(attrs)
    }

    pub(super) fn punch_now(
        &self,
        tx: &Tx,
        file: u64,
        (offset, length): (u64, u64),
        extends: bool,
        now: Time,
    ) -> Result<()> {
        let _content = self.inner.state.content.exclusive(file);
        let end = offset.saturating_add(length);
        if extends {
            self.grow_block(tx, file, end)?;
        }
        let _attrs = self.inner.state.attrs.exclusive(file);
        let mut attrs = Attrs::load_regular(self, file)?;
        check_flags(&attrs, UNCHANGEABLE | flags::APPENDONLY)?;
        let behind = end.min(attrs.size());
        if offset < behind {
            attrs.object().free_range(tx, offset, behind - offset)?;
            attrs = Attrs::load_regular(self, file)?;
        } else if !extends {
            return Ok(());
        }
        if extends && end > attrs.size() {
            attrs.set(zpl::SIZE, end);
        }
        attrs.content_changed(now);
        attrs.save(self, tx)?;
        // As far as there was something, so that a caller that repeats it does not have to ask.
        let length = if extends { length } else { behind - offset };
        self.note(tx, &Op::Punch { file, offset, length, extends: true }, &[], &[]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::grown_block;

    const RECORD: u64 = 128 << 10;

    #[test]
    fn the_only_block_is_the_file_rounded_up_to_sectors() {
        assert_eq!(grown_block(512, 0, 100, RECORD), None);
        assert_eq!(grown_block(512, 0, 513, RECORD), Some(1024));
        assert_eq!(grown_block(1024, 513, 100_000, RECORD), Some(100_352));
        assert_eq!(grown_block(100_352, 100_000, 1 << 30, RECORD), Some(RECORD));
        assert_eq!(grown_block(RECORD, 100_000, 1 << 30, RECORD), None);
    }

    #[test]
    fn a_file_of_several_blocks_keeps_their_size() {
        assert_eq!(grown_block(512, 513, 100_000, RECORD), None);
        assert_eq!(grown_block(4096, 9000, 100_000, RECORD), None);
    }

    #[test]
    fn a_block_larger_than_a_record_grows_to_a_power_of_two() {
        assert_eq!(grown_block(100_352, 100_000, 1 << 30, 8192), Some(RECORD));
        assert_eq!(grown_block(100_352, 100_000, 110_000, 8192), Some(110_080));
        assert_eq!(grown_block(RECORD, 100_000, 1 << 30, 8192), None);
    }

    #[test]
    fn records_of_one_sector_never_grow() {
        assert_eq!(grown_block(512, 0, 100_000, 512), None);
    }
}
