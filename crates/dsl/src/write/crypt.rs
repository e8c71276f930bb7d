//! Keys of encrypted datasets: made, shared by clones, rewrapped, given up.
//!
//! # Theory
//!
//! A dataset is encrypted from its first block on or never. Its *key object* is made with it, and
//! is shared by its clones, which have blocks of it; the object counts them, and goes with the
//! last.
//! The key in it is wrapped by the key of an *encryption root*: the dataset itself, or one above it
//! (of a clone, also one elsewhere: that of its origin).
//!
//! ```text
//! create            new key, wrapped by the root's      needs the root's wrapping key
//! clone             the origin's object, counted
//! change-key        the same key, wrapped anew          needs the key, and the new wrapping key
//! rename            a dataset stays below its root, unless it is one
//! promote           a root that becomes a clone is one no more: the promoted clone is
//! destroy           counted down
//! ```
//!
//! The format, salt and iterations of the wrapping key are stored in each key object; where it is
//! kept is the property `keylocation` of the root.

use super::meta::{DslCx, ZAPIFIED};
use super::props::{PropertyChange, set_property};
use crate::error::{Error, Refusal, Result};
use crate::keyring::{KeyError, KeyFormat, KeyInfo, WrappingKey};
use crate::sealed::SealedKey;
use crate::stored::StoredValue;
use crate::tree::{Dataset, Dir, Dsl};
use codec::crypto::{HMAC_KEY_LEN, IV_LEN, MASTER_KEY_MAX, MasterKey, Suite};
use ondisk::dsl::crypt::{
    CURRENT_VERSION, GUID, HMAC_KEY, IV, KEYFORMAT, MAC, MASTER_KEY, PBKDF2_ITERS, PBKDF2_SALT,
    REFCOUNT, ROOT_DDOBJ, SUITE, VERSION,
};
use ondisk::dsl::dir_field::CRYPTO_KEY_OBJ;
use std::collections::HashSet;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Datasets that are encrypted.
pub(super) const ENCRYPTION: &str = "com.datto:encryption";

/// The key of an encryption root, as its user gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootKey {
    /// How it was given.
    pub format: KeyFormat,
    /// The key that wraps the keys of datasets.
    pub wrapping: Arc<WrappingKey>,
    /// Salt of the derivation from a passphrase; 0 in the other formats.
    pub pbkdf2_salt: u64,
    /// Its rounds; 0 in the other formats.
    pub pbkdf2_iters: u64,
    /// Where the user keeps it (property `keylocation`).
    pub location: String,
}

/// Whether a new dataset is encrypted, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// As the one above it, with that one's encryption root.
    #[default]
    Inherit,
    /// It is not.
    Off,
    /// It is.
    On {
        /// Cipher; `None`: that of the one above, where that is encrypted, or else the usual one.
        suite: Option<Suite>,
        /// It is an encryption root; `None`: it has that of the one above.
        root: Option<RootKey>,
    },
}

/// How the key of a new dataset is wrapped.
pub(super) struct NewKey {
    suite: Suite,
    /// The directory of its encryption root; `None`: its own.
    root: Option<u64>,
    key: RootKey,
}

/// The encryption of a new dataset below `parent`; `None`: it is not encrypted.
///
/// # Errors
/// It has no key to be encrypted with, that key is not loaded, or the pool lacks the feature.
pub(super) fn plan(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    (parent, name): (Option<&Dir>, &str),
    wanted: &Encryption,
) -> Result<Option<NewKey>> {
    let above = parent.map(|parent| dsl.key_info(parent)).transpose()?.flatten();
    let new = match (wanted, above) {
        (Encryption::Off, _) | (Encryption::Inherit, None) => return Ok(None),
        (Encryption::On { suite, root: Some(key) }, above) => {
            let suite = suite.or(above.map(|above| above.suite)).unwrap_or(Suite::Aes256Gcm);
            NewKey { suite, root: None, key: key.clone() }
        }
        (Encryption::On { root: None, .. }, None) => {
            return Err(Error::refused(name, Refusal::NoKeyFormat));
        }
        (Encryption::On { suite, root: None }, Some(above)) => {
            let suite = suite.unwrap_or(above.suite);
            NewKey { suite, root: Some(above.root_dir), key: inherited(dsl, &above, parent)? }
        }
        (Encryption::Inherit, Some(above)) => {
            let key = inherited(dsl, &above, parent)?;
            NewKey { suite: above.suite, root: Some(above.root_dir), key }
        }
    };
    match cx.has(ENCRYPTION)? {
        true => Ok(Some(new)),
        false => Err(Error::refused(name, Refusal::NoFeature(ENCRYPTION))),
    }
}

/// The key of the root that wraps the key of `above`, as it was loaded.
fn inherited(dsl: &Dsl, above: &KeyInfo, parent: Option<&Dir>) -> Result<RootKey> {
    let wrapping = dsl.keyring().wrapping(above.root_dir).ok_or_else(|| Error::Key {
        dataset: parent.map_or_else(String::new, |parent| parent.name.clone()),
        error: KeyError::Locked,
    })?;
    Ok(RootKey {
        format: above.format,
        wrapping,
        pbkdf2_salt: above.pbkdf2_salt,
        pbkdf2_iters: above.pbkdf2_iters,
        location: String::new(),
    })
}

/// Gives a new head the key that was planned, before its first block is written.
///
/// Changes on disk: a key object, which the directory names; the feature of the head; the property
/// `keylocation` of a root.
pub(super) fn give(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    (dir, head): (u64, u64),
    new: Option<NewKey>,
) -> Result<()> {
    let Some(NewKey { suite, root, key }) = new else { return Ok(()) };
    let mut random = Zeroizing::new([0; MASTER_KEY_MAX + HMAC_KEY_LEN]);
    cx.fill_random(&mut *random);
    let (master, hmac) = random.split_at(MASTER_KEY_MAX);
    let master = master.get(..suite.key_len()).unwrap_or_default();
    let bad =
        |_| Error::Tree { object: dir, rule: "the length of a key does not match its cipher" };
    let made = MasterKey::new(suite, cx.new_guid(), CURRENT_VERSION, master, hmac).map_err(bad)?;
    let object = cx.new_table(ZAPIFIED, 0)?;
    cx.put(object, SUITE, suite.number())?;
    cx.put(object, GUID, made.guid())?;
    cx.put(object, VERSION, CURRENT_VERSION)?;
    cx.put(object, REFCOUNT, 1)?;
    cx.put_wrapped(object, &made, root.unwrap_or(dir), &key)?;
    cx.zapify(dir)?;
    cx.put(dir, CRYPTO_KEY_OBJ, object)?;
    cx.activate(head, ENCRYPTION)?;
    dsl.keyring().put(object, Arc::new(made));
    if root.is_none() {
        dsl.keyring().put_wrapping(dir, key.wrapping);
        let table = cx.dir(dir)?.props_zap;
        cx.store_property(table, "keylocation", Some(&StoredValue::Text(key.location)))?;
    }
    Ok(())
}

/// Gives a new head the key of a raw stream. It is an encryption root, whose key the user must
/// supply.
///
/// Changes on disk: as [`give`].
pub(super) fn give_sealed(cx: &DslCx<'_>, (dir, head): (u64, u64), key: &SealedKey) -> Result<()> {
    let object = cx.new_table(ZAPIFIED, 0)?;
    cx.put(object, SUITE, key.wrapped.suite.number())?;
    cx.put(object, GUID, key.wrapped.guid)?;
    cx.put(object, VERSION, key.wrapped.version)?;
    cx.put(object, REFCOUNT, 1)?;
    cx.put_sealed(object, dir, key)?;
    cx.zapify(dir)?;
    cx.put(dir, CRYPTO_KEY_OBJ, object)?;
    cx.activate(head, ENCRYPTION)?;
    let location = StoredValue::Text("prompt".to_owned());
    cx.store_property(cx.dir(dir)?.props_zap, "keylocation", Some(&location))
}

/// Rewraps the key of a dataset as a raw stream has it: its sender may have changed the wrapping
/// key. In that case the wrapping key must be loaded again; the key itself is the same.
///
/// Changes on disk: the key object.
pub(super) fn renew_sealed(cx: &DslCx<'_>, dsl: &Dsl, dir: &Dir, key: &SealedKey) -> Result<()> {
    let Some(info) = dsl.key_info(dir)? else { return Ok(()) };
    if SealedKey::from(&info) == *key {
        return Ok(());
    }
    cx.put_sealed(info.object, info.root_dir, key)?;
    if info.root_dir == dir.object {
        dsl.keyring().remove_wrapping(dir.object);
    }
    Ok(())
}

/// Makes a dataset that was received raw an encryption root, or one of its parent's root, as its
/// sender has it. One whose root is no root itself gets that of its parent, too. No key is needed:
/// the sender guarantees that the keys are wrapped so.
///
/// Changes on disk: the root in its key object, and in those that name it; the property
/// `keylocation`.
///
/// # Errors
/// It, or what is above it, is not encrypted.
pub fn follow_root(cx: &DslCx<'_>, dsl: &Dsl, name: &str, is_root: bool) -> Result<()> {
    let dir = dsl.dir_by_name(name)?;
    let no_parent = || Error::refused(name, Refusal::ParentNotEncrypted);
    let Some(info) = dsl.key_info(&dir)? else { return Ok(()) };
    let is_now = info.root_dir == dir.object;
    if is_root == is_now && (is_now || is_root_itself(dsl, info.root_dir)?) {
        return Ok(());
    }
    let root = match is_root {
        true => dir.object,
        false => {
            let (above, _) = name.rsplit_once('/').ok_or_else(no_parent)?;
            dsl.key_info(&*dsl.dir_by_name(above)?)?.ok_or_else(no_parent)?.root_dir
        }
    };
    for (_, wrapped) in wrapped_with(dsl, &dir, &info)? {
        cx.put(wrapped.object, ROOT_DDOBJ, root)?;
    }
    let value = is_root.then(|| StoredValue::Text("prompt".to_owned()));
    set_property(cx, dsl, name, &PropertyChange { name: "keylocation".to_owned(), value })?;
    dsl.keyring().remove_wrapping(dir.object);
    Ok(())
}

impl DslCx<'_> {
    /// Writes a wrapped key into its object.
    fn put_sealed(&self, object: u64, root_dir: u64, key: &SealedKey) -> Result<()> {
        self.put_bytes(object, IV, &key.wrapped.iv)?;
        self.put_bytes(object, MAC, &key.wrapped.mac)?;
        self.put_bytes(object, MASTER_KEY, &key.wrapped.master)?;
        self.put_bytes(object, HMAC_KEY, &key.wrapped.hmac)?;
        self.put(object, ROOT_DDOBJ, root_dir)?;
        self.put(object, KEYFORMAT, key.format.number())?;
        self.put(object, PBKDF2_SALT, key.pbkdf2_salt)?;
        self.put(object, PBKDF2_ITERS, key.pbkdf2_iters)
    }

    fn fill_random(&self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            let word = (self.guid)().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn put_bytes(&self, table: u64, key: &str, bytes: &[u8]) -> Result<()> {
        let value = dmu::ZapValue { int_len: 1, values: bytes.to_vec() };
        let object = self.mos.object(table)?;
        Ok(dmu::zap::set(&object, self.tx, key.as_bytes(), &value)?)
    }

    /// Writes a key into its object, wrapped by the key of the root `root_dir`.
    fn put_wrapped(
        &self,
        object: u64,
        master: &MasterKey,
        root_dir: u64,
        key: &RootKey,
    ) -> Result<()> {
        let mut iv = [0; IV_LEN];
        self.fill_random(&mut iv);
        let bad = |_| Error::Tree { object, rule: "a key cannot be wrapped" };
        let sealed = SealedKey {
            wrapped: master.wrap(&key.wrapping.0, iv).map_err(bad)?,
            format: key.format,
            pbkdf2_salt: key.pbkdf2_salt,
            pbkdf2_iters: key.pbkdf2_iters,
        };
        self.put_sealed(object, root_dir, &sealed)
    }

    /// A clone in `to` has the key of its origin in `from`.
    pub(super) fn share_key(&self, from: u64, to: u64) -> Result<()> {
        let Some(object) = self.field(from, CRYPTO_KEY_OBJ)?.filter(|object| *object != 0) else {
            return Ok(());
        };
        let count = self.lookup(object, REFCOUNT)?.unwrap_or(1);
        self.put(object, REFCOUNT, count.saturating_add(1))?;
        self.zapify(to)?;
        self.put(to, CRYPTO_KEY_OBJ, object)
    }

    /// A directory goes: its key goes with the last that has it.
    pub(super) fn release_key(&self, dir: u64) -> Result<()> {
        let Some(object) = self.field(dir, CRYPTO_KEY_OBJ)?.filter(|object| *object != 0) else {
            return Ok(());
        };
        match self.lookup(object, REFCOUNT)?.unwrap_or(1) {
            0 | 1 => self.free_table(object),
            count => self.put(object, REFCOUNT, count - 1),
        }
    }

    /// Whether the datasets of a directory are encrypted.
    pub(super) fn is_encrypted(&self, dir: u64) -> Result<bool> {
        Ok(self.field(dir, CRYPTO_KEY_OBJ)?.is_some_and(|object| object != 0))
    }
}

/// Whether the datasets of a directory are an encryption root. One that is gone is not.
fn is_root_itself(dsl: &Dsl, root: u64) -> Result<bool> {
    for (_, dir) in dsl.walk() {
        let dir = dir?;
        if dir.object == root {
            return Ok(dsl.key_info(&dir)?.is_some_and(|info| info.root_dir == root));
        }
    }
    Ok(false)
}

/// Directories whose keys `root` wraps, with their key objects. Clones have that of their origin.
fn dirs_of_root(dsl: &Dsl, root: u64) -> Result<Vec<(Arc<Dir>, KeyInfo)>> {
    let mut out = Vec::new();
    for (_, dir) in dsl.walk() {
        let dir = dir?;
        for dir in dsl.receiving_child(&dir)?.into_iter().chain([dir]) {
            let info = dsl.key_info(&dir)?.filter(|info| info.root_dir == root);
            out.extend(info.map(|info| (dir, info)));
        }
    }
    Ok(out)
}

/// Each key object once, with a directory that has it.
fn each_once(all: Vec<(Arc<Dir>, KeyInfo)>) -> Vec<(Arc<Dir>, KeyInfo)> {
    let mut seen = HashSet::new();
    all.into_iter().filter(|(_, info)| seen.insert(info.object)).collect()
}

/// Key objects that `root` wraps, each once, with a directory that has it.
fn wrapped_by(dsl: &Dsl, root: u64) -> Result<Vec<(Arc<Dir>, KeyInfo)>> {
    Ok(each_once(dirs_of_root(dsl, root)?))
}

/// Whether a dataset, or one above it, is one of these.
fn is_in_or_below(name: &str, names: &HashSet<String>) -> bool {
    let mut at = Some(name);
    while let Some(name) = at {
        if names.contains(name) {
            return true;
        }
        at = name.rsplit_once('/').map(|(parent, _)| parent);
    }
    false
}

/// Key objects that get another root when a directory does, whose key object `info` is. Of an
/// encryption root that is all that it wraps, so that each has a root that is one. Of another it is
/// what is below it with the same root; and as clones share the key object of their origin,
/// wherever they are, what is below these as well.
fn wrapped_with(dsl: &Dsl, dir: &Dir, info: &KeyInfo) -> Result<Vec<(Arc<Dir>, KeyInfo)>> {
    let mut left = dirs_of_root(dsl, info.root_dir)?;
    if info.root_dir == dir.object {
        return Ok(each_once(left));
    }
    let (mut names, mut objects) =
        (HashSet::from([dir.name.clone()]), HashSet::from([info.object]));
    let mut out = Vec::new();
    loop {
        let is_with = |(other, wrapped): &(Arc<Dir>, KeyInfo)| {
            objects.contains(&wrapped.object) || is_in_or_below(&other.name, &names)
        };
        let (with, others): (Vec<_>, Vec<_>) = left.into_iter().partition(is_with);
        if with.is_empty() {
            return Ok(each_once(out));
        }
        names.extend(with.iter().map(|(other, _)| other.name.clone()));
        objects.extend(with.iter().map(|(_, wrapped)| wrapped.object));
        out.extend(with);
        left = others;
    }
}

/// Whether a dataset can be moved below `parent`: one that is encrypted and no encryption root
/// stays below its root.
pub(super) fn check_move(dsl: &Dsl, dir: &Dir, parent: &Dir) -> Result<()> {
    let Some(info) = dsl.key_info(dir)?.filter(|info| info.root_dir != dir.object) else {
        return Ok(());
    };
    let above = dsl.key_info(parent)?.map(|above| above.root_dir);
    match above == Some(info.root_dir) {
        true => Ok(()),
        false => Err(Error::refused(&dir.name, Refusal::LeavesRoot)),
    }
}

/// After the clone in `to` was promoted over what is in `from`: when that was the encryption root
/// of both, the clone is it now.
///
/// Changes on disk: the root in the key objects; the property `keylocation` of both.
pub(super) fn pass_root(cx: &DslCx<'_>, dsl: &Dsl, from: &Dir, to: &Dir) -> Result<()> {
    let Some(info) = dsl.key_info(from)?.filter(|info| info.root_dir == from.object) else {
        return Ok(());
    };
    for (_, wrapped) in wrapped_by(dsl, info.root_dir)? {
        cx.put(wrapped.object, ROOT_DDOBJ, to.object)?;
    }
    let head = dsl.head(&dsl.dir(from.object, from.name.clone())?)?;
    let location = head.map(|head| dsl.stored(&head)).transpose()?;
    let own = location.as_ref().and_then(|stored| stored.own().find(|(n, _)| *n == "keylocation"));
    let value = own.map_or_else(|| StoredValue::Text("prompt".to_owned()), |(_, v)| v.clone());
    cx.store_property(cx.dir(to.object)?.props_zap, "keylocation", Some(&value))?;
    cx.store_property(cx.dir(from.object)?.props_zap, "keylocation", None)?;
    dsl.keyring().move_wrapping(from.object, to.object);
    Ok(())
}

/// With what a dataset's key is to be wrapped from now on.
#[derive(Clone, Debug)]
pub enum KeyChange {
    /// With this one: it is an encryption root from now on.
    Root(RootKey),
    /// With that of the one above: it is not an encryption root any more.
    Inherit,
}

/// Whether the key of `name` can be changed. Returns its dataset and what is known of the key.
///
/// # Errors
/// It is not encrypted, locked, or what it should inherit is not there.
pub fn check_change_key(dsl: &Dsl, name: &str, change: &KeyChange) -> Result<(Dataset, KeyInfo)> {
    let head = dsl.by_name(name)?;
    let of = |error| Error::Key { dataset: name.to_owned(), error };
    if head.phys.is_snapshot() {
        return Err(Error::refused(name, Refusal::NotAHead));
    }
    let info = dsl.key_info(&head.dir)?.ok_or_else(|| of(KeyError::NotEncrypted))?;
    if !dsl.is_unlocked(&head)? {
        return Err(of(KeyError::Locked));
    }
    if matches!(change, KeyChange::Inherit) {
        if info.root_dir != head.dir.object {
            return Err(Error::refused(name, Refusal::NotAnEncryptionRoot));
        }
        new_root(dsl, &head.dir, change)?;
    }
    Ok((head, info))
}

/// The root that a change makes, and its key.
fn new_root(dsl: &Dsl, dir: &Dir, change: &KeyChange) -> Result<(u64, RootKey)> {
    if let KeyChange::Root(key) = change {
        return Ok((dir.object, key.clone()));
    }
    let no_parent = || Error::refused(&dir.name, Refusal::ParentNotEncrypted);
    let (above, _) = dir.name.rsplit_once('/').ok_or_else(no_parent)?;
    let parent = dsl.dir_by_name(above)?;
    let info = dsl.key_info(&parent)?.ok_or_else(no_parent)?;
    Ok((info.root_dir, inherited(dsl, &info, Some(&parent))?))
}

/// Rewraps the keys of a dataset, of those below it that have the same encryption root, and of
/// clones of all of these with what is below them.
///
/// Changes on disk: their key objects; the property `keylocation`.
///
/// # Errors
/// As [`check_change_key`]; one of the keys is not loaded.
pub fn change_key(cx: &DslCx<'_>, dsl: &Dsl, name: &str, change: &KeyChange) -> Result<()> {
    let (head, info) = check_change_key(dsl, name, change)?;
    let (root, key) = new_root(dsl, &head.dir, change)?;
    let mut all = Vec::new();
    for (dir, wrapped) in wrapped_with(dsl, &head.dir, &info)? {
        let locked = || Error::Key { dataset: dir.name.clone(), error: KeyError::Locked };
        let master = dsl.keyring().get(wrapped.object).ok_or_else(locked)?;
        all.push((wrapped.object, master));
    }
    for (object, master) in &all {
        cx.put_wrapped(*object, master, root, &key)?;
    }
    let value = match change {
        KeyChange::Root(key) => Some(StoredValue::Text(key.location.clone())),
        KeyChange::Inherit => None,
    };
    set_property(cx, dsl, name, &PropertyChange { name: "keylocation".to_owned(), value })?;
    match change {
        KeyChange::Root(key) => {
            dsl.keyring().put_wrapping(head.dir.object, Arc::clone(&key.wrapping));
        }
        KeyChange::Inherit => drop(dsl.keyring().remove_wrapping(head.dir.object)),
    }
    Ok(())
}

/// Encrypts the root dataset of a pool that is being made.
///
/// # Errors
/// As [`super::create_dataset`].
pub fn encrypt_root(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    (dir, head): (u64, u64),
    wanted: &Encryption,
) -> Result<()> {
    let new = plan(cx, dsl, (None, dsl.pool()), wanted)?;
    give(cx, dsl, (dir, head), new)
}
