//! The walk of a scan: which blocks it comes to, in which order, in which pieces.
//!
//! # Theory
//!
//! The MOS is first, then the datasets, a snapshot before what comes after it. What a dataset
//! shares with the snapshot before was visited there, so a walk is limited to what was born since.
//!
//! Datasets come and go between two pieces, and none of that may hide a block:
//!
//! - a snapshot that was taken meanwhile is a dataset that was not visited; it is found when the
//!   list of those that are left is empty and all are looked at again;
//! - what a destroyed snapshot shared with the next one is visited there, because each dataset is
//!   visited from the snapshot on that *was visited* before it;
//! - within a dataset blocks stay at their place in the order of the walk.
//!
//! A dataset is known by its guid: its number may be another one's by now.

use super::Outcome;
use crate::error::Result;
use crate::faults::{LOST_KEPT, bookmark};
use crate::live::shared::Shared;
use dmu::{Objset, Place, Step, Traversal, Visitor};
use ondisk::scan::Function;
use ondisk::{BlkPtr, DmuType, DslDataset};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use vdev::{Heal, Txgs};

/// A piece of the walk lasts about so long: no txg ends meanwhile.
const PIECE: Duration = Duration::from_millis(200);
/// Bytes of blocks, and their number, that are healed at once.
const BATCH_BYTES: u64 = 16 << 20;
const BATCH_BLOCKS: usize = 1024;

/// A dataset to be visited.
struct Set {
    /// Its object in the MOS; 0 is the MOS itself.
    object: u64,
    guid: u64,
    /// Blocks born after this txg are visited.
    since: u64,
    /// Where the last piece ended.
    resume: Option<(u64, u64)>,
}

/// See the head of the file.
pub(super) struct Walk<'a> {
    shared: &'a Shared,
    heal: Heal,
    /// What the leaves of a resilver missed; blocks of other births are passed over.
    missed: Option<Txgs>,
    min: u64,
    max: u64,
    left: VecDeque<Set>,
    /// Guids of datasets that were visited or are in the list.
    seen: BTreeSet<u64>,
    pub(super) outcome: Outcome,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        function: Function,
        targets: &BTreeMap<u64, Txgs>,
        min: u64,
        max: u64,
    ) -> Self {
        let is_resilver = function == Function::Resilver;
        let heal = if is_resilver { Heal::Missed } else { Heal::All };
        let missed = is_resilver.then(|| {
            let mut all = Txgs::default();
            targets.values().for_each(|missed| all.merge(missed));
            all
        });
        let left = VecDeque::from([Set { object: 0, guid: 0, since: min, resume: None }]);
        let (seen, outcome) = (BTreeSet::new(), Outcome::default());
        Self { shared, heal, missed, min, max, left, seen, outcome }
    }

    /// Walks on for a while; whether everything was visited.
    pub(super) fn piece(&mut self) -> Result<bool> {
        let shared = self.shared;
        let _gate = shared.gate.read();
        let uberblock = *shared.uberblock.lock();
        let store = Arc::clone(&shared.store) as _;
        let mos = Objset::open(store, 0, &uberblock.rootbp, None)?;
        let until = shared.rt.now() + PIECE;
        loop {
            let Some(mut set) = self.left.pop_front() else {
                if !self.look_for_sets(&mos) {
                    return Ok(true);
                }
                continue;
            };
            let root = match set.object {
                0 => Some(uberblock.rootbp),
                n => dataset(&mos, n).filter(|d| d.guid == set.guid).map(|d| d.bp),
            };
            let Some(root) = root else { continue };
            let mut visit = Visit { walk: self, until, batch: Batch::default(), stop: None };
            let traversal = Traversal {
                store: &*shared.store,
                key: None,
                objset: set.object,
                since: set.since,
                resume: set.resume,
            };
            // Where it ended is in `stop`.
            let _ = traversal.objset(&root, &mut visit);
            visit.heal();
            if let Some(stop) = visit.stop {
                set.resume = Some(stop);
                self.left.push_front(set);
                return Ok(false);
            }
        }
    }

    /// Lists the datasets that were not visited, older ones first; whether there are any.
    fn look_for_sets(&mut self, mos: &Objset) -> bool {
        let mut found = Vec::new();
        for object in mos.objects() {
            // What cannot be read of the MOS was counted when it was walked over.
            let Ok(object) = object else { continue };
            if object.dnode().bonus_kind != DmuType::DSL_DATASET {
                continue;
            }
            let phys = DslDataset::decode(&object.dnode().bonus, object.dnode().endian);
            if let Ok(phys) = phys
                && !self.seen.contains(&phys.guid)
            {
                found.push((object.number(), phys));
            }
        }
        found.sort_by_key(|(_, d)| (!d.is_snapshot(), d.creation_txg));
        for (object, d) in &found {
            let before = dataset(mos, d.prev_snap).filter(|p| self.seen.contains(&p.guid));
            let since = before.map_or(self.min, |p| self.min.max(p.creation_txg));
            self.seen.insert(d.guid);
            self.left.push_back(Set { object: *object, guid: d.guid, since, resume: None });
        }
        !found.is_empty()
    }
}

/// What the MOS says of a dataset; `None` when there is none with this number.
fn dataset(mos: &Objset, number: u64) -> Option<DslDataset> {
    let object = Some(number).filter(|n| *n != 0).and_then(|n| mos.object(n).ok())?;
    let dnode = object.dnode();
    let is_dataset = dnode.bonus_kind == DmuType::DSL_DATASET;
    is_dataset.then(|| DslDataset::decode(&dnode.bonus, dnode.endian).ok()).flatten()
}

/// Blocks that are healed together.
#[derive(Default)]
struct Batch {
    blocks: Vec<(BlkPtr, Place)>,
    bytes: u64,
}

/// One piece of the walk over one dataset.
struct Visit<'w, 'a> {
    walk: &'w mut Walk<'a>,
    until: Duration,
    batch: Batch,
    stop: Option<(u64, u64)>,
}

impl Visit<'_, '_> {
    fn is_wanted(&self, bp: &BlkPtr) -> bool {
        let birth = bp.physical_birth();
        let is_missed = |missed: &Txgs| missed.contains(birth);
        birth <= self.walk.max && self.walk.missed.as_ref().is_none_or(is_missed)
    }

    fn heal(&mut self) {
        let Batch { mut blocks, .. } = std::mem::take(&mut self.batch);
        // Devices are read in their order as far as a batch reaches.
        blocks.sort_by_key(|(bp, _)| (bp.dva(0).vdev(), bp.dva(0).offset()));
        let reader = &self.walk.shared.reader;
        let mended = reader.heal_many(&blocks, self.walk.heal);
        let outcome = &mut self.walk.outcome;
        for ((bp, place), mended) in blocks.iter().zip(mended) {
            let birth = bp.physical_birth();
            outcome.examined += bp.dvas().map(|(_, dva)| dva.asize()).sum::<u64>();
            outcome.processed += mended.repaired;
            for guid in mended.refused {
                outcome.refused.entry(guid).or_default().add(birth, birth.saturating_add(1));
            }
            if mended.lost.is_some() {
                outcome.errors += 1;
                if outcome.lost_blocks.len() < LOST_KEPT {
                    outcome.lost_blocks.insert(bookmark(*place), bp.logical_birth());
                }
                // What is below was not visited, and is not younger.
                let leads_further = place.level != 0 || bp.dmu_type() == DmuType::DNODE;
                let first = if leads_further { 0 } else { birth };
                outcome.lost.add(first, birth.max(bp.logical_birth()).saturating_add(1));
            }
        }
    }
}

impl Visitor for Visit<'_, '_> {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step {
        if !bp.is_hole() && !bp.is_embedded() && !bp.is_redacted() && self.is_wanted(bp) {
            self.batch.blocks.push((*bp, place));
            self.batch.bytes += bp.psize() * bp.dvas().count() as u64;
        }
        let is_full = self.batch.bytes >= BATCH_BYTES || self.batch.blocks.len() >= BATCH_BLOCKS;
        if is_full {
            self.heal();
        }
        // A walk goes on at a block with nothing below it.
        let is_end = place.level == 0 && place.object != 0;
        let is_time = || is_full || self.walk.shared.is_scan_interrupted();
        if is_end && is_time() && self.walk.shared.rt.now() >= self.until {
            self.stop = Some((place.object, place.blkid));
            return Step::Stop;
        }
        Step::Into
    }

    fn leave(&mut self, _: &BlkPtr, _: Place) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn lost(&mut self, _: Place, _: dmu::Error) {
        // The block itself was visited and is counted.
    }
}
