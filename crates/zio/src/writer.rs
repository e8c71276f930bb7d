//! The write pipeline.
//!
//! # Theory
//!
//! ```text
//! block -> zeros? -> compress -> fits the pointer? -> checksum -> space -> pointer   (CPU half)
//!                                                      \-> gang      \-> devices     (counted)
//! ```
//!
//! The caller has the pointer as soon as the CPU half is done, and writes the parent with it. The
//! device half is only counted: [`Writer::wait`] is the one place where a txg waits for its
//! devices. Until then the block is read from memory ([`Writer::read_pending`]).
//!
//! *Held* blocks have a pointer and stay in memory until [`Writer::release`]: blocks of the MOS
//! change in every pass of a sync, and only their last version is to reach a device. A version
//! gives its space to the next one of the same size, so that the pointer's address, and with it
//! what the space maps say, settles.
//!
//! Metadata are kept, up to a bound, until they are taken ([`Writer::take_recent`]): the next
//! txg changes most of what this one wrote, and should not have to read it from the devices first.
//! So are data of which the caller says that they will be wanted.
//!
//! The devices are written asynchronously, or by a number of threads that each wait for one write
//! (`issue.rs`).
//!
//! Space of a block that is in flight is never given back before its write has ended: what got
//! the space next would race with it on the device.

use crate::allocate::Allocate;
use crate::block::{Block, Place};
use crate::cpu::Work;
use crate::error::{Error, ErrorKind, Result};
use crate::flight::{BlockState, Flow, HeldWrites, Table};
use crate::issue::{Issue, UnsentBlock};
use crate::place::{Placed, Placer, addresses, copies, hint};
use crate::profile::{Profiler, Span, Stage};
use crate::reader::Reader;
use crate::recent::Recent;
use crate::seal::Salts;
use crate::spec::{IN_FLIGHT_MAX, WriteSpec, WriterSettings};
use crate::stats::ByType;
use crate::transform::{Form, Stored, transform};
use crate::unsynced::{self, BlockKey, Unsynced};
use codec::crypto::MasterKey;
use ondisk::blkptr::CryptParams;
use ondisk::gang::GANG_HEADER_SIZE;
use ondisk::{BlkPtr, Dva};
use rt::Rt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use vdev::queue::IoClass;
use vdev::{BlockWrite, WriteError};

mod raw;

/// Held blocks are handed over in batches of about this many bytes: enough for neighbours to be
/// merged, few enough that the first are on their way while the last are prepared.
const BATCH_BYTES: u64 = 4 << 20;

/// Writes blocks to a vdev tree.
pub struct Writer {
    reader: Arc<Reader>,
    allocate: Arc<dyn Allocate>,
    settings: WriterSettings,
    core: Arc<Core>,
    issue: Arc<Issue>,
    /// Metadata written since they were last taken.
    recent: Recent,
    salts: Salts,
}

/// The part that completions need: they may outlive the writer.
struct Core {
    table: Table,
    flow: Flow,
    kept: Unsynced<Flight>,
    counts: Counts,
    observer: OnceLock<Arc<dyn WriteObserver>>,
    profiler: Arc<Profiler>,
    types: Arc<ByType>,
}

impl Core {
    /// Waits until the block is on its devices, or parked.
    fn wait_gone(&self, bp: &BlkPtr) {
        self.flow.wait_gone(&self.table, || self.kept.has_parked(bp), bp);
    }

    fn written(&self, place: Place, txg: u64, level: u8, bytes: u64) {
        if let Some(observer) = self.observer.get() {
            observer.written(place, txg, level, bytes);
        }
    }
}

/// Notified when blocks are on their devices: the throttle.
pub trait WriteObserver: Send + Sync {
    /// A block of `bytes`, uncompressed, of `txg` is on its devices, has failed there, or needs
    /// none: it is a hole or in its pointer. Called from completions: must not wait.
    fn written(&self, place: Place, txg: u64, level: u8, bytes: u64);
}

#[derive(Default)]
struct Counts {
    blocks: AtomicU64,
    logical: AtomicU64,
    stored: AtomicU64,
    holes: AtomicU64,
    embedded: AtomicU64,
    gangs: AtomicU64,
    reused: AtomicU64,
}

/// The counts of a writer since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Blocks stored.
    pub blocks: u64,
    /// Their bytes before compression.
    pub logical: u64,
    /// Their bytes as stored, of one copy.
    pub stored: u64,
    /// Blocks that became holes.
    pub holes: u64,
    /// Blocks that went into their pointer.
    pub embedded: u64,
    /// Stored blocks that had to be split.
    pub gangs: u64,
    /// Stored blocks that took the space of their earlier version.
    pub reused: u64,
    /// Bytes handed to devices and not answered now.
    pub in_flight: u64,
}

/// One stored block on its way to all its addresses.
pub(crate) struct Flight {
    core: Arc<Core>,
    bp: BlkPtr,
    serial: u64,
    place: Place,
    /// Copies that are on no device yet, and have not failed for good.
    left: AtomicUsize,
}

impl Flight {
    pub(crate) fn txg(&self) -> u64 {
        self.bp.logical_birth()
    }

    /// Nothing of one copy is still to be done.
    fn settled(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            match self.core.kept.is_on() {
                true => self.core.table.land(self.bp.dva(0), self.serial),
                false => self.core.table.remove(self.bp.dva(0), self.serial),
            }
            self.core.written(self.place, self.txg(), self.bp.level(), self.bp.lsize());
        }
    }
}

type UnsyncedCopy = unsynced::UnsyncedCopy<Flight>;

impl UnsyncedCopy {
    /// `span`: when it is traced.
    fn answered(self, result: std::result::Result<(), WriteError>, span: Option<Span>) {
        let flight = Arc::clone(&self.flight);
        let (core, txg, bytes) = (&flight.core, flight.txg(), self.data.len() as u64);
        if let Some(span) = span {
            let (took, weight) = core.profiler.end(span);
            core.types.write_took(&flight.bp, took, weight);
        }
        let is_first = self.is_first;
        match result {
            Err(e) if core.kept.is_on() && e.kind.is_of_devices() => {
                let error = failure(flight.place, Some(&flight.bp), ErrorKind::Write(e));
                core.kept.park(self);
                core.flow.park(txg, error);
            }
            Err(e) => {
                let error = failure(flight.place, Some(&flight.bp), ErrorKind::Write(e));
                core.flow.fail(txg, error);
                flight.settled();
            }
            Ok(()) => {
                if core.kept.is_on() {
                    core.kept.written(Self { is_first: false, ..self });
                }
                if is_first {
                    flight.settled();
                }
            }
        }
        // After the rest: a thread that waits for the flow finds everything told.
        core.flow.leave(flight.bp.dva(0), txg, bytes);
    }

    /// The write of it, whose bytes have entered the flow.
    fn write(self, span: Option<Span>) -> BlockWrite {
        let (dva, data, class) = (self.dva, self.data.clone(), self.class);
        let birth = self.flight.bp.physical_birth();
        let done = Box::new(move |result| self.answered(result, span));
        BlockWrite { dva, data, birth, class, done }
    }
}

impl Writer {
    /// Writes to the vdevs of `reader`, taking space from `allocate`; the settings are the defaults
    /// for these vdevs, without `hole_birth`.
    #[must_use]
    pub fn new(rt: &Rt, reader: Arc<Reader>, allocate: Arc<dyn Allocate>) -> Self {
        let alloc_unit = usize::try_from(reader.vdevs().alloc_unit()).unwrap_or(512);
        let in_flight_max = IN_FLIGHT_MAX;
        let settings = WriterSettings { in_flight_max, alloc_unit, hole_birth: false };
        Self::with_settings(rt, reader, allocate, settings)
    }

    /// The same with other settings.
    #[must_use]
    pub fn with_settings(
        rt: &Rt,
        reader: Arc<Reader>,
        allocate: Arc<dyn Allocate>,
        settings: WriterSettings,
    ) -> Self {
        let flow = Flow::new(rt, settings.in_flight_max);
        let profiler = Arc::new(Profiler::new(rt));
        let issue = Arc::new(Issue::new(rt, &reader, &profiler));
        let (table, counts, observer) = (Table::new(), Counts::default(), OnceLock::new());
        let types = Arc::clone(reader.types());
        let kept = Unsynced::default();
        let core = Core { table, flow, kept, counts, observer, profiler, types };
        let recent = Recent::new();
        let salts = Salts::new(rt);
        Self { reader, allocate, settings, core: Arc::new(core), issue, recent, salts }
    }

    /// The profile of the pipeline's threads.
    #[must_use]
    pub fn profiler(&self) -> &Arc<Profiler> {
        &self.core.profiler
    }

    /// Threads that issue device writes, one at a time each (`zio_taskq_threads`). 0, the default:
    /// devices are written asynchronously, and only the bytes in flight are bounded.
    #[must_use]
    pub fn issue_threads(&self) -> usize {
        self.issue.threads()
    }

    /// Changes it, from now on.
    pub fn set_issue_threads(&self, n: usize) {
        self.issue.set_threads(n);
    }

    /// Changes [`WriterSettings::in_flight_max`], from now on.
    pub fn set_in_flight_max(&self, bytes: u64) {
        self.core.flow.set_max(bytes);
    }

    /// From now on `observer` is notified of blocks that are on their devices. Only the first call
    /// counts.
    pub fn set_observer(&self, observer: Arc<dyn WriteObserver>) {
        let _ = self.core.observer.set(observer);
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &WriterSettings {
        &self.settings
    }

    /// How a block of an intent log that is encrypted with this key will be, which its pointer says
    /// before the block is written.
    #[must_use]
    pub fn crypt_params(&self, key: &MasterKey) -> CryptParams {
        self.salts.draw(key)
    }

    /// Reads what was written.
    #[must_use]
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// Compresses, sums and places a block, hands it to its devices (or holds it), and returns its
    /// pointer. Waits only for room among the bytes in flight. Called by many threads at once, but
    /// never from a device's completion.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`], with nothing allocated; [`ErrorKind::BadBlock`] when no block can be
    /// written like this. Failures on the devices are returned by [`Writer::wait`].
    pub fn write(&self, data: &Arc<Block>, spec: &WriteSpec<'_>, place: Place) -> Result<BlkPtr> {
        let (bp, writes) = self.prepare(data, spec, place)?;
        if !writes.is_empty() {
            self.issue.send(writes);
        }
        Ok(bp)
    }

    /// [`Self::write`], but what is returned with the pointer hands the block to its devices. Until
    /// then the calling thread must write no other block and wait for no txg: its bytes are counted
    /// among those in flight.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_unsent(
        &self,
        data: &Arc<Block>,
        spec: &WriteSpec<'_>,
        place: Place,
    ) -> Result<(BlkPtr, UnsentBlock)> {
        let (bp, writes) = self.prepare(data, spec, place)?;
        Ok((bp, UnsentBlock { writes, issue: Some(Arc::clone(&self.issue)) }))
    }

    /// The pointer of a block, and the writes to be sent.
    fn prepare(
        &self,
        data: &Arc<Block>,
        spec: &WriteSpec<'_>,
        place: Place,
    ) -> Result<(BlkPtr, Vec<BlockWrite>)> {
        probes::fire!(write__start, data.bytes().len() as u64, spec.birth);
        let (bp, writes) = self.prepare_unseen(data, spec, place)?;
        probes::fire!(write__done, data.bytes().len() as u64, bp.psize(), spec.birth);
        Ok((bp, writes))
    }

    fn prepare_unseen(
        &self,
        data: &Arc<Block>,
        spec: &WriteSpec<'_>,
        place: Place,
    ) -> Result<(BlkPtr, Vec<BlockWrite>)> {
        let fail = |kind| failure(place, None, kind);
        let counts = &self.core.counts;
        let add = |count: &AtomicU64, n: u64| count.fetch_add(n, Ordering::Relaxed);
        let mut laps = self.core.profiler.block(data.len());
        let random = (self.reader.salted(), &self.salts);
        let form = transform(data, spec, &self.settings, random, &mut laps);
        let form = form.map_err(fail)?;
        let stored = match form {
            Form::Stored(stored) => stored,
            Form::Pointer(bp) => {
                add(if bp.is_hole() { &counts.holes } else { &counts.embedded }, 1);
                self.core.written(place, spec.birth, spec.level, data.size());
                return Ok((bp, Vec::new()));
            }
        };
        let placer = Placer {
            allocate: &*self.allocate,
            salted: self.reader.salted(),
            spec,
            unit: self.settings.alloc_unit,
            hint: hint(place),
        };
        let reused = self.reusable(&placer, &stored);
        let is_reused = reused.is_some();
        let placed = laps.stage(Stage::Allocate, || {
            let placed = reused.map_or_else(|| placer.find(&stored), Ok)?;
            Work::Place.charge(stored.parts.psize);
            Work::Prepare.charge(stored.parts.psize);
            Ok(placed)
        });
        let placed = placed.map_err(fail)?;
        let bp = placed.bp;
        add(&counts.blocks, 1);
        add(&counts.logical, stored.parts.lsize);
        add(&counts.stored, stored.parts.psize);
        add(&counts.gangs, u64::from(bp.is_gang()));
        add(&counts.reused, u64::from(is_reused));
        let is_metadata = spec.level > 0 || place.objset == 0 || place.object == 0;
        if (is_metadata || spec.keep) && data.seal().is_none() {
            self.recent.keep(&bp, data);
        }
        Ok((bp, self.dispatch(placed, data, spec, place)))
    }

    /// Holds the block, or counts it as in flight and returns its writes.
    fn dispatch(
        &self,
        placed: Placed,
        data: &Arc<Block>,
        spec: &WriteSpec<'_>,
        place: Place,
    ) -> Vec<BlockWrite> {
        let Placed { bp, writes, taken } = placed;
        let held = HeldWrites { writes, taken, place };
        if spec.hold {
            self.core.table.insert(bp, Arc::clone(data), Some(held));
            return Vec::new();
        }
        self.core.flow.enter(bp.logical_birth(), held.bytes());
        let serial = self.core.table.insert(bp, Arc::clone(data), None);
        let mut batch = Vec::with_capacity(held.writes.len());
        let class = if spec.urgent { IoClass::SyncWrite } else { IoClass::AsyncWrite };
        self.depart(bp, serial, held, class, &mut batch);
        batch
    }

    /// The writes of a block whose bytes have entered the flow.
    fn depart(
        &self,
        bp: BlkPtr,
        serial: u64,
        held: HeldWrites,
        class: IoClass,
        batch: &mut Vec<BlockWrite>,
    ) {
        let left = AtomicUsize::new(held.writes.len());
        let (core, place) = (Arc::clone(&self.core), held.place);
        let flight = Arc::new(Flight { core, bp, serial, place, left });
        let by_thread = self.issue.threads() > 0;
        for (dva, data) in held.writes {
            self.reader.stats().written(&bp, data.len() as u64);
            let span = flight.core.profiler.begin_write(data.len(), by_thread);
            let flight = Arc::clone(&flight);
            let block = BlockKey::of(&bp);
            let copy = UnsyncedCopy { flight, block, dva, data, class, is_first: true };
            batch.push(copy.write(span));
        }
    }

    /// The block at the addresses of its earlier version, when it can take them.
    fn reusable(&self, placer: &Placer<'_>, stored: &Stored) -> Option<Placed> {
        let spec = placer.spec;
        let old = spec.reuse.as_ref().filter(|bp| !bp.is_hole() && !bp.is_embedded())?;
        let fits = old.physical_birth() == spec.birth
            && old.psize() == stored.parts.psize
            // Two writes to one place at the same time end in any order.
            && self.core.table.standing(old) != BlockState::InFlight;
        if !fits {
            None
        } else if old.is_gang() {
            placer.over(stored, self.core.table.taken(old)?)
        } else {
            let same = old.dvas().count() == usize::from(copies(spec));
            same.then(|| placer.at(stored, addresses(old)))
        }
    }

    /// Frees a block as a change of `txg`: nothing for holes and embedded blocks; the parts of a
    /// gang too, as far as its headers can be read. A block of the same txg is given back for use
    /// at once; when it is in flight, this waits until it is not.
    pub fn free(&self, bp: &BlkPtr, txg: u64) {
        if bp.is_hole() || bp.is_embedded() {
            return;
        }
        let is_new = bp.physical_birth() == txg;
        if is_new {
            self.recent.forget(bp);
            if let Some(held) = self.core.table.take_held(bp) {
                for bp in &held.taken {
                    self.allocate.discard(bp, txg);
                }
                return;
            }
            self.cancel(bp);
        }
        self.free_parts(bp, txg, is_new);
    }

    /// Waits until nothing of a block is in flight, and forgets what is parked of it.
    fn cancel(&self, bp: &BlkPtr) {
        let core = &self.core;
        loop {
            core.wait_gone(bp);
            if core.table.standing(bp) != BlockState::InFlight {
                return;
            }
            for copy in core.kept.take_parked(bp) {
                core.flow.unpark(copy.flight.txg());
                if copy.is_first {
                    copy.flight.settled();
                }
            }
        }
    }

    /// Frees a block that `txg` itself has written, as if an older one had: the uberblock before it
    /// reaches what an intent log names.
    pub fn free_logged(&self, bp: &BlkPtr, txg: u64) {
        self.core.wait_gone(bp);
        self.free_parts(bp, txg, false);
    }

    fn free_parts(&self, bp: &BlkPtr, txg: u64, is_new: bool) {
        // Before the header's own space can be handed out again.
        let members = match bp.is_gang() {
            true => self.reader.gang_members(bp, Place::default()),
            false => Vec::new(),
        };
        for bp in members.iter().chain([bp]) {
            if is_new && self.core.kept.is_on() {
                self.core.table.forget_landed(bp);
                self.core.kept.forget(bp);
            }
            let bp = self.header_alone(bp);
            match is_new {
                true => self.allocate.discard(&bp, txg),
                false => self.allocate.free(&bp, txg),
            }
        }
    }

    /// The pointer to a gang with the space of its header only; its parts are freed by themselves.
    fn header_alone(&self, bp: &BlkPtr) -> BlkPtr {
        let mut out = *bp;
        for (i, dva) in bp.dvas().filter(|(_, d)| d.is_gang()) {
            let (vdev, birth) = (dva.vdev(), bp.physical_birth());
            let asize = self.reader.vdevs().psize_to_asize(vdev, GANG_HEADER_SIZE as u64, birth);
            let asize = asize.unwrap_or(dva.asize()).min(dva.asize());
            out = out.with_dva(i, Dva::new(vdev, dva.offset(), asize, true));
        }
        out
    }

    /// The block, when it is written but not yet on its devices.
    #[must_use]
    pub fn read_pending(&self, bp: &BlkPtr) -> Option<Arc<Block>> {
        if bp.is_hole() || bp.is_embedded() { None } else { self.core.table.block(bp) }
    }

    /// The metadata that were written since the last call, and not given up since: as many of the
    /// newest as there is room for, oldest first.
    pub fn take_recent(&self) -> Vec<(BlkPtr, Arc<Block>)> {
        self.recent.take()
    }

    /// Changes how many bytes of them are kept, from now on (64 MiB).
    pub fn set_recent_max(&self, bytes: u64) {
        self.recent.set_bytes_max(bytes);
    }

    /// Sends off all held blocks. Waits only for room.
    pub fn release(&self) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for (bp, serial, held) in self.core.table.release() {
            let more = held.bytes();
            let (flow, txg) = (&self.core.flow, bp.logical_birth());
            // A thread that waits for room must have handed over everything it holds.
            if batch.is_empty() || bytes + more > BATCH_BYTES || !flow.try_enter(txg, more) {
                self.issue.send(std::mem::take(&mut batch));
                bytes = 0;
                flow.enter(txg, more);
            }
            bytes += more;
            self.depart(bp, serial, held, IoClass::AsyncWrite, &mut batch);
        }
        self.issue.send(batch);
    }

    /// Waits until all blocks that were sent off are on their devices. Not durable before a flush.
    ///
    /// # Errors
    /// The first failure of the oldest txg that had one, also when it was reported before: what
    /// was not written stays missing.
    pub fn wait(&self) -> Result<()> {
        self.wait_txg(u64::MAX)
    }

    /// [`Self::wait`] for the blocks of `txg` and of those before: others go on writing.
    ///
    /// # Errors
    /// The first failure of the oldest of these txgs that had one.
    pub fn wait_txg(&self, txg: u64) -> Result<()> {
        self.core.flow.wait_until_txg(txg)
    }

    /// [`Self::wait`] for one block.
    ///
    /// # Errors
    /// A block of its txg, this one or another, was not written.
    pub fn wait_block(&self, bp: &BlkPtr) -> Result<()> {
        self.core.wait_gone(bp);
        self.core.flow.failure_of(bp.logical_birth()).map_or(Ok(()), Err)
    }

    /// Whether the block is no longer on its way to its devices: it is there, or was given up.
    #[must_use]
    pub fn has_ended(&self, bp: &BlkPtr) -> bool {
        self.core.table.standing(bp) != BlockState::InFlight
    }

    /// From now on what too few devices took is not lost: it waits until it is tried again
    /// ([`Self::write_again`]), and all that a txg wrote is kept until [`Self::settle`]. Waiting
    /// for the txg says the failure as before.
    pub fn outlast_failures(&self) {
        self.core.kept.switch(true);
    }

    /// Something of `txg`, or of one before, waits to be tried again.
    #[must_use]
    pub fn has_parked(&self, txg: u64) -> bool {
        self.core.flow.has_parked(txg)
    }

    /// Writes everything of `txg` and of those before once more, to the same places: what devices
    /// refused, and what they took and may have lost. Nothing of these txgs may be written or freed
    /// meanwhile. Waits for nothing.
    pub fn write_again(&self, txg: u64) {
        let (parked, written) = self.core.kept.take(txg);
        for copy in &parked {
            self.core.flow.enter_anyway(copy.flight.txg(), copy.data.len() as u64);
            self.core.flow.unpark(copy.flight.txg());
        }
        for copy in &written {
            self.core.flow.enter_anyway(copy.flight.txg(), copy.data.len() as u64);
        }
        let writes = parked.into_iter().chain(written).map(|copy| copy.write(None));
        self.issue.send(writes.collect());
    }

    /// `txg` is durable.
    pub fn settle(&self, txg: u64) {
        if self.core.kept.is_on() {
            self.core.table.settle(txg);
            self.core.kept.settle(txg);
        }
    }

    /// Its counts.
    #[must_use]
    pub fn stats(&self) -> WriterStats {
        let c = &self.core.counts;
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        WriterStats {
            blocks: get(&c.blocks),
            logical: get(&c.logical),
            stored: get(&c.stored),
            holes: get(&c.holes),
            embedded: get(&c.embedded),
            gangs: get(&c.gangs),
            reused: get(&c.reused),
            in_flight: self.core.flow.in_flight(),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.core.kept.clear();
    }
}

fn failure(place: Place, bp: Option<&BlkPtr>, kind: ErrorKind) -> Error {
    let dvas = bp.into_iter().flat_map(BlkPtr::dvas);
    let copies: Vec<String> = dvas.map(|(_, dva)| dva.to_string()).collect();
    Error { place, copies: copies.join(", "), kind, faults: Vec::new() }
}
