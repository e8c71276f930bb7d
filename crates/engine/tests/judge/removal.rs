//! Removals of vdevs with data: one that was finished here is read and written by the kernel; one
//! that was begun here is finished by the kernel, and one that the kernel began is finished here.

use super::handover::{LONG, Work, filled, judge, saved};
use super::random::{Bench, Run, add_large};
use super::{describe, set};
use engine::LivePool;
use engine::inside::ondisk::indirect::RemovalState;
use engine::inside::ondisk::scan::State;
use poolkit::Shape;
use std::path::{Path, PathBuf};

/// Size of a disk. The kernel removes none without this much room elsewhere, and some more.
const DISK_BYTES: u64 = 512 << 20;

fn three_disks(seed: u64, name: &str) -> Run {
    let run = filled(seed, Shape::Disks3, DISK_BYTES, name);
    // Each disk has a good part of it, so that a removal has a middle.
    add_large(run.pool(), 48 << 20);
    run.pool().sync().unwrap();
    run
}

/// The guid of the top-level vdev with this number.
fn top(run: &Run, id: u64) -> u64 {
    let seen = run.pool().look().unwrap();
    seen.config().vdev_tree.children.iter().find(|t| t.id == id).unwrap().guid
}

fn removal(bench: &Bench) -> RemovalState {
    bench.open().removal().unwrap().unwrap().state
}

/// The second disk is gone.
fn make_finished(dir: &Path) -> (Bench, PathBuf) {
    let mut run = three_disks(4000, "removal-finished");
    run.pool().remove_top(top(&run, 1)).unwrap();
    assert!(run.pool().wait_for_removal(LONG).unwrap());
    (0..100).for_each(|_| run.step());
    run.free_limits();
    let (mut bench, _) = run.finish();
    assert_eq!(removal(&bench).state(), State::Finished);
    // The kernel is given what is left of it, in its old order.
    bench.devices.remove(1);
    saved(bench, dir.join("finished"))
}

/// A part of the second disk is copied. With it the guid of the first one.
fn make_half(dir: &Path) -> ((Bench, PathBuf), u64) {
    let mut run = three_disks(4001, "removal-half");
    let first = top(&run, 0);
    let pool = run.pool();
    set(pool, "zinc_removal_piece=1048576");
    set(pool, "zfs_removal_suspend_progress=1");
    pool.remove_top(top(&run, 1)).unwrap();
    for _ in 0..6 {
        set(run.pool(), "zfs_removal_suspend_progress=0");
        run.pool().sync().unwrap();
        set(run.pool(), "zfs_removal_suspend_progress=1");
        (0..4).for_each(|_| run.step());
    }
    run.free_limits();
    run.pool().sync().unwrap();
    let bench = run.cut();
    let state = removal(&bench);
    assert_eq!(state.state(), State::Active);
    assert!(state.copied > 0 && state.copied < state.to_copy, "{state:?}");
    (saved(bench, dir.join("half")), first)
}

/// What the kernel does with them. It leaves a removal of its own in the middle, of which a piece
/// is copied.
const GO_ON: &str = r#"
set -x
fail=0
cd /sys/module/zfs/parameters
for pool in removal-finished removal-half; do
    zpool import -fN -d /dev $pool || exit 1
done
zpool wait -t remove removal-half
zpool status removal-half | grep -q 'Removal of vdev 1 copied' || fail=1
for pool in removal-finished removal-half; do
    zpool scrub -w $pool
    zpool status -v $pool
    zpool status $pool | grep -q 'scrub repaired 0B .* with 0 errors' || fail=1
    zpool status $pool | grep -q 'errors: No known data errors' || fail=1
done
echo 16384 > zfs_remove_max_segment
echo 1 > zfs_removal_suspend_progress
zpool remove removal-half $FIRST || fail=1
# A moment suffices for a piece; it looks once a second whether it is to stand still.
while zpool status removal-half | grep -q ' 0B copied'; do
    echo 0 > zfs_removal_suspend_progress
    sleep 1.2
    echo 1 > zfs_removal_suspend_progress
    zpool sync removal-half
done
zpool status removal-half
for pool in removal-finished removal-half; do
    zpool export $pool || fail=1
done
exit $fail
"#;

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn removals_are_gone_on_with_by_both() {
    let dir = tempfile::Builder::new().prefix("judge").tempdir().unwrap();
    let (half, first) = make_half(dir.path());
    let made = vec![make_finished(dir.path()), half];
    let left = |bench: &Bench| {
        if bench.pool == "removal-half" {
            let state = removal(bench);
            assert_eq!((state.state(), state.vdev), (State::Active, 0), "the kernel's: {state:?}");
        }
    };
    let finish = |pool: &LivePool| assert!(pool.wait_for_removal(LONG).unwrap());
    let finished = |bench: &Bench| assert_eq!(removal(bench).state(), State::Finished);
    let work = Work { describe, left: &left, finish: &finish, finished: &finished };
    judge(made, dir, &GO_ON.replace("$FIRST", &first.to_string()), &work);
}
