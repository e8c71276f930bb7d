//! The streams, folder and rights of a client's process, for the command that runs for it in the
//! server.

use crate::feed::RemoteInput;
use crate::presence::Presence;
use crate::sink::{OutputState, WaitLimit};
use crate::stream::Stream;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a client may take to read why its command ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A client that has a command run, and what the server holds for it.
pub struct Caller<T> {
    /// The held object.
    pub held: T,
    /// The command line, with the program's name.
    pub args: Vec<OsString>,
    /// Its working directory; of another user `/`, because nothing is opened for another user by a
    /// path.
    pub folder: PathBuf,
    /// Its working directory, also of another user: only to compare paths with.
    pub stands_in: PathBuf,
    /// Variables of its environment, those that count.
    pub environment: BTreeMap<String, String>,
    /// Its user.
    pub user: u64,
    /// Its group.
    pub group: u64,
    /// Its standard input.
    pub input: File,
    /// Its standard output.
    pub output: Stream,
    /// Its standard error.
    pub errors: Stream,
    /// Whether it is still there.
    pub presence: Arc<Presence>,
    /// The state of its output.
    pub output_state: OutputState,
    /// Held by the thread that prints: the client's streams may be one pipe.
    pub turn: Mutex<()>,
    /// It wants what is seen of what is held, as data, to show it together with what is seen of
    /// others.
    pub is_part: bool,
    /// It is of another user, who may only read, and make the changes for which it has permissions.
    pub is_other_user: bool,
}

impl<T> Deref for Caller<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> Caller<T> {
    /// Prints to the client's standard output.
    ///
    /// # Errors
    /// It was lost, now or before, or the command was called off.
    pub fn print(&self, bytes: &[u8]) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.output_state.check()?;
        let written = self.output.write(bytes, WaitLimit::While(&self.presence));
        written.inspect_err(|e| {
            if self.presence.is_here() {
                self.output_state.lose(e);
                if !self.output_state.runs_on() {
                    self.presence.cancel("its output cannot be written");
                }
            }
        })
    }

    /// Prints to its standard error, as long as the client is there.
    pub fn complain(&self, text: &str) {
        if self.presence.is_here() {
            self.print_within(text, WaitLimit::While(&self.presence));
        }
    }

    /// Says why the command ended.
    pub fn final_message(&self, text: &str) {
        self.print_within(text, WaitLimit::Until(Instant::now() + LAST_WORDS));
    }

    fn print_within(&self, text: &str, patience: WaitLimit<'_>) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = self.errors.write(text.as_bytes(), patience)
            && self.presence.is_here()
        {
            self.output_state.lose_errors(&e);
        }
    }

    /// The error of closing its standard output, as long as the client is there.
    pub fn close_error(&self) -> Option<io::Error> {
        let error = self.output.close_error(WaitLimit::While(&self.presence));
        error.filter(|_| self.presence.is_here())
    }

    /// Its standard output is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.output.file().is_terminal()
    }

    /// Its standard input. That of another user is read by its process, when it sent a socket.
    ///
    /// # Errors
    /// The system has no descriptor.
    pub fn reader(&self) -> io::Result<Box<dyn Read + Send>> {
        let file = self.input.try_clone()?;
        Ok(match self.is_other_user && is_socket(&file) {
            true => Box::new(RemoteInput::new(UnixStream::from(OwnedFd::from(file)))),
            false => Box::new(file),
        })
    }

    /// Nothing comes by its standard input: it is a terminal, or another user's who sent no socket.
    #[must_use]
    pub fn has_no_input(&self) -> bool {
        self.input.is_terminal() || (self.is_other_user && !is_socket(&self.input))
    }

    /// Its standard output takes any bytes, and as many as come. Output for other users is kept as
    /// text, unless they sent a socket for it.
    #[must_use]
    pub fn takes_streams(&self) -> bool {
        !self.is_other_user || is_socket(self.output.file())
    }
}

fn is_socket(file: &File) -> bool {
    file.metadata().is_ok_and(|m| m.file_type().is_socket())
}
