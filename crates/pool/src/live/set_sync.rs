//! Syncing one dataset: its tree is written, and its space accounted.

use super::early::TreeOwner;
use super::head::Head;
use super::shared::{Shared, TaskCx};
use crate::error::Result;
use dmu::SyncContext;
use dsl::write::{Blocks, HeadAccount};
use ondisk::BlkPtr;
use std::sync::Arc;

impl Shared {
    /// The account of one sync of a dataset.
    pub(super) fn account(&self, cx: &TaskCx<'_>, dataset: u64) -> Result<HeadAccount> {
        let blocks = Arc::clone(&self.blocks) as Arc<dyn Blocks>;
        Ok(HeadAccount::new(&cx.dsl(), blocks, dataset)?)
    }

    pub(super) fn sync_objset(
        &self,
        head: &Head,
        txg: u64,
        account: &HeadAccount,
    ) -> Result<Option<BlkPtr>> {
        let owner = TreeOwner { owner: account, early: &self.early, clones: &self.clones };
        let cx = SyncContext {
            workers: self.leaf_sync_workers(),
            writer: &*self.writer,
            owner: &owner,
            txg,
            hold: false,
        };
        head.in_sync.sync(&cx).map_err(|e| self.failed("writing a dataset", e))
    }
}
