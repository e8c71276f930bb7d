//! The background activities of a pool, and how much work is left of each.

pub use crate::waiting::{wait_for_discard, wait_for_removal, wait_for_scans, wait_for_work};

use crate::error::Result;
use crate::pools::{CheckpointState, Function, LeafWork, ScanProgress, ScanState, WorkState};
use crate::{Error, Pool};
use ondisk::config::VdevKind;

/// The background activities of a pool, in the order of the columns.
///
/// ```
/// use engine::activity::Activity;
///
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// pool.scrub()?;
/// // Some bytes are left, or it is over already.
/// let _ = Activity::Scrub.left(&pool.look()?, pool.scan().is_some())?;
/// pool.wait_for_scan()?;
/// for activity in Activity::ALL {
///     assert_eq!(activity.left(&pool.look()?, false)?, None, "{}", activity.name());
/// }
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A checkpoint is given up.
    Discard,
    /// Destroyed datasets and files are freed.
    Free,
    /// Devices are initialized.
    Initialize,
    /// Devices are replaced.
    Replace,
    /// A vdev with data is removed.
    Remove,
    /// A resilver.
    Resilver,
    /// A scrub.
    Scrub,
    /// Devices are trimmed.
    Trim,
    /// A raidz gets wider.
    Expand,
}

impl Activity {
    /// All, in their order.
    pub const ALL: [Self; 9] = [
        Self::Discard,
        Self::Free,
        Self::Initialize,
        Self::Replace,
        Self::Remove,
        Self::Resilver,
        Self::Scrub,
        Self::Trim,
        Self::Expand,
    ];

    /// Its name, as OpenZFS has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Discard => "discard",
            Self::Free => "free",
            Self::Initialize => "initialize",
            Self::Replace => "replace",
            Self::Remove => "remove",
            Self::Resilver => "resilver",
            Self::Scrub => "scrub",
            Self::Trim => "trim",
            Self::Expand => "raidz_expand",
        }
    }

    /// Bytes that are left; `None` when it does not go on.
    /// `is_scanning`: a scan runs, or is about to.
    ///
    /// # Errors
    /// The state of it cannot be read.
    pub fn left(self, seen: &Pool, is_scanning: bool) -> Result<Option<u64>> {
        Ok(match self {
            Self::Discard => {
                let is_discarding = seen.checkpoint_state() == CheckpointState::Discarding;
                is_discarding.then(|| seen.space().checkpoint())
            }
            Self::Free => Some(seen.freeing()).filter(|left| *left > 0),
            Self::Initialize => left_of_works(seen, LeafWork::Initialize),
            Self::Trim => left_of_works(seen, LeafWork::Trim),
            Self::Replace => {
                let replaces = |kind: &VdevKind| matches!(kind, VdevKind::Replacing);
                let is_replacing = seen.config().vdev_tree.walk().any(|v| replaces(&v.kind));
                match is_replacing {
                    true => Some(left_of_scan(seen, Function::Resilver, true)?.unwrap_or(0)),
                    false => None,
                }
            }
            Self::Remove => {
                let removal = seen.removal().map_err(Error::from)?.map(|r| r.state);
                let removal = removal.filter(|r| r.state() == ScanProgress::Active);
                removal.map(|r| r.to_copy.saturating_sub(r.copied))
            }
            Self::Resilver => match left_of_rebuilds(seen)? {
                None => left_of_scan(seen, Function::Resilver, is_scanning)?,
                left => left,
            },
            Self::Scrub => left_of_scan(seen, Function::Scrub, is_scanning)?,
            Self::Expand => {
                let now = seen.expansion().map_err(Error::from)?.map(|e| e.state);
                let now = now.filter(|e| e.state == ScanProgress::Active);
                now.map(|e| seen.space().total().allocated.saturating_sub(e.bytes_copied))
            }
        })
    }
}

/// Bytes that sequential rebuilds have to look at yet.
fn left_of_rebuilds(seen: &Pool) -> Result<Option<u64>> {
    let states = seen.rebuild_states().map_err(Error::from)?.into_iter().map(|(_, s)| s);
    let active = states.filter(|s| s.state() == ScanProgress::Active);
    let left = active.map(|s| s.bytes_estimated.saturating_sub(s.bytes_scanned));
    Ok(left.reduce(u64::saturating_add))
}

fn left_of_works(seen: &Pool, work: LeafWork) -> Option<u64> {
    let leaves = seen.config().vdev_tree.walk().filter(|v| v.kind.is_leaf());
    let active = leaves.filter_map(|leaf| {
        let progress = seen.leaf_progress(leaf.guid, work)?;
        let device = seen.vdevs().leaves().find(|l| l.guid() == leaf.guid)?.device()?.size();
        let is_active = progress.state == WorkState::Active;
        is_active.then(|| device.saturating_sub(progress.offset))
    });
    active.reduce(u64::saturating_add)
}

/// `is_scanning`: one runs, or is about to and says nothing of itself yet.
fn left_of_scan(seen: &Pool, function: Function, is_scanning: bool) -> Result<Option<u64>> {
    let state = seen.scan_state().map_err(Error::from)?;
    let is_paused = |s: &ScanState| s.flags & ScanState::FLAG_PAUSED != 0;
    let goes_on = |s: &ScanState| s.state() == ScanProgress::Active && !is_paused(s);
    Ok(match state.filter(goes_on) {
        Some(now) if now.function() == function => {
            Some(now.to_examine.saturating_sub(now.examined))
        }
        None if is_scanning => Some(0),
        _ => None,
    })
}
