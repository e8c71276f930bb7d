//! A fat table that is being changed: header, pointer table and the leaves touched, in memory.

use super::blocks::{Blocks, Change};
use crate::error::{ErrorKind, Result};
use crate::refusal::InvalidChange;
use ondisk::Endian;
use ondisk::zap::{ENTRY_COUNT_AT, EditOutcome, Entry, KeyHash, Leaf, ZapHeader, ZapKey, ZapName};
use std::collections::BTreeMap;

/// A leaf in memory.
struct HeldLeaf {
    leaf: Leaf<'static>,
    changed: bool,
}

/// How much of the header must be written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Dirty {
    No,
    /// Only the number of entries.
    Count,
    Whole,
}

pub(super) struct Fat {
    header: ZapHeader,
    dirty: Dirty,
    leaves: BTreeMap<u64, HeldLeaf>,
    /// Changed blocks of the external pointer table.
    table: BTreeMap<u64, Vec<u64>>,
    /// First and number of the blocks of an outgrown pointer table.
    freed: Vec<(u64, u64)>,
}

impl Fat {
    /// The table with this header, read from a block in byte order `endian`.
    pub(super) fn open(header: ZapHeader, endian: Endian) -> Self {
        // A patch would be in the wrong byte order.
        let dirty = if endian == Endian::Little { Dirty::No } else { Dirty::Whole };
        Self { header, dirty, leaves: BTreeMap::new(), table: BTreeMap::new(), freed: Vec::new() }
    }

    /// An empty table.
    pub(super) fn new(block_shift: u32, of: KeyHash) -> Self {
        let header = ZapHeader::new(block_shift, of);
        let leaf = Leaf::empty(header.block_size(), 0, 0, of.norm_flags != 0);
        let mut fat = Self::open(header, Endian::Little);
        fat.dirty = Dirty::Whole;
        fat.leaves.insert(1, HeldLeaf { leaf, changed: true });
        fat
    }

    pub(super) fn key_hash(&self) -> KeyHash {
        self.header.key_hash()
    }

    /// Leaves in memory.
    pub(super) fn held(&self) -> usize {
        self.leaves.len()
    }

    pub(super) fn get(&mut self, blocks: &impl Blocks, key: &ZapKey) -> Result<Option<Entry>> {
        let (blkid, held) = self.leaf_of(blocks, key.hash)?;
        held.leaf.lookup(key).map_err(|e| blocks.format_error(blkid, e))
    }

    /// Adds an entry that is not there. `cd` `None`: a differentiator is chosen.
    pub(super) fn insert(
        &mut self,
        blocks: &impl Blocks,
        name: &ZapName,
        hash: u64,
        cd: Option<u32>,
        int_len: u8,
        values: &[u8],
    ) -> Result<()> {
        self.check_size(blocks, name, values)?;
        loop {
            let (blkid, held) = self.leaf_of(blocks, hash)?;
            let fit = held.leaf.insert(name, hash, cd, int_len, values);
            match fit.map_err(|e| blocks.format_error(blkid, e))? {
                EditOutcome::Done => {
                    held.changed = true;
                    self.count(self.header.entry_count.saturating_add(1));
                    return Ok(());
                }
                EditOutcome::Full => self.split(blocks, blkid)?,
            }
        }
    }

    /// Replaces a value; false when there is no such entry.
    pub(super) fn replace(
        &mut self,
        blocks: &impl Blocks,
        name: &ZapName,
        key: &ZapKey,
        int_len: u8,
        values: &[u8],
    ) -> Result<bool> {
        self.check_size(blocks, name, values)?;
        loop {
            let (blkid, held) = self.leaf_of(blocks, key.hash)?;
            let fit = held.leaf.replace(key, int_len, values);
            match fit.map_err(|e| blocks.format_error(blkid, e))? {
                Some(EditOutcome::Done) => {
                    held.changed = true;
                    return Ok(true);
                }
                Some(EditOutcome::Full) => self.split(blocks, blkid)?,
                None => return Ok(false),
            }
        }
    }

    /// Removes an entry; false when there was none.
    pub(super) fn remove(&mut self, blocks: &impl Blocks, key: &ZapKey) -> Result<bool> {
        let (blkid, held) = self.leaf_of(blocks, key.hash)?;
        let removed = held.leaf.remove(key).map_err(|e| blocks.format_error(blkid, e))?;
        if removed {
            held.changed = true;
            self.count(self.header.entry_count.saturating_sub(1));
        }
        Ok(removed)
    }

    /// The blocks to write.
    pub(super) fn changes(&self) -> Vec<Change> {
        let mut out = Vec::new();
        for (blkid, held) in self.leaves.iter().filter(|(_, h)| h.changed) {
            match held.leaf.patches(Endian::Little) {
                Some(patches) => {
                    out.extend(patches.into_iter().map(|(at, b)| Change::Patch(*blkid, at, b)));
                }
                None => out.push(Change::Block(*blkid, held.leaf.encode(Endian::Little))),
            }
        }
        for (blkid, pointers) in &self.table {
            let bytes = pointers.iter().flat_map(|p| p.to_le_bytes()).collect();
            out.push(Change::Block(*blkid, bytes));
        }
        out.extend(self.freed.iter().map(|(first, n)| Change::Free(*first, *n)));
        match self.dirty {
            // In the other byte order, but nothing else changed either.
            _ if out.is_empty() && self.dirty != Dirty::Count => {}
            Dirty::No => {}
            Dirty::Count => {
                let count = self.header.entry_count.to_le_bytes().to_vec();
                out.push(Change::Patch(0, ENTRY_COUNT_AT, count));
            }
            Dirty::Whole => out.push(Change::Block(0, self.header.encode(Endian::Little))),
        }
        out
    }

    fn count(&mut self, entries: u64) {
        self.header.entry_count = entries;
        self.dirty = self.dirty.max(Dirty::Count);
    }

    /// An entry that would not fit an empty leaf is refused before anything is split for it.
    fn check_size(&self, blocks: &impl Blocks, name: &ZapName, values: &[u8]) -> Result<()> {
        let size = self.header.block_size();
        if Leaf::chunks_of(name, values.len()) > Leaf::room(size) {
            return Err(blocks.error(ErrorKind::Invalid(InvalidChange::LargeEntry)));
        }
        Ok(())
    }

    /// The leaf for `hash`.
    fn leaf_of(&mut self, blocks: &impl Blocks, hash: u64) -> Result<(u64, &mut HeldLeaf)> {
        let blkid = self.pointer(blocks, hash >> (64 - self.header.table.shift))?;
        if blkid == 0 {
            return Err(blocks.error(ErrorKind::Tree("a ZAP's pointer leads to its header")));
        }
        let held = match self.leaves.entry(blkid) {
            std::collections::btree_map::Entry::Occupied(o) => o.into_mut(),
            std::collections::btree_map::Entry::Vacant(v) => {
                let leaf = blocks.leaf(blkid)?;
                if leaf.block_size() != self.header.block_size() {
                    return Err(blocks.error(ErrorKind::Tree("a leaf has another size")));
                }
                v.insert(HeldLeaf { leaf, changed: false })
            }
        };
        if !held.leaf.covers(hash) || u64::from(held.leaf.prefix_len) > self.header.table.shift {
            return Err(blocks.error(ErrorKind::Tree(
                "a leaf does not match the pointer table that leads to it",
            )));
        }
        Ok((blkid, held))
    }

    /// Word `index` of the pointer table.
    fn pointer(&self, blocks: &impl Blocks, index: u64) -> Result<u64> {
        if self.header.table.block_count == 0 {
            return Ok(self.header.embedded.get(index as usize).copied().unwrap_or(0));
        }
        let (blkid, slot) = self.slot(index);
        if let Some(pointers) = self.table.get(&blkid) {
            return Ok(pointers.get(slot).copied().unwrap_or(0));
        }
        let block = blocks.read(blkid)?;
        let pointer = ZapHeader::pointer(&block, slot, block.endian());
        pointer.map_err(|e| blocks.format_error(blkid, e))
    }

    /// Block and place in it of word `index` of the external table.
    fn slot(&self, index: u64) -> (u64, usize) {
        let per_block = self.header.pointers_per_block() as u64;
        (self.header.table.block + index / per_block, (index % per_block) as usize)
    }

    fn table_block(&self, blocks: &impl Blocks, blkid: u64) -> Result<Vec<u64>> {
        if let Some(pointers) = self.table.get(&blkid) {
            return Ok(pointers.clone());
        }
        let block = blocks.read(blkid)?;
        let pointers: Vec<u64> =
            block.as_chunks::<8>().0.iter().map(|w| block.endian().u64(*w)).collect();
        if pointers.len() != self.header.pointers_per_block() {
            return Err(blocks.error(ErrorKind::Tree("a pointer table's block has another size")));
        }
        Ok(pointers)
    }

    /// Makes the words from `first` to `end` of the pointer table lead to `leaf`.
    fn point(&mut self, blocks: &impl Blocks, first: u64, end: u64, leaf: u64) -> Result<()> {
        self.dirty = Dirty::Whole;
        if self.header.table.block_count == 0 {
            let range = first as usize..end as usize;
            if let Some(words) = self.header.embedded.get_mut(range) {
                words.fill(leaf);
            }
            return Ok(());
        }
        for index in first..end {
            let (blkid, slot) = self.slot(index);
            if !self.table.contains_key(&blkid) {
                let pointers = self.table_block(blocks, blkid)?;
                self.table.insert(blkid, pointers);
            }
            if let Some(word) = self.table.get_mut(&blkid).and_then(|p| p.get_mut(slot)) {
                *word = leaf;
            }
        }
        Ok(())
    }

    /// `n` blocks never used before.
    fn allocate(&mut self, n: u64) -> u64 {
        let first = self.header.free_block;
        self.header.free_block = first.saturating_add(n);
        self.dirty = Dirty::Whole;
        first
    }

    /// Splits the leaf in block `blkid`, which is in memory, by one more bit of the hash.
    fn split(&mut self, blocks: &impl Blocks, blkid: u64) -> Result<()> {
        let prefix_len = self.leaves.get(&blkid).map_or(0, |h| u64::from(h.leaf.prefix_len));
        // A table that OpenZFS was still copying when it stopped is completed first, because
        // pointers would otherwise have to be kept in both.
        if prefix_len >= self.header.table.shift || self.header.table.next_block != 0 {
            self.grow_table(blocks)?;
        }
        let there = self.allocate(1);
        let Some(held) = self.leaves.get_mut(&blkid) else { return Ok(()) };
        held.changed = true;
        let upper = held.leaf.split().map_err(|e| blocks.format_error(blkid, e))?;
        let width = self.header.table.shift - (prefix_len + 1);
        let (first, end) = (upper.prefix << width, (upper.prefix + 1) << width);
        self.leaves.insert(there, HeldLeaf { leaf: upper, changed: true });
        self.header.leaf_count = self.header.leaf_count.saturating_add(1);
        self.point(blocks, first, end, there)
    }

    /// Makes the pointer table twice as large.
    fn grow_table(&mut self, blocks: &impl Blocks) -> Result<()> {
        let old = self.header.table;
        // OpenZFS stops two bits before the hash ends: a table that gets there has thousands of
        // names of one hash, and more words would not tell them apart.
        if old.shift + 2 >= u64::from(self.key_hash().bits()) {
            return Err(blocks.error(ErrorKind::Invalid(InvalidChange::EqualHashes)));
        }
        let twice = |words: &[u64]| words.iter().flat_map(|w| [*w, *w]).collect::<Vec<_>>();
        if old.block_count == 0 {
            let block = self.allocate(1);
            self.table.insert(block, twice(&self.header.embedded));
            self.header.embedded.fill(0);
            self.header.table.block = block;
            self.header.table.block_count = 1;
        } else {
            let count = old.block_count * 2;
            let block = if old.next_block == 0 { self.allocate(count) } else { old.next_block };
            let half = self.header.pointers_per_block() / 2;
            for n in 0..old.block_count {
                let pointers = self.table_block(blocks, old.block + n)?;
                self.table.remove(&(old.block + n));
                let (low, high) = pointers.split_at(half);
                self.table.insert(block + 2 * n, twice(low));
                self.table.insert(block + 2 * n + 1, twice(high));
            }
            self.freed.push((old.block, old.block_count));
            self.header.table.block = block;
            self.header.table.block_count = count;
        }
        self.header.table.shift = old.shift + 1;
        self.header.table.next_block = 0;
        self.header.table.blocks_copied = 0;
        self.dirty = Dirty::Whole;
        Ok(())
    }
}
