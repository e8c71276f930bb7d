//! A disk of lanes: each does one request at a time, and every request takes the same time.
//!
//! This is how `zinject -D LATENCY:LANES` slows a device down. A request enters the lane that is
//! free first and keeps it for the latency, whatever its place and size. Nothing else is modelled,
//! so what such a disk does is decided by the queue above it, which sends the requests.

use super::{Nanos, micros, nanos};
use core::time::Duration;
use engine::inside::device::{DiskModel, ModelKind, ModelRequest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Parameters of a disk of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lanes {
    /// Requests that are worked on at once.
    pub lanes: usize,
    /// What each takes.
    pub latency_us: f64,
}

pub(crate) struct LanesDisk {
    latency: Nanos,
    /// When each lane is free.
    free: Vec<Nanos>,
    ends: BTreeSet<(Nanos, u64, u64)>,
    events: u64,
}

impl LanesDisk {
    pub(crate) fn new(spec: Lanes) -> Self {
        let (latency, free) = (micros(spec.latency_us), vec![0; spec.lanes.max(1)]);
        Self { latency, free, ends: BTreeSet::new(), events: 0 }
    }
}

impl DiskModel for LanesDisk {
    fn arrive(&mut self, now: Duration, request: ModelRequest) {
        let now = nanos(now);
        let end = match self.free.iter_mut().min() {
            // Only reads and writes are delayed.
            Some(lane) if request.kind != ModelKind::Flush => {
                *lane = now.max(*lane) + self.latency;
                *lane
            }
            _ => now,
        };
        self.events += 1;
        self.ends.insert((end, self.events, request.id));
    }

    fn next(&self) -> Option<Duration> {
        self.ends.first().map(|(at, ..)| Duration::from_nanos(*at))
    }

    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>) {
        let now = nanos(now);
        while let Some((_, _, id)) = self.ends.first().copied().filter(|(at, ..)| *at <= now) {
            self.ends.pop_first();
            ended.push(id);
        }
    }
}
