//! Keys of encrypted datasets: the requirements of a new one, and loading, unloading and changing
//! them.
//!
//! The encryption properties of a dataset are collected ([`KeyOptions`]) and checked; where they
//! need a key, the caller gets it from its user, in the format and from the place that the
//! properties name.

use crate::error::{Error, ErrorKind, Place, Result, Rule};
use crate::values::number;
use codec::crypto::Suite;
pub use dsl::write::{Encryption, KeyChange};
use dsl::write::{PropertyChange, RootKey};
use dsl::{Dsl, KeyError, StoredValue, WrappingKey};
pub use dsl::{KeyFormat, KeyInfo};
use pool::Pool;
use pool::live::LivePool;
use rt::Rt;
use std::sync::Arc;

/// The default number of PBKDF2 iterations, and the fewest that a new key can have.
const PBKDF2_ITERS: u64 = 350_000;
const PBKDF2_ITERS_MIN: u64 = 100_000;
/// The number of `encryption=off`.
const OFF: u64 = 2;

/// The encryption properties given for a dataset.
///
/// ```
/// use engine::keys::{KeyFormat, KeyOptions};
/// use engine::{DatasetKind, Rt, properties};
///
/// let texts = [("encryption", "on"), ("keyformat", "passphrase"), ("atime", "off")];
/// let mut changes = properties::parse_all(texts, DatasetKind::Filesystem, true)?;
/// let wish = KeyOptions::of(&mut changes);
/// assert_eq!(changes.len(), 1, "the others are left");
/// // Below what is not encrypted it needs a key of its own, which its user is asked for.
/// let wanted = wish.required_key(false)?.expect("a key");
/// assert_eq!((wanted.format, wanted.location.as_str()), (KeyFormat::Passphrase, "prompt"));
/// assert!(wish.root_key(&Rt::real(), &wanted, b"short").is_err());
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct KeyOptions {
    encryption: Option<u64>,
    format: Option<u64>,
    location: Option<String>,
    iters: Option<u64>,
}

/// The properties that a [`KeyOptions`] is made of.
#[must_use]
pub fn is_of_key(property: &str) -> bool {
    ["encryption", "keyformat", "keylocation", "pbkdf2iters"].contains(&property)
}

/// Refuses a value that `keylocation` cannot have.
///
/// # Errors
/// [`ErrorKind::BadValue`].
pub(crate) fn check_location(value: &str) -> Result<()> {
    let is_path = |path: &str| !path.is_empty() && !path.contains('\0');
    let urls = ["file:///", "https://", "http://"];
    if ["none", "prompt"].contains(&value)
        || urls.iter().any(|start| value.strip_prefix(start).is_some_and(is_path))
    {
        return Ok(());
    }
    let (property, value) = ("keylocation".to_owned(), value.to_owned());
    Err(Error::new(ErrorKind::BadValue { property, value }))
}

/// A key that the caller is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredKey {
    /// Its format.
    pub format: KeyFormat,
    /// Where it is: `prompt`, or a URL.
    pub location: String,
}

impl KeyOptions {
    /// Takes what is about encryption out of these changes.
    #[must_use]
    pub fn of(changes: &mut Vec<PropertyChange>) -> Self {
        let text = |name: &str| match &changes.iter().find(|c| c.name == name)?.value {
            Some(StoredValue::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let wish = Self {
            encryption: number(changes, "encryption"),
            format: number(changes, "keyformat"),
            location: text("keylocation"),
            iters: number(changes, "pbkdf2iters"),
        };
        changes.retain(|change| !is_of_key(&change.name));
        wish
    }

    /// Later settings override earlier ones.
    pub(crate) fn add(&mut self, later: Self) {
        self.encryption = later.encryption.or(self.encryption);
        self.format = later.format.or(self.format);
        self.location = later.location.or_else(|| self.location.take());
        self.iters = later.iters.or(self.iters);
    }

    /// No property was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { encryption, format, location, iters } = self;
        encryption.is_none() && format.is_none() && location.is_none() && iters.is_none()
    }

    /// It is not to be encrypted, whatever is above it.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.encryption == Some(OFF)
    }

    /// The key that a new dataset needs of its own, when what is above it is encrypted or not;
    /// `None`: it has that of the one above, or is not encrypted.
    ///
    /// # Errors
    /// No dataset can be like that.
    pub fn required_key(&self, is_above_encrypted: bool) -> Result<Option<RequiredKey>> {
        let against = |rule, property: &str| {
            Err(Error::against(rule).at(Place::Property(property.to_owned())))
        };
        let says_key = self.format.is_some() || self.location.is_some() || self.iters.is_some();
        let is_on = self.encryption.map_or(is_above_encrypted, |n| n != OFF);
        if !is_on {
            let rule = Rule::KeyWithoutEncryption;
            return if says_key { against(rule, "encryption") } else { Ok(None) };
        }
        let Some(format) = self.format.and_then(KeyFormat::from_number) else {
            return match says_key || !is_above_encrypted {
                true => against(Rule::NoKeyFormat, "keyformat"),
                false => Ok(None),
            };
        };
        match (format, self.iters) {
            (KeyFormat::Passphrase, None) | (KeyFormat::Raw | KeyFormat::Hex, None) => {}
            (KeyFormat::Passphrase, Some(iters)) if iters >= PBKDF2_ITERS_MIN => {}
            (KeyFormat::Passphrase, Some(_)) => return against(Rule::FewRounds, "pbkdf2iters"),
            _ => return against(Rule::RoundsOfKey, "pbkdf2iters"),
        }
        let location = self.location.clone().unwrap_or_else(|| "prompt".to_owned());
        if location == "none" {
            return against(Rule::KeylocationOfEncrypted, "keylocation");
        }
        check_location(&location)?;
        Ok(Some(RequiredKey { format, location }))
    }

    /// The key that [`Self::required_key`] wants, from what its user gave.
    ///
    /// # Errors
    /// It is not of that format.
    pub fn root_key(&self, rt: &Rt, wanted: &RequiredKey, given: &[u8]) -> Result<RootKey> {
        let RequiredKey { format, location } = wanted.clone();
        let rounds = match format {
            KeyFormat::Passphrase => (rt.random_u64(), self.iters.unwrap_or(PBKDF2_ITERS)),
            KeyFormat::Raw | KeyFormat::Hex => (0, 0),
        };
        let wrapping = WrappingKey::new(format, rounds, given).map_err(|error| {
            // There may be no dataset yet.
            Error::from(dsl::Error::Key { dataset: String::new(), error })
                .at(Place::Property("keyformat".to_owned()))
                .because(error)
        })?;
        let (pbkdf2_salt, pbkdf2_iters) = rounds;
        Ok(RootKey { format, wrapping: Arc::new(wrapping), pbkdf2_salt, pbkdf2_iters, location })
    }

    /// How a new dataset is encrypted, with its own key where it has one.
    #[must_use]
    pub fn encryption(&self, root: Option<RootKey>) -> Encryption {
        match (self.encryption, root) {
            (None, None) => Encryption::Inherit,
            (Some(OFF), _) => Encryption::Off,
            (n, root) => Encryption::On { suite: n.and_then(Suite::from_number), root },
        }
    }
}

/// Whether the file system of this name is encrypted; false where there is none.
#[must_use]
pub fn is_encrypted(pool: &Pool, name: &str) -> bool {
    let dsl = pool.datasets();
    let dir = dsl.dir_by_name(name);
    dir.and_then(|dir| dsl.key_object(&dir)).is_ok_and(|object| object.is_some())
}

/// An encryption root.
#[derive(Clone, Debug)]
pub struct EncryptionRoot {
    /// The name of the dataset.
    pub name: String,
    /// How its key is given.
    pub format: KeyFormat,
    /// Where its key is (property `keylocation`).
    pub location: String,
    /// The key is loaded.
    pub is_loaded: bool,
}

impl EncryptionRoot {
    /// Whether its key is still to be loaded.
    ///
    /// # Errors
    /// It is loaded.
    pub fn check_locked(&self) -> Result<()> {
        match self.is_loaded {
            true => Err(Error::against(Rule::KeyLoaded).at(Place::Dataset(self.name.clone()))),
            false => Ok(()),
        }
    }
}

/// The encryption root at `name`.
///
/// # Errors
/// There is no such dataset, it is not encrypted, or has the key of another.
pub fn root_at(pool: &Pool, name: &str) -> Result<EncryptionRoot> {
    let dsl = pool.datasets();
    let dataset = dsl.by_name(name)?;
    let info = dsl.needed_key(name)?;
    if info.root_dir != dataset.dir.object {
        let root = dsl.dir_name(info.root_dir)?;
        return Err(Error::against(Rule::NotAnEncryptionRoot).at(Place::Dataset(root)).of(name));
    }
    described(&dsl, &dataset, &info)
}

/// The encryption root that the dataset `name` has the key of; `None`: it is not encrypted, or not
/// there.
#[must_use]
pub fn root_of(pool: &Pool, name: &str) -> Option<EncryptionRoot> {
    let name = name.split(['@', '#']).next().unwrap_or(name);
    let root = {
        let dsl = pool.datasets();
        let info = dsl.needed_key(name).ok()?;
        dsl.dir_name(info.root_dir).ok()?
    };
    root_at(pool, &root).ok()
}

/// The encryption root whose key is still to be loaded before `name` can be made or received: that
/// of the dataset, or of the nearest one above that is there. `None`: none is needed.
///
/// ```
/// use engine::{Create, NewPool, keys};
///
/// let pool = NewPool::new("tank").memory(128 << 20).create()?;
/// let new = Create::filesystem("tank/secret")?.set("encryption", "on")?.set("keyformat", "raw")?;
/// new.with_key(&pool, &[7; 32])?.run(&pool)?;
/// keys::unload(&pool, "tank/secret")?;
/// let needed = |name: &str| keys::needed_by(pool.view(), name).map(|root| root.name);
/// assert_eq!(needed("tank/secret/a/b").as_deref(), Some("tank/secret"));
/// assert_eq!(needed("tank/plain"), None);
/// keys::load(&pool, "tank/secret", &[7; 32])?;
/// assert_eq!(needed("tank/secret/a/b"), None);
/// # Ok::<(), engine::Error>(())
/// ```
#[must_use]
pub fn needed_by(pool: &Pool, name: &str) -> Option<EncryptionRoot> {
    let mut above = std::iter::successors(Some(name), |n| Some(n.rsplit_once('/')?.0));
    let there = above.find(|n| pool.datasets().dir_by_name(n).is_ok())?;
    root_of(pool, there).filter(|root| !root.is_loaded)
}

/// The encryption roots whose keys are still to be loaded before the key of `name` can be changed:
/// its own one, and behind it the one above, when `name` is to have the key of that from then on.
///
/// ```
/// use engine::{Create, NewPool, keys};
///
/// let pool = NewPool::new("tank").memory(128 << 20).create()?;
/// for (name, key) in [("tank/a", [7; 32]), ("tank/a/b", [8; 32])] {
///     let new = Create::filesystem(name)?.set("encryption", "on")?.set("keyformat", "raw")?;
///     new.with_key(&pool, &key)?.run(&pool)?;
/// }
/// keys::unload(&pool, "tank/a/b")?;
/// keys::unload(&pool, "tank/a")?;
/// let needed = |inherits| {
///     let needed = keys::needed_to_change(pool.view(), "tank/a/b", inherits);
///     needed.into_iter().map(|root| root.name).collect::<Vec<_>>()
/// };
/// assert_eq!(needed(false), ["tank/a/b"]);
/// assert_eq!(needed(true), ["tank/a/b", "tank/a"]);
/// keys::load(&pool, "tank/a/b", &[8; 32])?;
/// assert_eq!(needed(true), ["tank/a"]);
/// # Ok::<(), engine::Error>(())
/// ```
#[must_use]
pub fn needed_to_change(pool: &Pool, name: &str, inherits: bool) -> Vec<EncryptionRoot> {
    let above = name.rsplit_once('/').filter(|_| inherits).map(|(above, _)| above);
    let mut needed: Vec<EncryptionRoot> = Vec::new();
    for root in std::iter::once(name).chain(above).filter_map(|of| root_of(pool, of)) {
        if !root.is_loaded && needed.iter().all(|other| other.name != root.name) {
            needed.push(root);
        }
    }
    needed
}

fn described(dsl: &Dsl, dataset: &dsl::Dataset, info: &KeyInfo) -> Result<EncryptionRoot> {
    let location = match dsl.stored(dataset)?.get("keylocation") {
        Some((StoredValue::Text(text), _)) => text.clone(),
        _ => "prompt".to_owned(),
    };
    let is_loaded = dsl.has_root_key(dataset.dir.object);
    Ok(EncryptionRoot { name: dataset.name.clone(), format: info.format, location, is_loaded })
}

/// All encryption roots at `name` and below, parents first; of all datasets when it is a pool's.
///
/// # Errors
/// There is no such dataset, or it cannot be read.
pub fn roots_below(pool: &Pool, name: &str) -> Result<Vec<EncryptionRoot>> {
    let dsl = pool.datasets();
    dsl.dir_by_name(name)?;
    let mut out = Vec::new();
    for (found, dir) in dsl.walk() {
        if !dsl::names::is_within(&found, name) {
            continue;
        }
        let dir = dir?;
        let Some(info) = dsl.key_info(&dir)?.filter(|info| info.root_dir == dir.object) else {
            continue;
        };
        if let Some(head) = dsl.head(&dir)? {
            out.push(described(&dsl, &head, &info)?);
        }
    }
    Ok(out)
}

/// The datasets that have the key of the encryption root `name`.
///
/// # Errors
/// It is none, or they cannot be read.
pub fn datasets_of(pool: &Pool, name: &str) -> Result<Vec<String>> {
    let dsl = pool.datasets();
    Ok(dsl.under_root(name)?.into_iter().map(|head| head.name).collect())
}

/// Whether what its user gave is the key of the encryption root that `name` belongs to: nothing is
/// loaded.
///
/// # Errors
/// It is not.
pub fn verify(pool: &Pool, name: &str, given: &[u8]) -> Result<()> {
    let dsl = pool.datasets();
    Ok(dsl.check_key(name, given)?)
}

/// Loads the key of an encryption root.
///
/// # Errors
/// It is loaded already, or what was given is not the key.
pub fn load(pool: &LivePool, name: &str, given: &[u8]) -> Result<()> {
    root_at(pool.view(), name)?.check_locked()?;
    pool.load_key(name, given)?;
    Ok(())
}

/// Unloads the key of an encryption root.
///
/// # Errors
/// It is not loaded, or one of its datasets is in use.
pub fn unload(pool: &LivePool, name: &str) -> Result<()> {
    if !root_at(pool.view(), name)?.is_loaded {
        return Err(Error::against(Rule::KeyNotLoaded).at(Place::Dataset(name.to_owned())));
    }
    Ok(pool.unload_key(name)?)
}

/// Returns what is needed to change the key of `name`; without a new format, the current one is
/// kept.
///
/// # Errors
/// It is not encrypted, its key is not loaded, or nothing can be like that.
pub fn required_change(
    pool: &Pool,
    name: &str,
    wish: &KeyOptions,
) -> Result<(KeyOptions, RequiredKey)> {
    let (info, location) = {
        let dsl = pool.datasets();
        let head = dsl.by_name(name)?;
        let info = dsl.needed_key(name)?;
        if !dsl.is_unlocked(&head)? {
            let (dataset, error) = (name.to_owned(), KeyError::Locked);
            return Err(dsl::Error::Key { dataset, error }.into());
        }
        let is_root = info.root_dir == head.dir.object;
        let location = is_root.then(|| described(&dsl, &head, &info)).transpose()?;
        (info, location.map(|root| root.location))
    };
    if location.is_none() && wish.format.is_none() {
        let at = Place::Property("keyformat".to_owned());
        return Err(Error::against(Rule::NoKeyFormat).at(at));
    }
    let mut wish = wish.clone();
    wish.format = wish.format.or(Some(info.format.number()));
    if wish.location.is_none() && wish.format == Some(info.format.number()) {
        wish.location = location;
    }
    match wish.required_key(true)? {
        Some(wanted) => Ok((wish, wanted)),
        None => Err(Error::against(Rule::NoKeyFormat).at(Place::Property("keyformat".to_owned()))),
    }
}
