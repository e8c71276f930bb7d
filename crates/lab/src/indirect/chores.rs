//! Operations that read all metadata of a file: the study says that larger indirect blocks help a
//! scrub, a send and deletions most, without figures. So each is done with both sizes, on a part of
//! the file that its rows name, and the larger size has to be no slower.
//!
//! ```text
//! scrub         `zinc check`: every copy of all metadata first, then data in the disks' order
//! send          the file from its first byte to its last, 16 MiB ahead, as a send's queue
//! pointers      every L1 in order, one after the other: a send that only looks for changes
//! deletion      unlinks the file, until its space is free
//! destruction   destroys its file system, until its space is free
//! ```

use super::between::TestFiles;
use super::reads::{disks, file};
use super::rows::{OVER, PART};
use super::world::{self, Image, Result};
use super::{SHIFTS, kib};
use crate::disk::Preset;
use crate::experiment::Setting;
use crate::row::{Range, Row};
use engine::inside::check;
use engine::inside::check::CheckOptions;
use engine::inside::device::SimDisks;
use engine::inside::ondisk::DmuType;
use engine::inside::rt::{Progress, Rt};
use engine::inside::zio::stats::TypeStats;
use engine::live::LivePool;
use parking_lot::Mutex;
use std::time::Duration;

/// Room in the cache: metadata do not have to be read twice.
const CACHE_BYTES: usize = 256 << 20;
/// Pieces that a send reads at once, and bytes of each.
const SEND_PIECES: usize = 16;
const SEND_PIECE: u64 = 1 << 20;
/// The chore that the study does not speak of.
const POINTERS: &str = "pointers";
/// Txgs after which the space of what was deleted has to be free.
const TXGS_MAX: usize = 1000;

/// One chore with one size of indirect blocks.
pub(super) struct Chore {
    what: &'static str,
    shift: u8,
    took: Duration,
    /// I/Os of the file's indirect blocks, read and written.
    ios: u64,
}

/// What a chore does, and what it takes.
type Work = fn(&Rt, Image, &Preset, u64) -> Result<Done>;
type Done = (Duration, TypeStats);

const CHORES: [(&str, Work); 5] = [
    ("scrub", scrub),
    ("send", send),
    (POINTERS, pointers),
    ("deletion", delete),
    ("destruction", destroy),
];

/// All chores on files of this many blocks, by chore, then size.
///
/// `made` are such files, which may be of as many blocks.
pub(super) fn run(
    blocks: u64,
    made: TestFiles,
    preset: &Preset,
    setting: &Setting,
    progress: &dyn Fn(&str),
) -> Result<Vec<Chore>> {
    let seed = setting.seed;
    let make = |shift| super::make(blocks, shift, setting);
    let images = match made.blocks == blocks {
        true => made.images,
        false => SHIFTS.map(make).into_iter().collect::<Result<_>>()?,
    };
    let mut out = Vec::new();
    for (what, work) in CHORES {
        progress(what);
        for (image, shift) in images.iter().zip(SHIFTS) {
            let (image, preset) = (image.fork(), preset.clone());
            let (took, stats) = world::simulate(seed, move |rt| work(rt, image, &preset, seed))?;
            let indirect = stats
                .rows()
                .iter()
                .filter(|r| r.kind == DmuType::PLAIN_FILE_CONTENTS && r.level > 0);
            let ios = indirect.map(|r| r.read.ios + r.written.ios).sum();
            out.push(Chore { what, shift, took, ios });
        }
    }
    Ok(out)
}

/// Verifies the pool.
fn scrub(rt: &Rt, image: Image, preset: &Preset, seed: u64) -> Result<Done> {
    let site = SimDisks::new(rt);
    let pool = world::open(rt, &disks(&site, preset, image, seed), CACHE_BYTES)?;
    let (before, begin) = (pool.block_stats(), rt.now());
    let report = check::run(&pool, &CheckOptions::default(), &Progress::new());
    if let Some(issue) = report.issues.first() {
        return Err(issue.to_string().into());
    }
    Ok((rt.now().saturating_sub(begin), pool.block_stats().since(&before)))
}

/// All of the file.
fn send(rt: &Rt, image: Image, preset: &Preset, seed: u64) -> Result<Done> {
    let site = SimDisks::new(rt);
    let pool = world::open(rt, &disks(&site, preset, image, seed), CACHE_BYTES)?;
    let (fs, number) = file(&pool)?;
    let object = fs.objset().object(number)?;
    let (before, begin) = (pool.block_stats(), rt.now());
    let bytes = (object.dnode().max_block + 1) * world::RECORD;
    // One for each worker, used again: the system need not clear the whole file's memory.
    let buffers = Mutex::new(Vec::new());
    rt.for_each_parallel(SEND_PIECES, 0..bytes.div_ceil(SEND_PIECE), |piece| {
        let at = piece * SEND_PIECE;
        let mut buffer = buffers.lock().pop().unwrap_or_else(|| vec![0; SEND_PIECE as usize]);
        object.read_at(at, &mut buffer[..SEND_PIECE.min(bytes - at) as usize])?;
        buffers.lock().push(buffer);
        Ok::<(), engine::inside::dmu::Error>(())
    })?;
    Ok((rt.now().saturating_sub(begin), pool.block_stats().since(&before)))
}

/// Every pointer of the file, in order, by one thread.
fn pointers(rt: &Rt, image: Image, preset: &Preset, seed: u64) -> Result<Done> {
    let site = SimDisks::new(rt);
    let pool = world::open(rt, &disks(&site, preset, image, seed), CACHE_BYTES)?;
    let (fs, number) = file(&pool)?;
    let object = fs.objset().object(number)?;
    let (before, begin) = (pool.block_stats(), rt.now());
    let fanout = 1 << (object.dnode().indirect_shift - 7);
    for block in 0..=object.dnode().max_block / fanout {
        object.read_indirect(1, block)?;
    }
    Ok((rt.now().saturating_sub(begin), pool.block_stats().since(&before)))
}

fn delete(rt: &Rt, image: Image, preset: &Preset, seed: u64) -> Result<Done> {
    freed(rt, image, preset, seed, |pool| {
        let fs = pool.filesystem(world::DATASET)?;
        Ok(fs.unlink(fs.root_object(), world::FILE, world::now())?)
    })
}

fn destroy(rt: &Rt, image: Image, preset: &Preset, seed: u64) -> Result<Done> {
    freed(rt, image, preset, seed, |pool| Ok(pool.destroy_dataset(world::DATASET)?))
}

/// Does `work`, and waits until the file's space is free.
fn freed(
    rt: &Rt,
    image: Image,
    preset: &Preset,
    seed: u64,
    work: fn(&LivePool) -> Result<()>,
) -> Result<Done> {
    let site = SimDisks::new(rt);
    let pool = world::import(rt, &disks(&site, preset, image, seed), CACHE_BYTES)?;
    let allocated = |pool: &LivePool| pool.view().space().total().allocated;
    let full = allocated(&pool);
    let (before, begin) = (pool.view().block_stats(), rt.now());
    work(&pool)?;
    let mut txgs = 0;
    while allocated(&pool) > full / 20 {
        if txgs == TXGS_MAX {
            return Err("the space of what was deleted is still not free".into());
        }
        pool.sync()?;
        txgs += 1;
    }
    let took = rt.now().saturating_sub(begin);
    let stats = pool.view().block_stats().since(&before);
    pool.close()?;
    Ok((took, stats))
}

/// How many times as fast the larger blocks are.
fn gain(pair: &[Chore]) -> f64 {
    let [small, large] = [0, 1].map(|at: usize| pair[at].took.as_secs_f64());
    small / large.max(1e-9)
}

/// Rows that are shown, and a goal for each chore that the study speaks of: larger blocks are no
/// slower.
pub(super) fn rows(rows: &mut Vec<Row>, blocks: u64, chores: &[Chore], full: bool) {
    for pair in chores.chunks_exact(2) {
        for c in pair {
            let name = format!("{}, {blocks} blocks, {} KiB", c.what, kib(c.shift));
            rows.push(Row::own(format!("{name}: indirect"), "I/Os", c.ios as f64));
            rows.push(Row::own(format!("{name}: took"), "s", c.took.as_secs_f64()));
        }
        let name = format!("{OVER}, {}: speed", pair[0].what);
        rows.push(match pair[0].what {
            POINTERS => Row::own(name, "times", gain(pair)),
            _ => Row::goal(name, "times", Range::at_least(1.0), gain(pair)).judged_if(full, PART),
        });
    }
}
