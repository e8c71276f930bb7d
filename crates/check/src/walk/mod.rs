//! The walk over every block: threads, queues, batches.
//!
//! # Theory
//!
//! A pointer is *visited* where it is met: judged against its place, counted, its space claimed.
//! Then its block is read. Blocks with pointers inside go onto a stack, the last ones first, so
//! that the stack stays as short as the trees are deep times the pointers of one block. Blocks
//! without go into a pool of pending reads; when there are enough of them they are sorted by
//! address and cut into batches, which are read in the order of the disk:
//!
//! ```text
//! roots -> stack (metadata, newest first) --read, decode--> children --visit--> stack
//!                                                                        \--> pending
//! pending (PENDING_MAX pointers) --sort by address, cut--> batches --read, verify--> done
//! ```
//!
//! Each thread reads one batch at a time, all its blocks in one submission, every copy and all
//! parity; while one thread verifies, the others' reads are under way. Batches that are ready go
//! before the stack, so that what is pending never exceeds its bound by more than one batch's
//! children.
//!
//! A block with pointers inside is gone into once. Nothing shares such blocks, so one whose space
//! was claimed before is an issue, and what is below it was visited: a few blocks that point to one
//! another from many places cost no more work than they are.
//!
//! Copies of one block are read as if they were blocks of their own, so that the second copies of
//! a batch of metadata cost one more submission and not one wait each.

mod expand;
mod set;

use crate::claims::Claims;
use crate::damage::Damages;
use crate::issue::{At, Issue};
use crate::options::{CheckOptions, Verify};
use crate::shared::{Shared, Visit};
use crate::sink::Sink;
use crate::totals::{Kind, Totals};
use ondisk::{BlkPtr, DmuType, Dva};
use parking_lot::Mutex;
use pool::Pool;
use rt::{Condvar, Progress};
pub(crate) use set::{Owner, Set, Space};
use std::convert::Infallible;
use std::sync::Arc;
use vdev::Scope;
use zio::{Block, Place, Request};

/// Pointers without children that wait to be sorted; each takes about 200 bytes.
const PENDING_MAX: usize = 1 << 16;
/// Pointers of one batch, at most.
const BATCH_POINTERS: usize = 2048;

/// A visited pointer whose block is to be read.
pub(super) struct Item {
    pub(super) bp: BlkPtr,
    pub(super) place: Place,
    pub(super) owner: Arc<Owner>,
}

impl Item {
    /// The block has pointers inside.
    fn has_children(&self) -> bool {
        let t = self.bp.dmu_type();
        self.bp.level() > 0 || t == DmuType::DNODE || t == DmuType::OBJSET
    }

    fn disk_order(&self) -> (u32, u64) {
        let dva = self.bp.dva(0);
        (dva.vdev(), dva.offset())
    }
}

#[derive(Default)]
struct Queue {
    /// Pointers to blocks with pointers, last in first out.
    stack: Vec<Item>,
    pending: Vec<Item>,
    /// The next batch is the last.
    batches: Vec<Vec<Item>>,
    busy: usize,
}

/// What one thread counts by itself.
#[derive(Default)]
pub(crate) struct Local {
    pub(crate) totals: Totals,
    pub(crate) damages: Damages,
    pub(crate) blocks_read: u64,
    pub(crate) bytes_read: u64,
    pub(crate) blocks_lost: u64,
    children: Vec<Item>,
}

/// The walk.
pub(crate) struct Walk<'p> {
    pub(crate) pool: &'p Pool,
    pub(crate) options: &'p CheckOptions,
    pub(crate) claims: &'p Claims<'p>,
    pub(crate) shared: &'p Shared,
    pub(crate) sink: &'p Sink,
    progress: &'p Progress,
    /// What another walk has read already: blocks without pointers inside need no second reading.
    known: Option<&'p Claims<'p>>,
    queue: Mutex<Queue>,
    work: Condvar,
}

impl<'p> Walk<'p> {
    pub(crate) fn new(
        pool: &'p Pool,
        options: &'p CheckOptions,
        (claims, shared): (&'p Claims<'p>, &'p Shared),
        sink: &'p Sink,
        progress: &'p Progress,
    ) -> Self {
        let (queue, work) = (Mutex::default(), pool.vdevs().rt().condvar());
        Self { pool, options, claims, shared, sink, progress, known: None, queue, work }
    }

    /// Does not read again what the walk that made `known` has read.
    pub(crate) fn knowing(self, known: &'p Claims<'p>) -> Self {
        Self { known: Some(known), ..self }
    }

    /// Walks down from the roots of `sets` and returns when all is read.
    pub(crate) fn run(&self, sets: &[Arc<Set>]) -> Local {
        let mut all = Local::default();
        for set in sets.iter().rev() {
            let place = Place::objset(set.id);
            let owner = Arc::new(Owner::root(set));
            self.visit_log(set, &mut all);
            self.visit(set.root, place, &owner, u64::MAX, &mut all);
        }
        self.hand_over(&mut all.children);
        let rt = self.pool.vdevs().rt().clone();
        let workers = match self.options.workers {
            // Threads wait for the disk as well as compute.
            0 => (2 * rt.processors()).max(4),
            n => n,
        };
        let out = Mutex::new(all);
        let Ok(()) = rt.for_each_parallel(workers, 0..workers, |_| {
            let local = self.work();
            let mut all = out.lock();
            all.totals.merge(&local.totals);
            all.damages.merge(local.damages);
            all.blocks_read += local.blocks_read;
            all.bytes_read += local.bytes_read;
            all.blocks_lost += local.blocks_lost;
            Ok::<(), Infallible>(())
        });
        out.into_inner()
    }

    fn work(&self) -> Local {
        let mut local = Local::default();
        while let Some(batch) = self.next_batch() {
            self.process(batch, &mut local);
            let mut children = std::mem::take(&mut local.children);
            self.hand_over(&mut children);
            local.children = children;
            self.queue.lock().busy -= 1;
            self.work.notify_all();
        }
        local
    }

    /// Puts visited pointers where they belong.
    fn hand_over(&self, children: &mut Vec<Item>) {
        let mut q = self.queue.lock();
        for item in children.drain(..) {
            if item.has_children() {
                q.stack.push(item);
            } else {
                q.pending.push(item);
            }
        }
    }

    fn next_batch(&self) -> Option<Vec<Item>> {
        let mut q = self.queue.lock();
        loop {
            if self.progress.is_cancelled() {
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
    fn take_from_stack(&self, q: &mut Queue) -> Vec<Item> {
        let mut bytes = 0;
        let mut n = 0;
        for item in q.stack.iter().rev().take(BATCH_POINTERS) {
            bytes += item.bp.lsize();
            if n > 0 && bytes > self.options.batch_bytes {
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
    fn cut_pending(&self, q: &mut Queue) {
        let mut pending = std::mem::take(&mut q.pending);
        pending.sort_by_key(Item::disk_order);
        let mut batch = Vec::new();
        let mut bytes = 0;
        for item in pending {
            let size = item.bp.psize();
            let full = batch.len() >= BATCH_POINTERS || bytes + size > self.options.batch_bytes;
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

    /// Reads a batch and does with each block what its kind demands.
    fn process(&self, batch: Vec<Item>, local: &mut Local) {
        let skip = |i: &Item| match self.options.verify {
            Verify::Metadata if i.is_data() => true,
            _ => !i.has_children() && self.known.is_some_and(|k| k.holds(&i.bp)),
        };
        let (skipped, batch): (Vec<Item>, Vec<Item>) = batch.into_iter().partition(skip);
        skipped.iter().for_each(|item| self.close(item));
        // Every copy is a request of its own; the first one of a block decodes it.
        let mut copies: Vec<(usize, BlkPtr)> = Vec::with_capacity(batch.len());
        for (n, item) in batch.iter().enumerate() {
            copies_of(&item.bp, |bp| copies.push((n, bp)));
        }
        let mut last = usize::MAX;
        let mut requests = Vec::with_capacity(copies.len());
        for (n, bp) in &copies {
            let Some(item) = batch.get(*n) else { continue };
            let first = last != *n;
            last = *n;
            let key = item.owner.set.key.as_deref();
            let raw = !first || !needs_content(item, key.is_some());
            requests.push(Request { bp, place: item.place, key, scope: Scope::All, raw });
        }
        let outcomes = self.pool.reader().read_many(&requests);
        let mut outcomes = copies.iter().map(|(n, _)| *n).zip(outcomes).peekable();
        for (n, item) in batch.iter().enumerate() {
            let mut found: Option<Block> = None;
            let mut failure: Option<zio::Error> = None;
            let mut faults = Vec::new();
            let mut bad_copies = 0;
            while let Some((_, outcome)) = outcomes.next_if(|(m, _)| *m == n) {
                faults.extend(outcome.faults);
                match outcome.block {
                    Ok(b) if found.is_none() => found = Some(b),
                    Ok(_) => {}
                    Err(e) => {
                        bad_copies += 1;
                        failure = failure.or(Some(e));
                    }
                }
            }
            let bytes = item.bp.asize();
            local.blocks_read += 1;
            local.bytes_read += bytes;
            self.progress.add(1, bytes);
            if !faults.is_empty() {
                local.damages.add(&faults, found.is_none());
            }
            let content = match (found, failure) {
                // The first copy is bad: another is good, but was not decoded.
                (Some(_), Some(_)) if bad_copies > 0 => self.decode_again(item),
                (found, None) => found,
                (_, Some(e)) => {
                    self.lost(item, &e, local);
                    None
                }
            };
            if let Some(block) = content {
                self.expand(item, &block, local);
            }
            self.close(item);
        }
    }

    /// Reads a block by any copy that is good.
    fn decode_again(&self, item: &Item) -> Option<Block> {
        let key = item.owner.set.key.as_deref();
        let raw = !needs_content(item, key.is_some());
        let (bp, place) = (&item.bp, item.place);
        let request = Request { bp, place, key, scope: Scope::Data, raw };
        match self.pool.reader().read(request).block {
            Ok(b) => Some(b),
            Err(e) => {
                self.lost(item, &e, &mut Local::default());
                None
            }
        }
    }

    fn lost(&self, item: &Item, e: &zio::Error, local: &mut Local) {
        local.blocks_lost += 1;
        item.owner.mark_incomplete();
        self.sink.put(Issue::BlockLost {
            at: item.at(),
            copies: item.bp.dvas().map(|(_, d)| d).collect::<Vec<Dva>>(),
            size: item.bp.lsize(),
            cause: e.kind.to_string(),
        });
    }

    /// Counts a pointer and claims its space; used for the walk and for lists of blocks. Whether
    /// nothing else has the space, or may have it too.
    pub(crate) fn count(
        &self,
        bp: &BlkPtr,
        kind: Kind,
        at: &dyn Fn() -> At,
        totals: &mut Totals,
    ) -> bool {
        match self.shared.visit(bp) {
            Visit::First(bp) => {
                totals.count(&bp, kind);
                return bp.is_embedded() || self.claims.claim(&bp, at, self.sink);
            }
            Visit::Dedup(bp) => {
                totals.count(&bp, kind);
                totals.dedup_bytes += bp.asize();
                totals.dedup_blocks += 1;
            }
            Visit::Clone => {
                totals.count(bp, kind);
                totals.clone_bytes += bp.asize();
                totals.clone_blocks += 1;
            }
        }
        true
    }
}

impl Item {
    pub(super) fn at(&self) -> At {
        self.owner.at(self.place)
    }

    fn is_data(&self) -> bool {
        self.bp.level() == 0 && !self.bp.dmu_type().is_metadata()
    }
}

/// The block must be decrypted and decompressed: it has pointers, or it is encrypted and its MAC
/// can be judged, or it is embedded and only decompressing can judge it.
fn needs_content(item: &Item, has_key: bool) -> bool {
    // Without a key a block of dnodes can be walked as it is stored: it is never compressed and
    // only bonus areas are secret.
    if item.bp.is_encrypted() && !has_key {
        return false;
    }
    item.has_children() || item.bp.uses_crypt() || item.bp.is_embedded()
}

/// Calls `each` with one pointer per copy. Gang copies stay together: their headers are sealed
/// with the first address. Embedded blocks are their own copy.
fn copies_of(bp: &BlkPtr, mut each: impl FnMut(BlkPtr)) {
    let alone = bp.is_embedded() || bp.is_gang() || bp.dvas().count() < 2;
    if alone {
        return each(*bp);
    }
    for (_, dva) in bp.dvas() {
        let mut words = *bp.words();
        let [a, b] = dva.words();
        (words[0], words[1], words[2], words[3]) = (a, b, 0, 0);
        if !bp.is_encrypted() {
            (words[4], words[5]) = (0, 0);
        }
        each(BlkPtr::from_words(words));
    }
}
