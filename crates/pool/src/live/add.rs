//! More top-level vdevs for a pool that is open.
//!
//! # Theory
//!
//! A vdev comes in one txg, in which nothing is on it:
//!
//! ```text
//! labels of txg 0 -> tables, space maps, configuration -> the tree is swapped -> txg is durable
//!                                                                                     |
//!                                                            the allocator may use it <
//! ```
//!
//! The first labels belong to no state of the pool, so that a device that fails is found before
//! anything changes; [`Pool::is_half_added`] recognises one that was left in between. From the swap
//! on, the vdev has its labels written and its devices flushed like all others, so the txg that
//! adds it is durable on it too. The allocator knows it from the txg on that comes after: until
//! then a crash may find a pool without it. A spare or a cache device comes by its label and a list
//! in the MOS; nothing holds it.

use super::LivePool;
use super::config::{distributed_spares, with_children};
use super::config_edit::bad;
use super::evacuate::check_layout;
use super::new_vdevs::{
    Devices, NewTop, add_top_zaps, count_draids, guid_from, is_draid, new_tops, set_member,
};
use super::shared::{Shared, TaskCx};
use crate::alloc::{TopSpec, init_top};
use crate::error::Result;
use crate::open::Pool;
use crate::refusal::PoolRefusal;
use crate::scan::{FoundLeaf, LabelView};
use crate::uberblocks::read_ring;
use ondisk::config::{LabelConfig, PoolState, VdevConfig};
use std::sync::Arc;
use vdev::{LeafOpen, label};

/// `root` with more children.
fn grown(root: &VdevConfig, new: &[VdevConfig]) -> Result<VdevConfig> {
    with_children(root, [&root.children, new].concat()).map_err(|e| bad(&e))
}

/// The leaves of vdevs that stand on devices.
fn leaves(tops: &[VdevConfig]) -> impl Iterator<Item = (&VdevConfig, &VdevConfig)> {
    tops.iter().flat_map(|top| top.walk().filter(|v| v.kind.is_leaf()).map(move |leaf| (top, leaf)))
}

impl TaskCx<'_> {
    /// Refuses what a pool like this one cannot have.
    fn check_new_tops(&self, root: &VdevConfig, new: &[VdevConfig]) -> Result<()> {
        if new.iter().any(is_draid) && !self.shared.features.is_enabled("draid") {
            return Err(self.shared.refused(PoolRefusal::FeatureNotEnabled("draid")));
        }
        // What is removed, or leaves, is mapped to devices and mirrors.
        if root.children.iter().any(|top| top.indirect_object.unwrap_or(0) != 0) {
            check_layout(self.shared.pool(), root.children.iter().chain(new))?;
        }
        let has_class = |top: &VdevConfig| top.alloc_bias.is_some() && !top.is_log;
        if self.zap_map()?.is_none() && new.iter().any(has_class) {
            return Err(self.shared.refused(PoolRefusal::NoVdevTables("such a vdev")));
        }
        Ok(())
    }

    /// Writes labels that belong to no state of the pool.
    fn write_first_labels(&self, new: &[VdevConfig], devices: &Devices) -> Result<()> {
        let (facts, root) = {
            let config = self.shared.config.lock();
            (config.facts.clone(), grown(&config.root, new)?)
        };
        for (top, leaf) in leaves(new) {
            let Some(device) = leaf.path.as_ref().and_then(|p| devices.get(p)) else { continue };
            let list = facts.for_label(PoolState::Active, 0, &root, top, leaf.guid);
            let written = label::initialise(self.shared.guarded(device).as_ref(), &list);
            written.map_err(|e| self.shared.failed("writing labels", e))?;
        }
        Ok(())
    }

    /// Makes of these vdevs vdevs of the pool.
    fn add_tops(&self, mut new: Vec<VdevConfig>, devices: &Devices) -> Result<()> {
        let shared = self.shared;
        let root = shared.config.lock().root.clone();
        self.check_new_tops(&root, &new)?;
        let mut open = |leaf: &VdevConfig| {
            let is_new = leaves(&new).any(|(_, one)| one.guid == leaf.guid);
            let device = devices.get(leaf.path.as_ref().filter(|_| is_new)?)?;
            Some(LeafOpen::Writable(Arc::clone(device)))
        };
        let tree = shared.reader.vdevs();
        let next = tree.successor(&shared.rt, &grown(&root, &new)?, &mut open);
        let next = next.map_err(|e| bad(&e))?;
        self.write_first_labels(&new, devices)?;
        let (objects, map) = (self.objects(), self.zap_map()?);
        for top in &mut new {
            if let Some(map) = map {
                add_top_zaps(objects, self.tx, map, top, &shared.features)?;
            }
            let made = init_top(objects, self.tx, top.asize.unwrap_or(0))?;
            set_member(objects, top, "metaslab_array", made.ms_array)?;
        }
        count_draids(&shared.features, self.tx, &new)?;
        self.append_spares(distributed_spares(&new, &mut guid_from(&shared.rt)))?;
        self.put_tree(grown(&root, &new)?, next);
        let specs = new.iter().filter_map(|top| TopSpec::of(top, &shared.reader));
        shared.added.lock().extend(specs);
        Ok(())
    }
}

impl LivePool {
    /// Adds top-level vdevs on `devices`. They belong to the pool, and are allocated from, when
    /// this returns.
    ///
    /// # Errors
    /// When the pool has a device already ([`crate::Error::OwnDevice`]), and when the devices do
    /// not make vdevs, or one fails; the pool is then as it was. When a pool is suspended
    /// meanwhile, it gets the vdevs when it goes on.
    pub fn add_tops(&self, tops: &[NewTop], ashift: Option<u32>, devices: &Devices) -> Result<()> {
        let (tops, devices) = (tops.to_vec(), devices.clone());
        let mut guid = guid_from(&self.shared.rt);
        self.run(move |cx| {
            cx.refuse_own(tops.iter().flat_map(|top| top.spec.leaves()), &devices)?;
            let first = {
                let config = cx.shared.config.lock();
                config.root.children.iter().map(|c| c.id + 1).max().unwrap_or(0)
            };
            let new =
                new_tops(cx.shared.pool(), &tops, first, cx.tx.txg(), ashift, &devices, &mut guid)?;
            cx.add_tops(new, &devices)
        })
    }
}

impl Shared {
    /// A txg is durable: the vdevs that it added are allocated from.
    pub(super) fn use_added(&self) -> Result<()> {
        let added = std::mem::take(&mut *self.added.lock());
        if added.is_empty() {
            return Ok(());
        }
        added.iter().for_each(|spec| self.alloc.add_top(spec));
        // Metadata goes to the first special vdev from now on.
        self.refresh_heads()
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
