//! One run of pios on the simulated machine.

use crate::disk::Preset;
use crate::pios::{self, PiosError, Plan, PoolFiles, PoolMethod};
use crate::striped::striped;
use engine::LivePool;
use engine::inside::device::SimDisks;
use engine::inside::dsl::DatasetKind;
use engine::inside::dsl::write::{PropertyChange, parse_value};
use engine::inside::pool::live;
use engine::inside::pool::live::{CreateOptions, NewFilesystem, Setting, Tunable};
use engine::inside::rt::Rt;
use engine::inside::zio::cpu::Processors;
use engine::inside::zio::profile::Profile;
use std::time::Duration;

/// Bytes of a simulated unit; sparse.
const UNIT_BYTES: u64 = 64 << 30;

/// What a run is made with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Logical units.
    pub luns: usize,
    /// Their kind.
    pub lun: Preset,
    /// Decides what chance decides.
    pub seed: u64,
    /// The processors.
    pub processors: Processors,
    /// Tunables that are set.
    pub tunables: Vec<(Tunable, u64)>,
    /// Whether data are summed.
    pub checksum: bool,
    /// The load.
    pub plan: Plan,
}

/// What it gave.
#[derive(Clone, Debug)]
pub struct Measured {
    /// From the first write until all is durable.
    pub time: Duration,
    /// Bytes written.
    pub bytes: u64,
    /// What the threads did.
    pub profile: Profile,
    /// Txgs that were synced.
    pub txgs: u64,
}

impl Measured {
    /// MiB (2^20 bytes) in a second.
    #[must_use]
    pub fn mib_per_second(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.time.as_secs_f64()
    }
}

/// Runs it in a simulation of its own.
///
/// # Errors
/// What failed, in words.
pub fn run(setup: &Setup) -> Result<Measured, String> {
    Rt::simulate(setup.seed, |rt| run_in(rt, setup)).map_err(|e| e.to_string())
}

fn run_in(rt: &Rt, setup: &Setup) -> Result<Measured, Box<dyn std::error::Error>> {
    let pool = create(rt, setup)?;
    let target = PoolFiles::create(&pool, "tank/pios", &setup.plan, PoolMethod::Dmu)?;
    for (tunable, value) in &setup.tunables {
        pool.set_tunable(Setting::new(*tunable, *value)?);
    }
    rt.set_cpu(Some(setup.processors.model()));
    let out = load(&pool, &target, &setup.plan)?;
    rt.set_cpu(None);
    drop(target);
    pool.close()?;
    Ok(out)
}

/// Runs the load on files of a pool that is open.
pub(super) fn load(
    pool: &LivePool,
    target: &PoolFiles<'_>,
    plan: &Plan,
) -> Result<Measured, PiosError> {
    let before = pool.profiler().begin();
    let first = pool.last_synced();
    let written = pios::write(pool.rt(), plan, target)?;
    Ok(Measured {
        time: written.time,
        bytes: written.bytes,
        profile: pool.profiler().snapshot().since(&before),
        txgs: pool.last_synced() - first,
    })
}

fn create(rt: &Rt, setup: &Setup) -> Result<LivePool, Box<dyn std::error::Error>> {
    let disks = SimDisks::new(rt);
    let size = UNIT_BYTES.min(setup.lun.capacity_bytes / 512 * 512);
    let units = setup.lun.devices(&disks, "lun", setup.luns, size, setup.seed);
    let units = units.into_iter().enumerate();
    let (devices, tops) = striped(units.map(|(n, unit)| (format!("lun{n}"), unit as _)));
    let options = CreateOptions { read_ahead_bytes: 0, ..CreateOptions::new("tank", tops) };
    let pool = live::create(rt, &options, &devices)?;
    let record = setup.plan.block_size.to_string();
    let checksum = if setup.checksum { "on" } else { "off" };
    let mut properties = Vec::new();
    for (name, text) in [("compression", "off"), ("recordsize", &record), ("checksum", checksum)] {
        let value = parse_value(name, text, DatasetKind::Filesystem, true)?;
        properties.push(PropertyChange { name: name.to_owned(), value: Some(value) });
    }
    pool.create_filesystem("tank/pios", NewFilesystem::default(), properties)?;
    Ok(pool)
}

/// What this many bare units take when as many bytes are in flight to them as zinc keeps, block by
/// block in turn: the hardware's limit.
///
/// # Errors
/// A unit failed.
pub fn bare(setup: &Setup, luns: usize, blocks: u64, depth: u64) -> Result<f64, String> {
    let block = setup.plan.block_size;
    Rt::simulate(setup.seed, |rt| {
        let disks = SimDisks::new(rt);
        let size = UNIT_BYTES.min(setup.lun.capacity_bytes / 512 * 512);
        let devices = setup.lun.devices(&disks, "lun", luns, size, setup.seed);
        let data = engine::inside::device::Shared::from(
            engine::inside::device::AlignedBuf::zeroed(block as usize),
        );
        let began = rt.now();
        let write = |n: u64| {
            let device = devices.get(n as usize % luns).ok_or("no unit")?;
            let at = n / luns as u64 * block;
            let results =
                engine::inside::device::write_batch(&**device, vec![(at, vec![data.clone()])]);
            results.into_iter().try_for_each(|r| r.map_err(|e| e.to_string()))
        };
        rt.for_each_parallel(depth.clamp(1, 1024) as usize, 0..blocks, write)?;
        Ok((blocks * block) as f64 / f64::from(1 << 20) / (rt.now() - began).as_secs_f64())
    })
}

impl Setup {
    /// With another load.
    #[must_use]
    pub fn with_plan(&self, change: impl FnOnce(&mut Plan)) -> Self {
        let mut out = self.clone();
        change(&mut out.plan);
        out
    }

    /// With a tunable set.
    #[must_use]
    pub fn tuned(&self, tunable: Tunable, value: u64) -> Self {
        let mut out = self.clone();
        out.tunables.retain(|(t, _)| *t != tunable);
        out.tunables.push((tunable, value));
        out
    }
}
