//! What runs of the works on free space (`work/mod.rs`), as the pool's shared state has it.

use crate::leaf_work::LeafWork;
use parking_lot::Mutex;
use rt::{Condvar, Rt, Task};
use std::collections::{BTreeMap, BTreeSet};

/// What runs.
pub(super) struct RunningWork {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) running: BTreeMap<(u64, LeafWork), Running>,
    /// Why the last one on a device failed.
    pub(super) failures: BTreeMap<(u64, LeafWork), String>,
    /// Top-level vdevs of which one holds free space.
    pub(super) busy: BTreeSet<u32>,
    /// What became free is given back.
    pub(super) autotrim: bool,
    /// Its thread, when it ever ran.
    pub(super) auto: Option<Task<()>>,
    /// The last durable txg.
    pub(super) synced: u64,
    pub(super) is_closing: bool,
}

/// One that runs.
pub(super) struct Running {
    pub(super) task: Option<Task<()>>,
    pub(super) is_to_end: bool,
}

impl RunningWork {
    pub(super) fn new(rt: &Rt) -> Self {
        Self { state: Mutex::default(), changed: rt.condvar() }
    }

    /// A txg is durable.
    pub(super) fn synced(&self, txg: u64) {
        let mut state = self.state.lock();
        state.synced = txg;
        if state.autotrim {
            self.changed.notify_all();
        }
    }

    /// Waits for the turn on a vdev: what one holds there the others would pass over.
    pub(super) fn turn(&self, top: u32) -> VdevTurn<'_> {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.busy.contains(&top));
        state.busy.insert(top);
        VdevTurn { works: self, top }
    }

    /// One that runs is to end.
    pub(super) fn is_to_end(&self, key: (u64, LeafWork)) -> bool {
        let state = self.state.lock();
        state.is_closing || state.running.get(&key).is_some_and(|r| r.is_to_end)
    }
}

/// The turn on a vdev, until it is dropped.
pub(super) struct VdevTurn<'w> {
    works: &'w RunningWork,
    top: u32,
}

impl Drop for VdevTurn<'_> {
    fn drop(&mut self) {
        self.works.state.lock().busy.remove(&self.top);
        self.works.changed.notify_all();
    }
}
