//! Records of send streams: what `zfs send` writes and `zfs receive` reads.
//!
//! Specified in `docs/format/stream.md`. A stream is a sequence of records of 312 bytes, some of
//! which have a payload behind them. All are of the byte order of the machine that sent them:
//!
//! ```text
//! 0    kind u32
//! 4    length of the payload, of BEGIN alone u32
//! 8    what the record says, 272 bytes; of BEGIN 304
//! 280  fletcher-4 of all that stands before it in the stream; BEGIN has none
//! ```
//!
//! The checksums and the order of records are those of the crate `stream`.

use crate::cursor::{Endian, Reader, Writer};
use crate::error::{Error, ErrorKind, Result};

/// Size of a record, without its payload.
pub const RECORD_SIZE: usize = 312;
/// The place of the checksum of a record.
pub const CHECKSUM_AT: usize = 280;
/// Where BEGIN has its magic number.
pub const MAGIC_AT: usize = 8;
/// The magic number of BEGIN.
pub const MAGIC: u64 = 0x2_f5ba_cbac;
/// Largest payload but that of BEGIN: a block.
pub const BLOCK_MAX: u64 = 16 << 20;
/// Largest payload of BEGIN: a packed list of all snapshots of all that is sent.
pub const LIST_MAX: u64 = 64 << 20;
/// Size of the name in BEGIN, with the NUL behind it.
const NAME_SIZE: usize = 256;

/// The stream of one snapshot.
pub const KIND_SNAPSHOT: u64 = 1;
/// Streams of several snapshots, one after the other.
pub const KIND_COMPOUND: u64 = 2;

/// The pair that the list of a compound stream has for a dataset that is an encryption root.
pub const ENCRYPTION_ROOT: &str = "is_encroot";

/// The features that a receiver must know to read a stream.
pub mod feature {
    /// Blocks that the stream had before, by reference; no longer written.
    pub const DEDUP: u64 = 1 << 0;
    /// BEGIN has properties.
    pub const DEDUP_PROPS: u64 = 1 << 1;
    /// Files have system attributes, and spill blocks.
    pub const SA_SPILL: u64 = 1 << 2;
    /// Small blocks as they are embedded in their pointers.
    pub const EMBED_DATA: u64 = 1 << 16;
    /// Blocks compressed with LZ4.
    pub const LZ4: u64 = 1 << 17;
    /// Blocks of more than 128 KiB.
    pub const LARGE_BLOCKS: u64 = 1 << 19;
    /// The rest of a stream whose beginning was received.
    pub const RESUMING: u64 = 1 << 20;
    /// Without the blocks of a redaction list.
    pub const REDACTED: u64 = 1 << 21;
    /// Blocks as they are compressed on disk.
    pub const COMPRESSED: u64 = 1 << 22;
    /// Dnodes of more than 512 bytes.
    pub const LARGE_DNODE: u64 = 1 << 23;
    /// Blocks as they are encrypted on disk.
    pub const RAW: u64 = 1 << 24;
    /// Blocks compressed with zstd.
    pub const ZSTD: u64 = 1 << 25;
    /// BEGIN has holds.
    pub const HOLDS: u64 = 1 << 26;
}

/// Flags of BEGIN.
pub mod begin_flag {
    /// To be received as a clone of the snapshot that it is an increment of.
    pub const CLONE: u32 = 1 << 0;
    /// Names are compared without case.
    pub const CASE_INSENSITIVE: u32 = 1 << 1;
    /// A full stream has FREE and FREEOBJECTS as well, so that it can be received as a clone.
    pub const FREE_RECORDS: u32 = 1 << 2;
    /// [`super::OBJECT_HAS_SPILL`] and [`super::SPILL_UNMODIFIED`] are used.
    pub const SPILL_BLOCKS: u32 = 1 << 3;
}

/// Flag of WRITE: its checksum identifies the block.
pub const WRITE_DEDUP: u8 = 1 << 0;
/// Flag of OBJECT, OBJECT_RANGE, WRITE and SPILL in a raw stream: the block is of a machine whose
/// byte order is not that of the stream.
pub const RAW_BYTESWAP: u8 = 1 << 1;
/// Flag of OBJECT: it has a spill block, which is in the stream or exists already.
pub const OBJECT_HAS_SPILL: u8 = 1 << 2;
/// Flag of SPILL: the receiver has it, unless it is an old one that gave it up.
pub const SPILL_UNMODIFIED: u8 = 1 << 2;

/// A field of a record.
trait Field: Sized {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self>;
    fn write(&self, w: &mut Writer);
}

impl Field for u8 {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self> {
        r.u8(name)
    }
    fn write(&self, w: &mut Writer) {
        w.u8(*self);
    }
}

impl Field for u32 {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self> {
        r.u32(name)
    }
    fn write(&self, w: &mut Writer) {
        w.u32(*self);
    }
}

impl Field for u64 {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self> {
        r.u64(name)
    }
    fn write(&self, w: &mut Writer) {
        w.u64(*self);
    }
}

impl Field for [u64; 4] {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self> {
        r.words(name)
    }
    fn write(&self, w: &mut Writer) {
        w.words(self);
    }
}

impl<const N: usize> Field for [u8; N] {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self> {
        r.array(name)
    }
    fn write(&self, w: &mut Writer) {
        w.bytes(self);
    }
}

/// A name, with NULs behind it.
impl Field for Vec<u8> {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self> {
        let bytes = r.bytes(name, NAME_SIZE)?;
        let end = bytes.iter().position(|b| *b == 0);
        let end = end.ok_or_else(|| r.error(name, ErrorKind::BadText))?;
        Ok(bytes.get(..end).unwrap_or_default().to_vec())
    }
    fn write(&self, w: &mut Writer) {
        let end = w.at() + NAME_SIZE;
        w.bytes(self.get(..NAME_SIZE - 1).unwrap_or(self)).pad_to(end);
    }
}

/// The bytes of one kind of record; what follows `=>` is how many bytes of padding follow a field.
macro_rules! layout {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$about:meta])* $field:ident: $kind:ty $(=> $pad:literal)?),* $(,)?
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$about])* pub $field: $kind,)*
        }

        impl $name {
            fn read(r: &mut Reader<'_>) -> Result<Self> {
                let out = Self {
                    $($field: {
                        let field = Field::read(r, stringify!($field))?;
                        $(r.skip("padding", $pad)?;)?
                        field
                    },)*
                };
                Ok(out)
            }

            fn write(&self, w: &mut Writer) {
                $(self.$field.write(w);
                $(w.zeros($pad);)?)*
            }
        }
    )*};
}

layout! {
    /// The beginning of the stream of a snapshot, or of several. Its payload is a packed list, when
    /// there is one.
    Begin {
        /// [`MAGIC`].
        magic: u64,
        /// Kind of the stream and what it needs: [`Begin::kind`], [`Begin::features`].
        version: u64,
        /// When the snapshot was taken, in seconds since 1970.
        creation_time: u64,
        /// Kind of the object set.
        objset_kind: u32,
        /// [`begin_flag`].
        flags: u32,
        /// GUID of the snapshot.
        to_guid: u64,
        /// GUID of the snapshot that it is an increment of; 0: it is a full stream.
        from_guid: u64,
        /// Name of the snapshot.
        to_name: Vec<u8>,
    }
    /// An object is made, or changed into this. Its payload is the bonus, rounded up to 8 bytes.
    Object {
        /// Its number.
        object: u64,
        /// Type of its data.
        kind: u32,
        /// Type of its bonus.
        bonus_kind: u32,
        /// Size of its blocks.
        block_size: u32,
        /// Bytes of the bonus.
        bonus_len: u32,
        /// Checksum of its blocks, as the dnode says.
        checksum: u8,
        /// Compression of its blocks, as the dnode says.
        compression: u8,
        /// Slots that its dnode takes.
        slots: u8,
        /// [`OBJECT_HAS_SPILL`].
        flags: u8,
        /// In a raw stream: bytes of the encrypted bonus.
        raw_bonus_len: u32,
        /// GUID of the snapshot.
        to_guid: u64,
        /// In a raw stream: log2 of the size of its indirect blocks.
        indirect_shift: u8,
        /// In a raw stream: levels of its tree.
        levels: u8,
        /// In a raw stream: pointers in its dnode.
        pointers: u8 => 5,
        /// In a raw stream: number of its last block.
        max_block: u64,
    }
    /// There are no objects of these numbers.
    FreeObjects {
        /// The first.
        first: u64,
        /// How many.
        count: u64,
        /// GUID of the snapshot.
        to_guid: u64,
    }
    /// A block, which is the payload.
    Write {
        /// Its object.
        object: u64,
        /// Type of the object's data.
        kind: u32 => 4,
        /// Its offset in the object.
        offset: u64,
        /// Its size.
        logical_size: u64,
        /// GUID of the snapshot.
        to_guid: u64,
        /// The checksum it has on disk; "off" when it is not a whole block of the disk.
        checksum_kind: u8,
        /// [`WRITE_DEDUP`].
        flags: u8,
        /// Compression of the payload; 0 for none.
        compression: u8 => 5,
        /// Its checksum on disk.
        checksum: [u64; 4],
        /// Its sizes and compression on disk.
        key: u64,
        /// Size of a payload that is compressed.
        compressed_size: u64,
        /// In a raw stream: what its key is derived with.
        salt: [u8; 8],
        /// In a raw stream: its initialisation vector.
        iv: [u8; 12],
        /// In a raw stream: its authentication code.
        mac: [u8; 16],
    }
    /// A hole.
    Free {
        /// Its object.
        object: u64,
        /// Where it begins.
        offset: u64,
        /// Its length; `u64::MAX`: to the end.
        length: u64,
        /// GUID of the snapshot.
        to_guid: u64,
    }
    /// The end of the stream of a snapshot, or of several.
    End {
        /// Of everything before this record.
        checksum: [u64; 4],
        /// GUID of the snapshot.
        to_guid: u64,
    }
    /// A block that the stream had before.
    WriteByRef {
        /// Its object.
        object: u64,
        /// Its offset there.
        offset: u64,
        /// Its size.
        length: u64,
        /// GUID of the snapshot.
        to_guid: u64,
        /// GUID of the snapshot that had it.
        ref_guid: u64,
        /// The object that had it.
        ref_object: u64,
        /// Its offset there.
        ref_offset: u64,
        /// As in [`Write`].
        checksum_kind: u8,
        /// As in [`Write`].
        flags: u8 => 6,
        /// As in [`Write`].
        checksum: [u64; 4],
        /// As in [`Write`].
        key: u64,
    }
    /// The spill block of an object, which is the payload.
    Spill {
        /// Its object.
        object: u64,
        /// Its size.
        length: u64,
        /// GUID of the snapshot.
        to_guid: u64,
        /// [`SPILL_UNMODIFIED`].
        flags: u8,
        /// In a raw stream: compression of the payload.
        compression: u8 => 6,
        /// In a raw stream: size of the payload.
        compressed_size: u64,
        /// As in [`Write`].
        salt: [u8; 8],
        /// As in [`Write`].
        iv: [u8; 12],
        /// As in [`Write`].
        mac: [u8; 16],
        /// In a raw stream: type of the block.
        kind: u32,
    }
    /// A block that is small enough for its pointer. Its payload is the embedded data, rounded up
    /// to 8 bytes.
    WriteEmbedded {
        /// Its object.
        object: u64,
        /// Its offset there.
        offset: u64,
        /// Its size.
        length: u64,
        /// GUID of the snapshot.
        to_guid: u64,
        /// Compression of the payload.
        compression: u8,
        /// Kind of the pointer.
        embedded_kind: u8 => 6,
        /// Bytes before compression.
        logical_size: u32,
        /// Bytes as compressed.
        physical_size: u32,
    }
    /// In a raw stream: how the dnodes of a block are encrypted.
    ObjectRange {
        /// The first of them.
        first: u64,
        /// How many slots there are.
        slots: u64,
        /// GUID of the snapshot.
        to_guid: u64,
        /// As in [`Write`].
        salt: [u8; 8],
        /// As in [`Write`].
        iv: [u8; 12],
        /// As in [`Write`].
        mac: [u8; 16],
        /// Byte order of the block.
        flags: u8 => 3,
    }
    /// Data that was left out.
    Redact {
        /// Its object.
        object: u64,
        /// Where it begins.
        offset: u64,
        /// Its length.
        length: u64,
        /// GUID of the snapshot.
        to_guid: u64,
    }
}

impl Begin {
    /// The version of a stream of this kind that needs these features.
    #[must_use]
    pub fn version_of(kind: u64, features: u64) -> u64 {
        (kind & 3) | ((features & 0x3fff_ffff) << 2)
    }

    /// [`KIND_SNAPSHOT`] or [`KIND_COMPOUND`].
    #[must_use]
    pub fn kind(&self) -> u64 {
        self.version & 3
    }

    /// The features that it needs, of [`feature`].
    #[must_use]
    pub fn features(&self) -> u64 {
        (self.version >> 2) & 0x3fff_ffff
    }
}

/// The kinds of records: each with its number and its name in OpenZFS.
macro_rules! bodies {
    ($($number:literal $name:ident $text:literal,)*) => {
        /// The body of a record.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the types are the documentation")]
        pub enum Body {
            $($name($name),)*
        }

        impl Body {
            /// Names of all kinds, by number.
            pub const NAMES: [&'static str; 11] = [$($text),*];

            /// The number of its kind.
            #[must_use]
            pub fn number(&self) -> u32 {
                match self {
                    $(Self::$name(_) => $number,)*
                }
            }

            fn read(number: u32, r: &mut Reader<'_>) -> Result<Self> {
                match number {
                    $($number => $name::read(r).map(Self::$name),)*
                    n => Err(r.error("kind", ErrorKind::Unknown { value: n.into() })),
                }
            }

            fn write(&self, w: &mut Writer) {
                match self {
                    $(Self::$name(body) => body.write(w),)*
                }
            }
        }

        $(impl From<$name> for Body {
            fn from(body: $name) -> Self {
                Self::$name(body)
            }
        })*
    };
}

bodies! {
    0 Begin "BEGIN",
    1 Object "OBJECT",
    2 FreeObjects "FREEOBJECTS",
    3 Write "WRITE",
    4 Free "FREE",
    5 End "END",
    6 WriteByRef "WRITE_BYREF",
    7 Spill "SPILL",
    8 WriteEmbedded "WRITE_EMBEDDED",
    9 ObjectRange "OBJECT_RANGE",
    10 Redact "REDACT",
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its body.
    pub body: Body,
    /// Length of the payload in the header: of BEGIN alone it is used.
    pub payload_len: u32,
    /// Checksum of everything before this record in the stream; zero if unknown. BEGIN has none.
    pub checksum: [u64; 4],
}

impl Record {
    /// A record with a payload of this length, and no checksum yet.
    #[must_use]
    pub fn new(body: impl Into<Body>, list_len: u32) -> Self {
        Self { body: body.into(), payload_len: list_len, checksum: [0; 4] }
    }

    /// Byte order of a stream that begins with these bytes.
    pub fn endian_of(first: &[u8; RECORD_SIZE]) -> Result<Endian> {
        let mut r = Reader::new("send stream", first, Endian::Little);
        r.seek("magic", MAGIC_AT)?;
        match r.u64("magic")? {
            MAGIC => Ok(Endian::Little),
            m if m.swap_bytes() == MAGIC => Ok(Endian::Big),
            found => Err(r.error("magic", ErrorKind::BadMagic { found })),
        }
    }

    /// Decodes a record. Its payload is never larger than [`BLOCK_MAX`], or [`LIST_MAX`].
    pub fn decode(bytes: &[u8; RECORD_SIZE], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("send stream", bytes, endian);
        let number = r.u32("kind")?;
        let payload_len = r.u32("payload length")?;
        let body = Body::read(number, &mut r)?;
        let mut checksum = [0; 4];
        if let Body::Begin(begin) = &body {
            if begin.magic != MAGIC {
                return Err(r.error("magic", ErrorKind::BadMagic { found: begin.magic }));
            }
        } else {
            r.seek("checksum", CHECKSUM_AT)?;
            checksum = r.words("checksum")?;
        }
        let record = Self { body, payload_len, checksum };
        record.check_payload(&r)?;
        Ok(record)
    }

    fn check_payload(&self, r: &Reader<'_>) -> Result<()> {
        let (value, min) = (self.payload_size(), 0);
        let max = if matches!(self.body, Body::Begin(_)) { LIST_MAX } else { BLOCK_MAX };
        let error = || -> Error { r.error("payload", ErrorKind::OutOfRange { value, min, max }) };
        if value > max { Err(error()) } else { Ok(()) }
    }

    /// Encodes it.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> [u8; RECORD_SIZE] {
        let mut w = Writer::with_capacity(endian, RECORD_SIZE);
        w.u32(self.body.number()).u32(self.payload_len);
        self.body.write(&mut w);
        if !matches!(self.body, Body::Begin(_)) {
            w.pad_to(CHECKSUM_AT).words(&self.checksum);
        }
        let mut out = [0; RECORD_SIZE];
        for (to, from) in out.iter_mut().zip(w.into_bytes()) {
            *to = from;
        }
        out
    }

    /// Bytes behind the record that belong to it.
    #[must_use]
    pub fn payload_size(&self) -> u64 {
        let rounded = |n: u32| u64::from(n).next_multiple_of(8);
        match &self.body {
            Body::Begin(_) => self.payload_len.into(),
            Body::Object(o) if o.bonus_len == 0 => 0,
            Body::Object(o) if o.raw_bonus_len != 0 => o.raw_bonus_len.into(),
            Body::Object(o) => rounded(o.bonus_len),
            Body::Write(w) if w.compression != 0 => w.compressed_size,
            Body::Write(w) => w.logical_size,
            Body::Spill(s) if s.compressed_size != 0 => s.compressed_size,
            Body::Spill(s) => s.length,
            Body::WriteEmbedded(w) => rounded(w.physical_size),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_same_in_either_byte_order() {
        let write = Write {
            object: 8,
            offset: 4096,
            logical_size: 512,
            mac: [7; 16],
            checksum: [1, 2, 3, 4],
            ..Write::default()
        };
        for endian in [Endian::Little, Endian::Big] {
            let record = Record { checksum: [9; 4], ..Record::new(write.clone(), 0) };
            assert_eq!(Record::decode(&record.encode(endian), endian), Ok(record));
        }
    }

    #[test]
    fn what_a_record_says_of_its_payload_is_bounded() {
        let write = Write { logical_size: BLOCK_MAX + 1, ..Write::default() };
        let bytes = Record::new(write, 0).encode(Endian::Little);
        let error = Record::decode(&bytes, Endian::Little).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::OutOfRange { .. }), "{error}");
        let begin = Begin { magic: MAGIC, to_name: vec![b'x'; 255], ..Begin::default() };
        let bytes = Record::new(begin.clone(), 3).encode(Endian::Little);
        let record = Record::decode(&bytes, Endian::Little).unwrap();
        assert_eq!((record.payload_size(), record.body), (3, Body::Begin(begin)));
        let mut endless = bytes;
        endless[RECORD_SIZE - 1] = b'x';
        let error = Record::decode(&endless, Endian::Little).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadText);
    }
}
