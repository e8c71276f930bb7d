//! Requests of callers, and the pieces of them that go to a server.
//!
//! A caller's request is one [`CallerRequest`], whatever a server takes at once; it is answered
//! when all of its pieces are. A piece is a [`Job`]: it is sent, and sent again when the connection
//! that it was sent by breaks, so everything that a job does can be done twice.

use super::unflushed::Data;
use device::{AlignedBuf, ErrorKind};
use nbdwire::Command;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Receives the result of a whole: the bytes of a read, an empty buffer of everything else.
pub(super) type Completion = Box<dyn FnOnce(Result<AlignedBuf, ErrorKind>) + Send>;

/// Where an answer is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// By the thread that calls callbacks, which may read from devices.
    Later,
    /// At once: it only wakes a thread that waits.
    AtOnce,
}

/// One request of a caller.
pub(super) struct CallerRequest {
    state: Mutex<State>,
    call: Call,
}

struct State {
    /// Pieces that are not answered.
    left: usize,
    failed: Option<ErrorKind>,
    bytes: AlignedBuf,
    /// Gone when it was answered.
    answer: Option<Completion>,
}

/// An answer that is due, with its result.
pub(super) struct DueCompletion {
    pub(super) call: Call,
    answer: Completion,
    result: Result<AlignedBuf, ErrorKind>,
}

impl DueCompletion {
    pub(super) fn deliver(self) {
        (self.answer)(self.result);
    }
}

impl CallerRequest {
    fn new(pieces: usize, call: Call, answer: Completion) -> Arc<Self> {
        let (failed, bytes) = (None, AlignedBuf::default());
        let state = State { left: pieces, failed, bytes, answer: Some(answer) };
        Arc::new(Self { state: Mutex::new(state), call })
    }

    /// One piece was answered; the answer of the whole when it was the last.
    fn end_piece(&self, result: Result<(), ErrorKind>) -> Option<DueCompletion> {
        let mut state = self.state.lock();
        if let Err(kind) = result {
            state.failed.get_or_insert(kind);
        }
        state.left = state.left.saturating_sub(1);
        if state.left > 0 {
            return None;
        }
        let answer = state.answer.take()?;
        let bytes = std::mem::take(&mut state.bytes);
        let result = state.failed.map_or(Ok(bytes), Err);
        Some(DueCompletion { call: self.call, answer, result })
    }
}

/// What a server is asked for at once.
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) offset: u64,
    pub(super) len: usize,
    /// What is written.
    pub(super) data: Data,
    /// For a flush, what it is for ([`super::unflushed::Unflushed::mark`]).
    pub(super) mark: u64,
    /// `None` for what no caller waits for: a flush of the client's own, and what is sent again.
    pub(super) whole: Option<Arc<CallerRequest>>,
    /// When a connection first broke while this was under way.
    pub(super) broken_since: OnceLock<Instant>,
    /// Bytes of the whole, and where this piece begins in it.
    whole_len: usize,
    at: usize,
}

impl Job {
    /// Whether it changes what is on the device.
    pub(super) fn is_write(&self) -> bool {
        matches!(self.command, Command::Write | Command::WriteZeroes)
    }

    /// Bytes that follow the request, or its reply.
    pub(super) fn carried(&self) -> usize {
        if matches!(self.command, Command::Read | Command::Write) { self.len } else { 0 }
    }

    /// Reads into memory of the whole, from `from` bytes behind the beginning of the piece, with
    /// what fills a slice. Whether it was done; an error of `fill` otherwise.
    ///
    /// # Errors
    /// That of `fill`.
    pub(super) fn fill<E>(
        &self,
        from: usize,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Filled, E> {
        let Some(whole) = &self.whole else { return Ok(Filled::Elsewhere) };
        let mut state = whole.state.lock();
        if state.answer.is_none() {
            return Ok(Filled::Elsewhere);
        }
        if state.bytes.is_empty() {
            match AlignedBuf::try_zeroed(self.whole_len) {
                Some(bytes) => state.bytes = bytes,
                None => {
                    state.failed.get_or_insert(ErrorKind::OutOfMemory);
                    return Ok(Filled::Elsewhere);
                }
            }
        }
        let start = self.at.saturating_add(from);
        let range = start..start.saturating_add(len);
        match state.bytes.get_mut(range).filter(|_| from.saturating_add(len) <= self.len) {
            Some(bytes) => fill(bytes).map(|()| Filled::Here),
            None => Ok(Filled::Elsewhere),
        }
    }

    /// It was answered; what is due by that.
    pub(super) fn end(&self, result: Result<(), ErrorKind>) -> Option<DueCompletion> {
        self.whole.as_ref()?.end_piece(result)
    }

    /// A flush for what was acknowledged before a mark.
    pub(super) fn flush(mark: u64, answer: Option<Completion>) -> Arc<Self> {
        Arc::new(Self {
            command: Command::Flush,
            offset: 0,
            len: 0,
            data: Data::Zeros,
            mark,
            whole: answer.map(|answer| CallerRequest::new(1, Call::AtOnce, answer)),
            broken_since: OnceLock::new(),
            whole_len: 0,
            at: 0,
        })
    }

    /// What was acknowledged, once more.
    pub(super) fn again(offset: u64, len: usize, data: Data, can_zero: bool) -> Arc<Self> {
        let (command, data) = match data {
            Data::Zeros if can_zero => (Command::WriteZeroes, Data::Zeros),
            data => (Command::Write, data),
        };
        let (mark, whole, whole_len, at) = (0, None, 0, 0);
        let broken_since = OnceLock::new();
        Arc::new(Self { command, offset, len, data, mark, whole, broken_since, whole_len, at })
    }
}

/// What became of bytes that were to be put into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Here,
    /// They are not wanted, or there is no memory: they are to be read and forgotten.
    Elsewhere,
}

/// A request of a caller, cut into what a server takes at once.
pub(super) fn cut(
    command: Command,
    (offset, len): (u64, usize),
    data: &Data,
    payload: u32,
    call: Call,
    answer: Completion,
) -> Vec<Arc<Job>> {
    let payload = payload as usize;
    let pieces = len.div_ceil(payload).max(1);
    let whole = CallerRequest::new(pieces, call, answer);
    let job = |n: usize| {
        let at = n * payload;
        let length = payload.min(len - at);
        Arc::new(Job {
            command,
            offset: offset + at as u64,
            len: length,
            data: if pieces == 1 { data.clone() } else { data.slice(at, at + length) },
            mark: 0,
            whole: Some(Arc::clone(&whole)),
            broken_since: OnceLock::new(),
            whole_len: len,
            at,
        })
    };
    (0..pieces).map(job).collect()
}
