//! Commands at the same time: one has a pool for writing, the others queue for it.
//!
//! The queue is the lock on the pool's devices (the crate `device`), which ends with the process
//! that has it, however that ends. A process that wants to write takes the locks of all devices, in
//! the order of their guids so that two never wait for each other, and then looks at the pool: its
//! view from before the wait may be outdated. One that reads waits until no other writes. Both wait
//! for [`Wait::patience`], and then report which process has the pool.

use crate::args::{PAUSE, Wait};
use crate::failure::Failure;
use crate::served::{self, Server};
use crate::session::Session;
use crate::{known, ui};
use engine::Rt;
use engine::devices::{AnyDevices, DeviceErrorKind, DeviceSource as _, Process, WriteDeviceRef};
use engine::devices::{locked_by, open_to_read, whole};
use engine::live;
use engine::live::ImportOptions;
use engine::{Candidate, Error, ErrorKind, LivePool};
use imported::Found;
use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks for a server by a command that waits.
const BETWEEN_SERVERS: Duration = Duration::from_millis(100);
/// A lock that took no longer was free.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Opens for writing the pool that `find` finds, with `options`. While the pool is another
/// process's, it is searched for again and again: it may get more devices, be exported, or be
/// served, and then a `find` that tries servers first has the command carried out there.
pub fn take(
    session: &Session,
    wait: Wait,
    mut find: impl FnMut() -> Result<Found, Failure>,
    options: impl Fn(&Found) -> ImportOptions,
) -> Result<(Found, LivePool), Failure> {
    let (began, patience) = (Instant::now(), wait.patience(session)?);
    let is_over = || began.elapsed() >= patience;
    let mut waited = false;
    loop {
        let mut found = find()?;
        let looked = Instant::now();
        let disks = AnyDevices::default();
        let mut held = match lock(&found.candidate, &disks) {
            Ok(held) => held,
            Err(failed) if !failed.is_in_use || is_over() => {
                return Err(failed.explain(session, &found.candidate));
            }
            Err(failed) if Server::holds(session, found.guid()) => {
                // Those that can go on there do not return.
                let found = find()?;
                return Err(failed.explain(session, &found.candidate));
            }
            Err(_) => {
                waited = true;
                continue;
            }
        };
        // Devices that are free are locked in less time than others take to change anything.
        if waited || looked.elapsed() >= AT_ONCE || found.is_overtaken(&known::pools(session)) {
            found = find()?;
        }
        ui::runs_on(session);
        for _ in 0..2 {
            // A device that was added meanwhile may still be in another process's hands.
            match lock(&found.candidate, &disks) {
                Err(failed) if !failed.is_in_use || is_over() => {
                    return Err(failed.explain(session, &found.candidate));
                }
                Err(_) => break,
                Ok(devices) => held.extend(devices),
            }
            match live::import(&Rt::real(), &found.candidate, &options(&found), &disks) {
                Ok(pool) => return Ok((found, pool)),
                // The view from before the lock is outdated. There is no other writer now.
                Err(e) => match Error::from(e) {
                    e if !waited && is_overtaken(&e) => found = find()?,
                    e => return Err(Failure::from(e).while_held()),
                },
            }
            waited = true;
        }
        waited = true;
    }
}

/// Whether [`take`] would open this pool: its devices are had for a moment, and nothing of them is
/// changed.
pub fn check(
    session: &Session,
    wait: Wait,
    candidate: &Candidate,
    options: &ImportOptions,
) -> Result<(), Failure> {
    let _held = lock_when_free(session, wait, candidate, &AnyDevices::default())?;
    let checked = live::check_import(&options.open.rt, candidate, options);
    checked.map_err(|e| Failure::from(e).while_held())
}

/// Says in the labels of the devices that were found that the pool is destroyed, when nothing else
/// has them.
pub fn mark_destroyed(session: &Session, wait: Wait, candidate: &Candidate) -> Result<(), Failure> {
    // The same source: it has what it has locked.
    let disks = AnyDevices::default();
    let _held = lock_when_free(session, wait, candidate, &disks)?;
    live::mark_destroyed(&Rt::real(), candidate, &disks).map_err(|e| Failure::from(e).while_held())
}

/// Locks the devices of a pool when others that have them are done. A server does not end by
/// itself: that one has them fails at once.
fn lock_when_free(
    session: &Session,
    wait: Wait,
    candidate: &Candidate,
    disks: &AnyDevices,
) -> Result<Vec<WriteDeviceRef>, Failure> {
    let (began, patience) = (Instant::now(), wait.patience(session)?);
    let guid = candidate.config.pool_guid;
    loop {
        match lock(candidate, disks) {
            Ok(held) => return Ok(held),
            Err(failed)
                if !failed.is_in_use
                    || began.elapsed() >= patience
                    || Server::holds(session, guid) =>
            {
                return Err(failed.explain(session, candidate));
            }
            Err(_) => session.sleep(PAUSE)?,
        }
    }
}

/// The devices are another writer's, or have changed while they were looked at.
fn is_overtaken(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::InUse | ErrorKind::DamagedPool | ErrorKind::NoUberblock)
}

/// Why devices could not be locked.
struct NotLocked {
    is_in_use: bool,
    error: Error,
}

/// Locks the devices of a pool, as long as the result is held. Devices that cannot be opened for
/// writing are left to the import.
fn lock(candidate: &Candidate, disks: &AnyDevices) -> Result<Vec<WriteDeviceRef>, NotLocked> {
    let mut held = Vec::new();
    for sight in candidate.leaves.values() {
        match disks.claim(&sight.path) {
            Err(cause) if !cause.kind.is_of_device() => {
                let is_in_use = cause.kind == DeviceErrorKind::InUse;
                let error = Error::of_device(candidate.name(), cause);
                return Err(NotLocked { is_in_use, error });
            }
            Err(_) => {}
            Ok(device) => held.push(device),
        }
    }
    Ok(held)
}

impl NotLocked {
    fn explain(self, session: &Session, candidate: &Candidate) -> Failure {
        let failure = Failure::from(self.error);
        if !self.is_in_use {
            return failure;
        }
        let paths: Vec<PathBuf> = candidate.leaves.values().map(|l| l.path.clone()).collect();
        let guid = candidate.config.pool_guid;
        let is_served = Server::holds(session, guid);
        let failure = match holder(&paths).filter(|_| !is_served) {
            Some(process) => failure.because(format!("{process} has it")),
            None => failure,
        };
        served::held_by(session, guid, failure)
    }
}

/// Waits until no process writes to the pool. With `keep` none does until this one ends. A server
/// does not end by itself: that one has the pool fails at once.
pub fn wait_for_writers(
    session: &Session,
    wait: Wait,
    candidate: &Candidate,
    keep: bool,
) -> Result<bool, Failure> {
    let (began, patience) = (Instant::now(), wait.patience(session)?);
    let guid = candidate.config.pool_guid;
    let mut looked = None;
    let mut locks = Vec::new();
    for sight in candidate.leaves.values() {
        let Ok(file) = open_to_read(&whole(&sight.path)) else { continue };
        while let Err(TryLockError::WouldBlock) = file.try_lock_shared() {
            let is_served = looked.is_none_or(|at: Instant| at.elapsed() >= BETWEEN_SERVERS) && {
                looked = Some(Instant::now());
                Server::holds(session, guid)
            };
            if is_served || began.elapsed() >= patience {
                return Err(served::held_by(session, guid, busy(candidate, &sight.path)));
            }
            session.sleep(PAUSE)?;
        }
        // A file system without locks has none that are held.
        locks.push(file);
    }
    if keep {
        session.process().kept.keep(locks);
    }
    Ok(looked.is_some())
}

fn busy(candidate: &Candidate, path: &Path) -> Failure {
    let failure = Failure::opening(candidate.name(), "pool is busy");
    let failure = match holder(&[path.to_owned()]) {
        Some(process) => failure.because(format!("{process} writes to it")),
        None => failure.because("another process writes to it"),
    };
    failure.hint("--wait SECONDS waits longer")
}

/// The process that has one of these devices locked, by number and command.
pub fn holder(paths: &[PathBuf]) -> Option<String> {
    Some(shown(&locked_by(paths)?))
}

/// A process, by number and command.
pub fn shown(process: &Process) -> String {
    let words: Vec<String> = process.command.iter().map(|word| ui::escape::name(word)).collect();
    match words.is_empty() {
        true => format!("process {}", process.pid),
        false => format!("process {} (`{}`)", process.pid, words.join(" ")),
    }
}
