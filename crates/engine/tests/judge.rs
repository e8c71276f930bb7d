//! The kernel's own OpenZFS judges pools that were made here.
//!
//! A random history fills a pool of every layout; some of its devices are taken out meanwhile, come
//! back, and are resilvered. The kernel imports it, scrubs it with nothing to
//! repair, and describes all it holds: that must be what we say it holds. Then the kernel writes,
//! and we open, check and describe what it wrote. Run by `scripts/judge`; it takes minutes, and a
//! virtual machine in the folder of test material.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

#[path = "judge/errors.rs"]
mod errors;
#[path = "judge/expansion.rs"]
mod expansion;
#[path = "judge/handover.rs"]
mod handover;
#[path = "judge/healed.rs"]
mod healed;
#[path = "topology/promises.rs"]
mod promises;
mod random;
#[path = "judge/rebuild.rs"]
mod rebuild;
#[path = "judge/removal.rs"]
mod removal;
#[path = "judge/states.rs"]
mod states;
#[path = "judge/store.rs"]
mod store;
mod writing;

use engine::LivePool;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::rt;
use engine::inventory;
use engine::live::{OfflineMode, OwnChanges};
use handover::{Work, filled, saved};
use poolkit::{SHAPES, Shape};
use random::{Bench, Run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testkit::KernelJudge;

/// Smallest devices there can be: the machine is emulated.
const DEVICE_BYTES: u64 = 128 << 20;

/// Time that a pool may take, on a busy host; two minutes on an idle one.
const SECONDS_OF_A_POOL: usize = 1200;

/// Images that the machine takes at once.
const IMAGES_MAX: usize = 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
}

/// The layouts to judge: all, or those that `ZINC_JUDGE_SHAPES` names.
fn shapes() -> Vec<Shape> {
    let all = [&SHAPES[..], &[Shape::Draid1, Shape::Draid2]].concat();
    let Ok(names) = std::env::var("ZINC_JUDGE_SHAPES") else { return all };
    let named = |name: &str| {
        let found = all.iter().find(|s| format!("{s:?}").eq_ignore_ascii_case(name));
        *found.unwrap_or_else(|| panic!("no layout is called {name}: {all:?}"))
    };
    names.split(',').map(named).collect()
}

/// A pool with everything in it, exported, in files of `dir`.
fn make(seed: u64, shape: Shape, dir: &Path) -> Bench {
    let ashift = if seed.is_multiple_of(2) { 12 } else { 9 };
    let mut bench = Bench::new(shape, DEVICE_BYTES, ashift);
    bench.disks = true;
    bench.pool = format!("judge-{shape:?}").to_lowercase();
    let mut run = Run::new(seed, bench);
    run.weight_max = 1 << 20;
    // Every byte is read and hashed, holes too.
    run.offset_max = 8 << 20;
    let ops = number("ZINC_JUDGE_OPS", 1200);
    (0..ops / 2).for_each(|_| run.step());
    let guids: Vec<u64> = run.pool().view().vdevs().leaves().map(|l| l.guid()).collect();
    // As many devices as it can spare miss something, and are brought it.
    let away = 0..run.bench.redundancy();
    for n in away.clone() {
        run.pool().offline_leaf(guids[n], OfflineMode::Offline).unwrap();
    }
    (0..ops / 4).for_each(|_| run.step());
    for n in away {
        let source = run.bench.source();
        run.pool().online_leaf(guids[n], OwnChanges::GiveUp, None, &source).unwrap();
    }
    (0..ops / 4).for_each(|_| run.step());
    run.pool().wait_for_scan().unwrap();
    // The kernel is shown a scrub that found nothing: it takes what was resilvered for repairs.
    run.pool().scrub().unwrap();
    run.pool().wait_for_scan().unwrap();
    assert_eq!(run.pool().view().scan_state().unwrap().unwrap().processed, 0);
    run.free_limits();
    let (bench, _) = run.finish();
    bench.save(dir);
    bench
}

/// Writes what the pool holds as we see it.
fn describe(bench: &Bench, path: &Path) {
    bench.check(&bench.open()).unwrap_or_else(|e| panic!("{}: {e}", bench.pool));
    describe_degraded(bench, path);
}

/// The same, where devices need not have everything.
fn describe_degraded(bench: &Bench, path: &Path) {
    describe_pool(&bench.open(), path);
}

fn describe_pool(pool: &engine::Pool, path: &Path) {
    let open = |d: &engine::Dataset| Ok(pool.dsl().objset(d)?);
    let progress = rt::Progress::new();
    let options = inventory::Options {
        volumes: true,
        replayed: false,
        open: &open,
        max_hole: inventory::MAX_HOLE,
        progress: &progress,
        reports: &|_| inventory::Reports::default(),
    };
    let mut out = fs::File::create(path).unwrap();
    let errors = inventory::write(pool, &options, &mut out).unwrap();
    assert!(errors.is_empty(), "{errors:?}");
}

/// What the machine is told: each pool in turn, with a state of its own to look at.
fn looks(pools: &[(Bench, PathBuf)]) -> String {
    let all: String = pools.iter().map(|(bench, _)| look(&bench.pool)).collect();
    format!("fail=0\n{all}exit $fail\n")
}

/// One of them.
fn look(name: &str) -> String {
    format!(
        "echo 'POOL={name} WRITE=1 SCRUB=1 MANIFEST=1 READONLY=0' > /job/options\n\
         bash /judge/import-check.sh || fail=1\n\
         for m in manifest manifest-after; do\n\
         mv /out/$m.json /out/{name}-$m.json || fail=1\n\
         done\n"
    )
}

/// Runs a script in the machine, with the devices of the pools in turn; whether it succeeded. What
/// it puts into its `/out` is then in `out`.
fn run_job(
    judge: &KernelJudge,
    job: &Path,
    script: &str,
    out: Option<&Path>,
    pools: &[(Bench, PathBuf)],
) -> bool {
    let images = pools.iter().flat_map(|(bench, dir)| {
        (0..bench.devices.len()).map(move |n| dir.join(format!("vdev{n}.img")))
    });
    run_job_on(judge, job, script, out, pools.len(), &images.collect::<Vec<_>>())
}

/// The same with the images of this number of pools.
fn run_job_on(
    judge: &KernelJudge,
    job: &Path,
    script: &str,
    out: Option<&Path>,
    pools: usize,
    images: &[PathBuf],
) -> bool {
    fs::create_dir_all(job).unwrap();
    fs::write(job.join("run.sh"), script).unwrap();
    let mut command = judge.machine(SECONDS_OF_A_POOL * pools);
    if let Some(out) = out {
        command.arg("--out").arg(out);
    }
    command.arg(job).args(images);
    command.status().expect("run-job runs").success()
}

fn same(judge: &KernelJudge, ours: &Path, theirs: &Path) -> bool {
    let status =
        Command::new(judge.programs().join("manifest-diff")).arg(ours).arg(theirs).status();
    status.expect("manifest-diff runs").success()
}

/// Judges several pools in one run of the machine; what is wrong.
fn judge(judge: &KernelJudge, mut pools: Vec<(Bench, PathBuf)>, work: &Path) -> Vec<String> {
    let out = work.join("out");
    for (bench, dir) in &pools {
        describe(bench, &dir.join("ours.json"));
    }
    let mut wrong = Vec::new();
    if !run_job(judge, &work.join("job"), &looks(&pools), Some(&out), &pools) {
        wrong.push(format!("the kernel complains, of one of {}", work.display()));
    }
    for (bench, dir) in &mut pools {
        let name = bench.pool.clone();
        let theirs = |what: &str| out.join(format!("{name}-{what}.json"));
        if !same(judge, &dir.join("ours.json"), &theirs("manifest")) {
            wrong.push(format!("{name} holds something else for the kernel"));
        }
        bench.load(dir);
        describe(bench, &dir.join("ours-after.json"));
        if !same(judge, &dir.join("ours-after.json"), &theirs("manifest-after")) {
            wrong.push(format!("{name} holds something else for us, after the kernel wrote"));
        }
        if let Some(verdict) = testkit::oracle::verdict(dir, &name)
            && !verdict.success
        {
            wrong.push(format!("zdb of {name}:\n{}", verdict.text));
        }
    }
    wrong
}

/// The judge, which has a machine.
fn machine() -> KernelJudge {
    let judge = KernelJudge::find();
    let cache = std::env::var_os("ZFS_JUDGE_CACHE")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/zfs-judge")));
    let is_built = cache.is_some_and(|c| c.join("root.img").is_file());
    assert!(is_built, "this needs the kernel judge's machine (../shared/judge/build-vm)");
    judge
}

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn the_kernel_agrees() {
    let program = machine();
    let dir = tempfile::Builder::new().prefix("judge").tempdir().unwrap();
    let seed = number("ZINC_SEED", 1000);
    let mut made = Vec::new();
    for (n, shape) in shapes().into_iter().enumerate() {
        let at = dir.path().join(format!("{shape:?}"));
        fs::create_dir_all(&at).unwrap();
        made.push((make(seed + n as u64, shape, &at), at));
    }
    let mut wrong = Vec::new();
    let mut round = 0;
    while !made.is_empty() {
        let mut images = 0;
        let fits = |(bench, _): &&(Bench, PathBuf)| {
            images += bench.devices.len();
            images <= IMAGES_MAX
        };
        let n = made.iter().take_while(fits).count().max(1);
        let rest = made.split_off(n);
        wrong.extend(judge(&program, made, &dir.path().join(format!("round{round}"))));
        (made, round) = (rest, round + 1);
    }
    if !wrong.is_empty() {
        let kept = dir.keep();
        panic!("seed {seed}: {}\nkept in {}", wrong.join("\n"), kept.display());
    }
}

/// A mirror, a raidz and a mirror again, left in the middle: a replacement that has not got
/// anywhere, a spare in use, a scrub that is paused.
fn make_half_way(dir: &Path) -> Vec<(Bench, PathBuf)> {
    let mut made = Vec::new();
    for (n, (shape, what)) in
        [(Shape::Raidz1, "replacing"), (Shape::Raidz2, "spare"), (Shape::Mirror, "scrub")]
            .into_iter()
            .enumerate()
    {
        let mut run = filled(3000 + n as u64, shape, DEVICE_BYTES, &format!("half-{what}"));
        let pool = run.pool();
        let leaf = pool.view().vdevs().leaves().nth(1).unwrap().guid();
        match what {
            "scrub" => {
                // Its place is that of what it came to.
                set(pool, "zfs_scan_legacy=1");
                set(pool, "zfs_scrub_min_time_ms=1");
                let place = || pool.view().scan_state().unwrap().unwrap().bookmark;
                // All of the pool is in memory, so that a scrub takes some milliseconds. It is
                // given a little more time until it is paused in a dataset; a paused one goes on.
                let is_paused = (0..400).any(|n| {
                    pool.scrub().unwrap();
                    std::thread::sleep(Duration::from_micros(100 * (n % 100)));
                    pool.pause_scrub().is_ok() && place().objset != 0
                });
                assert!(is_paused, "no scrub was paused in a dataset");
            }
            _ => {
                // Nothing is brought to the new device by us.
                set(pool, "zfs_scan_suspend_progress=1");
                let new = run.bench.extra();
                let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
                let pool = run.pool();
                if what == "spare" {
                    let devices = run.bench.source();
                    pool.add_aux(std::slice::from_ref(&spec), &[], &devices).unwrap();
                    let spare = pool.spares_left().unwrap()[0].guid;
                    pool.take_spare(leaf, spare, Some(device)).unwrap();
                } else {
                    pool.replace(leaf, &spec, device).unwrap();
                }
            }
        }
        let (bench, _) = run.finish();
        made.push(saved(bench, dir.join(what)));
    }
    made
}

fn set(pool: &engine::LivePool, setting: &str) {
    pool.set_tunable(engine::live::Setting::parse(setting).unwrap());
}

/// What the kernel does with them: it goes on, and then leaves a replacement and a scrub of its own
/// in the middle.
const GO_ON: &str = r"
set -x
fail=0
for pool in half-replacing half-spare half-scrub; do
    zpool import -N -d /dev $pool || exit 1
done
zpool scrub half-scrub || fail=1
zpool wait -t scrub half-scrub
zpool wait -t resilver half-spare
zpool wait -t resilver,replace half-replacing
sleep 3
for pool in half-replacing half-spare half-scrub; do
    zpool status -v $pool
    zpool status $pool | grep -q 'errors: No known data errors' || fail=1
done
zpool status half-replacing | grep -q replacing- && fail=1
zpool status half-spare | grep -q INUSE || fail=1
zpool status half-scrub | grep -q 'scrub repaired 0B .* with 0 errors' || fail=1
# Half way again, by the kernel this time.
echo 1 > /sys/module/zfs/parameters/zfs_scan_suspend_progress
zpool replace -f half-replacing $OLD $NEW || fail=1
zpool scrub half-scrub || fail=1
sleep 3
zpool status half-replacing half-scrub
for pool in half-replacing half-spare half-scrub; do
    zpool export $pool || fail=1
done
exit $fail
";

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn what_is_half_done_is_gone_on_with_by_both() {
    let dir = tempfile::Builder::new().prefix("judge").tempdir().unwrap();
    let made = make_half_way(dir.path());
    // The devices of the first pool come first; its second one was replaced and is free by then.
    let script = GO_ON.replace("$NEW", "/dev/img1").replace("$OLD", "vdd");
    let finish = |pool: &LivePool| {
        pool.wait_for_scan().unwrap();
        assert!(pool.view().vdevs().leaves().all(|l| l.missed().is_empty()), "{}", pool.name());
    };
    let finished = |bench: &Bench| {
        let tree = bench.open().config().vdev_tree.clone();
        assert!(tree.walk().all(|v| v.kind.name() != "replacing"), "{tree:?}");
    };
    let describe = describe_degraded;
    let work = Work { describe, left: &|_| {}, finish: &finish, finished: &finished };
    handover::judge(made, dir, &script, &work);
}
