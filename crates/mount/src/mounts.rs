//! What this process has mounted.

use crate::front::Server;
use crate::served::Front;
use crate::{Error, Options, Snapshots, SpaceFn, system};
use engine::Filesystem;
use fuser::{Config, Session, SessionACL};
use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a mount that the system took away may take to end.
const END_WITHIN: Duration = Duration::from_secs(10);

/// What is to be mounted.
pub struct What {
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
pub enum How {
    /// Unless programs use it.
    Politely,
    /// Whatever uses it.
    Forcibly,
}

/// The mounts of this process.
pub struct Mounts(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    ended: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    next: u64,
    all: Vec<(u64, Mounted)>,
    /// Those that this process takes away: their end is no news.
    leaving: Vec<u64>,
}

impl Mounts {
    /// None yet. `ended` is called when one is gone that [`Self::unmount`] did not take away.
    #[must_use]
    pub fn new(ended: impl Fn() + Send + Sync + 'static) -> Self {
        let shared =
            Shared { state: Mutex::default(), changed: Condvar::new(), ended: Box::new(ended) };
        Self(Arc::new(shared))
    }

    /// Those there are.
    #[must_use]
    pub fn all(&self) -> Vec<Mounted> {
        self.0.state.lock().all.iter().map(|(_, mounted)| mounted.clone()).collect()
    }

    /// Mounts a file system at a directory. What a process that died left there is taken away.
    ///
    /// # Errors
    /// The directory is none, or has something in it; the system refuses.
    pub fn mount(&self, what: What, dir: &Path, options: &Options) -> Result<PathBuf, Error> {
        system::clear_dead(dir)?;
        let dir = dir.canonicalize().map_err(|_| Error::NotADirectory(dir.to_owned()))?;
        check_point(&dir, options.overlay)?;
        let connection = system::mount(&what.name, &dir, options)?;
        let front = Front::new(what.fs, what.space, what.snapshots, options.clone());
        let mut config = Config::default();
        config.n_threads = Some(options.threads.max(1));
        config.clone_fd = true;
        let mounted = Mounted { name: what.name, dir: dir.clone(), options: options.clone() };
        let begun = Server::new(front, options.threads.max(1))
            .and_then(|server| Session::from_fd(server, connection, SessionACL::All, config))
            .and_then(|session| self.answer(session, mounted));
        begun.map_err(|e| {
            // A mount without a process that answers does not stay.
            let _ = system::unmount(&dir, true);
            Error::System("cannot answer the kernel", e)
        })?;
        Ok(dir)
    }

    /// Answers requests until the mount is gone.
    fn answer(&self, session: Session<Server>, mounted: Mounted) -> std::io::Result<()> {
        let number = {
            let mut state = self.0.state.lock();
            state.next += 1;
            let number = state.next;
            state.all.push((number, mounted));
            number
        };
        let shared = Arc::clone(&self.0);
        let answer = move || {
            // However it ended, it is over.
            let _ = session.run();
            shared.end(number);
        };
        let spawned = std::thread::Builder::new().name("mount".to_owned()).spawn(answer);
        spawned.map(drop).inspect_err(|_| self.0.end(number))
    }

    /// Takes the mount at a directory away, and waits until nothing of it is left.
    ///
    /// # Errors
    /// There is none of this process; programs use it; the system refuses.
    pub fn unmount(&self, dir: &Path, how: How) -> Result<(), Error> {
        let number = {
            let mut state = self.0.state.lock();
            let found = state.all.iter().rev().find(|(_, mounted)| mounted.dir == dir);
            let number = found.map(|(number, _)| *number);
            let number = number.ok_or_else(|| Error::NotMounted(dir.to_owned()))?;
            state.leaving.push(number);
            number
        };
        let done = system::unmount(dir, how == How::Forcibly).and_then(|()| self.wait(number, dir));
        self.0.state.lock().leaving.retain(|other| *other != number);
        done
    }

    /// Gives the mount at a directory other options, while programs use it: whether it can be
    /// changed, set-id bits, devices, execution, access times. The others stay.
    ///
    /// # Errors
    /// There is none of this process; a program has a file open to write while it shall be
    /// read-only; the system refuses.
    pub fn remount(&self, dir: &Path, options: &Options) -> Result<(), Error> {
        let mut state = self.0.state.lock();
        let found = state.all.iter_mut().rev().find(|(_, mounted)| mounted.dir == dir);
        let (_, mounted) = found.ok_or_else(|| Error::NotMounted(dir.to_owned()))?;
        system::remount(dir, options)?;
        let overlay = mounted.options.overlay;
        let Options { xattrs, posix_acls, threads, .. } = mounted.options;
        mounted.options = Options { overlay, xattrs, posix_acls, threads, ..options.clone() };
        Ok(())
    }

    /// Waits until nothing of a mount is left that the system took away.
    fn wait(&self, number: u64, dir: &Path) -> Result<(), Error> {
        let mut state = self.0.state.lock();
        let is_there = |state: &mut State| state.all.iter().any(|(other, _)| *other == number);
        let waited = self.0.changed.wait_while_for(&mut state, is_there, END_WITHIN);
        match waited.timed_out() && is_there(&mut state) {
            true => Err(Error::Busy(dir.to_owned())),
            false => Ok(()),
        }
    }
}

impl Shared {
    fn end(&self, number: u64) {
        let is_news = {
            let mut state = self.state.lock();
            state.all.retain(|(other, _)| *other != number);
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
