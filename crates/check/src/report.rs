//! The result of a check.

use crate::damage::DeviceDamage;
use crate::issue::{Issue, Severity};
use crate::totals::Totals;
use std::collections::BTreeMap;
use std::time::Duration;

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Pool.
    pub pool: String,
    /// Txg of the state that was checked.
    pub txg: u64,
    /// Everything that is wrong, the worst first.
    pub issues: Vec<Issue>,
    /// Issues that were too many to keep, by [`Issue::name`].
    pub dropped: BTreeMap<&'static str, u64>,
    /// Sums over all blocks.
    pub totals: Totals,
    /// Bytes allocated by the space maps.
    pub allocated: u64,
    /// Of these, bytes that only the checkpoint holds.
    pub checkpointed: u64,
    /// Blocks read.
    pub blocks_read: u64,
    /// Bytes read of them: all copies and parity.
    pub bytes_read: u64,
    /// Blocks that could not be read.
    pub blocks_lost: u64,
    /// Faults by device; also among the issues.
    pub devices: Vec<DeviceDamage>,
    /// Time it took.
    pub elapsed: Duration,
    /// The check was cancelled, so it is not complete.
    pub cancelled: bool,
}

impl Report {
    /// Nothing is wrong: no issue above a note.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.dropped.is_empty() && self.issues.iter().all(|i| i.severity() == Severity::Note)
    }

    /// How many issues of a weight.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.issues.iter().filter(|i| i.severity() == severity).count()
    }
}
