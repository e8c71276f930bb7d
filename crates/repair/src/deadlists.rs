//! Rebuilds dead lists that cannot be read, or contain blocks that do not belong there.
//!
//! A dead list holds the blocks that the snapshot before has and the dataset has not, and both can
//! be read: of the dataset only blocks younger than the snapshot, and of the snapshot those that
//! are not the dataset's at the same place. A block that both have is at the same place in both.

use crate::attempts::{Attempts, RoundEnd};
use crate::plan::Step;
use crate::sums::wrong_list;
use check::{Issue, Report};
use dmu::traverse::{Step as Walk, Traversal, Visitor};
use dsl::Dataset;
use ondisk::BlkPtr;
use pool::Pool;
use pool::UnguardedDatasets as _;
use pool::live::LivePool;
use std::collections::{BTreeSet, HashMap};
use zio::Place;

/// Object, level and number of a block.
type BlockId = (u64, i8, u64);

fn at(place: Place) -> BlockId {
    (place.object, place.level, place.blkid)
}

/// The blocks of a dataset that are as old as the snapshot before it, where younger ones lead to
/// them.
struct OldBlocks {
    until: u64,
    blocks: HashMap<BlockId, [u64; 16]>,
    lost: Option<dmu::Error>,
}

impl Visitor for OldBlocks {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Walk {
        if bp.is_hole() || bp.logical_birth() > self.until {
            return Walk::Descend;
        }
        self.blocks.insert(at(place), *bp.words());
        Walk::Skip
    }

    fn lost(&mut self, _: Place, error: dmu::Error) {
        self.lost.get_or_insert(error);
    }
}

/// The blocks of a snapshot that the dataset after it has not.
struct Dead {
    kept: HashMap<BlockId, [u64; 16]>,
    blocks: Vec<BlkPtr>,
    lost: Option<dmu::Error>,
}

impl Visitor for Dead {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Walk {
        if bp.is_hole() {
            return Walk::Skip;
        }
        if self.kept.get(&at(place)) == Some(bp.words()) {
            return Walk::Skip;
        }
        self.blocks.push(*bp);
        Walk::Descend
    }

    fn lost(&mut self, _: Place, error: dmu::Error) {
        self.lost.get_or_insert(error);
    }
}

/// The blocks of the snapshot before a dataset that the dataset does not have.
fn dead_blocks(pool: &Pool, dataset: &Dataset) -> dsl::Result<Vec<BlkPtr>> {
    let before = match dataset.phys.prev_snap {
        0 => return Ok(Vec::new()),
        n => pool.dsl().nameless(n)?,
    };
    let walk = |objset| Traversal {
        store: &**pool.store() as &dyn dmu::BlockStore,
        key: None,
        objset,
        since: 0,
        resume: None,
    };
    let until = dataset.phys.prev_snap_txg;
    let mut kept = OldBlocks { until, blocks: HashMap::new(), lost: None };
    let _ = walk(dataset.object).objset(&dataset.phys.bp, &mut kept);
    let OldBlocks { blocks: kept, lost, .. } = kept;
    let mut dead = Dead { kept, blocks: Vec::new(), lost };
    let _ = walk(before.object).objset(&before.phys.bp, &mut dead);
    match dead.lost {
        Some(error) => Err(error.into()),
        None => Ok(dead.blocks),
    }
}

/// Dead lists that are rebuilt in one round: the datasets, and their new contents.
#[derive(Default)]
pub(crate) struct DeadLists(Vec<(String, u64, Vec<BlkPtr>)>);

impl DeadLists {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn decide(pool: &Pool, report: &Report, attempts: &Attempts) -> Self {
        let mut broken = BTreeSet::new();
        for issue in &report.issues {
            match issue {
                Issue::BlockLost { at, .. } | Issue::BadStructure { at, .. }
                    if at.place.objset == 0 =>
                {
                    broken.insert(at.place.object);
                }
                // One of which only the sums are wrong keeps its blocks.
                Issue::BlockList { at, .. } => {
                    let is_sum = wrong_list(pool, at.place.object).is_ok_and(|s| s.is_some());
                    broken.extend((!is_sum).then_some(at.place.object));
                }
                _ => {}
            }
        }
        broken.remove(&0);
        if broken.is_empty() {
            return Self::default();
        }
        let mut out = Vec::new();
        for (name, dataset) in pool.dsl().datasets() {
            let Ok(dataset) = dataset else { continue };
            let objects = objects_of(pool, dataset.phys.deadlist);
            let is_plain = matches!(pool.dsl().key_object(&dataset.dir), Ok(None));
            if broken.is_disjoint(&objects) || !is_plain || attempts.has_failed(&words(&name)) {
                continue;
            }
            if let Ok(blocks) = dead_blocks(pool, &dataset) {
                out.push((name, dataset.object, blocks));
            }
        }
        Self(out)
    }

    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        for (name, dataset, blocks) in self.0 {
            let step = Step::DeadList { dataset: name.clone(), blocks: blocks.len() as u64 };
            let renew = || live.renew_deadlist(dataset, blocks).map(|()| vec![step]);
            attempts.make(live, &words(&name), renew)?;
        }
        Ok(())
    }
}

/// The description of the repair.
fn words(dataset: &str) -> String {
    format!("the dead list of {dataset}")
}

/// The objects that make a dead list, as far as they are found; the empty list of all is not one of
/// them.
fn objects_of(pool: &Pool, number: u64) -> BTreeSet<u64> {
    let mut out = BTreeSet::from([number]);
    let Ok(table) = pool.mos().object(number).and_then(|o| dmu::Zap::open(&o)) else { return out };
    let mut todo: Vec<u64> = table.entries().flatten().filter_map(|e| e.u64()).collect();
    while let Some(list) = todo.pop() {
        if !out.insert(list) {
            continue;
        }
        let Ok(header) = dmu::bpobj::header(pool.mos(), list) else { continue };
        if let Some(below) = header.subobjs.filter(|below| below.object != 0) {
            out.insert(below.object);
            todo.extend(dmu::bpobj::below(pool.mos(), list).unwrap_or_default());
        }
    }
    out
}
