//! Pools of which a log device is missing: what is said of them, and what `zpool import -m` does.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use support::has;
use support::place::{Place, until};

/// A pool with a log device, which everything that is written goes through.
fn with_log() -> Place {
    let place = Place::new(&["disk", "journal"]);
    place.ok("zpool create -O sync=always tank disk log journal");
    place.ok("zfs create tank/fs");
    std::fs::write(place.path().join("file"), "text").unwrap();
    place
}

fn take_away(place: &Place, device: &str) {
    let away = place.path().join("away");
    std::fs::create_dir_all(&away).unwrap();
    std::fs::rename(place.path().join(device), away.join(device)).unwrap();
}

/// Today, as times begin: `Sat Nov 28`.
fn day() -> String {
    let mut date = std::process::Command::new("date");
    let out = date.args(["-u", "+%a %b %e"]).env("LC_ALL", "C").output();
    String::from_utf8(out.unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn a_log_device_that_held_nothing_is_gone_without_only_when_that_is_said() {
    let place = with_log();
    place.ok("cp file tank/fs:/file");
    place.ok("zpool export tank");
    take_away(&place, "journal");
    let listed = place.ok("zpool import -d .");
    has(&listed, &["log devices are missing", "import it with '-m'"]);
    assert!(!listed.contains("can be imported using its name"), "{listed}");
    let why = place.fails("zpool import -d . tank");
    has(&why, &["log device", "is missing", "import -m"]);
    assert_eq!(place.ok("zpool import -d . -m tank"), "");
    has(&place.ok("zpool status tank"), &[" state: DEGRADED", "logs", "UNAVAIL"]);
    // It is known now, and nothing leads to the device: everything goes on.
    place.ok("cp file tank/fs:/other");
    assert_eq!(place.ok("cat tank/fs:/file"), "text");
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
    place.ok("zpool import -d . -m tank");
    assert_eq!(place.ok("cat tank/fs:/other"), "text");
}

#[test]
fn what_was_promised_on_a_log_device_that_is_missing_is_given_up_when_that_is_said() {
    let (before, place) = (day(), with_log());
    place.ok("cp file tank/fs:/before");
    let many = place.path().join("many");
    std::fs::create_dir(&many).unwrap();
    (0..5000).for_each(|n| std::fs::write(many.join(n.to_string()), "text").unwrap());
    let mut server = place.serve("tank");
    // Promised, and in no txg for as long as this test takes.
    place.ok_here("tunables --pool tank zfs_txg_timeout=600");
    let mut copy = place.start_here("cp -r many tank/fs:/");
    until("files are promised", || {
        let list = place.command_here("ls tank/fs:/many").output().unwrap();
        list.stdout.iter().filter(|b| **b == b'\n').count() > 100
    });
    server.kill().unwrap();
    server.wait().unwrap();
    copy.wait().unwrap();
    take_away(&place, "journal");
    has(&place.fails("zfs create tank/more"), &["log device", "tank/fs", "import -m"]);
    assert_eq!(place.ok("cat tank/fs:/before"), "text");
    place.run("zpool export tank");
    let listed = place.ok("zpool import -d .");
    has(&listed, &["import it with '-m'", "tank/fs"]);
    has(&place.fails("zpool import -d . tank"), &["tank/fs", "import -m"]);
    let run = place.run("zpool import -d . -m tank");
    assert_eq!(run.code, 0, "{}", run.err);
    has(&run.err, &["tank/fs: its intent log was on a log device that is missing", "may be lost"]);
    // When the last txg was written, which is not long ago.
    let is_dated = |day: &String| run.err.contains(&format!("acknowledged after {day} "));
    assert!([before, day()].iter().any(is_dated) && run.err.contains(" (txg "), "{}", run.err);
    assert_eq!(place.ok("cat tank/fs:/before"), "text");
    place.ok("zfs create tank/more");
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
    // The device comes back with what was given up: none of it is taken up again.
    std::fs::rename(place.path().join("away/journal"), place.path().join("journal")).unwrap();
    place.ok("zpool import -d . tank");
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
}

#[test]
fn a_log_mirror_keeps_a_good_side_and_an_offline_log_is_not_missing() {
    let place = Place::new(&["disk", "one", "two"]);
    place.ok("zpool create tank disk log mirror one two");
    place.ok("zpool offline tank one");
    let why = place.fails("zpool detach tank two");
    has(&why, &["cannot detach two", "no valid replicas"]);
    // The side that is out may go.
    place.ok("zpool detach tank one");
    place.ok("zpool offline tank two");
    place.ok("zpool export tank");
    place.ok("zpool import -d . tank");
    place.ok("zfs create tank/fs");
    place.ok("zpool online tank two");
    has(&place.ok("zpool status tank"), &["two", "ONLINE"]);
    // Nor is one that was said to have failed.
    place.ok("zpool offline -f tank two");
    place.ok("zpool export tank");
    place.ok("zpool import -d . tank");
    has(&place.ok("zpool status tank"), &["FAULTED", "external device fault"]);
    place.ok("zpool clear tank");
    has(&place.ok("zpool status tank"), &[" state: ONLINE"]);
    assert_eq!(place.run("check tank").code, 0);
}

/// A log device that promises went to, one that is a mirror, and devices that hold nothing.
#[test]
fn what_holds_no_data_is_removed() {
    let place = Place::new(&["disk", "journal", "one", "two", "fast", "other"]);
    place.ok(
        "zpool create -O sync=always tank disk log journal mirror one two cache fast spare other",
    );
    place.ok("zfs create tank/fs");
    std::fs::write(place.path().join("file"), "text").unwrap();
    place.ok("cp file tank/fs:/file");
    let output = place.ok("zpool remove -n tank journal");
    assert_eq!(output, "Memory that will be used after removing journal: 0\n");
    has(&place.fails("zpool remove tank disk"), &["cannot remove disk", "out of space"]);
    has(&place.fails("zpool remove tank one"), &["cannot remove one", "detach"]);
    has(&place.fails("zpool remove tank nix"), &["no such device in pool"]);
    has(&place.fails("zpool remove -s tank"), &["cannot cancel removal"]);
    assert_eq!(place.ok("zpool remove tank journal"), "");
    // The number of the mirror behind it is in block pointers, and stays.
    let status = place.ok("zpool status tank");
    assert!(status.contains("mirror-2") && !status.contains("journal"), "{status}");
    place.ok("cp file tank/fs:/second");
    place.zdb_is_content("tank");
    assert_eq!(place.ok("zpool remove tank mirror-2 fast other"), "");
    let status = place.ok("zpool status tank");
    let left = ["logs", "cache", "spares", "mirror"].iter().find(|word| status.contains(**word));
    assert_eq!(left, None, "{status}");
    place.ok("cp file tank/fs:/third");
    assert_eq!(place.run("check tank").code, 0);
    has(&place.ok("zpool history -i tank"), &["vdev 1 (log)", "vdev (l2cache)", "vdev (spare)"]);
    // They are free again.
    place.ok("zpool create other journal one two fast other");
    place.ok("zpool export tank");
    place.ok("zpool export other");
    place.ok("zpool import -d . tank");
    for file in ["file", "second", "third"] {
        assert_eq!(place.ok(&format!("cat tank/fs:/{file}")), "text");
    }
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
}

/// The pool of a server, and one whose log device is gone for good.
#[test]
fn a_log_device_is_removed_from_a_pool_that_is_served_and_when_it_is_missing() {
    let place = with_log();
    let mut server = place.serve("tank");
    place.ok_here("cp file tank/fs:/before");
    assert_eq!(place.ok_here("zpool remove -w tank journal"), "");
    place.ok_here("cp file tank/fs:/after");
    assert!(!place.ok_here("zpool status tank").contains("journal"));
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(place.ok("cat tank/fs:/after"), "text");
    place.ok("zpool add tank log journal");
    place.ok("cp file tank/fs:/logged");
    place.ok("zpool export tank");
    take_away(&place, "journal");
    place.ok("zpool import -d . -m tank");
    assert_eq!(place.ok("zpool remove tank journal"), "");
    has(&place.ok("zpool status tank"), &[" state: ONLINE"]);
    place.ok("zpool export tank");
    // The device comes back with its label: the pool goes without it.
    std::fs::rename(place.path().join("away/journal"), place.path().join("journal")).unwrap();
    place.ok("zpool import -d . tank");
    assert!(!place.ok("zpool status tank").contains("journal"));
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
}

/// A log device goes while the pool is served, and is put back: what leads there is replayed.
#[test]
fn a_log_device_that_was_pulled_out_and_is_back_is_used() {
    let place = with_log();
    let put_back = || {
        let path = place.path().join("away/journal");
        std::fs::rename(path, place.path().join("journal")).unwrap();
    };
    let is_whole = || {
        let status = place.ok_here("zpool status tank");
        has(&status, &[" state: ONLINE", "logs", "journal"]);
        assert!(!status.contains("UNAVAIL") && !status.contains("REMOVED"), "{status}");
    };
    let content: Vec<u8> = (0..5_000_000u32).flat_map(|n| n.to_le_bytes()).collect();
    std::fs::write(place.path().join("large"), &content).unwrap();
    // The server is killed while the log is away.
    let mut server = place.serve("tank");
    place.ok_here("cp file tank/fs:/before");
    take_away(&place, "journal");
    place.ok_here("cp large tank/fs:/large");
    place.ok_here("zpool sync tank");
    server.kill().unwrap();
    server.wait().unwrap();
    put_back();
    place.ok_here("zfs create tank/new");
    is_whole();
    assert_eq!(place.ok_here("cat tank/fs:/before"), "text");
    place.ok_here("cp tank/fs:/large copy");
    assert!(std::fs::read(place.path().join("copy")).unwrap() == content);
    // It is used again by `clear` and `reopen`, and after an export without these.
    for again in [Some("zpool clear tank"), Some("zpool reopen tank"), None] {
        let mut server = place.serve("tank");
        take_away(&place, "journal");
        place.ok_here("cp -f file tank/fs:/file");
        place.ok_here("zpool sync tank");
        put_back();
        if let Some(again) = again {
            place.ok_here(again);
            is_whole();
        }
        place.ok_here("zpool export tank");
        server.wait().unwrap();
        let listed = place.ok_here("zpool import -d .");
        has(&listed, &["can be imported using its name"]);
        place.ok_here("zpool import -d . tank");
        is_whole();
        assert_eq!(place.ok_here("cat tank/fs:/file"), "text");
    }
    place.ok_here("zpool export tank");
    place.zdb_is_content("tank");
}
