//! Names: which are allowed, and where they lead.

use super::attrs::Attrs;
use crate::dir::DirEntry;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::names::{LONGEST, LONGEST_WITH_FEATURE};
use crate::op::NameInDir;
use dmu::{Object, Tx, Zap, zap};
use ondisk::sa::zpl;
use ondisk::znode::{Dirent, Time, ZPL_VERSION_DIRENT_TYPE, flags, mode};

/// How the entry and link counts of a directory change.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    /// Entries that come.
    pub(super) entries: i64,
    /// Directories that come.
    pub(super) dirs: i64,
}

impl Count {
    pub(super) fn added(is_dir: bool) -> Self {
        Self { entries: 1, dirs: i64::from(is_dir) }
    }

    pub(super) fn removed(is_dir: bool) -> Self {
        Self { entries: -1, dirs: -i64::from(is_dir) }
    }
}

impl Filesystem {
    /// Whether a new entry may have that name.
    pub(super) fn check_new_name(&self, name: &[u8]) -> Result<()> {
        let shown = || String::from_utf8_lossy(name).into_owned();
        let max = if self.settings().long_names || self.replays() {
            LONGEST_WITH_FEATURE
        } else {
            LONGEST
        };
        if name.len() > max {
            return Err(Error::NameTooLong(shown()));
        }
        let reserved = name.is_empty() || name == b"." || name == b"..";
        if reserved || name.iter().any(|b| *b == b'/' || *b == 0) {
            return Err(Error::BadName(shown()));
        }
        if self.utf8_only() && !self.replays() && std::str::from_utf8(name).is_err() {
            return Err(Error::BadName(shown()));
        }
        Ok(())
    }

    /// Loads a directory whose lock is held exclusively, to change its entries.
    pub(super) fn load_dir(&self, number: u64) -> Result<Attrs> {
        let dir = Attrs::load(self, number)?;
        if !dir.is_dir() {
            return Err(Error::NotDirectory(format!("object {number}")));
        }
        if dir.links() == 0 {
            return Err(Error::NotFound(format!("object {number}")));
        }
        super::check_flags(&dir, flags::IMMUTABLE | flags::READONLY)?;
        Ok(dir)
    }

    /// Looks a name up in a directory whose lock is held, or in one that is not changed.
    pub(crate) fn find(&self, dir: &Object, name: &[u8]) -> Result<Option<DirEntry>> {
        self.find_in(&Zap::open(dir)?, name, false)
    }

    /// The same for a name that is part of an operation, whose directory this is.
    pub(super) fn find_at(&self, dir: &Object, at: &NameInDir<'_>) -> Result<Option<DirEntry>> {
        self.find_in(&Zap::open(dir)?, at.name, at.any_case)
    }

    /// Looks a name up that will lead to a change: the lock is taken for the lookup alone.
    pub(super) fn peek(&self, at: &NameInDir<'_>) -> Result<Option<DirEntry>> {
        let _lock = self.inner.state.attrs.shared(at.dir);
        self.find_at(&self.dir_object(at.dir)?, at)
    }

    /// The object of a directory.
    pub(super) fn dir_object(&self, dir: u64) -> Result<Object> {
        let object = self.objset().object(dir).map_err(|e| match e.kind {
            dmu::ErrorKind::NoObject => Error::NotFound(format!("object {dir}")),
            _ => e.into(),
        })?;
        match object.dnode().kind {
            ondisk::DmuType::DIRECTORY_CONTENTS => Ok(object),
            _ => Err(Error::NotDirectory(format!("object {dir}"))),
        }
    }

    /// Puts an entry into a directory's table.
    pub(super) fn enter(
        &self,
        tx: &Tx,
        dir: &Object,
        name: &[u8],
        object: u64,
        kind: u64,
    ) -> Result<()> {
        let typed = self.version() >= ZPL_VERSION_DIRENT_TYPE;
        let kind = if typed { ((kind & mode::TYPE) >> 12) as u8 } else { 0 };
        let value = Dirent { object, kind }.encode();
        Ok(zap::insert_u64(dir, tx, name, value)?)
    }

    /// Counts what came to and left a directory.
    pub(super) fn count_entries(&self, dir: &mut Attrs, count: Count, now: Time) {
        dir.set(zpl::SIZE, dir.size().saturating_add_signed(count.entries));
        if count.dirs != 0 {
            dir.set(zpl::LINKS, dir.links().saturating_add_signed(count.dirs));
        }
        dir.content_changed(now);
    }

    /// Whether a directory has no entries.
    pub(super) fn is_empty_dir(&self, dir: &Object) -> Result<bool> {
        match Zap::open(dir)?.entries().next() {
            None => Ok(true),
            Some(Ok(_)) => Ok(false),
            Some(Err(e)) => Err(e.into()),
        }
    }
}
