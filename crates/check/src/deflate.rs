//! Space as datasets account for it.
//!
//! Space on RAID-Z is accounted *deflated*: allocated bytes times the share that a block of 128 KiB
//! leaves for data, so that a dataset does not seem larger than what was written to it. The share
//! is a number of 512ths, rounded down, made for the vdev's original width. Pools whose object
//! directory does not have the flag `deflate`, made with version 1 or 2, account raw bytes.

use ondisk::bpobj::Space;
use ondisk::{BlkPtr, EmbeddedKind};
use pool::Pool;

/// The block for which the share is made.
const TYPICAL_BLOCK: u64 = 128 << 10;
const SECTOR: u64 = 512;

/// Deflated bytes of all copies.
pub(crate) fn deflated(pool: &Pool, bp: &BlkPtr) -> u64 {
    let mut sum = 0u64;
    for (_, dva) in bp.dvas() {
        if !pool.deflates() {
            sum = sum.saturating_add(dva.asize());
            continue;
        }
        let typical = pool.vdevs().psize_to_asize(dva.vdev(), TYPICAL_BLOCK, 0);
        let ratio = match typical.map(|a| a / SECTOR) {
            Some(sectors) if sectors > 0 => TYPICAL_BLOCK / sectors,
            _ => SECTOR,
        };
        sum = sum.saturating_add((dva.asize() / SECTOR).saturating_mul(ratio));
    }
    sum
}

/// Space of a block.
pub(crate) fn space_of(pool: &Pool, bp: &BlkPtr) -> Space {
    let embedded = bp.is_embedded();
    let stored = if embedded { 0 } else { bp.psize() };
    let is_meta = bp.level() > 0 || bp.dmu_type().is_metadata();
    let full = match () {
        () if is_meta => stored,
        () if embedded && bp.embedded_kind() != EmbeddedKind::Data => 0,
        () => bp.lsize(),
    };
    Space { used: deflated(pool, bp), compressed: stored, uncompressed: full }
}
