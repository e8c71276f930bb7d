//! Copies of a block are kept apart.

/// Space to keep away from: that of another copy of the same block.
#[derive(Clone, Copy)]
pub(super) struct Separation<'a> {
    /// Where the other copies are.
    pub(super) at: &'a [u64],
    /// Bytes to keep between.
    pub(super) distance: u64,
}

impl Separation<'_> {
    /// Anywhere will do.
    pub(super) const NONE: Self = Self { at: &[], distance: 0 };

    /// The whole range is far enough.
    pub(super) fn permits(&self, start: u64, end: u64) -> bool {
        let far = |at: &u64| {
            end <= at.saturating_sub(self.distance) || start >= at.saturating_add(self.distance)
        };
        self.distance == 0 || self.at.iter().all(far)
    }

    /// The parts of a range that are far enough.
    pub(super) fn parts(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut out = vec![(start, end)];
        for at in self.at {
            let (from, to) = (at.saturating_sub(self.distance), at.saturating_add(self.distance));
            let cut = |(s, e): (u64, u64)| [(s, e.min(from)), (s.max(to), e)];
            out = out.into_iter().flat_map(cut).filter(|(s, e)| s < e).collect();
        }
        out
    }

    /// Whether a range has `need` bytes that are far enough.
    pub(super) fn leaves(&self, start: u64, end: u64, need: u64) -> bool {
        self.permits(start, end) || self.parts(start, end).iter().any(|(s, e)| e - s >= need)
    }
}
