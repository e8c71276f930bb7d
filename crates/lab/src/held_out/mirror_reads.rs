//! H4: reads of striped mirrors, by the number of their sides.
//!
//! The study (a change of how a mirror chooses the side to read, 2013) makes pools of two top-level
//! vdevs, each one disk or a mirror of two, three or four, and reads them with fio: 16 threads, 16
//! files, in order and at random, 1 MiB and 4 KiB at a time, before the change and after it.
//! Before it, a block's place alone decided which side is read. That is the rule that zinc has, so
//! the figures before the change are predicted; the rule after it (the side with the least under
//! way) zinc does not have.
//!
//! # The machine
//!
//! The disks are not named. The row of two single disks is given: 152 random reads a second of each
//! are met by seeks of some length ([`SEEKS`]), which is fitted. The rate of the platter is what a
//! disk of that time has. What is predicted are ratios to that row. Files take a part of each disk
//! ([`FILL`]); the disks are small, so that little has to be written, which changes no distance as
//! a part of the whole. Memory holds nothing of the files: they were larger.

use super::machine::{COPY_MIB_PER_S, READ_AHEAD, disk_7200, parameters_of_disk};
use super::{Published, meaning, row, value};
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Origin, Parameter};
use crate::row::{Bound, Kind};
use crate::stream::{self, RECORD_BYTES, Shape, StreamError};
use crate::target::Target;
use crate::what_if::Layout;
use engine::inside::device::{SimDisks, WriteDeviceRef};
use engine::inside::rt::{Rng as _, Rt, Xoshiro256};
use engine::inside::zpl::Volume;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "h4-mirror-reads",
    about: "held out: reads of striped mirrors, by the number of their sides",
    preset: "hdd-16t",
    memory_mib: 512,
    seconds: 18,
    on_device: OnDevice::Nothing,
    numbers: &[READ_AHEAD],
    run,
};

/// Threads, each with a file of its own.
const THREADS: usize = 16;
/// Top-level vdevs.
const TOPS: usize = 2;
/// Bytes of a file.
const FILE_BYTES: u64 = 128 << 20;
/// The part of each disk that the files take.
const FILL: f64 = 0.25;
/// Rate of the platter outside.
const MEDIA_BYTES_PER_S: f64 = 150e6;
/// Seeks are this many times those of a data sheet.
const SEEKS: f64 = 0.9;
/// Memory for blocks that were read.
const CACHE_BYTES: usize = 32 << 20;
/// Seconds of each pattern.
const SECONDS: f64 = 30.0;

/// What the study measured.
const PUBLISHED: &[Published] = &[
    near("single, in order, 1 MiB", "MB/s", 226.0),
    ratio("2-way over single, in order, 1 MiB", 302.0 / 226.0),
    ratio("3-way over single, in order, 1 MiB", 429.0 / 226.0),
    ratio("4-way over single, in order, 1 MiB", 562.0 / 226.0),
    near("single, in order, 4 KiB", "MB/s", 243.0),
    ratio("2-way over single, in order, 4 KiB", 324.0 / 243.0),
    ratio("3-way over single, in order, 4 KiB", 458.0 / 243.0),
    ratio("4-way over single, in order, 4 KiB", 601.0 / 243.0),
    near("single, at random, 1 MiB", "reads/s", 11.0),
    ratio("2-way over single, at random, 1 MiB", 16.0 / 11.0),
    ratio("3-way over single, at random, 1 MiB", 24.0 / 11.0),
    ratio("4-way over single, at random, 1 MiB", 36.0 / 11.0),
    near("single, at random, 4 KiB", "reads/s", 304.0).of_kind(Kind::Fitted),
    ratio("2-way over single, at random, 4 KiB", 534.0 / 304.0),
    ratio("3-way over single, at random, 4 KiB", 714.0 / 304.0),
    ratio("4-way over single, at random, 4 KiB", 849.0 / 304.0),
];

const fn near(row: &'static str, unit: &'static str, value: f64) -> Published {
    Published::predicted(row, unit, value, Bound::Within(0.25))
}

const fn ratio(row: &'static str, value: f64) -> Published {
    near(row, "", value).following("both rates")
}

/// What the threads read.
struct Pattern {
    name: &'static str,
    unit: &'static str,
    bytes: u64,
    random: bool,
}

const PATTERNS: [Pattern; 4] = [
    Pattern { name: "in order, 1 MiB", unit: "MB/s", bytes: 1 << 20, random: false },
    Pattern { name: "in order, 4 KiB", unit: "MB/s", bytes: 4 << 10, random: false },
    Pattern { name: "at random, 1 MiB", unit: "reads/s", bytes: 1 << 20, random: true },
    Pattern { name: "at random, 4 KiB", unit: "reads/s", bytes: 4 << 10, random: true },
];

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let mut found = Vec::new();
    for ways in 1..=4 {
        (setting.progress)(&format!("two mirrors of {ways}"));
        found.push(simulated(ways, setting)?);
    }
    let mut rows = Vec::new();
    let mut series = Vec::new();
    for (n, pattern) in PATTERNS.iter().enumerate() {
        let single = found[0][n];
        let name = format!("single, {}", pattern.name);
        rows.push(row(PUBLISHED, &name, pattern.unit, single));
        for (ways, found) in (2..).zip(&found[1..]) {
            let name = format!("{ways}-way over single, {}", pattern.name);
            rows.push(row(PUBLISHED, &name, "", found[n] / single));
        }
        let points = (1..).map(f64::from).zip(found.iter().map(|f| f[n] / single));
        series.push(Series { name: pattern.name.to_owned(), points: points.collect() });
        let over = |ways| match ways {
            1 => 1.0,
            _ => value(PUBLISHED, &format!("{ways}-way over single, {}", pattern.name)),
        };
        let points = (1..=found.len()).map(|ways| (ways as f64, over(ways))).collect();
        series.push(Series { name: format!("{}, published", pattern.name), points });
    }
    Ok(Outcome {
        rows,
        parameters: parameters(setting),
        charts: vec![Chart {
            title: "Reads, over those of single disks".to_owned(),
            x: "sides of each mirror".to_owned(),
            y: "times as many".to_owned(),
            x_log: false,
            bars: false,
            series,
        }],
        meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    })
}

/// Bytes of a disk.
fn capacity() -> u64 {
    let files = THREADS as u64 * FILE_BYTES / TOPS as u64;
    (files as f64 / FILL) as u64 >> 20 << 20
}

/// Seconds of each pattern.
fn seconds(setting: &Setting) -> f64 {
    SECONDS * setting.scale.clamp(0.01, 1.0)
}

/// What each pattern gives.
fn simulated(ways: usize, setting: &Setting) -> Result<Vec<f64>, StreamError> {
    Rt::simulate(setting.seed, |rt| {
        let site = SimDisks::new(rt);
        let preset = disk_7200(capacity(), MEDIA_BYTES_PER_S, SEEKS);
        let disks = preset.devices(&site, "disk", TOPS * ways, capacity(), setting.seed);
        let named = disks.into_iter().enumerate();
        let named = named.map(|(n, disk)| (format!("disk{n:02}"), disk as WriteDeviceRef));
        let layout = if ways == 1 { Layout::Stripe } else { Layout::Mirror(ways) };
        let shape = Shape {
            volumes: THREADS,
            volume_bytes: FILE_BYTES,
            record: RECORD_BYTES,
            cache_bytes: CACHE_BYTES,
            read_ahead_bytes: (setting.number(&READ_AHEAD) as u64) << 20,
            tunables: &[format!("zfs_dirty_data_max={}", 1_u64 << 30)],
        };
        let pool = stream::pool_of(rt, layout.tops(named.collect()), &shape)?;
        let mut files = Vec::new();
        for n in 0..THREADS {
            let volume = pool.volume(&format!("h/w{n}"))?;
            stream::write_range(&volume, 0..FILE_BYTES >> 20, RECORD_BYTES)?;
            pool.sync()?;
            files.push(volume);
        }
        let one = |pattern: &Pattern| reads(rt, pattern, &files, setting);
        let found: Result<Vec<f64>, StreamError> = PATTERNS.iter().map(one).collect();
        pool.close()?;
        found
    })
}

/// All threads read; how much of the pattern's unit.
fn reads(
    rt: &Rt,
    pattern: &Pattern,
    files: &[Volume],
    setting: &Setting,
) -> Result<f64, StreamError> {
    let seconds = seconds(setting);
    let end = rt.now() + Duration::from_secs_f64(seconds);
    let copy = Duration::from_secs_f64(pattern.bytes as f64 / f64::from(1 << 20) / COPY_MIB_PER_S);
    let done = AtomicU64::new(0);
    rt.for_each_parallel(files.len(), files.iter().enumerate(), |(thread, file)| {
        let thread = thread as u64;
        let mut rng = Xoshiro256::seeded(setting.seed.wrapping_add(thread << 32));
        let places = FILE_BYTES / pattern.bytes;
        for next in 0_u64.. {
            let place = if pattern.random { rng.below(places) } else { next % places };
            file.object().touch(place * pattern.bytes, pattern.bytes)?;
            rt.sleep(copy);
            if rt.now() >= end {
                break;
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok::<(), StreamError>(())
    })?;
    let per_second = done.into_inner() as f64 / seconds;
    Ok(if pattern.random { per_second } else { per_second * pattern.bytes as f64 / 1e6 })
}

fn parameters(setting: &Setting) -> Vec<Parameter> {
    let of = |name: &str, value: f64, unit, origin| Parameter::new(name, value, unit, origin);
    let mib = |bytes: u64| (bytes >> 20) as f64;
    let fitted = Origin::Fitted("single, at random, 4 KiB");
    let mut all = vec![
        of("threads and files", THREADS as f64, "", Origin::Study),
        of("top-level vdevs", TOPS as f64, "", Origin::Study),
        of("record", f64::from(RECORD_BYTES >> 10), "KiB", Origin::Engine),
        of("disk: seeks, times those below", SEEKS, "", fitted),
        of("disk: rate of the platter", MEDIA_BYTES_PER_S / 1e6, "MB/s", Origin::Assumed),
        of("part of the disks with files", FILL, "", Origin::Assumed),
        of("file", mib(FILE_BYTES), "MiB", Origin::Assumed),
        of("memory for blocks", mib(CACHE_BYTES as u64), "MiB", Origin::Assumed),
        of("rate of a copy from memory", COPY_MIB_PER_S, "MiB/s", Origin::Assumed),
        setting.part("time of each pattern", seconds(setting), "s"),
        setting.parameter(&READ_AHEAD),
    ];
    all.extend(parameters_of_disk(Origin::Assumed));
    all
}
