//! The write throttle observed, as in the study of 2008: how often and how long txgs sync, how fast
//! data goes in, how often writers are delayed, and where the limit is. Then today's throttle on
//! the same disks.
//!
//! # Theory
//!
//! The machine of the study: 42 SATA disks of 500 GB in one striped pool, and a couple of `dd` from
//! `/dev/zero` with writes of 1 MiB. The disks are a preset made from their data sheet. The rest
//! is a model, stated here because the study does not state it:
//!
//! - *Processors.* A `dd` copies each write out of `/dev/zero` and into the pool; two of them could
//!   copy 1667 MB in a second together. What four processors of 2008 need for checksums is not
//!   charged.
//! - *Memory* lets the limit rise to 8200 MB; the study's first report shows `>= 8000`. What is
//!   dirty is not bounded otherwise.
//! - A byte counts twice (`zinc_write_limit_inflation`): so the study's override of 800 MB was a
//!   limit of 1600.
//! - The third report, taken 46 minutes after the others, shows a slower flow, with no delays, of
//!   txgs far below the limit. So its writers cannot have stood at the limit: it is repeated with
//!   one writer at the pace of that report.
//! - A txg is pushed at a fifth of the limit when the devices are idle, as zinc does; 35 requests
//!   are under way on each disk and none are joined, as in 2008.
//!
//! - The comparison of the two throttles needs writers that are faster than the disks: there they
//!   need half the time for a write, and the target time is 1 s.
//!
//! With writers that are slower than the disks nobody stands at a limit, so the engine delays
//! nobody in the three reports, where the study counts 47, 56 and 1 delays in a second: its writers
//! came in bursts, of which it says nothing. These rows are shown and not judged; the rows of the
//! comparison have delays.
//!
//! The reports count txgs with data. As in the study, one pool is observed throughout, and knobs
//! are turned while it runs. Not repeated is the distribution of what was written: most txgs of
//! the study have less than 200 MB, which its rates and sync times do not allow, unless its script
//! looked at the counter when it had been reset.

pub mod report;
pub mod run;

use crate::experiment::{Bound, Chart, Experiment, LabError, On, Outcome, Row, Series, Setting};
use crate::target::Target;
use engine::rt::Rt;
use run::{Machine, Observed, Phase, phases};
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "throttle",
    about: "the write throttle of 2008 on 42 disks, and today's on the same",
    preset: "x4500-sata",
    on: On { device: false, destroys: false, pool: false },
    run: run_it,
};

/// A report of the study.
struct Published {
    what: &'static str,
    syncs_per_s: f64,
    mb_per_s: f64,
    delays_per_s: f64,
    sync_ms: (f64, f64),
    /// Lowest and highest bucket of the limit.
    limit_mb: (f64, f64),
}

/// seeds/001. What is `>= 8000` may be anything from there on.
const TABLE: [Published; 3] = [
    Published {
        what: "synctime 5 s",
        syncs_per_s: 1.0,
        mb_per_s: 1540.0,
        delays_per_s: 47.0,
        sync_ms: (100.0, 1540.0),
        limit_mb: (8000.0, f64::INFINITY),
    },
    Published {
        what: "synctime 1 s",
        syncs_per_s: 1.0,
        mb_per_s: 1681.0,
        delays_per_s: 56.0,
        sync_ms: (360.0, 1060.0),
        limit_mb: (2750.0, f64::INFINITY),
    },
    Published {
        what: "override 800 MB",
        syncs_per_s: 4.0,
        mb_per_s: 677.0,
        delays_per_s: 1.0,
        sync_ms: (140.0, 220.0),
        limit_mb: (1500.0, 1750.0),
    },
];

/// Disks of the study's pool.
const DISKS: usize = 42;

fn machine() -> Machine {
    let tunables = [
        "zfs_dirty_data_max=64G",
        "zfs_txg_timeout=30",
        "zfs_txg_history=10000",
        "zfs_write_limit_inflated=8200M",
        "zfs_vdev_async_write_min_active=35",
        "zfs_vdev_async_write_max_active=35",
        "zfs_vdev_aggregation_limit=131072",
    ];
    Machine {
        disks: DISKS,
        own_time: Duration::from_micros(1200),
        paced_time: Duration::from_micros(1_000_000 / 677),
        writers: 2,
        tunables: tunables.iter().map(|t| (*t).to_owned()).collect(),
    }
}

/// The phases of 2008; `scale` 1 observes for ten seconds each, as the study did.
fn of_2008(scale: f64) -> Vec<Phase> {
    let phase = |settle: f64, paced, settings: &[&str]| Phase {
        settings: settings.iter().map(|s| (*s).to_owned()).collect(),
        settle: Duration::from_secs_f64(settle),
        observe: Duration::from_secs_f64((10.0 * scale).max(2.0)),
        paced,
    };
    vec![
        // The limit begins at 32 MB and has to find the disks.
        phase(3.0, false, &["zinc_throttle=write-limit"]),
        phase(1.5, false, &["zfs_txg_synctime=1"]),
        phase(1.0, true, &["zfs_write_limit_override=800M"]),
    ]
}

fn run_it(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let Some(preset) = target.preset(&EXPERIMENT) else {
        return Err(LabError::new("throttle", "it runs on simulated disks only"));
    };
    let scale = setting.scale.clamp(0.01, 1.0);
    (setting.progress)("write-limit, with two target times and an override");
    let seed = setting.seed;
    let old = Rt::simulate(seed, |rt| phases(rt, &preset, seed, &machine(), &of_2008(scale)))?;
    (setting.progress)("writers faster than the disks, with write-limit");
    let crowd = Machine { own_time: machine().own_time / 2, ..machine() };
    let phase = |settings: &[&str]| Phase {
        settings: settings.iter().map(|s| (*s).to_owned()).collect(),
        settle: Duration::from_secs(4),
        observe: Duration::from_secs_f64((10.0 * scale).max(3.0)),
        paced: false,
    };
    let limited = [phase(&["zinc_throttle=write-limit", "zfs_txg_synctime=1"])];
    let wall = Rt::simulate(seed, |rt| phases(rt, &preset, seed, &crowd, &limited))?;
    (setting.progress)("the same with dirty-delay");
    let mut today = crowd;
    // A quarter of the 16 GB such a machine had: OpenZFS's most, and less than write-limit took.
    today.tunables.insert(0, "zinc_throttle=dirty-delay".to_owned());
    today.tunables.retain(|t| !t.starts_with("zfs_dirty_data_max"));
    today.tunables.push("zfs_dirty_data_max=4G".to_owned());
    let new = Rt::simulate(seed, |rt| phases(rt, &preset, seed, &today, &[phase(&[])]))?;
    let judged = target.is_the_study_s(&EXPERIMENT);
    Ok(outcome(target.describe(&EXPERIMENT), &old, &wall, &new, judged))
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), v| (low.min(v), f64::max(high, v)))
}

fn outcome(
    place: String,
    old: &[Observed],
    wall: &[Observed],
    new: &[Observed],
    judged: bool,
) -> Outcome {
    let mut rows = Vec::new();
    let mut row = |row: String, unit, published, measured: f64, bound| {
        let measured = if measured.is_finite() { measured } else { 0.0 };
        let bound = if judged { bound } else { Bound::Shown };
        rows.push(Row { row, unit, published, measured, bound });
    };
    for (p, o) in TABLE.iter().zip(old) {
        let name = |what: &str| format!("{}: {what}", p.what);
        let ms = o.records.iter().map(|r| r.sync.as_secs_f64() * 1e3);
        let (short, long) = extremes(ms);
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        let (low, high) = extremes(o.records.iter().map(|r| mib(r.limit)));
        let near = Bound::Within { part: 0.1 };
        let syncs = Bound::WithinOrRounding { part: 0.1 };
        row(name("syncs"), "/s", Some(p.syncs_per_s), o.report.syncs_per_s, syncs);
        row(name("written"), "MB/s", Some(p.mb_per_s), o.mb_per_s, near);
        row(name("delays"), "/s", Some(p.delays_per_s), o.report.delays_per_s, Bound::Shown);
        let within = Bound::UpTo { high: p.sync_ms.1 };
        row(name("shortest sync, from"), "ms", Some(p.sync_ms.0), short, within);
        row(name("longest sync, from"), "ms", Some(p.sync_ms.0), long, within);
        let within = Bound::UpTo { high: p.limit_mb.1 };
        row(name("lowest limit, from"), "MB", Some(p.limit_mb.0), low, within);
        row(name("highest limit, from"), "MB", Some(p.limit_mb.0), high, within);
    }
    let longest = |o: &[Observed]| o.first().map_or(0.0, |o| o.longest.as_secs_f64() * 1e3);
    let rate = |o: &[Observed]| o.first().map_or(0.0, |o| o.mb_per_s);
    let held = |what: &str| format!("a write held longest, {what}");
    for (what, o) in [("write-limit", wall), ("dirty-delay", new)] {
        let delays = o.first().map_or(0.0, |o| o.report.delays_per_s);
        row(format!("crowded, {what}: delays"), "/s", None, delays, Bound::Shown);
        row(format!("crowded, {what}: written"), "MB/s", None, rate(o), Bound::Shown);
    }
    row(held("write-limit"), "ms", None, longest(wall), Bound::Shown);
    row(held("dirty-delay"), "ms", None, longest(new), Bound::Shown);
    let part = longest(new) / longest(wall).max(1e-9);
    row("held longest: dirty-delay / write-limit".to_owned(), "", Some(1.0), part, Bound::AtMost);
    let part = rate(new) / rate(wall).max(1e-9);
    let near = Bound::Within { part: 0.1 };
    row("throughput: dirty-delay / write-limit".to_owned(), "", Some(1.0), part, near);
    let title = |n: usize| TABLE.get(n).map_or("", |p| p.what).to_owned();
    let points = |o: &Observed| {
        let point = |r: &engine::live::TxgRecord| (r.ended().as_secs_f64(), r.sync.as_secs_f64());
        o.records.iter().map(point).collect()
    };
    let series = old.iter().enumerate();
    let series = series.map(|(n, o)| Series { name: title(n), points: points(o) }).collect();
    Outcome {
        experiment: "throttle",
        place,
        rows,
        charts: vec![Chart {
            title: "Time of each txg's sync".to_owned(),
            x: "time, s".to_owned(),
            y: "sync, s".to_owned(),
            x_log: false,
            bars: false,
            series,
        }],
        texts: old.iter().enumerate().map(|(n, o)| (title(n), o.report.to_text())).collect(),
        meaning: format!(
            "With a limit per txg, a write stood still for up to {:.0} ms; with delays that grow \
             with the dirty data for {:.0} ms, at {:.0} % of the throughput. A shorter target time \
             makes syncs shorter and lets the limit follow the disks' speed.",
            longest(wall),
            longest(new),
            100.0 * rate(new) / rate(wall).max(1e-9),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is the study's, as far as the study is at hand.
    #[test]
    fn the_table_is_the_published_one() {
        let path = testkit::workspace_root().join("../shared/seeds/figures.toml");
        let Ok(text) = std::fs::read_to_string(path) else { return };
        let names = ["default", "synctime_1s", "override_800mb"];
        for (name, p) in names.iter().zip(&TABLE) {
            let section = text.split(&format!("[throttle.{name}]")).nth(1).expect("the section");
            let section = section.split("\n[").next().expect("its end");
            let has = |line: String| assert!(section.contains(&line), "{name}: {line}");
            has(format!("syncs_per_s = {}\n", p.syncs_per_s));
            has(format!("mb_per_s = {}\n", p.mb_per_s));
            has(format!("delays_per_s = {}\n", p.delays_per_s));
            has(format!("sync_ms_range = [{}, ", p.sync_ms.0));
            has(format!("write_limit_mb = [[{},", p.limit_mb.0));
        }
    }
}
