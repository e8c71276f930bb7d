//! What writing costs on flash that is full: room has to be made first.
//!
//! Flash is erased in blocks of many pages. A page that is written again goes to a new place, and
//! its old one is garbage until its block is chosen, what is still valid in it moved elsewhere, and
//! the block erased. So each byte of a host costs more bytes of flash, the more the fuller the disk
//! is and the less its writes follow an order.
//!
//! # The model
//!
//! Pages are written to one open block (of all units together); when it is full another is opened,
//! and as much is collected as that takes: always the block with the fewest valid pages. What was
//! written since time began is tracked page by page. All else is the disk as it was found: full,
//! and written at random for long. Of such a disk the part `v` that is valid in the block that is
//! chosen is known: with `u` the part of the flash that the host may use, `u = (v − 1) / ln v`. It
//! never runs out. So a program that writes at random pays `1 / (1 − v)` for each page, and one
//! that overwrites in order what it wrote in order leaves whole blocks of garbage, which cost
//! nothing to collect.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// Parameters of a solid state disk that is full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Garbage {
    /// Bytes that are erased together, in all units.
    pub block_bytes: u64,
    /// Flash that the host does not see, in percent of what it sees.
    pub spare_percent: f64,
    /// Erasing, in each unit.
    pub erase_us: f64,
}

/// What was done to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Pages that were moved.
    pub(crate) moved: u64,
    /// Blocks that were erased.
    pub(crate) erased: u64,
}

struct Block {
    pages: Vec<u64>,
    valid: u64,
}

/// See the head of this file.
pub(crate) struct Collector {
    block_pages: u64,
    /// Valid pages of the best block among those that were there before.
    before: u64,
    free_pages: u64,
    open: u64,
    /// Blocks by number: the open one and those that were written since.
    blocks: HashMap<u64, Block>,
    /// Those that are full, by their valid pages.
    full: BTreeSet<(u64, u64)>,
    /// The block that has a page.
    place: HashMap<u64, u64>,
}

impl Collector {
    pub(crate) fn new(spec: &Garbage, page_bytes: u64) -> Self {
        let block_pages = (spec.block_bytes / page_bytes.max(512)).max(1);
        let part = valid_part(1.0 / (1.0 + spec.spare_percent.max(0.0) / 100.0));
        Self {
            block_pages,
            // A block without any garbage could never be collected.
            before: ((block_pages as f64 * part) as u64).min(block_pages - 1),
            free_pages: 0,
            open: 0,
            blocks: HashMap::from([(0, Block { pages: Vec::new(), valid: 0 })]),
            full: BTreeSet::new(),
            place: HashMap::new(),
        }
    }

    /// A page is written; what had to be done first.
    pub(crate) fn write(&mut self, page: u64) -> Work {
        let work = self.make_room();
        if let Some(old) = self.place.insert(page, self.open)
            && let Some(block) = self.blocks.get_mut(&old)
        {
            let was_full = self.full.remove(&(block.valid, old));
            block.valid -= 1;
            if was_full {
                self.full.insert((block.valid, old));
            }
        }
        if let Some(block) = self.blocks.get_mut(&self.open) {
            block.pages.push(page);
            block.valid += 1;
        }
        work
    }

    /// Opens another block where the open one is full.
    fn make_room(&mut self) -> Work {
        let mut work = Work::default();
        let Some(block) = self.blocks.get(&self.open) else { return work };
        if (block.pages.len() as u64) < self.block_pages {
            return work;
        }
        self.full.insert((block.valid, self.open));
        while self.free_pages < self.block_pages {
            let valid = match self.full.first().copied() {
                Some((valid, number)) if valid <= self.before => {
                    self.full.remove(&(valid, number));
                    self.collect(number);
                    valid
                }
                _ => self.before,
            };
            work.moved += valid;
            work.erased += 1;
            self.free_pages += self.block_pages - valid;
        }
        self.free_pages -= self.block_pages;
        self.open += 1;
        self.blocks.insert(self.open, Block { pages: Vec::new(), valid: 0 });
        work
    }

    /// What is valid in a block goes to where all else is.
    fn collect(&mut self, number: u64) {
        let Some(block) = self.blocks.remove(&number) else { return };
        for page in block.pages {
            if self.place.get(&page) == Some(&number) {
                self.place.remove(&page);
            }
        }
    }
}

/// The part `v` with `u = (v − 1) / ln v`.
fn valid_part(used: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..60 {
        let v = f64::midpoint(low, high);
        if (v - 1.0) / v.ln() < used { low = v } else { high = v }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 256;

    fn collector(spare_percent: f64) -> Collector {
        let spec = Garbage { block_bytes: PAGES * 4096, spare_percent, erase_us: 0.0 };
        Collector::new(&spec, 4096)
    }

    /// Pages that are moved for each that is written.
    fn moved(collector: &mut Collector, pages: impl Iterator<Item = u64>) -> f64 {
        let (mut moved, mut written) = (0, 0);
        for page in pages {
            moved += collector.write(page).moved;
            written += 1;
        }
        moved as f64 / f64::from(written)
    }

    #[test]
    fn random_writes_to_a_full_disk_pay_for_what_is_valid() {
        for spare in [7.0, 28.0, 100.0] {
            let v = valid_part(1.0 / (1.0 + spare / 100.0));
            assert!((1.0 / (1.0 + spare / 100.0) - (v - 1.0) / v.ln()).abs() < 1e-6);
            // Of a disk so large that no page comes twice.
            let far = (0..200 * PAGES).map(|n| n * 7);
            let found = moved(&mut collector(spare), far);
            let expected = v / (1.0 - v);
            assert!((found / expected - 1.0).abs() < 0.05, "{spare}: {found} {expected}");
        }
        assert!(valid_part(1.0 / 1.07) > 0.8);
    }

    #[test]
    fn what_is_overwritten_in_order_costs_nothing_once_it_goes_round() {
        let mut collector = collector(7.0);
        let round = || 0..20 * PAGES;
        assert!(moved(&mut collector, round()) > 5.0);
        assert!(moved(&mut collector, round()) < 0.5);
        assert_eq!(moved(&mut collector, round()), 0.0);
        // Nothing is kept of blocks that are gone.
        assert!(collector.blocks.len() < 50 && collector.place.len() <= 20 * PAGES as usize);
    }
}
