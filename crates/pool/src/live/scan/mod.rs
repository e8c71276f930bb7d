//! Resilver and scrub: all blocks of the pool are visited, and made whole where they are not.
//!
//! # Theory
//!
//! A *resilver* brings leaves what they missed: blocks whose physical birth is in the dirty time
//! log of a leaf that is written to. A *scrub* verifies every copy of every block. Both are the
//! same walk (`walk.rs`) with another choice of blocks, both write what is wrong on a device from
//! what is right (`vdev::Heal`), and one runs at a time: a resilver goes first and ends a scrub,
//! which begins anew behind it, unless it was paused, and says what it repaired in all. (OpenZFS
//! cancels it, and the result is lost.) An error scrub ends when either begins.
//!
//! ```text
//! wanted -> begins: which txgs, which leaves -> walk, in pieces -> flush -> one sync task:
//!              ^                                  |                 logs shrink, result is noted
//!              +---- another leaf came back ------+
//! ```
//!
//! It begins anew for another leaf only where the feature `resilver_defer` is not enabled;
//! otherwise that leaf waits (`deferred.rs`).
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
//! or written. A crash before leaves the log as it was, and the next import goes on where the
//! resilver was, or begins anew.
//!
//! A leaf that left and came back while the walk went on was passed over in between, and whether it
//! did is not seen at the end. So every leaf that is put into or out of the tree is remembered
//! (`Scans::moved`) until the next scan begins, and its log does not shrink. Coming back wants
//! another resilver anyway.
//!
//! A *rebuild* (`rebuild.rs`) brings what leaves missed in another order. It runs in the same
//! thread, before all else that is wanted, and a scrub follows.
//!
//! While it runs, how far it is stands in memory ([`LivePool::scan`]); the result stands in the MOS
//! as OpenZFS keeps it (`docs/format/scan.md`), and so does where a scrub is (`kept.rs`): a scrub
//! that was not ended goes on when the pool is opened the next time, unless it was paused, and a
//! resilver when it is still for the same leaves.

mod deferred;
mod kept;
mod rebuild;
mod rest;
mod targets;
mod walk;

pub(super) use deferred::RESILVER_TXG;
pub(super) use walk::dataset;

use super::LivePool;
use super::errlog::OldErrors;
use super::mos as util;
use super::scans::{Activity, Outcome, ScanRemainder, ScanRequests, ScanStart, issued};
use super::shared::{Shared, TaskCx};
use super::tunables::Tunable;
use crate::error::Result;
use crate::refusal::{NotRunning, Ongoing};
use crate::scans_here::{ScanPass, ScansHere};
use dmu::Zap;
use ondisk::mos;
use ondisk::scan::{Function, ScanState, State};
use parking_lot::MutexGuard;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vdev::Txgs;

/// What was done in less time since a place was written is not worth a txg at the end.
const PLACE_WORTH: Duration = Duration::from_secs(1);

/// How often a place is written that costs no more than a txg.
const PLACE_EACH: Duration = Duration::from_secs(5);

/// How often it is looked whether what was destroyed is freed, or a scan may go on.
const REAPED: Duration = Duration::from_millis(50);

/// What is told to the reader of a failure when a replacement did not come to its end.
const NOT_REPLACED: &str = "not all data could be copied to the device that replaces it";

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Interrupted,
}

/// The last txg that a scan looks at.
fn last_of(state: &ScanState) -> u64 {
    state.max_txg.saturating_sub(1)
}

impl Shared {
    /// Leaves that are written to and missed something.
    fn stale_leaves(&self) -> BTreeMap<u64, Txgs> {
        let tree = self.reader.vdevs();
        let stale = tree.sides().filter(|l| l.is_written());
        stale.map(|l| (l.guid(), l.missed())).filter(|(_, missed)| !missed.is_empty()).collect()
    }

    /// Starts what is wanted, when nothing runs.
    fn want(&self, choose: impl FnOnce(&mut ScanRequests)) -> Result<()> {
        let mut state = self.scans.state.lock();
        if state.closing {
            return Ok(());
        }
        choose(&mut state);
        (state.failure, state.pause) = (None, false);
        if state.is_running() {
            let is_rebuilding = state.activity == Activity::Rebuilds;
            let is_first = state.rebuild || (state.resilver && !is_rebuilding);
            self.scans.interrupted.store(is_first, Ordering::Release);
            return Ok(());
        }
        let Some(me) = self.me.upgrade() else { return Ok(()) };
        let task = self.rt.spawn("scan", move || me.scan_all());
        state.task = Some(task.map_err(|e| self.failed("starting a scan", e))?);
        state.activity = Activity::Begins;
        Ok(())
    }

    /// A scrub of everything, without a request: when nothing else runs.
    pub(super) fn want_scrub(&self) -> Result<()> {
        let is_running = self.scans.state.lock().is_running();
        if is_running {
            return Ok(());
        }
        self.want(|state| (state.scrub, state.since_last) = (true, false))
    }

    /// What the thread does: one after the other until nothing is wanted.
    fn scan_all(&self) {
        loop {
            if self.is_rebuild_next() {
                let done = self.rebuild_all();
                self.rebuilt(done);
                continue;
            }
            let function = {
                let mut state = self.scans.state.lock();
                *self.scans.targets.lock() = None;
                let behind = std::mem::take(&mut state.behind);
                let resilver = std::mem::take(&mut state.resilver) || behind;
                let function = match (state.closing, resilver, state.scrub) {
                    (false, true, _) => Function::Resilver,
                    (false, false, true) => Function::Scrub,
                    _ => {
                        (state.now, state.activity) = (None, Activity::None);
                        state.repaired = 0;
                        self.scans.changed.notify_all();
                        return;
                    }
                };
                // A scrub that is to be paused before it began begins, and is paused.
                let is_paused = state.pause && function == Function::Scrub;
                self.scans.interrupted.store(state.closing || is_paused, Ordering::Release);
                state.activity = Activity::Scans(function);
                function
            };
            // One that begins from here on has a resilver of its own, and says itself how it ended.
            let begun = self.replacements();
            let done = self.scan(function);
            let detached = match &done {
                Ok(End::Done) => self.detach_outlived(),
                _ => Ok(()),
            };
            let is_left = !begun.is_disjoint(&self.replacements());
            let is_done = matches!(done, Ok(End::Done));
            let mut state = self.scans.state.lock();
            (state.now, state.ended) = (None, state.ended + 1);
            self.scans.changed.notify_all();
            let is_scrub = function == Function::Scrub;
            match done {
                Ok(End::Done) if is_scrub => state.scrub = false,
                Ok(End::Interrupted) if is_scrub && state.pause => state.scrub = false,
                Ok(_) => {}
                Err(e) => {
                    state.failure = Some(e.to_string());
                    (state.resilver, state.behind, state.scrub) = (false, false, false);
                }
            }
            if let Err(e) = detached {
                state.failure = Some(e.to_string());
            }
            let is_over = is_done && !state.resilver && !state.behind && !state.closing;
            if is_left && is_over && function == Function::Resilver {
                state.failure.get_or_insert_with(|| NOT_REPLACED.into());
            }
        }
    }

    /// A rebuild is what is to be done next.
    fn is_rebuild_next(&self) -> bool {
        let mut state = self.scans.state.lock();
        if state.closing || !std::mem::take(&mut state.rebuild) {
            return false;
        }
        self.scans.interrupted.store(false, Ordering::Release);
        state.activity = Activity::Rebuilds;
        true
    }

    /// What comes behind rebuilds: what was replaced goes, what is lacking still is brought, and
    /// all that is there is verified.
    fn rebuilt(&self, done: Result<End>) {
        let done = done.and_then(|end| match end {
            End::Done => self.detach_outlived().map(|()| end),
            End::Interrupted => Ok(end),
        });
        let lacks = !self.stale_leaves().is_empty();
        let verifies = self.tunables.get(Tunable::RebuildScrub) == 1;
        let mut state = self.scans.state.lock();
        match done {
            Ok(End::Done) => {
                state.resilver |= lacks;
                (state.scrub, state.since_last) = (state.scrub || verifies, false);
            }
            Ok(End::Interrupted) => {}
            Err(e) => {
                state.failure = Some(e.to_string());
                (state.rebuild, state.resilver, state.scrub) = (false, false, false);
            }
        }
    }

    /// A resilver runs, or is about to.
    pub(super) fn is_resilver_under_way(&self) -> bool {
        let state = self.scans.state.lock();
        state.resilver || state.activity == Activity::Scans(Function::Resilver)
    }

    /// Goes on with rebuilds that are under way.
    pub(super) fn want_rebuild(&self) -> Result<()> {
        self.want(|state| state.rebuild = true)
    }

    /// How long a piece of a scan is.
    fn scan_piece(&self) -> Duration {
        Duration::from_millis(self.tunables.get(Tunable::ScanPiece))
    }

    /// How long a resilver reads what it has collected before it is looked at.
    fn resilver_piece(&self) -> Duration {
        Duration::from_millis(self.tunables.get(Tunable::ResilverPiece))
    }

    /// How often a scan that has read all that it came to writes where it is.
    fn place_each(&self) -> Duration {
        Duration::from_secs(self.tunables.get(Tunable::ScanPlaceEach)).min(PLACE_EACH)
    }

    fn is_scan_interrupted(&self) -> bool {
        self.scans.interrupted.load(Ordering::Acquire) || self.txgs.why_stopped().is_some()
    }

    /// One scan from the beginning, or from where it was, to the end.
    fn scan(&self, function: Function) -> Result<End> {
        // In this order: a leaf that moves from now on is passed over at the end.
        self.scans.moved.lock().clear();
        let (rest, targets) = match function {
            Function::Scrub => (self.rest_of_scrub()?, BTreeMap::new()),
            _ => self.targets()?,
        };
        let is_resumed = rest.is_some();
        let since = match function {
            Function::Scrub => self.scrubs_since()?,
            _ => 0,
        };
        let first = || self.first_state(function, &targets, since);
        let Some(mut state) = rest.as_ref().map(|(state, _)| *state).or_else(first) else {
            // The leaves that one was for have left.
            self.run_keeping_datasets(|cx| cx.end_left_over())?;
            return Ok(End::Done);
        };
        state.flags &= !ScanState::FLAG_PAUSED;
        self.wait_for_txg(last_of(&state))?;
        self.scans.state.lock().now = Some(state);
        let mut walk = match rest {
            Some((_, rest)) => walk::Walk::of_rest(self, &state, &targets, rest),
            None => walk::Walk::new(self, &state, &targets),
        };
        self.note_begun(&walk, &state);
        match is_resumed {
            // Also because a scrub waits for what is being freed, which takes a txg.
            true => self.put_place_of(&walk, state).map(drop)?,
            false => self.begin(state, &targets)?,
        }
        self.post_scan(function, if is_resumed { "resume" } else { "start" });
        let end = self.walk(&mut walk, &state)?;
        let is_done = end == End::Done;
        let over = if is_done { Some(walk) } else { self.keep_interrupted(walk, state)? };
        let Some(walk) = over else { return Ok(end) };
        let outcome = walk.outcome;
        outcome.note(&mut state);
        state = kept::at_begin(state);
        (state.cur_min_txg, state.cur_max_txg) = (0, 0);
        state.end_time = self.rt.wall().as_secs();
        let state = state.with(function, if is_done { State::Finished } else { State::Canceled });
        // What was written is durable before a log says less.
        self.reader.vdevs().flush().map_err(|e| self.failed("flushing", e))?;
        // What was not looked at may still be lost.
        let saw_all = !is_resumed && state.min_txg == 0;
        let old = if saw_all { OldErrors::Replaced } else { OldErrors::Kept };
        self.run_keeping_datasets(move |cx| cx.end_scan(&state, &targets, &outcome, old))?;
        self.post_scan(function, if is_done { "finish" } else { "abort" });
        Ok(end)
    }

    /// Keeps a walk that was interrupted, or what it did, for the scan that goes on with it or
    /// begins anew; `None`: there will be one.
    fn keep_interrupted<'a>(
        &self,
        walk: walk::Walk<'a>,
        state: ScanState,
    ) -> Result<Option<walk::Walk<'a>>> {
        let function = state.function();
        if function == Function::Resilver {
            self.keep_resilver(&walk, state)?;
            return Ok(None);
        }
        if self.txgs.why_stopped().is_some() {
            return Ok(None);
        }
        let (is_paused, is_kept, is_over) = {
            let mut wanted = self.scans.state.lock();
            if wanted.scrub {
                wanted.repaired = walk.outcome.processed;
            }
            (wanted.pause, wanted.pause || wanted.closing, wanted.resilver)
        };
        if is_kept {
            self.keep(walk, state)?;
            if is_paused {
                self.post_scan(function, "paused");
            }
            return Ok(None);
        }
        Ok((!is_over).then_some(walk))
    }

    /// What is shown of the pace of a scan begins here.
    fn note_begun(&self, walk: &walk::Walk<'_>, state: &ScanState) {
        let collected = Arc::clone(walk.collected());
        let start = ScanStart {
            at: self.rt.now(),
            wall: self.rt.wall().as_secs(),
            examined: state.examined.saturating_add(collected.bytes()),
            issued: issued(state),
            collected,
        };
        let mut wanted = self.scans.state.lock();
        (wanted.begun, wanted.paused_at) = (Some(start), 0);
    }

    fn post_scan(&self, function: Function, what: &str) {
        match function {
            Function::Scrub => self.post_system(&format!("scrub_{what}")),
            _ => self.post_resilver(&format!("resilver_{what}")),
        }
    }

    /// The state in which a scan begins; `None` when there is nothing to be done.
    fn first_state(
        &self,
        function: Function,
        targets: &BTreeMap<u64, Txgs>,
        since: u64,
    ) -> Option<ScanState> {
        let mut state = ScanState::default();
        (state.min_txg, state.max_txg) = match function {
            Function::Resilver => {
                // What leaves missed of txgs that are under way is a matter of the next one.
                let bounds = targets.values().filter_map(Txgs::bounds);
                let (first, last) = bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
                // Blocks of any age may have been copied by a removal in one of them.
                let is_moved = self.reader.vdevs().has_moved_since(first);
                (if is_moved { 0 } else { first.saturating_sub(1) }, last.saturating_add(1))
            }
            _ => (since, self.txgs.last_synced().saturating_add(1)),
        };
        if function == Function::Scrub {
            state.processed = std::mem::take(&mut self.scans.state.lock().repaired);
        }
        state.start_time = self.rt.wall().as_secs();
        state.to_examine = self.alloc.space_of_tops().values().map(|(_, used)| *used).sum();
        Some(kept::at_begin(state).with(function, State::Active))
    }

    /// Blocks that were born after this txg are what the scrub that is wanted looks at.
    fn scrubs_since(&self) -> Result<u64> {
        if !self.scans.state.lock().since_last {
            return Ok(0);
        }
        let _gate = self.gate.read();
        let directory = Zap::open(&self.mos.object(mos::DIRECTORY_OBJECT)?)?;
        let last = directory.get_u64(mos::LAST_SCRUBBED_TXG)?.unwrap_or(0);
        // A pool that went back may say one that is still to come.
        Ok(if last <= self.txgs.last_synced() { last } else { 0 })
    }

    /// What is left of a scrub that was paused, or under way when the pool was closed.
    fn rest_of_scrub(&self) -> Result<Option<(ScanState, ScanRemainder)>> {
        if let Some(paused) = self.scans.paused.lock().take() {
            return Ok(Some(paused));
        }
        // No dataset comes or goes between the place and what it leads to.
        let _gate = self.gate.read();
        let kept = kept::under_way(&self.mos)?;
        let kept = kept.filter(|k| k.state.function() == Function::Scrub);
        let go_on = |k: kept::SavedScan| {
            let walk = walk::Walk::go_on(self, &k, &BTreeMap::new())?;
            Ok((k.state, walk.into_rest()))
        };
        kept.map(go_on).transpose()
    }

    /// Writes that it begins.
    fn begin(&self, state: ScanState, targets: &BTreeMap<u64, Txgs>) -> Result<()> {
        let looks_at_all = state.function() == Function::Scrub && state.min_txg == 0;
        let leaves: Vec<u64> = targets.keys().copied().collect();
        let targets = Some(targets.clone()).filter(|_| state.function() == Function::Resilver);
        self.error_scrub.interrupt();
        let has_ended_one = self.run_keeping_datasets(move |cx| {
            cx.put_scan(&state, &kept::Queue::new())?;
            let has_ended_one = cx.cancel_error_scrub()?;
            cx.clear_deferred()?;
            cx.mark_targets(&leaves, state.max_txg)?;
            cx.log_scan(&state, "scan setup")?;
            *cx.shared.scans.targets.lock() = targets;
            Ok(has_ended_one)
        })?;
        if has_ended_one {
            self.post_system("errorscrub_abort");
        }
        if looks_at_all {
            self.block_faults.begin_scrub();
        }
        Ok(())
    }

    /// Writes where a scrub is that does not end now, and keeps what is left of it when it is
    /// paused.
    fn keep(&self, walk: walk::Walk<'_>, mut state: ScanState) -> Result<()> {
        let pause = self.scans.state.lock().pause;
        if pause {
            state.flags |= ScanState::FLAG_PAUSED;
        }
        let is_worth = pause || walk.time_since_place() >= PLACE_WORTH;
        if self.txgs.why_stopped().is_none() && is_worth {
            self.put_place_of(&walk, state)?;
        }
        if pause {
            walk.outcome.note(&mut state);
            *self.scans.paused.lock() = Some((state, walk.into_rest()));
            self.scans.state.lock().paused_at = self.rt.wall().as_secs();
        }
        Ok(())
    }

    /// Writes where a scrub is, and what it found. Whether that is not the beginning.
    fn put_place_of(&self, walk: &walk::Walk<'_>, mut state: ScanState) -> Result<bool> {
        let (kept, tasks) = {
            let _gate = self.gate.read();
            let (place, mut queue) = walk.place()?;
            walk.note_settled(&mut state);
            (state.cur_min_txg, state.cur_max_txg) = (place.cur_min_txg, place.cur_max_txg);
            state.bookmark = place.bookmark;
            if state.function() == Function::Resilver && walk.outcome.leaves_gaps() {
                (state, queue) = (kept::restarted(state), kept::Queue::new());
            }
            (kept::SavedScan { state, queue }, self.scans.tasks.load(Ordering::Acquire))
        };
        let is_place = kept.has_place();
        let lost = walk.outcome.lost_blocks.clone();
        self.run_keeping_datasets(move |cx| {
            cx.put_place(&kept, tasks)?;
            match lost.is_empty() {
                true => Ok(()),
                false => cx.log_lost(&lost, OldErrors::Kept),
            }
        })?;
        Ok(is_place)
    }

    /// What brings leaves what they missed begins, and ends a scrub that is paused, as in OpenZFS:
    /// one scan at a time has a place on disk.
    fn cancel_paused(&self) -> Result<()> {
        if self.left_over()? != kept::PendingScan::Paused {
            return Ok(());
        }
        self.scans.paused.lock().take();
        self.run_keeping_datasets(|cx| cx.end_left_over())?;
        self.post_scan(Function::Scrub, "abort");
        Ok(())
    }

    /// The pool is being closed: a scrub that is paused has a place on disk again.
    fn keep_paused(&self) -> Result<()> {
        let paused = self.scans.paused.lock().take();
        let Some((state, rest)) = paused else { return Ok(()) };
        if self.scans.has_place.load(Ordering::Acquire) || self.txgs.why_stopped().is_some() {
            return Ok(());
        }
        let walk = walk::Walk::of_rest(self, &state, &BTreeMap::new(), rest);
        self.put_place_of(&walk, state).map(drop)
    }

    /// Until a txg is durable.
    fn wait_for_txg(&self, txg: u64) -> Result<()> {
        if self.txgs.last_synced() >= txg {
            return Ok(());
        }
        let waited = self.txgs.wait_synced(txg, super::record::PushReason::Waited);
        waited.map_err(|why| self.stopped(&why))
    }

    fn walk(&self, walk: &mut walk::Walk<'_>, state: &ScanState) -> Result<End> {
        loop {
            if self.is_scan_interrupted() {
                return Ok(End::Interrupted);
            }
            if self.tunables.get(Tunable::ScanSuspend) == 1 {
                self.scans.changed.notify_all();
                self.rt.sleep(REAPED);
                continue;
            }
            let is_done = walk.piece()?;
            let is_time = walk.time_since_place() >= self.place_each();
            let is_settled = walk.is_settled() && is_time;
            if !is_done && (is_settled || walk.has_lost_place()) {
                let is_place = self.put_place_of(walk, *state)?;
                walk.note_place_saved(is_place, is_settled);
            }
            if let Some(now) = &mut self.scans.state.lock().now {
                walk.outcome.note(now);
            }
            self.scans.changed.notify_all();
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
    /// Ends a scan that nothing goes on with: a scrub that was paused is canceled, and a resilver
    /// that has brought everything is done.
    fn end_left_over(&self) -> Result<()> {
        let Some(kept) = kept::under_way(self.objects())? else { return Ok(()) };
        let function = kept.state.function();
        let end = if function == Function::Resilver { State::Finished } else { State::Canceled };
        let mut state = kept::at_begin(kept.state).with(function, end);
        (state.cur_min_txg, state.cur_max_txg, state.flags) = (0, 0, 0);
        state.end_time = self.dsl().now.secs;
        self.put_scan(&state, &kept::Queue::new())?;
        self.mark_targets(&[], 0)?;
        self.clear_deferred()?;
        self.log_scan(&state, "scan done")
    }

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

    /// What is lost goes into the error log; what is not any more leaves it when all was seen, by
    /// this process.
    fn log_found(&self, state: &ScanState, outcome: &Outcome, old: OldErrors) -> Result<()> {
        if state.function() != Function::Scrub || state.state() != State::Finished {
            return match outcome.lost_blocks.is_empty() {
                true => Ok(()),
                false => self.log_lost(&outcome.lost_blocks, OldErrors::Kept),
            };
        }
        let mut lost = outcome.lost_blocks.clone();
        lost.extend(self.shared.block_faults.lost_since_scrub());
        self.log_lost(&lost, old)
    }

    /// Notes the result, and takes out of the logs what leaves have by now.
    fn end_scan(
        &self,
        state: &ScanState,
        targets: &BTreeMap<u64, Txgs>,
        outcome: &Outcome,
        old: OldErrors,
    ) -> Result<()> {
        self.put_scan(state, &kept::Queue::new())?;
        self.mark_targets(&[], 0)?;
        // From here on nothing is left to this one.
        *self.shared.scans.targets.lock() = None;
        let were_waiting = self.clear_deferred()?;
        self.log_scan(state, "scan done")?;
        if were_waiting {
            let text = format!("errors={}", state.errors);
            self.log_event_of_pool("starting deferred resilver", &text)?;
        }
        self.log_found(state, outcome, old)?;
        if state.state() != State::Finished {
            return Ok(());
        }
        if state.function() == Function::Scrub {
            // The next one begins behind it, and leaves nothing out.
            let (name, txg) = (mos::LAST_SCRUBBED_TXG, last_of(state));
            util::set_u64(self.objects(), self.tx, mos::DIRECTORY_OBJECT, name, txg)?;
        }
        self.touch();
        let tree = self.shared.reader.vdevs();
        let moved = self.shared.scans.moved.lock().clone();
        // What a removal that runs has copied is reached by no block yet, so it was not visited.
        let copied = self.shared.alloc.leaving_txgs();
        let was_written = |guid: &u64| !moved.contains(guid) && tree.is_written(*guid);
        for (guid, missed) in targets.iter().filter(|(guid, _)| was_written(guid)) {
            let mut has_now = missed.clone();
            has_now.subtract(&outcome.lost);
            if let Some(refused) = outcome.refused.get(guid) {
                has_now.subtract(refused);
            }
            has_now.subtract(&copied);
            tree.has_caught_up(*guid, &has_now);
        }
        Ok(())
    }
}

impl LivePool {
    /// Brings leaves that are written to what they missed, in the background; nothing when none
    /// missed anything. One that runs goes on, and another follows; without the feature
    /// `resilver_defer` it begins anew.
    pub fn resilver(&self) -> Result<()> {
        let shared = &self.shared;
        if shared.stale_leaves().is_empty() || shared.gather_resilver() {
            return Ok(());
        }
        if shared.defer_resilver()? {
            return Ok(());
        }
        self.begin_resilver(false)
    }

    /// Begins one for all leaves that are written to and missed anything.
    fn begin_resilver(&self, anew: bool) -> Result<()> {
        if self.shared.stale_leaves().is_empty() {
            return Ok(());
        }
        let is_rebuilding = self.shared.is_rebuilding();
        self.shared.want(|state| {
            state.resilver = true;
            state.anew |= anew;
            // It goes first, and may bring all.
            state.rebuild |= is_rebuilding && state.activity == Activity::None;
        })
    }

    /// Leaves that are written to and lack something: a write failed, and the leaf stayed in use.
    /// `None` while a scan runs, which may bring it, or the pool is suspended.
    #[must_use]
    pub fn leaves_to_resilver(&self) -> Option<Vec<u64>> {
        let is_busy = self.is_scanning() || self.is_waiting();
        (!is_busy).then(|| self.shared.stale_leaves().into_keys().collect())
    }

    /// What was under way when the pool was closed goes on; a scrub that was paused waits.
    pub(super) fn resume_scan(&self) -> Result<()> {
        let shared = &self.shared;
        if shared.is_rebuilding() {
            return shared.want_rebuild();
        }
        match shared.left_over()? {
            kept::PendingScan::Nothing => Ok(()),
            kept::PendingScan::Paused => {
                let rest = shared.rest_of_scrub()?;
                *shared.scans.paused.lock() = rest;
                Ok(())
            }
            kept::PendingScan::Scrub => shared.want(|state| state.scrub = true),
            kept::PendingScan::Resilver if !shared.stale_leaves().is_empty() => Ok(()),
            kept::PendingScan::Resilver => shared.run_keeping_datasets(|cx| cx.end_left_over()),
        }
    }

    /// Keeps a scrub as it is, until [`Self::scrub`] goes on with it, in another process as well.
    /// Returns when it is kept; one that waits for a resilver is kept when it begins.
    ///
    /// # Errors
    /// When none runs, or it is paused. When the pool is suspended.
    pub fn pause_scrub(&self) -> Result<()> {
        self.shared.check_not_suspended()?;
        let mut state = self.shared.scans.state.lock();
        let is_scrub = state.now.is_some_and(|now| now.function() == Function::Scrub);
        if !is_scrub && !state.scrub {
            drop(state);
            return match self.shared.left_over()? {
                kept::PendingScan::Paused => Err(self.shared.refused(Ongoing::PausedScrub)),
                _ => Err(self.shared.refused(NotRunning::Scrub)),
            };
        }
        state.pause = true;
        self.interrupt_scrub(&mut state)
    }

    /// Has the scrub that runs come to its end, or be kept, and waits for that; not for a resilver
    /// that goes before it.
    ///
    /// # Errors
    /// What it ends with could not be written. The pool has stopped: it ends when the pool goes on.
    fn interrupt_scrub(&self, state: &mut MutexGuard<'_, ScanRequests>) -> Result<()> {
        let scans = &self.shared.scans;
        let has_ended = state.ended;
        let is_before = |state: &ScanRequests| match state.activity {
            // It is about to look at what is wanted.
            Activity::Begins => state.scrub && !(state.resilver || state.behind || state.rebuild),
            activity => activity == Activity::Scans(Function::Scrub) && state.ended == has_ended,
        };
        if is_before(state) {
            scans.interrupted.store(true, Ordering::Release);
        }
        while is_before(state) {
            if let Some(why) = self.suspended() {
                return Err(self.shared.stopped(&why));
            }
            let next = self.rt().now() + REAPED;
            scans.changed.wait_until(state, next);
        }
        match state.failure.as_deref().filter(|_| state.ended != has_ended) {
            Some(why) => Err(self.shared.failed("a scrub", why)),
            None => Ok(()),
        }
    }

    /// Verifies everything, in the background, and repairs what can be. A scrub that was paused
    /// goes on. Leaves in use that missed something are brought it first.
    ///
    /// # Errors
    /// When a scrub or resilver runs. When the pool is suspended.
    pub fn scrub(&self) -> Result<()> {
        self.scrub_some(false)
    }

    /// The same with what was born since the last scrub that came to its end: everything, when
    /// there was none. A scrub that was paused goes on as what it is.
    ///
    /// # Errors
    /// When a scrub or resilver runs. When the pool is suspended.
    pub fn scrub_since_last(&self) -> Result<()> {
        self.scrub_some(true)
    }

    fn scrub_some(&self, since_last: bool) -> Result<()> {
        self.shared.check_not_suspended()?;
        if let Some(now) = self.scan() {
            return Err(self.shared.refused(match now.function() {
                Function::Resilver => Ongoing::Resilver,
                _ => Ongoing::Scrub,
            }));
        }
        if self.shared.is_rebuilding() {
            return Err(self.shared.refused(Ongoing::Rebuild));
        }
        // A log shrinks by a resilver only, and a leaf that did not take a few blocks and is used
        // all the same has had none.
        let lacks = !self.shared.stale_leaves().is_empty();
        self.shared.want(|state| {
            state.resilver |= lacks;
            (state.scrub, state.since_last) = (true, since_last);
        })
    }

    /// Ends a scrub, also one that is paused. Returns when it has ended.
    ///
    /// # Errors
    /// When none runs. When the pool is suspended.
    pub fn stop_scrub(&self) -> Result<()> {
        self.shared.check_not_suspended()?;
        let mut state = self.shared.scans.state.lock();
        let is_scrub = state.now.is_some_and(|now| now.function() == Function::Scrub);
        if !is_scrub && !state.scrub {
            drop(state);
            if self.shared.left_over()? == kept::PendingScan::Paused {
                return self.shared.cancel_paused();
            }
            return Err(self.shared.refused(NotRunning::Scrub));
        }
        (state.scrub, state.repaired) = (false, 0);
        self.interrupt_scrub(&mut state)
    }

    /// How far the scrub or resilver is that runs.
    #[must_use]
    pub fn scan(&self) -> Option<ScanState> {
        self.shared.scans.state.lock().now
    }

    /// What this process has done of scans, as reports show it.
    pub(super) fn scans_here(&self) -> ScansHere {
        let scans = &self.shared.scans;
        let paused = scans.paused.lock().as_ref().map(|(state, rest)| {
            let pass = ScanPass { collected: rest.collected.bytes(), ..ScanPass::default() };
            (*state, pass)
        });
        let state = scans.state.lock();
        let is_rebuilding = state.is_rebuilding();
        let pass = state.now.zip(state.begun.as_ref()).map(|(now, begun)| {
            let collected = begun.collected.bytes();
            let examined = now.examined.saturating_add(collected);
            ScanPass {
                start_time: begun.wall,
                elapsed: self.rt().now().saturating_sub(begun.at).as_secs(),
                examined: examined.saturating_sub(begun.examined),
                issued: issued(&now).saturating_sub(begun.issued),
                collected,
                paused: 0,
            }
        });
        let paused = paused
            .map(|(state_then, pass)| (state_then, ScanPass { paused: state.paused_at, ..pass }));
        let error_scrub = self.shared.error_scrub.here();
        ScansHere { now: state.now, pass, paused, is_rebuilding, error_scrub }
    }

    /// A scrub or resilver runs, or is about to.
    #[must_use]
    pub fn is_scanning(&self) -> bool {
        self.shared.scans.state.lock().is_running()
    }

    /// A resilver runs, or is about to, and nothing holds it up.
    #[must_use]
    pub fn is_resilvering(&self) -> bool {
        self.is_resilvering_in(&self.shared.scans.state.lock())
    }

    fn is_resilvering_in(&self, state: &ScanRequests) -> bool {
        let is_held_up = self.shared.tunables.get(Tunable::ScanSuspend) == 1;
        let runs = [Activity::Scans(Function::Resilver), Activity::Rebuilds];
        let is_wanted = state.is_running() && (state.resilver || state.rebuild);
        (runs.contains(&state.activity) || is_wanted) && !is_held_up
    }

    /// Waits until no resilver runs, or one is held up. `report` gets how far it is, after each
    /// piece of it; it must be short.
    pub fn wait_for_resilver(&self, report: &mut dyn FnMut(&ScanState)) {
        let scans = &self.shared.scans;
        let mut state = scans.state.lock();
        while self.is_resilvering_in(&state) {
            scans.changed.wait(&mut state);
            if let Some(now) = &state.now {
                report(now);
            }
        }
    }

    /// Waits until no scrub or resilver runs.
    ///
    /// # Errors
    /// When the last one failed.
    pub fn wait_for_scan(&self) -> Result<()> {
        let scans = &self.shared.scans;
        let mut state = scans.state.lock();
        while state.is_running() {
            scans.changed.wait(&mut state);
        }
        match &state.failure {
            Some(why) => Err(self.shared.failed("a scrub or resilver", why.as_str())),
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
        // Without it the scrub begins anew.
        let _ = self.shared.keep_paused();
    }
}
