//! Which leaves are compared with each other, and how many of them readers may do without.

use super::{Role, VdevTree};
use crate::queue::Pace;
use std::sync::Arc;

impl VdevTree {
    /// From now on leaves of one top-level vdev are siblings.
    pub(super) fn acquaint(&self) {
        for top in self.tops.values() {
            let mut paces = Vec::new();
            self.paces_below(top.node, &mut paces);
            Pace::acquaint(&paces, self.spare_below(top.node));
        }
    }

    /// How many leaves of a vdev hold nothing that the others do not, whichever they are; the ones
    /// that are not there count as gone. Depth was bounded when the tree was built.
    fn spare_below(&self, at: usize) -> usize {
        let Some(node) = self.nodes.get(at) else { return 0 };
        let there = node.children.iter().filter(|child| self.has_pace(**child)).count();
        let gone = node.children.len() - there;
        match &node.role {
            Role::Mirror | Role::Replacing | Role::Spare => there.saturating_sub(1),
            Role::Raidz(raidz) => raidz.nparity().saturating_sub(gone),
            Role::Draid(draid) => draid.nparity().saturating_sub(gone),
            _ => 0,
        }
    }

    fn has_pace(&self, at: usize) -> bool {
        let Some(node) = self.nodes.get(at) else { return false };
        node.queue.is_some() || node.children.iter().any(|child| self.has_pace(*child))
    }

    /// Depth was bounded when the tree was built.
    fn paces_below<'t>(&'t self, at: usize, paces: &mut Vec<&'t Arc<Pace>>) {
        let Some(node) = self.nodes.get(at) else { return };
        paces.extend(node.queue.iter().map(|queue| &queue.pace));
        node.children.iter().for_each(|child| self.paces_below(*child, paces));
    }
}
