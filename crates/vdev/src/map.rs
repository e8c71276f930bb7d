//! Where the bytes of one block lie: the answer of every geometry, in one form.
//!
//! A block on a top-level vdev is one or more *stripes*. The columns of a stripe are protected
//! together: the first `nparity` hold parity, the others data, and any `nparity` of them can be
//! lost. A short column counts as continued with zeros.
//!
//! ```text
//! single disk, mirror   one stripe, one data column, no parity
//! RAID-Z                one stripe
//! RAID-Z, block older   one stripe for every logical row, columns of one sector: the rows of the
//! than an expansion     old width were laid end to end over the new width
//! dRAID                 one stripe, or two when the block crosses from one group into the next
//! ```
//!
//! Offsets are absolute on the leaf: the 4 MiB of labels and boot area in front of the data are
//! already added.

/// Where the data of a leaf begins: two labels of 256 KiB and a boot area of 3.5 MiB.
pub const LABEL_START_SIZE: u64 = 4 << 20;
/// Size of the boot area between the front labels and the data; holds the scratch copy of the
/// first rows while a RAID-Z expansion begins.
pub const BOOT_SIZE: u64 = 7 << 19;
/// Largest block of the format in bytes.
pub const BLOCK_SIZE_MAX: u64 = 16 << 20;

/// One column of a stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Index of the child among the children of the top-level vdev.
    pub child: usize,
    /// Byte offset on the child, labels included.
    pub offset: u64,
    /// Bytes of block data or parity; may be 0.
    pub size: u64,
    /// Zero bytes stored behind them to fill the stripe (dRAID only).
    pub pad: u64,
    /// Data columns: where in the block these bytes belong.
    pub at: u64,
    /// Expanded RAID-Z: number of the sector in the order that every width keeps.
    pub sector: u64,
    /// Where it is written besides, of a RAID-Z that gets wider.
    pub also: Vec<OtherPlace>,
}

/// Another place of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherPlace {
    /// As that of the column.
    pub child: usize,
    /// As that of the column.
    pub offset: u64,
    /// It holds the column already, and is where it will be read: the column is as good there as
    /// at its place.
    pub is_whole: bool,
}

impl Column {
    /// The children and offsets where the column is to be found.
    pub(crate) fn whole_places(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let others = self.also.iter().filter(|other| other.is_whole);
        core::iter::once((self.child, self.offset)).chain(others.map(|o| (o.child, o.offset)))
    }
}

/// Columns that are protected together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// How many of the first columns are parity.
    pub nparity: usize,
    /// Parity columns, then data columns.
    pub columns: Vec<Column>,
}

impl Stripe {
    /// Bytes in the longest column: all parity columns have this size.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.columns.iter().map(|c| c.size).max().unwrap_or(0)
    }
}

/// All of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap {
    /// Bytes of data in all data columns: the block's size rounded up to whole sectors.
    pub size: u64,
    /// The stripes.
    pub stripes: Vec<Stripe>,
    /// Widths this block was moved from by expansions, widest first: a disk that was bad then
    /// has spread its damage over today's disks by `sector % width`.
    pub former_widths: Vec<u64>,
}

impl BlockMap {
    /// A block that lies in one piece on one child.
    #[must_use]
    pub fn single(child: usize, offset: u64, size: u64) -> Option<Self> {
        let offset = offset.checked_add(LABEL_START_SIZE)?;
        let columns =
            vec![Column { child, offset, size, pad: 0, at: 0, sector: 0, also: Vec::new() }];
        let stripes = vec![Stripe { nparity: 0, columns }];
        Some(Self { size, stripes, former_widths: Vec::new() })
    }
}

/// Why an address cannot be a block's address on this vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The size is zero or larger than any block.
    #[error("size {0} is not a block size")]
    Size(u64),
    /// The offset is not where an allocation can begin.
    #[error("offset {0:#x} is not aligned to the vdev's allocation unit")]
    Misaligned(u64),
    /// Arithmetic on the offset leaves the range of 64 bits.
    #[error("offset {0:#x} is beyond any device")]
    Overflow(u64),
}
