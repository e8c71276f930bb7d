//! How much vdevs survive, and where vdevs of one pool do not match.

use ondisk::config::{VdevConfig, VdevKind};
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
    /// New vdevs survive unequal losses, or are of kinds that do not go together.
    Levels(Level, Level),
    /// So are the last of those that are there and the last new one; beside what is there, width
    /// counts too.
    WithPool {
        /// One that is there.
        pool: Level,
        /// The new one.
        new: Level,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FilesAndDisks(of) => write!(f, "a {} of files and of disks", of.kind()),
            Self::Sizes(of) => write!(f, "the devices of a {} have different sizes", of.kind()),
            Self::Levels(a, b) => write!(f, "{a} and {b} survive different losses"),
            Self::WithPool { pool, new } => write!(f, "{new} does not go together with {pool}"),
        }
    }
}

/// What a vdev is made of, and how much it survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing: one device.
    Single {
        /// It is a file.
        is_file: bool,
    },
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
            VdevSpec::Leaf { is_file, .. } => Self::Single { is_file: *is_file },
            VdevSpec::Mirror(c) => Self::Mirror(c.len()),
            VdevSpec::Raidz { nparity, children } => Self::Raidz(*nparity, children.len()),
            VdevSpec::Draid { nparity, children, .. } => Self::Draid(*nparity, children.len()),
        }
    }

    /// What a vdev that is there survives; `None`: it holds nothing by itself.
    #[must_use]
    pub fn of_config(top: &VdevConfig) -> Option<Self> {
        Some(match top.kind {
            VdevKind::Disk => Self::Single { is_file: false },
            VdevKind::File => Self::Single { is_file: true },
            VdevKind::Mirror => Self::Mirror(top.children.len()),
            VdevKind::Raidz { nparity } => Self::Raidz(u64::from(nparity), top.children.len()),
            VdevKind::Draid { nparity, .. } => Self::Draid(u64::from(nparity), top.children.len()),
            _ => return None,
        })
    }

    /// The kind of the vdev.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Single { is_file: true } => "file",
            Self::Single { is_file: false } => "disk",
            Self::Mirror(_) => "mirror",
            Self::Raidz(..) => "raidz",
            Self::Draid(..) => "draid",
        }
    }

    /// Devices of it that may be lost.
    #[must_use]
    pub fn redundancy(self) -> u64 {
        match self {
            Self::Single { .. } => 0,
            Self::Mirror(copies) => (copies as u64).saturating_sub(1),
            Self::Raidz(parity, _) | Self::Draid(parity, _) => parity,
        }
    }

    /// It has parity.
    #[must_use]
    pub fn has_parity(self) -> bool {
        matches!(self, Self::Raidz(..) | Self::Draid(..))
    }

    /// One has parity and one is a mirror: in this order, with the width of the mirror.
    #[must_use]
    pub fn parity_and_mirror(self, other: Self) -> Option<(Self, Self, usize)> {
        match (self, other) {
            (parity, Self::Mirror(n)) if parity.has_parity() => Some((parity, other, n)),
            (Self::Mirror(n), parity) if parity.has_parity() => Some((parity, self, n)),
            _ => None,
        }
    }

    /// Two new vdevs do not go together. Where parity is, what survives as much is as good: raidz,
    /// dRAID and mirrors of any width.
    pub(crate) fn differs(self, other: Self) -> bool {
        match (self, other) {
            (a, b) if a.has_parity() || b.has_parity() => {
                let is_single = |level| matches!(level, Self::Single { .. });
                is_single(a) || is_single(b) || a.redundancy() != b.redundancy()
            }
            (a, b) => a != b,
        }
    }

    /// A new vdev does not go together with the last one that is there: beside a mirror parity
    /// counts alone, and else the kind, parity and width.
    pub(crate) fn differs_from_new(self, new: Self) -> bool {
        match self.parity_and_mirror(new) {
            Some((parity, mirror, _)) => parity.redundancy() != mirror.redundancy(),
            None => self != new,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single { .. } => write!(f, "a {}", self.kind()),
            Self::Mirror(n) => write!(f, "a mirror of {n}"),
            Self::Raidz(parity, n) | Self::Draid(parity, n) => {
                write!(f, "a {}{parity} of {n}", self.kind())
            }
        }
    }
}
