//! AES-GCM and AES-CCM over one buffer, in place, with a detached MAC.
//!
//! Nonces have 12 bytes and MACs 16 in every suite. For CCM such a nonce leaves three bytes for
//! the length, so one message has less than 16 MiB: an incompressible block of the largest record
//! size cannot be encrypted with CCM, by any implementation.

use super::{IV_LEN, MAC_LEN, Suite};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::AesGcm;
use aes_gcm::aead::AeadInOut;
use aes_gcm::aead::array::Array;
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::inout::InOutBuf;
use ccm::Ccm;
use ccm::KeyInit;

/// Data that could not be encrypted or decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The MAC does not fit: another key, or other data than what was encrypted.
    #[error("message authentication code does not match")]
    Mismatch,
    /// The data is longer than the mode allows, or the key has another length than the suite's.
    #[error("data or key has a length the cipher cannot take")]
    Length,
}

/// A key with its expanded schedule, ready for many blocks.
pub struct BlockKey {
    suite: Suite,
    cipher: Cipher,
}

enum Cipher {
    Ccm128(Ccm<Aes128, U16, U12>),
    Ccm192(Ccm<Aes192, U16, U12>),
    Ccm256(Ccm<Aes256, U16, U12>),
    Gcm128(AesGcm<Aes128, U12>),
    Gcm192(AesGcm<Aes192, U12>),
    Gcm256(AesGcm<Aes256, U12>),
}

/// Runs the same expression on whichever cipher it is.
macro_rules! each {
    ($cipher:expr, $c:ident => $run:expr) => {
        match $cipher {
            Cipher::Ccm128($c) => $run,
            Cipher::Ccm192($c) => $run,
            Cipher::Ccm256($c) => $run,
            Cipher::Gcm128($c) => $run,
            Cipher::Gcm192($c) => $run,
            Cipher::Gcm256($c) => $run,
        }
    };
}

impl BlockKey {
    /// Expands `key`, which must have [`Suite::key_len`] bytes.
    pub fn new(suite: Suite, key: &[u8]) -> Result<Self, AuthError> {
        fn make<C: KeyInit>(key: &[u8]) -> Result<C, AuthError> {
            C::new_from_slice(key).map_err(|_| AuthError::Length)
        }
        let cipher = match suite {
            Suite::Aes128Ccm => Cipher::Ccm128(make(key)?),
            Suite::Aes192Ccm => Cipher::Ccm192(make(key)?),
            Suite::Aes256Ccm => Cipher::Ccm256(make(key)?),
            Suite::Aes128Gcm => Cipher::Gcm128(make(key)?),
            Suite::Aes192Gcm => Cipher::Gcm192(make(key)?),
            Suite::Aes256Gcm => Cipher::Gcm256(make(key)?),
        };
        Ok(Self { suite, cipher })
    }

    /// The suite this key is for.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Decrypts `buf` and checks that it and `aad` are what was sealed.
    ///
    /// On an error `buf` is no use: depending on the mode it is still encrypted or not.
    pub fn open(
        &self,
        iv: &[u8; IV_LEN],
        aad: &[u8],
        buf: &mut [u8],
        mac: &[u8; MAC_LEN],
    ) -> Result<(), AuthError> {
        self.check_length(buf)?;
        let (iv, mac) = (Array::from(*iv), Array::from(*mac));
        let buf = InOutBuf::from(buf);
        each!(&self.cipher, c => c.decrypt_inout_detached(&iv, aad, buf, &mac))
            .map_err(|_| AuthError::Mismatch)
    }

    /// Encrypts `buf` and returns the MAC over it and `aad`.
    ///
    /// The same IV must never be used twice with one key, save for the same data.
    pub fn seal(
        &self,
        iv: &[u8; IV_LEN],
        aad: &[u8],
        buf: &mut [u8],
    ) -> Result<[u8; MAC_LEN], AuthError> {
        self.check_length(buf)?;
        let iv = Array::from(*iv);
        let buf = InOutBuf::from(buf);
        let mac = each!(&self.cipher, c => c.encrypt_inout_detached(&iv, aad, buf));
        mac.map(<[u8; MAC_LEN]>::from).map_err(|_| AuthError::Length)
    }

    fn check_length(&self, buf: &[u8]) -> Result<(), AuthError> {
        let max: u64 = match self.suite {
            // Three bytes of length.
            Suite::Aes128Ccm | Suite::Aes192Ccm | Suite::Aes256Ccm => (1 << 24) - 1,
            // 2^32 - 2 blocks of 16 bytes.
            Suite::Aes128Gcm | Suite::Aes192Gcm | Suite::Aes256Gcm => (1 << 36) - 32,
        };
        if buf.len() as u64 <= max { Ok(()) } else { Err(AuthError::Length) }
    }
}

impl core::fmt::Debug for BlockKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "BlockKey({})", self.suite.name())
    }
}

/// Decrypts `buf` with a key used once; see [`BlockKey::open`].
pub fn open_in_place(
    suite: Suite,
    key: &[u8],
    iv: &[u8; IV_LEN],
    aad: &[u8],
    buf: &mut [u8],
    mac: &[u8; MAC_LEN],
) -> Result<(), AuthError> {
    BlockKey::new(suite, key)?.open(iv, aad, buf, mac)
}

/// Encrypts `buf` with a key used once; see [`BlockKey::seal`].
pub fn seal_in_place(
    suite: Suite,
    key: &[u8],
    iv: &[u8; IV_LEN],
    aad: &[u8],
    buf: &mut [u8],
) -> Result<[u8; MAC_LEN], AuthError> {
    BlockKey::new(suite, key)?.seal(iv, aad, buf)
}
