//! What a pool keeps of its scrub and resilver: what is wanted, what runs, and what is left of one
//! that is paused. They are done in `scan`.

use super::collected::Collected;
use crate::faults::LostBlocks;
use ondisk::scan::{Function, ScanState};
use parking_lot::Mutex;
use rt::{Condvar, Rt, Task};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use vdev::Txgs;

/// What runs and what is wanted.
pub(super) struct Scans {
    pub(super) state: Mutex<ScanRequests>,
    pub(super) changed: Condvar,
    /// What runs now is to end early.
    pub(super) interrupted: AtomicBool,
    /// Leaves that left or came back since the scan began.
    pub(super) moved: Mutex<BTreeSet<u64>>,
    /// The scrub on disk names a place. See `scan/kept.rs`.
    pub(super) has_place: AtomicBool,
    /// Txgs with tasks that were not of a scan.
    pub(super) tasks: AtomicU64,
    /// What the leaves lack that the resilver that runs is for, by guid; `None`: none runs that may
    /// go on while others come.
    pub(super) targets: Mutex<Option<BTreeMap<u64, Txgs>>>,
    /// Top-level vdevs of which a rebuild is under way, by guid.
    pub(super) rebuilds: Mutex<BTreeSet<u64>>,
    /// A scrub that is paused, and what is left of it.
    pub(super) paused: Mutex<Option<(ScanState, ScanRemainder)>>,
}

#[derive(Default)]
pub(super) struct ScanRequests {
    /// Rebuilds that are under way are to be gone on with.
    pub(super) rebuild: bool,
    pub(super) resilver: bool,
    /// One is wanted when the one that runs has ended.
    pub(super) behind: bool,
    /// Callers that bring several leaves and want one resilver for all of them.
    pub(super) gathering: usize,
    /// It is wanted when the last of them is done.
    pub(super) gathered: bool,
    /// The one that is wanted does not go on where an earlier one was.
    pub(super) anew: bool,
    pub(super) scrub: bool,
    /// The scrub that is wanted is of what was born since the last one.
    pub(super) since_last: bool,
    /// Bytes that the scrub that is wanted wrote before a resilver ended it. What is repaired is
    /// not found again.
    pub(super) repaired: u64,
    /// The scrub that runs is to stay as it is, until it is asked for again.
    pub(super) pause: bool,
    /// The pool is being closed.
    pub(super) closing: bool,
    /// The thread that does it.
    pub(super) task: Option<Task<()>>,
    pub(super) activity: Activity,
    /// How many scans have ended.
    pub(super) ended: u64,
    /// How far the one is that runs.
    pub(super) now: Option<ScanState>,
    /// How far that was when this process began with it, or went on.
    pub(super) begun: Option<ScanStart>,
    /// When the scrub was paused that is paused, in seconds since 1970; 0: by another process.
    pub(super) paused_at: u64,
    /// Why the last one failed.
    pub(super) failure: Option<String>,
}

/// How far a scan was when this process began with it.
pub(super) struct ScanStart {
    pub(super) at: Duration,
    /// In seconds since 1970.
    pub(super) wall: u64,
    /// Bytes it had come to by then, and read.
    pub(super) examined: u64,
    pub(super) issued: u64,
    /// What it has come to and not read now.
    pub(super) collected: Arc<Collected>,
}

/// Bytes that a scan in this state has read.
pub(super) fn issued(state: &ScanState) -> u64 {
    state.examined.saturating_sub(state.skipped)
}

/// What the thread that scans does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Activity {
    /// Nothing: there is no such thread.
    #[default]
    None,
    /// It was started, and has not looked yet at what is wanted.
    Begins,
    /// Rebuilds.
    Rebuilds,
    /// A scan, or what is done behind one.
    Scans(Function),
}

impl ScanRequests {
    /// A scan runs, or is about to.
    pub(super) fn is_running(&self) -> bool {
        self.activity != Activity::None
    }

    /// A sequential rebuild runs, or is about to.
    pub(super) fn is_rebuilding(&self) -> bool {
        self.activity == Activity::Rebuilds || self.is_running() && self.rebuild
    }
}

impl Scans {
    pub(super) fn new(rt: &Rt) -> Self {
        let interrupted = AtomicBool::new(false);
        let (state, moved, targets) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (has_place, tasks) = (AtomicBool::new(false), AtomicU64::new(0));
        let (rebuilds, paused) = (Mutex::default(), Mutex::default());
        let changed = rt.condvar();
        Self { state, changed, interrupted, moved, has_place, tasks, targets, rebuilds, paused }
    }

    /// A leaf leaves or comes back. Called in the task that changes the tree.
    pub(super) fn has_moved(&self, leaf: u64) {
        self.moved.lock().insert(leaf);
    }
}

/// What a scan found and did.
#[derive(Clone, Default)]
pub(super) struct Outcome {
    pub(super) examined: u64,
    pub(super) skipped: u64,
    pub(super) processed: u64,
    pub(super) errors: u64,
    /// Blocks that could not be had.
    pub(super) lost_blocks: LostBlocks,
    /// Births of blocks that could not be had: no leaf has them for certain.
    pub(super) lost: Txgs,
    /// Births of blocks that leaves did not take, by guid.
    pub(super) refused: BTreeMap<u64, Txgs>,
}

impl Outcome {
    /// What was done before counts as well.
    pub(super) fn begin_at(&mut self, state: &ScanState) {
        (self.examined, self.skipped) = (state.examined, state.skipped);
        (self.processed, self.errors) = (state.processed, state.errors);
    }

    /// Leaves lack something that the scan came to.
    pub(super) fn leaves_gaps(&self) -> bool {
        !self.lost.is_empty() || !self.refused.is_empty()
    }

    pub(super) fn note(&self, state: &mut ScanState) {
        (state.examined, state.skipped) = (self.examined, self.skipped);
        (state.processed, state.errors) = (self.processed, self.errors);
    }
}

/// A dataset to be visited.
#[derive(Clone)]
pub(super) struct Set {
    /// Its object in the MOS; 0 is the MOS itself.
    pub(super) object: u64,
    pub(super) guid: u64,
    /// Blocks born after this txg are visited.
    pub(super) since: u64,
    /// The snapshot, by guid, that is visited for what is older; 0 for none.
    pub(super) before: u64,
    /// Where the last piece ended.
    pub(super) resume: Option<(u64, u64)>,
}

/// How far a walk is, and what came of it so far.
#[derive(Clone)]
pub(super) struct Visited {
    pub(super) left: VecDeque<Set>,
    /// Guids of datasets that were visited or are in the list.
    pub(super) seen: BTreeSet<u64>,
    pub(super) outcome: Outcome,
}

/// The datasets that a walk came to, by object: which each was, and those after it.
#[derive(Default)]
pub(super) struct WalkedSets(BTreeMap<u64, (u64, BTreeSet<u64>)>);

impl WalkedSets {
    /// The walk comes to a dataset. `before` is the object of the snapshot before it, or 0.
    pub(super) fn note(&mut self, object: u64, guid: u64, before: u64) {
        self.0.entry(object).or_default().0 = guid;
        if before != 0 {
            self.0.entry(before).or_default().1.insert(object);
        }
    }

    /// The object of a dataset, or of what has its blocks now that it is destroyed. `guid` says
    /// which dataset an object is.
    pub(super) fn heir(&self, object: u64, guid: &dyn Fn(u64) -> Option<u64>) -> u64 {
        let is_there = |object: u64, was: u64| guid(object) == Some(was);
        let mut at = object;
        // No dataset comes after itself, but objects are used again.
        for _ in 0..self.0.len() {
            match self.0.get(&at) {
                Some((was, _)) if is_there(at, *was) => return at,
                Some((_, next)) => {
                    let known =
                        |n: &&u64| self.0.get(n).is_some_and(|(was, _)| is_there(**n, *was));
                    let Some(next) = next.iter().find(known).or(next.first()) else { break };
                    at = *next;
                }
                None => break,
            }
        }
        object
    }
}

/// What of a scrub is left.
pub(super) struct ScanRemainder {
    pub(super) visited: Visited,
    pub(super) walked: WalkedSets,
    /// What the walk came to and has not read.
    pub(super) collected: Arc<Collected>,
    /// How far the walk was when nothing was collected, if something is.
    pub(super) settled: Option<Visited>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_destroyed_snapshot_are_those_of_what_comes_after_it() {
        let mut walked = WalkedSets::default();
        // Two snapshots and a head, and a clone of the first snapshot.
        [(1, 101, 0), (2, 102, 1), (3, 103, 2), (4, 104, 1)]
            .iter()
            .for_each(|(object, guid, before)| walked.note(*object, *guid, *before));
        let but = |gone: &'static [u64]| move |n| (!gone.contains(&n)).then_some(n + 100);
        assert_eq!(walked.heir(1, &but(&[])), 1);
        assert_eq!(walked.heir(1, &but(&[1, 4])), 2);
        assert_eq!(walked.heir(1, &but(&[1, 2, 4])), 3);
        assert_eq!(walked.heir(1, &but(&[1, 2, 3])), 4);
        // Another dataset has its number, or nothing has its blocks, or it was never come to.
        assert_eq!(walked.heir(2, &|n| Some(if n == 2 { 7 } else { n + 100 })), 3);
        assert_eq!(walked.heir(3, &but(&[3])), 3);
        assert_eq!(walked.heir(0, &but(&[])), 0);
    }
}
