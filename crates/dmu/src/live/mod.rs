//! Live object sets: changes in memory in front of the last synced tree.
//!
//! # Theory
//!
//! A live [`Objset`](crate::Objset) reads like any other, but every read looks at the *versions*
//! first: what open transactions and the txg being synced have changed, newest first. Changes are
//! made with a [`Tx`](crate::Tx) and go into the version of its txg:
//!
//! ```text
//! version 12 (open)      blocks 3, 7     attributes
//! version 11 (syncing)   blocks 7, 8     freed 20..
//! tree of txg 10         what is on disk
//! ```
//!
//! A version holds whole blocks, immutable once they are shared: a writer that finds its block in a
//! reader's hands copies it. Instead of bytes it can hold the pointer to a block that was written
//! before. When the last transaction of a txg has ended, its version does not change any more, and
//! [`Objset::sync`](crate::Objset::sync) writes it: all data blocks in one parallel job, then the
//! indirect blocks level by level, the dnodes as data of the meta dnode, and the header. The
//! version stays in front until [`Objset::synced`](crate::Objset::synced) is called because the txg
//! is durable.
//!
//! Only `sync` knows addresses. It notifies the [`BlockOwner`] of every pointer that goes into the
//! tree or out of it; space accounting and dead lists are the owner's.
//!
//! # Files
//!
//! The versions themselves are in `crate::versions`, which sets and objects hold. Here is what
//! changes them: `open.rs`, `objects.rs`, `write.rs` for the contents of an object, `early.rs`,
//! `mend.rs`, `scratch.rs`, `sealed.rs` and `recount.rs`. What writes them is in `crate::sync`,
//! which is above the tables (`crate::zap`) because it keeps the accounting in them.

mod early;
mod mend;
mod objects;
mod open;
mod recount;
mod scratch;
mod sealed;
mod write;

pub use early::EarlyWrite;
pub use scratch::ScratchSpec;
