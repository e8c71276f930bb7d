//! Streams that are received: those of OpenZFS's kernel module, and zinc's own, by a pool that is
//! served and by one that is not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "receive/raw.rs"]
mod raw;
mod support;

use engine::ResumeToken;
use engine::inside::ondisk::stream::{Begin, End};
use engine::streams::{Body, Reader};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use support::place::Place;

/// Runs a command of this place with `input` on its standard input.
fn fed(place: &Place, command: &str, input: &[u8]) -> Output {
    let mut child = place.command_here(command).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A command that refuses the stream does not read all of it.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

/// The same of a command that must succeed; what it prints.
#[track_caller]
fn taken(place: &Place, command: &str, input: &[u8]) -> String {
    let output = fed(place, command, input);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{command}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same of one that must fail; what it says.
#[track_caller]
fn refused(place: &Place, command: &str, input: &[u8]) -> String {
    let output = fed(place, command, input);
    assert_eq!(output.status.code(), Some(1), "{command}");
    String::from_utf8(output.stderr).unwrap()
}

fn sent(place: &Place, args: &str) -> Vec<u8> {
    let output = place.command_here(&format!("zfs send {args}")).stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// What is in a dataset of a pool, snapshots and all, under the name of `as_name`.
fn content(place: &Place, pool: &str, name: &str, as_name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(&place.ok_here(&format!("inventory {pool}"))).unwrap();
    let datasets = all["datasets"].as_array().unwrap();
    let found = datasets.iter().find(|d| d["name"] == name).expect("the dataset is there");
    let entries = |one: &Value| -> Vec<Value> {
        let mut all = one["entries"].as_array().unwrap().clone();
        for entry in &mut all {
            // The root of a snapshot has the number of the snapshot.
            let is_root = entry["path"] == ".";
            let entry = entry.as_object_mut().unwrap();
            let depends =
                |key: &str| ["blocks", "data"].contains(&key) || (is_root && key == "ino");
            entry.retain(|key, _| !depends(key));
        }
        all
    };
    let mut out = entries(found);
    for snapshot in found["snapshots"].as_array().unwrap() {
        let text = snapshot["name"].as_str().unwrap().replace(name, as_name);
        out.push(Value::from(text));
        out.push(snapshot["guid"].clone());
        out.extend(entries(snapshot));
    }
    out
}

/// A pool with a file system that has two snapshots, and an empty one.
fn two_pools() -> Place {
    let place = Place::new(&["one", "two"]);
    place.ok("zpool create tank one");
    place.ok("zpool create other two");
    place.ok("zfs create -o compression=lz4 tank/home");
    std::fs::write(place.path().join("a"), vec![7; 3 << 20]).unwrap();
    place.ok("cp a tank/home:/");
    place.ok("zfs snapshot tank/home@monday");
    let text: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(place.path().join("b"), text).unwrap();
    place.ok("cp b tank/home:/");
    place.ok("zfs snapshot tank/home@tuesday");
    place
}

#[test]
fn what_is_sent_is_received() {
    let place = two_pools();
    let full = sent(&place, "tank/home@monday");
    let more = sent(&place, "-c -i @monday tank/home@tuesday");
    assert_eq!(taken(&place, "zfs receive other/copy", &full), "");
    let text = taken(&place, "zfs recv -v other/copy", &more);
    let begin =
        "receiving incremental stream of tank/home@tuesday into other/copy@tuesday\nreceived ";
    assert!(text.starts_with(begin) && text.ends_with("/sec)\n"), "{text}");
    let ours = content(&place, "tank", "tank/home", "other/copy");
    assert!(ours == content(&place, "other", "other/copy", "other/copy"));
    // What was received is sent on as the same bytes, but for the name in BEGIN and what follows.
    let again = sent(&place, "-c -i @monday other/copy@tuesday");
    assert_eq!(again.len(), more.len());
    // By a server the same, and a reader of its pool sees it.
    let mut server = place.serve("other");
    taken(&place, "zfs receive other/served", &full);
    taken(&place, "zfs receive other/served", &more);
    assert!(ours == content(&place, "other", "other/served", "other/copy"));
    let text = taken(&place, "zfs receive -n -v other/none", &full);
    assert_eq!(text, "would receive full stream of tank/home@monday into other/none@monday\n");
    // A client that goes away in the middle leaves nothing.
    let mut child = place.command_here("zfs receive other/half").spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&full[..1 << 20]).unwrap();
    let is_there = || place.command_here("zfs list other/half").output().unwrap().status.success();
    support::place::until("it is begun", is_there);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);
    support::place::until("nothing is left", || !is_there());
    place.ok_here("zpool export other");
    let _ = server.wait();
    place.ok("zpool import -d . other");
    place.zdb_is_content("other");
}

#[test]
fn what_is_not_received_is_said_in_the_words_of_openzfs() {
    let place = two_pools();
    let full = sent(&place, "tank/home@monday");
    let more = sent(&place, "-i @monday tank/home@tuesday");
    taken(&place, "zfs receive other/copy@first", &full);
    let says = |command: &str, input: &[u8], words: &str| {
        let message = refused(&place, command, input);
        assert!(message.contains(words), "{command}: {message}");
    };
    says("zfs receive other/copy", &full, "destination 'other/copy' exists");
    says("zfs receive other/copy", &full, "must specify -F to overwrite it");
    says("zfs receive -F other/copy", &full, "destination has snapshots (eg. other/copy@first)");
    says("zfs receive other/none", &more[..200], "failed to read from stream");
    says("zfs receive other/a/b", &full, "destination 'other/a' does not exist");
    says("zfs receive other/none", b"", "failed to read from stream");
    says(
        "zfs receive -x nonsense other/none",
        &full,
        "cannot receive: invalid property 'nonsense'",
    );
    let words = "stream: 'compression' must be one of 'on | off";
    says("zfs receive -o compression=none other/none", &full, words);
    for twice in ["-o compression=on -x compression", "-x compress -x compression"] {
        let message = place.fails(&format!("zfs receive {twice} other/none"));
        assert!(message.contains("specified multiple times"), "{message}");
    }
    says("zfs receive other/none", &[1; 1000], "invalid stream (bad magic number)");
    says("zfs receive other/none", &full[..100_000], "incomplete stream");
    let mut bad = full.clone();
    bad[200_000] ^= 1;
    says("zfs receive other/none", &bad, "checksum mismatch");
    place.ok("zfs snapshot other/copy@mine");
    says("zfs receive other/copy", &more, "most recent snapshot of other/copy does not");
    place.ok("zfs destroy other/copy@mine");
    place.ok("mkdir other/copy:/mine");
    says("zfs receive other/copy", &more, "has been modified since most recent snapshot");
    taken(&place, "zfs receive -F other/copy", &more);
    says("zfs receive -c tank/home@tuesday", &full, "the stream is of another snapshot");
    says("zfs receive -c tank/home@none", &full, "destination 'tank/home@none' does not exist");
    let message = place.fails("zfs receive -c -F tank/home@monday");
    assert!(message.contains("cannot be used with"), "{message}");
    let healed = taken(&place, "zfs receive -c tank/home@monday", &full);
    assert!(healed.starts_with("healed 0 blocks of tank/home@monday: "), "{healed}");
    let dry = taken(&place, "zfs receive -c -n -v tank/home", &full);
    assert_eq!(dry, "would heal tank/home@monday with the full stream of tank/home@monday\n");
    let message = place.fails("zfs receive -A other/copy");
    let words = "'other/copy' does not have any resumable receive state to abort";
    assert!(message.contains(words), "{message}");
    let message = place.fails("zfs receive -d other/x@y");
    assert!(message.contains("snapshot not allowed with -d"), "{message}");
    assert_eq!(place.ok("zfs list -H -o name -r other"), "other\nother/copy\n");
}

#[test]
fn names_and_properties_are_as_the_options_say() {
    let place = two_pools();
    let full = sent(&place, "tank/home@monday");
    for option in ["-d", "-e", "-n -d"] {
        let message = refused(&place, &format!("zfs receive {option} other/d"), &full);
        assert!(
            message.contains("cannot receive: specified fs (other/d) does not exist"),
            "{message}"
        );
    }
    for name in ["nope", "volsize", "version", "volblocksize", "type", "casesensitivity"] {
        for option in [format!("-x {name}"), format!("-o {name}=1")] {
            let message = refused(&place, &format!("zfs receive {option} other/no"), &full);
            assert!(
                message.contains(&format!("cannot receive: invalid property '{name}'")),
                "{message}"
            );
        }
    }
    place.ok("zfs create other/d");
    taken(&place, "zfs receive -d other/d", &full);
    taken(&place, "zfs receive -e other", &full);
    taken(&place, "zfs receive -o compression=zstd -o mountpoint=none other/set", &full);
    let names = place.ok("zfs list -H -o name -t all -r other");
    for name in ["other/d/home@monday", "other/home@monday", "other/set@monday"] {
        assert!(names.lines().any(|line| line == name), "{name}: {names}");
    }
    let text = place.ok("zfs get -H -o property,value,source compression,mountpoint other/set");
    assert_eq!(text, "compression\tzstd\tlocal\nmountpoint\tnone\tlocal\n");
    place.zdb_is_content("other");
}

/// As OpenZFS's kernel module has it: what is overridden is received all the same, where it is
/// inherited, and counts again with `zfs inherit -S`.
#[test]
fn what_is_overridden_is_received() {
    let place = two_pools();
    for property in ["quota=100M", "atime=off", "my:word=x"] {
        place.ok(&format!("zfs set {property} tank/home"));
    }
    let stream = sent(&place, "-p tank/home@monday");
    let shown = |name: &str| {
        let properties = "quota,atime,compression,my:word";
        place.ok(&format!("zfs get -H -o property,value,received,source {properties} {name}"))
    };
    taken(&place, "zfs receive -x quota -x atime -x my:word other/a", &stream);
    let [quota, atime] = ["quota\tnone\t-\tdefault\n", "atime\ton\toff\tdefault\n"];
    let (packed, word) = ("compression\tlz4\tlz4\treceived\n", "my:word\t-\t-\t-\n");
    assert_eq!(shown("other/a"), [quota, atime, packed, word].concat());
    place.ok("zfs inherit -S atime other/a");
    place.ok("zfs inherit -S my:word other/a");
    let all = shown("other/a");
    assert!(all.contains("atime\toff\toff\treceived\n"), "{all}");
    assert!(all.contains("my:word\tx\tx\treceived\n"), "{all}");
    taken(&place, "zfs receive -o quota=50M -x compression other/b", &stream);
    let [quota, packed] = ["quota\t50M\t100M\tlocal\n", "compression\ton\tlz4\tdefault\n"];
    let all = shown("other/b");
    assert!(all.contains(quota) && all.contains(packed), "{all}");
    // Where something is set, it stays.
    place.ok("zfs set atime=on other/b");
    place.ok("zfs set compression=gzip other/b");
    let more = sent(&place, "-p -i @monday tank/home@tuesday");
    taken(&place, "zfs receive -F -x atime -x compression other/b", &more);
    let all = shown("other/b");
    assert!(all.contains("atime\ton\toff\tlocal\n"), "{all}");
    assert!(all.contains("compression\tgzip\tlz4\tlocal\n"), "{all}");
}

/// What is half received may be destroyed, so nothing comes below it.
#[test]
fn nothing_is_made_below_what_is_half_received() {
    let place = two_pools();
    let full = sent(&place, "tank/home@monday");
    place.ok("zfs create other/plain");
    for options in ["", "-s "] {
        let mut server = place.serve("other");
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut receive = place.command_here(&format!("zfs receive {options}other/new"));
        let receive = receive.stdin(reader).spawn().unwrap();
        writer.write_all(&full[..full.len() / 2]).unwrap();
        support::place::until("it is being received", || {
            place.ok_here("zfs list -H -o name").lines().any(|name| name == "other/new")
        });
        let commands = ["zfs create other/new/below", "zfs rename other/plain other/new/below"];
        for command in commands {
            let message = refused(&place, command, b"");
            assert!(message.contains("half received"), "{command}: {message}");
        }
        let message = refused(&place, "zfs rename other/new other/moved", b"");
        assert!(message.contains("busy"), "{message}");
        let message = refused(&place, "zfs receive other/new/below", &full);
        assert!(message.contains("other/new contains partially-complete state"), "{message}");
        drop(writer);
        assert!(!receive.wait_with_output().unwrap().status.success());
        if !options.is_empty() {
            place.ok_here("zfs receive -A other/new");
        }
        place.ok_here("zfs create other/more");
        place.ok_here("zfs destroy other/more");
        place.ok_here("zpool export other");
        server.wait().unwrap();
        place.ok("zpool import -d . other");
    }
    place.ok("check other");
}

/// A limit that came with a stream and is not wanted here limits nothing, whatever comes later.
#[test]
fn a_received_limit_that_is_not_wanted_limits_nothing() {
    let place = two_pools();
    place.ok("zfs set quota=10M tank/home");
    let full = sent(&place, "-p tank/home@monday");
    let more = sent(&place, "-p -i @monday tank/home@tuesday");
    taken(&place, "zfs receive other/home", &full);
    let quota = || place.ok("zfs get -H -o value,source quota other/home");
    assert_eq!(quota(), "10M\treceived\n");
    place.ok("zfs set quota=none other/home");
    taken(&place, "zfs receive other/home", &more);
    assert_eq!(quota(), "none\tdefault\n");
    let available = place.ok("zfs get -H -p -o value available other/home");
    assert!(available.trim().parse::<u64>().unwrap() > 20 << 20, "{available}");
}

/// A program that receives takes nothing that is behind its stream.
#[test]
fn two_streams_come_through_one_pipe() {
    let place = two_pools();
    let both = ["tank/home@monday", "-i @monday tank/home@tuesday"].map(|args| sent(&place, args));
    let both = both.concat();
    for name in ["other/alone", "other/served"] {
        let server = (name == "other/served").then(|| place.serve("other"));
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::thread::scope(|scope| {
            // Gone when a receive fails, so that the writer does not wait for ever.
            let reader = reader;
            let write = scope.spawn(|| writer.write_all(&both));
            for _ in 0..2 {
                let mut command = place.command_here(&format!("zfs receive {name}"));
                let output = command.stdin(reader.try_clone().unwrap()).output().unwrap();
                assert!(output.status.success(), "{name}: {output:?}");
            }
            write.join().unwrap().unwrap();
        });
        let names = place.ok_here(&format!("zfs list -H -o name -t snapshot {name}"));
        assert_eq!(names, format!("{name}@monday\n{name}@tuesday\n"));
        if let Some(mut server) = server {
            place.ok_here("zpool export other");
            server.wait().unwrap();
        }
    }
}

/// What a pool has of a stream that was cut.
fn token(place: &Place, name: &str) -> String {
    place.ok_here(&format!("zfs get -H -o value receive_resume_token {name}")).trim().to_owned()
}

#[test]
fn a_stream_that_was_cut_goes_on() {
    let place = two_pools();
    let full = sent(&place, "tank/home@monday");
    let more = sent(&place, "-c -i @monday tank/home@tuesday");
    let command = "zfs receive -s other/copy";
    // Cut, and of a server whose client goes away, and by its end.
    let message = refused(&place, command, &full[..full.len() / 2]);
    let words = "cannot receive new filesystem stream: checksum mismatch or incomplete stream.";
    assert!(message.contains(words) && message.contains("Partially received snapshot is saved."));
    let first = token(&place, "other/copy");
    assert!(message.contains(&format!("zfs send -t {first}")), "{message}");
    let message = refused(&place, "zfs receive other/copy", &more);
    let words = "other/copy contains partially-complete state from \"zfs receive -s\".";
    assert!(message.contains(words), "{message}");
    let mut server = place.serve("other");
    let rest = sent(&place, &format!("-t {first}"));
    assert!(rest.len() < full.len());
    let mut child = place.command_here(command).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&rest[..rest.len() * 2 / 3]).unwrap();
    support::place::until("more came", || {
        place.ok_here("zpool sync other");
        token(&place, "other/copy") != first
    });
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);
    let second = token(&place, "other/copy");
    place.ok_here("zpool export other");
    let _ = server.wait();
    place.ok("zpool import -d . other");
    assert_eq!(token(&place, "other/copy"), second);
    place.zdb_is_content("other");
    let last = sent(&place, &format!("-t {second}"));
    assert!(last.len() < rest.len());
    assert_eq!(taken(&place, command, &last), "");
    assert_eq!(token(&place, "other/copy"), "-");
    // An increment, which is given up first.
    refused(&place, command, &more[..more.len() / 2]);
    place.ok("zfs receive -A other/copy");
    assert_eq!(token(&place, "other/copy"), "-");
    refused(&place, command, &more[..more.len() / 2]);
    let third = token(&place, "other/copy");
    let output = place.ok(&format!("zfs send -nvt {third}"));
    let words = "resume token contents:\nnvlist version: 0\n\tfromguid = 0x";
    assert!(
        output.starts_with(words) && output.contains("tank/home@tuesday estimated size"),
        "{output}"
    );
    assert_eq!(taken(&place, command, &sent(&place, &format!("-t {third}"))), "");
    let ours = content(&place, "tank", "tank/home", "other/copy");
    assert!(ours == content(&place, "other", "other/copy", "other/copy"));
    place.zdb_is_content("other");
    // Tokens that are none, or are of what is not there any more.
    let says = |token: &str, words: &str| {
        let message = place.fails(&format!("zfs send -n -t {token}"));
        assert!(message.contains(&format!("cannot resume send: {words}")), "{message}");
    };
    says("1-2-3", "resume token is corrupt");
    says(&third[..third.len() - 16], "resume token is corrupt");
    place.ok("zfs destroy tank/home@tuesday");
    says(&third, "'tank/home@tuesday' used in the initial send no longer exists");
}

/// By Ctrl-C, while what sends goes on: the server ends it too, and keeps nothing of it.
#[test]
fn a_receive_that_is_interrupted_leaves_nothing_in_a_served_pool() {
    let place = two_pools();
    let full = sent(&place, "tank/home@monday");
    let mut server = place.serve("other");
    let mut child = place.command_here("zfs receive other/copy").spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&full[..full.len() / 2]).unwrap();
    let names = || place.ok_here("zfs list -Hro name other");
    support::place::until("it began", || names().contains("other/copy"));
    // Where the tests run in the background, programs do not see a Ctrl-C.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
    support::place::until("it ended", || names() == "other\n");
    assert_eq!(taken(&place, "zfs receive other/copy", &full), "");
    drop(stdin);
    place.ok_here("zpool export other");
    server.wait().unwrap();
    place.ok("zpool import -d . other");
    place.ok("check other");
}

/// The rest of a stream has no properties, and the dataset gets them all the same.
#[test]
fn properties_stay_with_a_stream_that_is_cut() {
    let place = two_pools();
    place.ok("zfs set quota=20M tank/home");
    let full = sent(&place, "-p tank/home@monday");
    let more = sent(&place, "-p -i @monday tank/home@tuesday");
    let rest = || sent(&place, &format!("-t {}", token(&place, "other/copy")));
    let command = "zfs receive -s other/copy";
    refused(&place, command, &full[..full.len() / 2]);
    taken(&place, command, &rest());
    let text = place.ok("zfs get -H -o value,received,source quota other/copy");
    assert_eq!(text, "20M\t20M\treceived\n");
    refused(&place, "zfs receive -s -o my:note=late other/copy", &more[..more.len() / 2]);
    assert_eq!(place.ok("zfs get -H -o value my:note other/copy"), "-\n");
    taken(&place, command, &rest());
    assert_eq!(place.ok("zfs get -H -o value,source my:note other/copy"), "late\tlocal\n");
    place.zdb_is_content("other");
}

#[testkit::needs("fuse")]
#[test]
fn what_is_received_is_mounted() {
    let place = two_pools();
    let full = sent(&place, "tank/home@monday");
    let more = sent(&place, "-i @monday tank/home@tuesday");
    let mnt = place.path().join("mnt");
    // What is read is not to count as changed.
    place.ok(&format!("zfs set mountpoint={} atime=off other", mnt.display()));
    let mut server = place.start_here("serve --mount other");
    support::place::until("the pool is mounted", || {
        let text = place.ok_here("zfs mount");
        let dir = mnt.display().to_string();
        text.lines().any(|line| line.starts_with("other ") && line.ends_with(&dir))
    });
    taken(&place, "zfs receive other/x", &full);
    assert!(std::fs::read(mnt.join("x/a")).unwrap() == vec![7; 3 << 20]);
    // One that is there is mounted again, with what is new.
    taken(&place, "zfs receive other/x", &more);
    assert!(mnt.join("x/b").exists() && mnt.join("x/a").exists());
    taken(&place, "zfs receive -u other/y", &full);
    assert!(!mnt.join("y").exists());
    // What a program has open stays as it is, unless it is taken from it.
    place.ok_here("zfs rollback -r other/x@monday");
    let open = std::fs::File::open(mnt.join("x/a")).unwrap();
    // That is said before the stream is read, of which a half is enough therefore.
    let message = refused(&place, "zfs receive other/x", &more[..more.len() / 2]);
    assert!(message.contains("busy") && message.contains("-F and -M take it away"), "{message}");
    taken(&place, "zfs receive -M other/x", &more);
    assert!(mnt.join("x/b").exists());
    drop(open);
    place.ok_here("zfs rollback -r other/x@monday");
    let open = std::fs::File::open(mnt.join("x/a")).unwrap();
    taken(&place, "zfs receive -F other/x", &more);
    assert!(mnt.join("x/b").exists());
    drop(open);
    // What is mounted in it, and comes back too, is not a program that uses it.
    let next = |name: &str, since: &str| {
        place.ok_here(&format!("zfs snapshot tank/home@{name}"));
        sent(&place, &format!("-i @{since} tank/home@{name}"))
    };
    place.ok_here("mkdir tank/home:/in");
    taken(&place, "zfs receive other/x", &next("wednesday", "tuesday"));
    place.ok_here("zfs create other/x/in");
    std::fs::write(mnt.join("x/in/file"), "x").unwrap();
    taken(&place, "zfs receive other/x", &next("thursday", "wednesday"));
    assert!(mnt.join("x/in/file").exists());
    // What is half received is not a failure of what mounts all.
    refused(&place, "zfs receive -s other/half", &full[..full.len() / 2]);
    place.ok_here("zfs mount -a other");
    place.ok_here("zfs receive -A other/half");
    // A volume in the place of a file system is not mounted.
    place.ok_here("zfs create -V 8M tank/vol");
    place.ok_here("zfs snapshot tank/vol@s");
    place.ok_here("zfs create other/vol");
    assert!(mnt.join("vol").exists());
    taken(&place, "zfs receive -F other/vol", &sent(&place, "tank/vol@s"));
    assert_eq!(place.ok_here("zfs get -H -o value type other/vol"), "volume\n");
    place.ok_here("zpool export other");
    let _ = server.wait();
}

/// The streams of the collection by name, unpacked, with what is told of them, in order.
fn collection(dir: &Path) -> Vec<(String, PathBuf, Value)> {
    let streams = testkit::shared_dir().unwrap().join("streams");
    let list = std::fs::read_to_string(streams.join("streams.json")).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let unpacked = |one: &Value| {
        let file = one["file"].as_str().unwrap();
        let name = file.trim_end_matches(".zfs.zst").to_owned();
        let path = dir.join(&name);
        testkit::unpack_zst(&streams.join(file), &path).unwrap();
        (name, path, one.clone())
    };
    list["streams"].as_array().unwrap().iter().map(unpacked).collect()
}

#[testkit::needs("streams")]
#[test]
fn streams_of_openzfs_are_received() {
    let place = Place::new(&["disk"]);
    place.ok("zpool create target disk");
    let mut left_out = Vec::new();
    for (name, path, one) in collection(place.path()) {
        let stream = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let command = one["receive"].as_str().unwrap();
        match name.as_str() {
            "redacted" => {
                let message = refused(&place, command, &stream);
                assert!(message.contains("not supported by zinc yet"), "{name}: {message}");
                left_out.push(one["result"].as_str().unwrap().to_owned());
                continue;
            }
            "resume-part1" => {
                let message = refused(&place, "zfs receive -u target/resumed", &stream);
                assert!(message.contains("incomplete stream"), "{message}");
                let message = refused(&place, command, &stream);
                assert!(message.contains("Partially received snapshot is saved."), "{message}");
                let token = place.ok("zfs get -H -o value receive_resume_token target/resumed");
                // Compressors differ in how, not in what.
                let decoded = |text: &str| ResumeToken::decode(text).unwrap();
                assert_eq!(decoded(&token), decoded(one["token"].as_str().unwrap()));
                continue;
            }
            // Into a dataset of its own that had received the full one.
            "incremental-I" => {
                let plain = testkit::shared_dir().unwrap().join("streams/plain.zfs.zst");
                testkit::unpack_zst(&plain, &path).unwrap();
                let plain = std::fs::read(&path).unwrap();
                taken(&place, command, &plain);
            }
            _ => {}
        }
        taken(&place, command, &stream);
    }
    let shared = testkit::shared_dir().unwrap().join("streams/manifest.json");
    let theirs: Value = serde_json::from_str(&std::fs::read_to_string(shared).unwrap()).unwrap();
    let keys = keys_of(&place, &theirs);
    let inventory = place.ok(&format!("inventory --keys {keys} target"));
    let ours: Value = serde_json::from_str(&inventory).unwrap();
    let by_name = |all: &Value, name: &str| {
        all["datasets"].as_array().unwrap().iter().find(|d| d["name"] == name).cloned()
    };
    let mut wrong = Vec::new();
    let mut compared = 0;
    for dataset in theirs["datasets"].as_array().unwrap() {
        let name = dataset["name"].as_str().unwrap();
        let is_left = left_out.iter().any(|out| name.starts_with(out.as_str()));
        if name == "target" || is_left {
            continue;
        }
        let mine = by_name(&ours, name).unwrap_or_else(|| panic!("{name} is not there"));
        let snapshots = |d: &Value| d["snapshots"].as_array().cloned().unwrap_or_default();
        for snapshot in snapshots(&dataset.clone()) {
            let found = snapshots(&mine).into_iter().find(|s| s["name"] == snapshot["name"]);
            let my = found.unwrap_or_else(|| panic!("{} is not there", snapshot["name"]));
            compared += 1;
            let mut differing = Vec::new();
            compare(&snapshot, &my, &mut differing);
            if !differing.is_empty() {
                differing.truncate(5);
                wrong.push(format!("{}: {}", snapshot["name"], differing.join("; ")));
            }
        }
    }
    assert!(compared > 20 && wrong.is_empty(), "of {compared}:\n{}", wrong.join("\n"));
    // What the sender destroyed is gone.
    for dataset in ours["datasets"].as_array().unwrap() {
        let name = dataset["name"].as_str().unwrap();
        assert!(by_name(&theirs, name).is_some(), "{name} is there");
    }
    // What came encrypted goes on as it came, without a key.
    for (name, what) in [
        ("raw", "target/raw@c1"),
        ("raw-incremental", "-i @c1 target/raw@c2"),
        ("raw-replicate", "-R target/raw-r@c2"),
    ] {
        let theirs = testkit::shared_dir().unwrap().join(format!("streams/{name}.zfs.zst"));
        let path = place.path().join(name);
        testkit::unpack_zst(&theirs, &path).unwrap();
        let theirs = records(&std::fs::read(&path).unwrap());
        let ours = records(&sent(&place, &format!("-w {what}")));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (n, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert!(ours == theirs, "{name}: record {n}: {:?}, not {:?}", ours.0, theirs.0);
        }
    }
    let report = place.run("check target");
    assert_eq!(report.code, 0, "{}", report.out);
    place.zdb_is_content("target");
}

/// The records of a stream, with their payloads: but the list of a package, and what names where it
/// is sent, or sums that up.
fn records(stream: &[u8]) -> Vec<(Body, Vec<u8>)> {
    let mut reader = Reader::new(stream);
    let mut out = Vec::new();
    while let Some(record) = reader.record().unwrap() {
        let mut payload = reader.payload().unwrap().to_vec();
        let body = match record.body {
            Body::Begin(begin) => {
                if begin.to_guid == 0 {
                    payload.clear();
                }
                Begin { to_name: Vec::new(), ..begin }.into()
            }
            Body::End(end) => End { checksum: [0; 4], ..end }.into(),
            body => body,
        };
        out.push((body, payload));
    }
    out
}

/// A file with the keys that a manifest tells.
fn keys_of(place: &Place, manifest: &Value) -> String {
    let path = place.path().join("keys.json");
    std::fs::write(&path, manifest["keys"].to_string()).unwrap();
    let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, owner).unwrap();
    path.display().to_string()
}

/// Entries of files are told by all but what depends on the pool.
fn compare(theirs: &Value, ours: &Value, differing: &mut Vec<String>) {
    if theirs["guid"] != ours["guid"] {
        differing.push("guid".to_owned());
    }
    let empty = Vec::new();
    let entries = |one: &'_ Value| one["entries"].as_array().unwrap_or(&empty).clone();
    let (a, b) = (entries(theirs), entries(ours));
    if a.len() != b.len() {
        differing.push(format!("{} entries, not {}", b.len(), a.len()));
    }
    for (x, y) in a.iter().zip(&b) {
        for (key, value) in x.as_object().unwrap() {
            // The root of a snapshot has the number of the snapshot.
            let is_number = x["path"] == "." && key == "ino";
            if !["blocks", "data"].contains(&key.as_str()) && !is_number && *value != y[key] {
                differing.push(format!("{} {key}: {} not {value}", x["path"], y[key]));
            }
        }
    }
    if theirs["volume"]["sha256"] != ours["volume"]["sha256"] {
        differing.push("volume".to_owned());
    }
}

/// What sends may need the pool before what receives has it.
#[test]
fn a_stream_is_received_in_the_pool_that_sends_it() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/fs");
    place.ok("zfs snapshot tank/fs@s");
    let mut receive = place.command_here("zfs receive tank/copy");
    let mut receive = receive.stdin(Stdio::piped()).spawn().unwrap();
    // It has long been waiting by then.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let send = place.command_here("zfs send tank/fs@s").output().unwrap();
    assert!(send.status.success(), "{send:?}");
    std::io::Write::write_all(&mut receive.stdin.take().unwrap(), &send.stdout).unwrap();
    assert!(receive.wait().unwrap().success());
    place.ok("zfs list tank/copy@s");
}
