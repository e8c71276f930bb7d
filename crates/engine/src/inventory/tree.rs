//! Everything in a file system, in the order of its names, found by one thread and described by
//! many.
//!
//! The walk goes down directory by directory without recursion: a stack holds the entries that come
//! next in every directory on the way. A directory that turns up twice is an error and not entered
//! again, so neither a loop nor a directory with many names can make the walk endless.
//!
//! A directory is stored in the order of hashes, and wanted in that of names. It is not kept as a
//! whole for that: one pass over it selects the [`NAMES_MAX`] next names, and when those are done
//! the next pass selects those behind them. So a directory with less names is read once, and one
//! with a million costs sixteen passes and the memory of a sixteenth. Above many large directories
//! the outer ones let go of what they have selected, and select again when the walk is back.
//!
//! Descriptions are made in any order and handed out in the order of the walk: each has a number,
//! and the walk waits when it is too far ahead of the oldest one missing.

use crate::error::{Error, ErrorKind};
use rt::Rt;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::sync::{Condvar, Mutex, PoisonError};
use zpl::{DirEntry, FileKind, Filesystem};

/// Directories within directories, at most: several times what `zinc cp` makes in one go (4096), so
/// that what it made can be walked wherever it was put. A path this deep has some 4 MiB.
const DEPTH_MAX: usize = 16 << 10;
/// Descriptions that may be waiting for an earlier one.
const WINDOW: u64 = 4096;
/// The same as bytes of their paths, each of which may be as long as some megabytes.
const WINDOW_BYTES: usize = 8 << 20;
/// Names of a directory that are selected by one pass over it.
const NAMES_MAX: usize = 64 << 10;
/// Names that all directories on the way keep; beyond it, only the innermost keeps its own.
const KEPT_MAX: usize = 4 * NAMES_MAX;
/// Bytes of paths of errors that are kept.
const ERRORS_BYTES: usize = 16 << 20;

/// A file that was found.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// Path from the root, without a slash in front; `.` for the root itself.
    pub path: Vec<u8>,
    /// The number of its object.
    pub object: u64,
}

/// An error during the walk, with its path.
#[derive(Debug)]
pub struct WalkError {
    /// The directory.
    pub path: Vec<u8>,
    /// Why it, or a part of it, is missing.
    pub error: Error,
}

/// The walk; see the head of the module. Errors do not end it.
///
/// ```
/// use engine::files::{NewFile, NewKind, Time};
/// use engine::inventory::tree::Walk;
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let fs = pool.filesystem("tank")?;
/// let new = |kind| NewFile::new(kind, 0o755, Time { seconds: 1, nanos: 0 });
/// let dir = fs.create(fs.root_object(), b"letters", &new(NewKind::Dir))?;
/// for name in ["b", "a"] {
///     fs.create(dir.number(), name.as_bytes(), &new(NewKind::File))?;
/// }
/// let mut walk = Walk::new(&fs, fs.root_object());
/// let paths: Vec<Vec<u8>> = walk.by_ref().map(|found| found.path).collect();
/// assert_eq!(paths, [&b"."[..], b"letters", b"letters/a", b"letters/b"]);
/// assert!(walk.into_errors().is_empty());
/// # Ok::<(), engine::Error>(())
/// ```
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
    /// [`NAMES_MAX`], and less in tests.
    names_max: usize,
    /// [`KEPT_MAX`], and less in tests.
    kept_max: usize,
    /// Names that are selected, in all directories on the way.
    kept: usize,
}

struct Level {
    /// Bytes of the path.
    path: usize,
    /// The directory.
    object: u64,
    /// Selected entries still to come, last first.
    todo: Vec<Name>,
    /// Where the next pass begins, when there may be more than `todo`.
    after: Option<Name>,
    /// The directory below that the walk is in.
    inside: Option<Name>,
}

/// An entry in the order of names. Two of one name, which a damaged directory may have, differ by
/// their objects.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    name: Vec<u8>,
    object: u64,
    kind: u8,
}

/// The `max` smallest of the entries behind `after`, last first, and whether there are more.
fn select(
    entries: impl Iterator<Item = Name>,
    after: Option<&Name>,
    max: usize,
) -> (Vec<Name>, bool) {
    let mut least = BinaryHeap::new();
    let mut more = false;
    for entry in entries.filter(|e| after.is_none_or(|after| e > after)) {
        if least.len() < max {
            least.push(entry);
        } else {
            more = true;
            if let Some(mut largest) = least.peek_mut().filter(|largest| entry < **largest) {
                *largest = entry;
            }
        }
    }
    let mut selected = least.into_sorted_vec();
    selected.reverse();
    (selected, more)
}

impl<'a> Walk<'a> {
    /// Starts at the directory `object`, whose path is shown as `.`.
    #[must_use]
    pub fn new(fs: &'a Filesystem, object: u64) -> Self {
        let (stack, path, entered, errors) = Default::default();
        let (names_max, kept_max) = (NAMES_MAX, KEPT_MAX);
        let (root, error_bytes, kept) = (Some(object), 0, 0);
        Self { fs, stack, path, root, entered, errors, error_bytes, names_max, kept_max, kept }
    }

    /// The errors so far.
    #[must_use]
    pub fn into_errors(self) -> Vec<WalkError> {
        self.errors
    }

    /// Keeps an error about the last entry, while there are not too many.
    fn fail(&mut self, error: impl Into<Error>) {
        let path = if self.path.is_empty() { b".".to_vec() } else { self.path.clone() };
        let before = self.error_bytes;
        self.error_bytes = before.saturating_add(path.len());
        if before >= ERRORS_BYTES {
            return;
        }
        self.errors.push(WalkError { path, error: error.into() });
        if self.error_bytes >= ERRORS_BYTES {
            let error =
                Error::new(ErrorKind::TooLarge).because("there are more errors than are kept");
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
            let deep = "directories nest deeper than is walked";
            return self.fail(Error::new(ErrorKind::TooLarge).because(deep));
        }
        let (todo, after) = self.next_names(object, None);
        self.kept += todo.len();
        let path = self.path.len();
        self.stack.push(Level { path, object, todo, after, inside: None });
        self.shed();
    }

    /// Selects the names of a directory behind `after`; also the last of them, when there are more.
    /// Errors are kept by the first pass alone: each meets the same.
    fn next_names(&mut self, object: u64, after: Option<&Name>) -> (Vec<Name>, Option<Name>) {
        let node = self.fs.node(object);
        let entries = match node.as_ref().map_err(Clone::clone).and_then(zpl::Node::entries) {
            Ok(entries) => entries,
            Err(e) => {
                self.fail(e);
                return (Vec::new(), None);
            }
        };
        let mut failed = Vec::new();
        let (todo, more) = {
            let names = entries.filter_map(|entry| match entry {
                Ok(DirEntry { name, object, kind }) => Some(Name { name, object, kind }),
                Err(e) => {
                    failed.push(e);
                    None
                }
            });
            select(names, after, self.names_max)
        };
        if after.is_none() {
            failed.into_iter().for_each(|e| self.fail(e));
        }
        let last = todo.first().filter(|_| more).cloned();
        (todo, last)
    }

    /// Lets the outer directories forget what they have selected, when all have too much.
    fn shed(&mut self) {
        if self.kept <= self.kept_max {
            return;
        }
        let Some((inner, outer)) = self.stack.split_last_mut() else { return };
        for level in outer {
            if !std::mem::take(&mut level.todo).is_empty() {
                level.after = level.inside.take();
            }
        }
        self.kept = inner.todo.len();
    }

    fn is_directory(&self, entry: &Name) -> bool {
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
    type Item = FoundFile;

    fn next(&mut self) -> Option<FoundFile> {
        if let Some(object) = self.root.take() {
            self.enter(object);
            return Some(FoundFile { path: b".".to_vec(), object });
        }
        loop {
            let level = self.stack.last_mut()?;
            self.path.truncate(level.path);
            let Some(entry) = level.todo.pop() else {
                let Some(after) = level.after.take() else {
                    self.stack.pop();
                    continue;
                };
                let object = level.object;
                let (todo, after) = self.next_names(object, Some(&after));
                self.kept += todo.len();
                if let Some(level) = self.stack.last_mut() {
                    (level.todo, level.after) = (todo, after);
                }
                continue;
            };
            self.kept -= 1;
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&entry.name);
            let object = entry.object;
            if self.is_directory(&entry) {
                if let Some(level) = self.stack.last_mut() {
                    level.inside = Some(entry);
                }
                self.enter(object);
            }
            return Some(FoundFile { path: self.path.clone(), object });
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
    /// The rest is not needed.
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

/// Calls `work` on every item, on all cores of `rt`, and `sink` on the results in the order of the
/// items, one at a time. The first error of `sink` ends it. `weigh` returns how many bytes an item
/// and its result take, which limits how much is in flight.
pub fn in_order<I, T, E>(
    rt: &Rt,
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
    rt.for_each_parallel(0, numbered, |(n, item)| {
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
    use crate::NewPool;
    use crate::files::{NewFile, NewKind, Time};

    fn names(seed: u64, count: usize) -> Vec<Name> {
        let mut state = seed;
        let mut name = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            Name { name: format!("{}", state >> 54).into_bytes(), object: state >> 62, kind: 8 }
        };
        (0..count).map(&mut name).collect()
    }

    #[test]
    fn passes_select_every_name_once_and_in_order() {
        for (seed, count) in [(1, 0), (2, 1), (3, 10), (4, 700)] {
            let all = names(seed, count);
            let mut sorted = all.clone();
            sorted.sort();
            sorted.dedup();
            for max in [1, 3, 7, 1000] {
                let (mut got, mut after) = (Vec::new(), None);
                loop {
                    let distinct = sorted.iter().cloned();
                    let (mut todo, more) = select(distinct, after.as_ref(), max);
                    assert!(todo.len() <= max);
                    after = todo.first().cloned();
                    todo.reverse();
                    got.append(&mut todo);
                    if !more {
                        break;
                    }
                }
                assert!(got == sorted, "{count} names, {max} at a time");
            }
        }
    }

    /// Three directories within another, each with a directory and files.
    #[test]
    fn a_walk_in_several_passes_finds_what_one_pass_finds() {
        let pool = NewPool::new("tank").memory(128 << 20).create().unwrap();
        let fs = pool.filesystem("tank").unwrap();
        let now = Time { seconds: 1, nanos: 0 };
        let (file, dir) =
            (NewFile::new(NewKind::File, 0o644, now), NewFile::new(NewKind::Dir, 0o755, now));
        let mut parents = vec![fs.root_object()];
        for _ in 0..3 {
            for parent in std::mem::take(&mut parents) {
                for n in 0..8 {
                    fs.create(parent, format!("file{n}").as_bytes(), &file).unwrap();
                }
                for name in ["e", "g", "z"] {
                    let made = fs.create(parent, name.as_bytes(), &dir).unwrap();
                    parents.push(made.number());
                }
            }
        }
        pool.sync().unwrap();
        let view = pool.view().filesystem("tank").unwrap();
        let walk = |names_max, kept_max| {
            let start = Walk::new(&view, view.root_object());
            let mut walk = Walk { names_max, kept_max, ..start };
            let found: Vec<_> = walk.by_ref().map(|f| (f.path, f.object)).collect();
            assert!(walk.into_errors().is_empty());
            found
        };
        let whole = walk(NAMES_MAX, KEPT_MAX);
        assert_eq!(whole.len(), 1 + 13 * 11);
        for (names_max, kept_max) in [(1, 1), (2, 3), (3, 100), (5, 9), (100, 4), (100, 20)] {
            assert_eq!(walk(names_max, kept_max), whole, "{names_max}, {kept_max}");
        }
    }

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
        in_order(&Rt::real(), 0..20_000u64, |_| 10_000, work, sink).unwrap();
        assert!(got.iter().copied().eq((0..20_000u64).map(|n| n * 2)), "{} results", got.len());
    }

    #[test]
    fn an_error_of_the_sink_ends_it() {
        let mut left = 10;
        let result = in_order(
            &Rt::real(),
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
