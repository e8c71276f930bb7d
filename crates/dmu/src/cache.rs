//! A cache of blocks with a hard cap in bytes.
//!
//! Sharded by key; each shard is a map and a clock hand over its slots. A hit sets a bit, the
//! hand clears bits and evicts what it finds cleared, so a block read once does not push out one
//! read often. Blocks larger than an eighth of a shard pass through uncached: a stream of large
//! records must not empty the cache of the metadata that leads to them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zio::Block;

const SHARDS: usize = 16;

/// What names a cached block: its first address (or its name, when it is in the pointer), its
/// birth, and whether it was decrypted.
pub(crate) type CacheKey = ([u64; 2], u64, bool);

struct Slot {
    key: CacheKey,
    block: Arc<Block>,
    hot: bool,
}

#[derive(Default)]
struct Shard {
    index: HashMap<CacheKey, usize>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
}

/// Blocks by address.
pub struct BlockCache {
    shards: Vec<Mutex<Shard>>,
    shard_cap: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What the cache did so far.
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
    /// Holds at most `cap` bytes of block content.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_cap: cap / SHARDS,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Bytes of content that it holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shard_cap * SHARDS
    }

    fn shard(&self, key: &CacheKey) -> &Mutex<Shard> {
        // Addresses are multiples of sectors: multiply, then take high bits, to spread them.
        let h = (key.0[0] ^ key.0[1].rotate_left(17) ^ key.1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(h >> 60) as usize % SHARDS]
    }

    pub(crate) fn get(&self, key: &CacheKey) -> Option<Arc<Block>> {
        let mut shard = self.shard(key).lock();
        let found = shard.index.get(key).copied();
        let slot = found.and_then(|i| shard.slots.get_mut(i)).and_then(Option::as_mut);
        let counter = if slot.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        slot.map(|s| {
            s.hot = true;
            Arc::clone(&s.block)
        })
    }

    /// The same without counting: a second look after a miss.
    pub(crate) fn look(&self, key: &CacheKey) -> Option<Arc<Block>> {
        let shard = self.shard(key).lock();
        let at = shard.index.get(key).copied()?;
        shard.slots.get(at).and_then(Option::as_ref).map(|s| Arc::clone(&s.block))
    }

    pub(crate) fn put(&self, key: CacheKey, block: &Arc<Block>) {
        let size = block.len();
        if size > self.shard_cap / 8 {
            return;
        }
        let mut shard = self.shard(&key).lock();
        if shard.index.contains_key(&key) {
            return;
        }
        while shard.bytes + size > self.shard_cap && shard.evict_one() {}
        let slot = Slot { key, block: Arc::clone(block), hot: false };
        let i = match shard.free.pop() {
            Some(i) => i,
            None => {
                shard.slots.push(None);
                shard.slots.len() - 1
            }
        };
        shard.slots[i] = Some(slot);
        shard.index.insert(key, i);
        shard.bytes += size;
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
            self.bytes -= slot.block.len();
            let key = slot.key;
            self.index.remove(&key);
            self.slots[self.hand] = None;
            self.free.push(self.hand);
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
    fn blocks_too_large_pass_through() {
        let cache = BlockCache::new(16 * 64 * 1024);
        cache.put(([1, 0], 1, true), &block(64 * 1024));
        assert_eq!(cache.stats().bytes, 0);
    }
}
