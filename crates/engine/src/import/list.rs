//! The pools that are imported on a machine, as an import needs them.

use crate::error::Result;
use ondisk::nvlist::NvList;
use pool::Candidate;
use pool::live::LivePool;

/// The list of the pools that are imported on a machine. An import is checked against it and added
/// to it; where it is kept is decided by its implementation. A program that keeps none has
/// [`NoList`].
pub trait ImportList {
    /// What keeps a pool from being imported under this name.
    fn conflict(&self, pool: &Candidate, name: &str) -> Option<ImportConflict>;

    /// Whether a pool could be added.
    ///
    /// # Errors
    /// The list cannot be written.
    fn check_writable(&self) -> Result<()>;

    /// Adds a pool if `check` succeeds. From before `check` until the pool is added, no other
    /// process adds one.
    ///
    /// # Errors
    /// That of `check`, or the list cannot be written.
    fn add(&self, entry: &ImportEntry, check: &dyn Fn() -> Result<()>) -> Result<()>;

    /// Replaces the entry of a pool by its configuration of now. If that fails the pool can be used
    /// all the same.
    fn refresh(&self, pool: &LivePool);
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
    /// Its configuration.
    pub config: NvList,
    /// The name that it has here.
    pub name: String,
    /// It is only read.
    pub is_read_only: bool,
    /// The state that is read of a pool that is only read; `None`: its newest.
    pub state: Option<EarlierState>,
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

    fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    fn add(&self, _: &ImportEntry, check: &dyn Fn() -> Result<()>) -> Result<()> {
        check()
    }

    fn refresh(&self, _: &LivePool) {}
}
