//! The pieces of a recount (`live/recount.rs`).

use super::account::read_table;
use super::{Job, SetSync, spill_place};
use crate::error::{Error, ErrorKind, Result};
use crate::object::Object;
use crate::shape::is_tree;
use crate::traverse::content::Slots;
use crate::tx::Tx;
use crate::versions::counts::Tables;
use crate::versions::set::{Base, Dirty, FIRST_SPECIAL, OBJECTS_MAX, SLOTS_PER_BLOCK};
use crate::versions::state::LiveObject;
use ondisk::dnode::{FLAG_USEROBJUSED_ACCOUNTED, FLAG_USERUSED_ACCOUNTED};
use ondisk::objset::{FLAG_PROJECTQUOTA_COMPLETE, FLAG_USERACCOUNTING_COMPLETE};
use ondisk::{BlkPtr, Dnode, ObjsetPhys};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zio::{Block, Place};

/// The flags of a dnode that say that it was counted.
const ACCOUNTED: u8 = FLAG_USERUSED_ACCOUNTED | FLAG_USEROBJUSED_ACCOUNTED;

/// What one sync adds to a recount.
#[derive(Default)]
pub(super) struct Piece {
    /// The first object behind it.
    end: u64,
    /// It is the last one.
    is_last: bool,
    /// Counts of the objects in it that the sync does not write.
    counted: Tables,
    /// Objects in it whose dnodes are to get their flags.
    pub(super) touched: Vec<Arc<LiveObject>>,
}

impl Piece {
    /// Whether the sync has something to write for it.
    pub(super) fn writes(&self) -> bool {
        self.is_last || !self.touched.is_empty()
    }
}

impl SetSync<'_> {
    /// Reads the piece that this sync is to count. `None`: none.
    pub(super) fn next_piece(&self, dirty: &Dirty, base: &Arc<Base>) -> Option<Piece> {
        // The tree of an earlier pass of the same txg is not that of the objects in memory.
        let is_first = self.live.pass.lock().base.is_none();
        let from = self.live.recounting.state.lock().as_ref()?.next;
        if dirty.recount == 0 || !is_first {
            return None;
        }
        match self.read_piece(dirty, base, from) {
            Ok(piece) => Some(piece),
            Err(_) => {
                self.live.recounting.is_given_up.store(true, Ordering::Relaxed);
                *self.live.recounting.state.lock() = None;
                None
            }
        }
    }

    fn read_piece(&self, dirty: &Dirty, base: &Arc<Base>, from: u64) -> Result<Piece> {
        let mut piece = Piece { end: OBJECTS_MAX, is_last: true, ..Piece::default() };
        let Some(meta) = base.phys.meta_dnode.clone() else { return Ok(piece) };
        let meta = Object::new(self.set.clone(), 0, Arc::new(meta));
        let (mut next, mut blocks) = (from / SLOTS_PER_BLOCK, Vec::new());
        while let Some(id) = meta.next_block(next).map_err(|(e, _)| e)? {
            if blocks.len() == dirty.recount {
                (piece.end, piece.is_last) = (next * SLOTS_PER_BLOCK, false);
                break;
            }
            let bp = meta.block_pointer(0, id)?.unwrap_or(BlkPtr::HOLE);
            blocks.push((bp, self.place(0, 0, id)));
            next = id + 1;
        }
        for ((_, place), block) in blocks.iter().zip(self.read_many(&blocks)) {
            self.read_dnodes(dirty, base, &mut piece, (place.blkid, &*block?))?;
        }
        Ok(piece)
    }

    /// Counts the dnodes of one block that the sync leaves as they are.
    fn read_dnodes(
        &self,
        dirty: &Dirty,
        base: &Arc<Base>,
        piece: &mut Piece,
        (blkid, block): (u64, &Block),
    ) -> Result<()> {
        let mut dnodes = Vec::new();
        for (slot, dnode) in Slots::new(block) {
            let number = blkid * SLOTS_PER_BLOCK + slot as u64;
            let place = self.place(0, 0, blkid);
            let dnode =
                dnode.map_err(|error| self.wrong(number, ErrorKind::Format { place, error }))?;
            if number != 0 && !dirty.objects.contains_key(&number) {
                dnodes.push((number, Arc::new(dnode)));
            }
        }
        for ((number, dnode), spill) in dnodes.iter().zip(self.read_spills(&dnodes)?) {
            if dnode.flags & ACCOUNTED == self.accounting_flags() {
                self.recount(&mut piece.counted, dnode, spill.as_deref(), 1);
                continue;
            }
            let object = self.live.adopt(*number, base, Some(Arc::clone(dnode)));
            let strange = || self.wrong(*number, ErrorKind::Tree("its blocks stand in no tree"));
            piece.touched.push(object.filter(|_| is_tree(dnode)).ok_or_else(strange)?);
        }
        Ok(())
    }

    fn wrong(&self, number: u64, kind: ErrorKind) -> Error {
        self.set.error(number, kind)
    }

    fn read_spills(&self, dnodes: &[(u64, Arc<Dnode>)]) -> Result<Vec<Option<Arc<Block>>>> {
        let spill = |(number, dnode): &(u64, Arc<Dnode>)| {
            let bp = dnode.spill.filter(|bp| !bp.is_hole())?;
            Some((bp, spill_place(self.live.id, *number)))
        };
        let wanted: Vec<Option<(BlkPtr, Place)>> = dnodes.iter().map(spill).collect();
        let present: Vec<_> = wanted.iter().flatten().copied().collect();
        let mut read = self.read_many(&present).into_iter();
        wanted.iter().map(|wanted| wanted.and_then(|_| read.next()).transpose()).collect()
    }

    /// Brings a recount up to date with the jobs and the piece. Returns what was counted when that
    /// is all.
    pub(super) fn count_piece(&self, jobs: &[Job], piece: Option<Piece>) -> Result<Option<Tables>> {
        let Some(begin) = self.live.recounting.state.lock().as_ref().map(|r| r.next) else {
            return Ok(None);
        };
        let end = piece.as_ref().map_or(begin, |piece| piece.end);
        let mut changes = Tables::default();
        for job in jobs.iter().filter(|j| j.object.number() < FIRST_SPECIAL) {
            let number = job.object.number();
            if let Some(before) = job.before.as_ref().filter(|_| number < begin) {
                let spill = self.spill_of(job, before, None)?;
                self.recount(&mut changes, before, spill.as_deref(), -1);
            }
            if let Some(after) = job.after.as_ref().filter(|_| number < end) {
                let spill = self.spill_of(job, after, job.taken.spill.clone())?;
                self.recount(&mut changes, after, spill.as_deref(), 1);
            }
        }
        let mut state = self.live.recounting.state.lock();
        let Some(recount) = &mut *state else { return Ok(None) };
        recount.next = end;
        recount.counted.add(&changes);
        let Some(piece) = piece else { return Ok(None) };
        recount.counted.add(&piece.counted);
        Ok(if piece.is_last { state.take().map(|done| done.counted) } else { None })
    }

    /// Counts a dnode, whatever its flags say.
    fn recount(&self, tables: &mut Tables, dnode: &Dnode, spill: Option<&Block>, sign: i64) {
        let counts_objects = self.live.accounting.as_ref().is_some_and(|a| a.objects());
        let objects = if counts_objects { sign } else { 0 };
        self.add_owner(tables, (dnode, spill), (sign, objects));
    }

    /// Makes the tables what was counted, and the header say so.
    pub(super) fn settle_recount(&self, phys: &mut ObjsetPhys, mut counted: Tables) -> Result<()> {
        let tx = Tx::syncing(self.cx.txg);
        let of_users = phys.flags & FLAG_USERACCOUNTING_COMPLETE != 0;
        let of_projects = of_users && phys.flags & FLAG_PROJECTQUOTA_COMPLETE != 0;
        let are_right = [of_users, of_users, of_projects];
        let numbers = (1u64..).map(u64::wrapping_neg);
        for ((number, deltas), is_right) in numbers.zip(&mut counted.0).zip(are_right) {
            let table = match self.set.object(number) {
                Ok(table) => table,
                Err(e) if e.is_absent() => continue,
                Err(e) => return Err(e),
            };
            // One that is right is changed where it differs, because it may be in use.
            let stored = read_table(&table).ok().filter(|_| is_right);
            if stored.is_none() {
                self.set.free(&tx, number)?;
            }
            for (id, (bytes, objects)) in stored.into_iter().flatten() {
                let delta = deltas.entry(id).or_default();
                *delta = (delta.0.wrapping_sub(bytes), delta.1.wrapping_sub(objects));
            }
        }
        self.change_tables(&counted)?;
        phys.flags |= self.live.complete_flags();
        Ok(())
    }
}
