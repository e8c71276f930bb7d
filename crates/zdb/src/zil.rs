//! `zdb -i`: intent logs.
//!
//! | level | what is said |
//! | --- | --- |
//! | 1, 2 | the header, why the log ends, records by type |
//! | 3 | every block and every record with all fields |
//! | 5 | block pointers in full, attributes and lists |
//! | 6 | data that was written |

use super::dump::Dump;
use super::show;
use engine::inside::dmu::{Objset, Place};
use engine::inside::ondisk::BlkPtr;
use engine::inside::ondisk::zil::{AclPart, Body, Create, ExtraAttrs, Record, Whiteout};
use engine::inside::zil::{Log, LogBlock, LogEnd};
use serde_json::json;
use std::collections::BTreeMap;

/// Bytes of written data that are shown.
const SHOWN: usize = 1024;

/// Prints the intent log of an object set; nothing when it has none. `synced` is the txg of the
/// uberblock.
pub(crate) fn dump(d: &mut Dump, objset: &Objset, synced: u64, level: u8) {
    let log = Log::read(objset);
    if matches!(log.end, LogEnd::Empty) && log.header.log.is_hole() {
        return;
    }
    let h = &log.header;
    d.open_one("intent_log");
    d.blank();
    for (name, n) in [
        ("claim_txg", h.claim_txg),
        ("claim_blk_seq", h.claim_blk_seq),
        ("claim_lr_seq", h.claim_lr_seq),
        ("replay_seq", h.replay_seq),
        ("flags", h.flags),
    ] {
        d.hold(name, n);
    }
    d.note(format_args!(
        "    ZIL header: claim_txg {}, claim_blk_seq {}, claim_lr_seq {} \
         replay_seq {}, flags {:#x}",
        h.claim_txg, h.claim_blk_seq, h.claim_lr_seq, h.replay_seq, h.flags
    ));
    d.blank();
    d.indent();
    if level >= 3 {
        for b in &log.blocks {
            block(d, objset, &log, b, synced, level);
        }
        if let Some(bp) = &log.next {
            let seq = bp.checksum()[engine::inside::ondisk::zil::CHECKSUM_SEQ_WORD];
            let claim = claim(&log, bp.logical_birth(), synced);
            let bp = if level >= 5 { format!(", {}", show::bp(bp)) } else { String::new() };
            d.note(format_args!("Block seqno {seq}, {claim}{bp}"));
            d.note("\tnever written");
        }
    }
    statistics(d, &log, synced);
    end(d, &log);
    d.outdent();
    d.blank();
    d.close_flat();
}

/// Whether an import would keep a block: those of txgs that are on disk are not needed.
fn claim(log: &Log, birth: u64, synced: u64) -> &'static str {
    match () {
        () if log.is_claimed() => "already claimed",
        () if birth > synced => "will claim",
        () => "won't claim",
    }
}

fn block(d: &mut Dump, objset: &Objset, log: &Log, b: &LogBlock, synced: u64, level: u8) {
    let claim = claim(log, b.bp.logical_birth(), synced);
    let bp = if level >= 5 { format!(", {}", show::bp(&b.bp)) } else { String::new() };
    let (seq, used) = (b.seq, b.used);
    d.open("blocks", format_args!("Block seqno {seq}, {claim}{bp}"));
    d.hold("seq", seq);
    d.hold("used", used);
    d.hold("claim", claim);
    d.hold("bp", show::bp_json(&b.bp));
    for r in &b.records {
        record(d, objset, r, level);
    }
    d.close();
}

fn statistics(d: &mut Dump, log: &Log, synced: u64) {
    let mut by_type: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for r in log.blocks.iter().flat_map(|b| &b.records) {
        let entry = by_type.entry(r.kind.0).or_default();
        entry.0 += 1;
        entry.1 += length(r);
    }
    let total: u64 = by_type.values().map(|(n, _)| n).sum();
    let pending = log.pending(synced).count();
    d.hold("pending", pending);
    d.field(
        "total",
        total,
        format_args!("{total} records in {} blocks, {pending} to be replayed", log.blocks.len()),
    );
    for (kind, (n, bytes)) in by_type {
        let name = engine::inside::ondisk::zil::TxType(kind).name().unwrap_or("TX_?");
        d.push("types", json!({"type": name, "count": n, "bytes": bytes}));
        d.note(format_args!("\t{name:19} {n:6} records {bytes:10} bytes"));
    }
}

fn end(d: &mut Dump, log: &Log) {
    let text = match &log.end {
        LogEnd::Empty => "ends: its last block names no other".to_owned(),
        LogEnd::Unwritten => "ends: the next block was never written".to_owned(),
        LogEnd::Claimed => "ends: where it was claimed".to_owned(),
        LogEnd::Locked => "ends: the key is not loaded".to_owned(),
        LogEnd::Lost(e) => return d.fail(format_args!("the log is cut off: {e}")),
        LogEnd::Damaged(e) => return d.fail(format_args!("the log is cut off: {e}")),
    };
    d.field("end", text.clone(), &text);
    if let Some(bp) = &log.next {
        d.hold("next", show::bp_json(bp));
    }
}

fn length(r: &Record) -> u64 {
    r.encode(engine::inside::ondisk::Endian::Little).len() as u64
}

fn record(d: &mut Dump, objset: &Objset, r: &Record, level: u8) {
    let name = r.kind.name().map_or_else(|| format!("TX_{}", r.kind.0), str::to_owned);
    let ci = if r.case_insensitive { "CI-" } else { "" };
    let (len, txg, seq) = (length(r), r.txg, r.seq);
    d.open("records", format_args!("{ci}{name:19} len {len:6}, txg {txg}, seq {seq}"));
    d.hold("type", name);
    d.hold("case_insensitive", r.case_insensitive);
    d.hold("length", len);
    d.hold("txg", txg);
    d.hold("seq", seq);
    body(d, objset, &r.body, level);
    d.close();
}

fn name(d: &mut Dump, key: &str, bytes: &[u8]) {
    let text = show::text(bytes);
    d.field(key, text.clone(), &text);
}

fn body(d: &mut Dump, objset: &Objset, body: &Body, level: u8) {
    match body {
        Body::Create(c) => create(d, c, level),
        Body::Remove { directory, name: n } => {
            d.field("doid", *directory, format_args!("doid {directory}, name {}", show::text(n)));
            d.hold("name", show::text(n));
        }
        Body::Link { directory, object, name: n } => {
            d.hold("name", show::text(n));
            d.hold("foid", *object);
            let text = format!("doid {directory}, link_obj {object}, name {}", show::text(n));
            d.field("doid", *directory, text);
        }
        Body::Rename { source_directory, target_directory, whiteout, source, target } => {
            d.hold("sdoid", *source_directory);
            d.hold("tdoid", *target_directory);
            d.note(format_args!("sdoid {source_directory}, tdoid {target_directory}"));
            d.note(format_args!("src {} tgt {}", show::text(source), show::text(target)));
            d.hold("source", show::text(source));
            d.hold("target", show::text(target));
            if let Some(w) = whiteout {
                whiteout_part(d, w);
            }
        }
        Body::Write { object, offset, length, block, data, .. } => {
            let numbers = [("foid", *object), ("offset", *offset), ("length", *length)];
            numbers.iter().for_each(|(k, n)| d.hold(k, *n));
            d.note(format_args!("foid {object}, offset {offset:x}, length {length:x}"));
            written(d, objset, *object, block, data, level);
        }
        Body::Truncate { object, offset, length } => {
            let numbers = [("foid", *object), ("offset", *offset), ("length", *length)];
            numbers.iter().for_each(|(k, n)| d.hold(k, *n));
            d.note(format_args!("foid {object}, offset 0x{offset:x}, length 0x{length:x}"));
        }
        Body::SetAttr { .. } => set_attr(d, body, level),
        Body::AclV0 { object, count, .. } => {
            d.hold("foid", *object);
            d.field("aces", *count, format_args!("foid {object}, aclcnt {count}"));
        }
        Body::Acl { object, acl } => {
            d.field("foid", *object, format_args!("foid {object}"));
            acl_part(d, acl, level);
        }
        Body::SetSaXattr { object, name: n, value } => {
            d.field("foid", *object, format_args!("foid {object}"));
            name(d, "name", n);
            d.hold("value", show::hex(value));
            let what = if value.is_empty() { "removed".to_owned() } else { show::text(value) };
            d.note(format_args!("XAT_VALUE {what}"));
        }
        Body::CloneRange { object, offset, length, block_size, blocks } => {
            d.hold("foid", *object);
            d.hold("offset", *offset);
            d.hold("length", *length);
            d.hold("block_size", *block_size);
            d.note(format_args!(
                "foid {object}, offset {offset:x}, length {length:x}, blksize {block_size:x}"
            ));
            for bp in blocks {
                d.push("clones", show::bp_json(bp));
                d.note(show::bp(bp));
            }
        }
        Body::Unknown(bytes) => name(d, "bytes", show::hex(bytes).as_bytes()),
    }
}

fn create(d: &mut Dump, c: &Create, level: u8) {
    if !c.name.is_empty() {
        let link = c.link.as_ref().map_or_else(String::new, |l| format!(" -> {}", show::text(l)));
        d.note(format_args!("{}{link}", show::text(&c.name)));
    }
    d.hold("name", show::text(&c.name));
    if let Some(l) = &c.link {
        d.hold("link", show::text(l));
    }
    let [s, ns] = c.create_time;
    d.field("crtime", json!({"s": s, "ns": ns}), show::time(s.cast_signed()));
    for (k, n) in [
        ("doid", c.directory),
        ("foid", c.object),
        ("slots", c.slots.into()),
        ("mode", c.mode),
        ("uid", c.uid),
        ("gid", c.gid),
        ("gen", c.generation),
        ("rdev", c.rdev),
    ] {
        d.hold(k, n);
    }
    d.note(format_args!(
        "doid {}, foid {}, slots {}, mode {:o}",
        c.directory, c.object, c.slots, c.mode
    ));
    d.note(format_args!("uid {}, gid {}, gen {}, rdev {:#x}", c.uid, c.gid, c.generation, c.rdev));
    for domain in &c.domains {
        d.push("domains", show::text(domain));
        d.note(format_args!("domain {}", show::text(domain)));
    }
    if let Some(a) = &c.acl {
        acl_part(d, a, level);
    }
    if let Some(a) = c.attrs.as_ref().filter(|_| level >= 5) {
        extra_attributes(d, a);
    }
}

fn whiteout_part(d: &mut Dump, w: &Whiteout) {
    let value = json!({"object": w.object, "slots": w.slots, "mode": w.mode, "uid": w.uid,
                       "gid": w.gid, "gen": w.generation, "rdev": w.rdev});
    let text = format_args!(
        "whiteout object {} slots {} mode {:#o} uid {} gid {} gen {} rdev {:#x}",
        w.object, w.slots, w.mode, w.uid, w.gid, w.generation, w.rdev
    );
    d.field("whiteout", value, text);
}

fn extra_attributes(d: &mut Dump, a: &ExtraAttrs) {
    let stamp = show::hex(&a.stamp);
    let value = json!({"map": a.map, "values": a.values, "create_time": a.create_time,
                       "stamp": stamp});
    let map: Vec<String> = a.map.iter().map(|word| format!("{word:#x}")).collect();
    let [seconds, nanos] = a.create_time;
    let text = format_args!(
        "attributes {} values {:#x} created {seconds}.{nanos:09} stamp {stamp}",
        map.join(" "),
        a.values
    );
    d.field("attributes", value, text);
}

fn acl_part(d: &mut Dump, a: &AclPart, level: u8) {
    let value = json!({"count": a.count, "flags": a.flags, "entries": show::hex(&a.entries),
                       "fuids": a.fuids});
    d.field("acl", value, format_args!("aclcnt {}, flags {:#x}", a.count, a.flags));
    if level < 5 {
        return;
    }
    d.note(format_args!("entries {}", show::hex(&a.entries)));
    for domain in &a.domains {
        d.push("domains", show::text(domain));
        d.note(format_args!("domain {}", show::text(domain)));
    }
}

fn written(d: &mut Dump, objset: &Objset, object: u64, bp: &BlkPtr, data: &[u8], level: u8) {
    let mut read = None;
    if !bp.is_hole() {
        d.hold("bp", show::bp_json(bp));
        d.note("has blkptr");
        d.note(show::bp(bp));
        if level >= 6 {
            let place = Place { objset: objset.id(), object, level: 0, blkid: 0 };
            match objset.store().read(bp, place, objset.key()) {
                Ok(b) => read = Some(b),
                Err(e) => d.fail(e),
            }
        }
    }
    let bytes = read.as_ref().map_or(data, |b| b.bytes());
    if level >= 6 && !bytes.is_empty() {
        let shown = bytes.get(..SHOWN.min(bytes.len())).unwrap_or_default();
        d.hold("data", show::hex(shown));
        show::hexdump(d, shown);
    }
}

fn set_attr(d: &mut Dump, body: &Body, level: u8) {
    let Body::SetAttr { object, mask, mode, uid, gid, size, atime, mtime, attrs } = body else {
        return;
    };
    for (k, n) in [
        ("foid", object),
        ("mask", mask),
        ("mode", mode),
        ("uid", uid),
        ("gid", gid),
        ("size", size),
    ] {
        d.hold(k, *n);
    }
    d.note(format_args!("foid {object}, mask {mask:#x}"));
    // Bits of Linux; other systems number them differently, so all fields are shown at level 5.
    let set = |bit: u64| mask & bit != 0 || level >= 5;
    if set(0x1) {
        d.note(format_args!("AT_MODE  {mode:o}"));
    }
    if set(0x2) {
        d.note(format_args!("AT_UID   {uid}"));
    }
    if set(0x4) {
        d.note(format_args!("AT_GID   {gid}"));
    }
    if set(0x8) {
        d.note(format_args!("AT_SIZE  {size}"));
    }
    for (bit, key, [s, ns]) in [(0x10, "AT_ATIME", atime), (0x20, "AT_MTIME", mtime)] {
        d.hold(key, json!({"s": s, "ns": ns}));
        if set(bit) {
            d.note(format_args!("{key} {s}.{ns:09} {}", show::time(s.cast_signed())));
        }
    }
    if let Some(a) = attrs.as_ref().filter(|_| level >= 5) {
        extra_attributes(d, a);
    }
}
