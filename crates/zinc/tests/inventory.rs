//! `zinc inventory` against the manifests the OpenZFS kernel module made of the same pools: every
//! member of every file, dataset, snapshot and bookmark must be equal, but for the exceptions
//! below, each with its reason.
//!
//! All pools shipped with the project, and those of the corpus beside the checkout if there is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "a test")]

mod support;

use serde_json::Value;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::has;
use support::place::Place;
use testkit::CorpusPool;

/// Pools read at the same time.
const AT_ONCE: usize = 2;
/// Differences printed for one pool, at most.
const SHOWN: usize = 200;

/// A member that may differ: the end of its path, and why.
struct Exception {
    case: Option<&'static str>,
    applies: fn(&str) -> bool,
    #[expect(dead_code, reason = "for the reader")]
    why: &'static str,
}

const fn always(applies: fn(&str) -> bool, why: &'static str) -> Exception {
    Exception { case: None, applies, why }
}

const EXCEPTIONS: [Exception; 15] = [
    always(
        |p| {
            let recorded = ["/layout", "/create", "/notes", "/zfs_version", "/keys"];
            recorded.contains(&p) || p == "/replay_differences"
        },
        "how the pool was made and tested: nothing in the pool tells",
    ),
    always(|p| p.ends_with("/atime_ns"), "reading changes it"),
    always(
        |p| p.contains("[.zfs") && (p.ends_with("/mtime_ns") || p.ends_with("/ctime_ns")),
        "the directory .zfs is made up when the dataset is mounted",
    ),
    always(
        |p| p.ends_with("/properties/available"),
        "changes with every txg of the import that made the manifest",
    ),
    always(
        |p| {
            let Some(name) = p.strip_prefix("/datasets[") else { return false };
            let Some((name, member)) = name.split_once("]/properties/") else { return false };
            let sums = ["used", "usedbychildren", "logicalused", "compressratio"];
            !name.contains('/') && sums.contains(&member)
        },
        "the root counts the pool's own objects, which every import writes",
    ),
    always(
        |p| {
            let moving = ["free", "allocated", "capacity", "fragmentation", "load_guid"];
            p.strip_prefix("/pool_properties/").is_some_and(|p| moving.contains(&p))
        },
        "changes with every txg of the import that made the manifest",
    ),
    always(|p| p == "/pool_properties/cachefile", "how the pool was imported, not what it holds"),
    Exception {
        case: Some("removing"),
        applies: |p| p == "/status",
        why: "the removal went on while the manifest was made",
    },
    always(|p| p == "/vdev_list", "shows allocated and free space and fragmentation"),
    Exception {
        case: Some("degraded-mirror"),
        applies: |p| p == "/status",
        why: "counts the errors which that import had met by then",
    },
    Exception { case: Some("sample"), applies: |p| p == "/status", why: "the same pool" },
    Exception {
        case: Some("removed"),
        applies: |p| p == "/status",
        why: "names a device as that machine named it, not as the pool does",
    },
    Exception {
        case: Some("checkpoint"),
        applies: |p| matches!(p, "/status" | "/pool_properties/checkpoint"),
        why: "the checkpoint keeps what the import freed",
    },
    Exception {
        case: Some("rawsize"),
        applies: |p| p.ends_with("/userspace") || p.ends_with("/groupspace"),
        why: "the tables are there, and `zfs userspace` asks no pool before version 15",
    },
    Exception {
        case: Some("crypt"),
        applies: |p| {
            let moved = [
                "used",
                "written",
                "usedbysnapshots",
                "usedbyrefreservation",
                "logicalused",
                "compressratio",
            ];
            let Some((dataset, member)) = p.rsplit_once("/properties/") else { return false };
            let below = dataset.ends_with("/vol]") || dataset.ends_with("/vol@v]");
            // The encryption roots above count the same block.
            moved.contains(&member) && (below || dataset.matches('/').count() == 2)
        },
        why: "showing the snapshots of an encrypted volume made the kernel write a block to it",
    },
];

fn excepted(case: &str, path: &str) -> bool {
    EXCEPTIONS.iter().any(|e| e.case.is_none_or(|c| c == case) && (e.applies)(path))
}

/// What identifies an element of a list.
fn key(v: &Value) -> Option<&str> {
    ["path", "path_hex", "name"].iter().find_map(|k| v.get(k)?.as_str())
}

fn differ(path: &str, want: &Value, got: &Value, out: &mut Vec<(String, String)>) {
    let brief = |v: &Value| v.to_string().chars().take(160).collect::<String>();
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => {
            for (k, v) in a {
                match b.get(k) {
                    Some(other) => differ(&format!("{path}/{k}"), v, other, out),
                    None => out.push((format!("{path}/{k}"), format!("missing: {}", brief(v)))),
                }
            }
            for (k, v) in b.iter().filter(|(k, _)| !a.contains_key(*k)) {
                out.push((format!("{path}/{k}"), format!("too much: {}", brief(v))));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let (ka, kb): (Vec<_>, Vec<_>) =
                (a.iter().map(key).collect(), b.iter().map(key).collect());
            if ka != kb {
                let lost = ka.iter().filter(|k| !kb.contains(k)).take(5).collect::<Vec<_>>();
                let new = kb.iter().filter(|k| !ka.contains(k)).take(5).collect::<Vec<_>>();
                let text = format!("other members or order: lost {lost:?}, new {new:?}");
                out.push((path.to_owned(), text));
            }
            for (i, v) in a.iter().enumerate() {
                let other = match key(v) {
                    Some(k) => b.get(i).filter(|o| key(o) == Some(k)),
                    None => b.get(i),
                };
                let name = key(v).map_or_else(|| i.to_string(), str::to_owned);
                if let Some(other) = other {
                    differ(&format!("{path}[{name}]"), v, other, out);
                }
            }
        }
        (a, b) if a == b => {}
        (a, b) => out.push((path.to_owned(), format!("want {}, got {}", brief(a), brief(b)))),
    }
}

fn inventory(pool: &CorpusPool, more: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.env("ZINC_STATE", concat!(env!("CARGO_TARGET_TMPDIR"), "/run/state"));
    command.arg("inventory").arg("-d").arg(&pool.dir).args(more);
    if pool.manifest.get("keys").is_some() {
        command.arg("--keys").arg(pool.source().join("manifest.json"));
    }
    let output = command.arg(pool.name()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}\n{message}", pool.case, output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{}: {e}", pool.case))
}

/// Compares one pool; the differences as text.
fn compare(pool: &CorpusPool) -> Vec<String> {
    let want = pool.manifest_readonly().unwrap_or_else(|| pool.manifest.clone());
    let mut found = Vec::new();
    differ("", &want, &inventory(pool, &[]), &mut found);
    found.retain(|(path, _)| !excepted(&pool.case, path));
    found.into_iter().map(|(path, what)| format!("{}: {path}: {what}", pool.case)).collect()
}

fn compare_all(pools: &[CorpusPool]) {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(pool) = pools.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let differences = compare(pool);
                    all.lock().unwrap().extend(differences.into_iter().take(SHOWN));
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
}

#[test]
fn pools_of_the_project_equal_their_manifests() {
    let pools: Vec<_> = testkit::fixture_cases().iter().map(|c| testkit::fixture(c)).collect();
    assert!(!pools.is_empty());
    compare_all(&pools);
}

#[test]
fn pools_in_rare_states_equal_their_manifests() {
    let cases = testkit::sample_cases();
    let pools: Vec<_> = cases.iter().map(|c| testkit::sample(c)).collect();
    assert!(pools.len() > 1);
    compare_all(&pools);
}

#[test]
fn pools_of_the_corpus_equal_their_manifests() {
    let cases = testkit::corpus_cases();
    let pools: Vec<_> = cases.iter().map(|c| testkit::corpus(c)).collect();
    compare_all(&pools);
}

/// With the intent log replayed: all content is equal. What the kernel's replay wrote has the time
/// of that replay, and space, which a replay in memory does not allocate.
#[test]
fn replayed_logs_show_what_a_read_write_import_showed() {
    for pool in testkit::corpus_among(&["ziluncle", "zil-slog"]) {
        let case = pool.case.as_str();
        let mut found = Vec::new();
        differ("", &pool.manifest, &inventory(&pool, &["--replay"]), &mut found);
        let moved = |p: &str| {
            let entry = ["/mtime_ns", "/ctime_ns", "/blocks"].iter().any(|m| p.ends_with(m));
            let used = ["bcloneused", "bclonesaved", "bcloneratio", "zilsaxattr"];
            let space = p.contains("/userspace") || p.contains("/groupspace");
            let sizes = [
                "used",
                "referenced",
                "written",
                "usedbydataset",
                "usedbyrefreservation",
                "logicalused",
                "logicalreferenced",
                "compressratio",
                "refcompressratio",
            ];
            let size = p.rsplit_once("/properties/").is_some_and(|(_, m)| sizes.contains(&m));
            let pool = used.iter().any(|m| p.ends_with(m)) || p == "/features/block_cloning";
            entry || space || size || pool
        };
        found.retain(|(p, _)| !excepted(case, p) && !moved(p));
        let lines: Vec<_> = found.iter().map(|(p, what)| format!("{case}: {p}: {what}")).collect();
        assert!(lines.is_empty(), "{} differences:\n{}", lines.len(), lines.join("\n"));
    }
}

/// The comparison itself must be able to fail.
#[test]
fn a_difference_is_found() {
    let pool = testkit::fixture("removed");
    let mut changed = pool.manifest.clone();
    let file = changed["datasets"][1]["entries"].as_array_mut().unwrap();
    let file = file.iter_mut().find(|e| e["type"] == "file").unwrap();
    file["sha256"] = "0".into();
    let mut found = Vec::new();
    differ("", &pool.manifest, &changed, &mut found);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(!excepted("removed", &found[0].0), "{found:?}");
}

/// Datasets whose keys are not given are named, with no content, and nothing else changes.
#[test]
fn locked_datasets_have_no_entries() {
    let pool = testkit::corpus("crypt");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.env("ZINC_STATE", concat!(env!("CARGO_TARGET_TMPDIR"), "/run/state"));
    let output = command.arg("inventory").arg("-d").arg(&pool.dir).arg(pool.name()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let got: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (mut locked, mut open) = (0, 0);
    for d in got["datasets"].as_array().unwrap() {
        let encrypted = d["properties"]["encryption"] != "off";
        if d["type"] == "filesystem" {
            assert_eq!(d["entries"].is_null(), encrypted, "{}", d["name"]);
            assert_eq!(d["unmounted"].is_string(), encrypted, "{}", d["name"]);
        } else {
            assert_eq!(d["volume"].is_null(), encrypted, "{}", d["name"]);
        }
        locked += usize::from(encrypted);
        open += usize::from(!encrypted);
    }
    assert!(locked > 10 && open > 0, "{locked} locked, {open} open");
}

/// Imports a copy of a degraded pool that OpenZFS left, makes it whole and scrubs it twice: the
/// second scrub has nothing to repair, zdb and the check find nothing, and all content is equal.
fn made_whole(case: &str, what: &str, mend: &dyn Fn(&Place)) {
    let mut pool = testkit::corpus(case);
    let name = pool.name().to_owned();
    let place = Place::new(&[]);
    for (image, number) in pool.images.iter().zip(&pool.numbers) {
        let copy = place.path().join(format!("vdev{number}.img"));
        let sparse = Command::new("cp").arg("--sparse=always").arg(image).arg(&copy).status();
        assert!(sparse.unwrap().success());
    }
    mend(&place);
    place.ok(&format!("zpool scrub -w {name}"));
    place.ok(&format!("zpool clear {name}"));
    place.ok(&format!("zpool scrub -w {name}"));
    let status = place.ok(&format!("zpool status {name}"));
    has(&status, &[" state: ONLINE", "scrub repaired 0B", "with 0 errors", "No known data errors"]);
    place.ok(&format!("zpool export {name}"));
    place.zdb_is_content(&name);
    place.ok(&format!("check -q -d . {name}"));

    pool.dir = place.path().to_owned();
    let mut found = Vec::new();
    differ("", &pool.manifest, &inventory(&pool, &[]), &mut found);
    let is_content = |path: &str| path.starts_with("/datasets") && !path.contains("/properties/");
    found.retain(|(path, _)| is_content(path) && !excepted(case, path));
    assert!(found.is_empty(), "{case}, {what}: {found:#?}");
}

#[test]
fn degraded_pools_of_openzfs_are_made_whole() {
    made_whole("degraded-raidz", "its stale disk is used again", &|place| {
        place.ok("zpool import -d . stale");
        has(&place.ok("zpool status stale"), &["vdev2.img  OFFLINE"]);
        place.ok("zpool online stale vdev2.img");
    });
    made_whole("degraded-raidz", "its stale disk is lost, and replaced", &|place| {
        std::fs::remove_file(place.path().join("vdev2.img")).unwrap();
        place.extra("new.img");
        place.ok("zpool import -d . stale");
        place.ok("zpool replace -w stale 1799836678942771647 new.img");
    });
    made_whole("degraded-mirror", "its damaged side is repaired", &|place| {
        place.ok("zpool import -d . rotten");
    });
    made_whole("degraded-mirror", "its damaged side is replaced", &|place| {
        place.ok("zpool import -d . rotten");
        place.ok("zpool detach rotten vdev1.img");
        std::fs::remove_file(place.path().join("vdev1.img")).unwrap();
        place.extra("new.img");
        place.ok("zpool attach -w rotten vdev0.img new.img");
    });
}
