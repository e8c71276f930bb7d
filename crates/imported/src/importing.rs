//! The list of known pools, as it is asked when a pool is imported, made or split off, and as the
//! pool is added to it.

use crate::{CacheEntryOptions, Cachefile, Error, KnownPools, is_gone};
use engine::pools::{ImportConflict, ImportEntry, ImportList};
use engine::{Candidate, ErrorKind, Hint, ImportRefusal, LivePool};
use std::any::Any;

/// What else keeps a pool of this guid from being imported under this name, such as that it is
/// served.
pub type OtherConflicts<'a> = dyn Fn(u64, &str) -> Option<ImportConflict> + 'a;

/// The list, for a pool that is remembered in this way.
pub struct Importing<'a> {
    list: KnownPools<'a>,
    remembered: CacheEntryOptions,
    others: Box<OtherConflicts<'a>>,
}

impl<'a> Importing<'a> {
    /// Adds a pool to `list` as `remembered` says; `others` are conflicts that the list does not
    /// know of.
    #[must_use]
    pub fn new(
        list: KnownPools<'a>,
        remembered: CacheEntryOptions,
        others: impl Fn(u64, &str) -> Option<ImportConflict> + 'a,
    ) -> Self {
        Self { list, remembered, others: Box::new(others) }
    }

    fn not_listed(&self, why: Error) -> engine::Error {
        let hint = match self.remembered.cachefile {
            Cachefile::At(_) => Hint::ChooseCachefile,
            _ => Hint::ListElsewhere,
        };
        let kind = ErrorKind::NotImported(ImportRefusal::NotListed);
        engine::Error::new(kind).with_hint(hint).because(why)
    }
}

impl ImportList for Importing<'_> {
    fn conflict(&self, pool: &Candidate, name: &str) -> Option<ImportConflict> {
        let guid = pool.config.pool_guid;
        let other = (self.others)(guid, name);
        if other == Some(ImportConflict::Imported) || self.list.is_imported(pool) {
            return Some(ImportConflict::Imported);
        }
        let mut known = self.list.all().into_iter();
        let is_taken = known.any(|known| known.name() == name && known.guid() != guid);
        other.or(is_taken.then_some(ImportConflict::NameTaken))
    }

    fn is_named(&self, name: &str) -> bool {
        let mut known = self.list.all().into_iter();
        // No pool has this guid: one of the name is always another.
        known.any(|known| known.name() == name) || (self.others)(0, name).is_some()
    }

    fn check_writable(&self) -> engine::Result<()> {
        let done = self.list.check_writable(&self.remembered.cachefile);
        done.map_err(|why| self.not_listed(why))
    }

    fn hold(&self) -> Box<dyn Any> {
        Box::new(self.list.hold_names())
    }

    fn add(&self, entry: &ImportEntry) -> engine::Result<()> {
        // A configuration that was just made can be read.
        let known = self.remembered.entry(entry.config.clone(), &entry.name);
        let Some(known) = known else { return Ok(()) };
        let known = known.marked(None, entry.is_read_only).with_state(entry.state);
        let done = self.list.remember(&known, &self.remembered.cachefile);
        done.map_err(|why| self.not_listed(why))
    }

    fn remove(&self, guid: u64) {
        self.list.forget(guid);
    }

    fn refresh(&self, pool: &LivePool) {
        self.list.refresh(pool.guid(), pool);
    }
}

impl KnownPools<'_> {
    /// Whether a pool is imported. An entry that is left over, because the devices of its pool are
    /// elsewhere by now, does not count: an import rewrites it.
    #[must_use]
    pub fn is_imported(&self, pool: &Candidate) -> bool {
        let guid = pool.config.pool_guid;
        let mut known = self.all().into_iter();
        known.any(|known| {
            (known.guid() == guid || known.is_on_devices_of(pool))
                && !is_gone(&known, self.elsewhere())
        })
    }
}
