//! indirect: what the size of indirect blocks costs and brings.
//!
//! The fifth study (illumos bug 7104) read a file of ten million blocks of 8 KiB at random, with
//! cold metadata, once with indirect blocks of 16 KiB and once of 128 KiB, and counted what the
//! disks read at each level of the tree:
//!
//! ```text
//! case 1   9,700 reads, each at a multiple of 1024 blocks    every read needs an L1 of its own
//! case 2   97,000 reads, each at a multiple of 128 blocks    eight places share an L1 of 128 KiB
//! ```
//!
//! Here the engine makes that file (`world.rs`) and reads it by 16 threads (`reads.rs`) on three
//! simulated disks. Then it does what goes through all metadata (`chores.rs`), on a tenth of the
//! file, and overwrites files on full pools (`writes.rs`), at a two hundredth.
//!
//! [`Setting::scale`] is a part of the file, of the reads, and of the disks, so that seeks are as
//! long as in the study. Rates stay within a sixth of what they are; I/Os and KiB become that part,
//! but for what chance does to few places: `n` reads hit so many different ones give or take a root
//! of them. So below the full size only counts of thousands are judged, nothing else, and nothing
//! is overwritten.
//!
//! In a pool (`in_pool.rs`) the same file is made and read there.

mod chores;
mod in_pool;
mod published;
mod reads;
mod world;
mod writes;

use crate::experiment::{
    Bound, Chart, Experiment, LabError, OnDevice, Outcome, Row, Series, Setting,
};
use crate::target::Target;
use chores::Chore;
use published::{BLOCKS, GAIN_PERCENT, READS};
use reads::{Case, Measured};
use std::fmt::Write as _;
use world::{Image, Plan};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "indirect",
    about: "random reads of a large file by the size of its indirect blocks",
    preset: "indirect-study",
    on_device: OnDevice::MakesPool,
    run,
};

/// Disks of the study, and bytes of each.
const DISKS: usize = 3;
const DISK_BYTES: u64 = 100_000_000_000;
/// Threads that read.
const READERS: usize = 16;
/// So many I/Os are within 2 % of what is expected, whatever places chance chooses.
const COUNTABLE: f64 = 5000.0;
/// Chores are done on this part of the file.
const CHORES_PART: u64 = 10;
/// But no smaller than this.
const CHORES_SMALLEST: u64 = 20_000;
/// Smallest part of the file that still has the shape of its tree.
const SMALLEST: f64 = 1.0 / 200.0;

/// The two sizes of indirect blocks, in bits.
const SHIFTS: [u8; 2] = [14, 17];

fn kib(shift: u8) -> u64 {
    1 << (shift - 10)
}

fn failed(doing: &str) -> impl Fn(world::Error) -> LabError + '_ {
    move |why| LabError::new(doing, why)
}

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    if !matches!(target, Target::Sim(_)) {
        return in_pool::run(target, setting);
    }
    let none = || LabError::new("no simulated disk", EXPERIMENT.preset);
    let preset = target.preset(&EXPERIMENT).ok_or_else(none)?;
    let part = setting.scale.clamp(SMALLEST, 1.0);
    let blocks = (BLOCKS as f64 * part) as u64;
    let mut measured = Vec::new();
    for shift in SHIFTS {
        (setting.progress)(&format!("a file of {blocks} blocks, indirect {} KiB", kib(shift)));
        let image = make(blocks, shift, setting.seed).map_err(failed("cannot make the file"))?;
        for p in READS.iter().filter(|p| p.indirect_kib == kib(shift)) {
            (setting.progress)(&format!("reads at every {}th block", p.alignment));
            let case = case(p, blocks, setting);
            let m = reads::run(image.fork(), &preset, case);
            measured.push((p, case, m.map_err(failed("cannot read the file"))?));
        }
    }
    // As published: by case, then by size.
    measured.sort_by_key(|(p, ..)| (p.reads, p.indirect_kib));
    let judged = target.is_the_study_s(&EXPERIMENT);
    let mut rows = Vec::new();
    for (p, case, m) in &measured {
        read_rows(&mut rows, p, case, m, part, judged);
    }
    gain_rows(&mut rows, &measured, part >= 1.0 && judged);
    let mut texts =
        vec![("Read from the disks, as the study prints it".to_owned(), study(&measured))];
    let fewer = (blocks / CHORES_PART).max(CHORES_SMALLEST);
    let tell = |what: &str| (setting.progress)(&format!("{what} of a file of {fewer} blocks"));
    let chores =
        chores::run(fewer, &preset, setting.seed, &tell).map_err(failed("cannot do the chores"))?;
    chores::rows(&mut rows, fewer, &chores, part >= 1.0 && judged);
    if part >= 1.0 {
        let tell = |what: &str| (setting.progress)(&format!("random writes, {what}"));
        let (writes, failures) = writes::run(&preset, setting.seed, &tell);
        writes::rows(&mut rows, &writes, judged);
        // Only shown: that one fails must not take the other rows away.
        if !failures.is_empty() {
            let text = failures.join("\n") + "\n";
            texts.push(("Random writes that failed".to_owned(), text));
        }
    }
    texts.push(("How it was made".to_owned(), how(blocks)));
    let meaning = meaning(&measured, &chores);
    let charts = vec![chart(&measured)];
    let place = target.describe(&EXPERIMENT);
    Ok(Outcome { experiment: EXPERIMENT.name, place, rows, charts, texts, meaning })
}

/// A case of the study with a file of so many blocks, and as many reads as go with them.
fn case(p: &published::Read, blocks: u64, setting: &Setting) -> Case {
    let reads = (p.reads as f64 * blocks as f64 / BLOCKS as f64) as u64;
    let (alignment, threads, seed) = (p.alignment, READERS, setting.seed);
    Case { reads: reads.max(1), alignment, threads, blocks, seed }
}

fn make(blocks: u64, indirect_shift: u8, seed: u64) -> world::Result<Image> {
    let disk_bytes = (DISK_BYTES as f64 * blocks as f64 / BLOCKS as f64) as u64;
    let (disks, disk_bytes) = (DISKS, disk_bytes.next_multiple_of(1 << 20));
    world::make(Plan { blocks, indirect_shift, disks, disk_bytes, seed })
}

fn read_rows(
    rows: &mut Vec<Row>,
    p: &published::Read,
    case: &Case,
    m: &Measured,
    part: f64,
    judged: bool,
) {
    let name =
        |what: &str| format!("{} KiB, every {}th block: {what}", p.indirect_kib, p.alignment);
    for level in 0..3u8 {
        let count = m.level(level);
        let (ios, kib) = (p.ios[usize::from(level)], p.kib[usize::from(level)]);
        let scales = part >= 1.0 || ios * part >= COUNTABLE;
        let within = |part| if scales && judged { Bound::Within { part } } else { Bound::Shown };
        rows.push(Row {
            row: name(&format!("L{level}")),
            unit: "I/Os",
            published: Some(ios * part),
            measured: count.ios as f64,
            bound: within(0.02),
        });
        rows.push(Row {
            row: name(&format!("L{level}")),
            unit: "KiB",
            published: Some(kib * part),
            measured: count.bytes as f64 / 1024.0,
            bound: within(0.15),
        });
    }
    let full = part >= 1.0 && judged;
    rows.push(Row {
        row: name("rate"),
        unit: "reads/s",
        published: Some(p.iops),
        measured: rate(case, m),
        bound: if full { Bound::Within { part: 0.1 } } else { Bound::Shown },
    });
}

/// Reads of the application in a second, those that the cache answered included.
fn rate(case: &Case, m: &Measured) -> f64 {
    case.reads as f64 / m.took.as_secs_f64().max(1e-9)
}

type All<'a> = [(&'a published::Read, Case, Measured)];

/// By how much the larger blocks read faster, per case: as a ratio.
fn gains(measured: &All<'_>) -> Vec<(u64, f64)> {
    let pairs = measured.chunks_exact(2);
    let gain = |pair: &All<'_>| {
        let rates: Vec<f64> = pair.iter().map(|(_, case, m)| rate(case, m)).collect();
        (pair[0].0.alignment, rates[1] / rates[0])
    };
    pairs.map(gain).collect()
}

fn gain_rows(rows: &mut Vec<Row>, measured: &All<'_>, judged: bool) {
    for ((alignment, gain), percent) in gains(measured).into_iter().zip(GAIN_PERCENT) {
        rows.push(Row {
            row: format!("128 KiB over 16 KiB, every {alignment}th block: rate"),
            unit: "times",
            published: Some(1.0 + percent / 100.0),
            measured: gain,
            bound: if judged { Bound::Within { part: 0.1 } } else { Bound::Shown },
        });
    }
}

/// The counts as the study prints them.
fn study(measured: &All<'_>) -> String {
    let mut out = String::new();
    for (p, case, m) in measured {
        let _ = writeln!(
            out,
            "number of reads = {}; alignment = {} blocks; indirect={}K; perf={:.0} IOPS",
            case.reads,
            case.alignment,
            p.indirect_kib,
            rate(case, m),
        );
        let _ = writeln!(out, "read i/os issued to disks:");
        for row in m.stats.rows() {
            let _ = writeln!(out, "{:8} [{row}]", row.read.ios);
        }
        let _ = writeln!(out, "KB read from disks (total):");
        for row in m.stats.rows() {
            let _ = writeln!(out, "{:8} [{row}]", row.read.bytes / 1024);
        }
    }
    out
}

fn how(blocks: u64) -> String {
    format!(
        "Three disks of {} GB side by side, ashift 9. A file of {blocks} blocks of 8 KiB of \
         zeros,\n\
         compression off, so that they are stored; metadata compressed with LZ4, two copies.\n\
         That is what the study's KiB per indirect block ask for: its L1 blocks take 5 to 8 bytes\n\
         for a pointer, so pointers differ in the address only, and LZJB does not get there; its\n\
         L2 blocks take 54 to 56, so neighbouring L1 blocks lie apart and are of different txgs:\n\
         the file was written in {} places at once, 64 MiB a txg. The cache is empty at first and\n\
         then holds all that is read: the study's L0 counts are those of different places.\n",
        DISK_BYTES / 1_000_000_000,
        world::WRITERS,
    )
}

fn chart(measured: &All<'_>) -> Chart {
    let series = |kib: u64| Series {
        name: format!("indirect {kib} KiB"),
        points: measured
            .iter()
            .filter(|(p, ..)| p.indirect_kib == kib)
            .map(|(p, case, m)| (p.alignment as f64, rate(case, m)))
            .rev()
            .collect(),
    };
    Chart {
        title: "Random 8 KiB reads with cold metadata".to_owned(),
        x: "places are multiples of so many blocks".to_owned(),
        y: "reads/s".to_owned(),
        x_log: true,
        bars: false,
        series: SHIFTS.map(|s| series(kib(s))).into(),
    }
}

/// By how many percent the larger blocks read faster: worst and best case.
fn percents(measured: &All<'_>) -> [f64; 2] {
    let gains = gains(measured);
    [0, 1].map(|at: usize| gains.get(at).map_or(0.0, |(_, g)| (g - 1.0) * 100.0))
}

fn meaning(measured: &All<'_>, chores: &[Chore]) -> String {
    let [alone, shared] = percents(measured);
    format!(
        "Leave indirect blocks at 128 KiB (zfs_default_ibs=17): with cold metadata random reads \
         are {alone:.0} % faster than with 16 KiB where every read needs a pointer block of its \
         own, and {shared:.0} % where reads share them, because one larger read replaces eight. \
         What goes through all metadata is so many times as fast: {}.",
        chores::gains(chores),
    )
}
