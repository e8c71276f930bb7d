//! Keys stay where they are: in files that others cannot read, and in memory that is not dumped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use support::place::until;
use support::{arg, zinc};

/// A pool with an encrypted dataset, the dataset, and the pool's keys as a manifest has them.
fn encrypted() -> (testkit::CorpusPool, String, Value) {
    let pool = testkit::corpus("crypt");
    let keys = pool.manifest["keys"].clone();
    let dataset = keys.as_object().unwrap().keys().next().unwrap().clone();
    (pool, dataset, keys)
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn files_of_keys_that_others_can_read_are_warned_of() {
    let (pool, dataset, keys) = encrypted();
    let dir = tempfile::tempdir().unwrap();
    let (path, raw) = (dir.path().join("keys.json"), dir.path().join("raw"));
    let list = |more: &[&str]| {
        zinc(&[&["ls", "-d", arg(&pool.dir)], more, &[&format!("{dataset}:/")]].concat())
    };
    for (mode, warns) in [(0o644, true), (0o640, true), (0o600, false), (0o400, false)] {
        let _ = std::fs::remove_file(&path);
        write(&path, &keys.to_string(), mode);
        let run = list(&["--keys", arg(&path)]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(run.err.contains("chmod 600"), warns, "{mode:o}: {}", run.err);
    }
    // What is published is not a secret.
    let manifest = pool.source().join("manifest.json");
    assert_eq!(list(&["--keys", arg(&manifest)]).err, "");
    std::fs::write(&raw, keys[&dataset]["key"].as_str().unwrap()).unwrap();
    for (mode, warns) in [(0o604, true), (0o600, false)] {
        std::fs::set_permissions(&raw, std::fs::Permissions::from_mode(mode)).unwrap();
        let place = format!("file://{}", arg(&raw));
        let run = list(&["--key", &format!("{dataset}={place}")]);
        assert_eq!((run.code, run.err.contains("chmod 600")), (0, warns), "{}", run.err);
        let zdb = zinc(&["zdb", "-d", "-e", "-p", arg(&pool.dir), "-K", &place, &dataset]);
        assert_eq!((zdb.code, zdb.err.contains("chmod 600")), (0, warns), "{}", zdb.err);
    }
    let key = keys[&dataset]["key"].as_str().unwrap();
    let zdb = zinc(&["zdb", "-d", "-e", "-p", arg(&pool.dir), "-K", key, &dataset]);
    assert!(zdb.code == 0 && zdb.err.contains("can see a key"), "{}", zdb.err);
}

#[test]
fn a_process_with_keys_leaves_no_core_file() {
    let (pool, dataset, keys) = encrypted();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys.json");
    write(&path, &keys.to_string(), 0o600);
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    // It stalls at its output, which is not read.
    let args = ["zdb", "-dddddd", "-e", "-p", arg(&pool.dir), "--keys", arg(&path), &dataset];
    let mut child =
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut limits = String::new();
    until("it has its limits, or ends", || {
        limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
        core(&limits) == Some("0") || child.try_wait().unwrap().is_some()
    });
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(core(&limits), Some("0"), "{limits}");
}

/// The soft limit of core files.
fn core(limits: &str) -> Option<&str> {
    let line = limits.lines().find_map(|l| l.strip_prefix("Max core file size"))?;
    line.split_whitespace().next()
}
