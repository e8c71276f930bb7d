//! The tree that follows another while the pool is open.
//!
//! # Theory
//!
//! A tree never changes its shape: a leaf that goes, comes back or is put in another's place is a
//! new tree. A read or a write holds the tree of the time of its beginning, to the end of the
//! request, so no request ever sees half of a change.
//!
//! The state of a vdev outlives its tree: health, and with it what a leaf missed, is shared by all
//! trees that have the vdev. The queue of a leaf whose device stays is shared as well, or there
//! would be two queues in front of one device.

use super::{LeafOpen, Node, Role, VdevTree};
use crate::error::BuildError;
use crate::health::{ErrorCounts, Health};
use crate::queue::QueueLimits;
use ondisk::config::VdevConfig;
use rt::Rt;
use std::collections::BTreeMap;
use std::sync::Arc;

impl VdevTree {
    /// The tree of another configuration of the same pool. `open` returns the new device of a leaf;
    /// `None`: it keeps the one that it has, or has none if it is new. A leaf for which it returns
    /// anything starts without a mark and without counts.
    ///
    /// # Errors
    /// When the configuration contradicts itself.
    pub fn successor(
        &self,
        rt: &Rt,
        root: &VdevConfig,
        open: &mut dyn FnMut(&VdevConfig) -> Option<LeafOpen>,
    ) -> Result<Self, BuildError> {
        let before: BTreeMap<u64, &Node> =
            self.nodes.iter().filter(|n| n.guid != 0).map(|n| (n.guid, n)).collect();
        let mut opened = Vec::new();
        let mut next = Self::build(rt, root, &mut |config| match open(config) {
            Some(open) => {
                opened.push(config.guid);
                open
            }
            None => LeafOpen::Missing,
        })?;
        next.past = self.past.iter().filter(|past| past.is_in_use()).cloned().collect();
        next.past.push(self.tree_use.downgrade());
        let past = next.past.clone();
        for node in &mut next.nodes {
            let old = before.get(&node.guid).filter(|old| old.is_like(node));
            let is_new = opened.contains(&node.guid);
            if let Some(old) = old {
                node.health = Arc::clone(&old.health);
                match (&mut node.role, &old.role) {
                    (Role::Indirect(mapping), Role::Indirect(known)) => mapping.clone_from(known),
                    (Role::Raidz(raidz), Role::Raidz(old)) => raidz.follow(old, &past),
                    _ => {}
                }
            }
            match old {
                _ if is_new => {
                    node.health.clear();
                    node.take_over(rt, old.copied(), &self.limits);
                    if node.writer.is_some() {
                        node.health.forget_cut();
                    }
                }
                Some(old) if matches!(node.role, Role::Leaf) => node.keep(old),
                _ => {}
            }
        }
        next.limits = Arc::clone(&self.limits);
        next.error_limits = Arc::clone(&self.error_limits);
        next.born = self.born;
        next.acquaint();
        Ok(next)
    }

    /// Counts errors that vdevs had before they were opened, by guid.
    pub fn count_errors(&self, before: &BTreeMap<u64, ErrorCounts>) {
        for node in &self.nodes {
            if let Some(errors) = before.get(&node.guid) {
                node.health.count(*errors);
            }
        }
    }

    /// The errors of all vdevs that have any, by guid.
    #[must_use]
    pub fn error_counts(&self) -> BTreeMap<u64, ErrorCounts> {
        let of = |health: &Health| ErrorCounts {
            read: health.read_errors(),
            write: health.write_errors(),
            checksum: health.checksum_errors(),
        };
        let all = self.nodes.iter().map(|node| (node.guid, of(&node.health)));
        all.filter(|(guid, errors)| *guid != 0 && *errors != ErrorCounts::default()).collect()
    }

    /// Forgets the errors of a vdev and of all below it, and that they made it DEGRADED. One that
    /// is out of use stays so. Returns whether there is such a vdev.
    pub fn forget_errors(&self, guid: u64) -> bool {
        let Some(at) = self.nodes.iter().position(|n| n.guid == guid) else { return false };
        self.forget_errors_below(at);
        true
    }

    /// Depth was bounded when the tree was built.
    fn forget_errors_below(&self, at: usize) {
        let Some(node) = self.nodes.get(at) else { return };
        node.health.forget_errors();
        node.guard.iter().for_each(|guard| guard.forget_slow());
        node.children.iter().for_each(|child| self.forget_errors_below(*child));
    }
}

impl Node {
    /// Both are devices, or both are not.
    fn is_like(&self, other: &Self) -> bool {
        matches!(self.role, Role::Leaf) == matches!(other.role, Role::Leaf)
    }

    /// It has another device now, or none, or the one that it had: that one's guard is kept, which
    /// knows the requests that have not come back.
    fn take_over(&mut self, rt: &Rt, old: Option<&Self>, limits: &Arc<QueueLimits>) {
        let before = old.and_then(|old| old.guard.as_ref());
        let same = before.filter(|guard| self.writer.as_ref().is_some_and(|w| guard.is_of(w)));
        match same {
            Some(guard) => self.stand_behind(rt, Arc::clone(guard), limits),
            None => self.guard(rt, limits),
        }
        if self.guard.is_none() {
            self.guard = before.filter(|guard| guard.is_silent()).cloned();
        }
    }

    /// The device stays as it is.
    fn keep(&mut self, old: &Self) {
        self.device.clone_from(&old.device);
        self.guard.clone_from(&old.guard);
        self.writer.clone_from(&old.writer);
        self.queue.clone_from(&old.queue);
        (self.state, self.reason) = (old.state, old.reason);
        (self.stale, self.short) = (old.stale, old.short);
    }
}
