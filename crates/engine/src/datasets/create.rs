//! Making file systems and volumes.
//!
//! The properties of a new dataset come from three places: those that were given, those of its
//! parent, and the kind of dataset. A file system treats names as its parent does
//! ([`names_below`]), unless it has properties of its own for that. A volume has whole blocks, and
//! reserves what it takes to write all of it, so that a disk made of it never meets a full pool; a
//! sparse volume reserves nothing.

use super::names::parent;
use super::reserve;
use crate::error::{Error, ErrorKind, Hint, Place, Result, Rule};
use crate::keys::{KeyOptions, RequiredKey, is_encrypted};
use crate::owners::OwnerQuota;
use crate::values::{self, number};
use dsl::write::{NameKind, PropertyChange, RootKey, check_create, check_name};
use dsl::{DatasetKind, Dsl, Refusal, StoredValue};
use ondisk::znode::ZPL_VERSION_MAX;
use pool::Pool;
use pool::live::{LivePool, NewFilesystem};
use zpl::CaseSensitivity;

/// The default block size of volumes.
const VOLBLOCKSIZE: u64 = 16 << 10;
/// Largest block size of a volume.
const VOLBLOCKSIZE_MAX: u64 = 128 << 10;

/// A file system or volume to be made.
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// use engine::datasets::Create;
///
/// Create::filesystem("tank/home")?.set("compression", "zstd")?.run(&pool)?;
/// let disk = Create::volume("tank/vm/disk", 10_000_000)?.set("volblocksize", "8K")?;
/// assert_eq!(disk.volume_size(), Some(10_002_432));
/// assert!(disk.reserves(pool.view()) > disk.volume_size());
/// disk.with_parents().run(&pool)?;
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Create {
    name: String,
    volume: Option<NewVolume>,
    properties: Vec<PropertyChange>,
    parents: bool,
    /// User and group of its root directory.
    owner: (u64, u64),
    wish: KeyOptions,
    root_key: Option<RootKey>,
    quotas: Vec<OwnerQuota>,
}

/// User and group of directories for which no others were named.
pub(super) const ROOT: (u64, u64) = (0, 0);

#[derive(Clone, Copy, Debug)]
struct NewVolume {
    size: u64,
    block_size: u64,
    sparse: bool,
}

impl Create {
    fn new(name: &str, volume: Option<NewVolume>) -> Result<Self> {
        let at = || Place::Dataset(name.to_owned());
        match check_name(name)? {
            NameKind::Dataset if name.contains('/') => {}
            NameKind::Dataset => {
                return Err(dsl::Error::refused(name, Refusal::PoolRoot).into());
            }
            _ => return Err(Error::against(Rule::HeadName).at(at())),
        }
        Ok(Self {
            name: name.to_owned(),
            volume,
            properties: Vec::new(),
            parents: false,
            owner: ROOT,
            wish: KeyOptions::default(),
            root_key: None,
            quotas: Vec::new(),
        })
    }

    /// A file system.
    ///
    /// # Errors
    /// No file system can have that name.
    pub fn filesystem(name: &str) -> Result<Self> {
        Self::new(name, None)
    }

    /// A volume that has at least `size` bytes: its last block is whole.
    ///
    /// # Errors
    /// No volume can have that name.
    pub fn volume(name: &str, size: u64) -> Result<Self> {
        let volume = NewVolume { size, block_size: VOLBLOCKSIZE, sparse: false };
        Self::new(name, Some(volume))
    }

    fn kind(&self) -> DatasetKind {
        match self.volume {
            Some(_) => DatasetKind::Volume,
            None => DatasetKind::Filesystem,
        }
    }

    /// Gives it a property, from a text as users write it.
    ///
    /// # Errors
    /// It cannot have that property, or not that value.
    pub fn set(self, property: &str, value: &str) -> Result<Self> {
        let change = values::parse(property, value, self.kind(), true)?;
        self.with(vec![change])
    }

    /// Sets properties. Those that make a volume (size, block size) are separated from the others.
    ///
    /// # Errors
    /// A volume cannot have blocks of that size.
    pub fn with(mut self, mut changes: Vec<PropertyChange>) -> Result<Self> {
        self.wish.add(KeyOptions::of(&mut changes));
        for change in changes {
            let value = match change.value {
                Some(StoredValue::Number(n)) => Some(n),
                _ => None,
            };
            match (change.name.as_str(), value, &mut self.volume) {
                ("volsize", Some(n), Some(volume)) => volume.size = n,
                ("volblocksize", Some(n), Some(_)) if n > VOLBLOCKSIZE_MAX => {
                    let at = Place::Property(change.name);
                    return Err(Error::against(Rule::BlockSize).at(at).of(&self.name));
                }
                ("volblocksize", Some(n), Some(volume)) => volume.block_size = n.max(1),
                _ => self.properties.push(change),
            }
        }
        Ok(self)
    }

    /// Gives a file system this quota of an owner of files: there is no file in it before.
    #[must_use]
    pub fn limit(mut self, quota: OwnerQuota) -> Self {
        self.quotas.push(quota);
        self
    }

    /// The key that it needs of its own: where that is `Some`, [`Self::with_key`] gives it.
    ///
    /// # Errors
    /// It cannot be encrypted like that.
    pub fn required_key(&self, pool: &Pool) -> Result<Option<RequiredKey>> {
        if self.is_done(pool) {
            return Ok(None);
        }
        // Missing parents are encrypted like the nearest dataset that exists.
        let ends = self.name.rmatch_indices('/').map(|(at, _)| at);
        let above = ends.filter_map(|at| self.name.get(..at));
        let mut above = above.filter(|name| pool.datasets().dir_by_name(name).is_ok());
        self.wish.required_key(above.next().is_some_and(|name| is_encrypted(pool, name)))
    }

    /// Whether a key is used that a dataset above it has.
    #[must_use]
    pub fn uses_key_above(&self, pool: &Pool) -> bool {
        let dsl = pool.datasets();
        !self.wish.is_off() || self.parents && !missing_above(&dsl, &self.name).is_empty()
    }

    /// Gives it its own key, which its user gave.
    ///
    /// # Errors
    /// It needs none, or what was given is not of its format.
    pub fn with_key(mut self, pool: &LivePool, given: &[u8]) -> Result<Self> {
        if let Some(wanted) = self.required_key(pool.view())? {
            self.root_key = Some(self.wish.root_key(pool.rt(), &wanted, given)?);
        }
        Ok(self)
    }

    /// A volume reserves nothing.
    #[must_use]
    pub fn sparse(mut self) -> Self {
        if let Some(volume) = &mut self.volume {
            volume.sparse = true;
        }
        self
    }

    /// Its root directory, and that of what is made above it, belongs to this user and group;
    /// otherwise to root.
    #[must_use]
    pub fn owned_by(mut self, user: u64, group: u64) -> Self {
        self.owner = (user, group);
        self
    }

    /// Makes what is missing above it too, and nothing when it is there.
    #[must_use]
    pub fn with_parents(mut self) -> Self {
        self.parents = true;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the volume, in whole blocks.
    #[must_use]
    pub fn volume_size(&self) -> Option<u64> {
        // A size that is beyond 64 bits when rounded up is refused as too large when the volume is
        // made.
        let whole = |v: &NewVolume| v.size.checked_next_multiple_of(v.block_size);
        self.volume.as_ref().map(|v| whole(v).unwrap_or(u64::MAX))
    }

    /// Bytes of its blocks.
    #[must_use]
    pub fn block_size(&self) -> Option<u64> {
        self.volume.map(|v| v.block_size)
    }

    /// Bytes that a volume reserves in this pool if its reservation was not given.
    #[must_use]
    pub fn reserves(&self, pool: &Pool) -> Option<u64> {
        let volume = self.volume.filter(|v| !v.sparse)?;
        let is_reservation =
            |c: &PropertyChange| ["refreservation", "reservation"].contains(&&*c.name);
        if self.properties.iter().any(is_reservation) {
            return None;
        }
        let copies = number(&self.properties, "copies").unwrap_or(1);
        let root = &pool.config().vdev_tree;
        Some(reserve::for_volume(self.volume_size()?, volume.block_size, copies, root))
    }

    /// Whether the dataset exists already and nothing more is requested.
    #[must_use]
    pub fn is_done(&self, pool: &Pool) -> bool {
        let dsl = pool.datasets();
        self.parents && dsl.dir_by_name(&self.name).is_ok()
    }

    /// Whether it could be made, as far as can be seen without making it.
    ///
    /// # Errors
    /// Why it could not.
    pub fn check(&self, pool: &Pool) -> Result<()> {
        let dsl = pool.datasets();
        if self.parents && !missing_above(&dsl, &self.name).is_empty() {
            return Ok(());
        }
        check_create(&dsl, &self.name).map_err(|e| below_missing(&self.name, e.into()))?;
        Ok(())
    }

    /// Makes it; durable when this returns.
    ///
    /// # Errors
    /// It was not made, or cannot have a quota of an owner and was destroyed again. Missing parents
    /// may have been made.
    pub fn run(&self, pool: &LivePool) -> Result<()> {
        if self.is_done(pool.view()) {
            return Ok(());
        }
        if self.parents {
            make_above(pool, &self.name, self.owner)?;
        }
        self.check(pool.view())?;
        OwnerQuota::check_new(pool, (&self.name, self.kind()), &self.quotas)?;
        if self.root_key.is_none() && self.required_key(pool.view())?.is_some() {
            return Err(Error::new(ErrorKind::NoKey).at(Place::Dataset(self.name.clone())));
        }
        let encryption = self.wish.encryption(self.root_key.clone());
        let mut changes = self.properties.clone();
        let (Some(volume), Some(size)) = (&self.volume, self.volume_size()) else {
            let new = {
                let dsl = pool.view().datasets();
                names_below(&dsl, parent(&self.name), &changes)?
            };
            let new = owned(new, self.owner);
            pool.create_filesystem_as(&self.name, new, changes, encryption)?;
            return OwnerQuota::set_new(pool, &self.name, &self.quotas);
        };
        if let Some(bytes) = self.reserves(pool.view()) {
            changes.push(values::number_change("refreservation", bytes));
        }
        let block_size = u32::try_from(volume.block_size).unwrap_or(u32::MAX);
        let shape = (size, block_size);
        Ok(pool.create_volume_as(&self.name, shape, changes, encryption)?)
    }
}

/// Says that parents can be made, when it is the one above that is missing.
pub(super) fn below_missing(name: &str, error: Error) -> Error {
    let missing = error.kind() == &crate::ErrorKind::NotFound
        && error.dataset().is_some_and(|missing| missing == parent(name));
    if missing { error.with_hint(Hint::CreateParents) } else { error }
}

/// Names above `name` that are not there, the highest first.
fn missing_above(dsl: &Dsl, name: &str) -> Vec<String> {
    let ends = name.match_indices('/').map(|(at, _)| at);
    let above = ends.filter_map(|at| name.get(..at));
    above.filter(|n| n.contains('/') && dsl.dir_by_name(n).is_err()).map(str::to_owned).collect()
}

/// Makes what is missing above `name`.
pub(super) fn make_above(pool: &LivePool, name: &str, owner: (u64, u64)) -> Result<()> {
    let all = {
        let dsl = pool.view().datasets();
        missing_above(&dsl, name)
    };
    for missing in all {
        let new = {
            let dsl = pool.view().datasets();
            names_below(&dsl, parent(&missing), &[])?
        };
        pool.create_filesystem(&missing, owned(new, owner), Vec::new())?;
    }
    Ok(())
}

/// The same, for what is received.
pub(crate) fn make_missing_above(pool: &LivePool, name: &str) -> Result<()> {
    make_above(pool, name, ROOT)
}

/// The same with a root directory of this user and group.
fn owned(new: NewFilesystem, (user, group): (u64, u64)) -> NewFilesystem {
    let (.., mode) = new.root;
    NewFilesystem { root: (user, group, mode), ..new }
}

/// How a new file system below `parent` treats names: as its own properties say, or as its parent
/// does.
fn names_below(dsl: &Dsl, parent: &str, changes: &[PropertyChange]) -> Result<NewFilesystem> {
    let parent = dsl.by_name(parent)?;
    let wanted = |name: &str| -> Result<u64> {
        match number(changes, name) {
            Some(n) => Ok(n),
            // Nothing is made below a volume.
            None if dsl.kind(&parent) == DatasetKind::Volume => Ok(0),
            None => Ok(dsl.made_with(&parent, name)?),
        }
    };
    let takes_bytes = number(changes, "utf8only") == Some(0);
    let normalization = match number(changes, "normalization") {
        Some(1..) if takes_bytes => {
            let property = Place::Property("utf8only".to_owned());
            return Err(Error::against(Rule::NamesOfBytes).at(property));
        }
        // It does not go with the parent's.
        None if takes_bytes => 0,
        _ => wanted("normalization")?,
    };
    let case = match wanted("casesensitivity")? {
        1 => CaseSensitivity::Insensitive,
        2 => CaseSensitivity::Mixed,
        _ => CaseSensitivity::Sensitive,
    };
    // Names can only be normalised when they are text.
    let utf8_only = normalization != 0 || wanted("utf8only")? != 0;
    let version = number(changes, "version").unwrap_or(ZPL_VERSION_MAX);
    Ok(NewFilesystem { case, normalization, utf8_only, version, ..NewFilesystem::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_has_whole_blocks() {
        let volume = Create::volume("p/v", 10_000).unwrap().set("volblocksize", "8K").unwrap();
        assert_eq!((volume.volume_size(), volume.block_size()), (Some(16384), Some(8192)));
        let other = volume.set("volsize", "1M").unwrap();
        assert_eq!(other.volume_size(), Some(1 << 20));
        let huge = Create::volume("p/v", u64::MAX).unwrap();
        assert_eq!(huge.volume_size(), Some(u64::MAX));
    }

    #[test]
    fn what_no_dataset_can_be_is_refused_at_once() {
        for bad in ["p", "p/a@x", "p/a#b", "p//a", ""] {
            assert!(Create::filesystem(bad).is_err(), "{bad}");
        }
        let volume = Create::volume("p/v", 1 << 20).unwrap();
        assert!(volume.clone().set("recordsize", "8K").is_err());
        assert!(volume.set("volblocksize", "1M").is_err());
    }
}
