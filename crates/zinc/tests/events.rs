//! `zpool events`, `zpool wait` and `zfs wait`, and verbs of several pools or datasets, on pools
//! that are served and on others; and the command that a server runs for each event.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::process::Child;
use support::place::{Place, until};

#[track_caller]
fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}

/// A server of the pool, which is reachable.
fn served(place: &Place, options: &str) -> Child {
    let server = place.start_here(&format!("serve {options} tank"));
    until("the pool is served", || {
        let list = place.command_here("zpool status tank").output().unwrap();
        list.status.success() && std::fs::exists(place.path().join("run/zinc")).unwrap_or(false)
    });
    server
}

/// Classes of the events that are kept, without what all have in front.
fn classes(place: &Place) -> Vec<String> {
    let text = place.ok_here("zpool events -H tank");
    let class = |line: &str| line.split('\t').nth(1).unwrap_or_default().to_owned();
    text.lines().map(class).collect()
}

fn position(classes: &[String], class: &str) -> usize {
    let found = classes.iter().position(|c| c == class);
    found.unwrap_or_else(|| panic!("no {class} in {classes:?}"))
}

#[test]
fn what_happens_to_a_served_pool_is_kept_told_and_given_to_a_command() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    let hook = place.path().join("hook");
    let log_file = place.path().join("told");
    let script = format!(
        "#!/bin/sh\necho \"$ZEVENT_SUBCLASS $ZEVENT_POOL $ZEVENT_VDEV_STATE_STR $# $HOME\" >> {}\n",
        log_file.display()
    );
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut server = served(&place, "--hook hook");
    place.ok_here("zpool offline tank a");
    place.ok_here("zfs create tank/fs");
    place.ok_here("zpool online tank a");
    place.ok_here("zpool wait -t resilver tank");
    place.ok_here("zpool scrub -w tank");
    let kept = classes(&place);
    let import = position(&kept, "sysevent.fs.zfs.pool_import");
    let change = position(&kept, "resource.fs.zfs.statechange");
    let online = position(&kept, "sysevent.fs.zfs.vdev_online");
    let resilver = position(&kept, "sysevent.fs.zfs.resilver_start");
    let brought = position(&kept, "sysevent.fs.zfs.resilver_finish");
    let scrub = position(&kept, "sysevent.fs.zfs.scrub_start");
    let scrubbed = position(&kept, "sysevent.fs.zfs.scrub_finish");
    let order = [import, change, online, resilver, brought, scrub, scrubbed];
    assert!(order.is_sorted(), "{kept:?}");
    position(&kept, "sysevent.fs.zfs.history_event");
    position(&kept, "sysevent.fs.zfs.config_sync");
    let verbose = place.ok_here("zpool events -v");
    has(&verbose, &["TIME                           CLASS\n", "pool = \"tank\"\n"]);
    has(&verbose, &["vdev_state = \"OFFLINE\" (0x2)\n", "vdev_laststate = \"ONLINE\" (0x7)\n"]);
    has(&verbose, &["resilver_type = \"healing\"\n"]);
    has(&verbose, &["history_internal_name = \"create\"", "eid = 0x1\n"]);
    // The command has no more than zed's has: no argument, and no user's folder.
    until("the command was run for the scrub", || {
        std::fs::read_to_string(&log_file).unwrap_or_default().contains("scrub_finish")
    });
    let lines = std::fs::read_to_string(&log_file).unwrap();
    has(&lines, &["statechange tank OFFLINE 0 \n", "statechange tank ONLINE 0 \n"]);
    has(&place.ok_here("zpool events -c"), &["cleared ", " events\n"]);
    assert_eq!(classes(&place), Vec::<String>::new());
    // One that follows ends with the pool, and hears of its end.
    let mut follower = place.start_here("zpool events -Hf tank");
    place.ok_here("zfs create tank/other");
    place.ok_here("zpool export -f tank");
    server.wait().unwrap();
    let mut heard = String::new();
    follower.stdout.take().unwrap().read_to_string(&mut heard).unwrap();
    follower.wait().unwrap();
    until("the command was run for the export", || {
        std::fs::read_to_string(&log_file).unwrap_or_default().contains("pool_export")
    });
    let mut log = String::new();
    server.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    has(&log, &["a is OFFLINE, and was ONLINE", "tank: scrub_start", "tank: resilver_finish"]);
}

#[test]
fn what_is_done_with_devices_has_the_events_of_openzfs() {
    let place = Place::new(&["a", "b", "s", "l"]);
    place.ok("zpool create tank mirror a b spare s log l");
    let mut server = served(&place, "");
    let happens = |command: &str, class: &str| {
        place.ok_here("zpool events -c");
        place.ok_here(command);
        let class = format!("sysevent.fs.zfs.{class}");
        until(&class, || classes(&place).contains(&class));
    };
    happens("zpool trim -w tank a", "trim_start");
    position(&classes(&place), "sysevent.fs.zfs.trim_finish");
    happens("zpool scrub -e tank", "errorscrub_start");
    position(&classes(&place), "sysevent.fs.zfs.errorscrub_finish");
    happens("zpool replace -w tank b s", "vdev_spare");
    place.ok_here("zpool detach tank s");
    happens("zpool remove tank s", "vdev_remove_aux");
    happens("zpool remove tank l", "vdev_remove_dev");
    happens("zpool reguid tank", "pool_reguid");
    place.ok_here("zpool set autoexpand=on tank");
    for name in ["a", "b"] {
        let file = std::fs::File::options().write(true).open(place.path().join(name)).unwrap();
        file.set_len(256 << 20).unwrap();
    }
    happens("zpool list tank", "vdev_autoexpand");
    // A side that is wrong in more than one block, which is too many.
    place.ok_here("zpool set checksum_n=1 tank mirror-0");
    let file = std::fs::File::options().write(true).open(place.path().join("b")).unwrap();
    let noise = vec![0x5a; 1 << 20];
    (4..16).for_each(|n| file.write_all_at(&noise, n << 20).unwrap());
    place.ok_here("zpool scrub -w tank");
    until("it is in doubt", || place.ok_here("zpool list -Ho health tank") == "DEGRADED\n");
    happens("zpool clear tank", "vdev_clear");
    place.ok_here("zpool export tank");
    server.wait().unwrap();
}

#[test]
fn a_pool_that_is_not_served_has_no_events() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let run = place.run("zpool events tank");
    assert_eq!((run.code, run.out.as_str()), (0, "TIME                           CLASS\n"));
    has(&run.err, &["tank is not served: only served pools keep events"]);
    has(&place.fails("zpool events -c tank"), &["tank is not served"]);
    has(&place.fails("zpool events nix"), &["cannot open 'nix': no such pool"]);
    has(&place.fails("serve --hook missing tank"), &["cannot run", "missing"]);
}

/// A device that vanishes is told of without being asked for.
#[test]
fn a_device_that_vanishes_is_told_of() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    let mut server = served(&place, "");
    std::fs::remove_file(place.path().join("b")).unwrap();
    place.ok_here("zfs create tank/fs");
    let kept = classes(&place);
    let removed = position(&kept, "resource.fs.zfs.removed");
    assert_eq!(position(&kept, "resource.fs.zfs.statechange"), removed + 1, "{kept:?}");
    place.run("zpool export tank");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_scrub_is_waited_for_and_shown() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    // Nothing goes on.
    assert_eq!(place.ok("zpool wait tank"), "");
    has(&place.fails("zpool wait -t nothing tank"), &["invalid activity 'nothing'"]);
    has(&place.fails("zpool wait nix"), &["nix"]);
    std::fs::write(place.path().join("file"), vec![7; 8 << 20]).unwrap();
    place.ok("cp file tank:/file");
    let mut server = served(&place, "--tunable zfs_scan_suspend_progress=1");
    place.ok_here("zpool scrub tank");
    let mut waits = place.start_here("zpool wait -t scrub tank");
    let mut shown = place.start_here("zpool wait -t scrub,trim -T u tank 0.2");
    let mut shows = BufReader::new(shown.stdout.take().unwrap());
    let mut text = String::new();
    (0..3).for_each(|_| assert!(shows.read_line(&mut text).unwrap() > 0, "{text}"));
    assert!(waits.try_wait().unwrap().is_none(), "it waits");
    assert_eq!(place.ok_here("zpool wait -t trim,free,discard,remove tank"), "");
    place.ok_here("tunables --pool tank zfs_scan_suspend_progress=0");
    assert!(waits.wait().unwrap().success());
    shows.read_to_string(&mut text).unwrap();
    assert!(shown.wait().unwrap().success());
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap().split_whitespace().collect::<Vec<_>>(), ["SCRUB", "TRIM"]);
    assert!(lines.next().unwrap().parse::<u64>().is_ok(), "{text}");
    assert!(text.lines().count() >= 4, "{text}");
    assert_eq!(text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>(), ["-", "-"]);
    assert_eq!(place.ok_here("zpool wait -Hp -t scrub tank 1"), "0\n");
    place.ok_here("zpool export tank");
    server.wait().unwrap();
}

#[test]
fn files_without_names_are_waited_for() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    assert_eq!(place.ok("zfs wait tank"), "");
    has(&place.fails("zfs wait -t other tank"), &["other"]);
    has(&place.fails("zfs wait tank/nix"), &["tank/nix"]);
    let mut server = served(&place, "");
    assert_eq!(place.ok_here("zfs wait -t deleteq tank"), "");
    place.ok_here("zpool export tank");
    server.wait().unwrap();
}

#[test]
fn verbs_of_several_pools_reach_each_where_it_is_held() {
    let place = Place::new(&["a", "b", "c"]);
    for (pool, file) in [("tank", "a"), ("other", "b"), ("third", "c")] {
        place.ok(&format!("zpool create {pool} {file}"));
    }
    let mut server = served(&place, "");
    for order in ["tank other third", "other tank third"] {
        place.ok_here(&format!("zpool scrub {order}"));
        place.ok_here("zpool wait -t scrub tank");
        for pool in ["tank", "other", "third"] {
            let status = place.ok_here(&format!("zpool status {pool}"));
            assert!(status.contains("scrub repaired 0B"), "{order}: {status}");
        }
        place.ok_here(&format!("zpool sync {order}"));
    }
    // A server has no other state than the newest.
    for option in ["--txg 5", "--checkpoint"] {
        let run = place.command_here(&format!("zfs list {option} tank")).output().unwrap();
        assert!(!run.status.success() && run.stdout.is_empty(), "{option}: {run:?}");
    }
    // One that is not there does not keep the others from their turn.
    let txg = || place.ok_here("zdb -u third");
    let before = txg();
    let run = place.command_here("zpool sync nix third").output().unwrap();
    assert!(!run.status.success() && txg() != before, "{run:?}");
    place.ok_here("zpool export tank");
    server.wait().unwrap();
}

#[test]
fn an_imported_pool_stays_imported_however_its_server_found_it() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let mut server = served(&place, "-d .");
    let id = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(place.ok_here("zpool list -Ho name"), "tank\n");
}

#[test]
fn a_recursive_inherit_reaches_snapshots() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/fs");
    place.ok("zfs snapshot tank/fs@s");
    place.ok("zfs set my:colour=blue tank/fs tank/fs@s");
    place.ok("zfs inherit -r my:colour tank");
    assert_eq!(place.ok("zfs get -Ho value my:colour tank/fs tank/fs@s"), "-\n-\n");
    place.ok("zfs inherit -r compression tank");
}
