//! Locks by object number, shared or exclusive, several at once in ascending order.
//!
//! Whoever waits here lets nobody wait for ever: exclusive waiters go before new sharers. A thread
//! must not ask for an object it holds already. Waiting goes through a condition variable and never
//! through the mutex of a shard, which is held for the time of a table operation alone: a holder
//! may wait for a device meanwhile.

use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::collections::HashMap;

/// Shards of the table; a power of two.
const SHARDS: usize = 64;

/// How an object is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

#[derive(Default)]
struct Held {
    sharers: u32,
    exclusive: bool,
    /// Threads that wait to hold it exclusively.
    waiting: u32,
}

impl Held {
    fn allows(&self, mode: Mode) -> bool {
        match mode {
            Mode::Shared => !self.exclusive && self.waiting == 0,
            Mode::Exclusive => !self.exclusive && self.sharers == 0,
        }
    }

    fn is_idle(&self) -> bool {
        !self.exclusive && self.sharers == 0 && self.waiting == 0
    }
}

struct Shard {
    held: Mutex<HashMap<u64, Held>>,
    changed: Condvar,
}

/// A table of locks.
pub(crate) struct KeyedLocks {
    shards: Vec<Shard>,
}

impl KeyedLocks {
    pub(crate) fn new() -> Self {
        let rt = Rt::current();
        let shard = |_| Shard { held: Mutex::default(), changed: rt.condvar() };
        Self { shards: (0..SHARDS).map(shard).collect() }
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
        let mut table = shard.held.lock();
        let mut counted = false;
        loop {
            let held = table.entry(object).or_default();
            if held.allows(mode) {
                match mode {
                    Mode::Shared => held.sharers += 1,
                    Mode::Exclusive => held.exclusive = true,
                }
                if counted {
                    held.waiting -= 1;
                }
                return;
            }
            if mode == Mode::Exclusive && !counted {
                held.waiting += 1;
                counted = true;
            }
            shard.changed.wait(&mut table);
        }
    }

    fn release(&self, object: u64, mode: Mode) {
        let Some(shard) = self.shard(object) else { return };
        let mut table = shard.held.lock();
        if let Some(held) = table.get_mut(&object) {
            match mode {
                Mode::Shared => held.sharers = held.sharers.saturating_sub(1),
                Mode::Exclusive => held.exclusive = false,
            }
            if held.is_idle() {
                table.remove(&object);
            }
        }
        drop(table);
        shard.changed.notify_all();
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
        let locks = KeyedLocks::new();
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
        assert!(locks.shards.iter().all(|s| s.held.lock().is_empty()));
    }

    #[test]
    fn sharers_share() {
        let locks = KeyedLocks::new();
        let a = locks.shared(5);
        let b = locks.shared(5);
        drop((a, b));
        drop(locks.exclusive(5));
        assert!(locks.shards.iter().all(|s| s.held.lock().is_empty()));
    }
}
