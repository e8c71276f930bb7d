//! Vdevs with data that are removed, while the pool is worked with.

use super::random::{Bench, Model, Run};
use super::{EIO, holds_model, no_problems, prepared, run, whole};
use engine::LivePool;
use engine::inside::device::Fault;
use engine::inside::ondisk::config::VdevKind;
use engine::inside::ondisk::scan::State;
use engine::live::tunables::{Setting, Tunable};
use engine::live::{Devices, NewTop, SpaceClass, VdevSpec};
use poolkit::Shape;
use std::time::Duration;
use testkit::{RandomSteps, scenario, scenarios};

pub(super) const LONG: Duration = Duration::from_mins(10);

pub(super) fn set(pool: &LivePool, tunable: Tunable, value: u64) {
    pool.set_tunable(Setting { tunable, value });
}

/// The guid of the top-level vdev with this number.
pub(super) fn top(pool: &LivePool, id: u64) -> u64 {
    let seen = pool.look().unwrap();
    seen.config().vdev_tree.children.iter().find(|t| t.id == id).unwrap().guid
}

fn state(bench: &Bench) -> State {
    bench.open().removal().unwrap().map_or(State::None, |r| r.state.state())
}

/// A txg ends, with a piece of the removal in it.
pub(super) fn one_txg(pool: &LivePool) {
    set(pool, Tunable::RemovalSuspend, 0);
    pool.sync().unwrap();
    set(pool, Tunable::RemovalSuspend, 1);
}

/// The pool as it is now is whole for zinc and for zdb, whatever is under way.
pub(super) fn is_whole_now(run: &Run, case: &str) {
    run.pool().sync().unwrap();
    let bench = run.bench.copy();
    whole(&bench, case);
    bench.zdb();
}

/// The pool goes without these devices from now on.
pub(super) fn without(mut bench: Bench, model: &Model, away: &[usize], case: &str) -> Bench {
    bench.away = away.to_vec();
    holds_model(&bench, model, case);
    bench
}

/// The shape, the number of the vdev that goes, and its devices.
const REMOVABLE: [(Shape, u64, &[usize]); 4] = [
    (Shape::Disks3, 0, &[0]),
    (Shape::Disks3, 1, &[1]),
    (Shape::Disks3, 2, &[2]),
    (Shape::Special, 2, &[2, 3]),
];

#[test]
fn a_vdev_goes_while_the_pool_is_worked_with() {
    scenarios((2000..).zip(REMOVABLE), |steps, (shape, id, devices)| {
        let case = format!("{shape:?} without {id}");
        let mut run = run(steps, shape, 80);
        set(run.pool(), Tunable::RemovalPiece, 16 << 10);
        run.pool().sync().unwrap();
        set(run.pool(), Tunable::RemovalSuspend, 1);
        run.pool().remove_top(top(run.pool(), id)).unwrap();
        is_whole_now(&run, &case);
        let mut txgs = 0;
        while run.pool().removing().is_some() {
            (0..4).for_each(|_| run.step());
            one_txg(run.pool());
            no_problems(run.pool());
            txgs += 1;
            if txgs == 3 {
                is_whole_now(&run, &case);
            }
            assert!(txgs < 2000, "{case}");
        }
        assert!(txgs > 2, "{case}: {txgs}");
        is_whole_now(&run, &case);
        (0..60).for_each(|_| run.step());
        no_problems(run.pool());
        let (bench, model) = run.finish();
        let record = bench.open().removal().unwrap().unwrap().state;
        assert_eq!((record.state(), record.vdev), (State::Finished, id), "{case}");
        assert_eq!(record.copied, record.to_copy, "{case}");
        let bench = without(bench, &model, devices, &case);
        bench.zdb();
    });
}

/// Waits until the pool begins no txg by itself.
pub(super) fn until_idle(pool: &LivePool) {
    let txg = || pool.look().unwrap().uberblock().txg;
    loop {
        let before = txg();
        std::thread::sleep(Duration::from_millis(200));
        if txg() == before {
            return;
        }
    }
}

/// This comes true while nothing is asked of the pool that begins a txg.
#[track_caller]
pub(super) fn by_itself(what: &str, is_so: impl Fn() -> bool) {
    let comes = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_so()
    });
    assert!(comes, "{what}");
}

/// What a tunable held up goes on when it is set back, in a pool that nothing is done with.
#[test]
fn a_removal_that_was_held_up_goes_on_in_an_idle_pool() {
    scenario(2015, |steps| {
        let run = run(steps, Shape::Disks3, 40);
        let pool = run.pool();
        set(pool, Tunable::RemovalSuspend, 1);
        pool.remove_top(top(pool, 1)).unwrap();
        until_idle(pool);
        assert!(pool.removing().is_some());
        set(pool, Tunable::RemovalSuspend, 0);
        by_itself("it is removed", || pool.removing().is_none());
        let (bench, model) = run.finish();
        without(bench, &model, &[1], "the removed one");
    });
}

/// A pool of two mirrors, the second of which was added.
fn two_mirrors(steps: &RandomSteps) -> Run {
    let (mut bench, model) = run(steps, Shape::Mirror, 60).finish();
    bench.faults.clear();
    let new = [bench.extra(), bench.extra()];
    let sides = new.map(|n| bench.leaf(n)).to_vec();
    let devices: Devices = new.iter().map(|n| (format!("mem{n}"), bench.write_ref(*n))).collect();
    let tops = [NewTop { spec: VdevSpec::Mirror(sides), class: SpaceClass::Normal }];
    let pool = bench.import();
    pool.add_tops(&tops, Some(12), &devices).unwrap();
    pool.export().unwrap();
    let bench = bench.breakable();
    let pool = bench.import();
    let mut run = Run::go_on(steps.seed(), bench, model, pool).following(steps);
    (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
    (0..40).for_each(|_| run.step());
    run
}

/// A mirror goes, with both sides, to another.
#[test]
fn a_mirror_goes_to_a_mirror() {
    scenario(2010, |steps| {
        let mut run = two_mirrors(steps);
        run.pool().remove_top(top(run.pool(), 0)).unwrap();
        assert!(run.pool().wait_for_removal(LONG).unwrap());
        (0..40).for_each(|_| run.step());
        no_problems(run.pool());
        let (bench, model) = run.finish();
        let bench = without(bench, &model, &[0, 1], "both sides");
        bench.zdb();
        without(bench, &model, &[0, 1, 2], "and one of the others");
    });
}

/// A side of the mirror that takes the copies misses them, and is brought up to date while the
/// removal runs, or behind it: blocks are as old as their copies.
#[test]
fn a_side_that_missed_the_copies_is_brought_up_to_date() {
    scenarios([(2015, true), (2016, false)], |steps, is_early| {
        let mut run = two_mirrors(steps);
        set(run.pool(), Tunable::RemovalPiece, 4 << 10);
        set(run.pool(), Tunable::RemovalSuspend, 1);
        run.pool().remove_top(top(run.pool(), 0)).unwrap();
        run.bench.faults[3].add(Fault::fail_writes(0..u64::MAX, EIO));
        for _ in 0..8 {
            (0..3).for_each(|_| run.step());
            one_txg(run.pool());
        }
        assert!(run.pool().removing().is_some(), "{is_early}");
        run.bench.faults[3].clear();
        if is_early {
            super::online_leaf(run.pool(), &run.bench, 3);
            run.pool().wait_for_scan().unwrap();
        }
        set(run.pool(), Tunable::RemovalSuspend, 0);
        run.pool().sync().unwrap();
        assert!(run.pool().wait_for_removal(LONG).unwrap());
        let last = run.pool().view().vdevs().leaves().count() - 1;
        if is_early {
            run.pool().resilver().unwrap();
        } else {
            super::online_leaf(run.pool(), &run.bench, last);
        }
        run.pool().wait_for_scan().unwrap();
        let missed: Vec<_> =
            run.pool().view().vdevs().leaves().map(|l| (l.guid(), l.missed())).collect();
        assert!(
            super::is_whole(run.pool()),
            "{is_early}: {missed:?} {:?}",
            run.pool().look().unwrap().scan_state()
        );
        let (bench, model) = run.finish();
        without(bench, &model, &[0, 1, 2], &format!("{is_early}"));
    });
}

/// One side of the vdev that goes is damaged where nothing has read yet.
#[test]
fn sides_that_differ_call_a_removal_off() {
    scenario(2018, |steps| {
        let run = two_mirrors(steps);
        run.bench.faults[0].add(Fault::flip(4 << 20..u64::MAX, 64));
        run.pool().remove_top(top(run.pool(), 0)).unwrap();
        let why = run.pool().wait_for_removal(LONG).unwrap_err().to_string();
        assert!(why.contains("different data"), "{why}");
        run.bench.faults[0].clear();
        run.pool().remove_top(top(run.pool(), 0)).unwrap();
        assert!(run.pool().wait_for_removal(LONG).unwrap());
        let (bench, model) = run.finish();
        without(bench, &model, &[0, 1], "mended").zdb();
    });
}

/// One is removed, and then the vdev that it went to, in part.
#[test]
fn a_vdev_goes_that_another_went_to() {
    scenario(2020, |steps| {
        let mut run = run(steps, Shape::Disks3, 80);
        run.bench.faults.clear();
        for id in [1, 0] {
            run.pool().remove_top(top(run.pool(), id)).unwrap();
            assert!(run.pool().wait_for_removal(LONG).unwrap());
            (0..30).for_each(|_| run.step());
            is_whole_now(&run, &format!("without {id}"));
            run.reopen(id);
        }
        // The last one is all there is.
        assert!(run.pool().remove_top(top(run.pool(), 2)).is_err());
        let seen = run.pool().look().unwrap();
        let kinds: Vec<_> =
            seen.config().vdev_tree.children.iter().map(|t| t.kind.clone()).collect();
        assert_eq!(kinds[..2], [VdevKind::Indirect, VdevKind::Indirect]);
        let (bench, model) = run.finish();
        without(bench, &model, &[0, 1], "the last one").zdb();
    });
}

#[test]
fn a_removal_is_called_off_and_asked_for_again() {
    scenario(2030, |steps| {
        let mut run = run(steps, Shape::Disks3, 80);
        run.bench.faults.clear();
        assert!(run.pool().cancel_removal().is_err());
        // There are more than a thousand pieces: how many txgs end before the removal is suspended
        // again is left to the machine, but they are few.
        for txgs in [0, 3, 7] {
            super::random::add_large(run.pool(), 24 << 20);
            set(run.pool(), Tunable::RemovalPiece, 4 << 10);
            set(run.pool(), Tunable::RemovalSuspend, 1);
            run.pool().remove_top(top(run.pool(), 1)).unwrap();
            assert!(run.pool().remove_top(top(run.pool(), 0)).is_err());
            for _ in 0..txgs {
                (0..4).for_each(|_| run.step());
                one_txg(run.pool());
            }
            assert!(run.pool().removing().is_some());
            run.pool().cancel_removal().unwrap();
            no_problems(run.pool());
            (0..20).for_each(|_| run.step());
            is_whole_now(&run, &format!("called off after {txgs}"));
            run.pool().destroy_dataset("tank/large").unwrap();
            run.reopen(txgs);
            assert!(run.pool().removing().is_none());
        }
        set(run.pool(), Tunable::RemovalSuspend, 0);
        run.pool().remove_top(top(run.pool(), 1)).unwrap();
        assert!(run.pool().wait_for_removal(LONG).unwrap());
        let (bench, model) = run.finish();
        without(bench, &model, &[1], "in the end").zdb();
    });
}

/// The pool is exported, closed, or its process killed in the middle, again and again.
#[test]
fn a_removal_goes_on_in_another_process() {
    scenario(2040, |steps| {
        let mut run = run(steps, Shape::Disks3, 80);
        run.bench.faults.clear();
        set(run.pool(), Tunable::RemovalPiece, 16 << 10);
        set(run.pool(), Tunable::RemovalSuspend, 1);
        run.pool().remove_top(top(run.pool(), 1)).unwrap();
        for how in 0..9 {
            run.reopen(how);
            set(run.pool(), Tunable::RemovalPiece, 16 << 10);
            set(run.pool(), Tunable::RemovalSuspend, 1);
            (0..4).for_each(|_| run.step());
            one_txg(run.pool());
            no_problems(run.pool());
        }
        is_whole_now(&run, "in the middle");
        set(run.pool(), Tunable::RemovalSuspend, 0);
        run.pool().sync().unwrap();
        assert!(run.pool().wait_for_removal(LONG).unwrap());
        let (bench, model) = run.finish();
        assert_eq!(state(&bench), State::Finished);
        without(bench, &model, &[1], "in the end").zdb();
    });
}

/// The power fails after any number of writes of a removal: the next to open the pool goes on.
#[test]
fn a_removal_may_be_cut_off_at_any_write() {
    let (mut bench, model) = prepared(2050, Shape::Disks3, 40).finish();
    bench.faults.clear();
    let before = bench.devices.clone();
    let mut states = Vec::new();
    for writes in super::cuts(61) {
        bench = bench.again_from(&before);
        let pool = bench.import();
        set(&pool, Tunable::RemovalPiece, 128 << 10);
        bench.cut_power_after(writes);
        let is_done = pool.remove_top(top(&pool, 1)).is_ok()
            && pool.wait_for_removal(LONG).is_ok_and(|done| done)
            && pool.sync().is_ok();
        drop(pool);
        bench.mend();
        let case = format!("after {writes}");
        let now = state(&bench);
        states.push(now);
        assert!(!is_done || now == State::Finished, "{case}");
        whole(&bench, &case);
        let pool = bench.try_import().unwrap_or_else(|e| panic!("{case}: {e}"));
        if now == State::None {
            pool.remove_top(top(&pool, 1)).unwrap_or_else(|e| panic!("{case}: {e}"));
        }
        assert!(pool.wait_for_removal(LONG).unwrap(), "{case}");
        no_problems(&pool);
        pool.export().unwrap();
        bench = without(bench, &model, &[1], &case);
        bench.away.clear();
        if is_done {
            break;
        }
    }
    for wanted in [State::None, State::Active, State::Finished] {
        assert!(states.contains(&wanted), "{wanted:?}: {states:?}");
    }
    bench.away = vec![1];
    bench.zdb();
}

/// What cannot be read, or is not the same on both sides, calls the removal off.
#[test]
fn what_cannot_be_known_to_be_right_is_not_copied() {
    scenario(2060, |steps| {
        let run = run(steps, Shape::Disks3, 80);
        run.bench.faults[1].add(Fault::fail(4 << 20..u64::MAX, EIO));
        run.pool().remove_top(top(run.pool(), 1)).unwrap();
        let why = run.pool().wait_for_removal(LONG).unwrap_err().to_string();
        assert!(why.contains("can be read"), "{why}");
        assert!(run.pool().removing().is_none());
        run.bench.faults[1].clear();
        no_problems(run.pool());
        let (bench, model) = run.finish();
        assert_eq!(state(&bench), State::Canceled);
        without(bench, &model, &[], "called off").zdb();
    });
}

#[test]
fn what_cannot_be_removed_is_refused() {
    let all = [Shape::Raidz1, Shape::Disk, Shape::Mirror];
    scenarios((2070..).zip(all), |steps, shape| {
        let run = run(steps, shape, 10);
        let why = run.pool().remove_top(top(run.pool(), 0)).unwrap_err().to_string();
        let want = if shape == Shape::Raidz1 { "not be raidz" } else { "out of space" };
        assert!(why.contains(want), "{shape:?}: {why}");
        assert!(run.pool().removing().is_none());
    });
    scenario(2073, |steps| {
        let run = run(steps, Shape::Disks3, 10);
        run.pool().sync().unwrap();
        run.pool().checkpoint().unwrap();
        assert!(run.pool().remove_top(top(run.pool(), 0)).is_err());
        run.pool().discard_checkpoint().unwrap();
        super::wait_for_discard(run.pool()).unwrap();
        set(run.pool(), Tunable::RemovalSuspend, 1);
        run.pool().remove_top(top(run.pool(), 0)).unwrap();
        assert!(run.pool().checkpoint().is_err());
    });
}
