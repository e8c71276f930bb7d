//! Turns of threads that are judged one after the other.
//!
//! # Theory
//!
//! A thread that finds the turn free takes it, also before threads that were called and have not
//! woken up yet: most turns take a microsecond, and a change of threads for each would cost more
//! than the write. A turn that was *kept*, because its holder had to wait, goes to the thread that
//! has waited longest. So a queue is only passed by while no holder waits for anything, and a
//! thread behind `n` others has its turn after `n` kept ones at the latest.

use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) struct Turns {
    rt: Rt,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A thread has the turn.
    taken: bool,
    /// Threads that wait, longest first, each at a condition of its own.
    queue: VecDeque<Arc<Condvar>>,
    /// The thread that has the turn already, though it has not woken up.
    handed: Option<Arc<Condvar>>,
}

/// It is the holder's turn until this is dropped.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    kept: bool,
}

impl Turns {
    pub(super) fn new(rt: &Rt) -> Self {
        Self { rt: rt.clone(), state: Mutex::default() }
    }

    /// Waits for a turn.
    pub(super) fn take(&self) -> Turn<'_> {
        let mut state = self.state.lock();
        if state.taken {
            let me = Arc::new(self.rt.condvar());
            state.queue.push_back(Arc::clone(&me));
            let is_me = |other: Option<&Arc<Condvar>>| other.is_some_and(|o| Arc::ptr_eq(o, &me));
            loop {
                me.wait(&mut state);
                if is_me(state.handed.as_ref()) {
                    state.handed = None;
                    break;
                }
                if !state.taken && is_me(state.queue.front()) {
                    state.queue.pop_front();
                    break;
                }
            }
        }
        state.taken = true;
        Turn { turns: self, kept: false }
    }
}

impl Turn<'_> {
    /// The holder waits for something: threads that come meanwhile queue up.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        let next = state.queue.front().map(Arc::clone);
        if self.kept && next.is_some() {
            state.queue.pop_front();
            state.handed.clone_from(&next);
        } else {
            state.taken = false;
        }
        if let Some(next) = next {
            next.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    /// Eight threads keep turns of a millisecond, one after the other, and come again at once.
    /// Returns the longest that one waited, in milliseconds, and how many turns there were.
    fn longest_wait(rt: &Rt) -> (u128, u32) {
        let turns = Arc::new(Turns::new(rt));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (turns, rt2) = (Arc::clone(&turns), rt.clone());
                let body = move || {
                    let mut longest = 0;
                    for _ in 0..20 {
                        let began = rt2.now();
                        let mut turn = turns.take();
                        longest = longest.max((rt2.now() - began).as_millis());
                        turn.keep();
                        rt2.sleep(MS);
                    }
                    longest
                };
                rt.spawn("writer", body).expect("thread")
            })
            .collect();
        let waits = tasks.into_iter().map(|task| task.join().expect("ends"));
        (waits.max().unwrap_or_default(), 8 * 20)
    }

    #[test]
    fn kept_turns_are_first_come_first_served() {
        for seed in 0..20 {
            let ((wait, turns), took) = Rt::simulate(seed, |rt| (longest_wait(rt), rt.now()));
            assert_eq!((wait, took), (7, MS * turns), "seed {seed}");
        }
    }

    #[test]
    fn turns_end_on_real_threads_too() {
        let rt = Rt::real();
        let turns = Turns::new(&rt);
        let inside = std::sync::atomic::AtomicU32::new(0);
        let count = Mutex::new(0);
        std::thread::scope(|scope| {
            for n in 0..4 {
                let (turns, inside, count, rt) = (&turns, &inside, &count, &rt);
                scope.spawn(move || {
                    for i in 0..2000 {
                        let mut turn = turns.take();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        if (i + n) % 500 == 0 {
                            turn.keep();
                            rt.sleep(MS);
                        }
                        *count.lock() += 1;
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(*count.lock(), 8000);
    }
}
