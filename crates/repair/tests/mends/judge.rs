//! The kernel's own OpenZFS judges every pool that the tests beside this one have repaired: it is
//! imported, scrubbed with nothing to repair, written to, imported and scrubbed again, and then
//! checked here once more. Run by `scripts/judge repairs`, with parts of the names of tests as
//! `ZINC_JUDGE_REPAIRS=logs,mos` for some of them only.

use super::kit::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where tests leave the images that they have repaired.
const KEEP: &str = "ZINC_KEEP_REPAIRED";

/// Time that a pool may take, on a busy host.
const SECONDS_OF_A_POOL: usize = 240;

/// What the machine does: each pool is unpacked, and its images are disks.
const RUN: &str = r#"
dmesg -n 1
modprobe loop
fail=0
bad() { echo "CHECK FAILED: $case: $*"; fail=1; }
health() {
    zpool status -v "$pool"
    zpool status -j --json-int "$pool" > /tmp/status.json
    python3 /judge/health.py /tmp/status.json || bad health
}
round() {
    zpool import -d "$disks" -N -f -o cachefile=none "$pool" || { bad import; return 1; }
    zpool scrub -w "$pool" || bad scrub
    health
}
for archive in /job/*.tgz; do
    case=$(basename "$archive" .tgz)
    echo "== $case"
    mkdir -p /vd/images /vd/disks
    tar xzf "$archive" -C /vd/images
    pool=$(cat /vd/images/pool)
    disks=/vd/images
    if zdb -l "$(ls /vd/images/*.img | head -1)" | grep -q "type: 'disk'"; then
        disks=/vd/disks
        for image in /vd/images/*.img; do
            ln -s "$(losetup -f --show "$image")" "/vd/disks/$(basename "$image")"
        done
    fi
    if round; then
        python3 /judge/write-some.py "$pool" || bad write
        zfs snapshot -r "$pool@judged" || bad snapshot
        zpool export "$pool" || bad export
        round && { zpool export "$pool" || bad "second export"; }
    fi
    losetup -D
    sync
    tar czSf "/out/$case.tgz" -C /vd/images . || bad "packing"
    rm -rf /vd
done
if dmesg | grep -E 'BUG:|VERIFY|PANIC|Oops|general protection'; then fail=1; fi
exit $fail
"#;

/// Leaves the pool of a test as it is for the judge, when that was asked for.
pub(crate) fn keep(s: &Surgeon) {
    if let Some(all) = std::env::var_os(KEEP) {
        let test = std::thread::current().name().unwrap_or("main").replace("::", ".");
        let pool = s.open().name().to_owned();
        let place = Path::new(&all).join(format!("{test}.{pool}"));
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("pool"), pool).unwrap();
        for image in fs::read_dir(s.dir()).unwrap().map(|e| e.unwrap().path()) {
            let copy = place.join(image.file_name().unwrap());
            testkit::SparseImage::load(&image).unwrap().save(&copy).unwrap();
        }
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.status().unwrap_or_else(|e| panic!("{command:?}: {e}")).success()
}

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge repairs"]
fn the_kernel_accepts_what_was_repaired() {
    let judge = testkit::KernelJudge::find();
    let dir = tempfile::Builder::new().prefix("judge-repairs").tempdir().unwrap();
    let (kept, job, out) =
        (dir.path().join("kept"), dir.path().join("job"), dir.path().join("out"));
    [&kept, &job, &out].into_iter().for_each(|place| fs::create_dir_all(place).unwrap());
    let only = std::env::var("ZINC_JUDGE_REPAIRS").unwrap_or_default();
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests.args(only.split(',').filter(|part| !part.is_empty())).env(KEEP, &kept);
    assert!(succeeds(&mut tests), "the tests whose pools are judged");
    let pools: Vec<PathBuf> = fs::read_dir(&kept).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(!pools.is_empty(), "no test has repaired a pool");
    for pool in &pools {
        let name = pool.file_name().unwrap().to_str().unwrap();
        let mut pack = Command::new("tar");
        pack.arg("czSf").arg(job.join(format!("{name}.tgz"))).arg("-C").arg(pool).arg(".");
        assert!(succeeds(&mut pack), "{pack:?}");
    }
    fs::write(job.join("run.sh"), RUN).unwrap();
    let mut machine = judge.machine(SECONDS_OF_A_POOL * pools.len());
    machine.arg("--out").arg(&out).arg(&job);
    let is_content = succeeds(&mut machine);
    for pool in &pools {
        let archive = out.join(format!("{}.tgz", pool.file_name().unwrap().to_str().unwrap()));
        let mut unpack = Command::new("tar");
        unpack.arg("xzf").arg(&archive).arg("-C").arg(pool);
        assert!(succeeds(&mut unpack), "{unpack:?}");
        let open = OpenOptions::in_places(vec![pool.clone()]);
        let seen =
            pool::Pool::open(&fs::read_to_string(pool.join("pool")).unwrap(), &open).unwrap();
        let how = check::CheckOptions::default();
        let report = check::run(&seen, &how, &rt::Progress::new());
        assert!(report.is_clean(), "{}: {:?}", pool.display(), report.issues);
    }
    assert!(is_content, "the kernel complains, of one of {}", dir.keep().display());
}
