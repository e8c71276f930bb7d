//! What the pool makes of a byte of data, for a throttle that counts bytes as the devices have
//! them.

use super::head::Head;
use super::shared::Shared;
use super::throttle::Inflation;
use ondisk::gang::GANG_HEADER_SIZE;
use std::sync::Arc;
use vdev::{NodeRef, TopRef};

/// The records of a pool of which no dataset is in use.
const USUAL_RECORD: u64 = 128 << 10;
/// The smallest record.
const RECORD_MIN: u64 = 512;

impl Shared {
    /// What a byte becomes in these datasets, of the one where that is most: by its records and its
    /// copies, on the vdev that takes most of them; with a header for each block where those are
    /// split.
    pub(super) fn inflation(&self, heads: &[Arc<Head>], are_split: bool) -> Inflation {
        let header = if are_split { self.on_devices(GANG_HEADER_SIZE as u64) } else { 0 };
        let of = |record: u64, copies: u64| {
            let each = self.on_devices(record).saturating_add(header);
            Inflation::of(record, each.saturating_mul(copies))
        };
        let of_head = |head: &Arc<Head>| {
            let (record, copies) = {
                let properties = head.properties.lock();
                (properties.record.min(u64::from(properties.record_max)), properties.copies)
            };
            of(record.max(RECORD_MIN), copies.max(1))
        };
        heads.iter().map(of_head).max().unwrap_or_else(|| of(USUAL_RECORD, 1))
    }

    /// Bytes that a block of this many takes on all devices together, on the vdev where that is
    /// most.
    fn on_devices(&self, bytes: u64) -> u64 {
        let vdevs = self.reader.vdevs();
        let of = |top: TopRef<'_>| {
            let each = vdevs.psize_to_asize(top.id(), bytes, u64::MAX)?;
            Some(each.saturating_mul(sides(top.node())))
        };
        vdevs.tops().filter(|top| !top.is_log()).filter_map(of).max().unwrap_or(bytes)
    }
}

/// How many devices have all that is written to a vdev.
fn sides(vdev: NodeRef<'_>) -> u64 {
    match vdev.kind() {
        "mirror" | "replacing" | "spare" => vdev.children().map(sides).sum(),
        _ => 1,
    }
}
