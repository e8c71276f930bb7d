//! A micro ZAP in its stored form.
//!
//! A directory's table is looked at for every name that is looked up, made or removed, and has up
//! to two thousand chunks. A name is looked up, and a chunk changed, in place: the block is not
//! decoded, and nothing is allocated.

use super::hash::{KeyHash, ZapKey};
use super::micro::{MICRO_CHUNK_SIZE, MICRO_NAME_SIZE, MicroChunk, MicroZap};
use crate::cursor::Endian;
use crate::error::Result;

/// Offset of the name in a chunk.
const NAME_AT: usize = MICRO_CHUNK_SIZE - MICRO_NAME_SIZE;

type RawChunk = [u8; MICRO_CHUNK_SIZE];

/// See the head of the file.
#[derive(Clone, Copy, Debug)]
pub struct StoredMicro<'a> {
    hash: KeyHash,
    endian: Endian,
    chunks: &'a [RawChunk],
}

/// The eight bytes of a name field that tell most names apart: those that end with the name's NUL,
/// because names of one directory often begin alike; the first eight where the name is shorter.
struct Window {
    at: usize,
    mask: u64,
    wanted: u64,
}

impl Window {
    /// `None`: no chunk can have that name.
    fn of(name: &[u8]) -> Option<Self> {
        let mut field = [0; MICRO_NAME_SIZE];
        field.get_mut(..name.len())?.copy_from_slice(name);
        if name.is_empty() || name.len() >= MICRO_NAME_SIZE || name.contains(&0) {
            return None;
        }
        let end = name.len() + 1;
        let at = end.saturating_sub(8);
        let mask = if end < 8 { (1 << (8 * end)) - 1 } else { u64::MAX };
        let wanted = u64::from_le_bytes(*field.get(at..)?.first_chunk()?) & mask;
        Some(Self { at: NAME_AT + at, mask, wanted })
    }

    fn fits(&self, chunk: &RawChunk) -> bool {
        let bytes = chunk.get(self.at..).and_then(|rest| rest.first_chunk());
        bytes.is_some_and(|bytes| u64::from_le_bytes(*bytes) & self.mask == self.wanted)
    }
}

/// The name in a chunk, without its NUL; empty when the chunk is free.
fn name_in(chunk: &RawChunk) -> &[u8] {
    let field = chunk.get(NAME_AT..).unwrap_or_default();
    core::ffi::CStr::from_bytes_until_nul(field).map_or(field, |name| name.to_bytes())
}

fn is_free(chunk: &RawChunk) -> bool {
    chunk.get(NAME_AT) == Some(&0)
}

impl<'a> StoredMicro<'a> {
    /// Looks at a whole block.
    ///
    /// # Errors
    /// Those of [`MicroZap::decode`].
    pub fn new(block: &'a [u8], endian: Endian) -> Result<Self> {
        let (hash, _, chunks, _) = MicroZap::parts(block, endian)?;
        Ok(Self { hash, endian, chunks })
    }

    /// How names are hashed here.
    #[must_use]
    pub fn key_hash(&self) -> KeyHash {
        self.hash
    }

    fn chunk(&self, at: usize) -> Option<(usize, MicroChunk)> {
        Some((at, MicroChunk::decode(self.chunks.get(at)?, self.endian)?))
    }

    /// The chunk that the key matches, and its number; of several the one with the smallest
    /// differentiator.
    #[must_use]
    pub fn find(&self, key: &ZapKey) -> Option<(usize, MicroChunk)> {
        let chunks = self.chunks.iter().enumerate();
        let Some(name) = key.exact() else {
            let used = chunks.filter(|(_, c)| !is_free(c));
            let matching = used.filter(|(_, c)| key.matches_name(name_in(c)));
            let found = matching.filter_map(|(at, _)| self.chunk(at));
            return found.min_by_key(|(_, c)| c.cd);
        };
        let window = Window::of(name)?;
        let likely = chunks.filter(|(_, c)| window.fits(c));
        let matching =
            likely.filter(|(_, c)| c.get(NAME_AT..).is_some_and(|f| f.starts_with(name)));
        matching.filter_map(|(at, _)| self.chunk(at)).min_by_key(|(_, c)| c.cd)
    }

    /// The chunk to be written so that the table has an entry of this name, which it does not have,
    /// and its number. `None`: no chunk is free, or the name does not fit one.
    #[must_use]
    pub fn entry(&self, name: &[u8], value: u64) -> Option<(usize, MicroChunk)> {
        let at = self.chunks.iter().position(is_free)?;
        let hash = self.hash.name(name);
        let used = self.chunks.iter().filter(|c| !is_free(c));
        let field = |c: &'a RawChunk| c.get(NAME_AT..).unwrap_or_default();
        let same = used.filter(|c| self.hash.name_field(field(c)) == hash);
        let cds = same.filter_map(|c| MicroChunk::decode(c, self.endian)).map(|c| c.cd);
        Some((at, MicroChunk::new(name, value, super::micro::free_cd(cds.collect()))?))
    }
}
