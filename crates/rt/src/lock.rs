//! A lock that may be kept across waits.

use crate::{Condvar, Rt};
use core::fmt;
use core::ops::{Deref, DerefMut};
use parking_lot::{Mutex, MutexGuard};

/// A mutex for threads that have to keep it while they wait: for a device, a timer, another thread.
///
/// In a simulation such a lock is contended, and waiting for it has to be a wait that the runtime
/// knows of, which waiting for a `parking_lot` mutex is not. In real mode it is one. Not fair, and
/// the thread that has it must not ask for it again.
pub struct Lock<T> {
    value: Mutex<T>,
    simulated: bool,
    /// Only there for the condition variable, which wants to unlock something.
    gate: Mutex<()>,
    freed: Condvar,
}

/// Keeps a [`Lock`] until it is dropped.
pub struct LockGuard<'a, T> {
    // In this order they are dropped: unlocked first, then told.
    value: MutexGuard<'a, T>,
    _tell: NotifyOnDrop<'a>,
}

/// Tells the waiting threads when it is dropped.
struct NotifyOnDrop<'a>(Option<&'a Condvar>);

impl Drop for NotifyOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(freed) = self.0 {
            freed.notify_one();
        }
    }
}

impl<T> Lock<T> {
    /// A lock around `value`, whose waits are this runtime's.
    pub fn new(rt: &Rt, value: T) -> Self {
        let (value, gate) = (Mutex::new(value), Mutex::default());
        Self { value, simulated: rt.is_simulated(), gate, freed: rt.condvar() }
    }

    /// Waits until no thread has it, and takes it.
    #[track_caller]
    pub fn lock(&self) -> LockGuard<'_, T> {
        if !self.simulated {
            return LockGuard { value: self.value.lock(), _tell: NotifyOnDrop(None) };
        }
        loop {
            // No other thread runs between these two lines.
            if let Some(value) = self.value.try_lock() {
                return LockGuard { value, _tell: NotifyOnDrop(Some(&self.freed)) };
            }
            self.freed.wait(&mut self.gate.lock());
        }
    }

    /// Takes it if no thread has it.
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        let value = self.value.try_lock()?;
        Some(LockGuard { value, _tell: NotifyOnDrop(self.simulated.then_some(&self.freed)) })
    }

    /// The value, of a lock that is not shared.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use std::sync::Arc;

    const MS: Duration = Duration::from_millis(1);

    /// Four threads that read, wait and write back, each ten times.
    fn count(rt: &Rt) -> u32 {
        let lock = Arc::new(Lock::new(rt, 0));
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let (lock, rt2) = (Arc::clone(&lock), rt.clone());
                let body = move || {
                    for _ in 0..10 {
                        let mut value = lock.lock();
                        let before = *value;
                        rt2.sleep(MS / 10);
                        *value = before + 1;
                    }
                };
                rt.spawn("counter", body).expect("thread")
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().expect("ends"));
        *lock.lock()
    }

    #[test]
    fn it_may_be_kept_across_waits() {
        assert_eq!(count(&Rt::real()), 40);
        for seed in 0..20 {
            let (value, took) = Rt::simulate(seed, |rt| (count(rt), rt.now()));
            assert_eq!((value, took), (40, MS * 4));
        }
    }

    #[test]
    fn trying_does_not_wait() {
        let mut lock = Lock::new(&Rt::real(), 0u8);
        *lock.get_mut() = 3;
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert_eq!(lock.try_lock().map(|guard| *guard), Some(3));
        assert_eq!(lock.into_inner(), 3);
    }
}
