//! Short buffers, cut out of regions of memory that hold nothing else.
//!
//! An allocator for all lengths keeps a header before each block, so a block that begins at a page
//! takes a part of the page before it. The rest of that page is used for small objects; as long as
//! one of them stays, the page does, long after the block was freed.
//!
//! A region is [`REGION_BYTES`] long and begins at a multiple of that, so an address determines its
//! region. It is cut into blocks of one size. Of the regions with room the one with the lowest
//! address is used, so that the others become empty. An empty region is given back to the system at
//! once, the free blocks of the others when there is nothing to do ([`Regions::trim`]).

use super::ALIGNMENT;
use core::ptr::NonNull;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a region.
const REGION_BYTES: usize = 1 << 20;

/// Longest block that is cut from a region: of longer ones, what is lost between them does not
/// count.
pub(super) const SHORT_BYTES_MAX: usize = 128 << 10;

/// A block is at least a page, so a region has no more.
const BLOCKS_MAX: usize = REGION_BYTES / ALIGNMENT;

/// A region, and which of its blocks are free.
struct Region {
    start: NonNull<u8>,
    blocks: usize,
    used: usize,
    /// A bit for each block.
    free: [u64; BLOCKS_MAX / 64],
}

// SAFETY: the memory is mapped for the whole process, and which thread uses a block of it is the
// business of the one that has it.
unsafe impl Send for Region {}

impl Region {
    /// A region of blocks of `size` bytes; `None` when the system has no more memory.
    fn map(size: usize) -> Option<Self> {
        let (access, how) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping where the system likes, of no file.
        let wide =
            unsafe { libc::mmap(core::ptr::null_mut(), 2 * REGION_BYTES, access, how, -1, 0) };
        let wide =
            NonNull::new(wide).filter(|start| start.as_ptr() != libc::MAP_FAILED)?.cast::<u8>();
        // The parts before the first multiple, and behind the region that begins there.
        let before = wide.as_ptr().align_offset(REGION_BYTES);
        // SAFETY: the region is within the mapping, which is twice as long.
        let start = unsafe { wide.add(before) };
        // SAFETY: the region and what is behind it are within the mapping.
        let end = unsafe { start.add(REGION_BYTES) };
        for (from, bytes) in [(wide, before), (end, REGION_BYTES - before)] {
            if bytes > 0 {
                // SAFETY: nothing uses these pages of the mapping that was just made.
                unsafe { libc::munmap(from.as_ptr().cast(), bytes) };
            }
        }
        let blocks = REGION_BYTES / size;
        let mut free = [0; BLOCKS_MAX / 64];
        (0..blocks).for_each(|n| free[n / 64] |= 1 << (n % 64));
        Some(Self { start, blocks, used: 0, free })
    }

    fn unmap(self) {
        // SAFETY: it was mapped with this length, and none of its blocks is used.
        unsafe { libc::munmap(self.start.as_ptr().cast(), REGION_BYTES) };
    }

    fn is_free(&self, number: usize) -> bool {
        self.free[number / 64] & (1 << (number % 64)) != 0
    }

    /// The free block with the lowest address, which is used from here on.
    fn take(&mut self, size: usize) -> Option<NonNull<u8>> {
        let word = self.free.iter().position(|word| *word != 0)?;
        let bit = self.free[word].trailing_zeros() as usize;
        self.free[word] &= self.free[word] - 1;
        self.used += 1;
        // SAFETY: only bits of blocks are set, and a block is within the region.
        Some(unsafe { self.start.add((word * 64 + bit) * size) })
    }

    /// Lets the system have the pages of free blocks back. They are zeros when they are used again.
    fn trim(&self, size: usize) {
        let mut next = 0;
        while let Some(first) = (next..self.blocks).find(|n| self.is_free(*n)) {
            let end = (first..self.blocks).find(|n| !self.is_free(*n)).unwrap_or(self.blocks);
            // SAFETY: the blocks are within the region, whole pages, and free.
            unsafe {
                let start = self.start.add(first * size);
                libc::madvise(start.as_ptr().cast(), (end - first) * size, libc::MADV_DONTNEED);
            }
            next = end;
        }
    }
}

/// The regions of a process.
#[derive(Default)]
pub(super) struct Regions {
    /// By the size of their blocks, and their address.
    all: BTreeMap<(usize, usize), Region>,
    /// Those that have a free block.
    with_room: BTreeSet<(usize, usize)>,
}

impl Regions {
    pub(super) const fn new() -> Self {
        Self { all: BTreeMap::new(), with_room: BTreeSet::new() }
    }

    /// A block of `size` bytes, whole pages and at most [`SHORT_BYTES_MAX`]. `None` when the system
    /// has no more memory.
    pub(super) fn take(&mut self, size: usize) -> Option<NonNull<u8>> {
        let found = self.with_room.range((size, 0)..=(size, usize::MAX)).next().copied();
        let key = match found {
            Some(key) => key,
            None => {
                let region = Region::map(size)?;
                let key = (size, region.start.addr().get());
                self.all.insert(key, region);
                self.with_room.insert(key);
                key
            }
        };
        let region = self.all.get_mut(&key)?;
        let block = region.take(size);
        if region.used == region.blocks {
            self.with_room.remove(&key);
        }
        block
    }

    /// Takes a block back that is not used any more, if [`Self::take`] gave it for this size.
    pub(super) fn give(&mut self, block: NonNull<u8>, size: usize) -> bool {
        let at = block.addr().get();
        let key = (size, at & !(REGION_BYTES - 1));
        let Some(region) = self.all.get_mut(&key) else { return false };
        let number = (at - key.1) / size;
        debug_assert!(!region.is_free(number), "a block was given back twice");
        region.free[number / 64] |= 1 << (number % 64);
        region.used -= 1;
        self.with_room.insert(key);
        if region.used == 0 {
            self.with_room.remove(&key);
            if let Some(region) = self.all.remove(&key) {
                region.unmap();
            }
        }
        true
    }

    /// Lets the system have the pages back that are free in regions that are not.
    pub(super) fn trim(&self) {
        for key in &self.with_room {
            if let Some(region) = self.all.get(key) {
                region.trim(key.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(block: NonNull<u8>, size: usize, byte: u8) {
        // SAFETY: the block is that long, and only this test has it.
        unsafe { block.write_bytes(byte, size) };
    }

    fn first_and_last(block: NonNull<u8>, size: usize) -> (u8, u8) {
        // SAFETY: as above.
        unsafe { (block.read(), block.add(size - 1).read()) }
    }

    #[test]
    fn blocks_are_apart_and_empty_regions_go() {
        for size in [1, 2, 5, 10, 28, 32].map(|pages| pages * ALIGNMENT) {
            let mut regions = Regions::new();
            let each = REGION_BYTES / size;
            let blocks: Vec<_> = (0..3 * each).map(|_| regions.take(size).unwrap()).collect();
            assert_eq!((regions.all.len(), regions.with_room.len()), (3, 0), "{size}");
            for (n, block) in blocks.iter().enumerate() {
                assert!(block.addr().get().is_multiple_of(ALIGNMENT));
                fill(*block, size, n as u8);
            }
            for (n, block) in blocks.iter().enumerate() {
                assert_eq!(first_and_last(*block, size), (n as u8, n as u8));
            }
            // The lowest address first.
            let mut sorted = blocks.clone();
            sorted.sort_unstable();
            for block in [sorted[each + 1], sorted[0], sorted[each]] {
                assert!(regions.give(block, size));
            }
            assert_eq!(regions.take(size), Some(sorted[0]));
            assert_eq!(regions.take(size), Some(sorted[each]));
            sorted.remove(each + 1);
            assert!(sorted.into_iter().all(|block| regions.give(block, size)));
            assert_eq!((regions.all.len(), regions.with_room.len()), (0, 0), "{size}");
        }
    }

    #[test]
    fn free_blocks_are_given_back_and_used_ones_are_not() {
        let (mut regions, size) = (Regions::new(), 2 * ALIGNMENT);
        let blocks: Vec<_> = (0..20).map(|_| regions.take(size).unwrap()).collect();
        blocks.iter().for_each(|block| fill(*block, size, 7));
        for block in &blocks[3..9] {
            assert!(regions.give(*block, size));
        }
        regions.trim();
        for block in blocks[..3].iter().chain(&blocks[9..]) {
            assert_eq!(first_and_last(*block, size), (7, 7));
        }
        for block in &blocks[3..9] {
            assert_eq!(regions.take(size), Some(*block));
            assert_eq!(first_and_last(*block, size), (0, 0));
        }
        assert!(blocks.iter().all(|block| regions.give(*block, size)));
        assert!(regions.all.is_empty());
        // One that is not of a region.
        assert!(!regions.give(blocks[0], size));
    }
}
