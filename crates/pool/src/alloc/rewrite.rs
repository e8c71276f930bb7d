//! Space maps that are rebuilt, because they are wrong or cannot be read.
//!
//! The allocated ranges of such a metaslab come from a walk that has met every block of the pool;
//! its own map and its entries in logs are not read. The first sync makes a new map for it, and
//! frees the old one.

use super::ranges::Free;
use super::spec::TopSpec;
use super::top::Top;
use std::collections::BTreeMap;

/// The allocated ranges of the metaslabs whose space maps are not trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceMapRebuild {
    /// By vdev and metaslab: first byte of each range and the byte behind it, in order.
    pub allocated: BTreeMap<(u32, u64), Vec<(u64, u64)>>,
    /// Log space maps are ignored, and removed unread. Every metaslab is to be among those above
    /// then.
    pub drop_logs: bool,
}

impl SpaceMapRebuild {
    pub(super) fn has(&self, vdev: u32, metaslab: u64) -> bool {
        self.allocated.contains_key(&(vdev, metaslab))
    }

    /// Gives the metaslabs of a vdev what is free in them.
    pub(super) fn apply(&self, spec: &TopSpec, top: &Top) {
        for ((_, index), allocated) in self.allocated.range((spec.id, 0)..=(spec.id, u64::MAX)) {
            let metaslab = usize::try_from(*index).ok().and_then(|i| top.metaslabs.get(i));
            let Some(metaslab) = metaslab else { continue };
            let mut free = Free::whole(metaslab.start, metaslab.end);
            for (start, end) in allocated {
                let (start, end) = (*start.max(&metaslab.start), *end.min(&metaslab.end));
                if start < end {
                    free.take(start, end);
                }
            }
            metaslab.renew(&top.room, free);
        }
    }
}
