//! Requests, carried out by as many threads as they keep busy (see the front page).

use crate::export::{Errno, Export, RequestError, Status};
use crate::limits::{IDLE, PAYLOAD, PIECE, THREADS};
use crate::negotiation::{Negotiated, skip};
use crate::reply::{Form, ReplyTo};
use nbdwire::{Command, Request, flag};
use nbdwire::{Connection, Input, send};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Extents of one status in a reply, at most.
const EXTENTS_MAX: usize = 2048;

/// Threads beyond the first of each connection.
pub(crate) struct ThreadLimit {
    left: AtomicUsize,
}

/// The right to be one of them.
struct ThreadPermit(Arc<ThreadLimit>);

impl ThreadLimit {
    pub(crate) fn new(number: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(number) })
    }

    fn take(self: &Arc<Self>) -> Option<ThreadPermit> {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        taken.is_ok().then(|| ThreadPermit(Arc::clone(self)))
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Relaxed);
    }
}

/// A connection that requests come in by; `T` is kept as long as it is.
pub(crate) struct Transmission<T> {
    line: Arc<dyn Connection>,
    export: Arc<dyn Export>,
    form: Form,
    statuses: Vec<(u32, Status)>,
    input: Mutex<Input>,
    output: Mutex<()>,
    /// Threads, and those among them that wait to read a request.
    threads: AtomicUsize,
    waiting: AtomicUsize,
    is_over: AtomicBool,
    extras: Arc<ThreadLimit>,
    _kept: T,
}

/// A request that was read, with the bytes of its data that are not written yet in the buffer.
struct Job {
    request: Request,
    /// The result of reading it.
    so_far: Result<(), RequestError>,
    /// Where the bytes in the buffer go.
    at: u64,
}

impl<T: Send + Sync + 'static> Transmission<T> {
    pub(crate) fn new(
        input: Input,
        agreed: Negotiated,
        extras: Arc<ThreadLimit>,
        kept: T,
    ) -> Arc<Self> {
        Arc::new(Self {
            line: agreed.line,
            export: agreed.export,
            form: agreed.form,
            statuses: agreed.statuses,
            input: Mutex::new(input),
            output: Mutex::new(()),
            threads: AtomicUsize::new(1),
            waiting: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            extras,
            _kept: kept,
        })
    }

    /// Reads requests and carries them out, as one of its threads.
    pub(crate) fn work(self: &Arc<Self>) {
        let mut buffer = Vec::new();
        loop {
            self.waiting.fetch_add(1, Relaxed);
            let input = self.input.try_lock_for(IDLE);
            self.waiting.fetch_sub(1, Relaxed);
            // Another one has it, and reads.
            let Some(mut input) = input else { break };
            if self.is_over.load(Relaxed) {
                break;
            }
            let Ok(Some(job)) = self.next(&mut input, &mut buffer) else {
                self.is_over.store(true, Relaxed);
                break;
            };
            if self.waiting.load(Relaxed) == 0 {
                self.enlist();
            }
            drop(input);
            if self.carry_out(&job, &mut buffer).is_err() {
                self.is_over.store(true, Relaxed);
                self.line.hang_up();
                break;
            }
        }
        self.threads.fetch_sub(1, Relaxed);
    }

    /// One more thread, if there may be one: requests that come in meanwhile wait for it.
    fn enlist(self: &Arc<Self>) {
        if self.threads.load(Relaxed) >= THREADS {
            return;
        }
        let Some(extra) = self.extras.take() else { return };
        self.threads.fetch_add(1, Relaxed);
        let one = Arc::clone(self);
        let work = move || {
            one.work();
            drop(extra);
        };
        if std::thread::Builder::new().name("nbd".to_owned()).spawn(work).is_err() {
            self.threads.fetch_sub(1, Relaxed);
        }
    }

    /// Reads a request and what follows it; `None` at the end.
    fn next(&self, input: &mut Input, buffer: &mut Vec<u8>) -> io::Result<Option<Job>> {
        let line = &*self.line;
        let is_extended = self.form == Form::Extended;
        let mut header = [0; 32];
        let header = header.get_mut(..Request::size(is_extended)).unwrap_or_default();
        input.fill(line, header)?;
        let Some(request) = Request::decode(header, is_extended) else { return Ok(None) };
        if request.command == Command::Disconnect {
            return Ok(None);
        }
        let payload = request.payload(is_extended);
        let Some(payload) = u32::try_from(payload).ok().filter(|n| *n <= PAYLOAD) else {
            return Ok(None);
        };
        buffer.clear();
        let judged = self.judge(&request);
        if judged.is_err() || request.command != Command::Write {
            skip(line, input, payload)?;
            return Ok(Some(Job { request, so_far: judged, at: 0 }));
        }
        let (mut at, mut left) = (request.offset, payload as usize);
        let mut so_far = Ok(());
        loop {
            let n = piece(at, left);
            input.take(line, buffer, n)?;
            if n == left {
                return Ok(Some(Job { request, so_far, at }));
            }
            so_far = so_far.and_then(|()| self.export.write(at, buffer));
            at += n as u64;
            left -= n;
        }
    }

    /// Whether a request can be carried out at all.
    fn judge(&self, request: &Request) -> Result<(), RequestError> {
        let facts = self.export.facts();
        let wrong = |why: &str| Err(RequestError::new(Errno::Invalid, why));
        let has_payload = request.has(flag::PAYLOAD_LEN);
        if has_payload != (self.form == Form::Extended && request.command == Command::Write) {
            return wrong("a request has an unexpected payload, or lacks one");
        }
        if request.flags & !(request.command.flags() | flag::PAYLOAD_LEN) != 0 {
            return wrong("the flag is not valid for this request");
        }
        match request.command {
            Command::Other(_) => return wrong("the command is not known"),
            Command::Flush | Command::Disconnect => return Ok(()),
            Command::Write | Command::Trim | Command::WriteZeroes if facts.is_read_only => {
                return Err(RequestError::new(Errno::Permission, "the export is read-only"));
            }
            Command::Read if request.length > u64::from(PAYLOAD) => {
                return wrong("the reply would be too large");
            }
            Command::BlockStatus if request.length == 0 => return wrong("a range without bytes"),
            Command::BlockStatus if self.statuses.is_empty() => {
                return wrong("no status was chosen");
            }
            _ => {}
        }
        let end = request.offset.checked_add(request.length);
        if end.is_some_and(|end| end <= facts.size) {
            return Ok(());
        }
        let grows = matches!(request.command, Command::Write | Command::WriteZeroes);
        let errno = if grows { Errno::NoSpace } else { Errno::Invalid };
        Err(RequestError::new(errno, "the range ends beyond the export"))
    }

    fn send(&self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let _one = self.output.lock();
        send(&*self.line, head, body)
    }

    fn carry_out(&self, job: &Job, buffer: &mut Vec<u8>) -> io::Result<()> {
        let Job { request, so_far, at } = job;
        let to = ReplyTo { form: self.form, cookie: request.cookie, offset: request.offset };
        if let Err(trouble) = so_far {
            return self.send(&to.failed(trouble, None), &[]);
        }
        let result = match request.command {
            Command::Read => return self.read(request, to, buffer),
            Command::BlockStatus => return self.block_status(request, to),
            Command::Write => self.export.write(*at, buffer),
            Command::Cache => self.cache(request, buffer),
            Command::Trim => self.export.trim(request.offset, request.length),
            Command::WriteZeroes => {
                let keeps = request.has(flag::NO_HOLE);
                let is_fast = request.has(flag::FAST_ZERO);
                self.export.zero(request.offset, request.length, keeps, is_fast)
            }
            Command::Flush => self.export.flush(),
            Command::Disconnect | Command::Other(_) => Ok(()),
        };
        let changes =
            matches!(request.command, Command::Write | Command::Trim | Command::WriteZeroes);
        let is_promised = changes && request.has(flag::FUA);
        let result = result.and_then(|()| if is_promised { self.export.flush() } else { Ok(()) });
        match result {
            Ok(()) => self.send(&to.done(), &[]),
            Err(trouble) => self.send(&to.failed(&trouble, None), &[]),
        }
    }

    /// Reads a piece from `at`, and gives its length.
    fn read_piece(
        &self,
        at: u64,
        left: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<usize, RequestError> {
        let n = piece(at, left);
        buffer.resize(n, 0);
        self.export.read(at, buffer)?;
        Ok(n)
    }

    fn read(&self, request: &Request, to: ReplyTo, buffer: &mut Vec<u8>) -> io::Result<()> {
        // It was judged to be no longer than a payload.
        let length = usize::try_from(request.length).unwrap_or(0);
        if length == 0 {
            return self.send(&to.done(), &[]);
        }
        if self.form == Form::Simple {
            return self.read_simply(request.offset, length, to, buffer);
        }
        if request.has(flag::DF) {
            if length > PIECE {
                let why = "the reply would need several pieces";
                return self.send(&to.failed(&RequestError::new(Errno::Overflow, why), None), &[]);
            }
            buffer.resize(length, 0);
            return match self.export.read(request.offset, buffer) {
                Ok(()) => self.send(&to.data(request.offset, length, true), buffer),
                Err(trouble) => self.send(&to.failed(&trouble, None), &[]),
            };
        }
        let (mut at, mut left) = (request.offset, length);
        while left > 0 {
            let n = match self.read_piece(at, left, buffer) {
                Ok(n) => n,
                Err(trouble) => return self.send(&to.failed(&trouble, Some(at)), &[]),
            };
            self.send(&to.data(at, n, n == left), buffer)?;
            at += n as u64;
            left -= n;
        }
        Ok(())
    }

    /// A simple reply reports success before the first byte. If a later piece cannot be read, the
    /// connection ends, as the protocol requires.
    fn read_simply(
        &self,
        offset: u64,
        length: usize,
        to: ReplyTo,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        let n = match self.read_piece(offset, length, buffer) {
            Ok(n) => n,
            Err(trouble) => return self.send(&to.failed(&trouble, None), &[]),
        };
        let _one = self.output.lock();
        send(&*self.line, &to.simple(0), buffer)?;
        let (mut at, mut left) = (offset + n as u64, length - n);
        while left > 0 {
            let n = self.read_piece(at, left, buffer).map_err(io::Error::other)?;
            send(&*self.line, buffer, &[])?;
            at += n as u64;
            left -= n;
        }
        Ok(())
    }

    /// Reads what will be read soon, so that it is in memory; no more than fits into a reply.
    fn cache(&self, request: &Request, buffer: &mut Vec<u8>) -> Result<(), RequestError> {
        let length = request.length.min(u64::from(PAYLOAD));
        let (mut at, mut left) = (request.offset, usize::try_from(length).unwrap_or(0));
        while left > 0 {
            let n = self.read_piece(at, left, buffer)?;
            at += n as u64;
            left -= n;
        }
        Ok(())
    }

    fn block_status(&self, request: &Request, to: ReplyTo) -> io::Result<()> {
        let max = if request.has(flag::REQ_ONE) { 1 } else { EXTENTS_MAX };
        let mut out = Vec::new();
        let last = self.statuses.last().map(|(id, _)| *id);
        for (id, status) in &self.statuses {
            let found = self.export.status(status, request.offset, request.length, max);
            let extents = match found {
                Ok(extents) => extents,
                Err(trouble) => {
                    out.extend(to.failed(&trouble, None));
                    break;
                }
            };
            // A hole that reads as zeros; or dirty.
            let flag = if *status == Status::Allocation { 1 | 2 } else { 1 };
            out.extend(to.status(*id, flag, &extents, Some(*id) == last));
        }
        self.send(&out, &[])
    }
}

/// Bytes of the next piece of a range: the next ones begin at multiples of a piece.
fn piece(at: u64, left: usize) -> usize {
    let behind = (at % PIECE as u64) as usize;
    left.min(PIECE - behind)
}
