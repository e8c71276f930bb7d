//! A disk in a store beside what its store does when it is asked the plain way: whole objects of
//! 16 MiB, ranges of 8 MiB, ranges of 8 KiB and objects of 20 KiB, with as many bytes or requests
//! under way.
//!
//! `cargo run --release -p far --example stores -- PLAIN DISK [MIB [ROUNDS]]`: the names of two
//! places in a store, both empty, with what their server needs in the environment. Both are
//! measured in turns, and medians are said.
//!
//! `… -- gc DISK [PERCENT]`: a full disk of 256 MiB is overwritten 8 KiB at a time, at random, six
//! times; segments with less life than this are moved together. What is sent and stored for that.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement may print, and stop where it likes"
)]

use device::{Shared, WriteDevice as _, read_batch};
use far::Name;
use far::disk::{self, SEGMENT_BYTES, Superblock};
use far::log::{LogDevice, Options};
use far::store::{Request, Response, Store};
use rt::Rt;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// What a writer of a disk has under way at most.
const UNDER_WAY: usize = 256 * MIB;
const RANGE: usize = 8 * MIB;
const SMALL: usize = 8 << 10;
/// Requests for small ranges that are under way.
const DEPTH: usize = 64;
/// What a group of transactions leaves: a few blocks, and the root of the pool.
const COMMIT: usize = 20 << 10;
const COMMITS: usize = 100;
const SMALL_READS: usize = 4096;

fn name(text: &str) -> Name {
    Name::parse(text.as_ref()).unwrap().unwrap()
}

/// Sends the requests, of which this number is under way at a time.
fn ask_all(store: &dyn Store, requests: impl Iterator<Item = Request>, under_way: usize) {
    let (send, answers) = channel();
    let (mut left, mut waiting) = (requests.fuse(), 0);
    loop {
        while waiting < under_way {
            let Some(request) = left.next() else { break };
            let send = send.clone();
            store.submit(request, Box::new(move |answer| drop(send.send(answer))));
            waiting += 1;
        }
        if waiting == 0 {
            return;
        }
        let answer = answers.recv().unwrap().unwrap();
        assert!(!matches!(answer, Response::Bytes(bytes) if bytes.is_empty()));
        waiting -= 1;
    }
}

fn create(name: String, body: Shared) -> Request {
    Request::Create { name, body: vec![body] }
}

/// Bytes that neither a disk nor a server makes smaller.
fn noise(len: usize) -> Shared {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    Shared::copy_of(&words.take(len / 8).flatten().collect::<Vec<u8>>())
}

/// The same places each time, wherever they are.
fn places(count: usize, bound: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |n| n.wrapping_mul(2_654_435_761) % bound)
}

/// One of what is compared, and what each of the two took, one time a round.
struct Row {
    what: &'static str,
    plain: Vec<Duration>,
    disk: Vec<Duration>,
}

fn median(times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

fn timed(run: impl FnOnce()) -> Duration {
    let began = Instant::now();
    run();
    began.elapsed()
}

struct Bench {
    store: Arc<dyn Store>,
    writer: Arc<LogDevice>,
    /// The disk as it was when its part of a round was written.
    reader: Option<Arc<LogDevice>>,
    disk: Name,
    opened: Vec<Duration>,
    bytes: usize,
    noise: Shared,
    rows: Vec<Row>,
}

impl Bench {
    /// Both in turns, the one first that was second before.
    fn row(
        &mut self,
        round: usize,
        what: &'static str,
        plain: &dyn Fn(&Self),
        own: &dyn Fn(&Self),
    ) {
        let (first, second) = if round.is_multiple_of(2) { (plain, own) } else { (own, plain) };
        let (first, second) = (timed(|| first(self)), timed(|| second(self)));
        let (plain, own) = if round.is_multiple_of(2) { (first, second) } else { (second, first) };
        if !self.rows.iter().any(|row| row.what == what) {
            self.rows.push(Row { what, plain: Vec::new(), disk: Vec::new() });
        }
        let row = self.rows.iter_mut().find(|row| row.what == what).unwrap();
        row.plain.push(plain);
        row.disk.push(own);
    }

    fn object(round: usize, n: usize) -> String {
        format!("plain/{round:02x}/{n:08x}")
    }

    fn segments(&self) -> usize {
        self.bytes / SEGMENT_BYTES as usize
    }

    fn puts(&self, round: usize) {
        let body = self.noise.slice(0..SEGMENT_BYTES as usize);
        let requests = (0..self.segments()).map(|n| create(Self::object(round, n), body.clone()));
        ask_all(&*self.store, requests, UNDER_WAY / SEGMENT_BYTES as usize);
    }

    fn writes(&self, round: usize) {
        for n in 0..self.bytes / MIB {
            let at = (round * self.bytes + n * MIB) as u64;
            let from = n * MIB % (self.noise.len() - MIB);
            self.writer.write(at, &self.noise[from..from + MIB]).unwrap();
        }
        self.writer.flush().unwrap();
    }

    fn gets(&self, round: usize, len: usize, under_way: usize, places: &[usize]) {
        let requests = places.iter().map(|at| Request::Get {
            name: Self::object(round, at / SEGMENT_BYTES as usize),
            from: (at % SEGMENT_BYTES as usize) as u64,
            len: len as u64,
        });
        ask_all(&*self.store, requests, under_way);
    }

    /// Reads from the disk, by as many threads as keep `under_way` reads under way.
    fn reads(&self, round: usize, len: usize, (threads, batch): (usize, usize), places: &[usize]) {
        let device = self.reader.as_ref().unwrap();
        let base = (round * self.bytes) as u64;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || {
                    for batch in places.chunks(batch).skip(thread).step_by(threads) {
                        let ranges: Vec<_> =
                            batch.iter().map(|at| (base + *at as u64, len)).collect();
                        assert!(
                            read_batch(&**device, &ranges).into_iter().all(|read| read.is_ok())
                        );
                    }
                });
            }
        });
    }

    fn round(&mut self, round: usize) {
        self.row(round, "write in order", &|b| b.puts(round), &|b| b.writes(round));
        let began = Instant::now();
        self.reader = Some(disk::open(&self.disk).unwrap());
        self.opened.push(began.elapsed());
        let ranges: Vec<_> = (0..self.bytes / RANGE).map(|n| n * RANGE).collect();
        let blocks: Vec<_> = (0..self.bytes / MIB).map(|n| n * MIB).collect();
        let (plain, own) = (UNDER_WAY / RANGE, (4, UNDER_WAY / MIB / 4));
        self.row(round, "read in order", &|b| b.gets(round, RANGE, plain, &ranges), &|b| {
            b.reads(round, MIB, own, &blocks);
        });
        let small: Vec<_> = places(SMALL_READS, self.bytes / SMALL).map(|n| n * SMALL).collect();
        self.row(round, "read 8 KiB", &|b| b.gets(round, SMALL, DEPTH, &small), &|b| {
            b.reads(round, SMALL, (DEPTH, 1), &small);
        });
        let commits = |b: &Self| {
            for n in 0..COMMITS {
                let body = b.noise.slice(0..COMMIT);
                ask_all(&*b.store, std::iter::once(create(Self::object(128 + round, n), body)), 1);
            }
        };
        let flushes = |b: &Self| {
            for n in 0..COMMITS {
                let at = (round * b.bytes + n * COMMIT) as u64;
                b.writer.write(at, &b.noise[..COMMIT]).unwrap();
                b.writer.flush().unwrap();
            }
        };
        self.row(round, "commit 20 KiB", &commits, &flushes);
    }
}

/// Bytes of a disk that is overwritten at random.
const OVERWRITTEN: usize = 256 * MIB;
/// Writes between two collections: as many segments of 1 MiB as between two checkpoints.
const BETWEEN: usize = 128 * MIB / SMALL;

/// Overwrites a disk again and again; what it costs when as much is garbage as ever.
fn overwrite(name: &Name, percent: u32) {
    let is = Superblock { target: MIB as u32, ..superblock(OVERWRITTEN) };
    disk::create(name, &is).unwrap();
    let options = Options { is_tended: false, grace: Duration::ZERO, ..Options::default() };
    let writer =
        LogDevice::claim(disk::store(name).unwrap(), "gc", &Rt::real(), options, None).unwrap();
    let noise = noise(MIB + SMALL);
    for n in 0..OVERWRITTEN / MIB {
        writer.write((n * MIB) as u64, &noise[..MIB]).unwrap();
    }
    let blocks = OVERWRITTEN / SMALL;
    let (mut state, mut stored_most, mut sent_before) = (1_u64, 0, 0);
    for n in 0..6 * blocks {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (state >> 33) as usize % blocks * SMALL;
        writer.write(at as u64, &noise[at % MIB..][..SMALL]).unwrap();
        if n % 128 == 127 {
            writer.flush().unwrap();
        }
        if n % BETWEEN == BETWEEN - 1 {
            while writer.clean(percent, 256 << 20).unwrap() > 0 {}
            writer.age().unwrap();
            writer.collect().unwrap();
            stored_most = stored_most.max(disk::overview(name).unwrap().log.unwrap().kept);
        }
        if n == 3 * blocks {
            (stored_most, sent_before) = (0, writer.usage().sent_bytes);
        }
    }
    let sent = (writer.usage().sent_bytes - sent_before) as f64;
    println!("moved below {percent} % live; the last three of six rounds:");
    println!("bytes sent for each byte written: {:.2}", sent / (3 * OVERWRITTEN) as f64);
    let stored = stored_most as f64 / OVERWRITTEN as f64;
    println!("bytes stored for each live byte, at most, behind a collection: {stored:.2}");
}

fn superblock(size: usize) -> Superblock {
    Superblock {
        size: size as u64,
        sector: 4096,
        target: SEGMENT_BYTES,
        window: disk::WINDOW,
        is_fenced: true,
        made_by: "bench/far".to_owned(),
        limit: None,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |n: usize, default| arguments.get(n).map_or(default, |a| a.parse::<usize>().unwrap());
    if arguments[0] == "gc" {
        return overwrite(&name(&arguments[1]), number(2, 40) as u32);
    }
    let (mib, rounds) = (number(2, 1024), number(3, 3));
    let (plain, disk) = (name(&arguments[0]), name(&arguments[1]));
    let is = superblock(mib * MIB * rounds);
    disk::create(&disk, &is).unwrap();
    let mut bench = Bench {
        store: disk::store(&plain).unwrap(),
        writer: disk::claim(&disk).unwrap(),
        reader: None,
        disk,
        opened: Vec::new(),
        bytes: mib * MIB,
        noise: noise(32 * MIB),
        rows: Vec::new(),
    };
    (0..rounds).for_each(|round| bench.round(round));
    println!("| what | plain, s | disk, s | disk of plain |");
    println!("| --- | --- | --- | --- |");
    for row in &bench.rows {
        let (plain, own) = (median(&row.plain), median(&row.disk));
        println!("| {} | {plain:.3} | {own:.3} | {:.2} |", row.what, plain / own);
    }
    println!("opening to read, s: {:.3}", median(&bench.opened));
    let usage = bench.writer.usage();
    let written = (mib * MIB * rounds) as f64 / 1e12;
    let (creates, commits) = (usage.creates as f64, (COMMITS * rounds) as f64);
    println!(
        "creates for each TB written, without the commits: {:.0}",
        (creates - commits) / written
    );
    println!("bytes sent for each byte written: {:.3}", usage.sent_bytes as f64 / written / 1e12);
}
