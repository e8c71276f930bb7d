//! Writes the changes as records.

use super::item::{Data, Item, Reading, Ready};
use crate::error::{Error, ErrorKind, Result};
use ondisk::stream::{
    Free, FreeObjects, OBJECT_HAS_SPILL, Object, ObjectRange, RAW_BYTESWAP, SPILL_UNMODIFIED,
    Spill, WRITE_DEDUP, Write, WriteEmbedded, feature,
};
use ondisk::{BlkPtr, Checksum, Compression, DmuType, Dnode, EmbeddedKind, Endian, Layout};
use rt::Progress;
use std::io;
use stream::Writer;
use zio::Block;

/// Bit of the key of a WRITE: the block is encrypted or authenticated.
const KEY_CRYPT: u64 = 1 << 39;
/// Largest block of a stream without [`feature::LARGE_BLOCKS`].
const OLD_BLOCK_MAX: u64 = 128 << 10;

/// Writes the records of a snapshot.
pub(super) struct Emit<'a, W: io::Write> {
    writer: Writer<io::BufWriter<W>>,
    to_guid: u64,
    features: u64,
    since: u64,
    progress: &'a Progress,
}

impl<'a, W: io::Write> Emit<'a, W> {
    pub(super) fn new(
        writer: Writer<io::BufWriter<W>>,
        to_guid: u64,
        features: u64,
        since: u64,
        progress: &'a Progress,
    ) -> Self {
        Self { writer, to_guid, features, since, progress }
    }

    pub(super) fn into_writer(self) -> Writer<io::BufWriter<W>> {
        self.writer
    }

    fn is_raw(&self) -> bool {
        self.has(feature::RAW)
    }

    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    /// The items whose blocks are read, and how.
    pub(super) fn readings(&self, items: &[Item]) -> Vec<(usize, Reading)> {
        let reading = |item: &Item| match item {
            Item::Write(data) => self.reading(data),
            Item::Spill { .. } if self.is_raw() => Reading::Stored,
            Item::Spill { .. } => Reading::Plain,
            _ => Reading::No,
        };
        let all = items.iter().enumerate().map(|(at, item)| (at, reading(item)));
        all.filter(|(_, reading)| *reading != Reading::No).collect()
    }

    fn reading(&self, data: &Data) -> Reading {
        match () {
            () if self.is_raw() => Reading::Stored,
            () if self.is_embedded(&data.bp) => Reading::No,
            () if self.is_stored(data) => Reading::Stored,
            () => Reading::Plain,
        }
    }

    /// Blocks of this size are cut up.
    fn is_cut(&self, size: u64) -> bool {
        size > OLD_BLOCK_MAX && !self.has(feature::LARGE_BLOCKS)
    }

    /// It is sent as it is compressed. Metadata are not: a receiver of another byte order swaps
    /// them. Nor is what is encrypted: its compressed form is not to be had.
    fn is_stored(&self, data: &Data) -> bool {
        self.has(feature::COMPRESSED)
            && !self.is_cut(data.size)
            && !data.bp.dmu_type().is_metadata()
            && !data.bp.is_embedded()
            && !data.bp.uses_crypt()
            && data.bp.compression() != Compression::OFF
    }

    /// It is sent as the pointer embeds it.
    fn is_embedded(&self, bp: &BlkPtr) -> bool {
        let is_known = match bp.compression() {
            Compression::LZ4 => self.has(feature::LZ4),
            Compression::ZSTD => self.has(feature::LZ4) && self.has(feature::ZSTD),
            _ => true,
        };
        bp.is_embedded()
            && bp.embedded_kind() == EmbeddedKind::Data
            && is_known
            && self.has(feature::EMBED_DATA)
    }

    /// Writes items and their blocks.
    pub(super) fn all(&mut self, items: Vec<Ready>) -> Result<()> {
        let before = self.writer.length();
        let count = items.len() as u64;
        for (item, block) in items {
            self.progress.check()?;
            self.one(&item, block.as_deref())?;
        }
        self.progress.add(count, self.writer.length() - before);
        Ok(())
    }

    fn one(&mut self, item: &Item, block: Option<&Block>) -> Result<()> {
        let to_guid = self.to_guid;
        let written = match item {
            Item::Object { number, dnode } => return self.object(*number, dnode),
            Item::Range { first, slots, bp } => {
                let Seal { salt, iv, mac, flags } = Seal::of(bp);
                let (first, slots) = (*first, *slots);
                let range = ObjectRange { first, slots, to_guid, salt, iv, mac, flags };
                self.writer.record(range, &[])
            }
            Item::FreeObjects { first, count } => {
                self.writer.free_objects(FreeObjects { first: *first, count: *count, to_guid })
            }
            Item::Free { object, offset, length } => {
                let (object, offset, length) = (*object, *offset, *length);
                self.writer.free(Free { object, offset, length, to_guid })
            }
            Item::Write(data) => return self.write(data, block),
            Item::Spill { object, bp } => {
                let is_old = bp.logical_birth() <= self.since;
                let mut spill = Spill {
                    object: *object,
                    length: bp.lsize(),
                    to_guid,
                    flags: if is_old { SPILL_UNMODIFIED } else { 0 },
                    ..Spill::default()
                };
                if !self.is_raw() {
                    let block = in_order(block, DmuType::SA, *object)?;
                    return self.writer.record(spill, block).map_err(Error::external);
                }
                let Seal { salt, iv, mac, flags } = Seal::of(bp);
                let block = present(block)?;
                (spill.salt, spill.iv, spill.mac) = (salt, iv, mac);
                spill.flags |= flags;
                spill.compression = bp.compression().0;
                spill.compressed_size = block.len() as u64;
                self.writer.record(spill, block)
            }
        };
        written.map_err(Error::external)
    }

    /// An object, and that nothing is behind its end.
    fn object(&mut self, number: u64, dnode: &Dnode) -> Result<()> {
        let to_guid = self.to_guid;
        if dnode.endian != Endian::Little && !self.is_raw() {
            return Err(other_order(number));
        }
        let size = dnode.block_size();
        let mut object = Object {
            object: number,
            kind: dnode.kind.0.into(),
            bonus_kind: dnode.bonus_kind.0.into(),
            block_size: if self.is_cut(size) { OLD_BLOCK_MAX } else { size } as u32,
            bonus_len: dnode.bonus.len() as u32,
            checksum: dnode.checksum.0,
            compression: dnode.compression.0,
            slots: dnode.extra_slots + 1,
            flags: if dnode.spill.is_some() { OBJECT_HAS_SPILL } else { 0 },
            to_guid,
            ..Object::default()
        };
        let mut bonus = dnode.bonus.clone();
        if self.is_raw() {
            if dnode.endian != Endian::Little {
                object.flags |= RAW_BYTESWAP;
            }
            object.max_block = dnode.max_block;
            object.indirect_shift = dnode.indirect_shift;
            object.levels = dnode.levels;
            object.pointers = dnode.blkptrs.len() as u8;
            if !bonus.is_empty() {
                // The whole area of the bonus is encrypted.
                bonus = dnode.bonus_area();
                object.raw_bonus_len = bonus.len() as u32;
            }
        }
        bonus.resize(bonus.len().next_multiple_of(8), 0);
        self.writer.record(object, &bonus).map_err(Error::external)?;
        let offset = dnode.max_block.wrapping_add(1).wrapping_mul(size);
        let end = Free { object: number, offset, length: u64::MAX, to_guid };
        self.writer.free(end).map_err(Error::external)
    }

    fn write(&mut self, data: &Data, block: Option<&Block>) -> Result<()> {
        let Data { object, size, bp, .. } = data;
        let offset = data.blkid.wrapping_mul(*size);
        let write = Write {
            object: *object,
            kind: data.kind.into(),
            offset,
            logical_size: *size,
            to_guid: self.to_guid,
            checksum_kind: Checksum::OFF.0,
            ..Write::default()
        };
        if self.is_raw() {
            let bytes = present(block)?;
            return self
                .writer
                .record(sealed(&write, bp, bytes.len()), bytes)
                .map_err(Error::external);
        }
        if self.is_embedded(bp) {
            return self.embedded(&write, bp);
        }
        let bytes = in_order(block, bp.dmu_type(), *object)?;
        if self.is_stored(data) {
            let (compression, compressed_size) = (bp.compression().0, bytes.len() as u64);
            let write = Write { compression, compressed_size, ..of_disk(write, bp) };
            return self.writer.record(write, bytes).map_err(Error::external);
        }
        if !self.is_cut(*size) {
            return self.writer.record(of_disk(write, bp), bytes).map_err(Error::external);
        }
        let mut offset = offset;
        for part in bytes.chunks(OLD_BLOCK_MAX as usize) {
            let write = Write { offset, logical_size: part.len() as u64, ..write.clone() };
            self.writer.record(write, part).map_err(Error::external)?;
            offset = offset.wrapping_add(part.len() as u64);
        }
        Ok(())
    }

    fn embedded(&mut self, write: &Write, bp: &BlkPtr) -> Result<()> {
        let mut payload = bp.embedded_payload();
        let embedded = WriteEmbedded {
            object: write.object,
            offset: write.offset,
            length: write.logical_size,
            to_guid: write.to_guid,
            compression: bp.compression().0,
            embedded_kind: 0,
            logical_size: bp.lsize() as u32,
            physical_size: payload.len() as u32,
        };
        payload.resize(payload.len().next_multiple_of(8), 0);
        self.writer.record(embedded, &payload).map_err(Error::external)
    }
}

/// How a block is encrypted.
struct Seal {
    salt: [u8; 8],
    iv: [u8; 12],
    mac: [u8; 16],
    flags: u8,
}

impl Seal {
    fn of(bp: &BlkPtr) -> Self {
        let is_encrypted = bp.is_encrypted();
        Self {
            salt: if is_encrypted { bp.crypt_salt() } else { [0; 8] },
            iv: if is_encrypted { bp.crypt_iv() } else { [0; 12] },
            mac: bp.crypt_mac(),
            flags: if bp.byteorder() == Endian::Little { 0 } else { RAW_BYTESWAP },
        }
    }
}

/// The record of a block as it is stored, in `length` bytes.
fn sealed(write: &Write, bp: &BlkPtr, length: usize) -> Write {
    let Seal { salt, iv, mac, flags } = Seal::of(bp);
    let write = as_stored(write, bp);
    Write {
        flags: write.flags | flags,
        compression: bp.compression().0,
        compressed_size: length as u64,
        key: write.key | KEY_CRYPT,
        salt,
        iv,
        mac,
        ..write
    }
}

/// Adds what the pointer of a block records: that it is a whole block, and its checksum.
fn of_disk(write: Write, bp: &BlkPtr) -> Write {
    if bp.is_embedded() || bp.uses_crypt() {
        return write;
    }
    as_stored(&write, bp)
}

fn as_stored(write: &Write, bp: &BlkPtr) -> Write {
    let checksum = bp.checksum_kind();
    let is_identity = matches!(
        checksum,
        Checksum::SHA256 | Checksum::SHA512 | Checksum::SKEIN | Checksum::BLAKE3
    );
    let sectors = |bytes: u64| (bytes / 512 - 1) & 0xffff;
    Write {
        checksum_kind: checksum.0,
        flags: if is_identity { WRITE_DEDUP } else { 0 },
        checksum: bp.checksum(),
        key: sectors(bp.lsize())
            | (sectors(bp.psize()) << 16)
            | (u64::from(bp.compression().0) << 32),
        ..write.clone()
    }
}

/// The bytes of a block as they are stored.
fn present(block: Option<&Block>) -> Result<&[u8]> {
    block.map(Block::bytes).ok_or_else(|| Error::new(ErrorKind::Damaged))
}

/// The bytes of a block, which are in the byte order of the stream.
fn in_order(block: Option<&Block>, kind: DmuType, object: u64) -> Result<&[u8]> {
    match block {
        Some(block) if block.endian() == Endian::Little || kind.layout() == Layout::U8 => {
            Ok(block.bytes())
        }
        Some(_) => Err(other_order(object)),
        None => Err(Error::new(ErrorKind::Damaged)),
    }
}

fn other_order(object: u64) -> Error {
    let at = crate::Place::Object { objset: 0, object };
    Error::new(ErrorKind::NotSent(crate::Unsendable::ByteOrder)).at(at)
}
