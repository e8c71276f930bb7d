//! Leaves that hang for good, are slow, and return, in simulated time.
//!
//! The pools are held (`outlast_failures`), as a server's are: a thread that reads or writes beside
//! a leaf that hangs goes on, and a command that looks is answered at once.

use super::*;
use engine::files::{NewFile, NewKind, Time};
use engine::inside::device::WriteDeviceRef;
use engine::inside::pool::live::StoredPropertyValue;
use engine::inside::vdev::{Reason, VdevState};
use engine::live::{OfflineMode, ResilverKind, Setting};
use engine::pools::{DeviceCheck, DeviceRefusal};
use std::path::Path;
use std::time::Duration;

const HELD: [Shape; 3] = [Shape::Mirror, Shape::Raidz1, Shape::Raidz2];
const NOW: Time = Time { seconds: 1, nanos: 0 };
/// `zinc_vdev_silence_ms`, and how often it is looked for at most.
const SILENCE: Duration = Duration::from_secs(60);
const RECORD: usize = 128 << 10;
const RECORDS: u64 = 64;

fn state(pool: &LivePool, leaf: usize) -> (VdevState, Reason) {
    let tree = pool.view().vdevs();
    let leaf = tree.leaves().nth(leaf).unwrap();
    (leaf.state(), leaf.reason())
}

/// How long something takes.
fn timed<T>(rt: &Rt, what: impl FnOnce() -> T) -> (T, Duration) {
    let began = rt.now();
    let out = what();
    (out, rt.now() - began)
}

/// A held pool that some steps were done in, and its leaves.
fn held(rt: &Rt, steps: &RandomSteps, shape: Shape) -> (Run, Leaves) {
    let (bench, leaves) = bench(rt, steps.seed(), shape);
    let mut run = Run::new(steps.seed(), bench).following(steps);
    run.weight_max = 1 << 20;
    run.offset_max = 8 << 20;
    (0..30).for_each(|_| run.step());
    run.pool().sync().unwrap();
    run.pool().outlast_failures().unwrap();
    (run, leaves)
}

/// Everything hangs on as many leaves as can be done without, in the middle of writing: after the
/// deadline they are out, nothing is lost, and late answers do no harm.
#[test]
fn leaves_that_hang_for_good_are_gone_without() {
    scenarios((300..).zip(HELD), |steps, shape| {
        let (bench, model) = Rt::simulate(steps.seed(), |rt| {
            let (mut run, leaves) = held(rt, steps, shape);
            let (lost, now) = (run.bench.redundancy(), leaves.lock().clone());
            now[..lost].iter().for_each(|leaf| leaf.get_into(LeafFault::Hangs, 1));
            let (_, took) = timed(rt, || {
                (0..20).for_each(|_| run.step());
                run.pool().sync().unwrap();
            });
            // Of all syncs one waited for the deadline.
            assert!(took > SILENCE && took < SILENCE * 3, "{shape:?}: {took:?}");
            for n in 0..now.len() {
                let want = match n < lost {
                    true => (VdevState::Faulted, Reason::NoAnswer),
                    false => (VdevState::Online, Reason::None),
                };
                assert_eq!(state(run.pool(), n), want, "{shape:?} {n}");
            }
            let (_, took) = timed(rt, || {
                (0..20).for_each(|_| run.step());
                run.pool().sync().unwrap();
            });
            assert!(took < SILENCE / 6, "{shape:?}: {took:?}");
            // As long as it hangs nothing can be asked of it.
            let guid = run.pool().leaves_away()[0];
            let source = run.bench.source();
            let (refused, took) =
                timed(rt, || run.pool().online_leaf(guid, OwnChanges::Keep, None, &source));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("are still outstanding"), "{refused}");
            assert!(took < Duration::from_secs(1));
            now.iter().for_each(|leaf| {
                leaf.mend();
            });
            rt.sleep(Duration::from_secs(1));
            let guilty: Vec<_> = (0..lost).collect();
            heal(&run, &guilty, &format!("{shape:?}"));
            run.finish()
        });
        bench.check(&bench.open()).unwrap();
        Run::compare(&bench, &model).unwrap();
        bench.zdb();
    });
}

/// A device that hangs is neither used again nor put in the place of another: who asks for that is
/// told so, and the pool goes on.
#[test]
fn a_device_that_hangs_when_it_comes_is_refused() {
    scenario(340, |steps| {
        let (bench, model) = Rt::simulate(340, |rt| {
            let (mut run, leaves) = held(rt, steps, Shape::Mirror);
            let guid = run.pool().view().vdevs().leaves().next().unwrap().guid();
            run.pool().offline_leaf(guid, OfflineMode::OfflineForNow).unwrap();
            (0..8).for_each(|_| run.step());
            let now = leaves.lock().clone();
            now[0].get_into(LeafFault::Hangs, 1);
            let source = run.bench.source();
            let again = |run: &Run| run.pool().online_leaf(guid, OwnChanges::Keep, None, &source);
            let (refused, took) = timed(rt, || again(&run));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("does not answer"), "{refused}");
            assert!(took < SILENCE * 2, "{took:?}");
            let new = run.bench.extra();
            let hung = Leaf::new(rt, &run.bench.devices[new], 341);
            hung.get_into(LeafFault::Hangs, 1);
            let (spec, device) = (run.bench.leaf(new), Arc::clone(&hung) as WriteDeviceRef);
            // Nor is it looked at without end, for a pool or for a new one.
            let seen = run.pool().look().unwrap();
            for pool in [Some(&seen), None] {
                let check = DeviceCheck { pool, force: true, user: &|_, _| None };
                let (refused, took) = timed(rt, || check.opened(Path::new("new"), &device, false));
                assert_eq!(refused, Err(DeviceRefusal::Silent));
                assert!(took < SILENCE * 2, "{took:?}");
            }
            let (refused, took) = timed(rt, || run.pool().replace(guid, &spec, device));
            refused.unwrap_err();
            assert!(took < SILENCE * 2, "{took:?}");
            let (_, took) = timed(rt, || run.pool().sync().unwrap());
            assert!(took < SILENCE / 6, "{took:?}");
            for leaf in [&hung, &now[0]] {
                leaf.mend();
            }
            rt.sleep(Duration::from_secs(1));
            again(&run).unwrap();
            run.pool().wait_for_scan().unwrap();
            heal(&run, &[0], "it answers again");
            run.finish()
        });
        bench.check(&bench.open()).unwrap();
        Run::compare(&bench, &model).unwrap();
    });
}

/// What is asked for while nothing can become durable is refused in the end, and not done when the
/// pool goes on, unless it was begun: that is said.
#[test]
fn a_change_that_was_given_up_is_not_made_later() {
    scenario(360, |steps| {
        for has_begun in [false, true] {
            Rt::simulate(360, |rt| {
                let (mut run, leaves) = held(rt, steps, Shape::Mirror);
                (0..8).for_each(|_| run.step());
                let now = leaves.lock().clone();
                now.iter().for_each(|leaf| leaf.get_into(LeafFault::Hangs, 1));
                let pool = run.pool();
                let change = || {
                    let text = StoredPropertyValue::Text("later".to_owned());
                    let refused = pool.set_pool_property("comment", text).unwrap_err().to_string();
                    assert!(refused.contains("is suspended"), "{refused}");
                    assert_eq!(refused.contains("had begun"), has_begun, "{refused}");
                };
                let both = rt.for_each_parallel(2, [true, false], |syncs| {
                    match syncs {
                        true if has_begun => change(),
                        true => drop(pool.sync().unwrap_err()),
                        false if has_begun => {}
                        false => {
                            rt.sleep(SILENCE / 2);
                            change();
                        }
                    }
                    Ok::<(), ()>(())
                });
                both.unwrap();
                now.iter().for_each(|leaf| {
                    leaf.mend();
                });
                rt.sleep(Duration::from_secs(1));
                assert!(pool.resume(&run.bench.source()).unwrap());
                pool.sync().unwrap();
                let comment = pool.look().unwrap().config().comment.clone();
                assert_eq!(comment.as_deref(), has_begun.then_some("later"));
                run.finish();
            });
        }
    });
}

/// Each of three disks gets another side, and all are filled at the same time: together the
/// rebuilds run longer than the time that passes.
#[test]
fn vdevs_are_rebuilt_beside_each_other() {
    scenario(350, |steps| {
        let (bench, model) = Rt::simulate(350, |rt| {
            let (mut run, _) = held(rt, steps, Shape::Disks3);
            run.pool().sync().unwrap();
            let set = |run: &Run, text: &str| run.pool().set_tunable(Setting::parse(text).unwrap());
            set(&run, "zfs_scan_suspend_progress=1");
            set(&run, "zfs_rebuild_scrub_enabled=0");
            let disks: Vec<u64> = run.pool().view().vdevs().leaves().map(|l| l.guid()).collect();
            let mut slow = Vec::new();
            for disk in disks {
                let new = run.bench.extra();
                let leaf = Leaf::new(rt, &run.bench.devices[new], new as u64);
                let (spec, device) = (run.bench.leaf(new), Arc::clone(&leaf) as WriteDeviceRef);
                run.pool().attach_by(disk, &spec, device, ResilverKind::Sequential).unwrap();
                slow.push(leaf);
            }
            slow.iter().for_each(|leaf| leaf.get_into(LeafFault::IsSlow, 1));
            set(&run, "zfs_scan_suspend_progress=0");
            let (done, took) = timed(rt, || run.pool().wait_for_scan());
            done.unwrap();
            let states = run.pool().look().unwrap().rebuild_states().unwrap();
            assert_eq!(states.len(), 3);
            for (_, state) in &states {
                assert_eq!((state.state(), state.errors), (State::Finished, 0));
                assert!(state.bytes_rebuilt > 0);
            }
            let ran = states.iter().map(|(_, state)| state.scan_time_ms).sum();
            let ran = Duration::from_millis(ran);
            assert!(ran > took * 5 / 4, "{ran:?} in {took:?}");
            slow.iter().for_each(|leaf| {
                leaf.mend();
            });
            assert!(run.pool().view().vdevs().leaves().all(|l| l.missed().is_empty()));
            run.finish()
        });
        bench.check(&bench.open()).unwrap();
        Run::compare(&bench, &model).unwrap();
        bench.zdb();
    });
}

/// More leaves hang than can be done without: the pool is suspended, a command that looks is
/// answered at once, also before the deadline, and when they are back nothing is lost.
#[test]
fn beyond_the_redundancy_the_pool_waits_and_answers() {
    scenarios((320..).zip([Shape::Mirror, Shape::Raidz1, Shape::Raidz2]), |steps, shape| {
        let (bench, model) = Rt::simulate(steps.seed(), |rt| {
            let (mut run, leaves) = held(rt, steps, shape);
            let (lost, now) = (run.bench.redundancy() + 1, leaves.lock().clone());
            (0..8).for_each(|_| run.step());
            now[..lost].iter().for_each(|leaf| leaf.get_into(LeafFault::Hangs, 1));
            let pool = run.pool();
            let both = rt.for_each_parallel(2, [true, false], |syncs| {
                if syncs {
                    pool.sync().unwrap_err();
                    return Ok::<(), ()>(());
                }
                rt.sleep(SILENCE / 2);
                // The sync hangs, and that is not known yet.
                let (seen, took) = timed(rt, || pool.look().unwrap().health().to_string());
                assert_eq!(seen, "ONLINE", "{shape:?}");
                assert!(took < Duration::from_secs(5), "{shape:?}: {took:?}");
                Ok(())
            });
            both.unwrap();
            assert!(run.pool().is_waiting(), "{shape:?}");
            let (seen, took) = timed(rt, || run.pool().look().unwrap().health().to_string());
            assert_eq!(seen, "SUSPENDED", "{shape:?}");
            assert!(took < Duration::from_secs(5), "{shape:?}: {took:?}");
            let source = run.bench.source();
            run.pool().resume(&source).expect_err("they hang still");
            now.iter().for_each(|leaf| {
                leaf.mend();
            });
            rt.sleep(Duration::from_secs(1));
            assert!(run.pool().resume(&source).unwrap(), "{shape:?}");
            for guid in run.pool().leaves_away() {
                run.pool().online_leaf(guid, OwnChanges::Keep, None, &source).unwrap();
            }
            run.pool().wait_for_scan().unwrap();
            run.pool().sync().unwrap();
            run.finish()
        });
        bench.check(&bench.open()).unwrap();
        Run::compare(&bench, &model).unwrap();
        bench.zdb();
    });
}

/// A pool with a file, imported again and held, whose reads come from the devices.
fn with_a_file(rt: &Rt, seed: u64, shape: Shape) -> (LivePool, Bench, Leaves, u64) {
    let (mut bench, leaves) = bench(rt, seed, shape);
    // Most of the file has no place in memory.
    bench.cache_bytes = 1 << 20;
    let pool = bench.create();
    let fs = pool.filesystem(&bench.pool).unwrap();
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let file = fs.create(fs.root_object(), b"file", &new).unwrap().number();
    let mut rng = Rng::new(seed);
    for n in 0..RECORDS {
        let mut data = vec![0; RECORD];
        rng.fill(&mut data);
        fs.write_at(file, n * RECORD as u64, &data, NOW).unwrap();
    }
    drop(fs);
    pool.export().unwrap();
    let pool = bench.import();
    pool.outlast_failures().unwrap();
    (pool, bench, leaves, file)
}

/// Reads single blocks of the file, in any order, most of which are not in memory; what each took.
fn read_some(rt: &Rt, pool: &LivePool, (file, reads): (u64, u64), seed: u64) -> Vec<Duration> {
    let fs = pool.filesystem(pool.name()).unwrap();
    let mut rng = Rng::new(seed);
    let read = |_| {
        let at = rng.below(RECORDS) * RECORD as u64;
        let mut out = vec![0; 4096];
        let (got, took) = timed(rt, || fs.node(file).unwrap().read_at(at, &mut out).unwrap());
        assert_eq!(got, out.len());
        took
    };
    (0..reads).map(read).collect()
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[(sorted.len() - 1) * percent / 100]
}

fn sits_out(pool: &LivePool, leaf: usize) -> bool {
    pool.view().vdevs().leaves().nth(leaf).unwrap().sits_out()
}

/// One leaf takes seconds for each request, or never answers: reads go elsewhere, a few are made
/// twice, the leaf sits out and is tried again, and when it is well it is used again.
#[test]
fn readers_do_not_wait_for_a_leaf_that_is_slow() {
    for (seed, shape) in (340..).zip(HELD) {
        for trouble in [LeafFault::IsSlow, LeafFault::Hangs] {
            Rt::simulate(seed, |rt| {
                let case = format!("{shape:?} {trouble:?}");
                let (pool, bench, leaves, file) = with_a_file(rt, seed, shape);
                let healthy = read_some(rt, &pool, (file, 600), 1);
                assert!(!sits_out(&pool, 0), "{case}");
                let leaf = Arc::clone(&leaves.lock()[0]);
                leaf.get_into(trouble, 1);
                let slow = read_some(rt, &pool, (file, 600), 2);
                // What has not come back by then is enough.
                rt.sleep(Duration::from_secs(1));
                read_some(rt, &pool, (file, 20), 2);
                assert!(sits_out(&pool, 0), "{case}");
                let [before, after] = [&healthy, &slow].map(|times| percentile(times, 99));
                assert!(after <= before * 3 / 2, "{case}: {before:?} {after:?}");
                let worst = slow.iter().max().unwrap();
                assert!(*worst < Duration::from_millis(100), "{case}: {worst:?}");
                // It is tried again, and found to be as slow.
                rt.sleep(Duration::from_secs(11));
                read_some(rt, &pool, (file, 100), 3);
                assert!(sits_out(&pool, 0), "{case}");
                leaf.mend();
                rt.sleep(Duration::from_secs(21));
                read_some(rt, &pool, (file, 100), 4);
                assert!(!sits_out(&pool, 0), "{case}");
                assert_eq!(errors(&pool), vec![0; bench.devices.len()], "{case}");
                pool.sync().unwrap();
                pool.export().unwrap();
            });
        }
    }
}

/// One leaf never answers, and another gives wrong bytes: what the others have is enough, so
/// readers do not wait for the first one, and only the second is blamed.
#[test]
fn readers_of_bad_copies_do_not_wait_for_a_leaf_that_hangs() {
    for (seed, shape) in (380..).zip([Shape::Mirror3, Shape::Raidz2, Shape::Raidz3]) {
        Rt::simulate(seed, |rt| {
            let (pool, bench, leaves, file) = with_a_file(rt, seed, shape);
            read_some(rt, &pool, (file, 600), 1);
            let [hung, wrong] = [0, 1].map(|n| Arc::clone(&leaves.lock()[n]));
            hung.get_into(LeafFault::Hangs, 1);
            wrong.get_into(LeafFault::FlipsReads, 1);
            let now = read_some(rt, &pool, (file, 200), 2);
            let worst = now.iter().max().unwrap();
            assert!(*worst < Duration::from_secs(1), "{shape:?}: {worst:?}");
            let counted = errors(&pool);
            assert!(counted[1] > 0, "{shape:?}: {counted:?}");
            assert_eq!(counted.iter().sum::<u64>(), counted[1], "{shape:?}: {counted:?}");
            [hung, wrong].iter().for_each(|leaf| {
                leaf.mend();
            });
            rt.sleep(Duration::from_secs(1));
            pool.sync().unwrap();
            pool.export().unwrap();
            drop(bench);
        });
    }
}

/// Another leaf was slow for a moment and owes a read still when one becomes slow for good: what
/// both have is read from the one that answers.
#[test]
fn of_two_leaves_that_owe_reads_the_one_that_answers_is_read() {
    Rt::simulate(348, |rt| {
        let (pool, _bench, leaves, file) = with_a_file(rt, 348, Shape::Mirror);
        let healthy = read_some(rt, &pool, (file, 600), 1);
        let [slow, other] = [0, 1].map(|n| Arc::clone(&leaves.lock()[n]));
        other.get_into(LeafFault::IsSlow, 1);
        read_some(rt, &pool, (file, 20), 2);
        other.mend();
        slow.get_into(LeafFault::IsSlow, 1);
        read_some(rt, &pool, (file, 100), 3);
        let now = read_some(rt, &pool, (file, 300), 4);
        let [before, after] = [&healthy, &now].map(|times| percentile(times, 99));
        assert!(after <= before * 3 / 2, "{before:?} {after:?}");
        slow.mend();
        pool.sync().unwrap();
        pool.export().unwrap();
    });
}

/// While others read, a scrub rests for several times as long as it reads; alone it does not.
#[test]
fn a_scrub_rests_while_others_read() {
    Rt::simulate(370, |rt| {
        let (pool, _bench, _leaves, file) = with_a_file(rt, 370, Shape::Mirror);
        let set = |text: &str| pool.set_tunable(Setting::parse(text).unwrap());
        set("zfs_scrub_min_time_ms=1");
        set("zfs_scan_vdev_limit=1M");
        let scrubbed = |share: u32, is_loaded: bool| {
            set(&format!("zinc_scrub_share_percent={share}"));
            let took = Mutex::new(None);
            let both = rt.for_each_parallel(2, [true, false], |scrubs| {
                if scrubs {
                    let ended = timed(rt, || {
                        pool.scrub().unwrap();
                        pool.wait_for_scan().unwrap();
                    });
                    *took.lock() = Some(ended.1);
                    return Ok::<(), ()>(());
                }
                while is_loaded && took.lock().is_none() {
                    read_some(rt, &pool, (file, 20), 5);
                }
                Ok(())
            });
            both.unwrap();
            took.into_inner().unwrap()
        };
        let (alone, restless, resting) =
            (scrubbed(20, false), scrubbed(100, true), scrubbed(20, true));
        assert!(alone <= restless, "{alone:?} {restless:?}");
        assert!(resting > restless * 2, "{restless:?} {resting:?}");
        pool.export().unwrap();
    });
}
