//! Which bytes of a leaf have changed since it was read.

use std::ops::Range;

/// An entry takes some neighbouring chunks and a bucket. A leaf of which more places have changed
/// is cheaper to write as a whole.
const RANGES_MAX: usize = 32;

/// See the head of the file.
#[derive(Clone, Debug)]
pub(super) struct Touched(Option<Vec<Range<usize>>>);

impl Default for Touched {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl Touched {
    /// The whole leaf.
    pub(super) const ALL: Self = Self(None);

    /// These bytes have changed.
    pub(super) fn add(&mut self, range: Range<usize>) {
        let Some(ranges) = &mut self.0 else { return };
        if ranges.iter().any(|old| old.start <= range.start && range.end <= old.end) {
            return;
        }
        // Chunks are mostly taken in their order.
        let has_room = ranges.len() < RANGES_MAX;
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if has_room => ranges.push(range),
            _ => *self = Self::ALL,
        }
    }

    /// The changed ranges; `None`: much of the leaf. Ranges may overlap.
    pub(super) fn ranges(&self) -> Option<&[Range<usize>]> {
        self.0.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_many_are_all() {
        let mut touched = Touched::default();
        for range in [48..72, 72..96, 50..52, 0..2] {
            touched.add(range);
        }
        assert_eq!(touched.ranges(), Some(&[48..96, 0..2][..]));
        for at in (100..).step_by(2).take(RANGES_MAX) {
            touched.add(at..at + 1);
        }
        assert_eq!(touched.ranges(), None);
    }
}
