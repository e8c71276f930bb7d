//! Errors of a tree, a block's address, or a device, with their places.

use crate::map::MapError;
use std::fmt;
use std::sync::Arc;

/// Why a configuration is not a vdev tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The outermost vdev must be the root.
    #[error("the tree begins with a {found} vdev (guid {guid}) instead of the root")]
    NoRoot {
        /// The kind found.
        found: String,
        /// Its guid.
        guid: u64,
    },
    /// A kind of vdev this implementation does not know, or not at this place.
    #[error("{kind} vdev (guid {guid}) cannot be below a {parent} vdev")]
    Misplaced {
        /// Kind of the vdev.
        kind: String,
        /// Its guid.
        guid: u64,
        /// Kind of its parent.
        parent: &'static str,
    },
    /// Two top-level vdevs have the same number, or the number is not a number of a vdev.
    #[error("top-level vdev number {id} (guid {guid}) is taken or out of range")]
    BadId {
        /// The number.
        id: u64,
        /// Guid of the second one.
        guid: u64,
    },
    /// Parity, widths, children or expansions contradict each other.
    #[error("geometry of the {kind} vdev {id} (guid {guid}) contradicts itself")]
    Geometry {
        /// Kind of the vdev.
        kind: &'static str,
        /// Its number.
        id: u64,
        /// Its guid.
        guid: u64,
    },
    /// Vdevs nested deeper than the format knows.
    #[error("vdevs nest deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: u32,
    },
    /// The top-level vdev to complete is not of the kind that can be.
    #[error("top-level vdev {vdev} is not {wanted}")]
    WrongKind {
        /// Its number.
        vdev: u32,
        /// The expected kind.
        wanted: &'static str,
    },
    /// Segments of a removed vdev's mapping overlap, or one is empty.
    #[error("mapping of removed vdev {vdev}: segment at {offset:#x} is empty or overlaps")]
    BadMapping {
        /// Number of the removed vdev.
        vdev: u32,
        /// Source offset of the segment.
        offset: u64,
    },
}

/// Why a block could not be read from one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("vdev {vdev}, offset {offset:#x}, {size} bytes: {kind}")]
pub struct Error {
    /// Number of the top-level vdev the address names.
    pub vdev: u32,
    /// Offset of the block on it.
    pub offset: u64,
    /// Physical size of the block in bytes.
    pub size: u64,
    /// Why.
    pub kind: ErrorKind,
}

/// The ways in which reading a block can fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The pool has no vdev of that number.
    #[error("there is no such vdev")]
    NoSuchVdev,
    /// The vdev was a log device and is removed.
    #[error("the vdev is a hole, a removed log device")]
    Hole,
    /// The configuration does not know what the vdev is.
    #[error("the vdev is missing from the configuration")]
    MissingVdev,
    /// The vdev was removed, and its mapping is not loaded.
    #[error("the vdev was removed and its mapping is not loaded")]
    NoMapping,
    /// The removed vdev's mapping does not cover the block.
    #[error("the mapping of removed vdev {vdev} lacks offset {offset:#x}")]
    Unmapped {
        /// Number of the removed vdev; another one than the block's in a chain of removals.
        vdev: u32,
        /// First offset without a mapping.
        offset: u64,
    },
    /// Removed vdevs are mapped to each other without end.
    #[error("mappings of removed vdevs form a cycle")]
    MappingLoop,
    /// The block does not lie within the vdev.
    #[error("beyond the end of the vdev ({asize} bytes)")]
    BeyondEnd {
        /// Size of the vdev.
        asize: u64,
    },
    /// No block can have this address.
    #[error("impossible address: {0}")]
    Address(#[from] MapError),
    /// Fewer devices delivered bytes than the block needs.
    #[error("too few devices can be read")]
    TooFewDevices,
    /// Devices delivered, but no combination of them has the right checksum.
    #[error("no copy and no combination has the right checksum ({tried} tried)")]
    Checksum {
        /// Combinations that were verified.
        tried: u64,
    },
    /// There was no memory for the block.
    #[error("out of memory")]
    OutOfMemory,
}

/// The fault of a place on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The device could not read it.
    Io(device::Error),
    /// It holds other bytes than it should: a copy, or a data column.
    Checksum,
    /// A parity column, or the padding of a dRAID row, does not fit the data.
    ParityMismatch,
    /// The device is not there.
    Missing,
    /// The device missed the txg of the block and holds older bytes, as is to be expected.
    Stale,
    /// The block as a whole could not be read; no single device can be blamed.
    Block(ErrorKind),
}

/// A fault met while a block was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the top-level vdev.
    pub vdev: u32,
    /// Guid of the device, or of the top-level vdev for [`FaultKind::Block`].
    pub guid: u64,
    /// Path of the device as the configuration has it, or the name of the top-level vdev.
    pub path: Arc<str>,
    /// Byte offset on the device, labels included; on the top-level vdev, without labels, for
    /// [`FaultKind::Block`].
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The fault.
    pub kind: FaultKind,
    /// The right bytes for this place are known, from other devices. Nothing is written by
    /// this floor.
    pub repaired: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vdev, guid, path, offset, len, kind, repaired } = self;
        write!(f, "{path} (guid {guid}, vdev {vdev}), {len} bytes at {offset:#x}: ")?;
        match kind {
            FaultKind::Io(e) => write!(f, "{}", e.kind)?,
            FaultKind::Checksum => f.write_str("wrong bytes")?,
            FaultKind::ParityMismatch => f.write_str("parity does not match the data")?,
            FaultKind::Missing => f.write_str("the device is missing")?,
            FaultKind::Stale => f.write_str("outdated data: the device missed this txg")?,
            FaultKind::Block(e) => write!(f, "{e}")?,
        }
        if *repaired { f.write_str("; read correctly from another copy") } else { Ok(()) }
    }
}
