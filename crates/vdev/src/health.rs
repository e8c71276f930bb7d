//! What writing did to a leaf: errors, txgs it missed, and whether it is still written to.

use device::Error;
use parking_lot::Mutex;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared with the completions of the leaf's writes, which may outlive the tree.
pub(crate) struct Health {
    /// Writes that failed.
    write_errors: AtomicU64,
    /// First and last txg with a block that did not get here; empty while first > last.
    first_missed: AtomicU64,
    last_missed: AtomicU64,
    /// Nothing is written any more.
    out: AtomicBool,
    /// The first failure.
    error: Mutex<Option<Error>>,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self {
            write_errors: AtomicU64::new(0),
            first_missed: AtomicU64::new(u64::MAX),
            last_missed: AtomicU64::new(0),
            out: AtomicBool::new(false),
            error: Mutex::new(None),
        }
    }

    /// A block of that txg is not on the device.
    pub(crate) fn miss(&self, txg: u64) {
        // Usually nothing changes, and loads do not fight for the cache line.
        if self.first_missed.load(Ordering::Relaxed) > txg {
            self.first_missed.fetch_min(txg, Ordering::Relaxed);
        }
        if self.last_missed.load(Ordering::Relaxed) < txg {
            self.last_missed.fetch_max(txg, Ordering::Relaxed);
        }
    }

    pub(crate) fn missed(&self) -> Option<RangeInclusive<u64>> {
        let first = self.first_missed.load(Ordering::Relaxed);
        let last = self.last_missed.load(Ordering::Relaxed);
        (first <= last).then_some(first..=last)
    }

    /// A write failed.
    pub(crate) fn failed(&self, error: &Error) {
        self.write_errors.fetch_add(1, Ordering::Relaxed);
        self.error.lock().get_or_insert_with(|| error.clone());
    }

    /// The leaf cannot be trusted to keep anything: it is not written to any more.
    pub(crate) fn give_up(&self, error: &Error) {
        self.failed(error);
        self.out.store(true, Ordering::Release);
    }

    pub(crate) fn is_out(&self) -> bool {
        self.out.load(Ordering::Acquire)
    }

    pub(crate) fn write_errors(&self) -> u64 {
        self.write_errors.load(Ordering::Relaxed)
    }

    pub(crate) fn error(&self) -> Option<Error> {
        self.error.lock().clone()
    }
}
