//! Whether a client is still there, and how its command is called off: the server's end of the
//! stream that comes with a command line. The client keeps the other end as long as it lives.

use rustix::net::SendFlags;
use std::io::{self, Read as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The message to a client when its command begins.
const BEGUN: u8 = b'!';

/// Whether a client is still there, and what runs for it still wanted.
#[derive(Default)]
pub struct Presence {
    state: Mutex<State>,
    changed: Condvar,
    /// Threads that pause between two reports.
    pausing: AtomicUsize,
    /// It only looks, and for a user that has no say in what becomes of the pool.
    is_preemptible: AtomicBool,
}

#[derive(Clone, Default)]
enum State {
    #[default]
    Here,
    /// The server ends the command, for this reason.
    Cancelled(String),
    Gone,
}

impl Presence {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self) {
        *self.state() = State::Gone;
        self.changed.notify_all();
    }

    /// Cancels the client's command as soon as possible; the client gets `why`.
    pub fn cancel(&self, why: &str) {
        let mut state = self.state();
        if matches!(*state, State::Here) {
            *state = State::Cancelled(why.to_owned());
        }
        self.changed.notify_all();
    }

    /// The client is there, and its command was not cancelled.
    pub fn is_here(&self) -> bool {
        matches!(*self.state(), State::Here)
    }

    /// Why its command was called off.
    pub fn reason(&self) -> Option<String> {
        match &*self.state() {
            State::Cancelled(why) => Some(why.clone()),
            State::Here | State::Gone => None,
        }
    }

    /// It only looks, and for a user that has no say in what becomes of the pool.
    pub fn set_preemptible(&self) {
        self.is_preemptible.store(true, Ordering::Relaxed);
    }

    /// Its command need not be waited for: it does nothing just now but wait for the time of its
    /// next report, or it gives way.
    pub fn is_idle(&self) -> bool {
        self.pausing.load(Ordering::Relaxed) > 0 || self.is_preemptible.load(Ordering::Relaxed)
    }

    /// Waits for it to end, doing something all the while.
    pub fn wait_for_end(&self) {
        let is_here = |state: &mut State| matches!(state, State::Here);
        drop(self.changed.wait_while(self.state(), is_here));
    }

    /// Waits for it to end, for `time` at most; whether it did.
    pub fn ends_within(&self, time: Duration) -> bool {
        let state = self.state();
        let is_here = |state: &mut State| matches!(state, State::Here);
        self.pausing.fetch_add(1, Ordering::Relaxed);
        let wait = self.changed.wait_timeout_while(state, time, is_here);
        self.pausing.fetch_sub(1, Ordering::Relaxed);
        !matches!(*wait.unwrap_or_else(PoisonError::into_inner).0, State::Here)
    }
}

/// Looks after a client while its command runs: the client holds the other end of the stream, and
/// nothing is ever written to it.
pub struct ClientWatch {
    stream: UnixStream,
    watcher: Option<JoinHandle<()>>,
}

impl ClientWatch {
    /// From now on `presence` says whether the client is there.
    pub fn watch(stream: UnixStream, presence: &Arc<Presence>) -> io::Result<Self> {
        let (mut end, presence) = (stream.try_clone()?, Arc::clone(presence));
        let wait = move || {
            // It ends with the client, or when the command has ended.
            let _ = end.read(&mut [0]);
            presence.leave();
        };
        let watcher = std::thread::Builder::new().name("lifeline".to_owned()).spawn(wait)?;
        Ok(Self { stream, watcher: Some(watcher) })
    }

    /// Tells the client that its command runs from now on: an answer that it does not get says
    /// nothing then about what was done.
    pub fn begun(&self) {
        // A client that is gone is noticed elsewhere, and one that does not read is not waited for.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = rustix::net::send(&self.stream, &[BEGUN], flags);
    }
}

impl Drop for ClientWatch {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}
