//! What reads all metadata of a file: a traversal, with which a scrub and a send begin, and its
//! deletion.

use super::reads::{disks, file};
use super::world::{self, Image, Result};
use super::{SHIFTS, kib};
use crate::disk::Preset;
use crate::experiment::{Bound, Row};
use engine::device::SimDisks;
use engine::ondisk::DmuType;
use engine::rt::Rt;
use engine::zio::stats::TypeStats;
use std::time::Duration;

/// Room in the cache: metadata do not have to be read twice.
const CACHE_BYTES: usize = 256 << 20;

/// One chore with one size of indirect blocks.
pub(super) struct Chore {
    what: &'static str,
    shift: u8,
    blocks: u64,
    took: Duration,
    /// I/Os of the file's indirect blocks, read and written.
    ios: u64,
}

/// What a chore does, and what it takes.
type Work = fn(&Rt, Image, &Preset, u64) -> Result<Done>;

/// All chores on files of so many blocks.
pub(super) fn run(blocks: u64, preset: &Preset, seed: u64) -> Result<Vec<Chore>> {
    let mut out = Vec::new();
    for shift in SHIFTS {
        let image = super::make(blocks, shift, seed)?;
        let chores: [(&'static str, Work); 2] =
            [("traversal, as by a scrub or send", traverse), ("deletion", delete)];
        for (what, chore) in chores {
            let (image, preset) = (image.fork(), preset.clone());
            let (took, stats) = world::simulate(seed, move |rt| chore(rt, image, &preset, seed))?;
            let indirect = stats
                .rows()
                .iter()
                .filter(|r| r.kind == DmuType::PLAIN_FILE_CONTENTS && r.level > 0);
            let ios = indirect.map(|r| r.read.ios + r.written.ios).sum();
            out.push(Chore { what, shift, blocks, took, ios });
        }
    }
    Ok(out)
}

type Done = (Duration, TypeStats);

/// Every pointer of the file, in order, by one thread.
fn traverse(rt: &Rt, image: Image, preset: &Preset, seed: u64) -> Result<Done> {
    let site = SimDisks::new(rt);
    let pool = world::open(&disks(&site, preset, image, seed), CACHE_BYTES)?;
    let (fs, number) = file(&pool)?;
    let object = fs.objset().object(number)?;
    let (before, begin) = (pool.block_stats(), rt.now());
    let fanout = 1 << (object.dnode().indirect_shift - 7);
    for block in 0..=object.dnode().max_block / fanout {
        object.read_indirect(1, block)?;
    }
    Ok((rt.now().saturating_sub(begin), pool.block_stats().since(&before)))
}

/// Unlinks the file, and waits until all of it is free.
fn delete(rt: &Rt, image: Image, preset: &Preset, seed: u64) -> Result<Done> {
    let site = SimDisks::new(rt);
    let disks = disks(&site, preset, image, seed);
    let pool = world::import(rt, &disks, CACHE_BYTES)?;
    let fs = pool.filesystem(world::POOL)?;
    let (before, begin) = (pool.view().block_stats(), rt.now());
    fs.unlink(fs.root_object(), world::FILE, world::now())?;
    // One txg to free it, two until the space is free.
    for _ in 0..3 {
        pool.sync()?;
    }
    let took = rt.now().saturating_sub(begin);
    let stats = pool.view().block_stats().since(&before);
    drop(fs);
    pool.close()?;
    Ok((took, stats))
}

/// Rows that are shown.
pub(super) fn rows(rows: &mut Vec<Row>, chores: &[Chore]) {
    for c in chores {
        let name = format!("{} KiB, {} blocks: {}", kib(c.shift), c.blocks, c.what);
        let mut row = |unit, measured| {
            let (row, bound) = (name.clone(), Bound::Shown);
            rows.push(Row { row, unit, published: None, measured, bound });
        };
        row("indirect I/Os", c.ios as f64);
        row("s", c.took.as_secs_f64());
    }
}
