//! Permissions that are given and taken (`zfs allow`), as sync tasks.

use super::behalf::Need;
use super::{LivePool, TaskCx};
use crate::error::Result;
use dsl::Delegation;
use dsl::write::{DelegationEvent, RevokedPermissions};
use std::sync::Arc;

impl TaskCx<'_> {
    fn log_delegations(&self, dataset: &str, events: Vec<DelegationEvent>) -> Result<()> {
        events.into_iter().try_for_each(|(name, text)| self.log_event(name, &text, dataset))
    }
}

impl LivePool {
    /// Gives permissions on a file system or volume.
    ///
    /// # Errors
    /// There is no such dataset or permission.
    pub fn allow(&self, dataset: &str, given: Vec<Delegation>) -> Result<()> {
        let (dataset, given) = (dataset.to_owned(), Arc::new(given));
        self.run_with(vec![Need::Allow(dataset.clone(), Arc::clone(&given))], move |cx| {
            cx.check_room(&dataset)?;
            let done = dsl::write::allow(&cx.dsl(), cx.datasets(), &dataset, &given)?;
            cx.log_delegations(&dataset, done)
        })
    }

    /// Takes the same permissions on each of these file systems and volumes, as far as they are
    /// there.
    ///
    /// # Errors
    /// As [`Self::allow`].
    pub fn unallow(&self, datasets: &[String], taken: Vec<RevokedPermissions>) -> Result<()> {
        let (datasets, taken) = (datasets.to_vec(), Arc::new(taken));
        let need = |name: &String| Need::Unallow(name.clone(), Arc::clone(&taken));
        self.run_with(datasets.iter().map(need).collect(), move |cx| {
            for dataset in &datasets {
                let done = dsl::write::unallow(&cx.dsl(), cx.datasets(), dataset, &taken)?;
                cx.log_delegations(dataset, done)?;
            }
            Ok(())
        })
    }
}
