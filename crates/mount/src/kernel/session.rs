//! A connection from its first request to its last.

use super::request::kind;
use super::wire::Message;
use super::{Errno, Reply, Request, capability};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The version of the protocol: 7, and the number behind the point up to which it is used.
const MAJOR: u32 = 7;
const MINOR: u32 = 40;
/// Older kernels have other layouts.
const MINOR_LEAST: u32 = 31;

/// Bytes of one request to read or write, at most.
const TRANSFER_MAX: u32 = 1 << 20;
/// Bytes that a request to write has before its data, or another in all, are less than this.
const REST_MAX: usize = 128 << 10;
/// Requests that the kernel makes ahead of programs, at most.
const BACKGROUND_MAX: u16 = 64;

/// Answers requests.
pub(crate) trait Serve: Send + Sync + 'static {
    /// Which of the capabilities that the kernel offers are used.
    fn choose(&self, offered: u32) -> io::Result<u32>;

    /// Answers a request. The thread that calls this reads the next one when it is back.
    fn serve(&self, request: &Request<'_>, reply: Reply);

    /// No request comes any more.
    fn end(&self);
}

/// A connection whose sides have said what they can.
pub(crate) struct Session<S> {
    device: Arc<OwnedFd>,
    server: Arc<S>,
}

impl<S: Serve> Session<S> {
    /// Answers the first request.
    pub(crate) fn begin(device: OwnedFd, server: S) -> io::Result<Self> {
        let session = Self { device: Arc::new(device), server: Arc::new(server) };
        let mut buffer = buffer();
        loop {
            let length = session.receive(&mut buffer)?.ok_or(io::ErrorKind::NotConnected)?;
            let request = Request::read(&buffer[..length])?;
            let reply = Reply::new(&session.device, request.number);
            if request.kind != kind::INIT {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut a = request.arguments();
            let (major, minor, ahead, offered) = (a.u32()?, a.u32()?, a.u32()?, a.u32()?);
            if major > MAJOR {
                // The kernel asks again, in this version.
                let mut out = Message::default();
                out.u32(MAJOR).u32(MINOR);
                reply.data(&out.0);
                continue;
            }
            if major < MAJOR || minor < MINOR_LEAST {
                reply.error(Errno::EPROTO);
                let what = format!("the kernel's version of FUSE is {major}.{minor}");
                return Err(io::Error::new(io::ErrorKind::Unsupported, what));
            }
            let used = match session.server.choose(offered) {
                Ok(used) => used,
                Err(e) => {
                    reply.error(e.raw_os_error().map_or(Errno::EIO, Errno::from_raw));
                    return Err(e);
                }
            };
            reply.data(&limits(ahead.min(TRANSFER_MAX), used).0);
            return Ok(session);
        }
    }

    /// Reads requests with this many threads, of which the calling one is the last, until the mount
    /// is gone.
    ///
    /// # Errors
    /// A thread cannot be started; those that were go on until the mount is gone.
    pub(crate) fn run(self, threads: usize) -> io::Result<()> {
        let session = Arc::new(self);
        let mut started = Vec::new();
        for _ in 1..threads {
            let session = Arc::clone(&session);
            let thread = std::thread::Builder::new().name(READER.to_owned());
            started.push(thread.spawn(move || session.read())?);
        }
        session.read();
        for thread in started {
            // One that panicked reads no more, and the others did.
            let _ = thread.join();
        }
        session.server.end();
        Ok(())
    }

    /// Serves one request after the other.
    fn read(&self) {
        let mut buffer = buffer();
        // However the connection ends, it is over.
        while let Ok(Some(length)) = self.receive(&mut buffer) {
            let Ok(request) = Request::read(&buffer[..length]) else { return };
            if ![kind::FORGET, kind::BATCH_FORGET].contains(&request.kind) {
                self.server.serve(&request, Reply::new(&self.device, request.number));
            }
        }
    }

    /// The next message, which is the beginning of the buffer; `None`: the mount is gone.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        use rustix::io::Errno as Code;
        loop {
            match rustix::io::read(&*self.device, &mut *buffer) {
                Ok(length) => return Ok(Some(length)),
                // The request was taken back, or a signal came.
                Err(Code::NOENT | Code::INTR | Code::AGAIN) => {}
                Err(Code::NODEV) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// The name of the threads that read.
pub(crate) const READER: &str = "mount-reads";

/// Room for any request.
fn buffer() -> Vec<u8> {
    vec![0; TRANSFER_MAX as usize + REST_MAX]
}

/// The answer to the first request.
fn limits(ahead: u32, used: u32) -> Message {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let page = page.ok().flatten().and_then(|size| u32::try_from(size).ok()).unwrap_or(4096);
    let pages = TRANSFER_MAX.div_ceil(page.max(1)).clamp(1, u32::from(u16::MAX)) as u16;
    let used = used | capability::ASYNC_READ | capability::BIG_WRITES;
    let mut out = Message::for_bytes(64);
    out.u32(MAJOR).u32(MINOR).u32(ahead).u32(used);
    // From three quarters of them on the kernel takes it for congested.
    out.u16(BACKGROUND_MAX).u16(BACKGROUND_MAX / 4 * 3);
    // Times have nanoseconds.
    out.u32(TRANSFER_MAX).u32(1).u16(pages).u16(0).zeros(32);
    out
}

#[cfg(test)]
mod tests {
    use super::super::request::HEAD;
    use super::*;

    #[test]
    fn the_first_answer_is_as_long_as_the_kernel_expects() {
        assert_eq!(limits(1 << 20, 0).0.len(), 64);
        assert!(buffer().len() > TRANSFER_MAX as usize + HEAD + 40);
    }
}
