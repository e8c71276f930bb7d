//! Where a range of a top-level vdev's space lies on one of its devices.
//!
//! A mirror has the range as it is on each side. RAID-Z lays sector `s` of its space into row
//! `s / width` of child `s % width`, parity or not, so a range is one extent on each child: from
//! the first row that begins in it to the last. The contents of the extent are in the range and in
//! nothing else, on which overwriting free space, or giving it back to the device, relies. dRAID
//! has one extent on each child for each group, so a range is first cut at ends of groups.

use crate::map::LABEL_START_SIZE;
use crate::tree::{Role, VdevTree};
use core::ops::Range;

/// Rows of child `column` that begin in front of sector `sector`, in a vdev of `width` children.
fn rows_before(sector: u64, column: u64, width: u64) -> u64 {
    sector.saturating_sub(column).div_ceil(width.max(1))
}

impl VdevTree {
    /// The parts of a range of vdev `top` that are one extent on each of its devices.
    #[must_use]
    pub fn parts_in_one_extent(&self, top: u32, space: Range<u64>) -> Vec<Range<u64>> {
        let node = self.tops.get(&top).and_then(|top| self.nodes.get(top.node));
        match node.map(|node| &node.role) {
            Some(Role::Draid(draid)) => draid.by_group(space).collect(),
            _ => vec![space],
        }
    }

    /// The bytes of a device, labels included, that hold the range `space` of vdev `top` and
    /// nothing else; may be empty. `None`: the device is not below this vdev, or the vdev has no
    /// such extent. The range is one of [`Self::parts_in_one_extent`].
    #[must_use]
    pub fn extent_on(&self, top: u32, leaf: u64, space: &Range<u64>) -> Option<Range<u64>> {
        let top = self.tops.get(&top)?;
        let node = self.nodes.get(top.node)?;
        let is_below = |index: usize| {
            let mut found = false;
            self.leaves_below(index, &mut |i| {
                found |= self.nodes.get(i).is_some_and(|n| n.guid == leaf);
            });
            found
        };
        let (start, end) = match &node.role {
            Role::Leaf | Role::Mirror | Role::Replacing | Role::Spare => {
                (space.start, is_below(top.node).then_some(space.end)?)
            }
            Role::Raidz(raidz) if !raidz.is_expanding() => {
                let column = node.children.iter().position(|child| is_below(*child))? as u64;
                let (width, shift) = (node.children.len() as u64, top.ashift);
                let first = space.start.div_ceil(1 << shift);
                let rows = [first, space.end >> shift].map(|s| rows_before(s, column, width));
                (rows[0].checked_shl(shift)?, rows[1].checked_shl(shift)?)
            }
            Role::Draid(draid) => {
                let child = node.children.iter().position(|child| is_below(*child))?;
                let extent = draid.extent(child, space);
                (extent.start, extent.end)
            }
            _ => return None,
        };
        Some(start.checked_add(LABEL_START_SIZE)?..end.max(start).checked_add(LABEL_START_SIZE)?)
    }
}

#[cfg(test)]
mod tests {
    use super::rows_before;

    /// Every sector of a range is on exactly one child, and nothing else is in the extents.
    #[test]
    fn the_rows_of_a_range_are_its_sectors() {
        for width in 1..8u64 {
            for (start, end) in [(0, 0), (0, 1), (3, 4), (5, 23), (7, 8), (16, 64)] {
                let mut seen: Vec<u64> = Vec::new();
                for column in 0..width {
                    let rows = rows_before(start, column, width)..rows_before(end, column, width);
                    seen.extend(rows.map(|row| row * width + column));
                }
                seen.sort_unstable();
                assert_eq!(seen, (start..end).collect::<Vec<_>>(), "{width}: {start}..{end}");
            }
        }
    }
}
