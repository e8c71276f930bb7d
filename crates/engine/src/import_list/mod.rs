//! The list of the pools that are imported on a machine, as operations of the engine need it.

use crate::error::{Error, ErrorKind, Place, Result};
use ondisk::nvlist::NvList;
use pool::Candidate;
use pool::live::LivePool;
use std::any::Any;

#[cfg(test)]
pub(crate) mod test_list;

/// The list of the pools that are imported on a machine. A pool that is imported, made or split off
/// is checked against it and added to it; where it is kept is decided by its implementation. A
/// program that keeps none has [`NoList`].
pub trait ImportList {
    /// What keeps a pool from being imported under this name.
    fn conflict(&self, pool: &Candidate, name: &str) -> Option<ImportConflict>;

    /// Whether a pool that is imported has this name, which a new one is to get.
    fn is_named(&self, name: &str) -> bool;

    /// Whether a pool could be added.
    ///
    /// # Errors
    /// The list cannot be written.
    fn check_writable(&self) -> Result<()>;

    /// As long as what this returns lives, no other process adds a pool: what was asked above is
    /// still so when the pool is added.
    fn hold(&self) -> Box<dyn Any>;

    /// Adds a pool.
    ///
    /// # Errors
    /// The list cannot be written.
    fn add(&self, entry: &ImportEntry) -> Result<()>;

    /// Takes a pool off the list: it was exported or destroyed ([`crate::pools::EndPool`]), or was
    /// added and is not there after all.
    fn remove(&self, guid: u64);

    /// Replaces the entry of a pool by its configuration of now. If that fails the pool can be used
    /// all the same.
    fn refresh(&self, pool: &LivePool);
}

/// Refuses a name that a pool of the list has.
///
/// # Errors
/// One has it.
pub fn check_name_is_free(list: &dyn ImportList, name: &str) -> Result<()> {
    match list.is_named(name) {
        true => Err(Error::new(ErrorKind::Exists).at(Place::Pool(name.to_owned()))),
        false => Ok(()),
    }
}

/// What keeps a pool from being imported under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportConflict {
    /// The pool is imported already.
    Imported,
    /// Another pool that is imported has the name.
    NameTaken,
}

/// A pool as it is added to the list.
#[derive(Clone, Debug)]
pub struct ImportEntry {
    /// Its guid.
    pub guid: u64,
    /// Its configuration.
    pub config: NvList,
    /// The name that it has here.
    pub name: String,
    /// It is only read.
    pub is_read_only: bool,
    /// The state that is read of a pool that is only read; `None`: its newest.
    pub state: Option<EarlierState>,
}

impl ImportEntry {
    /// Of a pool that can be changed, under this name.
    #[must_use]
    pub fn of(pool: &LivePool, name: &str) -> Self {
        let (guid, config, name) = (pool.guid(), pool.cache_config(), name.to_owned());
        Self { guid, config, name, is_read_only: false, state: None }
    }
}

/// A state of a pool before its newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierState {
    /// That of its checkpoint.
    Checkpoint,
    /// That of this txg.
    Txg(u64),
}

/// No list is kept: no pool conflicts with another, and the program that imports one remembers it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoList;

impl ImportList for NoList {
    fn conflict(&self, _: &Candidate, _: &str) -> Option<ImportConflict> {
        None
    }

    fn is_named(&self, _: &str) -> bool {
        false
    }

    fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    fn hold(&self) -> Box<dyn Any> {
        Box::new(())
    }

    fn add(&self, _: &ImportEntry) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _: u64) {}

    fn refresh(&self, _: &LivePool) {}
}
