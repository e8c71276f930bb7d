//! Reading what is on a vdev without knowing which blocks are there: what is copied off a vdev that
//! leaves its pool.
//!
//! No checksum covers the bytes, and none will: the copies are all that is left of them. So every
//! side of a mirror that has all its txgs is read, and they must agree. When they do not, one of
//! them is damaged, and only a scrub, which knows the blocks, can find out which. If one side
//! cannot be read another may.

use crate::error::ErrorKind;
use crate::gather::Gather;
use crate::indirect::Part;
use crate::locate::Source;
use crate::queue::IoClass;
use crate::tree::VdevTree;
use core::ops::Range;
use device::AlignedBuf;

/// Why a range cannot be copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RawError {
    /// No such range can be read.
    #[error("vdev {vdev}, offset {offset:#x}: {kind}")]
    Place {
        /// Number of the vdev.
        vdev: u32,
        /// Where the range begins, in bytes.
        offset: u64,
        /// Why.
        kind: ErrorKind,
    },
    /// No side that missed nothing can read it.
    #[error("vdev {vdev}, offset {offset:#x}: no side that has all its data can be read")]
    Unreadable {
        /// Number of the vdev.
        vdev: u32,
        /// Where the range begins, in bytes.
        offset: u64,
    },
    /// The sides of a mirror differ.
    #[error("vdev {vdev}, offset {offset:#x}: the sides of the mirror hold different data")]
    Differ {
        /// Number of the vdev.
        vdev: u32,
        /// The first byte that differs.
        offset: u64,
    },
}

impl VdevTree {
    /// Reads ranges of a vdev that is a device or a mirror, without verifying anything but that all
    /// sides agree. All of them are in memory at the same time: the caller bounds that. Must not be
    /// called from a device's completion.
    ///
    /// # Errors
    /// The first range that could not be read; what is left of the others is of no use then.
    pub fn read_raw(&self, vdev: u32, ranges: &[Range<u64>]) -> Result<Vec<AlignedBuf>, RawError> {
        let mut gather = Gather::bulk(self.rt(), IoClass::Removal);
        let mut by_range = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut requests = Vec::new();
            for source in self.whole_sides(vdev, range)? {
                let Some(queue) = self.nodes.get(source.node).and_then(|n| n.queue.as_ref()) else {
                    continue;
                };
                let len = range.end.saturating_sub(range.start);
                let request = gather.add(source.node, queue, source.offset, len);
                requests.push((source.node, request));
            }
            by_range.push(requests);
        }
        let pending = gather.start();
        let mut out = Vec::with_capacity(ranges.len());
        for (range, requests) in ranges.iter().zip(by_range) {
            let mut found: Option<AlignedBuf> = None;
            for (node, request) in requests {
                match (pending.take(request), &found) {
                    (Ok(bytes), Some(first)) => {
                        let differs = bytes.iter().zip(first.iter()).position(|(a, b)| a != b);
                        if let Some(at) = differs {
                            let offset = range.start.saturating_add(at as u64);
                            return Err(RawError::Differ { vdev, offset });
                        }
                    }
                    (Ok(bytes), None) => found = Some(bytes),
                    (Err(e), _) => {
                        if let Some(node) = self.nodes.get(node) {
                            node.health.read_failed(&e);
                        }
                    }
                }
            }
            out.push(found.ok_or(RawError::Unreadable { vdev, offset: range.start })?);
        }
        Ok(out)
    }

    /// The devices that hold a range and have missed nothing.
    fn whole_sides(&self, vdev: u32, range: &Range<u64>) -> Result<Vec<Source>, RawError> {
        let (offset, size) = (range.start, range.end.saturating_sub(range.start));
        let part = Part { vdev, offset, size, txg: 0 };
        let bad = |kind| RawError::Place { vdev, offset, kind };
        let piece = self.place(part, 0, 0).map_err(bad)?;
        let columns = piece.map.stripes.iter().flat_map(|s| &s.columns);
        let sources = columns.flat_map(|c| self.sources(&piece, c.child, c.offset, c.size, 0));
        let is_whole = |s: &Source| {
            let node = self.nodes.get(s.node);
            let is_whole = node.is_some_and(|n| !n.is_stale(0) && !n.health.has_missed_any());
            s.open && is_whole
        };
        Ok(sources.filter(is_whole).collect())
    }

    /// The txgs that wrote what is at an address: that of the block, and those that copied parts
    /// of it off removed vdevs. A device that missed one of them may lack a part of the block.
    #[must_use]
    pub fn written_in(&self, dva: ondisk::Dva, birth: u64) -> Vec<u64> {
        let part = Part { vdev: dva.vdev(), offset: dva.offset(), size: dva.asize(), txg: 0 };
        let parts = self.follow(part).unwrap_or_default();
        let mut out: Vec<u64> = parts.iter().map(|p| birth.max(p.txg)).collect();
        out.push(birth);
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Something was copied off a removed vdev in this txg or later.
    #[must_use]
    pub fn has_moved_since(&self, txg: u64) -> bool {
        let mappings = self.nodes.iter().filter_map(|n| match &n.role {
            crate::tree::Role::Indirect(Some(mapping)) => Some(mapping),
            _ => None,
        });
        mappings.flat_map(|m| m.segments()).any(|s| s.txg >= txg)
    }
}
