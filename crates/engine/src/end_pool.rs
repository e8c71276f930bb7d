//! The end of a pool on a machine: it is exported or destroyed, in this order.
//!
//! ```text
//! EndPool::begin    it would be found again; by force nothing waits for its devices any more
//!   (the program unmounts, and waits for what else works with the pool)
//! PoolEnd::log      the line of the history: when it is durable, so is all that was changed
//! PoolEnd::finish   what is dirty; the state in the labels; closed; off the list
//! ```
//!
//! Until the line is durable, a step that fails leaves the pool open, and on the list of imported
//! pools. Behind it the pool is closed in any case, and stays on the list when its labels could not
//! be written: nothing says then that it is free. By force it is let go of all the same, and how it
//! was left is a value ([`Ended`]), not an error: the caller says what was lost.
//!
//! Nothing on the devices is erased, not even when the pool is destroyed: all that is written are
//! labels with another state, and the pool can be imported again until its devices are used for
//! something else.
//!
//! A pool that no process has is opened for that ([`EndPool::run_when_free`]). Where that fails
//! because of the pool itself, no process can write to it: an export gives it up when it is on the
//! list, and so does one by force whatever fails; a destruction by force marks the labels that are
//! there. A pool that was imported to be read only is not written to at its end either.
//!
//! A process that had a pool for a time lets go of it ([`let_go`]): that ends only what is not on
//! the list.

use crate::contention::{Busy, PoolSearch, Waiter, mark_destroyed_when_free, open_when_free};
use crate::error::{Error, Result};
use device::DeviceSource;
use pool::Candidate;
use pool::live::{Invocation, LivePool};
use rt::Rt;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// How the machine's list of imported pools has a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListedAs {
    /// It is not on the list.
    #[default]
    NotListed,
    /// It was imported, and can be written to.
    ReadWrite,
    /// It was imported to be read only.
    ReadOnly,
}

/// A pool that is to be exported or destroyed.
///
/// ```
/// use engine::live::Invocation;
/// use engine::pools::{EndPool, Ended};
/// use engine::{NewPool, OpenOptions, Pool};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// let pool = NewPool::new("tank").file(&image, 64 << 20)?.create()?;
/// let line = Invocation { command: "zpool export tank".into(), ..Invocation::default() };
/// let end = EndPool::export().by(line).begin(&pool)?;
/// // Here a program unmounts, and gets the pool back from its threads.
/// end.log(&pool)?;
/// let mut listed = vec![pool.guid()];
/// let ended = end.finish(pool, |guid| listed.retain(|one| *one != guid))?;
/// assert!(matches!(ended, Ended::Complete) && listed.is_empty());
/// assert!(Pool::open("tank", &OpenOptions::in_places([&image])).is_ok());
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EndPool {
    destroys: bool,
    force: bool,
    line: Option<Invocation>,
    listed: ListedAs,
}

/// The end of a pool that has begun: nothing is written yet.
#[must_use]
pub struct PoolEnd {
    end: EndPool,
    /// Devices of it are gone.
    lost: Option<Error>,
}

/// How a pool was left that was open.
#[derive(Debug)]
pub enum Ended {
    /// Its labels say that it is exported or destroyed.
    Complete,
    /// By force: it had been stopped or suspended for this reason. What was not durable by then is
    /// lost, and its labels say that it is in use.
    Suspended(Arc<str>),
    /// By force: devices that are gone, as this says, had data that is on no other.
    Lost(Error),
}

/// What became of a pool that no process had ([`EndPool::run_when_free`]).
#[derive(Debug)]
pub enum Closed<F, E> {
    /// It was opened, and ended.
    Ended(Ended),
    /// It could not be: the labels of the devices that were found say that it is destroyed.
    Marked,
    /// It could not be, for this reason, and its labels are as they were. No process has it, and
    /// none can: the caller takes it off the list of imported pools, and says why.
    GivenUp(F, E),
    /// It was imported to be read only, or by force is left as it is because it is not there:
    /// nothing was written. The caller takes it off the list of imported pools.
    Untouched,
}

/// What a program does while [`EndPool::run_when_free`] works.
pub trait EndObserver<F> {
    /// The pool is open.
    fn opened(&mut self, found: &F, pool: &LivePool) {
        let _ = (found, pool);
    }

    /// All that was changed is durable; what is left are the labels.
    fn logged(&mut self, pool: &LivePool) {
        let _ = pool;
    }

    /// Takes the pool off the list of imported pools. It had this guid last.
    fn forget(&mut self, found: &F, guid: u64);
}

impl EndPool {
    /// It is free for other hosts.
    #[must_use]
    pub fn export() -> Self {
        Self { destroys: false, force: false, line: None, listed: ListedAs::NotListed }
    }

    /// It is not needed any more. It can still be imported as a destroyed one.
    #[must_use]
    pub fn destroy() -> Self {
        Self { destroys: true, ..Self::export() }
    }

    /// With this line in its history.
    #[must_use]
    pub fn by(self, line: Invocation) -> Self {
        Self { line: Some(line), ..self }
    }

    /// The list of imported pools has it like this.
    #[must_use]
    pub fn listed(self, listed: ListedAs) -> Self {
        Self { listed, ..self }
    }

    /// Also when it is left as after a crash, because its devices fail or are gone.
    #[must_use]
    pub fn by_force(self, force: bool) -> Self {
        Self { force, ..self }
    }

    /// Begins with a pool that is open. One that would not be found again is kept, so that its data
    /// can be copied out; by force no thread waits for its devices from now on.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Displaced`]: devices are not where they were opened. Not by force. One
    /// that is suspended cannot be destroyed, by force neither: its labels cannot say so, and what
    /// waits for its devices would be lost for nothing.
    pub fn begin(&self, pool: &LivePool) -> Result<PoolEnd> {
        if self.destroys && pool.is_waiting() {
            pool.check_takes_changes()?;
        }
        let lost = match pool.can_be_found() {
            Err(e) if !self.force => return Err(e.into()),
            found => found.err().map(Error::from),
        };
        if self.force {
            pool.stop_waiting();
        }
        Ok(PoolEnd { end: self.clone(), lost })
    }

    /// Opens for writing what `search` finds, with the devices of `source`, when other processes
    /// that have it are done, and ends it. That another host used it last is for the options of
    /// `search` to overlook.
    ///
    /// ```
    /// use engine::devices::AnyDevices;
    /// use engine::live::ImportOptions;
    /// use engine::pools::{ByName, Closed, EndObserver, EndPool, Ended, WaitUpTo};
    /// use engine::{Candidate, NewPool, OpenOptions, Rt};
    /// use std::time::Duration;
    ///
    /// struct List(Vec<u64>);
    /// impl EndObserver<Candidate> for List {
    ///     fn forget(&mut self, _: &Candidate, guid: u64) {
    ///         self.0.retain(|one| *one != guid);
    ///     }
    /// }
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let image = folder.path().join("pool.img");
    /// let pool = NewPool::new("tank").file(&image, 64 << 20)?.create()?;
    /// let mut list = List(vec![pool.guid()]);
    /// pool.close()?;
    /// let options = ImportOptions::new(OpenOptions::in_places([&image]));
    /// let (rt, mut search) = (Rt::real(), ByName::new("tank", options));
    /// let (source, wait) = (AnyDevices::default(), WaitUpTo::new(&rt, Duration::from_secs(9)));
    /// let done = EndPool::destroy().run_when_free(&rt, &mut search, &source, &wait, &mut list)?;
    /// assert!(matches!(done, Closed::Ended(Ended::Complete)) && list.0.is_empty());
    /// # Ok::<(), engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `search` and `waiter`: the pool is as it was, and on the list. A failure behind the
    /// line of the history leaves it as after a crash.
    pub fn run_when_free<S: PoolSearch>(
        &self,
        rt: &Rt,
        search: &mut S,
        source: &dyn DeviceSource,
        waiter: &dyn Waiter<S::Error>,
        observer: &mut dyn EndObserver<S::Found>,
    ) -> std::result::Result<Closed<S::Found, S::Error>, S::Error> {
        if self.is_untouched(search) {
            return Ok(Closed::Untouched);
        }
        let noted = Noting::new(waiter);
        let why = match self.open_and_end(rt, search, source, &noted, observer) {
            Err(e) if noted.failed().is_some_and(|is_of_pool| self.gives_up(is_of_pool)) => e,
            done => return done.map(Closed::Ended),
        };
        let found = search.find()?;
        if !self.destroys {
            return Ok(Closed::GivenUp(found, why));
        }
        let noted = Noting::new(waiter);
        match mark_destroyed_when_free(rt, S::candidate(&found), source, &noted) {
            Ok(()) => {
                observer.forget(&found, S::candidate(&found).config.pool_guid);
                Ok(Closed::Marked)
            }
            Err(e) if noted.failed().is_some() => Ok(Closed::GivenUp(found, e)),
            Err(e) => Err(e),
        }
    }

    /// Whether it is enough that it is not on the list any more. A pool that is only read is
    /// destroyed by force alone: its labels will not say so.
    fn is_untouched<S: PoolSearch>(&self, search: &mut S) -> bool {
        match (self.listed, self.destroys) {
            (ListedAs::NotListed, _) | (ListedAs::ReadWrite, true) => false,
            (ListedAs::ReadWrite, false) => self.force && search.find().is_err(),
            (ListedAs::ReadOnly, destroys) => self.force || !destroys,
        }
    }

    fn open_and_end<S: PoolSearch>(
        &self,
        rt: &Rt,
        search: &mut S,
        source: &dyn DeviceSource,
        noted: &Noting<'_, S::Error>,
        observer: &mut dyn EndObserver<S::Found>,
    ) -> std::result::Result<Ended, S::Error> {
        let alone = |e| noted.failed_alone(e);
        let (found, pool) = open_when_free(rt, search, source, noted)?;
        observer.opened(&found, &pool);
        let end = self.begin(&pool).map_err(alone)?;
        end.log(&pool).map_err(alone)?;
        observer.logged(&pool);
        end.finish(pool, |guid| observer.forget(&found, guid)).map_err(alone)
    }

    /// Whether a pool is given up that this process alone had and could not end: because of the
    /// pool itself, or not. An export gives up what is on the list: it is enough that it is not any
    /// more.
    fn gives_up(&self, is_of_pool: bool) -> bool {
        match self.destroys {
            true => self.force,
            false => (self.force || is_of_pool) && self.listed != ListedAs::NotListed,
        }
    }
}

/// Lets go of a pool that this process had for a time, and has all of it made durable. One that is
/// on the list stays imported; another is exported, and then `forget` is called with its guid, as
/// by [`PoolEnd::finish`].
///
/// # Errors
/// The devices fail. The pool is closed, as after a crash.
pub fn let_go(pool: LivePool, listed: ListedAs, forget: impl FnOnce(u64)) -> Result<()> {
    if listed != ListedAs::NotListed {
        return Ok(pool.close()?);
    }
    let guid = pool.guid();
    pool.export()?;
    forget(guid);
    Ok(())
}

impl PoolEnd {
    /// Writes the line of the history. When it is durable, all that was changed before is. By force
    /// that is not needed of a pool that is stopped, or has lost devices.
    ///
    /// # Errors
    /// The pool takes no changes. It is open, and on the list.
    pub fn log(&self, pool: &LivePool) -> Result<()> {
        let Some(line) = &self.end.line else { return Ok(()) };
        match pool.log(line) {
            Err(_) if self.end.force && self.is_cut_off(pool) => Ok(()),
            done => Ok(done?),
        }
    }

    fn is_cut_off(&self, pool: &LivePool) -> bool {
        self.lost.is_some() || pool.suspended().is_some()
    }

    /// Makes durable what is dirty, says in the labels that the pool is exported or destroyed,
    /// closes it, and then has it forgotten: `forget` takes the pool of this guid off the list of
    /// imported ones ([`crate::pools::ImportList::remove`]). When that is cut off, the list names a
    /// pool that its labels say is free, and not the other way round.
    ///
    /// # Errors
    /// The devices fail. The pool is closed, as after a crash, and on the list.
    pub fn finish(self, pool: LivePool, forget: impl FnOnce(u64)) -> Result<Ended> {
        let (guid, stopped) = (pool.guid(), pool.suspended());
        let left = if self.end.destroys { pool.destroy() } else { pool.export() };
        let ended = match (left, stopped, self.lost) {
            (Ok(()), ..) => Ended::Complete,
            (Err(_), Some(why), _) => Ended::Suspended(why),
            (Err(_), None, Some(why)) => Ended::Lost(why),
            (Err(e), None, None) => return Err(e.into()),
        };
        forget(guid);
        Ok(ended)
    }
}

/// A waiter that notes what failed while this process alone had the devices of the pool, and
/// whether it was the pool itself.
struct Noting<'a, E> {
    waiter: &'a dyn Waiter<E>,
    failed: Cell<Option<bool>>,
}

impl<'a, E> Noting<'a, E> {
    fn new(waiter: &'a dyn Waiter<E>) -> Self {
        Self { waiter, failed: Cell::new(None) }
    }

    fn failed(&self) -> Option<bool> {
        self.failed.get()
    }
}

impl<E: From<Error>> Waiter<E> for Noting<'_, E> {
    fn wait(&self, busy: Busy<'_>) -> std::result::Result<(), E> {
        self.waiter.wait(busy)
    }

    fn begins_to_watch(&self, pool: &Candidate, time: Duration) {
        self.waiter.begins_to_watch(pool, time);
    }

    fn failed_alone(&self, error: Error) -> E {
        self.failed.set(Some(error.kind().is_of_pool()));
        self.waiter.failed_alone(error)
    }
}
