//! Everything in a file system, in the order of its names, found by one thread and described by
//! many.
//!
//! The walk goes down directory by directory without recursion: a stack holds the entries still to
//! come of every directory on the way. A directory that turns up twice is an error and not entered
//! again, so neither a loop nor a directory with many names can make the walk endless.
//!
//! Descriptions are made in any order and handed out in the order of the walk: each has a number,
//! and the walk waits when it is too far ahead of the oldest one missing.

use rt::for_each_parallel;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Condvar, Mutex, PoisonError};
use zpl::{DirEntry, FileKind, Filesystem};

/// Directories within directories, at most: several times what `zinc cp` makes in one go (4096), so
/// that what it made can be walked wherever it was put. A path this deep has some 4 MiB.
const DEPTH_MAX: usize = 16 << 10;
/// Descriptions that may be waiting for an earlier one.
const WINDOW: u64 = 4096;
/// The same as bytes of their paths, each of which may be as long as some megabytes.
const WINDOW_BYTES: usize = 8 << 20;
/// Bytes of paths of errors that are kept.
const ERRORS_BYTES: usize = 16 << 20;

/// A file that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Path from the root, without a slash in front; `.` for the root itself.
    pub path: Vec<u8>,
    /// Its object.
    pub object: u64,
}

/// What went wrong on the way, with the path.
#[derive(Clone, Debug)]
pub struct WalkError {
    /// The directory.
    pub path: Vec<u8>,
    /// Why it, or a part of it, is missing.
    pub error: zpl::Error,
}

/// The walk; see the head of the module. Errors do not end it.
pub struct Walk<'a> {
    fs: &'a Filesystem,
    stack: Vec<Level>,
    /// Path of the last entry. That of every level is a part of it: one for each would be long.
    path: Vec<u8>,
    root: Option<u64>,
    entered: HashSet<u64>,
    errors: Vec<WalkError>,
    /// Bytes of the paths in them.
    error_bytes: usize,
}

struct Level {
    /// Bytes of the path.
    path: usize,
    /// Entries still to come, last first.
    todo: Vec<DirEntry>,
}

impl<'a> Walk<'a> {
    /// Starts at the directory `object`, whose path is shown as `.`.
    #[must_use]
    pub fn new(fs: &'a Filesystem, object: u64) -> Self {
        let (stack, path, entered, errors) = Default::default();
        Self { fs, stack, path, root: Some(object), entered, errors, error_bytes: 0 }
    }

    /// The errors so far.
    #[must_use]
    pub fn into_errors(self) -> Vec<WalkError> {
        self.errors
    }

    /// Keeps an error about the last entry, while there are not too many.
    fn fail(&mut self, error: zpl::Error) {
        let path = if self.path.is_empty() { b".".to_vec() } else { self.path.clone() };
        let before = self.error_bytes;
        self.error_bytes = before.saturating_add(path.len());
        if before >= ERRORS_BYTES {
            return;
        }
        self.errors.push(WalkError { path, error });
        if self.error_bytes >= ERRORS_BYTES {
            let error = zpl::Error::TooLarge("there are more errors than are kept");
            self.errors.push(WalkError { path: b".".to_vec(), error });
        }
    }

    /// Goes into the directory that is the last entry.
    fn enter(&mut self, object: u64) {
        let tree = |rule| match self.fs.objset().object(object) {
            Ok(o) => o.error(dmu::ErrorKind::Tree(rule)).into(),
            Err(e) => zpl::Error::from(e),
        };
        if !self.entered.insert(object) {
            return self.fail(tree("the directory has a second name"));
        }
        if self.stack.len() >= DEPTH_MAX {
            return self.fail(zpl::Error::TooLarge("directories nest deeper than is walked"));
        }
        let node = match self.fs.node(object) {
            Ok(node) => node,
            Err(e) => return self.fail(e),
        };
        let entries = match node.entries() {
            Ok(entries) => entries,
            Err(e) => return self.fail(e),
        };
        let mut todo = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) => todo.push(entry),
                Err(e) => self.fail(e),
            }
        }
        todo.sort_by(|a, b| b.name.cmp(&a.name));
        self.stack.push(Level { path: self.path.len(), todo });
    }

    fn is_directory(&self, entry: &DirEntry) -> bool {
        const DIRECTORY: u8 = 4;
        match entry.kind {
            DIRECTORY => true,
            // Version 1 does not say.
            0 => self.fs.node(entry.object).is_ok_and(|n| n.kind() == FileKind::Dir),
            _ => false,
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some(object) = self.root.take() {
            self.enter(object);
            return Some(Found { path: b".".to_vec(), object });
        }
        loop {
            let level = self.stack.last_mut()?;
            let Some(entry) = level.todo.pop() else {
                self.stack.pop();
                continue;
            };
            self.path.truncate(level.path);
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&entry.name);
            if self.is_directory(&entry) {
                self.enter(entry.object);
            }
            return Some(Found { path: self.path.clone(), object: entry.object });
        }
    }
}

/// State of [`in_order`].
struct Order<T> {
    /// Results that wait for an earlier one, with the weights of their items.
    waiting: BTreeMap<u64, (usize, T)>,
    /// Weight of the items that were given out and whose results were not handed out.
    weight: usize,
    /// Number of the next result to hand out.
    next: u64,
    /// A thread is handing out.
    busy: bool,
    /// Nothing more is wanted.
    stopped: bool,
}

impl<T> Order<T> {
    /// Takes what can be handed out now.
    fn take(&mut self) -> Vec<T> {
        let mut ready = Vec::new();
        while let Some((weight, r)) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.weight = self.weight.saturating_sub(weight);
            ready.push(r);
        }
        ready
    }
}

/// Calls `work` on every item on all cores and `sink` on the results in the order of the items,
/// one at a time. The first error of `sink` ends it. `weigh` says how many bytes an item and its
/// result take: not too many are under way at a time.
pub fn in_order<I, T, E>(
    items: I,
    weigh: impl Fn(&I::Item) -> usize + Sync + Send,
    work: impl Fn(I::Item) -> T + Sync,
    sink: impl FnMut(T) -> Result<(), E> + Send,
) -> Result<(), E>
where
    I: Iterator + Send,
    T: Send,
    E: Send,
{
    let waiting = BTreeMap::new();
    let start = Order { waiting, weight: 0, next: 0, busy: false, stopped: false };
    let order = Mutex::new(start);
    let moved = Condvar::new();
    let sink = Mutex::new(sink);
    let lock = || order.lock().unwrap_or_else(PoisonError::into_inner);
    let numbered = (0u64..).zip(items).take_while(|(n, item)| {
        // The thread with the oldest result never waits here, so the others are woken in the end.
        let is_far =
            |o: &Order<T>| *n >= o.next + WINDOW || (*n > o.next && o.weight >= WINDOW_BYTES);
        let mut o = lock();
        while !o.stopped && is_far(&o) {
            o = moved.wait(o).unwrap_or_else(PoisonError::into_inner);
        }
        o.weight = o.weight.saturating_add(weigh(item));
        !o.stopped
    });
    for_each_parallel(0, numbered, |(n, item)| {
        let weight = weigh(&item);
        let result = work(item);
        let mut o = lock();
        o.waiting.insert(n, (weight, result));
        if o.busy {
            return Ok(());
        }
        o.busy = true;
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let ready = o.take();
            moved.notify_all();
            if ready.is_empty() {
                o.busy = false;
                return Ok(());
            }
            drop(o);
            let handed: Result<(), E> = ready.into_iter().try_for_each(&mut *sink);
            o = lock();
            if let Err(e) = handed {
                o.stopped = true;
                moved.notify_all();
                return Err(e);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        let mut got = Vec::new();
        let work = |n: u64| {
            if n.is_multiple_of(100) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            n * 2
        };
        let sink = |n| {
            got.push(n);
            Ok::<(), ()>(())
        };
        in_order(0..20_000u64, |_| 10_000, work, sink).unwrap();
        assert!(got.iter().copied().eq((0..20_000u64).map(|n| n * 2)), "{} results", got.len());
    }

    #[test]
    fn an_error_of_the_sink_ends_it() {
        let mut left = 10;
        let result = in_order(
            0u64..,
            |_| 0,
            |n| n,
            |n| {
                left -= 1;
                if left == 0 { Err(n) } else { Ok(()) }
            },
        );
        assert_eq!(result, Err(9));
    }
}
