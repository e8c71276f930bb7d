//! Threads that wait for promises.
//!
//! Each has a place of its own to wait at, and is woken for one of two reasons: what it waits for
//! is kept, or a thread has to lead and it is the one. With sixty threads at one log, waking all
//! for each step of each batch would be most of what the log does.
//!
//! **None is forgotten.** A thread that changes what [`Waiters::due`] is asked about calls it then,
//! under the same lock; and a thread looks for itself under that lock before it waits. One that is
//! woken to lead may find that another has begun: then it waits again, and that one's end wakes the
//! next.

use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::sync::Arc;

/// Where one thread waits.
pub(super) struct Signal {
    was_given: Mutex<bool>,
    given: Condvar,
}

impl Signal {
    pub(super) fn wait(&self) {
        let mut was_given = self.was_given.lock();
        self.given.wait_while(&mut was_given, |given| !*given);
    }

    fn give(&self) {
        *self.was_given.lock() = true;
        self.given.notify_one();
    }
}

/// Threads that are to be woken, when no lock is held any more.
#[must_use]
#[derive(Default)]
pub(super) struct Wakeups(Vec<Arc<Signal>>);

impl Wakeups {
    pub(super) fn wake(self) {
        self.0.iter().for_each(|signal| signal.give());
    }
}

/// See the head of the file.
#[derive(Default)]
pub(super) struct Waiters {
    /// What each waits for, as they came.
    all: Vec<(u64, Arc<Signal>)>,
}

impl Waiters {
    /// One more thread waits for all that is below `ticket`.
    pub(super) fn add(&mut self, rt: &Rt, ticket: u64) -> Arc<Signal> {
        let signal = Arc::new(Signal { was_given: Mutex::new(false), given: rt.condvar() });
        self.all.push((ticket, Arc::clone(&signal)));
        signal
    }

    /// No thread waits.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All is kept below `kept`, and of those that wait for more than `ready` one may lead.
    pub(super) fn due(&mut self, kept: u64, ready: Option<u64>) -> Wakeups {
        let mut due: Vec<_> =
            self.all.extract_if(.., |(ticket, _)| *ticket <= kept).map(|(_, s)| s).collect();
        let leader = ready.and_then(|first| self.all.iter().position(|(t, _)| *t > first));
        due.extend(leader.map(|at| self.all.remove(at).1));
        Wakeups(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_whose_promise_is_kept_are_woken_and_one_that_may_lead() {
        let rt = Rt::real();
        let mut waiters = Waiters::default();
        let all: Vec<_> = [5, 9, 7, 9].into_iter().map(|t| waiters.add(&rt, t)).collect();
        let woken = || -> Vec<bool> { all.iter().map(|s| *s.was_given.lock()).collect() };
        waiters.due(4, None).wake();
        assert_eq!(woken(), [false; 4]);
        // What is ready is 9 and more, and no thread waits for that.
        waiters.due(5, Some(9)).wake();
        assert_eq!(woken(), [true, false, false, false]);
        // The first of those that wait for it.
        waiters.due(5, Some(7)).wake();
        assert_eq!(woken(), [true, true, false, false]);
        waiters.due(u64::MAX, Some(7)).wake();
        assert_eq!(woken(), [true; 4]);
        all.iter().for_each(|signal| signal.wait());
    }
}
