//! Send streams, record by record and in sum, as `zstream dump` shows them.

use engine::config::{NvList, NvPair, NvValue};
use engine::hex;
use engine::send::{Gap, Package, SendStream};
use engine::spelling::in_line;
use engine::streams::{
    self, Algorithm, Body, Converted, Decompressed, RECORD_SIZE, Reader, Record,
};
use engine::{Progress, ResumeFault, ResumeToken, StreamFault, TokenFault};
use std::fmt::Write as _;
use std::io::Read;

/// Which kinds of records the sum has a line for, in its order.
const SUMMED: [usize; 9] = [0, 5, 1, 2, 3, 6, 8, 4, 7];

/// Why the rest of a stream cannot be sent, in the words of OpenZFS.
#[must_use]
pub fn not_resumed(fault: &ResumeFault) -> String {
    let corrupt = match fault {
        ResumeFault::Gone(name) => {
            return format!("'{name}' used in the initial send no longer exists");
        }
        ResumeFault::Another(name) => {
            return format!("'{name}' is no longer the same snapshot used in the initial send");
        }
        ResumeFault::SourceGone(guid) => {
            return format!("incremental source {guid:#x} no longer exists");
        }
        ResumeFault::NoObject(number) => {
            return format!("resume token is corrupt (there is no object {number})");
        }
        ResumeFault::Token(TokenFault::Form) => "invalid format",
        ResumeFault::Token(TokenFault::Version) => "unsupported version",
        ResumeFault::Token(TokenFault::Hexadecimal) => "payload is not hex-encoded",
        ResumeFault::Token(TokenFault::Checksum) => "incorrect checksum",
        ResumeFault::Token(TokenFault::Compression) => "decompression failed",
        ResumeFault::Token(TokenFault::List) => "malformed nvlist",
        other => return other.to_string(),
    };
    format!("resume token is corrupt ({corrupt})")
}

/// What is wrong with a stream, in the words of OpenZFS.
#[must_use]
pub fn fault(fault: &StreamFault) -> String {
    let fixed = match fault {
        StreamFault::Unread => "failed to read from stream",
        StreamFault::Incomplete => "incomplete stream",
        StreamFault::Checksum => "checksum mismatch",
        StreamFault::Magic => "invalid stream (bad magic number)",
        StreamFault::SnapshotName => "invalid stream (bad snapshot name)",
        StreamFault::List => "invalid stream (malformed nvlist)",
        StreamFault::Features(all, unknown) => {
            return format!(
                "stream has unsupported feature, feature flags = {all:x} (unknown flags = \
                 {unknown:x})"
            );
        }
        StreamFault::Record(what) => return format!("invalid backup stream: {what}"),
        other => return other.to_string(),
    };
    fixed.to_owned()
}

/// How much is shown of each record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Where streams begin and end.
    #[default]
    Ends,
    /// A line for each record.
    Records,
    /// And its checksum.
    Checksums,
    /// And its payload.
    Data,
}

/// Levels of zstd-fast.
const FAST_LEVELS: [i32; 21] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 500, 1000];
/// Bytes in a line of a payload, and in a group of it.
const LINE: usize = 16;
const GROUP: usize = 4;

/// Counts the records of a stream.
#[derive(Debug, Default)]
pub struct Dump {
    detail: Detail,
    records: [u64; Body::NAMES.len()],
    bytes: [u64; Body::NAMES.len()],
}

impl Dump {
    /// Nothing was read yet.
    #[must_use]
    pub fn new(detail: Detail) -> Self {
        Self { detail, ..Self::default() }
    }

    /// Reads a stream to its end and hands on the text of each record, and then the sum, also when
    /// the stream cannot be read further.
    ///
    /// # Errors
    /// Why it cannot be read further.
    pub fn run<R: Read>(
        mut self,
        input: &mut Reader<R>,
        mut out: impl FnMut(&str),
    ) -> streams::Result<()> {
        let read = self.records(input, &mut out);
        out(&self.sum(input.length()));
        read
    }

    fn records<R: Read>(
        &mut self,
        input: &mut Reader<R>,
        out: &mut impl FnMut(&str),
    ) -> streams::Result<()> {
        while let Some(record) = input.record()? {
            let number = record.body.number() as usize;
            if let Some(records) = self.records.get_mut(number) {
                *records += 1;
            }
            if let Some(bytes) = self.bytes.get_mut(number) {
                *bytes += record.payload_size();
            }
            let is_begin = matches!(record.body, Body::Begin(_));
            if self.detail >= Detail::Records || is_begin || matches!(record.body, Body::End(_)) {
                out(&line(&record));
            }
            if self.detail >= Detail::Records && is_begin {
                out("\n");
            }
            let payload = input.payload();
            match &payload {
                Ok(payload) if is_begin && !payload.is_empty() => out(&list_of(payload)),
                Ok(payload) if !is_begin && self.detail == Detail::Data => {
                    payload.chunks(LINE).for_each(|bytes| out(&bytes_line(bytes)));
                }
                _ => {}
            }
            if self.detail >= Detail::Checksums && !is_begin {
                out(&format!("    checksum = {}\n", words(&record.checksum)));
            }
            payload?;
        }
        Ok(())
    }

    /// How many records there were, and how long all was.
    fn sum(&self, length: u64) -> String {
        let mut out = "SUMMARY:\n".to_owned();
        for kind in SUMMED {
            let (name, count, bytes) = (Body::NAMES[kind], self.records[kind], self.bytes[kind]);
            let _ = writeln!(out, "\tTotal DRR_{name} records = {count} ({bytes} bytes)");
        }
        let (records, payload) = (self.records.iter().sum::<u64>(), self.bytes.iter().sum::<u64>());
        let _ = writeln!(out, "\tTotal records = {records}");
        let headers = records * RECORD_SIZE as u64;
        let sizes =
            [("payload size", payload), ("header overhead", headers), ("stream length", length)];
        for (name, bytes) in sizes {
            let _ = writeln!(out, "\tTotal {name} = {bytes} (0x{bytes:x})");
        }
        out
    }
}

/// The announcement of `zfs send -v`: the size of the stream of each snapshot, and of all; for
/// programs with `is_exact`.
///
/// # Errors
/// Those of [`Package::estimate`].
pub fn estimates(
    package: &Package<'_>,
    progress: &Progress,
    is_exact: bool,
) -> engine::Result<String> {
    let (mut text, mut sum) = (String::new(), 0_u64);
    for part in package.parts() {
        let size = package.estimate(part, progress)?;
        sum = sum.saturating_add(size);
        text.push_str(&estimate(&part.snapshot, package.announced_from(part), size, is_exact));
    }
    text.push_str(&total(sum, is_exact));
    Ok(text)
}

fn total(size: u64, is_exact: bool) -> String {
    match is_exact {
        true => format!("size\t{size}\n"),
        false => format!("total estimated size is {}\n", term::human::nicebytes(size)),
    }
}

fn estimate(name: &str, from: Option<&str>, size: u64, is_exact: bool) -> String {
    if is_exact {
        return match from {
            None => format!("full\t{name}\t{size}\n"),
            Some(from) => format!("incremental\t{from}\t{name}\t{size}\n"),
        };
    }
    let what = match from {
        None => format!("full send of {name}"),
        Some(from) if from.contains(['@', '#']) => format!("send from {from} to {name}"),
        Some(from) => format!("send from @{from} to {name}"),
    };
    format!("{what} estimated size is {}\n", term::human::nicebytes(size))
}

/// The warning of `zfs send -D`, which is accepted for compatibility.
pub const NOT_DEDUPLICATED: &str = "WARNING: deduplicated send is no longer supported.  A \
    regular,\nnon-deduplicated stream will be generated.\n\n";

/// The message of `zfs send` for a dataset that is not sent, or not as requested.
#[must_use]
pub fn gap(gap: &Gap) -> String {
    match gap {
        Gap::Skipped { dataset, snapshot } => format!(
            "WARNING: skipping dataset {dataset} and its children: snapshot {snapshot} does not \
             exist\n"
        ),
        Gap::NoSource { snapshot, from } => format!(
            "WARNING: could not send {snapshot}:\nincremental source ({from}) does not exist\n"
        ),
        Gap::NotEarlier { snapshot, from } => format!(
            "WARNING: could not send {snapshot}:\nincremental source ({from}) is not earlier than \
             it\n"
        ),
    }
}

/// The same of the rest of a stream, and what is in its token.
#[must_use]
pub fn rest(token: &ResumeToken, send: &SendStream<'_>, size: u64, is_exact: bool) -> String {
    let mut out = "resume token contents:\n".to_owned();
    list_lines(&mut out, &token.list(), 0);
    out.push_str(&estimate(send.name(), send.from(), size, is_exact));
    out.push_str(&total(size, is_exact));
    out
}

fn words(words: &[u64; 4]) -> String {
    let [a, b, c, d] = words;
    format!("{a:x}/{b:x}/{c:x}/{d:x}")
}

/// A line of a payload: its bytes as numbers, and as text.
fn bytes_line(bytes: &[u8]) -> String {
    let printable = |b: &u8| if (0x20..0x7f).contains(b) { char::from(*b) } else { '.' };
    let (mut numbers, mut text) = (String::new(), String::new());
    for group in bytes.chunks(GROUP) {
        for byte in group {
            // Writing to a String cannot fail.
            let _ = write!(numbers, " {byte:02x}");
        }
        numbers.push(' ');
        text.push(' ');
        text.extend(group.iter().map(printable));
    }
    let width = LINE / GROUP * (GROUP * 3 + 1);
    format!("{numbers:width$} {text}\n")
}

/// The contents of the token of a stream that was cut.
#[must_use]
pub fn token(token: &ResumeToken) -> String {
    let mut out = String::new();
    for pair in &token.list().pairs {
        let name = String::from_utf8_lossy(&pair.name);
        // Writing to a String cannot fail.
        let _ = match &pair.value {
            NvValue::U64(n) => writeln!(out, "     {name}: {n}"),
            NvValue::String(text) => {
                let text = String::from_utf8_lossy(text);
                writeln!(out, "     {name}: '{}'", in_line(&text))
            }
            NvValue::Boolean => writeln!(out, "     {name}"),
            other => writeln!(out, "     {name}: {}", value(other)),
        };
    }
    out
}

/// The result for a block that was to be decompressed.
#[must_use]
pub fn decompressed((object, offset): (u64, u64), what: Decompressed) -> String {
    match what {
        Decompressed::Done => format!("successfully decompressed ino {object} offset {offset}\n"),
        Decompressed::Reset => {
            format!("Resetting compression type to off for ino {object} offset {offset}\n")
        }
        Decompressed::Failed => {
            format!("zstream: decompression failed for ino {object} offset {offset}\n")
        }
    }
}

/// The counts of a stream with references to earlier blocks.
#[must_use]
pub fn converted(count: Converted) -> String {
    let Converted { records, references } = count;
    format!("converted stream with {records} total records, including {references} dedup records\n")
}

/// A compression by the name that it has as a property's value. A level that is not part of the
/// name is given beside it.
#[must_use]
pub fn compression(name: &str, level: Option<i32>) -> Option<Algorithm> {
    let (kind, level) = match name.strip_prefix("zstd-fast") {
        Some("") => ("zstd-fast", Some(1)),
        Some(text) => ("zstd-fast", Some(text.strip_prefix('-')?.parse().ok()?)),
        None => match name.split_once('-') {
            Some((kind @ ("gzip" | "zstd"), text)) => (kind, Some(text.parse().ok()?)),
            _ => (name, level),
        },
    };
    match (kind, level) {
        ("off", _) => Some(Algorithm::Off),
        ("lzjb", _) => Some(Algorithm::Lzjb),
        ("zle", _) => Some(Algorithm::Zle),
        ("lz4" | "on", _) => Some(Algorithm::Lz4),
        ("gzip", None | Some(1..=9)) => Some(Algorithm::Gzip(level.unwrap_or(6) as u8)),
        ("zstd", None | Some(1..=19)) => Some(Algorithm::Zstd(level.unwrap_or(3))),
        ("zstd-fast", Some(n)) if FAST_LEVELS.contains(&n) => Some(Algorithm::Zstd(-n)),
        _ => None,
    }
}

/// A block of a stream, and how it is compressed: `OBJECT,OFFSET`, or that and `,TYPE`.
///
/// # Errors
/// The fault of the text.
pub fn block(text: &str) -> Result<((u64, u64), Algorithm), String> {
    let parts: Vec<&str> = text.split(',').collect();
    let (object, offset, kind) = match parts[..] {
        [object, offset] => (object, offset, "lz4"),
        [object, offset, kind] => (object, offset, kind),
        _ => return Err("it is OBJECT,OFFSET or OBJECT,OFFSET,TYPE".to_owned()),
    };
    let number = |text: &str, what| text.parse().map_err(|_| format!("invalid value for {what}"));
    let place = (number(object, "object")?, number(offset, "offset")?);
    let known = "Supported types are off, lz4, lzjb, gzip, zle, and zstd";
    let algorithm = compression(kind, None);
    Ok((place, algorithm.ok_or(format!("Invalid compression type {kind}. {known}"))?))
}

/// A record as a line; BEGIN and END as many.
fn line(record: &Record) -> String {
    match &record.body {
        Body::Begin(b) => format!(
            "BEGIN record\n\thdrtype = {}\n\tfeatures = {:x}\n\tmagic = {:x}\n\tcreation_time = \
             {:x}\n\ttype = {}\n\tflags = 0x{:x}\n\ttoguid = {:x}\n\tfromguid = {:x}\n\ttoname = \
             {}\n\tpayloadlen = {}\n",
            b.kind(),
            b.features(),
            b.magic,
            b.creation_time,
            b.objset_kind,
            b.flags,
            b.to_guid,
            b.from_guid,
            in_line(&String::from_utf8_lossy(&b.to_name)),
            record.payload_len,
        ),
        Body::End(end) => format!("END checksum = {}\n", words(&end.checksum)),
        Body::Object(_) | Body::FreeObjects(_) | Body::ObjectRange(_) => of_objects(&record.body),
        body => of_data(body, record.payload_size()),
    }
}

fn of_objects(body: &Body) -> String {
    match body {
        Body::Object(o) => format!(
            "OBJECT object = {} type = {} bonustype = {} blksz = {} bonuslen = {} dn_slots = {} \
             raw_bonuslen = {} flags = {} maxblkid = {} indblkshift = {} nlevels = {} nblkptr = \
             {}\n",
            o.object,
            o.kind,
            o.bonus_kind,
            o.block_size,
            o.bonus_len,
            o.slots,
            o.raw_bonus_len,
            o.flags,
            o.max_block,
            o.indirect_shift,
            o.levels,
            o.pointers,
        ),
        Body::FreeObjects(f) => {
            format!("FREEOBJECTS firstobj = {} numobjs = {}\n", f.first, f.count)
        }
        Body::ObjectRange(r) => format!(
            "OBJECT_RANGE firstobj = {} numslots = {} flags = {} {}\n",
            r.first,
            r.slots,
            r.flags,
            secrets(&r.salt, &r.iv, &r.mac),
        ),
        _ => String::new(),
    }
}

fn of_data(body: &Body, payload: u64) -> String {
    match body {
        Body::Write(w) => format!(
            "WRITE object = {} type = {} checksum type = {} compression type = {} flags = {} \
             offset = {} logical_size = {} compressed_size = {} payload_size = {payload} props = \
             {:x} {}\n",
            w.object,
            w.kind,
            w.checksum_kind,
            w.compression,
            w.flags,
            w.offset,
            w.logical_size,
            w.compressed_size,
            w.key,
            secrets(&w.salt, &w.iv, &w.mac),
        ),
        Body::Free(f) => {
            let length = f.length.cast_signed();
            format!("FREE object = {} offset = {} length = {length}\n", f.object, f.offset)
        }
        Body::WriteByRef(w) => format!(
            "WRITE_BYREF object = {} checksum type = {} props = {:x} offset = {} length = {} \
             toguid = {:x} refguid = {:x} refobject = {} refoffset = {}\n",
            w.object,
            w.checksum_kind,
            w.key,
            w.offset,
            w.length,
            w.to_guid,
            w.ref_guid,
            w.ref_object,
            w.ref_offset,
        ),
        Body::Spill(s) => format!(
            "SPILL block for object = {} length = {} flags = {} compression type = {} \
             compressed_size = {} payload_size = {payload} {}\n",
            s.object,
            s.length,
            s.flags,
            s.compression,
            s.compressed_size,
            secrets(&s.salt, &s.iv, &s.mac),
        ),
        Body::WriteEmbedded(w) => format!(
            "WRITE_EMBEDDED object = {} offset = {} length = {} toguid = {:x} comp = {} etype = {} \
             lsize = {} psize = {}\n",
            w.object,
            w.offset,
            w.length,
            w.to_guid,
            w.compression,
            w.embedded_kind,
            w.logical_size,
            w.physical_size,
        ),
        Body::Redact(r) => {
            format!("REDACT object = {} offset = {} length = {}\n", r.object, r.offset, r.length)
        }
        _ => String::new(),
    }
}

/// How a block is encrypted.
fn secrets(salt: &[u8], iv: &[u8], mac: &[u8]) -> String {
    format!("salt = {} iv = {} mac = {}", hex::encode(salt), hex::encode(iv), hex::encode(mac))
}

/// The list of a BEGIN.
fn list_of(packed: &[u8]) -> String {
    match NvList::decode(packed) {
        Ok(list) => {
            let mut out = String::new();
            list_lines(&mut out, &list, 0);
            out
        }
        Err(e) => format!("the list of properties is damaged: {e}\n"),
    }
}

// Depth is bounded: lists come from the decoder.
fn list_lines(out: &mut String, list: &NvList, depth: usize) {
    let outer = "\t".repeat(depth);
    let _ = writeln!(out, "{outer}nvlist version: {}", list.version);
    for pair in &list.pairs {
        let name = in_line(&String::from_utf8_lossy(&pair.name));
        if let NvValue::NvList(inner) = &pair.value {
            let _ = writeln!(out, "{outer}\t{name} = (embedded nvlist)");
            list_lines(out, inner, depth + 1);
            let _ = writeln!(out, "{outer}\t(end {name})\n");
        } else {
            let _ = writeln!(out, "{outer}\t{name} = {}", value(&pair.value));
        }
    }
}

/// A value that is not a list: numbers without a sign in hexadecimal.
fn value(value: &NvValue) -> String {
    let each = |all: &mut dyn Iterator<Item = String>| all.collect::<Vec<_>>().join(" ");
    match value {
        NvValue::Boolean => "1".to_owned(),
        NvValue::BooleanValue(v) => u8::from(*v).to_string(),
        NvValue::Byte(v) => format!("0x{v:02x}"),
        NvValue::U8(v) => format!("0x{v:x}"),
        NvValue::U16(v) => format!("0x{v:x}"),
        NvValue::U32(v) => format!("0x{v:x}"),
        NvValue::U64(v) => format!("0x{v:x}"),
        NvValue::Hrtime(v) => format!("0x{v:x}"),
        NvValue::I8(v) => v.to_string(),
        NvValue::I16(v) => v.to_string(),
        NvValue::I32(v) => v.to_string(),
        NvValue::I64(v) => v.to_string(),
        NvValue::String(v) => in_line(&String::from_utf8_lossy(v)),
        NvValue::ByteArray(v) => each(&mut v.iter().map(|v| format!("0x{v:02x}"))),
        NvValue::U8Array(v) => each(&mut v.iter().map(|v| format!("0x{v:x}"))),
        NvValue::U16Array(v) => each(&mut v.iter().map(|v| format!("0x{v:x}"))),
        NvValue::U32Array(v) => each(&mut v.iter().map(|v| format!("0x{v:x}"))),
        NvValue::U64Array(v) => each(&mut v.iter().map(|v| format!("0x{v:x}"))),
        NvValue::StringArray(v) => {
            each(&mut v.iter().map(|v| in_line(&String::from_utf8_lossy(v))))
        }
        NvValue::Double(v) => v.to_string(),
        NvValue::BooleanArray(v) => each(&mut v.iter().map(|v| u8::from(*v).to_string())),
        NvValue::I8Array(v) => each(&mut v.iter().map(i8::to_string)),
        NvValue::I16Array(v) => each(&mut v.iter().map(i16::to_string)),
        NvValue::I32Array(v) => each(&mut v.iter().map(i32::to_string)),
        NvValue::I64Array(v) => each(&mut v.iter().map(i64::to_string)),
        NvValue::NvList(list) => within(list),
        NvValue::NvListArray(lists) => each(&mut lists.iter().map(within)),
    }
}

/// A list in a line.
// Depth is bounded: the decoder limits it.
fn within(list: &NvList) -> String {
    let pair = |pair: &NvPair| {
        let name = in_line(&String::from_utf8_lossy(&pair.name));
        format!("{name}={}", value(&pair.value))
    };
    format!("({})", list.pairs.iter().map(pair).collect::<Vec<_>>().join(" "))
}
