//! Sequential rebuild: what is allocated is copied in its order, and a scrub follows.

use super::replace::{holds_without, is_settled, may_end_at_any_write, rebuilt, replace};
use super::scrubs::set;
use super::*;
use engine::live::{EventValue, ResilverKind};

fn ends_well(pool: &LivePool, case: &str) {
    pool.wait_for_scan().unwrap();
    assert!(is_whole(pool), "{case}");
    let states = rebuilt(pool);
    assert!(
        states.iter().all(|s| s.state() == State::Finished && s.errors == 0),
        "{case}: {states:?}"
    );
    // Everything was verified, and nothing was wrong.
    let scrub = pool.view().scan_state().unwrap().unwrap();
    assert_eq!((scrub.function(), scrub.state()), (Function::Scrub, State::Finished), "{case}");
    assert_eq!((scrub.processed, scrub.errors), (0, 0), "{case}");
}

#[test]
fn a_leaf_is_replaced_in_order_while_the_pool_is_worked_with() {
    let all = [Shape::Disk, Shape::Mirror, Shape::Draid1, Shape::Draid2];
    scenarios((2300..).zip(all), |steps, shape| {
        for is_away in [false, true] {
            let mut run = run(steps, shape, 80);
            let old = guid(run.pool(), 1 % run.bench.devices.len());
            if is_away && shape != Shape::Disk {
                run.without(vec![1]);
                (0..20).for_each(|_| run.step());
            }
            replace(&mut run, old, ResilverKind::Sequential);
            (0..40).for_each(|_| run.step());
            ends_well(run.pool(), &format!("{shape:?}, {is_away}"));
            // The first group of the last one is on other leaves.
            let bytes = rebuilt(run.pool())[0].bytes_rebuilt;
            assert!(bytes > 0 || shape == Shape::Draid2, "{shape:?}");
            assert!(is_settled(run.pool(), &[old]));
            (0..20).for_each(|_| run.step());
            let (bench, model) = run.finish();
            holds_without(bench, &model, &[if shape == Shape::Disk { 0 } else { 1 }]);
        }
    });
}

#[test]
fn a_mirror_gets_a_side_in_order() {
    scenarios((2310..).zip([Shape::Disk, Shape::Mirror]), |steps, shape| {
        let mut run = run(steps, shape, 80);
        let new = run.bench.extra();
        let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
        run.pool().attach_by(guid(run.pool(), 0), &spec, device, ResilverKind::Sequential).unwrap();
        (0..40).for_each(|_| run.step());
        ends_well(run.pool(), &format!("{shape:?}"));
        let (events, _) = run.pool().events().after(0);
        let of_resilver = events.iter().filter(|e| e.class.contains(".resilver_"));
        let found: Vec<_> = of_resilver.map(|e| (e.class.as_str(), e.members.last())).collect();
        let way = ("resilver_type", EventValue::Text("sequential".to_owned()));
        let [start, finish] = ["start", "finish"].map(|s| format!("sysevent.fs.zfs.resilver_{s}"));
        assert_eq!(found, [(start.as_str(), Some(&way)), (finish.as_str(), Some(&way))]);
        let (mut bench, model) = run.finish();
        bench.zdb();
        // The new side alone has all.
        bench.away = (0..new).collect();
        holds_model(&bench, &model, "the new side");
    });
}

/// A distributed spare is filled in order; the vdev survives as much as before.
#[test]
fn a_distributed_spare_is_filled_in_order() {
    scenarios((2320..).zip([Shape::Draid1, Shape::Draid2]), |steps, shape| {
        let mut run = run(steps, shape, 80);
        run.without(vec![1]);
        (0..20).for_each(|_| run.step());
        let taken = run.pool().take_spares(&run.bench.source()).unwrap();
        assert_eq!(taken.len(), 1);
        (0..20).for_each(|_| run.step());
        run.pool().wait_for_scan().unwrap();
        assert_eq!(rebuilt(run.pool())[0].state(), State::Finished);
        let tree = run.pool().view().vdevs();
        assert!(tree.sides().all(|s| !s.is_written() || s.missed().is_empty()));
        drop(tree);
        let (mut bench, model) = run.finish();
        bench.zdb();
        for other in (0..bench.devices.len()).filter(|n| *n != 1) {
            bench.away = vec![1, other];
            holds_model(&bench, &model, "without the leaf and another");
        }
    });
}

/// One is cut off by an export, and goes on.
#[test]
fn a_rebuild_goes_on() {
    scenarios((2330..).zip([Shape::Mirror, Shape::Draid1]), |steps, shape| {
        let mut run = run(steps, shape, 80);
        run.pool().sync().unwrap();
        set(run.pool(), "zfs_scan_suspend_progress=1");
        let old = guid(run.pool(), 1);
        replace(&mut run, old, ResilverKind::Sequential);
        (0..20).for_each(|_| run.step());
        run.pool().sync().unwrap();
        assert_eq!(rebuilt(run.pool())[0].state(), State::Active);
        assert!(run.pool().scrub().unwrap_err().to_string().contains("sequentially resilvering"));
        run.without(Vec::new());
        ends_well(run.pool(), &format!("{shape:?}"));
        let (bench, model) = run.finish();
        holds_without(bench, &model, &[1]);
    });
}

/// Another device comes while one runs, and it begins anew; the devices go, and it is called off.
#[test]
fn a_rebuild_begins_anew_and_is_called_off() {
    scenario(2340, |steps| {
        let mut run = run(steps, Shape::Mirror, 80);
        set(run.pool(), "zfs_scan_suspend_progress=1");
        let new = run.bench.extra();
        let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
        run.pool().attach_by(guid(run.pool(), 0), &spec, device, ResilverKind::Sequential).unwrap();
        let first = rebuilt(run.pool())[0].max_txg;
        let more = run.bench.extra();
        let (spec, device) = (run.bench.leaf(more), run.bench.write_ref(more));
        let healing = run.pool().attach(guid(run.pool(), 0), &spec, device.clone());
        assert!(healing.unwrap_err().to_string().contains("sequentially resilvering"));
        run.pool().attach_by(guid(run.pool(), 0), &spec, device, ResilverKind::Sequential).unwrap();
        assert!(rebuilt(run.pool())[0].max_txg > first);
        let side = |run: &Run, n| guid(run.pool(), n);
        run.pool().detach(side(&run, 3)).unwrap();
        run.pool().detach(side(&run, 2)).unwrap();
        set(run.pool(), "zfs_scan_suspend_progress=0");
        run.pool().wait_for_scan().unwrap();
        assert_eq!(rebuilt(run.pool())[0].state(), State::Canceled);
        let (bench, model) = run.finish();
        holds_without(bench, &model, &[2, 3]);
    });
}

#[test]
fn what_cannot_be_rebuilt_is_refused() {
    scenario(2350, |steps| {
        let mut run = run(steps, Shape::Raidz1, 10);
        let new = run.bench.extra();
        let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
        let old = guid(run.pool(), 0);
        let refused =
            run.pool().replace_by(old, &spec, device, ResilverKind::Sequential).unwrap_err();
        assert!(refused.to_string().contains("only mirror and dRAID vdevs"), "{refused}");
    });
}

/// What a rebuild reads is not verified, so no side is blamed for what another one answers. The
/// scrub that follows makes good what was copied wrong.
#[test]
fn a_rebuild_blames_no_device_for_what_another_answers() {
    scenarios((2380..).zip([Shape::Mirror, Shape::Draid2]), |steps, shape| {
        // What has no checksum stays as it was copied.
        let mut run = run_with(steps, shape, 80, |run| run.has_checksums = true);
        run.pool().sync().unwrap();
        let old = guid(run.pool(), 1);
        let content = 4 << 20..DEVICE_BYTES - (512 << 10);
        run.bench.faults[1].add(Fault::flip(content, 1));
        let new = run.bench.devices.len();
        replace(&mut run, old, ResilverKind::Sequential);
        run.pool().wait_for_scan().unwrap();
        let names = [1, new].map(|n| format!("mem{n}"));
        for leaf in run.pool().view().vdevs().leaves() {
            let errors = leaf.read_errors() + leaf.write_errors() + leaf.checksum_errors();
            let may_err = names.iter().any(|name| name == leaf.name());
            assert!(errors == 0 || may_err, "{shape:?}: {} has {errors} errors", leaf.name());
        }
        run.pool().forget_errors(None).unwrap();
        run.pool().scrub().unwrap();
        ends_well(run.pool(), &format!("{shape:?}"));
        assert!(is_settled(run.pool(), &[old]), "{shape:?}");
        let (bench, model) = run.finish();
        holds_without(bench, &model, &[1]);
    });
}

/// The power fails after any number of writes of a rebuild: the next import goes on with it.
#[test]
fn a_rebuild_may_end_at_any_write() {
    for (seed, shape) in (2360..).zip([Shape::Mirror, Shape::Draid1]) {
        may_end_at_any_write(seed, shape, ResilverKind::Sequential, 29);
    }
}
