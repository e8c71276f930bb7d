//! One stretch of a row, and the choice of the code that computes it.

use super::field::Matrix;

/// What to compute over one stretch. All slices in it, and the results, are equally long.
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

/// The codes for a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kernel {
    /// Eight bytes at a time in an ordinary register.
    Plain,
    /// 32 bytes at a time, products by table look-up of half bytes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 64 bytes at a time, products by the affine instruction of GFNI.
    #[cfg(target_arch = "x86_64")]
    Gfni512,
}

impl Kernel {
    /// The kernels this machine can run, the best last.
    pub(super) fn available() -> Vec<Self> {
        let mut all = vec![Self::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(super::x86::has_avx2().then_some(Self::Avx2));
            all.extend(super::x86::has_gfni512().then_some(Self::Gfni512));
        }
        all
    }

    pub(super) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if super::x86::has_gfni512() {
                return Self::Gfni512;
            }
            if super::x86::has_avx2() {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    /// Computes the stretch.
    pub(super) fn run(self, job: &Job<'_>, out: &mut [&mut [u8]]) {
        let done = match self {
            Self::Plain => 0,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => super::x86::avx2(job, out),
            #[cfg(target_arch = "x86_64")]
            Self::Gfni512 => super::x86::gfni512(job, out),
        };
        super::plain::run(job, out, done);
    }
}
