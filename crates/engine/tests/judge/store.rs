//! A pool that was made and written in a bucket is the kernel's as well: its disk is copied out,
//! and in again when the kernel has written.

use super::writing::{self, store};
use super::{describe_pool, look, machine, run_job_on, same};
use engine::devices::FarName;
use engine::devices::disk;
use engine::live::ImportOptions;
use engine::{Create, LivePool, NewPool, OpenOptions, Pool};
use std::path::Path;
use testkit::S3Server;

/// The name of this test, which is started again with what the bucket needs in its environment.
const TEST: &str = "store::a_pool_in_a_bucket_is_the_kernels_as_well";
const POOL: &str = "judge-store";

fn at(name: &FarName) -> OpenOptions {
    OpenOptions::in_places([name.as_str()])
}

/// Writes much, and frees a part of it again.
fn fill(pool: &LivePool) {
    for n in 0..3 {
        let (name, seed) = (format!("{POOL}/fs{n}"), 10 * n);
        Create::filesystem(&name).unwrap().run(pool).unwrap();
        let fs = pool.filesystem(&name).unwrap();
        writing::fill(&fs, seed, 60);
        pool.snapshot(&[format!("{name}@s")], Vec::new()).unwrap();
        writing::fill(&fs, seed + 1, 20);
    }
    pool.destroy_snapshots(&[format!("{POOL}/fs1@s")], false).unwrap();
    pool.destroy_dataset(&format!("{POOL}/fs1")).unwrap();
    pool.clone_snapshot(&format!("{POOL}/fs0@s"), &format!("{POOL}/clone"), Vec::new()).unwrap();
    pool.create_volume(&format!("{POOL}/volume"), 8 << 20, 16 << 10, Vec::new()).unwrap();
}

fn describe(name: &FarName, path: &Path) {
    let pool = Pool::open(POOL, &at(name)).unwrap();
    let report = writing::check(&pool);
    assert!(report.issues.is_empty(), "{:#?}", report.issues);
    describe_pool(&pool, path);
}

fn zdb_agrees(dir: &Path) {
    if let Some(verdict) = testkit::oracle::verdict(dir, POOL) {
        assert!(verdict.success, "zdb:\n{}", verdict.text);
    }
}

/// What this process does with the bucket.
fn judge(bucket: &str, dir: &Path) {
    let program = machine();
    let first = store::make_disk(&store::below(bucket, "first"), 256 << 20);
    let pool = NewPool::new(POOL).device(first.as_str()).unwrap().create().unwrap();
    fill(&pool);
    pool.export().unwrap();
    // Written to once more by the next one that has it.
    let pool = LivePool::open(POOL, &ImportOptions::new(at(&first))).unwrap();
    writing::fill(&pool.filesystem(&format!("{POOL}/clone")).unwrap(), 50, 20);
    pool.export().unwrap();
    describe(&first, &dir.join("ours.json"));
    let (images, out) = (dir.join("images"), dir.join("out"));
    std::fs::create_dir(&images).unwrap();
    let image = images.join("vdev0.img");
    disk::copy_out(&first, &image, |_| {}).unwrap();
    zdb_agrees(&images);
    let script = format!("fail=0\n{}exit $fail\n", look(POOL));
    assert!(
        run_job_on(
            &program,
            &dir.join("job"),
            &script,
            Some(&out),
            1,
            std::slice::from_ref(&image)
        ),
        "the kernel complains"
    );
    let theirs = |what: &str| out.join(format!("{POOL}-{what}.json"));
    assert!(same(&program, &dir.join("ours.json"), &theirs("manifest")));
    // The kernel wrote; that goes in again, and is gone on with there.
    let second = store::make_disk(&store::below(bucket, "second"), 256 << 20);
    let device = disk::claim(&second).unwrap();
    disk::copy_in(&image, &device, |_| {}).unwrap();
    drop(device);
    describe(&second, &dir.join("after.json"));
    assert!(same(&program, &dir.join("after.json"), &theirs("manifest-after")));
    let pool =
        LivePool::open(POOL, &ImportOptions { force: true, ..ImportOptions::new(at(&second)) });
    let pool = pool.unwrap();
    writing::fill(&pool.filesystem(&format!("{POOL}/fs0")).unwrap(), 60, 20);
    pool.export().unwrap();
    std::fs::remove_file(&image).unwrap();
    disk::copy_out(&second, &image, |_| {}).unwrap();
    zdb_agrees(&images);
    let found = disk::check(&second, |_| {}).unwrap();
    assert!(found.findings.is_empty(), "{found:?}");
}

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge, and scripts/versitygw"]
fn a_pool_in_a_bucket_is_the_kernels_as_well() {
    let dir = tempfile::Builder::new().prefix("judge").tempdir().unwrap();
    match store::given() {
        Some(bucket) => judge(&bucket, dir.path()),
        None => {
            let server = S3Server::start(dir.path(), "bucket");
            store::run_again(TEST, "s3://bucket", &server.endpoint(), &server.environment());
        }
    }
}
