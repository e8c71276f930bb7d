//! Properties of every dataset, snapshot and bookmark of the corpus, against what `zfs get` showed
//! after OpenZFS had read the same images.
//!
//! The manifests are of a read-write import: opening and exporting wrote a few blocks of metadata
//! more, so what depends on the space the pool's own metadata takes may differ by as much.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dsl::{Property, PropertyContext, Source};
use pool::UnguardedDatasets as _;
use poolkit::open_unlocked as open;
use serde_json::{Map, Value};
use testkit::CorpusPool;

/// Bytes that the import for the manifest may have allocated or freed.
const HOUSEKEEPING: u64 = 512 << 10;

/// Names the manifests list (values of others were not kept).
fn names() -> Vec<&'static str> {
    "type creation createtxg guid objsetid origin used available referenced written
     logicalused logicalreferenced compressratio refcompressratio usedbydataset usedbysnapshots
     usedbychildren usedbyrefreservation recordsize compression checksum copies dedup
     redundant_metadata special_small_blocks volsize volblocksize volthreading encryption keyformat
     encryptionroot pbkdf2iters keystatus quota refquota reservation refreservation
     filesystem_limit snapshot_limit filesystem_count snapshot_count version casesensitivity
     normalization utf8only xattr acltype aclmode aclinherit dnodesize atime relatime devices exec
     setuid readonly sync snapdir canmount mountpoint userrefs defer_destroy clones redact_snaps
     longname prefetch logbias primarycache secondarycache"
        .split_whitespace()
        .collect()
}

/// Differences of one record of the manifest.
fn compare(record: &Value, ours: &[Property], exact: bool, out: &mut Vec<String>) {
    let name = record["name"].as_str().unwrap();
    let theirs = record["properties"].as_object().unwrap();
    let names = names();
    for p in ours.iter().filter(|p| names.contains(&p.name.as_str())) {
        let want = theirs.get(&p.name).and_then(Value::as_str);
        let text = want.unwrap_or_default();
        let equal = if exact { text == p.value } else { same(name, &p.name, text, &p.value) };
        if want.is_none() || !equal {
            out.push(format!("{name} {}: ours {:?}, theirs {want:?}", p.name, p.value));
        }
    }
    for missing in theirs.keys().filter(|k| names.contains(&k.as_str())) {
        if ours.iter().all(|p| p.name != **missing) {
            out.push(format!("{name} {missing}: not ours"));
        }
    }
    let empty = Map::new();
    let sources = record["property_sources"].as_object().unwrap_or(&empty);
    for p in ours.iter().filter(|p| names.contains(&p.name.as_str()) || p.native.is_none()) {
        let source = match &p.source {
            Source::None | Source::Default => None,
            Source::Inherited(from) => Some(format!("inherited from {from}")),
            other => Some(format!("{other:?}").to_lowercase()),
        };
        let want = sources.get(&p.name).and_then(Value::as_str);
        if source.as_deref() != want {
            out.push(format!("{name} {} source: ours {source:?}, theirs {want:?}", p.name));
        }
    }
    // `zfs get -r` prints them in the order in which it met them first.
    let mut user: Vec<(&str, &str)> =
        ours.iter().filter(|p| p.native.is_none()).map(|p| (&*p.name, &*p.value)).collect();
    let want = record["user_properties"].as_object().unwrap_or(&empty).iter();
    let mut want: Vec<(&str, &str)> =
        want.map(|(k, v)| (k.as_str(), v.as_str().unwrap())).collect();
    user.sort_unstable();
    want.sort_unstable();
    if user != want {
        out.push(format!("{name}: user properties {user:?}, theirs {want:?}"));
    }
}

/// The same value, or one that differs as much as the import for the manifest may have changed it.
fn same(dataset: &str, name: &str, theirs: &str, ours: &str) -> bool {
    // The root counts the pool's own metadata. Opening the encrypted volumes for the manifest
    // wrote a block to each, which was freed again.
    let root = !dataset.contains('/');
    let written_to = root || dataset.starts_with("sealed/");
    let near = match name {
        "available" => true,
        "used" | "usedbychildren" if root => true,
        "logicalused" => written_to,
        "usedbysnapshots" | "usedbyrefreservation" | "written" => dataset.ends_with("/vol"),
        "used" if dataset.ends_with("/vol@v") => true,
        "compressratio" if written_to => {
            let number = |t: &str| t.parse::<f64>().unwrap_or(0.0);
            return (number(theirs) - number(ours)).abs() < 0.05;
        }
        _ => false,
    };
    match (theirs.parse::<u64>(), ours.parse::<u64>()) {
        (Ok(a), Ok(b)) if near => a.abs_diff(b) <= HOUSEKEEPING,
        _ => theirs == ours,
    }
}

fn check(case: &CorpusPool, out: &mut Vec<String>) {
    // Two pools were also imported read-only, without replaying their intent logs: as we do.
    let readonly = case.manifest_readonly();
    let exact = readonly.is_some();
    let manifest = readonly.as_ref().unwrap_or(&case.manifest);
    let pool = open(case);
    let dsl = pool.dsl();
    let space = pool.space();
    out.extend(space.problems.iter().map(|(what, e)| format!("{what}: {e}")));
    let context = PropertyContext { pool_size: Some(space.usable()), altroot: None };
    for record in manifest["datasets"].as_array().unwrap() {
        let name = record["name"].as_str().unwrap();
        let head = dsl.by_name(name).expect("the dataset is there");
        compare(record, &dsl.properties(&head, &context).unwrap(), exact, out);
        let snapshots = dsl.snapshots(&head).unwrap();
        let theirs = record["snapshots"].as_array().unwrap();
        assert_eq!(snapshots.len(), theirs.len(), "snapshots of {name}");
        for (snapshot, record) in snapshots.iter().zip(theirs) {
            assert_eq!(record["name"].as_str(), Some(snapshot.name.as_str()));
            compare(record, &dsl.properties(snapshot, &context).unwrap(), exact, out);
            let mut tags: Vec<_> = dsl.holds(snapshot).unwrap();
            let mut want: Vec<_> = record["holds"].as_array().unwrap().iter().collect();
            tags.sort_by(|a, b| a.tag.cmp(&b.tag));
            want.sort_by_key(|v| v.as_str());
            let tags: Vec<_> = tags.iter().map(|h| h.tag.as_str()).collect();
            let want: Vec<_> = want.iter().map(|v| v.as_str().unwrap()).collect();
            if tags != want {
                out.push(format!("{}: holds {tags:?}, theirs {want:?}", snapshot.name));
            }
        }
        let bookmarks = dsl.bookmarks(&head).unwrap();
        let theirs = record["bookmarks"].as_array().unwrap();
        assert_eq!(bookmarks.len(), theirs.len(), "bookmarks of {name}");
        for record in theirs {
            let bookmark = dsl.bookmark(record["name"].as_str().unwrap()).unwrap();
            compare(record, &dsl.bookmark_properties(&bookmark).unwrap(), exact, out);
        }
    }
}

#[test]
fn properties_are_those_zfs_get_showed() {
    let mut differences = Vec::new();
    for name in testkit::corpus_cases() {
        let case = testkit::corpus(&name);
        let mut here = Vec::new();
        check(&case, &mut here);
        differences.extend(here.into_iter().map(|d| format!("{name}: {d}")));
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// Without its key a dataset shows all: what properties say of its object set is not encrypted.
#[test]
fn locked_datasets_have_properties() {
    let case = testkit::corpus("crypt");
    let pool = poolkit::open(&case);
    let context = PropertyContext::default();
    for (name, kind) in [("sealed/pass", "filesystem"), ("sealed/pass/vol", "volume")] {
        let head = pool.dsl().by_name(name).unwrap();
        let all = pool.dsl().properties(&head, &context).unwrap();
        let value = |n: &str| all.iter().find(|p| p.name == n).map(|p| p.value.as_str());
        assert_eq!(value("type"), Some(kind), "{name}");
        assert_eq!(value("keystatus"), Some("unavailable"));
        assert_eq!(value("encryptionroot"), Some("sealed/pass"));
        assert_eq!(value("keyformat"), Some("passphrase"));
        assert_eq!(value("available"), None, "the pool's size was not given");
        let inside = (value("version"), value("volsize").is_some_and(|size| size != "0"));
        let is_volume = kind == "volume";
        assert_eq!(inside, ((!is_volume).then_some("5"), is_volume), "{name}");
        assert_eq!(value("volblocksize").is_some(), is_volume, "{name}");
    }
}

#[test]
fn written_since_counts_from_any_older_snapshot() {
    let case = testkit::corpus("history");
    let pool = open(&case);
    let context = PropertyContext::default();
    for (_, dir) in pool.dsl().walk() {
        let Some(head) = pool.dsl().head(&dir.unwrap()).unwrap() else { continue };
        let snapshots = pool.dsl().snapshots(&head).unwrap();
        let Some(last) = snapshots.last() else { continue };
        let short = last.name.split('@').nth(1).unwrap();
        let named = format!("written@{short}");
        let since = pool.dsl().property(&head, &context, &named).unwrap().unwrap();
        let written = pool.dsl().property(&head, &context, "written").unwrap().unwrap();
        assert_eq!((since.value, since.name), (written.value, named), "{}", head.name);
        // The longer ago, the more; and never more than there is now and was freed since.
        let all: Vec<u64> = snapshots
            .iter()
            .map(|s| pool.dsl().written_since(&head, s).unwrap().expect("it is in the line"))
            .collect();
        assert!(all.is_sorted_by(|a, b| a >= b), "{}: {all:?}", head.name);
    }
    let [one, other] = ["past/work", "past/rolled@base"].map(|n| pool.dsl().by_name(n).unwrap());
    assert_eq!(pool.dsl().written_since(&one, &other).unwrap(), None, "another line");
}

/// A table that cannot be read costs what is in it, not the other properties.
#[test]
fn damage_costs_only_what_is_damaged() {
    let case = testkit::corpus("history");
    let pool = open(&case);
    let context = PropertyContext { pool_size: Some(pool.space().usable()), altroot: None };
    let mut snapshot = pool.dsl().by_name("past/promoted@s05").unwrap();
    let all = pool.dsl().properties(&snapshot, &context).unwrap();
    assert!(all.iter().any(|p| p.name == "clones"));
    snapshot.phys.next_clones = 1 << 40;
    assert!(pool.dsl().properties(&snapshot, &context).is_err(), "it says so");
    let (some, problems) = pool.dsl().properties_salvaged(&snapshot, &context);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let kept: Vec<_> = all.into_iter().filter(|p| p.name != "clones").collect();
    assert_eq!(some, kept);
}
