//! The table of files that are in use, or on their way out (`open.rs`).

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};

#[derive(Default)]
struct Use {
    users: u64,
    /// It has no name any more.
    unlinked: bool,
}

#[derive(Default)]
struct Files {
    used: HashMap<u64, Use>,
    /// In the delete queue, and for the next thread that comes to free.
    left: Vec<u64>,
    /// Being freed.
    freeing: HashSet<u64>,
}

/// Which files are in use, and which are on their way out.
#[derive(Default)]
pub(crate) struct OpenTable(Mutex<Files>);

impl OpenTable {
    /// Notes that a file lost its last name; true when it is in use.
    pub(crate) fn unlink(&self, object: u64) -> bool {
        match self.0.lock().used.get_mut(&object) {
            Some(u) => {
                u.unlinked = true;
                true
            }
            None => false,
        }
    }

    /// One more user of a file, which may have no name.
    pub(crate) fn begin(&self, object: u64, is_unlinked: bool) {
        let mut files = self.0.lock();
        let entry = files.used.entry(object).or_default();
        entry.users += 1;
        entry.unlinked |= is_unlinked;
    }

    /// Notes that a file in use got a name.
    pub(crate) fn named(&self, object: u64) {
        if let Some(u) = self.0.lock().used.get_mut(&object) {
            u.unlinked = false;
        }
    }

    /// Whether a file is in use.
    pub(crate) fn is_used(&self, object: u64) -> bool {
        self.0.lock().used.contains_key(&object)
    }

    /// Notes a file of the delete queue that is not in use.
    pub(crate) fn leave_to_free(&self, object: u64) {
        self.0.lock().left.push(object);
    }

    pub(crate) fn take_left(&self) -> Option<u64> {
        self.0.lock().left.pop()
    }

    /// Whether the caller may free a file: it is not in use, and no other thread frees it.
    pub(crate) fn begin_to_free(&self, object: u64) -> bool {
        let mut files = self.0.lock();
        !files.used.contains_key(&object) && files.freeing.insert(object)
    }

    pub(crate) fn end_to_free(&self, object: u64) {
        self.0.lock().freeing.remove(&object);
    }

    /// One user less; true when it was the last and the file has no name.
    pub(crate) fn leave(&self, object: u64) -> bool {
        let used = &mut self.0.lock().used;
        let Some(u) = used.get_mut(&object) else { return false };
        u.users -= 1;
        u.users == 0 && used.remove(&object).is_some_and(|u| u.unlinked)
    }
}
