//! What others left behind and this engine does not keep up: intent logs and livelists.
//!
//! This engine writes none yet, and opens no pool for writing whose logs hold something to replay.
//! But a dataset that was in use often keeps the first block of an empty log, allocated ahead. It
//! belongs to nothing but the log's header, so it is freed, and the header emptied, before the
//! dataset is changed or destroyed. A snapshot has its head's log in its header as it was then; in
//! a clone, or after a rollback, that header is emptied and nothing is freed: the log was never
//! theirs.
//!
//! A livelist names the blocks of a clone, so that destroying it is quick. It may be missing at any
//! time (OpenZFS drops it when a clone has little in common with its origin), so it is dropped
//! before a clone is changed, and the count of the feature goes down.

use super::shared::TaskCx;
use crate::error::{Error, Result};
use dmu::Objset;
use dmu::bpobj::Lists;
use dsl::Dataset;
use dsl::write::finish_head;
use ondisk::dsl::dir_field;
use ondisk::zil::{CHECKSUM_SEQ_WORD, Chain, ChainPlace};
use ondisk::{BlkPtr, ObjsetKind, ZilHeader};
use std::sync::Arc;
use zio::Place;

/// Records of a dataset's log that a replay would apply to a pool synced up to `synced`.
pub(super) fn has_pending(objset: &Objset, synced: u64) -> bool {
    !objset.phys().zil.log.is_hole() && zil::Log::read(objset).pending(synced).next().is_some()
}

/// The allocated blocks of a log: those that an import claimed, or, when none has, those that
/// were synced as allocated. The last was never written, which ends the chain.
fn blocks(objset: &Objset, header: &ZilHeader, synced: u64) -> Vec<BlkPtr> {
    let claimed = header.claim_txg != 0;
    let mut out = Vec::new();
    let mut bp = header.log;
    while !bp.is_hole() && out.len() < zil::BLOCKS_MAX {
        let seq = bp.checksum()[CHECKSUM_SEQ_WORD];
        if if claimed { seq > header.claim_blk_seq } else { bp.logical_birth() > synced } {
            break;
        }
        out.push(bp);
        let place = Place { objset: objset.id(), object: 0, level: Place::LEVEL_ZIL, blkid: seq };
        let Some(at) = ChainPlace::of(bp.checksum_kind()) else { break };
        let Ok(block) = objset.store().read(&bp, place, objset.key()) else { break };
        let Ok(chain) = Chain::decode(&block, at, block.endian()) else { break };
        bp = chain.next;
    }
    out
}

impl TaskCx<'_> {
    /// Makes a head ready to be changed or destroyed: its log is emptied, its livelist dropped.
    pub(super) fn take_over(&self, dataset: &Dataset) -> Result<()> {
        self.empty_log(dataset, true)?;
        self.drop_livelist(dataset)
    }

    /// Drops the livelist of a clone. The blocks that it names are not touched.
    pub(super) fn drop_livelist(&self, dataset: &Dataset) -> Result<()> {
        let mos = &self.shared.mos;
        let dir = self.shared.dsl.dir(dataset.phys.dir, String::new())?;
        let fields = self.shared.dsl.fields(dir.object, dir.has_fields)?;
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
        if self.shared.dsl.objset(dataset)?.phys().zil == ZilHeader::default() {
            return Ok(());
        }
        // A snapshot of this very txg may have this header block too, and writing the header again
        // in the same txg would use its place again.
        let what = format!("{} changed in this very moment: try again", dataset.name);
        Err(Error::Invalid { what })
    }

    /// Empties the log in the header of a head's object set. `free`: it is the head's own, and its
    /// blocks are freed.
    pub(super) fn empty_log(&self, dataset: &Dataset, free: bool) -> Result<()> {
        if dataset.phys.bp.is_hole() {
            return Ok(());
        }
        let objset = self.shared.dsl.objset(dataset)?;
        let header = objset.phys().zil;
        if header == ZilHeader::default() {
            return Ok(());
        }
        self.check_log(dataset)?;
        self.touch();
        if free {
            for bp in blocks(&objset, &header, self.tx.txg() - 1) {
                self.shared.writer.free(&bp, self.tx.txg());
            }
        }
        let open = self.shared.heads.read().get(&dataset.object).cloned();
        let head = match open {
            Some(head) => head,
            None => {
                let stored = self.shared.dsl.stored(dataset)?;
                let kind: ObjsetKind = objset.phys().kind;
                let root = Some(dataset.phys.bp);
                Arc::new(self.shared.live(dataset.object, root, kind, &stored)?)
            }
        };
        head.objset.set_zil(self.tx, &ZilHeader::default())?;
        head.objset.freeze(self.tx.txg());
        let account = self.shared.account(self, dataset.object)?;
        let root = self.shared.sync_objset(&head, self.tx.txg(), &account)?;
        Ok(finish_head(&self.dsl(), &account, root.as_ref(), &[])?)
    }
}
