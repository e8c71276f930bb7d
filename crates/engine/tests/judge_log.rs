//! Logs that were written here are those of OpenZFS.
//!
//! A pool is filled, then changed in every way that has a record, with a sync behind each change
//! and no txg. What the devices hold at that moment, as after a crash, is described as we replay
//! it. `zdb` reads the log; the kernel (by `scripts/judge`) imports the pool, which replays it, and
//! describes what it has: that must be the same. It is also the same when one begins to replay, the
//! power fails, and the other, or the same one, finishes.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use engine::files::{CloneRange, NewFile, NewKind, RenameMode, SetAttrs, Time, XattrMode};
use engine::inside::device::{
    CrashLog, CrashMode, DeviceRef, MemoryDevice, SimDisks, SimOptions, WriteDeviceRef,
};
use engine::inside::ondisk::ZilHeader;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::{
    self, CreateOptions, Devices, ImportOptions, NewFilesystem, Setting, TxgLimits,
};
use engine::inside::zpl::{AccessList, Op};
use engine::inside::{pool, rt, zil};
use engine::{Candidate, Filesystem, LivePool, OpenOptions, Pool, Volume, inventory};
use engine::{PropertyChange, StoredValue};
use poolkit::Shape;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use testkit::oracle;

const DEVICE_BYTES: u64 = 128 << 20;
const NOW: Time = Time { seconds: 1_600_000_000, nanos: 7 };

/// One logs among the data, one on devices of its own.
const POOLS: [(&str, Shape); 2] =
    [("judge-log", Shape::Mirror), ("judge-slog", Shape::MirrorAndLogs)];

struct Bench {
    name: &'static str,
    devices: Vec<Arc<MemoryDevice>>,
}

fn create(name: &'static str, shape: Shape, size: u64) -> (Bench, LivePool) {
    let device = |n| Arc::new(MemoryDevice::zeros(&format!("mem{n}"), size));
    let devices: Vec<_> = (0..shape.devices()).map(device).collect();
    let named = devices.iter().enumerate().map(|(n, d)| (format!("mem{n}"), Arc::clone(d) as _));
    let ashift = |options: &mut CreateOptions| options.ashift = Some(12);
    let pool = shape.create(&rt::Rt::real(), name, named.collect(), false, ashift);
    // Only what is waited for ends a txg.
    pool.set_limits(TxgLimits { timeout: Duration::from_secs(1 << 20), ..pool.limits() });
    (Bench { name, devices }, pool)
}

fn bytes(seed: u64, n: usize) -> Vec<u8> {
    let mut rng = testkit::Rng::new(seed);
    (0..n).map(|_| rng.next_u64() as u8).collect()
}

/// What is there before the log begins.
fn furnish(files: &Filesystem, volume: &Volume) {
    let root = files.root_object();
    for n in 0..12 {
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        let file = files.create(root, format!("old{n}").as_bytes(), &new).unwrap().number();
        files.write_at(file, 0, &bytes(n, 40_000 * n as usize), NOW).unwrap();
    }
    for name in ["dir", "other"] {
        let new = NewFile::new(NewKind::Dir, 0o2755, NOW);
        files.create(root, name.as_bytes(), &new).unwrap();
    }
    volume.write_at(0, &bytes(99, 1 << 20)).unwrap();
}

fn object(files: &Filesystem, path: &str) -> u64 {
    files.by_path(path.as_bytes(), false).unwrap().number()
}

/// Every change that has a record, each promised by itself.
fn change(files: &Filesystem, volume: &Volume) {
    make_all_kinds(files);
    change_files(files);
    change_names(files);
    let other = object(files, "/other");
    for n in 0..40u64 {
        let new = NewFile::new(NewKind::File, 0o600, NOW);
        let file = files.create(other, format!("many{n}").as_bytes(), &new).unwrap().number();
        files.write_at(file, n * 1000, &bytes(n, 9_000), NOW).unwrap();
        if n % 3 == 0 {
            files.sync(file).unwrap();
        }
    }
    files.sync_all().unwrap();
    for n in 0..20 {
        volume.write_at(n * 40_000, &bytes(n + 50, 30_000)).unwrap();
        if n % 4 == 0 {
            volume.flush().unwrap();
        }
    }
    volume.trim(400_000, 100_000).unwrap();
    volume.flush().unwrap();
}

fn make_all_kinds(files: &Filesystem) {
    let dir = object(files, "/dir");
    let kinds = [
        NewKind::File,
        NewKind::Dir,
        NewKind::Symlink(b"../old1".to_vec()),
        NewKind::Symlink(vec![b'x'; 1000]),
        NewKind::Fifo,
        NewKind::Socket,
        NewKind::Block(8, 17),
        NewKind::Char(4, 65),
    ];
    for (n, kind) in kinds.into_iter().enumerate() {
        let new = NewFile { uid: 1000, gid: 1001, ..NewFile::new(kind, 0o640, NOW) };
        files.create(dir, format!("new{n}").as_bytes(), &new).unwrap();
        files.sync_all().unwrap();
    }
}

/// Content, attributes, extended attributes.
fn change_files(files: &Filesystem) {
    let old = |n: u32| object(files, &format!("/old{n}"));
    let done = || files.sync_all().unwrap();
    let file = object(files, "/dir/new0");
    files.write_at(file, 0, b"some bytes", NOW).unwrap();
    done();
    files.write_at(file, 5000, &bytes(1, 300_000), NOW).unwrap();
    files.append(file, &bytes(2, 4096), NOW).unwrap();
    done();
    files.write_at(old(3), 100_000, &bytes(3, 100_000), NOW).unwrap();
    files.truncate(old(3), 150_000, NOW).unwrap();
    files.punch(old(4), 8192, 70_000, NOW).unwrap();
    done();
    files.truncate(old(5), 1_000_000, NOW).unwrap();
    files.truncate(old(6), 0, NOW).unwrap();
    files.write_at(old(6), 77, b"again", NOW).unwrap();
    files.sync(old(6)).unwrap();
    let set = SetAttrs { mode: Some(0o4711), uid: Some(7), gid: Some(8), ..SetAttrs::default() };
    files.set_attrs(old(7), &set, NOW).unwrap();
    let time = Time { seconds: 1_234_567_890, nanos: 5 };
    let set = SetAttrs { mtime: Some(time), atime: Some(time), ..SetAttrs::default() };
    files.set_attrs(old(7), &set, NOW).unwrap();
    files.set_attrs(old(8), &SetAttrs { size: Some(5), ..SetAttrs::default() }, NOW).unwrap();
    done();
    for (name, value) in
        [("word", b"value".to_vec()), ("gone", vec![1]), ("long", bytes(4, 20_000))]
    {
        let name = format!("user.{name}");
        files.set_xattr(old(1), name.as_bytes(), &value, XattrMode::Any, NOW).unwrap();
    }
    files.remove_xattr(old(1), b"user.gone", NOW).unwrap();
    files.set_xattr(old(1), b"user.word", b"another", XattrMode::Replace, NOW).unwrap();
    done();
}

fn change_names(files: &Filesystem) {
    let root = files.root_object();
    let (dir, other) = (object(files, "/dir"), object(files, "/other"));
    let done = || files.sync_all().unwrap();
    files.link(object(files, "/old1"), dir, b"link", NOW).unwrap();
    files.rename((root, b"old2"), (dir, b"moved"), RenameMode::NoReplace, NOW).unwrap();
    files.rename((root, b"old9"), (root, b"old10"), RenameMode::Replace, NOW).unwrap();
    files.rename((dir, b"new1"), (other, b"deep"), RenameMode::Replace, NOW).unwrap();
    done();
    files.unlink(root, b"old11", NOW).unwrap();
    files.unlink(dir, b"new4", NOW).unwrap();
    files.rmdir(other, b"deep", NOW).unwrap();
    done();
    files.rename((dir, b"link"), (root, b"old10"), RenameMode::Exchange, NOW).unwrap();
    let leaves = RenameMode::Whiteout { uid: 5, gid: 6 };
    files.rename((dir, b"moved"), (other, b"seen"), leaves, NOW).unwrap();
    done();
}

fn acl(files: &Filesystem) {
    use engine::files::acl::Ace;
    let node = object(files, "/old0");
    let entry = |id, mask, flags| Ace { mask, flags, kind: 0, id, object: None };
    let entries = vec![
        entry(1000, 0x1_00ab, 0),
        entry(0, 0x1f_01bf, 0x1000),
        entry(0, 0x12_0089, 0x2040),
        entry(0, 0x12_0089, 0x4000),
    ];
    let op = Op::SetAcl { file: node, acl: AccessList { entries, hints: 0 } };
    let tx = files.begin(op.hold()).unwrap();
    files.apply(&tx, &op, NOW).unwrap();
    drop(tx);
    files.sync(node).unwrap();
}

impl Bench {
    fn candidate(&self) -> Candidate {
        let look = |(n, device): (usize, &Arc<MemoryDevice>)| {
            let device: DeviceRef = Arc::clone(device) as _;
            pool::look_at_device(&device, PathBuf::from(format!("mem{n}"))).unwrap()
        };
        let found: Vec<_> = self.devices.iter().enumerate().map(look).collect();
        Candidate::group(&found).into_iter().next().unwrap()
    }

    fn open(&self) -> Pool {
        Pool::open_candidate(&self.candidate(), &OpenOptions::default()).unwrap()
    }

    fn import(&self) -> LivePool {
        let options = ImportOptions { force: true, ..ImportOptions::new(OpenOptions::default()) };
        let device = |(n, device): (usize, &Arc<_>)| (format!("mem{n}"), Arc::clone(device) as _);
        let source: Devices = self.devices.iter().enumerate().map(device).collect();
        live::import(&rt::Rt::real(), &self.candidate(), &options, &source).unwrap()
    }

    /// The header of the log of the file system, and whether it has more to be replayed.
    fn log(&self) -> (ZilHeader, bool) {
        let view = self.open();
        let dataset = view.dsl().by_name(&format!("{}/fs", self.name)).unwrap();
        let log = zil::Log::read(&view.dsl().objset(&dataset).unwrap());
        let has_more = log.pending(view.uberblock().txg).next().is_some();
        (log.header, has_more)
    }

    /// A part of the log of the file system was replayed, and is durable.
    fn is_half_replayed(&self) -> bool {
        let (header, has_more) = self.log();
        header.claim_txg != 0 && header.replay_seq > 0 && has_more
    }

    /// What is recorded of an import that ends many txgs while it replays.
    fn record_import(&self) -> CrashLog {
        let (candidate, images) = (self.candidate(), self.fork().devices);
        let body = move || {
            let rt = rt::Rt::simulated(1);
            let site = SimDisks::new(&rt);
            let device = |(n, image): (usize, Arc<MemoryDevice>)| {
                let name = format!("mem{n}");
                let options = SimOptions { name: name.clone(), ..SimOptions::default() };
                (name, site.add_with(&options, image.fork()) as WriteDeviceRef)
            };
            let source: Devices = images.into_iter().enumerate().map(device).collect();
            let small = ["zfs_dirty_data_max=1M", "zfs_dirty_data_sync_percent=1"];
            let open = ImportOptions::new(OpenOptions::default());
            let tunables = small.map(|text| Setting::parse(text).unwrap()).to_vec();
            let options = ImportOptions { force: true, tunables, ..open };
            site.record();
            let pool = live::import(&rt, &candidate, &options, &source).unwrap();
            let log = site.log();
            pool.close().unwrap();
            log
        };
        std::thread::spawn(body).join().unwrap()
    }

    /// The pool as the power left it when it failed in the middle of an import.
    fn half_replayed(&self) -> Self {
        let log = self.record_import();
        let at = |cut: usize| {
            let images = log.images(cut, CrashMode::LoseUnflushed, 0);
            Self { name: self.name, devices: images.into_iter().map(Arc::new).collect() }
        };
        let cuts = 0..=log.len();
        let cuts = cuts.filter(|cut| !log.is_same_after_next(*cut, CrashMode::LoseUnflushed));
        let half: Vec<usize> = cuts.filter(|cut| at(*cut).is_half_replayed()).collect();
        assert!(half.len() > 1, "no txg ended while the log was replayed");
        at(half[half.len() / 2])
    }

    fn fork(&self) -> Self {
        let devices = self.devices.iter().map(|d| Arc::new(d.fork())).collect();
        Self { name: self.name, devices }
    }

    fn save(&self, dir: &Path) -> Vec<PathBuf> {
        let save = |(n, device): (usize, &Arc<MemoryDevice>)| {
            let path = dir.join(format!("vdev{n}.img"));
            device.save(&path).unwrap();
            path
        };
        self.devices.iter().enumerate().map(save).collect()
    }
}

/// A pool as a crash leaves it, with a log of everything.
fn made(name: &'static str, shape: Shape) -> Bench {
    let (bench, pool) = create(name, shape, DEVICE_BYTES);
    pool.create_filesystem(&format!("{name}/fs"), NewFilesystem::default(), Vec::new()).unwrap();
    // Whole blocks of the volume go to where they belong; so do large ones of files without a log
    // device.
    let bias = PropertyChange { name: "logbias".to_owned(), value: Some(StoredValue::Number(1)) };
    pool.create_volume(&format!("{name}/vol"), 4 << 20, 16384, vec![bias]).unwrap();
    let files = pool.filesystem(&format!("{name}/fs")).unwrap();
    let volume = pool.volume(&format!("{name}/vol")).unwrap();
    furnish(&files, &volume);
    // The first promise of each begins its log, which waits for a txg.
    files.sync_all().unwrap();
    // So does the first attribute, which says that the dataset may have such records.
    let old = object(&files, "/old1");
    files.set_xattr(old, b"user.first", b"a feature", XattrMode::Any, NOW).unwrap();
    volume.write_at(0, &bytes(99, 4096)).unwrap();
    volume.flush().unwrap();
    pool.sync().unwrap();
    pool.snapshot(&[format!("{name}/fs@before")], Vec::new()).unwrap();
    let before = pool.last_synced();
    change(&files, &volume);
    acl(&files);
    no_txg_ended(&pool, before);
    let early = pool.log_stats().early;
    // With a log device, those of the volume alone.
    assert_eq!(
        early,
        if shape.log_devices() > 0 { 18 } else { 19 },
        "blocks that records point to"
    );
    bench.fork()
}

/// All that was promised has records.
fn no_txg_ended(pool: &LivePool, before: u64) {
    let after = pool.txgs().into_iter().filter(|t| t.txg > before);
    let pushed: Vec<_> = after.map(|t| (t.txg, t.pushed, t.dirty)).collect();
    assert!(pushed.is_empty(), "something had no record: {pushed:?}");
}

/// Writes what the pool holds, with its logs replayed.
fn describe(pool: &Pool, replayed: bool, path: &Path) {
    let open = |d: &engine::Dataset| {
        if !replayed {
            return Ok(pool.dsl().objset(d)?);
        }
        let (objset, report) = engine::replay::objset(pool, d)?;
        assert!(report.is_none_or(|r| r.problem().is_none()), "{}", d.name);
        Ok(objset)
    };
    let progress = rt::Progress::new();
    let options = inventory::Options {
        volumes: true,
        replayed,
        open: &open,
        max_hole: inventory::MAX_HOLE,
        progress: &progress,
        reports: &|_| inventory::Reports::default(),
    };
    let mut out = fs::File::create(path).unwrap();
    let errors = inventory::write(pool, &options, &mut out).unwrap();
    assert!(errors.is_empty(), "{errors:?}");
}

#[testkit::needs("zdb")]
#[test]
fn zdb_reads_the_log_and_an_import_replays_it() {
    for (name, shape) in POOLS {
        let bench = made(name, shape);
        let dir = tempfile::tempdir().unwrap();
        bench.save(dir.path());
        let view = bench.open();
        let dataset = view.dsl().by_name(&format!("{name}/fs")).unwrap();
        let found = zil::Log::read(&view.dsl().objset(&dataset).unwrap());
        let pending = found.pending(view.uberblock().txg);
        let kinds: BTreeSet<_> = pending.filter_map(|r| r.kind.name()).collect();
        assert_eq!(kinds.len(), 14, "{kinds:?}");
        describe(&view, true, &dir.path().join("looked.json"));
        drop(view);
        let verdict = oracle::zdb_on(dir.path(), &["-ivv", &format!("{name}/fs")]);
        assert!(verdict.success, "{}", verdict.text);
        for kind in kinds {
            assert!(verdict.text.contains(kind), "zdb shows no {kind}:\n{}", verdict.text);
        }
        oracle::judge(dir.path(), name);
        let pool = bench.import();
        assert_eq!(pool.replayed_logs().len(), 2);
        pool.close().unwrap();
        bench.save(dir.path());
        describe(&bench.open(), false, &dir.path().join("replayed.json"));
        oracle::judge(dir.path(), name);
        let (looked, replayed) = ("looked.json", "replayed.json");
        let [looked, replayed] = [looked, replayed].map(|file| held(&dir.path().join(file)));
        same(name, &looked, &replayed);
    }
}

/// What a manifest says of each file, volume, dataset and snapshot, but for what an import that
/// replays changes: numbers of objects, sizes on disk, and times.
fn held(manifest: &Path) -> BTreeMap<String, Value> {
    const CHANGES: [&str; 6] = ["ino", "blocks", "data", "atime_ns", "ctime_ns", "mtime_ns"];
    let manifest: Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    let mut out = BTreeMap::new();
    for dataset in manifest["datasets"].as_array().unwrap() {
        let snapshots = dataset["snapshots"].as_array().unwrap();
        for set in std::iter::once(dataset).chain(snapshots) {
            let name = set["name"].as_str().unwrap();
            for key in ["type", "volume", "user_properties", "holds"] {
                out.insert(format!("{name} {key}"), set[key].clone());
            }
            for entry in set["entries"].as_array().into_iter().flatten() {
                let mut entry = entry.clone();
                entry.as_object_mut().unwrap().retain(|key, _| !CHANGES.contains(&key.as_str()));
                out.insert(format!("{name} {} {}", entry["path"], entry["path_hex"]), entry);
            }
        }
    }
    out
}

#[testkit::needs("zdb")]
#[test]
fn what_was_half_replayed_is_finished() {
    for (name, shape) in POOLS {
        let bench = made(name, shape);
        let dir = tempfile::tempdir().unwrap();
        describe(&bench.open(), true, &dir.path().join("whole.json"));
        let half = bench.half_replayed();
        describe(&half.open(), true, &dir.path().join("looked.json"));
        half.save(dir.path());
        oracle::judge(dir.path(), name);
        half.import().close().unwrap();
        assert!(!half.log().1);
        describe(&half.open(), false, &dir.path().join("finished.json"));
        half.save(dir.path());
        oracle::judge(dir.path(), name);
        let whole = held(&dir.path().join("whole.json"));
        for file in ["looked.json", "finished.json"] {
            same(name, &whole, &held(&dir.path().join(file)));
        }
    }
}

/// Two manifests say the same.
fn same(name: &str, one: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>) {
    assert!(one.len() > 5, "{one:?}");
    for (what, value) in one {
        assert_eq!(Some(value), other.get(what), "{name}: {what}");
    }
    assert_eq!(one.len(), other.len(), "{name}");
}

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn the_kernel_finishes_what_was_half_replayed_here() {
    let judge = testkit::KernelJudge::find();
    let (name, shape) = POOLS[0];
    let bench = made(name, shape);
    let dir = tempfile::tempdir().unwrap();
    describe(&bench.open(), true, &dir.path().join("whole.json"));
    let images = bench.half_replayed().save(dir.path());
    let (job, out) = (dir.path().join("job"), dir.path().join("out"));
    let script = format!(
        "echo 'POOL={name} WRITE=0 SCRUB=1 MANIFEST=1 READONLY=0' > /job/options\n\
         bash /judge/import-check.sh\n"
    );
    assert!(judge.run(&script, &job, &out, &images), "the kernel complains of {name}");
    let both = ["whole.json", "out/manifest.json"].map(|file| held(&dir.path().join(file)));
    same(name, &both[0], &both[1]);
}

/// The pool of the collection whose logs clone blocks, as OpenZFS left it.
fn cloning() -> (testkit::CorpusPool, Bench) {
    let corpus = testkit::corpus("ziluncle");
    let devices = vec![load(&corpus.dir.join("vdev0.img"))];
    (corpus, Bench { name: "logged", devices })
}

/// What a manifest says of the pool, but for what no replay by the kernel brings back.
fn held_by_both(corpus: &testkit::CorpusPool, manifest: &Path) -> BTreeMap<String, Value> {
    let mut out = held(manifest);
    let differences = corpus.manifest["replay_differences"].as_array().unwrap();
    for one in differences {
        let entry = format!("logged/{} {} ", one["dataset"].as_str().unwrap(), one["path"]);
        out.retain(|key, _| !key.starts_with(&entry));
    }
    out
}

/// The blocks of its clones are counted as OpenZFS counts them, and none is lost.
fn counts_clones(corpus: &testkit::CorpusPool, bench: &Bench) {
    let space = bench.open().space();
    let theirs = &corpus.manifest["pool_properties"];
    assert_eq!(theirs["bcloneused"], space.clones_used.to_string());
    assert_eq!(theirs["bclonesaved"], space.clones_saved.to_string());
    let dir = tempfile::tempdir().unwrap();
    bench.save(dir.path());
    oracle::judge(dir.path(), bench.name);
}

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn the_kernel_finishes_clones_that_were_half_replayed_here() {
    let judge = testkit::KernelJudge::find();
    let (corpus, mut bench) = cloning();
    let dir = tempfile::tempdir().unwrap();
    describe(&bench.open(), true, &dir.path().join("whole.json"));
    let images = bench.half_replayed().save(dir.path());
    let (job, out) = (dir.path().join("job"), dir.path().join("out"));
    let script = "echo 'POOL=logged WRITE=0 SCRUB=1 MANIFEST=1 READONLY=0' > /job/options\n\
                  bash /judge/import-check.sh\n";
    assert!(judge.run(script, &job, &out, &images), "the kernel complains");
    let both = ["whole.json", "out/manifest.json"];
    let both = both.map(|file| held_by_both(&corpus, &dir.path().join(file)));
    same(bench.name, &both[0], &both[1]);
    bench.devices = images.iter().map(load).collect();
    counts_clones(&corpus, &bench);
}

/// The machine claims all logs, replays one, and loses its power.
const ONE_OF_MANY: &str = r"
set -e
zpool import -d /dev -N -f -o cachefile=none logged
zfs mount logged/fs
zpool sync logged
judge-finish 0
echo b > /proc/sysrq-trigger
";

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn clones_that_the_kernel_claimed_are_replayed_here() {
    let judge = testkit::KernelJudge::find();
    let (corpus, mut bench) = cloning();
    let dir = tempfile::tempdir().unwrap();
    describe(&bench.open(), true, &dir.path().join("whole.json"));
    let images = bench.save(dir.path());
    let (job, out) = (dir.path().join("job"), dir.path().join("out"));
    assert!(judge.run(ONE_OF_MANY, &job, &out, &images));
    bench.devices = images.iter().map(load).collect();
    assert!(!bench.log().1, "the kernel replayed this one");
    let pool = bench.import();
    let replayed: Vec<_> = pool.replayed_logs().into_iter().map(|(name, _)| name).collect();
    assert!(replayed.len() > 2 && !replayed.contains(&"logged/fs".to_owned()), "{replayed:?}");
    pool.close().unwrap();
    describe(&bench.open(), false, &dir.path().join("finished.json"));
    let both = ["whole.json", "finished.json"];
    let both = both.map(|file| held_by_both(&corpus, &dir.path().join(file)));
    same(bench.name, &both[0], &both[1]);
    counts_clones(&corpus, &bench);
}

/// Files of the pools whose files share blocks because they were copied here.
const COPIED: u64 = 24;

/// A pool as a crash leaves it, with a log of copies that share blocks, among writes to both sides,
/// and of the removal of files that had them first.
fn made_of_copies() -> Bench {
    const RECORD: u64 = 128 << 10;
    let name = "judge-copies";
    let (bench, pool) = create(name, Shape::Mirror, DEVICE_BYTES);
    pool.enable_feature("block_cloning").unwrap();
    pool.create_filesystem(&format!("{name}/fs"), NewFilesystem::default(), Vec::new()).unwrap();
    let files = pool.filesystem(&format!("{name}/fs")).unwrap();
    let new = |name: &str| {
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        files.create(files.root_object(), name.as_bytes(), &new).unwrap().number()
    };
    // From less than a block to many, one of them with a hole.
    let length = |n: u64| 1 + n * 50_000;
    let sources: Vec<u64> = (0..COPIED).map(|n| new(&format!("from{n}"))).collect();
    for (n, file) in (0..).zip(&sources) {
        files.write_at(*file, 0, &bytes(n, length(n) as usize), NOW).unwrap();
    }
    files.punch(sources[20], 2 * RECORD, 2 * RECORD, NOW).unwrap();
    files.sync_all().unwrap();
    pool.sync().unwrap();
    let before = pool.last_synced();
    let share = |from: (u64, u64), to: (u64, u64), length: u64| {
        assert_eq!(files.clone_range(&CloneRange { from, to, length }, NOW).unwrap(), length);
    };
    for (n, source) in (0..).zip(&sources) {
        let to = new(&format!("to{n}"));
        share((*source, 0), (to, 0), length(n));
        match n % 4 {
            0 => files.unlink(files.root_object(), format!("from{n}").as_bytes(), NOW).unwrap(),
            1 => files.write_at(*source, 10, &bytes(n + 100, 9_000), NOW).unwrap(),
            2 => files.write_at(to, length(n) / 2, &bytes(n + 200, 9_000), NOW).unwrap(),
            // Parts, behind its end and within one file.
            _ if n > 10 => {
                share((*source, RECORD), (to, 20 * RECORD), RECORD);
                share((*source, 0), (*source, 2 * RECORD), RECORD);
            }
            _ => {}
        }
        files.sync_all().unwrap();
    }
    no_txg_ended(&pool, before);
    bench.fork()
}

/// What zdb counts of shared blocks, and what is found in them, is right.
fn has_shared_blocks(bench: &Bench) {
    assert!(bench.open().space().clones_used > 0);
    let dir = tempfile::tempdir().unwrap();
    bench.save(dir.path());
    oracle::judge(dir.path(), bench.name);
}

#[testkit::needs("zdb")]
#[test]
fn copies_that_were_half_replayed_are_finished() {
    let bench = made_of_copies();
    let dir = tempfile::tempdir().unwrap();
    describe(&bench.open(), true, &dir.path().join("whole.json"));
    let half = bench.half_replayed();
    half.import().close().unwrap();
    describe(&half.open(), false, &dir.path().join("finished.json"));
    let both = ["whole.json", "finished.json"].map(|file| held(&dir.path().join(file)));
    same(bench.name, &both[0], &both[1]);
    has_shared_blocks(&half);
}

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn the_kernel_replays_copies_that_share_blocks() {
    let judge = testkit::KernelJudge::find();
    let mut bench = made_of_copies();
    let dir = tempfile::tempdir().unwrap();
    describe(&bench.open(), true, &dir.path().join("whole.json"));
    let script = format!(
        "echo 'POOL={} WRITE=0 SCRUB=1 MANIFEST=1 READONLY=0' > /job/options\n\
         bash /judge/import-check.sh\n",
        bench.name
    );
    // All of it, and what an import here has left of it.
    for is_half in [false, true] {
        let left = if is_half { bench.half_replayed() } else { bench.fork() };
        let images = left.save(dir.path());
        let (job, out) = (dir.path().join("job"), dir.path().join("out"));
        assert!(judge.run(&script, &job, &out, &images), "the kernel complains: {is_half}");
        let both = ["whole.json", "out/manifest.json"].map(|file| held(&dir.path().join(file)));
        same(bench.name, &both[0], &both[1]);
        let theirs = Bench { name: bench.name, devices: images.iter().map(load).collect() };
        has_shared_blocks(&theirs);
        fs::remove_dir_all(&out).unwrap();
    }
    // The other way: the kernel claims, and its power fails before it has mounted anything.
    let images = bench.save(dir.path());
    let (job, out) = (dir.path().join("job"), dir.path().join("out"));
    assert!(judge.run(&CLAIMED.replace("POOL", bench.name), &job, &out, &images));
    bench.devices = images.iter().map(load).collect();
    assert!(bench.log().1, "the kernel has replayed it");
    bench.import().close().unwrap();
    describe(&bench.open(), false, &dir.path().join("finished.json"));
    let both = ["whole.json", "finished.json"].map(|file| held(&dir.path().join(file)));
    same(bench.name, &both[0], &both[1]);
    has_shared_blocks(&bench);
}

/// The machine claims the log of a pool, replays nothing, and loses its power.
const CLAIMED: &str = r"
set -e
zpool import -d /dev -N -f -o cachefile=none POOL
zpool sync POOL
judge-finish 0
echo b > /proc/sysrq-trigger
";

/// Files of the next test, and how often each is changed.
const MANY: (u64, u64) = (1000, 40);

/// A log that the kernel replays for long.
fn made_long() -> Bench {
    let name = "judge-long";
    let (bench, pool) = create(name, Shape::Mirror, 4 * DEVICE_BYTES);
    pool.create_filesystem(&format!("{name}/fs"), NewFilesystem::default(), Vec::new()).unwrap();
    let files = pool.filesystem(&format!("{name}/fs")).unwrap();
    let make = |n: u64| {
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        files.create(files.root_object(), format!("file{n}").as_bytes(), &new).unwrap().number()
    };
    let numbers: Vec<u64> = (0..MANY.0).map(make).collect();
    files.sync_all().unwrap();
    pool.sync().unwrap();
    let before = pool.last_synced();
    for round in 0..MANY.1 {
        for file in &numbers {
            files.write_at(*file, round * 100, &bytes(file + round, 100), NOW).unwrap();
        }
        files.sync_all().unwrap();
    }
    no_txg_ended(&pool, before);
    bench.fork()
}

/// The machine loses its power while it mounts the file system.
const HALF: &str = r#"
set -e
echo 1 > /sys/module/zfs/parameters/zfs_txg_timeout
zpool import -d /dev -N -f -o cachefile=none judge-long
txgs=/proc/spl/kstat/zfs/judge-long/txgs
# Those that are committed and have what was replayed, not only what a mount changes.
durable() { awk '$3 == "C" && $4 > 1000000 { n++ } END { print n + 0 }' $txgs; }
zfs mount judge-long/fs &
while kill -0 $! && [ "$(durable)" -lt 2 ]; do sleep 0.1; done
kill -0 $! || { echo "the log is replayed already"; exit 3; }
judge-finish 0
echo b > /proc/sysrq-trigger
"#;

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn what_the_kernel_half_replayed_is_finished_here() {
    let judge = testkit::KernelJudge::find();
    let mut bench = made_long();
    let dir = tempfile::tempdir().unwrap();
    describe(&bench.open(), true, &dir.path().join("whole.json"));
    let images = bench.save(dir.path());
    let (job, out) = (dir.path().join("job"), dir.path().join("out"));
    assert!(judge.run(HALF, &job, &out, &images));
    bench.devices = images.iter().map(load).collect();
    let (header, _) = bench.log();
    assert!(bench.is_half_replayed(), "{header:?}");
    bench.import().close().unwrap();
    assert!(!bench.log().1);
    bench.save(dir.path());
    oracle::judge(dir.path(), bench.name);
    describe(&bench.open(), false, &dir.path().join("finished.json"));
    let both = ["whole.json", "finished.json"].map(|file| held(&dir.path().join(file)));
    same(bench.name, &both[0], &both[1]);
}

/// Two manifests describe the same, but for times of changes.
fn is_same(judge: &testkit::KernelJudge, one: &Path, other: &Path) -> bool {
    let mut diff = Command::new(judge.programs().join("manifest-diff"));
    diff.args(["--ignore", "mtime_ns"]).args([one, other]).status().unwrap().success()
}

/// What an image holds.
fn load(path: &PathBuf) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::from_bytes("mem", &fs::read(path).unwrap()))
}

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn the_kernel_replays_what_was_written_here() {
    let judge = testkit::KernelJudge::find();
    for (name, shape) in POOLS {
        let bench = made(name, shape);
        let dir = tempfile::tempdir().unwrap();
        let images = bench.save(dir.path());
        describe(&bench.open(), true, &dir.path().join("ours.json"));
        let (job, out) = (dir.path().join("job"), dir.path().join("out"));
        let script = format!(
            "echo 'POOL={name} WRITE=0 SCRUB=1 MANIFEST=1 READONLY=0' > /job/options\n\
             bash /judge/import-check.sh\n"
        );
        assert!(judge.run(&script, &job, &out, &images), "the kernel complains of {name}");
        let (ours, theirs) = (dir.path().join("ours.json"), out.join("manifest.json"));
        assert!(is_same(&judge, &ours, &theirs), "{name}: the kernel replayed something else");
    }
}

/// What the kernel does: files in every way that has a record, promised, and then the machine loses
/// its power.
const KERNEL: &str = r#"
set -e
echo 3600 > /sys/module/zfs/parameters/zfs_txg_timeout
zpool create -f -o ashift=12 -o cachefile=none -o feature@block_cloning=disabled \
    -O xattr=sa -O atime=off -m /tank judge-kernel mirror /dev/img0 /dev/img1
zfs create judge-kernel/fs
python3 - <<'PY'
import os, random
rng = random.Random(5)
os.chdir("/tank/fs")
def put(name, data, at=0):
    with open(name, "r+b" if os.path.exists(name) else "wb") as f:
        f.seek(at); f.write(data); f.flush(); os.fsync(f.fileno())
def sync(name="."):
    f = os.open(name, os.O_RDONLY); os.fsync(f); os.close(f)
for n in range(12):
    put("old%d" % n, rng.randbytes(40000 * n))
os.mkdir("dir"); os.mkdir("other"); os.chmod("dir", 0o2755)
os.setxattr("old1", "user.first", b"a feature, whose first use waits for a txg"); sync("old1")
os.system("zpool sync judge-kernel")
put("dir/new", b"some bytes")
put("dir/new", rng.randbytes(500000), 5000)
put("old3", rng.randbytes(131072), 131072)
for n in range(30):
    put("dir/many%d" % n, rng.randbytes(9000), n * 100)
os.symlink("../old1", "dir/link"); os.mkfifo("dir/fifo"); os.mkdir("dir/below")
os.mknod("dir/block", 0o60600, os.makedev(8, 17))
os.mkdir("gone"); os.rmdir("gone")
os.truncate("old5", 1000000); os.truncate("old6", 77); os.truncate("old7", 0)
os.chmod("old4", 0o4711); os.chown("old4", 7, 8); os.utime("old4", (1234567890, 1234567891))
os.setxattr("old1", "user.word", b"value"); os.setxattr("old1", "user.gone", b"x")
os.removexattr("old1", "user.gone")
for name in ["old1", "old4", "old5", "old6", "old7", "dir/new", "dir", "other", "."]:
    sync(name)
PY
judge-finish 0
echo b > /proc/sysrq-trigger
"#;

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn what_the_kernel_logged_is_replayed_here() {
    let judge = testkit::KernelJudge::find();
    let dir = tempfile::tempdir().unwrap();
    let device = |n| Arc::new(MemoryDevice::zeros(&format!("mem{n}"), DEVICE_BYTES));
    let mut bench = Bench { name: "judge-kernel", devices: (0..2).map(device).collect() };
    let images = bench.save(dir.path());
    let (job, out) = (dir.path().join("job"), dir.path().join("out"));
    fs::create_dir_all(&job).unwrap();
    // What it left, and, in a machine whose changes are thrown away, what it makes of that.
    let look = "echo 'POOL=judge-kernel WRITE=0 SCRUB=0 MANIFEST=1 READONLY=0' > /job/options\n\
                bash /judge/import-check.sh\n";
    for (script, keep) in [(KERNEL, true), (look, false)] {
        fs::write(job.join("run.sh"), script).unwrap();
        let mut run = judge.machine(600);
        run.args(["--snapshot"].iter().filter(|_| !keep));
        run.arg("--out").arg(&out).arg(&job).args(&images);
        assert!(run.status().unwrap().success());
    }
    bench.devices = images.iter().map(load).collect();
    let pool = bench.import();
    let replayed = pool.replayed_logs();
    assert!(replayed.iter().any(|(_, report)| report.applied > 0), "{replayed:?}");
    pool.close().unwrap();
    bench.save(dir.path());
    describe(&bench.open(), false, &dir.path().join("ours.json"));
    let (theirs, ours) = (out.join("manifest.json"), dir.path().join("ours.json"));
    assert!(is_same(&judge, &theirs, &ours), "what the kernel promised is another here");
    oracle::judge(dir.path(), bench.name);
}
