//! Records into blocks.

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

/// Most data of one record: it stands in one block.
pub(super) const RECORD_DATA_MAX: u64 = BLOCK_MAX - CHAIN_SIZE as u64 - WRITE_RECORD;

/// Batches whose size is remembered.
const REMEMBERED: usize = 16;

/// The record of a write.
pub(super) fn record_of(object: u64, offset: u64, data: Vec<u8>, txg: u64) -> Record {
    let (length, block) = (data.len() as u64, Box::new(BlkPtr::HOLE));
    let body = Body::Write { object, offset, length, block_offset: 0, block, data };
    Record::new(TxType::WRITE, txg, 0, body)
}

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

/// A block that is to be written.
pub(super) struct Plan {
    pub(super) place: Place,
    pub(super) seq: u64,
    pub(super) max_txg: u64,
    /// Room for the chain structure, and records.
    bytes: Vec<u8>,
}

impl Plan {
    pub(super) fn new(place: Place, seq: u64) -> Self {
        let mut bytes = Vec::with_capacity(usize::try_from(place.size).unwrap_or(CHAIN_SIZE));
        bytes.resize(CHAIN_SIZE, 0);
        Self { place, seq, max_txg: 0, bytes }
    }

    /// Takes a record of `txg` when there is room.
    pub(super) fn take(&mut self, record: &[u8], txg: u64) -> bool {
        if (self.bytes.len() + record.len()) as u64 > self.place.size {
            return false;
        }
        self.bytes.extend_from_slice(record);
        self.max_txg = self.max_txg.max(txg);
        true
    }

    /// The bytes that are written: as much of the block as is used, and all of it where a part of
    /// it could not be reconstructed by itself.
    /// `key`: that of the dataset, when it is encrypted.
    pub(super) fn seal(
        &self,
        next: BlkPtr,
        seed: [u64; 4],
        key: Option<&MasterKey>,
    ) -> Option<Shared> {
        let used = self.bytes.len();
        let is_whole = self.place.dvas[0].asize() > self.place.size;
        let size = usize::try_from(self.place.size).ok()?;
        let stored = if is_whole { size } else { used.next_multiple_of(BLOCK_SIZE_MIN) };
        let mut block = AlignedBuf::zeroed(stored);
        block.get_mut(..used)?.copy_from_slice(&self.bytes);
        let chain = Chain::new(next, used as u64, seed).encode(Endian::Little);
        block.get_mut(..CHAIN_SIZE)?.copy_from_slice(&chain);
        let mac = match (key, self.place.crypt) {
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
