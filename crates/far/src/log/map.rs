//! Which sector of the disk is where, and which segments that keeps alive.
//!
//! The map is a sorted list of extents in memory. It is cut at the borders of *pages*, so that a
//! checkpoint writes only the pages that changed. Everything that changes it goes through
//! [`Index::apply`], in the order of the log, for a writer and for a replay alike: so both come to
//! the same map.

use super::format::{Change, Entry, Extent, Location, PageRef, Root, SegmentRef};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the disk that a page of the map is for.
const PAGE_BYTES: u64 = 256 << 20;
/// Memory of an extent in the map, about: 24 bytes, and its share of the tree.
const EXTENT_MEMORY: u64 = 40;

/// A segment that is not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Byte in its object where the payload begins.
    pub(super) payload: u32,
    /// Sectors of the payload.
    pub(super) sectors: u32,
    /// Those of them that the map has.
    pub(super) live: u32,
    /// The segment that made its last sector dead; 0: it has living ones.
    pub(super) death: u64,
}

impl Segment {
    /// Sectors that its object takes.
    fn taken(&self, sector: u32) -> u64 {
        u64::from(self.sectors) + u64::from(self.payload.div_ceil(sector.max(1)))
    }
}

/// The map and the segments.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    map: BTreeMap<u64, (u32, Location)>,
    segments: BTreeMap<u64, Segment>,
    /// Sectors that the objects of all segments take.
    stored: u64,
    /// Bytes of a sector.
    sector: u32,
    /// Sectors of a page.
    page: u64,
    /// Pages that changed since they were written.
    changed: BTreeSet<u64>,
    /// Where the pages are that were written.
    written: BTreeMap<u64, PageRef>,
}

impl Index {
    pub(super) fn new(sector: u32) -> Self {
        Self { page: PAGE_BYTES / u64::from(sector), sector, ..Self::default() }
    }

    /// The index of a checkpoint, without its map yet.
    pub(super) fn of_root(sector: u32, root: &Root) -> Self {
        let mut index = Self::new(sector);
        for SegmentRef { seq, payload, sectors, death } in &root.segments {
            let (payload, sectors, death) = (*payload, *sectors, *death);
            let segment = Segment { payload, sectors, live: 0, death };
            index.stored += segment.taken(sector);
            index.segments.insert(*seq, segment);
        }
        index.written = root.pages.iter().map(|page| (page.page, *page)).collect();
        index
    }

    /// The first sector of a page, and the one behind its last.
    pub(super) fn page_range(&self, page: u64) -> (u64, u64) {
        let base = page.saturating_mul(self.page);
        (base, base.saturating_add(self.page))
    }

    /// Puts an extent of a checkpoint into the map; false when its segment is not there or not as
    /// long.
    pub(super) fn restore(&mut self, extent: &Extent) -> bool {
        let Some(segment) = self.segments.get_mut(&extent.to.seq) else { return false };
        if u64::from(extent.to.at) + u64::from(extent.sectors) > u64::from(segment.sectors) {
            return false;
        }
        segment.live = segment.live.saturating_add(extent.sectors);
        self.map.insert(extent.lba, (extent.sectors, extent.to));
        true
    }

    /// A segment begins. Its payload grows as entries are applied.
    pub(super) fn begin(&mut self, seq: u64) {
        self.segments.insert(seq, Segment { payload: 0, sectors: 0, live: 0, death: 0 });
    }

    /// A segment has all its entries; its payload begins at this byte of its object.
    pub(super) fn end(&mut self, seq: u64, payload: u32) {
        if let Some(segment) = self.segments.get_mut(&seq) {
            self.stored -= segment.taken(self.sector);
            segment.payload = payload;
            self.stored += segment.taken(self.sector);
            segment.death = if segment.live == 0 { seq } else { 0 };
        }
    }

    /// Takes a segment that was deleted, or never came to be, off.
    pub(super) fn forget(&mut self, seq: u64) {
        let segment = self.segments.remove(&seq);
        self.stored -= segment.map_or(0, |segment| segment.taken(self.sector));
    }

    /// Does what an entry of segment `seq`, the last that has begun, says.
    pub(super) fn apply(&mut self, seq: u64, entry: &Entry) {
        let at = self.segments.get(&seq).map_or(0, |segment| segment.sectors);
        let to = Location { seq, at };
        match entry.change {
            Change::Data => self.replace(seq, entry.lba, entry.sectors, Some(to)),
            Change::Trim => self.replace(seq, entry.lba, entry.sectors, None),
            Change::Move { seq: from, at: first } => {
                for piece in self.find(entry.lba, entry.sectors) {
                    let skipped = (piece.lba - entry.lba) as u32;
                    let wanted = Location { seq: from, at: first.saturating_add(skipped) };
                    if piece.to == Some(wanted) {
                        let to = Location { seq, at: at.saturating_add(skipped) };
                        self.replace(seq, piece.lba, piece.sectors, Some(to));
                    }
                }
            }
        }
        if let Some(segment) = self.segments.get_mut(&seq) {
            segment.sectors = segment.sectors.saturating_add(entry.payload());
            self.stored += u64::from(entry.payload());
        }
    }

    /// What is where in a range, in order, without gaps.
    pub(super) fn find(&self, lba: u64, sectors: u32) -> Vec<Piece> {
        let end = lba + u64::from(sectors);
        let mut out = Vec::new();
        let mut next = lba;
        let before = self.map.range(..=lba).next_back();
        let first = before.map_or(lba, |(start, _)| *start);
        for (start, (len, to)) in self.map.range(first..end) {
            let stop = (start + u64::from(*len)).min(end);
            if stop <= lba {
                continue;
            }
            if *start > next {
                out.push(Piece { lba: next, sectors: (start - next) as u32, to: None });
            }
            let from = (*start).max(lba);
            let skipped = (from - start) as u32;
            let to = Location { seq: to.seq, at: to.at + skipped };
            out.push(Piece { lba: from, sectors: (stop - from) as u32, to: Some(to) });
            next = stop;
        }
        if next < end {
            out.push(Piece { lba: next, sectors: (end - next) as u32, to: None });
        }
        out
    }

    /// Makes a range stand somewhere else, or nowhere, as segment `seq` says.
    fn replace(&mut self, seq: u64, lba: u64, sectors: u32, to: Option<Location>) {
        let end = lba + u64::from(sectors);
        self.cut(lba);
        self.cut(end);
        let old: Vec<(u64, u32, Location)> =
            self.map.range(lba..end).map(|(lba, (len, to))| (*lba, *len, *to)).collect();
        for (start, len, was) in old {
            self.map.remove(&start);
            if let Some(segment) = self.segments.get_mut(&was.seq) {
                segment.live = segment.live.saturating_sub(len);
                if segment.live == 0 {
                    segment.death = seq;
                }
            }
            self.changed.insert(start / self.page);
        }
        let Some(to) = to else { return };
        let mut from = lba;
        while from < end {
            let page = from / self.page;
            let stop = self.page_range(page).1.min(end);
            self.changed.insert(page);
            let at = to.at + (from - lba) as u32;
            self.insert(from, (stop - from) as u32, Location { seq: to.seq, at });
            from = stop;
        }
        if let Some(segment) = self.segments.get_mut(&to.seq) {
            segment.live += sectors;
            segment.death = 0;
        }
    }

    /// Cuts the extent that a sector is in the middle of.
    fn cut(&mut self, lba: u64) {
        let Some((start, (len, to))) = self.map.range_mut(..lba).next_back() else { return };
        let skipped = lba - *start;
        if skipped < u64::from(*len) {
            let rest =
                (*len - skipped as u32, Location { seq: to.seq, at: to.at + skipped as u32 });
            *len = skipped as u32;
            self.map.insert(lba, rest);
        }
    }

    /// Inserts an extent where none is, as a part of the one before it where that goes on.
    fn insert(&mut self, lba: u64, sectors: u32, to: Location) {
        if !lba.is_multiple_of(self.page)
            && let Some((start, (len, before))) = self.map.range_mut(..lba).next_back()
            && *start + u64::from(*len) == lba
            && before.seq == to.seq
            && before.at.checked_add(*len) == Some(to.at)
        {
            *len += sectors;
            return;
        }
        self.map.insert(lba, (sectors, to));
    }

    pub(super) fn segment(&self, seq: u64) -> Option<&Segment> {
        self.segments.get(&seq)
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = (u64, &Segment)> {
        self.segments.iter().map(|(seq, segment)| (*seq, segment))
    }

    /// Extents in the map, and the memory that they take, in bytes.
    pub(super) fn extents(&self) -> (u64, u64) {
        (self.map.len() as u64, self.map.len() as u64 * EXTENT_MEMORY)
    }

    /// Sectors that have something in them.
    pub(super) fn live_sectors(&self) -> u64 {
        self.segments.values().map(|segment| u64::from(segment.live)).sum()
    }

    /// Sectors that the objects of all segments take, of dead ones as well.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// The segments with life in them, and the sectors of their payloads. The others are deleted,
    /// or wait for it.
    pub(super) fn kept(&self) -> (u64, u64) {
        let living = self.segments.values().filter(|segment| segment.live > 0);
        living.fold((0, 0), |(n, sectors), s| (n + 1, sectors + u64::from(s.sectors)))
    }

    /// The segments for a checkpoint's root.
    pub(super) fn segment_refs(&self) -> Vec<SegmentRef> {
        let of = |(seq, s): (&u64, &Segment)| SegmentRef {
            seq: *seq,
            payload: s.payload,
            sectors: s.sectors,
            death: s.death,
        };
        self.segments.iter().map(of).collect()
    }

    /// A writer begins: it will write all pages itself. What those before it wrote may be deleted
    /// by writers that do not know yet that they are writers no more.
    pub(super) fn own(&mut self) {
        self.written.clear();
        self.changed = self.map.keys().map(|lba| lba / self.page).collect();
    }

    /// Takes the pages that changed, with their extents.
    pub(super) fn take_changed(&mut self) -> Vec<(u64, Vec<Extent>)> {
        let changed = core::mem::take(&mut self.changed);
        changed.into_iter().map(|page| (page, self.page_extents(page))).collect()
    }

    fn page_extents(&self, page: u64) -> Vec<Extent> {
        let (base, end) = self.page_range(page);
        let of = |(lba, (sectors, to)): (&u64, &(u32, Location))| Extent {
            lba: *lba,
            sectors: *sectors,
            to: *to,
        };
        self.map.range(base..end).map(of).collect()
    }

    /// Pages were to be written and were not: they count as changed again.
    pub(super) fn changed_again(&mut self, pages: impl IntoIterator<Item = u64>) {
        self.changed.extend(pages);
    }

    /// Where pages are from now on; `None`: they have nothing in them.
    pub(super) fn wrote(&mut self, pages: &[(u64, Option<PageRef>)]) {
        for (page, place) in pages {
            match place {
                Some(place) => drop(self.written.insert(*page, *place)),
                None => drop(self.written.remove(page)),
            }
        }
    }

    /// Where all pages are that were written.
    pub(super) fn written(&self) -> impl Iterator<Item = &PageRef> {
        self.written.values()
    }
}

/// What is where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// First sector on the disk.
    pub(super) lba: u64,
    /// Sectors.
    pub(super) sectors: u32,
    /// Where they are; `None`: they are zero.
    pub(super) to: Option<Location>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    /// A map of single sectors, and random changes: both say the same, and so do the counters.
    #[test]
    fn it_agrees_with_a_map_of_single_sectors() {
        testkit::shrinking_seed(5, 400, agrees);
    }

    fn agrees(steps: &[u64]) {
        let mut index = Index::new(512);
        index.page = 32;
        let mut plain: BTreeMap<u64, Location> = BTreeMap::new();
        for (seq, step) in (1..).zip(steps) {
            let mut rng = Rng::new(*step);
            index.begin(seq);
            let mut at = 0;
            for _ in 0..rng.below(4) {
                let (lba, sectors) = (rng.below(200), 1 + rng.below(50) as u32);
                let (from, first) = (rng.below(seq), rng.below(9) as u32);
                let change = match rng.below(4) {
                    0 => Change::Trim,
                    1 => Change::Move { seq: from, at: first },
                    _ => Change::Data,
                };
                let entry = Entry { lba, sectors, change, check: 0 };
                for n in 0..sectors {
                    let (place, to) = (lba + u64::from(n), Location { seq, at: at + n });
                    let source = Location { seq: from, at: first + n };
                    match change {
                        Change::Data => drop(plain.insert(place, to)),
                        Change::Trim => drop(plain.remove(&place)),
                        Change::Move { .. } if plain.get(&place) == Some(&source) => {
                            plain.insert(place, to);
                        }
                        Change::Move { .. } => {}
                    }
                }
                index.apply(seq, &entry);
                at += entry.payload();
            }
            index.end(seq, 4096);
            let mut lba = 0;
            for piece in index.find(0, 300) {
                assert_eq!(piece.lba, lba);
                for n in 0..piece.sectors {
                    let to = piece.to.map(|to| Location { seq: to.seq, at: to.at + n });
                    assert_eq!(plain.get(&lba).copied(), to);
                    lba += 1;
                }
            }
            for (own, segment) in index.segments() {
                let live = plain.values().filter(|to| to.seq == own).count();
                assert_eq!((live, live == 0), (segment.live as usize, segment.death != 0), "{own}");
            }
            let stored: u64 = index.segments().map(|(_, s)| u64::from(s.sectors) + 8).sum();
            assert_eq!(stored, index.stored());
        }
        // What is written page by page is the whole map.
        let pages = index.take_changed();
        let root = Root { pages: vec![], segments: index.segment_refs() };
        let mut again = Index::of_root(512, &root);
        again.page = 32;
        assert!(pages.iter().flat_map(|(_, extents)| extents).all(|e| again.restore(e)));
        assert_eq!(again.find(0, 300), index.find(0, 300));
        assert!(again.segments().eq(index.segments()));
    }
}
