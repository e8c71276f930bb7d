//! Encryption and authentication of blocks, and the keys for it.
//!
//! Specified in `docs/format/encryption.md`.
//!
//! # Theory
//!
//! From what a person keeps to what a block is encrypted with there are four keys:
//!
//! ```text
//! passphrase --PBKDF2-HMAC-SHA1(salt, iterations)--+
//! hex or raw key of 32 bytes ----------------------+--> wrapping key, 32 bytes, never on disk
//!                                                           |
//!             wrapped keys in the pool (WrappedKey) --AES unwrap--> master key, 16/24/32 bytes
//!                                                           |       HMAC key, 64 bytes
//!                                                           |          |
//!                 salt of the block, 8 bytes --HKDF-SHA512--+          +--> authenticates what
//!                                                           |               stays readable
//!                                                       block key
//!                          IV (12 bytes), AAD --AES-GCM or AES-CCM--> ciphertext, MAC (16 bytes)
//! ```
//!
//! Changing the passphrase rewraps the same master key, so no block has to be rewritten. The salt
//! changes rarely (each 400 million blocks, and when a key is loaded), so few block keys are in use
//! at a time and a [`MasterKey`] keeps the last ones with their expanded key schedules.
//!
//! Which bytes of a block are encrypted, which are only authenticated, and in which form, depends
//! on the block's type and is not known here: callers hand over the bytes to decrypt, gathered
//! into one buffer, and the associated data.
//!
//! Secrets are wiped from memory when they are dropped, and never appear in `Debug` output.
//! Comparisons of MACs take the same time whatever the difference.
#![forbid(unsafe_code)]

mod aead;
mod derive;
mod keys;

pub use aead::{AuthError, BlockKey, open_in_place, seal_in_place};
pub use derive::{HmacSha512, hkdf_sha512, hmac_sha512, mac_eq, pbkdf2_sha1, sha512};
pub use keys::{MasterKey, WrappedKey};

/// Length of an initialisation vector in bytes.
pub const IV_LEN: usize = 12;
/// Length of a message authentication code in bytes.
pub const MAC_LEN: usize = 16;
/// Length of the salt of a block in bytes.
pub const SALT_LEN: usize = 8;
/// Length of a wrapping key in bytes, whatever the suite.
pub const WRAPPING_KEY_LEN: usize = 32;
/// Length of the HMAC key in bytes.
pub const HMAC_KEY_LEN: usize = 64;
/// Longest master key in bytes: the room for it in the pool.
pub const MASTER_KEY_MAX: usize = 32;

/// Cipher, mode and key length of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-128 in CCM mode.
    Aes128Ccm,
    /// AES-192 in CCM mode.
    Aes192Ccm,
    /// AES-256 in CCM mode.
    Aes256Ccm,
    /// AES-128 in GCM mode.
    Aes128Gcm,
    /// AES-192 in GCM mode.
    Aes192Gcm,
    /// AES-256 in GCM mode; what `encryption=on` means.
    Aes256Gcm,
}

impl Suite {
    /// Every suite.
    pub const ALL: [Self; 6] = [
        Self::Aes128Ccm,
        Self::Aes192Ccm,
        Self::Aes256Ccm,
        Self::Aes128Gcm,
        Self::Aes192Gcm,
        Self::Aes256Gcm,
    ];

    /// From the number on disk. `None` for inherit (0), on (1), off (2) and unknown numbers.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.number() == number)
    }

    /// The number on disk, also the value of the property `encryption`.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Aes128Ccm => 3,
            Self::Aes192Ccm => 4,
            Self::Aes256Ccm => 5,
            Self::Aes128Gcm => 6,
            Self::Aes192Gcm => 7,
            Self::Aes256Gcm => 8,
        }
    }

    /// Length of the master key and of block keys in bytes.
    #[must_use]
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes128Gcm => 16,
            Self::Aes192Ccm | Self::Aes192Gcm => 24,
            Self::Aes256Ccm | Self::Aes256Gcm => 32,
        }
    }

    /// The value of the property `encryption`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Ccm => "aes-128-ccm",
            Self::Aes192Ccm => "aes-192-ccm",
            Self::Aes256Ccm => "aes-256-ccm",
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes192Gcm => "aes-192-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
        }
    }

    /// The suite that wraps this suite's keys: the same mode with a 256-bit key, because wrapping
    /// keys always have that length.
    #[must_use]
    pub fn wrapping(self) -> Self {
        match self {
            Self::Aes128Ccm | Self::Aes192Ccm | Self::Aes256Ccm => Self::Aes256Ccm,
            Self::Aes128Gcm | Self::Aes192Gcm | Self::Aes256Gcm => Self::Aes256Gcm,
        }
    }
}
