//! Resilver and scrub: all blocks of the pool are visited, and made whole where they are not.
//!
//! # Theory
//!
//! A *resilver* brings leaves what they missed: blocks whose physical birth is in the dirty time
//! log of a leaf that is written to. A *scrub* verifies every copy of every block. Both are the
//! same walk (`walk.rs`) with another choice of blocks, both write what is wrong on a device from
//! what is right (`vdev::Heal`), and one runs at a time: a resilver goes first and ends a scrub.
//!
//! ```text
//! wanted -> begins: which txgs, which leaves -> walk, in pieces -> flush -> one sync task:
//!              ^                                  |                 logs shrink, result is noted
//!              +---- another leaf came back ------+
//! ```
//!
//! **What is walked over is what is durable.** A piece of the walk holds the gate, so no txg is
//! committed meanwhile; and what is freed is given to others two txgs later at the earliest. So a
//! block that the last uberblock reaches stays where it is as long as the piece lasts, and what is
//! written over it is what it is. Between two pieces the pool goes on.
//!
//! Everything born after the walk began is on all leaves, for they are written to, so the walk
//! comes to an end on a pool that changes all the time.
//!
//! **A log shrinks when what it says is durable**: all leaves are flushed after the last block was
//! written, and before the txg that shrinks it. It keeps the txgs of blocks that could not be had
//! or written. A crash before leaves the log as it was, and the next import begins anew.
//!
//! A leaf that left and came back while the walk went on was passed over in between, and whether it
//! did is not seen at the end. So every leaf that is put into or out of the tree is remembered
//! ([`Scans::moved`]) until the next scan begins, and its log does not shrink. Coming back wants
//! another resilver anyway.
//!
//! While it runs, how far it is stands in memory ([`LivePool::scan`]); the result stands in the MOS
//! as OpenZFS keeps it (`docs/format/scan.md`).

mod walk;

use super::LivePool;
use super::errlog::OldErrors;
use super::shared::{Shared, TaskCx};
use crate::error::{Error, Result};
use crate::faults::LostBlocks;
use dmu::ZapValue;
use ondisk::mos;
use ondisk::scan::{Function, ScanState, State};
use parking_lot::Mutex;
use rt::{Condvar, Rt, Task};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vdev::Txgs;

/// How often it is looked whether what was destroyed is freed.
const REAPED: Duration = Duration::from_millis(50);

/// What runs and what is wanted.
pub(super) struct Scans {
    state: Mutex<Wanted>,
    changed: Condvar,
    /// What runs now is to end early.
    pub(super) interrupted: AtomicBool,
    /// Leaves that left or came back since the scan began.
    moved: Mutex<BTreeSet<u64>>,
}

#[derive(Default)]
struct Wanted {
    resilver: bool,
    scrub: bool,
    /// The pool is being closed.
    closing: bool,
    /// The thread that does it.
    task: Option<Task<()>>,
    is_running: bool,
    /// How far the one is that runs.
    now: Option<ScanState>,
    /// Why the last one failed.
    failure: Option<String>,
}

impl Scans {
    pub(super) fn new(rt: &Rt) -> Self {
        let interrupted = AtomicBool::new(false);
        let (state, moved) = (Mutex::default(), Mutex::default());
        Self { state, changed: rt.condvar(), interrupted, moved }
    }

    /// A leaf leaves or comes back. Called in the task that changes the tree.
    pub(super) fn has_moved(&self, leaf: u64) {
        self.moved.lock().insert(leaf);
    }
}

/// What a scan found and did.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) examined: u64,
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
    fn note(&self, state: &mut ScanState) {
        (state.examined, state.processed) = (self.examined, self.processed);
        state.errors = self.errors;
    }
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Interrupted,
}

impl Shared {
    /// Leaves that are written to and missed something.
    fn stale_leaves(&self) -> BTreeMap<u64, Txgs> {
        let tree = self.reader.vdevs();
        let stale = tree.leaves().filter(|l| l.writer().is_some());
        stale.map(|l| (l.guid(), l.missed())).filter(|(_, missed)| !missed.is_empty()).collect()
    }

    /// Starts what is wanted, when nothing runs.
    fn want(&self, choose: impl FnOnce(&mut Wanted)) -> Result<()> {
        let mut state = self.scans.state.lock();
        if state.closing {
            return Ok(());
        }
        choose(&mut state);
        state.failure = None;
        if state.is_running {
            self.scans.interrupted.store(state.resilver, Ordering::Release);
            return Ok(());
        }
        let Some(me) = self.me.upgrade() else { return Ok(()) };
        let task = self.rt.spawn("scan", move || me.scan_all());
        state.task = Some(task.map_err(|e| self.failed("starting a scan", &e))?);
        state.is_running = true;
        Ok(())
    }

    /// What the thread does: one after the other until nothing is wanted.
    fn scan_all(&self) {
        loop {
            let function = {
                let mut state = self.scans.state.lock();
                self.scans.interrupted.store(state.closing, Ordering::Release);
                let resilver = std::mem::take(&mut state.resilver);
                match (state.closing, resilver, state.scrub) {
                    (false, true, _) => Function::Resilver,
                    (false, false, true) => Function::Scrub,
                    _ => {
                        state.is_running = false;
                        state.now = None;
                        self.scans.changed.notify_all();
                        return;
                    }
                }
            };
            let done = self.scan(function);
            let detached = match &done {
                Ok(End::Done) => self.detach_outlived(),
                _ => Ok(()),
            };
            let mut state = self.scans.state.lock();
            state.now = None;
            match done {
                Ok(End::Done) if function == Function::Scrub => state.scrub = false,
                Ok(_) => {}
                Err(e) => {
                    state.failure = Some(e.to_string());
                    (state.resilver, state.scrub) = (false, false);
                }
            }
            if let Err(e) = detached {
                state.failure = Some(e.to_string());
            }
        }
    }

    fn is_scan_interrupted(&self) -> bool {
        self.scans.interrupted.load(Ordering::Acquire) || self.txgs.why_stopped().is_some()
    }

    /// One scan from the beginning to the end.
    fn scan(&self, function: Function) -> Result<End> {
        // In this order: a leaf that moves from now on is passed over at the end.
        self.scans.moved.lock().clear();
        // What leaves missed of txgs that are under way is a matter of the next one.
        let targets = self.stale_leaves();
        let bounds = targets.values().filter_map(Txgs::bounds);
        let (min, max) = match function {
            Function::Resilver => {
                let bounds = bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
                let Some((first, last)) = bounds else { return Ok(End::Done) };
                (first.saturating_sub(1), last)
            }
            _ => (0, self.txgs.last_synced()),
        };
        self.wait_for_txg(max)?;
        let seconds = || self.rt.wall().as_secs();
        let mut state = ScanState::default();
        (state.min_txg, state.max_txg, state.start_time) = (min, max, seconds());
        state.to_examine = self.alloc.space_of_tops().values().map(|(_, used)| *used).sum();
        let active = state.with(function, State::Active);
        self.scans.state.lock().now = Some(active);
        self.run(move |cx| cx.log_scan(&active, "scan setup"))?;
        if function == Function::Scrub {
            self.block_faults.begin_scrub();
        }
        let mut walk = walk::Walk::new(self, function, &targets, min, max);
        let end = self.walk(&mut walk)?;
        let outcome = walk.outcome;
        let is_done = end == End::Done;
        if !is_done && (function == Function::Resilver || self.txgs.why_stopped().is_some()) {
            return Ok(end);
        }
        outcome.note(&mut state);
        state.end_time = seconds();
        let state = state.with(function, if is_done { State::Finished } else { State::Canceled });
        // What was written is durable before a log says less.
        self.reader.vdevs().flush().map_err(|e| self.failed("flushing", &e))?;
        self.run(move |cx| cx.end_scan(&state, &targets, &outcome))?;
        Ok(end)
    }

    /// Until a txg is durable.
    fn wait_for_txg(&self, txg: u64) -> Result<()> {
        if self.txgs.last_synced() >= txg {
            return Ok(());
        }
        let waited = self.txgs.wait_synced(txg, super::record::Pushed::Waited);
        waited.map_err(|why| self.stopped(&why))
    }

    fn walk(&self, walk: &mut walk::Walk<'_>) -> Result<End> {
        loop {
            if self.is_scan_interrupted() {
                return Ok(End::Interrupted);
            }
            let is_done = walk.piece()?;
            if let Some(now) = &mut self.scans.state.lock().now {
                walk.outcome.note(now);
            }
            match is_done {
                // What is being freed is still read, and was not visited.
                true if self.reaping.load(Ordering::Relaxed) => self.rt.sleep(REAPED),
                true => return Ok(End::Done),
                false => {}
            }
        }
    }
}

impl TaskCx<'_> {
    fn log_scan(&self, state: &ScanState, event: &str) -> Result<()> {
        let (func, errors) = (state.function().number(), state.errors);
        let text = match state.state() {
            State::Active => {
                format!("func={func} mintxg={} maxtxg={}", state.min_txg, state.max_txg)
            }
            _ => format!("errors={errors}"),
        };
        self.log_event_of_pool(event, &text)
    }

    /// What is lost goes into the error log; what is not any more leaves it when all was seen.
    fn log_found(&self, state: &ScanState, outcome: &Outcome) -> Result<()> {
        if state.function() != Function::Scrub || state.state() != State::Finished {
            return match outcome.lost_blocks.is_empty() {
                true => Ok(()),
                false => self.log_lost(&outcome.lost_blocks, OldErrors::Kept),
            };
        }
        let mut lost = outcome.lost_blocks.clone();
        lost.extend(self.shared.block_faults.lost_since_scrub());
        self.log_lost(&lost, OldErrors::Replaced)
    }

    /// Notes the result, and takes out of the logs what leaves have by now.
    fn end_scan(
        &self,
        state: &ScanState,
        targets: &BTreeMap<u64, Txgs>,
        outcome: &Outcome,
    ) -> Result<()> {
        let directory = self.shared.mos.object(mos::DIRECTORY_OBJECT)?;
        let words = ZapValue::from_words(&state.to_words());
        dmu::zap::set(&directory, self.tx, mos::SCAN.as_bytes(), &words)?;
        self.log_scan(state, "scan done")?;
        self.log_found(state, outcome)?;
        if state.state() != State::Finished {
            return Ok(());
        }
        self.touch();
        let tree = self.shared.reader.vdevs();
        let moved = self.shared.scans.moved.lock().clone();
        let was_written = |guid: &u64| {
            !moved.contains(guid)
                && tree.leaves().any(|l| l.guid() == *guid && l.writer().is_some())
        };
        for (guid, missed) in targets.iter().filter(|(guid, _)| was_written(guid)) {
            let mut has_now = missed.clone();
            has_now.subtract(&outcome.lost);
            if let Some(refused) = outcome.refused.get(guid) {
                has_now.subtract(refused);
            }
            tree.has_caught_up(*guid, &has_now);
        }
        Ok(())
    }
}

impl LivePool {
    /// Brings leaves that are written to what they missed, in the background; nothing when none
    /// missed anything. One that runs begins anew.
    pub fn resilver(&self) -> Result<()> {
        if self.shared.stale_leaves().is_empty() {
            return Ok(());
        }
        self.shared.want(|state| state.resilver = true)
    }

    /// Verifies everything, in the background, and repairs what can be.
    ///
    /// # Errors
    /// When a scrub or resilver runs.
    pub fn scrub(&self) -> Result<()> {
        if let Some(now) = self.scan() {
            let what = match now.function() {
                Function::Resilver => "currently resilvering",
                _ => "currently scrubbing; use 'zpool scrub -s' to cancel scrub",
            };
            return Err(Error::Invalid { what: what.to_owned() });
        }
        self.shared.want(|state| state.scrub = true)
    }

    /// Ends a scrub.
    ///
    /// # Errors
    /// When none runs.
    pub fn stop_scrub(&self) -> Result<()> {
        let mut state = self.shared.scans.state.lock();
        let is_scrub = state.now.is_some_and(|now| now.function() == Function::Scrub);
        if !is_scrub && !state.scrub {
            return Err(Error::Invalid { what: "there is no active scrub".to_owned() });
        }
        state.scrub = false;
        self.shared.scans.interrupted.store(is_scrub, Ordering::Release);
        Ok(())
    }

    /// How far the scrub or resilver is that runs.
    #[must_use]
    pub fn scan(&self) -> Option<ScanState> {
        self.shared.scans.state.lock().now
    }

    /// A scrub or resilver runs, or is about to.
    #[must_use]
    pub fn is_scanning(&self) -> bool {
        self.shared.scans.state.lock().is_running
    }

    /// Waits until no scrub or resilver runs.
    ///
    /// # Errors
    /// When the last one failed.
    pub fn wait_for_scan(&self) -> Result<()> {
        let scans = &self.shared.scans;
        let mut state = scans.state.lock();
        while state.is_running {
            scans.changed.wait(&mut state);
        }
        match &state.failure {
            Some(why) => Err(self.shared.failed("a scrub or resilver", why)),
            None => Ok(()),
        }
    }

    /// Ends what runs; nothing begins any more. What a resilver did not come to stays in the logs.
    pub(super) fn end_scans(&self) {
        let task = {
            let mut state = self.shared.scans.state.lock();
            state.closing = true;
            self.shared.scans.interrupted.store(true, Ordering::Release);
            state.task.take()
        };
        if let Some(task) = task {
            // Its panic was reported where it happened.
            let _ = task.join();
        }
    }
}
