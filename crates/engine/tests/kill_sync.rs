//! A process whose threads write with fsync is killed again and again, and every write that was
//! promised is there after the import.
//!
//! Each thread writes numbered pieces around a ring of its own, and has each promised before the
//! next: a file by fsync, one in a dataset with `sync=always` by the write itself, a volume by its
//! flush. What a piece holds follows from thread and number. After a death the import replays the
//! logs; then the last pieces of each ring, down to the last number that was promised, must be
//! there. Only the piece behind it may be torn.
//!
//! The same on a disk in a bucket, with bad weather on the way to its server: requests are delayed,
//! lost, doubled, refused, and arrive after the death of their sender. Each import takes the disk
//! over.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

#[path = "../../far/tests/weather/mod.rs"]
mod weather;
mod writing;

use engine::inside::pool::live::NewFilesystem;
use engine::inside::zpl::write::{NewFile, NewKind};
use engine::{Filesystem, LivePool, PropertyChange, StoredValue};
use poolkit::Shape;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;
use testkit::{Rng, S3Server};
use weather::Weather;
use writing::{Pools, store};

/// The directory of the pool, for the process that is killed.
const DIR: &str = "ZINC_TEST_KILL_SYNC_DIR";
/// Its name among the tests of this file.
const WRITER: &str = "killed_while_it_syncs";
/// What the process says when its threads begin.
const BEGINS: &str = "begins";
/// Pieces of a ring.
const RING: u64 = 32;

/// How a thread's writes are promised, and their bytes: less than a sector, a record of the log,
/// several records, a whole block.
const THREADS: [(SyncKind, usize); 7] = [
    (SyncKind::Fsync, 300),
    (SyncKind::Fsync, 40_000),
    (SyncKind::Fsync, 128 << 10),
    (SyncKind::Always, 4096),
    (SyncKind::Always, 128 << 10),
    (SyncKind::Flush, 4096),
    (SyncKind::Flush, 64 << 10),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncKind {
    Fsync,
    Always,
    Flush,
}

impl SyncKind {
    /// Where its threads write; of a volume each has one.
    fn dataset(self, thread: usize) -> String {
        match self {
            Self::Fsync => "tank/fs".to_owned(),
            Self::Always => "tank/always".to_owned(),
            Self::Flush => format!("tank/volume{thread}"),
        }
    }
}

/// Piece `n` of a thread, with the number in front.
fn piece(thread: usize, n: u64) -> Vec<u8> {
    let mut bytes = writing::bytes(n * THREADS.len() as u64 + thread as u64, THREADS[thread].1);
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    bytes
}

fn name(thread: usize) -> String {
    format!("ring{thread}")
}

fn object(fs: &Filesystem, thread: usize) -> u64 {
    fs.root().unwrap().lookup(name(thread).as_bytes()).unwrap().unwrap().object
}

/// The bytes of a thread's ring.
fn ring(pool: &LivePool, thread: usize) -> Vec<u8> {
    let (way, size) = THREADS[thread];
    let mut out = vec![0; size * RING as usize];
    let dataset = way.dataset(thread);
    match way {
        SyncKind::Flush => pool.volume(&dataset).unwrap().read_at(0, &mut out).unwrap(),
        _ => {
            let fs = pool.filesystem(&dataset).unwrap();
            fs.node(object(&fs, thread)).unwrap().read_at(0, &mut out).unwrap()
        }
    };
    out
}

/// The largest number in front of a piece; 0 in an empty ring, which has no piece 0.
fn newest(ring: &[u8], size: usize) -> u64 {
    let number = |piece: &[u8]| u64::from_le_bytes(piece[..8].try_into().unwrap());
    ring.chunks(size).map(number).max().unwrap()
}

/// Writes pieces until the process is killed, from the newest one on, which may be torn.
fn write_for_ever(pool: &LivePool, thread: usize) {
    let (way, size) = THREADS[thread];
    let dataset = way.dataset(thread);
    let place = |n: u64| n % RING * size as u64;
    let write: Box<dyn Fn(u64)> = match way {
        SyncKind::Flush => {
            let volume = pool.volume(&dataset).unwrap();
            Box::new(move |n| {
                volume.write_at(place(n), &piece(thread, n)).unwrap();
                volume.flush().unwrap();
            })
        }
        _ => {
            let fs = pool.filesystem(&dataset).unwrap();
            let file = object(&fs, thread);
            Box::new(move |n| {
                fs.write_at(file, place(n), &piece(thread, n), writing::fs_time(n)).unwrap();
                if way == SyncKind::Fsync {
                    fs.sync(file).unwrap();
                }
            })
        }
    };
    for n in newest(&ring(pool, thread), size).max(1).. {
        write(n);
        say(&format!("promised {thread} {n}"));
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

/// What is done in the process that is killed.
fn be_killed(dir: &Path) {
    let pool = Pools::at(dir).import("tank");
    say(BEGINS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS.len() {
            let pool = &pool;
            scope.spawn(move || write_for_ever(pool, thread));
        }
    });
}

/// Lets a writer write for `time` and kills it; the time begins when it has opened the pool, if it
/// is to write. The last number that was promised to each thread goes into `promised`.
fn write_and_die(dir: &Path, time: Duration, is_to_write: bool, promised: &mut [u64]) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", WRITER, "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (began, begins) = channel();
    let reader = std::thread::spawn(move || {
        let number = |line: String| {
            if line == BEGINS {
                let _ = began.send(());
            }
            let (thread, n) = line.strip_prefix("promised ")?.split_once(' ')?;
            Some((thread.parse::<usize>().ok()?, n.parse::<u64>().ok()?))
        };
        out.lines().map_while(Result::ok).filter_map(number).collect::<Vec<_>>()
    });
    if is_to_write {
        begins.recv_timeout(Duration::from_secs(120)).expect("it opens the pool");
    }
    std::thread::sleep(time);
    let early = child.try_wait().unwrap();
    assert!(early.is_none(), "the writer ended by itself: {early:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    for (thread, n) in reader.join().unwrap() {
        promised[thread] = n;
    }
}

/// The import replays the logs: then everything that was promised is there.
fn judge(pools: &Pools, promised: &[u64]) {
    let pool = pools.import("tank");
    for (thread, last) in promised.iter().copied().enumerate() {
        let (way, size) = THREADS[thread];
        let ring = ring(&pool, thread);
        // One more may be there that was not reported, or a part of it, in the place of the
        // oldest.
        for n in (last + 2).saturating_sub(RING).max(1)..=last {
            let at = (n % RING) as usize * size;
            let found = &ring[at..at + size];
            let number = u64::from_le_bytes(found[..8].try_into().unwrap());
            let want = piece(thread, n);
            assert!(found == want, "{way:?} of {size}: piece {n} of {last} is {number}");
        }
        assert!(newest(&ring, size) <= last + 1, "{way:?} of {size}: from the future");
    }
    pool.close().unwrap();
    let report = writing::check(&pools.open("tank"));
    assert!(report.issues.is_empty(), "check: {:?}", report.issues);
}

fn kill_in_a_loop(shape: Shape, deaths: u64) {
    kill_in(&Pools::new("killsync"), shape, deaths, false);
}

/// A slow pool is opened before its writer's time begins, but for every fourth writer.
fn kill_in(pools: &Pools, shape: Shape, deaths: u64, is_slow: bool) {
    let pool = pools.create("tank", shape);
    let always = StoredValue::Number(1);
    let always = PropertyChange { name: "sync".to_owned(), value: Some(always) };
    pool.create_filesystem("tank/fs", NewFilesystem::default(), Vec::new()).unwrap();
    pool.create_filesystem("tank/always", NewFilesystem::default(), vec![always]).unwrap();
    for (thread, (way, size)) in THREADS.into_iter().enumerate() {
        let dataset = way.dataset(thread);
        if way == SyncKind::Flush {
            pool.create_volume(&dataset, size as u64 * RING, 8192, Vec::new()).unwrap();
            continue;
        }
        let fs = pool.filesystem(&dataset).unwrap();
        let new = NewFile::new(NewKind::File, 0o644, writing::fs_time(0));
        let file = fs.create(fs.root_object(), name(thread).as_bytes(), &new).unwrap().number();
        fs.write_at(file, 0, &vec![0; size * RING as usize], writing::fs_time(0)).unwrap();
    }
    pool.export().unwrap();
    let mut rng = Rng::new(deaths);
    let mut promised = vec![0; THREADS.len()];
    for death in 0..deaths {
        let is_to_write = is_slow && death % 4 < 3;
        // A flush takes some tries there.
        let time = if is_to_write { 4000 + rng.below(4000) } else { 100 + rng.below(900) };
        write_and_die(pools.dir(), Duration::from_millis(time), is_to_write, &mut promised);
        judge(pools, &promised);
        if death % 8 == 7 {
            pools.zdb("tank");
        }
    }
    pools.judge("tank");
    let idle = promised.iter().filter(|n| **n == 0).count();
    let most = if is_slow { THREADS.len() - 1 } else { 0 };
    assert!(idle <= most, "threads were promised nothing: {promised:?}");
}

/// Also the process that the others start and kill.
#[test]
fn killed_while_it_syncs() {
    match std::env::var_os(DIR) {
        Some(dir) => be_killed(Path::new(&dir)),
        None => kill_in_a_loop(Shape::Disk, 16),
    }
}

/// In the bucket of the environment, or run again with one of a server in bad weather. The long
/// form is more deaths: `ZINC_DEATHS`.
#[testkit::needs("versitygw")]
#[test]
fn killed_while_it_syncs_in_bad_weather() {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse().expect("a number"));
    match store::given() {
        Some(bucket) => {
            let pools = Pools::in_store("killsync", |_: &Path| store::below(&bucket, "disk"));
            kill_in(&pools, Shape::Disk, number("ZINC_DEATHS").unwrap_or(1), true);
        }
        None => {
            let folder = tempfile::tempdir().unwrap();
            let server = S3Server::start(folder.path(), "bucket");
            let weather = Weather::before(&server.endpoint(), number("ZINC_SEED").unwrap_or(1));
            let test = "killed_while_it_syncs_in_bad_weather";
            store::run_again(test, "s3://bucket/a", &weather.endpoint(), &server.environment());
            println!("{}", weather.was_bad());
        }
    }
}

#[test]
#[ignore = "long form: half an hour"]
fn killed_a_thousand_times_while_it_syncs() {
    kill_in_a_loop(Shape::Mirror, 1000);
}
