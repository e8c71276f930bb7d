//! Why a block could not be had, or not be written.

use crate::block::Place;
use std::fmt;

/// Result of reading or writing a block.
pub type Result<T> = std::result::Result<T, Error>;

/// A block that could not be read or written: which, where it should be, why, and every fault met.
#[derive(Clone, Debug)]
pub struct Error {
    /// The block.
    pub place: Place,
    /// Addresses of its copies as zdb writes them, comma separated; empty without copies.
    pub copies: String,
    /// The kind of error.
    pub kind: ErrorKind,
    /// Faults of the devices that were tried.
    pub faults: Vec<vdev::Fault>,
}

/// A kind of error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The pointer cannot be right; the text names the rule.
    BadPointer(&'static str),
    /// A checksum or compression number that is not known.
    UnknownAlgorithm {
        /// `"checksum"` or `"compression"`.
        what: &'static str,
        /// The number.
        number: u8,
    },
    /// No copy could be read with the right checksum.
    Unreadable,
    /// The block is encrypted and no key is loaded.
    NoKey,
    /// The message authentication code does not fit: wrong key or forged data.
    Authentication,
    /// The stored bytes do not decompress to the size promised.
    Decompression,
    /// The block was left out of a redacted stream: its data never was in this pool.
    Redacted,
    /// Gang headers nest too deep, or their parts do not add up to the block.
    Gang,
    /// Memory for the block could not be had.
    OutOfMemory,
    /// There is no space for the block, not even in parts.
    NoSpace,
    /// No block can be written like this; the text names the rule.
    BadBlock(&'static str),
    /// A device did not take it.
    Write(vdev::WriteError),
}

impl ErrorKind {
    /// The block is on no device as it was written. Not so when what lacks is a key, memory, or
    /// software that knows the algorithm.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::BadPointer(_)
                | Self::Unreadable
                | Self::Authentication
                | Self::Decompression
                | Self::Gang
        )
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadPointer(rule) => write!(f, "impossible block pointer: {rule}"),
            Self::UnknownAlgorithm { what, number } => write!(f, "unknown {what} {number}"),
            Self::Unreadable => f.write_str("no copy is readable with a matching checksum"),
            Self::NoKey => f.write_str("encrypted, and its key is not loaded"),
            Self::Authentication => f.write_str("message authentication code does not match"),
            Self::Decompression => f.write_str("data does not decompress"),
            Self::Redacted => f.write_str("redacted: the data is not in this pool"),
            Self::Gang => f.write_str("gang block does not add up"),
            Self::OutOfMemory => f.write_str("out of memory"),
            Self::NoSpace => f.write_str("no space left in the pool"),
            Self::BadBlock(rule) => write!(f, "impossible block: {rule}"),
            Self::Write(e) => write!(f, "cannot write: {e}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.kind)?;
        if !self.copies.is_empty() {
            write!(f, " (at {})", self.copies)?;
        }
        for fault in self.faults.iter().take(3) {
            write!(f, "; {fault}")?;
        }
        match self.faults.len() {
            0..=3 => Ok(()),
            n => write!(f, "; and {} more faults", n - 3),
        }
    }
}

impl std::error::Error for Error {}
