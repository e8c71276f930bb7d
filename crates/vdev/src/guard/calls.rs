//! Threads that make calls which may hang.
//!
//! A call is made by a thread that waits for one, or by a new one. A thread that has nothing to do
//! stays for a while, since flushes come in a row; one that hangs in its call is lost until the
//! device lets go of it. There are never more of them than callers that wait, and those that hang:
//! a device that is silent gets no more calls.

use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long a thread waits for another call.
const IDLE: Duration = Duration::from_secs(2);

type Call = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    waiting: VecDeque<Call>,
    /// Threads that wait for a call, less those that a waiting call has woken.
    idle: usize,
}

/// See the head of the file.
pub(super) struct Calls {
    rt: Rt,
    state: Mutex<State>,
    arrived: Condvar,
}

impl Calls {
    pub(super) fn new(rt: &Rt) -> Arc<Self> {
        Arc::new(Self { rt: rt.clone(), state: Mutex::default(), arrived: rt.condvar() })
    }

    /// Makes the call, soon.
    pub(super) fn make(self: &Arc<Self>, call: impl FnOnce() + Send + 'static) {
        let call: Call = Box::new(call);
        {
            let mut state = self.state.lock();
            state.waiting.push_back(call);
            if state.idle > 0 {
                state.idle -= 1;
                drop(state);
                return self.arrived.notify_one();
            }
        }
        let calls = Arc::clone(self);
        if self.rt.spawn("device call", move || calls.serve()).is_err() {
            // The system gives us no thread: then it may hang the caller.
            let call = self.state.lock().waiting.pop_back();
            call.into_iter().for_each(|call| call());
        }
    }

    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(call) = state.waiting.pop_front() {
                drop(state);
                call();
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            let until = self.rt.now() + IDLE;
            let mut is_over = false;
            while state.waiting.is_empty() && !is_over {
                is_over = self.arrived.wait_until(&mut state, until);
            }
            if state.waiting.is_empty() {
                // No thread has woken it, or another one took the call.
                state.idle = state.idle.saturating_sub(1);
                return;
            }
        }
    }
}
