//! A cache of blocks with a hard cap in bytes: of memory, which blocks take in whole pages.
//!
//! Sharded by key; each shard is a map and a clock hand over its slots. A hit sets a bit, the
//! hand clears bits and evicts what it finds cleared, so a block read once does not push out one
//! read often. Blocks larger than an eighth of a shard pass through uncached: a stream of large
//! records must not empty the cache of the metadata that leads to them.
//!
//! A block that was read ahead of its reader is marked so until the reader comes, or it is evicted.
//! The reader's first access is then no second hit.
//!
//! Blocks that were written and that no reader has accessed have a quarter of each shard, and the
//! oldest of them make room for new ones. They are there for the next txg, which changes the same
//! metadata again. A copy of many small files writes more metadata than the whole cache holds, and
//! hardly any of it is wanted again: it must not take all of the memory, nor push out what is read.
//!
//! A block that is rewritten takes the place of the one before it, if that is here: one that a
//! reader had come for is likely to be wanted again, as a whole by readers, or because a part of it
//! is changed the next time. The one before is not wanted any more, but by readers of a snapshot.

use crate::ahead::{Lead, Room};
use device::ALIGNMENT;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zio::Block;

const SHARDS: usize = 16;

/// Part of the cap for blocks that were written and not read: one in this many.
const WRITTEN_PART: usize = 4;

/// The key of a cached block: its first address (or its name, when it is in the pointer), its
/// birth, and whether it was decrypted.
pub(crate) type CacheKey = ([u64; 2], u64, bool);

struct Slot {
    key: CacheKey,
    block: Arc<Block>,
    hot: bool,
    /// It was read ahead, and no reader has come for it.
    ahead: Option<Arc<Lead>>,
    /// Number of the block among those that were written and not read yet, if it is one of them.
    written: Option<u64>,
}

/// Bytes of memory that a block takes.
fn memory(block: &Block) -> usize {
    block.len().next_multiple_of(ALIGNMENT)
}

impl Slot {
    /// A reader has come.
    fn take(&mut self) -> Arc<Block> {
        match self.ahead.take() {
            Some(lead) => lead.used(self.block.len() as u64),
            None => self.hot = true,
        }
        Arc::clone(&self.block)
    }
}

#[derive(Default)]
struct Shard {
    index: HashMap<CacheKey, usize>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
    written: Written,
}

/// The blocks of a shard that were written and that no reader has come for, oldest first.
#[derive(Default)]
struct Written {
    slots: BTreeMap<u64, usize>,
    bytes: usize,
    next: u64,
}

/// Blocks by address.
pub struct BlockCache {
    shards: Vec<Mutex<Shard>>,
    shard_cap: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Statistics of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Lookups answered.
    pub hits: u64,
    /// Lookups not answered.
    pub misses: u64,
    /// Bytes held now.
    pub bytes: u64,
}

impl BlockCache {
    /// Holds at most `cap` bytes of blocks, as memory.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_cap: cap / SHARDS,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Bytes of memory that it holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shard_cap * SHARDS
    }

    fn shard(&self, key: &CacheKey) -> &Mutex<Shard> {
        // Addresses are multiples of sectors: multiply, then take high bits, to spread them.
        let h = (key.0[0] ^ key.0[1].rotate_left(17) ^ key.1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(h >> 60) as usize % SHARDS]
    }

    /// Bytes of the largest block that it takes.
    pub(crate) fn block_max(&self) -> usize {
        self.shard_cap / 8
    }

    /// The block, for a reader that wants it.
    pub(crate) fn get(&self, key: &CacheKey) -> Option<Arc<Block>> {
        let mut shard = self.shard(key).lock();
        let slot = shard.slot_of_reader(key);
        let counter = if slot.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        slot.map(Slot::take)
    }

    /// The same without counting: a second look after a miss.
    pub(crate) fn look(&self, key: &CacheKey) -> Option<Arc<Block>> {
        let mut shard = self.shard(key).lock();
        let slot = shard.slot_of_reader(key)?;
        // A block that another thread has read meanwhile is no hotter for that.
        let hot = slot.hot;
        let block = slot.take();
        slot.hot = hot;
        Some(block)
    }

    /// The block, for a caller that does not want it now.
    pub(crate) fn peek(&self, key: &CacheKey) -> Option<Arc<Block>> {
        self.shard(key).lock().slot(key).map(|slot| Arc::clone(&slot.block))
    }

    pub(crate) fn put(&self, key: CacheKey, block: &Arc<Block>) {
        self.insert(key, block, |shard| {
            shard.put(key, block, None, self.shard_cap);
        });
    }

    /// Puts a block there that was written, and that no reader has asked for.
    pub(crate) fn put_written(&self, key: CacheKey, block: &Arc<Block>) {
        self.insert(key, block, |shard| {
            let (size, most) = (memory(block), self.shard_cap / WRITTEN_PART);
            while shard.written.bytes + size > most && shard.evict_written() {}
            let at = shard.put(key, block, None, self.shard_cap);
            shard.note_written(at, size);
        });
    }

    /// Whether a reader had come for a block; `None` when it is not here.
    pub(crate) fn was_read(&self, key: &CacheKey) -> Option<bool> {
        let shard = self.shard(key).lock();
        let slot = shard.slots[*shard.index.get(key)?].as_ref()?;
        Some(slot.written.is_none() && slot.ahead.is_none())
    }

    /// Takes a block out, because it was rewritten.
    pub(crate) fn remove(&self, key: &CacheKey) {
        let mut shard = self.shard(key).lock();
        if let Some(at) = shard.index.get(key).copied() {
            shard.evict(at);
        }
    }

    /// Puts a block there that was read ahead of its reader, in the room that was taken for it.
    pub(crate) fn put_ahead(&self, key: CacheKey, block: &Arc<Block>, room: &mut Room) {
        self.insert(key, block, |shard| {
            shard.put(key, block, room.fill(block.len() as u64), self.shard_cap);
        });
    }

    /// Has `put` put a block into its shard, unless the block is too large or is there.
    fn insert(&self, key: CacheKey, block: &Arc<Block>, put: impl FnOnce(&mut Shard)) {
        if memory(block) > self.block_max() {
            return;
        }
        let mut shard = self.shard(&key).lock();
        if !shard.index.contains_key(&key) {
            put(&mut shard);
        }
    }

    /// Counters and size.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            bytes: self.shards.iter().map(|s| s.lock().bytes as u64).sum(),
        }
    }
}

impl Shard {
    fn slot(&mut self, key: &CacheKey) -> Option<&mut Slot> {
        let at = self.index.get(key).copied()?;
        self.slots.get_mut(at)?.as_mut()
    }

    /// The slot of a block that a reader has come for.
    fn slot_of_reader(&mut self, key: &CacheKey) -> Option<&mut Slot> {
        let at = self.index.get(key).copied()?;
        self.forget_written(at);
        self.slots.get_mut(at)?.as_mut()
    }

    /// Puts a block into a slot, which it returns. The key is not in the index.
    fn put(
        &mut self,
        key: CacheKey,
        block: &Arc<Block>,
        ahead: Option<Arc<Lead>>,
        cap: usize,
    ) -> usize {
        let size = memory(block);
        while self.bytes + size > cap && self.evict_one() {}
        let slot = Slot { key, block: Arc::clone(block), hot: false, ahead, written: None };
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        self.slots[at] = Some(slot);
        self.index.insert(key, at);
        self.bytes += size;
        at
    }

    /// Counts the block of this slot, of `size` bytes of memory, among those written and not read.
    fn note_written(&mut self, at: usize, size: usize) {
        let Some(slot) = &mut self.slots[at] else { return };
        slot.written = Some(self.written.next);
        self.written.slots.insert(self.written.next, at);
        self.written.bytes += size;
        self.written.next += 1;
    }

    /// Takes the block of this slot out of those, if it is one of them.
    fn forget_written(&mut self, at: usize) {
        let Some(slot) = &mut self.slots[at] else { return };
        if let Some(number) = slot.written.take() {
            self.written.slots.remove(&number);
            self.written.bytes -= memory(&slot.block);
        }
    }

    /// Frees the oldest block that was written and not read; false when there is none.
    fn evict_written(&mut self) -> bool {
        let Some(at) = self.written.slots.first_key_value().map(|(_, at)| *at) else {
            return false;
        };
        self.evict(at);
        true
    }

    /// Frees the block of a slot.
    fn evict(&mut self, at: usize) {
        self.forget_written(at);
        let Some(slot) = self.slots[at].take() else { return };
        self.bytes -= memory(&slot.block);
        if let Some(lead) = slot.ahead {
            lead.dropped(slot.block.len() as u64);
        }
        self.index.remove(&slot.key);
        self.free.push(at);
    }

    /// Frees one block; false when there is none. Ends: the second round finds all bits cleared.
    fn evict_one(&mut self) -> bool {
        if self.index.is_empty() {
            return false;
        }
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            let Some(slot) = &mut self.slots[self.hand] else { continue };
            if slot.hot {
                slot.hot = false;
                continue;
            }
            self.evict(self.hand);
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::AlignedBuf;
    use ondisk::Endian;

    fn block(n: usize) -> Arc<Block> {
        Arc::new(Block::new(AlignedBuf::zeroed(n), Endian::Little))
    }

    #[test]
    fn the_cap_is_kept_and_hot_blocks_stay() {
        let cache = BlockCache::new(16 * 64 * 1024);
        let hot = ([1, 512], 1, true);
        cache.put(hot, &block(4096));
        for i in 0..10_000u64 {
            assert!(cache.get(&hot).is_some(), "hot block evicted at {i}");
            cache.put(([2, i * 512], 1, true), &block(4096));
        }
        assert!(cache.stats().bytes <= 16 * 64 * 1024);
    }

    #[test]
    fn small_blocks_count_as_the_memory_that_they_take() {
        let cache = BlockCache::new(16 * 64 * 1024);
        for i in 0..10_000u64 {
            cache.put(([2, i * 512], 1, true), &block(512));
        }
        let held: usize = cache.shards.iter().map(|shard| shard.lock().index.len()).sum();
        assert!(held <= 16 * 16, "{held} pages of 4 KiB");
        assert!(held > 16 * 12, "{held}");
    }

    #[test]
    fn written_blocks_have_a_quarter_until_they_are_read() {
        let cache = BlockCache::new(16 * 64 * 1024);
        let read = |i: u64| ([1, i * 512], 1, true);
        (0..128).for_each(|i| cache.put(read(i), &block(4096)));
        let held =
            |cache: &BlockCache| (0..128).filter(|i| cache.peek(&read(*i)).is_some()).count();
        let before = held(&cache);
        let written = |i: u64| ([2, i * 512], 1, true);
        for i in 0..10_000 {
            cache.put_written(written(i), &block(4096));
            // The last ones are there for the next txg.
            assert!(cache.peek(&written(i)).is_some() && cache.peek(&written(i & !1)).is_some());
        }
        let bytes: usize = cache.shards.iter().map(|shard| shard.lock().written.bytes).sum();
        assert!(bytes <= 16 * 16 * 1024 && bytes > 16 * 12 * 1024, "{bytes}");
        // 16 shards of 16 pages hold most of the 128 that were read, and a quarter of that again.
        assert!(held(&cache) + 16 >= before, "{} of {before}", held(&cache));

        // One that was read is like any other that was.
        assert!(cache.get(&written(9_999)).is_some());
        (10_000..20_000).for_each(|i| cache.put_written(written(i), &block(4096)));
        assert!(cache.get(&written(9_999)).is_some());
        for shard in &cache.shards {
            let shard = shard.lock();
            let all = shard.slots.iter().flatten();
            let (count, bytes) = all
                .clone()
                .filter(|slot| slot.written.is_some())
                .fold((0, 0), |(count, bytes), slot| (count + 1, bytes + memory(&slot.block)));
            assert_eq!((count, bytes), (shard.written.slots.len(), shard.written.bytes));
            assert_eq!(all.map(|slot| memory(&slot.block)).sum::<usize>(), shard.bytes);
        }
    }

    #[test]
    fn a_block_that_is_rewritten_leaves_and_says_whether_it_was_read() {
        let cache = BlockCache::new(16 * 64 * 1024);
        let key = |i: u64| ([i, i * 512], 1, true);
        cache.put(key(1), &block(4096));
        cache.put_written(key(2), &block(4096));
        cache.put_written(key(3), &block(4096));
        assert!(cache.get(&key(3)).is_some());
        let was_read = [1, 2, 3, 4].map(|i| cache.was_read(&key(i)));
        assert_eq!(was_read, [Some(true), Some(false), Some(true), None]);
        [1, 2, 3, 4].iter().for_each(|i| cache.remove(&key(*i)));
        assert_eq!(cache.stats().bytes, 0);
        assert!(cache.shards.iter().all(|shard| shard.lock().written.bytes == 0));
    }

    #[test]
    fn blocks_too_large_pass_through() {
        let cache = BlockCache::new(16 * 64 * 1024);
        cache.put(([1, 0], 1, true), &block(64 * 1024));
        assert_eq!(cache.stats().bytes, 0);
    }
}
