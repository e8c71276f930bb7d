//! Processes at the same time: one has a pool for writing, the others wait for it.
//!
//! What they wait for is the lock on the pool's devices (the crate `device`), which ends with the
//! process that has it, however that ends. A process that wants to write takes the locks of all
//! devices, in the order of their guids so that two never wait for each other, and then looks at
//! the pool: its view from before the wait may be outdated. One that reads waits until no other
//! writes.
//!
//! ```text
//! open_when_free   find  ->  lock all devices  ->  find again, if anything may have changed
//!                    ^           |                   ->  lock what is new  ->  import
//!                    +- Waiter --+  another process has one
//! ```
//!
//! How a pool is found is up to a [`PoolSearch`]; how long others are waited for, and what is said
//! about them, to a [`Waiter`].

use crate::devices::{Process, locked_by, open_to_read, whole};
use crate::error::{Error, ErrorKind, Place, Result};
use core::time::Duration;
use device::{DeviceSource, ErrorKind as DeviceErrorKind, WriteDeviceRef};
use pool::live::{self, ImportOptions, LivePool, check_elsewhere, check_import, multihost_wait};
use pool::{Candidate, Choice, Destroyed, scan};
use rt::Rt;
use std::fs::{File, TryLockError};
use std::path::PathBuf;

/// A lock that took no longer was free.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Between two tries of [`WaitUpTo`].
const PAUSE: Duration = Duration::from_millis(5);

/// Decides how long a process waits for others that have a pool. `E` are the errors of the front
/// end.
pub trait Waiter<E: From<Error>> {
    /// Another process has the pool. Returns after a pause, and the pool is tried again.
    ///
    /// # Errors
    /// It is not waited for any longer; usually [`Busy::into_error`].
    fn wait(&self, busy: Busy<'_>) -> std::result::Result<(), E>;

    /// The pool is about to be watched for that time, because another host may write to it
    /// (multihost).
    fn begins_to_watch(&self, pool: &Candidate, time: Duration) {
        let _ = (pool, time);
    }

    /// The error of what failed while this process alone had the devices of the pool: others are
    /// not in the way.
    fn failed_alone(&self, error: Error) -> E {
        error.into()
    }
}

/// A pool that another process has.
pub struct Busy<'a> {
    candidate: &'a Candidate,
    waited: Duration,
    error: Error,
}

impl Busy<'_> {
    /// The pool.
    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        self.candidate
    }

    /// How long it was waited for.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The process that has one of its devices locked, where the system tells.
    #[must_use]
    pub fn holder(&self) -> Option<Process> {
        let leaves = self.candidate.leaves.values();
        locked_by(&leaves.map(|leaf| leaf.path.clone()).collect::<Vec<PathBuf>>())
    }

    /// The error of one that does not wait any longer: [`ErrorKind::InUse`], at the pool.
    #[must_use]
    pub fn into_error(self) -> Error {
        self.error
    }
}

/// Waits up to this time.
#[derive(Clone)]
pub struct WaitUpTo {
    time: Duration,
    rt: Rt,
}

impl WaitUpTo {
    /// Zero: not at all.
    #[must_use]
    pub fn new(rt: &Rt, time: Duration) -> Self {
        Self { time, rt: rt.clone() }
    }
}

impl<E: From<Error>> Waiter<E> for WaitUpTo {
    fn wait(&self, busy: Busy<'_>) -> std::result::Result<(), E> {
        if busy.waited() >= self.time {
            return Err(busy.into_error().into());
        }
        self.rt.sleep(PAUSE);
        Ok(())
    }
}

/// Finds a pool that is to be opened for writing, as often as needed: while another process has it,
/// it may get more devices, or be exported.
pub trait PoolSearch {
    /// What is found.
    type Found;
    /// The errors of the front end.
    type Error: From<Error>;

    /// Looks for the pool.
    ///
    /// # Errors
    /// It is not there, or is not to be opened for writing.
    fn find(&mut self) -> std::result::Result<Self::Found, Self::Error>;

    /// The pool that was found.
    fn candidate(found: &Self::Found) -> &Candidate;

    /// How it is opened. Called when this process has all its devices.
    fn options(&self, found: &Self::Found) -> ImportOptions;

    /// Whether the pool is known to have changed since it was found.
    fn is_outdated(&self, found: &Self::Found) -> bool {
        let _ = found;
        false
    }
}

/// Opens for writing, by its name or guid, a pool that other processes may have. The search and the
/// source of its devices are those of the options, and a name means what it means to
/// [`LivePool::open`], which does not wait.
///
/// ```
/// use engine::live::ImportOptions;
/// use engine::pools::{ByName, WaitUpTo};
/// use engine::{ErrorKind, NewPool, OpenOptions, Rt};
/// use std::time::Duration;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let options = || ImportOptions::new(OpenOptions::in_places([&image]));
/// let wait = |time| WaitUpTo::new(&Rt::real(), Duration::from_millis(time));
///
/// let pool = ByName::new("tank", options()).open(&wait(0))?;
/// // As long as one has it, another is refused, or waits.
/// let busy = ByName::new("tank", options()).open(&wait(10)).err().unwrap();
/// assert_eq!(*busy.kind(), ErrorKind::InUse);
/// pool.close()?;
/// ByName::new("tank", options()).open(&wait(10))?.export()?;
/// # Ok::<(), engine::Error>(())
/// ```
pub struct ByName<'a> {
    wanted: &'a str,
    options: ImportOptions,
}

impl<'a> ByName<'a> {
    /// The pool of this name or guid, which is opened in this way.
    #[must_use]
    pub fn new(wanted: &'a str, options: ImportOptions) -> Self {
        Self { wanted, options }
    }

    /// Opens it.
    ///
    /// # Errors
    /// It is not found, it is still another process's when `waiter` gives up, or it cannot be
    /// opened for writing.
    pub fn open(mut self, waiter: &dyn Waiter<Error>) -> Result<LivePool> {
        let open = &self.options.open;
        let (rt, source) = (open.rt.clone(), open.search.source.clone());
        let (_, pool) = open_when_free(&rt, &mut self, &*source, waiter)?;
        Ok(pool)
    }
}

impl PoolSearch for ByName<'_> {
    type Found = Candidate;
    type Error = Error;

    fn find(&mut self) -> Result<Candidate> {
        let destroyed = match self.options.destroyed {
            true => Destroyed::IfNoOther,
            false => Destroyed::ByGuid,
        };
        let (choice, search) = (Choice::of(self.wanted), &self.options.open.search);
        let found = Candidate::group(&scan(search)?);
        Ok(choice.destroyed(destroyed).among(found, &search.paths)?)
    }

    fn candidate(found: &Candidate) -> &Candidate {
        found
    }

    fn options(&self, _: &Candidate) -> ImportOptions {
        self.options.clone()
    }
}

/// Opens for writing what `search` finds, with the devices of `source`, when other processes that
/// have it are done. It is searched for again after each wait.
///
/// # Errors
/// Those of `search` and `waiter`, and of [`live::import`].
pub fn open_when_free<S: PoolSearch>(
    rt: &Rt,
    search: &mut S,
    source: &dyn DeviceSource,
    waiter: &dyn Waiter<S::Error>,
) -> std::result::Result<(S::Found, LivePool), S::Error> {
    let turn = Turn { rt, source, waiter, began: rt.now() };
    let mut waited = false;
    loop {
        let mut found = search.find()?;
        let looked = rt.now();
        let elsewhere = check_elsewhere(S::candidate(&found), &search.options(&found));
        elsewhere.map_err(|e| waiter.failed_alone(e.into()))?;
        let Some(mut held) = turn.try_lock(S::candidate(&found))? else {
            waited = true;
            continue;
        };
        // Devices that are free are locked in less time than others take to change anything.
        let took = rt.now().saturating_sub(looked);
        if waited || took >= AT_ONCE || search.is_outdated(&found) {
            found = search.find()?;
        }
        for _ in 0..2 {
            // A device that was added meanwhile may still be in another process's hands.
            match lock(S::candidate(&found), source) {
                Ok(devices) => held.extend(devices),
                Err(failed) => {
                    drop(held);
                    turn.wait(S::candidate(&found), failed)?;
                    break;
                }
            }
            turn.say_if_watched(S::candidate(&found));
            match live::import(rt, S::candidate(&found), &search.options(&found), source) {
                Ok(pool) => return Ok((found, pool)),
                // The view from before the lock is outdated. There is no other writer now.
                Err(e) => match Error::from(e) {
                    e if !waited && is_overtaken(&e) => found = search.find()?,
                    e => return Err(waiter.failed_alone(e)),
                },
            }
            waited = true;
        }
        waited = true;
    }
}

/// Whether [`open_when_free`] would open this pool: its devices are had for a moment, and nothing
/// of them is changed.
///
/// # Errors
/// It would not.
pub fn check_when_free<E: From<Error>>(
    candidate: &Candidate,
    options: &ImportOptions,
    source: &dyn DeviceSource,
    waiter: &dyn Waiter<E>,
) -> std::result::Result<(), E> {
    let rt = &options.open.rt;
    check_elsewhere(candidate, options).map_err(|e| waiter.failed_alone(e.into()))?;
    let turn = Turn { rt, source, waiter, began: rt.now() };
    let _held = turn.lock(candidate)?;
    turn.say_if_watched(candidate);
    check_import(rt, candidate, options).map_err(|e| waiter.failed_alone(e.into()))
}

/// Says in the labels of the devices that were found that the pool is destroyed, when no other
/// process has them.
///
/// # Errors
/// Another has them, or they cannot be written.
pub fn mark_destroyed_when_free<E: From<Error>>(
    rt: &Rt,
    candidate: &Candidate,
    source: &dyn DeviceSource,
    waiter: &dyn Waiter<E>,
) -> std::result::Result<(), E> {
    let turn = Turn { rt, source, waiter, began: rt.now() };
    let _held = turn.lock(candidate)?;
    turn.say_if_watched(candidate);
    let marked = live::mark_destroyed(rt, candidate, source);
    marked.map_err(|e| waiter.failed_alone(e.into()))
}

/// As long as this is kept, no process that asks for locks writes to a pool.
pub struct NoWriters {
    /// One wrote to it when it was looked at: what was known of the pool is outdated.
    pub had_to_wait: bool,
    _locks: Vec<File>,
}

/// Waits until no process writes to the pool.
///
/// # Errors
/// The error of `waiter`, which does not wait any longer.
pub fn wait_for_writers<E: From<Error>>(
    rt: &Rt,
    candidate: &Candidate,
    waiter: &dyn Waiter<E>,
) -> std::result::Result<NoWriters, E> {
    let began = rt.now();
    let (mut had_to_wait, mut locks) = (false, Vec::new());
    for leaf in candidate.leaves.values() {
        let Ok(file) = open_to_read(&whole(&leaf.path)) else { continue };
        while let Err(TryLockError::WouldBlock) = file.try_lock_shared() {
            had_to_wait = true;
            let pool = candidate.name().to_owned();
            let error = Error::from(pool::Error::InUse { pool });
            let waited = rt.now().saturating_sub(began);
            waiter.wait(Busy { candidate, waited, error })?;
        }
        // A file system without locks has none that are held.
        locks.push(file);
    }
    Ok(NoWriters { had_to_wait, _locks: locks })
}

/// A process that wants the devices of a pool.
struct Turn<'a, E> {
    rt: &'a Rt,
    source: &'a dyn DeviceSource,
    waiter: &'a dyn Waiter<E>,
    /// When it began to wait.
    began: Duration,
}

impl<E: From<Error>> Turn<'_, E> {
    /// Locks the devices. `None`: another process has one; it was waited for, and what was found
    /// may be outdated.
    fn try_lock(
        &self,
        candidate: &Candidate,
    ) -> std::result::Result<Option<Vec<WriteDeviceRef>>, E> {
        match lock(candidate, self.source) {
            Ok(held) => Ok(Some(held)),
            Err(failed) => self.wait(candidate, failed).map(|()| None),
        }
    }

    /// Locks the devices, when others that have them are done.
    fn lock(&self, candidate: &Candidate) -> std::result::Result<Vec<WriteDeviceRef>, E> {
        loop {
            if let Some(held) = self.try_lock(candidate)? {
                return Ok(held);
            }
        }
    }

    fn say_if_watched(&self, candidate: &Candidate) {
        if let Some(time) = multihost_wait(candidate) {
            self.waiter.begins_to_watch(candidate, time);
        }
    }

    fn wait(&self, candidate: &Candidate, failed: device::Error) -> std::result::Result<(), E> {
        let is_in_use = failed.kind == DeviceErrorKind::InUse;
        let pool = candidate.name().to_owned();
        let cause = pool::Error::Device { pool: pool.clone(), cause: failed };
        if !is_in_use {
            return Err(Error::from(cause).into());
        }
        let error = Error::new(ErrorKind::InUse).at(Place::Pool(pool)).because(cause);
        let waited = self.rt.now().saturating_sub(self.began);
        self.waiter.wait(Busy { candidate, waited, error })
    }
}

/// The devices are another writer's, or have changed while they were looked at.
fn is_overtaken(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::InUse | ErrorKind::DamagedPool | ErrorKind::NoUberblock)
}

/// Locks the devices of a pool, as long as the result is held. Devices that cannot be opened for
/// writing are left to the import.
fn lock(
    candidate: &Candidate,
    source: &dyn DeviceSource,
) -> std::result::Result<Vec<WriteDeviceRef>, device::Error> {
    let mut held = Vec::new();
    for leaf in candidate.leaves.values() {
        match source.claim(&leaf.path) {
            Err(e) if !e.kind.is_of_device() => return Err(e),
            Err(_) => {}
            Ok(device) => held.push(device),
        }
    }
    Ok(held)
}
