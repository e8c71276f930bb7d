//! Error logs in both forms: the kernel names the file that we found to be lost, and we name the
//! one that the kernel's scrub found.

use super::handover::{LABELS, filled, saved};
use super::random::{Bench, add_large, large_starts};
use super::{DEVICE_BYTES, machine, run_job};
use engine::inside::device::Device;
use poolkit::Shape;
use std::path::{Path, PathBuf};

const SECTOR: usize = 4096;

/// A block of a file is lost, on the only disk; a scrub has found that if `is_found`.
fn lossy(dir: &Path, seed: u64, by_head: bool, is_found: bool) -> (Bench, PathBuf) {
    const BYTES: u64 = 4 << 20;
    let name = format!("errors-{by_head}-{is_found}");
    let run = filled(seed, Shape::Disk, DEVICE_BYTES, &name);
    if by_head {
        run.pool().enable_feature("head_errlog").unwrap();
    }
    add_large(run.pool(), BYTES);
    let (bench, _) = run.finish();
    let starts = large_starts(BYTES);
    let begins = |place: &u64| {
        let mut start = [0; 16];
        bench.devices[0].read(*place, &mut start).unwrap();
        starts.contains(&start)
    };
    let place = (LABELS..DEVICE_BYTES - LABELS).step_by(SECTOR).find(begins);
    bench.devices[0].put(place.expect("the file is there"), &[0x5a; SECTOR]);
    if is_found {
        let pool = bench.import();
        pool.scrub().unwrap();
        pool.wait_for_scan().unwrap();
        pool.export().unwrap();
        assert_eq!(lost(&bench), [file(&bench)]);
    }
    saved(bench, dir.join(name))
}

/// The file of which a block is lost, as reports name it.
fn file(bench: &Bench) -> String {
    format!("{}/large:/file", bench.pool)
}

/// What the error log names.
fn lost(bench: &Bench) -> Vec<String> {
    let pool = bench.open();
    pool.status(&pool.space()).damaged
}

/// What the kernel does with them: of two it has to read our log, of all it writes its own.
const GO_ON: &str = r"
set -x
fail=0
bad() { echo CHECK FAILED: $*; fail=1; }
for pool in errors-false-true errors-true-true errors-false-false errors-true-false; do
    zpool import -N -d /dev $pool || exit 1
    zpool status -v $pool > /tmp/status
    cat /tmp/status
    case $pool in
        *-true) grep -q $pool/large:/file /tmp/status || bad $pool: our log is not understood ;;
        *) grep -q 'errors: No known data errors' /tmp/status || bad $pool: there is a log ;;
    esac
    zpool scrub -w $pool
    zpool status -v $pool > /tmp/status
    cat /tmp/status
    grep -q $pool/large:/file /tmp/status || bad $pool: the scrub names nothing
    zpool export $pool || bad $pool: no export
done
exit $fail
";

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn logs_of_errors_are_understood_both_ways() {
    let dir = tempfile::Builder::new().prefix("judge").tempdir().unwrap();
    let kinds =
        [(6100, false, true), (6101, true, true), (6102, false, false), (6103, true, false)];
    let made = kinds.map(|(seed, by_head, is_found)| lossy(dir.path(), seed, by_head, is_found));
    let (program, job) = (machine(), dir.path().join("job"));
    assert!(run_job(&program, &job, GO_ON, None, &made), "{}", dir.keep().display());
    for (mut bench, at) in made {
        bench.load(&at);
        assert_eq!(lost(&bench), [file(&bench)], "the kernel's log");
    }
}
