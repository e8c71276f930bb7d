//! A pool that is served: real processes, real sockets, real signals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Run, arg};

/// How long a server may take to begin or end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a pool `tank` in a file, and the sockets of its servers.
struct Place {
    dir: tempfile::TempDir,
}

/// A process that serves it; killed when it is dropped.
struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it printed when it was ready.
    line: String,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        place.make("tank", "disk", 256 << 20);
        place
    }

    /// A pool without optional features on a disk of this many bytes.
    fn make(&self, pool: &str, disk: &str, bytes: u64) {
        let file = std::fs::File::create(self.path().join(disk)).unwrap();
        file.set_len(bytes).unwrap();
        self.run(&["zpool", "create", "-d", pool, disk]).ok();
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
        command.args(args).current_dir(self.path()).env("TZ", "UTC");
        command.env("ZINC_SOCKETS", self.path().join("run/zinc"));
        command.env("ZINC_STATE", self.path().join("run/state"));
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        let output = self.command(args).stdin(Stdio::null()).output().unwrap();
        let Output { status, stdout, stderr } = output;
        Run {
            code: status.code().expect("zinc ends by itself"),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    fn serve(&self, more: &[&str]) -> Server {
        self.serve_pool("tank", more)
    }

    fn serve_pool(&self, pool: &str, more: &[&str]) -> Server {
        let args: Vec<&str> = ["serve", "-d", "."].iter().chain(more).copied().collect();
        let mut command = self.command(&[&args[..], &[pool]].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        if line.is_empty() {
            panic!("the server did not begin: {}", rest_of_errors(&mut child));
        }
        Server { child, out, line }
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path().join("run/zinc"));
        entries.into_iter().flatten().map(|e| e.unwrap().path()).collect()
    }

    fn is_clean(&self) {
        let run = self.run(&["check", "-d", ".", "tank"]);
        assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    }
}

fn rest_of_errors(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut err) = child.stderr.take() {
        err.read_to_string(&mut text).unwrap();
    }
    text
}

impl Server {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end: exit code, and what it said on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "nothing but one line is for standard output");
        (status.code(), rest_of_errors(&mut self.child))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request over the socket; the whole answer.
fn ask(socket: &Path, line: &str) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn commands_reach_the_pool_that_is_held_with_the_same_results() {
    let place = Place::new();
    place.run(&["zpool", "export", "tank"]).ok();
    let server = place.serve(&[]);
    let [socket] = &place.sockets()[..] else { panic!("one socket") };
    let expected = format!("as process {} at {}\n", server.child.id(), socket.display());
    assert!(server.line.starts_with("serving tank (") && server.line.ends_with(&expected));

    place.run(&["zpool", "set", "feature@zstd_compress=enabled", "tank"]).ok();
    place.run(&["zfs", "create", "-d", ".", "-o", "compression=zstd", "tank/a"]).ok();
    // Without a place to search the name is enough: the pool is open.
    assert_eq!(
        place.run(&["zfs", "list", "-Ho", "name,compression"]).ok(),
        "tank\ton\ntank/a\tzstd\n"
    );
    std::fs::create_dir(place.path().join("dir")).unwrap();
    std::fs::write(place.path().join("dir/file"), "content\n").unwrap();
    place.run(&["cp", "-r", "dir", "tank/a:/"]).ok();
    assert_eq!(place.run(&["ls", "tank/a:/dir"]).ok(), "file\n");
    assert_eq!(place.run(&["cat", "-d", ".", "tank/a:/dir/file"]).ok(), "content\n");
    place.run(&["zfs", "snapshot", "tank/a@s"]).ok();
    place.run(&["rm", "-r", "tank/a:/dir"]).ok();
    place.run(&["cp", "-r", "tank/a@s:/", "back"]).ok();
    assert_eq!(std::fs::read(place.path().join("back/dir/file")).unwrap(), b"content\n");
    assert_eq!(place.run(&["zpool", "sync", "tank"]).ok(), "");
    assert_eq!(place.run(&["zpool", "list", "-Ho", "name,health"]).ok(), "tank\tONLINE\n");
    for (setting, name, value) in [
        ("comment=held", "comment", "held\n"),
        ("listsnapshots=off", "listsnapshots", "off\n"),
        ("feature@edonr=enabled", "feature@edonr", "enabled\n"),
    ] {
        place.run(&["zpool", "set", setting, "tank"]).ok();
        let shown = place.run(&["zpool", "get", "-Ho", "value", name, "tank"]);
        assert_eq!(shown.ok(), value, "{name}");
    }

    // Failures are the same too.
    let refused = place.run(&["zfs", "create", "tank/a"]);
    assert_eq!(refused.code, 1);
    assert_eq!(refused.err, "zinc: cannot create 'tank/a': dataset already exists\n");
    assert_eq!(place.run(&["zfs", "destroy", "tank/a"]).code, 1);
    assert_eq!(place.run(&["zfs", "nonsense", "tank/a"]).code, 2);

    server.signal(Signal::TERM);
    let (code, message) = server.end();
    assert_eq!(code, Some(0), "{message}");
    assert!(message.ends_with("zinc: tank is exported: signal 15\n"), "{message}");
    assert_eq!(place.sockets(), Vec::<PathBuf>::new());
    let found = place.run(&["zpool", "import", "-d", ".", "-j"]).json();
    assert_eq!(found["pools"]["tank"]["label_state"], "EXPORTED");
    let history = place.run(&["zpool", "history", "-d", ".", "tank"]).ok();
    for command in ["zinc serve -d . tank", "zfs snapshot tank/a@s", "zinc cp", "zinc rm"] {
        assert!(
            history.lines().any(|line| line.ends_with(&format!(" {command}"))),
            "{command}:\n{history}"
        );
    }
    place.is_clean();
}

#[test]
fn streams_of_the_client_are_those_of_the_verb() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let data: Vec<u8> = (0..3_000_000u32).flat_map(|n| (n % 251).to_le_bytes()).collect();
    std::fs::write(place.path().join("data"), &data).unwrap();
    let tar = Command::new("tar").args(["-c", "data"]).current_dir(place.path()).output().unwrap();
    let mut unpack = place.command(&["cp", "--tar", "-", "tank:/"]);
    let mut unpack = unpack.stdin(Stdio::piped()).spawn().unwrap();
    unpack.stdin.take().unwrap().write_all(&tar.stdout).unwrap();
    assert!(unpack.wait().unwrap().success());
    let output = place.command(&["cat", "tank:/data"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout == data), (Some(0), true));
    // A reader that goes away harms no other.
    let mut reader = place.command(&["cat", "tank:/data"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(reader.stdout.take());
    reader.wait().unwrap();
    assert_eq!(place.run(&["ls", "tank:/"]).ok(), "data\n");
    // What is written piece by piece comes too, and a file is where the client stands.
    let shown = place.run(&["inventory", "tank"]).ok();
    let json: Value = serde_json::from_str(&shown).expect("an inventory");
    assert!(shown.contains("\"path\": \"data\"") && json.is_object(), "{shown}");
    let folder = place.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let mut there = place.command(&["inventory", "-o", "file", "tank"]);
    assert!(there.current_dir(&folder).status().unwrap().success());
    assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), shown);
}

/// What a verb did before it failed is seen by the next one, as if the pool were not held.
#[test]
fn what_was_done_before_a_failure_is_seen_at_once() {
    let place = Place::new();
    let _server = place.serve(&[]);
    for name in ["new", "other", "here"] {
        std::fs::write(place.path().join(name), name).unwrap();
    }
    place.run(&["cp", "other", "tank:/here"]).ok();
    assert_eq!(place.run(&["cp", "new", "here", "tank:/"]).code, 1);
    assert_eq!(place.run(&["ls", "tank:/"]).ok(), "here\nnew\n");
}

#[test]
fn a_served_pool_is_destroyed_by_its_server() {
    let place = Place::new();
    let mut server = place.serve(&[]);
    place.run(&["zpool", "destroy", "-d", ".", "tank"]).ok();
    assert!(server.child.wait().unwrap().success());
    let listed = place.run(&["zpool", "import", "-D", "-d", "."]).ok();
    assert!(listed.contains("tank") && listed.contains("DESTROYED"), "{listed}");
    assert!(!place.run(&["zpool", "import", "-d", "."]).out.contains("tank"));
}

#[test]
fn a_pool_has_one_server_and_others_are_told() {
    let place = Place::new();
    let server = place.serve(&[]);
    let pid = server.child.id();
    let second = place.run(&["serve", "-d", ".", "tank"]);
    assert_eq!(second.code, 1);
    let expected = format!("zinc: cannot serve 'tank': process {pid} does\n");
    assert!(second.err.starts_with(&expected), "{}", second.err);
    // A command that does not find the socket is told by the lock.
    let elsewhere = place.path().join("elsewhere");
    let mut blind = place.command(&["zfs", "create", "-d", ".", "tank/x"]);
    let blind = blind.env("ZINC_SOCKETS", &elsewhere).env("ZINC_WAIT", "1").output().unwrap();
    let text = String::from_utf8_lossy(&blind.stderr).into_owned();
    assert!(text.contains("another process has the pool open"), "{text}");
}

#[test]
fn a_server_that_is_killed_loses_nothing_that_was_synced() {
    let place = Place::new();
    let server = place.serve(&[]);
    place.run(&["zfs", "create", "tank/kept"]).ok();
    std::fs::write(place.path().join("file"), "kept\n").unwrap();
    place.run(&["cp", "file", "tank/kept:/"]).ok();
    drop(server);
    assert_eq!(place.sockets().len(), 1, "a killed server leaves its socket");
    // Which does not stand in the way.
    assert_eq!(place.run(&["cat", "-d", ".", "tank/kept:/file"]).ok(), "kept\n");
    let again = place.serve(&[]);
    assert_eq!(place.run(&["cat", "tank/kept:/file"]).ok(), "kept\n");
    again.signal(Signal::INT);
    let (code, message) = again.end();
    assert_eq!(code, Some(0), "{message}");
    assert!(place.sockets().is_empty());
    place.is_clean();
}

#[test]
fn exporting_ends_the_server() {
    let place = Place::new();
    let server = place.serve(&["--pidfile", "pid", "--socket", "here.sock"]);
    let pid = std::fs::read_to_string(place.path().join("pid")).unwrap();
    assert_eq!(pid, format!("{}\n", server.child.id()));
    let socket = place.path().join("here.sock");
    let status = ask(&socket, "{\"id\":\"x\",\"do\":\"status\"}\n");
    assert_eq!((&status["id"], &status["ok"]["pool"]), (&json!("x"), &json!("tank")));
    assert_eq!(ask(&socket, "{\"id\":2,\"do\":\"export\"}\n"), json!({ "id": 2, "ok": null }));
    let (code, message) = server.end();
    assert_eq!(code, Some(0), "{message}");
    assert!(!socket.exists() && !place.path().join("pid").exists());

    let _server = place.serve(&[]);
    place.run(&["zpool", "export", "-d", ".", "tank"]).ok();
    let gone = place.run(&["zpool", "export", "-d", ".", "tank"]);
    assert!(gone.err.contains("no such pool imported"), "{}", gone.err);
}

#[test]
fn tunables_are_set_live() {
    let place = Place::new();
    let _server = place.serve(&["--tunable", "zfs_txg_timeout=300"]);
    let get = |name: &str| {
        let shown = place.run(&["tunables", "--pool", "tank", "-H", name]).ok();
        shown.split('\t').nth(1).unwrap_or_default().to_owned()
    };
    let synced = || {
        let socket = &place.sockets()[0];
        ask(socket, "{\"do\":\"status\"}\n")["ok"]["synced_txg"].as_u64().unwrap()
    };
    assert_eq!(get("zfs_txg_timeout"), "300");
    // What is dirty waits for five minutes, and then, as the tunable is turned, for a second.
    place.run(&["mkdir", "tank:/a"]).ok();
    assert_eq!(place.run(&["tunables", "--pool", "tank", "zfs_txg_timeout=1"]).ok(), "");
    assert_eq!(get("zfs_txg_timeout"), "1");
    let before = synced();
    let wrong = place.run(&["tunables", "--pool", "tank", "zfs_txg_timeout=-1"]);
    assert!(wrong.code == 1 && wrong.err.contains("zfs_txg_timeout"), "{}", wrong.err);
    let set = "{\"do\":\"tunables\",\"set\":{\"zfs_txg_timeout\":2}}\n";
    let answer = ask(&place.sockets()[0], set);
    assert_eq!(answer["ok"][0]["value"], 2, "{answer}");
    assert_eq!(get("zfs_txg_timeout"), "2");
    assert!(synced() >= before);
    let all = place.run(&["tunables", "--pool", "tank", "-j"]).json();
    assert!(all["tunables"].as_array().map_or(0, Vec::len) >= 3);
    let refused = place.run(&["mkdir", "--tunable", "zfs_txg_timeout=1", "tank:/b"]);
    assert!(refused.err.contains("cannot set tunables for one command"), "{}", refused.err);
    let unserved = place.run(&["tunables", "--pool", "other"]);
    assert!(unserved.err.contains("is not served"), "{}", unserved.err);
}

#[test]
fn a_served_pool_is_watched_recorded_and_replayed() {
    let place = Place::new();
    let _server = place.serve(&["--metrics", "127.0.0.1:0"]);
    let once = place.run(&["top", "--once", "tank"]).ok();
    assert!(once.starts_with("zinc top  tank  ONLINE  txg "), "{once}");
    place.run(&["mkdir", "tank:/a"]).ok();
    let iostat = place.run(&["zpool", "iostat", "-Hp", "tank"]).ok();
    let written = iostat.trim_end().rsplit('\t').next().and_then(|n| n.parse::<u64>().ok());
    assert!(iostat.starts_with("tank\t") && written > Some(0), "{iostat}");
    let txgs = place.run(&["txgs", "-H", "tank", "0.05", "2"]).ok();
    assert!(txgs.lines().count() > 1 && txgs.contains("\tC\t"), "{txgs}");
    let last = txgs.lines().last().unwrap_or_default();
    assert!(last.contains("\tO\t") && last.ends_with("\t-"), "{txgs}");
    let one = place.run(&["txgs", "-j", "-n", "1", "tank"]).ok();
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["txgs"].as_array().map(Vec::len), Some(1), "{one}");
    assert_eq!(one["txgs"][0]["state"], "O");
    let throttle = place.run(&["throttle", "tank"]);
    assert_eq!((throttle.code, throttle.err.as_str()), (0, ""), "{}", throttle.out);
    let lines = place.run(&["top", "-j", "--record", "file", "tank", "0.05", "3"]).ok();
    let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|l| l["span_ns"].as_u64() >= Some(50_000_000)), "{lines:?}");
    let again = place.run(&["top", "-j", "--replay", "file", "--speed", "0"]).ok();
    let again: Vec<Value> = again.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(again, lines);
    let missing = place.run(&["top", "--replay", "disk"]);
    assert!(missing.err.contains("it is not a recording"), "{}", missing.err);
    assert_eq!(place.run(&["top"]).code, 2);
}

#[test]
fn verbs_about_all_pools_reach_every_server() {
    let place = Place::new();
    place.make("dozer", "disk2", 128 << 20);
    let _servers = [place.serve(&[]), place.serve_pool("dozer", &[])];
    // Found by their devices as well, and found by their servers alone: each is there once.
    for search in [&["-d", "."][..], &[]] {
        let run = |verb: &[&str], names: &[&str]| {
            place.run(&[&["zpool"], verb, search, names].concat()).ok()
        };
        assert_eq!(run(&["list", "-Ho", "name,health"], &[]), "dozer\tONLINE\ntank\tONLINE\n");
        assert_eq!(run(&["list", "-Ho", "name"], &["tank", "dozer"]), "tank\ndozer\n");
        let table = run(&["list", "-v"], &[]);
        let firsts: Vec<_> = table.lines().filter_map(|l| l.split_whitespace().next()).collect();
        assert_eq!(firsts.len(), 5, "{table}");
        assert_eq!((firsts[0], firsts[1], firsts[3]), ("NAME", "dozer", "tank"), "{table}");
        let status = run(&["status"], &[]);
        let pools: Vec<_> = status.lines().filter(|l| l.contains("pool:")).collect();
        assert_eq!(pools, ["  pool: dozer", "  pool: tank"], "{status}");
        let health = run(&["get", "-Ho", "name,value", "health"], &[]);
        assert_eq!(health, "dozer\tONLINE\ntank\tONLINE\n");
        let history = run(&["history"], &["dozer", "tank"]);
        let made = history.matches(" zpool create -d ").count();
        assert_eq!(made, 2, "{history}");
        let json: Value = serde_json::from_str(&run(&["list", "-j"], &[])).unwrap();
        let pools: Vec<_> = json["pools"].as_object().unwrap().keys().collect();
        assert_eq!(pools, ["dozer", "tank"]);
        let counted = run(&["iostat", "-Hp"], &[]);
        let pools: Vec<_> = counted.lines().filter_map(|l| l.split('\t').next()).collect();
        assert_eq!(pools, ["dozer", "tank"], "{counted}");
    }
    // Datasets of all pools come from their servers too, whether they are named or not.
    place.run(&["zfs", "create", "-o", "recordsize=16K", "-o", "a:b=c", "tank/new"]).ok();
    let zfs = |args: &[&str]| place.run(&[&["zfs"], args].concat());
    assert_eq!(zfs(&["list", "-Ho", "name"]).ok(), "dozer\ntank\ntank/new\n");
    assert_eq!(zfs(&["list", "-d", ".", "-Ho", "name"]).ok(), "dozer\ntank\ntank/new\n");
    let get = zfs(&["get", "-Ho", "all", "recordsize,a:b", "dozer", "tank/new"]).ok();
    let expected = "dozer\trecordsize\t128K\t-\tdefault\ndozer\ta:b\t-\t-\t-\n\
                    tank/new\trecordsize\t16K\t-\tlocal\ntank/new\ta:b\tc\t-\tlocal\n";
    assert_eq!(get, expected);
    let json: Value = serde_json::from_str(&zfs(&["list", "-j"]).ok()).unwrap();
    assert_eq!(json["datasets"].as_object().unwrap().len(), 3, "{json}");
    let some = zfs(&["list", "-Ho", "name", "tank/new", "dozer/none", "gone", "dozer"]);
    assert_eq!((some.code, some.out.as_str()), (1, "dozer\ntank/new\n"), "{}", some.err);
    assert!(some.err.contains("dozer/none") && some.err.contains("'gone'"), "{}", some.err);
    // What one server cannot do is said, and the others are shown.
    let run = place.run(&["zpool", "list", "-Ho", "name", "tank", "gone", "dozer"]);
    assert_eq!((run.code, run.out.as_str()), (1, "tank\ndozer\n"), "{}", run.err);
    let txg = |pool| {
        let txgs = place.run(&["txgs", "-H", "-n", "1", pool]).ok();
        txgs.split('\t').next().and_then(|n| n.parse::<u64>().ok()).unwrap()
    };
    let before = ["tank", "dozer"].map(txg);
    place.run(&["zpool", "sync", "-d", "."]).ok();
    let after = ["tank", "dozer"].map(txg);
    assert!(after[0] > before[0] && after[1] > before[1], "{before:?} {after:?}");
}

#[test]
fn a_verb_ends_with_its_client() {
    let place = Place::new();
    let server = place.serve(&[]);
    let mut command = place.command(&["zpool", "list", "-H", "-o", "name", "tank", "0.05"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut client = command.spawn().unwrap();
    let mut out = BufReader::new(client.stdout.take().unwrap());
    let mut line = String::new();
    for _ in 0..2 {
        line.clear();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "tank\n", "it goes on for ever");
    }
    // As by Ctrl-C, which a test run in the background may have to ignore; this end of the pipe
    // stays open, as a terminal would.
    kill_process(Pid::from_child(&client), Signal::TERM).unwrap();
    client.wait().unwrap();
    // Exporting waits for verbs that are running.
    place.run(&["zpool", "export", "tank"]).ok();
    assert_eq!(server.end().0, Some(0));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.len() < 100 * line.len(), "{}", rest.len());
    place.is_clean();
}

#[test]
fn a_copy_of_a_served_pool_is_not_taken_for_it() {
    let place = Place::new();
    let _server = place.serve(&[]);
    place.run(&["zfs", "create", "-d", ".", "tank/a"]).ok();
    place.run(&["zpool", "sync", "tank"]).ok();
    std::fs::create_dir(place.path().join("copy")).unwrap();
    std::fs::copy(place.path().join("disk"), place.path().join("copy/disk")).unwrap();
    place.run(&["zfs", "create", "-d", "copy", "tank/b"]).ok();
    let names = |more: &[&str]| place.run(&[&["zfs", "list", "-Ho", "name"], more].concat()).ok();
    assert_eq!(names(&["-d", "copy", "-r", "tank"]), "tank\ntank/a\ntank/b\n");
    // Without a place, and in that of its own device, the served one is meant.
    assert_eq!(names(&["-r", "tank"]), "tank\ntank/a\n");
    assert_eq!(names(&["-d", ".", "-r", "tank"]), "tank\ntank/a\n");
}

#[test]
fn what_happened_inside_a_served_pool_is_told() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let ask = |which| place.run(&["zpool", "iostat", "-Hp", which, "tank"]).ok();
    let cells = |text: &str, first: &[&str]| -> Vec<u64> {
        let mut rows = text.lines().map(|l| l.split('\t').collect::<Vec<_>>());
        let row = rows.find(|r| r.starts_with(first)).unwrap_or_else(|| panic!("{text}"));
        row[first.len()..].iter().map(|c| c.parse().unwrap_or(0)).collect()
    };
    assert_eq!(ask("--datasets"), "", "nothing was done yet");
    place.run(&["zpool", "set", "feature@lz4_compress=enabled", "tank"]).ok();
    place.run(&["zfs", "create", "-o", "compression=lz4", "tank/a"]).ok();
    // Small blocks are sampled: what does not compress makes large ones.
    let noise = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).to_le_bytes();
    let noise: Vec<u8> = (1..37_501).flat_map(noise).collect();
    std::fs::write(place.path().join("file"), noise).unwrap();
    place.run(&["cp", "file", "tank/a:/file"]).ok();
    place.run(&["zpool", "sync", "tank"]).ok();
    place.run(&["cat", "tank/a:/file"]).ok();
    let used = ask("--datasets");
    assert_eq!(used.lines().count(), 1, "the root was not used: {used}");
    let [reads, nread, mean, p99, writes, nwritten, ..] = cells(&used, &["tank", "tank/a"])[..]
    else {
        panic!("{used}")
    };
    assert!(reads >= 1 && writes >= 1 && mean > 0 && p99 > 0, "{used}");
    assert_eq!((nread, nwritten), (300_000, 300_000));
    let stages = ask("--stages");
    for stage in ["compress", "checksum", "allocate", "write"] {
        let [count, bytes, ..] = cells(&stages, &["tank", stage])[..] else { panic!("{stages}") };
        assert!(count >= 3 && bytes > 0, "{stages}");
    }
    assert!(cells(&stages, &["tank", "leaf_sync"])[0] >= 1, "{stages}");
    let blocks = ask("--blocks");
    let [_, _, _, _, writes, bytes, mean] = cells(&blocks, &["tank", "L0", "ZFS plain file"])[..]
    else {
        panic!("{blocks}")
    };
    assert!(writes == 3 && bytes >= 3 * 4096 && mean > 0, "{blocks}");
    // A name follows its dataset, and goes with it.
    place.run(&["zpool", "set", "feature@async_destroy=enabled", "tank"]).ok();
    place.run(&["zfs", "destroy", "tank/a"]).ok();
    assert_eq!(ask("--datasets"), "");
    let json = place.run(&["zpool", "iostat", "-j", "tank"]).ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    let kinds = &json["pools"]["tank"]["profile"]["kinds"];
    assert_eq!(kinds[2]["kind"], "leaf_sync", "{kinds}");
    assert!(kinds[2]["checksum"]["time_ns"].as_u64() > Some(0), "{kinds}");
    let cache = &json["pools"]["tank"]["cache"];
    assert!(cache["bytes"].as_u64() > Some(0), "{cache}");
    assert_eq!(cache["max_bytes"], 256 << 20);
}

#[test]
fn the_screen_is_given_back() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let zinc = env!("CARGO_BIN_EXE_zinc");
    let pidfile = place.path().join("top-pid");
    // One ends by a key, one by a signal. Then the terminal is asked how it is.
    let command = format!("sh -c 'echo $$ >top-pid; exec {zinc} top tank 0.1'; stty -a");
    for keys in ["hhs+- q", ""] {
        let mut script = Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).current_dir(place.path());
        script.env("ZINC_SOCKETS", place.path().join("run/zinc")).env("TERM", "xterm");
        script.env("ZINC_STATE", place.path().join("run/state"));
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut script = script.spawn().expect("`script` is of every Debian system");
        // The end of input would be typed too: it stays open.
        let mut input = script.stdin.take().unwrap();
        let mut output = script.stdout.take().unwrap();
        let mut text = Vec::new();
        let mut is_shown = false;
        loop {
            let mut bytes = [0; 4096];
            let n = output.read(&mut bytes).unwrap();
            text.extend_from_slice(&bytes[..n]);
            if n == 0 {
                break;
            }
            if !is_shown && String::from_utf8_lossy(&text).contains("zinc top  tank") {
                is_shown = true;
                input.write_all(keys.as_bytes()).unwrap();
                if keys.is_empty() {
                    let pid = std::fs::read_to_string(&pidfile).unwrap().trim().parse().unwrap();
                    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
                }
            }
        }
        script.wait().unwrap();
        let text = String::from_utf8_lossy(&text);
        let (shown, after) = text.split_once("\u{1b}[?1049l").expect("the screen is left");
        assert!(shown.contains("\u{1b}[?1049h") && shown.contains("zinc top  tank"), "{shown}");
        assert!(shown.contains("\u{1b}[?25h"), "the cursor is seen again: {shown}");
        let flags: Vec<&str> = after.split([' ', ';', '\r', '\n']).collect();
        assert!(flags.contains(&"icanon") && flags.contains(&"echo"), "{after}");
    }
}

#[test]
fn a_server_in_the_background_gives_the_prompt_back() {
    let place = Place::new();
    let line = place.run(&["serve", "-b", "-d", ".", "--pidfile", "pid", "tank"]).ok();
    assert!(line.starts_with("serving tank ("), "{line}");
    let pid = std::fs::read_to_string(place.path().join("pid")).unwrap();
    assert!(line.contains(&format!("as process {} at", pid.trim())), "{line}");
    let second = place.run(&["serve", "-b", "-d", ".", "tank"]);
    assert!(second.code == 1 && second.err.contains("cannot serve"), "{}", second.err);
    place.run(&["zpool", "export", "tank"]).ok();
    let history = place.run(&["zpool", "history", "-d", ".", "tank"]).ok();
    assert!(history.contains("zinc serve -b -d . --pidfile pid tank\n"), "{history}");
}

#[test]
fn a_server_whose_line_cannot_be_written_goes_on_and_that_is_said() {
    let place = Place::new();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = place.command(&["serve", "-b", "-d", ".", "tank"]);
    let output = command.stdin(Stdio::null()).stdout(full()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("the server has started in spite of this: serving tank ("),
        "{message}"
    );
    assert!(message.contains("cannot write to standard output"), "{message}");
    place.run(&["zpool", "export", "tank"]).ok();
    place.run(&["serve", "-b", "-d", ".", "--log", "/dev/full", "tank"]).ok();
    place.run(&["zpool", "export", "tank"]).ok();
}

#[test]
fn a_time_can_be_set() {
    let place = Place::new();
    place.run(&["zpool", "export", "tank"]).ok();
    let server = place.serve(&["--for", "0.2"]);
    let (code, message) = server.end();
    assert_eq!(code, Some(0));
    assert!(message.ends_with("tank is exported: its time is over\n"), "{message}");
    let run = place.run(&["serve", "-d", ".", "--for", "-1", "tank"]);
    assert_eq!(run.code, 2, "{}", run.err);
}

#[test]
fn nonsense_on_the_socket_does_no_harm() {
    let place = Place::new();
    let _server = place.serve(&["--socket", "s"]);
    let socket = place.path().join("s");
    for (line, what) in [
        ("\u{0}\u{1}\n", "not a request"),
        ("[[[[[[[[[[[[[[[[[[\n", "not a request"),
        ("{\"do\":\"fly\"}\n", "no request is named 'fly'"),
        ("{\"do\":\"run\"}\n", "bad request \"run\": `args` is not a list of words"),
        ("{\"do\":\"run\",\"args\":[],\"folder\":\"/\"}\n", "cannot run: it takes three files"),
        ("{\"do\":\"txgs\",\"count\":-1}\n", "bad request \"txgs\": `count` is not a number"),
    ] {
        let answer = ask(&socket, line);
        let found = answer["error"]["what"].as_str().unwrap_or_default();
        assert!(found.starts_with(what), "{line:?}: {answer}");
    }
    let synced = ask(&socket, "{\"id\":1,\"do\":\"sync\"}\n");
    let txgs = ask(&socket, "{\"id\":1,\"do\":\"txgs\",\"count\":1}\n");
    assert_eq!(txgs["ok"].as_array().map(Vec::len), Some(1), "{txgs}");
    assert!(txgs["ok"][0]["txg"].as_u64() >= synced["ok"]["txg"].as_u64());
    assert_eq!(arg(&socket).len(), socket.as_os_str().len());
}

#[test]
fn a_pool_that_goes_is_watched_no_more_and_the_others_are() {
    let place = Place::new();
    place.make("dozer", "disk2", 128 << 20);
    let _servers = [place.serve(&[]), place.serve_pool("dozer", &[])];
    let mut command = place.command(&["zpool", "iostat", "-H", "-T", "d", "0.05"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = command.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut report = || {
        // A time to the second, then a line for each pool.
        let time = lines.next().unwrap();
        assert_eq!(time.matches(':').count(), 2, "{time}");
        let mut pools = Vec::new();
        for line in lines.by_ref() {
            pools.push(line.split('\t').next().unwrap_or_default().to_owned());
            if line.starts_with("tank") {
                return pools;
            }
        }
        panic!("it ended after {pools:?}")
    };
    assert_eq!(report(), ["dozer", "tank"]);
    place.run(&["zpool", "export", "dozer"]).ok();
    let began = Instant::now();
    while report() != ["tank"] {
        assert!(began.elapsed() < PATIENCE);
    }
    // With the last one it ends, and what happened is said.
    place.run(&["zpool", "export", "tank"]).ok();
    lines.by_ref().for_each(drop);
    assert_eq!(watch.wait().unwrap().code(), Some(1));
    let message = rest_of_errors(&mut watch);
    assert!(message.contains("dozer") && message.contains("tank"), "{message}");
}

#[test]
fn blocks_and_checksums_of_files_follow_their_tunables() {
    let place = Place::new();
    let server = place.serve(&["--tunable", "zfs_max_recordsize=20000"]);
    place.run(&["zfs", "create", "tank/a"]).ok();
    std::fs::write(place.path().join("file"), vec![7; 300_000]).unwrap();
    let set = |settings: &[&str]| {
        place.run(&[&["tunables", "--pool", "tank"], settings].concat()).ok();
    };
    let copy = |to: &str| place.run(&["cp", "file", &format!("tank/a:/{to}")]).ok();
    copy("small");
    set(&["zfs_max_recordsize=64k", "zinc_checksum=sha256"]);
    copy("middle");
    set(&["zfs_max_recordsize=16M", "zinc_checksum=off"]);
    copy("unsummed");
    // A property that is set meanwhile has its say, within what the tunables leave to it.
    set(&["zfs_max_recordsize=32k", "zinc_checksum=property"]);
    place.run(&["zfs", "set", "recordsize=64k", "tank/a"]).ok();
    copy("least");
    place.run(&["zpool", "export", "tank"]).ok();
    assert_eq!(server.end().0, Some(0));
    let of = |name: &str| {
        let text = place.run(&["stat", "-d", ".", &format!("tank/a:/{name}")]).ok();
        let word = |label| {
            let line = text.lines().find_map(|l| l.trim().strip_prefix(label)).unwrap();
            line.trim().split(' ').next().unwrap().to_owned()
        };
        let zdb = ["zdb", "-e", "-p", ".", "-dddddd", "tank/a", &word("Object:")];
        let blocks = place.run(&zdb).out;
        let sum =
            blocks.lines().filter(|l| l.contains(" L0 ")).find_map(|l| l.split("cksum=").nth(1));
        (word("Blocks:").parse::<u32>().unwrap(), sum.unwrap().to_owned())
    };
    let all = ["small", "middle", "unsummed", "least"].map(of);
    let sizes = all.each_ref().map(|(size, _)| *size);
    assert_eq!(sizes, [16 << 10, 64 << 10, 128 << 10, 32 << 10]);
    // The first word of fletcher4 is a sum of words of 32 bits, that of sha256 is any.
    let first = all.each_ref().map(|(_, sum)| u64::from_str_radix(&sum[..16], 16).unwrap());
    assert!(first[0] > 0 && first[0] < 1 << 48 && first[3] > 0 && first[3] < 1 << 48, "{all:?}");
    assert!(first[1] >= 1 << 48 && first[2] == 0, "{all:?}");
    place.is_clean();
}

#[test]
fn a_served_pool_is_loaded_measured_and_advised_where_it_is_held() {
    let place = Place::new();
    let _server = place.serve(&[]);
    // A guest that could not clear up does not come in.
    let lab = || place.run(&["lab", "run", "seek", "--pool", "tank", "--seconds", "0.01", "-j"]);
    let refused = lab();
    assert!(refused.code == 1 && refused.err.contains("async_destroy"), "{}", refused.err);
    assert_eq!(place.run(&["zfs", "list", "-H", "-o", "name", "-r", "tank"]).ok(), "tank\n");
    place.run(&["zpool", "set", "feature@async_destroy=enabled", "tank"]).ok();
    let pios = ["pios", "-L", "dmuio", "-p", "tank", "-n", "4", "-s", "1M", "-c", "64k"];
    let run = |more: &[&str]| place.run(&[&pios[..], more].concat());
    let text = run(&["-x", "-V", "--profile", "-P", "echo before", "--html", "page"]).ok();
    assert!(text.starts_with("before\n") && text.contains("every byte is what was"), "{text}");
    let page = std::fs::read_to_string(place.path().join("page")).unwrap();
    assert!(page.contains("<svg"), "{page}");
    // A client that watches goes on counting: nothing begins anew.
    let stages = || place.run(&["zpool", "iostat", "-Hp", "--stages", "tank"]).ok();
    let sums = |text: &str| {
        let line = text.lines().find(|l| l.starts_with("tank\tleaf_sync")).unwrap().to_owned();
        line.split('\t').nth(4).and_then(|n| n.parse::<u64>().ok()).unwrap()
    };
    let before = sums(&stages());
    // What a hook prints is not part of the JSON.
    let json = run(&["-x", "-j", "--profile", "-P", "echo before"]);
    assert_eq!((json.code, json.err.as_str()), (0, "before\n"));
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json[0]["write"]["bytes"], 4 << 20, "{json}");
    assert!(sums(&stages()) > before);
    assert_eq!(place.run(&["ls", "tank/pios:/"]).ok(), "");
    let advice = place.run(&["advise", "-j", "tank"]).ok();
    let advice: Value = serde_json::from_str(&advice).unwrap();
    assert_eq!(advice["pool"], "tank");
    let lab: Value = serde_json::from_str(&lab().ok()).unwrap();
    assert_eq!(lab["experiments"][0]["experiment"], "seek", "{lab}");
    // A run whose client is gone ends, and with -x leaves nothing.
    let long = ["-n", "1", "-s", "1M", "-c", "4k", "-T", "200", "-x"];
    let mut client = place.command(&[&pios[..3], &["-p", "tank"], &long[..]].concat());
    let mut client = client.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let wait = |files: usize| {
        while place.run(&["ls", "tank/pios:/"]).ok().lines().count() != files {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(1);
    kill_process(Pid::from_child(&client), Signal::INT).unwrap();
    client.wait().unwrap();
    wait(0);
}

#[test]
fn a_server_does_not_name_itself_as_the_one_who_has_the_pool() {
    let place = support::place::Place::new(&["disk"]);
    // No server of another test has a pool of this name.
    place.ok("zpool create unserved disk");
    place.ok("zpool export unserved");
    for command in ["serve unserved", "serve -b unserved"] {
        let why = place.fails(command);
        assert!(why.contains("no such pool") && !why.contains("may have it"), "{why}");
    }
}

#[test]
fn a_served_verb_has_the_environment_of_its_client() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let mut status = place.command(&["zpool", "status", "-s", "tank"]);
    let output = status.env("ZINC_PRICES", "no-such-prices").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let missing = place.path().join("no-such-prices").display().to_string();
    assert!(message.contains(&format!("no prices in {missing}")), "{message}");
    assert!(!output.status.success());
}
