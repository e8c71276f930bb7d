//! Why a device is not taken for a pool.

use crate::devices::{Process, SystemUse};
use pool::live::DEVICE_MIN;
use std::fmt;

/// Why a device is not taken for a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceRefusal {
    /// This loop device shows the file as a disk.
    LoopAbove(String),
    /// The system works with it.
    System(SystemUse),
    /// Another process has it; which one, where the system tells.
    Held(Option<Process>),
    /// It is a file in a file system of the pool itself.
    InItself,
    /// It has this many bytes, fewer than [`DEVICE_MIN`].
    TooSmall(u64),
    /// It answers no request within the deadline (`zinc_vdev_silence_ms`).
    Silent,
    /// The pool of this name uses it here.
    InPool(String),
    /// It holds something that would be lost.
    Holds(Content),
}

/// What a device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// A part of this pool, which was exported.
    Exported(String),
    /// A part of this pool, which another host may use.
    PerhapsActive(String),
    /// A spare or cache device of this pool.
    Aux(String),
    /// Something else, of this kind.
    Foreign(String),
}

impl DeviceRefusal {
    /// It is taken all the same when that is forced.
    #[must_use]
    pub fn yields_to_force(&self) -> bool {
        matches!(self, Self::LoopAbove(_) | Self::Holds(_))
    }
}

impl fmt::Display for DeviceRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoopAbove(device) => write!(f, "is in use: {device} is a loop device on it"),
            Self::System(SystemUse::Swap) => f.write_str("is in use as swap"),
            Self::System(SystemUse::Mount(target)) => write!(f, "is mounted on {target}"),
            Self::System(SystemUse::PartOf(name)) => write!(f, "is in use: {name} uses it"),
            Self::Held(Some(process)) => write!(f, "is in use by process {}", process.pid),
            Self::Held(None) => f.write_str("is in use by another program"),
            Self::InItself => f.write_str("is a file in the pool itself"),
            Self::TooSmall(size) => write!(f, "has {size} bytes; a pool needs {DEVICE_MIN}"),
            Self::Silent => f.write_str("does not answer"),
            Self::InPool(pool) => write!(f, "is part of active pool '{pool}'"),
            Self::Holds(Content::Exported(pool)) => {
                write!(f, "is part of exported pool '{pool}'")
            }
            Self::Holds(Content::PerhapsActive(pool)) => {
                write!(f, "is part of potentially active pool '{pool}'")
            }
            Self::Holds(Content::Aux(pool)) => {
                write!(f, "is a spare or cache device of pool '{pool}'")
            }
            Self::Holds(Content::Foreign(what)) => write!(f, "contains {what}"),
        }
    }
}

impl std::error::Error for DeviceRefusal {}
