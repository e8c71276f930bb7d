//! A pool is made whole or not at all, gets a name that it can be called by, and can be named by
//! its guid. What crashes and full disks leave is told from damage.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use engine::config::{NvList, NvValue};
use engine::inside::device::{DeviceRef, FileDevice, Options, RwFileDevice};
use engine::inside::vdev::label::{Round, write_config};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::place::{Place, until};
use support::state;

/// A folder with a file `a` that something is on.
fn place_with_data() -> Place {
    let place = Place::new(&["a"]);
    let file = std::fs::File::options().write(true).open(place.path().join("a")).unwrap();
    let data: Vec<u8> =
        (0..1u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    file.write_all_at(&data, 0).unwrap();
    place
}

#[test]
fn a_property_that_is_refused_leaves_the_device_as_it_is() {
    let place = place_with_data();
    let before = std::fs::read(place.path().join("a")).unwrap();
    for options in [
        "-O reservation=10G",
        "-O refreservation=10G",
        "-O version=6",
        "-O volsize=1G",
        "-O reservation=50M -O quota=20M",
        "-O refreservation=50M -O refquota=20M",
        "-d -O recordsize=1M",
        "-d -O compression=zstd",
        "-d -O checksum=blake3",
        "-O mountpoint=relative",
        "-o version=28",
        "-o failmode=never",
        "-o cachefile=/no/where/x",
    ] {
        let message = place.fails(&format!("zpool create -f {options} tank a"));
        assert!(message.starts_with("zinc: cannot create 'tank': "), "{options}: {message}");
        let now = std::fs::read(place.path().join("a")).unwrap();
        assert!(before == now, "{options}: the device was written to");
        assert!(place.fails("zpool import -d .").contains("no pools"), "{options}");
        assert!(!place.cache().exists(), "{options}");
    }
    assert!(!Path::new("/no").exists(), "no folder is made for a file that was named");
    place.ok("zpool create -f -O reservation=10M -O quota=50M tank a");
    assert_eq!(place.ok("zfs get -Hpo value reservation,quota tank"), "10485760\n52428800\n");
    let message = place.fails("zpool set cachefile=/no/where/x tank");
    assert!(message.contains("cannot write /no/where/x"), "{message}");
    assert_eq!(place.ok("zpool get -Ho value cachefile tank"), "-\n");
}

/// Mounts a file system of this many KiB.
fn small_mount(at: &Path, kib: u32) {
    std::fs::create_dir_all(at).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(at);
    assert!(mount.status().unwrap().success());
}

#[testkit::needs("mount")]
/// Limits of owners are set when a file system is made; one that is wrong makes none.
#[test]
fn a_new_file_system_has_the_limits_of_owners_that_were_given() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create -o userquota@1000=1M -o projectobjquota@7=20 -o atime=off tank/a");
    let values = "userquota@1000,projectobjquota@7,atime";
    assert_eq!(place.ok(&format!("zfs get -Hpo value {values} tank/a")), "1048576\n20\noff\n");
    for given in ["userquota@1000=big", "userused@1000=1M", "userquota@no-such-user=1M"] {
        place.fails(&format!("zfs create -o {given} tank/b"));
    }
    place.fails("zfs create -V 8M -o userquota@1000=1M tank/b");
    assert_eq!(place.ok("zfs list -Hro name tank"), "tank\ntank/a\n");
    // An owner without a name here has a number or no figures; the empty name is number 0.
    let figures = "userused@no-such-user,userquota@no-such-user,userused@54321,groupused@";
    let shown = place.ok(&format!("zfs get -Hpo property,value,source {figures} tank/a"));
    let root = place.ok("zfs get -Hpo value groupused@0 tank/a");
    let lines = ["userused@no-such-user\t-\t-", "userquota@no-such-user\t-\t-"];
    let lines = [&lines[..], &["userused@54321\t0\tlocal"]].concat().join("\n");
    assert_eq!(shown, format!("{lines}\ngroupused@\t{}\tlocal\n", root.trim()));
    assert_ne!(root, "0\n");
    assert_eq!(place.ok("zfs list -Ho userused@no-such-user tank/a"), "-\n");
    let message = place.fails("zfs projectspace -i tank/a");
    assert!(message.contains("invalid option 'i'"), "{message}");
    place.ok("zfs snapshot tank/a@s");
    place.ok("zfs clone -o userquota@1000=2M -o atime=on tank/a@s tank/b");
    assert_eq!(place.ok(&format!("zfs get -Hpo value {values} tank/b")), "2097152\n20\non\n");
    place.fails("zfs clone -o userquota@1000=big tank/a@s tank/c");
    place.extra("b");
    place.ok("zpool create -O userquota@1000=3M -O atime=off other b");
    assert_eq!(place.ok("zfs get -Hpo value userquota@1000,atime other"), "3145728\noff\n");
}

/// A snapshot that lies in its own clone: neither can go first, and -R is no way out.
#[test]
fn a_clone_of_a_snapshot_in_itself_is_not_destroyed_by_halves() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/x");
    place.ok("zfs create tank/x/y");
    place.ok("zfs snapshot tank/x@s");
    place.ok("zfs clone tank/x@s tank/c");
    place.ok("zfs create tank/c/first");
    place.ok("zfs rename tank/x tank/c/x");
    let message = place.fails("zfs destroy -R tank/c");
    let words = ["cannot destroy 'tank/c/x@s'", "zfs promote tank/c"];
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    assert!(!message.contains("-R"), "{message}");
    let all = "tank\ntank/c\ntank/c/first\ntank/c/x\ntank/c/x/y\n";
    assert_eq!(place.ok("zfs list -Hro name tank"), all);
    place.ok("zfs promote tank/c");
    place.ok("zfs destroy -R tank/c");
    assert_eq!(place.ok("zfs list -Hro name tank"), "tank\n");
}

#[test]
fn names_that_are_normalized_are_text() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let message = place.fails("zfs create -o normalization=formC -o utf8only=off tank/a");
    assert!(message.contains("'utf8only' must be set 'on' if normalization chosen"), "{message}");
    place.ok("zfs create -o normalization=formC tank/a");
    assert_eq!(place.ok("zfs get -Ho value utf8only tank/a"), "on\n");
    place.ok("zfs create -o utf8only=off tank/a/b");
    assert_eq!(place.ok("zfs get -Ho value utf8only,normalization tank/a/b"), "off\nnone\n");
}

/// Where the list of known pools cannot be written, pools are looked at and changed as ever. What
/// would change the list says that it cannot, also when a server does it.
#[testkit::needs("mount")]
#[test]
fn a_list_that_cannot_be_written_is_named() {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank a");
    place.ok("zpool create other b");
    let folder = state(place.path());
    let mount = |words: &[&str]| {
        let status = Command::new("mount").args(words).arg(&folder).status().unwrap();
        assert!(status.success());
    };
    mount(&["--bind", folder.to_str().unwrap()]);
    mount(&["-o", "remount,bind,ro"]);
    for command in ["zpool list", "zpool status", "zfs list", "ls tank:/", "zfs snapshot tank@s"] {
        place.ok(command);
    }
    let failed = |output: std::process::Output| {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains("Read-only file system"), "{message}");
        message
    };
    failed(place.command_here("zpool create third c").output().unwrap());
    let message = failed(place.command_here("zpool export other").output().unwrap());
    assert!(message.contains("'other' is still in the list of known pools"), "{message}");
    let mut server = place.serve("tank");
    let message = failed(place.command_here("zpool export tank").output().unwrap());
    assert!(message.contains("'tank' is still in the list of known pools"), "{message}");
    server.wait().unwrap();
    assert!(Command::new("umount").arg(&folder).status().unwrap().success());
}

#[testkit::needs("mount")]
#[test]
fn a_pool_that_cannot_be_remembered_is_not_made() {
    let place = place_with_data();
    let before = std::fs::read(place.path().join("a")).unwrap();
    let folder = state(place.path());
    small_mount(&folder, 16);
    std::fs::write(folder.join("ballast"), vec![1; 12 << 10]).unwrap();
    let message = place.fails("zpool create -f tank a");
    let is_same = before == std::fs::read(place.path().join("a")).unwrap();
    std::fs::remove_file(folder.join("ballast")).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().flatten().map(|e| e.file_name()).collect();
    Command::new("umount").arg(&folder).status().unwrap();
    assert!(
        message.contains("cannot create 'tank': it cannot be recorded in the list of known pools"),
        "{message}"
    );
    assert!(message.contains("No space left on device"), "{message}");
    assert!(is_same, "the device was written to");
    assert!(!left.iter().any(|name| name == "zpool.cache.new"), "{left:?}");
}

/// The configuration in the labels of a device.
fn label(path: &Path) -> NvList {
    let device: DeviceRef = Arc::new(FileDevice::open(path, &Options::default()).unwrap());
    let labels = engine::inside::pool::read_labels(&device);
    labels.into_iter().find_map(|label| label.nvlist).unwrap()
}

/// Writes it into the labels of these rounds.
fn relabel(path: &Path, list: &NvList, rounds: &[Round]) {
    let device = RwFileDevice::open(path, &Options::default()).unwrap();
    rounds.iter().for_each(|round| write_config(&device, list, *round).unwrap());
}

#[test]
fn a_pool_with_an_impossible_name_gets_another_or_stays() {
    let place = Place::new(&["a"]);
    let path = place.path().join("a");
    place.ok("zpool create tank a");
    place.ok("zpool export tank");
    let mut list = label(&path);
    let odd = b"ta\x1b[2Jnk".to_vec();
    list.set("name", NvValue::String(odd.clone()));
    relabel(&path, &list, &[Round::First, Round::Second]);
    let guid = list.u64("pool_guid").unwrap();
    for how in ["", "-o readonly=on "] {
        let message = place.fails(&format!("zpool import {how}-d . {guid}"));
        assert!(message.contains("ta\\x1b\\x5b2Jnk': invalid character in pool name"), "{message}");
        assert!(message.contains(&format!("`zinc zpool import {guid} NEWNAME`")), "{message}");
    }
    assert_eq!(label(&path), list, "nothing was written");
    // What is written under another name for now keeps the bytes.
    place.ok(&format!("zpool import -d . -t {guid} guest"));
    place.ok("zfs create guest/fs");
    place.ok("zpool export guest");
    assert_eq!(label(&path).text("name").map(|name| name.as_bytes().to_vec()).ok(), Some(odd));
    place.ok(&format!("zpool import -d . {guid} plain"));
    assert_eq!(place.ok("zfs list -Ho name"), "plain\nplain/fs\n");
    assert!(label(&path).text("name").is_ok_and(|name| name.as_bytes() == b"plain"));
}

#[test]
fn what_is_asked_for_is_done_or_refused_and_never_left_out() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create -O version=5 tank a");
    let message = place.fails("zfs create -o version=6 tank/old");
    assert!(
        message.contains("'version' must be one of '1 | 2 | 3 | 4 | 5 | current'"),
        "{message}"
    );
    place.ok("zfs create -o version=5 tank/new");
    assert_eq!(place.ok("zfs list -Ho name"), "tank\ntank/new\n");
    let run = place.run("zpool set listsnaps=on tank");
    assert!(run.code == 0 && run.err.contains("shows snapshots with -t"), "{}", run.err);
    assert_eq!(place.ok("zpool get -Ho value listsnapshots tank"), "on\n");
    place.ok("zpool export tank");
    for (options, why) in [
        ("-o readonly=maybe", "bad property value 'maybe' for 'readonly'"),
        ("-o feature@blake3=enabled", "'blake3' cannot be set at import time"),
        ("-o comment=a -o comment=b", "property 'comment' specified multiple times"),
    ] {
        let message = place.fails(&format!("zpool import -d . {options} tank"));
        assert!(message.contains(why), "{options}: {message}");
        assert!(place.ok("zpool import -d .").contains("   pool: tank\n"), "{options}");
    }
    place.ok("zpool import -d . -o org.zinc:x=y -o ashift=13 -o comment=hi tank");
    let values = place.ok("zpool get -Ho value org.zinc:x,ashift,comment tank");
    assert_eq!(values, "y\n13\nhi\n");
    let message = place.fails("zpool create -o comment=a -o comment=b twice b");
    assert!(message.contains("specified multiple times"), "{message}");
    // An image that is gone, or that another took the place of, is named.
    std::fs::remove_file(place.path().join("a")).unwrap();
    let message = place.fails("zfs list tank");
    assert!(message.contains("/a is not there"), "{message}");
    place.extra("a");
    let message = place.fails("zfs list tank");
    assert!(message.contains("/a is not one of them"), "{message}");
}

#[test]
fn a_guid_stands_for_the_name_of_a_pool() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/fs");
    std::fs::write(place.path().join("file"), "content").unwrap();
    let guid = place.ok("zpool get -Ho value guid tank").trim().to_owned();
    place.ok(&format!("cp file {guid}/fs:/file"));
    assert_eq!(place.ok(&format!("ls {guid}/fs:/")), "file\n");
    assert_eq!(place.ok(&format!("cat {guid}/fs:/file")), "content");
    assert!(place.ok(&format!("stat {guid}/fs:/file")).contains("7"));
    place.ok(&format!("cp {guid}/fs:/file out"));
    assert_eq!(std::fs::read(place.path().join("out")).unwrap(), b"content");
    for (what, to) in [("", "all"), ("/fs", "one"), ("/fs:/file", "file-only")] {
        let run = place.run(&format!("rescue {guid}{what} {to}"));
        assert!(run.code == 0 && run.err.contains("nothing lost"), "{what}: {}", run.err);
    }
    for file in ["all/tank%fs/file", "one/tank%fs/file", "file-only/file"] {
        assert_eq!(std::fs::read(place.path().join(file)).unwrap(), b"content", "{file}");
    }
}

#[test]
fn labels_that_a_crash_left_half_written_are_no_damage() {
    let place = Place::new(&["a"]);
    let path = place.path().join("a");
    place.ok("zpool create tank a");
    let old = label(&path);
    let mut new = old.clone();
    new.set("txg", NvValue::U64(old.u64("txg").unwrap() + 1));
    for (round, code) in [(Round::First, 0), (Round::Second, 3)] {
        relabel(&path, &new, &[round]);
        let run = place.run("check tank");
        assert_eq!(run.code, code, "{}{}", run.out, run.err);
        let has_warned = run.out.contains("were not all written");
        assert_eq!(has_warned, code == 0, "{}{}", run.out, run.err);
        relabel(&path, &old, &[Round::First, Round::Second]);
    }
    assert_eq!(place.run("check tank").code, 0);
}

#[test]
fn a_server_that_is_stopped_does_not_stop_others() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank a");
    place.ok("zpool create other b");
    let mut server = place.start_here("serve tank");
    let sockets = place.path().join("run/zinc");
    until("the server is there", || {
        std::fs::read_dir(&sockets).is_ok_and(|mut entries| entries.next().is_some())
            && place.command_here("zpool list tank").output().unwrap().status.success()
    });
    let signal = |name: &str| {
        let pid = server.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    signal("-STOP");
    let began = Instant::now();
    let output = place.command_here("zpool list -Ho name").output().unwrap();
    let took = began.elapsed();
    signal("-CONT");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected =
        format!("process {} serves it (`zinc serve`), and is not answering", server.id());
    assert!(message.contains(&expected), "{message}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "other\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(took < Duration::from_secs(60), "{took:?}");
    signal("-TERM");
    server.wait().unwrap();
}

#[test]
fn all_devices_of_a_new_pool_are_known_and_no_others_of_its_name_are_meant() {
    let place = Place::new(&["a", "b", "c", "d", "e"]);
    place.ok("zpool create tank a spare b cache c");
    for device in ["a", "b", "c"] {
        let refused = place.fails(&format!("zpool labelclear -f {device}"));
        assert!(refused.contains("is a member (ACTIVE) of pool \"tank\""), "{refused}");
        let refused = place.fails(&format!("zpool create -f other {device}"));
        assert!(refused.contains("is part of active pool 'tank'"), "{refused}");
    }
    // A destroyed pool of the name is not meant, and neither is one that is known already.
    place.ok("zpool export tank");
    place.ok("zpool create tank d");
    place.ok("zpool destroy tank");
    place.ok("zpool import -d . tank");
    assert!(place.ok("zpool status tank").contains("cache"), "the one with a cache device");
    place.ok("zpool create -t other tank e");
    place.ok("zpool export other");
    place.ok("zpool import -d . -t tank other");
    assert_eq!(place.ok("zpool list -Ho name"), "other\ntank\n");
    place.ok("zpool export -a");
    let both = place.fails("zpool import -d . tank");
    assert!(both.contains("more than one pool is named 'tank'"), "{both}");
    place.ok("zpool import -d . -D tank new");
    assert_eq!(place.ok("zpool list -Ho name"), "new\n");
}
