//! Processes that are kept running: one that fails is started again.
//!
//! ```text
//! started -> ready -> ended well: it is let go
//!   ^          |
//!   '- pause --'  failed, or was killed
//! ```
//!
//! Pauses double up to [`PAUSE_MAX`]. Each process has a thread that waits for it. When all are to
//! end they get a SIGTERM, once, and are waited for.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first pause before a process is started again.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest one.
const PAUSE_MAX: Duration = Duration::from_secs(64);
/// A process that ran for this time is restarted after the first pause.
const WELL: Duration = Duration::from_mins(10);

/// A process that is to be kept running.
pub struct ProcessSpec {
    /// Its key among the others.
    pub key: u64,
    /// The name of its pool, for the log.
    pub name: String,
    /// Starts it; its standard output is a pipe, and its first line there means that it is ready.
    pub start: Box<dyn Fn() -> io::Result<Child> + Send>,
    /// After it failed: whether it is still wanted.
    pub is_wanted: Box<dyn Fn() -> bool + Send>,
    /// Called when it is let go, because it ended well or is not needed any more.
    pub let_go: Box<dyn Fn() + Send>,
    /// Receives once whether it became ready.
    pub begun: Option<Sender<bool>>,
}

/// Keeps processes running.
#[derive(Default)]
pub struct Supervisor {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_ending: bool,
    children: Vec<Pid>,
    /// The services that have a thread, by key.
    kept: BTreeSet<u64>,
    /// One did not end well at the end.
    has_failed: bool,
}

impl Supervisor {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one with this key is kept running.
    #[must_use]
    pub fn has(&self, key: u64) -> bool {
        self.state().kept.contains(&key)
    }

    /// Ends all, with one signal each time that it is called.
    pub fn end(&self) {
        let mut state = self.state();
        state.is_ending = true;
        for child in &state.children {
            // One that has ended since is no longer among them: its thread waits for this lock.
            let _ = kill_process(*child, Signal::TERM);
        }
        self.changed.notify_all();
    }

    /// Keeps one running from now on.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn keep(self: &Arc<Self>, mut wanted: ProcessSpec) -> io::Result<()> {
        let (key, keeper) = (wanted.key, Arc::clone(self));
        self.state().kept.insert(key);
        let keep = move || {
            let is_well = keeper.run(&mut wanted);
            let mut state = keeper.state();
            state.kept.remove(&key);
            state.has_failed |= !is_well;
            drop(state);
            keeper.changed.notify_all();
        };
        let spawned = std::thread::Builder::new().name(format!("keep_{key}")).spawn(keep);
        if spawned.is_err() {
            self.state().kept.remove(&key);
        }
        spawned.map(drop)
    }

    /// Waits for the end of all; whether they ended well.
    pub fn wait_for_all(&self) -> bool {
        let is_busy = |state: &mut State| !state.kept.is_empty();
        let waited = self.changed.wait_while(self.state(), is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).has_failed
    }

    /// Waits for `time`, or until all end; whether they do.
    pub fn pause(&self, time: Duration) -> bool {
        let ends = |state: &mut State| !state.is_ending;
        let waited = self.changed.wait_timeout_while(self.state(), time, ends);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_ending
    }

    /// Runs it as long as it is needed; returns whether it ended well.
    fn run(&self, wanted: &mut ProcessSpec) -> bool {
        let mut pause = PAUSE_MIN;
        loop {
            let began = Instant::now();
            let status = self.run_once(wanted);
            tell(&mut wanted.begun, false);
            let why = match status {
                Ok(Some(status)) if status.success() => {
                    (wanted.let_go)();
                    return true;
                }
                Ok(Some(status)) => status.to_string(),
                // It was not started, because all end.
                Ok(None) => return true,
                Err(e) => e.to_string(),
            };
            if !(wanted.is_wanted)() {
                (wanted.let_go)();
                return true;
            }
            if began.elapsed() > WELL {
                pause = PAUSE_MIN;
            }
            let (name, seconds) = (&wanted.name, pause.as_secs());
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

    /// Starts the process, and waits for its end.
    fn run_once(&self, wanted: &mut ProcessSpec) -> io::Result<Option<ExitStatus>> {
        let (mut child, pid) = {
            let mut state = self.state();
            if state.is_ending {
                return Ok(None);
            }
            let child = (wanted.start)()?;
            let pid = Pid::from_child(&child);
            state.children.push(pid);
            (child, pid)
        };
        if let Some(out) = child.stdout.take() {
            let mut line = String::new();
            let read = BufReader::new(out).read_line(&mut line);
            if read.is_ok_and(|bytes| bytes > 0) {
                tracing::info!(target: "zinc::pool", "{}", line.trim_end());
                tell(&mut wanted.begun, true);
            }
        }
        // It stays a process that can be sent signals until its end was noted here.
        let waited =
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).map(drop);
        self.state().children.retain(|one| *one != pid);
        waited?;
        child.wait().map(Some)
    }
}

/// Tells once.
fn tell(begun: &mut Option<Sender<bool>>, is_ready: bool) {
    if let Some(begun) = begun.take() {
        let _ = begun.send(is_ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::sync::mpsc::channel;

    /// A script that is kept; `sender` gets a word when it is let go.
    fn wanted(
        script: &'static str,
        sender: &Sender<&'static str>,
        begun: Sender<bool>,
    ) -> ProcessSpec {
        let sender = sender.clone();
        let start = move || Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn();
        ProcessSpec {
            key: 7,
            name: "tank".to_owned(),
            start: Box::new(start),
            is_wanted: Box::new(|| true),
            let_go: Box::new(move || sender.send("let go").expect("the test waits")),
            begun: Some(begun),
        }
    }

    #[test]
    fn what_ends_well_is_let_go() {
        let (keeper, (sender, tells), (begun, begins)) =
            (Arc::<Supervisor>::default(), channel(), channel());
        keeper.keep(wanted("echo ready", &sender, begun)).expect("thread");
        assert!(keeper.wait_for_all() && !keeper.has(7));
        assert_eq!((begins.recv(), tells.recv()), (Ok(true), Ok("let go")));
    }

    #[test]
    fn what_fails_is_started_again_until_all_end() {
        let (keeper, (sender, tells), (begun, begins)) =
            (Arc::<Supervisor>::default(), channel(), channel());
        let mut wanted = wanted("exec sleep 600", &sender, begun);
        let (started, starts) = channel();
        let sleep = wanted.start;
        let begins_well = std::sync::atomic::AtomicBool::new(false);
        wanted.start = Box::new(move || {
            let _ = started.send(());
            match begins_well.swap(true, std::sync::atomic::Ordering::Relaxed) {
                true => sleep(),
                false => Err(io::Error::other("not yet")),
            }
        });
        keeper.keep(wanted).expect("thread");
        assert_eq!((begins.recv(), starts.recv(), starts.recv()), (Ok(false), Ok(()), Ok(())));
        // It is known by then, or is about to be.
        while !keeper.state().children.iter().any(|_| true) {
            std::thread::yield_now();
        }
        keeper.end();
        assert!(!keeper.wait_for_all(), "it was killed");
        assert!(tells.try_recv().is_err());
    }
}
