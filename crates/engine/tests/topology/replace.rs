//! Devices that take others' places, in every redundant layout.

use super::*;
use engine::inside::ondisk::scan::RebuildState;
use engine::live::ResilverKind;
use engine::{PropertyChange, StoredValue};
use poolkit::HookedDevice;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

const ALL: [Shape; 6] =
    [Shape::Disk, Shape::Mirror, Shape::Raidz1, Shape::Raidz2, Shape::Raidz3, Shape::Draid2];

/// Begins to replace a leaf by a new device.
pub(super) fn replace(run: &mut Run, leaf: u64, kind: ResilverKind) {
    let new = run.bench.extra();
    let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
    run.pool().replace_by(leaf, &spec, device, kind).unwrap();
}

/// How far the vdevs are that are rebuilt in order.
pub(super) fn rebuilt(pool: &LivePool) -> Vec<RebuildState> {
    let all = pool.look().unwrap().rebuild_states().unwrap();
    all.into_iter().map(|(_, state)| state).collect()
}

/// The tree has no vdev that is there for a replacement only, and none of these leaves.
pub(super) fn is_settled(pool: &LivePool, gone: &[u64]) -> bool {
    let tree = pool.look().unwrap().config().vdev_tree.clone();
    !has(pool, "replacing") && !tree.walk().any(|v| gone.contains(&v.guid))
}

/// These devices are not there, and nothing is missing; nor is it without as many of the others as
/// the layout survives.
pub(super) fn survives_without(mut bench: Bench, model: &random::Model, gone: &[usize]) {
    bench.away = gone.to_vec();
    Run::compare(&bench, model).unwrap();
    bench.zdb();
    let left: Vec<usize> = (0..bench.devices.len()).filter(|n| !gone.contains(n)).collect();
    for away in groups_away(&left, bench.redundancy()) {
        bench.away = gone.iter().copied().chain(away).collect();
        holds_model(&bench, model, "without some");
    }
}

/// The same, and the pool knows these devices no more.
pub(super) fn holds_without(mut bench: Bench, model: &random::Model, gone: &[usize]) {
    bench.away = gone.to_vec();
    bench.check(&bench.open()).unwrap();
    survives_without(bench, model, gone);
}

#[test]
fn any_leaf_is_replaced_while_the_pool_is_worked_with() {
    scenarios((1200..).zip(ALL), |steps, shape| {
        let mut run = run(steps, shape, 60);
        let old = (0..run.bench.redundancy().max(1)).collect::<Vec<_>>();
        let guids: Vec<u64> = old.iter().map(|n| guid(run.pool(), *n)).collect();
        for leaf in &guids {
            replace(&mut run, *leaf, ResilverKind::Healing);
            (0..20).for_each(|_| run.step());
        }
        run.pool().wait_for_scan().unwrap();
        assert!(is_whole(run.pool()) && is_settled(run.pool(), &guids), "{shape:?}");
        let done = run.pool().view().scan_state().unwrap().unwrap();
        assert_eq!((done.state(), done.errors), (State::Finished, 0));
        (0..20).for_each(|_| run.step());
        let (bench, model) = run.finish();
        holds_without(bench, &model, &old);
    });
}

/// A device may be smaller than the one whose place it takes, as long as all metaslabs fit; one
/// that is smaller than that by any byte is refused, and changes nothing.
#[test]
fn a_smaller_device_takes_the_place_of_another_where_it_fits() {
    scenarios((1240..).zip(ALL), |steps, shape| {
        // The smallest device that OpenZFS takes has less than is used of these.
        let bench = Bench::new(shape, DEVICE_BYTES * 3 / 2 + (1 << 20), 12);
        let mut run = Run::new(steps.seed(), bench).following(steps);
        (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
        (0..60).for_each(|_| run.step());
        let old = guid(run.pool(), 0);
        let fits = run.pool().size_needed(old).unwrap();
        assert!(fits < run.bench.write_ref(0).size(), "{shape:?}: {fits}");
        let new = run.bench.devices.len();
        let device = |bytes| Arc::new(MemoryDevice::zeros(&format!("mem{new}"), bytes));
        let spec = run.bench.leaf(new);
        let small = run.pool().replace(old, &spec, device(fits - 1)).unwrap_err().to_string();
        assert!(small.contains("device is too small"), "{shape:?}: {small}");
        assert!(!has(run.pool(), "replacing"), "{shape:?}");
        let small = device(fits);
        run.bench.devices.push(Arc::clone(&small));
        run.pool().replace(old, &spec, small).unwrap();
        (0..20).for_each(|_| run.step());
        run.pool().wait_for_scan().unwrap();
        assert!(is_whole(run.pool()) && is_settled(run.pool(), &[old]), "{shape:?}");
        // It is written to like any other.
        random::add_large(run.pool(), 8 << 20);
        let (mut bench, _) = run.finish();
        bench.away = vec![0];
        bench.check(&bench.open()).unwrap();
        bench.zdb();
        let pool = bench.import();
        assert!(is_whole(&pool), "{shape:?}");
        pool.export().unwrap();
    });
}

/// The sync of a txg takes the device in while a later one is open, of which a log has had blocks
/// written before: the device lacks them too.
#[test]
fn a_device_is_brought_what_logs_wrote_before_it_came() {
    scenarios((1250..).zip([Shape::Mirror, Shape::Raidz1, Shape::Raidz2]), |steps, shape| {
        let mut run = run(steps, shape, 20);
        // Whole blocks go to where they belong.
        let bias = PropertyChange { name: "logbias".into(), value: Some(StoredValue::Number(1)) };
        run.pool().create_volume("tank/early", 4 << 20, 16384, vec![bias]).unwrap();
        let volume = run.pool().volume("tank/early").unwrap();
        volume.write_at(0, &[1; 512]).unwrap();
        volume.flush().unwrap();
        run.pool().sync().unwrap();
        let new = run.bench.extra();
        let (comes, has_come) = mpsc::channel();
        let (written, is_written) = mpsc::channel();
        let meet = move || {
            comes.send(()).unwrap();
            is_written.recv_timeout(Duration::from_secs(120)).unwrap();
        };
        let first = Mutex::new(Some(meet));
        let on_write = move |batch| {
            let meet = first.lock().unwrap().take();
            meet.into_iter().for_each(|meet| meet());
            batch
        };
        let device = Arc::new(HookedDevice::new(run.bench.write_ref(new), Box::new(on_write)));
        let (pool, spec, old) = (run.pool(), run.bench.leaf(new), guid(run.pool(), 1));
        std::thread::scope(|scope| {
            let replaced = scope.spawn(|| pool.replace(old, &spec, device));
            has_come.recv().unwrap();
            let before = pool.log_stats().early;
            let mut bytes = vec![0; 1 << 20];
            Rng::new(steps.seed()).fill(&mut bytes);
            volume.write_at(1 << 20, &bytes).unwrap();
            volume.flush().unwrap();
            assert!(pool.log_stats().early >= before + 64, "{shape:?}");
            written.send(()).unwrap();
            replaced.join().unwrap().unwrap();
        });
        pool.wait_for_scan().unwrap();
        assert!(is_whole(pool) && is_settled(pool, &[old]), "{shape:?}");
        drop(volume);
        let (mut bench, _) = run.finish();
        bench.away = vec![1];
        whole(&bench, &format!("{shape:?}"));
        bench.zdb();
    });
}

/// As many leaves as the layout survives are gone, and are replaced; what they had is computed.
#[test]
fn leaves_that_are_gone_are_replaced() {
    scenarios((1300..).zip(REDUNDANT), |steps, shape| {
        let mut run = run(steps, shape, 60);
        let old = (0..run.bench.redundancy()).collect::<Vec<_>>();
        run.without(old.clone());
        (0..30).for_each(|_| run.step());
        let guids: Vec<u64> = old.iter().map(|n| guid(run.pool(), *n)).collect();
        for leaf in &guids {
            replace(&mut run, *leaf, ResilverKind::Healing);
        }
        (0..20).for_each(|_| run.step());
        run.pool().wait_for_scan().unwrap();
        assert!(is_whole(run.pool()) && is_settled(run.pool(), &guids), "{shape:?}");
        assert_eq!(run.pool().view().vdevs().root().state(), VdevState::Online);
        let (bench, model) = run.finish();
        holds_without(bench, &model, &old);
    });
}

/// The new device is taken off before it has all: the old one stays, as if nothing had been. Or it
/// is replaced itself: the last one that came stays.
#[test]
fn a_replacement_is_called_off_or_replaced_itself() {
    scenarios((1400..).zip([Shape::Mirror, Shape::Raidz2]), |steps, shape| {
        let mut run = run(steps, shape, 60);
        let old = guid(run.pool(), 1);
        // It takes nothing: it does not come to its end.
        let new = run.bench.extra();
        let device = Arc::clone(&run.bench.devices[new]);
        let broken = Arc::new(RwFaultDevice::new(device as _));
        run.pool().replace(old, &run.bench.leaf(new), Arc::clone(&broken) as _).unwrap();
        broken.add(Fault::fail_writes(0..u64::MAX, EIO));
        (0..20).for_each(|_| run.step());
        run.pool().sync().unwrap();
        let _ = run.pool().wait_for_scan();
        let seen = run.pool().look().unwrap();
        let sides = seen.config().vdev_tree.walk().find(|v| v.kind.name() == "replacing");
        let guids: Vec<u64> = sides.unwrap().children.iter().map(|c| c.guid).collect();
        assert_eq!((guids.len(), guids[0]), (2, old));
        if shape == Shape::Mirror {
            run.pool().detach(guids[1]).unwrap();
            (0..20).for_each(|_| run.step());
            assert!(is_settled(run.pool(), &guids[1..]) && is_whole(run.pool()));
            let (bench, model) = run.finish();
            holds_without(bench, &model, &[new]);
        } else {
            replace(&mut run, guids[1], ResilverKind::Healing);
            (0..20).for_each(|_| run.step());
            run.pool().wait_for_scan().unwrap();
            assert!(is_whole(run.pool()) && is_settled(run.pool(), &guids));
            let (bench, model) = run.finish();
            holds_without(bench, &model, &[1, new]);
        }
    });
}

/// The power fails after any number of writes of a replacement: the next import goes on with it.
#[test]
fn a_replacement_may_end_at_any_write() {
    for (seed, shape) in (1500..).zip([Shape::Disk, Shape::Mirror, Shape::Raidz1]) {
        may_end_at_any_write(seed, shape, ResilverKind::Healing, 23);
    }
}

/// One in `step` of the writes of a replacement is tried.
pub(super) fn may_end_at_any_write(seed: u64, shape: Shape, kind: ResilverKind, step: usize) {
    let mut run = prepared(seed, shape, 30);
    let old = guid(run.pool(), 0);
    let new = run.bench.extra();
    let (mut bench, model) = run.finish();
    let before = bench.devices.clone();
    for writes in super::cuts(step) {
        bench = bench.again_from(&before);
        let pool = bench.import();
        bench.cut_power_after(writes);
        let replaced = pool.replace_by(old, &bench.leaf(new), bench.write_ref(new), kind);
        let is_done = replaced.is_ok() && pool.wait_for_scan().is_ok() && pool.sync().is_ok();
        let is_done = is_done && is_settled(&pool, &[old]);
        drop(pool);
        bench.mend();
        let case = format!("{shape:?} after {writes}");
        let pool = bench.try_import().unwrap_or_else(|e| panic!("{case}: {e}"));
        let away = |n: &usize| {
            let tree = pool.view().vdevs();
            tree.leaves().nth(*n).is_some_and(|l| pool.leaves_away().contains(&l.guid()))
        };
        (0..bench.devices.len()).filter(away).for_each(|n| online_leaf(&pool, &bench, n));
        pool.wait_for_scan().unwrap();
        assert!(is_whole(&pool), "{case}: {:?}", rebuilt(&pool));
        let tree = pool.look().unwrap().config().vdev_tree.clone();
        assert!(is_settled(&pool, &[]), "{case}: {tree:?}");
        pool.export().unwrap();
        bench.away = vec![if tree.find(old).is_some() { new } else { 0 }];
        holds_model(&bench, &model, &case);
        bench.away.clear();
        if is_done {
            break;
        }
    }
}

/// One flush fails, once, of a device that the pool cannot do without while a leaf is gone and its
/// replacement is filled: the pool is suspended, and goes on when it is told to.
#[test]
fn a_pool_that_is_suspended_while_a_replacement_is_filled_goes_on() {
    scenario(1600, |steps| {
        let mut suspended = 0;
        for after in [0, 1, 3, 6] {
            let mut run = run(steps, Shape::Raidz1, 60);
            run.without(vec![0]);
            run.pool().outlast_failures().unwrap();
            (0..20).for_each(|_| run.step());
            let old = guid(run.pool(), 0);
            replace(&mut run, old, ResilverKind::Healing);
            run.bench.faults[1].add(Fault::fail_flushes(EIO).after(after).times(1));
            let _ = (0..10).try_for_each(|_| run.pool().sync());
            if run.pool().is_waiting() {
                suspended += 1;
                assert!(run.pool().resume(&run.bench.source()).unwrap(), "after {after}");
            }
            run.pool().forget_errors(None).unwrap();
            for guid in run.pool().leaves_away() {
                let _ = run.pool().online_leaf(guid, OwnChanges::Keep, None, &run.bench.source());
            }
            (0..20).for_each(|_| run.step());
            run.pool().wait_for_scan().unwrap();
            run.pool().sync().unwrap();
            run.pool().wait_for_scan().unwrap();
            assert!(is_whole(run.pool()) && is_settled(run.pool(), &[old]), "after {after}");
            let (bench, model) = run.finish();
            holds_without(bench, &model, &[0]);
        }
        assert!(suspended > 2, "{suspended}");
    });
}

/// The process is killed while a new side has nothing yet: what the next one reads before it knows
/// that is no error of the side.
#[test]
fn a_side_is_not_blamed_for_what_it_has_not_been_brought() {
    scenario(2460, |steps| {
        let bench = Bench::new(Shape::Disk, DEVICE_BYTES, 12);
        let mut run = Run::new(steps.seed(), bench).following(steps);
        (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
        (0..20).for_each(|_| run.step());
        run.pool().sync().unwrap();
        super::scrubs::set(run.pool(), "zfs_scan_suspend_progress=1");
        let new = run.bench.extra();
        let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
        run.pool().attach(guid(run.pool(), 0), &spec, device).unwrap();
        let mut bench = run.cut();
        let before = bench.devices.clone();
        // Which side is read is not always the same.
        for n in 0..8 {
            bench = bench.again_from(&before);
            let pool = bench.import();
            let seen = pool.look().unwrap();
            let tree = seen.vdevs();
            let errors: Vec<u64> = tree.leaves().map(|leaf| leaf.checksum_errors()).collect();
            assert_eq!((errors, seen.faults().count()), (vec![0, 0], 0), "{n}");
            drop(seen);
            pool.wait_for_scan().unwrap();
            assert!(is_whole(&pool), "{n}");
            pool.export().unwrap();
        }
    });
}
