//! Random overwrites on full, fragmented pools, at a two hundredth of the study's size.
//!
//! Disks, files, and the dirty data that may gather are all that part of the study's, so that a txg
//! rewrites as large a part of the indirect blocks as there: disks of 500 MB, files of 1.2 and
//! 3.3 GB, and 20 MiB of dirty data, a two hundredth of the 4 GiB that OpenZFS allowed at most. How
//! much memory its machine had the study does not say; here all indirect blocks have room in it.
//! Both assumptions decide the rates, see docs/lab. A file is made, and as many blocks as it has
//! are overwritten at random, by which free space becomes what it becomes. Then four threads
//! overwrite 8 KiB at a time on timed disks, and are slowed down by the throttle until they write
//! as fast as the disks do; from there on it is timed.
//!
//! Blocks are zeros in the case without compression, as in the file that is read (`world.rs`). In
//! the other, they compress as the study's did. The file is as large as fills the disks, with its
//! metadata, as far as the study says: its 700 GB would fill more than its 75 %.
//!
//! What does not scale: what a txg costs whatever is in it, which is too much here.

use super::published::{WRITES, Write};
use super::reads::disks;
use super::rows::of_gain;
use super::world::{self, DATASET, FILE, Image, RECORD, Result};
use super::{SHIFTS, kib};
use crate::content::{CONTENTS, contents, packed};
use crate::disk::Preset;
use crate::experiment::Setting;
use crate::parameter::{Number, Origin};
use crate::row::{Bound, Row};
use engine::Filesystem;
use engine::inside::device::{MemoryDevice, SimDisks, WriteDeviceRef};
use engine::inside::dmu::{Hold, Object};
use engine::inside::rt::{Rng, Rt, Xoshiro256};
use engine::inside::zio::Block;
use engine::live::{LivePool, TxgLimits};
use std::sync::Arc;
use std::time::Duration;

/// Part of the study's disks and files.
pub(super) const SCALE: u64 = 200;
const DISK_BYTES: u64 = super::DISK_BYTES / SCALE;
/// Threads that write.
pub(super) const WRITERS: u64 = 4;
/// Dirty data: what OpenZFS allowed.
const DIRTY: Number =
    Number::new("dirty data of the writes, of the whole machine", 4096.0, "MiB", Origin::Assumed)
        .between(10.0, 1e6);
/// Memory for blocks: more than all metadata.
const MEMORY: Number = Number::new(
    "memory for blocks of the writes, of the whole machine",
    102_400.0,
    "MiB",
    Origin::Assumed,
);
/// How often as many blocks as the file has are overwritten before it is timed.
const AGE: Number =
    Number::new("overwrites before the writes are timed", 1.0, "files", Origin::Assumed)
        .between(0.0, 1000.0);
/// The checksums in an indirect block repeat after as many, and compress.
const DIFFERENT: Number = Number::whole(
    "different contents of the records that are written",
    CONTENTS as f64,
    "",
    Origin::Assumed,
)
.between(1.0, 1e6);
/// What of this a run can have otherwise.
pub(super) const NUMBERS: [Number; 4] = [DIRTY, MEMORY, AGE, DIFFERENT];
/// Blocks of a txg while the file is made and made old.
const BATCH: u64 = (4 << 20) / RECORD;
/// Timed writes.
const TIMED: u64 = 20_000;

/// What one case gave with one size of indirect blocks.
pub(super) struct Written {
    case: &'static Write,
    size: usize,
    blocks: u64,
    took: Duration,
    allocated_percent: f64,
    fragmentation_percent: f64,
}

impl Written {
    /// Writes in a second.
    fn rate(&self) -> f64 {
        TIMED as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// All cases, and why those that are missing could not be done.
pub(super) fn run(
    preset: &Preset,
    setting: &Setting,
    progress: &dyn Fn(&str),
) -> (Vec<Written>, Vec<String>) {
    let (mut out, mut failed) = (Vec::new(), Vec::new());
    let machine = Machine::of(preset, setting);
    for case in &WRITES {
        let both = SHIFTS.into_iter().enumerate().map(|(size, shift)| {
            let what = format!("compression={}, {} KiB", case.compression, kib(shift));
            progress(&what);
            let machine = machine.clone();
            world::simulate(setting.seed, move |rt| one(rt, &machine, case, size))
                .map_err(|why| format!("{what}: {why}"))
        });
        match both.collect::<std::result::Result<Vec<_>, _>>() {
            Ok(both) => out.extend(both),
            Err(why) => failed.push(why),
        }
    }
    (out, failed)
}

/// What it is measured on: the study's, a two hundredth of it.
#[derive(Clone)]
struct Machine {
    preset: Preset,
    /// Bytes of dirty data.
    dirty_max: u64,
    /// Bytes of memory for blocks.
    cache_bytes: usize,
    age: f64,
    contents: u64,
    seed: u64,
}

impl Machine {
    fn of(preset: &Preset, setting: &Setting) -> Self {
        let bytes = |number| (setting.number(number) * f64::from(1 << 20)) as u64 / SCALE;
        Self {
            preset: preset.clone(),
            dirty_max: bytes(&DIRTY),
            cache_bytes: bytes(&MEMORY) as usize,
            age: setting.number(&AGE),
            contents: setting.number(&DIFFERENT) as u64,
            seed: setting.seed,
        }
    }
}

/// Writes blocks of the file.
#[derive(Clone)]
struct BlockWriter {
    fs: Filesystem,
    object: Object,
    contents: Arc<Vec<Arc<Block>>>,
    blocks: u64,
}

impl BlockWriter {
    fn write(&self, first: u64, count: u64) -> Result<()> {
        let tx = self.fs.begin(Hold::write(count * RECORD))?;
        for block in first..(first + count).min(self.blocks) {
            let content = block.wrapping_mul(31) % self.contents.len() as u64;
            let content = &self.contents[content as usize];
            self.object.write_shared(&tx, block, content)?;
        }
        Ok(())
    }

    fn scribble(&self, rng: &mut Xoshiro256, writes: u64) -> Result<()> {
        (0..writes).try_for_each(|_| self.write(rng.below(self.blocks), 1))
    }
}

/// A full pool that has become old.
struct Aged {
    image: Image,
    /// Blocks of its file.
    blocks: u64,
    contents: Vec<Arc<Block>>,
    /// Decides what is written next.
    rng: Xoshiro256,
}

fn aged(rt: &Rt, machine: &Machine, case: &'static Write, size: usize) -> Result<Aged> {
    world::by_one_thread(rt, true);
    let mut rng = Xoshiro256::seeded(machine.seed);
    let memory: Vec<_> = (0..super::DISKS)
        .map(|n| Arc::new(MemoryDevice::zeros(&world::name(n), DISK_BYTES)))
        .collect();
    let devices: Vec<WriteDeviceRef> = memory.iter().map(|d| Arc::clone(d) as _).collect();
    let pool = world::create_pool(rt, &devices, case.compression)?;
    let bytes = (super::DISKS as u64 * DISK_BYTES) as f64 * case.compress_ratio;
    let most = (bytes * case.allocated_percent / 100.0) as u64 / RECORD;
    let contents = contents(RECORD, case.compress_ratio, machine.contents, &mut rng);
    let contents = if case.compression == "lz4" { packed(contents) } else { contents };
    let mut pen = pen(&pool, machine, (most, Some(SHIFTS[size])), contents)?;
    for first in (0..most).step_by(BATCH as usize) {
        if allocated_percent(&pool) >= case.allocated_percent {
            // What is not data fills the disks too.
            pen.blocks = first;
            break;
        }
        pen.write(first, BATCH)?;
        pool.sync()?;
    }
    let blocks = pen.blocks;
    for _ in 0..(machine.age * (blocks / BATCH) as f64) as u64 {
        pen.scribble(&mut rng, BATCH)?;
        pool.sync()?;
    }
    let contents = pen.contents.to_vec();
    drop(pen);
    pool.export()?;
    drop(devices);
    let image = Image { disks: memory.iter().map(|d| d.fork()).collect() };
    Ok(Aged { image, blocks, contents, rng })
}

fn one(rt: &Rt, machine: &Machine, case: &'static Write, size: usize) -> Result<Written> {
    let Aged { image, blocks, contents, mut rng } = aged(rt, machine, case, size)?;
    world::by_one_thread(rt, false);
    let site = SimDisks::new(rt);
    let disks = disks(&site, &machine.preset, image, machine.seed);
    let pool = world::import(rt, &disks, machine.cache_bytes)?;
    let pen = pen(&pool, machine, (blocks, None), contents)?;
    let mut scribble = |name: &str, writes: u64| -> Result<Duration> {
        let begin = rt.now();
        let mut threads = Vec::new();
        for n in 0..WRITERS {
            let (pen, mut rng) = (pen.clone(), Xoshiro256::seeded(rng.next_u64()));
            let body = move || pen.scribble(&mut rng, writes / WRITERS);
            threads.push(rt.spawn(&format!("{name}{n}"), body)?);
        }
        for thread in threads {
            thread.join()??;
        }
        Ok(rt.now().saturating_sub(begin))
    };
    // Twice what may be dirty.
    scribble("first", 2 * machine.dirty_max / RECORD)?;
    let took = scribble("writer", TIMED)?;
    drop(pen);
    let fragmentation_percent = pool.view().space().fragmentation().unwrap_or(0) as f64;
    let allocated_percent = allocated_percent(&pool);
    pool.close()?;
    Ok(Written { case, size, blocks, took, allocated_percent, fragmentation_percent })
}

fn allocated_percent(pool: &LivePool) -> f64 {
    let total = pool.view().space().total();
    total.allocated as f64 * 100.0 / (total.size as f64).max(1.0)
}

/// The pool's file, made with this size of indirect blocks when it is not there.
fn pen(
    pool: &LivePool,
    machine: &Machine,
    (blocks, shift): (u64, Option<u8>),
    contents: Vec<Arc<Block>>,
) -> Result<BlockWriter> {
    pool.set_limits(TxgLimits { dirty_max: machine.dirty_max, ..pool.limits() });
    let fs = pool.filesystem(DATASET)?;
    let object = match shift {
        Some(shift) => world::new_file(pool, &fs, blocks, shift)?,
        None => fs.root()?.lookup(FILE)?.ok_or("the file is gone")?.object,
    };
    let object = fs.objset().object(object)?;
    Ok(BlockWriter { fs, object, contents: Arc::new(contents), blocks })
}

/// Rows: the rates, how full and fragmented, and what larger indirect blocks bring. How full and
/// fragmented does not depend on the scale.
pub(super) fn rows(rows: &mut Vec<Row>, all: &[Written]) {
    const NEAR: Bound = Bound::Within(0.1);
    for pair in all.chunks_exact(2) {
        for w in pair {
            let (case, i) = (w.case, w.size);
            let size = kib(SHIFTS[i]);
            let name = |what: &str| {
                format!("{size} KiB, writes at 1/{SCALE}, {}: {what}", case.compression)
            };
            let gb = (w.blocks * RECORD * SCALE) as f64 / 1e9;
            let file = name(&format!("file, {SCALE} times"));
            // How full the disks are decides it, not the study's figure.
            rows.push(Row::derived(file, "GB", case.file_gb, NEAR, gb));
            rows.push(Row::predicted(name("rate"), "writes/s", case.iops[i], NEAR, w.rate()));
            let full = (case.allocated_percent, w.allocated_percent);
            rows.push(Row::input(name("allocated"), "%", full.0, NEAR, full.1));
            let (name, found) = (name("fragmentation"), w.fragmentation_percent);
            rows.push(match case.fragmentation_percent {
                Some(published) => {
                    // Half of what both sizes are apart, so that no value agrees with both.
                    let apart = Bound::Points((published[0] - published[1]).abs() / 2.0);
                    Row::predicted(name, "%", published[i], apart, found)
                }
                None => Row::own(name, "%", found),
            });
        }
        let case = pair[0].case;
        let name = |what: &str| format!("writes at 1/{SCALE}, {}: {what}", case.compression);
        let published = 100.0 * (case.iops[1] / case.iops[0] - 1.0);
        let over = pair[1].rate() / pair[0].rate();
        let what = format!("writes at 1/{SCALE}, {}", case.compression);
        let [over, gain] = of_gain(&what, published, over);
        rows.extend([over, gain.follows("both rates")]);
        if let Some([small, large]) = case.fragmentation_percent {
            let less = pair[0].fragmentation_percent - pair[1].fragmentation_percent;
            let row = name("fragmentation less with 128 KiB");
            let row = Row::derived(row, "points", small - large, NEAR, less);
            rows.push(row.follows("both percentages"));
        }
    }
}

/// Every row, of nothing that was measured.
#[cfg(test)]
pub(super) fn sample() -> Vec<Row> {
    let of = |case: &'static Write, size| Written {
        case,
        size,
        blocks: 1,
        took: Duration::from_secs(1),
        allocated_percent: 1.0,
        fragmentation_percent: 1.0,
    };
    let all: Vec<Written> = WRITES.iter().flat_map(|case| [of(case, 0), of(case, 1)]).collect();
    let mut out = Vec::new();
    rows(&mut out, &all);
    out
}
