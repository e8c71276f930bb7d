//! Volumes as disks of other programs: QEMU's tools and those of libnbd are the judges.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use support::place::{Place, until};

/// A program that exports; killed when it is dropped.
struct Exporting {
    child: Child,
    /// What it said when clients could connect.
    line: String,
}

impl Exporting {
    fn start(place: &Place, command: &str) -> Self {
        let mut child = place.start_here(command);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{command}: {said}");
        }
        Self { child, line }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it as a service manager does; what it said on standard error.
    fn end(mut self) -> String {
        self.signal(Signal::TERM);
        until("it ends", || self.child.try_wait().unwrap().is_some());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a shell command in the place, `$U` being the address of the socket `s` without a name and
/// `$V` that of the volume; what it printed.
fn sh(place: &Place, command: &str) -> Result<String, String> {
    let socket = place.path().join("s").display().to_string();
    let output = Command::new("bash")
        .args(["-ec", command])
        .current_dir(place.path())
        // First the system's own Python, which has the module of nbdsh.
        .env("PATH", format!("/usr/bin:/usr/sbin:/sbin:{}", std::env::var("PATH").unwrap()))
        .env("U", format!("nbd+unix:///?socket={socket}"))
        .env("V", format!("nbd+unix:///tank/vol?socket={socket}"))
        .env("ZINC_SOCKETS", place.path().join("run/zinc"))
        .env("ZINC_STATE", place.path().join("run/state"))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{}{}", text(&output.stdout), text(&output.stderr))),
    }
}

fn ok(place: &Place, command: &str) -> String {
    sh(place, command).unwrap_or_else(|said| panic!("{command}\n{said}"))
}

/// Whether the programs are there that act as clients.
fn has(programs: &[&str]) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let is_there = |name: &&str| std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    let missing: Vec<_> = programs.iter().filter(|name| !is_there(name)).collect();
    if !missing.is_empty() {
        testkit::skip(&format!("NBD clients: {missing:?} not installed"));
    }
    missing.is_empty()
}

/// A pool with a volume of 64 MiB, and room for a snapshot of it.
fn tank() -> Place {
    let place = Place::new(&["a", "b", "c", "d"]);
    place.ok("zpool create tank a b c d");
    place.ok("zfs create -V 64M -o volblocksize=16K tank/vol");
    place
}

#[test]
fn images_are_converted_into_a_volume_and_out_of_it() {
    if !has(&["qemu-img", "qemu-io", "nbdinfo", "nbdcopy"]) {
        return;
    }
    let place = tank();
    let server = Exporting::start(&place, "nbd --socket s tank/vol");
    assert!(server.line.starts_with("exporting tank/vol at nbd+unix:///tank/vol?socket="));
    ok(&place, "head -c 5000000 /dev/urandom > raw; truncate -s 64M raw");
    ok(&place, "qemu-img convert -n -f raw -O raw raw $V && qemu-img compare -f raw -F raw raw $V");
    ok(&place, "qemu-img convert -f raw -O qcow2 $V out.qcow2 && qemu-img check out.qcow2");
    ok(&place, "qemu-img compare -f raw -F qcow2 raw out.qcow2");
    ok(&place, "nbdcopy $V back && cmp raw back");
    // What was never written is a hole.
    let map = ok(&place, "nbdinfo --map $V");
    assert!(map.contains("hole,zero"), "{map}");
    let ends: Vec<&str> = map.lines().last().unwrap().split_whitespace().collect();
    assert_eq!((ends[1], ends[2]), ("62095360", "3"), "{map}");
    assert!(ok(&place, "qemu-img map --output=json $V").contains("\"zero\": true"));
    ok(&place, "qemu-io -f raw -c 'write -P 7 1M 3M' -c flush -c 'read -P 7 1M 3M' $V");
    ok(&place, "qemu-io -f raw -c 'discard 1M 1M' -c 'write -z 2M 1M' -c 'read -P 0 1M 2M' $V");
    let said = server.end();
    assert!(said.contains("no longer served"), "{said}");
    place.ok("check tank");
}

#[test]
fn a_server_exports_for_its_clients_as_long_as_they_are_there() {
    if !has(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let place = tank();
    place.ok("zfs snapshot tank/vol@before");
    let serve = Exporting::start(&place, "serve tank");
    let client = Exporting::start(&place, "nbd --socket s tank/vol tank/vol@before");
    ok(&place, "head -c 64M /dev/urandom > raw; nbdcopy --flush raw $V");
    let list = ok(&place, "nbdinfo --list --json $U");
    assert!(list.contains("\"tank/vol\"") && list.contains("\"tank/vol@before\""), "{list}");
    let before = ok(&place, "nbdcopy ${V/vol?/vol@before?} - | tr -d '\\0' | wc -c");
    assert_eq!(before.trim(), "0");
    let refused = sh(&place, "nbdcopy raw ${V/vol?/vol@before?}").unwrap_err();
    assert!(refused.contains("read-only"), "{refused}");
    client.signal(Signal::INT);
    until("its socket goes", || !place.path().join("s").exists());
    assert!(sh(&place, "nbdinfo $V").is_err());
    serve.end();
}

#[test]
fn files_are_exported_for_reading() {
    if !has(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let place = Place::new(&[]);
    let said = place.fails("nbd ./raw");
    assert!(said.contains("--read-only alone"), "{said}");
    ok(
        &place,
        "truncate -s 8M raw; head -c 1M /dev/urandom | dd of=raw seek=2M oflag=seek_bytes \
               conv=notrunc status=none",
    );
    let server = Exporting::start(&place, "nbd --read-only --socket s ./raw");
    ok(&place, "nbdcopy $U back && cmp raw back");
    let map = ok(&place, "nbdinfo --map $U");
    assert!(map.lines().count() >= 3, "{map}");
    assert!(sh(&place, "nbdcopy raw $U").is_err());
    server.end();
}

#[test]
fn other_machines_are_kept_out_unless_they_are_let_in() {
    let place = tank();
    let said = place.fails("nbd --listen 0.0.0.0:0 tank/vol");
    assert!(said.contains("--insecure-plain-tcp allows that"), "{said}");
    let server = Exporting::start(&place, "nbd --listen 127.0.0.1:0 tank/vol");
    let (_, at) = server.line.trim().split_once("127.0.0.1:").unwrap();
    let (port, name) = at.split_once('/').unwrap();
    assert_eq!(name, "tank/vol");
    TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    server.end();
}

/// Some connect and say nothing, one sends nonsense, one vanishes in the middle of a request.
#[test]
fn clients_that_lie_or_vanish_cost_themselves_alone() {
    if !has(&["nbdinfo", "nbdsh"]) {
        return;
    }
    let place = tank();
    let server = Exporting::start(&place, "nbd --socket s tank/vol");
    let connect = || UnixStream::connect(place.path().join("s")).unwrap();
    let silent: Vec<UnixStream> = (0..100).map(|_| connect()).collect();
    let mut liar = connect();
    std::io::Write::write_all(&mut liar, &[0xff; 4096]).unwrap();
    let mut rest = Vec::new();
    // Hung up, with or without what was sent being read.
    let _ = liar.read_to_end(&mut rest);
    ok(&place, "nbdsh -u $V -c 'h.aio_pwrite(nbd.Buffer(32 << 20), 0)' -c 'h.pread(4096, 0)'");
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    assert!(threads.count() < 200);
    drop(silent);
    server.end();
}
