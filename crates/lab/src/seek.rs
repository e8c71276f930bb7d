//! seek: what block size costs when one reads in a row, and when one seeks.
//!
//! The fourth study read a disk one request at a time, in a row and at random, with blocks from
//! 512 bytes to 128 KiB. In a row, small blocks are limited by the time of a command, large ones by
//! the platter; at random a larger block costs little more, and pays if it saves later seeks. To
//! *break even*, doubling a block has to save the part of seeks by which requests become fewer:
//! `1 - rate(2s) / rate(s)`.
//!
//! Two sizes are found by rule: where the bandwidth breaks (from it on every size reads at least
//! 97 % of the most), and where the processor is idle (from it on commands take no more than 2 %
//! of a processor).
//!
//! Where the study's text and its table differ (5 % beside 4.2 %), both are shown.
//!
//! In a pool (`in_pool.rs`) the block that is read is a volume's.

mod in_pool;
mod rows;

use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Origin, Parameter};
use crate::raw_disk::{Access, FileDisk, ModelDisk, Pace, RawDisk, StopAt, in_a_row, pace};
use crate::target::Target;
use engine::inside::device::ModelKind;
use engine::inside::rt::{Rng, Xoshiro256};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "seek",
    about: "reads of a bare disk in a row and at random, by block size",
    preset: "seek-study",
    memory_mib: 512,
    seconds: 1,
    on_device: OnDevice::Reads,
    numbers: &[],
    run,
};

/// A line of both of the study's tables. MB/s are of 2^20 bytes.
struct Published {
    bytes: u64,
    linear_per_s: f64,
    linear_mb_per_s: f64,
    linear_sys_percent: f64,
    linear_idle_percent: f64,
    random_per_s: f64,
    random_mb_per_s: f64,
    random_sys_percent: f64,
    random_idle_percent: f64,
}

/// Rate, MB/s, and percentages of a processor in the system and idle: of reads in a row, and of
/// reads at random.
const fn published(bytes: u64, linear: [f64; 4], random: [f64; 4]) -> Published {
    Published {
        bytes,
        linear_per_s: linear[0],
        linear_mb_per_s: linear[1],
        linear_sys_percent: linear[2],
        linear_idle_percent: linear[3],
        random_per_s: random[0],
        random_mb_per_s: random[1],
        random_sys_percent: random[2],
        random_idle_percent: random[3],
    }
}

const PUBLISHED: [Published; 9] = [
    published(512, [17511.0, 8.55, 15.0, 85.0], [189.0, 0.09, 0.0, 100.0]),
    published(1024, [16108.0, 15.73, 12.0, 87.0], [184.0, 0.18, 0.0, 100.0]),
    published(2048, [14758.0, 28.82, 11.0, 89.0], [177.0, 0.35, 0.0, 100.0]),
    published(4096, [12195.0, 47.64, 7.0, 93.0], [175.0, 0.68, 0.0, 100.0]),
    published(8192, [8026.0, 62.70, 5.0, 95.0], [172.0, 1.34, 0.0, 100.0]),
    published(16384, [4018.0, 62.78, 4.0, 96.0], [166.0, 2.59, 0.0, 100.0]),
    published(32768, [2025.0, 63.28, 2.0, 98.0], [159.0, 4.97, 1.0, 99.0]),
    published(65536, [1004.0, 62.75, 1.0, 99.0], [142.0, 8.87, 0.0, 100.0]),
    published(131_072, [506.0, 63.25, 1.0, 99.0], [117.0, 14.62, 0.0, 100.0]),
];
/// Block that is doubled, and percent of later seeks that this has to save: as the text says.
const BREAK_EVEN: [(u64, f64); 3] = [(16384, 5.0), (32768, 11.0), (65536, 18.0)];
const BANDWIDTH_BREAK_BYTES: f64 = 8192.0;
const IDLE_BREAK_BYTES: f64 = 32768.0;
/// What one more seek costs, as the text says, in milliseconds.
const RESEEK_MS: f64 = 7.0;
/// By how much the rate at random grows when the block doubles, as the text says.
const DOUBLING: f64 = 2.0;

/// Requests of a simulated row: enough that chance moves a break-even by a few percent of itself.
const SIM_LINEAR: u64 = 4000;
const SIM_RANDOM: u64 = 200_000;
/// The rules of the two breaks.
const FULL_BANDWIDTH: f64 = 0.97;
const IDLE_PERCENT: f64 = 98.0;

/// What a size achieved; `None` where it is less than the device reads at once.
struct Sizes {
    bytes: u64,
    linear: Option<Pace>,
    random: Option<Pace>,
}

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let mut texts = target.caveats()?;
    let sizes = match target {
        Target::Pool(_) => in_pool::measure(target, setting, &mut texts)?,
        _ => on_disk(target, setting)?,
    };
    texts.push(("Reads by block size".to_owned(), table(&sizes)));
    if let Target::Device { path, .. } = target {
        let fio = format!(
            "fio --name=seek --filename={} --readonly --ioengine=psync --direct=1 --runtime={}ms \
             \\\n    --time_based --norandommap --rw=read --bs=16k    (and the other sizes; \
             --rw=randread)\n",
            path.display(),
            setting.milliseconds(),
        );
        texts.push(("The same with fio".to_owned(), fio));
    }
    let outcome = Outcome {
        rows: rows::rows(&sizes),
        parameters: parameters(target, setting),
        charts: charts(&sizes),
        texts,
        meaning: rows::meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    };
    Ok(if target.is_the_study_s(&EXPERIMENT) { outcome } else { outcome.elsewhere() })
}

/// What the model was given.
fn parameters(target: &Target, setting: &Setting) -> Vec<Parameter> {
    let Some(preset) = target.preset(&EXPERIMENT) else { return Vec::new() };
    let mut all = preset.parameters();
    // A table is headed "linear dd", of which that is so; of the random reads nothing is said.
    all.push(Parameter::new("requests under way", 1.0, "", Origin::Assumed));
    all.push(Parameter::choice("time of a processor in user space", "0", Origin::Study));
    all.push(setting.part("part of the reads", setting.scale, ""));
    all
}

fn on_disk(target: &Target, setting: &Setting) -> Result<Vec<Sizes>, LabError> {
    let size = |p: &Published| {
        setting.step(&format!("reads of {} bytes", p.bytes))?;
        measure(target, setting, p.bytes)
    };
    PUBLISHED.iter().map(size).collect()
}

fn measure(target: &Target, setting: &Setting, bytes: u64) -> Result<Sizes, LabError> {
    let mut disk: Box<dyn RawDisk> = match target {
        Target::Device { path, .. } => Box::new(FileDisk::open(path, Access::Read)?),
        _ => {
            let none = || LabError::new("no simulated disk", EXPERIMENT.preset);
            let preset = target.preset(&EXPERIMENT).ok_or_else(none)?;
            Box::new(ModelDisk::new(&preset, setting.seed))
        }
    };
    let size = disk.size();
    if size < bytes {
        return Err(LabError::new("the device is too small", format_args!("{size} bytes")));
    }
    let until = |count: u64| match target {
        Target::Sim(_) => {
            let part = setting.scale.clamp(0.001, 1.0);
            StopAt { seconds: f64::MAX, count: ((count as f64 * part) as u64).max(1) }
        }
        _ => StopAt { seconds: setting.seconds, count: u64::MAX },
    };
    let pace_of = |result: std::io::Result<Pace>| match result {
        Ok(pace) => Ok(Some(pace)),
        Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => Ok(None),
        Err(e) => Err(LabError::new(format!("a read of {bytes} bytes failed"), e)),
    };
    let linear = in_a_row(size, bytes);
    let linear = pace_of(pace(&mut *disk, ModelKind::Read, bytes, until(SIM_LINEAR), linear))?;
    // The same places for every size, as far as sizes allow, so that chance is the same too.
    let mut rng = Xoshiro256::seeded(setting.seed);
    let largest = PUBLISHED[PUBLISHED.len() - 1].bytes;
    let random = || {
        let (place, part) = (rng.below(size / largest.min(size)), rng.below(largest / bytes));
        (place * largest + part * bytes).min(size - bytes)
    };
    let random = pace_of(pace(&mut *disk, ModelKind::Read, bytes, until(SIM_RANDOM), random))?;
    Ok(Sizes { bytes, linear, random })
}

fn break_even_percent(sizes: &[Sizes], bytes: u64) -> Option<f64> {
    let rate = |bytes| {
        let size = sizes.iter().find(|size| size.bytes == bytes)?;
        size.random.map(|pace| pace.per_second())
    };
    Some(100.0 * (1.0 - rate(bytes * 2)? / rate(bytes)?))
}

/// The smallest size from which on all pass.
fn from_which_on(sizes: &[Sizes], passes: impl Fn(&Pace) -> bool) -> Option<f64> {
    let good = sizes.iter().rev().take_while(|size| size.linear.as_ref().is_some_and(&passes));
    good.last().map(|size| size.bytes as f64)
}

fn bandwidth_break(sizes: &[Sizes]) -> Option<f64> {
    let rates = sizes.iter().filter_map(|size| size.linear.map(|pace| pace.mib_per_second()));
    let most = rates.fold(0.0, f64::max);
    from_which_on(sizes, |pace| pace.mib_per_second() >= FULL_BANDWIDTH * most)
}

fn idle_break(sizes: &[Sizes]) -> Option<f64> {
    from_which_on(sizes, |pace| pace.idle_percent().is_some_and(|idle| idle >= IDLE_PERCENT))
}

fn table(sizes: &[Sizes]) -> String {
    use std::fmt::Write as _;
    let mut text =
        String::from("    KB/read    linear/s      MB/s  idle %    random/s      MB/s\n");
    for size in sizes {
        let show = |pace: Option<Pace>, of: fn(&Pace) -> Option<f64>, decimals: usize| {
            let value = pace.as_ref().and_then(of);
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
        };
        let _ = writeln!(
            text,
            "{:>11.2} {:>11} {:>9} {:>7} {:>11} {:>9}",
            size.bytes as f64 / 1024.0,
            show(size.linear, |p| Some(p.per_second()), 0),
            show(size.linear, |p| Some(p.mib_per_second()), 2),
            show(size.linear, Pace::idle_percent, 0),
            show(size.random, |p| Some(p.per_second()), 0),
            show(size.random, |p| Some(p.mib_per_second()), 2),
        );
    }
    text
}

fn charts(sizes: &[Sizes]) -> Vec<Chart> {
    let points = |of: fn(&Sizes) -> Option<Pace>, what: fn(&Pace) -> f64| {
        let point = |size: &Sizes| Some((size.bytes as f64, what(&of(size)?)));
        sizes.iter().filter_map(point).collect::<Vec<_>>()
    };
    let study = |what: fn(&Published) -> f64| {
        PUBLISHED.iter().map(|p| (p.bytes as f64, what(p))).collect::<Vec<_>>()
    };
    let chart = |title: &str, y: &str, measured, study| Chart {
        title: title.to_owned(),
        x: "block (bytes)".to_owned(),
        y: y.to_owned(),
        x_log: true,
        bars: false,
        series: vec![
            Series { name: "measured".to_owned(), points: measured },
            Series { name: "study".to_owned(), points: study },
        ],
    };
    let mib = |per_s: f64, bytes: u64| per_s * bytes as f64 / f64::from(1 << 20);
    vec![
        chart(
            "Reads in a row",
            "MB/s (2^20)",
            points(|size| size.linear, Pace::mib_per_second),
            study(|p| p.linear_per_s).iter().map(|(b, n)| (*b, mib(*n, *b as u64))).collect(),
        ),
        chart(
            "Reads at random",
            "reads/s",
            points(|size| size.random, Pace::per_second),
            study(|p| p.random_per_s),
        ),
    ]
}
