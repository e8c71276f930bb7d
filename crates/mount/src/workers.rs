//! Threads for the requests of a mount.
//!
//! # Theory
//!
//! Four threads of a mount read the kernel's requests. A thread that reads one also carries it out,
//! which is the fastest way, as long as another is left to read ([`Workers::try_inline`]). What
//! comes meanwhile stands in line for these threads, which go on with it before they read again,
//! and for helpers, threads that are started as they are needed and end when they idle. So a mount
//! that is not used costs little, and one that is has as many threads as it has requests at a time.
//! With two readers instead of four, small requests of one process and of several are up to a
//! third slower (decision 0023).
//!
//! To wake a helper takes longer than a short request. So for one it is not done, as long as few
//! are in line and one helper, the minder, looks at the line by itself every [`NAP`]: nothing waits
//! longer than that for a thread that is stuck.
//!
//! A change may wait for room in a transaction group, or for the devices of a suspended pool, and
//! the content of a file may be on a device that hangs. Such requests hold up only their like: each
//! class has a line of its own, and at most [`HELPERS_MAX`] threads. Jobs that find these at work
//! wait in line, first come, first served.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Threads that are started for the requests of one class, at most. More processes than this that
/// wait for a suspended pool cost one another nothing: they would wait all the same.
const HELPERS_MAX: usize = 64;

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

/// How often the minder looks.
const NAP: Duration = Duration::from_millis(1);
/// How often it looks in vain until it sleeps as the others do.
const NAPS: u32 = 20;
/// Short requests that stand in line for the threads at work.
const SHORT_MAX: usize = 2;

/// What a request does, and may wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// It looks at names and attributes.
    Name,
    /// It reads the content of a file.
    Content,
    /// It changes something.
    Change,
    /// It writes enough to take long.
    Write,
}

/// How many classes there are. The line of the first goes first.
const CLASSES: usize = 4;

impl Class {
    fn is_short(self) -> bool {
        matches!(self, Self::Name | Self::Change)
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// See the head of the file. Clones are the same.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Shared>);

struct Shared {
    /// Reading threads that may be within requests.
    inline_max: usize,
    /// Reading threads that are.
    inline: AtomicUsize,
    /// Jobs in line, as far as a thread sees that has not the lock.
    waiting: AtomicUsize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    lines: [Line; CLASSES],
    helpers: usize,
    idle: usize,
    /// One of the idle helpers is the minder.
    is_minded: bool,
}

/// The jobs of a class.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Job>,
    running: usize,
}

impl Line {
    /// Jobs that a thread can begin.
    fn ready(&self) -> usize {
        self.waiting.len().min(HELPERS_MAX - self.running)
    }
}

impl State {
    fn ready(&self) -> usize {
        self.lines.iter().map(Line::ready).sum()
    }

    /// The next job, which counts as running from now on.
    fn begin(&mut self) -> Option<(usize, Job)> {
        let found = self.lines.iter_mut().enumerate().find(|(_, line)| line.ready() > 0);
        let (class, line) = found?;
        let job = line.waiting.pop_front()?;
        line.running += 1;
        Some((class, job))
    }
}

/// A reading thread may carry out a request, as long as this lives.
pub(crate) struct InlinePermit<'a>(&'a Shared);

impl InlinePermit<'_> {
    /// No other reading thread is within a request.
    pub(crate) fn is_only(&self) -> bool {
        self.0.inline.load(Ordering::Acquire) == 1
    }
}

impl Drop for InlinePermit<'_> {
    fn drop(&mut self) {
        if self.0.waiting.load(Ordering::Acquire) > 0 && !std::thread::panicking() {
            self.0.work_off(&mut self.0.state.lock());
        }
        self.0.inline.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Workers {
    /// For this many reading threads, of which one is always left to read.
    pub(crate) fn new(threads: usize) -> Self {
        let inline_max = threads.saturating_sub(1);
        let (inline, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (state, work) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { inline_max, inline, waiting, state, work }))
    }

    /// Whether the calling thread, which reads requests, may carry out one.
    pub(crate) fn try_inline(&self) -> Option<InlinePermit<'_>> {
        let shared = &*self.0;
        let more = |n| (n < shared.inline_max).then(|| n + 1);
        let taken = shared.inline.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.is_ok().then(|| InlinePermit(shared))
    }

    /// Has another thread do it. When none can be started and no helper is there, the calling one
    /// does.
    pub(crate) fn hand_over(&self, class: Class, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state.lock();
        state.lines[class as usize].waiting.push_back(Box::new(job));
        self.0.waiting.fetch_add(1, Ordering::AcqRel);
        if class.is_short() && state.is_minded && state.ready() <= SHORT_MAX {
            return;
        }
        if state.ready() > state.idle {
            let shared = Arc::clone(&self.0);
            let help = move || shared.help();
            let spawned = std::thread::Builder::new().name("mount-helper".to_owned()).spawn(help);
            state.helpers += usize::from(spawned.is_ok());
            // It is until it begins.
            state.idle += usize::from(spawned.is_ok());
        }
        if state.helpers > 0 {
            drop(state);
            self.0.work.notify_one();
            return;
        }
        self.0.work_off(&mut state);
    }
}

impl Shared {
    /// Does what is in line, as far as it may begin.
    fn work_off(&self, state: &mut MutexGuard<'_, State>) {
        while let Some((class, job)) = state.begin() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            MutexGuard::unlocked(state, job);
            state.lines[class].running -= 1;
        }
    }

    /// The loop of a helper.
    fn help(&self) {
        let mut state = self.state.lock();
        loop {
            state.idle -= 1;
            self.work_off(&mut state);
            state.idle += 1;
            if self.idle(&mut state) {
                state.idle -= 1;
                state.helpers -= 1;
                return;
            }
        }
    }

    /// Waits for something to do; whether there was nothing for [`IDLE`].
    fn idle(&self, state: &mut MutexGuard<'_, State>) -> bool {
        if !std::mem::replace(&mut state.is_minded, true) {
            let is_called = |state: &State| state.ready() > 0;
            let mut naps = 0..NAPS;
            while !is_called(state) && naps.next().is_some() {
                self.work.wait_for(state, NAP);
            }
            state.is_minded = false;
            if is_called(state) {
                return false;
            }
        }
        self.work.wait_for(state, IDLE).timed_out() && state.ready() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_is_always_left_to_read() {
        for threads in [1, 2, 3, 8] {
            let workers = Workers::new(threads);
            let mut held = Vec::new();
            while let Some(inline) = workers.try_inline() {
                held.push(inline);
            }
            assert_eq!(held.len(), threads - 1);
            held.pop();
            assert_eq!(workers.try_inline().is_some(), threads > 1);
        }
    }

    /// More requests than there are threads wait, and hold up none of another class.
    #[test]
    fn what_waits_holds_nothing_up() {
        let workers = Workers::new(1);
        let (sender, receiver) = channel();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let hang = |n: usize| {
            let (sender, gate) = (sender.clone(), Arc::clone(&gate));
            workers.hand_over(Class::Change, move || {
                let mut open = gate.0.lock();
                gate.1.wait_while(&mut open, |open| !*open);
                sender.send(n).unwrap();
            });
        };
        (0..HELPERS_MAX + 10).for_each(hang);
        let others = [Class::Name, Class::Content, Class::Write, Class::Name, Class::Name];
        for (n, class) in (1000..).zip(others) {
            let sender = sender.clone();
            workers.hand_over(class, move || sender.send(n).unwrap());
            assert_eq!(receiver.recv(), Ok(n));
        }
        assert!(workers.0.state.lock().helpers <= HELPERS_MAX + others.len());
        *gate.0.lock() = true;
        gate.1.notify_all();
        assert_eq!(receiver.iter().take(HELPERS_MAX + 10).count(), HELPERS_MAX + 10);
    }
}
