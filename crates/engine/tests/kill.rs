//! A process that writes is killed again and again, and nothing that it was promised is lost.
//!
//! The process makes numbered changes, each in one transaction that also writes the number down.
//! What a change does follows from its number, so the number that is found tells everything that
//! has to be there. After each sync and each snapshot that has returned, the process says how far
//! it has come; that much at least must be found after its death.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod writing;

use engine::inside::check::Issue;
use engine::inside::dmu::Hold;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::{NewFilesystem, TxgLimits};
use engine::inside::zpl::write::{NewFile, NewKind};
use engine::{Filesystem, LivePool, Pool};
use poolkit::Shape;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;
use testkit::{CephServer, Rng, S3Access, S3Server};
use writing::{Pools, store};

/// The directory of the pool, for the process that is killed.
const DIR: &str = "ZINC_TEST_KILL_DIR";
/// Its name among the tests of this file.
const WRITER: &str = "killed_on_a_disk";
/// What the process says when it has opened the pool.
const BEGINS: &str = "begins";
/// A snapshot is made every this many changes, and destroyed when it is this many snapshots old.
const SNAPSHOT_EVERY: u64 = 40;
const SNAPSHOTS_KEPT: u64 = 6;

type State = BTreeMap<String, Vec<u8>>;

/// What a change does.
enum Change {
    Remove(String),
    /// Cut off at the place, then followed by the bytes.
    Write(String, usize, Vec<u8>),
}

fn change(n: u64) -> Change {
    let mut rng = Rng::new(n);
    let name = format!("f{}", rng.below(30));
    match rng.below(8) {
        0 => Change::Remove(name),
        1..4 => Change::Write(name, rng.below(200_000) as usize, writing::bytes(n, 5_000)),
        _ => Change::Write(name, 0, writing::bytes(n, rng.below(300_000) as usize)),
    }
}

/// The state before change `n` becomes that after it.
fn apply(state: &mut State, n: u64) {
    match change(n) {
        Change::Remove(name) => drop(state.remove(&name)),
        Change::Write(name, at, bytes) => {
            let file = state.entry(name).or_default();
            file.truncate(at);
            let at = file.len();
            file.resize(at + bytes.len(), 0);
            file[at..].copy_from_slice(&bytes);
        }
    }
}

fn make(fs: &Filesystem, n: u64) {
    let (now, root) = (writing::fs_time(n), fs.root_object());
    let tx = fs.begin(Hold::write(1 << 20)).unwrap();
    let open = |name: &str| {
        let found = fs.root().unwrap().lookup(name.as_bytes()).unwrap();
        let new = NewFile::new(NewKind::File, 0o644, now);
        found.map_or_else(
            || fs.create_tx(&tx, root, name.as_bytes(), &new).unwrap(),
            |entry| entry.object,
        )
    };
    match change(n) {
        Change::Remove(name) => {
            if fs.root().unwrap().lookup(name.as_bytes()).unwrap().is_some() {
                fs.unlink_tx(&tx, root, name.as_bytes(), now).unwrap();
            }
        }
        Change::Write(name, at, bytes) => {
            let object = open(&name);
            let size = fs.node(object).unwrap().size;
            let at = size.min(at as u64);
            if at < size {
                fs.truncate_tx(&tx, object, at, now).unwrap();
            }
            fs.write_at_tx(&tx, object, at, &bytes, now).unwrap();
        }
    }
    fs.write_at_tx(&tx, open("count"), 0, &n.to_le_bytes(), now).unwrap();
}

/// What a file system holds, and the number of the last change in it.
fn look(fs: &Filesystem) -> (u64, State) {
    let mut state: State = writing::contents(fs)
        .into_iter()
        .map(|(path, data)| (path[1..].to_owned(), data))
        .collect();
    let count = state.remove("count");
    (count.map_or(0, |c| u64::from_le_bytes(c.try_into().unwrap())), state)
}

fn dataset(pool: &Pool, name: &str) -> Filesystem {
    let dsl = pool.dsl();
    Filesystem::open(dsl.objset(&dsl.by_name(name).unwrap()).unwrap()).unwrap()
}

/// Changes until it is killed.
fn write_for_ever(pool: &LivePool) {
    // Small txgs, so that a death meets them in every state.
    let limits =
        TxgLimits { dirty_max: 8 << 20, timeout: Duration::from_millis(40), ..pool.limits() };
    pool.set_limits(limits);
    let fs = pool.filesystem("tank/fs").unwrap();
    let say = |line: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
    };
    say(BEGINS);
    let promise = |n: u64| say(&format!("durable {n}"));
    let snapshot = |n: u64| format!("tank/fs@s{n}");
    let exists = |n: u64| pool.view().dsl().by_name(&snapshot(n)).is_ok();
    let (last, _) = look(&fs);
    // A death may have come between a snapshot and the end of the oldest.
    let old =
        (0..last.saturating_sub(SNAPSHOT_EVERY * SNAPSHOTS_KEPT)).step_by(SNAPSHOT_EVERY as usize);
    for n in old.filter(|n| exists(*n)) {
        pool.destroy_snapshots(&[snapshot(n)], false).unwrap();
    }
    for n in last.. {
        // The last change is there already; its snapshot or promise may not be.
        if n > last {
            make(&fs, n);
        }
        if n > 0 && n.is_multiple_of(SNAPSHOT_EVERY) && !exists(n) {
            pool.snapshot(&[snapshot(n)], Vec::new()).unwrap();
            promise(n);
            let old = n.saturating_sub(SNAPSHOT_EVERY * SNAPSHOTS_KEPT);
            if exists(old) {
                pool.destroy_snapshots(&[snapshot(old)], false).unwrap();
            }
        } else if n.is_multiple_of(17) {
            pool.sync().unwrap();
            promise(n);
        }
    }
}

/// What is done in the process that is killed.
fn be_killed(dir: &Path) {
    write_for_ever(&Pools::at(dir).import("tank"));
}

/// Lets a writer write for `time`, kills it, and gives what it said was durable last. The time
/// begins with the process or, if that `is_to_write`, when it has opened the pool.
fn write_and_die(dir: &Path, time: Duration, is_to_write: bool) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", WRITER, "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (began, begins) = channel();
    let reader = std::thread::spawn(move || {
        let mut promised = None;
        for line in out.lines().map_while(Result::ok) {
            if line.ends_with(BEGINS) {
                let _ = began.send(());
            }
            promised = line.strip_prefix("durable ").and_then(|n| n.parse().ok()).or(promised);
        }
        promised
    });
    if is_to_write {
        begins.recv_timeout(Duration::from_secs(120)).expect("it opens the pool");
    }
    std::thread::sleep(time);
    let early = child.try_wait().unwrap();
    assert!(early.is_none(), "the writer ended by itself: {early:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// What is known of the pool from the deaths before.
#[derive(Default)]
struct Known {
    /// State after change `count`.
    count: u64,
    state: State,
    /// Snapshots that were looked into.
    seen: BTreeSet<u64>,
}

fn judge(pools: &Pools, known: &mut Known, promised: u64) {
    let pool = pools.open("tank");
    let report = writing::check(&pool);
    // A death between the labels leaves old ones behind, which is not damage.
    let of_a_label = |i: &&Issue| matches!(i, Issue::Label { .. } | Issue::LabelRound { .. });
    let issue = report.issues.iter().find(|i| !of_a_label(i));
    assert!(issue.is_none(), "check: {issue:?}");
    let (count, state) = look(&dataset(&pool, "tank/fs"));
    assert!(count >= promised, "{promised} changes were promised, {count} are there");
    let last = count - count % SNAPSHOT_EVERY;
    let kept =
        (1..=SNAPSHOTS_KEPT).map(|i| (last + SNAPSHOT_EVERY).saturating_sub(i * SNAPSHOT_EVERY));
    let kept: BTreeSet<u64> = kept.filter(|n| *n > 0).collect();
    for n in known.count + 1..=count {
        apply(&mut known.state, n);
        if kept.contains(&n) && n <= promised {
            let (at, snapshot) = look(&dataset(&pool, &format!("tank/fs@s{n}")));
            assert!(at == n && snapshot == known.state, "snapshot s{n} is not what it was");
            known.seen.insert(n);
        }
    }
    known.count = count;
    assert!(state == known.state, "the state is not that after change {count}");
    // The oldest may be on its way out.
    for n in kept.iter().skip(1).filter(|n| known.seen.contains(n)) {
        assert!(pool.dsl().by_name(&format!("tank/fs@s{n}")).is_ok(), "snapshot s{n} is lost");
    }
}

fn kill_in_a_loop(shape: Shape, deaths: u64) {
    kill_in(&Pools::new("kill"), shape, deaths, 700);
}

/// Each writer lives for up to `life` milliseconds.
fn kill_in(pools: &Pools, shape: Shape, deaths: u64, life: u64) {
    let pool = pools.create("tank", shape);
    pool.create_filesystem("tank/fs", NewFilesystem::default(), Vec::new()).unwrap();
    pool.export().unwrap();
    let mut known = Known::default();
    let mut rng = Rng::new(deaths);
    let mut progressed = 0;
    for death in 0..deaths {
        let time = Duration::from_millis(100 + rng.below(life - 100));
        let before = known.count;
        let promised =
            write_and_die(pools.dir(), time, death.is_multiple_of(2)).unwrap_or(known.count);
        judge(pools, &mut known, promised);
        progressed += u64::from(known.count > before);
        if death % 8 == 7 {
            pools.zdb("tank");
        }
    }
    // Opened and closed once more, nothing is left over.
    pools.import("tank").export().unwrap();
    pools.judge("tank");
    assert!(progressed > deaths / 4, "only {progressed} of {deaths} writers came to write");
}

/// Also the process that the others start and kill.
#[test]
fn killed_on_a_disk() {
    match std::env::var_os(DIR) {
        Some(dir) => be_killed(Path::new(&dir)),
        None => kill_in_a_loop(Shape::Disk, 16),
    }
}

#[test]
fn killed_on_raidz() {
    kill_in_a_loop(Shape::Raidz1, 8);
}

/// Each writer takes the disk over from one that was killed.
#[test]
fn killed_in_a_store() {
    let place = |dir: &Path| format!("dir://{}", dir.join("store").display());
    kill_in(&Pools::in_store("kill", place), Shape::Disk, deaths(), 1000);
}

/// How often a writer in a store is killed.
fn deaths() -> u64 {
    std::env::var("ZINC_DEATHS").map_or(8, |n| n.parse().expect("a number"))
}

/// In the bucket of the environment, where opening a pool takes a second on a busy machine, or by
/// the test run again with one of a server of its own.
fn kill_in_bucket<S: Deref<Target = S3Access>>(test: &str, start: impl FnOnce(&Path, &str) -> S) {
    if let Some(bucket) = store::given() {
        let place = |_: &Path| store::below(&bucket, "disk");
        kill_in(&Pools::in_store("kill", place), Shape::Disk, deaths(), 5000);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), "bucket");
    store::run_again(test, "s3://bucket/a", &server.endpoint(), &server.environment());
}

#[testkit::needs("versitygw")]
#[test]
fn killed_in_a_bucket() {
    kill_in_bucket("killed_in_a_bucket", S3Server::start);
}

#[testkit::needs("ceph")]
#[test]
fn killed_in_a_bucket_of_ceph() {
    kill_in_bucket("killed_in_a_bucket_of_ceph", CephServer::start);
}

#[test]
#[ignore = "long form: half an hour"]
fn killed_a_thousand_times() {
    kill_in_a_loop(Shape::Mirror, 1000);
}
