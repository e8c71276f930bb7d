//! Where files are made that have no name yet, or a temporary one.

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the files of one target are made.
pub(super) struct Staging {
    root: OwnedFd,
    /// The file system has no files without names.
    pub(super) is_plain: AtomicBool,
    folder: Mutex<Option<Arc<Folder>>>,
}

/// The private folder.
pub(super) struct Folder {
    above: OwnedFd,
    name: String,
    pub(super) handle: OwnedFd,
}

/// A name that cannot be guessed.
pub fn random_name() -> String {
    let number = |n: u8| RandomState::new().hash_one(n);
    format!(".zinc-{:016x}{:016x}", number(0), number(1))
}

const NEW: OFlags = OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW);
pub(super) const OWN: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file without a name in a directory; `None` where there are none.
pub fn nameless(dir: impl AsFd, mode: Mode) -> io::Result<Option<File>> {
    match openat(dir, ".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(Some(file.into())),
        // The errors of kernels and file systems that do not know the flag.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS) => {
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

/// A new file under a random name.
pub fn named(dir: impl AsFd, mode: Mode) -> io::Result<(File, String)> {
    let name = random_name();
    let file = openat(dir, name.as_str(), NEW | OFlags::CLOEXEC, mode)?;
    Ok((file.into(), name))
}

impl Staging {
    pub(super) fn new(root: OwnedFd) -> Self {
        Self { root, is_plain: AtomicBool::new(false), folder: Mutex::new(None) }
    }

    /// The private folder, made when there is none yet.
    pub(super) fn folder(&self) -> io::Result<Arc<Folder>> {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = &*folder {
            return Ok(Arc::clone(folder));
        }
        let name = random_name();
        mkdirat(&self.root, name.as_str(), Mode::RWXU)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = openat(&self.root, name.as_str(), flags, Mode::empty())?;
        let above = self.root.try_clone()?;
        let made = Arc::new(Folder { above, name, handle });
        Ok(Arc::clone(folder.insert(made)))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = unlinkat(&self.above, self.name.as_str(), AtFlags::REMOVEDIR);
    }
}
