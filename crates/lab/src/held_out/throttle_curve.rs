//! H6: how long transactions are delayed, by how much is dirty.
//!
//! Two reports of today's throttle. (a) A trace of eighteen txgs (2017) has the dirty data and the
//! mean delay of each, on a fragmented pool in a virtual machine under random writers. (b) A report
//! (2024) has the time of writes of 128 KiB by ten threads to one NVMe disk, with two limits of
//! dirty data.
//!
//! # The machines
//!
//! (a) The limit is given (720 MB), and what the devices took is printed for each txg: the disk
//! here has a rate and nothing else, no seek and no page. Neither the size of a record nor the
//! number of writers is said. They decide how much is dirty, and not what the delay is there. So
//! records of five sizes and two rates are run, and what is predicted is the mean delay of a txg
//! whose dirty data are those of each printed one, between the two txgs next to it. A delay is the
//! time from the transaction before to this one, while more than 60 % of the limit is dirty: that
//! is what the formula is of, whichever writer waits. Nothing is delayed below.
//!
//! That was committed as a prediction and is none: what is dirty is given, and the engine has the
//! formula of the study's, so each of these rows is that formula at a number of the study. They are
//! derived. What the study has beyond the formula is one figure, by how much its delays are above.
//!
//! The trace is of an engine that pushed txgs of a few megabytes while another one synced; the
//! change it belongs to mended that. None is to be seen here.
//!
//! (b) The rate is given: 12,400 blocks of 128 KiB a second. The limit that is called the default
//! is taken to be 4 GiB, which it is on machines of 40 GiB and more, and a copy into memory to
//! take 25 us.

use super::{Published, meaning, row};
use crate::disk::{Host, Preset, Spec, Ssd};
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Number, Origin, Parameter};
use crate::row::{Bound, Kind, Range, Row};
use crate::stream::{self, RECORD_BYTES, StreamError};
use crate::target::Target;
use engine::inside::device::{DiskModel, ModelRequest, SimDisks};
use engine::inside::rt::Rt;
use engine::live::{LivePool, TxgRecord};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "h6-throttle-curve",
    about: "held out: delays of transactions, by how much is dirty",
    preset: "nvme",
    memory_mib: 512,
    seconds: 13,
    on_device: OnDevice::Nothing,
    numbers: &[UNEVEN.between(0.0, 99.0)],
    run,
};

/// The most that may be dirty in (a): 716 to 723 MB by what is printed.
const DIRTY_MAX: u64 = 720_000_000;
/// Where delays begin, in percent of it.
const DELAYS_FROM: f64 = 60.0;
/// Dirty data at which a txg was pushed then.
const PUSH: u64 = 64 << 20;
/// Writers of (a).
const WRITERS: usize = 8;
/// Sizes of records.
const RECORDS: [u32; 5] = [8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];
/// What the devices take: about the ends of what is printed.
const MB_PER_S: [f64; 2] = [70.0, 110.0];
/// How much faster and slower the disk gets, in turn: the study's took 66 to 114 MB/s from txg to
/// txg, and it does not say how that came.
const UNEVEN: Number =
    Number::new("(a) rate of the disk, up and down by", 0.0, "%", Origin::Assumed);
const UNEVEN_SECONDS: f64 = 7.0;
/// Time until txgs are looked at, and for which they are.
const LEAD: f64 = 8.0;
const OBSERVED: f64 = 25.0;
/// The printed dirty data of eighteen txgs, in percent.
const PRINTED: [f64; 18] = [
    76.0, 66.0, 79.0, 82.0, 86.0, 58.0, 75.0, 78.0, 70.0, 75.0, 77.0, 88.0, 77.0, 77.0, 77.0, 77.0,
    71.0, 67.0,
];
/// Smaller ones are tiny.
const TINY_MB: f64 = 20.0;

/// Blocks of 128 KiB that the disk of (b) takes in a second.
const BLOCKS_PER_S: f64 = 12_400.0;
/// Its writers, and for how long they write.
const FIO_THREADS: usize = 10;
const FIO_SECONDS: f64 = 5.0;
/// The time of a copy of 128 KiB into memory.
const COPY_US: f64 = 25.0;
/// The limits, with their names in rows.
const LIMITS: [(&str, u64); 2] = [("default", 4 << 30), ("1 GiB", 1 << 30)];

/// What the studies measured.
const PUBLISHED: &[Published] = &[
    delay("txg 1, 76 % dirty: mean delay", 336.0),
    delay("txg 2, 66 % dirty: mean delay", 129.0),
    delay("txg 3, 79 % dirty: mean delay", 498.0),
    delay("txg 4, 82 % dirty: mean delay", 661.0),
    delay("txg 5, 86 % dirty: mean delay", 1048.0),
    below("txg 6, 58 % dirty: mean delay", 33.0),
    delay("txg 7, 75 % dirty: mean delay", 335.0),
    delay("txg 8, 78 % dirty: mean delay", 430.0),
    delay("txg 9, 70 % dirty: mean delay", 222.0),
    delay("txg 10, 75 % dirty: mean delay", 334.0),
    delay("txg 11, 77 % dirty: mean delay", 411.0),
    delay("txg 12, 88 % dirty: mean delay", 1274.0),
    delay("txg 13, 77 % dirty: mean delay", 401.0),
    delay("txg 14, 77 % dirty: mean delay", 412.0),
    delay("txg 15, 77 % dirty: mean delay", 407.0),
    delay("txg 16, 77 % dirty: mean delay", 393.0),
    delay("txg 17, 71 % dirty: mean delay", 200.0),
    delay("txg 18, 67 % dirty: mean delay", 140.0),
    near("delays over the formula, median", "", 1.10)
        .of_kind(Kind::Derived)
        .following("its delays and the formula"),
    near("limit default: written", "MiB/s", 1792.0),
    copied("limit default: p10 of a write", 17.0),
    near("limit default: p50 of a write", "us", 21.0),
    near("limit default: p90 of a write", "us", 39.0),
    near("limit default: p99 of a write", "us", 2100.0),
    near("limit default: p99.9 of a write", "us", 22_000.0),
    near("limit default: longest of a write", "us", 938_000.0),
    near("limit 1 GiB: written", "MiB/s", 1553.0).of_kind(Kind::Input),
    copied("limit 1 GiB: p10 of a write", 553.0),
    near("limit 1 GiB: p50 of a write", "us", 840.0),
    near("limit 1 GiB: p90 of a write", "us", 881.0),
    near("limit 1 GiB: p99 of a write", "us", 963.0),
    near("limit 1 GiB: p99.9 of a write", "us", 4400.0),
    near("limit 1 GiB: longest of a write", "us", 44_000.0),
];

/// A delay of (a): the engine's formula at the dirty data that are given.
const fn delay(row: &'static str, value: f64) -> Published {
    Published::predicted(row, "us", value, Bound::Within(0.15)).of_kind(Kind::Derived)
}

/// One where the mean of what is dirty is below the begin of the curve: only a txg that was partly
/// above had any.
const fn below(row: &'static str, value: f64) -> Published {
    Published::predicted(row, "us", value, Bound::AtMost).of_kind(Kind::Derived)
}

/// The fastest writes: those that wait for nothing take as long as a copy, which is a parameter.
const fn copied(row: &'static str, value: f64) -> Published {
    near(row, "us", value).of_kind(Kind::Derived)
}

const fn near(row: &'static str, unit: &'static str, value: f64) -> Published {
    Published::predicted(row, unit, value, Bound::Within(0.25))
}

/// A txg under which transactions were delayed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Txg {
    /// Mean dirty data of its delayed transactions, in percent of the limit.
    dirty: f64,
    /// Their mean delay.
    delay_us: f64,
    /// Its own dirty data.
    mb: f64,
}

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let mut txgs = Vec::new();
    for record in RECORDS {
        for rate in MB_PER_S {
            (setting.progress)(&format!("records of {} KiB, {rate} MB/s", record >> 10));
            txgs.extend(delayed(record, rate, setting)?);
        }
    }
    txgs.sort_by(|a, b| a.dirty.total_cmp(&b.dirty));
    let mut rows = Vec::new();
    for (n, dirty) in (1..).zip(PRINTED) {
        let name = format!("txg {n}, {dirty} % dirty: mean delay");
        let delay = row(PUBLISHED, &name, "us", delay_at(&txgs, dirty));
        rows.push(delay.judged_if(dirty > DELAYS_FROM, "below the begin of the curve"));
    }
    rows.push(row(PUBLISHED, "delays over the formula, median", "", over_the_formula(&txgs)));
    let tiny = txgs.iter().filter(|txg| txg.mb < TINY_MB).count() as f64;
    rows.push(Row::goal("txgs of less than 20 MB", "", Range::at_most(0.0), tiny));
    for (name, limit) in LIMITS {
        (setting.progress)(&format!("ten threads, a limit of {name}"));
        rows.extend(fio(name, limit, setting)?);
    }
    Ok(Outcome {
        rows,
        parameters: parameters(setting),
        charts: vec![chart(&txgs)],
        meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    })
}

/// The delay at `dirty` bytes of dirty data: on the line between the txgs next to it.
fn delay_at(txgs: &[Txg], dirty: f64) -> f64 {
    let behind = txgs.partition_point(|txg| txg.dirty < dirty);
    match (behind.checked_sub(1).and_then(|n| txgs.get(n)), txgs.get(behind)) {
        (Some(a), Some(b)) => {
            let part = (dirty - a.dirty) / (b.dirty - a.dirty).max(1e-9);
            a.delay_us + part * (b.delay_us - a.delay_us)
        }
        // Less is dirty than in any txg that had delays.
        (None, _) => 0.0,
        (Some(a), None) => a.delay_us,
    }
}

/// What the formula says.
fn formula_us(dirty: f64) -> f64 {
    500.0 * (dirty - DELAYS_FROM) / (100.0 - dirty)
}

fn over_the_formula(txgs: &[Txg]) -> f64 {
    let mut ratios: Vec<f64> = txgs.iter().map(|t| t.delay_us / formula_us(t.dirty)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

fn chart(txgs: &[Txg]) -> Chart {
    let printed = PRINTED.iter().zip(PUBLISHED).map(|(dirty, delay)| (*dirty, delay.value));
    let mut printed: Vec<(f64, f64)> = printed.collect();
    printed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let curve = (124..180).map(|half| f64::from(half) / 2.0).map(|d| (d, formula_us(d)));
    Chart {
        title: "Mean delay of the transactions of a txg".to_owned(),
        x: "dirty data, % of the limit".to_owned(),
        y: "us".to_owned(),
        x_log: false,
        bars: false,
        series: vec![
            Series {
                name: "simulated".to_owned(),
                points: txgs.iter().map(|t| (t.dirty, t.delay_us)).collect(),
            },
            Series { name: "the formula".to_owned(), points: curve.collect() },
            Series { name: "published".to_owned(), points: printed },
        ],
    }
}

/// A disk that takes this many bytes a second, whatever they are.
fn disk(bytes_per_second: f64) -> Preset {
    Preset {
        name: "held-out-rate".to_owned(),
        description: format!("{:.0} MB/s", bytes_per_second / 1e6),
        source: "the study".to_owned(),
        capacity_bytes: 960_000_000_000,
        host: Host { command_cpu_us: 0.0, max_transfer_bytes: 0 },
        disk: Spec::Ssd(Ssd {
            units: 1024,
            page_bytes: 4096,
            read_us: 0.001,
            program_us: 0.001,
            command_us: 0.0,
            latency_us: 20.0,
            write_latency_us: 0.0,
            bus_bytes_per_second: bytes_per_second,
            depth: 64,
            write_cache_bytes: 0,
            write_cache: false,
            power_safe: true,
            garbage: None,
        }),
    }
}

/// A disk that gets faster and slower: requests are as much shorter and longer.
struct Uneven {
    model: Box<dyn DiskModel>,
    by: f64,
}

impl DiskModel for Uneven {
    fn is_rotating(&self) -> bool {
        self.model.is_rotating()
    }

    fn arrive(&mut self, now: Duration, request: ModelRequest) {
        let turn = now.as_secs_f64() / UNEVEN_SECONDS * std::f64::consts::TAU;
        let len = request.len as f64 / (1.0 + self.by * turn.sin()).max(0.1);
        self.model.arrive(now, ModelRequest { len: len as u64, ..request });
    }

    fn next(&self) -> Option<Duration> {
        self.model.next()
    }

    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>) {
        self.model.advance(now, ended);
    }
}

/// A pool on one such disk with a file for each writer.
fn pool(
    rt: &Rt,
    (bytes_per_second, by, seed): (f64, f64, u64),
    (files, record): (usize, u32),
    tunables: &[String],
) -> Result<LivePool, StreamError> {
    let site = SimDisks::new(rt);
    let preset = disk(bytes_per_second);
    let disks = preset.watched(&site, ("disk", 1), preset.capacity_bytes, seed, |_, model| {
        Box::new(Uneven { model, by })
    });
    let disks = disks.into_iter().map(|(_, disk)| disk).collect();
    stream::pool(rt, disks, files, record, tunables)
}

/// The txgs of (a), with records of such a size on a disk of such a rate.
fn delayed(record: u32, mb_per_s: f64, setting: &Setting) -> Result<Vec<Txg>, StreamError> {
    let push_percent = (PUSH as f64 * 100.0 / DIRTY_MAX as f64).round();
    let tunables = [
        format!("zfs_dirty_data_max={DIRTY_MAX}"),
        format!("zfs_dirty_data_sync_percent={push_percent}"),
        "zfs_txg_history=1000".to_owned(),
    ];
    Rt::simulate(setting.seed, |rt| {
        let disk = (mb_per_s * 1e6, setting.number(&UNEVEN) / 100.0, setting.seed);
        let pool = pool(rt, disk, (WRITERS, record), &tunables)?;
        let begin = rt.now() + Duration::from_secs_f64(LEAD);
        let end = begin + Duration::from_secs_f64(OBSERVED * setting.scale.max(0.2));
        let seen = Mutex::new(Vec::new());
        rt.for_each_parallel(WRITERS, 0..WRITERS, |writer| {
            let volume = pool.volume(&format!("h/w{writer}"))?;
            let zeros = stream::zeros(record);
            for number in 0.. {
                if rt.now() >= end {
                    break;
                }
                stream::write_record(&volume, number, &zeros)?;
                let now = (rt.now(), pool.dirty());
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(now);
            }
            Ok::<(), StreamError>(())
        })?;
        let records = pool.txgs();
        pool.close()?;
        let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let whole = |r: &&TxgRecord| r.opened >= begin && r.opened + r.open <= end && r.dirty > 0;
        Ok(records.iter().filter(whole).filter_map(|r| delays_of(r, &seen)).collect())
    })
}

/// The delays of the transactions of a txg. `seen` has when each transaction began, and what was
/// dirty then.
fn delays_of(record: &TxgRecord, seen: &[(Duration, u64)]) -> Option<Txg> {
    let at = |time: Duration| seen.partition_point(|(began, _)| *began < time);
    let (first, behind) = (at(record.opened).max(1), at(record.opened + record.open));
    let (mut count, mut dirty, mut delay) = (0.0, 0.0, 0.0);
    for n in first..behind {
        let percent = seen[n].1 as f64 * 100.0 / DIRTY_MAX as f64;
        if percent > DELAYS_FROM {
            count += 1.0;
            dirty += percent;
            delay += (seen[n].0 - seen[n - 1].0).as_secs_f64() * 1e6;
        }
    }
    let mb = record.dirty as f64 / 1e6;
    (count > 0.0).then(|| Txg { dirty: dirty / count, delay_us: delay / count, mb })
}

/// What ten threads see of their writes.
fn fio(name: &str, limit: u64, setting: &Setting) -> Result<Vec<Row>, StreamError> {
    let mut took = Rt::simulate(setting.seed, |rt| {
        let rate = BLOCKS_PER_S * f64::from(RECORD_BYTES);
        let tunables = [format!("zfs_dirty_data_max={limit}")];
        let pool = pool(rt, (rate, 0.0, setting.seed), (FIO_THREADS, RECORD_BYTES), &tunables)?;
        let end = rt.now() + Duration::from_secs_f64(FIO_SECONDS);
        let took = Mutex::new(Vec::new());
        rt.for_each_parallel(FIO_THREADS, 0..FIO_THREADS, |thread| {
            let volume = pool.volume(&format!("h/w{thread}"))?;
            let zeros = stream::zeros(RECORD_BYTES);
            for number in 0.. {
                let began = rt.now();
                rt.sleep(Duration::from_secs_f64(COPY_US / 1e6));
                stream::write_record(&volume, number, &zeros)?;
                if rt.now() >= end {
                    break;
                }
                let mine = (rt.now() - began).as_secs_f64() * 1e6;
                took.lock().unwrap_or_else(PoisonError::into_inner).push(mine);
            }
            Ok::<(), StreamError>(())
        })?;
        pool.close()?;
        Ok::<_, StreamError>(took.into_inner().unwrap_or_else(PoisonError::into_inner))
    })?;
    took.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let index = (part * took.len().saturating_sub(1) as f64).round() as usize;
        took.get(index).copied().unwrap_or(0.0)
    };
    let mib = took.len() as f64 * f64::from(RECORD_BYTES) / 1_048_576.0 / FIO_SECONDS;
    let of =
        |what: &str, unit, value| row(PUBLISHED, &format!("limit {name}: {what}"), unit, value);
    let parts = [
        ("p10", 0.1),
        ("p50", 0.5),
        ("p90", 0.9),
        ("p99", 0.99),
        ("p99.9", 0.999),
        ("longest", 1.0),
    ];
    let mut rows = vec![of("written", "MiB/s", mib)];
    rows.extend(
        parts.iter().map(|(what, part)| of(&format!("{what} of a write"), "us", at(*part))),
    );
    Ok(rows)
}

fn parameters(setting: &Setting) -> Vec<Parameter> {
    let of = |name: &str, value: f64, unit, origin| Parameter::new(name, value, unit, origin);
    let choice = Parameter::choice;
    let limit = DIRTY_MAX as f64 / 1e6;
    vec![
        of("(a) dirty data at most, of 716 to 723 by the text", limit, "MB", Origin::Study),
        of("(a) dirty data that push a txg", 64.0, "MiB", Origin::Engine),
        // Two of the rates between 51 and 169 that are printed of txgs.
        choice("(a) rate of the disk", "70 and 110 MB/s", Origin::Assumed),
        setting.parameter(&UNEVEN),
        choice("(a) record", "8 to 128 KiB", Origin::Assumed),
        of("(a) writers", WRITERS as f64, "", Origin::Assumed),
        of("(b) rate of the disk, in blocks of 128 KiB", BLOCKS_PER_S, "/s", Origin::Study),
        of("(b) threads", FIO_THREADS as f64, "", Origin::Study),
        of("(b) time", FIO_SECONDS, "s", Origin::Study),
        of("(b) the default limit", 4.0, "GiB", Origin::Assumed),
        of("(b) a copy into memory", COPY_US, "us", Origin::Assumed),
        of("latency of the disk", 20.0, "us", Origin::Assumed),
    ]
}
