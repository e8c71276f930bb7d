//! Allocations for I/O, and the freed ones that wait to be used again.
//!
//! Lengths are rounded up to one of a few sizes, four between a power of two and the next and all
//! whole pages, so that what was freed fits what is asked for next: at most a quarter is wasted,
//! and nothing on a power of two. What waits is bounded in bytes for the whole process; an
//! allocation that is larger than any ZFS block, or one too many, goes back to the system at once.

use super::ALIGNMENT;
use core::ptr::NonNull;
use parking_lot::Mutex;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::collections::BTreeMap;

/// Bytes that may wait. Enough for the reads of a deep queue on several disks, and half of what an
/// idle pool may take.
const IDLE_BYTES_MAX: usize = 32 << 20;

/// Longest allocation that may wait: the longest block of ZFS.
const BLOCK_BYTES_MAX: usize = 16 << 20;

/// An allocation as an address and a layout: copied by hand, freed by hand.
pub(super) struct Block {
    pub(super) start: NonNull<u8>,
    pub(super) layout: Layout,
}

// SAFETY: it gives no access to the bytes by itself, and the global allocator accepts a
// deallocation on any thread.
unsafe impl Send for Block {}
// SAFETY: as above, there is nothing to reach through a shared reference.
unsafe impl Sync for Block {}

/// The waiting allocations, by their size.
struct Idle {
    bytes: usize,
    blocks: BTreeMap<usize, Vec<Block>>,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle { bytes: 0, blocks: BTreeMap::new() });

impl Block {
    /// An allocation of at least `len` bytes; `None` when the system has not that much memory.
    pub(super) fn new(len: usize, zeroed: bool) -> Option<Self> {
        let size = rounded(len)?;
        if let Some(block) = take(size) {
            if zeroed {
                // SAFETY: a waiting block is an allocation of `size` bytes that nobody uses.
                unsafe { block.start.write_bytes(0, size) };
            }
            return Some(block);
        }
        let layout = Layout::from_size_align(size, ALIGNMENT).ok()?;
        // SAFETY: the layout's size is at least a page.
        let start = unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        Some(Self { start: NonNull::new(start)?, layout })
    }
}

fn take(size: usize) -> Option<Block> {
    let mut idle = IDLE.lock();
    let block = idle.blocks.get_mut(&size)?.pop()?;
    idle.bytes -= size;
    Some(block)
}

/// Takes back an allocation that nobody uses any more.
pub(super) fn give(block: Block) {
    let size = block.layout.size();
    if size <= BLOCK_BYTES_MAX {
        let mut idle = IDLE.lock();
        if idle.bytes + size <= IDLE_BYTES_MAX {
            idle.bytes += size;
            idle.blocks.entry(size).or_default().push(block);
            return;
        }
    }
    // SAFETY: the block came from the global allocator with this layout, and `Memory` gives each
    // one back once.
    unsafe { dealloc(block.start.as_ptr(), block.layout) }
}

/// The size of an allocation for `len` bytes: at least a page; `None` beyond all memory.
fn rounded(len: usize) -> Option<usize> {
    let pages = len.div_ceil(ALIGNMENT).max(1);
    // A quarter of the power of two below, but whole pages.
    let step = 1usize << (pages - 1).checked_ilog2().unwrap_or(0).saturating_sub(2);
    pages.checked_next_multiple_of(step)?.checked_mul(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_waste_little() {
        let pages = |len| rounded(len).map(|size| size / ALIGNMENT);
        let got: Vec<_> = [0, 1, 4096, 4097, 20_000, 32_769, 69_632, 131_072, 131_073]
            .into_iter()
            .map(|len| pages(len).unwrap_or(0))
            .collect();
        assert_eq!(got, [1, 1, 1, 2, 5, 10, 20, 32, 40]);
        for len in (4096..20_000_000).step_by(997) {
            let size = rounded(len).unwrap_or(0);
            assert!(size >= len && size - len <= len / 4 + 4096, "{len} {size}");
        }
        for shift in 12..40 {
            assert_eq!(rounded(1 << shift), Some(1 << shift));
        }
        assert_eq!(rounded(usize::MAX), None);
    }

    #[test]
    fn what_waits_is_bounded() {
        let blocks: Vec<_> = (0..40).filter_map(|_| Block::new(3 << 20, false)).collect();
        assert_eq!(blocks.len(), 40);
        blocks.into_iter().for_each(give);
        let idle = IDLE.lock();
        assert!(idle.bytes <= IDLE_BYTES_MAX);
        let counted: usize = idle.blocks.iter().map(|(size, list)| size * list.len()).sum();
        assert_eq!(idle.bytes, counted);
    }
}
