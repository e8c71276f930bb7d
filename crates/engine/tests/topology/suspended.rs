//! More leaves fail than the pool can do without: it is suspended, and goes on with nothing lost.

use super::*;
use engine::files::{NewFile, NewKind, Time};
use engine::inside::device::{self, DeviceRef, DeviceSource, WriteDeviceRef};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::{FailMode, NewFilesystem, StoredPropertyValue};
use engine::live::Devices;
use engine::pools::Section;
use engine::upkeep::{PoolAccess, Upkeep, UpkeepWork};
use std::path::{Path, PathBuf};

const SHAPES: [Shape; 4] = [Shape::Disk, Shape::Mirror, Shape::Raidz1, Shape::Raidz2];

/// In what way leaves fail that the pool cannot do without, after this many requests.
fn ways(after: u64) -> [(&'static str, Vec<Fault>); 4] {
    let all = 0..u64::MAX;
    let lost = Fault::lose_writes(all.clone());
    [
        ("writes fail", vec![Fault::fail_writes(all.clone(), EIO).after(after)]),
        ("it is pulled out", vec![Fault::fail_writes(all, ErrorKind::Gone).after(after)]),
        ("flushes fail", vec![Fault::fail_flushes(EIO).after(after / 8)]),
        // As a disk with a cache that lost its power: it took all, and has nothing.
        ("it forgets", vec![lost, Fault::fail_flushes(EIO)]),
    ]
}

fn fail(run: &Run, leaves: usize, faults: &[Fault]) {
    for device in &run.bench.faults[..leaves] {
        faults.iter().for_each(|fault| device.add(fault.clone()));
    }
}

fn mend(run: &Run) {
    run.bench.mend();
}

/// What stands while the pool is suspended, and what does not.
fn is_suspended(pool: &LivePool, case: &str) {
    assert!(pool.is_waiting() && pool.suspended().is_some(), "{case}");
    assert_eq!(pool.look().unwrap().health(), "SUSPENDED", "{case}");
    let refused = pool.sync().unwrap_err().to_string();
    assert!(refused.contains("is suspended"), "{case}: {refused}");
}

/// Nothing can be read either, and nothing of what was read is in memory.
#[test]
fn who_looks_at_a_pool_without_devices_is_told_so() {
    scenario(1790, |steps| {
        let (bench, _) = run(steps, Shape::Disk, 40).finish();
        let pool = bench.import_without_cache();
        pool.outlast_failures().unwrap();
        pool.set_fail_mode(FailMode::Continue);
        for fault in [Fault::fail(0..u64::MAX, EIO), Fault::fail_writes(0..u64::MAX, EIO)] {
            bench.faults[0].add(fault);
        }
        pool.set_pool_property("comment", StoredPropertyValue::Text("its".to_owned())).unwrap_err();
        let seen = pool.look().unwrap();
        assert!(seen.error_log().is_err(), "something was read");
        assert_eq!(seen.health(), "SUSPENDED");
        assert_eq!(seen.status(&seen.space()).health, "SUSPENDED");
        assert!(seen.features().count("com.delphix:zpool_checkpoint").is_some());
    });
}

/// A device that is away has not lost what is on it; one that is there and cannot read has.
#[test]
fn what_could_not_be_read_while_devices_were_away_is_not_lost() {
    scenario(1792, |steps| {
        for (kind, is_lost) in [(ErrorKind::Gone, false), (ErrorKind::NoAnswer, false), (EIO, true)]
        {
            for shape in [Shape::Disk, Shape::Mirror] {
                let (bench, _) = run(steps, shape, 40).finish();
                let pool = bench.import_without_cache();
                bench.faults.iter().for_each(|d| d.add(Fault::fail(0..u64::MAX, kind)));
                assert!(pool.look().unwrap().error_log().is_err(), "something was read");
                bench.mend();
                let wrong: u64 = pool.view().vdevs().walk().map(|n| n.checksum_errors()).sum();
                assert_eq!(wrong, 0, "{shape:?}, {kind:?}: nothing was read");
                pool.forget_errors(None).unwrap();
                pool.sync().unwrap();
                let logged = pool.look().unwrap().error_log().unwrap().blocks;
                assert_eq!(!logged.is_empty(), is_lost, "{shape:?}, {kind:?}: {logged:?}");
                let (events, _) = pool.events().after(0);
                let is_reported = events.iter().any(|e| e.class == "ereport.fs.zfs.data");
                assert_eq!(is_reported, is_lost, "{shape:?}, {kind:?}");
            }
        }
    });
}

/// Nothing fails any more: all leaves are used again, and have what they missed.
fn all_come_back(run: &Run) {
    mend(run);
    run.pool().forget_errors(None).unwrap();
    for guid in run.pool().leaves_away() {
        let source = run.bench.source();
        run.pool().online_leaf(guid, OwnChanges::Keep, None, &source).unwrap();
    }
    run.pool().wait_for_scan().unwrap();
    run.pool().sync().unwrap();
}

/// Leaves fail at some of the requests of many txgs, each time more than the pool can do without;
/// when they are back, everything is there.
#[test]
fn a_suspended_pool_goes_on_with_nothing_lost() {
    scenarios((1700..).zip(SHAPES), |steps, shape| {
        let mut run = run(steps, shape, 40);
        run.pool().sync().unwrap();
        run.pool().outlast_failures().unwrap();
        let leaves = run.bench.redundancy() + 1;
        let mut suspended = 0;
        for after in [0, 7, 30] {
            for (way, faults) in ways(after) {
                let case = format!("{shape:?}, {way} after {after}");
                (0..8).for_each(|_| run.step());
                fail(&run, leaves, &faults);
                let synced = run.pool().sync();
                if synced.is_err() {
                    suspended += 1;
                    is_suspended(run.pool(), &case);
                    let source = run.bench.source();
                    run.pool().resume(&source).expect_err("they are not back");
                    is_suspended(run.pool(), &case);
                    mend(&run);
                    assert!(run.pool().resume(&source).unwrap(), "{case}");
                }
                all_come_back(&run);
            }
        }
        assert!(suspended > 5, "{shape:?}: {suspended}");
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// Whatever it waited for, what was durable is there when it ends instead.
#[test]
fn a_suspended_pool_that_ends_has_what_was_durable() {
    scenarios((1750..).zip(SHAPES), |steps, shape| {
        let mut run = run(steps, shape, 40);
        run.pool().sync().unwrap();
        run.pool().outlast_failures().unwrap();
        run.step();
        fail(&run, run.bench.redundancy() + 1, &ways(0)[3].1);
        run.pool().sync().unwrap_err();
        is_suspended(run.pool(), "it ends");
        run.pool().stop_waiting();
        assert!(!run.pool().is_waiting() && run.pool().suspended().is_some());
        mend(&run);
        let bench = run.abandon();
        whole(&bench, &format!("{shape:?}"));
    });
}

/// A program that wants to change something waits, or is told, as `failmode` says.
#[test]
fn who_writes_to_a_suspended_pool_waits_or_is_told() {
    scenario(1790, |steps| {
        for mode in [FailMode::Wait, FailMode::Continue] {
            let run = run(steps, Shape::Disk, 10);
            let pool = run.pool();
            pool.outlast_failures().unwrap();
            pool.set_fail_mode(mode);
            let fs = pool.filesystem("tank").unwrap();
            fail(&run, 1, &ways(0)[0].1);
            let new = NewFile::new(NewKind::File, 0o644, Time { seconds: 1, nanos: 0 });
            let make = |name: &[u8]| fs.create(fs.root_object(), name, &new);
            make(b"before").unwrap();
            pool.sync().unwrap_err();
            let wrote = std::thread::scope(|scope| {
                let writer = scope.spawn(|| make(b"while").is_ok());
                if mode == FailMode::Continue {
                    return writer.join().unwrap();
                }
                mend(&run);
                pool.resume(&run.bench.source()).unwrap();
                writer.join().unwrap()
            });
            assert_eq!(wrote, mode == FailMode::Wait);
            mend(&run);
            // It was resumed already, or is now.
            pool.resume(&run.bench.source()).unwrap();
            pool.sync().unwrap();
        }
    });
}

/// What a command changes waits in no pool that is suspended, and is not made later.
#[test]
fn what_is_given_up_while_the_pool_is_suspended_is_not_made_later() {
    scenario(1791, |steps| {
        let run = run(steps, Shape::Disk, 10);
        let pool = run.pool();
        pool.outlast_failures().unwrap();
        pool.set_fail_mode(FailMode::Wait);
        let fs = pool.filesystem("tank").unwrap();
        let hasty = fs.unless_suspended();
        let new = NewFile::new(NewKind::Dir, 0o755, Time { seconds: 1, nanos: 0 });
        let root = fs.root_object();
        let before = hasty.create(root, b"before", &new).unwrap().number();
        fail(&run, 1, &ways(0)[0].1);
        pool.sync().unwrap_err();
        let refused = hasty.create(root, b"while", &new).err().unwrap().to_string();
        assert!(refused.contains("I/O is suspended"), "{refused}");
        assert!(hasty.create(before, b"below", &new).is_err());
        hasty.unlink(root, b"before", Time { seconds: 2, nanos: 0 }).unwrap_err();
        mend(&run);
        pool.resume(&run.bench.source()).unwrap();
        pool.sync().unwrap();
        let names = |path: &[u8]| fs.by_path(path, true).is_ok();
        assert!(names(b"/before") && !names(b"/while") && !names(b"/before/below"));
        hasty.create(root, b"after", &new).unwrap();
    });
}

/// A pool of a program that is not told when devices are back stops, as does one with
/// `failmode=panic`.
#[test]
fn a_pool_that_is_not_resumed_stops() {
    scenario(1795, |steps| {
        for outlasts in [false, true] {
            let mut run = run(steps, Shape::Disk, 10);
            if outlasts {
                run.pool().outlast_failures().unwrap();
                run.pool().set_fail_mode(FailMode::Panic);
            }
            run.step();
            fail(&run, 1, &ways(0)[0].1);
            run.pool().sync().unwrap_err();
            assert!(!run.pool().is_waiting() && run.pool().suspended().is_some());
            assert!(!run.pool().resume(&run.bench.source()).unwrap(), "there is nothing to resume");
            let _ = run.abandon();
        }
    });
}

/// Devices are away from one of the reads of a sync on, and nothing of what it needs is in memory:
/// it waits, and goes on when they are back.
#[test]
fn a_sync_that_cannot_read_waits_for_its_devices() {
    scenario(1797, |steps| {
        for shape in [Shape::Disk, Shape::Mirror, Shape::Raidz1] {
            let (bench, _) = run(steps, shape, 40).finish();
            let pool = bench.import_without_cache();
            pool.outlast_failures().unwrap();
            let mend = || bench.mend();
            let names: Vec<String> = (0..24).map(|after| format!("tank/away{after}")).collect();
            let mut suspended = 0;
            for (after, name) in (0..).zip(&names) {
                let gone = Fault::fail(0..u64::MAX, ErrorKind::Gone).after(after);
                bench.faults.iter().for_each(|device| device.add(gone.clone()));
                std::thread::scope(|scope| {
                    let make =
                        || pool.create_filesystem(name, NewFilesystem::default(), Vec::new());
                    let maker = scope.spawn(make);
                    while !maker.is_finished() || pool.is_waiting() {
                        if pool.is_waiting() {
                            suspended += 1;
                            assert_eq!(pool.look().unwrap().health(), "SUSPENDED");
                            mend();
                            assert!(pool.resume(&bench.source()).unwrap(), "{shape:?}, {after}");
                        }
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                });
                mend();
                pool.sync().unwrap_or_else(|e| panic!("{shape:?}, {after}: {e}"));
                pool.look().unwrap().dsl().by_name(name).unwrap();
            }
            assert!(suspended > 10, "{shape:?}: {suspended}");
            pool.export().unwrap();
            whole(&bench, &format!("{shape:?}"));
            bench.zdb();
            let view = bench.open();
            names.iter().for_each(|name| drop(view.dsl().by_name(name).unwrap()));
        }
    });
}

/// The system says once that bytes were lost. They are written again when the pool is resumed,
/// though no device was opened anew.
#[test]
fn a_flush_that_fails_once_is_made_good() {
    scenarios((1800..).zip(SHAPES), |steps, shape| {
        let mut run = run(steps, shape, 40);
        run.pool().sync().unwrap();
        run.pool().outlast_failures().unwrap();
        let leaves = run.bench.redundancy() + 1;
        let mut suspended = 0;
        for after in [0, 1, 2, 3] {
            let case = format!("{shape:?}, after {after}");
            (0..8).for_each(|_| run.step());
            fail(&run, leaves, &[Fault::fail_flushes(EIO).after(after).times(1)]);
            if after == 0 {
                // What was written since the last flush is lost with it.
                fail(&run, leaves, &[Fault::lose_writes(0..u64::MAX)]);
            }
            if run.pool().sync().is_err() {
                suspended += 1;
                is_suspended(run.pool(), &case);
                mend(&run);
                let source = run.bench.source_as_it_is();
                assert!(run.pool().resume(&source).unwrap(), "{case}");
            }
            all_come_back(&run);
        }
        assert!(suspended > 0, "{shape:?}");
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// The same while a spare is brought what was on a leaf that is gone.
#[test]
fn a_flush_that_fails_once_while_a_spare_is_resilvered_is_made_good() {
    scenario(1810, |steps| {
        let mut run = run(steps, Shape::Raidz1, 60);
        let spare = run.bench.extra();
        let (spec, devices) = (run.bench.leaf(spare), run.bench.source());
        run.pool().add_aux(&[spec], &[], &devices).unwrap();
        run.pool().sync().unwrap();
        run.pool().outlast_failures().unwrap();
        run.bench.faults[0].add(Fault::fail(0..u64::MAX, ErrorKind::Gone));
        run.bench.faults[0].add(Fault::fail_writes(0..u64::MAX, ErrorKind::Gone));
        (0..8).for_each(|_| run.step());
        run.pool().sync().unwrap();
        assert_eq!(state(run.pool(), 0), VdevState::Removed);
        run.bench.faults[1].add(Fault::fail_flushes(EIO).times(1));
        // The resilver of the spare goes on behind this.
        let taken = run.pool().take_spares(&run.bench.source());
        let suspended = taken.unwrap().is_empty() || run.pool().sync().is_err();
        assert!(suspended, "nothing can do without the leaf");
        // Others fail now: it is told what does, and not what did.
        run.bench.faults[1..3].iter().for_each(|d| d.add(Fault::fail(0..u64::MAX, EIO)));
        let refused = run.pool().resume(&run.bench.source_as_it_is()).unwrap_err().to_string();
        assert!(refused.contains("mem1: cannot read"), "{refused}");
        assert!(!refused.contains("flush"), "{refused}");
        run.bench.faults[1..3].iter().for_each(|d| d.clear());
        assert!(run.pool().resume(&run.bench.source_as_it_is()).unwrap());
        run.pool().take_spares(&run.bench.source()).unwrap();
        run.pool().wait_for_scan().unwrap();
        run.pool().sync().unwrap();
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// A spare that was in use when the pool was opened is given back: it is there for reports at once.
#[test]
fn a_spare_that_is_given_back_is_available_at_once() {
    scenario(1820, |steps| {
        let mut run = run(steps, Shape::Mirror, 30);
        let spare = run.bench.extra();
        let (spec, devices) = (run.bench.leaf(spare), run.bench.source());
        run.pool().add_aux(&[spec], &[], &devices).unwrap();
        let leaf = guid(run.pool(), 0);
        let spare = run.pool().spares_left().unwrap()[0].guid;
        let device = run.bench.write_ref(run.bench.devices.len() - 1);
        run.pool().take_spare(leaf, spare, Some(device)).unwrap();
        run.pool().wait_for_scan().unwrap();
        run.reopen(0);
        let word = |pool: &LivePool| {
            let seen = pool.look().unwrap();
            let view = seen.status(&seen.space()).vdevs;
            view.section(Section::Spares)[0].state.name().to_owned()
        };
        assert_eq!(word(run.pool()), "INUSE");
        run.pool().detach(spare).unwrap();
        assert_eq!(word(run.pool()), "AVAIL");
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// Devices of which the first that is claimed comes only after something else has happened.
struct LateDevices<'a> {
    devices: Devices,
    before: Box<dyn Fn() + Send + Sync + 'a>,
}

impl DeviceSource for LateDevices<'_> {
    fn list(&self, place: &Path, least: u64) -> std::io::Result<Vec<PathBuf>> {
        self.devices.list(place, least)
    }

    fn open(&self, name: &Path) -> Result<DeviceRef, device::Error> {
        self.devices.open(name)
    }

    fn claim(&self, name: &Path) -> Result<WriteDeviceRef, device::Error> {
        (self.before)();
        self.devices.claim(name)
    }
}

/// A leaf that comes back while a spare is looked for keeps its place, and the spare stays free.
#[test]
fn no_spare_is_taken_for_a_leaf_that_comes_back_meanwhile() {
    scenario(1820, |steps| {
        let mut run = run(steps, Shape::Raidz1, 40);
        let spare = run.bench.extra();
        let (spec, devices) = (run.bench.leaf(spare), run.bench.source());
        run.pool().add_aux(&[spec], &[], &devices).unwrap();
        run.pool().sync().unwrap();
        run.bench.faults[0].add(Fault::fail(0..u64::MAX, ErrorKind::Gone));
        run.bench.faults[0].add(Fault::fail_writes(0..u64::MAX, ErrorKind::Gone));
        (0..8).for_each(|_| run.step());
        run.pool().sync().unwrap();
        assert_eq!(state(run.pool(), 0), VdevState::Removed);
        assert_eq!(run.pool().leaves_without_spare().len(), 1);
        let (fault, devices, pool) = (&run.bench.faults[0], run.bench.source(), run.pool());
        let comes_back = || {
            fault.clear();
            for guid in pool.leaves_away() {
                pool.online_leaf(guid, OwnChanges::Keep, None, &devices).unwrap();
            }
        };
        let late = LateDevices { devices: devices.clone(), before: Box::new(comes_back) };
        assert_eq!(run.pool().take_spares(&late).unwrap(), []);
        drop(late);
        run.pool().wait_for_scan().unwrap();
        assert_eq!(run.pool().spares_left().unwrap().len(), 1);
        assert!(!has(run.pool(), "spare"));
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// A pool that this process has.
struct Own<'a>(&'a LivePool);

impl PoolAccess for Own<'_> {
    fn look<T>(&self, look: impl FnOnce(&LivePool) -> T) -> Option<T> {
        Some(look(self.0))
    }

    fn work<T>(&self, _: UpkeepWork, work: impl FnOnce(&LivePool) -> T) -> Option<T> {
        Some(work(self.0))
    }
}

/// A leaf that missed one write, and stayed in use, gets it without being asked.
#[test]
fn a_leaf_that_missed_a_write_is_resilvered_by_itself() {
    scenario(1830, |steps| {
        let mut run = run(steps, Shape::Raidz1, 40);
        run.pool().sync().unwrap();
        assert!(run.pool().leaves_to_resilver().is_none_or(|leaves| leaves.is_empty()));
        run.bench.faults[0].add(Fault::fail_writes(0..u64::MAX, EIO).times(1));
        (0..20).for_each(|_| run.step());
        run.pool().sync().unwrap();
        assert_eq!(state(run.pool(), 0), VdevState::Online);
        assert_eq!(run.pool().leaves_to_resilver(), Some(vec![guid(run.pool(), 0)]));
        let mut upkeep = Upkeep::new(run.pool().rt(), Arc::new(run.bench.source()));
        upkeep.step(&Own(run.pool()), &mut |event| panic!("{event:?}")).unwrap();
        run.pool().wait_for_scan().unwrap();
        assert!(run.pool().leaves_to_resilver().is_none_or(|leaves| leaves.is_empty()));
        assert!(is_whole(run.pool()));
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}
