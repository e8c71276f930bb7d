//! Objects: trees of blocks, the tables (ZAP) and attributes (SA) kept in them, and their cache.
//!
//! # Theory
//!
//! An object set is a numbered array of objects. Its header block holds the *meta dnode*, whose
//! data is the array of all dnodes; a dnode is the root of one object's block tree. Everything
//! above this crate is an object: files, directories, datasets, space maps.
//!
//! Blocks come from a [`BlockStore`], the seam to the I/O layer. What is read is immutable, so it
//! is shared as `Arc<Block>` and needs no lock; the only lock is inside the cache, held for the
//! time of a table operation, never over I/O.
//!
//! An [`Overlay`] holds changes that exist in memory only: an intent log replayed for reading.
//! Readers look there first, block by block and entry by entry.
#![forbid(unsafe_code)]

pub mod bpobj;
mod cache;
pub mod deadlist;
mod error;
mod faults;
mod flights;
mod live;
mod locks;
mod object;
mod objset;
mod overlay;
mod places;
mod ranges;
mod store;
mod traverse;
mod tx;
mod usage;
pub mod zap;

pub use cache::{BlockCache, CacheStats};
pub use error::{Error, ErrorKind, Result};
pub use faults::Faults;
pub use live::{
    Accounting, BlockOwner, BlockWriter, DnodeAttrs, LiveSpec, NewObject, Owner, RedundantMetadata,
    ScratchSpec, SetPolicy, SyncContext,
};
pub use locks::ObjectLock;
pub use object::{BLOCK_BATCH, Object, Segment};
pub use objset::{ObjectIter, Objset};
pub use overlay::{Overlay, OverlayBlock, OverlayObject};
pub use store::{BlockStore, CachedStore, FaultSink, Key, PendingSource};
pub use traverse::{Step, Traversal, Visitor};
pub use tx::{Hold, SpaceUse, Transactions, Tx};
pub use usage::{SetCounts, SetUse, Usage, UseCount};
pub use zap::{Zap, ZapEntry, ZapKey, ZapValue};
pub use zio::{Block, Place};
