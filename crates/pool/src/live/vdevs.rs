//! Changing the pool itself: its spares and cache devices, its properties, its guid.

use super::config::{Builder, VdevSpec, set_u64};
use super::features::to_enable;
use super::labels::{aux_guid, aux_label};
use super::mode::FailMode;
use super::new_vdevs::{Devices, guid_from};
use super::stored_property::StoredPropertyValue;
use super::{LivePool, TaskCx, mos as util};
use crate::error::Result;
use crate::live::config_edit::bad;
use crate::open::in_their_places;
use crate::refusal::{DeviceFault, PoolRefusal, VdevFault};
use dmu::{Zap, zap};
use ondisk::config::{PoolState, VdevConfig, aux_devices};
use ondisk::nvlist::{NvList, NvValue};
use ondisk::{DmuType, mos};
use vdev::VdevState;
use vdev::label;

impl TaskCx<'_> {
    /// The table of pool properties, made when there is none.
    fn pool_props(&self) -> Result<u64> {
        let objects = self.objects();
        let directory = Zap::open(&objects.object(mos::DIRECTORY_OBJECT)?)?;
        if let Some(table) = directory.get_u64(mos::POOL_PROPS)? {
            return Ok(table);
        }
        let table = util::new_zap(objects, self.tx, DmuType::POOL_PROPS)?;
        util::set_u64(objects, self.tx, mos::DIRECTORY_OBJECT, mos::POOL_PROPS, table)?;
        Ok(table)
    }

    /// Adds to the list `name` of spares or cache devices, made when there is none.
    fn append_aux(&self, name: &'static str, new: Vec<NvList>) -> Result<()> {
        let objects = self.objects();
        let directory = Zap::open(&objects.object(mos::DIRECTORY_OBJECT)?)?;
        let (number, mut all) = match directory.get_u64(name)? {
            Some(number) => (number, util::read_packed(objects, number)?),
            None => {
                let number = util::new_packed(objects, self.tx)?;
                util::set_u64(objects, self.tx, mos::DIRECTORY_OBJECT, name, number)?;
                (number, NvList::new())
            }
        };
        let old = all.pairs.iter().find(|p| p.name == name.as_bytes());
        let mut lists = match old.map(|p| &p.value) {
            Some(NvValue::NvListArray(lists)) => lists.clone(),
            _ => Vec::new(),
        };
        lists.extend(new);
        all.set(name, NvValue::NvListArray(lists));
        self.write_aux(name, number, &all)
    }

    /// Adds to the list of spares.
    pub(super) fn append_spares(&self, new: Vec<NvList>) -> Result<()> {
        if new.is_empty() { Ok(()) } else { self.append_aux(mos::SPARES, new) }
    }

    /// Writes the list `name` of spares or cache devices, and notes what it has now.
    fn write_aux(&self, name: &'static str, number: u64, all: &NvList) -> Result<()> {
        let devices = aux_devices(all, name).map_err(|e| bad(&e))?;
        util::write_packed(self.objects(), self.tx, number, all)?;
        let mut aux = self.shared.aux.lock();
        let [spares, l2cache] = &mut *aux;
        let known = if name == mos::SPARES { spares } else { l2cache };
        *known = in_their_places(devices, known);
        Ok(())
    }

    /// Takes a device off the list `name` of spares or cache devices.
    pub(super) fn take_off_list(&self, name: &'static str, guid: u64) -> Result<()> {
        let objects = self.objects();
        let directory = Zap::open(&objects.object(mos::DIRECTORY_OBJECT)?)?;
        let Some(number) = directory.get_u64(name)? else { return Ok(()) };
        let mut all = util::read_packed(objects, number)?;
        for pair in all.pairs.iter_mut().filter(|p| p.name == name.as_bytes()) {
            if let NvValue::NvListArray(lists) = &mut pair.value {
                lists.retain(|list| list.opt_u64("guid").ok().flatten() != Some(guid));
            }
        }
        self.write_aux(name, number, &all)
    }

    /// Changes the entry of a device on the list `name` of spares or cache devices.
    pub(super) fn change_on_list(
        &self,
        name: &'static str,
        guid: u64,
        change: &dyn Fn(&mut VdevConfig) -> ondisk::Result<()>,
    ) -> Result<()> {
        let objects = self.objects();
        let directory = Zap::open(&objects.object(mos::DIRECTORY_OBJECT)?)?;
        let Some(number) = directory.get_u64(name)? else { return Ok(()) };
        let mut all = util::read_packed(objects, number)?;
        for pair in all.pairs.iter_mut().filter(|p| p.name == name.as_bytes()) {
            let NvValue::NvListArray(lists) = &mut pair.value else { continue };
            for list in lists {
                if list.opt_u64("guid").ok().flatten() == Some(guid) {
                    let mut device = VdevConfig::decode(list).map_err(|e| bad(&e))?;
                    change(&mut device).map_err(|e| bad(&e))?;
                    *list = device.to_nvlist();
                }
            }
        }
        self.write_aux(name, number, &all)?;
        // What is known of one stays, for it knows better where that is.
        let mut aux = self.shared.aux.lock();
        let mut known = aux.iter_mut().flatten().filter(|device| device.guid == guid);
        known.try_for_each(change).map_err(|e| bad(&e))
    }

    /// Refuses what has to reach the labels of all devices.
    fn check_every_leaf_is_online(&self) -> Result<()> {
        let tree = self.shared.reader.vdevs();
        let others: Vec<_> = tree
            .leaves()
            .filter(|leaf| leaf.state() != VdevState::Online)
            .map(|leaf| format!("{} is {}", leaf.name(), leaf.state()))
            .collect();
        match others.is_empty() {
            true => Ok(()),
            false => Err(self.shared.refused(DeviceFault::NotOnline(others))),
        }
    }

    fn set_root(&self, root: VdevConfig) {
        let mut config = self.shared.config.lock();
        config.root = root;
        config.dirty = true;
    }
}

impl LivePool {
    /// Adds hot spares and cache devices, each a leaf that is in `devices`. They get labels and
    /// stand in the pool's lists. Spares are used by [`Self::take_spare`]; nothing caches.
    ///
    /// # Errors
    /// When the pool has a device already, or a label or list cannot be written.
    pub fn add_aux(
        &self,
        spares: &[VdevSpec],
        cache: &[VdevSpec],
        devices: &Devices,
    ) -> Result<()> {
        let (spares, cache, devices) = (spares.to_vec(), cache.to_vec(), devices.clone());
        let mut guid = guid_from(&self.shared.rt);
        self.run(move |cx| {
            let both = spares.iter().chain(&cache);
            cx.refuse_own(both.flat_map(VdevSpec::leaves), &devices)?;
            let kinds = [
                (mos::SPARES, PoolState::Spare, &spares),
                (mos::L2CACHE, PoolState::L2cache, &cache),
            ];
            let (mut lists, mut sizes) = (Vec::new(), Vec::new());
            for (name, state, specs) in kinds.into_iter().filter(|k| !k.2.is_empty()) {
                let mut new = Vec::with_capacity(specs.len());
                for spec in specs {
                    let VdevSpec::Leaf { path, is_file } = spec else {
                        return Err(cx.shared.refused(VdevFault::AuxGroup(name)));
                    };
                    let Some(device) = devices.get(path) else {
                        return Err(cx.shared.refused(DeviceFault::NotOpened(path.clone())));
                    };
                    let device = &cx.shared.guarded(device);
                    // A spare of another pool stays one: both find it by the same label.
                    let shared = (state == PoolState::Spare).then(|| aux_guid(device, state));
                    let guid = match shared.flatten() {
                        Some(guid) => guid,
                        None => {
                            let failed = |e| cx.shared.failed("writing labels", e);
                            let guid = guid();
                            let label = aux_label(state, guid, path);
                            label::initialise(device.as_ref(), &label).map_err(failed)?;
                            guid
                        }
                    };
                    sizes.push((guid, device.size()));
                    let kind = if *is_file { "file" } else { "disk" };
                    let list = Builder::new().text("type", kind).u64("guid", guid);
                    new.push(list.text("path", path).u64("whole_disk", 0).done());
                }
                lists.push((name, new));
            }
            // All labels are written: nothing but the lists is left to be changed.
            lists.into_iter().try_for_each(|(name, new)| cx.append_aux(name, new))?;
            cx.shared.aux_sizes.lock().extend(sizes);
            Ok(())
        })
    }

    /// Writes the lists of spares and cache devices anew: these were found in other places.
    pub(super) fn rewrite_aux(&self) -> Result<()> {
        let lists = [(mos::SPARES, self.view().spares()), (mos::L2CACHE, self.view().l2cache())];
        let lists = lists.map(|(name, devices)| {
            (name, devices.iter().map(VdevConfig::to_nvlist).collect::<Vec<_>>())
        });
        self.run(move |cx| {
            let objects = cx.objects();
            let directory = Zap::open(&objects.object(mos::DIRECTORY_OBJECT)?)?;
            for (name, devices) in &lists {
                let Some(number) = directory.get_u64(name)? else { continue };
                let mut all = util::read_packed(objects, number)?;
                all.set(name, NvValue::NvListArray(devices.clone()));
                util::write_packed(objects, cx.tx, number, &all)?;
            }
            Ok(())
        })
    }

    /// Sets a stored pool property to a value that is taken as it is.
    pub fn set_pool_property(&self, name: &str, word: StoredPropertyValue) -> Result<()> {
        let expands = name == "autoexpand";
        let name = name.to_owned();
        self.run(move |cx| {
            match (&*name, &word) {
                ("comment", StoredPropertyValue::Text(text)) => {
                    let mut config = cx.shared.config.lock();
                    config.facts.comment = (!text.is_empty()).then(|| text.clone());
                    config.dirty = true;
                }
                ("compatibility", StoredPropertyValue::Text(text)) => {
                    let mut config = cx.shared.config.lock();
                    config.facts.compatibility = Some(text.clone());
                    config.dirty = true;
                }
                // A property that users invented is gone when it is empty.
                (name, StoredPropertyValue::Text(text))
                    if name.contains(':') && text.is_empty() =>
                {
                    let table = cx.objects().object(cx.pool_props()?)?;
                    zap::remove(&table, cx.tx, name.as_bytes())?;
                }
                (name, _) => {
                    word.check_length(cx.shared.pool(), name)?;
                    let table = cx.objects().object(cx.pool_props()?)?;
                    zap::set(&table, cx.tx, name.as_bytes(), &word.value())?;
                    match (name, &word) {
                        ("failmode", StoredPropertyValue::Number(mode)) => {
                            cx.shared.txgs.set_fail_mode(FailMode::of(*mode));
                        }
                        ("autotrim", StoredPropertyValue::Number(on)) => {
                            cx.shared.set_autotrim(*on == 1)?;
                        }
                        _ => {}
                    }
                }
            }
            Ok(())
        })?;
        if expands { self.expand_if_wanted() } else { Ok(()) }
    }

    /// Enables a feature, by name, and those it needs.
    ///
    /// # Errors
    /// Those of [`to_enable`], and when the pool cannot be changed.
    pub fn enable_feature(&self, name: &str) -> Result<()> {
        let feature = to_enable(name)?;
        self.run(move |cx| {
            cx.keep_errors_by_head(|| Ok(cx.shared.features.enable(cx.tx, feature)?))?;
            cx.shared.config.lock().dirty = true;
            Ok(())
        })
    }

    /// Gives the pool a new guid, so that a copy of it can be told from it: this one, or one that
    /// is chosen.
    ///
    /// # Errors
    /// When it has this guid already, the pool has a checkpoint, or a device is not in use: its
    /// labels would keep the old guid, and it would be a device of another pool from then on.
    pub fn reguid(&self, wanted: Option<u64>) -> Result<u64> {
        let guid = wanted.unwrap_or_else(guid_from(&self.shared.rt));
        let changed = self.run(move |cx| {
            if cx.shared.config.lock().facts.guid == guid {
                return Err(cx.shared.refused(PoolRefusal::SameGuid));
            }
            cx.check_no_checkpoint()?;
            cx.check_every_leaf_is_online()?;
            let mut root = cx.shared.config.lock().root.clone();
            set_u64(&mut root, "guid", guid).map_err(|e| bad(&e))?;
            cx.shared.config.lock().facts.guid = guid;
            cx.set_root(root);
            Ok(guid)
        });
        if changed.is_ok() {
            self.shared.post_system("pool_reguid");
        }
        changed
    }
}
