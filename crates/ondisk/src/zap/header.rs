//! Block 0 of a fat ZAP, and the pointer table.
//!
//! ```text
//! 0 block type  8 magic  16 ptrtbl.blk  24 ptrtbl.numblks  32 ptrtbl.shift  40 ptrtbl.nextblk
//! 48 ptrtbl.blks_copied  56 freeblk  64 num_leafs  72 num_entries  80 salt  88 normflags
//! 96 flags  104.. pad to half the block; second half: embedded pointer table
//! ```
//!
//! The table has `1 << shift` entries of 64 bits, each the number of a leaf block; the top `shift`
//! bits of a hash are the index. While `numblks` is 0 the table is the embedded one and its shift
//! follows from the block size. Otherwise it is in `numblks` blocks from `blk` on. While it grows,
//! `nextblk` and `blks_copied` describe a copy of twice the size; the old table stays valid until
//! the copy is complete.

use super::hash::KeyHash;
use super::{BLOCK_HEADER, BLOCK_SIZE_MIN, FAT_BLOCK_SIZE_MAX};
use crate::cursor::{Endian, Reader, Writer};
use crate::error::{Error, ErrorKind, Result};

/// Magic number in the header.
pub const ZAP_MAGIC: u64 = 0x2_F52A_B2AB;
/// Most bits a table can be indexed by: the longest hash.
const TABLE_SHIFT_MAX: u64 = 48;
/// Offset of the number of entries, the one field that changes with every entry.
pub const ENTRY_COUNT_AT: usize = 72;
const FIXED_SIZE: usize = 104;

/// Where the pointer table is and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PointerTable {
    /// First block of the table; meaningless while embedded.
    pub block: u64,
    /// Blocks of the table; 0: embedded in the header.
    pub block_count: u64,
    /// Bits of hash that index it.
    pub shift: u64,
    /// First block of the larger copy being made; 0: none.
    pub next_block: u64,
    /// Blocks of the old table copied so far.
    pub blocks_copied: u64,
}

/// The place of the pointer for a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablePlace {
    /// In the header; this is the pointer.
    Embedded {
        /// Number of the leaf block.
        leaf: u64,
    },
    /// In a block of the external table.
    External {
        /// Number of the block in the object.
        block: u64,
        /// Index of the 64-bit word in that block.
        index: usize,
    },
}

/// A decoded header block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZapHeader {
    /// The pointer table.
    pub table: PointerTable,
    /// Next block of the object never used.
    pub free_block: u64,
    /// Leaf blocks.
    pub leaf_count: u64,
    /// Entries in all leaves.
    pub entry_count: u64,
    /// Start value of the hash.
    pub salt: u64,
    /// `NORM_*`.
    pub norm_flags: u64,
    /// `FLAG_*`.
    pub flags: u64,
    /// The second half of the block: the table while embedded, else what is left of it.
    pub embedded: Vec<u64>,
    pad: Vec<u8>,
    block_shift: u32,
}

impl ZapHeader {
    /// Decodes a whole header block; its length is the block size of the ZAP.
    pub fn decode(block: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("zap header", block, endian);
        check_size(&r, block.len())?;
        let kind = r.u64("block type")?;
        if kind != BLOCK_HEADER {
            return Err(r.error("block type", ErrorKind::BadMagic { found: kind }));
        }
        let magic = r.u64("magic")?;
        if magic != ZAP_MAGIC {
            return Err(r.error("magic", ErrorKind::BadMagic { found: magic }));
        }
        let [block_no, block_count, shift, next_block, blocks_copied] = r.words("ptrtbl")?;
        let table = PointerTable { block: block_no, block_count, shift, next_block, blocks_copied };
        let [free_block, leaf_count, entry_count, salt, norm_flags, flags] = r.words("fields")?;
        let half = block.len() / 2;
        let pad = r.bytes("pad", half - FIXED_SIZE)?.to_vec();
        let words = r.bytes("embedded table", half)?.as_chunks::<8>().0.iter();
        // One loop for each order: the usual one is then a copy.
        let embedded = match endian {
            Endian::Little => words.map(|w| u64::from_le_bytes(*w)).collect(),
            Endian::Big => words.map(|w| u64::from_be_bytes(*w)).collect(),
        };
        let header = Self {
            table,
            free_block,
            leaf_count,
            entry_count,
            salt,
            norm_flags,
            flags,
            embedded,
            pad,
            block_shift: block.len().trailing_zeros(),
        };
        header.check_table()?;
        Ok(header)
    }

    fn check_table(&self) -> Result<()> {
        let error = |field, offset, kind| Error { structure: "zap header", field, offset, kind };
        let embedded_shift = u64::from(self.block_shift) - 4;
        let PointerTable { shift, block, block_count, .. } = self.table;
        let (min, max) =
            if block_count == 0 { (embedded_shift, embedded_shift) } else { (1, TABLE_SHIFT_MAX) };
        if !(min..=max).contains(&shift) {
            let kind = ErrorKind::OutOfRange { value: shift, min, max };
            return Err(error("ptrtbl.shift", 32, kind));
        }
        if block_count == 0 {
            return Ok(());
        }
        let per_block = u64::from(self.block_shift) - 3;
        if shift < per_block || block_count != 1 << (shift - per_block) {
            let kind = ErrorKind::Inconsistent("numblks does not match shift");
            return Err(error("ptrtbl.numblks", 24, kind));
        }
        if block == 0 || block.checked_add(block_count).is_none() {
            let kind = ErrorKind::OutOfRange { value: block, min: 1, max: u64::MAX - block_count };
            return Err(error("ptrtbl.blk", 16, kind));
        }
        Ok(())
    }

    /// Encodes the block.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        let t = &self.table;
        w.u64(BLOCK_HEADER).u64(ZAP_MAGIC);
        w.words(&[t.block, t.block_count, t.shift, t.next_block, t.blocks_copied]);
        w.words(&[self.free_block, self.leaf_count, self.entry_count]);
        w.words(&[self.salt, self.norm_flags, self.flags]);
        w.bytes(&self.pad).words(&self.embedded);
        w.into_bytes()
    }

    /// The header of an empty ZAP with blocks of `1 << block_shift` bytes (9 to 20). All of its
    /// table leads to block 1, which must be an empty [`super::Leaf`].
    #[must_use]
    pub fn new(block_shift: u32, of: KeyHash) -> Self {
        let max = FAT_BLOCK_SIZE_MAX.trailing_zeros();
        let block_shift = block_shift.clamp(BLOCK_SIZE_MIN.trailing_zeros(), max);
        let half = 1usize << (block_shift - 1);
        Self {
            table: PointerTable { shift: u64::from(block_shift) - 4, ..PointerTable::default() },
            free_block: 2,
            leaf_count: 1,
            entry_count: 0,
            salt: of.salt,
            norm_flags: of.norm_flags,
            flags: of.flags,
            embedded: vec![1; half / 8],
            pad: vec![0; half - FIXED_SIZE],
            block_shift,
        }
    }

    /// Pointers in a block of an external table.
    #[must_use]
    pub fn pointers_per_block(&self) -> usize {
        self.block_size() / 8
    }

    /// Block size of the ZAP in bytes.
    #[must_use]
    pub fn block_size(&self) -> usize {
        1 << self.block_shift
    }

    /// How keys are hashed here.
    #[must_use]
    pub fn key_hash(&self) -> KeyHash {
        KeyHash { salt: self.salt, flags: self.flags, norm_flags: self.norm_flags }
    }

    /// The place of the pointer for `hash`.
    #[must_use]
    pub fn place(&self, hash: u64) -> TablePlace {
        let index = hash >> (64 - self.table.shift);
        if self.table.block_count == 0 {
            // The shift was checked to fit the table.
            let leaf = self.embedded.get(index as usize).copied().unwrap_or(0);
            return TablePlace::Embedded { leaf };
        }
        let per_block = self.block_shift - 3;
        TablePlace::External {
            block: self.table.block + (index >> per_block),
            index: (index & ((1 << per_block) - 1)) as usize,
        }
    }

    /// Pointer `index` of a block of an external table.
    pub fn pointer(table_block: &[u8], index: usize, endian: Endian) -> Result<u64> {
        let mut r = Reader::new("zap pointer table", table_block, endian);
        r.seek("pointer", index.saturating_mul(8))?;
        r.u64("pointer")
    }

    /// Number of the leaf block for `hash`. `fetch` returns a block of this object, called at
    /// most once. A pointer to block 0, the header itself, is an error.
    pub fn leaf_of<E, B>(
        &self,
        hash: u64,
        endian: Endian,
        fetch: impl FnOnce(u64) -> core::result::Result<B, E>,
    ) -> core::result::Result<u64, E>
    where
        E: From<Error>,
        B: AsRef<[u8]>,
    {
        let leaf = match self.place(hash) {
            TablePlace::Embedded { leaf } => leaf,
            TablePlace::External { block, index } => {
                Self::pointer(fetch(block)?.as_ref(), index, endian)?
            }
        };
        checked_leaf(leaf).map_err(E::from)
    }

    /// Numbers of all leaf blocks in hash order, each once. `fetch` is called for each block of an
    /// external table; the caller's error for a block past the object's end bounds the walk.
    pub fn leaf_blocks<E, B>(
        &self,
        endian: Endian,
        mut fetch: impl FnMut(u64) -> core::result::Result<B, E>,
    ) -> core::result::Result<Vec<u64>, E>
    where
        E: From<Error>,
        B: AsRef<[u8]>,
    {
        let mut out = Vec::new();
        // A leaf that covers several table entries is in neighbouring ones.
        let mut push = |leaf: u64| -> Result<()> {
            if out.last() != Some(&checked_leaf(leaf)?) {
                out.push(leaf);
            }
            Ok(())
        };
        if self.table.block_count == 0 {
            for leaf in &self.embedded {
                push(*leaf)?;
            }
        }
        for n in 0..self.table.block_count {
            let block = fetch(self.table.block + n)?;
            if block.as_ref().len() != self.block_size() {
                let kind = ErrorKind::Inconsistent("the block and the header differ in size");
                return Err(table_error(kind).into());
            }
            for word in block.as_ref().as_chunks::<8>().0 {
                push(endian.u64(*word))?;
            }
        }
        Ok(out)
    }
}

fn check_size(r: &Reader<'_>, len: usize) -> Result<()> {
    if len.is_power_of_two() && (BLOCK_SIZE_MIN..=FAT_BLOCK_SIZE_MAX).contains(&len) {
        return Ok(());
    }
    let (min, max) = (BLOCK_SIZE_MIN as u64, FAT_BLOCK_SIZE_MAX as u64);
    Err(r.error("block size", ErrorKind::OutOfRange { value: len as u64, min, max }))
}

fn table_error(kind: ErrorKind) -> Error {
    Error { structure: "zap pointer table", field: "pointer", offset: 0, kind }
}

fn checked_leaf(leaf: u64) -> Result<u64> {
    match leaf {
        0 => Err(table_error(ErrorKind::OutOfRange { value: 0, min: 1, max: u64::MAX })),
        leaf => Ok(leaf),
    }
}
