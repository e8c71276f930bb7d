//! Pools that are left in the middle of something: the kernel goes on with what we began, and we go
//! on with what it leaves. Whatever is moved meanwhile, what a pool holds stays the same.

use super::random::{Bench, Run};
use super::{DEVICE_BYTES, machine, run_job, same};
use engine::LivePool;
use poolkit::Shape;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of the labels at an end of a device.
pub(super) const LABELS: u64 = 512 << 10;
/// Time that one of the works may take here.
pub(super) const LONG: Duration = Duration::from_mins(10);

/// A pool that a random history filled.
pub(super) fn filled(seed: u64, shape: Shape, device_bytes: u64, name: &str) -> Run {
    let mut bench = Bench::new(shape, device_bytes, 12);
    bench.disks = true;
    bench.pool = String::from(name);
    let mut run = Run::new(seed, bench);
    run.weight_max = 1 << 20;
    run.offset_max = 8 << 20;
    (0..300).for_each(|_| run.step());
    run.free_limits();
    run.pool().sync().unwrap();
    run
}

/// Makes zeros of all that a device has between its labels.
pub(super) fn overwrite(bench: &Bench, device: usize) {
    let zeros = vec![0; 1 << 20];
    for at in (LABELS..DEVICE_BYTES - LABELS).step_by(zeros.len()) {
        let len = zeros.len().min((DEVICE_BYTES - LABELS - at) as usize);
        bench.devices[device].put(at, &zeros[..len]);
    }
}

/// The pool, with its devices in files of the folder `at`.
pub(super) fn saved(bench: Bench, at: PathBuf) -> (Bench, PathBuf) {
    std::fs::create_dir_all(&at).unwrap();
    bench.save(&at);
    (bench, at)
}

/// How a kind of work is judged.
pub(super) struct Work<'a> {
    /// Writes what a pool holds.
    pub(super) describe: fn(&Bench, &Path),
    /// Checks how far the kernel left a pool.
    pub(super) left: &'a dyn Fn(&Bench),
    /// Finishes here what is unfinished in an imported pool.
    pub(super) finish: &'a dyn Fn(&LivePool),
    /// Checks that nothing is unfinished in an exported pool.
    pub(super) finished: &'a dyn Fn(&Bench),
}

/// Gives the pools to the kernel, which does what `script` says, and finishes what it left.
pub(super) fn judge(
    made: Vec<(Bench, PathBuf)>,
    dir: tempfile::TempDir,
    script: &str,
    work: &Work<'_>,
) {
    let program = machine();
    for (bench, at) in &made {
        (work.describe)(bench, &at.join("before.json"));
        is_clean_for_zdb(bench, at);
    }
    let job = dir.path().join("job");
    assert!(run_job(&program, &job, script, None, &made), "{}", dir.keep().display());
    for (mut bench, at) in made {
        bench.load(&at);
        (work.left)(&bench);
        (work.describe)(&bench, &at.join("between.json"));
        let pool = bench.import();
        (work.finish)(&pool);
        pool.export().unwrap();
        (work.finished)(&bench);
        (work.describe)(&bench, &at.join("after.json"));
        for what in ["between.json", "after.json"] {
            let is_same = same(&program, &at.join("before.json"), &at.join(what));
            assert!(is_same, "{}: {what}", bench.pool);
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
