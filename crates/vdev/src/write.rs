//! Writing blocks: one block becomes writes on several devices, and one answer.
//!
//! A block's geometry gives its columns; each column's child gives the devices that are to hold
//! it. All writes of a batch are handed to the device's queue at once, in the order of their
//! offsets, so that neighbours are joined there.
//!
//! ```text
//! block --locate--> columns --parity--> bytes of each --targets--> writes per device --> submit
//!                                                  Join <-- results --/
//! ```
//!
//! **A block is written when it can be read**, as long as no device fails besides those: a column
//! is lost when none of its devices took it, and the block when more columns of a stripe are lost
//! than it has parity. The txgs that a device missed are kept ([`VdevTree::missed`]), for the
//! caller to record: the redundancy that is gone has to be restored one day.
//!
//! On a RAID-Z that gets wider a column may be written to more than one place (`flow.rs`). The
//! stripe is protected at each of them, so each counts as a stripe of its own.
//!
//! **What a block cannot do without is written once more.** A request may fail for reasons that
//! have passed when it is made again: a bus that was reset, a path. So when too few devices
//! took a block, those that failed get their parts a second time, each in a request of its own. The
//! errors of the first time are counted, and only what fails twice was missed. A block that has
//! enough without a device is not written there again: a resilver brings it. OpenZFS retries in the
//! same place (a logical write that failed), and then allocates other space for the block; here
//! its pointer is in its parent by then, so the pool waits for the device instead, if it may.
//!
//! Nothing here waits for a device but [`VdevTree::flush`], [`VdevTree::write_durably`] and
//! [`VdevTree::write_here`].

use crate::error::ErrorKind;
use crate::flow::{EpochGuard, TreeUse};
use crate::health::Health;
use crate::locate::Piece;
use crate::map::{MapError, Stripe};
use crate::queue::{IoClass, LeafQueue};
use crate::tree::{Role, VdevTree};
use crate::txgs::Txgs;
use codec::raidz;
use device::{AlignedBuf, Error as DeviceError, Operation, Shared, Write, WriteDeviceRef};
use ondisk::Dva;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Called once when every device has answered; under the rules of [`device::WriteDone`].
pub type BlockDone = Box<dyn FnOnce(Result<(), WriteError>) + Send>;

/// One copy of a block to write.
pub struct BlockWrite {
    /// Where.
    pub dva: Dva,
    /// The bytes as stored, 1 byte to 16 MiB. Filled up with zeros to whole sectors here.
    pub data: Shared,
    /// The txg that writes it: its physical birth.
    pub birth: u64,
    /// The class of the request.
    pub class: IoClass,
    /// Receives the result.
    pub done: BlockDone,
}

/// The result of making blocks durable.
pub type Durable = Result<(), WriteError>;

/// Writes (offset, parts) through a queue while the caller waits; `None`: not now.
type LeafWrite = fn(&Arc<LeafQueue>, Vec<(u64, Vec<Shared>)>) -> Option<Result<(), DeviceError>>;

/// Blocks go to several devices, or have to wait in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManyDevices;

/// A block that could not be written, or a vdev that cannot be written to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("vdev {vdev}, offset {offset:#x}, {size} bytes: {kind}")]
pub struct WriteError {
    /// Number of the top-level vdev.
    pub vdev: u32,
    /// Offset of the block on it; 0 when the vdev as a whole is meant.
    pub offset: u64,
    /// Bytes of the block; 0 when the vdev as a whole is meant.
    pub size: u64,
    /// Why.
    pub kind: WriteErrorKind,
}

/// The ways in which writing a block can fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteErrorKind {
    /// No block can be there.
    #[error("{0}")]
    Place(#[from] ErrorKind),
    /// The only device the block goes to refused it.
    #[error(transparent)]
    Device(DeviceError),
    /// Fewer devices took the block than it needs to be read again.
    #[error("too few devices can be written{}", because(.0.as_ref()))]
    TooFewDevices(Option<DeviceError>),
}

impl WriteErrorKind {
    /// Devices refused it: the same block may be written when they are back.
    #[must_use]
    pub fn is_of_devices(&self) -> bool {
        matches!(self, Self::Device(_) | Self::TooFewDevices(_))
    }
}

fn because(error: Option<&DeviceError>) -> String {
    error.map_or_else(String::new, |e| format!(": {e}"))
}

/// The bytes of one column and where they go.
struct ColumnWrite {
    /// Number of its stripe.
    stripe: usize,
    offset: u64,
    parts: Vec<Shared>,
    /// Nodes of the devices.
    targets: Vec<usize>,
}

/// All of a block.
#[derive(Default)]
struct BlockWrites {
    columns: Vec<ColumnWrite>,
    /// Of each stripe, columns that may be lost.
    tolerated: Vec<usize>,
    /// Where its rows are stays true until all devices have answered.
    held: Vec<EpochGuard>,
}

/// Writes by node and class.
pub(crate) type Batches = BTreeMap<(usize, IoClass), Vec<Write>>;

/// Where the answers for one block meet.
struct Join {
    /// Device writes without an answer.
    left: AtomicUsize,
    columns: Box<[ColumnOut]>,
    stripes: Box<[StripeOut]>,
    /// It goes to one device only.
    is_single: bool,
    dva: Dva,
    size: u64,
    birth: u64,
    end: Mutex<End>,
    /// Kept alive until all devices have answered.
    _held: (TreeUse, Vec<EpochGuard>),
}

/// A column under way.
struct ColumnOut {
    stripe: usize,
    /// Devices that may still take it.
    hopes: AtomicUsize,
}

/// A stripe under way.
struct StripeOut {
    /// Columns that no device took.
    lost: AtomicUsize,
    tolerated: usize,
}

struct End {
    done: Option<BlockDone>,
    error: Option<DeviceError>,
    /// Parts that devices did not take, each with whether the failure may pass.
    refused: Vec<(Target, bool)>,
    /// What was refused was written once more.
    is_second: bool,
}

/// What one device is to hold of a column.
struct Target {
    column: usize,
    queue: Option<Arc<LeafQueue>>,
    class: IoClass,
    health: Arc<Health>,
    offset: u64,
    parts: Vec<Shared>,
}

impl Target {
    /// The write to the device.
    fn write(self, join: &Arc<Join>) -> Write {
        let (offset, parts) = (self.offset, self.parts.clone());
        let part = Part { join: Arc::clone(join), target: Some(self), answer: None };
        Write { offset, parts, done: Box::new(move |result| part.answer(result)) }
    }
}

/// The write of one column to one device. Counts as failed when a device drops it unanswered.
struct Part {
    join: Arc<Join>,
    target: Option<Target>,
    answer: Option<Result<(), DeviceError>>,
}

impl Part {
    fn answer(mut self, result: Result<(), DeviceError>) {
        self.answer = Some(result);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let join = &self.join;
        let answer = self.answer.take();
        if let (Some(target), false) = (self.target.take(), matches!(answer, Some(Ok(())))) {
            let column = target.column;
            let mut may_pass = false;
            if let Some(Err(e)) = &answer {
                target.health.write_failed(e);
                may_pass = matches!(e.kind, device::ErrorKind::Io { .. });
            }
            {
                let mut end = join.end.lock();
                end.refused.push((target, may_pass));
                if let Some(Err(e)) = answer {
                    end.error.get_or_insert(e);
                }
            }
            if let Some(column) = join.columns.get(column)
                && column.hopes.fetch_sub(1, Ordering::AcqRel) == 1
            {
                join.lose(column.stripe);
            }
        }
        if join.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            join.finish();
        }
    }
}

impl Join {
    fn new(
        outs: &mut BlockWrites,
        tree_use: &TreeUse,
        (dva, size, birth): (Dva, u64, u64),
        done: BlockDone,
    ) -> Self {
        let (held, BlockWrites { columns, tolerated, .. }) =
            (std::mem::take(&mut outs.held), &*outs);
        let stripe = |n: &usize| StripeOut { lost: AtomicUsize::new(0), tolerated: *n };
        let column =
            |c: &ColumnWrite| ColumnOut { stripe: c.stripe, hopes: c.targets.len().into() };
        let left = columns.iter().map(|c| c.targets.len()).sum::<usize>();
        let join = Self {
            left: AtomicUsize::new(left),
            columns: columns.iter().map(column).collect(),
            stripes: tolerated.iter().map(stripe).collect(),
            is_single: left == 1,
            dva,
            size,
            birth,
            end: Mutex::new(End {
                done: Some(done),
                error: None,
                refused: Vec::new(),
                is_second: false,
            }),
            _held: (tree_use.clone(), held),
        };
        columns.iter().filter(|c| c.targets.is_empty()).for_each(|c| join.lose(c.stripe));
        join
    }

    /// No device takes a column of this stripe.
    fn lose(&self, stripe: usize) {
        if let Some(stripe) = self.stripes.get(stripe) {
            stripe.lost.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Every stripe can be read again, as far as is known.
    fn survives(&self) -> bool {
        self.stripes.iter().all(|s| s.lost.load(Ordering::Acquire) <= s.tolerated)
    }

    fn finish(self: &Arc<Self>) {
        if !self.survives() && self.write_again() {
            return;
        }
        let refused = std::mem::take(&mut self.end.lock().refused);
        refused.iter().for_each(|(target, _)| target.health.miss(self.birth));
        if !self.survives() {
            return self.fail();
        }
        let done = self.end.lock().done.take();
        if let Some(done) = done {
            done(Ok(()));
        }
    }

    /// Writes what was refused once more, where that may help; false: it was, or it does not.
    fn write_again(self: &Arc<Self>) -> bool {
        let again = {
            let mut end = self.end.lock();
            if std::mem::replace(&mut end.is_second, true) {
                return false;
            }
            let all = std::mem::take(&mut end.refused);
            let (again, refused) = all.into_iter().partition::<Vec<_>, _>(|(_, may)| *may);
            end.refused = refused;
            if !again.is_empty() {
                end.error = None;
            }
            again
        };
        for (target, _) in &again {
            if let Some(column) = self.columns.get(target.column)
                && column.hopes.fetch_add(1, Ordering::AcqRel) == 0
                && let Some(stripe) = self.stripes.get(column.stripe)
            {
                stripe.lost.fetch_sub(1, Ordering::AcqRel);
            }
        }
        // All are counted before the first can be answered.
        self.left.store(again.len(), Ordering::Release);
        let is_any = !again.is_empty();
        for (target, _) in again {
            let (queue, class) = (target.queue.clone(), target.class);
            let write = target.write(self);
            if let Some(queue) = queue {
                queue.write_apart(class, write);
            }
        }
        is_any
    }

    fn fail(&self) {
        let (done, error) = {
            let mut end = self.end.lock();
            (end.done.take(), end.error.take())
        };
        let Some(done) = done else { return };
        let kind = match error {
            Some(e) if self.is_single => WriteErrorKind::Device(e),
            e => WriteErrorKind::TooFewDevices(e),
        };
        done(Err(failure(self.dva, self.size, kind)));
    }
}

fn failure(dva: Dva, size: u64, kind: WriteErrorKind) -> WriteError {
    WriteError { vdev: dva.vdev(), offset: dva.offset(), size, kind }
}

impl VdevTree {
    /// Writes blocks. Returns when all are with their devices; each `done` is called once, perhaps
    /// within this call: hold no lock that it takes. The order among the blocks is undefined, also
    /// where they overlap.
    pub fn write_batch(&self, blocks: Vec<BlockWrite>) {
        let mut batches: Batches = BTreeMap::new();
        for BlockWrite { dva, data, birth, class, done } in blocks {
            let size = data.len() as u64;
            match self.columns_to_write(dva, &data, birth) {
                Ok(mut outs) => {
                    let of = (dva, size, birth);
                    let join = Join::new(&mut outs, self.tree_use(), of, done);
                    self.queue(&Arc::new(join), outs.columns, class, &mut batches);
                }
                Err(kind) => done(Err(failure(dva, size, kind))),
            }
        }
        self.submit(batches);
    }

    /// Hands writes to the queues of their devices, in the order of their offsets. Those of a
    /// device that has none are dropped.
    pub(crate) fn submit(&self, batches: Batches) {
        for ((node, class), mut batch) in batches {
            if let Some(queue) = self.nodes.get(node).and_then(|n| n.queue.as_ref()) {
                batch.sort_by_key(|w| w.offset);
                queue.write_batch(class, batch);
            }
        }
    }

    /// Writes blocks, each of a txg, and makes them durable, if all of them go to one device whose
    /// queue is empty: on the calling thread where the device can do that, since a flush of a fast
    /// one takes no longer than it takes to wake two threads. Not for completions.
    ///
    /// # Errors
    /// That is not so, and nothing was done.
    pub fn write_durably(&self, blocks: &[(Dva, Shared, u64)]) -> Result<Durable, ManyDevices> {
        self.write_alone(blocks, |queue, writes| queue.write_durably(IoClass::SyncWrite, writes))
    }

    /// Writes blocks as [`Self::write_durably`] does, on the calling thread, without making them
    /// durable.
    ///
    /// # Errors
    /// Their device cannot do that, or is busy, or there are several; nothing was done.
    pub fn write_here(&self, blocks: &[(Dva, Shared, u64)]) -> Result<Durable, ManyDevices> {
        self.write_alone(blocks, |queue, writes| queue.write_here(IoClass::SyncWrite, writes))
    }

    fn write_alone(
        &self,
        blocks: &[(Dva, Shared, u64)],
        write: LeafWrite,
    ) -> Result<Durable, ManyDevices> {
        let [(first, ..), ..] = blocks else { return Err(ManyDevices) };
        let (vdev, index) = (first.vdev(), self.tops.get(&first.vdev()).map(|top| top.node));
        let (index, node) = index.and_then(|i| Some((i, self.nodes.get(i)?))).ok_or(ManyDevices)?;
        let queue = node.queue.as_ref().filter(|_| {
            let is_used = node.writer.is_some() && !node.health.is_out();
            is_used && matches!(node.role, Role::Leaf)
        });
        let queue = queue.ok_or(ManyDevices)?;
        let mut writes: Vec<(u64, Vec<Shared>)> = Vec::new();
        for (dva, data, birth) in blocks {
            if dva.vdev() != vdev {
                return Err(ManyDevices);
            }
            let outs = self.columns_to_write(*dva, data, *birth).map_err(|_| ManyDevices)?;
            writes.extend(outs.columns.into_iter().map(|out| (out.offset, out.parts)));
        }
        let mut done = write(queue, writes.clone()).ok_or(ManyDevices)?;
        if let Err(e) = &done
            && e.operation == Operation::Write
            && matches!(e.kind, device::ErrorKind::Io { .. })
        {
            node.health.write_failed(e);
            // Where others have come meanwhile, it goes the usual way.
            done = write(queue, writes).ok_or(ManyDevices)?;
        }
        Ok(match done {
            Ok(()) => self.survives(vdev),
            Err(e) if e.operation == Operation::Flush => {
                self.not_durable(index, e).and_then(|()| self.survives(vdev))
            }
            Err(e) => {
                blocks.iter().for_each(|(_, _, birth)| node.health.miss(*birth));
                node.health.write_failed(&e);
                let size = blocks.iter().map(|(_, data, _)| data.len() as u64).sum();
                Err(failure(*first, size, WriteErrorKind::Device(e)))
            }
        })
    }

    /// Adds the writes of one block to the batches of its devices.
    fn queue(
        &self,
        join: &Arc<Join>,
        columns: Vec<ColumnWrite>,
        class: IoClass,
        batches: &mut Batches,
    ) {
        if join.left.load(Ordering::Acquire) == 0 || !join.survives() {
            // Nothing can make it whole: leave the devices alone.
            return join.fail();
        }
        for (column, out) in columns.into_iter().enumerate() {
            for target in out.targets {
                let Some(node) = self.nodes.get(target) else { continue };
                let (queue, health) = (node.queue.clone(), Arc::clone(&node.health));
                let (offset, parts) = (out.offset, out.parts.clone());
                let part = Target { column, queue, class, health, offset, parts };
                batches.entry((target, class)).or_default().push(part.write(join));
            }
        }
    }

    /// The bytes of every column of a block, and where they go.
    fn columns_to_write(
        &self,
        dva: Dva,
        data: &Shared,
        birth: u64,
    ) -> Result<BlockWrites, WriteErrorKind> {
        let size = data.len() as u64;
        let top = self.tops.get(&dva.vdev()).ok_or(ErrorKind::NoSuchVdev)?;
        let sector = 1u64.checked_shl(top.ashift).unwrap_or(u64::MAX);
        if !dva.offset().is_multiple_of(sector) {
            return Err(ErrorKind::from(MapError::Misaligned(dva.offset())).into());
        }
        let whole = size.checked_next_multiple_of(sector).ok_or(MapError::Size(size));
        let whole = whole.map_err(ErrorKind::from)?;
        let mut outs = BlockWrites::default();
        for mut piece in self.locate_to_write(dva.vdev(), dva.offset(), whole, birth)? {
            for stripe in &piece.map.stripes {
                self.stripe_to_write(&piece, stripe, data, birth, &mut outs);
            }
            outs.held.extend(piece.epoch_guard.take());
        }
        Ok(outs)
    }

    fn stripe_to_write(
        &self,
        piece: &Piece<'_>,
        stripe: &Stripe,
        data: &Shared,
        birth: u64,
        outs: &mut BlockWrites,
    ) {
        let n = stripe.nparity;
        let bytes: Vec<Shared> =
            stripe.columns.iter().skip(n).map(|c| window(data, piece.at + c.at, c.size)).collect();
        let height = stripe.height() as usize;
        let mut parity: Vec<AlignedBuf> = (0..n).map(|_| AlignedBuf::zeroed(height)).collect();
        if n > 0 {
            let mut columns: Vec<&mut [u8]> = parity.iter_mut().map(|p| &mut p[..]).collect();
            let data: Vec<&[u8]> = bytes.iter().map(|b| &b[..]).collect();
            // The geometry gives columns no longer than parity, at most three and 255 of them.
            if raidz::generate(&mut columns, &data).is_err() {
                debug_assert!(false, "a shape of columns that has no parity");
            }
        }
        let first = outs.tolerated.len();
        let places = stripe.columns.iter().map(|c| c.also.len() + 1).max().unwrap_or(1);
        outs.tolerated.resize(first + places, n);
        let all = parity.into_iter().map(Shared::from).chain(bytes);
        // The padding of a dRAID's stripe is part of the data that parity was computed from.
        for (column, bytes) in stripe.columns.iter().zip(all).filter(|(c, _)| c.size + c.pad > 0) {
            let missing = (column.size + column.pad) as usize - bytes.len();
            let mut parts = vec![bytes];
            if missing > 0 {
                parts.push(Shared::from(AlignedBuf::zeroed(missing)));
            }
            parts.retain(|p| !p.is_empty());
            let len = column.size + column.pad;
            let targets = |place| self.targets(piece, place, len, birth);
            for (stripe, other) in (first + 1..).zip(&column.also) {
                let (parts, targets) = (parts.clone(), targets((other.child, other.offset)));
                outs.columns.push(ColumnWrite { stripe, offset: other.offset, parts, targets });
            }
            let (offset, targets) = (column.offset, targets((column.child, column.offset)));
            outs.columns.push(ColumnWrite { stripe: first, offset, parts, targets });
        }
    }

    /// The devices that are to hold a column; those that cannot be written to miss it.
    fn targets(
        &self,
        piece: &Piece<'_>,
        (child, offset): (usize, u64),
        len: u64,
        birth: u64,
    ) -> Vec<usize> {
        let top = self.tops.get(&piece.vdev).map(|t| t.node);
        let start = match piece.node.role {
            Role::Raidz(_) | Role::Draid(_) => piece.node.children.get(child).copied(),
            _ => top,
        };
        let mut out = Vec::with_capacity(1);
        if let Some(start) = start {
            self.leaves_at(start, (offset, len), &mut |index| {
                let Some(node) = self.nodes.get(index) else { return };
                if node.writer.is_some() && !node.health.is_out() {
                    out.push(index);
                } else {
                    node.health.miss(birth);
                }
            });
        }
        out
    }

    /// Makes everything durable whose `done` was called before this call, on all devices at the
    /// same time, and waits for it. A device that fails is not written to any more.
    ///
    /// # Errors
    /// When a vdev has lost more devices than its redundancy covers.
    pub fn flush(&self) -> Result<(), WriteError> {
        self.on_all_writers(&|_, device| device.flush())
    }

    /// Makes sure that nothing that is written from now on becomes durable without everything whose
    /// `done` was called before: by a flush, unless there is one device only, which sees to it.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub fn order_writes(&self) -> Result<(), WriteError> {
        let used = self.nodes.iter().filter(|node| !node.health.is_out());
        let mut writers = used.filter_map(|node| node.writer.as_ref());
        match (writers.next(), writers.next()) {
            (Some(only), None) if only.keeps_order() => Ok(()),
            _ => self.flush(),
        }
    }

    /// [`Self::flush`] of these top-level vdevs alone.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub fn flush_tops(&self, tops: &BTreeSet<u32>) -> Result<(), WriteError> {
        let mut leaves = BTreeSet::new();
        for top in tops.iter().filter_map(|top| self.tops.get(top)) {
            self.leaves_below(top.node, &mut |index| {
                leaves.insert(index);
            });
        }
        // A device that no other can stand in for is waited for on this thread, where it allows it.
        let is_alone = leaves.len() == 1;
        self.on_writers(&|index| leaves.contains(&index), &|_, device| match is_alone {
            true => device.write_durably(Vec::new()),
            false => device.flush(),
        })?;
        tops.iter().try_for_each(|top| self.survives(*top))
    }

    /// Does `work` on all devices that are written to, at the same time; gives up what fails. One
    /// that has what no other has is not given up: without it there is no state to commit.
    pub(crate) fn on_all_writers(
        &self,
        work: &(dyn Fn(usize, &WriteDeviceRef) -> Result<(), DeviceError> + Sync),
    ) -> Result<(), WriteError> {
        self.on_writers(&|_| true, work)?;
        let mut needed = self.tops.iter().filter(|(_, top)| !self.is_log(top));
        needed.try_for_each(|(vdev, _)| self.survives(*vdev))
    }

    /// The same on those of them that are `wanted`, by their nodes.
    fn on_writers(
        &self,
        wanted: &dyn Fn(usize) -> bool,
        work: &(dyn Fn(usize, &WriteDeviceRef) -> Result<(), DeviceError> + Sync),
    ) -> Result<(), WriteError> {
        let nodes = self.nodes.iter().enumerate().filter(|(index, _)| wanted(*index));
        let writers: Vec<_> = nodes
            .filter(|(_, n)| !n.health.is_out())
            .filter_map(|(i, n)| Some((i, n.writer.as_ref()?)))
            .collect();
        let failed = Mutex::new(BTreeMap::new());
        let run = |(index, device): (usize, &WriteDeviceRef)| {
            if let Err(e) = work(index, device) {
                failed.lock().insert(index, e);
            }
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = self.rt().for_each_parallel(writers.len(), writers, run);
        failed.into_inner().into_iter().try_for_each(|(index, e)| self.not_durable(index, e))
    }

    /// The contents of a device are not to be relied on any more: it is given up, if possible.
    fn not_durable(&self, index: usize, e: DeviceError) -> Result<(), WriteError> {
        let Some(health) = self.nodes.get(index).map(|n| &n.health) else { return Ok(()) };
        if self.can_lose(index) {
            health.give_up(&e);
            return Ok(());
        }
        health.write_failed(&e);
        let vdev = self.top_of(index);
        let kind = WriteErrorKind::TooFewDevices(Some(e));
        Err(WriteError { vdev, offset: 0, size: 0, kind })
    }

    /// Number of the top-level vdev that a leaf is below.
    fn top_of(&self, leaf: usize) -> u32 {
        let mut tops = self.tops.iter();
        tops.find(|(_, top)| self.is_below(top.node, leaf)).map_or(0, |(vdev, _)| *vdev)
    }

    /// A vdev that could be written to when the tree was built still can.
    fn survives(&self, vdev: u32) -> Result<(), WriteError> {
        let Some(node) = self.tops.get(&vdev).map(|t| t.node) else { return Ok(()) };
        let (mut writable, mut error) = (false, None);
        self.leaves_below(node, &mut |i| {
            let Some(node) = self.nodes.get(i) else { return };
            writable |= node.writer.is_some();
            error = error.take().or_else(|| node.health.error());
        });
        if !writable || self.can_write(node) {
            return Ok(());
        }
        let kind = WriteErrorKind::TooFewDevices(error);
        Err(WriteError { vdev, offset: 0, size: 0, kind })
    }

    /// Notes for every leaf that is not written to, or cannot be trusted to have kept what was
    /// written since the last flush, that it missed `txg`.
    pub fn absent_miss(&self, txg: u64) {
        let leaves = self.nodes.iter().filter(|n| matches!(n.role, Role::Leaf));
        for leaf in leaves.filter(|n| n.writer.is_none() || n.health.is_out()) {
            leaf.health.miss(txg);
        }
    }

    /// For every device that blocks did not reach: its guid, and the txgs of these blocks. Its
    /// dirty time log has to have them.
    #[must_use]
    pub fn missed(&self) -> Vec<(u64, Txgs)> {
        let behind = self.nodes.iter().filter(|n| n.health.has_missed_any());
        behind.map(|n| (n.guid, n.health.missed())).collect()
    }
}

/// The part of a block's bytes in a column; shorter than `len` where the block ends.
fn window(data: &Shared, at: u64, len: u64) -> Shared {
    let end = (at.saturating_add(len)).min(data.len() as u64) as usize;
    data.slice((at as usize).min(end)..end)
}
