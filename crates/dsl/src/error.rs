//! Why a dataset could not be had.

use std::fmt;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a dataset could not be had.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// An object of the MOS could not be read.
    Dmu(dmu::Error),
    /// No dataset, snapshot or bookmark has that name.
    NoSuchDataset(String),
    /// The name breaks the rules for names.
    BadName(String),
    /// The tree of datasets contradicts itself; the text names the rule.
    Tree {
        /// Object in the MOS.
        object: u64,
        /// The rule.
        rule: &'static str,
    },
    /// A bonus or entry does not decode.
    Format {
        /// Object in the MOS.
        object: u64,
        /// What is wrong.
        error: ondisk::Error,
    },
    /// The dataset's key could not be used.
    Key {
        /// The dataset.
        dataset: String,
        /// Why.
        error: crate::keys::KeyError,
    },
}

impl From<dmu::Error> for Error {
    fn from(e: dmu::Error) -> Self {
        Self::Dmu(e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dmu(e) => write!(f, "{e}"),
            Self::NoSuchDataset(n) => write!(f, "dataset {n:?} does not exist"),
            Self::BadName(n) => write!(f, "{n:?} is no dataset name"),
            Self::Tree { object, rule } => write!(f, "MOS object {object}: {rule}"),
            Self::Format { object, error } => write!(f, "MOS object {object}: {error}"),
            Self::Key { dataset, error } => write!(f, "key of {dataset:?}: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Dmu(e) => Some(e),
            Self::Format { error, .. } => Some(error),
            Self::Key { error, .. } => Some(error),
            _ => None,
        }
    }
}
