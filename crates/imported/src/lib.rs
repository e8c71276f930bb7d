//! Which pools are imported on this machine, and where their devices are.
//!
//! ```text
//! create, import -> remember        add, set, reguid -> refresh        export, destroy -> forget
//!                       |
//!                 FOLDER/zpool.cache      known until that
//!                 FOLDER/session.cache    known until the machine is started anew
//! ```
//!
//! A program opens a pool, acts and closes it again, so nothing is imported in the sense of a
//! kernel module. The entries of these files ([`KnownPools`]) take the place of that: their pools
//! are found by name, and are no longer offered for import. Both files have OpenZFS's form
//! (`file.rs`). A pool with another `cachefile` than the usual one is in the second file, and in
//! that other file too, which only an import from that file reads.
//!
//! Files are replaced as a whole, under a lock; a damaged one is put aside. A known pool's devices
//! are looked for where they were, and elsewhere when they are not there ([`look_for`]). What a
//! name means is in [`KnownPools::by_name`], and how its pool is opened for writing in [`Opening`].
//!
//! **Invariant:** reads no environment variable and prints nothing: what a user should know goes to
//! an observer ([`Notice`]). Nothing on the devices is changed.
#![forbid(unsafe_code)]

mod entry;
mod error;
mod file;
mod found;
mod importing;
mod opening;
mod remembered;
mod warnings;

pub use entry::Known;
pub use error::{Error, LookError, Notice, Result};
pub use file::read;
pub use found::{Found, Listed, is_gone, left_aside, look_for, look_for_any, unread};
pub use importing::{Importing, OtherConflicts};
pub use opening::{Opening, SearchScope, written};
pub use remembered::{CacheEntryOptions, InvalidPath};
pub use warnings::Warnings;

use engine::datasets::pool_of;
use engine::live::cache_config;
use engine::pools::error_counts;
use engine::{LivePool, Pool, SearchOptions};
use file::CacheFile;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Known until exported.
const LASTING: &str = "zpool.cache";
/// Known until the machine is restarted.
const PASSING: &str = "session.cache";

/// Where a pool is remembered: the property `cachefile`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cachefile {
    /// In the usual file.
    #[default]
    Usual,
    /// Nowhere that lasts.
    None,
    /// In this file.
    At(PathBuf),
}

impl Cachefile {
    /// Reads the value of the property; an empty one is the default.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::Usual,
            "none" => Self::None,
            path if path.starts_with('/') && !path.ends_with('/') => Self::At(PathBuf::from(path)),
            _ => return None,
        })
    }
}

/// The pools that a user has created or imported here, and neither exported nor destroyed since.
pub struct KnownPools<'a> {
    folder: Option<PathBuf>,
    notify: Box<dyn Fn(&Notice<'_>) + 'a>,
    /// Where devices may be that are not where they were, and what opens them.
    elsewhere: SearchOptions,
}

impl<'a> KnownPools<'a> {
    /// Those that are written down in this folder, which is made when it is needed; `None`: no pool
    /// is known, and none can be remembered. `notify` gets what a user should know.
    #[must_use]
    pub fn in_folder(folder: Option<PathBuf>, notify: impl Fn(&Notice<'_>) + 'a) -> Self {
        Self { folder, notify: Box::new(notify), elsewhere: SearchOptions::default() }
    }

    /// Devices are opened by the source of this search, and those that are not where they were are
    /// looked for in its places too.
    #[must_use]
    pub fn searched_by(mut self, elsewhere: SearchOptions) -> Self {
        self.elsewhere = elsewhere;
        self
    }

    /// That search.
    #[must_use]
    pub fn elsewhere(&self) -> &SearchOptions {
        &self.elsewhere
    }

    fn files(&self) -> Vec<CacheFile> {
        let Some(folder) = &self.folder else { return Vec::new() };
        vec![CacheFile::new(folder.join(LASTING)), CacheFile::new(folder.join(PASSING))]
    }

    /// A process that holds this gives a pool its name: what it has seen of the names that are
    /// known stays.
    #[must_use]
    pub fn hold_names(&self) -> Option<File> {
        let folder = self.folder.as_ref()?;
        file::make_folder(folder).ok()?;
        let file = file::open_lock(&folder.join("names.lock")).ok()?;
        // Without locks in that file system, names are only as safe as their users are careful.
        let _ = file.lock();
        Some(file)
    }

    /// All, in the order of their names.
    #[must_use]
    pub fn all(&self) -> Vec<Known> {
        let files = self.files();
        let mut all: Vec<Known> =
            files.iter().flat_map(|file| file.entries(&self.notify)).collect();
        all.retain(Known::is_of_this_boot);
        all.sort_by(|a, b| (a.name(), a.guid()).cmp(&(b.name(), b.guid())));
        all.dedup_by_key(|known| known.guid());
        all
    }

    /// The same of a folder that may be another user's: nothing is reported, and nothing is
    /// repaired.
    #[must_use]
    pub fn of_foreign_folder(folder: &Path) -> Vec<Known> {
        let files = [LASTING, PASSING].map(|file| folder.join(file));
        let mut all: Vec<Known> =
            files.iter().filter_map(|path| file::entries_of(path)).flatten().collect();
        all.retain(Known::is_of_this_boot);
        all
    }

    /// The pool of this name or guid, or of anything in it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Known> {
        let wanted = pool_of(name);
        self.all().into_iter().find(|known| known.is_called(wanted))
    }

    /// The pool of this guid.
    #[must_use]
    pub fn by_guid(&self, guid: u64) -> Option<Known> {
        self.all().into_iter().find(|known| known.guid() == guid)
    }

    /// Says before anything is changed that a pool could not be remembered.
    pub fn check_writable(&self, cachefile: &Cachefile) -> Result<()> {
        let elsewhere = match cachefile {
            Cachefile::At(path) => Some(CacheFile::at(path.clone())),
            _ => None,
        };
        let files = self.files();
        if files.is_empty() {
            return Err(Error::NoFolder);
        }
        files.iter().chain(&elsewhere).try_for_each(CacheFile::check_writable)
    }

    /// Remembers a pool, in place of what was known of it.
    pub fn remember(&self, known: &Known, cachefile: &Cachefile) -> Result<()> {
        if let Cachefile::At(path) = cachefile {
            // Checked before an entry names it.
            CacheFile::at(path.clone()).check_writable()?;
        }
        self.keep(&known.clone().with_cachefile(cachefile), cachefile)
    }

    fn keep(&self, known: &Known, cachefile: &Cachefile) -> Result<()> {
        let [lasting, passing] = &self.files()[..] else {
            return Err(Error::NoFolder);
        };
        let old = self.by_guid(known.guid());
        let known = &known.clone().with_files(old.as_ref().or(Some(known)));
        let before = old.map(|old| old.cachefile());
        let is_usual = *cachefile == Cachefile::Usual;
        let (to, from) = if is_usual { (lasting, passing) } else { (passing, lasting) };
        // In this order: wherever this is cut off, the pool is in one of the two, and that one
        // names each other file that it may be in.
        if let Some(Cachefile::At(old)) = before.filter(|before| before != cachefile) {
            CacheFile::at(old).remove(&self.notify, known.guid())?;
        }
        to.put(&self.notify, known)?;
        if let Cachefile::At(path) = cachefile {
            CacheFile::at(path.clone()).put(&self.notify, &known.without_marks())?;
        }
        from.remove(&self.notify, known.guid())
    }

    /// Writes down where devices are that are about to be added to a known pool, so that it is
    /// whole wherever the program that adds them is cut off.
    pub fn announce(&self, guid: u64, paths: &[PathBuf]) {
        let Some(old) = self.by_guid(guid) else { return };
        let cachefile = old.cachefile();
        if let Err(e) = self.keep(&old.with_adding(paths), &cachefile) {
            (self.notify)(&Notice::Outdated(&e));
        }
    }

    /// Rewrites the entry of a pool, if it is known and has changed.
    pub fn refresh(&self, guid_before: u64, pool: &LivePool) {
        let Some(old) = self.by_guid(guid_before) else { return };
        let new = old.with_config(pool.cache_config()).with_files(Some(&old));
        let new = new.with_errors(&error_counts(pool.view()));
        let guid = new.guid();
        if new.differs_only_in_txg(&old) {
            return;
        }
        // In this order: wherever this is cut off, the pool is known by its name.
        let kept = self.keep(&new, &old.cachefile());
        let done = kept.and_then(|()| match guid_before == guid {
            true => Ok(()),
            false => self.remove(guid_before),
        });
        if let Err(e) = done {
            (self.notify)(&Notice::Outdated(&e));
        }
    }

    /// The same for a program that only read the pool, and found devices that were not written
    /// down. An entry that another has changed meanwhile stays; so does one that cannot be written,
    /// and one of a newer state, which is on devices that are not there now.
    pub fn note(&self, old: &Known, pool: &Pool) {
        let new = old.with_config(cache_config(pool)).with_files(Some(old));
        if new.differs_only_in_txg(old) || new.txg() < old.txg() {
            return;
        }
        self.files().iter().for_each(|file| {
            let _ = file.replace_entry(&self.notify, old, &new);
        });
    }

    /// Forgets a pool, which was exported or destroyed. That it cannot be is only told.
    pub fn forget(&self, guid: u64) {
        if let Err(e) = self.try_forget(guid) {
            (self.notify)(&Notice::NotForgotten(&e));
        }
    }

    /// The same for a program that does nothing else.
    pub fn try_forget(&self, guid: u64) -> Result<()> {
        let name = self.by_guid(guid).map(|known| known.name().to_owned()).unwrap_or_default();
        self.remove(guid).map_err(|why| Error::StillKnown { name, why: Box::new(why) })
    }

    fn remove(&self, guid: u64) -> Result<()> {
        let elsewhere = match self.by_guid(guid).map(|known| known.cachefile()) {
            Some(Cachefile::At(path)) => Some(CacheFile::at(path)),
            _ => None,
        };
        self.files().iter().chain(&elsewhere).try_for_each(|file| file.remove(&self.notify, guid))
    }
}
