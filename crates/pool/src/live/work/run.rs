//! One work on one device, from where it was to its end.

use super::Place;
use crate::alloc::Slab;
use crate::error::{Error, Result};
use crate::leaf_work::{LeafProgress, LeafWork, WorkState};
use crate::live::shared::Shared;
use crate::refusal::DeviceFault;
use core::ops::Range;
use device::{AlignedBuf, WriteDeviceRef};
use std::time::Duration;
use vdev::VdevTree;

/// What free space is overwritten with: that of OpenZFS, in its byte order.
const PATTERN: u64 = 0xdead_beef_dead_beee;
/// Bytes that are written at once, and how many such writes are under way.
const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 4;
/// Shorter extents are left alone: telling the device costs more than it gains.
pub(super) const TRIM_MIN: u64 = 32 << 10;
/// Bytes that are given back at once.
const TRIM_MAX: u64 = 128 << 20;
/// A window is this part of a metaslab, within these bounds.
const WINDOWS: u64 = 16;
const WINDOW_MIN: u64 = 1 << 20;
const WINDOW_MAX: u64 = 64 << 20;
/// How often it is written how far a work is.
const SAVE_EACH: Duration = Duration::from_secs(5);

/// The windows of a metaslab, in order, each of which is one extent on every device.
pub(super) fn windows(vdevs: &VdevTree, top: u32, slab: &Slab) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = slab.space;
    // A sector's multiple, as the bounds are.
    let size = ((end - start) / WINDOWS).clamp(WINDOW_MIN, WINDOW_MAX) & !(WINDOW_MIN - 1);
    // What is held is cut out of what is free: of a dRAID the rest must begin where a row does.
    let unit = slab.unit.max(1);
    let cut = move |at: u64| match at < end {
        true => (at - at % unit).max(start),
        false => end,
    };
    let windows = (start..end).step_by(usize::try_from(size).unwrap_or(1 << 20));
    windows.flat_map(move |at| {
        let window = cut(at)..cut(at.saturating_add(size));
        vdevs.parts_in_one_extent(top, window)
    })
}

/// How a work ended, when it did not fail.
enum End {
    Done,
    Stopped,
}

struct Pass<'a> {
    shared: &'a Shared,
    leaf: u64,
    work: LeafWork,
    place: Place,
    now: LeafProgress,
    pattern: device::Shared,
    began: Duration,
    bytes: u64,
    saved: (Duration, u64),
}

impl Shared {
    /// What the thread does.
    pub(super) fn work_on(&self, leaf: u64, work: LeafWork, from: LeafProgress) {
        let done = self.pass(leaf, work, from);
        let mut state = self.works.state.lock();
        state.running.remove(&(leaf, work));
        if let Err(e) = done {
            state.failures.insert((leaf, work), e.to_string());
        }
        self.works.changed.notify_all();
    }

    fn pass(&self, leaf: u64, work: LeafWork, from: LeafProgress) -> Result<()> {
        let began = self.rt.now();
        let mut bytes = AlignedBuf::zeroed(if work == LeafWork::Trim { 8 } else { CHUNK });
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = PATTERN.to_le_bytes();
        }
        let place = self.place(leaf)?;
        let pattern = device::Shared::from(bytes);
        let saved = (began, from.offset);
        let mut pass =
            Pass { shared: self, leaf, work, place, now: from, pattern, began, bytes: 0, saved };
        let end = pass.run();
        let word = match &end {
            Ok(End::Done) => {
                (pass.now.state, pass.now.time) = (WorkState::Complete, self.rt.wall().as_secs());
                Some("complete")
            }
            // What it does not support it never will.
            Err(Error::Device { cause, .. }) if cause.kind == device::ErrorKind::Unsupported => {
                pass.now.state = WorkState::Canceled;
                Some("canceled")
            }
            _ => None,
        };
        if self.txgs.why_stopped().is_none() && (word.is_some() || pass.saved.1 < pass.now.offset) {
            pass.save(word)?;
        }
        end.map(drop)
    }
}

impl Pass<'_> {
    fn run(&mut self) -> Result<End> {
        for slab in self.shared.alloc.slabs(self.place.top) {
            if self.now.is_partial && !slab.was_used {
                continue;
            }
            let vdevs = self.shared.reader.vdevs();
            for window in windows(&vdevs, self.place.top, &slab) {
                if self.window(&window)? {
                    return Ok(End::Stopped);
                }
            }
        }
        Ok(End::Done)
    }

    /// What is free in a part of a metaslab. True: it is to end.
    fn window(&mut self, window: &Range<u64>) -> Result<bool> {
        let (shared, top, leaf) = (self.shared, self.place.top, self.leaf);
        let vdevs = shared.reader.vdevs();
        let extent = vdevs.extent_on(top, leaf, window);
        let extent = extent.ok_or_else(|| shared.refused(DeviceFault::VdevChanging))?;
        if extent.end <= self.now.offset {
            return Ok(false);
        }
        let mut leaves = vdevs.leaves().filter(|l| l.guid() == leaf);
        let Some(device) = leaves.find_map(|l| l.writer().cloned()) else {
            // It goes on when the device is there again.
            return Ok(true);
        };
        let turn = shared.works.turn(top);
        let held = {
            // No map is being written.
            let _gate = shared.gate.read();
            shared.alloc.hold(top, window)
        };
        for (start, end) in held.iter().flat_map(|held| held.ranges()) {
            let Some(extent) = vdevs.extent_on(top, leaf, &(*start..*end)) else { continue };
            let rest = extent.start.max(self.now.offset)..extent.end;
            if rest.is_empty() {
                continue;
            }
            if self.extent(&device, rest)? {
                return Ok(true);
            }
        }
        drop(held);
        drop(turn);
        self.now.offset = extent.end;
        self.keep_to_rate();
        if shared.rt.now().saturating_sub(self.saved.0) >= SAVE_EACH {
            self.save(None)?;
        }
        Ok(self.is_to_end())
    }

    /// One extent of it. True: it is to end.
    fn extent(&mut self, device: &WriteDeviceRef, extent: Range<u64>) -> Result<bool> {
        if self.work == LeafWork::Trim && extent.end - extent.start < TRIM_MIN {
            return Ok(false);
        }
        let step = match self.work {
            LeafWork::Initialize => (CHUNK * CHUNKS) as u64,
            LeafWork::Trim => TRIM_MAX,
        };
        let mut at = extent.start;
        while at < extent.end {
            let end = extent.end.min(at.saturating_add(step));
            let done = match self.work {
                LeafWork::Initialize => self.overwrite(device, at..end),
                LeafWork::Trim => device.trim(at, end - at),
            };
            done.map_err(|cause| Error::Device { pool: self.shared.pool().to_owned(), cause })?;
            self.bytes += end - at;
            (at, self.now.offset) = (end, end);
            if self.is_to_end() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn overwrite(
        &self,
        device: &WriteDeviceRef,
        extent: Range<u64>,
    ) -> std::result::Result<(), device::Error> {
        let chunk = |at: u64| {
            let len = usize::try_from(extent.end - at).unwrap_or(CHUNK).min(CHUNK);
            (at, vec![self.pattern.slice(0..len)])
        };
        let writes = extent.clone().step_by(CHUNK).map(chunk).collect();
        device::write_batch(device.as_ref(), writes).into_iter().collect()
    }

    /// Waits until what was done is no more than the rate allows, or something is asked of it.
    fn keep_to_rate(&self) {
        let Some(nanos) = (self.bytes.saturating_mul(1_000_000_000)).checked_div(self.now.rate)
        else {
            return;
        };
        let due = self.began + Duration::from_nanos(nanos);
        let works = &self.shared.works;
        let mut state = works.state.lock();
        loop {
            let key = (self.leaf, self.work);
            let is_to_end =
                state.is_closing || state.running.get(&key).is_some_and(|r| r.is_to_end);
            if is_to_end || self.shared.rt.now() >= due {
                return;
            }
            works.changed.wait_until(&mut state, due);
        }
    }

    fn is_to_end(&self) -> bool {
        let works = &self.shared.works;
        self.shared.txgs.why_stopped().is_some() || works.is_to_end((self.leaf, self.work))
    }

    /// Writes how far it is.
    fn save(&mut self, word: Option<&'static str>) -> Result<()> {
        let (leaf, work, now) = (self.leaf, self.work, self.now);
        self.shared.run_keeping_datasets(move |cx| cx.put_work(leaf, work, &now, word))?;
        self.saved = (self.shared.rt.now(), now.offset);
        Ok(())
    }
}
