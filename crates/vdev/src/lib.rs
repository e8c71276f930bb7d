//! The vdev tree: from a block's address to verified bytes on devices.
//!
//! ```text
//! DVA -> removed vdev? -> follow its mapping           (indirect)
//!     -> top-level vdev's geometry -> columns          (raidz, draid, map)
//!     -> each column's child -> devices                (locate: mirror, replacing, spare)
//!     -> one batch per device                          (gather)
//!     -> block -> verify -> good                       (read)
//!                     \-> everything, combinations,    (rebuild)
//!                         who was wrong
//! ```
//!
//! The tree is built once from the pool's configuration and opened devices ([`VdevTree::build`]);
//! missing devices are part of it. Reading never blocks others: no lock is held over I/O.
//!
//! **Invariant: this crate never writes, and knows a block's checksum only as a function that says
//! yes or no.** Which checksum, decryption, decompression and gang blocks are the floor above.
#![forbid(unsafe_code)]

pub mod draid;
mod draid_seeds;
mod error;
mod gather;
mod indirect;
mod locate;
pub mod map;
pub mod raidz;
mod read;
mod rebuild;
mod state;
mod tree;

pub use error::{BuildError, Error, ErrorKind, Fault, FaultKind};
pub use indirect::IndirectSegment;
pub use raidz::Reflow;
pub use read::{BlockRead, BlockResult, Scope};
pub use state::{Reason, VdevState};
pub use tree::{LeafOpen, NodeRef, TopRef, VdevTree};
