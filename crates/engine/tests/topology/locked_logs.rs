//! Intent logs of encrypted datasets that wait for their keys: what was promised there is there
//! when the key is loaded, whatever became of the devices meanwhile.

use super::random::Bench;
use super::{DEVICE_BYTES, guid, is_whole};
use engine::files::{NewFile, NewKind, Time};
use engine::inside::device::WriteDevice;
use engine::inside::ondisk::ZilHeader;
use engine::inside::ondisk::label::DATA_START;
use engine::inside::pool::{self, PoolRefusal, UnguardedDatasets as _};
use engine::live::{LogDevices, OfflineMode, ResilverKind};
use engine::pools::LeafWork;
use engine::{Filesystem, LivePool};
use poolkit::Shape;

const NOW: Time = Time { seconds: 1, nanos: 0 };
const FILES: u8 = 3;
/// Bytes of each. The last is a whole record, which is written to where it belongs.
const LENGTHS: [usize; FILES as usize] = [10, 5000, 128 << 10];

fn name(n: u8) -> String {
    format!("f{n}")
}

/// Writes a file, and waits until it is durable.
fn promise(fs: &Filesystem, n: u8, length: usize) {
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let file = fs.create(fs.root_object(), name(n).as_bytes(), &new).unwrap().object().number();
    fs.write_at(file, 0, &vec![n + 1; length], NOW).unwrap();
    fs.sync(file).unwrap();
}

/// A pool as a crash left it: what each of some syncs promised is in the log only.
fn crashed(shape: Shape) -> Bench {
    crash(Bench::new(shape, DEVICE_BYTES, 12).encrypted(true))
}

fn crash(mut bench: Bench) -> Bench {
    let pool = bench.create();
    let fs = pool.filesystem("tank").unwrap();
    pool.sync().unwrap();
    for (n, length) in (0..FILES).zip(LENGTHS) {
        promise(&fs, n, length);
    }
    bench.fork();
    bench
}

/// All is there with the key, on these devices.
fn has_all(bench: &Bench, case: &str) {
    let pool = bench.import();
    assert!(is_whole(&pool), "{case}");
    let fs = pool.filesystem("tank").unwrap();
    for (n, length) in (0..FILES).zip(LENGTHS) {
        let entry = fs.root().unwrap().lookup(name(n).as_bytes()).unwrap();
        let entry = entry.unwrap_or_else(|| panic!("{case}: {} is lost", name(n)));
        let mut data = vec![0; length + 1];
        let got = fs.node(entry.object).unwrap().read_at(0, &mut data).unwrap();
        assert_eq!((got, &data[..got]), (length, &vec![n + 1; length][..]), "{case}");
    }
    drop(fs);
    pool.export().unwrap();
    bench.check(&bench.open()).unwrap();
}

fn no_errors(pool: &LivePool, case: &str) {
    for (leaf, errors) in pool.view().vdevs().error_counts() {
        assert_eq!((errors.checksum, errors.read), (0, 0), "{case}: {leaf}");
    }
}

/// Replaces leaves one after the other, each when the one before has been resilvered.
fn replace(bench: &mut Bench, leaves: &[usize], kind: ResilverKind) {
    let case = format!("{:?} {leaves:?} {kind:?}", bench.shape);
    let pool = bench.import_locked();
    for old in leaves.iter().map(|n| guid(&pool, *n)).collect::<Vec<_>>() {
        let new = bench.extra();
        pool.replace_by(old, &bench.leaf(new), bench.write_ref(new), kind).unwrap();
        pool.wait_for_scan().unwrap();
        no_errors(&pool, &case);
    }
    pool.export().unwrap();
    bench.away = leaves.to_vec();
    has_all(bench, &case);
}

#[test]
fn a_replacement_has_the_log() {
    for (shape, leaves) in [
        (Shape::Disk, &[0][..]),
        (Shape::DiskAndLog, &[1]),
        (Shape::DiskAndLog, &[0, 1]),
        (Shape::Mirror, &[0, 1]),
        (Shape::Raidz1, &[0, 1]),
        (Shape::Raidz1, &[0, 1, 2]),
    ] {
        replace(&mut crashed(shape), leaves, ResilverKind::Healing);
    }
    replace(&mut crashed(Shape::Mirror), &[0, 1], ResilverKind::Sequential);
}

/// All of a side was overwritten.
#[test]
fn a_scrub_heals_the_log() {
    for damaged in 0..2 {
        let case = format!("side {damaged} was overwritten");
        let mut bench = crashed(Shape::Mirror);
        let garbage = vec![0xa5; (DEVICE_BYTES - (6 << 20)) as usize];
        bench.devices[damaged].write(5 << 20, &garbage).unwrap();
        let pool = bench.import_locked();
        pool.scrub().unwrap();
        pool.wait_for_scan().unwrap();
        let scan = pool.view().scan_state().unwrap().unwrap();
        assert_eq!(scan.errors, 0, "{case}");
        pool.offline_leaf(guid(&pool, 1 - damaged), OfflineMode::Offline).unwrap();
        pool.detach(guid(&pool, 1 - damaged)).unwrap();
        pool.export().unwrap();
        bench.away = vec![1 - damaged];
        has_all(&bench, &case);
    }
}

/// The header of the log.
fn header(bench: &Bench) -> ZilHeader {
    let seen = bench.open();
    let dataset = seen.dsl().by_name("tank").unwrap();
    seen.dsl().objset(&dataset).unwrap().phys().zil
}

/// The first block of the log is not on the second side.
fn lose_on_a_side(bench: &Bench) {
    let first = header(bench).log;
    let at = DATA_START + first.dva(0).offset();
    bench.devices[1].write(at, &vec![0xa5; first.psize() as usize]).unwrap();
}

/// What rots of a log after it was claimed is an error of its device. What a power failure left of
/// one that was not is none.
#[test]
fn damage_in_a_log_that_was_claimed_counts() {
    for is_claimed in [false, true] {
        let case = format!("claimed: {is_claimed}");
        let bench = crashed(Shape::Mirror);
        if is_claimed {
            bench.import_locked().export().unwrap();
        }
        lose_on_a_side(&bench);
        let pool = bench.import();
        drop(pool.filesystem("tank").unwrap());
        let errors = pool.view().vdevs().error_counts();
        let of = |n| errors.get(&guid(&pool, n)).map_or(0, |errors| errors.checksum);
        assert_eq!((of(0), of(1)), (0, u64::from(is_claimed)), "{case}");
        pool.export().unwrap();
        has_all(&bench, &case);
    }
}

/// What a power failure left of a log is on all sides when it is claimed, so that one more blames
/// none: the next import finds a log that was claimed, and not replayed.
#[test]
fn a_crash_of_the_import_that_claims_a_log_blames_no_device() {
    let mut claimed = 0;
    for writes in 0..60 {
        let crashed = crash(Bench::new(Shape::Mirror, DEVICE_BYTES, 12));
        lose_on_a_side(&crashed);
        let before = crashed.devices.clone();
        let bench = crashed.again_from(&before);
        bench.cut_power_after(writes);
        drop(bench.try_import());
        let again = Bench::new(Shape::Mirror, DEVICE_BYTES, 12).again_from(&bench.devices);
        claimed += u64::from(header(&again).claim_txg != 0 && !header(&again).log.is_hole());
        let pool = again.import();
        no_errors(&pool, &format!("cut off after {writes} writes"));
        pool.wait_for_scan().unwrap();
        pool.export().unwrap();
        has_all(&again, "after two crashes");
    }
    assert!(claimed > 0, "no log was claimed and not replayed");
}

/// What ends all logs is not done: the log of this one would be lost.
#[test]
fn nothing_that_ends_logs_is_done_before_the_key_is_loaded() {
    let bench = crashed(Shape::DiskAndLog);
    let pool = bench.import_locked();
    let log = guid(&pool, 1);
    let refused = |result: pool::Result<()>| match result.unwrap_err() {
        pool::Error::Refused { why: PoolRefusal::LogNotReplayed(dataset), .. } => {
            assert_eq!(dataset, "tank");
        }
        other => panic!("{other}"),
    };
    pool.start_work(log, LeafWork::Initialize, 1).unwrap();
    refused(pool.remove_log(log));
    let runs = pool.start_work(log, LeafWork::Initialize, 1).unwrap_err();
    assert!(
        matches!(runs, pool::Error::Refused { why: PoolRefusal::Ongoing(_), .. }),
        "it was ended: {runs}"
    );
    pool.cancel_work(log, LeafWork::Initialize).unwrap();
    refused(pool.offline_leaf(log, OfflineMode::Offline));
    refused(pool.offline_leaf(log, OfflineMode::FaultedForNow));
    pool.export().unwrap();
    has_all(&bench, "after refusals");
    let pool = bench.import();
    let log = guid(&pool, 1);
    pool.offline_leaf(log, OfflineMode::Offline).unwrap();
    pool.remove_log(log).unwrap();
    pool.export().unwrap();
    has_all(&bench, "without the log device");
}

#[test]
fn a_mirror_is_not_split_before_the_key_is_loaded() {
    let bench = crashed(Shape::Mirror);
    let pool = bench.import_locked();
    let why = pool.split("half", &[guid(&pool, 1)]).err().unwrap();
    let of_log = PoolRefusal::LogNotReplayed("tank".to_owned());
    assert!(
        matches!(&why, pool::Error::Refused { why: refusal, .. } if *refusal == of_log),
        "{why}"
    );
    pool.export().unwrap();
    has_all(&bench, "after the refusal");
}

/// A log that is given up is that of the dataset, whatever the pool is called from now on.
#[test]
fn a_pool_that_gets_another_name_gives_up_a_log() {
    let mut bench = crashed(Shape::DiskAndLog);
    bench.away = vec![1];
    let pool = bench.import_as("other", LogDevices::GiveUp);
    let given_up = pool.given_up_logs().to_vec();
    assert_eq!(given_up.iter().map(|log| log.dataset.as_str()).collect::<Vec<_>>(), ["other"]);
    pool.export().unwrap();
}

/// A log device is taken out of use while a log has something on it.
#[test]
fn what_was_promised_is_there_without_a_log_device_that_was_taken_out_of_use() {
    let mut bench = Bench::new(Shape::DiskAndLog, DEVICE_BYTES, 12).encrypted(true);
    let pool = bench.create();
    let fs = pool.filesystem("tank").unwrap();
    pool.sync().unwrap();
    for (n, length) in (0..FILES).zip(LENGTHS) {
        promise(&fs, n, length);
        if n == 1 {
            pool.offline_leaf(guid(&pool, 1), OfflineMode::Offline).unwrap();
        }
    }
    bench.fork();
    bench.away = vec![1];
    let pool = bench.import();
    pool.remove_log(guid(&pool, 1)).unwrap();
    pool.export().unwrap();
    has_all(&bench, "the log device was taken out of use");
}
