//! The interface of an export.

use std::fmt;
use std::sync::Arc;

/// Errors as the protocol numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// It may not be changed.
    Permission = 1,
    /// The device failed.
    Io = 5,
    /// There is no memory for it.
    NoMemory = 12,
    /// The request is wrong.
    Invalid = 22,
    /// There is no space left.
    NoSpace = 28,
    /// The request is too long.
    Overflow = 75,
    /// It is not possible, or not as fast as requested.
    NotSupported = 95,
    /// The server stops.
    Shutdown = 108,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// The number that every client gets.
    pub errno: Errno,
    /// Message for clients that can display one.
    pub message: String,
}

impl RequestError {
    /// A trouble in one line.
    #[must_use]
    pub fn new(errno: Errno, message: impl Into<String>) -> Self {
        Self { errno, message: message.into() }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RequestError {}

/// The description of an export that a client gets when it connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes.
    pub size: u64,
    /// It cannot be changed.
    pub is_read_only: bool,
    /// Requests of this size and alignment are the fastest; a power of two.
    pub block_size: u32,
    /// The states since which it knows what changed.
    pub since: Vec<String>,
}

/// The subject of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Where nothing is stored.
    Allocation,
    /// The changes since the state of this name.
    Since(String),
}

/// A range of one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u64,
    /// Of the allocation: nothing is stored there, and zeros are read. Else: it changed.
    pub is: bool,
}

/// An export that a client has open. Ranges were checked against its size.
pub trait Export: Send + Sync {
    /// Its description.
    fn facts(&self) -> &Facts;

    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// The error for the client.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), RequestError>;

    /// Writes; durable after the next [`Self::flush`] alone.
    ///
    /// # Errors
    /// The error for the client.
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), RequestError>;

    /// Makes all durable that was written before the call, by whichever connection.
    ///
    /// # Errors
    /// The error for the client.
    fn flush(&self) -> Result<(), RequestError>;

    /// Discards the range; its contents are undefined afterwards.
    ///
    /// # Errors
    /// The error for the client.
    fn trim(&self, offset: u64, length: u64) -> Result<(), RequestError>;

    /// Zeros are read from now on. With `keeps` space is kept for them; with `is_fast` it is done
    /// only when that is much faster than writing them.
    ///
    /// # Errors
    /// The error for the client; [`Errno::NotSupported`] when it is not as fast as requested.
    fn zero(
        &self,
        offset: u64,
        length: u64,
        keeps: bool,
        is_fast: bool,
    ) -> Result<(), RequestError>;

    /// The first extents from `offset`, at least one and at most `max`; together they may be
    /// shorter than `length`, and no longer.
    ///
    /// # Errors
    /// The error for the client.
    fn status(
        &self,
        what: &Status,
        offset: u64,
        length: u64,
        max: usize,
    ) -> Result<Vec<Extent>, RequestError>;
}

/// Something that clients find by its name.
pub trait Source: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Its description, in a line for people.
    fn description(&self) -> String;

    /// Opens it for a client, as it is now.
    ///
    /// # Errors
    /// The error for the client.
    fn open(&self) -> Result<Arc<dyn Export>, RequestError>;
}
