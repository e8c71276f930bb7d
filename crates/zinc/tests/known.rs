//! Pools are known by their names from `create` or `import` to `export`, and commands at the same
//! time queue for them. OpenZFS's zdb judges the cache file.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use support::place::{Place, has_open, until};
use support::state;

#[test]
fn a_pool_is_found_by_its_name_until_it_is_exported() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    place.ok("zfs create tank/fs");
    assert_eq!(place.ok("zpool list -Ho name"), "tank\n");
    assert_eq!(place.ok("zfs list -Ho name"), "tank\ntank/fs\n");
    assert!(place.fails("zpool import -d .").contains("no pools available to import"));
    place.ok("zpool export tank");
    assert!(!place.cache().exists(), "without pools there is no file");
    for (command, words) in [
        ("zfs list tank", "cannot open 'tank': dataset does not exist\n"),
        ("zfs create tank/x", "cannot create 'tank/x': no such pool 'tank'\n"),
        ("zpool status tank", "cannot open 'tank': no such pool\n"),
        ("serve tank", "cannot open 'tank': no such pool\n"),
    ] {
        let err = place.fails(command);
        assert!(err.starts_with(&format!("zinc: {words}")), "{command}: {err}");
        assert!(err.contains("`zinc zpool import`"), "{command}: {err}");
    }
    // For one command it is found where it is said to be, and is exported again.
    place.ok("zfs snapshot -d . tank@s");
    assert!(place.ok("zpool import -d .").contains("   pool: tank\n"));
    place.ok("zpool import -d . tank");
    assert_eq!(place.ok("zfs list -t snapshot -Ho name"), "tank@s\n");
    place.ok("zpool destroy tank");
    assert!(place.fails("zfs list tank").contains("no such pool"));
    assert!(place.fails("zfs list -d . tank").contains("no pool 'tank'"), "it is destroyed");
}

#[testkit::needs("zdb")]
#[test]
fn zdb_of_openzfs_reads_the_cache_file() {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank mirror a b");
    place.ok("zpool create other c");
    place.extra("d");
    place.ok("zpool add -f tank d");
    let output =
        testkit::oracle::zdb().arg("-U").arg(place.cache()).args(["-C", "tank"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for word in ["MOS Configuration:", "name: 'tank'", "type: 'mirror'", "/d'"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn a_name_is_given_once() {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank a");
    let err = place.fails("zpool create tank b");
    assert_eq!(err, "zinc: cannot create 'tank': pool already exists\n");
    place.ok("zpool create other b");
    place.ok("zpool export other");
    let err = place.fails("zpool import -d . other tank");
    let what = "zinc: cannot import 'tank': a pool with that name already exists\n";
    assert!(err.starts_with(what) && err.contains("<newpool>"), "{err}");
    assert!(place.fails("zpool import -d . tank").starts_with(what));
    place.ok("zpool import -d . other another");
    assert_eq!(place.ok("zpool list -Ho name"), "another\ntank\n");
    // Of two with one name the one that is not imported is the one that is meant.
    place.ok("zpool export tank");
    place.ok("zpool create tank c");
    let err = place.fails("zpool import -d . tank");
    assert!(err.starts_with(what), "{err}");
    place.ok("zpool import -d . tank third");
    assert_eq!(place.ok("zpool list -Ho name"), "another\ntank\nthird\n");
    place.ok("zpool export -a");
    assert!(place.run("zpool list -H").err.contains("no pools available"));
}

#[test]
fn devices_that_moved_are_found_and_named_where_they_are() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    let here = |name: &str| place.path().join(name);
    std::fs::rename(here("b"), here("moved")).unwrap();
    assert!(place.ok("zpool status -P tank").contains("ONLINE"));
    place.ok("zfs create tank/fs");
    let status = place.ok("zpool status -P tank");
    assert!(status.contains(here("moved").to_str().unwrap()), "{status}");
    assert!(!status.contains("DEGRADED"), "{status}");
    // All of them gone: said, and the pool can be forgotten.
    std::fs::create_dir(here("far")).unwrap();
    for name in ["a", "moved"] {
        std::fs::rename(here(name), here("far").join(name)).unwrap();
    }
    let output = place.ok("zpool status tank");
    assert!(output.contains("UNAVAIL") && !output.contains("ONLINE "), "{output}");
    let err = place.fails("zfs list tank");
    assert!(err.contains("cannot open 'tank': its devices are missing"), "{err}");
    assert!(place.fails("zpool export tank").contains("its devices are missing"));
    place.ok("zpool export -f tank");
    place.ok("zpool import -d far tank");
    let status = place.ok("zpool status -P tank");
    assert!(status.contains("/far/moved"), "{status}");
}

#[test]
fn paths_of_another_machine_become_those_of_this_one() {
    let place = Place::new(&[]);
    let case = testkit::fixture("gang");
    std::fs::copy(&case.images[0], place.path().join("disk")).unwrap();
    place.ok("zpool import -f -d . gangs");
    let path = place.path().join("disk");
    let status = place.ok("zpool status -P gangs");
    assert!(status.contains(path.to_str().unwrap()), "{status}");
    assert!(place.ok("zdb -l disk").contains(&format!("path: '{}'", path.display())));
}

#[test]
fn a_damaged_list_is_named_and_put_aside() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    std::fs::write(place.cache(), b"nonsense").unwrap();
    let run = place.run("zpool list -H");
    assert!(run.err.contains("zpool.cache is damaged"), "{}", run.err);
    assert_eq!(std::fs::read(place.cache().with_extension("cache.damaged")).unwrap(), b"nonsense");
    place.ok("zpool import -d . tank");
    assert_eq!(place.ok("zpool list -Ho name"), "tank\n");
    // A second one does not take the place of the first.
    std::fs::write(place.cache(), b"more nonsense").unwrap();
    place.run("zpool list -H");
    let aside = |ending| std::fs::read(place.cache().with_extension(ending)).unwrap();
    assert_eq!(aside("cache.damaged"), b"nonsense");
    assert_eq!(aside("cache.damaged.1"), b"more nonsense");
}

#[test]
fn what_an_import_says_is_remembered() {
    let place = Place::new(&["a"]);
    let no_cache = |what: &str| assert!(!place.cache().exists(), "{what}");
    place.ok("zpool create -R /mnt tank a");
    no_cache("-R");
    let cachefile = || place.ok("zpool get -Ho value,source cachefile tank");
    assert_eq!(cachefile(), "none\tlocal\n");
    assert_eq!(place.ok("zpool get -Ho value altroot tank"), "/mnt\n");
    assert_eq!(place.ok("zfs get -Ho value mountpoint tank"), "/mnt/tank\n");
    place.ok("zpool export tank");
    place.ok("zpool import -d . -t tank guest");
    no_cache("-t");
    place.ok("zfs create guest/fs");
    place.ok("zpool export guest");
    assert!(place.ok("zpool import -d .").contains("   pool: tank\n"), "the labels keep the name");
    place.ok("zpool import -d . -o readonly=on tank");
    let err = place.fails("zfs create tank/no");
    assert!(err.contains("cannot change 'tank': pool is read-only"), "{err}");
    assert_eq!(place.ok("zfs list -Ho name"), "tank\ntank/fs\n");
    place.ok("zpool export tank");
    let file = place.path().join("my.cache");
    place.ok(&format!("zpool import -d . -N -o cachefile={} tank", file.display()));
    no_cache("cachefile=PATH");
    assert_eq!(cachefile(), format!("{}\tlocal\n", file.display()));
    assert_eq!(place.ok("zpool list -Ho cachefile tank"), format!("{}\n", file.display()));
    assert_eq!(place.ok("zpool list -Ho name"), "tank\n");
    let copy = place.path().join("copy.cache");
    std::fs::copy(&file, &copy).unwrap();
    place.ok("zpool export tank");
    assert!(!file.exists(), "an exported pool is in no cache file");
    place.ok(&format!("zpool import -c {} -a", copy.display()));
    place.ok("zpool set cachefile=none tank");
    no_cache("set cachefile=none");
    assert_eq!(place.ok("zpool list -Ho name"), "tank\n");
    assert_eq!(cachefile(), "none\tlocal\n");
    place.ok("zpool set cachefile= tank");
    assert_eq!(cachefile(), "-\tdefault\n");
    assert!(place.cache().exists());
    let err = place.fails("zpool set cachefile=x tank");
    assert!(err.contains("cachefile property 'x' is invalid"), "{err}");
}

#[test]
fn a_list_of_pools_takes_the_place_of_nothing_else() {
    let place = Place::new(&["a", "b"]);
    let here = |name: &str| place.path().join(name);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, here("pipe"), fifo, mode, 0).unwrap();
    std::fs::write(here("text"), "kept").unwrap();
    std::os::unix::fs::symlink("text", here("link")).unwrap();
    std::os::unix::fs::symlink("/dev/null", here("null")).unwrap();
    let kinds = || {
        ["pipe", "text", "link", "null", "a"]
            .map(|name| here(name).symlink_metadata().unwrap().file_type())
    };
    let before = kinds();
    place.ok("zpool create other b");
    for (name, why) in [
        ("pipe", "it is a pipe"),
        ("link", "it is a symbolic link"),
        ("null", "it is a symbolic link"),
        ("text", "it is not a list of pools"),
        ("a", "it is not a list of pools"),
    ] {
        let path = here(name).display().to_string();
        let err = place.fails(&format!("zpool create -o cachefile={path} tank a"));
        assert!(err.contains("cannot create 'tank'") && err.contains(why), "{err}");
        let err = place.fails(&format!("zpool set cachefile={path} other"));
        assert!(err.contains(why), "{err}");
        place.ok("zpool export other");
        let err = place.fails(&format!("zpool import -d . -o cachefile={path} other"));
        assert!(err.contains(why), "{err}");
        place.ok("zpool import -d . other");
    }
    assert_eq!(kinds(), before);
    assert_eq!(std::fs::read(here("text")).unwrap(), b"kept");
    assert!(std::fs::read(here("a")).unwrap().iter().all(|byte| *byte == 0), "no label");
    // The list itself: what took its place is left alone.
    std::fs::remove_file(place.cache()).unwrap();
    std::os::unix::fs::symlink(here("text"), place.cache()).unwrap();
    let err = place.fails("zpool create tank a");
    assert!(err.contains("it is a symbolic link") && err.contains("ZINC_STATE"), "{err}");
    assert!(place.cache().is_symlink());
    assert_eq!(std::fs::read(here("text")).unwrap(), b"kept");
}

#[test]
fn what_openzfs_refuses_to_create_is_refused() {
    let place = Place::new(&["a", "b", "c"]);
    std::fs::create_dir(place.path().join("full")).unwrap();
    std::fs::write(place.path().join("full/x"), b"").unwrap();
    let full = place.path().join("full").display().to_string();
    let err = place.fails(&format!("zpool create -m {full} tank a"));
    assert!(err.contains(&format!("mountpoint '{full}' exists and is not empty")), "{err}");
    let err = place.fails("zpool create -d tank a special b");
    assert!(err.contains("need the feature 'allocation_classes'"), "{err}");
    let err = place.fails("zpool create -R mnt tank a");
    assert!(err.contains("bad alternate root 'mnt'"), "{err}");
    assert!(!place.cache().exists());
}

#[test]
fn commands_at_once_queue() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    let all: Vec<Child> = (0..6).map(|n| place.start(&format!("zfs create tank/f{n}"))).collect();
    for child in all {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(place.ok("zfs list -Ho name -r tank").lines().count(), 7);
    assert_eq!(place.run("check tank -d .").code, 0);
    // Two pools on one file: one is made, the other is told by the labels of the first.
    place.extra("c");
    let all: Vec<Child> = ["x", "y"].map(|n| place.start(&format!("zpool create {n} c"))).into();
    let codes = all.into_iter().map(|c| c.wait_with_output().unwrap().status.code());
    assert_eq!(codes.filter(|code| *code == Some(0)).count(), 1);
    assert_eq!(place.ok("zpool list -Ho name").lines().count(), 2);
}

#[test]
fn who_waits_too_long_is_told_who_has_the_pool() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/fs");
    // It holds the pool until its input ends.
    let mut holder = place.start("cp --tar - tank/fs:/");
    let began = Instant::now();
    let err = loop {
        // One that needs no undoing: by the next command the copy may have the pool.
        let run = place.run("zfs set --wait 0.3 org.zinc:tried=yes tank");
        if run.code != 0 {
            break run.err;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "the copy never had the pool");
    };
    let who = format!("process {} (`", holder.id());
    assert!(err.contains(&who) && err.contains(" cp --tar - tank/fs:/`) has it"), "{err}");
    let err = place.fails("zfs list --wait 0.3 tank");
    assert!(err.contains("pool is busy") && err.contains(&who), "{err}");
    // One that waits longer gets it, also when the holder is killed.
    let waiting = place.start("zfs create tank/y");
    let device = place.path().join("a");
    until("the command looks at the pool", || has_open(waiting.id(), &device));
    holder.kill().unwrap();
    holder.wait().unwrap();
    let output = waiting.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_server_of_a_known_pool_leaves_it_known() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let mut server = place.start("serve --socket sock --for 0.5 tank");
    assert!(server.wait().unwrap().success());
    assert_eq!(place.ok("zpool list -Ho name"), "tank\n");
    place.ok("zfs create tank/fs");
}

#[test]
fn a_served_pool_with_a_new_guid_is_reached_by_it() {
    let place = Place::new(&["a"]);
    let sockets = place.path().join("run/zinc");
    let run = |command: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_zinc"))
            .args(command.split_whitespace())
            .current_dir(place.path())
            .env("ZINC_STATE", state(place.path()))
            .env("ZINC_SOCKETS", &sockets)
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command}: {err}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run("zpool create tank a");
    run("serve -b tank");
    let old = run("zpool get -Hpo value guid tank");
    run("zpool reguid tank");
    let new = run("zpool get -Hpo value guid tank");
    assert_ne!(old, new);
    let socket = |guid: &str| sockets.join(format!("{}.sock", guid.trim()));
    assert!(socket(&new).exists() && !socket(&old).exists());
    run(&format!("zfs create {}/fs", "tank"));
    assert_eq!(run(&format!("zpool list -Ho name {}", new.trim())), "tank\n");
    run("zpool export tank");
    assert!(!socket(&new).exists());
    assert!(!place.cache().exists());
}

#[test]
fn a_pipe_where_a_device_was_is_not_waited_for() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    std::fs::remove_file(place.path().join("a")).unwrap();
    let made = Command::new("mkfifo").arg(place.path().join("a")).status().unwrap();
    assert!(made.success());
    let mut child = place.start("zpool list -H");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
    let output = place.ok("zpool list -Ho name,health");
    assert_eq!(output, "tank\tUNAVAIL\n");
}

#[test]
fn work_on_a_copy_leaves_the_known_pool_where_it_is() {
    let place = Place::new(&[]);
    for dir in ["k1", "k2"] {
        std::fs::create_dir(place.path().join(dir)).unwrap();
    }
    place.extra("k1/a");
    place.ok("zpool create cq k1/a");
    std::fs::copy(place.path().join("k1/a"), place.path().join("k2/a")).unwrap();
    let known = std::fs::read(place.cache()).unwrap();
    place.ok("zfs create -d k2 cq/x");
    place.ok("zpool set -d k2 comment=copy cq");
    place.ok("zpool export -d k2 cq");
    assert_eq!(std::fs::read(place.cache()).unwrap(), known);
    // The same when the copy is served, and commands are carried out there.
    place.ok_here("serve -b -d k2 cq");
    place.ok_here("zfs create -d k2 cq/z");
    // The original, whose name is in the labels of the copy.
    assert_eq!(place.ok_here("zfs list -Ho name -r -d k1 cq"), "cq\n");
    place.ok_here("zpool set -d k2 comment=served cq");
    place.ok_here("zpool export -d k2 cq");
    place.ok_here("serve --for 0.1 -d k2 cq");
    assert_eq!(std::fs::read(place.cache()).unwrap(), known);
    let label = place.ok("zdb -l k2/a");
    assert!(label.contains("/k1/a'") && !label.contains("/k2/a'"), "{label}");
    assert_eq!(place.ok("zfs list -Ho name"), "cq\n");
    let status = place.ok("zpool status -P cq");
    assert!(status.contains("/k1/a"), "{status}");
    // The known pool itself may be named by its place.
    place.ok("zfs create -d k1 cq/y");
    place.ok("zpool export -d k1 cq");
    assert!(!place.cache().exists());
}

#[test]
fn a_log_that_cannot_be_written_keeps_no_pool() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zpool export tank");
    // One that takes nothing shows that only when the work is done.
    assert_eq!(place.run("zfs create -d . --txgs-log /dev/full tank/x").code, 1);
    assert!(place.ok("zpool import -d .").contains("   pool: tank\n"));
    place.ok("zpool import -d . tank");
    assert_eq!(place.run("zpool export --txgs-log /dev/full tank").code, 1);
    assert!(!place.cache().exists());
    place.ok("zpool import -d . tank");
}

#[test]
fn a_log_is_opened_before_the_work_and_neither_waits_nor_follows_links() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, place.path().join("pipe"), fifo, mode, 0).unwrap();
    std::fs::write(place.path().join("precious"), "kept").unwrap();
    std::os::unix::fs::symlink("precious", place.path().join("link")).unwrap();
    for (log, why) in [
        ("no/log", "No such file or directory"),
        ("pipe", "no program reads from this pipe"),
        ("link", "it is a symbolic link"),
    ] {
        let run = place.run(&format!("zfs create --txgs-log {log} tank/x"));
        assert!(run.code == 1 && run.err.contains(why), "{log}: {} {}", run.code, run.err);
    }
    assert_eq!(std::fs::read(place.path().join("precious")).unwrap(), b"kept");
    assert_eq!(place.ok("zfs list -Ho name"), "tank\n");
    place.ok("zfs create --txgs-log log tank/x");
    assert!(std::fs::read_to_string(place.path().join("log")).unwrap().contains("tank"));
    let run = place.run("serve --pidfile pipe tank");
    assert!(run.code == 1 && run.err.contains("there is a pipe already"), "{}", run.err);
    let run = place.run("serve --pidfile link tank");
    assert!(run.code == 1 && run.err.contains("there is a symbolic link"), "{}", run.err);
    let run = place.run("serve -b --log pipe tank");
    assert!(run.code == 1 && run.err.contains("no program reads"), "{}", run.err);
    let run = place.run("serve -b --log its.log nopool");
    assert_eq!(run.code, 1);
    assert!(run.err.contains("nopool") && !run.err.contains("says why"), "{}", run.err);
    assert_eq!(std::fs::read_to_string(place.path().join("its.log")).unwrap(), run.err);
}

#[test]
fn a_time_to_wait_that_is_no_number_is_refused() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let output = Command::new(env!("CARGO_BIN_EXE_zinc"))
        .args(["zfs", "create", "tank/x"])
        .current_dir(place.path())
        .env("ZINC_STATE", state(place.path()))
        .env("ZINC_WAIT", "long")
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("ZINC_WAIT is 'long': it is a number of seconds"), "{err}");
}

#[test]
fn an_export_of_several_pools_goes_on_after_one_that_fails() {
    let place = Place::new(&["a", "b", "c"]);
    let run = |command: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_zinc"))
            .args(command.split_whitespace())
            .current_dir(place.path())
            .env("ZINC_STATE", state(place.path()))
            .env("ZINC_SOCKETS", place.path().join("run/zinc"))
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (pool, file) in [("one", "a"), ("two", "b"), ("three", "c")] {
        assert_eq!(run(&format!("zpool create {pool} {file}")), (0, String::new()));
    }
    assert_eq!(run("serve -b two").0, 0);
    let (code, err) = run("zpool export none two one");
    assert!(code == 1 && err.contains("cannot open 'none': no such pool"), "{err}");
    assert_eq!(place.ok("zpool list -Ho name"), "three\n");
    // All: what is served too, wherever its files are.
    assert_eq!(run("serve -b three").0, 0);
    assert_eq!(run("zpool export -a"), (0, String::new()));
    assert!(!place.cache().exists());
}

#[test]
fn a_device_that_was_added_is_found_though_it_was_not_written_down() {
    let place = Place::new(&["a", "b"]);
    std::fs::create_dir(place.path().join("far")).unwrap();
    place.extra("far/c");
    place.ok("zpool create tank a");
    // As when the command ended between the labels and the list.
    let add = |command: &str| {
        let before = std::fs::read(place.cache()).unwrap();
        place.ok(command);
        std::fs::write(place.cache(), before).unwrap();
    };
    let names = |text: &str| {
        let list = std::fs::read(place.cache()).unwrap();
        list.windows(text.len()).any(|part| part == text.as_bytes())
    };
    let path = |name: &str| place.path().join(name).display().to_string();
    add("zpool add tank b");
    assert!(!names(&path("b")));
    assert_eq!(place.ok("zpool list -Ho name,health tank"), "tank\tONLINE\n");
    assert!(names(&path("b")), "a command that finds it writes it down");
    add("zpool add tank far/c");
    let mut command = place.command_here("zfs create tank/x");
    let output = command.env("ZPOOL_IMPORT_PATH", path("far")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(names(&path("far/c")));
    add("zpool reguid tank");
    place.ok("zfs create tank/y");
    assert_eq!(place.ok("zpool list -Ho name,health"), "tank\tONLINE\n");
    add("zpool reguid tank");
    place.ok("zpool export tank");
    assert!(!place.cache().exists());
}

#[test]
fn a_pool_is_whole_wherever_an_add_is_killed() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let add = |n: u32| {
        std::fs::create_dir(place.path().join(format!("d{n}"))).unwrap();
        place.extra(&format!("d{n}/x"));
        place.start(&format!("zpool add tank d{n}/x"))
    };
    let began = Instant::now();
    assert!(add(0).wait().unwrap().success());
    let whole = began.elapsed();
    for n in 1..=8 {
        let mut child = add(n);
        std::thread::sleep(whole * n / 9);
        let _ = child.kill();
        child.wait().unwrap();
        assert_eq!(place.ok("zpool list -Ho health tank"), "ONLINE\n", "after {n} ninths");
        place.ok(&format!("zfs create tank/f{n}"));
    }
}

#[test]
fn a_pool_whose_new_guid_was_not_written_down_is_there_once() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let before = std::fs::read(place.cache()).unwrap();
    place.ok("zpool reguid tank");
    std::fs::write(place.cache(), &before).unwrap();
    assert!(!place.run("zpool import -d .").out.contains("pool: tank"));
    assert!(place.fails("zpool import -d . tank other").contains("it is imported already"));
    assert!(std::fs::read(place.cache()).unwrap() == before);
    // A command that finds it writes it down.
    assert_eq!(place.ok("zpool list -Ho name"), "tank\n");
    assert!(std::fs::read(place.cache()).unwrap() != before);
    // A copy on other devices is another pool.
    std::fs::copy(place.path().join("a"), place.path().join("copy")).unwrap();
    place.ok("zpool reguid -d copy tank");
    assert!(place.ok("zpool import -d copy").contains("pool: tank"));
}

/// Makes of a device that was added one whose adding was cut off before the uberblock: its labels
/// are there, and no uberblock is.
fn empty_rings(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let size = file.metadata().unwrap().len();
    for label in [0, 256 << 10, size - (512 << 10), size - (256 << 10)] {
        file.write_all_at(&[0; 128 << 10], label + (128 << 10)).unwrap();
    }
}

#[test]
fn a_device_whose_adding_was_cut_off_is_added_by_the_same_command() {
    let add = "zpool add tank b";
    let all = [add, "zpool add tank log b", "zpool attach tank a b"].map(|add| (add, ""));
    for (add, more) in all.into_iter().chain([(add, "zfs create tank/more")]) {
        let place = Place::new(&["a", "b", "c"]);
        place.ok("zpool create tank a");
        let (cache, before) =
            (std::fs::read(place.cache()).unwrap(), place.path().join("a.before"));
        std::fs::copy(place.path().join("a"), &before).unwrap();
        place.ok(add);
        std::fs::copy(&before, place.path().join("a")).unwrap();
        std::fs::remove_file(&before).unwrap();
        std::fs::write(place.cache(), cache).unwrap();
        empty_rings(&place.path().join("b"));
        // Nothing takes it for a part of the pool.
        assert_eq!(place.ok("zpool list -Ho name,health tank"), "tank\tONLINE\n");
        assert!(!place.ok("zpool status -P tank").contains("/b"));
        if !more.is_empty() {
            place.ok(more);
            assert_eq!(place.ok("zpool list -Ho name,health tank"), "tank\tONLINE\n");
        }
        let other = place.fails("zpool create other b");
        assert!(other.contains("potentially active pool 'tank'"), "{other}");
        place.ok(add);
        assert_eq!(place.ok("zpool list -Ho health tank"), "ONLINE\n");
        assert!(place.ok("zpool status -P tank").contains("/b"), "{add}");
        let twice = place.fails(add);
        assert!(twice.contains("is part of active pool 'tank'"), "{twice}");
        place.ok("zpool export tank");
        place.ok("zpool import -d . tank");
    }
}

#[test]
fn a_pool_whose_growing_was_cut_off_is_imported_without_the_new_device() {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank a");
    place.ok("zpool export tank");
    let before = place.path().join("a.before");
    std::fs::copy(place.path().join("a"), &before).unwrap();
    place.ok("zpool add -d . tank b");
    std::fs::rename(&before, place.path().join("a")).unwrap();
    empty_rings(&place.path().join("b"));
    let listed = place.ok("zpool import -d .");
    assert!(listed.contains("state: ONLINE") && !listed.contains("/b"), "{listed}");
    place.ok("zpool import -d . tank");
    place.ok("zpool add tank c");
    place.ok("zpool export tank");
    let listed = place.ok("zpool import -d .");
    assert!(listed.contains("state: ONLINE") && !listed.contains("/b"), "{listed}");
}

#[test]
fn who_waits_for_a_pool_goes_on_at_the_server_that_gets_it() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/fs");
    let mut holder = place.start_here("cp --tar - tank/fs:/");
    let began = Instant::now();
    let mut tried = place.command_here("zfs set --wait 0.3 org.zinc:tried=yes tank");
    while tried.output().unwrap().status.success() {
        assert!(began.elapsed() < Duration::from_secs(120), "the copy never had the pool");
    }
    let server = place.start_here("serve --for 20 tank");
    let verbs =
        ["zfs create tank/w", "zfs list tank", "zpool list", "zfs list", "zfs create tank/v"];
    let all: Vec<Child> = verbs.iter().map(|verb| place.start_here(verb)).collect();
    holder.kill().unwrap();
    holder.wait().unwrap();
    for (child, verb) in all.into_iter().zip(verbs) {
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && err.is_empty(), "{verb}: {err}");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(verb.contains("create") || shown.contains("tank"), "{verb}: {shown}");
    }
    place.ok_here("zpool export tank");
    assert!(server.wait_with_output().unwrap().status.success());
}

#[test]
fn a_server_that_ends_fails_no_command() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    for n in 0..5 {
        let mut server = place.start_here("serve tank");
        let is_there = || !place.ok_here("zpool get -Ho value guid tank").is_empty();
        let sockets = place.path().join("run/zinc");
        while std::fs::read_dir(&sockets).map_or(0, Iterator::count) == 0 {
            assert!(server.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(is_there());
        let kill = Command::new("kill").arg(server.id().to_string()).status().unwrap();
        assert!(kill.success());
        let verbs = [format!("zfs create tank/f{n}"), "zfs list tank".into(), "zpool list".into()];
        let all: Vec<Child> = verbs.iter().map(|verb| place.start_here(verb)).collect();
        for (child, verb) in all.into_iter().zip(verbs) {
            let output = child.wait_with_output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{verb}: {err}");
        }
        server.wait().unwrap();
    }
    assert_eq!(place.ok("zfs list -Ho name").lines().count(), 6);
}

#[test]
fn a_list_that_cannot_be_written_is_said_before_anything_changes() {
    let place = Place::new(&["a"]);
    std::fs::create_dir(place.path().join("run")).unwrap();
    std::fs::write(place.path().join("run/state"), b"").unwrap();
    let err = place.fails("zpool create tank a");
    assert!(err.contains("cannot create 'tank': it cannot be recorded in the list"), "{err}");
    assert!(err.contains("ZINC_STATE names another folder"), "{err}");
    assert!(place.fails("zdb -l a").contains("no label") || place.run("zdb -l a").code != 0);
    let run = place.run("zpool list");
    assert_eq!(run.err.matches("cannot read the list of known pools").count(), 1, "{}", run.err);
    std::fs::remove_file(place.path().join("run/state")).unwrap();
    place.ok("zpool create tank a");
    place.ok("zpool export tank");
    std::fs::remove_dir_all(place.path().join("run/state")).unwrap();
    std::fs::write(place.path().join("run/state"), b"").unwrap();
    let err = place.fails("zpool import -d . tank");
    assert!(err.contains("cannot import 'tank': it cannot be recorded in the list"), "{err}");
    std::fs::remove_file(place.path().join("run/state")).unwrap();
    assert!(place.ok("zpool import -d .").contains("   pool: tank\n"));
}

#[test]
fn spares_and_cache_devices_that_moved_are_named_where_they_are() {
    let place = Place::new(&["a", "c", "s"]);
    place.ok("zpool create tank a cache c spare s");
    for name in ["c", "s"] {
        let here = place.path().join(name);
        std::fs::rename(&here, here.with_file_name(format!("{name}-moved"))).unwrap();
    }
    place.ok("zfs create tank/x");
    let status = place.ok("zpool status -P tank");
    for name in ["c-moved", "s-moved"] {
        assert!(status.contains(place.path().join(name).to_str().unwrap()), "{status}");
    }
    let list = std::fs::read(place.cache()).unwrap();
    assert!(String::from_utf8_lossy(&list).contains("/s-moved"), "written down");
}

#[test]
fn names_that_openzfs_reserves_are_refused() {
    let place = Place::new(&["a"]);
    for name in ["mirror", "mirrors", "raidz-x", "draid0", "spares", "log"] {
        let err = place.fails(&format!("zpool create {name} a"));
        assert_eq!(err, format!("zinc: cannot create '{name}': name is reserved\n"));
    }
    assert!(place.fails(&format!("zpool create {} a", "x".repeat(240))).contains("too long"));
    place.ok("zpool create logs a");
    place.ok("zpool export logs");
    assert!(place.fails("zpool import -d . logs sparetime").contains("name is reserved"));
    // Not any more since OpenZFS 2.1.
    place.ok("zpool import -d . logs c0t0d0");
}

#[test]
fn an_entry_whose_devices_are_elsewhere_by_now_is_in_no_import_s_way() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank a");
    place.ok("zpool create other b");
    std::fs::create_dir(place.path().join("far")).unwrap();
    std::fs::rename(place.path().join("a"), place.path().join("far/a")).unwrap();
    assert!(place.ok("zpool import -d far").contains("   pool: tank\n"));
    assert!(place.fails("zpool import -d far tank other").contains("already exists"));
    place.ok("zpool import -d far tank");
    let status = place.ok("zpool status -P tank");
    assert!(status.contains("/far/a"), "{status}");
    // One that is where it was is imported.
    assert!(place.fails("zpool import -d far tank").contains("already exists"));
    std::fs::copy(place.path().join("b"), place.path().join("far/copy")).unwrap();
    assert!(place.fails("zpool import -d far other").contains("already exists"));
}

#[test]
fn iostat_without_names_shows_known_and_served_pools() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create one a");
    place.ok("zpool create two b");
    place.ok_here("serve -b two");
    let shown = place.ok_here("zpool iostat -H");
    let names: Vec<&str> = shown.lines().filter_map(|l| l.split('\t').next()).collect();
    assert!(names.contains(&"one") && names.contains(&"two"), "{shown}");
    place.ok_here("zpool export two");
}

#[test]
fn a_pool_that_a_server_out_of_reach_has_is_said_to_be_there() {
    let place = Place::new(&["a"]);
    let pool = format!("hidden{}", std::process::id());
    place.ok(&format!("zpool create {pool} a"));
    place.ok(&format!("zpool export {pool}"));
    let line = place.ok_here(&format!("serve -b -d . {pool}"));
    let pid = line.split(" as process ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    // Another folder of sockets is as far away as another user's.
    let far = place.path().join("run/far");
    let output = place.command_here(&format!("zfs list {pool}")).env("ZINC_SOCKETS", far).output();
    let err = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(err.contains(&format!("because: process {pid} of ")), "{err}");
    place.ok_here(&format!("zpool export {pool}"));
}

#[test]
fn a_copy_does_not_take_the_place_of_a_device_that_is_away() {
    let place = Place::new(&["a", "b"]);
    let path = |name: &str| place.path().join(name);
    let away = |name: &str| {
        std::fs::create_dir_all(path("far")).unwrap();
        std::fs::rename(path(name), path("far").join(name)).unwrap();
    };
    let back = |name: &str| std::fs::rename(path("far").join(name), path(name)).unwrap();
    place.ok("zpool create tank a");
    std::fs::copy(path("a"), path("a.copy")).unwrap();
    place.ok("zfs create tank/new");
    away("a");
    let err = place.fails("zfs list -Ho name tank/new");
    assert!(err.contains("its devices are missing"), "{err}");
    assert!(place.fails("zfs create tank/wrong").contains("its devices are missing"));
    // Named by its place it is meant.
    let names = place.ok("zfs list -Ho name -d 9 --dev a.copy -r tank");
    assert_eq!(names, "tank\n");
    back("a");
    assert_eq!(place.ok("zfs list -Ho name -r tank"), "tank\ntank/new\n");
    // Renamed, it is found again beside its copy; a copy with its name is what the list names.
    std::fs::rename(path("a"), path("renamed")).unwrap();
    place.ok("zfs create tank/newer");
    let status = place.ok("zpool status -P tank");
    assert!(status.contains("/renamed") && !status.contains("copy"), "{status}");
    away("renamed");
    place.ok("zpool import -d . tank");
    assert!(place.ok("zpool status -P tank").contains("/a.copy"));
    place.ok("zpool destroy tank");
}

#[test]
fn a_copy_does_not_take_the_place_of_a_side_that_is_away_and_comes_back() {
    let place = Place::new(&["a", "b"]);
    let path = |name: &str| place.path().join(name);
    place.ok("zpool create tank mirror a b");
    std::fs::copy(path("b"), path("b.copy")).unwrap();
    std::fs::create_dir(path("far")).unwrap();
    std::fs::rename(path("b"), path("far/b")).unwrap();
    let status = place.ok("zpool status -P tank");
    assert!(status.contains("DEGRADED") && !status.contains("copy"), "{status}");
    std::fs::rename(path("far/b"), path("b")).unwrap();
    place.ok("zfs create tank/one");
    let status = place.ok("zpool status -P tank");
    assert!(!status.contains("DEGRADED") && !status.contains("copy"), "{status}");
    // The copy is of an older time, and shows that where it is named.
    std::fs::rename(path("b"), path("far/b")).unwrap();
    let output = place.run("zpool status -P -d a -d b.copy tank").out;
    assert!(output.contains("was away") && output.contains("DEGRADED"), "{output}");
}

#[test]
fn a_pool_is_found_wherever_a_change_of_its_entry_is_killed() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank a");
    // So that both files are there.
    place.ok("zpool create -o cachefile=none other b");
    let file = place.path().join("my.cache");
    let at_file = format!("zpool set cachefile={} tank", file.display());
    let lock = |name: &str| state(place.path()).join(format!("{name}.lock"));
    let file_lock = file.with_extension("cache.lock");
    let (lasting, passing) = (lock("zpool.cache"), lock("session.cache"));
    let mut came = 0;
    let changes = ["zpool set cachefile=none tank", &at_file, "zpool set cachefile= tank"];
    for command in changes.into_iter().chain(["zpool reguid tank"; 2]) {
        for lock in [&lasting, &passing, &file_lock] {
            came += u32::from(place.kill_at_lock(lock, command));
            let names = place.ok("zpool list -Ho name");
            assert_eq!(names, "other\ntank\n", "{command}, killed at {}", lock.display());
            place.ok("zpool sync tank");
        }
        place.ok(command);
    }
    assert!(came >= 8, "{came} kills between two writes");
    place.ok("zpool export tank");
    assert!(!file.exists());
}

/// The errors of a pool that nothing serves are counted on by the commands that follow.
#[test]
fn errors_stay_until_they_are_cleared_or_the_pool_is_let_go() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    let noise: Vec<u8> =
        (0u32..1 << 20).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(place.path().join("file"), noise).unwrap();
    place.ok("cp file tank:/");
    let damage = || {
        let file = std::fs::File::options().write(true).open(place.path().join("a")).unwrap();
        // All but the labels.
        let bytes = vec![0x5a; (128 << 20) - (9 << 20)];
        file.write_all_at(&bytes, 8 << 20).unwrap();
    };
    let counts = || -> [u64; 2] {
        let text = place.ok("zpool status -p tank");
        ["/a", "/b"].map(|name| {
            let words = |l: &str| l.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let row =
                text.lines().map(words).find(|w| w.first().is_some_and(|w| w.ends_with(name)));
            row.unwrap()[4].parse().unwrap()
        })
    };
    assert_eq!(counts(), [0, 0]);
    damage();
    place.ok("zpool scrub -w tank");
    let [found, other] = counts();
    assert!(found > 0 && other == 0, "{found} {other}");
    assert_eq!(counts(), [found, other], "a command that only reads changes nothing");
    place.ok("zfs create tank/fs");
    damage();
    place.ok("zpool scrub -w tank");
    let [more, _] = counts();
    assert!(more > found, "{found}, then {more}");
    place.ok("zpool clear tank b");
    assert_eq!(counts(), [more, 0]);
    place.ok("zpool clear tank");
    assert_eq!(counts(), [0, 0]);
    damage();
    place.ok("zpool scrub -w tank");
    assert!(counts()[0] > 0);
    place.ok("zpool export tank");
    place.ok("zpool import -d . tank");
    assert_eq!(counts(), [0, 0]);
}
