//! The thread that calls the callbacks of a device's users: they may read from the device, so no
//! thread that the answers of the store come on may run them.

use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

type Call = Box<dyn FnOnce() + Send>;

/// A queue of callbacks, and its thread, which ends with it.
pub(super) struct Answers(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    calls: VecDeque<Call>,
    is_over: bool,
}

impl Answers {
    pub(super) fn start(rt: &Rt) -> io::Result<Self> {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: rt.condvar() });
        let own = Arc::clone(&shared);
        drop(rt.spawn("far answers", move || own.serve())?);
        Ok(Self(shared))
    }

    pub(super) fn push(&self, call: impl FnOnce() + Send + 'static) {
        self.0.queue.lock().calls.push_back(Box::new(call));
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn serve(&self) {
        let mut queue = self.queue.lock();
        loop {
            match queue.calls.pop_front() {
                Some(call) => {
                    drop(queue);
                    call();
                    queue = self.queue.lock();
                }
                None if queue.is_over => return,
                None => self.changed.wait(&mut queue),
            }
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.0.queue.lock().is_over = true;
        self.0.changed.notify_all();
    }
}
