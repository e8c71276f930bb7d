//! How much a volume reserves so that all of it can always be written: its data, in blocks of its
//! size as they are allocated, and the tree above them at its largest.

use crate::error::Result;
use crate::values::{number_change, numeric};
use dsl::Dataset;
use dsl::write::PropertyChange;
use ondisk::config::{VdevConfig, VdevKind};
use pool::Datasets;
use pool::live::LivePool;

/// An indirect block of the largest size, in bytes.
const INDIRECT: u64 = 128 << 10;
/// Pointers in one.
const FAN_OUT: u64 = INDIRECT / 128;
/// Blocks of the tree of dnodes above the volume's own.
const DNODE_LEVELS: u64 = 7;
/// The block size that space is accounted by: figures of raidz are relative to what it takes.
const USUAL_BLOCK: u64 = 128 << 10;

/// The reservation by which all of a volume can always be written.
pub(crate) fn whole_volume(pool: &LivePool, dataset: &Dataset) -> Result<PropertyChange> {
    let datasets = pool.view().datasets();
    let volume = zpl::Volume::open(&datasets.objset(dataset)?)?;
    let bytes = reserved(&datasets, dataset, volume.size(), volume.block_size())?;
    Ok(number_change("refreservation", bytes))
}

/// The same for a volume of `size` bytes in blocks of `block` bytes.
pub(crate) fn reserved(
    datasets: &Datasets<'_>,
    volume: &Dataset,
    size: u64,
    block: u64,
) -> Result<u64> {
    let copies = numeric(datasets, volume, "copies")?.max(1);
    Ok(for_volume(size, block, copies, &datasets.pool().config().vdev_tree))
}

/// Bytes that OpenZFS gives the property `refreservation` of a volume of `size` bytes in blocks of
/// `block` bytes, that has `copies` of its data, on these vdevs.
pub(crate) fn for_volume(size: u64, block: u64, copies: u64, root: &VdevConfig) -> u64 {
    let block = block.max(512);
    let mut blocks = size / block;
    let data = on_raidz(root, blocks, block).unwrap_or(size);
    let mut tree = DNODE_LEVELS;
    while blocks > 1 {
        blocks = blocks.div_ceil(FAN_OUT);
        tree = tree.saturating_add(blocks);
    }
    // Of metadata there is one copy more, as long as a pointer has room for it.
    let tree = tree.saturating_mul((copies + 1).min(3)).saturating_mul(INDIRECT);
    data.saturating_mul(copies).saturating_add(tree)
}

/// Bytes on the raidz vdev on which they take most; `None` without one.
fn on_raidz(root: &VdevConfig, blocks: u64, block: u64) -> Option<u64> {
    let of = |top: &VdevConfig| {
        let VdevKind::Raidz { nparity, .. } = top.kind else { return None };
        let nparity = u64::from(nparity);
        let (disks, ashift) = (top.children.len() as u64, top.ashift.unwrap_or(12));
        let one = u128::from(raidz_size(disks, nparity, ashift, block)?);
        let usual = u128::from(raidz_size(disks, nparity, ashift, USUAL_BLOCK)?);
        let bytes = u128::from(blocks) * one * u128::from(USUAL_BLOCK) / usual.max(1);
        Some(u64::try_from(bytes).unwrap_or(u64::MAX))
    };
    root.children.iter().filter_map(of).max()
}

/// Bytes that a block takes on raidz: data, parity of each row, and padding.
fn raidz_size(disks: u64, parity: u64, ashift: u64, block: u64) -> Option<u64> {
    let data_disks = disks.checked_sub(parity).filter(|n| *n > 0)?;
    let sectors = block.div_ceil(1 << ashift);
    let all = sectors + parity * sectors.div_ceil(data_disks);
    Some(all.next_multiple_of(parity + 1) << ashift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::nvlist::{NvList, NvValue};

    fn list(kind: &str, more: Vec<(&str, NvValue)>) -> NvList {
        let mut out = NvList::new();
        out.set("type", NvValue::String(kind.as_bytes().to_vec()));
        out.set("id", NvValue::U64(0));
        out.set("guid", NvValue::U64(1));
        for (name, value) in more {
            out.set(name, value);
        }
        out
    }

    #[test]
    fn on_disks_the_tree_is_what_is_added() {
        let disk = list("disk", vec![]);
        let root = list("root", vec![("children", NvValue::NvListArray(vec![disk]))]);
        let root = VdevConfig::decode(&root).unwrap();
        // Figures of `zfs create -V 1G` on OpenZFS, with blocks of 8 KiB and of 16 KiB.
        assert_eq!(for_volume(1 << 30, 8192, 1, &root), (1 << 30) + 136 * 2 * INDIRECT);
        assert_eq!(for_volume(1 << 30, 16384, 1, &root), (1 << 30) + 72 * 2 * INDIRECT);
    }

    #[test]
    fn small_blocks_on_raidz_take_more() {
        assert_eq!(raidz_size(5, 1, 12, 128 << 10), Some(40 << 12));
        // Two sectors of data and one of parity, padded to a multiple of two.
        assert_eq!(raidz_size(5, 1, 12, 8 << 10), Some(4 << 12));
    }
}
