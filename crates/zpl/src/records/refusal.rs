//! Why a record could not be applied.

use ondisk::zil::TxType;
use std::fmt;

/// Why a record could not be applied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The operation of the record failed.
    Failed(crate::Error),
    /// A structure in it does not decode.
    Format(ondisk::Error),
    /// The record contradicts itself; the text names the rule.
    Damaged(&'static str),
    /// Its operation is not supported here.
    Unsupported(&'static str),
    /// The changes would take more memory than allowed.
    Memory,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(e) => write!(f, "{e}"),
            Self::Format(e) => write!(f, "{e}"),
            Self::Damaged(rule) => write!(f, "damaged record: {rule}"),
            Self::Unsupported(what) => write!(f, "not supported: {what}"),
            Self::Memory => f.write_str("the changes take more memory than allowed"),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(e) => Some(e),
            Self::Format(e) => Some(e),
            _ => None,
        }
    }
}

impl From<crate::Error> for Refusal {
    fn from(e: crate::Error) -> Self {
        match e {
            crate::Error::Dmu(e) if matches!(e.kind, dmu::ErrorKind::Memory) => Self::Memory,
            e => Self::Failed(e),
        }
    }
}

impl From<dmu::Error> for Refusal {
    fn from(e: dmu::Error) -> Self {
        crate::Error::from(e).into()
    }
}

impl From<ondisk::Error> for Refusal {
    fn from(e: ondisk::Error) -> Self {
        Self::Format(e)
    }
}

/// The record at which a replay stopped.
#[derive(Clone, Debug)]
pub struct ReplayStop {
    /// Its sequence number.
    pub seq: u64,
    /// Its type.
    pub kind: TxType,
    /// Why it could not be applied.
    pub why: Refusal,
}

impl fmt::Display for ReplayStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind.name().unwrap_or("of an unknown type");
        write!(f, "log record {} ({name}): {}", self.seq, self.why)
    }
}
