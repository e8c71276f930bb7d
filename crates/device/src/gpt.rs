//! Partitions of a whole disk, or of the image of one.
//!
//! ZFS given a whole disk writes a GUID partition table on it and takes the first partition; so
//! the image of such a disk has its labels a megabyte or so inside. This finds them.
//!
//! ```text
//! sector 0        protective MBR: 0x55 0xaa at byte 510, a partition of type 0xee
//! sector 1        header: "EFI PART", CRC-32 of itself and of the entries
//! sector 2..      entries, 128 bytes each (or a larger power of two times that)
//! last sector     the backup's header, its entries before it
//! ```
//!
//! Numbers are little-endian and in sectors, and an image does not record how large the sectors of
//! its disk were: the device's own size is tried first, then 512 and 4096. A header that has its
//! magic and its checksum right is believed; the protective MBR is then only reported, because
//! tools and boot loaders damage it. The primary is preferred to the backup, as everywhere.
//!
//! Format: UEFI specification 2.10, chapter 5.

use crate::crc32::crc32;
use crate::{AlignedBuf, Device, DeviceRef, Error, Partition, read_one};
use core::fmt;
use std::sync::Arc;

/// Sector sizes to try; there are no others in the field.
const SECTOR_SIZES: [u32; 2] = [512, 4096];

const MAGIC: &[u8] = b"EFI PART";

/// Bytes of the header's fields. Its size field may say more, which its checksum then covers.
const HEADER_BYTES_MIN: usize = 92;

/// Bytes of the smallest entry.
const ENTRY_BYTES_MIN: usize = 128;

/// Longest table of entries that is believed: 128 entries of 128 bytes are 16 KiB, this is room for
/// 8192.
const TABLE_BYTES_MAX: u64 = 1 << 20;

/// A 16-byte identifier. Written, as everywhere in GPT, with the first three of its five parts
/// little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guid(pub [u8; 16]);

/// Partitions of Solaris, illumos and ZFS on Linux: 6a898cc3-1dd2-11b2-99a6-080020736631.
pub const TYPE_SOLARIS_ZFS: Guid = Guid([
    0xc3, 0x8c, 0x89, 0x6a, 0xd2, 0x1d, 0xb2, 0x11, 0x99, 0xa6, 0x08, 0x00, 0x20, 0x73, 0x66, 0x31,
]);

/// Partitions of ZFS on FreeBSD: 516e7cba-6ecf-11d6-8ff8-00022d09712b.
pub const TYPE_FREEBSD_ZFS: Guid = Guid([
    0xba, 0x7c, 0x6e, 0x51, 0xcf, 0x6e, 0xd6, 0x11, 0x8f, 0xf8, 0x00, 0x02, 0x2d, 0x09, 0x71, 0x2b,
]);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g, h, i, rest @ ..] = self.0;
        write!(f, "{:08x}-", u32::from_le_bytes([a, b, c, d]))?;
        write!(f, "{:04x}-{:04x}-", u16::from_le_bytes([e, g]), u16::from_le_bytes([h, i]))?;
        for (at, byte) in rest.iter().enumerate() {
            write!(f, "{}{byte:02x}", if at == 2 { "-" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpt {
    /// Bytes of a sector, as the table counts.
    pub sector_size: u32,
    /// Identifier of the disk.
    pub disk: Guid,
    /// Whether this is the backup, because the primary is damaged or missing.
    pub is_backup: bool,
    /// Whether sector 0 marks the disk as one with a GUID partition table.
    pub protective_mbr: bool,
    /// The partitions, in the order of the table.
    pub entries: Vec<GptEntry>,
}

/// A partition in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GptEntry {
    /// Its number, from 1, as in the names of its device.
    pub number: u32,
    /// Its type.
    pub kind: Guid,
    /// Its identifier.
    pub id: Guid,
    /// Byte offset of its first byte on the disk.
    pub start: u64,
    /// Its bytes. A table of a truncated image may name more than is there.
    pub len: u64,
    /// Attributes: bit 0 required, 2 bootable by old BIOS; 48 to 63 belong to the type.
    pub flags: u64,
    /// Its name; what is not UTF-16 is replaced.
    pub name: String,
}

impl GptEntry {
    /// Whether its type is one for parts of a pool.
    #[must_use]
    pub fn is_zfs(&self) -> bool {
        [TYPE_SOLARIS_ZFS, TYPE_FREEBSD_ZFS].contains(&self.kind)
    }

    /// It as a device.
    #[must_use]
    pub fn open(&self, disk: &DeviceRef) -> Partition {
        let label = format!("#{}", self.number);
        Partition::new(Arc::clone(disk), &label, self.start, self.len)
    }
}

impl Gpt {
    /// Reads the partition table of a disk; `None` when it has none.
    ///
    /// # Errors
    /// When no table was found and something could not be read. A sector that cannot be read
    /// while another copy of the table is good is not an error.
    pub fn read(disk: &dyn Device) -> Result<Option<Self>, Error> {
        let own = disk.sector_size();
        let others = SECTOR_SIZES.into_iter().filter(|size| *size != own);
        let sizes: Vec<u64> = core::iter::once(own).chain(others).map(u64::from).collect();
        let mut failure = None;
        // All primaries before any backup.
        for is_backup in [false, true] {
            for sector in &sizes {
                let lba = if is_backup { (disk.size() / sector).saturating_sub(1) } else { 1 };
                match read_table(disk, *sector, lba) {
                    Ok(Some(table)) => {
                        let protective_mbr = has_protective_mbr(disk);
                        return Ok(Some(Self { is_backup, protective_mbr, ..table }));
                    }
                    Ok(None) => {}
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// The partitions that hold parts of pools.
    pub fn zfs(&self) -> impl Iterator<Item = &GptEntry> {
        self.entries.iter().filter(|entry| entry.is_zfs())
    }
}

/// The fields of a header that matter here.
struct Header {
    disk: Guid,
    entries_lba: u64,
    entry_count: u32,
    entry_bytes: usize,
    entries_crc: u32,
}

/// Reads the table whose header is in sector `lba`; `None` when there is none, or a damaged one.
fn read_table(disk: &dyn Device, sector: u64, lba: u64) -> Result<Option<Gpt>, Error> {
    let Some(block) = read_present(disk, lba, sector, sector)? else { return Ok(None) };
    let Some(header) = parse_header(&block, lba) else { return Ok(None) };
    let bytes = u64::from(header.entry_count).saturating_mul(header.entry_bytes as u64);
    if bytes > TABLE_BYTES_MAX {
        return Ok(None);
    }
    let Some(table) = read_present(disk, header.entries_lba, sector, bytes)? else {
        return Ok(None);
    };
    if crc32(&table) != header.entries_crc {
        return Ok(None);
    }
    let entries = (1u32..).zip(table.chunks_exact(header.entry_bytes));
    Ok(Some(Gpt {
        // At most 2^32 by construction: it came from `sector_size` or the list.
        sector_size: u32::try_from(sector).unwrap_or(u32::MAX),
        disk: header.disk,
        is_backup: false,
        protective_mbr: false,
        entries: entries.filter_map(|(number, raw)| parse_entry(number, raw, sector)).collect(),
    }))
}

/// Reads `len` bytes from sector `lba` on; `None` when the disk is not that large.
fn read_present(
    disk: &dyn Device,
    lba: u64,
    sector: u64,
    len: u64,
) -> Result<Option<AlignedBuf>, Error> {
    let offset = lba.checked_mul(sector);
    let inside = |o: &u64| o.checked_add(len).is_some_and(|end| end <= disk.size());
    let (Some(offset), Ok(len)) = (offset.filter(inside), usize::try_from(len)) else {
        return Ok(None);
    };
    read_one(disk, offset, len).map(Some)
}

/// The header in a sector, when magic, own place and checksum are right.
fn parse_header(block: &[u8], lba: u64) -> Option<Header> {
    let size = usize::try_from(u32_at(block, 12)?).ok()?;
    if block.get(..8)? != MAGIC || size < HEADER_BYTES_MIN || u64_at(block, 24)? != lba {
        return None;
    }
    let mut header = block.get(..size)?.to_vec();
    // The checksum is made with its own field zero.
    header.get_mut(16..20)?.fill(0);
    if crc32(&header) != u32_at(block, 16)? {
        return None;
    }
    let entry_bytes = usize::try_from(u32_at(block, 84)?).ok()?;
    if entry_bytes < ENTRY_BYTES_MIN || !entry_bytes.is_multiple_of(8) {
        return None;
    }
    Some(Header {
        disk: guid_at(block, 56)?,
        entries_lba: u64_at(block, 72)?,
        entry_count: u32_at(block, 80)?,
        entry_bytes,
        entries_crc: u32_at(block, 88)?,
    })
}

/// A partition; `None` for an unused entry and for one whose sectors cannot be.
fn parse_entry(number: u32, raw: &[u8], sector: u64) -> Option<GptEntry> {
    let kind = guid_at(raw, 0)?;
    let (first, last) = (u64_at(raw, 32)?, u64_at(raw, 40)?);
    if kind == Guid([0; 16]) {
        return None;
    }
    let sectors = last.checked_sub(first)?.checked_add(1)?;
    let units =
        raw.get(56..128)?.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let name = char::decode_utf16(units.take_while(|unit| *unit != 0));
    Some(GptEntry {
        number,
        kind,
        id: guid_at(raw, 16)?,
        start: first.checked_mul(sector)?,
        len: sectors.checked_mul(sector)?,
        flags: u64_at(raw, 48)?,
        name: name.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect(),
    })
}

/// Whether sector 0 is the master boot record of a disk with a GUID partition table.
fn has_protective_mbr(disk: &dyn Device) -> bool {
    let Ok(mbr) = read_one(disk, 0, 512) else { return false };
    // Four entries of 16 bytes, the type in the fifth byte of each.
    let kinds = [450, 466, 482, 498].map(|at| mbr.get(at).copied());
    mbr.get(510..512) == Some(&[0x55, 0xaa]) && kinds.contains(&Some(0xee))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

fn guid_at(bytes: &[u8], at: usize) -> Option<Guid> {
    array_at(bytes, at).map(Guid)
}
