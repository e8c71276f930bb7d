//! Why a device that came back is not used.

use std::fmt;
use std::path::PathBuf;

/// Why a device is not used that has a history of its own.
pub(crate) const WROTE_ALONE: &str =
    "it was written without the others, and may hold changes that they lack";

/// The last device found in the place of a leaf that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where it was found.
    pub path: PathBuf,
    /// Why it is not used.
    pub why: NotUsed,
}

/// Why what was found is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotUsed {
    /// It is in the leaf's place, and something else.
    Unfit(LabelMismatch),
    /// The pool has not come that far.
    Newer {
        /// Its last txg.
        txg: u64,
        /// The last one of the pool.
        pool: u64,
    },
    /// It is new, and smaller than the device that it would replace has to be.
    TooSmall {
        /// Bytes that are needed.
        needs: u64,
        /// Bytes that it has.
        has: u64,
    },
    /// It has a history of its own.
    WroteAlone,
    /// It is older than the device was when it left, and elsewhere.
    Copy,
    /// It was to be used, and that failed.
    Failed(String),
}

impl NotUsed {
    /// The same in a few words, for a table, behind the device.
    #[must_use]
    pub fn note(&self) -> String {
        match self {
            Self::Unfit(LabelMismatch::NoLabel) => "it has no label".to_owned(),
            Self::Unfit(_) => self.to_string(),
            Self::Newer { txg, .. } => format!("it was written elsewhere up to txg {txg}"),
            Self::TooSmall { needs, has } => format!("too small: needs {needs} bytes, has {has}"),
            Self::WroteAlone => "it was written without the others".to_owned(),
            Self::Copy => "it is an earlier copy".to_owned(),
            // In a row of a table.
            Self::Failed(why) => why.replace(char::is_control, "?"),
        }
    }
}

impl fmt::Display for NotUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(why) => write!(f, "it {why}"),
            Self::Newer { txg, pool } => {
                write!(f, "it was written elsewhere up to txg {txg}, and the pool is at {pool}")
            }
            Self::TooSmall { needs, has } => {
                write!(f, "it is too small: needs {needs} bytes, has {has}")
            }
            Self::WroteAlone => f.write_str(WROTE_ALONE),
            Self::Copy => f.write_str("it is an earlier copy, and not where the device was"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Why a device is not the one that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelMismatch {
    /// It has no label.
    NoLabel,
    /// It is of another pool.
    OtherPool,
    /// It is of this pool, and another leaf.
    OtherLeaf,
    /// It is not part of a vdev.
    Aux,
}

impl fmt::Display for LabelMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLabel => "has no label: it is not the device that was there before",
            Self::OtherPool => "belongs to another pool",
            Self::OtherLeaf => "is another device of this pool",
            Self::Aux => "is a spare or cache device",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_why_in_one_line() {
        let why = "cannot open '/x\ny': Permission denied".to_owned();
        assert_eq!(NotUsed::Failed(why).note(), "cannot open '/x?y': Permission denied");
    }
}
