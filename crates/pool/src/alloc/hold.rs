//! Free space that is held, so that it can be overwritten or given back to its devices.
//!
//! Held space is free in all maps and counts on disk, and is not allocated until it is released. It
//! left the set of the free like space that a writer takes, so no tree that the last uberblocks
//! reach has it, and none gets it.
//!
//! With [`Allocator::note_freed`] each metaslab also remembers what became free and was not taken
//! again since: what `autotrim` gives back.

use super::Allocator;
use super::metaslab::Metaslab;
use super::top::Top;
use core::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Free space that is not handed out until this is dropped.
pub struct HeldSpace {
    top: Arc<Top>,
    metaslab: usize,
    ranges: Vec<(u64, u64)>,
}

impl HeldSpace {
    /// The ranges, in order, as offsets of the vdev.
    #[must_use]
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }
}

impl Drop for HeldSpace {
    fn drop(&mut self) {
        let Some(m) = self.top.metaslabs.get(self.metaslab) else { return };
        for (start, end) in &self.ranges {
            m.give_back(&self.top.room, *start, *end);
        }
    }
}

/// A metaslab, for those that go through all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slab {
    /// Its space.
    pub space: Range<u64>,
    /// Something was allocated there at some time.
    pub was_used: bool,
    /// Allocated ranges begin and end at multiples of these bytes where the vdev requires that.
    pub unit: u64,
}

impl Allocator {
    /// The metaslabs of a vdev, in order; none when there is no such vdev.
    #[must_use]
    pub fn slabs(&self, id: u32) -> Vec<Slab> {
        let Some(top) = self.top(id) else { return Vec::new() };
        let slab = |m: &Metaslab| Slab {
            space: m.start..m.end,
            was_used: m.object() != 0,
            unit: top.unit,
        };
        top.metaslabs.iter().map(slab).collect()
    }

    /// Holds what is free in a part of one metaslab. `None`: its map cannot be read now.
    #[must_use]
    pub fn hold(&self, id: u32, space: &Range<u64>) -> Option<HeldSpace> {
        self.held(id, space, |m, room| m.hold(room, space.start, space.end))
    }

    /// Holds what became free in a part of one metaslab, ranges of `min` bytes and more, and
    /// forgets that it did. `None`: there is none, or its map cannot be read now.
    #[must_use]
    pub fn hold_freed(&self, id: u32, space: &Range<u64>, min: u64) -> Option<HeldSpace> {
        let top = self.top(id)?;
        if !top.metaslab(space.start, space.end)?.has_freed() {
            return None;
        }
        self.held(id, space, |m, room| m.hold_freed(room, space.start, space.end, min))
    }

    fn held(
        &self,
        id: u32,
        space: &Range<u64>,
        hold: impl FnOnce(&Metaslab, &AtomicI64) -> Vec<(u64, u64)>,
    ) -> Option<HeldSpace> {
        let top = self.top(id)?;
        let index = usize::try_from(space.start >> top.ms_shift).ok()?;
        top.metaslab(space.start, space.end)?;
        if !top.load(index, &*self.maps, &|text| self.problem(text)) {
            return None;
        }
        let ranges = hold(top.metaslabs.get(index)?, &top.room);
        Some(HeldSpace { top, metaslab: index, ranges })
    }

    /// Metaslabs remember what becomes free from now on, or not any more.
    pub fn note_freed(&self, notes: bool) {
        self.notes_freed.store(notes, Relaxed);
    }
}
