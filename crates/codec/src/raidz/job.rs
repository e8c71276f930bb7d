//! One stretch of a row, and what is to be computed of it.

use super::field::Matrix;

/// The computation over one stretch. All slices in it, and the results, are equally long.
pub(super) struct Job<'a> {
    /// Which parities (0, 1, 2, ascending); one result each.
    pub(super) rows: &'a [usize],
    /// Data columns in order; `None` is all zeros: a column that has ended, or a lost one.
    pub(super) columns: &'a [Option<&'a [u8]>],
    /// With it, the results are lost columns; without, the parities themselves.
    pub(super) solve: Option<Solve<'a>>,
}

/// How to go from syndromes to lost columns.
pub(super) struct Solve<'a> {
    /// The parities as stored, one per row.
    pub(super) stored: &'a [&'a [u8]],
    /// Result j is the sum over k of `matrix[j][k]` times syndrome k.
    pub(super) matrix: Matrix,
}

impl Job<'_> {
    /// Every slice is `len` bytes long and there are as many as there should be. The kernels rely
    /// on it.
    pub(super) fn fits(&self, len: usize, results: usize) -> bool {
        let m = self.rows.len();
        let solvable = self.solve.as_ref().is_none_or(|s| {
            s.stored.len() == m && s.matrix.size == m && s.stored.iter().all(|p| p.len() == len)
        });
        results == m
            && self.rows.iter().all(|k| *k < 3)
            && self.rows.is_sorted_by(|a, b| a < b)
            && self.columns.iter().flatten().all(|c| c.len() == len)
            && solvable
    }
}
