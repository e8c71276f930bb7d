//! A RAID-Z vdev that gets wider: where its sectors are while they move.
//!
//! # Theory
//!
//! With one child more every sector `n` of the vdev belongs at `n % width`, row `n / width`
//! (`raidz.rs`). They are moved from the front. The progress, the *offset*, is stored in the
//! uberblock: rows that end before it are read at their new place, all others at the old one.
//!
//! The sector that is moved to a place is written over an older one. That is no loss when the older
//! sector's row ends before the offset on disk, for it is not read there any more. So from one
//! txg to the next the offset may grow by the part that the new width is more, less a row; and
//! the first rows, which would overwrite themselves, take a way round:
//!
//! ```text
//! step    from              to                     in the uberblock, when it is durable
//! Fill    old places        scratch area           offset: end of that area; scratch is valid
//! Settle  scratch area      new places             the same; the area is of no meaning
//! Move    old places        new places             offset: as far as it came
//!   ... until the end of the vdev
//! ```
//!
//! The scratch area is the boot area in front of the data of each child. While it is valid, rows
//! before the offset are read there, and written.
//!
//! # Requests beside it
//!
//! Where rows are is an [`Epoch`]. A request takes the one of its beginning, and keeps it until all
//! devices have answered (an [`EpochGuard`]). Nothing is written over before all requests of older
//! epochs have ended; requests themselves never wait.
//!
//! A block may be written at any time into the range that is being moved: one of the txg that is
//! synced, or of an intent log. So a step goes in rounds:
//!
//! 1. A new epoch begins, in which writes to the range are noted. Those of older epochs end.
//! 2. The allocated sectors of the range are copied.
//! 3. A new epoch begins, in which rows at old places are written to their new places as well, as
//!    far as the copy came. Those of the epoch before end.
//! 4. The places they recorded are copied once more. Writes to just those are recorded meanwhile;
//!    if there were any, again from 3.
//!
//! From then on both places hold the same, until a txg makes the new ones those that count
//! ([`VdevTree::commit_reflow`]), or the step is given up because a device failed or missed
//! something: then the old ones have everything, and the step is done again.
//!
//! A row that straddles the offset is read at its old place, and the sectors of it before the
//! offset are at their new place too, where the next step does not copy them again. Both are the
//! block's, so what is made whole is made whole at both (`heal.rs`).
//!
//! Nothing here knows blocks, so nothing is verified: what is copied is what the devices give. That
//! is why none of them may lack anything. Damage that was not noticed keeps its parity, for each
//! sector moves with the others of its row; a reader looks for it by former widths (`rebuild.rs`).

use crate::map::{BOOT_SIZE, LABEL_START_SIZE};
use core::ops::Range;
use parking_lot::Mutex;
use rt::Rt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long is waited for requests that began before. Devices that take longer do not hold up the
/// txg: the step is left to another.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often is looked meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Kept by a tree, and by what is under way that began with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeUse(Arc<()>);

/// That of a tree that was followed by another.
#[derive(Clone, Debug)]
pub(crate) struct EarlierTreeUse(Weak<()>);

impl TreeUse {
    pub(crate) fn downgrade(&self) -> EarlierTreeUse {
        EarlierTreeUse(Arc::downgrade(&self.0))
    }
}

impl EarlierTreeUse {
    /// The tree is used still, or something that began with it.
    pub(crate) fn is_in_use(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// The purpose of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
}

/// How far an unfinished expansion has come, from the uberblock's reflow word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Reflow {
    /// Bytes of the vdev that are at their new place.
    pub offset: u64,
    /// The scratch area holds the rows before `offset`, their new place is not complete.
    pub scratch_valid: bool,
}

/// A layout of sectors over the children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// As it was.
    Old,
    /// One child more.
    New,
    /// The same, in the scratch area.
    Scratch,
}

impl Area {
    /// The child of a sector and where it is there, on a vdev that will have `width` children.
    pub(crate) fn place(self, sector: u64, width: u64, ashift: u32) -> (usize, u64) {
        let width = self.width(width);
        ((sector % width) as usize, ((sector / width) << ashift) + self.base())
    }

    /// The children that it is spread over, of a vdev that will have `width`.
    pub(crate) fn width(self, width: u64) -> u64 {
        if self == Self::Old { width - 1 } else { width }
    }

    fn base(self) -> u64 {
        if self == Self::Scratch { LABEL_START_SIZE - BOOT_SIZE } else { LABEL_START_SIZE }
    }
}

/// Where rows are, and where they are written besides, from one moment to another.
#[derive(Debug, Default)]
pub(crate) struct Epoch {
    reflow: Reflow,
    /// Sectors before this offset have a copy there; so has each that is written from now on.
    copies: Vec<(u64, Area)>,
}

/// As long as it is kept, what the epoch says is true.
pub(crate) type EpochGuard = Arc<Epoch>;

impl Epoch {
    /// Where a row that ends before the byte `end` is read and written.
    pub(crate) fn area(&self, end: u64) -> Area {
        match self.reflow {
            // A row that straddles the offset is at the old place, which is intact until the
            // offset on disk has passed it.
            Reflow { offset, .. } if end > offset => Area::Old,
            Reflow { scratch_valid: true, .. } => Area::Scratch,
            _ => Area::New,
        }
    }

    /// Where else a sector that begins at the byte `at` is written, when its row is in `area`; and
    /// whether it is there already, and stays.
    pub(crate) fn also(&self, at: u64, area: Area) -> impl Iterator<Item = (Area, bool)> + '_ {
        let copies = self.copies.iter().filter(move |(end, to)| at < *end && *to != area);
        copies.map(move |(_, area)| (*area, self.is_copied(at, *area)))
    }

    /// A sector is in an area by a step that is durable.
    fn is_copied(&self, at: u64, area: Area) -> bool {
        let Reflow { offset, scratch_valid } = self.reflow;
        let copied_to = if scratch_valid { Area::Scratch } else { Area::New };
        at < offset && area == copied_to
    }
}

/// The move of one vdev. All trees that have the vdev share it.
#[derive(Debug)]
pub(crate) struct Flow {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    epoch: EpochGuard,
    /// Eras before, of which there may be requests under way.
    past: Vec<Weak<Epoch>>,
    /// Trees that knew nothing of the move, of which there may be requests under way.
    earlier_trees: Vec<EarlierTreeUse>,
    /// Writes to these ranges are noted, in `touched`.
    watched: Vec<Range<u64>>,
    touched: Vec<Range<u64>>,
    /// The new state for the uberblock, when a step was done.
    next: Option<Reflow>,
}

impl State {
    fn begin(&mut self, epoch: Epoch) {
        let before = std::mem::replace(&mut self.epoch, Arc::new(epoch));
        self.past.push(Arc::downgrade(&before));
    }

    /// An epoch in which rows are where they were, and written besides to `copies`.
    fn begin_with(&mut self, copies: Vec<(u64, Area)>) {
        let reflow = self.epoch.reflow;
        self.begin(Epoch { reflow, copies });
    }
}

/// A step of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReflowStep {
    Fill,
    Settle,
    Move,
}

impl ReflowStep {
    /// The step that comes after this state; `None` at the end.
    pub(crate) fn after(reflow: Reflow, end: u64) -> Option<Self> {
        match reflow {
            Reflow { scratch_valid: true, .. } => Some(Self::Settle),
            Reflow { offset: 0, .. } => Some(Self::Fill),
            Reflow { offset, .. } => (offset < end).then_some(Self::Move),
        }
    }

    /// From where to where.
    pub(crate) fn areas(self) -> (Area, Area) {
        match self {
            Self::Fill => (Area::Old, Area::Scratch),
            Self::Settle => (Area::Scratch, Area::New),
            Self::Move => (Area::Old, Area::New),
        }
    }

    /// Copies that there are before the step: of the rows that straddle the offset, the sectors
    /// before it are at both places.
    fn copies_before(self, reflow: Reflow) -> Vec<(u64, Area)> {
        match self {
            Self::Fill => Vec::new(),
            Self::Settle => vec![(reflow.offset, Area::Scratch)],
            Self::Move => vec![(reflow.offset, Area::New)],
        }
    }

    /// The same behind it, when it came to `end`.
    fn copies_behind(self, end: u64) -> Vec<(u64, Area)> {
        match self {
            Self::Fill => vec![(end, Area::Scratch)],
            Self::Settle => vec![(end, Area::Scratch), (end, Area::New)],
            Self::Move => vec![(end, Area::New)],
        }
    }
}

impl Flow {
    pub(crate) fn new(reflow: Reflow, earlier_trees: Vec<EarlierTreeUse>) -> Self {
        let flow = Self { state: Mutex::new(State { earlier_trees, ..State::default() }) };
        flow.set(reflow);
        flow
    }

    /// Sets the progress recorded in the uberblock. Copies beyond it are given up.
    pub(crate) fn set(&self, reflow: Reflow) {
        let mut state = self.state.lock();
        (state.watched, state.touched, state.next) = (Vec::new(), Vec::new(), None);
        let copies = ReflowStep::after(reflow, u64::MAX).map(|step| step.copies_before(reflow));
        state.begin(Epoch { reflow, copies: copies.unwrap_or_default() });
    }

    /// The state that counts now.
    pub(crate) fn reflow(&self) -> Reflow {
        self.state.lock().epoch.reflow
    }

    /// The epoch for a read.
    pub(crate) fn read(&self) -> EpochGuard {
        Arc::clone(&self.state.lock().epoch)
    }

    /// The epoch for a write of a range.
    pub(crate) fn write(&self, range: &Range<u64>) -> EpochGuard {
        let mut state = self.state.lock();
        let is_watched = |w: &Range<u64>| w.start < range.end && range.start < w.end;
        if state.watched.iter().any(is_watched) {
            state.touched.push(range.clone());
        }
        Arc::clone(&state.epoch)
    }

    /// Waits until all requests of older epochs have ended; whether they have in time.
    pub(crate) fn drain(&self, rt: &Rt) -> bool {
        let deadline = rt.now() + PATIENCE;
        while !self.is_drained() {
            if rt.now() >= deadline {
                return false;
            }
            rt.sleep(POLL_INTERVAL);
        }
        true
    }

    fn is_drained(&self) -> bool {
        let mut state = self.state.lock();
        state.past.retain(|epoch| epoch.strong_count() > 0);
        state.earlier_trees.retain(EarlierTreeUse::is_in_use);
        state.past.is_empty() && state.earlier_trees.is_empty()
    }

    /// A step begins: writes to its range are noted.
    pub(crate) fn begin(&self, step: ReflowStep, range: Range<u64>) {
        let mut state = self.state.lock();
        (state.watched, state.touched) = (vec![range], Vec::new());
        let reflow = state.epoch.reflow;
        state.begin_with(step.copies_before(reflow));
    }

    /// The range was copied: writes go to both places from now on. Returns the ranges to copy
    /// again, because they were written meanwhile.
    pub(crate) fn begin_round(&self, step: ReflowStep, range: Range<u64>) -> Vec<Range<u64>> {
        let mut state = self.state.lock();
        let again = joined(std::mem::take(&mut state.touched), &range, 0);
        state.watched.clone_from(&again);
        state.begin_with(step.copies_behind(range.end));
        again
    }

    /// The step was done, as far as `to`.
    pub(crate) fn end(&self, step: ReflowStep, to: u64) {
        let mut state = self.state.lock();
        (state.watched, state.touched) = (Vec::new(), Vec::new());
        state.next = Some(Reflow { offset: to, scratch_valid: step == ReflowStep::Fill });
    }

    /// The new state for the uberblock, when a step was done.
    pub(crate) fn next(&self) -> Option<Reflow> {
        self.state.lock().next
    }

    /// Gives up copies that do not count yet.
    pub(crate) fn give_up(&self) {
        let reflow = self.reflow();
        self.set(reflow);
    }
}

/// The first sector that must not be moved yet when the offset on disk is at `sector`: where it
/// would come to, a row may lie that is still read there.
pub(crate) fn reach(sector: u64, old_width: u64) -> u64 {
    sector.saturating_add(sector / old_width.max(1)).saturating_sub(old_width)
}

/// The parts of ranges that are within another, in order, each once, with gaps of up to `span`.
pub(crate) fn joined(
    mut ranges: Vec<Range<u64>>,
    within: &Range<u64>,
    span: u64,
) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|r| r.start);
    let mut out: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let range = range.start.max(within.start)..range.end.min(within.end);
        match out.last_mut() {
            _ if range.start >= range.end => {}
            Some(last) if range.start <= last.end.saturating_add(span) => {
                last.end = last.end.max(range.end);
            }
            _ => out.push(range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No sector that may be moved comes to a row that is read at its old place; and the move
    /// always makes progress, from the end of the scratch area.
    #[test]
    fn nothing_is_written_over_that_is_read() {
        for width in 3..40u64 {
            let old = width - 1;
            let first = (BOOT_SIZE >> 12) * width;
            for offset in [first, first + 1, first + width, 3 * first + 7, 1 << 24] {
                let end = reach(offset, old);
                assert!(end > offset, "{width}: {offset}");
                let old_sector = |sector: u64| {
                    let (child, at) = Area::New.place(sector, width, 12);
                    let row = (at - LABEL_START_SIZE) >> 12;
                    ((child as u64) < old).then_some(row * old + child as u64)
                };
                // A row that begins there is as long as the old width at most.
                let last = (end.saturating_sub(2)..end).filter_map(old_sector).max().unwrap();
                assert!(last + old <= offset, "{width}: {offset} overwrites {last}");
            }
            assert!(Area::Scratch.place(first - 1, width, 12).1 < LABEL_START_SIZE);
        }
    }

    #[test]
    fn what_is_written_while_it_is_moved_is_noted_and_then_written_twice() {
        let flow = Flow::new(Reflow { offset: 1 << 20, scratch_valid: false }, Vec::new());
        let rt = Rt::real();
        let also = |epoch: &EpochGuard, at: u64| epoch.also(at, Area::Old).collect::<Vec<_>>();
        let before = flow.write(&(2 << 20..3 << 20));
        flow.begin(ReflowStep::Move, 1 << 20..4 << 20);
        assert!(!flow.is_drained(), "a write began before");
        drop(before);
        assert!(flow.drain(&rt));
        let during = flow.write(&(2 << 20..5 << 20));
        assert!(also(&during, 2 << 20).is_empty());
        assert_eq!(also(&during, 0), [(Area::New, true)], "that part of a row was moved before");
        let again = flow.begin_round(ReflowStep::Move, 1 << 20..4 << 20);
        assert_eq!(again.len(), 1);
        assert_eq!(again[0], 2 << 20..4 << 20);
        let behind = flow.write(&(2 << 20..3 << 20));
        assert_eq!(also(&behind, 0), [(Area::New, true)]);
        assert_eq!(also(&behind, 2 << 20), [(Area::New, false)], "it may be copied once more");
        assert_eq!(also(&behind, 4 << 20), []);
        assert_eq!(
            flow.begin_round(ReflowStep::Move, 1 << 20..4 << 20).len(),
            1,
            "it may be in between"
        );
        assert!(flow.begin_round(ReflowStep::Move, 1 << 20..4 << 20).is_empty());
        flow.end(ReflowStep::Move, 4 << 20);
        assert_eq!(flow.read().area(3 << 20), Area::Old, "it is told only when it is durable");
        let next = flow.next().unwrap();
        flow.set(next);
        assert_eq!((flow.read().area(4 << 20), flow.next()), (Area::New, None));
        assert_eq!(flow.read().area((4 << 20) + 1), Area::Old);
        drop((during, behind));
    }
}
