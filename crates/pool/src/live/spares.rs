//! Hot spares: devices that stand in for leaves that failed.
//!
//! # Theory
//!
//! ```text
//!           a leaf fails                    the leaf is back, or another took its
//!   AVAIL ---------------> INUSE: a side    place, and lacks nothing: given back
//!     ^                    of a *spare*  ----------------------------------+
//!     |                    vdev around   ---> the leaf is detached: it is  |
//!     |                    the leaf           a device of the vdev now,    |
//!     |                                       and no spare any more        |
//!     +--------------------------------------------------------------------+
//! ```
//!
//! A spare stays in the pool's list while it is in use, and keeps its guid. Its label says what any
//! leaf's says, so that another pool that has it in its list, too, finds it taken; when it is given
//! back, the label says again that it is a spare. One that is away then gets that label when it is
//! here again, and counts as a spare at once (`labels.rs`).
//!
//! A *distributed* spare has no device and no label: it is the room that its dRAID left free on all
//! its devices, so it stands in for a device of that dRAID only.
//!
//! [`LivePool::take_spares`] is the rule by which spares are taken; the program that holds the
//! pool says when it is applied. As with OpenZFS's event daemon a leaf *fails* also when it is used
//! further in spite of its errors (DEGRADED). It is a side like the spare then, and the spare is
//! given back when its errors are forgotten (`zpool clear`). Log devices have no spares, as in
//! OpenZFS: what would be brought to them is gone with the txg.

use super::LivePool;
use super::config_edit::{AttachKind, parent_of, top_of};
use super::leaves::{is_out_of_use, needs_spare};
use super::new_side::{NewChild, NewChildKind, ResilverKind};
use crate::error::Result;
use crate::refusal::{DeviceFault, VdevFault};
use device::{DeviceSource, WriteDeviceRef};
use ondisk::config::{VdevConfig, VdevKind};
use std::path::Path;

/// A spare that stands in for a leaf from now on: both guids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareTaken {
    /// The leaf that failed.
    pub leaf: u64,
    /// The spare.
    pub spare: u64,
}

impl LivePool {
    /// The spares of the pool that are not in use.
    ///
    /// # Errors
    /// When the pool cannot be looked at.
    pub fn spares_left(&self) -> Result<Vec<VdevConfig>> {
        let seen = self.look()?;
        let root = &seen.config().vdev_tree;
        let left = seen.spares().iter().filter(|s| root.find(s.guid).is_none());
        Ok(left.cloned().collect())
    }

    /// Lets a spare of the pool, by its guid, stand in for a leaf; a distributed one has no device.
    /// What the leaf had is brought to it by a resilver, which begins at once.
    ///
    /// # Errors
    /// When the device is not that spare any more, is too small or fails, or a distributed spare is
    /// of another vdev.
    pub fn take_spare(&self, leaf: u64, spare: u64, device: Option<WriteDeviceRef>) -> Result<()> {
        self.take_spare_by(leaf, spare, device, ResilverKind::Healing)
    }

    /// The same, and how the spare is brought what was on the leaf.
    ///
    /// # Errors
    /// As [`Self::take_spare`]. When the vdev cannot be rebuilt, or the other way is under way.
    pub fn take_spare_by(
        &self,
        leaf: u64,
        spare: u64,
        device: Option<WriteDeviceRef>,
        resilver: ResilverKind,
    ) -> Result<()> {
        self.stand_in(leaf, (spare, device), resilver, false)
    }

    fn stand_in(
        &self,
        leaf: u64,
        (spare, device): (u64, Option<WriteDeviceRef>),
        resilver: ResilverKind,
        only_for_failed: bool,
    ) -> Result<()> {
        let left = self.spares_left()?;
        let Some(config) = left.iter().find(|s| s.guid == spare) else {
            return Err(self.shared.refused(DeviceFault::NotSpare));
        };
        let path = config.path.clone().unwrap_or_default();
        let root = self.shared.config.lock().root.clone();
        let top = top_of(self.shared.pool(), &root, leaf)?;
        if top.is_log {
            return Err(self.shared.refused(VdevFault::SpareOfLog));
        }
        let what = match (&config.kind, device) {
            (VdevKind::DraidSpare { top_guid, .. }, _) if *top_guid != top.guid => {
                return Err(self.shared.refused(VdevFault::SpareOfOtherDraid));
            }
            (VdevKind::DraidSpare { top_guid, spare_id }, _) => {
                NewChildKind::Distributed { top: *top_guid, id: *spare_id }
            }
            (kind, Some(device)) if self.is_spare_by_label(&device, spare) => {
                NewChildKind::Device { is_file: matches!(kind, VdevKind::File), device }
            }
            _ => {
                return Err(self.shared.refused(DeviceFault::NotSpareByLabel));
            }
        };
        let new = NewChild { guid: spare, path, what, resilver, only_for_failed };
        self.shared.attach((leaf, AttachKind::Spare), &new)?;
        self.shared.post_device("vdev_spare", spare);
        self.start_resilver(resilver)
    }

    /// Lets spares stand in for all leaves that need one and have none, as far as there are spares
    /// that fit. A leaf that the administrator took out is left alone, and one that comes back
    /// meanwhile keeps its place. `source` has the spares under their paths.
    ///
    /// # Errors
    /// When the pool cannot be looked at. A spare that cannot be used is passed over.
    pub fn take_spares(&self, source: &dyn DeviceSource) -> Result<Vec<SpareTaken>> {
        let mut taken = Vec::new();
        // A pool with a checkpoint takes none.
        if self.shared.check_no_checkpoint().is_err() {
            return Ok(taken);
        }
        let mut left = match self.leaves_without_spare().is_empty() {
            true => return Ok(taken),
            false => self.spares_left()?,
        };
        for leaf in self.leaves_without_spare() {
            let used = left.iter().position(|spare| {
                if matches!(spare.kind, VdevKind::DraidSpare { .. }) {
                    // Its dRAID is rebuilt fastest in order, when nothing stands in the way.
                    let mut ways = [ResilverKind::Sequential, ResilverKind::Healing].into_iter();
                    return ways
                        .any(|by| self.stand_in(leaf, (spare.guid, None), by, true).is_ok());
                }
                let Some(path) = spare.path.as_deref() else { return false };
                let claimed = source.claim(Path::new(path));
                claimed.is_ok_and(|device| {
                    let with = (spare.guid, Some(device));
                    self.stand_in(leaf, with, ResilverKind::Healing, true).is_ok()
                })
            });
            if let Some(at) = used {
                taken.push(SpareTaken { leaf, spare: left.remove(at).guid });
            }
        }
        Ok(taken)
    }

    /// Leaves that are out of use, not by the administrator's will, or used in spite of too many
    /// errors, and nothing stands in for them.
    #[must_use]
    pub fn leaves_without_spare(&self) -> Vec<u64> {
        let tree = self.shared.reader.vdevs();
        let root = self.shared.config.lock().root.clone();
        let is_out = |guid: u64| is_out_of_use(&tree, guid);
        let is_alone = |guid: u64| match parent_of(&root, guid) {
            // Another spare when all that stand in failed as well; one that is being replaced has
            // what comes in its place.
            Some(v) if matches!(v.kind, VdevKind::Spare | VdevKind::Replacing) => {
                let [own, others @ ..] = v.children.as_slice() else { return false };
                own.guid == guid && others.iter().all(|side| is_out(side.guid))
            }
            _ => true,
        };
        let leaves = root.walk().filter(|v| v.kind.is_leaf() && !v.offline && !v.is_spare);
        let pool = self.shared.pool();
        let has_top = |guid: u64| top_of(pool, &root, guid).is_ok_and(|top| !top.is_log);
        let failed = leaves.map(|v| v.guid).filter(|guid| needs_spare(&tree, *guid));
        failed.filter(|guid| has_top(*guid) && is_alone(*guid)).collect()
    }
}
