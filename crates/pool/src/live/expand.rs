//! Devices that have grown: what is behind their old end becomes the pool's.
//!
//! # Theory
//!
//! A device that is larger than it was has two consequences, and they are independent:
//!
//! ```text
//! labels    L0 L1 ............... L2 L3 | new space
//!           L0 L1 ................................. L2 L3      where the device ends now
//! space     metaslab 0 .. n-1           | n ..                 as many as the vdev has room for
//! ```
//!
//! *Labels* follow the end of the device. A device is opened with the size that it has then, so
//! that they move by themselves when a pool is opened; in one that is open the device is told to
//! grow by the thread that writes labels, between two labels. L0 and L1 do not move, and each has a
//! ring with the last uberblocks, so a crash before the new L2 and L3 are written finds a device
//! with two labels. What an earlier pool left at the new end is taken off before: its ring would be
//! taken for this pool's. The old L2 and L3 lie in free space from then on, where no import looks
//! for labels.
//!
//! *Space* is what the configuration says (`asize`): a mirror grows when its smallest side has, a
//! raidz when its smallest device has. A vdev one of whose devices is away does not grow, for that
//! device may be the smallest. The size of a metaslab stays, so nothing that is on disk changes its
//! place; the array of space maps gets its entries when the new metaslabs are used. These are used
//! from the txg on that comes after the one with the new configuration: until that is durable
//! no block is where the pool does not reach.

use super::LivePool;
use super::config::set_u64;
use super::config_edit::bad;
use super::shared::{Shared, TaskCx};
use crate::alloc::TopSpec;
use crate::error::Result;
use ondisk::config::VdevConfig;
use std::sync::atomic::Ordering;
use vdev::label::{self, Round};
use vdev::{NodeRef, VdevTree, asize_max};

/// The leaf with this guid, when it is written to and has all that it should have.
fn healthy(tree: &VdevTree, guid: u64) -> Option<NodeRef<'_>> {
    let is_healthy = |l: &NodeRef<'_>| l.writer().is_some() && l.state().is_readable();
    tree.leaves().find(|l| l.guid() == guid).filter(is_healthy)
}

/// What a vdev could have that has less now, on devices of the sizes that `size` says.
fn larger(
    tree: &VdevTree,
    top: &VdevConfig,
    size: impl Fn(NodeRef<'_>) -> Option<u64>,
) -> Option<u64> {
    let size = |guid| size(healthy(tree, guid)?);
    let asize = asize_max(top, &size).filter(|_| !top.removing)?;
    (asize > top.asize?).then_some(asize)
}

/// By now, as the system says.
fn could_grow(tree: &VdevTree, top: &VdevConfig) -> bool {
    larger(tree, top, |l| Some(l.writer()?.size_now())).is_some()
}

impl TaskCx<'_> {
    /// Lets the devices of a vdev have the size that they have by now.
    fn take_new_ends(&self, tree: &VdevTree, top: &VdevConfig) -> Result<()> {
        for leaf in top.walk().filter(|v| v.kind.is_leaf()) {
            let Some(device) = healthy(tree, leaf.guid).and_then(NodeRef::writer) else { continue };
            let before = device.size();
            device.grow();
            if device.size() == before {
                continue;
            }
            // Also when this fails: the labels are where the device ends now.
            self.shared.config.lock().dirty = true;
            let cleared = label::clear(&**device, &[Round::First, Round::Second].map(last_of));
            cleared.map_err(|e| self.shared.failed("writing labels", e))?;
        }
        Ok(())
    }

    fn expand(&self, is_meant: &dyn Fn(&VdevConfig) -> bool) -> Result<Vec<TopSpec>> {
        let shared = self.shared;
        let tree = shared.reader.vdevs();
        let mut root = shared.config.lock().root.clone();
        for top in root.children.iter().filter(|top| is_meant(top) && could_grow(&tree, top)) {
            self.take_new_ends(&tree, top)?;
        }
        let mut grown = Vec::new();
        let mut more = 0u64;
        for top in root.children.iter_mut().filter(|top| is_meant(top)) {
            let Some(asize) = larger(&tree, top, |l| Some(l.writer()?.size())) else { continue };
            more = more.saturating_add(asize - top.asize.unwrap_or(0));
            set_u64(top, "asize", asize).map_err(|e| bad(&e))?;
            grown.extend(TopSpec::of(top, &shared.reader));
        }
        if grown.is_empty() {
            return Ok(grown);
        }
        let next = tree.successor(&shared.rt, &root, &mut |_| None).map_err(|e| bad(&e))?;
        let size = root.children.iter().filter_map(|top| top.asize).fold(0, u64::saturating_add);
        self.put_tree(root, next);
        let name = shared.config.lock().facts.name.clone();
        self.log_event_of_pool("vdev online", &format!("pool '{name}' size: {size}(+{more})"))?;
        Ok(grown)
    }
}

/// The label of a round that stands at the end of a device.
fn last_of(round: Round) -> usize {
    let [_, last] = round.labels();
    last
}

impl Shared {
    /// The top-level vdevs, of those that are meant, that could be larger by now. Asks the system
    /// for the sizes of devices.
    fn could_grow(&self, is_meant: impl Fn(&VdevConfig) -> bool) -> Vec<u64> {
        let tree = self.reader.vdevs();
        let root = self.config.lock().root.clone();
        let tops = root.children.iter().filter(|top| is_meant(top) && could_grow(&tree, top));
        tops.map(|top| top.guid).collect()
    }

    fn expand(&self, is_meant: impl Fn(&VdevConfig) -> bool + Send + 'static) -> Result<()> {
        if !self.could_grow(&is_meant).is_empty() {
            let grown = self.run(move |cx| cx.expand(&is_meant))?;
            grown.iter().for_each(|spec| self.alloc.grow(spec));
            if self.expands.load(Ordering::Relaxed) {
                grown.iter().for_each(|spec| self.post_growth(spec));
            }
        }
        Ok(())
    }

    fn post_growth(&self, spec: &TopSpec) {
        let root = self.config.lock().root.clone();
        let tops = root.children.iter().filter(|top| top.id == u64::from(spec.id));
        let leaves = tops.flat_map(VdevConfig::walk).filter(|v| v.kind.is_leaf());
        leaves.for_each(|leaf| self.post_device("vdev_autoexpand", leaf.guid));
    }

    /// The smallest device of a vdev may be gone: with `autoexpand` the vdev grows to the next.
    pub(super) fn expand_after_change(&self) -> Result<()> {
        match self.expands.load(Ordering::Relaxed) {
            true => self.expand(|_| true),
            false => Ok(()),
        }
    }
}

impl LivePool {
    /// Uses what devices have grown by, in the vdevs that these leaves are in.
    ///
    /// # Errors
    /// When the new end of a device cannot be written.
    pub fn expand(&self, leaves: &[u64]) -> Result<()> {
        let leaves = leaves.to_vec();
        self.shared.expand(move |top| top.walk().any(|v| leaves.contains(&v.guid)))
    }

    /// The top-level vdevs, by guid, whose devices have grown, when the pool's property
    /// `autoexpand` says that they are to be used to their ends. Asks the system.
    #[must_use]
    pub fn vdevs_to_expand(&self) -> Vec<u64> {
        match self.shared.expands.load(Ordering::Relaxed) {
            true => self.shared.could_grow(|_| true),
            false => Vec::new(),
        }
    }

    /// The same in all vdevs, when the pool's property `autoexpand` says so.
    ///
    /// # Errors
    /// As [`Self::expand`], or when the property cannot be read.
    pub fn expand_if_wanted(&self) -> Result<()> {
        let wanted = self.view().stored_number("autoexpand")? == Some(1);
        self.shared.expands.store(wanted, Ordering::Relaxed);
        self.shared.expand_after_change()
    }
}
