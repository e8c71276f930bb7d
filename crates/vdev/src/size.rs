//! How large the devices of a vdev must be.
//!
//! A label has the allocatable size of its top-level vdev, not the size of each device. Only whole
//! metaslabs are allocated from, so a device may have lost everything behind the last one.

use crate::draid::ROW_HEIGHT;
use crate::map::LABEL_START_SIZE;
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::label::{END_SIZE, LABEL_SIZE, data_size};

/// Bytes that each child of a dRAID has besides its rows: room for a future change of its shape.
const DRAID_RESERVE: u64 = 32 << 20;

/// Bytes that a device below the top-level vdev `top` has at least, labels included; 0 if the
/// configuration does not have the size of the vdev.
#[must_use]
pub fn device_size_min(top: &VdevConfig) -> u64 {
    let Some(asize) = top.asize.filter(|n| *n > 0) else { return 0 };
    let shift = top.metaslab_shift.filter(|s| (1..64).contains(s)).unwrap_or(0);
    let used = asize >> shift << shift;
    let children = columns(top);
    let own = match top.kind {
        VdevKind::Raidz { .. } => used.div_ceil(children),
        VdevKind::Draid { nparity, ndata, nspares, .. } => {
            let disks = children.saturating_sub(u64::from(nspares)).max(1);
            let width = (u64::from(nparity) + u64::from(ndata)).max(1);
            // As many whole rows as these whole groups need: see `draid_asize`.
            let groups = used.div_ceil(width.saturating_mul(ROW_HEIGHT));
            let rows = groups.saturating_mul(width).div_ceil(disks);
            rows.saturating_mul(ROW_HEIGHT).saturating_add(DRAID_RESERVE)
        }
        _ => used,
    };
    // What a device has behind its last whole label is not used.
    let own = own.saturating_add(LABEL_START_SIZE + END_SIZE);
    own.checked_next_multiple_of(LABEL_SIZE).unwrap_or(u64::MAX)
}

/// Children over which the space of a vdev is spread. A child that is being spread onto counts when
/// that has ended.
fn columns(top: &VdevConfig) -> u64 {
    (top.children.len() as u64).saturating_sub(u64::from(top.raidz_expanding)).max(1)
}

/// Bytes that the top-level vdev `top` could have on devices of these sizes, each asked for by the
/// guid of its leaf; `None` when one is not known, or the vdev has a shape that does not grow.
#[must_use]
pub fn asize_max(top: &VdevConfig, size: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
    match top.kind {
        VdevKind::Raidz { .. } => {
            let smallest = smallest(&top.children, size)?;
            smallest.checked_mul(columns(top))
        }
        VdevKind::Draid { nparity, ndata, nspares, .. } => {
            let smallest = smallest(&top.children, size)?;
            let disks = (top.children.len() as u64).checked_sub(u64::from(nspares))?;
            draid_asize(smallest, disks, u64::from(nparity) + u64::from(ndata))
        }
        VdevKind::Mirror | VdevKind::Disk | VdevKind::File => room_of(top, size),
        // A replacement of it grows with it, at the top as well as below.
        VdevKind::Replacing | VdevKind::Spare => room_of(top, size),
        _ => None,
    }
}

/// Bytes of a dRAID with this many children besides the spares, the smallest of which has room
/// for `child` bytes: whole rows, and whole groups, which are `width` columns wide.
#[must_use]
pub fn draid_asize(child: u64, disks: u64, width: u64) -> Option<u64> {
    let rows = child.checked_sub(DRAID_RESERVE)? / ROW_HEIGHT;
    let groups = rows.checked_mul(disks)?.checked_div(width)?;
    groups.checked_mul(width)?.checked_mul(ROW_HEIGHT)
}

/// The same of a vdev whose sides hold the same. The depth of a configuration is bounded.
fn room_of(vdev: &VdevConfig, size: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
    match vdev.kind {
        VdevKind::Disk | VdevKind::File => Some(data_size(size(vdev.guid)?)),
        VdevKind::Mirror | VdevKind::Replacing | VdevKind::Spare => smallest(&vdev.children, size),
        // As large as the smallest of the others.
        VdevKind::DraidSpare { .. } => Some(u64::MAX),
        _ => None,
    }
}

fn smallest(vdevs: &[VdevConfig], size: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
    let rooms: Option<Vec<u64>> = vdevs.iter().map(|vdev| room_of(vdev, size)).collect();
    rooms?.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::{asize_max, device_size_min};
    use ondisk::config::{VdevConfig, VdevKind};
    use ondisk::nvlist::{NvList, NvValue};

    fn vdev(kind: VdevKind, children: usize, asize: u64) -> VdevConfig {
        let mut list = NvList::new();
        list.set("type", NvValue::String(b"disk".to_vec()));
        list.set("id", NvValue::U64(0)).set("guid", NvValue::U64(1));
        let leaf = VdevConfig::decode(&list).expect("a vdev");
        let (asize, metaslab_shift) = (Some(asize), Some(20));
        VdevConfig { kind, asize, metaslab_shift, children: vec![leaf.clone(); children], ..leaf }
    }

    #[test]
    fn every_device_has_its_share_and_its_labels() {
        const LABELS: u64 = (4 << 20) + (512 << 10);
        let min = |kind, n, asize| device_size_min(&vdev(kind, n, asize));
        // The space behind the last metaslab is not used.
        assert_eq!(min(VdevKind::Disk, 0, (9 << 20) + 1000), (9 << 20) + LABELS);
        assert_eq!(min(VdevKind::Mirror, 3, 9 << 20), (9 << 20) + LABELS);
        assert_eq!(min(VdevKind::Raidz { nparity: 1 }, 3, 9 << 20), (3 << 20) + LABELS);
        // A column of a raidz need not be whole labels, and a device is.
        assert_eq!(min(VdevKind::Raidz { nparity: 1 }, 3, 10 << 20), (3584 << 10) + LABELS);
        assert_eq!(min(VdevKind::Disk, 0, 0), 0, "nothing is known");
    }

    #[test]
    fn devices_of_a_draid_have_whole_rows() {
        const LABELS: u64 = (4 << 20) + (512 << 10);
        let (nparity, ndata, nspares, disks) = (1, 4, 1, 8);
        for child in (48 << 20..400 << 20).step_by(3 << 20) {
            let Some(asize) = super::draid_asize(child, disks, 5).filter(|n| *n > 0) else {
                continue;
            };
            let kind = VdevKind::Draid { nparity, ndata, nspares, ngroups: 1 };
            let mut top = vdev(kind, 9, asize);
            for shift in [20, 24, 26] {
                top.metaslab_shift = Some(shift);
                let least = device_size_min(&top) - LABELS;
                let has = |child| super::draid_asize(child, disks, 5).unwrap_or(0);
                let used = asize >> shift << shift;
                assert!(least <= child && has(least) >= used, "{child}: {least}");
                assert!(used == 0 || has(least - 1) < used, "{child}: {least} is too much");
            }
        }
    }

    #[test]
    fn a_vdev_grows_as_far_as_its_smallest_device() {
        let sides = |kind| {
            let mut top = vdev(kind, 3, 9 << 20);
            (2..).zip(&mut top.children).for_each(|(guid, child)| child.guid = guid);
            top
        };
        let (mirror, raidz) = (sides(VdevKind::Mirror), sides(VdevKind::Raidz { nparity: 1 }));
        let smallest = ondisk::label::data_size(65 << 20);
        let sizes = |guid: u64| Some((66 << 20) - ((guid & 1) << 20));
        assert_eq!(asize_max(&mirror, &sizes), Some(smallest));
        assert_eq!(asize_max(&raidz, &sizes), Some(smallest * 3));
        let one_is_away = |guid: u64| (guid != 3).then_some(66 << 20);
        assert_eq!(asize_max(&mirror, &one_is_away), None);
        assert_eq!(asize_max(&sides(VdevKind::Hole), &sizes), None);
    }
}
