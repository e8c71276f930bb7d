//! Names of files in a pool that is open for writing, as people give them: made, changed, removed.

use crate::Progress;
use crate::directories::make_directories;
use crate::error::{Error, ErrorKind, Hint, Place, Result};
use crate::places::{GivenPlace, PlaceNotFound, divided};
use crate::remove::{NotRemovedCause, remove_tree};
use ondisk::spelling;
use pool::live::LivePool;
use zpl::{FileKind, Filesystem, NewFile, NewKind, RenameMode, Time};

/// A name in a file system, which a file may have or get. The errors of all operations have the
/// place as it was given as their operand ([`Error::operand`]).
///
/// ```
/// use engine::Progress;
/// use engine::files::{FileName, NewFile, NewKind, RenameMode, Time};
/// use engine::places::GivenPlace;
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let now = Time { seconds: 1, nanos: 0 };
/// let at = |text: &str| FileName::find(&pool, &GivenPlace::from(std::ffi::OsStr::new(text)));
/// let (letters, old) = (at("tank:/letters").unwrap(), at("tank:/old").unwrap());
/// letters.make_directory(&NewFile::new(NewKind::Dir, 0o755, now))?;
/// // A directory that is there takes what is moved to it.
/// old.make_directory(&NewFile::new(NewKind::Dir, 0o755, now))?;
/// letters.rename(&old, RenameMode::Replace, now)?;
/// assert!(at("tank:/old/letters").unwrap().remove_file(now).is_err(), "it is a directory");
/// old.remove(&|| now, &Progress::new())?;
/// # Ok::<(), engine::Error>(())
/// ```
pub struct FileName {
    fs: Filesystem,
    /// The dataset.
    dataset: u64,
    path: Vec<u8>,
    shown: String,
}

/// A directory, and a name in it.
type Entry = (u64, Vec<u8>);

impl FileName {
    /// The name that a place has in the file system that it is in.
    ///
    /// # Errors
    /// There is no such dataset, or it is a snapshot or not a file system.
    pub fn find(pool: &LivePool, place: &GivenPlace) -> std::result::Result<Self, PlaceNotFound> {
        let failed = |e: Error| PlaceNotFound::Failed(e);
        let found = place.find(pool.view())?;
        let shown = place.shown();
        if found.dataset.is_snapshot() {
            let why = format!("'{shown}': a snapshot cannot be changed");
            return Err(failed(Error::new(ErrorKind::ReadOnly).because(why)));
        }
        let fs = pool.filesystem(&found.dataset.name).map_err(|e| failed(e.into()))?;
        let (fs, path) = (fs.unless_suspended(), found.path().to_vec());
        Ok(Self { fs, dataset: found.dataset.object, path, shown })
    }

    /// The place as it was given.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// An error of this name.
    fn error(&self, kind: ErrorKind, why: &str) -> Error {
        Error::new(kind).because(why).of(&self.shown)
    }

    /// The directory above it, and its last name.
    fn entry(&self) -> Result<Entry> {
        let (above, name) = divided(&self.path);
        let name = name.ok_or_else(|| self.error(ErrorKind::InvalidName, "it has no name"))?;
        let dir = self.fs.by_path(above, true).map_err(|e| self.failed(e))?;
        Ok((dir.number(), name.to_vec()))
    }

    /// The same, but where it is a directory that is there, `name` in it.
    fn entry_for(&self, name: &[u8]) -> Result<Entry> {
        match self.fs.by_path(&self.path, true) {
            Ok(node) if node.kind() == FileKind::Dir => Ok((node.number(), name.to_vec())),
            _ => self.entry(),
        }
    }

    fn failed(&self, e: impl Into<Error>) -> Error {
        e.into().of(&self.shown)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// There is something of that name, or no directory above it.
    pub fn make_directory(&self, new: &NewFile) -> Result<()> {
        let (dir, name) = self.entry()?;
        self.fs.create(dir, &name, new).map_err(|e| self.failed(e))?;
        Ok(())
    }

    /// Makes a directory, and those above it that are missing. One that is there stays.
    ///
    /// # Errors
    /// [`ErrorKind::NotDirectory`]: something else is in the way.
    pub fn make_directories(&self, new: &NewFile) -> Result<()> {
        let made = make_directories(&self.fs, &self.path, new);
        made.map(drop).map_err(|e| match (e.kind(), e.place()) {
            (ErrorKind::NotDirectory, Some(Place::File(name))) => {
                self.error(ErrorKind::NotDirectory, &format!("'{name}' is not a directory"))
            }
            _ => self.failed(e),
        })
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] and [`ErrorKind::InvalidName`]: there is none.
    /// [`ErrorKind::IsDirectory`].
    pub fn remove_file(&self, now: Time) -> Result<()> {
        let (dir, name) = self.entry()?;
        if self.is_directory(dir, &name)? {
            let error = self.error(ErrorKind::IsDirectory, "Is a directory");
            return Err(error.with_hint(Hint::RemoveTree));
        }
        self.fs.unlink(dir, &name, now).map_err(|e| self.failed(e))
    }

    /// Removes a file, or a directory with all in it. `progress` counts what is gone of it.
    ///
    /// # Errors
    /// As [`Self::remove_file`]. The first file in the directory that could not be removed; none is
    /// tried after it.
    pub fn remove(&self, now: &dyn Fn() -> Time, progress: &Progress) -> Result<()> {
        let (dir, name) = self.entry()?;
        if !self.is_directory(dir, &name)? {
            return self.fs.unlink(dir, &name, now()).map_err(|e| self.failed(e));
        }
        remove_tree(&self.fs, (dir, &name), now, progress).map_err(|e| {
            let names: Vec<String> = e.names.iter().map(|name| spelling::file(name)).collect();
            let why = format!("'{}': {}", names.join("/"), e.cause);
            let kind = match e.cause {
                NotRemovedCause::Failed(e) => Error::from(e).kind().clone(),
                NotRemovedCause::Displaced => ErrorKind::Damaged,
                NotRemovedCause::Cancelled(_) => ErrorKind::Cancelled,
            };
            self.error(kind, &why)
        })
    }

    /// Whether there is a directory of that name; fails where there is nothing.
    fn is_directory(&self, dir: u64, name: &[u8]) -> Result<bool> {
        let parent = self.fs.node(dir).map_err(|e| self.failed(e))?;
        let entry = parent.lookup(name).map_err(|e| self.failed(e))?;
        let gone = || self.error(ErrorKind::NotFound, "No such file or directory");
        let node = self.fs.node(entry.ok_or_else(gone)?.object).map_err(|e| self.failed(e))?;
        Ok(node.kind() == FileKind::Dir)
    }

    /// Gives what is there another name, or puts it into the directory of that name.
    ///
    /// # Errors
    /// [`ErrorKind::OtherDataset`]; nothing is there, or something that stays.
    pub fn rename(&self, to: &Self, how: RenameMode, now: Time) -> Result<()> {
        if self.dataset != to.dataset {
            return Err(self.elsewhere());
        }
        let (old_dir, old) = self.entry()?;
        let (dir, name) = to.entry_for(&old)?;
        let done = self.fs.rename((old_dir, &old), (dir, &name), how, now);
        done.map_err(|e| self.failed(e))
    }

    /// The error of a move to another dataset, or to another pool.
    #[must_use]
    pub fn elsewhere(&self) -> Error {
        let error = self.error(ErrorKind::OtherDataset, "it goes to another dataset");
        error.with_hint(Hint::CopyTwice)
    }

    /// Makes a symbolic link of this name, or in the directory of this name one that is called as
    /// the file that `text` leads to. `new` says all but what it is.
    ///
    /// # Errors
    /// There is something of that name, or no directory above it.
    pub fn symlink(&self, text: &[u8], new: &NewFile) -> Result<()> {
        let last = divided(text).1.unwrap_or(text);
        let (dir, name) = self.entry_for(last)?;
        let new = NewFile { kind: NewKind::Symlink(text.to_vec()), ..*new };
        self.fs.create(dir, &name, &new).map_err(|e| self.failed(e))?;
        Ok(())
    }

    /// Gives a file this second name, or a second name in the directory of this name.
    ///
    /// # Errors
    /// [`ErrorKind::OtherDataset`]; there is something of that name, or it is a directory.
    pub fn link(&self, file: &Self, now: Time) -> Result<()> {
        if file.dataset != self.dataset {
            let why = "the file is in another dataset";
            return Err(self.error(ErrorKind::OtherDataset, why));
        }
        let (_, last) = file.entry()?;
        let node = file.fs.by_path(&file.path, false).map_err(|e| file.failed(e))?;
        let (dir, name) = self.entry_for(&last)?;
        self.fs.link(node.number(), dir, &name, now).map_err(|e| self.failed(e))
    }
}
