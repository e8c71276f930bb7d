//! Making a pool of files, or in memory.

use crate::error::{Error, ErrorKind, Place, Result};
use device::{DeviceSource, MemoryDevice, Options, RwFileDevice, WriteDeviceRef};
use far::{AnyDevices, is_far};
use pool::live::{CreateOptions, Devices, LivePool, NewTop, SpaceClass, VdevSpec, create};
use rt::Rt;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A pool to be made of files, disks or memory, with a top-level vdev for each call that adds one.
/// Data is striped over them. Files that it makes are removed again when there comes no pool of
/// them. Pools that have vdevs for special uses are made with
/// [`CreatePool`](crate::pools::CreatePool).
///
/// ```
/// use engine::{Create, NewPool, OpenOptions, Pool};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = |name: &str| folder.path().join(name);
/// let (a, b) = (image("a.img"), image("b.img"));
/// let pool = NewPool::new("tank").mirror(&[&a, &b], 64 << 20)?.create()?;
/// Create::filesystem("tank/home")?.run(&pool)?;
/// pool.export()?;
///
/// let pool = Pool::open("tank", &OpenOptions::in_places([&a, &b]))?;
/// assert_eq!(pool.filesystem("tank/home")?.root()?.links, 2);
/// # Ok::<(), engine::Error>(())
/// ```
pub struct NewPool {
    options: CreateOptions,
    devices: Devices,
    source: Arc<dyn DeviceSource>,
    rt: Rt,
    made: MadeFiles,
}

/// Files that were not there before, and are removed when this is dropped.
#[derive(Default)]
struct MadeFiles(Vec<PathBuf>);

impl MadeFiles {
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // Of one that stays the next that is made of that name says so.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl NewPool {
    /// A pool of that name, of nothing yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let (options, devices) = (CreateOptions::new(name, Vec::new()), Devices::new());
        let (source, rt) = (Arc::new(AnyDevices::default()), Rt::real());
        Self { options, devices, source, rt, made: MadeFiles::default() }
    }

    /// Has the pool run on this runtime, which may be a simulation.
    #[must_use]
    pub fn with_rt(mut self, rt: &Rt) -> Self {
        self.rt = rt.clone();
        self
    }

    /// Has the devices that are added from now on opened by this source, instead of as those of
    /// this machine and of others are.
    #[must_use]
    pub fn with_source(mut self, source: Arc<dyn DeviceSource>) -> Self {
        self.source = source;
        self
    }

    /// Adds an existing device: a disk or file of this machine, one of another by its name, or
    /// whatever the source has. Its contents are lost.
    ///
    /// # Errors
    /// It cannot be opened for writing.
    pub fn device(mut self, name: impl AsRef<Path>) -> Result<Self> {
        let name = name.as_ref();
        let is_disk = is_far(name)
            || std::fs::metadata(name).is_ok_and(|found| found.file_type().is_block_device());
        let spec = self.claim(name, !is_disk)?;
        Ok(self.top(spec))
    }

    /// Adds a file, which is made `bytes` long.
    ///
    /// # Errors
    /// There is something of that name already, or the file cannot be made.
    pub fn file(mut self, path: impl AsRef<Path>, bytes: u64) -> Result<Self> {
        let spec = self.leaf(path.as_ref(), bytes)?;
        Ok(self.top(spec))
    }

    /// Adds files that all hold the same, each `bytes` long.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn mirror(mut self, paths: &[impl AsRef<Path>], bytes: u64) -> Result<Self> {
        let leaves = paths.iter().map(|path| self.leaf(path.as_ref(), bytes));
        let leaves = leaves.collect::<Result<Vec<_>>>()?;
        Ok(self.top(VdevSpec::Mirror(leaves)))
    }

    /// Adds files of which any `parity` (1 to 3) may be lost, each `bytes` long.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn raidz(mut self, parity: u64, paths: &[impl AsRef<Path>], bytes: u64) -> Result<Self> {
        let leaves = paths.iter().map(|path| self.leaf(path.as_ref(), bytes));
        let children = leaves.collect::<Result<Vec<_>>>()?;
        Ok(self.top(VdevSpec::Raidz { nparity: parity, children }))
    }

    /// Adds `bytes` of memory: what is in it ends with the pool.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        let path = format!("/memory/{}", self.devices.len());
        let device: WriteDeviceRef = Arc::new(MemoryDevice::zeros(&path, bytes));
        self.devices.insert(path.clone(), device);
        self.top(VdevSpec::Leaf { path, is_file: true })
    }

    /// Changes the other options of a pool: features, properties, tunables.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut CreateOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Makes it; it is durable when this returns, and open.
    ///
    /// # Errors
    /// These devices or options make no pool, or a device fails.
    pub fn create(self) -> Result<LivePool> {
        let pool = create(&self.rt, &self.options, &self.devices)?;
        self.made.keep();
        Ok(pool)
    }

    fn top(mut self, spec: VdevSpec) -> Self {
        self.options.tops.push(NewTop { spec, class: SpaceClass::Normal });
        self
    }

    fn leaf(&mut self, path: &Path, bytes: u64) -> Result<VdevSpec> {
        // Labels have whole paths: they are looked for from elsewhere.
        let whole: PathBuf = std::path::absolute(path)?;
        if std::fs::symlink_metadata(&whole).is_err() {
            self.made.0.push(whole.clone());
        }
        let made = RwFileDevice::create(&whole, bytes, &Options::default());
        drop(made.map_err(|e| failed(&whole, e))?);
        self.claim(&whole, true)
    }

    fn claim(&mut self, name: &Path, is_file: bool) -> Result<VdevSpec> {
        let Some(path) = name.to_str().map(str::to_owned) else {
            return Err(Error::new(ErrorKind::InvalidName).at(Place::Path(name.to_owned())));
        };
        let device = self.source.claim(name).map_err(|e| failed(name, e))?;
        self.devices.insert(path.clone(), device);
        Ok(VdevSpec::Leaf { path, is_file })
    }
}

fn failed(path: &Path, e: device::Error) -> Error {
    Error::new(ErrorKind::Device).at(Place::Path(path.to_owned())).because(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_pool_is_an_error() {
        assert!(NewPool::new("tank").create().is_err());
        assert!(NewPool::new("tank").memory(1 << 20).create().is_err());
        let folder = tempfile::tempdir().unwrap();
        assert!(NewPool::new("tank").file(folder.path(), 64 << 20).is_err());
    }

    #[test]
    fn files_are_removed_of_which_no_pool_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let [new, old] = ["new.img", "old.img"].map(|name| folder.path().join(name));
        std::fs::write(&old, "something else").unwrap();
        let pool = || NewPool::new("tank").file(&new, 64 << 20).unwrap();
        assert!(pool().memory(1 << 20).create().is_err());
        assert!(pool().file(&old, 64 << 20).is_err());
        assert!(pool().mirror(&[folder.path()], 64 << 20).is_err());
        assert!(!new.exists());
        assert_eq!(std::fs::read(&old).unwrap(), b"something else");
        pool().create().unwrap().export().unwrap();
        assert!(new.exists());
    }

    /// A program that shares a pool between threads, or an async runtime does, needs this.
    #[test]
    fn pools_and_what_is_in_them_are_shared_by_threads() {
        fn is_shared<T: Send + Sync>() {}
        is_shared::<LivePool>();
        is_shared::<crate::Pool>();
        is_shared::<crate::Filesystem>();
        is_shared::<crate::Volume>();
        is_shared::<crate::Node>();
        is_shared::<Error>();
    }
}
