//! Mappings of removed vdevs against the blocks that still need them, and removals under way.
//!
//! A mapping entry says where a range of the removed vdev is now. Of what no block refers to any
//! more a count is kept for every entry, as far as the last condensing knew, and a space map for
//! what came later; both together must be the bytes of the entry that the walk did not meet. Pools
//! that were made before the counts, and entries from the time of a removal with such a pool, have
//! counts that are too low; a mark tells which are exact.

use crate::claims::{Claims, Mapping};
use crate::issue::Issue;
use crate::lists::for_bytes;
use crate::sink::Sink;
use crate::space::Bitmap;
use crate::spacemaps::{ranges, vdev_zap_of};
use ondisk::config::VdevConfig;
use ondisk::indirect::{CondensingState, MappingEntry, obsolete_counts};
use ondisk::mos::{self, vdev_zap};
use ondisk::scan::State;
use ondisk::spacemap::Action;
use pool::Pool;
use std::collections::BTreeMap;

/// Obsolete space maps count in bytes, not in sectors of the vdev.
const OBSOLETE_SHIFT: u8 = 0;

/// Ranges of removed vdevs: first byte and the byte behind, in order, by vdev.
pub(crate) type VdevRanges = BTreeMap<u32, Vec<(u64, u64)>>;

/// Judges all mappings. Without a `complete` walk what is obsolete is not known. What is to be
/// recorded as obsolete of the vdevs of which something else is.
pub(crate) fn audit(pool: &Pool, claims: &Claims<'_>, complete: bool, sink: &Sink) -> VdevRanges {
    let mut out = VdevRanges::new();
    for (vdev, mapping) in claims.removed().chain(claims.removing()) {
        header(vdev, mapping, sink);
    }
    under_way(pool, claims, sink);
    for (vdev, mapping) in claims.removed().filter(|_| complete) {
        let top = pool.config().vdev_tree.children.iter().find(|t| t.id == u64::from(vdev));
        let Some(top) = top else { continue };
        match obsolete(pool, top, vdev, mapping, sink) {
            Ok(true) => {}
            Ok(false) => _ = out.insert(vdev, unused(mapping)),
            Err(e) => {
                let what = "the obsolete space of a removed vdev";
                sink.put(Issue::Unopened { what, cause: e.to_string() });
            }
        }
    }
    out
}

/// What of the mapping no block refers to.
fn unused(mapping: &Mapping) -> Vec<(u64, u64)> {
    let all = Bitmap::like(&mapping.used);
    for entry in &mapping.entries {
        // The set ends with the last entry.
        let _ = all.set(entry.src, entry.size());
    }
    all.minus(&mapping.used)
}

/// Checks the sums in the header.
fn header(vdev: u32, mapping: &Mapping, sink: &Sink) {
    let entries = &mapping.entries;
    let bytes = entries.iter().fold(0u64, |sum, e| sum.saturating_add(e.size()));
    let end = entries.last().map_or(0, MappingEntry::src_end);
    let pairs =
        [("maps", mapping.header.bytes_mapped, bytes), ("ends at", mapping.header.max_offset, end)];
    for (what, stored, counted) in pairs {
        if stored != counted {
            let cause = format!("its mapping {what} {counted}, the header says {stored}");
            sink.put(Issue::Removal { vdev: vdev.into(), cause });
        }
    }
}

/// The record of the last removal against the configuration.
fn under_way(pool: &Pool, claims: &Claims<'_>, sink: &Sink) {
    let state = match pool.removal() {
        Ok(Some(r)) => r.state,
        Ok(None) => return,
        Err(e) => {
            let what = "the state of a removal";
            return sink.put(Issue::Unopened { what, cause: e.to_string() });
        }
    };
    let tops = &pool.config().vdev_tree.children;
    let put = |vdev, cause: &str| sink.put(Issue::Removal { vdev, cause: cause.to_owned() });
    if state.state() != State::Active {
        for top in tops.iter().filter(|t| t.removing) {
            put(top.id, "is marked as being removed, but no removal is recorded as under way");
        }
        return;
    }
    match tops.iter().find(|t| t.id == state.vdev) {
        Some(top) if top.removing => {}
        _ => put(state.vdev, "is recorded as being removed, but not marked so"),
    }
    if state.copied > state.to_copy {
        put(state.vdev, "more is recorded as copied than was to be copied");
    }
    let mut vdevs = claims.removing().map(|(id, _)| u64::from(id));
    if vdevs.any(|id| id != state.vdev) {
        put(state.vdev, "another vdev has the mapping of a removal that is under way");
    }
}

/// Counts and space maps of one removed vdev against the walk. False: they are wrong, and may be
/// made anew.
fn obsolete(
    pool: &Pool,
    top: &VdevConfig,
    vdev: u32,
    mapping: &Mapping,
    sink: &Sink,
) -> dmu::Result<bool> {
    let mut counts = Vec::new();
    if let Some(n) = mapping.header.counts_object.filter(|n| *n != 0) {
        let object = pool.mos().object(n)?;
        let len = (mapping.entries.len() as u64).saturating_mul(4);
        let endian = object.dnode().endian;
        // An object that is shorter ends in counts of zero.
        for_bytes(&object, len.min(object.size_of_blocks()), &mut |at, bytes| {
            counts.extend(obsolete_counts(bytes, endian).map_err(|e| object.format_error(at, e))?);
            Ok(())
        })?;
    }
    let listed = Bitmap::new(9, mapping.used.size());
    let zap = vdev_zap_of(pool, top)?;
    let of = |key| zap.as_ref().map_or(Ok(None), |z| z.get_u64(key));
    let mut maps = vec![of(vdev_zap::INDIRECT_OBSOLETE_SPACE_MAP)?];
    let precise = of(vdev_zap::OBSOLETE_COUNTS_PRECISE)?.is_some_and(|n| n != 0);
    if let Some(entry) = pool.directory()?.get(mos::CONDENSING_INDIRECT.as_bytes())? {
        let words: Vec<u64> = entry.ints().collect();
        if let Ok(state) = CondensingState::from_words(&words) {
            // The map that is being merged into a new mapping still counts for the old one.
            maps.push((state.vdev == top.id).then_some(state.prev_obsolete_sm));
        }
    }
    // What a condensing is merging stays as it is.
    let is_condensing = maps.iter().skip(1).any(Option::is_some);
    let mut is_right = true;
    for number in maps.into_iter().flatten().filter(|n| *n != 0) {
        ranges(&pool.mos().object(number)?, 0, OBSOLETE_SHIFT, &mut |r| {
            let odd = match (r.action, listed.set(r.offset, r.size)) {
                (Action::Alloc, Ok(None)) => return,
                (Action::Alloc, Ok(Some(_))) => "is listed as obsolete twice",
                (Action::Alloc, Err(misfit)) => misfit.text(),
                (Action::Free, _) => "cannot be used again",
            };
            is_right = false;
            let cause = format!("{} bytes at {:#x}: {odd}", r.size, r.offset);
            sink.put(Issue::Removal { vdev: vdev.into(), cause });
        })?;
    }
    for (i, e) in mapping.entries.iter().enumerate() {
        let count = counts.get(i).map_or(0, |c| u64::from(*c));
        let stored = count.saturating_add(listed.count(e.src, e.src_end()));
        let counted = e.size().saturating_sub(mapping.used.count(e.src, e.src_end()));
        if stored > counted || (precise && stored != counted) {
            is_right = false;
            sink.put(Issue::Obsolete { vdev, offset: e.src, stored, counted });
        }
    }
    Ok(is_right || is_condensing)
}
