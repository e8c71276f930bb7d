//! `zdb -d`: datasets, their lists, and their objects.
//!
//! | level | what is said of a dataset |
//! | --- | --- |
//! | 1 | one line: kind, id, txg, space, objects |
//! | 2 | the intent log, dead list, livelist, bookmarks; each object in one line |
//! | 4 | the root block pointer; objects in detail, see [`super::object`] |

use super::context::{Context, Names};
use super::dump::Dump;
use super::object::{self, Range};
use super::roles::{Roles, number_table};
use super::tree::{PointerDetail, Pointers};
use super::{data, locked, show, zil};
use crate::Result;
use engine::inside::dmu::{Object, Objset, Zap};
use engine::inside::ondisk::bookmark::Bookmark;
use engine::inside::ondisk::bpobj::BpobjHeader;
use engine::inside::ondisk::bpobj::bptree::BptreeHeader;
use engine::inside::ondisk::deadlist::{DeadlistHeader, Form};
use engine::inside::ondisk::dsl::{dataset_field, dir_field};
use engine::inside::ondisk::{ObjsetKind, mos};
use engine::inside::pool::UnguardedDatasets as _;
use engine::{Dataset, Pool};
use serde_json::json;
use std::cell::RefCell;
use std::sync::Arc;

/// What is wanted.
#[derive(Default)]
pub(crate) struct DumpOptions {
    /// Level of `-d`.
    pub(crate) level: u8,
    /// Level of `-i`.
    pub(crate) logs: u8,
    /// Level of `-b`, by which block pointers are printed.
    pub(crate) blocks: u8,
    /// The headers of blocks that are compressed with zstd are printed too.
    pub(crate) headers: bool,
    /// Objects; empty: all.
    pub(crate) objects: Vec<Range>,
}

impl DumpOptions {
    /// How much of each block pointer.
    fn pointers(&self, pool: &Pool) -> Pointers {
        let detail = match (self.blocks, self.level) {
            (6.., _) => PointerDetail::All,
            (_, 6..) => PointerDetail::Copies,
            _ => PointerDetail::Short,
        };
        Pointers { detail, headers: self.headers.then(|| Arc::clone(pool.reader())) }
    }
}

/// The name of what an object set is for.
pub(crate) fn kind_name(kind: ObjsetKind) -> String {
    match kind {
        ObjsetKind::None => "NONE".to_owned(),
        ObjsetKind::Meta => "META".to_owned(),
        ObjsetKind::Zfs => "ZPL".to_owned(),
        ObjsetKind::Zvol => "ZVOL".to_owned(),
        ObjsetKind::Other => "OTHER".to_owned(),
        ObjsetKind::Any => "ANY".to_owned(),
        ObjsetKind::Unknown(n) => format!("UNKNOWN {n}"),
    }
}

/// Prints all datasets of a pool, the MOS first.
pub(crate) fn all(d: &mut Dump, pool: &Pool, wanted: &DumpOptions) {
    meta(d, pool, wanted);
    if !wanted.objects.is_empty() {
        return;
    }
    if wanted.level >= 2 {
        frees(d, pool, wanted.level);
        internal(d, pool, wanted.level);
    }
    for (name, dir) in pool.dsl().walk() {
        if !d.is_wanted() {
            return;
        }
        let head = dir.and_then(|dir| pool.dsl().head(&dir));
        let Some(Some(head)) = d.keep(&name, head) else { continue };
        let snapshots = pool.dsl().snapshots(&head);
        for s in d.keep(&name, snapshots).unwrap_or_default() {
            one(d, pool, &s, wanted);
        }
        one(d, pool, &head, wanted);
    }
}

/// Prints the MOS.
fn meta(d: &mut Dump, pool: &Pool, wanted: &DumpOptions) {
    let mos = pool.mos().clone();
    let roles = if wanted.level >= 4 { Roles::find(pool) } else { Roles::default() };
    let cx = Context {
        objset: mos.clone(),
        level: wanted.level,
        pointers: wanted.pointers(pool),
        roles,
        names: RefCell::default(),
        compression: Some("on".to_owned()),
    };
    // The space of the MOS is accounted in a directory of its own.
    let used = mos_used(pool).unwrap_or(0);
    d.open_flat("datasets");
    line(d, &cx, "mos", 0, 4, used, false);
    if wanted.level >= 2 || !wanted.objects.is_empty() {
        objects(d, &cx, wanted);
    }
    d.close_flat();
}

/// Prints the lists of datasets without a name, such as the origin of all others.
fn internal(d: &mut Dump, pool: &Pool, level: u8) {
    for (name, object) in pool.dsl().internal_dirs().unwrap_or_default() {
        let Some(dir) = d.keep(&name, pool.dsl().dir(object, name.clone())) else { continue };
        let Some(Some(head)) = d.keep(&name, pool.dsl().head(&dir)) else { continue };
        let snapshots = d.keep(&name, pool.dsl().snapshots(&head)).unwrap_or_default();
        for ds in snapshots.iter().chain([&head]) {
            d.open_flat("internal");
            d.field("dataset", ds.name.clone(), format_args!("{}: object {}", ds.name, ds.object));
            d.hold("object", ds.object);
            lists(d, pool, ds, level);
            d.close_flat();
        }
    }
}

fn mos_used(pool: &Pool) -> Option<u64> {
    let dirs = pool.dsl().internal_dirs().ok()?;
    let (name, object) = dirs.into_iter().find(|(n, _)| n == "$MOS")?;
    Some(pool.dsl().dir(object, name).ok()?.phys.used)
}

/// Opens the object set of a dataset; of a locked one what is not encrypted can be read.
pub(crate) fn objset(pool: &Pool, dataset: &Dataset) -> Result<Objset, String> {
    let opened = pool.dsl().objset(dataset);
    match opened {
        Ok(os) if os.key().is_some() || !locked::is_locked(pool, dataset) => Ok(os),
        _ => locked::open(pool, dataset),
    }
}

/// Prints one dataset.
pub(crate) fn one(d: &mut Dump, pool: &Pool, dataset: &Dataset, wanted: &DumpOptions) {
    let os = objset(pool, dataset);
    let Some(os) = d.keep(&dataset.name, os) else { return };
    let is_fs = os.phys().kind == ObjsetKind::Zfs;
    let locked = os.root().uses_crypt() && os.key().is_none();
    let (names, trouble) = match is_fs && wanted.level >= 4 && !locked {
        true => Names::open(&os),
        false => (Names::default(), None),
    };
    let cx = Context {
        objset: os,
        level: wanted.level,
        pointers: wanted.pointers(pool),
        roles: Roles::default(),
        names: RefCell::new(names),
        compression: compression(pool, dataset),
    };
    let ds = &dataset.phys;
    let inconsistent = ds.flags & engine::inside::ondisk::DslDataset::FLAG_INCONSISTENT != 0;
    d.open_flat("datasets");
    line(d, &cx, &dataset.name, dataset.object, ds.creation_txg, ds.referenced, inconsistent);
    if let Some(e) = trouble {
        d.fail(format_args!("attribute tables: {e}"));
    }
    if wanted.objects.is_empty() {
        if wanted.logs > 0 || wanted.level >= 2 {
            zil::dump(d, &cx.objset, pool.uberblock().txg, wanted.logs.max(wanted.level));
        }
        if wanted.level >= 2 {
            lists(d, pool, dataset, wanted.level);
        }
    }
    if (wanted.level >= 2 || !wanted.objects.is_empty()) && !ds.bp.is_hole() {
        objects(d, &cx, wanted);
    }
    d.close_flat();
}

fn compression(pool: &Pool, dataset: &Dataset) -> Option<String> {
    let value = pool.dsl().property(dataset, &Default::default(), "compression").ok()??;
    match value.value.as_str() {
        "on" => {
            let lz4 = pool.features().count("org.illumos:lz4_compress").is_some_and(|n| n > 0);
            Some(if lz4 { "lz4" } else { "lzjb" }.to_owned())
        }
        "off" => Some("uncompressed".to_owned()),
        other => Some(other.to_owned()),
    }
}

fn line(d: &mut Dump, cx: &Context, name: &str, id: u64, txg: u64, used: u64, inconsistent: bool) {
    let os = &cx.objset;
    let objects = os.root().fill();
    let objects = if os.root().is_hole() { 0 } else { objects };
    for (key, n) in [("id", id), ("creation_txg", txg), ("used", used), ("object_count", objects)] {
        d.hold(key, n);
    }
    let kind = kind_name(os.phys().kind);
    d.hold("dataset", name);
    d.hold("kind", kind.clone());
    d.hold("rootbp", show::bp_json(&os.root()));
    d.hold("inconsistent", inconsistent);
    let root = match cx.level >= 4 {
        true => format!(", rootbp {}", show::bp(&os.root())),
        false => String::new(),
    };
    let note = if inconsistent { " (inconsistent)" } else { "" };
    let used = d.nice(used);
    d.note(format_args!(
        "Dataset {name} [{kind}], ID {id}, cr_txg {txg}, {used}, {objects} objects{root}{note}"
    ));
    if cx.level < 4 {
        return;
    }
    let p = os.phys();
    d.note(format_args!("    Object set: flags {:#x}, {} bytes", p.flags, p.size));
    d.hold("flags", p.flags);
    if os.root().uses_crypt() {
        let (portable, local) = (show::hex(&p.portable_mac), show::hex(&p.local_mac));
        d.field("portable_mac", portable.clone(), format_args!("    portable MAC {portable}"));
        d.field("local_mac", local.clone(), format_args!("    local MAC {local}"));
    }
}

fn objects(d: &mut Dump, cx: &Context, wanted: &DumpOptions) {
    let accounting = cx.objset.accounting_objects();
    let special = cx.objset.meta_object().into_iter().chain(accounting.into_iter().flatten());
    let mut headed = false;
    let mut print = |d: &mut Dump, o: &Object| {
        if !headed || cx.level >= 4 {
            object::heading(d);
            headed = true;
        }
        object::dump(d, cx, o);
    };
    if !wanted.objects.is_empty() && wanted.objects.iter().all(Range::single) {
        for r in &wanted.objects {
            let found = match special.clone().find(|o| r.has(o)) {
                Some(o) => Ok(o),
                None => cx.objset.object(r.first.cast_unsigned()),
            };
            match found {
                Ok(o) => print(d, &o),
                Err(e) => d.fail(e),
            }
        }
        return;
    }
    let fits = |o: &Object| wanted.objects.is_empty() || wanted.objects.iter().any(|r| r.has(o));
    for o in special.filter(|o| fits(o)) {
        print(d, &o);
    }
    let (mut slots, mut highest) = (0u64, 0u64);
    for o in cx.objset.objects() {
        if !d.is_wanted() {
            return;
        }
        match o {
            Ok(o) => {
                slots += u64::from(o.dnode().extra_slots) + 1;
                highest = highest.max(o.number() + u64::from(o.dnode().extra_slots));
                if fits(&o) {
                    print(d, &o);
                }
            }
            Err(e) => d.fail(e),
        }
    }
    if wanted.objects.is_empty() {
        let empty = if highest == 0 { 0.0 } else { (highest - slots) as f64 / highest as f64 };
        d.blank();
        d.note("    Dnode slots:");
        d.field("slots_used", slots, format_args!("\tTotal used:    {slots:10}"));
        d.field("slots_max", highest, format_args!("\tMax used:      {highest:10}"));
        d.field("slots_empty", empty, format_args!("\tPercent empty: {:10.6}", 100.0 * empty));
        d.blank();
    }
}

/// Prints dead list, livelist, bookmarks and later fields of a dataset.
fn lists(d: &mut Dump, pool: &Pool, dataset: &Dataset, level: u8) {
    let mos = pool.mos();
    if dataset.phys.deadlist != 0 {
        dead_list(d, mos, "Deadlist", "deadlist", dataset.phys.deadlist, level);
    }
    let fields = pool.dsl().fields(dataset.object, dataset.has_fields);
    if let Some(Some(fields)) = d.keep("dataset", fields) {
        let remap = d.keep("", fields.get_u64(dataset_field::REMAP_DEADLIST)).flatten();
        if let Some(n) = remap.filter(|n| *n != 0) {
            d.note("ds_remap_deadlist:");
            dead_list(d, mos, "Deadlist", "remap_deadlist", n, level);
        }
        let marks = d.keep("", fields.get_u64(dataset_field::BOOKMARKS)).flatten();
        if let Some(n) = marks.filter(|n| *n != 0) {
            bookmarks(d, mos, n);
        }
    }
    if dataset.is_snapshot() {
        return;
    }
    let fields = pool.dsl().fields(dataset.dir.object, dataset.dir.has_fields);
    if let Some(Some(fields)) = d.keep("directory", fields) {
        let live = d.keep("", fields.get_u64(dir_field::LIVELIST)).flatten();
        if let Some(n) = live.filter(|n| *n != 0) {
            dead_list(d, mos, "Livelist", "livelist", n, level);
        }
    }
}

fn dead_list(d: &mut Dump, mos: &Objset, title: &str, key: &'static str, number: u64, level: u8) {
    let Some(object) = d.keep(title, mos.object(number)) else { return };
    let dnode = object.dnode();
    let Some(form) = Form::of(dnode.bonus_kind) else {
        return d.fail(format_args!("{title}: object {number} is not a dead list"));
    };
    d.open_one(key);
    d.hold("object", number);
    d.blank();
    if form == Form::Old {
        list_of_blocks(d, mos, title, number, level);
        return d.close_flat();
    }
    let header = DeadlistHeader::decode(&dnode.bonus, dnode.endian);
    if let Some(h) = d.keep(title, header) {
        let table = number_table(mos, number);
        let [used, comp, uncomp] = [h.used, h.compressed, h.uncompressed].map(|n| d.nice(n));
        for (k, n) in [("used", h.used), ("comp", h.compressed), ("uncomp", h.uncompressed)] {
            d.hold(k, n);
        }
        let n = table.len();
        d.note(format_args!("    {title}: {used} ({comp}/{uncomp} comp), {n} entries"));
        d.blank();
        for (txg, list) in table {
            d.open_flat("lists");
            d.hold("mintxg", txg);
            d.hold("obj", list);
            if level < 5 {
                d.note(format_args!("mintxg {txg} -> obj {list}"));
            } else {
                list_of_blocks(d, mos, &format!("mintxg {txg} -> obj {list}"), list, level);
            }
            d.close_flat();
        }
    }
    d.close_flat();
}

/// A block pointer object in one line, from level 5 on with its entries.
fn list_of_blocks(d: &mut Dump, mos: &Objset, title: &str, number: u64, level: u8) {
    let Some(object) = d.keep(title, mos.object(number)) else { return };
    let dnode = object.dnode();
    let header = BpobjHeader::decode(&dnode.bonus, dnode.endian);
    let Some(h) = d.keep(title, header) else { return };
    d.hold("num_blkptrs", h.num_blkptrs);
    d.hold("bytes", h.bytes);
    let bytes = d.nice(h.bytes);
    let freed = h.num_freed.map_or_else(String::new, |n| format!(" {n} freed,"));
    d.hold("num_freed", h.num_freed.unwrap_or(0));
    let n = h.num_blkptrs;
    let below = h.subobjs.filter(|s| s.count > 0);
    let subs =
        below.map_or_else(String::new, |s| format!(" {} subobjs in object {},", s.count, s.object));
    d.note(format_args!("    {title}: object {number}, {n} blkptrs,{freed}{subs} {bytes}"));
    if let Some([comp, uncomp]) = h.accounting {
        d.hold("comp", comp);
        d.hold("uncomp", uncomp);
        if uncomp > 0 {
            let (c, u) = (d.nice(comp), d.nice(uncomp));
            d.note(format_args!("\t({c}/{u} comp)"));
        }
    }
    if level < 5 {
        return;
    }
    data::entries(d, &object, n, level >= 6);
    let Some(s) = below else { return };
    let Some(list) = d.keep("subobjs", mos.object(s.object)) else { return };
    let numbers: Vec<u64> = super::roles::words(&list)
        .take(usize::try_from(s.count.min(list.size_of_blocks() / 8)).unwrap_or(0))
        .collect();
    // A list below has no lists below: OpenZFS flattens them when it moves one.
    for sub in numbers {
        d.open_flat("subobjs");
        let header = mos.object(sub).map_err(|e| e.to_string()).and_then(|o| {
            let dnode = o.dnode();
            let h = BpobjHeader::decode(&dnode.bonus, dnode.endian);
            h.map(|h| (o.clone(), h)).map_err(|e| e.to_string())
        });
        if let Some((o, h)) = d.keep("subobj", header) {
            let bytes = d.nice(h.bytes);
            d.field(
                "object",
                sub,
                format_args!("\tsubobj {sub}, {} blkptrs, {bytes}", h.num_blkptrs),
            );
            data::entries(d, &o, h.num_blkptrs, level >= 6);
        }
        d.close_flat();
    }
}

fn bookmarks(d: &mut Dump, mos: &Objset, number: u64) {
    let zap = mos.object(number).and_then(|o| Zap::open(&o));
    let Some(zap) = d.keep("bookmarks", zap) else { return };
    for e in zap.entries() {
        let Some(e) = d.keep("bookmarks", e) else { continue };
        let words: Vec<u64> = e.ints().collect();
        let name = super::zap::name(&e);
        let Some(b) = d.keep(&name, Bookmark::from_words(&words)) else { continue };
        let redaction = b.extra.as_ref().map_or(0, |x| x.redaction_obj);
        let mut value = json!({"name": name, "guid": b.guid, "creation_txg": b.creation_txg,
                               "creation_time": b.creation_time, "redaction_obj": redaction});
        let mut more = String::new();
        if let (Some(x), Some(m)) = (&b.extra, value.as_object_mut()) {
            let (r, f) = (x.referenced(), x.freed_before_next_snap());
            m.insert("flags".into(), x.flags.into());
            m.insert("ivset_guid".into(), x.ivset_guid.into());
            m.insert("referenced".into(), vec![r.used, r.compressed, r.uncompressed].into());
            m.insert("freed".into(), vec![f.used, f.compressed, f.uncompressed].into());
            more = format!(
                " flags: {:x} referenced: {}/{}/{} freed: {}/{}/{} ivset_guid: {:x}",
                x.flags,
                r.used,
                r.compressed,
                r.uncompressed,
                f.used,
                f.compressed,
                f.uncompressed,
                x.ivset_guid
            );
        }
        d.push("bookmarks", value);
        d.note(format_args!(
            "\t#{name}: {{guid: {:x} creation_txg: {} creation_time: {} \
             redaction_obj: {redaction}}}",
            b.guid, b.creation_txg, b.creation_time
        ));
        if !more.is_empty() {
            d.note(format_args!("\t   {more}"));
        }
    }
}

/// Prints what waits to be freed in the whole pool.
fn frees(d: &mut Dump, pool: &Pool, level: u8) {
    let Some(directory) = d.keep("object directory", pool.directory()) else { return };
    for (name, title) in [
        (mos::SYNC_BPOBJ, "Deferred frees"),
        (mos::FREE_BPOBJ, "Pool snapshot frees"),
        (mos::OBSOLETE_BPOBJ, "Pool obsolete blocks"),
    ] {
        let number = d.keep(name, directory.get_u64(name)).flatten().unwrap_or(0);
        if number != 0 {
            d.open_flat("frees");
            d.hold("name", name);
            list_of_blocks(d, pool.mos(), title, number, level);
            d.close_flat();
        }
    }
    let tree = d.keep("", directory.get_u64(mos::BPTREE_OBJ)).flatten().unwrap_or(0);
    if tree != 0
        && let Some(o) = d.keep("bptree", pool.mos().object(tree))
    {
        let header = BptreeHeader::decode(&o.dnode().bonus, o.dnode().endian);
        if let Some(h) = d.keep("bptree", header) {
            let n = h.end.saturating_sub(h.begin);
            let (used, c, u) = (d.nice(h.bytes), d.nice(h.compressed), d.nice(h.uncompressed));
            let text = format!("    Pool dataset frees: {n} datasets, {used} ({c}/{u} comp)");
            d.field("dataset_frees", json!({"datasets": n, "bytes": h.bytes}), text);
        }
    }
    let clones = d.keep("", directory.get_u64(mos::DELETED_CLONES)).flatten().unwrap_or(0);
    for (list, _) in number_table(pool.mos(), clones) {
        dead_list(d, pool.mos(), "Deleted livelist", "deleted_livelist", list, level);
    }
    d.blank();
}

/// Finds the dataset of a name: by name, or by the number of its object behind the pool's name.
/// With `is_number` no name is looked for.
pub(crate) fn by_name(pool: &Pool, name: &str, is_number: bool) -> Result<Dataset> {
    let number = || {
        let (_, number) = name.split_once('/')?;
        match number.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => number.parse().ok(),
        }
    };
    if !is_number {
        match (pool.dsl().by_name(name), number().and_then(|n| pool.dsl().name_of(n).ok())) {
            (Err(_), Some(found)) => return Ok(pool.dsl().by_name(&found)?),
            (found, _) => return Ok(found?),
        }
    }
    let want = || crate::Error::Usage(format!("{name}: want POOL/NUMBER"));
    let found = pool.dsl().name_of(number().ok_or_else(want)?)?;
    Ok(pool.dsl().by_name(&found)?)
}
