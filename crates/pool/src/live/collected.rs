//! Blocks that a scan has come to and not read yet, in the order of the disks.
//!
//! # Theory
//!
//! A scan collects blocks in the order of its walk and reads them in that of their addresses, when
//! there are many (`scan/walk.rs`). In between the pool goes on, so a block may be freed, and its
//! space another's, before it is read. So the allocator tells of each block that is freed:
//!
//! ```text
//! txg n is synced      a block is freed: it is taken out, and noted
//!                      the walk, over what txg n - 1 left, comes to it: it is not put in
//! txg n is durable     no tree leads to it any more: what was noted is forgotten
//! txg n + 2 is durable its space may be written again
//! ```
//!
//! A scan must not miss a free: it would take what another block has written for damage, and write
//! over it what it has of the block that was there. A batch that was taken out before a block of it
//! was freed is read and healed all the same: it is done before the gate is let go, and so before
//! the next txg is durable. A scan begins to
//! collect when a txg is durable that began after its observer was there, so that no free of a txg
//! in between is missed.
//!
//! Each top-level vdev has a queue of its own, for the disks of one do nothing for another. One
//! batch after the other is taken from its low end; what is put in meanwhile joins it.

use crate::alloc::FreeObserver;
use dmu::Place;
use ondisk::BlkPtr;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Memory that one block takes here, about.
const BLOCK_BYTES: u64 = 256;

/// Where a block lies on its top-level vdev, and where it stands in the pool. A block that stands
/// in several places is there as often: all of them are named if it is lost.
type Key = (u64, Place);

/// Comes before all places.
const FIRST: Place = Place { objset: 0, object: 0, level: i8::MIN, blkid: 0 };

#[derive(Default)]
struct Queue {
    blocks: BTreeMap<Key, BlkPtr>,
    /// Batches that are being read.
    under_way: usize,
}

#[derive(Default)]
struct State {
    /// By number of the top-level vdev.
    queues: BTreeMap<u32, Queue>,
    /// Vdev and offset of what was freed in txgs that are not durable, and in which.
    freed: BTreeMap<(u32, u64), u64>,
}

/// See the head of the file.
#[derive(Default)]
pub(super) struct Collected {
    state: Mutex<State>,
    blocks: AtomicUsize,
    /// What they have of all vdevs.
    bytes: AtomicU64,
    /// Blocks are put in: what is freed matters.
    is_open: AtomicBool,
}

/// Blocks of one top-level vdev that are read together. The next ones are under way when it is
/// dropped at the earliest.
pub(super) struct CollectedBatch<'a> {
    of: &'a Collected,
    vdev: u32,
    pub(super) blocks: Vec<(BlkPtr, Place)>,
}

/// How much is under way on each top-level vdev.
#[derive(Clone, Copy)]
pub(super) struct BatchLimits {
    /// Bytes of a batch, for each leaf of the vdev; always one block.
    pub(super) leaf_bytes: u64,
    /// Bytes of a batch, at most.
    pub(super) bytes: u64,
    pub(super) blocks: usize,
    /// Batches of a vdev.
    pub(super) batches: usize,
}

impl Collected {
    /// From now on what is freed is noted.
    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.load(Ordering::Acquire) == 0
    }

    /// Bytes of memory, about.
    pub(super) fn memory_bytes(&self) -> u64 {
        BLOCK_BYTES.saturating_mul(self.blocks.load(Ordering::Acquire) as u64)
    }

    /// Bytes that the blocks have of all vdevs.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Puts a block in. The caller holds the gate.
    pub(super) fn put(&self, bp: &BlkPtr, place: Place) {
        let (vdev, offset) = address(bp);
        let mut state = self.state.lock();
        if state.freed.contains_key(&(vdev, offset)) {
            return;
        }
        let queue = state.queues.entry(vdev).or_default();
        if queue.blocks.insert((offset, place), *bp).is_none() {
            self.blocks.fetch_add(1, Ordering::AcqRel);
            self.bytes.fetch_add(allocated(bp), Ordering::AcqRel);
        }
    }

    /// Takes a batch of the vdev that has the fewest under way; `None` when all have as many as
    /// they may, or nothing is left. `leaves` says how many a vdev has. The caller holds the gate.
    pub(super) fn take(
        &self,
        limits: &BatchLimits,
        leaves: &dyn Fn(u32) -> usize,
    ) -> Option<CollectedBatch<'_>> {
        let mut state = self.state.lock();
        let is_next = |q: &Queue| !q.blocks.is_empty() && q.under_way < limits.batches;
        let next = state.queues.iter_mut().filter(|(_, q)| is_next(q));
        let (vdev, queue) = next.min_by_key(|(_, q)| q.under_way)?;
        let most = limits.leaf_bytes.saturating_mul(leaves(*vdev).max(1) as u64).min(limits.bytes);
        let (mut blocks, mut bytes) = (Vec::new(), 0_u64);
        while blocks.len() < limits.blocks
            && let Some(first) = queue.blocks.first_entry()
        {
            let bp = first.get();
            bytes = bytes.saturating_add(bp.psize().saturating_mul(bp.dvas().count() as u64));
            if bytes > most && !blocks.is_empty() {
                break;
            }
            let ((_, place), bp) = first.remove_entry();
            blocks.push((bp, place));
        }
        queue.under_way += 1;
        self.blocks.fetch_sub(blocks.len(), Ordering::AcqRel);
        let taken: u64 = blocks.iter().map(|(bp, _)| allocated(bp)).sum();
        self.bytes.fetch_sub(taken, Ordering::AcqRel);
        Some(CollectedBatch { of: self, vdev: *vdev, blocks })
    }
}

impl Drop for CollectedBatch<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.of.state.lock().queues.get_mut(&self.vdev) {
            queue.under_way = queue.under_way.saturating_sub(1);
        }
    }
}

impl FreeObserver for Collected {
    fn freed(&self, bp: &BlkPtr, txg: u64) {
        if !self.is_open.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        for (_, dva) in bp.dvas() {
            let (vdev, offset) = (dva.vdev(), dva.offset());
            state.freed.insert((vdev, offset), txg);
            let Some(queue) = state.queues.get_mut(&vdev) else { continue };
            let range = (offset, FIRST)..(offset.saturating_add(1), FIRST);
            let gone: Vec<Key> = queue.blocks.range(range).map(|(key, _)| *key).collect();
            for bp in gone.iter().filter_map(|key| queue.blocks.remove(key)) {
                self.bytes.fetch_sub(allocated(&bp), Ordering::AcqRel);
            }
            self.blocks.fetch_sub(gone.len(), Ordering::AcqRel);
        }
    }

    fn durable(&self, txg: u64) {
        self.state.lock().freed.retain(|_, freed_in| *freed_in > txg);
    }
}

/// The first copy's top-level vdev and offset in bytes, which no other block has.
fn address(bp: &BlkPtr) -> (u32, u64) {
    let dva = bp.dva(0);
    (dva.vdev(), dva.offset())
}

/// Bytes that a block has of all vdevs.
pub(super) fn allocated(bp: &BlkPtr) -> u64 {
    bp.dvas().map(|(_, dva)| dva.asize()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::Dva;

    const LIMITS: BatchLimits =
        BatchLimits { leaf_bytes: 1 << 20, bytes: 1 << 20, blocks: 2, batches: 2 };

    fn block(vdev: u32, offset: u64) -> BlkPtr {
        BlkPtr::HOLE.with_dva(0, Dva::new(vdev, offset << 9, 4096, false))
    }

    fn place(blkid: u64) -> Place {
        Place { objset: 1, object: 2, level: 0, blkid }
    }

    fn taken(batch: &CollectedBatch<'_>) -> Vec<(u32, u64, u64)> {
        let each = |(bp, place): &(BlkPtr, Place)| (address(bp).0, address(bp).1 >> 9, place.blkid);
        batch.blocks.iter().map(each).collect()
    }

    #[test]
    fn batches_are_of_one_vdev_and_in_its_order() {
        let all = Collected::default();
        all.open();
        for (n, (vdev, offset)) in [(0, 300), (1, 50), (0, 100), (0, 200)].iter().enumerate() {
            all.put(&block(*vdev, *offset), place(n as u64));
        }
        let one = all.take(&LIMITS, &|_| 1).unwrap();
        assert_eq!(taken(&one), [(0, 100, 2), (0, 200, 3)]);
        let two = all.take(&LIMITS, &|_| 1).unwrap();
        assert_eq!(taken(&two), [(1, 50, 1)]);
        assert_eq!(all.bytes(), 4096, "one is left");
        let three = all.take(&LIMITS, &|_| 1).unwrap();
        assert_eq!(taken(&three), [(0, 300, 0)]);
        assert!(all.is_empty() && all.take(&LIMITS, &|_| 1).is_none());
        // No more than two of a vdev at a time.
        all.put(&block(0, 400), place(9));
        assert!(all.take(&LIMITS, &|_| 1).is_none());
        drop(one);
        assert!(all.take(&LIMITS, &|_| 1).is_some());
    }

    #[test]
    fn what_is_freed_is_not_taken_wherever_it_stands() {
        let all = Collected::default();
        all.open();
        all.put(&block(0, 100), place(1));
        all.put(&block(0, 100), place(2));
        all.put(&block(0, 101), place(3));
        all.freed(&block(0, 100), 7);
        all.freed(&block(1, 101), 7);
        // The walk is over what was durable before.
        all.put(&block(0, 100), place(4));
        assert_eq!(taken(&all.take(&LIMITS, &|_| 1).unwrap()), [(0, 101, 3)]);
        assert!(all.is_empty() && all.bytes() == 0);
        all.durable(6);
        all.put(&block(0, 100), place(5));
        assert!(all.is_empty());
        all.durable(7);
        all.put(&block(0, 100), place(5));
        assert_eq!(taken(&all.take(&LIMITS, &|_| 1).unwrap()), [(0, 100, 5)]);
    }
}
