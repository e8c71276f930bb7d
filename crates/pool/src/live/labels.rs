//! What the labels of a device say that it is to a pool, and taking them off it.

use super::LivePool;
use crate::error::Result;
use crate::scan::look_at_device;
use device::WriteDeviceRef;
use ondisk::config::{LabelConfig, PoolState};
use std::sync::Arc;
use vdev::label;

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

impl LivePool {
    /// Writes all labels of all devices anew, as part of a txg.
    pub fn rewrite_labels(&self) -> Result<()> {
        self.shared.run_keeping_datasets(move |cx| {
            cx.shared.config.lock().dirty = true;
            Ok(())
        })
    }
}
