//! The space that blocks take, for rebuilding space maps, the counts of shared ones, and what no
//! block needs of removed vdevs.

use crate::claims::Claims;
use crate::removed::VdevRanges;
use crate::shared_counts::SharedCounts;
use crate::space::Bitmap;
use std::collections::BTreeMap;

/// The space of each vdev that is taken by the blocks that were visited. If some could not be read,
/// the blocks below them were not visited, and all space that the space maps have as allocated
/// counts as taken too; so it does while a dedup table names blocks that nothing refers to.
pub struct UsedSpace {
    vdevs: BTreeMap<u32, Bitmap>,
    complete: bool,
    shared: SharedCounts,
    unused: VdevRanges,
}

impl UsedSpace {
    pub(crate) fn new(
        claims: Claims<'_>,
        maps: &BTreeMap<u32, Bitmap>,
        complete: bool,
        (shared, unused): (SharedCounts, VdevRanges),
    ) -> Self {
        let vdevs = claims.into_taken();
        if !complete {
            for (id, map) in maps {
                let Some(taken) = vdevs.get(id) else { continue };
                for (from, to) in map.minus(&Bitmap::like(map)) {
                    // Both are of one vdev, so it fits.
                    let _ = taken.set(from, to - from);
                }
            }
        }
        Self { vdevs, complete, shared, unused }
    }

    /// What the tables of shared blocks are to say.
    #[must_use]
    pub fn shared(&self) -> &SharedCounts {
        &self.shared
    }

    /// What is to be recorded as obsolete of removed vdevs of which something else is: first byte
    /// and the byte behind of ranges, in order.
    #[must_use]
    pub fn obsolete(&self) -> &BTreeMap<u32, Vec<(u64, u64)>> {
        &self.unused
    }

    /// Nothing else is taken.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The parts of a range of a vdev that are taken: first byte and the byte behind, in order.
    #[must_use]
    pub fn ranges(&self, vdev: u32, from: u64, to: u64) -> Vec<(u64, u64)> {
        let Some(map) = self.vdevs.get(&vdev) else { return Vec::new() };
        let mut out = Vec::new();
        let mut at = from;
        let to = to.min(map.size());
        for (start, size) in map.gaps(from, to).into_iter().chain([(to, 0)]) {
            if at < start {
                out.push((at, start));
            }
            at = start.saturating_add(size);
        }
        out
    }
}
