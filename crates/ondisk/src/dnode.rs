//! Dnodes: the root of one object, a tree of blocks.
//!
//! Specified in `docs/format/dmu.md`. A dnode takes 1 to 32 slots of 512 bytes. The first 64 bytes
//! are the core, then come 1 to 3 block pointers, then the bonus, and, if the flag is set, a spill
//! block pointer in the last 128 bytes.
//!
//! ```text
//! 0 type  1 indblkshift  2 nlevels  3 nblkptr  4 bonustype  5 checksum  6 compress  7 flags
//! 8 datablkszsec u16  10 bonuslen u16  12 extra_slots  13..16 pad
//! 16 maxblkid u64  24 used u64  32..64 pad
//! ```

use crate::blkptr::{BLKPTR_SIZE, BlkPtr, SECTOR_SIZE};
use crate::cursor::{Endian, Reader, Writer};
use crate::dmu_type::DmuType;
use crate::error::{ErrorKind, Result};
use crate::kinds::{Checksum, Compression};

/// Size of a dnode slot in bytes.
pub const DNODE_SLOT_SIZE: usize = 512;
/// Offset of the number of slots that a dnode takes beyond its first.
pub const EXTRA_SLOTS_AT: usize = 12;
/// Bytes before the first block pointer.
pub const DNODE_CORE_SIZE: usize = 64;
/// Smallest and largest indirect block shift that can be on disk.
pub const INDIRECT_SHIFT_RANGE: core::ops::RangeInclusive<u8> = 10..=20;
/// Most levels an object can have: 2^64 bytes in blocks of 512 bytes need eleven levels of indirect
/// blocks of 4 KiB. With the indirect blocks of today (128 KiB) none has more than seven.
pub const MAX_LEVELS: u8 = 12;

/// `used` is in bytes (old pools counted sectors).
pub const FLAG_USED_BYTES: u8 = 1 << 0;
/// The object is in the user and group accounting.
pub const FLAG_USERUSED_ACCOUNTED: u8 = 1 << 1;
/// There is a spill block pointer at the end.
pub const FLAG_SPILL: u8 = 1 << 2;
/// The object is in the object-count accounting.
pub const FLAG_USEROBJUSED_ACCOUNTED: u8 = 1 << 3;

/// One allocated dnode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dnode {
    /// Type of the object.
    pub kind: DmuType,
    /// log2 of the size of its indirect blocks.
    pub indirect_shift: u8,
    /// Levels of the tree; 1 when the dnode points at data directly.
    pub levels: u8,
    /// Type of the bonus.
    pub bonus_kind: DmuType,
    /// Checksum for new blocks.
    pub checksum: Checksum,
    /// Compression for new blocks.
    pub compression: Compression,
    /// `FLAG_*`.
    pub flags: u8,
    /// Size of the data blocks in 512-byte sectors; 0 is invalid except in old space maps.
    pub data_sectors: u16,
    /// Slots this dnode takes beyond the first.
    pub extra_slots: u8,
    /// Largest block number ever written.
    pub max_block: u64,
    /// Space used as stored: bytes or sectors by [`FLAG_USED_BYTES`]. See [`Dnode::used_bytes`].
    pub used: u64,
    /// Block pointers, 1 to 3.
    pub blkptrs: Vec<BlkPtr>,
    /// Bonus bytes, undecoded, `bonuslen` long.
    pub bonus: Vec<u8>,
    /// Spill block pointer, if the flag is set.
    pub spill: Option<BlkPtr>,
    /// Byte order of the block with the dnode: the order of the bonus too.
    pub endian: Endian,
    /// Padding, and bytes between bonus and spill or end, as found, for an exact encode.
    slack: Slack,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Slack {
    pad2: [u8; 3],
    pad3: [u64; 4],
    tail: Vec<u8>,
}

fn range(r: &Reader<'_>, field: &'static str, value: u64, min: u64, max: u64) -> Result<()> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(r.error(field, ErrorKind::OutOfRange { value, min, max })),
    }
}

impl Dnode {
    /// A dnode of `slots` slots (1 to 32) without blocks, with room for `pointers` (1 to 3).
    #[must_use]
    pub fn new(kind: DmuType, slots: u8, pointers: usize, indirect_shift: u8) -> Self {
        Self {
            kind,
            indirect_shift,
            levels: 1,
            bonus_kind: DmuType::NONE,
            checksum: Checksum::INHERIT,
            compression: Compression::INHERIT,
            flags: FLAG_USED_BYTES,
            data_sectors: 1,
            extra_slots: slots.clamp(1, 32) - 1,
            max_block: 0,
            used: 0,
            blkptrs: vec![BlkPtr::HOLE; pointers.clamp(1, 3)],
            bonus: Vec::new(),
            spill: None,
            endian: Endian::Little,
            slack: Slack::default(),
        }
    }

    /// Longest bonus in bytes beside the block pointers, and a spill pointer if there is to be one.
    #[must_use]
    pub fn bonus_room(&self, spill: bool) -> usize {
        let pointers = self.blkptrs.len() + usize::from(spill);
        self.size().saturating_sub(DNODE_CORE_SIZE + pointers * BLKPTR_SIZE)
    }

    /// Whether a spill pointer has room behind the block pointers and the bonus.
    #[must_use]
    pub fn has_spill_room(&self) -> bool {
        let pointers = self.blkptrs.len() + 1;
        DNODE_CORE_SIZE + pointers * BLKPTR_SIZE + self.bonus.len() <= self.size()
    }

    /// Forgets the bytes found behind the bonus, which is about to change its length or to get a
    /// spill pointer behind it: zeros will be written there.
    pub fn clear_tail(&mut self) {
        self.slack.tail.clear();
    }

    /// All bytes between the pointers and the spill pointer or the end, as far as they are known:
    /// the bonus, and what was found behind it. In an encrypted dataset all of it is one
    /// ciphertext.
    #[must_use]
    pub fn bonus_area(&self) -> Vec<u8> {
        [self.bonus.as_slice(), &self.slack.tail].concat()
    }

    /// Replaces the bonus, of which the first `len` bytes are the bonus proper, and the bytes
    /// behind it. False, and nothing is changed: they do not fit.
    #[must_use]
    pub fn set_bonus_area(&mut self, len: usize, area: &[u8], spill: bool) -> bool {
        let Some((bonus, tail)) = area.split_at_checked(len) else { return false };
        if area.len() > self.bonus_room(spill) {
            return false;
        }
        self.bonus = bonus.to_vec();
        self.slack.tail = tail.to_vec();
        true
    }

    /// Whether a spill pointer has room behind [`Self::bonus_area`].
    #[must_use]
    pub fn has_spill_room_behind_area(&self) -> bool {
        self.bonus.len() + self.slack.tail.len() <= self.bonus_room(true)
    }

    /// Size of the data blocks in bytes.
    #[must_use]
    pub fn block_size(&self) -> u64 {
        u64::from(self.data_sectors) * SECTOR_SIZE
    }

    /// Bytes this dnode takes in its block.
    #[must_use]
    pub fn size(&self) -> usize {
        (usize::from(self.extra_slots) + 1) * DNODE_SLOT_SIZE
    }

    /// Space used by the object's blocks in bytes.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        match self.flags & FLAG_USED_BYTES {
            0 => self.used.saturating_mul(SECTOR_SIZE),
            _ => self.used,
        }
    }

    /// Block pointers an indirect block holds.
    #[must_use]
    pub fn pointers_per_indirect(&self) -> u64 {
        1 << (self.indirect_shift - 7)
    }

    /// The free slot: type 0.
    #[must_use]
    pub fn is_free_slot(data: &[u8]) -> bool {
        data.first().is_none_or(|t| *t == 0)
    }

    /// Decodes the dnode at the start of `data`; bytes beyond its slots are ignored.
    ///
    /// A free slot (type 0) is an error; test with [`Self::is_free_slot`] first.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("dnode", data, endian);
        let kind = DmuType(r.u8("type")?);
        if kind == DmuType::NONE || !kind.is_valid() {
            return Err(r.error("type", ErrorKind::Unknown { value: kind.0.into() }));
        }
        let indirect_shift = r.u8("indblkshift")?;
        let levels = r.u8("nlevels")?;
        let nblkptr = r.u8("nblkptr")?;
        let bonus_kind = DmuType(r.u8("bonustype")?);
        let checksum = Checksum(r.u8("checksum")?);
        let compression = Compression(r.u8("compress")?);
        let flags = r.u8("flags")?;
        let data_sectors = r.u16("datablkszsec")?;
        let bonus_len = usize::from(r.u16("bonuslen")?);
        let extra_slots = r.u8("extra_slots")?;
        let pad2 = r.array("pad2")?;
        let max_block = r.u64("maxblkid")?;
        let used = r.u64("used")?;
        let pad3 = r.words("pad3")?;

        let shifts = (*INDIRECT_SHIFT_RANGE.start(), *INDIRECT_SHIFT_RANGE.end());
        range(&r, "indblkshift", indirect_shift.into(), shifts.0.into(), shifts.1.into())?;
        range(&r, "nlevels", levels.into(), 1, MAX_LEVELS.into())?;
        range(&r, "nblkptr", nblkptr.into(), 1, 3)?;
        range(&r, "extra_slots", extra_slots.into(), 0, 31)?;
        // 16 MiB, the largest record, is 32768 sectors.
        range(&r, "datablkszsec", data_sectors.into(), 0, 32768)?;

        let size = (usize::from(extra_slots) + 1) * DNODE_SLOT_SIZE;
        let pointers_end = DNODE_CORE_SIZE + usize::from(nblkptr) * BLKPTR_SIZE;
        let has_spill = flags & FLAG_SPILL != 0;
        let spill_size = if has_spill { BLKPTR_SIZE } else { 0 };
        let Some(bonus_max) = size.checked_sub(pointers_end + spill_size) else {
            let rule = "block pointers and spill pointer fit the dnode";
            return Err(r.error("flags", ErrorKind::Inconsistent(rule)));
        };
        range(&r, "bonuslen", bonus_len as u64, 0, bonus_max as u64)?;

        let mut blkptrs = Vec::with_capacity(nblkptr.into());
        for _ in 0..nblkptr {
            blkptrs.push(r.blkptr("blkptr")?);
        }
        let bonus = r.bytes("bonus", bonus_len)?.to_vec();
        let tail_len = bonus_max - bonus_len;
        let tail = r.bytes("tail", tail_len)?.to_vec();
        let spill = if has_spill { Some(r.blkptr("spill")?) } else { None };
        Ok(Self {
            kind,
            indirect_shift,
            levels,
            bonus_kind,
            checksum,
            compression,
            flags,
            data_sectors,
            extra_slots,
            max_block,
            used,
            blkptrs,
            bonus,
            spill,
            endian,
            slack: Slack { pad2, pad3, tail },
        })
    }

    /// Encodes into [`Self::size`] bytes. The bonus is written as it is, in `self.endian`.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.bytes(&[
            self.kind.0,
            self.indirect_shift,
            self.levels,
            self.blkptrs.len() as u8,
            self.bonus_kind.0,
            self.checksum.0,
            self.compression.0,
            self.flags,
        ]);
        w.u16(self.data_sectors).u16(self.bonus.len() as u16).u8(self.extra_slots);
        w.bytes(&self.slack.pad2).u64(self.max_block).u64(self.used).words(&self.slack.pad3);
        for bp in &self.blkptrs {
            w.blkptr(bp);
        }
        w.bytes(&self.bonus).bytes(&self.slack.tail);
        let spill_at = self.size() - if self.spill.is_some() { BLKPTR_SIZE } else { 0 };
        w.pad_to(spill_at);
        if let Some(bp) = &self.spill {
            w.blkptr(bp);
        }
        w.into_bytes()
    }
}
