//! The state shared by all sessions of a process.

use super::Session;
use control::SilentServers;
use control::sink::OutputState;
use control::stream::Stream;
use engine::devices::SilenceWatch;
use engine::pools::NoWriters;
use hostfs::users::Names;
use imported::Warnings;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The state shared by all sessions of a process.
pub struct Process {
    /// Its command line, with the program's name; if the name means a verb, that follows it.
    pub arguments: Vec<OsString>,
    /// The grammar of the command line.
    pub grammar: CommandTable,
    /// The state of its own output.
    pub output: OutputState,
    /// Its standard error, once it waits for no reader.
    pub errors: OnceLock<io::Result<Stream>>,
    /// The servers that did not answer it.
    pub silent: SilentServers,
    /// Finds the devices that do not answer it.
    pub silence: Arc<SilenceWatch>,
    /// The locks it keeps until it ends.
    pub kept: KeptLocks,
    /// The warnings it has given.
    pub warned: Warnings,
    /// The names of users and groups.
    pub names: Names,
    /// Where `main` waits for the exit code.
    ends: Sender<ExitCode>,
}

/// The command line as a whole. It comes from `main`: a verb knows itself and what is below it, and
/// a few verbs have to do with all of them.
#[derive(Clone, Copy)]
pub struct CommandTable {
    /// All verbs with their options.
    pub verbs: fn() -> clap::Command,
    /// Runs the command line of a session, for the client that it is of; the exit code.
    pub run: fn(&Session) -> ExitCode,
}

impl Process {
    /// One that `main` ends with the first exit code that is sent to `ends`.
    pub fn new(arguments: Vec<OsString>, grammar: CommandTable, ends: Sender<ExitCode>) -> Self {
        Self {
            arguments,
            grammar,
            output: OutputState::default(),
            errors: OnceLock::new(),
            silent: SilentServers::default(),
            silence: Arc::default(),
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

/// Pools that no process writes to until this one ends.
#[derive(Default)]
pub struct KeptLocks(Mutex<Vec<NoWriters>>);

impl KeptLocks {
    /// Keeps writers from this one.
    pub fn keep(&self, pool: NoWriters) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(pool);
    }
}
