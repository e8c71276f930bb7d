//! Writing to a descriptor, and what became of the output of a verb.
//!
//! Nothing is buffered here: what [`write`] accepted is the system's, and what it did not accept is
//! an error at once. Two kinds of errors come later all the same, and [`close_error`] asks for
//! them: network file systems say at `close` that a disk was full.

use crate::asked::Presence;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait before it is asked again whether a client still wants its output.
const TICK: Duration = Duration::from_millis(100);
/// How long a server waits for whoever reads its messages.
const BRIEF: Duration = Duration::from_secs(1);
/// Bytes that a pipe which is ready takes without blocking (`PIPE_BUF`).
const PIECE: usize = 4096;

/// How long to wait for a reader that does not read.
#[derive(Clone, Copy)]
pub enum Patience<'a> {
    /// For ever: it is this process that blocks, and it can be interrupted.
    Ever,
    /// As long as the client is there, and its verb is not called off.
    While(&'a Presence),
    /// Until then.
    Until(Instant),
}

impl Patience<'_> {
    fn check(self) -> io::Result<()> {
        match self {
            Self::While(presence) if !presence.is_here() => Err(io::ErrorKind::BrokenPipe.into()),
            Self::Until(end) if Instant::now() >= end => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

/// Writes all bytes.
///
/// # Errors
/// The system's error, or that `patience` is at its end.
pub fn write(to: BorrowedFd<'_>, mut bytes: &[u8], patience: Patience<'_>) -> io::Result<()> {
    // A blocking descriptor is made to block for no longer than a tick: by asking first whether it
    // takes anything, and by giving it no more than it then takes.
    let careful = !matches!(patience, Patience::Ever) && !is_file(to);
    while !bytes.is_empty() {
        patience.check()?;
        if careful {
            wait(to, patience)?;
        }
        let piece = if careful { bytes.len().min(PIECE) } else { bytes.len() };
        match rustix::io::write(to, &bytes[..piece]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => wait(to, patience)?,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

fn is_file(fd: BorrowedFd<'_>) -> bool {
    let kind = rustix::fs::fstat(fd).map(|s| rustix::fs::FileType::from_raw_mode(s.st_mode));
    kind.is_ok_and(|kind| kind.is_file())
}

/// Waits until it takes something, or is broken.
fn wait(fd: BorrowedFd<'_>, patience: Patience<'_>) -> io::Result<()> {
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
    loop {
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
        match poll(&mut fds, Some(&tick)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => patience.check()?,
            Ok(_) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// What closing this descriptor would say; it stays open.
pub fn close_error(fd: BorrowedFd<'_>) -> Option<io::Error> {
    let copy = fd.try_clone_to_owned().ok()?;
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

/// What became of the output of a verb. The first loss counts; nothing is written after it.
pub struct Fate(Mutex<State>);

struct State {
    output: Option<Lost>,
    errors_lost: bool,
    runs_on: bool,
    is_brief: bool,
}

impl Fate {
    /// Nothing was lost.
    pub const fn new() -> Self {
        Self(Mutex::new(State {
            output: None,
            errors_lost: false,
            runs_on: false,
            is_brief: false,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was lost of standard output.
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
            _ => Lost::Failed(crate::failure::system_text(error)),
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

    /// The verb changes something: it is done to its end, whoever reads what it prints.
    pub fn run_on(&self) {
        self.state().runs_on = true;
    }

    /// Nobody may be there to read messages, and no message is waited with for long.
    pub fn be_brief(&self) {
        self.state().is_brief = true;
    }

    /// How long a message is waited with.
    pub fn patience(&self) -> Patience<'static> {
        match self.state().is_brief {
            true => Patience::Until(Instant::now() + BRIEF),
            false => Patience::Ever,
        }
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
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_full_disk_is_a_failure_and_a_reader_that_left_is_none() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let fate = Fate::new();
        fate.lose(&write(full.as_fd(), b"x", Patience::Ever).unwrap_err());
        assert!(matches!(fate.lost(), Some(Lost::Failed(why)) if why.contains("No space left")));
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let gone = write(writer.as_fd(), b"x", Patience::Ever).unwrap_err();
        // The first loss counts.
        fate.lose(&gone);
        assert!(matches!(fate.lost(), Some(Lost::Failed(_))) && fate.check().is_err());
        let fate = Fate::new();
        fate.lose(&gone);
        assert_eq!(fate.lost(), Some(Lost::ReaderGone));
    }

    #[test]
    fn a_reader_that_reads_nothing_holds_a_verb_up_until_it_is_called_off() {
        let (mut reader, writer) = io::pipe().unwrap();
        let presence = Presence::default();
        std::thread::scope(|scope| {
            let writing =
                scope.spawn(|| write(writer.as_fd(), &[7; 1 << 20], Patience::While(&presence)));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!writing.is_finished(), "a pipe holds less than this");
            presence.call_off("it is enough");
            assert_eq!(writing.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
        let end = Patience::Until(Instant::now() + Duration::from_millis(20));
        let late = write(writer.as_fd(), &[7; 1 << 20], end).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        drop(writer);
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert!(all.iter().all(|b| *b == 7) && all.len() < 1 << 20);
    }

    #[test]
    fn what_is_written_arrives_whole() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (presence, sent) = (Presence::default(), vec![9; 300_001]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                write(writer.as_fd(), &sent, Patience::While(&presence)).unwrap();
                assert!(close_error(writer.as_fd()).is_none());
                drop(writer);
            });
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            assert_eq!(all, sent);
        });
    }
}
