//! How many threads sync a txg: what the study of `pios` turned, and what they spend their time on.
//!
//! The defaults never lose to any other setting: devices are written asynchronously, and level 0
//! has as many workers as there are processors. The rest is for studies, and for machines that are
//! shared.

use super::LivePool;
use super::shared::Shared;
use super::tunables::Tunable;
use std::sync::Arc;
use zio::profile::Profiler;

impl Shared {
    /// Threads of a sync's level 0; 0: as many as can run. More than that would only take each
    /// other's place.
    pub(super) fn leaf_sync_workers(&self) -> usize {
        let get = |t| usize::try_from(self.tunables.get(t)).unwrap_or(usize::MAX);
        match get(Tunable::LeafSyncThreads) {
            n if n == 0 || get(Tunable::LeafSyncCrowd) != 0 => n,
            n => n.min(self.rt.processors()),
        }
    }

    /// Switches everything off that only counts, or on again.
    pub(super) fn set_counting(&self, on: bool) {
        self.queues.set_counting(on);
        self.reader.set_counting(on);
        self.writer.profiler().set_counting(on);
        self.store.used().set_counting(on);
    }
}

impl LivePool {
    /// What the threads of the pipeline do, since the pool was opened or it was reset.
    #[must_use]
    pub fn profiler(&self) -> &Arc<Profiler> {
        self.shared.writer.profiler()
    }
}
