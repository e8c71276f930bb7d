//! Everything of a pool that can still be read, copied into a directory, and a list of what cannot.
//!
//! A rescue goes on past every error: an unreadable block becomes zeros in the copy, an unreadable
//! directory loses its names but not its files, which are found by their objects and put into
//! `lost+found`. Every loss is a line in the log ([`log`]), by file, range and cause.
//!
//! Each dataset becomes a folder, named like it with `%` for `/`; a volume becomes an image with
//! `.img` behind its name.

pub mod log;

use crate::extract::{self, Copier, Existing, Sink};
use crate::{Dir, Keep, names};
use engine::files::{self, FileKind};
use engine::properties::has_posix_acls;
use engine::{Cancelled, Dataset, DatasetKind, Filesystem, Node, Objset, Pool, Progress, Volume};
use log::{LOG_NAME, Log};
use std::io;
use std::sync::atomic::Ordering;

/// Where files go whose directories are lost.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// What is rescued, where to, and how.
pub struct Rescue<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// The directory that all is copied into.
    pub dest: &'a Dir,
    /// Its log.
    pub log: &'a Log,
    /// Which attributes are kept.
    pub keep: Keep,
    /// Links, pipes, sockets and devices that are in the way are replaced, too.
    pub force: bool,
    /// Opens the object set of a dataset.
    pub open: &'a dyn Fn(&Dataset) -> engine::Result<Objset>,
    /// Is told how far it is, and says when to stop.
    pub progress: &'a Progress,
}

impl Rescue<'_> {
    /// Datasets by name: that of `top` and, with `all`, those below, and their snapshots if wanted.
    /// An empty name is that of the whole pool: also of what damage has cut off from the tree.
    pub fn datasets(&self, top: &str, all: bool, snapshots: bool) {
        let inside = |n: &str| n.strip_prefix(top).is_some_and(|r| r.starts_with('/'));
        for (name, dataset) in self.pool.dsl().datasets() {
            let (head, snapshot) = match name.split_once('@') {
                Some((head, _)) => (head, true),
                None => (name.as_str(), false),
            };
            if snapshot && !snapshots {
                continue;
            }
            if !(top.is_empty() || head == top || (all && inside(head))) {
                continue;
            }
            if self.progress.is_cancelled() {
                return;
            }
            match dataset {
                Ok(dataset) => self.dataset(&dataset),
                Err(e) => self.log.of(&name).failed(b"", 0, &e.to_string()),
            }
        }
    }

    /// One dataset or snapshot.
    pub fn dataset(&self, dataset: &Dataset) {
        let log = self.log.of(&dataset.name);
        if let Err(e) = self.try_dataset(dataset) {
            log.failed(b"", dataset.object, &e);
        }
    }

    fn try_dataset(&self, dataset: &Dataset) -> Result<(), String> {
        let text = |e: io::Error| e.to_string();
        let log = self.log.of(&dataset.name);
        if !self.pool.dsl().is_unlocked(dataset).unwrap_or(true) {
            return Err("encrypted, and its key is not loaded".to_owned());
        }
        let objset = (self.open)(dataset).map_err(|e| e.to_string())?;
        let folder = self.own_name(dataset.name.replace('/', "%").as_bytes());
        if self.pool.dsl().kind(dataset) == DatasetKind::Volume {
            let volume = Volume::open(&objset).map_err(|e| e.to_string())?;
            let name = [&folder[..], b".img"].concat();
            let there = self.dest.look(&name).map_err(text)?;
            if let Some(there) = there.filter(|there| !there.is_file()) {
                return Err(format!("{} is in the way", there.kind_name()));
            }
            let replaced = there.map(|there| there.identity);
            let lost = extract::volume(&volume, self.dest, &name, replaced, self.progress, &log);
            lost.map_err(|e| e.to_string())?;
            self.log.files.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let fs = Filesystem::open(objset).map_err(|e| e.to_string())?;
        let (into, _) = self.dest.subdir(&folder).map_err(text)?;
        let copier = self.copier(dataset, &fs, &log);
        let ended = match fs.root() {
            Ok(root) => copier.tree(&root, into.again().map_err(text)?, b""),
            Err(e) => {
                log.failed(b".", fs.root_object(), &e.to_string());
                Ok(())
            }
        };
        match ended {
            Ok(()) => self.nameless(&copier, &fs, &into, &log).map_err(text),
            // It is said once, of all.
            Err(Cancelled) => Ok(()),
        }
    }

    /// A name in the destination, where the log has its own.
    fn own_name(&self, name: &[u8]) -> Vec<u8> {
        match name == LOG_NAME.as_bytes() {
            true => [name, b"%"].concat(),
            false => name.to_vec(),
        }
    }

    fn copier<'a>(
        &'a self,
        dataset: &Dataset,
        fs: &'a Filesystem,
        log: &'a dyn Sink,
    ) -> Copier<'a> {
        let mut copier = Copier::new(fs, self.keep, self.progress, log);
        copier.existing = Existing::Renew { force: self.force };
        copier.escapes = true;
        copier.posix_acls = has_posix_acls(self.pool, dataset);
        copier
    }

    /// A file or directory of a dataset, with its path there; it gets this name.
    pub fn node(&self, dataset: &Dataset, fs: &Filesystem, node: &Node, name: &[u8], path: &[u8]) {
        let log = self.log.of(&dataset.name);
        let copier = self.copier(dataset, fs, &log);
        let mut name = self.own_name(name);
        if names::fault(&name).is_some() {
            name = names::escaped(&name);
            log.renamed(path, node.number(), &name);
        }
        let copied = match node.kind() {
            FileKind::Dir => self.dest.subdir(&name).map(|(into, _)| copier.tree(node, into, path)),
            _ => self.dest.again().map(|dir| {
                copier.one(node, dir, &name, path);
                Ok(())
            }),
        };
        if let Err(e) = copied {
            log.failed(path, node.number(), &e.to_string());
        }
    }

    /// Files that no directory names any more: their objects are still there.
    fn nameless(
        &self,
        copier: &Copier<'_>,
        fs: &Filesystem,
        into: &Dir,
        log: &dyn Sink,
    ) -> io::Result<()> {
        let known = |object| copier.has_seen(object);
        let mut failed = |object, why: &dyn std::fmt::Display| {
            log.failed(b".", object, &format!("objects are lost: {why}"));
        };
        // That it was told to stop is said once, of all.
        let Ok(lost) = files::orphans(fs, &known, self.progress, &mut failed) else {
            return Ok(());
        };
        if lost.is_empty() {
            return Ok(());
        }
        // The pool may have a directory of this name, with files of the same names.
        let folder = free_name(fs, LOST_AND_FOUND);
        let (place, _) = into.subdir(&folder)?;
        for node in &lost {
            if copier.has_seen(node.number()) {
                continue;
            }
            let name = format!("#{}", node.number()).into_bytes();
            let shown = [&folder, &b"/"[..], &name].concat();
            log.failed(&shown, node.number(), "no directory names it; found by its object");
            if node.kind() != FileKind::Dir {
                copier.one(node, place.again()?, &name, &shown);
            } else if copier.tree(node, place.subdir(&name)?.0, &shown).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A name that the root of a file system does not have.
fn free_name(fs: &Filesystem, wanted: &[u8]) -> Vec<u8> {
    let mut name = wanted.to_vec();
    let Ok(root) = fs.root() else { return name };
    while matches!(root.lookup(&name), Ok(Some(_))) {
        name.push(b'%');
    }
    name
}
