//! How far long work has come, and the way to stop it.
//!
//! The worker adds, the watcher takes snapshots; both do it at any rate and neither waits for the
//! other. Cancelling only sets a flag, which the worker asks for between two steps: the thread that
//! started the work decides that it ends, the work decides where it can.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use parking_lot::Mutex;

/// Shared between a long work and its watchers.
#[derive(Debug, Default)]
pub struct Progress {
    phase: Mutex<&'static str>,
    done: AtomicU64,
    total: AtomicU64,
    bytes: AtomicU64,
    cancelled: AtomicBool,
}

/// The state of a work at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// The present phase, for people; empty before the first phase.
    pub phase: &'static str,
    /// Items done in this phase.
    pub done: u64,
    /// Items this phase has, as far as known; 0 when unknown.
    pub total: u64,
    /// Bytes gone through since the work began, over all phases.
    pub bytes: u64,
}

/// The work was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cancelled")
    }
}

impl std::error::Error for Cancelled {}

impl Progress {
    /// Nothing done yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a phase with `total` items (0: unknown).
    pub fn begin(&self, phase: &'static str, total: u64) {
        let mut name = self.phase.lock();
        *name = phase;
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// More items have turned up.
    pub fn add_total(&self, items: u64) {
        self.total.fetch_add(items, Ordering::Relaxed);
    }

    /// Items and bytes were done.
    pub fn add(&self, items: u64, bytes: u64) {
        self.done.fetch_add(items, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The state now.
    #[must_use]
    pub fn snapshot(&self) -> ProgressSnapshot {
        // The lock keeps `begin` from changing the phase between the name and its numbers.
        let phase = self.phase.lock();
        ProgressSnapshot {
            phase: *phase,
            done: self.done.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Tells the work to stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the work was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// For `?` between two steps of the work: an error once it was cancelled.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_phase_starts_over_but_bytes_go_on() {
        let progress = Progress::new();
        progress.begin("labels", 4);
        progress.add(3, 100);
        assert_eq!(progress.snapshot().done, 3);
        progress.begin("blocks", 0);
        progress.add_total(10);
        progress.add(1, 50);
        let want = ProgressSnapshot { phase: "blocks", done: 1, total: 10, bytes: 150 };
        assert_eq!(progress.snapshot(), want);
    }

    #[test]
    fn cancelling_is_seen_between_steps() {
        let progress = Progress::new();
        let work = || -> Result<u32, Cancelled> {
            for step in 0..10 {
                progress.check()?;
                if step == 4 {
                    progress.cancel();
                }
            }
            Ok(10)
        };
        assert_eq!(work(), Err(Cancelled));
        assert!(progress.is_cancelled());
    }
}
