//! What a verb prints for a client whose files are not touched: it goes into memory, and back with
//! the answer.

use crate::feed::StreamEnd;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// Bytes that are kept of each, at most.
const SHOWN_MAX: u64 = 16 << 20;

/// Standard output and standard error of a verb, in memory.
#[derive(Debug)]
pub struct Captured {
    output: File,
    errors: File,
}

impl Captured {
    /// Nothing is printed yet.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn new() -> io::Result<Self> {
        let memory = |name: &str| Ok::<_, io::Error>(memfd_create(name, MemfdFlags::CLOEXEC)?);
        Ok(Self { output: memory("output")?.into(), errors: memory("errors")?.into() })
    }

    /// The standard streams for the verb, in their order. One that reads or writes a stream has
    /// this socket at that end; else there is nothing to read.
    ///
    /// # Errors
    /// The system has no descriptors.
    pub fn streams(&self, stream: Option<(&UnixStream, StreamEnd)>) -> io::Result<[File; 3]> {
        let nothing = || File::open("/dev/null");
        let socket = |socket: &UnixStream| Ok::<_, io::Error>(OwnedFd::from(socket.try_clone()?));
        let (from, to) = match stream {
            Some((end, StreamEnd::Input)) => (socket(end)?.into(), self.output.try_clone()?),
            Some((end, StreamEnd::Output)) => (nothing()?, socket(end)?.into()),
            None => (nothing()?, self.output.try_clone()?),
        };
        Ok([from, to, self.errors.try_clone()?])
    }

    /// What was printed.
    ///
    /// # Errors
    /// It is longer than a client is sent.
    pub fn texts(self) -> io::Result<[String; 2]> {
        Ok([text(self.output)?, text(self.errors)?])
    }
}

fn text(mut file: File) -> io::Result<String> {
    if file.metadata()?.len() > SHOWN_MAX {
        return Err(io::Error::other("the output is too long: name fewer datasets"));
    }
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_is_printed_is_kept_and_a_stream_goes_through_its_socket() {
        let captured = Captured::new().unwrap();
        let [mut from, mut to, mut errors] = captured.streams(None).unwrap();
        assert_eq!(from.read(&mut [0; 8]).unwrap(), 0);
        to.write_all(b"a\n").unwrap();
        errors.write_all(b"why\xff").unwrap();
        let (mut here, there) = UnixStream::pair().unwrap();
        let [_, mut out, _] = captured.streams(Some((&there, StreamEnd::Output))).unwrap();
        out.write_all(b"data").unwrap();
        let mut bytes = [0; 4];
        here.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"data");
        here.write_all(b"back").unwrap();
        let [mut input, ..] = captured.streams(Some((&there, StreamEnd::Input))).unwrap();
        input.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"back");
        assert_eq!(captured.texts().unwrap(), ["a\n", "why\u{fffd}"]);
        let long = Captured::new().unwrap();
        long.output.set_len(SHOWN_MAX + 1).unwrap();
        assert!(long.texts().unwrap_err().to_string().contains("too long"));
    }
}
