//! The operating system's threads, which carry those of a simulation.

use super::ThreadId;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// What a thread of a simulation does.
pub(super) type Body = Box<dyn FnOnce() + Send>;

/// Carries no thread.
const NONE: ThreadId = ThreadId::MAX;

/// One of them, with the gate at which it waits while others run.
///
/// There are two passages for each microsecond or two that a simulation computes, so a passage is
/// a flag and the cheapest way there is to wake a thread.
pub(super) struct Carrier {
    is_open: AtomicBool,
    /// The one that waits at the gate, since it first did.
    thread: OnceLock<thread::Thread>,
    /// The thread that it goes on with behind the gate.
    carries: AtomicUsize,
    /// What that thread does, if it has not begun.
    body: Mutex<Option<Body>>,
}

impl Default for Carrier {
    fn default() -> Self {
        Self {
            is_open: AtomicBool::new(false),
            thread: OnceLock::new(),
            carries: AtomicUsize::new(NONE),
            body: Mutex::default(),
        }
    }
}

impl Carrier {
    /// The thread that it goes on with; `None`: it is not needed any more.
    pub(super) fn carries(&self) -> Option<ThreadId> {
        Some(self.carries.load(Ordering::Relaxed)).filter(|id| *id != NONE)
    }

    pub(super) fn carry(&self, id: ThreadId) {
        self.carries.store(id, Ordering::Relaxed);
    }

    pub(super) fn begin(&self, id: ThreadId, body: Body) {
        self.carry(id);
        *self.body.lock() = Some(body);
    }

    pub(super) fn take_body(&self) -> Option<Body> {
        self.body.lock().take()
    }

    /// It carries none.
    pub(super) fn put_down(&self) {
        self.carries.store(NONE, Ordering::Relaxed);
    }

    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
        // A thread that comes here for the first time: either it is seen, or it sees the flag.
        fence(Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Lets it go: it is not needed any more.
    pub(super) fn dismiss(self: Arc<Self>) {
        self.put_down();
        self.open();
    }

    /// Waits until the gate is open, and closes it; or `patience` long, if that is given, which
    /// costs a timer of the system. Returns whether it was open.
    pub(super) fn pass(&self, patience: Option<Duration>) -> bool {
        if self.thread.get().is_none() {
            // No other thread waits at this gate.
            let _ = self.thread.set(thread::current());
            fence(Ordering::SeqCst);
        }
        if self.is_open.swap(false, Ordering::Acquire) {
            return true;
        }
        let begin = patience.map(|patience| (Instant::now(), patience));
        loop {
            match begin {
                None => thread::park(),
                Some((begin, patience)) => match patience.checked_sub(begin.elapsed()) {
                    None => return false,
                    Some(left) => thread::park_timeout(left),
                },
            }
            // Else unparked for something else.
            if self.is_open.swap(false, Ordering::Acquire) {
                return true;
            }
        }
    }
}
