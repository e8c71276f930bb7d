//! Devices, where they come from, what is on them, and what works with them.
//!
//! A [`DeviceSource`] makes devices from names: [`AnyDevices`] has those of this machine and of
//! others, a table of devices that are open has itself, and a program may have more
//! (decision 0022).
//!
//! ```
//! use engine::devices::{AnyDevices, DeviceSource as _};
//!
//! let file = tempfile::NamedTempFile::new().unwrap();
//! file.as_file().set_len(64 << 20).unwrap();
//! let source = AnyDevices::default();
//! assert_eq!(source.open(file.path()).unwrap().size(), 64 << 20);
//! // What is opened for writing is locked: no other process can open it.
//! let device = source.claim(file.path()).unwrap();
//! assert!(AnyDevices::default().claim(file.path()).is_err());
//! device.flush().unwrap();
//! ```
//!
//! A path is that of a file, of a disk, or of a disk and one of its partitions (`DISK#N`), as
//! searches for pools name it. Before a device becomes part of a pool, this module looks for data
//! that a slip would destroy: [`use_by_system`], [`loop_above`], [`foreign`], and with
//! [`pools::look_at_device`](crate::pools::look_at_device) the labels of another pool.

mod signatures;
mod uses;

pub use device::{
    Device, DeviceRef, DeviceSource, Error as DeviceError, ErrorKind as DeviceErrorKind,
    MemoryDevice, OpenPolicy, SilenceWatch, WriteDevice, WriteDeviceRef,
};
pub use far::{
    AnyDevices, Name as FarName, NameError as FarNameError, disk, is_bucket, is_far, price,
    why_missing,
};
pub use signatures::foreign;
pub use uses::{Process, SystemUse, locked_by, loop_above, use_by_system};

use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The file or disk that a device is, or lies on; for one of another machine the file here that has
/// its lock.
#[must_use]
pub fn whole(path: &Path) -> PathBuf {
    if let Some(Ok(name)) = FarName::parse(path) {
        return far::lock_file(&name);
    }
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

/// Opens a file that a user named to be read, or a pipe that this process has open (`/dev/fd`).
/// Another pipe may have no process that writes to it, and opening it would wait for ever.
///
/// # Errors
/// It is such a pipe, and what the system says.
pub fn open_input(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.file_type().is_fifo() {
        return Ok(file);
    }
    let own = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];
    match own.iter().any(|place| path.starts_with(place)) {
        true => File::open(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe")),
    }
}

/// The text of a file that a user named, as [`open_input`] opens it, of at most `max` bytes.
///
/// # Errors
/// It is longer, or no text, and what the system says.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    let mut text = String::new();
    let length = open_input(path)?.take(max.saturating_add(1)).read_to_string(&mut text)?;
    match length as u64 > max {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {max} bytes"))),
        false => Ok(text),
    }
}

/// Bytes of a file or disk; `None` when it cannot be opened.
#[must_use]
pub fn size(path: &Path) -> Option<u64> {
    Some(AnyDevices::default().open(path).ok()?.size())
}
