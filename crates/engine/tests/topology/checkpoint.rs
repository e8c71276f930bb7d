//! A state of the pool that is kept, and going back to it.

use super::random::{Bench, Model, Run};
use super::{holds_model, no_problems, prepared, run, whole};
use engine::errors::PoolError;
use engine::live::{NewTop, SpaceClass};
use engine::pools::CheckpointState;
use poolkit::{SHAPES, Shape};
use std::sync::Arc;
use testkit::{RandomSteps, scenario, scenarios};

/// A run with some history, a checkpoint, and as much history behind it; with the model of each.
fn with_checkpoint(steps: &RandomSteps, shape: Shape, ops: u64) -> (Bench, Model, Model) {
    let mut run = run(steps, shape, ops);
    run.pool().sync().unwrap();
    let kept = run.model.clone();
    run.pool().checkpoint().unwrap();
    (0..ops).for_each(|_| run.step());
    run.pool().sync().unwrap();
    no_problems(run.pool());
    let (bench, model) = run.finish();
    (bench, kept, model)
}

fn state(bench: &Bench) -> CheckpointState {
    bench.open().checkpoint_state()
}

#[test]
fn what_a_checkpoint_keeps_is_there_until_it_is_discarded() {
    scenarios((1800..).zip(SHAPES), |steps, shape| {
        let (bench, kept, model) = with_checkpoint(steps, shape, 60);
        assert_eq!(state(&bench), CheckpointState::Exists, "{shape:?}");
        // All of both states is there, and what zinc and zdb count agrees.
        holds_model(&bench, &model, &format!("{shape:?}"));
        bench.zdb();
        assert!(bench.open().space().checkpoint() > 0, "{shape:?}");
        // Another process goes on with it.
        let before: Vec<_> = bench.devices.iter().map(|d| Arc::new(d.fork())).collect();
        let pool = bench.import();
        assert!(matches!(pool.checkpoint(), Err(PoolError::CheckpointExists { .. })));
        pool.discard_checkpoint().unwrap();
        super::wait_for_discard(&pool).unwrap();
        assert!(matches!(pool.discard_checkpoint(), Err(PoolError::NoCheckpoint { .. })));
        no_problems(&pool);
        pool.export().unwrap();
        assert_eq!(state(&bench), CheckpointState::None);
        assert_eq!(bench.open().space().checkpoint(), 0);
        holds_model(&bench, &model, &format!("{shape:?} discarded"));
        bench.zdb();
        // The same pool, going back.
        let mut bench = bench;
        bench.devices = before;
        bench.faults.clear();
        goes_back(&bench, &kept, &format!("{shape:?}"));
    });
}

/// What the txg of the discard itself frees, of datasets and of their logs, is the checkpoint's
/// until then: nothing of it is left over.
#[test]
fn a_checkpoint_is_discarded_while_the_pool_is_worked_with() {
    scenarios((1860..).zip(SHAPES), |steps, shape| {
        let mut run = run(steps, shape, 60);
        for round in 0..8 {
            let case = format!("{shape:?}, round {round}");
            run.promise();
            run.pool().checkpoint().unwrap();
            // Also with nothing kept before the txg that gives it up, and with much.
            (0..round * 5).for_each(|_| run.step());
            if round % 2 == 1 {
                run.pool().sync().unwrap();
            }
            (0..10).for_each(|_| run.step());
            run.promise();
            run.pool().discard_checkpoint().unwrap();
            run.promise();
            (0..10).for_each(|_| run.step());
            super::wait_for_discard(run.pool()).unwrap();
            run.pool().sync().unwrap();
            assert_eq!(run.pool().bytes_to_discard(), 0, "{case}");
        }
        no_problems(run.pool());
        let (bench, model) = run.finish();
        assert_eq!(state(&bench), CheckpointState::None);
        assert_eq!(bench.open().space().checkpoint(), 0, "{shape:?}");
        holds_model(&bench, &model, &format!("{shape:?}"));
        bench.zdb();
    });
}

fn goes_back(bench: &Bench, kept: &Model, case: &str) {
    let pool = bench.rewind().unwrap_or_else(|e| panic!("{case}: {e}"));
    pool.sync().unwrap();
    no_problems(&pool);
    pool.export().unwrap();
    assert_eq!(state(bench), CheckpointState::None, "{case}");
    assert_eq!(bench.open().uberblock().checkpoint_txg, 0, "{case}");
    holds_model(bench, kept, case);
    bench.zdb();
}

/// The pool goes on being worked with after it went back, and takes another checkpoint.
#[test]
fn a_pool_that_went_back_is_one_as_any() {
    scenario(1820, |steps| {
        let (bench, kept, _) = with_checkpoint(steps, Shape::Raidz1, 60);
        let pool = bench.rewind().unwrap();
        let mut run = Run::go_on(steps.seed(), bench, kept, pool).following(steps);
        (0..40).for_each(|_| run.step());
        run.pool().checkpoint().unwrap();
        (0..40).for_each(|_| run.step());
        no_problems(run.pool());
        let (bench, model) = run.finish();
        holds_model(&bench, &model, "went back");
        bench.zdb();
    });
}

/// The power fails after any number of writes: the pool has gone back, or not at all, and the
/// command that was cut off can be given again.
#[test]
fn going_back_may_end_at_any_write() {
    for (seed, shape) in [(1830, Shape::Disk), (1831, Shape::Mirror)] {
        let (mut bench, kept, model) = with_checkpoint(&RandomSteps::new(seed), shape, 40);
        bench.faults.clear();
        let before = bench.devices.clone();
        let mut cuts = [0, 0];
        for writes in super::cuts(7) {
            bench = bench.again_from(&before);
            bench.cut_power_after(writes);
            let is_done = bench.rewind().and_then(|pool| pool.sync()).is_ok();
            bench.mend();
            let case = format!("{shape:?} after {writes}");
            let is_back = state(&bench) == CheckpointState::None;
            assert!(is_back || !is_done, "{case}");
            cuts[usize::from(is_back)] += 1;
            if is_back {
                // The next one to open it ends what was begun.
                bench.try_import().unwrap_or_else(|e| panic!("{case}: {e}")).export().unwrap();
                holds_model(&bench, &kept, &case);
            } else {
                holds_model(&bench, &model, &case);
                goes_back(&bench, &kept, &case);
            }
            if is_done {
                break;
            }
        }
        assert!(cuts.iter().all(|n| *n > 0), "{shape:?}: {cuts:?}");
        bench.zdb();
    }
}

/// The same for a checkpoint that is made, and one that is discarded.
#[test]
fn making_and_discarding_may_end_at_any_write() {
    for is_discarded in [false, true] {
        let (mut bench, _, model) = match is_discarded {
            true => with_checkpoint(&RandomSteps::new(1840), Shape::Disk, 60),
            false => {
                let (bench, model) = prepared(1841, Shape::Disk, 60).finish();
                (bench, model.clone(), model)
            }
        };
        bench.faults.clear();
        let before = bench.devices.clone();
        let mut seen = Vec::new();
        for writes in super::cuts(23) {
            bench = bench.again_from(&before);
            let pool = bench.import();
            bench.cut_power_after(writes);
            let done = match is_discarded {
                true => {
                    let begun = pool.discard_checkpoint().map_err(engine::Error::from);
                    begun.and_then(|()| super::wait_for_discard(&pool))
                }
                false => pool.checkpoint().and_then(|()| pool.sync()).map_err(Into::into),
            };
            drop(pool);
            bench.mend();
            let case = format!("{is_discarded} after {writes}");
            whole(&bench, &case);
            seen.push(state(&bench));
            let pool = bench.try_import().unwrap_or_else(|e| panic!("{case}: {e}"));
            super::wait_for_discard(&pool).unwrap();
            no_problems(&pool);
            pool.export().unwrap();
            holds_model(&bench, &model, &case);
            if done.is_ok() {
                break;
            }
        }
        assert!(seen.contains(&CheckpointState::Exists), "{is_discarded}: {seen:?}");
        assert!(seen.contains(&CheckpointState::None), "{is_discarded}: {seen:?}");
        bench.zdb();
    }
}

/// The vdevs and the guid stay what they are; vdevs may come, and are gone after going back.
#[test]
fn a_pool_with_a_checkpoint_keeps_its_devices() {
    scenario(1850, |steps| {
        let (mut bench, kept, _) = with_checkpoint(steps, Shape::Mirror, 30);
        let new = bench.extra();
        let pool = bench.import();
        let leaf = super::guid(&pool, 0);
        let exists =
            |r: Result<(), PoolError>| matches!(r, Err(PoolError::CheckpointExists { .. }));
        let spec = bench.leaf(new);
        assert!(exists(pool.attach(leaf, &spec, bench.write_ref(new))));
        assert!(exists(pool.replace(leaf, &spec, bench.write_ref(new))));
        assert!(exists(pool.detach(leaf)));
        assert!(exists(pool.reguid(None).map(drop)));
        let devices = [(format!("mem{new}"), bench.write_ref(new))].into_iter().collect();
        pool.add_tops(&[NewTop { spec, class: SpaceClass::Normal }], Some(12), &devices).unwrap();
        pool.export().unwrap();
        let pool = bench.import();
        assert_eq!(pool.view().vdevs().tops().count(), 2);
        pool.export().unwrap();
        bench.zdb();
        let pool = bench.rewind().unwrap();
        assert_eq!(pool.view().vdevs().tops().count(), 1);
        pool.export().unwrap();
        assert_eq!(bench.open().vdevs().tops().count(), 1);
        bench.away = vec![new];
        goes_on(&bench, &kept);
    });
}

fn goes_on(bench: &Bench, kept: &Model) {
    holds_model(bench, kept, "without what was added");
    bench.check(&bench.open()).unwrap();
}
