//! Calls of the operating system that the standard library does not have.
//!
//! Without them extended attributes, devices and the times of links cannot be kept: each is then
//! reported by name as not kept, never passed over in silence.

use engine::zpl::{FileKind, Time};
use std::io;
use std::path::Path;

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this build of zinc cannot set it")
}

/// Sets an extended attribute of what the path itself stands for.
pub fn set_xattr(_path: &Path, _name: &[u8], _value: &[u8]) -> io::Result<()> {
    Err(unsupported())
}

/// Sets an extended attribute of the open file the path leads to.
pub fn set_xattr_of_open(_path: &Path, _name: &[u8], _value: &[u8]) -> io::Result<()> {
    Err(unsupported())
}

/// Sets the times of what the path itself stands for.
pub fn set_times(_path: &Path, _accessed: Time, _modified: Time) -> io::Result<()> {
    Err(unsupported())
}

/// Makes a named pipe, socket or device.
pub fn make_special(_path: &Path, _kind: FileKind, _device: (u32, u32)) -> io::Result<()> {
    Err(unsupported())
}
