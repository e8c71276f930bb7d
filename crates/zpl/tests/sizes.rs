//! Files of every size around the borders of blocks, in records from the smallest to the largest;
//! directories of many entries; many threads at once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by it")]

mod common;

use common::{at, filesystem};
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::Rng;
use zpl::{Filesystem, FormatOptions, FsSettings, NewFile, NewKind, RenameMode};

fn new_file() -> NewFile {
    NewFile::new(NewKind::File, 0o644, at(2))
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    Rng::new(seed).fill(&mut out);
    out
}

fn content(fs: &Filesystem, n: u64) -> Vec<u8> {
    let node = fs.node(n).unwrap();
    let mut out = vec![0xcc; node.size as usize];
    assert_eq!(node.read_at(0, &mut out).unwrap(), out.len());
    out
}

/// The block size OpenZFS gives a file that was written to this size at once.
fn block_size(size: u64, record: u64) -> u64 {
    size.min(record).next_multiple_of(512).max(512)
}

fn borders(record: u32) {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    fs.configure(FsSettings { record_size: record, ..FsSettings::default() }).unwrap();
    let r = u64::from(record);
    let sizes = [0, 1, 511, 512, 513, r - 1, r, r + 1, 2 * r - 1, 2 * r, 2 * r + 1];
    let mut made = Vec::new();
    for (i, size) in sizes.into_iter().enumerate() {
        let data = pattern(i as u64, size as usize);
        // At once, and in pieces of an odd size.
        let whole = fs.create(fs.root_object(), format!("w{i}").as_bytes(), &new_file()).unwrap();
        fs.write_at(whole.number(), 0, &data, at(3)).unwrap();
        let pieces = fs.create(fs.root_object(), format!("p{i}").as_bytes(), &new_file()).unwrap();
        for part in data.chunks((size as usize / 5).max(1)) {
            fs.append(pieces.number(), part, at(3)).unwrap();
        }
        made.push((whole.number(), pieces.number(), data));
    }
    set.commit();
    let view = Filesystem::open(set.view()).unwrap();
    for (whole, pieces, data) in &made {
        assert!(content(&view, *whole) == *data, "record {record} size {}", data.len());
        assert!(content(&view, *pieces) == *data, "record {record} size {}", data.len());
        let block = |n| view.node(n).unwrap().object().dnode().block_size();
        let wanted = block_size(data.len() as u64, r);
        assert_eq!((block(*whole), block(*pieces)), (wanted, wanted), "size {}", data.len());
    }
    // Cut each to half and let it grow again: what was cut is zeros.
    for (whole, pieces, data) in &mut made {
        let (half, all) = (data.len() / 2, data.len() + 100);
        fs.truncate(*whole, half as u64, at(4)).unwrap();
        fs.truncate(*whole, all as u64, at(4)).unwrap();
        data.truncate(half);
        data.resize(all, 0);
        fs.unlink(fs.root_object(), entry_name(&fs, *pieces).as_slice(), at(4)).unwrap();
    }
    set.commit();
    let view = Filesystem::open(set.view()).unwrap();
    for (whole, pieces, data) in &made {
        assert!(content(&view, *whole) == *data, "record {record} cut to {}", data.len());
        assert!(view.node(*pieces).is_err());
    }
}

fn entry_name(fs: &Filesystem, n: u64) -> Vec<u8> {
    let entries = fs.root().unwrap().sorted_entries().unwrap();
    entries.into_iter().find(|e| e.object == n).unwrap().name
}

#[test]
fn every_record_size() {
    for shift in [9, 10, 12, 13, 17, 20] {
        borders(1 << shift);
    }
}

#[test]
fn the_largest_records() {
    borders(16 << 20);
}

#[test]
fn sparse_files_have_segments() {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let n = fs.create(fs.root_object(), b"sparse", &new_file()).unwrap().number();
    let record = 128 << 10;
    fs.write_at(n, 1 << 40, b"far", at(3)).unwrap();
    fs.write_at(n, 3 * record, &pattern(1, record as usize), at(3)).unwrap();
    set.commit();
    let node = Filesystem::open(set.view()).unwrap().node(n).unwrap();
    assert_eq!((node.size, node.object().dnode().levels > 2), ((1 << 40) + 3, true));
    let segments = node.segments().unwrap();
    assert_eq!(segments.iter().map(|s| s.offset).collect::<Vec<_>>(), [3 * record, 1 << 40]);
    fs.punch(n, 3 * record, record, at(4)).unwrap();
    set.commit();
    let node = Filesystem::open(set.view()).unwrap().node(n).unwrap();
    assert_eq!(node.segments().unwrap().len(), 1);
    fs.truncate(n, 0, at(5)).unwrap();
    let before = set.memory.count();
    set.commit();
    let node = Filesystem::open(set.view()).unwrap().node(n).unwrap();
    assert_eq!((node.size, node.segments().unwrap().len()), (0, 0));
    assert!(set.memory.count() < before);
}

#[test]
fn a_directory_of_fifty_thousand() {
    const MANY: u64 = 50_000;
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let root = fs.root_object();
    let dir = fs.create(root, b"dir", &NewFile::new(NewKind::Dir, 0o755, at(2))).unwrap().number();
    let n = fs.create(root, b"file", &new_file()).unwrap().number();
    let name = |i: u64| format!("an entry with a name of some length {i}").into_bytes();
    for i in 0..MANY {
        // Every tenth is a file of its own, the others are names of one.
        if i % 10 == 0 {
            fs.create(dir, &name(i), &new_file()).unwrap();
        } else {
            fs.link(n, dir, &name(i), at(3)).unwrap();
        }
        if i % 20_000 == 7 {
            set.commit();
        }
    }
    set.commit();
    let view = Filesystem::open(set.view()).unwrap();
    let node = view.node(dir).unwrap();
    assert_eq!(node.size, MANY + 2);
    assert_eq!(node.entries().unwrap().count() as u64, MANY);
    assert_eq!(view.node(n).unwrap().links, 1 + MANY / 10 * 9);
    for i in (0..MANY).step_by(997) {
        assert!(node.lookup(&name(i)).unwrap().is_some(), "{i}");
    }
    for i in 0..MANY {
        fs.unlink(dir, &name(i), at(4)).unwrap();
        if i % 17_000 == 7 {
            set.commit();
        }
    }
    fs.rmdir(root, b"dir", at(5)).unwrap();
    set.commit();
    let view = Filesystem::open(set.view()).unwrap();
    assert_eq!(view.node(n).unwrap().links, 1);
    assert_eq!(view.root().unwrap().sorted_entries().unwrap().len(), 1);
}

const THREADS: u64 = 4;
const ROUNDS: usize = 400;

/// What a thread does beside the others: files with names of its own, its part of one file, the end
/// of another, and a name that all want.
fn work(fs: &Filesystem, dirs: &[u64; 3], (shared, log): (u64, u64), t: u64, steps: &[u64]) {
    let root = fs.root_object();
    let rounds = steps.len() as u64;
    for (i, step) in (0..).zip(steps) {
        let mut rng = Rng::new(step.wrapping_add(t));
        let name = format!("{t}-{i}").into_bytes();
        let (from, to) = (*rng.pick(dirs), *rng.pick(dirs));
        let n = fs.create(from, &name, &new_file()).unwrap().number();
        fs.write_at(n, 0, &name, at(3)).unwrap();
        fs.write_at(shared, (t * rounds + i) * 700, &[t as u8 + 1; 700], at(3)).unwrap();
        fs.append(log, &[t as u8; 100], at(3)).unwrap();
        let moved = [b"moved-", name.as_slice()].concat();
        fs.rename((from, &name), (to, &moved), RenameMode::NoReplace, at(4)).unwrap();
        // One of them gets it.
        let prize = (root, &b"prize"[..]);
        let _ = fs.rename((to, &moved), prize, RenameMode::Replace, at(4));
        let _ = fs.link(n, from, &name, at(4));
        if i % 3 == 0 {
            let _ = fs.unlink(from, &name, at(5));
        }
    }
}

/// Every name leads to a file, every file has as many names as it says; how many have any.
fn count_named(view: &Filesystem, dirs: &[u64]) -> usize {
    let mut names = std::collections::HashMap::new();
    for dir in dirs {
        let node = view.node(*dir).unwrap();
        let entries = node.sorted_entries().unwrap();
        assert_eq!(node.size, entries.len() as u64 + 2);
        for entry in entries {
            *names.entry(entry.object).or_insert(0u64) += 1;
        }
    }
    for (n, count) in &names {
        let node = view.node(*n).unwrap();
        if node.kind() == zpl::FileKind::File {
            assert_eq!(node.links, *count, "object {n}");
        }
    }
    names.len()
}

/// A failing run is made shorter as long as it fails again, which a race may do or not.
#[test]
fn many_threads_at_once() {
    testkit::shrinking_seed(1, ROUNDS, threads_at_once);
}

fn threads_at_once(steps: &[u64]) {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let root = fs.root_object();
    let mkdir = |name: &[u8]| {
        fs.create(root, name, &NewFile::new(NewKind::Dir, 0o755, at(2))).unwrap().number()
    };
    let dirs = [mkdir(b"a"), mkdir(b"b"), mkdir(b"c")];
    let shared = fs.create(root, b"shared", &new_file()).unwrap().number();
    let log = fs.create(root, b"log", &new_file()).unwrap().number();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let workers: Vec<_> = (0..THREADS)
            .map(|t| {
                let (fs, dirs) = (&fs, &dirs);
                s.spawn(move || work(fs, dirs, (shared, log), t, steps))
            })
            .collect();
        s.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                set.commit();
                // A txg must be open for a while, or no transaction enters it.
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        let ended: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|e| e.unwrap());
    });
    set.commit();
    let view = Filesystem::open(set.view()).unwrap();
    let shared = content(&view, shared);
    assert_eq!(shared.len(), THREADS as usize * steps.len() * 700);
    for (i, part) in shared.chunks((steps.len() * 700).max(1)).enumerate() {
        assert!(part.iter().all(|b| *b == i as u8 + 1), "part {i}");
    }
    let log = content(&view, log);
    assert_eq!(log.len(), THREADS as usize * steps.len() * 100);
    assert!(log.chunks(100).all(|c| c.iter().all(|b| *b == c[0])));
    // Nothing is lost.
    let named = count_named(&view, &[root, dirs[0], dirs[1], dirs[2]]);
    assert_eq!(set.view().objects().count(), 5 + 1 + named);
}
