//! Servers that did not answer, so that a process does not wait for the same one again and again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a server that did not answer gets no new request.
const REST: Duration = Duration::from_secs(10);

/// Servers that did not answer, by their sockets.
#[derive(Debug, Default)]
pub struct SilentServers(Mutex<HashMap<PathBuf, SilentServer>>);

/// A server that did not answer.
#[derive(Clone, Copy, Debug)]
pub struct SilentServer {
    /// Its process, where the system tells.
    pub pid: Option<i32>,
    since: Instant,
}

impl SilentServers {
    fn all(&self) -> MutexGuard<'_, HashMap<PathBuf, SilentServer>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, silent| silent.since.elapsed() < REST);
        all
    }

    /// The one at this socket did not answer just now.
    pub fn add(&self, path: &Path, pid: Option<i32>) {
        self.all().insert(path.to_owned(), SilentServer { pid, since: Instant::now() });
    }

    /// Whether the one at this socket did not answer a moment ago.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.all().contains_key(path)
    }

    /// The one whose socket has this name in whatever folder.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<SilentServer> {
        let all = self.all();
        let is_it = |path: &Path| path.file_name() == Some(name.as_ref());
        all.iter().find(|(path, _)| is_it(path)).map(|(_, silent)| *silent)
    }

    /// The sockets of all of them.
    #[must_use]
    pub fn sockets(&self) -> Vec<PathBuf> {
        self.all().keys().cloned().collect()
    }
}
