//! Devices that go: one side of a vdev whose others hold the same, and what is not needed any more.
//! `attach.rs` has the theory.

use super::config_edit::without_child;
use super::labels::aux_label;
use super::shared::Shared;
use crate::error::Result;
use crate::live::config_edit::bad;
use crate::refusal::DeviceFault;
use ondisk::config::{PoolState, VdevConfig, VdevKind};
use ondisk::mos;
use std::collections::BTreeSet;
use vdev::label;

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
