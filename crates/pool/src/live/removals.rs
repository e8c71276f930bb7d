//! What a pool keeps of the removal of a vdev with data on it. It is done in `evacuate`.

use device::WriteDeviceRef;
use ondisk::indirect::{MappingHeader, RemovalState};
use parking_lot::Mutex;
use rt::{Condvar, Rt};

/// See the head of the file.
pub(super) struct Removals {
    pub(super) state: Mutex<RemovalWork>,
    /// A removal has ended.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct RemovalWork {
    /// The vdev that leaves.
    pub(super) running: Option<RunningRemoval>,
    /// It runs, or its end is not durable yet.
    pub(super) is_waited_for: bool,
    /// Nothing is copied for now: the pool is being closed.
    pub(super) is_paused: bool,
    /// Why the last one was called off by itself.
    pub(super) failure: Option<String>,
    /// Devices that are not part of the pool any more when the txg that is synced is durable, with
    /// their guids.
    pub(super) gone: Vec<(u64, WriteDeviceRef)>,
}

/// A removal that runs, as the MOS has it.
#[derive(Clone, Copy)]
pub(super) struct RunningRemoval {
    pub(super) id: u32,
    pub(super) record: RemovalState,
    /// Object of the mapping.
    pub(super) mapping: u64,
    pub(super) header: MappingHeader,
    /// Object that says which part was copied in which txg.
    pub(super) births: u64,
    pub(super) births_count: u64,
}

impl Removals {
    pub(super) fn new(rt: &Rt) -> Self {
        Self { state: Mutex::default(), changed: rt.condvar() }
    }

    /// The removal that runs.
    pub(super) fn running(&self) -> Option<RunningRemoval> {
        self.state.lock().running
    }

    /// A piece is copied in each txg.
    pub(super) fn is_running(&self) -> bool {
        let state = self.state.lock();
        state.running.is_some() && !state.is_paused
    }

    /// A removal runs from now on.
    pub(super) fn begin(&self, running: RunningRemoval) {
        let mut state = self.state.lock();
        (state.running, state.failure, state.is_waited_for) = (Some(running), None, true);
    }

    /// A txg is durable; the devices that left in it.
    pub(super) fn synced(&self) -> Vec<(u64, WriteDeviceRef)> {
        let mut state = self.state.lock();
        if state.running.is_none() && std::mem::take(&mut state.is_waited_for) {
            self.changed.notify_all();
        }
        std::mem::take(&mut state.gone)
    }

    /// Nothing is copied any more.
    pub(super) fn pause(&self) {
        self.state.lock().is_paused = true;
    }
}
