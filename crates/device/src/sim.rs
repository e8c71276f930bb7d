//! Simulated disks: memory that answers in virtual time, may lose what was not flushed, and loses
//! its power on demand.
//!
//! The disks of a pool are made by one [`SimDisks`], which counts and, on request, records what
//! happens to all of them. Each such *event* has a number: a write arrives, a write is done, a
//! flush begins, a flush ends. The power can be made to fail at any event
//! ([`SimDisks::fail_power_at`]), from which on every request fails; or a whole run is recorded and
//! looked at as if the power had failed anywhere ([`CrashLog`]).
//!
//! The time of requests is given by a few numbers ([`SimModel`]), or by a machine that has queues,
//! heads and caches of its own ([`DiskModel`]).

use crate::crash::{Data, Event};
use crate::model::{DiskModel, ModelKind, ModelRequest};
use crate::stats::Counters;
use crate::write::split_refused;
use crate::{
    AlignedBuf, CrashLog, CrashMode, Device, DeviceRef, Error, ErrorKind, MemoryDevice, Read,
    Stats, Write, WriteDevice, complete, range_within, write_batch,
};
use core::time::Duration;
use parking_lot::Mutex;
use rt::{Rng, Rt, Xoshiro256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The time a kind of request takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimCost {
    /// Before the first byte. Requests within the queue's depth spend it at the same time.
    pub overhead: Duration,
    /// Bytes that pass in a second, of all requests together; 0 for no limit.
    pub bytes_per_second: u64,
}

impl SimCost {
    /// The time that `bytes` need, without the overhead.
    fn transfer(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000;
        let nanos = nanos.checked_div(u128::from(self.bytes_per_second)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// How long a simulated disk takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimModel {
    /// Reads.
    pub read: SimCost,
    /// Writes, into the disk's cache.
    pub write: SimCost,
    /// Flushes: the bytes are those that were done since the last one. A flush does not wait for
    /// other requests, nor they for it.
    pub flush: SimCost,
    /// Reads and writes that the disk works on at once; at least 1.
    pub depth: usize,
    /// Each read and write ends up to this much later, by chance, so that they overtake each other.
    pub spread: Duration,
}

impl Default for SimModel {
    /// A solid state disk: 80 µs to read, 20 µs to write, 2 GB/s, half a millisecond to flush.
    fn default() -> Self {
        let cost = |us, bytes_per_second| SimCost {
            overhead: Duration::from_micros(us),
            bytes_per_second,
        };
        Self {
            read: cost(80, 2_000_000_000),
            write: cost(20, 2_000_000_000),
            flush: cost(500, 0),
            depth: 32,
            spread: Duration::from_micros(40),
        }
    }
}

/// How to make a simulated disk.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Its name, for messages.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Bytes of a sector: what is never torn.
    pub sector_size: u32,
    /// Decides what chance decides here.
    pub seed: u64,
    /// How long it takes.
    pub model: SimModel,
    /// Flushes succeed and do nothing: a disk that lies, or an engine that forgets to flush.
    pub ignore_flush: bool,
}

impl Default for SimOptions {
    /// 256 MiB, sectors of 512 bytes.
    fn default() -> Self {
        Self {
            name: "sim".to_owned(),
            size: 256 << 20,
            sector_size: 512,
            seed: 0,
            model: SimModel::default(),
            ignore_flush: false,
        }
    }
}

/// The power supply and the recorder that the disks of a pool share. Cheap to clone.
#[derive(Clone)]
pub struct SimDisks(Arc<Site>);

struct Site {
    rt: Rt,
    state: Mutex<SiteState>,
}

#[derive(Default)]
struct SiteState {
    /// The contents of each disk. (Not the disks, which hold this.)
    disks: Vec<Arc<MemoryDevice>>,
    /// Events so far, since the recording began if there is one.
    events: usize,
    /// The event that does not happen any more.
    fails_at: Option<usize>,
    recording: Option<Recording>,
    /// How many recordings there were: a number for this one.
    recordings: u64,
}

struct Recording {
    start: Vec<MemoryDevice>,
    events: Vec<Event>,
}

/// An event that others refer to: its place, and in which recording.
#[derive(Clone, Copy)]
struct Mark {
    place: usize,
    recording: u64,
}

/// Returned instead of an event's number.
struct PowerFailed;

impl SimDisks {
    /// No disks yet, and nothing is recorded.
    #[must_use]
    pub fn new(rt: &Rt) -> Self {
        Self(Arc::new(Site { rt: rt.clone(), state: Mutex::default() }))
    }

    /// Adds an empty disk.
    #[must_use]
    pub fn add(&self, options: &SimOptions) -> Arc<SimDevice> {
        let contents = MemoryDevice::zeros(&options.name, options.size);
        self.add_with(options, contents.with_sector_size(options.sector_size))
    }

    /// Adds a disk with these contents, whose name, size and sectors count.
    #[must_use]
    pub fn add_with(&self, options: &SimOptions, contents: MemoryDevice) -> Arc<SimDevice> {
        let queue = Queue {
            free: vec![Duration::ZERO; options.model.depth.max(1)],
            line: Duration::ZERO,
            rng: Xoshiro256::seeded(options.seed),
        };
        self.join(options, contents, Timing::Costs(options.model, Mutex::new(queue)))
    }

    /// Adds an empty disk whose time this model decides, not [`SimOptions::model`] and its seed.
    #[must_use]
    pub fn add_model(&self, options: &SimOptions, model: Box<dyn DiskModel>) -> Arc<SimDevice> {
        let contents = MemoryDevice::zeros(&options.name, options.size);
        self.add_model_with(options, contents.with_sector_size(options.sector_size), model)
    }

    /// The same with contents, whose name, size and sectors count.
    #[must_use]
    pub fn add_model_with(
        &self,
        options: &SimOptions,
        contents: MemoryDevice,
        model: Box<dyn DiskModel>,
    ) -> Arc<SimDevice> {
        let machine = Machine { model, next_id: 0, pending: BTreeMap::new(), timer: None };
        self.join(options, contents, Timing::Machine(Mutex::new(machine)))
    }

    fn join(&self, options: &SimOptions, contents: MemoryDevice, timing: Timing) -> Arc<SimDevice> {
        let mut state = self.0.state.lock();
        if let Some(recording) = &mut state.recording {
            recording.start.push(contents.fork());
        }
        let contents = Arc::new(contents);
        let disk = Arc::new(Disk {
            site: Arc::clone(&self.0),
            number: state.disks.len(),
            name: Arc::from(contents.name()),
            timing,
            ignore_flush: options.ignore_flush,
            contents: Arc::clone(&contents),
            counters: Counters::default(),
            unflushed: Mutex::new(0),
        });
        state.disks.push(contents);
        Arc::new(SimDevice(disk))
    }

    /// Records from now on, and forgets earlier events. The contents of the disks now count as
    /// durable; events are numbered from zero again. The memory of all that is written is kept.
    pub fn record(&self) {
        let mut state = self.0.state.lock();
        let start = state.disks.iter().map(|contents| contents.fork()).collect();
        state.recording = Some(Recording { start, events: Vec::new() });
        state.recordings += 1;
        state.events = 0;
    }

    /// Number of events so far. A promise made when this was `n` has to be kept by every crash at
    /// `n` or later.
    #[must_use]
    pub fn events(&self) -> usize {
        self.0.state.lock().events
    }

    /// The power fails in place of event number `event`, and at once if that has happened already.
    pub fn fail_power_at(&self, event: usize) {
        self.0.state.lock().fails_at = Some(event);
    }

    /// Whether it has failed.
    #[must_use]
    pub fn power_failed(&self) -> bool {
        self.0.state.lock().failed()
    }

    /// The recording so far; empty when there is none.
    #[must_use]
    pub fn log(&self) -> CrashLog {
        let state = self.0.state.lock();
        match &state.recording {
            Some(Recording { start, events }) => {
                let start = start.iter().map(MemoryDevice::fork).collect();
                CrashLog::new(start, events.clone())
            }
            None => CrashLog::new(Vec::new(), Vec::new()),
        }
    }

    /// The contents of the disks if the power failed now, or when it has failed; from the
    /// recording.
    #[must_use]
    pub fn crash_images(&self, mode: CrashMode, seed: u64) -> Vec<MemoryDevice> {
        let log = self.log();
        log.images(log.len(), mode, seed)
    }
}

impl SiteState {
    fn failed(&self) -> bool {
        self.fails_at.is_some_and(|event| self.events >= event)
    }

    /// Counts an event, and records it.
    fn happen(&mut self, event: impl FnOnce() -> Event) -> Result<Mark, PowerFailed> {
        if self.failed() {
            return Err(PowerFailed);
        }
        if let Some(recording) = &mut self.recording {
            recording.events.push(event());
        }
        self.events += 1;
        Ok(Mark { place: self.events - 1, recording: self.recordings })
    }
}

/// One disk's inside, which requests under way keep alive.
struct Disk {
    site: Arc<Site>,
    /// Its place among the disks.
    number: usize,
    name: Arc<str>,
    timing: Timing,
    ignore_flush: bool,
    /// The contents that a read sees.
    contents: Arc<MemoryDevice>,
    counters: Counters,
    /// Bytes done since the last flush.
    unflushed: Mutex<u64>,
}

/// Decides when requests end.
enum Timing {
    Costs(SimModel, Mutex<Queue>),
    Machine(Mutex<Machine>),
}

/// A model, and the requests it has.
struct Machine {
    model: Box<dyn DiskModel>,
    next_id: u64,
    pending: BTreeMap<u64, Pending>,
    /// The time of its next call.
    timer: Option<Duration>,
}

/// A request under way.
enum Pending {
    Read(Read, Duration),
    Write(PendingWrite, Duration),
    Flush(complete::Ticket<()>),
}

struct Queue {
    /// When each of the places in the queue is free.
    free: Vec<Duration>,
    /// When the way of the bytes is free.
    line: Duration,
    rng: Xoshiro256,
}

impl Queue {
    /// How long a request that arrives now will take. It waits for a place in the queue, then the
    /// overhead, then for the line.
    fn delay(&mut self, now: Duration, cost: SimCost, bytes: u64, spread: Duration) -> Duration {
        let Self { free, line, rng } = self;
        let Some(place) = free.iter_mut().min() else { return cost.overhead };
        let ready = now.max(*place) + cost.overhead;
        let end = if cost.bytes_per_second == 0 {
            ready
        } else {
            *line = ready.max(*line) + cost.transfer(bytes);
            *line
        };
        let spread = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
        let end = end + Duration::from_nanos(rng.below(spread));
        *place = end;
        end - now
    }
}

impl Disk {
    /// Ends the request when its time has come.
    fn start(self: &Arc<Self>, request: Pending) {
        let now = self.site.rt.now();
        let (kind, offset, len) = match &request {
            Pending::Read(read, _) => (ModelKind::Read, read.offset, read.len),
            Pending::Write(write, _) => (ModelKind::Write, write.offset, write.len),
            Pending::Flush(_) => (ModelKind::Flush, 0, 0),
        };
        let len = len as u64;
        match &self.timing {
            Timing::Costs(model, queue) => {
                let cost = match kind {
                    ModelKind::Read => model.read,
                    ModelKind::Write => model.write,
                    ModelKind::Flush => model.flush,
                };
                let delay = queue.lock().delay(now, cost, len, model.spread);
                let disk = Arc::clone(self);
                self.site.rt.after(delay, move || disk.end(request));
            }
            Timing::Machine(machine) => {
                let mut machine = machine.lock();
                let id = machine.next_id;
                machine.next_id += 1;
                machine.pending.insert(id, request);
                machine.model.arrive(now, ModelRequest { id, kind, offset, len });
                self.schedule_poll(&mut machine, now);
            }
        }
    }

    /// Sets the timer for the model's next call.
    fn schedule_poll(self: &Arc<Self>, machine: &mut Machine, now: Duration) {
        let Some(next) = machine.model.next().map(|next| next.max(now)) else { return };
        if machine.timer.is_some_and(|timer| timer <= next) {
            return;
        }
        machine.timer = Some(next);
        let disk = Arc::clone(self);
        self.site.rt.after(next - now, move || disk.poll_model(next));
    }

    /// The timer that was set for `due`: asks the model, and ends what has ended.
    fn poll_model(self: &Arc<Self>, due: Duration) {
        let Timing::Machine(machine) = &self.timing else { return };
        let ended: Vec<Pending> = {
            let mut machine = machine.lock();
            if machine.timer != Some(due) {
                return; // An earlier one took its place.
            }
            machine.timer = None;
            let now = self.site.rt.now();
            let mut ids = Vec::new();
            machine.model.advance(now, &mut ids);
            let ended = ids.iter().filter_map(|id| machine.pending.remove(id)).collect();
            self.schedule_poll(&mut machine, now);
            ended
        };
        for request in ended {
            self.end(request);
        }
    }

    fn end(&self, request: Pending) {
        match request {
            Pending::Read(read, arrived) => self.end_read(read, arrived),
            Pending::Write(write, arrived) => self.end_write(write, arrived),
            Pending::Flush(ticket) => ticket.give(()),
        }
    }

    /// Waits for what a flush takes.
    fn wait_flush(self: &Arc<Self>) {
        let bytes = std::mem::take(&mut *self.unflushed.lock());
        match &self.timing {
            Timing::Costs(model, _) => {
                let cost = model.flush;
                self.site.rt.sleep(cost.overhead + cost.transfer(bytes));
            }
            Timing::Machine(_) => {
                let (collector, tickets) = complete::collect(&self.site.rt, 1);
                tickets.into_iter().for_each(|ticket| self.start(Pending::Flush(ticket)));
                collector.wait();
            }
        }
    }

    /// The end of a read.
    fn end_read(&self, request: Read, arrived: Duration) {
        let Read { offset, len, done } = request;
        let fail = |kind| Error::read(kind, &self.name, offset, len);
        let result = if self.site.state.lock().failed() {
            Err(fail(ErrorKind::PowerLoss))
        } else {
            self.contents.read_new(offset, len)
        };
        let took = self.site.rt.now().saturating_sub(arrived);
        self.counters.end(result.as_ref().map(|_| len).map_err(|_| ()), took);
        complete::deliver(done, result);
    }

    fn end_write(&self, pending: PendingWrite, arrived: Duration) {
        let PendingWrite { offset, len, parts, done, mark } = pending;
        let happened = {
            let mut state = self.site.state.lock();
            let again = || self.write_event(offset, Arc::clone(&parts));
            // A recording that began meanwhile has not seen it arrive.
            let mark =
                if mark.recording == state.recordings { Ok(mark) } else { state.happen(again) };
            mark.and_then(|mark| state.happen(|| Event::Done { write: mark.place }))
        };
        let result = match happened {
            Ok(_) => {
                let mut at = offset;
                for part in parts.iter() {
                    self.contents.take_in(at, part);
                    at += part.len() as u64;
                }
                *self.unflushed.lock() += len as u64;
                Ok(())
            }
            Err(PowerFailed) => Err(Error::write(ErrorKind::PowerLoss, &self.name, offset, len)),
        };
        let took = self.site.rt.now().saturating_sub(arrived);
        self.counters.end_write(result.as_ref().map(|()| len).map_err(|_| ()), took);
        complete::deliver_write(done, result);
    }

    fn write_event(&self, offset: u64, data: Data) -> Event {
        Event::Write { disk: self.number, offset, data }
    }

    fn flush(self: &Arc<Self>) -> Result<(), PowerFailed> {
        let mut state = self.site.state.lock();
        if state.failed() {
            return Err(PowerFailed);
        }
        if self.ignore_flush {
            return Ok(());
        }
        let mark = state.happen(|| Event::FlushBegin { disk: self.number })?;
        drop(state);
        self.wait_flush();
        let mut state = self.site.state.lock();
        if mark.recording == state.recordings {
            state.happen(|| Event::FlushEnd { begin: mark.place })?;
        } else if state.failed() {
            return Err(PowerFailed);
        }
        Ok(())
    }
}

struct PendingWrite {
    offset: u64,
    len: usize,
    parts: Arc<[crate::Shared]>,
    done: crate::WriteDone,
    mark: Mark,
}

/// A simulated disk. Requests end in the runtime's virtual time; with a real runtime it is a slow
/// memory.
pub struct SimDevice(Arc<Disk>);

impl SimDevice {
    /// A disk on its own.
    #[must_use]
    pub fn new(rt: &Rt, options: &SimOptions) -> Arc<Self> {
        SimDisks::new(rt).add(options)
    }

    /// The power supply and recorder it hangs on.
    #[must_use]
    pub fn disks(&self) -> SimDisks {
        SimDisks(Arc::clone(&self.0.site))
    }

    /// Its present contents, as a device of its own.
    #[must_use]
    pub fn contents(&self) -> MemoryDevice {
        self.0.contents.fork()
    }

    /// Makes it as long as this, as [`MemoryDevice::lengthen`] does. Later recordings have the new
    /// size; an image of a crash has to be grown explicitly.
    pub fn lengthen(&self, size: u64) {
        self.0.contents.lengthen(size);
    }
}

impl Device for SimDevice {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn size(&self) -> u64 {
        self.0.contents.size()
    }

    fn size_now(&self) -> u64 {
        self.0.contents.size_now()
    }

    fn sector_size(&self) -> u32 {
        self.0.contents.sector_size()
    }

    fn is_rotating(&self) -> bool {
        match &self.0.timing {
            Timing::Costs(..) => false,
            Timing::Machine(machine) => machine.lock().model.is_rotating(),
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        buf.copy_from_slice(&self.read_new(offset, buf.len())?);
        Ok(())
    }

    fn read_new(&self, offset: u64, len: usize) -> Result<AlignedBuf, Error> {
        let disk = &self.0;
        let fail = |kind| Error::read(kind, &disk.name, offset, len);
        if complete::delivering() {
            // Nothing may wait here, so it takes no time.
            if disk.site.state.lock().failed() {
                return Err(fail(ErrorKind::PowerLoss));
            }
            return disk.contents.read_new(offset, len);
        }
        let (collector, tickets) = complete::collect(&disk.site.rt, 1);
        for ticket in tickets {
            let done = Box::new(move |result| ticket.give(result));
            self.submit(vec![Read { offset, len, done }]);
        }
        let result = collector.wait().pop().flatten();
        result.unwrap_or_else(|| Err(fail(ErrorKind::Gone)))
    }

    fn submit(&self, batch: Vec<Read>) {
        let disk = &self.0;
        let arrived = disk.site.rt.now();
        let failed = disk.site.state.lock().failed();
        for request in batch {
            disk.counters.begin();
            let Read { offset, len, .. } = request;
            let checked = range_within(self.size(), offset, len);
            if let Err(kind) = if failed { Err(ErrorKind::PowerLoss) } else { checked } {
                disk.counters.end(Err(()), Duration::ZERO);
                let error = Error::read(kind, &disk.name, offset, len);
                complete::deliver(request.done, Err(error));
                continue;
            }
            disk.start(Pending::Read(request, arrived));
        }
    }

    fn stats(&self) -> Stats {
        self.0.counters.snapshot()
    }
}

impl WriteDevice for SimDevice {
    fn submit_writes(&self, batch: Vec<Write>) {
        let disk = &self.0;
        let arrived = disk.site.rt.now();
        batch.iter().for_each(|_| disk.counters.begin());
        let (accepted, mut refused) = split_refused(self.size(), &disk.name, batch);
        for write in accepted {
            let len = write.len();
            let Write { offset, parts, done } = write;
            let parts: Arc<[crate::Shared]> = parts.into();
            let event = || disk.write_event(offset, Arc::clone(&parts));
            let happened = disk.site.state.lock().happen(event);
            let Ok(mark) = happened else {
                let error = Error::write(ErrorKind::PowerLoss, &disk.name, offset, len);
                refused.push((done, error));
                continue;
            };
            let pending = PendingWrite { offset, len, parts, done, mark };
            disk.start(Pending::Write(pending, arrived));
        }
        for (done, error) in refused {
            disk.counters.end_write(Err(()), Duration::ZERO);
            complete::deliver_write(done, Err(error));
        }
    }

    fn flush(&self) -> Result<(), Error> {
        let disk = &self.0;
        let begin = disk.site.rt.now();
        let result = disk.flush();
        let took = disk.site.rt.now().saturating_sub(begin);
        disk.counters.flushed(result.is_ok(), took);
        result.map_err(|PowerFailed| Error::flush(ErrorKind::PowerLoss, &disk.name))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let parts = vec![crate::Shared::copy_of(data)];
        let gone = || Err(Error::write(ErrorKind::Gone, &self.0.name, offset, data.len()));
        write_batch(self, vec![(offset, parts)]).pop().unwrap_or_else(gone)
    }

    /// The worst that a disk may do: zeros are written, which land in any order with what else is
    /// on its way, or are lost.
    fn grow(&self) {
        self.0.contents.grow();
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        const PIECE: usize = 1 << 20;
        let as_trim = |e: Error| Error { operation: crate::Operation::Trim, ..e };
        let zeros = crate::Shared::from(crate::AlignedBuf::zeroed(PIECE));
        let ends = (offset..offset.saturating_add(len)).step_by(PIECE);
        let piece = |at: u64| (offset.saturating_add(len) - at).min(PIECE as u64) as usize;
        let writes = ends.map(|at| (at, vec![zeros.slice(0..piece(at))]));
        write_batch(self, writes.collect()).into_iter().try_for_each(|r| r.map_err(as_trim))
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}
