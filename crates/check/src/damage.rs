//! Faults of devices, put together: thousands of bad blocks on one disk are one issue.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use vdev::{Fault, FaultKind};

/// Ranges kept of one device; beyond, neighbours are joined until they fit.
pub const RANGES_MAX: usize = 4096;

/// The damage found on one device.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeviceDamage {
    /// Top-level vdev.
    pub vdev: u32,
    /// Guid of the device.
    pub guid: u64,
    /// Its path as configured.
    pub path: Arc<str>,
    /// Places the device could not read.
    pub io: u64,
    /// Places that held other bytes than they should.
    pub checksum: u64,
    /// Parity and padding that did not fit.
    pub parity: u64,
    /// Places that were not read because the device is not there.
    pub missing: u64,
    /// Places that are outdated, as is to be expected: the device missed their txgs.
    pub stale: u64,
    /// Bytes of all these places but the missing ones.
    pub bytes: u64,
    /// Blocks with a fault here of which there is a good copy.
    pub repairable: u64,
    /// Blocks with a fault here that could not be read at all.
    pub lost: u64,
    /// Byte ranges on the device, labels included; joined when there are very many.
    pub ranges: Vec<(u64, u64)>,
}

impl DeviceDamage {
    /// Only what is to be expected of a device that was away.
    #[must_use]
    pub fn is_expected(&self) -> bool {
        self.io == 0 && self.checksum == 0 && self.parity == 0 && self.lost == 0
    }

    fn add_range(&mut self, start: u64, end: u64) {
        self.ranges.push((start, end));
        if self.ranges.len() >= 2 * RANGES_MAX {
            self.compact();
        }
    }

    /// Sorts, joins what touches, and with too many ranges joins across ever larger gaps.
    fn compact(&mut self) {
        self.ranges.sort_unstable();
        let mut gap = 0;
        loop {
            let mut out: Vec<(u64, u64)> = Vec::with_capacity(self.ranges.len());
            for (start, end) in &self.ranges {
                match out.last_mut() {
                    Some(last) if *start <= last.1.saturating_add(gap) => last.1 = last.1.max(*end),
                    _ => out.push((*start, *end)),
                }
            }
            self.ranges = out;
            if self.ranges.len() <= RANGES_MAX {
                return;
            }
            gap = (gap * 2).max(4096);
        }
    }
}

impl fmt::Display for DeviceDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (guid {}, vdev {}): ", self.path, self.guid, self.vdev)?;
        let kinds = [
            (self.checksum, "wrong"),
            (self.parity, "wrong parity"),
            (self.io, "unreadable"),
            (self.stale, "outdated as expected"),
            (self.missing, "not read because the device is absent"),
        ];
        let mut first = true;
        for (n, word) in kinds.into_iter().filter(|(n, _)| *n > 0) {
            let comma = if first { "" } else { ", " };
            write!(f, "{comma}{n} places {word}")?;
            first = false;
        }
        write!(f, "; {} bytes in {} ranges", self.bytes, self.ranges.len())?;
        if let (Some(a), Some(b)) = (self.ranges.first(), self.ranges.last()) {
            write!(f, " from {:#x} to {:#x}", a.0, b.1)?;
        }
        write!(f, "; {} blocks repairable, {} lost", self.repairable, self.lost)
    }
}

/// Collects faults by device.
#[derive(Debug, Default)]
pub(crate) struct Damages(BTreeMap<u64, DeviceDamage>);

impl Damages {
    /// Adds the faults met with one block.
    pub(crate) fn add(&mut self, faults: &[Fault], lost: bool) {
        let mut blamed: Vec<u64> = Vec::new();
        for fault in faults.iter().filter(|f| !matches!(f.kind, FaultKind::Block(_))) {
            let d = self.0.entry(fault.guid).or_insert_with(|| DeviceDamage {
                vdev: fault.vdev,
                guid: fault.guid,
                path: Arc::clone(&fault.path),
                ..DeviceDamage::default()
            });
            let count = match fault.kind {
                FaultKind::Io(_) => &mut d.io,
                FaultKind::Checksum => &mut d.checksum,
                FaultKind::ParityMismatch => &mut d.parity,
                FaultKind::Missing => &mut d.missing,
                _ => &mut d.stale,
            };
            *count += 1;
            if fault.kind != FaultKind::Missing {
                d.bytes += fault.len;
                d.add_range(fault.offset, fault.offset.saturating_add(fault.len));
            }
            if !blamed.contains(&fault.guid) {
                blamed.push(fault.guid);
                if lost {
                    d.lost += 1;
                } else {
                    d.repairable += 1;
                }
            }
        }
    }

    /// Takes in what another thread found.
    pub(crate) fn merge(&mut self, other: Self) {
        for (guid, d) in other.0 {
            let mine = self.0.entry(guid).or_insert_with(|| DeviceDamage {
                vdev: d.vdev,
                guid,
                path: Arc::clone(&d.path),
                ..DeviceDamage::default()
            });
            mine.io += d.io;
            mine.checksum += d.checksum;
            mine.parity += d.parity;
            mine.missing += d.missing;
            mine.stale += d.stale;
            mine.bytes += d.bytes;
            mine.repairable += d.repairable;
            mine.lost += d.lost;
            for (a, b) in d.ranges {
                mine.add_range(a, b);
            }
        }
    }

    /// The devices with faults.
    pub(crate) fn finish(self) -> Vec<DeviceDamage> {
        let mut out: Vec<_> = self.0.into_values().collect();
        for d in &mut out {
            d.compact();
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(offset: u64, kind: FaultKind) -> Fault {
        let path = Arc::from("disk");
        Fault { vdev: 0, guid: 7, path, offset, len: 512, kind, repaired: true }
    }

    #[test]
    fn faults_of_a_device_are_one_damage() {
        let mut d = Damages::default();
        d.add(&[fault(512, FaultKind::Checksum), fault(1024, FaultKind::Checksum)], false);
        d.add(&[fault(8192, FaultKind::ParityMismatch)], false);
        d.add(&[fault(1 << 20, FaultKind::Checksum)], true);
        let all = d.finish();
        let [d] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((d.checksum, d.parity, d.repairable, d.lost), (3, 1, 2, 1));
        assert_eq!(d.ranges, [(512, 1536), (8192, 8704), (1 << 20, (1 << 20) + 512)]);
        assert!(!d.is_expected());
    }

    #[test]
    fn very_many_ranges_are_joined() {
        let mut d = Damages::default();
        for i in 0..50_000u64 {
            d.add(&[fault(i * 8192, FaultKind::Stale)], false);
        }
        let all = d.finish();
        assert!(all[0].ranges.len() <= RANGES_MAX);
        assert!(all[0].is_expected());
        assert_eq!(all[0].ranges.first().map(|r| r.0), Some(0));
    }
}
