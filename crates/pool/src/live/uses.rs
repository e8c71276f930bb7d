//! Which datasets programs have open as disks or file systems, so that these stay.
//!
//! What is in use is neither destroyed, nor rolled back, nor made smaller. It is looked up where
//! that would be done, by the thread that syncs; a program begins to use a dataset between
//! two syncs.

use super::LivePool;
use super::shared::TaskCx;
use crate::error::Result;
use dsl::{Dataset, Refusal};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// How often each is in use, by its object.
#[derive(Default)]
pub(super) struct Uses(Mutex<HashMap<u64, usize>>);

/// A dataset or snapshot is in use as long as this lives.
pub struct InUse {
    uses: Arc<Uses>,
    object: u64,
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut uses = self.uses.0.lock();
        if let Some(count) = uses.get_mut(&self.object) {
            *count -= 1;
            if *count == 0 {
                uses.remove(&self.object);
            }
        }
    }
}

impl Uses {
    /// Refuses to touch what is in use.
    pub(super) fn check(&self, dataset: &Dataset) -> Result<()> {
        match self.0.lock().contains_key(&dataset.object) {
            true => Err(dsl::Error::refused(&dataset.name, Refusal::Busy).into()),
            false => Ok(()),
        }
    }
}

impl LivePool {
    /// Keeps a file system, volume or snapshot from being destroyed, rolled back or made smaller
    /// for as long as what is returned lives.
    ///
    /// # Errors
    /// There is no such dataset.
    pub fn hold_open(&self, name: &str) -> Result<InUse> {
        let _guard = self.shared.gate.read();
        let object = self.shared.dsl.by_name(name)?.object;
        *self.shared.uses.0.lock().entry(object).or_default() += 1;
        Ok(InUse { uses: Arc::clone(&self.shared.uses), object })
    }

    /// Refuses to touch a dataset that is in use ([`Self::hold_open`]).
    ///
    /// # Errors
    /// It is.
    pub fn check_unused(&self, dataset: &Dataset) -> Result<()> {
        self.shared.uses.check(dataset)
    }
}

impl TaskCx<'_> {
    /// The same for a task.
    pub(super) fn check_unused(&self, dataset: &Dataset) -> Result<()> {
        self.shared.uses.check(dataset)
    }
}
