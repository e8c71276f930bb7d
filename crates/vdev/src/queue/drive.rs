//! Who sends.
//!
//! A device may answer within the submission, and the answer admits the next request. Were that
//! submitted at once, a thousand requests to memory would be a thousand frames deep. So a thread
//! that is sending already only notes which queue has something to send, and its outermost
//! submission sees to it when it comes back.

use super::leaf::{Begun, LeafQueue};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// `Some` while this thread sends: queues that have more to send.
    static DEFERRED: RefCell<Option<Vec<Arc<LeafQueue>>>> = const { RefCell::new(None) };
}

/// This thread is inside a submission.
pub(super) fn is_within() -> bool {
    DEFERRED.with_borrow(Option::is_some)
}

/// Sends what has begun and whatever that leads to; `nested` only defers it.
pub(super) fn run_or_defer(queue: &Arc<LeafQueue>, nested: bool, begun: Begun) {
    if nested {
        DEFERRED.with_borrow_mut(|deferred| {
            let deferred = deferred.get_or_insert_default();
            if !deferred.iter().any(|q| Arc::ptr_eq(q, queue)) {
                deferred.push(Arc::clone(queue));
            }
        });
    } else if !begun.is_empty() {
        run(queue, begun);
    }
}

/// Forgets what is deferred also when a device panics.
struct Sending;

impl Drop for Sending {
    fn drop(&mut self) {
        let deferred = DEFERRED.take();
        drop(deferred);
    }
}

fn run(queue: &Arc<LeafQueue>, begun: Begun) {
    DEFERRED.set(Some(Vec::new()));
    let _sending = Sending;
    queue.send(begun);
    while let Some(next) = DEFERRED.with_borrow_mut(|deferred| deferred.as_mut().and_then(Vec::pop))
    {
        let begun = next.pick_now();
        if !begun.is_empty() {
            next.send(begun);
        }
    }
}
