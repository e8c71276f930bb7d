//! The interface between a change of a table and the object around it.
//!
//! A change is worked out in memory first and put into the object at the end, in one go: when it
//! fails half way, the object is as it was.

use crate::error::{Error, ErrorKind, Result};
use crate::object::Object;
use ondisk::zap::Leaf;
use std::sync::Arc;
use zio::Block;

/// Blocks of the object that a table is in.
pub(super) trait Blocks {
    /// Block `blkid` as it is now; a hole is an error.
    fn read(&self, blkid: u64) -> Result<Arc<Block>>;

    /// An error about the object.
    fn error(&self, kind: ErrorKind) -> Error;

    /// A decoding error about block `blkid`.
    fn format_error(&self, blkid: u64, error: ondisk::Error) -> Error;

    /// The leaf in block `blkid`, to be changed.
    fn leaf(&self, blkid: u64) -> Result<Leaf<'static>> {
        let block = self.read(blkid)?;
        let leaf = Leaf::decode(&block, block.endian()).map(Leaf::into_owned);
        leaf.map_err(|e| self.format_error(blkid, e))
    }
}

impl Blocks for Object {
    fn read(&self, blkid: u64) -> Result<Arc<Block>> {
        if blkid > self.dnode().max_block {
            return Err(Object::error(self, ErrorKind::Tree("a ZAP points behind its end")));
        }
        let hole = || Object::error(self, ErrorKind::Tree("a ZAP points into a hole"));
        self.read_block(blkid)?.ok_or_else(hole)
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Object::error(self, kind)
    }

    fn format_error(&self, blkid: u64, error: ondisk::Error) -> Error {
        Object::format_error(self, blkid, error)
    }
}

/// One step of putting a changed table into its object, little-endian. The steps are done in the
/// order they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The object gets blocks of this many bytes; only block 0 exists.
    BlockSize(usize),
    /// A whole block.
    Block(u64, Vec<u8>),
    /// Bytes at an offset within a block that is little-endian already.
    Patch(u64, usize, Vec<u8>),
    /// This many blocks from the first one on are not used any more.
    Free(u64, u64),
}
