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

mod in_pool;

use crate::experiment::{
    Bound, Chart, Experiment, LabError, OnDevice, Outcome, Row, Series, Setting,
};
use crate::raw_sweep;
use crate::stay;
use crate::stream::{self, RECORD_BYTES, StreamError};
use crate::target::Target;
use engine::device::{SimDisks, WriteDeviceRef};
use engine::live::{LivePool, Tunable, TxgRecord};
use engine::rt::Rt;

const MIB: f64 = 1_048_576.0;

/// A sync of the study.
struct Published {
    written_mb: u64,
    sync_ms: f64,
    mb_per_s: f64,
}

const fn published(written_mb: u64, sync_ms: f64, mb_per_s: f64) -> Published {
    Published { written_mb, sync_ms, mb_per_s }
}

/// seeds/000.
const TABLE: [Published; 5] = [
    published(1431, 23_723.0, 60.0),
    published(1387, 23_044.0, 60.0),
    published(2680, 44_209.0, 60.0),
    published(1359, 24_223.0, 56.0),
    published(1143, 19_183.0, 59.0),
];
/// The least rate of a sync in the study.
const LEAST_MB_PER_S: f64 = 56.0;
/// The average size of an I/O was 126 or 127 KiB.
const AVERAGE_KIB: (f64, f64) = (126.0, 128.0);
/// Writes under way.
const IN_FLIGHT: u64 = 35;
/// A printed integer was cut off, so rates may differ by that; and the disk by a tenth.
const NEAR: Bound = Bound::Within { part: 0.1 };

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "sync-stream",
    about: "one sequential writer, measured over the sync of each txg",
    preset: "hitachi-dk32ej36n-cached",
    on_device: OnDevice::MakesPool,
    run,
};

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    if let Target::Pool(_) = target {
        return in_pool::run(target, setting);
    }
    let mut scale = setting.scale.clamp(0.001, 1.0);
    let records = match (target, target.preset(&EXPERIMENT)) {
        (Target::Device { path, .. }, _) => {
            let device = stay::open(path)?;
            // Half of it, however small it is.
            let all: u64 = TABLE.iter().map(|p| p.written_mb << 20).sum();
            scale = scale.min(device.size() as f64 / 2.0 / all as f64);
            syncs(&Rt::real(), device, setting, scale)?
        }
        (_, Some(preset)) => Rt::simulate(setting.seed, |rt| {
            let site = SimDisks::new(rt);
            let size = preset.capacity_bytes / 512 * 512;
            syncs(rt, preset.device(&site, size, setting.seed), setting, scale)
        })?,
        _ => return Err(LabError::new("sync-stream", "it runs on disks only")),
    };
    let mut outcome = outcome(target, &records, scale);
    outcome.meaning = meaning(target, setting, &outcome)?;
    Ok(outcome)
}

/// The tunables of the run; those of queues where this engine has them.
fn tunables() -> Vec<String> {
    let wanted = [
        format!("zfs_vdev_async_write_max_active={IN_FLIGHT}"),
        format!("zfs_vdev_async_write_min_active={IN_FLIGHT}"),
        // The study's machine sent each block by itself.
        format!("zfs_vdev_aggregation_limit={RECORD_BYTES}"),
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
    scale: f64,
) -> Result<Vec<TxgRecord>, StreamError> {
    let pool = stream::pool(rt, vec![disk], 1, &tunables())?;
    let records = records(&pool, setting, scale);
    // It was made on the disk for this, so nothing of it stays there.
    let destroyed = pool.destroy();
    let records = records?;
    destroyed?;
    Ok(records)
}

fn records(pool: &LivePool, setting: &Setting, scale: f64) -> Result<Vec<TxgRecord>, StreamError> {
    pool.sync()?;
    let first = pool.last_synced();
    let mut at = 0;
    for sync in &TABLE {
        (setting.progress)(&format!("a txg of {} MB", scaled(sync, scale)));
        at = stream::write_mib(pool, 0, at, scaled(sync, scale))?;
        pool.sync()?;
    }
    Ok(pool.txgs().into_iter().filter(|r| r.txg > first && r.dirty > 0).collect())
}

/// MiB of a txg, at least one.
fn scaled(sync: &Published, scale: f64) -> u64 {
    ((sync.written_mb as f64 * scale) as u64).max(1)
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

fn outcome(target: &Target, records: &[TxgRecord], scale: f64) -> Outcome {
    let judged = target.is_the_study_s(&EXPERIMENT);
    let mut rows = Vec::new();
    let mut points = Vec::new();
    let mut least = f64::INFINITY;
    for (n, (record, published)) in records.iter().zip(&TABLE).enumerate() {
        let ms = record.sync.as_secs_f64() * 1e3;
        let mb = record.write_bytes as f64 / MIB;
        let rate = mb / ms * 1e3;
        let kib = record.write_bytes as f64 / 1024.0 / record.writes.max(1) as f64;
        least = least.min(rate);
        points.push((n as f64 + 1.0, rate));
        let mut row = |what: &str, unit, published, measured, bound| {
            let row = format!("txg {}: {what}", n + 1);
            let bound = if judged { bound } else { Bound::Shown };
            rows.push(Row { row, unit, published: Some(published), measured, bound });
        };
        row("throughput", "MB/s", published.mb_per_s, rate, NEAR);
        row("sync time", "ms", published.sync_ms * scale, ms, NEAR);
        row("written", "MB", published.written_mb as f64 * scale, mb, NEAR);
        let average = Bound::UpTo { high: AVERAGE_KIB.1 };
        row("average I/O", "KiB", AVERAGE_KIB.0, kib, average);
    }
    rows.push(Row {
        row: "least throughput of a sync".to_owned(),
        unit: "MB/s",
        published: Some(LEAST_MB_PER_S),
        measured: least,
        bound: if judged { Bound::AtLeast } else { Bound::Shown },
    });
    let line = |name: &str, points| Series { name: name.to_owned(), points };
    let study = TABLE.iter().enumerate().map(|(n, p)| (n as f64 + 1.0, p.mb_per_s)).collect();
    Outcome {
        experiment: "sync-stream",
        place: target.describe(&EXPERIMENT),
        rows,
        charts: vec![chart(vec![line("published", study), line("measured", points)])],
        texts: Vec::new(),
        meaning: String::new(),
    }
}

/// What the least throughput of a sync means beside single writes to the bare disk.
fn meaning(target: &Target, setting: &Setting, outcome: &Outcome) -> Result<String, LabError> {
    let least = outcome.rows.last().map_or(0.0, |row| row.measured);
    let raw = match target {
        Target::Sim(_) => match raw_sweep::enough_for(target, setting, least)? {
            Some(size) => format!("single raw writes need {size} each for that"),
            None => "single raw writes do not reach that, whatever their size".to_owned(),
        },
        _ => "`zinc lab run raw-sweep` says what single raw writes need for that".to_owned(),
    };
    Ok(format!(
        "Blocks of 128 KiB, {IN_FLIGHT} of them under way, keep this disk at {least:.0} MB/s or \
         more through whole syncs, flush included; {raw}. A larger recordsize gains nothing for a \
         sequential writer here."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is the study's, as far as the study is at hand.
    #[test]
    fn the_table_is_the_published_one() {
        let Some(text) = testkit::figures() else { return };
        let section = text.split("[sync_stream]").nth(1).expect("the section");
        let rows = section.lines().find_map(|l| l.strip_prefix("rows = ")).expect("rows");
        let mine = TABLE.iter().map(|p| {
            let kib = if p.written_mb == 1143 { 126 } else { 127 };
            format!("[{},{},{kib},{}]", p.written_mb, p.sync_ms, p.mb_per_s)
        });
        assert_eq!(rows.trim(), format!("[{}]", mine.collect::<Vec<_>>().join(",")));
        assert!(section.contains(&format!("concurrent_ios = {IN_FLIGHT}\n")));
    }

    #[test]
    fn a_tenth_of_the_data_is_synced_at_the_published_rate() {
        let setting = Setting { scale: 0.1, ..Setting::default() };
        let outcome = run(&Target::Sim(None), &setting).expect("runs");
        assert_eq!(outcome.rows.len(), TABLE.len() * 4 + 1);
        // Metadata are a larger part of little data: the average is smaller.
        for row in outcome.rows.iter().filter(|r| !r.row.contains("average")) {
            assert!(row.holds(), "{row:?}");
        }
    }

    /// What single writes need is measured on the disk in question, not remembered of the study's.
    #[test]
    fn the_meaning_is_about_the_disk_it_ran_on() {
        let setting = Setting::default();
        let said = |preset: &str, least: f64| {
            let target = Target::sim(preset).expect("a preset");
            let mut out = outcome(&target, &[], 1.0);
            out.rows.last_mut().expect("the least").measured = least;
            meaning(&target, &setting, &out).expect("a simulation")
        };
        assert!(said("", 58.0).contains("single raw writes need 4 MiB each"));
        assert!(said("", 20.0).contains("single raw writes need 256 KiB each"));
        assert!(said("nvme", 400.0).contains("single raw writes need 64 KiB each"));
        assert!(said("nvme", 4000.0).contains("do not reach that"));
    }
}
