//! The way through a tree of a pool: directories are made, files are handed out.
//!
//! It goes down before it goes on, and remembers directories still to be read by the number of the
//! one above and their own name: neither deep nor wide trees take more memory than their names.

use super::tree::{Copier, Folder, Made, Task, join};
use crate::target::{Dir, Tree, names};
use engine::Node;
use engine::files::{DirEntry, FileKind};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

/// A directory still to be made and read.
pub struct Below {
    /// Number of the one above.
    pub above: usize,
    /// Its name.
    pub name: Vec<u8>,
    /// Its object.
    pub object: u64,
}

/// Finds directories and makes them; hands out files.
pub struct Walk<'w, 'a> {
    copier: &'w Copier<'a>,
    prefix: &'w [u8],
    tree: Tree,
    /// Objects of the directories of the tree.
    objects: Vec<u64>,
    made: Made,
    todo: Vec<Below>,
    ready: Vec<Task>,
}

impl<'w, 'a> Walk<'w, 'a> {
    /// Begins with what is in `top`.
    pub fn new(
        copier: &'w Copier<'a>,
        top: &Node,
        into: Dir,
        prefix: &'w [u8],
    ) -> io::Result<Self> {
        // The user chose this directory, and it may be another's: it is closed if that can be.
        let _ = into.close_for_others(top, copier.keep);
        let (tree, objects) = (Tree::new(into)?, vec![top.number()]);
        let (made, todo, ready) = (Made::default(), Vec::new(), Vec::new());
        let mut walk = Self { copier, prefix, tree, objects, made, todo, ready };
        match copier.see(top.number()) {
            true => walk.read(0, top)?,
            false => walk.failed(b"", top.number(), SECOND),
        }
        Ok(walk)
    }

    /// Goes on with directories found otherwise; false when there are none.
    pub fn go_on(&mut self, with: Vec<Below>) -> bool {
        self.todo.extend(with);
        !self.todo.is_empty()
    }

    /// The tree that was made, the objects of its directories, and what was made in them.
    pub fn into_parts(self) -> (Tree, Vec<u64>, Made) {
        (self.tree, self.objects, self.made)
    }

    fn shown(&self, at: usize) -> Vec<u8> {
        join(self.prefix, &self.tree.path(at))
    }

    fn failed(&self, path: &[u8], object: u64, why: &str) {
        self.copier.sink.failed(&join(self.prefix, path), object, why);
    }

    /// Makes a directory and reads what is in it.
    fn enter(&mut self, below: Below) {
        let Below { above, name, object } = below;
        let path = join(&self.tree.path(above), &name);
        let node = match self.copier.fs.node(object) {
            Ok(node) => node,
            Err(e) => return self.failed(&path, object, &e.to_string()),
        };
        let entered = match node.kind() {
            FileKind::Dir if !self.copier.see(object) => {
                return self.failed(&path, object, SECOND);
            }
            FileKind::Dir => self.make(above, &name, &node),
            // The directory it is in said otherwise.
            _ => self.tree.dir(above).map(|dir| {
                let folder = Arc::new(Folder::new(dir, above, self.shown(above), &self.made));
                self.ready.push(Task { folder, name, object });
            }),
        };
        if let Err(e) = entered {
            self.failed(&path, object, &e.to_string());
        }
    }

    fn make(&mut self, above: usize, name: &[u8], node: &Node) -> io::Result<()> {
        let (at, was_there) = match self.tree.make(above, name) {
            Err(e) if self.copier.escapes && names::is_refused(&e) => {
                let other = names::escaped(name);
                let made = self.tree.make(above, &other)?;
                let shown = join(&self.shown(above), name);
                self.copier.sink.renamed(&shown, node.number(), &other);
                made
            }
            other => other?,
        };
        self.objects.push(node.number());
        if was_there {
            self.tree.dir(at)?.close_for_others(node, self.copier.keep)?;
        }
        self.read(at, node)
    }

    fn read(&mut self, at: usize, node: &Node) -> io::Result<()> {
        let number = node.number();
        let folder = Folder::new(self.tree.dir(at)?, at, self.shown(at), &self.made);
        let folder = Arc::new(folder);
        let mut found = Vec::new();
        for entry in node.entries().map_err(io::Error::other)? {
            match entry {
                Ok(entry) => found.push(entry),
                Err(e) => {
                    let why = format!("entries of the directory are lost: {e}");
                    self.copier.sink.failed(&folder.shown, number, &why);
                }
            }
        }
        let mut names: HashSet<Vec<u8>> = HashSet::with_capacity(found.len());
        let (firsts, seconds): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|e| names.insert(e.name.clone()));
        for entry in seconds {
            let shown = join(&folder.shown, &entry.name);
            self.copier.sink.failed(&shown, entry.object, "the directory has this name twice");
        }
        firsts.into_iter().for_each(|entry| self.entry(&folder, entry, &mut names));
        Ok(())
    }

    fn entry(&mut self, folder: &Arc<Folder>, entry: DirEntry, names: &mut HashSet<Vec<u8>>) {
        /// The type of a directory, as an entry remembers it.
        const DIRECTORY: u8 = 4;
        let DirEntry { mut name, object, kind } = entry;
        if let Some(why) = names::fault(&name) {
            let shown = join(&folder.shown, &name);
            if !self.copier.escapes {
                let why = format!(
                    "no file can have this name here: {why}; zinc rescue gives it \
                                   another"
                );
                return self.copier.sink.failed(&shown, object, &why);
            }
            name = names::escaped(&name);
            while !names.insert(name.clone()) {
                name.push(b'%');
            }
            self.copier.sink.renamed(&shown, object, &name);
        }
        let opened = || self.copier.fs.node(object).is_ok_and(|n| n.kind() == FileKind::Dir);
        if kind == DIRECTORY || (kind == 0 && opened()) {
            return self.todo.push(Below { above: folder.spot, name, object });
        }
        self.ready.push(Task { folder: Arc::clone(folder), name, object });
    }
}

const SECOND: &str = "the directory has a second name; not entered";

impl Iterator for Walk<'_, '_> {
    type Item = Task;

    fn next(&mut self) -> Option<Task> {
        loop {
            if let Some(task) = self.ready.pop() {
                return Some(task);
            }
            // A long way without files must end, too.
            self.copier.progress.check().ok()?;
            let below = self.todo.pop()?;
            self.enter(below);
        }
    }
}
