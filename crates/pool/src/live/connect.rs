//! What the parts of a pool call back when readers and devices need it: the lower parts are handed
//! functions of the higher ones here.

use super::shared::Shared;
use std::sync::{Arc, Weak};
use vdev::queue::Pressure;

/// How urgent the writes of a pool's txgs are, for the queues of its leaves.
struct TxgPressure(Weak<Shared>);

impl Pressure for TxgPressure {
    fn dirty(&self) -> (u64, u64) {
        self.0.upgrade().map_or((0, 0), |s| (s.txgs.dirty(), s.txgs.limits().dirty_max))
    }

    fn is_awaited(&self) -> bool {
        self.0.upgrade().is_none_or(|s| s.txgs.is_urgent())
    }
}

impl Shared {
    /// What its parts need of it.
    pub(super) fn connect(shared: &Arc<Self>) {
        let me = Arc::downgrade(shared);
        let outlast = move |failure: &zio::Error| {
            me.upgrade().is_some_and(|shared| shared.outlasts_read(failure))
        };
        shared.patient.wait_by(Box::new(outlast));
        let me = Arc::downgrade(shared);
        let repair = move || {
            if let Some(shared) = me.upgrade() {
                shared.want_repairs();
            }
        };
        shared.block_faults.on_bad(Box::new(repair));
        shared.queues.set_pressure(Some(Arc::new(TxgPressure(Arc::downgrade(shared)))));
    }
}
