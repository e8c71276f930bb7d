//! What a pool keeps of a raidz vdev that gets wider. It is done in `reflow`.

use super::LivePool;
use crate::alloc::TopSpec;
use ondisk::expand::Expansion;
use parking_lot::Mutex;
use rt::{Condvar, Rt};

/// See the head of the file.
pub(super) struct Reflows {
    pub(super) state: Mutex<Reflow>,
    /// An expansion has ended.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct Reflow {
    pub(super) running: Option<RunningExpansion>,
    /// It runs, or not everything has happened that comes behind its end.
    pub(super) is_waited_for: bool,
    /// Nothing is copied for now: the pool is being closed.
    pub(super) is_paused: bool,
    /// Bytes that count as copied by a step that is not durable.
    pub(super) unsettled: u64,
    /// Why the last step was not done, and no other is tried before something happens.
    pub(super) stands: Option<String>,
    /// What the vdev is from the end of the txg on in which it was found to have ended.
    pub(super) ended: Option<TopSpec>,
}

/// An expansion that runs, as the MOS has it.
#[derive(Clone, Copy)]
pub(super) struct RunningExpansion {
    pub(super) id: u32,
    /// The table of the vdev; 0: none.
    pub(super) table: u64,
    pub(super) record: Expansion,
}

impl LivePool {
    /// The vdev that is spread over another disk, and bytes that were moved.
    pub(crate) fn reflowed(&self) -> Option<(u32, u64)> {
        self.shared.reflows.running().map(|now| (now.id, now.record.bytes_copied))
    }
}

impl Reflows {
    pub(super) fn new(rt: &Rt) -> Self {
        Self { state: Mutex::default(), changed: rt.condvar() }
    }

    /// The expansion that runs.
    pub(super) fn running(&self) -> Option<RunningExpansion> {
        self.state.lock().running
    }

    /// An expansion runs from now on.
    pub(super) fn begin(&self, running: RunningExpansion) {
        let mut state = self.state.lock();
        (state.running, state.stands, state.is_waited_for) = (Some(running), None, true);
    }

    /// A txg is durable; what ended in it.
    pub(super) fn take_ended(&self) -> Option<TopSpec> {
        self.state.lock().ended.take()
    }

    /// It has ended, and what waits for that has not happened yet.
    pub(super) fn has_ended(&self) -> bool {
        let state = self.state.lock();
        state.is_waited_for && state.running.is_none()
    }

    /// It has ended, and so has everything that waited for that.
    pub(super) fn end(&self) {
        self.state.lock().is_waited_for = false;
        self.changed.notify_all();
    }

    /// Nothing is copied any more.
    pub(super) fn pause(&self) {
        self.state.lock().is_paused = true;
    }

    /// The last step is durable.
    pub(super) fn settle(&self) {
        self.state.lock().unsettled = 0;
    }

    /// It runs, and something may be copied in the next txg.
    pub(super) fn runnable(&self) -> Option<RunningExpansion> {
        let state = self.state.lock();
        state.running.filter(|_| !state.is_paused && state.stands.is_none())
    }
}
