//! Image files as they are opened when nothing is said: directly where the file system does it,
//! through the page cache elsewhere, and the same to every program that reads them.

#![allow(clippy::expect_used, reason = "fails as tests do")]

use device::{
    Device, Direct, FileDevice, Options, RwFileDevice, Shared, WriteDevice, read_one, write_batch,
};
use rt::{Rng, Xoshiro256};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A directory beside the build, where direct I/O is likelier than in a tmpfs.
fn directory() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("dir");
    let path = dir.path().join("image");
    (dir, path)
}

/// A writer that is opened as a pool opens it, and is direct.
fn direct(path: &Path, bytes: u64) -> RwFileDevice {
    let device = RwFileDevice::create(path, bytes, &Options::default()).expect("create");
    assert!(device.is_direct());
    device
}

fn pattern(seed: u64, len: usize) -> Shared {
    let mut bytes = vec![0; len];
    Xoshiro256::seeded(seed).fill(&mut bytes);
    Shared::copy_of(&bytes)
}

/// Bytes of the file that take space.
fn taken(path: &Path) -> u64 {
    std::fs::metadata(path).expect("metadata").blocks() * 512
}

#[testkit::needs("direct I/O")]
#[test]
fn writers_are_direct_and_readers_are_not() {
    let (_dir, path) = directory();
    let device = direct(&path, MIB);
    assert_eq!(device.backend(), device::Backend::Uring);
    let reader = FileDevice::open(&path, &Options::default()).expect("open");
    assert!(!reader.is_direct());
    drop(device);
    let off = Options { direct: Direct::Off, ..Options::default() };
    assert!(!RwFileDevice::open(&path, &off).expect("open").is_direct());
}

/// What a tool of util-linux or coreutils prints.
fn output_of(program: &str, args: &[&str]) -> String {
    let out = std::process::Command::new(program).args(args).output().expect(program);
    assert!(out.status.success(), "{program} {args:?}");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// Bytes of the file that are in the page cache.
fn cached(path: &Path) -> u64 {
    let path = path.to_string_lossy();
    output_of("fincore", &["--bytes", "--noheadings", "--output", "RES", &path])
        .parse()
        .expect("number")
}

#[testkit::needs("direct I/O", "fincore")]
#[test]
fn large_reads_leave_the_page_cache_alone_and_use_what_is_there() {
    let (_dir, path) = directory();
    let device = direct(&path, 8 * MIB);
    let bytes = pattern(9, 8 << 20);
    assert!(write_batch(&device, vec![(0, vec![bytes.clone()])])[0].is_ok());
    device.flush().expect("flush");
    drop(device);
    let source = format!("if={}", path.display());
    output_of("dd", &[&source, "iflag=nocache", "count=0", "status=none"]);
    let reader = FileDevice::open(&path, &Options::default()).expect("open");
    let read = |at: u64, len: usize| {
        let got = read_one(&reader, at, len).expect("read");
        assert_eq!(&got[..], &bytes[at as usize..at as usize + len]);
    };
    assert_eq!(cached(&path), 0);
    read(MIB + 7, 2 << 20);
    let after_large = cached(&path);
    read(6 * MIB, 4096);
    let after_small = cached(&path);
    assert!(after_small > after_large, "{after_large} {after_small}");
    assert_eq!(after_large, 0);
    // All of it is there now, and is taken from there: right, whatever is cached.
    assert_eq!(std::fs::read(&path).expect("read"), &bytes[..]);
    read(0, 8 << 20);
    read(3 * MIB + 512, 300_000);
}

#[test]
fn a_file_that_ends_within_a_sector_is_buffered() {
    let (_dir, path) = directory();
    let device = RwFileDevice::create(&path, 10 * KIB + 7, &Options::default()).expect("create");
    assert!(!device.is_direct());
    let bytes = pattern(1, 1000);
    device.write(9 * KIB + 31, &bytes).expect("write");
    assert_eq!(&read_one(&device, 9 * KIB + 31, 1000).expect("read")[..], &bytes[..]);
}

#[testkit::needs("/dev/shm")]
#[test]
fn a_memory_file_system_is_written_to_all_the_same() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("dir");
    let path = dir.path().join("image");
    let device = RwFileDevice::create(&path, 8 * MIB, &Options::default()).expect("create");
    let bytes = pattern(2, 512);
    let write = |n: u64| (n * 4608, vec![bytes.clone()]);
    let results = write_batch(&device, (0..1000).map(write).collect());
    assert!(results.iter().all(Result::is_ok));
    // One call each: no sector was read, changed and written back as a part of something larger.
    assert_eq!((device.stats().reads, device.stats().write_calls), (0, 1000));
    device.flush().expect("flush");
    assert_eq!(&read_one(&device, 999 * 4608, 512).expect("read")[..], &bytes[..]);
}

#[testkit::needs("direct I/O")]
#[test]
fn holes_and_preallocated_ranges_are_filled_only_where_they_are_written() {
    let (_dir, path) = directory();
    let device = direct(&path, 64 * MIB);
    assert!(taken(&path) < 64 * KIB);
    let bytes = pattern(3, 16 << 10);
    let write = |n: u64| (n * 8 * MIB, vec![bytes.clone()]);
    assert!(write_batch(&device, (0..8).map(write).collect()).iter().all(Result::is_ok));
    device.flush().expect("flush");
    let after = taken(&path);
    assert!((8 * 16 * KIB..MIB).contains(&after), "{after}");
    let zeros = read_one(&device, 4 * MIB, 1 << 20).expect("read");
    assert!(zeros.iter().all(|b| *b == 0));
    drop(device);
    // What was preallocated is zeros, stays taken, and takes no more by being written.
    let file = OpenOptions::new().write(true).open(&path).expect("open");
    let old: Vec<u8> = (0..64).flat_map(|_| [0xee; 1024]).collect();
    file.write_all_at(&old, 32 * MIB + 256 * KIB).expect("write");
    preallocate(&path, 32 * MIB, 4 * MIB);
    let before = taken(&path);
    let device = RwFileDevice::open(&path, &Options::default()).expect("open");
    assert!(device.is_direct());
    device.write(34 * MIB, &bytes).expect("write");
    device.flush().expect("flush");
    assert!(taken(&path) <= before + 64 * KIB, "{before} {}", taken(&path));
    assert_eq!(&read_one(&device, 34 * MIB, bytes.len()).expect("read")[..], &bytes[..]);
    let kept = read_one(&device, 32 * MIB + 256 * KIB, old.len()).expect("read");
    assert_eq!(&kept[..], &old[..]);
    let zeros = read_one(&device, 35 * MIB, 1 << 20).expect("read");
    assert!(zeros.iter().all(|b| *b == 0));
}

/// Preallocates with the system's own command, for want of a call in the standard library.
fn preallocate(path: &Path, offset: u64, len: u64) {
    let mut command = std::process::Command::new("fallocate");
    command.args(["-o", &offset.to_string(), "-l", &len.to_string()]).arg(path);
    assert!(command.status().expect("fallocate of util-linux").success());
}

/// What another program left in the page cache only, the direct reader sees; what was written
/// directly, a program that reads through the page cache sees, whatever it had cached before.
#[testkit::needs("direct I/O")]
#[test]
fn readers_of_all_kinds_see_the_same() {
    testkit::shrinking_seed(11, 60, |rounds| {
        let (_dir, path) = directory();
        let device = direct(&path, 4 * MIB);
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("open");
        let mut model = vec![0u8; 4 << 20];
        let mut seen = vec![0; 4 << 20];
        for round in rounds {
            let mut rng = Xoshiro256::seeded(*round);
            let bytes = pattern(*round, 512 * (1 + rng.below(64) as usize));
            let at = rng.below((4 * MIB - bytes.len() as u64) / 512) * 512;
            model[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
            // All of it is in the page cache now.
            file.read_exact_at(&mut seen, 0).expect("read");
            match rng.below(3) {
                0 => file.write_all_at(&bytes, at).expect("write"),
                1 => device.write(at, &bytes).expect("write"),
                _ => {
                    let parts = vec![bytes.slice(0..512), bytes.slice(512..bytes.len())];
                    assert!(write_batch(&device, vec![(at, parts)])[0].is_ok());
                }
            }
            file.read_exact_at(&mut seen, 0).expect("read");
            assert!(seen == model, "buffered");
            let direct = read_one(&device, 0, 4 << 20).expect("read");
            assert!(direct[..] == model[..], "direct");
        }
        device.flush().expect("flush");
    });
}

/// A reader through the page cache never sees an old sector after a newer one, while it is written
/// directly.
#[testkit::needs("direct I/O")]
#[test]
fn a_reader_beside_a_writer_sees_sectors_in_order() {
    let (_dir, path) = directory();
    let device = direct(&path, MIB);
    let device = Arc::new(device);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let (path, stop) = (path.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let file = File::open(path).expect("open");
            let mut last = vec![0u8; 2048];
            let (mut now, mut looks) = (vec![0; 1 << 20], 0);
            while !stop.load(Ordering::Relaxed) || looks == 0 {
                file.read_exact_at(&mut now, 0).expect("read");
                for (sector, last) in now.chunks(512).zip(&mut last) {
                    assert!(sector[0] >= *last, "{} after {last}", sector[0]);
                    *last = sector[0];
                }
                looks += 1;
            }
            last
        })
    };
    for round in 1..=100u8 {
        let bytes = Shared::copy_of(&[round; 64 << 10]);
        let write = |n: u64| (n * 64 * KIB, vec![bytes.clone()]);
        assert!(write_batch(&*device, (0..16).map(write).collect()).iter().all(Result::is_ok));
    }
    stop.store(true, Ordering::Relaxed);
    reader.join().expect("reader");
    assert!(device.as_device().stats().write_errors == 0);
    let file = File::open(&path).expect("open");
    let mut all = vec![0; 1 << 20];
    file.read_exact_at(&mut all, 0).expect("read");
    assert!(all.iter().all(|b| *b == 100));
}
