//! Block checksums: from bytes to the four words a block pointer holds.
//!
//! Specified in `docs/format/checksums.md`. Every algorithm yields 256 bits, kept as four 64-bit
//! words. How the bytes of a block become those words depends on the machine that *wrote* it,
//! never on the one that reads:
//!
//! ```text
//! fletcher2, fletcher4              sums of the block's words, in the writer's byte order
//! sha256                            digest bytes read big-endian, always
//! sha512/256, skein, edonr, blake3  digest bytes read in the writer's byte order
//! ```
//!
//! Skein, Edon-R and BLAKE3 are keyed with the pool's 32-byte salt; [`Salted`] holds what can be
//! computed of that once per pool. Labels, gang headers and intent-log blocks carry their checksum
//! within themselves: those are in [`embedded`](self), with a verify and a seal function each.

mod edonr;
mod embedded;
mod fletcher2;
mod fletcher4;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "SIMD intrinsics")]
mod fletcher4_x86;
mod skein;

pub use embedded::{
    EmbeddedError, TRAILER_MAGIC, TRAILER_SIZE, ZIL_CHAIN_SIZE, seal_gang_header, seal_label,
    seal_zilog, seal_zilog2, verify_gang_header, verify_label, verify_zilog, verify_zilog2,
};
pub use fletcher2::Fletcher2;
pub use fletcher4::Fletcher4;
#[doc(hidden)]
pub use fletcher4::kernels;

use sha2::Digest as _;

/// Four words, comparable with the checksum words of a block pointer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Digest(pub [u64; 4]);

impl Digest {
    /// Digest bytes read as words of one byte order.
    fn from_bytes(bytes: &[u8; 32], order: ByteOrder) -> Self {
        let mut words = [0; 4];
        for (w, b) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *w = order.u64(*b);
        }
        Self(words)
    }

    /// What is left of the digest where words 2 and 3 of the block pointer hold a MAC: two words.
    ///
    /// A weak algorithm does not spread its entropy evenly, so its halves are folded together.
    #[must_use]
    pub fn truncated(self, algorithm: Algorithm) -> [u64; 2] {
        let [a, b, c, d] = self.0;
        if algorithm.is_weak() { [a ^ c, b ^ d] } else { [a, b] }
    }

    /// True when the checksum words of a block pointer say this digest; with `mac`, words 2 and 3
    /// of the pointer hold a MAC and only the [truncated](Self::truncated) digest is compared.
    #[must_use]
    pub fn matches(self, algorithm: Algorithm, expected: [u64; 4], mac: bool) -> bool {
        if mac { self.truncated(algorithm) == expected[..2] } else { self.0 == expected }
    }
}

/// Byte order of the machine that wrote a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// Decodes eight bytes.
    fn u64(self, b: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(b),
            Self::Big => u64::from_be_bytes(b),
        }
    }

    /// Decodes four bytes.
    fn u32(self, b: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(b),
            Self::Big => u32::from_be_bytes(b),
        }
    }

    /// Encodes eight bytes.
    fn put_u64(self, v: u64) -> [u8; 8] {
        match self {
            Self::Little => v.to_le_bytes(),
            Self::Big => v.to_be_bytes(),
        }
    }

    /// Encodes four checksum words.
    fn put_words(self, words: [u64; 4]) -> [u8; 32] {
        let mut out = [0; 32];
        for (o, w) in out.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *o = self.put_u64(w);
        }
        out
    }
}

/// The algorithms whose result stands in the block pointer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Algorithm {
    /// No checksum; the words are zero.
    Off,
    /// Two interleaved pairs of sums over 64-bit words.
    Fletcher2,
    /// Four nested sums over 32-bit words.
    Fletcher4,
    /// SHA-256.
    Sha256,
    /// SHA-512 with the initial value for 256 bits of output.
    Sha512_256,
    /// Skein-512 with 256 bits of output, in MAC mode with the pool's salt.
    Skein,
    /// Edon-R-512 (as tweaked in 2009) after a block made of the pool's salt; first 256 bits.
    Edonr,
    /// BLAKE3, keyed with the pool's salt.
    Blake3,
    /// No checksum and no parity; the words are zero. Never seen on disk.
    NoParity,
}

impl Algorithm {
    /// Every algorithm, in the order of their numbers on disk.
    pub const ALL: [Self; 9] = [
        Self::Off,
        Self::Fletcher2,
        Self::Fletcher4,
        Self::Sha256,
        Self::NoParity,
        Self::Sha512_256,
        Self::Skein,
        Self::Edonr,
        Self::Blake3,
    ];

    /// Not trusted to tell two blocks apart: no deduplication by it alone, and folded where it is
    /// [truncated](Digest::truncated).
    #[must_use]
    pub fn is_weak(self) -> bool {
        !matches!(self, Self::Sha256 | Self::Sha512_256 | Self::Skein | Self::Blake3)
    }

    /// The result depends on the pool's salt.
    #[must_use]
    pub fn is_salted(self) -> bool {
        matches!(self, Self::Skein | Self::Edonr | Self::Blake3)
    }
}

/// What the salted algorithms compute once from a pool's salt.
///
/// Not printed by `Debug`: with the salt one can look for collisions.
#[derive(Clone)]
pub struct Salted {
    skein: skein::Mac,
    edonr: edonr::Edonr512,
    blake3_key: [u8; 32],
}

impl Salted {
    /// From the salt in the pool's `org.illumos:checksum_salt` entry of the object directory.
    #[must_use]
    pub fn new(salt: &[u8; 32]) -> Self {
        Self {
            skein: skein::Mac::new(salt, 256),
            edonr: edonr::Edonr512::salted(salt),
            blake3_key: *salt,
        }
    }
}

impl Default for Salted {
    /// For a pool that has no salt yet: no salted block can exist in it.
    fn default() -> Self {
        Self::new(&[0; 32])
    }
}

impl core::fmt::Debug for Salted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Salted(..)")
    }
}

/// The checksum of a whole block as stored on disk (after compression and encryption).
///
/// Any length is accepted. The Fletcher sums pass over what is left behind the last whole step
/// (4 bytes, or 16 for Fletcher-2), as OpenZFS does; blocks are multiples of 512 bytes anyway.
#[must_use]
pub fn compute(algorithm: Algorithm, order: ByteOrder, salted: &Salted, data: &[u8]) -> Digest {
    match algorithm {
        Algorithm::Off | Algorithm::NoParity => Digest::default(),
        Algorithm::Fletcher2 => {
            let mut f = Fletcher2::new();
            f.update(order, data);
            f.digest()
        }
        Algorithm::Fletcher4 => {
            let mut f = Fletcher4::new();
            f.update(order, data);
            f.digest()
        }
        Algorithm::Sha256 => Digest::from_bytes(&sha2::Sha256::digest(data).into(), ByteOrder::Big),
        Algorithm::Sha512_256 => Digest::from_bytes(&sha2::Sha512_256::digest(data).into(), order),
        Algorithm::Skein => Digest::from_bytes(&first_half(&salted.skein.digest(data)), order),
        Algorithm::Edonr => {
            Digest::from_bytes(&first_half(&salted.edonr.clone().finish(data)), order)
        }
        Algorithm::Blake3 => {
            Digest::from_bytes(blake3::keyed_hash(&salted.blake3_key, data).as_bytes(), order)
        }
    }
}

/// The first 256 of 512 bits.
fn first_half(digest: &[u8; 64]) -> [u8; 32] {
    let mut out = [0; 32];
    for (o, d) in out.iter_mut().zip(digest) {
        *o = *d;
    }
    out
}

#[cfg(test)]
mod tests;
