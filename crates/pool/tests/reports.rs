//! Pool properties, fragmentation, error logs and the state of devices of every pool of the corpus,
//! against what OpenZFS printed after it had read the same images.
//!
//! The manifests are of a read-write import: it wrote a few blocks of metadata, so allocation and
//! fragmentation may differ a little. Devices are named as that system named them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::Lab;
use pool::UnguardedDatasets as _;
use pool::{Condition, DamagedObject, Pool, Remark, ViewState};
use poolkit::open;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::CorpusPool;
use vdev::VdevState;

/// Bytes that the import for the manifest may have allocated or freed.
const HOUSEKEEPING: u64 = 512 << 10;

/// Runs a comparison over all cases and lists every difference.
fn every_case(compare: impl Fn(&CorpusPool, &Pool, &mut Vec<String>)) {
    testkit::every_unreplayed(|case, out| compare(case, &open(case), out));
}

#[test]
fn pool_properties_are_those_zpool_get_showed() {
    every_case(|case, pool, out| {
        let space = pool.space();
        out.extend(space.problems.iter().map(|(what, e)| format!("{what}: {e}")));
        let ours = pool.properties(&space);
        let native = case.manifest["pool_properties"].as_object().unwrap().iter();
        let features = case.manifest["features"].as_object().unwrap().iter();
        let features = features.map(|(k, v)| (format!("feature@{k}"), v));
        for (name, want) in native.map(|(k, v)| (k.clone(), v)).chain(features) {
            // Of the system that had imported the pool, for writing.
            // Fragmentation grew when the import gave empty metaslabs their first blocks.
            if matches!(name.as_str(), "load_guid" | "cachefile" | "readonly" | "fragmentation") {
                continue;
            }
            let want = want.as_str().unwrap();
            match ours.iter().find(|p| p.name == name) {
                Some(p) if same(&name, want, &p.value) => {}
                Some(p) => out.push(format!("{name}: ours {:?}, theirs {want:?}", p.value)),
                None => out.push(format!("{name}: not ours")),
            }
        }
        let theirs = case.manifest["pool_properties"].as_object().unwrap();
        for p in ours.iter().filter(|p| p.value != "-" && !p.name.starts_with("feature@")) {
            if !theirs.contains_key(&p.name) && p.name != "readonly" {
                out.push(format!("{}: only ours, {:?}", p.name, p.value));
            }
        }
    });
}

fn same(name: &str, theirs: &str, ours: &str) -> bool {
    let slack = match name {
        "allocated" | "free" => HOUSEKEEPING,
        "dedup_table_size" => 64 << 10,
        "capacity" => 1,
        "checkpoint" => 4096,
        _ => 0,
    };
    match (theirs.parse::<u64>(), ours.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.abs_diff(b) <= slack,
        _ => theirs == ours,
    }
}

#[test]
fn tables_of_deduplication_are_read_in_advance() {
    let tables = AtomicU64::new(0);
    every_case(|case, pool, out| {
        let count = pool.prefetch_dedup(&|| true).unwrap();
        tables.fetch_add(count, Ordering::Relaxed);
        if count > 0 && pool.space().dedup_table_size == 0 {
            out.push(format!("{}: {count} entries of no table", case.case));
        }
        assert_eq!(pool.prefetch_dedup(&|| false).unwrap(), 0, "it was called off");
    });
    assert!(tables.into_inner() > 0);
}

/// Against zdb, which opens the pools for reading as we do.
#[testkit::needs("zdb")]
#[test]
fn fragmentation_is_what_zdb_computes() {
    // A run of zdb takes seconds; these have all kinds of vdevs.
    let some = ["basic", "stripe", "draid", "fragmented", "mirror", "expanded", "removed"];
    every_case(|case, pool, out| {
        if !some.contains(&case.case.as_str()) {
            return;
        }
        let space = pool.space();
        let text = testkit::oracle::zdb_on(&case.dir, &["-mmM", case.name()]).text;
        let word = |l: &str| l.split_whitespace().last().unwrap_or_default().to_owned();
        // "vdev 0 metaslabs 7 fragmentation 10%", then "pool tank fragmentation 10%".
        let lines = text.lines().filter(|l| l.contains("fragmentation") && l.contains('%'));
        let (tops, pools): (Vec<_>, Vec<_>) = lines.partition(|l| l.contains("metaslabs"));
        for line in tops {
            let id = line.split_whitespace().nth(1).and_then(|n| n.parse().ok());
            let top = space.tops.iter().find(|t| Some(t.id) == id).expect("zdb's vdevs are ours");
            let ours = top.fragmentation().map_or("-".to_owned(), |f| format!("{f}%"));
            if ours != word(line) {
                out.push(format!("vdev {}: ours {ours}, zdb: {line}", top.id));
            }
        }
        for line in pools {
            let ours = space.fragmentation().map_or("-".to_owned(), |f| format!("{f}%"));
            if ours != word(line) {
                out.push(format!("ours {ours}, zdb: {line}"));
            }
        }
    });
}

#[test]
fn nothing_in_the_corpus_is_lost() {
    every_case(|case, pool, out| {
        let errors = pool.error_log().expect("the error log can be read");
        if !errors.blocks.is_empty() {
            out.push(format!("{} blocks", errors.blocks.len()));
        }
        let scanned = pool.scan_state().expect("the state can be read").is_some();
        let is_reported = case.manifest["status"].as_str().unwrap().contains("  scan: ");
        if is_reported && !scanned {
            out.push("a scan is missing".to_owned());
        }
    });
}

#[test]
fn allocation_classes_are_filled_in() {
    let case = testkit::corpus("stripe");
    let pool = open(&case);
    let classes: Vec<_> = pool.config().vdev_tree.children.iter().map(pool::class_of).collect();
    use zio::SpaceClass::{Log, Normal, Special};
    assert_eq!(classes, [Normal, Normal, Normal, Log, Special]);
    let _: &Value = &case.manifest;
}

#[test]
fn missing_devices_are_named_by_guid_and_by_where_they_were() {
    let lab = Lab::corpus("raidz1");
    let pool = lab.without(&[1]).open();
    let status = pool.status(&pool.space());
    assert_eq!(status.condition, Some(Condition::Missing));
    let guid = lab.guid(1);
    let device = status.vdevs.walk().find(|v| v.guid == guid).expect("it is in the report");
    assert_eq!(device.name, guid.to_string());
    assert_eq!(device.state, ViewState::Vdev(VdevState::Unavail));
    assert_eq!(device.remark, Some(Remark::Was("/dev/img1".to_owned())));
    // What is allocated does not depend on it.
    assert_eq!(pool.space().total(), lab.open().space().total());
}

#[test]
fn damaged_objects_have_paths() {
    let case = testkit::corpus("basic");
    let pool = open(&case);
    let mut found = 0;
    for record in case.manifest["datasets"].as_array().unwrap() {
        let Some(entries) = record["entries"].as_array() else { continue };
        let name = record["name"].as_str().unwrap();
        let dataset = pool.dsl().by_name(name).unwrap().object;
        let files = entries.iter().filter(|e| e["nlink"] == 1 && e["type"] == "file");
        for e in files.filter(|e| e["path"].is_string()).step_by(97) {
            let object = e["ino"].as_u64().unwrap();
            let text = pool.damaged_name(&DamagedObject { dataset, object });
            assert_eq!(text, format!("{name}:/{}", e["path"].as_str().unwrap()));
            found += 1;
        }
    }
    assert!(found > 20, "{found} files were looked at");
    let name = |dataset, object| pool.damaged_name(&DamagedObject { dataset, object });
    assert_eq!(name(0, 31), "<metadata>:<0x1f>");
    assert_eq!(name(1 << 40, 128), "<0x10000000000>:<0x80>");
    let root = pool.dsl().by_name(case.name()).unwrap().object;
    assert_eq!(name(root, 1 << 40), format!("{}:<0x10000000000>", case.name()));
}
