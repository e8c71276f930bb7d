//! Writing to a descriptor, and what became of the output of a command.
//!
//! Nothing is buffered here: bytes that [`write`] accepted are the system's, and bytes that it did
//! not accept are an error at once. Two kinds of errors come later all the same, and
//! [`close_error`] returns them: network file systems report at `close` that a disk was full. A
//! write that may block for longer than the user waits goes through [`crate::stream`].

use crate::presence::Presence;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are copied at once.
const PIECE: usize = 1 << 18;
/// Longest wait before the next check whether a client still wants its output.
const TICK: Duration = Duration::from_millis(100);
/// How long a server waits for the reader of its messages.
const BRIEF: Duration = Duration::from_secs(1);

/// How long to wait for a reader that does not read.
#[derive(Clone, Copy)]
pub enum WaitLimit<'a> {
    /// As long as the client is there, and its command is not called off.
    While(&'a Presence),
    /// Until then.
    Until(Instant),
}

impl WaitLimit<'_> {
    /// # Errors
    /// It is at its end.
    pub fn check(self) -> io::Result<()> {
        match self {
            Self::While(presence) if !presence.is_here() => Err(io::ErrorKind::BrokenPipe.into()),
            Self::Until(end) if Instant::now() >= end => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }

    /// How long to wait before the next [`Self::check`].
    pub fn tick(self) -> Duration {
        match self {
            Self::While(_) => TICK,
            Self::Until(end) => end.saturating_duration_since(Instant::now()).min(TICK),
        }
    }
}

/// Writes all bytes, however long that takes.
///
/// # Errors
/// The system's error.
pub fn write(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&to, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            // Another program made it so; it still takes all.
            Err(rustix::io::Errno::AGAIN) => wait(&to)?,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Writes all that comes from a socket, until its other end is closed.
///
/// # Errors
/// The system's error. The other end notices when it writes again.
pub fn copy(mut from: UnixStream, to: impl AsFd) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let taken = from.read(&mut piece)?;
        match piece.get(..taken) {
            None | Some([]) => return Ok(()),
            Some(bytes) => write(&to, bytes)?,
        }
    }
}

/// The files, if they are two sockets that carry bytes to a process of this user, like the ends of
/// a pair that it made. Bytes written to any other file are the responsibility of the process that
/// writes.
#[must_use]
pub fn two_sockets(files: Vec<OwnedFd>, user: u32) -> Option<[UnixStream; 2]> {
    let is_of_user = |file: &OwnedFd| {
        let is = |known: rustix::io::Result<bool>| known == Ok(true);
        is(sockopt::socket_domain(file).map(|domain| domain == AddressFamily::UNIX))
            && is(sockopt::socket_type(file).map(|kind| kind == SocketType::STREAM))
            && is(sockopt::socket_peercred(file).map(|peer| peer.uid.as_raw() == user))
    };
    let all = files.iter().all(is_of_user);
    let two = <[OwnedFd; 2]>::try_from(files).ok().filter(|_| all)?;
    Some(two.map(UnixStream::from))
}

/// Waits until it takes something, or is broken.
fn wait(fd: &impl AsFd) -> io::Result<()> {
    match poll(&mut [PollFd::new(fd, PollFlags::OUT)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// The error of closing this descriptor, which stays open.
pub fn close_error(fd: impl AsFd) -> Option<io::Error> {
    let copy = fd.as_fd().try_clone_to_owned().ok()?;
    nix::unistd::close(copy).err().map(io::Error::from)
}

/// Why output was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its reader wanted no more (`| head`).
    ReaderGone,
    /// It could not be written.
    Failed(String),
}

/// The state of the output of a command. The first loss counts; nothing is written after it.
#[derive(Default)]
pub struct OutputState(Mutex<State>);

#[derive(Default)]
struct State {
    output: Option<Lost>,
    errors_lost: bool,
    runs_on: bool,
    is_brief: bool,
}

impl OutputState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loss of standard output.
    pub fn lost(&self) -> Option<Lost> {
        self.state().output.clone()
    }

    /// Whether there is still somewhere to write to.
    ///
    /// # Errors
    /// That there is not.
    pub fn check(&self) -> io::Result<()> {
        match self.lost() {
            None => Ok(()),
            Some(Lost::ReaderGone) => Err(io::ErrorKind::BrokenPipe.into()),
            Some(Lost::Failed(why)) => Err(io::Error::other(why)),
        }
    }

    /// Standard output failed.
    pub fn lose(&self, error: &io::Error) {
        let lost = match error.kind() {
            io::ErrorKind::BrokenPipe => Lost::ReaderGone,
            _ => Lost::Failed(error.to_string()),
        };
        self.state().output.get_or_insert(lost);
    }

    /// Standard error failed.
    pub fn lose_errors(&self, error: &io::Error) {
        self.state().errors_lost |= error.kind() != io::ErrorKind::BrokenPipe;
    }

    /// Whether a message was lost.
    pub fn has_lost_errors(&self) -> bool {
        self.state().errors_lost
    }

    /// The command changes something: it is done to its end, whether or not its output is read.
    pub fn run_on(&self) {
        self.state().runs_on = true;
    }

    /// Messages may have no reader: writing one does not wait long.
    pub fn be_brief(&self) {
        self.state().is_brief = true;
    }

    /// How long writing a message may wait; `None`: for ever, as long as it can be interrupted.
    pub fn patience(&self) -> Option<WaitLimit<'static>> {
        self.state().is_brief.then(|| WaitLimit::Until(Instant::now() + BRIEF))
    }

    /// Whether it is.
    pub fn runs_on(&self) -> bool {
        self.state().runs_on
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn a_full_disk_is_a_failure_and_a_reader_that_left_is_none() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = OutputState::default();
        output.lose(&write(&full, b"x").unwrap_err());
        assert!(matches!(output.lost(), Some(Lost::Failed(why)) if why.contains("No space left")));
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let gone = write(&writer, b"x").unwrap_err();
        // The first loss counts.
        output.lose(&gone);
        assert!(matches!(output.lost(), Some(Lost::Failed(_))) && output.check().is_err());
        let output = OutputState::default();
        output.lose(&gone);
        assert_eq!(output.lost(), Some(Lost::ReaderGone));
    }
}
