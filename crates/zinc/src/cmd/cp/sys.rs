//! Calls of the operating system that the standard library does not have.

use engine::zpl::{FileKind, Time};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lsetxattr, makedev, mknodat,
    setxattr, utimensat,
};
use std::io;
use std::path::Path;

/// Sets an extended attribute of what the path itself stands for.
pub fn set_xattr(path: &Path, name: &[u8], value: &[u8]) -> io::Result<()> {
    Ok(lsetxattr(path, name, value, XattrFlags::empty())?)
}

/// Sets an extended attribute of the open file the path leads to.
pub fn set_xattr_of_open(path: &Path, name: &[u8], value: &[u8]) -> io::Result<()> {
    Ok(setxattr(path, name, value, XattrFlags::empty())?)
}

/// Sets the times of what the path itself stands for.
pub fn set_times(path: &Path, accessed: Time, modified: Time) -> io::Result<()> {
    let spec = |t: Time| Timespec { tv_sec: t.seconds, tv_nsec: t.nanos.min(999_999_999) as i64 };
    let times = Timestamps { last_access: spec(accessed), last_modification: spec(modified) };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Makes a named pipe, socket or device.
pub fn make_special(path: &Path, kind: FileKind, device: (u32, u32)) -> io::Result<()> {
    let (kind, dev) = match kind {
        FileKind::Fifo => (FileType::Fifo, 0),
        FileKind::Socket => (FileType::Socket, 0),
        FileKind::Block => (FileType::BlockDevice, makedev(device.0, device.1)),
        FileKind::Char => (FileType::CharacterDevice, makedev(device.0, device.1)),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    Ok(mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), dev)?)
}
