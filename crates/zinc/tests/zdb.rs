//! `zinc zdb` against zdb of OpenZFS: every line zdb prints of an object, a label, a log or a space
//! map must be among ours, blanks aside. What differs by intent is listed where it is compared.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Write as _};
use std::process::{Command, Output};
use testkit::{CorpusPool, corpus, oracle};

fn zinc(case: &CorpusPool, arguments: &[&str]) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_zinc"));
    c.env("ZINC_STATE", concat!(env!("CARGO_TARGET_TMPDIR"), "/run/state"));
    c.arg("zdb").arg("-p").arg(&case.dir).args(arguments);
    c.output().expect("zinc runs")
}

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Lines with one blank between words; progress and verdicts about refcounts left out.
fn lines(text: &str) -> Vec<String> {
    // zdb gives holes an address of zeros.
    let words =
        |l: &str| l.split_whitespace().collect::<Vec<_>>().join(" ").replace(" 0:0:0 ", " ");
    let noise = ["Verified ", "loading ", "verifying "];
    let all = text.split(['\n', '\r']).map(words);
    all.filter(|l| !l.is_empty() && !noise.iter().any(|n| l.starts_with(n))).collect()
}

/// The first line of an object: its number, and at least levels, four sizes and a percentage.
fn object_of(line: &str) -> Option<i64> {
    let words: Vec<&str> = line.split(' ').collect();
    let (number, levels) = (words.first()?.parse().ok()?, words.get(1)?.parse::<u8>().ok()?);
    let full = words.get(7)?.contains('.').then(|| words.get(7)?.parse::<f64>().ok());
    (levels > 0 && full.is_some()).then_some(number)
}

/// How often each line stands in each part: the part before the first object, and each object.
fn parts(text: &str) -> BTreeMap<(String, Option<i64>), HashMap<String, u32>> {
    let mut out: BTreeMap<_, HashMap<String, u32>> = BTreeMap::new();
    let (mut dataset, mut object) = (String::new(), None);
    for line in lines(text) {
        if let Some(rest) = line.strip_prefix("Dataset ") {
            dataset = rest.split(' ').next().unwrap_or_default().to_owned();
            object = None;
        }
        object = object_of(&line).or(object);
        if line == "Dnode slots:" {
            object = None;
        }
        *out.entry((dataset.clone(), object)).or_default().entry(line).or_default() += 1;
    }
    out
}

/// Lines of zdb that we do not print as often as it does.
fn missing(zdb: &str, ours: &str, differs: &dyn Fn(&str) -> bool) -> Vec<String> {
    let (zdb, ours) = (parts(zdb), parts(ours));
    let none = HashMap::new();
    let mut out = Vec::new();
    for (key, wanted) in &zdb {
        let have = ours.get(key).unwrap_or(&none);
        for (line, n) in wanted.iter().filter(|(l, _)| !differs(l)) {
            if have.get(line).copied().unwrap_or(0) < *n {
                out.push(format!("{key:?}: {line}"));
            }
        }
    }
    out
}

fn compare(case: &CorpusPool, arguments: &[&str], differs: &dyn Fn(&str) -> bool) {
    let verdict = oracle::zdb_on(&case.dir, arguments);
    let out = zinc(case, arguments);
    let missing = missing(&verdict.text, &text(&out), differs);
    let few: Vec<_> = missing.iter().take(10).collect();
    let n = missing.len();
    assert!(missing.is_empty(), "{} {arguments:?}: {n} lines of zdb: {few:#?}", case.case);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{} {arguments:?}: {errors}", case.case);
}

fn any(_: &str) -> bool {
    false
}

#[testkit::needs("zdb")]
#[test]
fn every_fact_of_every_object_is_there() {
    for (case, dataset) in [
        ("basic", "tank/data"),
        ("basic", "tank/flags"),
        ("version28", "v28/zpl1"),
        ("history", "past/clone"),
        ("gang", "gangs/copies"),
        ("zvols", "vols/v1-8K-sparse"),
        ("draid", "dr/rs-16K"),
    ] {
        let pool = corpus(case);
        compare(&pool, &["-dddddd", dataset], &differs);
    }
}

/// Unprintable text is shown as it is by zdb; files without a name are told in other words.
fn differs(line: &str) -> bool {
    let words = ["\u{fffd}", "path not found", "potentially leaked"];
    words.iter().any(|w| line.contains(w))
}

#[testkit::needs("zdb")]
#[test]
fn the_mos_is_shown_object_by_object() {
    for (case, name) in [("basic", "tank"), ("history", "past"), ("removed", "shrunk")] {
        let pool = corpus(case);
        let verdict = oracle::zdb_on(&pool.dir, &["-ddddd", name]);
        let out = zinc(&pool, &["-ddddd", name]);
        let (theirs, ours) = (parts(&verdict.text), parts(&text(&out)));
        let mut lost = Vec::new();
        for (key, wanted) in theirs.iter().filter(|((ds, o), _)| ds == "mos" && o.is_some()) {
            let have = &ours[key];
            let known = |l: &String| have.contains_key(l) || l == "UNKNOWN OBJECT TYPE";
            let absent = wanted.keys().filter(|l| !known(l));
            lost.extend(absent.map(|l| format!("{key:?}: {l}")));
        }
        let few: Vec<_> = lost.iter().take(10).collect();
        assert!(lost.is_empty(), "{case}: {} lines: {few:#?}", lost.len());
    }
}

#[testkit::needs("zdb")]
#[test]
fn labels_and_uberblocks_are_those_of_zdb() {
    let pool = corpus("raidz1");
    for image in pool.images.iter().take(2) {
        let path = image.to_str().unwrap();
        let theirs = oracle::zdb().args(["-lu", path]).output().unwrap();
        let ours = Command::new(env!("CARGO_BIN_EXE_zinc")).args(["zdb", "-lu", path]).output();
        let ours = ours.unwrap();
        assert_eq!(ours.status.code(), Some(0));
        let missing = missing(&text(&theirs), &text(&ours), &any);
        assert!(missing.is_empty(), "{missing:#?}");
    }
}

/// A label that came from another device of the pool has uberblocks that others have too, and
/// each is shown below the first that has it; from the second `-u` on slots without one are shown,
/// from the third on those of each label.
#[testkit::needs("zdb")]
#[test]
fn uberblocks_stand_below_the_first_label_that_has_them() {
    let place = support::place::Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    place.ok("zpool offline tank a");
    place.ok("zfs create tank/x");
    place.ok("zpool export tank");
    let mut label = vec![0; 256 << 10];
    std::fs::File::open(place.path().join("a")).unwrap().read_exact(&mut label).unwrap();
    let mut other = std::fs::File::options().write(true).open(place.path().join("b")).unwrap();
    other.write_all(&label).unwrap();
    let path = place.path().join("b").to_str().unwrap().to_owned();
    for options in ["-lu", "-luu", "-luuu"] {
        let theirs = text(&oracle::zdb().args([options, &path]).output().unwrap());
        let run = place.run(&format!("zdb {options} {path}"));
        let parts = |text: &str| -> Vec<String> {
            let is_part =
                |l: &&str| ["LABEL", "Uberblock", "labels ="].iter().any(|w| l.contains(w));
            text.lines().filter(is_part).map(|l| l.trim().to_owned()).collect()
        };
        assert_eq!(parts(&run.out), parts(&theirs), "{options}");
        assert!(parts(&theirs).len() > 10);
    }
}

#[testkit::needs("zdb")]
#[test]
fn metaslabs_are_those_of_zdb() {
    // zdb gives space map entries that name no vdev an invalid number, and counts as segments
    // only those that the allocator sorts by size.
    let differs = |l: &str| l.contains("vdev: 16777216") || l.starts_with("segments ");
    for (case, name) in [("basic", "tank"), ("stripe", "striped"), ("raidz1", "rz1")] {
        let pool = corpus(case);
        let verdict = oracle::zdb_on(&pool.dir, &["-mmm", name]);
        let ours = text(&zinc(&pool, &["-mmm", name]));
        let missing = missing(&verdict.text, &ours, &differs);
        assert!(missing.is_empty(), "{case}: {:#?}", missing.iter().take(10).collect::<Vec<_>>());
    }
}

#[testkit::needs("zdb")]
#[test]
fn log_records_are_those_of_zdb() {
    let pool = corpus("ziluncle");
    let verdict = oracle::zdb_on(&pool.dir, &["-iiii", "logged/fs"]);
    let ours = text(&zinc(&pool, &["-iiii", "logged/fs"]));
    let record = |l: &String| l.contains("TX_") && l.contains(" txg ");
    let theirs: Vec<_> = lines(&verdict.text).into_iter().filter(record).collect();
    let ours: Vec<_> = lines(&ours).into_iter().filter(record).collect();
    assert!(theirs.len() > 10, "{theirs:?}");
    assert_eq!(theirs, ours);
}

#[testkit::needs("zdb")]
#[test]
fn dedup_tables_are_those_of_zdb() {
    for pool in testkit::corpus_among(&["dedup-clone", "dedup-legacy"]) {
        let (case, name) = (&pool.case, pool.name());
        let verdict = oracle::zdb_on(&pool.dir, &["-DDDDD", name]);
        // Ours have no number of the ZAP cursor in front.
        let entry = |l: String| l.find("refcnt ").and_then(|i| l.get(i..)).map(str::to_owned);
        let entry = |l: String| entry(l.clone()).filter(|e| e.contains("phys")).unwrap_or(l);
        let facts = |t: &str| {
            let mut f: Vec<String> = lines(t).into_iter().map(entry).collect();
            f.sort();
            f
        };
        let ours = text(&zinc(&pool, &["-DDDDD", name]));
        let known: HashMap<String, ()> = facts(&ours)
            .into_iter()
            .map(|l| l.split(" class_start").next().unwrap_or_default().to_owned())
            .map(|l| (l, ()))
            .collect();
        let wanted = facts(&verdict.text);
        let missing: Vec<_> = wanted.iter().filter(|l| !known.contains_key(*l)).take(10).collect();
        assert!(missing.is_empty(), "{case}: {missing:#?}");
    }
}

#[test]
fn every_mode_has_json() {
    let pool = corpus("dedup-clone");
    for (modes, member) in [
        (&["-u", "twice"][..], "uberblock"),
        (&["-C", "twice"], "config"),
        (&["-dddd", "twice/cloned"], "datasets"),
        (&["-m", "twice"], "vdevs"),
        (&["-D", "twice"], "tables"),
        (&["-h", "twice"], "records"),
        (&["-S", "twice"], "simulated"),
        (&["-b", "twice"], "block_stats"),
    ] {
        let mut arguments = vec!["--json"];
        arguments.extend(modes);
        let out = zinc(&pool, &arguments);
        let errors = String::from_utf8_lossy(&out.stderr);
        let value: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| {
            panic!("{arguments:?}: {e}: {errors}");
        });
        assert!(value.get(member).is_some(), "{arguments:?} has no {member}");
        assert_eq!(out.status.code(), Some(0), "{arguments:?}: {}", value["errors"]);
    }
}

#[testkit::needs("zdb")]
#[test]
fn a_block_is_read_by_its_address() {
    let pool = corpus("basic");
    let verdict = oracle::zdb_on(&pool.dir, &["-R", "tank", "0:7bea00:200"]);
    let ours = text(&zinc(&pool, &["-R", "tank", "0:7bea00:200"]));
    let dump = |t: &str| -> Vec<String> {
        lines(t).into_iter().filter(|l| l.get(6..7) == Some(":")).collect()
    };
    assert_eq!(dump(&verdict.text).len(), 32);
    assert_eq!(dump(&verdict.text), dump(&ours));
}

#[test]
fn a_file_is_copied_with_its_bytes() {
    let pool = corpus("basic");
    let target = tempfile::NamedTempFile::new().unwrap();
    let path = target.path().to_str().unwrap();
    let out = zinc(&pool, &["-r", "tank/data", "/hole-many", path]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let files = Command::new(env!("CARGO_BIN_EXE_zinc"))
        .args(["cat", "-d"])
        .env("ZINC_STATE", concat!(env!("CARGO_TARGET_TMPDIR"), "/run/state"))
        .arg(&pool.dir)
        .arg("tank/data:/hole-many")
        .output()
        .unwrap();
    assert!(std::fs::read(target.path()).unwrap() == files.stdout);
    assert_eq!(files.stdout.len(), 26_023_218);
}

#[test]
fn a_locked_dataset_shows_what_is_not_encrypted() {
    let pool = corpus("crypt");
    let out = zinc(&pool, &["-dddd", "sealed/ccm"]);
    let shown = text(&out);
    assert!(shown.contains("ZFS master node"), "{shown}");
    assert!(shown.contains("VERSION = 5"), "{shown}");
    assert!(shown.contains("(object encrypted)"), "{shown}");
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
}

/// `zpool status -D` sums up what `zdb -DD` says of the same tables.
#[test]
fn the_status_has_the_sum_of_the_dedup_tables() {
    let pool = corpus("dedup-clone");
    let status = |dir: &std::path::Path, name: &str| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_zinc"));
        c.env("ZINC_STATE", concat!(env!("CARGO_TARGET_TMPDIR"), "/run/state"));
        c.args(["zpool", "status", "-D", "-d"]).arg(dir).arg(name);
        text(&c.output().expect("zinc runs"))
    };
    let report = status(&pool.dir, pool.name());
    let (_, tables) = report.split_once("\n dedup: DDT entries ").expect("the size of the tables");
    let histogram = text(&zinc(&pool, &["-DD", pool.name()]));
    let (_, histogram) = histogram.split_once("DDT histogram").expect("a histogram");
    let histogram = histogram.lines().take_while(|line| !line.starts_with("dedup ="));
    for line in histogram.filter(|line| !line.trim().is_empty()) {
        assert!(tables.contains(line), "no {line:?} in {tables}");
    }
    let none = testkit::fixture("gang");
    assert!(status(&none.dir, none.name()).ends_with("\n dedup: no DDT entries\n"));
}
