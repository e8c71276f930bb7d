//! Where devices come from: a name becomes a device.
//!
//! A caller that needs a device asks a [`DeviceSource`] for it, and does not know what is behind
//! the name. [`LocalDevices`] has the files, disks and partitions of this machine. A table of
//! devices that are open already is a source too: memory, simulated disks, and what a test wraps.
//!
//! How long to wait for an opening, and when it is tried again, is decided by an [`OpenPolicy`],
//! which a source keeps by itself: only it knows what can hang.

use crate::gpt::Gpt;
use crate::{
    DeviceRef, Error, ErrorKind, FileDevice, Options, RwFileDevice, RwPartition, Version,
    WriteDevice, WriteDeviceRef,
};
use core::time::Duration;
use parking_lot::Mutex;
use rt::Rt;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Makes devices from names.
pub trait DeviceSource: Send + Sync {
    /// The names of what is in a place, in order: of a directory the disks and the files of at
    /// least this many bytes in it, of everything else its own.
    ///
    /// # Errors
    /// The place cannot be looked at.
    fn list(&self, place: &Path, least: u64) -> io::Result<Vec<PathBuf>> {
        let _ = least;
        Ok(vec![place.to_owned()])
    }

    /// Opens a device for reading.
    ///
    /// # Errors
    /// It cannot be opened, or does not answer in time ([`ErrorKind::NoAnswer`]).
    fn open(&self, name: &Path) -> Result<DeviceRef, Error>;

    /// Opens a device for writing, for the caller alone, until the last holder lets go of it.
    /// Called again for the same name until then, a source returns the same device.
    ///
    /// # Errors
    /// Another program has it ([`ErrorKind::InUse`]); it cannot be opened, or does not answer.
    fn claim(&self, name: &Path) -> Result<WriteDeviceRef, Error>;

    /// The version of the file or disk of a name, as far as that can be determined without opening
    /// it; `None`: it cannot be, or there is none.
    fn version(&self, name: &Path) -> Option<Version> {
        let _ = name;
        None
    }

    /// Openings that took longer than they should ([`OpenPolicy::slow`]), and how long, since the
    /// last call.
    fn take_slow(&self) -> Vec<(PathBuf, Duration)> {
        Vec::new()
    }
}

/// How long an opening is waited for, and how often it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPolicy {
    /// An opening that fails by what may pass is tried again for this time.
    pub again: Duration,
    /// The time between two tries.
    pub pause: Duration,
    /// An opening that takes longer is given up, and its device counts as one that does not answer.
    pub limit: Duration,
    /// One that takes longer is reported ([`DeviceSource::take_slow`]).
    pub slow: Duration,
}

impl Default for OpenPolicy {
    fn default() -> Self {
        Self {
            again: Duration::from_millis(200),
            pause: Duration::from_millis(50),
            // A disk that was spun down takes up to half of it.
            limit: Duration::from_secs(20),
            slow: Duration::from_secs(3),
        }
    }
}

impl OpenPolicy {
    /// Does `open`, and again as long as it fails by what `passes` says may pass.
    ///
    /// # Errors
    /// The last one of `open`.
    pub fn again<T>(
        &self,
        rt: &Rt,
        passes: impl Fn(ErrorKind) -> bool,
        mut open: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let until = rt.now() + self.again;
        loop {
            match open() {
                Err(e) if passes(e.kind) && rt.now() < until => rt.sleep(self.pause),
                done => return done,
            }
        }
    }

    /// Does `open` in a thread of its own, which is left alone when it takes too long: what it
    /// opens then is closed as soon as it is open.
    ///
    /// # Errors
    /// That of `open`, or [`ErrorKind::NoAnswer`].
    pub fn limited<T: Send + 'static>(
        &self,
        rt: &Rt,
        name: &Path,
        open: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let fail = |kind| Err(Error::open(kind, &Arc::from(name.to_string_lossy())));
        let shared = Arc::new((Mutex::new(None), rt.condvar()));
        let opening = Arc::clone(&shared);
        let body = Arc::new(Mutex::new(Some(open)));
        let own = Arc::clone(&body);
        let thread = rt.spawn("open", move || {
            let Some(open) = own.lock().take() else { return };
            let result = open();
            *opening.0.lock() = Some(result);
            opening.1.notify_one();
        });
        if thread.is_err() {
            // The system gives us no thread: then it may hang the caller.
            let open = body.lock().take();
            return open.map_or_else(|| fail(ErrorKind::OutOfMemory), |open| open());
        }
        let until = rt.now() + self.limit;
        let mut result = shared.0.lock();
        while result.is_none() && rt.now() < until {
            shared.1.wait_until(&mut result, until);
        }
        result.take().unwrap_or_else(|| fail(ErrorKind::NoAnswer))
    }
}

/// The files, disks and partitions of this machine. A partition that the system does not name has
/// the name of its disk with `#` and its number behind it; a disk that is claimed is opened once
/// for all its partitions.
pub struct LocalDevices {
    options: Options,
    patience: OpenPolicy,
    rt: Rt,
    claimed: Mutex<HashMap<PathBuf, Weak<dyn WriteDevice>>>,
    slow: Mutex<Vec<(PathBuf, Duration)>>,
}

impl Default for LocalDevices {
    fn default() -> Self {
        Self::new(Options::default(), OpenPolicy::default())
    }
}

impl LocalDevices {
    /// Devices that are opened in this way.
    #[must_use]
    pub fn new(options: Options, patience: OpenPolicy) -> Self {
        let (claimed, slow) = (Mutex::default(), Mutex::default());
        Self { options, patience, rt: Rt::real(), claimed, slow }
    }

    /// Makes an opening with the patience of this source. A device counts as open when it answered
    /// a read: one that hangs often does so only then. The answer itself does not matter.
    fn patiently<T: AsReader + Send + 'static>(
        &self,
        path: &Path,
        open: fn(&Path, &Options) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let began = self.rt.now();
        let opened = self.patience.again(&self.rt, may_pass, || {
            let (name, options) = (path.to_owned(), self.options.clone());
            self.patience.limited(&self.rt, path, move || {
                let device = open(&name, &options)?;
                let _ = device.reader().read(0, &mut [0; 512]);
                Ok(device)
            })
        });
        let took = self.rt.now().saturating_sub(began);
        if took >= self.patience.slow {
            self.slow.lock().push((path.to_owned(), took));
        }
        opened
    }

    fn claim_whole(&self, path: &Path) -> Result<WriteDeviceRef, Error> {
        let known = self.claimed.lock().get(path).and_then(Weak::upgrade);
        if let Some(device) = known {
            return Ok(device);
        }
        let device: WriteDeviceRef = Arc::new(self.patiently(path, RwFileDevice::open)?);
        self.claimed.lock().insert(path.to_owned(), Arc::downgrade(&device));
        Ok(device)
    }
}

/// The common part of both kinds of files.
trait AsReader {
    fn reader(&self) -> &dyn crate::Device;
}

impl AsReader for FileDevice {
    fn reader(&self) -> &dyn crate::Device {
        self
    }
}

impl AsReader for RwFileDevice {
    fn reader(&self) -> &dyn crate::Device {
        self
    }
}

impl DeviceSource for LocalDevices {
    fn list(&self, place: &Path, least: u64) -> io::Result<Vec<PathBuf>> {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = std::fs::metadata(place)?;
        if !kind.is_dir() {
            return Ok(vec![place.to_owned()]);
        }
        let mut out = Vec::new();
        for entry in std::fs::read_dir(place)? {
            let name = entry?.path();
            let is_one = |m: std::fs::Metadata| {
                m.file_type().is_block_device() || (m.is_file() && m.len() >= least)
            };
            if std::fs::metadata(&name).is_ok_and(is_one) {
                out.push(name);
            }
        }
        out.sort();
        Ok(out)
    }

    fn open(&self, name: &Path) -> Result<DeviceRef, Error> {
        let whole = |path: &Path| -> Result<DeviceRef, Error> {
            Ok(Arc::new(self.patiently(path, FileDevice::open)?))
        };
        let Some((disk, number)) = partition(name) else { return whole(name) };
        let disk = whole(disk)?;
        let table = Gpt::read(disk.as_ref())?;
        match table.as_ref().and_then(|t| t.zfs().find(|p| p.number == number)) {
            Some(part) => Ok(Arc::new(part.open(&disk))),
            None => whole(name),
        }
    }

    fn claim(&self, name: &Path) -> Result<WriteDeviceRef, Error> {
        let Some((disk, number)) = partition(name) else { return self.claim_whole(name) };
        let disk = self.claim_whole(disk)?;
        let table = Gpt::read(&*Arc::clone(&disk).as_device())?;
        let part = table.as_ref().and_then(|t| t.zfs().find(|p| p.number == number));
        let Some(part) = part else { return self.claim_whole(name) };
        Ok(Arc::new(RwPartition::new(disk, &format!("#{number}"), part.start, part.len)))
    }

    fn version(&self, name: &Path) -> Option<Version> {
        let disk = partition(name).map_or(name, |(disk, _)| disk);
        Version::of(disk).ok()
    }

    fn take_slow(&self) -> Vec<(PathBuf, Duration)> {
        std::mem::take(&mut self.slow.lock())
    }
}

/// Devices that are open, by their names.
impl DeviceSource for BTreeMap<String, WriteDeviceRef> {
    fn list(&self, place: &Path, least: u64) -> io::Result<Vec<PathBuf>> {
        let is_there = |(name, device): &(&String, &WriteDeviceRef)| {
            let name = Path::new(name);
            name == place || (name.parent() == Some(place) && device.size() >= least)
        };
        Ok(self.iter().filter(is_there).map(|(name, _)| PathBuf::from(name)).collect())
    }

    fn open(&self, name: &Path) -> Result<DeviceRef, Error> {
        self.claim(name).map(|device| device.as_device())
    }

    fn claim(&self, name: &Path) -> Result<WriteDeviceRef, Error> {
        let absent = || Error::open(ErrorKind::Gone, &Arc::from(name.to_string_lossy()));
        let device = name.to_str().and_then(|name| self.get(name)).cloned().ok_or_else(absent)?;
        // Like one that is newly opened.
        device.forget_failed_flush();
        Ok(device)
    }
}

/// The disk and the number of a partition that the system does not name.
fn partition(name: &Path) -> Option<(&Path, u32)> {
    let (disk, number) = name.to_str()?.rsplit_once('#')?;
    let number = number.parse().ok()?;
    (!name.exists()).then_some((Path::new(disk), number))
}

/// Another try may succeed: the system was short of something, was interrupted, or the device was
/// not ready.
fn may_pass(kind: ErrorKind) -> bool {
    use libc::{EAGAIN, EINTR, EIO};
    matches!(kind, ErrorKind::OutOfMemory | ErrorKind::Io { errno: EAGAIN | EINTR | EIO })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;
    use core::sync::atomic::{AtomicU32, Ordering};

    fn failed(kind: ErrorKind) -> Error {
        Error::open(kind, &Arc::from("disk"))
    }

    #[test]
    fn what_passes_is_tried_again_and_the_rest_is_not() {
        Rt::simulate(1, |rt| {
            let patience = OpenPolicy::default();
            let eio = ErrorKind::Io { errno: libc::EIO };
            for (kind, tries) in [(eio, 5), (ErrorKind::InUse, 1), (ErrorKind::Gone, 1)] {
                let (mut n, began) = (0, rt.now());
                let result: Result<(), _> = patience.again(rt, may_pass, || {
                    n += 1;
                    Err(failed(kind))
                });
                assert_eq!((n, result), (tries, Err(failed(kind))));
                assert!(rt.now() - began <= patience.again + patience.pause);
            }
            let mut n = 0;
            let result = patience.again(rt, may_pass, || {
                n += 1;
                if n == 3 { Ok(n) } else { Err(failed(eio)) }
            });
            assert_eq!(result, Ok(3));
        });
    }

    #[test]
    fn what_hangs_is_given_up_and_what_comes_late_is_closed() {
        struct Late(Arc<AtomicU32>);
        impl Drop for Late {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        Rt::simulate(2, |rt| {
            let (patience, closed) = (OpenPolicy::default(), Arc::new(AtomicU32::new(0)));
            let hang = |time: Duration| {
                let (sleeper, closed) = (rt.clone(), Arc::clone(&closed));
                patience.limited(rt, Path::new("disk"), move || {
                    sleeper.sleep(time);
                    Ok(Late(closed))
                })
            };
            let began = rt.now();
            let result = hang(Duration::from_secs(3600));
            assert_eq!(result.err(), Some(failed(ErrorKind::NoAnswer)));
            assert_eq!(rt.now() - began, patience.limit);
            assert!(hang(Duration::from_secs(19)).is_ok());
            assert_eq!(closed.load(Ordering::SeqCst), 1);
            rt.sleep(Duration::from_secs(4000));
            assert_eq!(closed.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn a_file_is_found_opened_and_claimed_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, size) in [("large", 4096), ("other", 8192), ("small", 100)] {
            std::fs::write(at(name), vec![7; size]).unwrap();
        }
        let source = LocalDevices::new(
            Options::default(),
            OpenPolicy { slow: Duration::ZERO, ..OpenPolicy::default() },
        );
        assert_eq!(source.list(folder.path(), 4096).unwrap(), [at("large"), at("other")]);
        assert_eq!(source.list(&at("small"), 4096).unwrap(), [at("small")]);
        assert!(source.list(&at("none"), 0).is_err());
        assert_eq!(source.open(&at("large")).unwrap().size(), 4096);
        let absent = source.open(&at("none")).err().unwrap();
        assert_eq!(absent.kind, ErrorKind::Io { errno: libc::ENOENT });
        let device = source.claim(&at("large")).unwrap();
        assert!(Arc::ptr_eq(&device, &source.claim(&at("large")).unwrap()));
        let others = LocalDevices::default();
        assert_eq!(others.claim(&at("large")).err().unwrap().kind, ErrorKind::InUse);
        // It is held as long as one holder has it, and not by the source.
        let second = source.claim(&at("large")).unwrap();
        drop(device);
        assert!(others.claim(&at("large")).is_err());
        drop(second);
        assert!(others.claim(&at("large")).is_ok());
        drop(source.take_slow());
        assert!(others.take_slow().is_empty());
    }

    #[test]
    fn slow_openings_are_told_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0; 4096]).unwrap();
        let slow = OpenPolicy { slow: Duration::ZERO, ..OpenPolicy::default() };
        let source = LocalDevices::new(Options::default(), slow);
        source.open(file.path()).unwrap();
        let slow_openings = source.take_slow();
        assert_eq!(
            slow_openings.iter().map(|(path, _)| path.as_path()).collect::<Vec<_>>(),
            [file.path()]
        );
        assert!(source.take_slow().is_empty());
    }

    #[test]
    fn a_table_of_devices_is_a_source() {
        let device = |name: &str| Arc::new(MemoryDevice::zeros(name, 4096)) as WriteDeviceRef;
        let names = ["/memory/0", "/memory/1", "/other"];
        let table = BTreeMap::from(names.map(|name| (name.to_owned(), device(name))));
        let listed = table.list(Path::new("/memory"), 1).unwrap();
        assert_eq!(listed, [PathBuf::from("/memory/0"), PathBuf::from("/memory/1")]);
        assert!(table.list(Path::new("/memory"), 8192).unwrap().is_empty());
        assert_eq!(table.open(Path::new("/other")).unwrap().name(), "/other");
        assert_eq!(table.claim(Path::new("/none")).err().unwrap().kind, ErrorKind::Gone);
    }
}
