//! Keys of encrypted datasets: found in the MOS, unlocked by what the user gives.
//!
//! # Theory
//!
//! A directory of an encrypted dataset names a *key object*; clones share their origin's. It holds
//! the master key, wrapped by the key of the *encryption root*: the directory whose key format and
//! passphrase salt count. Unlocking an encryption root therefore unlocks every key object that
//! names it as its root. Unwrapping authenticates, so a wrong key is known at once.

use crate::error::{Error, Result};
use crate::tree::{Dataset, Dir, Dsl};
use codec::crypto::{Suite, WrappedKey, pbkdf2_sha1};
use dmu::{Key, Zap};
use ondisk::dsl::crypt::{
    GUID, HMAC_KEY, IV, KEYFORMAT, MAC, MASTER_KEY, PBKDF2_ITERS, PBKDF2_SALT, ROOT_DDOBJ, SUITE,
    VERSION, WRAPPING_KEY_LEN,
};
use ondisk::dsl::dir_field::CRYPTO_KEY_OBJ;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// How the user gives a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    /// 32 bytes.
    Raw,
    /// 64 hexadecimal digits.
    Hex,
    /// A passphrase of 8 to 512 bytes.
    Passphrase,
}

impl KeyFormat {
    /// From the number of the property `keyformat`.
    #[must_use]
    pub fn from_number(n: u64) -> Option<Self> {
        match n {
            1 => Some(Self::Raw),
            2 => Some(Self::Hex),
            3 => Some(Self::Passphrase),
            _ => None,
        }
    }

    /// The property value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Hex => "hex",
            Self::Passphrase => "passphrase",
        }
    }
}

/// Why a key was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The dataset is not encrypted.
    NotEncrypted,
    /// The key has another length than its format demands.
    BadLength {
        /// The format.
        format: KeyFormat,
        /// Length given, in bytes.
        given: usize,
    },
    /// Not hexadecimal digits.
    BadHex,
    /// The master key does not unwrap: it is the wrong key.
    Wrong,
    /// The key object is incomplete or holds an unknown suite or format.
    BadKeyObject(&'static str),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEncrypted => f.write_str("the dataset is not encrypted"),
            Self::BadLength { format, given } => {
                let want = match format {
                    KeyFormat::Raw => "32 bytes",
                    KeyFormat::Hex => "64 hexadecimal digits",
                    KeyFormat::Passphrase => "8 to 512 bytes",
                };
                write!(f, "a {} key has {want}, given are {given}", format.name())
            }
            Self::BadHex => f.write_str("not hexadecimal digits"),
            Self::Wrong => f.write_str("wrong key"),
            Self::BadKeyObject(what) => write!(f, "key object is damaged: {what}"),
        }
    }
}

impl std::error::Error for KeyError {}

/// What a key object says without being unlocked.
#[derive(Clone, Debug)]
pub struct KeyInfo {
    /// The key object in the MOS.
    pub object: u64,
    /// Cipher suite.
    pub suite: Suite,
    /// Directory of the encryption root.
    pub root_dir: u64,
    /// How the user gives the key.
    pub format: KeyFormat,
    /// Salt of the passphrase derivation.
    pub pbkdf2_salt: u64,
    /// Rounds of the passphrase derivation.
    pub pbkdf2_iters: u64,
    wrapped: WrappedKey,
}

/// The 32 bytes that wrap master keys.
pub struct WrappingKey(Zeroizing<[u8; WRAPPING_KEY_LEN]>);

/// Most rounds of PBKDF2 that are accepted: a lying object must not hang the process. OpenZFS
/// defaults to 350,000; a hundred million take about half a minute.
const PBKDF2_ITERS_MAX: u64 = 100_000_000;

impl WrappingKey {
    /// Makes the wrapping key of `info` from what the user gave. A final newline of a hexadecimal
    /// key or passphrase is left off, as it comes from files and prompts.
    pub fn derive(info: &KeyInfo, given: &[u8]) -> std::result::Result<Self, KeyError> {
        let format = info.format;
        let text = given.strip_suffix(b"\n").unwrap_or(given);
        let bad = |given: usize| KeyError::BadLength { format, given };
        let mut out = Zeroizing::new([0; WRAPPING_KEY_LEN]);
        match format {
            KeyFormat::Raw if given.len() == WRAPPING_KEY_LEN => out.copy_from_slice(given),
            KeyFormat::Raw => return Err(bad(given.len())),
            KeyFormat::Hex => {
                if text.len() != 2 * WRAPPING_KEY_LEN {
                    return Err(bad(text.len()));
                }
                for (o, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
                    let digit = |b: u8| char::from(b).to_digit(16).ok_or(KeyError::BadHex);
                    *o = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
                }
            }
            KeyFormat::Passphrase => {
                if !(8..=512).contains(&text.len()) {
                    return Err(bad(text.len()));
                }
                let iters = u32::try_from(info.pbkdf2_iters.min(PBKDF2_ITERS_MAX)).unwrap_or(1);
                out = pbkdf2_sha1(text, info.pbkdf2_salt, iters);
            }
        }
        Ok(Self(out))
    }
}

/// Unlocked keys by key object.
#[derive(Default)]
pub struct Keyring {
    keys: Mutex<HashMap<u64, Key>>,
}

impl Keyring {
    fn get(&self, object: u64) -> Option<Key> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).get(&object).cloned()
    }

    fn put(&self, object: u64, key: Key) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(object, key);
    }

    /// The unlocked key of a directory; `None` when it is not encrypted or locked.
    pub(crate) fn for_dir(&self, dsl: &Dsl, dir: &Dir) -> Result<Option<Key>> {
        Ok(dsl.key_object(dir)?.and_then(|o| self.get(o)))
    }
}

impl Dsl {
    /// The key object of a directory; `None` when it is not encrypted.
    pub fn key_object(&self, dir: &Dir) -> Result<Option<u64>> {
        match self.fields(dir.object, dir.has_fields)? {
            Some(fields) => Ok(fields.get_u64(CRYPTO_KEY_OBJ)?),
            None => Ok(None),
        }
    }

    /// What the key object of a directory says; `None` when it is not encrypted.
    pub fn key_info(&self, dir: &Dir) -> Result<Option<KeyInfo>> {
        match self.key_object(dir)? {
            Some(object) => self.key_info_of(object, &dir.name).map(Some),
            None => Ok(None),
        }
    }

    fn key_info_of(&self, object: u64, dataset: &str) -> Result<KeyInfo> {
        let zap = Zap::open(&self.mos().object(object)?)?;
        let bad =
            |what| Error::Key { dataset: dataset.to_owned(), error: KeyError::BadKeyObject(what) };
        let bytes = |name: &'static str, out: &mut [u8]| -> Result<()> {
            let entry = zap.get(name.as_bytes())?.ok_or_else(|| bad(name))?;
            let value = entry.value_bytes().filter(|v| v.len() == out.len());
            out.copy_from_slice(value.ok_or_else(|| bad(name))?);
            Ok(())
        };
        let suite = Suite::from_number(zap.need_u64(SUITE)?).ok_or_else(|| bad(SUITE))?;
        let mut wrapped = WrappedKey {
            suite,
            guid: zap.need_u64(GUID)?,
            version: zap.get_u64(VERSION)?.unwrap_or(0),
            iv: [0; 12],
            mac: [0; 16],
            master: [0; 32],
            hmac: [0; 64],
        };
        bytes(IV, &mut wrapped.iv)?;
        bytes(MAC, &mut wrapped.mac)?;
        bytes(MASTER_KEY, &mut wrapped.master)?;
        bytes(HMAC_KEY, &mut wrapped.hmac)?;
        let format = zap.need_u64(KEYFORMAT)?;
        Ok(KeyInfo {
            object,
            suite,
            root_dir: zap.get_u64(ROOT_DDOBJ)?.unwrap_or(0),
            format: KeyFormat::from_number(format).ok_or_else(|| bad(KEYFORMAT))?,
            pbkdf2_salt: zap.get_u64(PBKDF2_SALT)?.unwrap_or(0),
            pbkdf2_iters: zap.get_u64(PBKDF2_ITERS)?.unwrap_or(0),
            wrapped,
        })
    }

    /// Name of a directory's encryption root; `None` when it is not encrypted.
    pub fn encryption_root(&self, dir: &Dir) -> Result<Option<String>> {
        match self.key_info(dir)? {
            Some(info) => self.dir_name(info.root_dir).map(Some),
            None => Ok(None),
        }
    }

    /// True when the dataset is not encrypted or its key is unlocked.
    pub fn is_unlocked(&self, dataset: &Dataset) -> Result<bool> {
        Ok(match self.key_object(&dataset.dir)? {
            Some(o) => self.keyring().get(o).is_some(),
            None => true,
        })
    }

    /// Unlocks the encryption root that `name` belongs to, and every dataset under its key, with
    /// the key the user gave. Returns how many key objects were unlocked.
    pub fn load_key(&self, name: &str, given: &[u8]) -> Result<usize> {
        let dir = self.dir_by_name(name)?;
        let fail = |error| Error::Key { dataset: name.to_owned(), error };
        let info = self.key_info(&dir)?.ok_or_else(|| fail(KeyError::NotEncrypted))?;
        let wrapping = WrappingKey::derive(&info, given).map_err(fail)?;
        self.unlock(&info, &wrapping).map_err(fail)?;
        let mut unlocked = 1;
        for (_, other) in self.walk() {
            let Ok(other) = other else { continue };
            let Ok(Some(sibling)) = self.key_info(&other) else { continue };
            let new = sibling.root_dir == info.root_dir && sibling.object != info.object;
            if new && self.keyring().get(sibling.object).is_none() {
                // A sibling under the same root that does not unwrap is damaged, not locked: its
                // dataset stays locked and says so when it is opened.
                unlocked += usize::from(self.unlock(&sibling, &wrapping).is_ok());
            }
        }
        Ok(unlocked)
    }

    fn unlock(&self, info: &KeyInfo, wrapping: &WrappingKey) -> std::result::Result<(), KeyError> {
        let master = info.wrapped.unwrap(&wrapping.0).map_err(|_| KeyError::Wrong)?;
        self.keyring().put(info.object, Arc::new(master));
        Ok(())
    }
}
