//! Log records: what was done to which object, enough to do it again.
//!
//! ```text
//! 0 type u64 (bit 63: names are to be taken case-insensitively)   8 length of the record
//! 16 txg   24 sequence number   32 fields of the type, then names, data, lists
//! ```
//!
//! Records are padded to eight bytes. A record whose type is unknown is kept as bytes, so that a
//! log can be walked past it; it cannot be replayed.

use super::attrs::ExtraAttrs;
use crate::BlkPtr;
use crate::cursor::{Endian, Reader, Writer};
use crate::error::{ErrorKind, Result};

/// Bytes before the fields of the type.
pub const RECORD_HEADER_SIZE: usize = 32;

/// The size of most records without data and names, about.
const WITHOUT_DATA: usize = 256;
const CASE_INSENSITIVE: u64 = 1 << 63;

/// Type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TxType(pub u64);

#[allow(missing_docs, reason = "the names are the documentation; see docs/format/zil.md")]
impl TxType {
    pub const CREATE: Self = Self(1);
    pub const MKDIR: Self = Self(2);
    pub const MKXATTR: Self = Self(3);
    pub const SYMLINK: Self = Self(4);
    pub const REMOVE: Self = Self(5);
    pub const RMDIR: Self = Self(6);
    pub const LINK: Self = Self(7);
    pub const RENAME: Self = Self(8);
    pub const WRITE: Self = Self(9);
    pub const TRUNCATE: Self = Self(10);
    pub const SETATTR: Self = Self(11);
    pub const ACL_V0: Self = Self(12);
    pub const ACL: Self = Self(13);
    pub const CREATE_ACL: Self = Self(14);
    pub const CREATE_ATTR: Self = Self(15);
    pub const CREATE_ACL_ATTR: Self = Self(16);
    pub const MKDIR_ACL: Self = Self(17);
    pub const MKDIR_ATTR: Self = Self(18);
    pub const MKDIR_ACL_ATTR: Self = Self(19);
    pub const WRITE2: Self = Self(20);
    pub const SETSAXATTR: Self = Self(21);
    pub const RENAME_EXCHANGE: Self = Self(22);
    pub const RENAME_WHITEOUT: Self = Self(23);
    pub const CLONE_RANGE: Self = Self(24);
}

static NAMES: [&str; 25] = [
    "TX_COMMIT",
    "TX_CREATE",
    "TX_MKDIR",
    "TX_MKXATTR",
    "TX_SYMLINK",
    "TX_REMOVE",
    "TX_RMDIR",
    "TX_LINK",
    "TX_RENAME",
    "TX_WRITE",
    "TX_TRUNCATE",
    "TX_SETATTR",
    "TX_ACL_V0",
    "TX_ACL",
    "TX_CREATE_ACL",
    "TX_CREATE_ATTR",
    "TX_CREATE_ACL_ATTR",
    "TX_MKDIR_ACL",
    "TX_MKDIR_ATTR",
    "TX_MKDIR_ACL_ATTR",
    "TX_WRITE2",
    "TX_SETSAXATTR",
    "TX_RENAME_EXCHANGE",
    "TX_RENAME_WHITEOUT",
    "TX_CLONE_RANGE",
];

impl TxType {
    /// Name in OpenZFS's words; `None` for an unknown type.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        usize::try_from(self.0).ok().and_then(|n| NAMES.get(n)).copied()
    }

    /// Whether the record makes an object and has an ACL part.
    pub(super) fn has_acl(self) -> bool {
        matches!(
            self,
            Self::CREATE_ACL | Self::CREATE_ACL_ATTR | Self::MKDIR_ACL | Self::MKDIR_ACL_ATTR
        )
    }

    /// Whether the record makes an object and has further attributes.
    pub(super) fn has_attrs(self) -> bool {
        matches!(
            self,
            Self::CREATE_ATTR | Self::CREATE_ACL_ATTR | Self::MKDIR_ATTR | Self::MKDIR_ACL_ATTR
        )
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its type, without the case bit.
    pub kind: TxType,
    /// Names are to be looked up case-insensitively.
    pub case_insensitive: bool,
    /// Txg the change belongs to; once that is synced the record is void.
    pub txg: u64,
    /// Sequence number: grows by one from record to record of a log.
    pub seq: u64,
    /// The change.
    pub body: Body,
    /// Bytes between the body and the end of the record, as found.
    pub(super) tail: Vec<u8>,
}

/// The body of a record, by its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// `CREATE…`, `MKDIR…`, `MKXATTR`, `SYMLINK`.
    Create(Box<Create>),
    /// `REMOVE`, `RMDIR`.
    Remove {
        /// Object of the directory.
        directory: u64,
        /// Name removed.
        name: Vec<u8>,
    },
    /// `LINK`.
    Link {
        /// Object of the directory.
        directory: u64,
        /// Object that gets another name.
        object: u64,
        /// The new name.
        name: Vec<u8>,
    },
    /// `RENAME`, `RENAME_EXCHANGE`, `RENAME_WHITEOUT`.
    Rename {
        /// Object of the directory with the old name.
        source_directory: u64,
        /// Object of the directory with the new name.
        target_directory: u64,
        /// The replacement of the old name (`RENAME_WHITEOUT`).
        whiteout: Option<Whiteout>,
        /// Old name.
        source: Vec<u8>,
        /// New name.
        target: Vec<u8>,
    },
    /// `WRITE`, `WRITE2` (which has neither data nor a block).
    Write {
        /// The file; in a volume 1.
        object: u64,
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// Not used any more.
        block_offset: u64,
        /// The block with the data, when it was written directly; else a hole.
        block: Box<BlkPtr>,
        /// The data if it is in the record: `length` bytes; else empty.
        data: Vec<u8>,
    },
    /// `TRUNCATE`: free a range.
    Truncate {
        /// The file.
        object: u64,
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes; 0: to the end.
        length: u64,
    },
    /// `SETATTR`.
    SetAttr {
        /// The file.
        object: u64,
        /// Which fields count: bits of the operating system that wrote the log. On Linux 1 mode,
        /// 2 uid, 4 gid, 8 size, 0x10 atime, 0x20 mtime, 0x40 ctime.
        mask: u64,
        /// Mode.
        mode: u64,
        /// Owner.
        uid: u64,
        /// Group.
        gid: u64,
        /// Size.
        size: u64,
        /// Access time: seconds and nanoseconds.
        atime: [u64; 2],
        /// Modification time.
        mtime: [u64; 2],
        /// Further attributes.
        attrs: Option<Box<ExtraAttrs>>,
    },
    /// `ACL_V0`: the whole list, entries of version 0.
    AclV0 {
        /// The file.
        object: u64,
        /// Number of entries.
        count: u64,
        /// The entries, see [`crate::acl::decode_aces`].
        entries: Vec<u8>,
    },
    /// `ACL`: the whole list.
    Acl {
        /// The file.
        object: u64,
        /// The list.
        acl: AclPart,
    },
    /// `SETSAXATTR`: an extended attribute kept as a system attribute.
    SetSaXattr {
        /// The file.
        object: u64,
        /// Name of the attribute.
        name: Vec<u8>,
        /// Its value; empty to remove it.
        value: Vec<u8>,
    },
    /// `CLONE_RANGE`: blocks another file has already.
    CloneRange {
        /// The file that gets them.
        object: u64,
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// Block size of the file.
        block_size: u64,
        /// The blocks.
        blocks: Vec<BlkPtr>,
    },
    /// A type this implementation does not know.
    Unknown(Vec<u8>),
}

/// A new object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// Object of the directory.
    pub directory: u64,
    /// Number of the new object.
    pub object: u64,
    /// Dnode slots of the new object, 1 to 32 (8 bits on disk).
    pub slots: u16,
    /// Mode.
    pub mode: u64,
    /// Owner; in the log a FUID of its own when it has a domain.
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Generation.
    pub generation: u64,
    /// Creation time: seconds and nanoseconds.
    pub create_time: [u64; 2],
    /// Device number.
    pub rdev: u64,
    /// Further attributes (`…_ATTR`).
    pub attrs: Option<ExtraAttrs>,
    /// ACL (`…_ACL…`).
    pub acl: Option<AclPart>,
    /// Domains of owner and group where there is no ACL part.
    pub domains: Vec<Vec<u8>>,
    /// Name of the new object; empty for `MKXATTR`.
    pub name: Vec<u8>,
    /// Target of a symbolic link.
    pub link: Option<Vec<u8>>,
}

/// An ACL with the ids and domains its entries need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclPart {
    /// Number of entries.
    pub count: u64,
    /// Flags of the list.
    pub flags: u64,
    /// The entries, version 1, without filler. See [`crate::acl::decode_aces`].
    pub entries: Vec<u8>,
    /// FUIDs, with domain numbers into `domains`, counted from 1.
    pub fuids: Vec<u64>,
    /// Domain names.
    pub domains: Vec<Vec<u8>>,
    /// Filler after the entries, as found.
    pub(super) filler: Vec<u8>,
}

impl AclPart {
    /// A list as it is logged.
    #[must_use]
    pub fn new(count: u64, flags: u64, entries: Vec<u8>) -> Self {
        let filler = vec![0; entries.len().next_multiple_of(8) - entries.len()];
        Self { count, flags, entries, fuids: Vec::new(), domains: Vec::new(), filler }
    }
}

/// The whiteout a rename leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whiteout {
    /// Number of the new object.
    pub object: u64,
    /// Its dnode slots.
    pub slots: u16,
    /// Mode.
    pub mode: u64,
    /// Owner.
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Generation.
    pub generation: u64,
    /// Creation time.
    pub create_time: [u64; 2],
    /// Device number.
    pub rdev: u64,
}

/// Length in bytes of the record at the start of `bytes`: at least the header, at most what is
/// there, a multiple of eight.
pub(super) fn record_length(bytes: &[u8], endian: Endian) -> Result<usize> {
    let mut r = Reader::new("log record", bytes, endian);
    r.skip("txtype", 8)?;
    let value = r.u64("reclen")?;
    let (min, max) = (RECORD_HEADER_SIZE as u64, bytes.len() as u64);
    if !(min..=max).contains(&value) || value % 8 != 0 {
        return Err(r.error("reclen", ErrorKind::OutOfRange { value, min, max }));
    }
    Ok(value as usize)
}

impl Record {
    /// A new record.
    #[must_use]
    pub fn new(kind: TxType, txg: u64, seq: u64, body: Body) -> Self {
        Self { kind, case_insensitive: false, txg, seq, body, tail: Vec::new() }
    }

    /// Decodes a whole record; `bytes` ends where the record does.
    pub fn decode(bytes: &[u8], endian: Endian) -> Result<Self> {
        let length = record_length(bytes, endian)?;
        let mut r = Reader::new("log record", bytes.get(..length).unwrap_or(&[]), endian);
        let word = r.u64("txtype")?;
        let kind = TxType(word & !CASE_INSENSITIVE);
        r.skip("reclen", 8)?;
        let txg = r.u64("txg")?;
        let seq = r.u64("seq")?;
        let body = Body::read(kind, &mut r)?;
        let tail = r.bytes("tail", r.remaining())?.to_vec();
        let case_insensitive = word & CASE_INSENSITIVE != 0;
        Ok(Self { kind, case_insensitive, txg, seq, body, tail })
    }

    /// Decodes what is readable of a record in an encrypted block: type, txg, sequence number, and
    /// the block pointers. All other numbers are 0, and a record without pointers is of no known
    /// body.
    pub fn decode_clear(bytes: &[u8], endian: Endian) -> Result<Self> {
        let length = record_length(bytes, endian)?;
        let mut r = Reader::new("log record", bytes.get(..length).unwrap_or(&[]), endian);
        let kind = TxType(r.u64("txtype")? & !CASE_INSENSITIVE);
        r.skip("reclen", 8)?;
        let txg = r.u64("txg")?;
        let seq = r.u64("seq")?;
        let body = match kind {
            TxType::WRITE => {
                r.skip("foid, offset, length, blkoff", 32)?;
                let block = Box::new(r.blkptr("blkptr")?);
                let (object, offset, length, block_offset) = (0, 0, 0, 0);
                Body::Write { object, offset, length, block_offset, block, data: Vec::new() }
            }
            TxType::CLONE_RANGE => Body::read_cloned(&mut r)?,
            _ => Body::Unknown(Vec::new()),
        };
        Ok(Self::new(kind, txg, seq, body))
    }

    /// Encodes the record, padded to eight bytes.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        self.encode_before(0, endian)
    }

    /// Encodes a record whose last `len` bytes, the data of a write, the caller puts behind it,
    /// padded to eight bytes: they need not be copied here.
    #[must_use]
    pub fn encode_before(&self, len: usize, endian: Endian) -> Vec<u8> {
        let data = match &self.body {
            Body::Write { data, .. } => data.len(),
            _ => 0,
        };
        let mut body = Writer::with_capacity(endian, data + WITHOUT_DATA);
        self.body.write(&mut body);
        let mut body = body.into_bytes();
        body.extend_from_slice(&self.tail);
        body.resize(body.len().next_multiple_of(8), 0);
        let length = RECORD_HEADER_SIZE + body.len() + len.next_multiple_of(8);
        let mut w = Writer::with_capacity(endian, RECORD_HEADER_SIZE + body.len());
        w.u64(self.kind.0 | if self.case_insensitive { CASE_INSENSITIVE } else { 0 });
        w.u64(length as u64).u64(self.txg).u64(self.seq).bytes(&body);
        w.into_bytes()
    }

    /// The blocks of other files that the record makes blocks of a file, but for those whose data
    /// are in their pointers.
    pub fn cloned(&self) -> impl Iterator<Item = &BlkPtr> {
        let blocks = match &self.body {
            Body::CloneRange { blocks, .. } => blocks.as_slice(),
            _ => &[],
        };
        blocks.iter().filter(|bp| !bp.is_hole() && !bp.is_embedded())
    }

    /// The object a record of a file's content or attributes is about: such records can be logged
    /// out of order, and the object may be gone at replay.
    #[must_use]
    pub fn object(&self) -> Option<u64> {
        match &self.body {
            Body::Write { object, .. }
            | Body::Truncate { object, .. }
            | Body::SetAttr { object, .. }
            | Body::AclV0 { object, .. }
            | Body::Acl { object, .. }
            | Body::SetSaXattr { object, .. }
            | Body::CloneRange { object, .. } => Some(*object),
            _ => None,
        }
    }
}
