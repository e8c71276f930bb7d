//! `zdb -D` and `-S`: deduplication tables as they are, and as they would be.
//!
//! | level | what is said |
//! | --- | --- |
//! | 1 | the tables, their sizes and entries, the ratio |
//! | 2 | the sum of all histograms |
//! | 3 | a histogram for each table |
//! | 4 | entries of tables whose blocks are shared, and the logs |
//! | 5 | entries of all tables |

use super::dump::{Dump, Output};
use super::{show, stored, walk};
use crate::Result;
use engine::Pool;
use engine::inside::dmu::{Object, Zap};
use engine::inside::ondisk::ddt;
use engine::inside::ondisk::ddt::log;
use engine::inside::ondisk::ddt::log::LogHeader;
use engine::inside::ondisk::ddt::{Class, DdtKey, Histogram, Stat, Value};
use engine::inside::ondisk::zap::ZapName;
use engine::inside::ondisk::{BlkPtr, Checksum, Dva};
use serde_json::json;
use std::collections::HashMap;

/// One ZAP of a table.
struct Part {
    name: String,
    class: Class,
    checksum: Checksum,
    flat: bool,
    object: Object,
}

/// Prints all tables.
pub(crate) fn dump(d: &mut Dump, pool: &Pool, level: u8) -> Result<()> {
    let directory = pool.directory()?;
    let mut total = Histogram { buckets: vec![Stat::default(); ddt::HISTOGRAM_BUCKETS] };
    let statistics = statistics(d, pool, &directory);
    let parts = parts(d, pool, &directory);
    if parts.is_empty() {
        d.note("All DDTs are empty");
    }
    for part in &parts {
        let object = &part.object;
        let Sizes { entries, dspace, mspace } = part.sizes(d);
        d.open_flat("tables");
        for (k, n) in [("dspace", dspace), ("mspace", mspace), ("entries", entries)] {
            d.hold(k, n);
        }
        d.hold("object", object.number());
        d.hold("class", part.class.name());
        let name = &part.name;
        let line = format!("{name}: dspace={dspace}; mspace={mspace}; entries={entries}");
        d.field("name", name.clone(), line);
        d.note(format_args!("{name}: object={}", object.number()));
        if let Some(h) = part.histogram(d, statistics.as_ref()) {
            add(&mut total, &h);
            if level >= 3 {
                d.blank();
                table(d, &h);
            }
        }
        if level >= 5 || (level >= 4 && part.class != Class::Unique) {
            contents(d, part);
        }
        d.close_flat();
    }
    if !parts.is_empty() {
        d.open_one("total");
        if level >= 2 {
            d.note("DDT histogram (aggregated over all DDTs):\n");
            table(d, &total);
        }
        ratio(d, &total);
        d.close_flat();
    }
    Ok(())
}

/// What takes the lines of a summary.
#[derive(Default)]
struct Lines(String);

impl Output for Lines {
    fn text(&mut self, text: &str) {
        self.0.push_str(text);
    }

    fn bytes(&mut self, _: &[u8]) {}

    fn json(&mut self, _: &serde_json::Value) {}

    fn is_wanted(&self) -> bool {
        true
    }
}

/// What `zpool status -D` says: the size of all tables, and the sum of their histograms.
///
/// # Errors
/// The object directory of the pool cannot be read.
pub fn summary(pool: &Pool, parsable: bool) -> Result<String> {
    let directory = pool.directory()?;
    // What is said of each table on the way is for `zdb -D`.
    let mut aside = Lines::default();
    let mut d = Dump::new(&mut aside, false, parsable);
    let statistics = statistics(&mut d, pool, &directory);
    let mut total = Histogram { buckets: vec![Stat::default(); ddt::HISTOGRAM_BUCKETS] };
    let mut all = Sizes::default();
    for part in parts(&mut d, pool, &directory) {
        let one = part.sizes(&mut d);
        all.entries = all.entries.saturating_add(one.entries);
        all.dspace = all.dspace.saturating_add(one.dspace);
        all.mspace = all.mspace.saturating_add(one.mspace);
        if let Some(h) = part.histogram(&mut d, statistics.as_ref()) {
            add(&mut total, &h);
        }
    }
    if all.entries == 0 {
        return Ok("\n dedup: no DDT entries\n".to_owned());
    }
    let size = |n| d.nice(n);
    let (on_disk, in_core, entries) = (size(all.dspace), size(all.mspace), all.entries);
    let mut lines = Lines(format!(
        "\n dedup: DDT entries {entries}, size {on_disk} on disk, {in_core} in core\n\n"
    ));
    let mut d = Dump::new(&mut lines, false, parsable);
    d.note("DDT histogram (aggregated over all DDTs):\n");
    table(&mut d, &total);
    d.finish();
    Ok(lines.0)
}

/// How large tables are.
#[derive(Default)]
struct Sizes {
    entries: u64,
    dspace: u64,
    mspace: u64,
}

impl Part {
    fn sizes(&self, d: &mut Dump) -> Sizes {
        let dnode = self.object.dnode();
        let zap = Zap::open(&self.object);
        let entries = d.keep(&self.name, zap).map_or(0, |z| match (z.fat_header(), z.micro()) {
            (Some(h), _) => h.entry_count,
            (_, Ok(Some(m))) => m.iter().count() as u64,
            _ => 0,
        });
        let fill: u64 = dnode.blkptrs.iter().map(|b| if b.is_hole() { 0 } else { b.fill() }).sum();
        let mspace = fill.saturating_mul(dnode.block_size());
        Sizes { entries, dspace: dnode.used_bytes(), mspace }
    }

    fn histogram(&self, d: &mut Dump, statistics: Option<&Zap>) -> Option<Histogram> {
        let entry = statistics?.get(self.name.as_bytes());
        let words: Vec<u64> = d.keep("DDT statistics", entry)??.ints().collect();
        d.keep("DDT statistics", Histogram::from_words(&words))
    }
}

/// The histograms of all tables.
fn statistics(d: &mut Dump, pool: &Pool, directory: &Zap) -> Option<Zap> {
    let what = "DDT statistics";
    let number = d.keep(what, directory.get_u64(ddt::STATISTICS)).flatten().filter(|n| *n != 0)?;
    let object = d.keep(what, pool.mos().object(number))?;
    d.keep(what, Zap::open(&object))
}

fn add(total: &mut Histogram, h: &Histogram) {
    for (t, s) in total.buckets.iter_mut().zip(&h.buckets) {
        *t = sum(t, s);
    }
}

fn sum(a: &Stat, b: &Stat) -> Stat {
    Stat {
        blocks: a.blocks.saturating_add(b.blocks),
        lsize: a.lsize.saturating_add(b.lsize),
        psize: a.psize.saturating_add(b.psize),
        dsize: a.dsize.saturating_add(b.dsize),
        ref_blocks: a.ref_blocks.saturating_add(b.ref_blocks),
        ref_lsize: a.ref_lsize.saturating_add(b.ref_lsize),
        ref_psize: a.ref_psize.saturating_add(b.ref_psize),
        ref_dsize: a.ref_dsize.saturating_add(b.ref_dsize),
    }
}

/// The ZAPs of all tables of both generations.
fn parts(d: &mut Dump, pool: &Pool, directory: &Zap) -> Vec<Part> {
    let mut out = Vec::new();
    for number in 1..=Checksum::BLAKE3.0 {
        let checksum = Checksum(number);
        let Some(name) = ddt::directory_name(checksum) else { continue };
        let root = d.keep(&name, directory.get_u64(&name)).flatten();
        let own = root.and_then(|n| d.keep(&name, pool.mos().object(n)));
        let own = own.and_then(|o| d.keep(&name, Zap::open(&o)));
        let table = own.as_ref().unwrap_or(directory);
        let word = |key: &str| own.as_ref().and_then(|z| z.get_u64(key).ok().flatten());
        let (version, flags) = (word(ddt::DIR_VERSION).unwrap_or(0), word(ddt::DIR_FLAGS));
        let flags = flags.unwrap_or(0);
        let before = out.len();
        let mut found = Vec::new();
        for class in Class::ALL {
            let Some(name) = ddt::object_name(checksum, class) else { continue };
            let object = d.keep(&name, table.get_u64(&name)).flatten();
            let Some(object) = object.and_then(|n| d.keep(&name, pool.mos().object(n))) else {
                continue;
            };
            let flat = flags & ddt::FLAG_FLAT != 0;
            found.push(Part { name, class, checksum, flat, object });
        }
        out.extend(found);
        if out.len() == before && own.is_none() {
            continue;
        }
        let kind = if version == 0 { "LEGACY" } else { "FDT" };
        let set = flag_names(flags, [(ddt::FLAG_FLAT, "FLAT"), (ddt::FLAG_LOG, "LOG")]);
        let object = root.unwrap_or(1);
        let value = json!({"name": name, "version": version, "flags": flags, "object": object});
        d.push("directories", value);
        d.note(format_args!(
            "{name}: version={version} [{kind}]; flags=0x{flags:02x}{set}; rootobj={object}"
        ));
        logs(d, pool, table, checksum, flags & ddt::FLAG_FLAT != 0);
    }
    out
}

fn logs(d: &mut Dump, pool: &Pool, table: &Zap, checksum: Checksum, flat: bool) {
    for n in 0..2 {
        let Some(name) = ddt::log_name(checksum, n) else { continue };
        let object = d.keep(&name, table.get_u64(&name)).flatten();
        let Some(o) = object.and_then(|n| d.keep(&name, pool.mos().object(n))) else { continue };
        let header = LogHeader::decode(&o.dnode().bonus, o.dnode().endian);
        let Some(h) = d.keep(&name, header) else { continue };
        let entries = log_entries(d, &o, &h, flat);
        let value = json!({"name": name, "object": o.number(), "flags": h.flags(),
                           "length": h.length, "first_txg": h.first_txg, "entries": entries});
        d.push("logs", value);
        let names =
            [(LogHeader::FLAG_FLUSHING, "FLUSHING"), (LogHeader::FLAG_CHECKPOINT, "CHECKPOINT")];
        d.note(format_args!(
            "{name}: flags=0x{:02x}{}; obj={}; len={}; txg={}; entries={entries}",
            h.flags(),
            flag_names(h.flags().into(), names.map(|(bit, n)| (bit.into(), n))),
            o.number(),
            h.length,
            h.first_txg
        ));
        if let Some(key) = h.valid_checkpoint() {
            d.note(format_args!("{name}: checkpoint={}", show::words(key.checksum)));
        }
    }
}

/// Names of the flags that are set, in brackets; nothing without any.
fn flag_names(flags: u64, names: [(u64, &str); 2]) -> String {
    let set = names.iter().filter(|(bit, _)| flags & bit != 0);
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    if set.is_empty() { String::new() } else { format!(" [{}]", set.join(" ")) }
}

fn log_entries(d: &mut Dump, object: &Object, h: &LogHeader, flat: bool) -> u64 {
    let mut n = 0;
    stored::blocks(d, object, h.length, &mut |d, _, block, length| {
        let bytes = block.get(..length).unwrap_or_default();
        for r in log::records(bytes, block.endian(), flat) {
            n += u64::from(d.keep("DDT log", r).is_some());
        }
    });
    n
}

/// The block pointer that an entry stands for.
fn pointer(key: &DdtKey, checksum: Checksum, dvas: [Dva; 3], birth: u64) -> BlkPtr {
    /// Type "deduplicated block", level 0, deduplicated, little-endian.
    const FIXED: u64 = (49 << 48) | (1 << 62) | (1 << 63);
    let mut w = [0u64; 16];
    for (slot, dva) in w.chunks_exact_mut(2).zip(dvas) {
        slot.copy_from_slice(&dva.words());
    }
    let size = |n: u64| n / 512 - 1;
    w[6] = size(key.lsize())
        | (size(key.psize()) << 16)
        | (u64::from(key.compression().0) << 32)
        | (u64::from(checksum.0) << 40)
        | (u64::from(key.uses_crypt()) << 61)
        | FIXED;
    w[10] = birth;
    w[11] = 1;
    let sums = w.iter_mut().skip(12);
    sums.zip(key.checksum).for_each(|(slot, word)| *slot = word);
    BlkPtr::from_words(w)
}

fn contents(d: &mut Dump, part: &Part) {
    d.note(format_args!("\n{} contents:\n", part.name));
    let Some(zap) = d.keep(&part.name, Zap::open(&part.object)) else { return };
    for e in zap.entries() {
        let Some(e) = d.keep(&part.name, e) else { continue };
        let ZapName::U64s(words) = &e.name else {
            d.fail("an entry whose key is not a checksum");
            continue;
        };
        let key = DdtKey::from_words(words);
        let value = Value::unpack(e.value_bytes().unwrap_or_default(), part.flat);
        let (Some(key), Some(value)) = (d.keep("entry", key), d.keep("entry", value)) else {
            continue;
        };
        match value {
            Value::Flat(v) => {
                let dvas = [v.dva(0), v.dva(1), v.dva(2)];
                let bp = pointer(&key, part.checksum, dvas, v.physical_birth);
                entry(d, v.refcount, 0, &bp, Some(v.class_start));
            }
            Value::Legacy(v) => {
                for (p, v) in v.variants().iter().enumerate().filter(|(_, v)| v.physical_birth > 0)
                {
                    let dvas = [v.dva(0), v.dva(1), v.dva(2)];
                    let bp = pointer(&key, part.checksum, dvas, v.physical_birth);
                    entry(d, v.refcount, p, &bp, None);
                }
            }
        }
    }
    d.blank();
}

fn entry(d: &mut Dump, refcount: u64, phys: usize, bp: &BlkPtr, since: Option<u64>) {
    if d.is_json() {
        let value = json!({"refcount": refcount, "phys": phys, "bp": show::bp_json(bp),
                           "class_start": since});
        return d.push("contents", value);
    }
    let since = since.map_or_else(String::new, |s| format!(" class_start={s}"));
    d.note(format_args!("refcnt {refcount} phys {phys} {}{since}", show::bp(bp)));
}

/// Prints a histogram, and the sum of it.
fn table(d: &mut Dump, h: &Histogram) {
    let total = h.buckets.iter().fold(Stat::default(), |t, s| sum(&t, s));
    if total.blocks == 0 {
        return d.note("empty");
    }
    d.note("bucket              allocated                       referenced          ");
    d.note("______   ______________________________   ______________________________");
    d.note("refcnt   blocks   LSIZE   PSIZE   DSIZE   blocks   LSIZE   PSIZE   DSIZE");
    d.note("------   ------   -----   -----   -----   ------   -----   -----   -----");
    for (i, s) in h.buckets.iter().enumerate().filter(|(_, s)| s.blocks > 0) {
        let refs = d.nice(1u64 << i.min(63));
        row(d, &refs, s);
        let mut value = stat(s);
        if let Some(m) = value.as_object_mut() {
            m.insert("refcount".into(), (1u64 << i.min(63)).into());
        }
        d.push("histogram", value);
    }
    row(d, " Total", &total);
    d.hold("sum", stat(&total));
    d.blank();
}

fn stat(s: &Stat) -> serde_json::Value {
    json!({"blocks": s.blocks, "lsize": s.lsize, "psize": s.psize, "dsize": s.dsize,
           "ref_blocks": s.ref_blocks, "ref_lsize": s.ref_lsize, "ref_psize": s.ref_psize,
           "ref_dsize": s.ref_dsize})
}

fn row(d: &mut Dump, name: &str, s: &Stat) {
    let n = |n: u64| d.nice(n);
    let line = format!(
        "{name:>6}   {:>6}   {:>5}   {:>5}   {:>5}   {:>6}   {:>5}   {:>5}   {:>5}",
        n(s.blocks),
        n(s.lsize),
        n(s.psize),
        n(s.dsize),
        n(s.ref_blocks),
        n(s.ref_lsize),
        n(s.ref_psize),
        n(s.ref_dsize)
    );
    d.note(line);
}

fn ratio(d: &mut Dump, h: &Histogram) {
    let t = h.buckets.iter().fold(Stat::default(), |t, s| sum(&t, s));
    if t.blocks == 0 {
        return;
    }
    let part = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
    let dedup = part(t.ref_dsize, t.dsize);
    let compress = part(t.ref_lsize, t.ref_psize);
    let copies = part(t.ref_dsize, t.ref_psize);
    let all = if copies == 0.0 { 0.0 } else { dedup * compress / copies };
    let value = json!({"dedup": dedup, "compress": compress, "copies": copies, "all": all});
    d.field(
        "ratio",
        value,
        format_args!(
            "dedup = {dedup:.2}, compress = {compress:.2}, copies = {copies:.2}, \
             dedup * compress / copies = {all:.2}\n"
        ),
    );
}

/// Counts every data block of the pool as if all were deduplicated.
pub(crate) fn simulate(d: &mut Dump, pool: &Pool) {
    let mut seen: HashMap<DdtKey, (u64, Stat)> = HashMap::new();
    walk::pool(d, pool, &mut |bp, _| {
        // Only data can be deduplicated.
        let data = bp.level() == 0 && !bp.dmu_type().is_metadata();
        if bp.is_hole() || bp.is_embedded() || !data {
            return;
        }
        let (lsize, psize, dsize) = (bp.lsize(), bp.psize(), pool.dsize(bp));
        let e = seen.entry(DdtKey::new(bp)).or_default();
        e.0 += 1;
        let s = &mut e.1;
        s.ref_blocks += 1;
        s.ref_lsize = s.ref_lsize.saturating_add(lsize);
        s.ref_psize = s.ref_psize.saturating_add(psize);
        s.ref_dsize = s.ref_dsize.saturating_add(dsize);
    });
    let mut h = Histogram { buckets: vec![Stat::default(); ddt::HISTOGRAM_BUCKETS] };
    for (refs, s) in seen.into_values() {
        let one = Stat {
            blocks: s.ref_blocks / refs,
            lsize: s.ref_lsize / refs,
            psize: s.ref_psize / refs,
            dsize: s.ref_dsize / refs,
            ..s
        };
        if let Some(bucket) = h.buckets.get_mut(refs.ilog2() as usize) {
            *bucket = sum(bucket, &one);
        }
    }
    d.open_one("simulated");
    d.note("Simulated DDT histogram:\n");
    table(d, &h);
    ratio(d, &h);
    d.close_flat();
}
