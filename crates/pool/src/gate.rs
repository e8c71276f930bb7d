//! A lock that may be held over I/O: many readers, or one writer.
//!
//! The meta object set is changed by the sync thread, over many steps with I/O between them; a
//! thread that reads more than one of its objects wants none of that in between. A mutex held over
//! a wait would stop a simulation (see [`rt`]), so this one waits on a condition of the runtime.
//!
//! A writer that waits keeps new readers out, so that a stream of readers cannot hold up a sync.
//!
//! A writer that waits for devices and changes nothing meanwhile lets readers in when that takes
//! longer than it should ([`Gate::wait_for_devices`]): a device that hangs holds up a sync, and not
//! readers.
//!
//! While the writer pauses ([`Gate::pause`]) readers come in past it, and past writers that wait:
//! a pool that is suspended is looked at.

use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long readers wait for a writer that waits for devices. Longer than a healthy device takes,
/// for a reader that comes in holds up the writer.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
struct State {
    readers: usize,
    writer: bool,
    writers_waiting: usize,
    /// Those that pause: none changes anything meanwhile.
    pausing: usize,
}

impl State {
    fn admits_readers(&self) -> bool {
        self.pausing > 0 || (!self.writer && self.writers_waiting == 0)
    }
}

/// See the head of the file.
pub(crate) struct Gate {
    rt: Rt,
    state: Mutex<State>,
    changed: Condvar,
}

/// Held by one reader.
pub(crate) struct ReadGuard<'a>(&'a Gate);

/// Held by a writer that pauses.
pub(crate) struct Pause<'a>(&'a Gate);

/// Held by a writer that may come to pause.
pub(crate) struct Waiting {
    gate: Arc<Gate>,
    phase: Arc<Mutex<Phase>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Short,
    Paused,
    Over,
}

/// Held by the writer.
pub(crate) struct WriteGuard<'a>(&'a Gate);

impl Gate {
    pub(crate) fn new(rt: &Rt) -> Self {
        Self { rt: rt.clone(), state: Mutex::default(), changed: rt.condvar() }
    }

    pub(crate) fn read(&self) -> ReadGuard<'_> {
        let mut state = self.state.lock();
        while !state.admits_readers() {
            self.changed.wait(&mut state);
        }
        state.readers += 1;
        ReadGuard(self)
    }

    /// The same for a caller that does not wait long: neither for writers that wait, nor, without
    /// the lock then, for one that is held up between two steps. `has_given_up` is set when it
    /// comes to that, and the next time nothing is waited for.
    pub(crate) fn read_hastily(&self, has_given_up: &AtomicBool) -> Option<ReadGuard<'_>> {
        let mut state = self.state.lock();
        let until = match has_given_up.load(Ordering::Acquire) {
            true => Duration::ZERO,
            false => self.rt.now() + PATIENCE * 2,
        };
        while !state.admits_readers() && self.rt.now() < until {
            self.changed.wait_until(&mut state, until);
        }
        if !state.admits_readers() {
            has_given_up.store(true, Ordering::Release);
            if state.writer {
                return None;
            }
        }
        state.readers += 1;
        Some(ReadGuard(self))
    }

    /// The same for a caller that does not wait.
    pub(crate) fn try_read(&self) -> Option<ReadGuard<'_>> {
        let mut state = self.state.lock();
        if !state.admits_readers() {
            return None;
        }
        state.readers += 1;
        Some(ReadGuard(self))
    }

    /// Lets readers in as long as the result lives; its end waits until they are out. Called by the
    /// writer, or by a thread that works for it.
    pub(crate) fn pause(&self) -> Pause<'_> {
        self.state.lock().pausing += 1;
        self.changed.notify_all();
        Pause(self)
    }

    /// The writer changes nothing as long as the result lives; [`Self::pause`] begins when that
    /// lasts.
    pub(crate) fn wait_for_devices(self: &Arc<Self>, rt: &Rt) -> Waiting {
        let phase = Arc::new(Mutex::new(Phase::Short));
        let (gate, own) = (Arc::clone(self), Arc::clone(&phase));
        rt.after(PATIENCE, move || {
            let mut phase = own.lock();
            if *phase == Phase::Short {
                *phase = Phase::Paused;
                std::mem::forget(gate.pause());
            }
        });
        Waiting { gate: Arc::clone(self), phase }
    }

    pub(crate) fn write(&self) -> WriteGuard<'_> {
        let mut state = self.state.lock();
        state.writers_waiting += 1;
        while state.writer || state.readers > 0 || state.pausing > 0 {
            self.changed.wait(&mut state);
        }
        state.writers_waiting -= 1;
        state.writer = true;
        WriteGuard(self)
    }
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.readers -= 1;
        if state.readers == 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.0.state.lock().writer = false;
        self.0.changed.notify_all();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.phase.lock(), Phase::Over);
        if before == Phase::Paused {
            drop(Pause(&self.gate));
        }
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.pausing -= 1;
        self.0.changed.notify_all();
        while state.pausing == 0 && state.readers > 0 {
            self.0.changed.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_writer_is_alone_and_readers_are_not() {
        let gate = Arc::new(Gate::new(&Rt::real()));
        let inside = Arc::new(AtomicUsize::new(0));
        let mut threads = Vec::new();
        for n in 0..4 {
            let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
            threads.push(std::thread::spawn(move || {
                for _ in 0..500 {
                    if n == 0 {
                        let _guard = gate.write();
                        assert_eq!(inside.fetch_add(100, Ordering::SeqCst), 0);
                        inside.fetch_sub(100, Ordering::SeqCst);
                    } else {
                        let _guard = gate.read();
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 100);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            }));
        }
        for thread in threads {
            thread.join().unwrap();
        }
        let one = gate.read();
        let two = gate.try_read().expect("readers only");
        drop(one);
        drop(two);
        let _writer = gate.write();
        assert!(gate.try_read().is_none());
        let pause = gate.pause();
        drop(gate.try_read().expect("the writer pauses"));
        drop(pause);
        assert!(gate.try_read().is_none());
    }

    #[test]
    fn a_glance_waits_for_nothing_that_stands_still() {
        Rt::simulate(1, |rt| {
            let gate = Arc::new(Gate::new(rt));
            let long = gate.read();
            let (own, clock) = (Arc::clone(&gate), rt.clone());
            let writer = rt.spawn("writer", move || {
                let _writer = own.write();
                clock.sleep(PATIENCE * 10);
            });
            rt.sleep(PATIENCE);
            assert!(gate.try_read().is_none(), "a writer waits for the reader");
            let flag = AtomicBool::new(false);
            let began = rt.now();
            drop(gate.read_hastily(&flag).expect("past a writer that only waits"));
            assert_eq!((flag.load(Ordering::Acquire), rt.now() - began), (true, PATIENCE * 2));
            drop(gate.read_hastily(&flag).expect("at once"));
            assert_eq!(rt.now() - began, PATIENCE * 2);
            drop(long);
            rt.sleep(PATIENCE);
            assert!(gate.read_hastily(&AtomicBool::new(false)).is_none(), "it may change things");
            writer.unwrap().join().unwrap();
            assert!(gate.read_hastily(&AtomicBool::new(false)).is_some());
        });
    }

    #[test]
    fn readers_come_in_when_devices_take_long() {
        Rt::simulate(1, |rt| {
            let gate = Arc::new(Gate::new(rt));
            let _writer = gate.write();
            let waiting = gate.wait_for_devices(rt);
            rt.sleep(PATIENCE / 2);
            assert!(gate.try_read().is_none());
            rt.sleep(PATIENCE);
            drop(gate.try_read().expect("it takes long"));
            drop(waiting);
            assert!(gate.try_read().is_none());
            drop(gate.wait_for_devices(rt));
            rt.sleep(PATIENCE * 2);
            assert!(gate.try_read().is_none(), "it is over");
        });
    }
}
