//! Pools on disks in a directory store: the verbs, a zinc that is killed, and what OpenZFS says of
//! the image that is copied out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use engine::Rt;
use engine::devices::FarName;
use engine::devices::disk::{self, LogDevice, Options, WriterId};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::place::{Place, until};
use testkit::oracle;

/// The name of a store of the place.
fn store(place: &Place, name: &str) -> String {
    format!("dir://{}/{name}", place.path().display())
}

/// Makes a disk in a new store.
fn disk(place: &Place, name: &str) -> String {
    let store = store(place, name);
    place.ok_here(&format!("far create {store} 256M"));
    store
}

/// Bytes that do not compress.
fn noise(place: &Place, name: &str, mib: u64, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(mib << 20).unwrap()];
    testkit::Rng::new(seed).fill(&mut bytes);
    std::fs::write(place.path().join(name), &bytes).unwrap();
    bytes
}

fn cat(place: &Place, what: &str) -> Vec<u8> {
    let output = place.command_here(&format!("cat {what}")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Takes a disk over as a program of another machine does.
fn take_elsewhere(store: &str) -> Arc<LogDevice> {
    let name = FarName::parse(store.as_ref()).unwrap().unwrap();
    let who = WriterId { host: "elsewhere".to_owned(), pid: 7 };
    let options = Options { who, is_tended: false, ..Options::default() };
    let store = disk::store(&name).unwrap();
    LogDevice::claim(store, name.as_str(), &Rt::real(), options, None).unwrap()
}

/// What OpenZFS says of a pool whose devices are these stores, as images.
fn judge(place: &Place, pool: &str, stores: &[&str]) {
    let folder = tempfile::tempdir_in(place.path()).unwrap();
    for (n, name) in stores.iter().enumerate() {
        let image = folder.path().join(n.to_string());
        place.ok_here(&format!("far check {name}"));
        place.ok_here(&format!("far copy {name} {}", image.display()));
    }
    oracle::judge(folder.path(), pool);
}

/// What was asked of the store of this device is told; a directory costs nothing.
fn is_counted(place: &Place, device: &str) {
    let table = place.ok_here("zpool iostat -lp tank");
    let row = table.lines().find(|line| line.starts_with(device)).expect("a line for the store");
    let cells: Vec<&str> = row.split_whitespace().collect();
    let gets: u64 = cells[2].parse().unwrap();
    let received: u64 = cells[7].parse().unwrap();
    assert!(gets > 0 && received > 1 << 20 && cells[8] == "-", "{table}");
    assert!(!place.ok_here("zpool iostat -lH tank").contains("creates"));
    let json = place.ok_here("zpool status -j tank");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let json = json.to_string();
    assert!(json.contains("\"received_bytes\""), "{json}");
    let status = place.ok_here("zpool status -s tank");
    assert!(status.contains("asked of stores since the pool was opened"), "{status}");
}

#[test]
fn verbs_take_names_of_stores() {
    let place = Place::new(&["a"]);
    let none = store(&place, "none");
    for verb in ["zpool create tank", "zpool import -d", "far ls"] {
        let why = place.fails(&format!("{verb} {none}"));
        assert!(why.contains("none") && why.contains("there is no such directory"), "{why}");
    }
    let [one, two] = ["one", "two"].map(|name| disk(&place, name));
    assert!(place.fails(&format!("far create {one} 1G")).contains("a disk in this store already"));
    assert!(place.fails(&format!("zpool create tank {one} {one}")).contains("same device"));
    assert!(place.fails("far ls nbd://host/e").contains("not a name of a store"));
    place.ok_here(&format!("zpool create tank {one}"));
    assert!(place.fails(&format!("zpool create -f other {one}")).contains("active pool 'tank'"));
    let bytes = noise(&place, "x", 24, 1);
    place.ok_here("cp x tank:/");
    assert!(place.ok_here("zpool status tank").contains(&one));
    assert!(place.ok_here("zpool iostat -v tank").contains("one"));
    // A mirror of a file here and a store.
    let file = format!("{}/a", place.path().display());
    std::fs::File::options().write(true).open(&file).unwrap().set_len(256 << 20).unwrap();
    place.ok_here(&format!("zpool attach -w tank {one} {file}"));
    place.ok_here(&format!("zpool replace -w tank {one} {two}"));
    place.ok_here(&format!("zpool add -f tank log {one}"));
    place.ok_here(&format!("zpool remove tank {one}"));
    place.ok_here("zpool scrub -w tank");
    let status = place.ok_here("zpool status tank");
    assert!(status.contains("with 0 errors") && status.contains(&two), "{status}");
    place.ok_here(&format!("zpool detach tank {file}"));
    place.ok_here("zpool export tank");
    place.ok_here(&format!("zpool import -d {two} tank"));
    assert!(cat(&place, "tank:/x") == bytes);
    is_counted(&place, &two);
    place.ok_here("zpool export tank");
    judge(&place, "tank", &[&two]);
    let listed = place.ok_here(&format!("far ls {two}"));
    assert!(listed.contains("size: 256M") && listed.contains("state: closed"), "{listed}");
}

#[test]
fn a_cache_that_cannot_be_used_is_told() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    std::fs::create_dir(place.path().join("cache")).unwrap();
    let run = |command: &str, cache: &str, size: &str| {
        let mut command = place.command_here(command);
        command.env("ZINC_CACHE", place.path().join(cache)).env("ZINC_CACHE_SIZE", size);
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{err}");
        (out, err)
    };
    let remark = "(its cache cannot be used: ZINC_CACHE, ZINC_CACHE_SIZE)";
    assert!(!run("zpool status tank", "cache", "1G").0.contains(remark));
    for (cache, size) in [("absent", "1G"), ("cache", "much")] {
        let (status, _) = run("zpool status tank", cache, size);
        let row = status.lines().find(|line| line.contains(&one)).expect("a row for the store");
        assert!(row.contains("ONLINE") && row.ends_with(remark), "{status}");
    }
    // A size that is none costs the cache and not the pool.
    let (_, warning) = run("zfs create tank/home", "cache", "much");
    assert!(warning.contains("ZINC_CACHE_SIZE is not a size"), "{warning}");
    assert_eq!(run("zfs create tank/more", "cache", "1G").1, "");
}

#[test]
fn a_zinc_that_is_killed_leaves_a_whole_pool() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    noise(&place, "x", 24, 4);
    for round in 0..5 {
        let mut copy = place.start_here(&format!("cp -f x tank:/x{round}"));
        std::thread::sleep(Duration::from_millis(20 + 80 * round));
        copy.kill().unwrap();
        copy.wait().unwrap();
        place.ok_here("check tank");
    }
    let last = noise(&place, "y", 3, 5);
    place.ok_here("cp y tank:/");
    place.ok_here("zpool export tank");
    judge(&place, "tank", &[&one]);
    place.ok_here(&format!("zpool import -d {one} tank"));
    assert!(cat(&place, "tank:/y") == last);
    place.ok_here("zpool export tank");
}

#[test]
fn what_is_copied_in_and_cleaned_up_is_the_same_pool() {
    let place = Place::new(&["a"]);
    place.ok_here(&format!("zpool create tank {}/a", place.path().display()));
    let bytes = noise(&place, "x", 16, 7);
    place.ok_here("cp x tank:/");
    place.ok_here("zpool export tank");
    let one = disk(&place, "one");
    place.ok_here(&format!("far copy a {one}"));
    place.ok_here(&format!("zpool import -d {one} tank"));
    let pin = place.ok_here(&format!("far pin {one}"));
    for round in 0..3 {
        noise(&place, "z", 12, round);
        place.ok_here("cp -f z tank:/");
    }
    place.ok_here("zpool export tank");
    // What is pinned is kept, then deleted.
    let kept = |text: String| {
        let deleted = text.split("; ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        deleted.parse::<u64>().expect(&text)
    };
    let first = kept(place.ok_here(&format!("far gc {one}")));
    place.ok_here(&format!("far pin --remove {} {one}", pin.trim()));
    assert!(place.fails(&format!("far pin --remove {} {one}", pin.trim())).contains("no pin"));
    let second = kept(place.ok_here(&format!("far gc --below 60 {one}")));
    assert!(second > 0, "{first} and {second} segments");
    judge(&place, "tank", &[&one]);
    place.ok_here(&format!("zpool import -d {one} tank"));
    assert!(cat(&place, "tank:/x") == bytes);
    place.ok_here("zpool export tank");
}

/// A store that was restored as a whole from an older copy has nothing that contradicts it but what
/// this machine has seen.
#[test]
fn a_store_that_was_set_back_as_a_whole_is_refused() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    let bytes = noise(&place, "x", 1, 8);
    place.ok_here("cp x tank:/");
    place.ok_here("zpool export tank");
    let [here, copy, newer] = ["one", "copy", "newer"].map(|name| place.path().join(name));
    let copied = std::process::Command::new("cp").arg("-a").args([&here, &copy]).status().unwrap();
    assert!(copied.success());
    place.ok_here(&format!("zpool import -d {one} tank"));
    place.ok_here("cp x tank:/y");
    place.ok_here("zpool export tank");
    let seen = files(&place.path().join("run/state/seen"));
    let [(remembered, _)] = &seen[..] else { panic!("{seen:?}") };
    let remembered = remembered.to_str().unwrap();
    std::fs::rename(&here, &newer).unwrap();
    std::fs::rename(&copy, &here).unwrap();
    let before = files(&here);
    for command in ["zpool import -d", "zpool import -o readonly=on -d", "far gc"] {
        let pool = if command == "far gc" { "" } else { "tank" };
        let why = place.fails(&format!("{command} {one} {pool}"));
        assert!(why.contains("set back") && why.contains(remembered), "{command}: {why}");
    }
    assert_eq!(files(&here), before);
    assert!(place.ok_here(&format!("far ls {one}")).contains("state: closed"));
    // The state that is not behind, and then the older one on purpose.
    std::fs::rename(&here, &copy).unwrap();
    std::fs::rename(&newer, &here).unwrap();
    place.ok_here(&format!("zpool import -d {one} tank"));
    place.ok_here("zpool export tank");
    std::fs::rename(&here, &newer).unwrap();
    std::fs::rename(&copy, &here).unwrap();
    std::fs::remove_file(remembered).unwrap();
    place.ok_here(&format!("zpool import -d {one} tank"));
    assert!(cat(&place, "tank:/x") == bytes);
    place.ok_here("zpool export tank");
}

/// What is in a folder and those below it, with sizes.
fn files(folder: &std::path::Path) -> Vec<(std::path::PathBuf, u64)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let size = path.metadata().unwrap().len();
            all.push((path, size));
        }
    }
    all.sort();
    all
}

/// An object that is lost in the middle is not the end of the log: the pool does not go back.
#[test]
fn a_store_that_lost_an_object_is_not_imported() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    for round in 0..3 {
        noise(&place, "x", 1, round);
        place.ok_here("cp -f x tank:/");
    }
    place.ok_here("zpool export tank");
    let folder = place.path().join("one");
    let lost = files(&folder.join("log"))[6].0.clone();
    let bytes = std::fs::read(&lost).unwrap();
    std::fs::remove_file(&lost).unwrap();
    let before = files(&folder);
    let object = lost.strip_prefix(&folder).unwrap().to_str().unwrap();
    let check = format!("far check {one}");
    for command in ["zpool import -d", "zpool import -o readonly=on -d"] {
        let message = place.fails(&format!("{command} {one} tank"));
        assert!(message.contains(object) && message.contains(&check), "{message}");
        assert!(!message.contains("check the path"), "{message}");
    }
    let listed = place.run(&format!("far ls {one}"));
    assert!(listed.code != 0 && listed.err.contains(object), "{}", listed.err);
    assert!(listed.err.contains("zinc far check"), "{}", listed.err);
    for seen in ["size: 256M", "state: cannot be opened", "writer: 1 on "] {
        assert!(listed.out.contains(seen), "{}", listed.out);
    }
    let found = place.run(&check);
    assert_eq!(found.code, 3, "{}", found.err);
    assert!(
        found.out.contains(&format!("{object}: it is missing; behind it are")),
        "{}",
        found.out
    );
    assert_eq!(files(&folder), before, "something was written");
    std::fs::write(&lost, bytes).unwrap();
    place.ok_here(&check);
    place.ok_here(&format!("zpool import -d {one} tank"));
    place.ok_here("zpool export tank");
    // A damaged object is named, and what is behind it is verified.
    std::fs::write(&lost, []).unwrap();
    let found = place.run(&check);
    assert_eq!(found.code, 3, "{}", found.err);
    assert!(found.out.contains(&format!("{object}: it is too short")), "{}", found.out);
}

#[test]
fn a_disk_is_made_where_nothing_else_is() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    noise(&place, "x", 3, 1);
    place.ok_here("cp x tank:/");
    place.ok_here("zpool export tank");
    // Among its objects, where there are some or none yet.
    for inside in ["log", "sub"] {
        let why = place.fails(&format!("far create {one}/{inside} 256M"));
        assert!(why.contains(&format!("the disk in {one}")), "{why}");
    }
    assert!(!place.path().join("one/sub").exists());
    // What is left of a disk is not written over, and no new disk is offered in its place.
    std::fs::remove_file(place.path().join("one/super")).unwrap();
    let why = place.fails(&format!("far create {one} 256M"));
    assert!(why.contains("the store is not empty: it has "), "{why}");
    let why = place.fails(&format!("far ls {one}"));
    assert!(why.contains("objects are there") && !why.contains("far create"), "{why}");
    std::fs::create_dir(place.path().join("none")).unwrap();
    let why = place.fails(&format!("far ls {}", store(&place, "none")));
    assert!(why.contains("far create"), "{why}");
}

#[test]
fn what_a_disk_holds_is_written_over_by_force_alone() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    std::fs::write(place.path().join("image"), vec![7; 1 << 20]).unwrap();
    place.ok_here(&format!("far copy image {one}"));
    place.ok_here(&format!("zpool create tank {one}"));
    // A pool that is in use here is not even given up by force.
    for force in ["", "-f"] {
        let why = place.fails(&format!("far copy {force} image {one}"));
        assert!(why.contains("is part of active pool 'tank'"), "{why}");
    }
    place.ok_here("zpool export tank");
    let why = place.fails(&format!("far copy image {one}"));
    assert!(why.contains("is part of exported pool 'tank'") && why.contains("'-f'"), "{why}");
    place.ok_here(&format!("zpool import -d {one} tank"));
    place.ok_here("zpool export tank");
    place.ok_here(&format!("far copy -f image {one}"));
    place.ok_here(&format!("far copy {one} back"));
    let back = std::fs::read(place.path().join("back")).unwrap();
    assert!(back[..1 << 20].iter().all(|byte| *byte == 7));
    assert!(back[1 << 20..].iter().all(|byte| *byte == 0));
    let why = place.fails(&format!("far copy /dev/zero {one}"));
    assert!(why.contains("neither a regular file nor a block device"), "{why}");
    for pipe in [format!("far copy {one} -"), format!("far copy - {one}")] {
        assert!(place.fails(&pipe).contains("not through a pipe"));
    }
    assert!(!place.path().join("-").exists());
}

#[test]
fn a_writer_that_has_a_disk_open_is_not_replaced_unasked() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    let mut serve = place.start_here("serve tank");
    until("it is served", || place.ok_here(&format!("far ls {one}")).contains("state: open"));
    std::fs::write(place.path().join("image"), vec![7; 1 << 20]).unwrap();
    for verb in [format!("far gc {one}"), format!("far copy image {one}")] {
        let why = place.fails(&verb);
        let process = format!("(process {}) since", serve.id());
        assert!(why.contains(&process) && why.contains("has it open"), "{why}");
    }
    serve.kill().unwrap();
    serve.wait().unwrap();
    // It is known to be gone.
    place.ok_here(&format!("far gc {one}"));
    place.ok_here("zpool export tank");
    judge(&place, "tank", &[&one]);
}

#[test]
fn a_pool_whose_disk_was_taken_over_says_so_and_lets_go() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    let mut serve = place.serve("tank");
    noise(&place, "x", 3, 1);
    // Without the lock of this machine it is as on another one.
    std::fs::remove_file(engine::devices::whole(one.as_ref())).unwrap();
    let mut taker = place.start_here(&format!("far gc -f {one}"));
    let gc = taker.id();
    assert!(taker.wait().unwrap().success());
    let output = place.command_here("cp x tank:/").output().unwrap();
    assert!(!output.status.success());
    let status = || place.ok_here("zpool status tank");
    until("the pool is suspended", || status().contains("SUSPENDED"));
    let status = status();
    assert!(status.contains("Another writer has taken over a device of the pool."), "{status}");
    assert!(!status.contains("zpool clear"), "{status}");
    let who = format!("process {gc}) has taken over {one}");
    until("it is known which", || place.ok_here("zpool status tank").contains(&who));
    // It is not taken back.
    let output = place.command_here("zpool clear tank").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains(&who), "{text}");
    assert!(!output.status.success() && text.contains("`zinc zpool export -f`"), "{text}");
    assert!(!text.contains("nothing is lost"), "{text}");
    place.ok_here("zpool export -f tank");
    serve.wait().unwrap();
    judge(&place, "tank", &[&one]);
}

/// Programs on a mount get an error: no device comes back that they could wait for.
#[testkit::needs("fuse")]
#[test]
fn programs_on_a_mount_do_not_wait_for_a_disk_that_was_taken_over() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    let mount = place.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    place.ok_here(&format!("mount tank {}", mount.display()));
    std::fs::write(mount.join("before"), "1").unwrap();
    let other = take_elsewhere(&one);
    let (send, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let made = std::fs::File::create(mount.join("after")).and_then(|file| file.sync_all());
        let _ = send.send(made);
    });
    let answer = answer.recv_timeout(Duration::from_secs(60));
    place.ok_here("zpool export -f tank");
    assert!(matches!(answer, Ok(Err(_))), "{answer:?}");
    drop(other);
}

/// Whatever the labels say of hosts: the store knows its writer.
#[test]
fn a_disk_that_another_machine_has_open_is_imported_by_force_alone() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    place.ok_here("zpool export tank");
    let other = take_elsewhere(&one);
    let why = place.fails(&format!("zpool import -d {one} tank"));
    assert!(why.contains("on elsewhere (process 7) has") && why.contains("-f"), "{why}");
    let listed = place.ok_here(&format!("zpool import -d {one}"));
    assert!(listed.contains("accessed by another system"), "{listed}");
    // To read it no force is needed.
    place.ok_here(&format!("check -d {one} tank"));
    place.ok_here(&format!("zpool import -f -d {one} tank"));
    drop(other);
    place.ok_here("zfs create tank/here");
    // A pool that is imported here is not taken back from another machine either.
    let other = take_elsewhere(&one);
    let why = place.fails("zfs create tank/data");
    assert!(why.contains("on elsewhere (process 7) has"), "{why}");
    // That one ends in order.
    drop(other);
    place.ok_here("zfs create tank/data");
    place.ok_here("zpool export tank");
    judge(&place, "tank", &[&one]);
}

/// A store that is back within the time of its name is waited for.
#[test]
fn a_store_that_was_away_is_used_again() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}?timeout=600"));
    let mut serve = place.serve("tank");
    let (here, away) = (place.path().join("one"), place.path().join("away"));
    std::fs::rename(&here, &away).unwrap();
    let mut waiting = place.start_here("zfs create tank/data");
    std::thread::sleep(Duration::from_secs(7));
    let began = Instant::now();
    let status = place.ok_here("zpool status tank");
    assert!(began.elapsed() < Duration::from_secs(100), "{status}");
    assert!(!status.contains("SUSPENDED"), "{status}");
    assert!(status.contains("(its store has not answered for "), "{status}");
    std::fs::rename(&away, &here).unwrap();
    assert!(waiting.wait().unwrap().success());
    place.ok_here("zfs create tank/more");
    assert!(place.ok_here("zpool status tank").contains("state: ONLINE"));
    place.ok_here("zpool export tank");
    serve.wait().unwrap();
    judge(&place, "tank", &[&one]);
}

/// Neither a timer nor a look at the pool asks the store of a pool in which nothing happens.
#[test]
fn a_pool_that_is_idle_costs_no_request() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    let mut serve = place.serve("tank");
    place.ok_here("zfs create tank/data");
    let requests = || {
        place.ok_here("zpool status tank");
        let table = place.ok_here("zpool iostat -lp tank");
        table.lines().rfind(|line| line.starts_with(&one)).expect("a line for it").to_owned()
    };
    let mut last = requests();
    // Longer than a txg stays open: the last one may be under way.
    let is_quiet = (0..8).any(|_| {
        std::thread::sleep(Duration::from_secs(7));
        let before = std::mem::replace(&mut last, requests());
        before == last
    });
    assert!(is_quiet, "{last}");
    place.ok_here("zpool export tank");
    serve.wait().unwrap();
}

/// A txg of a pool with this device alone is one object: blocks and uberblock, in this order. A
/// property is stored by one, and its line in the history by another.
#[test]
fn a_txg_costs_one_create() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    let mut serve = place.serve("tank");
    place.ok_here("zfs set a:b=0 tank");
    let creates = || {
        let table = place.ok_here("zpool iostat -lp tank");
        let row = table.lines().rfind(|line| line.starts_with(&one)).expect("a line for it");
        row.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = creates();
    (1..=8).for_each(|n| drop(place.ok_here(&format!("zfs set a:b={n} tank"))));
    let created = creates() - before;
    println!("{created} creates for eight properties");
    // A txg that was open for long may be among them.
    assert!((8..24).contains(&created), "{created} creates for eight properties");
    // Whatever was done is there for one that takes over, without an end of the first.
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert!(place.ok_here("zfs get -H -o value a:b tank").contains('8'));
    place.ok_here("zpool export tank");
    judge(&place, "tank", &[&one]);
}

/// Reading in order, and a scrub, ask for much at a time: each request has a price. How many there
/// are for each MiB does not depend on how fast the machine is.
#[test]
fn a_pool_that_is_read_in_order_costs_few_requests() {
    const MIB: u64 = 64;
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create -O compression=off tank {one}"));
    let bytes = noise(&place, "x", MIB, 3);
    place.ok_here("cp x tank:/");
    let gets = || {
        let table = place.ok_here("zpool iostat -lp tank");
        let row = table.lines().rfind(|line| line.starts_with(&one)).expect("a line for it");
        row.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap()
    };
    // What was written is in no memory any more.
    place.ok_here("zpool export tank");
    place.ok_here(&format!("zpool import -d {one} tank"));
    let mut serve = place.serve("tank");
    place.ok_here("ls tank:/");
    let before = gets();
    assert!(cat(&place, "tank:/x") == bytes);
    let read = gets() - before;
    place.ok_here("zpool export tank");
    serve.wait().unwrap();
    place.ok_here(&format!("zpool import -d {one} tank"));
    let mut serve = place.serve("tank");
    let before = gets();
    place.ok_here("zpool scrub -w tank");
    let scrubbed = gets() - before;
    place.ok_here("zpool export tank");
    serve.wait().unwrap();
    println!("{read} to read {MIB} MiB, {scrubbed} to scrub it");
    // An object has 16 of them, and is read once; files and the pool itself begin with small reads.
    // Of pieces of each reader's own there were 20 to 30.
    let most = MIB / 4;
    assert!(read <= most && scrubbed <= most, "{read} and {scrubbed} requests for {MIB} MiB");
}

/// One that is away for longer than that is given up then, however much there is to read; and what
/// waited goes on when it is back.
#[test]
fn a_store_that_is_away_for_too_long_suspends_the_pool() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}?timeout=10"));
    let mut serve = place.serve("tank");
    let (here, away) = (place.path().join("one"), place.path().join("away"));
    std::fs::rename(&here, &away).unwrap();
    let began = Instant::now();
    // The first one fails if it has to read something that is not in memory; the second one has
    // something to write in any case.
    let changes = ["zfs create tank/data", "zpool set comment=away tank"];
    let waiting = changes.map(|change| place.start_here(change));
    loop {
        let look = Instant::now();
        let status = place.ok_here("zpool status tank");
        assert!(look.elapsed() < Duration::from_secs(60), "{status}");
        if status.contains("state: SUSPENDED") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{status}");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::fs::rename(&away, &here).unwrap();
    place.ok_here("zpool clear tank");
    // They may have been told meanwhile that their changes were not done yet.
    for mut change in waiting {
        change.wait().unwrap();
    }
    place.ok_here("zfs create -p tank/data/more");
    assert!(place.ok_here("zpool status tank").contains("state: ONLINE"));
    place.ok_here("zpool export tank");
    serve.wait().unwrap();
    judge(&place, "tank", &[&one]);
}

/// Nor is one taken back that another machine took over while it was away.
#[test]
fn a_store_that_was_taken_over_while_it_was_away_is_not_taken_back() {
    let place = Place::new(&[]);
    let disk = disk(&place, "disk");
    let (folder, link) = (place.path().join("disk"), place.path().join("link"));
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    let one = store(&place, "link");
    place.ok_here(&format!("zpool create tank {one}?timeout=10"));
    let mut serve = place.serve("tank");
    std::fs::remove_file(&link).unwrap();
    let mut change = place.start_here("zpool set comment=away tank");
    let status = || place.ok_here("zpool status tank");
    until("the pool is suspended", || status().contains("state: SUSPENDED"));
    let other = take_elsewhere(&disk);
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    let why = place.command_here("zpool clear tank").output().unwrap();
    let text = String::from_utf8_lossy(&why.stderr);
    assert!(!why.status.success() && text.contains("on elsewhere (process 7) has"), "{text}");
    assert!(status().contains("state: SUSPENDED"));
    // That one still is the writer, and ends without a change.
    other.age().unwrap();
    drop(other);
    place.ok_here("zpool clear tank");
    change.wait().unwrap();
    place.ok_here("zfs create tank/data");
    assert!(status().contains("state: ONLINE"));
    place.ok_here("zpool export tank");
    serve.wait().unwrap();
    judge(&place, "tank", &[&disk]);
}

/// The directory of a store that is not mounted is a device that is missing.
#[test]
fn a_mirror_does_without_a_store_whose_directory_is_not_there() {
    let place = Place::new(&["a"]);
    let one = disk(&place, "one");
    let file = format!("{}/a", place.path().display());
    std::fs::File::options().write(true).open(&file).unwrap().set_len(256 << 20).unwrap();
    place.ok_here(&format!("zpool create -f tank mirror {file} {one}"));
    let (here, away) = (place.path().join("one"), place.path().join("away"));
    std::fs::rename(&here, &away).unwrap();
    place.ok_here("zfs create tank/data");
    let status = place.ok_here("zpool status tank");
    assert!(status.contains("state: DEGRADED"), "{status}");
    std::fs::rename(&away, &here).unwrap();
    place.ok_here("zfs create tank/more");
    place.ok_here("zpool scrub -w tank");
    let status = place.ok_here("zpool status tank");
    assert!(status.contains("state: ONLINE") && status.contains("with 0 errors"), "{status}");
    place.ok_here("zpool export tank");
}

#[test]
fn what_a_month_costs_is_said() {
    let place = Place::new(&[]);
    let one = disk(&place, "one");
    place.ok_here(&format!("zpool create tank {one}"));
    noise(&place, "x", 24, 11);
    place.ok_here("cp x tank:/");
    place.ok_here("zpool export tank");
    // A dollar for each GiB: 24 MiB and little more are kept.
    std::fs::write(place.path().join("prices"), "keep = 1 # a GiB\nsource = a test\n").unwrap();
    let table = place.ok_here(&format!("far cost --busy 0 --prices prices {one}"));
    let kept = table.lines().find(|line| line.starts_with("kept")).unwrap();
    let dollars: f64 = kept.split_whitespace().last().unwrap().parse().unwrap();
    assert!((0.02..0.05).contains(&dollars) && table.contains("a test (no date)"), "{table}");
    std::fs::write(place.path().join("prices"), "keeps = 1\n").unwrap();
    let why = place.fails("far cost --prices prices");
    assert!(why.contains("'keeps' has no price"), "{why}");
    assert!(place.fails("far cost --prices none").contains("No such file"));
    assert!(place.fails("far cost --prices /dev/zero").contains("longer than"));
    assert!(place.fails("far cost --record 0").contains("--record"));
    assert!(place.fails("far cost --txg 0").contains("--txg"));
    assert!(place.fails("far cost nbd://host/e").contains("not a name of a store"));
}
