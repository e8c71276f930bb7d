//! Dead lists and livelists: blocks a snapshot pins, sorted by when they were born.
//!
//! Specified in `docs/format/deadlist.md`. The dead list of a dataset names the blocks that were
//! in the snapshot before it and are not in it any more. Since pool version 26 it is a ZAP from a
//! birth txg to a [block pointer object](crate::bpobj): a block is in the list with the largest
//! key below its birth. Every key is the txg of an earlier snapshot, or 0, so that all blocks to be
//! freed with one snapshot are whole lists.
//!
//! Before, it is one block pointer object; the bonus type tells which.
//!
//! A livelist (feature `livelist`, of clones) has the same form, but holds every allocation and
//! every free since the clone was made, the frees marked ([`crate::bpobj::Entry::is_freed`]). A
//! block that is allocated and not freed after is live; destroying the clone frees just those.

use crate::bpobj::Space;
use crate::dmu_type::DmuType;
use crate::wordstruct::word_struct;

word_struct! {
    /// Header of a dead list (bonus type "DSL deadlist map hdr", 320 bytes).
    pub struct DeadlistHeader("deadlist") {
        /// Bytes allocated by all blocks.
        pub used: u64,
        /// The same without RAID-Z overhead and copies.
        pub compressed: u64,
        /// The same before compression.
        pub uncompressed: u64,
        pad: [u64; 37],
    }
}

impl DeadlistHeader {
    /// The three sizes.
    #[must_use]
    pub fn space(&self) -> Space {
        Space { used: self.used, compressed: self.compressed, uncompressed: self.uncompressed }
    }

    /// A header with these sizes.
    #[must_use]
    pub fn new(space: Space) -> Self {
        Self {
            used: space.used,
            compressed: space.compressed,
            uncompressed: space.uncompressed,
            ..Self::default()
        }
    }
}

/// Which of the two forms a dead list object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One block pointer object (before pool version 26).
    Old,
    /// A ZAP of block pointer objects.
    Zap,
}

impl Form {
    /// From the bonus type of the object; `None` when it is not a dead list at all.
    #[must_use]
    pub fn of(bonus: DmuType) -> Option<Self> {
        match bonus {
            DmuType::BPOBJ_HDR => Some(Self::Old),
            DmuType::DEADLIST_HDR => Some(Self::Zap),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bonus_type_tells_the_form() {
        assert_eq!(Form::of(DmuType::BPOBJ_HDR), Some(Form::Old));
        assert_eq!(Form::of(DmuType::DEADLIST_HDR), Some(Form::Zap));
        assert_eq!(Form::of(DmuType::DSL_DIR), None);
    }
}
