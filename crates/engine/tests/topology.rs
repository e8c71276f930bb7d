//! Leaves that fail while a pool is open, are away when it is opened, and come back: the pool goes
//! on as far as its redundancy reaches, and says what each leaf missed.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod random;

use engine::inside::device::{ErrorKind, Fault};
use engine::inside::ondisk::config::VdevConfig;
use engine::inside::vdev::{Reason, VdevState};
use engine::inside::{check, rt};
use engine::{LivePool, Pool};
use random::bench::Shape;
use random::{Bench, Run};

const DEVICE_BYTES: u64 = 64 << 20;
const EIO: ErrorKind = ErrorKind::Io { errno: 5 };
const REDUNDANT: [Shape; 4] = [Shape::Mirror, Shape::Raidz1, Shape::Raidz2, Shape::Raidz3];

fn run(seed: u64, shape: Shape, ops: u64) -> Run {
    let mut run = Run::new(seed, Bench::new(shape, DEVICE_BYTES, 12).breakable());
    run.weight_max = 1 << 20;
    run.offset_max = 8 << 20;
    (0..ops).for_each(|_| run.step());
    run
}

fn state(pool: &LivePool, leaf: usize) -> VdevState {
    pool.view().vdevs().leaves().nth(leaf).unwrap().state()
}

/// Nothing is wrong with the devices but what is to be expected of leaves that were away.
fn whole(bench: &Bench, case: &str) {
    let view = bench.open();
    assert!(view.salvage().is_empty(), "{case}: {:?}", view.salvage());
    let options = check::CheckOptions { workers: 1, ..check::CheckOptions::default() };
    let report = check::run(&view, &options, &rt::Progress::new());
    let is_expected = |issue: &&check::Issue| match issue {
        check::Issue::DeviceDamaged(damage) => damage.is_expected(),
        // A leaf that failed between its labels has an old one.
        check::Issue::DeviceAbsent { .. } | check::Issue::Label { .. } => true,
        _ => false,
    };
    let others: Vec<_> = report.issues.iter().filter(|i| !is_expected(i)).collect();
    assert!(others.is_empty(), "{case}: {others:?}");
}

/// The pool of a run that was exported has all that the model has, and OpenZFS finds it whole.
fn holds(bench: &Bench, model: &random::Model) {
    whole(bench, &format!("{:?}", bench.shape));
    Run::compare(bench, model).unwrap();
    bench.zdb();
}

fn leaf(pool: &Pool, n: usize) -> &VdevConfig {
    pool.config().vdev_tree.walk().filter(|v| v.kind.is_leaf()).nth(n).unwrap()
}

#[test]
fn a_leaf_that_fails_is_gone_without_and_what_it_missed_is_written_down() {
    for (seed, shape) in (1..).zip(REDUNDANT) {
        let mut run = run(seed, shape, 60);
        run.pool().sync().unwrap();
        let before = run.pool().last_synced();
        let lost = run.bench.redundancy();
        for device in &run.bench.faults[..lost] {
            device.add(Fault::fail_writes(0..u64::MAX, EIO));
        }
        (0..60).for_each(|_| run.step());
        run.pool().sync().unwrap();
        for n in 0..run.bench.devices.len() {
            let want = if n < lost { VdevState::Faulted } else { VdevState::Online };
            assert_eq!(state(run.pool(), n), want, "{shape:?}");
        }
        assert_eq!(run.pool().view().vdevs().root().state(), VdevState::Degraded);
        let (mut bench, model) = run.finish();
        holds(&bench, &model);
        let view = bench.open();
        for n in 0..bench.devices.len() {
            let config = leaf(&view, n);
            let missed = view.vdevs().leaves().nth(n).unwrap().missed();
            if n < lost {
                let (first, last) = missed.bounds().unwrap();
                assert!(first > before && last == view.uberblock().txg, "{missed:?}");
                assert!(config.faulted && config.dtl.is_some());
            } else {
                assert!(missed.is_empty() && !config.faulted && config.dtl.is_none());
            }
        }
        // Without the leaves nothing is missing.
        bench.away = (0..lost).collect();
        whole(&bench, "without");
        Run::compare(&bench, &model).unwrap();
    }
}

/// What can happen to a leaf, after so many requests of its kind passed.
fn kinds(after: u64) -> [(&'static str, Vec<Fault>); 5] {
    let all = 0..u64::MAX;
    let gone = ErrorKind::Gone;
    [
        ("writes fail", vec![Fault::fail_writes(all.clone(), EIO).after(after)]),
        ("one write fails", vec![Fault::fail_writes(all.clone(), EIO).after(after).times(1)]),
        ("flushes fail", vec![Fault::fail_flushes(EIO).after(after / 8)]),
        ("one flush fails", vec![Fault::fail_flushes(EIO).after(after / 8).times(1)]),
        (
            "it is pulled out",
            vec![
                Fault::fail_writes(all.clone(), gone).after(after),
                Fault::fail_flushes(gone).after(after / 8),
                Fault::fail(all, gone).after(after),
            ],
        ),
    ]
}

/// A leaf fails at every write of a run, data, labels and uberblocks: the pool goes on, and the
/// others have everything. With the failed leaf back everything is readable as well, because it is
/// known what it missed.
#[test]
fn a_leaf_may_fail_at_any_write() {
    let step = std::env::var("ZINC_STEP").map_or(23, |n| n.parse().unwrap());
    for (seed, shape) in (100..).zip([Shape::Mirror, Shape::Raidz1]) {
        for after in (0..160).step_by(step) {
            for (what, faults) in kinds(after) {
                let mut run = run(seed, shape, 10);
                run.pool().sync().unwrap();
                let before = run.pool().last_synced();
                faults.into_iter().for_each(|f| run.bench.faults[1].add(f));
                for _ in 0..4 {
                    (0..8).for_each(|_| run.step());
                    run.pool().sync().unwrap_or_else(|e| panic!("{shape:?} {what} {after}: {e}"));
                }
                let (mut bench, model) = run.finish();
                let case = format!("{shape:?}, {what} after {after}");
                let view = bench.open();
                let missed = view.vdevs().leaves().nth(1).unwrap().missed();
                assert!(missed.bounds().is_none_or(|(first, _)| first > before), "{case}");
                drop(view);
                for away in [vec![], vec![0], vec![1]] {
                    // The other side alone has all, unless the leaf missed something.
                    if away == [0] && !missed.is_empty() {
                        continue;
                    }
                    bench.away = away;
                    let view = bench.open();
                    assert!(view.salvage().is_empty(), "{case}: {:?}", view.salvage());
                    Run::compare(&bench, &model).unwrap_or_else(|e| panic!("{case}: {e}"));
                }
                bench.away.clear();
                whole(&bench, &case);
            }
        }
    }
}

/// Leaves that are away when the pool is opened, and come back.
#[test]
fn a_pool_is_opened_for_writing_without_leaves_and_knows_them_when_they_are_back() {
    for (seed, shape) in (200..).zip(REDUNDANT) {
        let mut run = run(seed, shape, 30);
        let lost = run.bench.redundancy();
        run.without((0..lost).collect());
        assert_eq!(run.pool().view().vdevs().root().state(), VdevState::Degraded);
        (0..30).for_each(|_| run.step());
        let (mut bench, model) = run.finish();
        let view = bench.open();
        assert!((0..lost).all(|n| leaf(&view, n).not_present && leaf(&view, n).dtl.is_some()));
        drop(view);
        whole(&bench, "away");
        Run::compare(&bench, &model).unwrap();
        bench.away.clear();
        let view = bench.open();
        for n in 0..lost {
            let back = view.vdevs().leaves().nth(n).unwrap();
            assert!(matches!(back.reason(), Reason::Behind(_)), "{shape:?}: {}", back.reason());
            assert!(!back.missed().is_empty());
        }
        drop(view);
        // It is there, and still not written to.
        let pool = bench.import();
        assert_eq!(state(&pool, 0), VdevState::Unavail);
        pool.destroy().unwrap();
    }
}

#[test]
fn beyond_the_redundancy_the_pool_stops_and_keeps_what_was_durable() {
    for (seed, shape) in (300..).zip([Shape::Disk, Shape::Mirror, Shape::Raidz2]) {
        let run = run(seed, shape, 20);
        run.pool().sync().unwrap();
        let model = run.model.clone();
        let lost = run.bench.redundancy() + 1;
        for device in &run.bench.faults[..lost] {
            device.add(Fault::fail_writes(0..u64::MAX, EIO));
        }
        run.pool()
            .set_pool_property("comment", engine::live::PropertyWord::Text("x".into()))
            .unwrap_err();
        let bench = run.abandon();
        Run::compare(&bench, &model).unwrap();
    }
}
