//! Taking whole subtrees out of the tree.

use super::{Job, SetSync};
use crate::error::{ErrorKind, Result};
use crate::traverse::{BatchVisitor, DiskOrder, Item, pointers};
use ondisk::BlkPtr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zio::Block;

/// Subtrees of one block that a worker takes at a time.
const CHUNK: usize = 8;
/// Bytes of indirect blocks that a worker takes at a time: few, so that all have some.
const BATCH_BYTES: u64 = 1 << 20;

/// The root of a subtree to be killed, not a hole, and the job whose space used shrinks.
pub(super) type Subtree = Item<Option<usize>>;

impl SetSync<'_> {
    /// Kills subtrees, in the order of the disk, so that one large file is as parallel as many.
    ///
    /// An indirect block that cannot be read leaks everything below it: a damaged file can still be
    /// removed, and the set's list of leaks has the cost.
    pub(super) fn kill_all(&self, jobs: &[Job], roots: Vec<Subtree>) -> Result<()> {
        let (trees, blocks): (Vec<_>, Vec<_>) = roots.into_iter().partition(|d| d.place.level > 0);
        let killing = Killing { sync: self, jobs };
        let mut chunks: Vec<_> = blocks.chunks(CHUNK).collect();
        self.for_each(&mut chunks, |chunk| {
            chunk.iter().for_each(|d| killing.kill(d.of, &d.bp));
            Ok(())
        })?;
        if !trees.is_empty() {
            let rt = self.set.inner.store.rt();
            let workers = self.workers(&rt);
            DiskOrder { rt, workers, batch_bytes: BATCH_BYTES }.run(trees, &killing);
        }
        Ok(())
    }
}

struct Killing<'a> {
    sync: &'a SetSync<'a>,
    jobs: &'a [Job],
}

impl BatchVisitor<Option<usize>> for Killing<'_> {
    type Local = ();

    fn batch(&self, to_free: Vec<Subtree>, (): &mut (), below: &mut Vec<Subtree>) {
        for (d, block) in to_free.iter().zip(self.read(&to_free)) {
            match block {
                Ok(block) => self.kill_inside(d, &block, below),
                Err(e) => self.sync.live.leaked.lock().push(e),
            }
            self.kill(d.of, &d.bp);
        }
    }
}

impl Killing<'_> {
    fn read(&self, to_free: &[Subtree]) -> Vec<Result<Arc<Block>>> {
        let is_at_home = |d: &&Subtree| d.bp.level() == d.place.level.cast_unsigned();
        let wanted = to_free.iter().filter(is_at_home).map(|d| (d.bp, d.place));
        let mut read = self.sync.read_many(&wanted.collect::<Vec<_>>()).into_iter();
        let block = |d: &Subtree| {
            let rule = "a pointer has another level than its place";
            let strange = || self.sync.set.error(d.place.object, ErrorKind::Tree(rule));
            Some(d).filter(is_at_home).and_then(|_| read.next()).unwrap_or_else(|| Err(strange()))
        };
        to_free.iter().map(block).collect()
    }

    /// Kills what a block points to at level 0; what is higher goes to `below`.
    fn kill_inside(&self, d: &Subtree, block: &Block, below: &mut Vec<Subtree>) {
        for (place, bp) in pointers(block, d.place) {
            match bp {
                Err(_) => {}
                Ok(bp) if bp.is_hole() => {}
                Ok(bp) if place.level == 0 => self.kill(d.of, &bp),
                Ok(bp) => below.push(Subtree { bp, place, of: d.of }),
            }
        }
    }

    fn kill(&self, job: Option<usize>, bp: &BlkPtr) {
        if let Some(job) = job.and_then(|j| self.jobs.get(j)) {
            let size = self.sync.cx.owner.dsize(bp).cast_signed();
            job.used.fetch_sub(size, Ordering::Relaxed);
        }
        self.sync.cx.owner.kill(bp);
    }
}
