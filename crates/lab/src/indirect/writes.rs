//! Random overwrites on full, fragmented pools.
//!
//! At a two hundredth: three disks of 500 MB, files of 1.2 and 3.5 GB. A file is made, and as many
//! blocks as it has are overwritten at random, by which free space becomes what it becomes. Then
//! four threads overwrite 8 KiB at a time on timed disks. Txgs hold 16 MiB, more would not find
//! room while the space of the last ones is not free yet; that is a far larger part of the file
//! than in the study, and each txg rewrites most indirect blocks, whatever their size. So the rates
//! are shown, not judged.

use super::published::{WRITES, Write};
use super::reads::disks;
use super::world::{self, FILE, Image, POOL, RECORD, Result};
use super::{SHIFTS, kib};
use crate::disk::Preset;
use crate::experiment::{Bound, Row};
use engine::Filesystem;
use engine::device::{AlignedBuf, MemoryDevice, SimDisks, WriteDeviceRef};
use engine::dmu::{Hold, Object};
use engine::live::{LivePool, TxgLimits};
use engine::ondisk::Endian;
use engine::rt::{Rng, Rt, Xoshiro256};
use engine::zio::Block;
use std::sync::Arc;
use std::time::Duration;

/// Part of the study's disks and files.
const SCALE: u64 = 200;
const DISK_BYTES: u64 = super::DISK_BYTES / SCALE;
/// Threads that write.
const WRITERS: u64 = 4;
/// Timed writes.
const TIMED: u64 = 20_000;
/// Bytes of a txg.
const TXG_BYTES: u64 = 16 << 20;
/// Room for all metadata, as the study's machine had.
const CACHE_BYTES: usize = 512 << 20;
/// Different contents: as many as make neighbours differ.
const CONTENTS: u64 = 64;

/// What one case gave with one size of indirect blocks.
pub(super) struct Written {
    case: &'static Write,
    size: usize,
    took: Duration,
    allocated_percent: f64,
    fragmentation_percent: f64,
}

/// All cases.
pub(super) fn run(preset: &Preset, seed: u64) -> Result<Vec<Written>> {
    let mut out = Vec::new();
    for case in &WRITES {
        for size in 0..SHIFTS.len() {
            let preset = preset.clone();
            out.push(world::simulate(seed, move |rt| one(rt, &preset, case, size, seed))?);
        }
    }
    Ok(out)
}

/// Blocks that compress as the case wants.
fn contents(case: &Write, rng: &mut Xoshiro256) -> Vec<Arc<Block>> {
    let noise = if case.compression == "off" { RECORD } else { RECORD * 10 / 31 } as usize;
    let block = |_| {
        let mut bytes = AlignedBuf::zeroed(RECORD as usize);
        for part in bytes[..noise].chunks_mut(8) {
            part.copy_from_slice(&rng.next_u64().to_le_bytes()[..part.len()]);
        }
        Arc::new(Block::new(bytes, Endian::Little))
    };
    (0..CONTENTS).map(block).collect()
}

/// Writes blocks of the file.
#[derive(Clone)]
struct Pen {
    fs: Filesystem,
    object: Object,
    contents: Arc<Vec<Arc<Block>>>,
    blocks: u64,
}

impl Pen {
    fn write(&self, first: u64, count: u64) -> Result<()> {
        let tx = self.fs.begin(Hold::write(count * RECORD))?;
        for block in first..(first + count).min(self.blocks) {
            let content = &self.contents[(block.wrapping_mul(31) % CONTENTS) as usize];
            self.object.write_shared(&tx, block, content)?;
        }
        Ok(())
    }

    fn scribble(&self, rng: &mut Xoshiro256, writes: u64) -> Result<()> {
        (0..writes).try_for_each(|_| self.write(rng.below(self.blocks), 1))
    }
}

fn one(rt: &Rt, preset: &Preset, case: &'static Write, size: usize, seed: u64) -> Result<Written> {
    let mut rng = Xoshiro256::seeded(seed);
    let memory: Vec<_> = (0..super::DISKS)
        .map(|n| Arc::new(MemoryDevice::zeros(&world::name(n), DISK_BYTES)))
        .collect();
    let devices: Vec<WriteDeviceRef> = memory.iter().map(|d| Arc::clone(d) as _).collect();
    let pool = world::create_pool(rt, &devices, case.compression)?;
    let blocks = (case.file_gb * 1e9 / (SCALE * RECORD) as f64) as u64;
    let pen = pen(&pool, blocks, Some(SHIFTS[size]), contents(case, &mut rng))?;
    let batch = TXG_BYTES / RECORD;
    for first in (0..blocks).step_by(batch as usize) {
        pen.write(first, batch)?;
        pool.sync()?;
    }
    for _ in 0..blocks / batch {
        pen.scribble(&mut rng, batch)?;
        pool.sync()?;
    }
    let contents = pen.contents.to_vec();
    drop(pen);
    pool.export()?;
    drop(devices);

    let site = SimDisks::new(rt);
    let image = Image { disks: memory.iter().map(|d| d.fork()).collect() };
    drop(memory);
    let disks = disks(&site, preset, image, seed);
    let pool = world::import(rt, &disks, CACHE_BYTES)?;
    let pen = self::pen(&pool, blocks, None, contents)?;
    let begin = rt.now();
    let mut threads = Vec::new();
    for n in 0..WRITERS {
        let (pen, mut rng) = (pen.clone(), Xoshiro256::seeded(seed + 1 + n));
        let body = move || pen.scribble(&mut rng, TIMED / WRITERS);
        threads.push(rt.spawn(&format!("writer{n}"), body)?);
    }
    for thread in threads {
        thread.join()??;
    }
    pool.sync()?;
    let took = rt.now().saturating_sub(begin);
    drop(pen);
    let space = pool.view().space();
    let total = space.total();
    let fragmentation_percent = space.fragmentation().unwrap_or(0) as f64;
    let allocated_percent = total.allocated as f64 * 100.0 / (total.size as f64).max(1.0);
    pool.close()?;
    Ok(Written { case, size, took, allocated_percent, fragmentation_percent })
}

/// The pool's file, made with this size of indirect blocks when it is not there.
fn pen(pool: &LivePool, blocks: u64, shift: Option<u8>, contents: Vec<Arc<Block>>) -> Result<Pen> {
    pool.set_limits(TxgLimits { dirty_max: 5 * TXG_BYTES, ..pool.limits() });
    let fs = pool.filesystem(POOL)?;
    let object = match shift {
        Some(shift) => world::new_file(pool, &fs, blocks, shift)?,
        None => fs.root()?.lookup(FILE)?.ok_or("the file is gone")?.object,
    };
    let object = fs.objset().object(object)?;
    Ok(Pen { fs, object, contents: Arc::new(contents), blocks })
}

/// Rows that are shown.
pub(super) fn rows(rows: &mut Vec<Row>, all: &[Written]) {
    for w in all {
        let (case, i) = (w.case, w.size);
        let name = format!(
            "{} KiB, writes at 1/{SCALE}, compression={}",
            kib(SHIFTS[i]),
            case.compression
        );
        let mut row = |what: &str, unit, published, measured| {
            let (row, bound) = (format!("{name}: {what}"), Bound::Shown);
            rows.push(Row { row, unit, published, measured, bound });
        };
        row("rate", "writes/s", Some(case.iops[i]), TIMED as f64 / w.took.as_secs_f64().max(1e-9));
        row("allocated", "%", Some(case.allocated_percent), w.allocated_percent);
        let published = case.fragmentation_percent.map(|f| f[i]);
        row("fragmentation", "%", published, w.fragmentation_percent);
    }
}
