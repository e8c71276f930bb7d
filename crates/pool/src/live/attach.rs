//! Sides of mirrors that come and go: attach, detach, and a device that takes another's place.
//!
//! # Theory
//!
//! A device that is attached is a side of a mirror that missed everything: its log says so, it is
//! written to from then on, and a resilver brings the rest. Nothing is special about the time in
//! between, and OpenZFS goes on with it. A device that stands alone becomes the first side of a new
//! mirror, which takes its place at the top, with its number, its space and its tables; when one
//! side is left, it takes that place back.
//!
//! Replacing a side is attaching, resilvering and detaching the old one. The old side goes when
//! no leaf below lacks anything any more; until then a mirror has one side more.
//!
//! A label says first that the device belongs to no pool's state (txg 0), so that one that fails is
//! found before anything changes. A side that is detached has its labels taken off, after the txg
//! that goes without it is durable.

use super::LivePool;
use super::config::{Builder, VdevSpec, set_u64, unset};
use super::create::{FIRST_TXG, guid_from, new_vdev_zap, set_member};
use super::shared::{Shared, TaskCx};
use crate::error::{Error, Result};
use device::WriteDeviceRef;
use dmu::Zap;
use ondisk::config::{PoolState, VdevConfig, VdevKind};
use ondisk::mos;
use ondisk::nvlist::NvList;
use ondisk::spacemap::SpaceMapHeader;
use std::sync::Arc;
use vdev::LeafOpen;
use vdev::label;

/// Members that a top-level vdev has and a side of a mirror has not.
const OF_TOPS: [&str; 8] = [
    "metaslab_array",
    "metaslab_shift",
    "ashift",
    "asize",
    "is_log",
    "alloc_bias",
    "com.delphix:vdev_zap_top",
    "removing",
];

fn bad(e: &dyn std::fmt::Display) -> Error {
    Error::Invalid { what: e.to_string() }
}

fn refused(what: &str) -> Error {
    Error::Invalid { what: what.to_owned() }
}

/// Numbers children from 0.
fn numbered(mut children: Vec<VdevConfig>) -> ondisk::Result<Vec<VdevConfig>> {
    (0u64..).zip(&mut children).try_for_each(|(id, child)| set_u64(child, "id", id))?;
    Ok(children)
}

/// `to`, with what `from` has as a top-level vdev.
fn moved_to_top(from: &VdevConfig, mut to: NvList) -> ondisk::Result<VdevConfig> {
    let stored = from.to_nvlist();
    for name in ["id"].iter().chain(&OF_TOPS) {
        if let Some(pair) = stored.pairs.iter().find(|p| p.name == name.as_bytes()) {
            to.set(name, pair.value.clone());
        }
    }
    // The class stands in the vdev's table, not in every stored list.
    Ok(VdevConfig { alloc_bias: from.alloc_bias.clone(), ..VdevConfig::decode(&to)? })
}

/// The top-level vdev of a leaf with another side beside it; `guid` is for a new mirror.
fn with_side(top: &VdevConfig, leaf: u64, new: &VdevConfig, guid: u64) -> Result<VdevConfig> {
    let changed = match &top.kind {
        VdevKind::Mirror if top.children.iter().any(|c| c.guid == leaf) => {
            let all = top.children.iter().chain([new]).cloned().collect();
            numbered(all).map(|children| VdevConfig { children, ..top.clone() })
        }
        VdevKind::Disk | VdevKind::File if top.guid == leaf => {
            let mut side = top.clone();
            unset(&mut side, &OF_TOPS).map_err(|e| bad(&e))?;
            let sides = numbered(vec![side, new.clone()]).map_err(|e| bad(&e))?;
            let mirror = Builder::new().text("type", "mirror").u64("id", top.id).u64("guid", guid);
            let mirror = mirror.u64("create_txg", top.create_txg.unwrap_or(FIRST_TXG));
            let lists = sides.iter().map(VdevConfig::to_nvlist).collect();
            moved_to_top(top, mirror.lists("children", lists).done())
        }
        _ => return Err(refused("can only attach to mirrors and top-level disks")),
    };
    changed.map_err(|e| bad(&e))
}

/// The top-level vdev without a side.
fn without_side(top: &VdevConfig, leaf: u64) -> Result<VdevConfig> {
    let is_mirror = matches!(top.kind, VdevKind::Mirror);
    let rest: Vec<VdevConfig> = top.children.iter().filter(|c| c.guid != leaf).cloned().collect();
    let changed = match rest.as_slice() {
        _ if !is_mirror || rest.len() == top.children.len() => {
            return Err(refused("only applicable to mirror and replacing vdevs"));
        }
        [] => return Err(refused("no valid replicas")),
        [last] => moved_to_top(top, last.to_nvlist()),
        _ => numbered(rest).map(|children| VdevConfig { children, ..top.clone() }),
    };
    changed.map_err(|e| bad(&e))
}

/// The root with another vdev in the place of one.
fn with_top(root: &VdevConfig, top: VdevConfig) -> VdevConfig {
    let mut root = root.clone();
    if let Some(place) = root.children.iter_mut().find(|c| c.id == top.id) {
        *place = top;
    }
    root
}

fn top_of(root: &VdevConfig, leaf: u64) -> Result<&VdevConfig> {
    let mut tops = root.children.iter();
    let top = tops.find(|top| top.walk().any(|v| v.guid == leaf && v.kind.is_leaf()));
    top.ok_or_else(|| refused("no such device in pool"))
}

impl TaskCx<'_> {
    fn zap_map(&self) -> Result<Option<u64>> {
        let directory = Zap::open(&self.shared.mos.object(mos::DIRECTORY_OBJECT)?)?;
        Ok(directory.get_u64(mos::VDEV_ZAP_MAP)?)
    }

    /// Frees what the MOS has of a leaf: its table and its log.
    fn free_objects(&self, leaf: &VdevConfig) -> Result<()> {
        let objects = &self.shared.mos;
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

    fn put_tree(&self, root: VdevConfig, next: vdev::VdevTree) {
        self.touch();
        self.shared.reader.set_vdevs(next);
        let mut config = self.shared.config.lock();
        (config.root, config.dirty) = (root, true);
    }
}

impl Shared {
    /// Another side for the mirror of a leaf, or for a disk that stands alone; its guid.
    fn attach(&self, leaf: u64, spec: &VdevSpec, device: WriteDeviceRef) -> Result<u64> {
        let VdevSpec::Leaf { path, is_file } = spec.clone() else {
            return Err(refused("a side of a mirror is one device"));
        };
        let mut guids = guid_from(&self.rt);
        let (guid, mirror) = (guids(), guids());
        self.run(move |cx| {
            let shared = cx.shared;
            let (facts, root) = {
                let config = shared.config.lock();
                (config.facts.clone(), config.root.clone())
            };
            let kind = if is_file { "file" } else { "disk" };
            let new = Builder::new().text("type", kind).u64("id", 0).u64("guid", guid);
            let new = new.text("path", &path).u64("whole_disk", 0);
            let new = new.u64("create_txg", cx.tx.txg()).done();
            let mut new = VdevConfig::decode(&new).map_err(|e| bad(&e))?;
            let top = top_of(&root, leaf)?;
            // All that can be refused is, before anything is written.
            let tree = shared.reader.vdevs();
            let planned = with_top(&root, with_side(top, leaf, &new, mirror)?);
            let mut open =
                |c: &VdevConfig| (c.guid == guid).then(|| LeafOpen::Writable(Arc::clone(&device)));
            let next = tree.successor(&shared.rt, &planned, &mut open).map_err(|e| bad(&e))?;
            if !next.leaves().any(|l| l.guid() == guid && l.writer().is_some()) {
                return Err(refused("device is too small"));
            }
            let top_planned = top_of(&planned, guid)?;
            let list = facts.for_label(PoolState::Active, 0, &planned, top_planned, guid);
            let written = label::initialise(device.as_ref(), &list);
            written.map_err(|e| shared.failed("writing labels", &e))?;
            if let Some(map) = cx.zap_map()? {
                let zap = new_vdev_zap(&shared.mos, cx.tx, map)?;
                set_member(&shared.mos, &mut new, "com.delphix:vdev_zap_leaf", zap)?;
            }
            let root = with_top(&root, with_side(top, leaf, &new, mirror)?);
            next.has_missed(guid, &std::iter::once(FIRST_TXG..=cx.tx.txg()).collect());
            cx.put_tree(root, next);
            cx.log_event_of_pool("vdev attach", &format!("attach vdev={path} to a mirror"))?;
            Ok(guid)
        })
    }

    /// A mirror without one of its sides.
    pub(super) fn detach(&self, leaf: u64) -> Result<()> {
        let root = self.config.lock().root.clone();
        without_side(top_of(&root, leaf)?, leaf)?;
        let tree = self.reader.vdevs();
        let device = tree.leaves().find(|l| l.guid() == leaf).and_then(|l| l.writer().cloned());
        if !tree.keeps_a_side_without(leaf) {
            return Err(refused("no valid replicas"));
        }
        drop(tree);
        self.run(move |cx| {
            let shared = cx.shared;
            let root = shared.config.lock().root.clone();
            let top = top_of(&root, leaf)?;
            let gone = root.walk().find(|v| v.guid == leaf).cloned();
            let root = with_top(&root, without_side(top, leaf)?);
            let tree = shared.reader.vdevs();
            let next = tree.successor(&shared.rt, &root, &mut |_| None).map_err(|e| bad(&e))?;
            if let Some(gone) = &gone {
                cx.free_objects(gone)?;
            }
            cx.put_tree(root, next);
            shared.config.lock().logs.remove(&leaf);
            let path = gone.and_then(|v| v.path).unwrap_or_default();
            cx.log_event_of_pool("detach", &format!("vdev={path}"))
        })?;
        if let Some(device) = device {
            // The pool goes without it: what its labels say is of importance to others only.
            let _ = label::clear(device.as_ref(), &[0, 1, 2, 3]);
        }
        Ok(())
    }
}

impl LivePool {
    /// Gives the mirror of a leaf another side, or makes a disk that stands alone a mirror. What is
    /// on the others is brought to it by a resilver, which begins at once. `spec` is a leaf, whose
    /// device this is.
    ///
    /// # Errors
    /// When the leaf is part of something else, or the device too small or failing.
    pub fn attach(&self, leaf: u64, spec: &VdevSpec, device: WriteDeviceRef) -> Result<()> {
        self.shared.attach(leaf, spec, device)?;
        self.resilver()
    }

    /// Takes a side off a mirror, and its labels off the device.
    ///
    /// # Errors
    /// When the leaf is no side of a mirror, or has what the others lack.
    pub fn detach(&self, leaf: u64) -> Result<()> {
        self.shared.detach(leaf)
    }

    /// The same as [`Self::attach`]; the leaf is detached when the other device has all.
    pub fn replace(&self, leaf: u64, spec: &VdevSpec, device: WriteDeviceRef) -> Result<()> {
        self.shared.attach(leaf, spec, device)?;
        self.shared.detach_when_whole(leaf);
        self.resilver()
    }
}
