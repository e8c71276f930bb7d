//! Keys from keys, and hashes with and without one.

use super::WRAPPING_KEY_LEN;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

/// The wrapping key of a passphrase: PBKDF2 with HMAC-SHA1.
///
/// `salt` is the number in the property `pbkdf2salt`; its little-endian bytes are what is hashed.
/// `iterations` is the property `pbkdf2iters`; 0 counts as 1.
#[must_use]
pub fn pbkdf2_sha1(
    passphrase: &[u8],
    salt: u64,
    iterations: u32,
) -> Zeroizing<[u8; WRAPPING_KEY_LEN]> {
    let mut out = Zeroizing::new([0; WRAPPING_KEY_LEN]);
    let rounds = iterations.max(1);
    let salt = salt.to_le_bytes();
    // Fails only for keys HMAC cannot take, and it takes any.
    let _ = pbkdf2::pbkdf2::<Hmac<Sha1>>(passphrase, &salt, rounds, out.as_mut_slice());
    out
}

/// Fills `out` from `master`, for the purpose `info`: HKDF (RFC 5869) with HMAC-SHA512 and no
/// salt. ZFS uses the 8-byte salt of a block as `info`.
///
/// `out` beyond 16,320 bytes, more than HKDF can give, stays untouched; keys are at most 32.
pub fn hkdf_sha512(master: &[u8], info: &[u8], out: &mut [u8]) {
    Expander::new(master).expand(info, out);
}

/// The first half of HKDF, which depends on the master key alone.
pub(super) struct Expander(Hkdf<Sha512>);

impl Expander {
    pub(super) fn new(master: &[u8]) -> Self {
        Self(Hkdf::new(None, master))
    }

    pub(super) fn expand(&self, info: &[u8], out: &mut [u8]) {
        // Fails only for outputs longer than 255 hashes.
        let _ = self.0.expand(info, out);
    }
}

/// HMAC-SHA512 over data that comes in pieces.
#[derive(Clone)]
pub struct HmacSha512(Hmac<Sha512>);

impl HmacSha512 {
    /// Starts with a key of any length.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        // A key longer than the hash's block is hashed first, as HMAC says; the block is 128 bytes.
        let mut block = Zeroizing::new([0; 128]);
        match block.get_mut(..key.len()) {
            Some(b) => b.copy_from_slice(key),
            None => block[..64].copy_from_slice(&Sha512::digest(key)),
        }
        Self(<Hmac<Sha512> as KeyInit>::new(&(*block).into()))
    }

    /// Adds data.
    pub fn update(&mut self, data: &[u8]) -> &mut Self {
        self.0.update(data);
        self
    }

    /// The code over everything added.
    #[must_use]
    pub fn finish(self) -> [u8; 64] {
        self.0.finalize().into_bytes().into()
    }
}

impl core::fmt::Debug for HmacSha512 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HmacSha512")
    }
}

/// HMAC-SHA512 of the concatenation of `parts`.
#[must_use]
pub fn hmac_sha512(key: &[u8], parts: &[&[u8]]) -> [u8; 64] {
    let mut h = HmacSha512::new(key);
    for p in parts {
        h.update(p);
    }
    h.finish()
}

/// SHA-512 (not the SHA-512/256 of checksums) of the concatenation of `parts`.
#[must_use]
pub fn sha512<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 64] {
    let mut h = Sha512::new();
    for p in parts {
        h.update(p);
    }
    h.finalize().into()
}

/// Whether `stored` is a prefix of `computed`, in time that does not depend on the bytes.
///
/// MACs in the format are hashes cut to 16 or 32 bytes. An empty or overlong `stored` never fits.
#[must_use]
pub fn mac_eq(computed: &[u8], stored: &[u8]) -> bool {
    let Some(prefix) = computed.get(..stored.len()) else { return false };
    let difference = prefix.iter().zip(stored).fold(0, |acc, (a, b)| acc | (a ^ b));
    !stored.is_empty() && std::hint::black_box(difference) == 0
}
