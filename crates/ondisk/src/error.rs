//! Errors of bytes from a disk, and their places.

use core::fmt;

/// Result of decoding a structure.
pub type Result<T> = core::result::Result<T, Error>;

/// Why bytes are not the structure they should be.
///
/// Names the structure and the field, and the byte offset inside the structure; the caller adds
/// what it alone knows: vdev, offset on disk, object, level, block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure}: {field} at byte {offset}: {kind}")]
pub struct Error {
    /// The structure being decoded, in ZFS's own noun: `"uberblock"`, `"blkptr"`.
    pub structure: &'static str,
    /// The field inside it.
    pub field: &'static str,
    /// Byte offset of the field from the start of the structure.
    pub offset: u64,
    /// The kind of error.
    pub kind: ErrorKind,
}

/// The ways in which a field can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes end before the field does.
    Truncated {
        /// Bytes the field needs.
        needed: u64,
        /// Bytes that are left.
        available: u64,
    },
    /// A magic number is another one.
    BadMagic {
        /// The value found.
        found: u64,
    },
    /// A number is outside the range the format allows.
    OutOfRange {
        /// The value found.
        value: u64,
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// A type, version or flag this implementation does not know.
    Unknown {
        /// The value found.
        value: u64,
    },
    /// Text is not valid where the format demands it (a missing NUL, not UTF-8).
    BadText,
    /// A checksum inside the structure does not fit its bytes.
    BadChecksum,
    /// A member the structure must have is missing.
    Missing,
    /// A member has another data type than the format says.
    WrongType,
    /// Two fields contradict each other; the text names the rule.
    Inconsistent(&'static str),
    /// Nested deeper than the decoder's stated bound.
    TooDeep {
        /// The bound.
        limit: u32,
    },
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, available } => {
                write!(f, "needs {needed} bytes, {available} left")
            }
            Self::BadMagic { found } => write!(f, "bad magic {found:#x}"),
            Self::OutOfRange { value, min, max } => write!(f, "{value} is not in {min}..={max}"),
            Self::Unknown { value } => write!(f, "unknown value {value:#x}"),
            Self::BadText => f.write_str("not valid text"),
            Self::BadChecksum => f.write_str("checksum does not match"),
            Self::Missing => f.write_str("missing"),
            Self::WrongType => f.write_str("wrong data type"),
            Self::Inconsistent(rule) => write!(f, "contradiction: {rule}"),
            Self::TooDeep { limit } => write!(f, "nested deeper than {limit}"),
        }
    }
}
