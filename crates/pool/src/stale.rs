//! Devices that were away while the pool was written, and are back with an older state of it.
//!
//! # Theory
//!
//! A txg ends with a round: labels (when the configuration changed) and then the uberblock are
//! written to all devices of a top-level vdev. Not every top-level vdev has a part in every round,
//! so only devices of one top-level vdev can be compared. A round that one of them has in its ring
//! and another has not, the other missed.
//!
//! A crash can end a round half way. That is no sign of absence: the data of its txg was on all
//! devices before. So one round that is missing proves nothing by itself, a crash in the next round
//! may add another one, and crashes may leave each device with a round that the other lacks. An
//! absence costs a resilver, so what could be a crash is taken for one. Signs of absence are
//!
//! - three rounds in a row that a device has no part of, or
//! - two, when no label of it was written between them: all devices had the first before the second
//!   began, unless the pool was opened again, and then labels are written before the first
//!   uberblock, or
//! - fewer, when its labels are older than those of the others: labels of a txg are on all
//!   devices before the first uberblock of that txg is written, or
//! - one, when the pool goes back to a state before its newest: later rounds were begun when all
//!   devices had that one, or
//! - rounds of its own after the last one in common: it was written while the others were absent. A
//!   txg that two devices ended with different rounds proves that at once: a crash leaves a round
//!   on one of them, but never another one on the other.
//!
//! The remaining case is a device that stood still before the last round of all, like an image that
//! was restored: that cannot be distinguished from a crash, and what it lacks is found when it is
//! read, or by a scrub.
//!
//! The measure is a device that holds the uberblock the pool is opened with, since its blocks are
//! the ones that are read: sides that were written each without the other may end with the same
//! txg at the same second, and then nothing else tells whose state it is.

use crate::uberblocks::{self, FoundUberblock};
use ondisk::BlkPtr;
use ondisk::config::VdevConfig;
use std::collections::BTreeMap;
use vdev::Txgs;

/// Rounds that a device has no part of, from which on it was away for them. Crashes in two rounds
/// in a row leave two.
const AWAY: usize = 3;

/// The same, when no label of it was written in between.
const AWAY_IN_ONE_SESSION: usize = 2;

/// Rounds, missed and its own, from which on a device had a history of its own. Crashes in three
/// rounds in a row leave three.
const OWN_HISTORY: usize = 4;

/// Rounds of its own from which on a device holds changes that the others lack. One may be what a
/// crash left.
const OWN_CHANGES: usize = 2;

/// Identifies the uberblock of a round among others with the same txg.
type Round = (u64, BlkPtr);

/// The rounds that a device had a part in.
struct LeafHistory {
    guid: u64,
    rounds: BTreeMap<u64, Round>,
    /// Txg of its newest label.
    label: u64,
}

impl LeafHistory {
    /// Txg and time of its newest round.
    fn newest(&self) -> Option<(u64, u64)> {
        self.rounds.last_key_value().map(|(txg, (time, _))| (*txg, *time))
    }

    /// How many txgs it is behind `best`, when it missed some.
    #[cfg(test)]
    fn behind(&self, best: &Self) -> Option<u64> {
        self.away(best, false).map(|away| away.txgs)
    }

    /// How it was away while `best` was there, when it was; whether what is compared is the past:
    /// states before the newest one.
    fn away(&self, best: &Self, is_past: bool) -> Option<MissedWrites> {
        let has = |of: &Self, txg: &u64, round: &Round| of.rounds.get(txg) == Some(round);
        let mut newest_first = self.rounds.iter().rev();
        let common = newest_first.find(|(txg, round)| has(best, txg, round)).map_or(0, |(t, _)| *t);
        let (last, _) = best.newest()?;
        let clash = |(txg, round): (&u64, &Round)| best.rounds.get(txg).is_some_and(|r| r != round);
        let clashes = self.rounds.range(common + 1..).any(clash);
        let missed = best.rounds.range(common + 1..).count();
        let before_last = best.rounds.range(common + 1..).rev().nth(1).map(|(txg, _)| *txg);
        let is_one_session = before_last.is_some_and(|txg| self.label <= txg);
        let most = match (is_past, is_one_session) {
            (true, _) => 1,
            (false, true) => AWAY_IN_ONE_SESSION,
            (false, false) => AWAY,
        };
        // Rounds older than the whole ring of the other were overwritten there.
        let oldest = best.rounds.first_key_value().map_or(0, |(txg, _)| *txg);
        let own = self.rounds.range(oldest.max(common + 1)..).count();
        let label_missed = self.label < best.label && (common + 1..=last).contains(&best.label);
        let was_away = match (missed, own) {
            (0, _) => false,
            // A ring with nothing in it was lost, or is new; labels are all that is known of it.
            _ if self.rounds.is_empty() => label_missed,
            (_, 0) => label_missed || missed >= most,
            _ if clashes => true,
            _ => missed + own >= OWN_HISTORY,
        };
        let since = match common {
            0 => self.newest().map_or(self.label, |(txg, _)| txg),
            _ => common,
        };
        let txgs = last.saturating_sub(since).max(1);
        was_away.then_some(MissedWrites {
            txgs,
            last,
            newest: self.newest().map(|(txg, _)| txg),
            has_own: own > 0,
            has_common: common > 0,
            has_changes: own >= OWN_CHANGES,
        })
    }
}

/// The writes that a device missed.
pub(crate) struct MissedWrites {
    /// Txgs it is behind.
    pub(crate) txgs: u64,
    /// The newest one of the others.
    last: u64,
    /// Txg of its own last round.
    newest: Option<u64>,
    /// It was written without the others: what it gave up meanwhile may have been written over,
    /// whatever its age.
    has_own: bool,
    /// It has a round in common with the others.
    has_common: bool,
    /// It holds changes that the others lack: to bring it up to date would be to lose them.
    pub(crate) has_changes: bool,
}

impl MissedWrites {
    /// Births of blocks that it may not have; `log` is what the pool has written down of that. A
    /// device that came after this one had left has no round in common with it, and neither has one
    /// that has written over its whole ring since. When the log begins behind the last round of
    /// this one, it has stood still all the same.
    pub(crate) fn missed(&self, log: Option<&Txgs>) -> Txgs {
        let begins = log.and_then(Txgs::bounds).map(|(first, _)| first);
        let is_logged = || self.newest.is_some_and(|last| begins.is_some_and(|first| last < first));
        let has_stood_still = !self.has_own && (self.has_common || is_logged());
        let first = if has_stood_still { self.last - self.txgs.min(self.last) + 1 } else { 1 };
        std::iter::once(first..=self.last).collect()
    }
}

/// It was written at the end of a txg, and not in between, as multihost does.
fn is_of_a_round(found: &FoundUberblock, ashift: u64) -> bool {
    vdev::label::slot(&found.uberblock, ashift as u32) == found.slot
}

/// Devices of `tree` that missed a part of what the state of txg `txg` is made of, by guid.
/// `label_of` has the txg of the newest label of each device that was found.
pub(crate) fn away(
    tree: &VdevConfig,
    txg: u64,
    uberblocks: &[FoundUberblock],
    label_of: &dyn Fn(u64) -> Option<u64>,
) -> BTreeMap<u64, MissedWrites> {
    let mut out = BTreeMap::new();
    let states = uberblocks::by_txg(uberblocks);
    let opened = states.iter().map(|s| s.uberblock).find(|u| u.txg <= txg);
    let opened = opened.map(|u| (u.txg, (u.timestamp, u.rootbp)));
    let newest = states.first().map(|s| s.uberblock.txg);
    let is_past = opened.is_some_and(|(opened, _)| newest.is_some_and(|txg| opened < txg));
    for top in &tree.children {
        let leaves = top.walk().filter(|v| v.kind.is_leaf());
        let seen = leaves.filter_map(|v| Some((v.guid, label_of(v.guid)?)));
        let mut all: Vec<LeafHistory> = seen
            .map(|(guid, label)| LeafHistory { guid, rounds: BTreeMap::new(), label })
            .collect();
        if all.len() < 2 {
            continue;
        }
        let ashift = top.ashift.unwrap_or(9);
        // A device that was just attached has a ring of txg 0.
        for found in uberblocks.iter().filter(|f| (1..=txg).contains(&f.uberblock.txg)) {
            let history = all.iter_mut().find(|w| w.guid == found.leaf);
            if let Some(w) = history.filter(|_| is_of_a_round(found, ashift)) {
                let u = &found.uberblock;
                let round = w.rounds.entry(u.txg).or_insert((u.timestamp, u.rootbp));
                // Labels of one device differ when a round was repeated and ended half way.
                if u.timestamp > round.0 {
                    *round = (u.timestamp, u.rootbp);
                }
            }
        }
        let holds_it = |w: &LeafHistory| opened.is_some_and(|(t, r)| w.rounds.get(&t) == Some(&r));
        let rank = |w: &&LeafHistory| (holds_it(w), w.newest(), w.rounds.len());
        let Some(best) = all.iter().max_by_key(rank) else { continue };
        out.extend(all.iter().filter_map(|w| Some((w.guid, w.away(best, is_past)?))));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(label: u64, txgs: &[u64]) -> LeafHistory {
        let rounds = txgs.iter().map(|txg| (*txg, (1, BlkPtr::default()))).collect();
        LeafHistory { guid: 1, rounds, label }
    }

    /// The same, with a history of its own from `since` on.
    fn alone(label: u64, txgs: &[u64], since: u64) -> LeafHistory {
        let mut w = of(label, txgs);
        w.rounds.range_mut(since..).for_each(|(_, round)| round.0 = 2);
        w
    }

    #[test]
    fn a_round_that_a_crash_ended_half_way_is_no_absence() {
        let best = of(3, &[4, 5, 6]);
        assert_eq!(of(3, &[4, 5, 6]).behind(&best), None);
        assert_eq!(of(3, &[4, 5]).behind(&best), None);
        // It began with new labels, or they were the last that was written to the other.
        assert_eq!(of(6, &[4, 5]).behind(&of(6, &[4, 5, 6])), None);
        assert_eq!(of(3, &[4, 5]).behind(&of(6, &[4, 5])), None);
        // Not every round has a place on every top-level vdev.
        assert_eq!(of(3, &[5]).behind(&of(3, &[5, 20])), None);
        // Two crashes, each of which left the newest state on another side.
        assert_eq!(of(3, &[4, 5, 6]).behind(&of(3, &[4, 5, 7])), None);
        assert_eq!(of(3, &[4, 5, 7]).behind(&of(3, &[4, 5, 6, 8])), None);
        // Two crashes, and both left it on the same side: the pool was opened in between.
        assert_eq!(of(7, &[4, 5]).behind(&of(7, &[4, 5, 6, 7])), None);
        assert_eq!(of(7, &[4, 5]).behind(&of(7, &[4, 5, 6, 9])), None);
    }

    #[test]
    fn three_rounds_or_one_and_a_label_are_an_absence() {
        assert_eq!(of(3, &[4, 5]).behind(&of(3, &[4, 5, 6, 7, 8])), Some(3));
        assert_eq!(of(7, &[4, 5]).behind(&of(7, &[4, 5, 6, 7, 8])), Some(3));
        assert_eq!(of(3, &[4, 5]).behind(&of(3, &[400, 450, 500])), Some(495));
        assert_eq!(of(3, &[4, 5]).behind(&of(6, &[4, 5, 6])), Some(1));
        assert_eq!(of(3, &[4, 5]).behind(&of(6, &[4, 5, 6, 7])), Some(2));
    }

    /// Without a label in between all had the first before the second began.
    #[test]
    fn two_rounds_of_one_session_are_an_absence() {
        assert_eq!(of(3, &[4, 5]).behind(&of(3, &[4, 5, 6, 7])), Some(2));
        assert_eq!(of(6, &[4, 5]).behind(&of(6, &[4, 5, 6, 7])), Some(2));
    }

    #[test]
    fn one_round_before_the_newest_is_an_absence() {
        let away = |is_past| of(3, &[4, 5]).away(&of(9, &[4, 5, 6]), is_past).map(|a| a.txgs);
        assert_eq!((away(false), away(true)), (None, Some(1)));
    }

    #[test]
    fn a_ring_with_nothing_in_it_says_nothing() {
        assert_eq!(of(5, &[]).behind(&of(5, &[4, 5, 6])), None);
        assert_eq!(of(3, &[]).behind(&of(5, &[4, 5, 6])), Some(3));
        assert_eq!(of(3, &[]).behind(&of(5, &[])), None);
    }

    #[test]
    fn sides_that_were_written_each_without_the_other_do_not_mix() {
        let best = of(6, &[4, 5, 6, 7, 8]);
        assert_eq!(alone(6, &[4, 5, 6, 7], 6).behind(&best), Some(3));
        assert_eq!(alone(6, &[4, 5, 6, 7, 8], 6).behind(&best), Some(3));
        let missed = |w: &LeafHistory| w.away(&best, false).unwrap().missed(None).bounds();
        assert_eq!(missed(&alone(6, &[4, 5, 6, 7], 6)), Some((1, 8)));
        assert_eq!(missed(&of(3, &[4, 5])), Some((6, 8)), "it only stood still");
    }

    /// The other came when it had left: only the log of the pool tells that it was there before.
    #[test]
    fn one_without_a_round_in_common_has_stood_still_when_its_log_says_so() {
        let best = of(20, &[20, 21, 22]);
        let missed = |w: &LeafHistory, from: u64| {
            let log: Txgs = std::iter::once(from..=22).collect();
            w.away(&best, false).unwrap().missed(Some(&log)).bounds()
        };
        let left = of(9, &[8, 9, 10]);
        assert_eq!(left.away(&best, false).unwrap().missed(None).bounds(), Some((1, 22)));
        assert_eq!(missed(&left, 11), Some((11, 22)));
        assert_eq!(missed(&left, 13), Some((11, 22)), "an older state of it");
        assert_eq!(missed(&left, 10), Some((1, 22)), "it has a round that it has missed");
        let alone = alone(21, &[8, 9, 10, 20, 21], 20);
        assert_eq!(missed(&alone, 11), Some((1, 22)), "it was written without the others");
    }

    #[test]
    fn two_rounds_of_one_txg_are_an_absence_at_once() {
        let best = of(3, &[4, 5, 6]);
        let away = |w: &LeafHistory| w.away(&best, false).map(|away| away.has_changes);
        assert_eq!(away(&alone(3, &[4, 5, 6], 6)), Some(false));
        assert_eq!(away(&alone(3, &[4, 5, 6], 5)), Some(true));
        assert_eq!(away(&of(3, &[4, 5])), None);
        assert_eq!(
            of(3, &[4]).away(&of(3, &[4, 5, 6, 7]), false).map(|a| a.has_changes),
            Some(false)
        );
    }
}
