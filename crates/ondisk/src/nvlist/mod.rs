//! Name-value lists: self-describing trees of typed values, in both of their packed forms.
//!
//! Specified in `docs/format/nvlist.md`. Labels, the pool configuration, history records, stream
//! properties and SA extended attributes are such lists. A packed list starts with four bytes
//! that name the form (native or XDR) and the byte order of the machine that wrote it; XDR is
//! big-endian whatever the machine. [`NvList`] keeps order, version and flags, so that packing
//! what was unpacked gives the same bytes.
//!
//! Names and strings are bytes: extended attributes and file names need not be UTF-8.

mod native;
mod show;
mod xdr;

use std::collections::HashSet;

use crate::cursor::Endian;
use crate::error::{Error, ErrorKind, Result};

/// Deepest nesting of lists accepted and produced. The deepest OpenZFS writes is about eight.
pub const MAX_DEPTH: u32 = 24;
/// List flag: no two members have the same name.
pub const UNIQUE_NAME: u32 = 1;
/// List flag: no two members have the same name and type.
pub const UNIQUE_NAME_TYPE: u32 = 2;
/// Bytes in front of a packed list: encoding, byte order, two reserved.
pub const HEADER_SIZE: usize = 4;

/// Form of a packed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Structures as they lay in the writer's memory.
    Native,
    /// External data representation (RFC 4506): big-endian units of four bytes.
    Xdr,
}

/// The meaning of the first four bytes of a packed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Form of everything behind.
    pub encoding: Encoding,
    /// Byte order of the machine that packed the list; decides nothing in XDR.
    pub endian: Endian,
}

impl Packing {
    /// The form that OpenZFS writes to disk on x86 and ARM.
    pub const XDR: Self = Self { encoding: Encoding::Xdr, endian: Endian::Little };
    /// Native form of a little-endian machine.
    pub const NATIVE: Self = Self { encoding: Encoding::Native, endian: Endian::Little };
}

/// A list: members in the order in which they are packed.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct NvList {
    /// Version of the list format; always 0 so far.
    pub version: i32,
    /// [`UNIQUE_NAME`], [`UNIQUE_NAME_TYPE`] or 0.
    pub flags: u32,
    /// The members.
    pub pairs: Vec<NvPair>,
}

/// A member of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct NvPair {
    /// Its name, without a terminating NUL.
    pub name: Vec<u8>,
    /// Its value.
    pub value: NvValue,
}

/// A value. The comments name the type as OpenZFS does, where it differs.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the documentation")]
pub enum NvValue {
    /// Present, no value.
    Boolean,
    /// `boolean_value`.
    BooleanValue(bool),
    Byte(u8),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    /// `hrtime`: nanoseconds.
    Hrtime(i64),
    Double(f64),
    /// Bytes without NUL.
    String(Vec<u8>),
    NvList(NvList),
    BooleanArray(Vec<bool>),
    ByteArray(Vec<u8>),
    I8Array(Vec<i8>),
    U8Array(Vec<u8>),
    I16Array(Vec<i16>),
    U16Array(Vec<u16>),
    I32Array(Vec<i32>),
    U32Array(Vec<u32>),
    I64Array(Vec<i64>),
    U64Array(Vec<u64>),
    StringArray(Vec<Vec<u8>>),
    NvListArray(Vec<NvList>),
}

/// Numbers of the types in packed lists.
mod code {
    pub(super) const BOOLEAN: u32 = 1;
    pub(super) const BYTE: u32 = 2;
    pub(super) const I16: u32 = 3;
    pub(super) const U16: u32 = 4;
    pub(super) const I32: u32 = 5;
    pub(super) const U32: u32 = 6;
    pub(super) const I64: u32 = 7;
    pub(super) const U64: u32 = 8;
    pub(super) const STRING: u32 = 9;
    pub(super) const BYTE_ARRAY: u32 = 10;
    pub(super) const I16_ARRAY: u32 = 11;
    pub(super) const U16_ARRAY: u32 = 12;
    pub(super) const I32_ARRAY: u32 = 13;
    pub(super) const U32_ARRAY: u32 = 14;
    pub(super) const I64_ARRAY: u32 = 15;
    pub(super) const U64_ARRAY: u32 = 16;
    pub(super) const STRING_ARRAY: u32 = 17;
    pub(super) const HRTIME: u32 = 18;
    pub(super) const NVLIST: u32 = 19;
    pub(super) const NVLIST_ARRAY: u32 = 20;
    pub(super) const BOOLEAN_VALUE: u32 = 21;
    pub(super) const I8: u32 = 22;
    pub(super) const U8: u32 = 23;
    pub(super) const BOOLEAN_ARRAY: u32 = 24;
    pub(super) const I8_ARRAY: u32 = 25;
    pub(super) const U8_ARRAY: u32 = 26;
    pub(super) const DOUBLE: u32 = 27;
}

impl NvValue {
    fn code(&self) -> u32 {
        match self {
            Self::Boolean => code::BOOLEAN,
            Self::BooleanValue(_) => code::BOOLEAN_VALUE,
            Self::Byte(_) => code::BYTE,
            Self::I8(_) => code::I8,
            Self::U8(_) => code::U8,
            Self::I16(_) => code::I16,
            Self::U16(_) => code::U16,
            Self::I32(_) => code::I32,
            Self::U32(_) => code::U32,
            Self::I64(_) => code::I64,
            Self::U64(_) => code::U64,
            Self::Hrtime(_) => code::HRTIME,
            Self::Double(_) => code::DOUBLE,
            Self::String(_) => code::STRING,
            Self::NvList(_) => code::NVLIST,
            Self::BooleanArray(_) => code::BOOLEAN_ARRAY,
            Self::ByteArray(_) => code::BYTE_ARRAY,
            Self::I8Array(_) => code::I8_ARRAY,
            Self::U8Array(_) => code::U8_ARRAY,
            Self::I16Array(_) => code::I16_ARRAY,
            Self::U16Array(_) => code::U16_ARRAY,
            Self::I32Array(_) => code::I32_ARRAY,
            Self::U32Array(_) => code::U32_ARRAY,
            Self::I64Array(_) => code::I64_ARRAY,
            Self::U64Array(_) => code::U64_ARRAY,
            Self::StringArray(_) => code::STRING_ARRAY,
            Self::NvListArray(_) => code::NVLIST_ARRAY,
        }
    }

    /// Elements of an array; 1 for a single value and 0 for [`Self::Boolean`].
    #[must_use]
    pub fn elements(&self) -> usize {
        match self {
            Self::Boolean => 0,
            Self::BooleanArray(a) => a.len(),
            Self::ByteArray(a) | Self::U8Array(a) => a.len(),
            Self::I8Array(a) => a.len(),
            Self::I16Array(a) => a.len(),
            Self::U16Array(a) => a.len(),
            Self::I32Array(a) => a.len(),
            Self::U32Array(a) => a.len(),
            Self::I64Array(a) => a.len(),
            Self::U64Array(a) => a.len(),
            Self::StringArray(a) => a.len(),
            Self::NvListArray(a) => a.len(),
            _ => 1,
        }
    }

    /// Bytes of the value in the writer's memory. XDR states it too (as part of the decoded
    /// size), so both forms need it.
    fn native_size(&self) -> usize {
        let n = self.elements();
        match self {
            Self::Boolean => 0,
            Self::Byte(_) | Self::I8(_) | Self::U8(_) => 1,
            Self::I16(_) | Self::U16(_) => 2,
            Self::BooleanValue(_) | Self::I32(_) | Self::U32(_) => 4,
            Self::I64(_) | Self::U64(_) | Self::Hrtime(_) | Self::Double(_) => 8,
            Self::String(s) => s.len() + 1,
            Self::NvList(_) => native::LIST_SIZE,
            Self::ByteArray(_) | Self::I8Array(_) | Self::U8Array(_) => n,
            Self::I16Array(_) | Self::U16Array(_) => n * 2,
            Self::BooleanArray(_) | Self::I32Array(_) | Self::U32Array(_) => n * 4,
            Self::I64Array(_) | Self::U64Array(_) => n * 8,
            Self::StringArray(a) => {
                a.iter().map(|s| native::POINTER_SIZE + s.len() + 1).sum::<usize>()
            }
            Self::NvListArray(_) => n * (native::POINTER_SIZE + native::LIST_SIZE),
        }
    }
}

impl NvList {
    /// An empty list whose names are unique, as nearly all lists of ZFS are.
    #[must_use]
    pub fn new() -> Self {
        Self { version: 0, flags: UNIQUE_NAME, pairs: Vec::new() }
    }

    /// Unpacks a list; what follows it in `data` is not looked at.
    pub fn decode(data: &[u8]) -> Result<Self> {
        Ok(Self::decode_packed(data)?.0)
    }

    /// Unpacks a list, and returns its packing and its size in bytes.
    pub fn decode_packed(data: &[u8]) -> Result<(Self, Packing, usize)> {
        let header = data.first_chunk::<HEADER_SIZE>().ok_or_else(|| {
            let kind =
                ErrorKind::Truncated { needed: HEADER_SIZE as u64, available: data.len() as u64 };
            error("header", 0, kind)
        })?;
        let endian = match header[1] {
            0 => Endian::Big,
            1 => Endian::Little,
            n => return Err(error("endian", 1, ErrorKind::Unknown { value: n.into() })),
        };
        let (encoding, (list, used)) = match header[0] {
            0 => (Encoding::Native, native::decode(data, endian)?),
            1 => (Encoding::Xdr, xdr::decode(data)?),
            n => return Err(error("encoding", 0, ErrorKind::Unknown { value: n.into() })),
        };
        Ok((list, Packing { encoding, endian }, used))
    }

    /// Packs the list, header included. Fails where the packed form has no room: names of more
    /// than 32766 bytes, values of more than 2 GiB, NUL in names and strings, deeper nesting than
    /// [`MAX_DEPTH`].
    pub fn encode(&self, packing: Packing) -> Result<Vec<u8>> {
        match packing.encoding {
            Encoding::Native => native::encode(self, packing.endian),
            Encoding::Xdr => xdr::encode(self, packing.endian),
        }
    }

    /// The value of the first member of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&NvValue> {
        self.pairs.iter().find(|p| p.name == name.as_bytes()).map(|p| &p.value)
    }

    /// Replaces the value of the member of that name in place, or appends it.
    pub fn set(&mut self, name: &str, value: NvValue) -> &mut Self {
        match self.pairs.iter_mut().find(|p| p.name == name.as_bytes()) {
            Some(p) => p.value = value,
            None => self.pairs.push(NvPair { name: name.as_bytes().to_vec(), value }),
        }
        self
    }

    /// Removes the members of that name.
    pub fn remove(&mut self, name: &str) -> &mut Self {
        self.pairs.retain(|p| p.name != name.as_bytes());
        self
    }

    /// Members packed with the same name where the flags forbid it.
    fn check_unique(&self, at: usize) -> Result<()> {
        if self.flags & (UNIQUE_NAME | UNIQUE_NAME_TYPE) == 0 {
            return Ok(());
        }
        let by_name = self.flags & UNIQUE_NAME != 0;
        let mut seen = HashSet::with_capacity(self.pairs.len());
        for p in &self.pairs {
            let code = if by_name { 0 } else { p.value.code() };
            if !seen.insert((p.name.as_slice(), code)) {
                let kind = ErrorKind::Inconsistent("two members of one name in a unique list");
                return Err(error("name", at, kind));
            }
        }
        Ok(())
    }
}

/// Getters in pairs: `x` fails when the member is missing, `opt_x` says `None`; both fail when it
/// has another type. The error names the member.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident, $opt:ident -> $ty:ty: $pattern:pat => $value:expr;)*) => {
        impl NvList {
            $(
                $(#[$doc])*
                pub fn $opt(&self, name: &'static str) -> Result<Option<$ty>> {
                    match self.get(name) {
                        None => Ok(None),
                        Some($pattern) => Ok(Some($value)),
                        Some(_) => Err(error(name, 0, ErrorKind::WrongType)),
                    }
                }

                $(#[$doc])*
                pub fn $name(&self, name: &'static str) -> Result<$ty> {
                    self.$opt(name)?.ok_or_else(|| error(name, 0, ErrorKind::Missing))
                }
            )*
        }
    };
}

getters! {
    /// A `uint64`.
    u64, opt_u64 -> u64: NvValue::U64(v) => *v;
    /// An `int64`.
    i64, opt_i64 -> i64: NvValue::I64(v) => *v;
    /// A `uint32`.
    u32, opt_u32 -> u32: NvValue::U32(v) => *v;
    /// An `int32`.
    i32, opt_i32 -> i32: NvValue::I32(v) => *v;
    /// The bytes of a string.
    string, opt_string -> &[u8]: NvValue::String(v) => v.as_slice();
    /// A nested list.
    list, opt_list -> &NvList: NvValue::NvList(v) => v;
    /// An array of lists.
    lists, opt_lists -> &[NvList]: NvValue::NvListArray(v) => v.as_slice();
    /// An array of `uint64`.
    u64s, opt_u64s -> &[u64]: NvValue::U64Array(v) => v.as_slice();
    /// A `byte_array` or `uint8_array`.
    bytes, opt_bytes -> &[u8]: NvValue::ByteArray(v) | NvValue::U8Array(v) => v.as_slice();
    /// An array of strings.
    strings, opt_strings -> &[Vec<u8>]: NvValue::StringArray(v) => v.as_slice();
}

impl NvList {
    /// A string that must be UTF-8; `None` when missing.
    pub fn opt_text(&self, name: &'static str) -> Result<Option<&str>> {
        let text = self.opt_string(name)?.map(core::str::from_utf8).transpose();
        text.map_err(|_| error(name, 0, ErrorKind::BadText))
    }

    /// A string that must be UTF-8.
    pub fn text(&self, name: &'static str) -> Result<&str> {
        self.opt_text(name)?.ok_or_else(|| error(name, 0, ErrorKind::Missing))
    }

    /// A string for people: what is not UTF-8 is replaced. `None` when missing.
    pub fn opt_lossy(&self, name: &'static str) -> Result<Option<String>> {
        Ok(self.opt_string(name)?.map(|s| String::from_utf8_lossy(s).into_owned()))
    }

    /// A yes or no, however it is written: a `boolean` by being there, a `boolean_value`, or a
    /// number other than zero. Missing means no.
    pub fn flag(&self, name: &'static str) -> Result<bool> {
        match self.get(name) {
            None => Ok(false),
            Some(NvValue::Boolean) => Ok(true),
            Some(NvValue::BooleanValue(v)) => Ok(*v),
            Some(NvValue::U64(v)) => Ok(*v != 0),
            Some(NvValue::I32(v)) => Ok(*v != 0),
            Some(_) => Err(error(name, 0, ErrorKind::WrongType)),
        }
    }
}

fn error(field: &'static str, at: usize, kind: ErrorKind) -> Error {
    Error { structure: "nvlist", field, offset: at as u64, kind }
}

/// Depth left for the lists inside one that is itself allowed `depth` levels.
fn descend(depth: u32, at: usize) -> Result<u32> {
    depth.checked_sub(1).ok_or_else(|| error("list", at, ErrorKind::TooDeep { limit: MAX_DEPTH }))
}

/// Names and strings end at a NUL in memory, so none may be inside.
fn check_text(field: &'static str, at: usize, text: &[u8]) -> Result<()> {
    if text.contains(&0) { Err(error(field, at, ErrorKind::BadText)) } else { Ok(()) }
}

/// A size that the format keeps in a signed 32-bit number.
fn size32(field: &'static str, at: usize, size: usize) -> Result<u32> {
    let max = i32::MAX as u64;
    match u32::try_from(size) {
        Ok(n) if u64::from(n) <= max => Ok(n),
        _ => Err(error(field, at, ErrorKind::OutOfRange { value: size as u64, min: 0, max })),
    }
}
