//! Space as datasets account for it.

use ondisk::bpobj::Space;
use ondisk::{BlkPtr, EmbeddedKind};
use pool::Pool;

/// Space of a block.
#[must_use]
pub fn space_of(pool: &Pool, bp: &BlkPtr) -> Space {
    let embedded = bp.is_embedded();
    let stored = if embedded { 0 } else { bp.psize() };
    let is_meta = bp.level() > 0 || bp.dmu_type().is_metadata();
    let full = match () {
        () if is_meta => stored,
        () if embedded && bp.embedded_kind() != EmbeddedKind::Data => 0,
        () => bp.lsize(),
    };
    Space { used: pool.dsize(bp), compressed: stored, uncompressed: full }
}
