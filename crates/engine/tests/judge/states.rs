//! What is known of a pool and its devices besides what it holds: a resilver in the middle of its
//! walk, a device in doubt, one that was marked as failed, cache devices that are out of use, free
//! space that is overwritten in part, a checkpoint. The kernel sees what we leave and goes on with
//! it, and we with what it leaves.

use super::handover::{LONG, Work, filled, judge, overwrite, saved};
use super::random::{Bench, add_large};
use super::{DEVICE_BYTES, describe_pool, set};
use engine::inside::device::{Write, WriteDeviceRef};
use engine::inside::ondisk::scan::State;
use engine::inside::pool::{OpenOptions, Pool};
use engine::live::{Devices, OfflineMode, OwnChanges};
use engine::pools::{CheckpointState, LeafWork, Reason, VdevState, WorkState};
use engine::{LivePool, Progress, activity};
use parking_lot::Mutex;
use poolkit::{HookedDevice, Shape};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The guid of this leaf.
fn guid(pool: &Pool, leaf: usize) -> u64 {
    pool.vdevs().leaves().nth(leaf).unwrap().guid()
}

/// Writes of a device that wait, once it has taken some, until this is dropped.
struct Hold {
    is_set: Arc<AtomicBool>,
    reached: Receiver<()>,
    _go_on: Sender<()>,
}

/// The device, and what holds it when it has taken this many bytes since that was set.
fn held_after(device: WriteDeviceRef, most: u64) -> (WriteDeviceRef, Hold) {
    let (is_set, taken) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let (reach, reached) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let (is_held, may_go_on) = (Arc::clone(&is_set), Mutex::new(may_go_on));
    let on_write = move |batch: Vec<Write>| {
        let bytes: usize = batch.iter().map(Write::len).sum();
        let is_held = is_held.load(Ordering::Acquire);
        if is_held && taken.fetch_add(bytes as u64, Ordering::AcqRel) + bytes as u64 >= most {
            let _ = reach.send(());
            // Fails at once when there is no hold any more.
            let _ = may_go_on.lock().recv();
        }
        batch
    };
    let device = HookedDevice::new(device, Box::new(on_write));
    (Arc::new(device), Hold { is_set, reached, _go_on: go_on })
}

/// The second side was away while a file was written, and its resilver has not ended: it was held
/// up in its first 16 MiB of the file, and stood when it had them.
fn resilver(dir: &Path) -> (Bench, PathBuf) {
    const BYTES: u64 = 48 << 20;
    let run = filled(6000, Shape::Mirror, DEVICE_BYTES, "state-resilver");
    let pool = run.pool();
    let side = guid(pool.view(), 1);
    pool.offline_leaf(side, OfflineMode::Offline).unwrap();
    add_large(pool, BYTES);
    pool.sync().unwrap();
    // Its place is that of what it came to, and is written when a piece has ended, of which each
    // takes as little as can be.
    set(pool, "zfs_scan_legacy=1");
    set(pool, "zfs_scrub_min_time_ms=1");
    set(pool, "zfs_scan_checkpoint_intval=0");
    set(pool, "zfs_scan_suspend_progress=1");
    let (device, hold) = held_after(run.bench.write_ref(1), BYTES / 8);
    let devices = run.bench.source().into_iter().chain([("mem1".to_owned(), device)]);
    let devices: Devices = devices.collect();
    pool.online_leaf(side, OwnChanges::GiveUp, None, &devices).unwrap();
    let state = || pool.look().unwrap().scan_state().unwrap();
    while state().is_none_or(|now| now.state() != State::Active) {
        pool.sync().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    hold.is_set.store(true, Ordering::Release);
    set(pool, "zfs_scan_suspend_progress=0");
    hold.reached.recv_timeout(LONG).unwrap();
    set(pool, "zfs_scan_suspend_progress=1");
    // The time of the piece is over.
    std::thread::sleep(Duration::from_millis(2));
    drop(hold);
    while state().unwrap().processed < BYTES / 8 {
        pool.sync().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let now = state().unwrap();
    assert!(now.state() == State::Active && now.processed < BYTES, "{now:?}");
    let (bench, _) = run.finish();
    saved(bench, dir.join("resilver"))
}

/// All of the second side was overwritten, which a scrub made good: too many blocks were wrong. Of
/// two cache devices the first is out of use. With it the guids of the side and of these.
fn doubt(dir: &Path) -> ((Bench, PathBuf), [u64; 3]) {
    let mut run = filled(6001, Shape::Mirror, DEVICE_BYTES, "state-doubt");
    let new = [run.bench.extra(), run.bench.extra()];
    let devices: Devices =
        new.iter().map(|n| (format!("mem{n}"), run.bench.write_ref(*n))).collect();
    run.pool().add_aux(&[], &new.map(|n| run.bench.leaf(n)), &devices).unwrap();
    let caches = run.pool().look().unwrap().l2cache().to_vec();
    let [out, used] = [0, 1].map(|n| caches[n].guid);
    run.pool().offline_cache(out, OfflineMode::Offline).unwrap();
    overwrite(&run.bench, 1);
    run.pool().scrub().unwrap();
    run.pool().wait_for_scan().unwrap();
    run.pool().sync().unwrap();
    let side = guid(run.pool().view(), 1);
    let (bench, _) = run.finish();
    assert_eq!(standing(&bench, 1), (VdevState::Degraded, Reason::TooManyErrors));
    (saved(bench, dir.join("doubt")), [side, out, used])
}

/// The free space of the first disk is overwritten in part, and that is suspended. With it the
/// guids of the first two disks.
fn overwritten(dir: &Path) -> ((Bench, PathBuf), [u64; 2]) {
    let run = filled(6002, Shape::Disks3, DEVICE_BYTES, "state-initialize");
    let pool = run.pool();
    let disks = [0, 1].map(|n| guid(pool.view(), n));
    pool.start_work(disks[0], LeafWork::Initialize, 16 << 20).unwrap();
    let progress = || pool.look().unwrap().leaf_progress(disks[0], LeafWork::Initialize);
    // What it says on disk counts.
    while progress().is_none_or(|now| now.offset <= 8 << 20) {
        std::thread::sleep(Duration::from_millis(10));
        pool.sync().unwrap();
    }
    pool.suspend_work(disks[0], LeafWork::Initialize).unwrap();
    let now = progress().unwrap();
    assert!(now.state == WorkState::Suspended && now.offset > 8 << 20, "{now:?}");
    let (bench, _) = run.finish();
    (saved(bench, dir.join("overwritten")), disks)
}

/// Much was changed since the checkpoint.
fn checkpointed(dir: &Path) -> (Bench, PathBuf) {
    let mut run = filled(6003, Shape::Raidz1, DEVICE_BYTES, "state-checkpoint");
    run.pool().checkpoint().unwrap();
    (0..150).for_each(|_| run.step());
    run.free_limits();
    let (bench, _) = run.finish();
    assert_eq!(bench.open().checkpoint_state(), CheckpointState::Exists);
    saved(bench, dir.join("checkpointed"))
}

/// State and reason of a leaf.
fn standing(bench: &Bench, leaf: usize) -> (VdevState, Reason) {
    let pool = bench.open();
    let tree = pool.vdevs();
    let leaf = tree.leaves().nth(leaf).unwrap();
    (leaf.state(), leaf.reason())
}

/// What it holds; of one with a checkpoint, what that keeps.
fn describe(bench: &Bench, path: &Path) {
    let pool = bench.open();
    if pool.checkpoint_state() == CheckpointState::None {
        return describe_pool(&pool, path);
    }
    let options = OpenOptions { checkpoint: true, ..OpenOptions::default() };
    let found = bench.candidates().into_iter().find(|c| c.name() == bench.pool).unwrap();
    describe_pool(&Pool::open_candidate(&found, &options).unwrap(), path);
}

/// What the kernel does with them.
const GO_ON: &str = r"
set -x
fail=0
bad() { echo CHECK FAILED: $*; fail=1; }
for pool in state-resilver state-doubt state-initialize; do
    zpool import -N -d /dev $pool || exit 1
done
zpool import -N -d /dev --rewind-to-checkpoint state-checkpoint || exit 1

zpool status state-doubt
zpool status state-doubt | grep -q 'DEGRADED .*too many errors' || bad 'doubt is forgotten'
cache() { zpool status state-doubt | sed -n '/^[[:space:]]*cache/,/^errors/p' | grep -cw $1; }
test $(cache OFFLINE) = 1 || bad 'the first cache device is used'
test $(cache ONLINE) = 1 || bad 'the second cache device is not used'
zpool online state-doubt $OUT || bad 'the first cache device is not used again'
test $(cache ONLINE) = 2 || bad 'the first cache device is not used again'
zpool clear state-doubt
zpool status state-doubt | grep -q ' DEGRADED ' && bad 'doubt stays'

zpool status -i state-initialize
zpool status -i state-initialize | grep -q '% initialized, suspended' || bad 'not suspended'
zpool initialize state-initialize $FIRST || bad 'it does not go on'
zpool wait -t initialize state-initialize
zpool status -i state-initialize | grep -q '100% initialized, completed' || bad 'not completed'

test $(zpool get -Hpo value checkpoint state-checkpoint) = - || bad 'the checkpoint stays'

zpool wait -t resilver state-resilver
for pool in state-resilver state-doubt state-initialize state-checkpoint; do
    zpool scrub -w $pool
    zpool status -v $pool
    zpool status $pool | grep -q 'scrub repaired 0B .* with 0 errors' || bad $pool
    zpool status $pool | grep -q 'errors: No known data errors' || bad $pool
done

# Now the kernel leaves something.
zpool offline -f state-doubt $SIDE || bad 'not marked'
zpool offline state-doubt $USED || bad 'the second cache device is used'
zpool status state-doubt | grep -q 'FAULTED .*external device fault' || bad 'not marked'
zpool initialize state-initialize $SECOND || bad 'not begun'
zpool initialize -s state-initialize $SECOND || bad 'not suspended'
zpool checkpoint state-checkpoint || bad 'no checkpoint'
for pool in state-resilver state-doubt state-initialize state-checkpoint; do
    zpool export $pool || bad 'no export'
done
exit $fail
";

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn what_is_known_of_a_pool_is_handed_over_both_ways() {
    let dir = tempfile::Builder::new().prefix("judge").tempdir().unwrap();
    let (doubt, [side, out, used]) = doubt(dir.path());
    let (overwritten, disks) = overwritten(dir.path());
    let made = vec![resilver(dir.path()), doubt, overwritten, checkpointed(dir.path())];
    let progress = |pool: &Pool| pool.leaf_progress(disks[1], LeafWork::Initialize).unwrap().state;
    let are_out = |bench: &Bench| {
        let caches = bench.open().l2cache().to_vec();
        [out, used].map(|guid| caches.iter().any(|cache| cache.guid == guid && cache.offline))
    };
    let left = |bench: &Bench| match &*bench.pool {
        "state-resilver" => {
            let tree = bench.open().vdevs();
            assert!(tree.leaves().all(|leaf| leaf.missed().is_empty()));
        }
        "state-doubt" => {
            assert_eq!(standing(bench, 1), (VdevState::Faulted, Reason::External));
            assert_eq!(are_out(bench), [false, true]);
        }
        "state-initialize" => assert_eq!(progress(&bench.open()), WorkState::Suspended),
        _ => assert_eq!(bench.open().checkpoint_state(), CheckpointState::Exists),
    };
    let finish = |pool: &LivePool| match pool.name() {
        "state-initialize" => {
            pool.start_work(disks[1], LeafWork::Initialize, 0).unwrap();
            assert_eq!(pool.wait_for_work(LeafWork::Initialize, &[disks[1]], LONG), Ok(true));
        }
        "state-checkpoint" => {
            pool.discard_checkpoint().unwrap();
            activity::wait_for_discard(pool, &Progress::new()).unwrap();
        }
        _ => pool.wait_for_scan().unwrap(),
    };
    let finished = |bench: &Bench| match &*bench.pool {
        "state-initialize" => assert_eq!(progress(&bench.open()), WorkState::Complete),
        "state-checkpoint" => {
            assert_eq!(bench.open().checkpoint_state(), CheckpointState::None);
        }
        // It stays so until it is cleared, or used again.
        "state-doubt" => {
            assert_eq!(standing(bench, 1), (VdevState::Faulted, Reason::External));
            assert_eq!(are_out(bench), [false, true]);
        }
        _ => {}
    };
    let work = Work { describe, left: &left, finish: &finish, finished: &finished };
    let names = [
        ("$FIRST", disks[0]),
        ("$SECOND", disks[1]),
        ("$SIDE", side),
        ("$OUT", out),
        ("$USED", used),
    ];
    let named = |script: String, (name, guid): (&str, u64)| script.replace(name, &guid.to_string());
    judge(made, dir, &names.into_iter().fold(GO_ON.to_owned(), named), &work);
}
