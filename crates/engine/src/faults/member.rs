//! Why a device that was named is not one that an operation can use.

use std::fmt;

/// Why a device that was named is not one that an operation can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberFault {
    /// The pool has none that is called so.
    Unknown,
    /// It is a hot spare that is not in use.
    Reserved,
    /// It is a cache device.
    Cache,
    /// It is a vdev of several devices, and one device is needed.
    Several,
    /// It is part of a vdev, and a whole top-level vdev is needed.
    Part,
    /// The new device is a spare of this pool: it can replace a device temporarily, and do nothing
    /// else.
    NewIsSpare,
    /// The new device is a cache device of this pool.
    NewIsCache,
    /// The new device is another device of this pool, which was moved.
    NewIsMoved,
    /// The new device is in use by this pool.
    NewIsUsed,
    /// How much memory its removal needs is not recorded.
    UnknownMemory,
}

impl fmt::Display for MemberFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "is not a device of the pool",
            Self::Reserved => "is a hot spare",
            Self::Cache | Self::NewIsCache => "is a cache device of the pool",
            Self::Several => "is a vdev of several devices",
            Self::Part => "is part of another vdev",
            Self::NewIsSpare => "is a spare of the pool",
            Self::NewIsMoved => "is another device of the pool, which was moved",
            Self::NewIsUsed => "is in use by the pool",
            Self::UnknownMemory => "has space maps that do not say how much memory is needed",
        })
    }
}
