//! Threads that issue device writes, as many as a tunable says (`zio_taskq_threads`).
//!
//! By default there are none: writes go to the devices' queues as they come, as many as there is
//! room for. With `n` threads each takes one write at a time and waits until it is on its device,
//! so no more than `n` are under way in the whole pool, as in the engine of 2007. The number may
//! change at any time: what is queued is written by a thread that is there.

use crate::profile::{Profiler, Stage, ThreadKind};
use crate::reader::Reader;
use parking_lot::Mutex;
use rt::{Condvar, Rt, Task};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vdev::{BlockWrite, ManyDevices};

/// The threads and their queue.
pub(crate) struct Issue {
    inner: Arc<Inner>,
    tasks: Mutex<Vec<Task<()>>>,
}

struct Inner {
    rt: Rt,
    reader: Arc<Reader>,
    profiler: Arc<Profiler>,
    /// As many threads as there should be. Changed under the lock of `state`; every write looks at
    /// it without.
    wanted: AtomicUsize,
    state: Mutex<State>,
    /// There is something to do, or nothing any more.
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<BlockWrite>,
    /// As many as there are.
    running: usize,
    closed: bool,
}

impl Issue {
    pub(crate) fn new(rt: &Rt, reader: &Arc<Reader>, profiler: &Arc<Profiler>) -> Self {
        let inner = Inner {
            rt: rt.clone(),
            reader: Arc::clone(reader),
            profiler: Arc::clone(profiler),
            wanted: AtomicUsize::new(0),
            state: Mutex::default(),
            work: rt.condvar(),
        };
        Self { inner: Arc::new(inner), tasks: Mutex::default() }
    }

    /// How many threads there should be.
    pub(crate) fn threads(&self) -> usize {
        self.inner.wanted.load(Ordering::Relaxed)
    }

    /// Changes it. Fewer than requested if the system refuses threads; with none at all, writes go
    /// to the devices as they come.
    pub(crate) fn set_threads(&self, n: usize) {
        self.tasks.lock().retain(|task| !task.is_finished());
        self.inner.want(n);
        loop {
            {
                let mut state = self.inner.state.lock();
                if state.running >= self.threads() {
                    break;
                }
                state.running += 1;
            }
            let inner = Arc::clone(&self.inner);
            match self.inner.rt.spawn("zio_issue", move || inner.run()) {
                Ok(task) => self.tasks.lock().push(task),
                Err(_) => {
                    let mut state = self.inner.state.lock();
                    state.running -= 1;
                    self.inner.wanted.store(state.running, Ordering::Relaxed);
                    break;
                }
            }
        }
        self.inner.work.notify_all();
    }

    /// Writes a batch, now or by one of the threads.
    pub(crate) fn send(&self, batch: Vec<BlockWrite>) {
        if self.threads() > 0 {
            let mut state = self.inner.state.lock();
            // Again, now that it cannot change: the last thread leaves when the queue is empty.
            if self.threads() > 0 {
                let writes = batch.len();
                state.queue.extend(batch);
                drop(state);
                for _ in 0..writes {
                    self.inner.work.notify_one();
                }
                return;
            }
        }
        self.inner.reader.vdevs().write_batch(batch);
    }
}

/// A block that has its pointer, and is not yet with its devices: it is handed to them when this is
/// dropped, or written by the caller.
#[derive(Default)]
pub struct UnsentBlock {
    pub(crate) writes: Vec<BlockWrite>,
    pub(crate) issue: Option<Arc<Issue>>,
}

impl UnsentBlock {
    /// Writes it on the calling thread and waits, where its device allows that; else hands it over.
    /// Must not be called from a completion.
    pub fn write_here(mut self) {
        let Some(issue) = self.issue.as_ref().filter(|issue| issue.threads() == 0) else { return };
        let vdevs = issue.inner.reader.vdevs();
        let mut rest = Vec::new();
        for write in std::mem::take(&mut self.writes) {
            match vdevs.write_here(&[(write.dva, write.data.clone(), write.birth)]) {
                Ok(result) => (write.done)(result),
                Err(ManyDevices) => rest.push(write),
            }
        }
        self.writes = rest;
    }
}

impl Drop for UnsentBlock {
    fn drop(&mut self) {
        if let Some(issue) = self.issue.as_ref().filter(|_| !self.writes.is_empty()) {
            issue.send(std::mem::take(&mut self.writes));
        }
    }
}

impl Drop for Issue {
    fn drop(&mut self) {
        self.inner.state.lock().closed = true;
        self.inner.work.notify_all();
        if self.inner.rt.is_simulated() {
            // It may be over, and a caller that waited for its threads would wait for ever.
            return;
        }
        // They hold the devices, which the next that opens them wants for itself.
        for task in self.tasks.lock().drain(..) {
            let _ = task.join();
        }
    }
}

impl Inner {
    fn want(&self, n: usize) {
        let _state = self.state.lock();
        self.wanted.store(n, Ordering::Relaxed);
    }

    fn run(&self) {
        let _role = self.profiler.role(ThreadKind::ZioIssue);
        while let Some(write) = self.next() {
            self.write(write);
        }
    }

    /// The next write; `None`: this thread is not wanted any more.
    fn next(&self) -> Option<BlockWrite> {
        let mut state = self.state.lock();
        loop {
            let last_one_leaves_nothing = state.queue.is_empty() || state.running > 1;
            if state.running > self.wanted.load(Ordering::Relaxed) && last_one_leaves_nothing {
                break;
            }
            if let Some(write) = state.queue.pop_front() {
                return Some(write);
            }
            if state.closed {
                break;
            }
            self.work.wait(&mut state);
        }
        state.running -= 1;
        None
    }

    /// Writes one block and waits for it.
    fn write(&self, write: BlockWrite) {
        let answer = Arc::new((Mutex::new(None), self.rt.condvar()));
        let slot = Arc::clone(&answer);
        let done = Box::new(move |result| {
            *slot.0.lock() = Some(result);
            slot.1.notify_one();
        });
        let BlockWrite { dva, data, birth, class, done: tell } = write;
        let result = self.profiler.watch(Stage::Io, data.len(), || {
            self.reader.vdevs().write_batch(vec![BlockWrite { dva, data, birth, class, done }]);
            let mut result = answer.0.lock();
            loop {
                match result.take() {
                    Some(result) => return result,
                    None => answer.1.wait(&mut result),
                }
            }
        });
        tell(result);
    }
}
