//! Pools with devices missing, one by one and together: what redundancy reaches reads as if
//! nothing were missing, what it does not reach is refused with names, and given up only on
//! request, piece by piece.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use common::made::made;
use common::{Contents, Lab, assert_rest_is_intact, assert_same, contents};
use pool::live::VdevSpec;
use pool::{Absence, Error, OpenOptions, Pool};
use vdev::{Reason, VdevState};

/// All ways to choose `n` of the numbers.
fn choose(of: &[u32], n: usize) -> Vec<Vec<u32>> {
    let Some((first, rest)) = of.split_first() else {
        return if n == 0 { vec![Vec::new()] } else { Vec::new() };
    };
    let mut out = choose(rest, n);
    if n > 0 {
        for mut more in choose(rest, n - 1) {
            more.insert(0, *first);
            out.push(more);
        }
    }
    out
}

fn numbers(lab: &Lab) -> Vec<u32> {
    lab.images.keys().copied().collect()
}

fn lenient() -> OpenOptions {
    OpenOptions { allow_missing: true, ..OpenOptions::default() }
}

/// The error names exactly these devices, by guid and last path.
#[track_caller]
fn assert_names(error: &Error, lab: &Lab, missing: &[u32]) {
    let Error::MissingDevices { missing: named, .. } = error else { panic!("{error}") };
    let mut guids: Vec<_> = named.iter().map(|m| m.guid).collect();
    let mut expected: Vec<_> = missing.iter().map(|n| lab.guid(*n)).collect();
    guids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(guids, expected, "{error}");
    for m in missing {
        let path = Some(format!("/dev/img{m}"));
        assert!(named.iter().any(|d| d.path == path && d.absence == Absence::NotFound), "{error}");
        assert!(error.to_string().contains(&format!("/dev/img{m}")), "{error}");
    }
}

/// Every combination of missing devices of a pool that OpenZFS wrote.
fn every_combination(case: &str, parity: usize) {
    combinations(case, &Lab::corpus(case), parity);
}

/// Every combination of missing devices up to `parity`, and one more than that.
fn combinations(case: &str, lab: &Lab, parity: usize) {
    let whole = contents(&lab.open());
    assert_eq!(whole.values().filter(|v| v.is_err()).count(), 0);
    for n in 1..=parity {
        for (i, missing) in choose(&numbers(lab), n).into_iter().enumerate() {
            let pool = lab.without(&missing).open();
            assert_eq!(pool.vdevs().root().state(), VdevState::Degraded, "{case} {missing:?}");
            assert!(pool.salvage().is_empty(), "{case} {missing:?}: {:?}", pool.salvage());
            // Of the many combinations all are opened, and every third is read.
            if n == 1 || i % 3 == 0 {
                assert_same(&whole, &contents(&pool));
            }
            let tree = pool.vdevs();
            let lost = tree.leaves().filter(|l| l.reason() == Reason::CannotOpen);
            assert_eq!(lost.count(), n, "{case} {missing:?}");
        }
    }
    let mut lost = 0;
    for missing in choose(&numbers(lab), parity + 1) {
        let rest = lab.without(&missing);
        if rest.images.is_empty() {
            continue;
        }
        let Err(error) = rest.try_open(&OpenOptions::default()) else { panic!("{missing:?}") };
        assert_names(&error, lab, &missing);
        // Too little is there; whatever comes out all the same is right.
        match rest.try_open(&lenient()) {
            Ok(pool) => lost += assert_rest_is_intact(&whole, &contents(&pool)),
            Err(Error::Damaged { .. } | Error::MissingDevices { .. }) => lost += 1,
            Err(other) => panic!("{case} {missing:?}: {other}"),
        }
    }
    // A few combinations may reach all there is: the stripes of a dRAID are narrower than it.
    assert!(lost > 0 || lab.images.len() == parity + 1, "{case}");
}

/// Layouts that are made here; OpenZFS's own of them are in the tests below.
#[test]
fn pools_that_are_made_here() {
    combinations("mirror", &made(3, false, VdevSpec::Mirror), 2);
    for (nparity, disks) in [(1, 3), (2, 5), (3, 6)] {
        let raidz = |children| VdevSpec::Raidz { nparity, children };
        combinations(&format!("raidz{nparity}"), &made(disks, false, raidz), nparity as usize);
    }
    let raidz = |children| VdevSpec::Raidz { nparity: 1, children };
    combinations("expanded", &made(3, true, raidz), 1);
}

#[test]
fn mirror() {
    every_combination("mirror", 2);
}

#[test]
fn raidz1() {
    every_combination("raidz1", 1);
}

#[test]
fn raidz2() {
    every_combination("raidz2", 2);
}

#[test]
fn raidz3() {
    every_combination("raidz3", 3);
}

#[test]
fn draid() {
    every_combination("draid", 2);
}

#[test]
fn expanded_raidz() {
    every_combination("expanded", 1);
}

/// `stripe` is disk 0, mirrors 1+2 and 3+4, log 5, special 6, cache 7 and spare 8.
#[test]
fn a_pool_without_its_log_cache_and_spare_is_whole() {
    let lab = Lab::corpus("stripe");
    let whole = contents(&lab.open());
    for missing in [&[5][..], &[7], &[8], &[5, 7, 8], &[1, 4, 5, 7, 8], &[2, 3]] {
        let pool = lab.without(missing).open();
        assert_same(&whole, &contents(&pool));
    }
    let state = |missing: &[u32]| lab.without(missing).open().vdevs().root().state();
    assert_eq!(state(&[7, 8]), VdevState::Online, "cache and spare are not part of the tree");
    assert_eq!(state(&[5]), VdevState::Degraded);
    let pool = lab.open();
    assert_eq!((pool.spares().len(), pool.l2cache().len()), (1, 1));
    let aux = &pool.candidate().aux;
    assert!(aux.contains_key(&pool.spares()[0].guid) && aux.contains_key(&pool.l2cache()[0].guid));
}

#[test]
fn a_stripe_without_one_vdev_gives_up_only_what_was_there() {
    let lab = Lab::corpus("stripe");
    let whole = contents(&lab.open());
    for missing in [&[0][..], &[1, 2], &[3, 4], &[6], &[0, 1, 2], &[0, 6]] {
        let rest = lab.without(missing);
        let Err(error) = rest.try_open(&OpenOptions::default()) else { panic!("{missing:?}") };
        if missing.contains(&6) {
            // The MOS was there too, and no other label describes the vdev.
            let Error::MissingDevices { missing, .. } = &error else { panic!("{error}") };
            assert!(missing.iter().any(|m| m.top == 4 && m.guid == 0), "{error}");
        } else {
            assert_names(&error, &lab, missing);
        }
        match rest.try_open(&lenient()) {
            Ok(pool) => {
                let now = contents(&pool);
                let lost = assert_rest_is_intact(&whole, &now);
                let good = now.values().filter(|v| v.is_ok()).count();
                assert!(lost > 0 || missing == [6], "{missing:?}");
                assert!(missing.len() > 2 || good > 0, "nothing of {missing:?}");
            }
            Err(Error::Damaged { .. } | Error::MissingDevices { .. }) => {
                assert!(missing.len() > 2 || missing.contains(&6), "{missing:?}");
            }
            Err(other) => panic!("{missing:?}: {other}"),
        }
    }
}

/// `degraded-raidz` has one disk out of use since before the last writes.
#[test]
fn a_device_out_of_use_helps_when_the_rest_is_too_few() {
    let lab = Lab::corpus("degraded-raidz");
    let pool = lab.open();
    let whole = contents(&pool);
    assert_eq!(whole.values().filter(|v| v.is_err()).count(), 0);
    let tree = pool.vdevs();
    let offline = tree.leaves().find(|l| l.state() == VdevState::Offline).unwrap();
    let offline = numbers(&lab).into_iter().find(|n| lab.guid(*n) == offline.guid()).unwrap();
    assert_same(&whole, &contents(&lab.without(&[offline]).open()));
    for other in numbers(&lab).into_iter().filter(|n| *n != offline) {
        // The newest state was written without the device, so it is no help there.
        let rest = lab.without(&[other]);
        let Err(error) = rest.try_open(&OpenOptions::default()) else { panic!("two are behind") };
        let Error::MissingDevices { missing, .. } = &error else { panic!("{error}") };
        let absence = |n| missing.iter().find(|m| m.guid == lab.guid(n)).map(|m| m.absence);
        assert_eq!(absence(other), Some(Absence::NotFound), "{error}");
        assert_eq!(absence(offline), Some(Absence::OutOfUse), "{error}");
        // A state from before, it has all of.
        let txgs = pool::by_txg(&rest.candidate().uberblocks);
        let older = txgs.iter().find_map(|t| {
            let options = OpenOptions { txg: Some(t.uberblock.txg), ..OpenOptions::default() };
            let pool = rest.try_open(&options).ok()?;
            (pool::verdict(&pool) == pool::Verdict::Intact).then_some(pool)
        });
        let older = older.unwrap();
        assert!(older.uberblock().txg < pool.uberblock().txg);
        assert!(contents(&older).len() > 1);
    }
}

#[test]
fn an_outdated_device_is_asked_last_and_not_blamed() {
    let lab = Lab::corpus("degraded-raidz");
    let options = OpenOptions { use_offline: true, ..OpenOptions::default() };
    let pool = lab.try_open(&options).unwrap();
    let whole = contents(&lab.open());
    assert_same(&whole, &contents(&pool));
    let blamed: Vec<_> = pool.faults().repaired();
    let is_checksum = |f: &vdev::Fault| f.kind == vdev::FaultKind::Checksum;
    assert!(!blamed.iter().any(|r| r.faults.iter().any(is_checksum)), "{blamed:?}");
}

/// `degraded-mirror` has 40 % of the blocks of vdev1 damaged, labels spared.
#[test]
fn a_rotten_side_of_a_mirror_costs_nothing_until_it_is_alone() {
    let lab = Lab::corpus("degraded-mirror");
    let pool = lab.open();
    let whole = contents(&pool);
    assert_eq!(whole.values().filter(|v| v.is_err()).count(), 0);
    assert!(pool.faults().count() > 0, "the damage was met");
    let rotten = lab.guid(1);
    let repaired = pool.faults().repaired();
    let all = repaired.iter().flat_map(|r| &r.faults);
    assert!(all.into_iter().all(|f| f.guid == rotten), "the right device is blamed");
    assert_same(&whole, &contents(&lab.without(&[1]).open()));

    let alone = lab.without(&[0]);
    let pool: Pool = alone.open();
    let now: Contents = contents(&pool);
    let lost = assert_rest_is_intact(&whole, &now);
    assert!(lost > 0 && now.len() > lost, "{lost} of {}", now.len());
    for error in now.values().filter_map(|v| v.as_ref().err()) {
        assert!(error.contains("object"), "an error without a place: {error}");
    }
}
