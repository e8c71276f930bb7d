//! One directory, held open, and what can be made in it.

use super::names;
use super::staging::Staging;
use engine::extract::kind_phrase;
use engine::files::{FileKind, NewKind};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, linkat, major, makedev, minor, mkdirat,
    mknodat, openat, readlinkat, statat, symlinkat, unlinkat,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Identifies a file, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// The file of a name or descriptor.
#[derive(Clone, Copy, Debug)]
pub struct FileInfo {
    /// Which file it is.
    pub identity: Identity,
    /// Its type.
    pub kind: FileType,
    /// Permissions with set-id and sticky bits.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// Last change of the data: seconds and nanoseconds.
    pub mtime: (i64, u64),
    /// Names.
    pub links: u64,
    /// Its user.
    pub owner: u32,
    /// Its group.
    pub group: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

/// A directory, held open.
pub struct Dir {
    handle: OwnedFd,
    staging: Arc<Staging>,
}

/// Something that is not a directory and no regular file, opened for its attributes alone.
pub struct Item {
    handle: OwnedFd,
}

impl FileInfo {
    /// The file of a descriptor.
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&fstat(fd)?))
    }

    /// It is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// It is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// It is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.kind == FileType::Symlink
    }

    /// Its type, as a pool has it.
    pub fn file_kind(&self) -> FileKind {
        match self.kind {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Dir,
            FileType::Symlink => FileKind::Symlink,
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            FileType::BlockDevice => FileKind::Block,
            FileType::CharacterDevice => FileKind::Char,
            FileType::Unknown => FileKind::Unknown,
        }
    }

    /// Its type, for people.
    pub fn kind_name(&self) -> &'static str {
        kind_phrase(self.file_kind())
    }
}

impl From<&Stat> for FileInfo {
    #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
    fn from(s: &Stat) -> Self {
        Self {
            identity: Identity { device: s.st_dev as u64, inode: s.st_ino as u64 },
            kind: FileType::from_raw_mode(s.st_mode as _),
            mode: s.st_mode as u32 & 0o7777,
            size: u64::try_from(s.st_size).unwrap_or(0),
            mtime: (s.st_mtime as i64, s.st_mtime_nsec as u64),
            links: s.st_nlink as u64,
            owner: s.st_uid as u32,
            group: s.st_gid as u32,
            device: (major(s.st_rdev as _), minor(s.st_rdev as _)),
        }
    }
}

fn exists(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, text.to_owned())
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Dir {
    /// Opens the directory the user named, through links if need be. Missing parts of it are made;
    /// with `closed` no other user may enter these until they have their attributes.
    pub fn open_target(path: &Path, closed: bool) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        if closed && !path.is_dir() {
            if let Some(above) = path.parent() {
                std::fs::create_dir_all(above)?;
            }
            match std::fs::DirBuilder::new().mode(0o700).create(path) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        std::fs::create_dir_all(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = openat(CWD, path, flags, Mode::empty())?;
        let staging = Arc::new(Staging::new(handle.try_clone()?));
        Ok(Self { handle, staging })
    }

    fn with(&self, handle: OwnedFd) -> Self {
        Self { handle, staging: Arc::clone(&self.staging) }
    }

    pub(super) fn staging(&self) -> &Arc<Staging> {
        &self.staging
    }

    /// Which directory it is.
    pub fn identity(&self) -> io::Result<Identity> {
        Ok(FileInfo::of(&self.handle)?.identity)
    }

    /// Looks up a name; `None` if it does not exist.
    pub fn look(&self, name: &[u8]) -> io::Result<Option<FileInfo>> {
        names::check(name)?;
        match statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(s) => Ok(Some(FileInfo::from(&s))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// The directory of that name, made when it is not there, and then closed to others; and
    /// whether it was there.
    pub fn subdir(&self, name: &[u8]) -> io::Result<(Self, bool)> {
        names::check(name)?;
        let was_there = match mkdirat(&self.handle, name, Mode::RWXU) {
            Ok(()) => false,
            Err(rustix::io::Errno::EXIST) => true,
            Err(e) => return Err(e.into()),
        };
        match self.child(name) {
            Ok(dir) => Ok((dir, was_there)),
            Err(e) => match self.look(name)? {
                Some(look) if !look.is_dir() => {
                    Err(exists(&format!("{} is in the way of a directory", look.kind_name())))
                }
                _ => Err(e),
            },
        }
    }

    /// The directory of that name, which is there.
    pub fn child(&self, name: &[u8]) -> io::Result<Self> {
        names::check(name)?;
        Ok(self.with(openat(&self.handle, name, DIRECTORY, Mode::empty())?))
    }

    /// The directory above, whatever that is now.
    pub fn above(&self) -> io::Result<Self> {
        Ok(self.with(openat(&self.handle, "..", DIRECTORY, Mode::empty())?))
    }

    /// Opens the file of a name, for its attributes and for links to it.
    pub fn item(&self, name: &[u8]) -> io::Result<Item> {
        names::check(name)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Item { handle: openat(&self.handle, name, flags, Mode::empty())? })
    }

    /// Removes a name that is not a directory, if it still refers to the file that was looked at.
    pub fn remove(&self, name: &[u8], seen: Identity) -> io::Result<()> {
        if self.look(name)?.is_some_and(|now| now.identity != seen) {
            return Err(exists("it is being changed by another program"));
        }
        Ok(unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, name: &[u8], target: &[u8]) -> io::Result<Item> {
        names::check(name)?;
        symlinkat(target, &self.handle, name)?;
        let made = self.item(name)?;
        let is_it = made.look()?.kind == FileType::Symlink
            && readlinkat(&made.handle, "", Vec::new())?.as_bytes() == target;
        if is_it { Ok(made) } else { Err(exists("it was replaced by another program")) }
    }

    /// Target of a symbolic link.
    pub fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        names::check(name)?;
        Ok(readlinkat(&self.handle, name, Vec::new())?.into_bytes())
    }

    /// Makes a named pipe, socket or device.
    pub fn special(&self, name: &[u8], what: &NewKind) -> io::Result<Item> {
        names::check(name)?;
        let (wanted, device) = match what {
            NewKind::Fifo => (FileType::Fifo, None),
            NewKind::Socket => (FileType::Socket, None),
            NewKind::Block(major, minor) => (FileType::BlockDevice, Some((*major, *minor))),
            NewKind::Char(major, minor) => (FileType::CharacterDevice, Some((*major, *minor))),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let dev = device.map_or(0, |(major, minor)| makedev(major, minor));
        mknodat(&self.handle, name, wanted, Mode::RUSR | Mode::WUSR, dev)?;
        let made = self.item(name)?;
        let look = made.look()?;
        let same_device = device.is_none_or(|device| look.device == device);
        let is_it = look.kind == wanted && look.links == 1 && same_device;
        if is_it { Ok(made) } else { Err(exists("it was replaced by another program")) }
    }

    /// Gives an open file a name here that is free.
    pub fn link(&self, name: &[u8], file: impl AsFd) -> io::Result<()> {
        names::check(name)?;
        link_open(file.as_fd(), &self.handle, name)
    }

    /// Puts everything that was written below on the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.handle)?)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Item {
    /// Its description.
    pub fn look(&self) -> io::Result<FileInfo> {
        FileInfo::of(&self.handle)
    }
}

impl AsFd for Item {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// A path of an open file itself, whatever its names are.
pub fn path_of(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Gives an open file a name in a directory. Only root may do it by descriptor; for all others
/// `/proc` leads to it.
pub fn link_open(file: BorrowedFd<'_>, dir: impl AsFd, name: &[u8]) -> io::Result<()> {
    use rustix::io::Errno;
    let dir = dir.as_fd();
    match linkat(file, "", dir, name, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT | Errno::PERM | Errno::INVAL | Errno::ACCESS) => {
            Ok(linkat(CWD, path_of(file), dir, name, AtFlags::SYMLINK_FOLLOW)?)
        }
        other => Ok(other?),
    }
}
