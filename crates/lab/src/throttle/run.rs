//! The run: one pool, writers that do not stop, and knobs that are turned meanwhile, as in the
//! study.

use super::report::Report;
use crate::disk::Preset;
use crate::stream::{self, StreamError, Write, Writer};
use engine::device::SimDisks;
use engine::live::{Setting, Tunable, TxgRecord};
use engine::rt::Rt;
use std::time::Duration;

/// The machine, as far as it matters here. See the head of [`super`].
#[derive(Clone, Debug)]
pub struct Machine {
    /// Disks.
    pub disks: usize,
    /// Time that a `dd` needs for a write of 1 MiB beside what the pool makes it wait.
    pub own_time: Duration,
    /// The same for the writer of the third report.
    pub paced_time: Duration,
    /// Writers of the first two reports.
    pub writers: usize,
    /// `NAME=VALUE` of the pool.
    pub tunables: Vec<String>,
}

/// What is observed in a phase.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Tunables that are set at its begin.
    pub settings: Vec<String>,
    /// Time before the observation.
    pub settle: Duration,
    /// Time of the observation.
    pub observe: Duration,
    /// One writer at his own pace instead of those before.
    pub paced: bool,
}

/// What was observed.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The report of the phase.
    pub report: Report,
    /// Its txgs.
    pub records: Vec<TxgRecord>,
    /// The longest time that a write was held back.
    pub longest: Duration,
    /// MiB written by the writers in a second.
    pub mb_per_s: f64,
}

/// Those of a list that this engine knows.
#[must_use]
pub fn known(tunables: &[String]) -> Vec<String> {
    let name = |t: &String| t.split('=').next().unwrap_or_default().to_owned();
    tunables.iter().filter(|t| Tunable::named(&name(t)).is_ok()).cloned().collect()
}

/// Runs the phases one after the other on one pool.
///
/// # Errors
/// When the pool cannot be made or written.
pub fn phases(
    rt: &Rt,
    preset: &Preset,
    seed: u64,
    machine: &Machine,
    phases: &[Phase],
) -> Result<Vec<Observed>, StreamError> {
    let site = SimDisks::new(rt);
    let size = preset.capacity_bytes / 512 * 512;
    let disks = preset.devices(&site, "disk", machine.disks, size, seed);
    let disks = disks.into_iter().map(|d| d as _).collect();
    let pool = stream::pool(rt, disks, machine.writers + 1, &known(&machine.tunables))?;
    pool.sync()?;
    let fast = |volume| Writer { volume, own_time: machine.own_time };
    let fast: Vec<Writer> = (0..machine.writers).map(fast).collect();
    let paced = [Writer { volume: machine.writers, own_time: machine.paced_time }];
    let mut out = Vec::new();
    let mut rest = phases;
    while let Some(first) = rest.first() {
        // Phases with the same writers follow each other without a pause.
        let same = rest.iter().take_while(|p| p.paced == first.paced).count();
        let (now, later) = rest.split_at(same);
        rest = later;
        let length: Duration = now.iter().map(|p| p.settle + p.observe).sum();
        let writers = if first.paced { &paced[..] } else { &fast[..] };
        let running = stream::start(&pool, writers, rt.now() + length)?;
        let mut windows = Vec::new();
        for phase in now {
            for text in &phase.settings {
                pool.set_tunable(Setting::parse(text)?);
            }
            rt.sleep(phase.settle);
            let began = rt.now();
            rt.sleep(phase.observe);
            windows.push((began, rt.now()));
        }
        let writes = running.finish()?;
        pool.sync()?;
        let records = pool.txgs();
        out.extend(windows.into_iter().map(|window| observed(window, &records, &writes)));
    }
    pool.close()?;
    Ok(out)
}

fn observed(
    (began, ended): (Duration, Duration),
    records: &[TxgRecord],
    writes: &[Write],
) -> Observed {
    let within = |at: Duration| began < at && at <= ended;
    let records: Vec<_> = records.iter().filter(|r| within(r.ended())).cloned().collect();
    let writes: Vec<_> = writes.iter().filter(|w| within(w.ended)).collect();
    let seconds = (ended - began).as_secs_f64();
    Observed {
        report: Report::new("h", &records, ended - began),
        records,
        longest: writes.iter().map(|w| w.held).max().unwrap_or_default(),
        mb_per_s: (writes.len() as u64 * stream::WRITE_BYTES) as f64 / 1_048_576.0 / seconds,
    }
}
