//! Taking whole subtrees out of the tree.

use super::{Job, SetSync};
use crate::error::{ErrorKind, Result};
use ondisk::BlkPtr;
use ondisk::blkptr::BLKPTR_SIZE;
use parking_lot::Mutex;
use std::sync::atomic::Ordering;
use zio::Block;

/// Subtrees that a worker takes at a time.
const CHUNK: usize = 8;

/// The root of a subtree to be killed; not a hole.
#[derive(Clone)]
pub(super) struct Doomed {
    /// Whose space used shrinks.
    pub(super) job: Option<usize>,
    pub(super) object: u64,
    pub(super) bp: BlkPtr,
    pub(super) level: u8,
    pub(super) id: u64,
}

impl SetSync<'_> {
    /// Kills the subtrees level by level, so that one large file is as parallel as many.
    ///
    /// An indirect block that cannot be read leaks what is below it: a damaged file can still be
    /// removed, and the set's list of leaks says what it cost.
    pub(super) fn kill_all(&self, jobs: &[Job], roots: Vec<Doomed>) -> Result<()> {
        let mut wave = roots;
        while !wave.is_empty() {
            let next = Mutex::new(Vec::new());
            let mut chunks: Vec<_> = wave.chunks(CHUNK).collect();
            self.for_each(&mut chunks, |chunk| {
                let mut below = Vec::new();
                for d in chunk.iter() {
                    self.kill_one(jobs, d, &mut below);
                }
                if !below.is_empty() {
                    next.lock().append(&mut below);
                }
                Ok(())
            })?;
            wave = next.into_inner();
        }
        Ok(())
    }

    /// Kills a pointer and what its block points to at level 0; what is higher goes to `below`.
    fn kill_one(&self, jobs: &[Job], d: &Doomed, below: &mut Vec<Doomed>) {
        if d.level > 0 {
            match self.read_doomed(d) {
                Ok(block) => self.kill_children(jobs, d, &block, below),
                Err(e) => self.live.leaked.lock().push(e),
            }
        }
        self.kill_pointer(jobs, d.job, &d.bp);
    }

    fn read_doomed(&self, d: &Doomed) -> Result<std::sync::Arc<Block>> {
        if d.bp.level() != d.level {
            let rule = "a pointer has another level than its place";
            return Err(self.set.error(d.object, ErrorKind::Tree(rule)));
        }
        self.read(&d.bp, self.place(d.object, d.level, d.id))
    }

    fn kill_children(&self, jobs: &[Job], d: &Doomed, block: &Block, below: &mut Vec<Doomed>) {
        let fanout = (block.len() / BLKPTR_SIZE) as u64;
        for (slot, bytes) in (0..).zip(block.chunks_exact(BLKPTR_SIZE)) {
            let Ok(bp) = BlkPtr::decode(bytes, block.endian()) else { continue };
            if bp.is_hole() {
                continue;
            }
            if d.level == 1 {
                self.kill_pointer(jobs, d.job, &bp);
                continue;
            }
            let id = d.id.wrapping_mul(fanout).wrapping_add(slot);
            below.push(Doomed { bp, level: d.level - 1, id, ..*d });
        }
    }

    fn kill_pointer(&self, jobs: &[Job], job: Option<usize>, bp: &BlkPtr) {
        if let Some(job) = job.and_then(|j| jobs.get(j)) {
            let size = self.cx.owner.dsize(bp).cast_signed();
            job.used.fetch_sub(size, Ordering::Relaxed);
        }
        self.cx.owner.kill(bp);
    }
}
