//! Sequential rebuilds: one that was begun here is finished by the kernel, and one that the kernel
//! began is finished here; of a mirror, and of a distributed spare of a dRAID.

use super::handover::{Work, filled, judge, saved};
use super::random::{Bench, Run, add_large};
use super::{DEVICE_BYTES, describe_degraded, set};
use engine::LivePool;
use engine::inside::ondisk::scan::{Function, RebuildState, State};
use engine::live::ResilverKind;
use poolkit::Shape;
use std::path::PathBuf;
use std::time::Duration;

/// It has enough in it to be read in several pieces.
fn large(seed: u64, shape: Shape, name: &str) -> Run {
    let run = filled(seed, shape, DEVICE_BYTES, name);
    add_large(run.pool(), 52 << 20);
    run.pool().sync().unwrap();
    run
}

fn state(bench: &Bench) -> RebuildState {
    bench.open().rebuild_states().unwrap()[0].1
}

/// Begins a rebuild, stops it behind its first piece, and saves the pool. With it the guid of its
/// first leaf.
fn half_way(mut run: Run, at: PathBuf, begin: impl FnOnce(&mut Run)) -> ((Bench, PathBuf), u64) {
    set(run.pool(), "zfs_scan_suspend_progress=1");
    set(run.pool(), "zfs_scrub_min_time_ms=1");
    set(run.pool(), "zfs_scan_checkpoint_intval=0");
    begin(&mut run);
    let first = run.pool().view().vdevs().leaves().next().unwrap().guid();
    set(run.pool(), "zfs_scan_suspend_progress=0");
    while run.pool().look().unwrap().rebuild_states().unwrap()[0].1.last_offset == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    set(run.pool(), "zfs_scan_suspend_progress=1");
    let (bench, _) = run.finish();
    let now = state(&bench);
    assert_eq!(now.state(), State::Active, "{now:?}");
    (saved(bench, at), first)
}

const GO_ON: &str = r#"
set -x
fail=0
cd /sys/module/zfs/parameters
for pool in rebuild-mirror rebuild-draid; do
    zpool import -N -d /dev $pool || exit 1
    zpool wait -t resilver $pool
    sleep 3
    zpool wait -t scrub $pool
    zpool status -v $pool
    zpool status $pool | grep -q 'resilvered (.*) .* with 0 errors' || fail=1
    zpool status $pool | grep -q 'scrub repaired 0B .* with 0 errors' || fail=1
    zpool status $pool | grep -q 'errors: No known data errors' || fail=1
done
echo 1 > zfs_scan_suspend_progress
zpool replace -s -f rebuild-mirror $MIRROR /dev/img1 || fail=1
zpool detach rebuild-draid draid1-0-0 || fail=1
zpool replace -s rebuild-draid $DRAID draid1-0-0 || fail=1
sleep 2
zpool status rebuild-mirror rebuild-draid
for pool in rebuild-mirror rebuild-draid; do
    zpool status $pool | grep -q 'resilver (.*) in progress' || fail=1
    zpool export $pool || fail=1
done
exit $fail
"#;

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn rebuilds_are_gone_on_with_by_both() {
    let dir = tempfile::Builder::new().prefix("judge").tempdir().unwrap();
    let mirror = large(5000, Shape::Mirror, "rebuild-mirror");
    let (mirror, of_mirror) = half_way(mirror, dir.path().join("mirror"), |run| {
        let old = run.pool().view().vdevs().leaves().nth(1).unwrap().guid();
        let new = run.bench.extra();
        let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
        run.pool().replace_by(old, &spec, device, ResilverKind::Sequential).unwrap();
    });
    let draid = large(5001, Shape::Draid1, "rebuild-draid");
    let (draid, of_draid) = half_way(draid, dir.path().join("draid"), |run| {
        let pool = run.pool();
        let leaf = pool.view().vdevs().leaves().nth(2).unwrap().guid();
        let spare = pool.spares_left().unwrap()[0].guid;
        pool.take_spare_by(leaf, spare, None, ResilverKind::Sequential).unwrap();
    });
    let left = |bench: &Bench| assert_eq!(state(bench).state(), State::Active, "the kernel's");
    let finish = |pool: &LivePool| {
        pool.wait_for_scan().unwrap();
        let scrub = pool.view().scan_state().unwrap().unwrap();
        assert_eq!((scrub.function(), scrub.state()), (Function::Scrub, State::Finished));
        assert_eq!((scrub.processed, scrub.errors), (0, 0), "{}", pool.name());
    };
    let finished = |bench: &Bench| {
        let now = state(bench);
        assert_eq!((now.state(), now.errors), (State::Finished, 0));
    };
    let describe = describe_degraded;
    let work = Work { describe, left: &left, finish: &finish, finished: &finished };
    let script = GO_ON.replace("$MIRROR", &of_mirror.to_string());
    let script = script.replace("$DRAID", &of_draid.to_string());
    judge(vec![mirror, draid], dir, &script, &work);
}
