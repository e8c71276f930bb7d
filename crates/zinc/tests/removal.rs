//! What moves data from device to device, as a user has it: `zpool remove` of devices with data,
//! and raidz vdevs that get wider.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use support::place::Place;

#[track_caller]
fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}

#[test]
fn a_device_leaves_a_pool_that_is_served_and_one_that_is_not() {
    let place = Place::new(&["one", "two", "three", "four", "five"]);
    place.ok("zpool create tank one two three");
    let bytes: Vec<u8> =
        (0..6u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(place.path().join("file"), &bytes).unwrap();
    place.ok("cp file tank:/file");
    has(&place.ok("zpool remove -n tank two"), &["Memory that will be used after removing two: "]);
    let mut server = place.serve("tank");
    place.ok_here("tunables --pool tank zfs_removal_suspend_progress=1");
    assert_eq!(place.ok_here("zpool remove tank two"), "");
    let status = place.ok_here("zpool status tank");
    has(
        &status,
        &["remove: Evacuation of ", "two in progress since ", "(removing)", " copied out of "],
    );
    assert_eq!(place.ok_here("zpool remove -s tank"), "");
    has(&place.ok_here("zpool status tank"), &["remove: Removal of ", "two canceled on "]);
    assert_eq!(place.ok_here("zpool remove tank two"), "");
    server.kill().unwrap();
    server.wait().unwrap();
    // The next to open the pool goes on with it.
    assert_eq!(place.ok("zpool remove tank two"), "");
    let status = place.ok("zpool status tank");
    has(
        &status,
        &["remove: Removal of vdev 1 copied ", " memory used for removed device mappings"],
    );
    assert!(!status.contains("two"), "{status}");
    has(
        &place.ok("zpool history -i tank"),
        &["vdev remove started", "vdev remove canceled", "vdev remove completed"],
    );
    // The device is free for other use.
    place.ok("zpool create other two");
    assert_eq!(place.run("check tank").code, 0);
    place.ok("cp tank:/file back");
    assert_eq!(std::fs::read(place.path().join("back")).unwrap(), bytes);
    place.ok("zpool export tank");
    place.ok("zpool export other");
    place.zdb_is_content("tank");
    place.ok("zpool import -d . tank");
    has(&place.fails("zpool add -f tank raidz four five"), &["invalid config", "not be raidz"]);
    has(&place.fails("zpool remove -s tank"), &["cannot cancel removal", "no removal in progress"]);
    place.ok("zpool export tank");
}

/// A spare stands in while a raidz gets wider: what waits for the end is told why there is none.
#[test]
fn an_expansion_that_waits_for_a_spare_says_so() {
    let place = Place::new(&["a", "b", "c", "d", "s"]);
    place.ok("zpool create tank raidz1 a b c spare s");
    std::fs::write(place.path().join("file"), vec![7; 1 << 20]).unwrap();
    place.ok("cp file tank:/file");
    let mut server = place.serve("tank");
    place.ok_here("tunables --pool tank zinc_raidz_expand_suspend_progress=1");
    place.ok_here("zpool attach tank raidz1-0 d");
    place.ok_here("zpool replace tank c s");
    place.ok_here("zpool wait -t resilver tank");
    place.ok_here("tunables --pool tank zinc_raidz_expand_suspend_progress=0");
    let status = place.ok_here("zpool status tank");
    has(&status, &["paused while a spare is in use", "it waits until spare-2 is one device"]);
    let mut wait = place.command_here("zpool wait -t raidz_expand tank");
    let mut wait = wait.stderr(Stdio::piped()).spawn().unwrap();
    let mut note = String::new();
    BufReader::new(wait.stderr.take().unwrap()).read_line(&mut note).unwrap();
    assert_eq!(note, "zinc: the expansion waits: spare-2 is to be one device first\n");
    place.ok_here("zpool detach tank s");
    assert!(wait.wait().unwrap().success());
    has(&place.ok_here("zpool status tank"), &["expand: expanded raidz1-0 copied"]);
    server.kill().unwrap();
    server.wait().unwrap();
    place.ok("check tank");
}
