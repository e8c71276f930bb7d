//! Writes to several devices that their caller waits for.
//!
//! Each is begun before it is submitted and ended by its answer, or when a device drops it without
//! one. The lock is held only to count, never over I/O.

use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::sync::Arc;

/// Writes under way, and what is to be known of those that failed.
pub(crate) struct Awaited<F> {
    state: Mutex<State<F>>,
    arrived: Condvar,
}

struct State<F> {
    left: usize,
    failed: Vec<F>,
}

impl<F> Awaited<F> {
    pub(crate) fn new(rt: &Rt) -> Arc<Self> {
        let state = Mutex::new(State { left: 0, failed: Vec::new() });
        Arc::new(Self { state, arrived: rt.condvar() })
    }

    /// One more is about to be submitted.
    pub(crate) fn begin(&self) {
        self.state.lock().left += 1;
    }

    /// One that was begun has been answered, or dropped.
    pub(crate) fn end(&self, failed: Option<F>) {
        let mut state = self.state.lock();
        state.failed.extend(failed);
        state.left -= 1;
        if state.left == 0 {
            self.arrived.notify_all();
        }
    }

    /// Waits for all that were begun; those that failed.
    pub(crate) fn wait(&self) -> Vec<F> {
        let mut state = self.state.lock();
        while state.left > 0 {
            self.arrived.wait(&mut state);
        }
        std::mem::take(&mut state.failed)
    }
}
