//! Sums over all blocks, in the terms of `zdb -b`.
//!
//! A block counts once for each pointer that is visited; pointers are visited once, in the oldest
//! snapshot that has them. Blocks that dedup or clone tables share count for every pointer, and
//! `deduped` and `cloned` are the parts of the sum that are not allocated again. Embedded blocks
//! count with their logical size alone.

use ondisk::{BlkPtr, DmuType, EmbeddedKind};
use std::collections::BTreeMap;

/// BlockKind of block in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockKind {
    /// A type with a number of its own.
    Type(DmuType),
    /// Blocks in lists of deferred frees.
    DeferredFree,
    /// A self-describing new type.
    Other,
}

impl BlockKind {
    /// The row a block belongs to.
    #[must_use]
    pub fn of(t: DmuType) -> Self {
        if t.0 & 0x80 != 0 { Self::Other } else { Self::Type(t) }
    }

    /// Name as zdb has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Type(t) => t.name(),
            Self::DeferredFree => "deferred free",
            Self::Other => "other",
        }
    }
}

/// Sums of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Blocks.
    pub count: u64,
    /// Bytes uncompressed.
    pub logical: u64,
    /// Bytes as stored.
    pub physical: u64,
    /// Bytes allocated, all copies with parity.
    pub allocated: u64,
    /// Copies that are gang blocks.
    pub gangs: u64,
    /// Blocks with two copies on one vdev.
    pub ditto_same_vdev: u64,
}

impl Sum {
    fn add(&mut self, o: &Self) {
        self.count += o.count;
        self.logical += o.logical;
        self.physical += o.physical;
        self.allocated += o.allocated;
        self.gangs += o.gangs;
        self.ditto_same_vdev += o.ditto_same_vdev;
    }
}

/// Sums over a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// By kind and level.
    pub table: BTreeMap<(BlockKind, u8), Sum>,
    /// Bytes allocated that more references to deduplicated blocks would take.
    pub dedup_bytes: u64,
    /// Those references.
    pub dedup_blocks: u64,
    /// Bytes allocated that clones of blocks would take.
    pub clone_bytes: u64,
    /// Those clones.
    pub clone_blocks: u64,
    /// Embedded blocks by kind of payload: data, reserved, redacted.
    pub embedded: [u64; 3],
}

impl Totals {
    /// Counts one pointer.
    pub(crate) fn count(&mut self, bp: &BlkPtr, kind: BlockKind) {
        let embedded = bp.is_embedded();
        let is_data = !embedded || bp.embedded_kind() == EmbeddedKind::Data;
        let mut sum = Sum {
            count: 1,
            logical: if is_data { bp.lsize() } else { 0 },
            physical: if embedded { 0 } else { bp.psize() },
            allocated: bp.asize(),
            gangs: bp.dvas().filter(|(_, d)| d.is_gang()).count() as u64,
            ditto_same_vdev: 0,
        };
        let vdevs: Vec<u32> = bp.dvas().map(|(_, d)| d.vdev()).collect();
        let twice = |(i, v): (usize, &u32)| vdevs.iter().skip(i + 1).any(|w| w == v);
        sum.ditto_same_vdev = u64::from(vdevs.iter().enumerate().any(twice));
        self.table.entry((kind, bp.level())).or_default().add(&sum);
        if embedded {
            let i = match bp.embedded_kind() {
                EmbeddedKind::Data => 0,
                EmbeddedKind::Reserved => 1,
                _ => 2,
            };
            self.embedded[i] += 1;
        }
    }

    /// Adds what another thread counted.
    pub(crate) fn merge(&mut self, o: &Self) {
        for (k, s) in &o.table {
            self.table.entry(*k).or_default().add(s);
        }
        self.dedup_bytes += o.dedup_bytes;
        self.dedup_blocks += o.dedup_blocks;
        self.clone_bytes += o.clone_bytes;
        self.clone_blocks += o.clone_blocks;
        for (a, b) in self.embedded.iter_mut().zip(o.embedded) {
            *a += b;
        }
    }

    /// Sum of everything.
    #[must_use]
    pub fn total(&self) -> Sum {
        self.sum_of(|_, _| true)
    }

    /// Sum over the rows that `choose` takes.
    #[must_use]
    pub fn sum_of(&self, choose: impl Fn(BlockKind, u8) -> bool) -> Sum {
        let mut out = Sum::default();
        for ((k, l), s) in &self.table {
            if choose(*k, *l) {
                out.add(s);
            }
        }
        out
    }

    /// Bytes that are allocated by all this: shared blocks once.
    #[must_use]
    pub fn allocated_once(&self) -> u64 {
        self.total().allocated.saturating_sub(self.dedup_bytes).saturating_sub(self.clone_bytes)
    }
}
