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
//! simulated disks; a tenth of it also with the sizes between (`between.rs`). Then it does what
//! goes through all metadata (`chores.rs`), on a tenth of the file, and overwrites files on full
//! pools (`writes.rs`), at a two hundredth.
//!
//! [`Setting::scale`] is a part of the file, of the reads, and of the disks, so that seeks are as
//! long as in the study. Rates stay within a sixth of what they are; I/Os and KiB become that part,
//! but for what chance does to few places: `n` reads hit this many different ones give or take a
//! root of them. So below the full size only counts of thousands are judged, nothing else, and
//! nothing is overwritten.
//!
//! In a pool (`in_pool.rs`) the same file is made and read there.

mod between;
mod chores;
mod in_pool;
mod published;
mod reads;
mod rows;
mod world;
mod writes;

use crate::disk::Preset;
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Origin, Parameter};
use crate::target::Target;
use published::{BLOCKS, READS};
use reads::{Case, Measured};
use std::fmt::Write as _;
use world::{Image, Plan};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "indirect",
    about: "random reads of a large file by the size of its indirect blocks",
    preset: "indirect-study",
    memory_mib: 8192,
    seconds: 110,
    on_device: OnDevice::MakesPool,
    numbers: &writes::NUMBERS,
    run,
};

/// Disks of the study, and bytes of each.
const DISKS: usize = 3;
const DISK_BYTES: u64 = 100_000_000_000;
/// Threads that read.
const READERS: usize = 16;
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
        let image = make(blocks, shift, setting).map_err(failed("cannot make the file"))?;
        for p in READS.iter().filter(|p| p.indirect_kib == kib(shift)) {
            (setting.progress)(&format!("reads at every {}th block", p.alignment));
            let case = case(p, blocks, setting);
            let m = reads::run(image.fork(), &preset, case);
            measured.push((p, case, m.map_err(failed("cannot read the file"))?));
        }
    }
    // As published: by case, then by size.
    measured.sort_by_key(|(p, ..)| (p.reads, p.indirect_kib));
    let mut rows = rows::of_reads(&measured, part);
    let mut texts =
        vec![("Read from the disks, as the study prints it".to_owned(), study(&measured))];
    let (between, made) = between::rows((blocks, part), &preset, setting)?;
    rows.extend(between);
    let fewer = (blocks / CHORES_PART).max(CHORES_SMALLEST);
    let tell = |what: &str| (setting.progress)(&format!("{what} of a file of {fewer} blocks"));
    let chores = chores::run(fewer, made, &preset, setting, &tell)
        .map_err(failed("cannot do the chores"))?;
    chores::rows(&mut rows, fewer, &chores, part >= 1.0);
    if part >= 1.0 {
        let tell = |what: &str| (setting.progress)(&format!("random writes, {what}"));
        let (writes, failures) = writes::run(&preset, setting, &tell);
        writes::rows(&mut rows, &writes);
        // That one fails must not take the other rows away.
        if !failures.is_empty() {
            let text = failures.join("\n") + "\n";
            texts.push(("Random writes that failed".to_owned(), text));
        }
    }
    rows.push(rows::slower(&rows, part));
    texts.push(("How it was made".to_owned(), how(blocks)));
    let outcome = Outcome {
        rows,
        parameters: parameters(&preset, part, setting),
        charts: vec![chart(&measured)],
        texts,
        meaning: rows::meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    };
    Ok(if target.is_the_study_s(&EXPERIMENT) { outcome } else { outcome.elsewhere() })
}

/// What the model was given.
fn parameters(preset: &Preset, part: f64, setting: &Setting) -> Vec<Parameter> {
    let mut all = preset.parameters();
    let counts = Origin::Fitted("L0, I/Os: places that are different");
    all.extend([
        Parameter::new("disks", DISKS as f64, "", Origin::Study),
        Parameter::new("blocks of the file", BLOCKS as f64, "", Origin::Study),
        Parameter::new("threads that read", READERS as f64, "", Origin::Study),
        Parameter::choice("cache of the reads", "holds all that is read", counts),
        Parameter::choice("compression of metadata", "lz4", Origin::Fitted("L1, KiB")),
        Parameter::choice("contents of the file", "equal blocks", Origin::Fitted("L1, KiB")),
        Parameter::new(
            "places at which the file is written at once",
            world::WRITERS as f64,
            "",
            Origin::Fitted("L2, KiB"),
        ),
        Parameter::new("threads that write", writes::WRITERS as f64, "", Origin::Study),
        Parameter::new(
            "compression of what is written with lz4",
            published::WRITES[1].compress_ratio,
            "times",
            Origin::Study,
        ),
    ]);
    all.extend(writes::NUMBERS.iter().map(|number| setting.parameter(number)));
    all.push(setting.part("part of the study's file", part, ""));
    all
}

/// A case of the study with a file of this many blocks, and as many reads as go with them.
fn case(p: &published::Read, blocks: u64, setting: &Setting) -> Case {
    let reads = (p.reads as f64 * blocks as f64 / BLOCKS as f64) as u64;
    let (alignment, threads, seed) = (p.alignment, READERS, setting.seed);
    Case { reads: reads.max(1), alignment, threads, blocks, seed }
}

/// Disks with the file. The seed would decide nothing of it but guids: one thread writes it, to
/// devices that take no time. So it is made once for all seeds.
fn make(blocks: u64, indirect_shift: u8, setting: &Setting) -> world::Result<Image> {
    let disk_bytes = (DISK_BYTES as f64 * blocks as f64 / BLOCKS as f64) as u64;
    let (disks, disk_bytes) = (DISKS, disk_bytes.next_multiple_of(1 << 20));
    let plan = Plan { blocks, indirect_shift, disks, disk_bytes };
    let key = format!("indirect: {plan:?}");
    let disks = setting.images.get(key, || world::make(plan).map(|image| image.disks))?;
    Ok(Image { disks })
}

/// Reads of the application in a second, those that the cache answered included.
fn rate(case: &Case, m: &Measured) -> f64 {
    case.reads as f64 / m.took.as_secs_f64().max(1e-9)
}

/// Every row that has a published value, of nothing that was measured.
#[cfg(test)]
pub(crate) fn sample() -> Vec<crate::row::Row> {
    let took = std::time::Duration::from_secs(1);
    let nothing = || Measured { took, stats: Default::default() };
    let all: Vec<_> =
        READS.iter().map(|p| (p, case(p, BLOCKS, &Setting::default()), nothing())).collect();
    let mut rows = rows::of_reads(&all, 1.0);
    rows.push(between::of_steps(0, 1.0));
    rows.extend(writes::sample());
    rows.push(rows::slower(&rows, 1.0));
    rows
}

type All<'a> = [(&'a published::Read, Case, Measured)];

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
    let printed = |kib: u64| Series {
        name: format!("indirect {kib} KiB, published"),
        points: READS
            .iter()
            .filter(|p| p.indirect_kib == kib)
            .map(|p| (p.alignment as f64, p.iops))
            .rev()
            .collect(),
    };
    Chart {
        title: "Random 8 KiB reads with cold metadata".to_owned(),
        x: "places are multiples of this many blocks".to_owned(),
        y: "reads/s".to_owned(),
        x_log: true,
        bars: false,
        series: SHIFTS.iter().flat_map(|s| [series(kib(*s)), printed(kib(*s))]).collect(),
    }
}
