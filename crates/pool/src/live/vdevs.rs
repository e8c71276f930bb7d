//! Changing the pool itself: more vdevs, its properties, its guid.

use super::config::{Builder, VdevSpec, distributed_spares, set_u64, with_children};
use super::create::{
    Devices, NO_DRAID, NewTop, PropertyWord, add_top_zaps, count_draids, guid_from, is_draid,
    new_tops, set_member,
};
use super::evacuate::check_layout;
use super::labels::aux_guid;
use super::mode::FailMode;
use super::{LivePool, TaskCx, mos as util};
use crate::alloc;
use crate::error::{Error, Result};
use crate::open::{Pool, in_their_places};
use crate::scan::{FoundLeaf, LabelView};
use crate::uberblocks::read_ring;
use dmu::{Zap, zap};
use ondisk::config::{LabelConfig, PoolState, VdevConfig, aux_devices};
use ondisk::nvlist::{NvList, NvValue};
use ondisk::{DmuType, features, mos};
use vdev::VdevState;
use vdev::label::{self, Round};

/// Longest text of a pool property in bytes, and longest name.
const PROPERTY_MAX: usize = 8191;
const PROPERTY_NAME_MAX: usize = 255;

/// Sector exponent in the label of a cache device.
const AUX_ASHIFT: u64 = 12;

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
            false => Err(Error::Invalid {
                what: format!("all devices have to be ONLINE: {}", others.join(", ")),
            }),
        }
    }

    fn set_root(&self, root: VdevConfig) {
        let mut config = self.shared.config.lock();
        config.root = root;
        config.dirty = true;
    }
}

fn bad(e: &ondisk::Error) -> Error {
    Error::Invalid { what: e.to_string() }
}

/// What the labels of a spare or a cache device say, which belongs to no vdev.
pub(super) fn aux_label(state: PoolState, guid: u64, path: &str) -> NvList {
    let label = Builder::new().u64("version", 5000).u64("state", state.number());
    let label = label.u64("guid", guid).text("path", path);
    match state {
        PoolState::L2cache => label.u64("ashift", AUX_ASHIFT).done(),
        _ => label.done(),
    }
}

/// `root` with more children.
fn grown(root: &VdevConfig, new: &[VdevConfig]) -> Result<VdevConfig> {
    with_children(root, [&root.children, new].concat()).map_err(|e| bad(&e))
}

impl LivePool {
    /// Adds top-level vdevs on `devices`. They belong to the pool when this returns, and are
    /// allocated from when the pool is opened the next time: the caller closes it and opens it
    /// again, which also writes the state of the new devices' labels anew.
    ///
    /// # Errors
    /// When the pool has a device already ([`Error::OwnDevice`]), and when the devices do not make
    /// vdevs, or one fails; the pool is then as it was. One that fails
    /// only when its label says that it belongs to the pool stops the pool.
    pub fn add_tops(&self, tops: &[NewTop], ashift: Option<u32>, devices: &Devices) -> Result<()> {
        let (tops, devices) = (tops.to_vec(), devices.clone());
        let mut guid = guid_from(&self.shared.rt);
        self.run(move |cx| {
            cx.refuse_own(tops.iter().flat_map(|top| top.spec.leaves()), &devices)?;
            let (facts, root) = {
                let config = cx.shared.config.lock();
                (config.facts.clone(), config.root.clone())
            };
            let first = root.children.iter().map(|c| c.id + 1).max().unwrap_or(0);
            let txg = cx.tx.txg();
            let mut new = new_tops(&tops, first, txg, ashift, &devices, &mut guid)?;
            if new.iter().any(is_draid) && !cx.shared.features.is_enabled("draid") {
                return Err(Error::Invalid { what: NO_DRAID.to_owned() });
            }
            // What is removed, or leaves, is mapped to devices and mirrors.
            let moved = root.children.iter().any(|top| top.indirect_object.unwrap_or(0) != 0);
            if moved {
                check_layout(root.children.iter().chain(&new))?;
            }
            let labels = |new: &[VdevConfig], txg: u64| -> Result<VdevConfig> {
                let root = grown(&root, new)?;
                for top in new {
                    for leaf in top.walk().filter(|v| v.kind.is_leaf()) {
                        let device = leaf.path.as_ref().and_then(|p| devices.get(p));
                        let Some(device) = device else { continue };
                        let list = facts.for_label(PoolState::Active, txg, &root, top, leaf.guid);
                        let write = || match txg {
                            0 => label::initialise(device.as_ref(), &list),
                            _ => {
                                label::write_config(device.as_ref(), &list, Round::First)?;
                                label::write_config(device.as_ref(), &list, Round::Second)?;
                                Ok(device.flush()?)
                            }
                        };
                        write().map_err(|e| cx.shared.failed("writing labels", &e))?;
                    }
                }
                Ok(root)
            };
            // First as no part of any pool: a device that fails is found before anything changed.
            labels(&new, 0)?;
            let objects = cx.objects();
            let directory = Zap::open(&objects.object(mos::DIRECTORY_OBJECT)?)?;
            let map = directory.get_u64(mos::VDEV_ZAP_MAP)?;
            if map.is_none() && new.iter().any(|top| top.alloc_bias.is_some() && !top.is_log) {
                let what = "the pool has no tables of vdevs, which such a vdev needs";
                return Err(Error::Invalid { what: what.to_owned() });
            }
            for top in &mut new {
                if let Some(map) = map {
                    add_top_zaps(objects, cx.tx, map, top, &cx.shared.features)?;
                }
                let made = alloc::init_top(objects, cx.tx, top.asize.unwrap_or(0))?;
                set_member(objects, top, "metaslab_array", made.ms_array)?;
            }
            count_draids(&cx.shared.features, cx.tx, &new)?;
            cx.append_spares(distributed_spares(&new, &mut guid))?;
            let root = labels(&new, txg)?;
            cx.set_root(root);
            Ok(())
        })
    }

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
            let mut lists = Vec::new();
            for (name, state, specs) in kinds.into_iter().filter(|k| !k.2.is_empty()) {
                let mut new = Vec::with_capacity(specs.len());
                for spec in specs {
                    let VdevSpec::Leaf { path, is_file } = spec else {
                        let what = format!("a {name} device is no group of devices");
                        return Err(Error::Invalid { what });
                    };
                    let Some(device) = devices.get(path) else {
                        return Err(Error::Invalid { what: format!("{path} was not opened") });
                    };
                    // A spare of another pool stays one: both find it by the same label.
                    let shared = (state == PoolState::Spare).then(|| aux_guid(device, state));
                    let guid = match shared.flatten() {
                        Some(guid) => guid,
                        None => {
                            let failed = |e| cx.shared.failed("writing labels", &e);
                            let guid = guid();
                            let label = aux_label(state, guid, path);
                            label::initialise(device.as_ref(), &label).map_err(failed)?;
                            guid
                        }
                    };
                    let kind = if *is_file { "file" } else { "disk" };
                    let list = Builder::new().text("type", kind).u64("guid", guid);
                    new.push(list.text("path", path).u64("whole_disk", 0).done());
                }
                lists.push((name, new));
            }
            // All labels are written: nothing but the lists is left to be changed.
            lists.into_iter().try_for_each(|(name, new)| cx.append_aux(name, new))
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
    pub fn set_pool_property(&self, name: &str, word: PropertyWord) -> Result<()> {
        let expands = name == "autoexpand";
        let name = name.to_owned();
        self.run(move |cx| {
            match (&*name, &word) {
                ("comment", PropertyWord::Text(text)) => {
                    let mut config = cx.shared.config.lock();
                    config.facts.comment = (!text.is_empty()).then(|| text.clone());
                    config.dirty = true;
                }
                ("compatibility", PropertyWord::Text(text)) => {
                    let mut config = cx.shared.config.lock();
                    config.facts.compatibility = Some(text.clone());
                    config.dirty = true;
                }
                // A property that users invented is gone when it is empty.
                (name, PropertyWord::Text(text)) if name.contains(':') && text.is_empty() => {
                    let table = cx.objects().object(cx.pool_props()?)?;
                    zap::remove(&table, cx.tx, name.as_bytes())?;
                }
                (name, _) => {
                    let text = if let PropertyWord::Text(text) = &word { text.len() } else { 0 };
                    if text > PROPERTY_MAX || name.len() > PROPERTY_NAME_MAX {
                        let what = format!("the property '{name}' or its value is too long");
                        return Err(Error::Invalid { what });
                    }
                    let table = cx.objects().object(cx.pool_props()?)?;
                    zap::set(&table, cx.tx, name.as_bytes(), &word.value())?;
                    match (name, &word) {
                        ("failmode", PropertyWord::Number(mode)) => {
                            cx.shared.txgs.set_fail_mode(FailMode::of(*mode));
                        }
                        ("autotrim", PropertyWord::Number(on)) => {
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
    pub fn enable_feature(&self, name: &str) -> Result<()> {
        let unknown = || Error::Invalid { what: format!("there is no feature '{name}'") };
        let feature = features::by_name(name).ok_or_else(unknown)?;
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
    /// When the pool has a checkpoint, or a device that is not in use: its labels would keep the
    /// old guid, and it would be a device of another pool from then on.
    pub fn reguid(&self, wanted: Option<u64>) -> Result<u64> {
        let guid = wanted.unwrap_or_else(guid_from(&self.shared.rt));
        self.run(move |cx| {
            cx.check_no_checkpoint()?;
            cx.check_every_leaf_is_online()?;
            let mut root = cx.shared.config.lock().root.clone();
            set_u64(&mut root, "guid", guid).map_err(|e| bad(&e))?;
            cx.shared.config.lock().facts.guid = guid;
            cx.set_root(root);
            Ok(guid)
        })
    }
}

impl Pool {
    /// The device was about to become one of this pool's when that was cut off: all its labels
    /// name the pool, which does not have it, and no uberblock was ever written to it.
    #[must_use]
    pub fn is_half_added(&self, found: &FoundLeaf) -> bool {
        let aux = || self.spares().iter().chain(self.l2cache());
        let tree = &self.config().vdev_tree;
        let has = |guid| tree.find(guid).is_some() || aux().any(|device| device.guid == guid);
        let is_beginning = |label: &LabelView| match &label.config {
            Ok(LabelConfig::Member(c)) => {
                c.pool_guid == self.guid() && c.guid.is_some_and(|guid| !has(guid))
            }
            Ok(LabelConfig::Aux(_)) => false,
            Err(_) => true,
        };
        // That of txg 0 stands for none.
        let is_empty = || read_ring(found).iter().all(|u| u.uberblock.txg == 0);
        found.labels.iter().all(is_beginning) && is_empty()
    }
}
