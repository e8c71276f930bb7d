//! Fletcher-2: two independent pairs of sums over the even and the odd 64-bit words.
//!
//! For each pair of words (x, y): a0 += x, a1 += y, b0 += a0, b1 += a1, all modulo 2^64. The
//! digest is a0, a1, b0, b1. It is the oldest checksum of ZFS, and still that of the classic
//! intent log. The two chains of additions are independent and one cycle long each, so the plain
//! loop runs at 16 bytes a cycle and needs no SIMD twin.

use super::{ByteOrder, Digest};

/// The sums so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fletcher2([u64; 4]);

impl Fletcher2 {
    /// No data yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends data written in `order`. Every piece but the last must be a multiple of 16 bytes;
    /// the bytes behind the last multiple are passed over.
    pub fn update(&mut self, order: ByteOrder, data: &[u8]) {
        match order {
            ByteOrder::Little => self.add(data, u64::from_le_bytes),
            ByteOrder::Big => self.add(data, u64::from_be_bytes),
        }
    }

    #[inline(always)]
    fn add(&mut self, data: &[u8], word: impl Fn([u8; 8]) -> u64) {
        let [mut a0, mut a1, mut b0, mut b1] = self.0;
        for [x, y] in data.as_chunks::<8>().0.as_chunks::<2>().0 {
            a0 = a0.wrapping_add(word(*x));
            a1 = a1.wrapping_add(word(*y));
            b0 = b0.wrapping_add(a0);
            b1 = b1.wrapping_add(a1);
        }
        self.0 = [a0, a1, b0, b1];
    }

    /// The sums as checksum words.
    #[must_use]
    pub fn digest(self) -> Digest {
        Digest(self.0)
    }
}
