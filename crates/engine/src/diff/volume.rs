//! The changes of a volume.

use super::objects::{blocks_before, covered};
use crate::error::Result;
use dmu::{Object, Place, Segment, Step, Visitor};
use ondisk::BlkPtr;
use pool::Pool;
use std::ops::Range;
use zpl::Volume;

/// The ranges of a volume that may differ from an earlier snapshot: blocks that were written or
/// freed since, whether with other content or not.
pub struct VolumeDiff {
    earlier: Volume,
    since: u64,
    later: Volume,
}

impl VolumeDiff {
    /// Compares `later`, the volume or a later snapshot of it, with the snapshot `from`. Of the
    /// volume itself it sees what was synced.
    ///
    /// # Errors
    /// There is no such snapshot, or it cannot be read.
    pub fn new(pool: &Pool, from: &str, later: Volume) -> Result<Self> {
        let dsl = pool.datasets();
        let since = dsl.by_name(from)?.phys.creation_txg;
        Ok(Self { earlier: pool.volume(from)?, since, later })
    }

    /// The ranges among `length` bytes from `offset` that changed, in order.
    ///
    /// # Errors
    /// A block that leads to others cannot be read.
    pub fn ranges(&self, offset: u64, length: u64) -> Result<Vec<Segment>> {
        let block = self.later.block_size().max(1);
        let end = offset.saturating_add(length);
        let window = offset / block..end.div_ceil(block);
        let later = self.later.object();
        let mut search =
            Search { later, window, unborn: Vec::new(), found: Vec::new(), lost: None };
        // Where it ended early is behind the window, or in `lost`.
        let _ = later.traverse(self.since, &mut search);
        search.gap(covered(later), u64::MAX);
        if let Some(error) = search.lost {
            return Err(error.into());
        }
        let mut found = search.found;
        for Range { start, end } in search.unborn {
            freed(self.earlier.object(), start, end, &mut found)?;
        }
        found.sort_unstable_by_key(|range| range.start);
        let mut all: Vec<Segment> = Vec::new();
        for range in found {
            let from = range.start.saturating_mul(block).max(offset);
            let to = range.end.saturating_mul(block).min(end);
            match all.last_mut().filter(|last| last.offset + last.length >= from) {
                Some(last) => last.length = last.length.max(to.saturating_sub(last.offset)),
                None => all.push(Segment { offset: from, length: to.saturating_sub(from) }),
            }
        }
        Ok(all)
    }
}

/// Blocks from `first` up to `end` that the earlier state has, where the later one has none and
/// does not say since when.
fn freed(earlier: &Object, first: u64, end: u64, found: &mut Vec<Range<u64>>) -> Result<()> {
    let mut at = first;
    while let Some(block) = earlier.next_block(at).map_err(|(e, _)| e)?.filter(|b| *b < end) {
        add(found, block..block + 1);
        at = block + 1;
    }
    Ok(())
}

fn add(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut().filter(|last| last.end == range.start) {
        Some(last) => last.end = range.end,
        None => ranges.push(range),
    }
}

struct Search<'a> {
    later: &'a Object,
    /// The requested blocks of level 0.
    window: Range<u64>,
    unborn: Vec<Range<u64>>,
    found: Vec<Range<u64>>,
    lost: Option<dmu::Error>,
}

impl Search<'_> {
    /// Blocks of level 0 below a place.
    fn below(&self, place: Place) -> Range<u64> {
        let level = place.level.cast_unsigned();
        let before = |blkid| blocks_before(self.later, level, blkid);
        before(place.blkid)..before(place.blkid.saturating_add(1))
    }

    fn cut(&self, range: &Range<u64>) -> Range<u64> {
        range.start.max(self.window.start)..range.end.min(self.window.end)
    }

    fn gap(&mut self, first: u64, end: u64) {
        let range = self.cut(&(first..end));
        if !range.is_empty() {
            add(&mut self.unborn, range);
        }
    }
}

impl Visitor for Search<'_> {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step {
        let below = self.below(place);
        if self.lost.is_some() || below.start >= self.window.end {
            return Step::Stop;
        }
        let range = self.cut(&below);
        if range.is_empty() {
            return Step::Skip;
        }
        if place.level == 0 || bp.is_hole() {
            add(&mut self.found, range);
        }
        Step::Descend
    }

    fn unborn(&mut self, place: Place) {
        let below = self.below(place);
        self.gap(below.start, below.end);
    }

    fn lost(&mut self, _: Place, error: dmu::Error) {
        self.lost.get_or_insert(error);
    }
}
