//! What `zpool status -i` and `-t` say of devices: how far their free space is initialized and
//! trimmed.

use super::view::{VdevTreeView, VdevView};
use crate::leaf_work::{LeafProgress, LeafWork, WorkState};
use crate::open::Pool;
use dsl::nicenum::ctime;
use ondisk::config::{VdevConfig, VdevKind};

/// What is shown, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkNotes {
    /// How far each device is initialized; otherwise only that it is under way.
    pub initialize: bool,
    /// The same of trim.
    pub trim: bool,
    /// Seconds that local time is ahead of UTC.
    pub utc_offset: i64,
}

/// Bytes of a device of this top-level vdev that are for data.
fn size_of_leaf(top: &VdevConfig) -> u64 {
    let columns = match top.kind {
        VdevKind::Raidz { .. } | VdevKind::Draid { .. } => top.children.len().max(1) as u64,
        _ => 1,
    };
    top.asize.unwrap_or(0) / columns
}

fn note(work: LeafWork, now: &LeafProgress, size: u64, notes: &WorkNotes) -> Option<String> {
    let (is_wanted, did, doing) = match work {
        LeafWork::Initialize => (notes.initialize, "initialized", "(initializing)"),
        LeafWork::Trim => (notes.trim, "trimmed", "(trimming)"),
    };
    if !is_wanted {
        return (now.state == WorkState::Active).then(|| doing.to_owned());
    }
    let when = match now.state {
        WorkState::None | WorkState::Canceled => return Some(format!("(un{did})")),
        WorkState::Suspended => "suspended, started at",
        WorkState::Active => "started at",
        WorkState::Complete => "completed at",
    };
    let date = ctime(now.time.saturating_add_signed(notes.utc_offset));
    Some(format!("({}% {did}, {when} {date})", now.percent(size)))
}

impl Pool {
    /// Says behind each device how far the work on its free space is.
    pub fn note_works(&self, view: &mut VdevTreeView, notes: &WorkNotes) {
        for top in &self.config().vdev_tree.children {
            let size = size_of_leaf(top);
            for leaf in top.walk().filter(|v| v.kind.is_leaf()) {
                for work in [LeafWork::Initialize, LeafWork::Trim] {
                    let now = self.leaf_progress(leaf.guid, work);
                    let note = now.and_then(|now| note(work, &now, size, notes));
                    let sections = view.sections.iter_mut().flatten();
                    if let (Some(note), Some(v)) = (note, find(sections, leaf.guid)) {
                        let gap = if v.remark.is_empty() { "" } else { "  " };
                        v.remark = format!("{}{gap}{note}", v.remark);
                    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_those_of_openzfs() {
        let notes = WorkNotes { initialize: true, ..WorkNotes::default() };
        let text = |state, offset| {
            let now = LeafProgress { state, offset, ..LeafProgress::default() };
            note(LeafWork::Initialize, &now, 1 << 30, &notes).unwrap_or_default()
        };
        assert_eq!(text(WorkState::None, 0), "(uninitialized)");
        let half = (4 << 20) + (1 << 29);
        assert!(text(WorkState::Active, half).starts_with("(50% initialized, started at Thu Jan"));
        assert!(text(WorkState::Suspended, half).contains(", suspended, started at"));
        assert!(text(WorkState::Complete, 0).starts_with("(100% initialized, completed at"));
        let now = LeafProgress { state: WorkState::Active, ..LeafProgress::default() };
        assert_eq!(note(LeafWork::Trim, &now, 1, &notes).as_deref(), Some("(trimming)"));
    }
}
