//! One block: locate, read, verify, reconstruct, decrypt, decompress; and the way back.
//!
//! # Theory
//!
//! A block pointer names up to three copies (DVAs) of one stored block. Reading it goes through
//! fixed stages, and each stage either hands its result to the next or fails with an error that
//! names the block ([`Place`]) and every device fault met on the way:
//!
//! ```text
//! sane? -> hole or embedded? -> copy 0 (vdev: sides, RAID-Z) -> copy 1 -> copy 2
//!       -> checksum (inside the vdev's retry loop) -> decrypt -> decompress
//! ```
//!
//! The checksum is verified inside the vdev layer's loop, because only there can another mirror
//! side or another RAID-Z combination be tried. A gang copy is a header, verified against its own
//! address, and parts that are block pointers themselves; nesting is bounded by [`GANG_DEPTH`].
//!
//! Reads come in batches: the first copies of all blocks of a batch go to the devices in one
//! submission, and only what fails is read again, block by block.
//!
//! Writing is the same in the other direction, in two halves ([`Writer`]); the free space is known
//! above, and requested through [`Allocate`].
//!
//! Blocks that reach the devices are counted by type and level ([`stats`]), the time of the threads
//! by kind and stage ([`profile`]), and the blocks in each stage of reading ([`stages`]).
//!
//! Nothing here is locked while I/O is under way: a vdev tree is immutable, and swapped as a whole
//! ([`Reader::set_vdevs`]); counters are atomic.
#![forbid(unsafe_code)]

mod allocate;
mod block;
mod checksum;
pub mod cpu;
pub mod crypt;
mod error;
mod flight;
mod issue;
mod place;
pub mod profile;
mod reader;
mod recent;
mod seal;
mod spec;
pub mod stages;
pub mod stats;
mod transform;
mod unsynced;
mod writer;

pub use allocate::{AllocError, AllocRequest, Allocate, SpaceClass};
pub use block::{Block, Place, Seal};
pub use checksum::Verifier;
pub use codec::compress::Algorithm as CompressionAlgorithm;
pub use error::{Error, ErrorKind, Result};
pub use issue::UnsentBlock;
pub use reader::{Kept, Mended, Outcome, Reader, Request};
pub use spec::{IN_FLIGHT_MAX, Protection, WriteSpec, WriterSettings};
pub use writer::{WriteObserver, Writer, WriterStats};

/// Largest block, logical or physical, in bytes (feature `large_blocks`).
pub const BLOCK_SIZE_MAX: u64 = 16 << 20;

/// Deepest nesting of gang headers that is followed. OpenZFS splits a block at most into ever
/// smaller parts down to one sector: 16 MiB in parts of a third reach 512 bytes in ten steps.
pub const GANG_DEPTH: u32 = 12;
