//! What a pool keeps of its error scrub: whether one runs, and what came of it. It is done in
//! `error_scrub`.

use parking_lot::Mutex;
use rt::{Condvar, Rt, Task};

/// The error scrub that runs.
pub(super) struct ErrorScrub {
    pub(super) state: Mutex<ErrorScrubRuns>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct ErrorScrubRuns {
    pub(super) is_running: bool,
    /// It is to end as soon as it can, and stay as it is.
    pub(super) is_interrupted: bool,
    /// The pool is being closed.
    pub(super) is_closing: bool,
    /// The thread that goes on with one from before the import.
    pub(super) task: Option<Task<()>>,
    /// What came of the last one: how many blocks cannot be had, or why it did not end.
    pub(super) last: Option<Result<u64, String>>,
}

impl ErrorScrub {
    pub(super) fn new(rt: &Rt) -> Self {
        Self { state: Mutex::default(), changed: rt.condvar() }
    }

    /// The one that runs is to end soon; whether one does.
    pub(super) fn interrupt(&self) -> bool {
        let mut state = self.state.lock();
        state.is_interrupted = true;
        state.is_running
    }
}
