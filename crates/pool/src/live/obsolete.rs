//! What is recorded as obsolete of a removed vdev, made anew.
//!
//! The mapping of a removed vdev has a count of obsolete bytes for each of its entries, and a space
//! map of what became obsolete since (`docs/format/indirect.md`). Only the sum of both is asked
//! for, so all of it can be in the map.

use super::LivePool;
use super::shared::TaskCx;
use crate::error::{Error, Result};
use crate::mapping::indirect_mapping;
use crate::refusal::PoolRefusal;
use ondisk::config::{VdevConfig, VdevKind};

/// Zeros that are written at a time.
const ZEROS: usize = 128 << 10;

impl LivePool {
    /// Records that these ranges of a removed vdev, which lie within its mapping, are obsolete, and
    /// nothing else of it: first byte and the byte behind, in order.
    ///
    /// # Errors
    /// The vdev was not removed, or what there is cannot be read.
    pub fn renew_obsolete(&self, vdev: u32, unused: Vec<(u64, u64)>) -> Result<()> {
        self.shared.run(move |cx| cx.renew_obsolete(vdev, &unused))
    }
}

impl TaskCx<'_> {
    fn renew_obsolete(&self, vdev: u32, unused: &[(u64, u64)]) -> Result<()> {
        let (shared, objects) = (self.shared, self.objects());
        if !shared.features.is_enabled("obsolete_counts") {
            return Err(shared.refused(PoolRefusal::FeatureNotEnabled("obsolete_counts")));
        }
        let root = shared.config.lock().root.clone();
        let is_it = |top: &VdevConfig| top.id == u64::from(vdev) && top.kind == VdevKind::Indirect;
        let top = root.children.into_iter().find(is_it);
        let what = || Error::Inconsistent { what: format!("vdev {vdev} is not a removed one") };
        let top = top.ok_or_else(what)?;
        // All that may fail for damage is read before the first change.
        let table = top.vdev_zap_top.filter(|n| *n != 0);
        let lacks = || shared.refused(PoolRefusal::NoVdevTables("a map of obsolete space"));
        let table = table.ok_or_else(lacks)?;
        let table = objects.object(table)?;
        let (header, entries) = indirect_mapping(objects, top.indirect_object.unwrap_or(0))?;
        let counts = header.counts_object.filter(|n| *n != 0);
        let counts = counts.map(|n| objects.object(n)).transpose()?;
        self.free_obsolete_map(&table, shared.alloc.obsolete_map(vdev))?;
        if let Some(counts) = counts {
            let end = entries.len() as u64 * 4;
            for at in (0..end).step_by(ZEROS) {
                let zeros = vec![0; (end - at).min(ZEROS as u64) as usize];
                counts.write_at(self.tx, at, &zeros)?;
            }
        }
        self.touch();
        shared.alloc.renew_obsolete(vdev, unused, self.tx.txg());
        Ok(())
    }
}
