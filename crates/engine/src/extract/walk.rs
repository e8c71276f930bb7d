//! The way through a tree of a pool: directories are made, files are handed out.
//!
//! One directory is read at a time, page by page, and its files are handed out as they are found.
//! Directories found in it wait until it is read, by the number of the one above and their own
//! name. So what is kept is a page of entries, a fingerprint of each name of the directory that is
//! being read, and the names of directories to come: neither deep nor wide trees take more.

use super::names::escaped;
use super::{Extract, Folder, MadeHere, Sink, Task, Tree as _, join};
use crate::Hint;
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use zpl::names::{LONGEST, fault};
use zpl::{DirCursor, DirEntry, FileKind, Node};

/// Entries read at once.
const PAGE: usize = 1024;

/// A directory still to be made and read.
pub(super) struct PendingDir {
    /// Number of the one above.
    pub(super) above: usize,
    /// Its name.
    pub(super) name: Vec<u8>,
    /// Its object.
    pub(super) object: u64,
}

/// The directory that is being read.
struct Reading<S: Sink> {
    node: Node,
    folder: Arc<Folder<S>>,
    /// Where the next page begins.
    next: Option<DirCursor>,
    ready: std::vec::IntoIter<DirEntry>,
    /// Names that were met. No other name has the fingerprint of one of them.
    met: HashSet<[u8; 16]>,
    /// Entries that get another name, when all names that stay are known.
    renamed: Vec<DirEntry>,
}

impl<S: Sink> Reading<S> {
    /// Notes a name; whether it is new.
    fn meet(&mut self, name: &[u8]) -> bool {
        let sum = Sha256::digest(name);
        self.met.insert(sum.first_chunk().copied().unwrap_or_default())
    }
}

/// Finds directories and makes them; hands out files.
pub(super) struct Walk<'w, 'a, S: Sink> {
    extract: &'w Extract<'a>,
    prefix: &'w [u8],
    tree: S::Tree,
    /// Objects of the directories of the tree.
    objects: Vec<u64>,
    made: MadeHere<S::Id>,
    todo: Vec<PendingDir>,
    reading: Option<Reading<S>>,
}

impl<'w, 'a, S: Sink> Walk<'w, 'a, S> {
    /// Begins with what is in `top`.
    pub(super) fn new(
        extract: &'w Extract<'a>,
        top: &Node,
        into: Arc<S>,
        prefix: &'w [u8],
    ) -> io::Result<Self> {
        // The user chose this directory, and it may be another's: it is closed if that can be.
        let _ = into.close(top, extract.keep);
        let (tree, objects) = (S::tree(into)?, vec![top.number()]);
        let (made, todo, reading) = (MadeHere::default(), Vec::new(), None);
        let mut walk = Self { extract, prefix, tree, objects, made, todo, reading };
        match extract.see(top.number()) {
            true => walk.read(0, top.clone())?,
            false => walk.failed(b"", top.number(), SECOND),
        }
        Ok(walk)
    }

    /// Goes on with directories found otherwise; false when there are none.
    pub(super) fn add_pending(&mut self, with: Vec<PendingDir>) -> bool {
        self.todo.extend(with);
        !self.todo.is_empty()
    }

    /// The tree that was made, the objects of its directories, and what was made in them.
    pub(super) fn into_parts(self) -> (S::Tree, Vec<u64>, MadeHere<S::Id>) {
        (self.tree, self.objects, self.made)
    }

    fn shown(&self, at: usize) -> Vec<u8> {
        join(self.prefix, &self.tree.path(at))
    }

    fn failed(&self, path: &[u8], object: u64, why: &str) {
        self.extract.observer.failed(&join(self.prefix, path), object, why);
    }

    /// Makes a directory and begins to read it. If it turns out to be a file, it is returned as a
    /// task.
    fn enter(&mut self, below: PendingDir) -> Option<Task<S>> {
        let PendingDir { above, name, object } = below;
        let path = join(&self.tree.path(above), &name);
        let node = match self.extract.fs.node(object) {
            Ok(node) => node,
            Err(e) => {
                self.failed(&path, object, &e.to_string());
                return None;
            }
        };
        let entered = match node.kind() {
            FileKind::Dir if !self.extract.see(object) => {
                self.failed(&path, object, SECOND);
                Ok(None)
            }
            FileKind::Dir => self.make(above, &name, node).map(|()| None),
            // The directory it is in said otherwise.
            _ => self.tree.dir(above).map(|dir| {
                let folder = Arc::new(Folder::new(dir, above, self.shown(above), &self.made));
                Some(Task { folder, name, object })
            }),
        };
        entered.unwrap_or_else(|e| {
            self.failed(&path, object, &e.to_string());
            None
        })
    }

    fn make(&mut self, above: usize, name: &[u8], node: Node) -> io::Result<()> {
        let (at, was_there) = match self.tree.make(above, name) {
            Err(e) if self.extract.renames && S::refuses_name(&e) => {
                let other = escaped(name);
                let made = self.tree.make(above, &other)?;
                let shown = join(&self.shown(above), name);
                self.extract.observer.renamed(&shown, node.number(), &other);
                made
            }
            other => other?,
        };
        self.objects.push(node.number());
        if was_there {
            self.tree.dir(at)?.close(&node, self.extract.keep)?;
        }
        self.read(at, node)
    }

    fn read(&mut self, at: usize, node: Node) -> io::Result<()> {
        let folder = Folder::new(self.tree.dir(at)?, at, self.shown(at), &self.made);
        let mut reading = Reading {
            node,
            folder: Arc::new(folder),
            next: Some(DirCursor::default()),
            ready: Vec::new().into_iter(),
            met: HashSet::new(),
            renamed: Vec::new(),
        };
        // One that cannot be read at all is not a directory to go on with.
        self.page(&mut reading).map_err(io::Error::other)?;
        self.reading = Some(reading);
        Ok(())
    }

    /// Reads the next page; false when there is none.
    fn page(&self, reading: &mut Reading<S>) -> zpl::Result<bool> {
        let Some(from) = reading.next.take() else { return Ok(false) };
        let page = reading.node.read_dir(from, PAGE)?;
        reading.next = page.next;
        let mut found = Vec::with_capacity(page.entries.len());
        for entry in page.entries {
            match entry {
                Ok(entry) => found.push(entry),
                Err(e) => self.lost(reading, &e),
            }
        }
        reading.ready = found.into_iter();
        Ok(true)
    }

    fn lost(&self, reading: &Reading<S>, why: &dyn std::fmt::Display) {
        let why = format!("entries of the directory are lost: {why}");
        self.extract.observer.failed(&reading.folder.shown, reading.node.number(), &why);
    }

    /// The next file of the directory that is being read.
    fn step(&mut self, reading: &mut Reading<S>) -> Option<Task<S>> {
        loop {
            while let Some(entry) = reading.ready.next() {
                let task = self.entry(reading, entry);
                if task.is_some() {
                    return task;
                }
            }
            // A long way without files must end, too.
            self.extract.progress.check().ok()?;
            match self.page(reading) {
                Ok(true) => {}
                Ok(false) => {
                    let entry = reading.renamed.pop()?;
                    let task = self.rename(reading, entry);
                    if task.is_some() {
                        return task;
                    }
                }
                Err(e) => self.lost(reading, &e),
            }
        }
    }

    /// Takes an entry: a file is handed out, a directory is noted.
    fn entry(&mut self, reading: &mut Reading<S>, entry: DirEntry) -> Option<Task<S>> {
        let shown = || join(&reading.folder.shown, &entry.name);
        if let Some(why) = fault(&entry.name, LONGEST) {
            if self.extract.renames {
                reading.renamed.push(entry);
                return None;
            }
            let why = format!("no file here can have this name: {why}");
            self.extract.observer.refused(&shown(), entry.object, &why, &Hint::CopyRenamed);
            return None;
        }
        if !reading.meet(&entry.name) {
            let shown = join(&reading.folder.shown, &entry.name);
            self.extract.observer.failed(&shown, entry.object, "the directory has this name twice");
            return None;
        }
        self.found(&reading.folder, entry)
    }

    /// Takes an entry whose name no file can have, under a name that no other has.
    fn rename(&mut self, reading: &mut Reading<S>, mut entry: DirEntry) -> Option<Task<S>> {
        let shown = join(&reading.folder.shown, &entry.name);
        entry.name = escaped(&entry.name);
        while !reading.meet(&entry.name) {
            entry.name.push(b'%');
        }
        self.extract.observer.renamed(&shown, entry.object, &entry.name);
        self.found(&reading.folder, entry)
    }

    fn found(&mut self, folder: &Arc<Folder<S>>, entry: DirEntry) -> Option<Task<S>> {
        /// The type of a directory, as an entry remembers it.
        const DIRECTORY: u8 = 4;
        let DirEntry { name, object, kind } = entry;
        let opened = || self.extract.fs.node(object).is_ok_and(|n| n.kind() == FileKind::Dir);
        if kind == DIRECTORY || (kind == 0 && opened()) {
            self.todo.push(PendingDir { above: folder.number, name, object });
            return None;
        }
        Some(Task { folder: Arc::clone(folder), name, object })
    }
}

const SECOND: &str = "the directory has a second name; not entered";

impl<S: Sink> Iterator for Walk<'_, '_, S> {
    type Item = Task<S>;

    fn next(&mut self) -> Option<Task<S>> {
        loop {
            if let Some(mut reading) = self.reading.take()
                && let Some(task) = self.step(&mut reading)
            {
                self.reading = Some(reading);
                return Some(task);
            }
            self.extract.progress.check().ok()?;
            let below = self.todo.pop()?;
            if let Some(task) = self.enter(below) {
                return Some(task);
            }
        }
    }
}
