//! What all sessions of a process share.

use super::Session;
use control::sink::OutputState;
use control::stream::Stream;
use hostfs::users::Names;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a server that did not answer is not asked again.
const REST: Duration = Duration::from_secs(10);

/// What all sessions of a process share.
pub struct Process {
    /// Its command line, with the program's name; a verb that the name stands for comes behind it.
    pub arguments: Vec<OsString>,
    /// What a command line can say.
    pub grammar: Grammar,
    /// What became of its own output.
    pub output: OutputState,
    /// Its standard error, once it waits for no reader.
    pub errors: OnceLock<io::Result<Stream>>,
    /// The servers that did not answer it.
    pub silent: SilentServers,
    /// The locks it keeps until it ends.
    pub kept: KeptLocks,
    /// What it has warned of.
    pub warned: Warnings,
    /// The names of users and groups.
    pub names: Names,
    /// Where `main` waits for the exit code.
    ends: Sender<ExitCode>,
}

/// The command line as a whole. It comes from `main`: a verb knows itself and what is below it, and
/// a few verbs have to do with all of them.
#[derive(Clone, Copy)]
pub struct Grammar {
    /// All verbs with their options.
    pub verbs: fn() -> clap::Command,
    /// Runs the command line of a session, for the client that it is of; the exit code.
    pub run: fn(&Session) -> ExitCode,
}

impl Process {
    /// One that `main` ends with the first exit code that is sent to `ends`.
    pub fn new(arguments: Vec<OsString>, grammar: Grammar, ends: Sender<ExitCode>) -> Self {
        Self {
            arguments,
            grammar,
            output: OutputState::default(),
            errors: OnceLock::new(),
            silent: SilentServers::default(),
            kept: KeptLocks::default(),
            warned: Warnings::default(),
            names: Names::default(),
            ends,
        }
    }

    /// Has `main` end it with this exit code.
    pub fn ended(&self, code: ExitCode) {
        // Where `main` does not wait any more, it is ending the process already.
        let _ = self.ends.send(code);
    }
}

/// Servers that did not answer, by their sockets.
#[derive(Default)]
pub struct SilentServers(Mutex<HashMap<PathBuf, SilentServer>>);

/// A server that did not answer.
#[derive(Clone, Copy)]
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
    pub fn has(&self, path: &Path) -> bool {
        self.all().contains_key(path)
    }

    /// The one whose socket has this name in whatever folder.
    pub fn named(&self, name: &str) -> Option<SilentServer> {
        let all = self.all();
        let is_it = |path: &Path| path.file_name() == Some(name.as_ref());
        all.iter().find(|(path, _)| is_it(path)).map(|(_, silent)| *silent)
    }

    /// The sockets of all of them.
    pub fn sockets(&self) -> Vec<PathBuf> {
        self.all().keys().cloned().collect()
    }
}

/// Shared locks that are kept until the process ends.
#[derive(Default)]
pub struct KeptLocks(Mutex<Vec<File>>);

impl KeptLocks {
    /// Keeps those of these files.
    pub fn keep(&self, files: Vec<File>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(files);
    }
}

/// Subjects of which the user has been warned: each is told once.
#[derive(Default)]
pub struct Warnings {
    subjects: Mutex<BTreeSet<String>>,
    is_list_unread: AtomicBool,
    is_still_listed: AtomicBool,
}

impl Warnings {
    /// Whether nothing was said about this subject yet; from now on something was.
    pub fn is_first(&self, subject: &str) -> bool {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner).insert(subject.to_owned())
    }

    /// The list of known pools could not be read.
    pub fn list_is_unread(&self) {
        self.is_list_unread.store(true, Ordering::Relaxed);
    }

    /// Whether it could not. Nothing can be said of all pools then.
    pub fn is_list_unread(&self) -> bool {
        self.is_list_unread.load(Ordering::Relaxed)
    }

    /// A pool is gone, and is still in the list.
    pub fn still_listed(&self) {
        self.is_still_listed.store(true, Ordering::Relaxed);
    }

    /// Whether one is. The command is no success then: the next one with this name would open the
    /// pool again.
    pub fn is_still_listed(&self) -> bool {
        self.is_still_listed.load(Ordering::Relaxed)
    }
}
