//! Taking the devices of a layout for a pool.

use super::device::DeviceCheck;
use crate::devices::{Process, locked_by, use_by_system};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::faults::DeviceRefusal;
use crate::layout::Layout;
use core::time::Duration;
use device::{DeviceSource, ErrorKind as Trouble, WriteDeviceRef};
use ondisk::config::LabelConfig;
use pool::Pool;
use pool::live::{Devices, VdevSpec};
use rt::Rt;
use std::path::Path;

/// How devices are taken for a pool: each is looked at before it is opened ([`DeviceCheck`]), had
/// by this process alone from then on, and looked at again, so that nothing of value is overwritten
/// by a slip. What was taken before one is refused is free again, and nothing is written.
///
/// ```
/// use engine::devices::AnyDevices;
/// use engine::live::CreateOptions;
/// use engine::pools::{Content, CreatePool, DeviceClaim, DeviceRefusal};
/// use engine::{ErrorKind, NewPool, Rt, layout};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("a.img");
/// NewPool::new("old").file(&image, 64 << 20)?.create()?.export()?;
/// let new = CreatePool::new(
///     layout::parse(&[image.to_str().unwrap().to_owned()])?,
///     CreateOptions::new("new", Vec::new()),
/// );
/// let (source, rt) = (AnyDevices::default(), Rt::real());
/// let claim = DeviceClaim::new(&rt, &source);
/// let why = new.claim(&claim).map(drop).unwrap_err();
/// let old = DeviceRefusal::Holds(Content::Exported("old".to_owned()));
/// assert_eq!(*why.kind(), ErrorKind::DeviceRefused(old));
/// let devices = new.claim(&claim.by_force(true))?;
/// new.run(&rt, &devices)?.into_pool().export()?;
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct DeviceClaim<'a> {
    rt: &'a Rt,
    source: &'a dyn DeviceSource,
    force: bool,
    user: &'a dyn Fn(&LabelConfig, bool) -> Option<String>,
    is_inside: &'a dyn Fn(&Path) -> bool,
    wait: &'a dyn Fn(&BusyDevice<'_>) -> Result<()>,
}

/// A device that another process has.
pub struct BusyDevice<'a> {
    path: &'a Path,
    waited: Duration,
}

impl BusyDevice<'_> {
    /// The device.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.path
    }

    /// How long it was waited for.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The process that has it locked, where the system tells.
    #[must_use]
    pub fn holder(&self) -> Option<Process> {
        locked_by(&[self.path.to_owned()])
    }

    /// The error of one that does not wait any longer.
    #[must_use]
    pub fn error(&self) -> Error {
        let by = use_by_system(self.path).map(DeviceRefusal::System);
        let why = by.unwrap_or_else(|| DeviceRefusal::Held(self.holder()));
        Error::from(why).at(Place::Path(self.path.to_owned()))
    }
}

impl<'a> DeviceClaim<'a> {
    /// Of devices of this source, which hold nothing, and which no process has.
    #[must_use]
    pub fn new(rt: &'a Rt, source: &'a dyn DeviceSource) -> Self {
        Self {
            rt,
            source,
            force: false,
            user: &|_, _| None,
            is_inside: &|_| false,
            wait: &|busy| Err(busy.error()),
        }
    }

    /// Also those that hold something.
    #[must_use]
    pub fn by_force(self, force: bool) -> Self {
        Self { force, ..self }
    }

    /// Not those that a pool uses here by their labels: what `user` answers
    /// ([`crate::pools::pool_of_label`]), in spite of any force.
    #[must_use]
    pub fn unless_used(self, user: &'a dyn Fn(&LabelConfig, bool) -> Option<String>) -> Self {
        Self { user, ..self }
    }

    /// Not files of which `is_inside` says that they are in a file system of the pool that is to
    /// get them: a write would wait for the pool, and the pool for it.
    #[must_use]
    pub fn unless_inside(self, is_inside: &'a dyn Fn(&Path) -> bool) -> Self {
        Self { is_inside, ..self }
    }

    /// While another process has a device, `wait` is called: it returns after a pause, and the
    /// device is tried again, or it returns the error to fail with.
    #[must_use]
    pub fn waiting(self, wait: &'a dyn Fn(&BusyDevice<'_>) -> Result<()>) -> Self {
        Self { wait, ..self }
    }

    /// Takes the devices of a layout for this pool; `None`: for one that is yet to be made.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceRefused`] at the path of a device that is not taken, or
    /// [`ErrorKind::Device`] of one that cannot be opened; and those of waiting.
    pub fn take(&self, layout: &Layout, pool: Option<&Pool>) -> Result<Devices> {
        let check = DeviceCheck { pool, force: self.force, user: self.user };
        let spares: Vec<&str> = layout.spares.iter().flat_map(VdevSpec::leaves).collect();
        let mut out = Devices::new();
        for name in layout.paths() {
            let path = Path::new(name);
            let at = |why: DeviceRefusal| Error::from(why).at(Place::Path(path.to_owned()));
            if (self.is_inside)(path) {
                return Err(at(DeviceRefusal::InItself));
            }
            check.by_name(path).map_err(at)?;
            let device = self.open(path)?;
            check.opened(path, &device, spares.contains(&name)).map_err(at)?;
            out.insert(name.to_owned(), device);
        }
        Ok(out)
    }

    /// Opens one device for this process alone, when others that have it are done, whatever is on
    /// it.
    ///
    /// # Errors
    /// It cannot be opened, or those of waiting.
    pub fn open(&self, path: &Path) -> Result<WriteDeviceRef> {
        let began = self.rt.now();
        loop {
            match self.source.claim(path) {
                Ok(device) => return Ok(device),
                Err(e) if e.kind == Trouble::InUse => {
                    let waited = self.rt.now().saturating_sub(began);
                    (self.wait)(&BusyDevice { path, waited })?;
                }
                Err(e) => {
                    let at = Place::Path(path.to_owned());
                    return Err(Error::new(ErrorKind::Device).at(at).because(e));
                }
            }
        }
    }
}
