//! Intent logs as far as they are the pool's: what others left is taken over, and an own one has
//! its blocks and its header from here (`log/backend.rs`); livelists.
//!
//! A log that holds something is replayed by the import (`log/replay.rs`). A dataset that was in
//! use often keeps the first block of an empty log, allocated ahead. It belongs to nothing but the
//! log's header, so it is freed, and the header emptied, before the dataset is changed or
//! destroyed. A snapshot has its head's log in its header as it was then; in a clone, or after a
//! rollback, that header is emptied and nothing is freed: the log was never theirs.
//!
//! A livelist names the blocks of a clone, so that destroying it is quick. It may be missing at any
//! time (OpenZFS drops it when a clone has little in common with its origin), so it is dropped
//! before a clone is changed, and the count of the feature goes down.

mod backend;
mod claimed;
mod given_up;
mod heads;
mod replay;

pub(super) use backend::LogBackend;
pub(super) use given_up::{CutLog, cut_logs, damaged_logs, missing_logs};
pub use given_up::{GivenUpLog, LogDevices};
pub(super) use replay::{Claim, claims, unclaimed_logs, why_not_replayed};

use super::LivePool;
use super::head::Head;
use super::shared::{Shared, TaskCx};
use crate::error::Result;
use crate::refusal::PoolRefusal;
use dmu::bpobj::Lists;
use dmu::{Objset, Tx};
use dsl::Dataset;
use dsl::write::{Blocks as _, finish_head};
use ondisk::dsl::dir_field;
use ondisk::zil::{Body, CHECKSUM_SEQ_WORD, Chain, ChainPlace, DecodeRecord, Record, records_by};
use ondisk::{BlkPtr, ObjsetKind, ZilHeader};
use std::sync::Arc;
use zio::{Allocate, Place};

/// An allocated block of a log.
struct AllocatedBlock {
    bp: BlkPtr,
    place: Place,
    /// The last of a chain is allocated ahead, and was never written.
    is_written: bool,
    /// A block of another file that a record clones: the log has a reference to it.
    is_cloned: bool,
}

/// Which blocks of a log are freed when its header is emptied.
#[derive(Clone, Copy)]
enum FreedBlocks {
    /// None: the log was never the head's own.
    None,
    /// All that are allocated.
    Own,
    /// The same of a log that no import has claimed, in a pool whose last durable txg was this one
    /// when the log was left.
    UpTo(u64),
}

/// A dataset was found under the name that its pool had, and the pool gets another one.
pub(super) fn rename_dataset(dataset: &mut String, from: &str, to: &str) {
    if let Some(below) = dataset.strip_prefix(from) {
        *dataset = format!("{to}{below}");
    }
}

/// The allocated blocks of a log: those that an import claimed, or, when none has, those that
/// were synced as allocated, up to txg `synced`. The last was never written, which ends the chain.
/// Claimed were also blocks of data that records name; of blocks that records clone it has one
/// reference each.
fn blocks(objset: &Objset, header: &ZilHeader, synced: u64) -> Vec<AllocatedBlock> {
    let claimed = header.claim_txg != 0;
    let mut out = Vec::new();
    let mut bp = header.log;
    while !bp.is_hole() && out.len() < zil::BLOCKS_MAX {
        let seq = bp.checksum()[CHECKSUM_SEQ_WORD];
        if if claimed { seq > header.claim_blk_seq } else { bp.logical_birth() > synced } {
            break;
        }
        let place = Place { objset: objset.id(), object: 0, level: Place::LEVEL_ZIL, blkid: seq };
        let at = ChainPlace::of(bp.checksum_kind());
        let (block, decode): (_, DecodeRecord) = match zil::is_locked(objset) {
            true => (objset.store().read_clear(&bp, place), Record::decode_clear),
            false => (objset.store().read(&bp, place, objset.key()), Record::decode),
        };
        let chain = at.zip(block.ok()).and_then(|(at, block)| {
            Some((Chain::decode(&block, at, block.endian()).ok()?, at, block))
        });
        out.push(AllocatedBlock { bp, place, is_written: chain.is_some(), is_cloned: false });
        let Some((chain, at, block)) = chain else { break };
        if claimed {
            let all = records_by(chain.records_in(&block, at), block.endian(), decode);
            let last = match header.flags & ZilHeader::FLAG_CLAIM_LR_SEQ_VALID {
                0 => u64::MAX,
                _ => header.claim_lr_seq,
            };
            let records = all.filter_map(|record| record.ok().filter(|r| r.seq <= last));
            for record in records {
                out.extend(claimed_data(&record, objset.id(), header.claim_txg));
                let (is_written, is_cloned) = (true, true);
                let cloned = |bp: &BlkPtr| AllocatedBlock { bp: *bp, place, is_written, is_cloned };
                out.extend(record.cloned().map(cloned));
            }
        }
        bp = chain.next;
    }
    out
}

/// The block of data that a record names, when it was claimed in txg `first`.
fn claimed_data(record: &Record, objset: u64, first: u64) -> Option<AllocatedBlock> {
    let bp = claimed_block(record, first)?;
    let Body::Write { object, offset, .. } = &record.body else { return None };
    let blkid = offset / bp.lsize().max(1);
    let place = Place { objset, object: *object, level: Place::LEVEL_ZIL, blkid };
    Some(AllocatedBlock { bp, place, is_written: true, is_cloned: false })
}

/// Whether an import has claimed the log of a head, and it has records that are not replayed. So
/// it is with encrypted datasets until their keys are loaded.
fn waits_for_replay(header: &ZilHeader) -> bool {
    let is_replayed = match header.flags & ZilHeader::FLAG_CLAIM_LR_SEQ_VALID {
        0 => false,
        _ => header.claim_lr_seq <= header.replay_seq,
    };
    header.claim_txg != 0 && header.flags & ZilHeader::FLAG_REPLAY_NEEDED != 0 && !is_replayed
}

/// The blocks of a claimed log that waits for its replay, as far as they can be found, each with
/// its place. Nothing but its header leads to them.
pub(in crate::live) fn claimed_blocks(objset: &Objset) -> Vec<(BlkPtr, Place)> {
    let header = objset.phys().zil;
    if !waits_for_replay(&header) {
        return Vec::new();
    }
    let all = blocks(objset, &header, header.claim_txg);
    all.into_iter().filter(|b| b.is_written).map(|b| (b.bp, b.place)).collect()
}

/// The block of data that a record names, when the import claimed it: it is in no txg before `txg`.
fn claimed_block(record: &Record, txg: u64) -> Option<BlkPtr> {
    let Body::Write { block, .. } = &record.body else { return None };
    let claimed = record.txg >= txg && !block.is_hole() && block.logical_birth() >= txg;
    (claimed && !block.is_embedded()).then_some(**block)
}

impl LivePool {
    /// Refuses what would lose a log that waits for its replay, as it ends all logs.
    pub(super) fn check_logs_replayed(&self) -> Result<()> {
        let _guard = self.shared.gate.read();
        let mut heads = heads::readable_heads(self.view());
        match heads.find(|(_, objset)| waits_for_replay(&objset.phys().zil)) {
            Some((dataset, _)) => Err(self.shared.refused(PoolRefusal::LogNotReplayed(dataset))),
            None => Ok(()),
        }
    }

    /// Does something while no log has anything on disk: what was promised is in the tree.
    ///
    /// # Errors
    /// A log waits for its replay, or cannot be ended; and those of `act`.
    pub(super) fn while_logs_are_empty<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_logs_replayed()?;
        let heads = self.shared.all_heads();
        let ended = heads.iter().try_for_each(|head| head.log.suspend());
        let result = match ended {
            Ok(()) => act(),
            Err(why) => Err(self.shared.failed("ending intent logs", why)),
        };
        heads.iter().for_each(|head| head.log.resume());
        result
    }
}

impl Shared {
    /// In a sync, before the object set of a dirty head is written: the header of its log, and what
    /// of the log is not needed any more when the txg is durable.
    pub(super) fn sync_log(&self, head: &Head, tx: &Tx) -> Result<()> {
        let Some(zil::Synced { header, free }) = head.log.sync(tx.txg()) else { return Ok(()) };
        if header != ZilHeader::default() || head.objset.phys().zil != header {
            head.objset.set_zil(tx, &header).map_err(|e| self.failed("writing a log", e))?;
        }
        for bp in free {
            // Also one of this very txg: until it is durable, a chain leads through it.
            self.alloc.free(&bp, tx.txg());
        }
        Ok(())
    }
}

impl TaskCx<'_> {
    /// Makes a head ready to be changed or destroyed: its log is emptied, its livelist dropped.
    pub(super) fn take_over(&self, dataset: &Dataset) -> Result<()> {
        self.empty_log(dataset, true)?;
        self.drop_livelist(dataset)
    }

    /// Drops the livelist of a clone. The blocks that it names are not touched.
    pub(super) fn drop_livelist(&self, dataset: &Dataset) -> Result<()> {
        let mos = self.objects();
        let dir = self.datasets().dir(dataset.phys.dir, String::new())?;
        let fields = self.datasets().fields(dir.object, dir.has_fields)?;
        let Some(fields) = fields else { return Ok(()) };
        let Some(list) = fields.get_u64(dir_field::LIVELIST)? else { return Ok(()) };
        let dsize = |bp: &BlkPtr| self.shared.alloc.dsize(bp);
        dmu::deadlist::free(&Lists::new(mos, self.tx, &dsize)?, list)?;
        let key = dir_field::LIVELIST.as_bytes();
        dmu::zap::remove(&mos.object(dir.object)?, self.tx, key)?;
        Ok(self.shared.features.add(self.tx, "com.delphix:livelist", -1)?)
    }

    /// Whether [`Self::empty_log`] can be done to a dataset, or to a head made of it: what is asked
    /// before a task changes anything.
    pub(super) fn check_log(&self, dataset: &Dataset) -> Result<()> {
        if dataset.phys.bp.is_hole() || dataset.phys.bp.logical_birth() < self.tx.txg() {
            return Ok(());
        }
        if self.datasets().objset(dataset)?.phys().zil == ZilHeader::default() {
            return Ok(());
        }
        // A snapshot of this very txg may have this header block too, and writing the header again
        // in the same txg would use its place again.
        Err(self.shared.refused(PoolRefusal::ChangedInTxg(dataset.name.clone())))
    }

    /// Empties the log in the header of a head's object set. `free`: it is the head's own, and its
    /// blocks are freed.
    pub(super) fn empty_log(&self, dataset: &Dataset, free: bool) -> Result<()> {
        self.end_log(dataset, if free { FreedBlocks::Own } else { FreedBlocks::None })
    }

    /// Empties the log of a head in a pool that went back: what was written behind txg `last`, that
    /// of the checkpoint, is free already.
    pub(super) fn drop_log(&self, dataset: &Dataset, last: u64) -> Result<()> {
        self.end_log(dataset, FreedBlocks::UpTo(last))
    }

    /// Empties a log, and frees blocks of it.
    fn end_log(&self, dataset: &Dataset, freed: FreedBlocks) -> Result<()> {
        if dataset.phys.bp.is_hole() {
            return Ok(());
        }
        let objset = self.datasets().objset(dataset)?;
        let header = objset.phys().zil;
        if header == ZilHeader::default() {
            return Ok(());
        }
        let open = self.shared.heads.read().get(&dataset.object).cloned();
        let is_freed = !matches!(freed, FreedBlocks::None);
        if open.as_ref().is_some_and(|head| is_freed && !head.log.is_foreign()) {
            return Ok(());
        }
        self.check_log(dataset)?;
        self.touch();
        let synced = match freed {
            FreedBlocks::None => None,
            // An import leaves a log unclaimed if its first block, of a durable txg, cannot be read
            // (`log/replay.rs`). Should a device bring it back, what is behind it was not claimed.
            FreedBlocks::Own => Some(header.log.logical_birth()),
            FreedBlocks::UpTo(last) => Some(last),
        };
        if let Some(synced) = synced {
            self.free_log_blocks(&blocks(&objset, &header, synced));
        }
        self.write_log_header(dataset, &objset, &ZilHeader::default())?;
        if let Some(head) = open {
            head.log.taken_over();
        }
        Ok(())
    }

    /// Frees blocks that another process has written. Its txgs came to no end, so a block may say
    /// that it is of the txg that frees it now, and yet is not new: the chain leads there until
    /// that txg is durable.
    fn free_log_blocks(&self, blocks: &[AllocatedBlock]) {
        for AllocatedBlock { bp, is_cloned, .. } in blocks {
            match is_cloned {
                true => self.shared.blocks.free(bp),
                false => self.shared.writer.free_logged(bp, self.tx.txg()),
            }
        }
    }

    /// Writes the header of a head that is open, though nothing in its object set has changed.
    pub(super) fn write_header(&self, dataset: &Dataset, objset: &Objset) -> Result<()> {
        self.write_log_header(dataset, objset, &ZilHeader::default())
    }

    /// Writes another header for the log of a head, whose object set nothing else changes in this
    /// txg.
    fn write_log_header(
        &self,
        dataset: &Dataset,
        objset: &Objset,
        header: &ZilHeader,
    ) -> Result<()> {
        let open = self.shared.heads.read().get(&dataset.object).cloned();
        let head = match open {
            Some(head) => head,
            None => {
                let stored = self.datasets().stored(dataset)?;
                let kind: ObjsetKind = objset.phys().kind;
                let root = Some(dataset.phys.bp);
                let set = (kind, self.datasets().set_key(dataset)?);
                Arc::new(self.shared.live(dataset.object, root, set, &stored)?)
            }
        };
        head.objset.set_zil(self.tx, header)?;
        head.objset.freeze(self.tx.txg());
        let account = self.shared.account(self, dataset.object)?;
        let root = self.shared.sync_objset(&head, self.tx.txg(), &account)?;
        Ok(finish_head(&self.dsl(), &account, root.as_ref(), &[])?)
    }
}
