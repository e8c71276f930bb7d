//! Blocks that nothing points to any more and that are still allocated: their freeing is put off.
//!
//! Frees of the last txg wait for the next one, those of destroyed snapshots and clones are done in
//! the background. Until then the lists they wait in are what holds the space.

use crate::issue::{Issue, Location};
use crate::lists;
use crate::sets;
use crate::totals::{BlockKind, Totals};
use crate::walk::{Set, Walk};
use dmu::{Objset, Zap};
use ondisk::bpobj::bptree::{self, BptreeHeader};
use ondisk::errlog::Zbookmark;
use ondisk::mos;
use ondisk::zap::parse_int_key;
use std::collections::HashSet;
use std::sync::Arc;
use zio::Place;

/// Destroyed datasets whose blocks are still to be freed.
#[derive(Default)]
pub(crate) struct Destroyed {
    /// To be walked like other object sets.
    pub(crate) sets: Vec<Arc<Set>>,
    /// The freeing of one has begun, so that part of its tree is gone: it is left out, and what is
    /// allocated and not reached cannot be judged.
    pub(crate) is_begun: bool,
}

/// Counts all blocks in lists, and returns the destroyed datasets that are still to be walked.
pub(crate) fn count(walk: &Walk<'_>, totals: &mut Totals) -> Destroyed {
    let mut destroyed = Destroyed::default();
    let found = all(walk, totals, &mut destroyed);
    if let Err(e) = found {
        let what = "a list of deferred frees";
        walk.sink.put(Issue::Unopened { what, cause: e.to_string() });
    }
    destroyed
}

fn all(walk: &Walk<'_>, totals: &mut Totals, out: &mut Destroyed) -> dmu::Result<()> {
    let dir = walk.pool.directory()?;
    for name in [mos::SYNC_BPOBJ, mos::FREE_BPOBJ] {
        if let Some(object) = dir.get_u64(name)?.filter(|n| *n != 0) {
            list(walk, object, totals)?;
        }
    }
    if let Some(object) = dir.get_u64(mos::BPTREE_OBJ)?.filter(|n| *n != 0) {
        destroyed(walk.pool.mos(), object, out)?;
    }
    if let Some(object) = dir.get_u64(mos::DELETED_CLONES)?.filter(|n| *n != 0) {
        for e in Zap::open(&walk.pool.mos().object(object)?)?.entries() {
            if let Some(n) = e?.name.bytes().and_then(int_of) {
                livelist(walk, n, totals)?;
            }
        }
    }
    Ok(())
}

fn int_of(name: &[u8]) -> Option<u64> {
    parse_int_key(std::str::from_utf8(name).ok()?)
}

fn at(object: u64) -> Location {
    Location { dataset: Arc::from("MOS"), place: Place { objset: 0, object, level: 0, blkid: 0 } }
}

fn list(walk: &Walk<'_>, object: u64, totals: &mut Totals) -> dmu::Result<()> {
    lists::for_each(walk.pool.mos(), object, &mut |e| {
        walk.count(&e.0, BlockKind::DeferredFree, &|| at(object), totals);
    })?;
    Ok(())
}

fn destroyed(mos: &Objset, object: u64, out: &mut Destroyed) -> dmu::Result<()> {
    let object = mos.object(object)?;
    let dnode = object.dnode();
    let bad = |e| object.format_error(0, e);
    let header = BptreeHeader::decode(&dnode.bonus, dnode.endian).map_err(bad)?;
    for index in header.begin..header.end {
        let mut bytes = [0; bptree::BptreeEntry::SIZE];
        let offset = index.saturating_mul(bptree::BptreeEntry::SIZE as u64);
        if offset >= object.size_of_blocks() {
            return Err(object.error(dmu::ErrorKind::Tree("a queue is longer than its object")));
        }
        object.read_at(offset, &mut bytes)?;
        let entry = bptree::entry(&bytes, index, index, dnode.endian).map_err(bad)?;
        if entry.bookmark == Zbookmark::default() {
            out.sets.push(Arc::new(sets::destroyed(entry.bp, entry.birth_txg)));
        } else {
            out.is_begun = true;
        }
    }
    Ok(())
}

/// Blocks of a destroyed clone that are still allocated: those allocated and not freed after.
fn livelist(walk: &Walk<'_>, object: u64, totals: &mut Totals) -> dmu::Result<()> {
    let mos = walk.pool.mos();
    for e in Zap::open(&mos.object(object)?)?.entries() {
        let Some(sub) = e?.u64() else { continue };
        let mut live = Vec::new();
        let mut freed = HashSet::new();
        lists::for_each(mos, sub, &mut |e| {
            let key = (e.0.dva(0), e.0.logical_birth());
            if e.is_freed() {
                freed.insert(key);
            } else {
                live.push(e.0);
            }
        })?;
        live.retain(|bp| !freed.contains(&(bp.dva(0), bp.logical_birth())));
        for bp in live {
            walk.count(&bp, BlockKind::DeferredFree, &|| at(sub), totals);
        }
    }
    Ok(())
}
