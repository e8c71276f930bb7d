//! What the data of an object says, when it is a structure and not a file's bytes.

use super::context::{self, Context};
use super::dump::Dump;
use super::roles::{Form, Role};
use super::stored::blocks;
use super::{bonus, config, show, spacemap, zap, znode};
use engine::inside::dmu::{Object, Zap};
use engine::inside::ondisk::bpobj;
use engine::inside::ondisk::bpobj::{BpobjHeader, bptree};
use engine::inside::ondisk::brt;
use engine::inside::ondisk::brt::BrtVdev;
use engine::inside::ondisk::ddt::log;
use engine::inside::ondisk::indirect;
use engine::inside::ondisk::indirect::{BirthEntry, BirthsHeader, MappingEntry, MappingHeader};
use engine::inside::ondisk::redaction;
use engine::inside::ondisk::redaction::RedactionHeader;
use engine::inside::ondisk::{BlkPtr, DmuType, Layout};
use serde_json::json;

/// Prints the data of an object.
pub(crate) fn dump(d: &mut Dump, cx: &Context, object: &Object, role: Option<&Role>) {
    let kind = object.dnode().kind;
    if object.number() == 0 {
        return;
    }
    d.open_one("data");
    match kind {
        _ if kind.layout() == Layout::Zap => zap::dump(d, object),
        DmuType::PACKED_NVLIST => match config::packed_list(object) {
            Ok(list) => show::nvlist(d, "list", &list, 8),
            Err(e) => d.fail(e),
        },
        DmuType::BPOBJ if cx.level >= 5 => block_pointers(d, object, cx.level >= 6),
        DmuType::BPOBJ_SUBOBJ | DmuType::OBJECT_ARRAY if cx.level >= 5 => array(d, object),
        DmuType::SPACE_MAP if cx.level >= 5 => match role.map(|r| r.form) {
            Some(Form::SpaceMap { start, shift }) => spacemap::entries(d, object, start, shift),
            _ => spacemap::entries(d, object, 0, 0),
        },
        DmuType::FUID => match context::domains(object) {
            Ok(table) => {
                for (number, domain) in &table.domains {
                    let domain = show::text(domain);
                    d.push("domains", json!({"number": number, "domain": domain}));
                    d.note(format_args!("\t\t{number} {domain}"));
                }
            }
            Err(e) => d.fail(e),
        },
        DmuType::OLDACL | DmuType::ACL => znode::acl_object(d, object),
        _ => by_role(d, cx, object, role),
    }
    d.close_flat();
}

fn by_role(d: &mut Dump, cx: &Context, object: &Object, role: Option<&Role>) {
    d.indent();
    d.indent();
    match role.map_or(Form::ByType, |r| r.form) {
        Form::Brt => brt(d, object, cx.level),
        Form::Bptree if cx.level >= 5 => destroyed(d, object),
        Form::Mapping if cx.level >= 5 => mapping(d, object),
        Form::Births if cx.level >= 5 => births(d, object),
        Form::ObsoleteCounts if cx.level >= 5 => counts(d, object),
        Form::Redaction if cx.level >= 5 => redacted(d, object),
        Form::DdtLog { flat } if cx.level >= 5 => ddt_log(d, object, flat),
        Form::ByType if cx.level >= 6 && object.dnode().kind.layout() == Layout::U64 => {
            d.outdent();
            d.outdent();
            array(d, object);
            return;
        }
        _ => {}
    }
    d.outdent();
    d.outdent();
}

/// An array of words, zeros at the end left out.
fn array(d: &mut Dump, object: &Object) {
    let mut words: Vec<u64> = Vec::new();
    blocks(d, object, object.size_of_blocks(), &mut |_, b, block, n| {
        let first = (b * object.dnode().block_size() / 8) as usize;
        words.resize(first.max(words.len()), 0);
        let bytes = block.get(..n).unwrap_or_default();
        words.extend(bytes.as_chunks::<8>().0.iter().map(|w| block.endian().u64(*w)));
    });
    let used = words.iter().rposition(|w| *w != 0).map_or(0, |i| i + 1);
    words.truncate(used);
    let hex = |line: &[u64]| line.iter().map(|w| format!("{w:x}")).collect::<Vec<_>>().join(", ");
    for (i, line) in words.chunks(4).enumerate() {
        let open = if i == 0 { "[" } else { "" };
        let close = if (i + 1) * 4 >= words.len() { "]" } else { "," };
        d.note(format_args!("\t\t{open}{}{close}", hex(line)));
    }
    d.hold("words", words);
}

/// The entries of a block pointer object, and the lists below it.
fn block_pointers(d: &mut Dump, object: &Object, all: bool) {
    let dnode = object.dnode();
    let header = BpobjHeader::decode(&dnode.bonus, dnode.endian);
    let Some(h) = d.keep("bpobj header", header) else { return };
    entries(d, object, h.num_blkptrs, all);
    let Some(s) = h.subobjs.filter(|s| s.count > 0) else { return };
    let Some(list) = d.keep("subobjs", object.objset().object(s.object)) else { return };
    let length = s.count.saturating_mul(8);
    blocks(d, &list, length, &mut |d, _, block, n| {
        let bytes = block.get(..n).unwrap_or_default();
        for number in bpobj::subobj_numbers(bytes, block.endian()) {
            d.push("subobjs", number);
            d.note(format_args!("\t{number}"));
        }
    });
}

/// The first `count` entries of a block pointer object.
pub(crate) fn entries(d: &mut Dump, object: &Object, count: u64, all: bool) {
    let length = count.saturating_mul(engine::inside::ondisk::blkptr::BLKPTR_SIZE as u64);
    blocks(d, object, length, &mut |d, _, block, n| {
        for e in bpobj::entries(block.get(..n).unwrap_or_default(), block.endian()) {
            match e {
                Ok(e) => pointer(d, &e.0, e.is_freed(), all),
                Err(e) => d.fail(e),
            }
        }
    });
}

fn pointer(d: &mut Dump, bp: &BlkPtr, freed: bool, all: bool) {
    if d.is_json() {
        let mut value = show::bp_json(bp);
        if let Some(m) = value.as_object_mut() {
            m.insert("freed".into(), freed.into());
        }
        return d.push("block_pointers", value);
    }
    // Entries are stripped of their fill count: it is where a livelist marks frees.
    let text = show::bp_short(bp, all);
    let text = if freed { text.replace(" cksum=", " FREE cksum=") } else { text };
    d.note(format_args!("\t{text}"));
}

fn destroyed(d: &mut Dump, object: &Object) {
    let dnode = object.dnode();
    let header = bptree::BptreeHeader::decode(&dnode.bonus, dnode.endian);
    let Some(h) = d.keep("bptree", header) else { return };
    let size = bptree::BptreeEntry::SIZE as u64;
    for i in h.begin..h.end {
        let mut bytes = vec![0; size as usize];
        let at = i.saturating_mul(size);
        if at >= object.size_of_blocks() {
            return d.fail("more entries than the object has bytes");
        }
        if d.keep("entry", object.read_at(at, &mut bytes)).is_none() {
            continue;
        }
        let Some(e) = d.keep("entry", bptree::BptreeEntry::decode(&bytes, dnode.endian)) else {
            continue;
        };
        d.open("trees", show::bp(&e.bp));
        d.hold("bp", show::bp_json(&e.bp));
        d.fact("birth_txg", e.birth_txg);
        let b = e.bookmark;
        let mark = format!("{}:{}:{}:{}", b.objset, b.object, b.level(), b.blkid);
        d.fact("bookmark", mark);
        d.close();
    }
}

/// The parts of a removed vdev and their new places.
pub(crate) fn mapping(d: &mut Dump, object: &Object) {
    let dnode = object.dnode();
    let header = MappingHeader::decode(&dnode.bonus, dnode.endian);
    let Some(h) = d.keep("mapping", header) else { return };
    let mut i = 0u64;
    whole(d, object, h.num_entries, MappingEntry::SIZE, &mut |d, bytes| {
        match MappingEntry::decode(bytes, dnode.endian) {
            Ok(e) => {
                let end = e.src_end();
                let value = json!({"src": e.src, "size": e.size(), "vdev": e.dst.vdev(),
                                   "offset": e.dst.offset()});
                d.push("mapping", value);
                d.note(format_args!("[{i:6}] <{:x}-{end:x}> -> <{}>", e.src, e.dst));
            }
            Err(e) => d.fail(e),
        }
        i += 1;
    });
}

/// Calls `each` with the first `count` records of `size` bytes, which may lie across blocks.
fn whole(
    d: &mut Dump,
    object: &Object,
    count: u64,
    size: usize,
    each: &mut dyn FnMut(&mut Dump, &[u8]),
) {
    /// Records read at a time.
    const BATCH: u64 = 4096;
    let total = count.min(object.size_of_blocks() / size as u64);
    if total < count {
        d.fail(format_args!("{count} entries, but room for {total}"));
    }
    let mut at = 0;
    while at < total {
        let n = BATCH.min(total - at);
        let mut bytes = vec![0; n as usize * size];
        if d.keep("", object.read_at(at * size as u64, &mut bytes)).is_some() {
            bytes.chunks_exact(size).for_each(|c| each(d, c));
        }
        at += n;
    }
}

/// When the parts of a removed vdev were copied.
pub(crate) fn births(d: &mut Dump, object: &Object) {
    let dnode = object.dnode();
    let header = BirthsHeader::decode(&dnode.bonus, dnode.endian);
    let Some(h) = d.keep("births", header) else { return };
    whole(d, object, h.count, BirthEntry::SIZE, &mut |d, bytes| match BirthEntry::decode(
        bytes,
        dnode.endian,
    ) {
        Ok(e) => {
            d.push("births", json!({"offset": e.offset, "txg": e.txg}));
            d.note(format_args!("offset {:x} -> txg {}", e.offset, e.txg));
        }
        Err(e) => d.fail(e),
    });
}

fn counts(d: &mut Dump, object: &Object) {
    let mut all = Vec::new();
    blocks(d, object, object.size_of_blocks(), &mut |d, _, block, n| {
        let part = indirect::obsolete_counts(block.get(..n).unwrap_or_default(), block.endian());
        all.extend(d.keep("obsolete counts", part).unwrap_or_default());
    });
    for (i, n) in all.iter().enumerate().filter(|(_, n)| **n > 0) {
        d.push("obsolete", json!({"entry": i, "bytes": n}));
        d.note(format_args!("[{i:6}] {n:x} bytes obsolete"));
    }
}

fn redacted(d: &mut Dump, object: &Object) {
    let dnode = object.dnode();
    let spill = object.read_spill();
    let Some(spill) = d.keep("redaction list", spill) else { return };
    let header = match &spill {
        Some(b) => RedactionHeader::decode(b.bytes(), b.endian()),
        None => RedactionHeader::decode(&dnode.bonus, dnode.endian),
    };
    let Some(h) = d.keep("redaction list", header) else { return };
    if spill.is_some() {
        bonus::redaction(d, &h);
    }
    let size = redaction::RedactBlock::SIZE;
    whole(d, object, h.num_entries, size, &mut |d, bytes| match redaction::RedactBlock::decode(
        bytes,
        dnode.endian,
    ) {
        Ok(e) => {
            let (object, blkid, n, size) = (e.object, e.blkid, e.count(), e.block_size());
            let value = json!({"object": object, "blkid": blkid, "count": n, "block_size": size});
            d.push("redacted", value);
            d.note(format_args!("object {object} blocks {blkid}+{n} of {size} bytes"));
        }
        Err(e) => d.fail(e),
    });
}

fn ddt_log(d: &mut Dump, object: &Object, flat: bool) {
    let dnode = object.dnode();
    let header = log::LogHeader::decode(&dnode.bonus, dnode.endian);
    let Some(h) = d.keep("DDT log", header) else { return };
    blocks(d, object, h.length, &mut |d, _, block, n| {
        for r in log::records(block.get(..n).unwrap_or_default(), block.endian(), flat) {
            match r {
                Ok(r) => {
                    let class = r.class().map_or("?", |c| c.name());
                    let (refs, sum) = (r.value.total_refcount(), show::words(r.key.checksum));
                    let value = json!({"class": class, "refcount": refs, "checksum": sum});
                    d.push("records", value);
                    d.note(format_args!("{class} refcnt {refs} cksum={sum}"));
                }
                Err(e) => d.fail(e),
            }
        }
    });
}

/// References of cloned blocks: sums, and from level 5 on each one.
pub(crate) fn brt(d: &mut Dump, object: &Object, level: u8) {
    let dnode = object.dnode();
    let Some(h) = d.keep("BRT", BrtVdev::decode(&dnode.bonus, dnode.endian)) else { return };
    let Some(order) = d.keep("BRT", h.count_order()) else { return };
    let entries = object.objset().object(h.entries);
    let Some(entries) = d.keep("BRT entries", entries) else { return };
    let Some(zap) = d.keep("BRT entries", Zap::open(&entries)) else { return };
    let mut histogram = [0u64; 64];
    let mut lines = Vec::new();
    for e in zap.entries() {
        let e = match e {
            Ok(e) => e,
            Err(e) => {
                d.fail(e);
                continue;
            }
        };
        let refs = match e.int_len {
            8 => Ok(e.ints().next().unwrap_or(0)),
            _ => brt::refcount(e.value_bytes().unwrap_or_default(), order),
        };
        let Some(refs) = d.keep("BRT entry", refs) else { continue };
        if let Some(n) = histogram.get_mut(refs.checked_ilog2().unwrap_or(0) as usize) {
            *n += 1;
        }
        if let engine::inside::ondisk::zap::ZapName::U64s(key) = &e.name
            && level >= 5
        {
            lines.push((key.first().copied().unwrap_or(0), refs));
        }
    }
    d.note("DVAs with 2^n refcnts:");
    show::histogram(d, "refcounts", &histogram, 0);
    lines.sort_unstable();
    for (offset, refs) in lines {
        d.push("entries", json!({"offset": offset, "refcount": refs}));
        d.note(format_args!("offset {offset:x} refcnt {refs}"));
    }
    if level >= 6 {
        let mut all = Vec::new();
        blocks(d, object, h.counts_len(), &mut |d, _, block, n| {
            let part = brt::counts(block.get(..n).unwrap_or_default(), order);
            all.extend(d.keep("BRT counts", part).unwrap_or_default());
        });
        for (i, n) in all.iter().enumerate().filter(|(_, n)| **n > 0) {
            d.push("counts", json!({"range": i, "entries": n}));
            d.note(format_args!("range {i}: {n} entries"));
        }
    }
}
