//! H5: one disk of a mirror with ten writes under way, and with one.
//!
//! The report (2016) copies a file of about 600 MB to a mirror of two disks and looks at one of
//! them with `iostat`, a line for each second. While the program writes, the queue is full; when it
//! has finished, what is left is written much more slowly. So what is measured is how much of a
//! disk's rate is left when the next write is only sent after the last one has ended.
//!
//! # The machine
//!
//! The rate of the platter is given, and 7200 rpm, as which the collection of studies reads how it
//! drains. The size of memory is not: it is taken to be
//! 4 GiB, of which a tenth for dirty data, because then the program is held back for some seconds,
//! as the report has it; with 8 GiB the file fits, and the queue is full for less than one second,
//! which is shown. Nothing says whether the disks cache writes. They are taken not to: a disk that
//! did would answer at once with one write under way too. That is shown as well. So what the report
//! measured chose both, and its rows are no predictions.
//!
//! *Under pressure* is the second with most writes. The disk *drains* from the moment when the
//! program has finished and dirty data are below the 30 % up to which one write is under way, until
//! no data are dirty; only the time is counted in which it has something to write.

use super::machine::{
    COPY_MIB_PER_S, disk_7200, parameters_of_2013, parameters_of_disk, tunables_of_2013,
};
use super::{Published, meaning, row, value};
use crate::disk::{Observed, Preset, WriteLog};
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Origin, Parameter};
use crate::row::{Bound, Kind, Row};
use crate::stream::{self, RECORD_BYTES, Shape, StreamError};
use crate::target::Target;
use crate::what_if::Layout;
use engine::inside::device::SimDisks;
use engine::inside::rt::Rt;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "h5-one-mirror",
    about: "held out: a disk with ten writes under way, and with one",
    preset: "hdd-16t",
    memory_mib: 512,
    seconds: 1,
    on_device: OnDevice::Nothing,
    numbers: &[],
    run,
};

/// What is copied.
const FILE_MIB: u64 = 600;
/// The rate of the platter, in KiB/s as `iostat` prints it.
const MEDIA_KIB_PER_S: f64 = 135_688.0;
/// Memory of the machine.
const MEMORY_GIB: u64 = 4;
/// Another size that is shown.
const MORE_MEMORY_GIB: u64 = 8;
/// How often dirty data are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Dirty data up to which the fewest writes are under way, in percent.
const LEAST_PERCENT: u64 = 30;

/// The rows that chose how much memory there is, and that the disks cache no writes.
const PRESSED: &str = "under pressure: time of a write";
const DRAINS: &str = "drains at";
/// What the study measured.
const PUBLISHED: &[Published] = &[
    near("under pressure: written", "KiB/s", 135_688.0).of_kind(Kind::Input),
    near("under pressure: writes", "/s", 1068.0).of_kind(Kind::Derived),
    // Records, which are joined up to the same size.
    near("under pressure: size of a write", "KiB", 127.0).of_kind(Kind::Derived),
    near(PRESSED, "ms", 9.35).fitted_since(),
    near("under pressure: writes under way", "", 9.98).of_kind(Kind::Derived),
    near(DRAINS, "MB/s", 13.0).fitted_since(),
];

const fn near(row: &'static str, unit: &'static str, value: f64) -> Published {
    Published::predicted(row, unit, value, Bound::Within(0.15))
}

/// A second of `iostat`.
#[derive(Clone, Copy, Default)]
struct Second {
    writes: f64,
    kib: f64,
    /// Mean time of a write.
    await_ms: f64,
}

/// What one run saw.
struct Seconds {
    all: Vec<Second>,
    /// MB in a second of those in which it writes, while it drains.
    drains_at: f64,
}

/// A machine, and what it is called in rows.
struct Machine {
    name: &'static str,
    /// Asynchronous writes, least.
    least: u64,
    write_cache: bool,
    memory_gib: u64,
}

const MACHINES: [Machine; 5] = [
    Machine { name: "", least: 1, write_cache: false, memory_gib: MEMORY_GIB },
    Machine { name: "at least 2, ", least: 2, write_cache: false, memory_gib: MEMORY_GIB },
    Machine { name: "at least 3, ", least: 3, write_cache: false, memory_gib: MEMORY_GIB },
    Machine { name: "write cache on, ", least: 1, write_cache: true, memory_gib: MEMORY_GIB },
    Machine { name: "8 GiB, ", least: 1, write_cache: false, memory_gib: MORE_MEMORY_GIB },
];

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let mut rows = Vec::new();
    let mut series = Vec::new();
    for machine in &MACHINES {
        let Machine { name, memory_gib, .. } = machine;
        (setting.progress)(&format!("{name}{memory_gib} GiB of memory"));
        let seconds = simulated(machine, setting)?;
        rows.extend(rows_of(name, &seconds));
        let points = (0..).map(f64::from).zip(seconds.all.iter().map(|s| s.kib / 1024.0));
        let name = if name.is_empty() { "at least 1, " } else { name };
        let name = name.trim_end_matches(", ").to_owned();
        series.push(Series { name, points: points.collect() });
    }
    // Of the report's seconds two rates are known, and not when the one became the other.
    let all = series.first().map_or(Vec::new(), |first| first.points.clone());
    let level = |what: &str, rate| Series::level(format!("published: {what}"), rate, &all);
    series.push(level("under pressure", MEDIA_KIB_PER_S / 1024.0));
    series.push(level("drains", value(PUBLISHED, DRAINS) * 1e6 / f64::from(1 << 20)));
    Ok(Outcome {
        rows,
        parameters: parameters(),
        charts: vec![Chart {
            title: "What one disk writes".to_owned(),
            x: "second".to_owned(),
            y: "MiB/s".to_owned(),
            x_log: false,
            bars: false,
            series,
        }],
        meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    })
}

fn rows_of(name: &str, seconds: &Seconds) -> Vec<Row> {
    let none = Second::default();
    let most = seconds.all.iter().max_by(|a, b| a.writes.total_cmp(&b.writes)).unwrap_or(&none);
    let one = |what: &str, unit, value| row(PUBLISHED, &format!("{name}{what}"), unit, value);
    vec![
        one("under pressure: written", "KiB/s", most.kib),
        one("under pressure: writes", "/s", most.writes),
        one("under pressure: size of a write", "KiB", most.kib / most.writes.max(1.0)),
        one("under pressure: time of a write", "ms", most.await_ms),
        one("under pressure: writes under way", "", most.writes * most.await_ms / 1e3),
        one("drains at", "MB/s", seconds.drains_at),
    ]
}

fn disk(write_cache: bool) -> Preset {
    let mut preset = disk_7200(2_000_000_000_000, MEDIA_KIB_PER_S * 1024.0, 1.0);
    if write_cache {
        if let crate::disk::Spec::Rotating(spec) = &mut preset.disk {
            spec.write_cache_bytes = 32 << 20;
        }
        preset.disk.switch_write_cache(true);
    }
    preset
}

/// Copies the file and looks at the first disk.
fn simulated(machine: &Machine, setting: &Setting) -> Result<Seconds, StreamError> {
    let dirty_max = (machine.memory_gib << 30) / 10;
    Rt::simulate(setting.seed, |rt| {
        let site = SimDisks::new(rt);
        let preset = disk(machine.write_cache);
        let seen = WriteLog::default();
        let size = preset.capacity_bytes;
        let disks = preset.watched(&site, ("disk", 2), size, setting.seed, |n, model| {
            let seen = if n == 0 { seen.clone() } else { WriteLog::default() };
            Box::new(Observed::new(model, seen))
        });
        let mut tunables = tunables_of_2013(dirty_max);
        tunables.push(format!("zfs_vdev_async_write_min_active={}", machine.least));
        let shape = Shape {
            volumes: 1,
            volume_bytes: FILE_MIB << 20,
            record: RECORD_BYTES,
            cache_bytes: stream::CACHE_BYTES,
            read_ahead_bytes: 0,
            tunables: &tunables,
        };
        let pool = stream::pool_of(rt, Layout::Mirror(2).tops(disks), &shape)?;
        let volume = pool.volume("h/w0")?;
        pool.sync()?;
        let began = rt.now();
        for mib in 0..FILE_MIB {
            rt.sleep(Duration::from_secs_f64(1.0 / COPY_MIB_PER_S));
            stream::write_range(&volume, mib..mib + 1, RECORD_BYTES)?;
        }
        while pool.stats().dirty_bytes * 100 > dirty_max * LEAST_PERCENT {
            rt.sleep(LOOK);
        }
        let slow = rt.now();
        while pool.stats().dirty_bytes > 0 {
            rt.sleep(LOOK);
        }
        let done = rt.now();
        pool.close()?;
        Ok(seconds(&seen, began, slow, done))
    })
}

/// The seconds from `began` on; between the other two times it drains.
fn seconds(seen: &WriteLog, began: Duration, slow: Duration, done: Duration) -> Seconds {
    let writes = seen.writes();
    let second = |n: u64| {
        let (from, to) = (began + Duration::from_secs(n), began + Duration::from_secs(n + 1));
        let of = writes.iter().filter(|w| w.ended >= from && w.ended < to);
        let (mut out, mut took) = (Second::default(), 0.0);
        for write in of {
            out.writes += 1.0;
            out.kib += write.bytes as f64 / 1024.0;
            took += write.took.as_secs_f64() * 1e3;
        }
        out.await_ms = took / out.writes.max(1.0);
        out
    };
    let whole = done.saturating_sub(began).as_secs();
    let all: Vec<Second> = (0..=whole).map(second).collect();
    let late = writes.iter().filter(|w| w.ended >= slow && w.ended < done);
    let (mut bytes, mut busy, mut until) = (0.0, Duration::ZERO, slow);
    for write in late {
        bytes += write.bytes as f64;
        busy += write.ended - write.ended.saturating_sub(write.took).max(until);
        until = write.ended;
    }
    Seconds { all, drains_at: bytes / 1e6 / busy.as_secs_f64().max(1e-9) }
}

fn parameters() -> Vec<Parameter> {
    let mut all = vec![
        Parameter::new("disk: rate of the platter", MEDIA_KIB_PER_S, "KiB/s", Origin::Study),
        // No disk is named. What drains was read as a turn and a transfer for each write.
        Parameter::new("disk: rotations", 7200.0, "/min", Origin::Fitted(DRAINS)),
        Parameter::choice("pool", "a mirror of two", Origin::Study),
        Parameter::new("file", FILE_MIB as f64, "MiB", Origin::Study),
        Parameter::new("record", f64::from(RECORD_BYTES >> 10), "KiB", Origin::Engine),
        Parameter::new("memory of the machine", MEMORY_GIB as f64, "GiB", Origin::Fitted(PRESSED)),
        Parameter::new("rate of a copy into memory", COPY_MIB_PER_S, "MiB/s", Origin::Assumed),
    ];
    all.extend(parameters_of_disk(Origin::Fitted(DRAINS)));
    all.extend(parameters_of_2013());
    all
}
