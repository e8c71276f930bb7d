//! Randomness that a seed decides.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, public domain), its state filled from the
//! seed by splitmix64 as its authors recommend. It is for choices and tests; it makes no keys.

/// A source of random numbers.
pub trait Rng: Send {
    /// 64 random bits.
    fn next_u64(&mut self) -> u64;

    /// A number in `0..bound`, each equally likely; 0 when `bound` is 0.
    fn below(&mut self, bound: u64) -> u64 {
        // The high half of a 64x64 product is in range; the few low halves that would make some
        // results likelier than others are drawn again (Lemire's method).
        let unfair = if bound == 0 { 0 } else { bound.wrapping_neg() % bound };
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= unfair {
                return (product >> 64) as u64;
            }
        }
    }

    /// Fills a buffer with random bytes.
    fn fill(&mut self, buf: &mut [u8]) {
        for part in buf.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            part.copy_from_slice(&bytes[..part.len()]);
        }
    }
}

/// The generator described at the head of this file.
#[derive(Clone, Debug)]
pub struct Xoshiro256([u64; 4]);

impl Xoshiro256 {
    /// The generator that this seed decides.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let mut state = seed;
        Self(core::array::from_fn(|_| splitmix64(&mut state)))
    }
}

impl Rng for Xoshiro256 {
    fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let out = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        out
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = *state;
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that the authors' reference programs print.
    #[test]
    fn agrees_with_the_reference() {
        let mut state = 1_234_567;
        let got: [u64; 3] = core::array::from_fn(|_| splitmix64(&mut state));
        let want =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(got, want);
        let mut rng = Xoshiro256([1, 2, 3, 4]);
        let got: [u64; 4] = core::array::from_fn(|_| rng.next_u64());
        assert_eq!(got, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn the_seed_decides_everything() {
        let run = |seed| {
            let mut rng = Xoshiro256::seeded(seed);
            let mut bytes = [0; 13];
            rng.fill(&mut bytes);
            (bytes, rng.below(1000), rng.next_u64())
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn below_is_in_range_and_fair() {
        let mut rng = Xoshiro256::seeded(1);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[rng.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|n| (9_500..10_500).contains(n)), "{counts:?}");
        assert_eq!(rng.below(1), 0);
        assert_eq!(rng.below(0), 0);
        assert!(rng.below(u64::MAX) < u64::MAX);
    }
}
