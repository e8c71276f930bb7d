//! Random tests are made shorter when they fail (`testkit::shrinking`, `testkit::scenario`), so
//! that a failure is a few steps and not a thousand. Here stand those that are not, and why.

use tidy::source::code;
use tidy::{report, rust_files};

/// What decides in a test by chance.
const CHANCE: [&str; 2] = [concat!("Rng::", "new("), concat!("Xoshiro256::", "seeded(")];
/// What makes it shorter. The helpers of a test are given the steps that are left.
const SHRINKS: [&str; 7] = [
    "testkit::shrinking",
    "testkit::scenario",
    "steps.draw()",
    "testkit::{RandomSteps",
    "testkit::shrunk",
    "steps: &[u64]",
    "steps: &RandomSteps",
];

/// Bytes that are to be found again, or do not compress: nothing is decided by chance.
const DATA: &str = "the bytes of files alone are random";
/// What is done when is decided by the machine: the same steps again need not fail again.
const REAL_TIME: &str = "processes or threads in real time decide as well";

/// Test files that are not made shorter.
const WHOLE: [(&str, &str); 38] = [
    ("crates/check/tests/ztest.rs", "OpenZFS's ztest makes the pool, and is told a layout only"),
    ("crates/device/tests/file.rs", DATA),
    ("crates/device/tests/sim.rs", "six writes, and then all points at which the power may fail"),
    ("crates/engine/tests/extract.rs", DATA),
    ("crates/engine/tests/faults/leaf.rs", "a leaf of the scenarios of `faults`, not a test"),
    (
        "crates/engine/tests/hostile/lies.rs",
        "lies for the tests of `hostile`, which leave some out",
    ),
    ("crates/engine/tests/judge_log.rs", DATA),
    ("crates/engine/tests/kill.rs", REAL_TIME),
    ("crates/engine/tests/kill_sync.rs", REAL_TIME),
    ("crates/engine/tests/receive/correct.rs", DATA),
    ("crates/engine/tests/receive/judged.rs", "the kernel takes minutes for each run"),
    ("crates/engine/tests/receive/targets.rs", DATA),
    ("crates/engine/tests/topology/replace.rs", DATA),
    ("crates/engine/tests/topology/sharing.rs", DATA),
    ("crates/engine/tests/writing/mod.rs", DATA),
    ("crates/far/tests/servers/speed.rs", "it measures: only the places of requests are random"),
    ("crates/far/tests/takeovers.rs", REAL_TIME),
    ("crates/far/tests/weather/mod.rs", REAL_TIME),
    ("crates/pool/src/alloc/tests/threads.rs", REAL_TIME),
    ("crates/pool/tests/common/made.rs", DATA),
    ("crates/testkit/tests/images.rs", "tests of chance itself"),
    ("crates/vdev/tests/common/mod.rs", DATA),
    ("crates/zinc/tests/checkpoint.rs", DATA),
    ("crates/zinc/tests/damage_in_clones.rs", DATA),
    ("crates/zinc/tests/devices.rs", DATA),
    ("crates/zinc/tests/far.rs", DATA),
    ("crates/zinc/tests/far_buckets.rs", DATA),
    ("crates/zinc/tests/far_stores.rs", DATA),
    ("crates/zinc/tests/health.rs", DATA),
    ("crates/zinc/tests/ingest.rs", DATA),
    ("crates/zinc/tests/killed.rs", REAL_TIME),
    ("crates/zinc/tests/mount/direct.rs", "what the kernel has cached decides as well"),
    ("crates/zinc/tests/read_repair.rs", DATA),
    ("crates/zinc/tests/returned.rs", DATA),
    ("crates/zinc/tests/trim.rs", DATA),
    ("crates/zinc/tests/vdev_properties.rs", DATA),
    ("crates/zinc/tests/write.rs", DATA),
    ("crates/zio/tests/common/mod.rs", DATA),
];

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// What is wrong with the test files among these.
fn offences<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let (mut offences, mut whole) = (Vec::new(), WHOLE.map(|(path, _)| path).to_vec());
    for (path, text) in files.into_iter().filter(|(path, _)| is_test(path)) {
        let has = |words: &[&str]| text.lines().any(|l| words.iter().any(|w| code(l).contains(w)));
        let is_whole = has(&CHANCE) && !has(&SHRINKS);
        let is_listed = WHOLE.iter().any(|(listed, _)| *listed == path);
        if is_whole && !is_listed {
            offences.push(format!("{path}: it is not made shorter, and is not on the list"));
        }
        whole.retain(|listed| *listed != path || !is_whole);
    }
    offences.extend(whole.iter().map(|path| format!("{path}: it need not be on the list")));
    offences
}

#[test]
fn random_tests_shrink() {
    let files = rust_files();
    let files = files.iter().filter(|(path, _)| !path.starts_with("crates/tidy/"));
    let offences = offences(files.map(|(path, text)| (path.as_str(), text.as_str())));
    report("random tests that are not made shorter when they fail", &offences);
}

#[test]
fn a_random_test_that_does_not_shrink_is_found() {
    let chance = format!("let mut rng = {}1);", CHANCE[0]);
    let shrinks = format!("{chance}\ntestkit::shrinking(1, 2, run);");
    let files = [
        ("crates/zpl/tests/one.rs", chance.as_str()),
        ("crates/zpl/tests/two.rs", shrinks.as_str()),
        ("crates/zpl/src/three.rs", chance.as_str()),
    ];
    let found: Vec<_> =
        offences(files).into_iter().filter(|o| o.contains("is not on the list")).collect();
    assert!(found.len() == 1 && found[0].starts_with("crates/zpl/tests/one.rs"), "{found:?}");
}
