//! Keys as users give them, and those that are unlocked.

use codec::crypto::{Suite, WrappedKey, pbkdf2_sha1};
use dmu::Key;
use ondisk::dsl::crypt::WRAPPING_KEY_LEN;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

    /// The number of the property `keyformat`.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Raw => 1,
            Self::Hex => 2,
            Self::Passphrase => 3,
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
    /// Deriving the key from the passphrase takes more rounds than are done here.
    TooManyRounds(u64),
    /// The master key does not unwrap: it is the wrong key.
    Wrong,
    /// The key is not loaded.
    Locked,
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
                write!(f, "a {} key has {want}, but {given} were given", format.name())
            }
            Self::BadHex => f.write_str("not hexadecimal digits"),
            Self::TooManyRounds(n) => {
                write!(f, "{n} rounds of PBKDF2 are more than {PBKDF2_ITERS_MAX}")
            }
            Self::Wrong => f.write_str("wrong key"),
            Self::Locked => f.write_str("the key is not loaded"),
            Self::BadKeyObject(what) => write!(f, "key object is damaged: {what}"),
        }
    }
}

impl std::error::Error for KeyError {}

/// The fields of a key object that can be read without unlocking it.
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
    pub(crate) wrapped: WrappedKey,
}

/// The 32 bytes that wrap master keys.
#[derive(PartialEq, Eq)]
pub struct WrappingKey(pub(crate) Zeroizing<[u8; WRAPPING_KEY_LEN]>);

/// Most rounds of PBKDF2: a lying object must not hang the process. OpenZFS defaults to 350,000; a
/// hundred million take about half a minute.
const PBKDF2_ITERS_MAX: u32 = 100_000_000;

impl fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappingKey")
    }
}

impl WrappingKey {
    /// Makes the wrapping key of `info` from what the user gave. A final newline of a hexadecimal
    /// key or passphrase is left off, as it comes from files and prompts.
    pub fn derive(info: &KeyInfo, given: &[u8]) -> std::result::Result<Self, KeyError> {
        Self::new(info.format, (info.pbkdf2_salt, info.pbkdf2_iters), given)
    }

    /// The same for a format, and the salt and rounds of a passphrase.
    pub fn new(
        format: KeyFormat,
        (salt, iters): (u64, u64),
        given: &[u8],
    ) -> std::result::Result<Self, KeyError> {
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
                let rounds = u32::try_from(iters).ok().filter(|n| *n <= PBKDF2_ITERS_MAX);
                out = pbkdf2_sha1(text, salt, rounds.ok_or(KeyError::TooManyRounds(iters))?);
            }
        }
        Ok(Self(out))
    }
}

#[derive(Default)]
struct Keys {
    /// Of datasets, by key object.
    masters: HashMap<u64, Key>,
    /// Of encryption roots, by directory: what keys of new datasets are wrapped with.
    wrapping: HashMap<u64, Arc<WrappingKey>>,
}

/// Unlocked keys. A clone has the same keys, now and later.
#[derive(Clone, Default)]
pub struct Keyring {
    keys: Arc<Mutex<Keys>>,
    /// Keys of another keyring, which are found here too.
    below: Option<Arc<Mutex<Keys>>>,
}

fn held(keys: &Mutex<Keys>) -> MutexGuard<'_, Keys> {
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keyring {
    /// The key in a key object, when it is unlocked.
    pub(crate) fn get(&self, object: u64) -> Option<Key> {
        self.find(|keys| keys.masters.get(&object).cloned())
    }

    pub(crate) fn put(&self, object: u64, key: Key) {
        held(&self.keys).masters.insert(object, key);
    }

    /// Forgets a key.
    pub(crate) fn remove(&self, object: u64) {
        held(&self.keys).masters.remove(&object);
    }

    /// The key of the encryption root in a directory.
    pub(crate) fn wrapping(&self, dir: u64) -> Option<Arc<WrappingKey>> {
        self.find(|keys| keys.wrapping.get(&dir).cloned())
    }

    pub(crate) fn put_wrapping(&self, dir: u64, key: Arc<WrappingKey>) {
        held(&self.keys).wrapping.insert(dir, key);
    }

    /// Forgets the key of an encryption root. False: it was not there.
    pub(crate) fn remove_wrapping(&self, dir: u64) -> bool {
        held(&self.keys).wrapping.remove(&dir).is_some()
    }

    /// Another directory is the encryption root.
    pub(crate) fn move_wrapping(&self, from: u64, to: u64) {
        let mut keys = held(&self.keys);
        if let Some(key) = keys.wrapping.remove(&from) {
            keys.wrapping.insert(to, key);
        }
    }

    fn find<T>(&self, what: impl Fn(&Keys) -> Option<T>) -> Option<T> {
        let own = what(&held(&self.keys));
        own.or_else(|| what(&held(self.below.as_ref()?)))
    }

    /// A keyring that has these keys too, and to which others can be added that these do not see.
    pub(crate) fn above(&self) -> Self {
        Self { keys: Arc::default(), below: Some(Arc::clone(&self.keys)) }
    }
}
