//! Whether spares that wait and cache devices can be opened: nothing reads them, so nothing else
//! would tell.
//!
//! ```text
//! which there are, and where  ->  [`IdleDevices::probe`]  ->  [`LivePool::note_idle`]
//!       (`idle_devices`)            without the pool            reports say so, and an event
//! ```
//!
//! The probe needs no pool, for a device that hangs holds it up until the deadline of a request.
//! A spare whose label says that another pool has it now is there. One that was given back while it
//! was away gets the label of a spare that waits ([`LivePool::relabel_returned`]).

use super::LivePool;
use super::labels::given_back;
use crate::error::Result;
use crate::scan::look_at_device;
use device::{DeviceSource, WriteDeviceRef};
use ondisk::config::{LabelConfig, VdevConfig};
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
    /// It was given back while it was away, and this is to be written to.
    returned: Option<WriteDeviceRef>,
}

/// The spares that wait and the cache devices of a pool.
pub struct IdleDevices {
    rt: Rt,
    limits: Arc<QueueLimits>,
    /// The vdevs of the pool.
    root: VdevConfig,
    devices: Vec<IdleDevice>,
}

impl IdleDevice {
    fn probe(
        &mut self,
        (rt, limits): (&Rt, &QueueLimits),
        root: &VdevConfig,
        source: &dyn DeviceSource,
    ) {
        let look = || {
            let device = vdev::guarded_reader(rt, &source.open(&self.path).ok()?, limits);
            let label = look_at_device(&device, self.path.clone())?.config;
            let guid = match &label {
                LabelConfig::Aux(label) => label.guid,
                LabelConfig::Member(label) => label.guid?,
            };
            (guid == self.guid).then(|| (device.size(), given_back(&label, root).is_some()))
        };
        let found = look();
        self.size = found.map(|(size, _)| size);
        let is_returned = found.is_some_and(|(_, is_given_back)| is_given_back);
        self.returned = is_returned.then(|| source.claim(&self.path).ok()).flatten();
    }
}

impl IdleDevices {
    /// Opens each, and reads its label; waits for them.
    pub fn probe(&mut self, source: &dyn DeviceSource) {
        for device in &mut self.devices {
            device.probe((&self.rt, &self.limits), &self.root, source);
        }
    }

    /// Spares that were given back while they were away are here again.
    #[must_use]
    pub fn has_returned(&self) -> bool {
        self.devices.iter().any(|device| device.returned.is_some())
    }
}

impl LivePool {
    /// The spares that wait and the cache devices, to be probed.
    #[must_use]
    pub fn idle_devices(&self) -> IdleDevices {
        let (root, [spares, l2cache]) = self.members_now();
        let is_device = |v: &&VdevConfig| v.kind.has_device();
        let waits = |v: &&VdevConfig| root.find(v.guid).is_none();
        let all = spares.iter().chain(&l2cache).filter(is_device).filter(waits);
        let known = |v: &VdevConfig| {
            let path = PathBuf::from(v.path.as_ref()?);
            // What is on other machines is asked by what uses it.
            let is_near = path.is_absolute() && !far::is_far(&path);
            Some(IdleDevice { guid: v.guid, path, size: None, returned: None }).filter(|_| is_near)
        };
        let (rt, limits) = (self.shared.rt.clone(), Arc::clone(&self.shared.queues));
        let devices = all.filter_map(known).collect();
        IdleDevices { rt, limits, devices, root }
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

    /// Spares that were given back while they were away are labelled as spares that wait.
    ///
    /// # Errors
    /// The pool takes no changes, or a label cannot be written; the next probe finds it again.
    pub fn relabel_returned(&self, found: &mut IdleDevices) -> Result<()> {
        let returned = |d: &mut IdleDevice| Some((d.guid, d.returned.take()?));
        let mut returned = found.devices.iter_mut().filter_map(returned);
        returned.try_for_each(|(guid, device)| self.relabel_spare(guid, device))
    }
}
