//! A vdev that leaves: what is on it is copied to others, piece by piece.
//!
//! # Theory
//!
//! It takes no new blocks, and its blocks are read there until all of it was copied; then it is a
//! removed one. Up to where it was copied what it frees is freed at both places: here so that it is
//! known what is in use (that is what a removal that is called off needs), and at the copy.
//!
//! Frees of a txg are resolved when the metaslab's map of that txg is written. A piece is copied,
//! and its mapping extended, before that in the sync of the txg. So everything that is free by the
//! maps of the last durable txg is left out, and everything else is copied, whether it is being
//! freed or not: what was freed in this txg or a later one finds its copy. No free is ever in
//! between.

use super::Allocator;
use super::indirect::{MovedSpec, MovedVdev};
use core::ops::Range;
use ondisk::Dva;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vdev::IndirectSegment;
use zio::SpaceClass;

/// Space of one vdev, in bytes as datasets count them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VdevSpace {
    pub(crate) class: SpaceClass,
    /// Its part in [`super::Figures::dspace`].
    pub(crate) dspace: u64,
    pub(crate) allocated: u64,
}

impl Allocator {
    /// Whether a vdev leaves.
    pub(super) fn is_leaving(&self, id: u32) -> bool {
        self.moved.read().get(&id).is_some_and(|moved| moved.is_leaving)
    }

    /// A vdev takes new blocks, or takes none from the next txg on.
    pub(crate) fn set_allocating(&self, id: u32, allocates: bool) {
        if let Some(top) = self.top(id) {
            top.allocating.store(allocates, Relaxed);
        }
    }

    /// The space of one vdev.
    pub(crate) fn vdev_space(&self, id: u32) -> Option<VdevSpace> {
        let top = self.top(id)?;
        let deflate = |bytes| top.deflate_ratio.deflate(bytes);
        Some(VdevSpace {
            class: top.class,
            dspace: top.dspace(),
            allocated: deflate(top.allocated()),
        })
    }

    /// Logs of space maps that were found at the import are not worked in yet.
    pub(crate) fn has_logs(&self) -> bool {
        self.logs.lock().is_some()
    }

    /// Bytes that are allocated on a vdev, as of the last txg that was written.
    pub(crate) fn allocated_on(&self, id: u32) -> u64 {
        self.top(id).map_or(0, |top| top.allocated())
    }

    /// Returns the allocated ranges of a vdev from `from` on, in order, about `bytes` of it at
    /// most; none if nothing is allocated.
    ///
    /// # Errors
    /// A space map cannot be read.
    pub(crate) fn allocated_from(
        &self,
        id: u32,
        from: u64,
        bytes: u64,
    ) -> Result<Vec<Range<u64>>, String> {
        let mut out = Vec::new();
        let Some(top) = self.top(id) else { return Ok(out) };
        let (first, mut sum) = ((from >> top.ms_shift) as usize, 0);
        for (index, m) in top.metaslabs.iter().enumerate().skip(first) {
            if m.allocated() == 0 && !m.is_active() {
                continue;
            }
            if !top.load(index, &*self.maps, &|text| self.problem(text)) {
                return Err(format!("the space map of metaslab {index} of vdev {id}"));
            }
            let ranges = m.allocated_ranges().unwrap_or_default();
            for (start, end) in ranges.into_iter().map(|(s, e)| (s.max(from), e)) {
                if start < end {
                    sum += end - start;
                    out.push(start..end);
                }
                if sum >= bytes {
                    return Ok(out);
                }
            }
        }
        Ok(out)
    }

    /// The metaslabs of a vdev have two to the power of this many bytes.
    pub(crate) fn ms_shift_of(&self, id: u32) -> u32 {
        self.top(id).map_or(0, |top| top.ms_shift)
    }

    /// Where the last metaslab of a vdev ends, in bytes.
    pub(crate) fn end_of(&self, id: u32) -> u64 {
        self.top(id).map_or(0, |top| (top.metaslabs.len() as u64) << top.ms_shift)
    }

    /// Returns the parts of a range of a vdev that may hold a block, in order, now or in one of the
    /// txgs before, about `bytes` of it at most; and the end up to which the list is complete.
    ///
    /// # Errors
    /// A space map cannot be read.
    pub(crate) fn taken_in(
        &self,
        id: u32,
        range: &Range<u64>,
        bytes: u64,
    ) -> Result<(Vec<Range<u64>>, u64), String> {
        let mut out = Vec::new();
        let Some(top) = self.top(id) else { return Ok((out, range.end)) };
        let first = (range.start >> top.ms_shift) as usize;
        let mut left = bytes.next_multiple_of(1 << top.ashift);
        for (index, m) in top.metaslabs.iter().enumerate().skip(first) {
            if m.start >= range.end {
                break;
            }
            if m.allocated() == 0 && !m.is_active() {
                continue;
            }
            if !top.load(index, &*self.maps, &|text| self.problem(text)) {
                return Err(format!("the space map of metaslab {index} of vdev {id}"));
            }
            for (start, end) in m.taken_ranges().unwrap_or_default() {
                let (start, end) = (start.max(range.start), end.min(range.end));
                if start >= end {
                    continue;
                }
                let end = end.min(start + left);
                left -= end - start;
                out.push(start..end);
                if left == 0 {
                    return Ok((out, end));
                }
            }
        }
        Ok((out, range.end))
    }

    /// Returns a part of a copy's space that was taken and not needed, in the txg that took it.
    pub(crate) fn discard_part(&self, dst: Dva, part: Range<u64>, txg: u64) {
        let start = dst.offset().saturating_add(part.start);
        let end = dst.offset().saturating_add(part.end);
        if let Some(top) = self.top(dst.vdev())
            && let Some(m) = top.metaslab(start, end)
        {
            m.discard(&top.room, start, end, txg);
        }
    }

    /// A piece of a vdev that leaves was copied; its mapping is on its way to the disk.
    pub(crate) fn extend_leaving(&self, id: u32, new: &[IndirectSegment]) {
        if let Some(moved) = self.moved(id) {
            moved.segments.write().extend_from_slice(new);
        }
    }

    /// Bytes that are still to be copied, for the figures of space.
    pub(crate) fn set_left(&self, id: u32, bytes: u64) {
        if let Some(moved) = self.moved(id) {
            moved.left.store(bytes, Relaxed);
        }
    }

    /// Bytes that were freed before they were copied, since the last call.
    pub(crate) fn take_spared(&self, id: u32) -> u64 {
        self.moved(id).map_or(0, |moved| moved.spared.swap(0, Relaxed))
    }

    /// The map of what is obsolete of a vdev; 0: none.
    pub(crate) fn obsolete_map(&self, id: u32) -> u64 {
        self.moved(id).map_or(0, |moved| moved.obsolete_map())
    }

    /// A range of a vdev that leaves was freed in `txg`: so is what was copied of it.
    pub(super) fn free_of_leaving(&self, id: u32, start: u64, end: u64, txg: u64) {
        let Some(moved) = self.moved(id) else { return };
        let mut copied = 0;
        for part in moved.parts(start, end) {
            let size = part.end - part.start;
            copied += size;
            self.free_mapped((id, part.from, part.from.saturating_add(size)), txg, false);
        }
        moved.spared.fetch_add((end - start).saturating_sub(copied), Relaxed);
    }

    /// All of a vdev was copied: from `txg` on it is a removed one. The objects of its space maps.
    pub(crate) fn end_leaving(&self, id: u32, txg: u64) -> Vec<u64> {
        let (Some(top), Some(moved)) = (self.top(id), self.moved(id)) else { return Vec::new() };
        let spec = MovedSpec { is_leaving: false, ..moved.spec() };
        let next = Arc::new(MovedVdev::new(spec));
        next.inherit(&moved);
        Arc::make_mut(&mut *self.moved.write()).insert(id, next);
        let maps = self.remove_top(id);
        for m in &top.metaslabs {
            for (start, end, txg) in m.take_freeing(txg) {
                self.free_mapped((id, start, end), txg, false);
            }
        }
        maps
    }

    /// Reads what [`Self::give_up_copies`] needs.
    ///
    /// # Errors
    /// A space map cannot be read.
    pub(crate) fn copies_of(&self, id: u32) -> Result<Vec<Range<u64>>, String> {
        let end = self.moved(id).and_then(|moved| {
            moved.segments.read().last().map(|s| s.src_offset.saturating_add(s.size))
        });
        let mut all = self.allocated_from(id, 0, u64::MAX)?;
        all.retain(|range| range.start < end.unwrap_or(0));
        Ok(all)
    }

    /// A removal is called off in `txg`: what was copied of these ranges is freed, and the vdev
    /// leaves no more.
    pub(crate) fn give_up_copies(&self, id: u32, copied: &[Range<u64>], txg: u64) {
        for range in copied {
            let parts = self.moved(id).map(|moved| moved.parts(range.start, range.end));
            for part in parts.into_iter().flatten() {
                let size = part.end - part.start;
                self.free_mapped((id, part.from, part.from.saturating_add(size)), txg, false);
            }
        }
        Arc::make_mut(&mut *self.moved.write()).remove(&id);
    }
}
