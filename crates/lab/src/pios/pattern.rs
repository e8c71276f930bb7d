//! What is written: bytes that are a function of seed, region and place, so that a reader that
//! knows these three can verify any piece, and that no compression makes smaller.
//!
//! Each eight bytes are a word: the number of the word in its region, multiplied and folded with a
//! key. Cheap (a multiplication), or pios would measure itself.

/// An odd constant with well-mixed bits: 2^64 divided by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The pattern of a region in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    key: u64,
}

impl Pattern {
    pub(crate) fn new(seed: u64, region: u64) -> Self {
        let mut key = seed ^ region.wrapping_mul(MIX);
        for _ in 0..2 {
            key = (key ^ (key >> 31)).wrapping_mul(MIX | 1).rotate_left(29);
        }
        Self { key }
    }

    fn word(self, number: u64) -> u64 {
        let x = number.wrapping_add(self.key).wrapping_mul(MIX);
        (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// Fills `buf` with what belongs at byte `at` of the region.
    pub(crate) fn fill(self, at: u64, buf: &mut [u8]) {
        let (head, number) = self.edge(at);
        let head_len = head.len().min(buf.len());
        let (first, rest) = buf.split_at_mut(head_len);
        first.copy_from_slice(&head[..head_len]);
        let (mut number, mut words) = (number, rest.chunks_exact_mut(8));
        for out in &mut words {
            out.copy_from_slice(&self.word(number).to_le_bytes());
            number = number.wrapping_add(1);
        }
        let tail = words.into_remainder();
        let last = self.word(number).to_le_bytes();
        tail.copy_from_slice(&last[..tail.len()]);
    }

    /// The bytes from `at` to the next whole word, and the number of that.
    fn edge(self, at: u64) -> (Vec<u8>, u64) {
        let skip = (at % 8) as usize;
        let bytes = self.word(at / 8).to_le_bytes();
        if skip == 0 { (Vec::new(), at / 8) } else { (bytes[skip..].to_vec(), at / 8 + 1) }
    }

    /// The first byte of `buf`, which stands at `at`, that is not what belongs there; `scratch` has
    /// room for all of it.
    pub(crate) fn mismatch(self, at: u64, buf: &[u8], scratch: &mut [u8]) -> Option<u64> {
        let expected = scratch.get_mut(..buf.len())?;
        self.fill(at, expected);
        if expected == buf {
            return None;
        }
        let wrong = expected.iter().zip(buf).position(|(a, b)| a != b)?;
        Some(at + wrong as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::inside::codec::compress::{Algorithm, compress};

    #[test]
    fn any_piece_is_the_same_as_in_the_whole() {
        let p = Pattern::new(7, 3);
        let mut whole = vec![0; 4096];
        p.fill(0, &mut whole);
        for (at, len) in [(0, 1), (1, 7), (3, 100), (8, 8), (4091, 5), (17, 4079), (5, 2)] {
            let mut piece = vec![0; len];
            p.fill(at as u64, &mut piece);
            assert_eq!(piece, whole[at..at + len], "{at} {len}");
        }
        let mut scratch = vec![0; 4096];
        assert_eq!(p.mismatch(0, &whole, &mut scratch), None);
        whole[1234] ^= 1;
        assert_eq!(p.mismatch(0, &whole, &mut scratch), Some(1234));
        assert_eq!(p.mismatch(1000, &whole[1000..], &mut scratch), Some(1234));
    }

    #[test]
    fn regions_and_seeds_differ_and_nothing_compresses() {
        let bytes = |seed, region| {
            let mut out = vec![0; 1 << 20];
            Pattern::new(seed, region).fill(0, &mut out);
            out
        };
        assert!(bytes(1, 0) != bytes(2, 0) && bytes(1, 0) != bytes(1, 1));
        for algorithm in [Algorithm::Lz4, Algorithm::Zstd(3), Algorithm::Gzip(6)] {
            assert_eq!(compress(algorithm, &bytes(5, 5)), None, "{algorithm:?}");
        }
    }
}
