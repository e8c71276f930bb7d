//! Reading and writing with ordinary system calls, by a few threads.
//!
//! For systems that forbid io_uring, as containers often do, and as the plain twin that io_uring
//! is tested against. A thread makes one blocking call at a time, so the number of threads is the
//! queue depth. They are started when requests wait and none is idle, and stay until the device is
//! dropped.

use super::backlog::Backlog;
use super::core::{Core, Request, Work};
use super::gather::Gather;
use super::sys;
use super::transfer::{Step, Transfer};
use crate::{AlignedBuf, ErrorKind, Shared};
use parking_lot::Mutex;
use std::sync::Arc;

/// The threads of one device.
pub(super) struct Threads {
    core: Arc<Core>,
    backlog: Arc<Backlog>,
    max: usize,
    started: Mutex<usize>,
}

impl Threads {
    /// No thread yet; at most `max` of them.
    pub(super) fn new(core: Arc<Core>, max: usize) -> Self {
        let exclusive = core.direct_unit().is_none() && !core.is_block;
        let backlog = Backlog::with_writes(if exclusive { 1 } else { usize::MAX });
        Self { core, backlog: Arc::new(backlog), max: max.max(1), started: Mutex::new(0) }
    }

    /// Accepts a batch.
    pub(super) fn submit(&self, batch: Vec<Request>) {
        // Cannot be refused: only dropping `self` closes the backlog.
        if let Err(batch) = self.backlog.push(batch) {
            batch.into_iter().for_each(|request| self.core.end(request, Err(ErrorKind::Gone)));
        }
        let mut started = self.started.lock();
        for _ in 0..self.backlog.unserved().min(self.max - *started) {
            let (core, backlog) = (Arc::clone(&self.core), Arc::clone(&self.backlog));
            if rt::spawn("device io", move || serve(&core, &backlog)).is_err() {
                break;
            }
            *started += 1;
        }
        if *started == 0 {
            // The system gives us no thread at all; then the caller's does the work.
            drop(started);
            let mut batch = Vec::new();
            self.backlog.take(usize::MAX, false, &mut batch);
            batch.into_iter().for_each(|request| serve_one(&self.core, request));
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Not waited for: the last reference may be dropped by one of these threads.
        self.backlog.close();
    }
}

fn serve(core: &Core, backlog: &Backlog) {
    let mut wrote = false;
    while let Some(request) = backlog.take_one(wrote) {
        wrote = matches!(request.work, Work::Write(..));
        serve_one(core, request);
    }
}

/// Makes one request on this thread.
pub(super) fn serve_one(core: &Core, mut request: Request) {
    let result = match &mut request.work {
        Work::Read(_) => read(core, request.offset, request.len).map(Some),
        Work::Write(parts, _) => {
            core.counters.write_call();
            write(core, request.offset, std::mem::take(parts)).map(|()| None)
        }
    };
    core.end(request, result);
}

/// Reads a range that lies within the device, on this thread.
pub(super) fn read(core: &Core, offset: u64, len: usize) -> Result<AlignedBuf, ErrorKind> {
    let mut transfer = Transfer::new(core, offset, len)?;
    while let Some(call) = transfer.next() {
        // SAFETY: a call's memory is valid for its length, and the transfer does not touch it.
        let result = unsafe { sys::pread(core.file(call.direct), call.to, call.len, call.offset) };
        // SAFETY: the system call is over, and filled as many bytes as it says.
        match unsafe { transfer.advance(core, result) } {
            Step::Again => {}
            Step::Complete => break,
            Step::Failed(kind) => return Err(kind),
        }
    }
    Ok(transfer.finish())
}

/// Writes to a range that lies within the device, on this thread.
pub(super) fn write(core: &Core, offset: u64, parts: Vec<Shared>) -> Result<(), ErrorKind> {
    let mut gather = Gather::new(core, offset, parts)?;
    while let Some(call) = gather.next() {
        let file = core.file(call.direct);
        // SAFETY: a call's vectors and the parts they point to live as long as the gather, which
        // is not touched meanwhile.
        let result = unsafe { sys::pwritev(file, call.vectors, call.count, call.offset) };
        match gather.advance(core, result) {
            Step::Again => {}
            Step::Complete => break,
            Step::Failed(kind) => return Err(kind),
        }
    }
    Ok(())
}
