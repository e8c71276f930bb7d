//! Keys of encrypted datasets: found in the MOS, unlocked by what the user gives.
//!
//! # Theory
//!
//! A directory of an encrypted dataset names a *key object*; clones share their origin's. It holds
//! the master key, wrapped by the key of the *encryption root*: the directory whose key format and
//! passphrase salt count. Unlocking an encryption root therefore unlocks every key object that
//! names it as its root. Unwrapping authenticates, so a wrong key is known at once.

use crate::error::{Error, Refusal, Result};
use crate::keyring::{KeyError, KeyFormat, KeyInfo, WrappingKey};
use crate::tree::{Dataset, Dir, Dsl};
use codec::crypto::{Suite, WrappedKey};
use dmu::{Objset, SealedStore, SetKey, Zap};
use ondisk::dsl::crypt::{
    GUID, HMAC_KEY, IV, KEYFORMAT, MAC, MASTER_KEY, PBKDF2_ITERS, PBKDF2_SALT, ROOT_DDOBJ, SUITE,
    VERSION,
};
use ondisk::dsl::dataset_field;
use std::sync::Arc;

impl Dsl {
    /// The fields of the key object of a directory; `None` if it is not encrypted.
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

    /// The set of IVs of a snapshot of an encrypted dataset, where it is known.
    pub fn ivset_guid(&self, snapshot: &Dataset) -> Result<Option<u64>> {
        match self.fields(snapshot.object, snapshot.has_fields)? {
            Some(fields) => Ok(fields.get_u64(dataset_field::IVSET_GUID)?),
            None => Ok(None),
        }
    }

    /// With what the object set of a dataset is changed.
    pub fn set_key(&self, dataset: &Dataset) -> Result<SetKey> {
        Ok(match self.key_object_of(dataset)? {
            Some(object) => self.keyring().get(object).map_or(SetKey::Locked, SetKey::Loaded),
            None => SetKey::None,
        })
    }

    /// Opens the object set of a dataset for what can be read without a key: where it is not
    /// unlocked, blocks that are not encrypted, and dnodes but for their bonuses.
    pub(crate) fn open_part(&self, dataset: &Dataset) -> Result<Objset> {
        let is_locked = dataset.phys.bp.uses_crypt() && !self.is_unlocked(dataset)?;
        if !is_locked {
            return self.objset(dataset);
        }
        let store = Arc::new(SealedStore::new(Arc::clone(self.mos().store())));
        Ok(Objset::open(store, dataset.object, &dataset.phys.bp, None)?)
    }

    /// True when the dataset is not encrypted or its key is unlocked.
    pub fn is_unlocked(&self, dataset: &Dataset) -> Result<bool> {
        Ok(match self.key_object_of(dataset)? {
            Some(o) => self.keyring().get(o).is_some(),
            None => true,
        })
    }

    /// Unlocks the encryption root that `name` belongs to, and every dataset under its key, with
    /// the key the user gave. Returns how many key objects were unlocked.
    pub fn load_key(&self, name: &str, given: &[u8]) -> Result<usize> {
        let info = self.needed_key(name)?;
        let fail = |error| Error::Key { dataset: name.to_owned(), error };
        self.unlock_with(name, WrappingKey::derive(&info, given).map_err(fail)?)
    }

    /// Whether what the user gave is the key of the encryption root that `name` belongs to.
    pub fn check_key(&self, name: &str, given: &[u8]) -> Result<()> {
        let info = self.needed_key(name)?;
        let fail = |error| Error::Key { dataset: name.to_owned(), error };
        let wrapping = WrappingKey::derive(&info, given).map_err(fail)?;
        info.wrapped.unwrap(&wrapping.0).map_err(|_| fail(KeyError::Wrong)).map(drop)
    }

    /// The key that `name` needs.
    ///
    /// # Errors
    /// It is not encrypted.
    pub fn needed_key(&self, name: &str) -> Result<KeyInfo> {
        let fail = |error| Error::Key { dataset: name.to_owned(), error };
        self.key_info(&*self.dir_by_name(name)?)?.ok_or_else(|| fail(KeyError::NotEncrypted))
    }

    /// [`Self::load_key`] with a wrapping key that was already derived.
    pub fn unlock_with(&self, name: &str, wrapping: WrappingKey) -> Result<usize> {
        let info = self.needed_key(name)?;
        let fail = |error| Error::Key { dataset: name.to_owned(), error };
        self.unlock(&info, &wrapping).map_err(fail)?;
        let mut unlocked = 1;
        for (_, other) in self.walk() {
            let Ok(other) = other else { continue };
            let Ok(Some(sibling)) = self.key_info(&other) else { continue };
            let new = sibling.root_dir == info.root_dir && sibling.object != info.object;
            if new && self.keyring().get(sibling.object).is_none() {
                // A sibling under the same root that does not unwrap is damaged, not locked: its
                // dataset stays locked and fails when it is opened.
                unlocked += usize::from(self.unlock(&sibling, &wrapping).is_ok());
            }
        }
        self.keyring().put_wrapping(info.root_dir, Arc::new(wrapping));
        Ok(unlocked)
    }

    /// The key of the encryption root in a directory is loaded.
    #[must_use]
    pub fn has_root_key(&self, dir: u64) -> bool {
        self.keyring().wrapping(dir).is_some()
    }

    /// The heads whose keys the encryption root `name` wraps.
    ///
    /// # Errors
    /// It is not an encryption root.
    pub fn under_root(&self, name: &str) -> Result<Vec<Dataset>> {
        let root = self.dir_by_name(name)?;
        let info = self.needed_key(name)?;
        if info.root_dir != root.object {
            return Err(Error::refused(name, Refusal::NotAnEncryptionRoot));
        }
        let mut out = Vec::new();
        for (_, dir) in self.walk() {
            let dir = dir?;
            if self.key_info(&dir)?.is_some_and(|info| info.root_dir == root.object) {
                out.extend(self.head(&dir)?);
            }
        }
        Ok(out)
    }

    /// Forgets the key of the encryption root `name`, and those that it wraps.
    ///
    /// # Errors
    /// It is not an encryption root, or its key is not loaded.
    pub fn unload_key(&self, name: &str) -> Result<()> {
        let heads = self.under_root(name)?;
        let root = self.dir_by_name(name)?.object;
        if !self.keyring().remove_wrapping(root) {
            return Err(Error::Key { dataset: name.to_owned(), error: KeyError::Locked });
        }
        for head in heads {
            if let Some(object) = self.key_object_of(&head)? {
                self.keyring().remove(object);
            }
        }
        Ok(())
    }

    fn unlock(&self, info: &KeyInfo, wrapping: &WrappingKey) -> std::result::Result<(), KeyError> {
        let master = info.wrapped.unwrap(&wrapping.0).map_err(|_| KeyError::Wrong)?;
        self.keyring().put(info.object, Arc::new(master));
        Ok(())
    }
}
