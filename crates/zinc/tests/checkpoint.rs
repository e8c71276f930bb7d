//! `zpool checkpoint` and going back to one, of pools that are served and of others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::os::unix::fs::FileExt as _;
use support::has;
use support::place::{Place, until};

fn bytes_kept(place: &Place) -> u64 {
    let text = place.ok_here("zpool list -H -p -o ckpoint tank");
    text.trim().parse().unwrap_or(0)
}

/// A pool with a file of two MiB, and that file on the host.
fn with_file() -> Place {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank mirror a b");
    place.ok("zfs create tank/fs");
    let mut rng = testkit::Rng::new(5);
    let noise: Vec<u8> = (0..2 << 17).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    std::fs::write(place.path().join("file"), noise).unwrap();
    place.ok("cp file tank/fs:/file");
    place
}

#[test]
fn a_pool_goes_back_to_its_checkpoint() {
    let place = with_file();
    has(
        &place.fails("zpool checkpoint -d tank"),
        &["cannot discard checkpoint in 'tank': checkpoint does not exist\n"],
    );
    has(&place.fails("zpool checkpoint -w tank"), &["-d"]);
    assert_eq!(place.ok("zpool checkpoint tank"), "");
    has(&place.fails("zpool checkpoint tank"), &["cannot checkpoint 'tank': checkpoint exists\n"]);
    place.ok("zfs destroy tank/fs");
    place.ok("zfs create tank/other");
    assert!(bytes_kept(&place) >= 2 << 20);
    has(&place.ok("zpool status tank"), &["checkpoint: created ", ", consumes 2."]);
    has(&place.ok("zpool history -i tank"), &["spa checkpoint", "checkpointed uberblock txg="]);
    for verb in ["attach tank a c", "detach tank b", "replace tank a c", "reguid tank"] {
        has(&place.fails(&format!("zpool {verb}")), &["checkpoint"]);
    }
    place.ok("zpool add -f tank c");
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
    // Only to be read it is the same pool afterwards.
    let before = contents(&place);
    place.ok("zpool import -d . -o readonly=on --rewind-to-checkpoint tank");
    assert_eq!(place.ok("zfs list -H -o name -r tank"), "tank\ntank/fs\n");
    place.ok("zpool export tank");
    assert!(contents(&place) == before, "something was written");
    place.ok("zpool import -d . --rewind-to-checkpoint tank");
    assert_eq!(place.ok("zfs list -H -o name tank/fs"), "tank/fs\n");
    place.fails("zfs list tank/other");
    let status = place.ok("zpool status tank");
    assert!(!status.contains("checkpoint") && !status.contains("\tc"), "{status}");
    place.ok("cp tank/fs:/file back");
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    assert_eq!(read("file"), read("back"));
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
    has(&place.fails("zpool import -d . --rewind-to-checkpoint tank"), &["has no checkpoint"]);
}

#[test]
fn a_served_pool_discards_its_checkpoint() {
    let place = with_file();
    let mut server = place.start_here("serve tank");
    until("the pool is served", || {
        let list = place.command_here("zpool status tank").output().unwrap();
        list.status.success() && std::fs::exists(place.path().join("run/zinc")).unwrap_or(false)
    });
    assert_eq!(place.ok_here("zpool checkpoint tank"), "");
    place.ok_here("rm tank/fs:/file");
    until("what the file had is kept", || bytes_kept(&place) >= 2 << 20);
    has(&place.ok_here("zpool status tank"), &["checkpoint: created "]);
    assert_eq!(place.ok_here("zpool checkpoint -d -w tank"), "");
    assert_eq!(bytes_kept(&place), 0);
    assert!(!place.ok_here("zpool status tank").contains("checkpoint"));
    has(&place.ok_here("zpool history -i tank"), &["finished discarding checkpointed state"]);
    place.ok_here("zpool export tank");
    server.wait().unwrap();
    place.zdb_is_content("tank");
}

/// Overwrites the root of the newest state of a pool that is not in use, or of the newest two.
fn break_newest(place: &Place, states: usize) -> Vec<u64> {
    let options = engine::OpenOptions::in_places([place.path()]);
    let found = engine::pools::scan(&options.search).unwrap();
    let candidate = &engine::Candidate::group(&found)[0];
    let mut all = engine::pools::by_txg(&candidate.uberblocks);
    all.truncate(states + 1);
    let file = std::fs::File::options().write(true).open(place.path().join("a")).unwrap();
    for state in &all[..states] {
        let copies = state.uberblock.rootbp.dvas().map(|(_, dva)| dva);
        copies.for_each(|dva| file.write_all_at(&[7; 512], dva.offset() + (4 << 20)).unwrap());
    }
    all.iter().map(|state| state.uberblock.txg).collect()
}

/// What is on the devices.
fn contents(place: &Place) -> Vec<Vec<u8>> {
    let devices = ["a", "b", "c"].map(|name| place.path().join(name));
    devices.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// A txg that is named is read as it was, by all commands, until the pool is exported.
#[test]
fn an_earlier_txg_is_read_and_nothing_is_written() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/old");
    place.ok("zpool export tank");
    let txg = break_newest(&place, 0)[0];
    place.ok("zpool import -d . tank");
    place.ok("zfs create tank/new");
    place.ok("zpool export tank");
    let before = contents(&place);
    let words = format!("zpool import -d . -o readonly=on -T {txg}");
    has(&place.ok(&format!("{words} -n tank")), &["Would be able to return tank"]);
    place.fails("zpool list tank");
    has(&place.ok(&format!("{words} tank")), &["is read, and not returned"]);
    assert_eq!(place.ok("zfs list -H -o name -r tank"), "tank\ntank/old\n");
    has(&place.run("ls tank/old:/").err, &["later changes are not shown"]);
    has(&place.fails("zfs create tank/more"), &["read-only"]);
    place.ok("zpool export tank");
    assert!(contents(&place) == before, "something was written");
    place.ok("zpool import -d . tank");
    place.ok("zfs list tank/new");
}

/// What would be done is judged as what is done.
#[test]
fn a_plan_refuses_what_the_import_refuses() {
    let place = Place::new(&["a", "b", "slog"]);
    place.ok("zpool create tank mirror a b log slog");
    place.ok("zfs create tank/old");
    place.ok("zpool export tank");
    let txg = break_newest(&place, 0)[0] - 1;
    std::fs::rename(place.path().join("slog"), place.path().with_extension("gone")).unwrap();
    for flags in ["-F".to_owned(), format!("-T {txg}"), format!("-F -T {txg}")] {
        for plan in ["", "-n"] {
            let why = place.fails(&format!("zpool import -d . {flags} {plan} tank"));
            has(&why, &["slog"]);
        }
    }
    let words = format!("zpool import -d . -m -T {txg} -n tank");
    has(&place.ok(&words), &["Would be able to return tank"]);
    place.fails("zpool list tank");
    // A mirror of which no side is there.
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create -f tank a mirror b c");
    place.ok("zfs create tank/old");
    place.ok("zpool export tank");
    let txg = break_newest(&place, 0)[0] - 1;
    for name in ["b", "c"] {
        std::fs::remove_file(place.path().join(name)).unwrap();
    }
    for flags in ["-F".to_owned(), format!("-T {txg}")] {
        for plan in ["", "-n"] {
            let why = place.fails(&format!("zpool import -d . {flags} {plan} tank"));
            assert!(!why.contains("within reach"), "an earlier state would not help: {why}");
        }
    }
}

/// Devices that another process has are in the way of the plan as of what is planned.
#[test]
fn a_plan_says_what_the_import_would_say_of_devices_that_are_in_use() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/old");
    place.ok("zpool export tank");
    let txg = break_newest(&place, 0)[0] - 1;
    let device = std::fs::File::open(place.path().join("a")).unwrap();
    let refused = |words: String| -> String {
        let message = place.fails(&words);
        has(&message, &["process", "has it"]);
        // Its number is in the words, and the command is another one.
        message.lines().next().unwrap().to_owned()
    };
    for flags in ["-F".to_owned(), format!("-T {txg}")] {
        device.lock().unwrap();
        let [done, planned] = ["", "-n"]
            .map(|plan| refused(format!("zpool import -d . --wait 0 {flags} {plan} tank")));
        assert_eq!(done, planned);
        device.unlock().unwrap();
    }
    place.ok("zpool import -d . tank");
    device.lock().unwrap();
    let [done, planned] =
        ["", "-n"].map(|plan| refused(format!("zpool clear --wait 0 -F {plan} tank")));
    assert_eq!(done, planned);
    device.unlock().unwrap();
    assert_eq!(place.ok("zpool clear -F -n tank"), "");
}

#[test]
fn going_back_behind_a_checkpoint_says_that_it_is_lost() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/old");
    place.ok("zpool export tank");
    let txg = break_newest(&place, 0)[0];
    place.ok("zpool import -d . tank");
    place.ok("zpool checkpoint tank");
    place.ok("zfs create tank/new");
    place.ok("zpool export tank");
    let younger = break_newest(&place, 0)[0] - 1;
    let back = place.ok(&format!("zpool import -d . -T {younger} -n tank"));
    assert!(back.contains("Would be able") && !back.contains("checkpoint"), "{back}");
    let back = |more: &str| place.ok(&format!("zpool import -d . -T {txg} {more} tank"));
    has(&back("-n"), &["Would discard the checkpoint of "]);
    has(&back(""), &["Discarded the checkpoint of "]);
    assert_eq!(place.ok("zpool list -H -o ckpoint tank"), "-\n");
}

#[test]
fn a_pool_whose_newest_state_is_broken_goes_back() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/old");
    place.ok("zfs create tank/new");
    place.ok("zpool export tank");
    for wrong in ["-n tank", "-X tank"] {
        has(&place.fails(&format!("zpool import -d . {wrong}")), &["-F"]);
    }
    assert_eq!(place.ok("zpool import -d . -Fn tank"), "");
    place.fails("zpool list tank");
    let txgs = break_newest(&place, 1);
    has(&place.ok("zpool import -d . -Fn tank"), &["Would be able to return tank to its state as"]);
    place.fails("zpool list tank");
    let why = place.fails("zpool import -d . tank");
    has(&why, &["recovery is possible", "zpool import -F tank", "are discarded, irreversibly"]);
    let before = contents(&place);
    let read = place.ok("zpool import -d . -o readonly=on -F tank");
    has(&read, &["Pool tank is read, and not returned, to its state as of"]);
    place.ok("zfs list tank/old");
    place.ok("zpool export tank");
    assert!(contents(&place) == before, "something was written");
    has(&place.ok("zpool import -d . -F tank"), &["Pool tank returned to its state as of"]);
    place.ok("zfs list tank/old");
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
    assert!(break_newest(&place, 0)[0] > txgs[0]);
    // A known pool goes back too.
    place.ok("zpool import -d . tank");
    break_newest(&place, 1);
    has(&place.ok("zpool clear -F -n tank"), &["Would be able to return tank"]);
    has(&place.ok("zpool clear -F tank"), &["Pool tank returned"]);
    assert_eq!(place.ok("zpool clear -F tank"), "");
    place.ok("zpool export tank");
    // To a txg that is named, and to no txg that there is not.
    let txg = break_newest(&place, 0)[0] - 1;
    has(&place.fails("zpool import -d . -T 2 tank"), &["cannot import 'tank'"]);
    has(&place.ok(&format!("zpool import -d . -F -T {txg} tank")), &["returned to its state"]);
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
    break_newest(&place, 3);
    has(&place.fails("zpool import -d . -F tank"), &["cannot import 'tank': I/O error", "-X"]);
    has(&place.ok("zpool import -d . -FX tank"), &["returned to its state"]);
}
