//! The socket's name in the file system: making it, taking it over, taking it away.
//!
//! A name is left behind by a server that was killed. Whether a process listens is found out by
//! connecting: only a refused connection means that none does. The new socket is bound under a
//! name of its own, gets its mode before it listens, and is then renamed over the old one, so
//! there is no moment in which a client finds half a socket, or one of another mode than it has.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Why a socket cannot be made.
#[derive(Debug)]
pub enum PlaceError {
    /// A server listens there.
    Taken(PathBuf),
    /// There is something else under that name, or the folder belongs to another user.
    NotOurs(PathBuf),
    /// The system's error.
    Io(PathBuf, io::Error),
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(path) => {
                let path = path.display();
                write!(
                    f,
                    "{path}: another server already listens there, for this pool or for \
                     the one it is a copy of"
                )
            }
            Self::NotOurs(path) => {
                write!(f, "{}: not a socket or folder of this user", path.display())
            }
            Self::Io(path, e) => write!(f, "{}: {e}", path.display()),
        }
    }
}

impl std::error::Error for PlaceError {}

/// The sockets in those of these folders in which no other user may put one, in order.
#[must_use]
pub fn sockets(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for folder in folders.iter().filter(|f| Endpoint::is_folder(f)) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let paths = entries.map(|e| e.path());
        out.extend(paths.filter(|p| p.extension().is_some_and(|e| e == "sock")));
    }
    out.sort();
    out
}

/// A socket that listens. Its name goes when this is dropped.
pub struct Endpoint {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, to take away no other's name.
    identity: (u64, u64),
}

impl Endpoint {
    /// Makes the folder of sockets, for this user alone; others may look into that of root. One
    /// that is there must be the user's, and keeps its mode.
    ///
    /// # Errors
    /// When it cannot be made, or others may write into it.
    pub fn make_folder(path: &Path) -> Result<(), PlaceError> {
        let fail = |e| PlaceError::Io(path.to_owned(), e);
        let mode = if user() == 0 { 0o755 } else { 0o700 };
        std::fs::DirBuilder::new().recursive(true).mode(mode).create(path).map_err(fail)?;
        let is_own = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == user());
        match is_own && Self::is_folder(path) {
            true => Ok(()),
            false => Err(PlaceError::NotOurs(path.to_owned())),
        }
    }

    /// Whether `path` is a folder of this user or of root, into which no other may write. A socket
    /// anywhere else may belong to a user who would like to receive open files.
    #[must_use]
    pub fn is_folder(path: &Path) -> bool {
        std::fs::symlink_metadata(path)
            .is_ok_and(|meta| meta.is_dir() && is_trusted(meta.uid()) && meta.mode() & 0o022 == 0)
    }

    /// Listens at `path`, for this user alone; others may connect to a server of root, which tells
    /// them apart by their [`crate::Peer`]. A socket whose owner died is taken over.
    ///
    /// # Errors
    /// When a server listens there, or the name is that of something else.
    pub fn listen(path: &Path) -> Result<Self, PlaceError> {
        Self::listen_with(path, if user() == 0 { 0o666 } else { 0o600 })
    }

    /// The same for this user alone, root or not.
    ///
    /// # Errors
    /// As [`Self::listen`].
    pub fn listen_alone(path: &Path) -> Result<Self, PlaceError> {
        Self::listen_with(path, 0o600)
    }

    fn listen_with(path: &Path, mode: u32) -> Result<Self, PlaceError> {
        let fail = |e: io::Error| PlaceError::Io(path.to_owned(), e);
        free(path)?;
        let mut own = path.as_os_str().to_owned();
        own.push(format!(".{}", std::process::id()));
        let own = PathBuf::from(own);
        let _ = std::fs::remove_file(&own);
        let address = SocketAddrUnix::new(&own).map_err(|e| fail(e.into()))?;
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let socket = socket.map_err(|e| fail(e.into()))?;
        rustix::net::bind(&socket, &address).map_err(|e| fail(e.into()))?;
        let ready = (|| {
            std::fs::set_permissions(&own, std::fs::Permissions::from_mode(mode))?;
            rustix::net::listen(&socket, BACKLOG)?;
            std::fs::rename(&own, path)?;
            std::fs::symlink_metadata(path)
        })();
        let meta = ready.map_err(|e| {
            let _ = std::fs::remove_file(&own);
            fail(e)
        })?;
        let identity = (meta.dev(), meta.ino());
        Ok(Self { listener: UnixListener::from(socket), path: path.to_owned(), identity })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The listener for connections.
    ///
    /// # Errors
    /// When the process has too many files open.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let is_ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity);
        if is_ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes sure that no process listens at `path`, and that what is there may be replaced.
fn free(path: &Path) -> Result<(), PlaceError> {
    use std::os::unix::fs::FileTypeExt as _;
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(PlaceError::Io(path.to_owned(), e)),
    };
    if !meta.file_type().is_socket() || meta.uid() != user() {
        return Err(PlaceError::NotOurs(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(PlaceError::Taken(path.to_owned())),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(e) => Err(PlaceError::Io(path.to_owned(), e)),
    }
}

/// The user this process acts as.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a user may do here what this process does: it is this user, or root.
pub(crate) fn is_trusted(other: u32) -> bool {
    other == user() || other == 0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_socket_is_taken_over_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        // A listener of std leaves its name behind, as a killed server does.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = Endpoint::listen(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, if user() == 0 { 0o666 } else { 0o600 });
        assert!(matches!(Endpoint::listen(&path), Err(PlaceError::Taken(_))));
        drop(first);
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Endpoint::listen(&path), Err(PlaceError::NotOurs(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn the_name_of_a_successor_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let first = Endpoint::listen(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = Endpoint::listen(&path).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
    }

    #[test]
    fn a_folder_that_others_may_write_into_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/zinc");
        Endpoint::make_folder(&path).unwrap();
        Endpoint::make_folder(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Endpoint::make_folder(&path), Err(PlaceError::NotOurs(_))));
    }
}
