//! The bptree: roots of destroyed datasets whose trees are still being freed.
//!
//! Specified in `docs/format/bpobj.md`. Feature `async_destroy`: instead of freeing a dataset's
//! blocks at once, its root block pointer goes into this queue (MOS name `bptree_obj`), and every
//! txg frees a part. Entries `begin..end` of the object's data are live.

use crate::blkptr::BlkPtr;
use crate::bpobj::Space;
use crate::cursor::Endian;
use crate::errlog::Zbookmark;
use crate::error::Result;
use crate::wordstruct::word_struct;

word_struct! {
    /// Header (bonus, 40 bytes).
    pub struct BptreeHeader("bptree") {
        /// First live entry.
        pub begin: u64,
        /// One past the last entry.
        pub end: u64,
        /// Bytes still to be freed.
        pub bytes: u64,
        /// The same without RAID-Z overhead and copies.
        pub compressed: u64,
        /// The same before compression.
        pub uncompressed: u64,
    }
}

impl BptreeHeader {
    /// Space still to be freed.
    #[must_use]
    pub fn space(&self) -> Space {
        Space { used: self.bytes, compressed: self.compressed, uncompressed: self.uncompressed }
    }
}

word_struct! {
    /// One entry (168 bytes, at index * 168 of the object's data).
    pub struct BptreeEntry("bptree entry") {
        /// Root of the tree to be freed.
        pub bp: BlkPtr,
        /// Only blocks born after this txg are the dataset's own.
        pub birth_txg: u64,
        /// Where the freeing stopped.
        pub bookmark: Zbookmark,
    }
}

/// Decodes entry number `index` of the data at `data`, which begins with entry `first`.
pub fn entry(data: &[u8], first: u64, index: u64, endian: Endian) -> Result<BptreeEntry> {
    let skip = index
        .checked_sub(first)
        .and_then(|n| usize::try_from(n).ok())
        .and_then(|n| n.checked_mul(BptreeEntry::SIZE))
        .and_then(|at| data.get(at..))
        .unwrap_or(&[]);
    BptreeEntry::decode(skip, endian)
}
