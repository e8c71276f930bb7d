//! ZAP: the attribute store, ZFS's hash table of names to values.
//!
//! Specified in `docs/format/zap.md`. The first eight bytes of the object's first block distinguish
//! the two kinds:
//!
//! - micro: one block, an array of 64-byte chunks, each a name of at most 49 bytes and one
//!   64-bit value. The order of the chunks means nothing; readers order by (hash, differentiator).
//! - fat: block 0 is a header with the salt and a pointer table; the top bits of a name's hash
//!   index the table, the entry is the number of a leaf block. A leaf is a small hash table of
//!   its own over 24-byte chunks. When the table outgrows the second half of the header it moves
//!   to blocks of its own.
//!
//! This module decodes single blocks; [`ZapHeader`] determines which block to fetch next, the
//! fetching belongs to the caller. The hash ([`KeyHash`]) and the name comparison ([`ZapKey`]) are
//! the same for both kinds.

mod hash;
mod header;
mod leaf;
mod micro;
mod normalize;
mod numbers;
mod stored;
mod unicode5;

pub use hash::{FLAG_HASH64, FLAG_PRE_HASHED_KEY, FLAG_UINT64_KEY, KeyHash, Match, ZapKey};
pub use header::{ENTRY_COUNT_AT, PointerTable, TablePlace, ZAP_MAGIC, ZapHeader};
pub use leaf::{CHAIN_END, Chunk, ENTRIES_CD_SORTED, EditOutcome, LEAF_MAGIC, Leaf, LeafEntry};
pub use micro::{
    MICRO_BLOCK_SIZE_MAX, MICRO_CHUNK_SIZE, MICRO_NAME_SIZE, MicroChunk, MicroEntry, MicroZap,
};
pub use normalize::{
    NORM_NFC, NORM_NFD, NORM_NFKC, NORM_NFKD, NORM_TOLOWER, NORM_TOUPPER, normalize,
};
pub use numbers::{int_key, parse_int_key};
pub use stored::StoredMicro;

use crate::cursor::Endian;
use crate::error::{Error, ErrorKind, Result};

/// Block type word of a leaf block.
pub const BLOCK_LEAF: u64 = 1 << 63;
/// Block type word of a fat ZAP's header block.
pub const BLOCK_HEADER: u64 = (1 << 63) + 1;
/// Block type word of a micro ZAP.
pub const BLOCK_MICRO: u64 = (1 << 63) + 3;
/// Smallest block a ZAP can have in bytes.
pub const BLOCK_SIZE_MIN: usize = 512;
/// Largest block of a fat ZAP in bytes: chunk numbers have 16 bits.
pub const FAT_BLOCK_SIZE_MAX: usize = 1 << 20;

/// The kind of a ZAP block. Blocks of an external pointer table carry no type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// The only block of a micro ZAP.
    Micro,
    /// Block 0 of a fat ZAP.
    Header,
    /// A leaf of a fat ZAP.
    Leaf,
}

/// Kind of the ZAP block `block`, or `None` when its first word is not a block type.
#[must_use]
pub fn block_kind(block: &[u8], endian: Endian) -> Option<BlockKind> {
    let word = block.first_chunk::<8>()?;
    match endian.u64(*word) {
        BLOCK_MICRO => Some(BlockKind::Micro),
        BLOCK_HEADER => Some(BlockKind::Header),
        BLOCK_LEAF => Some(BlockKind::Leaf),
        _ => None,
    }
}

/// The first block of a ZAP object, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstBlock {
    /// The whole of a micro ZAP.
    Micro(MicroZap),
    /// The header of a fat ZAP.
    Fat(ZapHeader),
}

impl FirstBlock {
    /// Decodes block 0 of a ZAP object. A block of another kind is an error.
    pub fn decode(block: &[u8], endian: Endian) -> Result<Self> {
        match block_kind(block, endian) {
            Some(BlockKind::Micro) => MicroZap::decode(block, endian).map(Self::Micro),
            Some(BlockKind::Header) => ZapHeader::decode(block, endian).map(Self::Fat),
            _ => {
                let value = block.first_chunk::<8>().map_or(0, |w| endian.u64(*w));
                let kind = ErrorKind::Unknown { value };
                Err(Error { structure: "zap", field: "block type", offset: 0, kind })
            }
        }
    }

    /// How names are hashed in this ZAP.
    #[must_use]
    pub fn key_hash(&self) -> KeyHash {
        match self {
            Self::Micro(m) => m.key_hash(),
            Self::Fat(h) => h.key_hash(),
        }
    }
}

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ZapName {
    /// A string, without the NUL that ends it on disk. Often UTF-8, never sure to be.
    Bytes(Vec<u8>),
    /// An array of 64-bit integers (ZAPs with [`FLAG_UINT64_KEY`]).
    U64s(Vec<u64>),
}

impl ZapName {
    /// The string's bytes; `None` when the key is made of integers.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(b) => Some(b),
            Self::U64s(_) => None,
        }
    }
}

/// One name and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub name: ZapName,
    /// Collision differentiator: distinguishes entries of the same hash.
    pub cd: u32,
    /// Hash of the key; only the top bits ([`KeyHash::bits`]) are used.
    pub hash: u64,
    /// Size of the value's integers in bytes: 1, 2, 4 or 8.
    pub int_len: u8,
    /// The value's integers, each `int_len` bytes, big-endian whatever the pool's order is.
    pub values: Vec<u8>,
}

impl Entry {
    /// Number of integers in the value.
    #[must_use]
    pub fn int_count(&self) -> usize {
        self.values.len() / usize::from(self.int_len.max(1))
    }

    /// The value's integers, widened.
    pub fn ints(&self) -> impl Iterator<Item = u64> + '_ {
        self.values
            .chunks_exact(usize::from(self.int_len.max(1)))
            .map(|c| c.iter().fold(0u64, |v, b| (v << 8) | u64::from(*b)))
    }

    /// The value when it is a single integer.
    #[must_use]
    pub fn u64(&self) -> Option<u64> {
        let mut ints = self.ints();
        match (ints.next(), ints.next()) {
            (Some(v), None) => Some(v),
            _ => None,
        }
    }

    /// The value as bytes when it is an array of bytes.
    #[must_use]
    pub fn value_bytes(&self) -> Option<&[u8]> {
        (self.int_len == 1).then_some(&self.values)
    }

    /// The value as text when it is an array of bytes; a NUL at the end is left off.
    #[must_use]
    pub fn value_text(&self) -> Option<&[u8]> {
        self.value_bytes().map(|b| b.strip_suffix(&[0]).unwrap_or(b))
    }
}
