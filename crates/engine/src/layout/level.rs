//! How much vdevs survive, and where vdevs of one pool do not match.

use crate::config::{VdevConfig, VdevKind};
use pool::live::VdevSpec;
use std::fmt;

/// What of a layout is likely to be a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// A vdev of this kind is made of files and of disks.
    FilesAndDisks(Level),
    /// The devices of a vdev of this kind have different sizes.
    Sizes(Level),
    /// New vdevs survive unequal losses.
    Levels(Level, Level),
    /// The new vdev and those that are there survive unequal losses.
    WithPool {
        /// One that is there.
        pool: Level,
        /// The new one.
        new: Level,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LEVEL: &str = "mismatched replication level";
        match self {
            Self::FilesAndDisks(of) => {
                write!(f, "{LEVEL}: {} contains both files and devices", of.name())
            }
            Self::Sizes(of) => write!(f, "{} contains devices of different sizes", of.name()),
            Self::Levels(a, b) => write!(f, "{LEVEL}: both {} vdevs are present", a.beside(b)),
            Self::WithPool { pool, new } => {
                write!(f, "{LEVEL}: pool uses {} and new vdev is {}", pool.shown(), new.shown())
            }
        }
    }
}

/// How much a vdev survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing: one device.
    Single,
    /// Of this many copies all but one.
    Mirror(usize),
    /// Parity and devices.
    Raidz(u64, usize),
    /// Parity and devices of a dRAID.
    Draid(u64, usize),
}

impl Level {
    /// What a vdev survives.
    #[must_use]
    pub fn of(spec: &VdevSpec) -> Self {
        match spec {
            VdevSpec::Leaf { .. } => Self::Single,
            VdevSpec::Mirror(c) => Self::Mirror(c.len()),
            VdevSpec::Raidz { nparity, children } => Self::Raidz(*nparity, children.len()),
            VdevSpec::Draid { nparity, children, .. } => Self::Draid(*nparity, children.len()),
        }
    }

    /// What a vdev that is there survives; `None`: it holds nothing by itself.
    #[must_use]
    pub fn of_config(top: &VdevConfig) -> Option<Self> {
        Some(match top.kind {
            VdevKind::Disk | VdevKind::File => Self::Single,
            VdevKind::Mirror => Self::Mirror(top.children.len()),
            VdevKind::Raidz { nparity } => Self::Raidz(u64::from(nparity), top.children.len()),
            VdevKind::Draid { nparity, .. } => Self::Draid(u64::from(nparity), top.children.len()),
            _ => return None,
        })
    }

    /// The kind of the vdev, as layouts name it.
    fn name(&self) -> String {
        match self {
            Self::Single => "disk".to_owned(),
            Self::Mirror(_) => "mirror".to_owned(),
            Self::Raidz(n, _) => format!("raidz{n}"),
            Self::Draid(n, _) => format!("draid{n}"),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Single => "disk".to_owned(),
            Self::Mirror(n) | Self::Raidz(_, n) | Self::Draid(_, n) => {
                format!("{n}-way {}", self.name())
            }
        }
    }

    /// Two vdevs of one pool survive unequal losses, or are of unequal width.
    pub(super) fn differs(&self, other: &Self) -> bool {
        match (self, other) {
            // What survives as much is as good.
            (Self::Mirror(n), Self::Raidz(parity, _) | Self::Draid(parity, _))
            | (Self::Raidz(parity, _) | Self::Draid(parity, _), Self::Mirror(n)) => {
                *n as u64 != parity + 1
            }
            (Self::Raidz(a, _), Self::Draid(b, _)) | (Self::Draid(b, _), Self::Raidz(a, _)) => {
                a != b
            }
            (a, b) => a != b,
        }
    }

    /// Both, by that in which they differ.
    fn beside(&self, other: &Self) -> String {
        match (self, other) {
            (Self::Mirror(a), Self::Mirror(b)) => format!("{a}-way and {b}-way mirror"),
            (Self::Raidz(a, _), Self::Raidz(b, _)) if a != b => {
                format!("{a} and {b} device parity raidz")
            }
            (Self::Raidz(_, a), Self::Raidz(_, b)) => format!("{a}-way and {b}-way raidz"),
            (Self::Draid(a, _), Self::Draid(b, _)) if a != b => {
                format!("{a} and {b} device parity draid")
            }
            (Self::Draid(_, a), Self::Draid(_, b)) => format!("{a}-way and {b}-way draid"),
            (a, b) => format!("{} and {}", a.name(), b.name()),
        }
    }
}
