//! Devices that are taken out, go, come back and are scrubbed, at the command line: pools that are
//! served, and pools that each command opens for itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::os::unix::fs::FileExt as _;
use support::has;
use support::place::{Place, Server, has_open, until};

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

/// A device of the pool that was moved, and devices that it has for something else: no message says
/// to destroy the pool.
#[test]
fn a_device_of_the_pool_itself_is_known_wherever_it_is() {
    for verb in ["online tank", "replace tank b"] {
        let place = mirror();
        let new = tempfile::tempdir().unwrap();
        // A served pool had it open; one that nothing holds looks where it was.
        std::fs::rename(place.path().join("b"), new.path().join("b")).unwrap();
        fill(&place, "one", |words| place.ok(words));
        let moved = new.path().join("b").display().to_string();
        place.ok(&format!("zpool {verb} {moved}"));
        let status = place.ok("zpool status -P tank");
        assert!(status.contains(&moved) && status.contains(" state: ONLINE"), "{status}");
        has_all_on_moved(&place, &moved);
    }
    let place = mirror();
    place.extra("c");
    place.extra("d");
    place.ok("zpool add tank spare c cache d");
    std::fs::hard_link(place.path().join("a"), place.path().join("again")).unwrap();
    for (command, why) in [
        ("zpool attach tank b c", "c is a spare of this pool"),
        ("zpool attach tank b d", "d is a cache device of this pool"),
        ("zpool online tank c", "device is reserved as a hot spare"),
        ("zpool replace tank b a", "part of active pool 'tank'"),
        ("zpool attach tank b again", "again is part of active pool 'tank'"),
    ] {
        let message = place.fails(command);
        assert!(message.contains(why) && !message.contains("destroy"), "{command}: {message}");
    }
}

/// The device that was moved has all, without the other.
fn has_all_on_moved(place: &Place, moved: &str) {
    place.ok("zpool export tank");
    place.ok(&format!("cp -d {moved} tank:/one back"));
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    assert!(read("back") == read("one"));
}

/// Its labels would keep the old guid, and it would be lost to the pool.
#[test]
fn a_pool_keeps_its_guid_while_a_device_is_not_in_use() {
    let place = mirror();
    place.extra("c");
    place.ok("zpool add -f tank log c");
    let guid = place.ok("zpool get -Hpo value guid tank");
    let refused = |device: &str, state: &str| {
        let why = place.fails("zpool reguid tank");
        assert!(why.contains("cannot reguid 'tank': all devices have to be ONLINE"), "{why}");
        assert!(why.contains(&format!("/{device} is {state}")), "{why}");
        assert_eq!(place.ok("zpool get -Hpo value guid tank"), guid);
    };
    for device in ["b", "c"] {
        place.ok(&format!("zpool offline tank {device}"));
        refused(device, "OFFLINE");
        place.ok(&format!("zpool online tank {device}"));
    }
    let elsewhere = tempfile::tempdir_in(place.path()).unwrap();
    let (here, away) = (place.path().join("b"), elsewhere.path().join("b"));
    std::fs::rename(&here, &away).unwrap();
    refused("b", "UNAVAIL");
    std::fs::rename(&away, &here).unwrap();
    place.ok("zpool reguid tank");
    assert_ne!(place.ok("zpool get -Hpo value guid tank"), guid);
    place.ok("zpool export tank");
    place.ok("zpool import -d . tank");
    assert!(place.ok("zpool status tank").contains(" state: ONLINE"));
    place.ok("check tank");
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
    let why = place.fails("zpool online tank nix");
    assert!(why.contains("no such device in pool") && why.contains("hint: `zinc zpool status`"));
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
fn a_fault_for_now_ends_with_the_process_that_has_the_pool() {
    let place = mirror();
    let run = place.run("zpool offline -tf tank a");
    assert!(run.code == 0 && run.err.contains("the next command that changes it"), "{}", run.err);
    place.ok("zfs set atime=off tank");
    assert!(place.ok("zpool status tank").contains(" state: ONLINE"));
    let mut server = place.serve("tank");
    place.ok_here("zpool offline -tf tank a");
    let status = place.ok_here("zpool status tank");
    assert!(status.contains("FAULTED") && status.contains("external device fault"), "{status}");
    fill(&place, "one", |words| place.ok_here(words));
    place.ok_here("zpool export tank");
    server.wait().unwrap();
    place.ok("zpool import -d . tank");
    assert!(!place.ok("zpool status tank").contains("FAULTED"));
    place.ok("zpool resilver tank");
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
    let mut server = place.serve("tank");
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

#[test]
fn devices_of_raidz_are_replaced_there_or_gone() {
    let place = Place::new(&["a", "b", "c", "d", "e"]);
    place.ok("zpool create tank raidz a b c");
    fill(&place, "one", |words| place.ok(words));
    place.ok("zpool replace tank a d");
    std::fs::remove_file(place.path().join("b")).unwrap();
    fill(&place, "two", |words| place.ok(words));
    let small = place.path().join("small");
    std::fs::File::create(&small).unwrap().set_len(64 << 20).unwrap();
    assert!(place.fails("zpool replace tank b small").contains("too small"));
    place.ok("zpool replace tank b e");
    let status = place.ok("zpool status -P tank");
    let has = |name: &str| status.contains(&format!("/{name} "));
    assert!(has("d") && has("e") && has("c") && !has("a") && !has("b"), "{status}");
    assert!(!status.contains("replacing") && status.contains(" state: ONLINE"), "{status}");
    place.ok("check tank");
    // The replaced device is free for others, and nothing of what is read comes from it.
    place.ok("zpool create other a");
    has_all_on(&place, "d", "c", "two");
}

#[test]
fn spares_stand_in_and_are_given_back_or_kept() {
    let place = Place::new(&["a", "b", "c", "s"]);
    place.ok("zpool create tank raidz a b c spare s");
    fill(&place, "one", |words| place.ok(words));
    let attach = place.fails("zpool attach tank b s");
    assert!(attach.contains("is a spare of this pool"), "{attach}");
    place.ok("zpool replace tank b s");
    let status = place.ok("zpool status tank");
    assert!(status.contains("spare-1") && status.contains("INUSE"), "{status}");
    assert!(place.fails("zpool replace tank c s").contains("part of active pool 'tank'"));
    assert!(place.fails("zpool create other s").contains("tank"));
    place.ok("zpool detach tank s");
    let status = place.ok("zpool status tank");
    assert!(!status.contains("spare-1") && status.contains("AVAIL"), "{status}");
    // The device is gone, and then the spare stays in its place.
    std::fs::remove_file(place.path().join("b")).unwrap();
    fill(&place, "two", |words| place.ok(words));
    place.ok("zpool replace tank b s");
    place.ok("zpool detach tank b");
    let status = place.ok("zpool status tank");
    assert!(!status.contains("spare") && status.contains(" state: ONLINE"), "{status}");
    place.ok("check tank");
    has_all_on(&place, "s", "c", "two");
}

/// As in OpenZFS: two pools may count on the same spare, and the first that needs it has it.
#[test]
fn two_pools_share_a_spare() {
    let place = Place::new(&["a", "b", "c", "d", "s"]);
    place.ok("zpool create tank mirror a b spare s");
    place.ok("zpool create other mirror c d spare s");
    for pool in ["tank", "other"] {
        let status = place.ok(&format!("zpool status {pool}"));
        assert!(status.contains("AVAIL") && !status.contains("UNAVAIL"), "{status}");
    }
    // The pool that has it in use is named, whichever pool is asked and whichever was first.
    for (one, old, other, others) in [("tank", "b", "other", "d"), ("other", "d", "tank", "b")] {
        place.ok(&format!("zpool replace {one} {old} s"));
        let message = place.fails(&format!("zpool replace {other} {others} s"));
        assert!(message.contains(&format!("part of active pool '{one}'")), "{message}");
        let spare = |pool: &str| {
            let status = place.ok(&format!("zpool status {pool}"));
            assert!(!status.contains("could not be opened"), "{status}");
            let spares = status.split("spares").nth(1).unwrap().lines().nth(1).unwrap();
            spares.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(spare(one), "INUSE currently in use");
        assert_eq!(spare(other), format!("INUSE in use by pool '{one}'"));
        place.ok(&format!("zpool detach {one} s"));
        assert_eq!([spare(one), spare(other)], ["AVAIL", "AVAIL"]);
    }
    // A pool that does without it leaves it to the other.
    place.ok("zpool remove tank s");
    place.ok("zpool replace other d s");
    let status = place.ok("zpool status other");
    assert!(status.contains("INUSE"), "{status}");
}

#[test]
fn a_server_takes_a_spare_and_gives_it_back() {
    let place = Place::new(&["a", "b", "s"]);
    place.ok("zpool create tank mirror a b spare s");
    fill(&place, "one", |words| place.ok(words));
    let server = place.server("tank");
    let status = || place.ok_here("zpool status tank");
    // Whether that took less time than passes before what did not help is tried again.
    let stands_in = || {
        place.put_away("b");
        let began = std::time::Instant::now();
        until("the spare stands in", || {
            place.ok_here("zpool sync tank");
            status().contains("spare-1") && !status().contains("in progress")
        });
        let is_prompt = began.elapsed() < std::time::Duration::from_secs(40);
        place.put_back("b");
        place.ok_here("zpool online tank b");
        until("the spare is given back", || {
            status().contains("AVAIL") && !status().contains("spare-1")
        });
        is_prompt
    };
    stands_in();
    // The second time as soon as the first; on a busy machine one of the next.
    assert!((0..5).any(|_| stands_in()));
    assert!(status().contains(" state: ONLINE"), "{}", status());
    server.kill();
    place.ok("check tank");
    has_all_on(&place, "b", "a", "one");
}

/// `iostat`, and what else is made of the same figures, names the devices that the pool has by now.
/// Each top-level vdev has a rebuild of its own, and all are waited for.
#[test]
fn vdevs_that_are_rebuilt_at_once_have_a_line_each() {
    let place = Place::new(&["a", "b", "c", "d", "e", "f"]);
    place.ok("zpool create tank mirror a b mirror c d");
    fill(&place, "one", |words| place.ok(words));
    let server = place.server("tank");
    place.ok_here("tunables --pool tank zfs_scan_suspend_progress=1");
    place.ok_here("zpool replace -s tank b e");
    place.ok_here("zpool replace -s tank d f");
    let lines = |did: &str| ["mirror-0", "mirror-1"].map(|vdev| format!("resilver{did}{vdev})"));
    let status = place.ok_here("zpool status tank");
    has(&status, &lines(" (").each_ref().map(String::as_str));
    assert!(status.contains("(resilvering)") && !status.contains("awaiting"), "{status}");
    place.ok_here("tunables --pool tank zfs_scan_suspend_progress=0");
    place.ok_here("zpool wait -t resilver,replace tank");
    let status = place.ok_here("zpool status tank");
    has(&status, &lines("ed (").each_ref().map(String::as_str));
    assert!(!status.contains("replacing") && status.contains(" state: ONLINE"), "{status}");
    server.kill();
    place.ok("zpool export tank");
}

/// Nothing reads a cache device or a spare that waits, and `status` says all the same that it is
/// gone. A file that was deleted and replaced is let go of.
#[test]
fn what_is_not_used_is_missed_and_what_was_replaced_is_let_go_of() {
    let place = Place::new(&["a", "b", "c", "k", "s"]);
    place.ok("zpool create tank mirror a b cache k spare s");
    fill(&place, "one", |words| place.ok(words));
    let server = place.server("tank");
    let status = || place.ok_here("zpool status tank");
    let is_one_gone = || status().contains("UNAVAIL");
    for device in ["k", "s"] {
        assert!(!is_one_gone(), "{}", status());
        place.put_away(device);
        until("it is missed", is_one_gone);
        place.put_back(device);
        until("it is back", || !is_one_gone());
    }
    std::fs::remove_file(place.path().join("b")).unwrap();
    place.ok_here("zpool replace -w tank b c");
    let deleted = place.path().join("b (deleted)");
    until("the deleted file is let go of", || !has_open(server.0.id(), &deleted));
    place.ok_here("check tank");
    server.kill();
    has_all_on(&place, "c", "a", "one");
}

/// A side that failed keeps its labels when it is detached. It can be a side again, of this pool
/// without force.
#[test]
fn a_side_that_was_detached_as_failed_comes_back() {
    for is_served in [false, true] {
        let place = mirror();
        fill(&place, "one", |words| place.ok(words));
        let mut server = is_served.then(|| place.server("tank"));
        place.ok_here("zpool offline -f tank b");
        place.ok_here("zpool detach tank b");
        let refused = place.command_here("zpool create other b").output().unwrap();
        has(&String::from_utf8_lossy(&refused.stderr), &["active pool 'tank'"]);
        place.ok_here("zpool attach -w tank a b");
        assert!(place.ok_here("zpool status tank").contains("mirror-0"));
        server.take().into_iter().for_each(Server::kill);
        has_all_on(&place, "b", "a", "one");
    }
}

/// Two devices of a raidz1 were put back from copies of different ages: the way back that is shown
/// is one.
#[test]
fn a_raidz_of_old_images_goes_back_as_it_is_told() {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank raidz a b c");
    fill(&place, "one", |words| place.ok(words));
    let path = |name: &str| place.path().join(name);
    let copy = |name: &str, to: &str| std::fs::copy(path(name), path(to)).unwrap();
    copy("c", "old-c");
    place.ok("zfs create tank/a");
    copy("b", "old-b");
    // More than the last three txgs, which -F tries, and as few as that takes: `a` is as new as
    // they are, and the blocks of the old state on it are free, so that each of them may use some
    // again.
    place.ok("zfs create tank/b");
    place.ok("zpool export tank");
    for name in ["a", "b", "c"] {
        let from = if name == "a" { "a".to_owned() } else { format!("old-{name}") };
        std::fs::create_dir_all(path("back")).unwrap();
        std::fs::copy(path(&from), path("back").join(name)).unwrap();
    }
    let why = place.fails("zpool import -d back tank");
    has(&why, &["zpool import -FX tank"]);
    place.ok("zpool import -d back -FX tank");
    let sets = place.ok("zfs list -H -o name");
    assert!(!sets.contains("tank/b"), "{sets}");
    // What a device lacks of the state that was gone back to is brought to it.
    place.ok("zfs create tank/after");
    place.ok("check tank");
    place.ok("cp tank:/one got");
    let read = |name: &str| std::fs::read(path(name)).unwrap();
    assert!(read("got") == read("one"));
    place.ok("zpool export tank");
    testkit::oracle::judge(&path("back"), "tank");
}

#[test]
fn the_figures_of_a_served_pool_are_of_the_devices_that_it_has_now() {
    let place = Place::new(&["a", "b", "c", "d", "k", "j", "s"]);
    place.ok("zpool create tank mirror a b cache k log j spare s");
    let server = place.server("tank");
    let names = || -> Vec<String> {
        let out = place.ok_here("zpool iostat -Hv tank");
        let firsts = out.lines().filter_map(|line| line.split('\t').next());
        firsts.map(|name| name.trim().rsplit('/').next().unwrap().to_owned()).collect()
    };
    let has = |wanted: &[&str], others: &[&str]| {
        let names = names();
        let is_there = |name: &&&str| names.iter().any(|n| n == **name);
        assert!(wanted.iter().all(|name| is_there(&name)), "{wanted:?}: {names:?}");
        assert!(!others.iter().any(|name| is_there(&name)), "{others:?}: {names:?}");
        // A device that is gone is a number.
        assert!(!names.iter().any(|n| n.parse::<u64>().is_ok()), "{names:?}");
    };
    has(&["a", "b", "k", "j"], &["c", "d"]);
    place.ok_here("zpool replace -w tank b c");
    has(&["a", "c", "k", "j"], &["b", "d"]);
    place.ok_here("zpool attach -w tank a d");
    has(&["a", "c", "d"], &["b"]);
    for device in ["k", "j", "s"] {
        place.ok_here(&format!("zpool remove tank {device}"));
        has(&["a", "c", "d"], &[device]);
    }
    place.ok_here("zpool detach tank a");
    has(&["c", "d"], &["a", "b", "k", "j", "s"]);
    server.kill();
}

#[test]
fn a_resilver_that_was_killed_is_not_said_to_have_ended() {
    let place = mirror();
    place.ok("zpool offline tank b");
    fill(&place, "one", |words| place.ok(words));
    let server = place.server("tank");
    place.ok_here("tunables --pool tank zfs_scan_suspend_progress=1");
    place.ok_here("zpool online tank b");
    server.kill();
    let status = place.ok_here("zpool status tank");
    assert!(status.contains("(awaiting resilver)"), "{status}");
    assert!(status.contains("scan: resilver not complete: 1 device lacks"), "{status}");
    assert!(status.contains("lack a part of what was written"), "{status}");
    assert!(!status.contains("0 errors"), "{status}");
    // The next command ends it, whatever it is about.
    place.ok("zfs create tank/next");
    let status = place.ok("zpool status tank");
    assert!(!status.contains("awaiting") && status.contains("scan: resilvered"), "{status}");
}

#[test]
fn a_side_that_was_written_alone_gives_its_changes_up_when_it_is_named() {
    let place = mirror();
    place.put_away("b");
    (1..4).for_each(|n| drop(place.ok(&format!("zfs create tank/left-{n}"))));
    place.put_away("a");
    place.put_back("b");
    (1..3).for_each(|n| drop(place.run(&format!("zfs create tank/right-{n}"))));
    place.put_back("a");
    let why = place.fails("zfs create tank/either");
    assert!(why.contains("/b: was written without the others") && why.contains("zpool online"));
    // Not by naming the side whose state is the pool's.
    assert!(place.fails("zpool online tank a").contains("/b: was written without the others"));
    place.ok("zpool online tank b");
    let status = place.ok("zpool status tank");
    assert!(status.contains(" state: ONLINE") && status.contains("scan: resilvered"), "{status}");
    let names = place.ok("zfs list -Hro name tank");
    assert!(names.contains("left-3") && !names.contains("right"), "{names}");
    place.put_away("a");
    assert_eq!(place.ok("zfs list -Hro name tank"), names);
    place.put_back("a");
    let check = place.run("check tank");
    assert_eq!(check.code, 0, "{}", check.out);
}

#[test]
fn a_side_that_was_left_behind_is_not_taken_for_the_pool_without_a_word() {
    let place = mirror();
    place.put_away("b");
    (1..4).for_each(|n| drop(place.ok(&format!("zfs create tank/left-{n}"))));
    place.put_away("a");
    place.put_back("b");
    for command in ["zpool status tank", "zfs list tank", "zfs create tank/right"] {
        let run = place.run(command);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.err.contains("the newer state is on devices that are missing"), "{}", run.err);
    }
}

#[test]
fn what_was_read_in_spite_of_damage_is_forgotten_with_the_errors() {
    let place = mirror();
    fill(&place, "one", |words| place.ok(words));
    scribble(&place, "a");
    let server = place.server("tank");
    place.ok_here("cp tank:/one back");
    place.ok_here("zpool scrub -w tank");
    let status = place.ok_here("zpool status tank");
    assert!(status.contains("faults: "), "{status}");
    place.ok_here("zpool clear tank");
    let status = place.ok_here("zpool status tank");
    assert!(!status.contains("faults: ") && status.contains(" state: ONLINE"), "{status}");
    place.ok_here("zpool export tank");
    server.kill();
}

#[test]
fn the_errors_of_a_spare_are_not_cleared() {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank mirror a b spare c");
    let why = place.fails("zpool clear tank c");
    assert!(why.contains("device is reserved as a hot spare"), "{why}");
    place.ok("zpool clear tank a");
}

/// Images that were made longer are used to their new end, in a pool that is served and in one that
/// is not; a mirror when both sides were, and by itself when the property says so.
#[test]
fn devices_that_have_grown_are_used_to_their_new_end() {
    for is_served in [false, true] {
        let place = mirror();
        let mut server = is_served.then(|| place.serve("tank"));
        let longer = |name: &str, mib: u64| {
            let file = std::fs::File::options().write(true).open(place.path().join(name)).unwrap();
            file.set_len(mib * MIB).unwrap();
        };
        let list = || place.ok_here("zpool list -Hpo size,expandsize tank");
        let before = list();
        longer("a", 256);
        place.ok_here("zpool online -e tank a");
        assert_eq!(list(), before, "the other side has not grown");
        longer("b", 256);
        let (size, more) = (before.split('\t').next().unwrap(), list());
        let more = more.trim().split('\t').nth(1).unwrap().to_owned();
        assert_eq!(place.ok_here("zpool get -Hpo value expandsize tank").trim(), more);
        place.ok_here("zpool online -e tank a");
        let sum = size.parse::<u64>().unwrap() + more.parse::<u64>().unwrap();
        assert_eq!(list(), format!("{sum}\t-\n"));
        fill(&place, "one", |words| place.ok_here(words));
        place.ok_here("zpool set autoexpand=on tank");
        ["a", "b"].iter().for_each(|name| longer(name, 400));
        place.ok_here("zpool reopen tank");
        let last = list();
        assert!(last.ends_with("\t-\n") && last != format!("{sum}\t-\n"), "{last}");
        place.ok_here("zpool export tank");
        if let Some(server) = &mut server {
            server.wait().unwrap();
        }
        place.zdb_is_content("tank");
        place.ok("zpool import -d . tank");
        place.ok("check tank");
        has_all_on(&place, "a", "b", "one");
    }
}

/// The usual way to a larger pool: its devices are replaced by larger ones.
#[test]
fn a_pool_grows_when_its_last_small_device_is_replaced() {
    for is_served in [false, true] {
        let place = mirror();
        place.ok("zpool set autoexpand=on tank");
        let mut server = is_served.then(|| place.server("tank"));
        for name in ["c", "d"] {
            place.extra(name);
            let file = std::fs::File::options().write(true).open(place.path().join(name)).unwrap();
            file.set_len(300 * MIB).unwrap();
        }
        let list = || place.ok_here("zpool list -Hpo size tank");
        let before = list();
        place.ok_here("zpool replace -w tank a c");
        assert_eq!(list(), before, "the other side is as small as it was");
        place.ok_here("zpool attach -w tank c d");
        place.ok_here("zpool detach tank b");
        let after = list();
        let number = |text: &str| text.trim().parse::<u64>().unwrap();
        assert!(number(&after) > number(&before) + 64 * MIB, "{before}{after}");
        place.ok_here("zpool export tank");
        if let Some(server) = server.take() {
            server.kill();
        }
        place.ok("zpool import -d . tank");
        place.ok("check tank");
    }
}

/// A pool of two mirrors, and what becomes of it in another name, where it is served and where not.
#[test]
fn sides_of_mirrors_become_a_pool() {
    for is_served in [false, true] {
        let place = mirror();
        ["c", "d", "l"].iter().for_each(|name| place.extra(name));
        place.ok("zpool add tank mirror c d log l");
        fill(&place, "one", |words| place.ok(words));
        let mut server = is_served.then(|| place.serve("tank"));
        let plan = place.ok_here("zpool split -n tank half c");
        let here = |name: &str| place.path().join(name).display().to_string();
        let head = "would create 'half' with the following layout:\n\n\thalf\n";
        assert_eq!(plan, format!("{head}\t  {}\n\t  {}\n", here("b"), here("c")));
        for (words, why) in [
            ("tank tank", "pool already exists"),
            ("tank 1half", "name must begin with a letter"),
            ("tank half a b", "at most one disk from each mirror"),
            ("tank half l", "not a side of a mirror with data"),
            ("tank half x", "no such device in pool"),
        ] {
            let run = place.command_here(&format!("zpool split {words}")).output().unwrap();
            let message = String::from_utf8_lossy(&run.stderr);
            assert!(!run.status.success() && message.contains(why), "{words}: {message}");
        }
        place.ok_here("zpool split -o comment=half tank half c");
        fill(&place, "two", |words| place.ok_here(words));
        let status = place.ok_here("zpool status -P tank");
        assert!(!status.contains("mirror") && status.contains(&here("l")), "{status}");
        place.ok_here("zpool export tank");
        if let Some(server) = &mut server {
            server.wait().unwrap();
        }
        place.zdb_is_content("half");
        place.zdb_is_content("tank");
        place.ok("zpool import -d . half");
        assert_eq!(place.ok("zpool get -Ho value comment half").trim(), "half");
        let status = place.ok("zpool status -P half");
        assert!(!status.contains("logs") && status.contains(&here("c")), "{status}");
        place.ok("check half");
        place.ok("cp half:/one back");
        let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
        assert!(read("back") == read("one") && place.run("cat half:/two").code != 0);
        place.ok("zpool import -d . tank");
        place.ok("check tank");
    }
}

#[test]
fn a_pool_that_is_split_off_is_imported_at_once_when_it_has_a_root() {
    let place = mirror();
    place.ok("zpool split -R /mnt tank half");
    assert_eq!(place.ok("zpool list -Ho name,altroot half"), "half\t/mnt\n");
    place.ok("zfs create half/new");
    place.ok("zfs create tank/other");
    place.ok("zpool export half tank");
    ["half", "tank"].iter().for_each(|pool| place.zdb_is_content(pool));
}

/// A raidz vdev gets a disk more: by a command that ends when it is done, and in a served pool.
#[test]
fn a_raidz_is_expanded() {
    for is_served in [false, true] {
        let place = Place::new(&["a", "b", "c", "d"]);
        place.ok("zpool create tank raidz1 a b c");
        fill(&place, "one", |words| place.ok(words));
        let before = place.ok("zpool list -Hp -o size tank");
        let mut server = is_served.then(|| place.serve("tank"));
        place.ok_here("zpool attach -w tank raidz1-0 d");
        let status = place.ok_here("zpool status tank");
        let is_copied = status.contains("expand: expanded raidz1-0 copied");
        assert!(is_copied && status.contains("scrub repaired 0B"), "{status}");
        place.ok_here("zpool wait -t raidz_expand tank");
        let after = place.ok_here("zpool list -Hp -o size tank");
        let number = |text: &str| text.trim().parse::<u64>().unwrap();
        assert!(number(&after) > number(&before), "{before} {after}");
        let history = place.ok_here("zpool history -i tank");
        for line in ["raidz vdev expansion started", "raidz vdev expansion completed"] {
            assert!(history.contains(line), "{history}");
        }
        let json = place.ok_here("zpool status -j tank");
        assert!(json.contains("\"raidz_expand_stats\""), "{json}");
        for (words, why) in [
            ("detach tank d", "only applicable to mirror and replacing vdevs"),
            ("attach tank raidz1-1 e", "no such device in pool"),
        ] {
            let run = place.command_here(&format!("zpool {words}")).output().unwrap();
            let message = String::from_utf8_lossy(&run.stderr);
            assert!(!run.status.success() && message.contains(why), "{words}: {message}");
        }
        place.ok_here("cp tank:/one back");
        let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
        assert!(read("back") == read("one"));
        place.ok_here("zpool export tank");
        if let Some(server) = &mut server {
            server.wait().unwrap();
        }
        place.zdb_is_content("tank");
    }
}

/// In a table that a server made, too; they run in the process that was asked.
#[test]
fn scripts_say_something_of_each_device() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    let script = place.path().join("which");
    std::fs::write(&script, "#!/bin/sh\necho last=${VDEV_PATH##*/}\necho pid=$PPID\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let run = |command: &str| {
        let mut started = place.command_here(command);
        started.env("ZPOOL_SCRIPTS_PATH", place.path()).env("ZPOOL_SCRIPTS_AS_ROOT", "1");
        let child = started.spawn().unwrap();
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), pid)
    };
    let check = || {
        for command in ["zpool status -c which tank", "zpool iostat -c which tank"] {
            let (text, pid) = run(command);
            assert!(text.contains("  last"), "{text}");
            for device in ["a", "b"] {
                let words: Vec<_> = [device.to_owned(), pid.to_string()].into();
                let is_hinted = |line: &str| {
                    line.split_whitespace().rev().take(2).eq(words.iter().rev().map(String::as_str))
                };
                assert!(text.lines().any(is_hinted), "{command}: {text}");
            }
        }
    };
    check();
    let mut server = place.serve("tank");
    check();
    place.ok_here("zpool export tank");
    server.wait().unwrap();
    let (text, _) = run("zpool status -c");
    assert!(text.ends_with("  which\n"), "{text}");
    assert!(place.fails("zpool status -c nix tank").contains("cannot run scripts"));
}

/// A pool that is served gets devices while a file is copied, named from another folder than the
/// server's.
#[test]
fn devices_are_added_to_a_served_pool_while_it_is_used() {
    let place = Place::new(&["a", "e"]);
    std::fs::create_dir(place.path().join("here")).unwrap();
    place.extra("here/b");
    place.extra("here/l");
    place.ok("zpool create tank a");
    let mut server = place.start_here("serve tank");
    let tells = |command: &str| {
        let mut command = place.command_here(command);
        let output = command.current_dir(place.path().join("here")).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout) + &text(output.stderr))
    };
    let now = |command: &str| {
        let (is_done, text) = tells(command);
        assert!(is_done, "{command}: {text}");
        text
    };
    until("the pool is served", || tells("tunables --pool tank").0);
    let mut bytes = vec![0; 40 << 20];
    testkit::Rng::new(7).fill(&mut bytes);
    std::fs::write(place.path().join("file"), &bytes).unwrap();
    let mut copy = place.start_here("cp file tank:/file");
    let layout = now("zpool add -n tank b");
    has(&layout, &["would update 'tank' to the following configuration", "here/b"]);
    now("zpool add tank b log l spare ../e");
    assert!(copy.wait().unwrap().success());
    // More than the first device has room for.
    now("cp ../file tank:/again");
    now("zpool sync tank");
    let rows = now("zpool list -vHp tank");
    let row = rows.lines().find(|row| row.contains("here/b")).expect("the new vdev");
    let used: u64 = row.split('\t').nth(3).and_then(|n| n.parse().ok()).expect("a number");
    assert!(used > 4 << 20, "{rows}");
    has(&now("zpool status tank"), &["here/l", "spares", "/e"]);
    has(&tells("zpool add tank b").1, &["is part of active pool 'tank'"]);
    has(&now("zpool history tank"), &["zpool add tank b log l spare ../e"]);
    // The list of known pools names them already.
    server.kill().unwrap();
    server.wait().unwrap();
    has(&place.ok("zpool status tank"), &["state: ONLINE", "here/b", "here/l"]);
    place.ok("cp tank:/file out");
    assert!(std::fs::read(place.path().join("out")).unwrap() == bytes);
    place.ok("check tank");
}

/// A pool that is served without having been imported is found by its name where its server has it.
#[test]
fn a_served_pool_that_is_not_imported_is_read_on_its_devices() {
    let place = Place::new(&["a", "b"]);
    // Servers of other tests have a pool `tank`, and are found without a socket too.
    place.ok("zpool create lonely mirror a b");
    place.ok("zfs create lonely/fs");
    place.ok("zpool export lonely");
    let mut server = place.start_here("serve -d . lonely");
    let output = |command: &str| place.command_here(command).output().unwrap();
    until("the pool is served", || output("tunables --pool lonely").status.success());
    for (command, text) in
        [("check lonely", "lonely"), ("zdb -d lonely", "Dataset lonely/fs [ZPL]")]
    {
        let got = output(command);
        assert!(got.status.success(), "{command}: {got:?}");
        has(&String::from_utf8(got.stdout).unwrap(), &[text]);
    }
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(!output("check lonely").status.success());
}
