//! Encrypted datasets from the command line: made, filled, and read with their keys.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{arg, state, zinc_in};

/// A file that its owner alone can read.
fn secret(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A pool of that name in a file, and a raw key in another.
fn place(pool: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    secret(&dir.path().join("key"), &[7; 32]);
    std::fs::File::create(dir.path().join("a")).unwrap().set_len(128 << 20).unwrap();
    let run = zinc_in(dir.path(), &["zpool", "create", pool, arg(&dir.path().join("a"))]);
    assert_eq!(run.code, 0, "{}", run.err);
    dir
}

fn run(dir: &Path, line: &str) -> (i32, String, String) {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    words.extend(["-d", arg(dir)]);
    let run = zinc_in(dir, &words);
    (run.code, run.out, run.err)
}

fn ok(dir: &Path, line: &str) -> String {
    let (code, out, err) = run(dir, line);
    assert_eq!(code, 0, "{line}: {err}");
    out
}

/// Runs a command with `input` on its standard input.
fn with_input(dir: &Path, line: &str, input: &[u8]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.args(line.split_whitespace()).arg("-d").arg(dir).env("ZINC_STATE", state(dir));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn datasets_are_made_with_keys_from_files_and_from_standard_input() {
    let dir = place("sealed");
    let dir = dir.path();
    let key = format!("file://{}", arg(&dir.join("key")));
    let raw = "-o encryption=aes-128-ccm -o keyformat=raw";
    ok(dir, &format!("zfs create {raw} -o keylocation={key} sealed/raw"));
    ok(dir, "zfs create sealed/raw/below");
    let words = "zfs create -o encryption=on -o keyformat=passphrase sealed/words";
    let made = with_input(dir, words, b"correct horse battery staple\n");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let short = with_input(dir, &words.replace("words", "short"), b"horse\n");
    assert_eq!(short.status.code(), Some(1));
    let get = "zfs get -Hp -o value encryption,keyformat,keylocation,encryptionroot,keystatus";
    let said = ok(dir, &format!("{get} sealed/raw/below"));
    assert_eq!(said, "aes-128-ccm\nraw\nnone\nsealed/raw\nunavailable\n");
    let said = ok(dir, &format!("{get} sealed/words"));
    assert_eq!(said, "aes-256-gcm\npassphrase\nprompt\nsealed/words\nunavailable\n");
    std::fs::write(dir.join("secret"), b"kept from all others").unwrap();
    let source = dir.join("secret");
    let with = format!("--key sealed/raw={key}");
    ok(dir, &format!("cp {with} {} sealed/raw/below:/", arg(&source)));
    assert_eq!(ok(dir, &format!("cat {with} sealed/raw/below:/secret")), "kept from all others");
    let (code, _, err) = run(dir, "cat sealed/raw/below:/secret");
    assert!(code == 1 && err.contains("key"), "{err}");
    // The history can be read without a key.
    let history = ok(dir, "zpool history sealed");
    assert!(history.contains(" zinc cp\n") && !history.contains("secret"), "{history}");
    for nowhere in ["bogus", "file://key", "file:///", "PROMPT"] {
        let (code, _, err) = run(dir, &format!("zfs set keylocation={nowhere} sealed/raw"));
        assert!(code == 1 && err.contains("bad value"), "{nowhere}: {err}");
    }
    testkit::oracle::judge(dir, "sealed");
}

#[test]
fn what_is_received_below_an_encrypted_dataset_is_encrypted() {
    let dir = place("closed");
    let dir = dir.path();
    let key = format!("file://{}", arg(&dir.join("key")));
    ok(
        dir,
        &format!("zfs create -o encryption=on -o keyformat=raw -o keylocation={key} closed/enc"),
    );
    ok(dir, "zfs create closed/plain");
    std::fs::write(dir.join("f"), vec![3; 300_000]).unwrap();
    ok(dir, &format!("cp {} closed/plain:/", arg(&dir.join("f"))));
    ok(dir, "zfs snapshot closed/plain@a");
    let sent = with_input(dir, "zfs send closed/plain@a", b"");
    assert!(sent.status.success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.args(["zfs", "receive", "--dev", arg(dir), "closed/enc/copy"]);
    command.env("ZINC_STATE", state(dir)).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&sent.stdout).unwrap();
    assert!(child.wait().unwrap().success());
    let said = ok(dir, "zfs get -Hp -o value encryptionroot closed/enc/copy");
    assert_eq!(said, "closed/enc\n");
    let read = ok(dir, &format!("cat --key closed/enc={key} closed/enc/copy:/f"));
    assert_eq!(read.len(), 300_000);
    testkit::oracle::judge(dir, "closed");
}
