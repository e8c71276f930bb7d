//! Why a pool is not repaired, or not put back.

use std::fmt;

/// Result of a repair.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a pool is not repaired, or not put back. Unless it says so, nothing was written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The pool cannot be opened or changed, also not in memory.
    Pool(pool::Error),
    /// It can be opened, and is in a state in which it is not repaired.
    NotNow {
        /// Why.
        why: String,
        /// What to do first.
        first: &'static str,
    },
    /// A device cannot be read or written.
    Device(device::Error),
    /// The undo file cannot be written or read.
    File(std::io::Error),
    /// The undo file is none, is not whole, or does not fit what is on the devices.
    Undo(String),
    /// The check was told to stop.
    Cancelled,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(e) => write!(f, "{e}"),
            Self::NotNow { why, first } => write!(f, "{why}; {first}"),
            Self::Device(e) => write!(f, "{e}"),
            Self::File(e) => write!(f, "the undo file: {e}"),
            Self::Undo(why) => f.write_str(why),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {}

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
