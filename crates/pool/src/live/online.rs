//! Leaves that go and come back while the pool is open.
//!
//! # Theory
//!
//! ```text
//!            is taken out (offline), fails (health.rs), is pulled out
//!   in use ----------------------------------------------------------> away: misses every txg
//!     ^                                                                   |
//!     |  the log is empty          its log says on disk what it missed    |
//!     +------- resilver <------- written to again <-----------------------+
//! ```
//!
//! Each arrow is a new tree of vdevs, put in place by a sync task, so that no txg begins with one
//! and ends with the other. The leaf misses the txg of its return as a whole, for data were written
//! before the task ran.
//!
//! The order on return is what a crash must not find otherwise: **its log holds all that it missed
//! before anything is written to it**. Until then its rings and labels are the sign of its absence
//! (`stale.rs`), and the first label would take that sign away. So there is a txg that writes
//! the log, and the leaf comes back in a later one.
//!
//! A leaf is known by the guids in its label. What it missed begins after its last uberblock, when
//! the others have that one too, or when it is older than all that its log says. Otherwise it was
//! written without the others, and it missed everything.

use super::LivePool;
use super::config::{set_u64, unset};
use super::config_edit::{change_leaf, leaf_of, parent_of};
use super::leaves::unmark;
use super::mode::OfflineMode;
use super::scan::RESILVER_TXG;
use super::shared::Shared;
use crate::dtl::DirtyTimeLogs;
use crate::error::{Error, Result};
use crate::live::config_edit::bad;
use crate::not_used::LabelMismatch;
use crate::refusal::DeviceFault;
use crate::scan::{FoundLeaf, look_at_device};
use crate::uberblocks::{is_before_move, read_ring};
use device::{DeviceRef, DeviceSource, OpenPolicy, WriteDeviceRef};
use ondisk::config::{LabelConfig, VdevConfig, VdevKind};
use ondisk::label::LABELS;
use ondisk::{BlkPtr, Uberblock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vdev::{LeafOpen, Txgs, VdevState};

/// How long a device is tried that another program has open: requests that are under way hold the
/// device that they began with.
const IN_USE: Duration = Duration::from_secs(1);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// Txgs without anything in them between the last one of a leaf and the first that it missed, at
/// most: an import begins a few txgs later.
const SKIPPED_TXGS: u64 = 8;

/// What tells one uberblock from another: txg, time, pointer.
type Mark = (u64, u64, BlkPtr);

/// What becomes of changes that only the returning leaf has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnChanges {
    /// They are given up: its blocks are replaced by those of the others.
    GiveUp,
    /// They are kept: a leaf that was written without the others stays away.
    Keep,
}

/// What a leaf that has come back lacks.
pub(super) struct LeafAbsence {
    /// Txg of its last uberblock; 0: it has none.
    pub(super) newest: u64,
    /// Births of blocks that it may not have.
    pub(super) missed: Txgs,
    /// It was not written to without the others.
    pub(super) has_stood_still: bool,
    /// It is as it was when it left, and no copy from before that.
    pub(super) is_as_it_left: bool,
}

fn mark(uberblock: &Uberblock) -> Mark {
    (uberblock.txg, uberblock.timestamp, uberblock.rootbp)
}

/// The spare that stands in for a leaf goes when the leaf has all; whether there is one.
fn relieve_spare(root: &mut VdevConfig, guid: u64) -> Result<bool> {
    if parent_of(root, guid).is_none_or(|v| v.kind != VdevKind::Spare) {
        return Ok(false);
    }
    let relieved = |leaf: &mut VdevConfig| match leaf.is_spare {
        true => Ok(()),
        false => set_u64(leaf, "unspare", 1),
    };
    change_leaf(root, guid, &relieved).map_err(|e| bad(&e))?;
    Ok(true)
}

impl Shared {
    /// From now on the tree has this for a leaf, and its configuration is changed like this; the
    /// labels of all leaves will say so. A spare that stands in for a leaf that comes back goes
    /// when the leaf has all. Runs as a sync task.
    fn put_leaf(
        &self,
        guid: u64,
        open: LeafOpen,
        change: impl Fn(&mut VdevConfig) -> ondisk::Result<()> + Send + 'static,
    ) -> Result<()> {
        let wants_writer = matches!(open, LeafOpen::Writable(_));
        self.run(move |cx| {
            let shared = cx.shared;
            let mut root = shared.config.lock().root.clone();
            change_leaf(&mut root, guid, &change).map_err(|e| bad(&e))?;
            // Only here is it known: a spare may just have been taken.
            if wants_writer {
                relieve_spare(&mut root, guid)?;
            }
            // A resilver that is under way passes it over meanwhile.
            let unmarked = |leaf: &mut VdevConfig| unset(leaf, &[RESILVER_TXG]);
            change_leaf(&mut root, guid, &unmarked).map_err(|e| bad(&e))?;
            let before = shared.reader.vdevs();
            // Only this txg may have seen that another was cut short.
            if matches!(open, LeafOpen::Offline) && !before.can_lose_all(&[guid]) {
                return Err(cx.shared.refused(DeviceFault::OnlyCopy));
            }
            let mut leaf = |c: &VdevConfig| (c.guid == guid).then(|| open.clone());
            let next = before.successor(&shared.rt, &root, &mut leaf).map_err(|e| bad(&e))?;
            let is_written = next.leaves().any(|l| l.guid() == guid && l.writer().is_some());
            if wants_writer && !is_written {
                return Err(bad(&"the device is smaller than it was"));
            }
            cx.touch();
            shared.scans.has_moved(guid);
            shared.reader.set_vdevs(next);
            shared.use_log_as_written(&root, guid);
            // Also when the leaf has come: data of this txg were written before.
            shared.reader.vdevs().has_missed(guid, &one(cx.tx.txg()));
            let mut config = shared.config.lock();
            (config.root, config.dirty) = (root, true);
            Ok(())
        })
    }

    /// The log device that a leaf belongs to takes blocks of logs as long as it is written to.
    fn use_log_as_written(&self, root: &VdevConfig, leaf: u64) {
        let mut logs = root.children.iter().filter(|top| top.is_log && !top.non_allocating);
        let Some(log) = logs.find(|top| top.find(leaf).is_some()) else { return };
        let Ok(id) = u32::try_from(log.id) else { return };
        match self.reader.vdevs().top(id).is_some_and(|top| top.is_writable()) {
            true => self.alloc.use_log(id),
            false => self.alloc.avoid_log(id),
        }
    }

    /// What a leaf that has come back lacks, by its uberblocks, those of a leaf beside it and its
    /// log.
    pub(super) fn absence(&self, leaf: &FoundLeaf, guid: u64, log: &Txgs) -> LeafAbsence {
        let last = self.txgs.last_synced();
        let ring: Vec<_> = read_ring(leaf).into_iter().filter(|u| u.uberblock.txg > 0).collect();
        let newest = ring.iter().map(|u| u.uberblock).max_by_key(|u| (u.txg, u.timestamp));
        let all = |has_stood_still| {
            let missed = std::iter::once(1..=last).collect();
            let newest = newest.map_or(0, |u| u.txg);
            LeafAbsence { newest, missed, has_stood_still, is_as_it_left: false }
        };
        let (Some(newest), Some(others)) = (newest, self.sibling_marks(guid)) else {
            return all(false);
        };
        let log = &while_away(log);
        // The others' rings may be too young to have anything in common with it.
        let is_before_log = log.bounds().is_some_and(|(first, _)| newest.txg < first);
        if !is_before_log && !others.contains(&mark(&newest)) {
            return all(false);
        }
        let is_as_it_left = is_as_it_left(newest.txg, log, &others);
        let is_before_move =
            || is_before_move(&newest, &self.uberblock.lock(), &self.config.lock().root);
        if !is_as_it_left && (lacked_something(leaf, guid) || is_before_move()) {
            return all(true);
        }
        // A copy that was made while the device was in use is as old as the label that was copied
        // first.
        let of_label = |n| {
            let in_it = ring.iter().filter(|u| u.label == n);
            in_it.map(|u| u.uberblock.txg).max()
        };
        let since = (0..LABELS).filter_map(of_label).min().unwrap_or(newest.txg);
        let mut missed = Txgs::default();
        missed.add(since + 1, last.saturating_add(1));
        LeafAbsence { newest: newest.txg, missed, has_stood_still: true, is_as_it_left }
    }

    /// The uberblocks of a leaf in use beside that one.
    fn sibling_marks(&self, guid: u64) -> Option<Vec<Mark>> {
        let tree = self.reader.vdevs();
        let top = tree.tops().find(|t| below(t.node()).contains(&guid))?;
        // A log is written beside all others: any of them has seen what became of its txgs.
        let is_beside = |n: u64| top.is_log() || below(top.node()).contains(&n);
        let mut others = tree
            .leaves()
            .filter(|l| l.guid() != guid && l.writer().is_some() && is_beside(l.guid()));
        let device = others.find_map(|l| l.device().cloned())?;
        let other = look_at_device(&device, PathBuf::new())?;
        let marks = read_ring(&other).into_iter().map(|found| mark(&found.uberblock));
        Some(marks.filter(|(txg, ..)| *txg > 0).collect())
    }

    /// A device is the leaf that it is to be.
    fn check_label(&self, device: &DeviceRef, guid: u64) -> Result<FoundLeaf> {
        let name = device.name().to_owned();
        let probe = device.read_new(0, device.sector_size() as usize);
        probe.map_err(|cause| Error::Device { pool: self.pool().to_owned(), cause })?;
        let found = look_at_device(device, PathBuf::from(&name));
        match (self.unfit(found.as_ref(), guid), found) {
            (None, Some(found)) => Ok(found),
            (why, _) => {
                let why = why.unwrap_or(LabelMismatch::NoLabel);
                Err(self.refused(DeviceFault::Unfit { name, why }))
            }
        }
    }

    /// Why what was found is not that leaf's device.
    pub(super) fn unfit(&self, found: Option<&FoundLeaf>, guid: u64) -> Option<LabelMismatch> {
        let pool = self.config.lock().facts.guid;
        match found.map(|found| &found.config) {
            None => Some(LabelMismatch::NoLabel),
            Some(LabelConfig::Member(c)) if c.pool_guid != pool => Some(LabelMismatch::OtherPool),
            Some(LabelConfig::Member(c)) if c.guid == Some(guid) => None,
            Some(LabelConfig::Member(_)) => Some(LabelMismatch::OtherLeaf),
            Some(LabelConfig::Aux(_)) => Some(LabelMismatch::Aux),
        }
    }
}

/// The log of a device that was too short when the pool was imported begins with all that there was
/// by then. After that it was away.
fn while_away(log: &Txgs) -> Txgs {
    let mut runs = log.runs();
    let first = runs.next().filter(|run| *run.start() == 1 && runs.next().is_some());
    let mut log = log.clone();
    if let Some(run) = first {
        log.remove(1, run.end().saturating_add(1));
    }
    log
}

/// Nothing but the txgs that the log has is between the last uberblock of a leaf and now: it is as
/// it was when it left. What is older than the others' rings is known to be so only when the log
/// begins right after it.
fn is_as_it_left(newest: u64, log: &Txgs, others: &[Mark]) -> bool {
    let after = log.runs().filter(|run| *run.end() > newest);
    let first = after.map(|run| (*run.start()).max(newest + 1)).min();
    let is_between = |txg: u64| newest < txg && first.is_none_or(|first| txg < first);
    let is_seen = others.iter().any(|(txg, ..)| *txg <= newest);
    let is_next = first.is_some_and(|first| first - newest <= SKIPPED_TXGS);
    (is_seen || is_next) && !others.iter().any(|(txg, ..)| is_between(*txg))
}

/// The labels of a leaf say that it was being brought what it lacked.
fn lacked_something(leaf: &FoundLeaf, guid: u64) -> bool {
    let LabelConfig::Member(config) = &leaf.config else { return false };
    let own = leaf_of(&config.vdev_tree, guid);
    own.is_none_or(|v| v.resilver_txg.is_some() || v.rebuild_txg.is_some())
}

fn one(txg: u64) -> Txgs {
    std::iter::once(txg..=txg).collect()
}

/// Guids of a vdev and of all below. Building a tree bounds its depth.
fn below(node: vdev::NodeRef<'_>) -> Vec<u64> {
    let mut out = vec![node.guid()];
    node.children().for_each(|child| out.extend(below(child)));
    out
}

/// Those of the vdev with this guid and of all below; none if it is not in the tree.
fn at_and_below(tree: &vdev::VdevTree, guid: u64) -> Vec<u64> {
    tree.walk().find(|node| node.guid() == guid).map(below).unwrap_or_default()
}

impl LivePool {
    /// Takes a leaf out of use. What it misses from now on is written down. When no other has what
    /// a log device has, what was promised there is in the tree before.
    ///
    /// # Errors
    /// When there is no such leaf, or the rest cannot do without it; or its intent logs cannot be
    /// ended.
    pub fn offline_leaf(&self, guid: u64, how: OfflineMode) -> Result<()> {
        let shared = &self.shared;
        if leaf_of(&shared.config.lock().root, guid).is_none() {
            return Err(self.shared.refused(DeviceFault::NotInPool));
        }
        if !shared.reader.vdevs().can_lose_all(&[guid]) {
            return Err(self.shared.refused(DeviceFault::OnlyCopy));
        }
        let is_of_log = {
            let config = shared.config.lock();
            let mut logs = config.root.children.iter().filter(|top| top.is_log);
            logs.any(|top| top.find(guid).is_some())
        };
        if is_of_log && !shared.reader.vdevs().top_is_complete_without(guid) {
            return self.while_logs_are_empty(|| {
                self.run(|cx| cx.end_logs_of_closed())?;
                self.put_offline(guid, how)
            });
        }
        self.put_offline(guid, how)
    }

    fn put_offline(&self, guid: u64, how: OfflineMode) -> Result<()> {
        let open = match how {
            OfflineMode::Faulted | OfflineMode::FaultedForNow => LeafOpen::FaultedByHand,
            OfflineMode::Offline | OfflineMode::OfflineForNow => LeafOpen::Offline,
        };
        self.shared.put_leaf(guid, open, move |leaf| {
            unmark(leaf)?;
            match how {
                OfflineMode::Offline => set_u64(leaf, "offline", 1),
                OfflineMode::OfflineForNow | OfflineMode::FaultedForNow => Ok(()),
                OfflineMode::Faulted => {
                    set_u64(leaf, "faulted", 1)?;
                    super::config::set_text(leaf, "aux_state", "external")
                }
            }
        })
    }

    /// Lets go of a leaf's device, as if it had been pulled out. [`Self::online_leaf`] is how it
    /// comes back.
    fn close_leaf(&self, guid: u64) -> Result<()> {
        self.shared.put_leaf(guid, LeafOpen::Missing, |_| Ok(()))
    }

    /// A leaf that was away is used again: it is written to from now on, and read where it has
    /// missed nothing. What it missed is brought by a resilver, which begins at once. `source` has
    /// the device under its path; the one that the pool has is closed before.
    ///
    /// # Errors
    /// When the device cannot be opened, is not the leaf's, or has changes that are to be kept: the
    /// leaf stays away.
    pub fn online_leaf(
        &self,
        guid: u64,
        own: OwnChanges,
        path: Option<&Path>,
        source: &dyn DeviceSource,
    ) -> Result<()> {
        let shared = &self.shared;
        let known = leaf_of(&shared.config.lock().root, guid).map(|leaf| leaf.path.clone());
        let Some(known) = known else {
            return Err(self.shared.refused(DeviceFault::NotInPool));
        };
        let known = known.map(PathBuf::from);
        let Some(path) = path.map(Path::to_owned).or_else(|| known.clone()) else {
            return Err(self.shared.refused(DeviceFault::NoPath(guid)));
        };
        // One that is used stays as it is: without it there may be no pool. Its errors are
        // forgotten.
        let is_used = |l: vdev::NodeRef<'_>| {
            l.guid() == guid && l.writer().is_some() && l.state().is_readable()
        };
        if shared.reader.vdevs().leaves().any(is_used) {
            self.forget_errors(Some(guid))?;
            return self.resilver();
        }
        // What was given up and still reaches the device must not do so after what is written now.
        let is_silent = |l: vdev::NodeRef<'_>| l.guid() == guid && l.is_silent();
        if shared.reader.vdevs().leaves().any(is_silent) {
            return Err(self.shared.refused(DeviceFault::Outstanding));
        }
        let is_open = |l: vdev::NodeRef<'_>| l.guid() == guid && l.device().is_some();
        if shared.reader.vdevs().leaves().any(is_open) {
            self.close_leaf(guid)?;
        }
        let pool = self.name().to_owned();
        let patience = OpenPolicy { again: IN_USE, pause: BETWEEN_TRIES, ..OpenPolicy::default() };
        let is_in_use = |kind| kind == device::ErrorKind::InUse;
        // Devices may have changed places with each other: the others are followed before this one
        // has the place of one of them.
        let found = self.claim_in_other_place(guid, &path, source);
        let moved = self.moved_devices().follow(source);
        if !moved.is_empty() {
            self.note_moved(moved)?;
        }
        if let Some((device, path)) = found {
            let place = super::paths::other_place(known.as_deref(), &path);
            return self.bring_online(guid, own, device, place);
        }
        let opened = patience.again(&shared.rt, is_in_use, || source.claim(&path));
        let device = opened.map_err(|cause| Error::Device { pool, cause })?;
        let place = super::paths::other_place(known.as_deref(), &path);
        self.bring_online(guid, own, device, place)
    }

    /// The device of a leaf, where another one of the pool was that is not there any more.
    fn claim_in_other_place(
        &self,
        guid: u64,
        path: &Path,
        source: &dyn DeviceSource,
    ) -> Option<(WriteDeviceRef, PathBuf)> {
        let shared = &self.shared;
        let root = shared.config.lock().root.clone();
        let tree = shared.reader.vdevs();
        // One that is used in its place is no other.
        let is_in_place = |guid: u64| {
            let mut leaves = tree.leaves().filter(|l| l.guid() == guid && l.device().is_some());
            leaves.any(|l| l.displaced().is_none())
        };
        let others = root.walk().filter(|v| v.kind.is_leaf() && v.guid != guid);
        let places = others.filter(|v| !is_in_place(v.guid)).filter_map(|v| v.path.as_ref());
        let places = places.map(PathBuf::from).filter(|p| p != path && p.is_absolute());
        let is_it = |place: &PathBuf| {
            let device = source.open(place).ok()?;
            let device = vdev::guarded_reader(&shared.rt, &device, &shared.queues);
            let found = look_at_device(&device, place.clone());
            shared.unfit(found.as_ref(), guid).is_none().then_some(())
        };
        let place = places.filter(|p| !far::is_far(p)).find(|place| is_it(place).is_some())?;
        Some((source.claim(&place).ok()?, place))
    }

    /// Leaves that were gone without because their files were moved away, and that are back: the
    /// same files, which the pool has had open all the time.
    #[must_use]
    pub fn leaves_there_again(&self) -> Vec<u64> {
        let tree = self.shared.reader.vdevs();
        tree.leaves().filter(|l| l.is_there_again()).map(vdev::NodeRef::guid).collect()
    }

    /// Uses those again, as far as they can be; which these are.
    pub fn use_what_is_there_again(&self, source: &dyn DeviceSource) -> Vec<u64> {
        let is_used = |guid: &u64| self.online_leaf(*guid, OwnChanges::Keep, None, source).is_ok();
        let use_all = || self.leaves_there_again().into_iter().filter(is_used).collect();
        self.with_one_resilver(use_all)
    }

    /// Leaves that were away when the pool was written, and are here now, are used again, and what
    /// leaves missed is brought to them. One that was written without the others stays as it is,
    /// until the user says that nothing of it is wanted ([`Self::online_leaf`]).
    pub(super) fn online_returned(
        &self,
        devices: BTreeMap<u64, WriteDeviceRef>,
        logs: &DirtyTimeLogs,
    ) -> Result<()> {
        let shared = &self.shared;
        let tree = shared.reader.vdevs();
        let is_away = |guid: u64| tree.leaves().any(|l| l.guid() == guid && l.is_behind());
        let away: Vec<_> = devices.into_iter().filter(|(guid, _)| is_away(*guid)).collect();
        let bring = |(guid, device): (u64, WriteDeviceRef)| {
            let found = shared.check_label(&Arc::clone(&device).as_device(), guid);
            let log = logs.get(&guid).cloned().unwrap_or_default();
            let absence = found.map(|found| shared.absence(&found, guid, &log));
            if absence.is_ok_and(|absence| absence.has_stood_still) {
                // A leaf that cannot be used is what it was before: away.
                let _ = self.bring_online(guid, OwnChanges::Keep, device, None);
            }
        };
        self.with_one_resilver(|| {
            away.into_iter().for_each(bring);
            // A replacement that was complete when the pool was closed; others end later.
            shared.detach_outlived()?;
            self.resilver()
        })?;
        self.resume_scan()
    }

    /// The same, with the device, and where it is now when that is another place.
    pub(super) fn bring_online(
        &self,
        guid: u64,
        own: OwnChanges,
        device: WriteDeviceRef,
        place: Option<String>,
    ) -> Result<()> {
        let shared = &self.shared;
        // It may hang still, or again.
        let guarded = shared.guarded(&device);
        let found = shared.check_label(&Arc::clone(&guarded).as_device(), guid)?;
        let tree = shared.reader.vdevs();
        let log = tree.leaves().find(|l| l.guid() == guid).map(vdev::NodeRef::missed_while_away);
        let LeafAbsence { missed, has_stood_still, .. } =
            shared.absence(&found, guid, &log.unwrap_or_default());
        if own == OwnChanges::Keep && !has_stood_still {
            return Err(self.shared.refused(DeviceFault::WroteAlone));
        }
        tree.has_missed(guid, &missed);
        drop(tree);
        // Its log is on disk before anything is written to it.
        self.sync()?;
        if !has_stood_still {
            // Its own txgs may have higher numbers than the pool's: an import takes the highest.
            let cleared = vdev::label::clear_rings(guarded.as_ref());
            cleared.map_err(|e| shared.failed("clearing uberblocks", e))?;
        }
        shared.put_leaf(guid, LeafOpen::Writable(device), move |leaf| {
            unmark(leaf)?;
            if let Some(place) = &place {
                super::config::set_text(leaf, "path", place)?;
                unset(leaf, &super::paths::OLD_PLACES)?;
            }
            unset(leaf, &["offline"])
        })?;
        shared.refused.lock().remove(&guid);
        shared.resume_works()?;
        self.resilver()
    }

    /// A leaf that was taken out of use, or failed, is one that is missing from now on.
    ///
    /// # Errors
    /// The pool takes no changes.
    pub(super) fn put_missing(&self, guid: u64) -> Result<()> {
        let tree = self.shared.reader.vdevs();
        let is_it = |l: &vdev::NodeRef<'_>| l.guid() == guid && l.writer().is_none();
        let Some(leaf) = tree.leaves().find(is_it) else { return Ok(()) };
        let by_state = matches!(leaf.state(), VdevState::Offline | VdevState::Faulted);
        let root = self.shared.config.lock().root.clone();
        let is_marked = leaf_of(&root, guid).is_some_and(|c| c.offline || c.faulted);
        // What was given up and may still reach the device stays what it is.
        if leaf.is_silent() || !(by_state || is_marked) {
            return Ok(());
        }
        drop(tree);
        self.shared.put_leaf(guid, LeafOpen::Missing, |leaf| {
            unmark(leaf)?;
            unset(leaf, &["offline"])
        })
    }

    /// Leaves that the rest cannot do without, whose files were cut short and have their sizes
    /// again. Asks the system.
    #[must_use]
    pub fn leaves_of_full_size(&self) -> Vec<u64> {
        let tree = self.shared.reader.vdevs();
        tree.leaves().filter(|l| l.has_its_size_again()).map(vdev::NodeRef::guid).collect()
    }

    /// Uses those as any other from now on: see [`Self::forget_errors`]. Which these are.
    pub fn use_full_sizes(&self) -> Vec<u64> {
        let is_used = |guid: &u64| self.forget_errors(Some(*guid)).is_ok();
        self.leaves_of_full_size().into_iter().filter(is_used).collect()
    }

    /// Forgets the errors of a vdev and of those below, or of all, and which blocks were read in
    /// spite of their damage. Leaves that are out of use for errors are not brought back by this.
    /// One whose file was cut short and has its size again is like any other from then on, and a
    /// scrub finds what was lost with its end. A spare that stands in for one that was used in
    /// spite of its errors is given back.
    pub fn forget_errors(&self, guid: Option<u64>) -> Result<()> {
        let had_cut = self.leaves_of_full_size();
        match guid {
            None => self.view().faults().forget(),
            Some(guid) => {
                let tree = self.shared.reader.vdevs();
                let cleared = at_and_below(&tree, guid);
                let all = tree.walk().map(|node| node.guid());
                let others = all.filter(|other| !cleared.contains(other)).collect();
                self.view().faults().forget_all_but(&others);
            }
        }
        let (is_spared, cleared) = self.run(move |cx| {
            let tree = cx.shared.reader.vdevs();
            let mut root = cx.shared.config.lock().root.clone();
            let (mut is_spared, mut cleared) = (false, Vec::new());
            let which = guid.unwrap_or_else(|| tree.root().guid());
            let chosen = at_and_below(&tree, which);
            let is_meant = |l: &vdev::NodeRef<'_>| chosen.contains(&l.guid());
            let is_used = |l: &vdev::NodeRef<'_>| l.state().is_readable() && l.writer().is_some();
            for leaf in tree.leaves().filter(|l| is_meant(l) && is_used(l)) {
                change_leaf(&mut root, leaf.guid(), &unmark).map_err(|e| bad(&e))?;
                if leaf.state() == VdevState::Degraded {
                    is_spared |= relieve_spare(&mut root, leaf.guid())?;
                    cleared.push(leaf.guid());
                }
                let _ = leaf.accept_size();
            }
            // What was found to be degraded when the pool was opened is so by its tree.
            let again = |c: &VdevConfig| {
                let mut leaves = tree.leaves().filter(|l| l.guid() == c.guid && is_meant(l));
                let leaf = leaves.find(|l| l.state() == VdevState::Degraded)?;
                Some(LeafOpen::Writable(Arc::clone(leaf.writer()?)))
            };
            let next = tree.successor(&cx.shared.rt, &root, &mut { again });
            let next = next.map_err(|e| bad(&e))?;
            cx.touch();
            next.forget_errors(which);
            cx.shared.reader.set_vdevs(next);
            let mut config = cx.shared.config.lock();
            (config.root, config.dirty) = (root, true);
            Ok((is_spared, cleared))
        })?;
        cleared.into_iter().for_each(|leaf| self.shared.post_device("vdev_clear", leaf));
        self.shared.resume_works()?;
        if is_spared {
            self.shared.detach_outlived()?;
        }
        let are_left = self.leaves_of_full_size();
        match had_cut.iter().all(|guid| are_left.contains(guid)) {
            true => Ok(()),
            false => self.shared.want_scrub(),
        }
    }

    /// The leaves that are not used and can be tried again: all but those that the administrator
    /// took out.
    #[must_use]
    pub fn leaves_away(&self) -> Vec<u64> {
        let tree = self.shared.reader.vdevs();
        let root = self.shared.config.lock().root.clone();
        let is_away = |l: &vdev::NodeRef<'_>| {
            let by_will = l.state() == VdevState::Offline;
            let config = leaf_of(&root, l.guid());
            l.writer().is_none() && !by_will && config.is_some_and(|c| !c.offline)
        };
        tree.leaves().filter(is_away).map(vdev::NodeRef::guid).collect()
    }
}
