//! Another tree of vdevs for the pool, and what the MOS has of the leaves of the last one.

use super::config_edit::bad;
use super::shared::TaskCx;
use crate::error::Result;
use dmu::Zap;
use ondisk::config::VdevConfig;
use ondisk::mos;
use ondisk::spacemap::SpaceMapHeader;
use vdev::VdevTree;

impl TaskCx<'_> {
    pub(super) fn zap_map(&self) -> Result<Option<u64>> {
        let directory = Zap::open(&self.objects().object(mos::DIRECTORY_OBJECT)?)?;
        Ok(directory.get_u64(mos::VDEV_ZAP_MAP)?)
    }

    /// Frees what the MOS has of a leaf: its table and its log.
    pub(super) fn free_objects(&self, leaf: &VdevConfig) -> Result<()> {
        let objects = self.objects();
        if let (Some(zap), Some(map)) = (leaf.vdev_zap_leaf.filter(|n| *n != 0), self.zap_map()?) {
            dmu::zap::remove(&objects.object(map)?, self.tx, format!("{zap:x}").as_str())?;
            objects.free(self.tx, zap)?;
        }
        if let Some(log) = leaf.dtl.filter(|n| *n != 0) {
            let dnode = objects.object(log)?.dnode().clone();
            let header = SpaceMapHeader::decode(&dnode.bonus, dnode.endian).map_err(|e| bad(&e))?;
            objects.free(self.tx, log)?;
            if header.histogram.is_some() {
                let features = &self.shared.features;
                features.add(self.tx, "com.delphix:spacemap_histogram", -1)?;
            }
        }
        Ok(())
    }

    /// The pool has these vdevs from now on. What others did wrong is no concern of it any more.
    pub(super) fn put_tree(&self, root: VdevConfig, next: VdevTree) {
        self.touch();
        self.shared.reader.set_vdevs(next);
        self.shared.block_faults.forget_all_but(&root.walk().map(|v| v.guid).collect());
        let mut config = self.shared.config.lock();
        (config.root, config.dirty) = (root, true);
    }
}
