//! Why an object, table or attribute could not be read.

use crate::refusal::{InvalidChange, Unsupported};
use ondisk::spelling::file;
use std::fmt;
use zio::Place;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error, with its object set and object.
#[derive(Clone, Debug)]
pub struct Error {
    /// Object set (0: the MOS).
    pub objset: u64,
    /// Object (0: the set itself).
    pub object: u64,
    /// The kind of error.
    pub kind: ErrorKind,
}

/// A kind of error.
#[derive(Clone, Debug)]
pub enum ErrorKind {
    /// A block could not be read.
    Io(Box<zio::Error>),
    /// A block was read with a good checksum, but it does not hold what it should.
    Format {
        /// The block.
        place: Place,
        /// The error of the decoder.
        error: ondisk::Error,
    },
    /// There is no such object.
    NoObject,
    /// The tree of blocks contradicts itself; the text names the rule.
    Tree(&'static str),
    /// The object has another type than expected.
    WrongType {
        /// The expected type.
        wanted: &'static str,
        /// Name of what it is.
        found: &'static str,
    },
    /// A table has no such entry.
    NoEntry(String),
    /// A table entry has another form than the reader needs.
    EntryForm(String),
    /// A table has such an entry already.
    EntryExists(String),
    /// The object set is open for reading only.
    ReadOnly,
    /// The object exists already, or its slots are taken.
    Exists,
    /// The pool, or the reserve, has no space left.
    NoSpace,
    /// A quota of the dataset, or of one above it, has no space left.
    Quota,
    /// The changes would take more memory than they may.
    Memory,
    /// The engine of the pool has stopped; the text says why.
    Stopped(String),
    /// A change that cannot be made.
    Invalid(InvalidChange),
    /// Something that is read and cannot be written.
    Unsupported(Unsupported),
    /// A test asked for it ([`crate::Faults`]).
    Injected,
}

impl Error {
    /// The error underneath, when a block could not be read.
    #[must_use]
    pub fn io(&self) -> Option<&zio::Error> {
        match &self.kind {
            ErrorKind::Io(e) => Some(e),
            _ => None,
        }
    }

    /// True when something was looked up and is simply not there.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.kind, ErrorKind::NoObject | ErrorKind::NoEntry(_))
    }

    /// True when the data is encrypted and no key is loaded.
    #[must_use]
    pub fn is_no_key(&self) -> bool {
        self.io().is_some_and(|e| e.kind == zio::ErrorKind::NoKey)
    }
}

impl From<zio::Error> for Error {
    fn from(e: zio::Error) -> Self {
        let Place { objset, object, .. } = e.place;
        Self { objset, object, kind: ErrorKind::Io(Box::new(e)) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Io(e) => return write!(f, "{e}"),
            ErrorKind::Format { place, error } => return write!(f, "{place}: {error}"),
            // The pool is full, not the object.
            ErrorKind::NoSpace => return f.write_str("out of space"),
            ErrorKind::Memory => return f.write_str("the changes take more memory than allowed"),
            // An object that a user has named by its number.
            ErrorKind::WrongType { wanted, found } if self.objset == 0 => {
                let object = self.object;
                return write!(f, "object {object} of the MOS is of type '{found}', not {wanted}");
            }
            ErrorKind::Quota => return f.write_str("disk quota exceeded"),
            _ => write!(f, "objset {} object {}: ", self.objset, self.object)?,
        }
        match &self.kind {
            ErrorKind::NoObject => f.write_str("no such object"),
            ErrorKind::Tree(rule) => write!(f, "block tree contradicts itself: {rule}"),
            ErrorKind::WrongType { wanted, found } => write!(f, "is {found}, not {wanted}"),
            ErrorKind::NoEntry(name) => write!(f, "no entry '{}'", file(name.as_bytes())),
            ErrorKind::EntryExists(name) => {
                write!(f, "entry '{}' exists already", file(name.as_bytes()))
            }
            ErrorKind::ReadOnly => f.write_str("is open for reading only"),
            ErrorKind::Exists => f.write_str("exists already"),
            ErrorKind::Stopped(why) => write!(f, "the pool has stopped: {why}"),
            ErrorKind::Invalid(rule) => write!(f, "cannot be changed so: {rule}"),
            ErrorKind::Unsupported(what) => write!(f, "cannot be written: {what}"),
            ErrorKind::Injected => f.write_str("injected failure"),
            ErrorKind::EntryForm(name) => {
                write!(f, "entry '{}' has an unexpected form", file(name.as_bytes()))
            }
            ErrorKind::Io(_) | ErrorKind::Format { .. } => Ok(()),
            ErrorKind::NoSpace | ErrorKind::Quota | ErrorKind::Memory => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(e) => Some(e.as_ref()),
            ErrorKind::Format { error, .. } => Some(error),
            _ => None,
        }
    }
}
