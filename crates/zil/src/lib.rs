//! The intent log of a dataset: its chain of blocks, and the records that are still pending.
//!
//! # Theory
//!
//! Synchronous operations are promised before their txg is on disk by writing records to the log.
//! The header in the object set points to the first block, each block to the next, which is
//! allocated ahead; so a log ends at the first block that was never written: one whose checksum,
//! seeded with the log's random words and a sequence number, does not fit.
//!
//! ```text
//! header.log -> block 1 -> block 2 -> ... -> block n -> (allocated, never written)
//! ```
//!
//! A header that was *claimed* (an import saw it and made sure its blocks stay) says how far the
//! log went then; blocks and records beyond are not part of it. Records up to `replay_seq` were
//! replayed already, and records of txgs that are on disk are void.
//!
//! Reading never loops: the sequence number grows by one from block to block, and the number of
//! blocks is bounded.
//!
//! Writing one is `live.rs`.
#![forbid(unsafe_code)]

mod live;

pub use live::{
    Backend, Change, EarlyBlock, FetchData, Finish, IntentLog, LogBias, LogStats, LoggedChange,
    Place as BlockPlace, SyncMode, SyncScope, Synced,
};

use dmu::Objset;
use ondisk::zil::{Body, CHECKSUM_SEQ_WORD, Chain, ChainPlace, DecodeRecord, Record, records_by};
use ondisk::{BlkPtr, Endian, ZilHeader};
use zio::Place;

/// Most blocks of one log that are followed: at 4 KiB to 128 KiB a block more than any log device
/// of today holds.
pub const BLOCKS_MAX: usize = 1 << 24;

/// One block of a log.
#[derive(Clone, Debug)]
pub struct LogBlock {
    /// Its pointer.
    pub bp: BlkPtr,
    /// Its sequence number.
    pub seq: u64,
    /// Bytes of it that are used.
    pub used: u64,
    /// Its records.
    pub records: Vec<Record>,
    /// Byte order of the machine that logged them: that of bytes the records leave undecoded.
    pub endian: Endian,
}

/// The log of this object set is encrypted, and the key is not there.
#[must_use]
pub fn is_locked(objset: &Objset) -> bool {
    objset.key().is_none() && objset.phys().zil.log.is_encrypted()
}

/// A block of the chain of an object set's log, and the pointer to the next. `clear`: as far as it
/// can be read without the key of the dataset.
fn chain_block(
    objset: &Objset,
    bp: &BlkPtr,
    clear: bool,
) -> std::result::Result<(LogBlock, BlkPtr), LogEnd> {
    let seq = bp.checksum()[CHECKSUM_SEQ_WORD];
    let name = Place { objset: objset.id(), object: 0, level: Place::LEVEL_ZIL, blkid: seq };
    let (read, decode): (_, DecodeRecord) = match clear {
        true => (objset.store().read_clear(bp, name), Record::decode_clear),
        false => (objset.store().read(bp, name, objset.key()), Record::decode),
    };
    let place = ChainPlace::of(bp.checksum_kind()).ok_or(LogEnd::Unwritten)?;
    let block = read.map_err(LogEnd::Lost)?;
    let endian = block.endian();
    let chain = Chain::decode(&block, place, endian).map_err(LogEnd::Damaged)?;
    let records = records_by(chain.records_in(&block, place), endian, decode);
    let records = records.collect::<ondisk::Result<_>>().map_err(LogEnd::Damaged)?;
    Ok((LogBlock { bp: *bp, seq, used: chain.used, records, endian }, chain.next))
}

/// Which of these records is the first whose data, in a block of a txg behind `synced`, were not
/// written.
fn first_lost(objset: &Objset, records: &[Record], synced: u64) -> Option<usize> {
    let is_lost = |record: &Record| {
        let Body::Write { block, object, offset, .. } = &record.body else { return false };
        if block.is_hole() || block.logical_birth() <= synced {
            return false;
        }
        let (level, blkid) = (Place::LEVEL_ZIL, offset / block.lsize().max(1));
        let place = Place { objset: objset.id(), object: *object, level, blkid };
        let read = objset.store().read(block, place, objset.key());
        read.is_err_and(|e| e.kind == zio::ErrorKind::Unreadable)
    };
    records.iter().position(is_lost)
}

/// Why a log ends where it does.
#[derive(Clone, Debug)]
pub enum LogEnd {
    /// There is no log.
    Empty,
    /// The next block was allocated and never written, or belongs to something else by now; or the
    /// data of the next record were not written.
    Unwritten,
    /// The header says that the log was claimed up to here.
    Claimed,
    /// A block that was claimed cannot be read: records are lost.
    Lost(zio::Error),
    /// A block does not decode: records are lost.
    Damaged(ondisk::Error),
    /// The block is encrypted and the key is not loaded.
    Locked,
}

/// A log as read.
#[derive(Clone, Debug)]
pub struct Log {
    /// The header.
    pub header: ZilHeader,
    /// Its blocks in order.
    pub blocks: Vec<LogBlock>,
    /// The block behind the last one, allocated but not written.
    pub next: Option<BlkPtr>,
    /// Why there are no more.
    pub end: LogEnd,
}

impl Log {
    /// Reads the log of an object set.
    #[must_use]
    pub fn read(objset: &Objset) -> Self {
        Self::read_with(objset, false, None)
    }

    /// The same for a pool whose last durable txg is `synced`: a log that no import has claimed yet
    /// ends before the first record of a later txg whose data, in a block of their own, were not
    /// written. No caller was promised such a record: its block and that of the log were under way
    /// together. Nothing behind it is read: what an import does not claim is free, and may be
    /// written as another block of the very txg that the log's was to be of.
    #[must_use]
    pub fn read_after(objset: &Objset, synced: u64) -> Self {
        Self::read_with(objset, false, Some(synced))
    }

    /// What a claim needs of a log. That of a locked dataset is read as far as it can be without
    /// the key, as [`Record::decode_clear`] has it. `synced`: as [`Self::read_after`] reads it.
    #[must_use]
    pub fn read_clear(objset: &Objset, synced: Option<u64>) -> Self {
        Self::read_with(objset, is_locked(objset), synced)
    }

    fn read_with(objset: &Objset, clear: bool, synced: Option<u64>) -> Self {
        let header = objset.phys().zil;
        let mut log = Self { header, blocks: Vec::new(), next: None, end: LogEnd::Empty };
        let synced = synced.filter(|_| !log.is_claimed());
        let mut bp = header.log;
        let mut expected = bp.checksum()[CHECKSUM_SEQ_WORD];
        while !bp.is_hole() {
            log.next = Some(bp);
            let seq = bp.checksum()[CHECKSUM_SEQ_WORD];
            if seq != expected || log.blocks.len() >= BLOCKS_MAX {
                log.end = LogEnd::Unwritten;
                break;
            }
            if log.is_claimed() && (seq > header.claim_blk_seq || log.has_all_claimed(seq)) {
                log.end = LogEnd::Claimed;
                break;
            }
            match log.block(objset, &bp, clear) {
                Ok((mut block, next)) => {
                    log.next = None;
                    let lost = synced.and_then(|synced| first_lost(objset, &block.records, synced));
                    block.records.truncate(lost.unwrap_or(usize::MAX));
                    log.blocks.push(block);
                    if lost.is_some() {
                        log.end = LogEnd::Unwritten;
                        break;
                    }
                    bp = next;
                }
                Err(end) => {
                    log.end = end;
                    break;
                }
            }
            expected = expected.wrapping_add(1);
        }
        log
    }

    /// The log was claimed by an import, so the header's numbers say where it ends.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.header.claim_txg != 0
    }

    /// Nothing that was claimed is in block `seq` or behind it: the claim counts the block that is
    /// allocated ahead, which may never have been written.
    fn has_all_claimed(&self, seq: u64) -> bool {
        let last = self.blocks.iter().rev().find_map(|b| b.records.last()).map_or(0, |r| r.seq);
        self.header.flags & ZilHeader::FLAG_CLAIM_LR_SEQ_VALID != 0
            && seq == self.header.claim_blk_seq
            && last == self.header.claim_lr_seq
    }

    fn block(
        &self,
        objset: &Objset,
        bp: &BlkPtr,
        clear: bool,
    ) -> std::result::Result<(LogBlock, BlkPtr), LogEnd> {
        chain_block(objset, bp, clear).map_err(|end| match end {
            LogEnd::Lost(e) if e.kind == zio::ErrorKind::NoKey => LogEnd::Locked,
            LogEnd::Lost(e) if e.kind == zio::ErrorKind::Unreadable && !self.is_claimed() => {
                LogEnd::Unwritten
            }
            end => end,
        })
    }

    /// Records that a replay would apply to a pool whose last synced txg is `synced`, in order.
    ///
    /// Of a claimed log the txg of the claim counts, not `synced`: the pool may have gone on for
    /// long while this dataset, locked perhaps, was never mounted. What the claim found was not
    /// in any txg then, and nothing but a replay puts it into one.
    pub fn pending(&self, synced: u64) -> impl Iterator<Item = &Record> {
        self.pending_with_endian(synced).map(|(record, _)| record)
    }

    /// Like [`Self::pending`], with the byte order of what a record leaves undecoded.
    pub fn pending_with_endian(&self, synced: u64) -> impl Iterator<Item = (&Record, Endian)> {
        let last = match self.header.flags & ZilHeader::FLAG_CLAIM_LR_SEQ_VALID {
            0 => u64::MAX,
            _ => self.header.claim_lr_seq,
        };
        let (claimed, replayed) = (self.is_claimed(), self.header.replay_seq);
        let first_txg = match (claimed, self.header.flags & ZilHeader::FLAG_REPLAY_NEEDED) {
            (false, _) => synced.saturating_add(1),
            (true, 0) => u64::MAX,
            (true, _) => self.header.claim_txg,
        };
        let records = self.blocks.iter().flat_map(|b| b.records.iter().map(|r| (r, b.endian)));
        records.filter(move |(r, _)| {
            r.txg >= first_txg && r.seq > replayed && !(claimed && r.seq > last)
        })
    }
}
