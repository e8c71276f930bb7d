//! The name of a socket while its server lives: it follows the pool, and goes before the server.

use std::ffi::OsStr;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where the socket is.
pub struct SocketFile {
    path: Mutex<PathBuf>,
    /// Another server may listen under the same path later.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    /// At first it is here.
    #[must_use]
    pub fn new(path: PathBuf) -> Arc<Self> {
        let identity = Self::identity(&path);
        Arc::new(Self { path: Mutex::new(path), identity })
    }

    /// Device and inode of a socket; other files have none.
    #[must_use]
    pub fn identity(path: &Path) -> Option<(u64, u64)> {
        let meta = std::fs::symlink_metadata(path).ok()?;
        meta.file_type().is_socket().then(|| (meta.dev(), meta.ino()))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes it away, wherever it is, so that no command meets a server that is ending.
    pub fn remove(&self) {
        let path = self.path();
        if self.identity.is_some() && Self::identity(&path) == self.identity {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Gives it another name, if it has this one and nothing has the other.
    pub fn rename(&self, old: &str, new: &str) {
        let mut path = self.path.lock().unwrap_or_else(PoisonError::into_inner);
        let to = path.with_file_name(new);
        if path.file_name() == Some(OsStr::new(old))
            && !to.exists()
            && std::fs::rename(&*path, &to).is_ok()
        {
            *path = to;
        }
    }
}
