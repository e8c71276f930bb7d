//! Edon-R-512 as ZFS uses it.
//!
//! Edon-R was a SHA-3 candidate of 2008 (Gligoroski, Ødegård, Mihova, Knapskog, Kocarev, Drápal,
//! Klima). Its state is a *double pipe* of sixteen 64-bit words; a block of sixteen words is mixed
//! into it by eight applications of one operation on octets of words, a quasigroup. ZFS computes
//! the **tweaked** function of 2009, which adds a feed-forward of old state and message; the
//! answers published with the original submission are therefore not the ones on disk.
//!
//! The quasigroup operation x * y takes two octets. Each is turned into another octet whose words
//! are sums of five of its words (chosen by a Latin square), a constant in the first, rotated by
//! fixed amounts; then each word of the result is an exclusive or of three words of the first plus
//! one of three words of the second (the remaining rows of the same squares).
//!
//! With message halves M0, M1 (overlined: words reversed) and pipe halves H0, H1:
//!
//! ```text
//! p = rev(M1) * M0     q = p * M1        takes the message in
//! p = H1 * p           q = p * q         takes the state in
//! p = p * H0           q = q * p
//! p = rev(M0) * p      q = p * q         the message again
//! H0 ^= M1 ^ p         H1 ^= M0 ^ q      the feed-forward of 2009
//! ```
//!
//! A message is padded with a one bit, zeros, and its length in bits as a 64-bit little-endian
//! number; the digest is H1. **Salt**: the salt is hashed, and the digest hashed again; both
//! digests together are one block, which goes ahead of the data.

/// Length of a block in bytes.
const BLOCK: usize = 128;
/// Half a block, and half of the double pipe.
type Octet = [u64; 8];

/// A running Edon-R-512 that has taken whole blocks so far.
#[derive(Clone)]
pub(super) struct Edonr512 {
    pipe: [Octet; 2],
    taken: u64,
}

impl Edonr512 {
    /// No data yet. The initial state counts its own bytes, from 0x80 on.
    pub(super) fn new() -> Self {
        let mut pipe = [[0; 8]; 2];
        let mut word = 0x8081_8283_8485_8687u64;
        for w in pipe.as_flattened_mut() {
            *w = word;
            word = word.wrapping_add(0x0808_0808_0808_0808);
        }
        Self { pipe, taken: 0 }
    }

    /// The state behind the block made of a salt.
    pub(super) fn salted(salt: &[u8; 32]) -> Self {
        let once = Self::new().finish(salt);
        let twice = Self::new().finish(&once);
        let mut block = [0; BLOCK];
        for (b, d) in block.iter_mut().zip(once.iter().chain(&twice)) {
            *b = *d;
        }
        let mut state = Self::new();
        state.blocks(&[block]);
        state
    }

    /// Takes the rest of the message and gives the digest.
    pub(super) fn finish(mut self, data: &[u8]) -> [u8; 64] {
        let (whole, rest) = data.as_chunks::<BLOCK>();
        self.blocks(whole);
        let bits = (self.taken + rest.len() as u64).wrapping_mul(8);
        // Room for the rest, the one bit and the length: one block, or two.
        let mut last = [[0u8; BLOCK]; 2];
        let used = if rest.len() < BLOCK - 8 { 1 } else { 2 };
        let bytes = last.as_flattened_mut();
        for (b, r) in bytes.iter_mut().zip(rest.iter().chain(&[0x80])) {
            *b = *r;
        }
        for (b, l) in bytes[used * BLOCK - 8..].iter_mut().zip(bits.to_le_bytes()) {
            *b = l;
        }
        self.blocks(&last[..used]);
        let mut out = [0; 64];
        for (o, w) in out.as_chunks_mut::<8>().0.iter_mut().zip(self.pipe[1]) {
            *o = w.to_le_bytes();
        }
        out
    }

    fn blocks(&mut self, blocks: &[[u8; BLOCK]]) {
        self.taken += (blocks.len() * BLOCK) as u64;
        for block in blocks {
            let mut message = [[0u64; 8]; 2];
            for (m, b) in message.as_flattened_mut().iter_mut().zip(block.as_chunks::<8>().0) {
                *m = u64::from_le_bytes(*b);
            }
            self.mix(&message);
        }
    }

    fn mix(&mut self, [m0, m1]: &[Octet; 2]) {
        let [h0, h1] = &mut self.pipe;
        let p = multiply(&reversed(m1), m0);
        let q = multiply(&p, m1);
        let p = multiply(h1, &p);
        let q = multiply(&p, &q);
        let p = multiply(&p, h0);
        let q = multiply(&q, &p);
        let p = multiply(&reversed(m0), &p);
        let q = multiply(&p, &q);
        for i in 0..8 {
            h0[i] ^= m1[i] ^ p[i];
            h1[i] ^= m0[i] ^ q[i];
        }
    }
}

fn reversed(x: &Octet) -> Octet {
    let mut out = *x;
    out.reverse();
    out
}

/// The constant in the first word of the left transformation; the right one has its complement.
const OFFSET: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// The quasigroup operation.
#[inline(always)]
fn multiply(x: &Octet, y: &Octet) -> Octet {
    let s = left(x);
    let t = right(y);
    let (s04, s17, s23, s56) = (s[0] ^ s[4], s[1] ^ s[7], s[2] ^ s[3], s[5] ^ s[6]);
    let (t01, t25, t34, t67) = (t[0] ^ t[1], t[2] ^ t[5], t[3] ^ t[4], t[6] ^ t[7]);
    [
        (s04 ^ s[1]).wrapping_add(t01 ^ t[5]),
        (s04 ^ s[7]).wrapping_add(t67 ^ t[2]),
        (s17 ^ s[6]).wrapping_add(t01 ^ t[3]),
        (s23 ^ s[4]).wrapping_add(t34 ^ t[0]),
        (s17 ^ s[0]).wrapping_add(t25 ^ t[1]),
        (s56 ^ s[3]).wrapping_add(t34 ^ t[6]),
        (s56 ^ s[2]).wrapping_add(t25 ^ t[7]),
        (s23 ^ s[5]).wrapping_add(t67 ^ t[4]),
    ]
}

#[inline(always)]
fn left(x: &Octet) -> Octet {
    let add = u64::wrapping_add;
    let (x04, x17, x23, x56) = (add(x[0], x[4]), add(x[1], x[7]), add(x[2], x[3]), add(x[5], x[6]));
    let (x0147, x2356) = (add(x04, x17), add(x23, x56));
    [
        add(add(x0147, x[2]), OFFSET),
        add(x0147, x[3]).rotate_left(5),
        add(x0147, x[6]).rotate_left(15),
        add(x2356, x[7]).rotate_left(22),
        add(x2356, x[1]).rotate_left(31),
        add(add(x04, x23), x[5]).rotate_left(40),
        add(add(x17, x56), x[0]).rotate_left(50),
        add(x2356, x[4]).rotate_left(59),
    ]
}

#[inline(always)]
fn right(y: &Octet) -> Octet {
    let add = u64::wrapping_add;
    let (y01, y25, y34, y67) = (add(y[0], y[1]), add(y[2], y[5]), add(y[3], y[4]), add(y[6], y[7]));
    let (y0125, y0134) = (add(y01, y25), add(y01, y34));
    let (y3467, y2567) = (add(y34, y67), add(y25, y67));
    [
        add(add(y0125, y[7]), !OFFSET),
        add(y0134, y[6]).rotate_left(10),
        add(y0125, y[3]).rotate_left(19),
        add(y3467, y[2]).rotate_left(29),
        add(y0134, y[5]).rotate_left(36),
        add(y2567, y[4]).rotate_left(44),
        add(y2567, y[1]).rotate_left(48),
        add(y3467, y[0]).rotate_left(55),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::tests::hex;

    /// The tweaked function's answers that OpenZFS's own tests hold, for one block and for two.
    #[test]
    fn known_answers() {
        let digest = |m: &str| Edonr512::new().finish(m.as_bytes()).to_vec();
        assert_eq!(
            digest("abc"),
            hex("1b14db155f1d406594b8cef70a4362ec6b5de6a5daf50ec999e987c19d3049e2\
                 de5977bb05b1bb220050a1ea5b46a9f1740acafbf6b45032adc90c628372c22b")
        );
        assert_eq!(
            digest(
                "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn\
                 hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"
            ),
            hex("5351070dc51c3b2baca5a60d0252ccb4e4921a96fe5a69e76dad48fd21a0845a\
                 d57f880b3e4a907bc503151842bb949e1cba7439a6409a34b8436cb46921583c")
        );
    }

    /// Lengths around the place where the padding takes a second block do not panic, and differ.
    #[test]
    fn every_length_around_a_block() {
        let data = [7u8; 300];
        let mut seen = std::collections::HashSet::new();
        for n in 0..data.len() {
            assert!(seen.insert(Edonr512::new().finish(&data[..n])), "length {n}");
        }
    }
}
