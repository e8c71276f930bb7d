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
use super::config::{FIRST_TXG, VdevSpec};
use super::config_edit::{AttachKind, bad, parent_of, top_of, with_child};
use super::leaves::needs_spare;
use super::new_side::{NewChild, NewChildKind, ResilverKind};
use super::new_vdevs::guid_from;
use super::shared::{Shared, TXGS_ALIVE};
use crate::error::{Error, Result};
use crate::refusal::{DeviceFault, Ongoing, VdevFault};
use device::WriteDeviceRef;
use ondisk::config::{VdevConfig, VdevKind};

impl Shared {
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
