//! How far the free space of devices is initialized and trimmed.

use super::view::{VdevTreeView, VdevView, WorkProgress};
use crate::leaf_work::LeafWork;
use crate::open::Pool;
use ondisk::config::{VdevConfig, VdevKind};

/// Bytes of a device of this top-level vdev that are for data.
fn size_of_leaf(top: &VdevConfig) -> u64 {
    let columns = match top.kind {
        VdevKind::Raidz { .. } | VdevKind::Draid { .. } => top.children.len().max(1) as u64,
        _ => 1,
    };
    top.asize.unwrap_or(0) / columns
}

impl Pool {
    /// Adds to each device how far the work on its free space is.
    pub fn add_work_progress(&self, view: &mut VdevTreeView) {
        for top in &self.config().vdev_tree.children {
            let size = size_of_leaf(top);
            for leaf in top.walk().filter(|v| v.kind.is_leaf()) {
                let progress = |work| Some((work, self.leaf_progress(leaf.guid, work)?));
                let works = [LeafWork::Initialize, LeafWork::Trim].into_iter().filter_map(progress);
                let seen = works.map(|(work, progress)| WorkProgress { work, progress, size });
                if let Some(v) = find(view.sections.iter_mut().flatten(), leaf.guid) {
                    v.works = seen.collect();
                }
            }
        }
    }
}

// Depth is bounded: the configuration's decoder limits it.
fn find<'v>(
    mut views: impl Iterator<Item = &'v mut VdevView>,
    guid: u64,
) -> Option<&'v mut VdevView> {
    views.find_map(|v| match v.guid == guid {
        true => Some(v),
        false => find_below(v, guid),
    })
}

fn find_below(v: &mut VdevView, guid: u64) -> Option<&mut VdevView> {
    v.children.iter_mut().find_map(|child| match child.guid == guid {
        true => Some(child),
        false => find_below(child, guid),
    })
}
