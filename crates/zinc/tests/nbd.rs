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
            let mut message = String::new();
            child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
            panic!("{command}: {message}");
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
        let mut message = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        assert!(self.child.wait().unwrap().success(), "{message}");
        message
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
    sh(place, command).unwrap_or_else(|message| panic!("{command}\n{message}"))
}

/// A pool with a volume of 64 MiB, and room for a snapshot of it.
fn tank() -> Place {
    let place = Place::new(&["a", "b", "c", "d"]);
    place.ok("zpool create tank a b c d");
    place.ok("zfs create -V 64M -o volblocksize=16K tank/vol");
    place
}

#[testkit::needs("qemu-img", "qemu-io", "nbdinfo", "nbdcopy")]
#[test]
fn images_are_converted_into_a_volume_and_out_of_it() {
    let place = tank();
    let server = Exporting::start(&place, "nbd --socket s tank/vol");
    let process = server.child.id();
    let at = format!("exporting tank/vol as process {process} at nbd+unix:///tank/vol?socket=");
    assert!(server.line.starts_with(&at), "{}", server.line);
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
    let message = server.end();
    assert!(message.contains("no longer served"), "{message}");
    place.ok("check tank");
}

#[testkit::needs("nbdinfo", "nbdcopy")]
#[test]
fn a_server_exports_for_its_clients_as_long_as_they_are_there() {
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
    // Not SIGINT, which what a shell runs in the background is born to ignore.
    client.signal(Signal::TERM);
    until("its socket goes", || !place.path().join("s").exists());
    assert!(sh(&place, "nbdinfo $V").is_err());
    serve.end();
}

#[testkit::needs("nbdinfo", "nbdcopy")]
#[test]
fn files_are_exported_for_reading() {
    let place = Place::new(&[]);
    let message = place.fails("nbd ./raw");
    assert!(message.contains("--read-only alone"), "{message}");
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

#[testkit::needs("nbdinfo", "nbdcopy")]
#[test]
fn a_volume_of_a_pool_that_was_imported_readonly_is_exported_so() {
    let place = tank();
    let server = Exporting::start(&place, "nbd --socket s tank/vol");
    ok(&place, "head -c 64M /dev/urandom > raw; nbdcopy --flush raw $V");
    server.end();
    place.ok_here("zpool export tank");
    ok(&place, "mkdir before; cp a b c d before/");
    place.ok_here("zpool import -o readonly=on -d a -d b -d c -d d tank");
    let server = Exporting::start(&place, "nbd --socket s tank/vol");
    ok(&place, "nbdinfo --is read-only $V; nbdcopy $V back; cmp raw back");
    assert!(sh(&place, "nbdcopy raw $V").is_err());
    server.end();
    ok(&place, "for disk in a b c d; do cmp $disk before/$disk; done");
}

#[test]
fn other_machines_are_kept_out_unless_they_are_let_in() {
    let place = tank();
    let message = place.fails("nbd --listen 0.0.0.0:0 tank/vol");
    assert!(message.contains("--insecure-plain-tcp allows it"), "{message}");
    let server = Exporting::start(&place, "nbd --listen 127.0.0.1:0 tank/vol");
    let (_, at) = server.line.trim().split_once("127.0.0.1:").unwrap();
    let (port, name) = at.split_once('/').unwrap();
    assert_eq!(name, "tank/vol");
    TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    server.end();
}

/// The tools of libnbd speak TLS by GnuTLS: what they and zinc agree on is TLS.
#[testkit::needs("nbdinfo", "nbdcopy")]
#[test]
fn inside_tls_those_who_are_known_are_served() {
    let place = tank();
    let pki = testkit::workspace_root().join("fixtures/tls").display().to_string();
    let server = Exporting::start(
        &place,
        &format!("nbd --tls-certificates {pki} --tls-verify-peer --listen 127.0.0.1:0 tank/vol"),
    );
    let uri = server.line.split_whitespace().last().unwrap();
    assert!(uri.starts_with("nbds://127.0.0.1:"), "{uri}");
    let known = format!("'{uri}?tls-certificates={pki}'");
    ok(&place, "head -c 64M /dev/urandom > raw");
    ok(&place, &format!("nbdcopy --connections=4 --flush raw {known} && nbdcopy {known} back"));
    ok(&place, "cmp raw back");
    assert!(ok(&place, &format!("nbdinfo {known}")).contains("with TLS"));
    let stranger = format!("nbdinfo '{uri}?tls-certificates={pki}/stranger'");
    let message = sh(&place, &stranger).unwrap_err();
    assert!(!message.contains("export-size"), "{message}");
    let plain = sh(&place, &format!("nbdinfo {}", uri.replace("nbds:", "nbd:"))).unwrap_err();
    assert!(!plain.contains("export-size"), "{plain}");
    server.end();
    let message = place.fails("nbd --tls-certificates . --socket s tank/vol");
    assert!(message.contains("server-cert.pem"), "{message}");
}

/// Some connect and say nothing, one sends nonsense, one vanishes in the middle of a request.
#[testkit::needs("nbdinfo", "nbdsh")]
#[test]
fn clients_that_lie_or_vanish_cost_themselves_alone() {
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

#[test]
fn what_is_exported_is_not_taken_away() {
    let place = tank();
    place.ok("zfs snapshot tank/vol@a");
    let server = Exporting::start(&place, "nbd --socket s tank/vol tank/vol@a");
    let refused = |command: &str| {
        let output = place.command_here(command).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains("busy"), "{command}: {message}");
    };
    refused("zfs destroy tank/vol@a");
    refused("zfs destroy -r tank/vol");
    refused("zfs rollback tank/vol@a");
    refused("zfs set volsize=32M tank/vol");
    refused("zpool export tank");
    place.ok_here("zfs set volsize=96M tank/vol");
    place.ok_here("zfs snapshot tank/vol@b");
    place.ok_here("zfs destroy tank/vol@b");
    server.end();
    place.ok("zfs destroy -r tank/vol");
}

#[testkit::needs("nbdinfo", "nbdsh")]
#[test]
fn an_export_follows_the_properties_and_the_name_of_its_volume() {
    let place = tank();
    let server = Exporting::start(&place, "nbd --socket s tank/vol");
    let zinc = env!("CARGO_BIN_EXE_zinc");
    let write = "h.pwrite(bytes(512), 0)";
    // A client that is connected when it is set.
    let set = |property: &str| format!("{zinc} zfs set {property} tank/vol");
    let while_set = format!("import os; assert os.system(\"{}\") == 0", set("readonly=on"));
    let refused = sh(&place, &format!("nbdsh -u $V -c '{write}' -c '{while_set}' -c '{write}'"));
    let message = refused.expect_err("the second write is refused");
    assert!(message.contains("Operation not permitted"), "{message}");
    ok(&place, "nbdinfo --is read-only $V");
    place.ok_here("zfs set readonly=off tank/vol");
    ok(&place, &format!("! nbdinfo --is read-only $V; nbdsh -u $V -c '{write}'"));
    place.ok_here("zfs rename tank/vol tank/other");
    ok(&place, &format!("nbdsh -u $V -c '{write}' -c 'h.flush()'"));
    place.ok_here("zfs set readonly=on tank/other");
    ok(&place, "nbdinfo --is read-only $V");
    server.end();
    place.ok("check tank");
}

/// A client that is connected goes on with the size that it was told; the next one has the new one.
#[testkit::needs("nbdinfo", "nbdsh")]
#[test]
fn a_volume_that_grows_is_larger_for_the_next_connection() {
    let place = tank();
    let server = Exporting::start(&place, "nbd --socket s tank/vol");
    let size = |place: &Place| ok(place, "nbdinfo --size $V").trim().parse::<u64>().unwrap();
    let before = size(&place);
    let zinc = env!("CARGO_BIN_EXE_zinc");
    // Without libnbd's own checks, so that the server is asked for what is behind the end.
    let script = format!(
        "import os\n\
         h.set_strict_mode(0)\n\
         end = h.get_size()\n\
         assert os.system(\"{zinc} zfs set volsize=96M tank/vol\") == 0\n\
         assert h.get_size() == end\n\
         h.pwrite(bytes([7]) * 512, end - 512)\n\
         h.flush()\n\
         for ask in (lambda: h.pread(512, end), lambda: h.pwrite(bytes(512), end)):\n    \
             try: ask(); print(\"done\")\n    \
             except nbd.Error as e: print(e.errno)\n\
         print(h.pread(1, end - 1)[0])"
    );
    let printed = ok(&place, &format!("nbdsh -u $V -c '{script}'"));
    assert_eq!(printed, "EINVAL\nENOSPC\n7\n");
    assert!(before < 96 << 20 && size(&place) == 96 << 20);
    let script = "h.pwrite(bytes([8]) * 512, h.get_size() - 512); print(h.pread(1, SIZE - 1)[0])";
    let script = script.replace("SIZE", &before.to_string());
    assert_eq!(ok(&place, &format!("nbdsh -u $V -c '{script}'")), "7\n");
    server.end();
    place.ok("check tank");
}

#[test]
fn of_many_nothing_is_destroyed_when_one_is_exported() {
    let place = tank();
    place.ok("zfs create tank/above");
    place.ok("zfs create -s -V 16M tank/above/vol");
    place.ok("zfs snapshot -r tank/above@a");
    place.ok("zfs snapshot tank/vol@a");
    place.ok("zfs snapshot tank/vol@b");
    place.ok("zfs clone tank/vol@b tank/clone");
    let server = Exporting::start(&place, "nbd --socket s tank/vol tank/above/vol");
    let all = || place.ok_here("zfs list -Ho name -t all -r tank");
    let before = all();
    for command in ["destroy -r tank/above", "destroy -R tank/vol", "rollback -R tank/vol@a"] {
        let output = place.command_here(&format!("zfs {command}")).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && message.contains("dataset is busy"),
            "{command}: {message}"
        );
        assert_eq!(all(), before, "{command}");
    }
    server.end();
    place.ok("zfs rollback -R tank/vol@a");
    place.ok("zfs destroy -r tank/above");
    place.ok("zfs destroy -R tank/vol");
    assert_eq!(place.ok("zfs list -Ho name -t all -r tank"), "tank\n");
}

#[testkit::needs("qemu-io", "qemu-img", "nbdinfo")]
#[test]
fn a_client_is_told_what_changed_since_a_snapshot() {
    let place = tank();
    let server = Exporting::start(&place, "nbd --socket s tank/vol");
    ok(&place, "qemu-io -f raw -c 'write -P 1 0 8M' $V");
    place.ok_here("zfs snapshot tank/vol@a");
    ok(&place, "qemu-io -f raw -c 'write -P 2 4M 64k' -c 'discard 1M 1M' -c 'write 40M 16k' $V");
    place.ok_here("zfs snapshot tank/vol@b");
    ok(&place, "qemu-io -f raw -c 'write -P 3 6M 16k' $V");
    let map = |name: &str| ok(&place, &format!("nbdinfo --map={name} $V"));
    let dirty = |map: &str| -> Vec<String> {
        let rows = map.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row[2] == "1").map(|row| row[..2].join(" ")).collect()
    };
    let since_a = ["1048576 1048576", "4194304 65536", "6291456 16384", "41943040 16384"];
    assert_eq!(dirty(&map("zinc:dirty-since:a")), since_a);
    assert_eq!(dirty(&map("qemu:dirty-bitmap:a")), since_a);
    assert_eq!(dirty(&map("zinc:dirty-since:b")), ["6291456 16384"]);
    // As QEMU asks for a bitmap: what is dirty is not data to it.
    let socket = place.path().join("s").display().to_string();
    let options = format!(
        "driver=nbd,server.type=unix,server.path={socket},export=tank/vol,\
         x-dirty-bitmap=qemu:dirty-bitmap:b"
    );
    let map = ok(&place, &format!("qemu-img map --output=json --image-opts '{options}'"));
    assert!(map.contains("\"start\": 6291456, \"length\": 16384"), "{map}");
    server.end();
}

/// What was flushed is there after the server was killed, whatever was under way.
#[testkit::needs("nbdcopy", "mkfs.ext4", "e2fsck", "debugfs", "qemu-io")]
#[test]
fn nothing_that_was_flushed_is_lost_when_the_server_is_killed() {
    let place = tank();
    ok(
        &place,
        "truncate -s 64M ext4; mkfs.ext4 -q ext4; seq 100000 > file; \
               debugfs -w -R 'write file file' ext4 2>&1",
    );
    let mut server = Exporting::start(&place, "nbd --socket s tank/vol");
    ok(&place, "nbdcopy --flush ext4 $V");
    ok(&place, "qemu-io -f raw -t none -c 'write -f -P 5 63M 512' $V");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    drop(server);
    let server = Exporting::start(&place, "nbd --socket s tank/vol");
    ok(
        &place,
        "nbdcopy $V back; e2fsck -fn back; debugfs -R 'dump file out' back 2>&1; cmp file out",
    );
    ok(&place, "qemu-io -f raw -c 'read -P 5 63M 512' $V");
    server.end();
    place.ok("check tank");
}

#[testkit::needs("nbdsh")]
#[test]
fn many_connections_work_side_by_side() {
    let place = tank();
    let server = Exporting::start(&place, "nbd --socket s tank/vol");
    std::fs::write(place.path().join("many.py"), MANY).unwrap();
    ok(&place, "nbdsh -c \"$(cat many.py)\"");
    server.end();
    place.ok("check tank");
}

/// 64 connections, each with eight writes under way, each then read by another.
const MANY: &str = r#"
import os
uri = os.environ["V"]
def connect():
    one = nbd.NBD()
    one.connect_uri(uri)
    return one
all = [connect() for _ in range(64)]
def data(i, k):
    return bytes([(i * 8 + k) % 251]) * 65536
waiting = []
for k in range(8):
    for i, one in enumerate(all):
        buffer = nbd.Buffer.from_bytearray(bytearray(data(i, k)))
        waiting.append((one, one.aio_pwrite(buffer, (i * 8 + k) * 65536), buffer))
for one, cookie, buffer in waiting:
    while not one.aio_command_completed(cookie):
        one.poll(-1)
all[0].flush()
for i in range(64):
    for k in range(8):
        found = all[63 - i].pread(65536, (i * 8 + k) * 65536)
        assert bytes(found) == data(i, k), (i, k)
for one in all:
    one.shutdown()
"#;
