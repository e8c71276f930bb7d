//! System attributes: the typed fields of a file in its dnode's bonus and spill block.
//!
//! Specified in `docs/format/sa.md`. Each object set has a registry (attribute name to number,
//! length and byte-order class) and layouts (number to list of attributes), two ZAPs named by the
//! SA master node. A bonus or spill block is a header that names its layout, then the attributes
//! in the layout's order, each starting at a multiple of eight.
//!
//! ```text
//! 0 magic u32   4 layout number (10 bits) and header size / 8 (6 bits) u16
//! 6 lengths u16[]: one for each attribute of the layout whose registered length is 0
//! header size: first attribute
//! ```
//!
//! The byte order of header and attributes is that of the magic, not that of the block around it: a
//! dnode block is rewritten in the order of the machine, but attributes that were not changed stay.

pub mod places;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::cursor::{Endian, Reader, Writer};
use crate::error::{Error, ErrorKind, Result};

/// Magic number of the header.
pub const SA_MAGIC: u32 = 0x2F_505A;
/// Name of the registry in the SA master node.
pub const REGISTRY: &str = "REGISTRY";
/// Name of the layouts in the SA master node.
pub const LAYOUTS: &str = "LAYOUTS";
/// Entry of the file system's master node that names the SA master node.
pub const MASTER_NODE_ENTRY: &str = "SA_ATTRS";
/// Layout without attributes; layout 0 means the same in a bonus of type SA.
pub const LAYOUT_EMPTY: u16 = 1;
const LAYOUT_MAX: u16 = 0x3ff;
const HEADER_MIN: usize = 8;
/// Most attributes a layout can have: generous, the ZPL knows 22.
const LAYOUT_ATTRS_MAX: usize = 1024;

/// How an attribute's bytes are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrClass {
    /// 64-bit words.
    U64,
    /// 32-bit words.
    U32,
    /// 16-bit words.
    U16,
    /// Bytes.
    U8,
    /// An ACL of version 1.
    Acl,
}

impl AttrClass {
    fn from_number(n: u8) -> Option<Self> {
        [Self::U64, Self::U32, Self::U16, Self::U8, Self::Acl].get(usize::from(n)).copied()
    }

    fn number(self) -> u8 {
        match self {
            Self::U64 => 0,
            Self::U32 => 1,
            Self::U16 => 2,
            Self::U8 => 3,
            Self::Acl => 4,
        }
    }
}

/// The registry's entry of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttrInfo {
    /// Its number in this object set.
    pub number: u16,
    /// Its length in bytes; 0: variable, given in each header.
    pub length: u16,
    /// Its byte-order class.
    pub class: AttrClass,
}

impl AttrInfo {
    /// Decodes a value of the registry: number in bits 0 to 15, class in 16 to 23, length in 24
    /// to 39.
    pub fn decode(value: u64) -> Result<Self> {
        let class = (value >> 16) as u8;
        let Some(class) = AttrClass::from_number(class) else {
            return Err(table_error("registry class", ErrorKind::Unknown { value: class.into() }));
        };
        Ok(Self { number: value as u16, length: (value >> 24) as u16, class })
    }

    /// The value for the registry.
    #[must_use]
    pub fn encode(&self) -> u64 {
        u64::from(self.number) | u64::from(self.class.number()) << 16 | u64::from(self.length) << 24
    }
}

fn table_error(field: &'static str, kind: ErrorKind) -> Error {
    Error { structure: "sa tables", field, offset: 0, kind }
}

/// The header of a bonus or spill block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaHeader {
    /// Number of the layout.
    pub layout: u16,
    /// Bytes before the first attribute.
    pub size: usize,
    /// All lengths the header has room for, used or not.
    pub lengths: Vec<u16>,
    /// Byte order of the header and the attributes.
    pub endian: Endian,
}

impl SaHeader {
    /// Decodes the header; the magic determines the byte order.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut r = Reader::new("sa header", data, Endian::Little);
        let magic = r.u32("magic")?;
        let endian = match magic {
            SA_MAGIC => Endian::Little,
            m if m.swap_bytes() == SA_MAGIC => Endian::Big,
            found => {
                let kind = ErrorKind::BadMagic { found: found.into() };
                return Err(Reader::new("sa header", data, Endian::Little).error("magic", kind));
            }
        };
        let mut r = Reader::new("sa header", data, endian);
        r.skip("magic", 4)?;
        let info = r.u16("layout_info")?;
        let size = usize::from(info >> 10) * 8;
        if size < HEADER_MIN || size > data.len() {
            let (min, max) = (HEADER_MIN as u64, data.len() as u64);
            let kind = ErrorKind::OutOfRange { value: size as u64, min, max };
            return Err(r.error("header size", kind));
        }
        let mut lengths = Vec::with_capacity((size - 6) / 2);
        while r.at() < size {
            lengths.push(r.u16("lengths")?);
        }
        Ok(Self { layout: info & LAYOUT_MAX, size, lengths, endian })
    }

    /// The word this number of bytes behind the header of `data`, if there is one.
    #[must_use]
    pub fn word(&self, data: &[u8], at: usize) -> Option<u64> {
        let bytes = data.get(self.size.checked_add(at)?..)?.first_chunk::<8>()?;
        Some(self.endian.u64(*bytes))
    }
}

/// The places of some attributes of every file, in bytes behind the header: all programs that make
/// files put the same ones first, and in one order. So they are found without the tables.
pub mod first {
    /// Generation.
    pub const GEN: usize = 16;
    /// Owner.
    pub const UID: usize = 24;
    /// Group.
    pub const GID: usize = 32;
    /// Flags.
    pub const FLAGS: usize = 48;
    /// Project, of files that have one.
    pub const PROJID: usize = 128;
}

/// One attribute of a file, undecoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaValue {
    /// Its number in the registry.
    pub number: u16,
    /// Its stored bytes.
    pub bytes: Vec<u8>,
    /// Their order.
    pub endian: Endian,
}

impl SaValue {
    /// The value as 64-bit words; bytes behind the last whole word are left out.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.bytes.as_chunks::<8>().0.iter().map(|w| self.endian.u64(*w))
    }

    /// The first 64-bit word.
    #[must_use]
    pub fn u64(&self) -> Option<u64> {
        self.words().next()
    }

    /// The first two words: seconds since 1970 and nanoseconds.
    #[must_use]
    pub fn time(&self) -> Option<(i64, u64)> {
        let mut words = self.words();
        Some((words.next()? as i64, words.next()?))
    }
}

/// Attributes by number, and the place of each in a bonus or spill block.
pub type SaPlaces = Vec<(u16, Range<usize>)>;

/// The registry and the layouts of one object set.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SaTables {
    by_name: BTreeMap<Vec<u8>, AttrInfo>,
    by_number: BTreeMap<u16, AttrInfo>,
    layouts: BTreeMap<u16, Vec<u16>>,
}

impl SaTables {
    /// Builds the tables from the entries of the two ZAPs: registry (name, value) and layouts
    /// (layout number as decimal text, attribute numbers).
    ///
    /// Two attributes of one number, a layout name that is not a number up to 1023, or a layout
    /// with an unregistered attribute is an error.
    pub fn new<'a, L>(
        registry: impl IntoIterator<Item = (&'a [u8], u64)>,
        layouts: impl IntoIterator<Item = (&'a [u8], L)>,
    ) -> Result<Self>
    where
        L: IntoIterator<Item = u64>,
    {
        let mut tables = Self::default();
        for (name, value) in registry {
            let info = AttrInfo::decode(value)?;
            if tables.by_number.insert(info.number, info).is_some() {
                let kind = ErrorKind::Inconsistent("two attributes have the same number");
                return Err(table_error("registry", kind));
            }
            tables.by_name.insert(name.to_vec(), info);
        }
        tables.layouts.insert(LAYOUT_EMPTY, Vec::new());
        for (name, numbers) in layouts {
            let number = core::str::from_utf8(name).ok().and_then(|n| n.parse::<u16>().ok());
            let Some(number) = number.filter(|n| *n <= LAYOUT_MAX) else {
                return Err(table_error("layout number", ErrorKind::BadText));
            };
            let mut layout = Vec::new();
            for n in numbers {
                let known = u16::try_from(n).ok().filter(|n| tables.by_number.contains_key(n));
                let Some(n) = known.filter(|_| layout.len() < LAYOUT_ATTRS_MAX) else {
                    return Err(table_error("layout attribute", ErrorKind::Unknown { value: n }));
                };
                layout.push(n);
            }
            tables.layouts.insert(number, layout);
        }
        Ok(tables)
    }

    /// The registry's entry of the attribute of that name.
    #[must_use]
    pub fn attr(&self, name: &str) -> Option<AttrInfo> {
        self.by_name.get(name.as_bytes()).copied()
    }

    /// All attributes of the registry, by name.
    pub fn attrs(&self) -> impl Iterator<Item = (&[u8], AttrInfo)> {
        self.by_name.iter().map(|(name, info)| (name.as_slice(), *info))
    }

    /// The attribute numbers of a layout.
    #[must_use]
    pub fn layout(&self, number: u16) -> Option<&[u16]> {
        self.layouts.get(&number).map(Vec::as_slice)
    }

    /// The number of the layout with exactly these attributes in this order.
    #[must_use]
    pub fn find_layout(&self, attrs: &[u16]) -> Option<u16> {
        self.layouts.iter().find(|(_, l)| *l == attrs).map(|(n, _)| *n)
    }

    /// Registered length of the attribute of that number; 0: variable.
    #[must_use]
    pub fn length(&self, number: u16) -> Option<u16> {
        self.by_number.get(&number).map(|info| info.length)
    }

    /// Tables of which parts are lost: of the entries, those that fit together, and what OpenZFS
    /// registers under the numbers that it gives them in a new file system. Of the layouts, those
    /// whose attributes are all known.
    #[must_use]
    pub fn completed<'a, L>(
        registry: impl IntoIterator<Item = (&'a [u8], u64)>,
        layouts: impl IntoIterator<Item = (&'a [u8], L)>,
    ) -> Self
    where
        L: IntoIterator<Item = u64>,
    {
        let mut tables = Self::default();
        for (name, value) in registry {
            if let Ok(info) = AttrInfo::decode(value)
                && !tables.by_number.contains_key(&info.number)
            {
                tables.by_number.insert(info.number, info);
                tables.by_name.insert(name.to_vec(), info);
            }
        }
        for (number, (name, length, class)) in (0..).zip(ZPL_ATTRS) {
            // One that is known, or whose number another has, stays as it is.
            let _ = tables.add_attr(name, AttrInfo { number, length, class });
        }
        tables.layouts.insert(LAYOUT_EMPTY, Vec::new());
        for (name, numbers) in layouts {
            let number = core::str::from_utf8(name).ok().and_then(|n| n.parse::<u16>().ok());
            let known = |n: u64| u16::try_from(n).ok().filter(|n| tables.by_number.contains_key(n));
            let attrs = numbers.into_iter().take(LAYOUT_ATTRS_MAX).map(known);
            let attrs: Option<Vec<u16>> = attrs.collect();
            if let Some((number, attrs)) = number.filter(|n| *n <= LAYOUT_MAX).zip(attrs) {
                tables.layouts.insert(number, attrs);
            }
        }
        tables
    }

    /// Adds an attribute; one of that name or number is an error.
    pub fn add_attr(&mut self, name: &str, info: AttrInfo) -> Result<()> {
        let name = name.as_bytes();
        if self.by_name.contains_key(name) || self.by_number.contains_key(&info.number) {
            let kind = ErrorKind::Inconsistent("two attributes have the same number");
            return Err(table_error("registry", kind));
        }
        self.by_number.insert(info.number, info);
        self.by_name.insert(name.to_vec(), info);
        Ok(())
    }

    /// Adds a layout of these attributes, all registered, and returns its number: behind the
    /// largest there is, from 2 on as OpenZFS counts.
    pub fn add_layout(&mut self, attrs: &[u16]) -> Result<u16> {
        if let Some(n) = attrs.iter().find(|n| !self.by_number.contains_key(*n)) {
            let kind = ErrorKind::Unknown { value: u64::from(*n) };
            return Err(table_error("layout attribute", kind));
        }
        let largest = self.layouts.keys().next_back().copied().unwrap_or(LAYOUT_EMPTY);
        let number = largest.max(LAYOUT_EMPTY) + 1;
        if number > LAYOUT_MAX || attrs.len() > LAYOUT_ATTRS_MAX {
            let (value, max) = (number.into(), LAYOUT_MAX.into());
            let kind = ErrorKind::OutOfRange { value, min: 2, max };
            return Err(table_error("layout number", kind));
        }
        self.layouts.insert(number, attrs.to_vec());
        Ok(number)
    }

    /// Takes a bonus or spill block apart, in the layout's order.
    pub fn split(&self, data: &[u8]) -> Result<Vec<SaValue>> {
        let (endian, places) = self.places(data)?;
        let value = |(number, place): (u16, Range<usize>)| {
            let bytes = data.get(place).unwrap_or_default().to_vec();
            SaValue { number, bytes, endian }
        };
        Ok(places.into_iter().map(value).collect())
    }

    /// The places of the attributes of a bonus or spill block, in the layout's order, and the byte
    /// order of them all.
    ///
    /// # Errors
    /// Those of [`Self::split`].
    pub fn places(&self, data: &[u8]) -> Result<(Endian, SaPlaces)> {
        let header = SaHeader::decode(data)?;
        let mut r = Reader::new("system attributes", data, header.endian);
        let number = header.layout.max(LAYOUT_EMPTY);
        let Some(layout) = self.layout(number) else {
            return Err(r.error("layout", ErrorKind::Unknown { value: number.into() }));
        };
        r.seek("header", header.size)?;
        let mut lengths = header.lengths.iter();
        let mut out = Vec::with_capacity(layout.len());
        for n in layout {
            let registered = self.by_number.get(n).map_or(0, |info| info.length);
            let length = match registered {
                0 => lengths.next().copied(),
                fixed => Some(fixed),
            };
            let Some(length) = length else {
                let kind = ErrorKind::Inconsistent("fewer lengths than variable attributes");
                return Err(r.error("lengths", kind));
            };
            // The bonus may end with the last attribute, before its filler.
            let filler = (8 - r.at() % 8) % 8;
            r.skip("filler", filler)?;
            let start = r.at();
            r.skip("attribute", length.into())?;
            out.push((*n, start..r.at()));
        }
        Ok((header.endian, out))
    }

    /// All attributes of a file, of its bonus and its spill block if it has one.
    pub fn read<'t>(&'t self, bonus: &[u8], spill: Option<&[u8]>) -> Result<SaSet<'t>> {
        let mut values = self.split(bonus)?;
        if let Some(spill) = spill {
            values.extend(self.split(spill)?);
        }
        Ok(SaSet { tables: self, values })
    }

    /// Puts a bonus or spill block together: header, then the values, which must be those of the
    /// layout in its order and already in byte order `endian`.
    pub fn encode(&self, layout: u16, values: &[SaValue], endian: Endian) -> Result<Vec<u8>> {
        let values: Vec<_> = values.iter().map(|v| (v.number, v.bytes.as_slice())).collect();
        self.join(layout, &values, endian)
    }

    /// [`Self::encode`] of numbers and bytes.
    ///
    /// # Errors
    /// Those of [`Self::encode`].
    pub fn join(&self, layout: u16, values: &[(u16, &[u8])], endian: Endian) -> Result<Vec<u8>> {
        let attrs = self.layout(layout).unwrap_or(&[]);
        if self.layout(layout).is_none() || !attrs.iter().eq(values.iter().map(|(n, _)| n)) {
            let kind = ErrorKind::Inconsistent("the values are not those of the layout");
            return Err(table_error("layout", kind));
        }
        let mut lengths = Vec::new();
        for (number, bytes) in values {
            let registered = self.by_number.get(number).map_or(0, |info| info.length);
            let length = u16::try_from(bytes.len()).ok();
            match length {
                Some(n) if registered == 0 => lengths.push(n),
                Some(n) if registered == n => {}
                _ => {
                    let value = bytes.len() as u64;
                    let (min, max) = match registered {
                        0 => (0, u16::MAX.into()),
                        n => (n.into(), n.into()),
                    };
                    let kind = ErrorKind::OutOfRange { value, min, max };
                    return Err(table_error("length", kind));
                }
            }
        }
        let size = (6 + 2 * lengths.len().max(1)).next_multiple_of(8);
        let Some(size_units) = u16::try_from(size / 8).ok().filter(|n| *n < 64) else {
            let kind = ErrorKind::OutOfRange { value: size as u64, min: 8, max: 504 };
            return Err(table_error("header size", kind));
        };
        let mut w = Writer::new(endian);
        w.u32(SA_MAGIC).u16(layout | (size_units << 10));
        for n in lengths {
            w.u16(n);
        }
        w.pad_to(size);
        for (_, bytes) in values {
            w.pad_to(w.at().next_multiple_of(8));
            w.bytes(bytes);
        }
        w.pad_to(w.at().next_multiple_of(8));
        Ok(w.into_bytes())
    }
}

/// The attributes of one file.
#[derive(Clone, Debug)]
pub struct SaSet<'t> {
    tables: &'t SaTables,
    /// The values: those of the bonus, then those of the spill block, each in layout order.
    pub values: Vec<SaValue>,
}

impl SaSet<'_> {
    /// Values of these tables.
    #[must_use]
    pub fn new(tables: &SaTables, values: Vec<SaValue>) -> SaSet<'_> {
        SaSet { tables, values }
    }

    /// The attribute of that name, if the file has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SaValue> {
        let number = self.tables.attr(name)?.number;
        self.values.iter().find(|v| v.number == number)
    }

    /// The first word of the attribute of that name, if the file has it.
    #[must_use]
    pub fn u64(&self, name: &str) -> Option<u64> {
        self.get(name)?.u64()
    }
}

/// The attributes of files. Numbers are given by each object set; what counts is the name.
pub mod zpl {
    /// Access time: seconds, nanoseconds. 16 bytes.
    pub const ATIME: &str = "ZPL_ATIME";
    /// Modification time. 16 bytes.
    pub const MTIME: &str = "ZPL_MTIME";
    /// Change time. 16 bytes.
    pub const CTIME: &str = "ZPL_CTIME";
    /// Creation time. 16 bytes.
    pub const CRTIME: &str = "ZPL_CRTIME";
    /// Generation: the txg of creation. 8 bytes.
    pub const GEN: &str = "ZPL_GEN";
    /// Type and permissions. 8 bytes.
    pub const MODE: &str = "ZPL_MODE";
    /// Size in bytes; of directories the number of entries. 8 bytes.
    pub const SIZE: &str = "ZPL_SIZE";
    /// Object of a directory that has it. 8 bytes.
    pub const PARENT: &str = "ZPL_PARENT";
    /// Hard links. 8 bytes.
    pub const LINKS: &str = "ZPL_LINKS";
    /// Object of the directory of extended attributes. 8 bytes.
    pub const XATTR: &str = "ZPL_XATTR";
    /// Device number. 8 bytes.
    pub const RDEV: &str = "ZPL_RDEV";
    /// `ZFS_*` flags, see [`crate::znode::flags`]. 8 bytes.
    pub const FLAGS: &str = "ZPL_FLAGS";
    /// Owner, a FUID. 8 bytes.
    pub const UID: &str = "ZPL_UID";
    /// Group, a FUID. 8 bytes.
    pub const GID: &str = "ZPL_GID";
    /// Four words of the old znode. 32 bytes.
    pub const PAD: &str = "ZPL_PAD";
    /// The ACL structure of the old znode. 88 bytes.
    pub const ZNODE_ACL: &str = "ZPL_ZNODE_ACL";
    /// Entries of the ACL. 8 bytes.
    pub const DACL_COUNT: &str = "ZPL_DACL_COUNT";
    /// Target of a symbolic link. Variable.
    pub const SYMLINK: &str = "ZPL_SYMLINK";
    /// Stamp of a virus scanner. 32 bytes.
    pub const SCANSTAMP: &str = "ZPL_SCANSTAMP";
    /// The ACL's entries, version 1. Variable.
    pub const DACL_ACES: &str = "ZPL_DACL_ACES";
    /// Extended attributes: a packed name-value list. Variable.
    pub const DXATTR: &str = "ZPL_DXATTR";
    /// Project. 8 bytes.
    pub const PROJID: &str = "ZPL_PROJID";
}

/// The attributes OpenZFS registers in a file system, in its order: name, length, class.
pub const ZPL_ATTRS: [(&str, u16, AttrClass); 22] = [
    (zpl::ATIME, 16, AttrClass::U64),
    (zpl::MTIME, 16, AttrClass::U64),
    (zpl::CTIME, 16, AttrClass::U64),
    (zpl::CRTIME, 16, AttrClass::U64),
    (zpl::GEN, 8, AttrClass::U64),
    (zpl::MODE, 8, AttrClass::U64),
    (zpl::SIZE, 8, AttrClass::U64),
    (zpl::PARENT, 8, AttrClass::U64),
    (zpl::LINKS, 8, AttrClass::U64),
    (zpl::XATTR, 8, AttrClass::U64),
    (zpl::RDEV, 8, AttrClass::U64),
    (zpl::FLAGS, 8, AttrClass::U64),
    (zpl::UID, 8, AttrClass::U64),
    (zpl::GID, 8, AttrClass::U64),
    (zpl::PAD, 32, AttrClass::U64),
    (zpl::ZNODE_ACL, 88, AttrClass::U8),
    (zpl::DACL_COUNT, 8, AttrClass::U64),
    (zpl::SYMLINK, 0, AttrClass::U8),
    (zpl::SCANSTAMP, 32, AttrClass::U8),
    (zpl::DACL_ACES, 0, AttrClass::Acl),
    (zpl::DXATTR, 0, AttrClass::U8),
    (zpl::PROJID, 8, AttrClass::U64),
];
