//! A pool that a process keeps open for others: for writing, or for reading alone.
//!
//! Front ends that show the contents of a pool (mounts, exports) work with either. The differences
//! between the two are here: which state of a dataset is shown, and whether that state changes.

use crate::{Filesystem, LivePool, Pool, Result, Volume, replay};
use std::sync::{Arc, Weak};

/// A pool that is open.
#[derive(Clone)]
pub enum OpenPool {
    /// For writing: datasets are shown as they are now.
    Live(Arc<LivePool>),
    /// For reading alone: they are shown as they were on the devices when it was opened, without
    /// what is only in their intent logs, and nothing is written.
    ReadOnly(Arc<Pool>),
}

/// The same, for one that is not to keep it open.
#[derive(Clone)]
pub enum WeakPool {
    /// One that is open for writing.
    Live(Weak<LivePool>),
    /// One that is open for reading alone.
    ReadOnly(Weak<Pool>),
}

impl OpenPool {
    /// The pool, to look at.
    #[must_use]
    pub fn view(&self) -> &Pool {
        match self {
            Self::Live(pool) => pool.view(),
            Self::ReadOnly(pool) => pool,
        }
    }

    /// Whether nothing of it can be changed.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly(_))
    }

    /// The txg that is on the devices. The state of the datasets that was read stays valid until it
    /// changes.
    #[must_use]
    pub fn last_synced(&self) -> u64 {
        match self {
            Self::Live(pool) => pool.last_synced(),
            Self::ReadOnly(pool) => pool.uberblock().txg,
        }
    }

    /// A file system, or the state of it that a snapshot keeps.
    ///
    /// # Errors
    /// It is not there, is not a file system, or cannot be read.
    pub fn filesystem(&self, name: &str) -> Result<Filesystem> {
        match self {
            Self::Live(pool) if !name.contains('@') => Ok(pool.filesystem(name)?),
            _ => {
                let _datasets = self.view().datasets();
                Ok(self.view().filesystem(name)?)
            }
        }
    }

    /// A volume, or the state of it that a snapshot keeps.
    ///
    /// # Errors
    /// It is not there, is not a volume, or cannot be read.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        match self {
            Self::Live(pool) if !name.contains('@') => Ok(pool.volume(name)?),
            _ => {
                let _datasets = self.view().datasets();
                Ok(self.view().volume(name)?)
            }
        }
    }

    /// Whether something that programs were promised is in the intent log of a dataset alone, and
    /// not seen: a pool that is open for writing has replayed all logs.
    ///
    /// # Errors
    /// The dataset is not there, or cannot be read.
    pub fn is_behind(&self, name: &str) -> Result<bool> {
        let Self::ReadOnly(pool) = self else { return Ok(false) };
        let datasets = pool.datasets();
        let dataset = datasets.by_name(name)?;
        let is_pending = |objset| replay::is_pending(pool, &objset);
        Ok(!dataset.is_snapshot() && datasets.objset(&dataset).map(is_pending)?)
    }

    /// The same, without keeping it open.
    #[must_use]
    pub fn downgrade(&self) -> WeakPool {
        match self {
            Self::Live(pool) => WeakPool::Live(Arc::downgrade(pool)),
            Self::ReadOnly(pool) => WeakPool::ReadOnly(Arc::downgrade(pool)),
        }
    }
}

impl WeakPool {
    /// The pool, as long as it is open.
    #[must_use]
    pub fn upgrade(&self) -> Option<OpenPool> {
        match self {
            Self::Live(pool) => pool.upgrade().map(OpenPool::Live),
            Self::ReadOnly(pool) => pool.upgrade().map(OpenPool::ReadOnly),
        }
    }
}

impl From<&Arc<LivePool>> for OpenPool {
    fn from(pool: &Arc<LivePool>) -> Self {
        Self::Live(Arc::clone(pool))
    }
}

impl From<&Arc<Pool>> for OpenPool {
    fn from(pool: &Arc<Pool>) -> Self {
        Self::ReadOnly(Arc::clone(pool))
    }
}
