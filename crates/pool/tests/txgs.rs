//! Other states than the newest: older txgs, each with a verdict, and the checkpoint.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use common::{Lab, assert_same, contents};
use pool::UnguardedDatasets as _;
use pool::{Error, OpenOptions, Verdict, judge_txgs, verdict};

fn at(txg: u64) -> OpenOptions {
    OpenOptions { txg: Some(txg), ..OpenOptions::default() }
}

#[test]
fn every_txg_there_is_opens_or_says_what_is_lost() {
    let mut partial = 0;
    let mut lost = 0;
    for case in ["checkpoint", "basic", "history", "raidz1", "version28", "features-off"] {
        let lab = Lab::corpus(case);
        let candidate = lab.candidate();
        let all = judge_txgs(&candidate, &OpenOptions::default());
        assert!(all.len() > 10, "{case}: {}", all.len());
        let newest_first = |w: &[pool::TxgCandidate]| w[0].uberblock.txg > w[1].uberblock.txg;
        assert!(all.windows(2).all(newest_first), "{case}");
        assert_eq!(all[0].verdict, Some(Verdict::Intact), "{case}");
        for t in &all {
            let ub = &t.uberblock;
            assert!(ub.timestamp > 1_700_000_000 && t.copies > 0, "{case} {}", ub.txg);
            match t.verdict.as_ref().unwrap() {
                Verdict::Intact => {
                    let pool = lab.try_open(&at(ub.txg)).unwrap();
                    assert_eq!(pool.uberblock().txg, ub.txg);
                }
                Verdict::Partial { lost, first } => {
                    partial += 1;
                    assert!(*lost > 0 && first.contains("objset"), "{case} {}: {first}", ub.txg);
                }
                Verdict::Lost(cause) => {
                    lost += 1;
                    let Err(error) = lab.try_open(&at(ub.txg)) else { panic!("{cause}") };
                    assert!(matches!(&error, Error::Damaged { txg, .. } if *txg == ub.txg));
                    let has_place = ["objset 0", "of the MOS"].iter().any(|p| cause.contains(p));
                    assert!(has_place, "an error without a place: {cause}");
                }
            }
        }
    }
    // The oldest states of these pools have been written over, as is right.
    assert!(partial > 0 && lost > 0);
}

#[test]
fn a_txg_that_is_not_there_is_refused_with_those_that_are() {
    let lab = Lab::corpus("casefold");
    let Err(error) = lab.try_open(&at(1)) else { panic!("opened") };
    let Error::NoUberblock { txg: Some(1), available, .. } = &error else { panic!("{error}") };
    let newest = lab.open().uberblock().txg;
    assert!(available.len() > 10 && available[0] == newest, "{error}");
}

#[test]
fn a_verdict_counts_what_is_lost() {
    let lab = Lab::corpus("crypt");
    let pool = lab.open();
    assert_eq!(verdict(&pool), Verdict::Intact, "locked datasets are judged as well");
    let dsl = pool.dsl();
    let (_, dir) = dsl.walk().into_iter().next_back().unwrap();
    let head = dsl.head(&dir.unwrap()).unwrap().unwrap();
    let mut damaged = lab.clone();
    damaged.destroy(&head.phys.bp);
    let Verdict::Partial { lost: 1, first } = verdict(&damaged.open()) else { panic!() };
    assert!(first.contains(&head.name) && first.contains(&format!("objset {}", head.object)));
}

#[test]
fn the_checkpoint_shows_the_pool_as_it_was() {
    let lab = Lab::corpus("checkpoint");
    let now = lab.open();
    let options = OpenOptions { checkpoint: true, ..OpenOptions::default() };
    let then = lab.try_open(&options).unwrap();
    assert!(then.uberblock().txg < now.uberblock().txg);
    assert!(then.salvage().is_empty(), "{:?}", then.salvage());
    assert_eq!(verdict(&then), Verdict::Intact);
    let (before, after) = (contents(&then), contents(&now));
    assert!(before.values().all(Result::is_ok) && after.values().all(Result::is_ok));
    let gone: Vec<_> = before.keys().filter(|k| !after.contains_key(*k)).collect();
    let new: Vec<_> = after.keys().filter(|k| !before.contains_key(*k)).collect();
    let same = before.iter().filter(|(k, v)| after.get(*k) == Some(v)).count();
    assert!(!gone.is_empty(), "what was destroyed since is there");
    assert!(!new.is_empty() && same > 0, "what was made since is not");
    // The txg just before the checkpoint was taken, still in the ring, says the same.
    let same_txg = then.uberblock().txg;
    if let Ok(pool) = lab.try_open(&at(same_txg)) {
        assert_same(&before, &contents(&pool));
    }
    let other = Lab::corpus("casefold");
    assert!(matches!(other.try_open(&options), Err(Error::NoCheckpoint { .. })));
}
