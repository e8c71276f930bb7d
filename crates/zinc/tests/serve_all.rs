//! `zinc serve -a`: all known pools, each by a process of its own; its configuration, what it tells
//! its manager and its log, and the units that are shipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use support::place::{Place, until};
use testkit::workspace_root;

/// The process that looks after the others; killed when it is dropped.
struct All {
    child: Child,
    /// What it and its processes have said on standard error.
    message: Arc<Mutex<String>>,
}

impl Drop for All {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pools `one` and `two`, known and not served.
fn place() -> Place {
    let place = Place::new(&["a", "b"]);
    for (pool, disk) in [("one", "a"), ("two", "b")] {
        let disk = place.path().join(disk);
        place.ok_here(&format!("zpool create {pool} {}", disk.display()));
    }
    place
}

fn serve(mut command: Command) -> All {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let message = Arc::new(Mutex::new(String::new()));
    let (mut errors, into) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&message));
    std::thread::spawn(move || {
        let mut line = String::new();
        while errors.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            into.lock().unwrap().push_str(&std::mem::take(&mut line));
        }
    });
    All { child, message }
}

impl All {
    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line
    }

    fn message(&self) -> String {
        self.message.lock().unwrap().clone()
    }

    fn says(&self, text: &str) {
        until(&format!("no {text:?}"), || self.message().contains(text));
    }

    /// The process that serves a pool, as the last line about that says. The line may come a moment
    /// after that on standard output.
    fn process_of(&self, pool: &str) -> Pid {
        let mut found = None;
        until(&format!("no process of {pool}"), || {
            found = self.last_process_of(pool);
            found.is_some()
        });
        found.unwrap()
    }

    fn last_process_of(&self, pool: &str) -> Option<Pid> {
        let message = self.message();
        let line = message.lines().rfind(|line| line.contains(&format!("serving {pool} (")))?;
        let word = line.split(" as process ").nth(1)?.split(' ').next()?;
        Pid::from_raw(word.parse().ok()?)
    }

    fn end(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

fn pools_on_page(address: &str) -> Vec<String> {
    let answer = support::answer(address, "GET /data HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let data: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let pools = data["pools"].as_array().unwrap().iter();
    let with_report = pools.filter(|pool| pool["report"].is_object());
    with_report.map(|pool| pool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn all_known_pools_are_served_and_served_again() {
    let place = place();
    let manager = UnixDatagram::bind(place.path().join("notify")).unwrap();
    let mut command = place.command_here("serve -a --http=127.0.0.1:0");
    command.env("NOTIFY_SOCKET", place.path().join("notify"));
    let mut all = serve(command);
    assert_eq!(all.line(), "serving 2 of 2 pools\n");
    let mut datagram = [0; 256];
    let bytes = manager.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..bytes], b"READY=1\nSTATUS=serving 2 of 2 pools");
    let list = || place.ok_here("zpool list -Ho name,health");
    assert_eq!(list(), "one\tONLINE\ntwo\tONLINE\n");
    let (one, two) = (all.process_of("one"), all.process_of("two"));
    assert_ne!(one, two);

    // The page has both, as their processes see them.
    let message = all.message();
    let address = message.split("page at http://").nth(1).unwrap().split('/').next().unwrap();
    until("both pools on the page", || pools_on_page(address) == ["one", "two"]);

    // One that is killed comes back, with what it had promised.
    place.ok_here("zfs create one/kept");
    kill_process(one, Signal::KILL).unwrap();
    all.says("one is not served: signal: 9 (SIGKILL); again in 1 s");
    until("a new process of one", || all.process_of("one") != one);
    assert!(place.ok_here("zfs list -Ho name one/kept").contains("one/kept"));
    assert_eq!(all.process_of("two"), two, "the other one is left alone");

    // One that is exported stays so, and is on the page no more.
    place.ok_here("zpool export two");
    until("one pool on the page", || pools_on_page(address) == ["one"]);
    let one = all.process_of("one");
    assert_eq!(all.end(), Some(0), "{}", all.message());
    all.says("one is no longer served: signal 15");
    assert!(kill_process(one, Signal::TERM).is_err(), "its process is gone");
    let bytes = manager.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..bytes], b"STOPPING=1");
    assert_eq!(place.ok_here("zpool list -Ho name"), "one\n");
    assert_eq!(place.run("check -d a one").code, 0);
}

#[test]
fn where_nothing_is_left_to_serve_it_is_said_why() {
    let place = place();
    let mut all = serve(place.command_here("serve -a --skip one --skip two"));
    all.says("all known pools are served already, or left out");
    assert_eq!(all.end(), Some(0), "{}", all.message());
    place.ok_here("zpool destroy one");
    place.ok_here("zpool destroy two");
    let mut all = serve(place.command_here("serve -a"));
    assert_eq!(all.line(), "serving 0 of 0 pools\n");
    all.says("no pools are known yet: import or create some");

    // What becomes known is served without a restart, and again when it is imported again.
    let disk = place.path().join("a").display().to_string();
    place.ok_here(&format!("zpool create one {disk}"));
    let first = all.process_of("one");
    place.ok_here("zpool export one");
    until("its process ends", || kill_process(first, Signal::CONT).is_err());
    place.ok_here(&format!("zpool import -d {disk} one"));
    until("a new process of one", || all.process_of("one") != first);
    assert_eq!(all.end(), Some(0), "{}", all.message());
}

#[test]
fn a_killed_keeper_leaves_no_server_behind() {
    let place = place();
    let mut all = serve(place.command_here("serve -a --skip two"));
    assert_eq!(all.line(), "serving 1 of 1 pools\n");
    let one = all.process_of("one");
    all.child.kill().unwrap();
    until("the process of one ends", || kill_process(one, Signal::CONT).is_err());
    let mut again = serve(place.command_here("serve -a"));
    assert_eq!(again.line(), "serving 2 of 2 pools\n");
    assert_eq!(again.end(), Some(0));
}

#[test]
fn options_come_from_a_file_and_from_a_section_of_the_pool() {
    let place = place();
    let text = "# for all\ntunable = zfs_txg_timeout=9\n[two]\ntunable = zfs_txg_timeout=7\n";
    std::fs::write(place.path().join("conf"), text).unwrap();
    let mut all = serve(place.command_here("serve -a --config conf"));
    assert_eq!(all.line(), "serving 2 of 2 pools\n");
    let timeout = |pool: &str| {
        let text = place.ok_here(&format!("tunables --pool {pool} -j zfs_txg_timeout"));
        text.lines().find(|line| line.contains("\"value\"")).unwrap().trim().to_owned()
    };
    assert_eq!((timeout("one"), timeout("two")), ("\"value\": 9".into(), "\"value\": 7".into()));
    assert_eq!(all.end(), Some(0));

    for (text, why) in [
        ("http = 127.0.0.1:0\nsped = 9\n", "conf, line 2: unexpected argument '--sped' found"),
        ("[one\n", "conf, line 1: a `]` is missing"),
        ("\n\n[ two ]\nhttp = x\n", "conf, line 4: invalid value 'x'"),
        ("all\n", "conf, line 1: 'all' is not an option for a file"),
        ("tunable = no_such=1\n", "conf, line 1: invalid value 'no_such=1'"),
    ] {
        std::fs::write(place.path().join("conf"), text).unwrap();
        let output = place.command_here("serve --config conf one").output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(why), "{text}: {message}");
    }
    let message = place.fails("serve --config nowhere one");
    assert!(message.contains("cannot read nowhere"), "{message}");
}

#[test]
fn the_log_is_filtered_and_one_line_for_each_entry() {
    let place = place();
    let mut command = place.command_here("serve --for 600 one");
    command.env("ZINC_LOG", "warn,zinc::request=debug");
    let mut server = serve(command);
    assert!(server.line().starts_with("serving one ("));
    place.ok_here("zfs list one");
    server.says("zfs list one pid=");
    assert!(server.message().starts_with("zinc: debug: "), "{}", server.message());
    assert_eq!(server.end(), Some(0));
    assert!(
        !server.message().contains("no longer served"),
        "that is information: {}",
        server.message()
    );
    let wrong = place.command_here("serve one").env("ZINC_LOG", "loud").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));

    // As systemd starts it: standard error is a file that is named to it.
    let journal = std::fs::File::create(place.path().join("journal")).unwrap();
    let stat = rustix::fs::fstat(&journal).unwrap();
    let mut command = place.command_here("serve --for 0.1 one");
    command.env("JOURNAL_STREAM", format!("{}:{}", stat.st_dev, stat.st_ino));
    assert!(command.stderr(journal).stdout(Stdio::null()).status().unwrap().success());
    let journal = std::fs::read_to_string(place.path().join("journal")).unwrap();
    assert_eq!(journal, "<6>one is no longer served: its time is over\n");
}

/// systemd's own program reads the units.
#[testkit::needs("systemd-analyze")]
#[test]
fn the_units_that_are_shipped_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let root = workspace_root().join("packaging");
    let binary = env!("CARGO_BIN_EXE_zinc");
    let mut names = Vec::new();
    for name in ["zinc.service", "zinc@.service", "zinc-user@.service"] {
        let unit = std::fs::read_to_string(root.join("systemd").join(name)).unwrap();
        assert!(unit.contains("Type=notify") && unit.contains("/usr/bin/zinc serve "), "{name}");
        // The program is where it was built, and the template needs a name.
        let unit = unit.replace("/usr/bin/zinc", binary);
        let name = folder.path().join(name.replace('@', "@tank"));
        std::fs::write(&name, unit).unwrap();
        names.push(name);
    }
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&names).output();
    let message = String::from_utf8_lossy(&verify.unwrap().stderr).into_owned();
    assert!(!message.contains("zinc"), "{message}");
}

/// The configuration that is shipped is taken, also with what is commented out.
#[test]
fn the_configuration_that_is_shipped_is_taken() {
    let conf = workspace_root().join("packaging/serve.conf");
    let conf = std::fs::read_to_string(conf).unwrap();
    let bare: String = conf.lines().map(|line| format!("{}\n", option(line))).collect();
    let place = place();
    for text in [conf, bare] {
        std::fs::write(place.path().join("conf"), text).unwrap();
        let command = "serve --config conf --http=127.0.0.1:0 --for 0 one";
        let output = place.command_here(command).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() != Some(2), "{message}");
    }
}

/// A line of the configuration without the mark before an example.
fn option(line: &str) -> &str {
    match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => rest,
        _ => line,
    }
}
