//! H3: artificial latency.
//!
//! The study (2015) slows a disk down with `zinject -D`: this many lanes, each of which does one
//! request at a time and takes a fixed time for it. In a loop a file of 1024 MiB is copied, made
//! durable with `sync`, removed, and the removal made durable; the writes of the device are looked
//! at for a minute. A second part does so with eight files at once, on two striped disks of unequal
//! latency. So what is measured is not a disk: it is how many writes the engine keeps under way,
//! and how it spreads blocks over disks of which one is slower.
//!
//! # The machine
//!
//! The engine of that time: one to ten asynchronous writes per disk, by the dirty data, and no more
//! while a thread waits in `sync`; neighbours are joined up to 128 KiB; a txg is pushed at 64 MiB;
//! dirty data are at most a tenth of memory, and at most 4 GiB. The size of memory is not in the
//! study: 16 GiB is assumed, and three other sizes are shown.
//!
//! The minute is any of a run of some minutes, whose phases (copying, making durable, removing) are
//! unlike each other. So every row is the mean over all minutes of the run, one beginning at each
//! second; where the study shows two samples of the same disk that are unlike each other, the
//! prediction is a range.

use super::{Published, meaning, row, value};
use crate::disk::{Host, Lanes, Observed, Preset, Spec, WriteLog};
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Origin, Parameter};
use crate::row::{Bound, Row};
use crate::stream::{self, RECORD_BYTES, StreamError};
use crate::target::Target;
use engine::inside::device::{SimDisks, SimOptions, WriteDeviceRef};
use engine::inside::dmu::Hold;
use engine::inside::rt::{Rng as _, Rt, Xoshiro256};
use engine::live::LivePool;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "h3-latency-lanes",
    about: "held out: writes to disks of artificial latency",
    preset: "lanes-10ms",
    memory_mib: 512,
    seconds: 6,
    on_device: OnDevice::Nothing,
    numbers: &[],
    run,
};

/// What is copied.
const FILE_MIB: u64 = 1024;
/// Seconds of a sample.
const SAMPLE: f64 = 60.0;
/// Seconds before the first sample begins.
const LEAD: f64 = 60.0;
/// Seconds in which samples begin.
const RUN: f64 = 240.0;
/// Memory of the machine, and other sizes that are shown.
const MEMORY_GIB: u64 = 16;
const OTHER_MEMORY_GIB: [u64; 3] = [8, 32, 64];
/// The most dirty data of any machine.
const DIRTY_MAX_MIB: u64 = 4096;
/// Dirty data at which a txg is pushed.
const PUSH_MIB: u64 = 64;
/// Bytes that a copy moves in a second beside what the pool makes it wait.
const COPY_MIB_PER_S: f64 = 1024.0;

/// A run of the study.
struct Case {
    /// Copies at once.
    copies: usize,
    /// Its disks: a name in rows, lanes, and the milliseconds of each.
    disks: &'static [(&'static str, usize, f64)],
}

const ONE_LANE: Case = Case { copies: 1, disks: &[("10 ms x 1", 1, 10.0)] };
const MANY_LANES: Case = Case { copies: 1, disks: &[("10 ms x 16", 16, 10.0)] };
const UNEQUAL: Case =
    Case { copies: 8, disks: &[("16 ms x 16 of two", 16, 16.0), ("32 ms x 16 of two", 16, 32.0)] };

/// What the study measured.
const PUBLISHED: &[Published] = &[
    ends("10 ms x 1: mean latency, least of a minute", Bound::AtMost, 17.080),
    ends("10 ms x 1: mean latency, most of a minute", Bound::AtLeast, 33.768),
    ends("10 ms x 1: standard deviation, least of a minute", Bound::AtMost, 12.448),
    ends("10 ms x 1: standard deviation, most of a minute", Bound::AtLeast, 26.629),
    near("10 ms x 1: writes", "/s", 97.0),
    near("10 ms x 1: written", "KiB/s", 12518.0),
    near("10 ms x 16: mean latency", "ms", 10.261),
    near("10 ms x 16: standard deviation", "ms", 3.022),
    near("10 ms x 16: writes", "/s", 148.0),
    near("10 ms x 16: written", "KiB/s", 18463.0),
    near("16 ms x 16 of two: mean latency", "ms", 16.391),
    near("16 ms x 16 of two: standard deviation", "ms", 2.13),
    near("16 ms x 16 of two: writes", "/s", 518.0),
    near("16 ms x 16 of two: written", "KiB/s", 64651.0),
    near("32 ms x 16 of two: mean latency", "ms", 32.310),
    near("32 ms x 16 of two: standard deviation", "ms", 1.68),
    near("32 ms x 16 of two: writes", "/s", 271.0),
    near("32 ms x 16 of two: written", "KiB/s", 33630.0),
];

/// A value that the mean over all minutes has to be near. No row is `predicted` any more: when the
/// predictions were compared, a program that was to write was kept from it (see `OPENED`). They
/// stay in the count of what was committed.
const fn near(row: &'static str, unit: &'static str, value: f64) -> Published {
    Published::predicted(row, unit, value, Bound::Within(0.15)).fitted_since()
}

/// A sample that has to be within the range over all minutes, of which the row is one end.
const fn ends(row: &'static str, bound: Bound, value: f64) -> Published {
    Published::predicted(row, "ms", value, bound).fitted_since()
}

/// The parameter that was changed after the comparison.
const OPENED: Origin = Origin::Fitted("none, but after the comparison: a defect of the repetition");

/// The writes of a disk in a sample.
#[derive(Clone, Copy, Default)]
struct Sample {
    mean_ms: f64,
    sd_ms: f64,
    writes_per_s: f64,
    kib_per_s: f64,
}

/// All samples of a disk.
struct Samples(Vec<Sample>);

impl Samples {
    fn of(seen: &WriteLog, run: f64) -> Self {
        let writes = seen.writes();
        let at = |seconds: f64| {
            let at = Duration::from_secs_f64(seconds);
            writes.partition_point(|w| w.ended < at)
        };
        let begins = (0..).map(|n| LEAD + f64::from(n)).take_while(|begin| begin - LEAD <= run);
        let sample = |begin: f64| {
            let writes = &writes[at(begin)..at(begin + SAMPLE)];
            let count = (writes.len() as f64).max(1.0);
            let ms = || writes.iter().map(|w| w.took.as_secs_f64() * 1e3);
            let mean_ms = ms().sum::<f64>() / count;
            let square = ms().map(|ms| (ms - mean_ms).powi(2)).sum::<f64>() / count;
            let bytes: u64 = writes.iter().map(|w| w.bytes).sum();
            Sample {
                mean_ms,
                sd_ms: square.sqrt(),
                writes_per_s: writes.len() as f64 / SAMPLE,
                kib_per_s: bytes as f64 / 1024.0 / SAMPLE,
            }
        };
        Self(begins.map(sample).collect())
    }

    fn mean(&self, of: fn(&Sample) -> f64) -> f64 {
        self.0.iter().map(of).sum::<f64>() / (self.0.len() as f64).max(1.0)
    }

    fn ends(&self, of: fn(&Sample) -> f64) -> (f64, f64) {
        let ends = |(low, high): (f64, f64), v: f64| (low.min(v), high.max(v));
        self.0.iter().map(of).fold((f64::INFINITY, 0.0), ends)
    }
}

/// A column of the study: what it is in the name of a row, its unit, and where a sample has it.
type Column = (&'static str, &'static str, fn(&Sample) -> f64);

const COLUMNS: [Column; 4] = [
    ("mean latency", "ms", |s| s.mean_ms),
    ("standard deviation", "ms", |s| s.sd_ms),
    ("writes", "/s", |s| s.writes_per_s),
    ("written", "KiB/s", |s| s.kib_per_s),
];

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let mut rows = Vec::new();
    let mut series = Vec::new();
    for case in [&ONE_LANE, &MANY_LANES, &UNEQUAL] {
        (setting.progress)(&format!(
            "{} copies at once on {} disks",
            case.copies,
            case.disks.len()
        ));
        let seen = simulated(case, MEMORY_GIB, setting)?;
        for ((name, ..), samples) in case.disks.iter().zip(seen) {
            let points = (0..).map(f64::from).zip(samples.0.iter().map(|s| s.writes_per_s));
            let points: Vec<(f64, f64)> = points.collect();
            let mean = value(PUBLISHED, &format!("{name}: writes"));
            let printed = Series::level(format!("{name}, published"), mean, &points);
            series.extend([Series { name: (*name).to_owned(), points }, printed]);
            rows.extend(rows_of(name, &samples));
        }
    }
    for memory in OTHER_MEMORY_GIB {
        (setting.progress)(&format!("a machine of {memory} GiB"));
        let seen = simulated(&MANY_LANES, memory, setting)?;
        let name = format!("10 ms x 16, {memory} GiB of memory: writes");
        rows.extend(seen.iter().map(|s| Row::own(&name, "/s", s.mean(|s| s.writes_per_s))));
    }
    Ok(Outcome {
        rows,
        parameters: parameters(setting),
        charts: vec![Chart {
            title: "Writes of a minute".to_owned(),
            x: "the minute begins at second".to_owned(),
            y: "writes/s".to_owned(),
            x_log: false,
            bars: false,
            series,
        }],
        meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    })
}

/// The rows of a disk: of each column the mean over all samples, and its ends.
fn rows_of(disk: &str, samples: &Samples) -> Vec<Row> {
    let mut rows = Vec::new();
    for (what, unit, of) in COLUMNS {
        let (least, most) = samples.ends(of);
        rows.push(row(PUBLISHED, &format!("{disk}: {what}"), unit, samples.mean(of)));
        for (end, predicted) in [("least", least), ("most", most)] {
            let name = format!("{disk}: {what}, {end} of a minute");
            rows.push(row(PUBLISHED, &name, unit, predicted));
        }
    }
    rows
}

/// Seconds in which samples begin.
fn seconds(setting: &Setting) -> f64 {
    (RUN * setting.scale.clamp(0.0, 1.0)).round()
}

/// The samples of each disk of a case.
fn simulated(case: &Case, memory_gib: u64, setting: &Setting) -> Result<Vec<Samples>, StreamError> {
    let run = seconds(setting);
    Rt::simulate(setting.seed, |rt| {
        let site = SimDisks::new(rt);
        let mut disks = Vec::new();
        let mut all = Vec::new();
        for (number, (_, lanes, ms)) in (0..).zip(case.disks) {
            let preset = of_lanes(*lanes, *ms);
            let size = preset.capacity_bytes.min(64 << 30) / 512 * 512;
            let seen = WriteLog::default();
            let model = preset.model(size, setting.seed.wrapping_add(number));
            let name = format!("disk{number}");
            let options = SimOptions { name, size, ..SimOptions::default() };
            let model = Box::new(Observed::new(model, seen.clone()));
            disks.push(site.add_model(&options, model) as WriteDeviceRef);
            all.push(seen);
        }
        let pool = stream::pool(rt, disks, case.copies, RECORD_BYTES, &tunables(memory_gib))?;
        let end = Duration::from_secs_f64(LEAD + run + SAMPLE);
        let mut rng = Xoshiro256::seeded(setting.seed);
        // Eight programs do not start at the same moment.
        let late: Vec<u64> = (0..case.copies).map(|_| rng.below(1_000_000_000)).collect();
        rt.for_each_parallel(case.copies, late.into_iter().enumerate(), |(copy, late)| {
            rt.sleep(Duration::from_nanos(late));
            copies(&pool, copy, end)
        })?;
        pool.close()?;
        Ok(all.iter().map(|seen| Samples::of(seen, run)).collect())
    })
}

/// One file after the other: copied, made durable, removed, and that made durable.
fn copies(pool: &LivePool, copy: usize, end: Duration) -> Result<(), StreamError> {
    let volume = pool.volume(&format!("h/w{copy}"))?;
    let (rt, file) = (pool.rt(), volume.object());
    let own_time = Duration::from_secs_f64(1.0 / COPY_MIB_PER_S);
    while rt.now() < end {
        for mib in 0..FILE_MIB {
            if rt.now() >= end {
                return Ok(());
            }
            rt.sleep(own_time);
            stream::write_range(&volume, mib..mib + 1, RECORD_BYTES)?;
        }
        pool.sync()?;
        let tx = file.objset().begin(Hold::free())?;
        file.free_range(&tx, 0, u64::MAX)?;
        drop(tx);
        pool.sync()?;
    }
    Ok(())
}

fn dirty_max_mib(memory_gib: u64) -> u64 {
    (memory_gib * 1024 / 10).min(DIRTY_MAX_MIB)
}

/// The engine of that time.
fn tunables(memory_gib: u64) -> Vec<String> {
    let dirty_mib = dirty_max_mib(memory_gib);
    let push_percent = (PUSH_MIB as f64 * 100.0 / dirty_mib as f64).round().max(1.0);
    vec![
        format!("zfs_dirty_data_max={}", dirty_mib << 20),
        format!("zfs_dirty_data_sync_percent={push_percent}"),
        "zfs_vdev_async_write_min_active=1".to_owned(),
        "zfs_vdev_async_write_max_active=10".to_owned(),
        "zfs_vdev_aggregation_limit=131072".to_owned(),
        "zfs_vdev_aggregation_limit_non_rotating=131072".to_owned(),
        "zinc_awaited_is_urgent=0".to_owned(),
    ]
}

fn parameters(setting: &Setting) -> Vec<Parameter> {
    let of = |name: &str, value: f64, unit, origin| Parameter::new(name, value, unit, origin);
    let dirty_mib = dirty_max_mib(MEMORY_GIB) as f64;
    let record = f64::from(RECORD_BYTES >> 10);
    vec![
        Parameter::choice("lanes and their latency", "as the rows say", Origin::Study),
        Parameter::choice("a file is opened", "once, not for each MiB", OPENED),
        Parameter::choice("what lies behind the lanes", "takes no time", Origin::Assumed),
        of("file", FILE_MIB as f64, "MiB", Origin::Study),
        of("copies at once, two disks", UNEQUAL.copies as f64, "", Origin::Study),
        of("sample", SAMPLE, "s", Origin::Study),
        of("record: the default, says the study", record, "KiB", Origin::Study),
        of("asynchronous writes, least", 1.0, "", Origin::Engine),
        of("asynchronous writes, most", 10.0, "", Origin::Engine),
        of("neighbours are joined up to", 128.0, "KiB", Origin::Engine),
        Parameter::choice("awaited txgs are urgent", "no", Origin::Engine),
        of("dirty data that push a txg", PUSH_MIB as f64, "MiB", Origin::Engine),
        of("memory of the machine", MEMORY_GIB as f64, "GiB", Origin::Assumed),
        of("dirty data at most, of that memory", dirty_mib, "MiB", Origin::Assumed),
        of("rate of a copy into memory", COPY_MIB_PER_S, "MiB/s", Origin::Assumed),
        setting.part("time in which samples begin", seconds(setting), "s"),
    ]
}

/// A disk of lanes.
fn of_lanes(lanes: usize, ms: f64) -> Preset {
    Preset {
        name: format!("{lanes} lanes of {ms} ms"),
        description: format!("{lanes} requests at once, each for {ms} ms"),
        source: "the study".to_owned(),
        capacity_bytes: 64 << 30,
        host: Host { command_cpu_us: 0.0, max_transfer_bytes: 0 },
        disk: Spec::Lanes(Lanes { lanes, latency_us: ms * 1e3 }),
    }
}
