//! The surveys of the study, with the engine of 2007 and with zinc, and the three things it left
//! open. Of its charts the study gives no numbers but those in its text; these are the rows.
//!
//! As there, blocks have 128 KiB where threads, units and checksums are surveyed, and 1 MiB where
//! the threads of the engine are.
//!
//! What the units can do is measured without an engine, with as many I/Os under way as zinc keeps;
//! what the processors can do follows from their model. The hardware's limit is the lower of both.
//!
//! Locks of the engine are kept for no time in a simulation. In the rows *with locks* one that all
//! writers of a pool pass and one that all threads of a sync pass are kept for a while for each
//! block, and the others wait for it; blocks have 128 KiB, as that makes eight times as many.
//! Whether the three open things stay solved then is a goal too.
//!
//! Every point is a simulation of its own, so they are run at the same time, as many as the host
//! has processors, and do not know of each other.

use super::bench::{Measured, Setup};
use super::{Machine, NEAR, NOISE, OF_THE_LIMIT, REGIONS, bench, machine, measure};
use crate::error::LabError;
use crate::experiment::Setting;
use crate::outcome::{Chart, Outcome, Series};
use crate::pios::Plan;
use crate::row::{Bound, Range, Row};
use engine::Rt;
use engine::live::Tunable;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// zinc's bytes in flight, as I/Os of 1 MiB to the bare units.
const DEPTH: u64 = 64;

/// Regions in the surveys with settings of 2007: two txgs of the most they hold.
const SHORT: u64 = 24;
/// [`Tunable::Checksum`]: data have SHA-256.
const SHA_256: u64 = 4;
/// The largest block of the engine of 2007 unless it was changed.
const NATIVE_BLOCK: u64 = 128 << 10;

const MIB: f64 = (1u64 << 20) as f64;

/// What `dd` writes to one unit. It counts millions of bytes, pios counts 2^20: 8192 of them in
/// 24.57 s are its 333.
const DD_MB_PER_S: f64 = 350.0;
/// Unit of what pios prints.
const PIOS_MB: &str = "MiB/s";

const UNITS: &str = "Units in the pool";
/// What the study's text says of 1, 2, 4 and 12 units: 210, 30 and 10 more, and 350.
const PRINTED_UNITS: [(f64, f64); 4] = [(1.0, 210.0), (2.0, 240.0), (4.0, 250.0), (12.0, 350.0)];

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
        Rt::real().for_each_parallel(0, self.0, |(name, x, setup)| {
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
pub(super) fn least_kept(points: &[(f64, f64)]) -> f64 {
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

/// Names of the surveys that others refer to.
const THREADS_2007: &str = "2007, threads";
const UNITS_2007: &str = "2007, units";
const ZIO_2007: &str = "2007, zio threads";
const LEAVES_2007: &str = "2007, leaf-sync threads";
const BLOCKS_2007: &str = "2007, block size";
const UNSUMMED_2007: &str = "2007, no checksums";
const SHA_256_2007: &str = "2007, SHA-256";
const LARGE_THREADS_2007: &str = "2007, blocks of 1 MiB, threads";
const LARGE_UNITS_2007: &str = "2007, blocks of 1 MiB, units";

/// The three open things where locks are kept for some time.
const LOCKED_THREADS: &str = "zinc with locks, threads";
const LOCKED_UNITS: &str = "zinc with locks, units";
const LOCKED_LEAVES: &str = "zinc with locks, leaf-sync threads";
/// The same load without that, by threads.
const UNLOCKED: &str = "zinc, threads, blocks of 128 KiB";

/// Leaf-sync threads of the study's third profile.
const PROFILED_LEAVES: f64 = 4.0;

/// Threads of the application in the runs without checksums.
const UNSUMMED_THREADS: [u64; 4] = [1, 4, 16, 64];

/// Adds all runs of the surveys.
pub(super) fn plan(setting: &Setting, machine: &Machine<'_>, jobs: &mut Jobs) {
    let (axes, regions) = axes(setting);
    let zinc = || machine.zinc().with_plan(|p| p.regions = regions);
    let old = |zio, leaf| machine.engine_of_2007(zio, leaf).with_plan(|p| p.regions = SHORT);
    let threads = |setup: Setup, n: u64| setup.with_plan(|p| p.threads = n as usize);
    let block = |setup: Setup, n: u64| setup.with_plan(|p| p.block_size = n);
    jobs.survey("zinc, threads", axes.threads, |n| threads(zinc(), n));
    jobs.survey("zinc, units", axes.luns, |n| Setup { luns: n as usize, ..zinc() });
    let leaf = |n| zinc().tuned(Tunable::LeafSyncThreads, n);
    jobs.survey("zinc, leaf-sync threads", axes.leaves, leaf);
    let short = |n| block(zinc(), n).with_plan(|p| p.regions = SHORT.min(regions));
    jobs.survey("zinc, block size", axes.blocks, short);
    with_locks(machine, regions, jobs);
    if regions < REGIONS {
        return;
    }
    let native = || block(old(8, 1), NATIVE_BLOCK);
    jobs.survey(THREADS_2007, axes.threads, |n| threads(native(), n));
    jobs.survey(UNITS_2007, axes.luns, |n| Setup { luns: n as usize, ..native() });
    jobs.survey(ZIO_2007, &[1, 2, 4, 8, 12, 16, 32], |n| old(n, 1));
    jobs.survey(LEAVES_2007, &[1, 2, 4, 8, 32], |n| old(16, n));
    jobs.survey(BLOCKS_2007, axes.blocks, |n| block(old(8, 1), n));
    jobs.add(SHA_256_2007, 4, native().tuned(Tunable::Checksum, SHA_256));
    let unsummed = |n| threads(Setup { checksum: false, ..native() }, n);
    jobs.survey(UNSUMMED_2007, &UNSUMMED_THREADS, unsummed);
    jobs.survey(LARGE_THREADS_2007, &[1, 64], |n| threads(old(8, 1), n));
    jobs.survey(LARGE_UNITS_2007, &[1, 12], |n| Setup { luns: n as usize, ..old(8, 1) });
}

/// The surveys where locks are kept for some time.
fn with_locks(machine: &Machine<'_>, regions: u64, jobs: &mut Jobs) {
    let processors = || machine::processors_with_locks(machine.setting);
    let open = |n: u64| {
        let plan = |p: &mut Plan| {
            (p.threads, p.block_size, p.regions) = (n as usize, NATIVE_BLOCK, SHORT.min(regions));
        };
        machine.zinc().with_plan(plan)
    };
    let threads = machine.zinc().plan.threads as u64;
    let locked = |n| Setup { processors: processors(), ..open(n) };
    jobs.survey(LOCKED_THREADS, FEW.threads, locked);
    jobs.survey(LOCKED_UNITS, FEW.luns, |n| Setup { luns: n as usize, ..locked(threads) });
    let leaf = |n| locked(threads).tuned(Tunable::LeafSyncThreads, n);
    jobs.survey(LOCKED_LEAVES, FEW.leaves, leaf);
    jobs.survey(UNLOCKED, &FEW.threads[FEW.threads.len() - 1..], open);
}

/// The three open things where locks are kept for some time, and what that costs.
fn of_locks(done: &Done) -> Vec<Row> {
    let kept = Range::at_least(1.0 - NOISE);
    let by = [
        ("most threads", LOCKED_THREADS),
        ("units", LOCKED_UNITS),
        ("leaf-sync threads", LOCKED_LEAVES),
    ];
    let row = |(what, survey): (&str, &'static str)| {
        let name = format!("zinc with locks: {what} kept of the best of fewer");
        Row::goal(name, "", kept, least_kept(&done.points(survey)))
    };
    let mut rows: Vec<Row> = by.into_iter().map(row).collect();
    let name = "zinc with locks: most threads, of what they do without";
    let (with, without) = (last(&done.points(LOCKED_THREADS)), last(&done.points(UNLOCKED)));
    rows.push(Row::own(name, "", with / without));
    rows
}

/// Names of rows that others refer to.
const BEST: &str = "zinc: best throughput";
const LARGE_BLOCKS: &str = "zinc: records of 1 MiB gain over 128 KiB";
const OF_LIMIT: &str = "zinc: units, least part of the hardware's limit";

/// Says what the surveys found.
pub(super) fn tell(
    setting: &Setting,
    machine: &Machine<'_>,
    done: &Done,
    out: &mut Outcome,
) -> Result<(), LabError> {
    let (axes, _) = axes(setting);
    let by_threads = done.points("zinc, threads");
    let by_luns = done.points("zinc, units");
    let by_leaves = done.points("zinc, leaf-sync threads");
    let by_block = done.points("zinc, block size");
    let computed = machine::most_computed(&machine::processors(setting), 1 << 20) / MIB;
    let bare = |n: &u64| {
        let bare = bench::bare(&machine.zinc(), *n as usize, 2048, DEPTH);
        Ok((*n as f64, bare.map_err(|e| LabError::new("the bare units failed", e))?))
    };
    let bare: Points = axes.luns.iter().map(bare).collect::<Result<_, LabError>>()?;
    let limits: Points = bare.iter().map(|(n, rate)| (*n, rate.min(computed))).collect();
    out.rows.extend(bare.iter().find(|p| p.0 == 1.0).map(|(_, rate)| of_dd(*rate)));
    let part_of_limit = |((_, y), (_, limit)): (&(f64, f64), &(f64, f64))| y / limit;
    let of_limit = by_luns.iter().zip(&limits).map(part_of_limit).fold(1.0, f64::min);
    let of_six = limits.iter().find(|(n, _)| *n == 6.0).map_or(computed, |p| p.1);

    let mut solved = |row: &str, measured: f64, least: f64| {
        out.rows.push(Row::goal(row, "", Range::at_least(least), measured));
    };
    let kept = 1.0 - NOISE;
    solved("zinc: most threads kept of the best of fewer", least_kept(&by_threads), kept);
    let name = "zinc: most threads, part of the hardware's limit";
    solved(name, last(&by_threads) / of_six, OF_THE_LIMIT);
    solved("zinc: units kept of the best of fewer", least_kept(&by_luns), kept);
    solved(OF_LIMIT, of_limit, OF_THE_LIMIT);
    solved("zinc: leaf-sync threads kept of the best of fewer", least_kept(&by_leaves), kept);
    out.rows.extend(of_locks(done));
    let best = by_luns.iter().chain(&by_threads).map(|p| p.1).fold(0.0, f64::max);
    out.rows.push(Row::own(BEST, "MiB/s", best));
    if let [(first, low), .., (end, high)] = by_block[..]
        && (first, end) == (NATIVE_BLOCK as f64, MIB)
    {
        out.rows.push(Row::own(LARGE_BLOCKS, "MiB/s", high - low));
    }
    out.rows.extend(of_2007(done));

    let mut by = |title: &str, x: &str, ours: &Points, theirs: &Points, limit: &Points| {
        let lines = [("zinc", ours), ("settings of 2007", theirs), ("hardware's limit", limit)];
        let lines = lines.iter().filter(|(_, points)| !points.is_empty());
        out.charts.push(chart(title, x, lines.map(|(name, p)| series(name, p)).collect()));
    };
    let none = Points::new();
    let old = |name| done.points(name);
    by("Application threads", "threads", &by_threads, &old(THREADS_2007), &none);
    by(UNITS, "units", &by_luns, &old(UNITS_2007), &limits);
    by("Leaf-sync threads", "threads", &by_leaves, &old(LEAVES_2007), &none);
    let kib = |points: Points| points.iter().map(|(x, y)| (x / 1024.0, *y)).collect::<Points>();
    let (blocks, of_2007) = (kib(by_block.clone()), kib(old(BLOCKS_2007)));
    by("Block size", "KiB", &blocks, &of_2007, &none);
    by("zio threads", "threads", &none, &old(ZIO_2007), &none);
    out.charts.retain(|chart| !chart.series.is_empty());
    let units = out.charts.iter_mut().filter(|chart| chart.title == UNITS);
    let printed = PRINTED_UNITS.to_vec();
    units.for_each(|chart| chart.series.push(series("settings of 2007, published", &printed)));
    Ok(())
}

/// The rate of one unit as it is, in MiB a second.
fn of_dd(rate: f64) -> Row {
    // What the disks of a unit carry was given by it.
    Row::input("dd: one unit without a pool", "MB/s", DD_MB_PER_S, NEAR, rate * MIB / 1e6)
}

/// Every row of the surveys that has a published value, of nothing that was measured.
#[cfg(test)]
pub(super) fn sample(nothing: &Measured) -> Vec<Row> {
    let surveys = [
        (THREADS_2007, &[1, 4, 64][..]),
        (UNITS_2007, &[1, 2, 4, 12]),
        (ZIO_2007, &[8, 12]),
        (LEAVES_2007, &[1, 2, 4, 32]),
        (LARGE_THREADS_2007, &[1, 64]),
        (LARGE_UNITS_2007, &[1, 12]),
        (BLOCKS_2007, ALL.blocks),
        (SHA_256_2007, &[4]),
        (UNSUMMED_2007, &[4]),
    ];
    let of = |(name, xs): (&'static str, &[u64])| -> Vec<_> {
        xs.iter().map(|x| ((name, *x), nothing.clone())).collect()
    };
    let done = Done(surveys.into_iter().flat_map(of).collect());
    [vec![of_dd(1.0)], of_2007(&done)].concat()
}

/// What the study's text says of its surveys, with the settings of 2007.
fn of_2007(done: &Done) -> Vec<Row> {
    let at = |name, x| done.of(name, x).map(Measured::mib_per_second);
    let name = |what: &str| format!("settings of 2007: {what}");
    let mut rows = Vec::new();
    let mut compare = |what: &str, published, bound, measured: Option<f64>, unit| {
        rows.extend(measured.map(|m| Row::predicted(name(what), unit, published, bound, m)));
    };
    let units = |luns| (format!("{luns} units, blocks of 128 KiB"), at(UNITS_2007, luns));
    let (twelve, found) = units(12);
    compare(&twelve, 350.0, NEAR, found, PIOS_MB);
    let over = |name, x, y| Some(at(name, x)? / at(name, y)?);
    let gain = |name, x, y| Some(at(name, x)? - at(name, y)?);
    let unsummed = at(UNSUMMED_2007, 4).and_then(|rate| Some(rate - at(THREADS_2007, 4)?));
    compare("gain without checksums", 10.0, Bound::Within(0.5), unsummed, PIOS_MB);
    // By the word of the study; its profiles sum four times as fast as its processors do SHA-256.
    let unsummed = at(UNSUMMED_2007, 4).and_then(|rate| Some(rate - at(SHA_256_2007, 4)?));
    let what = "gain without checksums, over SHA-256";
    compare(what, 10.0, Bound::Within(0.5), unsummed, PIOS_MB);
    for kib in [512, 1024] {
        let found = gain(BLOCKS_2007, kib << 10, NATIVE_BLOCK);
        let what = format!("gain with blocks of {kib} KiB (20 to 50)");
        compare(&what, 20.0, Bound::RangeTo(50.0), found, PIOS_MB);
    }
    let by_zio = done.points(ZIO_2007);
    let best = by_zio.iter().map(|p| p.1).fold(0.0, f64::max);
    let enough = by_zio.iter().find(|p| p.1 >= best * (1.0 - NOISE)).map(|p| p.0);
    let by_leaves = done.points(LEAVES_2007);
    // What the study says of sums, and in words.
    let mut following = Vec::new();
    for (luns, published, sum) in [(2, 240.0, "210 + 30"), (4, 250.0, "210 + 30 + 10")] {
        let (what, found) = units(luns);
        let row = |m| Row::derived(name(&what), PIOS_MB, published, NEAR, m).follows(sum);
        following.extend(found.map(row));
    }
    let row = |m| Row::predicted(name("64 threads over 1"), "times", 1.0, Bound::AtMost, m);
    let words = "its words";
    following.extend(over(THREADS_2007, 64, 1).map(|m| row(m).follows(words)));
    if let Some(((_, alone), more)) = by_leaves.split_first().map(|(first, more)| (*first, more)) {
        // The runtime of a profile is of the number that is left out.
        let others = more.iter().filter(|p| p.0 != PROFILED_LEAVES);
        let least = others.map(|p| p.1 / alone).reduce(f64::min);
        let what = "2, 8 and 32 leaf-sync threads over none";
        let row = |m| Row::predicted(name(what), "times", 1.0, Bound::AtLeast, m);
        let words = "its words";
        following.extend(least.map(|m| row(m).follows(words)));
        let best = more.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).map(|p| p.0);
        compare("best number of leaf-sync threads", 2.0, Bound::Within(0.0), best, "");
    }
    // The profiles, which were fitted, have that 8 are not enough.
    let what = name("zio threads that are enough");
    rows.extend(enough.map(|n| Row::derived(what, "", 12.0, Bound::AtLeast, n)));
    // A unit's cost of a command was chosen by it.
    let one = at(UNITS_2007, 1);
    let what = name("1 unit, blocks of 128 KiB");
    rows.splice(0..0, one.map(|rate| Row::fitted(what, PIOS_MB, 210.0, NEAR, rate)));
    for (more, fewer, published) in [(2, 1, 30.0), (4, 2, 10.0)] {
        let what = name(&format!("{more} units: more than {fewer}"));
        let gain = gain(UNITS_2007, more, fewer);
        // What was printed is what a unit adds; a sum may agree because none of them does.
        rows.extend(gain.map(|gain| Row::predicted(what, PIOS_MB, published, NEAR, gain)));
    }
    let mut rows: Vec<Row> = rows.into_iter().map(of_one_sentence).collect();
    rows.extend(following);
    rows.extend(of_words(done));
    rows.extend(series_of_2007(done));
    rows
}

/// What the study says in words of surveys whose values are lost: that larger blocks help neither
/// threads nor stripes to scale, and that more and more leaf-sync threads lose again. What is less
/// than noise is no change. They are quotients of rows of the series.
fn of_words(done: &Done) -> Vec<Row> {
    let over = |survey, more, fewer| {
        let rate = |x| done.of(survey, x).map(Measured::mib_per_second);
        Some(rate(more)? / rate(fewer)?)
    };
    let gains = |large, native, most| Some(over(large, most, 1)? / over(native, most, 1)?);
    let threads = gains(LARGE_THREADS_2007, THREADS_2007, 64);
    let units = gains(LARGE_UNITS_2007, UNITS_2007, 12);
    let by = "with blocks of 1 MiB, over that with 128 KiB";
    let words = [
        (format!("64 threads over 1, {by}"), 1.0 + NOISE, threads),
        (format!("12 units over 1, {by}"), 1.0 + NOISE, units),
        ("32 leaf-sync threads over 2".to_owned(), 1.0 - NOISE, over(LEAVES_2007, 32, 2)),
    ];
    let row = |(what, most, found): (String, f64, Option<f64>)| {
        let name = format!("settings of 2007: {what}");
        let row = Row::derived(name, "times", most, Bound::AtMost, found?);
        Some(row.follows("its words, and noise"))
    };
    words.into_iter().filter_map(row).collect()
}

/// The study says one gain of sums, and not of which, and one of two sizes of blocks.
fn of_one_sentence(row: Row) -> Row {
    let sentences = ["gain without checksums", "gain with blocks"];
    match sentences.into_iter().find(|sentence| row.row.contains(sentence)) {
        Some(sentence) => row.of_sentence(sentence),
        None => row,
    }
}

/// The points of the surveys with the settings of 2007. The study's own are in its charts, which
/// are lost.
fn series_of_2007(done: &Done) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut all = |survey, unit_of_x: &str, part: f64| {
        for (x, rate) in done.points(survey) {
            let name = format!("{survey}: {} {unit_of_x}", x / part);
            rows.push(Row::own(name, PIOS_MB, rate));
        }
    };
    all(THREADS_2007, "of the application", 1.0);
    all(UNITS_2007, "of the array", 1.0);
    all(BLOCKS_2007, "KiB", 1024.0);
    all(ZIO_2007, "of the engine", 1.0);
    all(LEAVES_2007, "of the engine", 1.0);
    all(LARGE_THREADS_2007, "of the application", 1.0);
    all(LARGE_UNITS_2007, "of the array", 1.0);
    for (threads, rate) in done.points(UNSUMMED_2007) {
        let Some(summed) = done.of(THREADS_2007, threads as u64) else { continue };
        let name = format!("{UNSUMMED_2007}: gain with {threads} threads");
        rows.push(Row::own(name, PIOS_MB, rate - summed.mib_per_second()));
    }
    rows
}

/// What zinc reaches on this machine, as far as its goals are met.
pub(super) fn meaning(outcome: &Outcome) -> String {
    let (Some(best), Some(part)) = (outcome.row(BEST), outcome.row(OF_LIMIT)) else {
        return String::new();
    };
    let mut text = format!(
        "On {}: with its defaults zinc reaches up to {:.0} MiB/s, and with any number of units \
         {:.0} % of the hardware's limit or more.",
        outcome.place,
        best.min(),
        100.0 * part.min(),
    );
    let of_2007 = outcome.rows.iter().filter(|row| row.row.ends_with("threads: bandwidth"));
    let fastest = of_2007.map(Row::measured).fold(0.0, f64::max);
    if fastest > 0.0 {
        text += &format!(
            " The best of the study's three settings of 2007 reaches {fastest:.0} MiB/s here."
        );
    }
    let goals = outcome.rows.iter().filter(|row| row.row.ends_with("kept of the best of fewer"));
    if goals.clone().count() > 0 && !goals.clone().any(Row::misses) {
        let least = goals.map(Row::min).fold(1.0, f64::min);
        text += &format!(
            " More application threads, units or leaf-sync threads cost {:.0} % of the throughput \
             at most.",
            100.0 * (1.0 - least),
        );
    }
    if let Some(gain) = outcome.row(LARGE_BLOCKS) {
        let (low, high) = (gain.min(), gain.max());
        text += &format!(" Records of 1 MiB instead of 128 KiB gain {low:.0} to {high:.0} MiB/s.");
    }
    text
}
