//! How fast a leaf usually answers a thread that waits for a read, and what follows when it does
//! not.
//!
//! # Theory
//!
//! A disk that is about to die is seldom dead: it answers, now and then after seconds. Its vdev is
//! then as slow as it is, although the others could have said the same. So
//!
//! ```text
//! a read takes unusually long     it is read elsewhere as well, and the reader goes on; until it
//!                                 comes back the leaf is the last choice of readers
//! LATE_MAX of the last 32 do,     the leaf sits out: it stays the last choice
//!   one after the other, and its
//!   siblings do not
//! SIT_OUT has passed              one read goes to it, as a trial; in time: it is used again,
//!                                 late: it sits out for twice as long, up to SIT_OUT_MAX
//! ```
//!
//! *Unusual* is what takes twice as long as the percentile (`zinc_read_late_percentile`, 99) of the
//! last [`RECENT`] reads of this leaf, waiting in its queue included, and no less than
//! [`LATE_MIN`], below which a second read costs more than it saves. The measure is a leaf's own,
//! so a load that makes all slow moves it. A late read counts as what it is measured by, so a leaf
//! that is suddenly slow does not become the new usual at once. As long as little is known, it is
//! [`LATE_UNKNOWN`].
//!
//! *Siblings*, the leaves of the same top-level vdev, are the other measure. A leaf that was slow
//! from the beginning does not know better, so what takes [`SIBLING_TIMES`] as long as the
//! percentile of the middle one of them is late too. And what makes all of them late, a processor
//! or a bus that has too much to do, is no leaf's fault: one sits out when it was late more than
//! twice as often as the middle one of those that are in use. The last one in use does not sit out;
//! when it is late as well, those come back that sit out for the first time and were no later.
//!
//! *One after the other*: reads that were under way when one was found to be late are late for the
//! same reason, and count as one with it. Only a read that takes [`LATE_LONG`] is enough by itself.
//!
//! *Reading elsewhere is bounded*: each read earns the leaf `zinc_read_elsewhere_percent` (5) of an
//! extra read, and [`SAVED_MAX`] are saved. When all are slow because there is too much to do, more
//! reads would be the last thing that helps.
//!
//! *Sitting out* is a preference: a column that no other device has is read from the leaf all the
//! same. When too many of a vdev sit out, or owe a read, the ones that were late less often are
//! read. It concerns reads alone. Writes go on, and nothing is missed; how long a leaf may take
//! before it counts as dead is said by its guard (`guard`). Ten seconds at first, since most
//! slowness passes (a disk that remaps a sector, a garbage collection); OpenZFS's
//! `zfs_vdev_read_sit_out_secs`, which is ten minutes, in the end.

use super::limits::QueueLimits;
use parking_lot::{Mutex, RwLock};
use rt::Rt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Reads that the percentile is taken of.
const RECENT: usize = 256;
/// As long as it knows fewer, it knows nothing.
const KNOWN_MIN: usize = 32;
/// How many reads later it is computed anew.
const AGAIN: u32 = 32;
const LATE_MIN: Duration = Duration::from_millis(5);
const LATE_UNKNOWN: Duration = Duration::from_secs(1);
/// What is unusual whatever was usual: by then a reader has waited long enough.
const LATE_MOST: Duration = Duration::from_secs(2);
/// A single read that takes so long, if that is late, is enough.
const LATE_LONG: Duration = Duration::from_millis(500);
/// What is late compared with the percentile of siblings. Disks of one kind differ by less, and
/// where a mirror has two kinds, readers are better served by the one that is this much faster.
const SIBLING_TIMES: u64 = 8;
/// Late ones of the last 32 reads with which a leaf sits out.
const LATE_MAX: u32 = 4;
/// Where too many leaves sit out, those with more late reads than the first of these are avoided,
/// then those with more than the second, and so on. None has more than the last.
pub(crate) const LATE_STEPS: [u32; 5] = [0, LATE_MAX - 1, 8, 16, u32::BITS];
/// Extra reads that are saved for later.
const SAVED_MAX: u64 = 16;
const SIT_OUT: Duration = Duration::from_secs(10);
/// A trial that nothing was heard of: its read was not needed after all.
const TRIAL: Duration = Duration::from_secs(5);

/// What readers know of a leaf.
pub(crate) struct Pace {
    rt: Rt,
    limits: Arc<QueueLimits>,
    /// Nanoseconds from which on a read is late.
    late_ns: AtomicU64,
    /// The percentile of its reads, for siblings; 0: not known yet.
    usual_ns: AtomicU64,
    /// Of the last 32 reads, those that were late.
    late_reads: AtomicU32,
    sits_out: AtomicBool,
    /// Late reads that have not come back.
    owes: AtomicU32,
    siblings: RwLock<Vec<Weak<Pace>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nanoseconds of the last reads.
    recent: Vec<u64>,
    next: usize,
    until_again: u32,
    /// Whether the last reads were late, the last one in the lowest bit.
    late: u32,
    /// When a read was last found to be late: one that began before is late for the same reason.
    found_late: Option<Duration>,
    /// Since when a late read has not come back, or since that was last counted.
    owes_since: Duration,
    /// Extra reads saved, in hundredths.
    saved: u64,
    sit_out: Option<Pause>,
    /// How long the last one was, and when it ended.
    before: Option<(Duration, Duration)>,
}

struct Pause {
    until: Duration,
    length: Duration,
    trial: Option<Duration>,
}

impl Pace {
    pub(super) fn new(rt: &Rt, limits: Arc<QueueLimits>) -> Arc<Self> {
        let state = State { saved: SAVED_MAX * 100, ..State::default() };
        Arc::new(Self {
            rt: rt.clone(),
            limits,
            late_ns: AtomicU64::new(nanos(LATE_UNKNOWN)),
            usual_ns: AtomicU64::new(0),
            late_reads: AtomicU32::new(0),
            sits_out: AtomicBool::new(false),
            owes: AtomicU32::new(0),
            siblings: RwLock::default(),
            state: Mutex::new(state),
        })
    }

    /// These are compared with each other from now on.
    pub(crate) fn acquaint(all: &[&Arc<Self>]) {
        for pace in all {
            let others = all.iter().filter(|other| !Arc::ptr_eq(other, pace));
            *pace.siblings.write() = others.map(|other| Arc::downgrade(other)).collect();
        }
    }

    fn siblings(&self) -> Vec<Arc<Self>> {
        self.siblings.read().iter().filter_map(Weak::upgrade).collect()
    }

    /// The middle one of what siblings in use say, the lower one of two.
    fn middle_of_siblings<T: Ord>(&self, say: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let siblings = self.siblings();
        let used = siblings.iter().filter(|sibling| !sibling.rests());
        let mut all: Vec<T> = used.filter_map(|sibling| say(sibling)).collect();
        all.sort_unstable();
        let middle = all.len().checked_sub(1)? / 2;
        all.into_iter().nth(middle)
    }

    /// How long a reader waits before it reads elsewhere; `None`: to the end, in a pool
    /// that is not served.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.limits.is_held().then(|| Duration::from_nanos(self.late_ns.load(Relaxed)))
    }

    /// A read was answered after so long; [`Self::is_late`] was called `noted` times for it.
    pub(crate) fn answered(&self, took: Duration, noted: u32) {
        self.came_back(noted);
        if !self.limits.is_held() {
            return;
        }
        let late_ns = self.late_ns.load(Relaxed);
        let began = self.rt.now().saturating_sub(took);
        let mut state = self.state.lock();
        let mut found = false;
        if noted == 0 && nanos(took) < late_ns {
            self.note_in_time(&mut state);
        } else if noted == 0 {
            found = self.note_late(&mut state, began);
        }
        let share = self.limits.elsewhere_percent();
        state.saved = (state.saved + share).min(SAVED_MAX * 100);
        self.remember(&mut state, nanos(took).min(late_ns));
        drop(state);
        if found {
            self.compare();
        }
    }

    /// A read for which [`Self::is_late`] was called `noted` times is over, also without an answer.
    pub(crate) fn came_back(&self, noted: u32) {
        if noted > 0 {
            self.owes.fetch_sub(noted, Relaxed);
        }
    }

    fn note_in_time(&self, state: &mut State) {
        state.late <<= 1;
        let end = state.sit_out.take_if(|sit| sit.trial.is_some());
        if let Some(sit) = end {
            state.before = Some((sit.length, self.rt.now()));
            state.late = 0;
            self.sits_out.store(false, Relaxed);
        }
        self.late_reads.store(state.late.count_ones(), Relaxed);
    }

    fn remember(&self, state: &mut State, took: u64) {
        if state.recent.len() < RECENT {
            state.recent.push(took);
        } else if let Some(oldest) = state.recent.get_mut(state.next) {
            *oldest = took;
            state.next = (state.next + 1) % RECENT;
        }
        if state.until_again > 0 {
            state.until_again -= 1;
            return;
        }
        let of_siblings = self.middle_of_siblings(|sibling| {
            Some(sibling.usual_ns.load(Relaxed)).filter(|usual| *usual > 0)
        });
        let most = of_siblings.map_or(nanos(LATE_MOST), |usual| {
            usual.saturating_mul(SIBLING_TIMES).clamp(nanos(LATE_MIN), nanos(LATE_MOST))
        });
        if state.recent.len() < KNOWN_MIN {
            self.late_ns.store(most.min(nanos(LATE_UNKNOWN)), Relaxed);
            return;
        }
        state.until_again = AGAIN;
        let mut sorted = state.recent.clone();
        let percentile = self.limits.late_percentile().min(100);
        let at = (sorted.len() - 1) * percentile as usize / 100;
        let (_, usual, _) = sorted.select_nth_unstable(at);
        let late = usual.saturating_mul(2).clamp(nanos(LATE_MIN), most);
        self.late_ns.store(late, Relaxed);
        self.usual_ns.store((*usual).max(1), Relaxed);
    }

    /// A read that began then is late; whether it may be read elsewhere. [`Self::answered`] or
    /// [`Self::came_back`] follows.
    pub(crate) fn is_late(&self, began: Duration) -> bool {
        let mut state = self.state.lock();
        if self.owes.fetch_add(1, Relaxed) == 0 {
            state.owes_since = began;
        }
        let found = self.note_late(&mut state, began);
        let may = state.saved >= 100;
        if may {
            state.saved -= 100;
        }
        drop(state);
        if found {
            self.compare();
        }
        may
    }

    /// Whether the leaf was late often enough to be compared with its siblings.
    fn note_late(&self, state: &mut State, began: Duration) -> bool {
        let now = self.rt.now();
        let is_long = now.saturating_sub(began) >= LATE_LONG;
        if !is_long && state.found_late.is_some_and(|found| began < found) {
            return false;
        }
        state.found_late = Some(now);
        let times = if is_long { LATE_MAX } else { 1 };
        state.late = (state.late << times) | ((1 << times) - 1);
        self.late_reads.store(state.late.count_ones(), Relaxed);
        let most = self.limits.sit_out_max();
        match &mut state.sit_out {
            Some(sit) if sit.trial.is_none() => false,
            Some(sit) => {
                let length = (sit.length * 2).min(most);
                *sit = Pause { until: now + length, length, trial: None };
                false
            }
            None => state.late.count_ones() >= LATE_MAX,
        }
    }

    /// It has been late often: sits out, unless those in use have been as well.
    fn compare(&self) {
        let own = self.late_reads.load(Relaxed);
        let siblings = self.siblings();
        let middle = self.middle_of_siblings(|pace| Some(pace.late_reads.load(Relaxed)));
        if siblings.is_empty() || middle.is_some_and(|middle| own > 2 * middle) {
            self.sit_out();
            return;
        }
        siblings.iter().filter(|sibling| sibling.sits_out()).for_each(|s| s.come_back(2 * own));
    }

    fn sit_out(&self) {
        let now = self.rt.now();
        let most = self.limits.sit_out_max();
        let mut state = self.state.lock();
        if state.sit_out.is_some() {
            return;
        }
        // One that was slow a short while ago begins where it left off.
        let again = state.before.filter(|(_, ended)| now.saturating_sub(*ended) <= most);
        let length = again.map_or(SIT_OUT, |(length, _)| length * 2).min(most);
        state.sit_out = Some(Pause { until: now + length, length, trial: None });
        self.sits_out.store(true, Relaxed);
    }

    /// It is used again if it was late no more often than this, and sits out for the first time.
    fn come_back(&self, late_most: u32) {
        let mut state = self.state.lock();
        let is_no_later = state.late.count_ones() <= late_most;
        let first = state.sit_out.take_if(|sit| is_no_later && sit.length <= SIT_OUT);
        if let Some(sit) = first {
            state.before = Some((sit.length, self.rt.now()));
            self.sits_out.store(false, Relaxed);
        }
    }

    /// Readers use others, if they can, for a while.
    pub(crate) fn sits_out(&self) -> bool {
        self.sits_out.load(Relaxed)
    }

    /// The same, or a late read has not come back.
    pub(crate) fn rests(&self) -> bool {
        self.sits_out() || self.owes.load(Relaxed) > 0
    }

    /// Readers use others, if they can; asked for a read that is about to be made: some are trials.
    pub(crate) fn is_avoided(&self) -> bool {
        if !self.rests() {
            return false;
        }
        let owes = self.owes.load(Relaxed) > 0;
        let now = self.rt.now();
        let mut state = self.state.lock();
        if owes && state.sit_out.is_none() {
            let since = state.owes_since;
            let is_long = now.saturating_sub(since) >= LATE_LONG;
            let found = is_long && self.note_late(&mut state, since);
            if is_long {
                state.owes_since = now;
            }
            drop(state);
            if found {
                self.compare();
            }
            return true;
        }
        let Some(sit) = &mut state.sit_out else { return false };
        if owes || now < sit.until || sit.trial.is_some_and(|at| now.saturating_sub(at) < TRIAL) {
            return true;
        }
        sit.trial = Some(now);
        false
    }

    /// Of the last 32 reads, those that were late, when others are preferred; else 0.
    pub(crate) fn late_reads(&self) -> u32 {
        if self.rests() { self.late_reads.load(Relaxed) } else { 0 }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn pace(rt: &Rt) -> Arc<Pace> {
        let limits = Arc::new(QueueLimits::default());
        limits.hold();
        let pace = Pace::new(rt, limits);
        (0..300).for_each(|n| answer(&pace, MS * (1 + u32::from(n % 50 == 0) * 9)));
        pace
    }

    fn answer(pace: &Pace, took: Duration) {
        pace.answered(took, 0);
    }

    /// Reads, one after the other, that take so long.
    fn reads(rt: &Rt, pace: &Pace, count: usize, took: Duration) {
        for _ in 0..count {
            rt.sleep(took);
            answer(pace, took);
        }
    }

    /// A read is late, and nothing more is heard of it for now.
    fn late(rt: &Rt, pace: &Pace) -> bool {
        let began = rt.now();
        rt.sleep(pace.patience().unwrap());
        pace.is_late(began)
    }

    #[test]
    fn late_is_twice_the_percentile_of_its_own() {
        Rt::simulate(1, |rt| {
            let pace = pace(rt);
            assert_eq!(pace.patience(), Some(MS * 20));
            (0..300).for_each(|_| answer(&pace, MS / 10));
            assert_eq!(pace.patience(), Some(LATE_MIN));
            // What all of a sudden is slow is late for a while, and then usual.
            reads(rt, &pace, 2000, MS * 100);
            assert!(pace.patience() >= Some(MS * 100), "{:?}", pace.patience());
        });
    }

    #[test]
    fn a_leaf_that_was_always_slow_is_told_by_its_siblings() {
        Rt::simulate(1, |rt| {
            let [a, b, slow] = [pace(rt), pace(rt), Pace::new(rt, Arc::clone(&pace(rt).limits))];
            Pace::acquaint(&[&a, &b, &slow]);
            reads(rt, &slow, 8, MS * 100);
            assert_eq!(slow.patience(), Some(MS * 80));
            assert!(slow.sits_out() && !a.sits_out());
            // Without siblings it is a slow kind of device.
            let alone = Pace::new(rt, Arc::clone(&slow.limits));
            reads(rt, &alone, 300, MS * 100);
            assert!(!alone.sits_out());
        });
    }

    #[test]
    fn reads_that_were_late_together_count_as_one() {
        Rt::simulate(1, |rt| {
            let pace = pace(rt);
            let stall = |rt: &Rt| {
                rt.sleep(MS * 400);
                (0..5).for_each(|_| answer(&pace, MS * 400));
            };
            (0..3).for_each(|_| stall(rt));
            assert_eq!(pace.late_reads.load(Relaxed), 3);
            (0..32).for_each(|_| answer(&pace, MS));
            (0..3).for_each(|_| stall(rt));
            assert!(!pace.sits_out());
            stall(rt);
            assert!(pace.sits_out());
        });
    }

    #[test]
    fn what_all_siblings_are_late_with_is_no_leafs_fault() {
        Rt::simulate(1, |rt| {
            let all = [pace(rt), pace(rt), pace(rt)];
            let [a, b, c] = &all;
            Pace::acquaint(&[a, b, c]);
            reads(rt, a, 4, MS * 100);
            assert!(a.sits_out());
            // The first ones came before it was known of the last.
            reads(rt, b, 4, MS * 100);
            reads(rt, c, 4, MS * 100);
            assert!(all.iter().all(|pace| !pace.sits_out()));
            (0..32).for_each(|_| [a, b].iter().for_each(|pace| answer(pace, MS)));
            reads(rt, c, 4, MS * 100);
            assert!(!a.sits_out() && !b.sits_out() && c.sits_out());
        });
    }

    #[test]
    fn who_owes_a_read_is_avoided_until_it_comes_back() {
        Rt::simulate(1, |rt| {
            let pace = pace(rt);
            assert!(late(rt, &pace) && pace.is_avoided() && !pace.sits_out());
            pace.answered(MS * 50, 1);
            assert!(!pace.is_avoided());
            late(rt, &pace);
            pace.came_back(1);
            assert!(!pace.is_avoided());
            // One that does not come back is enough.
            late(rt, &pace);
            rt.sleep(LATE_LONG);
            assert!(pace.is_avoided() && pace.sits_out());
            assert!(pace.is_avoided() && pace.late_reads() < 8, "it is counted once");
        });
    }

    #[test]
    fn one_that_sits_out_and_answers_is_told_from_one_that_does_not() {
        Rt::simulate(1, |rt| {
            let [slow, busy] = [pace(rt), pace(rt)];
            reads(rt, &slow, 40, MS * 100);
            reads(rt, &busy, 4, MS * 100);
            assert!(slow.is_avoided() && busy.is_avoided());
            assert_eq!([slow.late_reads(), busy.late_reads()], [32, 4]);
            (0..32).for_each(|_| answer(&busy, MS));
            assert!(busy.is_avoided() && busy.late_reads() == 0);
        });
    }

    #[test]
    fn few_are_read_elsewhere() {
        Rt::simulate(1, |rt| {
            let pace = pace(rt);
            let granted = (0..1000).filter(|_| pace.is_late(rt.now())).count() as u64;
            assert_eq!(granted, SAVED_MAX);
            (0..1000).for_each(|_| answer(&pace, MS));
            let granted = (0..1000).filter(|_| pace.is_late(rt.now())).count();
            assert_eq!(granted, 16, "no more are saved");
        });
    }

    #[test]
    fn who_is_slow_sits_out_and_is_tried_again() {
        Rt::simulate(1, |rt| {
            let pace = pace(rt);
            let slow = |rt: &Rt| {
                let took = pace.patience().unwrap() + MS;
                late(rt, &pace);
                rt.sleep(MS);
                pace.answered(took, 1);
            };
            (0..3).for_each(|_| slow(rt));
            assert!(!pace.is_avoided());
            slow(rt);
            assert!(pace.is_avoided());
            rt.sleep(SIT_OUT);
            let trials = (0..10).filter(|_| !pace.is_avoided()).count();
            assert_eq!(trials, 1);
            // Still slow: out again, for twice as long.
            slow(rt);
            rt.sleep(SIT_OUT);
            assert!(pace.is_avoided());
            rt.sleep(SIT_OUT);
            assert!(!pace.is_avoided() && pace.sits_out());
            answer(&pace, MS);
            assert!(!pace.sits_out() && !pace.is_avoided());
        });
    }
}
