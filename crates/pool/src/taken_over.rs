//! Devices that another writer has taken over.

use device::DeviceRef;
use vdev::VdevTree;

/// Another writer has taken over a device of these.
pub(crate) fn is_taken_over(vdevs: &VdevTree) -> bool {
    taken_over(vdevs).next().is_some()
}

/// Which writer has taken over which device of these, as far as its store has said that.
pub(crate) fn who_took_over(vdevs: &VdevTree) -> Option<String> {
    taken_over(vdevs).find_map(|device| {
        let who = device.held_elsewhere()?;
        Some(format!("{who} has taken over {}", device.name()))
    })
}

fn taken_over(vdevs: &VdevTree) -> impl Iterator<Item = &DeviceRef> {
    let devices = vdevs.leaves().filter_map(|leaf| leaf.device());
    devices.filter(|device| device.stats().store.is_some_and(|store| store.takeovers > 0))
}
