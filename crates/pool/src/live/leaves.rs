//! What the configuration says of leaves: what they missed, and that they are not used.
//!
//! # Theory
//!
//! The tree of vdevs knows at any time which txgs a leaf missed. On disk they are its dirty time
//! log, a space map of txgs that the leaf's configuration names (`docs/format/dtl.md`). The log
//! must be as new as the uberblock that counts: a txg whose blocks are not all on a leaf is in that
//! leaf's log *of that txg*, or the next import would take the leaf for whole.
//!
//! A write may fail after the log was written, for the log itself is among what is written. So the
//! sync goes round until nothing new was missed:
//!
//! ```text
//! logs, configuration -> MOS converges -> its blocks are written -> all answered
//!   ^                                                                 |
//!   |                                              labels, or a flush of all leaves
//!   +--------- a leaf missed something new <--------------------------+
//! ```
//!
//! It ends: a txg is missed by a leaf once, so there is a round for each leaf at most, and when too
//! many are lost the writes themselves fail. The blocks that are written again were born in the
//! same txg, and no uberblock reaches them yet.

use super::config::{set_text, set_u64, unset};
use super::shared::{Shared, TaskCx};
use crate::dtl::{self, DirtyTimeLogs};
use crate::error::Result;
use dmu::Objset;
use ondisk::config::VdevConfig;
use std::collections::BTreeMap;
use vdev::{NodeRef, Reason, Txgs, VdevState, VdevTree};

/// Whether a leaf is not used, for whatever reason.
pub(super) fn is_out_of_use(tree: &VdevTree, leaf: u64) -> bool {
    let failed = [VdevState::Faulted, VdevState::Removed, VdevState::Unavail];
    let mut leaves = tree.leaves().filter(|l| l.guid() == leaf);
    leaves.any(|l| l.writer().is_none() || failed.contains(&l.state()))
}

/// Whether a spare is to stand in for a leaf: it is not used, or is so in spite of its errors.
pub(super) fn needs_spare(tree: &VdevTree, leaf: u64) -> bool {
    let is_doubtful = |l: NodeRef<'_>| {
        l.guid() == leaf && l.state() == VdevState::Degraded && l.reason() == Reason::TooManyErrors
    };
    is_out_of_use(tree, leaf) || tree.leaves().any(is_doubtful)
}

impl Shared {
    /// The MOS says of every leaf what it missed and whether it is used.
    pub(super) fn are_leaves_recorded(&self) -> bool {
        let tree = self.reader.vdevs();
        let config = self.config.lock();
        let nodes: BTreeMap<u64, NodeRef<'_>> = tree.sides().map(|l| (l.guid(), l)).collect();
        config.root.walk().filter_map(|v| Some((v, nodes.get(&v.guid)?))).all(|(vdev, leaf)| {
            let is_logged = config.logs.get(&vdev.guid) == some(leaf.missed()).as_ref();
            is_logged && missing_mark(vdev, *leaf).is_none()
        })
    }

    /// Writes the logs of leaves that changed, and into the configuration what became of leaves.
    pub(super) fn note_leaves(&self, cx: &TaskCx<'_>) -> Result<()> {
        let (mut root, mut logs) = {
            let config = self.config.lock();
            (config.root.clone(), config.logs.clone())
        };
        let tree = self.reader.vdevs();
        let nodes: BTreeMap<u64, NodeRef<'_>> = tree.sides().map(|l| (l.guid(), l)).collect();
        let changed = self.note_below(cx, &mut root, &nodes, &mut logs)?;
        let mut config = self.config.lock();
        config.logs = logs;
        if changed {
            (config.root, config.dirty) = (root, true);
        }
        Ok(())
    }

    /// The same for what is below a vdev; whether its configuration changed. The depth of a
    /// configuration is bounded.
    fn note_below(
        &self,
        cx: &TaskCx<'_>,
        vdev: &mut VdevConfig,
        nodes: &BTreeMap<u64, NodeRef<'_>>,
        logs: &mut DirtyTimeLogs,
    ) -> Result<bool> {
        let mut changed = false;
        for child in &mut vdev.children {
            changed |= self.note_below(cx, child, nodes, logs)?;
        }
        let Some(leaf) = nodes.get(&vdev.guid) else { return Ok(changed) };
        let missed = some(leaf.missed());
        if logs.get(&vdev.guid) != missed.as_ref() {
            let number = match vdev.dtl.filter(|n| *n != 0) {
                Some(number) => number,
                None => {
                    changed = true;
                    self.new_log(cx, vdev)?
                }
            };
            let failed = |e| self.failed("writing the txgs that a device missed", e);
            dtl::write(cx.objects(), cx.tx, number, missed.as_ref()).map_err(failed)?;
            match missed {
                Some(missed) => logs.insert(vdev.guid, missed),
                None => logs.remove(&vdev.guid),
            };
        }
        Ok(mark(vdev, *leaf).map_err(|e| self.failed("marking a device", e))? || changed)
    }

    /// Makes an empty log and names it in the configuration of its leaf.
    fn new_log(&self, cx: &TaskCx<'_>, leaf: &mut VdevConfig) -> Result<u64> {
        let failed = |e| self.failed("making a log of the txgs that a device missed", e);
        let histogram = self.features.is_enabled("spacemap_histogram");
        let number = dtl::create(cx.objects(), cx.tx, histogram).map_err(failed)?;
        if histogram {
            self.features.add(cx.tx, "com.delphix:spacemap_histogram", 1).map_err(failed)?;
        }
        set_u64(leaf, "DTL", number).map_err(|e| self.failed("naming a log", e))?;
        Ok(number)
    }
}

fn some(txgs: Txgs) -> Option<Txgs> {
    Some(txgs).filter(|t| !t.is_empty())
}

/// The member that says of a leaf what was decided of it while it was in use, when it is not set.
/// That it is not in its place, or was away, is not written down: that is seen.
fn missing_mark(leaf: &VdevConfig, node: NodeRef<'_>) -> Option<&'static str> {
    let (name, is_set) = match node.state() {
        VdevState::Degraded if node.reason() != Reason::TooManyErrors => return None,
        // The administrator's word is written down by the task that has it, if it is to stay.
        VdevState::Faulted if node.reason() == Reason::External => return None,
        VdevState::Faulted => ("faulted", leaf.faulted),
        VdevState::Removed => ("removed", leaf.removed),
        VdevState::Degraded => ("degraded", leaf.degraded),
        _ => return None,
    };
    (!is_set).then_some(name)
}

/// Sets that member; whether it was missing. It goes when the leaf is used again ([`unmark`]).
fn mark(leaf: &mut VdevConfig, node: NodeRef<'_>) -> ondisk::Result<bool> {
    let Some(name) = missing_mark(leaf, node) else { return Ok(false) };
    set_u64(leaf, name, 1)?;
    match name {
        "removed" => return Ok(true),
        // What is not used any more is not used in spite of its errors either.
        "faulted" => unset(leaf, &["degraded"])?,
        _ => {}
    }
    set_text(leaf, "aux_state", "err_exceeded")?;
    Ok(true)
}

/// Forgets what was decided of a leaf, but for its being taken offline.
pub(super) fn unmark(leaf: &mut VdevConfig) -> ondisk::Result<()> {
    unset(leaf, &["faulted", "degraded", "removed", "aux_state", "not_present"])
}

/// Forgets of a leaf what is not known to hold where the pool is imported: that it cannot be used.
/// As in OpenZFS, one that was used in spite of its errors is still in doubt: its errors say that
/// it answers and that what it answers was wrong, wherever it stands.
fn forget_absence(leaf: &mut VdevConfig) -> ondisk::Result<()> {
    match leaf.degraded && !leaf.faulted {
        true => unset(leaf, &["removed", "not_present"]),
        false => unmark(leaf),
    }
}

/// Says of every leaf below `vdev` whether it was found. That errors made leaves unusable before
/// the pool was exported does not count any more: they may stand in another machine now. What the
/// administrator said of them does. The depth of a configuration is bounded.
pub(super) fn mark_found(
    vdev: &mut VdevConfig,
    found: &dyn Fn(&u64) -> bool,
    was_exported: bool,
) -> ondisk::Result<()> {
    vdev.children.iter_mut().try_for_each(|child| mark_found(child, found, was_exported))?;
    if !vdev.kind.has_device() {
        return Ok(());
    }
    match found(&vdev.guid) {
        true if was_exported && !vdev.is_faulted_by_hand() => forget_absence(vdev),
        // It was pulled out, and is back.
        true if vdev.removed => unset(vdev, &["removed", "not_present"]),
        true if vdev.not_present => unset(vdev, &["not_present"]),
        false if !vdev.not_present => set_u64(vdev, "not_present", 1),
        _ => Ok(()),
    }
}

/// The dirty time logs that a configuration names. One that cannot be read is as good as empty:
/// every block proves itself by its checksum.
pub(super) fn logs_of(mos: &Objset, root: &VdevConfig) -> DirtyTimeLogs {
    let named = root.walk().filter_map(|v| Some((v.guid, v.dtl.filter(|n| *n != 0)?)));
    let read = named.filter_map(|(guid, number)| Some((guid, some(dtl::read(mos, number).ok()?)?)));
    read.collect()
}
