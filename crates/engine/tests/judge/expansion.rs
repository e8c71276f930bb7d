//! Expansions of raidz: one that was finished here is read and written by the kernel; one that was
//! begun here is finished by the kernel, and one that the kernel began is finished here.

use super::handover::{LONG, Work, filled, judge, saved};
use super::random::{Bench, Run, add_large};
use super::{DEVICE_BYTES, describe, set};
use engine::LivePool;
use engine::inside::ondisk::expand::Expansion;
use engine::inside::ondisk::scan::State;
use poolkit::Shape;
use std::path::{Path, PathBuf};

/// Raidz over three disks, and a disk more.
pub(super) fn with_spare_disk(seed: u64, name: &str) -> (Run, usize) {
    let mut run = filled(seed, Shape::Raidz1, DEVICE_BYTES, name);
    add_large(run.pool(), 48 << 20);
    run.pool().sync().unwrap();
    let new = run.bench.extra();
    (run, new)
}

pub(super) fn attach(run: &Run, new: usize) {
    let top = run.pool().look().unwrap().config().vdev_tree.children[0].guid;
    run.pool().attach(top, &run.bench.leaf(new), run.bench.write_ref(new)).unwrap();
}

pub(super) fn expansion(bench: &Bench) -> Expansion {
    bench.open().expansion().unwrap().unwrap().state
}

/// It is as wide as four disks, and there is a fifth that the kernel attaches.
fn make_finished(dir: &Path) -> (Bench, PathBuf) {
    let (mut run, new) = with_spare_disk(4100, "expansion-finished");
    attach(&run, new);
    assert!(run.pool().wait_for_expansion(LONG).unwrap());
    run.pool().wait_for_scan().unwrap();
    (0..100).for_each(|_| run.step());
    run.free_limits();
    let (mut bench, _) = run.finish();
    assert_eq!(expansion(&bench).state, State::Finished);
    bench.extra();
    saved(bench, dir.join("finished"))
}

/// It was exported after this number of steps.
fn make_half(dir: &Path, name: &str, steps: u64) -> (Bench, PathBuf) {
    let (mut run, new) = with_spare_disk(4101 + steps, name);
    set(run.pool(), "zinc_raidz_expand_suspend_progress=1");
    set(run.pool(), "raidz_expand_max_copy_bytes=4194304");
    attach(&run, new);
    for _ in 0..steps {
        set(run.pool(), "zinc_raidz_expand_suspend_progress=0");
        run.pool().sync().unwrap();
        set(run.pool(), "zinc_raidz_expand_suspend_progress=1");
        (0..4).for_each(|_| run.step());
    }
    run.free_limits();
    // Exported: what intent logs hold would be a difference of its own.
    let (bench, _) = run.finish();
    assert_eq!(expansion(&bench).state, State::Active);
    saved(bench, dir.join(name))
}

/// What the kernel does with them. It leaves an expansion of its own in the middle.
const GO_ON: &str = r#"
set -x
fail=0
half="expansion-begun expansion-scratch expansion-half"
for pool in $half expansion-finished; do
    zpool import -fN -d /dev $pool || exit 1
done
for pool in $half; do
    zpool wait -t raidz_expand $pool
    zpool status $pool | grep -q 'expand: expanded raidz1-0 copied' || fail=1
done
for pool in $half expansion-finished; do
    zpool wait -t scrub $pool
    zpool scrub -w $pool
    zpool status -v $pool
    zpool status $pool | grep -q 'scrub repaired 0B .* with 0 errors' || fail=1
    zpool status $pool | grep -q 'errors: No known data errors' || fail=1
done
echo 25165824 > /sys/module/zfs/parameters/raidz_expand_max_reflow_bytes
zpool attach expansion-finished raidz1-0 $NEW || fail=1
copied=-1
while now=$(zpool status expansion-finished | grep copied); [ "${now%% at*}" != "$copied" ]; do
    copied=${now%% at*}
    sleep 3
done
zpool status expansion-finished
for pool in $half expansion-finished; do
    zpool export $pool || fail=1
done
exit $fail
"#;

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn expansions_are_gone_on_with_by_both() {
    let dir = tempfile::Builder::new().prefix("judge").tempdir().unwrap();
    let halves = [("expansion-begun", 0), ("expansion-scratch", 1), ("expansion-half", 5)];
    let halves = halves.map(|(name, steps)| make_half(dir.path(), name, steps));
    let made: Vec<_> = halves.into_iter().chain([make_finished(dir.path())]).collect();
    let images: usize = made.iter().map(|(bench, _)| bench.devices.len()).sum();
    let last = format!("/dev/img{}", images - 1);
    let left = |bench: &Bench| {
        let is_the_kernels = bench.pool == "expansion-finished";
        let left = if is_the_kernels { State::Active } else { State::Finished };
        assert_eq!(expansion(bench).state, left, "{}", bench.pool);
    };
    let finish = |pool: &LivePool| {
        assert!(pool.wait_for_expansion(LONG).unwrap());
        pool.wait_for_scan().unwrap();
    };
    let finished = |bench: &Bench| assert_eq!(expansion(bench).state, State::Finished);
    let work = Work { describe, left: &left, finish: &finish, finished: &finished };
    judge(made, dir, &GO_ON.replace("$NEW", &last), &work);
}
