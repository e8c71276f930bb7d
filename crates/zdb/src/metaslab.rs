//! `zdb -m`: metaslabs, their space maps, and the logs of space maps.
//!
//! | level | what is said of a metaslab |
//! | --- | --- |
//! | 1 | place, space map, free space |
//! | 2 | histogram of free segments on disk, fragmentation |
//! | 3 | free segments as they are after replaying the logs, entries of the space maps |
//!
//! A metaslab's own space map lags behind: the last txgs are in logs that all metaslabs share.
//! An object of the vdev says for each metaslab from which txg on the logs count.

use super::dump::Dump;
use super::roles::{number_table, words};
use super::spacemap::{self, RangeSet};
use super::{data, show, uber};
use crate::{Error, Result};
use engine::Pool;
use engine::inside::dmu::{Object, Zap};
use engine::inside::ondisk::config::{VdevConfig, VdevKind};
use engine::inside::ondisk::indirect::{BirthsHeader, MappingHeader};
use engine::inside::ondisk::mos;
use engine::inside::ondisk::mos::vdev_zap;
use engine::inside::ondisk::spacemap::{Entry, HISTOGRAM_BUCKETS, Range};
use serde_json::json;
use std::collections::HashMap;

/// How fragmented space is that lies in segments of 512 bytes and each doubling, in percent.
const FRAGMENTATION: [u64; 21] =
    [100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50, 43, 36, 29, 23, 17, 12, 7, 3, 1, 0];

/// Entries of the logs, by vdev, each with its txg.
type Logs = HashMap<u32, Vec<(u64, Range)>>;

/// Prints the metaslabs of a pool, or of the vdev and the metaslabs that `which` names.
pub(crate) fn dump(d: &mut Dump, pool: &Pool, level: u8, which: &[String]) -> Result<()> {
    let usage = || Error::Usage("-m wants POOL [VDEV [METASLAB…]]".to_owned());
    let numbers: Option<Vec<u64>> = which.iter().map(|w| w.parse().ok()).collect();
    let numbers = numbers.ok_or_else(usage)?;
    let (vdev, metaslabs) = match numbers.split_first() {
        Some((v, m)) => (Some(*v), m),
        None => (None, &[][..]),
    };
    d.note("\nMetaslabs:");
    let mut logs = Logs::new();
    let lists = log_maps(d, pool);
    if level >= 3 {
        for (txg, object) in &lists {
            read_log(d, object, *txg, &mut logs);
        }
    }
    for top in &pool.config().vdev_tree.children {
        if vdev.is_some_and(|v| v != top.id) {
            continue;
        }
        one_vdev(d, pool, top, level, metaslabs, &logs);
    }
    if which.is_empty() {
        dirty_times(d, pool, level);
        log_space_maps(d, pool, &lists, level);
        if let Some(ub) = uber::checkpointed(d, pool) {
            d.note("Checkpointed uberblock found:");
            d.open_one("checkpoint");
            d.indent();
            uber::fields(d, &ub);
            d.outdent();
            d.close_flat();
        }
    }
    Ok(())
}

fn log_maps(d: &mut Dump, pool: &Pool) -> Vec<(u64, Object)> {
    let Some(directory) = d.keep("object directory", pool.directory()) else { return Vec::new() };
    let zap = d.keep("", directory.get_u64(mos::LOG_SPACEMAP_ZAP)).flatten().unwrap_or(0);
    let mut out = Vec::new();
    for (txg, number) in number_table(pool.mos(), zap) {
        if let Some(o) = d.keep("log space map", pool.mos().object(number)) {
            out.push((txg, o));
        }
    }
    out
}

fn read_log(d: &mut Dump, object: &Object, txg: u64, logs: &mut Logs) {
    spacemap::walk(d, object, 0, engine::inside::ondisk::spacemap::LOG_SHIFT, &mut |_, _, e| {
        if let Entry::Range(r) = e
            && let Some(v) = r.vdev
        {
            logs.entry(v).or_default().push((txg, r));
        }
    });
}

fn one_vdev(d: &mut Dump, pool: &Pool, top: &VdevConfig, level: u8, which: &[u64], logs: &Logs) {
    if matches!(top.kind, VdevKind::Hole | VdevKind::Missing) {
        return;
    }
    let id = top.id;
    d.open_flat("vdevs");
    d.hold("vdev", id);
    let bias = top.alloc_bias.as_ref().map_or_else(String::new, |word| format!("   {word}"));
    let zap = top.vdev_zap_top.and_then(|n| d.keep("vdev ZAP", pool.mos().object(n)));
    let zap = zap.and_then(|o| d.keep("vdev ZAP", Zap::open(&o)));
    let named = |d: &mut Dump, key: &str| {
        let entry = zap.as_ref().and_then(|z| d.keep(key, z.get_u64(key)).flatten());
        entry.filter(|n| *n != 0).and_then(|n| d.keep(key, pool.mos().object(n)))
    };
    let unflushed = named(d, vdev_zap::METASLAB_UNFLUSHED_TXGS);
    let note = unflushed
        .as_ref()
        .map_or_else(String::new, |o| format!("      ms_unflushed_phys object {}", o.number()));
    d.note(format_args!("\tvdev {id:10}{bias}{note}"));
    let txgs: Vec<u64> = unflushed.iter().flat_map(words).collect();
    metaslabs(d, pool, top, level, which, &txgs, logs);
    removed(d, pool, top, level);
    if level >= 1 {
        for (key, title) in [
            (vdev_zap::CHECKPOINT_SPACE_MAP, "Checkpoint space map"),
            (vdev_zap::INDIRECT_OBSOLETE_SPACE_MAP, "Obsolete space map"),
        ] {
            let Some(o) = named(d, key) else { continue };
            d.open_flat("other_maps");
            d.field("name", title, format_args!("\t{title}:"));
            map(d, &o, 0, top.ashift.unwrap_or(9) as u8, level);
            d.close_flat();
        }
    }
    d.close_flat();
}

fn metaslabs(
    d: &mut Dump,
    pool: &Pool,
    top: &VdevConfig,
    level: u8,
    which: &[u64],
    txgs: &[u64],
    logs: &Logs,
) {
    let number = top.metaslab_array.unwrap_or(0);
    let shift = top.metaslab_shift.unwrap_or(0) as u32;
    if number == 0 || shift == 0 {
        return;
    }
    let Some(array) = d.keep("metaslab array", pool.mos().object(number)) else { return };
    let count = top.asize.unwrap_or(0).checked_shr(shift).unwrap_or(0);
    // The array may be shorter than the vdev: metaslabs never used have no place in it.
    let room = array.size_of_blocks() / 8;
    let objects = words(&array).chain(std::iter::repeat(0));
    d.hold("array", number);
    d.hold("count", count);
    d.note(format_args!(
        "\tmetaslabs {count:5}   offset                spacemap          free        "
    ));
    d.note("\t---------------   -------------------   ---------------   ------------");
    let mut totals = [0u64; HISTOGRAM_BUCKETS + 64];
    for (i, object) in (0..count).zip(objects) {
        if i >= room && !which.is_empty() && !which.contains(&i) {
            break;
        }
        if !which.is_empty() && !which.contains(&i) {
            continue;
        }
        let m = Metaslab { index: i, shift, object, unflushed: txgs.get(i as usize).copied() };
        one(d, pool, top, &m, level, logs, &mut totals);
    }
    if level >= 2 {
        let title = format!("\tvdev {}\t\tfragmentation {}", top.id, percent(&totals));
        d.note(title);
        d.hold("fragmentation", percent(&totals));
        show::histogram(d, "histogram", &totals, 0);
        d.blank();
    }
}

/// One metaslab.
struct Metaslab {
    index: u64,
    shift: u32,
    object: u64,
    unflushed: Option<u64>,
}

/// Fragmentation of free space by a histogram of bytes, bucket `i` for segments of `2^i`.
pub(crate) fn percent(buckets: &[u64]) -> u64 {
    let (mut total, mut weighted) = (0u128, 0u128);
    for (i, n) in buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
        let place = i.saturating_sub(9).min(FRAGMENTATION.len() - 1);
        let space = u128::from(*n) << i.min(63);
        total += space;
        weighted += space * u128::from(FRAGMENTATION.get(place).copied().unwrap_or(0));
    }
    weighted.checked_div(total).unwrap_or(0) as u64
}

fn one(
    d: &mut Dump,
    pool: &Pool,
    top: &VdevConfig,
    m: &Metaslab,
    level: u8,
    logs: &Logs,
    totals: &mut [u64],
) {
    let (start, size) = (m.index << m.shift, 1u64 << m.shift);
    let object = match m.object {
        0 => None,
        n => d.keep("space map", pool.mos().object(n)),
    };
    let header = object.as_ref().map(spacemap::header);
    let header = header.and_then(|h| d.keep("space map", h));
    let allocated = header.as_ref().map_or(0, |h| h.allocated);
    let free = size.saturating_add_signed(allocated.wrapping_neg());
    d.open_flat("metaslabs");
    for (k, n) in [("metaslab", m.index), ("offset", start), ("size", size), ("spacemap", m.object)]
    {
        d.hold(k, n);
    }
    d.hold("free", free);
    let nice = d.nice(free);
    d.note(format_args!(
        "\tmetaslab {:6}   offset {start:12x}   spacemap {:6}   free    {nice:>5}",
        m.index, m.object
    ));
    let ashift = top.ashift.unwrap_or(9) as u8;
    if level >= 3 {
        let log = logs.get(&u32::try_from(top.id).unwrap_or(u32::MAX));
        maps(d, object.as_ref(), m, ashift, log.map_or(&[][..], Vec::as_slice));
    }
    if let Some(h) = header.as_ref().and_then(|h| h.histogram.as_ref()) {
        let shifted = |h: &[u64; 32]| {
            let mut out = [0u64; HISTOGRAM_BUCKETS + 64];
            for (slot, n) in out.iter_mut().skip(ashift.into()).zip(h) {
                *slot = *n;
            }
            out
        };
        let shifted = shifted(h);
        for (t, n) in totals.iter_mut().zip(shifted) {
            *t = t.saturating_add(n);
        }
        d.hold("fragmentation", percent(&shifted));
        if level >= 2 {
            let frag = percent(&shifted);
            d.note(format_args!("\tOn-disk histogram:\t\tfragmentation {frag}"));
            show::histogram(d, "histogram", h, ashift.into());
        }
    }
    if let Some(o) = &object {
        map(d, o, start, ashift, level);
    }
    if let Some(txg) = m.unflushed {
        d.field("unflushed_txg", txg, format_args!("\tFlush data:\n\tunflushed txg={txg}\n"));
    }
    d.close_flat();
}

/// The free space of a metaslab as its own space map says it, and with what the logs change.
fn maps(d: &mut Dump, object: Option<&Object>, m: &Metaslab, ashift: u8, log: &[(u64, Range)]) {
    let (start, size) = (m.index << m.shift, 1u64 << m.shift);
    let txg = m.unflushed.unwrap_or(0);
    let mut set = replay(d, object, start, size, ashift);
    d.open_one("own_map");
    in_memory(d, &set, size, "In-memory histogram:");
    d.close_flat();
    let inside = |r: &Range| r.offset >= start && r.offset < start.saturating_add(size);
    let mut pending = log.iter().filter(|(t, r)| *t >= txg && inside(r)).peekable();
    if pending.peek().is_some() {
        pending.for_each(|(_, r)| set.apply(r));
        d.open_one("with_logs");
        in_memory(d, &set, size, "Histogram with what the logs change:");
        d.close_flat();
    }
}

/// The free space that a metaslab's own space map says.
fn replay(d: &mut Dump, object: Option<&Object>, start: u64, size: u64, ashift: u8) -> RangeSet {
    let mut set = RangeSet::default();
    set.add(start, start.saturating_add(size));
    if let Some(o) = object {
        spacemap::walk(d, o, start, ashift, &mut |_, _, e| {
            if let Entry::Range(r) = e {
                set.apply(&r);
            }
        });
    }
    set
}

fn in_memory(d: &mut Dump, set: &RangeSet, size: u64, title: &str) {
    let (n, largest, free) = (set.len(), set.largest(), set.total());
    let percent = free.saturating_mul(100) / size.max(1);
    d.hold("segments", n);
    d.hold("largest", largest);
    d.hold("free", free);
    let max = d.nice(largest);
    d.note(format_args!(
        "\t                  segments {n:10}   maxsize {max:>5}   freepct {percent:4}%"
    ));
    d.note(format_args!("\t{title}"));
    show::histogram(d, "histogram", &set.histogram(), 0);
}

/// A space map: its header, at level 3 its entries.
fn map(d: &mut Dump, object: &Object, start: u64, shift: u8, level: u8) {
    let header = spacemap::header(object);
    let Some(h) = d.keep("space map", header) else { return };
    d.open_one("map");
    d.hold("object", object.number());
    d.hold("allocated", h.allocated);
    d.note(format_args!("space map object {}:", object.number()));
    d.field("length", h.length, format_args!("  smp_length = {:#x}", h.length));
    d.note(format_args!("  smp_alloc = {:#x}", h.allocated));
    if level >= 3 {
        spacemap::entries(d, object, start, shift);
    }
    d.close_flat();
}

/// Where the blocks of a removed vdev are now.
fn removed(d: &mut Dump, pool: &Pool, top: &VdevConfig, level: u8) {
    let births = top.indirect_births.and_then(|n| d.keep("births", pool.mos().object(n)));
    if let Some(o) = births {
        d.note(format_args!("indirect births obj {}:", o.number()));
        let dnode = o.dnode();
        if let Some(h) = d.keep("births", BirthsHeader::decode(&dnode.bonus, dnode.endian)) {
            d.field("vib_count", h.count, format_args!("    vib_count = {}", h.count));
            data::births(d, &o);
        }
    }
    let mapping = top.indirect_object.and_then(|n| d.keep("mapping", pool.mos().object(n)));
    let Some(o) = mapping else { return };
    d.note(format_args!("indirect mapping obj {}:", o.number()));
    let dnode = o.dnode();
    let header = MappingHeader::decode(&dnode.bonus, dnode.endian);
    let Some(h) = d.keep("mapping", header) else { return };
    d.hex("vim_max_offset", h.max_offset);
    d.hex("vim_bytes_mapped", h.bytes_mapped);
    d.fact("vim_count", h.num_entries);
    if let Some(n) = h.counts_object {
        d.fact("counts_object", n);
    }
    if level >= 2 {
        data::mapping(d, &o);
    }
}

/// The space maps of txgs that devices missed.
fn dirty_times(d: &mut Dump, pool: &Pool, level: u8) {
    for leaf in pool.config().vdev_tree.walk() {
        let Some(n) = leaf.dtl.filter(|n| *n != 0) else { continue };
        let Some(object) = d.keep("DTL", pool.mos().object(n)) else { continue };
        let mut missed = RangeSet::default();
        spacemap::walk(d, &object, 0, 0, &mut |_, _, e| {
            if let Entry::Range(r) = e {
                let end = r.offset.saturating_add(r.size);
                match r.action {
                    engine::inside::ondisk::spacemap::Action::Alloc => missed.add(r.offset, end),
                    engine::inside::ondisk::spacemap::Action::Free => missed.remove(r.offset, end),
                }
            }
        });
        d.open_flat("dtls");
        let path = leaf.path.clone().unwrap_or_default();
        d.hold("object", n);
        d.field("guid", leaf.guid, format_args!("\tDirty time log of {path} ({}):", leaf.guid));
        for (from, to) in missed.iter() {
            d.push("missed", json!([from, to - 1]));
            d.note(format_args!("\t\toutage [{from},{}] length {}", to - 1, to - from));
        }
        if level >= 3 {
            spacemap::entries(d, &object, 0, 0);
        }
        d.close_flat();
    }
}

/// From which txg on the logs count, for each metaslab of each vdev: shift of the metaslab's
/// size, and the txgs.
fn flushed(pool: &Pool) -> HashMap<u32, (u32, Vec<u64>)> {
    let mut out = HashMap::new();
    for top in &pool.config().vdev_tree.children {
        let zap = top.vdev_zap_top.and_then(|n| pool.mos().object(n).ok());
        let zap = zap.and_then(|o| Zap::open(&o).ok());
        let object = zap.and_then(|z| z.get_u64(vdev_zap::METASLAB_UNFLUSHED_TXGS).ok().flatten());
        let object = object.and_then(|n| pool.mos().object(n).ok());
        let txgs = object.iter().flat_map(words).collect();
        let shift = top.metaslab_shift.unwrap_or(63) as u32;
        out.insert(u32::try_from(top.id).unwrap_or(u32::MAX), (shift, txgs));
    }
    out
}

fn log_space_maps(d: &mut Dump, pool: &Pool, lists: &[(u64, Object)], level: u8) {
    if lists.is_empty() {
        return;
    }
    let flushed = flushed(pool);
    // An entry is void once its metaslab was flushed in a later txg.
    let is_valid = |r: &Range, txg: u64| {
        let (shift, txgs) = r.vdev.and_then(|v| flushed.get(&v))?;
        let metaslab = usize::try_from(r.offset.checked_shr(*shift)?).ok()?;
        Some(txgs.get(metaslab).copied().unwrap_or(0) <= txg)
    };
    d.note("\nLog Space Maps in Pool:");
    let (mut all, mut all_valid) = (0u64, 0u64);
    let mut lines = Vec::new();
    for (txg, object) in lists {
        d.open_flat("log_space_maps");
        let n = object.number();
        d.field("txg", *txg, format_args!("Log Spacemap object {n} txg {txg}"));
        map(d, object, 0, engine::inside::ondisk::spacemap::LOG_SHIFT, level);
        let (mut entries, mut valid) = (0u64, 0u64);
        spacemap::walk(
            d,
            object,
            0,
            engine::inside::ondisk::spacemap::LOG_SHIFT,
            &mut |_, _, e| {
                if let Entry::Range(r) = e {
                    entries += 1;
                    valid += u64::from(is_valid(&r, *txg).unwrap_or(false));
                }
            },
        );
        d.hold("ranges", entries);
        d.hold("valid", valid);
        all += entries;
        all_valid += valid;
        lines.push(format!("{valid:<8} valid entries out of {entries:<8} - txg {txg}"));
        d.close_flat();
    }
    d.note("\nLog Space Map Obsolete Entry Statistics:");
    lines.iter().for_each(|l| d.note(l));
    d.note(format_args!("{all_valid:<8} valid entries out of {all:<8} - total\n"));
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn fragmentation_weighs_space_not_segments() {
        let mut buckets = [0u64; 64];
        assert_eq!(percent(&buckets), 0);
        buckets[9] = 1;
        assert_eq!(percent(&buckets), 100);
        buckets[40] = 1;
        assert_eq!(percent(&buckets), 0);
        // The first metaslab of the corpus pool `basic`, where OpenZFS says 28.
        let mut basic = [0u64; 64];
        for (i, n) in [(9, 11), (10, 11), (11, 10), (12, 13), (13, 11), (14, 32), (15, 5), (23, 1)]
        {
            basic[i] = n;
        }
        assert_eq!(percent(&basic), 28);
    }
}
