//! Failures in sync tasks, for tests.

use dmu::Faults;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Failures in sync tasks, as tests ask for them: one access of one task fails.
#[derive(Default)]
pub struct TaskFaults {
    /// What the object sets ask.
    pub(super) accesses: Arc<Faults>,
    /// The access of the next task that is to fail, counted from 1; 0: none.
    wanted: AtomicU64,
}

impl TaskFaults {
    /// Lets the `nth` access of the next task fail.
    pub fn fail_next(&self, nth: u64) {
        self.wanted.store(nth, Ordering::SeqCst);
    }

    /// A task begins.
    pub(super) fn begin(&self) {
        match self.wanted.swap(0, Ordering::SeqCst) {
            0 => {}
            nth => self.accesses.arm(nth),
        }
    }

    /// It ended.
    pub(super) fn end(&self) {
        self.accesses.disarm();
    }

    /// Whether the access that was to fail came.
    #[must_use]
    pub fn has_fired(&self) -> bool {
        self.accesses.has_fired()
    }

    /// Accesses of the last task of which one was to fail.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.accesses.seen()
    }
}
