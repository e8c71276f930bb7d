//! What a verb works for: this process, or a client of the server.
//!
//! `zinc serve` runs the verbs of others against the pool it holds. What a verb otherwise takes
//! from its process then comes from the client: the command line, the folder it stands in, the
//! terminal, its user. It is kept for the thread that runs the verb; [`inherit`] hands it to
//! threads that the verb starts. A verb does not notice, as long as it prints through `ui` and
//! resolves what was typed with [`path`].
//!
//! A client that ends before its verb (Ctrl-C, most of all) calls the verb off, and so does the
//! server when the pool is about to be let go: what it prints goes nowhere, a write that waits for
//! a reader gives up, long work that can be cancelled is ([`crate::progress`], [`check`]), and a
//! pause is over at once ([`sleep`]). What is one operation of the pool is done to its end.

use crate::failure::Failure;
use crate::found::Listed;
use crate::ui::sink::{Fate, Patience};
use crate::ui::stream::Stream;
use engine::LivePool;
use rustix::net::SendFlags;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a client may take to read why its verb ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a client is told when its verb begins.
const BEGUN: u8 = b'!';

/// Variables that change what verbs print, and go with the command line.
pub const ENVIRONMENT: [&str; 2] = ["TZ", "COLUMNS"];

/// A client that has a verb run.
pub struct Asked {
    /// The pool that is held.
    pub pool: Arc<LivePool>,
    /// The command line, with the program's name.
    pub args: Vec<OsString>,
    /// The folder it stands in.
    pub folder: PathBuf,
    /// Those of [`ENVIRONMENT`] that it has.
    pub environment: BTreeMap<String, String>,
    /// Its user.
    pub user: u64,
    /// Its group.
    pub group: u64,
    /// Its standard input.
    pub input: File,
    /// Its standard output.
    pub output: Stream,
    /// Its standard error.
    pub errors: Stream,
    /// Whether it is still there.
    pub presence: Arc<Presence>,
    /// What became of what was printed for it.
    pub fate: Fate,
    /// Held by the thread that prints: the client's streams may be one pipe.
    pub turn: Mutex<()>,
    /// How the pool that is held stands in the list of known pools.
    pub listed: Arc<Listed>,
    /// It wants what is seen of the pool that is held, as data, to show it together with what is
    /// seen of others.
    pub is_part: bool,
    /// It is of another user, and may only look.
    pub is_guest: bool,
}

/// Whether a client is still there, and what runs for it still wanted.
#[derive(Default)]
pub struct Presence {
    state: Mutex<Stay>,
    changed: Condvar,
    /// Threads that pause between two reports.
    pausing: AtomicUsize,
    /// It only looks, and for a user that has no say in what becomes of the pool.
    is_looker: AtomicBool,
}

#[derive(Clone, Default)]
enum Stay {
    #[default]
    Here,
    /// The server ends the verb, for this reason.
    CalledOff(String),
    Gone,
}

impl Presence {
    fn state(&self) -> MutexGuard<'_, Stay> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self) {
        *self.state() = Stay::Gone;
        self.changed.notify_all();
    }

    /// Ends what runs for it as soon as that can be; `why` is what the client is told.
    pub fn call_off(&self, why: &str) {
        let mut state = self.state();
        if matches!(*state, Stay::Here) {
            *state = Stay::CalledOff(why.to_owned());
        }
        self.changed.notify_all();
    }

    /// It is there, and what runs for it is wanted.
    pub fn is_here(&self) -> bool {
        matches!(*self.state(), Stay::Here)
    }

    /// Why its verb was called off.
    pub fn reason(&self) -> Option<String> {
        match &*self.state() {
            Stay::CalledOff(why) => Some(why.clone()),
            Stay::Here | Stay::Gone => None,
        }
    }

    /// It only looks, and for a user that has no say in what becomes of the pool.
    pub fn gives_way(&self) {
        self.is_looker.store(true, Ordering::Relaxed);
    }

    /// Its verb need not be waited for: it does nothing just now but wait for the time of its next
    /// report, or it gives way.
    pub fn is_idle(&self) -> bool {
        self.pausing.load(Ordering::Relaxed) > 0 || self.is_looker.load(Ordering::Relaxed)
    }

    /// Waits so long at most for it to end; whether it did.
    pub fn ends_within(&self, time: Duration) -> bool {
        let state = self.state();
        let is_here = |state: &mut Stay| matches!(state, Stay::Here);
        self.pausing.fetch_add(1, Ordering::Relaxed);
        let wait = self.changed.wait_timeout_while(state, time, is_here);
        self.pausing.fetch_sub(1, Ordering::Relaxed);
        !matches!(*wait.unwrap_or_else(PoisonError::into_inner).0, Stay::Here)
    }
}

/// Looks after a client while its verb runs: the client holds the other end of the stream, and
/// nothing is ever written to it.
pub struct Lifeline {
    stream: UnixStream,
    watcher: Option<JoinHandle<()>>,
}

impl Lifeline {
    /// From now on `presence` says whether the client is there.
    pub fn watch(stream: UnixStream, presence: &Arc<Presence>) -> io::Result<Self> {
        let (mut end, presence) = (stream.try_clone()?, Arc::clone(presence));
        let wait = move || {
            // It ends with the client, or when the verb has ended.
            let _ = end.read(&mut [0]);
            presence.leave();
        };
        let watcher = std::thread::Builder::new().name("lifeline".to_owned()).spawn(wait)?;
        Ok(Self { stream, watcher: Some(watcher) })
    }

    /// Tells the client that its verb runs from now on: an answer that it does not get says nothing
    /// then about what was done.
    pub fn begun(&self) {
        // A client that is gone is noticed elsewhere, and one that does not read is not waited for.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = rustix::net::send(&self.stream, &[BEGUN], flags);
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

thread_local! {
    static ASKED: RefCell<Option<Arc<Asked>>> = const { RefCell::new(None) };
}

/// The client this thread works for; `None` for the process itself.
pub fn client() -> Option<Arc<Asked>> {
    ASKED.with_borrow(Option::clone)
}

/// Runs `work` for `asked`, as told by [`client`] to a thread that was started by one that works
/// for it.
pub fn inherit<T>(asked: Option<&Arc<Asked>>, work: impl FnOnce() -> T) -> T {
    /// Puts back what was, also when `work` panics.
    struct Back(Option<Arc<Asked>>);
    impl Drop for Back {
        fn drop(&mut self) {
            ASKED.set(self.0.take());
        }
    }
    let _back = Back(ASKED.replace(asked.cloned()));
    work()
}

/// The same as [`for_each_parallel`], for the client of this thread on all of its threads:
/// those that find the items, too, since each thread does both.
///
/// # Errors
/// The first one of `work`.
pub fn for_each_parallel<I, E: Send>(
    workers: usize,
    items: I,
    work: impl Fn(I::Item) -> Result<(), E> + Sync,
) -> Result<(), E>
where
    I: Iterator + Send,
{
    struct Found<'a, I> {
        client: Option<&'a Arc<Asked>>,
        items: I,
    }
    impl<I: Iterator> Iterator for Found<'_, I> {
        type Item = I::Item;

        fn next(&mut self) -> Option<I::Item> {
            inherit(self.client, || self.items.next())
        }
    }
    let client = client();
    let items = Found { client: client.as_ref(), items };
    engine::for_each_parallel(workers, items, |item| inherit(client.as_ref(), || work(item)))
}

/// This thread works for a client that wants a part of what it will show.
pub fn is_for_a_part() -> bool {
    client().is_some_and(|client| client.is_part)
}

/// The pool that is held, when `name` (a pool, its guid, or anything in a pool) belongs to it.
pub fn held(name: &str) -> Option<Arc<LivePool>> {
    let asked = client()?;
    let wanted = crate::common::pool_of(name);
    let is_it = wanted == asked.pool.name() || wanted.parse() == Ok(asked.pool.guid());
    is_it.then(|| Arc::clone(&asked.pool))
}

/// The command line, with the program's name.
pub fn arguments() -> Vec<OsString> {
    client().map_or_else(|| std::env::args_os().collect(), |asked| asked.args.clone())
}

/// One of [`ENVIRONMENT`].
pub fn variable(name: &str) -> Option<OsString> {
    match client() {
        Some(asked) => asked.environment.get(name).map(OsString::from),
        None => std::env::var_os(name),
    }
}

/// Where a path leads that was typed.
pub fn path(typed: &Path) -> PathBuf {
    match client() {
        Some(asked) => asked.folder.join(typed),
        None => typed.to_owned(),
    }
}

/// The same for an argument.
pub fn argument(typed: &OsStr) -> OsString {
    path(Path::new(typed)).into_os_string()
}

/// What is said of a verb that was called off.
pub fn called_off() -> Failure {
    Failure::new("the command was cancelled")
}

/// Looked at in loops that may take long.
///
/// # Errors
/// The verb was called off.
pub fn check() -> Result<(), Failure> {
    match client() {
        Some(client) if !client.presence.is_here() => Err(called_off()),
        _ => Ok(()),
    }
}

/// A pause between two reports.
///
/// # Errors
/// The verb was called off.
pub fn sleep(time: Duration) -> Result<(), Failure> {
    match client() {
        Some(client) if client.presence.ends_within(time) => Err(called_off()),
        Some(_) => Ok(()),
        None => {
            std::thread::sleep(time);
            Ok(())
        }
    }
}

/// Standard input.
pub fn input() -> io::Result<Box<dyn Read>> {
    Ok(match client() {
        Some(asked) => Box::new(asked.input.try_clone()?),
        None => Box::new(io::stdin().lock()),
    })
}

impl Asked {
    /// Prints to the client's standard output.
    ///
    /// # Errors
    /// It was lost, now or before, or the verb was called off.
    pub fn print(&self, bytes: &[u8]) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.fate.check()?;
        let written = self.output.write(bytes, Patience::While(&self.presence));
        written.inspect_err(|e| {
            if self.presence.is_here() {
                self.fate.lose(e);
                if !self.fate.runs_on() {
                    self.presence.call_off("its output cannot be written");
                }
            }
        })
    }

    /// Prints to its standard error, as long as the verb is wanted.
    pub fn complain(&self, text: &str) {
        if self.presence.is_here() {
            self.say(text, Patience::While(&self.presence));
        }
    }

    /// Says why the verb ended.
    pub fn last_words(&self, text: &str) {
        self.say(text, Patience::Until(Instant::now() + LAST_WORDS));
    }

    fn say(&self, text: &str, patience: Patience<'_>) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = self.errors.write(text.as_bytes(), patience)
            && self.presence.is_here()
        {
            self.fate.lose_errors(&e);
        }
    }

    /// What closing its standard output would say, as long as the verb is wanted.
    pub fn close_error(&self) -> Option<io::Error> {
        let error = self.output.close_error(Patience::While(&self.presence));
        error.filter(|_| self.presence.is_here())
    }

    /// Its standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.output.file().is_terminal()
    }
}
