//! Files and trees of a pool into a local directory; what both `cp` and `rescue` do.
//!
//! Directories are made by one thread, in the order in which they are found; files are copied by
//! all cores. A directory gets its attributes at the end, those deep down first: a time would
//! be changed by what is made in it later, and a mode could forbid it. Second names of files are
//! made when all first names are there.
//!
//! A directory that is reached a second time is reported and not entered, so a damaged tree
//! cannot make a copy endless.

use super::data::{self, CopyError, Lost};
use super::local::{Keep, LocalDir, Xattrs, is_copy};
use crate::asked;
use engine::rt::{Progress, for_each_parallel};
use engine::zpl::{DirEntry, FileKind, Node};
use engine::{Filesystem, Volume};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Is told what happens. All calls may come from any thread.
pub trait Sink: Sync {
    /// Whether the file was copied whole in an earlier run.
    fn is_done(&self, path: &[u8], node: &Node) -> bool;
    /// A range of a file cannot be read. True: go on without it.
    fn lost(&self, path: &[u8], object: u64, lost: &Lost) -> bool;
    /// Something was not copied at all, or a directory not whole.
    fn failed(&self, path: &[u8], object: u64, why: &str);
    /// An attribute could not be kept.
    fn not_kept(&self, path: &[u8], what: &str, why: &str);
    /// A file is copied, with so many bytes lost.
    fn done(&self, path: &[u8], node: &Node, lost_bytes: u64);
}

/// What to do with a name that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave a whole copy as it is; anything else is a failure.
    Refuse,
    /// Leave a whole copy as it is, replace any other file.
    Replace,
    /// Replace any file, unless the sink says it is done.
    Renew,
}

/// Copies from one file system.
pub struct Copier<'a> {
    /// The file system.
    pub fs: &'a Filesystem,
    /// Which attributes are kept.
    pub keep: Keep,
    /// The dataset has POSIX access lists.
    pub posix_acls: bool,
    /// What to do with names that are there.
    pub existing: Existing,
    /// Is told how far it is, and says when to stop.
    pub progress: &'a Progress,
    /// Is told what happens.
    pub sink: &'a dyn Sink,
    /// Objects that were come across.
    seen: Mutex<HashSet<u64>>,
}

/// A file to copy.
struct Task {
    dir: Arc<LocalDir>,
    name: Vec<u8>,
    path: Vec<u8>,
    object: u64,
}

/// Second names of files, by object.
#[derive(Default)]
struct Links {
    /// Path of the first name.
    first: HashMap<u64, Vec<u8>>,
    later: Vec<(u64, Vec<u8>)>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of a path.
pub fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|b| *b == b'/').filter(|n| !n.is_empty())
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

impl<'a> Copier<'a> {
    /// One that has seen nothing yet.
    pub fn new(fs: &'a Filesystem, progress: &'a Progress, sink: &'a dyn Sink) -> Self {
        let keep = Keep { owner: false, xattrs: true };
        let existing = Existing::Refuse;
        Self { fs, keep, posix_acls: false, existing, progress, sink, seen: Mutex::default() }
    }

    /// Whether an object was come across.
    pub fn has_seen(&self, object: u64) -> bool {
        lock(&self.seen).contains(&object)
    }

    /// Copies what is in the directory `top`, and its attributes, into `into`. Paths in reports
    /// begin with `prefix`.
    pub fn tree(&self, top: &Node, into: &LocalDir, prefix: &[u8]) {
        let links = Mutex::new(Links::default());
        let mut walk = Walk {
            copier: self,
            into,
            prefix,
            todo: vec![(Vec::new(), top.number())],
            ready: Vec::new(),
            dressed: Vec::new(),
        };
        let client = asked::client();
        let copied = for_each_parallel(0, &mut walk, |task: Task| {
            self.progress.check()?;
            asked::inherit(client.as_ref(), || self.file(&task, prefix, &links));
            Ok::<(), engine::rt::Cancelled>(())
        });
        if copied.is_err() {
            return;
        }
        self.second_names(&links, into, prefix);
        let dressed = std::mem::take(&mut walk.dressed);
        for (path, object) in dressed.into_iter().rev() {
            let shown = join(prefix, &path);
            let result = self.fs.node(object).map_err(|e| e.to_string()).and_then(|node| {
                let dir = into.descend(names(&path)).map_err(|e| e.to_string())?;
                let xattrs = self.xattrs(&node, &shown);
                for r in dir.dress_self(&node, self.keep, &xattrs) {
                    self.sink.not_kept(&shown, &r.what, &r.error.to_string());
                }
                Ok(())
            });
            if let Err(e) = result {
                self.sink.not_kept(&shown, "attributes", &e);
            }
        }
    }

    fn second_names(&self, links: &Mutex<Links>, into: &LocalDir, prefix: &[u8]) {
        let links = std::mem::take(&mut *lock(links));
        for (object, path) in links.later {
            let Some(first) = links.first.get(&object) else { continue };
            let result = split(&path).zip(split(first)).map(|((dir, name), (old_dir, old))| {
                let old_dir = into.descend(names(old_dir))?;
                let dir = into.descend(names(dir))?;
                if let Some(there) = dir.look(name)? {
                    let same = old_dir.look(old)?.is_some_and(|o| {
                        use std::os::unix::fs::MetadataExt as _;
                        (o.dev(), o.ino()) == (there.dev(), there.ino())
                    });
                    if same {
                        return Ok(());
                    }
                    self.make_room(&dir, name, false)?;
                }
                dir.hard_link(name, &old_dir, old)
            });
            let shown = join(prefix, &path);
            match result {
                Some(Ok(())) => self.progress.add(1, 0),
                Some(Err(e)) => self.sink.failed(&shown, object, &e.to_string()),
                None => self.sink.failed(&shown, object, "no name"),
            }
        }
    }

    fn file(&self, task: &Task, prefix: &[u8], links: &Mutex<Links>) {
        let shown = join(prefix, &task.path);
        let node = match self.fs.node(task.object) {
            Ok(node) => node,
            Err(e) => return self.sink.failed(&shown, task.object, &e.to_string()),
        };
        if node.links > 1 && node.kind() != FileKind::Dir {
            let mut links = lock(links);
            if links.first.contains_key(&task.object) {
                links.later.push((task.object, task.path.clone()));
                return;
            }
            links.first.insert(task.object, task.path.clone());
        }
        self.one(&node, &task.dir, &task.name, &shown);
    }

    /// Copies one file that is no directory.
    pub fn one(&self, node: &Node, dir: &LocalDir, name: &[u8], shown: &[u8]) {
        lock(&self.seen).insert(node.number());
        let result = match node.kind() {
            FileKind::File => self.regular(node, dir, name, shown),
            _ => self.other(node, dir, name, shown).map(|()| Some(0)).map_err(CopyError::Io),
        };
        self.progress.add(1, 0);
        match result {
            Ok(Some(lost)) => self.sink.done(shown, node, lost),
            Ok(None) => {}
            Err(CopyError::Cancelled) => {}
            Err(e) => self.sink.failed(shown, node.number(), &e.to_string()),
        }
    }

    /// Makes a name free, as far as that is wanted; `whole`: what is there is a whole copy. True
    /// when there is nothing to do any more.
    fn make_room(&self, dir: &LocalDir, name: &[u8], whole: bool) -> io::Result<bool> {
        let Some(there) = dir.look(name)? else { return Ok(false) };
        let exists = |text: &str| io::Error::new(io::ErrorKind::AlreadyExists, text.to_owned());
        match self.existing {
            Existing::Refuse | Existing::Replace if whole => Ok(true),
            Existing::Refuse => Err(exists("exists and is different; --force replaces it")),
            _ if there.is_dir() => Err(exists("a directory is in the way")),
            _ => dir.remove(name).map(|()| false),
        }
    }

    fn regular(
        &self,
        node: &Node,
        dir: &LocalDir,
        name: &[u8],
        shown: &[u8],
    ) -> Result<Option<u64>, CopyError> {
        let there = dir.look(name)?;
        if there.as_ref().is_some_and(|m| m.len() == node.size) && self.sink.is_done(shown, node) {
            return Ok(None);
        }
        let whole = there.is_some_and(|m| is_copy(&m, node));
        if self.make_room(dir, name, whole)? {
            return Ok(None);
        }
        let out = dir.begin(node.number())?;
        let mut lost_bytes = 0u64;
        let mut lost = |l: Lost| {
            lost_bytes = lost_bytes.saturating_add(l.length);
            match self.sink.lost(shown, node.number(), &l) {
                true => Ok(()),
                false => Err(CopyError::Lost(l)),
            }
        };
        let copied = data::copy(node.object(), node.size, &out.file, self.progress, &mut lost);
        if let Err(e) = copied {
            out.abandon();
            return Err(e);
        }
        for r in out.dress(node, self.keep, &self.xattrs(node, shown)) {
            self.sink.not_kept(shown, &r.what, &r.error.to_string());
        }
        out.finish(name)?;
        Ok(Some(lost_bytes))
    }

    /// Links, pipes, sockets and devices.
    fn other(&self, node: &Node, dir: &LocalDir, name: &[u8], shown: &[u8]) -> io::Result<()> {
        let target = match node.kind() {
            FileKind::Symlink => Some(node.read_link().map_err(io::Error::other)?),
            FileKind::Unknown => return Err(io::Error::other("a file of no known type")),
            _ => None,
        };
        // These are made in no time: there is nothing to be whole or not.
        if dir.look(name)?.is_some_and(|m| !m.is_dir() && !m.is_file()) {
            dir.remove(name)?;
        }
        self.make_room(dir, name, false)?;
        match target {
            Some(target) => dir.symlink(name, &target)?,
            None => {
                if let Err(e) = dir.special(name, node) {
                    // Only root makes devices; what they were is said, so nothing is lost.
                    let (major, minor) = node.device();
                    let kind = engine::inventory::kind_name(node.kind());
                    let what = match node.kind() {
                        FileKind::Block | FileKind::Char => {
                            format!("{kind} device {major}:{minor}")
                        }
                        _ => kind.to_owned(),
                    };
                    self.sink.not_kept(shown, &what, &e.to_string());
                    return Ok(());
                }
            }
        }
        for r in dir.dress(name, node, self.keep, &self.xattrs(node, shown)) {
            self.sink.not_kept(shown, &r.what, &r.error.to_string());
        }
        Ok(())
    }

    fn xattrs(&self, node: &Node, shown: &[u8]) -> Xattrs {
        if !self.keep.xattrs {
            return Xattrs::new();
        }
        node.linux_xattrs(self.posix_acls).unwrap_or_else(|e| {
            self.sink.not_kept(shown, "extended attributes", &e.to_string());
            Xattrs::new()
        })
    }
}

/// Directory and last name of a path.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = names(path).next_back()?;
    Some((&path[..path.len() - name.len()], name))
}

/// Finds directories and makes them; hands out files.
struct Walk<'w, 'a> {
    copier: &'w Copier<'a>,
    into: &'w LocalDir,
    prefix: &'w [u8],
    /// Directories that exist in the target and are still to be read.
    todo: Vec<(Vec<u8>, u64)>,
    ready: Vec<Task>,
    /// Directories that were read, whose attributes are still to be kept.
    dressed: Vec<(Vec<u8>, u64)>,
}

impl Walk<'_, '_> {
    fn failed(&self, path: &[u8], object: u64, why: &str) {
        self.copier.sink.failed(&join(self.prefix, path), object, why);
    }

    fn read(&mut self, path: Vec<u8>, object: u64) {
        if !lock(&self.copier.seen).insert(object) {
            return self.failed(&path, object, "the directory has a second name; not entered");
        }
        let node = self.copier.fs.node(object);
        let entries = match node.and_then(|n| n.entries()) {
            Ok(entries) => entries,
            Err(e) => return self.failed(&path, object, &e.to_string()),
        };
        let dir = match self.into.descend(names(&path)) {
            Ok(dir) => Arc::new(dir),
            Err(e) => return self.failed(&path, object, &e.to_string()),
        };
        for entry in entries {
            match entry {
                Ok(entry) => self.entry(&path, &dir, entry),
                Err(e) => {
                    self.failed(&path, object, &format!("entries of the directory are lost: {e}"));
                }
            }
        }
        self.dressed.push((path, object));
    }

    fn entry(&mut self, path: &[u8], dir: &Arc<LocalDir>, entry: DirEntry) {
        let below = join(path, &entry.name);
        if self.is_directory(&entry) {
            match dir.subdir(&entry.name) {
                Ok(_) => self.todo.push((below, entry.object)),
                Err(e) => self.failed(&below, entry.object, &e.to_string()),
            }
            return;
        }
        let (dir, name, object) = (Arc::clone(dir), entry.name, entry.object);
        self.ready.push(Task { dir, name, path: below, object });
    }

    fn is_directory(&self, entry: &DirEntry) -> bool {
        const DIRECTORY: u8 = 4;
        let opened = || self.copier.fs.node(entry.object).is_ok_and(|n| n.kind() == FileKind::Dir);
        entry.kind == DIRECTORY || (entry.kind == 0 && opened())
    }
}

impl Iterator for Walk<'_, '_> {
    type Item = Task;

    fn next(&mut self) -> Option<Task> {
        loop {
            if let Some(task) = self.ready.pop() {
                return Some(task);
            }
            let (path, object) = self.todo.pop()?;
            self.read(path, object);
        }
    }
}

/// Copies a volume as a sparse image; the bytes lost.
pub fn volume(
    volume: &Volume,
    dir: &LocalDir,
    name: &[u8],
    progress: &Progress,
    sink: &dyn Sink,
) -> Result<u64, CopyError> {
    let object = volume.object();
    let out = dir.begin(object.objset().id())?;
    let mut lost_bytes = 0u64;
    let mut lost = |l: Lost| {
        lost_bytes = lost_bytes.saturating_add(l.length);
        match sink.lost(name, object.number(), &l) {
            true => Ok(()),
            false => Err(CopyError::Lost(l)),
        }
    };
    match data::copy(object, volume.size(), &out.file, progress, &mut lost) {
        Ok(()) => out.finish(name)?,
        Err(e) => {
            out.abandon();
            return Err(e);
        }
    }
    progress.add(1, 0);
    Ok(lost_bytes)
}
