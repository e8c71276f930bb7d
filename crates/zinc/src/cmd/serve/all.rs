//! `zinc serve -a`: every known pool, by a process of its own, and one that looks after these.
//!
//! ```text
//! found -> serves -> ended well (exported): until it is found again
//!   ^        |
//!   '- pause-'  failed, or was killed
//! ```
//!
//! A process of a pool is `zinc serve` with the same options, and a hidden one that names its pool.
//! It is started again when it fails, after pauses that double up to [`PAUSE_MAX`]: a device may
//! come late at boot, and a server that was killed has left nothing but a socket. One that ended
//! well has let its pool go, which mostly was exported. Once a second it is looked for pools that
//! are known and not served: they were imported or made since.
//!
//! A signal to end is handed on, each process closes its pool within a minute (`held`), and this
//! one ends after the last of them. They are in groups of their own, so that a terminal's Ctrl-C
//! reaches them once. When this process is killed they get a SIGTERM from the system, so that a
//! manager that starts it again finds the pools free.

use super::web::{self, Remote};
use super::{Args, PART, manager, write_pid};
use crate::failure::Failure;
use crate::known;
use crate::served::{self, Server as Other};
use crate::session::Session;
use crate::ui;
use hostfs::notify;
use page::Recorder;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first pause before a process is started again.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest one.
const PAUSE_MAX: Duration = Duration::from_secs(64);
/// How often it is looked for pools that have become known.
const LOOK: Duration = Duration::from_secs(1);
/// What ran so long is started again after the first pause.
const WELL: Duration = Duration::from_mins(10);

/// A pool that is served by a process of its own.
struct Pool {
    name: String,
    guid: u64,
    /// It was exported.
    is_gone: Arc<AtomicBool>,
}

/// What all threads know.
#[derive(Default)]
struct Keeper {
    recorder: Arc<Recorder>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_ending: bool,
    children: Vec<Pid>,
    /// Pools that have a thread, by their guids.
    kept: BTreeSet<u64>,
    /// One was not closed well at the end.
    has_failed: bool,
}

/// Ends this process when the one that started it does.
pub fn end_with_parent() {
    // Where the system has no such signal the process stays, as any server does.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

/// Serves all known pools until a signal, also those that become known meanwhile.
pub fn run(session: &Session, args: &Args) -> Result<ExitCode, Failure> {
    let _pidfile = args.pidfile.as_deref().map(|path| write_pid(session, path)).transpose()?;
    ui::be_brief(session);
    let began = Instant::now();
    let keeper = Arc::new(Keeper::default());
    listen_to_signals(&keeper)?;
    if let Some(address) = args.http {
        web::serve_recorded(address, &keeper.recorder)?;
    }
    let (begun, begins) = channel();
    let count = keeper.keep_new(session, &args.skip, Some(&begun))?;
    if count == 0 {
        let why = match known::pools(session).all().is_empty() {
            true => "no pools are known yet: import or create some",
            false => "all known pools are served already, or left out",
        };
        tracing::info!(target: "zinc", "{why}");
    }
    let served = begins.iter().take(count).filter(|is_served| *is_served).count();
    ui::out(session, &format!("serving {served} of {count} pools\n"));
    notify::ready(manager(), &format!("serving {served} of {count} pools"));
    // The process of each pool ends by itself after the time that was asked for.
    let is_time_up = || args.seconds.is_some_and(|most| began.elapsed().as_secs_f64() >= most);
    while !keeper.pause(LOOK) && !is_time_up() {
        if let Err(failure) = keeper.keep_new(session, &args.skip, None) {
            let (why, ..) = failure.parts();
            tracing::error!(target: "zinc::pool", "a new pool is not served: {why}");
        }
    }
    Ok(if keeper.wait_for_all() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The first signal is handed on; a second one too, so that the servers end at once.
fn listen_to_signals(keeper: &Arc<Keeper>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let keeper = Arc::clone(keeper);
    let wait = move || {
        for signal in signals.forever() {
            notify::stopping(manager());
            tracing::info!(target: "zinc", "signal {signal}: all pools are being closed");
            keeper.end();
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
}

impl Keeper {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        let mut state = self.state();
        state.is_ending = true;
        for child in &state.children {
            // One that has ended since is no longer among them: its thread waits for this lock.
            let _ = kill_process(*child, Signal::TERM);
        }
        self.changed.notify_all();
    }

    /// Begins to serve what is known here, is not left out, and is not served yet; how many that
    /// are. `begun` is told of each, once, whether its process serves it.
    fn keep_new(
        self: &Arc<Self>,
        session: &Session,
        skip: &[String],
        begun: Option<&Sender<bool>>,
    ) -> Result<usize, Failure> {
        let all = known::pools(session).all();
        let mut count = 0;
        for known in all.iter().filter(|known| !skip.iter().any(|skip| known.is_called(skip))) {
            let (name, guid) = (known.name().to_owned(), known.guid());
            if self.state().kept.contains(&guid) {
                continue;
            }
            if let Ok(Some(other)) = Other::holding(session, &[], &guid.to_string()) {
                if begun.is_some() {
                    let pid = other.pid;
                    tracing::info!(target: "zinc", "{name} is served by process {pid} already");
                }
                continue;
            }
            self.begin(session, Pool { name, guid, is_gone: Arc::default() }, begun.cloned())?;
            count += 1;
        }
        Ok(count)
    }

    /// Starts the thread that keeps the process of a pool running.
    fn begin(
        self: &Arc<Self>,
        session: &Session,
        pool: Pool,
        mut begun: Option<Sender<bool>>,
    ) -> Result<(), Failure> {
        let guid = pool.guid;
        let folder = served::folders(session).into_iter().next().unwrap_or_default();
        let path = folder.join(served::file_name(guid));
        self.recorder.watch(Arc::new(Remote::new(session, path, &pool.is_gone)))?;
        let (session, keeper) = (session.clone(), Arc::clone(self));
        self.state().kept.insert(guid);
        let keep = move || {
            let is_well = keeper.keep(&session, &pool, &mut begun);
            let mut state = keeper.state();
            state.kept.remove(&guid);
            state.has_failed |= !is_well;
            drop(state);
            keeper.changed.notify_all();
        };
        let spawned = std::thread::Builder::new().name(format!("keep_{guid}")).spawn(keep);
        if spawned.is_err() {
            self.state().kept.remove(&guid);
        }
        Ok(spawned.map(drop)?)
    }

    /// Waits for the end of all processes; whether all pools were closed well.
    fn wait_for_all(&self) -> bool {
        let is_busy = |state: &mut State| !state.kept.is_empty();
        let waited = self.changed.wait_while(self.state(), is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).has_failed
    }

    /// Keeps the process of a pool running; whether it ended well. `begun` is told once whether it
    /// serves its pool.
    fn keep(&self, session: &Session, pool: &Pool, begun: &mut Option<Sender<bool>>) -> bool {
        let mut pause = PAUSE_MIN;
        loop {
            let began = Instant::now();
            let status = self.run_once(session, pool, begun);
            tell(begun, false);
            let why = match status {
                Ok(Some(status)) if status.success() => {
                    pool.is_gone.store(true, Ordering::Relaxed);
                    return true;
                }
                Ok(Some(status)) => status.to_string(),
                // It was not started, because all end.
                Ok(None) => return true,
                Err(e) => e.to_string(),
            };
            if known::pools(session).by_guid(pool.guid).is_none() {
                // It was exported or destroyed meanwhile: there is nothing to serve again.
                pool.is_gone.store(true, Ordering::Relaxed);
                return true;
            }
            if began.elapsed() > WELL {
                pause = PAUSE_MIN;
            }
            let (name, seconds) = (&pool.name, pause.as_secs());
            if self.state().is_ending {
                tracing::error!(target: "zinc::pool", "{name} was not closed well: {why}");
                return false;
            }
            let why = format!("{why}; again in {seconds} s");
            tracing::error!(target: "zinc::pool", "{name} is not served: {why}");
            if self.pause(pause) {
                return false;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Waits so long, or until all end; whether they do.
    fn pause(&self, time: Duration) -> bool {
        let ends = |state: &mut State| !state.is_ending;
        let waited = self.changed.wait_timeout_while(self.state(), time, ends);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_ending
    }

    /// Starts the process, and waits for its end.
    fn run_once(
        &self,
        session: &Session,
        pool: &Pool,
        begun: &mut Option<Sender<bool>>,
    ) -> std::io::Result<Option<ExitStatus>> {
        let (mut child, pid) = {
            let mut state = self.state();
            if state.is_ending {
                return Ok(None);
            }
            let child = start(session, pool)?;
            let pid = Pid::from_child(&child);
            state.children.push(pid);
            (child, pid)
        };
        if let Some(out) = child.stdout.take() {
            let mut line = String::new();
            let read = BufReader::new(out).read_line(&mut line);
            if read.is_ok_and(|bytes| bytes > 0) {
                tracing::info!(target: "zinc::pool", "{}", line.trim_end());
                tell(begun, true);
            }
        }
        // It stays a process that can be sent signals until its end was noted here.
        let waited = rustix::process::waitid(
            rustix::process::WaitId::Pid(pid),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        );
        let mut state = self.state();
        state.children.retain(|one| *one != pid);
        drop(state);
        waited?;
        child.wait().map(Some)
    }
}

/// Tells once.
fn tell(begun: &mut Option<Sender<bool>>, is_served: bool) {
    if let Some(begun) = begun.take() {
        let _ = begun.send(is_served);
    }
}

fn start(session: &Session, pool: &Pool) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(session.arguments().iter().skip(1));
    command.arg(format!("--{PART}={}", pool.guid));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    command.env_remove(notify::SOCKET).spawn()
}
