//! The tree on this machine that is copied, gone through by open directories.
//!
//! Others may change the tree meanwhile. So everything is opened by its name in an open directory,
//! never through a symbolic link and never waiting for a pipe's other end, and what was opened is
//! compared with what was listed: a link, pipe or directory that was put in the place of what was
//! there is named, and not followed. Paths are made up for messages alone.

use super::{TreeIn, time};
use crate::path_of;
use engine::ingest::Attributes;
use engine::{Error, Result};
use rustix::fs::{Dir, Mode, OFlags, fgetxattr, flistxattr, getxattr, listxattr, openat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use term::escape;

/// Largest list of names, and largest value of an extended attribute, on Linux.
const XATTR_MAX: usize = 64 << 10;
/// Bytes of extended attributes that are kept of one file.
const XATTRS_MAX: usize = 16 << 20;
/// Looks at a file without opening it.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The error for a name that refers to another file than a moment ago.
pub(super) fn changed() -> Error {
    Error::external("changed while it was copied")
}

/// Where something is, as names from the bottom to the top: a path for each of many nested
/// directories would be long.
pub(super) struct Name {
    above: Option<Arc<Name>>,
    name: PathBuf,
}

impl Name {
    pub(super) fn top(path: &Path) -> Arc<Self> {
        Arc::new(Self { above: None, name: path.to_owned() })
    }

    pub(super) fn below(self: &Arc<Self>, name: &[u8]) -> Arc<Self> {
        let name = PathBuf::from(std::ffi::OsStr::from_bytes(name));
        Arc::new(Self { above: Some(Arc::clone(self)), name })
    }

    /// The path, for messages: of a very long one its end.
    pub(super) fn path(&self) -> PathBuf {
        const SHOWN_MAX: usize = 4096;
        let mut names = vec![self.name.as_path()];
        let (mut at, mut length) = (self, self.name.as_os_str().len());
        while let Some(above) = &at.above {
            length += above.name.as_os_str().len() + 1;
            if length > SHOWN_MAX {
                names.push(Path::new("…"));
                break;
            }
            names.push(&above.name);
            at = above;
        }
        names.into_iter().rev().collect()
    }
}

/// A file's identity on this machine.
pub(super) type Id = (u64, u64);

pub(super) fn id(m: &Metadata) -> Id {
    (m.dev(), m.ino())
}

/// Looks at a name, without opening its file.
pub(super) fn look(dir: &OwnedFd, name: &[u8]) -> io::Result<(File, Metadata)> {
    let file = File::from(openat(dir, name, LOOK, Mode::empty())?);
    let found = file.metadata()?;
    Ok((file, found))
}

/// The same, for what was looked at before and must not be anything else now.
pub(super) fn reopen(dir: &OwnedFd, name: &[u8], before: &Metadata) -> Result<File> {
    let (file, found) = look(dir, name)?;
    let same = id(&found) == id(before) && found.file_type() == before.file_type();
    if same { Ok(file) } else { Err(changed()) }
}

/// Opens a directory that was looked at.
pub(super) fn open_directory(
    dir: &OwnedFd,
    name: &[u8],
    before: Id,
) -> Result<(OwnedFd, Metadata)> {
    let opened = openat(dir, name, READ | OFlags::DIRECTORY, Mode::empty());
    let file = File::from(opened.map_err(refused)?);
    let found = file.metadata()?;
    if id(&found) == before { Ok((file.into(), found)) } else { Err(changed()) }
}

/// Opens a regular file that was looked at.
pub(super) fn open_file(dir: &OwnedFd, name: &[u8], before: &Metadata) -> Result<(File, Metadata)> {
    let opened = openat(dir, name, READ | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty());
    let file = File::from(opened.map_err(refused)?);
    let found = file.metadata()?;
    if id(&found) == id(before) && found.is_file() { Ok((file, found)) } else { Err(changed()) }
}

/// The error of opening when another file is there than the one that was looked at.
fn refused(e: rustix::io::Errno) -> Error {
    use rustix::io::Errno;
    match e {
        Errno::LOOP | Errno::NOTDIR | Errno::NOENT | Errno::NXIO => changed(),
        e => io::Error::from(e).into(),
    }
}

/// The names in an open directory.
pub(super) fn list(dir: &OwnedFd) -> io::Result<Dir> {
    Ok(Dir::read_from(dir)?)
}

/// The target of a link that was looked at.
pub(super) fn read_link(link: &File) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(link, c"", Vec::new())?.into_bytes())
}

/// The attributes of an open file that are kept. Extended attributes that cannot be read are
/// failures of the file `shown`, which is copied without them.
pub(super) fn attributes(
    into: &TreeIn<'_>,
    file: &File,
    found: &Metadata,
    shown: &dyn Fn() -> PathBuf,
) -> Attributes {
    let (xattrs, unread) = match into.ingest.xattrs {
        true => xattrs(&OfFile::new(file)),
        false => Default::default(),
    };
    for (name, why) in unread {
        let what = match &name {
            Some(name) => format!("extended attribute {}", escape::name(name)),
            None => "extended attributes".to_owned(),
        };
        let why = format!("{what} cannot be read: {}", io::Error::from(why));
        (into.failed)(&shown(), &Error::external(why));
    }
    let at = |t: io::Result<std::time::SystemTime>| t.map(time).unwrap_or_default();
    Attributes {
        mode: found.mode() & 0o7777,
        uid: u64::from(found.uid()),
        gid: u64::from(found.gid()),
        atime: at(found.accessed()),
        mtime: at(found.modified()),
        xattrs,
    }
}

/// Where extended attributes are read.
trait XattrSource {
    /// Their names, each with a zero byte behind it.
    fn names(&self, into: &mut [u8]) -> std::result::Result<usize, Errno>;
    /// The value of one.
    fn value(&self, name: &[u8], into: &mut [u8]) -> std::result::Result<usize, Errno>;
}

struct OfFile<'f> {
    file: &'f File,
    /// A file that was only looked at cannot be read itself, but by this name of it.
    path: String,
}

impl<'f> OfFile<'f> {
    fn new(file: &'f File) -> Self {
        Self { file, path: path_of(file.as_fd()) }
    }
}

impl XattrSource for OfFile<'_> {
    fn names(&self, into: &mut [u8]) -> std::result::Result<usize, Errno> {
        match flistxattr(self.file, &mut *into) {
            Err(Errno::BADF) => listxattr(&self.path, into),
            listed => listed,
        }
    }

    fn value(&self, name: &[u8], into: &mut [u8]) -> std::result::Result<usize, Errno> {
        match fgetxattr(self.file, name, &mut *into) {
            Err(Errno::BADF) => getxattr(&self.path, name, into),
            got => got,
        }
    }
}

/// Extended attributes by name.
type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;
/// Those that cannot be read; without a name all of them, or all from there on.
type Unread = Vec<(Option<Vec<u8>>, Errno)>;

fn xattrs(source: &dyn XattrSource) -> (Xattrs, Unread) {
    let (mut out, mut unread) = (BTreeMap::new(), Vec::new());
    let mut names = vec![0u8; XATTR_MAX];
    let length = match source.names(&mut names) {
        Ok(length) => length,
        // A file system without any has none to lose.
        Err(Errno::OPNOTSUPP) => 0,
        Err(e) => {
            unread.push((None, e));
            0
        }
    };
    let mut bytes = 0;
    let mut buffer = vec![0u8; XATTR_MAX];
    for key in names[..length].split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let length = match source.value(key, &mut buffer) {
            Ok(length) => length,
            // It went meanwhile.
            Err(Errno::NODATA) => continue,
            Err(e) => {
                unread.push((Some(key.to_vec()), e));
                continue;
            }
        };
        bytes += key.len() + length;
        if bytes > XATTRS_MAX {
            unread.push((None, Errno::TOOBIG));
            break;
        }
        out.insert(key.to_vec(), buffer[..length].to_vec());
    }
    (out, unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Odd;

    impl XattrSource for Odd {
        fn names(&self, into: &mut [u8]) -> std::result::Result<usize, Errno> {
            let names = b"user.a\0user.closed\0user.gone\0user.z\0";
            into[..names.len()].copy_from_slice(names);
            Ok(names.len())
        }

        fn value(&self, name: &[u8], into: &mut [u8]) -> std::result::Result<usize, Errno> {
            match name {
                b"user.closed" => Err(Errno::ACCESS),
                b"user.gone" => Err(Errno::NODATA),
                _ => {
                    into[0] = b'1';
                    Ok(1)
                }
            }
        }
    }

    #[test]
    fn an_attribute_that_cannot_be_read_is_listed_and_costs_no_other() {
        let (read, unread) = xattrs(&Odd);
        let read: Vec<_> = read.keys().map(Vec::as_slice).collect();
        assert_eq!(read, [&b"user.a"[..], b"user.z"]);
        assert_eq!(unread, [(Some(b"user.closed".to_vec()), Errno::ACCESS)]);
    }
}
