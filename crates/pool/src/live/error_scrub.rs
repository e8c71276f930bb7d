//! Error scrub: only the blocks of the error log are looked at again.
//!
//! # Theory
//!
//! A block that could not be had is in the error log until a scrub has seen everything. After its
//! device is back, or a file was written anew, a scrub of the whole pool is much work for a few
//! blocks. This looks up each block of the log where it stands now, reads all copies of it, writes
//! what is wrong, and takes what is whole off the log.
//!
//! ```text
//! log -> in pieces, with the gate: where is it now? -> healed -> flush -> one task: what is
//!                                        nowhere: it was freed             whole or freed goes
//! ```
//!
//! The gate keeps a txg from being committed as long as a piece lasts, so what a pointer leads to
//! is its block (`scan/mod.rs`). What readers met meanwhile stays: the task takes off what was
//! looked at, and nothing else. The log is short, so this runs on the thread that asks for it; a
//! second one that asks waits for the end of the first.
//!
//! **It goes on.** The state is in the MOS as OpenZFS keeps it (`docs/format/scan.md`), from the
//! begin on: one that was interrupted, here or by OpenZFS, is gone on with by the next import, or
//! when the next is asked for; one that is paused, only then. Every few seconds what is whole goes
//! off the log, and is not looked at again. What is not is: it is what the log still has. So no
//! place in the log is kept, and OpenZFS begins with what is left.
//!
//! **One at a time.** None begins while a scan is under way or paused, and a scan that begins
//! cancels it: in the task in which the scan begins, so the one that runs finds that it has ended
//! when it keeps how far it is. OpenZFS has it so too, but refuses a scrub meanwhile.

use super::LivePool;
use super::errlog::OldErrors;
use super::shared::{Shared, TaskCx};
use super::tunables::Tunable;
use crate::errlog::{BY_HEAD, find_block, read};
use crate::error::{Error, Result};
use crate::faults::LostBlocks;
use crate::refusal::{NotRunning, Ongoing};
use dmu::{Objset, Zap, ZapValue, zap};
use ondisk::errlog::Zbookmark;
use ondisk::scan::{ErrorScrubState, ScanState, State};
use ondisk::{BlkPtr, mos};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use vdev::Heal;
use zio::Place;

/// Blocks that are looked up and healed at a time.
const PIECE: usize = 64;
/// Datasets in which one block is looked for at most.
const DATASETS_MAX: usize = 10_000;
/// What was found is kept that often; and no more than a tenth of the time is spent on it, because
/// the log is written anew each time.
const KEEP_EVERY: Duration = Duration::from_secs(5);
/// How often one that waits for the end looks whether it is to wait on.
const PATIENCE: Duration = Duration::from_millis(500);

/// The one error scrub that may run, as long as this lives.
struct Running(Arc<Shared>);

impl Running {
    /// `None` while another runs, or when the pool is being closed.
    fn claim(shared: &Arc<Shared>) -> Option<Self> {
        let mut state = shared.error_scrub.state.lock();
        if state.is_running || state.is_closing {
            return None;
        }
        (state.is_running, state.is_interrupted, state.last) = (true, false, None);
        state.paused_at = 0;
        Some(Self(Arc::clone(shared)))
    }

    fn run(self, keep_going: &dyn Fn() -> bool) -> Result<u64> {
        let done = self.0.scrub_errors(keep_going);
        let last = done.as_ref().map(|lost| *lost).map_err(ToString::to_string);
        self.0.error_scrub.state.lock().last = Some(last);
        done
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let scrub = &self.0.error_scrub;
        let mut state = scrub.state.lock();
        (state.is_running, state.now) = (false, None);
        scrub.changed.notify_all();
    }
}

/// An entry of the log: the block, and its birth where the log has it.
type Entry = (Zbookmark, Option<u64>);

/// What looking again gave.
#[derive(Default)]
struct RecheckResult {
    /// They are whole, or not referenced any more.
    fine: BTreeSet<Entry>,
    /// They cannot be had.
    lost: u64,
}

impl Shared {
    /// Where the block of an entry is now, in its dataset and, where that is a head, its snapshots.
    fn places_of(&self, (block, birth): Entry) -> dsl::Result<Vec<(BlkPtr, Place)>> {
        let mut out: BTreeMap<u64, (BlkPtr, Place)> = BTreeMap::new();
        let mut next = block.objset;
        for _ in 0..DATASETS_MAX {
            let dataset = self.dsl.nameless(next)?;
            let pointer = find_block(&self.dsl, &dataset, &block)?;
            let is_it = |bp: &BlkPtr| birth.is_none_or(|birth| bp.logical_birth() == birth);
            if let Some(bp) = pointer.filter(is_it) {
                let (object, blkid) = (block.object, block.blkid);
                let level = i8::try_from(block.level()).unwrap_or(0);
                let place = Place { objset: next, object, level, blkid };
                out.insert(bp.physical_birth(), (bp, place));
            }
            let phys = &dataset.phys;
            // Older snapshots cannot have it, and without a birth the entry is of one dataset.
            if phys.prev_snap == 0 || birth.is_none_or(|birth| phys.prev_snap_txg < birth) {
                break;
            }
            next = phys.prev_snap;
        }
        Ok(out.into_values().collect())
    }

    /// Looks again at some blocks.
    fn look_again(&self, entries: &[Entry], found: &mut RecheckResult) {
        let _gate = self.gate.read();
        for entry in entries {
            // The pool's own metadata, what is of no tree, and what cannot be looked up for damage
            // stays in the log.
            let is_of_tree = entry.0.objset != 0 && entry.0.level() >= Zbookmark::ROOT_LEVEL;
            let places = match self.places_of(*entry) {
                Ok(places) if is_of_tree => places,
                _ => {
                    found.lost += 1;
                    continue;
                }
            };
            let mended = self.reader.heal_many(&places, Heal::All);
            match mended.iter().all(|one| one.lost.is_none()) {
                true => {
                    found.fine.insert(*entry);
                }
                false => found.lost += 1,
            }
        }
    }
}

/// The words that the object directory has under a name; none where it has not.
fn words(mos: &Objset, name: &str) -> Result<Vec<u64>> {
    let directory = Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?;
    Ok(directory.get(name.as_bytes())?.map_or_else(Vec::new, |entry| entry.ints().collect()))
}

/// The one that is under way or paused.
fn under_way(mos: &Objset) -> Result<Option<ErrorScrubState>> {
    let state = ErrorScrubState::from_words(&words(mos, mos::ERROR_SCRUB)?).ok();
    Ok(state.filter(|state| state.state() == State::ErrorScrubbing))
}

/// A scrub or resilver is under way, or a scrub is paused.
fn is_scan_under_way(mos: &Objset) -> Result<bool> {
    let state = ScanState::from_words(&words(mos, mos::SCAN)?).ok();
    Ok(state.is_some_and(|state| state.state() == State::Active))
}

impl TaskCx<'_> {
    fn put_error_scrub(&self, state: &ErrorScrubState) -> Result<()> {
        let directory = self.objects().object(mos::DIRECTORY_OBJECT)?;
        let words = ZapValue::from_words(&state.to_words());
        zap::set(&directory, self.tx, mos::ERROR_SCRUB.as_bytes(), &words)?;
        match state.state() {
            State::ErrorScrubbing => Ok(()),
            _ => self.log_event_of_pool("error scrub done", &format!("errors={}", state.errors)),
        }
    }

    fn begin_error_scrub(&self, state: &ErrorScrubState) -> Result<()> {
        match is_scan_under_way(self.objects())? {
            true => Err(self.shared.refused(Ongoing::Scan)),
            false => self.put_error_scrub(state),
        }
    }

    /// Keeps how far it is, unless it has ended meanwhile, and takes what is whole off the log.
    fn keep_error_scrub(&self, state: &ErrorScrubState, fine: &BTreeSet<Entry>) -> Result<()> {
        let by_head = self.shared.features.count(BY_HEAD).is_some();
        let log = read(self.objects(), by_head)?;
        let now = under_way(self.objects())?;
        // One that was not read to its end stays as it is.
        if !fine.is_empty() && !log.is_cut {
            let left = log.blocks.into_iter().filter(|entry| !fine.contains(entry));
            let left: LostBlocks = left.map(|(block, birth)| (block, birth.unwrap_or(0))).collect();
            self.log_lost(&left, OldErrors::Replaced)?;
        }
        match now.is_some_and(|now| now.start_time == state.start_time) {
            true => self.put_error_scrub(state),
            false => Ok(()),
        }
    }

    /// A scan begins: what there is of an error scrub ends. Whether there was any.
    pub(super) fn cancel_error_scrub(&self) -> Result<bool> {
        let Some(state) = under_way(self.objects())? else { return Ok(false) };
        self.put_error_scrub(&canceled(state, self.dsl().now.secs))?;
        Ok(true)
    }
}

fn canceled(state: ErrorScrubState, now: u64) -> ErrorScrubState {
    let mut state = state.with_state(State::Canceled);
    (state.end_time, state.paused) = (now, 0);
    state
}

impl Shared {
    /// The one that is under way or paused, as it was kept last.
    fn pending_error_scrub(&self) -> Result<Option<ErrorScrubState>> {
        let _gate = self.gate.read();
        under_way(&self.mos)
    }

    /// What was written is durable before the log says less.
    fn keep_found(&self, state: ErrorScrubState, fine: BTreeSet<Entry>) -> Result<()> {
        self.reader.vdevs().flush().map_err(|e| self.failed("flushing", e))?;
        let healed: BTreeSet<Zbookmark> = fine.iter().map(|(block, _)| *block).collect();
        self.run_keeping_datasets(move |cx| cx.keep_error_scrub(&state, &fine))?;
        self.block_faults.are_found(&healed);
        Ok(())
    }

    /// Begins one, or goes on with what there is; what the log has.
    fn begin_error_scrub(&self) -> Result<(ErrorScrubState, Vec<Entry>)> {
        let pending = self.pending_error_scrub()?;
        let log = {
            let _gate = self.gate.read();
            read(&self.mos, self.features.count(BY_HEAD).is_some())?
        };
        let log: Vec<Entry> = log.blocks;
        let mut state = pending.unwrap_or_default().with_state(State::ErrorScrubbing);
        if pending.is_none() {
            state.start_time = self.rt.wall().as_secs();
        }
        // What is left is looked at from the beginning, and what was lost is met again.
        (state.paused, state.cursor, state.errors) = (0, 0, 0);
        state.to_examine = log.len() as u64;
        self.run_keeping_datasets(move |cx| cx.begin_error_scrub(&state))?;
        self.post_system(if pending.is_some() { "errorscrub_resume" } else { "errorscrub_start" });
        self.error_scrub.state.lock().now = Some(state);
        Ok((state, log))
    }

    /// Waits as long as a tunable holds scans up; whether it is to go on then.
    fn may_go_on(&self, keep_going: &dyn Fn() -> bool) -> bool {
        let mut state = self.error_scrub.state.lock();
        while self.tunables.get(Tunable::ScanSuspend) == 1 && !state.is_interrupted {
            if !keep_going() {
                return false;
            }
            self.error_scrub.changed.wait_until(&mut state, self.rt.now() + PATIENCE);
        }
        !state.is_interrupted
    }

    /// Goes through the log; how many blocks cannot be had.
    fn scrub_errors(&self, keep_going: &dyn Fn() -> bool) -> Result<u64> {
        let (mut state, log) = self.begin_error_scrub()?;
        let mut found = RecheckResult::default();
        let (mut kept, mut took) = (self.rt.now(), Duration::ZERO);
        for piece in log.chunks(PIECE) {
            if !self.may_go_on(keep_going) || !keep_going() {
                self.keep_found(state, found.fine)?;
                let is_wanted = !self.error_scrub.state.lock().is_interrupted;
                return if is_wanted { Err(self.error_scrub_cancelled()) } else { Ok(found.lost) };
            }
            self.look_again(piece, &mut found);
            let looked_at = piece.len() as u64;
            state.examined = state.examined.saturating_add(looked_at);
            state.to_examine = state.to_examine.saturating_sub(looked_at);
            state.errors = found.lost;
            self.error_scrub.state.lock().now = Some(state);
            let begun = self.rt.now();
            if begun.saturating_sub(kept) > KEEP_EVERY.max(10 * took) {
                self.keep_found(state, std::mem::take(&mut found.fine))?;
                kept = self.rt.now();
                took = kept.saturating_sub(begun);
            }
        }
        state.end_time = self.rt.wall().as_secs();
        self.keep_found(state.with_state(State::Finished), found.fine)?;
        self.post_system("errorscrub_finish");
        Ok(found.lost)
    }

    fn error_scrub_cancelled(&self) -> Error {
        self.failed("error scrub", "it was cancelled")
    }

    /// Waits for the end of the one that runs; what came of it.
    fn wait_for_error_scrub(&self, keep_going: &dyn Fn() -> bool) -> Result<u64> {
        let scrub = &self.error_scrub;
        let mut state = scrub.state.lock();
        while state.is_running {
            if !keep_going() {
                return Err(self.error_scrub_cancelled());
            }
            scrub.changed.wait_until(&mut state, self.rt.now() + PATIENCE);
        }
        match state.last.clone() {
            Some(Ok(lost)) => Ok(lost),
            Some(Err(why)) => Err(self.failed("error scrub", why)),
            None => Err(self.stopped("the pool is being closed")),
        }
    }

    /// Goes on with one that was interrupted, aside of everything else.
    pub(super) fn resume_error_scrub(&self) -> Result<()> {
        let is_left = self.pending_error_scrub()?.is_some_and(|state| state.paused == 0);
        let Some(me) = self.me.upgrade().filter(|_| is_left) else { return Ok(()) };
        let Some(running) = Running::claim(&me) else { return Ok(()) };
        let task = self.rt.spawn("error scrub", move || {
            // What it did not come to is looked at by the next one.
            let _ = running.run(&|| true);
        });
        let task = task.map_err(|e| self.failed("starting an error scrub", e))?;
        self.error_scrub.state.lock().task = Some(task);
        Ok(())
    }

    /// Has the one that runs end and stay as it is, and waits for that; whether one ran.
    fn interrupt_error_scrub(&self) -> bool {
        let scrub = &self.error_scrub;
        let was_running = scrub.interrupt();
        let mut state = scrub.state.lock();
        while state.is_running {
            scrub.changed.wait(&mut state);
        }
        was_running
    }

    /// The pool is being closed: it stays as it is.
    pub(super) fn end_error_scrub(&self) {
        self.error_scrub.state.lock().is_closing = true;
        self.interrupt_error_scrub();
        let task = self.error_scrub.state.lock().task.take();
        if let Some(task) = task {
            // Its panic was reported where it happened.
            let _ = task.join();
        }
    }
}

impl LivePool {
    /// Looks again at the blocks of the error log, repairs what can be, and takes what is whole off
    /// it. One that was interrupted or paused is gone on with; while one runs, this waits for its
    /// end. `keep_going` is asked now and then. How many blocks cannot be had.
    ///
    /// # Errors
    /// A scrub or resilver is under way or paused, the log cannot be read, or `keep_going` said no:
    /// then what was found is kept, and the next goes on.
    pub fn error_scrub(&self, keep_going: &dyn Fn() -> bool) -> Result<u64> {
        self.shared.check_not_suspended()?;
        // That a scan is under way is seen in the task: the thread of one that has ended may still
        // be there.
        if self.shared.scans.state.lock().is_rebuilding() {
            return Err(self.shared.refused(Ongoing::Scan));
        }
        match Running::claim(&self.shared) {
            Some(running) => running.run(keep_going),
            None => self.shared.wait_for_error_scrub(keep_going),
        }
    }

    /// Whether an error scrub runs, or waits to be gone on with.
    ///
    /// # Errors
    /// What is kept of it cannot be read.
    pub fn has_error_scrub(&self) -> Result<bool> {
        Ok(self.shared.pending_error_scrub()?.is_some())
    }

    /// Pauses the error scrub, also for later imports, until the next is asked for.
    ///
    /// # Errors
    /// There is none, or it is paused.
    pub fn pause_error_scrub(&self) -> Result<()> {
        self.leave_error_scrub("errorscrub_paused", |shared, state| {
            match std::mem::replace(&mut state.paused, 1) {
                0 => Ok(()),
                _ => Err(shared.refused(Ongoing::PausedScrub)),
            }
        })?;
        self.shared.error_scrub.state.lock().paused_at = self.rt().wall().as_secs();
        Ok(())
    }

    /// Ends the error scrub. What was found whole is off the log.
    ///
    /// # Errors
    /// There is none.
    pub fn stop_error_scrub(&self) -> Result<()> {
        self.leave_error_scrub("errorscrub_abort", |shared, state| {
            *state = canceled(*state, shared.rt.wall().as_secs());
            Ok(())
        })
    }

    fn leave_error_scrub(
        &self,
        event: &str,
        change: impl FnOnce(&Shared, &mut ErrorScrubState) -> Result<()>,
    ) -> Result<()> {
        let shared = &self.shared;
        shared.check_not_suspended()?;
        let was_running = shared.interrupt_error_scrub();
        let Some(mut state) = shared.pending_error_scrub()? else {
            // It came to its end before it was asked.
            return match was_running {
                true => Ok(()),
                false => Err(shared.refused(NotRunning::Scrub)),
            };
        };
        change(shared, &mut state)?;
        shared.run_keeping_datasets(move |cx| cx.keep_error_scrub(&state, &BTreeSet::new()))?;
        shared.post_system(event);
        Ok(())
    }
}
