//! What a batch of changes becomes: records, and blocks of data written where they belong.
//!
//! Data that are written to the log are written twice, there and by the txg. So whole blocks above
//! [`COPIED_MAX`] are written once, to the place that they will have in the tree, and the record
//! has the pointer. With log devices the log is the faster place for all, and with
//! `logbias=throughput` whole blocks of any size go to their place.
//!
//! OpenZFS does the same with blocks of which a part was written. A replay by any implementation
//! then writes the whole block, and a file that ends in it behind that part ends with the block:
//! such parts are copied here.

use super::pack::{Packed, Written, pointer_record};
use super::{Backend, FetchData, Itx, LARGE, LogBias, LoggedChange, PARTS_MAX};
use dmu::EarlyWrite;
use ondisk::BlkPtr;
use ondisk::zil::{Body, TxType};
use std::collections::{HashSet, VecDeque};
use zio::UnsentBlock;

/// Blocks up to this size go into the log as they are (`zfs_immediate_write_sz`).
const COPIED_MAX: u64 = 32 << 10;

/// Parts of blocks are copied as long as the blocks have this many times their bytes.
const PART: u64 = 4;

/// Where data come from, and which of it is copied.
pub(super) struct Gather<'a> {
    backend: &'a dyn Backend,
    data: Option<&'a dyn FetchData>,
    /// Whole blocks of more bytes are written where they belong; `None`: none are.
    copied_max: Option<u64>,
}

impl<'a> Gather<'a> {
    /// For one batch: there is a log device for all of it or for nothing.
    pub(super) fn new(
        backend: &'a dyn Backend,
        data: Option<&'a dyn FetchData>,
        bias: LogBias,
    ) -> Self {
        let copied_max = match bias {
            LogBias::Throughput => Some(0),
            LogBias::Latency => (!backend.has_log_device()).then_some(COPIED_MAX),
        };
        Self { backend, data, copied_max }
    }

    /// Writes those whole blocks of these (object, offset, length) that are written once to where
    /// they belong. Each thread that syncs does that with its own, at the same time as others,
    /// before one of them leads: the batch then finds the pointers there. A single block is
    /// returned, for the thread to write it itself: it has nothing else to do.
    pub(super) fn ahead(&self, ranges: &[(u64, u64, u64)]) -> UnsentBlock {
        let (Some(data), Some(most)) = (self.data, self.copied_max) else {
            return UnsentBlock::default();
        };
        let blocks = |(object, offset, length): &(u64, u64, u64)| {
            let (object, size) = (*object, data.block_size(*object));
            let whole = match size > most {
                true => offset.div_ceil(size)..offset.saturating_add(*length) / size,
                false => 0..0,
            };
            whole.map(move |blkid| (object, blkid))
        };
        let all: Vec<(u64, u64)> = ranges.iter().flat_map(blocks).collect();
        let is_single = all.len() == 1;
        let mut single = UnsentBlock::default();
        for (object, blkid) in all {
            let early = data.write_early(object, blkid, EarlyWrite::Ahead);
            if let Some((_, block)) = early.filter(|_| is_single) {
                single = block;
            }
        }
        single
    }

    /// How much of a batch of more than [`LARGE`] bytes is copied at most. Of a block of which a
    /// part was written the txg writes all, so small parts of large blocks are promised sooner by
    /// the log, also where there are many.
    pub(super) fn most_copied(&self, batch: &[Itx]) -> u64 {
        let Some(data) = self.data else { return LARGE };
        let (mut blocks, mut bytes) = (HashSet::new(), 0u64);
        for itx in batch {
            let LoggedChange::Data { object, offset, length } = itx.what else { continue };
            let size = data.block_size(object);
            let edges = [Some(offset), offset.checked_add(length)].into_iter().flatten();
            for edge in edges.filter(|edge| size > 0 && edge % size > 0) {
                if blocks.insert((object, edge / size)) {
                    bytes = bytes.saturating_add(size);
                }
            }
        }
        (bytes / PART).clamp(LARGE, PARTS_MAX)
    }

    /// Packs the records of a batch. The blocks that they point to, which may still be under way;
    /// `None`: more than `most` bytes would be copied.
    ///
    /// # Errors
    /// The pool has stopped.
    pub(super) fn all(
        &self,
        batch: Vec<Itx>,
        most: u64,
        packed: &mut Packed,
    ) -> Result<Option<Vec<BlkPtr>>, String> {
        let mut early = Vec::new();
        let mut rest = VecDeque::from(batch);
        while let Some(Itx { txg, what, .. }) = rest.pop_front() {
            match what {
                LoggedChange::Record(record) => packed.record(*record),
                LoggedChange::Together(records) => packed.together(records),
                LoggedChange::Unloggable => {}
                LoggedChange::Data { object, offset, length } => {
                    let what = Written { object, offset, length, txg };
                    if !self.write(&what, &rest, (most, packed), &mut early) {
                        self.backend.wait_synced(txg)?;
                    }
                }
            }
            if packed.copied > most || packed.is_too_large {
                return Ok(None);
            }
        }
        Ok(Some(early))
    }

    /// The records of one write. False: some of its data are not to be had.
    fn write(
        &self,
        what: &Written,
        rest: &VecDeque<Itx>,
        (most, packed): (u64, &mut Packed),
        early: &mut Vec<BlkPtr>,
    ) -> bool {
        let Some(data) = self.data else { return false };
        let Written { object, offset, length, txg } = *what;
        // 0: none is.
        let size = match self.copied_max {
            Some(most) => Some(data.block_size(object)).filter(|size| *size > most).unwrap_or(0),
            None => 0,
        };
        let mut complete = true;
        let mut at = 0;
        while at < length && packed.copied <= most {
            let (begin, left) = (offset.saturating_add(at), length - at);
            let in_block = if size == 0 { left } else { left.min(size - begin % size) };
            at += in_block;
            if in_block == size
                && let Some((bp, unsent)) =
                    data.write_early(object, begin / size, EarlyWrite::Record)
            {
                packed.record(pointer_record(object, begin, size, &bp));
                early.push(bp);
                // Under way while the rest is gathered.
                drop(unsent);
                continue;
            }
            let part = Written { object, offset: begin, length: in_block, txg };
            let is_whole = packed.data(&part, &|at, into| data.fetch(object, at, into));
            complete &= is_whole || rest.iter().any(|itx| cuts(&itx.what, object));
        }
        complete
    }
}

/// Whether a change cuts data of an object off that were written before it.
fn cuts(what: &LoggedChange, object: u64) -> bool {
    let LoggedChange::Record(record) = what else { return false };
    let about = record.object() == Some(object);
    about
        && (record.kind == TxType::TRUNCATE
            || matches!(&record.body, Body::SetAttr { mask, .. } if mask & SET_SIZE != 0))
}

/// The bit of a setattr record that says that it sets the size.
const SET_SIZE: u64 = 8;
