//! A batch of records into the chain: its blocks get their places, and are written.

use super::pack::{Filled, Packed, Sizes, pointer};
use super::{Finish, Flight, IntentLog, Link, LogStats, Place, Stage};
use ondisk::BlkPtr;

/// About as many bytes as a record without data has.
const RECORD: u64 = 512;

/// Where the blocks of a batch go.
struct Places {
    blocks: Vec<(Place, u64)>,
    /// The one behind them, for the next batch.
    next: (Place, u64),
}

impl IntentLog {
    /// The block where the next batch begins, and room for its records: that many changes, which
    /// have that many bytes of data. `None`: there is no chain.
    pub(super) fn begin_batch(&self, bytes: u64, changes: usize) -> Option<(Link, Packed)> {
        let state = self.state.lock();
        let first = state.links.back().copied().filter(|_| state.stage == Stage::Open)?;
        let expected = (changes as u64).saturating_mul(RECORD).saturating_add(bytes);
        Some((first, Packed::new(first.place.size, state.record_seq, expected)))
    }

    /// Begins to write the records of batch `number`, whose last txg is `txg`, into the chain from
    /// block `first` on. `None`: they cannot be written there.
    pub(super) fn put(
        &self,
        (number, txg): (u64, u64),
        first: Link,
        packed: Packed,
        early: Vec<BlkPtr>,
    ) -> Option<Flight<'_>> {
        {
            let mut state = self.state.lock();
            let is_last = state.links.back().is_some_and(|last| last.seq == first.seq);
            if state.stage != Stage::Open || !is_last {
                return None;
            }
            state.writing += 1;
            state.sizes.note(packed.records());
        }
        let Packed { blocks, seq: record_seq, .. } = packed;
        let Places { blocks: places, next } = self.place(number, first, &blocks)?;
        let words = self.state.lock().words;
        let pointer = |(place, seq): &(Place, u64)| pointer(place, self.objset, words, *seq);
        let links = places.iter().zip(&blocks).map(|((place, seq), block)| Link {
            place: *place,
            seq: *seq,
            max_txg: block.max_txg,
            is_written: false,
        });
        let links: Vec<Link> = links.collect();
        let behind = places.iter().skip(1).chain([&next]).map(pointer);
        let sealed = places.iter().zip(blocks).zip(behind).map(|((at, block), next)| {
            let sealed = block.seal(&at.0, next, pointer(at).checksum(), self.key.as_deref());
            sealed.map(|bytes| (at.0, bytes))
        });
        let sealed: Option<Vec<_>> = sealed.collect();
        let more = LogStats {
            batches: 1,
            blocks: links.len() as u64,
            bytes: sealed.iter().flatten().map(|(_, bytes)| bytes.len() as u64).sum(),
            early: early.len() as u64,
            early_bytes: early.iter().map(BlkPtr::psize).sum(),
        };
        {
            let mut state = self.state.lock();
            state.stats += more;
            state.record_seq = record_seq;
            state.links.pop_back();
            state.links.extend(links);
            let (place, seq) = next;
            state.links.push_back(Link { place, seq, max_txg: 0, is_written: false });
            state.flights.push_back(number);
        }
        let finish: Finish<'_> = match sealed {
            Some(sealed) => self.backend.write(sealed, early),
            None => Box::new(|_: &dyn Fn()| Err("a block of the log cannot be made".to_owned())),
        };
        Some(Flight { number, txg, seqs: first.seq..next.1, finish })
    }

    /// Allocates places for the blocks of a batch behind the first, and for one more. `None`: there
    /// is no space, and the batch is not written.
    fn place(&self, number: u64, first: Link, blocks: &[Filled]) -> Option<Places> {
        let mut places = vec![(first.place, first.seq)];
        let usual = self.state.lock().sizes.usual();
        let sizes = blocks.iter().skip(1).map(|block| Sizes::of(block.records())).chain([usual]);
        for (size, seq) in sizes.zip(first.seq + 1..) {
            let mut found = None;
            let allocated = self.backend.allocate(size, &mut |place| {
                self.state.lock().unreached.add(number, place.birth);
                found = Some(place);
            });
            match found.filter(|_| allocated) {
                Some(place) => places.push((place, seq)),
                None => {
                    self.not_written(number, &places);
                    return None;
                }
            }
        }
        let next = places.pop()?;
        Some(Places { blocks: places, next })
    }

    /// Nothing of a batch was written, so the chain is as it was, and what was allocated behind it
    /// is of no use. The next sync frees it.
    fn not_written(&self, number: u64, places: &[(Place, u64)]) {
        let unused = {
            let mut state = self.state.lock();
            state.writing -= 1;
            state.unused.extend(places.iter().skip(1).map(|(place, _)| *place));
            state.unreached.remove(number);
            !state.unused.is_empty()
        };
        self.changed.notify_all();
        if unused {
            // When the pool has stopped, there is no next sync.
            let _ = self.backend.touch();
        }
    }
}
