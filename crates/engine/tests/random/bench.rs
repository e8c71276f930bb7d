//! The devices of a run: in memory, so that a state of them costs nothing to keep.

use engine::inside::device::{
    Device, DeviceRef, ErrorKind, Fault, MemoryDevice, RwFaultDevice, WriteDeviceRef,
};
use engine::inside::dsl::write::{Encryption, RootKey};
use engine::inside::dsl::{KeyFormat, WrappingKey};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::{check, pool, rt};
use engine::live;
use engine::live::{Devices, ImportOptions, LivePool, LogDevices, TxgLimits, VdevSpec};
use engine::{Candidate, OpenOptions, Pool};
use poolkit::Shape;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What stands in front of a device while the pool is open, by its number.
pub type Wrap = Box<dyn Fn(usize, &Arc<MemoryDevice>) -> WriteDeviceRef>;

/// Devices in memory.
pub struct Bench {
    pub pool: String,
    pub shape: Shape,
    pub ashift: u32,
    /// Leaves are called `disk` in the labels, not `file`.
    pub disks: bool,
    pub devices: Vec<Arc<MemoryDevice>>,
    /// In front of the devices while the pool is open, where a test wants them to fail.
    pub faults: Vec<Arc<RwFaultDevice>>,
    /// The same, of a test's own making, and how they are made anew when devices are.
    wrapped: Vec<WriteDeviceRef>,
    wrap: Option<Wrap>,
    /// Devices that are not there when the pool is opened.
    pub away: Vec<usize>,
    /// What the pool keeps in memory at most.
    pub cache_bytes: usize,
    /// Features that a new pool has not.
    pub lacks: &'static [&'static str],
    /// All datasets are encrypted, with the key of the pool's own.
    is_encrypted: bool,
}

const KEY: &[u8; 32] = b"thirty-two bytes of a raw key ..";

impl Bench {
    pub fn new(shape: Shape, bytes: u64, ashift: u32) -> Self {
        // So that groups fill several rows.
        let bytes = if shape.is_draid() { bytes * 2 } else { bytes };
        let device = |n| Arc::new(MemoryDevice::zeros(&format!("mem{n}"), bytes));
        let pool = String::from("tank");
        let devices = (0..shape.devices()).map(device).collect();
        let (faults, wrapped, wrap, away) = (Vec::new(), Vec::new(), None, Vec::new());
        let cache_bytes = 32 << 20;
        let (disks, is_encrypted, lacks) = (false, false, &[] as _);
        Self {
            pool,
            shape,
            ashift,
            disks,
            devices,
            faults,
            wrapped,
            wrap,
            away,
            cache_bytes,
            lacks,
            is_encrypted,
        }
    }

    /// All datasets are encrypted, or none.
    #[must_use]
    pub fn encrypted(self, is_encrypted: bool) -> Self {
        Self { is_encrypted, ..self }
    }

    fn encryption(&self) -> Encryption {
        let wrapping = || Arc::new(WrappingKey::new(KeyFormat::Raw, (0, 0), KEY).unwrap());
        let root = || RootKey {
            format: KeyFormat::Raw,
            wrapping: wrapping(),
            pbkdf2_salt: 0,
            pbkdf2_iters: 0,
            location: "prompt".to_owned(),
        };
        match self.is_encrypted {
            true => Encryption::On { suite: None, root: Some(root()) },
            false => Encryption::Inherit,
        }
    }

    /// From now on what `wrap` makes stands in front of its devices.
    #[must_use]
    pub fn behind(mut self, wrap: Wrap) -> Self {
        self.wrap = Some(wrap);
        self.wrap_all();
        self
    }

    fn wrap_all(&mut self) {
        let Some(wrap) = &self.wrap else { return };
        self.wrapped = self.devices.iter().enumerate().map(|(n, d)| wrap(n, d)).collect();
    }

    /// Devices that hold data, the first ones.
    pub fn data_leaves(&self) -> usize {
        self.devices.len() - self.shape.log_devices()
    }

    /// From now on its devices can be made to fail.
    #[must_use]
    pub fn breakable(mut self) -> Self {
        let wrap = |d: &Arc<MemoryDevice>| Arc::new(RwFaultDevice::new(Arc::clone(d) as _));
        self.faults = self.devices.iter().map(wrap).collect();
        self
    }

    /// The same over copies of these devices, which can be made to fail.
    #[must_use]
    pub fn again_from(mut self, before: &[Arc<MemoryDevice>]) -> Self {
        self.devices = before.iter().map(|d| Arc::new(d.fork())).collect();
        self.breakable()
    }

    /// The power fails after this many more writes of each device.
    pub fn cut_power_after(&self, writes: u64) {
        for device in &self.faults {
            let off = ErrorKind::PowerLoss;
            device.add(Fault::fail_writes(0..u64::MAX, off).after(writes));
            device.add(Fault::fail_flushes(off).after(writes / 4));
        }
    }

    /// No device fails any more.
    pub fn mend(&self) {
        self.faults.iter().for_each(|device| device.clear());
    }

    /// Devices whose loss the pool survives.
    pub fn redundancy(&self) -> usize {
        self.shape.redundancy()
    }

    /// One more device; its number.
    pub fn extra(&mut self) -> usize {
        let n = self.devices.len();
        let bytes = self.devices[0].size();
        let device = Arc::new(MemoryDevice::zeros(&format!("mem{n}"), bytes));
        self.wrapped.extend(self.wrap.iter().map(|wrap| wrap(n, &device)));
        self.devices.push(device);
        n
    }

    /// How a device is called in a configuration.
    pub fn leaf(&self, n: usize) -> VdevSpec {
        VdevSpec::Leaf { path: format!("mem{n}"), is_file: !self.disks }
    }

    fn path(n: usize) -> PathBuf {
        PathBuf::from(format!("mem{n}"))
    }

    pub fn write_ref(&self, n: usize) -> WriteDeviceRef {
        if let Some(wrapped) = self.wrapped.get(n) {
            return Arc::clone(wrapped);
        }
        match self.faults.get(n) {
            Some(faulty) => Arc::clone(faulty) as _,
            None => Arc::clone(&self.devices[n]) as _,
        }
    }

    pub fn create(&self) -> LivePool {
        let named = |n| (format!("mem{n}"), self.write_ref(n));
        let devices = (0..self.devices.len()).map(named).collect();
        let rt = rt::Rt::current();
        let pool = self.shape.create(&rt, &self.pool, devices, !self.disks, |options| {
            options.ashift = Some(self.ashift);
            options.cache_bytes = self.cache_bytes;
            options.encryption = self.encryption();
            options.features.extend(self.lacks.iter().map(|f| ((*f).to_owned(), false)));
        });
        Self::quiet(&pool);
        pool
    }

    /// Txgs end when a step asks for it, not by time or size: a run is its seed.
    fn quiet(pool: &LivePool) {
        let limits = TxgLimits {
            dirty_max: 1 << 40,
            sync_percent: 100,
            timeout: Duration::from_secs(1 << 20),
        };
        pool.set_limits(limits);
    }

    fn options(&self) -> OpenOptions {
        let (rt, cache_bytes) = (rt::Rt::current(), self.cache_bytes);
        OpenOptions { rt, cache_bytes, ..OpenOptions::default() }
    }

    pub fn candidates(&self) -> Vec<Candidate> {
        let look = |(n, device): (usize, &Arc<MemoryDevice>)| {
            let device: DeviceRef = Arc::clone(device) as _;
            pool::look_at_device(&device, Self::path(n))
        };
        let there = self.devices.iter().enumerate().filter(|(n, _)| !self.away.contains(n));
        let found: Vec<_> = there.filter_map(look).collect();
        Candidate::group(&found)
    }

    fn candidate(&self) -> Candidate {
        self.candidates().into_iter().find(|c| c.name() == self.pool).unwrap()
    }

    pub fn open(&self) -> Pool {
        let pool = Pool::open_candidate(&self.candidate(), &self.options()).unwrap();
        if self.is_encrypted {
            pool.dsl().load_key(&self.pool, KEY).unwrap();
        }
        pool
    }

    pub fn import(&self) -> LivePool {
        self.try_import().unwrap()
    }

    /// The devices by their names.
    pub fn source(&self) -> Devices {
        let name = |n| Self::path(n).to_string_lossy().into_owned();
        (0..self.devices.len()).map(|n| (name(n), self.write_ref(n))).collect()
    }

    /// The same of what cannot be opened, since this process has it open.
    pub fn source_as_it_is(&self) -> Devices {
        Devices::new()
    }

    /// The pool, with nothing of what was read kept in memory.
    pub fn import_without_cache(&self) -> LivePool {
        self.import_with(OpenOptions { cache_bytes: 0, ..self.options() }).unwrap()
    }

    pub fn try_import(&self) -> pool::Result<LivePool> {
        self.import_with(self.options())
    }

    /// The pool, gone back to its checkpoint.
    pub fn rewind(&self) -> pool::Result<LivePool> {
        self.import_with(OpenOptions { checkpoint: true, ..self.options() })
    }

    /// The pool as it was in each txg that its devices tell of, where it can be opened.
    pub fn each_txg(&self) -> Vec<(u64, pool::Result<Pool>)> {
        let candidate = self.candidate();
        let txgs = pool::by_txg(&candidate.uberblocks).into_iter().map(|c| c.uberblock.txg);
        let at = |txg| OpenOptions { txg: Some(txg), ..self.options() };
        txgs.map(|txg| (txg, Pool::open_candidate(&candidate, &at(txg)))).collect()
    }

    /// The pool, gone back to a txg.
    pub fn back_to(&self, txg: u64) -> pool::Result<LivePool> {
        self.import_with(OpenOptions { txg: Some(txg), ..self.options() })
    }

    /// One of several pools of the same name, by its guid.
    pub fn import_of(&self, guid: u64) -> LivePool {
        let all = self.candidates();
        let candidate = all.into_iter().find(|c| c.config.pool_guid == guid).unwrap();
        let options = ImportOptions::new(self.options());
        let pool = live::import(&rt::Rt::current(), &candidate, &options, &self.source()).unwrap();
        Self::quiet(&pool);
        pool
    }

    /// The pool, without the key of its datasets.
    pub fn import_locked(&self) -> LivePool {
        let options = ImportOptions::new(self.options());
        let source = self.source();
        let pool = live::import(&rt::Rt::current(), &self.candidate(), &options, &source).unwrap();
        Self::quiet(&pool);
        pool
    }

    /// The same, under another name, and with this done with log devices that are away.
    pub fn import_as(&self, name: &str, logs: LogDevices) -> LivePool {
        let rename = Some(name.to_owned());
        let options = ImportOptions { rename, logs, ..ImportOptions::new(self.options()) };
        let source = self.source();
        live::import(&rt::Rt::current(), &self.candidate(), &options, &source).unwrap()
    }

    fn import_with(&self, open: OpenOptions) -> pool::Result<LivePool> {
        let candidate = self.candidate();
        let options = ImportOptions::new(open);
        let pool = live::import(&rt::Rt::current(), &candidate, &options, &self.source())?;
        Self::quiet(&pool);
        if self.is_encrypted {
            pool.load_key(&self.pool, KEY)?;
        }
        Ok(pool)
    }

    /// From now on the devices are copies, which holders of the old ones cannot change.
    pub fn fork(&mut self) {
        self.devices = self.devices.iter().map(|d| Arc::new(d.fork())).collect();
        self.wrap_all();
    }

    /// The pool as its devices have it now, in copies of them.
    pub fn copy(&self) -> Self {
        let devices = self.devices.iter().map(|d| Arc::new(d.fork())).collect();
        let copy = Self::new(self.shape, 0, self.ashift).encrypted(self.is_encrypted);
        Self { devices, ..copy }
    }

    pub fn check(&self, pool: &Pool) -> Result<(), String> {
        if let Some(lost) = pool.salvage().first() {
            return Err(format!("{}: {}", lost.what, lost.cause));
        }
        let options = check::CheckOptions { workers: 1, ..check::CheckOptions::default() };
        let report = check::run(pool, &options, &rt::Progress::new());
        match report.issues.as_slice() {
            [] => Ok(()),
            [first, ..] => Err(format!("check: {} issues: {first}", report.issues.len())),
        }
    }

    /// The same devices as they are in files again.
    pub fn load(&mut self, dir: &Path) {
        let load = |n: usize| {
            let name = format!("mem{n}");
            let bytes = std::fs::read(dir.join(format!("vdev{n}.img"))).unwrap();
            Arc::new(MemoryDevice::from_bytes(&name, &bytes))
        };
        self.devices = (0..self.devices.len()).map(load).collect();
    }

    /// Copies the devices into files of a directory.
    pub fn save(&self, dir: &Path) -> Vec<PathBuf> {
        let save = |(n, device): (usize, &Arc<MemoryDevice>)| {
            let path = dir.join(format!("vdev{n}.img"));
            device.save(&path).unwrap();
            path
        };
        self.devices.iter().enumerate().map(save).collect()
    }

    /// What `zdb` says of them.
    pub fn zdb(&self) {
        let dir = tempfile::Builder::new().prefix("random").tempdir().unwrap();
        self.save(dir.path());
        testkit::oracle::judge(dir.path(), &self.pool);
    }
}
