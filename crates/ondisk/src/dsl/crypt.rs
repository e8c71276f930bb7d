//! The DSL crypto key: a ZAP object per encrypted clone family, with the wrapped master key.
//!
//! Specified in `docs/format/dsl.md`. A directory finds it by
//! [`super::dir_field::CRYPTO_KEY_OBJ`]. The user's key (raw, hexadecimal, or derived from a
//! passphrase by PBKDF2-HMAC-SHA1) wraps master key and HMAC key together with the suite's AEAD:
//! plaintext is the two keys one after the other, associated data the words `guid`, `crypt`,
//! `version` in little-endian order (version 0 keys: `guid` alone), IV and MAC are in the object.

/// Cipher suite, a number of the property `encryption` (3 to 8).
pub const SUITE: &str = "DSL_CRYPTO_SUITE";
/// Identifies the master key; goes with a raw stream.
pub const GUID: &str = "DSL_CRYPTO_GUID";
/// IV of the wrapping, 12 bytes.
pub const IV: &str = "DSL_CRYPTO_IV";
/// MAC of the wrapping, 16 bytes.
pub const MAC: &str = "DSL_CRYPTO_MAC";
/// Wrapped master key: 32 bytes, of which a suite with shorter keys uses the first.
pub const MASTER_KEY: &str = "DSL_CRYPTO_MASTER_KEY_1";
/// Wrapped HMAC-SHA512 key, 64 bytes.
pub const HMAC_KEY: &str = "DSL_CRYPTO_HMAC_KEY_1";
/// Directory of the encryption root.
pub const ROOT_DDOBJ: &str = "DSL_CRYPTO_ROOT_DDOBJ";
/// Directories that use this object (clones share it).
pub const REFCOUNT: &str = "DSL_CRYPTO_REFCOUNT";
/// Version of the key's format; missing means 0.
pub const VERSION: &str = "DSL_CRYPTO_VERSION";
/// How the user gives the key: a number of the property of this name.
pub const KEYFORMAT: &str = "keyformat";
/// Salt of PBKDF2, a word whose little-endian bytes are hashed.
pub const PBKDF2_SALT: &str = "pbkdf2salt";
/// Rounds of PBKDF2.
pub const PBKDF2_ITERS: &str = "pbkdf2iters";

/// Version OpenZFS writes today.
pub const CURRENT_VERSION: u64 = 1;
/// Bytes of the wrapped master key.
pub const MASTER_KEY_LEN: usize = 32;
/// Bytes of the wrapped HMAC key.
pub const HMAC_KEY_LEN: usize = 64;
/// Bytes of the IV.
pub const IV_LEN: usize = 12;
/// Bytes of the MAC.
pub const MAC_LEN: usize = 16;
/// Bytes of a raw key or of what a hexadecimal key or a passphrase becomes.
pub const WRAPPING_KEY_LEN: usize = 32;

/// Cipher suite of an encrypted dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// AES in counter mode with CBC-MAC; the number is the key length in bits.
    Ccm(u16),
    /// AES in Galois counter mode; the number is the key length in bits.
    Gcm(u16),
}

impl Suite {
    /// From the number under [`SUITE`] (and of the property `encryption`).
    #[must_use]
    pub fn from_number(n: u64) -> Option<Self> {
        Some(match n {
            3 => Self::Ccm(128),
            4 => Self::Ccm(192),
            5 => Self::Ccm(256),
            6 => Self::Gcm(128),
            7 => Self::Gcm(192),
            8 => Self::Gcm(256),
            _ => return None,
        })
    }

    /// The number on disk; 0 for key lengths that do not exist.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Ccm(128) => 3,
            Self::Ccm(192) => 4,
            Self::Ccm(256) => 5,
            Self::Gcm(128) => 6,
            Self::Gcm(192) => 7,
            Self::Gcm(256) => 8,
            Self::Ccm(_) | Self::Gcm(_) => 0,
        }
    }

    /// Bytes of a data key.
    #[must_use]
    pub fn key_len(self) -> usize {
        match self {
            Self::Ccm(bits) | Self::Gcm(bits) => usize::from(bits) / 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_go_both_ways() {
        for n in 3..=8 {
            assert_eq!(Suite::from_number(n).map(Suite::number), Some(n));
        }
        assert_eq!(Suite::from_number(2), None);
        assert_eq!(Suite::from_number(7).map(Suite::key_len), Some(24));
    }
}
