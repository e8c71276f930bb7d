//! What the process that has a pool open knows of its scans beyond what is on disk.

use ondisk::scan::{ErrorScrubState, ScanState};

/// What this process has done of a scrub or resilver since it began with it, or went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanPass {
    /// When that was, in seconds since 1970; 0: it does not run.
    pub start_time: u64,
    /// Seconds since.
    pub elapsed: u64,
    /// Bytes that it has come to since.
    pub examined: u64,
    /// Bytes that it has read since.
    pub issued: u64,
    /// Bytes that it has come to and not read, beyond what its state says.
    pub collected: u64,
    /// When it was paused, in seconds since 1970; 0: it is not, or was by another process.
    pub paused: u64,
}

/// The scans of this process.
#[derive(Clone, Copy, Default)]
pub(crate) struct ScansHere {
    /// How far the scrub or resilver is that runs.
    pub(crate) now: Option<ScanState>,
    pub(crate) pass: Option<ScanPass>,
    /// A scrub that is paused. What is on disk of it may be an earlier place.
    pub(crate) paused: Option<(ScanState, ScanPass)>,
    /// Sequential rebuilds run.
    pub(crate) is_rebuilding: bool,
    pub(crate) error_scrub: ErrorScrubHere,
}

/// The error scrub of this process.
#[derive(Clone, Copy, Default)]
pub(crate) struct ErrorScrubHere {
    pub(crate) is_running: bool,
    /// How far the one is that runs.
    pub(crate) now: Option<ErrorScrubState>,
    /// When it was paused, in seconds since 1970; 0: not here.
    pub(crate) paused_at: u64,
}
