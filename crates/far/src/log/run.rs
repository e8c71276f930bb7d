//! Reads that are under way, and where in the store their bytes are.

use super::recent::Whole;
use device::{AlignedBuf, ErrorKind};
use parking_lot::Mutex;
use std::sync::Arc;

/// Gets the bytes, or why there are none.
pub(super) type ReadDone = Box<dyn FnOnce(Result<AlignedBuf, ErrorKind>) + Send>;

/// A read that is under way.
pub(super) struct Job {
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) tries: u32,
    pub(super) state: Mutex<Filling>,
}

/// What there is of it.
pub(super) struct Filling {
    pub(super) bytes: AlignedBuf,
    /// Runs that are not there yet.
    pub(super) left: usize,
    /// Some run was not where it should be.
    pub(super) is_absent: bool,
    pub(super) failed: Option<ErrorKind>,
    pub(super) give: Option<ReadDone>,
}

/// Bytes in the store that a read wants.
pub(super) struct Run {
    pub(super) job: Arc<Job>,
    pub(super) at: Stored,
}

/// Where in the store bytes of a read are.
pub(super) struct Stored {
    /// Where they go.
    pub(super) to: usize,
    pub(super) len: usize,
    pub(super) seq: u64,
    /// Where they are in the object.
    pub(super) from: u64,
    /// The payload of the object, if most of it is alive.
    pub(super) object: Option<Whole>,
}

impl Stored {
    pub(super) fn end(&self) -> u64 {
        self.from + self.len as u64
    }
}
