//! Log devices, cache devices and spares that are taken off the pool.
//!
//! # Theory
//!
//! A log device holds blocks of intent logs and nothing else, so it is emptied by waiting:
//!
//! ```text
//! logs go elsewhere -> every log ends -> what it had is freed -> two txgs later nothing is
//! allocated there -> one task: space maps and tables are freed, a hole takes the vdev's place
//! -> the labels are taken off
//! ```
//!
//! The number of a vdev stands in block pointers, so that those behind it keep theirs: in its place
//! stands a *hole*. The last one leaves none; the pool has one vdev less then. A device whose
//! labels could not be taken off is not a member any more by what the others say (`assemble.rs`).
//!
//! Spares and cache devices stand in lists; they are taken off these.

use super::LivePool;
use super::config::{Builder, with_children};
use super::config_edit::bad;
use super::labels;
use super::log::missing_logs;
use super::shared::TaskCx;
use crate::error::{Error, Result};
use crate::refusal::DeviceFault;
use device::WriteDeviceRef;
use dmu::Zap;
use ondisk::config::{PoolState, VdevConfig, VdevKind};
use ondisk::mos::{self, vdev_zap};
use ondisk::spacemap::SpaceMapHeader;
use std::sync::Arc;

/// Txgs after which a log device is empty when nothing is written to it any more: the one that ends
/// the logs, two for which freed space waits, and as many again for what was under way.
const TXGS_TO_EMPTY: u32 = 8;

/// The configuration of a hole, as OpenZFS has it.
fn hole(id: u64) -> Result<VdevConfig> {
    let list = Builder::new().text("type", "hole").u64("id", id).u64("guid", 0);
    let zeros = ["metaslab_array", "metaslab_shift", "ashift", "asize", "is_log"];
    let list = zeros.into_iter().fold(list, |list, name| list.u64(name, 0));
    VdevConfig::decode(&list.u64("is_hole", 1).done()).map_err(|e| bad(&e))
}

/// The tree without a top-level vdev.
fn without_top(pool: &str, root: &VdevConfig, guid: u64) -> Result<VdevConfig> {
    let mut children = root.children.clone();
    match children.iter().position(|top| top.guid == guid) {
        None => return Err(Error::refused(pool, DeviceFault::NotInPool)),
        Some(at) if at + 1 == children.len() => drop(children.pop()),
        Some(at) => children[at] = hole(children[at].id)?,
    }
    with_children(root, children).map_err(|e| bad(&e))
}

impl TaskCx<'_> {
    /// Ends the logs of datasets that are not open, whose first block may be on any log device.
    pub(super) fn end_logs_of_closed(&self) -> Result<()> {
        let dsl = self.datasets();
        let all = dsl.datasets().into_iter().map(|(_, dataset)| dataset);
        let all: dsl::Result<Vec<_>> = all.collect();
        let all = all?;
        let heads: Vec<_> = all.iter().filter(|dataset| !dataset.is_snapshot()).collect();
        heads.iter().try_for_each(|dataset| self.check_log(dataset))?;
        heads.iter().try_for_each(|dataset| self.empty_log(dataset, true))
    }

    /// Frees what the MOS has of the space and the devices of a top-level vdev.
    pub(super) fn free_space_of(&self, top: &VdevConfig, maps: &[u64]) -> Result<()> {
        let objects = self.objects();
        let mut histograms = 0;
        for map in maps {
            let dnode = objects.object(*map)?.dnode().clone();
            let header = SpaceMapHeader::decode(&dnode.bonus, dnode.endian).map_err(|e| bad(&e))?;
            histograms += i64::from(header.histogram.is_some());
            objects.free(self.tx, *map)?;
        }
        if histograms != 0 {
            let features = &self.shared.features;
            features.add(self.tx, "com.delphix:spacemap_histogram", -histograms)?;
        }
        if let Some(array) = top.metaslab_array.filter(|n| *n != 0) {
            objects.free(self.tx, array)?;
        }
        for leaf in top.walk().filter(|v| v.kind.is_leaf()) {
            self.free_objects(leaf)?;
        }
        let Some(zap) = top.vdev_zap_top.filter(|n| *n != 0) else { return Ok(()) };
        let table = objects.object(zap)?;
        let name = vdev_zap::METASLAB_UNFLUSHED_TXGS;
        if let Some(txgs) = Zap::open(&table)?.get_u64(name)?.filter(|n| *n != 0) {
            objects.free(self.tx, txgs)?;
            dmu::zap::remove(&table, self.tx, name)?;
        }
        Ok(())
    }

    /// Frees what the MOS has of a top-level vdev on which nothing is allocated.
    fn free_top(&self, top: &VdevConfig, maps: &[u64]) -> Result<()> {
        self.free_space_of(top, maps)?;
        let objects = self.objects();
        let (Some(zap), Some(map)) = (top.vdev_zap_top.filter(|n| *n != 0), self.zap_map()?) else {
            return Ok(());
        };
        dmu::zap::remove(&objects.object(map)?, self.tx, format!("{zap:x}").as_str())?;
        Ok(objects.free(self.tx, zap)?)
    }

    /// Takes an empty log device out of the pool.
    fn remove_top(&self, guid: u64) -> Result<()> {
        self.check_no_checkpoint()?;
        let shared = self.shared;
        let root = shared.config.lock().root.clone();
        let next = without_top(self.shared.pool(), &root, guid)?;
        let top = root.children.iter().find(|top| top.guid == guid);
        let top = top.ok_or_else(|| self.shared.refused(DeviceFault::NotInPool))?;
        let id = u32::try_from(top.id).map_err(|e| bad(&e))?;
        if !shared.alloc.is_empty(id) {
            return Err(self.shared.refused(DeviceFault::LogInUse));
        }
        let tree = shared.reader.vdevs();
        let tree = tree.successor(&shared.rt, &next, &mut |_| None).map_err(|e| bad(&e))?;
        self.touch();
        let maps = shared.alloc.remove_top(id);
        self.free_top(top, &maps)?;
        self.put_tree(next, tree);
        for leaf in top.walk().filter(|v| v.kind.is_leaf()) {
            shared.config.lock().logs.remove(&leaf.guid);
        }
        let pool = shared.config.lock().facts.name.clone();
        let path = top.path.clone().unwrap_or_default();
        let text = format!("{pool} vdev {id} (log) {path}");
        self.log_event_of_pool("vdev remove", text.trim_end())
    }
}

impl LivePool {
    /// Takes a log device, by the guid of the top-level vdev, out of the pool. What was promised
    /// there is in the tree before; a device that is missing has nothing any more.
    ///
    /// # Errors
    /// When it is not a log device, or something on it cannot be ended. It is used as before then.
    pub fn remove_log(&self, guid: u64) -> Result<()> {
        self.shared.check_no_checkpoint()?;
        let top = {
            let config = self.shared.config.lock();
            config.root.children.iter().find(|top| top.guid == guid).cloned()
        };
        let top =
            top.filter(|top| top.is_log).ok_or_else(|| self.shared.refused(DeviceFault::NotLog))?;
        // Before anything is changed: work on the device is not ended for nothing.
        self.check_logs_replayed()?;
        let id = u32::try_from(top.id).map_err(|e| bad(&e))?;
        let leaves: Vec<u64> = top.walk().filter(|v| v.kind.is_leaf()).map(|v| v.guid).collect();
        let tree = self.shared.reader.vdevs();
        let leaves = tree.leaves().filter(|l| leaves.contains(&l.guid()));
        let devices = leaves.filter_map(|l| Some((l.guid(), l.writer().cloned()?)));
        let devices: Vec<(u64, WriteDeviceRef)> = devices.collect();
        drop(tree);
        let below = top.walk().filter(|v| v.kind.is_leaf());
        below.for_each(|v| self.shared.end_works_on(v.guid));
        self.shared.alloc.avoid_log(id);
        let removed = self.while_logs_are_empty(|| self.empty_and_remove(guid, id));
        if removed.is_err() && missing_logs(&self.view).iter().all(|(n, _)| *n != top.id) {
            self.shared.alloc.use_log(id);
        }
        removed?;
        self.shared.post_device("vdev_remove_dev", guid);
        let pool = self.guid();
        for (guid, device) in devices {
            labels::clear_leaf(&device, pool, guid);
        }
        Ok(())
    }

    /// Every log that is open has ended, and none begins there.
    fn empty_and_remove(&self, guid: u64, id: u32) -> Result<()> {
        for txg in 0..TXGS_TO_EMPTY {
            if self.shared.alloc.is_empty(id) {
                break;
            }
            let is_first = txg == 0;
            self.run(move |cx| if is_first { cx.end_logs_of_closed() } else { Ok(()) })?;
        }
        self.run(move |cx| cx.remove_top(guid))
    }

    /// Takes a hot spare or a cache device off the pool's lists, and the label of a cache device
    /// off `device`. That of a spare stays, as in OpenZFS: it names no pool, and may serve others.
    ///
    /// # Errors
    /// When it is not a spare, or is one that is in use.
    pub fn remove_aux(&self, guid: u64, device: Option<WriteDeviceRef>) -> Result<()> {
        let seen = self.look()?;
        let is_in = |list: &[VdevConfig]| list.iter().any(|v| v.guid == guid);
        let (list, state, kind) = match (is_in(seen.spares()), is_in(seen.l2cache())) {
            (true, _) if seen.config().vdev_tree.find(guid).is_some() => {
                return Err(self.shared.refused(DeviceFault::SpareInUse));
            }
            (true, _) if is_distributed(seen.spares(), guid) => {
                return Err(self.shared.refused(DeviceFault::PartOfDraid));
            }
            (true, _) => (mos::SPARES, PoolState::Spare, "spare"),
            (_, true) => (mos::L2CACHE, PoolState::L2cache, "l2cache"),
            _ => return Err(self.shared.refused(DeviceFault::NotAux)),
        };
        if let Some(device) = device.as_ref().filter(|_| state == PoolState::Spare) {
            // Others may count on it. Without that it looks like a leaf that left.
            let _ = self.relabel_spare(guid, Arc::clone(device));
        }
        let all = seen.spares().iter().chain(seen.l2cache());
        let path = all.filter(|v| v.guid == guid).find_map(|v| v.path.clone()).unwrap_or_default();
        self.shared.run_keeping_datasets(move |cx| {
            cx.check_no_checkpoint()?;
            cx.take_off_list(list, guid)?;
            let pool = cx.shared.config.lock().facts.name.clone();
            cx.log_event_of_pool("vdev remove", &format!("{pool} vdev ({kind}) {path}"))
        })?;
        self.shared.post_device("vdev_remove_aux", guid);
        if let Some(device) = device.filter(|_| state == PoolState::L2cache) {
            labels::clear_aux(&device, state, guid);
        }
        Ok(())
    }
}

/// The spare of this guid is room of a dRAID.
fn is_distributed(spares: &[VdevConfig], guid: u64) -> bool {
    let mut spares = spares.iter().filter(|spare| spare.guid == guid);
    spares.any(|spare| matches!(spare.kind, VdevKind::DraidSpare { .. }))
}
