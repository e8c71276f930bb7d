//! Files that are written to, by both backends, buffered and directly.

#![allow(clippy::expect_used, reason = "fails as tests do")]

use device::{
    AlignedBuf, Backend, Device, Direct, Displacement, ErrorKind, FileDevice, Operation, Options,
    RwFileDevice, Shared, Write, WriteDevice, read_one, write_batch,
};
use rt::{Rng, Xoshiro256};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Every way of writing a file. Where the system forbids io_uring, its half is left out: tests of
/// the ring itself are reported as ignored there.
fn all_options() -> Vec<Options> {
    let mut out = Vec::new();
    let file = tempfile::NamedTempFile::new().expect("file");
    for backend in [Backend::Uring, Backend::Threads] {
        for direct in [Direct::Off, Direct::On] {
            let options = Options { backend, direct, ..Options::default() };
            if backend != Backend::Uring || FileDevice::open(file.path(), &options).is_ok() {
                out.push(options);
            }
        }
    }
    out
}

/// A directory beside the build, where direct I/O is likelier than in a tmpfs.
fn directory() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("dir");
    let path = dir.path().join("image");
    (dir, path)
}

fn random(seed: u64, len: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(len);
    Xoshiro256::seeded(seed).fill(&mut buf);
    buf
}

/// Random batches of whole and odd ranges in whole and odd parts, compared with a plain array.
#[test]
fn what_was_written_is_read_back() {
    for (number, options) in all_options().into_iter().enumerate() {
        testkit::shrinking_seed(number as u64, ROUNDS, |rounds| write_and_read(&options, rounds));
    }
}

const ROUNDS: usize = 9;
const SIZE: usize = 3 << 20;

fn write_and_read(options: &Options, rounds: &[u64]) {
    let (_dir, path) = directory();
    let device = RwFileDevice::create(&path, SIZE as u64, options).expect("create");
    let mut model = vec![0; SIZE];
    for round in rounds {
        write_batch(&device, batch(*round, &mut model)).into_iter().for_each(|r| r.expect("write"));
        let got = read_one(&device, 0, SIZE).expect("read");
        assert!(got[..] == model[..], "{:?} {:?}", options.backend, options.direct);
    }
    device.flush().expect("flush");
    let stats = device.stats();
    assert_eq!((stats.in_flight, stats.write_errors, stats.flushes), (0, 0, 1));
    let are_merged = stats.write_calls < stats.writes || rounds.len() < ROUNDS;
    assert!(are_merged, "neighbours are merged: {stats:?}");
    drop(device);
    let reader = FileDevice::open(&path, options).expect("open");
    assert!(read_one(&reader, 0, SIZE).expect("read")[..] == model[..]);
}

/// Writes of one batch, in no order: of ranges that do not overlap and often touch.
fn batch(round: u64, model: &mut [u8]) -> Vec<(u64, Vec<Shared>)> {
    let mut rng = Xoshiro256::seeded(round);
    // Odd ranges few: done directly each is a read and a write of its own.
    let (unit, end) = if rng.below(3) == 0 { (1, 20_000) } else { (4096, SIZE) };
    let (mut batch, mut at) = (Vec::new(), 0);
    while at < end {
        at += rng.below(4) as usize * rng.below(20) as usize * unit;
        let len = (rng.below(40) as usize * unit).min(SIZE.saturating_sub(at));
        if len == 0 {
            at += 1000 * unit;
            continue;
        }
        let bytes = Shared::from(random(rng.next_u64(), len));
        model[at..at + len].copy_from_slice(&bytes);
        let cut = rng.below(len as u64 / unit as u64 + 1) as usize * unit;
        batch.push((at as u64, vec![bytes.slice(0..cut), bytes.slice(cut..len)]));
        at += len;
    }
    for i in (1..batch.len()).rev() {
        batch.swap(i, rng.below(i as u64 + 1) as usize);
    }
    batch
}

#[test]
fn a_batch_of_neighbours_is_few_calls() {
    for options in all_options() {
        let (_dir, path) = directory();
        let device = RwFileDevice::create(&path, 16 << 20, &options).expect("create");
        let block = Shared::from(random(7, 128 << 10));
        let batch = (0..64).map(|i| (i * (128 << 10), vec![block.clone()])).collect();
        assert!(write_batch(&device, batch).iter().all(Result::is_ok));
        let stats = device.stats();
        assert_eq!((stats.writes, stats.write_calls, stats.written), (64, 8, 8 << 20));
        assert!(read_one(&device, 63 * (128 << 10), 128 << 10).expect("read")[..] == block[..]);
    }
}

#[test]
fn waiting_writes_and_their_bounds() {
    for options in all_options() {
        let (_dir, path) = directory();
        let device = RwFileDevice::create(&path, 10_000, &options).expect("create");
        assert_eq!(device.size(), 10_000);
        for (offset, len) in [(0, 512), (1, 1), (4095, 2), (9_999, 1), (512, 4096), (8192, 1808)] {
            let bytes = random(offset, len);
            device.write(offset, &bytes).expect("write");
            assert!(read_one(&device, offset, len).expect("read")[..] == bytes[..], "{offset}");
        }
        let error = device.write(9_999, &[1, 2]).expect_err("beyond");
        assert_eq!(error.kind, ErrorKind::BeyondEnd { size: 10_000 });
        assert_eq!(error.operation, Operation::Write);
        let results = write_batch(
            &device,
            vec![(u64::MAX, vec![Shared::copy_of(b"x")]), (0, vec![Shared::copy_of(b"y")])],
        );
        assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);
        assert_eq!(std::fs::metadata(&path).expect("stat").len(), 10_000);
    }
}

#[test]
fn one_writer_at_a_time_and_readers_all_along() {
    let (_dir, path) = directory();
    let options = Options::default();
    let device = RwFileDevice::create(&path, 8192, &options).expect("create");
    let again = RwFileDevice::open(&path, &options).map(|_| ()).expect_err("locked");
    assert_eq!((again.kind, again.operation), (ErrorKind::InUse, Operation::Open));
    device.write(0, b"abc").expect("write");
    let reader = FileDevice::open(&path, &options).expect("open");
    assert_eq!(read_one(&reader, 0, 3).map(|b| b.to_vec()), Ok(b"abc".to_vec()));
    let exists = RwFileDevice::create(&path, 1, &options).map(|_| ()).expect_err("exists");
    assert_eq!(exists.kind, ErrorKind::Io { errno: libc::EEXIST });
    drop(device);
    RwFileDevice::open(&path, &options).expect("free again");
}

/// Another process, not only another descriptor of ours.
#[testkit::needs("flock")]
#[test]
fn another_process_is_kept_out() {
    let (_dir, path) = directory();
    let device = RwFileDevice::create(&path, 8192, &Options::default()).expect("create");
    let may_lock = || {
        let mut flock = std::process::Command::new("flock");
        flock.args(["-n", "-x"]).arg(&path).arg("true").status().expect("flock").success()
    };
    assert!(!may_lock());
    drop(device);
    assert!(may_lock());
}

/// As it is held by a program that was being started while it was closed.
#[test]
fn who_holds_it_for_a_moment_longer_is_waited_for() {
    let (_dir, path) = directory();
    let options = Options::default();
    let device = RwFileDevice::create(&path, 8192, &options).expect("create");
    let opened = std::thread::scope(|scope| {
        let opening = scope.spawn(|| RwFileDevice::open(&path, &options).map(|_| ()));
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(device);
        opening.join().expect("no panic")
    });
    assert_eq!(opened, Ok(()));
}

#[test]
fn what_may_not_be_written_is_refused() {
    let (dir, path) = directory();
    let options = Options::default();
    let kind = |path: &PathBuf| RwFileDevice::open(path, &options).map(|_| ()).map_err(|e| e.kind);
    assert_eq!(kind(&path), Err(ErrorKind::Io { errno: libc::ENOENT }));
    assert_eq!(kind(&dir.path().to_owned()), Err(ErrorKind::NotADevice));
}

#[test]
fn images_are_sparse() {
    for options in all_options() {
        let (_dir, path) = directory();
        let device = RwFileDevice::create(&path, 1 << 40, &options).expect("create");
        let used = || std::fs::metadata(&path).expect("stat").blocks() * 512;
        let before = used();
        let block = random(1, 1 << 20);
        device.write(1 << 30, &block).expect("write");
        device.flush().expect("flush");
        let full = used();
        assert!(full - before >= 1 << 20 && full < 8 << 20, "{full}");
    }
}

#[test]
fn dropping_a_device_completes_its_writes() {
    for mut options in all_options() {
        options.depth = 2;
        options.threads = 2;
        let (_dir, path) = directory();
        let device = RwFileDevice::create(&path, 16 << 20, &options).expect("create");
        let (answers, inbox) = channel();
        let block = Shared::from(random(3, 4096));
        let write = |i: u64| {
            let answers = answers.clone();
            let done = Box::new(move |result: Result<(), _>| {
                answers.send(result.is_ok()).expect("receiver");
            });
            // Not neighbours, so that they are many.
            Write { offset: i * 8192, parts: vec![block.clone()], done }
        };
        device.submit_writes((0..1000).map(write).collect());
        drop(device);
        drop(answers);
        assert_eq!(inbox.iter().filter(|ok| *ok).count(), 1000);
        let reader = FileDevice::open(&path, &options).expect("open");
        for i in [0, 500, 999] {
            assert!(read_one(&reader, i * 8192, 4096).expect("read")[..] == block[..]);
        }
    }
}

/// Many threads, small odd writes into the same direct I/O units: none may undo another's.
#[test]
fn neighbours_within_a_unit_do_not_undo_each_other() {
    for options in all_options() {
        let (_dir, path) = directory();
        let device = Arc::new(RwFileDevice::create(&path, 64 << 10, &options).expect("create"));
        let writers: Vec<_> = (0..4u8)
            .map(|writer| {
                let device = Arc::clone(&device);
                std::thread::spawn(move || {
                    for i in 0..64u64 {
                        let offset = (i * 4 + u64::from(writer)) * 100;
                        device.write(offset, &[writer + 1; 100]).expect("write");
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("writer"));
        let got = read_one(&*device, 0, 25_600).expect("read");
        for (i, chunk) in got.chunks(100).enumerate() {
            assert!(chunk.iter().all(|b| usize::from(*b) == i % 4 + 1), "chunk {i}");
        }
    }
}

#[test]
fn a_file_that_was_cut_short_stays_so_when_it_grows_again() {
    let (_dir, path) = directory();
    let file = std::fs::File::create(&path).expect("file");
    file.set_len(1 << 20).expect("length");
    let device = RwFileDevice::open(&path, &Options::default()).expect("device");
    assert_eq!(device.displaced(), None);
    file.set_len(1 << 19).expect("length");
    let short = Displacement::Short { size: 1 << 19, expected: 1 << 20 };
    assert_eq!(device.displaced(), Some(short));
    assert!(!device.accept_size(), "it is short still");
    assert_eq!(device.displaced(), Some(short));
    file.set_len(1 << 20).expect("length");
    assert_eq!(device.displaced(), Some(Displacement::Cut));
    assert!(device.accept_size());
    assert_eq!(device.displaced(), None);
    assert!(!device.accept_size());
    file.set_len(1 << 19).expect("length");
    assert_eq!(device.displaced(), Some(short), "it may happen again");
}

#[test]
fn a_file_is_followed_to_another_name_and_not_to_another_file() {
    let (dir, path) = directory();
    std::fs::write(&path, [0; 4096]).expect("file");
    let device = RwFileDevice::open(&path, &Options::default()).expect("device");
    let (moved, other) = (dir.path().join("moved"), dir.path().join("other"));
    std::fs::rename(&path, &moved).expect("moved");
    std::fs::write(&other, [0; 4096]).expect("file");
    assert!(!device.follow(&other) && !device.follow(&path));
    assert_eq!(device.displaced(), Some(Displacement::Moved));
    assert!(device.follow(&moved));
    assert_eq!(device.displaced(), None);
    std::fs::rename(&moved, &path).expect("back");
    assert_eq!(device.displaced(), Some(Displacement::Moved));
    assert!(device.follow(&path));
    assert_eq!(device.displaced(), None);
}

/// A loop device is the file behind it under another name.
#[testkit::needs("loop")]
#[test]
fn a_file_and_a_loop_device_on_it_are_one() {
    let (_dir, path) = directory();
    let options = Options::default();
    drop(RwFileDevice::create(&path, 1 << 20, &options).expect("create"));
    let set_up = std::process::Command::new("losetup").args(["-f", "--show"]).arg(&path).output();
    let set_up = set_up.expect("losetup");
    assert!(set_up.status.success(), "{}", String::from_utf8_lossy(&set_up.stderr));
    let looped = PathBuf::from(String::from_utf8_lossy(&set_up.stdout).trim());
    let open = |path: &PathBuf| RwFileDevice::open(path, &options).map(|device| (device, ()));
    let kind = |path: &PathBuf| open(path).map(|_| ()).map_err(|e| e.kind);
    let file = open(&path).expect("free");
    let beside_file = kind(&looped);
    drop(file);
    let device = open(&looped).expect("free again");
    let beside_device = kind(&path);
    drop(device);
    let after = kind(&path);
    let detached = std::process::Command::new("losetup").arg("-d").arg(&looped).status();
    assert_eq!(beside_file, Err(ErrorKind::InUse));
    assert_eq!(beside_device, Err(ErrorKind::InUse));
    assert_eq!(after, Ok(()));
    assert!(detached.is_ok_and(|status| status.success()));
}
