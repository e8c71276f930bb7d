//! Callbacks at a later time, in real mode.
//!
//! One thread, started with the first timer, sleeps until the earliest one is due. Where the system
//! gives us none, all of them wait until one can be started with a later timer: they are deadlines
//! and pauses, and doing without one is better than holding up the thread that asks for it.

use crate::clock::{Clock, RealClock};
use core::time::Duration;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The function to call.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// The timers not yet due.
pub(crate) struct Timers {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// By time, and then in the order they were added.
    due: BTreeMap<(Duration, u64), Callback>,
    added: u64,
    started: bool,
}

impl Timers {
    pub(crate) const fn new() -> Self {
        let state = State { due: BTreeMap::new(), added: 0, started: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Calls `callback` after `delay`.
    pub(crate) fn add(&'static self, delay: Duration, callback: Callback) {
        let mut state = self.state.lock();
        if !state.started {
            state.started = crate::thread::spawn("timer", move || self.run()).is_ok();
        }
        let key = (RealClock.now().saturating_add(delay), state.added);
        state.added += 1;
        state.due.insert(key, callback);
        drop(state);
        self.changed.notify_one();
    }

    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            let now = RealClock.now();
            match state.due.first_entry() {
                Some(entry) if entry.key().0 <= now => {
                    let callback = entry.remove();
                    drop(state);
                    // The panic hook has spoken; other timers have nothing to do with it.
                    drop(catch_unwind(AssertUnwindSafe(callback)));
                    state = self.state.lock();
                }
                Some(entry) => {
                    let left = entry.key().0 - now;
                    self.changed.wait_for(&mut state, left);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn callbacks_come_in_the_order_of_their_times() {
        static TIMERS: Timers = Timers::new();
        let (answers, inbox) = channel();
        let begin = RealClock.now();
        for (ms, mark) in [(30, 'c'), (0, 'a'), (15, 'b'), (15, 'B')] {
            let answers = answers.clone();
            let callback = Box::new(move || {
                answers.send(mark).expect("receiver");
                assert!(mark != 'a', "on purpose: a panic stops no other timer");
            });
            TIMERS.add(Duration::from_millis(ms), callback);
        }
        let got: String = inbox.iter().take(4).collect();
        assert_eq!(got, "abBc");
        assert!(RealClock.now() - begin >= Duration::from_millis(30));
    }
}
