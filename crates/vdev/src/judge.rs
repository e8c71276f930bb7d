//! Judging the leaves of a tree by what was noted of their health (`health.rs`): which are in use,
//! and whether the rest does without one.

use crate::health::{Mark, answers};
use crate::thresholds::{ErrorLimit, Threshold};
use crate::tree::{Node, Role, VdevTree};
use core::fmt;

impl VdevTree {
    /// Marks the leaves whose errors call for it, as the head of the module's file says. Waits for
    /// devices that are probed; whether a mark has changed.
    pub fn judge_leaves(&self) -> bool {
        let mut changed = false;
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(device) = &node.writer else { continue };
            let before = node.health.mark();
            if node.health.is_out() {
                continue;
            }
            let limits = self.error_limits.of(|| self.line_of(index));
            let mark = match node.health.verdict(device, &limits) {
                Mark::None if limits.slow.is_some_and(|slow| self.is_slow_alone(index, slow)) => {
                    Mark::Degraded
                }
                Mark::None => before,
                Mark::Faulted | Mark::Removed if !self.can_lose(index) => Mark::Degraded,
                mark => mark,
            };
            if mark != before {
                node.health.set_mark(mark);
                changed = true;
            }
        }
        changed
    }

    /// Sets a number for a vdev, for this tree and those that follow it; `None`: the vdev has none
    /// of its own.
    pub fn set_error_limit(&self, guid: u64, limit: ErrorLimit, value: Option<u64>) {
        self.error_limits.set(guid, limit, value);
    }

    /// The guid of a vdev, and those of the vdevs around it, outwards.
    fn line_of(&self, index: usize) -> Vec<u64> {
        let around = |index: &usize| self.nodes.iter().position(|n| n.children.contains(index));
        let line = std::iter::successors(Some(index), around);
        line.filter_map(|index| self.nodes.get(index)).map(|node| node.guid).collect()
    }

    /// Too many requests to a leaf were slow, and none to others: when many are slow together, the
    /// cause is no device.
    fn is_slow_alone(&self, leaf: usize, limit: Threshold) -> bool {
        let now = self.rt().now();
        let mut leaves = self.nodes.iter().enumerate().filter_map(|(index, node)| {
            let slow = node.guard.as_ref()?.slow_within(limit.within, now);
            Some((index == leaf, slow))
        });
        leaves.all(|(is_it, slow)| if is_it { slow >= limit.events.max(1) } else { slow == 0 })
    }

    /// Marks the leaves that will not be found again where they were opened, and takes the mark
    /// from those that were used all the while and are in their places again. A device remembers
    /// what was seen of it, so a file that was cut short and grew again counts: what was cut off
    /// was written before `txg`, which is about to be, and the leaf has missed all of that. Asks
    /// the system; whether a mark has changed.
    pub fn poll_displaced(&self, txg: u64) -> bool {
        let mut changed = false;
        for (index, node) in self.nodes.iter().enumerate() {
            let before = node.health.mark();
            let may_be_displaced = match before {
                Mark::None | Mark::Astray | Mark::Degraded => node.writer.is_some(),
                Mark::Removed => node.health.went_astray(),
                Mark::Faulted => false,
            };
            let Some(device) = node.device.as_ref().filter(|_| may_be_displaced) else { continue };
            let became = device.displaced();
            let mark = match became {
                // One that is gone without comes back by an order of its own.
                _ if before == Mark::Removed => Mark::Removed,
                Some(_) if self.can_lose(index) => Mark::Removed,
                // It is used, and its errors are known.
                _ if before == Mark::Degraded => Mark::Degraded,
                None => Mark::None,
                Some(_) => Mark::Astray,
            };
            // One that is needed is read as far as it goes.
            if became.is_some_and(|became| became.is_of_size()) && mark == Mark::Removed {
                node.health.was_cut(txg);
            }
            if mark != before {
                node.health.set_mark(mark);
                changed = true;
            }
        }
        changed
    }
}

impl VdevTree {
    /// Requests to the devices that have begun and are waited for, now or soon: the load beside
    /// scrubs and the like. Counted while requests are (`zinc_stats`).
    #[must_use]
    pub fn interactive_requests(&self) -> u64 {
        self.nodes.iter().filter_map(|n| n.queue.as_ref()).map(|queue| queue.interactive()).sum()
    }
}

/// A suspended pool that looks for its devices.
impl VdevTree {
    /// Leaves whose devices do not answer, or are not there, by guid. Not those that may not be
    /// opened again, because requests to them have not come back.
    #[must_use]
    pub fn silent_leaves(&self) -> Vec<u64> {
        let leaves = self.nodes.iter().filter(|n| matches!(n.role, Role::Leaf) && !n.is_silent());
        let is_silent = |n: &&Node| n.writer.as_ref().is_none_or(|w| answers(w).is_err());
        leaves.filter(is_silent).map(|n| n.guid).collect()
    }

    /// A top-level vdev, not for logs alone, of which too few devices answer.
    #[must_use]
    pub fn first_silent_top(&self) -> Option<SilentTop> {
        let failures: Vec<Option<String>> = self.nodes.iter().map(why_silent).collect();
        let answering: Vec<bool> = failures.iter().map(Option::is_none).collect();
        let removed = ["hole", "indirect"];
        let mut tops = self.tops().filter(|top| !top.is_log());
        let silent = tops.find(|top| {
            !removed.contains(&top.node().kind()) && !self.is_enough(top.index(), &answering)
        })?;
        let mut leaves = Vec::new();
        self.leaves_below(silent.index(), &mut |leaf| {
            leaves.extend(failures.get(leaf).cloned().flatten());
        });
        Some(SilentTop { name: silent.node().name().to_owned(), leaves })
    }

    /// Has all leaves that are in use flush again, whatever the result of their last flush:
    /// everything written since then is written again.
    pub fn forget_failed_flushes(&self) {
        let used = self.nodes.iter().filter(|n| !n.health.is_out());
        used.filter_map(|n| n.writer.as_ref()).for_each(|writer| writer.forget_failed_flush());
    }

    /// Whether enough leaves for reading and writing are among those. Depth was bounded when the
    /// tree was built.
    fn is_enough(&self, index: usize, answering: &[bool]) -> bool {
        let Some(node) = self.nodes.get(index) else { return false };
        let mut children = node.children.iter();
        let is_enough = |c: &usize| self.is_enough(*c, answering);
        match &node.role {
            Role::Leaf => answering.get(index).copied().unwrap_or(false),
            Role::Mirror | Role::Replacing | Role::Spare => children.any(is_enough),
            Role::Raidz(r) => children.filter(|c| !is_enough(c)).count() <= r.nparity(),
            Role::Draid(d) => children.filter(|c| !is_enough(c)).count() <= d.nparity(),
            Role::DraidSpare { .. } => node.is_online(),
            _ => false,
        }
    }

    /// The leaf is written to, or was until a moment ago, and what it missed is all of txgs after
    /// `last`.
    #[must_use]
    pub fn lacks_only_after(&self, guid: u64, last: u64) -> bool {
        let leaf = self.nodes.iter().find(|n| n.guid == guid && matches!(n.role, Role::Leaf));
        leaf.is_some_and(|n| {
            let missed = n.health.missed();
            n.writer.is_some() && missed.bounds().is_none_or(|(first, _)| first > last)
        })
    }

    /// Forgets what leaves that are written to missed of txgs after `last`.
    pub fn forget_missed_after(&self, last: u64) {
        for node in self.nodes.iter().filter(|n| n.writer.is_some() && !n.health.is_out()) {
            node.health.change_missed(|missed| missed.remove(last + 1, u64::MAX));
        }
    }

    /// Takes a leaf out of use that the rest can do without; whether that was so.
    #[must_use]
    pub fn leave_out(&self, guid: u64) -> bool {
        let Some(index) = self.nodes.iter().position(|n| n.guid == guid) else { return false };
        let spared = self.can_lose(index);
        if let (true, Some(node)) = (spared, self.nodes.get(index)) {
            node.health.set_mark(Mark::Faulted);
        }
        spared
    }
}

/// Why a leaf does not answer a request now; `None`: it is in use and answers.
fn why_silent(node: &Node) -> Option<String> {
    match &node.writer {
        _ if !matches!(node.role, Role::Leaf) => None,
        None => Some(format!("{} is not there", node.name)),
        Some(_) if node.health.is_out() => {
            Some(format!("{} is out of use and lacks data written since", node.name))
        }
        Some(writer) => answers(writer).err().map(|e| e.to_string()),
    }
}

/// A top-level vdev of which too few devices answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentTop {
    /// Its name.
    pub name: String,
    /// The failures of its devices, one after the other.
    pub leaves: Vec<String>,
}

impl fmt::Display for SilentTop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "too few devices of {} answer: {}", self.name, self.leaves.join("; "))
    }
}
