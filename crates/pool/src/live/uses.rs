//! Which datasets programs have open as disks or file systems, so that these stay.
//!
//! What is in use is neither destroyed, nor rolled back, nor made smaller. It is looked up where
//! that would be done, by the thread that syncs; a program begins to use a dataset between
//! two syncs.

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
    /// Dataset or snapshot `object` is in use until what is returned is dropped.
    pub(super) fn begin(self: &Arc<Self>, object: u64) -> InUse {
        *self.0.lock().entry(object).or_default() += 1;
        InUse { uses: Arc::clone(self), object }
    }

    /// All that are in use.
    pub(super) fn all(&self) -> Vec<u64> {
        self.0.lock().keys().copied().collect()
    }

    /// Refuses to touch what is in use.
    pub(super) fn check(&self, dataset: &Dataset) -> Result<()> {
        match self.0.lock().contains_key(&dataset.object) {
            true => Err(dsl::Error::refused(&dataset.name, Refusal::Busy).into()),
            false => Ok(()),
        }
    }
}
