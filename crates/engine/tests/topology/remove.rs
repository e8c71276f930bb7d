//! Log devices that are taken off the pool, fail, or are said to have failed.

use super::random::Bench;
use super::{EIO, guid, holds, holds_model, prepared, rt, run, state, whole};
use engine::inside::device::Fault;
use engine::inside::vdev::VdevState;
use engine::live::check_import;
use engine::live::{Devices, ImportOptions, LogDevices, NewTop, OfflineMode, SpaceClass};
use engine::{LivePool, OpenOptions};
use poolkit::Shape;
use testkit::scenarios;

/// As in OpenZFS the pool is imported without a word: no log leads to a device that failed, and one
/// that failed by its errors is tried again.
#[test]
fn a_log_device_that_failed_is_not_missing() {
    scenarios([(2450, false), (2451, true)], |steps, is_by_hand| {
        let mut run = run(steps, Shape::DiskAndLog, 40);
        let (leaf, want) = (guid(run.pool(), 1), VdevState::Faulted);
        if is_by_hand {
            run.pool().offline_leaf(leaf, OfflineMode::Faulted).unwrap();
        } else {
            run.bench.faults[1].add(Fault::fail_flushes(EIO));
        }
        (0..20).for_each(|_| run.step());
        run.pool().sync().unwrap();
        assert_eq!(state(run.pool(), 1), want);
        run.bench.faults[1].clear();
        let (bench, model) = run.finish();
        let [candidate] = &bench.candidates()[..] else { panic!("one pool") };
        let open = OpenOptions::default();
        let options = ImportOptions { logs: LogDevices::Needed, ..ImportOptions::new(open) };
        check_import(&rt::Rt::current(), candidate, &options).unwrap();
        let pool = bench.import();
        pool.wait_for_scan().unwrap();
        let want = if is_by_hand { want } else { VdevState::Online };
        assert_eq!(state(&pool, 1), want);
        pool.export().unwrap();
        holds(&bench, &model);
    });
}

fn log_guid(pool: &LivePool) -> Option<u64> {
    let seen = pool.look().unwrap();
    seen.config().vdev_tree.children.iter().find(|top| top.is_log).map(|top| top.guid)
}

/// An exported pool with a log device, which is the last vdev or has one behind it, and the number
/// of that device.
fn with_log(bench: &mut Bench, is_last: bool) -> usize {
    let log = bench.extra();
    let mut new = vec![(log, SpaceClass::Log)];
    if !is_last {
        new.push((bench.extra(), SpaceClass::Normal));
    }
    let devices = new.iter().map(|(n, _)| (format!("mem{n}"), bench.write_ref(*n)));
    let devices: Devices = devices.collect();
    let tops = new.iter().map(|(n, class)| NewTop { spec: bench.leaf(*n), class: *class });
    let pool = bench.import();
    pool.add_tops(&tops.collect::<Vec<_>>(), Some(12), &devices).unwrap();
    pool.export().unwrap();
    log
}

/// The power fails after any number of writes: the pool has the device, or goes without it, whether
/// the device and its old label are there or not.
#[test]
fn a_removal_of_a_log_device_may_end_at_any_write() {
    for (seed, is_last) in [(1600, true), (1601, false)] {
        let (mut bench, model) = prepared(seed, Shape::Disk, 30).finish();
        bench.faults.clear();
        let log = with_log(&mut bench, is_last);
        let before = bench.devices.clone();
        let mut cuts = [0, 0];
        for writes in super::cuts(41) {
            bench = bench.again_from(&before);
            let pool = bench.import();
            let guid = log_guid(&pool).unwrap();
            bench.cut_power_after(writes);
            let is_done = pool.remove_log(guid).is_ok() && pool.sync().is_ok();
            drop(pool);
            bench.mend();
            let case = format!("{is_last} after {writes}");
            let pool = bench.try_import().unwrap_or_else(|e| panic!("{case}: {e}"));
            let left = log_guid(&pool);
            assert!(!is_done || left.is_none(), "{case}");
            cuts[usize::from(left.is_none())] += 1;
            if let Some(guid) = left {
                pool.remove_log(guid).unwrap_or_else(|e| panic!("{case}: {e}"));
            }
            assert_eq!(log_guid(&pool), None);
            pool.export().unwrap();
            whole(&bench, &case);
            bench.away = vec![log];
            holds_model(&bench, &model, &case);
            bench.away.clear();
            if is_done {
                break;
            }
        }
        assert!(cuts.iter().all(|n| *n > 0), "{is_last}: {cuts:?}");
        bench.check(&bench.open()).unwrap();
        bench.zdb();
    }
}
