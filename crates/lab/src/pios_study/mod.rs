//! pios: what limits parallel writing to a pool, and what does not any more?
//!
//! The third study wrote 8 GiB with `pios` to a pool of up to twelve units of a disk array, with
//! the engine of 2007, and looked where its threads spent their time. It found checksums made by
//! one thread, made them parallel, and left three things open: throughput did not rise with
//! application threads, hardly with units, and fell again with more threads for checksums.
//!
//! The machine is simulated, with a model of its units that also knows small blocks (`machine.rs`).
//! The engine is zinc's, with settings of 2007: a number
//! of threads that each wait for one device write, level 0 of a sync in the sync thread alone (or
//! in four threads), data that is dirty until its txg is durable: txgs that take in what memory
//! allows and are then synced while nobody writes. The three profiles are judged; to which of their
//! rows the machine was fitted stands in `machine.rs`.
//!
//! Then the same machine runs zinc with its defaults, but for as much dirty data as the engine of
//! 2007 had, and the three open things are judged against the hardware's limit (`survey.rs`) and
//! against each other.
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

use crate::experiment::{Bound, Experiment, LabError, OnDevice, Outcome, Row, Setting};
use crate::pios::{Plan, profile_table};
use crate::target::Target;
use bench::{Measured, Setup};
use engine::live::Tunable;
use engine::zio::profile::{Kind, KindProfile};
use survey::Jobs;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "pios",
    about: "parallel writing over the object layer, by threads, units and stages",
    preset: "ddn-s2a9550-lun",
    on_device: OnDevice::MakesPool,
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
const NEAR: Bound = Bound::Within { part: 0.1 };

/// What scaling must reach of the hardware's limit, and what more threads may lose: noise.
const OF_THE_LIMIT: f64 = 0.85;
const NOISE: f64 = 0.03;

/// Name of the runs that are profiles, with their number in the table.
const PROFILE: &str = "2007, profile";

/// Regions of the study's command: `pios -c 2M -o 128M -n 64 -t 4 -s 128M -L dmuio`.
const REGIONS: u64 = 64;

fn plan() -> Plan {
    Plan { block_size: 1 << 20, fill: false, ..Plan::new(4, REGIONS, 128 << 20, 2 << 20) }
}

/// The engine as it was: what a run of the study is made with.
fn engine_of_2007(zio_threads: u64, leaf_sync_threads: u64) -> Setup {
    Setup {
        tunables: vec![
            (Tunable::ZioTaskqThreads, zio_threads),
            (Tunable::LeafSyncThreads, leaf_sync_threads),
            (Tunable::LeafSyncCrowd, 1),
            (Tunable::InFlightMax, machine::QUEUE_OF_2007),
            (Tunable::DirtyDataMax, machine::DIRTY_MAX),
            (Tunable::DirtyDataSyncPercent, 100),
            (Tunable::DirtyUntilDurable, 1),
            // One that holds nobody back before the limit.
            (Tunable::Throttle, 2),
            // What the threads issue is the only limit.
            (Tunable::AsyncWriteMinActive, 1000),
            (Tunable::AsyncWriteMaxActive, 1000),
            (Tunable::AggregationLimit, 0),
            (Tunable::AggregationLimitNonRotating, 0),
        ],
        ..zinc()
    }
}

/// zinc as it is, on the same machine.
fn zinc() -> Setup {
    Setup {
        luns: 6,
        units: machine::units(),
        processors: machine::processors(),
        tunables: vec![(Tunable::DirtyDataMax, machine::DIRTY_MAX)],
        checksum: true,
        plan: plan(),
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
    if let Target::Sim(Some(preset)) = target
        && preset.name != EXPERIMENT.preset
    {
        let what = "pios runs on the machine of its study only";
        return Err(LabError::new(what, format_args!("{} is another disk", preset.name))
            .hint("--pool and --device run its load on your own disks"));
    }
    let mut out = Outcome {
        experiment: EXPERIMENT.name,
        place: "simulated: 4 Xeons of 3.16 GHz, units of a DDN S2A9550".to_owned(),
        rows: Vec::new(),
        charts: Vec::new(),
        texts: Vec::new(),
        meaning: String::new(),
    };
    let mut jobs = Jobs::default();
    for (n, p) in (0..).zip(&PUBLISHED) {
        jobs.add(PROFILE, n, engine_of_2007(p.zio_threads, p.leaf_sync_threads));
    }
    survey::plan(setting, &mut jobs);
    let done = jobs.run(setting)?;
    for (n, published) in (0..).zip(&PUBLISHED) {
        if let Some(measured) = done.of(PROFILE, n) {
            profile(published, measured, None, &mut out);
        }
    }
    let found = survey::tell(setting, &done, &mut out)?;
    out.meaning = format!(
        "With a thread per write, {} threads were needed to keep six units busy; checksums in \
         the one sync thread cost up to half of the time. zinc writes asynchronously and sums on \
         all processors: leave zio_taskq_threads and zinc_leaf_sync_threads at 0. On this machine \
         it then reaches {:.0} MiB/s (never below {:.0} % of the hardware's limit), {:.1} times \
         the best of the study. Records of 1M instead of 128K gain {:.0} MiB/s here.",
        PUBLISHED[1].zio_threads,
        found.best,
        found.of_limit * 100.0,
        found.best / PUBLISHED[2].mib_per_s,
        found.large_blocks_gain,
    );
    Ok(out)
}

/// One profile of the study: its rows and its table. Of a part of the study's bytes the rows are
/// shown, and the times published are that part.
fn profile(published: &Published, measured: &Measured, part: Option<f64>, out: &mut Outcome) {
    let Published { zio_threads, leaf_sync_threads, .. } = *published;
    let name = match leaf_sync_threads {
        1 => format!("{zio_threads} zio threads"),
        n => format!("{zio_threads} zio threads, {n} leaf-sync threads"),
    };
    let mut row = |what: &str, unit, published, measured, bound| {
        out.rows.push(Row {
            row: format!("{name}: {what}"),
            unit,
            published: Some(match part {
                Some(part) if unit.starts_with('s') => published * part,
                _ => published,
            }),
            measured,
            bound: if part.is_none() { bound } else { Bound::Shown },
        });
    };
    let none = KindProfile::default();
    let of = |kind| measured.profile.of(kind).copied().unwrap_or(none);
    let (sync, leaf, zio) = (of(Kind::SpaSync), of(Kind::LeafSync), of(Kind::ZioIssue));
    row("runtime", "s", published.runtime_s, measured.time.as_secs_f64(), NEAR);
    row("bandwidth", "MiB/s", published.mib_per_s, measured.mib_per_second(), NEAR);
    // The sync thread's own I/O, and its checksums of metadata, are a few percent of the runtime,
    // and of another format's steps.
    let (sum, io) = published.spa_sync;
    let serial = if leaf_sync_threads == 1 { NEAR } else { Bound::Shown };
    row("spa_sync, checksums", "s", sum, sync.per_thread(&sync.checksum), serial);
    row("spa_sync, I/O", "s", io, sync.per_thread(&sync.io), Bound::Shown);
    if let Some((seconds, at_once)) = published.writers {
        row("writers, I/O", "s/thread", seconds, zio.per_thread(&zio.io), NEAR);
        row("writers, I/Os at once", "", at_once, zio.io.at_once(), NEAR);
    }
    if let Some((seconds, at_once)) = published.leaf_sync {
        row("leaf_sync, checksums", "s/thread", seconds, leaf.per_thread(&leaf.checksum), NEAR);
        row("leaf_sync, checksums at once", "", at_once, leaf.checksum.at_once(), NEAR);
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

    /// The table above and the file that has all studies' figures, where that is at hand.
    #[test]
    fn the_published_figures_are_those_of_the_studies() {
        let Some(text) = testkit::figures() else { return };
        let pios = text.split("[pios]").nth(1).and_then(|t| t.split("\n[seek]").next());
        let profiles: Vec<&str> = pios.expect("part").split("[[pios.profile]]").skip(1).collect();
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

    /// Strictly: every judged row, of the profiles in full and of the solved things with few points
    /// and less data.
    #[test]
    fn it_is_within_bounds() {
        let setting = Setting { scale: 0.5, ..Setting::default() };
        let out = run(&Target::Sim(None), &setting).expect("runs");
        assert!(out.within_bounds(), "{}", crate::report::text(&out, 100));
        let judged = out.rows.iter().filter(|r| r.published.is_some() && r.bound != Bound::Shown);
        assert_eq!(judged.count(), 3 * 2 + 2 + 2 * 2 + 2 + 5);
    }
}
