//! Files that programs have open, or use without a name: they live as long as they are in these
//! tables, whatever happens to their names.

use crate::kernel::FileHandle;
use crate::progress::Progress;
use engine::files::OpenFile;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The open files and directories of a mount. There are no more than programs have open.
#[derive(Default)]
pub(crate) struct Handles(Mutex<Table>);

#[derive(Default)]
struct Table {
    next: u64,
    open: HashMap<u64, Handle>,
}

/// An open file or directory.
#[derive(Default)]
pub(crate) struct Handle {
    /// Its use; what nothing can remove needs none. It ends when this is dropped.
    _file: Option<OpenFile>,
    /// How far it was listed.
    listing: Option<Arc<Mutex<Progress>>>,
}

impl Handles {
    /// Adds a file.
    pub(crate) fn add(&self, file: Option<OpenFile>) -> FileHandle {
        self.insert(Handle { _file: file, listing: None })
    }

    /// Adds a directory.
    pub(crate) fn add_dir(&self, file: Option<OpenFile>) -> FileHandle {
        self.insert(Handle { _file: file, listing: Some(Arc::default()) })
    }

    fn insert(&self, handle: Handle) -> FileHandle {
        let mut table = self.0.lock();
        table.next += 1;
        let number = table.next;
        table.open.insert(number, handle);
        FileHandle(number)
    }

    /// How far a directory was listed.
    pub(crate) fn listing(&self, handle: FileHandle) -> Option<Arc<Mutex<Progress>>> {
        self.0.lock().open.get(&handle.0)?.listing.clone()
    }

    /// Takes one out. Dropping it may free the file, so that is done without the lock.
    pub(crate) fn remove(&self, handle: FileHandle) -> Option<Handle> {
        self.0.lock().open.remove(&handle.0)
    }
}

/// Files without a name that programs may use although they were never opened here: a program that
/// has a fifo or a device open, or is in a directory, has told the kernel alone. They stay until
/// the kernel forgets them.
#[derive(Default)]
pub(crate) struct Nameless(Mutex<HashMap<u64, OpenFile>>);

impl Nameless {
    pub(crate) fn add(&self, file: OpenFile) {
        let before = self.0.lock().insert(OpenFile::object(&file), file);
        // It ends a use, and so is dropped without the lock.
        drop(before);
    }

    /// Takes an object out.
    pub(crate) fn remove(&self, object: u64) -> Option<OpenFile> {
        self.0.lock().remove(&object)
    }
}
