//! What reaches standard output and standard error: every verb that prints, with output that
//! cannot be written, readers that go away, and pools full of orders to the terminal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use ondisk::nvlist::{NvList, NvValue};
use sha2::{Digest as _, Sha256};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{arg, zinc_in};

/// Bytes of the pools' disks.
const DISK: u64 = 128 << 20;

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.args(args).current_dir(dir).env("TZ", "UTC").stdin(Stdio::null());
    command.env("ZINC_SOCKETS", dir.join("run/zinc"));
    command.env("ZINC_STATE", dir.join("run/state"));
    command
}

fn ok(dir: &Path, args: &[&str]) {
    let run = zinc_in(dir, args);
    assert_eq!(run.code, 0, "{args:?}: {}{}", run.out, run.err);
}

fn disk(dir: &Path, name: &str) {
    File::create(dir.join(name)).unwrap().set_len(DISK).unwrap();
}

/// A pool `tank` with something of everything, `away`, which is exported, and `logged`, which has a
/// log device.
fn pools(dir: &Path) {
    for name in ["one", "two", "free", "data", "log"] {
        disk(dir, name);
    }
    ok(dir, &["zpool", "create", "tank", arg(&dir.join("one"))]);
    ok(dir, &["zpool", "create", "-d", "away", arg(&dir.join("two"))]);
    ok(dir, &["zpool", "export", "-d", "two", "away"]);
    let (data, log) = (dir.join("data"), dir.join("log"));
    ok(dir, &["zpool", "create", "logged", arg(&data), "log", arg(&log)]);
    std::fs::write(dir.join("file"), vec![b'x'; 1 << 20]).unwrap();
    ok(dir, &["zfs", "create", "-d", "one", "tank/fs"]);
    ok(dir, &["zfs", "set", "-d", "one", "a:b=c", "tank/fs"]);
    ok(dir, &["cp", "-d", "one", "file", "tank/fs:/file"]);
    ok(dir, &["zfs", "snapshot", "-d", "one", "tank/fs@a"]);
    ok(dir, &["zfs", "hold", "-d", "one", "tag", "tank/fs@a"]);
    ok(dir, &["cp", "-d", "one", "file", "tank/fs:/more"]);
    ok(dir, &["zfs", "snapshot", "-d", "one", "tank/fs@b"]);
    ok(dir, &["zfs", "allow", "--dev", "one", "-e", "diff", "tank/fs"]);
    let sent = command(dir, &["zfs", "send", "-d", "one", "tank/fs@a"]).output().unwrap();
    assert!(sent.status.success() && !sent.stdout.is_empty());
    std::fs::write(dir.join("stream"), sent.stdout).unwrap();
    std::fs::write(dir.join("script"), "return zfs.exists(\"tank/fs\")").unwrap();
}

/// Command lines that print and change nothing, one for each verb and way of printing.
const PRINTING: &[&str] = &[
    "far --help",
    "--help",
    "--version",
    "zpool --help",
    "zfs list --help",
    "completions bash",
    "zpool events",
    "zpool list -d one",
    "zpool list -H -d one",
    "zpool list -v -d one",
    "zpool list -j -d one",
    "zpool status -d one",
    "zpool status -j -d one",
    "zpool get -d one all tank",
    "zpool get -j -d one all tank",
    "zpool history -d one tank",
    "zpool history -il -d one tank",
    "zpool history -j -d one tank",
    "zpool import -d two",
    "zpool upgrade -v",
    "zpool create -n new free",
    "zpool add -n -d one tank free",
    "zpool remove -n logged log",
    "zfs list -d one",
    "zfs list -H -t all -r -d one tank",
    "zfs list -j -d one",
    "zfs get -d one all tank/fs",
    "zfs get -H -d one all tank/fs",
    "zfs get -j -d one all tank/fs",
    "zfs holds -d one tank/fs@a",
    "zfs holds -j -d one tank/fs@a",
    "zfs upgrade -d one",
    "zfs userspace -d one tank/fs",
    "zfs userspace -j -d one tank/fs",
    "zfs diff -d one tank/fs@a tank/fs@b",
    "zfs destroy -nv -d one tank/fs@b",
    "zdb -e -p one tank",
    "zdb -l one",
    "zdb -C -e -p one tank",
    "zdb -u -e -p one tank",
    "zdb -b -e -p one tank",
    "zdb -dddd -e -p one tank/fs",
    "ls -d one tank/fs:/",
    "ls -l -d one tank/fs:/",
    "ls -R -d one tank/fs:/",
    "ls --json -d one tank/fs:/",
    "stat -d one tank/fs:/file",
    "stat --json -d one tank/fs:/file",
    "cat -d one tank/fs:/file",
    "inventory -d one tank",
    "check -d one tank",
    "check -j -d one tank",
    "check --list-txgs -d one tank",
    "tunables",
    "tunables -j",
    "lab list",
    "lab presets",
    "lab run seek --sim --scale 0.01",
    "zpool iostat -d one tank",
    "zpool iostat -H -d one tank",
    "zpool version",
    "zfs version",
    "zfs version -j",
    "zfs groupspace -d one tank/fs",
    "zfs projectspace -d one tank/fs",
    "zfs create -nv -d one tank/new",
    "zfs allow --dev one tank/fs",
    "zfs program -n -d one tank script",
    "zstream dump stream",
    "zstream dump -d stream",
    "zstream token 1-e90125f3a-f8-\
     789c636064000310a500c4ec50360710e72765a526973030e8409460caa7a515a79630c001489e0d\
     493ea9b224b51848bfd063c6aabf243fbd34338581c15586d7a934f6628206923c27583e2f313795\
     81a138bfb42839553f25b124d1a1d804620e2f03c2dd398945e9a94939f9c9d9f9d9307bb891e493\
     f3730b8a528b8b21b2100000bb2a1ff9",
    "advise -d one tank",
    "repair -d one tank",
    "lab what-if --seconds 1",
];

/// Command lines that say something to people and change nothing in the pool.
const TELLING: &[&str] = &[
    "rescue -d one tank rescued",
    "cp -v -d one tank/fs:/file copied",
    "cp -rv -d one tank/fs:/ copies",
    "zpool list nothing",
    "zpool import -d run",
    "zfs destroy tank/nothing",
    "check nothing",
    "nothing",
    "zpool nothing",
    "zfs set",
];

/// Verbs that print nothing when all is well, or nothing but what each of many others prints
/// the same way.
const SILENT: &[&str] = &[
    "zpool wait",
    "zfs wait",
    "zpool destroy",
    "zpool export",
    "zpool online",
    "zpool offline",
    "zpool clear",
    "zpool reopen",
    "zpool attach",
    "zpool detach",
    "zpool split",
    "zpool replace",
    "zpool checkpoint",
    "zpool initialize",
    "zpool trim",
    "zpool scrub",
    "zpool resilver",
    "zpool set",
    "zpool reguid",
    "zpool sync",
    "zpool prefetch",
    "zpool labelclear",
    "zfs load-key",
    "zfs unload-key",
    "zfs change-key",
    "zfs snapshot",
    "zfs rollback",
    "zfs clone",
    "zfs promote",
    "zfs rename",
    "zfs set",
    "zfs inherit",
    "zfs hold",
    "zfs release",
    "zfs bookmark",
    "zfs unallow",
    "mkdir",
    "rm",
    "mv",
    "ln",
    "cp",
    "rescue",
    // A stream without its end is a failure also where its reader went away (tests/send.rs).
    "zfs send",
    // What it says is told by tests/receive.rs: it needs a stream.
    "zfs receive",
    // They need a served pool, a mount, a device, or a load.
    "serve",
    "nbd",
    "mount",
    "unmount",
    "zfs mount",
    "zfs project",
    "zfs unmount",
    "top",
    "txgs",
    "throttle",
    "pios",
];

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command line whose standard output is this.
fn run_to(dir: &Path, line: &str, output: impl Into<Stdio>) -> Output {
    command(dir, &words(line)).stdout(output).output().unwrap()
}

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[test]
fn output_that_cannot_be_written_is_a_failure_of_every_verb() {
    let dir = tempfile::tempdir().unwrap();
    pools(dir.path());
    let mut offences = Vec::new();
    for line in PRINTING {
        let whole = run_to(dir.path(), line, Stdio::piped());
        let usual = whole.status.code();
        if !matches!(usual, Some(0 | 1 | 3)) || whole.stdout.is_empty() {
            offences.push(format!("{line}: prints nothing: {}", text(&whole.stderr)));
            continue;
        }
        let failed = run_to(dir.path(), line, full());
        let message = text(&failed.stderr);
        let tells =
            message.contains("cannot write to standard output") && message.contains("No space");
        if failed.status.code() != Some(1) || !tells {
            offences.push(format!("{line} >/dev/full: {:?}, {message}", failed.status.code()));
        }
        // The reader went away before a byte was written.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let left = run_to(dir.path(), line, writer);
        if left.status.code() != Some(0) || left.stderr != whole.stderr {
            let message = text(&left.stderr);
            offences.push(format!("{line} | true: {:?}, {message}", left.status.code()));
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
    assert_eq!(zinc_in(dir.path(), &["check", "-d", "one", "tank"]).code, 0);
}

/// The verbs of a command, by its help.
fn verbs(dir: &Path, command: &str) -> Vec<String> {
    let line = format!("{command} --help");
    let help = text(&run_to(dir, line.trim(), Stdio::piped()).stdout);
    let lines = help.lines().skip_while(|l| *l != "Commands:").skip(1);
    let verbs = lines.take_while(|l| !l.is_empty()).filter_map(|l| l.split_whitespace().next());
    let full = |verb: &str| format!("{command} {verb}").trim().to_owned();
    verbs.filter(|verb| *verb != "help").map(full).collect()
}

/// A new verb gets its line.
#[test]
fn no_verb_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let all = ["", "zpool", "zfs"].map(|command| verbs(dir.path(), command)).concat();
    assert!(all.len() > 50, "{all:?}");
    let is_tried = |verb: &String| {
        let begins = |line: &&str| *line == verb.as_str() || line.starts_with(&format!("{verb} "));
        PRINTING.iter().any(begins) || SILENT.contains(&verb.as_str())
    };
    let left: Vec<&String> = all.iter().filter(|verb| !is_tried(verb)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn messages_that_cannot_be_written_are_no_success_of_any_verb() {
    let dir = tempfile::tempdir().unwrap();
    pools(dir.path());
    let mut offences = Vec::new();
    for line in TELLING {
        let whole = run_to(dir.path(), line, Stdio::piped());
        if whole.stderr.is_empty() {
            offences.push(format!("{line}: says nothing: {}", text(&whole.stdout)));
        }
        for name in ["rescued", "copied", "copies"] {
            let _ = std::fs::remove_dir_all(dir.path().join(name));
            let _ = std::fs::remove_file(dir.path().join(name));
        }
        let mut lost = command(dir.path(), &words(line));
        let lost = lost.stderr(full()).stdout(Stdio::null()).status().unwrap();
        if !matches!(lost.code(), Some(1 | 2)) {
            offences.push(format!("{line} 2>/dev/full: {:?}", lost.code()));
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn a_reader_that_reads_a_little_ends_the_verb_quietly() {
    let dir = tempfile::tempdir().unwrap();
    pools(dir.path());
    let zinc = env!("CARGO_BIN_EXE_zinc");
    let script =
        format!("\"{zinc}\" cat -d one tank/fs:/file | head -c 3; echo ${{PIPESTATUS[0]}}");
    let run = Command::new("bash").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
    assert_eq!((text(&run.stdout).as_str(), run.stderr.as_slice()), ("xxx0\n", &b""[..]));
}

/// No file of the pool takes the number of a standard stream that is closed. Output to one fails;
/// otherwise it is as `/dev/null`.
#[test]
fn closed_streams_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    pools(dir.path());
    let zinc = env!("CARGO_BIN_EXE_zinc");
    for closed in [">&-", "<&-", "2>&-", "<&- >&- 2>&-"] {
        for verb in ["zpool status -d one", "zfs create -d one tank/new", "zpool list"] {
            let script = format!("\"{zinc}\" {verb} {closed}");
            let mut shell = Command::new("bash");
            shell.args(["-c", &script]).current_dir(dir.path());
            // Nothing is known there.
            shell.env("ZINC_STATE", dir.path().join("nothing"));
            let run = shell.env("ZINC_SOCKETS", dir.path().join("run/zinc")).output().unwrap();
            // What should be printed and cannot be is no success.
            let is_lost =
                closed.contains(">&-") && !closed.starts_with('2') && verb.contains("status");
            assert_eq!(run.status.code(), Some(i32::from(is_lost)), "{script}");
            let message = text(&run.stderr);
            let tells = message.contains("cannot write to standard output: ")
                || message.contains("because: Bad file descriptor");
            assert_eq!(tells, is_lost && !closed.contains("2>&-"), "{script}: {message}");
        }
        ok(dir.path(), &["zfs", "destroy", "-d", "one", "tank/new"]);
    }
    assert_eq!(zinc_in(dir.path(), &["check", "-d", "one", "tank"]).code, 0);
}

/// A verb that changes a pool is done to its end; then what was lost is said.
#[test]
fn a_change_is_done_though_it_cannot_be_told() {
    let dir = tempfile::tempdir().unwrap();
    pools(dir.path());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for (name, output, code) in [("b", Stdio::from(full()), 1), ("a", Stdio::from(writer), 0)] {
        if name == "a" {
            ok(dir.path(), &["zfs", "release", "-d", "one", "tag", "tank/fs@a"]);
        }
        let run = run_to(dir.path(), &format!("zfs destroy -v -d one tank/fs@{name}"), output);
        assert_eq!(run.status.code(), Some(code), "{}", text(&run.stderr));
    }
    let left =
        zinc_in(dir.path(), &["zfs", "list", "-H", "-t", "snapshot", "-r", "-d", "one", "tank"]);
    assert_eq!(left.out, "");
    assert_eq!(zinc_in(dir.path(), &["check", "-d", "one", "tank"]).code, 0);
}

#[test]
fn a_message_that_is_lost_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    pools(dir.path());
    let mut none = command(dir.path(), &["zpool", "list", "-d", "run"]);
    std::fs::create_dir_all(dir.path().join("run")).unwrap();
    let usual = none.output().unwrap();
    assert_eq!(text(&usual.stderr), "no pools available\n");
    let lost = none.stderr(full()).stdout(Stdio::null()).status().unwrap();
    assert_eq!((usual.status.code(), lost.code()), (Some(0), Some(1)));
}

/// A server writes into what its client has as standard output.
#[test]
fn a_client_of_a_server_fails_as_the_verb_does() {
    let dir = tempfile::tempdir().unwrap();
    pools(dir.path());
    ok_served(dir.path());
    let mut offences = Vec::new();
    for line in PRINTING.iter().filter(|l| l.contains("-d one") && !l.contains("history")) {
        let verb = line.split(' ').next().unwrap();
        if ["zdb", "check", "repair"].contains(&verb) || line.contains("add -n") {
            continue;
        }
        let failed = run_to(dir.path(), line, full());
        let message = text(&failed.stderr);
        if failed.status.code() != Some(1) || !message.contains("No space left on device") {
            offences.push(format!("{line} >/dev/full: {:?}, {message}", failed.status.code()));
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let left = run_to(dir.path(), line, writer);
        if left.status.code() != Some(0) || !left.stderr.is_empty() {
            let message = text(&left.stderr);
            offences.push(format!("{line} | true: {:?}, {message}", left.status.code()));
        }
    }
    let end = command(dir.path(), &["zpool", "export", "-d", "one", "tank"]).status().unwrap();
    assert!(offences.is_empty(), "{}", offences.join("\n"));
    assert!(end.success());
}

fn ok_served(dir: &Path) {
    let log = arg(&dir.join("log")).to_owned();
    let args = ["serve", "-b", "--log", &log, "--for", "120", "-d", "one", "tank"];
    let run = command(dir, &args).output().unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
}

/// An order to the terminal, in forms of one byte and of two, and one that turns text around.
const ORDER: &str = "\u{1b}[31m\u{9b}1m\u{7f}\u{202e}\r";

/// A pool whose device, properties, history, holds and files have orders in them.
fn hostile(dir: &Path) -> String {
    let name = format!("di{ORDER}sk");
    disk(dir, &name);
    ok(dir, &["zpool", "create", "-d", "tank", arg(&dir.join(&name))]);
    ok(dir, &["zfs", "create", "-d", &name, "tank/fs"]);
    ok(dir, &["zfs", "set", "-d", &name, &format!("a:b=x{ORDER}\nforged\tline"), "tank/fs"]);
    std::fs::write(dir.join("file"), "content").unwrap();
    ok(dir, &["cp", "-d", &name, "file", &format!("tank/fs:/f{ORDER}ile")]);
    ok(dir, &["zfs", "snapshot", "-d", &name, "tank/fs@a"]);
    ok(dir, &["cp", "-d", &name, "file", &format!("tank/fs:/g{ORDER}ile")]);
    name
}

/// What a terminal must not get, but for line ends and tabs.
fn orders(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let is_order = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
    let bad = |line: &&str| line.chars().any(|c| is_order(c) || c == '\u{fffd}');
    text.split('\n').find(bad).map(|line| format!("{line:?}"))
}

#[test]
fn no_order_reaches_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let name = hostile(dir.path());
    let mut offences = Vec::new();
    for line in [
        "zpool list -v -d . tank",
        "zpool list -vP -d . tank",
        "zpool list -j -v -d . tank",
        "zpool status -P -d . tank",
        "zpool status -j -d . tank",
        "zpool get -d . all tank",
        "zpool history -d . tank",
        "zpool history -il -d . tank",
        "zpool history -j -d . tank",
        "zfs list -r -o name,a:b -d . tank",
        "zfs get -r -d . all tank",
        "zfs get -j -d . all tank/fs",
        "zfs diff -d . tank/fs@a tank/fs",
        "zdb -e -p . tank",
        "zdb -C -e -p . tank",
        "zdb -h -e -p . tank",
        "zdb -dddddd -e -p . tank/fs",
        "ls -l -d . tank/fs:/",
        "ls -lR -d . tank/fs:/",
        "ls --json -d . tank/fs:/",
        "check -d . tank",
        "check -j -d . tank",
        "inventory -d . tank",
        "zpool iostat -v -d . tank",
        "cp -rv -d . tank/fs:/ out",
        "zpool export -d . nothing",
    ] {
        let run = run_to(dir.path(), line, Stdio::piped());
        for bytes in [&run.stdout, &run.stderr] {
            offences.extend(orders(bytes).map(|shown| format!("{line}: {shown}")));
        }
    }
    for args in [
        ["zdb", "-l", name.as_str()].as_slice(),
        &["zfs", "list", "-d", ".", &format!("tank/{ORDER}")],
        &["zpool", "list", "-d", ".", &format!("tank{ORDER}")],
        &["ls", "-d", ".", &format!("tank/fs:/none{ORDER}")],
        &["stat", "-d", ".", &format!("tank/fs:/f{ORDER}ile")],
        &["check", "-d", &format!("none{ORDER}"), "tank"],
        &[&format!("verb{ORDER}")],
    ] {
        let run = command(dir.path(), args).output().unwrap();
        for bytes in [&run.stdout, &run.stderr] {
            offences.extend(orders(bytes).map(|shown| format!("{args:?}: {shown}")));
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// Programs get a value as it is, but never another row or column.
#[test]
fn output_for_programs_is_exact() {
    let dir = tempfile::tempdir().unwrap();
    let name = hostile(dir.path());
    let run = zinc_in(dir.path(), &["zfs", "get", "-H", "-d", &name, "a:b", "tank/fs"]);
    assert_eq!(run.ok(), format!("tank/fs\ta:b\tx{ORDER}\\x0aforged\\x09line\tlocal\n"));
    let run = zinc_in(dir.path(), &["zfs", "get", "-j", "-d", &name, "a:b", "tank/fs"]).json();
    let value = &run["datasets"]["tank/fs"]["properties"]["a:b"]["value"];
    assert_eq!(value, &serde_json::json!(format!("x{ORDER}\nforged\tline")));
    // One record is one line, whatever is in it.
    let history = zinc_in(dir.path(), &["zpool", "history", "-d", &name, "tank"]).ok();
    assert!(!history.lines().any(|l| l.starts_with("forged")), "{history}");
}

/// Writes `to` over every `from` in a label.
fn patch_labels(path: &Path, from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    edit_labels(path, |phys| {
        for place in 0..phys.len() - from.len() {
            if phys[place..].starts_with(from) {
                phys[place..place + to.len()].copy_from_slice(to);
            }
        }
    });
}

/// Changes the configuration in all labels of an image, as an attacker who makes hostile images
/// does.
fn edit_labels(path: &Path, change: impl Fn(&mut [u8])) {
    const LABEL: u64 = 256 << 10;
    const PHYS: (u64, usize) = (16 << 10, 112 << 10);
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    for start in [0, LABEL, DISK - 2 * LABEL, DISK - LABEL] {
        let at = start + PHYS.0;
        let mut phys = vec![0; PHYS.1];
        file.read_exact_at(&mut phys, at).unwrap();
        change(&mut phys[..PHYS.1 - 40]);
        // The checksum at the end, made with the offset in its place.
        let tail = PHYS.1 - 32;
        phys[tail..].fill(0);
        phys[tail..tail + 8].copy_from_slice(&at.to_le_bytes());
        let sum = Sha256::digest(&phys);
        for (word, bytes) in phys[tail..].chunks_exact_mut(8).zip(sum.chunks_exact(8)) {
            word.copy_from_slice(bytes);
            word.reverse();
        }
        file.write_all_at(&phys, at).unwrap();
    }
}

#[test]
fn a_scanned_pool_gives_no_orders() {
    let dir = tempfile::tempdir().unwrap();
    disk(dir.path(), "disk");
    let path = dir.path().join("disk");
    ok(dir.path(), &["zpool", "create", "-d", "tank", arg(&path)]);
    ok(dir.path(), &["zpool", "export", "-d", ".", "tank"]);
    let before = arg(&path).as_bytes().to_vec();
    let mut after = before.clone();
    after[1..5].copy_from_slice(b"\x1b[2J");
    patch_labels(&path, &before, &after);
    // A name in the label, not the one in the path.
    patch_labels(&path, b"\0\0\0\x04tank", b"\0\0\0\x04t\x1b\nk");
    for line in ["zpool import -d .", "zpool import -a -d .", "zpool list -d .", "zdb -l disk"] {
        let run = run_to(dir.path(), line, Stdio::piped());
        for bytes in [&run.stdout, &run.stderr] {
            assert_eq!(orders(bytes), None, "{line}");
        }
        let all = text(&run.stdout) + &text(&run.stderr);
        assert!(!all.lines().any(|l| l.starts_with('k')), "{line}: {all}");
        if line == "zpool import -d ." {
            assert!(all.contains("t\\x1b"), "{all}");
        }
    }
}

/// What forges a line, and gives orders.
const HOSTILE: &[u8] = b"t\nforged\x1b[2J\r";

/// Makes the `nth` string of a list hostile, names of members included; false when there are fewer.
fn spoil(list: &mut NvList, nth: &mut usize) -> bool {
    let mut is_it = || {
        *nth = nth.wrapping_sub(1);
        *nth == usize::MAX
    };
    for pair in &mut list.pairs {
        match &mut pair.value {
            NvValue::String(text) if is_it() => {
                *text = HOSTILE.into();
                return true;
            }
            NvValue::Boolean if is_it() => {
                pair.name = HOSTILE.into();
                return true;
            }
            _ => {}
        }
    }
    let lists = list.pairs.iter_mut().flat_map(|pair| match &mut pair.value {
        NvValue::NvList(list) => std::slice::from_mut(list),
        NvValue::NvListArray(lists) => lists.as_mut_slice(),
        _ => &mut [],
    });
    for list in lists {
        if spoil(list, nth) {
            return true;
        }
    }
    false
}

/// Every string of a label, one after the other, is what no user would call a pool.
#[test]
fn no_string_of_a_label_gives_orders() {
    let dir = tempfile::tempdir().unwrap();
    disk(dir.path(), "disk");
    disk(dir.path(), "other");
    let (path, other) = (dir.path().join("disk"), dir.path().join("other"));
    ok(dir.path(), &["zpool", "create", "tank", "mirror", arg(&path), arg(&other)]);
    ok(dir.path(), &["zpool", "set", "comment=of a test", "tank"]);
    ok(dir.path(), &["zpool", "export", "tank"]);
    let mut label = vec![0; 256 << 10];
    File::open(&path).unwrap().read_exact_at(&mut label, 0).unwrap();
    let (whole, packing, _) = NvList::decode_packed(&label[16 << 10..]).unwrap();
    let mut offences = Vec::new();
    let mut fields = 0;
    loop {
        let (mut list, mut nth) = (whole.clone(), fields);
        if !spoil(&mut list, &mut nth) {
            break;
        }
        fields += 1;
        let packed = list.encode(packing).unwrap();
        edit_labels(&path, |phys| {
            phys.fill(0);
            phys[..packed.len()].copy_from_slice(&packed);
        });
        for line in [
            "zdb -l disk",
            "zpool import -d .",
            "zpool import -d disk",
            "zpool status -d .",
            "zpool list -v -d disk",
            "check -d disk tank",
        ] {
            let run = run_to(dir.path(), line, Stdio::piped());
            for bytes in [&run.stdout, &run.stderr] {
                let forged =
                    text(bytes).lines().find(|l| l.starts_with("forged")).map(str::to_owned);
                let found = orders(bytes).or(forged);
                offences.extend(found.map(|what| format!("{line}, field {fields}: {what}")));
            }
        }
    }
    assert!(fields >= 8, "{fields} strings in {whole}");
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// Devices with such names are there, gone, and full of damage.
#[test]
fn the_path_of_a_device_forges_no_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(format!("{name}\nforged: {name}\n\tx"));
    let [a, b, spare, cache] = ["a", "b", "spare", "cache"].map(path);
    for path in [&a, &b, &spare, &cache] {
        File::create(path).unwrap().set_len(80 << 20).unwrap();
    }
    let [first, second] = [arg(&a), arg(&b)];
    ok(dir.path(), &["zpool", "create", "tank", "mirror", first, second, "spare", arg(&spare)]);
    ok(dir.path(), &["zpool", "add", "tank", "cache", arg(&cache)]);
    ok(dir.path(), &["zpool", "export", "tank"]);
    let mut forged = Vec::new();
    let mut look = |lines: &[&str], state: &str| {
        for line in lines {
            let run = run_to(dir.path(), line, Stdio::piped());
            let all = text(&run.stdout) + &text(&run.stderr);
            let is_forged = |l: &&str| l.starts_with("forged") || l.contains("\tx");
            let found = all.lines().find(is_forged);
            forged.extend(found.map(|found| format!("{state}, {line}: {found}")));
        }
    };
    let looks = [
        "zpool import -d .",
        "zpool status -d . -v -P tank",
        "zpool list -d . -v -P tank",
        "zpool iostat -d . -v tank",
        "zpool iostat -d . -Hv tank",
        "zpool list -d . -HvP tank",
        "zpool get -d . all tank",
        "zpool history -d . -il tank",
        "check -d . tank",
        "check -d . -q tank",
        "zdb -e -p . tank",
        "zdb -C -e -p . tank",
        "rescue -d . tank out",
        "zpool import -d . -o readonly=on tank",
        "zpool export tank",
    ];
    look(&looks, "whole");
    let damage = vec![0xa5; 16 << 20];
    for path in [&a, &b] {
        File::options().write(true).open(path).unwrap().write_all_at(&damage, 8 << 20).unwrap();
    }
    look(&looks, "damaged");
    std::fs::remove_file(&b).unwrap();
    look(&looks, "one is gone");
    File::options().write(true).open(&a).unwrap().set_len(70 << 20).unwrap();
    look(&looks, "one is short");
    assert!(forged.is_empty(), "{}", forged.join("\n"));
}

#[test]
fn a_record_of_the_history_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    disk(dir.path(), "disk");
    let path = dir.path().join("disk");
    ok(dir.path(), &["zpool", "create", "tank", arg(&path)]);
    let forged = "2026-01-01.00:00:00 zpool destroy tank";
    ok(dir.path(), &["zfs", "set", &format!("user:x=1\n{forged}"), "tank"]);
    for line in ["zdb -h tank", "zdb -hh tank", "zpool history tank", "zpool history -il tank"] {
        let run = run_to(dir.path(), line, Stdio::piped());
        let shown = text(&run.stdout);
        assert!(shown.contains(forged), "{line}: {shown}");
        assert!(!shown.lines().any(|l| l.trim_start().starts_with(forged)), "{line}: {shown}");
    }
}
