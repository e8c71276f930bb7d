//! Devices of all names: of this machine and of others.

use crate::name::{Name, NameError};
use crate::{disk, nbd};
use device::gpt::Gpt;
use device::{
    DeviceRef, DeviceSource, Error, ErrorKind, LocalDevices, OpenPolicy, RwPartition, SilenceWatch,
    Version, WriteDevice, WriteDeviceRef,
};
use parking_lot::Mutex;
use rt::Rt;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The devices of this machine ([`LocalDevices`]), and those of others by their names. A partition
/// of a far leaf has its number behind a `#`, as on a disk that the system does not divide.
#[derive(Default)]
pub struct AnyDevices {
    near: LocalDevices,
    patience: OpenPolicy,
    claimed: Mutex<HashMap<PathBuf, Weak<dyn WriteDevice>>>,
    slow: Mutex<Vec<(PathBuf, Duration)>>,
    /// Far leaves that did not answer when they were opened last, and when that was.
    silent: Mutex<HashMap<PathBuf, Duration>>,
    /// What looks at the devices while they are used.
    watch: Option<Arc<SilenceWatch>>,
}

/// A far leaf, and the number of a partition of it.
fn far(path: &Path) -> Option<Result<(Name, Option<u32>), NameError>> {
    let text = path.to_str()?;
    let (whole, number) = match text.rsplit_once('#') {
        Some((whole, number)) => match number.parse() {
            Ok(number) => (Path::new(whole), Some(number)),
            Err(_) => (path, None),
        },
        None => (path, None),
    };
    Name::parse(whole).map(|name| name.map(|name| (name, number)))
}

fn no_name(path: &Path, NameError(why): NameError) -> Error {
    Error::open(ErrorKind::Refused(why), &Arc::from(path.to_string_lossy()))
}

fn open_far(name: &Name) -> Result<DeviceRef, Error> {
    if name.is_store() { disk::open_leaf(name) } else { nbd::open(name) }
}

fn claim_far(name: &Name) -> Result<WriteDeviceRef, Error> {
    if name.is_store() { disk::claim_leaf(name) } else { nbd::claim(name) }
}

/// How long the reason why a far leaf is not there is waited for, and one that has just been waited
/// for in vain: what looks at a pool opens each device more than once.
const ASKING: Duration = Duration::from_secs(3);
/// For this time.
const JUST: Duration = Duration::from_secs(10);

/// Why a far leaf cannot be opened; `None` of one that can be, or is near. Does not wait long.
#[must_use]
pub fn why_missing(path: &Path) -> Option<Error> {
    let _is_far = far(path)?;
    let patience = OpenPolicy { limit: ASKING, ..OpenPolicy::default() };
    AnyDevices { patience, ..AnyDevices::default() }.open(path).err()
}

impl AnyDevices {
    /// The same, looked at while they are used.
    #[must_use]
    pub fn watched(watch: &Arc<SilenceWatch>) -> Self {
        Self { watch: Some(Arc::clone(watch)), ..Self::default() }
    }

    fn patiently<T: Send + 'static>(
        &self,
        name: &Name,
        open: fn(&Name) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (rt, path) = (Rt::real(), PathBuf::from(name.as_str()));
        let (began, own) = (rt.now(), name.clone());
        let last = self.silent.lock().remove(&path);
        let is_again = last.is_some_and(|at| began.saturating_sub(at) < JUST);
        let shorter = OpenPolicy { limit: ASKING.min(self.patience.limit), ..self.patience };
        let patience = if is_again { &shorter } else { &self.patience };
        let opened = patience.limited(&rt, &path, move || open(&own));
        let took = rt.now().saturating_sub(began);
        // The next time but one all of the time is given again.
        if !is_again && opened.as_ref().is_err_and(|e| e.kind == ErrorKind::NoAnswer) {
            self.silent.lock().insert(path.clone(), rt.now());
        }
        if took >= self.patience.slow {
            self.slow.lock().push((path, took));
        }
        opened
    }

    fn open_unwatched(&self, path: &Path) -> Result<DeviceRef, Error> {
        let Some(name) = far(path) else { return self.near.open(path) };
        let (name, number) = name.map_err(|e| no_name(path, e))?;
        let whole = self.patiently(&name, open_far)?;
        let Some(number) = number else { return Ok(whole) };
        let table = Gpt::read(whole.as_ref())?;
        match table.as_ref().and_then(|t| t.zfs().find(|p| p.number == number)) {
            Some(part) => Ok(Arc::new(part.open(&whole))),
            None => Err(Error::open(ErrorKind::Gone, &Arc::from(path.to_string_lossy()))),
        }
    }

    fn claim_unwatched(&self, path: &Path) -> Result<WriteDeviceRef, Error> {
        let Some(name) = far(path) else { return self.near.claim(path) };
        let (name, number) = name.map_err(|e| no_name(path, e))?;
        let key = PathBuf::from(name.as_str());
        let known = self.claimed.lock().get(&key).and_then(Weak::upgrade);
        let whole = match known {
            Some(device) => device,
            None => {
                let device = self.patiently(&name, claim_far)?;
                self.claimed.lock().insert(key, Arc::downgrade(&device));
                device
            }
        };
        let Some(number) = number else { return Ok(whole) };
        let table = Gpt::read(&*Arc::clone(&whole).as_device())?;
        match table.as_ref().and_then(|t| t.zfs().find(|p| p.number == number)) {
            Some(part) => {
                let name = format!("#{number}");
                Ok(Arc::new(RwPartition::new(whole, &name, part.start, part.len)))
            }
            None => Err(Error::open(ErrorKind::Gone, &Arc::from(path.to_string_lossy()))),
        }
    }
}

impl DeviceSource for AnyDevices {
    fn list(&self, place: &Path, least: u64) -> io::Result<Vec<PathBuf>> {
        match far(place) {
            None => self.near.list(place, least),
            Some(_) => Ok(vec![place.to_owned()]),
        }
    }

    fn open(&self, path: &Path) -> Result<DeviceRef, Error> {
        let device = self.open_unwatched(path)?;
        self.watch.iter().for_each(|watch| watch.add(&device));
        Ok(device)
    }

    fn claim(&self, path: &Path) -> Result<WriteDeviceRef, Error> {
        let device = self.claim_unwatched(path)?;
        self.watch.iter().for_each(|watch| watch.add(&Arc::clone(&device).as_device()));
        Ok(device)
    }

    fn version(&self, path: &Path) -> Option<Version> {
        if far(path).is_some() { None } else { self.near.version(path) }
    }

    fn take_slow(&self) -> Vec<(PathBuf, Duration)> {
        let mut slow = self.near.take_slow();
        slow.append(&mut self.slow.lock());
        slow
    }
}
