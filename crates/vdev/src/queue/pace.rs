//! How fast a leaf usually answers a thread that waits for a read, and what follows when it does
//! not.
//!
//! # Theory
//!
//! A disk that is about to die is seldom dead: it answers, now and then after seconds. Its vdev is
//! then as slow as it is, although the others could have said the same. So
//!
//! ```text
//! a read takes unusually long     it is read elsewhere as well, and the reader goes on
//! LATE_MAX of the last 32 do      the leaf sits out: it is the last choice of readers
//! SIT_OUT has passed              one read goes to it, as a trial; in time: it is used again,
//!                                 late: it sits out for twice as long, up to SIT_OUT_MAX
//! ```
//!
//! *Unusual* is what takes twice as long as the percentile (`zinc_read_late_percentile`, 99) of the
//! last [`RECENT`] reads of this leaf, waiting in its queue included, and no less than
//! [`LATE_MIN`], below which a second read costs more than it saves. The measure is a leaf's own,
//! so a slow kind of disk is not blamed for its kind, and a load that makes all slow moves it. A
//! late read counts as what it is measured by, so a leaf that is suddenly slow does not become the
//! new usual at once. As long as little is known, it is [`LATE_UNKNOWN`].
//!
//! *Reading elsewhere is bounded*: each read earns the leaf `zinc_read_elsewhere_percent` (5) of an
//! extra read, and [`SAVED_MAX`] are saved. When all are slow because there is too much to do, more
//! reads would be the last thing that helps.
//!
//! *Sitting out* is a preference: a column that no other device has is read from the leaf all the
//! same. When too many of a vdev sit out, as they do when a slow leaf leaves its share to another
//! that then has more to do than usual, the ones that were late less often are read. It concerns
//! reads alone. Writes go on, and nothing is missed; how long a leaf may take before it counts as
//! dead is said by its guard (`guard`). Ten seconds at first, since most slowness passes (a disk
//! that remaps a sector, a garbage collection); OpenZFS's `zfs_vdev_read_sit_out_secs`, which is
//! ten minutes, in the end.

use super::limits::QueueLimits;
use parking_lot::Mutex;
use rt::Rt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
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
/// Late ones of the last 32 reads with which a leaf sits out.
const LATE_MAX: u32 = 4;
/// Where too many leaves sit out, those with more late reads than the first of these are avoided,
/// then those with more than the second, and so on. A leaf that answers as usual again is below
/// [`LATE_MAX`] after 32 reads, one that is slow has 32. None has more than the last.
pub(crate) const LATE_STEPS: [u32; 4] = [LATE_MAX - 1, 8, 16, u32::BITS];
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
    sits_out: AtomicBool,
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
            sits_out: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    /// How long a reader waits before it reads elsewhere; `None`: to the end, in a pool
    /// that is not served.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.limits.is_held().then(|| Duration::from_nanos(self.late_ns.load(Relaxed)))
    }

    /// A read has ended after so long; `noted`: [`Self::is_late`] was called for it.
    pub(crate) fn answered(&self, took: Duration, noted: bool) {
        if !self.limits.is_held() {
            return;
        }
        let late_ns = self.late_ns.load(Relaxed);
        let took = nanos(took);
        let mut state = self.state.lock();
        if took >= late_ns && !noted {
            self.note_late(&mut state);
        } else if took < late_ns {
            state.late <<= 1;
            let end = state.sit_out.take_if(|sit| sit.trial.is_some());
            if let Some(sit) = end {
                state.before = Some((sit.length, self.rt.now()));
                state.late = 0;
                self.sits_out.store(false, Relaxed);
            }
        }
        let share = self.limits.elsewhere_percent();
        state.saved = (state.saved + share).min(SAVED_MAX * 100);
        self.remember(&mut state, took.min(late_ns));
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
        if state.recent.len() < KNOWN_MIN {
            return;
        }
        state.until_again = AGAIN;
        let mut sorted = state.recent.clone();
        let percentile = self.limits.late_percentile().min(100);
        let at = (sorted.len() - 1) * percentile as usize / 100;
        let (_, usual, _) = sorted.select_nth_unstable(at);
        let late = usual.saturating_mul(2).clamp(nanos(LATE_MIN), nanos(LATE_MOST));
        self.late_ns.store(late, Relaxed);
    }

    /// A read is late; whether it may be read elsewhere.
    pub(crate) fn is_late(&self) -> bool {
        let mut state = self.state.lock();
        self.note_late(&mut state);
        let may = state.saved >= 100;
        if may {
            state.saved -= 100;
        }
        may
    }

    fn note_late(&self, state: &mut State) {
        state.late = (state.late << 1) | 1;
        let now = self.rt.now();
        let most = self.limits.sit_out_max();
        match &mut state.sit_out {
            Some(sit) if sit.trial.is_none() => {}
            Some(sit) => {
                let length = (sit.length * 2).min(most);
                *sit = Pause { until: now + length, length, trial: None };
            }
            None if state.late.count_ones() >= LATE_MAX => {
                // One that was slow a short while ago begins where it left off.
                let again = state.before.filter(|(_, ended)| now.saturating_sub(*ended) <= most);
                let length = again.map_or(SIT_OUT, |(length, _)| length * 2).min(most);
                state.sit_out = Some(Pause { until: now + length, length, trial: None });
                self.sits_out.store(true, Relaxed);
            }
            None => {}
        }
    }

    /// Readers use others, if they can.
    pub(crate) fn sits_out(&self) -> bool {
        self.sits_out.load(Relaxed)
    }

    /// The same for a read that is about to be made: some of them are trials.
    pub(crate) fn sits_out_now(&self) -> bool {
        if !self.sits_out() {
            return false;
        }
        let now = self.rt.now();
        let mut state = self.state.lock();
        let Some(sit) = &mut state.sit_out else { return false };
        if now < sit.until || sit.trial.is_some_and(|at| now.saturating_sub(at) < TRIAL) {
            return true;
        }
        sit.trial = Some(now);
        false
    }

    /// Of the last 32 reads, those that were late, when it sits out; else 0.
    pub(crate) fn late_reads(&self) -> u32 {
        if self.sits_out() { self.state.lock().late.count_ones() } else { 0 }
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
        (0..300).for_each(|n| pace.answered(MS * (1 + u32::from(n % 50 == 0) * 9), false));
        pace
    }

    #[test]
    fn late_is_twice_the_percentile_of_its_own() {
        Rt::simulate(1, |rt| {
            let pace = pace(rt);
            assert_eq!(pace.patience(), Some(MS * 20));
            (0..300).for_each(|_| pace.answered(MS / 10, false));
            assert_eq!(pace.patience(), Some(LATE_MIN));
            // What all of a sudden is slow is late for a while, and then usual.
            (0..2000).for_each(|_| pace.answered(MS * 100, false));
            assert!(pace.patience() >= Some(MS * 100), "{:?}", pace.patience());
        });
    }

    #[test]
    fn one_that_sits_out_and_answers_is_told_from_one_that_does_not() {
        Rt::simulate(1, |rt| {
            let [slow, busy] = [pace(rt), pace(rt)];
            (0..40).for_each(|_| slow.answered(MS * 100, false));
            (0..4).for_each(|_| busy.answered(MS * 100, false));
            assert!(slow.sits_out_now() && busy.sits_out_now());
            assert_eq!([slow.late_reads(), busy.late_reads()], [32, 4]);
            (0..32).for_each(|_| busy.answered(MS, false));
            assert!(busy.sits_out_now() && busy.late_reads() < LATE_STEPS[0]);
        });
    }

    #[test]
    fn few_are_read_elsewhere() {
        Rt::simulate(1, |rt| {
            let pace = pace(rt);
            let granted = (0..1000).filter(|_| pace.is_late()).count() as u64;
            assert_eq!(granted, SAVED_MAX);
            (0..1000).for_each(|_| pace.answered(MS, false));
            let granted = (0..1000).filter(|_| pace.is_late()).count();
            assert_eq!(granted, 16, "no more are saved");
        });
    }

    #[test]
    fn who_is_slow_sits_out_and_is_tried_again() {
        Rt::simulate(1, |rt| {
            let pace = pace(rt);
            assert!((0..3).all(|_| pace.is_late()));
            assert!(!pace.sits_out_now());
            pace.is_late();
            assert!(pace.sits_out_now());
            rt.sleep(SIT_OUT);
            let trials = (0..10).filter(|_| !pace.sits_out_now()).count();
            assert_eq!(trials, 1);
            // Still slow: out again, for twice as long.
            pace.is_late();
            rt.sleep(SIT_OUT);
            assert!(pace.sits_out_now());
            rt.sleep(SIT_OUT);
            assert!(!pace.sits_out_now() && pace.sits_out());
            pace.answered(MS, false);
            assert!(!pace.sits_out() && !pace.sits_out_now());
        });
    }
}
