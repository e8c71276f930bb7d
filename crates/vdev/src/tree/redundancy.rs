//! Which leaves are below a vdev, and which of them its blocks do without: the one place where the
//! redundancy of a vdev is weighed against the health of its leaves.

use super::{Node, Role, Top, VdevTree};

impl VdevTree {
    /// A node is at or below another.
    pub(crate) fn is_below(&self, index: usize, sought: usize) -> bool {
        let children = self.nodes.get(index).map_or(&[][..], |node| &node.children);
        index == sought || children.iter().any(|child| self.is_below(*child, sought))
    }

    /// Calls `each` for every leaf at or below a node. Building a tree bounds its depth.
    pub(crate) fn leaves_below(&self, index: usize, each: &mut dyn FnMut(usize)) {
        let Some(node) = self.nodes.get(index) else { return };
        if matches!(node.role, Role::Leaf) {
            return each(index);
        }
        for child in &node.children {
            self.leaves_below(*child, each);
        }
    }

    /// A top-level vdev for intent logs alone.
    pub(crate) fn is_log(&self, top: &Top) -> bool {
        self.nodes.get(top.node).is_some_and(|node| node.is_log)
    }

    /// Whether blocks can be written to a top-level vdev.
    #[must_use]
    pub fn can_write_top(&self, vdev: u32) -> bool {
        self.tops.get(&vdev).is_some_and(|top| self.can_write(top.node))
    }

    /// Enough devices at or below a node take writes for its blocks to be read again.
    pub(crate) fn can_write(&self, index: usize) -> bool {
        let Some(node) = self.nodes.get(index) else { return false };
        let mut children = node.children.iter();
        match &node.role {
            Role::Leaf => node.writer.is_some() && !node.health.is_out(),
            Role::Mirror | Role::Replacing | Role::Spare => children.any(|c| self.can_write(*c)),
            Role::Raidz(r) => children.filter(|c| !self.can_write(**c)).count() <= r.nparity(),
            Role::Draid(d) => children.filter(|c| !self.can_write(**c)).count() <= d.nparity(),
            Role::DraidSpare { .. } => node.is_online(),
            _ => false,
        }
    }

    /// Every block can still be written, and read from what has missed nothing, without this leaf.
    /// Blocks of logs go elsewhere, and a txg needs none of them.
    pub(crate) fn can_lose(&self, leaf: usize) -> bool {
        let mut tops = self.tops.values().filter(|top| self.is_below(top.node, leaf));
        tops.all(|top| self.is_log(top) || self.is_complete_without(top.node, leaf))
    }

    /// Whether all blocks can still be read and written without these leaves, from leaves that
    /// missed nothing.
    #[must_use]
    pub fn can_lose_all(&self, guids: &[u64]) -> bool {
        let index = |guid: &u64| self.nodes.iter().position(|n| n.guid == *guid);
        let leaves: Vec<usize> = guids.iter().filter_map(index).collect();
        leaves.iter().all(|leaf| self.can_lose(*leaf))
    }

    /// Whether the top-level vdev of this leaf is whole without it, also where it has nothing but
    /// logs: a mirror keeps a side that has missed nothing.
    #[must_use]
    pub fn top_is_complete_without(&self, guid: u64) -> bool {
        let Some(leaf) = self.nodes.iter().position(|n| n.guid == guid) else { return true };
        let mut tops = self.tops.values().filter(|top| self.is_below(top.node, leaf));
        tops.all(|top| self.is_complete_without(top.node, leaf))
    }

    /// Depth was bounded when the tree was built.
    fn is_complete_without(&self, index: usize, leaf: usize) -> bool {
        let Some(node) = self.nodes.get(index) else { return false };
        let mut children = node.children.iter();
        let is_whole = |c: &usize| self.is_complete_without(*c, leaf);
        match &node.role {
            Role::Leaf => index != leaf && is_current(node),
            Role::Mirror | Role::Replacing | Role::Spare => children.any(is_whole),
            Role::Raidz(r) => children.filter(|c| !is_whole(c)).count() <= r.nparity(),
            Role::Draid(d) => children.filter(|c| !is_whole(c)).count() <= d.nparity(),
            // It loses with a child only parts that no other column of those stripes has on it.
            Role::DraidSpare { .. } => {
                index != leaf && node.is_online() && !node.health.has_missed_any()
            }
            _ => false,
        }
    }
}

/// A leaf that is written to and has missed nothing.
fn is_current(node: &Node) -> bool {
    let health = &node.health;
    node.writer.is_some() && !health.is_out() && !health.has_missed_any() && !node.is_behind()
}
