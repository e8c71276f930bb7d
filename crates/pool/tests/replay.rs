//! The intent log of pools that were reset, replayed into memory, against what the kernel module
//! showed after its own replay; and without a replay, against its read-only import.
//!
//! Left out is what a replay cannot know: the times it set (later than anything logged), access
//! times, and the blocks that compression made of what it wrote.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use dmu::Objset;
use ondisk::zil::Body;
use pool::Pool;
use pool::UnguardedDatasets as _;
use poolkit::open_unlocked as open;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use zpl::replay::{self, Settings};
use zpl::{FileKind, Filesystem, Node, Volume};

const CASES: [&str; 2] = ["ziluncle", "zil-slog"];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, b| {
        write!(out, "{b:02x}").unwrap();
        out
    })
}

fn settings(pool: &Pool, dataset: &Value) -> Settings {
    let properties = &dataset["properties"];
    let record_size = properties["recordsize"].as_str().map_or(131_072, |n| n.parse().unwrap());
    let zeros_are_holes = properties["compression"].as_str() != Some("off");
    Settings { record_size, zeros_are_holes, ..Settings::new(pool.uberblock().txg) }
}

/// Everything of a file that the manifest has, but the path, blocks and access time.
fn entry(node: &Node, posix_acls: bool) -> Map<String, Value> {
    let kind = match node.kind() {
        FileKind::File => "file",
        FileKind::Dir => "dir",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::Block => "block",
        FileKind::Char => "char",
        FileKind::Unknown => "unknown",
    };
    let nanos = |t: zpl::Time| json!(t.seconds * 1_000_000_000 + i64::try_from(t.nanos).unwrap());
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| drop(out.insert(name.into(), value));
    set("type", json!(kind));
    set("mode", json!(format!("{:04o}", node.permissions())));
    set("uid", json!(node.uid));
    set("gid", json!(node.gid));
    set("size", json!(node.size));
    set("nlink", json!(node.links));
    set("ino", json!(node.number()));
    set("mtime_ns", nanos(node.mtime));
    set("ctime_ns", nanos(node.ctime));
    if node.kind() == FileKind::File {
        let mut bytes = vec![0; usize::try_from(node.size).unwrap()];
        assert_eq!(node.read_at(0, &mut bytes).unwrap(), bytes.len());
        set("sha256", json!(hex(&Sha256::digest(&bytes))));
        let segments = node.segments().unwrap();
        let list: Vec<[u64; 2]> = segments.iter().map(|s| [s.offset, s.length]).collect();
        if list != [[0, node.size]] && node.size != 0 {
            set("data", json!(list));
        }
    }
    if node.kind() == FileKind::Symlink {
        set("target", json!(String::from_utf8(node.read_link().unwrap()).unwrap()));
    }
    if matches!(node.kind(), FileKind::Block | FileKind::Char) {
        set("rdev", json!([node.device().0, node.device().1]));
    }
    if node.linux_flags() != 0 {
        set("flags", json!(node.linux_flags()));
    }
    if node.project != 0 {
        set("projid", json!(node.project));
    }
    let xattrs = node.linux_xattrs(posix_acls).unwrap();
    if !xattrs.is_empty() {
        let text = |n: &[u8]| String::from_utf8(n.to_vec()).unwrap();
        let pairs = xattrs.iter().map(|(n, v)| (text(n), json!(hex(v))));
        set("xattrs", Value::Object(pairs.collect()));
    }
    out
}

fn walk(fs: &Filesystem, posix_acls: bool) -> BTreeMap<String, Map<String, Value>> {
    let mut out = BTreeMap::new();
    let mut todo = vec![(".".to_owned(), fs.root().unwrap())];
    while let Some((path, node)) = todo.pop() {
        out.insert(path.clone(), entry(&node, posix_acls));
        if node.kind() != FileKind::Dir {
            continue;
        }
        for e in node.sorted_entries().unwrap() {
            let name = String::from_utf8(e.name.clone()).unwrap();
            let below = if path == "." { name } else { format!("{path}/{name}") };
            let child = fs.node(e.object).unwrap();
            assert_eq!(u64::from(e.kind), child.mode >> 12, "{below}: type in the directory");
            todo.push((below, child));
        }
    }
    out
}

/// More than any time, less than what overflows with a second added.
const NEVER: i64 = i64::MAX - 1_000_000_000;

/// The newest time in a log, in nanoseconds; without one [`NEVER`].
fn newest_logged(objset: &Objset) -> i64 {
    let log = zil::Log::read(objset);
    let times = log.pending(0).map(|r| match &r.body {
        Body::Create(c) => c.create_time[0] * 1_000_000_000 + c.create_time[1],
        _ => 0,
    });
    times.max().map_or(NEVER, |t| t.try_into().unwrap())
}

/// Differences between what we see and the manifest; times set by the kernel's replay left out.
fn compare(
    dataset: &Value,
    ours: &BTreeMap<String, Map<String, Value>>,
    newest: i64,
    differences: &mut Vec<String>,
) -> usize {
    let name = dataset["name"].as_str().unwrap();
    let mut left_out = 0;
    let theirs: BTreeMap<&str, &Map<String, Value>> = dataset["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["path"].as_str().unwrap(), e.as_object().unwrap()))
        .collect();
    for path in ours.keys().filter(|p| !theirs.contains_key(p.as_str())) {
        differences.push(format!("{name}:{path}: should not be there"));
    }
    for (path, theirs) in theirs {
        let Some(ours) = ours.get(path) else {
            differences.push(format!("{name}:{path}: is missing"));
            continue;
        };
        let skipped = ["path", "atime_ns", "blocks", "acl"];
        let fields: std::collections::BTreeSet<&String> =
            theirs.keys().chain(ours.keys()).collect();
        for field in fields.into_iter().filter(|f| !skipped.contains(&f.as_str())) {
            let (a, b) = (ours.get(field), theirs.get(field));
            if field.ends_with("time_ns")
                && b.and_then(Value::as_i64) > Some(newest + 1_000_000_000)
            {
                left_out += 1;
            } else if a != b {
                let (a, b) = (json!(a).to_string(), json!(b).to_string());
                let cut = |s: &str| s.chars().take(120).collect::<String>();
                differences.push(format!("{name}:{path}: {field}: {} for {}", cut(&a), cut(&b)));
            }
        }
    }
    left_out
}

fn volume_digest(objset: &Objset) -> String {
    let volume = Volume::open(objset).unwrap();
    let mut bytes = vec![0; usize::try_from(volume.size()).unwrap()];
    assert_eq!(volume.read_at(0, &mut bytes).unwrap(), bytes.len());
    hex(&Sha256::digest(&bytes))
}

#[test]
fn a_replay_shows_what_a_read_write_import_shows() {
    for corpus in testkit::corpus_among(&CASES) {
        let case = &corpus.case;
        let pool = open(&corpus);
        let mut differences = Vec::new();
        let mut applied = 0;
        for dataset in corpus.manifest["datasets"].as_array().unwrap() {
            let name = dataset["name"].as_str().unwrap();
            let found = pool.dsl().by_name(name).unwrap();
            let objset = pool.dsl().objset(&found).unwrap();
            let settings = settings(&pool, dataset);
            if dataset["type"] == "volume" {
                let (replayed, report) = replay::volume(&objset, &settings).unwrap();
                assert!(report.stopped.is_none(), "{name}: {report:?}");
                applied += report.applied;
                assert_eq!(json!(volume_digest(&replayed)), dataset["volume"]["sha256"], "{name}");
                continue;
            }
            let (replayed, report) = replay::filesystem(&objset, &settings).unwrap();
            assert!(report.stopped.is_none(), "{name}: {}", report.stopped.unwrap());
            applied += report.applied;
            let posix_acls = dataset["properties"]["acltype"] == "posix";
            let seen = walk(&Filesystem::open(replayed).unwrap(), posix_acls);
            let left_out = compare(dataset, &seen, newest_logged(&objset), &mut differences);
            assert!(left_out < 2 * seen.len(), "{name}: all times were left out");
        }
        assert!(differences.is_empty(), "{case}:\n{}", differences.join("\n"));
        assert!(applied > 500, "{case}: only {applied} records");
    }
}

#[test]
fn without_a_replay_the_pool_is_as_a_read_only_import_shows_it() {
    for corpus in testkit::corpus_among(&CASES) {
        let case = &corpus.case;
        let pool = open(&corpus);
        let mut differences = Vec::new();
        for dataset in corpus.manifest_readonly().unwrap()["datasets"].as_array().unwrap() {
            let name = dataset["name"].as_str().unwrap();
            let objset = pool.dsl().objset(&pool.dsl().by_name(name).unwrap()).unwrap();
            if dataset["type"] == "volume" {
                assert_eq!(json!(volume_digest(&objset)), dataset["volume"]["sha256"], "{name}");
                continue;
            }
            let posix_acls = dataset["properties"]["acltype"] == "posix";
            let seen = walk(&Filesystem::open(objset).unwrap(), posix_acls);
            assert_eq!(compare(dataset, &seen, NEVER, &mut differences), 0);
        }
        assert!(differences.is_empty(), "{case}:\n{}", differences.join("\n"));
    }
}
