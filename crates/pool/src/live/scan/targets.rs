//! The leaves that a resilver is for, as their configuration has it, so that it goes on with them.
//! `kept.rs` has the theory.

use super::super::config::{set_u64, unset};
use super::super::scans::ScanRemainder;
use super::super::shared::{Shared, TaskCx};
use super::deferred::RESILVER_TXG;
use super::kept;
use super::walk::Walk;
use crate::error::Result;
use crate::live::config_edit::bad;
use ondisk::config::VdevConfig;
use ondisk::scan::{Function, ScanState};
use std::collections::BTreeMap;
use vdev::Txgs;

/// Marks the leaves below a vdev that are among `leaves`, and takes the mark off all others;
/// whether anything changed. The depth of a configuration is bounded.
fn mark_below(vdev: &mut VdevConfig, leaves: &[u64], end: u64) -> ondisk::Result<bool> {
    let mut changed = false;
    for child in &mut vdev.children {
        changed |= mark_below(child, leaves, end)?;
    }
    let wanted = (vdev.kind.is_leaf() && leaves.contains(&vdev.guid)).then_some(end);
    if vdev.resilver_txg == wanted {
        return Ok(changed);
    }
    match wanted {
        Some(end) => set_u64(vdev, RESILVER_TXG, end)?,
        None => unset(vdev, &[RESILVER_TXG])?,
    }
    Ok(true)
}

impl TaskCx<'_> {
    /// A resilver of what was born before txg `end` is for these leaves, and for no other.
    pub(super) fn mark_targets(&self, leaves: &[u64], end: u64) -> Result<()> {
        let mut root = self.shared.config.lock().root.clone();
        let marked = mark_below(&mut root, leaves, end);
        if marked.map_err(|e| bad(&e))? {
            self.touch();
            let mut config = self.shared.config.lock();
            (config.root, config.dirty) = (root, true);
        }
        Ok(())
    }
}

/// What a resilver is for, and what is left of it if it goes on.
pub(super) type Targets = (Option<(ScanState, ScanRemainder)>, BTreeMap<u64, Txgs>);

impl Shared {
    /// The leaves of the next resilver, and what they lack. One that goes on where it was left is
    /// for those that do not wait for its end; one that begins is for all. It ends a scrub that is
    /// paused.
    pub(super) fn targets(&self) -> Result<Targets> {
        self.cancel_paused()?;
        let is_anew = std::mem::take(&mut self.scans.state.lock().anew);
        let stale = self.stale_leaves();
        let waiting = self.deferred_leaves();
        let mut due = stale.clone();
        due.retain(|guid, _| !waiting.contains(guid));
        let rest = if is_anew { None } else { self.rest_of_resilver(&due)? };
        if rest.is_none() {
            return Ok((None, stale));
        }
        self.wait_for_rest(&waiting);
        *self.scans.targets.lock() = Some(due.clone());
        Ok((rest, due))
    }

    /// The resilver that was under way when the pool was closed and what is left of it, when it is
    /// for all leaves that are `stale` now and brings all that they lack.
    pub(super) fn rest_of_resilver(
        &self,
        stale: &BTreeMap<u64, Txgs>,
    ) -> Result<Option<(ScanState, ScanRemainder)>> {
        // No dataset comes or goes between the place and what it leads to.
        let _gate = self.gate.read();
        let Some(kept) = kept::under_way(&self.mos)? else { return Ok(None) };
        let state = kept.state;
        if state.function() != Function::Resilver || kept::at_begin(state) == state {
            return Ok(None);
        }
        let root = self.config.lock().root.clone();
        let is_brought = |guid: &u64, missed: &Txgs| {
            let leaf = root.walk().find(|v| v.guid == *guid && v.kind.is_leaf());
            let is_marked = leaf.is_some_and(|leaf| leaf.resilver_txg == Some(state.max_txg));
            let range = missed.bounds();
            is_marked
                && range.is_some_and(|(first, last)| first > state.min_txg && last < state.max_txg)
        };
        if stale.is_empty() || !stale.iter().all(|(guid, missed)| is_brought(guid, missed)) {
            return Ok(None);
        }
        Ok(Some((state, Walk::go_on(self, &kept, stale)?.into_rest())))
    }

    /// Writes where a resilver is that ends because the pool is closed.
    pub(super) fn keep_resilver(&self, walk: &Walk<'_>, state: ScanState) -> Result<()> {
        let is_closing = self.scans.state.lock().closing;
        let is_worth = walk.time_since_place() >= super::PLACE_WORTH;
        match is_closing && is_worth && self.txgs.why_stopped().is_none() {
            true => self.put_place_of(walk, state).map(drop),
            false => Ok(()),
        }
    }
}
