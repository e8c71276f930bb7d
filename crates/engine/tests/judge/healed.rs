//! Pools that something was healed in, or split off, under circumstances: the kernel finds nothing
//! to repair, and goes on.

use super::expansion::{attach, expansion, with_spare_disk};
use super::handover::{LABELS, LONG, Work, filled, judge, overwrite, saved};
use super::promises::{EARLY, Promised, Window, count, split_while_promising};
use super::random::{Bench, add_large, large_starts};
use super::{DEVICE_BYTES, describe_degraded, set};
use engine::LivePool;
use engine::inside::device::{Device, MemoryDevice};
use engine::inside::ondisk::scan::State;
use engine::inside::pool::live::NewFilesystem;
use engine::live::{OfflineMode, OwnChanges};
use poolkit::Shape;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const SECTOR: usize = 4096;

/// A raidz gets wider, and stands in the middle. A device loses its content, and a scrub brings it
/// all: what the next step is to copy is to be at the old place and at the new one.
fn border(dir: &Path) -> (Bench, PathBuf) {
    let (mut run, new) = with_spare_disk(4110, "healed-border");
    set(run.pool(), "zinc_raidz_expand_suspend_progress=1");
    set(run.pool(), "raidz_expand_max_copy_bytes=4194304");
    attach(&run, new);
    for _ in 0..4 {
        set(run.pool(), "zinc_raidz_expand_suspend_progress=0");
        run.pool().sync().unwrap();
        set(run.pool(), "zinc_raidz_expand_suspend_progress=1");
        run.pool().sync().unwrap();
    }
    overwrite(&run.bench, 1);
    run.pool().scrub().unwrap();
    run.pool().wait_for_scan().unwrap();
    let done = run.pool().view().scan_state().unwrap().unwrap();
    assert!(done.processed > 8 << 20 && done.errors == 0, "{done:?}");
    run.pool().forget_errors(None).unwrap();
    run.free_limits();
    let (bench, _) = run.finish();
    assert_eq!(expansion(&bench).state, State::Active);
    saved(bench, dir.join("border"))
}

/// Readers met bad copies, and nothing but that wrote good ones.
fn read(dir: &Path) -> (Bench, PathBuf) {
    const BYTES: u64 = 16 << 20;
    let run = filled(4111, Shape::Mirror, DEVICE_BYTES, "healed-read");
    add_large(run.pool(), BYTES);
    let (bench, _) = run.finish();
    let (starts, device) = (large_starts(BYTES), Arc::clone(&bench.devices[0]));
    let at = |at: u64, bytes: &mut [u8]| device.read(at, bytes).unwrap();
    let begins = |place: &u64| {
        let mut start = [0; 16];
        at(*place, &mut start);
        starts.contains(&start)
    };
    let places = (LABELS..DEVICE_BYTES - LABELS).step_by(SECTOR);
    let places: Vec<u64> = places.filter(begins).collect();
    assert!(places.len() > 8, "{places:?}");
    let before = device.fork();
    places.iter().for_each(|place| device.put(*place, &[0x5a; SECTOR]));
    let pool = bench.import_without_cache();
    let fs = pool.filesystem("healed-read/large").unwrap();
    let file = fs.by_path(b"/file", false).unwrap();
    let mut piece = vec![0; 1 << 20];
    for at in (0..BYTES).step_by(piece.len()) {
        file.read_at(at, &mut piece).unwrap();
    }
    drop((file, fs));
    pool.wait_for_read_repairs();
    pool.forget_errors(None).unwrap();
    pool.export().unwrap();
    let content = |device: &MemoryDevice, place: u64| {
        let mut bytes = vec![0; SECTOR];
        device.read(place, &mut bytes).unwrap();
        bytes
    };
    // A mirror reads from either side, so not all were met; those that were not are put back.
    let is_mended = |place: &u64| content(&device, *place) == content(&before, *place);
    let (mended, left): (Vec<u64>, _) = places.into_iter().partition(is_mended);
    assert!(mended.len() > 2, "{mended:?}, {left:?}");
    left.into_iter().for_each(|place| device.put(place, &content(&before, place)));
    saved(bench, dir.join("read"))
}

/// A resilver, which has not got anywhere, was interrupted by an export; another leaf waits for its
/// end.
fn deferred(dir: &Path) -> (Bench, PathBuf) {
    let mut run = filled(4112, Shape::Raidz2, DEVICE_BYTES, "healed-deferred");
    let leaves: Vec<u64> = run.pool().view().vdevs().leaves().map(|leaf| leaf.guid()).collect();
    for leaf in &leaves[1..3] {
        run.pool().offline_leaf(*leaf, OfflineMode::Offline).unwrap();
    }
    add_large(run.pool(), 8 << 20);
    run.pool().sync().unwrap();
    set(run.pool(), "zfs_scan_suspend_progress=1");
    for leaf in &leaves[1..3] {
        let devices = run.bench.source();
        run.pool().online_leaf(*leaf, OwnChanges::GiveUp, None, &devices).unwrap();
        let state = || run.pool().view().scan_state().unwrap().map(|s| s.state());
        while state() != Some(State::Active) {
            run.pool().sync().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        (0..4).for_each(|_| run.step());
    }
    assert!(run.pool().is_resilver_deferred());
    run.free_limits();
    let (bench, _) = run.finish();
    assert_eq!(waiting(&bench), [false, false, true, false, false]);
    saved(bench, dir.join("deferred"))
}

/// Which leaves wait for another resilver.
fn waiting(bench: &Bench) -> Vec<bool> {
    let tree = bench.open().config().vdev_tree.clone();
    tree.walk().filter(|v| v.kind.is_leaf()).map(|v| v.resilver_deferred).collect()
}

const SPLIT: &str = "healed-split";

/// The power failed when the new pool had its first txg: what was promised before is in its logs
/// alone.
fn split(dir: &Path) -> (Bench, PathBuf) {
    let (mut bench, _) = filled(4113, Shape::Mirror, DEVICE_BYTES, "healed-whole").finish();
    let before = bench.devices.clone();
    for writes in 0.. {
        let window = Window::new(writes);
        bench = window.before(bench.again_from(&before));
        let pool = bench.import();
        let fs = format!("{}/promised", pool.name());
        pool.create_filesystem(&fs, NewFilesystem::default(), Vec::new()).unwrap();
        let files = pool.filesystem(&fs).unwrap();
        let Promised { before_cut, all, result } =
            split_while_promising((&pool, SPLIT), &files, &window);
        drop((files, pool));
        let mut new = Bench::new(Shape::Disk, DEVICE_BYTES, 12);
        (new.disks, new.pool) = (true, SPLIT.to_owned());
        new.devices = vec![Arc::new(bench.devices[1].fork())];
        let is_there = new.candidates().iter().any(|found| found.name() == SPLIT);
        if is_there && !is_in_tree(&new, before_cut - 1) {
            assert!(before_cut > EARLY && all >= before_cut, "{before_cut} of {all}");
            return saved(new, dir.join("split"));
        }
        assert!(result.is_err(), "no crash left logs that were not replayed");
    }
    panic!("the split comes to its end")
}

/// The file of this number is not in a log any more.
fn is_in_tree(bench: &Bench, number: u64) -> bool {
    let fs = bench.open().filesystem(&promised()).unwrap();
    fs.root().unwrap().lookup(format!("f{number}").as_bytes()).unwrap().is_some()
}

fn promised() -> String {
    format!("{SPLIT}/promised")
}

/// What it holds, with what is in logs, and whatever devices lack.
fn describe_replayed(bench: &Bench, path: &Path) {
    if bench.pool != SPLIT {
        return describe_degraded(bench, path);
    }
    let mut copy = Bench::new(Shape::Disk, DEVICE_BYTES, 12);
    (copy.disks, copy.pool) = (true, SPLIT.to_owned());
    copy.devices = vec![Arc::new(bench.devices[0].fork())];
    copy.import().export().unwrap();
    describe_degraded(&copy, path);
    // A record of a write has no time: the kernel takes that at which it replays it.
    let mut described = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    forget_times(&mut described);
    std::fs::write(path, described.to_string()).unwrap();
}

fn forget_times(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(forget_times),
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    "mtime_ns" => *member = Value::from(0),
                    _ => forget_times(member),
                }
            }
        }
        _ => {}
    }
}

/// What the kernel does with them. The expansion stands until all was read from where it is.
const GO_ON: &str = r"
set -x
fail=0
all='healed-border healed-read healed-deferred healed-split'
whole() {
    zpool scrub -w $1
    zpool status -v $1
    zpool status $1 | grep -q 'scrub repaired 0B .* with 0 errors' || fail=1
    zpool status $1 | grep -q 'errors: No known data errors' || fail=1
    zpool status $1 | grep -Eq 'ONLINE +[0-9]+ +[0-9]+ +[1-9]' && fail=1
}
cd /sys/module/zfs/parameters
echo 1 > raidz_expand_max_reflow_bytes
for pool in $all; do
    zpool import -fN -R /mnt -d /dev $pool || exit 1
done
zfs mount healed-split/promised || fail=1
for n in 0 1 2 3 4 5; do test -s /mnt/healed-split/promised/f$n || fail=1; done
zfs unmount healed-split/promised
# The second one begins behind the first, or both are one; a last one that finds nothing to do is a
# scrub.
for n in 1 2 3; do
    zpool wait -t resilver,scrub healed-deferred
    sleep 3
done
zpool status healed-deferred
zpool status healed-deferred | grep -q 'awaiting resilver' && fail=1
zpool status healed-deferred | grep -Eq '(resilvered|scrub repaired 0B) .* with 0 errors' || fail=1
# While the kernel opens a pool, it reads without knowing what devices lack, and counts that as
# errors of theirs. Nothing may be found to be wrong from the first txg on.
zpool events -H healed-deferred > /tmp/events
cat /tmp/events
grep -q resilver_finish /tmp/events || fail=1
sed -n '/history_event/,$p' /tmp/events | grep -q ereport.fs.zfs.checksum && fail=1
zpool clear healed-deferred
zpool status healed-border | grep -q 'expanded raidz1-0 copied' && fail=1
for pool in $all; do whole $pool; done
zpool status healed-border | grep -q 'expanded raidz1-0 copied' && fail=1
echo 0 > raidz_expand_max_reflow_bytes
zpool wait -t raidz_expand healed-border
zpool wait -t scrub healed-border
whole healed-border
zpool status healed-border | grep -q 'expanded raidz1-0 copied' || fail=1
for pool in $all; do
    zpool export $pool || fail=1
done
exit $fail
";

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn what_was_healed_or_split_is_whole_for_the_kernel() {
    let dir = tempfile::Builder::new().prefix("judge").tempdir().unwrap();
    let made = [border, read, deferred, split].map(|make| make(dir.path()));
    let left = |bench: &Bench| {
        let pool = bench.open();
        assert!(pool.vdevs().leaves().all(|leaf| leaf.missed().is_empty()), "{}", bench.pool);
        assert!(!waiting(bench).contains(&true), "{}", bench.pool);
        assert_eq!(pool.features().count("com.datto:resilver_defer").unwrap_or(0), 0);
        bench.check(&pool).unwrap_or_else(|e| panic!("{}: {e}", bench.pool));
        if bench.pool == "healed-border" {
            assert_eq!(expansion(bench).state, State::Finished);
        }
    };
    let finish = |pool: &LivePool| {
        assert!(pool.wait_for_expansion(LONG).unwrap());
        pool.wait_for_scan().unwrap();
        if pool.name() == SPLIT {
            assert!(count(&pool.filesystem(&promised()).unwrap()) > EARLY);
        }
    };
    let describe = describe_replayed;
    let work = Work { describe, left: &left, finish: &finish, finished: &|_| {} };
    judge(made.into(), dir, GO_ON, &work);
}
