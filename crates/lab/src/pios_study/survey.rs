//! The surveys of the study, with the engine of 2007 and with zinc, and the three things it left
//! open.
//!
//! What the units can do is measured without an engine, with as many I/Os under way as zinc keeps;
//! what the processors can do follows from their model. The hardware's limit is the lower of both.
//!
//! Every point is a simulation of its own, so they are run at the same time, as many as the host
//! has processors, and do not know of each other.

use super::bench::{Measured, Setup};
use super::{NOISE, OF_THE_LIMIT, REGIONS, bench, engine_of_2007, machine, measure, zinc};
use crate::experiment::{Bound, Chart, LabError, Outcome, Row, Series, Setting};
use engine::live::Tunable;
use engine::rt::for_each_parallel;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// zinc's bytes in flight, as I/Os of 1 MiB to the bare units.
const DEPTH: u64 = 64;

/// Regions in the surveys with settings of 2007, which are not judged: two txgs of the most they
/// hold.
const SHORT: u64 = 24;

const MIB: f64 = (1u64 << 20) as f64;

/// What the surveys say.
pub(super) struct Found {
    /// The best throughput with zinc, in MiB/s.
    pub(super) best: f64,
    /// The least part of the hardware's limit that it reaches with any number of units.
    pub(super) of_limit: f64,
    /// What large blocks gain, in MiB/s.
    pub(super) large_blocks_gain: f64,
}

type Points = Vec<(f64, f64)>;

/// What is to be run: names, and what is run under them.
#[derive(Default)]
pub(super) struct Jobs(Vec<(&'static str, u64, Setup)>);

/// What came out, by name and number.
pub(super) struct Done(BTreeMap<(&'static str, u64), Measured>);

impl Jobs {
    /// One run.
    pub(super) fn add(&mut self, name: &'static str, x: u64, setup: Setup) {
        self.0.push((name, x, setup));
    }

    /// A run for each number.
    fn survey(&mut self, name: &'static str, xs: &[u64], setup: impl Fn(u64) -> Setup) {
        xs.iter().for_each(|x| self.add(name, *x, setup(*x)));
    }

    /// Runs all.
    pub(super) fn run(self, setting: &Setting) -> Result<Done, LabError> {
        let done = Mutex::new(BTreeMap::new());
        for_each_parallel(0, self.0, |(name, x, setup)| {
            (setting.progress)(&format!("{name}: {x}"));
            let measured = measure(&setup)?;
            done.lock().unwrap_or_else(PoisonError::into_inner).insert((name, x), measured);
            Ok::<(), LabError>(())
        })?;
        Ok(Done(done.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Done {
    /// One run.
    pub(super) fn of(&self, name: &'static str, x: u64) -> Option<&Measured> {
        self.0.get(&(name, x))
    }

    /// Throughput by number.
    fn points(&self, name: &'static str) -> Points {
        let all = self.0.range((name, 0)..=(name, u64::MAX));
        all.map(|((_, x), m)| (*x as f64, m.mib_per_second())).collect()
    }
}

fn series(name: &str, points: &Points) -> Series {
    Series { name: name.to_owned(), points: points.clone() }
}

fn chart(title: &str, x: &str, series: Vec<Series>) -> Chart {
    let y = "MiB/s".to_owned();
    Chart { title: title.to_owned(), x: x.to_owned(), y, x_log: true, bars: false, series }
}

/// The least of y over the most of the ys at smaller x: 1 when nothing ever falls.
fn least_kept(points: &Points) -> f64 {
    let mut most = 0.0f64;
    let mut kept = 1.0f64;
    for (_, y) in points {
        most = most.max(*y);
        kept = kept.min(y / most);
    }
    kept
}

fn last(points: &Points) -> f64 {
    points.last().map_or(0.0, |p| p.1)
}

/// Which points there are: few where little is to be run, as in a test.
struct Axes {
    threads: &'static [u64],
    luns: &'static [u64],
    leaves: &'static [u64],
    blocks: &'static [u64],
}

const ALL: Axes = Axes {
    threads: &[1, 2, 4, 8, 16, 32, 64],
    luns: &[1, 2, 4, 6, 8, 12],
    leaves: &[1, 2, 4, 8, 16, 32],
    blocks: &[128 << 10, 256 << 10, 512 << 10, 1 << 20],
};

const FEW: Axes =
    Axes { threads: &[1, 4, 64], luns: &[1, 6, 12], leaves: &[1, 4, 32], blocks: &[1 << 20] };

fn axes(setting: &Setting) -> (&'static Axes, u64) {
    let regions = ((REGIONS as f64 * setting.scale) as u64).clamp(8, REGIONS);
    (if regions < REGIONS { &FEW } else { &ALL }, regions)
}

/// Adds all runs of the surveys.
pub(super) fn plan(setting: &Setting, jobs: &mut Jobs) {
    let (axes, regions) = axes(setting);
    let zinc = || zinc().with_plan(|p| p.regions = regions);
    let old = |zio, leaf| engine_of_2007(zio, leaf).with_plan(|p| p.regions = SHORT);
    let threads = |setup: Setup, n: u64| setup.with_plan(|p| p.threads = n as usize);
    let block = |setup: Setup, n: u64| setup.with_plan(|p| p.block_size = n);
    jobs.survey("zinc, threads", axes.threads, |n| threads(zinc(), n));
    jobs.survey("zinc, units", axes.luns, |n| Setup { luns: n as usize, ..zinc() });
    let leaf = |n| zinc().tuned(Tunable::LeafSyncThreads, n);
    jobs.survey("zinc, leaf-sync threads", axes.leaves, leaf);
    let short = |n| block(zinc(), n).with_plan(|p| p.regions = SHORT.min(regions));
    jobs.survey("zinc, block size", axes.blocks, short);
    if regions < REGIONS {
        return;
    }
    jobs.survey("2007, threads", &[1, 4, 16, 64], |n| threads(old(8, 1), n));
    jobs.survey("2007, units", &[1, 2, 4, 12], |n| Setup { luns: n as usize, ..old(8, 1) });
    jobs.survey("2007, zio threads", &[1, 4, 8, 12, 16, 32], |n| old(n, 1));
    jobs.survey("2007, leaf-sync threads", &[1, 2, 4, 8, 32], |n| old(16, n));
    jobs.survey("2007, block size", axes.blocks, |n| block(old(8, 1), n));
    jobs.add("2007, no checksums", 4, Setup { checksum: false, ..old(8, 1) });
}

/// Says what the surveys found.
pub(super) fn tell(setting: &Setting, done: &Done, out: &mut Outcome) -> Result<Found, LabError> {
    let (axes, _) = axes(setting);
    let by_threads = done.points("zinc, threads");
    let by_luns = done.points("zinc, units");
    let by_leaves = done.points("zinc, leaf-sync threads");
    let by_block = done.points("zinc, block size");
    let computed = machine::most_computed(&machine::processors(), 1 << 20) / MIB;
    let limit = |n: &u64| {
        let bare = bench::bare(*n as usize, machine::units(), 1 << 20, 2048, DEPTH);
        let bare = bare.map_err(|e| LabError::new("the bare units failed", e))?;
        Ok((*n as f64, bare.min(computed)))
    };
    let limits: Points = axes.luns.iter().map(limit).collect::<Result<_, LabError>>()?;
    let part_of_limit = |((_, y), (_, limit)): (&(f64, f64), &(f64, f64))| y / limit;
    let of_limit = by_luns.iter().zip(&limits).map(part_of_limit).fold(1.0, f64::min);
    let of_six = limits.iter().find(|(n, _)| *n == 6.0).map_or(computed, |p| p.1);

    let mut solved = |row: &str, measured: f64, least: f64| {
        let (row, bound) = (format!("zinc: {row}"), Bound::AtLeast);
        out.rows.push(Row { row, unit: "", published: Some(least), measured, bound });
    };
    solved("most threads kept of the best of fewer", least_kept(&by_threads), 1.0 - NOISE);
    solved("most threads, part of the hardware's limit", last(&by_threads) / of_six, OF_THE_LIMIT);
    solved("units kept of the best of fewer", least_kept(&by_luns), 1.0 - NOISE);
    solved("units, least part of the hardware's limit", of_limit, OF_THE_LIMIT);
    solved("leaf-sync threads kept of the best of fewer", least_kept(&by_leaves), 1.0 - NOISE);

    let mut by = |title: &str, x: &str, ours: &Points, theirs: &Points, limit: &Points| {
        let lines = [("zinc", ours), ("settings of 2007", theirs), ("hardware's limit", limit)];
        let lines = lines.iter().filter(|(_, points)| !points.is_empty());
        out.charts.push(chart(title, x, lines.map(|(name, p)| series(name, p)).collect()));
    };
    let none = Points::new();
    let old = |name| done.points(name);
    by("Application threads", "threads", &by_threads, &old("2007, threads"), &none);
    by("Units in the pool", "units", &by_luns, &old("2007, units"), &limits);
    by("Leaf-sync threads", "threads", &by_leaves, &old("2007, leaf-sync threads"), &none);
    let kib = |points: Points| points.iter().map(|(x, y)| (x / 1024.0, *y)).collect::<Points>();
    let (blocks, of_2007) = (kib(by_block.clone()), kib(old("2007, block size")));
    by("Block size", "KiB", &blocks, &of_2007, &none);
    by("zio threads", "threads", &none, &old("2007, zio threads"), &none);
    out.charts.retain(|chart| !chart.series.is_empty());
    if let (Some(unsummed), Some(summed)) =
        (done.of("2007, no checksums", 4), done.of("2007, threads", 4))
    {
        out.rows.push(Row {
            row: "settings of 2007: gain without checksums".to_owned(),
            unit: "MiB/s",
            published: None,
            measured: unsummed.mib_per_second() - summed.mib_per_second(),
            bound: Bound::Shown,
        });
    }
    let first = by_block.first().map_or(0.0, |p| p.1);
    let best = by_luns.iter().chain(&by_threads).map(|p| p.1).fold(0.0, f64::max);
    Ok(Found { best, of_limit, large_blocks_gain: last(&by_block) - first })
}
