//! What went through a queue. Counted under the queue's own lock, which is held anyway.

use super::class::{CLASSES, IoClass};
use device::Histogram;

/// Requests of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Requests that ended at the device, aggregated ones once.
    pub ops: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
    /// Requests that wait.
    pub pending: u64,
    /// Requests that are at the device.
    pub active: u64,
    /// Nanoseconds from arrival to the device.
    pub queue_ns: Histogram,
    /// Nanoseconds at the device.
    pub disk_ns: Histogram,
    /// Both together.
    pub total_ns: Histogram,
    /// Bytes of requests that went to the device alone.
    pub individual_bytes: Histogram,
    /// Bytes of requests that were made of several.
    pub aggregated_bytes: Histogram,
}

/// Everything a leaf's queue has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeafStats {
    /// By class, in the order of [`IoClass::ALL`].
    pub classes: [ClassCounts; CLASSES],
}

impl LeafStats {
    /// Those of one class.
    #[must_use]
    pub fn class(&self, class: IoClass) -> &ClassCounts {
        &self.classes[class as usize]
    }
}

/// A request that ended.
pub(super) struct Ended {
    pub(super) class: IoClass,
    pub(super) bytes: u64,
    pub(super) failed: bool,
    pub(super) aggregated: bool,
    pub(super) arrived: u64,
    pub(super) begun: u64,
    pub(super) ended: u64,
}

impl LeafStats {
    pub(super) fn count(&mut self, e: &Ended) {
        let class = &mut self.classes[e.class as usize];
        class.ops += 1;
        if e.failed {
            class.errors += 1;
        } else {
            class.bytes += e.bytes;
        }
        class.queue_ns.add(e.begun.saturating_sub(e.arrived));
        class.disk_ns.add(e.ended.saturating_sub(e.begun));
        class.total_ns.add(e.ended.saturating_sub(e.arrived));
        match e.aggregated {
            true => class.aggregated_bytes.add(e.bytes),
            false => class.individual_bytes.add(e.bytes),
        }
    }
}
