//! `zinc zfs`, against what `zfs` of OpenZFS printed of the same pools.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use support::place::Place;
use support::{arg, zinc};
use testkit::{CorpusPool, corpus, corpus_cases, fixture};

/// What the import for the manifest changed on the pool's root dataset, and what depends on it.
const HOUSEKEEPING: [&str; 6] =
    ["available", "used", "usedbychildren", "logicalused", "compressratio", "snapshots_changed"];

fn cases() -> Vec<CorpusPool> {
    let mut names = corpus_cases();
    // Their logs were replayed before the manifests were made.
    names.retain(|n| n != "ziluncle" && n != "zil-slog");
    let all = names.iter().map(|n| corpus(n));
    all.chain([fixture("sample")]).collect()
}

/// The file of keys for `--keys`.
fn keys(case: &CorpusPool) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let keys = case.manifest.get("keys").cloned().unwrap_or_else(|| json!({}));
    write!(file, "{}", json!({ "keys": keys })).unwrap();
    file
}

/// The datasets of a manifest, each followed by its snapshots and bookmarks.
fn records(case: &CorpusPool) -> Vec<&Value> {
    let mut out = Vec::new();
    for dataset in case.manifest["datasets"].as_array().unwrap() {
        out.push(dataset);
        for member in ["snapshots", "bookmarks"] {
            out.extend(dataset[member].as_array().into_iter().flatten());
        }
    }
    out
}

#[test]
fn get_all_is_what_openzfs_showed() {
    for case in cases() {
        let keys = keys(&case);
        let dir = arg(&case.dir);
        let args =
            ["zfs", "get", "-Hpr", "all", "-d", dir, "--keys", arg(keys.path()), case.name()];
        let out = zinc(&args).ok();
        let mut ours: BTreeMap<(&str, &str), (&str, &str)> = BTreeMap::new();
        for line in out.lines() {
            let row: Vec<&str> = line.split('\t').collect();
            ours.insert((row[0], row[1]), (row[2], row[3]));
        }
        for record in records(&case) {
            let name = record["name"].as_str().unwrap();
            let properties = record["properties"].as_object().unwrap();
            for (property, theirs) in properties {
                // Opening the encrypted volumes wrote a block to each, which was freed again.
                let volume = name.starts_with("sealed/") && name.contains("/vol");
                let freed = ["usedbysnapshots", "usedbyrefreservation", "written"];
                let touched = volume && freed.contains(&property.as_str());
                if touched || HOUSEKEEPING.contains(&property.as_str()) {
                    continue;
                }
                let value = ours.get(&(name, property.as_str())).map(|v| v.0);
                assert_eq!(value, theirs.as_str(), "{} {name} {property}", case.case);
            }
            for (property, theirs) in record["property_sources"].as_object().into_iter().flatten() {
                let source = ours.get(&(name, property.as_str())).map(|v| v.1);
                assert_eq!(source, theirs.as_str(), "{} {name} {property}", case.case);
            }
        }
    }
}

#[test]
fn list_shows_every_dataset_in_order() {
    for case in cases() {
        let all = ["zfs", "list", "-Hp", "-t", "all", "-o", "name,refer,guid"];
        let out = zinc(&[&all[..], &["-d", arg(&case.dir)]].concat()).ok();
        let record = |r: &&Value| {
            let property = |p: &str| r["properties"][p].as_str().unwrap_or("-").to_owned();
            format!(
                "{}\t{}\t{}",
                r["name"].as_str().unwrap(),
                property("referenced"),
                property("guid")
            )
        };
        let mut theirs: Vec<String> = records(&case).iter().map(record).collect();
        let mut ours: Vec<String> = out.lines().map(str::to_owned).collect();
        let heads = |l: &[String]| -> Vec<String> {
            l.iter().filter(|l| !l.contains(['@', '#'])).cloned().collect()
        };
        let mut sorted = heads(&theirs);
        sorted.sort_by(|a, b| a.split('\t').next().cmp(&b.split('\t').next()));
        assert_eq!(heads(&ours), sorted, "{}", case.case);
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{}", case.case);
    }
}

#[test]
fn columns_depth_and_sorting() {
    let case = fixture("removed");
    let dir = arg(&case.dir);
    let list = |args: &[&str]| zinc(&[&["zfs", "list", "-d", dir][..], args].concat()).ok();
    let names = |t: String| t.lines().map(str::to_owned).collect::<Vec<_>>();
    let all = names(list(&["-Ho", "name"]));
    assert_eq!(names(list(&["-Ho", "name", "-d", "0", "shrunk"])), ["shrunk"]);
    assert_eq!(names(list(&["-Ho", "name", "--depth", "1", "shrunk"])), all);
    assert_eq!(names(list(&["-Ho", "name", "shrunk"])), ["shrunk"]);
    let mut reversed = all.clone();
    reversed.reverse();
    assert_eq!(names(list(&["-Ho", "name", "-S", "name"])), reversed);
    let used = names(list(&["-Hpo", "used", "-s", "used"]));
    let used: Vec<u64> = used.iter().map(|n| n.parse().unwrap()).collect();
    assert!(used.is_sorted(), "{used:?}");
    let heading = list(&["-o", "space"]);
    let columns = "NAME AVAIL USED USEDSNAP USEDDS USEDREFRESERV USEDCHILD";
    let first: Vec<&str> = heading.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(first.join(" "), columns);
    let filesystems = names(list(&["-Ho", "name", "-t", "filesystem"]));
    let volumes = names(list(&["-Ho", "name", "-t", "volume"]));
    assert_eq!(filesystems.len() + volumes.len(), all.len());
    assert!(!volumes.is_empty());
}

#[test]
fn sources_filter_and_missing_properties_are_dashes() {
    let case = corpus("history");
    let dir = arg(&case.dir);
    let args = ["zfs", "get", "-H", "-s", "inherited", "-o", "property,source", "all", "-d", dir];
    let out = zinc(&[&args[..], &["past/props/child/grand"]].concat()).ok();
    assert!(out.lines().all(|l| l.contains("\tinherited from past/props")), "{out}");
    assert!(out.contains("com.example:color\tinherited from past/props/child\n"), "{out}");
    let args = ["zfs", "get", "-H", "quota,no:such", "-d", dir, "past/work@s12"];
    let dash = "past/work@s12\tquota\t-\t-\npast/work@s12\tno:such\t-\t-\n";
    assert_eq!(zinc(&args).ok(), dash);
    let value = zinc(&["zfs", "get", "-j", "compression", "-d", dir, "past/props/child"]).json();
    let dataset = &value["datasets"]["past/props/child"];
    assert_eq!(dataset["type"], "FILESYSTEM");
    let expected = json!({ "value": "zstd-7", "source": { "type": "LOCAL", "data": "-" } });
    assert_eq!(dataset["properties"]["compression"], expected);
}

#[test]
fn written_since_a_snapshot_that_most_datasets_lack_is_a_dash_there() {
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        support::zinc_in(dir.path(), &words).ok()
    };
    std::fs::File::create(dir.path().join("a")).unwrap().set_len(128 << 20).unwrap();
    run("zpool create pp a");
    run("zfs create pp/with");
    run("zfs create pp/without");
    run("zfs snapshot pp/with@m");
    let list = run("zfs list -H -r -o name,written@m pp");
    assert_eq!(list, "pp\t-\npp/with\t0B\npp/without\t-\n");
    let list = run("zfs list -Hp -r -o name,written@m pp");
    assert_eq!(list, "pp\t-\npp/with\t0\npp/without\t-\n");
    let got = run("zfs get -H -r -o name,value written@m,written#m pp/without");
    assert_eq!(got, "pp/without\t-\npp/without\t-\n");
}

#[test]
fn locked_datasets_are_listed() {
    let case = corpus("crypt");
    let dir = arg(&case.dir);
    let args = ["zfs", "get", "-Ho", "value", "keystatus,encryption,referenced", "-p", "-d", dir];
    let out = zinc(&[&args[..], &["sealed/pass"]].concat()).ok();
    let record = records(&case).into_iter().find(|r| r["name"] == "sealed/pass").unwrap();
    let theirs = |p: &str| record["properties"][p].as_str().unwrap();
    assert_eq!(out, format!("unavailable\n{}\n{}\n", theirs("encryption"), theirs("referenced")));
    let run = zinc(&["zfs", "userspace", "-d", dir, "sealed/pass"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("--keys FILE"), "{}", run.err);
}

#[test]
fn space_by_owner_is_what_openzfs_counted() {
    for case in cases() {
        let keys = keys(&case);
        for record in case.manifest["datasets"].as_array().unwrap() {
            let name = record["name"].as_str().unwrap();
            for verb in ["userspace", "groupspace", "projectspace"] {
                let Some(theirs) = record[verb].as_array() else { continue };
                let row = |r: &Value| {
                    let members = ["type", "id", "used", "quota", "objused", "objquota"];
                    members.map(|m| r[m].as_str().unwrap().to_owned()).join("\t")
                };
                let mut theirs: Vec<String> = theirs.iter().map(row).collect();
                let place = ["-d", arg(&case.dir), "--keys", arg(keys.path()), name];
                let how = if verb == "projectspace" { "-Hp" } else { "-Hpn" };
                let out = zinc(&[&["zfs", verb, how][..], &place].concat()).ok();
                let mut ours: Vec<&str> = out.lines().collect();
                ours.sort_unstable();
                theirs.sort_unstable();
                assert_eq!(ours, theirs, "{} {verb} {name}", case.case);
            }
        }
    }
}

#[test]
fn holds_are_listed_with_their_tags() {
    let case = corpus("history");
    let dir = arg(&case.dir);
    for record in records(&case) {
        let name = record["name"].as_str().unwrap();
        let tags = record["holds"].as_array().map_or(&[][..], Vec::as_slice);
        if !name.contains('@') {
            continue;
        }
        let out = zinc(&["zfs", "holds", "-H", "-d", dir, name]).ok();
        let mut ours: Vec<&str> = out.lines().map(|l| l.split('\t').nth(1).unwrap()).collect();
        let mut theirs: Vec<&str> = tags.iter().map(|t| t.as_str().unwrap()).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{name}");
    }
    assert_eq!(zinc(&["zfs", "holds", "-d", dir, "past/work"]).code, 1);
}

/// A file of a manifest: paths and time of change.
type Files<'m> = BTreeMap<u64, (Vec<Vec<u8>>, i64)>;

/// Files of a manifest by object number, paths as `zfs diff` prints them; the root left out,
/// because the kernel shows that of a snapshot under another number.
fn files<'m>(record: &'m Value, mount_point: &str) -> Option<Files<'m>> {
    let mut out = Files::new();
    for entry in record["entries"].as_array()? {
        let path = match entry["path_hex"].as_str() {
            Some(hex) => {
                let digit = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
                (0..hex.len()).step_by(2).map(digit).collect()
            }
            None => entry["path"].as_str().unwrap().as_bytes().to_vec(),
        };
        if path == b"." {
            continue;
        }
        let full = [mount_point.as_bytes(), b"/", &path].concat();
        let new = (Vec::new(), entry["ctime_ns"].as_i64().unwrap());
        out.entry(entry["ino"].as_u64().unwrap()).or_insert(new).0.push(full);
    }
    Some(out)
}

/// A change two manifests call for: its sign, the paths before and the paths after.
struct Change {
    sign: char,
    was: Vec<Vec<u8>>,
    is: Vec<Vec<u8>>,
}

/// The changes between two states, by object number.
fn expected(a: &Files<'_>, b: &Files<'_>) -> BTreeMap<u64, Change> {
    let mut out = BTreeMap::new();
    for (ino, (is, time)) in b {
        let change = |sign, was| Change { sign, was, is: is.clone() };
        match a.get(ino) {
            None => out.insert(*ino, change('+', Vec::new())),
            Some((_, t)) if t == time => None,
            Some((was, _)) if was.iter().any(|p| is.contains(p)) => {
                out.insert(*ino, change('M', was.clone()))
            }
            Some((was, _)) => out.insert(*ino, change('R', was.clone())),
        };
    }
    for (ino, (was, _)) in a.iter().filter(|(ino, _)| !b.contains_key(ino)) {
        out.insert(*ino, Change { sign: '-', was: was.clone(), is: was.clone() });
    }
    out
}

fn unescape(text: &str) -> Vec<u8> {
    let (mut out, bytes) = (Vec::new(), text.as_bytes());
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'\\' {
            out.push(u8::from_str_radix(&text[i + 1..i + 5], 8).unwrap());
            i += 5;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    out
}

#[test]
fn diff_finds_what_the_manifests_differ_in() {
    let mut pairs = 0;
    for case in cases() {
        let keys = keys(&case);
        for dataset in case.manifest["datasets"].as_array().unwrap() {
            let mount_point = dataset["properties"]["mountpoint"].as_str().unwrap_or_default();
            let snapshots = dataset["snapshots"].as_array().into_iter().flatten();
            let states: Vec<(&str, Files<'_>)> = snapshots
                .chain([dataset])
                .filter_map(|r| Some((r["name"].as_str()?, files(r, mount_point)?)))
                .collect();
            for (i, (from, a)) in states.iter().enumerate() {
                for (to, b) in &states[i + 1..] {
                    let place = ["-d", arg(&case.dir), "--keys", arg(keys.path()), from, to];
                    let out = zinc(&[&["zfs", "diff", "-H"][..], &place].concat()).ok();
                    compare_diff(
                        &format!("{} {from} {to}", case.case),
                        &out,
                        &expected(a, b),
                        mount_point,
                    );
                    pairs += 1;
                }
            }
        }
    }
    assert!(pairs > 50, "{pairs} pairs of snapshots only");
}

fn compare_diff(what: &str, out: &str, expected: &BTreeMap<u64, Change>, mount_point: &str) {
    let mut ours: Vec<(char, Vec<u8>)> = Vec::new();
    for line in out.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let change = fields[0].chars().next().unwrap();
        let path = if change == 'R' { fields[2] } else { fields[1] };
        ours.push((change, unescape(path)));
    }
    // The root, and files that are attributes, are not in the manifests.
    let root = format!("{mount_point}/").into_bytes();
    ours.retain(|(_, p)| *p != root && !p.windows(11).any(|w| w == b"/<xattrdir>"));
    for (ino, change) in expected {
        let mut take = |sign: char, paths: &[Vec<u8>]| {
            let at = ours.iter().position(|(c, p)| *c == sign && paths.contains(p));
            at.map(|at| ours.swap_remove(at))
        };
        if take(change.sign, &change.is).is_some() {
            continue;
        }
        // The number of a removed file was given to another.
        let reused = take('-', &change.was).is_some() && take('+', &change.is).is_some();
        let path = String::from_utf8_lossy(&change.is[0]);
        assert!(reused, "{what}: no {} of object {ino} {path:?} in\n{out}", change.sign);
    }
    assert!(ours.is_empty(), "{what}: too much: {ours:?}");
}

#[test]
fn diff_shows_types_times_and_links() {
    let case = corpus("history");
    let dir = arg(&case.dir);
    let out = zinc(&["zfs", "diff", "-Ft", "-d", dir, "past/work@s11", "@s12"]).ok();
    for line in out.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(fields[0].trim_start().starts_with("17952"), "{line}");
        assert!("+-MR".contains(fields[1]) && "F/@".contains(fields[2]), "{line}");
    }
    assert!(out.contains("\tR\tF\t") && out.contains(" -> "), "{out}");
    let run = zinc(&["zfs", "diff", "-d", dir, "past/work@s12", "past/work@s11"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("not an earlier snapshot"), "{}", run.err);
}

/// Found by running random command lines here and with OpenZFS's commands, side by side.
#[test]
fn answers_are_those_of_openzfs() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    for command in ["create tank/fs", "create -s -V 1M tank/vol", "snapshot -r tank@s"] {
        place.ok(&format!("zfs {command}"));
    }
    for (command, code, text) in [
        ("zfs list tank/no", 1, "cannot open 'tank/no': dataset does not exist"),
        ("zfs get all tank/no@s", 1, "cannot open 'tank/no@s': dataset does not exist"),
        ("zfs rollback tank/no@s", 1, "cannot open 'tank/no@s': dataset does not exist"),
        ("zfs destroy tank/no@s", 1, "cannot open 'tank/no': dataset does not exist"),
        ("zfs snapshot tank/no@s", 1, "cannot open 'tank/no': dataset does not exist"),
        ("zfs hold keep tank/no@s", 1, "cannot open 'tank/no': dataset does not exist"),
        ("zfs hold keep tank/fs@no", 1, "cannot hold snapshot 'tank/fs@no': dataset does not"),
        ("zfs release keep tank/fs@no", 1, "cannot release hold from snapshot 'tank/fs@no': "),
        ("zfs inherit normalization tank/fs", 1, "normalization property is read-only"),
        ("zpool get all none", 1, "Cannot get properties of none: no such pool available."),
        ("zfs create tank//x", 1, "'tank//x': empty component or misplaced '@' or '#'"),
        ("zfs create tank/x/", 1, "'tank/x/': trailing slash in name"),
        ("zfs create tank/a%b", 1, "invalid character '%' in name"),
        ("zfs snapshot tank@a@b", 1, "multiple '@' and/or '#' delimiters in name"),
        ("zfs list -t volume tank/fs", 1, "operation not applicable to datasets of this type"),
        ("zfs get -t fs used tank@s", 1, "snapshot delimiter '@' is not expected here"),
        ("zfs list tank@s@s", 1, "multiple '@' and/or '#' delimiters in name"),
        ("zfs inherit used tank/fs", 1, "used property is read-only"),
        ("zfs inherit canmount tank/fs", 1, "'canmount' property cannot be inherited"),
        ("zfs rename -p -r tank@s tank@t", 2, "cannot be used with"),
        ("zfs create -V -1 tank/v2", 1, "-1"),
        ("zfs rename -p tank/no tank/x/y", 1, "cannot open 'tank/no': dataset does not exist"),
        ("zfs rename -p tank/fs tank/fs/x/y", 1, "below itself"),
        ("zpool import tank other", 1, "cannot import 'tank': it is imported already"),
        ("zpool labelclear nowhere", 1, "No such file or directory"),
    ] {
        let run = place.run(command);
        assert_eq!(run.code, code, "{command}: {}", run.err);
        assert!(run.err.contains(text), "{command}: {}", run.err);
    }
    assert_eq!(place.ok("zfs list -Ho name"), "tank\ntank/fs\ntank/vol\n");
    place.ok("zfs rename tank/fs tank/fs");
    place.ok("zfs create -p tank");
    place.ok("zfs hold keep tank@s");
    let run = place.run("zfs holds tank@no tank@s");
    assert!(run.code == 1 && run.err.contains("open 'tank@no': dataset does not"), "{}", run.err);
    assert!(run.out.contains("tank@s  keep"), "{}", run.out);
    place.ok("zfs release keep tank@s");
    // Nothing is said to a script that finds nothing.
    assert_eq!(place.ok("zfs list -H -t bookmark -r tank"), "");
    // Snapshots alone are those of what is named; among other types they have to be asked for.
    assert_eq!(place.ok("zfs list -Ho name -t snapshot tank/fs"), "tank/fs@s\n");
    assert_eq!(place.ok("zfs list -Ho name -d 0 -t snapshot tank/fs"), "");
    assert_eq!(place.ok("zfs list -Ho name -t snap,fs tank/fs"), "tank/fs\n");
    assert_eq!(place.ok("zfs list -Ho name -rt snap,fs tank/fs"), "tank/fs\ntank/fs@s\n");
    assert!(place.ok("zfs list -o all tank").starts_with("NAME"));
    assert_eq!(place.ok("zfs get -Ho property space tank").lines().count(), 7);
    assert!(place.ok("zfs -?").contains("snapshot"));
    let all = "All filesystems are formatted with the current version.";
    assert!(place.ok("zfs upgrade").contains(all));
    assert!(place.ok("zfs upgrade -v").contains(" 5   System attributes\n"));
    assert!(place.ok("zfs upgrade -r tank").contains("2 filesystems already at this version"));
}
