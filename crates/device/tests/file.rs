//! Files on a real file system, read by both backends, buffered and directly.

#![allow(clippy::expect_used, reason = "fails as tests do")]

use device::{
    Backend, Device, Direct, ErrorKind, FileDevice, MAX_READ_BYTES, Options, Read, Stats,
    read_batch, read_one,
};
use rt::{Rng, Xoshiro256};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::time::Duration;

/// Every way of reading a file. Where the system forbids io_uring, its half is left out: tests of
/// the ring itself are reported as ignored there.
fn all_options() -> Vec<Options> {
    let mut out = Vec::new();
    for backend in [Backend::Uring, Backend::Threads] {
        for direct in [Direct::Off, Direct::On] {
            let options = Options { backend, direct, ..Options::default() };
            if backend != Backend::Uring || uring_allowed() {
                out.push(options);
            }
        }
    }
    out
}

fn uring_allowed() -> bool {
    let file = tempfile::NamedTempFile::new().expect("file");
    let options = Options { backend: Backend::Uring, ..Options::default() };
    FileDevice::open(file.path(), &options).is_ok()
}

fn describe(options: &Options) -> String {
    format!("{:?} {:?}", options.backend, options.direct)
}

/// A file of `len` random bytes beside the build, where direct I/O is likelier than in a tmpfs.
fn file_of(len: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("file");
    let mut bytes = vec![0; len];
    Xoshiro256::seeded(len as u64).fill(&mut bytes);
    std::fs::write(file.path(), &bytes).expect("write");
    (file, bytes)
}

fn open(path: &Path, options: &Options) -> FileDevice {
    FileDevice::open(path, options).expect("open")
}

fn settled(device: &FileDevice) -> Stats {
    // A request is counted before its callback is called, so nothing is in flight here.
    let stats = device.stats();
    assert_eq!(stats.in_flight, 0, "{stats:?}");
    assert_eq!(stats.latency.iter().sum::<u64>(), stats.reads);
    stats
}

#[test]
fn random_ranges_are_the_files_bytes() {
    let (file, bytes) = file_of((1 << 20) + 333);
    for options in all_options() {
        let device = open(file.path(), &options);
        assert_eq!(device.size(), bytes.len() as u64);
        assert_eq!(device.sector_size(), 512);
        let mut rng = Xoshiro256::seeded(42);
        let ranges: Vec<(u64, usize)> = (0..500)
            .map(|_| {
                let offset = rng.below(bytes.len() as u64);
                (offset, rng.below((bytes.len() as u64 - offset).min(100_000) + 1) as usize)
            })
            .collect();
        let mut total = 0;
        for ((offset, len), result) in ranges.iter().zip(read_batch(&device, &ranges)) {
            let from = *offset as usize;
            assert_eq!(result.expect("read")[..], bytes[from..from + len], "{offset}+{len}");
            total += *len as u64;
        }
        for (offset, len) in ranges.iter().take(20) {
            let from = *offset as usize;
            let got = read_one(&device, *offset, *len).expect("read");
            assert_eq!(got[..], bytes[from..from + len], "{offset}+{len}");
            total += *len as u64;
        }
        let stats = settled(&device);
        let want = (520, total, 0);
        assert_eq!((stats.reads, stats.bytes, stats.errors), want, "{}", describe(&options));
        assert_eq!(device.backend(), options.backend);
    }
}

#[test]
fn the_odd_end_of_a_file_is_readable() {
    for len in [1usize, 511, 512, 4095, 4097, 8191] {
        let (file, bytes) = file_of(len);
        for options in all_options() {
            let device = open(file.path(), &options);
            let end = len as u64;
            let ranges = [(end - 1, 1), (0, len), (end, 0), (end / 2, len - len / 2)];
            let results = read_batch(&device, &ranges);
            for ((offset, n), result) in ranges.iter().zip(results) {
                let from = *offset as usize;
                assert_eq!(result.expect("read")[..], bytes[from..from + n], "{offset}+{n}");
            }
        }
    }
}

#[test]
fn beyond_the_end_is_an_error_and_costs_nothing() {
    let (file, bytes) = file_of(10_000);
    let size = bytes.len() as u64;
    let beyond = ErrorKind::BeyondEnd { size };
    for options in all_options() {
        let device = open(file.path(), &options);
        let ranges = [
            (size, 1),
            (size - 1, 2),
            (u64::MAX, usize::MAX),
            (0, usize::MAX),
            (u64::MAX - 5, 6),
            (size + 1, 0),
            (9_999, 1),
        ];
        let kinds: Vec<_> = read_batch(&device, &ranges)
            .into_iter()
            .map(|result| result.map(|_| ()).map_err(|e| e.kind))
            .collect();
        assert_eq!(kinds[..6], [Err(beyond); 6]);
        assert_eq!(kinds[6], Ok(()));
        let mut buf = [0; 2];
        let error = device.read(size - 1, &mut buf).expect_err("beyond the end");
        assert_eq!((error.kind, error.offset, error.len), (beyond, size - 1, 2));
        assert_eq!(&*error.device, file.path().to_string_lossy());
        assert_eq!(settled(&device).errors, 7);
    }
}

#[test]
fn a_sparse_giant_does_not_make_a_giant_read() {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("file");
    file.as_file().set_len(1 << 40).expect("truncate");
    for options in all_options() {
        let device = open(file.path(), &options);
        let too_long = read_one(&device, 0, MAX_READ_BYTES + 1).expect_err("too long");
        assert_eq!(too_long.kind, ErrorKind::TooLong);
        let end = read_one(&device, (1 << 40) - 8192, 8192).expect("hole");
        assert!(end.iter().all(|b| *b == 0));
    }
}

#[test]
fn a_file_that_shrinks_is_a_short_read() {
    for options in all_options() {
        let (file, bytes) = file_of(100_000);
        let device = open(file.path(), &options);
        file.as_file().set_len(50_000).expect("truncate");
        let results = read_batch(&device, &[(40_000, 20_000), (60_000, 100), (0, 50_000)]);
        let kind = |i: usize| results[i].as_ref().map(|_| ()).map_err(|e| e.kind);
        let how = describe(&options);
        assert_eq!(kind(0), Err(ErrorKind::ShortRead { got: 10_000 }), "{how}");
        assert_eq!(kind(1), Err(ErrorKind::ShortRead { got: 0 }), "{how}");
        assert_eq!(results[2].as_ref().map(|b| &b[..]).ok(), Some(&bytes[..50_000]), "{how}");
        let mut buf = [0; 100];
        let error = device.read(49_950, &mut buf).expect_err("short");
        assert_eq!(error.kind, ErrorKind::ShortRead { got: 50 }, "{how}");
    }
}

/// More reads in one batch than the kernel is given, than fit into its queues, and than the
/// backlog holds; and a depth of one, which leaves nothing for anything else.
#[test]
fn batches_longer_than_every_queue_complete() {
    let (file, bytes) = file_of(1 << 20);
    for mut options in all_options() {
        for depth in [1, 3, 128] {
            options.depth = depth;
            options.threads = depth as usize;
            let device = open(file.path(), &options);
            let ranges: Vec<_> = (0..10_000u64).map(|i| (i * 100, 64)).collect();
            for ((offset, len), result) in ranges.iter().zip(read_batch(&device, &ranges)) {
                let from = *offset as usize;
                assert_eq!(result.expect("read")[..], bytes[from..from + len]);
            }
            assert_eq!(settled(&device).reads, 10_000);
        }
    }
}

#[test]
fn many_callers_at_once() {
    let (file, bytes) = file_of(3_000_000);
    for options in all_options() {
        let device = open(file.path(), &options);
        std::thread::scope(|scope| {
            for caller in 0..8 {
                let (device, bytes) = (&device, &bytes);
                scope.spawn(move || {
                    let mut rng = Xoshiro256::seeded(caller);
                    for _ in 0..50 {
                        let count = rng.below(40) as usize;
                        let ranges: Vec<_> = (0..count)
                            .map(|_| (rng.below(2_900_000), rng.below(100_000) as usize))
                            .collect();
                        let results = read_batch(device, &ranges);
                        for ((offset, len), result) in ranges.iter().zip(results) {
                            let from = *offset as usize;
                            assert!(result.expect("read")[..] == bytes[from..from + len]);
                        }
                    }
                });
            }
        });
        assert_eq!(settled(&device).errors, 0);
    }
}

/// Callers that exit right after submitting, which with io_uring must not cancel their reads.
#[test]
fn reads_outlive_the_thread_that_asked() {
    let (file, _) = file_of(4 << 20);
    for options in all_options() {
        let device = open(file.path(), &options);
        let (answers, inbox) = channel();
        for _ in 0..50 {
            std::thread::scope(|scope| {
                let answers = answers.clone();
                let device = &device;
                scope.spawn(move || {
                    let read = |i: u64| {
                        let answers = answers.clone();
                        let done = Box::new(move |result: Result<_, _>| {
                            answers.send(result.map(|_| ())).expect("receiver");
                        });
                        Read { offset: i << 18, len: 1 << 18, done }
                    };
                    device.submit((0..16).map(read).collect());
                });
            });
        }
        drop(answers);
        let results: Vec<_> = inbox.iter().collect();
        assert_eq!(results, vec![Ok(()); 800]);
    }
}

/// A callback submits the next read, drops the device, panics, or reads and waits.
#[test]
fn callbacks_may_do_all_but_wait() {
    fn next(device: &Arc<FileDevice>, left: u64, end: SyncSender<()>) {
        let again = Arc::clone(device);
        let done = Box::new(move |result: Result<_, _>| {
            result.expect("read");
            // Waiting for this very device would never end; these read by themselves.
            let results = read_batch(&*again, &[(0, 10), (100, 10)]);
            assert!(results.iter().all(Result::is_ok));
            match left {
                0 => end.send(()).expect("receiver"),
                _ => next(&again, left - 1, end),
            }
        });
        device.submit(vec![Read { offset: left, len: 1000, done }]);
    }
    let (file, _) = file_of(10_000);
    for options in all_options() {
        let device = Arc::new(open(file.path(), &options));
        let panics = Read { offset: 0, len: 1, done: Box::new(|_| panic!("on purpose")) };
        device.submit(vec![panics]);
        let (end, wait) = sync_channel(1);
        // The last reference to the device goes with the last callback.
        next(&device, 1000, end);
        drop(device);
        wait.recv_timeout(Duration::from_secs(120)).expect("the chain ends");
    }
}

#[test]
fn dropping_a_device_completes_what_it_accepted() {
    let (file, _) = file_of(8 << 20);
    for mut options in all_options() {
        options.depth = 2;
        options.threads = 2;
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        COUNT.store(0, Ordering::SeqCst);
        let (answers, inbox) = channel();
        let device = open(file.path(), &options);
        let read = |i: u64| {
            let answers = answers.clone();
            let done = Box::new(move |result: Result<_, _>| {
                COUNT.fetch_add(1, Ordering::SeqCst);
                answers.send(result.is_ok()).expect("receiver");
            });
            Read { offset: i << 16, len: 1 << 16, done }
        };
        device.submit((0..128).map(read).collect());
        drop(device);
        drop(answers);
        assert_eq!(inbox.iter().filter(|ok| *ok).count(), 128);
        assert_eq!(COUNT.load(Ordering::SeqCst), 128);
    }
}

/// A file system without direct I/O, where opening with it may even succeed, is read buffered.
#[testkit::needs("/dev/shm")]
#[test]
fn direct_reads_fall_back() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("dir");
    let path = dir.path().join("image");
    std::fs::write(&path, vec![7; 10_000]).expect("write");
    for options in all_options() {
        let device = open(&path, &options);
        for result in read_batch(&device, &[(1, 5000), (9_000, 1000)]) {
            assert!(result.expect("read").iter().all(|b| *b == 7));
        }
    }
}

#[test]
fn what_is_no_device_is_refused() {
    let dir = tempfile::tempdir().expect("dir");
    let options = Options::default();
    let kind = |path: &Path| FileDevice::open(path, &options).map(|_| ()).map_err(|e| e.kind);
    assert_eq!(kind(dir.path()), Err(ErrorKind::NotADevice));
    assert_eq!(kind(Path::new("/dev/null")), Err(ErrorKind::NotADevice));
    let missing = dir.path().join("missing");
    assert_eq!(kind(&missing), Err(ErrorKind::Io { errno: libc::ENOENT }));
    // Opening a pipe for reading would wait for a writer.
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(kind(&pipe), Err(ErrorKind::NotADevice));
    }
}

#[test]
fn an_empty_file_is_an_empty_device() {
    let (file, _) = file_of(0);
    for options in all_options() {
        let device = open(file.path(), &options);
        assert_eq!(device.size(), 0);
        assert!(read_one(&device, 0, 0).expect("nothing").is_empty());
        let error = read_one(&device, 0, 1).expect_err("beyond");
        assert_eq!(error.kind, ErrorKind::BeyondEnd { size: 0 });
    }
}
