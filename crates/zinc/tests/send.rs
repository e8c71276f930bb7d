//! Send streams: written as OpenZFS's kernel module writes them, to the byte, and read as its
//! zstream reads them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use sha2::Digest as _;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::place::Place;
use support::{arg, state, zinc};
use testkit::corpus;

/// What the kernel module sent of pools of the collection: the pool, the arguments of `zfs send`,
/// the SHA-256 of the stream, its length.
const SENT: &str = include_str!("../../../fixtures/sends.txt");
/// What its `zfs send -n -v -P` said of some.
const ESTIMATES: &str = include_str!("../../../fixtures/estimates.txt");

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.env("ZINC_STATE", state(dir)).current_dir(dir).args(args);
    command
}

/// What `zinc zfs send` writes.
fn sent(dir: &Path, args: &[&str]) -> Vec<u8> {
    let args = [&["zfs", "send"], args].concat();
    let output = command(dir, &args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    output.stdout
}

fn sum(bytes: &[u8]) -> String {
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The device of a pool of one disk.
fn shipped(dir: &Path, name: &str) -> PathBuf {
    let image = testkit::workspace_root().join(format!("fixtures/{name}.img.zst"));
    let path = dir.join(format!("{name}.img"));
    testkit::unpack_zst(&image, &path).unwrap();
    path
}

#[test]
fn sizes_are_foretold_as_openzfs_does() {
    let dir = tempfile::tempdir().unwrap();
    let pack = shipped(dir.path(), "pack");
    let (mut args, mut expected) = ("", BTreeMap::<&str, String>::new());
    for line in ESTIMATES.lines() {
        match line.strip_prefix("# ") {
            Some(next) => args = next,
            None => expected.entry(args).or_default().push_str(&format!("{line}\n")),
        }
    }
    assert!(expected.len() > 8);
    for (args, theirs) in expected {
        let all = ["-n", "-v", "-P", "-d", arg(&pack)].into_iter().chain(args.split(' '));
        let ours = sent(dir.path(), &all.collect::<Vec<_>>());
        assert_eq!(String::from_utf8(ours).unwrap(), theirs, "{args}");
    }
}

#[test]
fn streams_are_those_of_openzfs_to_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let [sender, pack] = ["sender", "pack"].map(|name| shipped(dir.path(), name));
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in SENT.lines().filter(|line| !line.starts_with('#')) {
        let [case, args, hash, length] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let from = match case {
            "sender" => sender.clone(),
            "pack" => pack.clone(),
            case => corpus(case).dir,
        };
        let args: Vec<&str> = ["-d", arg(&from)].into_iter().chain(args.split(' ')).collect();
        let stream = sent(dir.path(), &args);
        count += 1;
        if sum(&stream) != hash {
            wrong.push(format!("{line}: {} bytes", stream.len()));
        }
        let _ = length;
    }
    assert!(count > 50 && wrong.is_empty(), "of {count}:\n{}", wrong.join("\n"));
}

/// The streams of the collection, unpacked, with what is told of them.
fn collection(dir: &Path) -> Vec<(PathBuf, serde_json::Value)> {
    let streams = testkit::shared_dir().unwrap().join("streams");
    let list = std::fs::read_to_string(streams.join("streams.json")).unwrap();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let unpacked = |one: &serde_json::Value| {
        let name = one["file"].as_str().unwrap();
        let path = dir.join(name.trim_end_matches(".zst"));
        testkit::unpack_zst(&streams.join(name), &path).unwrap();
        (path, one.clone())
    };
    list["streams"].as_array().unwrap().iter().map(unpacked).collect()
}

#[testkit::needs("streams")]
#[test]
fn what_openzfs_sent_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let all = collection(dir.path());
    assert!(all.len() >= 24);
    for (path, one) in all {
        let run = zinc(&["zstream", "dump", arg(&path)]);
        let summary = one["summary"].as_str().unwrap();
        assert!(run.out.ends_with(summary), "{path:?}: {}\n--- not\n{summary}", run.out);
        // One ends within a record.
        let is_whole = !summary.is_empty();
        assert_eq!((run.code == 0, run.err.is_empty()), (is_whole, is_whole), "{}", run.err);
    }
}

#[testkit::needs("streams", "zstream")]
#[test]
fn records_are_shown_as_zstream_shows_them() {
    let dir = tempfile::tempdir().unwrap();
    for (path, _) in collection(dir.path()) {
        let theirs = testkit::oracle::zstream().args(["dump", "-vv"]).arg(&path).output().unwrap();
        let run = zinc(&["zstream", "dump", "-vv", arg(&path)]);
        assert!(run.out.as_bytes() == theirs.stdout, "{path:?} differs");
    }
}

#[test]
fn damage_is_noticed_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let pool = corpus("history");
    let mut stream = sent(dir.path(), &["-d", arg(&pool.dir), "past/promoted@s05"]);
    let path = dir.path().join("stream");
    std::fs::write(&path, &stream).unwrap();
    let whole = zinc(&["zstream", "dump", arg(&path)]).ok();
    assert!(whole.contains("Total DRR_END records = 1"), "{whole}");
    // Within the bonus of an object.
    stream[2 * 312 + 312 + 700] ^= 1;
    std::fs::write(&path, &stream).unwrap();
    let run = zinc(&["zstream", "dump", arg(&path)]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("the checksum is"), "{}", run.err);
    let trusting = zinc(&["zstream", "dump", "-C", arg(&path)]).ok();
    assert_eq!(trusting, whole);
    let run = zinc(&["zstream", "dump", "/dev/null"]).ok();
    assert!(run.contains("Total records = 0"), "{run}");
    std::fs::write(&path, [7; 400]).unwrap();
    let run = zinc(&["zstream", "dump", arg(&path)]);
    assert!(run.code == 1 && run.err.contains("bad magic"), "{}", run.err);
}

#[test]
fn what_cannot_be_sent_is_said() {
    let pool = corpus("history");
    let dir = ["-d", arg(&pool.dir)];
    let refused = |args: &[&str]| {
        let run = zinc(&[&["zfs", "send"], &dir[..], args].concat());
        assert!(run.code != 0 && run.out.is_empty(), "{args:?}");
        run.err
    };
    let text = refused(&["-i", "@s05", "past/promoted@s02"]);
    assert!(text.contains("not an earlier snapshot from the same fs"), "{text}");
    let text = refused(&["past/promoted"]);
    assert!(text.contains("is not the name of a snapshot"), "{text}");
    let text = refused(&["past/promoted@nix"]);
    assert!(text.contains("dataset does not exist"), "{text}");
    let text = refused(&["-S", "past/promoted"]);
    assert!(text.contains("zfs send -S: not supported by zinc yet"), "{text}");
    let text = refused(&["-I", "past/promoted#none", "past/promoted@s02"]);
    assert!(text.contains("multiple snapshots cannot be sent from a bookmark"), "{text}");
    let text = refused(&["-I", "past/work@s10", "past/promoted@s02"]);
    assert!(text.contains("incremental source must be in same filesystem"), "{text}");
    let text = refused(&["-R", "-i", "@nix", "past/promoted@s02"]);
    assert!(text.contains("cannot open 'past/promoted@nix': dataset does not exist"), "{text}");
    let pool = corpus("crypt");
    let run = zinc(&["zfs", "send", "-d", arg(&pool.dir), "-p", "-c", "sealed/full@one"]);
    let words = "may not be sent with properties without the raw flag";
    assert!(run.code == 1 && run.err.contains(words), "{}", run.err);
    let run = zinc(&["zfs", "send", "-d", arg(&pool.dir), "-w", "-p", "-n", "sealed/full@one"]);
    assert!(run.code == 0 && run.err.is_empty(), "{}", run.err);
    let run = zinc(&["zfs", "send", "-d", arg(&pool.dir), "sealed/full@one"]);
    assert!(run.code == 1 && run.err.contains("its key is not loaded"), "{}", run.err);
    let run = zinc(&["zfs", "send", "-n", "-P", "-v", "-d", arg(&pool.dir), "sealed/full@one"]);
    assert!(run.code == 1 && run.err.contains("its key is not loaded"), "{}", run.err);
}

/// Neither could be received before the other.
#[test]
fn a_clone_of_what_is_below_it_is_not_sent_with_it() {
    let place = Place::new(&["disk"]);
    place.ok("zpool create tank disk");
    place.ok("zfs create tank/a");
    place.ok("zfs snapshot tank/a@x");
    place.ok("zfs clone tank/a@x tank/a/clone");
    place.ok("zfs promote tank/a/clone");
    place.ok("zfs snapshot -r tank/a@y");
    let why = place.fails("zfs send -R tank/a@y");
    assert!(why.contains("tank/a") && why.contains("is a clone of a dataset below it"), "{why}");
    place.ok("zfs rename tank/a/clone tank/clone");
    place.ok("zfs send -R -n tank/a@y");
}

#[test]
fn a_server_sends_to_the_streams_of_its_client() {
    let place = Place::new(&["disk"]);
    place.ok("zpool create tank disk");
    std::fs::write(place.path().join("file"), vec![7; 3 << 20]).unwrap();
    place.ok("cp file tank:/");
    place.ok("zfs snapshot tank@one");
    let alone = place.command_here("zfs send tank@one").output().unwrap().stdout;
    let mut server = place.serve("tank");
    let served = place.command_here("zfs send tank@one").output().unwrap().stdout;
    assert!(alone.len() > 3 << 20 && alone == served);
    // A reader that goes away ends it.
    let mut child = place.command_here("zfs send tank@one");
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 312];
    let mut stream = child.stdout.take().unwrap();
    stream.read_exact(&mut first).unwrap();
    // What is being sent is in use until then.
    let output = place.command_here("zfs destroy tank@one").output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("dataset is busy"), "{message}");
    drop(stream);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    place.ok_here("zfs destroy tank@one");
    place.ok_here("zpool export tank");
    let _ = server.wait();
    let mut child = place.command_here("zstream dump");
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&served).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("toname = tank@one"));
}
