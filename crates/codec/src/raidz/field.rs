//! The field GF(2^8) of RAID-Z: bytes as polynomials over GF(2) modulo x^8+x^4+x^3+x^2+1 (0x11d).
//!
//! Addition is exclusive or. The element 2 (the polynomial x) generates all 255 others but zero, so
//! products and inverses go through its powers.

/// Low eight bits of the modulus.
pub(super) const REDUCE: u8 = 0x1d;

/// Powers of 2, twice around so that a sum of two logarithms needs no reduction.
const POWER: [u8; 510] = {
    let mut out = [0; 510];
    let mut value: u8 = 1;
    let mut i = 0;
    while i < out.len() {
        out[i] = value;
        value = (value << 1) ^ if value & 0x80 != 0 { REDUCE } else { 0 };
        i += 1;
    }
    out
};

/// Logarithms to base 2; that of zero is meaningless.
const LOG: [u8; 256] = {
    let mut out = [0; 256];
    let mut i = 0;
    while i < 255 {
        out[POWER[i] as usize] = i as u8;
        i += 1;
    }
    out
};

/// 2 to the power of `n`.
pub(super) fn power_of_two(n: usize) -> u8 {
    POWER[n % 255]
}

/// The product.
pub(super) const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWER[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// The inverse; `None` for zero.
pub(super) fn invert(a: u8) -> Option<u8> {
    (a != 0).then(|| POWER[255 - usize::from(LOG[usize::from(a)])])
}

/// A square matrix of at most 3 by 3; what is outside `size` is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Matrix {
    /// Rows and columns.
    pub(super) size: usize,
    /// Elements by row, then column.
    pub(super) cell: [[u8; 3]; 3],
}

impl Matrix {
    /// The inverse by Gauss and Jordan; `None` when there is none.
    pub(super) fn inverse(mut self) -> Option<Self> {
        let n = self.size.min(3);
        let mut out = Self { size: n, ..Self::default() };
        for i in 0..n {
            out.cell[i][i] = 1;
        }
        for i in 0..n {
            let pivot = (i..n).find(|&r| self.cell[r][i] != 0)?;
            self.cell.swap(i, pivot);
            out.cell.swap(i, pivot);
            let scale = invert(self.cell[i][i])?;
            for c in 0..n {
                self.cell[i][c] = multiply(self.cell[i][c], scale);
                out.cell[i][c] = multiply(out.cell[i][c], scale);
            }
            for r in (0..n).filter(|&r| r != i) {
                let factor = self.cell[r][i];
                for c in 0..n {
                    self.cell[r][c] ^= multiply(factor, self.cell[i][c]);
                    out.cell[r][c] ^= multiply(factor, out.cell[i][c]);
                }
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication as defined: shift, add, reduce.
    pub(crate) fn slow_multiply(a: u8, b: u8) -> u8 {
        let mut product = 0u16;
        for bit in 0..8 {
            if b >> bit & 1 != 0 {
                product ^= u16::from(a) << bit;
            }
        }
        for bit in (8..16).rev() {
            if product >> bit & 1 != 0 {
                product ^= 0x11d << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn products_and_inverses() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), slow_multiply(a, b), "{a} * {b}");
            }
            assert_eq!(invert(a).map(|i| multiply(a, i)), (a != 0).then_some(1));
        }
    }

    /// Whatever two or three columns of the widest vdev are lost, any parities give them back.
    #[test]
    fn every_choice_is_solvable() {
        let row = |k: usize, e: usize| power_of_two(k * e);
        for e0 in 0..255 {
            for e1 in (0..255).filter(|e1| *e1 != e0) {
                for (p, q) in [(0, 1), (0, 2), (1, 2)] {
                    let cell = [[row(p, e0), row(p, e1), 0], [row(q, e0), row(q, e1), 0], [0; 3]];
                    assert!(Matrix { size: 2, cell }.inverse().is_some(), "{e0} {e1} {p} {q}");
                }
            }
        }
        for e0 in 0..255 {
            for e1 in (e0 + 1)..255 {
                for e2 in ((e1 + 1)..255).step_by(7) {
                    let cell = [0, 1, 2].map(|k| [row(k, e0), row(k, e1), row(k, e2)]);
                    let matrix = Matrix { size: 3, cell };
                    assert!(matrix.inverse().is_some(), "{e0} {e1} {e2}");
                }
            }
        }
    }
}
