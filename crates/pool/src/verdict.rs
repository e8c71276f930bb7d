//! Whether the tree below an uberblock is intact.
//!
//! An old uberblock is a promise the pool no longer keeps: the blocks below it may have been used
//! again. Opening it shows only that its root is there. This reads all metadata that the datasets
//! need to be entered: every block of the MOS, the header of every object set, all of its dnodes,
//! and the few objects by which its files are found. The files' own blocks are not read, so the
//! time goes with the number of objects and not with the amount of data.
//!
//! Blocks are only held to their checksums, not decrypted: a locked dataset is judged like any
//! other, but for those few objects.

use crate::assemble::Candidate;
use crate::error::Result;
use crate::open::{OpenOptions, Pool, STALE_DEVICES};
use crate::uberblocks::{TxgCandidate, Verdict, by_txg};
use dmu::{Object, Objset};
use dsl::Dataset;
use ondisk::BlkPtr;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use vdev::Scope;
use zio::{Place, Request};

/// Bytes read in one submission, at most.
const BATCH_BYTES: u64 = 4 << 20;
/// Smallest size a block can have on disk, as a shift.
const SECTOR_SHIFT: u32 = 9;

/// Judges the tree of an open pool: reads all metadata but that of the files' contents, on as
/// many threads as the machine has.
#[must_use]
pub fn verdict(pool: &Pool) -> Verdict {
    let judge = Judge::new(pool);
    judge.objects(pool.mos());
    let mut datasets = Vec::new();
    for (name, dataset) in pool.dsl().datasets() {
        match dataset {
            Ok(dataset) => datasets.push(dataset),
            Err(e) => judge.lost(format!("{name}: {e}")),
        }
    }
    let judged = pool.rt().for_each_parallel(0, datasets.iter(), |dataset: &Dataset| {
        match pool.dsl().objset(dataset) {
            Ok(objset) => {
                for object in objset.meta_object().iter() {
                    judge.object(object, &dataset.name);
                }
                // One that is being received has not all of it yet.
                if !dataset.is_partly_received()
                    && let Err(e) = zpl::must_open(&objset)
                {
                    judge.lost(format!("{}: {e}", dataset.name));
                }
            }
            Err(e) => judge.lost(format!("{}: {e}", dataset.name)),
        }
        Ok::<(), Infallible>(())
    });
    let Ok(()) = judged;
    judge.into_verdict()
}

/// The pool as txg `txg` had it.
fn at_txg(candidate: &Candidate, options: &OpenOptions, txg: u64) -> Result<Pool> {
    let options = OpenOptions { txg: Some(txg), checkpoint: false, ..options.clone() };
    Pool::open_candidate(candidate, &options)
}

/// Judges the state of txg `txg`: opens it, and walks its tree.
fn verdict_of_txg(candidate: &Candidate, options: &OpenOptions, txg: u64) -> Verdict {
    match at_txg(candidate, options, txg) {
        Ok(pool) => verdict(&pool),
        Err(e) => Verdict::Lost(e.to_string()),
    }
}

/// Whether a pool can go back to the state of txg `txg`: it is intact, and enough devices have all
/// of it. One that is only read from devices which were away is not written to.
#[must_use]
pub fn can_go_back_to(candidate: &Candidate, options: &OpenOptions, txg: u64) -> bool {
    at_txg(candidate, options, txg).is_ok_and(|pool| {
        let is_stale = pool.salvage().iter().any(|salvage| salvage.what == STALE_DEVICES);
        !is_stale && verdict(&pool) == Verdict::Intact
    })
}

/// All states that could be opened, newest first, each with its verdict.
#[must_use]
pub fn judge_txgs(candidate: &Candidate, options: &OpenOptions) -> Vec<TxgCandidate> {
    let mut all = by_txg(&candidate.uberblocks);
    for c in &mut all {
        c.verdict = Some(verdict_of_txg(candidate, options, c.uberblock.txg));
    }
    all
}

#[derive(Default)]
struct Losses {
    count: u64,
    first: Option<String>,
}

struct Judge<'a> {
    pool: &'a Pool,
    /// More blocks than the pool has room for are not a tree but a trap.
    blocks_max: u64,
    losses: Mutex<Losses>,
}

impl<'a> Judge<'a> {
    fn new(pool: &'a Pool) -> Self {
        let room = pool.config().vdev_tree.children.iter().filter_map(|t| t.asize);
        let room = room.fold(0u64, u64::saturating_add);
        Self { pool, blocks_max: room >> SECTOR_SHIFT, losses: Mutex::default() }
    }

    fn lost(&self, what: String) {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        losses.count += 1;
        losses.first.get_or_insert(what);
    }

    fn into_verdict(self) -> Verdict {
        let losses = self.losses.into_inner().unwrap_or_else(PoisonError::into_inner);
        match losses.first {
            None => Verdict::Intact,
            Some(first) => Verdict::Partial { lost: losses.count, first },
        }
    }

    /// All blocks of all objects of a set.
    fn objects(&self, objset: &Objset) {
        let judged = objset.store().rt().for_each_parallel(0, objset.objects(), |object| {
            match object {
                Ok(object) => self.object(&object, "the MOS"),
                Err(e) => self.lost(format!("the MOS: {e}")),
            }
            Ok::<(), Infallible>(())
        });
        let Ok(()) = judged;
    }

    /// All blocks of one object.
    fn object(&self, object: &Object, of: &str) {
        let per_batch = (BATCH_BYTES / object.dnode().block_size().max(1)).clamp(1, 64) as usize;
        let mut batch = Vec::with_capacity(per_batch);
        let (mut at, mut blocks) = (0, 0);
        loop {
            match object.next_block(at) {
                Ok(Some(block)) if blocks < self.blocks_max => {
                    blocks += 1;
                    match object.block_pointer(0, block) {
                        Ok(Some(bp)) => batch.push((bp, object.place(0, block))),
                        Ok(None) => {}
                        Err(e) => self.lost(format!("{of}: {e}")),
                    }
                    let Some(next) = block.checked_add(1) else { break };
                    at = next;
                }
                Ok(Some(_)) => {
                    let number = object.number();
                    self.lost(format!("{of}: object {number}: more blocks than the pool has"));
                    break;
                }
                Ok(None) => break,
                Err((e, resume)) => {
                    self.lost(format!("{of}: {e}"));
                    match resume {
                        Some(next) => at = next,
                        None => break,
                    }
                }
            }
            if batch.len() >= per_batch {
                self.read(&batch, of);
                batch.clear();
            }
        }
        self.read(&batch, of);
    }

    fn read(&self, batch: &[(BlkPtr, Place)], of: &str) {
        let (key, scope, raw) = (None, Scope::Data, true);
        let mut requests = Vec::with_capacity(batch.len());
        for (bp, place) in batch {
            requests.push(Request { bp, place: *place, key, scope, raw });
        }
        for outcome in self.pool.reader().read_many(&requests) {
            if let Err(e) = outcome.block {
                self.lost(format!("{of}: {e}"));
            }
        }
    }
}
