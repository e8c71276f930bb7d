//! Expansions of raidz: one that was finished here is read and written by the kernel; one that was
//! begun here is finished by the kernel, and one that the kernel began is finished here.

use super::random::bench::Shape;
use super::random::{Bench, Run, add_large};
use super::{SECONDS_OF_A_POOL, describe, machine, same, set};
use engine::inside::ondisk::expand::Expansion;
use engine::inside::ondisk::scan::State;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const DISK_BYTES: u64 = 128 << 20;

/// Time that an expansion may take.
const LONG: Duration = Duration::from_mins(10);

/// Raidz over three disks, filled at random, and a disk more.
fn filled(seed: u64, name: &str) -> (Run, usize) {
    let mut bench = Bench::new(Shape::Raidz1, DISK_BYTES, 12);
    bench.disks = true;
    bench.pool = String::from(name);
    let mut run = Run::new(seed, bench);
    run.weight_max = 1 << 20;
    run.offset_max = 8 << 20;
    (0..300).for_each(|_| run.step());
    run.free_limits();
    add_large(run.pool(), 48 << 20);
    run.pool().sync().unwrap();
    let new = run.bench.extra();
    (run, new)
}

fn attach(run: &Run, new: usize) {
    let top = run.pool().look().unwrap().config().vdev_tree.children[0].guid;
    run.pool().attach(top, &run.bench.leaf(new), run.bench.write_ref(new)).unwrap();
}

fn expansion(bench: &Bench) -> Expansion {
    bench.open().expansion().unwrap().unwrap().state
}

fn saved(bench: Bench, at: PathBuf) -> (Bench, PathBuf) {
    fs::create_dir_all(&at).unwrap();
    bench.save(&at);
    (bench, at)
}

/// It is as wide as four disks, and there is a fifth that the kernel attaches.
fn make_finished(dir: &Path) -> (Bench, PathBuf) {
    let (mut run, new) = filled(4100, "expansion-finished");
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

/// After so many steps it was exported.
fn make_half(dir: &Path, name: &str, steps: u64) -> (Bench, PathBuf) {
    let (mut run, new) = filled(4101 + steps, name);
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
    let program = machine();
    let dir = tempfile::Builder::new().prefix("judge").tempdir().unwrap();
    let halves = [("expansion-begun", 0), ("expansion-scratch", 1), ("expansion-half", 5)];
    let halves = halves.map(|(name, steps)| make_half(dir.path(), name, steps));
    let made: Vec<_> = halves.into_iter().chain([make_finished(dir.path())]).collect();
    let images: usize = made.iter().map(|(bench, _)| bench.devices.len()).sum();
    let job = dir.path().join("job");
    fs::create_dir_all(&job).unwrap();
    let last = format!("/dev/img{}", images - 1);
    fs::write(job.join("run.sh"), GO_ON.replace("$NEW", &last)).unwrap();
    let mut command = Command::new(program.join("run-job"));
    command.args(["--timeout", &SECONDS_OF_A_POOL.to_string()]).arg(&job);
    for (bench, at) in &made {
        describe(bench, &at.join("before.json"));
        is_clean_for_zdb(bench, at);
        command.args((0..bench.devices.len()).map(|n| at.join(format!("vdev{n}.img"))));
    }
    assert!(command.status().expect("run-job runs").success(), "{}", dir.keep().display());
    for (mut bench, at) in made {
        bench.load(&at);
        let is_the_kernels = bench.pool == "expansion-finished";
        let left = if is_the_kernels { State::Active } else { State::Finished };
        assert_eq!(expansion(&bench).state, left, "{}", bench.pool);
        describe(&bench, &at.join("between.json"));
        let pool = bench.import();
        assert!(pool.wait_for_expansion(LONG).unwrap());
        pool.wait_for_scan().unwrap();
        pool.export().unwrap();
        assert_eq!(expansion(&bench).state, State::Finished);
        describe(&bench, &at.join("after.json"));
        for what in ["between.json", "after.json"] {
            assert!(same(&program, &at.join("before.json"), &at.join(what)), "{what}");
        }
        bench.save(&at);
        is_clean_for_zdb(&bench, &at);
    }
}

fn is_clean_for_zdb(bench: &Bench, at: &Path) {
    if let Some(verdict) = testkit::oracle::verdict(at, &bench.pool) {
        assert!(verdict.success, "zdb of {}:\n{}", bench.pool, verdict.text);
    }
}
