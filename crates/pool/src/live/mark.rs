//! Marking a pool as destroyed that cannot be opened for writing.

use super::import::watch;
use crate::assemble::Candidate;
use crate::error::{Error, Result};
use crate::scan::read_labels;
use device::{DeviceRef, DeviceSource};
use ondisk::config::{LabelConfig, PoolConfig, PoolState};
use ondisk::nvlist::{NvList, NvValue};
use rt::Rt;
use std::sync::Arc;
use vdev::label::{LabelError, Round, write_config};

/// Says in the labels of all devices that were found that the pool is destroyed, and nothing else:
/// its content stays as it is, and `zpool import -D` finds it.
///
/// # Errors
/// Another host writes to the pool (multihost), or a device cannot be opened or written to; others
/// may be marked by then.
pub fn mark_destroyed(rt: &Rt, candidate: &Candidate, source: &dyn DeviceSource) -> Result<()> {
    let pool = candidate.name().to_owned();
    watch(rt, candidate, &pool)?;
    let mut devices = Vec::new();
    for (guid, seen) in &candidate.leaves {
        let cause = |cause| Error::Device { pool: pool.clone(), cause };
        devices.push((*guid, source.claim(&seen.path).map_err(cause)?));
    }
    for (guid, device) in devices {
        let is_its_own =
            |c: &PoolConfig| c.pool_guid == candidate.config.pool_guid && c.guid == Some(guid);
        let label = newest_label(&Arc::clone(&device).as_device(), is_its_own);
        // It was there a moment ago, so something else has the device now.
        let Some(mut list) = label else { return Err(Error::InUse { pool }) };
        list.set("state", NvValue::U64(PoolState::Destroyed.number()));
        let write = || -> std::result::Result<(), LabelError> {
            write_config(device.as_ref(), &list, Round::First)?;
            device.flush()?;
            write_config(device.as_ref(), &list, Round::Second)?;
            Ok(device.flush()?)
        };
        write().map_err(|e| Error::failed(&pool, "writing labels", e))?;
    }
    Ok(())
}

/// The newest configuration of the pool in the labels of a device, as it is stored.
fn newest_label(device: &DeviceRef, is_its_own: impl Fn(&PoolConfig) -> bool) -> Option<NvList> {
    let txg = |config: &LabelConfig| match config {
        LabelConfig::Member(c) => is_its_own(c).then_some(c.txg),
        LabelConfig::Aux(_) => None,
    };
    let labels = read_labels(device).into_iter();
    let members = labels.filter_map(|l| Some((txg(l.config.as_ref().ok()?)?, l.nvlist?)));
    members.max_by_key(|(txg, _)| *txg).map(|(_, list)| list)
}
