//! Locks by object number, shared or exclusive, several at once in ascending order.
//!
//! No thread waits here for ever: exclusive waiters go before new sharers. A thread
//! must not ask for an object it holds already. Waiting goes through a condition variable and never
//! through the mutex of a shard, which is held for the time of a table operation alone: a holder
//! may wait for a device meanwhile.

use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::collections::HashMap;
use std::sync::Arc;

/// Shards of the table; a power of two.
const SHARDS: usize = 64;

/// How an object is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// An object that a thread holds or waits for.
#[derive(Default)]
struct LockState {
    sharers: u32,
    exclusive: bool,
    /// Threads that wait to hold it exclusively.
    waiting_exclusive: u32,
    /// Threads that wait to share it.
    waiting_shared: u32,
    /// One of those was called and has not looked yet: no need to call another.
    called: bool,
    /// The conditions that they wait on, since the first of them.
    changed: Option<Arc<Changed>>,
}

/// The threads that wait for one object. Two conditions, so that one release wakes those that can
/// continue, and of many that want the object for themselves, one.
struct Changed {
    for_exclusive: Condvar,
    for_shared: Condvar,
}

impl Changed {
    fn of(&self, mode: Mode) -> &Condvar {
        match mode {
            Mode::Shared => &self.for_shared,
            Mode::Exclusive => &self.for_exclusive,
        }
    }
}

impl LockState {
    fn allows(&self, mode: Mode) -> bool {
        match mode {
            Mode::Shared => !self.exclusive && self.waiting_exclusive == 0,
            Mode::Exclusive => !self.exclusive && self.sharers == 0,
        }
    }

    fn waiting(&mut self, mode: Mode) -> &mut u32 {
        match mode {
            Mode::Shared => &mut self.waiting_shared,
            Mode::Exclusive => &mut self.waiting_exclusive,
        }
    }

    fn is_idle(&self) -> bool {
        let waiting = self.waiting_exclusive + self.waiting_shared;
        !self.exclusive && self.sharers == 0 && waiting == 0
    }

    /// Wakes the threads that can go on now. One that is woken may find that another was faster,
    /// whose release then wakes it again.
    fn wake(&mut self) {
        let Some(changed) = self.changed.as_ref().filter(|_| !self.exclusive) else { return };
        if self.waiting_exclusive == 0 {
            changed.for_shared.notify_all();
        } else if self.sharers == 0 && !self.called {
            self.called = true;
            changed.for_exclusive.notify_one();
        }
    }
}

/// A table of locks.
pub(crate) struct KeyedLocks {
    rt: Rt,
    shards: Vec<Shard>,
}

/// A part of the objects.
type Shard = Mutex<HashMap<u64, LockState>>;

impl KeyedLocks {
    pub(crate) fn new(rt: &Rt) -> Self {
        Self { rt: rt.clone(), shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    fn shard(&self, object: u64) -> Option<&Shard> {
        self.shards.get(object as usize % SHARDS)
    }

    /// Locks all `objects` in one mode; numbers given twice are locked once.
    pub(crate) fn lock(&self, objects: &[u64], mode: Mode) -> Guard<'_> {
        let mut objects = objects.to_vec();
        objects.sort_unstable();
        objects.dedup();
        for object in &objects {
            self.acquire(*object, mode);
        }
        Guard { locks: self, objects, mode }
    }

    /// Locks one object for looking.
    pub(crate) fn shared(&self, object: u64) -> Guard<'_> {
        self.lock(&[object], Mode::Shared)
    }

    /// Locks one object for changing.
    pub(crate) fn exclusive(&self, object: u64) -> Guard<'_> {
        self.lock(&[object], Mode::Exclusive)
    }

    fn acquire(&self, object: u64, mode: Mode) {
        let Some(shard) = self.shard(object) else { return };
        let mut table = shard.lock();
        let mut waited = false;
        loop {
            let held = table.entry(object).or_default();
            if waited && mode == Mode::Exclusive {
                held.called = false;
            }
            if held.allows(mode) {
                match mode {
                    Mode::Shared => held.sharers += 1,
                    Mode::Exclusive => held.exclusive = true,
                }
                if waited {
                    *held.waiting(mode) -= 1;
                }
                return;
            }
            if !waited {
                *held.waiting(mode) += 1;
                waited = true;
            }
            let changed = Arc::clone(held.changed.get_or_insert_with(|| {
                let (for_exclusive, for_shared) = (self.rt.condvar(), self.rt.condvar());
                Arc::new(Changed { for_exclusive, for_shared })
            }));
            changed.of(mode).wait(&mut table);
        }
    }

    fn release(&self, object: u64, mode: Mode) {
        let Some(shard) = self.shard(object) else { return };
        let mut table = shard.lock();
        if let Some(held) = table.get_mut(&object) {
            match mode {
                Mode::Shared => held.sharers = held.sharers.saturating_sub(1),
                Mode::Exclusive => held.exclusive = false,
            }
            held.wake();
            if held.is_idle() {
                table.remove(&object);
            }
        }
    }
}

/// Objects that are locked until this is dropped.
pub(crate) struct Guard<'a> {
    locks: &'a KeyedLocks,
    objects: Vec<u64>,
    mode: Mode,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        for object in self.objects.iter().rev() {
            self.locks.release(*object, self.mode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn an_exclusive_holder_is_alone() {
        let locks = KeyedLocks::new(&Rt::current());
        let (inside, worst) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|s| {
            for t in 0..4u64 {
                let (locks, inside, worst) = (&locks, &inside, &worst);
                s.spawn(move || {
                    for i in 0..500u64 {
                        // Sets that overlap, given in any order, do not deadlock.
                        let _held = locks.lock(&[7, (i + t) % 3, 64 + t % 2], Mode::Exclusive);
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        worst.fetch_max(now, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(worst.load(Ordering::SeqCst), 1);
        assert!(locks.shards.iter().all(|s| s.lock().is_empty()));
    }

    /// Both kinds want the same object all the time, and each gets its turn.
    #[test]
    fn every_waiting_thread_is_woken() {
        let locks = KeyedLocks::new(&Rt::current());
        let (writers, readers) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|s| {
            for t in 0..6u64 {
                let (locks, writers, readers) = (&locks, &writers, &readers);
                s.spawn(move || {
                    for _ in 0..2000 {
                        if t % 2 == 0 {
                            let _held = locks.exclusive(7);
                            let before = writers.load(Ordering::Relaxed);
                            std::thread::yield_now();
                            writers.store(before + 1, Ordering::Relaxed);
                        } else {
                            let _held = locks.shared(7);
                            readers.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let came = (writers.into_inner(), readers.into_inner());
        assert_eq!(came, (6000, 6000));
        assert!(locks.shards.iter().all(|s| s.lock().is_empty()));
    }

    #[test]
    fn sharers_share() {
        let locks = KeyedLocks::new(&Rt::current());
        let a = locks.shared(5);
        let b = locks.shared(5);
        drop((a, b));
        drop(locks.exclusive(5));
        assert!(locks.shards.iter().all(|s| s.lock().is_empty()));
    }
}
