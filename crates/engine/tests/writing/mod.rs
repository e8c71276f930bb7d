//! What the writing tests share: pools in files, something to put into them, and the judges.
#![allow(dead_code, reason = "each test takes what it needs")]

pub mod store;

use engine::devices::{AnyDevices, DeviceSource as _, FarName, disk};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::{device, rt, zpl};
use engine::live;
use engine::live::{CreateOptions, ImportOptions, LivePool};
use engine::{Candidate, Filesystem, OpenOptions, Pool, SearchOptions};
use poolkit::Shape;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zpl::write::{NewFile, NewKind};

/// Pools in a directory, or one on a disk in a store.
pub struct Pools {
    dir: PathBuf,
    disk: Option<FarName>,
    /// Removes it in the end.
    _own: Option<tempfile::TempDir>,
}

/// Bytes of each image.
pub const IMAGE: u64 = 128 << 20;
/// The file with the name of the disk in a store.
const DISK: &str = "disk";

impl Pools {
    pub fn new(name: &str) -> Self {
        let own = tempfile::Builder::new().prefix(name).tempdir().unwrap();
        Self { dir: own.path().to_owned(), disk: None, _own: Some(own) }
    }

    /// On a new disk in a store, at a place.
    pub fn in_store(name: &str, place: impl FnOnce(&Path) -> String) -> Self {
        let mut pools = Self::new(name);
        let disk = store::make_disk(&place(pools.dir()), IMAGE);
        std::fs::write(pools.dir().join(DISK), disk.as_str()).unwrap();
        pools.disk = Some(disk);
        pools
    }

    /// In a directory that the caller looks after.
    pub fn at(dir: &Path) -> Self {
        let disk = std::fs::read_to_string(dir.join(DISK)).ok();
        let disk = disk.map(|name| FarName::parse(Path::new(&name)).unwrap().unwrap());
        Self { dir: dir.to_owned(), disk, _own: None }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn image(&self, n: usize) -> PathBuf {
        self.dir().join(format!("vdev{n}.img"))
    }

    pub fn create(&self, name: &str, shape: Shape) -> LivePool {
        self.create_with(name, shape, |_| {})
    }

    pub fn create_with(
        &self,
        name: &str,
        shape: Shape,
        change: impl FnOnce(&mut CreateOptions),
    ) -> LivePool {
        let device = |n| {
            if let Some(disk) = &self.disk {
                let device = AnyDevices::default().claim(Path::new(disk.as_str())).unwrap();
                return (disk.as_str().to_owned(), device);
            }
            let path = self.image(n);
            let options = device::Options::default();
            let device = device::RwFileDevice::create(&path, IMAGE, &options).unwrap();
            (path.to_str().unwrap().to_owned(), Arc::new(device) as _)
        };
        let devices = (0..shape.devices()).map(device).collect();
        shape.create(&rt::Rt::real(), name, devices, true, change)
    }

    fn search(&self) -> OpenOptions {
        let place = match &self.disk {
            Some(disk) => PathBuf::from(disk.as_str()),
            None => self.dir().to_owned(),
        };
        let search = SearchOptions { paths: vec![place], ..Default::default() };
        OpenOptions { search, ..OpenOptions::default() }
    }

    pub fn open(&self, name: &str) -> Pool {
        Pool::open(name, &self.search()).unwrap()
    }

    pub fn import(&self, name: &str) -> LivePool {
        self.try_import(name).unwrap()
    }

    pub fn try_import(&self, name: &str) -> Result<LivePool, engine::inside::pool::Error> {
        self.import_as(name, false)
    }

    /// The same; `goes_back`: to the checkpoint.
    pub fn import_as(
        &self,
        name: &str,
        goes_back: bool,
    ) -> Result<LivePool, engine::inside::pool::Error> {
        let mut open = self.search();
        open.checkpoint = goes_back;
        let found = engine::inside::pool::scan(&open.search).unwrap();
        let candidates = Candidate::group(&found);
        let candidate = candidates.iter().find(|c| c.name() == name).unwrap();
        // The pools of the collection were used by another host, as its hosts were thrown away.
        let options = ImportOptions { force: true, ..ImportOptions::new(open) };
        let source = AnyDevices::default();
        live::import(&rt::Rt::real(), candidate, &options, &source)
    }

    /// Both judges: zdb finds no leak and no error, our check finds nothing.
    pub fn judge(&self, name: &str) {
        self.judge_unlocked(name, &[]);
    }

    /// The same, with keys of datasets, as their users have them. What is locked is said to be.
    pub fn judge_unlocked(&self, name: &str, keys: &[(&str, &[u8])]) {
        let pool = self.open(name);
        for (dataset, key) in keys {
            pool.dsl().load_key(dataset, key).unwrap();
        }
        let report = check(&pool);
        // A pool without one of its devices is still whole.
        let is_expected = |issue: &&engine::inside::check::Issue| match issue {
            engine::inside::check::Issue::DeviceDamaged(damage) => damage.is_expected(),
            engine::inside::check::Issue::DeviceAbsent { .. } => true,
            engine::inside::check::Issue::Locked { .. } => true,
            _ => false,
        };
        let wrong: Vec<_> = report.issues.iter().filter(|i| !is_expected(i)).collect();
        assert!(wrong.is_empty(), "check: {wrong:#?}");
        drop(pool);
        self.zdb(name);
    }

    /// zdb finds no leak and no error.
    pub fn zdb(&self, name: &str) {
        if let Some(disk) = &self.disk {
            let images = tempfile::tempdir().unwrap();
            disk::copy_out(disk, &images.path().join("vdev0.img"), |_| {}).unwrap();
            return testkit::oracle::judge(images.path(), name);
        }
        testkit::oracle::judge(self.dir(), name);
    }
}

pub fn check(pool: &Pool) -> engine::inside::check::Report {
    let options = engine::inside::check::CheckOptions::default();
    engine::inside::check::run(pool, &options, &rt::Progress::new())
}

/// Bytes that a seed decides and that do not compress.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = testkit::Rng::new(seed);
    let mut out = vec![0; len];
    for part in out.chunks_mut(8) {
        part.copy_from_slice(&rng.next_u64().to_le_bytes()[..part.len()]);
    }
    out
}

/// Files of many sizes, in a directory.
pub fn fill(fs: &Filesystem, seed: u64, files: u64) {
    let mut rng = testkit::Rng::new(seed);
    let now = fs_time(seed);
    let new = NewFile::new(NewKind::Dir, 0o755, now);
    let dir = fs.create(fs.root_object(), format!("dir{seed}").as_bytes(), &new).unwrap();
    for n in 0..files {
        let new = NewFile::new(NewKind::File, 0o644, now);
        let file = fs.create(dir.number(), format!("file{n}").as_bytes(), &new).unwrap();
        let mut data = bytes(seed * 1000 + n, rng.below(300_000) as usize);
        if n % 3 == 0 {
            data.fill(b'x');
        }
        fs.write_at(file.number(), 0, &data, now).unwrap();
    }
}

pub fn fs_time(seed: u64) -> engine::inside::ondisk::znode::Time {
    engine::inside::ondisk::znode::Time { seconds: 1_700_000_000 + seed as i64, nanos: 5 }
}

/// Everything in a file system: path to content.
pub fn contents(fs: &Filesystem) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut todo = vec![(String::new(), fs.root().unwrap())];
    while let Some((path, dir)) = todo.pop() {
        for entry in dir.sorted_entries().unwrap() {
            let name = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
            let node = fs.node(entry.object).unwrap();
            if node.kind() == zpl::FileKind::Dir {
                todo.push((name, node));
            } else {
                let mut data = vec![0; node.size as usize];
                node.read_at(0, &mut data).unwrap();
                out.insert(name, data);
            }
        }
    }
    out
}
