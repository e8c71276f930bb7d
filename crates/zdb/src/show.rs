//! How single values look: block pointers, times, bytes, histograms, hexadecimal dumps.

use super::dump::Dump;
use engine::inside::ondisk::{
    BlkPtr, Checksum, Compression, EmbeddedKind, Endian, NvList, NvValue,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use term::human;

/// A checksum's or key's words.
pub(crate) fn words(words: [u64; 4]) -> String {
    let [a, b, c, d] = words;
    format!("{a:016x}:{b:016x}:{c:016x}:{d:016x}")
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    engine::hex::encode(bytes)
}

/// Text that may be any bytes: as it is when it is printable, else each byte as a number.
pub(crate) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(s) if !s.chars().any(char::is_control) => s.to_owned(),
        _ => bytes.iter().fold(String::new(), |mut s, b| {
            let _ = write!(s, "\\{b:03o}");
            s
        }),
    }
}

/// Seconds since 1970 as a date. The calendar repeats after 400 years, days of the week too, so a
/// time before 1970 is shown as one 400 years later with another year.
pub(crate) fn time(seconds: i64) -> String {
    const CYCLE: i64 = 146_097 * 86_400;
    if let Ok(after) = u64::try_from(seconds) {
        return human::ctime(after);
    }
    let later = seconds.checked_add(CYCLE).and_then(|s| u64::try_from(s).ok());
    let Some(date) = later.map(human::ctime) else { return format!("{seconds} s") };
    let (day, year) = date.rsplit_once(' ').unwrap_or_default();
    format!("{day} {}", year.parse::<i64>().unwrap_or(0) - 400)
}

/// Name of a compression algorithm in block pointers and dnodes.
pub(crate) fn compression(c: Compression) -> String {
    if c == Compression::OFF { "uncompressed".to_owned() } else { c.to_string() }
}

/// How a block is protected by encryption.
pub(crate) fn crypt(bp: &BlkPtr) -> &'static str {
    match () {
        () if bp.is_encrypted() => "encrypted",
        () if bp.is_authenticated() => "authenticated",
        () if bp.has_indirect_mac() => "indirect-MAC",
        () => "unencrypted",
    }
}

fn endian(e: Endian) -> &'static str {
    if e == Endian::Little { "LE" } else { "BE" }
}

/// Number of the kind of embedded payload.
pub(crate) fn embedded_number(bp: &BlkPtr) -> u8 {
    match bp.embedded_kind() {
        EmbeddedKind::Data => 0,
        EmbeddedKind::Reserved => 1,
        EmbeddedKind::Redacted => 2,
        EmbeddedKind::Unknown(n) => n,
    }
}

/// How many copies; gang blocks count the copies of their headers.
fn copies(bp: &BlkPtr) -> &'static str {
    ["zero", "single", "double", "triple"].get(bp.dvas().count()).copied().unwrap_or("many")
}

fn dva(d: engine::inside::ondisk::Dva) -> String {
    format!("{}:{:x}:{:x}", d.vdev(), d.offset(), d.asize())
}

/// A block pointer in one line with everything in it.
pub(crate) fn bp(bp: &BlkPtr) -> String {
    let (level, kind) = (bp.level(), bp.dmu_type());
    let head = format!("[L{level} {kind}]");
    let (lsize, psize) = (bp.lsize(), bp.psize());
    let (birth, physical) = (bp.logical_birth(), bp.physical_birth());
    if bp.is_redacted() {
        return format!("REDACTED {head} size={lsize:x}L birth={birth}L");
    }
    if bp.is_embedded() {
        let (et, comp) = (embedded_number(bp), compression(bp.compression()));
        return format!("EMBEDDED {head} et={et} {comp} size={lsize:x}L/{psize:x}P birth={birth}L");
    }
    if bp.is_hole() {
        return format!("HOLE {head} size={lsize:x}L birth={birth}L");
    }
    let mut out = String::new();
    for (i, d) in bp.dvas() {
        let _ = write!(out, "DVA[{i}]=<{}> ", dva(d));
    }
    if bp.is_encrypted() {
        let w = bp.words();
        let _ = write!(out, "salt={:x} iv={:x}:{:x} ", w[4], w[5], w[11] >> 32);
    }
    let form = if bp.is_gang() { "gang" } else { "contiguous" };
    let dedup = if bp.is_dedup() { "dedup" } else { "unique" };
    let _ = write!(
        out,
        "{head} {} {} {} {} {form} {dedup} {} size={lsize:x}L/{psize:x}P \
         birth={birth}L/{physical}P fill={} cksum={}",
        bp.checksum_kind(),
        compression(bp.compression()),
        crypt(bp),
        endian(bp.byteorder()),
        copies(bp),
        bp.fill(),
        words(bp.checksum()),
    );
    out
}

/// A block pointer in a list of an object's blocks, whose kind is known from its place. `all`:
/// every copy, not only the first.
pub(crate) fn bp_short(bp: &BlkPtr, all: bool) -> String {
    let (lsize, psize) = (bp.lsize(), bp.psize());
    let birth = bp.logical_birth();
    if bp.is_embedded() {
        let et = embedded_number(bp);
        return format!("EMBEDDED et={et} {lsize:x}L/{psize:x}P B={birth}");
    }
    if bp.is_hole() {
        return format!("{lsize:x}L B={birth}");
    }
    let mut out = String::new();
    for (_, d) in bp.dvas().take(if all { 3 } else { 1 }) {
        let _ = write!(out, "{} ", dva(d));
    }
    let (fill, physical, sum) = (bp.fill(), bp.physical_birth(), words(bp.checksum()));
    let _ = write!(out, "{lsize:x}L/{psize:x}P F={fill} B={birth}/{physical} cksum={sum}");
    out
}

/// A block pointer as JSON.
pub(crate) fn bp_json(bp: &BlkPtr) -> Value {
    let mut v = json!({
        "level": bp.level(), "type": bp.dmu_type().to_string(), "lsize": bp.lsize(),
        "birth": bp.logical_birth(),
    });
    let Some(m) = v.as_object_mut() else { return v };
    if bp.is_hole() {
        m.insert("hole".into(), true.into());
        return v;
    }
    let comp = compression(bp.compression());
    m.insert("psize".into(), bp.psize().into());
    m.insert("compression".into(), comp.into());
    m.insert("byteorder".into(), endian(bp.byteorder()).into());
    if bp.is_embedded() {
        m.insert("embedded".into(), embedded_number(bp).into());
        m.insert("payload".into(), hex(&bp.embedded_payload()).into());
        return v;
    }
    let dvas = bp.dvas().map(|(i, d)| {
        json!({"copy": i, "vdev": d.vdev(), "offset": d.offset(), "asize": d.asize(),
               "gang": d.is_gang()})
    });
    m.insert("dvas".into(), dvas.collect());
    m.insert("checksum".into(), bp.checksum_kind().to_string().into());
    m.insert("cksum".into(), words(bp.checksum()).into());
    m.insert("physical_birth".into(), bp.physical_birth().into());
    m.insert("fill".into(), bp.fill().into());
    m.insert("gang".into(), bp.is_gang().into());
    m.insert("dedup".into(), bp.is_dedup().into());
    m.insert("crypt".into(), crypt(bp).into());
    if bp.is_encrypted() {
        m.insert("salt".into(), hex(&bp.crypt_salt()).into());
        m.insert("iv".into(), hex(&bp.crypt_iv()).into());
    }
    if bp.uses_crypt() && bp.checksum_kind() != Checksum::OFF {
        m.insert("mac".into(), hex(&bp.crypt_mac()).into());
    }
    v
}

/// A list of a label or of the MOS as JSON.
pub(crate) fn nvlist_json(list: &NvList) -> Value {
    let member = |p: &engine::inside::ondisk::NvPair| {
        (String::from_utf8_lossy(&p.name).into_owned(), nvvalue_json(&p.value))
    };
    Value::Object(list.pairs.iter().map(member).collect())
}

pub(crate) fn nvvalue_json(value: &NvValue) -> Value {
    let text = |s: &[u8]| Value::from(String::from_utf8_lossy(s).into_owned());
    match value {
        NvValue::Boolean => true.into(),
        NvValue::BooleanValue(v) => (*v).into(),
        NvValue::Byte(v) | NvValue::U8(v) => (*v).into(),
        NvValue::I8(v) => (*v).into(),
        NvValue::I16(v) => (*v).into(),
        NvValue::U16(v) => (*v).into(),
        NvValue::I32(v) => (*v).into(),
        NvValue::U32(v) => (*v).into(),
        NvValue::I64(v) | NvValue::Hrtime(v) => (*v).into(),
        NvValue::U64(v) => (*v).into(),
        NvValue::Double(v) => (*v).into(),
        NvValue::String(s) => text(s),
        NvValue::NvList(l) => nvlist_json(l),
        NvValue::BooleanArray(a) => a.clone().into(),
        NvValue::ByteArray(a) | NvValue::U8Array(a) => a.clone().into(),
        NvValue::I8Array(a) => a.clone().into(),
        NvValue::I16Array(a) => a.clone().into(),
        NvValue::U16Array(a) => a.clone().into(),
        NvValue::I32Array(a) => a.clone().into(),
        NvValue::U32Array(a) => a.clone().into(),
        NvValue::I64Array(a) => a.clone().into(),
        NvValue::U64Array(a) => a.clone().into(),
        NvValue::StringArray(a) => a.iter().map(|s| text(s)).collect(),
        NvValue::NvListArray(a) => a.iter().map(nvlist_json).collect(),
    }
}

/// Prints a list, moved in by `columns`.
pub(crate) fn nvlist(d: &mut Dump, name: &str, list: &NvList, columns: usize) {
    d.hold(name, nvlist_json(list));
    let text = format!("{list:columns$}");
    d.note(text.trim_end_matches('\n'));
}

/// Prints the buckets of a histogram from the first to the last that is not empty, each with a
/// bar; bucket `i` is called `i + offset`.
pub(crate) fn histogram(d: &mut Dump, name: &str, buckets: &[u64], offset: usize) {
    /// Longest bar.
    const WIDTH: u64 = 40;
    d.hold(name, buckets.to_vec());
    let Some(first) = buckets.iter().position(|n| *n > 0) else { return };
    let last = buckets.iter().rposition(|n| *n > 0).unwrap_or(first);
    let top = buckets.iter().copied().max().unwrap_or(1).max(WIDTH);
    for (i, n) in buckets.iter().enumerate().take(last + 1).skip(first) {
        let stars = n.saturating_mul(WIDTH).div_ceil(top) as usize;
        d.note(format_args!("\t\t\t{:3}: {n:6} {}", i + offset, "*".repeat(stars)));
    }
}

/// Prints bytes sixteen a line, as words in the order of memory, and as text.
pub(crate) fn hexdump(d: &mut Dump, bytes: &[u8]) {
    d.note("          0 1 2 3 4 5 6 7   8 9 a b c d e f  0123456789abcdef");
    for (i, line) in bytes.chunks(16).enumerate() {
        let mut left = hex(line.get(..8.min(line.len())).unwrap_or_default());
        let right = hex(line.get(8..).unwrap_or_default());
        let _ = write!(left, "{:w$}  {right:16}", "", w = 16 - left.len());
        let printable = |b: &u8| if (0x20..0x7f).contains(b) { char::from(*b) } else { '.' };
        let text: String = line.iter().map(printable).collect();
        d.note(format_args!("{:06x}:  {left}  {text}", i * 16));
    }
}
