//! Space as datasets count it.
//!
//! Parity and padding of RAID-Z are not counted: space is *deflated*, raw bytes times the share
//! that a block of 128 KiB leaves for data, so that a dataset does not seem larger than what was
//! written to it. The share is a number of 512ths, rounded down, and stays what it was for the
//! width with which the vdev was made, though blocks written after an expansion take less.

use crate::VdevTree;
use ondisk::BlkPtr;

const SECTOR: u64 = 512;
/// The block whose share counts, in bytes.
const TYPICAL_BLOCK: u64 = 128 << 10;

/// How many 512ths of raw bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateRatio(u64);

impl DeflateRatio {
    /// All bytes count.
    pub const WHOLE: Self = Self(SECTOR);

    /// That of a vdev where blocks of a size, born in a txg, take `asize(size, txg)` bytes.
    pub fn of(asize: impl FnOnce(u64, u64) -> u64) -> Self {
        let sectors = asize(TYPICAL_BLOCK, 0) / SECTOR;
        TYPICAL_BLOCK.checked_div(sectors).map_or(Self::WHOLE, Self)
    }

    /// Bytes that all copies of a block take as datasets count them; `of` is the ratio of a
    /// top-level vdev.
    pub fn dsize(bp: &BlkPtr, of: impl Fn(u32) -> Self) -> u64 {
        let counted = bp.dvas().map(|(_, dva)| of(dva.vdev()).deflate(dva.asize()));
        counted.fold(0, u64::saturating_add)
    }

    /// The deflated size of raw bytes.
    #[must_use]
    pub fn deflate(self, raw_bytes: u64) -> u64 {
        (raw_bytes / SECTOR).saturating_mul(self.0)
    }
}

impl Default for DeflateRatio {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl VdevTree {
    /// That of a top-level vdev; of one that holds nothing all bytes count.
    #[must_use]
    pub fn deflate_ratio(&self, vdev: u32) -> DeflateRatio {
        DeflateRatio::of(|size, birth| self.psize_to_asize(vdev, size, birth).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_raw_bytes_counts() {
        // RAID-Z1 over three disks: 256 sectors of data and 128 of parity.
        let raidz = DeflateRatio::of(|size, _| size / 2 * 3);
        assert_eq!(raidz, DeflateRatio(341));
        assert_eq!(raidz.deflate(192 << 10), 384 * 341);
        assert_eq!(DeflateRatio::of(|size, _| size).deflate(4096), 4096);
        assert_eq!(DeflateRatio::of(|_, _| 0), DeflateRatio::WHOLE);
        assert_eq!(DeflateRatio(600).deflate(u64::MAX), u64::MAX);
    }
}
