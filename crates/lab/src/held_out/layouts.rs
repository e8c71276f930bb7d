//! H2: 26 layouts of the same disks.
//!
//! The study (calomel.org, 2015 to 2019) runs bonnie++ on pools of 1 to 24 disks of 4 TB, in
//! stripes, mirrors and RAID-Z groups, each with a file of 16 GiB on a machine of 16 GiB: write it,
//! write it anew in place (each block read, changed and written), read it, and read blocks of it at
//! random, of which a tenth is changed and written.
//!
//! # The machine
//!
//! The first row, one disk, is given; what is predicted are ratios to it. All bytes are a
//! [`PART`]th of the study's: file, memory and dirty data. bonnie++ works with 8 KiB; here a record
//! is read or written at once, as it is on the disks. After a file was written it is made durable
//! by waiting for its txg. Of the 16 GiB of memory, 15 hold blocks that were read. It is not said
//! whether these disks cache writes: SAS disks are sold with that switched off. Processors and the
//! cable to the disks take no time, so what is faster than they were in the study is not compared:
//! writes and reads of more than six disks.

use super::machine::{
    COPY_MIB_PER_S, READ_AHEAD, disk_7200, parameters_of_2013, parameters_of_disk, tunables_of_2013,
};
use super::meaning;
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Number, Origin, Parameter};
use crate::row::{Bound, Row};
use crate::stream::{self, HOLD_TREE, RECORD_BYTES, Shape, StreamError};
use crate::target::Target;
use crate::what_if::Layout;
use engine::inside::device::{SimDisks, WriteDeviceRef};
use engine::inside::dmu::Hold;
use engine::inside::rt::{Rng as _, Rt, Xoshiro256};
use engine::inside::zpl::Volume;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "h2-layouts",
    about: "held out: 26 layouts of the same disks",
    preset: "hdd-16t",
    memory_mib: 2048,
    seconds: 36,
    on_device: OnDevice::Nothing,
    numbers: &[READ_AHEAD, MEMORY_FOR_BLOCKS.between(0.1, 1024.0)],
    run,
};

/// Bytes are this many times fewer than in the study.
const PART: u64 = 32;
/// What is written and read, in the study.
const FILE_BYTES: u64 = 16 << 30;
/// Memory of the machine, in the study.
const MEMORY_BYTES: u64 = 16 << 30;
/// What of it blocks have that were read.
const MEMORY_FOR_BLOCKS: Number =
    Number::new("memory for blocks, of that", 15.0, "GiB", Origin::Assumed);
const GIB: f64 = (1_u64 << 30) as f64;
/// Random reads, in the study.
const SEEKS: u64 = 8192;
/// Programs that do them.
const SEEKERS: usize = 5;
/// Of this many blocks that are read at random one is written.
const CHANGES: u64 = 10;
/// Bytes of one of them.
const CHUNK_BYTES: u64 = 8 << 10;
/// Bytes of a disk.
const DISK_BYTES: u64 = 4_000_787_030_016;
/// Rate of its platter outside.
const MEDIA_BYTES_PER_S: f64 = 171e6;

/// The layouts, the first of which all others are compared with, and what the study measured: the
/// columns that [`COLUMNS`] names.
const LAYOUTS: [(usize, Layout, [f64; 4]); 26] = [
    (1, Layout::Stripe, [108_834.0, 50_598.0, 204_522.0, 393.0]),
    (2, Layout::Mirror(2), [106_132.0, 50_303.0, 488_762.0, 445.7]),
    (2, Layout::Stripe, [237_933.0, 73_012.0, 434_041.0, 513.1]),
    (3, Layout::Mirror(3), [106_749.0, 49_659.0, 589_971.0, 457.3]),
    (3, Layout::Stripe, [392_378.0, 86_799.0, 474_157.0, 829.3]),
    (3, Layout::Raidz(1, 3), [225_143.0, 56_590.0, 619_315.0, 402.9]),
    (4, Layout::Mirror(2), [226_933.0, 53_878.0, 644_043.0, 427.8]),
    (4, Layout::Raidz(2, 4), [204_686.0, 54_769.0, 183_487.0, 365.5]),
    (5, Layout::Raidz(1, 5), [469_287.0, 79_083.0, 598_770.0, 561.2]),
    (5, Layout::Raidz(3, 5), [116_395.0, 45_652.0, 493_679.0, 397.7]),
    (6, Layout::Mirror(2), [389_316.0, 60_493.0, 655_534.0, 804.4]),
    (6, Layout::Raidz(2, 6), [429_953.0, 71_505.0, 488_952.0, 447.7]),
    (10, Layout::Raidz(1, 5), [675_195.0, 109_169.0, 1_012_768.0, 817.6]),
    (11, Layout::Raidz(3, 11), [552_264.0, 103_947.0, 963_511.0, 545.6]),
    (12, Layout::Mirror(2), [643_886.0, 83_717.0, 962_904.0, 1257.0]),
    (12, Layout::Raidz(2, 6), [638_918.0, 105_631.0, 990_167.0, 773.7]),
    (12, Layout::Raidz(1, 12), [689_424.0, 118_573.0, 993_618.0, 647.3]),
    (12, Layout::Raidz(2, 12), [317_741.0, 98_974.0, 1_065_349.0, 495.5]),
    (12, Layout::Raidz(3, 12), [452_865.0, 105_396.0, 840_136.0, 476.2]),
    (22, Layout::Raidz(3, 11), [567_667.0, 162_462.0, 1_139_088.0, 770.3]),
    (23, Layout::Raidz(3, 23), [440_656.0, 157_066.0, 1_146_275.0, 408.8]),
    (24, Layout::Mirror(2), [696_733.0, 144_526.0, 898_137.0, 1520.0]),
    (24, Layout::Raidz(1, 24), [567_164.0, 198_696.0, 1_304_530.0, 620.7]),
    (24, Layout::Raidz(2, 24), [434_394.0, 189_521.0, 1_063_626.0, 516.9]),
    (24, Layout::Raidz(3, 24), [405_579.0, 180_470.0, 1_117_221.0, 592.4]),
    (24, Layout::Stripe, [692_351.0, 260_259.0, 1_377_547.0, 1921.0]),
];

/// What bonnie++ prints.
const COLUMNS: [(&str, &str); 4] =
    [("write", "KiB/s"), ("rewrite", "KiB/s"), ("read", "KiB/s"), ("seeks", "/s")];

/// How near the rows have to be.
const NEAR: Bound = Bound::Within(0.25);
/// Up to this many disks, all columns are compared.
const SMALL: usize = 6;
/// Why the others are not.
const LIMITED: &str = "the study's processors or its cable were the limit";
/// Columns that are compared with more disks too.
const ALWAYS: [&str; 2] = ["rewrite", "seeks"];

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let mut rows = Vec::new();
    let mut alone = [0.0; 4];
    let named = |name: String| Series { name, points: Vec::new() };
    let mut series = COLUMNS.map(|(name, _)| named(name.to_owned()));
    let mut printed = COLUMNS.map(|(name, _)| named(format!("{name}, published")));
    let (.., single) = LAYOUTS[0];
    for (n, (disks, layout, measured)) in LAYOUTS.iter().enumerate() {
        (setting.progress)(&format!("{disks} disks, {layout}"));
        let found = simulated(*disks, *layout, setting)?;
        if n == 0 {
            alone = found;
        }
        for (column, (what, unit)) in COLUMNS.iter().enumerate() {
            let over = found[column] / alone[column];
            let place = n as f64 + 1.0;
            series[column].points.push((place, over));
            printed[column].points.push((place, measured[column] / single[column]));
            rows.push(if n == 0 {
                let name = format!("single: {what}");
                Row::predicted(name, unit, single[column], NEAR, found[column])
            } else {
                let name = format!("{disks} disks, {layout}: {what} over single");
                let measured = measured[column] / single[column];
                Row::predicted(name, "", measured, NEAR, over)
                    .follows("both rates")
                    .judged_if(*disks <= SMALL || ALWAYS.contains(what), LIMITED)
            });
        }
    }
    Ok(Outcome {
        rows,
        parameters: parameters(setting),
        charts: vec![Chart {
            title: "Each layout over one disk".to_owned(),
            x: "layout, in the order of the rows".to_owned(),
            y: "times as much".to_owned(),
            x_log: false,
            bars: false,
            series: series.into_iter().chain(printed).collect(),
        }],
        meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    })
}

/// Bytes of the file: whole MiB.
fn file_bytes(setting: &Setting) -> u64 {
    let part = (FILE_BYTES / PART) as f64 * setting.scale.clamp(0.01, 1.0);
    (part as u64 >> 20).max(1) << 20
}

/// The columns of a layout.
fn simulated(disks: usize, layout: Layout, setting: &Setting) -> Result<[f64; 4], StreamError> {
    let file_bytes = file_bytes(setting);
    // Bytes of the study here.
    let here = |bytes: u64| (bytes as f64 / FILE_BYTES as f64 * file_bytes as f64) as u64;
    Rt::simulate(setting.seed, |rt| {
        let site = SimDisks::new(rt);
        let preset = disk_7200(DISK_BYTES, MEDIA_BYTES_PER_S, 1.0);
        let disks = preset.devices(&site, "disk", disks, DISK_BYTES, setting.seed);
        let named = disks.into_iter().enumerate();
        let named = named.map(|(n, disk)| (format!("disk{n:02}"), disk as WriteDeviceRef));
        let mut tunables = tunables_of_2013(MEMORY_BYTES / 10);
        tunables.push(format!("zfs_dirty_data_max={}", here(MEMORY_BYTES / 10).max(1 << 20)));
        let shape = Shape {
            volumes: 1,
            volume_bytes: file_bytes,
            record: RECORD_BYTES,
            cache_bytes: here((setting.number(&MEMORY_FOR_BLOCKS) * GIB) as u64) as usize,
            read_ahead_bytes: (setting.number(&READ_AHEAD) as u64) << 20,
            tunables: &tunables,
        };
        let pool = stream::pool_of(rt, layout.tops(named.collect()), &shape)?;
        let file = pool.volume("h/w0")?;
        pool.sync()?;
        let bonnie = Bonnie { rt, file: &file, records: file_bytes / u64::from(RECORD_BYTES) };
        let rate = |took: Duration| file_bytes as f64 / 1024.0 / took.as_secs_f64().max(1e-9);
        let write = bonnie.timed(|| {
            bonnie.pass(false, true)?;
            Ok(pool.sync()?)
        })?;
        let rewrite = bonnie.timed(|| {
            bonnie.pass(true, true)?;
            Ok(pool.sync()?)
        })?;
        let read = bonnie.timed(|| bonnie.pass(true, false))?;
        let seeks = here(SEEKS).max(SEEKERS as u64);
        let seek = bonnie.timed(|| bonnie.seeks(seeks, setting.seed))?;
        pool.close()?;
        let per_second = seeks as f64 / seek.as_secs_f64().max(1e-9);
        Ok([rate(write), rate(rewrite), rate(read), per_second])
    })
}

/// The program.
struct Bonnie<'a> {
    rt: &'a Rt,
    file: &'a Volume,
    records: u64,
}

impl Bonnie<'_> {
    fn timed(
        &self,
        act: impl FnOnce() -> Result<(), StreamError>,
    ) -> Result<Duration, StreamError> {
        let began = self.rt.now();
        act()?;
        Ok(self.rt.now() - began)
    }

    /// The time of the program's own copy.
    fn copy(&self, bytes: u64) {
        let mib = bytes as f64 / f64::from(1 << 20);
        self.rt.sleep(Duration::from_secs_f64(mib / COPY_MIB_PER_S));
    }

    /// Every record: read, written, or both.
    fn pass(&self, reads: bool, writes: bool) -> Result<(), StreamError> {
        let record = u64::from(RECORD_BYTES);
        let zeros = stream::zeros(RECORD_BYTES);
        for number in 0..self.records {
            if reads {
                self.file.object().touch(number * record, record)?;
                self.copy(record);
            }
            if writes {
                self.copy(record);
                stream::write_record(self.file, number, &zeros)?;
            }
        }
        Ok(())
    }

    /// Blocks at random, shared out among the programs.
    fn seeks(&self, count: u64, seed: u64) -> Result<(), StreamError> {
        let each = count / SEEKERS as u64;
        let chunks = self.records * u64::from(RECORD_BYTES) / CHUNK_BYTES;
        let object = self.file.object();
        self.rt.for_each_parallel(SEEKERS, 0..SEEKERS as u64, |seeker| {
            let mut rng = Xoshiro256::seeded(seed.wrapping_add(seeker << 32));
            let zeros = vec![0; CHUNK_BYTES as usize];
            for number in 0..each {
                let offset = rng.below(chunks) * CHUNK_BYTES;
                object.touch(offset, CHUNK_BYTES)?;
                self.copy(CHUNK_BYTES);
                if number % CHANGES == CHANGES - 1 {
                    let hold = Hold::write(u64::from(RECORD_BYTES) + HOLD_TREE);
                    let tx = object.objset().begin(hold)?;
                    object.write_at(&tx, offset, &zeros)?;
                }
            }
            Ok::<(), StreamError>(())
        })
    }
}

fn parameters(setting: &Setting) -> Vec<Parameter> {
    let of = |name: &str, value: f64, unit, origin| Parameter::new(name, value, unit, origin);
    let gib = |bytes: u64| (bytes >> 30) as f64;
    let record = f64::from(RECORD_BYTES >> 10);
    let mut all = vec![
        of("file", gib(FILE_BYTES), "GiB", Origin::Study),
        of("memory of the machine", gib(MEMORY_BYTES), "GiB", Origin::Study),
        of("part of all bytes that is simulated", 1.0 / PART as f64, "", Origin::Assumed),
        setting.parameter(&MEMORY_FOR_BLOCKS),
        of("record: the default, says the study", record, "KiB", Origin::Study),
        of("disk: rotations", 7200.0, "/min", Origin::Study),
        of("disk: rate of the platter", MEDIA_BYTES_PER_S / 1e6, "MB/s", Origin::Assumed),
        of("programs that seek", SEEKERS as f64, "", Origin::Assumed),
        of("random reads", SEEKS as f64, "", Origin::Assumed),
        of("rate of a copy", COPY_MIB_PER_S, "MiB/s", Origin::Assumed),
        setting.parameter(&READ_AHEAD),
    ];
    all.extend(parameters_of_disk(Origin::Assumed));
    all.extend(parameters_of_2013());
    all
}
