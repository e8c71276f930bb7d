//! Replies of a server: decoded, judged against the request, and put where they belong.

use super::request::{Filled, Job};
use device::ErrorKind;
use nbdwire::{Chunk, Command, Connection, Fields, Input, Reply, chunk};
use std::io;
use std::sync::Arc;

/// Bytes of a chunk that says what went wrong, at most: a number, a sentence, an offset.
const ERROR_MAX: u32 = 4096 + 14;
/// What a server says that stops.
const STOPPING: u32 = 108;
/// Bytes that are read and forgotten at once.
const SKIPPED: usize = 16 << 10;

/// What a reply was to, and how far it has come.
pub(super) struct Pending {
    pub(super) job: Arc<Job>,
    /// Bytes of a read that have come.
    got: usize,
    failed: Option<ErrorKind>,
}

/// What is to be done with the request that a reply was to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// More chunks follow.
    More,
    /// It was answered.
    Done(Result<(), ErrorKind>),
}

impl Pending {
    pub(super) fn new(job: Arc<Job>) -> Self {
        Self { job, got: 0, failed: None }
    }
}

fn broken(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Reads the next header.
pub(super) fn header(line: &dyn Connection, input: &mut Input) -> io::Result<(u64, Reply)> {
    let mut bytes = [0; Reply::SIZE];
    input.fill(line, &mut bytes)?;
    let length = || {
        let mut length = [0; 4];
        input.fill(line, &mut length)?;
        Ok::<_, io::Error>(length)
    };
    let reply = Reply::decode(&bytes, length)?.ok_or_else(|| broken("no reply"))?;
    Ok(match reply {
        Reply::Simple { cookie, .. } | Reply::Chunk { cookie, .. } => (cookie, reply),
    })
}

/// Reads what follows a header. An error is the end of the connection: nothing is known of what
/// follows then.
pub(super) fn body(
    line: &dyn Connection,
    input: &mut Input,
    reply: Reply,
    pending: &mut Pending,
) -> io::Result<Outcome> {
    match reply {
        Reply::Simple { error: 0, .. } => {
            let job = &pending.job;
            if job.command == Command::Read {
                take(line, input, job, (0, job.len))?;
            }
            Ok(Outcome::Done(Ok(())))
        }
        Reply::Simple { error, .. } => Ok(Outcome::Done(Err(kind_of(error)?))),
        Reply::Chunk { chunk, .. } => {
            one_chunk(line, input, chunk, pending)?;
            if !chunk.is_last {
                return Ok(Outcome::More);
            }
            let wanted = if pending.job.command == Command::Read { pending.job.len } else { 0 };
            match pending.failed {
                Some(kind) => Ok(Outcome::Done(Err(kind))),
                None if pending.got != wanted => Err(broken("a read is incomplete")),
                None => Ok(Outcome::Done(Ok(()))),
            }
        }
    }
}

fn one_chunk(
    line: &dyn Connection,
    input: &mut Input,
    chunk: Chunk,
    pending: &mut Pending,
) -> io::Result<()> {
    if chunk.is_error() {
        let error = error_of(line, input, chunk)?;
        pending.failed.get_or_insert(kind_of(error)?);
        return Ok(());
    }
    if chunk.kind == chunk::NONE {
        let is_right = chunk.length == 0 && chunk.is_last;
        return if is_right { Ok(()) } else { Err(broken("an empty chunk has a payload")) };
    }
    let is_hole = chunk.kind == chunk::OFFSET_HOLE;
    let is_content = is_hole || chunk.kind == chunk::OFFSET_DATA;
    if !is_content || pending.job.command != Command::Read {
        return Err(broken("a chunk lies outside the requested range"));
    }
    let mut offset = [0; 8];
    let (len, holes) = match (is_hole, chunk.length) {
        (true, 12) => {
            let mut length = [0; 4];
            input.fill(line, &mut offset)?;
            input.fill(line, &mut length)?;
            (u32::from_be_bytes(length), true)
        }
        (false, length) if length > 8 => {
            input.fill(line, &mut offset)?;
            (length - 8, false)
        }
        _ => return Err(broken("a chunk has a wrong length")),
    };
    let (from, len) = within(&pending.job, u64::from_be_bytes(offset), len)?;
    // What comes twice is found by the sum.
    pending.got = pending.got.saturating_add(len);
    match holes {
        true => {
            let _ = pending.job.fill(from, len, |bytes| {
                bytes.fill(0);
                Ok::<(), io::Error>(())
            })?;
            Ok(())
        }
        false => take(line, input, &pending.job.clone(), (from, len)),
    }
}

/// A range of the device within a job: where it begins there, and its bytes.
fn within(job: &Job, offset: u64, len: u32) -> io::Result<(usize, usize)> {
    let len = len as usize;
    let from = offset.checked_sub(job.offset).and_then(|from| usize::try_from(from).ok());
    let from = from.filter(|from| from.checked_add(len).is_some_and(|end| end <= job.len));
    from.map(|from| (from, len)).ok_or_else(|| broken("data outside the requested range"))
}

/// Reads bytes into the buffer of a job.
fn take(
    line: &dyn Connection,
    input: &mut Input,
    job: &Job,
    (from, len): (usize, usize),
) -> io::Result<()> {
    match job.fill(from, len, |bytes| input.fill(line, bytes))? {
        Filled::Here => Ok(()),
        Filled::Elsewhere => skip(line, input, len),
    }
}

fn skip(line: &dyn Connection, input: &mut Input, len: usize) -> io::Result<()> {
    let (mut bytes, mut left) = (vec![0; len.min(SKIPPED)], len);
    while left > 0 {
        let n = left.min(bytes.len());
        input.fill(line, bytes.get_mut(..n).unwrap_or_default())?;
        left -= n;
    }
    Ok(())
}

/// The number of an error; its sentence is for people who read the server's log.
fn error_of(line: &dyn Connection, input: &mut Input, chunk: Chunk) -> io::Result<u32> {
    if !(4..=ERROR_MAX).contains(&chunk.length) {
        return Err(broken("an error has a wrong length"));
    }
    let mut bytes = Vec::new();
    input.take(line, &mut bytes, chunk.length as usize)?;
    let error = Fields(&bytes).u32().filter(|error| *error != 0);
    error.ok_or_else(|| broken("an error without a number"))
}

/// What an error means here. A server that stops ends the connection: another may come.
fn kind_of(error: u32) -> io::Result<ErrorKind> {
    match error {
        STOPPING => Err(io::ErrorKind::ConnectionAborted.into()),
        // The numbers are those of Linux.
        1 | 5 | 12 | 22 | 28 | 75 | 95 => {
            Ok(ErrorKind::from_errno(i32::try_from(error).unwrap_or(libc::EIO)))
        }
        _ => Ok(ErrorKind::Io { errno: libc::EIO }),
    }
}
