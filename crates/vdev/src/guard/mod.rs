//! A leaf whose requests all end: deadlines in front of a device that may not answer.
//!
//! # Theory
//!
//! A device that fails returns an error. One that hangs returns nothing, and a thread that waits
//! for it waits for ever: a write of a txg, a flush, a label. So each leaf of a pool that is open
//! for writing has a guard in front, which gives every request to the device and ends it by itself
//! when the device does not.
//!
//! *Hanging differs from slowness by what else comes back.* A disk with thousands of requests in
//! front of it answers the last one after minutes, and works. So the clock does not run from the
//! beginning of a request, but from the last sign of life:
//!
//! ```text
//! the device has requests and has answered none of them for SILENCE       it hangs
//! it answers others, and one of them has not come back for LOST           it lost that one
//! ```
//!
//! A device that ends its requests by itself ([`Device::ends_within`]) is given at least its own
//! time for both: its user said how long an answer may take, and an answer that comes within that
//! is none that a pool has to be suspended for.
//!
//! SILENCE (`zinc_vdev_silence_ms`) is a minute: the kernel gives a command of a disk 30 seconds
//! and a flush 60 before it resets the disk, and what a reset cures is not a fault. LOST
//! (`zfs_deadman_ziotime_ms`) is OpenZFS's limit for a request that hangs, five minutes.
//!
//! ```text
//!             SILENCE or LOST: what is overdue ends with `NoAnswer`
//!   answering -----------------------------------------------------> silent: everything is refused
//!       ^                                                              |
//!       '---- everything that was overdue has come back ---------------'
//! ```
//!
//! *A late answer is harmless.* The bytes of a read that was given up belong to the request, and go
//! with it. A write that was given up may still reach the disk, and by then its place may be
//! another block's. So nothing more is written to a silent device before all that is late has come
//! back ([`Guard::is_silent`]); what failed meanwhile is in the leaf's log of missed txgs, and the
//! leaf is FAULTED as far as the others do without it (`health.rs`). It is not used again before
//! either.
//!
//! # Threads
//!
//! Requests that are submitted end on a thread of the device, or, when they are overdue, on the
//! runtime's thread for timers. A flush and a trim are calls that may hang, so a thread of the
//! guard's makes them (`calls.rs`) while the caller waits for the answer or the deadline. A read of
//! a thread that waits is submitted too, but only in a pool that is held: a hop to another
//! thread costs more than a fast disk does, and a command that opened the pool for itself holds up
//! no other. It says which device it waits for (`device::SilenceWatch`).
//!
//! Locks, none of which is held over a call of the device or while another is taken: one around the
//! requests that are out (`Watchdog`), one around each last answer (`LastAnswer`), one around the
//! calls that wait for a thread (`Calls`).

mod calls;
#[cfg(test)]
mod tests;

use crate::queue::{QueueLimit, QueueLimits, WriteCall};
use crate::thresholds::Times;
use calls::Calls;
use device::backend::{collect, deliver, deliver_write, delivering};
use device::{
    AlignedBuf, Device, DeviceRef, Displacement, Done, Error, ErrorKind, Operation, Read, Shared,
    Stats, Write, WriteDevice, WriteDeviceRef, WriteDone,
};
use parking_lot::Mutex;
use rt::Rt;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Looks for overdue requests are at least this far apart.
const LOOK_MIN: Duration = Duration::from_millis(10);

/// How long to wait for the system's answer about a device before its last answer has to do.
const ASKING: Duration = Duration::from_secs(1);

/// The owner of a request, which is notified of its end.
enum Owner {
    Read(Done),
    /// Also of flushes and trims.
    Write(WriteDone),
}

/// A request that the device has.
struct Outstanding {
    operation: Operation,
    offset: u64,
    len: u64,
    begun: Duration,
    /// `None`: it was given up, and its owner was notified.
    owner: Option<Owner>,
}

#[derive(Default)]
struct State {
    /// By number, so the oldest is the first.
    out: BTreeMap<u64, Outstanding>,
    next: u64,
    /// Those of `out` that were given up.
    late: usize,
    /// When the device answered last.
    answered: Duration,
    /// A look for overdue requests is going to be taken.
    is_watched: bool,
    /// Requests that took longer than `zio_slow_io_ms`.
    slow: u64,
    /// When the last of them ended.
    slow_at: Times,
}

/// See the head of the file.
pub(crate) struct Guard {
    device: DeviceRef,
    writer: Option<WriteDeviceRef>,
    calls: Arc<Calls>,
    watch: Arc<Watchdog>,
    stray: Arc<LastAnswer<Option<Displacement>>>,
    size: Arc<LastAnswer<u64>>,
}

/// The system's last answer about the device, and whether another is awaited.
struct LastAnswer<T> {
    state: Mutex<(T, bool)>,
    answered: rt::Condvar,
}

/// The part that outlives the guard as long as requests are pending.
struct Watchdog {
    rt: Rt,
    name: Arc<str>,
    limits: Arc<QueueLimits>,
    /// The device ends its requests within this time.
    own_limit: Duration,
    state: Mutex<State>,
}

/// A guard of its own for a device that is in no tree yet: its requests end as those of a pool with
/// such limits do that is held.
fn guard_of(
    rt: &Rt,
    device: DeviceRef,
    writer: Option<WriteDeviceRef>,
    limits: &QueueLimits,
) -> Arc<Guard> {
    let own = QueueLimits::default();
    for limit in [QueueLimit::Silence, QueueLimit::Lost, QueueLimit::Slow] {
        own.set(limit, limits.get(limit));
    }
    own.hold();
    Guard::new(rt, device, writer, Arc::new(own))
}

/// A device that may come into a pool with these limits: its requests have the deadlines that they
/// would have there.
#[must_use]
pub fn guarded(rt: &Rt, device: &WriteDeviceRef, limits: &QueueLimits) -> WriteDeviceRef {
    let reader = Arc::clone(device).as_device();
    guard_of(rt, reader, Some(Arc::clone(device)), limits)
}

/// The same of one that is only read.
#[must_use]
pub fn guarded_reader(rt: &Rt, device: &DeviceRef, limits: &QueueLimits) -> DeviceRef {
    guard_of(rt, Arc::clone(device), None, limits)
}

/// The answer to a request. Dropped unused, it counts as a device that is gone.
struct GuardedRequest {
    watch: Arc<Watchdog>,
    number: Option<u64>,
}

impl Guard {
    pub(crate) fn new(
        rt: &Rt,
        device: DeviceRef,
        writer: Option<WriteDeviceRef>,
        limits: Arc<QueueLimits>,
    ) -> Arc<Self> {
        let name = Arc::from(device.name());
        let own_limit = device.ends_within().unwrap_or_default();
        let watch = Watchdog { rt: rt.clone(), name, limits, own_limit, state: Mutex::default() };
        let stray = Arc::new(LastAnswer { state: Mutex::default(), answered: rt.condvar() });
        let size = LastAnswer { state: Mutex::new((device.size(), false)), answered: rt.condvar() };
        let (watch, size) = (Arc::new(watch), Arc::new(size));
        Arc::new(Self { device, writer, calls: Calls::new(rt), watch, stray, size })
    }

    /// It is in front of this device, or is this device.
    pub(crate) fn is_of(self: &Arc<Self>, writer: &WriteDeviceRef) -> bool {
        let is = |other: *const ()| std::ptr::addr_eq(Arc::as_ptr(writer), other);
        let behind = self.writer.as_ref().is_some_and(|own| is(Arc::as_ptr(own).cast()));
        behind || is(Arc::as_ptr(self).cast())
    }

    /// Whether the device behind it can be written to.
    pub(crate) fn can_write(&self) -> bool {
        self.writer.is_some()
    }

    /// Requests that were given up have not come back, so everything is refused.
    pub(crate) fn is_silent(&self) -> bool {
        self.watch.state.lock().late > 0
    }

    /// Requests that took longer than `zio_slow_io_ms`.
    pub(crate) fn slow_requests(&self) -> u64 {
        self.watch.state.lock().slow
    }

    /// Those of them that ended within the time before `now`.
    pub(crate) fn slow_within(&self, time: Duration, now: Duration) -> u64 {
        self.watch.state.lock().slow_at.within(time, now)
    }

    pub(crate) fn forget_slow(&self) {
        let mut state = self.watch.state.lock();
        (state.slow, state.slow_at) = Default::default();
    }

    /// Asks the system. That may hang as any request does; then one thread hangs with it, and the
    /// last answer has to do.
    fn ask<T: Copy + Send + 'static>(
        &self,
        known: &Arc<LastAnswer<T>>,
        question: impl FnOnce(&DeviceRef) -> T + Send + 'static,
    ) -> T {
        if !self.watch.limits.is_held() {
            return question(&self.device);
        }
        let mut state = known.state.lock();
        if !state.1 {
            state.1 = true;
            drop(state);
            let (device, last) = (Arc::clone(&self.device), Arc::clone(known));
            self.calls.make(move || {
                let answer = question(&device);
                drop(device);
                *last.state.lock() = (answer, false);
                last.answered.notify_all();
            });
            let until = self.watch.rt.now() + ASKING;
            state = known.state.lock();
            while state.1 && self.watch.rt.now() < until {
                known.answered.wait_until(&mut state, until);
            }
        }
        state.0
    }

    /// Makes a call that may hang, on another thread, and waits for it or the deadline.
    fn call(
        &self,
        (operation, offset, len): (Operation, u64, u64),
        call: impl FnOnce(&WriteDeviceRef) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let error = |kind| self.watch.error(kind, operation, offset, len);
        let Some(writer) = self.writer.clone() else { return Err(error(ErrorKind::Unsupported)) };
        if delivering() {
            return call(&writer);
        }
        let (collector, mut tickets) = collect(&self.watch.rt, 1);
        let Some(ticket) = tickets.pop() else { return Err(error(ErrorKind::Gone)) };
        let owner = Owner::Write(Box::new(move |result| ticket.give(result)));
        match self.watch.begin((operation, offset, len), owner) {
            Ok(answer) => self.calls.make(move || {
                let result = call(&writer);
                drop(writer);
                answer.end(|owner| owner.finish(result));
            }),
            Err(owner) => owner.fail(error(ErrorKind::NoAnswer)),
        }
        let result = collector.wait().pop().flatten();
        result.unwrap_or_else(|| Err(error(ErrorKind::Gone)))
    }

    /// Has the device write while the caller waits: on its thread, unless the pool is held.
    fn write_waiting(
        &self,
        writes: Vec<(u64, Vec<Shared>)>,
        write: WriteCall,
    ) -> Result<(), Error> {
        let offset = writes.first().map_or(0, |(offset, _)| *offset);
        let len = writes.iter().flat_map(|(_, parts)| parts).map(|p| p.len() as u64).sum();
        let what = (Operation::Write, offset, len);
        match &self.writer {
            Some(writer) if !self.watch.limits.is_held() && !delivering() => {
                match self.is_silent() {
                    true => Err(self.watch.error(ErrorKind::NoAnswer, what.0, offset, len)),
                    false => write(writer, writes),
                }
            }
            _ => self.call(what, move |writer| write(writer, writes)),
        }
    }
}

impl Owner {
    fn fail(self, error: Error) {
        match self {
            Self::Read(done) => deliver(done, Err(error)),
            Self::Write(done) => deliver_write(done, Err(error)),
        }
    }

    fn finish(self, result: Result<(), Error>) {
        match (self, result) {
            (Self::Write(done), result) => done(result),
            (owner, Err(e)) => owner.fail(e),
            (Self::Read(_), Ok(())) => {}
        }
    }
}

impl Watchdog {
    fn error(&self, kind: ErrorKind, operation: Operation, offset: u64, len: u64) -> Error {
        let device = Arc::clone(&self.name);
        Error { kind, operation, device, offset, len }
    }

    /// A request goes to the device; the right to answer it, or its owner when it must not go.
    fn begin(
        self: &Arc<Self>,
        (operation, offset, len): (Operation, u64, u64),
        owner: Owner,
    ) -> Result<GuardedRequest, Owner> {
        let begun = self.rt.now();
        let mut state = self.state.lock();
        if state.late > 0 {
            return Err(owner);
        }
        let number = state.next;
        state.next += 1;
        state.out.insert(number, Outstanding { operation, offset, len, begun, owner: Some(owner) });
        let is_first = !std::mem::replace(&mut state.is_watched, true);
        drop(state);
        if is_first {
            self.look_later(self.silence().min(self.lost()));
        }
        Ok(GuardedRequest { watch: Arc::clone(self), number: Some(number) })
    }

    fn silence(&self) -> Duration {
        self.limits.silence().max(self.own_limit)
    }

    fn lost(&self) -> Duration {
        self.limits.lost().max(self.own_limit)
    }

    fn look_later(self: &Arc<Self>, after: Duration) {
        let watch = Arc::downgrade(self);
        self.rt.after(after.max(LOOK_MIN), move || {
            let _ = Weak::upgrade(&watch).map(|watch| watch.look());
        });
    }

    /// Ends what is overdue.
    fn look(self: &Arc<Self>) {
        let now = self.rt.now();
        let (silence, lost) = (self.silence(), self.lost());
        let mut overdue = Vec::new();
        let next = {
            let mut state = self.state.lock();
            let oldest = state.out.values().find(|out| out.owner.is_some()).map(|out| out.begun);
            let Some(oldest) = oldest else {
                state.is_watched = false;
                return;
            };
            let still = now.saturating_sub(oldest.max(state.answered));
            let limit = if still >= silence { Duration::ZERO } else { lost };
            let slow = self.limits.slow();
            let State { out, late, slow: count, slow_at, .. } = &mut *state;
            for out in out.values_mut().filter(|out| now.saturating_sub(out.begun) >= limit) {
                let Some(owner) = out.owner.take() else { continue };
                *late += 1;
                if now.saturating_sub(out.begun) >= slow {
                    *count += 1;
                    slow_at.note(now);
                }
                let (operation, offset, len) = (out.operation, out.offset, out.len);
                overdue.push((owner, self.error(ErrorKind::NoAnswer, operation, offset, len)));
            }
            let age = now.saturating_sub(oldest);
            silence.saturating_sub(still).min(lost.saturating_sub(age))
        };
        overdue.into_iter().for_each(|(owner, error)| owner.fail(error));
        self.look_later(next);
    }

    /// The device has answered; the owner, which is not there any more when it is too late.
    fn end(&self, number: u64) -> Option<Owner> {
        let now = self.rt.now();
        let mut state = self.state.lock();
        let out = state.out.remove(&number)?;
        state.answered = now;
        match out.owner {
            Some(owner) => {
                if now.saturating_sub(out.begun) >= self.limits.slow() {
                    state.slow += 1;
                    state.slow_at.note(now);
                }
                Some(owner)
            }
            None => {
                state.late -= 1;
                None
            }
        }
    }
}

impl GuardedRequest {
    /// `tell` gets the owner, when that still waits.
    fn end(mut self, tell: impl FnOnce(Owner)) {
        let owner = self.number.take().and_then(|number| self.watch.end(number));
        let _ = owner.map(tell);
    }
}

impl Drop for GuardedRequest {
    fn drop(&mut self) {
        let owner = self.number.take().and_then(|number| self.watch.end(number));
        if let Some(owner) = owner {
            owner.fail(self.watch.error(ErrorKind::Gone, Operation::Read, 0, 0));
        }
    }
}

impl Device for Guard {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn size(&self) -> u64 {
        self.device.size()
    }

    fn sector_size(&self) -> u32 {
        self.device.sector_size()
    }

    fn is_rotating(&self) -> bool {
        self.device.is_rotating()
    }

    fn size_now(&self) -> u64 {
        self.ask(&self.size, |device| device.size_now()).max(self.size())
    }

    fn displaced(&self) -> Option<Displacement> {
        self.ask(&self.stray, |device| device.displaced())
    }

    fn ends_within(&self) -> Option<Duration> {
        self.device.ends_within()
    }

    fn held_elsewhere(&self) -> Option<String> {
        self.device.held_elsewhere()
    }

    fn follow(&self, place: &Path) -> bool {
        self.device.follow(place)
    }

    fn accept_size(&self) -> bool {
        self.device.accept_size()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        buf.copy_from_slice(&self.read_new(offset, buf.len())?);
        Ok(())
    }

    fn read_new(&self, offset: u64, len: usize) -> Result<AlignedBuf, Error> {
        let error = |kind| self.watch.error(kind, Operation::Read, offset, len as u64);
        if delivering() || !self.watch.limits.is_held() {
            if self.is_silent() {
                return Err(error(ErrorKind::NoAnswer));
            }
            return self.device.read_new(offset, len);
        }
        let (collector, mut tickets) = collect(&self.watch.rt, 1);
        let Some(ticket) = tickets.pop() else { return Err(error(ErrorKind::Gone)) };
        let done: Done = Box::new(move |result| ticket.give(result));
        self.submit(vec![Read { offset, len, done }]);
        let result = collector.wait().pop().flatten();
        result.unwrap_or_else(|| Err(error(ErrorKind::Gone)))
    }

    fn submit(&self, batch: Vec<Read>) {
        let mut passed = Vec::with_capacity(batch.len());
        for Read { offset, len, done } in batch {
            let what = (Operation::Read, offset, len as u64);
            match self.watch.begin(what, Owner::Read(done)) {
                Ok(answer) => {
                    let done: Done = Box::new(move |result| {
                        answer.end(|owner| match owner {
                            Owner::Read(done) => done(result),
                            owner @ Owner::Write(_) => owner.finish(result.map(|_| ())),
                        });
                    });
                    passed.push(Read { offset, len, done });
                }
                Err(owner) => {
                    owner.fail(self.watch.error(ErrorKind::NoAnswer, what.0, offset, what.2));
                }
            }
        }
        if !passed.is_empty() {
            self.device.submit(passed);
        }
    }

    fn stats(&self) -> Stats {
        self.device.stats()
    }
}

impl WriteDevice for Guard {
    fn submit_writes(&self, batch: Vec<Write>) {
        let mut passed = Vec::with_capacity(batch.len());
        for Write { offset, parts, done } in batch {
            let len = parts.iter().map(|p| p.len() as u64).sum();
            let what = (Operation::Write, offset, len);
            match self.watch.begin(what, Owner::Write(done)) {
                Ok(answer) => {
                    let done: WriteDone =
                        Box::new(move |result| answer.end(|owner| owner.finish(result)));
                    passed.push(Write { offset, parts, done });
                }
                Err(owner) => {
                    owner.fail(self.watch.error(ErrorKind::NoAnswer, what.0, offset, len));
                }
            }
        }
        match &self.writer {
            Some(writer) if !passed.is_empty() => writer.submit_writes(passed),
            // A tree without writers submits none; dropped, they end as on a device that is gone.
            _ => {}
        }
    }

    fn flush(&self) -> Result<(), Error> {
        self.call((Operation::Flush, 0, 0), |writer| writer.flush())
    }

    fn keeps_order(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.keeps_order())
    }

    fn forget_failed_flush(&self) {
        self.writer.iter().for_each(|writer| writer.forget_failed_flush());
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let error = |kind| self.watch.error(kind, Operation::Write, offset, data.len() as u64);
        let (collector, mut tickets) = collect(&self.watch.rt, 1);
        let Some(ticket) = tickets.pop() else { return Err(error(ErrorKind::Gone)) };
        let done: WriteDone = Box::new(move |result| ticket.give(result));
        self.submit_writes(vec![Write { offset, parts: vec![Shared::copy_of(data)], done }]);
        let result = collector.wait().pop().flatten();
        result.unwrap_or_else(|| Err(error(ErrorKind::Gone)))
    }

    fn write_all(&self, writes: Vec<(u64, Vec<Shared>)>) -> Result<(), Error> {
        self.write_waiting(writes, |writer, writes| writer.write_all(writes))
    }

    fn write_durably(&self, writes: Vec<(u64, Vec<Shared>)>) -> Result<(), Error> {
        self.write_waiting(writes, |writer, writes| writer.write_durably(writes))
    }

    fn grow(&self) {
        if let Some(writer) = self.writer.clone() {
            self.ask(&self.size, move |device| {
                writer.grow();
                device.size()
            });
        }
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.call((Operation::Trim, offset, len), move |writer| writer.trim(offset, len))
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}
