//! Pools of simulated disks: each of them a top-level vdev.

use engine::inside::device::WriteDeviceRef;
use engine::live::{Devices, NewTop, SpaceClass, VdevSpec};

/// What a pool is created of that is striped over these disks, by the paths they are to have.
pub(crate) fn striped(
    disks: impl IntoIterator<Item = (String, WriteDeviceRef)>,
) -> (Devices, Vec<NewTop>) {
    let one = |(path, disk): (String, WriteDeviceRef)| {
        let spec = VdevSpec::Leaf { path: path.clone(), is_file: false };
        ((path, disk), NewTop { spec, class: SpaceClass::Normal })
    };
    disks.into_iter().map(one).unzip()
}
