//! An object that a server holds for its clients, a pool: the work on it, and how it is let go.
//!
//! # States
//!
//! ```text
//!          release                     no command left, closing line written
//!  open ------------------> closing ------------------------------------------> gone
//!   ^                          |
//!   '--------------------------'
//!     commands are still running when the time is over; or the closing line failed
//! ```
//!
//! *Open*: requests are answered. *Closing*: requests that look at the pool and are over at once
//! (status, counters, the page for monitoring systems) are answered; everything that could take
//! longer or change something is refused at once, by saying why. A client that is refused so asks
//! again until the pool is open here, or can be opened by itself.
//! *Gone*: so is everything.
//!
//! # How long closing takes
//!
//! A command that runs for a client may take as long as it likes, and its client may have stopped
//! reading. So commands are not waited for for ever:
//!
//! - An export without `-f` waits [`GRACE`] for them, and is then refused ("pool is busy", with a
//!   list of what runs); the pool is open again. Commands that only pause between two reports
//!   (`zpool iostat 5`) are called off at once, as they would be over in OpenZFS, and so are those
//!   of other users, which only look.
//! - An export with `-f` and the end of the server (a signal, the end of its time) cancel all
//!   commands, and wait [`CALL_OFF`] for them to end; their clients learn the reason. An export
//!   does so at once, the end of the server after [`SHORTLY`]: a short command that came just
//!   before it is done and not failed. Every write to a client, every pause and every long loop
//!   notices ([`crate::stream`]).
//! - A signal ends the process within [`END_WITHIN`] whatever happens: what was synced
//!   is safe however it ends, so that a device which hangs need not keep the process.
//!
//! # Locks
//!
//! One mutex guards the state and is held for moments only, never while anything is done to the
//! pool or written to a client. So a reader that stalls holds up nothing but its own command.

use crate::presence::Presence;
use crate::protocol::Refusal;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an export waits for commands to end by themselves.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long the end of the server leaves commands alone that began just before it.
const SHORTLY: Duration = Duration::from_secs(1);
/// How long commands that were called off may take to end.
pub const CALL_OFF: Duration = Duration::from_secs(10);
/// How long after a signal the process ends at the latest.
pub const END_WITHIN: Duration = Duration::from_secs(60);
/// Commands that are named in a refusal, at most.
const NAMED: usize = 4;

/// The pool that is held, until it is let go.
pub struct Held<T> {
    name: String,
    guid: AtomicU64,
    state: Mutex<State<T>>,
    /// A command ended.
    changed: Condvar,
}

struct State<T> {
    pool: Option<Arc<T>>,
    is_closing: bool,
    /// Why it is let go, or was at last.
    why: String,
    commands: BTreeMap<u64, Command>,
    next: u64,
}

/// A command that runs for a client.
struct Command {
    shown: String,
    pid: i32,
    presence: Arc<Presence>,
}

/// Why the pool was not let go.
#[derive(Debug)]
pub enum NotReleased {
    /// It is being let go already, or it is gone.
    Closing,
    /// These commands are running.
    Busy(Vec<String>),
    /// The last step failed.
    Failed(Refusal),
}

/// How commands are treated that are running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    /// The pool is exported: they may end.
    Polite,
    /// The pool is exported: they are called off.
    Forced,
    /// The server ends for this reason: they are called off.
    Ending(&'static str),
}

impl CloseMode {
    fn why(self, pool: &str) -> String {
        match self {
            Self::Polite | Self::Forced => format!("{pool} is being exported"),
            Self::Ending(reason) => {
                format!("process {} stops serving {pool}: {reason}", std::process::id())
            }
        }
    }
}

/// A command, for as long as it runs.
struct Running<'a, T> {
    held: &'a Held<T>,
    number: u64,
}

impl<T> Drop for Running<'_, T> {
    fn drop(&mut self) {
        self.held.state().commands.remove(&self.number);
        self.held.changed.notify_all();
    }
}

impl<T> Held<T> {
    /// Holds it, by this name and guid.
    #[must_use]
    pub fn new(name: &str, guid: u64, pool: T) -> Arc<Self> {
        let name = name.to_owned();
        let pool = Some(Arc::new(pool));
        let state = State {
            pool,
            is_closing: false,
            why: CloseMode::Polite.why(&name),
            commands: BTreeMap::new(),
            next: 0,
        };
        let guid = AtomicU64::new(guid);
        Arc::new(Self { name, guid, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its guid, after which the socket is named.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.guid.load(Ordering::Relaxed)
    }

    /// It has another guid now (`zpool reguid`); the one before.
    pub fn set_guid(&self, guid: u64) -> u64 {
        self.guid.swap(guid, Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closing(state: &State<T>) -> Refusal {
        Refusal::new(&state.why)
            .hint("when this process has ended, any command opens the pool by itself")
    }

    /// The pool, while nothing runs for clients.
    #[must_use]
    pub fn pool(&self) -> Option<Arc<T>> {
        self.state().pool.clone()
    }

    /// Looks at it for a moment.
    ///
    /// # Errors
    /// It was let go; or what `work` says.
    pub fn look<D>(&self, work: impl FnOnce(&T) -> Result<D, Refusal>) -> Result<D, Refusal> {
        let pool = {
            let state = self.state();
            state.pool.clone().ok_or_else(|| Self::closing(&state))?
        };
        work(&pool)
    }

    /// Works with it, for as long as that takes. `shown` and `pid` describe the work to others;
    /// `presence` cancels it.
    ///
    /// # Errors
    /// It is being let go, or was; or what `work` says.
    pub fn work<D>(
        &self,
        shown: &str,
        pid: i32,
        presence: &Arc<Presence>,
        work: impl FnOnce(&Arc<T>) -> Result<D, Refusal>,
    ) -> Result<D, Refusal> {
        let (pool, _running) = {
            let mut state = self.state();
            let pool = state.pool.clone().filter(|_| !state.is_closing);
            let pool = pool.ok_or_else(|| Self::closing(&state))?;
            let number = state.next;
            state.next += 1;
            let (shown, presence) = (shown.to_owned(), Arc::clone(presence));
            state.commands.insert(number, Command { shown, pid, presence });
            (pool, Running { held: self, number })
        };
        // In this order: the pool is let go before the command counts as ended.
        let result = work(&pool);
        drop(pool);
        result
    }

    /// Whether no command has it.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.state().commands.is_empty()
    }

    /// Why it is being let go, if it is, and the commands that run: process and command line.
    #[must_use]
    pub fn activity(&self) -> (Option<String>, Vec<(i32, String)>) {
        let state = self.state();
        let commands = state.commands.values().map(|c| (c.pid, c.shown.clone())).collect();
        (state.is_closing.then(|| state.why.clone()), commands)
    }

    /// Takes it out. `last` is done to it when no command is left; when that fails it stays.
    ///
    /// # Errors
    /// It is held on, and why; or it is gone already.
    pub fn release(
        &self,
        mode: CloseMode,
        last: impl FnOnce(&T) -> Result<(), Refusal>,
    ) -> Result<T, NotReleased> {
        let mut state = self.state();
        if state.is_closing || state.pool.is_none() {
            return Err(NotReleased::Closing);
        }
        (state.is_closing, state.why) = (true, mode.why(&self.name));
        let mut state = self.wait_for_commands(state, mode);
        if !state.commands.is_empty() {
            state.is_closing = false;
            let shown = |c: &Command| format!("process {} runs `{}`", c.pid, c.shown);
            return Err(NotReleased::Busy(
                state.commands.values().take(NAMED).map(shown).collect(),
            ));
        }
        let pool = state.pool.clone();
        drop(state);
        let Some(pool) = pool else { return Err(NotReleased::Closing) };
        let done = last(&pool);
        drop(pool);
        if let Err(refusal) = done {
            self.state().is_closing = false;
            return Err(NotReleased::Failed(refusal));
        }
        self.take()
    }

    /// Waits for commands to end, and sees to it that they do.
    fn wait_for_commands<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T>>,
        mode: CloseMode,
    ) -> MutexGuard<'a, State<T>> {
        let began = Instant::now();
        let until = began + if mode == CloseMode::Polite { GRACE } else { CALL_OFF };
        loop {
            let is_spared = match mode {
                CloseMode::Polite => true,
                CloseMode::Ending(_) => began.elapsed() < SHORTLY,
                CloseMode::Forced => false,
            };
            for command in state.commands.values() {
                if !is_spared || command.presence.is_idle() {
                    command.presence.cancel(&state.why);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.commands.is_empty() || left.is_zero() {
                return state;
            }
            // Short enough to notice one that begins to pause.
            let wait = left.min(Duration::from_millis(100));
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes it out of the state; those that look at it have it for moments.
    fn take(&self) -> Result<T, NotReleased> {
        let until = Instant::now() + CALL_OFF;
        let Some(mut pool) = self.state().pool.take() else { return Err(NotReleased::Closing) };
        loop {
            match Arc::try_unwrap(pool) {
                Ok(pool) => return Ok(pool),
                Err(shared) => pool = shared,
            }
            if Instant::now() >= until {
                let mut state = self.state();
                (state.pool, state.is_closing) = (Some(pool), false);
                return Err(NotReleased::Busy(vec![
                    "a request that reads its counters".to_owned(),
                ]));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
