//! Why a pool that could be opened is not imported.

use super::PoolNameFault;
use std::fmt;
use std::path::PathBuf;

/// Why a pool is not imported, apart from what its devices say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportRefusal {
    /// It is imported already.
    Imported,
    /// Another pool that is imported has the name.
    NameTaken,
    /// The new name is one that no new pool can have.
    Name(PoolNameFault),
    /// Its own name cannot be typed; the pool has this guid.
    NameNotKept(u64),
    /// This user may not open these devices of it.
    Denied(Vec<PathBuf>),
    /// The list of imported pools cannot be written; the source says why.
    NotListed,
}

impl fmt::Display for ImportRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Imported => "is imported already",
            Self::NameTaken => "another pool that is imported has this name",
            Self::Name(fault) => return write!(f, "{fault}"),
            Self::NameNotKept(_) => "its name cannot be typed",
            Self::Denied(_) => "one of its devices may not be opened",
            Self::NotListed => "cannot be added to the list of imported pools",
        })
    }
}
