//! The mounts of this process.
//!
//! A mount is a place in a list of the system, and a connection by which the kernel asks for what
//! is in it. The connection usually ends with the place. It does not where the mount was copied to
//! another mount namespace (a container, a service with mounts of its own) or to a second
//! directory, and where it was detached while programs used it:
//!
//! ```text
//! mounted: in the list, answered
//!    | taken away, by this process or another
//!    +--> gone: the connection ended
//!    +--> lingering: not mounted here, answered for those that still have it
//!            | the last of them lets go; or its connection is aborted, and they get errors
//!            +--> gone
//! ```
//!
//! The list is the system's: it is read for each question, because other programs take mounts away
//! too.

use crate::front::Server;
use crate::kernel::{READER, Session};
use crate::served::{Front, SharedOptions};
use crate::system::{Listed, MountHolder};
use crate::{Error, Options, Snapshots, SpaceFn, system};
use engine::Filesystem;
use parking_lot::{Condvar, Mutex, RwLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long the connection of a mount that was removed by force may take to end: earlier requests
/// are answered first.
const END_WITHIN: Duration = Duration::from_secs(10);
/// After this time it is taken for one that lingers. Nothing uses what could be taken away, so that
/// it ends as soon as its threads run.
const LINGERS_AFTER: Duration = Duration::from_secs(1);
/// What must not linger has this long: a mount namespace that is being made has a copy of every
/// mount for a moment, until its maker takes away what it does not want.
const KEPT_AFTER: Duration = Duration::from_secs(5);

/// The dataset to mount.
pub struct MountSpec {
    /// The dataset or snapshot, as the system shows it.
    pub name: String,
    /// Its files.
    pub fs: Filesystem,
    /// Its space.
    pub space: SpaceFn,
    /// Its snapshots, for `.zfs/snapshot`.
    pub snapshots: Option<Snapshots>,
}

/// A mount of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The dataset or snapshot.
    pub name: String,
    /// Where.
    pub dir: PathBuf,
    /// How.
    pub options: Options,
}

/// How a mount is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// Unless programs use it.
    Politely,
    /// Whatever uses it.
    Forcibly,
}

/// The mounts of this process. Clones are the same ones.
#[derive(Clone)]
pub struct Mounts(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    ended: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    next: u64,
    all: Vec<Entry>,
    /// Those that this process removes: their end is expected.
    leaving: Vec<u64>,
}

/// A mount with its connection.
struct Entry {
    number: u64,
    mounted: Mounted,
    /// The options by which requests are answered.
    options: SharedOptions,
    /// The system's number of the connection; none if it was removed before it could be read.
    connection: Option<u32>,
}

impl Entry {
    fn is_in(&self, listed: &[Listed]) -> bool {
        let is_it = |one: &Listed| one.dir == self.mounted.dir;
        listed.iter().any(|one| is_it(one) && Some(one.connection) == self.connection)
    }
}

impl Mounts {
    /// None yet. `ended` is called when one is gone that [`Self::unmount`] did not take away.
    #[must_use]
    pub fn new(ended: impl Fn() + Send + Sync + 'static) -> Self {
        let shared =
            Shared { state: Mutex::default(), changed: Condvar::new(), ended: Box::new(ended) };
        Self(Arc::new(shared))
    }

    /// Those there are, in the order in which they were made.
    #[must_use]
    pub fn all(&self) -> Vec<Mounted> {
        let listed = system::listed();
        let state = self.0.state.lock();
        let there = state.all.iter().filter(|entry| entry.is_in(&listed));
        there.map(|entry| entry.mounted.clone()).collect()
    }

    /// Those that are seen at these directories, in the order in which they were made: of several
    /// at one, that which was made last. A directory that is named twice has the one below it, too.
    #[must_use]
    pub fn seen_at(&self, dirs: &[PathBuf]) -> Vec<Mounted> {
        let all = self.all();
        let mut is_seen = vec![false; all.len()];
        for dir in dirs {
            let top = (0..all.len()).rfind(|n| !is_seen[*n] && all[*n].dir == *dir);
            top.into_iter().for_each(|n| is_seen[n] = true);
        }
        all.into_iter().zip(is_seen).filter_map(|(one, is_seen)| is_seen.then_some(one)).collect()
    }

    /// The one of a dataset or snapshot that was made last.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<Mounted> {
        let is_its = |entry: &&Entry| entry.mounted.name == name;
        // The system's list is long where there are many: it is not read for nothing.
        self.0.state.lock().all.iter().find(is_its)?;
        let listed = system::listed();
        let state = self.0.state.lock();
        let found = state.all.iter().filter(is_its).rfind(|entry| entry.is_in(&listed))?;
        Some(found.mounted.clone())
    }

    /// Whether nothing is answered for: nothing is mounted, and nothing lingers.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.state.lock().all.is_empty()
    }

    /// Mounts a file system at a directory.
    ///
    /// # Errors
    /// It is not a directory, or is not empty; the system refuses.
    pub fn mount(&self, what: MountSpec, dir: &Path, options: &Options) -> Result<PathBuf, Error> {
        let dir = dir.canonicalize().map_err(|_| Error::NotADirectory(dir.to_owned()))?;
        check_point(&dir, options.overlay)?;
        let device = system::mount(&what.name, &dir, options)?;
        let connection = system::connection_at(&dir);
        let shared = SharedOptions::new(RwLock::new(options.clone()));
        let own = Arc::clone(&shared);
        let fs = what.fs.writable_while(move || own.read().overrides_readonly);
        let front = Front::new(fs, what.space, what.snapshots, Arc::clone(&shared));
        let mounted = Mounted { name: what.name, dir: dir.clone(), options: options.clone() };
        let server = Server::new(front, options.threads.max(1));
        let begun = Session::begin(device, server)
            .and_then(|session| self.answer(session, (mounted, shared), connection));
        begun.map_err(|e| {
            // A mount without a process that answers does not stay.
            let _ = system::unmount(&dir, true);
            Error::System("cannot answer the kernel", e)
        })?;
        Ok(dir)
    }

    /// Answers requests until the mount is gone.
    fn answer(
        &self,
        session: Session<Server>,
        (mounted, options): (Mounted, SharedOptions),
        connection: Option<u32>,
    ) -> std::io::Result<()> {
        let (dir, threads) = (mounted.dir.clone(), mounted.options.threads.max(1));
        let number = {
            let mut state = self.0.state.lock();
            state.next += 1;
            let number = state.next;
            state.all.push(Entry { number, mounted, options, connection });
            number
        };
        let shared = Arc::clone(&self.0);
        let answer = move || {
            if session.run(threads).is_err() {
                // Too few threads read, and programs would wait for ever.
                let _ = system::unmount(&dir, true);
            }
            shared.end(number);
        };
        let spawned = std::thread::Builder::new().name(READER.to_owned()).spawn(answer);
        spawned.map(drop).inspect_err(|_| self.0.end(number))
    }

    /// Takes the mount at a directory away. By force, nothing of it is left; otherwise it may
    /// linger.
    ///
    /// # Errors
    /// There is none of this process; programs use it; the system refuses.
    pub fn unmount(&self, dir: &Path, how: UnmountMode) -> Result<(), Error> {
        let listed = system::listed();
        let (number, connection) = {
            let mut state = self.0.state.lock();
            let is_it = |entry: &&Entry| entry.mounted.dir == dir && entry.is_in(&listed);
            let found = state.all.iter().rev().find(is_it);
            let found = found.map(|entry| (entry.number, entry.connection));
            let (number, connection) = found.ok_or_else(|| Error::NotMounted(dir.to_owned()))?;
            state.leaving.push(number);
            (number, connection)
        };
        let done = system::unmount(dir, how == UnmountMode::Forcibly).and_then(|()| {
            match self.has_ended(number, LINGERS_AFTER) || how == UnmountMode::Politely {
                true => Ok(()),
                false => self.abort(number, connection, dir),
            }
        });
        self.0.state.lock().leaving.retain(|other| *other != number);
        done
    }

    /// Sees to it that none of these datasets lingers: those that do are waited for for a moment,
    /// or ended by force.
    ///
    /// # Errors
    /// One lingers, and what keeps it; the system refuses. With it goes where it was mounted.
    pub fn end_lingering(
        &self,
        is_meant: impl Fn(&str) -> bool,
        how: UnmountMode,
    ) -> Result<(), (PathBuf, Error)> {
        let listed = system::listed();
        let lingering: Vec<_> = {
            let state = self.0.state.lock();
            let meant = state.all.iter().filter(|entry| is_meant(&entry.mounted.name));
            let lingering = meant.filter(|entry| !entry.is_in(&listed));
            lingering.map(|one| (one.number, one.connection, one.mounted.dir.clone())).collect()
        };
        for (number, connection, dir) in lingering {
            let done = match how {
                UnmountMode::Forcibly => self.abort(number, connection, &dir),
                UnmountMode::Politely if self.has_ended(number, KEPT_AFTER) => Ok(()),
                UnmountMode::Politely => {
                    let keeper = connection.map_or(MountHolder::OpenFiles, system::keeper_of);
                    Err(Error::Kept(dir.clone(), keeper))
                }
            };
            done.map_err(|e| (dir, e))?;
        }
        Ok(())
    }

    /// Ends a connection, and waits for that.
    fn abort(&self, number: u64, connection: Option<u32>, dir: &Path) -> Result<(), Error> {
        connection.map_or(Ok(()), system::abort)?;
        match self.has_ended(number, END_WITHIN) {
            true => Ok(()),
            false => Err(Error::Busy(dir.to_owned())),
        }
    }

    /// Gives the mount at a directory other options, while programs use it.
    ///
    /// # Errors
    /// There is none of this process; a program has a file open to write while it shall be
    /// read-only; the system refuses.
    pub fn remount(&self, dir: &Path, options: &Options) -> Result<(), Error> {
        let listed = system::listed();
        let mut state = self.0.state.lock();
        let mut there = state.all.iter_mut().rev().filter(|entry| entry.is_in(&listed));
        let found = there.find(|entry| entry.mounted.dir == dir);
        let entry = found.ok_or_else(|| Error::NotMounted(dir.to_owned()))?;
        let Options { overlay, threads, .. } = entry.mounted.options;
        let options = Options { overlay, threads, ..options.clone() };
        system::remount(dir, &entry.mounted.options, &options)?;
        entry.options.write().clone_from(&options);
        entry.mounted.options = options;
        Ok(())
    }

    /// Waits until nothing is answered any more for a mount; whether that came in time.
    fn has_ended(&self, number: u64, within: Duration) -> bool {
        let mut state = self.0.state.lock();
        let is_there = |state: &mut State| state.all.iter().any(|entry| entry.number == number);
        self.0.changed.wait_while_for(&mut state, is_there, within);
        !is_there(&mut state)
    }
}

impl Shared {
    fn end(&self, number: u64) {
        let is_news = {
            let mut state = self.state.lock();
            state.all.retain(|entry| entry.number != number);
            !state.leaving.contains(&number)
        };
        self.changed.notify_all();
        if is_news {
            (self.ended)();
        }
    }
}

/// Refuses a mount point that has something in it.
fn check_point(dir: &Path, overlay: bool) -> Result<(), Error> {
    let mut entries = std::fs::read_dir(dir).map_err(|_| Error::NotADirectory(dir.to_owned()))?;
    if let Some(there) = system::listed().into_iter().rfind(|m| m.dir == dir)
        && !overlay
    {
        return Err(Error::Mounted(dir.to_owned(), there.name));
    }
    match !overlay && entries.next().is_some() {
        true => Err(Error::NotEmpty(dir.to_owned())),
        false => Ok(()),
    }
}
