//! Changes of an object that read, decide and write: one at a time for each object.
//!
//! The live object keeps single writes apart by itself. A change of a table reads blocks, decides,
//! and writes others; two of them at once would undo each other. A thread that makes such a change
//! holds the object's lock for its duration, reading of blocks included: what is decided is only
//! right for the blocks that were read. No thread waits for a txg, or for a second object, while
//! holding one, so holders always finish.
//!
//! A lock is an entry in a set, not a mutex: the holder waits for devices, and waiting for it must
//! be a wait that the runtime knows of.

use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::collections::HashSet;
use std::sync::Arc;

/// The locks of one object set.
pub(crate) struct ObjectLocks {
    held: Mutex<HashSet<u64>>,
    released: Condvar,
}

impl ObjectLocks {
    pub(crate) fn new(rt: &Rt) -> Self {
        Self { held: Mutex::default(), released: rt.condvar() }
    }

    /// Waits until no thread holds object `number`, and holds it.
    pub(crate) fn lock(self: &Arc<Self>, number: u64) -> ObjectLock {
        let mut held = self.held.lock();
        while !held.insert(number) {
            self.released.wait(&mut held);
        }
        ObjectLock { locks: Arc::clone(self), number }
    }
}

/// Holds an object of a set; dropped, lets go of it. See [`crate::Objset::lock`].
pub struct ObjectLock {
    locks: Arc<ObjectLocks>,
    number: u64,
}

impl Drop for ObjectLock {
    fn drop(&mut self) {
        self.locks.held.lock().remove(&self.number);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn one_at_a_time_for_each_object() {
        let locks = Arc::new(ObjectLocks::new(&Rt::current()));
        let counters = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            for n in 0..8 {
                let (locks, counters) = (&locks, &counters);
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let _lock = locks.lock(n % 2);
                        let counter = &counters[(n % 2) as usize];
                        let seen = counter.load(Ordering::Relaxed);
                        std::hint::spin_loop();
                        counter.store(seen + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(counters.map(AtomicU64::into_inner), [4000, 4000]);
        assert!(locks.held.lock().is_empty());
    }
}
