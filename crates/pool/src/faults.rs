//! What had to be done to read: faults that redundancy made good, kept for callers that ask.

use dmu::FaultSink;
use ondisk::BlkPtr;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use vdev::Fault;
use zio::Place;

/// Faults kept in full; later ones are only counted, so that a rotten disk cannot fill memory.
pub const FAULTS_KEPT: usize = 10_000;

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
}

impl FaultLog {
    /// Blocks that were read in spite of faults, so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Begins anew: the administrator has seen them.
    pub(crate) fn forget(&self) {
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        self.count.store(0, Ordering::Relaxed);
    }

    /// The kept ones, in order of place.
    #[must_use]
    pub fn repaired(&self) -> Vec<Repaired> {
        let kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.iter().map(|(p, f)| Repaired { place: *p, faults: f.clone() }).collect()
    }
}

impl FaultSink for FaultLog {
    fn repaired(&self, place: Place, _: &BlkPtr, faults: &[Fault]) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if kept.len() < FAULTS_KEPT {
            kept.insert(place, faults.to_vec());
        }
    }
}
