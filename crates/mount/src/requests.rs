//! Requests under way, and what becomes of one whose process is to end.
//!
//! # Theory
//!
//! A process within a request cannot end before the request is answered: the kernel keeps it, also
//! from `SIGKILL`. The kernel's interrupt (`FUSE_INTERRUPT`) is not used: it comes at any signal,
//! also one that the process outlives, and may overtake its request. So one thread looks at
//! requests that have been in progress for [`LOOK`]: where a signal waits that will end the process
//! that sent the request, it is answered with `EINTR`, and the kernel lets the process go. The
//! operation is carried out later or never, as after any death in the middle of a call. A process
//! that outlives its signals never sees the error, and so no program has to know of it.
//!
//! The thread is started by the first request, and ends when none has been under way for [`IDLE`].

use crate::kernel::{Errno, Reply};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How old a request is before its process is looked at, and how often that is done.
const LOOK: Duration = Duration::from_millis(250);

/// How long the thread that looks stays when nothing is under way.
const IDLE: Duration = Duration::from_secs(10);

/// The requests of a mount that are under way. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something is under way, or nothing will be any more.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    under_way: HashMap<u64, InFlight>,
    /// There is a thread that looks.
    is_watched: bool,
    /// It sleeps until something is under way.
    sleeps: bool,
    over: bool,
}

struct InFlight {
    /// The kernel's number of the thread that asked.
    thread: u32,
    since: Instant,
    reply: Pending,
}

/// A reply that waits for its answer.
type Pending = Arc<Mutex<Option<Reply>>>;

/// The right to answer a request. Dropping it leaves the reply to what has it.
pub(crate) struct Answer {
    reply: Pending,
    number: u64,
    requests: Requests,
}

impl Answer {
    /// Answers by `tell`, unless the request was answered because its process ends.
    pub(crate) fn give(&self, tell: impl FnOnce(Reply)) {
        let reply = self.reply.lock().take();
        if let Some(reply) = reply {
            tell(reply);
        }
    }

    /// Whether the answer is still wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.reply.lock().is_some()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.requests.0.state.lock().under_way.remove(&self.number);
    }
}

impl Requests {
    /// No request comes any more.
    pub(crate) fn end(&self) {
        self.0.state.lock().over = true;
        self.0.changed.notify_all();
    }

    /// A request of a thread that is to be answered by `reply`.
    pub(crate) fn begin(&self, thread: u32, reply: Reply) -> Answer {
        let reply = Arc::new(Mutex::new(Some(reply)));
        let under_way = InFlight { thread, since: Instant::now(), reply: Arc::clone(&reply) };
        let mut state = self.0.state.lock();
        let number = state.next;
        state.next += 1;
        state.under_way.insert(number, under_way);
        if std::mem::take(&mut state.sleeps) {
            self.0.changed.notify_all();
        }
        if !state.is_watched {
            let shared = Arc::clone(&self.0);
            let look = move || shared.look();
            let named = std::thread::Builder::new().name("mount-signals".to_owned());
            // Without it a process that is killed waits for its answer, and the next request tries.
            state.is_watched = named.spawn(look).is_ok();
        }
        Answer { reply, number, requests: self.clone() }
    }
}

impl Shared {
    fn look(&self) {
        let mut state = self.state.lock();
        while !state.over {
            if state.under_way.is_empty() {
                state.sleeps = true;
                let waited = self.changed.wait_for(&mut state, IDLE);
                if waited.timed_out() && state.under_way.is_empty() {
                    break;
                }
                continue;
            }
            let _ = self.changed.wait_for(&mut state, LOOK);
            let old = state.under_way.values().filter(|one| one.since.elapsed() >= LOOK);
            let old: Vec<_> = old.map(|one| (one.thread, Arc::clone(&one.reply))).collect();
            // The system is called, and the kernel answered, without the lock.
            parking_lot::MutexGuard::unlocked(&mut state, || {
                let killed = old.iter().filter(|(thread, _)| is_being_killed(*thread));
                for (_, reply) in killed {
                    let reply = reply.lock().take();
                    reply.into_iter().for_each(|reply| reply.error(Errno::EINTR));
                }
            });
        }
        (state.sleeps, state.is_watched) = (false, false);
    }
}

/// A signal waits for the thread that will end its process.
fn is_being_killed(thread: u32) -> bool {
    // The kernel asks for itself, or for a process that cannot be seen from here.
    if thread == 0 {
        return false;
    }
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|text| has_fatal_signal(&text))
}

/// Evaluates the sets of signals of `/proc/PID/status`: whether one waits that is not blocked, and
/// for which the process has no function, and which then ends it.
fn has_fatal_signal(status: &str) -> bool {
    /// Signals that do not end a process that has no function for them: `SIGCHLD`, `SIGCONT`,
    /// `SIGSTOP`, `SIGTSTP`, `SIGTTIN`, `SIGTTOU`, `SIGURG`, `SIGWINCH`.
    const HARMLESS: [u32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];
    const KILL: u64 = 1 << 8;
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
    };
    let waiting = set("SigPnd:") | set("ShdPnd:");
    let harmless = HARMLESS.iter().fold(0, |all, n| all | 1 << (n - 1));
    let outlived = (set("SigBlk:") | set("SigIgn:") | set("SigCgt:") | harmless) & !KILL;
    waiting & !outlived != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    fn status(pending: u64, shared: u64, blocked: u64, caught: u64) -> String {
        format!(
            "Name:\tcp\nState:\tD (disk sleep)\nSigQ:\t1/7\nSigPnd:\t{pending:016x}\n\
             ShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t0000000000000000\n\
             SigCgt:\t{caught:016x}\n"
        )
    }

    #[test]
    fn a_signal_is_fatal_that_the_process_does_not_outlive() {
        let [int, kill, chld] = [1 << 1, 1 << 8, 1 << 16];
        assert!(!has_fatal_signal(&status(0, 0, 0, 0)));
        assert!(has_fatal_signal(&status(kill, 0, 0, 0)));
        assert!(has_fatal_signal(&status(0, kill, u64::MAX, u64::MAX)));
        assert!(has_fatal_signal(&status(0, int, 0, 0)));
        assert!(!has_fatal_signal(&status(0, int, 0, int)), "it has a function for it");
        assert!(!has_fatal_signal(&status(0, int, int, 0)), "it is held back");
        assert!(!has_fatal_signal(&status(0, chld, 0, 0)));
        assert!(!has_fatal_signal("no such thing"));
    }

    /// An answer without more than its head.
    fn answered(mut reader: &UnixStream, within: Duration) -> Option<[u8; 16]> {
        reader.set_read_timeout(Some(within)).unwrap();
        let mut head = [0; 16];
        std::io::Read::read_exact(&mut reader, &mut head).ok().map(|()| head)
    }

    /// A process that a signal ends while one of its requests is in progress is let go. It waits
    /// meanwhile, as the kernel requires: a signal other than `SIGKILL` waits then.
    #[test]
    fn a_request_of_a_process_that_ends_is_answered() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let requests = Requests::default();
        // A socket takes answers as the device does.
        let (reader, writer) = UnixStream::pair().unwrap();
        let device = Arc::new(OwnedFd::from(writer));
        Reply::new(&device, 1).error(Errno::EINTR);
        let interrupted = answered(&reader, Duration::from_secs(60)).unwrap();
        let answer = requests.begin(child.id(), Reply::new(&device, 1));
        let other = requests.begin(std::process::id(), Reply::new(&device, 2));
        let signal = |name: &str| {
            let id = child.id().to_string();
            assert!(
                std::process::Command::new("kill").args([name, &id]).status().unwrap().success()
            );
        };
        signal("-STOP");
        assert!(answered(&reader, LOOK * 4).is_none(), "it only stands still");
        signal("-TERM");
        assert_eq!(answered(&reader, Duration::from_secs(60)), Some(interrupted));
        assert!(!answer.is_wanted());
        assert!(other.is_wanted());
        drop((answer, other));
        assert!(requests.0.state.lock().under_way.is_empty());
        requests.end();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
