//! Changing a leaf: entries in and out, and the split in two.
//!
//! OpenZFS walks what is written here with assertions, so the bookkeeping is kept to the letter:
//! freed chunks are pushed onto the free list with their bytes cleared, each bucket's chain is in
//! the order of the differentiators, the last chunk of an array ends its chain, and the counts are
//! exact. Chunk numbers come from disk and are never trusted: one that leads nowhere is an error.
//! After an error the leaf may be half changed and must be thrown away.

use super::touched::Touched;
use super::{
    ARRAY_BYTES, CHAIN_END, CHUNK_SIZE, Chunk, ENTRIES_CD_SORTED, HEADER_SIZE, Leaf, LeafEntry,
    encode_chunk, error,
};
use crate::cursor::Endian;
use crate::error::{ErrorKind, Result};
use crate::zap::{FAT_BLOCK_SIZE_MAX, ZapKey, ZapName};
use std::borrow::Cow;

/// The reference to an entry: in its bucket, or in the entry before it.
#[derive(Clone, Copy)]
enum Link {
    Bucket(usize),
    Entry(u16),
}

/// The outcome of a change that needs room in the leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditOutcome {
    /// It is done.
    Done,
    /// The leaf has too few free chunks and is as it was: split it and try again.
    Full,
}

/// The bytes of a name as the arrays of a leaf hold them, and how many integers they are.
fn name_bytes(name: &ZapName) -> (Vec<u8>, usize) {
    match name {
        ZapName::Bytes(b) => {
            let mut bytes = b.clone();
            bytes.push(0);
            let len = bytes.len();
            (bytes, len)
        }
        ZapName::U64s(w) => (w.iter().flat_map(|w| w.to_be_bytes()).collect(), w.len()),
    }
}

impl Leaf<'_> {
    /// An empty leaf of `block_size` bytes, a power of two from 512 to 1 MiB, for hashes whose top
    /// `prefix_len` bits are `prefix`. `sorted`: sets [`ENTRIES_CD_SORTED`], as tables with normal
    /// forms have it.
    #[must_use]
    pub fn empty(block_size: usize, prefix: u64, prefix_len: u16, sorted: bool) -> Leaf<'static> {
        let block_size = block_size.next_power_of_two().clamp(512, FAT_BLOCK_SIZE_MAX);
        let count = Self::room(block_size);
        let mut block = vec![0; HEADER_SIZE];
        block.resize(HEADER_SIZE + block_size / 16, 0xff);
        for at in 1..=count {
            let next = if at == count { CHAIN_END } else { at as u16 };
            let free = Chunk::Free { bytes: [0; ARRAY_BYTES], next };
            block.extend_from_slice(&encode_chunk(&free, Endian::Little));
        }
        Leaf {
            prefix,
            prefix_len,
            free_count: count as u16,
            entry_count: 0,
            free_list: 0,
            flags: if sorted { ENTRIES_CD_SORTED } else { 0 },
            pad1: 0,
            pad2: [0; 11],
            endian: Endian::Little,
            block: Cow::Owned(block),
            touched: Touched::ALL,
        }
    }

    /// Chunks that an entry takes: one for itself, the others for its name and its value of
    /// `value_len` bytes.
    #[must_use]
    pub fn chunks_of(name: &ZapName, value_len: usize) -> usize {
        let name_len = match name {
            ZapName::Bytes(b) => b.len() + 1,
            ZapName::U64s(w) => 8 * w.len(),
        };
        1 + name_len.div_ceil(ARRAY_BYTES) + value_len.div_ceil(ARRAY_BYTES)
    }

    /// Puts an entry in. `cd` `None`: the smallest differentiator that no entry of this hash has.
    /// `values` are the integers of `int_len` bytes each, big-endian. Whether the name is there
    /// already is not looked at.
    pub fn insert(
        &mut self,
        name: &ZapName,
        hash: u64,
        cd: Option<u32>,
        int_len: u8,
        values: &[u8],
    ) -> Result<EditOutcome> {
        if Self::chunks_of(name, values.len()) > usize::from(self.free_count) {
            return Ok(EditOutcome::Full);
        }
        let cd = match cd {
            Some(cd) => cd,
            None => self.unused_cd(hash)?,
        };
        let at = self.take_chunk()?;
        let (name_bytes, name_len) = name_bytes(name);
        let name_chunk = self.store_array(&name_bytes)?;
        let value_chunk = self.store_array(values)?;
        let entry = LeafEntry {
            int_len,
            next: CHAIN_END,
            name_chunk,
            name_len: name_len as u16,
            value_chunk,
            value_len: (values.len() / usize::from(int_len.max(1))) as u16,
            cd,
            hash,
        };
        self.link(at, entry)?;
        self.entry_count = self.entry_count.saturating_add(1);
        Ok(EditOutcome::Done)
    }

    /// Gives the entry that `key` matches another value; `None` when there is no such entry.
    pub fn replace(
        &mut self,
        key: &ZapKey,
        int_len: u8,
        values: &[u8],
    ) -> Result<Option<EditOutcome>> {
        let Some((_, at, mut entry)) = self.position(key)? else { return Ok(None) };
        let before = usize::from(entry.value_len) * usize::from(entry.int_len);
        let (old, new) = (before.div_ceil(ARRAY_BYTES), values.len().div_ceil(ARRAY_BYTES));
        if new > old + usize::from(self.free_count) {
            return Ok(Some(EditOutcome::Full));
        }
        self.drop_array(entry.value_chunk)?;
        entry.value_chunk = self.store_array(values)?;
        entry.value_len = (values.len() / usize::from(int_len.max(1))) as u16;
        entry.int_len = int_len;
        self.set_chunk(at, &Chunk::Entry(entry))?;
        Ok(Some(EditOutcome::Done))
    }

    /// Takes the entry that `key` matches out; false when there is none.
    pub fn remove(&mut self, key: &ZapKey) -> Result<bool> {
        let Some((link, at, entry)) = self.position(key)? else { return Ok(false) };
        self.drop_array(entry.name_chunk)?;
        self.drop_array(entry.value_chunk)?;
        self.set_link(link, entry.next)?;
        self.give_chunk(at)?;
        self.entry_count = self.entry_count.saturating_sub(1);
        Ok(true)
    }

    /// Splits the leaf by the next bit of the hashes: this one keeps those with 0, the one that is
    /// returned gets those with 1. Both prefixes grow by that bit. The caller makes sure that the
    /// pointer table can tell them apart.
    ///
    /// # Errors
    /// A chain of chunks leads nowhere.
    pub fn split(&mut self) -> Result<Leaf<'static>> {
        let sorted = self.flags & ENTRIES_CD_SORTED != 0;
        let bit = 63 - u32::from(self.prefix_len).min(63);
        self.touched = Touched::ALL;
        self.prefix <<= 1;
        self.prefix_len += 1;
        let mut upper = Self::empty(self.block_size(), self.prefix | 1, self.prefix_len, sorted);
        for bucket in 0..self.bucket_count() {
            self.set_head(bucket, CHAIN_END);
        }
        for at in 0..self.chunk_count() as u16 {
            let Some(Chunk::Entry(entry)) = self.chunk(at) else { continue };
            if entry.hash >> bit & 1 == 0 {
                self.link(at, entry)?;
                continue;
            }
            let there = upper.take_chunk()?;
            let name_chunk = self.move_array(entry.name_chunk, &mut upper)?;
            let value_chunk = self.move_array(entry.value_chunk, &mut upper)?;
            upper.link(there, LeafEntry { name_chunk, value_chunk, ..entry })?;
            upper.entry_count += 1;
            self.give_chunk(at)?;
            self.entry_count = self.entry_count.saturating_sub(1);
        }
        Ok(upper)
    }

    /// The entry that `key` matches, of several the one with the smallest differentiator: what
    /// leads to it, its chunk, and what that holds.
    fn position(&self, key: &ZapKey) -> Result<Option<(Link, u16, LeafEntry)>> {
        let bucket = self.bucket_of(key.hash);
        let mut link = Link::Bucket(bucket);
        let mut at = self.head(bucket);
        let mut best: Option<(Link, u16, LeafEntry)> = None;
        let (mut budget, mut room) = (self.chunk_count(), self.chunk_count());
        for entry in self.chain(at, &mut budget) {
            let entry = entry?;
            let better = best.as_ref().is_none_or(|(_, _, b)| entry.cd < b.cd);
            if entry.hash == key.hash && better {
                let full = self.entry_within(&entry, key.is_integers(), &mut room)?;
                if key.matches(&full.name) {
                    best = Some((link, at, entry));
                }
            }
            link = Link::Entry(at);
            at = entry.next;
        }
        Ok(best)
    }

    fn unused_cd(&self, hash: u64) -> Result<u32> {
        let head = self.head(self.bucket_of(hash));
        let mut budget = self.chunk_count();
        let mut used = Vec::new();
        for entry in self.chain(head, &mut budget) {
            let entry = entry?;
            if entry.hash == hash {
                used.push(entry.cd);
            }
        }
        used.sort_unstable();
        Ok((0..).zip(&used).find(|(n, cd)| n != *cd).map_or(used.len() as u32, |(n, _)| n))
    }

    /// Puts an entry into chunk `at` and that into its bucket's chain, which is in the order of
    /// the differentiators.
    fn link(&mut self, at: u16, mut entry: LeafEntry) -> Result<()> {
        let bucket = self.bucket_of(entry.hash);
        let mut link = Link::Bucket(bucket);
        let mut next = self.head(bucket);
        let mut budget = self.chunk_count();
        for other in self.chain(next, &mut budget) {
            let other = other?;
            if other.cd > entry.cd {
                break;
            }
            link = Link::Entry(next);
            next = other.next;
        }
        entry.next = next;
        self.set_chunk(at, &Chunk::Entry(entry))?;
        self.set_link(link, at)
    }

    fn set_link(&mut self, link: Link, to: u16) -> Result<()> {
        match link {
            Link::Bucket(bucket) => {
                self.set_head(bucket, to);
                Ok(())
            }
            Link::Entry(at) => match self.chunk(at) {
                Some(Chunk::Entry(entry)) => {
                    self.set_chunk(at, &Chunk::Entry(LeafEntry { next: to, ..entry }))
                }
                _ => Err(self.lost("next", at)),
            },
        }
    }

    /// Makes `to` the first entry chunk of a bucket. Nothing else of the leaf is changed by it.
    pub fn set_head(&mut self, bucket: usize, to: u16) {
        let (at, to) = (HEADER_SIZE + 2 * bucket, self.endian.put_u16(to));
        if bucket < self.bucket_count()
            && let Some(head) = self.block.to_mut().get_mut(at..at + 2)
        {
            head.copy_from_slice(&to);
            self.touched.add(at..at + 2);
        }
    }

    /// Puts a chunk where another was. Nothing else of the leaf is changed by it.
    ///
    /// # Errors
    /// There is no chunk of that number.
    pub fn set_chunk(&mut self, number: u16, chunk: &Chunk) -> Result<()> {
        let at = self.offset_of(number);
        let bytes = encode_chunk(chunk, self.endian);
        match self.block.to_mut().get_mut(at..at + CHUNK_SIZE) {
            Some(stored) => {
                stored.copy_from_slice(&bytes);
                self.touched.add(at..at + CHUNK_SIZE);
                Ok(())
            }
            None => Err(self.lost("chunk", number)),
        }
    }

    fn take_chunk(&mut self) -> Result<u16> {
        let at = self.free_list;
        match self.chunk(at) {
            Some(Chunk::Free { next, .. }) if self.free_count > 0 => {
                self.free_list = next;
                self.free_count -= 1;
                Ok(at)
            }
            _ => Err(self.lost("freelist", at)),
        }
    }

    /// Pushes a chunk onto the free list; its bytes are cleared, which compresses better.
    fn give_chunk(&mut self, at: u16) -> Result<()> {
        self.set_chunk(at, &Chunk::Free { bytes: [0; ARRAY_BYTES], next: self.free_list })?;
        self.free_list = at;
        self.free_count = self.free_count.saturating_add(1);
        Ok(())
    }

    fn store_array(&mut self, data: &[u8]) -> Result<u16> {
        let mut taken = Vec::with_capacity(data.len().div_ceil(ARRAY_BYTES));
        for _ in 0..data.len().div_ceil(ARRAY_BYTES) {
            taken.push(self.take_chunk()?);
        }
        let nexts = taken.iter().skip(1).copied().chain([CHAIN_END]);
        for ((at, next), part) in taken.iter().zip(nexts).zip(data.chunks(ARRAY_BYTES)) {
            let mut bytes = [0; ARRAY_BYTES];
            if let Some(start) = bytes.get_mut(..part.len()) {
                start.copy_from_slice(part);
            }
            self.set_chunk(*at, &Chunk::Array { bytes, next })?;
        }
        Ok(taken.first().copied().unwrap_or(CHAIN_END))
    }

    /// The array chunks from `head` on, to the end of their chain.
    fn array_chunks(&self, head: u16) -> Result<Vec<(u16, [u8; ARRAY_BYTES])>> {
        let mut out = Vec::new();
        let mut at = head;
        while at != CHAIN_END {
            match self.chunk(at) {
                Some(Chunk::Array { bytes, next }) if out.len() < self.chunk_count() => {
                    out.push((at, bytes));
                    at = next;
                }
                _ => return Err(self.lost("array", at)),
            }
        }
        Ok(out)
    }

    fn drop_array(&mut self, head: u16) -> Result<()> {
        for (at, _) in self.array_chunks(head)? {
            self.give_chunk(at)?;
        }
        Ok(())
    }

    fn move_array(&mut self, head: u16, to: &mut Leaf<'_>) -> Result<u16> {
        let parts = self.array_chunks(head)?;
        let mut data = Vec::with_capacity(parts.len() * ARRAY_BYTES);
        for (at, bytes) in parts {
            data.extend_from_slice(&bytes);
            self.give_chunk(at)?;
        }
        to.store_array(&data)
    }

    fn lost(&self, field: &'static str, at: u16) -> crate::Error {
        let kind = ErrorKind::Inconsistent("a chain of chunks leads nowhere");
        error(field, self.offset_of(at), kind)
    }
}
