//! The warnings that a process has given.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Subjects of which the user has been warned: each is reported once.
#[derive(Debug, Default)]
pub struct Warnings {
    subjects: Mutex<BTreeSet<String>>,
    is_list_unread: AtomicBool,
    is_still_listed: AtomicBool,
}

impl Warnings {
    /// Whether this subject was not reported yet; from now on it was.
    #[must_use]
    pub fn is_first(&self, subject: &str) -> bool {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner).insert(subject.to_owned())
    }

    /// The list of known pools could not be read.
    pub fn list_is_unread(&self) {
        self.is_list_unread.store(true, Ordering::Relaxed);
    }

    /// Whether the list could not be read. The set of all pools is not known then.
    #[must_use]
    pub fn is_list_unread(&self) -> bool {
        self.is_list_unread.load(Ordering::Relaxed)
    }

    /// A pool is gone, and is still in the list.
    pub fn still_listed(&self) {
        self.is_still_listed.store(true, Ordering::Relaxed);
    }

    /// Whether one is. The command is no success then: the next one with this name would open the
    /// pool again.
    #[must_use]
    pub fn is_still_listed(&self) -> bool {
        self.is_still_listed.load(Ordering::Relaxed)
    }
}
