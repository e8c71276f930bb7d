//! Leaf blocks of a fat ZAP.
//!
//! ```text
//! 0 block type  8 pad  16 prefix  24 magic u32  28 nfree u16  30 nentries u16
//! 32 prefix_len u16  34 freelist u16  36 flags u8  37..48 pad
//! 48 hash table: block size / 32 chunk numbers of 16 bits
//! then chunks of 24 bytes to the end of the block
//! ```
//!
//! A leaf holds the entries whose hash starts with the `prefix_len` bits of `prefix`; the bits
//! after them pick the bucket. Each bucket starts a chain of entry chunks; an entry names the
//! first of a chain of array chunks for its name and one for its value. Arrays hold integers
//! most significant byte first in every byte order, 21 bytes to a chunk.
//!
//! Chains are walked with a budget of as many steps as there are chunks, so a loop is an error.
//!
//! A directory's leaf is looked at or changed for every name that is looked up, made or removed,
//! and has hundreds of chunks. So a [`Leaf`] is its block: chunks are read in place, and only what
//! changes is written ([`Leaf::patches`]).

mod edit;
mod touched;

pub use edit::EditOutcome;

use super::hash::ZapKey;
use super::{BLOCK_LEAF, BLOCK_SIZE_MIN, Entry, FAT_BLOCK_SIZE_MAX, ZapName};
use crate::cursor::{Endian, Reader, Writer};
use crate::error::{Error, ErrorKind, Result};
use std::borrow::Cow;
use touched::Touched;

/// Magic number in a leaf.
pub const LEAF_MAGIC: u32 = 0x02AB_1EAF;
/// Chunk number that ends a chain.
pub const CHAIN_END: u16 = 0xffff;
/// Flag: entries of one hash are in the order of their differentiators.
pub const ENTRIES_CD_SORTED: u8 = 1;

const HEADER_SIZE: usize = 48;
const CHUNK_SIZE: usize = 24;
const ARRAY_BYTES: usize = 21;
const CHUNK_ENTRY: u8 = 252;
const CHUNK_ARRAY: u8 = 251;
const CHUNK_FREE: u8 = 253;

/// An entry chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafEntry {
    /// Size of the value's integers in bytes.
    pub int_len: u8,
    /// Next entry of the bucket.
    pub next: u16,
    /// First chunk of the name.
    pub name_chunk: u16,
    /// Integers in the name; bytes, NUL included, or 64-bit words.
    pub name_len: u16,
    /// First chunk of the value.
    pub value_chunk: u16,
    /// Integers in the value.
    pub value_len: u16,
    /// Collision differentiator.
    pub cd: u32,
    /// Hash of the name.
    pub hash: u64,
}

/// One 24-byte chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// An entry.
    Entry(LeafEntry),
    /// Part of a name or value.
    Array {
        /// The bytes; in the last chunk of a chain the rest is filler.
        bytes: [u8; ARRAY_BYTES],
        /// Next chunk of the array.
        next: u16,
    },
    /// Not used.
    Free {
        /// The bytes left of earlier use.
        bytes: [u8; ARRAY_BYTES],
        /// Next free chunk.
        next: u16,
    },
}

/// A leaf: the fields of its header, and the block they came from. Two are equal when their headers
/// and the bytes behind them are.
#[derive(Clone, Debug)]
pub struct Leaf<'b> {
    /// Top bits of the hashes in this leaf, right-aligned.
    pub prefix: u64,
    /// How many bits those are.
    pub prefix_len: u16,
    /// Free chunks.
    pub free_count: u16,
    /// Entries.
    pub entry_count: u16,
    /// First free chunk.
    pub free_list: u16,
    /// [`ENTRIES_CD_SORTED`].
    pub flags: u8,
    pad1: u64,
    pad2: [u8; 11],
    endian: Endian,
    /// The whole block. Its copies of the fields above are from before these were changed.
    block: Cow<'b, [u8]>,
    touched: Touched,
}

fn error(field: &'static str, offset: usize, kind: ErrorKind) -> Error {
    Error { structure: "zap leaf", field, offset: offset as u64, kind }
}

impl<'b> Leaf<'b> {
    /// Looks at a whole leaf block.
    ///
    /// # Errors
    /// It is not a leaf, or a chunk is of a type that there is not.
    pub fn decode(block: &'b [u8], endian: Endian) -> Result<Self> {
        let len = block.len();
        if !len.is_power_of_two() || !(BLOCK_SIZE_MIN..=FAT_BLOCK_SIZE_MAX).contains(&len) {
            let (min, max) = (BLOCK_SIZE_MIN as u64, FAT_BLOCK_SIZE_MAX as u64);
            let kind = ErrorKind::OutOfRange { value: len as u64, min, max };
            return Err(error("block size", 0, kind));
        }
        let mut r = Reader::new("zap leaf", block, endian);
        let kind = r.u64("block type")?;
        if kind != BLOCK_LEAF {
            return Err(error("block type", 0, ErrorKind::BadMagic { found: kind }));
        }
        let pad1 = r.u64("pad1")?;
        let prefix = r.u64("prefix")?;
        let magic = r.u32("magic")?;
        if magic != LEAF_MAGIC {
            return Err(error("magic", 24, ErrorKind::BadMagic { found: magic.into() }));
        }
        let free_count = r.u16("nfree")?;
        let entry_count = r.u16("nentries")?;
        let prefix_len = r.u16("prefix_len")?;
        let free_list = r.u16("freelist")?;
        let flags = r.u8("flags")?;
        let pad2 = r.array("pad2")?;
        let bucket_shift = len.trailing_zeros() - 5;
        let max = u64::from(64 - bucket_shift);
        if u64::from(prefix_len) > max {
            let kind = ErrorKind::OutOfRange { value: prefix_len.into(), min: 0, max };
            return Err(error("prefix_len", 32, kind));
        }
        let leaf = Self {
            prefix,
            prefix_len,
            free_count,
            entry_count,
            free_list,
            flags,
            pad1,
            pad2,
            endian,
            block: Cow::Borrowed(block),
            touched: Touched::default(),
        };
        let known = |kind| matches!(kind, CHUNK_ENTRY | CHUNK_ARRAY | CHUNK_FREE);
        // The rest of the block is a whole number of chunks for every power of two from 128 on.
        match leaf.raw_chunks().iter().position(|[kind, ..]| !known(*kind)) {
            None => Ok(leaf),
            Some(at) => {
                let at = leaf.chunks_at() + at * CHUNK_SIZE;
                let value = block.get(at).copied().unwrap_or_default().into();
                Err(error("chunk type", at + 1, ErrorKind::Unknown { value }))
            }
        }
    }

    /// The same leaf with a copy of the block.
    #[must_use]
    pub fn into_owned(self) -> Leaf<'static> {
        Leaf { block: Cow::Owned(self.block.into_owned()), ..self }
    }

    /// Encodes the block.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::with_capacity(endian, self.block.len());
        self.encode_header(&mut w);
        if endian == self.endian {
            w.bytes(self.block.get(HEADER_SIZE..).unwrap_or_default());
            return w.into_bytes();
        }
        for head in self.buckets() {
            w.u16(head);
        }
        for chunk in self.chunks() {
            w.bytes(&encode_chunk(&chunk, endian));
        }
        w.into_bytes()
    }

    fn encode_header(&self, w: &mut Writer) {
        w.u64(BLOCK_LEAF).u64(self.pad1).u64(self.prefix).u32(LEAF_MAGIC);
        w.u16(self.free_count).u16(self.entry_count).u16(self.prefix_len).u16(self.free_list);
        w.u8(self.flags).bytes(&self.pad2);
    }

    /// The changes since the leaf was decoded, as bytes and the offsets in the block where they
    /// belong. `None`: the whole block must be written, because it is new, because it is in the
    /// other byte order than `endian`, or because much of it has changed.
    #[must_use]
    pub fn patches(&self, endian: Endian) -> Option<Vec<(usize, Vec<u8>)>> {
        let ranges = self.touched.ranges().filter(|_| endian == self.endian)?;
        let mut w = Writer::with_capacity(endian, HEADER_SIZE);
        self.encode_header(&mut w);
        let bytes = |range: &std::ops::Range<usize>| {
            (range.start, self.block.get(range.clone()).unwrap_or_default().to_vec())
        };
        Some([(0, w.into_bytes())].into_iter().chain(ranges.iter().map(bytes)).collect())
    }

    /// Size of the block in bytes.
    #[must_use]
    pub fn block_size(&self) -> usize {
        self.block.len()
    }

    /// Buckets of the hash table.
    #[must_use]
    pub fn bucket_count(&self) -> usize {
        self.block.len() / 32
    }

    fn raw_buckets(&self) -> &[[u8; 2]] {
        self.block.get(HEADER_SIZE..self.chunks_at()).unwrap_or_default().as_chunks().0
    }

    /// First entry chunk of each bucket.
    pub fn buckets(&self) -> impl Iterator<Item = u16> + '_ {
        self.raw_buckets().iter().map(|b| self.endian.u16(*b))
    }

    /// First entry chunk of a bucket.
    fn head(&self, bucket: usize) -> u16 {
        self.raw_buckets().get(bucket).map_or(CHAIN_END, |b| self.endian.u16(*b))
    }

    fn chunks_at(&self) -> usize {
        HEADER_SIZE + 2 * self.bucket_count()
    }

    fn raw_chunks(&self) -> &[[u8; CHUNK_SIZE]] {
        self.block.get(self.chunks_at()..).unwrap_or_default().as_chunks().0
    }

    /// How many chunks there are.
    #[must_use]
    pub fn chunk_count(&self) -> usize {
        Self::room(self.block.len())
    }

    /// A chunk; `None` behind the last.
    #[must_use]
    pub fn chunk(&self, at: u16) -> Option<Chunk> {
        decode_chunk(self.raw_chunks().get(usize::from(at))?, self.endian)
    }

    /// All chunks.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> + '_ {
        // Their types were looked at when the block was.
        self.raw_chunks().iter().filter_map(|chunk| decode_chunk(chunk, self.endian))
    }

    /// Whether `hash` belongs into this leaf.
    #[must_use]
    pub fn covers(&self, hash: u64) -> bool {
        self.prefix_len == 0 || hash >> (64 - self.prefix_len) == self.prefix
    }

    /// The bucket of `hash`.
    #[must_use]
    pub fn bucket_of(&self, hash: u64) -> usize {
        let count = self.bucket_count();
        let down = 64 - count.trailing_zeros() - u32::from(self.prefix_len);
        (hash >> down) as usize & (count - 1)
    }

    /// All entries in cursor order: by hash, then differentiator. `integer_keys` is
    /// [`super::KeyHash::integer_keys`] of the header. An entry that two chains share, arrays that
    /// share chunks, a number of entries other than the header's, or any damage is an error.
    pub fn entries(&self, integer_keys: bool) -> Result<Vec<Entry>> {
        let mut out = Vec::new();
        let (mut budget, mut room) = (self.chunk_count(), self.chunk_count());
        for head in self.buckets() {
            for at in self.chain(head, &mut budget) {
                out.push(self.entry_within(&at?, integer_keys, &mut room)?);
            }
        }
        if out.len() != usize::from(self.entry_count) {
            let kind = ErrorKind::Inconsistent("the chains hold another number of entries");
            return Err(error("nentries", 30, kind));
        }
        out.sort_by_key(|e| (e.hash, e.cd));
        Ok(out)
    }

    /// Every entry chunk that can be read, in chunk order, whether or not a chain leads to it:
    /// what is left to take from a damaged leaf. All of it together is no longer than the leaf.
    pub fn salvage(&self, integer_keys: bool) -> impl Iterator<Item = Entry> + '_ {
        let mut room = self.chunk_count();
        self.chunks().filter_map(move |c| match c {
            Chunk::Entry(e) => self.entry_within(&e, integer_keys, &mut room).ok(),
            _ => None,
        })
    }

    /// The entry that `key` matches, or `None`.
    pub fn lookup(&self, key: &ZapKey) -> Result<Option<Entry>> {
        let head = self.head(self.bucket_of(key.hash));
        let (mut budget, mut room) = (self.chunk_count(), self.chunk_count());
        let mut best: Option<Entry> = None;
        for at in self.chain(head, &mut budget) {
            let at = at?;
            if at.hash != key.hash || best.as_ref().is_some_and(|b| b.cd <= at.cd) {
                continue;
            }
            let entry = self.entry_within(&at, key.is_integers(), &mut room)?;
            if key.matches(&entry.name) {
                best = Some(entry);
            }
        }
        Ok(best)
    }

    /// The name and the value an entry chunk leads to.
    pub fn entry(&self, e: &LeafEntry, integer_keys: bool) -> Result<Entry> {
        self.entry_within(e, integer_keys, &mut self.chunk_count())
    }

    /// The same; `room` is how many chunks arrays may still take. No chunk belongs to two arrays,
    /// so entries that share theirs, to make much of little, use it up.
    fn entry_within(&self, e: &LeafEntry, integer_keys: bool, room: &mut usize) -> Result<Entry> {
        if !matches!(e.int_len, 1 | 2 | 4 | 8) {
            let kind = ErrorKind::Unknown { value: e.int_len.into() };
            return Err(error("value_intlen", self.offset_of(e.name_chunk), kind));
        }
        let name_len = usize::from(e.name_len) * if integer_keys { 8 } else { 1 };
        let name = self.array("name", e.name_chunk, name_len, room)?;
        let name = if integer_keys {
            let words = name.as_chunks::<8>().0.iter().map(|w| u64::from_be_bytes(*w));
            ZapName::U64s(words.collect())
        } else {
            match name.split_last() {
                Some((0, name)) if !name.contains(&0) => ZapName::Bytes(name.to_vec()),
                _ => return Err(error("name", self.offset_of(e.name_chunk), ErrorKind::BadText)),
            }
        };
        let value_len = usize::from(e.value_len) * usize::from(e.int_len);
        let values = self.array("value", e.value_chunk, value_len, room)?;
        Ok(Entry { name, cd: e.cd, hash: e.hash, int_len: e.int_len, values })
    }

    /// Chunks of a leaf of `block_size` bytes, a power of two.
    #[must_use]
    pub fn room(block_size: usize) -> usize {
        (block_size - block_size / 16).saturating_sub(HEADER_SIZE) / CHUNK_SIZE
    }

    fn offset_of(&self, chunk: u16) -> usize {
        self.chunks_at() + CHUNK_SIZE * usize::from(chunk)
    }

    /// The entries of the chain from `head` on; each step takes one from `budget`.
    fn chain(&self, head: u16, budget: &mut usize) -> impl Iterator<Item = Result<LeafEntry>> {
        let mut at = head;
        core::iter::from_fn(move || {
            if at == CHAIN_END {
                return None;
            }
            let here = self.offset_of(at);
            if *budget == 0 {
                at = CHAIN_END;
                let kind = ErrorKind::Inconsistent("entry chains longer than the leaf has chunks");
                return Some(Err(error("next", here, kind)));
            }
            *budget -= 1;
            match self.chunk(at) {
                Some(Chunk::Entry(e)) => {
                    at = e.next;
                    Some(Ok(e))
                }
                other => {
                    let value = u64::from(at);
                    at = CHAIN_END;
                    Some(Err(error("next", here, self.bad_chunk(other.as_ref(), value))))
                }
            }
        })
    }

    fn bad_chunk(&self, chunk: Option<&Chunk>, value: u64) -> ErrorKind {
        match chunk {
            Some(_) => ErrorKind::Inconsistent("chain leads to a chunk of another kind"),
            None => ErrorKind::OutOfRange { value, min: 0, max: self.chunk_count() as u64 - 1 },
        }
    }

    /// `len` bytes of the array that starts at chunk `head`; its chunks are taken from `room`.
    fn array(
        &self,
        field: &'static str,
        head: u16,
        len: usize,
        room: &mut usize,
    ) -> Result<Vec<u8>> {
        let steps = len.div_ceil(ARRAY_BYTES);
        let Some(left) = room.checked_sub(steps) else {
            let max = (*room * ARRAY_BYTES) as u64;
            let kind = ErrorKind::OutOfRange { value: len as u64, min: 0, max };
            return Err(error(field, self.offset_of(head), kind));
        };
        *room = left;
        let mut out = Vec::with_capacity(steps * ARRAY_BYTES);
        let mut at = head;
        for _ in 0..steps {
            match self.chunk(at) {
                Some(Chunk::Array { bytes, next }) => {
                    out.extend_from_slice(&bytes);
                    at = next;
                }
                other => {
                    let kind = self.bad_chunk(other.as_ref(), at.into());
                    return Err(error(field, self.offset_of(at), kind));
                }
            }
        }
        out.truncate(len);
        Ok(out)
    }
}

impl PartialEq for Leaf<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.encode(Endian::Little) == other.encode(Endian::Little)
    }
}

impl Eq for Leaf<'_> {}

/// `None`: there is no such type of chunk.
fn decode_chunk(b: &[u8; CHUNK_SIZE], endian: Endian) -> Option<Chunk> {
    let [kind, rest @ ..] = b;
    let [bytes @ .., n0, n1] = *rest;
    let next = endian.u16([n0, n1]);
    match *kind {
        CHUNK_ENTRY => {
            let [int_len, pairs @ .., c0, c1, c2, c3, h0, h1, h2, h3, h4, h5, h6, h7] = *rest;
            let [next, name_chunk, name_len, value_chunk, value_len] = {
                let [a0, a1, b0, b1, c0, c1, d0, d1, e0, e1] = pairs;
                [[a0, a1], [b0, b1], [c0, c1], [d0, d1], [e0, e1]].map(|p| endian.u16(p))
            };
            let cd = endian.u32([c0, c1, c2, c3]);
            let hash = endian.u64([h0, h1, h2, h3, h4, h5, h6, h7]);
            let entry =
                LeafEntry { int_len, next, name_chunk, name_len, value_chunk, value_len, cd, hash };
            Some(Chunk::Entry(entry))
        }
        CHUNK_ARRAY => Some(Chunk::Array { bytes, next }),
        CHUNK_FREE => Some(Chunk::Free { bytes, next }),
        _ => None,
    }
}

fn encode_chunk(chunk: &Chunk, endian: Endian) -> [u8; CHUNK_SIZE] {
    let mut out = [0; CHUNK_SIZE];
    let (kind, bytes, next) = match chunk {
        Chunk::Entry(e) => {
            let [a, b, c, d, f] = [e.next, e.name_chunk, e.name_len, e.value_chunk, e.value_len]
                .map(|n| endian.put_u16(n));
            (out[0], out[1]) = (CHUNK_ENTRY, e.int_len);
            for (at, pair) in [a, b, c, d, f].into_iter().enumerate() {
                out[2 + 2 * at..4 + 2 * at].copy_from_slice(&pair);
            }
            out[12..16].copy_from_slice(&endian.put_u32(e.cd));
            out[16..].copy_from_slice(&endian.put_u64(e.hash));
            return out;
        }
        Chunk::Array { bytes, next } => (CHUNK_ARRAY, bytes, *next),
        Chunk::Free { bytes, next } => (CHUNK_FREE, bytes, *next),
    };
    out[0] = kind;
    out[1..=ARRAY_BYTES].copy_from_slice(bytes);
    out[1 + ARRAY_BYTES..].copy_from_slice(&endian.put_u16(next));
    out
}
