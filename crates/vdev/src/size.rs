//! How large the devices of a vdev must be.
//!
//! A label says how much its top-level vdev can allocate, not how large each device is. Only whole
//! metaslabs are allocated from, so a device may have lost what lies behind the last one.

use crate::map::LABEL_START_SIZE;
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::label::END_SIZE;

/// Bytes that each child of a dRAID has besides its rows: room for a future change of its shape.
const DRAID_RESERVE: u64 = 32 << 20;

/// Bytes that a device below the top-level vdev `top` has at least, labels included; 0 when the
/// configuration does not say how large the vdev is.
pub(crate) fn device_size_min(top: &VdevConfig) -> u64 {
    let Some(asize) = top.asize.filter(|n| *n > 0) else { return 0 };
    let shift = top.metaslab_shift.filter(|s| (1..64).contains(s)).unwrap_or(0);
    let used = asize >> shift << shift;
    let children = top.children.len().max(1) as u64;
    let own = match top.kind {
        VdevKind::Raidz { .. } => used.div_ceil(children),
        VdevKind::Draid { nspares, .. } => {
            let disks = children.saturating_sub(u64::from(nspares)).max(1);
            used.div_ceil(disks).saturating_add(DRAID_RESERVE)
        }
        _ => used,
    };
    own.saturating_add(LABEL_START_SIZE + END_SIZE)
}

#[cfg(test)]
mod tests {
    use super::device_size_min;
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
        // What lies behind the last metaslab is not used.
        assert_eq!(min(VdevKind::Disk, 0, (9 << 20) + 1000), (9 << 20) + LABELS);
        assert_eq!(min(VdevKind::Mirror, 3, 9 << 20), (9 << 20) + LABELS);
        assert_eq!(min(VdevKind::Raidz { nparity: 1 }, 3, 9 << 20), (3 << 20) + LABELS);
        assert_eq!(min(VdevKind::Disk, 0, 0), 0, "nothing is known");
    }
}
