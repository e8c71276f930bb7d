//! The vdev tree: from a block's address to verified bytes on devices.
//!
//! ```text
//! DVA -> removed vdev? -> follow its mapping           (indirect)
//!     -> top-level vdev's geometry -> columns          (raidz, draid, map)
//!     -> each column's child -> devices                (locate: mirror, replacing, spare)
//!     -> one batch per device                          (gather)
//!     -> block -> verify -> good                       (read)
//!                     \-> everything, combinations,    (rebuild)
//!                         which device was wrong
//! ```
//!
//! The tree is built from the pool's configuration and opened devices ([`VdevTree::build`]);
//! missing devices are part of it. A device that goes or comes while the pool is open is a new
//! tree ([`VdevTree::successor`]). Reading never blocks others: no lock is held over I/O.
//!
//! Writing goes the same way down: geometry, parity, devices, one submission per device (write),
//! and the labels (label). Wrong data on a device is written again (heal). A raidz that gets wider
//! is moved beside all that (flow, reflow). A tree whose leaves were opened for reading has no
//! writer in it.
//!
//! **Invariant: this crate knows a block's checksum only as a function that says yes or no.**
//! Which checksum, encryption, compression and gang blocks are the floor above.
#![forbid(unsafe_code)]

mod awaited;
mod block;
mod deflate;
pub mod draid;
mod draid_seeds;
mod error;
mod extent;
mod flow;
mod gather;
mod guard;
mod heal;
mod health;
mod indirect;
mod judge;
pub mod label;
mod locate;
pub mod map;
pub mod queue;
pub mod raidz;
mod raw;
mod read;
mod rebuild;
mod reflow;
mod size;
mod state;
mod thresholds;
mod tree;
mod txgs;
mod write;

pub use block::{BlockRead, BlockResult, Scope};
pub use deflate::DeflateRatio;
pub use error::{BuildError, Error, ErrorKind, Fault, FaultKind};
pub use flow::Reflow;
pub use guard::{guarded, guarded_reader};
pub use heal::{Heal, Healed};
pub use health::ErrorCounts;
pub use indirect::IndirectSegment;
pub use judge::SilentTop;
pub use raw::RawError;
pub use reflow::{AllocatedIn, ReflowError, ReflowObstacle, Reflowed};
pub use size::{asize_max, device_size_min, draid_asize};
pub use state::{Reason, VdevState};
pub use thresholds::ErrorLimit;
pub use tree::{LeafOpen, NodeRef, TopRef, VdevTree};
pub use txgs::Txgs;
pub use write::{BlockDone, BlockWrite, Durable, ManyDevices, WriteError, WriteErrorKind};
