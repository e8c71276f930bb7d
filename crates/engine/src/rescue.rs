//! Everything of a pool that can still be read, copied into a [`Sink`].
//!
//! A rescue continues past every error: an unreadable block becomes zeros in the copy, an
//! unreadable directory loses its names but not its files, which are found by their objects and put
//! into `lost+found`. Every loss is reported to an observer, by file, range and cause. Where tables
//! are lost that all files are found by, what they said is found otherwise, and that is reported.
//!
//! Each dataset becomes a directory, named like it with `%` for `/`; a volume becomes an image with
//! `.img` behind its name, and a `%` behind that if a file system has that very name.

use crate::extract::{
    self, Existing, Extract, ExtractObserver, Preserve, Sink, escaped, kind_phrase,
};
use crate::orphans::orphans;
use crate::properties::has_posix_acls;
use crate::{Cancelled, Progress};
use dmu::Objset;
use dsl::{Dataset, DatasetKind};
use pool::Pool;
use std::io;
use std::sync::Arc;
use zpl::names::{LONGEST, fault};
use zpl::{FileKind, Filesystem, Node, Volume};

/// Where files go whose directories are lost.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// A rescue: its source, its target, and its options.
///
/// Into memory, with the [`Sink`] of `tests/extract/memory.rs`:
///
/// ```
/// # mod memory {
/// #     include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/extract/memory.rs"));
/// # }
/// use engine::extract::Preserve;
/// use engine::rescue::Rescue;
/// use engine::{OpenOptions, Pool};
/// # use engine::files::{NewFile, NewKind, Time};
/// # use engine::Progress;
/// # use memory::{Handle, Memory, Reports};
/// # use std::sync::{Arc, Mutex};
///
/// # let folder = tempfile::tempdir()?;
/// # let image = folder.path().join("tank.img");
/// # let made = engine::NewPool::new("tank").file(&image, 64 << 20)?.create()?;
/// # let now = Time { seconds: 1, nanos: 0 };
/// # let fs = made.filesystem("tank")?;
/// # let file = fs.create(fs.root_object(), b"letter", &NewFile::new(NewKind::File, 0o644, now))?;
/// # fs.write_at(file.number(), 0, b"still here", now)?;
/// # drop(fs);
/// # made.export()?;
/// let pool = Pool::open("tank", &OpenOptions::in_places([&image]))?;
/// let (progress, reports) = (Progress::new(), Reports::default());
/// let target = Arc::new(Mutex::new(Memory::default()));
/// let rescue = Rescue {
///     pool: &pool,
///     dest: &Handle::top(&target),
///     reserved: b"rescue.log",
///     observer: &|_dataset| Box::new(reports.clone()),
///     keep: Preserve::ALL,
///     force: false,
///     open: &|dataset| Ok(pool.datasets().objset(dataset)?),
///     progress: &progress,
/// };
/// rescue.datasets("", true, false);
/// assert_eq!(reports.take(), ["letter: done, 0 lost"]);
/// assert_eq!(target.lock().unwrap().at("tank/letter").data, b"still here");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Rescue<'a, S> {
    /// The pool.
    pub pool: &'a Pool,
    /// The directory that all is copied into.
    pub dest: &'a Arc<S>,
    /// A name in it that no dataset gets: that of a log, perhaps.
    pub reserved: &'a [u8],
    /// Returns the observer of a dataset, by its name.
    pub observer: &'a dyn Fn(&str) -> Box<dyn ExtractObserver + 'a>,
    /// Which attributes are kept.
    pub keep: Preserve,
    /// Links, pipes, sockets and devices that are in the way are replaced, too.
    pub force: bool,
    /// Opens the object set of a dataset.
    pub open: &'a dyn Fn(&Dataset) -> crate::Result<Objset>,
    /// Receives the progress; cancelling it stops the rescue.
    pub progress: &'a Progress,
}

impl<S: Sink> Rescue<'_, S> {
    /// Datasets by name: that of `top` and, with `all`, those below, and their snapshots if wanted.
    /// An empty name is that of the whole pool: also of what damage has cut off from the tree.
    pub fn datasets(&self, top: &str, all: bool, snapshots: bool) {
        let inside = |n: &str| n.strip_prefix(top).is_some_and(|r| r.starts_with('/'));
        let datasets = self.pool.datasets().datasets();
        for (name, dataset) in datasets {
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
                Err(e) => (self.observer)(&name).failed(b"", 0, &e.to_string()),
            }
        }
    }

    /// One dataset or snapshot.
    pub fn dataset(&self, dataset: &Dataset) {
        let observer = (self.observer)(&dataset.name);
        if let Err(e) = self.try_dataset(dataset, &*observer) {
            observer.failed(b"", dataset.object, &e);
        }
    }

    fn try_dataset(&self, dataset: &Dataset, observer: &dyn ExtractObserver) -> Result<(), String> {
        let text = |e: io::Error| e.to_string();
        if !self.pool.datasets().is_unlocked(dataset).unwrap_or(true) {
            return Err("encrypted, and its key is not loaded".to_owned());
        }
        let objset = (self.open)(dataset).map_err(|e| e.to_string())?;
        let folder = self.own_name(dataset.name.replace('/', "%").as_bytes());
        if self.pool.datasets().kind(dataset) == DatasetKind::Volume {
            let (volume, fallback) = Volume::salvage(&objset).map_err(|e| e.to_string())?;
            let name = self.image_name(dataset, &folder, observer);
            if let Some(fallback) = fallback {
                observer.fallback(&name, dataset.object, &fallback.to_string());
            }
            return self.image(&volume, &name, observer);
        }
        let fs = salvage(dataset, objset, observer).map_err(|e| e.to_string())?;
        let into = Arc::new(self.dest.subdir(&folder).map_err(text)?);
        let extract = self.extract(dataset, &fs, observer);
        let ended = match fs.root() {
            Ok(root) => extract.tree(&root, Arc::clone(&into), b""),
            Err(e) => {
                observer.failed(b".", fs.root_object(), &e.to_string());
                Ok(())
            }
        };
        match ended {
            Ok(()) => self.nameless(&extract, &into).map_err(text),
            // It is reported once, for the whole.
            Err(Cancelled) => Ok(()),
        }
    }

    fn image(
        &self,
        volume: &Volume,
        name: &[u8],
        observer: &dyn ExtractObserver,
    ) -> Result<(), String> {
        let there = self.dest.find(name).map_err(|e| e.to_string())?;
        if let Some(there) = there.as_ref().filter(|there| !there.is_file()) {
            return Err(format!("{} is in the way", kind_phrase(there.kind)));
        }
        let replaced = there.map(|there| there.id);
        let lost = extract::volume(volume, &**self.dest, name, replaced, self.progress, observer);
        observer.image_done(name, lost.map_err(|e| e.to_string())?);
        Ok(())
    }

    /// The name of a volume's image, which the folder of no file system has.
    fn image_name(
        &self,
        dataset: &Dataset,
        folder: &[u8],
        observer: &dyn ExtractObserver,
    ) -> Vec<u8> {
        let mut name = [folder, b".img"].concat();
        let datasets = self.pool.datasets();
        let other = datasets.by_name(&format!("{}.img", dataset.name));
        if other.is_ok_and(|other| datasets.kind(&other) != DatasetKind::Volume) {
            let wanted = name.clone();
            name.push(b'%');
            observer.renamed(&wanted, dataset.object, &name);
        }
        name
    }

    /// A name in the destination, where one is taken.
    fn own_name(&self, name: &[u8]) -> Vec<u8> {
        match name == self.reserved {
            true => [name, b"%"].concat(),
            false => name.to_vec(),
        }
    }

    fn extract<'e>(
        &'e self,
        dataset: &Dataset,
        fs: &'e Filesystem,
        observer: &'e dyn ExtractObserver,
    ) -> Extract<'e> {
        let mut extract = Extract::new(fs, self.keep, self.progress, observer);
        extract.existing = Existing::Renew { force: self.force };
        extract.renames = true;
        extract.posix_acls = has_posix_acls(self.pool, dataset);
        extract
    }

    /// The file system of a dataset, as far as it can be read.
    ///
    /// # Errors
    /// Nothing of it can be read, or it is none.
    pub fn filesystem(&self, dataset: &Dataset) -> crate::Result<Filesystem> {
        let observer = (self.observer)(&dataset.name);
        Ok(salvage(dataset, (self.open)(dataset)?, &*observer)?)
    }

    /// A file or directory of a dataset, with its path there; it gets this name.
    pub fn node(&self, dataset: &Dataset, fs: &Filesystem, node: &Node, name: &[u8], path: &[u8]) {
        let observer = (self.observer)(&dataset.name);
        let extract = self.extract(dataset, fs, &*observer);
        let mut name = self.own_name(name);
        if fault(&name, LONGEST).is_some() {
            name = escaped(&name);
            observer.renamed(path, node.number(), &name);
        }
        if node.kind() != FileKind::Dir {
            return extract.one(node, Arc::clone(self.dest), &name, path);
        }
        match self.dest.subdir(&name) {
            // A cancelled copy is reported once, as a whole.
            Ok(into) => drop(extract.tree(node, Arc::new(into), path)),
            Err(e) => observer.failed(path, node.number(), &e.to_string()),
        }
    }

    /// Files that no directory names any more: their objects are still there.
    fn nameless(&self, extract: &Extract<'_>, into: &S) -> io::Result<()> {
        let (fs, observer) = (extract.fs, extract.observer);
        let known = |object| extract.has_seen(object);
        let mut failed = |object, why: &dyn std::fmt::Display| {
            observer.failed(b".", object, &format!("objects are lost: {why}"));
        };
        // A cancelled search is reported once, as a whole.
        let Ok(lost) = orphans(fs, &known, self.progress, &mut failed) else {
            return Ok(());
        };
        if lost.is_empty() {
            return Ok(());
        }
        // The pool may have a directory of this name, with files of the same names.
        let folder = free_name(fs, LOST_AND_FOUND);
        let place = Arc::new(into.subdir(&folder)?);
        for node in &lost {
            if extract.has_seen(node.number()) {
                continue;
            }
            let name = format!("#{}", node.number()).into_bytes();
            let shown = [&folder, &b"/"[..], &name].concat();
            observer.failed(&shown, node.number(), "no directory names it; found by its object");
            if node.kind() != FileKind::Dir {
                extract.one(node, Arc::clone(&place), &name, &shown);
            } else if extract.tree(node, Arc::new(place.subdir(&name)?), &shown).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Opens a file system, and reports what was taken for what is lost.
fn salvage(
    dataset: &Dataset,
    objset: Objset,
    observer: &dyn ExtractObserver,
) -> zpl::Result<Filesystem> {
    let (fs, fallbacks) = Filesystem::salvage(objset)?;
    for fallback in fallbacks {
        observer.fallback(b"", dataset.object, &fallback.to_string());
    }
    Ok(fs)
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
