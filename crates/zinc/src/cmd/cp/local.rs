//! A directory on this machine that things are copied into, and only into.
//!
//! Every directory is held open and everything is made below it by one name at a time, never
//! through a symbolic link: so no name and no link in a pool can make a copy leave its target,
//! not even while somebody else changes the target. `/proc/self/fd/N/NAME` is the way to say
//! "this name in that open directory" with the means of the standard library.
//!
//! A file is written under a temporary name and renamed when it is whole, so that a name in the
//! target always stands for a whole file and an interrupted copy can go on. It is locked meanwhile:
//! what is not locked was left by an interrupted copy.

use super::sys;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use engine::zpl::{Node, Time};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A directory, held open.
pub struct LocalDir {
    handle: File,
}

/// What of a file's attributes is put on the copy.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Owner and group; needs root.
    pub owner: bool,
    /// Extended attributes and access lists.
    pub xattrs: bool,
}

fn open_directory(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

impl LocalDir {
    /// Opens the directory the user named, through links if need be; made when it is not there.
    pub fn open_target(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let handle = File::open(path)?;
        if handle.metadata()?.is_dir() {
            return Ok(Self { handle });
        }
        Err(io::Error::new(io::ErrorKind::NotADirectory, "not a directory"))
    }

    /// The path of a name in it.
    fn at(&self, name: &[u8]) -> io::Result<PathBuf> {
        let bad = name.is_empty() || name == b"." || name == b"..";
        if bad || name.contains(&b'/') || name.contains(&0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name a file can have"));
        }
        let mut path = PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()));
        path.push(OsStr::from_bytes(name));
        Ok(path)
    }

    /// What a name stands for; `None` when there is nothing.
    pub fn look(&self, name: &[u8]) -> io::Result<Option<Metadata>> {
        match fs::symlink_metadata(self.at(name)?) {
            Ok(m) => Ok(Some(m)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The directory of that name, made when it is not there.
    pub fn subdir(&self, name: &[u8]) -> io::Result<Self> {
        let path = self.at(name)?;
        match fs::create_dir(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        open_directory(&path).map(|handle| Self { handle })
    }

    /// A directory below that exists, by names.
    pub fn descend<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> io::Result<Self> {
        let mut at = Self { handle: self.handle.try_clone()? };
        for name in names {
            at = Self { handle: open_directory(&at.at(name)?)? };
        }
        Ok(at)
    }

    /// A new, empty file under a temporary name, made of `number` so that it is found again after
    /// an interruption.
    pub fn begin(&self, number: u64) -> io::Result<Unfinished<'_>> {
        let mut name = format!(".zinc-{number}.part").into_bytes();
        let mut others = 0;
        loop {
            if let Some(file) = take(&self.at(&name)?)? {
                return Ok(Unfinished { dir: self, name, file });
            }
            // Files of several datasets have the same numbers.
            others += 1;
            name = format!(".zinc-{number}-{others}.part").into_bytes();
        }
    }

    /// Removes a name that is no directory.
    pub fn remove(&self, name: &[u8]) -> io::Result<()> {
        fs::remove_file(self.at(name)?)
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, name: &[u8], target: &[u8]) -> io::Result<()> {
        std::os::unix::fs::symlink(OsStr::from_bytes(target), self.at(name)?)
    }

    /// Gives `from/old` a second name here.
    pub fn hard_link(&self, name: &[u8], from: &Self, old: &[u8]) -> io::Result<()> {
        fs::hard_link(from.at(old)?, self.at(name)?)
    }

    /// Makes a named pipe, socket or device.
    pub fn special(&self, name: &[u8], node: &Node) -> io::Result<()> {
        sys::make_special(&self.at(name)?, node.kind(), node.device())
    }

    /// Puts the attributes of `node` on a name that is no regular file. What could not be kept is
    /// returned by name.
    pub fn dress(&self, name: &[u8], node: &Node, keep: Keep, xattrs: &Xattrs) -> Vec<Refused> {
        let path = match self.at(name) {
            Ok(path) => path,
            Err(e) => return vec![Refused { what: "attributes".into(), error: e }],
        };
        let mut refused = Vec::new();
        let mut note = |what: &str, result: io::Result<()>| {
            refused.extend(result.err().map(|error| Refused { what: what.into(), error }));
        };
        if keep.owner {
            let (uid, gid) = owner(node);
            note("owner", std::os::unix::fs::lchown(&path, Some(uid), Some(gid)));
        }
        if keep.xattrs {
            for (name, value) in xattrs {
                let what = String::from_utf8_lossy(name).into_owned();
                note(&what, sys::set_xattr(&path, name, value));
            }
        }
        if node.kind() != engine::zpl::FileKind::Symlink {
            note("mode", fs::set_permissions(&path, permissions(node, keep)));
        }
        note("times", sys::set_times(&path, node.atime, node.mtime));
        refused
    }

    /// As [`Self::dress`], for the directory itself.
    pub fn dress_self(&self, node: &Node, keep: Keep, xattrs: &Xattrs) -> Vec<Refused> {
        dress_file(&self.handle, node, keep, xattrs)
    }
}

/// Makes the file of a temporary name, locked for as long as it is written; `None` when another
/// copy is writing it.
fn take(path: &Path) -> io::Result<Option<File>> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let is_busy = |file: &File| matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    loop {
        let mut options = OpenOptions::new();
        options.write(true).read(true).create_new(true).mode(0o600);
        match options.custom_flags(flags).open(path) {
            // Before it was locked somebody may have taken it for what was left over.
            Ok(file) if is_busy(&file) => return Ok(None),
            Ok(file) if is_at(&file, path) => return Ok(Some(file)),
            Ok(_) => continue,
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            Err(_) => {}
        }
        // What an interrupted copy left, or a link somebody put there.
        match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(old) if is_busy(&old) => return Ok(None),
            Ok(old) if !is_at(&old, path) => continue,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            _ => {}
        }
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
}

/// Whether an open file still has that name.
fn is_at(file: &File, path: &Path) -> bool {
    let named = fs::symlink_metadata(path);
    let same = |a: Metadata, b: Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    named.is_ok_and(|a| file.metadata().is_ok_and(|b| same(a, b)))
}

/// Extended attributes by the names Linux shows.
pub type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// An attribute that the target did not take.
#[derive(Debug)]
pub struct Refused {
    /// Which.
    pub what: String,
    /// Why.
    pub error: io::Error,
}

/// A file that is being written.
pub struct Unfinished<'a> {
    dir: &'a LocalDir,
    name: Vec<u8>,
    /// The file itself.
    pub file: File,
}

impl Unfinished<'_> {
    /// Puts the attributes of `node` on the file.
    pub fn dress(&self, node: &Node, keep: Keep, xattrs: &Xattrs) -> Vec<Refused> {
        dress_file(&self.file, node, keep, xattrs)
    }

    /// Gives it its name, replacing a file that has it.
    pub fn finish(self, name: &[u8]) -> io::Result<()> {
        fs::rename(self.dir.at(&self.name)?, self.dir.at(name)?)
    }

    /// Takes it away.
    pub fn abandon(self) {
        let _ = self.dir.at(&self.name).and_then(fs::remove_file);
    }
}

fn dress_file(file: &File, node: &Node, keep: Keep, xattrs: &Xattrs) -> Vec<Refused> {
    let mut refused = Vec::new();
    let mut note = |what: &str, result: io::Result<()>| {
        refused.extend(result.err().map(|error| Refused { what: what.into(), error }));
    };
    if keep.owner {
        let (uid, gid) = owner(node);
        note("owner", std::os::unix::fs::fchown(file, Some(uid), Some(gid)));
    }
    if keep.xattrs {
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        for (name, value) in xattrs {
            let what = String::from_utf8_lossy(name).into_owned();
            note(&what, sys::set_xattr_of_open(&path, name, value));
        }
    }
    // The mode comes after the owner, who changes take set-id bits from.
    note("mode", file.set_permissions(permissions(node, keep)));
    let times = FileTimes::new().set_accessed(time(node.atime)).set_modified(time(node.mtime));
    note("times", file.set_times(times));
    refused
}

fn owner(node: &Node) -> (u32, u32) {
    use engine::Filesystem;
    (Filesystem::linux_id(node.uid), Filesystem::linux_id(node.gid))
}

/// Set-id bits are for the owner they were given to, and nobody else.
fn permissions(node: &Node, keep: Keep) -> Permissions {
    let mask = if keep.owner { 0o7777 } else { 0o1777 };
    Permissions::from_mode(node.permissions() & mask)
}

/// A time of a pool as one of the standard library.
pub fn time(t: Time) -> SystemTime {
    let nanos = Duration::from_nanos(t.nanos.min(999_999_999));
    let whole = Duration::from_secs(t.seconds.unsigned_abs());
    let base = match t.seconds < 0 {
        true => UNIX_EPOCH.checked_sub(whole),
        false => UNIX_EPOCH.checked_add(whole),
    };
    base.and_then(|b| b.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

/// Whether `m` is a whole copy of the regular file `node`: same size and time of change.
pub fn is_copy(m: &Metadata, node: &Node) -> bool {
    let same_time =
        m.mtime() == node.mtime.seconds && m.mtime_nsec().cast_unsigned() == node.mtime.nanos;
    m.is_file() && m.len() == node.size && same_time
}

/// Whether this process may do what only root may.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn copies_beside_each_other_do_not_share_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let local = LocalDir { handle: open_directory(dir.path()).unwrap() };
        let left_over = dir.path().join(".zinc-7.part");
        fs::write(&left_over, "left over").unwrap();
        let (mut one, mut two) = (local.begin(7).unwrap(), local.begin(7).unwrap());
        one.file.write_all(b"one").unwrap();
        two.file.write_all(b"two").unwrap();
        one.finish(b"1").unwrap();
        std::os::unix::fs::symlink("1", &left_over).unwrap();
        let three = local.begin(7).unwrap();
        assert_eq!(three.name, b".zinc-7.part");
        three.abandon();
        two.finish(b"2").unwrap();
        let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        let found: Vec<_> = names.iter().map(|n| fs::read_to_string(n).unwrap()).collect();
        assert_eq!(found, ["one", "two"]);
    }
}
