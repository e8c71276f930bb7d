//! Why a file could not be had.

use crate::refusal::FileRefusal;
use std::fmt;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be had.
#[derive(Clone, Debug)]
pub enum Error {
    /// An object could not be read.
    Dmu(dmu::Error),
    /// The object set is not a file system, or no volume.
    WrongKind {
        /// The expected kind.
        wanted: &'static str,
    },
    /// The file system is of a version that is not known.
    Version(u64),
    /// An attribute, entry or table of an object does not decode.
    Format {
        /// The object.
        object: u64,
        /// The error of the decoder.
        error: ondisk::Error,
    },
    /// An attribute every file must have is missing.
    NoAttribute {
        /// The file.
        object: u64,
        /// The attribute.
        name: &'static str,
    },
    /// No such file or directory.
    NotFound(String),
    /// A component of a path is not a directory.
    NotDirectory(String),
    /// Too many symbolic links, or they form a loop.
    TooManyLinks(String),
    /// The name breaks a rule of the file system (`utf8only`), or no file can have it.
    BadName(String),
    /// The name is too long.
    NameTooLong(String),
    /// It is not a symbolic link.
    NotSymlink(String),
    /// It is a directory.
    IsDirectory(String),
    /// There is something of that name already.
    Exists(String),
    /// The directory has entries.
    NotEmpty(String),
    /// A directory would get below itself.
    Loop,
    /// The file has too many links.
    TooManyNames,
    /// Source and target belong to different projects.
    OtherProject,
    /// The file has no such extended attribute.
    NoXattr(String),
    /// The request, the file or the file system does not allow it.
    Refused(FileRefusal),
    /// The file system is open for reading only.
    ReadOnly,
}

impl Error {
    /// It is refused for this reason.
    #[must_use]
    pub fn refused(why: impl Into<FileRefusal>) -> Self {
        Self::Refused(why.into())
    }
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
            Self::WrongKind { wanted } => write!(f, "the dataset is not a {wanted}"),
            Self::Version(v) => write!(f, "file system version {v} is not known"),
            Self::Format { object, error } => write!(f, "object {object}: {error}"),
            Self::NoAttribute { object, name } => {
                write!(f, "object {object}: attribute {name} is missing")
            }
            Self::NotFound(p) => write!(f, "{p}: no such file or directory"),
            Self::NotDirectory(p) => write!(f, "{p}: not a directory"),
            Self::TooManyLinks(p) => write!(f, "{p}: too many symbolic links"),
            Self::BadName(p) => write!(f, "{p}: not a name this file system allows"),
            Self::NameTooLong(p) => write!(f, "{p}: the name is too long"),
            Self::NotSymlink(p) => write!(f, "{p}: not a symbolic link"),
            Self::IsDirectory(p) => write!(f, "{p}: is a directory"),
            Self::Exists(p) => write!(f, "{p}: exists already"),
            Self::NotEmpty(p) => write!(f, "{p}: the directory is not empty"),
            Self::Loop => f.write_str("a directory cannot be moved into itself"),
            Self::TooManyNames => f.write_str("the file has too many links"),
            Self::OtherProject => f.write_str("source and target are of different projects"),
            Self::NoXattr(p) => write!(f, "{p}: no such extended attribute"),
            Self::Refused(why) => write!(f, "{why}"),
            Self::ReadOnly => f.write_str("the file system is open for reading only"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Dmu(e) => Some(e),
            Self::Format { error, .. } => Some(error),
            _ => None,
        }
    }
}
