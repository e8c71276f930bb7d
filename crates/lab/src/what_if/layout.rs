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
    /// dRAID.
    Draid(Draid),
}

/// The shape of a dRAID, as its name has it: `draid2:4d:11c:1s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draid {
    /// Parity columns of a group, 1 to 3.
    pub parity: u64,
    /// Data columns of a group.
    pub data: u64,
    /// All disks.
    pub disks: usize,
    /// Distributed spares: space of this number of disks.
    pub spares: u64,
}

impl Layout {
    /// Disks of a group.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::Stripe => 1,
            Self::Mirror(width) | Self::Raidz(_, width) => width,
            Self::Draid(draid) => draid.disks,
        }
    }

    /// Bytes of the disks for each byte of data, at least.
    pub(crate) fn copies(self) -> f64 {
        let with_parity = |parity: u64, columns: f64| columns / (columns - parity as f64);
        match self {
            Self::Stripe => 1.0,
            Self::Mirror(sides) => sides as f64,
            Self::Raidz(parity, width) => with_parity(parity, width as f64),
            Self::Draid(Draid { parity, data, disks, spares }) => {
                let disks = disks as f64;
                with_parity(parity, (data + parity) as f64) * disks / (disks - spares as f64)
            }
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
                Self::Draid(Draid { parity, data, spares, .. }) => VdevSpec::Draid {
                    nparity: parity,
                    ndata: data,
                    nspares: spares,
                    children: leaves,
                },
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
            Self::Draid(Draid { parity, data, disks, spares }) => {
                write!(f, "draid{parity}:{data}d:{disks}c:{spares}s")
            }
        }
    }
}

/// `draid2:4d:11c:1s`: parity (1 where it is not said), data columns of a group, disks, spares.
fn draid(text: &str) -> Option<Draid> {
    let (parity, rest) = text.strip_prefix("draid")?.split_once(':')?;
    let parity = if parity.is_empty() { 1 } else { parity.parse().ok()? };
    let mut out = Draid { parity, data: 0, disks: 0, spares: 0 };
    for part in rest.split(':') {
        if let Some(data) = part.strip_suffix('d') {
            out.data = data.parse().ok()?;
        } else if let Some(disks) = part.strip_suffix('c') {
            out.disks = disks.parse().ok().filter(|disks| *disks <= 255)?;
        } else {
            out.spares = part.strip_suffix('s')?.parse().ok().filter(|spares| *spares <= 100)?;
        }
    }
    let fits = out.data.checked_add(parity)?.checked_add(out.spares)? <= out.disks as u64;
    ((1..=3).contains(&parity) && out.data > 0 && fits).then_some(out)
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
            _ => draid(text).map(Self::Draid),
        };
        found.ok_or_else(|| {
            LabError::new(format!("no layout {text:?}"), "it is not one that can be simulated")
                .hint("stripe, mirror:2, raidz2:6, draid2:4d:11c:1s or such: numbers are a group's")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_as_they_are_shown() {
        for text in ["stripe", "mirror:3", "raidz1:5", "raidz2:6", "raidz3:11", "draid2:4d:11c:1s"]
        {
            let layout: Layout = text.parse().expect("a layout");
            assert_eq!(layout.to_string(), text);
        }
        let wrong = [
            "",
            "stripe:2",
            "mirror",
            "mirror:1",
            "raidz2:2",
            "raidz4:9",
            "mirror:x",
            "draid2",
            "draid2:4d",
            "draid4:1d:9c:0s",
            "draid1:8d:9c:1s",
            "draid1:x",
        ];
        for text in wrong {
            assert!(text.parse::<Layout>().is_err(), "{text}");
        }
        let draid: Layout = "draid:4d:11c".parse().expect("a layout");
        assert_eq!((draid.to_string().as_str(), draid.width()), ("draid1:4d:11c:0s", 11));
    }

    #[test]
    fn parity_and_spares_take_their_part_of_the_disks() {
        let copies = |text: &str| text.parse::<Layout>().expect("a layout").copies();
        assert_eq!(["stripe", "mirror:3", "raidz2:6"].map(copies), [1.0, 3.0, 1.5]);
        assert_eq!(copies("draid2:4d:12c:2s"), 1.8);
    }
}
