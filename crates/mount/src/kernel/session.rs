//! A connection from its first request to its last.

use super::eager::Eager;
use super::request::kind;
use super::wire::Message;
use super::{Errno, INodeNo, Reply, Request, capability};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The version of the protocol: 7, and the number behind the point up to which it is used.
const MAJOR: u32 = 7;
const MINOR: u32 = 41;
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
    fn choose(&self, offered: u64) -> io::Result<u64>;

    /// Answers a request. The thread that calls this reads the next one when it is back.
    fn serve(&self, request: &Request<'_>, reply: Reply);

    /// The kernel has forgotten a file.
    fn forget(&self, ino: INodeNo);

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
            let mut a = request.arguments()?;
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
            let mut offered = u64::from(offered);
            if offered & capability::INIT_EXT != 0 {
                offered |= u64::from(a.u32()?) << 32;
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
        let (mut buffer, mut eager) = (buffer(), Eager::new());
        loop {
            eager.wait(&*self.device);
            // However the connection ends, it is over.
            let Ok(Some(length)) = self.receive(&mut buffer) else { return };
            // What has no head has no number to answer by.
            let Ok(request) = Request::read(&buffer[..length]) else { continue };
            if request.is_answered() {
                self.server.serve(&request, Reply::new(&self.device, request.number));
            } else {
                request.forgotten().for_each(|ino| self.server.forget(ino));
            }
        }
    }

    /// The next message, which is the beginning of the buffer; `None`: the mount is gone.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        use rustix::io::Errno as Code;
        loop {
            match rustix::io::read(&*self.device, &mut *buffer) {
                Ok(0) => return Ok(None),
                Ok(length) => return Ok(Some(length)),
                // The request was taken back, a signal came, or the kernel had no memory to hand
                // the request over, and has answered it itself.
                Err(Code::NOENT | Code::INTR | Code::AGAIN | Code::NOMEM) => {}
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
fn limits(ahead: u32, used: u64) -> Message {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let page = page.ok().flatten().and_then(|size| u32::try_from(size).ok()).unwrap_or(4096);
    let pages = TRANSFER_MAX.div_ceil(page.max(1)).clamp(1, u32::from(u16::MAX)) as u16;
    let mut used = used | capability::ASYNC_READ | capability::BIG_WRITES;
    let more = (used >> 32) as u32;
    if more != 0 {
        used |= capability::INIT_EXT;
    }
    let mut out = Message::for_bytes(64);
    out.u32(MAJOR).u32(MINOR).u32(ahead).u32(used as u32);
    // From three quarters of them on the kernel takes it for congested.
    out.u16(BACKGROUND_MAX).u16(BACKGROUND_MAX / 4 * 3);
    // Times have nanoseconds.
    out.u32(TRANSFER_MAX).u32(1).u16(pages).u16(0).u32(more).zeros(28);
    out
}

#[cfg(test)]
mod tests {
    use super::super::request::tests::{HEAD, message};
    use super::super::{Operation, capability};
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// Answers one kind of request.
    struct Flushes(Arc<AtomicBool>);

    impl Serve for Flushes {
        fn choose(&self, offered: u64) -> io::Result<u64> {
            Ok(offered & (capability::DONT_MASK | capability::ALLOW_IDMAP))
        }

        fn serve(&self, request: &Request<'_>, reply: Reply) {
            match request.operation() {
                Ok(Operation::Flush) => reply.ok(),
                Ok(_) => reply.error(Errno::EPERM),
                Err(e) => reply.error(e),
            }
        }

        fn forget(&self, ino: INodeNo) {
            assert_eq!(ino, INodeNo(1));
        }

        fn end(&self) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// Both sides of a connection: a socket keeps messages apart, as the device does.
    fn connection() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        let (kernel, device) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let limit = rustix::net::sockopt::Timeout::Recv;
        let within = Some(Duration::from_secs(60));
        rustix::net::sockopt::set_socket_timeout(&kernel, limit, within).unwrap();
        (kernel, device)
    }

    /// The next answer.
    fn answer(kernel: &OwnedFd) -> Vec<u8> {
        let mut bytes = [0; 256];
        let length = rustix::io::read(kernel, &mut bytes[..]).unwrap();
        bytes[..length].to_vec()
    }

    fn refusal(e: Errno) -> Vec<u8> {
        let mut head = Message::default();
        head.u32(16).u32((-(e as i32)).cast_unsigned()).u64(7);
        head.0
    }

    /// Whatever is wrong with a request, it is answered and the next one is served.
    #[test]
    fn a_malformed_request_has_failed_and_the_next_one_is_served() {
        let (kernel, device) = connection();
        let tell = |bytes: &[u8]| assert_eq!(rustix::io::write(&kernel, bytes), Ok(bytes.len()));
        let mut offer = Message::default();
        offer.u32(MAJOR).u32(MINOR).u32(1 << 20).u32(u32::MAX).u32(u32::MAX);
        tell(&message(kind::INIT, &offer.0));
        let is_over = Arc::new(AtomicBool::new(false));
        let session = Session::begin(device, Flushes(Arc::clone(&is_over))).unwrap();
        let answered = answer(&kernel);
        assert_eq!(answered.len(), 16 + 64);
        let word = |at: usize| u32::from_le_bytes(answered[at..at + 4].try_into().unwrap());
        // What of the offer is used: in two words, of which the second stands behind the pages.
        let (low, high) = (word(16 + 12), word(16 + 32));
        let own = capability::ASYNC_READ | capability::BIG_WRITES | capability::INIT_EXT;
        assert_eq!(u64::from(low), own | capability::DONT_MASK);
        assert_eq!(u64::from(high) << 32, capability::ALLOW_IDMAP);
        let session = std::thread::spawn(move || session.run(4));
        let flush = message(kind::FLUSH, &[0; 24]);
        // No number to answer by, and nothing to say: more of them than there are readers.
        for _ in 0..5 {
            tell(&flush[..HEAD - 1]);
            tell(&message(kind::FORGET, &[0; 8]));
        }
        let refused = [
            (flush[..HEAD].to_vec(), Errno::EIO),
            ([&flush[..], b"more"].concat(), Errno::EIO),
            (message(kind::LOOKUP, b"endless"), Errno::EIO),
            (message(kind::WRITE, &[0xff; 40]), Errno::EIO),
            (message(4096, b""), Errno::ENOSYS),
            (message(kind::LOOKUP, b"name\0"), Errno::EPERM),
        ];
        for (bytes, e) in refused {
            tell(&bytes);
            assert_eq!(answer(&kernel), refusal(e), "{bytes:?}");
        }
        tell(&flush);
        assert_eq!(answer(&kernel).len(), 16);
        assert!(!is_over.load(Ordering::Acquire));
        drop(kernel);
        session.join().unwrap().unwrap();
        assert!(is_over.load(Ordering::Acquire));
    }

    /// A kernel that speaks another version is told, and one that is too old is refused.
    #[test]
    fn the_version_is_agreed_upon_first() {
        let begin = |versions: &[(u32, u32)]| {
            let (kernel, device) = connection();
            for (major, minor) in versions {
                let mut offer = Message::default();
                offer.u32(*major).u32(*minor).u32(0).u32(0);
                let bytes = message(kind::INIT, &offer.0);
                assert_eq!(rustix::io::write(&kernel, &bytes), Ok(bytes.len()));
            }
            let server = Flushes(Arc::new(AtomicBool::new(false)));
            (Session::begin(device, server).map(drop), answer(&kernel))
        };
        let mut ours = Message::default();
        ours.u32(MAJOR).u32(MINOR);
        let (begun, answered) = begin(&[(MAJOR + 1, 0), (MAJOR, MINOR)]);
        begun.unwrap();
        assert_eq!(answered[16..], ours.0);
        let (begun, answered) = begin(&[(MAJOR, MINOR_LEAST - 1)]);
        assert_eq!(begun.unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(answered, refusal(Errno::EPROTO));
    }

    #[test]
    fn the_first_answer_is_as_long_as_the_kernel_expects() {
        assert_eq!(limits(1 << 20, 0).0.len(), 64);
        assert!(buffer().len() > TRANSFER_MAX as usize + HEAD + 40);
    }
}
