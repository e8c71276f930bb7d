//! Encrypted datasets from the command line: made, filled, and read with their keys.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use support::place::Server;
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
    let values = ok(dir, &format!("{get} sealed/raw/below"));
    assert_eq!(values, "aes-128-ccm\nraw\nnone\nsealed/raw\nunavailable\n");
    let values = ok(dir, &format!("{get} sealed/words"));
    assert_eq!(values, "aes-256-gcm\npassphrase\nprompt\nsealed/words\nunavailable\n");
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
    // What a locked volume says of itself without its key, and what is not said of keys.
    ok(dir, &format!("zfs create -V 8M {raw} -o keylocation={key} sealed/vol"));
    let get = "zfs get -Hp -o value,source volsize,volblocksize,keystatus sealed/vol";
    assert_eq!(ok(dir, get), "8388608\tlocal\n16384\tdefault\nunavailable\t-\n");
    let refused = |line: &str, words: &str| {
        let (code, _, err) = run(dir, line);
        assert!(code == 1 && err.contains(words), "{line}: {err}");
    };
    refused("zfs inherit -S keylocation sealed/raw", "cannot be inherited");
    assert_eq!(ok(dir, "zfs get -Ho value keylocation sealed/raw"), format!("{key}\n"));
    ok(dir, "zfs snapshot sealed/raw@s");
    let words = "cannot create 'sealed/c': Encryption properties must inherit from origin dataset.";
    for property in ["keylocation=prompt", "keyformat=raw", "pbkdf2iters=400000"] {
        refused(&format!("zfs clone -o {property} sealed/raw@s sealed/c"), words);
    }
    let endless = "zfs create -o encryption=on -o keyformat=passphrase -o pbkdf2iters=9999999999";
    let made = with_input(dir, &format!("{endless} sealed/endless"), b"correct horse battery\n");
    let message = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.code() == Some(1) && message.contains("rounds of PBKDF2"), "{message}");
    // With its properties only as it is stored; what is left out does not count.
    ok(dir, "zfs snapshot -r sealed@all");
    let words = " may not be sent with properties without the raw flag";
    refused("zfs send -n -R sealed@all", words);
    refused("zfs send -n -R -X sealed/raw,sealed/vol sealed@all", words);
    ok(dir, "zfs send -n -R -X sealed/raw,sealed/vol,sealed/words sealed@all");
    // What is not encrypted needs no key; what is missing above it does.
    std::fs::rename(dir.join("key"), dir.join("elsewhere")).unwrap();
    ok(dir, "zfs create -o encryption=off sealed/raw/plain");
    assert_eq!(ok(dir, "zfs get -Ho value encryption sealed/raw/plain"), "off\n");
    let (code, _, err) = run(dir, "zfs create -p -o encryption=off sealed/raw/more/plain");
    assert!(code == 1 && err.contains("cannot read the key"), "{err}");
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
    let root = ok(dir, "zfs get -Hp -o value encryptionroot closed/enc/copy");
    assert_eq!(root, "closed/enc\n");
    let read = ok(dir, &format!("cat --key closed/enc={key} closed/enc/copy:/f"));
    assert_eq!(read.len(), 300_000);
    testkit::oracle::judge(dir, "closed");
}

#[test]
fn a_server_keeps_keys_until_they_are_unloaded() {
    let dir = place("kept");
    let dir = dir.path();
    let command = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
        command.args(line.split_whitespace()).env("ZINC_SOCKETS", dir.join("run"));
        command.env("ZINC_STATE", state(dir)).stdin(Stdio::null());
        command
    };
    let run = |line: &str| {
        let out = command(line).output().unwrap();
        let text = [out.stdout, out.stderr].concat();
        (out.status.code(), String::from_utf8(text).unwrap())
    };
    let key = format!("file://{}", arg(&dir.join("key")));
    let raw = "-o encryption=on -o keyformat=raw";
    ok(dir, &format!("zfs create {raw} -o keylocation={key} kept/enc"));
    let (code, text) = run(&format!("zfs load-key -d {} kept/enc", arg(dir)));
    assert!(code == Some(1) && text.contains("nothing serves the pool"), "{text}");
    let (code, text) = run("zfs load-key -a");
    assert!(code == Some(1) && text.contains("nothing serves the pool of 'kept/enc'"), "{text}");
    let (code, text) = run("zfs mount -l kept/enc");
    let hint = "zinc zfs mount -al POOL";
    assert!(code == Some(1) && text.contains(hint) && !text.contains("--keys"), "{text}");
    let mut serve = command(&format!("serve -d {} kept", arg(dir)));
    let mut server = Server(serve.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("serving kept"), "{line}");
    let status = || run("zfs get -Ho value keystatus kept/enc").1;
    assert_eq!(status(), "unavailable\n");
    assert_eq!(run("zfs load-key -r kept"), (Some(0), "1 / 1 key(s) successfully loaded\n".into()));
    assert_eq!(status(), "available\n");
    assert_eq!(run("zfs load-key -a").0, Some(0));
    let (code, text) = run("zfs load-key kept/enc");
    assert!(code == Some(1) && text.contains("Key already loaded for 'kept/enc'."), "{text}");
    assert_eq!(run("zfs create kept/enc/below").0, Some(0));
    let source = dir.join("key");
    assert_eq!(run(&format!("cp {} kept/enc/below:/file", arg(&source))).0, Some(0));
    let (code, text) = run("zfs unload-key kept/enc/below");
    let words = "Keys must be unloaded for encryption root of 'kept/enc/below' (kept/enc).";
    assert!(code == Some(1) && text.contains(words), "{text}");
    assert_eq!(run("zfs unload-key kept/enc"), (Some(0), String::new()));
    let (code, text) = run("cat kept/enc/below:/file");
    assert!(code == Some(1) && text.contains("key"), "{text}");
    // A key that is wrong is told, and one on standard input is taken.
    secret(&dir.join("other"), &[8; 32]);
    let (code, text) = run(&format!("zfs load-key -L file://{} kept/enc", arg(&dir.join("other"))));
    assert!(code == Some(1) && text.contains("Incorrect key provided"), "{text}");
    let mut typed = command("zfs load-key -L prompt kept/enc");
    let mut child = typed.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&[7; 32]).unwrap();
    assert!(child.wait().unwrap().success());
    let words = "-o keyformat=passphrase -o keylocation=file://";
    secret(&dir.join("words"), b"correct horse battery staple");
    let line = format!("zfs change-key {words}{} kept/enc", arg(&dir.join("words")));
    assert_eq!(run(&line).0, Some(0));
    assert_eq!(run("zfs get -Ho value keyformat kept/enc").1, "passphrase\n");
    assert_eq!(run("zpool export kept").0, Some(0));
    drop(server);
    testkit::oracle::judge(dir, "kept");
}

#[test]
fn a_key_is_given_back_to_what_is_above_without_a_server() {
    let dir = place("bare");
    let dir = dir.path();
    let key = format!("file://{}", arg(&dir.join("key")));
    secret(&dir.join("own"), &[9; 32]);
    let raw = "-o encryption=on -o keyformat=raw";
    ok(dir, &format!("zfs create {raw} -o keylocation={key} bare/enc"));
    let own = format!("-o keyformat=raw -o keylocation=file://{}", arg(&dir.join("own")));
    ok(dir, &format!("zfs create {own} bare/enc/own"));
    let root = || ok(dir, "zfs get -Ho value encryptionroot bare/enc/own");
    assert_eq!(root(), "bare/enc/own\n");
    ok(dir, "zfs change-key -i bare/enc/own");
    assert_eq!(root(), "bare/enc\n");
    testkit::oracle::judge(dir, "bare");
}
