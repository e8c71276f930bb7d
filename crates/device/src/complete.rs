//! Delivering results.
//!
//! Three rules hold wherever a [`Done`] or a [`WriteDone`] is called, and this file keeps them:
//!
//! - It never runs inside another one. A device that has its answer at once (memory, or a range
//!   beyond the end) would otherwise recurse as deep as the chain of reads its callers build. On
//!   each thread the first delivery drains a queue; those made meanwhile only append to it.
//! - A panic in it does not reach the device: its thread serves other requests too. In a
//!   simulation, where a panic anywhere ends the run, it is passed on to `rt`.
//! - A thread that is inside one is known ([`delivering`]), because there nothing may wait for the
//!   device: [`crate::read_batch`] then reads by itself, and a full backlog does not hold it up.

use crate::{AlignedBuf, Done, Error, WriteDone};
use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// A result and what gets it.
enum Delivery {
    Read(Done, Result<AlignedBuf, Error>),
    Write(WriteDone, Result<(), Error>),
}

thread_local! {
    /// `Some` while this thread delivers: what is still to be delivered.
    static QUEUE: RefCell<Option<VecDeque<Delivery>>> = const { RefCell::new(None) };
}

/// Whether this thread is inside a [`Done`].
#[must_use]
pub fn delivering() -> bool {
    QUEUE.with_borrow(Option::is_some)
}

/// Calls `done` with `result`: now, or after the deliveries this thread is already making.
pub fn deliver(done: Done, result: Result<AlignedBuf, Error>) {
    deliver_any(Delivery::Read(done, result));
}

/// The same for a write.
pub fn deliver_write(done: WriteDone, result: Result<(), Error>) {
    deliver_any(Delivery::Write(done, result));
}

fn deliver_any(delivery: Delivery) {
    let nested = QUEUE.with_borrow_mut(|queue| match queue {
        Some(queue) => {
            queue.push_back(delivery);
            None
        }
        None => {
            *queue = Some(VecDeque::new());
            Some(delivery)
        }
    });
    let mut next = nested;
    while let Some(delivery) = next {
        // The panic hook has spoken already; the payload has no reader here. Whatever the
        // callback captured is dropped by the unwinding, which is how its owner learns of it.
        let end = catch_unwind(AssertUnwindSafe(|| match delivery {
            Delivery::Read(done, result) => done(result),
            Delivery::Write(done, result) => done(result),
        }));
        if let Err(payload) = end
            && Rt::current().is_simulated()
        {
            let rest = QUEUE.take();
            drop(rest);
            resume_unwind(payload);
        }
        next = QUEUE.with_borrow_mut(|queue| {
            let delivery = queue.as_mut().and_then(VecDeque::pop_front);
            if delivery.is_none() {
                *queue = None;
            }
            delivery
        });
    }
}

/// Waits for the results of a batch.
pub struct Collector<T>(Arc<Inbox<T>>);

/// The right to give one result. Dropped unused, it leaves its place empty: a device that forgets
/// a callback is not waited for.
pub struct Ticket<T> {
    inbox: Arc<Inbox<T>>,
    index: usize,
}

struct Inbox<T> {
    state: Mutex<Waiting<T>>,
    all: Condvar,
}

struct Waiting<T> {
    slots: Vec<Option<T>>,
    /// Tickets that still exist.
    left: usize,
}

/// Places for `count` results, and a ticket for each of them, in order. The waiting is `rt`'s, so
/// that it happens in virtual time where the device does.
#[must_use]
pub fn collect<T>(rt: &Rt, count: usize) -> (Collector<T>, Vec<Ticket<T>>) {
    let slots = (0..count).map(|_| None).collect();
    let state = Mutex::new(Waiting { slots, left: count });
    let inbox = Arc::new(Inbox { state, all: rt.condvar() });
    let tickets = (0..count).map(|index| Ticket { inbox: Arc::clone(&inbox), index }).collect();
    (Collector(inbox), tickets)
}

impl<T> Collector<T> {
    /// The results, once every ticket is used or dropped.
    pub fn wait(self) -> Vec<Option<T>> {
        let mut state = self.0.state.lock();
        while state.left > 0 {
            self.0.all.wait(&mut state);
        }
        core::mem::take(&mut state.slots)
    }
}

impl<T> Ticket<T> {
    /// Gives the result.
    pub fn give(self, result: T) {
        if let Some(slot) = self.inbox.state.lock().slots.get_mut(self.index) {
            *slot = Some(result);
        }
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        let mut state = self.inbox.state.lock();
        state.left -= 1;
        if state.left == 0 {
            self.inbox.all.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn nested_deliveries_do_not_recurse() {
        fn chain(left: u32, depth: &Arc<AtomicU32>, most: &Arc<AtomicU32>) {
            if left == 0 {
                return;
            }
            let (depth, most) = (Arc::clone(depth), Arc::clone(most));
            let done: Done = Box::new(move |_| {
                assert!(delivering());
                most.fetch_max(depth.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                chain(left - 1, &depth, &most);
                depth.fetch_sub(1, Ordering::SeqCst);
            });
            deliver(done, Ok(AlignedBuf::default()));
        }
        let (depth, most) = (Arc::default(), Arc::new(AtomicU32::new(0)));
        chain(100_000, &depth, &most);
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(!delivering());
    }

    #[test]
    fn a_panic_stops_at_the_callback() {
        deliver(Box::new(|_| panic!("on purpose")), Ok(AlignedBuf::default()));
        assert!(!delivering());
        let calls = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&calls);
        let done: Done = Box::new(move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
        });
        deliver(done, Ok(AlignedBuf::default()));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}
