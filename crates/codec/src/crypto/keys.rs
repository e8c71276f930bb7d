//! The keys of a dataset, as stored and as used.
//!
//! The pool stores master key and HMAC key encrypted together: one message of `key_len + 64`
//! bytes, in two members because the room for the master key is always 32. The associated data
//! binds them to the key's identity, in little-endian words whatever the pool's byte order:
//!
//! ```text
//! version 0:  guid
//! version 1:  guid  suite  version
//! ```

use super::aead::{AuthError, BlockKey};
use super::derive::{Expander, HmacSha512};
use super::{
    HMAC_KEY_LEN, IV_LEN, MAC_LEN, MASTER_KEY_MAX, SALT_LEN, Suite, WRAPPING_KEY_LEN, mac_eq,
};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// Block keys a [`MasterKey`] keeps ready. One salt serves 400 million blocks or one import, so a
/// dataset needs about one for each time it was mounted and written; only dedup makes more.
const BLOCK_KEYS_KEPT: usize = 16;

/// Keys of a dataset as the pool stores them: encrypted with the wrapping key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// Suite of the dataset.
    pub suite: Suite,
    /// Identity of the key, random.
    pub guid: u64,
    /// Version of the format: 0 (before OpenZFS 0.8) or 1. It also determines how the MACs of block
    /// pointers are made.
    pub version: u64,
    /// IV of the wrapping.
    pub iv: [u8; IV_LEN],
    /// MAC of the wrapping.
    pub mac: [u8; MAC_LEN],
    /// Encrypted master key; bytes beyond the suite's key length are unused.
    pub master: [u8; MASTER_KEY_MAX],
    /// Encrypted HMAC key.
    pub hmac: [u8; HMAC_KEY_LEN],
}

impl WrappedKey {
    /// Decrypts the keys. [`AuthError::Mismatch`] means, almost always, a wrong wrapping key.
    pub fn unwrap(&self, wrapping: &[u8; WRAPPING_KEY_LEN]) -> Result<MasterKey, AuthError> {
        let n = self.suite.key_len();
        let mut keys = Zeroizing::new([0; MASTER_KEY_MAX + HMAC_KEY_LEN]);
        keys[..n].copy_from_slice(&self.master[..n]);
        keys[n..n + HMAC_KEY_LEN].copy_from_slice(&self.hmac);
        let (aad, aad_len) = wrap_aad(self.suite, self.guid, self.version);
        BlockKey::new(self.suite.wrapping(), wrapping)?.open(
            &self.iv,
            &aad[..aad_len],
            &mut keys[..n + HMAC_KEY_LEN],
            &self.mac,
        )?;
        MasterKey::new(self.suite, self.guid, self.version, &keys[..n], &keys[n..n + HMAC_KEY_LEN])
    }
}

/// Words of the associated data of a wrapping, and how many of the bytes count.
fn wrap_aad(suite: Suite, guid: u64, version: u64) -> ([u8; 24], usize) {
    let mut aad = [0; 24];
    for (word, out) in [guid, suite.number(), version].iter().zip(aad.chunks_exact_mut(8)) {
        out.copy_from_slice(&word.to_le_bytes());
    }
    (aad, if version == 0 { 8 } else { 24 })
}

/// The keys of a dataset, ready for use. Shared by all datasets of a clone family.
pub struct MasterKey {
    suite: Suite,
    guid: u64,
    version: u64,
    master: Zeroizing<Vec<u8>>,
    hmac: Zeroizing<[u8; HMAC_KEY_LEN]>,
    expander: Expander,
    /// Last used first.
    block_keys: Mutex<Vec<([u8; SALT_LEN], Arc<BlockKey>)>>,
}

impl MasterKey {
    /// Takes key material: `master` of the suite's key length and `hmac` of [`HMAC_KEY_LEN`]
    /// bytes.
    pub fn new(
        suite: Suite,
        guid: u64,
        version: u64,
        master: &[u8],
        hmac: &[u8],
    ) -> Result<Self, AuthError> {
        let hmac: [u8; HMAC_KEY_LEN] = hmac.try_into().map_err(|_| AuthError::Length)?;
        if master.len() != suite.key_len() {
            return Err(AuthError::Length);
        }
        Ok(Self {
            suite,
            guid,
            version,
            master: Zeroizing::new(master.to_vec()),
            hmac: Zeroizing::new(hmac),
            expander: Expander::new(master),
            block_keys: Mutex::new(Vec::with_capacity(BLOCK_KEYS_KEPT)),
        })
    }

    /// Suite of the dataset.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Identity of the key.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// Version of the key format, see [`WrappedKey::version`].
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The key of blocks with this salt.
    pub fn block_key(&self, salt: [u8; SALT_LEN]) -> Result<Arc<BlockKey>, AuthError> {
        // The list is whole after every statement, so a panic elsewhere while it was locked cannot
        // have broken it.
        let mut kept = self.block_keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(i) = kept.iter().position(|(s, _)| *s == salt) {
            kept[..=i].rotate_right(1);
            return Ok(Arc::clone(&kept[0].1));
        }
        let mut key = Zeroizing::new([0; MASTER_KEY_MAX]);
        let key = &mut key[..self.suite.key_len()];
        self.expander.expand(&salt, key);
        let key = Arc::new(BlockKey::new(self.suite, key)?);
        kept.truncate(BLOCK_KEYS_KEPT - 1);
        kept.insert(0, (salt, Arc::clone(&key)));
        Ok(key)
    }

    /// Starts an HMAC-SHA512 with the dataset's HMAC key.
    #[must_use]
    pub fn hmac(&self) -> HmacSha512 {
        HmacSha512::new(self.hmac.as_slice())
    }

    /// Whether the first 16 bytes of the HMAC of `data` are `mac`: how blocks that stay readable
    /// are authenticated.
    #[must_use]
    pub fn authenticates(&self, data: &[u8], mac: &[u8; MAC_LEN]) -> bool {
        let mut h = self.hmac();
        h.update(data);
        mac_eq(&h.finish(), mac)
    }

    /// The MAC by which a block that stays readable is authenticated.
    #[must_use]
    pub fn authenticate(&self, data: &[u8]) -> [u8; MAC_LEN] {
        let mut h = self.hmac();
        h.update(data);
        let mut mac = [0; MAC_LEN];
        mac.copy_from_slice(&h.finish()[..MAC_LEN]);
        mac
    }

    /// Salt and IV of a block of a dataset with dedup: from its data, so that equal data becomes
    /// equal ciphertext.
    #[must_use]
    pub fn dedup_salt_iv(&self, data: &[u8]) -> ([u8; SALT_LEN], [u8; IV_LEN]) {
        let mut h = self.hmac();
        h.update(data);
        let digest = h.finish();
        let (mut salt, mut iv) = ([0; SALT_LEN], [0; IV_LEN]);
        salt.copy_from_slice(&digest[..SALT_LEN]);
        iv.copy_from_slice(&digest[SALT_LEN..SALT_LEN + IV_LEN]);
        (salt, iv)
    }

    /// Encrypts the keys for storage. `iv` must be random and never used before.
    pub fn wrap(
        &self,
        wrapping: &[u8; WRAPPING_KEY_LEN],
        iv: [u8; IV_LEN],
    ) -> Result<WrappedKey, AuthError> {
        let n = self.suite.key_len();
        let mut keys = Zeroizing::new([0; MASTER_KEY_MAX + HMAC_KEY_LEN]);
        keys[..n].copy_from_slice(&self.master);
        keys[n..n + HMAC_KEY_LEN].copy_from_slice(self.hmac.as_slice());
        let (aad, aad_len) = wrap_aad(self.suite, self.guid, self.version);
        let mac = BlockKey::new(self.suite.wrapping(), wrapping)?.seal(
            &iv,
            &aad[..aad_len],
            &mut keys[..n + HMAC_KEY_LEN],
        )?;
        let mut out = WrappedKey {
            suite: self.suite,
            guid: self.guid,
            version: self.version,
            iv,
            mac,
            master: [0; MASTER_KEY_MAX],
            hmac: [0; HMAC_KEY_LEN],
        };
        out.master[..n].copy_from_slice(&keys[..n]);
        out.hmac.copy_from_slice(&keys[n..n + HMAC_KEY_LEN]);
        Ok(out)
    }
}

impl core::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "MasterKey({}, guid {:#x})", self.suite.name(), self.guid)
    }
}
