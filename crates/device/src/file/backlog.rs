//! Requests that were accepted and not yet started.
//!
//! Callers push whole batches; the backend takes as many as it has room for. A read here is a
//! few dozen bytes and has no buffer yet, so the memory of reads is bounded by what is started; the
//! bytes of a write are the caller's, who bounds them.
//!
//! *Back-pressure*: a caller waits while [`LIMIT`] requests stand here. Nobody who is needed to
//! empty the backlog ever waits: backends never push, and a thread that is inside a callback, of
//! any device, is let through. What is left is the caller's own locks, see
//! [`crate::Device::submit`].
//!
//! *Ending*: after [`Backlog::close`] nothing is accepted, what stands here is still served.

use super::core::Request;
use crate::complete;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;

/// How many requests may stand here before callers wait. Far more than a queue above ever has in
/// flight on one device, and few enough to be nothing in memory.
const LIMIT: usize = 4096;

/// A queue between callers and one backend.
#[derive(Default)]
pub(super) struct Backlog {
    state: Mutex<State>,
    /// Told when the backlog has fallen below the limit.
    room: Condvar,
    /// Told when there is work, or never will be again; for backends that wait here.
    work: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    closed: bool,
    /// The backend took all there was, has room for more, and must be woken for it.
    asleep: bool,
    /// Threads that wait in [`Backlog::take_one`].
    idle: usize,
}

/// What a backend learns from taking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is more, or may be later.
    MoreMayCome,
    /// The backlog is closed and now empty.
    Last,
}

impl Backlog {
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
        let threads = state.idle.min(batch.len());
        state.waiting.extend(batch);
        let wake = core::mem::take(&mut state.asleep);
        drop(state);
        for _ in 0..threads {
            self.work.notify_one();
        }
        Ok(wake)
    }

    /// Moves up to `room` requests to `out`. With `will_sleep` the backend says that it is going
    /// to wait for something else, and wants to be woken for what comes meanwhile.
    pub(super) fn take(&self, room: usize, will_sleep: bool, out: &mut Vec<Request>) -> Found {
        let mut state = self.state.lock();
        let count = state.waiting.len().min(room);
        let was_full = state.waiting.len() >= LIMIT;
        out.extend(state.waiting.drain(..count));
        if was_full && state.waiting.len() < LIMIT {
            self.room.notify_all();
        }
        // Without room left a wake-up would be of no use.
        state.asleep = will_sleep && count < room;
        if state.closed && state.waiting.is_empty() { Found::Last } else { Found::MoreMayCome }
    }

    /// Waits for one request; `None` when the backlog is closed and empty.
    pub(super) fn take_one(&self) -> Option<Request> {
        let mut state = self.state.lock();
        loop {
            let was_full = state.waiting.len() >= LIMIT;
            if let Some(request) = state.waiting.pop_front() {
                if was_full && state.waiting.len() < LIMIT {
                    self.room.notify_all();
                }
                return Some(request);
            }
            if state.closed {
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
        state.waiting.len().saturating_sub(state.idle)
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
    use super::super::core::Work;
    use super::*;
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
        // It leaves some, then has no room, then stays awake: no wake-up is asked for.
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
        assert!(backlog.take_one().is_some());
        assert_eq!(backlog.take(0, true, &mut out), Found::MoreMayCome);
        assert_eq!(backlog.take(1, true, &mut out), Found::Last);
        assert!(backlog.take_one().is_none());
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
}
