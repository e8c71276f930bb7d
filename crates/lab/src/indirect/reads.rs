//! Random reads of the file by several threads, with cold metadata.
//!
//! The study's I/O counts say that nothing was read twice: reads at `n` of `N` places, by chance,
//! hit `N (1 - e^(-n/N))` different ones, and this many blocks of level 0 it counted. So the cache
//! is empty at first, and holds all that was read until the end.

use super::world::{self, Image, RECORD, Result};
use crate::disk::Preset;
use engine::inside::device::{SimDisks, SimOptions, WriteDeviceRef};
use engine::inside::ondisk::DmuType;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::rt::{Rng, Rt, Xoshiro256};
use engine::inside::zio::stats::{Count, TypeStats};
use engine::{Filesystem, Pool};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Room for all that a case reads: 97,000 reads of data and indirect blocks, as they are used.
const CACHE_BYTES: usize = 4 << 30;

/// One test case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// Reads of 8 KiB.
    pub(super) reads: u64,
    /// Blocks between two places that may be read.
    pub(super) alignment: u64,
    /// Threads that read.
    pub(super) threads: usize,
    /// Blocks of the file.
    pub(super) blocks: u64,
    /// Decides which places, and where the platters stand.
    pub(super) seed: u64,
}

impl Case {
    /// The blocks to read, in the order in which they are handed out.
    pub(super) fn places(&self) -> Vec<u64> {
        let mut rng = Xoshiro256::seeded(self.seed);
        let places = self.blocks.div_ceil(self.alignment);
        (0..self.reads).map(|_| rng.below(places) * self.alignment).collect()
    }
}

/// What a case gave.
pub(super) struct Measured {
    /// From the first read to the end of the last.
    pub(super) took: Duration,
    /// What the disks did meanwhile.
    pub(super) stats: TypeStats,
}

impl Measured {
    /// What was read of the file at a level.
    pub(super) fn level(&self, level: u8) -> Count {
        self.stats.find(DmuType::PLAIN_FILE_CONTENTS, level).read
    }
}

/// Disks of this kind that hold the image. Where the image is a part of the study's, so are they,
/// so that seeks are as long.
pub(super) fn disks(
    site: &SimDisks,
    preset: &Preset,
    image: Image,
    seed: u64,
) -> Vec<WriteDeviceRef> {
    let size = image.disks.first().map_or(0, engine::inside::device::Device::size);
    let part = size as f64 / super::DISK_BYTES as f64;
    let capacity_bytes = (preset.capacity_bytes as f64 * part.min(1.0)) as u64;
    let preset = Preset { capacity_bytes, ..preset.clone() };
    let models = preset.models(image.disks.len(), size, seed);
    let disk = |(contents, model)| site.add_model_with(&SimOptions::default(), contents, model);
    image.disks.into_iter().zip(models).map(|pair| disk(pair) as _).collect()
}

/// The file system and the file of an open pool.
pub(super) fn file(pool: &Pool) -> Result<(Filesystem, u64)> {
    file_in(pool, world::DATASET)
}

fn file_in(pool: &Pool, dataset: &str) -> Result<(Filesystem, u64)> {
    let dataset = pool.dsl().by_name(dataset)?;
    let fs = Filesystem::open(pool.dsl().objset(&dataset)?)?;
    let entry = fs.root()?.lookup(world::FILE)?.ok_or("the file is gone")?;
    Ok((fs, entry.object))
}

/// Runs a case on disks of a kind that hold the image, in virtual time.
pub(super) fn run(image: Image, preset: &Preset, case: Case) -> Result<Measured> {
    let preset = preset.clone();
    world::simulate(case.seed, move |rt| run_here(rt, image, &preset, case))
}

fn run_here(rt: &Rt, image: Image, preset: &Preset, case: Case) -> Result<Measured> {
    let site = SimDisks::new(rt);
    let disks = disks(&site, preset, image, case.seed);
    read(rt, &world::open(rt, &disks, CACHE_BYTES)?, world::DATASET, case)
}

/// Runs a case on the file in a dataset of an open pool.
pub(super) fn read(rt: &Rt, pool: &Pool, dataset: &str, case: Case) -> Result<Measured> {
    let (fs, number) = file_in(pool, dataset)?;
    let object = fs.objset().object(number)?;
    let (before, begin) = (pool.block_stats(), rt.now());
    let places = Arc::new(case.places());
    let next = Arc::new(AtomicUsize::new(0));
    let mut threads = Vec::with_capacity(case.threads);
    for n in 0..case.threads {
        let (places, next, object) = (Arc::clone(&places), Arc::clone(&next), object.clone());
        threads.push(rt.spawn(
            &format!("reader{n}"),
            move || -> engine::inside::dmu::Result<()> {
                let mut buf = vec![0; RECORD as usize];
                while let Some(block) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                    object.read_at(block * RECORD, &mut buf)?;
                }
                Ok(())
            },
        )?);
    }
    for thread in threads {
        thread.join()??;
    }
    let took = rt.now().saturating_sub(begin);
    Ok(Measured { took, stats: pool.block_stats().since(&before) })
}
