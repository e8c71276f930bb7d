//! Chains of log blocks in memory: how far a log goes, and which of its records are pending.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use device::AlignedBuf;
use dmu::{Block, BlockStore, Key, Objset, Place};
use ondisk::zil::{Body, Chain, Record, TxType, encode_records};
use ondisk::{BlkPtr, Checksum, DmuType, Endian, ObjsetPhys, ZilHeader};
use std::collections::HashMap;
use std::sync::Arc;
use zil::{Log, LogEnd};

const BLOCK: usize = 4096;
const OBJSET: u64 = 54;
/// Where the object set's header is; log blocks are at 1, 2, 3 ...
const ROOT: u64 = 1000;

/// Blocks by the sector they are at. What is not there cannot be read, for the reason given.
struct Memory {
    blocks: HashMap<u64, Vec<u8>>,
    absent: zio::ErrorKind,
}

impl BlockStore for Memory {
    fn rt(&self) -> rt::Rt {
        rt::Rt::real()
    }

    fn read(&self, bp: &BlkPtr, place: Place, _: Option<&Key>) -> zio::Result<Arc<Block>> {
        let at = bp.dva(0).offset() / 512;
        let absent = || zio::Error {
            place,
            copies: String::new(),
            kind: self.absent.clone(),
            faults: vec![],
        };
        let bytes = self.blocks.get(&at).ok_or_else(absent)?;
        Ok(Arc::new(Block::new(AlignedBuf::copy_of(bytes), Endian::Little)))
    }
}

/// The pointer to the log block number `seq` at `at`.
fn pointer(at: u64, seq: u64) -> BlkPtr {
    let sectors = (BLOCK / 512 - 1) as u64;
    let mut words = [0; 16];
    words[0] = (BLOCK / 512) as u64;
    words[1] = at;
    words[6] = sectors
        | sectors << 16
        | 2 << 32
        | u64::from(Checksum::ZILOG2.0) << 40
        | u64::from(DmuType::INTENT_LOG.0) << 48
        | 1 << 63;
    words[10] = 7;
    words[12..16].copy_from_slice(&[11, 22, OBJSET, seq]);
    BlkPtr::from_words(words)
}

fn record(txg: u64, seq: u64) -> Record {
    let body = Body::Remove { directory: 34, name: b"gone".to_vec() };
    Record::new(TxType::REMOVE, txg, seq, body)
}

/// A block of one record that names `next`.
fn block(next: BlkPtr, txg: u64, seq: u64) -> Vec<u8> {
    let records = encode_records(&[record(txg, seq)], Endian::Little);
    let used = ondisk::zil::CHAIN_SIZE + records.len();
    let mut out = Chain::new(next, used as u64, [0; 4]).encode(Endian::Little);
    out.extend(records);
    out.resize(BLOCK, 0);
    out
}

/// Three blocks at 1, 2 and 3 with the records 1, 2, 3 of the txgs 10, 11, 12; the fourth was
/// never written.
fn three() -> Memory {
    let blocks = (1..=3).map(|n| (n, block(pointer(n + 1, n + 1), 9 + n, n)));
    Memory { blocks: blocks.collect(), absent: zio::ErrorKind::Unreadable }
}

fn read(mut memory: Memory, header: impl FnOnce(&mut ZilHeader)) -> Log {
    let mut phys = ObjsetPhys::decode(&[0; 1024], Endian::Little).unwrap();
    phys.zil.log = pointer(1, 1);
    header(&mut phys.zil);
    memory.blocks.insert(ROOT, phys.encode(Endian::Little));
    let objset = Objset::open(Arc::new(memory), OBJSET, &pointer(ROOT, 0), None).unwrap();
    Log::read(&objset)
}

fn pending(log: &Log, synced: u64) -> Vec<u64> {
    log.pending(synced).map(|r| r.seq).collect()
}

#[test]
fn a_log_ends_where_nothing_was_written() {
    let log = read(three(), |_| {});
    assert!(matches!(log.end, LogEnd::Unwritten), "{:?}", log.end);
    assert_eq!(log.blocks.len(), 3);
    assert_eq!(log.next, Some(pointer(4, 4)));
    assert_eq!(pending(&log, 9), [1, 2, 3]);
    assert_eq!(pending(&log, 10), [2, 3], "records of synced txgs are void");
    assert_eq!(pending(&log, 12), []);
}

#[test]
fn no_log_is_empty() {
    let log = read(three(), |h| h.log = BlkPtr::HOLE);
    assert!(matches!(log.end, LogEnd::Empty));
    assert_eq!(pending(&log, 0), []);
}

#[test]
fn a_chain_that_comes_back_ends() {
    // The third block names the first: its number is not the one that must follow.
    let mut memory = three();
    memory.blocks.insert(3, block(pointer(1, 1), 12, 3));
    let log = read(memory, |_| {});
    assert!(matches!(log.end, LogEnd::Unwritten));
    assert_eq!(log.blocks.len(), 3);

    // With the number that must follow the first is read a second time, and there it ends.
    let mut memory = three();
    memory.blocks.insert(3, block(pointer(1, 4), 12, 3));
    assert_eq!(read(memory, |_| {}).blocks.len(), 4);
}

#[test]
fn a_block_that_does_not_decode_ends_the_log_as_damaged() {
    let mut memory = three();
    memory.blocks.get_mut(&2).unwrap()[136..144].copy_from_slice(&u64::MAX.to_le_bytes());
    let log = read(memory, |_| {});
    assert!(matches!(log.end, LogEnd::Damaged(_)), "{:?}", log.end);
    assert_eq!(pending(&log, 0), [1]);

    // A record that says it is longer than its block.
    let mut memory = three();
    memory.blocks.get_mut(&2).unwrap()[192..200].copy_from_slice(&(1u64 << 40).to_le_bytes());
    assert!(matches!(read(memory, |_| {}).end, LogEnd::Damaged(_)));
}

fn claimed(h: &mut ZilHeader) {
    h.claim_txg = 11;
    h.claim_blk_seq = 3;
    h.claim_lr_seq = 3;
    h.flags = ZilHeader::FLAG_REPLAY_NEEDED | ZilHeader::FLAG_CLAIM_LR_SEQ_VALID;
}

#[test]
fn of_a_claimed_log_the_claim_says_what_is_pending() {
    let log = read(three(), claimed);
    assert!(matches!(log.end, LogEnd::Claimed), "{:?}", log.end);
    // The pool went on to txg 5000, and the log was not replayed.
    assert_eq!(pending(&log, 5000), [2, 3]);
    let upto = |seq| {
        read(three(), |h| {
            claimed(h);
            h.claim_lr_seq = seq;
        })
    };
    assert_eq!(pending(&upto(2), 5000), [2]);
    let replayed = read(three(), |h| {
        claimed(h);
        h.replay_seq = 2;
    });
    assert_eq!(pending(&replayed, 5000), [3]);
    let not_needed = read(three(), |h| {
        claimed(h);
        h.flags = ZilHeader::FLAG_CLAIM_LR_SEQ_VALID;
    });
    assert_eq!(pending(&not_needed, 0), []);
    let shorter = read(three(), |h| {
        claimed(h);
        h.claim_blk_seq = 2;
    });
    assert_eq!(shorter.blocks.len(), 2, "what the claim did not see is not of the log");
}

#[test]
fn a_claimed_block_that_is_gone_is_lost() {
    let mut memory = three();
    memory.blocks.remove(&3);
    let log = read(memory, claimed);
    assert!(matches!(log.end, LogEnd::Lost(_)), "{:?}", log.end);
    assert_eq!(pending(&log, 0), [2]);
}

#[test]
fn a_log_without_its_key_is_locked() {
    let mut memory = three();
    memory.blocks.remove(&1);
    memory.absent = zio::ErrorKind::NoKey;
    assert!(matches!(read(memory, |_| {}).end, LogEnd::Locked));
}
