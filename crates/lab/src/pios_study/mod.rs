//! pios: what limits parallel writing to a pool, and what does not any more?
//!
//! The third study wrote 8 GiB with `pios` to a pool of up to twelve units of a disk array, with
//! the engine of 2007, and looked where its threads spent their time. It found checksums made by
//! one thread, made them parallel, and left three things open: throughput did not rise with
//! application threads, hardly with units, and fell again with more threads for checksums.
//!
//! The machine is simulated: its units by the preset, its processors by `machine.rs`. The engine is
//! zinc's, with settings of 2007: a number of threads that each wait for one device write, level 0
//! of a sync in the sync thread alone (or in four threads), data that is dirty until its txg is
//! durable: txgs that take in what memory allows and are then synced while no thread writes. The
//! machine was fitted to the three profiles, so their rows show that one model fits them all; what
//! the study's text says of other settings is predicted (`survey.rs`).
//!
//! Then the same machine runs zinc with its defaults, but for as much dirty data as the engine of
//! 2007 had, and the three open things are goals: parts of the hardware's limit, and of each other.
//!
//! In a pool (`in_pool.rs`) the profiles' load runs on whatever disks and processors there are.
//!
//! `scale` is the part of the 8 GiB that zinc's surveys write, with fewer points when it is not all
//! of it; the profiles always write all, as only then their times compare. Surveys with settings of
//! 2007 are only shown, and write 3 GiB.

pub mod bench;
mod in_pool;
pub mod machine;
mod survey;

use crate::disk::Preset;
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::Outcome;
use crate::parameter::{Origin, Parameter};
use crate::pios::{Plan, profile_table};
use crate::row::{Bound, Row};
use crate::target::Target;
use bench::{Measured, Setup};
use engine::inside::zio::profile::{KindProfile, ThreadKind};
use engine::live::Tunable;
use std::time::Duration;
use survey::Jobs;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "pios",
    about: "parallel writing over the object layer, by threads, units and stages",
    preset: "ddn-s2a9550-lun",
    memory_mib: 512,
    seconds: 16,
    on_device: OnDevice::MakesPool,
    numbers: &machine::NUMBERS,
    run,
};

/// A profile of the study.
struct Published {
    zio_threads: u64,
    leaf_sync_threads: u64,
    runtime_s: f64,
    mib_per_s: f64,
    /// Checksum seconds and I/O seconds of the sync thread.
    spa_sync: (f64, f64),
    /// I/O seconds per writer, and I/Os at once.
    writers: Option<(f64, f64)>,
    /// Checksum seconds per thread, and checksums at once.
    leaf_sync: Option<(f64, f64)>,
}

const PUBLISHED: [Published; 3] = [
    Published {
        zio_threads: 8,
        leaf_sync_threads: 1,
        runtime_s: 24.57,
        mib_per_s: 333.0,
        spa_sync: (11.81, 0.61),
        writers: Some((19.10, 7.54)),
        leaf_sync: None,
    },
    Published {
        zio_threads: 16,
        leaf_sync_threads: 1,
        runtime_s: 21.79,
        mib_per_s: 375.0,
        spa_sync: (11.75, 0.64),
        writers: Some((11.51, 11.35)),
        leaf_sync: None,
    },
    Published {
        zio_threads: 16,
        leaf_sync_threads: 4,
        runtime_s: 19.64,
        mib_per_s: 417.0,
        spa_sync: (0.08, 0.44),
        writers: None,
        leaf_sync: Some((4.48, 2.40)),
    },
];

/// How near a judged figure has to be.
const NEAR: Bound = Bound::Within(0.1);

/// What scaling must reach of the hardware's limit, and what more threads may lose: noise.
const OF_THE_LIMIT: f64 = 0.85;
const NOISE: f64 = 0.03;

/// Name of the runs that are profiles, with their number in the table.
const PROFILE: &str = "2007, profile";

/// Regions of the study's command: `pios -c 2M -o 128M -n 64 -t 4 -s 128M -L dmuio`.
const REGIONS: u64 = 64;

/// What the threads of a simulated run wait between two I/Os at most, by chance: no two runs of a
/// program are the same to the microsecond.
const JITTER: Duration = Duration::from_micros(100);

fn plan() -> Plan {
    Plan { block_size: 1 << 20, fill: false, ..Plan::new(4, REGIONS, 128 << 20, 2 << 20) }
}

/// The settings of the engine as it was.
fn tunables_of_2007(
    setting: &Setting,
    zio_threads: u64,
    leaf_sync_threads: u64,
) -> Vec<(Tunable, u64)> {
    vec![
        (Tunable::ZioTaskqThreads, zio_threads),
        (Tunable::LeafSyncThreads, leaf_sync_threads),
        (Tunable::LeafSyncCrowd, 1),
        (Tunable::InFlightMax, machine::queue_of_2007(setting)),
        (Tunable::DirtyDataMax, machine::dirty_max(setting)),
        (Tunable::DirtyDataSyncPercent, 100),
        (Tunable::DirtyUntilDurable, 1),
        // One that holds no writer back before the limit.
        (Tunable::Throttle, 2),
        // What the threads issue is the only limit.
        (Tunable::AsyncWriteMinActive, 1000),
        (Tunable::AsyncWriteMaxActive, 1000),
        (Tunable::AggregationLimit, 0),
        (Tunable::AggregationLimitNonRotating, 0),
    ]
}

/// The machine of the study, with units of this kind.
struct Machine<'a> {
    lun: &'a Preset,
    setting: &'a Setting,
}

impl Machine<'_> {
    /// zinc as it is, on it.
    fn zinc(&self) -> Setup {
        Setup {
            luns: 6,
            lun: self.lun.clone(),
            seed: self.setting.seed,
            processors: machine::processors(self.setting),
            tunables: vec![(Tunable::DirtyDataMax, machine::dirty_max(self.setting))],
            checksum: true,
            plan: Plan { seed: self.setting.seed, thread_delay: JITTER, ..plan() },
        }
    }

    /// The engine as it was: what a run of the study is made with.
    fn engine_of_2007(&self, zio_threads: u64, leaf_sync_threads: u64) -> Setup {
        let tunables = tunables_of_2007(self.setting, zio_threads, leaf_sync_threads);
        Setup { tunables, ..self.zinc() }
    }
}

fn measure(setup: &Setup) -> Result<Measured, LabError> {
    bench::run(setup).map_err(|e| LabError::new("a simulated run of pios failed", e))
}

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    if !matches!(target, Target::Sim(_)) {
        return in_pool::run(target, setting);
    }
    let none = || LabError::new("no simulated disk", EXPERIMENT.preset);
    let lun = target.preset(&EXPERIMENT).ok_or_else(none)?;
    let machine = Machine { lun: &lun, setting };
    let place = format!("simulated: 4 Xeons of 3.16 GHz, {}", lun.description);
    let mut out = Outcome {
        parameters: parameters(&lun, setting),
        meaning: survey::meaning,
        ..Outcome::new(EXPERIMENT.name, place)
    };
    let mut jobs = Jobs::default();
    for (n, p) in (0..).zip(&PUBLISHED) {
        jobs.add(PROFILE, n, machine.engine_of_2007(p.zio_threads, p.leaf_sync_threads));
    }
    survey::plan(setting, &machine, &mut jobs);
    let done = jobs.run(setting)?;
    let mut bandwidths = Vec::new();
    for (n, published) in (0..).zip(&PUBLISHED) {
        if let Some(measured) = done.of(PROFILE, n) {
            profile(published, measured, 1.0, &mut out);
            bandwidths.push(measured.mib_per_second());
        }
    }
    out.rows.extend(more_with_16(&bandwidths));
    survey::tell(setting, &machine, &done, &mut out)?;
    Ok(if target.is_the_study_s(&EXPERIMENT) { out } else { out.elsewhere() })
}

/// What twice as many zio threads gain.
fn more_with_16(bandwidths: &[f64]) -> Option<Row> {
    let [eight, sixteen, ..] = bandwidths else { return None };
    let name = "16 zio threads: more than with 8";
    Some(Row::derived(name, "MiB/s", MORE_WITH_16, NEAR, sixteen - eight))
}

/// Every row that has a published value, of nothing that was measured.
#[cfg(test)]
pub(crate) fn sample() -> Vec<Row> {
    let nothing = Measured {
        time: Duration::from_secs(1),
        bytes: 1 << 30,
        profile: engine::inside::zio::profile::Profile { kinds: Vec::new() },
        txgs: 1,
    };
    let mut out = Outcome::new(EXPERIMENT.name, String::new());
    PUBLISHED.iter().for_each(|published| profile(published, &nothing, 1.0, &mut out));
    out.rows.extend(more_with_16(&[1.0, 1.0]));
    [out.rows, survey::sample(&nothing)].concat()
}

/// The speed-up of 16 zio threads, as the text has it.
const MORE_WITH_16: f64 = 40.0;
/// The part of the runtime that the sync thread makes checksums, with 8 zio threads, in percent.
const CHECKSUMS_PERCENT: f64 = 48.0;

/// What the model was given.
fn parameters(lun: &Preset, setting: &Setting) -> Vec<Parameter> {
    let mut all = lun.parameters();
    all.extend(machine::parameters(setting));
    let plan = plan();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    all.extend([
        Parameter::new("threads of the application", plan.threads as f64, "", Origin::Study),
        Parameter::new("regions", plan.regions as f64, "", Origin::Study),
        Parameter::new("bytes of a region", mib(plan.region_size), "MiB", Origin::Study),
        Parameter::new("chunk", mib(plan.chunk_size), "MiB", Origin::Study),
        Parameter::new(
            "wait of a thread between I/Os, at most",
            JITTER.as_secs_f64() * 1e6,
            "us",
            Origin::Assumed,
        ),
        setting.part("part of the surveys' bytes", setting.scale, ""),
    ]);
    all
}

/// One profile of the study: its rows and its table. Of a part of the study's bytes, the times
/// published are that part.
fn profile(published: &Published, measured: &Measured, part: f64, out: &mut Outcome) {
    let Published { zio_threads, leaf_sync_threads, .. } = *published;
    let name = match leaf_sync_threads {
        1 => format!("{zio_threads} zio threads"),
        n => format!("{zio_threads} zio threads, {n} leaf-sync threads"),
    };
    let row = |what: &str| format!("{name}: {what}");
    let none = KindProfile::default();
    let of = |kind| measured.profile.of(kind).copied().unwrap_or(none);
    let (sync, leaf, zio) =
        (of(ThreadKind::SpaSync), of(ThreadKind::LeafSync), of(ThreadKind::ZioIssue));
    let (seconds, runtime) = (measured.time.as_secs_f64(), published.runtime_s * part);
    let rows = &mut out.rows;
    rows.push(Row::fitted(row("runtime"), "s", runtime, NEAR, seconds));
    let rate = measured.mib_per_second();
    rows.push(Row::derived(row("bandwidth"), "MiB/s", published.mib_per_s, NEAR, rate));
    let (sum, io) = published.spa_sync;
    let summed = sync.per_thread(&sync.checksum);
    rows.push(match leaf_sync_threads {
        1 => Row::fitted(row("spa_sync, checksums"), "s", sum * part, NEAR, summed),
        // What is left are metadata, of another format's steps.
        _ => Row::predicted(row("spa_sync, checksums"), "s", sum * part, NEAR, summed),
    });
    if zio_threads == 8 {
        let percent = 100.0 * summed / seconds.max(1e-9);
        let name = row("spa_sync, checksums, of the runtime");
        rows.push(Row::derived(name, "%", CHECKSUMS_PERCENT, NEAR, percent));
    }
    let waited = sync.per_thread(&sync.io);
    rows.push(Row::predicted(row("spa_sync, I/O"), "s", io * part, NEAR, waited));
    if let Some((each, at_once)) = published.writers {
        let (io, found) = (zio.per_thread(&zio.io), zio.io.at_once());
        rows.push(Row::fitted(row("writers, I/O"), "s/thread", each * part, NEAR, io));
        rows.push(Row::fitted(row("writers, I/Os at once"), "", at_once, NEAR, found));
    }
    if let Some((each, at_once)) = published.leaf_sync {
        let (sums, found) = (leaf.per_thread(&leaf.checksum), leaf.checksum.at_once());
        rows.push(Row::fitted(row("leaf_sync, checksums"), "s/thread", each * part, NEAR, sums));
        rows.push(Row::fitted(row("leaf_sync, checksums at once"), "", at_once, NEAR, found));
    }
    let (headings, rows) = profile_table(&measured.profile);
    out.texts.push((format!("Profile: {name}"), columns(&headings, &rows)));
}

/// A table as text, its columns flush right but for the first.
fn columns(headings: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |row: &[String], n: usize| row.get(n).map_or(0, |c| c.chars().count());
    let width = |n: usize, h: &str| rows.iter().map(|r| cell(r, n)).max().unwrap_or(0).max(h.len());
    let widths: Vec<usize> = headings.iter().enumerate().map(|(n, h)| width(n, h)).collect();
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(n, (c, w))| match n {
            0 => format!("{c:<w$}"),
            _ => format!("{c:>w$}"),
        });
        cells.collect::<Vec<_>>().join("  ") + "\n"
    };
    let mut text = line(headings.to_vec());
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_published_one() {
        let pios = crate::DOCUMENTS.split("\n[seek]").next().expect("what is before it");
        let profiles: Vec<&str> = pios.split("[[pios.profile]]").skip(1).collect();
        assert_eq!(profiles.len(), PUBLISHED.len());
        for (text, p) in profiles.iter().zip(&PUBLISHED) {
            let has = |what: String| assert!(text.contains(&what), "{what} is not in {text}");
            has(format!("zio_threads = {}\n", p.zio_threads));
            has(format!("runtime_s = {}\n", p.runtime_s));
            has(format!("mb_per_s = {}\n", p.mib_per_s));
            has(format!("[\"spa_sync\",1,{:.2},{:.2},", p.spa_sync.0, p.spa_sync.1));
            if let Some((io, at_once)) = p.writers {
                has(format!("{},0.0,{io:.2},{at_once:.2}]", p.zio_threads));
            }
            if let Some((sum, at_once)) = p.leaf_sync {
                has(format!("{},{sum:.2},0.0,{at_once:.2}]", p.leaf_sync_threads));
            }
        }
    }

    /// What the machine was fitted to comes out, and so do our goals: of the profiles in full, of
    /// the solved things with few points and less data.
    #[test]
    fn it_is_within_bounds() {
        let setting = Setting { scale: 0.5, ..Setting::default() };
        let out = run(&Target::Sim(None), &setting).expect("runs");
        let text = crate::report::text(&out, 100);
        let of = |kind| out.rows.iter().filter(move |row| row.kind() == kind);
        assert_eq!(of(crate::row::Kind::Fitted).count(), 3 + 2 + 2 * 2 + 2);
        assert!(!of(crate::row::Kind::Fitted).any(Row::misses), "{text}");
        assert!(!of(crate::row::Kind::Own).any(Row::misses), "{text}");
        assert!(out.fitted_parameters() >= 10, "{text}");
    }

    /// The seed and the kind of the units are honoured.
    #[test]
    fn the_seed_and_the_units_decide() {
        let lun = crate::disk::preset(EXPERIMENT.preset).expect("a preset");
        let time = |lun: &Preset, seed| {
            let setting = &Setting { seed, ..Setting::default() };
            let setup = Machine { lun, setting }.zinc().with_plan(|p| p.regions = 2);
            measure(&setup).expect("runs").time
        };
        let mut slow = lun.clone();
        if let crate::disk::Spec::Lun(spec) = &mut slow.disk {
            spec.lun_bytes_per_second /= 8.0;
        }
        assert_eq!(time(&lun, 1), time(&lun, 1));
        assert_ne!(time(&lun, 1), time(&lun, 2));
        assert!(time(&slow, 1) > time(&lun, 1) * 2);
    }
}
