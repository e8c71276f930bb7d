//! An import, in its order: what is refused before a device is opened, what the pool goes back to,
//! and when it is on the machine's list of imported pools.
//!
//! ```text
//! Import::plan   list writable?  ->  imported already, name taken?  ->  devices denied?
//!                  ->  the state to go back to
//! run            open  ->  list: locked, asked again, the pool added  ->  settings  ->  history
//! close          what devices missed is copied  ->  list: the pool as it is now  ->  closed
//! ```
//!
//! A pool that was opened for writing and cannot be added to the list is exported again: no pool is
//! imported that nothing remembers.

use super::denied::denied_devices;
use super::rewind::{Rewind, RewindReach};
use super::rules::{is_kept, is_only_read};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::faults::ImportRefusal;
use crate::import_list::{EarlierState, ImportConflict, ImportEntry, ImportList};
use crate::making::check_new_name;
use crate::properties::pool::PoolSetting;
use pool::live::{self, ImportOptions, Invocation, LivePool, cache_config, check_import};
use pool::{Candidate, Pool};
use std::path::PathBuf;

/// An import that is to be made of a pool that was found.
///
/// ```
/// use engine::live::{ImportOptions, Invocation};
/// use engine::pools::{self, Import, NoList, Rewind};
/// use engine::properties::pool::parse;
/// use engine::{Candidate, NewPool, OpenOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let options = ImportOptions::new(OpenOptions::in_places([&image]));
/// let found = Candidate::group(&pools::scan(&options.open.search)?).pop().unwrap();
/// let import = Import::new(found, options).renamed("depot")?.set(parse("comment", "of old")?)?;
/// // What is wrong with it is known before a device is opened for writing.
/// let import = import.by(Invocation { command: "import".into(), ..Invocation::default() });
/// let plan = import.plan(&NoList)?;
/// plan.check_open()?;
/// assert!(!plan.is_read_only() && *plan.rewind() == Rewind::NotNeeded);
/// let pool = plan.run(&NoList)?;
/// assert_eq!(pool.view().name(), "depot");
/// pool.close(&NoList, |pool| pool.wait_for_resilver(&mut |_| {}))?;
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone)]
pub struct Import {
    candidate: Candidate,
    options: ImportOptions,
    settings: Vec<PoolSetting>,
    is_read_only: bool,
    reach: Option<RewindReach>,
    places: Vec<PathBuf>,
    invocation: Option<Invocation>,
}

/// An import that nothing is known to stand in the way of, and what it goes back to.
pub struct ImportPlan {
    import: Import,
    rewind: Rewind,
    denied: Vec<PathBuf>,
}

/// A pool that was imported, open.
pub enum ImportedPool {
    /// It is only read.
    ReadOnly(Box<Pool>),
    /// It can be changed.
    Writable(Box<LivePool>),
}

impl Import {
    /// An import of this pool as `options` say, under the name that its labels have. A pool of a
    /// version from before features is only read.
    #[must_use]
    pub fn new(candidate: Candidate, options: ImportOptions) -> Self {
        let places = options.open.search.paths.clone();
        let options = ImportOptions { adopt_paths: true, ..options };
        let (settings, is_read_only) = (Vec::new(), false);
        let (reach, invocation) = (None, None);
        Self { candidate, options, settings, is_read_only, reach, places, invocation }
    }

    /// Under another name from now on.
    ///
    /// # Errors
    /// No new pool can have the name.
    pub fn renamed(mut self, name: &str) -> Result<Self> {
        check_new_name(name).map_err(|fault| ImportRefusal::Name(fault).of(name))?;
        self.options.rename = Some(name.to_owned());
        Ok(self)
    }

    /// Under another name that is not written, until the pool is exported.
    ///
    /// # Errors
    /// Those of [`Self::renamed`].
    pub fn renamed_for_now(mut self, name: &str) -> Result<Self> {
        self = self.renamed(name)?;
        self.options.open.name = self.options.rename.take();
        Ok(self)
    }

    /// With a property, which is stored in the pool once it is imported; with `readonly` it is only
    /// read. Where the pool is remembered and shown (`cachefile`, `altroot`) is for the list.
    ///
    /// # Errors
    /// It cannot be set when a pool is imported.
    pub fn set(mut self, setting: PoolSetting) -> Result<Self> {
        setting.check_at_import()?;
        match setting {
            PoolSetting::ReadOnly(is_read_only) => self.is_read_only = is_read_only,
            setting => self.settings.push(setting),
        }
        Ok(self)
    }

    /// If the newest state cannot be read, the pool goes back to the newest one that can, and with
    /// [`RewindReach::UpTo`] to one up to that txg in any case.
    #[must_use]
    pub fn going_back(self, reach: RewindReach) -> Self {
        Self { reach: Some(reach), ..self }
    }

    /// Devices of the pool that were not found may be in these places, by default those of the
    /// search.
    #[must_use]
    pub fn searched_in(self, places: Vec<PathBuf>) -> Self {
        Self { places, ..self }
    }

    /// With this line in the pool's history.
    #[must_use]
    pub fn by(self, invocation: Invocation) -> Self {
        Self { invocation: Some(invocation), ..self }
    }

    /// It is only read, although that was not requested: it is of this version.
    #[must_use]
    pub fn version_only_read(&self) -> Option<u64> {
        let is_forced = !self.is_read_only && is_only_read(&self.candidate);
        is_forced.then_some(self.candidate.config.version)
    }

    /// It is only read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only || is_only_read(&self.candidate)
    }

    /// The name that the pool gets.
    #[must_use]
    pub fn name(&self) -> &str {
        let given = self.options.open.name.as_deref().or(self.options.rename.as_deref());
        given.unwrap_or_else(|| self.candidate.name())
    }

    fn has_new_name(&self) -> bool {
        self.options.open.name.is_some() || self.options.rename.is_some()
    }

    /// No pool is imported twice, and no name is given twice.
    fn check_conflict(&self, list: &dyn ImportList) -> Result<()> {
        match list.conflict(&self.candidate, self.name()) {
            None => Ok(()),
            Some(ImportConflict::Imported) if self.has_new_name() => {
                Err(ImportRefusal::Imported.of(self.candidate.name()))
            }
            // A pool that is imported has its own name.
            Some(_) => Err(ImportRefusal::NameTaken.of(self.name())),
        }
    }

    /// An error of the list, with the pool that it is about.
    fn named(&self, e: Error) -> Error {
        match e.kind() {
            ErrorKind::NotImported(ImportRefusal::NotListed) => {
                e.at(Place::Pool(self.candidate.name().to_owned()))
            }
            _ => e,
        }
    }

    fn check_name(&self) -> Result<()> {
        let guid = self.candidate.config.pool_guid;
        match self.has_new_name() || is_kept(self.candidate.name()) {
            true => Ok(()),
            false => Err(ImportRefusal::NameNotKept(guid).of(self.candidate.name())),
        }
    }

    /// What is refused before a device is opened, and the devices that this user may not open of a
    /// pool that is only read: what is written to the others would leave them behind.
    fn check(&self, list: &dyn ImportList) -> Result<Vec<PathBuf>> {
        self.check_name()?;
        list.check_writable().map_err(|e| self.named(e))?;
        self.check_conflict(list)?;
        let denied = denied_devices(&self.candidate, &self.places);
        match denied.is_empty() || self.is_read_only() {
            true => Ok(denied),
            false => Err(ImportRefusal::Denied(denied).of(self.candidate.name())),
        }
    }

    /// Whether it can be made, as far as that shows without the devices, and what the pool goes
    /// back to. Nothing is changed.
    ///
    /// # Errors
    /// The pool is imported already, another one has its name, the list cannot be written, this
    /// user may not open one of the devices, or no state within reach can be read.
    pub fn plan(self, list: &dyn ImportList) -> Result<ImportPlan> {
        let denied = self.check(list)?;
        let rewind = match self.reach {
            None => Rewind::NotNeeded,
            Some(reach) => Rewind::find(&self.candidate, &self.options.open, reach)?,
        };
        let mut import = self;
        if let Rewind::To { txg, .. } = rewind {
            import.options.open.txg = Some(txg);
        }
        if import.is_read_only() && import.has_new_name() {
            // Nothing is written: the new name is one for now.
            import.options.open.name = Some(import.name().to_owned());
        }
        Ok(ImportPlan { import, rewind, denied })
    }
}

impl ImportPlan {
    /// The pool.
    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.import.candidate
    }

    /// The name that it gets.
    #[must_use]
    pub fn name(&self) -> &str {
        self.import.name()
    }

    /// It is only read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.import.is_read_only()
    }

    /// The state that it goes back to; of a pool that is only read, the one that is read.
    #[must_use]
    pub fn rewind(&self) -> &Rewind {
        &self.rewind
    }

    /// Devices that this user may not open, of a pool that is only read.
    #[must_use]
    pub fn denied(&self) -> &[PathBuf] {
        &self.denied
    }

    /// How the pool is opened.
    #[must_use]
    pub fn options(&self) -> &ImportOptions {
        &self.import.options
    }

    /// Puts what this import decides into options that were made for the same pool, as by a front
    /// end that has found its devices again.
    pub fn adjust(&self, options: &mut ImportOptions) {
        let of = self.options();
        options.force = of.force;
        options.destroyed = of.destroyed;
        options.adopt_paths = of.adopt_paths;
        options.logs = of.logs;
        options.open.txg = of.open.txg;
        options.open.checkpoint |= of.open.checkpoint;
        options.rename.clone_from(&of.rename);
        if of.open.name.is_some() {
            options.open.name.clone_from(&of.open.name);
        }
    }

    /// Whether the pool is still not imported, and its name not another's. A front end that waits
    /// for other programs asks after the wait.
    ///
    /// # Errors
    /// It is, or another has it.
    pub fn check_conflict(&self, list: &dyn ImportList) -> Result<()> {
        self.import.check_conflict(list)
    }

    /// Whether the pool can be opened so. Its devices are not taken from others, and nothing is
    /// written.
    ///
    /// # Errors
    /// It cannot.
    pub fn check_open(&self) -> Result<()> {
        match self.is_read_only() {
            true => Ok(Pool::open_candidate(self.candidate(), &self.options().open).map(drop)?),
            false => Ok(check_import(&self.options().open.rt, self.candidate(), self.options())?),
        }
    }

    /// Opens the pool, which is on no list yet: what [`Self::run`] begins with.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self) -> Result<ImportedPool> {
        let (candidate, options) = (self.candidate(), self.options());
        if self.is_read_only() {
            let pool = Pool::open_candidate(candidate, &options.open)?;
            return Ok(ImportedPool::ReadOnly(Box::new(pool)));
        }
        let source = &*options.open.search.source;
        let pool = live::import(&options.open.rt, candidate, options, source)?;
        Ok(ImportedPool::Writable(Box::new(pool)))
    }

    /// Imports the pool.
    ///
    /// # Errors
    /// It cannot be opened, or cannot be added to the list: then it is exported again.
    pub fn run(self, list: &dyn ImportList) -> Result<ImportedPool> {
        self.run_with(list, Self::open)
    }

    /// The same with another way to open the pool: as [`Self::open`] does, after waiting for others
    /// that have it.
    ///
    /// # Errors
    /// Those of [`Self::run`], and of `open`.
    pub fn run_with<E: From<Error>>(
        self,
        list: &dyn ImportList,
        open: impl FnOnce(&Self) -> std::result::Result<ImportedPool, E>,
    ) -> std::result::Result<ImportedPool, E> {
        self.check_conflict(list)?;
        let pool = open(&self)?;
        let held = list.hold();
        let added = self.check_conflict(list).and_then(|()| list.add(&self.entry(&pool)));
        drop(held);
        if let Err(e) = added {
            if let ImportedPool::Writable(pool) = pool {
                pool.export().map_err(Error::from)?;
            }
            return Err(self.import.named(e).into());
        }
        if let ImportedPool::Writable(pool) = &pool {
            self.import.write_down(pool)?;
        }
        Ok(pool)
    }

    fn entry(&self, pool: &ImportedPool) -> ImportEntry {
        let open = &self.options().open;
        let state = match open.txg {
            _ if !self.is_read_only() => None,
            Some(txg) => Some(EarlierState::Txg(txg)),
            None => open.checkpoint.then_some(EarlierState::Checkpoint),
        };
        let config = match pool {
            ImportedPool::ReadOnly(pool) => cache_config(pool),
            ImportedPool::Writable(pool) => pool.cache_config(),
        };
        let (name, is_read_only) = (self.name().to_owned(), self.is_read_only());
        ImportEntry { guid: pool.view().guid(), config, name, is_read_only, state }
    }
}

impl Import {
    /// Stores the settings, and then the line of the history: when that is durable, all is.
    fn write_down(self, pool: &LivePool) -> Result<()> {
        self.settings.into_iter().try_for_each(|setting| setting.store(pool))?;
        self.invocation.iter().try_for_each(|line| pool.log(line))?;
        Ok(())
    }
}

impl ImportedPool {
    /// The pool, for reading.
    #[must_use]
    pub fn view(&self) -> &Pool {
        match self {
            Self::ReadOnly(pool) => pool,
            Self::Writable(pool) => pool.view(),
        }
    }

    /// Closes the pool, which stays imported. Before that `wait` gets one that can be changed, and
    /// should stay until devices that came back have what they missed: an import begins to copy
    /// that, and when the pool is closed the next one would begin anew.
    ///
    /// # Errors
    /// What was changed last cannot be written.
    pub fn close(self, list: &dyn ImportList, wait: impl FnOnce(&LivePool)) -> Result<()> {
        let Self::Writable(pool) = self else { return Ok(()) };
        wait(&pool);
        list.refresh(&pool);
        Ok(pool.close()?)
    }
}
