//! One leaf's queue.

use super::class::{CLASSES, IoClass};
use super::drive;
use super::limits::QueueLimits;
use super::line::{Io, Lines, PickedRequest, Work};
use super::pace::Pace;
use super::schedule::Schedule;
use super::stats::{CompletedRequest, LeafStats};
use device::{AlignedBuf, DeviceRef, Error, Read, Shared, Write, WriteDeviceRef, sample_weight};
use parking_lot::Mutex;
use rt::Rt;
use std::sync::Arc;

/// Has a device write (offset, parts) and waits.
pub(crate) type WriteCall = fn(&WriteDeviceRef, Vec<(u64, Vec<Shared>)>) -> Result<(), Error>;

/// The queue of one leaf. Requests under way keep it, and so its device, alive.
pub(crate) struct LeafQueue {
    device: DeviceRef,
    writer: Option<WriteDeviceRef>,
    limits: Arc<QueueLimits>,
    rt: Rt,
    rotating: bool,
    /// It is in an object store, which has room for all readers, and a line of its own.
    is_store: bool,
    /// What its readers know of it.
    pub(crate) pace: Arc<Pace>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lines: Lines,
    schedule: Schedule,
    stats: Box<LeafStats>,
    /// Requests that have begun, by class.
    begun: [u64; CLASSES],
}

/// A request that begins.
pub(super) struct StartedRequest {
    class: IoClass,
    picked: PickedRequest,
    /// When it came, if it had to wait.
    arrived: Option<u64>,
    /// As how many it counts where times are counted; 0: it is not timed.
    weight: u64,
}

/// Requests that begin together.
type StartedRequests = Vec<StartedRequest>;

/// A request at the device. Counts as failed when the device drops it unanswered.
struct Issued {
    queue: Option<Arc<LeafQueue>>,
    class: IoClass,
    bytes: u64,
    aggregated: bool,
    weight: u64,
    arrived: u64,
    begun: u64,
}

impl LeafQueue {
    pub(crate) fn new(
        rt: &Rt,
        device: DeviceRef,
        writer: Option<WriteDeviceRef>,
        limits: Arc<QueueLimits>,
    ) -> Arc<Self> {
        let rotating = device.is_rotating();
        let is_store = device.stats().store.is_some();
        let state = Mutex::default();
        let pace = Pace::new(rt, Arc::clone(&limits));
        Arc::new(Self { device, writer, limits, rt: rt.clone(), rotating, is_store, pace, state })
    }

    /// The device behind it.
    pub(crate) fn device(&self) -> &DeviceRef {
        &self.device
    }

    /// Most bytes between two reads that become one, and most bytes of that one.
    pub(crate) fn read_merging(&self) -> (u64, u64) {
        self.limits.read_merging()
    }

    /// Nanoseconds on the runtime's clock.
    fn clock(&self) -> u64 {
        u64::try_from(self.rt.now().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The same; 0 when nothing is counted.
    pub(crate) fn now(&self) -> u64 {
        if self.limits.is_counting() { self.clock() } else { 0 }
    }

    /// A request of this many bytes begins; as how many it counts where times are counted.
    fn begin(&self, state: &mut State, class: IoClass, bytes: u64) -> u64 {
        state.schedule.begin(class);
        if !self.limits.is_counting() {
            return 0;
        }
        let n = &mut state.begun[class as usize];
        *n += 1;
        sample_weight(&self.rt, *n - 1, bytes)
    }

    /// Requests that have begun and are waited for, now or soon.
    pub(crate) fn interactive(&self) -> u64 {
        let state = self.state.lock();
        let classes = IoClass::ALL.into_iter().zip(state.begun);
        classes.filter(|(class, _)| class.is_interactive()).map(|(_, begun)| begun).sum()
    }

    /// What it has counted.
    pub(crate) fn stats(&self) -> LeafStats {
        let state = self.state.lock();
        let mut out = LeafStats::clone(&state.stats);
        for (class, counts) in IoClass::ALL.into_iter().zip(&mut out.classes) {
            counts.pending = state.lines.waiting(class) as u64;
            counts.active = state.schedule.active(class);
        }
        out
    }

    /// Queues reads. The rules of [`device::Device::submit`] hold.
    pub(crate) fn read_batch(self: &Arc<Self>, class: IoClass, reads: Vec<Read>) {
        let io = |Read { offset, len, done }| (offset, len as u64, Work::Read(done));
        self.submit(class, reads.into_iter().map(io), false);
    }

    /// Queues writes. The rules of [`device::WriteDevice::submit_writes`] hold.
    pub(crate) fn write_batch(self: &Arc<Self>, class: IoClass, writes: Vec<Write>) {
        let io = |Write { offset, parts, done }| {
            let len = parts.iter().map(|p: &Shared| p.len() as u64).sum();
            (offset, len, Work::Write(parts, done))
        };
        self.submit(class, writes.into_iter().map(io), false);
    }

    /// Queues a write that is joined with no other.
    pub(crate) fn write_apart(self: &Arc<Self>, class: IoClass, write: Write) {
        let Write { offset, parts, done } = write;
        let len = parts.iter().map(|p: &Shared| p.len() as u64).sum();
        self.submit(class, std::iter::once((offset, len, Work::Write(parts, done))), true);
    }

    fn submit(
        self: &Arc<Self>,
        class: IoClass,
        batch: impl ExactSizeIterator<Item = (u64, u64, Work)>,
        alone: bool,
    ) {
        let count = batch.len();
        let mut ios = batch.map(|(offset, len, work)| Io { offset, len, arrived: 0, alone, work });
        let nested = drive::is_within();
        let is_unbounded = self.has_no_limit(class);
        let begun = {
            let mut state = self.state.lock();
            if is_unbounded || (!nested && count == 1 && self.is_free(&state, class)) {
                // Where little is going on there is no line to stand in.
                let begin = |io: Io| {
                    let weight = self.begin(&mut state, class, io.len);
                    StartedRequest {
                        class,
                        picked: PickedRequest::alone(io),
                        arrived: None,
                        weight,
                    }
                };
                ios.map(begin).collect()
            } else {
                // They go by their age too, so this is no matter of counting.
                let arrived = self.clock();
                ios.by_ref().for_each(|io| state.lines.push(class, Io { arrived, ..io }));
                if nested { Vec::new() } else { self.pick(&mut state) }
            }
        };
        if is_unbounded {
            return self.send(begun);
        }
        self.send_or_defer(nested, begun);
    }

    /// Sends what has begun and whatever that leads to; inside another submission it is deferred.
    fn send_or_defer(self: &Arc<Self>, nested: bool, begun: StartedRequests) {
        if nested {
            drive::defer(Arc::clone(self) as _);
        } else if !begun.is_empty() {
            drive::run(|| self.send(begun));
        }
    }

    /// Requests of a class go to the device as they come. Those of classes that read do so at an
    /// object store: the limits are those of disks, and what comes together is joined there, which
    /// requests that are let in one after the other are not.
    fn has_no_limit(&self, class: IoClass) -> bool {
        self.limits.is_unbounded() || (self.is_store && class.reads())
    }

    /// A request may go to the device without standing in line.
    fn is_free(&self, state: &State, class: IoClass) -> bool {
        let State { lines, schedule, .. } = state;
        let admits = || schedule.admits(class, &self.limits);
        let alone = || self.has_only(class, lines, schedule);
        lines.is_empty() && (admits() || alone())
    }

    /// A request that a thread waits for may begin although its class has as many requests at the
    /// device as it should. The limit keeps one class from standing in the way of others; here
    /// there is none, neither at the device nor in line, and a device without moving parts has room
    /// for many.
    fn has_only(&self, class: IoClass, lines: &Lines, schedule: &Schedule) -> bool {
        let most = self.limits.alone(class).min(self.limits.all_max());
        !self.rotating && lines.has_only(class) && schedule.has_only(class, most)
    }

    /// Reads on the calling thread, when the read need not stand in line: a thread that is going to
    /// wait for it anyway then needs no other thread. Must not be called from a completion.
    pub(crate) fn read_here(
        self: &Arc<Self>,
        class: IoClass,
        offset: u64,
        len: usize,
    ) -> Option<Result<AlignedBuf, Error>> {
        if self.limits.is_held() {
            // It may want to go on when the device hangs.
            return None;
        }
        let weight = {
            let mut state = self.state.lock();
            if !self.is_free(&state, class) && !self.has_no_limit(class) {
                return None;
            }
            self.begin(&mut state, class, len as u64)
        };
        let arrived = if weight > 0 { self.clock() } else { 0 };
        let mut issued = self.issued(class, len as u64, false, weight, (arrived, arrived));
        let result = self.device.read_new(offset, len);
        issued.end(result.is_err(), Vec::new());
        Some(result)
    }

    /// [`device::WriteDevice::write_durably`], when that need not stand in line. It counts as one
    /// request, with its flush. Must not be called from a completion.
    pub(crate) fn write_durably(
        self: &Arc<Self>,
        class: IoClass,
        writes: Vec<(u64, Vec<Shared>)>,
    ) -> Option<Result<(), Error>> {
        self.write_waiting(class, writes, |writer, writes| writer.write_durably(writes))
    }

    /// Writes on the calling thread, when that need not stand in line. Must not be called from a
    /// completion.
    pub(crate) fn write_here(
        self: &Arc<Self>,
        class: IoClass,
        writes: Vec<(u64, Vec<Shared>)>,
    ) -> Option<Result<(), Error>> {
        // In a pool that is held, a thread of the device does it, and the queue is as good.
        let is_held = self.limits.is_held();
        let write = || self.write_waiting(class, writes, |writer, writes| writer.write_all(writes));
        (!is_held).then(write).flatten()
    }

    fn write_waiting(
        self: &Arc<Self>,
        class: IoClass,
        writes: Vec<(u64, Vec<Shared>)>,
        write: WriteCall,
    ) -> Option<Result<(), Error>> {
        let writer = self.writer.as_ref()?;
        let bytes = writes.iter().flat_map(|(_, parts)| parts).map(|p| p.len() as u64).sum();
        let weight = {
            let mut state = self.state.lock();
            if !self.is_free(&state, class) && !self.limits.is_unbounded() {
                return None;
            }
            self.begin(&mut state, class, bytes)
        };
        let arrived = if weight > 0 { self.clock() } else { 0 };
        let mut issued = self.issued(class, bytes, writes.len() > 1, weight, (arrived, arrived));
        let result = write(writer, writes);
        issued.end(result.is_err(), Vec::new());
        Some(result)
    }

    /// Counts writes of these sizes that did not come through here: labels, which go in rounds of
    /// their own. They began at `began` ([`Self::now`]) and have ended.
    pub(crate) fn count_writes(&self, class: IoClass, sizes: &[u64], began: u64, failed: bool) {
        if !self.limits.is_counting() {
            return;
        }
        let (aggregated, weight, ended) = (false, 1, self.now());
        let mut state = self.state.lock();
        for bytes in sizes {
            let arrived = began;
            let (bytes, begun) = (*bytes, began);
            let ended = CompletedRequest {
                class,
                bytes,
                failed,
                aggregated,
                weight,
                arrived,
                begun,
                ended,
            };
            state.stats.count(&ended);
        }
    }

    /// Takes what can begin now out of the lines.
    fn pick(&self, state: &mut State) -> StartedRequests {
        let mut out = Vec::new();
        while !state.lines.is_empty() {
            let State { lines, schedule, .. } = state;
            let waits = |class| lines.waiting(class) > 0;
            let class = schedule.choose(&self.limits, waits).or_else(|| {
                let is_alone = |c: &IoClass| waits(*c) && self.has_only(*c, lines, schedule);
                [IoClass::SyncRead, IoClass::SyncWrite].into_iter().find(is_alone)
            });
            let Some(class) = class else { break };
            let limit = self.limits.aggregation(self.rotating);
            let Some(picked) = lines.take(class, limit) else { break };
            let weight = self.begin(state, class, picked.len());
            let arrived = Some(picked.io.arrived);
            out.push(StartedRequest { class, picked, arrived, weight });
        }
        out
    }

    /// Hands over what has begun, with one submission of each kind.
    fn send(self: &Arc<Self>, begun: StartedRequests) {
        let is_timed = begun.iter().any(|b| b.weight > 0);
        let now = if is_timed { self.clock() } else { 0 };
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for StartedRequest { class, picked, arrived, weight } in begun {
            let times = (arrived.unwrap_or(now), now);
            if !picked.is_alone() {
                writes.push(self.joint_write(class, picked.ascending(), weight, times));
                continue;
            }
            let Io { offset, len, work, .. } = picked.io;
            let mut issued = self.issued(class, len, false, weight, times);
            match work {
                Work::Read(done) => {
                    let done = Box::new(move |result: Result<AlignedBuf, Error>| {
                        issued.end(result.is_err(), Vec::new());
                        done(result);
                    });
                    reads.push(Read { offset, len: len as usize, done });
                }
                Work::Write(parts, done) => {
                    let done = Box::new(move |result: Result<(), Error>| {
                        issued.end(result.is_err(), Vec::new());
                        done(result);
                    });
                    writes.push(Write { offset, parts, done });
                }
            }
        }
        if !reads.is_empty() {
            self.device.submit(reads);
        }
        if let (Some(writer), false) = (&self.writer, writes.is_empty()) {
            writer.submit_writes(writes);
        }
    }

    /// One write of several neighbours. When it fails, each of them is tried again alone.
    fn joint_write(
        self: &Arc<Self>,
        class: IoClass,
        members: Vec<Io>,
        weight: u64,
        times: (u64, u64),
    ) -> Write {
        let offset = members.first().map_or(0, |m| m.offset);
        let len = members.iter().map(|m| m.len).sum();
        // The members keep theirs; what is copied is a reference to the bytes.
        let parts = members.iter().flat_map(|m| m.parts()).cloned().collect();
        let mut issued = self.issued(class, len, true, weight, times);
        let done = Box::new(move |result: Result<(), Error>| {
            if result.is_err() {
                return issued.end(true, members);
            }
            issued.end(false, Vec::new());
            for member in members {
                if let Work::Write(_, done) = member.work {
                    done(Ok(()));
                }
            }
        });
        Write { offset, parts, done }
    }

    fn issued(
        self: &Arc<Self>,
        class: IoClass,
        bytes: u64,
        aggregated: bool,
        weight: u64,
        (arrived, begun): (u64, u64),
    ) -> Issued {
        let queue = Some(Arc::clone(self));
        Issued { queue, class, bytes, aggregated, weight, arrived, begun }
    }

    /// A request has ended; `again` stand in line once more, each for itself.
    fn ended(self: &Arc<Self>, ended: &CompletedRequest, again: Vec<Io>) {
        let nested = drive::is_within();
        let begun = {
            let mut state = self.state.lock();
            state.schedule.end(ended.class, &self.limits);
            if self.limits.is_counting() {
                state.stats.count(ended);
            }
            for io in again {
                state.lines.push(ended.class, Io { alone: true, ..io });
            }
            if state.lines.is_empty() {
                return;
            }
            if nested { Vec::new() } else { self.pick(&mut state) }
        };
        self.send_or_defer(nested, begun);
    }
}

impl drive::Dispatch for LeafQueue {
    fn send_more(self: Arc<Self>) {
        let begun = self.pick(&mut self.state.lock());
        if !begun.is_empty() {
            self.send(begun);
        }
    }
}

impl Issued {
    /// The device has answered. Sends what the freed place admits, and lets go of the queue and its
    /// device: the caller that is told next may want to open the device anew.
    fn end(&mut self, failed: bool, again: Vec<Io>) {
        let Some(queue) = self.queue.take() else { return };
        let ended = CompletedRequest {
            class: self.class,
            bytes: self.bytes,
            failed,
            aggregated: self.aggregated,
            weight: self.weight,
            arrived: self.arrived,
            begun: self.begun,
            ended: if self.weight > 0 { queue.clock() } else { 0 },
        };
        queue.ended(&ended, again);
    }
}

impl Drop for Issued {
    fn drop(&mut self) {
        self.end(true, Vec::new());
    }
}
