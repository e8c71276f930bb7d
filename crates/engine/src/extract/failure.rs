//! Why something was not copied.

use crate::{Cancelled, Error, ErrorKind};
use std::{fmt, io};

/// A range of a file that could not be read.
#[derive(Clone, Debug)]
pub struct Lost {
    /// Its first byte, from the beginning of the file.
    pub offset: u64,
    /// How many bytes it has.
    pub length: u64,
    /// Why it cannot be read, in words.
    pub cause: String,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {}+{}: {}", self.offset, self.length, self.cause)
    }
}

impl std::error::Error for Lost {}

/// Why a file was not copied.
pub(super) enum Failure {
    /// The target did not take it.
    Sink(io::Error),
    /// The file cannot be read from the pool.
    Pool(zpl::Error),
    /// The existing file of the target stays.
    Conflict(Error),
    /// A block could not be read, and losses are not accepted.
    Lost(Lost),
    /// It was cancelled.
    Cancelled(Cancelled),
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Self::Sink(e)
    }
}

impl From<zpl::Error> for Failure {
    fn from(e: zpl::Error) -> Self {
        Self::Pool(e)
    }
}

impl From<Cancelled> for Failure {
    fn from(e: Cancelled) -> Self {
        Self::Cancelled(e)
    }
}

impl From<Failure> for Error {
    fn from(e: Failure) -> Self {
        match e {
            Failure::Sink(e) => e.into(),
            Failure::Pool(e) => e.into(),
            Failure::Conflict(e) => e,
            Failure::Lost(e) => Self::new(ErrorKind::Damaged).because(e),
            Failure::Cancelled(e) => e.into(),
        }
    }
}
