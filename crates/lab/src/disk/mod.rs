//! Models of disks: machines with queues, heads and caches that say how long requests take.
//!
//! A [`Spec`] is what a data sheet and a few measurements tell of a disk, and can be written down
//! as JSON. A [`Preset`] is a spec with a name and the source of its numbers. From either come
//! [`engine::inside::device::SimDevice`]s, on which the engine runs in virtual time.
//!
//! All of them are deterministic: the same requests at the same times end at the same times. The
//! seed only says where platter and heads stand when time begins.

mod garbage;
mod geometry;
mod lanes;
mod lun;
mod observed;
mod parameters;
mod presets;
mod rotating;
mod seek;
mod shingled;
mod split;
mod ssd;

pub use garbage::Garbage;
pub use lanes::Lanes;
pub use lun::Lun;
pub(crate) use observed::{Observed, WriteLog};
pub(crate) use parameters::{LONGEST_SEEK, Origins};
pub use presets::{preset, presets};
pub use rotating::{Order, Rotating, Shingled};
pub use seek::Seek;
pub use ssd::Ssd;

use engine::inside::device::{DiskModel, SimDevice, SimDisks, SimOptions, WriteDeviceRef};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Time inside a model, from the runtime's origin.
pub(crate) type Nanos = u64;

pub(crate) fn nanos(time: core::time::Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn micros(us: f64) -> Nanos {
    (us * 1e3).max(0.0).round() as Nanos
}

/// The time `bytes` take at a rate; none where there is no rate.
pub(crate) fn transfer(bytes: u64, bytes_per_second: f64) -> Nanos {
    if bytes_per_second > 0.0 { (bytes as f64 * 1e9 / bytes_per_second) as Nanos } else { 0 }
}

/// What kind of disk, with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Spec {
    /// A platter and heads.
    Rotating(Rotating),
    /// Flash memory.
    Ssd(Ssd),
    /// A part of an array.
    Lun(Lun),
    /// A number of requests at once, each of which takes a fixed time.
    Lanes(Lanes),
}

impl Spec {
    /// Switches the write cache of a disk that has one.
    pub fn switch_write_cache(&mut self, on: bool) {
        match self {
            Self::Rotating(spec) => spec.write_cache = on,
            Self::Ssd(spec) => spec.write_cache = on,
            Self::Lun(_) | Self::Lanes(_) => {}
        }
    }
}

/// The machine that issues the requests, as far as a bare disk's experiment has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Processor time of one command, in microseconds.
    pub command_cpu_us: f64,
    /// The most that its driver hands to the disk at once; longer requests become several.
    pub max_transfer_bytes: u64,
}

/// A disk by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// What it is called on the command line.
    pub name: String,
    /// What it is, in a line.
    pub description: String,
    /// Where its numbers come from.
    pub source: String,
    /// Bytes it holds.
    pub capacity_bytes: u64,
    /// The machine in front of it.
    pub host: Host,
    /// The disk.
    pub disk: Spec,
}

impl Preset {
    /// Disks of this kind that are all there is in their machine: what they share (a controller),
    /// they share with each other. They are called `name`0, `name`1 and so on.
    #[must_use]
    pub fn devices(
        &self,
        disks: &SimDisks,
        name: &str,
        count: usize,
        size: u64,
        seed: u64,
    ) -> Vec<Arc<SimDevice>> {
        self.models(count, size, seed)
            .into_iter()
            .enumerate()
            .map(|(number, model)| {
                let name = format!("{name}{number}");
                let options = SimOptions { name, size, ..SimOptions::default() };
                disks.add_model(&options, model)
            })
            .collect()
    }

    /// The same disks with their names, each behind what `watch` makes of its model.
    pub(crate) fn watched(
        &self,
        disks: &SimDisks,
        (name, count): (&str, usize),
        size: u64,
        seed: u64,
        watch: impl Fn(usize, Box<dyn DiskModel>) -> Box<dyn DiskModel>,
    ) -> Vec<(String, WriteDeviceRef)> {
        let disk = |(number, model)| {
            let name = format!("{name}{number}");
            let options = SimOptions { name: name.clone(), size, ..SimOptions::default() };
            (name, disks.add_model(&options, watch(number, model)) as WriteDeviceRef)
        };
        self.models(count, size, seed).into_iter().enumerate().map(disk).collect()
    }

    /// One disk, of `size` bytes: where that is less than it holds, its first ones.
    #[must_use]
    pub fn device(&self, disks: &SimDisks, size: u64, seed: u64) -> Arc<SimDevice> {
        let options = SimOptions { name: self.name.clone(), size, ..SimOptions::default() };
        disks.add_model(&options, self.model(size, seed))
    }

    /// The time one disk takes.
    #[must_use]
    pub fn model(&self, size: u64, seed: u64) -> Box<dyn DiskModel> {
        self.model_at(&lun::Shared::default(), size, seed)
    }

    /// The times of several disks that share what they share.
    #[must_use]
    pub fn models(&self, count: usize, size: u64, seed: u64) -> Vec<Box<dyn DiskModel>> {
        let shared = lun::Shared::default();
        let seeds = (0..count as u64).map(|disk| seed.wrapping_add(disk));
        seeds.map(|seed| self.model_at(&shared, size, seed)).collect()
    }

    fn model_at(&self, shared: &lun::Shared, size: u64, seed: u64) -> Box<dyn DiskModel> {
        let capacity = self.capacity_bytes.max(size);
        let model: Box<dyn DiskModel> = match &self.disk {
            Spec::Rotating(spec) => match &spec.shingled {
                None => Box::new(rotating::RotatingDisk::new(spec, capacity, seed)),
                Some(how) => Box::new(shingled::ShingledDisk::new(how, spec, capacity, seed)),
            },
            Spec::Ssd(spec) => Box::new(ssd::SsdDisk::new(spec)),
            Spec::Lun(spec) => Box::new(lun::LunDisk::new(spec, Arc::clone(shared))),
            Spec::Lanes(spec) => Box::new(lanes::LanesDisk::new(*spec)),
        };
        self.behind_driver(model)
    }

    fn behind_driver(&self, model: Box<dyn DiskModel>) -> Box<dyn DiskModel> {
        match self.host.max_transfer_bytes {
            0 => model,
            max => Box::new(split::Split::new(model, max)),
        }
    }
}
