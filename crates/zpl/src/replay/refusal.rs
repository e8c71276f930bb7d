//! Why a record could not be applied.

use ondisk::zil::TxType;
use std::fmt;

/// Why a record could not be applied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// Something it needs cannot be read.
    Read(crate::Error),
    /// A structure it needs does not decode, or would not encode.
    Format(ondisk::Error),
    /// A file or name it needs is not there.
    NotFound,
    /// What it makes is there already.
    Exists,
    /// What it takes for a directory is none.
    NotDirectory,
    /// What it takes for a file is a directory.
    IsDirectory,
    /// The directory it removes has entries.
    NotEmpty,
    /// It would put a directory below itself.
    Loop,
    /// The record contradicts itself; the text names the rule.
    Damaged(&'static str),
    /// What it asks for is not done here.
    Unsupported(&'static str),
    /// The changes would take more memory than allowed.
    Memory,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(e) => write!(f, "{e}"),
            Self::Format(e) => write!(f, "{e}"),
            Self::NotFound => f.write_str("a file or name it needs does not exist"),
            Self::Exists => f.write_str("what it makes exists already"),
            Self::NotDirectory => f.write_str("not a directory"),
            Self::IsDirectory => f.write_str("is a directory"),
            Self::NotEmpty => f.write_str("the directory is not empty"),
            Self::Loop => f.write_str("a directory would be below itself"),
            Self::Damaged(rule) => write!(f, "damaged record: {rule}"),
            Self::Unsupported(what) => write!(f, "not supported: {what}"),
            Self::Memory => f.write_str("the changes take more memory than allowed"),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(e) => Some(e),
            Self::Format(e) => Some(e),
            _ => None,
        }
    }
}

impl From<crate::Error> for Refusal {
    fn from(e: crate::Error) -> Self {
        match e {
            crate::Error::Dmu(e) => e.into(),
            other => Self::Read(other),
        }
    }
}

impl From<dmu::Error> for Refusal {
    fn from(e: dmu::Error) -> Self {
        match e.kind {
            dmu::ErrorKind::NoObject => Self::NotFound,
            _ => Self::Read(crate::Error::Dmu(e)),
        }
    }
}

impl From<ondisk::Error> for Refusal {
    fn from(e: ondisk::Error) -> Self {
        Self::Format(e)
    }
}

/// The record at which a replay stopped.
#[derive(Clone, Debug)]
pub struct Stop {
    /// Its sequence number.
    pub seq: u64,
    /// Its type.
    pub kind: TxType,
    /// Why it could not be applied.
    pub why: Refusal,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind.name().unwrap_or("of an unknown type");
        write!(f, "log record {} ({name}): {}", self.seq, self.why)
    }
}
