//! Objects: trees of blocks, the tables (ZAP) and attributes (SA) kept in them, and their cache.
//!
//! # Theory
//!
//! An object set is a numbered array of objects. Its header block holds the *meta dnode*, whose
//! data is the array of all dnodes; a dnode is the root of one object's block tree. Everything
//! above this crate is an object: files, directories, datasets, space maps.
//!
//! Blocks come from a [`BlockStore`], the seam to the I/O layer. Blocks are immutable once read, so
//! they are shared as `Arc<Block>` and need no lock; the locks of the cache are held for the time
//! of a table operation, never over I/O.
//!
//! A *live* set can be changed: the changes of open transactions are in front of the tree on disk
//! until a sync writes them. `locks` lists the locks that this takes, and their order. A *scratch*
//! set is one that is never synced: an intent log replayed to be looked at.
#![forbid(unsafe_code)]

mod ahead;
pub mod bpobj;
mod cache;
pub mod ddt;
pub mod deadlist;
mod error;
mod faults;
mod flights;
mod live;
mod locks;
mod object;
mod objects;
mod objset;
mod places;
mod ranges;
mod refusal;
mod shape;
mod store;
mod sync;
pub mod traverse;
mod tx;
mod usage;
mod versions;
pub mod zap;

pub use ahead::{AheadStats, ReadAhead, ReadAheadStopper, Room as AheadRoom};
pub use cache::{BlockCache, CacheStats};
pub use error::{Error, ErrorKind, Result};
pub use faults::Faults;
pub use live::{EarlyWrite, ScratchSpec};
pub use locks::ObjectLock;
pub use object::{BLOCK_BATCH, Object, Segment};
pub use objects::ObjectIter;
pub use objset::Objset;
pub use refusal::{InvalidChange, Unsupported};
pub use store::{
    BlockStore, CachedStore, ClearStore, FaultSink, Key, PendingSource, SealedStore,
    is_out_of_reach,
};
pub use traverse::{Step, Traversal, Visitor};
pub use tx::{Hold, SpaceUse, Transactions, Tx};
pub use usage::{SetCounts, SetUse, Usage, UseCount};
pub use versions::{
    Accounting, BlockOwner, BlockWriter, DnodeAttrs, LiveSpec, NewObject, Owner, RedundantMetadata,
    SealedSet, SetKey, SetPolicy, SyncContext, TreeMend,
};
pub use zap::{Zap, ZapEntry, ZapKey, ZapValue};
pub use zio::{Block, Place, Seal};
