//! Intent logs of OpenZFS whose records clone blocks, replayed into their pools: the files have
//! what a look shows, each block is counted once for each file that has it, and is freed with the
//! last, wherever the power fails.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod writing;

use engine::inside::device;
use engine::inside::device::{CrashLog, CrashMode, MemoryDevice, SimDisks, SimOptions};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::{self, Devices, ImportOptions};
use engine::inside::zpl::FileKind;
use engine::inside::zpl::replay::{self, Settings};
use engine::inside::{check, pool, rt, zil};
use engine::{Candidate, Filesystem, LivePool, OpenOptions, Pool, Volume};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use testkit::CorpusPool;
use writing::Pools;

/// The cases of the collection with such logs.
const CASES: [&str; 2] = ["ziluncle", "zil-slog"];
/// Moments at which an import is cut, about.
const CUTS: usize = 24;
const BLOCK_CLONING: &str = "com.fudosecurity:block_cloning";

/// Name of a dataset to what is in it; a volume is a file of no name.
type Contents = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// What is in the datasets of a pool; `looks`: with what their logs have.
fn contents(corpus: &CorpusPool, pool: &Pool, looks: bool) -> Contents {
    let mut out = Contents::new();
    for dataset in corpus.manifest["datasets"].as_array().unwrap() {
        let name = dataset["name"].as_str().unwrap();
        let mut objset = pool.dsl().objset(&pool.dsl().by_name(name).unwrap()).unwrap();
        let settings = Settings::new(pool.uberblock().txg);
        let is_volume = dataset["type"] == "volume";
        if looks {
            let look = if is_volume { replay::volume } else { replay::filesystem };
            objset = look(&objset, &settings).unwrap().0;
        }
        let files = match is_volume {
            false => writing::contents(&Filesystem::open(objset).unwrap()),
            true => {
                let volume = Volume::open(&objset).unwrap();
                let mut bytes = vec![0; usize::try_from(volume.size()).unwrap()];
                volume.read_at(0, &mut bytes).unwrap();
                BTreeMap::from([(String::new(), bytes)])
            }
        };
        out.insert(name.to_owned(), files);
    }
    out
}

fn load_keys(corpus: &CorpusPool, pool: &LivePool) {
    corpus.keys().iter().for_each(|(name, key)| _ = pool.load_key(name, key).unwrap());
}

/// Records of logs that clone blocks, of all datasets.
fn clone_records(corpus: &CorpusPool, pool: &Pool) -> usize {
    let of = |dataset: &serde_json::Value| {
        let found = pool.dsl().by_name(dataset["name"].as_str().unwrap()).unwrap();
        let log = zil::Log::read(&pool.dsl().objset(&found).unwrap());
        log.pending(pool.uberblock().txg).filter(|r| r.cloned().next().is_some()).count()
    };
    corpus.manifest["datasets"].as_array().unwrap().iter().map(of).sum()
}

/// Bytes that a property of the pool has in the manifest.
fn property(corpus: &CorpusPool, name: &str) -> u64 {
    corpus.manifest["pool_properties"][name].as_str().unwrap().parse().unwrap()
}

fn copy_images(corpus: &CorpusPool) -> Pools {
    let pools = Pools::new(&corpus.case);
    for image in images_of(corpus) {
        let to = pools.dir().join(image.file_name().unwrap());
        let mut copy = std::process::Command::new("cp");
        assert!(copy.arg("--sparse=always").args([&image, &to]).status().unwrap().success());
    }
    pools
}

fn images_of(corpus: &CorpusPool) -> Vec<PathBuf> {
    let files = std::fs::read_dir(&corpus.dir).unwrap().map(|file| file.unwrap().path());
    let mut images: Vec<_> = files.filter(|p| p.extension().is_some_and(|e| e == "img")).collect();
    images.sort();
    images
}

fn unlink_all(fs: &Filesystem) {
    let mut todo = vec![fs.root().unwrap()];
    while let Some(dir) = todo.pop() {
        for entry in dir.sorted_entries().unwrap() {
            let node = fs.node(entry.object).unwrap();
            match node.kind() {
                FileKind::Dir => todo.push(node),
                // Flags may forbid it: none of these is a clone.
                _ => drop(fs.unlink(dir.number(), &entry.name, writing::fs_time(1))),
            }
        }
    }
}

#[test]
fn cloned_blocks_come_back_and_are_freed_with_their_last_file() {
    for corpus in testkit::corpus_among(&CASES) {
        let (name, keys) = (corpus.name(), corpus.keys());
        let pools = copy_images(&corpus);
        let unlocked = || {
            let pool = pools.open(name);
            keys.iter().for_each(|(name, key)| _ = pool.dsl().load_key(name, key).unwrap());
            pool
        };
        let judge = || {
            let keys: Vec<_> = keys.iter().map(|(n, k)| (n.as_str(), k.as_slice())).collect();
            pools.judge_unlocked(name, &keys);
        };
        let before = unlocked();
        assert!(clone_records(&corpus, &before) > 2);
        let expected = contents(&corpus, &before, true);
        drop(before);

        let pool = pools.import(name);
        load_keys(&corpus, &pool);
        pool.export().unwrap();
        judge();
        let after = unlocked();
        assert!(contents(&corpus, &after, false) == expected, "{name}: its files are others");
        let (used, saved) = (after.space().clones_used, after.space().clones_saved);
        let theirs = ["bcloneused", "bclonesaved"].map(|what| property(&corpus, what));
        assert_eq!([used, saved], theirs, "{name}");
        drop(after);

        let pool = pools.import(name);
        load_keys(&corpus, &pool);
        for (dataset, files) in &expected {
            if !files.contains_key("") {
                unlink_all(&pool.filesystem(dataset).unwrap());
            }
        }
        pool.sync().unwrap();
        assert_eq!(pool.allocator_problems(), Vec::<String>::new(), "{name}");
        pool.export().unwrap();
        judge();
        let empty = unlocked();
        assert_eq!(empty.space().clones_used, 0, "{name}");
        assert_eq!(empty.features().count(BLOCK_CLONING), Some(0), "{name}");
    }
}

/// The log of a locked dataset keeps the blocks that it clones, also when their own file is gone.
#[testkit::needs("zil-slog")]
#[test]
fn a_log_that_waits_for_its_key_keeps_what_it_clones() {
    let corpus = testkit::corpus("zil-slog");
    let (name, keys) = (corpus.name(), corpus.keys());
    let pools = copy_images(&corpus);
    let before = pools.open(name);
    keys.iter().for_each(|(name, key)| _ = before.dsl().load_key(name, key).unwrap());
    let expected = contents(&corpus, &before, true);
    let is_locked = |dataset: &&String| {
        let head = before.dsl().by_name(dataset).unwrap();
        before.dsl().objset(&head).unwrap().key().is_some()
    };
    let secret = expected.keys().find(is_locked).unwrap().clone();
    drop(before);

    // All others are destroyed, or emptied, while it waits.
    let pool = pools.import(name);
    for dataset in expected.keys().rev().filter(|d| **d != secret && *d != name) {
        pool.destroy_dataset(dataset).unwrap();
    }
    writing::fill(&pool.filesystem(name).unwrap(), 3, 40);
    pool.sync().unwrap();
    pool.export().unwrap();
    pools.judge(name);
    assert!(pools.open(name).space().clones_used > 0);

    let pool = pools.import(name);
    load_keys(&corpus, &pool);
    assert!(writing::contents(&pool.filesystem(&secret).unwrap()) == expected[&secret]);
    pool.export().unwrap();
    let keys: Vec<_> = keys.iter().map(|(n, k)| (n.as_str(), k.as_slice())).collect();
    pools.judge_unlocked(name, &keys);

    // And what is destroyed with its log gives up what that cloned.
    let pool = pools.import(name);
    pool.destroy_dataset(&secret).unwrap();
    pool.export().unwrap();
    pools.judge(name);
    assert_eq!(pools.open(name).space().clones_used, 0);
}

fn cache() -> OpenOptions {
    OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::default() }
}

fn candidate(images: &[MemoryDevice]) -> Candidate {
    let look = |(n, image): (usize, &MemoryDevice)| {
        let device: device::DeviceRef = Arc::new(image.fork());
        pool::look_at_device(&device, PathBuf::from(format!("sim{n}"))).unwrap()
    };
    let found: Vec<_> = images.iter().enumerate().map(look).collect();
    Candidate::group(&found).into_iter().next().unwrap()
}

/// Imports the pool of these devices, loads its keys, and closes it.
fn replay_all(
    rt: &rt::Rt,
    corpus: &CorpusPool,
    candidate: &Candidate,
    devices: &[device::WriteDeviceRef],
) -> LivePool {
    let options = ImportOptions { force: true, ..ImportOptions::new(cache()) };
    let named = devices.iter().enumerate().map(|(n, d)| (format!("sim{n}"), Arc::clone(d)));
    let source = named.collect::<Devices>();
    let pool = live::import(rt, candidate, &options, &source).unwrap();
    load_keys(corpus, &pool);
    pool
}

/// The import of a pool, event by event.
fn record(corpus: &CorpusPool, images: &[MemoryDevice]) -> CrashLog {
    let forks: Vec<_> = images.iter().map(MemoryDevice::fork).collect();
    let body = || {
        let rt = rt::Rt::simulated(5);
        let site = SimDisks::new(&rt);
        let disk = |(n, (fork, image)): (usize, (MemoryDevice, &MemoryDevice))| {
            let size = device::Device::size(image);
            let options =
                SimOptions { name: format!("sim{n}"), size, seed: 5, ..SimOptions::default() };
            site.add_with(&options, fork) as _
        };
        let devices: Vec<device::WriteDeviceRef> =
            forks.into_iter().zip(images).enumerate().map(disk).collect();
        site.record();
        let pool = replay_all(&rt, corpus, &candidate(images), &devices);
        let log = site.log();
        pool.close().unwrap();
        log
    };
    std::thread::scope(|scope| scope.spawn(body).join().unwrap())
}

fn check_clean(corpus: &CorpusPool, pool: &Pool, what: &str) {
    corpus.keys().iter().for_each(|(name, key)| _ = pool.dsl().load_key(name, key).unwrap());
    let report = check::run(pool, &check::CheckOptions::default(), &rt::Progress::new());
    let wrong = report.issues.iter().find(|i| i.severity() > check::Severity::Note);
    assert!(wrong.is_none(), "{what}: {}", wrong.unwrap());
}

/// Wherever the power fails while such a log is claimed, replayed and emptied, the next import ends
/// with the same files, and with each block counted as often as it is used.
#[test]
fn an_import_that_is_cut_clones_nothing_twice() {
    for corpus in testkit::corpus_among(&CASES) {
        let read = |path: &PathBuf| {
            let bytes = std::fs::read(path).unwrap();
            MemoryDevice::from_bytes("image", &bytes)
        };
        let images: Vec<_> = images_of(&corpus).iter().map(read).collect();
        let open = |images: &[MemoryDevice]| {
            let pool = Pool::open_candidate(&candidate(images), &cache()).unwrap();
            corpus.keys().iter().for_each(|(n, key)| _ = pool.dsl().load_key(n, key).unwrap());
            pool
        };
        let expected = contents(&corpus, &open(&images), true);
        let log = record(&corpus, &images);
        // An odd step meets both modes.
        let step = (log.len() / CUTS) | 1;
        let mut judged = 0;
        for cut in (0..=log.len()).step_by(step) {
            let what = format!("{}, cut at {cut} ({})", corpus.case, log.describe(cut));
            let mode = if cut % 2 == 0 { CrashMode::LoseUnflushed } else { CrashMode::Random };
            let images = log.images(cut, mode, cut as u64);
            check_clean(&corpus, &open(&images), &what);
            let held: Vec<_> = images.iter().map(|image| Arc::new(image.fork())).collect();
            let devices: Vec<_> = held.iter().map(|d| Arc::clone(d) as _).collect();
            let pool = replay_all(&rt::Rt::real(), &corpus, &candidate(&images), &devices);
            pool.close().unwrap();
            let after: Vec<_> = held.iter().map(|device| device.fork()).collect();
            let after = open(&after);
            check_clean(&corpus, &after, &what);
            assert!(contents(&corpus, &after, false) == expected, "{what}");
            assert_eq!(after.space().clones_used, property(&corpus, "bcloneused"), "{what}");
            judged += 1;
        }
        assert!(judged > CUTS / 2, "{}: {judged} cuts of {}", corpus.case, log.len());
    }
}
