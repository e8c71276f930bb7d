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
    static WORDS: RefCell<Option<Vec<Arc<LeafQueue>>>> = const { RefCell::new(None) };
}

/// This thread is inside a submission.
pub(super) fn is_within() -> bool {
    WORDS.with_borrow(Option::is_some)
}

/// Sends what has begun and whatever that leads to; `nested` only leaves word.
pub(super) fn run_or_leave_word(queue: &Arc<LeafQueue>, nested: bool, begun: Begun) {
    if nested {
        WORDS.with_borrow_mut(|words| {
            let words = words.get_or_insert_default();
            if !words.iter().any(|q| Arc::ptr_eq(q, queue)) {
                words.push(Arc::clone(queue));
            }
        });
    } else if !begun.is_empty() {
        run(queue, begun);
    }
}

/// Forgets the words also when a device panics.
struct Sending;

impl Drop for Sending {
    fn drop(&mut self) {
        let words = WORDS.take();
        drop(words);
    }
}

fn run(queue: &Arc<LeafQueue>, begun: Begun) {
    WORDS.set(Some(Vec::new()));
    let _sending = Sending;
    queue.send(begun);
    while let Some(next) = WORDS.with_borrow_mut(|words| words.as_mut().and_then(Vec::pop)) {
        let begun = next.pick_now();
        if !begun.is_empty() {
            next.send(begun);
        }
    }
}
