//! Devices that another writer has taken over.

use vdev::{NodeRef, VdevTree};

/// Another writer has taken over a device of these.
pub(crate) fn is_taken_over(vdevs: &VdevTree) -> bool {
    let is_so = |leaf: NodeRef<'_>| leaf.device()?.stats().store.filter(|s| s.takeovers > 0);
    vdevs.leaves().any(|leaf| is_so(leaf).is_some())
}
