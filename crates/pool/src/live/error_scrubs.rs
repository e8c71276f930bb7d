//! What a pool keeps of its error scrub: whether one runs, and what came of it. It is done in
//! `error_scrub`.

use crate::scans_here::ErrorScrubHere;
use ondisk::scan::ErrorScrubState;
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
    /// How far that is.
    pub(super) now: Option<ErrorScrubState>,
    /// When the one was paused that is paused, in seconds since 1970; 0: by another process.
    pub(super) paused_at: u64,
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
        self.changed.notify_all();
        state.is_running
    }

    /// What reports show.
    pub(super) fn here(&self) -> ErrorScrubHere {
        let state = self.state.lock();
        let ErrorScrubRuns { is_running, now, paused_at, .. } = *state;
        ErrorScrubHere { is_running, now, paused_at }
    }
}
