//! `zpool remove` of devices with data, as a user has it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

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
