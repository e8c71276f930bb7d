//! Requests, carried out by as many threads as they keep busy (see the front page).

use crate::export::{Errno, Export, RequestError, Status};
use crate::limits::{IDLE, PAYLOAD, PIECE, THREADS};
use crate::negotiation::{Negotiated, skip};
use crate::reply::{Form, ReplyTo};
use crate::turns::{Turn, Turns};
use nbdwire::{Command, Request, flag};
use nbdwire::{Connection, Input, send, send_parts};
use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Bytes of a short request.
const SHORT: u64 = 64 << 10;
/// Bytes of replies that wait, at most.
const WAITING_MAX: usize = 256 << 10;
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
    /// Of the thread that has the turn.
    input: Mutex<Input>,
    turns: Turns,
    /// Replies that are not sent yet: short ones, as long as the next request was read already and
    /// is quick.
    output: Mutex<Vec<u8>>,
    threads: AtomicUsize,
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
    /// How many there are.
    left: usize,
}

/// When a reply is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    /// With that to the next request, which is being carried out then: several go with one call.
    WithNext,
}

impl Job {
    /// A read or write that takes no longer than to wake a thread, if its data are in memory.
    fn is_short(&self) -> bool {
        let Request { command, length, .. } = self.request;
        let is_plain = matches!(command, Command::Read | Command::Write);
        is_plain && length <= SHORT && !self.request.has(flag::FUA)
    }
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
            turns: Turns::default(),
            output: Mutex::default(),
            threads: AtomicUsize::new(1),
            is_over: AtomicBool::new(false),
            extras,
            _kept: kept,
        })
    }

    /// Reads requests and carries them out, as one of its threads.
    pub(crate) fn work(self: &Arc<Self>) {
        let mut buffer = Vec::new();
        // Where none comes, another thread has the turn, and reads.
        while let Some(turn) = self.turns.take(IDLE) {
            if self.use_turn(turn, &mut buffer).is_none() {
                break;
            }
        }
        self.threads.fetch_sub(1, Relaxed);
    }

    /// Reads requests and carries them out until another thread may read; `None`: the connection is
    /// over.
    fn use_turn(self: &Arc<Self>, mut turn: Turn<'_>, buffer: &mut Vec<u8>) -> Option<()> {
        // It may have been taken from a thread whose replies wait.
        self.send_rest()?;
        loop {
            if self.is_over.load(Relaxed) {
                return None;
            }
            let (job, is_followed) = {
                let mut input = self.input.lock();
                let Ok(Some(job)) = self.next(&mut input, buffer) else {
                    // Before another thread has the turn.
                    self.is_over.store(true, Relaxed);
                    let _ = self.send_rest();
                    return None;
                };
                (job, self.has_next(&input))
            };
            let keeps_turn =
                job.is_short() && self.turns.are_quick() && turn.begin(|| self.enlist());
            if !keeps_turn {
                self.send_rest()?;
                if !turn.pass() {
                    self.enlist();
                }
                return self.complete(&job, buffer, When::Now);
            }
            let when = if is_followed { When::WithNext } else { When::Now };
            self.complete(&job, buffer, when)?;
            if !turn.end() {
                // The thread that has it now may have sent the rest before this reply.
                return self.send_rest();
            }
        }
    }

    /// Whether the next request was read already, with its data.
    fn has_next(&self, input: &Input) -> bool {
        let is_extended = self.form == Form::Extended;
        let Some((head, data)) = input.held().split_at_checked(Request::size(is_extended)) else {
            return false;
        };
        let next = Request::decode(head, is_extended);
        next.is_some_and(|next| next.payload(is_extended) <= data.len() as u64)
    }

    /// Sends the replies that wait for the next one.
    fn send_rest(&self) -> Option<()> {
        self.is_done(self.send(&[], &[]))
    }

    /// Carries a request out, and notes how long one took that is short.
    fn complete(&self, job: &Job, buffer: &mut Vec<u8>, when: When) -> Option<()> {
        let began = Instant::now();
        let done = self.carry_out(job, buffer, when);
        if job.is_short() {
            self.turns.note(began.elapsed());
        }
        self.is_done(done)
    }

    /// A reply was sent; otherwise the connection is over.
    fn is_done(&self, sent: io::Result<()>) -> Option<()> {
        if sent.is_err() {
            self.is_over.store(true, Relaxed);
            self.line.hang_up();
        }
        sent.ok()
    }

    /// One more thread, if there may be one: requests that come in meanwhile wait for it.
    fn enlist(self: &Arc<Self>) -> bool {
        if self.threads.load(Relaxed) >= THREADS {
            return false;
        }
        let Some(extra) = self.extras.take() else { return false };
        self.threads.fetch_add(1, Relaxed);
        let one = Arc::clone(self);
        let work = move || {
            one.work();
            drop(extra);
        };
        let is_started = std::thread::Builder::new().name("nbd".to_owned()).spawn(work).is_ok();
        if !is_started {
            self.threads.fetch_sub(1, Relaxed);
        }
        is_started
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
        let judged = self.judge(&request);
        if judged.is_err() || request.command != Command::Write {
            skip(line, input, payload)?;
            return Ok(Some(Job { request, so_far: judged, at: 0, left: 0 }));
        }
        let (mut at, mut left) = (request.offset, payload as usize);
        let mut so_far = Ok(());
        loop {
            let n = piece(at, left);
            let data = room(buffer, n);
            input.fill(line, data)?;
            if n == left {
                return Ok(Some(Job { request, so_far, at, left }));
            }
            so_far = so_far.and_then(|()| self.export.write(at, data));
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

    /// Sends a reply, behind those that wait.
    fn send(&self, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.send_behind(&mut self.output.lock(), head, body)
    }

    fn send_behind(&self, waiting: &mut Vec<u8>, head: &[u8], body: &[u8]) -> io::Result<()> {
        let mut parts = [IoSlice::new(waiting), IoSlice::new(head), IoSlice::new(body)];
        let sent = send_parts(&*self.line, &mut parts);
        waiting.clear();
        sent
    }

    /// Sends the reply to a short request, or lets it wait.
    fn send_when(&self, when: When, head: &[u8], body: &[u8]) -> io::Result<()> {
        let mut waiting = self.output.lock();
        if when == When::Now || waiting.len() + body.len() > WAITING_MAX {
            return self.send_behind(&mut waiting, head, body);
        }
        waiting.extend_from_slice(head);
        waiting.extend_from_slice(body);
        Ok(())
    }

    fn carry_out(&self, job: &Job, buffer: &mut Vec<u8>, when: When) -> io::Result<()> {
        let Job { request, so_far, at, left } = job;
        let to = ReplyTo { form: self.form, cookie: request.cookie, offset: request.offset };
        if let Err(trouble) = so_far {
            return self.send(&to.failed(trouble, None), &[]);
        }
        let result = match request.command {
            Command::Read => return self.read(request, to, buffer, when),
            Command::BlockStatus => return self.block_status(request, to),
            Command::Write => self.export.write(*at, room(buffer, *left)),
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
            Ok(()) => self.send_when(when, &to.done(), &[]),
            Err(trouble) => self.send(&to.failed(&trouble, None), &[]),
        }
    }

    /// Reads a piece from `at`.
    fn read_piece<'b>(
        &self,
        at: u64,
        left: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], RequestError> {
        let data = room(buffer, piece(at, left));
        self.export.read(at, data)?;
        Ok(data)
    }

    fn read(
        &self,
        request: &Request,
        to: ReplyTo,
        buffer: &mut Vec<u8>,
        when: When,
    ) -> io::Result<()> {
        // It was judged to be no longer than a payload.
        let length = usize::try_from(request.length).unwrap_or(0);
        if length == 0 {
            return self.send(&to.done(), &[]);
        }
        if self.form == Form::Simple {
            return self.read_simply(request.offset, length, to, buffer, when);
        }
        if request.has(flag::DF) {
            if length > PIECE {
                let why = "the reply would need several pieces";
                return self.send(&to.failed(&RequestError::new(Errno::Overflow, why), None), &[]);
            }
            let data = room(buffer, length);
            return match self.export.read(request.offset, data) {
                Ok(()) => self.send(&to.data(request.offset, length, true), data),
                Err(trouble) => self.send(&to.failed(&trouble, None), &[]),
            };
        }
        let (mut at, mut left) = (request.offset, length);
        while left > 0 {
            let data = match self.read_piece(at, left, buffer) {
                Ok(data) => data,
                Err(trouble) => return self.send(&to.failed(&trouble, Some(at)), &[]),
            };
            let n = data.len();
            self.send_when(when, &to.data(at, n, n == left), data)?;
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
        when: When,
    ) -> io::Result<()> {
        let data = match self.read_piece(offset, length, buffer) {
            Ok(data) => data,
            Err(trouble) => return self.send(&to.failed(&trouble, None), &[]),
        };
        if data.len() == length {
            return self.send_when(when, &to.simple(0), data);
        }
        let mut waiting = self.output.lock();
        self.send_behind(&mut waiting, &to.simple(0), data)?;
        let (mut at, mut left) = (offset + data.len() as u64, length - data.len());
        while left > 0 {
            let data = self.read_piece(at, left, buffer).map_err(io::Error::other)?;
            send(&*self.line, data, &[])?;
            at += data.len() as u64;
            left -= data.len();
        }
        Ok(())
    }

    /// Reads what will be read soon, so that it is in memory; no more than fits into a reply.
    fn cache(&self, request: &Request, buffer: &mut Vec<u8>) -> Result<(), RequestError> {
        let length = request.length.min(u64::from(PAYLOAD));
        let (mut at, mut left) = (request.offset, usize::try_from(length).unwrap_or(0));
        while left > 0 {
            let n = self.read_piece(at, left, buffer)?.len();
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

/// The first `n` bytes of a buffer, for what fills them all: of a longer request before there may
/// be something in them. A buffer that were cleared each time would be filled with zeros each time.
fn room(buffer: &mut Vec<u8>, n: usize) -> &mut [u8] {
    if buffer.len() < n {
        buffer.resize(n, 0);
    }
    &mut buffer[..n]
}
