//! Pools whose devices are exports of NBD servers: nbdkit's, and zinc's own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::Child;
use std::time::Duration;
use support::place::{Place, until};
use testkit::NbdServer;
use testkit::oracle;

/// nbdkit that exports a file of the place, and loses what it was not told to flush when it is
/// killed.
fn forgetful(place: &Place, file: &str) -> NbdServer {
    let disk = place.path().join(file);
    let options = ["--filter=cache", "file", disk.to_str().unwrap(), "cache=writeback"];
    NbdServer::nbdkit(&place.path().join(format!("s-{file}")), &options)
}

/// The name of what [`forgetful`] exports. Nothing is given up, however busy the machine is.
fn name(place: &Place, file: &str) -> String {
    name_within(place, file, 60)
}

/// The same of one that is given up after this many seconds.
fn name_within(place: &Place, file: &str, seconds: u64) -> String {
    format!("nbd+unix:///?socket={}/s-{file}&timeout={seconds}", place.path().display())
}

/// A program that runs until it is dropped.
struct Running(Child);

impl Running {
    fn start(place: &Place, command: &str) -> Self {
        let mut child = place.start_here(command);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{command} ended at once");
        Self(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What OpenZFS says of a pool whose devices are these files; they are not exported.
fn judge(place: &Place, pool: &str, files: &[&str]) {
    let folder = tempfile::tempdir_in(place.path()).unwrap();
    for file in files {
        std::fs::copy(place.path().join(file), folder.path().join(file)).unwrap();
    }
    oracle::judge(folder.path(), pool);
}

/// Bytes that do not compress.
fn noise(place: &Place, name: &str, mib: u64, seed: u64) {
    let mut bytes = vec![0; usize::try_from(mib << 20).unwrap()];
    testkit::Rng::new(seed).fill(&mut bytes);
    std::fs::write(place.path().join(name), bytes).unwrap();
}

fn cat(place: &Place, what: &str) -> Vec<u8> {
    let output = place.command_here(&format!("cat {what}")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[testkit::needs("nbdkit")]
#[test]
fn verbs_take_names_of_exports() {
    let place = Place::new(&["a", "b", "c", "d"]);
    let a = forgetful(&place, "a");
    let [b, c, d] = ["b", "c", "d"].map(|file| forgetful(&place, file));
    let [na, nb, nc, nd] = ["a", "b", "c", "d"].map(|file| name(&place, file));
    assert!(place.fails(&format!("zpool create tank {na} {na}")).contains("same device"));
    assert!(place.fails("zpool create tank nbd://user:secret@h/e").contains("password"));
    place.ok_here(&format!("zpool create tank {na}"));
    assert!(place.fails(&format!("zpool create -f other {na}")).contains("active pool 'tank'"));
    noise(&place, "x", 3, 1);
    place.ok_here("cp x tank:/");
    place.ok_here(&format!("zpool attach tank {na} {nb}"));
    let status = place.ok_here("zpool status tank");
    assert!(status.contains("mirror-0") && status.contains(&nb), "{status}");
    place.ok_here(&format!("zpool replace tank {na} {nc}"));
    // What was replaced is free, and is added as another device.
    place.ok_here(&format!("zpool add -f tank {na}"));
    place.ok_here(&format!("zpool add tank log {nd}"));
    place.ok_here(&format!("zpool remove tank {nd}"));
    place.ok_here("zpool export tank");
    let all = format!("-d {na} -d {nb} -d {nc}");
    assert!(place.ok_here(&format!("zpool import {all}")).contains("tank"));
    place.ok_here(&format!("zpool import {all} tank"));
    assert!(cat(&place, "tank:/x") == std::fs::read(place.path().join("x")).unwrap());
    // A server holds the pool, and takes names from clients.
    let serve = Running::start(&place, "serve tank");
    place.ok_here(&format!("zpool attach -w tank {na} {nd}"));
    let status = place.ok_here("zpool status tank");
    assert!(status.contains("mirror-1") && status.contains(&nd), "{status}");
    place.ok_here("zpool export tank");
    drop(serve);
    judge(&place, "tank", &["a", "b", "c", "d"]);
    place.ok_here(&format!("zpool labelclear -f {nd}"));
    assert!(place.fails(&format!("zpool labelclear -f {nd}")).contains("no ZFS label"));
    [a, b, c, d].into_iter().for_each(NbdServer::kill);
    judge(&place, "tank", &["a", "b", "c"]);
}

/// One side is nbdkit's, which speaks TLS by GnuTLS, the other zinc's own.
#[testkit::needs("nbdkit")]
#[test]
fn a_mirror_inside_tls_asks_both_ends_who_they_are() {
    let place = Place::new(&["a", "b"]);
    let pki = testkit::workspace_root().join("fixtures/tls").display().to_string();
    let (disk, socket) = (place.path().join("a"), place.path().join("s"));
    let certificates = format!("--tls-certificates={pki}");
    let options = ["--tls=require", &certificates, "--tls-verify-peer", "file"];
    let options = [&options[..], &[disk.to_str().unwrap()]].concat();
    let _nbdkit = NbdServer::nbdkit(&socket, &options);
    place.ok_here("zpool create under b");
    place.ok_here("zfs create -s -V 100M under/vol");
    let command =
        format!("nbd --tls-certificates {pki} --tls-verify-peer --listen 127.0.0.1:0 under/vol");
    let mut child = place.start_here(&command);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _zinc = Running(child);
    let uri = line.split_whitespace().last().unwrap();
    let shown = |pki: &str| {
        let there = format!("nbds+unix:///?socket={}&tls-certificates={pki}", socket.display());
        (there, format!("{uri}?tls-certificates={pki}"))
    };
    let (one, other) = shown(&pki);
    let (stranger, no_friend) = shown(&format!("{pki}/stranger"));
    // nbdkit hangs up, zinc says why.
    place.fails(&format!("zpool create tank {stranger}"));
    let message = place.fails(&format!("zpool create tank {no_friend}"));
    assert!(message.contains("does not accept this machine"), "{message}");
    let plain = uri.replace("nbds:", "nbd:");
    assert!(place.fails(&format!("zpool create tank {plain}")).contains("requires TLS"));
    place.ok_here(&format!("zpool create -f tank mirror {one} {other}"));
    noise(&place, "x", 24, 5);
    place.ok_here("cp x tank:/");
    place.ok_here("zpool scrub -w tank");
    assert!(place.ok_here("zpool status tank").contains("with 0 errors"));
    place.ok_here("zpool export tank");
    place.ok_here(&format!("zpool import -d {one} -d {other} tank"));
    assert!(cat(&place, "tank:/x") == std::fs::read(place.path().join("x")).unwrap());
    place.ok_here("zpool export tank");
}

#[testkit::needs("nbdkit")]
#[test]
fn a_mirror_over_two_servers_outlives_each_of_them() {
    let place = Place::new(&["a", "b"]);
    let a = forgetful(&place, "a");
    let mut b = forgetful(&place, "b");
    let [na, nb] = ["a", "b"].map(|file| name_within(&place, file, 15));
    place.ok_here(&format!("zpool create tank mirror {na} {nb}"));
    let serve = Running::start(&place, "serve tank");
    for round in 0..3 {
        // Killed in the middle of it, and back before its time is over: that is not noticed.
        noise(&place, "x", 8, round);
        let mut copy = place.start_here(&format!("cp -f x tank:/x{round}"));
        std::thread::sleep(Duration::from_millis(30));
        b.kill();
        b = forgetful(&place, "b");
        assert!(copy.wait().unwrap().success());
        let status = place.ok_here("zpool status tank");
        assert!(!status.contains("DEGRADED"), "{status}");
    }
    // It stays away: the pool goes on with the other.
    b.kill();
    noise(&place, "y", 2, 9);
    place.ok_here("cp y tank:/");
    until("the leaf is given up", || place.ok_here("zpool status tank").contains("DEGRADED"));
    let b = forgetful(&place, "b");
    place.ok_here(&format!("zpool online tank {nb}"));
    until("the leaf has all", || {
        let status = place.ok_here("zpool status tank");
        status.contains("resilvered")
            && !["DEGRADED", "in progress"].iter().any(|w| status.contains(w))
    });
    place.ok_here("zpool scrub -w tank");
    let status = place.ok_here("zpool status tank");
    assert!(status.contains("scrub repaired 0B") && status.contains("with 0 errors"), "{status}");
    place.ok_here("zpool export tank");
    drop(serve);
    [a, b].into_iter().for_each(NbdServer::kill);
    judge(&place, "tank", &["a", "b"]);
    judge(&place, "tank", &["b"]);
}

#[testkit::needs("nbdkit")]
#[test]
fn a_pool_whose_only_server_is_away_is_suspended_and_goes_on() {
    let place = Place::new(&["a"]);
    let a = forgetful(&place, "a");
    place.ok_here(&format!("zpool create tank {}", name_within(&place, "a", 10)));
    let serve = Running::start(&place, "serve tank");
    noise(&place, "x", 8, 3);
    place.ok_here("cp x tank:/x");
    a.kill();
    let mut waiting = place.start_here("zfs create tank/data");
    until("the pool is suspended", || place.ok_here("zpool status tank").contains("SUSPENDED"));
    let a = forgetful(&place, "a");
    place.ok_here("zpool clear tank");
    assert!(waiting.wait().is_ok());
    assert!(cat(&place, "tank:/x") == std::fs::read(place.path().join("x")).unwrap());
    place.ok_here("zpool export tank");
    drop(serve);
    a.kill();
    judge(&place, "tank", &["a"]);
}

/// The file that a server writes to is not the device that the server is.
#[testkit::needs("nbdkit")]
#[test]
fn a_server_that_is_away_is_not_replaced_with_its_own_file() {
    let place = Place::new(&["a", "b"]);
    let a = forgetful(&place, "a");
    let (far, near) = (name_within(&place, "a", 10), place.path().join("b"));
    place.ok_here(&format!("zpool create -f tank mirror {far} {}", near.display()));
    let serve = Running::start(&place, "serve tank");
    noise(&place, "x", 2, 1);
    place.ok_here("cp x tank:/");
    a.kill();
    until("the leaf is given up", || {
        place.ok_here("cp -f x tank:/");
        place.ok_here("zpool status tank").contains("DEGRADED")
    });
    // Longer than a file is watched before it is looked at.
    for _ in 0..8 {
        std::thread::sleep(Duration::from_secs(1));
        let status = place.ok_here("zpool status tank");
        assert!(status.contains("DEGRADED"), "{status}");
    }
    place.ok_here("zpool export tank");
    drop(serve);
}

/// A search that finds an export and the file behind it takes the export; the file alone is not
/// taken while the server may have it open.
#[testkit::needs("nbdkit")]
#[test]
fn a_search_prefers_an_export_to_the_file_behind_it() {
    let place = Place::new(&["a"]);
    let a = forgetful(&place, "a");
    let na = name(&place, "a");
    place.ok_here(&format!("zpool create tank {na}"));
    let elsewhere = |command: &str| {
        let mut command = place.command_here(command);
        command.env("ZINC_STATE", place.path().join("elsewhere")).output().unwrap()
    };
    let folder = place.path().display();
    let alone = elsewhere(&format!("zpool import -d {folder} tank"));
    let why = String::from_utf8_lossy(&alone.stderr);
    assert!(!alone.status.success() && why.contains(&na) && why.contains("-f"), "{why}");
    for order in [format!("-d {folder} -d {na}"), format!("-d {na} -d {folder}")] {
        assert!(elsewhere(&format!("zpool import {order} tank")).status.success());
        let status = String::from_utf8(elsewhere("zpool status tank").stdout).unwrap();
        assert!(status.contains(&na), "{status}");
        assert!(elsewhere("zpool export tank").status.success());
    }
    a.kill();
    // Of a pool that was exported the file is as good.
    place.ok_here(&format!("zpool import -d {folder} tank"));
    place.ok_here("zpool export tank");
    judge(&place, "tank", &["a"]);
}

#[testkit::needs("nbdkit")]
#[test]
fn a_zinc_that_is_killed_leaves_a_whole_pool() {
    let place = Place::new(&["a"]);
    let mut a = forgetful(&place, "a");
    let na = name(&place, "a");
    place.ok_here(&format!("zpool create tank {na}"));
    noise(&place, "x", 24, 4);
    for round in 0..4 {
        let mut copy = place.start_here(&format!("cp -f x tank:/x{round}"));
        std::thread::sleep(Duration::from_millis(20 + 60 * round));
        copy.kill().unwrap();
        copy.wait().unwrap();
        if round % 2 == 1 {
            a.kill();
            a = forgetful(&place, "a");
        }
        place.ok_here("check tank");
    }
    place.ok_here("zpool export tank");
    a.kill();
    judge(&place, "tank", &["a"]);
}

#[test]
fn a_mirror_over_two_zincs() {
    let place = Place::new(&["left", "right"]);
    for side in ["left", "right"] {
        place.ok_here(&format!("zpool create {side} {}/{side}", place.path().display()));
        place.ok_here(&format!("zfs create -s -V 72M -o volblocksize=16K {side}/disk"));
    }
    let export = |side: &str| Running::start(&place, &format!("nbd --socket s-{side} {side}/disk"));
    let far = |side: &str| {
        format!("nbd+unix:///{side}%2Fdisk?socket={}/s-{side}&timeout=60", place.path().display())
    };
    let (left, mut right) = (export("left"), export("right"));
    place.ok_here(&format!("zpool create both mirror {} {}", far("left"), far("right")));
    noise(&place, "x", 8, 5);
    for round in 0..3 {
        let mut copy = place.start_here(&format!("cp -f x both:/x{round}"));
        std::thread::sleep(Duration::from_millis(20 * round));
        // What it had not flushed is gone with it.
        drop(right);
        right = export("right");
        assert!(copy.wait().unwrap().success());
        place.ok_here("zpool clear both");
    }
    place.ok_here("zpool scrub -w both");
    let status = place.ok_here("zpool status both");
    assert!(status.contains("ONLINE") && status.contains("with 0 errors"), "{status}");
    assert!(cat(&place, "both:/x2") == std::fs::read(place.path().join("x")).unwrap());
    place.ok_here("zpool export both");
    drop((left, right));
    for side in ["left", "right"] {
        let disk = cat(&place, &format!("{side}/disk"));
        std::fs::write(place.path().join(format!("{side}.img")), disk).unwrap();
        place.ok_here(&format!("check {side}"));
    }
    judge(&place, "both", &["left.img", "right.img"]);
}
