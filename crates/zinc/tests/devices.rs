//! Devices that are taken out, go, come back and are scrubbed, at the command line: pools that are
//! served, and pools that each command opens for itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::os::unix::fs::FileExt as _;
use support::place::{Place, until};

const MIB: u64 = 1 << 20;

fn mirror() -> Place {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    place
}

/// A file of 8 MiB that do not compress, under this name.
fn fill(place: &Place, name: &str, copy: impl FnOnce(&str) -> String) {
    let mut bytes = vec![0; 8 << 20];
    testkit::Rng::new(7).fill(&mut bytes);
    std::fs::write(place.path().join(name), bytes).unwrap();
    copy(&format!("cp {name} tank:/{name}"));
}

/// Overwrites the data of a device, all but its labels and a bit more.
fn scribble(place: &Place, device: &str) {
    let file = std::fs::File::options().write(true).open(place.path().join(device)).unwrap();
    (8..120).for_each(|n| file.write_all_at(&[0x5a; MIB as usize], n * MIB).unwrap());
}

/// One device alone has all, without the other.
fn has_all_on(place: &Place, device: &str, other: &str, file: &str) {
    let elsewhere = tempfile::tempdir_in(place.path()).unwrap();
    let gone = elsewhere.path().join(other);
    std::fs::rename(place.path().join(other), &gone).unwrap();
    place.ok(&format!("cp tank:/{file} back-{device}"));
    std::fs::rename(&gone, place.path().join(other)).unwrap();
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    assert!(read(&format!("back-{device}")) == read(file), "{device}");
}

#[test]
fn a_device_is_taken_out_and_used_again() {
    let place = mirror();
    place.ok("zpool offline tank b");
    let status = place.ok("zpool status tank");
    assert!(status.contains(" state: DEGRADED") && status.contains("OFFLINE"), "{status}");
    let why = place.fails("zpool offline tank a");
    assert!(why.contains("cannot offline a: no valid replicas"), "{why}");
    // What is used already is not taken out to be put back.
    place.ok("zpool online tank a");
    assert!(place.fails("zpool online tank nix").contains("no such device in pool"));
    assert!(place.fails("zpool offline tank mirror-0").contains("cannot offline mirror-0"));
    fill(&place, "one", |words| place.ok(words));
    place.ok("zpool online tank b");
    let status = place.ok("zpool status tank");
    assert!(
        status.contains(" state: ONLINE") && status.contains("scan: resilvered 8."),
        "{status}"
    );
    assert!(status.contains(" with 0 errors on ") && !status.contains("OFFLINE"), "{status}");
    place.ok("check tank");
    has_all_on(&place, "b", "a", "one");
    let history = place.ok("zpool history -i tank");
    for line in ["zpool offline tank b", "zpool online tank b", "scan setup", "scan done"] {
        assert!(history.contains(line), "{line}: {history}");
    }
}

#[test]
fn a_faulted_device_is_cleared() {
    let place = mirror();
    place.ok("zpool offline -f tank a");
    let status = place.ok("zpool status tank");
    assert!(status.contains("FAULTED") && status.contains("external device fault"), "{status}");
    fill(&place, "one", |words| place.ok(words));
    assert!(place.fails("zpool clear tank nix").contains("no such device in pool"));
    place.ok("zpool clear tank a");
    assert!(place.ok("zpool status tank").contains(" state: ONLINE"));
    has_all_on(&place, "a", "b", "one");
}

#[test]
fn a_scrub_repairs_and_says_so() {
    let place = mirror();
    fill(&place, "one", |words| place.ok(words));
    scribble(&place, "b");
    place.ok("zpool scrub tank");
    let status = place.ok("zpool status tank");
    assert!(
        status.contains("scan: scrub repaired 8.") && status.contains("with 0 errors"),
        "{status}"
    );
    place.ok("zpool clear tank");
    place.ok("check tank");
    place.ok("zpool scrub -w tank");
    assert!(place.ok("zpool status tank").contains("scan: scrub repaired 0B in"));
    assert!(place.fails("zpool scrub -s tank").contains("there is no active scrub"));
    has_all_on(&place, "b", "a", "one");
}

#[test]
fn a_server_does_it_beside_its_work() {
    let place = mirror();
    let mut server = place.start_here("serve tank");
    until("the server is there", || {
        let list = place.command_here("zpool list -Ho name tank").output().unwrap();
        list.status.success() && place.path().join("run/zinc").exists()
    });
    place.ok_here("zpool offline -t tank b");
    assert!(place.ok_here("zpool status tank").contains("OFFLINE"));
    fill(&place, "one", |words| place.ok_here(words));
    place.ok_here("zpool online tank b");
    fill(&place, "two", |words| place.ok_here(words));
    until("it is resilvered", || place.ok_here("zpool status tank").contains("scan: resilvered"));
    // A disk that is pulled out and put back.
    scribble(&place, "a");
    place.ok_here("zpool scrub -w tank");
    let status = place.ok_here("zpool status tank");
    assert!(status.contains("scan: scrub repaired "), "{status}");
    place.ok_here("zpool clear tank");
    place.ok_here("zpool reopen tank");
    assert!(place.ok_here("zpool status tank").contains(" state: ONLINE"));
    place.ok_here("zpool export tank");
    server.wait().unwrap();
    place.ok("zpool import -d . tank");
    place.ok("check tank");
    has_all_on(&place, "a", "b", "two");
    place.ok("zpool resilver tank");
    has_all_on(&place, "b", "a", "two");
}

#[test]
fn sides_of_mirrors_are_attached_replaced_and_detached() {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank a");
    fill(&place, "one", |words| place.ok(words));
    place.ok("zpool attach tank a b");
    let status = place.ok("zpool status tank");
    assert!(status.contains("mirror-0") && status.contains("scan: resilvered 8."), "{status}");
    has_all_on(&place, "b", "a", "one");
    let why = place.fails("zpool attach tank a b");
    assert!(why.contains("cannot attach b to a") && why.contains("active pool 'tank'"), "{why}");
    place.ok("zpool replace tank a c");
    let status = place.ok("zpool status -P tank");
    assert!(status.contains("/c ") && !status.contains("/a "), "{status}");
    place.ok("check tank");
    place.ok("zpool detach tank b");
    let status = place.ok("zpool status -P tank");
    assert!(status.contains("/c ") && !status.contains("mirror"), "{status}");
    assert!(place.fails("zpool detach tank c").contains("only applicable to mirror"));
    place.ok("cp tank:/one back");
    place.ok("check tank");
    // The disk in the place of one is a new file of the same name.
    place.ok("zpool attach tank c a");
    std::fs::remove_file(place.path().join("a")).unwrap();
    place.extra("a");
    place.ok("zpool replace tank a");
    let status = place.ok("zpool status tank");
    assert!(status.contains(" state: ONLINE"), "{status}");
    has_all_on(&place, "a", "c", "one");
}
