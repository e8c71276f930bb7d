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
//!   siblings do not meanwhile
//! SIT_OUT has passed              one read goes to it, as a trial; in time, or no later than those
//!                                 of its siblings meanwhile: it is used again; late: it sits out
//!                                 for twice as long, up to `zfs_vdev_read_sit_out_secs`
//! ```
//!
//! *Unusual* is what takes twice as long as the percentile (`zinc_read_late_percentile`, 99) of the
//! last [`RECENT`] reads of this leaf, waiting in its queue included, and no less than
//! [`LATE_MIN`], below which a second read costs more than it saves, and no more than
//! [`LATE_MOST`], where no sibling says what is usual. The measure is a leaf's own, so a load that
//! makes all slow moves it. A late read counts as what it is measured by, so a leaf
//! that is suddenly slow does not become the new usual at once. As long as little is known, it is
//! [`LATE_UNKNOWN`].
//!
//! *Siblings*, the leaves of the same top-level vdev, are the other measure. A leaf that was slow
//! from the beginning does not know better, so what takes [`SIBLING_TIMES`] as long as the
//! percentile of the middle one of them is late too. And what makes all of them late, a processor
//! or a bus that has too much to do or a machine that stands still, is no leaf's fault. So a late
//! read is judged when it is over, or has gone on for [`LATE_LONG`], by what siblings in use did
//! *meanwhile*:
//!
//! ```text
//! a sibling answered another read within a quarter of that time, well before its end   it was fine
//! else a read of it took, or has taken, at least half of that time                     it was late
//! else it had nothing to do                                                            -
//!
//! more were late than fine    the read is not counted
//! else, if any was fine       it counts; if it took LATE_LONG, it is enough by itself
//! none had anything to do     it counts
//! ```
//!
//! And a leaf sits out only if it was late more than twice as often as the middle one of those that
//! are in use, which is so of few when all have too much to do. No more sit out than the vdev has
//! leaves to spare: a leaf that is found to be late when they do stays in use, and those come back
//! that sit out for the first time and were no later. So neither a trial nor a leaf that is as slow
//! as ever puts out the ones that are well.
//!
//! *One after the other*: reads that were under way when one was found to be late are late for the
//! same reason, and count as one with it.
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
use std::collections::BTreeMap;
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
/// A single read that takes this time is enough, if siblings answered meanwhile.
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
    /// How many of them, and of itself, may sit out. Held while it is decided which.
    spare: RwLock<Arc<Mutex<usize>>>,
    state: Mutex<State>,
}

/// When a read was under way.
#[derive(Clone, Copy, Debug)]
struct Span {
    began: Duration,
    ended: Duration,
}

impl Span {
    fn length(self) -> Duration {
        self.ended.saturating_sub(self.began)
    }

    /// The time that they have in common.
    fn common(self, other: Self) -> Duration {
        self.ended.min(other.ended).saturating_sub(self.began.max(other.began))
    }
}

/// What a leaf did while a read of a sibling was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Fine,
    Late,
    Nothing,
}

/// What a late read is due to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Leaf,
    /// What made most siblings late as well.
    Common,
    /// No sibling had anything to do.
    Unknown,
}

#[derive(Default)]
struct State {
    /// Reads that the leaf has, by the time at which they began.
    out: BTreeMap<Duration, u32>,
    /// Reads that came back in time, each the first one for [`LATE_MIN`], the last one first.
    in_time: [Option<Span>; 2],
    /// The last read that was late.
    late_read: Option<Span>,
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
            spare: RwLock::default(),
            state: Mutex::new(state),
        })
    }

    /// These are compared with each other from now on, and no more than `spare` of them sit out.
    pub(crate) fn acquaint(all: &[&Arc<Self>], spare: usize) {
        let spare = Arc::new(Mutex::new(spare));
        for pace in all {
            let others = all.iter().filter(|other| !Arc::ptr_eq(other, pace));
            *pace.siblings.write() = others.map(|other| Arc::downgrade(other)).collect();
            *pace.spare.write() = Arc::clone(&spare);
        }
    }

    fn siblings(&self) -> Vec<Arc<Self>> {
        self.siblings.read().iter().filter_map(Weak::upgrade).collect()
    }

    /// The middle one of what siblings say, the lower one of two.
    fn middle_of_siblings<T: Ord>(&self, say: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let siblings = self.siblings();
        let mut all: Vec<T> = siblings.iter().filter_map(|sibling| say(sibling)).collect();
        all.sort_unstable();
        let middle = all.len().checked_sub(1)? / 2;
        all.into_iter().nth(middle)
    }

    /// How long a reader waits before it reads elsewhere; `None`: to the end, in a pool
    /// that is not served.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.limits.is_held().then(|| Duration::from_nanos(self.late_ns.load(Relaxed)))
    }

    /// A read goes to the leaf. [`Self::answered`] or [`Self::came_back`] follows.
    pub(crate) fn begins(&self, began: Duration) {
        *self.state.lock().out.entry(began).or_default() += 1;
    }

    /// A read that began at `began` was answered after `took`; that it is late was noted `noted`
    /// times ([`Self::is_late`], [`Self::overstays`]).
    pub(crate) fn answered(&self, began: Duration, took: Duration, noted: u32) {
        self.came_back(began, noted);
        if !self.limits.is_held() {
            return;
        }
        let late_ns = self.late_ns.load(Relaxed);
        let is_late = noted > 0 || nanos(took) >= late_ns;
        let read = Span { began, ended: began + took };
        let mut state = self.state.lock();
        if !is_late {
            self.note_in_time(&mut state, read);
        } else if noted == 0 {
            self.note_late(&mut state, began);
        }
        let share = self.limits.elsewhere_percent();
        state.saved = (state.saved + share).min(SAVED_MAX * 100);
        self.remember(&mut state, nanos(took).min(late_ns));
        drop(state);
        if is_late {
            self.judge(read);
        }
    }

    /// A read that began then, and of which was noted `noted` times that it is late, is over, also
    /// without an answer.
    pub(crate) fn came_back(&self, began: Duration, noted: u32) {
        if noted > 0 {
            self.owes.fetch_sub(noted, Relaxed);
        }
        let mut state = self.state.lock();
        if let Some(count) = state.out.get_mut(&began) {
            *count -= 1;
            if *count == 0 {
                state.out.remove(&began);
            }
        }
    }

    fn note_in_time(&self, state: &mut State, read: Span) {
        let [last, _] = state.in_time;
        if last.is_none_or(|last| last.ended + LATE_MIN <= read.ended) {
            state.in_time = [Some(read), last];
        }
        state.late <<= 1;
        if state.sit_out.as_ref().is_some_and(|sit| sit.trial.is_some()) {
            self.end_pause(state);
            state.late = 0;
        }
        self.late_reads.store(state.late.count_ones(), Relaxed);
    }

    /// It is used again.
    fn end_pause(&self, state: &mut State) {
        if let Some(sit) = state.sit_out.take() {
            state.before = Some((sit.length, self.rt.now()));
            self.sits_out.store(false, Relaxed);
        }
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
            let usual = sibling.usual_ns.load(Relaxed);
            (usual > 0 && !sibling.rests()).then_some(usual)
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

    /// A read that began then is late. [`Self::answered`] or [`Self::came_back`] follows.
    pub(crate) fn overstays(&self, began: Duration) {
        self.owe(&mut self.state.lock(), began);
    }

    fn owe(&self, state: &mut State, began: Duration) {
        if self.owes.fetch_add(1, Relaxed) == 0 {
            state.owes_since = began;
        }
        self.note_late(state, began);
    }

    /// The same; whether it may be read elsewhere.
    pub(crate) fn is_late(&self, began: Duration) -> bool {
        let mut state = self.state.lock();
        self.owe(&mut state, began);
        let may = state.saved >= 100;
        if may {
            state.saved -= 100;
        }
        may
    }

    /// One more read is late, unless it is for the same reason as the last one.
    fn note_late(&self, state: &mut State, began: Duration) {
        if state.found_late.is_some_and(|found| began < found) {
            return;
        }
        state.found_late = Some(self.rt.now());
        state.late = (state.late << 1) | 1;
        self.late_reads.store(state.late.count_ones(), Relaxed);
    }

    /// What the leaf did while a read of a sibling was under way.
    fn meanwhile(&self, read: Span) -> Meanwhile {
        let state = self.state.lock();
        let is_fine = |own: &Span| {
            let is_within = own.began >= read.began && own.ended + LATE_MIN <= read.ended;
            is_within && own.length() * 4 <= read.length()
        };
        if state.in_time.iter().flatten().any(is_fine) {
            return Meanwhile::Fine;
        }
        let oldest = state.out.keys().next();
        let out = oldest.map(|began| Span { began: *began, ended: read.ended });
        let is_as_late = |own: &Span| own.common(read) * 2 >= read.length();
        match [out, state.late_read].iter().flatten().any(is_as_late) {
            true => Meanwhile::Late,
            false => Meanwhile::Nothing,
        }
    }

    /// What a late read is due to, by what siblings in use did meanwhile.
    fn cause(&self, read: Span) -> Cause {
        let siblings = self.siblings();
        let used = siblings.iter().filter(|sibling| !sibling.sits_out());
        let all: Vec<Meanwhile> = used.map(|sibling| sibling.meanwhile(read)).collect();
        let count = |what| all.iter().filter(|did| **did == what).count();
        match (count(Meanwhile::Fine), count(Meanwhile::Late)) {
            (fine, late) if late > fine => Cause::Common,
            (0, _) => Cause::Unknown,
            _ => Cause::Leaf,
        }
    }

    /// A read that was noted to be late is over, or has gone on for long.
    fn judge(&self, read: Span) {
        let cause = self.cause(read);
        let mut state = self.state.lock();
        state.late_read = Some(read);
        if state.sit_out.as_ref().is_some_and(|sit| sit.trial.is_some()) {
            return self.end_trial(&mut state, read, cause);
        }
        match cause {
            // The last late one is not counted.
            Cause::Common => state.late &= state.late.wrapping_sub(1),
            Cause::Leaf if read.length() >= LATE_LONG => {
                state.late = (state.late << LATE_MAX) | ((1 << LATE_MAX) - 1);
            }
            Cause::Leaf | Cause::Unknown => {}
        }
        let late = state.late.count_ones();
        self.late_reads.store(late, Relaxed);
        let is_out = state.sit_out.is_some();
        drop(state);
        if cause != Cause::Common && !is_out && late >= LATE_MAX {
            self.compare();
        }
    }

    /// The read of a trial was late.
    fn end_trial(&self, state: &mut State, read: Span, cause: Cause) {
        if cause == Cause::Common {
            state.late = 0;
            self.late_reads.store(0, Relaxed);
            return self.end_pause(state);
        }
        if let Some(sit) = &mut state.sit_out {
            let length = (sit.length * 2).min(self.limits.sit_out_max());
            let until = (read.began + length).max(self.rt.now() + length / 2);
            *sit = Pause { until, length, trial: None };
        }
    }

    /// It has been late often: sits out, unless those in use have been as well, or enough of them
    /// sit out.
    fn compare(&self) {
        let own = self.late_reads.load(Relaxed);
        let spare = Arc::clone(&self.spare.read());
        // Two that are late at the same time are compared one after the other.
        let spare = spare.lock();
        let siblings = self.siblings();
        let out: Vec<_> = siblings.iter().filter(|sibling| sibling.sits_out()).collect();
        let middle = self.middle_of_siblings(|sibling| {
            (!sibling.sits_out()).then(|| sibling.late_reads.load(Relaxed))
        });
        if out.len() < *spare && middle.is_some_and(|middle| own > 2 * middle) {
            return self.sit_out();
        }
        out.into_iter().for_each(|sibling| sibling.come_back(2 * own));
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
        if is_no_later && state.sit_out.as_ref().is_some_and(|sit| sit.length <= SIT_OUT) {
            self.end_pause(&mut state);
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
            if is_long {
                self.note_late(&mut state, since);
                state.owes_since = now;
            }
            drop(state);
            if is_long {
                self.judge(Span { began: since, ended: now });
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

    /// A leaf that has answered well for a while, without siblings.
    fn alone(rt: &Rt) -> Arc<Pace> {
        let limits = Arc::new(QueueLimits::default());
        limits.hold();
        let pace = Pace::new(rt, limits);
        (0..300).for_each(|n| answer(&pace, MS * (1 + u32::from(n % 50 == 0) * 9)));
        rt.sleep(Duration::from_secs(1));
        pace
    }

    /// As many that are compared with each other.
    fn group(rt: &Rt, count: usize, spare: usize) -> Vec<Arc<Pace>> {
        let all: Vec<_> = (0..count).map(|_| alone(rt)).collect();
        Pace::acquaint(&all.iter().collect::<Vec<_>>(), spare);
        all
    }

    /// One, and a sibling that has nothing to do.
    fn pair(rt: &Rt) -> [Arc<Pace>; 2] {
        let both = [alone(rt), alone(rt)];
        Pace::acquaint(&[&both[0], &both[1]], 1);
        both
    }

    /// It has answered a read, which took `took`.
    fn answer(pace: &Pace, took: Duration) {
        pace.answered(pace.rt.now().saturating_sub(took), took, 0);
    }

    /// Reads, one after the other, each of which takes `took`.
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

    /// What readers of all leaves that they do not avoid meet for `rounds` of time: each
    /// leaf answers as long after as `took` says. At most one read of each is out.
    fn run(rt: &Rt, all: &[Arc<Pace>], rounds: usize, took: &dyn Fn(usize) -> Duration) {
        let mut out: Vec<Option<(Duration, Duration, u32)>> = vec![None; all.len()];
        for _ in 0..rounds {
            for (n, pace) in all.iter().enumerate() {
                let now = rt.now();
                match &mut out[n] {
                    Some((began, until, noted)) if now >= *until => {
                        pace.answered(*began, *until - *began, *noted);
                        out[n] = None;
                    }
                    Some((began, _, noted))
                        if *noted == 0 && now - *began >= pace.patience().unwrap() =>
                    {
                        pace.is_late(*began);
                        *noted = 1;
                    }
                    _ => {}
                }
                // Also one that is avoided is asked, as for each block.
                if out[n].is_none() && !pace.is_avoided() {
                    pace.begins(now);
                    out[n] = Some((now, now + took(n), 0));
                } else if out[n].is_some() {
                    pace.is_avoided();
                }
            }
            rt.sleep(MS);
        }
        for (n, left) in out.into_iter().enumerate() {
            if let Some((began, until, noted)) = left {
                rt.sleep(until.saturating_sub(rt.now()));
                all[n].answered(began, until - began, noted);
            }
        }
    }

    fn out(all: &[Arc<Pace>]) -> Vec<usize> {
        (0..all.len()).filter(|n| all[*n].sits_out()).collect()
    }

    const FAST: Duration = Duration::from_millis(2);
    const SLOW: Duration = Duration::from_millis(300);

    #[test]
    fn late_is_twice_the_percentile_of_its_own() {
        Rt::simulate(1, |rt| {
            let [pace, _idle] = pair(rt);
            assert_eq!(pace.patience(), Some(MS * 20));
            (0..300).for_each(|_| answer(&pace, MS / 10));
            assert_eq!(pace.patience(), Some(LATE_MIN));
            // What all of a sudden is slow is late for a while, and then usual.
            let alone = alone(rt);
            reads(rt, &alone, 2000, MS * 100);
            assert!(alone.patience() >= Some(MS * 100), "{:?}", alone.patience());
        });
    }

    #[test]
    fn a_leaf_that_was_always_slow_is_told_by_its_siblings() {
        Rt::simulate(1, |rt| {
            let [a, b, slow] = [alone(rt), alone(rt), Pace::new(rt, Arc::clone(&alone(rt).limits))];
            Pace::acquaint(&[&a, &b, &slow], 1);
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
            let [pace, _idle] = pair(rt);
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

    /// It sits out soon, and no other does, however often it is tried; and when it is as fast as
    /// the others, it is used again.
    #[test]
    fn one_that_is_slow_sits_out_alone_and_is_used_again_when_it_is_fast() {
        for (count, spare, seed) in [(2, 1, 1), (3, 1, 2), (6, 2, 3), (9, 3, 4)] {
            Rt::simulate(seed, |rt| {
                let all = group(rt, count, spare);
                let one_slow = |n: usize| if n == 1 { SLOW } else { FAST };
                run(rt, &all, 2000, &one_slow);
                assert_eq!(out(&all), [1], "{count}");
                // Trials after 10 and 20 seconds, the next one 40 seconds later.
                for part in 0..4 {
                    run(rt, &all, 10_000, &one_slow);
                    assert_eq!(out(&all), [1], "{count}, part {part}");
                }
                run(rt, &all, 45_000, &|_| FAST);
                assert_eq!(out(&all), [0; 0], "{count}");
            });
        }
    }

    #[test]
    fn when_all_are_slow_none_sits_out() {
        for (count, spare, seed) in [(2, 1, 1), (3, 2, 2), (6, 2, 3)] {
            Rt::simulate(seed, |rt| {
                let all = group(rt, count, spare);
                // Not all by the same time.
                let slow = |n: usize| SLOW + MS * 10 * n as u32;
                for _ in 0..40 {
                    run(rt, &all, 200, &slow);
                    assert_eq!(out(&all), [0; 0], "{count}");
                }
            });
        }
    }

    /// One sits out; when the others become as slow, its trial is no later than their reads.
    #[test]
    fn when_the_others_become_as_slow_the_one_that_sits_out_is_used_again() {
        for (count, spare, seed) in [(2, 1, 1), (6, 2, 3)] {
            Rt::simulate(seed, |rt| {
                let all = group(rt, count, spare);
                run(rt, &all, 2000, &|n| if n == 1 { SLOW } else { FAST });
                assert_eq!(out(&all), [1], "{count}");
                run(rt, &all, 25_000, &|_| SLOW);
                assert_eq!(out(&all), [0; 0], "{count}");
            });
        }
    }

    /// Nothing of any leaf comes back for seconds, and then all of it, in any order: of leaves that
    /// had something to do, and of all but one.
    #[test]
    fn when_the_machine_stands_still_none_sits_out() {
        for (count, spare, idle, seed) in
            [(2, 1, 0, 1), (2, 1, 1, 2), (6, 2, 0, 3), (6, 2, 1, 4), (6, 2, 4, 5)]
        {
            Rt::simulate(seed, |rt| {
                let all = group(rt, count, spare);
                for _ in 0..3 {
                    run(rt, &all, 500, &|_| FAST);
                    let began = rt.now();
                    all.iter().skip(idle).for_each(|pace| pace.begins(began));
                    rt.sleep(Duration::from_secs(3));
                    for pace in all.iter().skip(idle) {
                        pace.answered(began, rt.now() - began, 0);
                        rt.sleep(MS / 2);
                    }
                    run(rt, &all, 100, &|_| FAST);
                    assert_eq!(out(&all), [0; 0], "{count}, {idle} idle");
                }
            });
        }
    }

    /// No more than can be spared, however many are slow.
    #[test]
    fn no_more_sit_out_than_can_be_spared() {
        for slow in 1..6 {
            Rt::simulate(slow, |rt| {
                let all = group(rt, 6, 2);
                for _ in 0..60 {
                    run(rt, &all, 500, &|n| if (n as u64) < slow { SLOW } else { FAST });
                    assert!(out(&all).len() <= 2, "{slow}: {:?}", out(&all));
                    let are_slow = out(&all).iter().all(|n| (*n as u64) < slow);
                    assert!(are_slow, "{slow}: {:?}", out(&all));
                }
                assert!(slow > 2 || out(&all).len() as u64 == slow, "{slow}: {:?}", out(&all));
            });
        }
    }

    #[test]
    fn a_leaf_that_cannot_be_spared_is_used_however_slow() {
        Rt::simulate(1, |rt| {
            let all = group(rt, 3, 0);
            run(rt, &all, 5000, &|n| if n == 1 { SLOW } else { FAST });
            assert_eq!(out(&all), [0; 0]);
        });
    }

    #[test]
    fn what_all_siblings_are_late_with_is_no_leafs_fault() {
        Rt::simulate(1, |rt| {
            let all = group(rt, 3, 2);
            let [a, b, c] = &all[..] else { panic!() };
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
            let all = group(rt, 2, 1);
            let [pace, other] = &all[..] else { panic!() };
            let began = rt.now();
            assert!(late(rt, pace) && pace.is_avoided() && !pace.sits_out());
            pace.answered(began, rt.now() - began, 1);
            assert!(!pace.is_avoided());
            let began = rt.now();
            late(rt, pace);
            pace.came_back(began, 1);
            assert!(!pace.is_avoided());
            // One that does not come back is enough, when the other answers.
            late(rt, pace);
            reads(rt, other, 10, FAST);
            rt.sleep(LATE_LONG);
            assert!(pace.is_avoided() && pace.sits_out());
            assert!(pace.is_avoided() && pace.late_reads() < 8, "it is counted once");
        });
    }

    #[test]
    fn one_that_sits_out_and_answers_is_told_from_one_that_does_not() {
        Rt::simulate(1, |rt| {
            let all = group(rt, 3, 2);
            let [slow, busy, _] = &all[..] else { panic!() };
            reads(rt, slow, 40, MS * 100);
            reads(rt, busy, 4, MS * 100);
            assert!(slow.is_avoided() && busy.is_avoided());
            assert_eq!([slow.late_reads(), busy.late_reads()], [32, 4]);
            (0..32).for_each(|_| answer(busy, MS));
            assert!(busy.is_avoided() && busy.late_reads() == 0);
        });
    }

    #[test]
    fn few_are_read_elsewhere() {
        Rt::simulate(1, |rt| {
            let [pace, _idle] = pair(rt);
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
            let [pace, _idle] = pair(rt);
            let slow = |rt: &Rt| {
                let began = rt.now();
                late(rt, &pace);
                rt.sleep(MS);
                pace.answered(began, rt.now() - began, 1);
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
