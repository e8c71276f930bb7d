//! Why a pool is not repaired, or not put back.

use std::fmt;

/// Result of a repair.
pub type Result<T> = std::result::Result<T, Error>;

/// A state in which a pool is not repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairRefusal {
    /// The pool has a checkpoint.
    Checkpoint,
    /// A vdev is being removed.
    Removal,
    /// The device, which is named with its state, is away, and may have what the repair would give
    /// up.
    Away(String),
    /// More than this many bytes would be written.
    TooMuch(u64),
}

impl fmt::Display for RepairRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint => f.write_str("the pool has a checkpoint"),
            Self::Removal => f.write_str("a vdev is being removed"),
            Self::Away(device) => {
                write!(f, "{device}, and may have the data that the repair would give up")
            }
            Self::TooMuch(max) => {
                write!(f, "the repair would write more than {} MiB", max >> 20)
            }
        }
    }
}

/// Why a pool is not repaired, or not restored. Unless it says so, nothing was written.
#[derive(Debug)]
pub enum Error {
    /// The pool cannot be opened or changed, also not in memory.
    Pool(pool::Error),
    /// It can be opened, and is in a state in which it is not repaired.
    Refused(RepairRefusal),
    /// A device cannot be read or written.
    Device(device::Error),
    /// The undo file cannot be written or read.
    File(std::io::Error),
    /// It is not an undo file, is not whole, or does not fit what is on the devices.
    Undo(String),
    /// The check was cancelled.
    Cancelled,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(e) => write!(f, "{e}"),
            Self::Refused(why) => write!(f, "{why}"),
            Self::Device(e) => write!(f, "{e}"),
            Self::File(e) => write!(f, "the undo file: {e}"),
            Self::Undo(why) => f.write_str(why),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {}

impl From<RepairRefusal> for Error {
    fn from(why: RepairRefusal) -> Self {
        Self::Refused(why)
    }
}

impl From<pool::Error> for Error {
    fn from(e: pool::Error) -> Self {
        Self::Pool(e)
    }
}

impl From<device::Error> for Error {
    fn from(e: device::Error) -> Self {
        Self::Device(e)
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        Self::File(e)
    }
}
