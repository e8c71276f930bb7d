//! Threads for requests that may wait long.
//!
//! # Theory
//!
//! The threads of a mount that read the kernel's requests carry them out themselves, which is the
//! fastest way. But a change may wait for room in a transaction group, or for the devices of a
//! suspended pool, and the content of a file may be on a device that hangs. If all threads did, no
//! request that needs none of that would be read any more. So only some of them may be within
//! changes, and some within reads of content ([`Workers::try_inline`]); what comes beyond that is
//! handed to threads of its own, which are started as they are needed and end when they idle. The
//! rest of the reading threads are always left for names and attributes.
//!
//! Jobs that find [`HELPERS_MAX`] threads at work wait in line, first come, first served.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Threads that are started for requests, at most. More processes than this that wait for a
/// suspended pool cost one another nothing: they would wait all the same.
const HELPERS_MAX: usize = 64;

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

/// What a request may wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// It changes something.
    Change,
    /// It reads the content of a file.
    Content,
}

const CLASSES: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

/// See the head of the file. Clones are the same.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Shared>);

struct Shared {
    /// Reading threads that may be within one class.
    inline_max: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Reading threads that are, by class.
    inline: [usize; CLASSES],
    line: VecDeque<Job>,
    helpers: usize,
    idle: usize,
}

/// A reading thread may carry out a request of a class, as long as this lives.
pub(crate) struct InlinePermit<'a> {
    shared: &'a Shared,
    class: Class,
}

impl Drop for InlinePermit<'_> {
    fn drop(&mut self) {
        self.shared.state.lock().inline[self.class as usize] -= 1;
    }
}

impl Workers {
    /// For this many reading threads. At least one of them is left for other requests, if there
    /// are more than two.
    pub(crate) fn new(threads: usize) -> Self {
        let inline_max = threads.saturating_sub(1) / CLASSES;
        Self(Arc::new(Shared { inline_max, state: Mutex::default(), work: Condvar::new() }))
    }

    /// Whether the calling thread, which reads requests, may carry out one of the class.
    pub(crate) fn try_inline(&self, class: Class) -> Option<InlinePermit<'_>> {
        let mut state = self.0.state.lock();
        let inline = &mut state.inline[class as usize];
        if *inline >= self.0.inline_max {
            return None;
        }
        *inline += 1;
        Some(InlinePermit { shared: &self.0, class })
    }

    /// Has a helper do it. When no thread can be started and none is there, the calling one does.
    pub(crate) fn hand_over(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state.lock();
        state.line.push_back(Box::new(job));
        let is_short = state.line.len() > state.idle && state.helpers < HELPERS_MAX;
        if is_short {
            let shared = Arc::clone(&self.0);
            let help = move || shared.help();
            let spawned = std::thread::Builder::new().name("mount-helper".to_owned()).spawn(help);
            state.helpers += usize::from(spawned.is_ok());
        }
        if state.helpers > 0 {
            drop(state);
            self.0.work.notify_one();
            return;
        }
        let alone = state.line.pop_back();
        drop(state);
        alone.into_iter().for_each(|job| job());
    }
}

impl Shared {
    /// The loop of a helper.
    fn help(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.line.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            let waited = self.work.wait_for(&mut state, IDLE);
            state.idle -= 1;
            if waited.timed_out() && state.line.is_empty() {
                state.helpers -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn some_threads_are_always_left() {
        for threads in [1, 2, 3, 4, 8] {
            let workers = Workers::new(threads);
            let mut held = Vec::new();
            for class in [Class::Change, Class::Content] {
                while let Some(inline) = workers.try_inline(class) {
                    held.push(inline);
                }
            }
            assert!(held.len() < threads, "{} of {threads}", held.len());
            held.pop();
            assert_eq!(workers.try_inline(Class::Content).is_some(), threads > 2);
        }
    }

    #[test]
    fn what_waits_holds_nothing_up() {
        let workers = Workers::new(1);
        let (sender, receiver) = channel();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        for n in 0..HELPERS_MAX + 10 {
            let (sender, gate) = (sender.clone(), Arc::clone(&gate));
            workers.hand_over(move || {
                if n < HELPERS_MAX - 1 {
                    let mut open = gate.0.lock();
                    gate.1.wait_while(&mut open, |open| !*open);
                }
                sender.send(n).unwrap();
            });
        }
        // One helper is left for those that do not wait.
        let first: Vec<usize> = receiver.iter().take(11).collect();
        assert_eq!(first, (HELPERS_MAX - 1..HELPERS_MAX + 10).collect::<Vec<_>>());
        *gate.0.lock() = true;
        gate.1.notify_all();
        assert_eq!(receiver.iter().take(HELPERS_MAX - 1).count(), HELPERS_MAX - 1);
        assert!(workers.0.state.lock().helpers <= HELPERS_MAX);
    }
}
