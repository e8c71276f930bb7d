//! Why a dataset is not mounted, or stays mounted.

use crate::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why something was not done to the mount of a dataset.
#[derive(Debug)]
#[non_exhaustive]
pub enum DatasetError {
    /// There is no such option of mounts.
    Option(String),
    /// The dataset cannot be mounted as it is.
    Refused {
        /// Its name.
        name: String,
        /// The obstacle.
        why: String,
    },
    /// The pool refuses.
    Engine {
        /// The verb of the failed operation: `open`, `mount`.
        doing: &'static str,
        /// Its name.
        name: String,
        /// Why.
        error: engine::Error,
    },
    /// The system does not mount it.
    System {
        /// The dataset.
        name: String,
        /// Why.
        error: Error,
    },
    /// It stays mounted.
    Unmount {
        /// Where it is mounted.
        dir: PathBuf,
        /// Why.
        error: Error,
    },
    /// It is mounted here, and the user may not unmount it.
    NotPermitted(PathBuf),
    /// Its properties have changed, and its mount has the options it had.
    Remount {
        /// The dataset.
        name: String,
        /// Why.
        error: Error,
    },
}

impl DatasetError {
    pub(super) fn refused(name: &str, why: &str) -> Self {
        Self::Refused { name: name.to_owned(), why: why.to_owned() }
    }

    pub(super) fn engine(doing: &'static str, name: &str, error: impl Into<engine::Error>) -> Self {
        Self::Engine { doing, name: name.to_owned(), error: error.into() }
    }

    pub(super) fn system(name: &str, error: Error) -> Self {
        Self::System { name: name.to_owned(), error }
    }

    pub(crate) fn unmount(dir: &Path, error: Error) -> Self {
        Self::Unmount { dir: dir.to_owned(), error }
    }
}

impl fmt::Display for DatasetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(name) => write!(f, "no mount option is named '{name}'"),
            Self::Refused { name, why } => write!(f, "cannot mount '{name}': {why}"),
            Self::Engine { doing, name, error } => write!(f, "cannot {doing} '{name}': {error}"),
            Self::System { name, error } => write!(f, "cannot mount '{name}': {error}"),
            Self::Unmount { dir, error } => {
                write!(f, "cannot unmount '{}': {error}", dir.display())
            }
            Self::NotPermitted(dir) => {
                write!(f, "cannot unmount '{}': permission denied", dir.display())
            }
            Self::Remount { name, error } => write!(f, "cannot remount '{name}': {error}"),
        }
    }
}

impl std::error::Error for DatasetError {}
