//! RAID-Z geometry: which sectors of which child hold a block. Specified in
//! `docs/format/vdev-raidz.md`.
//!
//! RAID-Z has no fixed stripes. The vdev is one sequence of sectors dealt out to the children in
//! turn, sector `n` to child `n % width` at row `n / width`. A block takes consecutive sectors
//! of that sequence. Its data is cut into rows of `width - nparity` data sectors, each row led by
//! its parity; down the rows every column is one contiguous extent on one child, and the data of
//! the block runs down the columns, not along the rows.
//!
//! ```text
//! width 5, nparity 1, 7 data sectors from sector 3        child  0   1   2   3   4
//!                                                         row 0              P0  D0
//! rows: P0 D0 D2 D4 D6 | P1 D1 D3 D5                      row 1  D2  D4  D6  P1  D1
//!                                                         row 2  D3  D5  (skip)
//! ```
//!
//! An allocation is rounded up to a multiple of `nparity + 1` sectors, so that no hole too small
//! for any block can remain; the rounding is "skip" sectors, never read.
//!
//! With single parity the first two columns change places when bit 20 of the block's offset is
//! set, a quirk that is forever part of the format.
//!
//! # Expansion
//!
//! Adding a child redistributes the sequence of sectors over one child more, and leaves the order
//! alone: a block keeps the rows it was written with, its *logical* width, but each sector `n` is
//! now at `n % physical_width`. The birth txg of a block determines its logical width. Where rows
//! are while the redistribution runs is described in `flow.rs`.

use crate::flow::{Area, EarlierTreeUse, EpochGuard, Flow, Purpose, Reflow};
use crate::map::{
    BLOCK_SIZE_MAX, BlockMap, Column, LABEL_START_SIZE, MapError, OtherPlace, Stripe,
};
use std::sync::Arc;

/// Bit of the block's offset that swaps the first two columns of single-parity RAID-Z.
const SWAP_BIT: u64 = 1 << 20;

/// The shape of one RAID-Z vdev.
#[derive(Debug)]
pub struct Raidz {
    /// Parity columns: 1, 2 or 3.
    nparity: u64,
    /// log2 of the sector size.
    ashift: u32,
    /// Children today, including one that is still being spread onto.
    width: u64,
    /// First txg and logical width after each expansion, ascending.
    expansions: Vec<(u64, u64)>,
    /// Width at creation.
    first_width: u64,
    /// An expansion has not finished.
    flow: Option<Arc<Flow>>,
}

impl Raidz {
    /// Describes a vdev from its configuration.
    ///
    /// `expand_txgs` lists the first txg after each finished expansion; each added one child.
    /// `None` when the numbers contradict each other.
    #[must_use]
    pub fn new(
        nparity: u64,
        ashift: u32,
        children: usize,
        expand_txgs: &[u64],
        expanding: bool,
    ) -> Option<Self> {
        let width = children as u64;
        let settled = width.checked_sub(u64::from(expanding))?;
        let first_width = settled.checked_sub(expand_txgs.len() as u64)?;
        if !(1..=3).contains(&nparity) || first_width <= nparity || !(9..=24).contains(&ashift) {
            return None;
        }
        let mut expansions: Vec<(u64, u64)> =
            expand_txgs.iter().enumerate().map(|(i, t)| (*t, first_width + 1 + i as u64)).collect();
        if expansions.windows(2).any(|w| w[0].0 > w[1].0) {
            return None;
        }
        expansions.shrink_to_fit();
        let flow = expanding.then(|| Arc::new(Flow::new(Reflow::default(), Vec::new())));
        Some(Self { nparity, ashift, width, expansions, first_width, flow })
    }

    /// Sets how far an unfinished expansion has come; nothing when none is running.
    pub fn set_reflow(&mut self, reflow: Reflow) {
        if let Some(flow) = &self.flow {
            flow.set(reflow);
        }
    }

    /// Its rows are being moved.
    pub(crate) fn flow(&self) -> Option<&Flow> {
        self.flow.as_deref()
    }

    /// It comes after `old` in a pool that is open, where requests of trees before may be under
    /// way.
    pub(crate) fn follow(&mut self, old: &Self, past: &[EarlierTreeUse]) {
        self.flow = match (&self.flow, &old.flow) {
            (None, _) => None,
            (Some(_), Some(flow)) => Some(Arc::clone(flow)),
            (Some(_), None) => Some(Arc::new(Flow::new(Reflow::default(), past.to_vec()))),
        };
    }

    /// Number of parity columns.
    #[must_use]
    pub fn nparity(&self) -> usize {
        self.nparity as usize
    }

    /// An expansion has not finished.
    #[must_use]
    pub fn is_expanding(&self) -> bool {
        self.flow.is_some()
    }

    /// Width of the rows of a block born in `birth`.
    #[must_use]
    pub fn logical_width(&self, birth: u64) -> u64 {
        let past = self.expansions.iter().rev().find(|(txg, _)| *txg <= birth);
        past.map_or(self.first_width, |(_, width)| *width)
    }

    /// Bytes allocated for `psize` bytes born in `birth`: data, parity and skip sectors.
    #[must_use]
    pub fn asize(&self, psize: u64, birth: u64) -> u64 {
        let data = psize.div_ceil(1 << self.ashift);
        let rows = data.div_ceil(self.logical_width(birth) - self.nparity);
        let all = data + self.nparity * rows;
        all.next_multiple_of(self.nparity + 1).saturating_mul(1 << self.ashift)
    }

    /// Where the block of `psize` bytes at `offset`, born in `birth`, lies.
    ///
    /// # Errors
    /// When offset or size cannot be those of a block.
    pub fn map(&self, offset: u64, psize: u64, birth: u64) -> Result<BlockMap, MapError> {
        Ok(self.place(offset, psize, birth, Purpose::Read)?.0)
    }

    /// The same, and what has to be kept for it to stay true.
    pub(crate) fn place(
        &self,
        offset: u64,
        psize: u64,
        birth: u64,
        purpose: Purpose,
    ) -> Result<(BlockMap, Option<EpochGuard>), MapError> {
        if psize == 0 || psize > BLOCK_SIZE_MAX {
            return Err(MapError::Size(psize));
        }
        if !offset.is_multiple_of(1 << self.ashift) {
            return Err(MapError::Misaligned(offset));
        }
        if offset > u64::MAX / 4 {
            return Err(MapError::Overflow(offset));
        }
        let logical = self.logical_width(birth);
        let shape = Shape::new(psize.div_ceil(1 << self.ashift), logical, self.nparity);
        if logical == self.width {
            return Ok((self.map_whole(offset, &shape), None));
        }
        let end = offset.saturating_add((shape.rows * logical) << self.ashift);
        let epoch_guard = self.flow.as_ref().map(|flow| match purpose {
            Purpose::Read => flow.read(),
            Purpose::Write => flow.write(&(offset..end)),
        });
        Ok((self.map_rows(offset, &shape, epoch_guard.as_ref(), purpose), epoch_guard))
    }

    /// Block as wide as the vdev: each column is one extent.
    fn map_whole(&self, offset: u64, shape: &Shape) -> BlockMap {
        let first = offset >> self.ashift;
        let mut columns = Vec::with_capacity(shape.width as usize);
        let mut at = 0;
        for c in 0..shape.width.min(shape.total) {
            let size = shape.sectors(c) << self.ashift;
            let sector = first + c;
            columns.push(Column {
                child: (sector % self.width) as usize,
                offset: ((sector / self.width) << self.ashift) + LABEL_START_SIZE,
                size,
                pad: 0,
                at: if c < self.nparity { 0 } else { at },
                sector,
                also: Vec::new(),
            });
            at += if c < self.nparity { 0 } else { size };
        }
        self.swap(offset, &mut columns);
        let stripes = vec![Stripe { nparity: self.nparity(), columns }];
        BlockMap { size: shape.data << self.ashift, stripes, former_widths: Vec::new() }
    }

    /// Block older than an expansion: each row is a stripe of its own, sector by sector.
    fn map_rows(
        &self,
        offset: u64,
        shape: &Shape,
        epoch: Option<&EpochGuard>,
        purpose: Purpose,
    ) -> BlockMap {
        let first = offset >> self.ashift;
        let cols = shape.total.min(shape.width);
        let mut stripes = Vec::with_capacity(shape.rows as usize);
        for row in 0..shape.rows {
            let start = first + row * shape.width;
            let area = epoch.map_or(Area::New, |epoch| epoch.area((start + cols) << self.ashift));
            let mut columns = Vec::with_capacity(cols as usize);
            for c in 0..cols {
                let sector = start + c;
                // Columns beyond a short last row count as zeros in its parity, so they stay in
                // the stripe, with nothing to read.
                let present = row < shape.sectors(c);
                let at = if c < self.nparity { 0 } else { shape.data_before(c) + row };
                let place = |area: Area| area.place(sector, self.width, self.ashift);
                let also = epoch.filter(|_| present && purpose == Purpose::Write);
                let other = |(area, is_whole)| {
                    let (child, offset) = place(area);
                    OtherPlace { child, offset, is_whole }
                };
                let also = also.map(|epoch| epoch.also(sector << self.ashift, area).map(other));
                let (child, offset) = place(area);
                columns.push(Column {
                    child,
                    offset,
                    size: u64::from(present) << self.ashift,
                    pad: 0,
                    at: at << self.ashift,
                    sector,
                    also: also.into_iter().flatten().collect(),
                });
            }
            self.swap(offset, &mut columns);
            stripes.push(Stripe { nparity: self.nparity(), columns });
        }
        let former_widths = (shape.width..self.width).rev().collect();
        BlockMap { size: shape.data << self.ashift, stripes, former_widths }
    }

    fn swap(&self, offset: u64, columns: &mut [Column]) {
        if let [a, b, ..] = columns
            && self.nparity == 1
            && offset & SWAP_BIT != 0
        {
            std::mem::swap(&mut a.child, &mut b.child);
            std::mem::swap(&mut a.offset, &mut b.offset);
            std::mem::swap(&mut a.sector, &mut b.sector);
            std::mem::swap(&mut a.also, &mut b.also);
        }
    }
}

/// How many sectors a block has in each of its columns.
///
/// Also used by dRAID, whose groups are filled in the same way.
pub(crate) struct Shape {
    /// Data sectors.
    pub(crate) data: u64,
    /// Data and parity sectors.
    pub(crate) total: u64,
    /// Rows, the last one perhaps short.
    pub(crate) rows: u64,
    /// Columns that reach into a short last row; all when there is none.
    big: u64,
    width: u64,
    nparity: u64,
}

impl Shape {
    pub(crate) fn new(data: u64, width: u64, nparity: u64) -> Self {
        let across = width - nparity;
        let rows = data.div_ceil(across);
        let rest = data % across;
        let big = if rest == 0 { width } else { rest + nparity };
        Self { data, total: data + nparity * rows, rows, big, width, nparity }
    }

    /// Sectors in column `c`.
    pub(crate) fn sectors(&self, c: u64) -> u64 {
        if c < self.big { self.rows } else { self.rows - 1 }
    }

    /// Data sectors in the data columns before column `c`.
    fn data_before(&self, c: u64) -> u64 {
        let before = c - self.nparity;
        let full = before.min(self.big - self.nparity);
        full * self.rows + (before - full) * (self.rows - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::BOOT_SIZE;
    use std::collections::HashSet;

    /// Every data sector of the block appears exactly once; no two columns share a place.
    fn check_map(map: &BlockMap, ashift: u32, nparity: usize) {
        let mut at: Vec<bool> = vec![false; (map.size >> ashift) as usize];
        let mut places = HashSet::new();
        for s in &map.stripes {
            assert_eq!(s.nparity, nparity);
            let height = s.height();
            let mut children = HashSet::new();
            for (c, col) in s.columns.iter().enumerate() {
                assert!(children.insert(col.child), "a child twice in one stripe");
                assert!(c >= nparity || col.size == height, "parity is as long as the longest");
                for k in 0..col.size >> ashift {
                    assert!(places.insert((col.child, col.offset + (k << ashift))));
                    if c >= nparity {
                        let i = (col.at >> ashift) + k;
                        assert!(!std::mem::replace(&mut at[i as usize], true));
                    }
                }
            }
        }
        assert!(at.iter().all(|b| *b));
    }

    #[test]
    fn every_sector_appears_once_in_every_shape() {
        for nparity in 1..=3u64 {
            for width in nparity + 1..=9 {
                let r = Raidz::new(nparity, 9, width as usize, &[], false).unwrap();
                for sectors in 1..=40u64 {
                    for first in 0..width * 2 {
                        let map = r.map(first * 512, sectors * 512, 5).unwrap();
                        check_map(&map, 9, nparity as usize);
                        let used: u64 = map.stripes[0].columns.iter().map(|c| c.size).sum::<u64>();
                        let asize = r.asize(sectors * 512, 5);
                        assert!(asize >= used && asize - used <= nparity * 512);
                        assert_eq!(asize / 512 % (nparity + 1), 0);
                    }
                }
            }
        }
    }

    #[test]
    fn worked_example_of_the_module_head() {
        let r = Raidz::new(1, 9, 5, &[], false).unwrap();
        let map = r.map(3 * 512, 7 * 512, 0).unwrap();
        let cols: Vec<_> = map.stripes[0]
            .columns
            .iter()
            .map(|c| (c.child, (c.offset - LABEL_START_SIZE) / 512, c.size / 512, c.at / 512))
            .collect();
        assert_eq!(cols, [(3, 0, 2, 0), (4, 0, 2, 0), (0, 1, 2, 2), (1, 1, 2, 4), (2, 1, 1, 6)]);
        assert_eq!(r.asize(7 * 512, 0), 10 * 512);
    }

    #[test]
    fn single_parity_swaps_its_first_columns_by_bit_20() {
        let r = Raidz::new(1, 12, 3, &[], false).unwrap();
        let plain = r.map(0, 8192, 0).unwrap();
        let swapped = r.map((1 << 20) + (2 << 20), 8192, 0).unwrap();
        assert_eq!(plain.stripes[0].columns[0].child, 0);
        // Sector 768 is child 0; the swap puts the parity on child 1.
        assert_eq!(swapped.stripes[0].columns[0].child, 1);
        assert_eq!(swapped.stripes[0].columns[1].child, 0);
        let double = Raidz::new(2, 12, 4, &[], false).unwrap();
        assert_eq!(double.map(1 << 20, 8192, 0).unwrap().stripes[0].columns[0].child, 0);
    }

    #[test]
    fn widths_follow_the_expansions() {
        let r = Raidz::new(1, 12, 5, &[100, 200], false).unwrap();
        assert_eq!([99, 100, 199, 200].map(|b| r.logical_width(b)), [3, 4, 4, 5]);
        let running = Raidz::new(1, 12, 5, &[100], true).unwrap();
        assert_eq!([99, 100, 500].map(|b| running.logical_width(b)), [3, 4, 4]);
        assert!(Raidz::new(1, 12, 3, &[1, 2], false).is_none(), "narrower than its parity");
        assert!(Raidz::new(1, 12, 5, &[2, 1], false).is_none(), "txgs out of order");
    }

    #[test]
    fn old_blocks_keep_their_rows_over_the_new_width() {
        for (nparity, old) in [(1u64, 3u64), (2, 4), (2, 6), (3, 5)] {
            let r = Raidz::new(nparity, 9, old as usize + 1, &[100], false).unwrap();
            let before = Raidz::new(nparity, 9, old as usize, &[], false).unwrap();
            for sectors in 1..=30u64 {
                for first in 0..old * 3 {
                    let map = r.map(first * 512, sectors * 512, 50).unwrap();
                    check_map(&map, 9, nparity as usize);
                    same_order(&map, &before.map(first * 512, sectors * 512, 50).unwrap(), old);
                }
            }
        }
    }

    /// Expansion must only renumber: sector by sector, the same data in the same order.
    fn same_order(new: &BlockMap, old: &BlockMap, width: u64) {
        let mut places = std::collections::HashMap::new();
        for (c, col) in old.stripes[0].columns.iter().enumerate() {
            for k in 0..col.size / 512 {
                let row = (col.offset - LABEL_START_SIZE) / 512 + k;
                places.insert(row * width + col.child as u64, (c, col.at + k * 512));
            }
        }
        let mut n = 0;
        for s in &new.stripes {
            for (c, col) in s.columns.iter().enumerate() {
                let sector = (col.offset - LABEL_START_SIZE) / 512 * (width + 1) + col.child as u64;
                assert_eq!(sector, col.sector);
                if col.size == 0 {
                    continue;
                }
                let (old_c, old_at) = places[&sector];
                assert_eq!(old_c, c);
                assert!(c < s.nparity || old_at == col.at);
                n += 1;
            }
        }
        assert_eq!(n, places.len());
    }

    #[test]
    fn a_running_expansion_reads_new_then_old() {
        let mut r = Raidz::new(1, 12, 4, &[], true).unwrap();
        let before = Raidz::new(1, 12, 3, &[], false).unwrap();
        let children = |m: &BlockMap| -> Vec<(usize, u64)> {
            m.stripes.iter().flat_map(|s| &s.columns).map(|c| (c.child, c.offset)).collect()
        };
        let at = 12 << 12;
        let old = children(&before.map(at, 8192, 1).unwrap());
        assert_eq!(children(&r.map(at, 8192, 1).unwrap()), old);
        r.set_reflow(Reflow { offset: 14 << 12, scratch_valid: false });
        assert_eq!(children(&r.map(at, 8192, 1).unwrap()), old, "a straddling row is old");
        r.set_reflow(Reflow { offset: 15 << 12, scratch_valid: false });
        let base = LABEL_START_SIZE + (3 << 12);
        assert_eq!(children(&r.map(at, 8192, 1).unwrap()), [(0, base), (1, base), (2, base)]);
        r.set_reflow(Reflow { offset: 15 << 12, scratch_valid: true });
        let base = base - BOOT_SIZE;
        assert_eq!(children(&r.map(at, 8192, 1).unwrap()), [(0, base), (1, base), (2, base)]);
    }

    #[test]
    fn lying_addresses_are_errors() {
        let r = Raidz::new(1, 12, 3, &[], false).unwrap();
        assert_eq!(r.map(512, 4096, 0), Err(MapError::Misaligned(512)));
        assert_eq!(r.map(0, 0, 0), Err(MapError::Size(0)));
        assert!(r.map(!4095, 4096, 0).is_err());
        assert!(r.map(0, u64::MAX, 0).is_err());
    }
}
