//! Which leaves are compared with each other.

use super::VdevTree;
use crate::queue::Pace;
use std::sync::Arc;

impl VdevTree {
    /// From now on leaves of one top-level vdev are siblings.
    pub(super) fn acquaint(&self) {
        for top in self.tops.values() {
            let mut paces = Vec::new();
            self.paces_below(top.node, &mut paces);
            Pace::acquaint(&paces);
        }
    }

    /// Depth was bounded when the tree was built.
    fn paces_below<'t>(&'t self, at: usize, paces: &mut Vec<&'t Arc<Pace>>) {
        let Some(node) = self.nodes.get(at) else { return };
        paces.extend(node.queue.iter().map(|queue| &queue.pace));
        node.children.iter().for_each(|child| self.paces_below(*child, paces));
    }
}
