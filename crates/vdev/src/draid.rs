//! dRAID geometry: RAID-Z groups spread over many children by fixed permutations. Specified in
//! `docs/format/vdev-draid.md`.
//!
//! A *group* is a RAID-Z stripe of `ndata + nparity` columns. Every child is cut into *rows* of
//! 16 MiB; a group takes its columns from consecutive positions of a row, and where the row ends
//! it continues in the next one. `ngroups` groups fill a whole number of rows: a *slice*. Positions
//! are not children: each slice has a permutation that says which child sits at which position.
//! The last `nspares` positions of a row belong to no group: they are the distributed spares.
//!
//! ```text
//! 3 data + 2 parity, 8 children, 1 spare      position  0  1  2  3  4  5  6   7
//! ngroups 7, rows of a slice 5                row 0     g0 g0 g0 g0 g0 g1 g1  spare 0
//!                                             row 1     g1 g1 g1 g2 g2 g2 g2  spare 0
//!                                             row 2     g2 g3 g3 g3 g3 g3 g4  spare 0
//! ```
//!
//! Inside a group the sectors are dealt out as in RAID-Z, but every block fills its last row: the
//! allocation unit is a full row of the group, unused sectors are written as zeros, and columns
//! never rotate (the permutation does that). A block that reaches the end of its group continues
//! at the start of the next one, as a second stripe.
//!
//! The permutations come from a generator (xoroshiro128++ by Blackman and Vigna, public domain)
//! and a seed fixed for each number of children: `nperms` shuffles, each starting from the result
//! of the one before. After each has been used, all are used again with the child numbers shifted
//! by one, and so on, so that slice `n` uses shuffle `(n / children) % nperms`, shifted by
//! `n % children`.

use crate::draid_seeds::{CHILDREN_MIN, SEEDS};
use crate::map::{BLOCK_SIZE_MAX, BlockMap, Column, LABEL_START_SIZE, MapError, Stripe};
use crate::raidz::Shape;
use core::ops::Range;
use ondisk::config::draid_name;

/// Height of a row: what one child holds of one group. As large as the largest block, so that a
/// block of a group with one data column fits.
pub const ROW_HEIGHT: u64 = 16 << 20;

/// First word of the generator's state; the second is the seed of the number of children.
const GENERATOR_SEED: u64 = 0xd_7a1d_5eed;
/// Most spares the format allows.
const SPARES_MAX: u64 = 100;

/// The shape of one dRAID vdev.
#[derive(Clone)]
pub struct Draid {
    nparity: u64,
    ndata: u64,
    nspares: u64,
    ngroups: u64,
    children: u64,
    ashift: u32,
    /// `nperms` shuffles of `children` bytes.
    perms: Vec<u8>,
}

impl std::fmt::Debug for Draid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { nparity, ndata, nspares, children, .. } = self;
        f.write_str(&draid_name(*nparity, *ndata, *children as usize, *nspares))
    }
}

impl Draid {
    /// Describes a vdev from its configuration; `None` when the numbers contradict each other.
    #[must_use]
    pub fn new(
        nparity: u64,
        ndata: u64,
        nspares: u64,
        ngroups: u64,
        children: usize,
        ashift: u32,
    ) -> Option<Self> {
        let c = children as u64;
        let group = ndata.checked_add(nparity)?;
        let needed = group.checked_add(nspares)?;
        let sane = (1..=3).contains(&nparity)
            && ndata >= 1
            && nspares <= SPARES_MAX
            && needed <= c
            && (1..=255).contains(&ngroups)
            && (9..=24).contains(&ashift)
            && (group * ngroups).is_multiple_of(c - nspares);
        if !sane {
            return None;
        }
        let perms = permutations(children)?;
        Some(Self { nparity, ndata, nspares, ngroups, children: c, ashift, perms })
    }

    /// The groups of a slice: the fewest that fill rows of the children without the spares. 0 when
    /// there is none.
    #[must_use]
    pub fn groups(width: u64, children: usize, nspares: u64) -> u64 {
        let disks = (children as u64).saturating_sub(nspares);
        (1..=disks).find(|n| (n * width).is_multiple_of(disks)).unwrap_or(0)
    }

    /// Number of parity columns.
    #[must_use]
    pub fn nparity(&self) -> usize {
        self.nparity as usize
    }

    /// The vdev has a distributed spare of this number.
    #[must_use]
    pub fn has_spare(&self, spare: u64) -> bool {
        spare < self.nspares
    }

    /// Columns of a group.
    fn group_width(&self) -> u64 {
        self.ndata + self.nparity
    }

    /// Positions of a row that belong to groups.
    fn ndisks(&self) -> u64 {
        self.children - self.nspares
    }

    /// Bytes of the vdev in one group.
    fn group_size(&self) -> u64 {
        self.group_width() * ROW_HEIGHT
    }

    /// Rows of one slice.
    fn slice_rows(&self) -> u64 {
        self.group_width() * self.ngroups / self.ndisks()
    }

    /// Bytes of data in a row of a group: what allocations hold multiples of.
    #[must_use]
    pub fn row_data(&self) -> u64 {
        self.ndata << self.ashift
    }

    /// Bytes of a row of a group, parity included: what allocations are multiples of.
    #[must_use]
    pub fn row_size(&self) -> u64 {
        self.group_width() << self.ashift
    }

    /// The parts of a range of the vdev that lie in one group each, in order.
    pub fn by_group(&self, space: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let (size, mut at) = (self.group_size(), space.start);
        std::iter::from_fn(move || {
            let end = (at / size).checked_add(1)?.checked_mul(size)?.min(space.end);
            let part = at..end;
            at = end;
            (part.start < part.end).then_some(part)
        })
    }

    /// Where a range of the vdev that lies in one group is on a child, without what is in front of
    /// the data; empty where the group has no column there. Rows that are in the range only in part
    /// are left out.
    #[must_use]
    pub fn extent(&self, child: usize, space: &Range<u64>) -> Range<u64> {
        let (group, row_size) = (space.start / self.group_size(), self.row_size());
        let within = |at: u64| at.saturating_sub(group * self.group_size()) / self.group_width();
        let start = within(space.start.next_multiple_of(row_size));
        let end = within(space.end / row_size * row_size).max(start);
        let seat = self.seats(group).find(|(seat, _)| *seat == child);
        seat.map_or(0..0, |(_, row)| row * ROW_HEIGHT + start..row * ROW_HEIGHT + end)
    }

    /// The end of the first part of a range that is as one block, and the bytes of that: whole rows
    /// of one group, with at most `max` bytes for each data column.
    #[must_use]
    pub fn rebuild_range(&self, space: &Range<u64>, max: u64) -> Option<(u64, u64)> {
        if !space.start.is_multiple_of(self.row_size()) {
            return None;
        }
        let group_end = self.by_group(space.clone()).next()?.end;
        let most = max.min(BLOCK_SIZE_MAX / self.ndata) >> self.ashift;
        let rows = ((group_end - space.start) / self.row_size()).min(most.max(1));
        (rows > 0).then_some((space.start + rows * self.row_size(), rows * self.row_data()))
    }

    /// Bytes allocated for `psize` bytes: whole rows of a group.
    #[must_use]
    pub fn asize(&self, psize: u64) -> u64 {
        psize.div_ceil(self.row_data()).saturating_mul(self.row_size())
    }

    /// The child at `position` of a row of `slice`. `position` is less than the children.
    fn child_at(&self, slice: u64, position: u64) -> usize {
        let n = slice % (self.perms.len() as u64);
        let shuffle = n / self.children;
        let shift = n % self.children;
        let index = (shuffle * self.children + position) as usize;
        let seat = u64::from(self.perms.get(index).copied().unwrap_or(0));
        ((seat + shift) % self.children) as usize
    }

    /// The child that holds, for distributed spare `spare`, what is at `offset` on the spare
    /// (labels included; the offset is the same on the child), and the bytes from there on for
    /// which that stays true. `None` for a spare this vdev does not have.
    #[must_use]
    pub fn spare_child(&self, spare: u64, offset: u64) -> Option<(usize, u64)> {
        if !self.has_spare(spare) {
            return None;
        }
        let data = offset.checked_sub(LABEL_START_SIZE)?;
        let slice_size = self.slice_rows() * ROW_HEIGHT;
        let child = self.child_at(data / slice_size, self.children - 1 - spare);
        Some((child, slice_size - data % slice_size))
    }

    /// Where the block of `psize` bytes at `offset` lies.
    ///
    /// # Errors
    /// When offset or size cannot be those of a block.
    pub fn map(&self, offset: u64, psize: u64) -> Result<BlockMap, MapError> {
        if psize == 0 || psize > BLOCK_SIZE_MAX {
            return Err(MapError::Size(psize));
        }
        if !offset.is_multiple_of(self.row_size()) {
            return Err(MapError::Misaligned(offset));
        }
        if offset > u64::MAX / 4 {
            return Err(MapError::Overflow(offset));
        }
        let data = psize.div_ceil(1 << self.ashift);
        // The rows of the group that are left from here on.
        let left = (self.group_size() - offset % self.group_size()) / self.row_size();
        let here = data.min(left * self.ndata);
        let mut stripes = vec![self.stripe(offset, here, 0)];
        if here < data {
            // 16 MiB fit into one group, so the rest fits into the next.
            let next = offset + self.asize(here << self.ashift);
            stripes.push(self.stripe(next, data - here, here));
        }
        Ok(BlockMap { size: data << self.ashift, stripes, former_widths: Vec::new() })
    }

    /// The children that the columns of a group are on, and the row of each.
    fn seats(&self, group: u64) -> impl Iterator<Item = (usize, u64)> {
        let slice = group / self.ngroups;
        let start = group % self.ngroups * self.group_width();
        let first_row = slice * self.slice_rows() + start / self.ndisks();
        let first_position = start % self.ndisks();
        (0..self.group_width()).map(move |c| {
            let position = first_position + c;
            let row = first_row + position / self.ndisks();
            (self.child_at(slice, position % self.ndisks()), row)
        })
    }

    /// The stripe of `data` sectors at `offset`; `before` sectors of the block precede it.
    fn stripe(&self, offset: u64, data: u64, before: u64) -> Stripe {
        let width = self.group_width();
        let shape = Shape::new(data, width, self.nparity);
        let seats = self.seats(offset / self.group_size());
        // All columns of a group have the same height: its size spread evenly.
        let down = offset % self.group_size() / width;
        let mut at = before;
        let mut columns = Vec::with_capacity(width as usize);
        for (c, (child, row)) in (0..width).zip(seats) {
            let sectors = shape.sectors(c);
            let is_data = c >= self.nparity;
            columns.push(Column {
                child,
                offset: row * ROW_HEIGHT + down + LABEL_START_SIZE,
                size: sectors << self.ashift,
                pad: (shape.rows - sectors) << self.ashift,
                at: if is_data { at << self.ashift } else { 0 },
                sector: 0,
                also: Vec::new(),
            });
            at += if is_data { sectors } else { 0 };
        }
        Stripe { nparity: self.nparity(), columns }
    }
}

/// All shuffles for a number of children; `None` when the format has none for it.
fn permutations(children: usize) -> Option<Vec<u8>> {
    let (seed, sum) = *SEEDS.get(children.checked_sub(CHILDREN_MIN)?)?;
    let nperms = if children < 32 { 256 } else { 512 };
    let mut generator = Xoroshiro { a: GENERATOR_SEED, b: seed };
    // At most 255 children: every number fits a byte.
    let mut row: Vec<u8> = (0..children).map(|c| c as u8).collect();
    let mut out = Vec::with_capacity(nperms * children);
    for _ in 0..nperms {
        for j in (1..children).rev() {
            row.swap(j, (generator.next() % (j as u64 + 1)) as usize);
        }
        out.extend_from_slice(&row);
    }
    (sum32(&out) == sum).then_some(out)
}

/// First word of fletcher4: the sum of all 32-bit words.
fn sum32(bytes: &[u8]) -> u64 {
    bytes.as_chunks().0.iter().map(|w| u64::from(u32::from_le_bytes(*w))).sum()
}

/// The generator behind the permutations: xoroshiro128++ 1.0.
struct Xoroshiro {
    a: u64,
    b: u64,
}

impl Xoroshiro {
    fn next(&mut self) -> u64 {
        let (a, b) = (self.a, self.b ^ self.a);
        let out = a.wrapping_add(self.b).rotate_left(17).wrapping_add(a);
        self.a = a.rotate_left(49) ^ b ^ (b << 21);
        self.b = b.rotate_left(28);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn lcm_groups(ndata: u64, nparity: u64, disks: u64) -> u64 {
        (1..).find(|n| (n * (ndata + nparity)).is_multiple_of(disks)).unwrap()
    }

    #[test]
    fn every_seed_yields_its_sum_and_real_permutations() {
        for children in CHILDREN_MIN..=255 {
            let perms = permutations(children).unwrap_or_else(|| panic!("{children} children"));
            for row in perms.chunks_exact(children) {
                assert_eq!(row.iter().collect::<HashSet<_>>().len(), children);
            }
        }
        assert!(permutations(1).is_none());
        assert!(permutations(256).is_none());
    }

    #[test]
    fn columns_of_all_groups_share_no_place() {
        for (nparity, ndata, children, nspares) in [(2, 3, 8, 1), (1, 4, 14, 2), (3, 5, 11, 0)] {
            let groups = lcm_groups(ndata, nparity, children as u64 - nspares);
            let d = Draid::new(nparity, ndata, nspares, groups, children, 12).unwrap();
            let mut taken = HashSet::new();
            for group in 0..groups * 40 {
                let m = d.map(group * d.group_size(), 4096 * ndata).unwrap();
                assert_eq!(m.stripes.len(), 1);
                for c in &m.stripes[0].columns {
                    let row = (c.offset - LABEL_START_SIZE) / ROW_HEIGHT;
                    assert!(taken.insert((c.child, row)));
                }
            }
            spares_fill_the_rest(&d, &mut taken);
        }
    }

    /// With the spares' places every child is used in every row.
    fn spares_fill_the_rest(d: &Draid, taken: &mut HashSet<(usize, u64)>) {
        let rows = d.slice_rows() * 40;
        for row in 0..rows {
            for spare in 0..d.nspares {
                let at = LABEL_START_SIZE + row * ROW_HEIGHT;
                let (child, left) = d.spare_child(spare, at).unwrap();
                assert!(left >= ROW_HEIGHT);
                assert!(taken.insert((child, row)));
            }
        }
        assert_eq!(taken.len() as u64, rows * d.children);
        assert!(d.spare_child(d.nspares, LABEL_START_SIZE).is_none());
        assert!(d.spare_child(0, 0).is_none());
    }

    #[test]
    fn every_sector_appears_once_and_rows_are_full() {
        let d = Draid::new(2, 3, 1, 7, 8, 12).unwrap();
        for sectors in 1..=20u64 {
            let m = d.map(5 * 4096 * 3, sectors * 4096).unwrap();
            let mut seen = HashMap::new();
            let mut stored = 0;
            for (c, col) in m.stripes[0].columns.iter().enumerate() {
                assert_eq!(col.size + col.pad, m.stripes[0].height());
                stored += col.size + col.pad;
                for k in (0..col.size / 4096).filter(|_| c >= 2) {
                    assert!(seen.insert(col.at / 4096 + k, c).is_none());
                }
            }
            assert_eq!(seen.len() as u64, sectors);
            assert_eq!(stored, d.asize(sectors * 4096));
        }
    }

    /// Every byte of a range's rows is in the extent of one child, and nothing else is.
    #[test]
    fn the_extents_of_a_range_are_its_columns() {
        let d = Draid::new(2, 3, 1, 7, 8, 12).unwrap();
        let row = d.row_size();
        let space = d.group_size() * 3 - 4 * row..d.group_size() * 4 + 6 * row;
        let mut taken = HashMap::new();
        let mut bytes = 0;
        for part in d.by_group(space.start - 4096..space.end + 4096) {
            for child in 0..8 {
                let extent = d.extent(child, &part);
                bytes += extent.end - extent.start;
                taken.insert((child, part.start), extent);
            }
        }
        assert_eq!(bytes, space.end - space.start);
        let parts = d.by_group(space.clone()).map(|p| p.start..p.end).collect::<Vec<_>>();
        assert_eq!(parts.len(), 3);
        for at in space.clone().step_by(usize::try_from(row).unwrap()) {
            for c in &d.map(at, 3 * 4096).unwrap().stripes[0].columns {
                let down = c.offset - LABEL_START_SIZE;
                let of = |(child, _): &(&(usize, u64), &Range<u64>)| child.0 == c.child;
                assert!(taken.iter().filter(of).any(|(_, e)| e.contains(&down)));
            }
        }
    }

    #[test]
    fn a_block_at_the_end_of_a_group_continues_in_the_next() {
        let d = Draid::new(2, 3, 1, 7, 8, 12).unwrap();
        let last_row = d.group_size() - 5 * 4096;
        let m = d.map(last_row, 5 * 4096).unwrap();
        let next = d.map(d.group_size(), 2 * 4096).unwrap();
        assert_eq!(m.stripes.len(), 2);
        assert_eq!(m.stripes[0].columns.iter().map(|c| c.size).sum::<u64>(), 5 * 4096);
        for (a, b) in m.stripes[1].columns.iter().zip(&next.stripes[0].columns) {
            assert_eq!((a.child, a.offset, a.size), (b.child, b.offset, b.size));
        }
        assert_eq!(m.stripes[1].columns[2].at, 3 * 4096);
    }

    /// Children of the rows of groups far into a vdev, where zdb of OpenZFS 2.3.2 read what had
    /// been written to them (`zdb -R` on a pool of 25 slices, patterns on the devices).
    #[test]
    fn places_that_openzfs_confirmed() {
        let d = Draid::new(2, 3, 1, 7, 8, 12).unwrap();
        let places = |slice: u64, group: u64| {
            let at = (slice * 7 + group) * d.group_size();
            let map = d.map(at, 3 * 4096).unwrap();
            let row = |c: &Column| (c.offset - LABEL_START_SIZE) / ROW_HEIGHT;
            let places = map.stripes[0].columns.iter().map(|c| (c.child, row(c)));
            places.collect::<Vec<_>>()
        };
        assert_eq!(places(1, 1), [(5, 5), (4, 5), (6, 6), (7, 6), (2, 6)]);
        assert_eq!(places(8, 1), [(6, 40), (2, 40), (7, 41), (4, 41), (0, 41)]);
        assert_eq!(places(13, 6), [(5, 69), (2, 69), (6, 69), (3, 69), (7, 69)]);
        assert_eq!(places(24, 4), [(5, 122), (7, 123), (2, 123), (6, 123), (1, 123)]);
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(Draid::new(2, 3, 1, 7, 8, 12).is_some());
        assert!(Draid::new(2, 3, 1, 6, 8, 12).is_none(), "groups do not fill rows");
        assert!(Draid::new(2, 7, 1, 7, 8, 12).is_none(), "too few children");
        assert!(Draid::new(0, 3, 1, 7, 8, 12).is_none());
        assert!(Draid::new(2, u64::MAX, 1, 7, 8, 12).is_none());
        assert!(Draid::new(1, 4, 0, 1, 300, 12).is_none());
        let d = Draid::new(2, 3, 1, 7, 8, 12).unwrap();
        assert_eq!(d.map(4096, 4096), Err(MapError::Misaligned(4096)));
        assert_eq!(d.map(0, 0), Err(MapError::Size(0)));
    }
}
