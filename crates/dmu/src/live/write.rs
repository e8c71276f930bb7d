//! Changing an object.

use super::DnodeAttrs;
use crate::error::{ErrorKind, Result};
use crate::object::Object;
use crate::tx::Tx;
use device::AlignedBuf;
use ondisk::DmuType;

impl Object {
    /// Writes `data` at byte `offset`, growing the object where it ends.
    ///
    /// # Errors
    /// The rest of a block that is written in part cannot be read; the set is not live.
    pub fn write_at(&self, tx: &Tx, offset: u64, data: &[u8]) -> Result<()> {
        let _ = (tx, offset, data);
        Err(self.error(ErrorKind::ReadOnly))
    }

    /// Writes the whole block `blkid` without copying it. Shorter data are filled up with zeros.
    ///
    /// # Errors
    /// The data are longer than a block; the set is not live.
    pub fn write_block(&self, tx: &Tx, blkid: u64, data: AlignedBuf) -> Result<()> {
        let _ = (tx, blkid, data);
        Err(self.error(ErrorKind::ReadOnly))
    }

    /// Makes `len` bytes from `offset` a hole; `u64::MAX`: all behind. What covers whole blocks is
    /// freed, the rest is overwritten with zeros.
    ///
    /// # Errors
    /// A block at an edge cannot be read; the set is not live.
    pub fn free_range(&self, tx: &Tx, offset: u64, len: u64) -> Result<()> {
        let _ = (tx, offset, len);
        Err(self.error(ErrorKind::ReadOnly))
    }

    /// Replaces type and bytes of the bonus.
    ///
    /// # Errors
    /// It does not fit; the set is not live.
    pub fn set_bonus(&self, tx: &Tx, kind: DmuType, bytes: &[u8]) -> Result<()> {
        let _ = (tx, kind, bytes);
        Err(self.error(ErrorKind::ReadOnly))
    }

    /// Replaces the spill block, or removes it. It is filled up with zeros to whole sectors.
    ///
    /// # Errors
    /// It is empty or longer than 128 KiB, or there is no room for its pointer beside the bonus;
    /// the set is not live.
    pub fn set_spill(&self, tx: &Tx, bytes: Option<&[u8]>) -> Result<()> {
        let _ = (tx, bytes);
        Err(self.error(ErrorKind::ReadOnly))
    }

    /// Changes the size of the blocks, while the object has none but block 0.
    ///
    /// # Errors
    /// There are more blocks, or no block can have that size; the set is not live.
    pub fn set_block_size(&self, tx: &Tx, bytes: u32) -> Result<()> {
        let _ = (tx, bytes);
        Err(self.error(ErrorKind::ReadOnly))
    }

    /// Changes attributes of the dnode.
    ///
    /// # Errors
    /// The indirect shift changes after indirect blocks exist; the set is not live.
    pub fn set_dnode(&self, tx: &Tx, change: impl FnOnce(&mut DnodeAttrs)) -> Result<()> {
        let _ = (tx, change);
        Err(self.error(ErrorKind::ReadOnly))
    }

    /// The same object as it is now, with what was changed since this value was opened.
    ///
    /// # Errors
    /// It was freed.
    pub fn reopen(&self) -> Result<Self> {
        self.objset().object(self.number())
    }
}
