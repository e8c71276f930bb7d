//! `zinc zpool`, against what `zpool` of OpenZFS printed of the same pools.
//!
//! The manifests were written after an import for writing, which changed a little metadata: where
//! allocation shows, it may differ by that.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use serde_json::Value;
use std::path::Path;
use support::place::Place;
use support::{arg, zinc};
use testkit::{CorpusPool, corpus, corpus_cases, fixture};

/// All cases whose manifest shows the pool as it is on the images: the logs of the two left out
/// were replayed before.
fn cases() -> Vec<CorpusPool> {
    let mut names = corpus_cases();
    names.retain(|n| n != "ziluncle" && n != "zil-slog");
    names.iter().map(|n| corpus(n)).collect()
}

fn text<'v>(case: &'v CorpusPool, member: &str) -> &'v str {
    case.manifest[member].as_str().unwrap()
}

#[test]
fn status_is_what_openzfs_printed() {
    for case in cases() {
        let ours = zinc(&["zpool", "status", "-P", "-d", arg(&case.dir), case.name()]).ok();
        // They were imported there, and are exported here.
        let ours = ours.replace(" (EXPORTED)\n", "\n");
        // What zinc says of its own is behind the rest.
        let mut ours = ours.split("\nnote: zinc does not do").next().unwrap_or_default().to_owned();
        let set = case.manifest["pool_properties"]["compatibility"].as_str();
        let is_here = |set: &str| Path::new("/usr/share/zfs/compatibility.d").join(set).exists();
        if set.is_some_and(|set| set != "off" && !is_here(set)) {
            // That system had the file of the pool's set of features.
            let (head, rest) = ours.split_once("status: This pool has a compat").unwrap();
            ours = format!("{head}{}", &rest[rest.find("config:").unwrap()..]);
        }
        let mut theirs = text(&case, "status").to_owned();
        if case.case == "removed" {
            // The device had another name when the manifest was made.
            theirs = theirs.replace("/dev/vde ", "/dev/img2");
        }
        // That import freed blocks, which the checkpoint keeps.
        theirs = theirs.replace("consumes 269K", "consumes 268K");
        if case.case == "degraded-mirror" {
            // That system had read damaged blocks before.
            assert!(ours.contains("\t  mirror-0     ONLINE       0     0     0\n"), "{ours}");
            continue;
        }
        assert_eq!(ours, theirs, "{}", case.case);
    }
}

#[test]
fn the_list_has_the_lines_openzfs_printed() {
    for case in cases() {
        let ours = zinc(&["zpool", "list", "-vP", "-d", arg(&case.dir), case.name()]).ok();
        let ours = ours.replace("EXPORTED", "  ONLINE");
        let theirs = text(&case, "vdev_list").replace("/dev/vde ", "/dev/img2");
        let words = |line: &str| -> Vec<String> {
            let all: Vec<&str> = line.split_whitespace().collect();
            // Names, sizes, ratio and health; what is allocated moved.
            let kept = all.iter().enumerate().filter(|(i, _)| ![2, 3, 4, 6, 7].contains(i));
            kept.map(|(_, w)| (*w).to_owned()).collect()
        };
        assert_eq!(ours.lines().next(), theirs.lines().next(), "{}", case.case);
        let [a, b]: [Vec<_>; 2] = [&ours, &theirs].map(|t| t.lines().map(words).collect());
        assert_eq!(a, b, "{}:\n{ours}\n{theirs}", case.case);
        let width = |t: &str| t.lines().map(|l| l.trim_end().len()).collect::<Vec<_>>();
        assert_eq!(width(&ours), width(&theirs), "{}:\n{ours}\n{theirs}", case.case);
    }
}

#[test]
fn get_shows_the_properties_openzfs_showed() {
    for case in cases() {
        let ours = zinc(&["zpool", "get", "-Hp", "all", "-d", arg(&case.dir), case.name()]).ok();
        let find = |name: &str| {
            let rows = ours.lines().map(|l| l.split('\t').collect::<Vec<_>>());
            let found = rows.into_iter().find(|r| r[1] == name);
            found.map(|r| r[2].to_owned()).unwrap_or_else(|| panic!("{}: no {name}", case.case))
        };
        for name in ["size", "health", "guid", "dedupratio", "ashift", "compatibility", "failmode"]
        {
            let theirs = case.manifest["pool_properties"][name].as_str().unwrap();
            assert_eq!(find(name), theirs, "{} {name}", case.case);
        }
        for (name, state) in case.manifest["features"].as_object().unwrap() {
            assert_eq!(find(&format!("feature@{name}")), *state, "{} {name}", case.case);
        }
    }
}

#[test]
fn import_shows_whole_pools() {
    for case in cases() {
        let out = zinc(&["zpool", "import", "-d", arg(&case.dir)]).ok();
        let (name, guid) = (case.name(), text(&case, "guid"));
        let state = text(&case, "pool_state");
        let head = format!("   pool: {name}\n     id: {guid}\n  state: {state}\n");
        assert!(out.starts_with(&head), "{out}");
        for (n, image) in case.numbers.iter().zip(&case.images) {
            assert!(out.contains(arg(image)), "{}: image {n} is not in\n{out}", case.case);
        }
        assert!(!out.contains("because:"), "{out}");
    }
}

#[test]
fn import_says_what_is_missing() {
    let case = fixture("sample");
    let out = zinc(&["zpool", "import", "-d", arg(&case.images[0])]).ok();
    assert!(out.contains("  state: DEGRADED\n"), "{out}");
    assert!(out.contains("see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-2Q\n"), "{out}");
    assert!(out.contains("/dev/img1"), "{out}");
    assert!(out.contains("of mirror-0 is missing, was /dev/img1\n"), "{out}");

    let case = fixture("draid");
    let places: Vec<&str> = case.images[..4].iter().flat_map(|p| ["-d", arg(p)]).collect();
    let args = [&["zpool", "import"][..], &places].concat();
    let out = zinc(&args).ok();
    assert!(out.contains("  state: UNAVAIL\n"), "{out}");
    assert!(out.contains("Attach the missing\n\tdevices and try again.\n"), "{out}");
    assert_eq!(out.matches(" is missing, was /dev/img").count(), 4, "{out}");
}

#[test]
fn import_tells_top_level_vdevs_that_no_label_describes() {
    let case = fixture("removed");
    let out = zinc(&["zpool", "import", "-d", arg(&case.images[0])]).ok();
    assert!(out.contains("  state: UNAVAIL\n"), "{out}");
    assert!(out.contains("Additional devices are known to be part of this pool"), "{out}");
}

#[test]
fn a_pool_without_its_metadata_is_faulted() {
    use std::os::unix::fs::FileExt as _;
    let case = fixture("gang");
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk");
    std::fs::copy(&case.images[0], &image).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
    let size = file.metadata().unwrap().len();
    // All but the labels.
    let (start, end) = (4 << 20, size - (1 << 20));
    for at in (start..end).step_by(1 << 20) {
        file.write_all_at(&vec![0xa5; (end - at).min(1 << 20) as usize], at).unwrap();
    }
    let out = zinc(&["zpool", "import", "-d", arg(&image)]).ok();
    assert!(out.contains("  state: FAULTED\nstatus: The pool metadata is corrupted.\n"), "{out}");
    assert!(out.contains("FAULTED  corrupted data\n"), "{out}");
    assert!(out.contains("because: cannot open 'gangs' at txg "), "{out}");
    let run = zinc(&["zpool", "list", "-d", arg(dir.path())]);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.err.contains("hint: an older state may be intact"), "{}", run.err);
}

#[test]
fn txgs_are_judged_newest_first() {
    let case = fixture("gang");
    let value =
        zinc(&["zpool", "import", "--txgs", "-j", "--json-int", "-d", arg(&case.dir)]).json();
    let txgs = value["pools"]["gangs"]["txgs"].as_array().unwrap();
    let numbers: Vec<u64> = txgs.iter().map(|t| t["txg"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|w| w[0] > w[1]), "{numbers:?}");
    assert_eq!(txgs[0]["intact"], true);
    assert_eq!(txgs[0]["copies"], 4);
    let newest = numbers[0].to_string();
    let pool = ["zpool", "list", "-Ho", "name", "--txg", &newest, "-d", arg(&case.dir), "gangs"];
    assert_eq!(zinc(&pool).ok(), "gangs\n");
}

#[test]
fn json_names_every_device() {
    let case = fixture("draid");
    let dir = arg(&case.dir);
    let value = zinc(&["zpool", "status", "-jP", "-d", dir]).json();
    assert_eq!(value["output_version"]["command"], "zpool status");
    let pool = &value["pools"]["dr"];
    assert_eq!(pool["pool_guid"], case.manifest["guid"]);
    let draid = &pool["vdevs"]["dr"]["vdevs"]["draid2:3d:8c:1s-0"];
    assert_eq!(draid["vdevs"].as_object().map(serde_json::Map::len), Some(8));
    assert_eq!(pool["spares"]["draid2-0-0"]["state"], "AVAIL");

    let value = zinc(&["zpool", "list", "-jp", "--json-int", "-d", dir]).json();
    let size = &value["pools"]["dr"]["properties"]["size"]["value"];
    let theirs = case.manifest["pool_properties"]["size"].as_str().unwrap();
    assert_eq!(size.as_u64(), theirs.parse().ok());

    let value = zinc(&["zpool", "get", "-j", "parity", "-d", dir, "dr", "all-vdevs"]).json();
    let draid = &value["pools"]["dr"]["vdevs"]["draid2:3d:8c:1s-0"];
    assert_eq!(draid["properties"]["parity"]["value"], "2");
}

#[test]
fn names_of_vdevs_follow_the_options() {
    let case = fixture("removed");
    let list = |option: &str| {
        let out = zinc(&["zpool", "list", option, "-d", arg(&case.dir)]).ok();
        out.lines().nth(1).unwrap().trim_start().split('\t').next().unwrap().to_owned()
    };
    assert_eq!(list("-Hv"), "img0");
    assert_eq!(list("-HvP"), "/dev/img0");
    assert!(list("-Hvg").parse::<u64>().is_ok());
}

#[test]
fn history_has_the_command_that_made_the_pool() {
    for name in ["sample", "removed", "draid", "gang"] {
        let case = fixture(name);
        let out = zinc(&["zpool", "history", "-d", arg(&case.dir)]).ok();
        let mut lines = out.lines();
        assert_eq!(lines.next(), Some(format!("History for '{}':", case.name()).as_str()));
        let first = lines.next().unwrap();
        assert!(first.contains(" zpool create "), "{first}");
        let long = zinc(&["zpool", "history", "-il", "-d", arg(&case.dir)]).ok();
        assert!(long.lines().count() > out.lines().count());
        assert!(long.contains(" [txg:"), "{long}");
        assert!(long.contains(" on "), "{long}");
    }
}

#[test]
fn several_pools_are_listed_and_a_lost_one_fails_alone() {
    let (a, b) = (fixture("draid"), fixture("gang"));
    let dirs = ["-d", arg(&a.dir), "-d", arg(&b.dir)];
    let all = zinc(&[&["zpool", "list", "-Ho", "name"][..], &dirs].concat()).ok();
    assert_eq!(all, "dr\ngangs\n");
    let run = zinc(&[&["zpool", "list", "-Ho", "name", "nix", "gangs"][..], &dirs].concat());
    assert_eq!((run.code, run.out.as_str()), (1, "gangs\n"));
    assert!(run.err.contains("no pool 'nix'"), "{}", run.err);
    let value: Value = zinc(&[&["zpool", "list", "-j"][..], &dirs].concat()).json();
    assert_eq!(value["pools"].as_object().map(serde_json::Map::len), Some(2));
}

#[test]
fn a_cache_file_leads_to_devices_that_were_renamed() {
    let place = Place::new(&["a", "b"]);
    let cache = place.path().join("cache");
    place.ok(&format!("zpool create -o cachefile={} tank mirror a b", cache.display()));
    std::fs::copy(&cache, place.path().join("kept")).unwrap();
    place.ok("zpool export tank");
    for name in ["a", "b"] {
        let new = place.path().join(format!("{name}_new"));
        std::fs::rename(place.path().join(name), new).unwrap();
    }
    place.ok("zpool import -c kept tank");
    assert!(place.ok("zpool status -P tank").contains("/a_new"));
    assert_eq!(place.ok("zpool list -Ho health tank"), "ONLINE\n");
}

/// Where devices are and what they need in OpenZFS's names; sizes as in its tables, exact with -p,
/// as numbers with --json-int.
#[test]
fn json_has_paths_and_sizes_as_openzfs_writes_them() {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank raidz1 a b c");
    let tank = |options: &str| -> Value {
        let text = place.ok(&format!("zpool status -j {options} tank"));
        serde_json::from_str::<Value>(&text).unwrap()["pools"]["tank"]["vdevs"]["tank"].clone()
    };
    let (short, exact, plain) = (tank(""), tank("-p"), tank("--json-int"));
    let raidz = |root: &Value| root["vdevs"]["raidz1-0"].clone();
    let path = place.path().join("a").to_str().unwrap().to_owned();
    let disk = |root: &Value| raidz(root)["vdevs"][&path].clone();
    assert_eq!(disk(&short)["path"], path.as_str());
    assert_eq!(disk(&short)["phys_space"], "128M");
    assert_eq!(disk(&exact)["phys_space"], (128_u64 << 20).to_string());
    assert_eq!(disk(&plain)["phys_space"], 128_u64 << 20);
    let number = |value: &Value| value.as_u64().unwrap();
    let (needs, space) =
        (number(&disk(&plain)["rep_dev_size"]), number(&raidz(&plain)["total_space"]));
    assert_eq!(number(&raidz(&plain)["rep_dev_size"]), space);
    assert_eq!(needs, space.div_ceil(3) + (9 << 19));
    assert!(number(&raidz(&plain)["def_space"]) < space * 2 / 3 + (1 << 20));
    assert_eq!(number(&plain["total_space"]), space);
    assert_eq!((&short["read_errors"], &plain["read_errors"]), (&"0".into(), &0.into()));
    assert!(short["alloc_space"].as_str().unwrap().ends_with('K'), "{short}");
}

/// A table that is repeated has its headings once, and each time with vdevs; stamps come before.
#[test]
fn a_list_that_is_repeated_has_one_heading() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let starts = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    let shown = starts(&place.ok("zpool list -T u tank 0.01 3"));
    let words: Vec<&str> = shown.iter().map(|word| word.trim_matches(char::is_numeric)).collect();
    assert_eq!(words, ["", "NAME", "tank", "", "tank", "", "tank"]);
    let shown = starts(&place.ok("zpool list -v tank 0.01 2"));
    assert_eq!(shown.iter().filter(|word| *word == "NAME").count(), 2);
}
