//! From a name to a pool: which one is meant, and opening it for writing when others are done.
//!
//! A known pool's devices are looked for where they were, and when some are not there, in the
//! folders they were in and the usual places for devices, by guid. A name that is not known is
//! looked for nowhere, as with OpenZFS, unless places are named, or the search is one for pools
//! that are not imported too ([`SearchScope::Anywhere`]).

use crate::{Found, KnownPools, LookError, look_for};
use engine::datasets::pool_of;
use engine::devices::DeviceSource;
use engine::features::VERSION_FEATURES;
use engine::live::ImportOptions;
use engine::pools::{Choice, Destroyed, PoolSearch, Waiter, open_when_free, scan};
use engine::{Candidate, LivePool, Rt, SearchOptions};
use std::sync::Arc;

/// Where a pool is looked for that is not known, when no places are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchScope {
    /// Nowhere.
    #[default]
    Known,
    /// Where devices usually are; destroyed pools count too.
    Anywhere,
}

impl KnownPools<'_> {
    /// The pool that `name` (a pool, its guid, or anything in a pool) belongs to: the one that is
    /// known under it, or, where `search` has places, the one that is there.
    ///
    /// # Errors
    /// [`LookError`]; [`engine::ErrorKind::AmbiguousPool`] when the name means several.
    pub fn by_name(
        &self,
        name: &str,
        search: &SearchOptions,
        scope: SearchScope,
    ) -> Result<Found, LookError> {
        if search.paths.is_empty() {
            if let Some(known) = self.find(name) {
                let (paths, source) = (self.elsewhere().paths.clone(), Arc::clone(&search.source));
                return look_for(known, &SearchOptions { paths, source, leaves_out: true });
            }
            if scope == SearchScope::Known {
                return Err(LookError::NotKnown { name: pool_of(name).to_owned() });
            }
        }
        let destroyed = match scope {
            SearchScope::Known => Destroyed::ByGuid,
            SearchScope::Anywhere => Destroyed::IfNoOther,
        };
        let choice = Choice::of(pool_of(name)).destroyed(destroyed);
        let chosen = choice.among(written(search)?, &search.paths);
        Ok(Found::at_place(self, chosen.map_err(engine::Error::from)?))
    }
}

/// The pools that are or were in these places, without those whose creation was cut off.
///
/// # Errors
/// A place cannot be read.
pub fn written(search: &SearchOptions) -> engine::Result<Vec<Candidate>> {
    let mut found = Candidate::group(&scan(search)?);
    found.retain(Candidate::was_written);
    Ok(found)
}

impl Found {
    /// Refuses to change what was imported to be read only.
    ///
    /// # Errors
    /// [`LookError::ReadOnly`].
    pub fn check_changeable(&self) -> Result<(), LookError> {
        match self.listed.known().filter(|known| known.is_readonly()) {
            Some(known) => {
                let (name, version) = (known.name().to_owned(), self.candidate.config.version);
                let old_version = (version < VERSION_FEATURES).then_some(version);
                Err(LookError::ReadOnly { name, old_version })
            }
            None => Ok(()),
        }
    }

    /// How it is opened for writing: `options` with what is known of its import. A device that was
    /// only looked at in another place stays where it is for its host.
    #[must_use]
    pub fn import_options(&self, mut options: ImportOptions) -> ImportOptions {
        self.complete(&mut options.open);
        options.adopt_paths = self.is_known();
        options
    }

    /// Ends work on it: its entry is brought up to date, and it is left as it was found, active or
    /// exported.
    ///
    /// # Errors
    /// What was changed last cannot be written.
    pub fn leave(&self, list: &KnownPools<'_>, pool: LivePool) -> engine::Result<()> {
        self.refresh(list, &pool);
        match self.is_exported() {
            true => Ok(pool.export()?),
            false => Ok(pool.close()?),
        }
    }
}

/// A pool that is to be opened for writing, found again and again while others have it.
///
/// ```
/// use engine::live::ImportOptions;
/// use engine::pools::WaitUpTo;
/// use engine::{Error, NewPool, OpenOptions, Rt, SearchOptions};
/// use imported::{KnownPools, LookError, Opening, SearchScope};
/// use std::time::Duration;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// NewPool::new("tank").file(&image, 64 << 20)?.create()?.export().map_err(Error::from)?;
/// let list = KnownPools::in_folder(Some(folder.path().join("state")), |_| {});
/// let search = SearchOptions { paths: vec![image], ..SearchOptions::default() };
/// let source = search.source.clone();
/// let find = || list.by_name("tank/home", &search, SearchScope::Known);
/// let options = || ImportOptions::new(OpenOptions::default());
/// let rt = Rt::real();
/// let wait = WaitUpTo::new(&rt, Duration::from_secs(30));
/// let opening = Opening::new(&list, find, |found| found.import_options(options()));
/// let (found, pool) = opening.open(&rt, &*source, &wait)?;
/// // It was exported, and is so again.
/// found.leave(&list, pool)?;
/// assert!(list.by_name("tank", &search, SearchScope::Known)?.is_exported());
/// # Ok::<(), LookError>(())
/// ```
pub struct Opening<'a, F, O> {
    list: &'a KnownPools<'a>,
    find: F,
    options: O,
}

impl<'a, E, F, O> Opening<'a, F, O>
where
    E: From<engine::Error> + From<LookError>,
    F: FnMut() -> Result<Found, E>,
    O: Fn(&Found) -> ImportOptions,
{
    /// The one that `find` finds, which is opened as `options` say ([`Found::import_options`]).
    #[must_use]
    pub fn new(list: &'a KnownPools<'a>, find: F, options: O) -> Self {
        Self { list, find, options }
    }

    /// Opens it, with the devices of `source`, when others that have it are done.
    ///
    /// # Errors
    /// It is not found, was imported to be read only, is still another process's when `waiter`
    /// gives up, or cannot be opened for writing.
    pub fn open(
        mut self,
        rt: &Rt,
        source: &dyn DeviceSource,
        waiter: &dyn Waiter<E>,
    ) -> Result<(Found, LivePool), E> {
        open_when_free(rt, &mut self, source, waiter)
    }
}

impl<E, F, O> PoolSearch for Opening<'_, F, O>
where
    E: From<engine::Error> + From<LookError>,
    F: FnMut() -> Result<Found, E>,
    O: Fn(&Found) -> ImportOptions,
{
    type Found = Found;
    type Error = E;

    fn find(&mut self) -> Result<Found, E> {
        let found = (self.find)()?;
        found.check_changeable()?;
        Ok(found)
    }

    fn candidate(found: &Found) -> &Candidate {
        &found.candidate
    }

    fn options(&self, found: &Found) -> ImportOptions {
        (self.options)(found)
    }

    fn is_outdated(&self, found: &Found) -> bool {
        found.is_overtaken(self.list)
    }
}
