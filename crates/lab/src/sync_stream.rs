//! One sequential writer on one disk, measured over each sync of a txg.
//!
//! # Theory
//!
//! The study: single writes to the raw disk, one at a time, reach the disk's rate only at some
//! MiB each, because between the end of one and the begin of the next the platter turns on. A pool
//! writes blocks of 128 KiB and reaches it too, because it keeps many of them under way, and the
//! disk takes the next one that comes along. What ends a sync are metadata and a flush of the
//! disk's cache, which many blocks share.
//!
//! Here the engine runs in virtual time on the model of that disk that was fitted to the *raw*
//! writes of the study (and to nothing of what is measured here). The size of a txg was bounded by
//! the memory of the study's machine, which is not known; so the writer's txgs end at the sizes
//! that the study saw, and what is measured is how long they take. Up to 35 writes are under way.
//! The disk has its write cache switched on, as ZFS does with a disk of its own; a sync ends with a
//! flush.
//!
//! The rate of a sync is what was written over its time, so of the study's three figures of each
//! the first is given to the writer, the second is predicted, and the third follows. The model's
//! disk has one rate for all syncs, so that the first sync time is a prediction, and the others are
//! the same one again.
//!
//! What the study leaves open, whether larger blocks would be faster, is measured: its first txg
//! with records of 256 KiB and of 1 MiB. And once more with the write cache off, where it saw no
//! difference.

mod in_pool;

use crate::disk::Preset;
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Origin, Parameter};
use crate::raw_sweep;
use crate::row::{Bound, Row};
use crate::stream::{self, RECORD_BYTES, StreamError};
use crate::target::Target;
use crate::workspace;
use engine::inside::device::{SimDisks, WriteDeviceRef};
use engine::inside::rt::Rt;
use engine::live::{LivePool, Tunable, TxgRecord};

const MIB: f64 = 1_048_576.0;

/// A sync of the study.
struct Published {
    written_mb: u64,
    sync_ms: f64,
    average_kib: f64,
    mb_per_s: f64,
}

const fn published(written_mb: u64, sync_ms: f64, average_kib: f64, mb_per_s: f64) -> Published {
    Published { written_mb, sync_ms, average_kib, mb_per_s }
}

/// seeds/000.
const TABLE: [Published; 5] = [
    published(1431, 23_723.0, 127.0, 60.0),
    published(1387, 23_044.0, 127.0, 60.0),
    published(2680, 44_209.0, 127.0, 60.0),
    published(1359, 24_223.0, 127.0, 56.0),
    published(1143, 19_183.0, 126.0, 59.0),
];
/// With the write cache off: "the same".
const CACHE_OFF_MB_PER_S: f64 = 60.0;
/// Single raw writes that reach the least rate of a sync, by the study's table of them: of 4 or 8
/// MiB.
const RAW_KIB: f64 = 4096.0;
/// Writes under way.
const IN_FLIGHT: u64 = 35;
/// A printed integer was cut off, so rates may differ by that; and the disk by a tenth.
const NEAR: Bound = Bound::WithinOrRounding(0.1);
/// Records whose throughput is compared with that of 128 KiB.
const LARGER: [u32; 2] = [256 << 10, 1 << 20];

/// Names of rows that others refer to.
const LEAST: &str = "least throughput of a sync";
const RAW: &str = "single raw writes that reach the least throughput";

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "sync-stream",
    about: "one sequential writer, measured over the sync of each txg",
    preset: "hitachi-dk32ej36n-cached",
    memory_mib: 512,
    seconds: 1,
    on_device: OnDevice::MakesPool,
    numbers: &[],
    run,
};

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    if let Target::Pool(_) = target {
        return in_pool::run(target, setting);
    }
    let mut scale = setting.scale.clamp(0.001, 1.0);
    if let Target::Device { path, .. } = target {
        let device = workspace::open_device(path)?;
        // Half of it, however small it is.
        let all: u64 = TABLE.iter().map(|p| p.written_mb << 20).sum();
        scale = scale.min(device.size() as f64 / 2.0 / all as f64);
        let load = Load { syncs: &TABLE, scale, record: RECORD_BYTES };
        let records = syncs(&Rt::real(), device, setting, &load)?;
        return Ok(outcome(target, &records, scale).elsewhere());
    }
    let none = || LabError::new("no simulated disk", EXPERIMENT.preset);
    let preset = target.preset(&EXPERIMENT).ok_or_else(none)?;
    let load = |syncs, record| Load { syncs, scale, record };
    let records = simulated(&preset, setting, &load(&TABLE, RECORD_BYTES))?;
    let mut outcome = outcome(target, &records, scale);
    for record in LARGER {
        let one = simulated(&preset, setting, &load(&TABLE[..1], record))?;
        outcome.rows.extend(larger(record, &records, &one));
    }
    let mut uncached = preset;
    uncached.disk.switch_write_cache(false);
    let off = simulated(&uncached, setting, &load(&TABLE[..1], RECORD_BYTES))?;
    outcome.rows.extend(off.first().map(|record| {
        let name = "write cache off, txg 1: throughput";
        Row::predicted(name, "MB/s", CACHE_OFF_MB_PER_S, NEAR, rate(record))
    }));
    let least = outcome.measured(LEAST).unwrap_or_default();
    let raw = raw_sweep::enough_for(target, setting, least)?;
    // The study's own figures say so of its disk.
    let reached = Bound::Between(RAW_KIB, 2.0 * RAW_KIB);
    outcome.rows.extend(raw.map(|kib| {
        let row = Row::derived(RAW, "KiB", RAW_KIB, reached, kib as f64);
        row.follows("its table of single writes")
    }));
    outcome.parameters = parameters(target, setting, scale);
    Ok(if target.is_the_study_s(&EXPERIMENT) { outcome } else { outcome.elsewhere() })
}

/// What is written.
struct Load {
    /// The txgs.
    syncs: &'static [Published],
    /// Part of the study's bytes.
    scale: f64,
    /// Bytes of a record.
    record: u32,
}

/// The txgs on a simulated disk.
fn simulated(
    preset: &Preset,
    setting: &Setting,
    load: &Load,
) -> Result<Vec<TxgRecord>, StreamError> {
    Rt::simulate(setting.seed, |rt| {
        let site = SimDisks::new(rt);
        let size = preset.capacity_bytes / 512 * 512;
        syncs(rt, preset.device(&site, size, setting.seed), setting, load)
    })
}

/// What the model was given.
fn parameters(target: &Target, setting: &Setting, scale: f64) -> Vec<Parameter> {
    let Some(preset) = target.preset(&EXPERIMENT) else { return Vec::new() };
    let mut all = preset.parameters();
    let kib = f64::from(RECORD_BYTES) / 1024.0;
    all.push(Parameter::new("record", kib, "KiB", Origin::Study));
    all.push(Parameter::new("writes under way", IN_FLIGHT as f64, "", Origin::Study));
    all.push(Parameter::choice("end of a txg", "after the study's bytes", Origin::Study));
    let joined = Origin::Fitted("average I/O of the txgs");
    all.push(Parameter::new("neighbours are joined up to", kib, "KiB", joined));
    all.push(setting.part("part of the study's bytes", scale, ""));
    all
}

/// The tunables of the run; those of queues where this engine has them.
fn tunables(record: u32) -> Vec<String> {
    let wanted = [
        format!("zfs_vdev_async_write_max_active={IN_FLIGHT}"),
        format!("zfs_vdev_async_write_min_active={IN_FLIGHT}"),
        // The study's machine sent each block by itself.
        format!("zfs_vdev_aggregation_limit={record}"),
        "zfs_dirty_data_max=4G".to_owned(),
        "zfs_dirty_data_sync_percent=100".to_owned(),
        "zfs_txg_timeout=3600".to_owned(),
    ];
    let known = |t: &String| Tunable::named(t.split('=').next().unwrap_or_default()).is_ok();
    wanted.into_iter().filter(known).collect()
}

fn syncs(
    rt: &Rt,
    disk: WriteDeviceRef,
    setting: &Setting,
    load: &Load,
) -> Result<Vec<TxgRecord>, StreamError> {
    let pool = stream::pool(rt, vec![disk], 1, load.record, &tunables(load.record))?;
    let records = records(&pool, setting, load);
    // It was made on the disk for this, so nothing of it stays there.
    let destroyed = pool.destroy();
    let records = records?;
    destroyed?;
    Ok(records)
}

fn records(pool: &LivePool, setting: &Setting, load: &Load) -> Result<Vec<TxgRecord>, StreamError> {
    pool.sync()?;
    let first = pool.last_synced();
    let mut at = 0;
    for sync in load.syncs {
        if (setting.is_called_off)() {
            return Err(StreamError::CalledOff);
        }
        let mib = scaled(sync, load.scale);
        (setting.progress)(&format!("a txg of {mib} MB, records of {} KiB", load.record >> 10));
        at = stream::write_mib(pool, 0, at, mib, load.record)?;
        pool.sync()?;
    }
    Ok(pool.txgs().into_iter().filter(|r| r.txg > first && r.dirty > 0).collect())
}

/// MiB of a txg, at least one.
fn scaled(sync: &Published, scale: f64) -> u64 {
    ((sync.written_mb as f64 * scale) as u64).max(1)
}

/// MiB that the disk wrote in a second of a sync.
fn rate(record: &TxgRecord) -> f64 {
    record.write_bytes as f64 / MIB / record.sync.as_secs_f64().max(1e-9)
}

/// The throughput of each txg's sync, by its number.
fn chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Throughput of each txg's sync".to_owned(),
        x: "txg".to_owned(),
        y: "MB/s".to_owned(),
        x_log: false,
        bars: true,
        series,
    }
}

/// What values of less than the study's bytes follow from.
const PART: &str = "that part of the study's";
/// Why the average of little data is not judged.
const LITTLE: &str = "metadata are a larger part of little data";

fn outcome(target: &Target, records: &[TxgRecord], scale: f64) -> Outcome {
    let mut rows = Vec::new();
    let mut points = Vec::new();
    for (n, (record, p)) in records.iter().zip(&TABLE).enumerate() {
        let name = |what: &str| format!("txg {}: {what}", n + 1);
        let ms = record.sync.as_secs_f64() * 1e3;
        let mb = record.write_bytes as f64 / MIB;
        let kib = record.write_bytes as f64 / 1024.0 / record.writes.max(1) as f64;
        points.push((n as f64 + 1.0, rate(record)));
        let given = p.written_mb as f64 * scale;
        // Of a part of the bytes nothing was printed.
        let of_part = |row: Row| if scale < 1.0 { row.follows(PART) } else { row };
        rows.push(of_part(Row::input(name("written"), "MB", given, NEAR, mb)));
        // One disk with one rate writes them all: they are one prediction.
        let make = if n == 0 { Row::predicted } else { Row::derived };
        rows.push(of_part(make(name("sync time"), "ms", p.sync_ms * scale, NEAR, ms)));
        rows.push(Row::derived(name("throughput"), "MB/s", p.mb_per_s, NEAR, rate(record)));
        let rounding = Bound::Between(p.average_kib, p.average_kib + 1.0);
        let average = Row::fitted(name("average I/O"), "KiB", p.average_kib, rounding, kib);
        rows.push(average.judged_if(scale >= 1.0, LITTLE));
    }
    let least = |rates: &mut dyn Iterator<Item = f64>| rates.fold(f64::INFINITY, f64::min);
    let published = least(&mut TABLE.iter().map(|p| p.mb_per_s));
    let measured = least(&mut points.iter().map(|p| p.1));
    let row = Row::derived(LEAST, "MB/s", published, NEAR, measured);
    rows.push(row.follows("the least of its rates"));
    let line = |name: &str, points| Series { name: name.to_owned(), points };
    let study = TABLE.iter().enumerate().map(|(n, p)| (n as f64 + 1.0, p.mb_per_s)).collect();
    Outcome {
        rows,
        charts: vec![chart(vec![line("measured", points), line("study", study)])],
        meaning,
        ..Outcome::new("sync-stream", target.describe(&EXPERIMENT))
    }
}

/// The throughput of the first txg with larger records, beside that with 128 KiB.
fn larger(record: u32, small: &[TxgRecord], large: &[TxgRecord]) -> Option<Row> {
    let gain = 100.0 * (rate(large.first()?) / rate(small.first()?) - 1.0);
    Some(Row::own(gained(record), "%", gain))
}

fn gained(record: u32) -> String {
    format!("txg 1 with records of {} KiB: more throughput", record >> 10)
}

/// What the least throughput of a sync means beside single writes to the bare disk, and what larger
/// records gain; each as far as it was measured.
fn meaning(outcome: &Outcome) -> String {
    let Some(least) = outcome.measured(LEAST).filter(|least| least.is_finite()) else {
        return String::new();
    };
    let mut text = format!(
        "On {}: blocks of 128 KiB, {IN_FLIGHT} of them under way, keep the disk at {least:.0} MB/s \
         or more through whole syncs, flush included.",
        outcome.place,
    );
    match outcome.measured(RAW) {
        Some(kib) => {
            let size = raw_sweep::size_in_words(kib);
            text += &format!(" Single raw writes, one at a time, need {size} each for that.");
        }
        None if outcome.row(&gained(LARGER[0])).is_some() => {
            text += " No size of the study's single raw writes reaches that.";
        }
        None => {}
    }
    for record in LARGER {
        if let Some(row) = outcome.row(&gained(record)) {
            let (kib, [low, high]) = (record >> 10, [row.min(), row.max()].map(percent));
            text += &match low == high {
                true => {
                    format!(
                        " Records of {kib} KiB change the throughput of such a writer by {low} %."
                    )
                }
                false => format!(
                    " Records of {kib} KiB change the throughput of such a writer by {low} to \
                     {high} %.",
                ),
            };
        }
    }
    text
}

/// A change to a tenth of a percent. What is less than that has no sign.
fn percent(change: f64) -> String {
    let tenths = (change * 10.0).round();
    if tenths == 0.0 { "0.0".to_owned() } else { format!("{:+.1}", tenths / 10.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_change_has_no_sign() {
        assert_eq!([-0.01, 0.04, -0.06, 3.0].map(percent), ["0.0", "0.0", "-0.1", "+3.0"]);
    }

    #[test]
    fn the_table_is_the_published_one() {
        let section = crate::DOCUMENTS.split("[sync_stream]").nth(1).expect("the section");
        let rows = section.lines().find_map(|l| l.strip_prefix("rows = ")).expect("rows");
        let mine = TABLE
            .iter()
            .map(|p| format!("[{},{},{},{}]", p.written_mb, p.sync_ms, p.average_kib, p.mb_per_s));
        assert_eq!(rows.trim(), format!("[{}]", mine.collect::<Vec<_>>().join(",")));
        assert!(section.contains(&format!("concurrent_ios = {IN_FLIGHT}\n")));
    }

    #[test]
    fn a_tenth_of_the_data_is_synced_at_the_published_rate() {
        let setting = Setting { scale: 0.1, ..Setting::default() };
        let outcome = run(&Target::Sim(None), &setting).expect("runs");
        assert_eq!(outcome.rows.len(), TABLE.len() * 4 + 1 + LARGER.len() + 2);
        let cache_off = "write cache off, txg 1: throughput";
        for row in outcome.rows.iter().filter(|row| row.row != cache_off) {
            assert!(!row.misses(), "{row:?}");
        }
        let message = outcome.says();
        assert!(message.contains("Records of 1024 KiB change"), "{message}");
    }

    /// What single writes need is measured on the disk in question, not remembered of the study's.
    #[test]
    fn the_meaning_is_about_the_disk_it_ran_on() {
        let setting = Setting::default();
        let enough = |preset: &str, least: f64| {
            let target = Target::sim(preset).expect("a preset");
            raw_sweep::enough_for(&target, &setting, least).expect("a simulation")
        };
        assert_eq!(enough("", 58.0), Some(4096));
        assert_eq!(enough("", 20.0), Some(256));
        assert_eq!((enough("nvme", 400.0), enough("nvme", 4000.0)), (Some(64), None));
    }
}
