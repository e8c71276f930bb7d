//! The steps in which the sectors of a RAID-Z vdev that gets wider are moved. The theory is at the
//! head of `flow.rs`.

use crate::awaited::Awaited;
use crate::flow::{Area, Flow, Reflow, ReflowStep, joined, reach};
use crate::gather::Gather;
use crate::health::Health;
use crate::map::BOOT_SIZE;
use crate::queue::IoClass;
use crate::tree::{Node, Role, VdevTree};
use crate::write::Batches;
use core::ops::Range;
use device::{AlignedBuf, Shared, Write};
use std::sync::Arc;

/// Bytes that are read at the same time.
const BATCH: u64 = 16 << 20;
/// Free space between what is copied is copied as well up to this length: two requests cost more.
const SPAN: u64 = 32 << 10;

/// Why a step was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReflowError {
    /// The vdev is not one whose rows move.
    #[error("the vdev is not being expanded")]
    NotExpanding,
    /// A child is not a single device that is written to and has missed nothing.
    #[error("a device of the vdev is not in use, or lacks data that was written")]
    NotWhole,
    /// Requests that began before take too long.
    #[error("requests to the vdev take long")]
    Busy,
    /// A device failed.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// The allocated ranges cannot be read.
    #[error("cannot read {0}")]
    Space(String),
}

/// What keeps the rows of a vdev from being moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReflowObstacle {
    /// Below this vdev a spare stands in for a device, or one takes the place of another.
    #[error("{0} is to be one device first")]
    TwoDevices(String),
    /// This device is not written to.
    #[error("{0} is not in use")]
    Away(String),
    /// This device lacks something.
    #[error("{0} lacks data that was written")]
    Behind(String),
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reflowed {
    /// Copied; nothing of it counts before [`VdevTree::commit_reflow`]. Bytes that were allocated.
    Copied(u64),
    /// There was nothing left.
    All,
}

/// Bytes that are allocated in a range, in order: all of them as far as the second value.
pub type AllocatedIn<'a> = dyn FnMut(Range<u64>) -> Result<(Vec<Range<u64>>, u64), String> + 'a;

/// The vdev and the shape of its move.
#[derive(Clone, Copy)]
struct ReflowContext<'t> {
    flow: &'t Flow,
    node: &'t Node,
    /// Children behind it.
    width: u64,
    ashift: u32,
}

impl ReflowContext<'_> {
    /// How far a step may go: no sector is written over whose row is read there.
    fn limit(&self, step: ReflowStep, reflow: Reflow, end: u64) -> u64 {
        match step {
            ReflowStep::Fill => {
                (BOOT_SIZE >> self.ashift << self.ashift).saturating_mul(self.width)
            }
            ReflowStep::Settle => reflow.offset,
            ReflowStep::Move => {
                let sector = reach(reflow.offset >> self.ashift, self.width - 1);
                sector.checked_shl(self.ashift).unwrap_or(u64::MAX).min(end)
            }
        }
    }
}

/// A write under way. One that is dropped unanswered has failed.
struct Part {
    writing: Arc<Awaited<device::Error>>,
    health: Arc<Health>,
    answer: Result<(), device::Error>,
}

impl Part {
    fn answer(mut self, answer: Result<(), device::Error>) {
        self.answer = answer;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Err(e) = &self.answer {
            self.health.write_failed(e);
        }
        self.writing.end(self.answer.clone().err());
    }
}

impl VdevTree {
    fn cx(&self, vdev: u32) -> Result<ReflowContext<'_>, ReflowError> {
        let top = self.tops.get(&vdev).ok_or(ReflowError::NotExpanding)?;
        let node = self.nodes.get(top.node).ok_or(ReflowError::NotExpanding)?;
        let Role::Raidz(raidz) = &node.role else { return Err(ReflowError::NotExpanding) };
        let flow = raidz.flow().ok_or(ReflowError::NotExpanding)?;
        Ok(ReflowContext { flow, node, width: node.children.len() as u64, ashift: top.ashift })
    }

    /// How far the expansion of a vdev has come that is under way there.
    #[must_use]
    pub fn reflow(&self, vdev: u32) -> Option<Reflow> {
        self.cx(vdev).ok().map(|cx| cx.flow.reflow())
    }

    /// Whether the rows of a vdev can be moved: every child is a device that is written to, and
    /// has missed nothing.
    #[must_use]
    pub fn can_reflow(&self, vdev: u32) -> bool {
        self.cx(vdev).is_ok() && self.reflow_obstacle(vdev).is_none()
    }

    /// Why the rows of a vdev cannot be moved that is being expanded.
    #[must_use]
    pub fn reflow_obstacle(&self, vdev: u32) -> Option<ReflowObstacle> {
        let cx = self.cx(vdev).ok()?;
        let obstacle = |n: &Node| {
            let name = || n.name.to_string();
            let is_used = n.writer.is_some() && n.queue.is_some() && !n.health.is_out();
            if !matches!(n.role, Role::Leaf) {
                Some(ReflowObstacle::TwoDevices(name()))
            } else if !is_used {
                Some(ReflowObstacle::Away(name()))
            } else if n.is_behind() || n.health.has_missed_any() {
                Some(ReflowObstacle::Behind(name()))
            } else {
                None
            }
        };
        cx.node.children.iter().filter_map(|child| self.nodes.get(*child)).find_map(obstacle)
    }

    /// Does the next step of the expansion of a vdev whose blocks end before the byte `end`. Must
    /// not be called from a device's completion, and not by two threads.
    ///
    /// # Errors
    /// The step was not done; nothing has changed for readers.
    pub fn reflow_step(
        &self,
        vdev: u32,
        end: u64,
        allocated: &mut AllocatedIn<'_>,
    ) -> Result<Reflowed, ReflowError> {
        let cx = self.cx(vdev)?;
        if !self.can_reflow(vdev) {
            return Err(ReflowError::NotWhole);
        }
        let reflow = cx.flow.reflow();
        let Some(step) = ReflowStep::after(reflow, end) else { return Ok(Reflowed::All) };
        let done = self.in_rounds(cx, step, end, allocated);
        if done.is_ok() && self.can_reflow(vdev) {
            return done;
        }
        cx.flow.give_up();
        Err(done.err().unwrap_or(ReflowError::NotWhole))
    }

    fn in_rounds(
        &self,
        cx: ReflowContext<'_>,
        step: ReflowStep,
        end: u64,
        allocated: &mut AllocatedIn<'_>,
    ) -> Result<Reflowed, ReflowError> {
        let ReflowContext { flow, .. } = cx;
        let reflow = flow.reflow();
        let from = if step == ReflowStep::Move { reflow.offset } else { 0 };
        let limit = cx.limit(step, reflow, end);
        let drained = || flow.drain(self.rt()).then_some(()).ok_or(ReflowError::Busy);
        flow.begin(step, from..limit);
        drained()?;
        let (mut ranges, mut to) = allocated(from..limit).map_err(ReflowError::Space)?;
        let bytes = ranges.iter().map(|r| r.end - r.start).sum();
        if step != ReflowStep::Move {
            // The scratch area counts as a whole.
            (ranges, to) = (std::iter::once(from..limit).collect(), limit);
        }
        ranges = joined(ranges, &(from..to), SPAN);
        loop {
            self.copy(cx, step, &ranges)?;
            ranges = flow.begin_round(step, from..to);
            if ranges.is_empty() {
                flow.end(step, to);
                return Ok(Reflowed::Copied(if step == ReflowStep::Fill { 0 } else { bytes }));
            }
            drained()?;
        }
    }

    /// The state of an expansion for the uberblock, in a txg at whose end its vdev is as it should
    /// be: the step that was done counts. Otherwise it is given up.
    #[must_use]
    pub fn reflow_to_commit(&self, vdev: u32) -> Option<Reflow> {
        let cx = self.cx(vdev).ok()?;
        let next = cx.flow.next()?;
        if self.can_reflow(vdev) {
            return Some(next);
        }
        cx.flow.give_up();
        None
    }

    /// A step was done, and was not given up.
    #[must_use]
    pub fn has_reflow_step(&self, vdev: u32) -> bool {
        self.cx(vdev).is_ok_and(|cx| cx.flow.next().is_some())
    }

    /// The step that was done is given up: what it wrote may be lost.
    pub fn give_up_reflow(&self, vdev: u32) {
        if let Ok(cx) = self.cx(vdev)
            && cx.flow.next().is_some()
        {
            cx.flow.give_up();
        }
    }

    /// The uberblock that says this is durable.
    pub fn commit_reflow(&self, vdev: u32, reflow: Reflow) {
        if let Ok(cx) = self.cx(vdev) {
            cx.flow.set(reflow);
        }
    }

    /// Copies ranges to where a step brings them, and waits until they are there.
    fn copy(
        &self,
        cx: ReflowContext<'_>,
        step: ReflowStep,
        ranges: &[Range<u64>],
    ) -> Result<(), ReflowError> {
        let sectors = |r: &Range<u64>| r.start >> cx.ashift..r.end >> cx.ashift;
        let most = (BATCH >> cx.ashift).max(1);
        let mut batch = Vec::new();
        let mut sum = 0;
        for range in ranges.iter().map(sectors) {
            let mut start = range.start;
            while start < range.end {
                let part = start..range.end.min(start + (most - sum));
                (start, sum) = (part.end, sum + (part.end - part.start));
                batch.push(part);
                if sum == most {
                    self.copy_batch(cx, step, &batch)?;
                    (batch, sum) = (Vec::new(), 0);
                }
            }
        }
        self.copy_batch(cx, step, &batch)
    }

    fn copy_batch(
        &self,
        cx: ReflowContext<'_>,
        step: ReflowStep,
        batch: &[Range<u64>],
    ) -> Result<(), ReflowError> {
        let (from, to) = step.areas();
        let mut gather = Gather::bulk(self.rt(), IoClass::Removal);
        let mut by_range = Vec::with_capacity(batch.len());
        for range in batch {
            let mut columns = Vec::new();
            for column in columns_of(range, from, cx) {
                let (index, node) = self.child(cx.node, column.child)?;
                let queue = node.queue.as_ref().ok_or(ReflowError::NotWhole)?;
                let len = column.count << cx.ashift;
                columns.push((column, index, gather.add(index, queue, column.offset, len)));
            }
            by_range.push(columns);
        }
        let pending = gather.start();
        let mut out = Vec::new();
        for (range, columns) in batch.iter().zip(by_range) {
            let mut read = Vec::with_capacity(columns.len());
            for (column, index, request) in columns {
                let bytes = pending.take(request).inspect_err(|e| {
                    if let Some(node) = self.nodes.get(index) {
                        node.health.read_failed(e);
                    }
                })?;
                read.push((column, bytes));
            }
            for column in columns_of(range, to, cx) {
                out.push((column, rearrange(&column, &read, from, to, cx)));
            }
        }
        self.write_columns(cx, out)
    }

    fn child<'t>(&'t self, node: &Node, n: usize) -> Result<(usize, &'t Node), ReflowError> {
        let index = *node.children.get(n).ok_or(ReflowError::NotWhole)?;
        Ok((index, self.nodes.get(index).ok_or(ReflowError::NotWhole)?))
    }

    fn write_columns(
        &self,
        cx: ReflowContext<'_>,
        columns_of: Vec<(ColumnRange, AlignedBuf)>,
    ) -> Result<(), ReflowError> {
        let writing = Awaited::new(self.rt());
        let mut batches = Batches::new();
        for (column, bytes) in columns_of {
            let (index, node) = self.child(cx.node, column.child)?;
            let gone = device::ErrorKind::Gone;
            let unanswered = device::Error::write(gone, &node.name, column.offset, bytes.len());
            writing.begin();
            let (writing, health) = (Arc::clone(&writing), Arc::clone(&node.health));
            let part = Part { writing, health, answer: Err(unanswered) };
            let done = Box::new(move |result| part.answer(result));
            let write = Write { offset: column.offset, parts: vec![Shared::from(bytes)], done };
            batches.entry((index, IoClass::Removal)).or_default().push(write);
        }
        self.submit(batches);
        writing.wait().into_iter().next().map_or(Ok(()), |e| Err(e.into()))
    }
}

/// The sectors of a range on one child, which lie there one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ColumnRange {
    child: usize,
    offset: u64,
    /// The first of them.
    first: u64,
    count: u64,
}

/// A range of sectors by child, in the order of its sectors.
fn columns_of(range: &Range<u64>, area: Area, cx: ReflowContext<'_>) -> Vec<ColumnRange> {
    let width = area.width(cx.width);
    let firsts = range.start..range.end.min(range.start + width);
    let column = |first: u64| {
        let (child, offset) = area.place(first, cx.width, cx.ashift);
        ColumnRange { child, offset, first, count: (range.end - first).div_ceil(width) }
    };
    firsts.map(column).collect()
}

/// The bytes of a strip of one layout, from those of another.
fn rearrange(
    column: &ColumnRange,
    read: &[(ColumnRange, AlignedBuf)],
    from: Area,
    to: Area,
    cx: ReflowContext<'_>,
) -> AlignedBuf {
    let (before, behind) = (from.width(cx.width), to.width(cx.width));
    let sector = 1usize << cx.ashift;
    let mut out = AlignedBuf::zeroed((column.count as usize) << cx.ashift);
    let start = read.first().map_or(0, |(column, _)| column.first);
    for (n, slot) in (column.first..).step_by(behind as usize).zip(out.chunks_exact_mut(sector)) {
        let (column, row) = ((n - start) % before, (n - start) / before);
        let bytes = read.get(column as usize).map_or(&[][..], |(_, bytes)| bytes);
        let at = (row as usize) << cx.ashift;
        if let Some(bytes) = bytes.get(at..at + sector) {
            slot.copy_from_slice(bytes);
        }
    }
    out
}
