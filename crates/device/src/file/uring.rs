//! Reading and writing with io_uring.
//!
//! Each device has one ring and one thread, and that thread alone touches the ring. Callers put
//! batches into a [`Backlog`]; the thread moves them into the submission queue and enters the
//! kernel once for all of them.
//!
//! Why the callers do not submit themselves: the kernel ties a request to the thread that
//! submitted it, interrupts that thread to complete it, and cancels it when that thread exits.
//! With one owner none of this concerns a caller, the ring needs no lock and no shared mutable
//! state, and the kernel may be told so (`SINGLE_ISSUER`, `DEFER_TASKRUN`: completions are
//! worked off in batches, when the owner asks for them). The price is a wake-up when the thread
//! sleeps, that is, when the device was idle. Why not one ring for the whole process: a slow device
//! would stand in the way of the others, and callbacks of all devices would share one thread.
//!
//! One round of the thread:
//!
//! ```text
//! completions -> ended requests, or transfers that need another call
//! backlog     -> free slots; both -> submission queue
//! something ended:  enter the kernel without waiting, so that the device is busy
//!                   while the callbacks run
//! nothing ended:    enter the kernel and wait for one completion
//! ```
//!
//! Bounds: a request has a slot from its start to its end, and a slot has at most one entry in the
//! queues. With the entry that listens for wake-ups that makes `depth + 1` entries, for which both
//! queues have room; so neither pushing nor completing can overflow, and there is nothing to wait
//! for when the depth is reached except a completion.
//!
//! Wake-ups: the thread marks the backlog before it waits with free slots; a thread that pushes
//! next sees the mark and signals an event on which the ring has a poll. Without free slots it
//! needs no signal, a completion comes first.
//!
//! Ending: the thread serves what was accepted and exits when the backlog is closed and empty.
//! Should the ring itself fail, every request ends with [`ErrorKind::Gone`], and the memory of
//! those in the kernel's hands is leaked, because the kernel may still write to it.

use super::backlog::{Backlog, Found};
use super::core::{Core, Request, Work};
use super::gather::Gather;
use super::sys;
use super::transfer::{Step, Transfer};
use crate::{AlignedBuf, ErrorKind};
use crossbeam_channel::bounded;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// Mark of the entry that listens for wake-ups; slots are numbered from zero.
const WAKE: u64 = u64::MAX;

/// Pause when the kernel has no memory for requests and none of ours is under way.
const PAUSE: Duration = Duration::from_millis(1);

/// The callers' end of a ring.
pub(super) struct Uring {
    core: Arc<Core>,
    backlog: Arc<Backlog>,
    event: Arc<File>,
}

impl Uring {
    /// Makes the ring, for up to `depth` requests at once, and starts its thread.
    ///
    /// # Errors
    /// When the system has no io_uring, forbids it, or it cannot read or write files.
    pub(super) fn start(core: Arc<Core>, depth: u32) -> io::Result<Self> {
        let backlog = Arc::new(Backlog::default());
        let event = Arc::new(sys::event()?);
        let (answer, started) = bounded(1);
        let handle = Self { core, backlog, event };
        let (core, backlog, event) =
            (Arc::clone(&handle.core), Arc::clone(&handle.backlog), Arc::clone(&handle.event));
        rt::spawn("device ring", move || {
            // Made here, because the kernel takes the maker for the only submitter.
            match Engine::new(core, backlog, event, depth) {
                Ok(mut engine) => {
                    let _ = answer.send(Ok(()));
                    engine.run();
                }
                Err(error) => {
                    let _ = answer.send(Err(error));
                }
            }
        })?;
        started.recv().unwrap_or_else(|_| Err(io::Error::from_raw_os_error(libc::EIO)))?;
        Ok(handle)
    }

    /// Accepts a batch.
    pub(super) fn submit(&self, batch: Vec<Request>) {
        match self.backlog.push(batch) {
            Ok(true) => self.wake(),
            Ok(false) => {}
            Err(batch) => {
                batch.into_iter().for_each(|request| self.core.end(request, Err(ErrorKind::Gone)));
            }
        }
    }

    fn wake(&self) {
        // Fails only when the event is full, and then it is set.
        let _ = (&*self.event).write(&sys::EVENT_SIGNAL);
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Not waited for: the last reference may be dropped by the ring's own thread.
        if self.backlog.close() {
            self.wake();
        }
    }
}

/// A request in a slot.
struct Active {
    request: Request,
    motion: Transfers,
}

/// A request in the kernel's hands, or between two calls.
enum Transfers {
    Read(Transfer),
    Write(Gather),
}

impl Transfers {
    /// Starts a request. The bytes of a write move into it, because they have to live as long as
    /// the kernel may look at them.
    fn new(core: &Core, request: &mut Request) -> Result<Self, ErrorKind> {
        match &mut request.work {
            Work::Read(_) => Transfer::new(core, request.offset, request.len).map(Self::Read),
            Work::Write(parts, _) => {
                core.counters.write_call();
                Gather::new(core, request.offset, std::mem::take(parts)).map(Self::Write)
            }
        }
    }

    /// The entry for the next system call; `None` when the request is complete.
    fn next(&mut self, core: &Core) -> Option<squeue::Entry> {
        let fd = |direct| types::Fd(core.file(direct).as_raw_fd());
        let (entry, may_block) = match self {
            Self::Read(transfer) => {
                let call = transfer.next()?;
                // Lengths are bounded by `MAX_READ_BYTES`; a longer one would be a short read.
                let len = u32::try_from(call.len).unwrap_or(u32::MAX);
                let read = opcode::Read::new(fd(call.direct), call.to, len);
                (read.offset(call.offset).build(), call.may_block)
            }
            Self::Write(gather) => {
                let call = gather.next()?;
                // At most `PARTS_MAX`.
                let count = u32::try_from(call.count).unwrap_or(0);
                let write = opcode::Writev::new(fd(call.direct), call.vectors, count);
                (write.offset(call.offset).build(), call.may_block)
            }
        };
        Some(if may_block { entry.flags(squeue::Flags::ASYNC) } else { entry })
    }

    /// Takes the result of the last call.
    ///
    /// # Safety
    /// The kernel has done with the call's memory as much as the result says, and does no more.
    unsafe fn advance(&mut self, core: &Core, result: Result<usize, i32>) -> Step {
        match self {
            // SAFETY: the caller vouches for it.
            Self::Read(transfer) => unsafe { transfer.advance(core, result) },
            Self::Write(gather) => gather.advance(core, result),
        }
    }

    /// The bytes of a read that is complete.
    fn finish(self) -> Option<AlignedBuf> {
        match self {
            Self::Read(transfer) => Some(transfer.finish()),
            Self::Write(_) => None,
        }
    }
}

/// A request that ended, before its callback is called.
type CompletedRequest = (Request, Result<Option<AlignedBuf>, ErrorKind>);

/// The thread's end of a ring.
struct Engine {
    ring: IoUring,
    core: Arc<Core>,
    backlog: Arc<Backlog>,
    event: Arc<File>,
    slots: Vec<Option<Active>>,
    /// Numbers of the empty slots.
    free: Vec<usize>,
    /// Numbers of the slots whose transfer needs another call.
    again: Vec<usize>,
    ended: Vec<CompletedRequest>,
    /// Whether the poll of the event is in the kernel.
    listening: bool,
}

impl Engine {
    fn new(
        core: Arc<Core>,
        backlog: Arc<Backlog>,
        event: Arc<File>,
        depth: u32,
    ) -> io::Result<Self> {
        let ring = make_ring(depth.saturating_add(1))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Read::CODE, opcode::Writev::CODE, opcode::PollAdd::CODE];
        if needed.iter().any(|code| !probe.is_supported(*code)) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        // A kernel may clamp the requested depth; one entry is the wake-up's.
        let depth = ring.params().sq_entries().saturating_sub(1).min(depth) as usize;
        Ok(Self {
            ring,
            core,
            backlog,
            event,
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            again: Vec::new(),
            ended: Vec::new(),
            listening: false,
        })
    }

    /// Serves until the backlog is closed and empty, or the ring fails.
    fn run(&mut self) {
        let mut incoming = Vec::new();
        loop {
            self.collect();
            let wait = self.ended.is_empty();
            let found = self.backlog.take(self.free.len(), wait, &mut incoming);
            incoming.drain(..).for_each(|request| self.begin(request));
            if found == Found::Last && self.free.len() == self.slots.len() && wait {
                return;
            }
            let pushed = self.push_all().and_then(|()| self.enter());
            for (request, result) in self.ended.drain(..) {
                self.core.end(request, result);
            }
            if pushed.is_err() {
                return;
            }
        }
    }

    /// Takes a request into a slot.
    fn begin(&mut self, mut request: Request) {
        match Transfers::new(&self.core, &mut request) {
            Ok(motion) => match self.free.pop() {
                Some(slot) => {
                    self.slots[slot] = Some(Active { request, motion });
                    self.again.push(slot);
                }
                // Cannot be: no more are taken from the backlog than slots are free.
                None => self.ended.push((request, Err(ErrorKind::Gone))),
            },
            Err(kind) => self.ended.push((request, Err(kind))),
        }
    }

    /// Puts the next call of every slot that needs one into the submission queue.
    fn push_all(&mut self) -> io::Result<()> {
        if !self.listening {
            let poll = opcode::PollAdd::new(types::Fd(self.event.as_raw_fd()), libc::POLLIN as u32);
            // SAFETY: the entry has no memory, and the descriptor lives as long as the ring.
            unsafe { push(&mut self.ring, &poll.build().user_data(WAKE)) }?;
            self.listening = true;
        }
        while let Some(slot) = self.again.pop() {
            let Some(Active { motion, .. }) = &mut self.slots[slot] else { continue };
            let Some(entry) = motion.next(&self.core) else {
                // An empty range.
                self.end(slot, Ok(()));
                continue;
            };
            // SAFETY: the memory belongs to the slot's motion, which is neither finished nor
            // dropped before the entry's completion (and leaked when there is none); the
            // descriptor belongs to the core, which lives as long as the ring.
            unsafe { push(&mut self.ring, &entry.user_data(slot as u64)) }?;
        }
        Ok(())
    }

    /// Hands the submission queue to the kernel, and waits for a completion when there is nothing
    /// else to do.
    fn enter(&mut self) -> io::Result<()> {
        let wait = usize::from(self.ended.is_empty());
        if wait == 0 && self.ring.submission().is_empty() {
            return Ok(());
        }
        match self.ring.submit_and_wait(wait) {
            Ok(_) => Ok(()),
            Err(e) => match e.raw_os_error() {
                Some(libc::EINTR | libc::EBUSY) => Ok(()),
                Some(libc::EAGAIN) => {
                    // No memory for requests: what is under way will give some back, but it may
                    // be that nothing is.
                    std::thread::sleep(PAUSE);
                    Ok(())
                }
                _ => Err(e),
            },
        }
    }

    /// Takes what the kernel has completed.
    fn collect(&mut self) {
        // The iterator borrows the ring, and ending a slot borrows the rest.
        let mut completed = [(0, 0); 64];
        loop {
            let mut count = 0;
            // In this order: a full array must not take one entry more from the ring.
            for (completed, entry) in completed.iter_mut().zip(self.ring.completion()) {
                *completed = (entry.user_data(), entry.result());
                count += 1;
            }
            for (mark, result) in &completed[..count] {
                self.completed(*mark, *result);
            }
            if count < completed.len() {
                return;
            }
        }
    }

    fn completed(&mut self, mark: u64, result: i32) {
        if mark == WAKE {
            self.listening = false;
            // Only to reset it; an error means that it is reset.
            let _ = (&*self.event).read(&mut [0; 8]);
            return;
        }
        let slot = usize::try_from(mark).unwrap_or(usize::MAX);
        let Some(Some(Active { motion, .. })) = self.slots.get_mut(slot) else { return };
        let result = usize::try_from(result).map_err(|_| -result);
        // SAFETY: this is the completion of the slot's only entry, so the kernel is done with the
        // memory and has filled, or written, as many bytes as it says.
        match unsafe { motion.advance(&self.core, result) } {
            Step::Again => self.again.push(slot),
            Step::Complete => self.end(slot, Ok(())),
            Step::Failed(kind) => self.end(slot, Err(kind)),
        }
    }

    /// Frees a slot whose transfer is not in the kernel.
    fn end(&mut self, slot: usize, result: Result<(), ErrorKind>) {
        if let Some(Active { request, motion }) = self.slots[slot].take() {
            self.free.push(slot);
            self.ended.push((request, result.map(|()| motion.finish())));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Normally there is nothing to do here; see "Ending" at the head of this file.
        self.backlog.close();
        let mut rest: Vec<Request> = Vec::new();
        self.backlog.take(usize::MAX, false, &mut rest);
        for Active { request, motion } in self.slots.drain(..).flatten() {
            core::mem::forget(motion);
            rest.push(request);
        }
        for (request, result) in self.ended.drain(..) {
            self.core.end(request, result);
        }
        for request in rest {
            self.core.end(request, Err(ErrorKind::Gone));
        }
    }
}

/// Makes a ring that this thread alone uses, with the best the kernel has.
fn make_ring(entries: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_clamp();
    // Linux 6.1; older kernels refuse these flags.
    match builder.clone().setup_single_issuer().setup_defer_taskrun().build(entries) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => builder.build(entries),
        result => result,
    }
}

/// Puts an entry into the submission queue.
///
/// # Safety
/// Memory and descriptors of the entry are valid until its completion.
unsafe fn push(ring: &mut IoUring, entry: &squeue::Entry) -> io::Result<()> {
    // SAFETY: the caller vouches for the entry.
    let pushed = unsafe { ring.submission().push(entry) };
    // Cannot fail, see "Bounds" at the head of this file.
    pushed.map_err(|_| io::Error::from_raw_os_error(libc::EBUSY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Done;
    use std::sync::mpsc::channel;

    /// The thread dies with requests in slots, in the kernel, and waiting.
    #[testkit::needs("io_uring")]
    #[test]
    fn a_dead_ring_ends_everything_with_gone() {
        let file = tempfile::tempfile().expect("file");
        file.set_len(1 << 20).expect("size");
        let core = Arc::new(Core::for_test(file, None));
        let backlog = Arc::new(Backlog::default());
        let event = Arc::new(sys::event().expect("event"));
        let made = Engine::new(Arc::clone(&core), Arc::clone(&backlog), event, 2);
        let mut engine = made.expect("a ring");
        let (answers, inbox) = channel();
        let request = |offset| {
            core.counters.begin();
            let answers = answers.clone();
            let done: Done = Box::new(move |result: Result<AlignedBuf, crate::Error>| {
                answers.send(result.map(|_| ()).map_err(|e| e.kind)).expect("receiver");
            });
            Request { offset, len: 512, work: Work::Read(done), arrived: core.now() }
        };
        backlog.push((0..6).map(|i| request(i * 4096)).collect()).map_err(|_| ()).expect("open");
        let mut taken = Vec::new();
        backlog.take(2, false, &mut taken);
        taken.into_iter().for_each(|request| engine.begin(request));
        engine.push_all().expect("push");
        engine.ring.submit().expect("submit");
        drop(engine);
        let late = backlog.push(vec![request(0)]).map_err(|batch| batch.len());
        assert_eq!(late, Err(1));
        drop(answers);
        let results: Vec<_> = inbox.try_iter().collect();
        assert_eq!(results, vec![Err(ErrorKind::Gone); 6]);
    }

    /// More completions at once than are taken from the ring in one go.
    #[testkit::needs("io_uring")]
    #[test]
    fn no_completion_is_lost_between_two_portions() {
        let file = tempfile::tempfile().expect("file");
        file.set_len(1 << 20).expect("size");
        let core = Arc::new(Core::for_test(file, None));
        let event = Arc::new(sys::event().expect("event"));
        let mut engine =
            Engine::new(Arc::clone(&core), Arc::default(), event, 200).expect("a ring");
        for i in 0..200 {
            core.counters.begin();
            let work = Work::Read(Box::new(|_| {}));
            engine.begin(Request { offset: i * 512, len: 512, work, arrived: core.now() });
        }
        engine.push_all().expect("push");
        while engine.ring.completion().len() < 200 {
            engine.ring.submit_and_wait(200).expect("wait");
        }
        engine.collect();
        assert_eq!((engine.ended.len(), engine.free.len()), (200, 200));
    }

    /// A batch far longer than the queues, and then nothing: the thread must sleep and wake.
    #[testkit::needs("io_uring")]
    #[test]
    fn an_idle_ring_wakes_up() {
        let file = tempfile::tempfile().expect("file");
        file.set_len(1 << 20).expect("size");
        let core = Arc::new(Core::for_test(file, None));
        let ring = Uring::start(Arc::clone(&core), 3).expect("a ring");
        for round in 0..5 {
            let (answers, inbox) = channel();
            let request = |_| {
                core.counters.begin();
                let answers = answers.clone();
                let done: Done = Box::new(move |result: Result<AlignedBuf, crate::Error>| {
                    answers.send(result.is_ok()).expect("receiver");
                });
                Request { offset: 0, len: 4096, work: Work::Read(done), arrived: core.now() }
            };
            ring.submit((0..200 * round + 1).map(request).collect());
            drop(answers);
            assert_eq!(inbox.iter().filter(|ok| *ok).count(), 200 * round + 1);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
