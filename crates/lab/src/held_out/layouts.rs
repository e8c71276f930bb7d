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
//! is read or written at once, as it is on the disks. After a file was written it is made durable by
//! waiting for its txg. Of the 16 GiB of memory, 15 hold blocks that were read. Nobody knows
//! whether these disks cache writes: SAS disks are sold with that switched off. Processors and the
//! cable to the disks take no time, so what is faster than they were in the study is not compared:
//! writes and reads of more than six disks.

use super::machine::{
    COPY_MIB_PER_S, disk_7200, parameters_of_2013, parameters_of_disk, tunables_of_2013,
};
use super::{Published, meaning, row};
use crate::experiment::{Chart, Experiment, LabError, OnDevice, Outcome, Series, Setting};
use crate::parameter::{Origin, Parameter};
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
    seeds: 5,
    on_device: OnDevice::Nothing,
    run,
};

/// Bytes are so many times fewer than in the study.
const PART: u64 = 32;
/// What is written and read, in the study.
const FILE_BYTES: u64 = 16 << 30;
/// Memory of the machine, in the study.
const MEMORY_BYTES: u64 = 16 << 30;
/// What of it blocks have that were read.
const CACHE_BYTES: u64 = 15 << 30;
/// Random reads, in the study.
const SEEKS: u64 = 8192;
/// Programs that do them.
const SEEKERS: usize = 5;
/// Of so many blocks that are read at random one is written.
const CHANGES: u64 = 10;
/// Bytes of one of them.
const CHUNK_BYTES: u64 = 8 << 10;
/// Bytes of a disk.
const DISK_BYTES: u64 = 4_000_787_030_016;
/// Rate of its platter outside.
const MEDIA_BYTES_PER_S: f64 = 171e6;

/// The layouts, the first of which all others are compared with.
const LAYOUTS: [(usize, Layout); 26] = [
    (1, Layout::Stripe),
    (2, Layout::Mirror(2)),
    (2, Layout::Stripe),
    (3, Layout::Mirror(3)),
    (3, Layout::Stripe),
    (3, Layout::Raidz(1, 3)),
    (4, Layout::Mirror(2)),
    (4, Layout::Raidz(2, 4)),
    (5, Layout::Raidz(1, 5)),
    (5, Layout::Raidz(3, 5)),
    (6, Layout::Mirror(2)),
    (6, Layout::Raidz(2, 6)),
    (10, Layout::Raidz(1, 5)),
    (11, Layout::Raidz(3, 11)),
    (12, Layout::Mirror(2)),
    (12, Layout::Raidz(2, 6)),
    (12, Layout::Raidz(1, 12)),
    (12, Layout::Raidz(2, 12)),
    (12, Layout::Raidz(3, 12)),
    (22, Layout::Raidz(3, 11)),
    (23, Layout::Raidz(3, 23)),
    (24, Layout::Mirror(2)),
    (24, Layout::Raidz(1, 24)),
    (24, Layout::Raidz(2, 24)),
    (24, Layout::Raidz(3, 24)),
    (24, Layout::Stripe),
];

/// What bonnie++ prints.
const COLUMNS: [(&str, &str); 4] =
    [("write", "KiB/s"), ("rewrite", "KiB/s"), ("read", "KiB/s"), ("seeks", "/s")];

/// What the study measured.
const PUBLISHED: &[Published] = &[];

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let mut rows = Vec::new();
    let mut single = [0.0; 4];
    let mut series = COLUMNS.map(|(name, _)| Series { name: name.to_owned(), points: Vec::new() });
    for (n, (disks, layout)) in LAYOUTS.iter().enumerate() {
        (setting.progress)(&format!("{disks} disks, {layout}"));
        let found = simulated(*disks, *layout, setting)?;
        for (column, (name, unit)) in COLUMNS.iter().enumerate() {
            if n == 0 {
                single = found;
                rows.push(row(PUBLISHED, &format!("single: {name}"), unit, found[column]));
            } else {
                let over = found[column] / single[column];
                let name = format!("{disks} disks, {layout}: {name} over single");
                rows.push(row(PUBLISHED, &name, "", over));
            }
            series[column].points.push((n as f64 + 1.0, found[column] / single[column]));
        }
    }
    Ok(Outcome {
        rows,
        parameters: parameters(),
        charts: vec![Chart {
            title: "Each layout over one disk".to_owned(),
            x: "layout, in the order of the rows".to_owned(),
            y: "times as much".to_owned(),
            x_log: false,
            bars: false,
            series: series.into(),
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
        tunables.push(format!("zfs_dirty_data_max={}", here(MEMORY_BYTES / 10)));
        let shape = Shape {
            volumes: 1,
            volume_bytes: file_bytes,
            record: RECORD_BYTES,
            cache_bytes: here(CACHE_BYTES) as usize,
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
        let mut buffer = vec![0; RECORD_BYTES as usize];
        let zeros = stream::zeros(RECORD_BYTES);
        for number in 0..self.records {
            if reads {
                self.file.object().read_at(number * record, &mut buffer)?;
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
            let mut buffer = vec![0; CHUNK_BYTES as usize];
            for number in 0..each {
                let offset = rng.below(chunks) * CHUNK_BYTES;
                object.read_at(offset, &mut buffer)?;
                self.copy(CHUNK_BYTES);
                if number % CHANGES == CHANGES - 1 {
                    let hold = Hold::write(u64::from(RECORD_BYTES) + HOLD_TREE);
                    let tx = object.objset().begin(hold)?;
                    object.write_at(&tx, offset, &buffer)?;
                }
            }
            Ok::<(), StreamError>(())
        })
    }
}

fn parameters() -> Vec<Parameter> {
    let of = |name: &str, value: f64, unit, origin| Parameter::new(name, value, unit, origin);
    let gib = |bytes: u64| (bytes >> 30) as f64;
    let mut all = vec![
        of("file", gib(FILE_BYTES), "GiB", Origin::Study),
        of("memory of the machine", gib(MEMORY_BYTES), "GiB", Origin::Study),
        of("part of all bytes that is simulated", 1.0 / PART as f64, "", Origin::Assumed),
        of("memory for blocks, of that", gib(CACHE_BYTES), "GiB", Origin::Assumed),
        of("record", f64::from(RECORD_BYTES >> 10), "KiB", Origin::Study),
        of("disk: rotations", 7200.0, "/min", Origin::Study),
        of("disk: rate of the platter", MEDIA_BYTES_PER_S / 1e6, "MB/s", Origin::Assumed),
        of("programs that seek", SEEKERS as f64, "", Origin::Assumed),
        of("random reads", SEEKS as f64, "", Origin::Assumed),
        of("rate of a copy", COPY_MIB_PER_S, "MiB/s", Origin::Assumed),
    ];
    all.extend(parameters_of_disk());
    all.extend(parameters_of_2013());
    all
}
