//! Vdevs that are added to a pool while it is used.

use super::random::Bench;
use super::{DEVICE_BYTES, Run, holds, holds_model, no_problems, prepared, run, whole};
use engine::LivePool;
use engine::live::{Devices, NewTop, SpaceClass};
use poolkit::Shape;
use testkit::{scenario, scenarios};

/// Adds a device that stands alone; its number among the top-level vdevs.
fn add(pool: &LivePool, bench: &Bench, device: usize, class: SpaceClass) -> bool {
    let devices = Devices::from([(format!("mem{device}"), bench.write_ref(device))]);
    pool.add_tops(&[NewTop { spec: bench.leaf(device), class }], Some(12), &devices).is_ok()
}

/// Bytes that are allocated on each top-level vdev, by what the engine counts.
fn allocated(pool: &LivePool) -> Vec<u64> {
    let stats = pool.stats();
    let tops = stats.vdevs.iter().filter(|vdev| vdev.depth == 1);
    tops.map(|vdev| vdev.allocated_bytes).collect()
}

/// It is used at once by the pool that got it, and everything on it is there afterwards.
#[test]
fn a_vdev_is_used_by_the_pool_that_is_open() {
    scenarios([(2200, SpaceClass::Normal), (2201, SpaceClass::Special)], |steps, class| {
        let mut run = run(steps, Shape::Disk, 40);
        let device = run.bench.extra();
        assert!(add(run.pool(), &run.bench, device, class));
        (0..60).for_each(|_| run.step());
        run.pool().sync().unwrap();
        let used = allocated(run.pool());
        assert!(used.len() == 2 && used[1] > 64 << 10, "{class:?}: {used:?}");
        no_problems(run.pool());
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// Synchronous writes go to a log device that came a moment before, and are replayed from there.
#[test]
fn a_log_device_is_used_by_the_pool_that_is_open() {
    scenario(2202, |steps| {
        let mut run =
            Run::new(steps.seed(), Bench::new(Shape::Disk, DEVICE_BYTES, 12)).following(steps);
        (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
        (0..40).for_each(|_| run.step());
        let device = run.bench.extra();
        assert!(add(run.pool(), &run.bench, device, SpaceClass::Log));
        let mut most = 0;
        for _ in 0..80 {
            run.step();
            run.promise();
            most = most.max(allocated(run.pool())[1]);
        }
        assert!(most > 0, "nothing was written to the log device");
        run.crash(|bench, pool| bench.check(pool));
        (0..10).for_each(|_| run.step());
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// The power fails after any number of writes: the pool has the vdev, or goes without it, and gets
/// it by doing the same again.
#[test]
fn an_addition_may_end_at_any_write() {
    for (seed, class) in [(2203, SpaceClass::Normal), (2204, SpaceClass::Log)] {
        let (mut bench, model) = prepared(seed, Shape::Disk, 30).finish();
        bench.faults.clear();
        let device = bench.extra();
        let before = bench.devices.clone();
        let mut ends = [0, 0];
        for writes in super::cuts(17) {
            bench = bench.again_from(&before);
            let pool = bench.import();
            bench.cut_power_after(writes);
            let is_done = add(&pool, &bench, device, class) && pool.sync().is_ok();
            drop(pool);
            bench.mend();
            let case = format!("{class:?} after {writes}");
            let pool = bench.try_import().unwrap_or_else(|e| panic!("{case}: {e}"));
            let has = allocated(&pool).len() == 2;
            assert!(!is_done || has, "{case}");
            ends[usize::from(has)] += 1;
            assert!(has || add(&pool, &bench, device, class), "{case}");
            let mut run = Run::go_on(seed, bench, model.clone(), pool);
            (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
            (0..5).for_each(|_| run.step());
            let (after, is) = run.finish();
            holds_model(&after, &is, &case);
            whole(&after, &case);
            bench = after;
            if is_done {
                break;
            }
        }
        assert!(ends.iter().all(|n| *n > 0), "{class:?}: {ends:?}");
        bench.zdb();
    }
}
