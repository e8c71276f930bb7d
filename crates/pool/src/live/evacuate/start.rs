//! Whether a vdev can be removed, and the beginning of it.

use crate::error::{Error, Result};
use crate::live::LivePool;
use crate::live::config::{set_u64, unset};
use crate::live::config_edit::bad;
use crate::live::removals::RunningRemoval;
use crate::live::shared::{Shared, TaskCx};
use crate::mapping::segments;
use crate::refusal::{DeviceFault, Ongoing, PoolRefusal, VdevFault};
use dmu::{Objset, Zap};
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::indirect::{BirthsHeader, MappingHeader, RemovalState};
use ondisk::mos;
use ondisk::scan::State;
use zio::SpaceClass;

/// Txgs after which nothing that was allocated on a vdev is under way: the three that can be alive,
/// and the one whose end makes writers give their space back.
const TXGS_TO_REST: u32 = 4;

/// Members of a configuration that say that a vdev leaves.
const MARKS: [&str; 4] =
    ["removing", "non_allocating", "com.delphix:indirect_object", "com.delphix:indirect_births"];

/// Mirrors of devices and devices, of one sector size: what removed vdevs can be mapped to.
pub(in crate::live) fn check_layout<'a>(
    pool: &str,
    tops: impl Iterator<Item = &'a VdevConfig>,
) -> Result<()> {
    let is_there = |top: &&VdevConfig| {
        !matches!(top.kind, VdevKind::Indirect | VdevKind::Hole | VdevKind::Missing)
    };
    let mut ashift = None;
    for top in tops.filter(is_there) {
        let is_plain = match &top.kind {
            VdevKind::Mirror => top.children.iter().all(|side| side.kind.is_leaf()),
            kind => kind.is_leaf(),
        };
        // Blocks of logs are moved nowhere.
        if !is_plain || (!top.is_log && *ashift.get_or_insert(top.ashift) != top.ashift) {
            return Err(Error::refused(pool, VdevFault::NotEvacuable));
        }
    }
    Ok(())
}

impl Shared {
    /// Whether a vdev can be removed now.
    fn check_removal(&self, id: u32) -> Result<()> {
        self.check_no_checkpoint()?;
        if !self.features.is_enabled("device_removal") {
            return Err(self.refused(PoolRefusal::FeatureNotEnabled("device_removal")));
        }
        if self.is_rebuilding() {
            return Err(self.refused(Ongoing::Rebuild));
        }
        if self.removals.running().is_some() {
            return Err(self.refused(Ongoing::OtherRemoval));
        }
        if self.reflows.running().is_some() {
            return Err(self.refused(Ongoing::Expansion));
        }
        let root = self.config.lock().root.clone();
        check_layout(self.pool(), root.children.iter())?;
        let top = root.children.iter().find(|top| top.id == u64::from(id));
        let top = top.ok_or_else(|| self.refused(DeviceFault::NotInPool))?;
        if top.vdev_zap_top.unwrap_or(0) == 0 {
            return Err(self.refused(PoolRefusal::NoVdevTables("a removal")));
        }
        self.check_sides(top)?;
        self.check_space(id)
    }

    /// A side has all data, and can be read.
    fn check_sides(&self, top: &VdevConfig) -> Result<()> {
        let below: Vec<u64> = top.walk().filter(|v| v.kind.is_leaf()).map(|v| v.guid).collect();
        let tree = self.reader.vdevs();
        let mut sides = tree.leaves().filter(|l| below.contains(&l.guid()));
        let is_whole = |l: &vdev::NodeRef<'_>| l.writer().is_some() && l.missed().is_empty();
        match sides.any(|l| is_whole(&l)) {
            true => Ok(()),
            false => Err(self.refused(DeviceFault::NoWholeSide)),
        }
    }

    /// The others have enough, as datasets count and as it is on the devices. Until the vdev
    /// takes no more blocks what it has itself is left out.
    fn check_space(&self, id: u32) -> Result<()> {
        let figures = self.alloc.figures();
        let vdev = self.alloc.vdev_space(id).ok_or_else(|| self.refused(DeviceFault::NotInPool))?;
        let size = figures.dspace.saturating_sub(vdev.dspace);
        let (slop, used) = (dsl::slop_space(size, 0), self.dsl.root()?.phys.used);
        let mut taken = figures.normal.deflated_allocated.saturating_add(figures.normal.deferred);
        let is_enough = match vdev.class {
            SpaceClass::Normal => {
                taken = taken.saturating_sub(vdev.allocated);
                used.saturating_add(slop) <= size
            }
            // Datasets count it, and the size that they may use does not have it.
            _ => true,
        };
        let left = size.saturating_sub(taken).saturating_sub(slop / 2);
        if is_enough && vdev.allocated <= left {
            Ok(())
        } else {
            Err(self.refused(PoolRefusal::NoSpace))
        }
    }

    /// What an import finds: a removal goes on.
    pub(in crate::live) fn find_removal(&self) -> Result<()> {
        let Some(record) = read_record(&self.mos)?.filter(|r| r.state() == State::Active) else {
            return Ok(());
        };
        let tops = self.config.lock().root.children.clone();
        let top = tops.iter().find(|top| top.id == record.vdev);
        let unknown = || bad(&"the vdev that is being removed is unknown");
        let top = top.filter(|top| top.removing).ok_or_else(unknown)?;
        let mapping = top.indirect_object.filter(|n| *n != 0).ok_or_else(unknown)?;
        let births = top.indirect_births.filter(|n| *n != 0).ok_or_else(unknown)?;
        // It was read before: what is in it is sound.
        segments(&self.mos, top)?;
        let bonus = |number: u64| -> Result<(Vec<u8>, ondisk::Endian)> {
            let object = self.mos.object(number)?;
            let dnode = object.dnode();
            Ok((dnode.bonus.clone(), dnode.endian))
        };
        let (bytes, endian) = bonus(mapping)?;
        let header = MappingHeader::decode(&bytes, endian).map_err(|e| bad(&e))?;
        let (bytes, endian) = bonus(births)?;
        let births_count = BirthsHeader::decode(&bytes, endian).map_err(|e| bad(&e))?.count;
        let id = u32::try_from(top.id).map_err(|e| bad(&e))?;
        self.alloc.set_left(id, record.to_copy.saturating_sub(record.copied));
        let running = RunningRemoval { id, record, mapping, header, births, births_count };
        self.removals.begin(running);
        Ok(())
    }
}

/// The state of the last removal.
fn read_record(objects: &Objset) -> Result<Option<RemovalState>> {
    let directory = Zap::open(&objects.object(mos::DIRECTORY_OBJECT)?)?;
    let Some(entry) = directory.get(mos::REMOVING.as_bytes())? else { return Ok(None) };
    let words: Vec<u64> = entry.ints().collect();
    RemovalState::from_words(&words).map(Some).map_err(|e| bad(&e))
}

impl TaskCx<'_> {
    /// The removal begins: nothing is allocated on the vdev, and nothing on its way there.
    fn begin_removal(&self, id: u32) -> Result<()> {
        let shared = self.shared;
        shared.check_removal(id)?;
        let before = read_record(self.objects())?;
        let mut root = shared.config.lock().root.clone();
        let top = root.children.iter_mut().find(|top| top.id == u64::from(id));
        let top = top.ok_or_else(|| self.shared.refused(DeviceFault::NotInPool))?;
        let config_object = shared.config.lock().object;
        self.touch();
        let (mapping, header, births) = self.new_mapping(top)?;
        for (name, value) in MARKS.into_iter().zip([1, 1, mapping, births]) {
            set_u64(top, name, value).map_err(|e| bad(&e))?;
        }
        let mut record = RemovalState::default().with_state(State::Active);
        record.vdev = u64::from(id);
        record.prev_indirect_vdev = before.map_or(u64::MAX, |r| r.prev_indirect_vdev);
        record.start_time = self.dsl().now.secs;
        record.to_copy = shared.alloc.allocated_on(id);
        self.put_removal(&record)?;
        // What is read before a mapping is must be on no removed vdev.
        self.write_again(mos::DIRECTORY_OBJECT)?;
        self.write_again(config_object)?;
        let path = top.path.clone().unwrap_or_else(|| "-".to_owned());
        shared.alloc.add_moved(crate::alloc::MovedSpec {
            id,
            ashift: u8::try_from(top.ashift.unwrap_or(9)).unwrap_or(9),
            zap: top.vdev_zap_top.unwrap_or(0),
            obsolete: 0,
            segments: Vec::new(),
            is_leaving: true,
        });
        shared.alloc.set_left(id, record.to_copy);
        let tree = shared.reader.vdevs();
        let tree = tree.successor(&shared.rt, &root, &mut |_| None).map_err(|e| bad(&e))?;
        self.put_tree(root, tree);
        let running = RunningRemoval { id, record, mapping, header, births, births_count: 0 };
        shared.removals.begin(running);
        let pool = shared.pool();
        self.log_event_of_pool("vdev remove started", &format!("{pool} vdev {id} {path}"))
    }

    /// The configuration of a vdev that leaves no more.
    pub(super) fn unmark(&self, top: &mut VdevConfig) -> Result<()> {
        let keeps_closed = self.is_closed_by_user(top)?;
        let marks = MARKS.iter().filter(|name| **name != "non_allocating" || !keeps_closed);
        unset(top, &marks.copied().collect::<Vec<_>>()).map_err(|e| bad(&e))?;
        self.shared
            .alloc
            .set_allocating(u32::try_from(top.id).map_err(|e| bad(&e))?, !keeps_closed);
        Ok(())
    }

    /// The user wants no new blocks on the vdev, whether it leaves or not.
    fn is_closed_by_user(&self, top: &VdevConfig) -> Result<bool> {
        let Some(number) = top.vdev_zap_top.filter(|n| *n != 0) else { return Ok(false) };
        let table = Zap::open(&self.objects().object(number)?)?;
        Ok(table.get_u64("allocating")? == Some(0))
    }
}

impl LivePool {
    /// Begins to remove a top-level vdev with data on it, by its guid. What is on it is copied to
    /// the others in the background, also by the next process that opens the pool; then its devices
    /// are not part of the pool any more. [`Self::wait_for_removal`] waits for that.
    ///
    /// # Errors
    /// When the pool cannot do without it, or one is being removed.
    pub fn remove_top(&self, guid: u64) -> Result<()> {
        let shared = &self.shared;
        let top = {
            let config = shared.config.lock();
            config.root.children.iter().find(|top| top.guid == guid && !top.is_log).cloned()
        };
        let top = top.ok_or_else(|| self.shared.refused(DeviceFault::NotInPool))?;
        let id = u32::try_from(top.id).map_err(|e| bad(&e))?;
        shared.check_removal(id)?;
        let allocated = !top.non_allocating;
        shared.alloc.set_allocating(id, false);
        let begun = self
            .stop_using(&top)
            .and_then(|()| shared.run_keeping_datasets(move |cx| cx.begin_removal(id)));
        if begun.is_ok() {
            shared.post_device("vdev_remove_dev", guid);
        } else {
            shared.alloc.set_allocating(id, allocated);
            shared.resume_works()?;
        }
        begun
    }

    /// Nothing is written to a vdev any more that takes no new blocks: neither by txgs under way,
    /// nor by logs, nor by work on free space.
    fn stop_using(&self, top: &VdevConfig) -> Result<()> {
        let shared = &self.shared;
        top.walk().filter(|v| v.kind.is_leaf()).for_each(|v| shared.end_works_on(v.guid));
        self.while_logs_are_empty(|| {
            (0..TXGS_TO_REST).try_for_each(|txg| {
                self.run(move |cx| if txg == 0 { cx.end_logs_of_closed() } else { Ok(()) })
            })
        })
    }
}
