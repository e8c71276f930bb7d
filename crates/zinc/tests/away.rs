//! Devices that are away when something is said of them: spares that are given back, sides that are
//! cleared or used again, and cache devices, at the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use support::has;
use support::place::{Place, until};

/// The state and the remark that `zpool status` has for a device.
fn state(place: &Place, device: &str) -> String {
    let status = place.ok_here("zpool status -P tank");
    let path = place.path().join(device).display().to_string();
    let is_it = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next() == Some(&path) || line.contains(&format!("was {path}"))
    };
    // Of a spare that is in use the line among the spares; one that is missing has its number.
    let is_number = |line: &&str| {
        line.split_whitespace().next().is_some_and(|word| word.parse::<u64>().is_ok())
    };
    let line = status.lines().rfind(is_it).or_else(|| status.lines().rfind(is_number));
    let line = line.unwrap_or_else(|| panic!("no {device}: {status}"));
    line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
}

/// The exit code of a command, and all that it prints.
fn ends(place: &Place, command: &str) -> (i32, String) {
    let output = place.command_here(command).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// It went away while it stood in, and was given back meanwhile, so its label says still that it is
/// a leaf: it is a spare when it is back, at once, and its label says so soon.
#[test]
fn a_spare_that_was_given_back_while_it_was_away_is_one_when_it_is_back() {
    for is_served in [false, true] {
        let place = Place::new(&["a", "b", "s"]);
        place.ok("zpool create tank mirror a b spare s");
        let server = is_served.then(|| place.server("tank"));
        place.ok_here("zpool replace -w tank b s");
        place.put_away("s");
        place.ok_here("zpool detach tank s");
        until("the spare is missed", || state(&place, "s").starts_with("UNAVAIL"));
        let status = place.ok_here("zpool status tank");
        has(&status, &[" state: ONLINE", "hot spares could not be opened"]);
        assert!(!status.contains("degraded"), "{status}");
        place.put_back("s");
        until("the spare is there", || state(&place, "s") == "AVAIL");
        assert!(place.run("zpool labelclear s").code != 0, "it is a device of the pool");
        place.ok_here("zpool replace -w tank b s");
        assert_eq!(state(&place, "s"), "INUSE currently in use");
        place.put_away("s");
        place.ok_here("zpool detach tank s");
        place.put_back("s");
        if !is_served {
            // The next command that writes says so in its label.
            place.ok_here("zfs set atime=off tank");
        }
        until("its label is that of a spare", || place.ok_here("zdb -l s").contains("state: 3"));
        drop(server);
        place.ok("zpool export tank");
        place.ok("zpool import -d . tank");
        assert_eq!(state(&place, "s"), "AVAIL");
        place.ok("zpool replace tank b s");
        place.ok("check tank");
        place.zdb_is_content("tank");
    }
}

/// What another pool uses is no spare that waits, whatever the list of this one says.
#[test]
fn a_spare_that_another_pool_uses_is_not_taken_for_one_that_was_given_back() {
    let place = Place::new(&["a", "b", "c", "d", "s"]);
    place.ok("zpool create tank mirror a b spare s");
    place.ok("zpool create other mirror c d spare s");
    place.ok("zpool replace other d s");
    let before = place.ok("zdb -l s");
    let server = place.server("tank");
    // Long enough for the server to have looked at it.
    std::thread::sleep(std::time::Duration::from_secs(7));
    let (code, why) = ends(&place, "zpool replace tank b s");
    assert_ne!(code, 0);
    has(&why, &["part of active pool 'other'"]);
    drop(server);
    assert_eq!(place.ok("zdb -l s"), before, "its label stays what it was");
    assert!(place.ok("zpool status other").contains("INUSE"));
}

/// As in OpenZFS: the rest is done, and the exit code tells.
#[test]
fn devices_after_one_that_cannot_be_used_have_their_turn() {
    let place = Place::new(&["a", "b", "c", "d", "s", "t"]);
    place.ok("zpool create tank mirror a b mirror c d spare s t");
    for is_served in [false, true] {
        let _server = is_served.then(|| place.server("tank"));
        let (code, text) = ends(&place, "zpool offline tank nix b s d");
        assert_eq!(code, 1, "{text}");
        has(&text, &["cannot offline nix: no such device", "cannot offline s: device is reserved"]);
        assert_eq!(
            [state(&place, "b"), state(&place, "d")].map(|s| s[..7].to_owned()),
            ["OFFLINE", "OFFLINE"]
        );
        let (code, text) = ends(&place, "zpool online tank b nix d");
        assert_eq!(code, 1, "{text}");
        has(&text, &["cannot online nix: no such device in pool"]);
        assert!(place.ok_here("zpool status tank").contains(" state: ONLINE"));
        // One name, or none that could be used, is a failure as a whole.
        let (code, text) = ends(&place, "zpool offline tank nix nor");
        assert_eq!((code, text.matches("no such device").count()), (1, 2), "{text}");
    }
    let (code, text) = ends(&place, "zpool remove tank nix s t");
    assert_eq!(code, 1, "{text}");
    has(&text, &["cannot remove nix"]);
    assert!(!place.ok("zpool status tank").contains("spares"));
}

/// A device that failed by the administrator's word is forgiven, also when it is not there: it is
/// missing then, and used when it is back.
#[test]
fn a_failed_device_that_is_missing_is_cleared_and_used_when_it_is_back() {
    for name in ["tank", "tank b"] {
        let place = Place::new(&["a", "b"]);
        place.ok("zpool create tank mirror a b");
        let _server = place.server("tank");
        place.ok_here("zpool offline -f tank b");
        assert!(state(&place, "b").starts_with("FAULTED"));
        place.put_away("b");
        place.ok_here(&format!("zpool clear {name}"));
        assert!(state(&place, "b").starts_with("UNAVAIL"), "{}", state(&place, "b"));
        place.put_back("b");
        until("it is used", || state(&place, "b").starts_with("ONLINE"));
    }
    // In a pool that each command opens for itself.
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    place.ok("zpool offline -f tank b");
    place.put_away("b");
    place.ok_here("zpool clear tank");
    assert!(state(&place, "b").starts_with("UNAVAIL"), "{}", state(&place, "b"));
    place.put_back("b");
    place.ok_here("zfs set atime=off tank");
    assert!(place.ok_here("zpool status tank").contains(" state: ONLINE"));
}

/// As in OpenZFS it is not offline any more: a warning says that it is not there, and it is used
/// when it is back.
#[test]
fn an_offline_device_that_is_missing_is_not_offline_any_more_when_it_is_onlined() {
    for is_served in [false, true] {
        let place = Place::new(&["a", "b"]);
        place.ok("zpool create tank mirror a b");
        let _server = is_served.then(|| place.server("tank"));
        place.ok_here("zpool offline tank b");
        place.put_away("b");
        let text = place.ok_here("zpool online tank b");
        has(
            &text,
            &[
                "warning: device 'b' onlined, but remains in faulted state\n",
                "use 'zpool replace' ",
            ],
        );
        assert!(state(&place, "b").starts_with("UNAVAIL"), "{}", state(&place, "b"));
        place.put_back("b");
        match is_served {
            true => until("it is used", || state(&place, "b").starts_with("ONLINE")),
            false => drop(place.ok_here("zfs set atime=off tank")),
        }
        assert!(place.ok_here("zpool status tank").contains(" state: ONLINE"));
    }
}

/// What is in the place of a device that is onlined, or cleared, and is another one.
const OTHERS: [(&str, &str); 4] = [
    ("c", "belongs to another pool"),
    ("s", "is a spare or cache device"),
    ("a", "is another device of this pool"),
    ("blank", "has no label"),
];

/// As in OpenZFS the device is not taken out any more then, and not there; what is in its place
/// stays as it is.
#[test]
fn another_device_in_the_place_of_one_that_is_onlined_is_not_used() {
    for (is_served, out, again) in
        [(false, "offline", "online"), (true, "offline", "online"), (true, "offline -f", "clear")]
    {
        let place = Place::new(&["a", "b", "c", "s", "blank"]);
        place.ok("zpool create tank mirror a b");
        place.ok("zpool create other c spare s");
        place.ok("zpool export other");
        let _server = is_served.then(|| place.server("tank"));
        let [b, copy] = ["b", "copy"].map(|name| place.path().join(name));
        for (other, why) in OTHERS {
            place.ok_here(&format!("zpool {out} tank b"));
            std::fs::copy(place.path().join(other), &copy).unwrap();
            // The one that it is a copy of is newer.
            place.ok_here("zfs set org.zinc:after=copy tank");
            place.put_away("b");
            std::fs::rename(&copy, &b).unwrap();
            let before = std::fs::read(&b).unwrap();
            let text = place.ok_here(&format!("zpool {again} tank b"));
            if again == "online" {
                let warning = "warning: device 'b' onlined, but remains in faulted state\n";
                has(&text, &[warning, why, "use 'zpool replace' "]);
            }
            let row = state(&place, "b");
            assert!(row.starts_with("UNAVAIL"), "{other}: {row}");
            assert!(!is_served || row.contains("/b is not used: it "), "{other}: {row}");
            assert!(std::fs::read(&b).unwrap() == before, "{other}: what is there stays");
            place.put_back("b");
            match is_served {
                true => until("it is used", || state(&place, "b").starts_with("ONLINE")),
                false => drop(place.ok_here("zfs set atime=off tank")),
            }
            let status = place.ok_here("zpool status tank");
            assert!(status.contains(" state: ONLINE"), "{other}: {status}");
        }
    }
}

/// As in OpenZFS: a cache device may be taken out, and a spare may not.
#[test]
fn a_cache_device_is_taken_out_and_used_again() {
    for is_served in [false, true] {
        let place = Place::new(&["a", "k", "s"]);
        place.ok("zpool create tank a cache k spare s");
        let server = is_served.then(|| place.server("tank"));
        place.ok_here("zpool offline tank k");
        assert_eq!(state(&place, "k"), "OFFLINE 0 0 0");
        has(&place.ok_here("zpool status tank"), &[" state: ONLINE", "taken offline"]);
        has(&ends(&place, "zpool offline tank s").1, &["device is reserved as a hot spare"]);
        drop(server);
        place.ok("zpool export tank");
        place.ok("zpool import -d . tank");
        assert_eq!(state(&place, "k"), "OFFLINE 0 0 0", "it holds for the next import");
        let server = is_served.then(|| place.server("tank"));
        place.ok_here("zpool online tank k");
        assert_eq!(state(&place, "k"), "ONLINE 0 0 0");
        if is_served {
            place.ok_here("zpool offline -t tank k");
            assert_eq!(state(&place, "k"), "OFFLINE 0 0 0");
            place.ok_here("zpool online tank k");
            place.ok_here("zpool offline -f tank k");
            assert!(state(&place, "k").starts_with("FAULTED"));
            place.ok_here("zpool clear tank k");
            assert_eq!(state(&place, "k"), "ONLINE 0 0 0");
            place.ok_here("zpool offline -t tank k");
        }
        drop(server);
        assert_eq!(state(&place, "k"), "ONLINE 0 0 0", "for now is over");
        place.ok_here("zpool offline tank k");
        place.put_away("k");
        has(&place.ok_here("zpool online tank k"), &["onlined, but remains in faulted state"]);
        assert!(state(&place, "k").starts_with("UNAVAIL"), "{}", state(&place, "k"));
        place.zdb_is_content("tank");
    }
}

/// What `status` advises of a mirror whose sides were written apart is what can be done.
#[test]
fn a_mirror_whose_sides_were_written_apart_is_not_said_to_be_resilvered_next() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    place.put_away("b");
    (1..4).for_each(|n| drop(place.ok_here(&format!("zfs create tank/left-{n}"))));
    place.put_away("a");
    place.put_back("b");
    (1..3).for_each(|n| drop(place.ok_here(&format!("zfs create tank/right-{n}"))));
    place.put_back("a");
    let status = place.ok_here("zpool status tank");
    has(&status, &["written without the others", "'zinc zpool online'"]);
    assert!(!status.contains("resilvers them"), "{status}");
    assert_ne!(ends(&place, "zfs create tank/either").0, 0);
    place.ok_here("zpool online tank b");
    assert!(place.ok_here("zpool status tank").contains(" state: ONLINE"));
}

/// OpenZFS's kernel is not asked for a device that is in use, so it is not its exit code.
#[test]
fn a_device_of_another_pool_is_refused_with_the_exit_code_of_openzfs() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank a");
    place.ok("zpool create other b");
    let link = place.path().join("zpool");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zinc"), &link).unwrap();
    for verb in ["attach", "replace"] {
        let mut command = std::process::Command::new(&link);
        command.args([verb, "tank", "a", "b"]).current_dir(place.path());
        command.env("ZINC_STATE", support::state(place.path()));
        command.env("ZINC_SOCKETS", place.path().join("run/zinc"));
        let output = command.output().unwrap();
        has(&String::from_utf8_lossy(&output.stderr), &["part of active pool 'other'"]);
        assert_eq!(output.status.code(), Some(1), "{verb}");
    }
}
