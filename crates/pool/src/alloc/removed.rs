//! Top-level vdevs that go.

use super::Allocator;
use super::metaslab::Metaslab;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zio::SpaceClass;

impl Allocator {
    /// A log device takes blocks of logs again, after [`Self::avoid_log`].
    pub fn use_log(&self, top: u32) {
        if let Some(top) = self.top(top).filter(|top| top.class == SpaceClass::Log) {
            top.allocating.store(true, Relaxed);
        }
    }

    /// Nothing is allocated on a vdev, held, or on its way to be free.
    #[must_use]
    pub fn is_empty(&self, id: u32) -> bool {
        let rests = |m: &Metaslab| m.allocated() == 0 && !m.is_active();
        self.top(id).is_none_or(|top| top.metaslabs.iter().all(rests))
    }

    /// Forgets an empty vdev of which nothing is allocated any more; the objects of its space maps.
    pub fn remove_top(&self, id: u32) -> Vec<u64> {
        let top = Arc::make_mut(&mut *self.tops.write()).remove(&id);
        for lane in self.lanes.iter().flatten() {
            lane.0.lock().tops.retain(|top| top.id != id);
        }
        let metaslabs = top.iter().flat_map(|top| &top.metaslabs);
        metaslabs.map(Metaslab::object).filter(|object| *object != 0).collect()
    }
}
