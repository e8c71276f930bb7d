//! Where a scrub or resilver is, on disk: so that it goes on after an export or a crash, here or in
//! OpenZFS.
//!
//! # Theory
//!
//! The state of a scrub that runs names a *place* (`docs/format/scan.md`): the block that was come
//! to last, and a queue of datasets that are next. The scan that goes on visits what is behind the
//! block, then the queue; and when a dataset is done, the snapshot after it and the clones of it
//! join the queue. So the queue holds no dataset that another one in it, or the current one, leads
//! to, and none that is gone: OpenZFS stops at such a queue.
//!
//! The walk itself knows more than that, and lives with datasets that come and go (`walk.rs`). The
//! place on disk does not, so
//!
//! ```text
//!            the scrub has gone on for a while: one sync task writes the place
//!   begin  -------------------------------------------------------------------->  a place
//!     ^                                                                             |
//!     +-----------------------------------------------------------------------------+
//!            the first txg in which something else changes the MOS: before it does
//! ```
//!
//! A place that was given up is found anew among the datasets that there are, and written again
//! some seconds after it was written last ([`PLACE_EACH`](super::PLACE_EACH)), with what the walk
//! had visited then. So a pool whose snapshots come and go all the time has a place most of the
//! time, and each is paid for with one small task.
//!
//! A place that was found in one txg and is to be written in a later one is given up when another
//! task came between (`Scans::tasks`). So what is on disk fits the datasets of its own txg, always.
//! A scrub that is paused stays in memory, and its place is written again when the pool is closed.
//! There is room for one scan on disk, so a resilver or a rebuild that begins ends it.
//!
//! A *resilver* is kept in the same way, and goes on only when it is for the same leaves. Each leaf
//! that it is for is marked in its configuration with the second txg of it (OpenZFS's
//! `resilver_txg`), when it begins. A leaf that leaves or comes back loses its mark in the txg in
//! which it does, for the walk passes it over meanwhile. So the next process that opens the pool
//! goes on when all leaves that lack something bear the mark, and lack nothing that the resilver
//! does not bring; otherwise it begins anew, as the dirty time logs say. A place is not written any
//! more when a block could not be had or was refused: its txg stays in the log, and only the
//! process that met it knows.

use super::super::mos as util;
use super::super::shared::{Shared, TaskCx};
use crate::error::Result;
use crate::open::Pool;
use dmu::{Objset, Zap, ZapValue, zap};
use ondisk::errlog::Zbookmark;
use ondisk::scan::{Function, ScanState, State};
use ondisk::{DmuType, mos};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Stands for no dataset: what comes next is in the queue.
pub(super) const NO_OBJSET: u64 = u64::MAX;
/// Datasets in a queue, at most, that are believed. More is a damaged one: a pool has not as many.
const QUEUE_MAX: usize = 1 << 22;

/// Datasets to be visited, by number, and the txg after which their blocks were born.
pub(super) type Queue = BTreeMap<u64, u64>;

/// How far a scrub is.
#[derive(Clone)]
pub(super) struct SavedScan {
    pub(super) state: ScanState,
    pub(super) queue: Queue,
}

impl SavedScan {
    /// It does not begin anew.
    pub(super) fn has_place(&self) -> bool {
        has_place(&self.state)
    }
}

fn has_place(state: &ScanState) -> bool {
    state.state() == State::Active && state.bookmark != Zbookmark::default()
}

fn state_in(objset: &Objset) -> Result<Option<ScanState>> {
    let directory = Zap::open(&objset.object(mos::DIRECTORY_OBJECT)?)?;
    let entry = directory.get(mos::SCAN.as_bytes())?;
    let words: Option<Vec<u64>> = entry.map(|e| e.ints().collect());
    Ok(words.and_then(|w| ScanState::from_words(&w).ok()))
}

/// The scan that is under way, as the MOS has it. A queue that cannot be read is begun anew.
pub(super) fn under_way(objset: &Objset) -> Result<Option<SavedScan>> {
    let Some(state) = state_in(objset)?.filter(|s| s.state() == State::Active) else {
        return Ok(None);
    };
    let read = || {
        let mut queue = Queue::new();
        let table = Zap::open(&objset.object(state.queue_obj)?)?;
        for entry in table.entries().take(QUEUE_MAX) {
            let entry = entry?;
            let name = entry.name.bytes().and_then(|b| std::str::from_utf8(b).ok());
            let number = name.and_then(|text| u64::from_str_radix(text, 16).ok());
            if let (Some(number), Some(since)) = (number, entry.u64()) {
                queue.insert(number, since);
            }
        }
        Ok::<Queue, dmu::Error>(queue)
    };
    let is_at_begin = state.queue_obj == 0;
    Ok(Some(match if is_at_begin { Ok(Queue::new()) } else { read() } {
        Ok(queue) => SavedScan { state, queue },
        Err(_) => SavedScan { state: restarted(state), queue: Queue::new() },
    }))
}

/// The same, with nothing visited.
pub(super) fn at_begin(mut state: ScanState) -> ScanState {
    (state.cur_min_txg, state.cur_max_txg) = (state.min_txg, state.max_txg);
    state.bookmark = Zbookmark::default();
    state
}

/// The same, and what is found again is counted from the beginning. What a scrub repaired is not
/// found again.
pub(super) fn restarted(state: ScanState) -> ScanState {
    let mut state = at_begin(state);
    (state.examined, state.skipped, state.errors) = (0, 0, 0);
    if state.function() != Function::Scrub {
        state.processed = 0;
    }
    state
}

impl TaskCx<'_> {
    /// Writes the state of a scan. One that is under way has a queue, also an empty one: OpenZFS
    /// puts another in its place without asking whether there is one.
    pub(super) fn put_scan(&self, state: &ScanState, queue: &Queue) -> Result<()> {
        let objects = self.objects();
        let before = state_in(objects)?.map_or(0, |s| s.queue_obj);
        let mut state = *state;
        state.queue_obj = 0;
        if before != 0
            && objects.object(before).is_ok_and(|o| o.dnode().kind == DmuType::SCAN_QUEUE)
        {
            objects.free(self.tx, before)?;
        }
        if state.state() == State::Active {
            state.queue_obj = util::new_zap(objects, self.tx, DmuType::SCAN_QUEUE)?;
            let table = objects.object(state.queue_obj)?;
            for (number, since) in queue {
                zap::set_u64(&table, self.tx, format!("{number:x}").as_str(), *since)?;
            }
        }
        let directory = objects.object(mos::DIRECTORY_OBJECT)?;
        let words = ZapValue::from_words(&state.to_words());
        zap::set(&directory, self.tx, mos::SCAN.as_bytes(), &words)?;
        self.shared.scans.has_place.store(has_place(&state), Ordering::Release);
        Ok(())
    }

    /// Writes how far a scrub is, and where, unless something changed since that was found out.
    pub(super) fn put_place(&self, kept: &SavedScan, tasks: u64) -> Result<()> {
        match self.shared.scans.tasks.load(Ordering::Acquire) == tasks {
            true => self.put_scan(&kept.state, &kept.queue),
            false => self.put_scan(&restarted(kept.state), &Queue::new()),
        }
    }

    /// Other tasks than those of scans are about to run: from here on there is no place on disk.
    pub(in crate::live) fn forget_place(&self) -> Result<()> {
        let scans = &self.shared.scans;
        scans.tasks.fetch_add(1, Ordering::AcqRel);
        if !scans.has_place.load(Ordering::Acquire) {
            return Ok(());
        }
        match state_in(self.objects())? {
            Some(state) if state.state() == State::Active => {
                self.put_scan(&restarted(state), &Queue::new())
            }
            _ => Ok(()),
        }
    }
}

/// What is to become of the scan that was under way when the pool was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingScan {
    Nothing,
    /// A scrub, which goes on.
    Scrub,
    /// A scrub that was paused.
    Paused,
    /// What devices missed is in their logs.
    Resilver,
}

impl Shared {
    /// The scan that was under way when the pool was closed; what is known of its place.
    pub(super) fn left_over(&self) -> Result<PendingScan> {
        let Some(SavedScan { state, .. }) = under_way(&self.mos)? else {
            return Ok(PendingScan::Nothing);
        };
        self.scans.has_place.store(has_place(&state), Ordering::Release);
        Ok(match state.function() {
            Function::Scrub if state.flags & ScanState::FLAG_PAUSED != 0 => PendingScan::Paused,
            Function::Scrub => PendingScan::Scrub,
            _ => PendingScan::Resilver,
        })
    }
}

impl Pool {
    /// A scrub or resilver was under way when the pool was closed, not paused, and no process goes
    /// on with it now.
    #[must_use]
    pub fn is_scan_left(&self) -> bool {
        let state = self.scan_state().ok().flatten();
        let is_left =
            |s: ScanState| s.state() == State::Active && s.flags & ScanState::FLAG_PAUSED == 0;
        !self.is_scanned_here() && state.is_some_and(is_left)
    }
}
