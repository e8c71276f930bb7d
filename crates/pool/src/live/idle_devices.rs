//! Whether spares that wait and cache devices can be opened: nothing reads them, so nothing else
//! would tell.
//!
//! ```text
//! which there are, and where  ->  [`IdleDevices::probe`]  ->  [`LivePool::note_idle`]
//!       (`idle_devices`)            without the pool            reports say so, and an event
//! ```
//!
//! The probe needs no pool, for a device that hangs holds it up until the deadline of a request.
//! A spare whose label says that another pool has it now is there.

use super::LivePool;
use crate::scan::look_at_device;
use device::DeviceSource;
use ondisk::config::{LabelConfig, VdevConfig, VdevKind};
use rt::Rt;
use std::path::PathBuf;
use std::sync::Arc;
use vdev::VdevState;
use vdev::queue::QueueLimits;

/// A spare that waits or a cache device.
struct IdleDevice {
    guid: u64,
    path: PathBuf,
    /// Its size in bytes; `None`: it cannot be opened, or is another.
    size: Option<u64>,
}

/// The spares that wait and the cache devices of a pool.
pub struct IdleDevices {
    rt: Rt,
    limits: Arc<QueueLimits>,
    devices: Vec<IdleDevice>,
}

impl IdleDevice {
    fn probe(&mut self, rt: &Rt, limits: &QueueLimits, source: &dyn DeviceSource) {
        let look = || {
            let device = vdev::guarded_reader(rt, &source.open(&self.path).ok()?, limits);
            let guid = match look_at_device(&device, self.path.clone())?.config {
                LabelConfig::Aux(label) => label.guid,
                LabelConfig::Member(label) => label.guid?,
            };
            Some((guid, device.size()))
        };
        self.size = look().filter(|(guid, _)| *guid == self.guid).map(|(_, size)| size);
    }
}

impl IdleDevices {
    /// Opens each, and reads its label; waits for them.
    pub fn probe(&mut self, source: &dyn DeviceSource) {
        for device in &mut self.devices {
            device.probe(&self.rt, &self.limits, source);
        }
    }
}

impl LivePool {
    /// The spares that wait and the cache devices, to be probed.
    #[must_use]
    pub fn idle_devices(&self) -> IdleDevices {
        let (root, [spares, l2cache]) = self.members_now();
        let is_device = |v: &&VdevConfig| matches!(v.kind, VdevKind::Disk | VdevKind::File);
        let waits = |v: &&VdevConfig| root.find(v.guid).is_none();
        let all = spares.iter().chain(&l2cache).filter(is_device).filter(waits);
        let known = |v: &VdevConfig| {
            let path = PathBuf::from(v.path.as_ref()?);
            // What is on other machines is asked by what uses it.
            let is_near = path.is_absolute() && !far::is_far(&path);
            Some(IdleDevice { guid: v.guid, path, size: None }).filter(|_| is_near)
        };
        let (rt, limits) = (self.shared.rt.clone(), Arc::clone(&self.shared.queues));
        IdleDevices { rt, limits, devices: all.filter_map(known).collect() }
    }

    /// Reports say from now on what the probe found.
    pub fn note_idle(&self, found: &IdleDevices) {
        for device in &found.devices {
            let mut sizes = self.shared.aux_sizes.lock();
            let was_there = match device.size {
                Some(size) => sizes.insert(device.guid, size).is_some(),
                None => sizes.remove(&device.guid).is_some(),
            };
            drop(sizes);
            let state = |is_there| if is_there { VdevState::Online } else { VdevState::Unavail };
            let is_there = device.size.is_some();
            if was_there != is_there {
                let path = device.path.to_string_lossy();
                self.shared.post_state(device.guid, &path, state(was_there), state(is_there));
            }
        }
    }
}
