//! Devices that have grown.

use super::random::add_large;
use super::*;
use engine::inside::device::Device;
use engine::inside::pool::Section;
use engine::live::StoredPropertyValue;
use poolkit::Shape;

const GROWN_BYTES: u64 = 200 << 20;

/// More than a device had room for.
const LARGE_BYTES: u64 = 70 << 20;

const SHAPES: [Shape; 7] = [
    Shape::Disk,
    Shape::Disks3,
    Shape::Mirror,
    Shape::Raidz1,
    Shape::Raidz2,
    Shape::Special,
    Shape::MirrorAndLogs,
];

fn sizes(pool: &LivePool) -> Vec<u64> {
    pool.look().unwrap().space().tops.iter().map(|top| top.size()).collect()
}

fn room_to_grow(pool: &LivePool) -> u64 {
    let seen = pool.look().unwrap();
    let view = seen.vdev_view(&seen.space());
    let sections = Section::ALL.iter().flat_map(|section| view.section(*section));
    sections.map(|vdev| vdev.expand_size).sum()
}

/// The devices end somewhere else from now on, and what is behind the old end is anything.
fn lengthen(bench: &Bench, which: &[usize]) {
    let garbage = vec![0xa5; 1 << 20];
    for device in which.iter().map(|n| &bench.devices[*n]) {
        device.lengthen(GROWN_BYTES);
        for at in [device.size(), GROWN_BYTES - (1 << 20)] {
            device.put(at, &garbage);
        }
    }
}

fn expand_all(pool: &LivePool) {
    let leaves: Vec<u64> = pool.view().vdevs().leaves().map(|l| l.guid()).collect();
    pool.expand(&leaves).unwrap();
}

/// Leaves of the top-level vdev that the last device is in.
fn last_top(bench: &Bench) -> usize {
    match bench.shape {
        Shape::Disk | Shape::Disks3 => 1,
        Shape::Special | Shape::MirrorAndLogs => 2,
        _ => bench.devices.len(),
    }
}

/// All devices of a vdev but one, and then this one too, while the pool is worked with.
#[test]
fn what_devices_have_grown_by_is_used() {
    scenarios((2100..).zip(SHAPES), |steps, shape| {
        let mut run = run(steps, shape, 60);
        let (all, before) = (run.bench.devices.len(), sizes(run.pool()));
        lengthen(&run.bench, &(0..all - 1).collect::<Vec<_>>());
        expand_all(run.pool());
        let some = sizes(run.pool());
        assert_eq!(some.last(), before.last(), "{shape:?}: one is as it was");
        let has_others = last_top(&run.bench) < all;
        assert_eq!(some[0] > before[0], has_others, "{shape:?}");
        (0..20).for_each(|_| run.step());
        lengthen(&run.bench, &[all - 1]);
        assert!(room_to_grow(run.pool()) > 0, "{shape:?}");
        expand_all(run.pool());
        let grown = sizes(run.pool());
        assert_eq!(room_to_grow(run.pool()), 0, "{shape:?}");
        assert!(grown.iter().zip(&before).all(|(now, then)| *now > 2 * then), "{grown:?}");
        // As much as there was.
        let logs = usize::from(shape == Shape::MirrorAndLogs);
        add_large(run.pool(), before[..before.len() - logs].iter().sum());
        run.pool().sync().unwrap();
        let first = run.pool().look().unwrap().space().tops[0].clone();
        let new = first.metaslabs.iter().skip((before[0] >> first.metaslab_shift) as usize);
        assert!(new.map(|m| m.allocated).sum::<u64>() > 0, "{shape:?}: nothing is there");
        run.bench.zdb();
        run.pool().destroy_dataset("tank/large").unwrap();
        (0..40).for_each(|_| run.step());
        run.pool().sync().unwrap();
        no_problems(run.pool());
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// Devices that grew while the pool was not open: they are used when that is asked for, or by the
/// import itself when the property says so.
#[test]
fn an_import_uses_what_devices_have_grown_by() {
    scenarios((2120..).zip([Shape::Disk, Shape::Mirror, Shape::Raidz1]), |steps, shape| {
        for is_wanted in [false, true] {
            let mut run = run(steps, shape, 40);
            let before = sizes(run.pool());
            if is_wanted {
                let on = StoredPropertyValue::Number(1);
                run.pool().set_pool_property("autoexpand", on).unwrap();
            }
            lengthen(&run.bench, &(0..run.bench.devices.len()).collect::<Vec<_>>());
            run.bench.devices.iter().for_each(|device| device.grow());
            run.reopen(0);
            assert_eq!(sizes(run.pool()) != before, is_wanted, "{shape:?}");
            expand_all(run.pool());
            assert!(sizes(run.pool())[0] > 2 * before[0], "{shape:?}");
            (0..40).for_each(|_| run.step());
            let (bench, model) = run.finish();
            holds_on_each(bench, &model);
        }
    });
}

/// The power fails after any number of writes: the pool has the space, or not yet, and is whole.
#[test]
fn growing_may_end_at_any_write() {
    for (seed, shape) in [(2140, Shape::Disk), (2141, Shape::Mirror), (2142, Shape::Raidz1)] {
        let (mut bench, model) = prepared(seed, shape, 30).finish();
        bench.faults.clear();
        let before = bench.devices.clone();
        let mut cuts = [0, 0];
        for writes in super::cuts(5) {
            bench = bench.again_from(&before);
            let pool = bench.import();
            let size = sizes(&pool)[0];
            lengthen(&bench, &(0..bench.devices.len()).collect::<Vec<_>>());
            bench.cut_power_after(writes);
            let leaves: Vec<u64> = pool.view().vdevs().leaves().map(|l| l.guid()).collect();
            let is_done = pool.expand(&leaves).and_then(|()| pool.sync()).is_ok();
            drop(pool);
            bench.devices.iter().for_each(|device| device.grow());
            bench.mend();
            let case = format!("{shape:?} after {writes}");
            let pool = bench.try_import().unwrap_or_else(|e| panic!("{case}: {e}"));
            let has_grown = sizes(&pool)[0] > size;
            assert!(has_grown || !is_done, "{case}");
            cuts[usize::from(has_grown)] += 1;
            expand_all(&pool);
            assert!(sizes(&pool)[0] > size, "{case}");
            pool.export().unwrap();
            holds_model(&bench, &model, &case);
            if is_done {
                break;
            }
        }
        assert!(cuts.iter().all(|n| *n > 0), "{shape:?}: {cuts:?}");
        bench.check(&bench.open()).unwrap();
        bench.zdb();
    }
}

/// A pool that has grown since its checkpoint goes back, and can grow again.
#[test]
fn a_checkpoint_is_of_the_size_of_its_time() {
    scenario(2160, |steps| {
        let run = run(steps, Shape::Mirror, 40);
        run.pool().sync().unwrap();
        let (kept, before) = (run.model.clone(), sizes(run.pool()));
        run.pool().checkpoint().unwrap();
        lengthen(&run.bench, &[0, 1]);
        expand_all(run.pool());
        assert!(sizes(run.pool())[0] > before[0]);
        add_large(run.pool(), LARGE_BYTES);
        let (bench, _) = run.finish();
        bench.zdb();
        let pool = bench.rewind().unwrap();
        assert_eq!(sizes(&pool), before);
        expand_all(&pool);
        assert!(sizes(&pool)[0] > before[0]);
        pool.export().unwrap();
        holds(&bench, &kept);
    });
}
