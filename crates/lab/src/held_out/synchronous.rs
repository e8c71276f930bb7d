//! H1: synchronous writes by 1 to 1024 threads to 1 to 8 hard disks.
//!
//! The study (2017) compares two versions of the intent log: an old one, in which one batch is
//! under way and all threads that waited for it go on together, and a new one, in which each block
//! of the log is issued at once. Every thread writes 8 KiB after 8 KiB to a file of its own with
//! `sync=1`, for a minute; all files are in one dataset, in a pool of 1 to 8 disks without a log
//! device.
//!
//! # The machine
//!
//! The disks have 10,000 rpm, by the time of a thread's writes to one disk, which is given; they
//! are those of data sheets otherwise, with 160 MB/s, in the middle of what the study leaves open,
//! whose ends are shown. They cache no writes: a write takes a turn there. Data stay uncompressed.
//! A thread needs 20 us for itself between two writes. Processors cost nothing else, which above
//! 20,000 writes a second would matter with the eight of the study.
//!
//! zinc's log has at most two batches under way, of which one is flushed while the other is
//! written, and wakes all that waited for them. The new version issues any number of blocks. So it
//! is compared with the old version; the engine that the committed prediction was computed with
//! had one batch. The time of each cell is [`OBSERVED`] instead of a minute.

use super::meaning;
use crate::disk::{Preset, Spec, preset};
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Number, Origin, Parameter};
use crate::row::{Bound, Row};
use crate::stream::CACHE_BYTES;
use crate::striped::striped;
use crate::target::Target;
use crate::what_if::{Meter, Metered};
use engine::inside::device::SimDisks;
use engine::inside::ondisk::znode::Time;
use engine::inside::pool::live;
use engine::inside::pool::live::{CreateOptions, LivePool, Setting as Tunable};
use engine::inside::rt::Rt;
use engine::inside::zpl::write::{NewFile, NewKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "h1-synchronous-writes",
    about: "held out: promised writes of 1 to 1024 threads, on 1 to 8 disks",
    preset: "sas-10k-100g",
    memory_mib: 2048,
    seconds: 50,
    on_device: OnDevice::Nothing,
    numbers: &[APART.between(0.0, 50.0)],
    run,
};

const DISKS: [usize; 4] = [1, 2, 4, 8];
const THREADS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Threads of which the study says for what time the disks were busy.
const BUSY_OF: [usize; 6] = [1, 8, 32, 64, 128, 1024];
/// Bytes of a write and of a record.
const WRITE: u64 = 8 << 10;
/// Rate of the platter outside, and the ends of what the study leaves open.
const MB_PER_S: f64 = 160.0;
const OTHER_MB_PER_S: [f64; 2] = [120.0, 200.0];
/// What a thread needs for itself between two writes.
const OWN_TIME: Duration = Duration::from_micros(20);
/// How much faster each disk turns than the one before: disks of one rate keep their turns to each
/// other for all of a run, which real ones do not.
const APART: Number = Number::new("disk: rotations apart", 0.0, "%", Origin::Assumed);
/// Seconds until writes are counted, and for which they are.
const LEAD: f64 = 0.5;
const OBSERVED: f64 = 3.0;
const NOW: Time = Time { seconds: 1_500_000_000, nanos: 0 };

/// Writes a second of the old version, by threads, on 1, 2, 4 and 8 disks.
const PUBLISHED: [[f64; 4]; 11] = [
    [167.0, 312.0, 303.0, 293.0],
    [170.0, 311.0, 329.0, 290.0],
    [324.0, 457.0, 469.0, 463.0],
    [596.0, 885.0, 945.0, 957.0],
    [1072.0, 1575.0, 1672.0, 1719.0],
    [1577.0, 2185.0, 2690.0, 2864.0],
    [3007.0, 2899.0, 4076.0, 4714.0],
    [4581.0, 4069.0, 5233.0, 6868.0],
    [6003.0, 7117.0, 6780.0, 8585.0],
    [7483.0, 10_350.0, 10_679.0, 10_651.0],
    [7487.0, 12_674.0, 14_746.0, 13_142.0],
];
/// For what time the disks were busy, in percent, with [`BUSY_OF`] threads.
const PUBLISHED_BUSY: [[f64; 4]; 6] = [
    [98.0, 48.0, 25.0, 14.0],
    [98.0, 54.0, 28.0, 17.0],
    [100.0, 82.0, 50.0, 29.0],
    [100.0, 91.0, 75.0, 45.0],
    [100.0, 99.0, 90.0, 68.0],
    [100.0, 100.0, 99.0, 92.0],
];

/// The cell that chose how fast the disks turn: a write takes 5.98 ms there, which is one turn.
const FIRST: &str = "1 disks, 1 threads: writes";

/// How near each has to be.
const NEAR_PART: f64 = 0.25;
const NEAR: Bound = Bound::Within(NEAR_PART);

/// What one cell gave.
struct Cell {
    per_second: f64,
    busy_percent: f64,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let mut rows = Vec::new();
    let mut series = Vec::new();
    for (column, disks) in DISKS.into_iter().enumerate() {
        let (mut points, mut study) = (Vec::new(), Vec::new());
        for (line, threads) in THREADS.into_iter().enumerate() {
            (setting.progress)(&format!("{disks} disks, {threads} threads"));
            let cell = cell(disks, threads, MB_PER_S, setting)?;
            let name = format!("{disks} disks, {threads} threads");
            let published = PUBLISHED[line][column];
            // How fast the disks turn was chosen by the first cell.
            let make = if (disks, threads) == (1, 1) { Row::fitted } else { Row::predicted };
            let writes = format!("{name}: writes");
            rows.push(make(writes, "/s", published, NEAR, cell.per_second));
            if let Some(line) = BUSY_OF.iter().position(|of| *of == threads) {
                let (name, busy) = (format!("{name}: busy"), cell.busy_percent);
                // A thread that waits for each write keeps one of the disks busy; and one disk
                // is busy whatever its threads do, as one of them always waits for it.
                let follows = disks == 1 || threads == 1;
                let make = if follows { Row::derived } else { Row::predicted };
                let published = PUBLISHED_BUSY[line][column];
                // As near as the rates, and no more than all of the time.
                let near = Bound::Points(NEAR_PART * published);
                rows.push(make(name, "%", published, near, busy));
            }
            study.push((threads as f64, published));
            points.push((threads as f64, cell.per_second));
        }
        series.push(Series { name: format!("{disks} disks, measured"), points });
        series.push(Series { name: format!("{disks} disks, published"), points: study });
    }
    for rate in OTHER_MB_PER_S {
        let threads = 1024;
        let cell = cell(1, threads, rate, setting)?;
        let name = format!("{rate} MB/s: 1 disks, {threads} threads: writes");
        rows.push(Row::own(name, "/s", cell.per_second));
    }
    Ok(Outcome {
        rows,
        parameters: parameters(setting),
        charts: vec![Chart {
            title: "Promised writes".to_owned(),
            x: "threads".to_owned(),
            y: "writes/s".to_owned(),
            x_log: true,
            bars: false,
            series,
        }],
        meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    })
}

/// A disk of 10,000 rpm without a write cache.
fn disk(mb_per_s: f64) -> Result<Preset, LabError> {
    let missing = || LabError::new("no disk", "a preset is missing");
    let mut preset = preset(EXPERIMENT.preset).ok_or_else(missing)?;
    if let Spec::Rotating(spec) = &mut preset.disk {
        spec.inner_bytes_per_second *= mb_per_s * 1e6 / spec.outer_bytes_per_second;
        spec.outer_bytes_per_second = mb_per_s * 1e6;
        spec.write_cache = false;
    }
    Ok(preset)
}

/// Seconds that are counted.
fn seconds(setting: &Setting) -> f64 {
    OBSERVED * setting.scale
}

fn cell(disks: usize, threads: usize, mb: f64, setting: &Setting) -> Result<Cell, LabError> {
    let preset = disk(mb)?;
    let failed = |e: Error| LabError::new("the workload failed", e);
    Rt::simulate(setting.seed, |rt| simulated(rt, &preset, disks, threads, setting)).map_err(failed)
}

fn simulated(
    rt: &Rt,
    preset: &Preset,
    disks: usize,
    threads: usize,
    setting: &Setting,
) -> Result<Cell, Error> {
    let (pool, meters) = pool(rt, preset, disks, setting)?;
    let fs = pool.filesystem("h")?;
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let mut files = Vec::new();
    for thread in 0..threads {
        files.push(fs.create(fs.root_object(), format!("f{thread}").as_bytes(), &new)?.number());
    }
    pool.sync()?;
    let begin = rt.now() + Duration::from_secs_f64(LEAD * setting.scale.max(0.2));
    let end = begin + Duration::from_secs_f64(seconds(setting));
    let count = AtomicU64::new(0);
    let busy = |now| meters.iter().map(|meter: &Meter| meter.busy(now)).sum::<Duration>();
    let before = AtomicU64::new(0);
    let watcher = std::iter::once(None);
    let all = watcher.chain(files.iter().copied().map(Some));
    rt.for_each_parallel(threads + 1, all, |file| {
        let Some(file) = file else {
            rt.sleep(begin.saturating_sub(rt.now()));
            before.store(busy(rt.now()).as_nanos() as u64, Ordering::Relaxed);
            return Ok(());
        };
        // The disks keep no page of zeros.
        let data = vec![0; WRITE as usize];
        for number in 0_u64.. {
            rt.sleep(OWN_TIME);
            fs.write_at(file, number * WRITE, &data, NOW)?;
            fs.sync(file)?;
            if rt.now() >= end {
                break;
            }
            if rt.now() >= begin {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok::<(), Error>(())
    })?;
    let time = rt.now().saturating_sub(begin).as_secs_f64();
    let busy = busy(rt.now()).as_secs_f64() - before.into_inner() as f64 / 1e9;
    drop(fs);
    pool.close()?;
    Ok(Cell {
        per_second: count.into_inner() as f64 / seconds(setting),
        // All of the time is what two sums differ by, and comes out a rounding beside it.
        busy_percent: (100.0 * busy / (time * disks as f64)).min(100.0),
    })
}

fn pool(
    rt: &Rt,
    preset: &Preset,
    disks: usize,
    setting: &Setting,
) -> Result<(LivePool, Vec<Meter>), Error> {
    let site = SimDisks::new(rt);
    let size = preset.capacity_bytes / 512 * 512;
    let meters: Vec<Meter> = (0..disks).map(|_| Meter::default()).collect();
    let (seed, apart) = (setting.seed, setting.number(&APART) / 100.0);
    let devices = preset.watched(&site, ("disk", disks), size, seed, |n, model| {
        let mut own = preset.clone();
        let model = match &mut own.disk {
            Spec::Rotating(spec) if apart > 0.0 => {
                spec.rpm *= 1.0 + apart * n as f64;
                own.model(size, seed.wrapping_add(n as u64))
            }
            _ => model,
        };
        Box::new(Metered::new(model, meters[n].clone()))
    });
    let (devices, tops) = striped(devices);
    let property = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let properties = [("compression", "off"), ("checksum", "off"), ("recordsize", "8K")];
    let tunables: Result<Vec<Tunable>, _> =
        [format!("zfs_dirty_data_max={}", 4_u64 << 30), "zfs_dirty_data_sync_percent=2".to_owned()]
            .iter()
            .map(|text| Tunable::parse(text))
            .collect();
    let options = CreateOptions {
        ashift: Some(9),
        fs_properties: properties.into_iter().map(property).collect(),
        cache_bytes: CACHE_BYTES,
        read_ahead_bytes: 0,
        tunables: tunables?,
        ..CreateOptions::new("h", tops)
    };
    Ok((live::create(rt, &options, &devices)?, meters))
}

fn parameters(setting: &Setting) -> Vec<Parameter> {
    let of = |name: &str, value: f64, unit, origin| Parameter::new(name, value, unit, origin);
    let choice = Parameter::choice;
    vec![
        of("disk: rotations", 10_000.0, "/min", Origin::Fitted(FIRST)),
        of("disk: rate of the platter", MB_PER_S, "MB/s", Origin::Assumed),
        choice("disk: write cache", "off", Origin::Assumed),
        choice("disk: seeks, commands, sectors", "data sheets", Origin::DataSheet),
        of("write and record", 8.0, "KiB", Origin::Study),
        choice("files", "one for each thread, in one dataset", Origin::Study),
        choice("compression and checksum, instead of lz4 and edonr", "off", Origin::Assumed),
        of("dirty data at most", 4.0, "GiB", Origin::Assumed),
        of("dirty data that push a txg, 64 MiB, in percent of that", 2.0, "%", Origin::Assumed),
        of("a thread's own time for a write", 20.0, "us", Origin::Assumed),
        setting.part("time of each cell", seconds(setting), "s"),
        setting.parameter(&APART),
    ]
}
