//! Requests that were accepted and not yet started.
//!
//! Callers push whole batches; the backend takes as many as it has room for. A read here is a
//! few dozen bytes and has no buffer yet, so the memory of reads is bounded by what is started; the
//! bytes of a write are the caller's, which bounds them.
//!
//! *Neighbours*: a write that continues a waiting one is joined to it, because a system call has
//! its price whatever its length. So writes are merged when the device is slower than the writers,
//! and only then.
//!
//! *One at a time*: the system lets only one thread at a time write to a file through its page
//! cache. More would only wait for each other there, so the threads take no more writes at once
//! than [`Backlog::with_writes`] says.
//!
//! *Back-pressure*: a caller waits while [`LIMIT`] requests wait here. No thread that is needed to
//! empty the backlog ever waits: backends never push, and a thread that is inside a callback, of
//! any device, is let through. The rest is the caller's own locks, see [`crate::Device::submit`].
//!
//! *Ending*: after [`Backlog::close`] nothing is accepted, waiting requests are still served.

use super::core::{Request, Work};
use super::gather::PARTS_MAX;
use crate::complete;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;

/// How many requests may wait here before callers wait. Far more than a queue above ever has in
/// flight on one device, and few enough to be nothing in memory.
const LIMIT: usize = 4096;

/// Most bytes that neighbouring writes are merged into. Longer system calls bring nothing, and
/// fail or succeed as one.
pub(super) const MERGED_BYTES_MAX: usize = 1 << 20;

/// How many of the last waiting requests a write may continue: threads that write at the same time
/// write to different places.
const NEIGHBOURS: usize = 8;

/// A queue between callers and one backend.
pub(super) struct Backlog {
    state: Mutex<State>,
    /// Writes that threads may have taken at once.
    writes_max: usize,
    /// Notified when the backlog has fallen below the limit.
    room: Condvar,
    /// Notified when there is work, or never will be again; for backends that wait here.
    work: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    /// How many of them are reads.
    reads: usize,
    /// Writes that threads have taken and not ended.
    writing: usize,
    closed: bool,
    /// The backend took all there was, has room for more, and must be woken for it.
    asleep: bool,
    /// Threads that wait in [`Backlog::take_one`].
    idle: usize,
}

/// The result of taking requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is more, or may be later.
    MoreMayCome,
    /// The backlog is closed and now empty.
    Last,
}

impl Default for Backlog {
    fn default() -> Self {
        Self::with_writes(usize::MAX)
    }
}

/// Joins a write to one that it continues; the request when there is none. `parts` of both lie
/// behind each other then, and both are answered with the same result.
pub(super) fn join<'a>(
    before: impl Iterator<Item = &'a mut Request>,
    mut request: Request,
) -> Option<Request> {
    let Work::Write(parts, acks) = &mut request.work else { return Some(request) };
    for earlier in before {
        let end = earlier.offset.saturating_add(earlier.len as u64);
        if let Work::Write(all, answers) = &mut earlier.work
            && end == request.offset
            && earlier.len.saturating_add(request.len) <= MERGED_BYTES_MAX
            && all.len() + parts.len() <= PARTS_MAX
        {
            all.append(parts);
            answers.append(acks);
            earlier.len += request.len;
            return None;
        }
    }
    Some(request)
}

impl State {
    fn is_read(request: &Request) -> bool {
        matches!(request.work, Work::Read(_))
    }

    fn add(&mut self, request: Request) {
        if let Some(request) = join(self.waiting.iter_mut().rev().take(NEIGHBOURS), request) {
            self.reads += usize::from(Self::is_read(&request));
            self.waiting.push_back(request);
        }
    }

    /// Requests that threads could take now.
    fn ready(&self, writes_max: usize) -> usize {
        let writes = self.waiting.len() - self.reads;
        self.reads + writes.min(writes_max.saturating_sub(self.writing))
    }

    /// The first request that a thread may take.
    fn next(&mut self, writes_max: usize) -> Option<Request> {
        let request = match self.writing < writes_max {
            true => self.waiting.pop_front()?,
            false if self.reads == 0 => return None,
            false => {
                let at = self.waiting.iter().position(Self::is_read)?;
                self.waiting.remove(at)?
            }
        };
        match Self::is_read(&request) {
            true => self.reads -= 1,
            false => self.writing += 1,
        }
        Some(request)
    }
}

impl Backlog {
    /// For threads of which this many may write at once.
    pub(super) fn with_writes(writes_max: usize) -> Self {
        let (state, room, work) = Default::default();
        Self { state, writes_max, room, work }
    }

    /// Accepts a batch; waits first while the backlog is full. Returns whether the backend sleeps
    /// and has to be woken, or the batch when the backlog is closed.
    pub(super) fn push(&self, batch: Vec<Request>) -> Result<bool, Vec<Request>> {
        let mut state = self.state.lock();
        if !complete::delivering() {
            self.room.wait_while(&mut state, |state| state.waiting.len() >= LIMIT && !state.closed);
        }
        if state.closed {
            return Err(batch);
        }
        let count = batch.len();
        batch.into_iter().for_each(|request| state.add(request));
        let threads = state.idle.min(count).min(state.ready(self.writes_max));
        let wake = core::mem::take(&mut state.asleep);
        drop(state);
        for _ in 0..threads {
            self.work.notify_one();
        }
        Ok(wake)
    }

    /// Moves up to `room` requests to `out`. `will_sleep`: the backend is going to wait for
    /// something else, and wants to be woken for requests that come meanwhile.
    pub(super) fn take(&self, room: usize, will_sleep: bool, out: &mut Vec<Request>) -> Found {
        let mut state = self.state.lock();
        let count = state.waiting.len().min(room);
        let was_full = state.waiting.len() >= LIMIT;
        let first = out.len();
        out.extend(state.waiting.drain(..count));
        state.reads -= out[first..].iter().filter(|r| State::is_read(r)).count();
        if was_full && state.waiting.len() < LIMIT {
            self.room.notify_all();
        }
        // Without room left a wake-up would be of no use.
        state.asleep = will_sleep && count < room;
        if state.closed && state.waiting.is_empty() { Found::Last } else { Found::MoreMayCome }
    }

    /// Waits for one request; `None` when the backlog is closed and empty. `wrote`: the last one
    /// this thread took was a write, and it is over.
    pub(super) fn take_one(&self, wrote: bool) -> Option<Request> {
        let mut state = self.state.lock();
        state.writing -= usize::from(wrote);
        loop {
            let was_full = state.waiting.len() >= LIMIT;
            if let Some(request) = state.next(self.writes_max) {
                if was_full && state.waiting.len() < LIMIT {
                    self.room.notify_all();
                }
                // A write that no thread was woken for may be this thread's no more.
                if state.idle > 0 && state.ready(self.writes_max) > 0 {
                    self.work.notify_one();
                }
                return Some(request);
            }
            if state.closed && state.waiting.is_empty() {
                // Threads that wait because only writes were left.
                self.work.notify_all();
                return None;
            }
            state.idle += 1;
            self.work.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// How many more threads the waiting requests could use beyond those that are idle.
    pub(super) fn unserved(&self) -> usize {
        let state = self.state.lock();
        state.ready(self.writes_max).saturating_sub(state.idle)
    }

    /// Accepts nothing any more. Returns whether the backend sleeps and has to be woken.
    pub(super) fn close(&self) -> bool {
        let mut state = self.state.lock();
        state.closed = true;
        let wake = core::mem::take(&mut state.asleep);
        drop(state);
        self.room.notify_all();
        self.work.notify_all();
        wake
    }
}

#[cfg(test)]
mod tests {
    use super::super::core::Ack;
    use super::*;
    use crate::Shared;
    use core::time::Duration;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn requests(n: usize) -> Vec<Request> {
        let work = || Work::Read(Box::new(|_| {}));
        let request = |_| Request { offset: 0, len: 0, work: work(), arrived: Duration::ZERO };
        (0..n).map(request).collect()
    }

    #[test]
    fn a_sleeping_backend_is_woken_once() {
        let backlog = Backlog::default();
        let mut out = Vec::new();
        assert_eq!(backlog.push(requests(3)).ok(), Some(false));
        // It leaves some, then has no room, then stays awake: no wake-up is requested.
        for (room, will_sleep) in [(2, true), (1, true), (5, false)] {
            assert_eq!(backlog.take(room, will_sleep, &mut out), Found::MoreMayCome);
            assert_eq!(backlog.push(requests(0)).ok(), Some(false));
        }
        assert_eq!(out.len(), 3);
        for found in [0, 1] {
            assert_eq!(backlog.take(5, true, &mut out), Found::MoreMayCome);
            assert_eq!(out.len(), 3 + found);
            assert_eq!(backlog.push(requests(1)).ok(), Some(true));
            assert_eq!(backlog.push(requests(0)).ok(), Some(false));
        }
        assert_eq!(backlog.take(5, true, &mut out), Found::MoreMayCome);
        assert!(backlog.close());
    }

    #[test]
    fn what_was_accepted_is_served_after_closing() {
        let backlog = Backlog::default();
        let mut out = Vec::new();
        backlog.push(requests(2)).map_err(|_| ()).expect("open");
        assert!(!backlog.close());
        assert_eq!(backlog.push(requests(1)).map_err(|batch| batch.len()), Err(1));
        assert!(backlog.take_one(false).is_some());
        assert_eq!(backlog.take(0, true, &mut out), Found::MoreMayCome);
        assert_eq!(backlog.take(1, true, &mut out), Found::Last);
        assert!(backlog.take_one(false).is_none());
        assert_eq!(backlog.take(1, true, &mut out), Found::Last);
    }

    #[test]
    fn a_full_backlog_holds_callers_but_not_callbacks() {
        let backlog = Arc::new(Backlog::default());
        backlog.push(requests(LIMIT)).map_err(|_| ()).expect("open");
        let passed = Arc::new(AtomicBool::new(false));
        let caller = {
            let (backlog, passed) = (Arc::clone(&backlog), Arc::clone(&passed));
            std::thread::spawn(move || {
                let _ = backlog.push(requests(1));
                passed.store(true, Ordering::SeqCst);
            })
        };
        let inner = Arc::clone(&backlog);
        complete::deliver(
            Box::new(move |_| {
                let _ = inner.push(requests(1));
            }),
            Ok(crate::AlignedBuf::default()),
        );
        std::thread::sleep(Duration::from_millis(20));
        assert!(!passed.load(Ordering::SeqCst));
        let mut out = Vec::new();
        backlog.take(2, false, &mut out);
        caller.join().expect("caller");
        assert!(passed.load(Ordering::SeqCst));
        assert_eq!(backlog.unserved(), LIMIT);
    }

    fn write(offset: u64, len: usize) -> Request {
        let parts = vec![Shared::copy_of(&vec![1; len])];
        let ack = Ack { offset, len, done: Box::new(|_| {}) };
        Request { offset, len, work: Work::Write(parts, vec![ack]), arrived: Duration::ZERO }
    }

    #[test]
    fn writes_continue_those_that_wait() {
        let backlog = Backlog::with_writes(1);
        let mut batch = vec![write(0, 100), write(1000, 50)];
        batch.extend(requests(1));
        batch.extend([write(100, 20), write(1050, 7), write(121, 1), write(120, MERGED_BYTES_MAX)]);
        backlog.push(batch).map_err(|_| ()).expect("open");
        let mut out = Vec::new();
        backlog.take(usize::MAX, false, &mut out);
        let got: Vec<_> = out.iter().map(|r| (r.offset, r.len)).collect();
        assert_eq!(got, [(0, 120), (1000, 57), (0, 0), (121, 1), (120, MERGED_BYTES_MAX)]);
        for request in &out {
            let Work::Write(parts, acks) = &request.work else { continue };
            assert_eq!(parts.iter().map(|p| p.len()).sum::<usize>(), request.len);
            let mut at = request.offset;
            for ack in acks {
                assert_eq!(ack.offset, at);
                at += ack.len as u64;
            }
            assert_eq!(at, request.offset + request.len as u64);
        }
    }

    #[test]
    fn writes_wait_for_their_turn_and_reads_pass_them() {
        let backlog = Arc::new(Backlog::with_writes(1));
        let mut batch = vec![write(0, 1), write(10, 1), write(20, 1)];
        batch.extend(requests(1));
        backlog.push(batch).map_err(|_| ()).expect("open");
        assert_eq!(backlog.unserved(), 2);
        let first = backlog.take_one(false).expect("a write");
        assert!(matches!(first.work, Work::Write(..)));
        let second = backlog.take_one(false).expect("a read");
        assert!(matches!(second.work, Work::Read(_)));
        // The next write is for the thread that ends the first; another waits, also when it is
        // closed.
        let other = Arc::clone(&backlog);
        let other = std::thread::spawn(move || {
            let mut served = 0;
            while let Some(request) = other.take_one(served > 0) {
                assert!(matches!(request.work, Work::Write(..)));
                served += 1;
            }
            served
        });
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(backlog.unserved(), 0);
        backlog.close();
        let mut served = 0;
        while backlog.take_one(true).is_some() {
            served += 1;
        }
        assert_eq!(served + other.join().expect("thread"), 2);
    }
}
