//! The input of a client: a pipe without a writer must not hold what serves a client that is gone.
//!
//! Data that is already there is read, wanted or not: only then is it known whether the stream has
//! ended. The caller checks before each piece whether it is to continue.
//!
//! The system cannot tell in advance whether a read will wait, so a separate thread reads. When the
//! caller no longer waits for it, the thread stays in its read and ends with it. It reads only as
//! much as was requested: the bytes that follow belong to the next program that reads the same
//! pipe. For a caller that takes the whole input it reads ahead.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

/// Bytes that the thread reads at once, at most.
const PIECE: usize = 1 << 20;
/// The same where it reads ahead.
const PIECE_AHEAD: usize = 256 << 10;
/// Time between two looks whether the input is still wanted.
const TICK: Duration = Duration::from_millis(100);

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Only what is requested.
    OnDemand,
    /// All of it, ahead of requests.
    All,
}

/// Input that another thread reads, for as long as `is_wanted` returns no error.
pub struct Input<W> {
    is_wanted: W,
    amount: Amount,
    asks: SyncSender<usize>,
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// A request is pending.
    is_reading: bool,
    piece: Vec<u8>,
    at: usize,
}

impl<W: Fn() -> io::Result<()>> Input<W> {
    /// Begins to read `file`.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn new(
        mut file: impl Read + Send + 'static,
        amount: Amount,
        is_wanted: W,
    ) -> io::Result<Self> {
        let (asks, lengths) = mpsc::sync_channel(1);
        let (send, pieces) = mpsc::sync_channel(1);
        let read = move || {
            for len in lengths {
                let mut piece = vec![0; len];
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
        let (is_reading, piece, at) = (false, Vec::new(), 0);
        Ok(Self { is_wanted, amount, asks, pieces, is_reading, piece, at })
    }

    /// Has the thread read up to `len` bytes, unless it does already.
    fn ask(&mut self, len: usize) {
        if !self.is_reading {
            // It may have ended, and answered that.
            let _ = self.asks.send(len);
            self.is_reading = true;
        }
    }
}

impl<W: Fn() -> io::Result<()>> Read for Input<W> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while self.at == self.piece.len() {
            self.ask(match self.amount {
                Amount::OnDemand => out.len().min(PIECE),
                Amount::All => PIECE_AHEAD,
            });
            let piece = match self.pieces.recv_timeout(TICK) {
                Ok(piece) => piece,
                Err(RecvTimeoutError::Timeout) => {
                    (self.is_wanted)()?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            };
            self.is_reading = false;
            self.piece = piece?;
            self.at = 0;
            if self.piece.is_empty() {
                return Ok(0);
            }
            if self.amount == Amount::All {
                self.ask(PIECE_AHEAD);
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
    use std::fs::File;
    use std::io::Write as _;
    use std::os::fd::OwnedFd;

    #[test]
    fn what_is_written_is_read_until_it_is_not_wanted() {
        for amount in [Amount::OnDemand, Amount::All] {
            let (reader, mut writer) = io::pipe().unwrap();
            let is_over = std::cell::Cell::new(false);
            let wanted = || if is_over.get() { Err(io::Error::other("over")) } else { Ok(()) };
            let file = File::from(OwnedFd::from(reader));
            let mut input = Input::new(file, amount, wanted).unwrap();
            writer.write_all(b"abc").unwrap();
            let mut out = [0; 3];
            input.read_exact(&mut out).unwrap();
            assert_eq!(&out, b"abc");
            // The bytes that have come by then are read: it may be the end.
            writer.write_all(b"end").unwrap();
            is_over.set(true);
            input.read_exact(&mut out).unwrap();
            assert_eq!(&out, b"end");
            assert_eq!(input.read(&mut out).unwrap_err().to_string(), "over");
        }
    }

    #[test]
    fn what_is_not_asked_for_stays_for_the_next_reader() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"mine, yours").unwrap();
        let file = File::from(OwnedFd::from(reader.try_clone().unwrap()));
        let mut input = Input::new(file, Amount::OnDemand, || Ok(())).unwrap();
        input.read_exact(&mut [0; 6]).unwrap();
        drop(input);
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "yours");
    }
}
