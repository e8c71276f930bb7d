//! How disks lie in a pool: groups of equal width, striped.

use crate::error::LabError;
use engine::inside::device::WriteDeviceRef;
use engine::live::{Devices, NewTop, SpaceClass, VdevSpec};
use std::fmt;
use std::str::FromStr;

/// Groups of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Each disk by itself.
    Stripe,
    /// Mirrors of this many disks.
    Mirror(usize),
    /// RAID-Z with this many parity disks, of this many disks in all.
    Raidz(u64, usize),
}

impl Layout {
    /// Disks of a group.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::Stripe => 1,
            Self::Mirror(width) | Self::Raidz(_, width) => width,
        }
    }

    /// The pool of these disks.
    pub(crate) fn tops(self, disks: Vec<(String, WriteDeviceRef)>) -> (Devices, Vec<NewTop>) {
        let leaf = |(path, _): &(String, WriteDeviceRef)| VdevSpec::Leaf {
            path: path.clone(),
            is_file: false,
        };
        let group = |group: &[(String, WriteDeviceRef)]| {
            let mut leaves: Vec<VdevSpec> = group.iter().map(leaf).collect();
            let spec = match self {
                Self::Stripe => leaves.remove(0),
                Self::Mirror(_) => VdevSpec::Mirror(leaves),
                Self::Raidz(nparity, _) => VdevSpec::Raidz { nparity, children: leaves },
            };
            NewTop { spec, class: SpaceClass::Normal }
        };
        let tops = disks.chunks(self.width()).map(group).collect();
        (disks.into_iter().collect(), tops)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stripe => write!(f, "stripe"),
            Self::Mirror(width) => write!(f, "mirror:{width}"),
            Self::Raidz(parity, width) => write!(f, "raidz{parity}:{width}"),
        }
    }
}

impl FromStr for Layout {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let (kind, width) = text.split_once(':').unwrap_or((text, "0"));
        let width: Option<usize> = width.parse().ok().filter(|width| *width <= 255);
        let of = |least: usize| width.filter(|width| *width >= least);
        let found = match kind {
            "stripe" if !text.contains(':') => Some(Self::Stripe),
            "mirror" => of(2).map(Self::Mirror),
            "raidz" | "raidz1" => of(2).map(|width| Self::Raidz(1, width)),
            "raidz2" => of(3).map(|width| Self::Raidz(2, width)),
            "raidz3" => of(4).map(|width| Self::Raidz(3, width)),
            _ => None,
        };
        found.ok_or_else(|| {
            LabError::new(format!("no layout {text:?}"), "it is not one that can be simulated")
                .hint("stripe, mirror:2, raidz1:5, raidz2:6 and the like: the number is a group's")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_as_they_are_shown() {
        for text in ["stripe", "mirror:3", "raidz1:5", "raidz2:6", "raidz3:11"] {
            let layout: Layout = text.parse().expect("a layout");
            assert_eq!(layout.to_string(), text);
        }
        for text in ["", "stripe:2", "mirror", "mirror:1", "raidz2:2", "raidz4:9", "mirror:x"] {
            assert!(text.parse::<Layout>().is_err(), "{text}");
        }
    }
}
