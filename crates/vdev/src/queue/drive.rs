//! Which thread sends.
//!
//! A device may answer within the submission, and the answer admits the next request. Were that
//! submitted at once, a thousand requests to memory would be a thousand frames deep. So a thread
//! that is sending already only notes which queue has something to send, and its outermost
//! submission sees to it when it comes back.

use std::cell::RefCell;
use std::ptr;
use std::sync::Arc;

/// A queue that sends.
pub(super) trait Dispatch {
    /// Sends what may begin now.
    fn send_more(self: Arc<Self>);
}

thread_local! {
    /// `Some` while this thread sends: queues that have more to send.
    static DEFERRED: RefCell<Option<Vec<Arc<dyn Dispatch>>>> = const { RefCell::new(None) };
}

/// This thread is inside a submission.
pub(super) fn is_within() -> bool {
    DEFERRED.with_borrow(Option::is_some)
}

/// Notes, inside a submission, that a queue has more to send.
pub(super) fn defer(queue: Arc<dyn Dispatch>) {
    DEFERRED.with_borrow_mut(|deferred| {
        let deferred = deferred.get_or_insert_default();
        let is_it = |q: &Arc<dyn Dispatch>| ptr::addr_eq(Arc::as_ptr(q), Arc::as_ptr(&queue));
        if !deferred.iter().any(is_it) {
            deferred.push(queue);
        }
    });
}

/// Forgets what is deferred also when a device panics.
struct Sending;

impl Drop for Sending {
    fn drop(&mut self) {
        let deferred = DEFERRED.take();
        drop(deferred);
    }
}

/// Does a first submission, and then what was deferred meanwhile.
pub(super) fn run(first: impl FnOnce()) {
    DEFERRED.set(Some(Vec::new()));
    let _sending = Sending;
    first();
    while let Some(next) = DEFERRED.with_borrow_mut(|deferred| deferred.as_mut().and_then(Vec::pop))
    {
        next.send_more();
    }
}
