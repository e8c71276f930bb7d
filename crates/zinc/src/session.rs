//! A session: what a verb works with besides its arguments.
//!
//! A verb is `run(self, &Session)`. The session provides everything that the verb would otherwise
//! take from its process: the caller and its folder, the terminal, whether the verb was cancelled,
//! and the pool that is held. The session is of this process itself, or of a client of the server:
//! `zinc serve` runs the verbs of its clients against the pool it holds. A verb does not notice the
//! difference as long as it prints through `ui` and resolves typed paths with [`Session::path`]. A
//! session is cheap to clone; a thread that outlives the call gets a clone.
//!
//! ARCHITECTURE.md (`zinc`, Sessions) has how a session lives, and what it shares.

mod client;
mod process;

pub use client::{Client, Held};
pub use process::{CommandTable, Process};

use crate::failure::{Failure, cancelled};
use control::input::{Amount, Input};
use engine::datasets::pool_of;
use engine::devices::{AnyDevices, DeviceSource, is_far};
use engine::{LivePool, Progress};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Variables that change what verbs do or print, and go with the command line.
pub const ENVIRONMENT: [&str; 6] =
    ["TZ", "COLUMNS", "POSIXLY_CORRECT", "ZINC_PRICES", "ZINC_WAIT", "ZPOOL_IMPORT_PATH"];

/// The context of a verb.
#[derive(Clone)]
pub struct Session {
    client: Option<Arc<Client>>,
    process: Arc<Process>,
}

impl Session {
    /// That of this process.
    pub fn of_process(process: Process) -> Self {
        Self { client: None, process: Arc::new(process) }
    }

    /// One of a process that is not ended from outside, and has no verbs.
    #[cfg(test)]
    pub fn of_test() -> Self {
        let (ends, _) = std::sync::mpsc::channel();
        let verbs = || clap::Command::new("zinc");
        let grammar = CommandTable { verbs, run: |_| ExitCode::FAILURE };
        Self::of_process(Process::new(Vec::new(), grammar, ends))
    }

    /// That of a client of this process.
    pub fn for_client(&self, client: Arc<Client>) -> Self {
        Self { client: Some(client), process: Arc::clone(&self.process) }
    }

    /// The client that the verb runs for; `None` for the process itself.
    pub fn client(&self) -> Option<&Arc<Client>> {
        self.client.as_ref()
    }

    /// The state of the process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The last thing that the process had to do is done: `main` ends it with this exit code.
    pub fn ended(&self, code: ExitCode) {
        self.process.ended(code);
    }

    /// Ends the process with this exit code, whatever its threads are doing, this one included: it
    /// does nothing more. It waits for the moment that `main` needs to return, and is not unwound,
    /// for that would drop what is on its stack: a pool that is open would be closed, and closing
    /// writes. That is what happens at an exit, too.
    pub fn end(&self, code: ExitCode) -> ! {
        self.ended(code);
        loop {
            std::thread::park();
        }
    }

    /// The verb runs for a client that wants a part of what it will show.
    pub fn is_for_a_part(&self) -> bool {
        self.client().is_some_and(|client| client.is_part)
    }

    /// The verb runs for a client of another user, for whom the pool asks for permissions.
    pub fn is_for_another_user(&self) -> bool {
        self.client().is_some_and(|client| client.is_other_user)
    }

    /// The pool that is held, when `name` (a pool, its guid, or anything in a pool) belongs to it.
    pub fn held(&self, name: &str) -> Option<Arc<LivePool>> {
        let client = self.client()?;
        let wanted = pool_of(name);
        let is_it = wanted == client.pool.name() || wanted.parse() == Ok(client.pool.guid());
        is_it.then(|| Arc::clone(&client.pool))
    }

    /// The command line, with the program's name.
    pub fn arguments(&self) -> &[OsString] {
        self.client().map_or(&self.process.arguments, |client| &client.args)
    }

    /// One of [`ENVIRONMENT`].
    pub fn variable(&self, name: &str) -> Option<OsString> {
        match self.client() {
            Some(client) => client.environment.get(name).map(OsString::from),
            None => std::env::var_os(name),
        }
    }

    /// Where a path leads that was typed.
    pub fn path(&self, typed: &Path) -> PathBuf {
        match self.client() {
            // A name of a device of another machine leads there from everywhere.
            Some(_) if is_far(typed) => typed.to_owned(),
            Some(client) => client.folder.join(typed),
            None => typed.to_owned(),
        }
    }

    /// Resolves a typed path, to compare it with others: it is not opened.
    pub fn meant(&self, typed: &Path) -> PathBuf {
        let folder = self.client().map(|client| client.stands_in.as_path());
        hostfs::names::absolute(&folder.unwrap_or(Path::new("")).join(typed))
    }

    /// The same for an argument.
    pub fn argument(&self, typed: &OsStr) -> OsString {
        self.path(Path::new(typed)).into_os_string()
    }

    /// The user who runs the command.
    pub fn user(&self) -> u64 {
        match self.client() {
            Some(client) => client.user,
            None => std::fs::metadata("/proc/self").map_or(0, |m| u64::from(m.uid())),
        }
    }

    /// The group of that user.
    pub fn group(&self) -> u64 {
        match self.client() {
            Some(client) => client.group,
            None => std::fs::metadata("/proc/self").map_or(0, |m| u64::from(m.gid())),
        }
    }

    /// Name of a user on this machine.
    pub fn user_name(&self, id: u64) -> Option<&str> {
        self.process.names.user(id)
    }

    /// Number of a user of this machine.
    pub fn user_id(&self, name: &str) -> Option<u64> {
        self.process.names.user_id(name)
    }

    /// Number of a group of this machine.
    pub fn group_id(&self, name: &str) -> Option<u64> {
        self.process.names.group_id(name)
    }

    /// Name of a group on this machine.
    pub fn group_name(&self, id: u64) -> Option<&str> {
        self.process.names.group(id)
    }

    /// A source of devices, of this machine and of others, for one task.
    pub fn devices(&self) -> Arc<dyn DeviceSource> {
        Arc::new(AnyDevices::watched(&self.process.silence))
    }

    /// Looked at in loops that may take long.
    ///
    /// # Errors
    /// The verb was called off.
    pub fn check(&self) -> Result<(), Failure> {
        match self.client() {
            Some(client) if !client.presence.is_here() => Err(cancelled()),
            _ => Ok(()),
        }
    }

    /// A pause between two reports.
    ///
    /// # Errors
    /// The verb was called off.
    pub fn sleep(&self, time: Duration) -> Result<(), Failure> {
        match self.client() {
            Some(client) if client.presence.ends_within(time) => Err(cancelled()),
            Some(_) => Ok(()),
            None => {
                std::thread::sleep(time);
                Ok(())
            }
        }
    }

    /// Standard input, until the verb is cancelled.
    pub fn input<'p>(
        &self,
        amount: Amount,
        progress: &'p Progress,
    ) -> io::Result<Box<dyn Read + 'p>> {
        let Some(client) = self.client() else {
            return Ok(Box::new(File::from(io::stdin().as_fd().try_clone_to_owned()?)));
        };
        let is_wanted = || progress.check().map_err(io::Error::other);
        Ok(Box::new(Input::new(client.reader()?, amount, is_wanted)?))
    }

    /// Standard input is a terminal, or nothing that can be read.
    pub fn is_input_terminal(&self) -> bool {
        self.client().map_or_else(|| io::stdin().is_terminal(), |c| c.has_no_input())
    }
}
