//! Promises where the log has no device that takes it, where none is wanted, and where a change
//! takes several records.

use super::{
    EIO, LivePool, MemoryDevice, NOW, NewFile, NewKind, Pool, PropertyChange, Shape, StoredValue,
    XattrMode, cache, candidate, check, device, import, rt, zil,
};
use engine::Filesystem;
use engine::inside::ondisk::zil::TxType;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::TxgLimits;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a write in these tests: with its record it fills a block of the log.
const PIECE: usize = 100 << 10;

fn images(shape: Shape, sizes: &[u64]) -> Vec<Arc<MemoryDevice>> {
    assert_eq!(sizes.len(), shape.devices());
    let image = |(n, size): (usize, &u64)| Arc::new(MemoryDevice::zeros(&format!("sim{n}"), *size));
    sizes.iter().enumerate().map(image).collect()
}

/// A pool over these devices, whose txgs end only when something waits for them.
fn pool_of(shape: Shape, devices: Vec<device::WriteDeviceRef>) -> LivePool {
    let named = devices.into_iter().enumerate().map(|(n, device)| (format!("sim{n}"), device));
    let pool = shape.create(&rt::Rt::real(), "tank", named.collect(), false, |_| {});
    let timeout = Duration::from_secs(1 << 20);
    pool.set_limits(TxgLimits { dirty_max: 2 << 30, sync_percent: 100, timeout });
    pool
}

fn new_file(fs: &Filesystem, name: &str) -> u64 {
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    fs.create(fs.root_object(), name.as_bytes(), &new).unwrap().number()
}

fn forks(images: &[Arc<MemoryDevice>]) -> Vec<MemoryDevice> {
    images.iter().map(|image| image.fork()).collect()
}

/// What a power failure now would leave of a file, once the pool has been imported; `None`: it is
/// not there.
fn after_a_crash(images: Vec<MemoryDevice>, name: &str) -> Option<Vec<u8>> {
    seen_after_a_crash(images, |fs| {
        let entry = fs.root().unwrap().lookup(name.as_bytes()).unwrap()?;
        let node = fs.node(entry.object).unwrap();
        let mut bytes = vec![0; usize::try_from(node.size).unwrap()];
        node.read_at(0, &mut bytes).unwrap();
        Some(bytes)
    })
}

/// The same of anything in the file system.
fn seen_after_a_crash<T>(images: Vec<MemoryDevice>, look: impl Fn(&Filesystem) -> T) -> T {
    let devices: Vec<Arc<MemoryDevice>> = images.into_iter().map(Arc::new).collect();
    let named: Vec<device::WriteDeviceRef> = devices.iter().map(|d| Arc::clone(d) as _).collect();
    let pool = import(&rt::Rt::real(), &named).unwrap();
    let fs = pool.filesystem("tank").unwrap();
    let seen = look(&fs);
    drop(fs);
    pool.close().unwrap();
    let again = Pool::open_candidate(&candidate(&forks(&devices)).unwrap(), &cache()).unwrap();
    let report = check::run(&again, &check::CheckOptions::default(), &rt::Progress::new());
    let is_right = |issue: &check::Issue| {
        issue.severity() <= check::Severity::Note
            || matches!(issue, check::Issue::DeviceAbsent { .. })
    };
    let wrong = report.issues.iter().find(|issue| !is_right(issue));
    assert!(wrong.is_none(), "check: {}", wrong.unwrap());
    seen
}

/// The log of the root dataset, as the power would leave it now.
fn log_of(images: &[Arc<MemoryDevice>]) -> zil::Log {
    let pool = Pool::open_candidate(&candidate(&forks(images)).unwrap(), &cache()).unwrap();
    let head = pool.dsl().by_name("tank").unwrap();
    zil::Log::read(&pool.dsl().objset(&head).unwrap())
}

/// The vdevs that have blocks of it.
fn vdevs_of_log(images: &[Arc<MemoryDevice>]) -> BTreeSet<u32> {
    log_of(images).blocks.iter().map(|block| block.bp.dva(0).vdev()).collect()
}

fn set(pool: &LivePool, property: &str, number: u64) {
    let value = Some(StoredValue::Number(number));
    pool.set_property("tank", PropertyChange { name: property.to_owned(), value }).unwrap();
}

#[test]
fn when_the_log_device_is_full_the_log_goes_on_in_the_pool() {
    let shape = Shape::DiskAndLog;
    let images = images(shape, &[1 << 30, 64 << 20]);
    let pool = pool_of(shape, images.iter().map(|d| Arc::clone(d) as _).collect());
    let fs = pool.filesystem("tank").unwrap();
    let file = new_file(&fs, "file");
    fs.sync(file).unwrap();
    let before = pool.last_synced();
    let byte_of = |n: usize| (n % 251) as u8 + 1;
    let write = |n: usize| {
        fs.write_at(file, (n * PIECE) as u64, &vec![byte_of(n); PIECE], NOW).unwrap();
        fs.sync(file).unwrap();
    };
    (0..20).for_each(write);
    assert_eq!(vdevs_of_log(&images), BTreeSet::from([1]), "there is room on the log device");
    let pieces = (80 << 20) / PIECE;
    (20..pieces).for_each(write);
    assert_eq!(pool.last_synced(), before, "no promise waited for a txg");
    assert_eq!(vdevs_of_log(&images), BTreeSet::from([0, 1]));
    let there = after_a_crash(forks(&images), "file").unwrap();
    assert_eq!(there.len(), pieces * PIECE);
    let is_right = |(n, piece): (usize, &[u8])| piece.iter().all(|byte| *byte == byte_of(n));
    assert!(there.chunks(PIECE).enumerate().all(is_right));
    drop(fs);
    pool.close().unwrap();
}

/// The pool has no room for the log either: the promise is kept by the txg.
#[test]
fn without_room_for_a_log_a_promise_waits_for_its_txg() {
    const FILES: usize = 400;
    let shape = Shape::Disk;
    let images = images(shape, &[64 << 20]);
    let pool = pool_of(shape, images.iter().map(|d| Arc::clone(d) as _).collect());
    let fs = pool.filesystem("tank").unwrap();
    let name = |n: usize| format!("f{n}");
    (0..FILES).for_each(|n| _ = new_file(&fs, &name(n)));
    fs.sync_all().unwrap();
    // Bytes that do not compress.
    let scattered = |n: usize| ((n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29) as u8;
    let noise: Vec<u8> = (0..PIECE).map(scattered).collect();
    for (name, bytes) in [("large", PIECE), ("small", 4096), ("last", 512)] {
        let file = new_file(&fs, name);
        let mut at = 0;
        while fs.write_at(file, at, &noise[..bytes], NOW).is_ok() {
            at += bytes as u64;
        }
    }
    pool.sync().unwrap();
    // What is left goes to the log, block by block, for no txg ends and gives some back.
    let before = pool.last_synced();
    let mut in_log = 0;
    let waited = (0..FILES).find(|n| {
        let batches = pool.log_stats().batches;
        fs.unlink(fs.root_object(), name(*n).as_bytes(), NOW).unwrap();
        fs.sync_all().unwrap();
        let is_logged = pool.log_stats().batches > batches;
        in_log += u64::from(is_logged);
        assert_eq!(is_logged, pool.last_synced() == before, "{n}: neither kept it, or both");
        !is_logged
    });
    let waited = waited.expect("a log took it all");
    assert!(in_log > 0, "the first one waited");
    let images = forks(&images);
    let kept = images.iter().map(MemoryDevice::fork).collect();
    assert_eq!(after_a_crash(images, &name(waited)), None);
    assert!(after_a_crash(kept, &name(waited + 1)).is_some());
    drop(fs);
    pool.close().unwrap();
}

/// One side of mirrored log devices fails: promises go on there, without a txg, and the power may
/// fail with that side gone.
#[test]
fn one_side_of_mirrored_log_devices_is_enough() {
    for failing in [1, 2] {
        let shape = Shape::DiskAndLogs;
        let images = images(shape, &[64 << 20; 3]);
        let mut devices: Vec<device::WriteDeviceRef> =
            images.iter().map(|d| Arc::clone(d) as _).collect();
        let faulty = Arc::new(device::RwFaultDevice::new(Arc::clone(&devices[failing])));
        devices[failing] = Arc::clone(&faulty) as _;
        let pool = pool_of(shape, devices);
        let fs = pool.filesystem("tank").unwrap();
        let file = new_file(&fs, "file");
        let promise = |n: usize| {
            fs.write_at(file, (n * 4096) as u64, &[n as u8 + 1; 4096], NOW).unwrap();
            fs.sync(file).unwrap();
        };
        (0..10).for_each(promise);
        let before = pool.last_synced();
        faulty.add(device::Fault::fail_writes(0..u64::MAX, EIO));
        faulty.add(device::Fault::fail_flushes(EIO));
        (10..40).for_each(promise);
        assert!(pool.suspended().is_none());
        // That the side failed is written down by a txg, which no promise waits for.
        assert!(pool.last_synced() - before < 3, "side {failing}: promises waited for txgs");
        assert_eq!(vdevs_of_log(&images), BTreeSet::from([1]), "side {failing}");
        // As the power leaves them, that side without anything.
        let mut left = forks(&images);
        left.remove(failing);
        let there = after_a_crash(left, "file").unwrap();
        assert_eq!(there.len(), 40 * 4096);
        assert!(there.chunks(4096).zip(1u8..).all(|(piece, n)| piece.iter().all(|b| *b == n)));
        drop(fs);
        pool.close().unwrap();
    }
}

/// With `sync=disabled` a promise is given at once and is none: only txgs count. What was changed
/// meanwhile is promised again as soon as promises are.
#[test]
fn with_sync_disabled_nothing_is_written_before_its_txg() {
    let shape = Shape::Disk;
    let images = images(shape, &[64 << 20]);
    let pool = pool_of(shape, images.iter().map(|d| Arc::clone(d) as _).collect());
    set(&pool, "sync", 2);
    let fs = pool.filesystem("tank").unwrap();
    let before = (pool.last_synced(), pool.log_stats().batches);
    let file = new_file(&fs, "file");
    for n in 0..10 {
        fs.write_at(file, n * 4096, &[7; 4096], NOW).unwrap();
        fs.sync(file).unwrap();
        fs.sync_all().unwrap();
    }
    assert_eq!((pool.last_synced(), pool.log_stats().batches), before);
    assert_eq!(after_a_crash(forks(&images), "file"), None);
    pool.sync().unwrap();
    assert_eq!(after_a_crash(forks(&images), "file"), Some(vec![7; 10 * 4096]));

    fs.write_at(file, 0, &[8; 4096], NOW).unwrap();
    fs.sync(file).unwrap();
    set(&pool, "sync", 0);
    fs.write_at(file, 4096, &[9; 4096], NOW).unwrap();
    fs.sync(file).unwrap();
    let there = after_a_crash(forks(&images), "file").unwrap();
    assert_eq!([there[0], there[4096], there[8192]], [8, 9, 7]);
    drop(fs);
    pool.close().unwrap();
}

/// Attributes that are files of a directory: made, replaced, removed, and moved there from the
/// list and back. Each is several records, and none waits for a txg.
#[test]
fn attributes_in_a_directory_are_promised_without_a_txg() {
    /// The values of the property `xattr`.
    const DIR: u64 = 1;
    const LIST: u64 = 2;
    let shape = Shape::Disk;
    let images = images(shape, &[64 << 20]);
    let pool = pool_of(shape, images.iter().map(|d| Arc::clone(d) as _).collect());
    let fs = pool.filesystem("tank").unwrap();
    let file = new_file(&fs, "file");
    let mut want: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut put = |name: &str, len: usize| {
        let value = vec![len as u8; len];
        fs.set_xattr(file, name.as_bytes(), &value, XattrMode::Any, NOW).unwrap();
        fs.sync(file).unwrap();
        want.insert(name.as_bytes().to_vec(), value);
        want.clone()
    };
    // The first in the list says that the log may have such records, and a log begins with a txg.
    put("user.listed", 20);
    fs.write_at(file, 0, b"begun", NOW).unwrap();
    fs.sync(file).unwrap();
    set(&pool, "xattr", DIR);
    let expect = |before: u64, want: &BTreeMap<Vec<u8>, Vec<u8>>, what: &str| {
        assert_eq!(pool.last_synced(), before, "{what} waited for a txg");
        let seen = seen_after_a_crash(forks(&images), |fs| {
            fs.node(file).unwrap().xattrs().unwrap().into_iter().collect::<BTreeMap<_, _>>()
        });
        assert!(seen == *want, "{what}: {:?}", seen.keys());
    };
    let before = pool.last_synced();
    expect(before, &put("user.a", 3000), "the first");
    expect(before, &put("user.a", 7), "a shorter value");
    expect(before, &put("user.b", 60_000), "a long value");
    // The last block was as small as the batches before; these stand together in a larger one.
    let blocks = log_of(&images).blocks;
    let last: Vec<TxType> = blocks.last().unwrap().records.iter().map(|r| r.kind).collect();
    assert_eq!(last, [TxType::CREATE, TxType::WRITE]);
    expect(before, &put("user.b", 0), "an empty value");
    expect(before, &put("user.listed", 30), "one that was in the list");
    fs.remove_xattr(file, b"user.a", NOW).unwrap();
    fs.sync(file).unwrap();
    let mut want = put("user.b", 8);
    want.remove(&b"user.a"[..]);
    expect(before, &want, "a removal");
    // A replay would not find these files.
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let unnamed = fs.create_unnamed(fs.root_object(), &new).unwrap();
    let open = fs.hold(new_file(&fs, "open")).unwrap();
    fs.unlink(fs.root_object(), b"open", NOW).unwrap();
    for object in [unnamed.object(), open.object()] {
        fs.set_xattr(object, b"user.c", b"c", XattrMode::Any, NOW).unwrap();
    }
    let mut want = put("user.b", 9);
    want.remove(&b"user.a"[..]);
    expect(before, &want, "one beside those of files without a name");
    drop((unnamed, open));
    set(&pool, "xattr", LIST);
    let before = pool.last_synced();
    let mut want = put("user.b", 40);
    want.remove(&b"user.a"[..]);
    expect(before, &want, "one that goes into the list");
    drop(fs);
    pool.close().unwrap();
}
