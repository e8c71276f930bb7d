//! Contents of ZAPs: the statistics of the table, then every entry.

use super::dump::Dump;
use super::show;
use engine::inside::dmu::Object;
use engine::inside::dmu::zap::{Zap, ZapEntry};
use engine::inside::ondisk::DmuType;
use engine::inside::ondisk::sa::AttrInfo;
use engine::inside::ondisk::zap::{Chunk, Leaf, LeafEntry, ZAP_MAGIC, ZapName};
use engine::inside::ondisk::znode::Dirent;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Values that are keys, salts and the like: bytes without a meaning as text.
const SECRETS: [&str; 6] = [
    "DSL_CRYPTO_MASTER_KEY_1",
    "DSL_CRYPTO_HMAC_KEY_1",
    "DSL_CRYPTO_IV",
    "DSL_CRYPTO_MAC",
    "org.illumos:checksum_salt",
    "DSL_CRYPTO_SALT",
];

/// What files are called in directories, by the type bits of their mode.
const DIRENT_TYPES: [&str; 16] = [
    "not specified",
    "FIFO",
    "Character Device",
    "3 (invalid)",
    "Directory",
    "5 (invalid)",
    "Block Device",
    "7 (invalid)",
    "Regular File",
    "9 (invalid)",
    "Symbolic Link",
    "11 (invalid)",
    "Socket",
    "Door",
    "Event Port",
    "15 (invalid)",
];

/// Prints a ZAP.
pub(crate) fn dump(d: &mut Dump, object: &Object) {
    let zap = match Zap::open(object) {
        Ok(z) => z,
        Err(e) => return d.fail(e),
    };
    statistics(d, &zap);
    d.blank();
    d.indent();
    d.indent();
    let kind = object.dnode().kind;
    for entry in zap.entries() {
        match entry {
            Ok(e) => one(d, &e, kind),
            Err(e) => d.fail(e),
        }
    }
    d.outdent();
    d.outdent();
    d.blank();
}

/// The key of an entry as text.
pub(crate) fn name(e: &ZapEntry) -> String {
    match &e.name {
        ZapName::Bytes(b) => show::text(b),
        ZapName::U64s(w) => {
            let mut out = String::new();
            for (i, w) in w.iter().enumerate() {
                let _ = write!(out, "{}0x{w:x}", if i > 0 { ":" } else { "" });
            }
            out
        }
    }
}

fn one(d: &mut Dump, e: &ZapEntry, kind: DmuType) {
    let name = name(e);
    let (value, text) = match kind {
        DmuType::DIRECTORY_CONTENTS => directory(e),
        DmuType::SA_ATTR_REGISTRATION => registration(e),
        _ => plain(e, &name, kind == DmuType::SA_ATTR_LAYOUTS),
    };
    d.push("entries", json!({"name": name, "int_len": e.int_len, "value": value}));
    d.note(format_args!("{name} = {text}"));
}

fn directory(e: &ZapEntry) -> (Value, String) {
    let Some(word) = e.ints().next() else { return (Value::Null, String::new()) };
    let entry = Dirent::decode(word);
    let kind = DIRENT_TYPES.get(usize::from(entry.kind)).copied().unwrap_or("?");
    let value = json!({"object": entry.object, "type": entry.kind});
    (value, format!("{} (type: {kind})", entry.object))
}

fn registration(e: &ZapEntry) -> (Value, String) {
    let word = e.u64().unwrap_or(0);
    match AttrInfo::decode(word) {
        Ok(i) => {
            let class = (word >> 16) as u8;
            let value = json!({"number": i.number, "length": i.length, "class": class});
            (value, format!(" {word:x} : [{}:{class}:{}]", i.length, i.number))
        }
        Err(error) => (word.into(), format!(" {word:x} : {error}")),
    }
}

fn plain(e: &ZapEntry, name: &str, brackets: bool) -> (Value, String) {
    if let Some(bytes) = e.value_bytes() {
        let bare = matches!(e.name, ZapName::U64s(_)) || SECRETS.contains(&name);
        if bare {
            let text = show::hex(bytes);
            return (text.clone().into(), text);
        }
        let text = show::text(e.value_text().unwrap_or(bytes));
        return (text.clone().into(), text);
    }
    let mut text = String::new();
    for n in e.ints() {
        // Numbers of 64 bits are signed in most of their uses.
        let _ = match (e.int_len, brackets) {
            (_, true) => write!(text, " {n} "),
            (8, _) => write!(text, "{} ", n.cast_signed()),
            _ => write!(text, "{n} "),
        };
    }
    if brackets {
        text = format!("[{text}]");
    }
    (e.ints().map(Value::from).collect(), text)
}

fn statistics(d: &mut Dump, zap: &Zap) {
    if let Some(m) = d.keep("microzap", zap.micro()).flatten() {
        let (size, n) = (zap.object().dnode().block_size(), m.iter().count());
        d.hold("microzap", json!({"size": size, "entries": n}));
        d.note(format_args!("\tmicrozap: {size} bytes, {n} entries"));
        return;
    }
    let Some(h) = zap.fat_header() else { return };
    d.indent();
    d.open("fat_zap", "Fat ZAP stats:");
    d.note("Pointer table:");
    d.indent();
    let elements = 1u64.checked_shl(h.table.shift as u32).unwrap_or(0);
    d.field("elements", elements, format_args!("{elements} elements"));
    for (name, n) in [
        ("zt_blk", h.table.block),
        ("zt_numblks", h.table.block_count),
        ("zt_shift", h.table.shift),
        ("zt_blks_copied", h.table.blocks_copied),
        ("zt_nextblk", h.table.next_block),
    ] {
        d.field(name, n, format_args!("{name}: {n}"));
    }
    d.outdent();
    d.field("zap_entries", h.entry_count, format_args!("ZAP entries: {}", h.entry_count));
    d.field("leaf_blocks", h.leaf_count, format_args!("Leaf blocks: {}", h.leaf_count));
    d.field("total_blocks", h.free_block, format_args!("Total blocks: {}", h.free_block));
    d.note("zap_block_type: 0x8000000000000001");
    d.note(format_args!("zap_magic: {ZAP_MAGIC:#x}"));
    d.field("zap_salt", h.salt, format_args!("zap_salt: {:#x}", h.salt));
    leaves(d, zap, h.table.shift);
    d.close();
    d.outdent();
}

/// How full the leaves are, in five histograms.
fn leaves(d: &mut Dump, zap: &Zap, shift: u64) {
    // The last of ten buckets counts all that is larger.
    let [mut pointers, mut fives, mut tenths, mut chunks, mut buckets] = [[0u64; 10]; 5];
    let add = |h: &mut [u64], i: usize| {
        let last = h.len() - 1;
        if let Some(n) = h.get_mut(i.min(last)) {
            *n += 1;
        }
    };
    for (_, leaf) in zap.leaves() {
        let leaf = match leaf {
            Ok(l) => l,
            Err(e) => {
                d.fail(e);
                continue;
            }
        };
        add(&mut pointers, shift.saturating_sub(leaf.prefix_len.into()) as usize);
        add(&mut fives, usize::from(leaf.entry_count) / 5);
        let all = leaf.chunk_count();
        let used = all.saturating_sub(leaf.free_count.into());
        let block = zap.object().dnode().block_size() as usize;
        // A free chunk counts 22 bytes, as OpenZFS has it: its text and the mark, not the link.
        let free = (all - used) * 22;
        add(&mut tenths, block.saturating_sub(free) * 10 / block.max(1));
        for e in leaf.chunks().filter_map(entry) {
            add(&mut chunks, chunk_count(&e));
        }
        for head in leaf.buckets() {
            add(&mut buckets, chain_length(&leaf, head));
        }
    }
    for (key, title, h) in [
        ("leafs_with_2n_pointers", "Leafs with 2^n pointers:", &pointers[..]),
        ("blocks_with_n5_entries", "Blocks with n*5 entries:", &fives[..]),
        ("blocks_n10_full", "Blocks n/10 full:", &tenths[..]),
        ("entries_with_n_chunks", "Entries with n chunks:", &chunks[..]),
        ("buckets_with_n_entries", "Buckets with n entries:", &buckets[..]),
    ] {
        d.note(title);
        show::histogram(d, key, h, 0);
    }
}

fn entry(chunk: Chunk) -> Option<LeafEntry> {
    if let Chunk::Entry(e) = chunk { Some(e) } else { None }
}

/// Chunks of an entry: its own, and those of name and value.
fn chunk_count(e: &LeafEntry) -> usize {
    /// Bytes of an array in one chunk.
    const ARRAY: usize = 21;
    let name = usize::from(e.name_len);
    let value = usize::from(e.value_len) * usize::from(e.int_len);
    1 + name.div_ceil(ARRAY) + value.div_ceil(ARRAY)
}

fn chain_length(leaf: &Leaf<'_>, head: u16) -> usize {
    let (mut at, mut n) = (head, 0);
    while let Some(e) = leaf.chunk(at).and_then(entry) {
        n += 1;
        at = e.next;
        if n > leaf.chunk_count() {
            break;
        }
    }
    n
}
