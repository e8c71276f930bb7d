//! The end of an expansion: the vdev is as wide and as large as its devices let it be.

use crate::alloc::TopSpec;
use crate::error::Result;
use crate::live::config::{set_u64, set_u64s, unset};
use crate::live::config_edit::bad;
use crate::live::reflows::RunningExpansion;
use crate::live::shared::{TXGS_ALIVE, TaskCx};
use crate::refusal::DeviceFault;
use ondisk::expand::{KEY_BYTES_COPIED, KEY_END_TIME, KEY_STATE};
use ondisk::scan::State;
use vdev::{Reflowed, asize_max};

impl TaskCx<'_> {
    /// Notes what was copied; ends the expansion when nothing is left.
    pub(in crate::live) fn settle_reflow(&self, done: Option<Reflowed>) -> Result<()> {
        let reflows = &self.shared.reflows;
        let (Some(done), Some(mut now)) = (done, reflows.running()) else { return Ok(()) };
        match done {
            Reflowed::Copied(bytes) => {
                now.record.bytes_copied = now.record.bytes_copied.saturating_add(bytes);
                self.put_expansion(&now, &[KEY_BYTES_COPIED])?;
                let mut state = reflows.state.lock();
                (state.running, state.unsettled) = (Some(now), bytes);
                Ok(())
            }
            Reflowed::All => self.end_reflow(now),
        }
    }

    /// All rows are at their new places, by the uberblock of the txg before.
    fn end_reflow(&self, mut now: RunningExpansion) -> Result<()> {
        let shared = self.shared;
        let mut root = shared.config.lock().root.clone();
        let top = root.children.iter_mut().find(|top| top.id == u64::from(now.id));
        let top = top.ok_or_else(|| self.shared.refused(DeviceFault::NotInPool))?;
        let mut txgs = top.raidz_expand_txgs.clone();
        // Blocks of as many may still be born with the old width.
        txgs.push(self.tx.txg() + TXGS_ALIVE);
        unset(top, &["raidz_expanding"]).map_err(|e| bad(&e))?;
        set_u64s(top, "raidz_expand_txgs", txgs).map_err(|e| bad(&e))?;
        let tree = shared.reader.vdevs();
        let size = |guid| {
            let leaf = tree.leaves().find(|l| l.guid() == guid)?;
            Some(leaf.writer().filter(|_| leaf.state().is_readable())?.size())
        };
        if let Some(asize) = asize_max(top, &size).filter(|n| Some(*n) > top.asize) {
            set_u64(top, "asize", asize).map_err(|e| bad(&e))?;
        }
        let (top, width) = (top.clone(), top.children.len());
        let next = tree.successor(&shared.rt, &root, &mut |_| None).map_err(|e| bad(&e))?;
        self.put_tree(root, next);
        now.record.state = State::Finished;
        now.record.end_time = self.dsl().now.secs;
        self.put_expansion(&now, &[KEY_STATE, KEY_END_TIME])?;
        {
            let mut state = shared.reflows.state.lock();
            (state.running, state.ended) = (None, TopSpec::of(&top, &shared.reader));
        }
        let text = format!("{} vdev {} new width {width}", shared.pool(), now.id);
        self.log_event_of_pool("raidz vdev expansion completed", &text)
    }
}
