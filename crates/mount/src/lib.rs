//! File systems of a pool, mounted: a front end of the engine that the kernel talks to (FUSE).
//!
//! # Theory
//!
//! A program's call goes to the kernel, which asks here for what it does not remember, and the
//! answer goes back the same way. Four threads wait for requests; each is done by the thread that
//! got it, but for what would leave none to wait for others (`workers.rs`): a pool that is
//! suspended, or a device that hangs, holds up only what needs it.
//!
//! **Numbers.** The kernel knows a file by its object, the root directory by 1, which no file has.
//! A number that is used again comes with another generation, the txg in which the file was made.
//! So there is no table of what the kernel has cached.
//!
//! **Lives.** A file that a program has open is held (`Filesystem::hold`): it lives until the last
//! one closes it, whatever happens to its names. The kernel opens fifos and devices by itself, and
//! does not say that a program is in a directory: one that loses its last name is held until the
//! kernel forgets it. If the process ends before that, the delete queue of the file system has the
//! file.
//!
//! **Caching.** A write is a change of the file system when its call returns, so it is in the next
//! snapshot, meets quotas at once, and is promised by `fsync` like that of any other front end. The
//! kernel keeps what was read, and names and attributes for a short time.
//!
//! **Rights** are checked by the kernel, from modes and owners (`default_permissions`). Set-id bits
//! are removed here, because the kernel leaves it to the file system.
//!
//! # Mounting
//!
//! [`Mounts`] has the mounts of this process. The system's calls are in `system.rs`, and their
//! substitutes where the user is not root in `helper.rs`; a mount whose process died answers
//! `ENOTCONN` until it is removed or mounted over. A mount whose connection outlives it is
//! described in `mounts.rs`.
//!
//! [`datasets`] decides which datasets of a pool are mounted where, by their properties, and lets
//! mounts follow datasets that change. [`reading`] answers for the mounts of a pool that is only
//! read.
//!
//! **Invariant:** the only crate that knows FUSE; nothing of a pool is reached but through the
//! engine.
#![forbid(unsafe_code)]

mod acl;
mod attrs;
pub mod called;
mod content;
pub mod datasets;
mod errno;
mod flags;
mod front;
mod handles;
mod helper;
mod kernel;
mod listing;
mod mounts;
mod names;
mod progress;
pub mod reading;
mod requests;
mod served;
mod snapdir;
mod snapshots;
pub mod system;
mod workers;
mod xattrs;

pub use mounts::{MountSpec, Mounted, Mounts, UnmountMode};
pub use snapshots::Snapshots;
pub use system::MountHolder;

/// The decoders alone, for hostile bytes.
pub mod decoders {
    /// What a message of the kernel asks for, or the error that it is answered with, as text;
    /// `None` if it has no number to answer by.
    #[must_use]
    pub fn request(message: &[u8]) -> Option<String> {
        crate::kernel::describe(message)
    }

    /// A message with its length, which comes before all of this.
    #[must_use]
    pub fn with_length(rest: &[u8]) -> Vec<u8> {
        crate::kernel::with_length(rest)
    }

    /// An access list, written again with the rights that a new file gets from it; `None` if it is
    /// none, or empty.
    #[must_use]
    pub fn access_list(bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let list = crate::acl::List::decode(bytes).ok()??;
        Some((list.encode(), list.for_new(0o640).encode()))
    }
}

use engine::OpenPool;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nothing can be changed.
    pub read_only: bool,
    /// What the property `readonly` says does not count.
    pub overrides_readonly: bool,
    /// Files run with the rights that their set-id bits give.
    pub set_id: bool,
    /// Device files are devices.
    pub devices: bool,
    /// Files can be run.
    pub exec: bool,
    /// Access times are kept.
    pub atime: bool,
    /// Extended attributes are there, and with them all that is kept as such.
    pub xattrs: bool,
    /// Access lists of POSIX are there.
    pub posix_acls: bool,
    /// Over a directory that has something in it.
    pub overlay: bool,
    /// Threads that read requests; others are there when there is something for them to do.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: false,
            overrides_readonly: false,
            set_id: true,
            devices: true,
            exec: true,
            atime: true,
            xattrs: true,
            posix_acls: false,
            overlay: false,
            threads: 4,
        }
    }
}

impl Options {
    /// Whether access lists count: they are kept as attributes.
    fn has_lists(&self) -> bool {
        self.xattrs && self.posix_acls
    }
}

/// The space of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes it refers to.
    pub used: u64,
    /// Bytes it may still have.
    pub available: u64,
    /// Objects it has.
    pub files: u64,
}

/// Returns the space of a file system, if that is known.
pub type SpaceFn = Arc<dyn Fn() -> Option<Space> + Send + Sync>;

/// The space of the dataset `name` of a pool, for as long as the pool is open.
#[must_use]
pub fn space_of(pool: &OpenPool, name: &str) -> SpaceFn {
    let (pool, name) = (pool.downgrade(), name.to_owned());
    Arc::new(move || {
        let pool = pool.upgrade()?;
        let dsl = pool.view().datasets();
        let dataset = dsl.by_name(&name).ok()?;
        let available = match dataset.is_snapshot() {
            true => 0,
            false => dsl.available(&dataset, pool.view().space().usable()).ok()?,
        };
        Some(Space { used: dataset.referenced(), available, files: dataset.objects() })
    })
}

/// Why something was not mounted or unmounted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The mount point is not a directory, or not there.
    NotADirectory(PathBuf),
    /// The mount point has something in it.
    NotEmpty(PathBuf),
    /// Something is mounted there already.
    Mounted(PathBuf, String),
    /// It is not mounted here.
    NotMounted(PathBuf),
    /// Programs use it.
    Busy(PathBuf),
    /// Something is mounted in it, and where.
    Inner(PathBuf, PathBuf),
    /// It is not mounted here any more, and this keeps it.
    Kept(PathBuf, MountHolder),
    /// Only root may mount.
    NotRoot,
    /// The program that mounts for ordinary users is not there.
    NoHelper,
    /// That program refused, with a reason.
    Refused(String),
    /// The system does not mount file systems of programs.
    NoFuse(std::io::Error),
    /// The system refused.
    System(&'static str, std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADirectory(dir) => write!(f, "{} is not a directory", dir.display()),
            Self::NotEmpty(dir) => write!(f, "directory {} is not empty", dir.display()),
            Self::Mounted(dir, what) => write!(f, "{what} is mounted at {}", dir.display()),
            Self::NotMounted(dir) => {
                write!(f, "no file system of zinc is mounted at {}", dir.display())
            }
            Self::Busy(dir) => write!(f, "programs use {}", dir.display()),
            Self::Inner(dir, inner) => {
                write!(f, "something is mounted in {}, at {}", dir.display(), inner.display())
            }
            Self::Kept(dir, keeper) => {
                let dir = dir.display();
                match keeper {
                    MountHolder::At(other) => {
                        write!(
                            f,
                            "the file system unmounted from {dir} is still mounted at {}",
                            other.display()
                        )
                    }
                    MountHolder::Process(number) => {
                        write!(f, "the mount namespace of process {number} still has {dir}")
                    }
                    MountHolder::OpenFiles => {
                        write!(
                            f,
                            "programs have files open on the file system that was mounted at {dir}"
                        )
                    }
                }
            }
            Self::NotRoot => f.write_str("only root may mount"),
            Self::NoHelper => f.write_str("only root may mount here: there is no fusermount3"),
            Self::Refused(why) => f.write_str(why),
            Self::NoFuse(e) => write!(f, "/dev/fuse cannot be opened: {e}"),
            Self::System(what, e) => write!(f, "{what}: {e}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The message of what stays mounted at this directory, the reason where there is more to say,
    /// and a remedy.
    #[must_use]
    pub fn stays(&self, dir: &Path) -> (String, Option<String>, Option<&'static str>) {
        let what = format!("cannot unmount '{}'", dir.display());
        let busy =
            |why: String, hint| (format!("{what}: pool or dataset is busy"), Some(why), Some(hint));
        match self {
            Self::Busy(_) => busy(
                "programs have files or directories on it open".to_owned(),
                "-f unmounts it nevertheless",
            ),
            Self::Inner(..) => busy(self.to_string(), "unmount that first"),
            Self::Kept(..) => busy(self.to_string(), "-f unmounts it nevertheless"),
            Self::NotMounted(_) => (format!("{what}: not currently mounted"), None, None),
            e => (what, Some(e.to_string()), None),
        }
    }

    /// A remedy for what is not mounted, if enough is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        let e = match self {
            Self::NotEmpty(_) => {
                return Some(
                    "-O mounts over it; so does overlay=on, where the property mountpoint says",
                );
            }
            Self::Mounted(..) => return Some("`zinc unmount` unmounts it; -O mounts over it"),
            Self::NoFuse(e) => e,
            _ => return None,
        };
        match e.kind() {
            // The system makes the file when the module is there, and a container may not have it.
            io::ErrorKind::NotFound => {
                Some("the kernel's module fuse must be loaded, and a container be given /dev/fuse")
            }
            io::ErrorKind::PermissionDenied => {
                Some("this process may not open /dev/fuse: its mode, or the container's rules")
            }
            _ => Some("the kernel's module fuse must be loaded"),
        }
    }
}
