//! Carrying bytes.
//!
//! One thread at a time reads from a connection, through its [`Input`], and one at a time writes;
//! both may happen at the same time.

use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes read at once, if fewer are needed.
const READ_SIZE: usize = 64 << 10;
/// Parts that the system takes in one call.
const PARTS_MAX: usize = 1024;

/// A connection as the system has it.
pub trait Connection: Send + Sync {
    /// Reads what there is, at least a byte; 0 at the end.
    ///
    /// # Errors
    /// The system's error.
    fn read(&self, out: &mut [u8]) -> io::Result<usize>;
    /// Writes something of these.
    ///
    /// # Errors
    /// The system's error.
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;
    /// A read waits no longer than this.
    ///
    /// # Errors
    /// The system's error.
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()>;
    /// Nothing more is read: what came in before is.
    fn end_input(&self);
    /// Nothing more is read or written.
    fn hang_up(&self);
}

/// Both kinds of streams. An error of a shutdown means that it happened already.
macro_rules! line {
    ($stream:ty) => {
        impl Connection for $stream {
            fn read(&self, out: &mut [u8]) -> io::Result<usize> {
                io::Read::read(&mut &*self, out)
            }

            fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
                io::Write::write_vectored(&mut &*self, parts)
            }

            fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
                self.set_read_timeout(patience)
            }

            fn end_input(&self) {
                let _ = self.shutdown(Shutdown::Read);
            }

            fn hang_up(&self) {
                let _ = self.shutdown(Shutdown::Both);
            }
        }
    };
}
line!(UnixStream);
line!(TcpStream);

/// Sets up a connection over TCP: small answers go at once, and one whose machine is gone is
/// noticed. A write waits no longer than `patience`.
///
/// # Errors
/// The system's error.
pub fn prepare_tcp(stream: &TcpStream, patience: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(patience))?;
    Ok(rustix::net::sockopt::set_socket_keepalive(stream, true)?)
}

/// The same over a Unix socket.
///
/// # Errors
/// The system's error.
pub fn prepare_unix(stream: &UnixStream, patience: Duration) -> io::Result<()> {
    stream.set_write_timeout(Some(patience))
}

/// Writes all of `head` and `body`.
///
/// # Errors
/// The system's error.
pub fn send(line: &dyn Connection, head: &[u8], body: &[u8]) -> io::Result<()> {
    send_parts(line, &mut [IoSlice::new(head), IoSlice::new(body)])
}

/// Writes all of these.
///
/// # Errors
/// The system's error.
pub fn send_parts(line: &dyn Connection, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    let mut parts = parts;
    // Without what is empty, of which nothing can be written.
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        let some = parts.get(..parts.len().min(PARTS_MAX)).unwrap_or_default();
        match line.write(some) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut parts, n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The reading side of a connection.
pub struct Input {
    buffer: Vec<u8>,
    start: usize,
    /// All must be read by then.
    until: Option<Instant>,
}

impl Input {
    /// One of which all must be read by a moment.
    #[must_use]
    pub fn new(until: Option<Instant>) -> Self {
        Self { buffer: Vec::new(), start: 0, until }
    }

    /// From now on reads wait as long as it takes.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait_for_ever(&mut self, line: &dyn Connection) -> io::Result<()> {
        self.until = None;
        line.set_patience(None)
    }

    /// Whether more was read than was requested.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.start < self.buffer.len()
    }

    /// What was read and not taken yet.
    #[must_use]
    pub fn held(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Reads wait no longer than there is time.
    pub(crate) fn set_patience(&self, line: &dyn Connection) -> io::Result<()> {
        let Some(until) = self.until else { return Ok(()) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        line.set_patience(Some(left))
    }

    fn read(&self, line: &dyn Connection, out: &mut [u8]) -> io::Result<usize> {
        self.set_patience(line)?;
        loop {
            match line.read(out) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Fills `out`.
    ///
    /// # Errors
    /// The system's error, the end of the input, and the deadline.
    pub fn fill(&mut self, line: &dyn Connection, out: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let held = self.held();
            if !held.is_empty() {
                let n = held.len().min(rest.len());
                rest[..n].copy_from_slice(&held[..n]);
                self.start += n;
                done += n;
                continue;
            }
            let n = if rest.len() >= READ_SIZE {
                let n = self.read(line, rest)?;
                done += n;
                n
            } else {
                // Taken out, so that it can be filled while the rest of this is looked at.
                let mut buffer = std::mem::take(&mut self.buffer);
                buffer.resize(READ_SIZE, 0);
                let result = self.read(line, &mut buffer);
                buffer.truncate(*result.as_ref().unwrap_or(&0));
                (self.buffer, self.start) = (buffer, 0);
                result?
            };
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Reads `n` bytes into `out` in place of what is there.
    ///
    /// # Errors
    /// As [`Self::fill`].
    pub fn take(&mut self, line: &dyn Connection, out: &mut Vec<u8>, n: usize) -> io::Result<()> {
        out.resize(n, 0);
        self.fill(line, out)
    }
}
