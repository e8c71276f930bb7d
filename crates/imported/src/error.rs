//! Errors of the list of known pools, and notices.

use crate::Known;
use std::io;
use std::path::{Path, PathBuf};

/// Result of what changes the list of known pools.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something is not remembered or not forgotten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nowhere to remember pools in.
    #[error("this user has no directory for it")]
    NoFolder,
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    CannotWrite {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A pool that was to be forgotten is still known.
    #[error("'{name}' is still in the list of known pools")]
    StillKnown {
        /// The pool.
        name: String,
        /// Why.
        #[source]
        why: Box<Error>,
    },
}

/// Why a pool is not found by its name, or is not to be changed.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// No pool of this name, or in it, is known.
    #[error("no pool '{name}' is imported")]
    NotKnown {
        /// The pool.
        name: String,
    },
    /// It was imported to be read only.
    #[error("pool '{name}' was imported to be read only")]
    ReadOnly {
        /// The pool.
        name: String,
        /// Its version, when it is from before features: such pools are only read.
        old_version: Option<u64>,
    },
    /// One of them may not be read.
    #[error("its device {} cannot be read", path.display())]
    Denied {
        /// The pool.
        name: String,
        /// The device.
        path: PathBuf,
    },
    /// None is where it was, nor anywhere near.
    #[error("its devices are missing")]
    Absent(Box<Known>),
    /// Their labels mark the pool as destroyed.
    #[error("its labels say that it was destroyed")]
    Destroyed {
        /// The pool.
        name: String,
    },
    /// The search failed, or the name means no pool, or several.
    #[error(transparent)]
    Search(#[from] engine::Error),
}

/// A notice for the user, which does not keep anything from being done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// A file of the list cannot be read.
    Unreadable {
        /// The file.
        path: &'a Path,
        /// Why.
        cause: &'a io::Error,
    },
    /// A file of the list is damaged; what is whole in it is in a new one.
    Damaged {
        /// The file.
        path: &'a Path,
        /// The problems.
        why: &'a [String],
        /// Where it is now, or why it could not be put aside.
        aside: std::result::Result<&'a Path, &'a io::Error>,
    },
    /// The entry of a pool is not up to date.
    Outdated(&'a Error),
    /// A pool is gone, and is still known.
    NotForgotten(&'a Error),
}
