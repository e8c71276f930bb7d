//! A device that comes to a vdev: as a configuration, and in the tree. `attach.rs` has the theory.

use super::config::Builder;
use super::config_edit::{bad, top_of};
use super::new_vdevs::{DEVICE_MIN, new_vdev_zap, set_member};
use super::shared::{Shared, TaskCx};
use crate::error::Result;
use crate::refusal::DeviceFault;
use device::WriteDeviceRef;
use ondisk::config::{PoolState, VdevConfig};
use std::sync::Arc;
use vdev::{LeafOpen, VdevTree, label};

/// How a device that comes is brought what it lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResilverKind {
    /// By a resilver, which follows pointers and verifies blocks.
    #[default]
    Healing,
    /// By a rebuild, which copies what is allocated in its order, and then a scrub.
    Sequential,
}

/// A device that comes.
#[derive(Clone)]
pub(super) struct NewChild {
    pub(super) guid: u64,
    pub(super) path: String,
    pub(super) what: NewChildKind,
    pub(super) resilver: ResilverKind,
    /// It comes only if the leaf that it is put beside still needs a spare then.
    pub(super) only_for_failed: bool,
}

/// What it is.
#[derive(Clone)]
pub(super) enum NewChildKind {
    /// A device, which is called a file in its labels, or a disk.
    Device { is_file: bool, device: WriteDeviceRef },
    /// Distributed spare `id` of the dRAID with this guid, which has no device of its own.
    Distributed { top: u64, id: u64 },
}

impl NewChild {
    /// Its configuration, as the side of a vdev.
    pub(super) fn config(&self, txg: u64) -> Builder {
        let kind = match self.what {
            NewChildKind::Device { is_file: true, .. } => "file",
            NewChildKind::Device { .. } => "disk",
            NewChildKind::Distributed { .. } => "dspare",
        };
        let new = Builder::new().text("type", kind).u64("id", 0).u64("guid", self.guid);
        let new = new.text("path", &self.path);
        let new = match self.what {
            NewChildKind::Device { .. } => new.u64("whole_disk", 0),
            NewChildKind::Distributed { top, id } => {
                new.u64("top_guid", top).u64("spareid", id).u64("whole_disk", 1)
            }
        };
        new.u64("create_txg", txg)
    }

    pub(super) fn device(&self) -> Option<&WriteDeviceRef> {
        match &self.what {
            NewChildKind::Device { device, .. } => Some(device),
            NewChildKind::Distributed { .. } => None,
        }
    }
}

impl TaskCx<'_> {
    /// Makes a side one of the pool, whose vdevs are to be these: its device gets labels, and its
    /// configuration a table.
    pub(super) fn take_in(
        &self,
        planned: &VdevConfig,
        side: &NewChild,
        new: &mut VdevConfig,
    ) -> Result<()> {
        if let Some(device) = side.device().map(|device| self.shared.guarded(device)) {
            let facts = self.shared.config.lock().facts.clone();
            let top = top_of(self.shared.pool(), planned, side.guid)?;
            let list = facts.for_label(PoolState::Active, 0, planned, top, side.guid);
            let written = label::initialise(device.as_ref(), &list);
            written.map_err(|e| self.shared.failed("writing labels", e))?;
        }
        if let Some(map) = self.zap_map()? {
            let zap = new_vdev_zap(self.objects(), self.tx, map)?;
            set_member(self.objects(), new, "com.delphix:vdev_zap_leaf", zap)?;
        }
        Ok(())
    }
}

impl Shared {
    /// The vdevs as they are planned, with the device of a side that comes.
    pub(super) fn tree_with(&self, planned: &VdevConfig, side: &NewChild) -> Result<VdevTree> {
        let mut open = |c: &VdevConfig| {
            let device = side.device().filter(|_| c.guid == side.guid)?;
            Some(LeafOpen::Writable(Arc::clone(device)))
        };
        let ashift = top_of(self.pool(), planned, side.guid)?.ashift.unwrap_or(9).min(63);
        if side.device().is_some_and(|d| u64::from(d.sector_size()) > 1 << ashift) {
            return Err(self.refused(DeviceFault::LargerSectors));
        }
        // OpenZFS looks at none that is smaller, though the vdev may have less.
        if side.device().is_some_and(|d| d.size() < DEVICE_MIN) {
            return Err(self.refused(DeviceFault::TooSmall));
        }
        let tree = self.reader.vdevs();
        let next = tree.successor(&self.rt, planned, &mut open).map_err(|e| bad(&e))?;
        match next.is_written(side.guid) {
            true => Ok(next),
            false => Err(self.refused(DeviceFault::TooSmall)),
        }
    }
}
