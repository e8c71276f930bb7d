//! Leaves whose resilver waits for the one that runs.
//!
//! # Theory
//!
//! A leaf that begins to lack something while a resilver runs for others could be taken in by
//! beginning anew, but then none is complete until all are. Where the feature `resilver_defer` is
//! enabled it waits instead: the resilver that runs brings its leaves what they lack, as fast as
//! without the new one, and the next one is for all that lack something then.
//!
//! ```text
//! a leaf lacks what the resilver      that resilver ends,          the next one begins
//! that runs does not bring            in its last txg
//! ------------------------------> marked -----------------> no mark -------------------->
//!                            the feature is active     it is not any more
//! ```
//!
//! The mark stands in the leaf's configuration in the MOS. It says that the end of the resilver
//! that runs is not the end for this leaf, and an import, here or in OpenZFS, goes on with that
//! resilver although another leaf lacks something (`targets.rs`). A crash between two of these
//! steps loses nothing, for what a leaf lacks is in its log: a resilver that cannot go on where it
//! was begins for all leaves, and takes the marks off.
//!
//! Labels have no such mark. They have the other one, of leaves that a resilver is for, which says
//! of a copy of the device that is found later that it lacked more than what came after it.
//!
//! A leaf that waits is not written to by the resilver that runs, for all would be brought to it
//! again.

use super::super::config::{set_flag, set_u64, unset};
use super::super::config_edit::change_leaf;
use super::super::scans::Activity;
use super::super::shared::{Shared, TaskCx};
use crate::error::Result;
use crate::live::LivePool;
use crate::live::config_edit::bad;
use crate::refusal::PoolRefusal;
use ondisk::config::VdevConfig;
use ondisk::scan::Function;
use std::collections::{BTreeMap, BTreeSet};
use vdev::Txgs;

/// The member of a leaf's configuration: the second txg of the resilver that is for it.
pub(in crate::live) const RESILVER_TXG: &str = "resilver_txg";

/// The member of a leaf's configuration that is its mark, and the feature.
pub(super) const RESILVER_DEFER: &str = "com.datto:resilver_defer";

const FEATURE: &str = "resilver_defer";

/// One caller of those in [`LivePool::with_one_resilver`].
struct Gathering<'a>(&'a Shared);

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.0.scans.state.lock().gathering -= 1;
    }
}

/// Leaves that are marked in a configuration.
fn marked(root: &VdevConfig) -> BTreeSet<u64> {
    root.walk().filter(|v| v.resilver_deferred).map(|v| v.guid).collect()
}

/// Takes the marks off the leaves below a vdev. The depth of a configuration is bounded.
fn unmark_below(vdev: &mut VdevConfig) -> ondisk::Result<()> {
    vdev.children.iter_mut().try_for_each(unmark_below)?;
    if vdev.resilver_deferred { unset(vdev, &[RESILVER_DEFER]) } else { Ok(()) }
}

impl Shared {
    /// Leaves whose resilver waits.
    pub(super) fn deferred_leaves(&self) -> BTreeSet<u64> {
        marked(&self.config.lock().root)
    }

    /// Leaves that lack something which a resilver with these targets does not bring: they came
    /// after it began, or were away in between.
    fn not_brought(&self, targets: &BTreeMap<u64, Txgs>) -> BTreeSet<u64> {
        let moved = self.scans.moved.lock().clone();
        let is_brought = |guid: &u64, missed: &Txgs| {
            let mut left = missed.clone();
            targets.get(guid).into_iter().for_each(|brought| left.subtract(brought));
            left.is_empty() && !moved.contains(guid)
        };
        let stale = self.stale_leaves().into_iter();
        stale.filter(|(guid, missed)| !is_brought(guid, missed)).map(|(guid, _)| guid).collect()
    }

    /// Whether a resilver is put off until a caller has brought all leaves that it has.
    pub(super) fn gather_resilver(&self) -> bool {
        let mut state = self.scans.state.lock();
        state.gathered |= state.gathering > 0;
        state.gathering > 0
    }

    /// Leaves what lacks something to the resilver that runs, and to one behind it; `false` when
    /// none runs that may go on.
    pub(super) fn defer_resilver(&self) -> Result<bool> {
        if !self.features.is_enabled(FEATURE) {
            return Ok(false);
        }
        {
            let mut state = self.scans.state.lock();
            let runs = state.activity == Activity::Scans(Function::Resilver);
            let targets = self.scans.targets.lock().clone();
            let Some(targets) = targets.filter(|_| runs && !state.resilver && !state.closing)
            else {
                return Ok(false);
            };
            if self.not_brought(&targets).is_empty() {
                return Ok(true);
            }
            state.behind = true;
        }
        self.run_keeping_datasets(|cx| cx.mark_deferred())?;
        Ok(true)
    }

    /// A resilver goes on for its leaves where an earlier process left it: the others wait.
    pub(super) fn wait_for_rest(&self, waiting: &BTreeSet<u64>) {
        self.reader.vdevs().set_waiting(waiting);
        self.scans.state.lock().behind |= !waiting.is_empty();
    }
}

impl TaskCx<'_> {
    /// Marks the leaves that the resilver that runs does not bring all to. When it has ended by
    /// now, the next one is for them.
    fn mark_deferred(&self) -> Result<()> {
        let shared = self.shared;
        let Some(targets) = shared.scans.targets.lock().clone() else { return Ok(()) };
        let mut root = shared.config.lock().root.clone();
        let mut waiting = marked(&root);
        let new: Vec<u64> =
            shared.not_brought(&targets).into_iter().filter(|g| !waiting.contains(g)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for guid in &new {
            let mark = |leaf: &mut VdevConfig| {
                set_u64(leaf, RESILVER_TXG, self.tx.txg())?;
                set_flag(leaf, RESILVER_DEFER)
            };
            change_leaf(&mut root, *guid, &mark).map_err(|e| bad(&e))?;
        }
        if shared.features.count(RESILVER_DEFER) == Some(0) {
            shared.features.add(self.tx, RESILVER_DEFER, 1)?;
        }
        self.touch();
        waiting.extend(new);
        shared.reader.vdevs().set_waiting(&waiting);
        let mut config = shared.config.lock();
        (config.root, config.dirty) = (root, true);
        Ok(())
    }

    /// No leaf waits any more, because the resilver ends or one begins for all; whether any did.
    pub(super) fn clear_deferred(&self) -> Result<bool> {
        let shared = self.shared;
        let mut root = shared.config.lock().root.clone();
        let were_waiting = !marked(&root).is_empty();
        unmark_below(&mut root).map_err(|e| bad(&e))?;
        let count = shared.features.count(RESILVER_DEFER).unwrap_or(0);
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        shared.features.add(self.tx, RESILVER_DEFER, -count)?;
        shared.reader.vdevs().set_waiting(&BTreeSet::new());
        if were_waiting {
            self.touch();
            let mut config = shared.config.lock();
            (config.root, config.dirty) = (root, true);
        }
        Ok(were_waiting)
    }
}

impl LivePool {
    /// Runs what brings several leaves: one resilver begins for all of them when it is done, and
    /// none waits for that of another.
    pub fn with_one_resilver<T>(&self, bring: impl FnOnce() -> T) -> T {
        self.shared.scans.state.lock().gathering += 1;
        let done = {
            let _gathering = Gathering(&self.shared);
            bring()
        };
        // It was said to each caller that it begins; that it cannot is said by `wait_for_scan`.
        let gathered = {
            let mut state = self.shared.scans.state.lock();
            state.gathering == 0 && std::mem::take(&mut state.gathered)
        };
        if gathered && let Err(e) = self.resilver() {
            self.shared.scans.state.lock().failure = Some(e.to_string());
        }
        done
    }

    /// Begins a resilver of all leaves that lack something at once, also of those that wait; the
    /// one that runs ends.
    ///
    /// # Errors
    /// When the feature `resilver_defer` is not enabled: a resilver is never put off then.
    pub fn restart_resilver(&self) -> Result<()> {
        if !self.shared.features.is_enabled(FEATURE) {
            return Err(self.shared.refused(PoolRefusal::FeatureNeeded(FEATURE)));
        }
        self.begin_resilver(true)
    }

    /// The resilver of some leaves waits for the one that runs.
    #[must_use]
    pub fn is_resilver_deferred(&self) -> bool {
        !self.shared.deferred_leaves().is_empty()
    }
}
