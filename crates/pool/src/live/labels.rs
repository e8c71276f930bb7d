//! What the labels of a device say that it is to a pool; those of spares and cache devices.

use super::LivePool;
use super::config::Builder;
use crate::assemble::Candidate;
use crate::error::Result;
use crate::open::Pool;
use crate::scan::look_at_device;
use device::{DeviceSource, WriteDeviceRef};
use ondisk::config::{LabelConfig, PoolState, VdevConfig};
use ondisk::nvlist::NvList;
use std::sync::Arc;
use vdev::label;

/// Sector exponent in the label of a cache device.
const AUX_ASHIFT: u64 = 12;

/// What the labels of a spare or a cache device say, which belongs to no vdev.
pub(super) fn aux_label(state: PoolState, guid: u64, path: &str) -> NvList {
    let label = Builder::new().u64("version", 5000).u64("state", state.number());
    let label = label.u64("guid", guid).text("path", path);
    match state {
        PoolState::L2cache => label.u64("ashift", AUX_ASHIFT).done(),
        _ => label.done(),
    }
}

fn config_of(device: &WriteDeviceRef) -> Option<LabelConfig> {
    let found = look_at_device(&Arc::clone(device).as_device(), "".into());
    found.map(|found| found.config)
}

/// The guid that a device has as a spare or cache device, by its label.
pub(super) fn aux_guid(device: &WriteDeviceRef, state: PoolState) -> Option<u64> {
    match config_of(device)? {
        LabelConfig::Aux(label) if label.state == state => Some(label.guid),
        _ => None,
    }
}

/// Which spare of a pool, by its guid, a device with this label is. `root` and `spares` are what
/// the pool consists of.
///
/// A spare that is in use has the label of a leaf, so that others that share it find it taken. One
/// that was given back while it was away has that label still: it is a spare that waits when the
/// label is of this pool, and the pool has no such leaf any more. The label of a leaf of another
/// pool says that the spare is in use there, whatever this pool's list says.
pub(super) fn spare_by_label(
    label: &LabelConfig,
    root: &VdevConfig,
    spares: &[VdevConfig],
) -> Option<u64> {
    let guid = match label {
        LabelConfig::Aux(label) if label.state == PoolState::Spare => label.guid,
        LabelConfig::Member(_) => given_back(label, root)?,
        LabelConfig::Aux(_) => return None,
    };
    spares.iter().any(|spare| spare.guid == guid).then_some(guid)
}

/// The guid of the leaf that a label of the pool `root` names, and that the pool has not any more.
pub(super) fn given_back(label: &LabelConfig, root: &VdevConfig) -> Option<u64> {
    match label {
        LabelConfig::Member(label) if label.pool_guid == root.guid => {
            label.guid.filter(|guid| root.find(*guid).is_none())
        }
        _ => None,
    }
}

/// Clears the labels of the leaf `guid`, which was taken out of `pool`, unless it has others by
/// now.
pub(super) fn clear_leaf(device: &WriteDeviceRef, pool: u64, guid: u64) {
    match config_of(device) {
        Some(LabelConfig::Member(c)) if c.pool_guid == pool && c.guid == Some(guid) => {
            clear(device);
        }
        _ => {}
    }
}

/// Clears the label of a spare or cache device, unless it has another by now.
pub(super) fn clear_aux(device: &WriteDeviceRef, state: PoolState, guid: u64) {
    if aux_guid(device, state) == Some(guid) {
        clear(device);
    }
}

/// The pool goes without the device: what its labels say is of importance to others only.
fn clear(device: &WriteDeviceRef) {
    let _ = label::clear(device.as_ref(), &[0, 1, 2, 3]);
}

impl Pool {
    /// Which of its spares, by guid, a device with this label is. It may be in use.
    #[must_use]
    pub fn spare_by_label(&self, label: &LabelConfig) -> Option<u64> {
        spare_by_label(label, &self.config().vdev_tree, self.spares())
    }
}

impl LivePool {
    /// A device is that spare of the pool, and waits.
    pub(super) fn is_spare_by_label(&self, device: &WriteDeviceRef, spare: u64) -> bool {
        let (root, [spares, _]) = self.members_now();
        let label = config_of(&self.shared.guarded(device));
        label.is_some_and(|label| spare_by_label(&label, &root, &spares) == Some(spare))
    }

    /// Gives a spare that was given back while it was away, and is here again, the label of a spare
    /// that waits: other pools that share it may have it.
    ///
    /// # Errors
    /// The pool takes no changes, or the label cannot be written.
    pub(super) fn relabel_spare(&self, spare: u64, device: WriteDeviceRef) -> Result<()> {
        let (root, _) = self.members_now();
        let label = config_of(&self.shared.guarded(&device));
        if label.is_none_or(|label| given_back(&label, &root) != Some(spare)) {
            return Ok(());
        }
        // In a sync task, as all that makes a spare a leaf.
        self.shared.run_keeping_datasets(move |cx| {
            let shared = cx.shared;
            let root = shared.config.lock().root.clone();
            let spares = shared.aux.lock()[0].clone();
            let listed = spares.iter().find(|listed| listed.guid == spare);
            let device = shared.guarded(&device);
            let is_given_back =
                config_of(&device).is_some_and(|label| given_back(&label, &root) == Some(spare));
            let Some(listed) = listed.filter(|_| is_given_back) else { return Ok(()) };
            let label = aux_label(PoolState::Spare, spare, listed.path.as_deref().unwrap_or(""));
            let written = label::initialise(device.as_ref(), &label);
            written.map_err(|e| shared.failed("writing labels", e))
        })
    }

    /// The same for all that an import finds.
    pub(super) fn relabel_spares(&self, found: &Candidate, source: &dyn DeviceSource) {
        let (root, [spares, _]) = self.members_now();
        let waiting =
            spares.iter().map(|spare| spare.guid).filter(|guid| root.find(*guid).is_none());
        for spare in waiting {
            let Some(sight) = found.leaves.get(&spare) else { continue };
            // One that cannot be written to now is a spare all the same.
            if let Ok(device) = source.claim(&sight.path) {
                let _ = self.relabel_spare(spare, device);
            }
        }
    }

    /// Writes all labels of all devices anew, as part of a txg.
    pub fn rewrite_labels(&self) -> Result<()> {
        self.shared.run_keeping_datasets(move |cx| {
            cx.shared.config.lock().dirty = true;
            Ok(())
        })
    }
}
