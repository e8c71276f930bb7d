//! Bad copies that readers met are written anew from what is right.
//!
//! # Theory
//!
//! A reader that finds wrong bytes, or an error, and has the block from another device, another
//! copy or by parity, goes on with it and keeps the pointer (`faults.rs`). A thread looks at these
//! blocks once more, reads all there is of each, and writes what is wrong on a device that can be
//! written to, as a scrub does (`vdev::heal`). So no reader waits for a repair, and a repair is
//! right by what it has read itself, not by what was read some time ago.
//!
//! ```text
//! reader   bad copy met -> pointer kept, 1024 at most
//! thread   with the gate: does the durable tree have this very pointer at its place?  no: left
//!                         what is freed from now on is held
//!          without it:    read all copies, write what is wrong
//!                         let go of what is held
//! ```
//!
//! **The space must be the block's still.** A reader may be behind: what it read may have been
//! freed, and written to by another block, before it came to an end, and then the other block is
//! the "bad copy". So nothing is taken from the reader but the question. The answer is in the tree
//! of the last durable txg: when its place has the same pointer, addresses and births included, the
//! block is allocated in that txg. While the gate is held no later txg becomes durable, so a txg
//! that frees it is one whose sync is not done, and what is freed in it waits for two more
//! (`alloc`). From there on [`HeldFrees`] has all of that wait until the devices have answered,
//! however long they take, and however many txgs go by. What is looked at is not what is being
//! written either: places that the syncing txg wrote are in no durable tree.
//!
//! The lookup costs no more than the few blocks above, which the reader has just read. It needs no
//! key, for all pointers can be read without one.
//!
//! **Nothing waits for a repair** but the end of the pool, and a pool that is split off, whose
//! space is its own from then on. A leaf that hangs is ended by its guard (`vdev::guard`), and
//! until then holds up other repairs and the reuse of what was freed meanwhile; readers, writers
//! and txgs go on. One that is detached meanwhile stays open, and locked, until it has answered.
//! What comes when 1024 wait is counted and left to the next reader or scrub.
//!
//! **What is not repaired.** No thread looks at what a pool has kept that is open for reading. An
//! import also repairs what it met while it looked at the pool, but nothing is written
//! before the first txg of an import is durable: until then the pool may go back to another state,
//! whose blocks may be where ours are. Leaves that are away, or do not answer, have nothing to be
//! repaired; what was missed is a resilver's. But where a block is looked at because a copy was
//! bad, what another leaf missed of it is written as well, as OpenZFS does. Blocks of intent logs
//! are in no tree, and gone soon.
//!
//! **What is counted.** The reader has counted the error. Devices count what the repair meets
//! besides, and a write that fails as any other: the leaf has missed the block then, and a resilver
//! brings it. A crash in the middle leaves a bad copy or a good one.

use super::LivePool;
use super::scan::dataset;
use super::shared::Shared;
use crate::alloc::HeldFrees;
use crate::faults::{BadBlock, ReadRepairs};
use dmu::{BlockStore, Objset, Place, SealedStore};
use ondisk::BlkPtr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vdev::Heal;

/// Blocks that are repaired together, and bytes of them: all are in memory at the same time.
const BATCH_BLOCKS: usize = 64;
const BATCH_BYTES: u64 = 16 << 20;

impl Shared {
    /// A txg is durable: what was met before is repaired from now on.
    pub(super) fn begin_repairs(&self) {
        if !self.repairs.may_begin.swap(true, Ordering::AcqRel) {
            self.want_repairs();
        }
    }

    /// Has a thread repair what is to be repaired.
    pub(super) fn want_repairs(&self) {
        if !self.repairs.may_begin.load(Ordering::Acquire) || !self.block_faults.has_bad() {
            return;
        }
        let mut state = self.repairs.state.lock();
        let Some(me) = self.me.upgrade().filter(|_| !state.is_running && !state.is_closed) else {
            return;
        };
        // Without a thread it is left to the next reader that meets something.
        if let Ok(task) = self.rt.spawn("read_repair", move || me.repair_all()) {
            (state.task, state.is_running) = (Some(task), true);
        }
    }

    fn repair_all(&self) {
        loop {
            let batch = {
                let mut state = self.repairs.state.lock();
                let batch = match self.txgs.why_stopped() {
                    None => self.block_faults.take_bad(BATCH_BLOCKS, BATCH_BYTES),
                    Some(_) => Vec::new(),
                };
                if batch.is_empty() {
                    state.is_running = false;
                    self.repairs.changed.notify_all();
                    return;
                }
                state.begun += 1;
                batch
            };
            let done = self.repair(batch);
            self.block_faults.note_repairs(done);
            self.repairs.state.lock().over += 1;
            self.repairs.changed.notify_all();
        }
    }

    fn repair(&self, batch: Vec<BadBlock>) -> ReadRepairs {
        let mut done = ReadRepairs::default();
        let all = batch.len();
        let (sure, held) = self.sure_of(batch);
        done.passed_over = (all - sure.len()) as u64;
        let blocks: Vec<(BlkPtr, Place)> = sure.iter().map(|bad| (bad.bp, bad.place)).collect();
        let mended = self.reader.heal_many(&blocks, Heal::Met);
        drop(held);
        let tree = self.reader.vdevs();
        for (bad, mended) in sure.iter().zip(mended) {
            let is_new = |f: &&vdev::Fault| !bad.met.contains(&(f.guid, f.offset));
            mended.faults.iter().filter(is_new).for_each(|fault| tree.count_fault(fault));
            done.bytes += mended.repaired;
            match mended.lost.is_none() && mended.refused.is_empty() {
                true => done.blocks += 1,
                false => done.refused += 1,
            }
        }
        done
    }

    /// Those of the blocks that are where their pointers say for certain, and as long as the second
    /// result lives.
    fn sure_of(&self, batch: Vec<BadBlock>) -> (Vec<BadBlock>, HeldFrees) {
        let _gate = self.gate.read();
        let store = Arc::new(SealedStore::new(Arc::clone(&self.store) as _)) as Arc<dyn BlockStore>;
        let root = self.uberblock.lock().rootbp;
        let mos = Objset::open(Arc::clone(&store), 0, &root, None);
        let is_there = |bad: &BadBlock| {
            let mos = mos.as_ref().ok()?;
            let found = match bad.place.objset {
                0 => pointer_at(mos, bad.place),
                number => {
                    let bp = dataset(mos, number)?.bp;
                    let set = Objset::open(Arc::clone(&store), number, &bp, None).ok()?;
                    pointer_at(&set, bad.place)
                }
            };
            Some(found? == bad.bp)
        };
        let sure = batch.into_iter().filter(|bad| is_there(bad) == Some(true)).collect();
        (sure, self.alloc.hold_frees())
    }

    /// Waits for repairs that are under way; none of them began after this call.
    pub(super) fn wait_for_begun_repairs(&self) {
        let mut state = self.repairs.state.lock();
        let begun = state.begun;
        self.repairs.changed.wait_while(&mut state, |state| state.over < begun);
    }

    /// What was met is repaired, and no more is taken.
    pub(super) fn end_repairs(&self) {
        self.want_repairs();
        let task = {
            let mut state = self.repairs.state.lock();
            state.is_closed = true;
            state.task.take()
        };
        if let Some(task) = task {
            // Its panic was reported where it happened.
            let _ = task.join();
        }
        self.block_faults.forget_bad();
    }
}

/// The pointer that the tree has at a place.
fn pointer_at(set: &Objset, place: Place) -> Option<BlkPtr> {
    if place.level == Place::LEVEL_OBJSET {
        return Some(set.root());
    }
    let object = match place.object {
        0 => set.meta_object()?,
        number => {
            let [user, group, project] = set.accounting_objects();
            let accounting = [user, group, project].into_iter().flatten();
            let known = accounting.into_iter().find(|object| object.number() == number);
            known.or_else(|| set.object(number).ok())?
        }
    };
    match place.blkid {
        Place::BLKID_SPILL => object.dnode().spill,
        blkid => object.block_pointer(u8::try_from(place.level).ok()?, blkid).ok()?,
    }
}

impl LivePool {
    /// Waits until nothing that readers met is left to be repaired.
    pub fn wait_for_read_repairs(&self) {
        let shared = &self.shared;
        shared.want_repairs();
        let mut state = shared.repairs.state.lock();
        shared.repairs.changed.wait_while(&mut state, |state| state.is_running);
    }
}
