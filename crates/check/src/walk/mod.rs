//! The walk over every block: threads, queues, batches.
//!
//! # Theory
//!
//! A pointer is *visited* where it is met: judged against its place, counted, its space claimed.
//! Then its block is read, in the order of the disk ([`dmu::traverse::DiskOrder`]): all blocks of
//! a batch in one submission, every copy and all parity.
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
use crate::issue::{Issue, Location};
use crate::options::{CheckOptions, Verify};
use crate::shared::{Reference, Shared};
use crate::sink::Sink;
use crate::totals::{BlockKind, Totals};
use dmu::traverse::{BatchVisitor, DiskOrder};
use ondisk::{BlkPtr, Dva};
use pool::Pool;
use rt::Progress;
pub(crate) use set::{Owner, Set, Space};
use std::sync::Arc;
use vdev::Scope;
use zio::{Block, Place, Request};

/// A visited pointer whose block is to be read.
pub(super) type Item = dmu::traverse::Item<Arc<Owner>>;

/// The counts of one thread.
#[derive(Default)]
pub(crate) struct Local {
    pub(crate) totals: Totals,
    pub(crate) damages: Damages,
    pub(crate) blocks_read: u64,
    pub(crate) bytes_read: u64,
    pub(crate) blocks_lost: u64,
    /// Of these those that others hang on: what is not data of files and volumes.
    pub(crate) metadata_lost: u64,
}

impl Local {
    fn merge(&mut self, other: Self) {
        self.totals.merge(&other.totals);
        self.damages.merge(other.damages);
        self.blocks_read += other.blocks_read;
        self.bytes_read += other.bytes_read;
        self.blocks_lost += other.blocks_lost;
        self.metadata_lost += other.metadata_lost;
    }
}

/// Where what is visited goes: the counts, and blocks to be read.
pub(crate) struct WalkOutput<'a> {
    pub(crate) local: &'a mut Local,
    pub(crate) found: &'a mut Vec<Item>,
}

/// The walk.
pub(crate) struct Walk<'p> {
    pub(crate) pool: &'p Pool,
    pub(crate) options: &'p CheckOptions,
    pub(crate) claims: &'p Claims<'p>,
    pub(crate) shared: &'p Shared,
    pub(crate) sink: &'p Sink,
    progress: &'p Progress,
    /// Blocks that another walk has read already: those without pointers inside need no second
    /// reading.
    known: Option<&'p Claims<'p>>,
}

impl<'p> Walk<'p> {
    pub(crate) fn new(
        pool: &'p Pool,
        options: &'p CheckOptions,
        (claims, shared): (&'p Claims<'p>, &'p Shared),
        sink: &'p Sink,
        progress: &'p Progress,
    ) -> Self {
        Self { pool, options, claims, shared, sink, progress, known: None }
    }

    /// Does not read again what the walk that made `known` has read.
    pub(crate) fn knowing(self, known: &'p Claims<'p>) -> Self {
        Self { known: Some(known), ..self }
    }

    /// Walks down from the roots of `sets` and returns when all is read.
    pub(crate) fn run(&self, sets: &[Arc<Set>]) -> Local {
        let mut all = Local::default();
        let mut found = Vec::new();
        let out = &mut WalkOutput { local: &mut all, found: &mut found };
        for set in sets.iter().rev() {
            let place = Place::objset(set.id);
            let owner = Arc::new(Owner::root(set));
            self.visit_log(set, out);
            self.visit(set.root, place, &owner, u64::MAX, out);
        }
        let rt = self.pool.vdevs().rt().clone();
        let workers = match self.options.workers {
            // Threads wait for the disk as well as compute.
            0 => (2 * rt.processors()).max(4),
            n => n,
        };
        let walk = DiskOrder { rt, workers, batch_bytes: self.options.batch_bytes };
        walk.run(found, self).into_iter().for_each(|local| all.merge(local));
        all
    }

    /// Reads a batch and does with each block what its kind demands.
    fn process(&self, batch: Vec<Item>, out: &mut WalkOutput<'_>) {
        let skip = |i: &Item| match self.options.verify {
            Verify::Metadata if is_data(&i.bp) => true,
            _ => !i.has_pointers() && self.known.is_some_and(|k| k.holds(&i.bp)),
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
            let key = item.of.set.key.as_deref();
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
            out.local.blocks_read += 1;
            out.local.bytes_read += bytes;
            self.progress.add(1, bytes);
            if !faults.is_empty() {
                out.local.damages.add(&faults, found.is_none());
            }
            let content = match (found, failure) {
                // The first copy is bad: another is good, but was not decoded.
                (Some(_), Some(_)) if bad_copies > 0 => self.decode_again(item),
                (found, None) => found,
                (_, Some(e)) => {
                    self.lost(item, &e, out.local);
                    None
                }
            };
            if let Some(block) = content {
                self.expand(item, &block, out);
            }
            self.close(item);
        }
    }

    /// Reads a block by any copy that is good.
    fn decode_again(&self, item: &Item) -> Option<Block> {
        let key = item.of.set.key.as_deref();
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
        local.metadata_lost += u64::from(!is_data(&item.bp));
        item.of.mark_incomplete();
        self.sink.put(Issue::BlockLost {
            at: item.of.at(item.place),
            copies: item.bp.dvas().map(|(_, d)| d).collect::<Vec<Dva>>(),
            size: item.bp.lsize(),
            kind: item.bp.dmu_type(),
            cause: e.kind.to_string(),
        });
    }

    /// Counts a pointer and claims its space; used for the walk and for lists of blocks. Whether
    /// nothing else has the space, or may have it too.
    pub(crate) fn count(
        &self,
        bp: &BlkPtr,
        kind: BlockKind,
        at: &dyn Fn() -> Location,
        totals: &mut Totals,
    ) -> bool {
        match self.shared.visit(self.pool, bp) {
            Reference::First(bp) => {
                totals.count(&bp, kind);
                let is_new = bp.is_embedded() || self.claims.claim(&bp, at, self.sink);
                if !is_new {
                    self.shared.suspect(&bp);
                }
                return is_new;
            }
            Reference::Dedup(bp) => {
                totals.count(&bp, kind);
                totals.dedup_bytes += bp.asize();
                totals.dedup_blocks += 1;
            }
            Reference::Clone => {
                totals.count(bp, kind);
                totals.clone_bytes += bp.asize();
                totals.clone_blocks += 1;
            }
        }
        true
    }
}

impl BatchVisitor<Arc<Owner>> for Walk<'_> {
    type Local = Local;

    fn batch(&self, items: Vec<Item>, local: &mut Local, found: &mut Vec<Item>) {
        self.process(items, &mut WalkOutput { local, found });
    }

    fn is_stopped(&self) -> bool {
        self.progress.is_cancelled()
    }
}

fn is_data(bp: &BlkPtr) -> bool {
    bp.level() == 0 && !bp.dmu_type().is_metadata()
}

/// The block must be decrypted and decompressed: it has pointers, or it is encrypted and its MAC
/// can be judged, or it is embedded and only decompressing can judge it.
fn needs_content(item: &Item, has_key: bool) -> bool {
    // Without a key a block of dnodes can be walked as it is stored: it is never compressed and
    // only bonus areas are secret.
    if item.bp.is_encrypted() && !has_key {
        return false;
    }
    item.has_pointers() || item.bp.uses_crypt() || item.bp.is_embedded()
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
