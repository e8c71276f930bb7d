//! Which space of which vdev is taken: sparse bitmaps, one bit per sector.
//!
//! Two are made and compared: what blocks take (filled by all threads of the walk at once) and
//! what the space maps say. A bitmap takes a bit per sector of the parts of the vdev that are in
//! use: 32 MiB for a full TiB of 4 KiB sectors, 256 MiB for one of 512 bytes.

use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sectors per chunk of a bitmap; a chunk takes 8 KiB of memory.
const CHUNK_UNITS: u64 = 1 << 16;
const CHUNK_WORDS: usize = (CHUNK_UNITS / 64) as usize;

type Chunk = Arc<[AtomicU64]>;

/// A set of sectors.
pub(crate) struct Bitmap {
    shift: u32,
    /// Bytes of the vdev.
    size: u64,
    chunks: RwLock<BTreeMap<u64, Chunk>>,
}

/// Why a range is not within the vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeFault {
    Beyond,
    Unaligned,
}

impl RangeFault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Beyond => "ends beyond the end of the vdev",
            Self::Unaligned => "is not made of whole sectors",
        }
    }
}

impl Bitmap {
    /// An empty set over a vdev of `size` bytes in sectors of `1 << shift` bytes.
    pub(crate) fn new(shift: u32, size: u64) -> Self {
        Self { shift: shift.clamp(9, 16), size, chunks: RwLock::default() }
    }

    /// An empty set over the same vdev.
    pub(crate) fn like(other: &Self) -> Self {
        Self::new(other.shift, other.size)
    }

    /// Bytes of the vdev.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    fn chunk(&self, index: u64) -> Chunk {
        if let Some(c) = self.chunks.read().get(&index) {
            return Arc::clone(c);
        }
        let mut all = self.chunks.write();
        let new = || (0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect();
        Arc::clone(all.entry(index).or_insert_with(new))
    }

    fn units(&self, offset: u64, size: u64) -> Result<(u64, u64), RangeFault> {
        let end = offset.checked_add(size).filter(|e| *e <= self.size).ok_or(RangeFault::Beyond)?;
        let unit = 1u64 << self.shift;
        if !offset.is_multiple_of(unit) || !size.is_multiple_of(unit) {
            return Err(RangeFault::Unaligned);
        }
        Ok((offset >> self.shift, end >> self.shift))
    }

    /// Calls `change(word, mask)` for every word of a range; it returns the bits it objects to.
    fn each(
        &self,
        offset: u64,
        size: u64,
        change: impl Fn(&AtomicU64, u64) -> u64,
    ) -> Result<Option<u64>, RangeFault> {
        let (mut at, end) = self.units(offset, size)?;
        let mut first = None;
        while at < end {
            let chunk = self.chunk(at / CHUNK_UNITS);
            let stop = end.min((at / CHUNK_UNITS + 1) * CHUNK_UNITS);
            while at < stop {
                let bit = at % 64;
                let n = (64 - bit).min(stop - at);
                let mask = (u64::MAX >> (64 - n)) << bit;
                let word = chunk.get((at % CHUNK_UNITS / 64) as usize);
                let bad = word.map_or(0, |w| change(w, mask));
                if bad != 0 && first.is_none() {
                    first = Some((at - bit + u64::from(bad.trailing_zeros())) << self.shift);
                }
                at += n;
            }
        }
        Ok(first)
    }

    /// Takes a range; returns the first byte that was taken already.
    pub(crate) fn set(&self, offset: u64, size: u64) -> Result<Option<u64>, RangeFault> {
        self.each(offset, size, |w, mask| w.fetch_or(mask, Ordering::Relaxed) & mask)
    }

    /// Gives a range back; returns the first byte that was free already.
    pub(crate) fn clear(&self, offset: u64, size: u64) -> Result<Option<u64>, RangeFault> {
        self.each(offset, size, |w, mask| !w.fetch_and(!mask, Ordering::Relaxed) & mask)
    }

    /// Whether a range is taken whole.
    pub(crate) fn has(&self, offset: u64, size: u64) -> bool {
        self.each(offset, size, |w, mask| !w.load(Ordering::Relaxed) & mask) == Ok(None)
    }

    /// Bytes in the set within a range.
    pub(crate) fn count(&self, from: u64, to: u64) -> u64 {
        let (from, to) = (from >> self.shift, to >> self.shift);
        let all = self.chunks.read();
        let mut n = 0u64;
        for (index, chunk) in all.range(from / CHUNK_UNITS..=to / CHUNK_UNITS) {
            for (i, w) in chunk.iter().enumerate() {
                let at = index * CHUNK_UNITS + i as u64 * 64;
                let mut bits = w.load(Ordering::Relaxed);
                if at < from {
                    bits &= u64::MAX.checked_shl((from - at) as u32).unwrap_or(0);
                }
                if at.saturating_add(64) > to {
                    let keep = to.saturating_sub(at);
                    bits &= u64::MAX.checked_shr((64 - keep) as u32).unwrap_or(0);
                }
                n += u64::from(bits.count_ones());
            }
        }
        n << self.shift
    }

    /// Offset and length of the parts of a range that are not in the set.
    pub(crate) fn gaps(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let range = Self::new(self.shift, self.size);
        // A range that does not fit has no parts in the set to speak of.
        if range.set(from, to.saturating_sub(from)).is_err() {
            return vec![(from, to.saturating_sub(from))];
        }
        range.minus(self).into_iter().map(|(a, b)| (a, b - a)).collect()
    }

    /// Byte ranges that are in this set and not in `other` (of the same vdev), ascending.
    pub(crate) fn minus(&self, other: &Self) -> Vec<(u64, u64)> {
        let (mine, theirs) = (self.chunks.read(), other.chunks.read());
        let keys: BTreeSet<u64> = mine.keys().copied().collect();
        let mut out: Vec<(u64, u64)> = Vec::new();
        for key in keys {
            let Some(a) = mine.get(&key) else { continue };
            let b = theirs.get(&key);
            for i in 0..CHUNK_WORDS {
                let load = |c: Option<&Chunk>| {
                    c.and_then(|c| c.get(i)).map_or(0, |w| w.load(Ordering::Relaxed))
                };
                let mut bits = load(Some(a)) & !load(b);
                let base = key * CHUNK_UNITS + i as u64 * 64;
                while bits != 0 {
                    let start = bits.trailing_zeros();
                    let run = (bits >> start).trailing_ones();
                    let from = (base + u64::from(start)) << self.shift;
                    let to = (base + u64::from(start + run)) << self.shift;
                    match out.last_mut() {
                        Some(last) if last.1 == from => last.1 = to,
                        _ => out.push((from, to)),
                    }
                    bits &= !(u64::MAX >> (64 - run) << start);
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_across_words_and_chunks() {
        let b = Bitmap::new(9, 1 << 40);
        let at = CHUNK_UNITS * 512 - 512 * 70;
        assert_eq!(b.set(at, 512 * 200), Ok(None));
        assert_eq!(b.count(0, 1 << 40), 512 * 200);
        assert_eq!(b.count(at + 512, at + 512 * 100), 512 * 99);
        assert_eq!(b.gaps(at - 512, at + 512 * 2), [(at - 512, 512)]);
        assert!(b.has(at, 512 * 200) && !b.has(at + 512, 512 * 200) && !b.has(at, 513));
        assert_eq!(b.set(at + 512 * 199, 512 * 2), Ok(Some(at + 512 * 199)));
        assert_eq!(b.clear(at, 512), Ok(None));
        assert_eq!(b.clear(at, 1024), Ok(Some(at)));
        let empty = Bitmap::new(9, 1 << 40);
        assert_eq!(b.minus(&empty), [(at + 1024, at + 512 * 201)]);
        assert_eq!(empty.minus(&b), []);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let b = Bitmap::new(12, 1 << 20);
        assert_eq!(b.set(1 << 20, 4096), Err(RangeFault::Beyond));
        assert_eq!(b.set(u64::MAX - 4095, 8192), Err(RangeFault::Beyond));
        assert_eq!(b.set(512, 4096), Err(RangeFault::Unaligned));
    }

    #[test]
    fn random_ranges_agree_with_a_plain_set() {
        testkit::shrinking_seed(7, 2000, |steps| {
            let b = Bitmap::new(9, 1 << 30);
            let mut plain = BTreeSet::new();
            for step in steps {
                let mut rng = testkit::Rng::new(*step);
                let at = rng.below(1 << 14);
                let n = 1 + rng.below(300);
                let set = rng.below(2) == 0;
                let got = match set {
                    true => b.set(at * 512, n * 512),
                    false => b.clear(at * 512, n * 512),
                };
                let odd = (at..at + n).find(|u| plain.contains(u) == set).map(|u| u * 512);
                assert_eq!(got, Ok(odd));
                for u in at..at + n {
                    if set {
                        plain.insert(u)
                    } else {
                        plain.remove(&u)
                    };
                }
            }
            let ranges = b.minus(&Bitmap::new(9, 1 << 30));
            let sum: u64 = ranges.iter().map(|(a, b)| b - a).sum();
            assert_eq!(sum, plain.len() as u64 * 512);
            assert_eq!(b.count(0, 1 << 30), sum);
        });
    }
}
