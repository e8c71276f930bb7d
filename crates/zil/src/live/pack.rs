//! Records into blocks.
//!
//! A block is filled where it is written from: its first bytes are left for the chain structure,
//! and data are fetched into their place behind the head of their record. So the thread that leads
//! copies data once, and sums them once. Blocks are full as long as there is more to come: they are
//! allocated one after the other, so that full ones are neighbours, and written with one call.

use super::Place;
use codec::checksum::{ByteOrder, seal_zilog2};
use codec::crypto::MasterKey;
use device::{AlignedBuf, Shared};
use ondisk::blkptr::{BlkPtrParts, CryptParams, CryptParts};
use ondisk::zil::{
    BLOCK_SIZE_MIN, Body, CHAIN_SIZE, CHECKSUM_OBJSET_WORD, CHECKSUM_SEQ_WORD, Chain, Record,
    TxType,
};
use ondisk::{BlkPtr, Checksum, Compression, DmuType, Endian};
use std::collections::VecDeque;
use zio::crypt::seal_block;

/// Largest block of a log: every OpenZFS reads it, whatever the features.
const BLOCK_MAX: u64 = 128 << 10;

/// Bytes of a write record before its data.
const WRITE_RECORD: u64 = 192;

/// A write is split where a block ends, if as many of its data bytes fit in: what is left empty of
/// a block is less than that.
const SPLIT_MIN: usize = 8 << 10;

/// Most data of one record: it stands in one block.
const RECORD_DATA_MAX: u64 = BLOCK_MAX - CHAIN_SIZE as u64 - WRITE_RECORD;

/// Batches whose size is remembered.
const REMEMBERED: usize = 16;

/// The record of a write whose data are in a block of their own. It is of the txg that has the
/// block, which may be later than the write's. A record of a txg that is durable is passed over by
/// a replay, but a claim would keep its block.
pub(super) fn pointer_record(object: u64, offset: u64, length: u64, block: &BlkPtr) -> Record {
    let txg = block.logical_birth();
    let (block, data) = (Box::new(*block), Vec::new());
    let body = Body::Write { object, offset, length, block_offset: 0, block, data };
    Record::new(TxType::WRITE, txg, 0, body)
}

/// How large blocks are: the next one is allocated before it is known what it will hold, so it is
/// as large as the last batches needed.
#[derive(Default)]
pub(super) struct Sizes {
    last: VecDeque<u64>,
}

impl Sizes {
    /// A block for this many bytes of records: a power of two, from 4 to 128 KiB.
    pub(super) fn of(bytes: u64) -> u64 {
        let whole = bytes.saturating_add(CHAIN_SIZE as u64).min(BLOCK_MAX);
        whole.next_power_of_two().max(BLOCK_SIZE_MIN as u64)
    }

    /// A batch had this many bytes of records.
    pub(super) fn note(&mut self, bytes: u64) {
        self.last.push_back(bytes);
        if self.last.len() > REMEMBERED {
            self.last.pop_front();
        }
    }

    pub(super) fn usual(&self) -> u64 {
        Self::of(self.last.iter().copied().max().unwrap_or(0))
    }
}

/// Data of an object that were written in a txg: what a record of them says.
#[derive(Clone, Copy)]
pub(super) struct Written {
    pub(super) object: u64,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) txg: u64,
}

impl Written {
    /// The beginning of a record of `length` bytes from `at` on, which follow it.
    fn head(&self, seq: u64, (at, length): (u64, usize)) -> Vec<u8> {
        let (object, offset, block) = (self.object, self.offset + at, Box::new(BlkPtr::HOLE));
        let (length, data) = (length as u64, Vec::new());
        let body = Body::Write { object, offset, length, block_offset: 0, block, data };
        let record = Record::new(TxType::WRITE, self.txg, seq, body);
        record.encode_before(usize::try_from(length).unwrap_or(0), Endian::Little)
    }
}

/// Puts data from an offset on into memory, and says how many bytes there are.
pub(super) type Fetch<'a> = &'a dyn Fn(u64, &mut [u8]) -> usize;

/// A block that is filled. It gets its place when it is full.
pub(super) struct Filled {
    pub(super) max_txg: u64,
    /// All of it, in the memory from which it is written: zeros where the chain structure will be,
    /// and records.
    bytes: AlignedBuf,
    used: usize,
}

impl Filled {
    fn new(size: u64) -> Self {
        let bytes = AlignedBuf::zeroed(usize::try_from(size).unwrap_or(CHAIN_SIZE));
        Self { max_txg: 0, bytes, used: CHAIN_SIZE }
    }

    fn room(&self) -> usize {
        self.bytes.len().saturating_sub(self.used)
    }

    /// Bytes of its records.
    pub(super) fn records(&self) -> u64 {
        (self.used - CHAIN_SIZE) as u64
    }

    /// Takes a record of `txg` when there is room.
    fn take(&mut self, record: &[u8], txg: u64) -> bool {
        let Some(free) = self.bytes.get_mut(self.used..self.used + record.len()) else {
            return false;
        };
        free.copy_from_slice(record);
        self.used += record.len();
        self.max_txg = self.max_txg.max(txg);
        true
    }

    /// Takes a record of up to `n` bytes of data from `at` on, for which there is room; as many as
    /// there were.
    fn take_data(
        &mut self,
        what: &Written,
        seq: u64,
        (at, n): (u64, usize),
        fetch: Fetch,
    ) -> usize {
        let begin = self.used + WRITE_RECORD as usize;
        let Some(free) = self.bytes.get_mut(begin..begin + n) else { return 0 };
        let found = fetch(what.offset + at, free).min(n);
        free[found..].fill(0);
        if found > 0 && self.take(&what.head(seq, (at, found)), what.txg) {
            self.used += found.next_multiple_of(8);
        }
        found
    }

    /// The bytes that are written at `place`: as much of the block as is used, and all of it where
    /// a part of it could not be reconstructed by itself. `None`: it is larger than its place, or
    /// cannot be encrypted.
    /// `key`: that of the dataset, when it is encrypted.
    pub(super) fn seal(
        self,
        place: &Place,
        next: BlkPtr,
        seed: [u64; 4],
        key: Option<&MasterKey>,
    ) -> Option<Shared> {
        let Self { bytes: mut block, used, .. } = self;
        let is_whole = place.dvas[0].asize() > place.size;
        let size = usize::try_from(place.size).ok().filter(|size| used <= *size)?;
        let stored = if is_whole { size } else { used.next_multiple_of(BLOCK_SIZE_MIN) };
        if stored > block.len() {
            let filled = std::mem::replace(&mut block, AlignedBuf::zeroed(stored));
            block.get_mut(..filled.len())?.copy_from_slice(&filled);
        }
        block.truncate(stored);
        let chain = Chain::new(next, used as u64, seed).encode(Endian::Little);
        block.get_mut(..CHAIN_SIZE)?.copy_from_slice(&chain);
        let mac = match (key, place.crypt) {
            (None, None) => None,
            (Some(key), Some(CryptParams { salt, iv })) => {
                let kind = DmuType::INTENT_LOG;
                let mac = seal_block(key, kind, Endian::Little, salt, &iv, &mut block).ok()?;
                let (words, _) = mac.as_chunks::<8>();
                Some([u64::from_le_bytes(*words.first()?), u64::from_le_bytes(*words.get(1)?)])
            }
            // Nothing of an encrypted dataset is written as it is.
            _ => return None,
        };
        seal_zilog2(&mut block, ByteOrder::Little, seed, mac).ok()?;
        Some(Shared::from(block))
    }
}

/// The records of a batch, in the blocks that are written: data are copied once, to there.
pub(super) struct Packed {
    /// The first has its place already, of a size that it does not exceed.
    pub(super) blocks: Vec<Filled>,
    /// The number of the last record.
    pub(super) seq: u64,
    /// Bytes of data in the records.
    pub(super) copied: u64,
    /// Bytes that are likely to come.
    expected: u64,
    /// A record is larger than any block.
    pub(super) is_too_large: bool,
}

impl Packed {
    /// Room for about `expected` bytes, in a first block of `first` bytes and more behind it. The
    /// records are numbered from behind `seq` on.
    pub(super) fn new(first: u64, seq: u64, expected: u64) -> Self {
        let first = Filled::new(first.min(Sizes::of(expected)));
        Self { blocks: vec![first], seq, copied: 0, expected, is_too_large: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.iter().all(|block| block.records() == 0)
    }

    /// Bytes of all records.
    pub(super) fn records(&self) -> u64 {
        self.blocks.iter().map(Filled::records).sum()
    }

    /// One more block, with room for this many bytes at least, and for what is likely to come.
    fn add_block(&mut self, bytes: usize) {
        let left = self.expected.saturating_sub(self.records()).max(bytes as u64);
        self.blocks.push(Filled::new(Sizes::of(left)));
    }

    /// Takes a record.
    pub(super) fn record(&mut self, record: Record) {
        self.together([record]);
    }

    /// Takes several records into one block.
    pub(super) fn together(&mut self, records: impl IntoIterator<Item = Record>) {
        let (mut bytes, mut txg) = (Vec::new(), 0);
        for mut record in records {
            record.seq = self.seq + 1;
            bytes.extend(record.encode(Endian::Little));
            txg = txg.max(record.txg);
            self.seq += 1;
        }
        let take = |blocks: &mut Vec<Filled>| {
            blocks.last_mut().is_some_and(|block| block.take(&bytes, txg))
        };
        if !take(&mut self.blocks) {
            self.add_block(bytes.len());
            self.is_too_large |= !take(&mut self.blocks);
        }
    }

    /// Takes data in as many records as it takes, so that blocks are full. False: not all of them
    /// are to be had.
    pub(super) fn data(&mut self, what: &Written, fetch: Fetch) -> bool {
        let (mut at, mut is_whole) = (0, true);
        while at < what.length {
            let left = usize::try_from((what.length - at).min(RECORD_DATA_MAX)).unwrap_or(0);
            let head = WRITE_RECORD as usize;
            let last = self.blocks.last();
            let room = last.map_or(0, Filled::room).saturating_sub(head);
            let splits = room >= SPLIT_MIN || last.is_some_and(|block| block.records() == 0);
            let n = if splits { left.min(room - room % 8) } else { left };
            if n > room {
                self.add_block(head + n);
            }
            let Some(block) = self.blocks.last_mut() else { return false };
            let found = block.take_data(what, self.seq + 1, (at, n), fetch);
            self.seq += u64::from(found > 0);
            self.copied += found as u64;
            is_whole &= found == n;
            at += n as u64;
        }
        is_whole
    }
}

/// The pointer to a block of a chain.
pub(super) fn pointer(place: &Place, objset: u64, words: [u64; 2], seq: u64) -> BlkPtr {
    let mut checksum = [words[0], words[1], 0, 0];
    checksum[CHECKSUM_OBJSET_WORD] = objset;
    checksum[CHECKSUM_SEQ_WORD] = seq;
    BlkPtr::build(&BlkPtrParts {
        dvas: place.dvas,
        lsize: place.size,
        psize: place.size,
        compression: Compression::OFF,
        checksum_kind: Checksum::ZILOG2,
        checksum,
        kind: DmuType::INTENT_LOG,
        level: 0,
        endian: Endian::Little,
        birth: place.birth,
        fill: 0,
        crypt: place.crypt.map(|params| CryptParts { params: Some(params), mac: None }),
    })
}
