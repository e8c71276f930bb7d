//! The object sets of datasets that a task makes.

use super::head::Head;
use super::shared::TaskCx;
use crate::error::Result;
use dmu::{SetKey, Tx};
use dsl::write::finish_head;
use ondisk::ObjsetKind;
use std::sync::Arc;

impl TaskCx<'_> {
    /// Makes the object set of a dataset that was made just now, and registers its head.
    pub(super) fn new_objset(
        &self,
        dataset: u64,
        kind: ObjsetKind,
        format: impl FnOnce(&Head, &Tx) -> Result<()>,
    ) -> Result<Arc<Head>> {
        let made = self.datasets().head_by_object(dataset)?;
        self.new_objset_with(dataset, (kind, self.datasets().set_key(&made)?), format)
    }

    /// The same with a key that is not that of the dataset.
    pub(super) fn new_objset_with(
        &self,
        dataset: u64,
        (kind, key): (ObjsetKind, SetKey),
        format: impl FnOnce(&Head, &Tx) -> Result<()>,
    ) -> Result<Arc<Head>> {
        let shared = self.shared;
        let made = self.datasets().head_by_object(dataset)?;
        let stored = self.datasets().stored(&made)?;
        let head = Arc::new(shared.live(dataset, None, (kind, key), &stored)?);
        self.touch();
        format(&head, self.tx)?;
        head.objset.freeze(self.tx.txg());
        let account = shared.account(self, dataset)?;
        let root = shared.sync_objset(&head, self.tx.txg(), &account)?;
        finish_head(&self.dsl(), &account, root.as_ref(), shared.features_of(kind).as_slice())?;
        shared.weigh(&head, &stored)?;
        shared.heads.write().insert(dataset, Arc::clone(&head));
        Ok(head)
    }
}
