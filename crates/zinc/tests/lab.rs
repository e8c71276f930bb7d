//! `zinc lab run` on devices and in pools: what it asks before it destroys data, what it shows, and
//! that nothing of it stays.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Run, zinc_in};

const BYTES: u64 = 256 << 20;

/// Everything there is, a little of each.
const ALL: &str = "lab run all --seconds 0.1 --scale 0.01 -j";

fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::File::create(dir.path().join("disk")).unwrap().set_len(BYTES).unwrap();
    dir
}

fn run(dir: &Path, command: &str) -> Run {
    zinc_in(dir, &command.split_whitespace().collect::<Vec<_>>())
}

/// Whether nothing was written to the file, which is of holes.
fn untouched(dir: &Path) -> bool {
    std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(dir.join("disk")).unwrap()) == 0
}

/// Runs zinc on a terminal where a user types this; what the terminal showed, and the exit code.
fn typed(dir: &Path, args: &str, what: &str) -> (String, i32) {
    let command = format!("{} {args}", env!("CARGO_BIN_EXE_zinc"));
    let child = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(dir)
        .env("ZINC_STATE", dir.join("run/state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    child.stdin.take().unwrap().write_all(format!("{what}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code().unwrap())
}

#[test]
fn data_is_not_destroyed_without_a_terminal() {
    let dir = place();
    let command = "lab run raw-sweep --device disk --destroy-data --seconds 0.01";
    let alone = run(dir.path(), command);
    assert_eq!((alone.code, alone.out.as_str()), (1, ""));
    assert!(alone.err.contains("disk was not touched"), "{}", alone.err);
    assert!(alone.err.contains("without a terminal"), "{}", alone.err);
    assert!(untouched(dir.path()));
    let unsaid = run(dir.path(), "lab run sync-stream --device disk --yes");
    assert!(unsaid.code == 1 && unsaid.err.contains("--destroy-data"), "{}", unsaid.err);
    assert!(untouched(dir.path()));
}

#[testkit::needs("script")]
#[test]
fn data_is_destroyed_only_when_the_path_is_typed() {
    let dir = place();
    let command = "lab run raw-sweep --device disk --destroy-data --seconds 0.01";
    let (text, code) = typed(dir.path(), command, "dis");
    assert!(code == 1 && text.contains("Everything on disk will be lost"), "{text}");
    assert!(text.contains("that is not its path"), "{text}");
    assert!(untouched(dir.path()));
    let (text, code) = typed(dir.path(), command, "disk");
    assert!(code == 0 && text.contains("raw-sweep on disk"), "{text}");
    assert!(!untouched(dir.path()));
}

/// The rows of an experiment, all measured.
fn rows<'a>(report: &'a Value, experiment: &str) -> Vec<(&'a str, f64)> {
    let all = report["experiments"].as_array().unwrap();
    let found = all.iter().find(|e| e["experiment"] == experiment);
    let rows = found.unwrap_or_else(|| panic!("no {experiment}"))["rows"].as_array().unwrap();
    let row = |r: &'a Value| (r["row"].as_str().unwrap(), r["measured"].as_f64().unwrap());
    rows.iter().map(row).collect()
}

fn measured(report: &Value, experiment: &str, row: &str) -> f64 {
    let rows = rows(report, experiment);
    let found = rows.iter().find(|(name, _)| *name == row);
    found.unwrap_or_else(|| panic!("{experiment} has no {row}: {rows:?}")).1
}

/// What all experiments that ran in a pool have to have measured.
fn assert_all_in_a_pool(report: &Value) {
    assert!(measured(report, "throttle", "synctime 1 s: sustained") > 0.1);
    assert!(measured(report, "throttle", "dirty-delay: sustained") > 0.1);
    let mib = measured(report, "pios", "written in each run");
    assert!((1.0..BYTES as f64 / 16.0 / f64::from(1 << 20)).contains(&mib), "{mib}");
    assert!(measured(report, "pios", "8 zio threads: bandwidth") > 0.1);
    assert!(measured(report, "pios", "the pool as it is: bandwidth") > 0.1);
    // Cold: each read needs blocks of the file, and both sizes read the same.
    for every in ["1024", "128"] {
        let level = |size: &str| {
            let row = format!("{size} KiB, every {every}th block: L0, I/Os");
            measured(report, "indirect", &row)
        };
        assert!(
            level("16") >= 1.0 && level("16") == level("128"),
            "{} {}",
            level("16"),
            level("128")
        );
    }
}

#[test]
fn all_experiments_run_in_a_pool_and_leave_nothing_there() {
    let dir = place();
    run(dir.path(), "zpool create tank disk").ok();
    let report = run(dir.path(), &format!("{ALL} --pool tank -d .")).json();
    assert_eq!(report["experiments"].as_array().unwrap().len(), 6);
    assert!(measured(&report, "raw-sweep", "1024 KiB") > 1.0);
    let synced = measured(&report, "raw-sweep", "16 KiB, a sync after each");
    assert!(synced > 0.0);
    for bytes in [512, 4096, 131_072] {
        assert!(measured(&report, "seek", &format!("linear, {bytes} bytes")) > 1.0);
        assert!(measured(&report, "seek", &format!("random, {bytes} bytes")) > 1.0);
    }
    assert!(measured(&report, "sync-stream", "all txgs: throughput") > 0.1);
    assert_all_in_a_pool(&report);
    assert_eq!(run(dir.path(), "zfs list -d . -H -o name").ok(), "tank\n");
    let check = run(dir.path(), "check -d . tank");
    assert_eq!(check.code, 0, "{}", check.out);
}

#[test]
fn all_experiments_run_on_a_device_and_leave_no_pool_there() {
    let dir = place();
    let report = run(dir.path(), &format!("{ALL} --device disk --destroy-data --yes")).json();
    assert_eq!(report["experiments"].as_array().unwrap().len(), 6);
    assert!(measured(&report, "raw-sweep", "16 KiB, write cache on") > 0.1);
    assert!(measured(&report, "sync-stream", "txg 5: throughput") > 0.1);
    assert_all_in_a_pool(&report);
    let left = run(dir.path(), "zpool import -d .");
    assert!(!left.out.contains("zinc-lab"), "{}", left.out);
}

#[test]
fn a_pipe_without_a_writer_is_not_waited_for() {
    let dir = place();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (command, why) in [
        ("lab fit --device pipe", "neither a file nor a disk"),
        ("lab run raw-sweep --device pipe --destroy-data --yes", "neither a file nor a disk"),
        ("lab fit --sim ./pipe", "it is a pipe"),
        ("top --replay pipe", "it is a pipe"),
        ("txgs --history pipe", "it is a pipe"),
        ("zpool scrub --tunables pipe none", ""),
    ] {
        let run = run(dir.path(), command);
        assert!(run.code != 0 && run.err.contains(why), "{command}: {}", run.err);
    }
}

/// As `zpool create`, which takes such a device only by force, or not at all.
#[test]
fn a_device_of_a_pool_is_not_overwritten_unasked() {
    let dir = place();
    run(dir.path(), "zpool create tank disk").ok();
    let sweep = "lab run raw-sweep --device disk --destroy-data --yes --seconds 0.01";
    let fit = "lab fit --device disk --write --destroy-data --yes --seconds 0.01";
    let pios = "pios -p disk --force -t 1 -n 1 -s 64K -c 64K";
    let refused = |command: &str, why: &str| {
        let run = run(dir.path(), command);
        assert!(run.code != 0 && run.out.is_empty(), "{command}: {}", run.out);
        assert!(run.err.contains(why), "{command}: {}", run.err);
        assert!(!run.err.contains("panicked"), "{command}: {}", run.err);
    };
    for command in [sweep, fit, pios, &format!("{sweep} -f"), &format!("{fit} -f")] {
        refused(command, "is part of active pool 'tank'");
    }
    run(dir.path(), "zpool export -d . tank").ok();
    for command in [sweep, fit] {
        refused(command, "is part of exported pool 'tank'");
        refused(command, "use '-f' to overwrite it");
    }
    run(dir.path(), "zpool import -d . tank").ok();
    run(dir.path(), "zpool export -d . tank").ok();
    run(dir.path(), &format!("{sweep} -f")).ok();
}

/// Whether a run has set up what it does at signals; that for SIGHUP, the first bit, comes last.
fn waits_for_signals(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 1 == 1
}

#[test]
fn a_run_in_a_pool_that_is_interrupted_leaves_nothing_there() {
    let dir = place();
    run(dir.path(), "zpool create tank disk").ok();
    let args = "lab run raw-sweep --pool tank -d . --seconds 1";
    for signal in ["INT", "TERM"] {
        let child = Command::new(env!("CARGO_BIN_EXE_zinc"))
            .args(args.split_whitespace())
            .current_dir(dir.path())
            .env("ZINC_STATE", dir.path().join("run/state"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // In the middle of it; before it waits for signals they would end it as any program.
        support::place::until("it waits for signals", || waits_for_signals(child.id()));
        std::thread::sleep(std::time::Duration::from_secs(3));
        let (signal, process) = (format!("-{signal}"), child.id().to_string());
        assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && err.contains("called off"), "{err}");
        assert_eq!(run(dir.path(), "zfs list -d . -H -o name").ok(), "tank\n");
    }
}

#[test]
fn what_failed_is_named_and_what_came_before_it_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::File::create(dir.path().join("disk")).unwrap().set_len(64 << 20).unwrap();
    let command = "lab run raw-sweep sync-stream --device disk --destroy-data --yes --seconds 0.01";
    let failed = run(dir.path(), &format!("{command} -j"));
    assert!(failed.code == 1 && failed.err.contains("sync-stream: "), "{}", failed.err);
    let report: Value = serde_json::from_str(&failed.out).unwrap();
    assert_eq!(report["experiments"][0]["experiment"], "raw-sweep");
    assert_eq!(report["experiments"].as_array().unwrap().len(), 1);
}
