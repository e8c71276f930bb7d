//! `zinc check` as a program: exit codes and JSON.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use serde_json::Value;
use std::process::{Command, Output};

fn zinc(case: &str, arguments: &[&str]) -> Output {
    let corpus = testkit::corpus(case);
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.env("ZINC_STATE", concat!(env!("CARGO_TARGET_TMPDIR"), "/run/state"));
    command.arg("check").arg("-d").arg(&corpus.dir).args(arguments).arg(corpus.name());
    command.output().expect("zinc runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_clean_pool_ends_with_0() {
    let output = zinc("basic", &["-j"]);
    assert_eq!(output.status.code(), Some(0));
    let report = json(&output);
    assert_eq!(report["clean"], true);
    assert_eq!(report["issues"].as_array().map(Vec::len), Some(0));
    assert_eq!(report["allocated"], report["totals"]["allocated"]);
}

#[test]
fn a_damaged_pool_ends_with_3_and_names_the_device() {
    let output = zinc("degraded-mirror", &["-j"]);
    assert_eq!(output.status.code(), Some(3));
    let report = json(&output);
    let issue = &report["issues"][0];
    assert_eq!(
        (&issue["issue"], &issue["severity"]),
        (&"device-damaged".into(), &"repairable".into())
    );
    assert_eq!(issue["device"]["path"], "/dev/img1");
    let text = zinc("degraded-mirror", &[]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("repairable: device-damaged: /dev/img1"), "{text}");
    assert!(text.contains("has issues: 0 lost, 0 inconsistent, 1 repairable, 0 note"), "{text}");
}

#[test]
fn an_absent_device_is_a_note() {
    let output = zinc("degraded-raidz", &["-q"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
}

#[test]
fn the_newest_txg_is_listed_as_intact() {
    let output = zinc("basic", &["-j", "--list-txgs"]);
    assert_eq!(json(&output)["txgs"][0]["state"], "intact");
}

#[test]
fn no_such_pool_ends_with_1() {
    let corpus = testkit::corpus("basic");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.env("ZINC_STATE", concat!(env!("CARGO_TARGET_TMPDIR"), "/run/state"));
    let output = command.args(["check", "-d"]).arg(&corpus.dir).arg("nosuchpool").output();
    assert_eq!(output.expect("zinc runs").status.code(), Some(1));
}
