//! What the tables of shared blocks are to say, for a repair.

use ondisk::ddt::DdtKey;
use ondisk::{BlkPtr, Checksum};
use pool::live::CloneEntry;
use std::collections::{BTreeMap, HashMap};

/// A block that no table of shared blocks has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted {
    /// A pointer to it.
    pub bp: BlkPtr,
    /// The pointers to it.
    pub references: u64,
}

/// What is to be in the tables that are wrong. Empty where all are right, and where not every
/// reference could be found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedCounts {
    /// Of each vdev whose table of clones is wrong all entries.
    pub clones: BTreeMap<u32, Vec<CloneEntry>>,
    /// Of each entry of a dedup table that is wrong the references, by variant.
    pub dedup: HashMap<(Checksum, DdtKey), Vec<u64>>,
    /// Deduplicated blocks that no table has.
    pub unlisted_dedup: Vec<Unlisted>,
}

impl SharedCounts {
    /// The dedup tables are as they are to be.
    #[must_use]
    pub fn is_dedup_right(&self) -> bool {
        self.dedup.is_empty() && self.unlisted_dedup.is_empty()
    }
}
