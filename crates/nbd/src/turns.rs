//! Which of a connection's threads reads its requests.
//!
//! # Theory
//!
//! One thread at a time has the turn, and reads a request. Then it passes the turn on, so that what
//! comes next does not wait for this request ([`Turn::pass`]). But to wake a thread takes longer
//! than a short request whose data are in memory. So as long as these are quick, a thread keeps the
//! turn over them ([`Turn::begin`]).
//!
//! One that takes long nevertheless holds up nothing for longer than twice a [`NAP`]: one of the
//! threads that wait for the turn, the minder, looks every [`NAP`] whether the same request is
//! still in progress, and takes the turn from the thread that keeps it. That one finds out when its
//! request is done ([`Turn::end`]). A minder that has seen nothing happen for a while sleeps as the
//! others do, and is called by the next thread that keeps the turn.
//!
//! A word says which turn it is and how many of its requests began and ended: while one is in
//! progress the number is odd. A turn is taken away, and a request ended, by comparing and
//! exchanging that word, so that one of the two comes first.
//!
//! A minder says that it sleeps before it looks at the word for the last time, and a thread changes
//! the word before it looks whether there is a minder: so one of them sees the other.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the minder looks.
const NAP: Duration = Duration::from_millis(1);
/// How often it sees nothing happen until it sleeps.
const NAPS: u32 = 20;
/// A request that takes longer was not quick.
const QUICK: Duration = Duration::from_micros(200);
/// After one that was not, the turn is passed on until this many were.
const DOUBTED: u32 = 64;

/// The turn of a connection.
#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    /// The turn is free, or a minder is wanted.
    changed: Condvar,
    /// The number of the turn, and in the lower half what became of its requests.
    word: AtomicU64,
    has_minder: AtomicBool,
    /// Requests that must be quick until the turn is kept again.
    doubts: AtomicU32,
}

#[derive(Default)]
struct State {
    is_taken: bool,
    waiting: usize,
    /// A thread keeps the turn, and nothing looks after it.
    wants_minder: bool,
}

/// The right to read requests; dropping it passes it on.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    word: u64,
    is_mine: bool,
}

/// The word of the turn behind that of this word.
fn next_turn(word: u64) -> u64 {
    ((word >> 32) + 1) << 32
}

fn is_in_progress(word: u64) -> bool {
    word & 1 == 1
}

impl Turns {
    /// Waits for the turn, for a while.
    pub(crate) fn take(&self, within: Duration) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        state.waiting += 1;
        let until = Instant::now() + within;
        let word = loop {
            if !state.is_taken {
                break Some(next_turn(self.word.load(Ordering::SeqCst)));
            }
            if std::mem::take(&mut state.wants_minder) {
                if let Some(word) = self.mind(&mut state) {
                    break Some(word);
                }
                continue;
            }
            let timed_out = self.changed.wait_until(&mut state, until).timed_out();
            // What came in the same moment has called this thread.
            if timed_out && state.is_taken && !state.wants_minder {
                break None;
            }
        };
        state.waiting -= 1;
        let word = word?;
        state.is_taken = true;
        self.word.store(word, Ordering::SeqCst);
        Some(Turn { turns: self, word, is_mine: true })
    }

    /// Looks after the thread that keeps the turn, until the turn is free or nothing happens. The
    /// word of the next turn, if it was taken away.
    fn mind(&self, state: &mut MutexGuard<'_, State>) -> Option<u64> {
        let (mut seen, mut vain) = (self.word.load(Ordering::SeqCst), 0);
        let mut taken = None;
        while state.is_taken && vain < NAPS {
            if !self.changed.wait_for(state, NAP).timed_out() {
                continue;
            }
            let word = self.word.load(Ordering::SeqCst);
            if word == seen && is_in_progress(word) {
                let next = next_turn(word);
                let order = Ordering::SeqCst;
                taken = self.word.compare_exchange(word, next, order, order).ok().map(|_| next);
            }
            if taken.is_some() {
                // Those behind it may be as slow.
                self.doubts.store(DOUBTED, Ordering::Relaxed);
                break;
            }
            vain = if word == seen { vain + 1 } else { 0 };
            seen = word;
        }
        self.has_minder.store(false, Ordering::SeqCst);
        if taken.is_none() && state.is_taken && self.word.load(Ordering::SeqCst) != seen {
            // Something began just now.
            self.has_minder.store(true, Ordering::SeqCst);
            state.wants_minder = true;
        }
        taken
    }

    /// Whether a request that is short is expected to be quick.
    pub(crate) fn are_quick(&self) -> bool {
        self.doubts.load(Ordering::Relaxed) == 0
    }

    /// How long a short request took.
    pub(crate) fn note(&self, took: Duration) {
        if took > QUICK {
            self.doubts.store(DOUBTED, Ordering::Relaxed);
        } else if !self.are_quick() {
            let fewer = |doubts: u32| doubts.checked_sub(1);
            let _ = self.doubts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        }
    }
}

impl Turn<'_> {
    /// Keeps the turn over a request that begins now. `enlist` starts a thread that will wait for
    /// the turn, if there may be one. False: nothing would look after this thread, and the turn is
    /// to be passed on.
    pub(crate) fn begin(&mut self, enlist: impl FnOnce() -> bool) -> bool {
        self.word += 1;
        let turns = self.turns;
        turns.word.store(self.word, Ordering::SeqCst);
        if turns.has_minder.load(Ordering::SeqCst) {
            return true;
        }
        let mut state = turns.state.lock();
        if state.waiting == 0 {
            drop(state);
            if !enlist() {
                return !self.end();
            }
            state = turns.state.lock();
        }
        state.wants_minder = true;
        turns.has_minder.store(true, Ordering::SeqCst);
        drop(state);
        turns.changed.notify_one();
        true
    }

    /// The request is done. False: it took long, and another thread has the turn.
    pub(crate) fn end(&mut self) -> bool {
        let next = self.word + 1;
        let order = Ordering::SeqCst;
        self.is_mine = self.turns.word.compare_exchange(self.word, next, order, order).is_ok();
        self.word = next;
        self.is_mine
    }

    /// Passes the turn on; whether a thread waits for it.
    pub(crate) fn pass(mut self) -> bool {
        self.give_back()
    }

    fn give_back(&mut self) -> bool {
        if !std::mem::take(&mut self.is_mine) {
            return true;
        }
        let mut state = self.turns.state.lock();
        // In the middle of a request it may have been taken away.
        let is_mine = !is_in_progress(self.word) || self.end();
        if !is_mine {
            return true;
        }
        self.is_mine = false;
        state.is_taken = false;
        let is_awaited = state.waiting > 0;
        drop(state);
        self.turns.changed.notify_one();
        is_awaited
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    const LONG: Duration = Duration::from_secs(60);

    fn none() -> bool {
        false
    }

    #[test]
    fn the_turn_is_one_threads_until_it_is_passed_on() {
        let turns = Turns::default();
        let turn = turns.take(LONG).unwrap();
        assert!(turns.take(NAP).is_none());
        assert!(!turn.pass(), "none waits");
        // Dropped, also in the middle of a request.
        let mut turn = turns.take(LONG).unwrap();
        assert!(!turn.begin(none), "nothing would look after it");
        turn.word += 1;
        turns.word.store(turn.word, Ordering::SeqCst);
        drop(turn);
        drop(turns.take(LONG).unwrap());
        std::thread::scope(|scope| {
            let turn = turns.take(LONG).unwrap();
            scope.spawn(|| drop(turns.take(LONG).unwrap()));
            while turns.state.lock().waiting == 0 {
                std::thread::yield_now();
            }
            assert!(turn.pass());
        });
    }

    /// A request that does not end holds up nothing; a thread is started to look after it.
    #[test]
    fn a_turn_that_is_kept_for_long_is_taken_away() {
        let turns = Arc::new(Turns::default());
        for round in 0..3 {
            let mut turn = turns.take(LONG).unwrap();
            let (done, is_done) = std::sync::mpsc::channel();
            let enlist = || {
                let turns = Arc::clone(&turns);
                std::thread::spawn(move || {
                    let turn = turns.take(LONG).unwrap();
                    done.send(()).unwrap();
                    drop(turn);
                });
                true
            };
            assert!(turn.begin(enlist));
            is_done.recv_timeout(LONG).unwrap();
            assert!(!turn.end(), "{round}");
            drop(turn);
        }
    }

    /// Whatever threads do, one of them reads at a time, and none waits for ever.
    #[test]
    fn one_thread_reads_at_a_time() {
        let (turns, reading, read) =
            (Turns::default(), AtomicBool::new(false), AtomicUsize::new(0));
        let work = |of: usize| {
            while read.load(Ordering::SeqCst) < 4000 {
                let Some(mut turn) = turns.take(LONG) else { panic!("the turn was lost") };
                loop {
                    assert!(!reading.swap(true, Ordering::SeqCst), "two read");
                    let n = read.fetch_add(1, Ordering::SeqCst);
                    reading.store(false, Ordering::SeqCst);
                    if n % 5 == of || n >= 4000 || !turn.begin(none) {
                        turn.pass();
                        break;
                    }
                    if n % 199 == of {
                        std::thread::sleep(NAP * 4);
                    }
                    if !turn.end() {
                        break;
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|of| drop(scope.spawn(move || work(of))));
        });
        assert!(read.into_inner() >= 4000);
    }

    #[test]
    fn a_slow_request_is_followed_by_doubts() {
        let turns = Turns::default();
        assert!(turns.are_quick());
        turns.note(QUICK * 2);
        for _ in 0..DOUBTED {
            assert!(!turns.are_quick());
            turns.note(QUICK / 2);
        }
        assert!(turns.are_quick());
    }
}
