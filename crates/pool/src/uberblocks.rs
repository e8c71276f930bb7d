//! Uberblocks: found in the rings of all labels, ordered, chosen.

use crate::scan::FoundLeaf;
use ondisk::config::{LabelConfig, VdevConfig};
use ondisk::label::{self, Part};
use ondisk::uberblock::{self, Uberblock};
use std::collections::BTreeMap;

/// An uberblock with a good checksum.
#[derive(Clone, Debug)]
pub struct FoundUberblock {
    /// The uberblock.
    pub uberblock: Uberblock,
    /// Guid of the device it was found on.
    pub leaf: u64,
    /// Label (0 to 3) it was found in.
    pub label: usize,
    /// Slot of the ring.
    pub slot: usize,
}

/// A state of the pool that could be opened: the uberblocks of one txg.
#[derive(Clone, Debug)]
pub struct TxgCandidate {
    /// The uberblock.
    pub uberblock: Uberblock,
    /// Copies of it that were found.
    pub copies: usize,
    /// Whether its tree is intact; `None` while not looked at.
    pub verdict: Option<Verdict>,
}

/// Whether the tree below an uberblock is intact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every metadata block down to the datasets' dnodes could be read.
    Intact,
    /// Data can be reached, but parts are lost.
    Partial {
        /// Blocks or objects that are lost.
        lost: u64,
        /// The first of them.
        first: String,
    },
    /// The MOS cannot be read: nothing can be reached.
    Lost(String),
}

/// The uberblocks of a device with good checksums, in the order of rings and slots.
#[must_use]
pub fn read_ring(leaf: &FoundLeaf) -> Vec<FoundUberblock> {
    read_ring_where(leaf, |_| true)
}

/// The same of some of them: the checksums of the others are not computed.
pub(crate) fn read_ring_where(
    leaf: &FoundLeaf,
    is_wanted: impl Fn(&Uberblock) -> bool,
) -> Vec<FoundUberblock> {
    let mut out = Vec::new();
    let Some(offsets) = label::label_offsets(leaf.device.size()) else { return out };
    let ashift = match &leaf.config {
        LabelConfig::Member(c) => c.vdev_tree.ashift.unwrap_or(9),
        LabelConfig::Aux(_) => return out,
    };
    let slot_size = uberblock::slot_size(ashift);
    let ring = |o: u64| (o + Part::Ring.start(), Part::Ring.size() as usize);
    let ranges: Vec<_> = offsets.iter().map(|o| ring(*o)).collect();
    let guid = leaf.config.guid().unwrap_or(0);
    let rings = device::read_batch(leaf.device.as_ref(), &ranges);
    for (label, (ring, (start, _))) in rings.into_iter().zip(&ranges).enumerate() {
        let Ok(ring) = ring else { continue };
        for (slot, bytes) in ring.chunks_exact(slot_size).enumerate() {
            let at = start + (slot * slot_size) as u64;
            let Ok((uberblock, _)) = Uberblock::decode(bytes) else { continue };
            if is_wanted(&uberblock) && codec::checksum::verify_label(bytes, at).is_ok() {
                out.push(FoundUberblock { uberblock, leaf: guid, label, slot });
            }
        }
    }
    out
}

/// Txgs between that of an expansion's end and the one from which on blocks are wider.
const TXGS_TO_WIDER: u64 = 3;

/// Whether rows of a raidz vdev of `tree`, the newest one, were moved after an uberblock and up to
/// the newest: what lay there before may be overwritten. An expansion that has ended is in no
/// uberblock any more, so one from before it differs by nothing from the newest.
pub(crate) fn is_before_move(older: &Uberblock, newest: &Uberblock, tree: &VdevConfig) -> bool {
    let ends = tree.children.iter().flat_map(|top| &top.raidz_expand_txgs);
    let mut ends = ends.map(|wider| wider.saturating_sub(TXGS_TO_WIDER));
    older.txg < newest.txg
        && (older.raidz_reflow_info != newest.raidz_reflow_info
            || ends.any(|end| older.txg < end && end <= newest.txg))
}

/// One candidate per txg, newest first. Of several uberblocks of a txg the best by the format's own
/// order represents it.
#[must_use]
pub fn by_txg(found: &[FoundUberblock]) -> Vec<TxgCandidate> {
    let mut best: BTreeMap<u64, TxgCandidate> = BTreeMap::new();
    for f in found {
        let new = TxgCandidate { uberblock: f.uberblock, copies: 0, verdict: None };
        let c = best.entry(f.uberblock.txg).or_insert(new);
        c.copies += 1;
        if f.uberblock.cmp_age(&c.uberblock).is_gt() {
            c.uberblock = f.uberblock;
        }
    }
    best.into_values().rev().collect()
}
