//! The intent log: a chain of blocks of records of what was promised but not yet in a txg.
//!
//! Specified in `docs/format/zil.md`. The object set's header ([`crate::ZilHeader`]) points to the
//! first block. Each block has a chain structure with the pointer to the next one and the number of
//! bytes used; the chain ends at the first block that cannot be read, is no longer the one meant,
//! or does not verify. The structure is at the end of the block (checksum `zilog`) or, in all logs
//! written since 2010, at its start (checksum `zilog2`), so that a block needs no more writing than
//! it has records.
//!
//! ```text
//! 0 pad  8 next block pointer  136 bytes used  144 magic  152 checksum (4 words)   184 bytes
//! ```
//!
//! The checksum of a block is seeded with its pointer's: two words of random numbers for the log,
//! the object set, and a sequence number that grows by one from block to block. Records are in
//! [`record`].

mod attrs;
mod body;
pub mod record;

pub use attrs::{AttrBit, ExtraAttrs};
pub use record::{AclPart, Body, Create, Record, TxType, Whiteout};

use crate::cursor::{Endian, Reader, Writer};
use crate::error::{ErrorKind, Result};
use crate::gang::EMBEDDED_CHECKSUM_MAGIC;
use crate::{BlkPtr, Checksum};

/// Size of the chain structure in bytes.
pub const CHAIN_SIZE: usize = 184;
/// Smallest log block in bytes.
pub const BLOCK_SIZE_MIN: usize = 4096;
/// Word of a log block's checksum that is its sequence number.
pub const CHECKSUM_SEQ_WORD: usize = 3;
/// Word of a log block's checksum that is the object set's number.
pub const CHECKSUM_OBJSET_WORD: usize = 2;

/// The place of the chain structure in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainPlace {
    /// At the start; the records follow it. Bytes used include it.
    Front,
    /// At the end; the records start the block. Bytes used do not include it.
    Back,
}

impl ChainPlace {
    /// The place that a block pointer's checksum algorithm tells; `None` when it is not that of a
    /// log block.
    #[must_use]
    pub fn of(checksum: Checksum) -> Option<Self> {
        match checksum {
            Checksum::ZILOG2 => Some(Self::Front),
            Checksum::ZILOG => Some(Self::Back),
            _ => None,
        }
    }
}

/// The chain structure of a log block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Pointer to the next block; allocated ahead, perhaps never written.
    pub next: BlkPtr,
    /// Bytes used, counted as [`ChainPlace`] says.
    pub used: u64,
    /// Magic number of the embedded checksum.
    pub magic: u64,
    /// The embedded checksum.
    pub checksum: [u64; 4],
    pad: u64,
}

impl Chain {
    /// A chain structure whose checksum is still to be computed; the words are its seed.
    #[must_use]
    pub fn new(next: BlkPtr, used: u64, seed: [u64; 4]) -> Self {
        Self { next, used, magic: EMBEDDED_CHECKSUM_MAGIC, checksum: seed, pad: 0 }
    }

    /// Decodes the chain structure of `block`. The magic is not judged: the I/O layer does that
    /// with the checksum, before.
    pub fn decode(block: &[u8], place: ChainPlace, endian: Endian) -> Result<Self> {
        let start = match place {
            ChainPlace::Front => 0,
            ChainPlace::Back => block.len().saturating_sub(CHAIN_SIZE),
        };
        let mut r = Reader::new("log block chain", block.get(start..).unwrap_or(&[]), endian);
        let chain = Self {
            pad: r.u64("pad")?,
            next: r.blkptr("next_blk")?,
            used: r.u64("nused")?,
            magic: r.u64("magic")?,
            checksum: r.words("cksum")?,
        };
        let (min, max) = match place {
            ChainPlace::Front => (CHAIN_SIZE, block.len()),
            ChainPlace::Back => (0, block.len() - CHAIN_SIZE),
        };
        if !(min as u64..=max as u64).contains(&chain.used) {
            let (value, min, max) = (chain.used, min as u64, max as u64);
            return Err(r.error("nused", ErrorKind::OutOfRange { value, min, max }));
        }
        Ok(chain)
    }

    /// Encodes the 184 bytes.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.u64(self.pad).blkptr(&self.next).u64(self.used).u64(self.magic).words(&self.checksum);
        w.into_bytes()
    }

    /// The part of `block` that holds its records.
    #[must_use]
    pub fn records_in<'b>(&self, block: &'b [u8], place: ChainPlace) -> &'b [u8] {
        let start = match place {
            ChainPlace::Front => CHAIN_SIZE,
            ChainPlace::Back => 0,
        };
        let end = usize::try_from(self.used).unwrap_or(usize::MAX);
        block.get(start..end).unwrap_or(&[])
    }
}

/// The records in `bytes`, as [`Chain::records_in`] gives them. After an error nothing follows: the
/// start of the next record is then unknown.
pub fn records(bytes: &[u8], endian: Endian) -> impl Iterator<Item = Result<Record>> + '_ {
    records_by(bytes, endian, Record::decode)
}

/// How a record is decoded: by [`Record::decode`], or, while its block is encrypted, by
/// [`Record::decode_clear`].
pub type DecodeRecord = fn(&[u8], Endian) -> Result<Record>;

/// [`records`], decoded in one of two ways.
pub fn records_by(
    bytes: &[u8],
    endian: Endian,
    decode: DecodeRecord,
) -> impl Iterator<Item = Result<Record>> + '_ {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = record::record_length(rest, endian).and_then(|length| {
            let (head, tail) = rest.split_at(length);
            rest = tail;
            decode(head, endian)
        });
        if cut.is_err() {
            rest = &[];
        }
        Some(cut)
    })
}

/// Puts records one after the other, as they are in a block.
#[must_use]
pub fn encode_records(records: &[Record], endian: Endian) -> Vec<u8> {
    records.iter().flat_map(|r| r.encode(endian)).collect()
}
