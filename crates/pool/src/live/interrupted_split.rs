//! A split between its beginning and its end.
//!
//! # Theory
//!
//! While the sides become a pool of their own (`split.rs`), they are offline in the old one, and
//! its MOS lists them. A pool that is opened with a list was cut off in between: when a side is a
//! device of another pool by now, the split is brought to its end, and when all sides are still
//! its own, they are used again, after a resilver of what they missed since. What the new pool
//! wrote before it was there is in space that was free in their last txg, so nothing that they
//! are believed to have is lost. When a side was not found, nothing is known: all stay offline,
//! and the list stays, until an opening finds them. OpenZFS keeps the same list, and what it left
//! is ended in the same way.

use super::LivePool;
use super::config::{Split, set_u64, unset};
use super::config_edit::change_leaf;
use super::config_edit::{bad, without_child};
use super::leaves::unmark;
use super::scan::RESILVER_TXG;
use super::shared::TaskCx;
use crate::assemble::Candidate;
use crate::error::Result;
use ondisk::config::{PoolConfig, VdevConfig};
use vdev::{LeafOpen, Txgs};

/// A split that was cut off.
pub(super) enum InterruptedSplit {
    /// There was none, or it is not known how far it came.
    Unknown,
    /// The new pool was made. These leaves are its devices.
    Done(Vec<u64>),
    /// It was not. These leaves are devices of the pool.
    NotBegun(Vec<u64>),
}

impl InterruptedSplit {
    /// Of a pool that is opened, with the devices that were found.
    pub(super) fn of(config: &PoolConfig, found: &Candidate, root: &VdevConfig) -> Self {
        let is_leaf = |guid: &&u64| root.find(**guid).is_some_and(|v| v.kind.is_leaf());
        let sides: Vec<u64> = config.splitting.iter().filter(is_leaf).copied().collect();
        if sides.iter().any(|side| found.split_off.contains(side)) {
            return Self::Done(sides);
        }
        match sides.iter().all(|side| found.leaves.contains_key(side)) {
            true => Self::NotBegun(sides),
            false => Self::Unknown,
        }
    }

    /// Sides that are still devices of the pool are used again.
    pub(super) fn take_back(&self, root: &mut VdevConfig) -> Result<()> {
        let Self::NotBegun(sides) = self else { return Ok(()) };
        let online = |leaf: &mut VdevConfig| unset(leaf, &["offline"]);
        let mut sides = sides.iter();
        sides.try_for_each(|side| change_leaf(root, *side, &online)).map_err(|e| bad(&e))
    }
}

impl TaskCx<'_> {
    /// The sides are not written to any more, and the MOS says what becomes of them.
    pub(super) fn set_apart(&self, sides: &[u64]) -> Result<()> {
        let shared = self.shared;
        let mut root = shared.config.lock().root.clone();
        let offline = |leaf: &mut VdevConfig| {
            unmark(leaf)?;
            unset(leaf, &[RESILVER_TXG])?;
            set_u64(leaf, "offline", 1)
        };
        for side in sides {
            change_leaf(&mut root, *side, &offline).map_err(|e| bad(&e))?;
        }
        let mut open = |c: &VdevConfig| sides.contains(&c.guid).then_some(LeafOpen::Offline);
        let tree = shared.reader.vdevs();
        let next = tree.successor(&shared.rt, &root, &mut open).map_err(|e| bad(&e))?;
        // As OpenZFS has the list: one for each top-level vdev, 0 for none.
        let of = |top: &VdevConfig| {
            sides.iter().copied().find(|side| top.find(*side).is_some()).unwrap_or_default()
        };
        let list = root.children.iter().map(of).collect();
        self.put_tree(root, next);
        let missed: Txgs = std::iter::once(self.tx.txg()..=self.tx.txg()).collect();
        let tree = shared.reader.vdevs();
        for side in sides {
            shared.scans.has_moved(*side);
            tree.has_missed(*side, &missed);
        }
        shared.config.lock().facts.split = Split::Into(list);
        Ok(())
    }

    /// The sides are not part of the pool any more.
    pub(super) fn remove_split_sides(&self, sides: &[u64]) -> Result<()> {
        let shared = self.shared;
        let root = shared.config.lock().root.clone();
        let gone: Vec<_> = sides.iter().filter_map(|n| root.find(*n).cloned()).collect();
        let left = gone
            .iter()
            .try_fold(root, |root, side| without_child(shared.pool(), &root, side.guid))?;
        let tree = shared.reader.vdevs();
        let next = tree.successor(&shared.rt, &left, &mut |_| None).map_err(|e| bad(&e))?;
        gone.iter().try_for_each(|leaf| self.free_objects(leaf))?;
        self.put_tree(left, next);
        let mut config = shared.config.lock();
        sides.iter().for_each(|side| drop(config.logs.remove(side)));
        config.facts.split = Split::None;
        Ok(())
    }
}

impl LivePool {
    /// Ends a split that was cut off, where it is known how far it came.
    pub(super) fn end_split(&self, split: &InterruptedSplit) -> Result<()> {
        match split {
            InterruptedSplit::Done(sides) => {
                let sides = sides.clone();
                self.run(move |cx| {
                    cx.remove_split_sides(&sides)?;
                    cx.log_event_of_pool("split", "a split that was cut off has ended")
                })
            }
            InterruptedSplit::NotBegun(_) => {
                self.shared.config.lock().facts.split = Split::None;
                Ok(())
            }
            InterruptedSplit::Unknown => Ok(()),
        }
    }
}
