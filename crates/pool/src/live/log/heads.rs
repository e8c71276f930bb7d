//! The heads whose intent logs are looked at when a pool is opened for writing.

use crate::open::Pool;
use dmu::Objset;
use zil::Log;

/// The log of this object set is encrypted, and the key is not there.
pub(super) fn is_locked(objset: &Objset) -> bool {
    objset.key().is_none() && objset.phys().zil.log.is_encrypted()
}

/// The log of an object set, as far as it can be read without its key when it is locked. `synced`:
/// see [`Log::read_after`].
pub(super) fn read_log(objset: &Objset, synced: Option<u64>) -> Log {
    match (is_locked(objset), synced) {
        (false, None) => Log::read(objset),
        (false, Some(synced)) => Log::read_after(objset, synced),
        (true, None) => Log::read_locked(objset),
        (true, Some(synced)) => Log::read_locked_after(objset, synced),
    }
}

/// The object sets of all heads that have one which can be read. Others are obstacles, and have
/// kept the pool from being opened when they had to.
pub(super) fn readable_heads(pool: &Pool) -> impl Iterator<Item = (String, Objset)> {
    pool.dsl().datasets().into_iter().filter_map(|(name, dataset)| {
        let dataset = dataset.ok().filter(|d| !d.is_snapshot() && !d.phys.bp.is_hole())?;
        Some((name, pool.dsl().objset(&dataset).ok()?))
    })
}
