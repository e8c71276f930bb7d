//! The run: one pool, and one test of the study after the other on it. Each starts its writers on
//! an idle pool, and is observed for a while.

use super::report::Report;
use crate::disk::Preset;
use crate::stream::{self, RECORD_BYTES, StreamError, Write, Writer};
use engine::inside::device::SimDisks;
use engine::inside::rt::{Rng as _, Rt, Xoshiro256};
use engine::live::{LivePool, Setting, Tunable, TxgRecord};
use std::time::Duration;

/// Writes of a test begin this many after those of the test before: each has files of its own.
const APART: u64 = 100_000;

/// The machine, as far as it matters here. See the head of [`super`].
#[derive(Clone, Debug)]
pub struct Machine {
    /// Disks.
    pub disks: usize,
    /// Time that a `dd` needs for a write of 1 MiB beside what the pool makes it wait.
    pub own_time: Duration,
    /// `NAME=VALUE` of the pool.
    pub tunables: Vec<String>,
}

/// A test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Tunables that are set at its begin.
    pub settings: Vec<String>,
    /// Writers.
    pub writers: usize,
    /// How long they have been writing when the observation begins.
    pub lead: Duration,
    /// Time of the observation.
    pub observe: Duration,
    /// How much later than the one before each writer begins.
    pub apart: Duration,
    /// Whether writers first free what those of the tests before wrote.
    pub frees: bool,
}

/// What was observed.
#[derive(Clone, Debug)]
pub struct Observed {
    /// When the observation began.
    pub began: Duration,
    /// The report of the test.
    pub report: Report,
    /// Its txgs.
    pub records: Vec<TxgRecord>,
    /// The longest time that a write was held back.
    pub longest: Duration,
    /// MiB in a second from the begin of the test until all that it wrote was durable.
    pub sustained_mb_per_s: f64,
}

/// Those of a list that this engine knows.
#[must_use]
pub fn known(tunables: &[String]) -> Vec<String> {
    let name = |t: &String| t.split('=').next().unwrap_or_default().to_owned();
    tunables.iter().filter(|t| Tunable::named(&name(t)).is_ok()).cloned().collect()
}

/// What `zpool list` says of a pool of these disks that has just been made: its bytes, and those
/// that are used.
///
/// # Errors
/// When it cannot be made.
pub fn listed(
    rt: &Rt,
    preset: &Preset,
    seed: u64,
    machine: &Machine,
) -> Result<(u64, u64), StreamError> {
    let site = SimDisks::new(rt);
    let size = preset.capacity_bytes / 512 * 512;
    let disks = preset.devices(&site, "disk", machine.disks, size, seed);
    let disks = disks.into_iter().map(|d| d as _).collect();
    let pool = stream::pool(rt, disks, 0, RECORD_BYTES, &known(&machine.tunables))?;
    let stats = pool.stats();
    pool.close()?;
    let root = stats.vdevs.first();
    Ok(root.map_or((0, 0), |root| (root.size_bytes, root.allocated_bytes)))
}

/// Runs the tests one after the other on one pool.
///
/// # Errors
/// When the pool cannot be made or written.
pub fn tests(
    rt: &Rt,
    preset: &Preset,
    seed: u64,
    machine: &Machine,
    tests: &[Test],
) -> Result<Vec<Observed>, StreamError> {
    let site = SimDisks::new(rt);
    let size = preset.capacity_bytes / 512 * 512;
    let disks = preset.devices(&site, "disk", machine.disks, size, seed);
    let disks = disks.into_iter().map(|d| d as _).collect();
    let most = tests.iter().map(|t| t.writers).max().unwrap_or(0);
    let pool = stream::pool(rt, disks, most, RECORD_BYTES, &known(&machine.tunables))?;
    let volumes: Vec<String> = (0..most).map(|n| format!("h/w{n}")).collect();
    let out = on_pool(&pool, &volumes, machine.own_time, tests, seed)?;
    pool.close()?;
    Ok(out)
}

/// Runs the tests one after the other on a pool that has these volumes, one for each writer. The
/// writers of a test do not begin at the same moment: each by chance within the time of a write.
///
/// # Errors
/// When it cannot be written.
pub fn on_pool(
    pool: &LivePool,
    volumes: &[String],
    own_time: Duration,
    tests: &[Test],
    seed: u64,
) -> Result<Vec<Observed>, StreamError> {
    let mut out = Vec::new();
    let mut rng = Xoshiro256::seeded(seed);
    for (n, test) in (0..).zip(tests) {
        pool.sync()?;
        for text in &test.settings {
            pool.set_tunable(Setting::parse(text)?);
        }
        let started = pool.rt().now();
        let began = started + test.lead;
        let ended = began + test.observe;
        let writer = |(volume, writer): (&String, u32)| {
            let late = rng.below(u64::try_from(own_time.as_nanos()).unwrap_or(u64::MAX).max(1));
            let late = Duration::from_nanos(late) + test.apart * writer;
            let frees = if test.frees { n * APART * stream::WRITE_BYTES } else { 0 };
            Writer { volume: volume.clone(), first: n * APART, own_time, late, frees }
        };
        let writers = volumes.iter().take(test.writers).zip(0..);
        let writers: Vec<Writer> = writers.map(writer).collect();
        let writes = stream::start(pool, &writers, ended)?.finish()?;
        // What is under way is not observed, but it has to end.
        pool.sync()?;
        let seconds = (pool.rt().now() - started).as_secs_f64();
        let mb = (writes.len() as u64 * stream::WRITE_BYTES) as f64 / 1_048_576.0;
        let observed = observed(pool.name(), (began, ended), &pool.txgs(), &writes);
        out.push(Observed { sustained_mb_per_s: mb / seconds.max(1e-9), ..observed });
    }
    Ok(out)
}

fn observed(
    pool: &str,
    (began, ended): (Duration, Duration),
    records: &[TxgRecord],
    writes: &[Write],
) -> Observed {
    let within = |at: Duration| began < at && at <= ended;
    // The study counts delays when they happen: at the begin of a txg, while the one before waits.
    let opened = records.iter().filter(|r| began <= r.opened && r.opened < ended);
    let delays: u64 = opened.map(|r| r.delays).sum();
    let delays_per_s = delays as f64 / (ended - began).as_secs_f64();
    let records: Vec<_> = records.iter().filter(|r| within(r.ended())).cloned().collect();
    let writes = writes.iter().filter(|w| within(w.ended));
    Observed {
        began,
        report: Report { delays_per_s, ..Report::new(pool, &records, ended - began) },
        records,
        longest: writes.map(|w| w.held).max().unwrap_or_default(),
        sustained_mb_per_s: 0.0,
    }
}
