//! Access control lists: NFSv4 lists as ZFS keeps them, and POSIX lists in an xattr.
//!
//! Specified in `docs/format/acl.md`. Every file has an NFSv4 list, mostly a trivial one that
//! corresponds to the mode. Its entries have two encodings: version 0, fixed 12 bytes, numeric ids
//! of 32 bits; version 1, of 8, 16 or 48 bytes, whose ids are FUIDs (see [`crate::fuid`]). The list
//! is embedded in the znode or, longer than its 72 bytes, in an object of its own; with system
//! attributes it is the attribute `ZPL_DACL_ACES`, always version 1.
//!
//! With `acltype=posix` the lists that Linux shows are the xattrs `system.posix_acl_access` and
//! `system.posix_acl_default`, little-endian on every machine.

use core::fmt::Write as _;

use crate::cursor::{Endian, Reader, Writer};
use crate::error::{ErrorKind, Result};

/// Bytes of a list that fit into a znode.
pub const EMBEDDED_ACL_SIZE: usize = 72;
/// Bytes of the ACL structure at the end of a znode.
pub const ACL_PHYS_SIZE: usize = 88;
/// Version with fixed entries and plain ids.
pub const VERSION_INITIAL: u16 = 0;
/// Version with entries of several sizes and FUIDs.
pub const VERSION_FUID: u16 = 1;
/// Most entries a list can have.
pub const ACE_COUNT_MAX: u64 = 1024;

/// Flag: the entry is for the owner.
pub const FLAG_OWNER: u16 = 0x1000;
/// Flag: the entry is for the owning group; always with [`FLAG_IDENTIFIER_GROUP`].
pub const FLAG_GROUP: u16 = 0x2000;
/// Flag: the entry is for everyone.
pub const FLAG_EVERYONE: u16 = 0x4000;
/// Flag: the id is that of a group.
pub const FLAG_IDENTIFIER_GROUP: u16 = 0x0040;
const FLAGS_WHO: u16 = FLAG_OWNER | FLAG_GROUP | FLAG_EVERYONE | FLAG_IDENTIFIER_GROUP;
const OWNING_GROUP: u16 = FLAG_GROUP | FLAG_IDENTIFIER_GROUP;

/// Entry type: allow.
pub const TYPE_ALLOW: u16 = 0;
/// Entry type: deny.
pub const TYPE_DENY: u16 = 1;
/// Types of the entries with two GUIDs, written by the CIFS server.
const TYPES_OBJECT: core::ops::RangeInclusive<u16> = 5..=8;

const OLD_ACE_SIZE: u64 = 12;

/// The subject of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AceWho {
    /// The owner of the file.
    Owner,
    /// The group of the file.
    OwningGroup,
    /// Everyone.
    Everyone,
    /// A user, by FUID.
    User(u64),
    /// A group, by FUID.
    Group(u64),
}

/// One entry of an NFSv4 list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ace {
    /// [`TYPE_ALLOW`], [`TYPE_DENY`], 2 audit, 3 alarm, 5 to 8 the same for objects.
    pub kind: u16,
    /// Inheritance and `FLAG_*`.
    pub flags: u16,
    /// Permissions, in the bits of NFSv4.
    pub mask: u32,
    /// The id as stored: 32 bits in version 0, a FUID in version 1, 0 where that has none.
    pub id: u64,
    /// Object type and inherited object type, with the types 5 to 8 of version 1.
    pub object: Option<[[u8; 16]; 2]>,
}

impl Ace {
    /// The subject of the entry.
    #[must_use]
    pub fn who(&self) -> AceWho {
        match self.flags & FLAGS_WHO {
            FLAG_OWNER => AceWho::Owner,
            OWNING_GROUP => AceWho::OwningGroup,
            FLAG_EVERYONE => AceWho::Everyone,
            f if f & FLAG_IDENTIFIER_GROUP != 0 => AceWho::Group(self.id),
            _ => AceWho::User(self.id),
        }
    }

    /// Whether version 1 leaves the id out.
    fn is_abstract(kind: u16, flags: u16) -> bool {
        matches!(kind, TYPE_ALLOW | TYPE_DENY)
            && matches!(flags & FLAGS_WHO, FLAG_OWNER | OWNING_GROUP | FLAG_EVERYONE)
    }

    fn decode_v0(r: &mut Reader<'_>) -> Result<Self> {
        let id = r.u32("who")?.into();
        let mask = r.u32("access_mask")?;
        let flags = r.u16("flags")?;
        Ok(Self { kind: r.u16("type")?, flags, mask, id, object: None })
    }

    fn decode_v1(r: &mut Reader<'_>) -> Result<Self> {
        let kind = r.u16("type")?;
        let flags = r.u16("flags")?;
        let mask = r.u32("access_mask")?;
        let id = if Self::is_abstract(kind, flags) { 0 } else { r.u64("fuid")? };
        let object = if TYPES_OBJECT.contains(&kind) {
            Some([r.array("object_type")?, r.array("inherit_type")?])
        } else {
            None
        };
        Ok(Self { kind, flags, mask, id, object })
    }
}

/// Decodes `count` entries that fill `data` exactly, but for up to 7 bytes of filler.
///
/// Errors when the version is unknown, the count too large for the bytes, or bytes are left.
pub fn decode_aces(data: &[u8], version: u16, count: u64, endian: Endian) -> Result<Vec<Ace>> {
    let mut r = Reader::new("acl", data, endian);
    // The smallest entry of version 1 has 8 bytes, all of version 0 have 12.
    let max = data.len() as u64 / if version == VERSION_INITIAL { OLD_ACE_SIZE } else { 8 };
    if count > max {
        return Err(r.error("count", ErrorKind::OutOfRange { value: count, min: 0, max }));
    }
    let mut out = Vec::with_capacity(count as usize);
    for _ in 0..count {
        out.push(match version {
            VERSION_INITIAL => Ace::decode_v0(&mut r)?,
            VERSION_FUID => Ace::decode_v1(&mut r)?,
            other => return Err(r.error("version", ErrorKind::Unknown { value: other.into() })),
        });
    }
    if r.remaining() >= 8 {
        return Err(r.error("entries", ErrorKind::Inconsistent("more bytes than entries")));
    }
    Ok(out)
}

/// Encodes entries one after the other, without filler.
#[must_use]
pub fn encode_aces(aces: &[Ace], version: u16, endian: Endian) -> Vec<u8> {
    let mut w = Writer::new(endian);
    for a in aces {
        if version == VERSION_INITIAL {
            w.u32(a.id as u32).u32(a.mask).u16(a.flags).u16(a.kind);
            continue;
        }
        w.u16(a.kind).u16(a.flags).u32(a.mask);
        if !Ace::is_abstract(a.kind, a.flags) {
            w.u64(a.id);
        }
        if let Some([object, inherited]) = &a.object {
            w.bytes(object).bytes(inherited);
        }
    }
    w.into_bytes()
}

/// The ACL structure at the end of a znode, 88 bytes.
///
/// ```text
/// 0 extern_obj u64   8 size u32 (version 0: count)   12 version u16
/// 14 count u16 (version 0: pad)   16..88 embedded entries
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclPhys {
    /// Object that holds the entries; 0: they are embedded.
    pub external_object: u64,
    /// [`VERSION_INITIAL`] or [`VERSION_FUID`].
    pub version: u16,
    /// Number of entries.
    pub count: u64,
    /// Bytes of all entries.
    pub size: u64,
    /// The embedded entries and what follows them.
    pub embedded: [u8; EMBEDDED_ACL_SIZE],
    pad: u16,
}

impl AclPhys {
    /// Decodes the structure at the start of `data`.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("znode acl", data, endian);
        let external_object = r.u64("extern_obj")?;
        let size_or_count = u64::from(r.u32("size")?);
        let version = r.u16("version")?;
        let count_or_pad = r.u16("count")?;
        let (count, size, pad) = match version {
            VERSION_INITIAL => (size_or_count, size_or_count * OLD_ACE_SIZE, count_or_pad),
            VERSION_FUID => (count_or_pad.into(), size_or_count, 0),
            other => return Err(r.error("version", ErrorKind::Unknown { value: other.into() })),
        };
        let embedded = r.array("ace_data")?;
        Ok(Self { external_object, version, count, size, embedded, pad })
    }

    /// Encodes the structure into 88 bytes.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.u64(self.external_object);
        match self.version {
            VERSION_INITIAL => w.u32(self.count as u32).u16(self.version).u16(self.pad),
            _ => w.u32(self.size as u32).u16(self.version).u16(self.count as u16),
        };
        w.bytes(&self.embedded);
        w.into_bytes()
    }

    /// The embedded entries; `None` when they are in an object of their own.
    pub fn embedded_aces(&self, endian: Endian) -> Result<Option<Vec<Ace>>> {
        if self.external_object != 0 {
            return Ok(None);
        }
        let Some(data) = usize::try_from(self.size).ok().and_then(|n| self.embedded.get(..n))
        else {
            let max = EMBEDDED_ACL_SIZE as u64;
            let kind = ErrorKind::OutOfRange { value: self.size, min: 0, max };
            return Err(Reader::new("znode acl", &[], endian).error("size", kind));
        };
        decode_aces(data, self.version, self.count, endian).map(Some)
    }
}

/// Name of the xattr with the access list.
pub const POSIX_ACCESS_XATTR: &str = "system.posix_acl_access";
/// Name of the xattr with the list new files in a directory inherit.
pub const POSIX_DEFAULT_XATTR: &str = "system.posix_acl_default";
const POSIX_VERSION: u32 = 2;

/// The subject of an entry of a POSIX list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PosixWho {
    /// The owner.
    UserObj,
    /// A named user.
    User(u32),
    /// The owning group.
    GroupObj,
    /// A named group.
    Group(u32),
    /// Upper bound for all but owner and others.
    Mask,
    /// All others.
    Other,
}

/// One entry of a POSIX list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PosixEntry {
    /// Its subject.
    pub who: PosixWho,
    /// 4 read, 2 write, 1 execute.
    pub permissions: u16,
    /// The id as stored; entries without one have -1 there.
    id: u32,
}

impl PosixEntry {
    /// An entry as Linux stores it.
    #[must_use]
    pub fn new(who: PosixWho, permissions: u16) -> Self {
        let id = match who {
            PosixWho::User(id) | PosixWho::Group(id) => id,
            _ => u32::MAX,
        };
        Self { who, permissions, id }
    }
}

/// Decodes the value of a `system.posix_acl_*` xattr.
pub fn decode_posix(value: &[u8]) -> Result<Vec<PosixEntry>> {
    let mut r = Reader::new("posix acl", value, Endian::Little);
    let version = r.u32("version")?;
    if version != POSIX_VERSION {
        return Err(r.error("version", ErrorKind::Unknown { value: version.into() }));
    }
    let mut out = Vec::with_capacity(r.remaining() / 8);
    while r.remaining() > 0 {
        let tag = r.u16("tag")?;
        let permissions = r.u16("perm")?;
        let id = r.u32("id")?;
        let who = match tag {
            0x01 => PosixWho::UserObj,
            0x02 => PosixWho::User(id),
            0x04 => PosixWho::GroupObj,
            0x08 => PosixWho::Group(id),
            0x10 => PosixWho::Mask,
            0x20 => PosixWho::Other,
            _ => return Err(r.error("tag", ErrorKind::Unknown { value: tag.into() })),
        };
        if permissions > 7 {
            let value = permissions.into();
            return Err(r.error("perm", ErrorKind::OutOfRange { value, min: 0, max: 7 }));
        }
        out.push(PosixEntry { who, permissions, id });
    }
    Ok(out)
}

/// Encodes the value of a `system.posix_acl_*` xattr.
#[must_use]
pub fn encode_posix(entries: &[PosixEntry]) -> Vec<u8> {
    let mut w = Writer::new(Endian::Little);
    w.u32(POSIX_VERSION);
    for e in entries {
        let tag = match e.who {
            PosixWho::UserObj => 0x01,
            PosixWho::User(_) => 0x02,
            PosixWho::GroupObj => 0x04,
            PosixWho::Group(_) => 0x08,
            PosixWho::Mask => 0x10,
            PosixWho::Other => 0x20,
        };
        w.u16(tag).u16(e.permissions).u32(e.id);
    }
    w.into_bytes()
}

/// The access list a file has through its mode alone.
#[must_use]
pub fn posix_from_mode(mode: u32) -> Vec<PosixEntry> {
    let bits = |shift: u32| ((mode >> shift) & 7) as u16;
    vec![
        PosixEntry::new(PosixWho::UserObj, bits(6)),
        PosixEntry::new(PosixWho::GroupObj, bits(3)),
        PosixEntry::new(PosixWho::Other, bits(0)),
    ]
}

/// The text `getfacl --omit-header --numeric --no-effective` prints for one file: a line for each
/// entry, those of the default list after the others. No line feed at the end.
#[must_use]
pub fn posix_text(access: &[PosixEntry], default: &[PosixEntry]) -> String {
    let mut out = String::new();
    for (prefix, list) in [("", access), ("default:", default)] {
        for e in list {
            let (tag, id) = match e.who {
                PosixWho::UserObj => ("user", None),
                PosixWho::User(id) => ("user", Some(id)),
                PosixWho::GroupObj => ("group", None),
                PosixWho::Group(id) => ("group", Some(id)),
                PosixWho::Mask => ("mask", None),
                PosixWho::Other => ("other", None),
            };
            let id = id.map(|id| id.to_string()).unwrap_or_default();
            let bit = |bit, letter| if e.permissions & bit != 0 { letter } else { '-' };
            let (r, w, x) = (bit(4, 'r'), bit(2, 'w'), bit(1, 'x'));
            if !out.is_empty() {
                out.push('\n');
            }
            // Writing to a String cannot fail.
            let _ = write!(out, "{prefix}{tag}:{id}:{r}{w}{x}");
        }
    }
    out
}
