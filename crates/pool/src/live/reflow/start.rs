//! Whether a raidz vdev can be expanded, and the beginning of it.

use crate::error::{Error, Result};
use crate::live::config::{set_flag, with_children};
use crate::live::config_edit::bad;
use crate::live::new_side::NewChild;
use crate::live::reflows::RunningExpansion;
use crate::live::shared::{Shared, TaskCx};
use crate::refusal::{DeviceFault, Ongoing, PoolRefusal, VdevFault};
use dmu::{Zap, zap};
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::expand::{Expansion, KEY_BYTES_COPIED, KEY_END_TIME, KEY_START_TIME, KEY_STATE};
use ondisk::scan::State;

const FEATURE: &str = "org.openzfs:raidz_expansion";

/// Most children of a raidz vdev.
const CHILDREN_MAX: usize = 255;

/// What FreeBSD's boot code begins with, where the scratch area is.
const BOOT_CODE: &[u8] = b"\xeb\x0eBTX";

/// The tree with a child more in a raidz vdev, which expands from now on.
fn with_child(root: &VdevConfig, top: u64, new: &VdevConfig) -> Result<VdevConfig> {
    let widened = |vdev: &VdevConfig| -> ondisk::Result<VdevConfig> {
        let children = vdev.children.iter().chain([new]).cloned().collect();
        let mut vdev = with_children(vdev, children)?;
        set_flag(&mut vdev, "raidz_expanding")?;
        Ok(vdev)
    };
    let tops = root.children.iter().map(|vdev| match vdev.guid == top {
        true => widened(vdev),
        false => Ok(vdev.clone()),
    });
    let tops: ondisk::Result<Vec<_>> = tops.collect();
    tops.and_then(|tops| with_children(root, tops)).map_err(|e| bad(&e))
}

fn find_top<'a>(pool: &str, root: &'a VdevConfig, guid: u64) -> Result<&'a VdevConfig> {
    let mut tops = root.children.iter();
    let top = tops.find(|v| v.guid == guid && matches!(v.kind, VdevKind::Raidz { .. }));
    top.ok_or_else(|| Error::refused(pool, DeviceFault::NotRaidz))
}

impl Shared {
    /// Whether a vdev can be expanded now.
    fn check_widening(&self, guid: u64) -> Result<()> {
        self.check_no_checkpoint()?;
        if !self.features.is_enabled("raidz_expansion") {
            return Err(self.refused(VdevFault::ExpansionOff));
        }
        if self.reflows.running().is_some() {
            return Err(self.refused(Ongoing::Expansion));
        }
        if self.removals.running().is_some() {
            return Err(self.refused(Ongoing::Removal));
        }
        let config = self.config.lock();
        let top = find_top(self.pool(), &config.root, guid)?;
        let ashift = top.ashift.unwrap_or(9).min(63);
        let width = top.children.len() + 1;
        if width > CHILDREN_MAX || width as u64 > vdev::map::BOOT_SIZE >> ashift {
            return Err(self.refused(VdevFault::Widest));
        }
        if top.vdev_zap_top.unwrap_or(0) == 0 {
            return Err(self.refused(PoolRefusal::NoVdevTables("an expansion")));
        }
        let children: Vec<u64> = top.children.iter().map(|child| child.guid).collect();
        let is_single = top.children.iter().all(|child| child.kind.is_leaf());
        drop(config);
        let tree = self.reader.vdevs();
        let whole = tree.leaves().filter(|l| {
            children.contains(&l.guid()) && l.writer().is_some() && l.missed().is_empty()
        });
        let whole: Vec<_> = whole.collect();
        if !is_single || whole.len() != children.len() {
            return Err(self.refused(DeviceFault::NotAllThere));
        }
        for leaf in whole {
            let Some(device) = leaf.device() else { continue };
            let mut front = device::AlignedBuf::zeroed(512);
            let place = vdev::map::LABEL_START_SIZE - vdev::map::BOOT_SIZE;
            device.read(place, &mut front).map_err(|e| bad(&e))?;
            if front.starts_with(BOOT_CODE) {
                return Err(self.refused(DeviceFault::BootCode));
            }
        }
        Ok(())
    }

    /// Puts a device into a raidz vdev, which is expanded from then on.
    pub(in crate::live) fn widen(&self, guid: u64, new: &NewChild) -> Result<()> {
        self.check_widening(guid)?;
        let top = find_top(self.pool(), &self.config.lock().root, guid)?.clone();
        top.walk().filter(|v| v.kind.is_leaf()).for_each(|v| self.end_works_on(v.guid));
        let new = new.clone();
        let begun = self.run(move |cx| cx.begin_expansion(guid, &new));
        if begun.is_err() {
            self.resume_works()?;
        }
        begun
    }

    /// What an import finds: an expansion goes on.
    pub(in crate::live) fn find_reflow(&self) -> Result<()> {
        let tops = self.config.lock().root.children.clone();
        let Some(top) = tops.iter().find(|top| top.raidz_expanding) else { return Ok(()) };
        let id = u32::try_from(top.id).map_err(|e| bad(&e))?;
        let table = top.vdev_zap_top.unwrap_or(0);
        let unknown =
            Expansion { state: State::Active, start_time: 0, end_time: 0, bytes_copied: 0 };
        let record = match table {
            0 => None,
            table => {
                let table = Zap::open(&self.mos.object(table)?)?;
                Expansion::gather(|key| table.get_u64(key).ok().flatten())
            }
        };
        self.reflows.begin(RunningExpansion { id, table, record: record.unwrap_or(unknown) });
        Ok(())
    }
}

impl TaskCx<'_> {
    fn begin_expansion(&self, top: u64, side: &NewChild) -> Result<()> {
        let shared = self.shared;
        shared.check_widening(top)?;
        let root = shared.config.lock().root.clone();
        let before = find_top(self.shared.pool(), &root, top)?;
        let VdevKind::Raidz { nparity } = before.kind else {
            return Err(self.shared.refused(DeviceFault::NotRaidz));
        };
        if side.device().is_none() {
            return Err(self.shared.refused(DeviceFault::DistributedSpare));
        }
        let id = before.children.len() as u64;
        let list = side.config(self.tx.txg()).u64("id", id);
        let mut new = VdevConfig::decode(&list.done()).map_err(|e| bad(&e))?;
        // All that can be refused is, before anything is written.
        let planned = with_child(&root, top, &new)?;
        let next = shared.tree_with(&planned, side)?;
        self.take_in(&planned, side, &mut new)?;
        let root = with_child(&root, top, &new)?;
        shared.features.add(self.tx, FEATURE, 1)?;
        let record = Expansion {
            state: State::Active,
            start_time: self.dsl().now.secs,
            end_time: 0,
            bytes_copied: 0,
        };
        let number = u32::try_from(before.id).map_err(|e| bad(&e))?;
        let table = before.vdev_zap_top.unwrap_or(0);
        let running = RunningExpansion { id: number, table, record };
        self.put_expansion(&running, &[KEY_STATE, KEY_START_TIME])?;
        // What the last one left.
        let object = self.objects().object(table)?;
        let left = Zap::open(&object)?;
        for key in [KEY_END_TIME, KEY_BYTES_COPIED] {
            if left.get_u64(key)?.is_some() {
                zap::remove(&object, self.tx, key)?;
            }
        }
        self.put_tree(root, next);
        shared.reflows.begin(running);
        let pool = shared.pool();
        let text = format!("{pool} vdev {number} new width {}", id + 1);
        self.log_event_of_pool("raidz vdev expansion started", &text)?;
        let text = format!("attach vdev={} to vdev=raidz{nparity}-{number}", side.path);
        self.log_event_of_pool("vdev attach", &text)
    }
}
