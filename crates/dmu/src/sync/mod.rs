//! Writing a txg's changes.
//!
//! ```text
//! take     what every dirty object has changed; its version stays for readers
//! prune    freed ranges become holes, what was below them is killed
//! load     the indirect blocks above changed blocks, from the top down
//! write    level 0 of all objects in one parallel job, then each level above
//! dnodes   the same once more, with the dnodes as data of the meta dnode
//! header
//! ```
//!
//! Each step is parallel over all objects, so one large file and a thousand small ones cost the
//! same. Nothing here copies data blocks; indirect blocks are copied once, to be changed.

mod account;
mod dnodes;
mod kill;
mod recount;
mod tree;

use crate::error::{Error, ErrorKind, Result};
use crate::objset::Objset;
use crate::shape::{hole, spill_place};
use crate::traverse::tops;
use crate::versions::policy::SetPolicy;
use crate::versions::set::{Base, FIRST_SPECIAL, LiveSet};
use crate::versions::spec::SyncContext;
use crate::versions::state::{Content, LiveObject, ObjectChanges};
use device::AlignedBuf;
use kill::Subtree;
use ondisk::dnode::{FLAG_SPILL, FLAG_USED_BYTES};
use ondisk::objset::{FLAG_USERACCOUNTING_COMPLETE, ZilHeader};
use ondisk::{BlkPtr, DmuType, Dnode, Endian, ObjsetPhys};
use recount::Piece;
use rt::Rt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tree::Tree;
use zio::profile::{Profiler, ThreadKind};
use zio::{Block, Place, WriteSpec};

/// Level-0 blocks that a worker takes at a time.
const CHUNK: usize = 4;

/// The data shared by the steps.
struct SetSync<'a> {
    cx: &'a SyncContext<'a>,
    set: &'a Objset,
    live: &'a LiveSet,
    policy: Arc<SetPolicy>,
    /// Of the set as it will be.
    header_size: usize,
}

/// The sync of one object.
struct Job {
    object: Arc<LiveObject>,
    /// Dnode and tree before.
    before: Option<Arc<Dnode>>,
    taken: ObjectChanges,
    tree: Option<Tree>,
    /// Change of the space used.
    used: AtomicI64,
    /// The result; `None`: the object is gone.
    after: Option<Arc<Dnode>>,
}

/// A level-0 block to be written.
struct Write {
    job: usize,
    /// Block number, or [`Place::BLKID_SPILL`].
    blkid: u64,
    content: Content,
    fill: u64,
    old: BlkPtr,
}

impl Objset {
    /// Writes the changes of a txg: of what was changed since the last call with the same txg.
    /// Returns the new pointer to the header, or `None` when there was nothing to write.
    ///
    /// # Errors
    /// A block that must be read first is lost, or there is no space. The set must not be synced
    /// or changed after that: its trees and those of the owner may differ.
    pub fn sync(&self, cx: &SyncContext<'_>) -> Result<Option<BlkPtr>> {
        let live = self.inner.live.as_deref().filter(|live| !live.scratch);
        let Some(live) = live else { return Err(self.error(0, ErrorKind::ReadOnly)) };
        let header_size = live.header_size(live.newest().phys.size);
        let sync = SetSync { cx, set: self, live, policy: live.policy(), header_size };
        sync.run()
    }
}

impl SetSync<'_> {
    fn run(&self) -> Result<Option<BlkPtr>> {
        let Some(dirty) = self.live.dirty.lock().remove(&self.cx.txg) else { return Ok(None) };
        let base = self.live.newest();
        let piece = self.next_piece(&dirty, &base);
        let writes = piece.as_ref().is_some_and(Piece::writes);
        if dirty.objects.is_empty() && dirty.zil.is_none() && !writes {
            self.count_piece(&[], piece)?;
            return Ok(None);
        }
        let mut phys = self.header(&base, dirty.zil);
        let touched = piece.iter().flat_map(|piece| piece.touched.iter().cloned());
        let mut jobs = self.jobs(dirty.objects.into_values().chain(touched).collect());
        self.write_trees(&mut jobs)?;
        match self.count_piece(&jobs, piece)? {
            None => self.account(&jobs)?,
            Some(counted) => self.settle_recount(&mut phys, counted)?,
        }
        // The accounting has changed its tables in this same txg.
        let tables = self.live.dirty.lock().remove(&self.cx.txg).unwrap_or_default();
        let mut tables = self.jobs(tables.objects.into_values().collect());
        self.write_trees(&mut tables)?;
        jobs.extend(tables);
        self.write_dnodes(&mut phys, &jobs)?;
        for job in &jobs {
            let slot = match job.object.number().wrapping_neg() {
                1 => &mut phys.user_used,
                2 => &mut phys.group_used,
                3 => &mut phys.project_used,
                _ => continue,
            };
            *slot = job.after.as_deref().cloned();
        }
        let root = self.write_header(&phys, &base.root)?;
        let mut pass = self.live.pass.lock();
        pass.base = Some(Arc::new(Base { root, phys: Arc::new(phys) }));
        for job in jobs {
            job.object.lock().pass = Some(job.after);
            pass.objects.insert(job.object.number(), job.object);
        }
        Ok(Some(root))
    }

    /// The header as it is to be, but for the dnodes in it.
    fn header(&self, base: &Base, zil: Option<ZilHeader>) -> ObjsetPhys {
        let mut phys = ObjsetPhys::clone(&base.phys);
        phys.zil = zil.unwrap_or(phys.zil);
        phys.size = self.header_size;
        // What is changed without being counted makes the tables wrong.
        if self.live.accounting.is_none() {
            phys.flags &= !FLAG_USERACCOUNTING_COMPLETE;
        }
        phys
    }

    /// Takes the changes out of the objects, in the order of their numbers.
    fn jobs(&self, mut objects: Vec<Arc<LiveObject>>) -> Vec<Job> {
        objects.sort_unstable_by_key(|o| o.number());
        let take = |object: Arc<LiveObject>| {
            let (before, taken) = {
                let mut state = object.lock();
                let before = state.pass.clone().unwrap_or_else(|| state.synced.clone());
                (before, state.version(self.cx.txg).take())
            };
            let used = AtomicI64::new(taken.mend.used);
            Job { object, before, taken, tree: None, used, after: None }
        };
        objects.into_iter().map(take).collect()
    }

    fn write_trees(&self, jobs: &mut [Job]) -> Result<()> {
        self.for_each(jobs, |job| self.prune(job))?;
        let to_free = self.to_free(jobs);
        self.kill_all(jobs, to_free)?;
        let mut writes = Vec::new();
        let mut spills = Vec::new();
        for (i, job) in jobs.iter_mut().enumerate() {
            let Some(tree) = &mut job.tree else { continue };
            tree.need(job.taken.blocks.iter().map(|(id, _)| *id));
            tree.need(job.taken.mend.above.iter().copied());
            let write =
                |blkid, content| Write { job: i, blkid, content, fill: 1, old: BlkPtr::HOLE };
            let blocks = std::mem::take(&mut job.taken.blocks);
            writes.extend(blocks.into_iter().map(|(id, content)| write(id, content)));
            if let Some(Some(block)) = &job.taken.spill {
                let content = Content::Block(Arc::clone(block));
                spills.push(write(Place::BLKID_SPILL, content));
            }
        }
        let first_spill = writes.len();
        writes.extend(spills);
        self.load(jobs)?;
        let written = self.write_level_0(jobs, &mut writes)?;
        for (w, bp) in writes[first_spill..].iter().zip(&written[first_spill..]) {
            if let Some(tree) = &mut jobs[w.job].tree {
                tree.dnode.spill = Some(*bp).filter(|bp| !bp.is_hole());
            }
        }
        let blocks = writes.iter().zip(&written).take(first_spill);
        let changes = blocks.map(|(w, bp)| tree::Change { job: w.job, id: w.blkid, bp: *bp });
        self.write_levels(jobs, changes.collect())?;
        for job in jobs {
            self.finish(job);
        }
        Ok(())
    }

    /// The tree of the object as it was, with the new attributes, the levels it will need, and
    /// without what was freed.
    fn prune(&self, job: &mut Job) -> Result<()> {
        let Some(attrs) = &job.taken.attrs else { return Ok(()) };
        let mut dnode = Dnode::clone(attrs);
        match job.before.as_ref().filter(|_| !job.taken.clear) {
            Some(before) => {
                dnode.levels = before.levels;
                dnode.blkptrs.clone_from(&before.blkptrs);
                dnode.spill = before.spill;
                dnode.used = before.used_bytes();
                dnode.flags = before.flags | FLAG_USED_BYTES;
            }
            None => {
                dnode.levels = 1;
                dnode.blkptrs.fill(BlkPtr::HOLE);
                dnode.spill = None;
                dnode.used = 0;
                dnode.flags = FLAG_USED_BYTES;
            }
        }
        let mut tree = Tree::new(job.object.number(), dnode);
        tree.grow(job.taken.levels.unwrap_or(1));
        for (start, end) in job.taken.holes.iter() {
            tree.punch(self, start, end)?;
        }
        job.tree = Some(tree);
        Ok(())
    }

    /// The pointers that prune and removed objects leave behind, with the job they belong to.
    fn to_free(&self, jobs: &mut [Job]) -> Vec<Subtree> {
        let mut out = Vec::new();
        for (i, job) in jobs.iter_mut().enumerate() {
            let number = job.object.number();
            if let Some(tree) = &mut job.tree {
                for (bp, level, id) in tree.to_free.drain(..) {
                    out.push(Subtree { bp, place: self.place(number, level, id), of: Some(i) });
                }
                let old = tree.dnode.spill.take_if(|_| job.taken.spill.is_some());
                if let Some(bp) = old {
                    out.push(Subtree { bp, place: spill_place(self.live.id, number), of: Some(i) });
                }
            }
            // The blocks of the new tree are counted from zero, so the old one's do not count.
            if let Some(before) = job.before.as_ref().filter(|_| job.taken.clear) {
                let tops = tops(self.live.id, number, before);
                out.extend(tops.map(|(place, bp)| Subtree { bp: *bp, place, of: None }));
            }
        }
        out.retain(|d| !d.bp.is_hole());
        out
    }

    fn write_level_0(&self, jobs: &[Job], writes: &mut [Write]) -> Result<Vec<BlkPtr>> {
        // A pointer of this same txg may leave its space to the new one; older ones never do.
        for w in writes.iter_mut().filter(|w| w.blkid != Place::BLKID_SPILL) {
            let tree = jobs[w.job].tree.as_ref();
            w.old = tree.map_or(BlkPtr::HOLE, |t| t.pointer(0, w.blkid));
        }
        let mut out = vec![BlkPtr::HOLE; writes.len()];
        let mut chunks: Vec<_> = writes.chunks(CHUNK).zip(out.chunks_mut(CHUNK)).collect();
        // A serial sync does this too; its workers are a kind of thread of their own.
        let serial = self.cx.workers == 1;
        let profiler = self.cx.writer.profiler().filter(|_| !serial);
        self.for_each_in(&mut chunks, profiler, |(writes, out)| {
            for (w, out) in writes.iter().zip(out.iter_mut()) {
                let Some(tree) = &jobs[w.job].tree else { continue };
                let block = match &w.content {
                    Content::Block(block) => block,
                    Content::Stored(bp) => {
                        *out = **bp;
                        continue;
                    }
                };
                let dnode = &tree.dnode;
                let is_spill = w.blkid == Place::BLKID_SPILL;
                let kind = if is_spill { dnode.bonus_kind } else { dnode.kind };
                let size = block.size();
                let mut spec = self.policy.spec(kind, 0, Some(dnode), size, self.cx.txg);
                spec.fill = w.fill;
                let place = match is_spill {
                    true => spill_place(self.live.id, tree.number),
                    false => self.place(tree.number, 0, w.blkid),
                };
                *out = self.write(block, spec, place, &w.old)?;
                if is_spill {
                    jobs[w.job].replaced(self, &BlkPtr::HOLE, out);
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Writes one block in the place of `old`.
    fn write(
        &self,
        block: &Arc<Block>,
        spec: WriteSpec<'_>,
        place: Place,
        old: &BlkPtr,
    ) -> Result<BlkPtr> {
        let protection = self.live.key.protection();
        let mut spec = WriteSpec { hold: self.cx.hold, protection, ..spec };
        // A block that was put here as it is may be in another tree too.
        let own = old.physical_birth() == self.cx.txg
            && old.logical_birth() == self.cx.txg
            && !old.is_hole()
            && !old.is_embedded();
        spec.reuse = own.then_some(*old);
        self.live.access(place.object)?;
        spec.keep = spec.level == 0 && self.set.store().note_replaced(old);
        let bp = self.cx.writer.write(block, &spec, place)?;
        if spec.keep {
            self.set.store().expect(&bp);
        }
        if bp.is_hole() {
            return Ok(self.hole(old, spec.kind, spec.level, block.len() as u64));
        }
        Ok(bp)
    }

    fn hole(&self, old: &BlkPtr, kind: DmuType, level: u8, size: u64) -> BlkPtr {
        match self.policy.hole_birth {
            true => hole(old, kind, level, size, self.cx.txg),
            false => BlkPtr::HOLE,
        }
    }

    fn finish(&self, job: &mut Job) {
        let Some(tree) = job.tree.take() else { return };
        let mut dnode = tree.dnode;
        dnode.used = dnode.used.saturating_add_signed(job.used.load(Ordering::Relaxed));
        dnode.flags &= !FLAG_SPILL;
        if dnode.spill.is_some() {
            dnode.flags |= FLAG_SPILL;
        }
        // Bytes that follow an encrypted bonus belong to it.
        if !self.live.is_sealed() {
            dnode.clear_tail();
        }
        if job.object.number() < FIRST_SPECIAL {
            dnode.flags |= self.accounting_flags();
        }
        job.after = Some(Arc::new(dnode));
    }

    fn write_header(&self, phys: &ObjsetPhys, old: &BlkPtr) -> Result<BlkPtr> {
        let bytes = AlignedBuf::copy_of(&phys.encode(Endian::Little));
        let size = bytes.len() as u64;
        let block = Arc::new(Block::new(bytes, Endian::Little));
        let mut spec = self.policy.spec(DmuType::OBJSET, 0, None, size, self.cx.txg);
        let meta = phys.meta_dnode.iter().flat_map(|d| &d.blkptrs);
        spec.fill = meta.filter(|bp| !bp.is_hole()).map(BlkPtr::fill).sum();
        let root = self.write(&block, spec, Place::objset(self.live.id), old)?;
        if !self.is_reused(old, &root) {
            self.swap(old, &root);
        }
        Ok(root)
    }

    /// Whether `new` took the space of `old` over, which must not be freed then.
    fn is_reused(&self, old: &BlkPtr, new: &BlkPtr) -> bool {
        let real = |bp: &BlkPtr| !bp.is_hole() && !bp.is_embedded();
        real(old)
            && real(new)
            && old.logical_birth() == self.cx.txg
            && old.dva(0).words() == new.dva(0).words()
    }

    /// Notifies the owner that `new` replaces `old`.
    fn swap(&self, old: &BlkPtr, new: &BlkPtr) {
        if !old.is_hole() {
            self.cx.owner.kill(old);
        }
        if !new.is_hole() {
            self.cx.owner.born(new);
        }
    }

    fn place(&self, object: u64, level: u8, blkid: u64) -> Place {
        Place { objset: self.live.id, object, level: level.cast_signed(), blkid }
    }

    /// Reads a block of the tree that is being changed: of an older txg, or of this one.
    fn read(&self, bp: &BlkPtr, place: Place) -> Result<Arc<Block>> {
        if let Some(block) = self.cx.writer.read_pending(bp) {
            return Ok(block);
        }
        Ok(self.set.store().read(bp, place, self.set.key())?)
    }

    /// Reads several at once.
    fn read_many(&self, blocks: &[(BlkPtr, Place)]) -> Vec<Result<Arc<Block>>> {
        let mut read: Vec<_> =
            blocks.iter().map(|(bp, _)| self.cx.writer.read_pending(bp).map(Ok)).collect();
        let left = read.iter().zip(blocks).filter(|(read, _)| read.is_none()).map(|(_, b)| *b);
        let left: Vec<_> = left.collect();
        let mut stored = self.set.store().read_many(&left, self.set.key()).into_iter();
        for slot in read.iter_mut().filter(|read| read.is_none()) {
            *slot = stored.next().map(|block| block.map_err(Error::from));
        }
        read.into_iter().flatten().collect()
    }

    /// Threads that work, the caller included.
    fn workers(&self, rt: &Rt) -> usize {
        match self.cx.workers {
            0 => rt.processors(),
            n => n,
        }
    }

    /// `work` on every item, by as many threads as there are, or here when that is one.
    fn for_each<T: Send>(
        &self,
        items: &mut [T],
        work: impl Fn(&mut T) -> Result<()> + Sync,
    ) -> Result<()> {
        if items.len() < 2 || self.cx.workers == 1 {
            return items.iter_mut().try_for_each(work);
        }
        let rt = self.set.inner.store.rt();
        rt.for_each_parallel(self.workers(&rt).min(items.len()), items, work)
    }

    /// The same, by threads that are counted as workers of the leaves.
    fn for_each_in<T: Send>(
        &self,
        items: &mut [T],
        profiler: Option<&Profiler>,
        work: impl Fn(&mut T) -> Result<()> + Sync,
    ) -> Result<()> {
        self.for_each(items, |item| {
            let _role = profiler.map(|p| p.role(ThreadKind::LeafSync));
            work(item)
        })
    }
}

impl Job {
    /// `new` replaces `old`: notifies the owner and adjusts the used space.
    fn replaced(&self, sync: &SetSync<'_>, old: &BlkPtr, new: &BlkPtr) {
        if sync.is_reused(old, new) {
            return;
        }
        sync.swap(old, new);
        let size = |bp: &BlkPtr| if bp.is_hole() { 0 } else { sync.cx.owner.dsize(bp) };
        let delta = size(new).cast_signed() - size(old).cast_signed();
        self.used.fetch_add(delta, Ordering::Relaxed);
    }
}
