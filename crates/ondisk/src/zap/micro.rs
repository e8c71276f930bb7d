//! Micro ZAPs: a single block of fixed-size chunks.
//!
//! ```text
//! 0 block type  8 salt  16 normflags  24..64 pad
//! then chunks of 64 bytes: 0 value u64  8 cd u32  12 pad u16  14..64 name, NUL-terminated
//! ```
//!
//! A chunk whose name starts with NUL is free. The block is as large as it needs to be, in steps
//! of 512 bytes up to 128 KiB (1 MiB with feature `large_microzap`).

use super::hash::{KeyHash, ZapKey};
use super::{BLOCK_MICRO, BLOCK_SIZE_MIN, Entry, ZapName};
use crate::cursor::{Endian, Reader, Writer};
use crate::error::{ErrorKind, Result};

/// Size of a chunk, and of the header before the chunks, in bytes.
pub const MICRO_CHUNK_SIZE: usize = 64;
/// Bytes of a chunk's name field, NUL included.
pub const MICRO_NAME_SIZE: usize = 50;
/// Largest block that a micro ZAP is grown to before it becomes fat, in bytes.
pub const MICRO_BLOCK_SIZE_MAX: usize = 128 << 10;

/// Hash, filler, chunks and what is left of a block.
type Parts<'a> = (KeyHash, [u64; 5], &'a [[u8; MICRO_CHUNK_SIZE]], &'a [u8]);

/// Whether the name in a chunk ends.
fn is_terminated(chunk: &[u8; MICRO_CHUNK_SIZE]) -> bool {
    let name = chunk.last_chunk::<MICRO_NAME_SIZE>();
    chunk.last() == Some(&0) || name.is_some_and(|name| name.contains(&0))
}

/// The smallest differentiator that is not in use.
pub(super) fn free_cd(mut used: Vec<u32>) -> u32 {
    used.sort_unstable();
    (0..).zip(&used).find(|(n, cd)| n != *cd).map_or(used.len() as u32, |(n, _)| n)
}

/// One chunk as stored on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroChunk {
    /// The value.
    pub value: u64,
    /// Collision differentiator.
    pub cd: u32,
    /// Name and NUL; the bytes after the NUL mean nothing.
    pub name: [u8; MICRO_NAME_SIZE],
    pad: [u8; 2],
}

impl MicroChunk {
    /// A chunk without an entry.
    pub const FREE: Self = Self { value: 0, cd: 0, name: [0; MICRO_NAME_SIZE], pad: [0; 2] };

    /// A chunk that holds an entry; `None` when the name is empty, has a NUL or is too long.
    #[must_use]
    pub fn new(name: &[u8], value: u64, cd: u32) -> Option<Self> {
        if name.is_empty() || name.len() >= MICRO_NAME_SIZE || name.contains(&0) {
            return None;
        }
        let mut field = [0; MICRO_NAME_SIZE];
        field[..name.len()].copy_from_slice(name);
        Some(Self { value, cd, name: field, pad: [0; 2] })
    }

    /// `None` when the name has no NUL.
    pub(super) fn decode(bytes: &[u8; MICRO_CHUNK_SIZE], endian: Endian) -> Option<Self> {
        let (value, rest) = bytes.split_first_chunk()?;
        let (cd, rest) = rest.split_first_chunk()?;
        let (pad, rest) = rest.split_first_chunk()?;
        let name: &[u8; MICRO_NAME_SIZE] = rest.first_chunk()?;
        let ends = name.last() == Some(&0) || name.contains(&0);
        let (value, cd) = (endian.u64(*value), endian.u32(*cd));
        ends.then_some(Self { value, cd, name: *name, pad: *pad })
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.u64(self.value).u32(self.cd).bytes(&self.pad).bytes(&self.name);
        w.into_bytes()
    }

    /// Whether the chunk holds no entry.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.name[0] == 0
    }

    /// The name without its NUL; empty when free.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        let end = self.name.iter().position(|b| *b == 0).unwrap_or(MICRO_NAME_SIZE);
        &self.name[..end]
    }
}

/// A name and its value in a micro ZAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroEntry<'a> {
    /// The name without its NUL.
    pub name: &'a [u8],
    /// The value.
    pub value: u64,
    /// Collision differentiator.
    pub cd: u32,
}

/// A decoded micro ZAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicroZap {
    /// Start value of the hash.
    pub salt: u64,
    /// `NORM_*`.
    pub norm_flags: u64,
    /// All chunks, free ones too, in the order on disk.
    pub chunks: Vec<MicroChunk>,
    pad: [u64; 5],
    tail: Vec<u8>,
}

impl MicroZap {
    /// An empty micro ZAP for a block of `block_size` bytes (at least 512).
    #[must_use]
    pub fn new(salt: u64, norm_flags: u64, block_size: usize) -> Self {
        let count = block_size.max(BLOCK_SIZE_MIN) / MICRO_CHUNK_SIZE - 1;
        let chunks = vec![MicroChunk::FREE; count];
        Self { salt, norm_flags, chunks, pad: [0; 5], tail: Vec::new() }
    }

    /// Decodes a whole block. A name without its NUL is an error.
    pub fn decode(block: &[u8], endian: Endian) -> Result<Self> {
        let (KeyHash { salt, norm_flags, .. }, pad, raw, tail) = Self::parts(block, endian)?;
        let chunks = raw.iter().filter_map(|bytes| MicroChunk::decode(bytes, endian)).collect();
        Ok(Self { salt, norm_flags, chunks, pad, tail: tail.to_vec() })
    }

    /// A whole block, each name of which is sound: hash, filler, chunks, what is left.
    pub(super) fn parts(block: &[u8], endian: Endian) -> Result<Parts<'_>> {
        let mut r = Reader::new("micro zap", block, endian);
        let kind = r.u64("block type")?;
        if kind != BLOCK_MICRO {
            r.seek("block type", 0)?;
            return Err(r.error("block type", ErrorKind::BadMagic { found: kind }));
        }
        let salt = r.u64("salt")?;
        let norm_flags = r.u64("normflags")?;
        let pad = r.words("pad")?;
        let (chunks, tail) = block.get(r.at()..).unwrap_or_default().as_chunks();
        if let Some(at) = chunks.iter().position(|chunk| !is_terminated(chunk)) {
            r.seek("name", r.at() + at * MICRO_CHUNK_SIZE)?;
            return Err(r.error("name", ErrorKind::BadText));
        }
        Ok((KeyHash { salt, flags: 0, norm_flags }, pad, chunks, tail))
    }

    /// Encodes the block, as long as it was when decoded.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.u64(BLOCK_MICRO).u64(self.salt).u64(self.norm_flags).words(&self.pad);
        for c in &self.chunks {
            w.u64(c.value).u32(c.cd).bytes(&c.pad).bytes(&c.name);
        }
        w.bytes(&self.tail);
        w.into_bytes()
    }

    /// Encodes the chunk `at` alone: its offset in the block and its bytes; `None` behind the end.
    #[must_use]
    pub fn encode_chunk(&self, at: usize, endian: Endian) -> Option<(usize, Vec<u8>)> {
        Some(((at + 1) * MICRO_CHUNK_SIZE, self.chunks.get(at)?.encode(endian)))
    }

    /// How names are hashed here.
    #[must_use]
    pub fn key_hash(&self) -> KeyHash {
        KeyHash { salt: self.salt, flags: 0, norm_flags: self.norm_flags }
    }

    /// The entries in the order of their chunks.
    pub fn iter(&self) -> impl Iterator<Item = MicroEntry<'_>> {
        self.chunks.iter().filter(|c| !c.is_free()).map(|c| MicroEntry {
            name: c.name(),
            value: c.value,
            cd: c.cd,
        })
    }

    /// The entries as those of a fat ZAP, in cursor order: by hash, then differentiator.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let of = self.key_hash();
        let mut out: Vec<Entry> = self
            .iter()
            .map(|e| Entry {
                name: ZapName::Bytes(e.name.to_vec()),
                cd: e.cd,
                hash: of.name(e.name),
                int_len: 8,
                values: e.value.to_be_bytes().to_vec(),
            })
            .collect();
        out.sort_by_key(|e| (e.hash, e.cd));
        out
    }

    /// Bytes of the block.
    #[must_use]
    pub fn block_size(&self) -> usize {
        (self.chunks.len() + 1) * MICRO_CHUNK_SIZE + self.tail.len()
    }

    /// Number of the chunk the key matches; of several the one with the smallest differentiator.
    #[must_use]
    pub fn find(&self, key: &ZapKey) -> Option<usize> {
        let chunks = self.chunks.iter().enumerate().filter(|(_, c)| !c.is_free());
        let matching = chunks.filter(|(_, c)| key.matches_name(c.name()));
        matching.min_by_key(|(_, c)| c.cd).map(|(i, _)| i)
    }

    /// Puts an entry into the first free chunk and returns its number; `None` when there is none,
    /// or the name does not fit a chunk. Whether the name exists already is not checked.
    pub fn insert(&mut self, name: &[u8], value: u64) -> Option<usize> {
        let at = self.chunks.iter().position(MicroChunk::is_free)?;
        let of = self.key_hash();
        let hash = of.name(name);
        let used = self.iter().filter(|e| of.name(e.name) == hash).map(|e| e.cd).collect();
        *self.chunks.get_mut(at)? = MicroChunk::new(name, value, free_cd(used))?;
        Some(at)
    }

    /// Makes the block larger: `block_size` bytes, a multiple of 64.
    pub fn grow(&mut self, block_size: usize) {
        let count = (block_size / MICRO_CHUNK_SIZE).saturating_sub(1).max(self.chunks.len());
        self.chunks.resize(count, MicroChunk::FREE);
        self.tail.clear();
    }

    /// The entry the key matches; of several the one with the smallest differentiator.
    #[must_use]
    pub fn lookup(&self, key: &ZapKey) -> Option<MicroEntry<'_>> {
        self.iter().filter(|e| key.matches_name(e.name)).min_by_key(|e| e.cd)
    }
}
