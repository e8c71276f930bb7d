//! The native form: the structures of the writer's memory, one after the other.
//!
//! ```text
//! list  = version:i32 flags:u32 pair* 0:i32
//! pair  = size:i32 name_size:i16 reserved:i16 elements:i32 type:i32
//!         name NUL, padded to 8 from the start of the pair
//!         value, padded to 8
//! ```
//!
//! `size` covers the pair up to its padded value. Values are as in memory: numbers of their own
//! width, booleans of four bytes, strings with their NUL. A string array has a pointer of eight
//! bytes for each string in front of them. A list in a list is an `nvlist_t` of 24 bytes (version,
//! flags and what means nothing on disk); its pairs and their ending zero follow *behind* the pair
//! that holds it. An array of lists is pointers, then that many `nvlist_t`, and the pairs of all
//! of them in turn behind. Pointers are zero on disk and are not looked at.

use super::{
    Endian, ErrorKind, HEADER_SIZE, MAX_DEPTH, NvList, NvPair, NvValue, Result, check_text, code,
    descend, error, size32,
};
use crate::cursor::{Reader, Writer};

/// Bytes of the structure `nvlist_t`.
pub(super) const LIST_SIZE: usize = 24;
/// Bytes of a pointer; 32-bit machines pad theirs.
pub(super) const POINTER_SIZE: usize = 8;
/// Bytes of a pair in front of its name.
const PAIR_HEADER: usize = 16;

/// Bytes of a pair: name (given without NUL) and value, each padded to eight.
pub(super) fn pair_size(name: usize, value: usize) -> usize {
    (PAIR_HEADER + name + 1).next_multiple_of(8) + value.next_multiple_of(8)
}

pub(super) fn decode(data: &[u8], endian: Endian) -> Result<(NvList, usize)> {
    let mut r = Reader::new("nvlist", data, endian);
    r.skip("header", HEADER_SIZE)?;
    let head = list_head(&mut r)?;
    let list = pairs(&mut r, head, MAX_DEPTH)?;
    Ok((list, r.at()))
}

/// A list without its pairs.
fn list_head(r: &mut Reader<'_>) -> Result<NvList> {
    let at = r.at();
    let version = r.u32("version")? as i32;
    if version != 0 {
        return Err(error("version", at, ErrorKind::Unknown { value: version as u64 }));
    }
    Ok(NvList { version, flags: r.u32("flags")?, pairs: Vec::new() })
}

fn pairs(r: &mut Reader<'_>, mut list: NvList, depth: u32) -> Result<NvList> {
    let start = r.at();
    let below = descend(depth, start)?;
    loop {
        let at = r.at();
        let size = r.u32("size")? as usize;
        if size == 0 {
            break;
        }
        let name_size = usize::from(r.u16("name_size")?);
        r.skip("reserved", 2)?;
        let n = r.u32("elements")? as usize;
        let kind = r.u32("type")?;
        let Some(name_len) = name_size.checked_sub(1) else {
            return Err(error("name_size", at, ErrorKind::BadText));
        };
        let name = text(r, "name", name_len)?;
        let front = pair_size(name_len, 0);
        let room = size.checked_sub(front).ok_or_else(|| misfit(at))?;
        r.skip("name", front - PAIR_HEADER - name_size)?;
        let mut value_reader = Reader::new("nvlist", r.bytes("value", room)?, r.endian());
        let mut value = value(&mut value_reader, kind, n, r.at() - room)?;
        if value.native_size().next_multiple_of(8) != room || value.elements() != n {
            return Err(misfit(at));
        }
        match &mut value {
            NvValue::NvList(l) => *l = pairs(r, core::mem::take(l), below)?,
            NvValue::NvListArray(a) => {
                for l in a {
                    *l = pairs(r, core::mem::take(l), below)?;
                }
            }
            _ => {}
        }
        list.pairs.push(NvPair { name, value });
    }
    list.check_unique(start)?;
    Ok(list)
}

fn misfit(at: usize) -> crate::error::Error {
    error("size", at, ErrorKind::Inconsistent("the pair does not have the length it states"))
}

/// `n` bytes and a NUL.
fn text(r: &mut Reader<'_>, field: &'static str, n: usize) -> Result<Vec<u8>> {
    let at = r.at();
    let text = r.bytes(field, n)?.to_vec();
    check_text(field, at, &text)?;
    if r.u8(field)? != 0 {
        return Err(error(field, at, ErrorKind::BadText));
    }
    Ok(text)
}

/// Bytes up to a NUL, which is consumed.
fn terminated(r: &mut Reader<'_>, at: usize) -> Result<Vec<u8>> {
    let mut rest = r.clone();
    let rest = rest.bytes("value", r.remaining())?;
    let n =
        rest.iter().position(|b| *b == 0).ok_or_else(|| error("value", at, ErrorKind::BadText))?;
    text(r, "value", n)
}

/// The value in the pair itself. `at` is where `r` starts in the packed list, for errors. Lists
/// come without their pairs.
fn value(r: &mut Reader<'_>, kind: u32, n: usize, at: usize) -> Result<NvValue> {
    const F: &str = "value";
    Ok(match kind {
        code::BOOLEAN => NvValue::Boolean,
        code::BOOLEAN_VALUE => NvValue::BooleanValue(r.u32(F)? != 0),
        code::BYTE => NvValue::Byte(r.u8(F)?),
        code::I8 => NvValue::I8(r.u8(F)? as i8),
        code::U8 => NvValue::U8(r.u8(F)?),
        code::I16 => NvValue::I16(r.u16(F)? as i16),
        code::U16 => NvValue::U16(r.u16(F)?),
        code::I32 => NvValue::I32(r.u32(F)? as i32),
        code::U32 => NvValue::U32(r.u32(F)?),
        code::I64 => NvValue::I64(r.u64(F)? as i64),
        code::U64 => NvValue::U64(r.u64(F)?),
        code::HRTIME => NvValue::Hrtime(r.u64(F)? as i64),
        code::DOUBLE => NvValue::Double(f64::from_bits(r.u64(F)?)),
        code::STRING => NvValue::String(terminated(r, at)?),
        code::NVLIST => NvValue::NvList(embedded(r)?),
        code::BYTE_ARRAY => NvValue::ByteArray(r.bytes(F, n)?.to_vec()),
        code::U8_ARRAY => NvValue::U8Array(r.bytes(F, n)?.to_vec()),
        code::I8_ARRAY => NvValue::I8Array(sequence(r, n, |r| Ok(r.u8(F)? as i8))?),
        code::BOOLEAN_ARRAY => NvValue::BooleanArray(sequence(r, n, |r| Ok(r.u32(F)? != 0))?),
        code::I16_ARRAY => NvValue::I16Array(sequence(r, n, |r| Ok(r.u16(F)? as i16))?),
        code::U16_ARRAY => NvValue::U16Array(sequence(r, n, |r| r.u16(F))?),
        code::I32_ARRAY => NvValue::I32Array(sequence(r, n, |r| Ok(r.u32(F)? as i32))?),
        code::U32_ARRAY => NvValue::U32Array(sequence(r, n, |r| r.u32(F))?),
        code::I64_ARRAY => NvValue::I64Array(sequence(r, n, |r| Ok(r.u64(F)? as i64))?),
        code::U64_ARRAY => NvValue::U64Array(sequence(r, n, |r| r.u64(F))?),
        code::STRING_ARRAY => {
            pointers(r, n)?;
            NvValue::StringArray(sequence(r, n, |r| terminated(r, at))?)
        }
        code::NVLIST_ARRAY => {
            pointers(r, n)?;
            NvValue::NvListArray(sequence(r, n, embedded)?)
        }
        _ => return Err(error("type", at, ErrorKind::Unknown { value: kind.into() })),
    })
}

fn pointers(r: &mut Reader<'_>, n: usize) -> Result<()> {
    r.skip("pointers", n.saturating_mul(POINTER_SIZE))
}

fn embedded(r: &mut Reader<'_>) -> Result<NvList> {
    let list = list_head(r)?;
    r.skip("nvlist_t", LIST_SIZE - 8)?;
    Ok(list)
}

/// `n` elements one after the other; each takes bytes, so a lying `n` ends at the end of the data.
fn sequence<T>(
    r: &mut Reader<'_>,
    n: usize,
    one: impl Fn(&mut Reader<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    (0..n).map(|_| one(r)).collect()
}

pub(super) fn encode(list: &NvList, endian: Endian) -> Result<Vec<u8>> {
    let mut w = Writer::new(endian);
    w.u8(0).u8(u8::from(endian == Endian::Little)).zeros(2);
    w.u32(list.version as u32).u32(list.flags);
    put_pairs(&mut w, list, MAX_DEPTH)?;
    Ok(w.into_bytes())
}

fn put_pairs(w: &mut Writer, list: &NvList, depth: u32) -> Result<()> {
    let below = descend(depth, w.at())?;
    for p in &list.pairs {
        let at = w.at();
        check_text("name", at, &p.name)?;
        let name_size = i16::try_from(p.name.len() + 1).map_err(|_| {
            let value = p.name.len() as u64 + 1;
            error("name_size", at, ErrorKind::OutOfRange { value, min: 1, max: i16::MAX as u64 })
        })?;
        let size = pair_size(p.name.len(), p.value.native_size());
        w.u32(size32("size", at, size)?).u16(name_size as u16).u16(0);
        w.u32(size32("elements", at, p.value.elements())?).u32(p.value.code());
        w.bytes(&p.name);
        w.pad_to(at + pair_size(p.name.len(), 0));
        put_value(w, &p.value)?;
        w.pad_to(at + size);
        match &p.value {
            NvValue::NvList(l) => put_pairs(w, l, below)?,
            NvValue::NvListArray(a) => a.iter().try_for_each(|l| put_pairs(w, l, below))?,
            _ => {}
        }
    }
    w.u32(0);
    Ok(())
}

fn put_embedded<'w>(w: &'w mut Writer, list: &NvList) -> &'w mut Writer {
    w.u32(list.version as u32).u32(list.flags).zeros(LIST_SIZE - 8)
}

fn put_string<'w>(w: &'w mut Writer, text: &[u8]) -> Result<&'w mut Writer> {
    check_text("string", w.at(), text)?;
    Ok(w.bytes(text).u8(0))
}

fn put_value(w: &mut Writer, value: &NvValue) -> Result<()> {
    let _ = match value {
        NvValue::Boolean => w,
        NvValue::BooleanValue(v) => w.u32(u32::from(*v)),
        NvValue::Byte(v) | NvValue::U8(v) => w.u8(*v),
        NvValue::I8(v) => w.u8(*v as u8),
        NvValue::I16(v) => w.u16(*v as u16),
        NvValue::U16(v) => w.u16(*v),
        NvValue::I32(v) => w.u32(*v as u32),
        NvValue::U32(v) => w.u32(*v),
        NvValue::I64(v) | NvValue::Hrtime(v) => w.u64(*v as u64),
        NvValue::U64(v) => w.u64(*v),
        NvValue::Double(v) => w.u64(v.to_bits()),
        NvValue::String(s) => put_string(w, s)?,
        NvValue::NvList(l) => put_embedded(w, l),
        NvValue::ByteArray(a) | NvValue::U8Array(a) => w.bytes(a),
        NvValue::I8Array(a) => a.iter().fold(w, |w, v| w.u8(*v as u8)),
        NvValue::BooleanArray(a) => a.iter().fold(w, |w, v| w.u32((*v).into())),
        NvValue::I16Array(a) => a.iter().fold(w, |w, v| w.u16(*v as u16)),
        NvValue::U16Array(a) => a.iter().fold(w, |w, v| w.u16(*v)),
        NvValue::I32Array(a) => a.iter().fold(w, |w, v| w.u32(*v as u32)),
        NvValue::U32Array(a) => a.iter().fold(w, |w, v| w.u32(*v)),
        NvValue::I64Array(a) => a.iter().fold(w, |w, v| w.u64(*v as u64)),
        NvValue::U64Array(a) => w.words(a),
        NvValue::StringArray(a) => {
            a.iter().try_fold(w.zeros(a.len() * POINTER_SIZE), |w, s| put_string(w, s))?
        }
        NvValue::NvListArray(a) => {
            a.iter().fold(w.zeros(a.len() * POINTER_SIZE), |w, l| put_embedded(w, l))
        }
    };
    Ok(())
}
