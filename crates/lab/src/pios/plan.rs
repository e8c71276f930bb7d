//! One combination of values, checked.

use super::{PiosError, Result};
use core::time::Duration;

/// How regions lie in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All in one file, at multiples of the offset.
    Shared,
    /// One file each, from the offset on.
    PerRegion,
}

/// What one run does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Threads.
    pub threads: usize,
    /// Regions.
    pub regions: u64,
    /// Bytes of each.
    pub region_size: u64,
    /// Bytes of an I/O.
    pub chunk_size: u64,
    /// Bytes between the starts of regions in one file, or before the first byte in files of their
    /// own.
    pub offset: u64,
    /// Bytes of a block of the pool's files.
    pub block_size: u64,
    /// How they lie.
    pub layout: Layout,
    /// Chunks are up to this many bytes longer or shorter.
    pub chunk_noise: u64,
    /// The next chunk is of a region up to this many farther on.
    pub region_noise: u64,
    /// The longest time that threads wait between I/Os.
    pub thread_delay: Duration,
    /// Decides contents and noise; the time stamp of the run.
    pub seed: u64,
    /// Whether buffers are filled before they are written; without, they hold zeros.
    pub fill: bool,
}

impl std::fmt::Display for Plan {
    /// In one line, with sizes in bytes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { threads, regions, region_size, chunk_size, offset, block_size, .. } = self;
        let files = if self.layout == Layout::Shared { "one file" } else { "a file each" };
        write!(f, "{threads} threads, {regions} regions of {region_size} bytes in {files} ")?;
        write!(f, "from {offset}, chunks of {chunk_size} bytes, blocks of {block_size} bytes")?;
        if self.chunk_noise > 0 || self.region_noise > 0 {
            let (chunk, region) = (self.chunk_noise, self.region_noise);
            write!(f, ", chunks up to {chunk} bytes and {region} regions off")?;
        }
        if !self.thread_delay.is_zero() {
            write!(f, ", delays up to {:?}", self.thread_delay)?;
        }
        write!(f, "{}", if self.fill { "" } else { ", zeros" })
    }
}

/// Largest I/O: each thread holds one in memory.
const CHUNK_MAX: u64 = 1 << 30;
const THREADS_MAX: usize = 4096;
const REGIONS_MAX: u64 = 1 << 24;

impl Plan {
    /// Gives it the first time stamp, in seconds, from `now` and from `next` on, that is not taken;
    /// `next` is behind it then.
    pub fn stamp(&mut self, now: u64, next: &mut u64, is_taken: impl Fn(&Self) -> bool) {
        self.seed = now.max(*next);
        while is_taken(self) {
            self.seed += 1;
        }
        *next = self.seed + 1;
    }

    /// A plan without noise.
    #[must_use]
    pub fn new(threads: usize, regions: u64, region_size: u64, chunk_size: u64) -> Self {
        Self {
            threads,
            regions,
            region_size,
            chunk_size,
            offset: region_size,
            block_size: 128 << 10,
            layout: Layout::Shared,
            chunk_noise: 0,
            region_noise: 0,
            thread_delay: Duration::ZERO,
            seed: 1,
            fill: true,
        }
    }

    /// Bytes that a run writes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.regions.saturating_mul(self.region_size)
    }

    /// Where byte `at` of a region is in its file.
    #[must_use]
    pub fn place(&self, region: u64, at: u64) -> u64 {
        match self.layout {
            Layout::Shared => region * self.offset + at,
            Layout::PerRegion => self.offset + at,
        }
    }

    /// Number of the file that holds a region.
    #[must_use]
    pub fn file(&self, region: u64) -> u64 {
        if self.layout == Layout::Shared { 0 } else { region }
    }

    /// Files.
    #[must_use]
    pub fn files(&self) -> u64 {
        if self.layout == Layout::Shared { 1 } else { self.regions }
    }

    /// Bytes of each file.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.place(self.regions.saturating_sub(1), self.region_size)
    }

    /// Whether it can be done at all.
    ///
    /// # Errors
    /// With what is wrong, and what would be right.
    pub fn check(&self) -> Result<()> {
        let fail = |what: &str| Err(PiosError::new(what));
        if self.threads == 0 || self.threads > THREADS_MAX {
            return fail("the number of threads is not between 1 and 4096");
        }
        if self.regions == 0 || self.regions > REGIONS_MAX {
            return fail("the number of regions is not between 1 and 16777216");
        }
        if self.chunk_size == 0 || self.chunk_size.saturating_add(self.chunk_noise) > CHUNK_MAX {
            return fail("a chunk, noise included, is not between 1 byte and 1G");
        }
        if self.chunk_size > self.region_size {
            let (chunk, region) = (super::human(self.chunk_size), super::human(self.region_size));
            let what = format!("the chunk size {chunk} is larger than the region size {region}");
            return Err(PiosError::new(what).hint(
                "a region is written in whole chunks and a rest: \
                                                  give a smaller -c, or a larger -s",
            ));
        }
        if self.chunk_noise >= self.chunk_size {
            return fail("the chunk noise is not smaller than the chunk size");
        }
        if self.layout == Layout::Shared && self.offset < self.region_size && self.regions > 1 {
            let (offset, size) = (super::human(self.offset), super::human(self.region_size));
            let what = format!("regions of {size} that begin {offset} apart overlap in one file");
            return Err(
                PiosError::new(what).hint("give a larger -o, or files of their own (--fpp)")
            );
        }
        let last =
            u128::from(self.regions - 1) * u128::from(self.offset) + u128::from(self.region_size);
        if last > i64::MAX as u128 {
            return fail("the last region ends behind the largest file");
        }
        let block = self.block_size;
        if !block.is_power_of_two() || !(512..=16 << 20).contains(&block) {
            return fail("the block size is not a power of two between 512 and 16M");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let plan = Plan::new(4, 64, 128 << 20, 2 << 20);
        assert_eq!((plan.check(), plan.total(), plan.file_size()), (Ok(()), 8 << 30, 8 << 30));
        let wrong = Plan { chunk_size: 256 << 20, ..plan.clone() };
        let message = wrong.check().expect_err("wrong").what;
        assert_eq!(message, "the chunk size 256M is larger than the region size 128M");
        let wrong = Plan { offset: 1 << 20, ..plan.clone() };
        assert!(wrong.check().expect_err("wrong").what.contains("overlap"));
        let apart = Plan { layout: Layout::PerRegion, ..wrong };
        assert_eq!((apart.check(), apart.file_size()), (Ok(()), 129 << 20));
        for wrong in [
            Plan { threads: 0, ..plan.clone() },
            Plan { regions: 0, ..plan.clone() },
            Plan { chunk_noise: 2 << 20, ..plan.clone() },
            Plan { block_size: 3 << 10, ..plan.clone() },
            Plan { offset: u64::MAX / 2, ..plan },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
