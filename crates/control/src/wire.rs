//! Lines over a stream socket, and open files beside them.
//!
//! Files travel with the first byte of a line, and belong to the line that is completed next. As a
//! client waits for the answer before it asks again, that is the line they were sent with. Those of
//! a line that wants none are closed with it.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Files that may come with one line; more are closed.
pub(crate) const FILES_MAX: usize = 4;
/// Bytes asked for at once.
const READ_SIZE: usize = 16 << 10;

/// A line that came in, without its end.
pub(crate) struct Line {
    pub(crate) bytes: Vec<u8>,
    pub(crate) files: Vec<OwnedFd>,
    /// Some of its files are not among them: this process may have no more open.
    pub(crate) lacks_files: bool,
}

/// Why no line came in.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The other side sent more than it may without an end of line.
    TooLong,
    /// The system's error.
    Io(io::Error),
}

/// The reading side of a connection.
pub(crate) struct Lines<'a> {
    stream: &'a UnixStream,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were looked at and hold no end of line.
    seen: usize,
    files: Vec<OwnedFd>,
    lacks_files: bool,
    line_max: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(stream: &'a UnixStream, line_max: usize) -> Self {
        let (buffer, files) = (Vec::new(), Vec::new());
        Self { stream, buffer, seen: 0, files, lacks_files: false, line_max }
    }

    /// The next line; `None` when the other side has ended.
    pub(crate) fn next(&mut self) -> Result<Option<Line>, LineError> {
        loop {
            let fresh = self.buffer.get(self.seen..).unwrap_or_default();
            if let Some(at) = fresh.iter().position(|b| *b == b'\n') {
                let mut bytes: Vec<u8> = self.buffer.drain(..=self.seen + at).collect();
                bytes.pop();
                self.seen = 0;
                let files = std::mem::take(&mut self.files);
                let lacks_files = std::mem::take(&mut self.lacks_files) && files.len() < FILES_MAX;
                return Ok(Some(Line { bytes, files, lacks_files }));
            }
            self.seen = self.buffer.len();
            if self.seen > self.line_max {
                return Err(LineError::TooLong);
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
    }

    fn fill(&mut self) -> Result<usize, LineError> {
        let mut bytes = [0; READ_SIZE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            let mut into = [IoSliceMut::new(&mut bytes)];
            match recvmsg(self.stream, &mut into, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                Ok(message) => {
                    self.lacks_files |= message.flags.contains(ReturnFlags::CTRUNC);
                    break message.bytes;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(LineError::Io(e.into())),
            }
        };
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                let room = FILES_MAX.saturating_sub(self.files.len());
                self.files.extend(files.take(room));
            }
        }
        self.buffer.extend_from_slice(bytes.get(..got).unwrap_or_default());
        Ok(got)
    }
}

/// Sends a line, its end included, and files beside it.
pub(crate) fn send(
    mut stream: &UnixStream,
    line: &[u8],
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    if files.is_empty() {
        return stream.write_all(line);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !beside.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many files"));
    }
    let sent = loop {
        match sendmsg(stream, &[IoSlice::new(line)], &mut beside, SendFlags::NOSIGNAL) {
            Ok(sent) => break sent,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    };
    stream.write_all(line.get(sent..).unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    #[test]
    fn lines_come_one_by_one_and_files_with_theirs() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        send(&one, b"first\n", &[]).unwrap();
        let mut lines = Lines::new(&other, 100);
        let first = lines.next().unwrap().unwrap();
        assert_eq!((&first.bytes[..], first.files.len()), (&b"first"[..], 0));
        send(&one, b"second\n", &[file.as_fd()]).unwrap();
        send(&one, b"\nlast", &[]).unwrap();
        drop(one);
        let second = lines.next().unwrap().unwrap();
        assert_eq!((&second.bytes[..], second.files.len()), (&b"second"[..], 1));
        let mut text = String::new();
        let mut same = std::fs::File::from(second.files.into_iter().next().unwrap());
        std::io::Seek::rewind(&mut same).unwrap();
        same.read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"");
        assert!(lines.next().unwrap().is_none(), "a line without an end is not a line");
    }

    #[test]
    fn a_line_without_an_end_is_bounded() {
        let (one, other) = UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            // The reader hangs up: how many got through does not matter.
            (0..1000).take_while(|_| send(&one, &[b'x'; 1000], &[]).is_ok()).count()
        });
        let trouble = Lines::new(&other, 50_000).next();
        assert!(matches!(trouble, Err(LineError::TooLong)));
        drop(other);
        assert!(writer.join().unwrap() < 1000);
    }
}
