//! A walk by many threads, in the order of the disk.
//!
//! # Theory
//!
//! Where the order of what is visited does not matter, blocks are read as the disk has them.
//! Blocks that lead further go onto a stack, the last ones first, so that the stack stays as short
//! as the trees are deep times the pointers of one block. The others go into a pool of pending
//! reads; when there are enough of them they are sorted by address and cut into batches:
//!
//! ```text
//! roots -> stack (leads further, newest first) --read, decode--> found --> stack
//!                                                                     \--> pending
//! pending (PENDING_MAX pointers) --sort by address, cut--> batches --read, verify--> done
//! ```
//!
//! Each thread has one batch at a time; while one verifies, the others' reads are under way.
//! Batches that are ready go before the stack, so that what is pending never exceeds its bound by
//! more than one batch's children.
//!
//! Nothing is judged here: what a [`BatchVisitor`] hands back is gone into. It must not hand back
//! for ever what leads in a circle.

use ondisk::{BlkPtr, DmuType};
use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::convert::Infallible;
use zio::Place;

/// Pointers that lead no further and wait to be sorted; each takes about 200 bytes.
const PENDING_MAX: usize = 1 << 16;
/// Pointers of one batch, at most.
const BATCH_POINTERS: usize = 2048;

/// A pointer to be gone into, and what the visitor knows of it.
pub struct Item<T> {
    /// The pointer.
    pub bp: BlkPtr,
    /// Its place.
    pub place: Place,
    /// The object or set that it belongs to.
    pub of: T,
}

impl<T> Item<T> {
    /// The block has pointers inside.
    pub fn has_pointers(&self) -> bool {
        let kind = self.bp.dmu_type();
        self.bp.level() > 0 || kind == DmuType::DNODE || kind == DmuType::OBJSET
    }

    fn disk_order(&self) -> (u32, u64) {
        let dva = self.bp.dva(0);
        (dva.vdev(), dva.offset())
    }
}

/// Goes into the blocks of a walk.
pub trait BatchVisitor<T>: Sync {
    /// The state that each thread has for itself.
    type Local: Default + Send;

    /// Reads some blocks, in the order of the disk, and puts what is below them into `found`.
    fn batch(&self, items: Vec<Item<T>>, local: &mut Self::Local, found: &mut Vec<Item<T>>);

    /// Whether the walk shall end early.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// How a walk is done.
#[derive(Clone)]
pub struct DiskOrder {
    /// Whose threads walk.
    pub rt: Rt,
    /// Threads, the caller included.
    pub workers: usize,
    /// Bytes of a batch, at most (but always one block).
    pub batch_bytes: u64,
}

impl DiskOrder {
    /// Walks down from `roots`; what each thread kept for itself.
    pub fn run<T: Send, V: BatchVisitor<T>>(
        &self,
        mut roots: Vec<Item<T>>,
        visitor: &V,
    ) -> Vec<V::Local> {
        let (queue, work) = (Mutex::default(), self.rt.condvar());
        let walk = Walk { visitor, batch_bytes: self.batch_bytes, queue, work };
        walk.hand_over(&mut roots);
        let out = Mutex::new(Vec::new());
        let Ok(()) = self.rt.for_each_parallel(self.workers, 0..self.workers, |_| {
            let local = walk.work();
            out.lock().push(local);
            Ok::<(), Infallible>(())
        });
        out.into_inner()
    }
}

struct Queue<T> {
    /// Pointers that lead further, last in first out.
    stack: Vec<Item<T>>,
    pending: Vec<Item<T>>,
    /// The next batch is the last.
    batches: Vec<Vec<Item<T>>>,
    busy: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { stack: Vec::new(), pending: Vec::new(), batches: Vec::new(), busy: 0 }
    }
}

struct Walk<'v, T, V> {
    visitor: &'v V,
    batch_bytes: u64,
    queue: Mutex<Queue<T>>,
    work: Condvar,
}

impl<T, V: BatchVisitor<T>> Walk<'_, T, V> {
    fn work(&self) -> V::Local {
        let mut local = V::Local::default();
        let mut found = Vec::new();
        while let Some(batch) = self.next_batch() {
            self.visitor.batch(batch, &mut local, &mut found);
            self.hand_over(&mut found);
            self.queue.lock().busy -= 1;
            self.work.notify_all();
        }
        local
    }

    /// Puts pointers where they belong.
    fn hand_over(&self, found: &mut Vec<Item<T>>) {
        let mut q = self.queue.lock();
        for item in found.drain(..) {
            if item.has_pointers() {
                q.stack.push(item);
            } else {
                q.pending.push(item);
            }
        }
    }

    fn next_batch(&self) -> Option<Vec<Item<T>>> {
        let mut q = self.queue.lock();
        loop {
            if self.visitor.is_stopped() {
                return None;
            }
            if q.batches.is_empty() && q.pending.len() >= PENDING_MAX {
                self.cut_pending(&mut q);
            }
            let batch = match q.batches.pop() {
                Some(b) => b,
                None => self.take_from_stack(&mut q),
            };
            if !batch.is_empty() {
                q.busy += 1;
                return Some(batch);
            }
            if q.busy == 0 {
                if q.pending.is_empty() {
                    return None;
                }
                self.cut_pending(&mut q);
                self.work.notify_all();
                continue;
            }
            self.work.wait(&mut q);
        }
    }

    /// Takes a batch from the top of the stack.
    fn take_from_stack(&self, q: &mut Queue<T>) -> Vec<Item<T>> {
        let mut bytes = 0;
        let mut n = 0;
        for item in q.stack.iter().rev().take(BATCH_POINTERS) {
            bytes += item.bp.lsize();
            if n > 0 && bytes > self.batch_bytes {
                break;
            }
            n += 1;
        }
        let at = q.stack.len() - n;
        let mut batch = q.stack.split_off(at);
        batch.sort_by_key(Item::disk_order);
        batch
    }

    /// Sorts what is pending and cuts it into batches.
    fn cut_pending(&self, q: &mut Queue<T>) {
        let mut pending = std::mem::take(&mut q.pending);
        pending.sort_by_key(Item::disk_order);
        let mut batch = Vec::new();
        let mut bytes = 0;
        for item in pending {
            let size = item.bp.psize();
            let full = batch.len() >= BATCH_POINTERS || bytes + size > self.batch_bytes;
            if full && !batch.is_empty() {
                q.batches.push(std::mem::take(&mut batch));
                bytes = 0;
            }
            bytes += size;
            batch.push(item);
        }
        q.batches.push(batch);
        q.batches.reverse();
    }
}
