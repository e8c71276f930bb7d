//! Whom a verb works for: the one who started this process, or a client of the server.
//!
//! `zinc serve` runs the verbs of others against the pool it holds. What a verb otherwise takes
//! from its process then comes from the client: the command line, the folder it stands in, the
//! terminal, who it is. It is kept for the thread that runs the verb; [`inherit`] hands it to
//! threads that the verb starts. A verb does not notice, as long as it prints through `ui` and
//! resolves what was typed with [`path`].

use engine::LivePool;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Variables that change what verbs print, and go with the command line.
pub const ENVIRONMENT: [&str; 2] = ["TZ", "COLUMNS"];

/// A client that has a verb run.
pub struct Asked {
    /// The pool that is held.
    pub pool: Arc<LivePool>,
    /// The command line, with the program's name.
    pub args: Vec<OsString>,
    /// The folder it stands in.
    pub folder: PathBuf,
    /// Those of [`ENVIRONMENT`] that it has.
    pub environment: BTreeMap<String, String>,
    /// Its user.
    pub user: u64,
    /// Its group.
    pub group: u64,
    /// Its standard input.
    pub input: File,
    /// Its standard output.
    pub output: File,
    /// Its standard error.
    pub errors: File,
}

thread_local! {
    static ASKED: RefCell<Option<Arc<Asked>>> = const { RefCell::new(None) };
}

/// The client this thread works for; `None` for the process itself.
pub fn client() -> Option<Arc<Asked>> {
    ASKED.with_borrow(Option::clone)
}

/// Runs `work` for `asked`, as told by [`client`] to a thread that was started by one that works
/// for it.
pub fn inherit<T>(asked: Option<&Arc<Asked>>, work: impl FnOnce() -> T) -> T {
    /// Puts back what was, also when `work` panics.
    struct Back(Option<Arc<Asked>>);
    impl Drop for Back {
        fn drop(&mut self) {
            ASKED.set(self.0.take());
        }
    }
    let _back = Back(ASKED.replace(asked.cloned()));
    work()
}

/// The pool that is held, when `name` (a pool, its guid, or anything in a pool) belongs to it.
pub fn held(name: &str) -> Option<Arc<LivePool>> {
    let asked = client()?;
    let wanted = crate::common::pool_of(name);
    let is_it = wanted == asked.pool.name() || wanted.parse() == Ok(asked.pool.view().guid());
    is_it.then(|| Arc::clone(&asked.pool))
}

/// The command line, with the program's name.
pub fn arguments() -> Vec<OsString> {
    client().map_or_else(|| std::env::args_os().collect(), |asked| asked.args.clone())
}

/// One of [`ENVIRONMENT`].
pub fn variable(name: &str) -> Option<OsString> {
    match client() {
        Some(asked) => asked.environment.get(name).map(OsString::from),
        None => std::env::var_os(name),
    }
}

/// Where a path leads that was typed.
pub fn path(typed: &Path) -> PathBuf {
    match client() {
        Some(asked) => asked.folder.join(typed),
        None => typed.to_owned(),
    }
}

/// The same for an argument.
pub fn argument(typed: &OsStr) -> OsString {
    path(Path::new(typed)).into_os_string()
}

/// Standard input.
pub fn input() -> io::Result<Box<dyn Read>> {
    Ok(match client() {
        Some(asked) => Box::new(asked.input.try_clone()?),
        None => Box::new(io::stdin().lock()),
    })
}

impl Asked {
    /// Prints to the client's standard output. One that went away misses it, as `| head` wants.
    pub fn print(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.output).write_all(bytes)
    }

    /// Prints to its standard error.
    pub fn complain(&self, text: &str) {
        let _ = (&self.errors).write_all(text.as_bytes());
    }

    /// Its standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.output.is_terminal()
    }
}
