//! Removed top-level vdevs: where their blocks went. Specified in `docs/format/vdev-indirect.md`.
//!
//! `zpool remove` copies the allocated segments of a vdev to others and leaves block pointers
//! alone: the vdev's number stays, now *indirect*, with a table from source segments to new
//! addresses. A block may be split over several segments, and a segment may lead to a vdev that
//! was removed later. The copying did not verify checksums, and each half of a split block can
//! have its good copy on another side of a mirror: the reader tries the combinations.

use crate::error::BuildError;
use ondisk::Dva;

/// A run of bytes of a removed vdev and its new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndirectSegment {
    /// Offset on the removed vdev in bytes.
    pub src_offset: u64,
    /// Length in bytes.
    pub size: u64,
    /// New address; its `asize` is the length as well.
    pub dst: Dva,
    /// The txg that copied it: a device that missed that one may lack it. 0: not known.
    pub txg: u64,
}

/// A removed vdev's table, ascending by source, without overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mapping(Vec<IndirectSegment>);

/// A part of a block, at a new address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) vdev: u32,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// The txg that copied it there; 0 when it was not copied.
    pub(crate) txg: u64,
}

impl Mapping {
    /// Sorts and checks the segments of vdev `vdev`.
    pub(crate) fn new(vdev: u32, mut segments: Vec<IndirectSegment>) -> Result<Self, BuildError> {
        segments.sort_by_key(|s| s.src_offset);
        let mut end = 0;
        for s in &segments {
            let bad = BuildError::BadMapping { vdev, offset: s.src_offset };
            if s.size == 0 || s.src_offset < end {
                return Err(bad);
            }
            end = s.src_offset.checked_add(s.size).ok_or(bad)?;
        }
        Ok(Self(segments))
    }

    /// The new places of `size` bytes at `offset`, in order. The error is the first offset that
    /// has none.
    pub(crate) fn parts(&self, offset: u64, size: u64) -> Result<Vec<Part>, u64> {
        let mut out = Vec::new();
        let end = offset.checked_add(size).ok_or(offset)?;
        let mut at = offset;
        let first = self.0.partition_point(|s| s.src_offset + s.size <= offset);
        for s in self.0.iter().skip(first) {
            if at >= end || s.src_offset > at {
                break;
            }
            let skip = at - s.src_offset;
            let len = (s.size - skip).min(end - at);
            let offset = s.dst.offset().checked_add(skip).ok_or(at)?;
            out.push(Part { vdev: s.dst.vdev(), offset, size: len, txg: s.txg });
            at += len;
        }
        if at < end { Err(at) } else { Ok(out) }
    }

    /// The segments.
    pub(crate) fn segments(&self) -> &[IndirectSegment] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(src: u64, size: u64, vdev: u32, dst: u64) -> IndirectSegment {
        let dst = Dva::new(vdev, dst, size, false);
        IndirectSegment { src_offset: src, size, dst, txg: 7 }
    }

    #[test]
    fn blocks_are_split_at_segment_ends() {
        let table = vec![segment(8192, 4096, 2, 0x10000), segment(4096, 4096, 0, 0x20000)];
        let m = Mapping::new(1, table).unwrap();
        let part = |vdev, offset, size| Part { vdev, offset, size, txg: 7 };
        assert_eq!(m.parts(4096, 512), Ok(vec![part(0, 0x20000, 512)]));
        assert_eq!(
            m.parts(7168, 2048),
            Ok(vec![part(0, 0x20000 + 3072, 1024), part(2, 0x10000, 1024)])
        );
        assert_eq!(m.parts(0, 512), Err(0));
        assert_eq!(m.parts(12288 - 512, 1024), Err(12288));
        assert_eq!(m.parts(u64::MAX, 512), Err(u64::MAX));
    }

    #[test]
    fn overlaps_and_emptiness_are_refused() {
        let bad = |offset| Err(BuildError::BadMapping { vdev: 1, offset });
        let new = |s| Mapping::new(1, s).map(|_| ());
        assert_eq!(new(vec![segment(0, 1024, 0, 0), segment(512, 512, 0, 0)]), bad(512));
        assert_eq!(new(vec![segment(512, 0, 0, 0)]), bad(512));
        assert_eq!(new(vec![]), Ok(()));
    }
}
