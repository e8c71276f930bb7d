//! The items of a stream, between the walk that finds them and the records that encode them.

use dmu::Place;
use ondisk::{BlkPtr, Dnode};
use std::sync::Arc;
use zio::Block;

/// An item of a stream, in order.
pub(super) enum Item {
    /// An object is there.
    Object { number: u64, dnode: Box<Dnode> },
    /// In a raw stream: a block of dnodes, whose slots are those from `first` on.
    Range { first: u64, slots: u64, bp: BlkPtr },
    /// There are no objects.
    FreeObjects { first: u64, count: u64 },
    /// A hole.
    Free { object: u64, offset: u64, length: u64 },
    /// A block of data.
    Write(Data),
    /// A spill block.
    Spill { object: u64, bp: BlkPtr },
}

/// A block of data.
pub(super) struct Data {
    pub(super) object: u64,
    /// Type of the object's data.
    pub(super) kind: u8,
    pub(super) blkid: u64,
    /// Size of the object's blocks.
    pub(super) size: u64,
    pub(super) bp: BlkPtr,
}

/// How a block is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// The pointer has all that is needed.
    No,
    /// As it is on disk.
    Stored,
    /// As its reader sees it.
    Plain,
}

impl Item {
    /// The block that belongs to it.
    pub(super) fn block(&self) -> Option<(BlkPtr, u64, u64)> {
        match self {
            Self::Write(data) => Some((data.bp, data.object, data.blkid)),
            Self::Spill { object, bp } => Some((*bp, *object, Place::BLKID_SPILL)),
            _ => None,
        }
    }
}

/// An item with the block that belongs to it.
pub(super) type Ready = (Item, Option<Arc<Block>>);
