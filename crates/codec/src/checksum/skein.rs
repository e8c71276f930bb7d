//! Skein-512 in MAC mode (Skein 1.3, "The Skein Hash Function Family").
//!
//! Skein chains the tweakable block cipher Threefish-512: each 64-byte block of input is encrypted
//! under the chaining value, and the result, combined with the block, is the next chaining value.
//! The tweak holds how many bytes were taken so far, what the input is (key, configuration,
//! message, output), and whether the block is the first or the last of its input. A MAC is the
//! inputs key, configuration, message, and the output counter in that order; after key and
//! configuration the chaining value is the same for every block of a pool, and [`Mac`] keeps it.
//!
//! ZFS takes 256 bits of output, so the configuration says 256, and keys with its 32-byte salt.

/// Length of a block in bytes.
const BLOCK: usize = 64;
/// Words of a block.
type Words = [u64; 8];

/// The inputs, as numbered in the tweak.
#[derive(Clone, Copy)]
enum Input {
    Key = 0,
    Config = 4,
    Message = 48,
    Output = 63,
}

/// A MAC of one key, ready for messages.
#[derive(Clone)]
pub(super) struct Mac {
    chain: Words,
}

impl Mac {
    /// Prepares for a key of any length (an empty one yields the plain hash) and a length of the
    /// output in bits, 512 at most.
    pub(super) fn new(key: &[u8], output_bits: u64) -> Self {
        let mut chain = [0; 8];
        if !key.is_empty() {
            absorb(&mut chain, Input::Key, key);
        }
        let mut config = [0u8; 32];
        // Schema "SHA3", version 1; the rest (tree hashing) stays zero.
        config[..5].copy_from_slice(b"SHA3\x01");
        config[8..16].copy_from_slice(&output_bits.to_le_bytes());
        absorb(&mut chain, Input::Config, &config);
        Self { chain }
    }

    /// The MAC of a message; only the first bits the configuration asked for are meaningful.
    pub(super) fn digest(&self, message: &[u8]) -> [u8; BLOCK] {
        let mut chain = self.chain;
        absorb(&mut chain, Input::Message, message);
        absorb(&mut chain, Input::Output, &[0; 8]);
        let mut out = [0; BLOCK];
        for (o, w) in out.as_chunks_mut::<8>().0.iter_mut().zip(chain) {
            *o = w.to_le_bytes();
        }
        out
    }
}

/// Takes one whole input into the chaining value. The last block is padded with zeros; an empty
/// input is one block of padding.
fn absorb(chain: &mut Words, input: Input, data: &[u8]) {
    const FIRST: u64 = 1 << 62;
    const LAST: u64 = 1 << 63;
    let mut kind = ((input as u64) << 56) | FIRST;
    let mut taken = 0u64;
    let whole = data.len().saturating_sub(1) / BLOCK;
    let (blocks, rest) = data.split_at(whole * BLOCK);
    for block in blocks.as_chunks::<BLOCK>().0 {
        taken += BLOCK as u64;
        compress(chain, [taken, kind], block);
        kind &= !FIRST;
    }
    let mut last = [0; BLOCK];
    for (l, r) in last.iter_mut().zip(rest) {
        *l = *r;
    }
    compress(chain, [taken + rest.len() as u64, kind | LAST], &last);
}

/// One step of the chain: Threefish-512 under the chaining value and tweak, fed forward.
#[inline]
fn compress(chain: &mut Words, tweak: [u64; 2], block: &[u8; BLOCK]) {
    let mut text = [0u64; 8];
    for (t, b) in text.iter_mut().zip(block.as_chunks::<8>().0) {
        *t = u64::from_le_bytes(*b);
    }
    let cipher = threefish(chain, tweak, text);
    for ((c, x), t) in chain.iter_mut().zip(cipher).zip(text) {
        *c = x ^ t;
    }
}

/// Makes the words of an expanded key from a parity constant, so that no key is all zero.
const KEY_PARITY: u64 = 0x1bd1_1bda_a9fc_1a22;

/// Threefish-512: 72 rounds of four additions, rotations and exclusive ors, with a subkey of key,
/// tweak and counter added before every fourth round and at the end. Written out by macros with
/// constant indices, so that all of it stays in registers.
#[inline]
fn threefish(key: &Words, tweak: [u64; 2], mut x: Words) -> Words {
    let parity = key.iter().fold(KEY_PARITY, |p, k| p ^ k);
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let k = [k0, k1, k2, k3, k4, k5, k6, k7, parity];
    let t = [tweak[0], tweak[1], tweak[0] ^ tweak[1]];

    macro_rules! subkey {
        ($s:expr) => {
            x[0] = x[0].wrapping_add(k[$s % 9]);
            x[1] = x[1].wrapping_add(k[($s + 1) % 9]);
            x[2] = x[2].wrapping_add(k[($s + 2) % 9]);
            x[3] = x[3].wrapping_add(k[($s + 3) % 9]);
            x[4] = x[4].wrapping_add(k[($s + 4) % 9]);
            x[5] = x[5].wrapping_add(k[($s + 5) % 9]).wrapping_add(t[$s % 3]);
            x[6] = x[6].wrapping_add(k[($s + 6) % 9]).wrapping_add(t[($s + 1) % 3]);
            x[7] = x[7].wrapping_add(k[($s + 7) % 9]).wrapping_add($s as u64);
        };
    }
    macro_rules! mix {
        ($($a:literal $b:literal $r:literal),*) => {$(
            x[$a] = x[$a].wrapping_add(x[$b]);
            x[$b] = x[$b].rotate_left($r) ^ x[$a];
        )*};
    }
    // Two groups of four rounds. The permutation of the words between rounds is in the indices:
    // after four rounds every word is back in its place.
    macro_rules! eight_rounds {
        ($($s:literal)*) => {$(
            subkey!($s);
            mix!(0 1 46, 2 3 36, 4 5 19, 6 7 37);
            mix!(2 1 33, 4 7 27, 6 5 14, 0 3 42);
            mix!(4 1 17, 6 3 49, 0 5 36, 2 7 39);
            mix!(6 1 44, 0 7 9, 2 5 54, 4 3 56);
            subkey!($s + 1);
            mix!(0 1 39, 2 3 30, 4 5 34, 6 7 24);
            mix!(2 1 13, 4 7 50, 6 5 10, 0 3 17);
            mix!(4 1 25, 6 3 29, 0 5 39, 2 7 43);
            mix!(6 1 8, 0 7 35, 2 5 56, 4 3 22);
        )*};
    }
    eight_rounds!(0 2 4 6 8 10 12 14 16);
    subkey!(18);
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::tests::hex;
    use proptest::prelude::*;
    use skein::Digest as _;

    proptest! {
        /// Without a key this is the plain hash, of which there is another implementation.
        #[test]
        fn unkeyed_is_the_plain_hash(data in proptest::collection::vec(any::<u8>(), 0..400)) {
            let want: [u8; 32] = skein::Skein512_256::digest(&data).into();
            prop_assert_eq!(&Mac::new(&[], 256).digest(&data)[..32], &want);
        }
    }

    /// Answers published with Skein 1.3 for a 32-byte key and 512 bits of output.
    #[test]
    fn keyed_known_answers() {
        let key = hex("cb41f1706cde09651203c2d0efbaddf847a0d315cb2e53ff8bac41da0002672e");
        let mac = Mac::new(&key, 512);
        assert_eq!(
            mac.digest(&hex("d3090c72167517f7")).to_vec(),
            hex("0c1f1921253dd8e5c2d4c5f4099f851042d91147892705829161f5fc64d89785\
                 226eb6e187068493ee4c78a4b7c0f55a8cbbb1a5982c2daf638fc6a74b16b0d7")
        );
        let message = "d3090c72167517f7c7ad82a70c2fd3f6443f608301591e598eadb195e8357135\
                       ba26fede2ee187417f816048d00fc23512737a2113709a77e4170c49a94b7fdf\
                       f45ff579a72287743102e7766c35ca5abc5dfe2f63a1e726ce5fbd2926db03a2";
        assert_eq!(
            mac.digest(&hex(message)).to_vec(),
            hex("d10e3ba81855ac087fbf5a3bc1f99b27d05f98ba22441138026225d34a418b93\
                 fd9e8dfaf5120757451adabe050d0eb59d271b0fe1bbf04badbcf9ba25a8791b")
        );
    }

    /// A key longer than one block, and an empty message.
    #[test]
    fn long_key_empty_message() {
        let key = hex("cb41f1706cde09651203c2d0efbaddf847a0d315cb2e53ff8bac41da0002672e\
             920244c66e02d5f0dad3e94c42bb65f0d14157decf4105ef5609d5b0984457c1\
             935df3061ff06e9f204192ba11e5bb2cac0430c1c370cb3d113fea5ec1021eb8\
             75e5946d7a96ac69a1626c6206b7252736f24253c9ee9b85eb852dfc81463134\
             6c");
        assert_eq!(
            Mac::new(&key, 512).digest(&[]).to_vec(),
            hex("9bd43d2a2fcfa92becb9f69faab3936978f1b865b7e44338fc9c8f16aba949ba\
                 340291082834a1fc5aa81649e13d50cd98641a1d0883062bfe2c16d1faa7e3aa")
        );
    }
}
