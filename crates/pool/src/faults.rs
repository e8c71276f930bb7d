//! Faults met while reading: those that redundancy repaired, and blocks that it could not, kept for
//! callers.

use dmu::FaultSink;
use ondisk::BlkPtr;
use ondisk::errlog::Zbookmark;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use vdev::Fault;
use zio::Place;

/// Faults kept in full; later ones are only counted, so that a rotten disk cannot fill memory.
pub const FAULTS_KEPT: usize = 10_000;

/// Blocks that are lost, each with the txg of its logical birth.
pub(crate) type LostBlocks = BTreeMap<Zbookmark, u64>;

/// Lost blocks that are kept: more of them say nothing new of a pool.
pub(crate) const LOST_KEPT: usize = 100_000;

/// Lost blocks that are kept until events report them: if there are more at once, the error log has
/// them.
const UNTOLD_KEPT: usize = 64;

/// The name of a block in an error log.
pub(crate) fn bookmark(place: Place) -> Zbookmark {
    let blkid = match place.blkid {
        Place::BLKID_SPILL => Zbookmark::SPILL_BLKID,
        n => n,
    };
    Zbookmark::new(place.objset, place.object, i64::from(place.level), blkid)
}

/// One block that was read in spite of faults.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The block.
    pub place: Place,
    /// The faults, each with device and offset.
    pub faults: Vec<Fault>,
}

/// Collects the faults of an open pool.
#[derive(Debug, Default)]
pub struct FaultLog {
    count: AtomicU64,
    kept: Mutex<BTreeMap<Place, Vec<Fault>>>,
    lost: Mutex<Lost>,
}

/// Blocks that readers did not get.
#[derive(Debug, Default)]
struct Lost {
    /// Not in the error log of the pool yet.
    new: LostBlocks,
    /// There since the last scrub began.
    logged: LostBlocks,
    /// No event has told of them yet.
    untold: Vec<Zbookmark>,
}

impl FaultLog {
    /// Blocks that were read in spite of faults, so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Starts again: the administrator has seen them.
    pub(crate) fn forget(&self) {
        self.kept.lock().clear();
        self.count.store(0, Ordering::Relaxed);
    }

    /// The kept ones, in order of place.
    #[must_use]
    pub fn repaired(&self) -> Vec<Repaired> {
        let kept = self.kept.lock();
        kept.iter().map(|(p, f)| Repaired { place: *p, faults: f.clone() }).collect()
    }

    /// There are blocks that [`Self::take_lost`] would return.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.lock().new.is_empty()
    }

    /// Blocks that were not had since this was called last, once each. The caller logs them.
    pub(crate) fn take_lost(&self) -> LostBlocks {
        let mut lost = self.lost.lock();
        let new = std::mem::take(&mut lost.new);
        let room = LOST_KEPT.saturating_sub(lost.logged.len());
        lost.logged.extend(new.iter().take(room).map(|(block, birth)| (*block, *birth)));
        new
    }

    /// Records a lost block, for an event.
    pub(crate) fn report_lost_block(&self, block: Zbookmark) {
        let untold = &mut self.lost.lock().untold;
        if untold.len() < UNTOLD_KEPT && !untold.contains(&block) {
            untold.push(block);
        }
    }

    /// Lost blocks that were not reported by events since the last call.
    pub(crate) fn take_untold(&self) -> Vec<Zbookmark> {
        std::mem::take(&mut self.lost.lock().untold)
    }

    /// A scrub begins, which looks at everything again.
    pub(crate) fn begin_scrub(&self) {
        self.lost.lock().logged.clear();
    }

    /// These can be had again: when they cannot once more, that is new.
    pub(crate) fn are_found(&self, blocks: &BTreeSet<Zbookmark>) {
        let mut lost = self.lost.lock();
        lost.logged.retain(|block, _| !blocks.contains(block));
    }

    /// Blocks that were not had since the last scrub began.
    pub(crate) fn lost_since_scrub(&self) -> LostBlocks {
        let lost = self.lost.lock();
        lost.logged.iter().chain(&lost.new).map(|(block, birth)| (*block, *birth)).collect()
    }
}

impl FaultSink for FaultLog {
    fn repaired(&self, place: Place, _: &BlkPtr, faults: &[Fault]) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.kept.lock();
        if kept.len() < FAULTS_KEPT {
            kept.insert(place, faults.to_vec());
        }
    }

    fn lost(&self, place: Place, bp: &BlkPtr) {
        // Every chain of log blocks ends with one that cannot be read.
        if place.level == Place::LEVEL_ZIL {
            return;
        }
        let mut lost = self.lost.lock();
        let block = bookmark(place);
        let is_new = !lost.logged.contains_key(&block) && lost.new.len() < LOST_KEPT;
        if is_new && lost.new.insert(block, bp.logical_birth()).is_none() {
            drop(lost);
            self.report_lost_block(block);
        }
    }
}
