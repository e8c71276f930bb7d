//! The client against servers of others: nbdkit, qemu-nbd, nbd-server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "servers/speed.rs"]
mod speed;

use device::{
    DeviceRef, DeviceSource as _, ErrorKind, Read, Shared, Write, WriteDeviceRef, read_batch,
    read_one, write_batch,
};
use far::AnyDevices;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::{NbdServer, Rng};

const MIB: usize = 1 << 20;

/// A folder with a disk in it, and a socket beside it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new(mib: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("disk"), vec![0; mib * MIB]).unwrap();
        Self { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    fn socket(&self) -> PathBuf {
        self.at("s")
    }

    fn name(&self, more: &str) -> PathBuf {
        PathBuf::from(format!("nbd+unix:///?socket={}{more}", self.text("s")))
    }

    /// nbdkit that loses when it is killed what it was not told to flush.
    fn forgetful(&self) -> NbdServer {
        let disk = self.text("disk");
        let cached = ["--filter=cache", "file", &disk, "cache=writeback"];
        NbdServer::nbdkit(&self.socket(), &cached)
    }

    fn disk(&self) -> Vec<u8> {
        std::fs::read(self.at("disk")).unwrap()
    }
}

/// Waits for what comes by itself, however slow the machine is.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether all threads of a process stand still.
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let stands = |stat: String| stat.rsplit(')').next().is_some_and(|s| s.starts_with(" T"));
    threads.map(|t| std::fs::read_to_string(t.path().join("stat"))).all(|s| s.is_ok_and(stands))
}

/// A lock that was let go is held on by each program that another test starts at this moment, until
/// that runs: it is tried again for longer than a user would want.
fn try_claim(name: &Path) -> Result<WriteDeviceRef, device::Error> {
    let began = Instant::now();
    loop {
        match AnyDevices::default().claim(name) {
            Err(e) if e.kind == ErrorKind::InUse && began.elapsed() < Duration::from_secs(60) => {}
            claimed => return claimed,
        }
    }
}

fn claim(name: &Path) -> WriteDeviceRef {
    try_claim(name).unwrap()
}

fn reader(device: &WriteDeviceRef) -> DeviceRef {
    device.clone().as_device()
}

/// Random reads, writes and flushes, compared with bytes in memory, in batches whose members do
/// not overlap; `unit` is the smallest that the server takes.
fn agrees_with_memory(device: &WriteDeviceRef, unit: usize, seed: u64) {
    // A shorter run begins with what the one before it left.
    testkit::shrinking_seed(seed, 120, |steps| {
        let size = usize::try_from(device.size()).unwrap();
        let mut model = read_one(&*reader(device), 0, size).unwrap().to_vec();
        steps.iter().for_each(|step| step_as_in_memory(device, &mut model, unit, *step));
        device.flush().unwrap();
        assert!(*read_one(&*reader(device), 0, size).unwrap() == model);
    });
}

fn step_as_in_memory(device: &WriteDeviceRef, model: &mut [u8], unit: usize, step: u64) {
    let mut rng = Rng::new(step);
    let mut draw = |n: usize| (rng.next_u64() % n as u64) as usize;
    let (size, regions) = (model.len(), 8);
    let region = size / regions / unit * unit;
    let mut writes = Vec::new();
    for n in 0..regions {
        let at = draw(region / unit) * unit;
        let longest = (region - at).min(if draw(10) == 0 { region } else { 64 << 10 });
        let len = (1 + draw(longest / unit)) * unit;
        let len = len.min(region - at);
        let byte = if draw(4) == 0 { 0 } else { draw(256) as u8 };
        let offset = n * region + at;
        model[offset..offset + len].fill(byte);
        let half = len / 2;
        let whole = Shared::copy_of(&vec![byte; len]);
        writes.push((offset as u64, vec![whole.slice(0..half), whole.slice(half..len)]));
    }
    assert!(write_batch(&**device, writes).into_iter().all(|r| r.is_ok()));
    if draw(10) == 0 {
        device.flush().unwrap();
    }
    let mut ranges = Vec::new();
    for _ in 0..16 {
        let at = draw(size);
        ranges.push((at as u64, draw((size - at).min(200_000)) + 1));
    }
    for ((at, len), bytes) in ranges.iter().zip(read_batch(&*reader(device), &ranges)) {
        let at = *at as usize;
        assert!(*bytes.unwrap() == model[at..at + len], "{len} bytes at {at}");
    }
}

fn check(place: &Place, server: NbdServer, unit: usize) {
    let device = claim(&place.name(""));
    assert_eq!(device.size(), 40 * MIB as u64);
    agrees_with_memory(&device, unit, 7);
    let name = place.name("");
    let beyond = read_one(&*reader(&device), device.size() - 1, 2).unwrap_err();
    assert_eq!(beyond.kind, ErrorKind::BeyondEnd { size: device.size() });
    let found = AnyDevices::default().open(&name).unwrap();
    assert!(*found.read_new(0, 4096).unwrap() == *device.read_new(0, 4096).unwrap());
    // One program at a time.
    let taken = AnyDevices::default().claim(&name).err().unwrap();
    assert_eq!(taken.kind, ErrorKind::InUse);
    drop((device, found, server));
}

#[testkit::needs("nbdkit")]
#[test]
fn nbdkit_in_memory_with_several_connections() {
    let place = Place::new(1);
    check(&place, NbdServer::nbdkit(&place.socket(), &["memory", "40M"]), 1);
}

#[testkit::needs("nbdkit")]
#[test]
fn nbdkit_with_one_connection_and_plain_replies() {
    let place = Place::new(40);
    let disk = place.text("disk");
    let one = ["--no-sr", "--filter=multi-conn", "file", &disk, "multi-conn-mode=disable"];
    let server = NbdServer::nbdkit(&place.socket(), &one);
    check(&place, server, 1);
    assert!(place.disk().iter().any(|byte| *byte != 0));
}

#[testkit::needs("nbdkit")]
#[test]
fn nbdkit_with_small_requests_of_whole_blocks_that_take_their_time() {
    let place = Place::new(40);
    let disk = place.text("disk");
    let filters = ["--filter=blocksize-policy", "--filter=delay", "file", &disk];
    let sizes = ["blocksize-minimum=4096", "blocksize-maximum=64K", "rdelay=1ms", "wdelay=1ms"];
    let errors = ["blocksize-error-policy=error"];
    let all = [&filters[..], &sizes, &errors].concat();
    check(&place, NbdServer::nbdkit(&place.socket(), &all), 4096);
}

#[testkit::needs("qemu-nbd")]
#[test]
fn qemu() {
    let place = Place::new(40);
    let arguments =
        ["-k", &place.text("s"), "-f", "raw", "-t", "--shared=0", "-x", "", &place.text("disk")];
    check(&place, NbdServer::on_socket(&place.socket(), "qemu-nbd", &arguments), 1);
}

/// nbd-server, which stays in the foreground for one client only.
struct InBackground(PathBuf);

impl Drop for InBackground {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(&self.0).ok().and_then(|pid| pid.trim().parse().ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

#[testkit::needs("nbd-server")]
#[test]
fn nbd_server() {
    let place = Place::new(40);
    let port = testkit::free_port();
    let disk = place.text("disk");
    let generic = format!("[generic]\nlistenaddr = 127.0.0.1\nport = {port}\n");
    let export = format!("[disk]\nexportname = {disk}\nflush = true\nfua = true\ntrim = true\n");
    std::fs::write(place.at("conf"), format!("{generic}{export}")).unwrap();
    let started = std::process::Command::new("nbd-server")
        .args(["-C", &place.text("conf"), "-p", &place.text("pid")])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
    assert!(started.expect("nbd-server").success());
    let _running = InBackground(place.at("pid"));
    until("it listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let name = format!("nbd://127.0.0.1:{port}/disk");
    let device = claim(Path::new(&name));
    agrees_with_memory(&device, 1, 9);
    let none = format!("nbd://127.0.0.1:{port}/none");
    let refused = AnyDevices::default().open(Path::new(&none)).err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Refused("the server has no such export"));
}

#[testkit::needs("nbdkit")]
#[test]
fn what_a_server_lost_is_sent_again() {
    let place = Place::new(40);
    let server = place.forgetful();
    let device = claim(&place.name(""));
    let block = |byte: u8| vec![byte; MIB];
    device.write(0, &block(1)).unwrap();
    device.write(20 * MIB as u64, &block(2)).unwrap();
    device.flush().unwrap();
    // Answered, and not flushed: one of them covers a part of what was.
    device.write(512 << 10, &block(3)).unwrap();
    device.write(30 * MIB as u64, &block(4)).unwrap();
    device.write(30 * MIB as u64 + 4096, &vec![5; 4096]).unwrap();
    server.kill();
    let lost = place.disk();
    assert!(lost[30 * MIB..].iter().all(|byte| *byte == 0), "the server had written it");
    assert!(lost[..MIB] == block(1));
    let reading = {
        let device = reader(&device);
        std::thread::spawn(move || read_one(&*device, 30 * MIB as u64, 8192))
    };
    let server = place.forgetful();
    let read = reading.join().unwrap().unwrap();
    assert!(read[..4096] == block(4)[..4096] && read[4096..] == block(5)[..4096]);
    device.flush().unwrap();
    server.kill();
    let disk = place.disk();
    assert!(disk[..512 << 10] == block(1)[..512 << 10]);
    assert!(disk[512 << 10..][..MIB] == block(3));
    assert!(
        disk[20 * MIB..21 * MIB] == block(2) && disk[30 * MIB + 8192..31 * MIB] == block(4)[8192..]
    );
}

#[testkit::needs("nbdkit")]
#[test]
fn a_server_that_is_killed_again_and_again_loses_nothing() {
    let place = Place::new(40);
    let mut server = place.forgetful();
    let device = claim(&place.name("&timeout=600"));
    let (sender, ended) = mpsc::channel();
    let working = {
        let device = device.clone();
        std::thread::spawn(move || {
            for seed in 0..4 {
                agrees_with_memory(&device, 1, seed);
            }
            sender.send(()).unwrap();
            drop(device);
        })
    };
    let mut kills = 0;
    // On a busy machine a request may take longer than that: each server lives longer.
    let mut life = Duration::from_millis(300);
    while let Err(e) = ended.recv_timeout(life) {
        assert_eq!(e, mpsc::RecvTimeoutError::Timeout, "the worker failed");
        server.kill();
        server = place.forgetful();
        kills += 1;
        life += life / 4;
    }
    working.join().unwrap();
    assert!(kills > 0);
    // All was flushed by the last round.
    let kept = read_one(&*reader(&device), 0, 40 * MIB).unwrap();
    server.kill();
    assert!(*kept == place.disk());
}

#[testkit::needs("nbdkit")]
#[test]
fn a_server_that_is_another_is_refused() {
    let place = Place::new(40);
    let server = place.forgetful();
    for what in ["content", "size"] {
        std::fs::write(place.at("disk"), vec![0; 40 * MIB]).unwrap();
        let again = place.forgetful();
        let device = claim(&place.name(""));
        device.write(MIB as u64, &vec![7; 8192]).unwrap();
        device.flush().unwrap();
        again.kill();
        match what {
            "content" => std::fs::write(place.at("disk"), vec![0; 40 * MIB]).unwrap(),
            _ => std::fs::File::options()
                .write(true)
                .open(place.at("disk"))
                .unwrap()
                .set_len(41 * MIB as u64)
                .unwrap(),
        }
        let again = place.forgetful();
        let failed = read_one(&*reader(&device), 0, 512).unwrap_err();
        assert!(matches!(failed.kind, ErrorKind::Refused(_)), "{what}: {failed}");
        assert!(device.write(0, &[1; 512]).is_err() && device.flush().is_err());
        again.kill();
    }
    drop(server);
}

/// The time of a name that runs out in a test; a test that wants answers has more patience.
const BRIEF: &str = "&timeout=5";

#[testkit::needs("nbdkit")]
#[test]
fn a_server_that_is_gone_is_a_dead_leaf() {
    let place = Place::new(40);
    let server = place.forgetful();
    let brief = place.name(BRIEF);
    let device = claim(&brief);
    device.write(0, &[1; 4096]).unwrap();
    server.kill();
    assert_eq!(device.flush().unwrap_err().kind, ErrorKind::Gone);
    assert_eq!(read_one(&*reader(&device), 0, 512).unwrap_err().kind, ErrorKind::Gone);
    let none = AnyDevices::default().open(&brief).err().unwrap();
    assert!(none.kind.is_of_device(), "{none}");
    // Opened anew it is a device again, although the old one is still held.
    let _server = place.forgetful();
    let second = claim(&place.name(""));
    assert!(device.write(0, &[1; 4096]).is_err());
    second.write(0, &[2; 4096]).unwrap();
}

#[testkit::needs("nbdkit")]
#[test]
fn a_server_that_is_silent_is_a_dead_leaf() {
    let place = Place::new(40);
    let server = place.forgetful();
    let brief = place.name(BRIEF);
    let device = claim(&brief);
    device.write(0, &[2; 4096]).unwrap();
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    until("it stands still", || is_stopped(server.pid()));
    let silent = read_one(&*reader(&device), 0, 512).unwrap_err();
    assert_eq!(silent.kind, ErrorKind::NoAnswer);
    assert!(try_claim(&brief).err().unwrap().kind.is_of_device());
    kill_process(pid, Signal::CONT).unwrap();
    claim(&place.name("")).flush().unwrap();
}

#[testkit::needs("nbdkit")]
#[test]
fn errors_of_a_server_are_those_of_the_request() {
    let place = Place::new(40);
    let (disk, switch) = (place.text("disk"), place.text("fails"));
    let file = format!("error-file={switch}");
    let all = ["--filter=error", "file", &disk, "error=EIO", "error-rate=100%", &file];
    let server = NbdServer::nbdkit(&place.socket(), &all);
    let device = claim(&place.name(""));
    device.write(0, &[9; 8192]).unwrap();
    std::fs::write(&switch, "").unwrap();
    let eio = ErrorKind::Io { errno: libc::EIO };
    assert_eq!(read_one(&*reader(&device), 0, 512).unwrap_err().kind, eio);
    assert_eq!(device.write(0, &[8; 512]).unwrap_err().kind, eio);
    std::fs::remove_file(&switch).unwrap();
    assert!(*read_one(&*reader(&device), 0, 512).unwrap() == [9; 512]);
    drop((device, server));
}

#[testkit::needs("nbdkit")]
#[test]
fn a_server_that_cannot_flush_or_be_written_to_is_only_read() {
    let place = Place::new(40);
    let disk = place.text("disk");
    let server = NbdServer::nbdkit(&place.socket(), &["-r", "file", &disk]);
    assert!(AnyDevices::default().claim(&place.name("")).err().unwrap().kind.is_refusal());
    assert_eq!(AnyDevices::default().open(&place.name("")).unwrap().size(), 40 << 20);
    server.kill();
    let script = "get_size) echo 40M;; pread) dd if=/dev/zero bs=$3 count=1 2>/dev/null;; \
                  can_write) exit 0;; pwrite) cat >/dev/null;; *) exit 2;;";
    let script = format!("case $1 in {script} esac");
    std::fs::write(place.at("plugin"), format!("#!/bin/sh\n{script}\n")).unwrap();
    let _ = std::process::Command::new("chmod").args(["+x", &place.text("plugin")]).status();
    let plugin = place.text("plugin");
    let server = NbdServer::nbdkit(&place.socket(), &["sh", &plugin]);
    let refused = AnyDevices::default().claim(&place.name("")).err().unwrap();
    assert!(refused.to_string().contains("cannot flush"), "{refused}");
    drop(server);
}

#[testkit::needs("nbdkit")]
#[test]
fn callbacks_may_read_from_the_device_and_outlive_it() {
    let place = Place::new(40);
    let server = NbdServer::nbdkit(&place.socket(), &["memory", "40M"]);
    let device = claim(&place.name(""));
    device.write(8192, &[6; 4096]).unwrap();
    let (sender, results) = mpsc::channel();
    let inner = reader(&device);
    let read = Read {
        offset: 0,
        len: 512,
        done: Box::new(move |first| {
            let second = read_one(&*inner, 8192, 512);
            sender.send((first.is_ok(), second.unwrap()[0])).unwrap();
        }),
    };
    device.submit(vec![read]);
    assert_eq!(results.recv().unwrap(), (true, 6));
    let (sender, results) = mpsc::channel();
    let write = |n: u64| {
        let sender = sender.clone();
        let parts = vec![Shared::copy_of(&[n as u8; 4096])];
        Write { offset: n * 4096, parts, done: Box::new(move |r| sender.send(r.is_ok()).unwrap()) }
    };
    device.submit_writes((0..1000).map(write).collect());
    drop((device, sender));
    assert_eq!(results.iter().filter(|ok| *ok).count(), 1000);
    drop(server);
}
