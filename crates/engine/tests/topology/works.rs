//! Work on free space beside everything else: initialize, trim, autotrim. A device in memory loses
//! what is trimmed at once, so whatever is overwritten or given back and was in use is missing from
//! the model.

use super::random::Bench;
use super::{holds_model, no_problems, prepared, run};
use engine::LivePool;
use engine::inside::device::{Device as _, ErrorKind, Fault};
use engine::live::{OwnChanges, StoredPropertyValue};
use engine::pools::{LeafWork, WorkState};
use poolkit::{SHAPES, Shape};
use std::time::Duration;
use testkit::{scenario, scenarios};

const BOTH: [LeafWork; 2] = [LeafWork::Initialize, LeafWork::Trim];
const LONG: Duration = Duration::from_mins(5);

fn leaves(pool: &LivePool) -> Vec<u64> {
    pool.view().vdevs().leaves().map(|l| l.guid()).collect()
}

fn finish(pool: &LivePool, work: LeafWork) {
    assert_eq!(pool.wait_for_work(work, &leaves(pool), LONG), Ok(true));
}

fn state(pool: &LivePool, work: LeafWork) -> Vec<WorkState> {
    let seen = pool.look().unwrap();
    leaves(pool).iter().map(|l| seen.leaf_progress(*l, work).unwrap().state).collect()
}

/// The bytes of a device that hold the pattern, of those that blocks may be in.
fn initialized(bench: &Bench, n: usize) -> u64 {
    const WORD: [u8; 8] = 0xdead_beef_dead_beee_u64.to_le_bytes();
    // Whole sectors are compared at once: there are many.
    let sector = WORD.repeat(512);
    let in_sector = |bytes: &[u8]| match bytes == sector {
        true => sector.len(),
        false => bytes.as_chunks::<8>().0.iter().filter(|w| **w == WORD).count() * 8,
    };
    let mut buffer = vec![0; 1 << 20];
    let mut count = 0;
    for at in (4 << 20..bench.devices[n].size() - (1 << 20)).step_by(1 << 20) {
        bench.devices[n].read(at, &mut buffer).unwrap();
        count += buffer.chunks(sector.len()).map(in_sector).sum::<usize>();
    }
    count as u64
}

#[test]
fn free_space_is_worked_on_and_nothing_else() {
    scenarios((1900..).zip(SHAPES.into_iter().chain([Shape::Draid1])), |steps, shape| {
        let mut run = run(steps, shape, 60);
        run.pool().sync().unwrap();
        for work in BOTH {
            for leaf in leaves(run.pool()) {
                run.pool().start_work(leaf, work, 0).unwrap();
            }
            (0..40).for_each(|_| run.step());
            finish(run.pool(), work);
            let all = state(run.pool(), work);
            assert!(all.iter().all(|s| *s == WorkState::Complete), "{shape:?}: {all:?}");
            if work == LeafWork::Initialize {
                let bytes: Vec<u64> =
                    (0..run.bench.devices.len()).map(|n| initialized(&run.bench, n)).collect();
                let size = run.bench.devices[0].size();
                match shape {
                    // One device has room for a spare where another has data.
                    Shape::Draid1 => assert!(bytes.iter().sum::<u64>() > 2 * size, "{bytes:?}"),
                    _ => assert!(bytes.iter().all(|n| *n > size / 2), "{shape:?}: {bytes:?}"),
                }
            } else {
                // Memory that was given back is zeros.
                let left: u64 =
                    (0..run.bench.devices.len()).map(|n| initialized(&run.bench, n)).sum();
                let all: u64 = run.bench.devices.iter().map(|d| d.size()).sum();
                assert!(left < all / 4, "{shape:?}: {left}");
            }
        }
        (0..40).for_each(|_| run.step());
        no_problems(run.pool());
        let (bench, model) = run.finish();
        holds_model(&bench, &model, &format!("{shape:?}"));
        bench.zdb();
    });
}

/// What became free is given back while the pool is worked with, and after crashes.
#[test]
fn autotrim_gives_back_what_no_uberblock_needs() {
    scenarios((1920..).zip(SHAPES.into_iter().chain([Shape::Draid1])), |steps, shape| {
        let mut run = run(steps, shape, 30);
        // What was in front of the devices does not follow them when they are copied.
        run.bench.faults.clear();
        run.pool().set_pool_property("autotrim", StoredPropertyValue::Number(1)).unwrap();
        for round in 0..40 {
            (0..6).for_each(|_| run.step());
            run.pool().sync().unwrap();
            run.pool().trim_freed_now();
            if round % 8 == 7 {
                // A crash right behind it: the last durable txg is whole.
                run.reopen(2);
            }
        }
        let (bench, model) = run.finish();
        holds_model(&bench, &model, &format!("{shape:?}"));
        bench.zdb();
    });
}

#[test]
fn a_work_is_suspended_called_off_and_goes_on_after_an_export() {
    scenario(1940, |steps| {
        let mut run = run(steps, Shape::Mirror, 60);
        run.pool().sync().unwrap();
        for work in BOTH {
            let leaf = leaves(run.pool())[0];
            assert!(run.pool().suspend_work(leaf, work).is_err());
            // Slow, so that it does not end by itself.
            run.pool().start_work(leaf, work, 1 << 20).unwrap();
            assert_eq!(state(run.pool(), work)[0], WorkState::Active);
            assert!(run.pool().start_work(leaf, work, 0).is_err());
            run.pool().suspend_work(leaf, work).unwrap();
            assert_eq!(state(run.pool(), work), [WorkState::Suspended, WorkState::None]);
            run.reopen(0);
            assert_eq!(state(run.pool(), work)[0], WorkState::Suspended);
            run.pool().start_work(leaf, work, 0).unwrap();
            if work == LeafWork::Trim {
                run.pool().cancel_work(leaf, work).unwrap();
                assert_ne!(state(run.pool(), work)[0], WorkState::Active);
                run.pool().start_work(leaf, work, 1 << 20).unwrap();
            }
            run.reopen(1);
            // It goes on by itself, at the rate that was asked for.
            let now = state(run.pool(), work)[0];
            assert!(matches!(now, WorkState::Active | WorkState::Complete), "{now:?}");
            if now == WorkState::Active {
                run.pool().cancel_work(leaf, work).unwrap();
                assert_eq!(state(run.pool(), work)[0], WorkState::Canceled);
            }
        }
        run.pool().forget_work(leaves(run.pool())[0], LeafWork::Initialize).unwrap();
        assert_eq!(state(run.pool(), LeafWork::Initialize), [WorkState::None; 2]);
        let (bench, model) = run.finish();
        holds_model(&bench, &model, "works");
        bench.zdb();
    });
}

/// Devices fail in the middle of it, more than the pool can do without or fewer; when they are
/// back, it goes on by itself.
#[test]
fn a_work_that_devices_broke_off_goes_on_when_they_are_back() {
    let work = LeafWork::Initialize;
    let all = [(Shape::Disk, 1), (Shape::Mirror, 2), (Shape::Mirror, 1)];
    scenarios((1960..).zip(all), |steps, (shape, failing)| {
        let case = format!("{shape:?}, {failing} fail");
        let mut run = run(steps, shape, 20);
        run.pool().sync().unwrap();
        run.pool().outlast_failures().unwrap();
        // Slow, so that it is under way when they fail.
        let all = leaves(run.pool());
        all.iter().for_each(|l| run.pool().start_work(*l, work, 64 << 20).unwrap());
        let fault = Fault::fail_writes(0..u64::MAX, ErrorKind::Io { errno: 5 });
        run.bench.faults[..failing].iter().for_each(|device| device.add(fault.clone()));
        let broken = run.pool().wait_for_work(work, &all[..failing], LONG);
        assert!(broken.is_err(), "{case}: {broken:?}");
        // What it had done may not have been written down, and that has suspended the pool.
        if !run.pool().is_waiting() {
            run.step();
            assert_eq!(run.pool().sync().is_err(), failing > run.bench.redundancy(), "{case}");
        }
        run.bench.mend();
        if failing > run.bench.redundancy() {
            assert!(run.pool().resume(&run.bench.source()).unwrap(), "{case}");
        } else {
            run.pool().forget_errors(None).unwrap();
            for leaf in run.pool().leaves_away() {
                let source = run.bench.source();
                run.pool().online_leaf(leaf, OwnChanges::Keep, None, &source).unwrap();
            }
        }
        finish(run.pool(), work);
        let ended = state(run.pool(), work);
        assert!(ended.iter().all(|s| *s == WorkState::Complete), "{case}: {ended:?}");
    });
}

/// The power fails after any number of writes: nothing that the last uberblock reaches is gone.
#[test]
fn a_work_may_end_at_any_write() {
    for (seed, work) in (1950..).zip(BOTH) {
        let (mut bench, model) = prepared(seed, Shape::Raidz1, 60).finish();
        let before = bench.devices.clone();
        for writes in super::cuts(29) {
            bench = bench.again_from(&before);
            let pool = bench.import();
            bench.cut_power_after(writes);
            let started = leaves(&pool).iter().try_for_each(|l| pool.start_work(*l, work, 0));
            let ended = pool.wait_for_work(work, &leaves(&pool), LONG);
            let is_done = started.is_ok() && ended == Ok(true) && pool.sync().is_ok();
            drop(pool);
            bench.mend();
            let case = format!("{work:?} after {writes}");
            holds_model(&bench, &model, &case);
            let pool = bench.try_import().unwrap_or_else(|e| panic!("{case}: {e}"));
            finish(&pool, work);
            pool.export().unwrap();
            holds_model(&bench, &model, &case);
            if is_done {
                break;
            }
        }
        bench.zdb();
    }
}
