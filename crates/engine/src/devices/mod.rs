//! Devices by their paths: opening them, what is on them, and what works with them.
//!
//! A path is that of a file, of a disk, or of a disk and one of its partitions (`DISK#N`), as
//! searches for pools name it. What is looked at here before a device becomes part of a pool is
//! what a slip would destroy: [`use_by_system`], [`loop_above`], [`foreign`], and with
//! [`pools::look_at_device`](crate::pools::look_at_device) the labels of another pool.

mod signatures;
mod uses;

pub use device::{DeviceRef, ErrorKind, WriteDeviceRef};
pub use signatures::foreign;
pub use uses::{Process, SystemUse, locked_by, loop_above, use_by_system};

use device::gpt::Gpt;
use device::{Device as _, Error, FileDevice, Options, RwFileDevice, RwPartition};
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Devices that are open for writing, by this process alone; a disk is opened once for all its
/// partitions.
#[derive(Default)]
pub struct Disks {
    open: HashMap<PathBuf, WriteDeviceRef>,
}

impl Disks {
    /// Opens a file, a disk, or as `DISK#N` one of its partitions.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] when another process writes to it, and what the system says.
    pub fn open(&mut self, path: &Path) -> Result<WriteDeviceRef, Error> {
        let partition = path.to_str().and_then(|text| text.rsplit_once('#'));
        let number = partition.and_then(|(disk, n)| Some((disk, n.parse::<u32>().ok()?)));
        let Some((disk, number)) = number.filter(|_| !path.exists()) else {
            return self.whole(path);
        };
        let disk = self.whole(Path::new(disk))?;
        let table = Gpt::read(&*Arc::clone(&disk).as_device())?;
        let part = table.as_ref().and_then(|t| t.zfs().find(|p| p.number == number));
        let Some(part) = part else { return self.whole(path) };
        Ok(Arc::new(RwPartition::new(disk, &format!("#{number}"), part.start, part.len)))
    }

    fn whole(&mut self, path: &Path) -> Result<WriteDeviceRef, Error> {
        if let Some(device) = self.open.get(path) {
            return Ok(Arc::clone(device));
        }
        let device = RwFileDevice::open(path, &Options::default())?;
        let device: WriteDeviceRef = Arc::new(device);
        self.open.insert(path.to_owned(), Arc::clone(&device));
        Ok(device)
    }
}

/// The file or disk that a device is, or lies on.
#[must_use]
pub fn whole(path: &Path) -> PathBuf {
    let disk = path.to_str().and_then(|text| text.rsplit_once('#')).map(|(disk, _)| disk);
    disk.filter(|_| !path.exists()).map_or_else(|| path.to_owned(), PathBuf::from)
}

/// Opens a file or disk to read it or to lock it. A pipe is not waited for.
///
/// # Errors
/// When the path leads to anything else by now, and what the system says.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    match kind.is_file() || kind.is_block_device() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a disk")),
    }
}

/// Bytes of a file or disk; `None` when it cannot be opened.
#[must_use]
pub fn size(path: &Path) -> Option<u64> {
    Some(FileDevice::open(path, &Options::default()).ok()?.size())
}

/// Makes of these labels (0 to 3) what is no label, and waits until that is durable.
///
/// # Errors
/// The device is too small to have labels, or refuses.
pub fn clear_labels(device: &WriteDeviceRef, which: &[usize]) -> crate::Result<()> {
    vdev::label::clear(device.as_ref(), which).map_err(|e| crate::Error::external(e.to_string()))
}
