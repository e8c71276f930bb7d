//! Pools by chance: OpenZFS's `ztest` makes them, with layouts that a seed chooses, and
//! what the check counts must be what zdb counts, block for block and byte for byte.
//!
//! ```text
//! scripts/ztest                   two short pools, as in every `cargo test`
//! scripts/ztest 100               a hundred longer ones
//! ZINC_SEED=N scripts/ztest 1     the layout of one seed again; what ztest does on it differs
//! ```
//!
//! ztest kills itself at random moments, injects faults, attaches, replaces, removes and expands.
//! So space may be leaked for good, which zdb names as well, and blocks may be unreadable for zdb
//! too. What zdb reads must not be lost for us. A pool that differs is kept, and its folder named.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs)]

mod common;

use check::{CheckOptions, Issue, Report, Severity};
use common::summary;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::{Rng, oracle};

/// The name ztest gives its pools.
const POOL: &str = "ztest";

/// About the time that ztest needs to fill a RAID-Z and expand it.
const EXPANSION_SECONDS: u64 = 20;

/// How many pools, from which seed, and for how many seconds ztest is at work on each.
struct Plan {
    pools: u64,
    seed: u64,
    seconds: u64,
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// What ztest is told of the layout. An expansion takes more time than the short form has.
fn layout(seed: u64, seconds: u64) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let mut any = |from: &[&str]| from[rng.below(from.len() as u64) as usize].to_owned();
    // One mirror of one RAID-Z is what ztest makes unless it is told of no mirror; no other program
    // makes such a vdev, and zinc refuses it.
    let shape = match any(&["mirror", "mirror", "raidz", "eraidz", "expand", "draid"]).as_str() {
        // With one disk the kind means nothing, but left to chance it may be one that needs more.
        "mirror" => {
            let (sides, special) = (any(&["1", "2", "3"]), any(&["on", "off"]));
            format!("-K raidz -m {sides} -r 1 -C special={special}")
        }
        "draid" => "-K draid -m 0 -C special=off".to_owned(),
        "expand" if seconds >= EXPANSION_SECONDS => "-X".to_owned(),
        kind => {
            let kind = if kind == "raidz" { "raidz" } else { "eraidz" };
            let width = any(&["-r 3", "-r 4", "-r 4 -R 2", "-r 5 -R 2", "-r 6 -R 3"]);
            format!("-K {kind} -m 0 {width} -C special=off")
        }
    };
    let gangs = any(&["4096", "8192", "8192", "32768", "65536"]);
    let (ashift, vdevs) = (any(&["9", "9", "12"]), any(&["1", "2", "5"]));
    let (datasets, kills) = (any(&["2", "7"]), any(&["0", "70", "100"]));
    let all = format!("{shape} -g {gangs} -a {ashift} -v {vdevs} -d {datasets} -k {kills}");
    all.split(' ').map(str::to_owned).collect()
}

/// Lets ztest make a pool in `dir`. That it aborts is its own affair: the pool counts.
fn make(dir: &Path, seed: u64, seconds: u64) -> Vec<String> {
    let (ztest, zdb) = (oracle::ztest(), oracle::zdb());
    let mut arguments = layout(seed, seconds);
    let folder = dir.to_str().expect("a plain path");
    let (run, pass) = (seconds.to_string(), (seconds / 2).max(2).to_string());
    let fixed = ["-f", folder, "-T", run.as_str(), "-P", pass.as_str()];
    arguments.extend(fixed.map(str::to_owned));
    // Its verifying runs of zdb come on top of the time it is given. `timeout` ends them all.
    let log = std::fs::File::create(dir.join("log")).expect("a log");
    Command::new("timeout")
        .args(["-k", "5", &(seconds * 10 + 120).to_string(), "nice", "-n", "10"])
        .arg(ztest.get_program())
        .args(&arguments)
        .env("ZDB", zdb.get_program())
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(log.try_clone().expect("a log"))
        .stdout(log)
        .status()
        .expect("ztest runs");
    std::fs::remove_file(dir.join("log")).expect("the log");
    arguments
}

/// Faults that ztest injected may have destroyed what nothing can restore. Everything else must be
/// in order.
fn judge(what: &str, text: &str, r: &Report) {
    // zdb reads with a count of errors by number at the end; without errors there is no such list.
    let zdb_reads_all = !text.contains("Error counts:") && !text.contains("Got error");
    for issue in &r.issues {
        let excused = match issue {
            // zdb's own count of leaks is compared with ours.
            Issue::Leaked { .. } => true,
            Issue::BlockLost { .. } => !zdb_reads_all,
            // zdb does not compare counts of dedup entries with pointers. It was seen once that
            // ztest left the entry of a gang block whose header was free: its members leaked.
            Issue::DedupCount { stored, counted, .. } => {
                text.contains("leaked space") && counted < stored
            }
            // A fault that redundancy makes good: zdb reads one copy and does not see it.
            i => i.severity() <= Severity::Repairable || !zdb_reads_all,
        };
        assert!(excused, "{what}: {}: {issue}", issue.name());
    }
}

/// Whether there was something to compare.
fn compare(dir: &Path, what: &str) -> bool {
    let text = summary::of_zdb(dir, POOL);
    if !text.contains("bp count:") {
        eprintln!("{what}: zdb does not open it: {}", text.lines().last().unwrap_or_default());
        return false;
    }
    let pool = common::open(dir, POOL);
    let options = CheckOptions { issues_max: usize::MAX, ..CheckOptions::default() };
    let report = check::run(&pool, &options, &rt::Progress::new());
    judge(what, &text, &report);
    if report.blocks_lost == 0 {
        summary::compare(what, &text, &report);
    }
    true
}

fn run(plan: &Plan) {
    let mut compared = 0;
    for seed in plan.seed..plan.seed + plan.pools {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let arguments = make(folder.path(), seed, plan.seconds);
        let what = format!("ZINC_SEED={seed} ({})", arguments.join(" "));
        // A panic leaves the folder behind, to be looked into.
        let kept = folder.keep();
        eprintln!("{what}");
        if kept.join("ztest.0a").exists() {
            compared += u64::from(compare(&kept, &format!("{what} in {}", kept.display())));
        } else {
            eprintln!("{what}: ztest made nothing");
        }
        std::fs::remove_dir_all(&kept).expect("the pool's folder");
    }
    assert!(compared > 0, "none of the pools could be compared");
}

#[testkit::needs("ztest", "zdb")]
#[test]
fn short_pools_of_ztest() {
    run(&Plan { pools: 2, seed: number("ZINC_SEED").unwrap_or(1), seconds: 6 });
}

/// The long form: `scripts/ztest 100`.
#[test]
#[ignore = "long form: a minute for each pool: scripts/ztest"]
fn long_pools_of_ztest() {
    let pools = number("ZINC_ZTEST_POOLS").unwrap_or(10);
    let seconds = number("ZINC_ZTEST_SECONDS").unwrap_or(20);
    run(&Plan { pools, seed: number("ZINC_SEED").unwrap_or(1), seconds });
}
