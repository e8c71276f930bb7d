//! Replaying the intent logs of a pool that is opened for writing.
//!
//! # Theory
//!
//! ```text
//! looked at   before anything is opened for writing, each log is replayed into memory. One that
//!             cannot be replayed to its end keeps the pool from being opened
//! claimed     blocks that no space map knows, because their txg never became durable, are taken
//!             from the free space before it can be handed out, and written where they lack; blocks
//!             of other files that are cloned get a reference, so that no file can give them up
//!             before the log has; and the header says so, and where the log ends: all in the
//!             first txg. What was written of the chain behind that end is free, and is not looked
//!             at again
//! replayed    each record in a transaction of its own; the header that its txg writes has the
//!             number of the last record up to that txg
//! emptied     when all is durable, one task frees the blocks and empties the header
//! ```
//!
//! Whatever ends this, the next import goes on: before the first txg nothing has happened; a
//! claimed log is not claimed again, and records up to the number in its header are passed over; a
//! log that was replayed to its end has none left, and is emptied when its dataset is opened.

use super::super::LivePool;
use super::super::clones::BLOCK_CLONING;
use super::super::shared::TaskCx;
use super::claimed::NotReplayed;
use super::heads::readable_heads;
use super::{CutLog, claimed_block};
use crate::alloc::Allocator;
use crate::error::{Error, Result};
use crate::open::Pool;
use dmu::Objset;
use dsl::Dataset;
use ondisk::zil::{CHECKSUM_SEQ_WORD, Record};
use ondisk::{BlkPtr, Compression, ObjsetKind, ZilHeader};
use vdev::Heal;
use zil::{Log, LogEnd, is_locked};
use zio::{Place, Reader};
use zpl::replay::{self, Settings};

/// Blocks of a log that are in memory at the same time to be made whole.
const COMPLETED_AT_ONCE: usize = 64;

/// A log that is not empty.
pub(in super::super) struct Claim {
    /// Its dataset.
    name: String,
    /// What the first txg writes as its header; `None`: an earlier import wrote one.
    header: Option<ZilHeader>,
    /// Blocks of other files that its records clone, once for each.
    cloned: Vec<BlkPtr>,
    /// The first txg.
    txg: u64,
}

impl Claim {
    /// The pool gets another name than it was opened with.
    pub(in super::super) fn rename(&mut self, from: &str, to: &str) {
        super::rename_dataset(&mut self.name, from, to);
    }
}

/// Why the log of a head cannot be replayed. `None`: it can, or has nothing to replay.
pub(in super::super) fn why_not_replayed(
    pool: &Pool,
    dataset: &Dataset,
    objset: &Objset,
) -> Option<NotReplayed> {
    let unwritten = |why: String| Some(NotReplayed::Unwritten(why));
    if objset.phys().zil.log.is_hole() {
        return None;
    }
    if let Some(why) = why_not_cloned(pool, objset) {
        return Some(why);
    }
    // That of a locked dataset is replayed when its key is loaded.
    if is_locked(objset) {
        return None;
    }
    let log = Log::read_after(objset, pool.uberblock().txg);
    let mut settings = Settings::new(pool.uberblock().txg);
    let mut pending = log.pending(settings.synced);
    if pending.next().is_none() {
        // What cannot be decoded was written, and may say anything.
        return match &log.end {
            LogEnd::Damaged(e) => Some(NotReplayed::Damaged(format!("its first block: {e}"))),
            _ => None,
        };
    }
    let stored = match pool.dsl().stored(dataset) {
        Ok(stored) => stored,
        Err(e) => return unwritten(e.to_string()),
    };
    if let Some(size) = stored.number("recordsize").filter(|n| n.is_power_of_two()) {
        settings.record_size = size;
    }
    settings.zeros_are_holes = stored.number("compression") != Some(u64::from(Compression::OFF.0));
    let replayed = match objset.phys().kind {
        ObjsetKind::Zfs => replay::filesystem_log(objset, &settings, &log),
        _ => replay::volume_log(objset, &settings, &log),
    };
    match replayed {
        Ok((_, report)) => NotReplayed::met(&report),
        Err(e) => Some(NotReplayed::Damaged(e.to_string())),
    }
}

/// Why blocks that the records of a log clone cannot be. `None`: they can, or there are none.
fn why_not_cloned(pool: &Pool, objset: &Objset) -> Option<NotReplayed> {
    let synced = pool.uberblock().txg;
    let log = Log::read_clear(objset, Some(synced));
    let cloned = cloned_by(&log);
    if cloned.is_empty() {
        return None;
    }
    let damaged = |why: &str| Some(NotReplayed::Damaged(why.to_owned()));
    match () {
        () if cloned.iter().any(BlkPtr::is_dedup) => {
            let why = "it clones deduplicated blocks, which is not written yet";
            Some(NotReplayed::Unwritten(why.to_owned()))
        }
        () if pool.features().count(BLOCK_CLONING).is_none() => {
            damaged("it clones blocks, and the pool does not have the feature")
        }
        () if cloned.iter().any(|bp| bp.logical_birth() > synced || !is_on_vdevs(pool, bp)) => {
            damaged("it clones blocks that are not in the pool")
        }
        () => None,
    }
}

/// Whether a block lies on vdevs of the pool.
fn is_on_vdevs(pool: &Pool, bp: &BlkPtr) -> bool {
    let tops = &pool.config().vdev_tree.children;
    bp.dvas().all(|(_, dva)| {
        let top = tops.iter().find(|top| top.id == u64::from(dva.vdev()));
        let end = dva.offset().saturating_add(dva.asize());
        top.is_some_and(|top| top.asize.is_some_and(|size| end <= size))
    })
}

/// The logs of a pool that are not empty, after what no space map knows of them was taken from the
/// free space of `alloc`, and made whole by `reader`.
pub(in super::super) fn claims(
    pool: &Pool,
    alloc: &Allocator,
    reader: &Reader,
) -> Result<Vec<Claim>> {
    let txg = pool.uberblock().txg + 1;
    let mut out = Vec::new();
    for (name, objset) in readable_heads(pool) {
        let before = objset.phys().zil;
        let is_given_up = before.claim_txg == 0 && pool.uberblock().checkpoint_txg != 0;
        if before.log.is_hole() || is_given_up {
            continue;
        }
        let log = Log::read_clear(&objset, Some(txg - 1));
        if before.claim_txg != 0 {
            let has_pending = log.pending(txg - 1).next().is_some();
            if has_pending && !is_locked(&objset) {
                out.push(Claim { name, header: None, cloned: Vec::new(), txg });
            }
            continue;
        }
        let blocks = blocks_of(&log, txg);
        // Nothing was written, and the first block is of a durable txg. Any other log is claimed,
        // also if nothing of it is to be kept: of the same chain, behind where the log ends, there
        // may be blocks that are not allocated. Only the header says where that is.
        if blocks.is_empty() && log.blocks.is_empty() {
            continue;
        }
        for bp in &blocks {
            alloc.claim(bp, txg).map_err(|what| Error::Inconsistent { what })?;
        }
        complete(pool, &objset, (&log, txg), reader);
        let header = Some(claimed(&log, txg));
        out.push(Claim { name, header, cloned: cloned_by(&log), txg });
    }
    Ok(out)
}

/// The power may have failed while the last blocks of a log were on some devices only. From the txg
/// on in which it is claimed all have them, as in OpenZFS: what is wrong later is damage. No device
/// is to blame for what it lacks now, so no error is counted.
fn complete(pool: &Pool, objset: &Objset, (log, txg): (&Log, u64), reader: &Reader) {
    let place = Place { objset: objset.id(), object: 0, level: Place::LEVEL_ZIL, blkid: 0 };
    let records = log.blocks.iter().flat_map(|b| &b.records);
    let data = records.filter_map(|record| claimed_block(record, txg));
    let all = log.blocks.iter().map(|b| b.bp).chain(data);
    let all: Vec<_> = all.filter(|bp| !is_alone(pool, bp)).map(|bp| (bp, place)).collect();
    for some in all.chunks(COMPLETED_AT_ONCE) {
        // What cannot be had, or is not taken, is met again where it matters.
        drop(reader.heal_many(some, Heal::Met));
    }
}

/// A block is in one place, on one device.
fn is_alone(pool: &Pool, bp: &BlkPtr) -> bool {
    let tops = &pool.config().vdev_tree.children;
    let is_leaf = |id: u32| tops.iter().any(|top| top.id == u64::from(id) && top.kind.is_leaf());
    let mut places = bp.dvas();
    places.next().is_some_and(|(_, dva)| is_leaf(dva.vdev()) && !dva.is_gang())
        && places.next().is_none()
}

/// The datasets whose logs no import has claimed.
pub(in super::super) fn unclaimed_logs(pool: &Pool) -> Vec<String> {
    let mut out = Vec::new();
    for (name, objset) in readable_heads(pool) {
        let header = objset.phys().zil;
        if !header.log.is_hole() && header.claim_txg == 0 {
            out.push(name);
        }
    }
    out
}

/// The block behind the last one, when it belongs to the chain.
fn next_of(log: &Log) -> Option<&BlkPtr> {
    let seq = |bp: &BlkPtr| bp.checksum()[CHECKSUM_SEQ_WORD];
    let expected = log.blocks.last().map_or(seq(&log.header.log), |last| last.seq + 1);
    log.next.as_ref().filter(|bp| !bp.is_hole() && seq(bp) == expected)
}

/// The blocks of a log that no txg before `txg` has.
fn blocks_of(log: &Log, txg: u64) -> Vec<BlkPtr> {
    let chain = log.blocks.iter().map(|b| b.bp).chain(next_of(log).copied());
    let chain = chain.filter(|bp| bp.logical_birth() >= txg);
    let records = log.blocks.iter().flat_map(|b| &b.records);
    chain.chain(records.filter_map(|r| claimed_block(r, txg))).collect()
}

/// The blocks of other files that the records of a log clone, also the records that are in the
/// pool: what empties the log gives up a reference for each.
fn cloned_by(log: &Log) -> Vec<BlkPtr> {
    let records = log.blocks.iter().flat_map(|b| &b.records);
    records.flat_map(Record::cloned).copied().collect()
}

/// The header of a log that is claimed in `txg`.
fn claimed(log: &Log, txg: u64) -> ZilHeader {
    let last_block = log.blocks.last().map_or(0, |b| b.seq);
    let records = log.blocks.iter().flat_map(|b| &b.records);
    let mut header = log.header;
    header.claim_txg = txg;
    header.claim_blk_seq = next_of(log).map_or(last_block, |bp| bp.checksum()[CHECKSUM_SEQ_WORD]);
    header.claim_lr_seq = records.map(|r| r.seq).max().unwrap_or(0);
    header.flags = ZilHeader::FLAG_REPLAY_NEEDED | ZilHeader::FLAG_CLAIM_LR_SEQ_VALID;
    header
}

/// The headers of the logs that an import has claimed, by the datasets, and the txg that must write
/// them: the first. A later import takes for durable what the records of the logs say, if a txg
/// without these headers is.
pub(in super::super) struct NewHeaders {
    headers: Vec<(String, ZilHeader)>,
    /// Blocks that get a reference.
    cloned: Vec<BlkPtr>,
    txg: u64,
}

impl TaskCx<'_> {
    /// Writes what the import claimed.
    pub(in super::super) fn write_claims(&self, claims: &NewHeaders) -> Result<()> {
        let NewHeaders { headers, cloned, txg } = claims;
        if headers.is_empty() {
            return Ok(());
        }
        if self.tx.txg() != *txg {
            let what = "the first txg was synced before the intent logs were claimed".to_owned();
            return Err(Error::Inconsistent { what });
        }
        self.touch();
        cloned.iter().for_each(|bp| self.shared.clones.add(bp));
        for (name, header) in headers {
            let dataset = self.datasets().by_name(name)?;
            let objset = self.datasets().objset(&dataset)?;
            self.write_log_header(&dataset, &objset, header)?;
        }
        Ok(())
    }
}

impl LivePool {
    /// What the first txg has to write of logs.
    pub(in super::super) fn new_log_headers(&self) -> NewHeaders {
        let headers = self.claims.iter().filter_map(|c| Some((c.name.clone(), c.header?)));
        let txg = self.claims.first().map_or(0, |claim| claim.txg);
        let cloned = self.claims.iter().flat_map(|c| c.cloned.iter().copied()).collect();
        NewHeaders { headers: headers.collect(), cloned, txg }
    }

    /// Makes the claims of an import durable. It is the first change of the pool.
    pub(in super::super) fn claim_logs(&self) -> Result<()> {
        let claims = self.new_log_headers();
        match claims.headers.is_empty() {
            true => Ok(()),
            false => self.run(move |cx| cx.write_claims(&claims)),
        }
    }

    /// Replays what was found when the pool was opened, and claimed.
    /// Logs of `cut` end before their end.
    pub(in super::super) fn replay_logs(&self, cut: &[CutLog]) -> Result<()> {
        for claim in &self.claims {
            let is_cut = cut.iter().any(|c| c.dataset == claim.name);
            // A log that is only claimed waits for the key.
            let was_claimed = claim.header.is_none();
            let Some(report) = self.replay_log(&claim.name, was_claimed)? else { continue };
            if let Some(why) = NotReplayed::met(&report).filter(|_| !is_cut) {
                let obstacles = vec![why.of(claim.name.clone())];
                return Err(Error::NotWritable { pool: self.name().to_owned(), obstacles });
            }
            self.replayed.lock().push((claim.name.clone(), report));
        }
        Ok(())
    }

    /// Replays the logs of datasets that were locked when the pool was opened and are not any more.
    ///
    /// # Errors
    /// One cannot be replayed to its end: its dataset stays as it is. The others are replayed.
    pub(in super::super) fn replay_unlocked(&self) -> Result<()> {
        let names: Vec<String> = {
            let _guard = self.shared.gate.read();
            let waits = |objset: &Objset| {
                let header = objset.phys().zil;
                header.claim_txg != 0 && header.log.is_encrypted() && objset.key().is_some()
            };
            readable_heads(self.view())
                .filter(|(_, set)| waits(set))
                .map(|(name, _)| name)
                .collect()
        };
        let mut failure = None;
        for name in names {
            if let Err(e) = self.open_head(&name) {
                failure = failure.or(Some(e));
            }
        }
        failure.map_or(Ok(()), Err)
    }
}
