//! Compares the space maps with the space of the blocks.
//!
//! Every metaslab has a space map; what changed since it was last written is in log space maps,
//! which cover all vdevs. Space that only the checkpoint holds is allocated too, and listed in a
//! space map of its own.

use crate::checkpoint::CheckpointBlocks;
use crate::claims::Claims;
use crate::issue::Issue;
use crate::lists::for_bytes;
use crate::sink::Sink;
use crate::space::Bitmap;
use dmu::{Object, Zap};
use ondisk::checkpoint;
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::mos::{self, vdev_zap};
use ondisk::spacemap::{self, Action, Entry, LOG_SHIFT, Range, SpaceMapHeader};
use ondisk::zap::parse_int_key;
use pool::Pool;
use std::collections::BTreeMap;

/// Allocated space of one vdev.
struct Vdev {
    id: u32,
    shift: u32,
    metaslab_shift: u32,
    /// Metaslabs begin at multiples of this: the row of a dRAID group, else one sector.
    align: u64,
    map: Bitmap,
    /// By metaslab, the first txg whose changes are not in its own map.
    unflushed: Vec<u64>,
}

impl Vdev {
    fn metaslab(&self, offset: u64) -> u64 {
        offset.checked_shr(self.metaslab_shift).unwrap_or(0)
    }
}

/// The contents of the space maps.
#[derive(Default)]
pub(crate) struct Compared {
    /// Bytes that are allocated.
    pub(crate) allocated: u64,
    /// Of these, what only the checkpoint holds.
    pub(crate) kept: u64,
    /// The allocated space, by vdev, but for that; as far as it could be read.
    pub(crate) maps: BTreeMap<u32, Bitmap>,
}

/// Compares; returns what the space maps say. Without a `complete` walk only what was
/// reached can be judged, not what was not. `of_checkpoint` is what the checkpoint's blocks take.
pub(crate) fn compare(
    pool: &Pool,
    claims: &Claims<'_>,
    of_checkpoint: Option<&CheckpointBlocks>,
    complete: bool,
    sink: &Sink,
) -> Compared {
    let mut vdevs = BTreeMap::new();
    for top in &pool.config().vdev_tree.children {
        if let Some(v) = load(pool, claims, top, sink) {
            vdevs.insert(v.id, v);
        }
    }
    if let Err(e) = apply_logs(pool, &vdevs, sink) {
        sink.put(Issue::Unopened { what: "the log space maps", cause: e.to_string() });
        let maps = vdevs.into_iter().map(|(id, v)| (id, v.map)).collect();
        return Compared { maps, ..Compared::default() };
    }
    let (mut allocated, mut kept) = (0, 0);
    for v in vdevs.values() {
        let size = v.map.size();
        allocated += v.map.count(0, size);
        let top = pool.config().vdev_tree.children.iter().find(|t| t.id == u64::from(v.id));
        let listed = Bitmap::new(v.shift, size);
        if let Some(Err(e)) = top.map(|t| checkpointed(pool, t, v, &listed)) {
            sink.put(Issue::Unopened { what: "a checkpoint's map", cause: e.to_string() });
            continue;
        }
        kept += listed.count(0, size);
        let Some(taken) = claims.taken(v.id) else { continue };
        // Space that is listed without a checkpoint has no owner; a checkpoint that is discarded
        // has no tree.
        let nothing;
        let own = match pool.features().count(checkpoint::FEATURE) {
            Some(0) => {
                nothing = Bitmap::new(v.shift, size);
                Some(&nothing)
            }
            _ => of_checkpoint.and_then(|k| k.taken(v.id)),
        };
        if let Some(own) = own {
            compare_checkpoint(v.id, own, taken, &listed, complete, sink);
        }
        for (from, to) in taken.minus(&v.map) {
            let (metaslab, offset, size) = (v.metaslab(from), from, to - from);
            sink.put(Issue::UsedButFree { vdev: v.id, metaslab, offset, size });
        }
        for (from, to) in v.map.minus(taken).into_iter().filter(|_| complete) {
            let (metaslab, offset, size) = (v.metaslab(from), from, to - from);
            sink.put(Issue::Leaked { vdev: v.id, metaslab, offset, size });
        }
    }
    let maps = vdevs.into_iter().map(|(id, v)| (id, v.map)).collect();
    Compared { allocated, kept, maps }
}

/// Loads the metaslabs' own maps.
fn load(pool: &Pool, claims: &Claims<'_>, top: &VdevConfig, sink: &Sink) -> Option<Vdev> {
    if matches!(top.kind, VdevKind::Indirect | VdevKind::Hole | VdevKind::Missing) {
        return None;
    }
    let id = u32::try_from(top.id).ok()?;
    let array = top.metaslab_array.filter(|n| *n != 0)?;
    let metaslab_shift = u32::try_from(top.metaslab_shift?).ok().filter(|s| (9..64).contains(s))?;
    let shift = top.ashift.unwrap_or(9) as u32;
    let size = claims.taken(id)?.size();
    let mut v = Vdev {
        id,
        shift,
        metaslab_shift,
        align: align_of(top),
        map: Bitmap::new(shift, size),
        unflushed: Vec::new(),
    };
    let bad = |metaslab, e: dmu::Error| {
        sink.put(Issue::SpaceMap { vdev: id, metaslab, cause: e.to_string() });
    };
    match unflushed_txgs(pool, top) {
        Ok(txgs) => v.unflushed = txgs,
        Err(e) => bad(0, e),
    }
    let numbers = pool.mos().object(array).and_then(|o| words(&o, size >> metaslab_shift));
    match numbers {
        Ok(numbers) => {
            for (i, number) in numbers.into_iter().enumerate().filter(|(_, n)| *n != 0) {
                if let Err(e) = metaslab(pool, &v, i as u64, number, sink) {
                    bad(i as u64, e);
                }
            }
        }
        Err(e) => bad(0, e),
    }
    Some(v)
}

/// On dRAID nothing is allocated across the ends of a group's rows, so metaslabs keep clear of them
/// and their maps count from the first whole row.
fn align_of(top: &VdevConfig) -> u64 {
    let sector = 1u64 << top.ashift.unwrap_or(9).clamp(9, 16);
    match top.kind {
        VdevKind::Draid { nparity, ndata, .. } => (u64::from(nparity) + u64::from(ndata)) * sector,
        _ => sector,
    }
}

/// The first `count` words of an object, as far as it has them.
fn words(object: &Object, count: u64) -> dmu::Result<Vec<u64>> {
    let len = count.saturating_mul(8).min(object.size_of_blocks());
    let mut out = Vec::new();
    let endian = object.dnode().endian;
    for_bytes(object, len, &mut |_, bytes| {
        out.extend(ondisk::bpobj::subobj_numbers(bytes, endian));
        Ok(())
    })?;
    Ok(out)
}

pub(crate) fn vdev_zap_of(pool: &Pool, top: &VdevConfig) -> dmu::Result<Option<Zap>> {
    match top.vdev_zap_top.filter(|n| *n != 0) {
        Some(n) => Zap::open(&pool.mos().object(n)?).map(Some),
        None => Ok(None),
    }
}

fn unflushed_txgs(pool: &Pool, top: &VdevConfig) -> dmu::Result<Vec<u64>> {
    let Some(zap) = vdev_zap_of(pool, top)? else { return Ok(Vec::new()) };
    match zap.get_u64(vdev_zap::METASLAB_UNFLUSHED_TXGS)?.filter(|n| *n != 0) {
        Some(n) => words(&pool.mos().object(n)?, u64::MAX),
        None => Ok(Vec::new()),
    }
}

/// Calls `each` with every range of a space map; returns its header.
pub(crate) fn ranges(
    object: &Object,
    start: u64,
    shift: u8,
    each: &mut dyn FnMut(&Range),
) -> dmu::Result<SpaceMapHeader> {
    let dnode = object.dnode();
    let bad = |e| object.format_error(0, e);
    let header = SpaceMapHeader::decode(&dnode.bonus, dnode.endian).map_err(bad)?;
    for_bytes(object, header.length, &mut |at, bytes| {
        for e in spacemap::entries(bytes, dnode.endian, start, shift) {
            if let Entry::Range(r) = e.map_err(|e| object.format_error(at, e))? {
                each(&r);
            }
        }
        Ok(())
    })?;
    Ok(header)
}

fn metaslab(pool: &Pool, v: &Vdev, index: u64, number: u64, sink: &Sink) -> dmu::Result<()> {
    let object = pool.mos().object(number)?;
    let begin = index << v.metaslab_shift;
    let end = begin.saturating_add(1 << v.metaslab_shift);
    let start = begin.checked_next_multiple_of(v.align).unwrap_or(begin);
    let header = ranges(&object, start, v.shift as u8, &mut |r| {
        let inside = r.offset >= start && r.offset.saturating_add(r.size) <= end;
        match inside {
            true => apply(v, r, sink),
            false => complain(v, r, "lies outside its metaslab", sink),
        }
    })?;
    let counted = v.map.count(start, end.min(v.map.size()));
    if i64::try_from(counted) != Ok(header.allocated) {
        let cause = format!("header says {} bytes allocated, entries {counted}", header.allocated);
        sink.put(Issue::SpaceMap { vdev: v.id, metaslab: index, cause });
    }
    Ok(())
}

fn complain(v: &Vdev, r: &Range, rule: &str, sink: &Sink) {
    let action = match r.action {
        Action::Alloc => "allocation",
        Action::Free => "freeing",
    };
    let cause = format!("{action} of {} bytes at {:#x} {rule}", r.size, r.offset);
    sink.put(Issue::SpaceMap { vdev: v.id, metaslab: v.metaslab(r.offset), cause });
}

fn apply(v: &Vdev, r: &Range, sink: &Sink) {
    let done = match r.action {
        Action::Alloc => v.map.set(r.offset, r.size),
        Action::Free => v.map.clear(r.offset, r.size),
    };
    match done {
        Ok(None) => {}
        Ok(Some(_)) if r.action == Action::Alloc => {
            complain(v, r, "allocates what is already allocated", sink);
        }
        Ok(Some(_)) => complain(v, r, "frees what is already free", sink),
        Err(misfit) => complain(v, r, misfit.text(), sink),
    }
}

/// Applies the log space maps, oldest first, to the metaslabs that have not taken them in.
fn apply_logs(pool: &Pool, vdevs: &BTreeMap<u32, Vdev>, sink: &Sink) -> dmu::Result<()> {
    let Some(n) = pool.directory()?.get_u64(mos::LOG_SPACEMAP_ZAP)?.filter(|n| *n != 0) else {
        return Ok(());
    };
    let mut logs = BTreeMap::new();
    for e in Zap::open(&pool.mos().object(n)?)?.entries() {
        let e = e?;
        let key = e.name.bytes().and_then(|b| std::str::from_utf8(b).ok()).and_then(parse_int_key);
        if let (Some(txg), Some(object)) = (key, e.u64()) {
            logs.insert(txg, object);
        }
    }
    for (txg, number) in logs {
        let object = pool.mos().object(number)?;
        ranges(&object, 0, LOG_SHIFT, &mut |r| {
            // Entries of vdevs that were removed since mean nothing any more.
            let Some(v) = r.vdev.and_then(|id| vdevs.get(&id)) else { return };
            let metaslab = v.metaslab(r.offset);
            let since = usize::try_from(metaslab).ok().and_then(|i| v.unflushed.get(i));
            if since.is_none_or(|since| txg >= *since) {
                apply(v, r, sink);
            }
        })?;
    }
    Ok(())
}

/// Moves what only the checkpoint holds from a vdev's map to `listed`.
fn checkpointed(pool: &Pool, top: &VdevConfig, v: &Vdev, listed: &Bitmap) -> dmu::Result<()> {
    let Some(zap) = vdev_zap_of(pool, top)? else { return Ok(()) };
    let Some(n) = zap.get_u64(vdev_zap::CHECKPOINT_SPACE_MAP)?.filter(|n| *n != 0) else {
        return Ok(());
    };
    ranges(&pool.mos().object(n)?, 0, v.shift as u8, &mut |r| {
        // The map lists frees that were put off.
        if r.action == Action::Free && v.map.clear(r.offset, r.size) == Ok(None) {
            // It fitted into the other map, which is as large.
            let _ = listed.set(r.offset, r.size);
        }
    })?;
    Ok(())
}

/// Judges what is `listed` as the checkpoint's alone, given what it and the pool take.
fn compare_checkpoint(
    vdev: u32,
    own: &Bitmap,
    pools: &Bitmap,
    listed: &Bitmap,
    complete: bool,
    sink: &Sink,
) {
    for (from, to) in listed.minus(own) {
        let (offset, size) = (from, to - from);
        sink.put(Issue::CheckpointSpace { vdev, offset, size, listed: true });
    }
    for (from, to) in own.minus(pools).into_iter().filter(|_| complete) {
        for (offset, size) in listed.gaps(from, to) {
            sink.put(Issue::CheckpointSpace { vdev, offset, size, listed: false });
        }
    }
}
