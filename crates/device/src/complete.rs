//! Delivering results.
//!
//! Three rules hold wherever a [`Done`] is called, and this file keeps them:
//!
//! - It never runs inside another one. A device that has its answer at once (memory, or a range
//!   beyond the end) would otherwise recurse as deep as the chain of reads its callers build. On
//!   each thread the first delivery drains a queue; those made meanwhile only append to it.
//! - A panic in it does not reach the device: its thread serves other requests too.
//! - A thread that is inside one is known ([`delivering`]), because there nothing may wait for the
//!   device: [`crate::read_batch`] then reads by itself, and a full backlog does not hold it up.

use crate::{AlignedBuf, Done, Error};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A result and who gets it.
type Delivery = (Done, Result<AlignedBuf, Error>);

thread_local! {
    /// `Some` while this thread delivers: what is still to be delivered.
    static QUEUE: RefCell<Option<VecDeque<Delivery>>> = const { RefCell::new(None) };
}

/// Whether this thread is inside a [`Done`].
pub(crate) fn delivering() -> bool {
    QUEUE.with_borrow(Option::is_some)
}

/// Calls `done` with `result`: now, or after the deliveries this thread is already making.
pub(crate) fn deliver(done: Done, result: Result<AlignedBuf, Error>) {
    let nested = QUEUE.with_borrow_mut(|queue| match queue {
        Some(queue) => {
            queue.push_back((done, result));
            None
        }
        None => {
            *queue = Some(VecDeque::new());
            Some((done, result))
        }
    });
    let mut next = nested;
    while let Some((done, result)) = next {
        // The panic hook has spoken already; the payload has no reader here. Whatever the
        // callback captured is dropped by the unwinding, which is how its owner learns of it.
        drop(catch_unwind(AssertUnwindSafe(|| done(result))));
        next = QUEUE.with_borrow_mut(|queue| {
            let delivery = queue.as_mut().and_then(VecDeque::pop_front);
            if delivery.is_none() {
                *queue = None;
            }
            delivery
        });
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
