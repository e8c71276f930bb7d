//! One connection: how it is made, the thread that sends, and the one that receives.

use super::core::Core;
use super::negotiate::{ExportInfo, Failed, negotiate};
use super::reply::{Outcome, Pending, body, header};
use super::request::{Call, Job, cut};
use super::unflushed::{Data, Sample};
use crate::name::{Name, Place};
use device::AlignedBuf;
use nbdwire::{Command, Connection, Input, Request, prepare_tcp, prepare_unix, send, send_parts};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection that is agreed on.
pub(super) struct Link {
    pub(super) line: Arc<dyn Connection>,
    pub(super) input: Input,
    pub(super) agreed: ExportInfo,
}

/// Connects, within a time.
pub(super) fn connect(name: &Name, within: Duration) -> Result<Link, Failed> {
    let until = Instant::now() + within;
    let line: Arc<dyn Connection> = match &name.place {
        // A store is not reached by a connection of this kind.
        Place::Folder(_) | Place::Bucket(_) => {
            return Err(Failed::Refused("it is not an export of an NBD server"));
        }
        Place::Unix(path) => {
            let stream = UnixStream::connect(path).map_err(|e| match e.kind() {
                // It is a server that is not there, and no file.
                io::ErrorKind::NotFound => io::Error::from_raw_os_error(libc::ECONNREFUSED),
                _ => e,
            })?;
            prepare_unix(&stream, name.silence)?;
            Arc::new(stream)
        }
        Place::Tcp(host, port) => {
            let stream = connect_tcp(host, *port, until)?;
            prepare_tcp(&stream, name.silence)?;
            Arc::new(stream)
        }
    };
    let mut input = Input::new(Some(until));
    let (agreed, line) = negotiate(line, &mut input, &name.export, name.tls.as_ref())?;
    input.wait_for_ever(&*line)?;
    Ok(Link { line, input, agreed })
}

fn connect_tcp(host: &str, port: u16, until: Instant) -> Result<TcpStream, Failed> {
    let unknown = Failed::Refused("the host name is not known");
    let Ok(addresses) = (host, port).to_socket_addrs() else { return Err(unknown) };
    let mut last = None;
    for address in addresses {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            // Without a number, as it comes from the standard library.
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                last = Some(io::Error::from_raw_os_error(libc::ETIMEDOUT));
            }
            Err(e) => last = Some(e),
        }
    }
    Err(last.map_or(unknown, Failed::Connection))
}

fn request(cookie: u64, job: &Job) -> io::Result<[u8; 28]> {
    let request = Request {
        flags: 0,
        command: job.command,
        cookie,
        offset: job.offset,
        length: job.len as u64,
    };
    request.encode().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Sends requests until the connection is over.
pub(super) fn send_jobs(core: &Core, (link, generation): (usize, u64), line: &dyn Connection) {
    while let Some(jobs) = core.take(link, generation) {
        if send_all(line, &jobs).is_err() {
            return core.break_off(generation);
        }
    }
}

fn send_all(line: &dyn Connection, jobs: &[(u64, Arc<Job>)]) -> io::Result<()> {
    let heads = jobs.iter().map(|(cookie, job)| request(*cookie, job));
    let heads = heads.collect::<io::Result<Vec<_>>>()?;
    let mut parts = Vec::new();
    for (head, (_, job)) in heads.iter().zip(jobs) {
        parts.push(IoSlice::new(head));
        if let (Command::Write, Data::Parts(data)) = (job.command, &job.data) {
            parts.extend(data.iter().map(|part| IoSlice::new(part)));
        }
    }
    send_parts(line, &mut parts)
}

/// Receives replies until the connection is over.
pub(super) fn receive(
    core: &Core,
    (link, generation): (usize, u64),
    line: &dyn Connection,
    mut input: Input,
) {
    // Replies of which some chunks have come; no more than requests are under way.
    let mut begun: HashMap<u64, Pending> = HashMap::new();
    while let Ok((cookie, reply)) = header(line, &mut input) {
        let new = || core.under_way(link, generation, cookie).map(Pending::new);
        let Some(mut pending) = begun.remove(&cookie).or_else(new) else { break };
        match body(line, &mut input, reply, &mut pending) {
            Ok(Outcome::More) => drop(begun.insert(cookie, pending)),
            Ok(Outcome::Done(result)) => {
                if !core.answered((link, generation), cookie, result) {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    core.break_off(generation);
}

/// The last word on a connection.
pub(super) fn send_disconnect(line: &dyn Connection) {
    let request =
        Request { flags: 0, command: Command::Disconnect, cookie: 0, offset: 0, length: 0 };
    if let Some(bytes) = request.encode() {
        // One that is broken needs none.
        let _ = send(line, &bytes, &[]);
    }
    line.hang_up();
}

/// Reads a range by a connection that is not in use yet, within a time.
pub(super) fn read_now(
    link: &mut Link,
    (offset, len): (u64, usize),
    within: Duration,
) -> io::Result<AlignedBuf> {
    let result = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&result);
    let answer = Box::new(move |bytes| *slot.lock() = Some(bytes));
    let payload = link.agreed.payload;
    let jobs = cut(Command::Read, (offset, len), &Data::Zeros, payload, Call::AtOnce, answer);
    link.line.set_patience(Some(within))?;
    for job in jobs {
        send_all(&*link.line, &[(0, Arc::clone(&job))])?;
        let mut pending = Pending::new(Arc::clone(&job));
        let outcome = loop {
            let (cookie, reply) = header(&*link.line, &mut link.input)?;
            if cookie != 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            match body(&*link.line, &mut link.input, reply, &mut pending)? {
                Outcome::More => {}
                Outcome::Done(result) => break result,
            }
        };
        if let Some(due) = job.end(outcome) {
            due.deliver();
        }
    }
    link.line.set_patience(None)?;
    let bytes = result.lock().take();
    let failed = |kind: device::ErrorKind| io::Error::other(kind.to_string());
    bytes.map_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()), |bytes| bytes.map_err(failed))
}

/// Whether a device has what it must have.
pub(super) fn is_the_same(
    link: &mut Link,
    samples: &[Sample],
    within: Duration,
) -> io::Result<bool> {
    let block = u64::from(link.agreed.block);
    for Sample { offset, bytes } in samples {
        let skip = (*offset % block) as usize;
        let len = (skip + bytes.len()).next_multiple_of(block as usize);
        let found = read_now(link, (offset - skip as u64, len), within)?;
        if found.get(skip..skip + bytes.len()) != Some(bytes) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// See [`super::conversation`].
pub(super) fn conversation(bytes: &[u8]) -> usize {
    let line = Arc::new(super::memory::MemoryConnection::new(bytes));
    let own: Arc<dyn Connection> = Arc::<super::memory::MemoryConnection>::clone(&line);
    let mut input = Input::new(None);
    if let Ok((agreed, line)) = negotiate(own, &mut input, "disk", None) {
        let mut link = Link { line, input, agreed };
        let patience = Duration::from_secs(1);
        while read_now(&mut link, (0, 8192), patience).is_ok() {}
    }
    line.sent()
}
