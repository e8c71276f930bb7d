//! The space that a vdev keeps for a checkpoint, in memory. How it is used: `checkpoint.rs`.

use super::ranges::Ranges;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The kept space of a vdev.
#[derive(Default)]
pub(super) struct Checkpointed {
    /// Object of its checkpoint space map; 0: none.
    pub(super) object: AtomicU64,
    /// Bytes in the map.
    pub(super) bytes: AtomicU64,
    /// Given up in the txg that is synced, by metaslab, and not in the map yet.
    pub(super) new: Mutex<BTreeMap<usize, Ranges>>,
}

impl Checkpointed {
    /// As the map on disk has it.
    pub(super) fn new(object: u64, bytes: u64) -> Self {
        let (object, bytes) = (AtomicU64::new(object), AtomicU64::new(bytes));
        Self { object, bytes, new: Mutex::default() }
    }

    /// Keeps a range of metaslab `index`. False: it is kept already.
    pub(super) fn keep(&self, index: usize, start: u64, end: u64) -> bool {
        self.new.lock().entry(index).or_default().insert(start, end)
    }

    /// Bytes in the map.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}
