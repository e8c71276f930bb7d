//! Redaction lists: blocks that a redacted stream leaves out.
//!
//! Specified in `docs/format/redaction.md`. `zfs redact` compares a snapshot with clones in which
//! the secret parts were overwritten, and keeps the list of blocks that differ as an object of the
//! MOS, named by a redaction bookmark. The object's bonus (or spill block, feature
//! `redaction_list_spill`) is a header, its data entries of 32 bytes sorted by object and block.

use crate::blkptr::SECTOR_SIZE;
use crate::cursor::{Endian, Reader, Writer};
use crate::error::{ErrorKind, Result};
use crate::wordstruct::word_struct;

/// Bytes of the header before the array of snapshots.
pub const HEADER_BASE_SIZE: usize = 32;

/// Header of a redaction list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RedactionHeader {
    /// Object of the last block that was looked at; the list is complete when this is the largest
    /// number.
    pub last_object: u64,
    /// Number of that block.
    pub last_blkid: u64,
    /// Entries in the object's data.
    pub num_entries: u64,
    /// GUIDs of the snapshots the list was made with.
    pub snapshots: Vec<u64>,
}

impl RedactionHeader {
    /// Decodes a bonus or spill block.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("redaction list", data, endian);
        let last_object = r.u64("last_object")?;
        let last_blkid = r.u64("last_blkid")?;
        let num_entries = r.u64("num_entries")?;
        let count = r.u64("num_snaps")?;
        let fits = (r.remaining() / 8) as u64;
        if count > fits {
            let kind = ErrorKind::OutOfRange { value: count, min: 0, max: fits };
            return Err(r.error("num_snaps", kind));
        }
        let mut snapshots = Vec::with_capacity(count as usize);
        for _ in 0..count {
            snapshots.push(r.u64("snaps")?);
        }
        Ok(Self { last_object, last_blkid, num_entries, snapshots })
    }

    /// Encodes into `32 + 8 * snapshots` bytes.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.u64(self.last_object).u64(self.last_blkid).u64(self.num_entries);
        w.u64(self.snapshots.len() as u64).words(&self.snapshots);
        w.into_bytes()
    }

    /// The list covers the whole snapshot.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.last_object == u64::MAX && self.last_blkid == u64::MAX
    }
}

word_struct! {
    /// An entry: a run of blocks of one object.
    pub struct RedactBlock("redact block") {
        /// Object.
        pub object: u64,
        /// First block.
        pub blkid: u64,
        size_count: u64,
        pad: u64,
    }
}

impl RedactBlock {
    const COUNT_BITS: u32 = 48;

    /// A run of `count` blocks (below 2^48) of `block_size` bytes (a multiple of 512).
    #[must_use]
    pub fn new(object: u64, blkid: u64, block_size: u64, count: u64) -> Self {
        let count = count & ((1 << Self::COUNT_BITS) - 1);
        let size_count = ((block_size / SECTOR_SIZE) << Self::COUNT_BITS) | count;
        Self { object, blkid, size_count, pad: 0 }
    }

    /// Size of the blocks in bytes.
    #[must_use]
    pub fn block_size(&self) -> u64 {
        (self.size_count >> Self::COUNT_BITS) * SECTOR_SIZE
    }

    /// Number of blocks.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.size_count & ((1 << Self::COUNT_BITS) - 1)
    }
}

/// The entries in `data`, a run of whole entries of the object's data.
pub fn entries(data: &[u8], endian: Endian) -> impl Iterator<Item = Result<RedactBlock>> + '_ {
    data.chunks(RedactBlock::SIZE).map(move |c| RedactBlock::decode(c, endian))
}
