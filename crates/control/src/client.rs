//! Asking.

use crate::feed::feed;
use crate::protocol::{ANSWER_MAX, Refusal, Request, decode_answer};
use crate::sink;
use crate::socket_file::SocketFile;
use crate::wire::{LineError, Lines, send};
use rustix::net::sockopt::socket_peercred;
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Why there is no answer to use.
#[derive(Debug)]
pub enum CallError {
    /// The server refused.
    Refused(Refusal),
    /// The server ended or hung up before it answered.
    Gone,
    /// The received line is not an answer.
    Nonsense,
    /// The system's error; a timeout among them.
    Io(io::Error),
}

impl CallError {
    /// No answer came in the time that was given.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        let kinds = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
        matches!(self, Self::Io(e) if kinds.contains(&e.kind()))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "{refusal}"),
            Self::Gone => f.write_str("the server ended before it answered"),
            Self::Nonsense => f.write_str("the server's answer is malformed"),
            Self::Io(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for CallError {}

impl From<io::Error> for CallError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
}

impl Client {
    /// Connects. Each answer is waited for `patience` at most, where there is one.
    ///
    /// # Errors
    /// When no process listens there.
    pub fn connect(path: &Path, patience: Option<Duration>) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        let client = Self { stream };
        client.set_patience(patience)?;
        Ok(client)
    }

    /// The same; the socket of a server that was killed is removed.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_or_clear(path: &Path, patience: Duration) -> io::Result<Self> {
        let there = SocketFile::identity(path);
        Self::connect(path, Some(patience)).inspect_err(|e| {
            // A server listens before its socket has this name: that of this one was killed.
            let is_dead = e.kind() == io::ErrorKind::ConnectionRefused;
            if is_dead && there.is_some() && SocketFile::identity(path) == there {
                let _ = std::fs::remove_file(path);
            }
        })
    }

    /// Sets how long answers are waited for; `None`: for ever.
    ///
    /// # Errors
    /// When it is zero.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(patience)
    }

    /// The process at the other end, as far as the system tells.
    #[must_use]
    pub fn server_process(&self) -> Option<i32> {
        let peer = socket_peercred(&self.stream).ok()?;
        Some(peer.pid.as_raw_nonzero().get())
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// When the server refuses or is no more.
    pub fn call(&mut self, verb: &str, params: Value) -> Result<Value, CallError> {
        self.call_with(verb, params, &[])
    }

    /// The same, and what the server writes meanwhile goes to `output`: into one of two sockets
    /// that are sent along, the other of which is open for as long as the answer is waited for.
    ///
    /// # Errors
    /// As [`Self::call`], and `output` receives the output. If its reader went away, the answer
    /// says so.
    pub fn call_streaming(
        &mut self,
        verb: &str,
        params: Value,
        output: BorrowedFd<'_>,
    ) -> Result<Value, CallError> {
        let (from, to) = UnixStream::pair()?;
        let (_mine, watch) = UnixStream::pair()?;
        std::thread::scope(|scope| {
            let copying = scope.spawn(move || sink::copy(from, output));
            let answer = self.call_with(verb, params, &[to.as_fd(), watch.as_fd()]);
            drop(to);
            match copying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
                _ => answer,
            }
        })
    }

    /// The same as [`Self::call`], and the server may have `input` read here, as far as it asks for
    /// it ([`crate::feed`]). A thread that waits for input when the answer comes is left behind.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn call_feeding(
        &mut self,
        verb: &str,
        params: Value,
        input: OwnedFd,
    ) -> Result<Value, CallError> {
        let (from, to) = UnixStream::pair()?;
        let (_mine, watch) = UnixStream::pair()?;
        let read = move || {
            // The server notices the end of the socket.
            let _ = feed(to, File::from(input));
        };
        std::thread::Builder::new().name("input".to_owned()).spawn(read)?;
        self.call_with(verb, params, &[from.as_fd(), watch.as_fd()])
    }

    /// The same as [`Self::call`], sending open files along.
    ///
    /// # Errors
    /// When the server refuses or is no more.
    pub fn call_with(
        &mut self,
        verb: &str,
        params: Value,
        files: &[BorrowedFd<'_>],
    ) -> Result<Value, CallError> {
        let sent = send(&self.stream, &Request::new(verb, params).encode(), files);
        if let Err(e) = sent {
            // Why it hung up may be in what it sent before.
            let hung_up = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
            if !hung_up.contains(&e.kind()) {
                return Err(e.into());
            }
        }
        // One request is under way at a time, so nothing stays in the reader's buffer.
        let line = match Lines::new(&self.stream, ANSWER_MAX).next() {
            Ok(Some(line)) => line,
            Ok(None) => return Err(CallError::Gone),
            Err(LineError::TooLong) => return Err(CallError::Nonsense),
            Err(LineError::Io(e)) if e.kind() == io::ErrorKind::ConnectionReset => {
                return Err(CallError::Gone);
            }
            Err(LineError::Io(e)) => return Err(e.into()),
        };
        match decode_answer(&line.bytes) {
            Some(Ok(value)) => Ok(value),
            Some(Err(refusal)) => Err(CallError::Refused(refusal)),
            None => Err(CallError::Nonsense),
        }
    }
}
