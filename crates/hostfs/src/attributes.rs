//! Attributes of a file of a pool, put on what was made for it, by descriptor. Which of them, and
//! in which order, the engine says ([`engine::extract`]).

use super::dir::{Dir, FileInfo, Item, path_of};
use super::new_file::NewFile;
use engine::Node;
use engine::extract::{Attribute, Preserve, SetAttribute};
use engine::files::Time;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, fchmod,
    fsetxattr, futimens, setxattr, utimensat,
};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

/// Something attributes can be put on.
struct Handle<'a> {
    fd: BorrowedFd<'a>,
    /// It was opened for its attributes alone: calls that want an open file go by `/proc`.
    is_item: bool,
}

impl Dir {
    /// Closes a directory that was there before, until it gets the attributes of `node`: what is
    /// copied into it is not for those whom the pool keeps out.
    pub fn close_for_others(&self, node: &Node, keep: Preserve) -> io::Result<()> {
        let look = FileInfo::of(self)?;
        let me = rustix::process::geteuid();
        if look.owner != me.as_raw() && keep.owner {
            rustix::fs::fchown(self, Some(me), None)?;
            return Ok(fchmod(self, Mode::RWXU)?);
        }
        if look.mode & !node.permissions() & 0o077 != 0 {
            fchmod(self, Mode::RWXU)?;
        }
        Ok(())
    }
}

impl SetAttribute for Dir {
    fn set(&self, attribute: &Attribute<'_>) -> io::Result<()> {
        Handle { fd: self.as_fd(), is_item: false }.set(attribute)
    }
}

impl SetAttribute for NewFile<'_> {
    fn set(&self, attribute: &Attribute<'_>) -> io::Result<()> {
        Handle { fd: self.file.as_fd(), is_item: false }.set(attribute)
    }
}

impl SetAttribute for Item {
    fn set(&self, attribute: &Attribute<'_>) -> io::Result<()> {
        Handle { fd: self.as_fd(), is_item: true }.set(attribute)
    }
}

impl Handle<'_> {
    fn set(&self, attribute: &Attribute<'_>) -> io::Result<()> {
        match *attribute {
            Attribute::Owner { uid, gid } => self.set_owner(uid, gid),
            Attribute::Xattr { name, value } => self.set_xattr(name, value),
            Attribute::Mode(mode) => self.set_mode(mode),
            Attribute::Times { atime, mtime } => self.set_times(atime, mtime),
        }
    }

    fn set_owner(&self, uid: u32, gid: u32) -> io::Result<()> {
        // To the system this number means that nothing is to be changed.
        if uid == u32::MAX || gid == u32::MAX {
            return Err(io::Error::other("4294967295 is not the number of a user or group"));
        }
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        Ok(chownat(self.fd, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        match self.is_item {
            false => Ok(fchmod(self.fd, mode)?),
            true => Ok(chmod(path_of(self.fd), mode)?),
        }
    }

    fn set_xattr(&self, name: &[u8], value: &[u8]) -> io::Result<()> {
        match self.is_item {
            false => Ok(fsetxattr(self.fd, name, value, XattrFlags::empty())?),
            true => Ok(setxattr(path_of(self.fd), name, value, XattrFlags::empty())?),
        }
    }

    fn set_times(&self, accessed: Time, modified: Time) -> io::Result<()> {
        let spec = |t: Time| Timespec {
            tv_sec: t.seconds,
            tv_nsec: i64::try_from(t.nanos.min(999_999_999)).unwrap_or(0),
        };
        let times = Timestamps { last_access: spec(accessed), last_modification: spec(modified) };
        match self.is_item {
            false => futimens(self.fd, &times)?,
            true => utimensat(CWD, path_of(self.fd), &times, AtFlags::empty())?,
        }
        let look = rustix::fs::fstat(self.fd)?;
        match is_near(look.st_mtime, modified, MTIME_STEP)
            && is_near(look.st_atime, accessed, ATIME_STEP)
        {
            true => Ok(()),
            false => Err(io::Error::other("the file system here has no such times")),
        }
    }
}

/// Seconds by which file systems round times: those made for DOS keep even seconds, and of the last
/// access the day.
const MTIME_STEP: u64 = 2;
const ATIME_STEP: u64 = 2 * 86_400;

/// A time that was set is there, rounded. One that the file system cannot keep is moved to the
/// first or last that it can, without a word.
fn is_near(there: i64, wanted: Time, step: u64) -> bool {
    there.abs_diff(wanted.seconds) <= step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_was_moved_is_not_the_one_that_was_wanted() {
        let at = |seconds| Time { seconds, nanos: 999_999_999 };
        assert!(is_near(1_700_000_000, at(1_700_000_001), MTIME_STEP));
        assert!(!is_near(-(1 << 31), at(-(1 << 32)), MTIME_STEP));
        assert!(!is_near(i64::MIN, at(i64::MAX), ATIME_STEP));
    }
}
