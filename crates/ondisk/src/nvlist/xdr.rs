//! The XDR form: big-endian, everything in units of four bytes.
//!
//! ```text
//! list  = version:i32 flags:u32 pair* 0:u32 0:u32
//! pair  = encoded_size:u32 decoded_size:u32 name:string type:u32 elements:u32 value
//! ```
//!
//! `encoded_size` covers the whole pair, `decoded_size` is what the pair takes in the writer's
//! memory. Numbers below 64 bits take one unit, also inside arrays. A string is its length and
//! its bytes, padded. Arrays repeat the number of elements in front, with three exceptions: byte
//! arrays are plain bytes, padded; string and list arrays are just one after the other.

use super::{
    Endian, ErrorKind, HEADER_SIZE, MAX_DEPTH, NvList, NvPair, NvValue, Result, check_text, code,
    descend, error, native, size32,
};
use crate::cursor::{Reader, Writer};

/// Bytes of a pair with an empty name and no value.
const PAIR_MIN: usize = 20;

pub(super) fn decode(data: &[u8]) -> Result<(NvList, usize)> {
    let mut r = Reader::new("nvlist", data, Endian::Big);
    r.skip("header", HEADER_SIZE)?;
    let list = list(&mut r, MAX_DEPTH)?;
    Ok((list, r.at()))
}

fn list(r: &mut Reader<'_>, depth: u32) -> Result<NvList> {
    let start = r.at();
    let below = descend(depth, start)?;
    let version = r.u32("version")? as i32;
    if version != 0 {
        return Err(error("version", start, ErrorKind::Unknown { value: version as u64 }));
    }
    let flags = r.u32("flags")?;
    let mut pairs = Vec::new();
    loop {
        let at = r.at();
        let encoded = r.u32("encoded_size")? as usize;
        let decoded = r.u32("decoded_size")?;
        if encoded == 0 && decoded == 0 {
            break;
        }
        if encoded < PAIR_MIN || encoded - 8 > r.remaining() {
            let max = r.remaining() as u64 + 8;
            let kind = ErrorKind::OutOfRange { value: encoded as u64, min: PAIR_MIN as u64, max };
            return Err(error("encoded_size", at, kind));
        }
        let name = string(r, "name")?;
        let kind = r.u32("type")?;
        let n = r.u32("elements")?;
        let value = value(r, kind, n, below)?;
        if r.at() - at != encoded {
            let kind = ErrorKind::Inconsistent("the pair does not have the length it states");
            return Err(error("encoded_size", at, kind));
        }
        pairs.push(NvPair { name, value });
    }
    let list = NvList { version, flags, pairs };
    list.check_unique(start)?;
    Ok(list)
}

fn padded(r: &mut Reader<'_>, field: &'static str, n: usize) -> Result<Vec<u8>> {
    let bytes = r.bytes(field, n)?.to_vec();
    r.skip(field, n.next_multiple_of(4) - n)?;
    Ok(bytes)
}

fn string(r: &mut Reader<'_>, field: &'static str) -> Result<Vec<u8>> {
    let n = r.u32(field)? as usize;
    let at = r.at();
    let text = padded(r, field, n)?;
    check_text(field, at, &text)?;
    Ok(text)
}

fn value(r: &mut Reader<'_>, kind: u32, n: u32, depth: u32) -> Result<NvValue> {
    let at = r.at();
    if !is_array(kind) && n != u32::from(kind != code::BOOLEAN) {
        let kind = ErrorKind::Inconsistent("number of elements does not fit the type");
        return Err(error("elements", at, kind));
    }
    const F: &str = "value";
    Ok(match kind {
        code::BOOLEAN => NvValue::Boolean,
        code::BOOLEAN_VALUE => NvValue::BooleanValue(r.u32(F)? != 0),
        // Narrow numbers: some writers extend the sign into the unit, some do not.
        code::BYTE => NvValue::Byte(r.u32(F)? as u8),
        code::I8 => NvValue::I8(r.u32(F)? as i8),
        code::U8 => NvValue::U8(r.u32(F)? as u8),
        code::I16 => NvValue::I16(r.u32(F)? as i16),
        code::U16 => NvValue::U16(r.u32(F)? as u16),
        code::I32 => NvValue::I32(r.u32(F)? as i32),
        code::U32 => NvValue::U32(r.u32(F)?),
        code::I64 => NvValue::I64(r.u64(F)? as i64),
        code::U64 => NvValue::U64(r.u64(F)?),
        code::HRTIME => NvValue::Hrtime(r.u64(F)? as i64),
        code::DOUBLE => NvValue::Double(f64::from_bits(r.u64(F)?)),
        code::STRING => NvValue::String(string(r, F)?),
        code::NVLIST => NvValue::NvList(list(r, depth)?),
        code::BYTE_ARRAY => NvValue::ByteArray(padded(r, F, n as usize)?),
        code::BOOLEAN_ARRAY => NvValue::BooleanArray(array(r, n, |r| Ok(r.u32(F)? != 0))?),
        code::I8_ARRAY => NvValue::I8Array(array(r, n, |r| Ok(r.u32(F)? as i8))?),
        code::U8_ARRAY => NvValue::U8Array(array(r, n, |r| Ok(r.u32(F)? as u8))?),
        code::I16_ARRAY => NvValue::I16Array(array(r, n, |r| Ok(r.u32(F)? as i16))?),
        code::U16_ARRAY => NvValue::U16Array(array(r, n, |r| Ok(r.u32(F)? as u16))?),
        code::I32_ARRAY => NvValue::I32Array(array(r, n, |r| Ok(r.u32(F)? as i32))?),
        code::U32_ARRAY => NvValue::U32Array(array(r, n, |r| r.u32(F))?),
        code::I64_ARRAY => NvValue::I64Array(array(r, n, |r| Ok(r.u64(F)? as i64))?),
        code::U64_ARRAY => NvValue::U64Array(array(r, n, |r| r.u64(F))?),
        code::STRING_ARRAY => NvValue::StringArray(sequence(r, n, |r| string(r, F))?),
        code::NVLIST_ARRAY => NvValue::NvListArray(sequence(r, n, |r| list(r, depth))?),
        _ => return Err(error("type", at, ErrorKind::Unknown { value: kind.into() })),
    })
}

fn is_array(kind: u32) -> bool {
    matches!(
        kind,
        code::BYTE_ARRAY..=code::STRING_ARRAY
            | code::NVLIST_ARRAY
            | code::BOOLEAN_ARRAY..=code::U8_ARRAY
    )
}

/// An array with its length in front.
fn array<T>(
    r: &mut Reader<'_>,
    n: u32,
    one: impl Fn(&mut Reader<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let at = r.at();
    if r.u32("array length")? != n {
        let kind = ErrorKind::Inconsistent("array length differs from number of elements");
        return Err(error("array length", at, kind));
    }
    sequence(r, n, one)
}

/// `n` elements one after the other. Each takes bytes, so lying lengths end at the end of the
/// data, and no room is made ahead of what is read.
fn sequence<T>(
    r: &mut Reader<'_>,
    n: u32,
    one: impl Fn(&mut Reader<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    (0..n).map(|_| one(r)).collect()
}

pub(super) fn encode(list: &NvList, endian: Endian) -> Result<Vec<u8>> {
    let mut w = Writer::new(Endian::Big);
    w.u8(1).u8(u8::from(endian == Endian::Little)).zeros(2);
    put_list(&mut w, list, MAX_DEPTH)?;
    Ok(w.into_bytes())
}

fn put_list<'w>(w: &'w mut Writer, list: &NvList, depth: u32) -> Result<&'w mut Writer> {
    let below = descend(depth, w.at())?;
    w.u32(list.version as u32).u32(list.flags);
    for p in &list.pairs {
        check_text("name", w.at(), &p.name)?;
        let mut value = Writer::new(Endian::Big);
        put_value(&mut value, &p.value, below)?;
        let value = value.into_bytes();
        let encoded = PAIR_MIN + p.name.len().next_multiple_of(4) + value.len();
        let decoded = native::pair_size(p.name.len(), p.value.native_size());
        w.u32(size32("encoded_size", w.at(), encoded)?);
        w.u32(size32("decoded_size", w.at(), decoded)?);
        put_string(w, &p.name)?;
        w.u32(p.value.code());
        w.u32(size32("elements", w.at(), p.value.elements())?);
        w.bytes(&value);
    }
    Ok(w.zeros(8))
}

fn put_padded<'w>(w: &'w mut Writer, bytes: &[u8]) -> &'w mut Writer {
    w.bytes(bytes).zeros(bytes.len().next_multiple_of(4) - bytes.len())
}

fn put_string<'w>(w: &'w mut Writer, text: &[u8]) -> Result<&'w mut Writer> {
    check_text("string", w.at(), text)?;
    w.u32(size32("string", w.at(), text.len())?);
    Ok(put_padded(w, text))
}

fn put_array<'w, T: Copy>(
    w: &'w mut Writer,
    a: &[T],
    one: impl Fn(&mut Writer, T) -> &mut Writer,
) -> Result<&'w mut Writer> {
    w.u32(size32("array length", w.at(), a.len())?);
    for v in a {
        one(w, *v);
    }
    Ok(w)
}

fn put_value(w: &mut Writer, value: &NvValue, depth: u32) -> Result<()> {
    // Narrow signed numbers are not extended: that is what the kernel's XDR does.
    let _ = match value {
        NvValue::Boolean => w,
        NvValue::BooleanValue(v) => w.u32(u32::from(*v)),
        NvValue::Byte(v) | NvValue::U8(v) => w.u32((*v).into()),
        NvValue::I8(v) => w.u32(u32::from(*v as u8)),
        NvValue::I16(v) => w.u32(u32::from(*v as u16)),
        NvValue::U16(v) => w.u32((*v).into()),
        NvValue::I32(v) => w.u32(*v as u32),
        NvValue::U32(v) => w.u32(*v),
        NvValue::I64(v) | NvValue::Hrtime(v) => w.u64(*v as u64),
        NvValue::U64(v) => w.u64(*v),
        NvValue::Double(v) => w.u64(v.to_bits()),
        NvValue::String(s) => put_string(w, s)?,
        NvValue::NvList(l) => put_list(w, l, depth)?,
        NvValue::ByteArray(a) => put_padded(w, a),
        NvValue::BooleanArray(a) => put_array(w, a, |w, v| w.u32(v.into()))?,
        NvValue::I8Array(a) => put_array(w, a, |w, v| w.u32(u32::from(v as u8)))?,
        NvValue::U8Array(a) => put_array(w, a, |w, v| w.u32(v.into()))?,
        NvValue::I16Array(a) => put_array(w, a, |w, v| w.u32(u32::from(v as u16)))?,
        NvValue::U16Array(a) => put_array(w, a, |w, v| w.u32(v.into()))?,
        NvValue::I32Array(a) => put_array(w, a, |w, v| w.u32(v as u32))?,
        NvValue::U32Array(a) => put_array(w, a, |w, v| w.u32(v))?,
        NvValue::I64Array(a) => put_array(w, a, |w, v| w.u64(v as u64))?,
        NvValue::U64Array(a) => put_array(w, a, |w, v| w.u64(v))?,
        NvValue::StringArray(a) => a.iter().try_fold(w, |w, s| put_string(w, s))?,
        NvValue::NvListArray(a) => a.iter().try_fold(w, |w, l| put_list(w, l, depth))?,
    };
    Ok(())
}
