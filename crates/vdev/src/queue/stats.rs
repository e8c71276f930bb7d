//! What went through a queue. Counted under the queue's own lock, which is held anyway.
//!
//! Requests, bytes and sizes are exact. Waiting times cost looks at the clock, so small requests
//! are sampled ([`device::sample_weight`]), each class for itself; but not in a simulation.

use super::class::{CLASSES, IoClass};
use device::Histogram;
use serde::{Deserialize, Serialize};

/// Requests of one class, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
    /// Nanoseconds from arrival to the device; as the two below, of small requests sampled.
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

impl ClassCounts {
    /// Adds another one's counters and gauges.
    pub fn merge(&mut self, other: &Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.pending += other.pending;
        self.active += other.active;
        self.queue_ns.merge(&other.queue_ns);
        self.disk_ns.merge(&other.disk_ns);
        self.total_ns.merge(&other.total_ns);
        self.individual_bytes.merge(&other.individual_bytes);
        self.aggregated_bytes.merge(&other.aggregated_bytes);
    }

    /// What was counted since `earlier`; what is now stays.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            ops: self.ops.saturating_sub(earlier.ops),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
            pending: self.pending,
            active: self.active,
            queue_ns: self.queue_ns.since(&earlier.queue_ns),
            disk_ns: self.disk_ns.since(&earlier.disk_ns),
            total_ns: self.total_ns.since(&earlier.total_ns),
            individual_bytes: self.individual_bytes.since(&earlier.individual_bytes),
            aggregated_bytes: self.aggregated_bytes.since(&earlier.aggregated_bytes),
        }
    }
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
pub(super) struct CompletedRequest {
    pub(super) class: IoClass,
    pub(super) bytes: u64,
    pub(super) failed: bool,
    pub(super) aggregated: bool,
    /// As how many it counts; 0: the times are not known.
    pub(super) weight: u64,
    pub(super) arrived: u64,
    pub(super) begun: u64,
    pub(super) ended: u64,
}

impl LeafStats {
    pub(super) fn count(&mut self, e: &CompletedRequest) {
        let class = &mut self.classes[e.class as usize];
        class.ops += 1;
        if e.failed {
            class.errors += 1;
        } else {
            class.bytes += e.bytes;
        }
        if e.weight > 0 {
            class.queue_ns.add_many(e.begun.saturating_sub(e.arrived), e.weight);
            class.disk_ns.add_many(e.ended.saturating_sub(e.begun), e.weight);
            class.total_ns.add_many(e.ended.saturating_sub(e.arrived), e.weight);
        }
        match e.aggregated {
            true => class.aggregated_bytes.add(e.bytes),
            false => class.individual_bytes.add(e.bytes),
        }
    }
}
