//! A LUN: a part of an array, behind a controller that it shares with others.
//!
//! The array's cache takes what is written and reads ahead, so that places do not matter. A request
//! takes a latency, which grows with its size and with all that is under way in the controller at
//! that time. Its bytes pass the LUN's disks, one command after the other, and the controller, each
//! with a rate of its own. The controller's rate and count are shared by all LUNs made together
//! ([`super::Preset::devices`]).

use super::{Nanos, micros, nanos, transfer};
use core::time::Duration;
use engine::inside::device::{DiskModel, ModelKind, ModelRequest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Parameters of a LUN and its controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lun {
    /// What the LUN's disks carry.
    pub lun_bytes_per_second: f64,
    /// What the controller carries, of all LUNs together.
    pub controller_bytes_per_second: f64,
    /// What a command costs the LUN itself, one after the other.
    #[serde(default)]
    pub command_us: f64,
    /// What every request takes, whatever its size.
    pub latency_us: f64,
    /// And for each MiB of it.
    #[serde(default)]
    pub latency_us_per_mib: f64,
    /// What each MiB of a request takes longer for each request that is under way in the
    /// controller, itself included.
    pub crowding_us_per_mib: f64,
    /// Requests of the LUN that are worked on at once.
    pub depth: usize,
    /// A flush: the array's cache outlives a power failure.
    pub flush_us: f64,
}

/// What LUNs share.
#[derive(Default)]
pub(crate) struct Controller {
    free: Nanos,
    under_way: u64,
}

/// A controller that several LUNs hold.
pub(crate) type Shared = Arc<Mutex<Controller>>;

pub(crate) struct LunDisk {
    spec: Lun,
    controller: Shared,
    free: Nanos,
    outside: VecDeque<ModelRequest>,
    inside: usize,
    ends: BTreeSet<(Nanos, u64, u64)>,
    events: u64,
}

impl LunDisk {
    pub(crate) fn new(spec: &Lun, controller: Shared) -> Self {
        Self {
            spec: spec.clone(),
            controller,
            free: 0,
            outside: VecDeque::new(),
            inside: 0,
            ends: BTreeSet::new(),
            events: 0,
        }
    }

    fn accept(&mut self, now: Nanos, request: ModelRequest) {
        let Lun { latency_us, latency_us_per_mib, crowding_us_per_mib, flush_us, .. } = self.spec;
        self.inside += 1;
        self.events += 1;
        let mut controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
        controller.under_way += 1;
        let end = if request.kind == ModelKind::Flush {
            now + micros(flush_us)
        } else {
            let rate = self.spec.controller_bytes_per_second;
            controller.free = controller.free.max(now) + transfer(request.len, rate);
            let own = micros(self.spec.command_us);
            let rate = self.spec.lun_bytes_per_second;
            self.free = self.free.max(now) + own + transfer(request.len, rate);
            let mib = request.len as f64 / f64::from(1 << 20);
            let crowd = crowding_us_per_mib * controller.under_way as f64;
            let latency = latency_us + (latency_us_per_mib + crowd) * mib;
            (now + micros(latency)).max(controller.free).max(self.free)
        };
        self.ends.insert((end, self.events, request.id));
    }
}

impl DiskModel for LunDisk {
    fn arrive(&mut self, now: Duration, request: ModelRequest) {
        if self.inside >= self.spec.depth.max(1) {
            self.outside.push_back(request);
        } else {
            self.accept(nanos(now), request);
        }
    }

    fn next(&self) -> Option<Duration> {
        self.ends.first().map(|(at, ..)| Duration::from_nanos(*at))
    }

    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>) {
        let now = nanos(now);
        while let Some((at, _, id)) = self.ends.first().copied().filter(|(at, ..)| *at <= now) {
            self.ends.pop_first();
            ended.push(id);
            self.inside -= 1;
            {
                let mut controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
                controller.under_way -= 1;
            }
            if let Some(request) = self.outside.pop_front() {
                self.accept(at, request);
            }
        }
    }
}
