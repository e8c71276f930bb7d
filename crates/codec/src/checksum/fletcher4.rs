//! Fletcher-4: four nested sums over 32-bit words.
//!
//! For each word w: a += w, b += a, c += b, d += c, all modulo 2^64. It is the default checksum
//! and runs over every byte a pool moves, so it has vector kernels.
//!
//! **Lanes.** The recurrence is serial, but sums of an arithmetic progression of words can be
//! computed apart: lane i of L takes the words i, L+i, 2L+i, … and keeps its own a, b, c, d.
//! A word at place k of its lane is followed by L times as many words in the block as in the lane
//! (less i), so the block's sums are polynomials in L and i over the lane's sums; [`join_lanes`]
//! has the coefficients.
//!
//! **Pieces.** Sums of a piece that started from zero are appended to what was before by the same
//! reasoning ([`Fletcher4::append`]), so a block may be summed piece by piece, or in parallel.

use super::{ByteOrder, Digest};

/// Below this many bytes the plain loop is quicker than setting up lanes.
const VECTOR_MIN: usize = 128;

/// The sums so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fletcher4([u64; 4]);

impl Fletcher4 {
    /// No data yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends data written in `order`. Every piece but the last must be a multiple of 4 bytes;
    /// the bytes behind the last multiple are passed over.
    pub fn update(&mut self, order: ByteOrder, data: &[u8]) {
        let done = match Kernel::best() {
            kernel if data.len() >= VECTOR_MIN => self.vector(kernel, order, data),
            _ => 0,
        };
        self.plain(order, data.get(done..).unwrap_or_default());
    }

    /// The sums as checksum words.
    #[must_use]
    pub fn digest(self) -> Digest {
        Digest(self.0)
    }

    /// From checksum words, to go on where another left off.
    #[must_use]
    pub fn from_digest(digest: Digest) -> Self {
        Self(digest.0)
    }

    /// Appends the sums of the `words` 32-bit words that follow, which were summed from zero.
    pub fn append(&mut self, other: Self, words: u64) {
        let n = u128::from(words);
        // Binomials of n, n+1, n+2 over 1, 2, 3: how often an earlier sum is added again.
        let once = words;
        let twice = (n * (n + 1) / 2) as u64;
        let thrice = triple(words);
        let [a, b, c, d] = self.0;
        let [oa, ob, oc, od] = other.0;
        let mul = u64::wrapping_mul;
        let sum = |terms: &[u64]| terms.iter().fold(0u64, |s, t| s.wrapping_add(*t));
        self.0 = [
            sum(&[a, oa]),
            sum(&[b, mul(once, a), ob]),
            sum(&[c, mul(once, b), mul(twice, a), oc]),
            sum(&[d, mul(once, c), mul(twice, b), mul(thrice, a), od]),
        ];
    }

    /// One word after the other: the definition, and the twin the kernels are tested against.
    fn plain(&mut self, order: ByteOrder, data: &[u8]) {
        let [mut a, mut b, mut c, mut d] = self.0;
        for w in data.as_chunks::<4>().0 {
            a = a.wrapping_add(u64::from(order.u32(*w)));
            b = b.wrapping_add(a);
            c = c.wrapping_add(b);
            d = d.wrapping_add(c);
        }
        self.0 = [a, b, c, d];
    }

    /// Sums as much of `data` as the kernel takes at a time; returns how many bytes that was.
    fn vector(&mut self, kernel: Kernel, order: ByteOrder, data: &[u8]) -> usize {
        let (sums, done) = kernel.run(order, data);
        self.append(Self(sums), (done / 4) as u64);
        done
    }
}

/// n(n+1)(n+2)/6 modulo 2^64, exact for every n: the divisors are taken out of the factors first.
fn triple(n: u64) -> u64 {
    let mut factors = [u128::from(n), u128::from(n) + 1, u128::from(n) + 2];
    for divisor in [2, 3] {
        if let Some(f) = factors.iter_mut().find(|f| **f % divisor == 0) {
            *f /= divisor;
        }
    }
    factors.iter().fold(1u64, |p, f| p.wrapping_mul(*f as u64))
}

/// The kernels one by one, for measurements.
#[doc(hidden)]
pub mod kernels {
    use super::{ByteOrder, Kernel};

    /// The kernels this machine has, the plain one first.
    #[must_use]
    pub fn names() -> Vec<String> {
        Kernel::available().iter().map(|k| format!("{k:?}").to_lowercase()).collect()
    }

    /// The sums of a front part of `data` by the kernel of that number, and that part's length.
    #[must_use]
    pub fn run(kernel: usize, order: ByteOrder, data: &[u8]) -> ([u64; 4], usize) {
        Kernel::available().get(kernel).copied().unwrap_or(Kernel::Plain).run(order, data)
    }
}

/// The ways to sum a long piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kernel {
    /// No lanes.
    Plain,
    /// Four lanes of 64 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Eight lanes of 64 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Kernel {
    /// The kernels this machine can run, the best last.
    pub(super) fn available() -> Vec<Self> {
        let mut all = vec![Self::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            use super::fletcher4_x86 as x86;
            all.extend(x86::has_avx2().then_some(Self::Avx2));
            all.extend(x86::has_avx512().then_some(Self::Avx512));
        }
        all
    }

    fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use super::fletcher4_x86 as x86;
            if x86::has_avx512() {
                return Self::Avx512;
            }
            if x86::has_avx2() {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    /// The sums of a front part of `data`, and its length in bytes (a multiple of 4).
    pub(super) fn run(self, order: ByteOrder, data: &[u8]) -> ([u64; 4], usize) {
        match self {
            Self::Plain => {
                let mut f = Fletcher4::new();
                f.plain(order, data);
                (f.0, data.len() / 4 * 4)
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                let done = data.len() / 16 * 16;
                (join_lanes(&super::fletcher4_x86::lanes4(order, data)), done)
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                let done = data.len() / 32 * 32;
                (join_lanes(&super::fletcher4_x86::lanes8(order, data)), done)
            }
        }
    }
}

/// The sums of a piece from the sums of its `L` lanes (`lanes[0]` holds every lane's a, and so on).
///
/// With i the lane: A = Σ a, B = Σ L·b − i·a, C = Σ L²·c + (L(1−2i)−L²)/2·b + i(i−1)/2·a, and D as
/// below. The divisions are exact.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "no kernel has lanes there"))]
fn join_lanes<const L: usize>(lanes: &[[u64; L]; 4]) -> [u64; 4] {
    let l = L as i64;
    let mut out = [0u64; 4];
    for lane in 0..L {
        let i = lane as i64;
        let sums = lanes.map(|s| s[lane]);
        let terms = [
            [1, 0, 0, 0],
            [-i, l, 0, 0],
            [i * (i - 1) / 2, (l * (1 - 2 * i) - l * l) / 2, l * l, 0],
            [
                -(i * (i - 1) * (i - 2) / 6),
                (l * l * l - 3 * l * l * (1 - i) + 3 * l * i * i - 6 * l * i + 2 * l) / 6,
                l * l * (1 - i) - l * l * l,
                l * l * l,
            ],
        ];
        for (o, factors) in out.iter_mut().zip(terms) {
            for (factor, sum) in factors.into_iter().zip(sums) {
                *o = o.wrapping_add((factor as u64).wrapping_mul(sum));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(order: ByteOrder, data: &[u8]) -> Fletcher4 {
        let mut f = Fletcher4::new();
        f.plain(order, data);
        f
    }

    proptest! {
        /// Every kernel agrees with the definition, at every length and misalignment.
        #[test]
        fn kernels_agree(
            data in proptest::collection::vec(any::<u8>(), 0..3000),
            skip in 0usize..17,
            big: bool,
        ) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let data = data.get(skip..).unwrap_or_default();
            let want = plain(order, data);
            for kernel in Kernel::available() {
                let mut f = Fletcher4::new();
                let done = f.vector(kernel, order, data);
                prop_assert_eq!(done % 4, 0);
                f.plain(order, &data[done..]);
                prop_assert_eq!(f, want, "{:?}", kernel);
            }
            let mut f = Fletcher4::new();
            f.update(order, data);
            prop_assert_eq!(f, want);
        }

        /// A block summed in two pieces is the block summed at once.
        #[test]
        fn pieces_agree(
            data in proptest::collection::vec(any::<u8>(), 0..2000),
            cut in 0usize..500,
        ) {
            let data = &data[..data.len() / 4 * 4];
            let (x, y) = data.split_at((cut * 4).min(data.len()));
            let mut apart = plain(ByteOrder::Little, x);
            apart.append(plain(ByteOrder::Little, y), (y.len() / 4) as u64);
            prop_assert_eq!(apart, plain(ByteOrder::Little, data));
        }

        #[test]
        fn triple_is_the_sum_of_triangles(n in 0u64..5000) {
            let want: u64 = (1..=n).map(|k| k * (k + 1) / 2).sum();
            prop_assert_eq!(triple(n), want);
        }
    }

    /// All bits set, where the sums wrap.
    #[test]
    fn saturated_words() {
        let data = vec![0xff; 1 << 20];
        let want = plain(ByteOrder::Little, &data);
        for kernel in Kernel::available() {
            assert_eq!(kernel.run(ByteOrder::Little, &data), (want.0, data.len()), "{kernel:?}");
        }
    }
}
