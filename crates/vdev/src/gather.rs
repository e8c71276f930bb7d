//! Reading many extents of many devices at once.
//!
//! All extents are known before the first is read. Those that lie close together on one device
//! become one read, every device gets all its reads in one submission, and the caller takes the
//! results in the order it wants, waiting only for what is not there yet: while it verifies one
//! block the devices work on the next.
//!
//! ```text
//! extents  --sort, merge-->  reads  --one submit per device-->  completions
//!                                                  windows of the buffers --> slots --> take()
//! ```
//!
//! A merged read that fails says nothing about the extents in it, so each is read again alone when
//! it is taken. The lock around the slots is held only to store or take a result, never over I/O.

use crate::queue::{IoClass, LeafQueue, Pace};
use device::{AlignedBuf, Done, Error, ErrorKind, Read};
use parking_lot::{Mutex, MutexGuard};
use rt::{Condvar, Rt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Extents with at most this many bytes between them are read together: on every kind of device
/// reading 32 KiB too much costs less than a second request. (`zfs_vdev_read_gap_limit`.)
const GAP_MAX: u64 = 32 << 10;
/// Extents from this size on are read alone: they cost the device one seek in many milliseconds of
/// transfer, and their buffer becomes the block without a copy.
const ALONE_MIN: u64 = 128 << 10;
/// Longest read made from several extents. Longer ones would keep a device busy with one request
/// while others idle.
const MERGED_MAX: u64 = 512 << 10;
/// The same for a caller that reads all of a device and waits for no block in particular. Devices
/// reach their best rate only with requests of a megabyte and more.
const BULK_MAX: u64 = 4 << 20;

/// Bytes to read from one device.
#[derive(Clone, Debug)]
struct Extent {
    /// Which device: index of its node.
    node: usize,
    offset: u64,
    len: u64,
}

/// Extents being collected.
pub(crate) struct Gather {
    rt: Rt,
    class: IoClass,
    extents: Vec<Extent>,
    queues: BTreeMap<usize, Arc<LeafQueue>>,
    bulk: bool,
}

/// State of one extent.
enum Slot {
    Waiting,
    /// The same; it was noted that it takes unusually long.
    Overdue,
    Ready(AlignedBuf),
    /// A window of a merged read.
    Window(AlignedBuf),
    Failed(Error),
    /// A merged read failed: read this one alone.
    Again,
    /// It was waited for too long.
    GivenUp,
    Taken,
}

impl Slot {
    /// How many times its leaf was told that it is late.
    fn noted(&self) -> u32 {
        u32::from(matches!(self, Self::Overdue | Self::GivenUp))
    }
}

/// Where completions and the taker meet.
struct Shared {
    slots: Mutex<Vec<Slot>>,
    arrived: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock()
    }
}

/// Extents under way.
pub(crate) struct Pending {
    rt: Rt,
    class: IoClass,
    began: Duration,
    extents: Vec<Extent>,
    queues: BTreeMap<usize, Arc<LeafQueue>>,
    shared: Arc<Shared>,
    /// How long reads take is noted: a thread waits for them, in a pool that is held.
    is_timed: bool,
}

/// Why there is nothing to take.
pub(crate) enum ReadFailure {
    Failed,
    /// The device takes unusually long; the read is left to itself.
    Late,
}

impl Gather {
    /// For blocks that a caller wants.
    pub(crate) fn new(rt: &Rt, class: IoClass) -> Self {
        Self { rt: rt.clone(), class, extents: Vec::new(), queues: BTreeMap::new(), bulk: false }
    }

    /// For reading everything: neighbours become one read however large they are, up to
    /// [`BULK_MAX`]. Their windows keep each other in memory until the last one is used up.
    pub(crate) fn bulk(rt: &Rt, class: IoClass) -> Self {
        Self { bulk: true, ..Self::new(rt, class) }
    }

    /// Adds an extent; returns the number to take it by.
    pub(crate) fn add(
        &mut self,
        node: usize,
        queue: &Arc<LeafQueue>,
        offset: u64,
        len: u64,
    ) -> usize {
        self.queues.entry(node).or_insert_with(|| Arc::clone(queue));
        self.extents.push(Extent { node, offset, len });
        self.extents.len() - 1
    }

    /// Submits everything.
    pub(crate) fn start(self) -> Pending {
        let began = self.rt.now();
        let only = self.read_alone();
        let is_done = only.is_some();
        let slots = only.map_or_else(
            || self.extents.iter().map(|_| Slot::Waiting).collect(),
            |only| vec![only],
        );
        let shared = Arc::new(Shared { slots: Mutex::new(slots), arrived: self.rt.condvar() });
        if is_done {
            let Self { rt, class, extents, queues, .. } = self;
            return Pending { rt, class, began, extents, queues, shared, is_timed: false };
        }
        let mut batches: BTreeMap<usize, Vec<Merged>> = BTreeMap::new();
        let merging = self.queues.values().next().map(|q| q.read_merging());
        for merged in merge(&self.extents, Join::new(self.bulk, merging)) {
            batches.entry(merged.node).or_default().push(merged);
        }
        let is_held = self.queues.values().any(|queue| queue.pace.patience().is_some());
        let is_timed = self.class == IoClass::SyncRead && is_held;
        let last = batches.pop_last();
        for (node, batch) in batches {
            self.submit(node, batch, &shared, is_timed);
        }
        if let Some((node, mut batch)) = last {
            // The caller is about to wait, so it may as well do the last read itself: following
            // pointers, one block at a time, then never hands work to another thread.
            let own = match (&batch[..], self.queues.get(&node)) {
                ([m], Some(queue)) => queue.read_here(self.class, m.offset, m.len as usize),
                _ => None,
            };
            match own {
                Some(result) => {
                    let parts = batch.pop().map(|m| m.parts).unwrap_or_default();
                    ReadCompletion { shared: Arc::clone(&shared), parts, pace: None }
                        .finish(result);
                }
                None => self.submit(node, batch, &shared, is_timed),
            }
        }
        let Self { rt, class, extents, queues, .. } = self;
        Pending { rt, class, began, extents, queues, shared, is_timed }
    }

    /// Reads on the calling thread what is one extent only, if the device allows that: there is
    /// nothing to sort and to merge then, and readers of single blocks come here for each.
    fn read_alone(&self) -> Option<Slot> {
        let [Extent { node, offset, len }] = self.extents[..] else { return None };
        let read = self.queues.get(&node)?.read_here(self.class, offset, len as usize)?;
        Some(match read {
            Ok(buf) if buf.len() as u64 == len => Slot::Ready(buf),
            Ok(_) => Slot::Again,
            Err(e) => Slot::Failed(e),
        })
    }

    fn submit(&self, node: usize, batch: Vec<Merged>, shared: &Arc<Shared>, is_timed: bool) {
        let Some(queue) = self.queues.get(&node) else { return };
        let pace = is_timed.then(|| (Arc::clone(&queue.pace), self.rt.clone(), self.rt.now()));
        let read = |m: Merged| {
            pace.iter().for_each(|(pace, _, began)| pace.begins(*began));
            let deliver =
                ReadCompletion { shared: Arc::clone(shared), parts: m.parts, pace: pace.clone() };
            let done: Done = Box::new(move |result| deliver.finish(result));
            Read { offset: m.offset, len: m.len as usize, done }
        };
        queue.read_batch(self.class, batch.into_iter().map(read).collect());
    }
}

impl Pending {
    /// Waits for extent `index` and takes it; each can be taken once. Its memory may be part of a
    /// larger read: to be used up soon.
    pub(crate) fn take(&self, index: usize) -> Result<AlignedBuf, Error> {
        match self.wait(index) {
            Slot::Ready(buf) | Slot::Window(buf) => Ok(buf),
            Slot::Failed(e) => Err(e),
            _ => self.read_alone(index),
        }
    }

    /// The same in memory of its own, to be kept: a cache must not hold on to half a megabyte for
    /// the sake of one small block.
    pub(crate) fn take_owned(&self, index: usize) -> Result<AlignedBuf, Error> {
        match self.wait(index) {
            Slot::Ready(buf) => Ok(buf),
            Slot::Window(window) => Ok(AlignedBuf::copy_of(&window)),
            Slot::Failed(e) => Err(e),
            _ => self.read_alone(index),
        }
    }

    /// [`Self::take_owned`], or [`Self::take`], for a caller that can do without: it does not wait
    /// for a device that takes unusually long, as far as extra reads are allowed.
    pub(crate) fn take_in_time(
        &self,
        index: usize,
        owned: bool,
    ) -> Result<AlignedBuf, ReadFailure> {
        if self.is_late(index) {
            return Err(ReadFailure::Late);
        }
        let taken = if owned { self.take_owned(index) } else { self.take(index) };
        taken.map_err(|_| ReadFailure::Failed)
    }

    /// Waits for extents as long as they usually take, and no longer for those of devices that
    /// readers avoid than for the others. Those that are not there; they can still be taken.
    pub(crate) fn not_in_time(&self, extents: &[usize]) -> BTreeSet<usize> {
        let rests = |index: &&usize| self.queue_of(**index).is_some_and(|q| q.pace.rests());
        let (resting, others): (Vec<_>, Vec<_>) = extents.iter().partition(rests);
        let is_missing = |index: &usize| !self.is_there(*index, true);
        let mut out: BTreeSet<usize> = others.into_iter().copied().filter(is_missing).collect();
        out.extend(resting.into_iter().filter(|index| !self.is_there(**index, false)));
        out
    }

    fn queue_of(&self, index: usize) -> Option<&LeafQueue> {
        self.queues.get(&self.extents.get(index)?.node).map(Arc::as_ref)
    }

    /// Extent `index` can be taken without waiting, after a wait of the usual length if `waits`; or
    /// what is usual is not known, and it has to be waited for.
    fn is_there(&self, index: usize, waits: bool) -> bool {
        let Some(queue) = self.queue_of(index) else { return true };
        let Some(patience) = queue.pace.patience().filter(|_| self.is_timed) else { return true };
        let until = self.began + if waits { patience } else { Duration::ZERO };
        let mut slots = self.shared.lock();
        while matches!(slots.get(index), Some(Slot::Waiting)) && self.rt.now() < until {
            self.shared.arrived.wait_until(&mut slots, until);
        }
        if let Some(slot @ Slot::Waiting) = slots.get_mut(index) {
            // It was read with the others: nothing is read elsewhere for it.
            queue.pace.overstays(self.began);
            *slot = Slot::Overdue;
        }
        !matches!(slots.get(index), Some(Slot::Overdue))
    }

    /// The device that extent `index` is on.
    pub(crate) fn node_of(&self, index: usize) -> Option<usize> {
        self.extents.get(index).map(|extent| extent.node)
    }

    /// Waits for extent `index` as long as it usually takes; whether it is not there and given up.
    fn is_late(&self, index: usize) -> bool {
        let Some(extent) = self.extents.get(index) else { return false };
        let Some(queue) = self.queues.get(&extent.node) else { return false };
        let Some(patience) = queue.pace.patience().filter(|_| self.is_timed) else { return false };
        let until = self.began + patience;
        let mut slots = self.shared.lock();
        while matches!(slots.get(index), Some(Slot::Waiting)) && self.rt.now() < until {
            self.shared.arrived.wait_until(&mut slots, until);
        }
        match slots.get_mut(index) {
            Some(slot @ Slot::Waiting) => {
                let may = queue.pace.is_late(self.began);
                *slot = if may { Slot::GivenUp } else { Slot::Overdue };
                may
            }
            _ => false,
        }
    }

    fn wait(&self, index: usize) -> Slot {
        let mut slots = self.shared.lock();
        loop {
            match slots.get_mut(index) {
                Some(Slot::Waiting | Slot::Overdue) => {}
                // It is told of when it comes back.
                Some(Slot::GivenUp) => return Slot::Taken,
                Some(slot) => return std::mem::replace(slot, Slot::Taken),
                None => return Slot::Taken,
            }
            self.shared.arrived.wait(&mut slots);
        }
    }

    fn read_alone(&self, index: usize) -> Result<AlignedBuf, Error> {
        let gone = || Error::read(ErrorKind::Gone, &Arc::from("unknown"), 0, 0);
        let extent = self.extents.get(index).ok_or_else(gone)?;
        let queue = self.queues.get(&extent.node).ok_or_else(gone)?;
        let (offset, len) = (extent.offset, extent.len as usize);
        // Something failed before; it is not worth waiting in the queue.
        let here = queue.read_here(self.class, offset, len);
        here.unwrap_or_else(|| device::read_one(&**queue.device(), offset, len))
    }
}

/// Part of a merged read that one extent asked for.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    slot: usize,
    start: u64,
    len: u64,
}

/// One read for one or more extents.
#[derive(Debug, PartialEq, Eq)]
struct Merged {
    node: usize,
    offset: u64,
    len: u64,
    /// Ascending, not overlapping.
    parts: Vec<Part>,
}

/// Parameters of joining requests.
#[derive(Clone, Copy)]
struct Join {
    bulk: bool,
    gap_max: u64,
    merged_max: u64,
}

impl Join {
    /// `limits` are those of the queue: bytes between, and bytes of the whole.
    fn new(bulk: bool, limits: Option<(u64, u64)>) -> Self {
        let (gap_max, all) = limits.unwrap_or((GAP_MAX, MERGED_MAX));
        Self { bulk, gap_max, merged_max: if bulk { BULK_MAX } else { all.min(MERGED_MAX) } }
    }
}

/// Sorts and merges. Extents that overlap stay apart: a byte of a buffer has one owner.
fn merge(extents: &[Extent], join: Join) -> Vec<Merged> {
    let mut order: Vec<usize> = (0..extents.len()).collect();
    order.sort_by_key(|i| extents.get(*i).map(|e| (e.node, e.offset)));
    let mut out: Vec<Merged> = Vec::new();
    for slot in order {
        let Some(e) = extents.get(slot) else { continue };
        if let Some(last) = out.last_mut()
            && let Some(len) = joined(last, e, join)
        {
            last.parts.push(Part { slot, start: e.offset - last.offset, len: e.len });
            last.len = len;
            continue;
        }
        let parts = vec![Part { slot, start: 0, len: e.len }];
        out.push(Merged { node: e.node, offset: e.offset, len: e.len, parts });
    }
    out
}

/// Length of `last` with `e` joined to its end, when they belong together.
fn joined(last: &Merged, e: &Extent, join: Join) -> Option<u64> {
    let start = e.offset.checked_sub(last.offset)?;
    let gap = start.checked_sub(last.len)?;
    let len = start.checked_add(e.len)?;
    let large = e.len >= ALONE_MIN || (last.parts.len() == 1 && last.len >= ALONE_MIN);
    let fits = len <= join.merged_max && (join.bulk || !large);
    (fits && last.node == e.node && gap <= join.gap_max).then_some(len)
}

/// Stores the result of one read in its extents' slots. When it is dropped unused, by a device
/// that forgot it, the extents are read again one by one instead of being waited for forever.
struct ReadCompletion {
    shared: Arc<Shared>,
    parts: Vec<Part>,
    /// Where it is noted how long it took, and when it began.
    pace: Option<(Arc<Pace>, Rt, Duration)>,
}

impl ReadCompletion {
    fn finish(mut self, result: Result<AlignedBuf, Error>) {
        let parts = std::mem::take(&mut self.parts);
        let single = parts.len() == 1;
        let (mut rest, mut failure) = match result {
            Ok(buf) => (Some(buf), None),
            Err(e) => (None, Some(e)),
        };
        let is_good = failure.is_none();
        let mut noted = 0;
        let mut slots = self.shared.lock();
        // From the end, so that each window is cut from the tail of what remains.
        for part in parts.into_iter().rev() {
            let window = rest.as_mut().and_then(|b| cut(b, &part));
            let slot = match (window, failure.take().filter(|_| single)) {
                (Some(w), _) if single => Slot::Ready(w),
                (Some(w), _) => Slot::Window(w),
                (None, Some(e)) => Slot::Failed(e),
                (None, None) => Slot::Again,
            };
            if let Some(s) = slots.get_mut(part.slot) {
                noted += s.noted();
                *s = if matches!(s, Slot::GivenUp) { Slot::Taken } else { slot };
            }
        }
        drop(slots);
        self.shared.arrived.notify_all();
        match self.pace.take() {
            Some((pace, rt, began)) if is_good => {
                pace.answered(began, rt.now().saturating_sub(began), noted);
            }
            Some((pace, _, began)) => pace.came_back(began, noted),
            None => {}
        }
    }
}

/// Cuts the part and everything behind it off `buf`; `None` when the buffer is too short.
fn cut(buf: &mut AlignedBuf, part: &Part) -> Option<AlignedBuf> {
    let start = usize::try_from(part.start).ok()?;
    let len = usize::try_from(part.len).ok()?;
    if start.checked_add(len)? > buf.len() {
        return None;
    }
    if start == 0 && len == buf.len() {
        return Some(std::mem::take(buf));
    }
    let mut window = buf.split_off(start);
    window.truncate(len);
    Some(window)
}

impl Drop for ReadCompletion {
    fn drop(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        let mut noted = 0;
        let mut slots = self.shared.lock();
        for part in &self.parts {
            if let Some(s) = slots.get_mut(part.slot) {
                noted += s.noted();
                *s = Slot::Again;
            }
        }
        drop(slots);
        self.shared.arrived.notify_all();
        if let Some((pace, _, began)) = &self.pace {
            pace.came_back(*began, noted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::QueueLimits;
    use device::{Device, DeviceRef, MemoryDevice};

    const BLOCKS: Join = Join { bulk: false, gap_max: GAP_MAX, merged_max: MERGED_MAX };
    const BULK: Join = Join { bulk: true, gap_max: GAP_MAX, merged_max: BULK_MAX };

    fn extent(node: usize, offset: u64, len: u64) -> Extent {
        Extent { node, offset, len }
    }

    #[test]
    fn neighbours_merge_and_strangers_do_not() {
        let near = GAP_MAX;
        let near_and_far = [
            extent(1, 1000, 24),
            extent(0, 0, 512),
            extent(0, 512, 512),
            extent(0, 1024 + near, 512),
            extent(0, 1024 + near + 512 + near + 1, 512),
            extent(0, 0, 512),
        ];
        let m = merge(&near_and_far, BLOCKS);
        let shapes: Vec<_> = m.iter().map(|m| (m.node, m.offset, m.len, m.parts.len())).collect();
        let end = 1024 + near + 512;
        assert_eq!(
            shapes,
            [(0, 0, 512, 1), (0, 0, end, 3), (0, end + near + 1, 512, 1), (1, 1000, 24, 1)]
        );
        let big: Vec<_> = (0..40).map(|i| extent(0, i * 65536, 65536)).collect();
        let merged = merge(&big, BLOCKS);
        assert!(merged.iter().all(|m| m.len <= MERGED_MAX) && merged.len() == 5);
        let large = [extent(0, 0, ALONE_MIN), extent(0, ALONE_MIN, 512), extent(0, 1 << 19, 512)];
        assert_eq!(merge(&large, BLOCKS).len(), 3);
        assert_eq!(merge(&large, BULK).len(), 2);
        let records: Vec<_> = (0..40).map(|i| extent(0, i << 17, 1 << 17)).collect();
        let lens: Vec<_> = merge(&records, BULK).iter().map(|m| m.len).collect();
        assert_eq!(lens, [BULK_MAX, 1 << 20]);
    }

    /// Fails every read that touches byte 5000, and forgets those at 0.
    struct Bad(MemoryDevice);

    impl Device for Bad {
        fn name(&self) -> &str {
            "bad"
        }
        fn size(&self) -> u64 {
            self.0.size()
        }
        fn sector_size(&self) -> u32 {
            512
        }
        fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
            if (offset..offset + buf.len() as u64).contains(&5000) {
                let kind = ErrorKind::Io { errno: 5 };
                return Err(Error::read(kind, &Arc::from("bad"), offset, buf.len()));
            }
            self.0.read(offset, buf)
        }
        fn submit(&self, batch: Vec<Read>) {
            for r in batch.into_iter().filter(|r| r.offset != 0) {
                let mut buf = AlignedBuf::zeroed(r.len);
                (r.done)(self.read(r.offset, &mut buf).map(|()| buf));
            }
        }
    }

    #[test]
    fn one_bad_sector_fails_only_its_own_extent() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        let device: DeviceRef = Arc::new(Bad(MemoryDevice::from_bytes("m", &bytes)));
        let limits = Arc::new(QueueLimits::unbounded());
        let queue = LeafQueue::new(&Rt::real(), device, None, limits);
        let mut g = Gather::new(&Rt::current(), IoClass::SyncRead);
        let wanted = [(4096, 512), (4608, 512), (6000, 300), (90_000, 10), (99_990, 20), (0, 9)];
        for (offset, len) in wanted {
            g.add(7, &queue, offset, len);
        }
        let pending = g.start();
        for (i, (offset, len)) in wanted.into_iter().enumerate().rev() {
            let range = offset as usize..(offset + len) as usize;
            let taken = if i % 2 == 0 { pending.take(i) } else { pending.take_owned(i) };
            match taken {
                Ok(b) => assert_eq!(&b[..], &bytes[range]),
                Err(e) if offset == 4608 => assert_eq!(e.kind, ErrorKind::Io { errno: 5 }),
                Err(e) => assert_eq!((offset, e.offset), (99_990, 99_990), "{e}"),
            }
        }
    }
}
