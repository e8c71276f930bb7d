//! Sides of mirrors that become a pool of their own.

use super::promises::{EARLY, Promised, Window, count, promise, split_while_promising};
use super::*;
use engine::inside::pool::live::NewFilesystem;
use engine::live::{LogDevices, NewTop, SpaceClass, VdevSpec};
use poolkit::Shape;

/// Some of the devices as a bench of their own.
fn bench_of(bench: &Bench, shape: Shape, which: &[usize]) -> Bench {
    let mut out = Bench::new(shape, DEVICE_BYTES, 12);
    out.devices = which.iter().map(|n| Arc::clone(&bench.devices[*n])).collect();
    out
}

/// Which devices of a bench are these leaves.
fn numbers(pool: &LivePool, leaves: &[u64]) -> Vec<usize> {
    let all: Vec<u64> = pool.view().vdevs().leaves().map(|l| l.guid()).collect();
    leaves.iter().map(|leaf| all.iter().position(|n| n == leaf).unwrap()).collect()
}

/// The pool goes on with what is left, the new one has all of its time; both are whole, for zdb
/// too, and know nothing of each other's devices.
#[test]
fn one_side_of_each_mirror_becomes_a_pool() {
    scenarios(
        (2200..).zip([Shape::Mirror, Shape::Mirror3, Shape::MirrorAndLogs]),
        |steps, shape| {
            for first in [false, true] {
                let mut run = run(steps, shape, 80);
                run.promise();
                let data = run.bench.data_leaves();
                let named: Vec<u64> = first.then(|| guid(run.pool(), 0)).into_iter().collect();
                let sides = run.pool().sides_to_split(&named).unwrap();
                let gone = numbers(run.pool(), &sides);
                assert_eq!(gone, [if first { 0 } else { data - 1 }]);
                let kept = run.model.clone();
                let new = run.pool().split("tank", &sides).unwrap();
                assert_ne!(new.guid(), run.pool().guid());
                (0..40).for_each(|_| run.step());
                new.export().unwrap();
                (0..10).for_each(|_| run.step());
                let (bench, model) = run.finish();
                let left: Vec<usize> =
                    (0..bench.devices.len()).filter(|n| !gone.contains(n)).collect();
                let new = bench_of(&bench, Shape::Disk, &gone);
                new.check(&new.open()).unwrap();
                holds(&new, &kept);
                let old = bench_of(&bench, shape, &left);
                old.check(&old.open()).unwrap();
                holds(&old, &model);
                // Both are written to, and the side is attached again.
                let pool = new.import();
                super::random::add_large(&pool, 4 << 20);
                pool.export().unwrap();
                new.check(&new.open()).unwrap();
                let pool = bench.import_of(pool_guid(&old));
                let (spec, device) = (bench.leaf(gone[0]), bench.write_ref(gone[0]));
                pool.attach(guid(&pool, 0), &spec, device).unwrap();
                pool.wait_for_scan().unwrap();
                assert!(is_whole(&pool));
                pool.export().unwrap();
                holds(&bench, &model);
            }
        },
    );
}

/// What is promised when the sides leave is in logs that they have, and in no txg that they have:
/// files are promised while the split waits for the txg before the cut. The new pool, which has
/// another name, has all of them by its logs alone; the old one has them, and what is promised
/// later. If a crash cuts the split off at any write, the next import of either pool finds them.
#[test]
fn what_is_promised_during_a_split_is_kept() {
    let (mut bench, _) = prepared(2240, Shape::Mirror, 20).finish();
    bench.faults.clear();
    let before = bench.devices.clone();
    let mut interrupted = 0;
    for writes in super::cuts(5) {
        let window = Window::new(writes);
        bench = window.before(bench.again_from(&before));
        let pool = bench.import();
        let guid = pool.guid();
        let fs = format!("{}/promised", pool.name());
        pool.create_filesystem(&fs, NewFilesystem::default(), Vec::new()).unwrap();
        let files = pool.filesystem(&fs).unwrap();
        let Promised { before_cut, all, result } =
            split_while_promising((&pool, "another"), &files, &window);
        drop((files, pool));
        bench.mend();
        let case = format!("after {writes}: {before_cut} of {all}, {result:?}");
        assert!(before_cut > EARLY, "{case}");
        let pool = bench.import_of(guid);
        pool.wait_for_scan().unwrap();
        let kept = count(&pool.filesystem(&fs).unwrap());
        assert!(kept >= all, "{case}: {kept} in the old pool");
        assert!(is_whole(&pool), "{case}");
        pool.export().unwrap();
        let mut new = bench_of(&bench, Shape::Disk, &[1]);
        if new.candidates().iter().any(|c| c.config.pool_guid != guid) {
            "another".clone_into(&mut new.pool);
            let fs = "another/promised";
            if result.is_ok() {
                let kept = count(&new.open().filesystem(fs).unwrap());
                assert!(kept >= before_cut, "{case}: {kept} in the tree of the new pool");
            }
            let pool = new.import();
            let kept = count(&pool.filesystem(fs).unwrap());
            assert!(kept >= before_cut, "{case}: {kept} in the new pool");
            pool.export().unwrap();
            new.check(&new.open()).unwrap_or_else(|e| panic!("{case}: {e}"));
            new.zdb();
            let left = bench_of(&bench, Shape::Mirror, &[0]);
            left.check(&left.open()).unwrap_or_else(|e| panic!("{case}: {e}"));
            interrupted += u64::from(result.is_err());
        } else {
            bench.zdb();
        }
        if result.is_ok() {
            break;
        }
    }
    assert!(interrupted > 0, "no new pool was left with its logs unread");
}

/// A pool that was not closed gets another name when it is opened, and its logs are replayed.
#[test]
fn logs_are_replayed_under_another_name() {
    let (bench, _) = prepared(2250, Shape::Mirror, 20).finish();
    let pool = bench.import();
    let fs = format!("{}/promised", pool.name());
    pool.create_filesystem(&fs, NewFilesystem::default(), Vec::new()).unwrap();
    pool.sync().unwrap();
    let files = pool.filesystem(&fs).unwrap();
    (0..3).for_each(|n| promise(&files, n).unwrap());
    bench.cut_power_after(0);
    drop((files, pool));
    bench.mend();
    let pool = bench.import_as("another", LogDevices::default());
    assert_eq!(count(&pool.filesystem("another/promised").unwrap()), 3);
    pool.export().unwrap();
}

fn pool_guid(bench: &Bench) -> u64 {
    bench.open().guid()
}

/// What is not a mirror, or is not whole, is not split; nothing has changed then.
#[test]
fn what_cannot_be_split_is_left_alone() {
    scenario(2210, |steps| {
        for shape in [Shape::Disk, Shape::Raidz1, Shape::Special] {
            let run = run(steps, shape, 10);
            let why = run.pool().sides_to_split(&[]).unwrap_err().to_string();
            assert!(why.contains("composed only of mirrors"), "{why}");
        }
        let run = run(steps, Shape::Mirror3, 30);
        let leaves: Vec<u64> = (0..3).map(|n| guid(run.pool(), n)).collect();
        let why = run.pool().sides_to_split(&leaves[..2]).unwrap_err().to_string();
        assert!(why.contains("at most one disk from each mirror"), "{why}");
        assert!(run.pool().sides_to_split(&[7]).is_err());
        run.pool().offline_leaf(leaves[2], OfflineMode::Offline).unwrap();
        let why = run.pool().split("new", &leaves[2..]).map(drop).unwrap_err().to_string();
        assert!(why.contains("is not in use"), "{why}");
        online_leaf(run.pool(), &run.bench, 2);
        run.pool().wait_for_scan().unwrap();
        run.pool().checkpoint().unwrap();
        assert!(run.pool().split("new", &leaves[2..]).is_err());
        run.pool().discard_checkpoint().unwrap();
        super::wait_for_discard(run.pool()).unwrap();
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// Two mirrors, of which the second is for metadata.
#[test]
fn special_vdevs_are_split_as_well() {
    scenario(2220, |steps| {
        let (mut bench, model) = run(steps, Shape::Mirror, 60).finish();
        bench.faults.clear();
        let (a, b) = (bench.extra(), bench.extra());
        let spec = VdevSpec::Mirror(vec![bench.leaf(a), bench.leaf(b)]);
        let pool = bench.import();
        let top = NewTop { spec, class: SpaceClass::Special };
        pool.add_tops(&[top], Some(12), &bench.source()).unwrap();
        pool.close().unwrap();
        let pool = bench.import();
        pool.reguid(None).unwrap();
        let tops = pool.look().unwrap().config().vdev_tree.children.clone();
        let has_class: Vec<_> = tops.iter().map(|top| top.alloc_bias.is_some()).collect();
        assert_eq!(has_class, [false, true], "another guid changes no class");
        super::random::add_large(&pool, 8 << 20);
        pool.destroy_dataset("tank/large").unwrap();
        let sides = pool.sides_to_split(&[]).unwrap();
        let gone = numbers(&pool, &sides);
        assert_eq!(gone, [1, 3]);
        pool.split("tank", &sides).unwrap().export().unwrap();
        pool.export().unwrap();
        for (shape, which) in [(Shape::Disks3, gone), (Shape::Disks3, vec![0, 2])] {
            let one = bench_of(&bench, shape, &which);
            one.check(&one.open()).unwrap();
            holds(&one, &model);
            let pool = one.import();
            super::random::add_large(&pool, 4 << 20);
            pool.export().unwrap();
            one.check(&one.open()).unwrap();
            one.zdb();
        }
    });
}

/// The power fails after any number of writes: either the new pool is there, with all that the old
/// one had, and the old one goes on without the side, or the old one has it back. It may be opened
/// without the side first.
#[test]
fn a_split_may_end_at_any_write() {
    let (mut bench, model) = prepared(2230, Shape::Mirror, 40).finish();
    bench.faults.clear();
    let before = bench.devices.clone();
    let mut cuts = [[0; 2]; 2];
    for writes in super::cuts(11) {
        bench = bench.again_from(&before);
        let pool = bench.import();
        let guid = pool.guid();
        let sides = pool.sides_to_split(&[]).unwrap();
        bench.cut_power_after(writes);
        let new = pool.split("tank", &sides);
        let is_done = new.and_then(LivePool::export).is_ok();
        drop(pool);
        bench.mend();
        let case = format!("after {writes}");
        let left = bench_of(&bench, Shape::Mirror, &[0]);
        let new = bench_of(&bench, Shape::Disk, &[1]);
        let is_new = pool_guid(&new) != guid;
        let is_halfway = !left.open().config().splitting.is_empty();
        assert!(is_new && !is_halfway || !is_done, "{case}");
        cuts[usize::from(is_new)][usize::from(is_halfway)] += 1;
        if writes % 2 == 1 {
            left.import_of(guid).close().unwrap();
            assert_eq!(!left.open().config().splitting.is_empty(), is_halfway, "{case}");
        }
        let pool = bench.import_of(guid);
        pool.wait_for_scan().unwrap();
        let sides = pool.view().vdevs().leaves().count();
        assert_eq!(sides, if is_new { 1 } else { 2 }, "{case}");
        assert!(is_whole(&pool), "{case}");
        pool.export().unwrap();
        match is_new {
            true => {
                new.import().export().unwrap();
                holds(&new, &model);
                left.check(&left.open()).unwrap_or_else(|e| panic!("{case}: {e}"));
                holds(&left, &model);
            }
            false => {
                bench.zdb();
                holds_on_each(bench_of(&bench, Shape::Mirror, &[0, 1]), &model);
            }
        }
        if is_done {
            break;
        }
    }
    assert!(cuts.iter().flatten().all(|n| *n > 0), "{cuts:?}");
}
