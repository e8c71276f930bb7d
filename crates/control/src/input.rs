//! The input of a client: a pipe without a writer must not hold what serves a client that is gone.
//!
//! No question put to the system tells whether a read will wait, so a thread of its own reads.
//! Where it is not waited for any more it stays in its read, and ends with it.

use std::fs::File;
use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Bytes that the thread reads at once.
const PIECE: usize = 256 << 10;
/// Time between two looks whether the input is still wanted.
const TICK: Duration = Duration::from_millis(100);

/// Input that another thread reads, for as long as `is_wanted` says no error.
pub struct Input<W> {
    is_wanted: W,
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    at: usize,
}

impl<W: Fn() -> io::Result<()>> Input<W> {
    /// Begins to read `file`.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn new(mut file: File, is_wanted: W) -> io::Result<Self> {
        let (send, pieces) = mpsc::sync_channel(1);
        let read = move || {
            loop {
                let mut piece = vec![0; PIECE];
                let got = file.read(&mut piece).map(|n| {
                    piece.truncate(n);
                    piece
                });
                let is_end = !got.as_ref().is_ok_and(|p| !p.is_empty());
                if send.send(got).is_err() || is_end {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("input".to_owned()).spawn(read)?;
        Ok(Self { is_wanted, pieces, piece: Vec::new(), at: 0 })
    }
}

impl<W: Fn() -> io::Result<()>> Read for Input<W> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            (self.is_wanted)()?;
            self.piece = match self.pieces.recv_timeout(TICK) {
                Ok(piece) => piece?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            };
            self.at = 0;
            if self.piece.is_empty() {
                return Ok(0);
            }
        }
        let n = out.len().min(self.piece.len() - self.at);
        out[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::OwnedFd;

    #[test]
    fn what_is_written_is_read_until_it_is_not_wanted() {
        let (reader, mut writer) = io::pipe().unwrap();
        let is_over = std::cell::Cell::new(false);
        let wanted = || if is_over.get() { Err(io::Error::other("over")) } else { Ok(()) };
        let mut input = Input::new(File::from(OwnedFd::from(reader)), wanted).unwrap();
        writer.write_all(b"abc").unwrap();
        let mut out = [0; 3];
        input.read_exact(&mut out).unwrap();
        assert_eq!(&out, b"abc");
        is_over.set(true);
        assert_eq!(input.read(&mut out).unwrap_err().to_string(), "over");
    }
}
