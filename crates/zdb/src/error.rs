//! Why a dump could not begin, or a copy could not be made.

use engine::inside::pool;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The argument does not have the form that its mode requires.
    Usage(String),
    /// The pool cannot be read where every mode begins.
    Pool(pool::Error),
    /// There is no such dataset, or it cannot be read.
    Dataset(engine::inside::dsl::Error),
    /// A snapshot cannot be sent.
    Send(engine::Error),
    /// There is no such file, or it cannot be read.
    File(engine::inside::zpl::Error),
    /// What a path names is not a regular file.
    NotAFile(String),
    /// A device cannot be opened.
    Device {
        /// Its path.
        path: PathBuf,
        /// Why.
        cause: engine::inside::device::Error,
    },
    /// What a file is copied into cannot be written.
    Write(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) => f.write_str(what),
            Self::Pool(e) => e.fmt(f),
            Self::Dataset(e) => e.fmt(f),
            Self::Send(e) => e.fmt(f),
            Self::File(e) => e.fmt(f),
            Self::NotAFile(path) => write!(f, "{path}: not a regular file"),
            Self::Device { path, .. } => write!(f, "cannot open {}", path.display()),
            Self::Write(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

impl From<pool::Error> for Error {
    fn from(e: pool::Error) -> Self {
        Self::Pool(e)
    }
}

impl From<engine::Error> for Error {
    fn from(e: engine::Error) -> Self {
        Self::Send(e)
    }
}

impl From<engine::inside::dsl::Error> for Error {
    fn from(e: engine::inside::dsl::Error) -> Self {
        Self::Dataset(e)
    }
}

impl From<engine::inside::dmu::Error> for Error {
    fn from(e: engine::inside::dmu::Error) -> Self {
        Self::Dataset(e.into())
    }
}

impl From<engine::inside::zpl::Error> for Error {
    fn from(e: engine::inside::zpl::Error) -> Self {
        Self::File(e)
    }
}
