//! Devices that come beside others and go: attach, detach, replace.
//!
//! # Theory
//!
//! A device that comes is a side that missed everything (`config_edit.rs`): its log says so, it is
//! written to from then on, and a resilver brings the rest. Nothing is special about the time in
//! between: a pool that is closed meanwhile goes on with it when it is opened, by OpenZFS as well.
//!
//! *Everything* includes blocks of the two txgs that may be open when the device comes: what an
//! intent log needed of them was written before, without the device, and stays where it is when its
//! txg is synced (`early.rs`). So the log of the device reaches as far, and the resilver waits for
//! these txgs.
//!
//! Replacing is a *replacing* vdev around the old device and the new one. When the new one lacks
//! nothing any more and the old one is not needed, the old one is detached; that is looked for
//! after each scan and when a pool is opened, so nothing has to be remembered. If the new
//! one is detached before, the replacement is cancelled. Spares: `spares.rs`.
//!
//! What it lacks may also be brought by a *rebuild* (`scan/rebuild.rs`), where the vdev is a mirror
//! or a dRAID.
//!
//! A label says first that the device belongs to no pool's state (txg 0), so that one that fails is
//! found before anything changes. A side that is detached has its labels taken off, after the txg
//! that goes without it is durable.

use super::LivePool;
use super::config::{Builder, FIRST_TXG, VdevSpec};
use super::config_edit::{AttachKind, bad, parent_of, top_of, with_child, without_child};
use super::create::{DEVICE_MIN, guid_from, new_vdev_zap, set_member};
use super::leaves::needs_spare;
use super::shared::{Shared, TXGS_ALIVE, TaskCx};
use super::vdevs::aux_label;
use crate::error::{Error, Result};
use crate::refusal::{DeviceFault, Ongoing, VdevFault};
use device::WriteDeviceRef;
use dmu::Zap;
use ondisk::config::{PoolState, VdevConfig, VdevKind};
use ondisk::mos;
use ondisk::spacemap::SpaceMapHeader;
use std::collections::BTreeSet;
use std::sync::Arc;
use vdev::{LeafOpen, VdevTree, label};

/// How a device that comes is brought what it lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResilverKind {
    /// By a resilver, which follows pointers and verifies blocks.
    #[default]
    Healing,
    /// By a rebuild, which copies what is allocated in its order, and then a scrub.
    Sequential,
}

/// A device that comes.
#[derive(Clone)]
pub(super) struct NewChild {
    pub(super) guid: u64,
    pub(super) path: String,
    pub(super) what: NewChildKind,
    pub(super) resilver: ResilverKind,
    /// It comes only if the leaf that it is put beside still needs a spare then.
    pub(super) only_for_failed: bool,
}

/// What it is.
#[derive(Clone)]
pub(super) enum NewChildKind {
    /// A device, which is called a file in its labels, or a disk.
    Device { is_file: bool, device: WriteDeviceRef },
    /// Distributed spare `id` of the dRAID with this guid, which has no device of its own.
    Distributed { top: u64, id: u64 },
}

impl NewChild {
    /// Its configuration, as the side of a vdev.
    pub(super) fn config(&self, txg: u64) -> Builder {
        let kind = match self.what {
            NewChildKind::Device { is_file: true, .. } => "file",
            NewChildKind::Device { .. } => "disk",
            NewChildKind::Distributed { .. } => "dspare",
        };
        let new = Builder::new().text("type", kind).u64("id", 0).u64("guid", self.guid);
        let new = new.text("path", &self.path);
        let new = match self.what {
            NewChildKind::Device { .. } => new.u64("whole_disk", 0),
            NewChildKind::Distributed { top, id } => {
                new.u64("top_guid", top).u64("spareid", id).u64("whole_disk", 1)
            }
        };
        new.u64("create_txg", txg)
    }

    pub(super) fn device(&self) -> Option<&WriteDeviceRef> {
        match &self.what {
            NewChildKind::Device { device, .. } => Some(device),
            NewChildKind::Distributed { .. } => None,
        }
    }
}

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

impl TaskCx<'_> {
    /// Makes a side one of the pool, whose vdevs are to be these: its device gets labels, and its
    /// configuration a table.
    pub(super) fn take_in(
        &self,
        planned: &VdevConfig,
        side: &NewChild,
        new: &mut VdevConfig,
    ) -> Result<()> {
        if let Some(device) = side.device().map(|device| self.shared.guarded(device)) {
            let facts = self.shared.config.lock().facts.clone();
            let top = top_of(self.shared.pool(), planned, side.guid)?;
            let list = facts.for_label(PoolState::Active, 0, planned, top, side.guid);
            let written = label::initialise(device.as_ref(), &list);
            written.map_err(|e| self.shared.failed("writing labels", e))?;
        }
        if let Some(map) = self.zap_map()? {
            let zap = new_vdev_zap(self.objects(), self.tx, map)?;
            set_member(self.objects(), new, "com.delphix:vdev_zap_leaf", zap)?;
        }
        Ok(())
    }
}

impl Shared {
    /// The vdevs as they are planned, with the device of a side that comes.
    pub(super) fn tree_with(&self, planned: &VdevConfig, side: &NewChild) -> Result<VdevTree> {
        let mut open = |c: &VdevConfig| {
            let device = side.device().filter(|_| c.guid == side.guid)?;
            Some(LeafOpen::Writable(Arc::clone(device)))
        };
        let ashift = top_of(self.pool(), planned, side.guid)?.ashift.unwrap_or(9).min(63);
        if side.device().is_some_and(|d| u64::from(d.sector_size()) > 1 << ashift) {
            return Err(self.refused(DeviceFault::LargerSectors));
        }
        // OpenZFS looks at none that is smaller, though the vdev may have less.
        if side.device().is_some_and(|d| d.size() < DEVICE_MIN) {
            return Err(self.refused(DeviceFault::TooSmall));
        }
        let tree = self.reader.vdevs();
        let next = tree.successor(&self.rt, planned, &mut open).map_err(|e| bad(&e))?;
        match next.is_written(side.guid) {
            true => Ok(next),
            false => Err(self.refused(DeviceFault::TooSmall)),
        }
    }

    /// A rebuild and a resilver do not go on beside each other.
    fn check_no_other(&self, kind: ResilverKind) -> Result<()> {
        match kind {
            ResilverKind::Healing if self.is_rebuilding() => Err(self.refused(Ongoing::Rebuild)),
            ResilverKind::Sequential if self.is_resilver_under_way() => {
                Err(self.refused(Ongoing::Resilver))
            }
            _ => Ok(()),
        }
    }

    /// Puts a device beside a leaf.
    pub(super) fn attach(&self, (leaf, how): (u64, AttachKind), new: &NewChild) -> Result<()> {
        let side = new.clone();
        let (guid, path) = (side.guid, side.path.clone());
        let around = guid_from(&self.rt)();
        self.run(move |cx| {
            cx.check_no_checkpoint()?;
            if cx.shared.removals.running().is_some() {
                return Err(cx.shared.refused(Ongoing::Removal));
            }
            let shared = cx.shared;
            shared.check_no_other(side.resilver)?;
            let root = shared.config.lock().root.clone();
            if side.only_for_failed && !needs_spare(&shared.reader.vdevs(), leaf) {
                return Err(shared.refused(DeviceFault::BackInUse));
            }
            let mut new = side.config(cx.tx.txg());
            if how == AttachKind::Spare {
                new = new.u64("is_spare", 1);
            }
            // What comes in the place of a device relieves the spare that stands in for it.
            let is_spared = parent_of(&root, leaf).is_some_and(|v| v.kind == VdevKind::Spare);
            if how == AttachKind::Replacing && is_spared {
                new = new.u64("unspare", 1);
            }
            let mut new = VdevConfig::decode(&new.done()).map_err(|e| bad(&e))?;
            // All that can be refused is, before anything is written.
            let top = top_of(shared.pool(), &root, leaf)?;
            if side.resilver == ResilverKind::Sequential {
                shared.check_rebuild(top)?;
                cx.mark_rebuilt(&mut new)?;
            }
            let planned = with_child(shared.pool(), &root, leaf, (&new, how), around)?;
            let next = shared.tree_with(&planned, &side)?;
            cx.take_in(&planned, &side, &mut new)?;
            let old = root.find(leaf).and_then(|v| v.path.clone()).unwrap_or_default();
            let root = with_child(shared.pool(), &root, leaf, (&new, how), around)?;
            // Blocks of the txgs that are open by now may have been written, for an intent log.
            let last = cx.tx.txg() + TXGS_ALIVE - 1;
            next.has_missed(guid, &std::iter::once(FIRST_TXG..=last).collect());
            let id = top.id;
            cx.put_tree(root, next);
            if side.resilver == ResilverKind::Sequential {
                cx.begin_rebuild(id, last)?;
            }
            let text = match how {
                AttachKind::Mirror => format!("attach vdev={path} to vdev={old}"),
                AttachKind::Replacing => format!("replace vdev={path} for vdev={old}"),
                AttachKind::Spare => format!("spare in vdev={path} for vdev={old}"),
            };
            cx.log_event_of_pool("vdev attach", &text)
        })
    }

    /// Takes a side off the vdev that it is a side of.
    pub(super) fn detach(&self, leaf: u64) -> Result<()> {
        self.check_no_checkpoint()?;
        let root = self.config.lock().root.clone();
        without_child(self.pool(), &root, leaf)?;
        // A spare goes back to where it was taken from.
        let spare = root.find(leaf).filter(|v| v.is_spare);
        let spare = spare.map(|v| v.path.clone().unwrap_or_default());
        let tree = self.reader.vdevs();
        let side = tree.leaves().find(|l| l.guid() == leaf);
        let device = side.and_then(|l| l.writer().cloned());
        if let (Some(_), Some(device)) = (&spare, &device)
            && side.is_some_and(|l| l.state().is_readable())
        {
            // Reports know that it is there before it is looked for again.
            self.aux_sizes.lock().insert(leaf, device.size());
        }
        if !tree.top_is_complete_without(leaf) {
            return Err(self.refused(DeviceFault::NoReplicas));
        }
        drop(tree);
        self.end_works_on(leaf);
        self.run(move |cx| {
            cx.check_no_checkpoint()?;
            let shared = cx.shared;
            let root = shared.config.lock().root.clone();
            let gone = root.find(leaf).cloned();
            let left = without_child(shared.pool(), &root, leaf)?;
            let is_spare = |root: &VdevConfig, guid: u64| root.find(guid).map(|v| v.is_spare);
            let spares = root.walk().filter(|v| v.is_spare).map(|v| v.guid);
            let kept: Vec<u64> = spares.filter(|n| is_spare(&left, *n) == Some(false)).collect();
            let root = left;
            let tree = shared.reader.vdevs();
            // Only this txg may have seen that what stays was cut short.
            if !tree.top_is_complete_without(leaf) {
                return Err(shared.refused(DeviceFault::NoReplicas));
            }
            let next = tree.successor(&shared.rt, &root, &mut |_| None).map_err(|e| bad(&e))?;
            if let Some(gone) = &gone {
                cx.free_objects(gone)?;
            }
            kept.iter().try_for_each(|spare| cx.take_off_list(mos::SPARES, *spare))?;
            cx.put_tree(root, next);
            shared.config.lock().logs.remove(&leaf);
            let path = gone.and_then(|v| v.path).unwrap_or_default();
            cx.log_event_of_pool("detach", &format!("vdev={path}"))
        })?;
        if let Some(device) = device {
            // The pool goes without it: what its labels say is of importance to others only.
            let _ = match spare {
                Some(path) => {
                    label::initialise(device.as_ref(), &aux_label(PoolState::Spare, leaf, &path))
                }
                None => label::clear(device.as_ref(), &[0, 1, 2, 3]),
            };
        }
        Ok(())
    }
}

/// Devices that are not needed any more: those of replacing vdevs, when the last one below lacks
/// nothing, and spares, when what they stand in for has come back and lacks nothing.
fn outlived(root: &VdevConfig, is_whole: &dyn Fn(u64) -> bool) -> Vec<u64> {
    let done = root.walk().filter_map(|v| match (&v.kind, v.children.as_slice()) {
        (VdevKind::Replacing, [old @ .., new]) if is_whole(new.guid) => Some(old),
        (VdevKind::Spare, [own, spares @ ..]) if own.unspare && is_whole(own.guid) => Some(spares),
        _ => None,
    });
    done.flatten().map(|v| v.guid).collect()
}

impl Shared {
    /// Detaches what has been replaced, and spares that stand in for nothing any more; what cannot
    /// go stays, as `status` shows.
    pub(super) fn detach_outlived(&self) -> Result<()> {
        // They stay until the checkpoint is gone: its configuration has them.
        if self.check_no_checkpoint().is_err() {
            return Ok(());
        }
        loop {
            let tree = self.reader.vdevs();
            let is_whole = |guid: u64| {
                let mut leaves = tree.sides().filter(|l| l.guid() == guid);
                leaves.any(|l| l.is_written() && l.state().is_readable() && l.missed().is_empty())
            };
            let root = self.config.lock().root.clone();
            let outlived = outlived(&root, &is_whole);
            drop(tree);
            // What was replaced may have had a spare, which is not needed then either.
            let Some(leaf) = outlived.first() else { return self.expand_after_change() };
            // The end of a scan and an import look for these at the same time: one comes second.
            match self.detach(*leaf) {
                Err(_) if self.config.lock().root.find(*leaf).is_none() => {}
                done => done?,
            }
        }
    }

    /// The vdevs in which one device replaces another.
    pub(super) fn replacements(&self) -> BTreeSet<u64> {
        let config = self.config.lock();
        let replacing = config.root.walk().filter(|v| v.kind == VdevKind::Replacing);
        replacing.map(|v| v.guid).collect()
    }
}

/// The device of a specification of one.
fn one_device(
    pool: &str,
    rt: &rt::Rt,
    spec: &VdevSpec,
    device: WriteDeviceRef,
) -> Result<NewChild> {
    match spec {
        VdevSpec::Leaf { path, is_file } => {
            let what = NewChildKind::Device { is_file: *is_file, device };
            let resilver = ResilverKind::default();
            let (guid, path) = (guid_from(rt)(), path.clone());
            Ok(NewChild { guid, path, what, resilver, only_for_failed: false })
        }
        _ => Err(Error::refused(pool, VdevFault::AttachGroup)),
    }
}

impl LivePool {
    /// Gives the mirror of a leaf another side, or makes a disk that stands alone a mirror. What is
    /// on the others is brought to it by a resilver, which begins at once. A raidz vdev gets a
    /// child more, onto which it is spread; [`Self::wait_for_expansion`] waits for that. `spec` is
    /// a leaf, whose device this is.
    ///
    /// # Errors
    /// When the leaf is part of something else, or the device too small or failing.
    pub fn attach(&self, leaf: u64, spec: &VdevSpec, device: WriteDeviceRef) -> Result<()> {
        self.attach_by(leaf, spec, device, ResilverKind::Healing)
    }

    /// The same, and how the device is brought what is on the others.
    ///
    /// # Errors
    /// As [`Self::attach`]. When the vdev cannot be rebuilt, or the other way is under way.
    pub fn attach_by(
        &self,
        leaf: u64,
        spec: &VdevSpec,
        device: WriteDeviceRef,
        kind: ResilverKind,
    ) -> Result<()> {
        let new = NewChild {
            resilver: kind,
            ..one_device(self.shared.pool(), &self.shared.rt, spec, device)?
        };
        let raidz = |v: &VdevConfig| v.guid == leaf && matches!(v.kind, VdevKind::Raidz { .. });
        if self.shared.config.lock().root.children.iter().any(raidz) {
            if kind == ResilverKind::Sequential {
                return Err(self.shared.refused(VdevFault::NotSequential));
            }
            return self.shared.widen(leaf, &new);
        }
        self.shared.attach((leaf, AttachKind::Mirror), &new)?;
        self.start_resilver(kind)
    }

    /// What a side that came lacks is brought to it, in the background.
    pub(super) fn start_resilver(&self, kind: ResilverKind) -> Result<()> {
        match kind {
            ResilverKind::Healing => self.resilver(),
            ResilverKind::Sequential => self.shared.want_rebuild(),
        }
    }

    /// Takes a side off a mirror, and its labels off the device; or one of the devices of a
    /// replacement, which is called off when it is the new one.
    ///
    /// # Errors
    /// When the leaf is no such side, or has what the others lack.
    pub fn detach(&self, leaf: u64) -> Result<()> {
        self.shared.detach(leaf)?;
        self.shared.expand_after_change()
    }

    /// Puts a device in the place of any leaf, also of one that is gone. What was on it is brought
    /// by a resilver, which begins at once; then the leaf is detached.
    ///
    /// # Errors
    /// When the device is too small or failing.
    pub fn replace(&self, leaf: u64, spec: &VdevSpec, device: WriteDeviceRef) -> Result<()> {
        self.replace_by(leaf, spec, device, ResilverKind::Healing)
    }

    /// The same, and how the device is brought what was on the other.
    ///
    /// # Errors
    /// As [`Self::replace`]. When the vdev cannot be rebuilt, or the other way is under way.
    pub fn replace_by(
        &self,
        leaf: u64,
        spec: &VdevSpec,
        device: WriteDeviceRef,
        kind: ResilverKind,
    ) -> Result<()> {
        let new = NewChild {
            resilver: kind,
            ..one_device(self.shared.pool(), &self.shared.rt, spec, device)?
        };
        self.shared.attach((leaf, AttachKind::Replacing), &new)?;
        self.start_resilver(kind)
    }
}
