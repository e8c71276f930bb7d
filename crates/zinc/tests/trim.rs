//! `zpool trim` and `zpool initialize` on image files, of pools that are served and of others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::os::unix::fs::MetadataExt as _;
use support::has;
use support::place::Place;

/// Bytes that a file takes.
fn taken(place: &Place, name: &str) -> u64 {
    std::fs::metadata(place.path().join(name)).unwrap().blocks() * 512
}

/// A pool of three sides of raidz with two files of eight MiB of noise, one of which was removed.
fn with_hole() -> Place {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank raidz a b c");
    let mut rng = testkit::Rng::new(7);
    for name in ["kept", "gone"] {
        let noise: Vec<u8> = (0..8 << 17).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        std::fs::write(place.path().join(name), noise).unwrap();
        place.ok(&format!("cp {name} tank:/{name}"));
    }
    place.ok("rm tank:/gone");
    (0..4).for_each(|n| drop(place.ok(&format!("zfs create tank/fs{n}"))));
    place
}

#[test]
fn free_space_of_image_files_is_given_back() {
    let place = with_hole();
    let before: u64 = ["a", "b", "c"].iter().map(|n| taken(&place, n)).sum();
    has(&place.fails("zpool trim -d tank"), &["secure trim is not supported"]);
    has(&place.fails("zpool trim -s tank"), &["there is no active trim"]);
    for rate in ["nothing", "0", "M", "1x", "99999999999999T"] {
        has(&place.fails(&format!("zpool trim -r {rate} tank")), &["invalid value", rate]);
    }
    has(&place.fails("zpool trim tank nix"), &["cannot trim nix", "no such device in pool"]);
    has(&place.ok("zpool status -t tank"), &["(untrimmed)"]);
    assert_eq!(place.ok("zpool trim tank a"), "");
    let status = place.ok("zpool status -t tank");
    has(&status, &["(100% trimmed, completed at ", "(untrimmed)"]);
    assert_eq!(place.ok("zpool trim tank"), "");
    assert!(!place.ok("zpool status -t tank").contains("(untrimmed)"));
    let after: u64 = ["a", "b", "c"].iter().map(|n| taken(&place, n)).sum();
    assert!(after + (8 << 20) < before, "{before} {after}");
    assert!(place.run("cat tank:/kept").out.len() > 1 << 20);
    has(&place.ok("zpool history -i tank"), &["trim", "activated", "complete"]);
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
}

#[test]
fn free_space_is_overwritten_and_that_is_forgotten() {
    let place = with_hole();
    has(&place.ok("zpool status -i tank"), &["(uninitialized)"]);
    assert_eq!(place.ok("zpool initialize tank"), "");
    let status = place.ok("zpool status -i tank");
    assert_eq!(status.matches("(100% initialized, completed at ").count(), 3, "{status}");
    let size = std::fs::metadata(place.path().join("a")).unwrap().len();
    assert!(taken(&place, "a") > size / 10 * 8);
    has(&place.fails("zpool initialize -c tank"), &["there is no active initialization"]);
    assert_eq!(place.ok("zpool initialize -u tank"), "");
    has(&place.ok("zpool status -i tank"), &["(uninitialized)"]);
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
}

#[test]
fn a_served_pool_is_trimmed_slowly_and_stopped() {
    let place = with_hole();
    let mut server = place.serve("tank");
    assert_eq!(place.ok_here("zpool trim -r 1M tank"), "");
    has(&place.ok_here("zpool status tank"), &["(trimming)"]);
    assert_eq!(place.ok_here("zpool trim -s tank"), "");
    has(&place.ok_here("zpool status -t tank"), &["% trimmed, suspended, started at "]);
    assert_eq!(place.ok_here("zpool trim -r 1G -w tank"), "");
    has(&place.ok_here("zpool status -t tank"), &["(100% trimmed, completed at "]);
    place.ok_here("zpool export tank");
    server.wait().unwrap();
    place.zdb_is_content("tank");
}

/// A server that is killed in the middle: the next command goes on where it was.
#[test]
fn a_work_that_was_cut_off_goes_on() {
    let place = with_hole();
    let mut server = place.serve("tank");
    place.ok_here("zpool initialize tank a");
    place.ok_here("zpool trim -r 64K tank b");
    server.kill().unwrap();
    server.wait().unwrap();
    has(&place.ok("zpool status -t tank"), &["% trimmed, started at "]);
    let why = place.fails("zpool trim tank b");
    has(&why, &["currently trimming", "hint: `zinc zpool wait -t trim`", "`zinc zpool trim -c`"]);
    place.ok("zpool trim -c tank b");
    has(&place.ok("zpool status -t tank"), &["(untrimmed)"]);
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
}
