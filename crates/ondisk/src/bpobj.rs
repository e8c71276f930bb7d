//! Block pointer objects: lists of blocks that grow at the end, and lists of such lists.
//!
//! Specified in `docs/format/bpobj.md`. Used for dead lists, blocks whose free is deferred to the
//! next txg (`sync_bplist`), blocks to be freed in the background (`free_bpobj`), and blocks that
//! device removal made obsolete. The object's data are block pointers of 128 bytes, one after the
//! other; its bonus is a header whose length determines the version:
//!
//! ```text
//! 16 bytes  num_blkptrs, bytes (then named bplist)  before pool version 3
//! 32        + compressed, uncompressed              pool version 3
//! 48        + subobjs, num_subobjs                  pool version 26
//! 56        + num_freed                             feature livelist
//! ```
//!
//! `subobjs` is an object with an array of object numbers: more lists that belong to this one, so
//! that a long list is moved by writing one number. Entries are stripped when they are put in: the
//! checksum (unless deduplicated), the fill count and an embedded payload are zeroed; what is left
//! is enough to free.

pub mod bptree;

use crate::blkptr::{BLKPTR_SIZE, BlkPtr};
use crate::cursor::{Endian, Reader, Writer};
use crate::error::{ErrorKind, Result};

/// Header sizes on disk in bytes, by version.
pub const HEADER_SIZES: [usize; 4] = [16, 32, 48, 56];

/// Space of the blocks of a list, without the lists below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Space {
    /// Bytes allocated.
    pub used: u64,
    /// Bytes as stored, without RAID-Z overhead and copies.
    pub compressed: u64,
    /// Bytes before compression.
    pub uncompressed: u64,
}

impl Space {
    /// Both together. Sums wrap as OpenZFS's do: a livelist's can be negative for a while.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            used: self.used.wrapping_add(other.used),
            compressed: self.compressed.wrapping_add(other.compressed),
            uncompressed: self.uncompressed.wrapping_add(other.uncompressed),
        }
    }

    /// The difference, wrapping likewise.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            used: self.used.wrapping_sub(other.used),
            compressed: self.compressed.wrapping_sub(other.compressed),
            uncompressed: self.uncompressed.wrapping_sub(other.uncompressed),
        }
    }
}

/// Lists that belong to this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Subobjs {
    /// Object with the array of their numbers; 0: none.
    pub object: u64,
    /// How many.
    pub count: u64,
}

/// Header of a block pointer object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BpobjHeader {
    /// Block pointers in the object's data.
    pub num_blkptrs: u64,
    /// Bytes allocated by all blocks, those of the lists below included.
    pub bytes: u64,
    /// Compressed and uncompressed bytes; `None` in the first form.
    pub accounting: Option<[u64; 2]>,
    /// Lists below; `None` in the first two forms.
    pub subobjs: Option<Subobjs>,
    /// Of a livelist: how many entries are frees; `None` in the first three forms.
    pub num_freed: Option<u64>,
}

impl BpobjHeader {
    /// Decodes a bonus; its length determines the form.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("bpobj", data, endian);
        let mut h =
            Self { num_blkptrs: r.u64("num_blkptrs")?, bytes: r.u64("bytes")?, ..Self::default() };
        if r.remaining() >= 16 {
            h.accounting = Some(r.words("accounting")?);
        }
        if r.remaining() >= 16 {
            h.subobjs = Some(Subobjs { object: r.u64("subobjs")?, count: r.u64("num_subobjs")? });
        }
        if h.subobjs.is_some() && r.remaining() >= 8 {
            h.num_freed = Some(r.u64("num_freed")?);
        }
        Ok(h)
    }

    /// Encodes in the form it has. A later part needs the earlier ones, which are then written as
    /// zeros when they are `None`.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.u64(self.num_blkptrs).u64(self.bytes);
        let (third, fourth) = (self.subobjs.is_some(), self.num_freed.is_some());
        if self.accounting.is_some() || third || fourth {
            w.words(&self.accounting.unwrap_or_default());
        }
        if third || fourth {
            let s = self.subobjs.unwrap_or_default();
            w.u64(s.object).u64(s.count);
        }
        if let Some(n) = self.num_freed {
            w.u64(n);
        }
        w.into_bytes()
    }

    /// Nothing in it and no lists below.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.num_blkptrs == 0 && self.subobjs.is_none_or(|s| s.count == 0)
    }

    /// Space of all blocks. The first form has only `used`; the others are then the same number,
    /// as OpenZFS has it.
    #[must_use]
    pub fn space(&self) -> Space {
        let [compressed, uncompressed] = self.accounting.unwrap_or([self.bytes; 2]);
        Space { used: self.bytes, compressed, uncompressed }
    }

    /// Bytes of the object's data that the entries take, or an error when the count is absurd.
    pub fn data_len(&self) -> Result<u64> {
        self.num_blkptrs.checked_mul(BLKPTR_SIZE as u64).ok_or(crate::Error {
            structure: "bpobj",
            field: "num_blkptrs",
            offset: 0,
            kind: ErrorKind::OutOfRange {
                value: self.num_blkptrs,
                min: 0,
                max: u64::MAX / BLKPTR_SIZE as u64,
            },
        })
    }
}

/// One entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub BlkPtr);

impl Entry {
    const PROPERTIES: usize = 6;
    const BIRTH: usize = 10;
    const FILL: usize = 11;
    const CHECKSUM: core::ops::Range<usize> = 12..16;

    /// In a livelist: the block was freed (otherwise: allocated). Bit 0 of the fill count, which
    /// entries have no other use for.
    #[must_use]
    pub fn is_freed(&self) -> bool {
        self.0.words()[Self::FILL] & 1 != 0
    }

    /// The entry for a block: stripped of what freeing it does not need. Of an embedded block only
    /// the properties and the birth are left.
    #[must_use]
    pub fn new(bp: &BlkPtr, freed: bool) -> Self {
        let mut words = *bp.words();
        if bp.is_embedded() {
            let (properties, birth) = (words[Self::PROPERTIES], words[Self::BIRTH]);
            words.fill(0);
            (words[Self::PROPERTIES], words[Self::BIRTH]) = (properties, birth);
        } else if !bp.is_dedup() {
            words[Self::CHECKSUM].fill(0);
        }
        words[Self::FILL] = u64::from(freed);
        Self(BlkPtr::from_words(words))
    }
}

/// The entries in `data`, a run of whole entries of the object's data.
pub fn entries(data: &[u8], endian: Endian) -> impl Iterator<Item = Result<Entry>> + '_ {
    data.chunks(BLKPTR_SIZE).map(move |c| BlkPtr::decode(c, endian).map(Entry))
}

/// The object numbers in `data`, a part of the data of a `subobjs` object.
pub fn subobj_numbers(data: &[u8], endian: Endian) -> impl Iterator<Item = u64> + '_ {
    data.chunks_exact(8).map(move |c| {
        let mut b = [0; 8];
        b.copy_from_slice(c);
        endian.u64(b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_payload_is_stripped() {
        let mut words = [7; 16];
        words[6] = 1 << 39;
        let bp = BlkPtr::from_words(words);
        assert!(bp.is_embedded());
        let mut left = [0; 16];
        (left[6], left[10], left[11]) = (1 << 39, 7, 1);
        assert_eq!(Entry::new(&bp, true).0.words(), &left);
    }
}
