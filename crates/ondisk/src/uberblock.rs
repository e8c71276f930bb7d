//! Uberblocks: the roots of the pool's tree, one per synced txg, in the ring of each label.
//!
//! Specified in `docs/format/uberblock.md`. A txg is committed when its uberblock is on disk. The
//! ring keeps the last 16 to 128 of them: slot `txg mod slots`, where a slot is a sector of the
//! vdev, but at least 1 KiB and at most 8 KiB. The best valid one is where the pool is opened
//! ([`Uberblock::cmp_age`]).
//!
//! ```text
//!   0 magic          8 version        16 txg            24 sum of vdev guids
//!  32 timestamp     40 root block pointer (128 bytes)  168 software version
//! 176 MMP magic    184 MMP delay     192 MMP config    200 checkpoint txg
//! 208 raidz reflow  (zeros)          size-40 embedded checksum
//! ```
//!
//! Old software left everything behind what it knew at zero.

use core::cmp::Ordering;

use crate::blkptr::BlkPtr;
use crate::cursor::{Endian, Reader, Writer};
use crate::error::{ErrorKind, Result};

/// First word of an uberblock; its byte order is that of all of it.
pub const UBERBLOCK_MAGIC: u64 = 0x00ba_b10c;
/// Word that says the multihost fields are there.
pub const MMP_MAGIC: u64 = 0xa11c_ea11;
/// Bytes of an uberblock that have a meaning; the rest of the slot is zeros and the checksum.
pub const UBERBLOCK_SIZE: usize = 216;
/// Size of the ring in a label in bytes.
pub const RING_SIZE: usize = 128 << 10;

/// Size of a ring slot in bytes on a vdev with sector size exponent `ashift`: 1 to 8 KiB.
#[must_use]
pub fn slot_size(ashift: u64) -> usize {
    1 << ashift.clamp(10, 13)
}

/// Slots in a ring.
#[must_use]
pub fn slot_count(ashift: u64) -> usize {
    RING_SIZE / slot_size(ashift)
}

/// An uberblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uberblock {
    /// Pool version.
    pub version: u64,
    /// Txg this is the root of.
    pub txg: u64,
    /// Sum of the guids of all vdevs, modulo 2^64: finds missing devices.
    pub guid_sum: u64,
    /// When it was written, in seconds since 1970.
    pub timestamp: u64,
    /// Object set of the MOS.
    pub rootbp: BlkPtr,
    /// Newest pool version the writing software knew.
    pub software_version: u64,
    /// [`MMP_MAGIC`] when the next two fields are meant.
    pub mmp_magic: u64,
    /// Nanoseconds between multihost writes, recently; 0: multihost is off.
    pub mmp_delay: u64,
    /// Packed; see [`Self::mmp`].
    pub mmp_config: u64,
    /// In the copy that a checkpoint keeps (and after rewinding to it): its txg at that time.
    pub checkpoint_txg: u64,
    /// Packed; see [`Self::raidz_reflow`].
    pub raidz_reflow_info: u64,
}

/// The multihost protection (MMP) fields of an uberblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmp {
    /// Nanoseconds between writes, recently; 0: multihost is off.
    pub delay: u64,
    /// Configured milliseconds between writes.
    pub interval: Option<u32>,
    /// Counts writes within one second.
    pub sequence: Option<u16>,
    /// Intervals without a write after which the pool is suspended.
    pub fail_intervals: Option<u16>,
}

/// State of the scratch area during raidz expansion, in the boot area of each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReflowScratch {
    /// Not in use.
    NotInUse,
    /// Holds what belongs at the start of the vdev: that start is being overwritten.
    Valid,
    /// Its content is in place, and synced.
    InvalidSynced,
    /// The same, done while importing.
    InvalidSyncedOnImport,
    /// Its content is in place; the reflow continues behind it.
    InvalidSyncedReflow,
    /// Anything else.
    Unknown(u16),
}

impl Uberblock {
    /// Byte order of the uberblock in this slot; `None` when there is none.
    #[must_use]
    pub fn detect(data: &[u8]) -> Option<Endian> {
        let magic = *data.first_chunk::<8>()?;
        [Endian::Little, Endian::Big].into_iter().find(|e| e.u64(magic) == UBERBLOCK_MAGIC)
    }

    /// Decodes a slot, or its first [`UBERBLOCK_SIZE`] bytes; also returns the byte order.
    pub fn decode(data: &[u8]) -> Result<(Self, Endian)> {
        let endian = Self::detect(data);
        let mut r = Reader::new("uberblock", data, endian.unwrap_or(Endian::Little));
        let start = r.clone();
        let found = r.u64("magic")?;
        let endian = endian.ok_or_else(|| start.error("magic", ErrorKind::BadMagic { found }))?;
        let ub = Self {
            version: r.u64("version")?,
            txg: r.u64("txg")?,
            guid_sum: r.u64("guid_sum")?,
            timestamp: r.u64("timestamp")?,
            rootbp: r.blkptr("rootbp")?,
            software_version: r.u64("software_version")?,
            mmp_magic: r.u64("mmp_magic")?,
            mmp_delay: r.u64("mmp_delay")?,
            mmp_config: r.u64("mmp_config")?,
            checkpoint_txg: r.u64("checkpoint_txg")?,
            raidz_reflow_info: r.u64("raidz_reflow_info")?,
        };
        Ok((ub, endian))
    }

    /// Encodes the meaningful bytes; the caller puts them into a zeroed slot and adds the checksum.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.words(&[UBERBLOCK_MAGIC, self.version, self.txg, self.guid_sum, self.timestamp]);
        w.blkptr(&self.rootbp);
        w.words(&[self.software_version, self.mmp_magic, self.mmp_delay, self.mmp_config]);
        w.words(&[self.checkpoint_txg, self.raidz_reflow_info]);
        w.into_bytes()
    }

    /// The multihost fields, when there are any.
    #[must_use]
    pub fn mmp(&self) -> Option<Mmp> {
        let valid = |bit: u64| self.mmp_config & bit != 0;
        (self.mmp_magic == MMP_MAGIC).then(|| Mmp {
            delay: self.mmp_delay,
            interval: valid(1).then_some((self.mmp_config >> 8) as u32 & 0xff_ffff),
            sequence: valid(2).then_some((self.mmp_config >> 32) as u16),
            fail_intervals: valid(4).then_some((self.mmp_config >> 48) as u16),
        })
    }

    /// State of the raidz expansion, and how far it has come: bytes into the vdev's allocatable
    /// space (parity included) that have the new layout.
    #[must_use]
    pub fn raidz_reflow(&self) -> (ReflowScratch, u64) {
        let state = match (self.raidz_reflow_info >> 55) as u16 {
            0 => ReflowScratch::NotInUse,
            1 => ReflowScratch::Valid,
            2 => ReflowScratch::InvalidSynced,
            3 => ReflowScratch::InvalidSyncedOnImport,
            4 => ReflowScratch::InvalidSyncedReflow,
            n => ReflowScratch::Unknown(n),
        };
        // 55 bits of 512-byte units: 64 bits of bytes, no overflow.
        (state, (self.raidz_reflow_info & ((1 << 55) - 1)) << 9)
    }

    /// Says how far a raidz expansion is; `offset` in bytes.
    pub fn set_raidz_reflow(&mut self, state: ReflowScratch, offset: u64) {
        let state: u64 = match state {
            ReflowScratch::NotInUse => 0,
            ReflowScratch::Valid => 1,
            ReflowScratch::InvalidSynced => 2,
            ReflowScratch::InvalidSyncedOnImport => 3,
            ReflowScratch::InvalidSyncedReflow => 4,
            ReflowScratch::Unknown(n) => u64::from(n) & 0x1ff,
        };
        self.raidz_reflow_info = state << 55 | (offset >> 9 & ((1 << 55) - 1));
    }

    /// Orders by age, the newest greatest: txg, then time, then the multihost write counter.
    #[must_use]
    pub fn cmp_age(&self, other: &Self) -> Ordering {
        let sequence = |u: &Self| u.mmp().and_then(|m| m.sequence).unwrap_or(0);
        (self.txg, self.timestamp, sequence(self)).cmp(&(
            other.txg,
            other.timestamp,
            sequence(other),
        ))
    }
}
