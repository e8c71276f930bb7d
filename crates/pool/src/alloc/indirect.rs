//! Removed vdevs: where their space is now, and what of it is obsolete.
//!
//! # Theory
//!
//! A removed vdev has a mapping, from ranges of its space to the space that took their place. A
//! block on it that is freed is freed there, part by part, on vdevs that may be removed themselves.
//! The mapping stays as it is; what no block needs of it goes into a space map of the vdev,
//! in the txg that frees it.
//!
//! Ranges wait for the map by txg, as frees do in a metaslab: a log may free in the open txg
//! while an older one is synced.

use super::Allocator;
use super::maps::{self, Change, Shape, WriteMaps};
use super::mos_writer::{BLOCK, format_error};
use super::ranges::Ranges;
use ondisk::Dva;
use ondisk::gang::GANG_HEADER_SIZE;
use ondisk::mos::vdev_zap;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vdev::{IndirectSegment, Txgs};

/// Txgs whose changes can be waiting at the same time, and one more.
const TXGS: usize = 4;
/// Obsolete space maps count in bytes.
const OBSOLETE_SHIFT: u8 = 0;

/// The description of a removed vdev, or of one that is being removed.
pub(crate) struct MovedSpec {
    /// Its number.
    pub(crate) id: u32,
    /// log2 of its sector size in bytes.
    pub(crate) ashift: u8,
    /// Its table.
    pub(crate) zap: u64,
    /// Object of its map of what is obsolete; 0: none yet.
    pub(crate) obsolete: u64,
    /// In order.
    pub(crate) segments: Vec<IndirectSegment>,
    /// It still exists.
    pub(crate) is_leaving: bool,
}

/// A removed vdev, or one that leaves.
pub(super) struct MovedVdev {
    pub(super) id: u32,
    ashift: u8,
    zap: u64,
    object: AtomicU64,
    pub(super) segments: RwLock<Vec<IndirectSegment>>,
    /// Not needed any more, and not in the map yet, by txg.
    obsolete: Mutex<[Ranges; TXGS]>,
    /// It still exists, and blocks are read there.
    pub(super) is_leaving: bool,
    /// Bytes of a leaving one that were freed before they were copied, since this was last asked.
    pub(super) spared: AtomicU64,
    /// Bytes of a leaving one that are still to be copied.
    pub(super) left: AtomicU64,
}

/// The result of writing the maps of obsolete ranges.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObsoleteSync {
    pub(super) wrote: bool,
    /// Maps that were made.
    pub(super) made: i64,
}

/// A range that was copied, at its new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where it was.
    pub(super) from: u64,
    pub(super) vdev: u32,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl MovedVdev {
    pub(super) fn new(spec: MovedSpec) -> Self {
        Self {
            id: spec.id,
            ashift: spec.ashift,
            zap: spec.zap,
            object: AtomicU64::new(spec.obsolete),
            segments: RwLock::new(spec.segments),
            obsolete: Mutex::default(),
            is_leaving: spec.is_leaving,
            spared: AtomicU64::new(0),
            left: AtomicU64::new(0),
        }
    }

    /// The parts of a range that were copied, in order.
    pub(super) fn parts(&self, start: u64, end: u64) -> Vec<Part> {
        let segments = self.segments.read();
        let first = segments.partition_point(|s| s.src_offset.saturating_add(s.size) <= start);
        let rest = segments.iter().skip(first).take_while(|s| s.src_offset < end);
        let part = |s: &IndirectSegment| {
            let from = start.max(s.src_offset);
            let to = end.min(s.src_offset.saturating_add(s.size));
            let at = s.dst.offset().saturating_add(from - s.src_offset);
            Part { from, vdev: s.dst.vdev(), start: at, end: at.saturating_add(to - from) }
        };
        rest.map(part).collect()
    }

    /// A part of the mapping is not needed any more, from `txg` on. False: it was not before.
    pub(super) fn is_obsolete(&self, start: u64, end: u64, txg: u64) -> bool {
        self.obsolete.lock()[(txg % TXGS as u64) as usize].insert(start, end)
    }

    pub(super) fn spec(&self) -> MovedSpec {
        MovedSpec {
            id: self.id,
            ashift: self.ashift,
            zap: self.zap,
            obsolete: self.obsolete_map(),
            segments: self.segments.read().clone(),
            is_leaving: self.is_leaving,
        }
    }

    /// Ranges that wait for the map wait in another's place from now on.
    pub(super) fn inherit(&self, before: &Self) {
        std::mem::swap(&mut *self.obsolete.lock(), &mut *before.obsolete.lock());
    }

    /// The object of its map of what is obsolete; 0: none.
    pub(super) fn obsolete_map(&self) -> u64 {
        self.object.load(Relaxed)
    }
}

impl Allocator {
    /// Makes a removed vdev known, or one that leaves.
    pub(crate) fn add_moved(&self, spec: MovedSpec) {
        Arc::make_mut(&mut *self.moved.write()).insert(spec.id, Arc::new(MovedVdev::new(spec)));
    }

    pub(super) fn moved(&self, id: u32) -> Option<Arc<MovedVdev>> {
        self.moved.read().get(&id).cloned()
    }

    /// A vdev was removed: it is not there any more.
    pub(super) fn is_removed(&self, id: u32) -> bool {
        self.moved.read().get(&id).is_some_and(|moved| !moved.is_leaving)
    }

    /// The txgs that copied what is mapped of a vdev that leaves.
    pub(crate) fn leaving_txgs(&self) -> Txgs {
        let all = Arc::clone(&self.moved.read());
        let mut out = Txgs::default();
        for moved in all.values().filter(|moved| moved.is_leaving) {
            let segments = moved.segments.read();
            segments.iter().for_each(|s| out.add(s.txg, s.txg.saturating_add(1)));
        }
        out
    }

    /// Frees one copy of a block that is on a removed vdev. Of a gang it is the header.
    pub(super) fn free_removed(&self, dva: Dva, txg: u64, kept: bool) {
        let sector = self.moved(dva.vdev()).map_or(0, |m| 1u64 << m.ashift.min(63));
        let size = match dva.is_gang() {
            true => (GANG_HEADER_SIZE as u64).max(sector),
            false => dva.asize(),
        };
        let end = dva.offset().saturating_add(size);
        self.free_mapped((dva.vdev(), dva.offset(), end), txg, kept);
    }

    /// Nothing needs the mapping of a range of a removed vdev any more, from `txg` on. The space it
    /// leads to stays allocated.
    pub(crate) fn mark_obsolete(&self, dva: Dva, txg: u64) {
        let Some(moved) = self.moved(dva.vdev()).filter(|moved| !moved.is_leaving) else {
            let vdev = dva.vdev();
            return self.problem(format!("vdev {vdev} has no mapping that could be obsolete"));
        };
        for part in moved.parts(dva.offset(), dva.offset().saturating_add(dva.asize())) {
            moved.is_obsolete(part.from, part.from + (part.end - part.start), txg);
        }
    }

    /// The map of what is obsolete of a removed vdev is gone. In `txg` one is made of these ranges.
    pub(crate) fn renew_obsolete(&self, id: u32, ranges: &[(u64, u64)], txg: u64) {
        let Some(moved) = self.moved(id).filter(|moved| !moved.is_leaving) else {
            return self.problem(format!("vdev {id} has no mapping that could be obsolete"));
        };
        moved.object.store(0, Relaxed);
        for (start, end) in ranges {
            // What is freed in this txg is among what was in use, and not among these.
            moved.is_obsolete(*start, *end, txg);
        }
    }

    /// Frees a range of a removed vdev, or what was copied of one that leaves, where it is now. A
    /// mapping leads to vdevs that were removed later, or not at all.
    pub(super) fn free_mapped(&self, range: (u32, u64, u64), txg: u64, kept: bool) {
        let rounds = self.moved.read().len();
        let mut ranges = vec![range];
        for _ in 0..=rounds {
            let mut next = Vec::new();
            for (vdev, start, end) in std::mem::take(&mut ranges) {
                let Some(moved) = self.moved(vdev) else { continue };
                let parts = moved.parts(start, end);
                let found: u64 = parts.iter().map(|p| p.end - p.start).sum();
                if found < end.saturating_sub(start) {
                    let lost = end.saturating_sub(start) - found;
                    self.problem(format!(
                        "{lost} bytes at {start:#x} of vdev {vdev} have no mapping"
                    ));
                }
                for part in parts {
                    let size = part.end - part.start;
                    let is_new = moved.is_obsolete(part.from, part.from + size, txg);
                    let done = is_new && self.free_part(&part, txg, kept, &mut next);
                    if !done {
                        let at = part.from;
                        self.problem(format!(
                            "{size} bytes at {at:#x} of vdev {vdev}: freed twice"
                        ));
                    }
                }
            }
            if next.is_empty() {
                return;
            }
            ranges = next;
        }
        self.problem("mappings of removed vdevs form a cycle".to_owned());
    }

    /// Frees a part on the vdev where it is now, or adds it to those of removed vdevs.
    fn free_part(
        &self,
        part: &Part,
        txg: u64,
        kept: bool,
        next: &mut Vec<(u32, u64, u64)>,
    ) -> bool {
        if self.is_removed(part.vdev) {
            next.push((part.vdev, part.start, part.end));
            return true;
        }
        let top = self.top(part.vdev);
        top.is_some_and(|top| self.free_range(&top, part.start, part.end, txg, kept))
    }

    /// Appends what became obsolete in `txg` since the last pass to the maps of the vdevs.
    pub(super) fn sync_obsolete(
        &self,
        writer: &mut dyn WriteMaps,
        txg: u64,
        pass: u32,
    ) -> dmu::Result<ObsoleteSync> {
        let mut out = ObsoleteSync::default();
        let all: Arc<BTreeMap<u32, Arc<MovedVdev>>> = Arc::clone(&self.moved.read());
        for moved in all.values() {
            let slot = (txg % TXGS as u64) as usize;
            let new = std::mem::take(&mut moved.obsolete.lock()[slot]);
            // Without the feature it is not used.
            if new.is_empty() || !self.options.obsolete || moved.zap == 0 {
                continue;
            }
            out.wrote = true;
            let mut object = moved.obsolete_map();
            if object == 0 {
                let name = vdev_zap::INDIRECT_OBSOLETE_SPACE_MAP;
                object = writer.create_named(moved.zap, name)?;
                moved.object.store(object, Relaxed);
                out.made += 1;
            }
            let (header, block_size) = writer.open(object)?;
            let shape = Shape {
                length: header.length,
                block_size: if block_size == 0 { BLOCK } else { block_size },
                shift: OBSOLETE_SHIFT,
                two_words: self.options.two_words,
                condense: false,
                tells_frees: false,
            };
            let change = Change { allocs: new, ..Change::default() };
            let new = maps::encode(&change, 0, &shape, &header, txg, pass);
            let new = new.map_err(|error| format_error(object, error))?;
            writer.write(object, new.at, &new.bytes, &new.header)?;
        }
        Ok(out)
    }
}
