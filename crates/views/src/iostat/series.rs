//! Snapshots of a pool that is watched, and what is shown of them.

use engine::stats::{Snapshot, VdevStats};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The snapshots of one pool.
#[derive(Default)]
pub struct Series {
    last: Option<Snapshot>,
    now: Option<Snapshot>,
    devices: BTreeMap<u64, String>,
}

impl Series {
    /// Adds the next one, whose vdevs get the names that are shown by `rename`. A warning when the
    /// pool was suspended since the one before: its columns only show that nothing is written.
    pub fn add(&mut self, mut now: Snapshot, rename: impl FnOnce(&mut Snapshot)) -> Option<String> {
        let is_device = |v: &&VdevStats| v.name.starts_with('/');
        let devices = now.vdevs.iter().filter(is_device);
        self.devices.extend(devices.map(|v| (v.guid, v.name.clone())));
        rename(&mut now);
        let was = self.now.as_ref().is_some_and(|before| before.suspended.is_some());
        let why = now.suspended.as_ref().filter(|_| !was);
        let warning = why.map(|why| format!("warning: '{}' is SUSPENDED: {why}", now.pool));
        self.last = self.now.replace(now);
        warning
    }

    /// Paths of the devices, by guid.
    #[must_use]
    pub fn devices(&self) -> &BTreeMap<u64, String> {
        &self.devices
    }

    /// The figures of the last interval, and whether they are of all the time since the pool was
    /// opened, because there is one snapshot only; `None` when there is none.
    #[must_use]
    pub fn shown(&self) -> Option<(Snapshot, bool)> {
        match (&self.now, &self.last) {
            (Some(now), Some(last)) => Some((now.since(last), false)),
            (now, _) => Some((now.clone()?, true)),
        }
    }
}

/// The figures of pools as JSON, by the names of the pools.
#[must_use]
pub fn json(pools: &[(Snapshot, bool)]) -> Map<String, Value> {
    let value = |s: &Snapshot| serde_json::to_value(s).unwrap_or(Value::Null);
    pools.iter().map(|(s, _)| (s.pool.clone(), value(s))).collect()
}
