//! One metaslab: which bytes of it are free, taken, or on their way.
//!
//! Every byte is in one of these places, and moves between them:
//!
//! ```text
//!            take               settle                   collect
//!   free ----------> held -------------> allocating[t] ----------> (in the map) written
//!    ^  <---------- give back <-- discard --'                         |
//!    '<------------------------------------ discard (and `unfree`) ---'
//!    '<-- 2 txgs -- defer <-- synced -- freed <-- collect -- freeing[t] <-- free
//! ```
//!
//! *In the map* is what the space map on disk says is allocated. `unfree` notes space that the map
//! says is allocated although it is free already, `logged` the opposite; both become entries the
//! next time the map is written. `allocating` and `freeing` are kept by txg because the intent log
//! allocates in the open txg while an older one is synced.
//!
//! A metaslab of which nothing is changed has no more than its numbers in memory: freeing does not
//! need to know what is free, so the map is only read when space is taken.

use super::maps::{BUCKETS, Change, Shape, optimal_length};
use super::ranges::{Free, Ranges};
use super::separation::Separation;
use crate::space::FRAGMENTATION;
use parking_lot::Mutex;
use std::mem::take;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};

/// Txgs whose changes can be waiting at the same time, and one more.
const TXGS: usize = 4;
/// Txgs for which freed space waits.
const DEFER: usize = 2;
/// Free ranges behind the cursor that are looked at before the best fit is taken.
const NEXT_FIT_TRIES: usize = 16;
/// Blocks that are taken at once where there is no room for a whole piece, a power of two.
const BLOCKS_AT_ONCE: u64 = 8;
/// Free ranges that are looked at for one that is far enough from another copy.
const FAR_FIT_TRIES: usize = 256;
/// Syncs after which a map that was not needed is dropped from memory, if it is this large.
const IDLE_SYNCS: u32 = 64;
const IDLE_RANGES: usize = 512;
/// Maps of up to this many blocks are left alone however wasteful they are.
const CONDENSE_BLOCKS: u64 = 4;

/// Marks: bits 0 to 3 mean that the txg with these low bits has changes.
const ACTIVE: u8 = 1 << 4;
const LOADED: u8 = 1 << 5;
const BROKEN: u8 = 1 << 6;
const LOGGED: u8 = 1 << 7;

fn slot(txg: u64) -> usize {
    (txg % TXGS as u64) as usize
}

/// The state of a metaslab when the pool is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Summary {
    /// Object of its space map; 0: never used.
    pub(super) object: u64,
    /// Allocated bytes.
    pub(super) allocated: u64,
    /// No free range is longer, as far as is known.
    pub(super) longest: u64,
    /// Fragmentation in percent.
    pub(super) fragmentation: u64,
}

/// One metaslab.
pub(super) struct Metaslab {
    /// First byte.
    pub(super) start: u64,
    /// Byte behind the last.
    pub(super) end: u64,
    state: Mutex<State>,
    longest: AtomicU64,
    score: AtomicU64,
    marks: AtomicU8,
}

#[derive(Default)]
struct State {
    object: u64,
    allocated: u64,
    fragmentation: u64,
    /// Times the map was written: a reader that began before must begin again.
    epoch: u64,
    /// The map is being written.
    writing: bool,
    active: Option<Box<Active>>,
}

#[derive(Default)]
struct Active {
    free: Option<Free>,
    cursor: u64,
    idle: u32,
    held: Ranges,
    allocating: [Ranges; TXGS],
    freeing: [Ranges; TXGS],
    /// Discarded before they were settled.
    orphans: [Ranges; TXGS],
    written: Ranges,
    written_txg: u64,
    /// The last txg in which the map was condensed.
    condensed_txg: u64,
    unfree: Ranges,
    logged: Ranges,
    /// The map is to be rewritten, whatever it is now.
    anew: bool,
    freed: Ranges,
    defer: [Ranges; DEFER],
    /// Became free, and was not taken since; only where that is noted. A part of the free.
    fresh: Ranges,
}

impl Active {
    fn waiting(&self) -> u64 {
        self.defer.iter().map(Ranges::bytes).sum::<u64>() + self.freed.bytes()
    }

    /// Nothing but the free space is kept here.
    fn is_quiet(&self) -> bool {
        let by_txg = self.allocating.iter().chain(&self.freeing).chain(&self.orphans);
        let rest = [&self.held, &self.unfree, &self.logged, &self.freed, &self.fresh];
        let rest = rest.into_iter().chain(&self.defer).chain([&self.written]);
        by_txg.chain(rest).all(Ranges::is_empty)
    }

    fn discard(&mut self, start: u64, end: u64, txg: u64) {
        let t = slot(txg);
        let fresh = self.allocating[t].take(start, end);
        let in_map = if self.written_txg == txg { self.written.take(start, end) } else { vec![] };
        let found: u64 = fresh.iter().chain(&in_map).map(|(s, e)| e - s).sum();
        if found < end - start {
            // Cut from a piece that is not settled yet: as a whole, so that nothing was taken.
            for (s, e) in fresh {
                self.allocating[t].insert(s, e);
            }
            for (s, e) in in_map {
                self.written.insert(s, e);
            }
            self.orphans[t].insert(start, end);
            return;
        }
        for (s, e) in in_map {
            self.unfree.insert(s, e);
        }
        if let Some(free) = &mut self.free {
            free.insert(start, end);
        }
    }

    /// The ranges that are free in the map of `txg`; only of a loaded metaslab.
    fn free_in_map(&self, txg: u64) -> Vec<&Ranges> {
        let younger = (0..TXGS).filter(|t| *t != slot(txg)).map(|t| &self.allocating[t]);
        [&self.held, &self.freed].into_iter().chain(&self.defer).chain(younger).collect()
    }
}

impl State {
    fn active(&mut self) -> &mut Active {
        self.active.get_or_insert_default()
    }

    fn free(&self) -> Option<&Free> {
        self.active.as_ref()?.free.as_ref()
    }

    /// Bytes that can be allocated.
    fn room(&self, size: u64) -> u64 {
        match self.free() {
            Some(f) => f.bytes(),
            None => {
                let waiting = self.active.as_ref().map_or(0, |a| a.waiting());
                size.saturating_sub(self.allocated).saturating_sub(waiting)
            }
        }
    }
}

impl Metaslab {
    pub(super) fn new(start: u64, end: u64, summary: &Summary) -> Self {
        let state = State {
            object: summary.object,
            allocated: summary.allocated,
            fragmentation: summary.fragmentation,
            ..State::default()
        };
        let out = Self {
            start,
            end,
            state: Mutex::new(state),
            longest: AtomicU64::new(summary.longest),
            score: AtomicU64::new(0),
            marks: AtomicU8::new(0),
        };
        out.weigh(&out.state.lock());
        out
    }

    pub(super) fn size(&self) -> u64 {
        self.end - self.start
    }

    /// No free range is longer than this, as far as is known.
    pub(super) fn longest(&self) -> u64 {
        self.longest.load(Relaxed)
    }

    /// How good it is to allocate from, as of the last sync; 0: not at all.
    pub(super) fn score(&self) -> u64 {
        let broken = self.marks.load(Relaxed) & BROKEN != 0;
        if broken { 0 } else { self.score.load(Relaxed).max(1) }
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.marks.load(Relaxed) & LOADED != 0
    }

    /// There is something for the map of `txg`.
    pub(super) fn is_dirty(&self, txg: u64) -> bool {
        self.marks.load(Relaxed) & (LOGGED | 1 << slot(txg)) != 0
    }

    /// Something is waiting for a later txg.
    pub(super) fn is_active(&self) -> bool {
        self.marks.load(Relaxed) & ACTIVE != 0
    }

    /// Has changes from log space maps that its own map does not have.
    pub(super) fn is_logged(&self) -> bool {
        self.marks.load(Relaxed) & LOGGED != 0
    }

    pub(super) fn object(&self) -> u64 {
        self.state.lock().object
    }

    pub(super) fn allocated(&self) -> u64 {
        self.state.lock().allocated
    }

    pub(super) fn fragmentation(&self) -> u64 {
        self.state.lock().fragmentation
    }

    /// Bytes that are free and wait.
    pub(super) fn deferred(&self) -> u64 {
        self.state.lock().active.as_ref().map_or(0, |a| a.waiting())
    }

    pub(super) fn room(&self) -> u64 {
        self.state.lock().room(self.size())
    }

    /// Changes the state, and keeps the numbers that are read without the lock.
    fn change<R>(&self, room: &AtomicI64, with: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let before = state.room(self.size());
        let out = with(&mut state);
        let after = state.room(self.size());
        if before != after {
            room.fetch_add(after.cast_signed().wrapping_sub(before.cast_signed()), Relaxed);
        }
        if let Some(free) = state.free() {
            self.longest.store(free.longest(), Relaxed);
        }
        out
    }

    /// Free space counts in full when it is in one piece, and half when it is in dust. A map that
    /// would have to be read first counts less.
    fn weigh(&self, state: &State) {
        let mut score = state.room(self.size());
        score -= score / 200 * state.fragmentation.min(100);
        if state.object != 0 && state.free().is_none() {
            score -= score / 4;
        }
        self.score.store(score, Relaxed);
    }

    /// Cannot be allocated from any more: its map cannot be read.
    pub(super) fn set_broken(&self, room: &AtomicI64) {
        self.marks.fetch_or(BROKEN, Relaxed);
        self.longest.store(0, Relaxed);
        room.fetch_sub(self.room().cast_signed(), Relaxed);
    }

    /// The object of the map and the epoch for [`Self::install`], for a reader of the map. `None`:
    /// there is nothing to read, it is being written, or it is broken.
    pub(super) fn begin_load(&self) -> Option<(u64, u64)> {
        let broken = self.marks.load(Relaxed) & BROKEN != 0;
        let state = self.state.lock();
        let busy = broken || state.writing || state.free().is_some();
        (!busy).then_some((state.object, state.epoch))
    }

    /// Gives the free space as the map has it. False: the map has changed since `epoch`.
    pub(super) fn install(&self, room: &AtomicI64, mut free: Free, epoch: u64) -> bool {
        self.change(room, |state| {
            if state.writing || state.epoch != epoch {
                return false;
            }
            if state.free().is_some() {
                return true;
            }
            let a = state.active();
            for (s, e) in a.unfree.iter() {
                free.insert(s, e);
            }
            for r in [&a.logged, &a.freed].into_iter().chain(&a.defer) {
                for (s, e) in r.iter() {
                    free.take(s, e);
                }
            }
            a.free = Some(free);
            a.idle = 0;
            self.marks.fetch_or(LOADED | ACTIVE, Relaxed);
            self.note_fragmentation(state);
            self.weigh(state);
            true
        })
    }

    /// Sets the free space; the next sync makes a new map of it.
    pub(super) fn renew(&self, room: &AtomicI64, free: Free) {
        self.change(room, |state| {
            state.object = 0;
            state.allocated = self.size().saturating_sub(free.bytes());
            let a = state.active();
            (a.free, a.anew) = (Some(free), true);
            self.marks.fetch_or(LOADED | ACTIVE | LOGGED, Relaxed);
            self.note_fragmentation(state);
            self.weigh(state);
        });
    }

    fn note_fragmentation(&self, state: &mut State) {
        if let Some(free) = state.free() {
            state.fragmentation = fragmentation(free.histogram());
        }
    }

    /// Takes one free range of at least `min` and at most `want` bytes, both multiples of `unit`,
    /// far enough from the other copies.
    ///
    /// While there are ranges of `want` bytes, the next one behind the last is taken, so that what
    /// is written one after the other lies so. When there are none, space is in pieces, and short
    /// pieces are used up before long ones are cut.
    pub(super) fn take(
        &self,
        room: &AtomicI64,
        (min, want): (u64, u64),
        unit: u64,
        avoid: Separation<'_>,
    ) -> Option<(u64, u64)> {
        let apart = !avoid.permits(self.start, self.end);
        self.change(room, |state| {
            let a = state.active();
            let free = a.free.as_mut()?;
            let (start, end) = if apart {
                far_fit(free, min, want, unit, avoid)?
            } else if free.is_mostly_at_least(want) {
                free.next_fit(a.cursor, want, NEXT_FIT_TRIES).or_else(|| free.best_fit(want))?
            } else {
                let mut lengths =
                    (1..=BLOCKS_AT_ONCE.ilog2()).rev().map(|n| min.saturating_mul(1 << n));
                let usual = lengths.find(|len| free.is_mostly_at_least(*len));
                free.best_fit(usual.unwrap_or(min))?
            };
            let len = (end - start).min(want);
            let len = (len - len % unit).max(min);
            let end = start + len;
            free.remove(start, end);
            a.fresh.take(start, end);
            a.held.insert(start, end);
            a.cursor = end;
            a.idle = 0;
            self.marks.fetch_or(ACTIVE, Relaxed);
            Some((start, end))
        })
    }

    /// Space that was taken has been given to blocks of `txg`.
    pub(super) fn settle(&self, room: &AtomicI64, start: u64, end: u64, txg: u64) {
        self.change(room, |state| {
            let a = state.active();
            let t = slot(txg);
            a.held.remove(start, end);
            a.allocating[t].insert(start, end);
            for (s, e) in a.orphans[t].iter().collect::<Vec<_>>() {
                if start <= s && e <= end {
                    a.orphans[t].remove(s, e);
                    a.discard(s, e, txg);
                }
            }
            self.marks.fetch_or(ACTIVE | 1 << t, Relaxed);
        });
    }

    /// Returns space that was taken and is not needed.
    pub(super) fn give_back(&self, room: &AtomicI64, start: u64, end: u64) {
        self.change(room, |state| {
            let a = state.active();
            if let (true, Some(free)) = (a.held.remove(start, end), &mut a.free) {
                free.insert(start, end);
                // The next piece begins where this one was left.
                if a.cursor == end {
                    a.cursor = start;
                }
            }
        });
    }

    /// Holds what is free from `start` to `end`, as pieces are held; only of a loaded metaslab.
    pub(super) fn hold(&self, room: &AtomicI64, start: u64, end: u64) -> Vec<(u64, u64)> {
        self.change(room, |state| {
            let a = state.active();
            let ranges = a.free.as_mut().map(|free| free.take(start, end)).unwrap_or_default();
            for (s, e) in &ranges {
                a.held.insert(*s, *e);
                a.fresh.take(*s, *e);
            }
            self.marks.fetch_or(ACTIVE, Relaxed);
            ranges
        })
    }

    /// Something became free and was not taken since.
    pub(super) fn has_freed(&self) -> bool {
        self.state.lock().active.as_ref().is_some_and(|a| !a.fresh.is_empty())
    }

    /// Holds what became free from `start` to `end`, as far as it lies together in `min` bytes and
    /// more; all of it is forgotten. Only of a loaded metaslab.
    pub(super) fn hold_freed(
        &self,
        room: &AtomicI64,
        start: u64,
        end: u64,
        min: u64,
    ) -> Vec<(u64, u64)> {
        self.change(room, |state| {
            let a = state.active();
            let Some(free) = a.free.as_mut() else { return Vec::new() };
            let fresh = a.fresh.take(start, end);
            let mut ranges = Vec::new();
            for (s, e) in fresh.into_iter().filter(|(s, e)| e - s >= min) {
                ranges.extend(free.take(s, e));
            }
            for (s, e) in &ranges {
                a.held.insert(*s, *e);
            }
            self.marks.fetch_or(ACTIVE, Relaxed);
            ranges
        })
    }

    /// Blocks of `txg` that no tree has are free again.
    pub(super) fn discard(&self, room: &AtomicI64, start: u64, end: u64, txg: u64) {
        self.change(room, |state| {
            state.active().discard(start, end, txg);
            self.marks.fetch_or(ACTIVE | 1 << slot(txg), Relaxed);
        });
    }

    /// Frees in `txg`. False: it is free already, and nothing was changed.
    pub(super) fn free(&self, room: &AtomicI64, start: u64, end: u64, txg: u64) -> bool {
        self.change(room, |state| {
            let a = state.active();
            let is_free = match &a.free {
                Some(free) => free.overlaps(start, end),
                // Not read yet: this much is known from logs.
                None => a.unfree.overlaps(start, end),
            };
            let overlaps = |r: &Ranges| r.overlaps(start, end);
            let waits = overlaps(&a.freed) || a.defer.iter().any(overlaps);
            let clash = is_free || waits || a.freeing.iter().any(overlaps);
            let done = !clash && a.freeing[slot(txg)].insert(start, end);
            self.marks.fetch_or(ACTIVE | 1 << slot(txg), Relaxed);
            done
        })
    }

    /// Frees in `txg` all that is allocated in a metaslab that is loaded.
    pub(super) fn free_all(&self, room: &AtomicI64, txg: u64) {
        self.change(room, |state| {
            let a = state.active();
            let Some(free) = &a.free else { return };
            let waiting = a.freeing.iter().chain(&a.defer).chain([&a.held, &a.freed]);
            let waiting: Vec<&Ranges> = waiting.collect();
            let all = allocated_of(self.start, self.end, free, &waiting);
            for (s, e) in all {
                a.freeing[slot(txg)].insert(s, e);
            }
            self.marks.fetch_or(ACTIVE | 1 << slot(txg), Relaxed);
        });
    }

    /// The allocated ranges as of the last txg that was written, in order, with those being freed
    /// since, and without those taken since. `None`: the metaslab is not loaded.
    pub(super) fn allocated_ranges(&self) -> Option<Vec<(u64, u64)>> {
        let state = self.state.lock();
        let a = state.active.as_ref()?;
        let waiting = a.defer.iter().chain([&a.held, &a.freed]).chain(&a.allocating);
        let waiting: Vec<&Ranges> = waiting.collect();
        Some(allocated_of(self.start, self.end, a.free.as_ref()?, &waiting))
    }

    /// All ranges that are not free, for whatever reason; `None` if the metaslab is not loaded.
    pub(super) fn taken_ranges(&self) -> Option<Vec<(u64, u64)>> {
        let state = self.state.lock();
        Some(allocated_of(self.start, self.end, state.free()?, &[]))
    }

    /// Takes what is being freed and no map knows yet, with the txg of each; `first` is the oldest
    /// that can be.
    pub(super) fn take_freeing(&self, first: u64) -> Vec<(u64, u64, u64)> {
        let mut state = self.state.lock();
        let Some(a) = state.active.as_mut() else { return Vec::new() };
        let mut out = Vec::new();
        for txg in first..first.saturating_add(TXGS as u64) {
            out.extend(take(&mut a.freeing[slot(txg)]).iter().map(|(s, e)| (s, e, txg)));
        }
        out
    }

    /// Marks a range as allocated in `txg`: a block that the intent log wrote and no map knows.
    /// False: the metaslab is not loaded, or the range is not free.
    pub(super) fn claim(&self, room: &AtomicI64, start: u64, end: u64, txg: u64) -> bool {
        self.change(room, |state| {
            let a = state.active();
            let done = a.free.as_mut().is_some_and(|f| f.remove(start, end));
            if done {
                a.fresh.take(start, end);
                a.allocating[slot(txg)].insert(start, end);
                self.marks.fetch_or(ACTIVE | 1 << slot(txg), Relaxed);
            }
            done
        })
    }

    /// A change that a log space map has and the metaslab's own map does not.
    pub(super) fn log(&self, room: &AtomicI64, start: u64, end: u64, alloc: bool) {
        self.change(room, |state| {
            let a = state.active();
            let (undo, put) = match alloc {
                true => (&mut a.unfree, &mut a.logged),
                false => (&mut a.logged, &mut a.unfree),
            };
            let undone = undo.take(start, end);
            let mut at = start;
            for (s, e) in undone.into_iter().chain([(end, end)]) {
                put.take(at, s);
                put.insert(at, s);
                at = e;
            }
            let n = end - start;
            state.allocated = match alloc {
                true => state.allocated.saturating_add(n),
                false => state.allocated.saturating_sub(n),
            };
            if !alloc {
                self.longest.fetch_max(n, Relaxed);
            }
            self.marks.fetch_or(ACTIVE | LOGGED, Relaxed);
            self.weigh(state);
        });
    }

    /// Takes what the map of `txg` does not have yet; from now on the map is being written, until
    /// [`Self::map_written`]. `None`: nothing is new.
    pub(super) fn collect(&self, room: &AtomicI64, txg: u64, shape: &Shape) -> Option<Change> {
        self.change(room, |state| {
            let (t, size) = (slot(txg), self.size());
            self.marks.fetch_and(!(LOGGED | 1 << t), Relaxed);
            let a = state.active.as_mut()?;
            if a.written_txg != txg {
                a.written = Ranges::default();
                a.written_txg = txg;
            }
            // Freed and taken again before the map heard of it: for the map nothing happened.
            for (s, e) in a.allocating[t].iter().collect::<Vec<_>>() {
                for (s, e) in a.unfree.take(s, e) {
                    a.allocating[t].remove(s, e);
                    a.written.insert(s, e);
                }
            }
            let mut allocs = take(&mut a.allocating[t]);
            a.written.absorb(&allocs);
            let mut frees = take(&mut a.freeing[t]);
            a.freed.absorb(&frees);
            let given_up = if shape.tells_frees { frees.iter().collect() } else { Vec::new() };
            // Entries of logs were counted when they were read.
            state.allocated = (state.allocated + allocs.bytes()).saturating_sub(frees.bytes());
            allocs.absorb(&take(&mut a.logged));
            frees.absorb(&take(&mut a.unfree));
            let anew = take(&mut a.anew);
            if allocs.is_empty() && frees.is_empty() && !anew {
                return None;
            }
            let mut change = Change { allocs, frees, given_up, ..Change::default() };
            match &a.free {
                Some(free) => {
                    let mut histogram = *free.histogram();
                    let mut bytes = free.bytes();
                    let others = a.free_in_map(txg);
                    for r in &others {
                        r.count_into(&mut histogram);
                        bytes += r.bytes();
                    }
                    state.allocated = size.saturating_sub(bytes);
                    let optimal = optimal_length(&histogram, shape);
                    let floor = CONDENSE_BLOCKS * shape.block_size as u64;
                    let wasteful = shape.length >= 2 * optimal && shape.length > floor;
                    // Once in a txg: later passes only add what the earlier ones changed.
                    if anew || (shape.condense && wasteful && a.condensed_txg != txg) {
                        change.condensed = Some(allocated_of(self.start, self.end, free, &others));
                        a.condensed_txg = txg;
                    }
                    change.histogram = Some(histogram);
                    change.allocated = Some(state.allocated);
                }
                None => {
                    let longest = change.frees.iter().map(|(s, e)| e - s).max().unwrap_or(0);
                    self.longest.fetch_max(longest, Relaxed);
                }
            }
            state.epoch += 1;
            state.writing = true;
            Some(change)
        })
    }

    /// The map on disk, object `object`, has what was collected.
    pub(super) fn map_written(&self, object: u64) {
        let mut state = self.state.lock();
        state.object = object;
        state.writing = false;
    }

    /// The txg is durable: what it freed waits, what waited longest is free.
    /// `notes`: what is free by it is remembered, until it is taken again or held. `waits`: nothing
    /// becomes free, and everything waits as long as before.
    pub(super) fn synced(&self, room: &AtomicI64, notes: bool, waits: bool) {
        self.change(room, |state| {
            let Some(a) = state.active.as_mut() else { return };
            a.written = Ranges::default();
            let freed = take(&mut a.freed);
            let [last, due] = &mut a.defer;
            let due = if waits {
                last.absorb(&freed);
                Ranges::default()
            } else {
                std::mem::replace(due, std::mem::replace(last, freed))
            };
            if let Some(free) = &mut a.free {
                for (s, e) in due.iter() {
                    free.insert(s, e);
                }
            }
            match notes {
                true => a.fresh.absorb(&due),
                false => a.fresh = Ranges::default(),
            }
            if a.is_quiet() {
                a.idle += 1;
                let ranges = a.free.as_ref().map_or(0, Free::len);
                if a.free.is_none() || (a.idle > IDLE_SYNCS && ranges > IDLE_RANGES) {
                    state.active = None;
                    self.marks.fetch_and(!(LOADED | ACTIVE), Relaxed);
                } else if ranges <= IDLE_RANGES {
                    // Small enough to stay; nothing more to do here until it changes.
                    self.marks.fetch_and(!ACTIVE, Relaxed);
                }
            }
            self.note_fragmentation(state);
            self.weigh(state);
        });
    }
}

/// The first free range of `want` bytes that is far enough from the other copies, or else the
/// longest of `min` and more, among the first [`FAR_FIT_TRIES`].
fn far_fit(
    free: &Free,
    min: u64,
    want: u64,
    unit: u64,
    avoid: Separation<'_>,
) -> Option<(u64, u64)> {
    let mut best = None;
    let mut best_len = min.saturating_sub(1);
    for (start, end) in free.iter().take(FAR_FIT_TRIES) {
        for (s, e) in avoid.parts(start, end) {
            // Everything in a free range is counted from its beginning.
            let s = start + (s - start).next_multiple_of(unit);
            let len = e.saturating_sub(s);
            if len >= want {
                return Some((s, e));
            }
            if len > best_len {
                (best, best_len) = (Some((s, e)), len);
            }
        }
    }
    best
}

/// The gaps between what is free.
fn allocated_of(start: u64, end: u64, free: &Free, others: &[&Ranges]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = free.iter().collect();
    all.extend(others.iter().flat_map(|r| r.iter()));
    all.sort_unstable();
    let mut out = Vec::new();
    let mut at = start;
    for (s, e) in all.into_iter().chain([(end, end)]) {
        if at < s {
            out.push((at, s));
        }
        at = at.max(e);
    }
    out
}

/// Index of fragmentation in percent: the weights of [`FRAGMENTATION`] over free bytes.
pub(super) fn fragmentation(histogram: &[u64; BUCKETS]) -> u64 {
    let (mut all, mut weighted) = (0u128, 0u128);
    for (log2, n) in histogram.iter().enumerate() {
        let bytes = u128::from(*n) << log2;
        let weight = FRAGMENTATION[log2.saturating_sub(9).min(FRAGMENTATION.len() - 1)];
        all += bytes;
        weighted += bytes * u128::from(weight);
    }
    u64::try_from(weighted.checked_div(all).unwrap_or(0)).unwrap_or(100)
}
