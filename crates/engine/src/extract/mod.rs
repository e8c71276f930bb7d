//! Files and trees of a pool into directories of somewhere else.
//!
//! # Theory
//!
//! [`Extract`] walks and decides; a [`Sink`] is a directory of the target and only carries out. So
//! two targets that are given the same tree get the same files, whatever they are: `hostfs` has
//! directories of this machine.
//!
//! Directories are made by one thread at a time, in the order in which they are found; files are
//! copied by all cores. A directory gets its attributes at the end, those deep down first: until
//! then it is closed to others, for what is in it may be as private as it is itself, and a time
//! would be changed by what is made in it later. Second names of files are made when all first
//! names are there (`links.rs`). Of a file come first its data without the holes, then its
//! attributes, of which the times are the last, and then its name: what has a name is whole.
//!
//! The pool is not trusted: a directory that is reached a second time is reported and not entered,
//! so a damaged tree cannot make a copy endless; of a name that a directory has twice the second is
//! refused; the type of a file is taken from the file, not from its directory entry. The target is
//! not trusted either: names that are equal there are detected by the file that they refer to.

mod attributes;
mod data;
mod failure;
mod file;
mod links;
mod names;
mod sink;
mod walk;

pub use data::{FileContent, volume};
pub use failure::Lost;
pub use names::escaped;
pub use sink::{
    Attribute, Found, Linked, Preserve, SetAttribute, Sink, TargetFile, Tree, kind_phrase,
};

use crate::{Cancelled, Hint, Progress};
use links::{FirstName, Links};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use walk::Walk;
use zpl::{FileKind, Filesystem, Node};

/// Callbacks of a copy. They may be called from any thread. Paths are those of the pool.
pub trait ExtractObserver: Sync {
    /// Whether the file was copied whole in an earlier run; asked for with [`Existing::Renew`] and
    /// others alike, of files that are there with their size.
    fn is_done(&self, path: &[u8], node: &Node) -> bool {
        let _ = (path, node);
        false
    }

    /// A range of a file cannot be read. True: go on without it. False: the file is not copied.
    fn lost(&self, path: &[u8], object: u64, lost: &Lost) -> bool {
        let _ = (path, object, lost);
        false
    }

    /// Something was not copied at all, or a directory not whole.
    fn failed(&self, path: &[u8], object: u64, why: &str);

    /// The same, of what another way of copying would do.
    fn refused(&self, path: &[u8], object: u64, why: &str, hint: &Hint) {
        let _ = hint;
        self.failed(path, object, why);
    }

    /// Something was copied under a name of its own, because no file can have its name.
    fn renamed(&self, path: &[u8], object: u64, name: &[u8]) {
        let _ = (path, object, name);
    }

    /// Something is lost, and this was taken instead.
    fn fallback(&self, path: &[u8], object: u64, what: &str) {
        let _ = (path, object, what);
    }

    /// An attribute could not be kept.
    fn not_kept(&self, path: &[u8], what: &str, why: &str) {
        let _ = (path, what, why);
    }

    /// A file is copied, with this many bytes lost.
    fn done(&self, path: &[u8], node: &Node, lost_bytes: u64) {
        let _ = (path, node, lost_bytes);
    }

    /// A volume is copied as an image.
    fn image_done(&self, name: &[u8], lost_bytes: u64) {
        let _ = (name, lost_bytes);
    }
}

/// How to treat a name that exists already. A directory is never replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave a whole copy as it is; anything else is a failure.
    Refuse,
    /// Replace any file; leave a link, pipe, socket or device that is the same, and replace others.
    Replace,
    /// Replace any regular file, unless the observer knows that it is done; links, pipes, sockets
    /// and devices only with `force`.
    Renew {
        /// Links, pipes, sockets and devices, too.
        force: bool,
    },
}

/// Copies from one file system.
///
/// Into memory, with the [`Sink`] of `tests/extract/memory.rs`:
///
/// ```
/// # mod memory {
/// #     include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/extract/memory.rs"));
/// # }
/// use engine::extract::{Extract, Preserve};
/// # use engine::files::{NewFile, NewKind, Time};
/// # use engine::Progress;
/// # use memory::{Handle, Memory, Reports};
/// # use std::sync::{Arc, Mutex};
///
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// # let now = Time { seconds: 1, nanos: 0 };
/// # let fs = pool.filesystem("tank")?;
/// let file = fs.create(fs.root_object(), b"letter", &NewFile::new(NewKind::File, 0o644, now))?;
/// fs.write_at(file.number(), 1 << 20, b"behind a hole", now)?;
///
/// let (progress, reports) = (Progress::new(), Reports::default());
/// let target = Arc::new(Mutex::new(Memory::default()));
/// let extract = Extract::new(&fs, Preserve::ALL, &progress, &reports);
/// extract.tree(&fs.root()?, Handle::top(&target), b"")?;
/// assert_eq!(reports.take(), ["letter: done, 0 lost"]);
/// assert!(target.lock().unwrap().at("letter").data.ends_with(b"behind a hole"));
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Extract<'a> {
    /// The file system.
    pub fs: &'a Filesystem,
    /// Which attributes are kept.
    pub keep: Preserve,
    /// The dataset has POSIX access lists.
    pub posix_acls: bool,
    /// How to treat names that exist.
    pub existing: Existing,
    /// Files with names that no file can have are copied under other names.
    pub renames: bool,
    /// Receives the progress; cancelling it stops the copy.
    pub progress: &'a Progress,
    /// Notified of what happens to each file.
    pub observer: &'a dyn ExtractObserver,
    /// Objects that were come across.
    seen: Mutex<HashSet<u64>>,
}

/// A directory that files are copied into.
struct Folder<S: Sink> {
    /// It, open.
    dir: Arc<S>,
    /// Its number in the tree.
    number: usize,
    /// Its path, for people.
    shown: Vec<u8>,
    /// The files that were made, or left as complete.
    made: MadeHere<S::Id>,
}

/// The files that a copy of a tree made or left as complete, with the numbers of the directories
/// they are in. All folders of the tree share it, so that none mistakes a file that was just copied
/// for an old one.
type MadeHere<I> = Arc<Mutex<HashSet<(usize, I)>>>;

/// A file to copy.
struct Task<S: Sink> {
    /// Where to.
    folder: Arc<Folder<S>>,
    /// Its name there.
    name: Vec<u8>,
    /// The object.
    object: u64,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    match (path, name) {
        ([], _) => name.to_vec(),
        (_, []) => path.to_vec(),
        _ => [path, b"/", name].concat(),
    }
}

impl<S: Sink> Folder<S> {
    fn new(dir: Arc<S>, number: usize, shown: Vec<u8>, made: &MadeHere<S::Id>) -> Self {
        Self { dir, number, shown, made: Arc::clone(made) }
    }

    /// Whether this file was made here, or left as whole.
    fn has_made(&self, file: S::Id) -> bool {
        lock(&self.made).contains(&(self.number, file))
    }

    /// Notes that this file was made here, or left as whole.
    fn note_made(&self, file: S::Id) {
        lock(&self.made).insert((self.number, file));
    }
}

impl<'a> Extract<'a> {
    /// One that has seen nothing yet.
    pub fn new(
        fs: &'a Filesystem,
        keep: Preserve,
        progress: &'a Progress,
        observer: &'a dyn ExtractObserver,
    ) -> Self {
        let (existing, seen) = (Existing::Refuse, Mutex::default());
        Self { fs, keep, posix_acls: false, existing, renames: false, progress, observer, seen }
    }

    /// Whether an object was come across.
    pub fn has_seen(&self, object: u64) -> bool {
        lock(&self.seen).contains(&object)
    }

    /// Notes that an object was come across; whether that is new.
    fn see(&self, object: u64) -> bool {
        lock(&self.seen).insert(object)
    }

    /// Copies what is in the directory `top`, and its attributes, into `into`. Paths in reports
    /// begin with `prefix`.
    ///
    /// # Errors
    /// It was cancelled. All other failures go to the observer.
    pub fn tree<S: Sink>(&self, top: &Node, into: Arc<S>, prefix: &[u8]) -> Result<(), Cancelled> {
        let links = Links::new();
        let mut walk = match Walk::new(self, top, into, prefix) {
            Ok(walk) => walk,
            Err(e) => {
                self.observer.failed(prefix, top.number(), &e.to_string());
                return Ok(());
            }
        };
        let rt = self.fs.rt();
        loop {
            rt.for_each_parallel(0, &mut walk, |task: Task<S>| {
                self.progress.check()?;
                self.file(&task, &links);
                Ok::<(), Cancelled>(())
            })?;
            self.progress.check()?;
            if !walk.add_pending(links.take_directories()) {
                break;
            }
        }
        let (mut tree, objects, made) = walk.into_parts();
        self.second_names::<S>(links, &mut tree, &made, prefix)?;
        self.directories(&mut tree, &objects, prefix)
    }

    /// Puts attributes on all directories, the last ones made first.
    fn directories<S: Sink>(
        &self,
        tree: &mut impl Tree<Sink = S>,
        objects: &[u64],
        prefix: &[u8],
    ) -> Result<(), Cancelled> {
        for (at, object) in objects.iter().enumerate().rev() {
            self.progress.check()?;
            let shown = join(prefix, &tree.path(at));
            match self.fs.node(*object) {
                Ok(node) => match tree.dir(at) {
                    Ok(dir) => self.set_attributes(&*dir, &node, &shown),
                    Err(e) => self.observer.not_kept(&shown, "attributes", &e.to_string()),
                },
                Err(e) => self.observer.not_kept(&shown, "attributes", &e.to_string()),
            }
        }
        Ok(())
    }

    fn file<S: Sink>(&self, task: &Task<S>, links: &Links<S::Id>) {
        let shown = join(&task.folder.shown, &task.name);
        let node = match self.fs.node(task.object) {
            Ok(node) => node,
            Err(e) => return self.observer.failed(&shown, task.object, &e.to_string()),
        };
        let (dir, name) = (task.folder.number, task.name.clone());
        if node.kind() == FileKind::Dir {
            return links.note_directory(dir, name, task.object);
        }
        if !self.see(task.object) {
            return links.note_later_name(dir, name, task.object);
        }
        let made = self.make(&node, &task.folder, &task.name, &shown);
        if let Some((id, name)) = made.filter(|_| node.links > 1) {
            links.note_first(task.object, FirstName { dir, name, id });
        }
    }
}
