//! The heads whose intent logs are looked at when a pool is opened for writing.

use crate::open::Pool;
use dmu::Objset;

/// The object sets of all heads that have one which can be read. Others are obstacles, and have
/// kept the pool from being opened when they had to.
pub(super) fn readable_heads(pool: &Pool) -> impl Iterator<Item = (String, Objset)> {
    pool.dsl().datasets().into_iter().filter_map(|(name, dataset)| {
        let dataset = dataset.ok().filter(|d| !d.is_snapshot() && !d.phys.bp.is_hole())?;
        Some((name, pool.dsl().objset(&dataset).ok()?))
    })
}
