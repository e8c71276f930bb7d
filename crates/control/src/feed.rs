//! The input of a client whose files are not touched: its process reads, and sends as much as was
//! requested.
//!
//! ```text
//! server  ->  client   number of bytes that are wanted (4 bytes, little-endian)
//! client  ->  server   number of bytes that follow (0: the end; all ones: it failed), and those
//! ```
//!
//! So no more is taken from the input than a command in the client's own process would take: what
//! comes behind a stream is there for the next reader.

use std::ffi::OsString;
use std::io::{self, Read, Write as _};
use std::os::unix::net::UnixStream;

/// Bytes that are requested at once, at most.
const PIECE: usize = 1 << 20;
/// In the place of a number: the input cannot be read.
const FAILED: u32 = u32::MAX;

/// Where a command has a stream: other verbs print what is kept for their users, and wait for
/// nothing of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// It writes one.
    Output,
    /// It reads one.
    Input,
}

impl StreamEnd {
    /// That of a command line, with the program's name.
    #[must_use]
    pub fn of(args: &[OsString]) -> Option<Self> {
        let word = |at: usize| args.get(at).and_then(|word| word.to_str());
        match (word(1), word(2)) {
            (Some("send"), _) | (Some("zfs"), Some("send")) => Some(Self::Output),
            (Some("zfs"), Some("receive" | "recv")) => Some(Self::Input),
            _ => None,
        }
    }
}

/// Input that the process at the other end of a socket reads.
#[derive(Debug)]
pub struct RemoteInput(UnixStream);

impl RemoteInput {
    /// By this socket.
    #[must_use]
    pub fn new(socket: UnixStream) -> Self {
        Self(socket)
    }
}

impl Read for RemoteInput {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let wanted = out.len().min(PIECE);
        let Some(out) = out.get_mut(..wanted).filter(|out| !out.is_empty()) else { return Ok(0) };
        self.0.write_all(&(wanted as u32).to_le_bytes())?;
        let mut number = [0; 4];
        self.0.read_exact(&mut number)?;
        let number = u32::from_le_bytes(number);
        if number == FAILED {
            return Err(io::Error::other("the client cannot read its input"));
        }
        // No more than was requested.
        let piece = out.get_mut(..number as usize).ok_or(io::ErrorKind::InvalidData)?;
        self.0.read_exact(piece)?;
        Ok(piece.len())
    }
}

/// Reads `input` for the process at the other end, as long as that asks.
///
/// # Errors
/// The socket fails, or that process asks for what no [`RemoteInput`] does.
pub fn feed(mut socket: UnixStream, mut input: impl Read) -> io::Result<()> {
    let mut piece = Vec::new();
    loop {
        let mut number = [0; 4];
        match socket.read_exact(&mut number) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            done => done?,
        }
        let wanted = u32::from_le_bytes(number) as usize;
        if wanted > PIECE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        piece.resize(wanted, 0);
        let got = loop {
            match input.read(&mut piece) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                got => break got,
            }
        };
        let read = piece.get(..got.as_ref().copied().unwrap_or(0)).unwrap_or_default();
        let number = if got.is_ok() { read.len() as u32 } else { FAILED };
        socket.write_all(&number.to_le_bytes())?;
        socket.write_all(read)?;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_is_not_taken() {
        let (mine, theirs) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"mine, yours").unwrap();
        drop(writer);
        let input = reader.try_clone().unwrap();
        let feeding = std::thread::spawn(move || feed(theirs, input));
        let mut fed = RemoteInput::new(mine);
        let mut out = [0; 6];
        fed.read_exact(&mut out).unwrap();
        assert_eq!(&out, b"mine, ");
        drop(fed);
        feeding.join().unwrap().unwrap();
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "yours");
    }

    #[test]
    fn an_end_and_an_error_arrive_and_lies_are_errors() {
        struct Bad;
        impl Read for Bad {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::PermissionDenied.into())
            }
        }
        let (mine, theirs) = UnixStream::pair().unwrap();
        let ended = std::thread::spawn(move || feed(theirs, io::empty()));
        assert_eq!(RemoteInput::new(mine).read(&mut [0; 9]).unwrap(), 0);
        ended.join().unwrap().unwrap();
        let (mine, theirs) = UnixStream::pair().unwrap();
        let ended = std::thread::spawn(move || feed(theirs, Bad));
        assert!(RemoteInput::new(mine).read(&mut [0; 9]).is_err());
        ended.join().unwrap().unwrap();
        // A client that sends more than was requested.
        let (mine, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[9, 0, 0, 0]).unwrap();
        assert_eq!(
            RemoteInput::new(mine).read(&mut [0; 8]).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
