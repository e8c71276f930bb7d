//! Leaves that fail while a pool is open, are away when it is opened, and come back: the pool goes
//! on as far as its redundancy reaches, and says what each leaf missed.
//!
//! Each test is a scenario with random steps ([`testkit::scenario`]), which is made shorter when it
//! fails, or tries all points at which something may be cut off ([`prepared`]).
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "topology/add.rs"]
mod add;
#[path = "topology/checkpoint.rs"]
mod checkpoint;
#[path = "topology/clones.rs"]
mod clones;
#[path = "topology/deferred.rs"]
mod deferred;
#[path = "topology/draid.rs"]
mod draid;
#[path = "topology/error_scrubs.rs"]
mod error_scrubs;
#[path = "topology/evacuate.rs"]
mod evacuate;
#[path = "topology/expand.rs"]
mod expand;
#[path = "topology/gate.rs"]
mod gate;
#[path = "topology/half_written.rs"]
mod half_written;
#[path = "topology/locked_logs.rs"]
mod locked_logs;
#[path = "topology/promises.rs"]
mod promises;
mod random;
#[path = "topology/rebuild.rs"]
mod rebuild;
#[path = "topology/reflow.rs"]
mod reflow;
#[path = "topology/remove.rs"]
mod remove;
#[path = "topology/replace.rs"]
mod replace;
#[path = "topology/retry.rs"]
mod retry;
#[path = "topology/scrubs.rs"]
mod scrubs;
#[path = "topology/sharing.rs"]
mod sharing;
#[path = "topology/spares.rs"]
mod spares;
#[path = "topology/split.rs"]
mod split;
#[path = "topology/suspended.rs"]
mod suspended;
#[path = "topology/thresholds.rs"]
mod thresholds;
#[path = "topology/works.rs"]
mod works;

use engine::inside::device::{ErrorKind, Fault, MemoryDevice, RwFaultDevice, WriteDevice};
use engine::inside::ondisk::config::VdevConfig;
use engine::inside::ondisk::scan::{Function, State};
use engine::inside::vdev::{Reason, VdevState};
use engine::inside::{check, rt};
use engine::live::{OfflineMode, OwnChanges};
use engine::{LivePool, Pool};
use poolkit::Shape;
use random::{Bench, Run};
use std::sync::Arc;
use testkit::{RandomSteps, Rng, scenario, scenarios};

const DEVICE_BYTES: u64 = 64 << 20;
const EIO: ErrorKind = ErrorKind::Io { errno: 5 };
const REDUNDANT: [Shape; 6] =
    [Shape::Mirror, Shape::Raidz1, Shape::Raidz2, Shape::Raidz3, Shape::Draid1, Shape::Draid2];

fn run(steps: &RandomSteps, shape: Shape, ops: u64) -> Run {
    run_with(steps, shape, ops, |_| {})
}

fn run_with(steps: &RandomSteps, shape: Shape, ops: u64, change: impl FnOnce(&mut Run)) -> Run {
    let bench = Bench::new(shape, DEVICE_BYTES, 12).breakable();
    let mut run = Run::new(steps.seed(), bench).following(steps);
    run.weight_max = 1 << 20;
    run.offset_max = 8 << 20;
    change(&mut run);
    (0..ops).for_each(|_| run.step());
    run
}

/// A pool whose changes are cut off at one point after another ([`cuts`]). What is tried is the
/// points, and a failure names one: such a test is not made shorter, and its pool is always this.
fn prepared(seed: u64, shape: Shape, ops: u64) -> Run {
    run(&RandomSteps::new(seed), shape, ops)
}

/// Waits until nothing of a discarded checkpoint is left.
fn wait_for_discard(pool: &LivePool) -> engine::Result<()> {
    engine::activity::wait_for_discard(pool, &engine::Progress::new())
}

/// Numbers of writes after which something is cut off: none, and then one in this many, others each
/// day.
fn cuts(usual: usize) -> impl Iterator<Item = u64> {
    std::iter::once(0).chain(testkit::today(usual, 1..))
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
        // A leaf that failed between its labels has old ones.
        check::Issue::DeviceAbsent { .. }
        | check::Issue::Label { .. }
        | check::Issue::LabelRound { .. } => true,
        _ => false,
    };
    let others: Vec<_> = report.issues.iter().filter(|i| !is_expected(i)).collect();
    assert!(others.is_empty(), "{case}: {others:?}");
}

/// An exported pool has all that the model has, and nothing is wrong but what is to be expected.
fn holds_model(bench: &Bench, model: &random::Model, case: &str) {
    whole(bench, case);
    Run::compare(bench, model).unwrap_or_else(|e| panic!("{case}: {e}"));
}

/// The same, and OpenZFS finds it whole.
fn holds(bench: &Bench, model: &random::Model) {
    holds_model(bench, model, &format!("{:?}", bench.shape));
    bench.zdb();
}

/// The allocator met nothing that cannot be.
fn no_problems(pool: &LivePool) {
    let problems = pool.allocator_problems();
    assert!(problems.is_empty(), "{problems:?}");
}

fn leaf(pool: &Pool, n: usize) -> &VdevConfig {
    pool.config().vdev_tree.walk().filter(|v| v.kind.is_leaf()).nth(n).unwrap()
}

/// No leaf missed anything.
fn is_whole(pool: &LivePool) -> bool {
    pool.view().vdevs().leaves().all(|l| l.missed().is_empty())
}

/// Whether there is a vdev of this kind.
fn has(pool: &LivePool, kind: &str) -> bool {
    pool.look().unwrap().config().vdev_tree.walk().any(|v| v.kind.name() == kind)
}

fn guid(pool: &LivePool, n: usize) -> u64 {
    pool.view().vdevs().leaves().nth(n).unwrap().guid()
}

fn online_leaf(pool: &LivePool, bench: &Bench, n: usize) {
    pool.online_leaf(guid(pool, n), OwnChanges::GiveUp, None, &bench.source()).unwrap();
}

/// Groups of leaves that are away, as many as may be lost, and so few that each leaf is once among
/// those that have to do: two where they need have none in common, others each day. `ZINC_STEP=1`
/// takes one from each leaf on.
fn groups_away(leaves: &[usize], lost: usize) -> Vec<Vec<usize>> {
    let from = |first: usize| (first..first + lost).map(|n| leaves[n % leaves.len()]).collect();
    if lost == 0 {
        return Vec::new();
    }
    if testkit::parts(2) == 1 {
        return (0..leaves.len()).map(from).collect();
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let are_all_away =
        |leaf: &usize, groups: &[Vec<usize>]| groups.iter().all(|g| g.contains(leaf));
    while leaves.iter().any(|leaf| are_all_away(leaf, &groups)) && groups.len() < leaves.len() {
        groups.push(from(testkit::day() + groups.len() * lost));
    }
    groups
}

/// An exported pool has everything on every leaf: whichever are away, the others do.
fn holds_on_each(mut bench: Bench, model: &random::Model) {
    let case = format!("{:?}", bench.shape);
    bench.check(&bench.open()).unwrap();
    Run::compare(&bench, model).unwrap_or_else(|e| panic!("{case}: {e}"));
    bench.zdb();
    let (all, lost) = ((0..bench.devices.len()).collect::<Vec<_>>(), bench.redundancy());
    for away in groups_away(&all, lost) {
        bench.away = away;
        holds_model(&bench, model, "without some");
    }
}

#[test]
fn a_leaf_that_fails_is_gone_without_and_what_it_missed_is_written_down() {
    scenarios((1..).zip(REDUNDANT), |steps, shape| {
        let mut run = run(steps, shape, 60);
        run.pool().sync().unwrap();
        let before = run.pool().last_synced();
        let lost = run.bench.redundancy();
        for device in &run.bench.faults[..lost] {
            device.add(Fault::fail_writes(0..u64::MAX, EIO));
        }
        // A block of an intent log that is written now is as old as its place.
        run.has_promises = false;
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
                assert_eq!(last, view.uberblock().txg, "{shape:?}: {missed:?}");
                assert!(first > before, "{shape:?}: {missed:?}");
                assert!(config.faulted && config.dtl.is_some());
            } else {
                assert!(missed.is_empty() && !config.faulted && config.dtl.is_none());
            }
        }
        // Without the leaves nothing is missing.
        bench.away = (0..lost).collect();
        holds_model(&bench, &model, "without");
    });
}

/// What can happen to a leaf, after this many requests of its kind passed.
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
    let shapes = (100..).zip([Shape::Mirror, Shape::Raidz1]);
    let at = |(seed, shape)| testkit::today(47, 0..160).map(move |after| (seed, shape, after));
    let cases = shapes.flat_map(at).flat_map(|(seed, shape, after)| {
        kinds(after).map(|(what, faults)| (seed, (shape, after, what, faults)))
    });
    scenarios(cases, |steps, (shape, after, what, faults)| {
        let mut run = run(steps, shape, 10);
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
    });
}

/// Leaves that are away when the pool is opened, and come back.
#[test]
fn a_pool_is_opened_for_writing_without_leaves_and_knows_them_when_they_are_back() {
    scenarios((200..).zip(REDUNDANT), |steps, shape| {
        let mut run = run(steps, shape, 30);
        let lost = run.bench.redundancy();
        run.without((0..lost).collect());
        assert_eq!(run.pool().view().vdevs().root().state(), VdevState::Degraded);
        (0..30).for_each(|_| run.step());
        let (mut bench, model) = run.finish();
        let view = bench.open();
        assert!((0..lost).all(|n| leaf(&view, n).not_present && leaf(&view, n).dtl.is_some()));
        drop(view);
        holds_model(&bench, &model, "away");
        bench.away.clear();
        let view = bench.open();
        for n in 0..lost {
            let tree = view.vdevs();
            let back = tree.leaves().nth(n).unwrap();
            assert!(matches!(back.reason(), Reason::Behind(_)), "{shape:?}: {}", back.reason());
            assert!(!back.missed().is_empty());
        }
        drop(view);
        // It is written to again, and is brought what it missed.
        let pool = bench.import();
        assert_eq!(state(&pool, 0), VdevState::Online);
        pool.wait_for_scan().unwrap();
        assert!(is_whole(&pool));
        pool.destroy().unwrap();
    });
}

#[test]
fn beyond_the_redundancy_the_pool_stops_and_keeps_what_was_durable() {
    scenarios((300..).zip([Shape::Disk, Shape::Mirror, Shape::Raidz2]), |steps, shape| {
        let run = run(steps, shape, 20);
        run.pool().sync().unwrap();
        let model = run.model.clone();
        let lost = run.bench.redundancy() + 1;
        for device in &run.bench.faults[..lost] {
            device.add(Fault::fail_writes(0..u64::MAX, EIO));
        }
        run.pool()
            .set_pool_property("comment", engine::live::StoredPropertyValue::Text("x".into()))
            .unwrap_err();
        let bench = run.abandon();
        Run::compare(&bench, &model).unwrap();
    });
}

#[test]
fn leaves_that_were_away_are_brought_what_they_missed() {
    scenarios((400..).zip(REDUNDANT), |steps, shape| {
        let mut run = run(steps, shape, 30);
        let lost = run.bench.redundancy();
        run.without((0..lost).collect());
        (0..60).for_each(|_| run.step());
        run.without(Vec::new());
        // The pool is worked with meanwhile.
        (0..30).for_each(|_| run.step());
        run.pool().wait_for_scan().unwrap();
        assert!(is_whole(run.pool()), "{shape:?}");
        let done = run.pool().view().scan_state().unwrap().unwrap();
        assert_eq!((done.state(), done.errors), (State::Finished, 0));
        // What a resilver brought that an export among the steps cut short is not counted.
        assert!(done.examined > 0, "{shape:?}: {done:?}");
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// The others have written over all uberblocks by then that it had in common with them: that it
/// stood still is known from its log.
#[test]
fn a_leaf_that_was_away_for_longer_than_rings_reach_comes_back() {
    scenarios((450..).zip([Shape::Mirror, Shape::Raidz1]), |steps, shape| {
        let mut run = run(steps, shape, 30);
        run.without(vec![0]);
        let before = run.pool().last_synced();
        let mut n = 0;
        while run.pool().last_synced() < before + 40 {
            n += 1;
            let comment = engine::live::StoredPropertyValue::Text(format!("{n}"));
            run.pool().set_pool_property("comment", comment).unwrap();
            run.step();
        }
        run.without(Vec::new());
        assert_eq!(state(run.pool(), 0), VdevState::Online, "{shape:?}");
        run.pool().wait_for_scan().unwrap();
        assert!(is_whole(run.pool()), "{shape:?}");
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

#[test]
fn a_leaf_is_taken_out_and_brought_back_while_the_pool_is_worked_with() {
    scenarios((500..).zip(REDUNDANT), |steps, shape| {
        let mut run = run(steps, shape, 30);
        for round in 0..3 {
            let lost = run.bench.redundancy();
            for n in 0..lost {
                let how =
                    if round == 0 { OfflineMode::OfflineForNow } else { OfflineMode::Offline };
                run.pool().offline_leaf(guid(run.pool(), n), how).unwrap();
                assert_eq!(state(run.pool(), n), VdevState::Offline);
            }
            let one_more = run.pool().offline_leaf(guid(run.pool(), lost), OfflineMode::Offline);
            assert!(one_more.unwrap_err().to_string().contains("no valid replicas"));
            (0..30).for_each(|_| run.step());
            for n in 0..lost {
                online_leaf(run.pool(), &run.bench, n);
                (0..10).for_each(|_| run.step());
            }
            run.pool().wait_for_scan().unwrap();
            assert!(is_whole(run.pool()), "{shape:?}");
            assert_eq!(run.pool().view().vdevs().root().state(), VdevState::Online);
        }
        let (bench, model) = run.finish();
        assert!((0..bench.devices.len()).all(|n| !leaf(&bench.open(), n).offline));
        holds_on_each(bench, &model);
    });
}

/// A leaf is taken out of a resilver, which may come to its end meanwhile, and brought back: what
/// was passed over is brought by the next one.
#[test]
fn a_leaf_that_leaves_a_resilver_and_comes_back_has_all() {
    scenarios((900..).zip([Shape::Mirror, Shape::Raidz1]), |steps, shape| {
        let mut run = run(steps, shape, 30);
        for round in 0..12 {
            run.pool().offline_leaf(guid(run.pool(), 0), OfflineMode::OfflineForNow).unwrap();
            (0..20).for_each(|_| run.step());
            online_leaf(run.pool(), &run.bench, 0);
            (0..round % 3).for_each(|_| run.step());
            run.pool().offline_leaf(guid(run.pool(), 0), OfflineMode::OfflineForNow).unwrap();
            (0..round % 4).for_each(|_| run.step());
            online_leaf(run.pool(), &run.bench, 0);
            run.pool().wait_for_scan().unwrap();
            assert!(is_whole(run.pool()), "{shape:?}, round {round}");
        }
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// What an administrator took out stays out when the pool is opened again.
#[test]
fn a_leaf_that_was_taken_out_is_not_used_by_the_next_import() {
    scenario(600, |steps| {
        let mut run = run(steps, Shape::Mirror, 20);
        run.pool().offline_leaf(guid(run.pool(), 0), OfflineMode::Offline).unwrap();
        (0..20).for_each(|_| run.step());
        run.without(Vec::new());
        assert_eq!(state(run.pool(), 0), VdevState::Offline);
        (0..20).for_each(|_| run.step());
        online_leaf(run.pool(), &run.bench, 0);
        run.pool().wait_for_scan().unwrap();
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// A leaf that failed works again: it is used, and has what it missed.
#[test]
fn a_leaf_that_failed_is_brought_back() {
    scenarios((700..).zip(REDUNDANT), |steps, shape| {
        let mut run = run(steps, shape, 30);
        run.bench.faults[0].add(Fault::fail_flushes(EIO));
        (0..30).for_each(|_| run.step());
        run.pool().sync().unwrap();
        assert_eq!(state(run.pool(), 0), VdevState::Faulted);
        let back = |pool: &LivePool, bench: &Bench| {
            pool.online_leaf(guid(pool, 0), OwnChanges::GiveUp, None, &bench.source())
        };
        assert_eq!(run.pool().leaves_away(), [guid(run.pool(), 0)]);
        run.bench.faults[0].clear();
        back(run.pool(), &run.bench).unwrap();
        run.pool().wait_for_scan().unwrap();
        assert!(run.pool().leaves_away().is_empty() && is_whole(run.pool()));
        let (bench, model) = run.finish();
        assert!(!leaf(&bench.open(), 0).faulted);
        holds_on_each(bench, &model);
    });
}

/// The power fails after any number of writes of a leaf's return and resilver. The next import
/// goes on with it, and nothing is missing on any leaf then.
#[test]
fn a_resilver_may_end_at_any_write() {
    for (seed, shape) in (800..).zip([Shape::Mirror, Shape::Raidz1]) {
        let mut run = prepared(seed, shape, 30);
        run.without(vec![0]);
        (0..60).for_each(|_| run.step());
        let (mut bench, model) = run.finish();
        bench.away.clear();
        let before = bench.devices.clone();
        for writes in cuts(7) {
            bench = bench.again_from(&before);
            bench.cut_power_after(writes);
            let imported = bench.try_import();
            let is_done = imported.is_ok_and(|pool| {
                let is_done = pool.wait_for_scan().is_ok();
                pool.export().is_ok() && is_done
            });
            bench.mend();
            let pool = bench.import();
            // The side that failed first was gone without.
            let away = |n: &usize| pool.leaves_away().contains(&guid(&pool, *n));
            (0..bench.devices.len()).filter(away).for_each(|n| online_leaf(&pool, &bench, n));
            pool.wait_for_scan().unwrap();
            assert!(is_whole(&pool), "{shape:?} after {writes}");
            pool.export().unwrap();
            for away in [vec![], vec![1]] {
                bench.away = away;
                holds_model(&bench, &model, &format!("{shape:?} after {writes}"));
            }
            bench.away.clear();
            if is_done {
                break;
            }
        }
    }
}

/// Much of one side is overwritten: a scrub writes it again, and finds nothing the next time.
#[test]
fn a_scrub_repairs_what_redundancy_has() {
    scenarios((900..).zip(REDUNDANT), |steps, shape| {
        let run = run(steps, shape, 60);
        run.pool().sync().unwrap();
        let noise: Vec<u8> = (0..64 << 10).map(|n| (n % 251) as u8).collect();
        let (mut at, mut rng) = (4 << 20, Rng::new(steps.seed()));
        while at < DEVICE_BYTES - (1 << 20) {
            let n = rng.below(run.bench.devices.len() as u64) as usize;
            run.bench.devices[n].write(at, &noise).unwrap();
            at += 192 << 10;
        }
        let scrub = |pool: &LivePool| {
            pool.scrub().unwrap();
            pool.wait_for_scan().unwrap();
            let done = pool.view().scan_state().unwrap().unwrap();
            assert_eq!((done.function(), done.state()), (Function::Scrub, State::Finished));
            done
        };
        let first = scrub(run.pool());
        assert!(first.processed > 0 && first.errors == 0, "{shape:?}: {first:?}");
        let second = scrub(run.pool());
        assert_eq!((second.processed, second.errors), (0, 0), "{shape:?}");
        run.pool().forget_errors(None).unwrap();
        assert_eq!(run.pool().view().vdevs().root().state(), VdevState::Online);
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// Disks become mirrors and mirrors disks, in pools of one disk, of mirrors, and with a mirror for
/// metadata; the pool is worked with meanwhile.
#[test]
fn sides_of_mirrors_come_and_go() {
    scenarios((1000..).zip([Shape::Disk, Shape::Mirror, Shape::Special]), |steps, shape| {
        let mut run = run(steps, shape, 40);
        let last = run.bench.devices.len() - 1;
        for old in [0, last] {
            let old = guid(run.pool(), old);
            let new = run.bench.extra();
            let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
            run.pool().attach(old, &spec, device).unwrap();
            (0..20).for_each(|_| run.step());
            run.pool().wait_for_scan().unwrap();
            assert!(is_whole(run.pool()), "{shape:?}");
            run.pool().detach(old).unwrap();
            (0..20).for_each(|_| run.step());
            if shape == Shape::Disk {
                break;
            }
        }
        let first = run.pool().look().unwrap().config().vdev_tree.clone();
        let first = first.walk().find(|v| v.kind.is_leaf()).unwrap().guid;
        let new = run.bench.extra();
        let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
        run.pool().replace(first, &spec, device).unwrap();
        (0..20).for_each(|_| run.step());
        run.pool().wait_for_scan().unwrap();
        let tree = run.pool().view().vdevs();
        assert!(tree.leaves().all(|l| l.guid() != first), "{shape:?}");
        drop(tree);
        let (bench, model) = run.finish();
        holds(&bench, &model);
        bench.check(&bench.open()).unwrap();
        let config = bench.open().config().vdev_tree.clone();
        let kinds: Vec<_> = config.children.iter().map(|top| top.kind.name()).collect();
        let want: &[&str] = match shape {
            Shape::Disk => &["file"],
            Shape::Mirror => &["mirror"],
            _ => &["file", "file", "mirror"],
        };
        assert_eq!(kinds, want);
    });
}

#[test]
fn a_side_is_refused_where_it_makes_no_sense() {
    scenario(1100, |steps| {
        let mut run = run(steps, Shape::Raidz1, 5);
        let new = run.bench.extra();
        let (spec, leaf) = (run.bench.leaf(new), guid(run.pool(), 0));
        let attach = run.pool().attach(leaf, &spec, run.bench.write_ref(new));
        assert!(attach.unwrap_err().to_string().contains("can only attach to mirrors"));
        let detach = run.pool().detach(leaf).unwrap_err().to_string();
        assert!(detach.contains("only applicable to mirror"), "{detach}");
        let small: Arc<dyn WriteDevice> = Arc::new(MemoryDevice::zeros("mem9", DEVICE_BYTES / 2));
        let mut run = self::run(steps, Shape::Mirror, 5);
        let attach = run.pool().attach(guid(run.pool(), 0), &run.bench.leaf(9), small);
        assert!(attach.unwrap_err().to_string().contains("device is too small"));
        (0..20).for_each(|_| run.step());
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}
