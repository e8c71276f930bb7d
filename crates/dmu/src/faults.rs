//! Failures that a test asks for, at the seam where everything above sees objects.
//!
//! Most accesses to a live set are answered from memory, so faults of devices reach few of the
//! places where an access can fail. This seam is above the caches: opening an object, reading a
//! block of it, every change, every block that a sync writes. It is always compiled, so that what
//! is tested is what runs; a set without faults asks one pointer.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Counts accesses while it is armed, and lets one of them fail.
#[derive(Default)]
pub struct Faults {
    armed: AtomicBool,
    count: Mutex<Count>,
}

#[derive(Default)]
struct Count {
    /// Accesses since it was armed.
    seen: u64,
    /// The one that fails; 0: none.
    nth: u64,
    /// This many accesses after it another one fails; 0: none.
    then: u64,
}

impl Faults {
    /// From now on accesses count, and the `nth` fails (from 1; 0: none).
    pub fn arm(&self, nth: u64) {
        self.arm_twice(nth, 0);
    }

    /// The same, and so does the access `then` accesses after it (0: none): what takes back a
    /// change that failed can fail too.
    pub fn arm_twice(&self, nth: u64, then: u64) {
        *self.count.lock() = Count { seen: 0, nth, then };
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Accesses do not count any more.
    pub fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }

    /// Whether all accesses that were to fail came since the last [`Self::arm`].
    #[must_use]
    pub fn has_fired(&self) -> bool {
        let count = self.count.lock();
        count.nth != 0 && count.seen >= count.nth + count.then
    }

    /// Accesses since the last [`Self::arm`], while it was armed.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.count.lock().seen
    }

    /// Whether this access fails.
    pub(crate) fn fails(&self) -> bool {
        if !self.armed.load(Ordering::Relaxed) {
            return false;
        }
        let mut count = self.count.lock();
        count.seen += 1;
        let after = count.seen.checked_sub(count.nth);
        after.is_some_and(|after| after == 0 || after == count.then) && count.nth != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Faults;

    #[test]
    fn one_access_fails_while_armed() {
        let faults = Faults::default();
        assert!(!faults.fails(), "not armed");
        faults.arm(2);
        assert_eq!(
            [faults.fails(), faults.has_fired(), faults.fails(), faults.fails()],
            [false, false, true, false]
        );
        assert!(faults.has_fired());
        faults.disarm();
        faults.arm(1);
        assert!(!faults.has_fired());
        faults.disarm();
        assert!(!faults.fails());
    }
}
