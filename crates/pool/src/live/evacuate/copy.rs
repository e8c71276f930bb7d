//! Copying a piece of a vdev that leaves.

use crate::live::shared::Shared;
use crate::live::tunables::Tunable;
use core::ops::Range;
use ondisk::Dva;
use std::collections::VecDeque;
use vdev::IndirectSegment;
use zio::{AllocRequest, Allocate, SpaceClass};

/// Bytes that are read at the same time.
const BATCH: u64 = 16 << 20;
/// Longest range that one entry of the mapping moves: the largest block, as OpenZFS's
/// `zfs_remove_max_segment`.
const SEGMENT_MAX: u64 = 16 << 20;
/// Free space between what is allocated is passed over up to this length, as OpenZFS's
/// `vdev_removal_max_span`: an entry more costs memory as long as the pool lives.
const SPAN: u64 = 32 << 10;

/// What became of a txg's piece.
pub(in crate::live) enum Piece {
    /// No removal runs.
    None,
    /// This was copied, and why the removal cannot go on, when it cannot.
    Copied(Vec<CopiedSegment>, Option<String>),
    /// There was nothing left to be copied.
    All,
}

/// A range that was copied.
pub(in crate::live) struct CopiedSegment {
    pub(super) segment: IndirectSegment,
    /// Bytes of it that were free.
    pub(super) gaps: u64,
}

/// What becomes one entry of the mapping: parts that are allocated, with little between them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    parts: Vec<Range<u64>>,
}

impl Segment {
    fn range(&self) -> Range<u64> {
        let start = self.parts.first().map_or(0, |p| p.start);
        start..self.parts.last().map_or(start, |p| p.end)
    }

    fn size(&self) -> u64 {
        let range = self.range();
        range.end - range.start
    }

    fn allocated(&self) -> u64 {
        self.parts.iter().map(|p| p.end - p.start).sum()
    }

    /// It was copied to `dst` in `txg`.
    fn moved(&self, dst: Dva, txg: u64) -> CopiedSegment {
        let segment =
            IndirectSegment { src_offset: self.range().start, size: self.size(), dst, txg };
        CopiedSegment { segment, gaps: self.size() - self.allocated() }
    }

    /// The parts between its own, from its beginning on.
    fn gaps(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let start = self.range().start;
        let pairs = self.parts.iter().zip(self.parts.iter().skip(1));
        pairs.map(move |(a, b)| a.end - start..b.start - start)
    }
}

/// Joins ranges, which are in order and each in one metaslab, to segments of at most `max` bytes.
/// None crosses the end of a metaslab (`1 << ms_shift` bytes long): OpenZFS copies one metaslab
/// after the other, and zdb aborts on an entry of two.
fn segments(ranges: &[Range<u64>], max: u64, ms_shift: u32) -> VecDeque<Segment> {
    let mut out: VecDeque<Segment> = VecDeque::new();
    for range in ranges {
        let mut rest = range.clone();
        if let Some(last) = out.back_mut()
            && rest.start - last.range().end <= SPAN
            && rest.end - last.range().start <= max
            && rest.start >> ms_shift == last.range().start >> ms_shift
        {
            last.parts.push(rest);
            continue;
        }
        while rest.start < rest.end {
            let end = rest.end.min(rest.start + max);
            let part = rest.start..end;
            out.push_back(Segment { parts: vec![part] });
            rest.start = end;
        }
    }
    out
}

/// As much of ranges as has `bytes`.
fn first_of(mut ranges: Vec<Range<u64>>, bytes: u64) -> Vec<Range<u64>> {
    let mut left = bytes;
    for range in &mut ranges {
        range.end = range.end.min(range.start + left);
        left -= range.end - range.start;
    }
    ranges.retain(|range| range.start < range.end);
    ranges
}

/// A vdev that leaves, as far as copying asks.
struct Source {
    id: u32,
    class: SpaceClass,
    sector: u64,
    ms_shift: u32,
    txg: u64,
}

impl Shared {
    /// Copies the next piece of the vdev that leaves, as a part of `txg`. What it writes is on its
    /// way when this returns.
    pub(in crate::live) fn copy_piece(&self, txg: u64) -> Piece {
        let Some(running) = self.removals.running().filter(|_| self.is_removal_running()) else {
            return Piece::None;
        };
        // The first txg takes in what logs of space maps say.
        if self.alloc.has_logs() {
            return Piece::None;
        }
        let piece = self.tunables.get(Tunable::RemovalPiece);
        let source = {
            let config = self.config.lock();
            let mut tops = config.root.children.iter();
            let top = tops.find(|top| top.id == u64::from(running.id));
            let Some(top) = top else { return Piece::None };
            let sector = 1 << top.ashift.unwrap_or(9).min(16);
            let ms_shift = self.alloc.ms_shift_of(running.id);
            Source { id: running.id, class: crate::class_of(top), sector, ms_shift, txg }
        };
        let ranges = match self.alloc.allocated_from(source.id, running.header.max_offset, piece) {
            Ok(ranges) => first_of(ranges, piece),
            Err(what) => return Piece::Copied(Vec::new(), Some(format!("cannot read {what}"))),
        };
        if ranges.is_empty() {
            return Piece::All;
        }
        let (moved, failure) = self.copy(&source, &ranges);
        Piece::Copied(moved, failure)
    }

    /// Copies ranges, in order, as far as that goes, and why it goes no further.
    fn copy(&self, source: &Source, ranges: &[Range<u64>]) -> (Vec<CopiedSegment>, Option<String>) {
        let mut max = SEGMENT_MAX;
        let mut left = segments(ranges, max, source.ms_shift);
        let mut out = Vec::new();
        while !left.is_empty() {
            let mut batch: Vec<(Segment, Dva)> = Vec::new();
            let mut bytes = 0;
            let mut failure = None;
            while let Some(segment) = left.front().filter(|_| bytes < BATCH && failure.is_none()) {
                match self.space_for(source, segment.size()) {
                    Some(dst) => {
                        bytes += segment.size();
                        batch.extend(left.pop_front().map(|segment| (segment, dst)));
                    }
                    // In halves, as long as these are whole sectors.
                    None if segment.size() > source.sector => {
                        max = (segment.size() / 2).next_multiple_of(source.sector);
                        let rest: Vec<_> = left.drain(..).flat_map(|s| s.parts).collect();
                        left = segments(&rest, max, source.ms_shift);
                    }
                    None => failure = Some("out of space".to_owned()),
                }
            }
            match self.copy_batch(source, &batch) {
                Ok(()) => out.extend(batch.iter().map(|(s, dst)| s.moved(*dst, source.txg))),
                Err(why) => {
                    // Nothing was written there.
                    for (segment, dst) in &batch {
                        self.alloc.discard_part(*dst, 0..segment.size(), source.txg);
                    }
                    failure = Some(why);
                }
            }
            if failure.is_some() {
                return (out, failure);
            }
        }
        (out, None)
    }

    fn space_for(&self, source: &Source, size: u64) -> Option<Dva> {
        let want = AllocRequest {
            psize: size,
            copies: 1,
            class: source.class,
            txg: source.txg,
            gang: false,
            hint: u64::from(source.id),
        };
        let [dst, ..] = self.alloc.allocate(&want).ok()?;
        if dst.asize() == size {
            return Some(dst);
        }
        // Padding would be taken for a part of what was copied.
        self.alloc.discard_part(dst, 0..dst.asize(), source.txg);
        None
    }

    /// Reads what is allocated of segments and sends it off to its new places.
    fn copy_batch(&self, source: &Source, batch: &[(Segment, Dva)]) -> Result<(), String> {
        let parts: Vec<_> = batch.iter().flat_map(|(s, _)| s.parts.iter().cloned()).collect();
        let bytes = self.reader.vdevs().read_raw(source.id, &parts).map_err(|e| e.to_string())?;
        let mut bytes = bytes.into_iter();
        for (segment, dst) in batch {
            let start = segment.range().start;
            for (part, bytes) in segment.parts.iter().zip(&mut bytes) {
                let at = dst.offset() + (part.start - start);
                let dva = Dva::new(dst.vdev(), at, part.end - part.start, false);
                self.writer.write_raw(dva, bytes, source.txg);
            }
            for gap in segment.gaps() {
                self.alloc.discard_part(*dst, gap, source.txg);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;

    #[test]
    fn what_lies_close_together_is_one_segment_and_none_is_too_long() {
        let of = |ranges: &[Range<u64>], max| -> Vec<(u64, u64, u64)> {
            let pair = |s: &Segment| (s.range().start / K, s.range().end / K, s.allocated() / K);
            segments(ranges, max, 20).iter().map(pair).collect()
        };
        let near = [0..4 * K, 36 * K..40 * K, 73 * K..80 * K];
        assert_eq!(of(&near, SEGMENT_MAX), [(0, 40, 8), (73, 80, 7)]);
        assert_eq!(of(&near, 16 * K).len(), 3);
        let long = 0..10 * K;
        assert_eq!(of(std::slice::from_ref(&long), 4 * K), [(0, 4, 4), (4, 8, 4), (8, 10, 2)]);
        let gaps: Vec<_> = segments(&near, SEGMENT_MAX, 20)[0].gaps().collect();
        assert_eq!((gaps.len(), gaps[0].start, gaps[0].end), (1, 4 * K, 36 * K));
    }

    #[test]
    fn a_segment_ends_with_its_metaslab() {
        let ranges = [60 * K..64 * K, 64 * K..68 * K, 70 * K..72 * K];
        let of = |ms_shift| segments(&ranges, SEGMENT_MAX, ms_shift).len();
        assert_eq!((of(20), of(16)), (1, 2));
    }

    #[test]
    fn a_piece_is_as_long_as_it_may_be() {
        let all = vec![0..4, 8..12, 16..20];
        assert_eq!(first_of(all.clone(), 6), [0..4, 8..10]);
        assert_eq!(first_of(all.clone(), 12), all);
    }
}
