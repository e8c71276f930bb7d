//! Allocations for I/O, and the freed ones that wait to be used again.
//!
//! Lengths are rounded up to one of a few sizes, four between a power of two and the next and all
//! whole pages, so that what was freed fits what is asked for next: at most a quarter is wasted,
//! and nothing on a power of two. What waits is bounded in bytes for the whole process; an
//! allocation that is larger than any ZFS block, or one too many, goes back to the system at once.
//!
//! A pool that is written to fills and frees as much memory as may be dirty in it again and again,
//! and getting that from the system costs more than everything else that is done with it. So the
//! program that opens one keeps an [`IdleMemory`], which raises the bound, and lets go of what
//! waits when nothing happens. Beyond the small bound, what waits and what is used are together
//! never more than was used at once: waiting memory is taken from the past, not from others.

use super::ALIGNMENT;
use core::ptr::NonNull;
use parking_lot::Mutex;
use std::alloc::{GlobalAlloc as _, Layout, System};
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

// SAFETY: it gives no access to the bytes by itself, and the system's allocator accepts a
// deallocation on any thread.
unsafe impl Send for Block {}
// SAFETY: as above, there is nothing to reach through a shared reference.
unsafe impl Sync for Block {}

/// The waiting allocations, by their size.
struct Idle {
    /// Bytes that wait.
    bytes: usize,
    /// Bytes of allocations that are used.
    used: usize,
    /// Most bytes that were used at once since what waits was let go.
    peak: usize,
    /// Bytes that may wait because of all [`IdleMemory`].
    raised: usize,
    /// How many [`KeptMemory`] there are.
    keepers: usize,
    /// Something was allocated since memory was given back.
    busy: bool,
    blocks: BTreeMap<usize, Vec<Block>>,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle {
    bytes: 0,
    used: 0,
    peak: 0,
    raised: 0,
    keepers: 0,
    busy: false,
    blocks: BTreeMap::new(),
});

impl Idle {
    fn use_more(&mut self, size: usize) {
        self.used += size;
        self.peak = self.peak.max(self.used);
    }

    fn take(&mut self, size: usize) -> Option<Block> {
        let block = self.blocks.get_mut(&size)?.pop()?;
        self.bytes -= size;
        Some(block)
    }

    /// Takes out the largest while `too_many` of those that are left.
    fn evict(&mut self, too_many: impl Fn(&Self) -> bool) -> Vec<Block> {
        let mut out = Vec::new();
        while self.bytes > 0 && too_many(self) {
            let Some(mut size) = self.blocks.last_entry() else { break };
            match size.get_mut().pop() {
                Some(block) => {
                    self.bytes -= block.layout.size();
                    out.push(block);
                }
                None => drop(size.remove()),
            }
        }
        out
    }
}

/// Lets more memory wait for its next use, as long as it lives. See [`IdleMemory::new`].
pub struct IdleMemory {
    bytes: usize,
}

impl IdleMemory {
    /// Lets `bytes` of freed buffers wait in this process, beside the little that always may.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let mut idle = IDLE.lock();
        idle.raised = idle.raised.saturating_add(bytes);
        Self { bytes }
    }

    /// Another bound from now on.
    pub fn resize(&mut self, bytes: usize) {
        let mut idle = IDLE.lock();
        idle.raised = idle.raised.saturating_sub(self.bytes).saturating_add(bytes);
        self.bytes = bytes;
    }

    /// Gives the memory that waits back to the system, but for the little that always may: there
    /// is nothing to do now. So does the allocator with what it keeps: after a load its arenas are
    /// full of holes between what stays, hundreds of megabytes that it never gives back by itself.
    ///
    /// Nothing is given back while there is a [`KeptMemory`].
    pub fn release(&self) {
        if IDLE.lock().keepers == 0 {
            give_back();
        }
    }
}

fn give_back() {
    let (freed, was_busy) = {
        let mut idle = IDLE.lock();
        idle.peak = idle.used;
        let was_busy = std::mem::take(&mut idle.busy);
        (idle.evict(|idle| idle.bytes > IDLE_BYTES_MAX), was_busy)
    };
    freed.into_iter().for_each(Block::free);
    if was_busy {
        trim_allocator();
    }
}

/// As long as it lives, the process keeps what is freed, also when a pool is closed.
///
/// For a program that opens one pool after the other: the next one asks for as much memory as the
/// last one gave back, and to have the system clear it once more costs up to a third of the time.
/// When one of several ends, what waits is given back once.
#[derive(Debug)]
pub struct KeptMemory(());

impl KeptMemory {
    /// Begins now.
    #[must_use]
    pub fn new() -> Self {
        IDLE.lock().keepers += 1;
        Self(())
    }
}

impl Default for KeptMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for KeptMemory {
    fn drop(&mut self) {
        IDLE.lock().keepers -= 1;
        give_back();
    }
}

/// Bytes of a block that [`map_large_blocks`] calls large.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK: libc::c_int = 4 << 20;

/// Has the allocator give free pages back to the system. It goes through all it has, some
/// milliseconds; where nothing is allocated, it is not called again.
fn trim_allocator() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and locks what it looks at.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// From here on the allocator asks the system for each large block, and gives it back.
///
/// Else it keeps freed ones up to 32 MiB, and fills with zeros what a program asks for as zeros. A
/// mount allocates 16 MiB for each of its threads and uses the beginning: untouched pages from the
/// system cost nothing, filled ones 40 MB a mount.
pub fn map_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers, and changes a number of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
    }
}

/// From here on all threads together allocate from so many arenas.
///
/// Of itself the allocator has eight for each processor, and buffers are made by one thread and
/// freed by another: what is free in the arena of one thread is of no use to the next, and is not
/// given back. One for each processor is as fast, with a third less memory for a check
/// (`bench/check`). Each also reserves 64 MiB of addresses: where these are bounded
/// (`ulimit -v`), they run out long before memory does, and one arena is right.
pub fn limit_arenas(count: usize) {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers, and changes a number of the allocator.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX));
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = count;
}

impl Drop for IdleMemory {
    fn drop(&mut self) {
        self.resize(0);
        self.release();
    }
}

impl Block {
    /// An allocation of at least `len` bytes; `None` when the system has not that much memory.
    pub(super) fn new(len: usize, zeroed: bool) -> Option<Self> {
        let size = rounded(len)?;
        let layout = Layout::from_size_align(size, ALIGNMENT).ok()?;
        let (waiting, freed) = {
            let mut idle = IDLE.lock();
            let waiting = idle.take(size);
            if waiting.is_none() && idle.used.checked_add(size)? > isize::MAX as usize {
                return None;
            }
            idle.use_more(size);
            idle.busy = true;
            let too_many = |i: &Idle| i.bytes > IDLE_BYTES_MAX && i.used + i.bytes > i.peak;
            let freed = if waiting.is_none() { idle.evict(too_many) } else { Vec::new() };
            (waiting, freed)
        };
        freed.into_iter().for_each(Self::free);
        if let Some(block) = waiting {
            if zeroed {
                // SAFETY: a waiting block is an allocation of `size` bytes that is not in use.
                unsafe { block.start.write_bytes(0, size) };
            }
            return Some(block);
        }
        // SAFETY: the layout's size is at least a page.
        let start =
            unsafe { if zeroed { System.alloc_zeroed(layout) } else { System.alloc(layout) } };
        let start = NonNull::new(start);
        if start.is_none() {
            IDLE.lock().used -= size;
        }
        Some(Self { start: start?, layout })
    }

    /// Gives it back to the system.
    fn free(self) {
        // SAFETY: the block came from the system's allocator with this layout, and the one that had
        // it gave it away.
        unsafe { System.dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Takes back an allocation that is not used any more.
pub(super) fn give(block: Block) {
    let size = block.layout.size();
    {
        let mut idle = IDLE.lock();
        idle.used -= size;
        let room = match idle.keepers {
            0 => idle.raised.saturating_add(IDLE_BYTES_MAX),
            // No more than was used at once.
            _ => idle.peak - idle.used,
        };
        if size <= BLOCK_BYTES_MAX && idle.bytes + size <= room {
            idle.bytes += size;
            idle.blocks.entry(size).or_default().push(block);
            return;
        }
    }
    block.free();
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
        assert!(idle.bytes <= idle.raised + IDLE_BYTES_MAX);
        let counted: usize = idle.blocks.iter().map(|(size, list)| size * list.len()).sum();
        assert_eq!(idle.bytes, counted);
    }

    /// Other tests of this process use the same list, so only what they cannot change is told.
    #[test]
    fn more_waits_while_it_is_wanted() {
        const SIZE: usize = 7 << 20;
        let waiting = || IDLE.lock().blocks.get(&SIZE).map_or(0, Vec::len);
        let kept = IdleMemory::new(512 << 20);
        let blocks: Vec<_> = (0..20).filter_map(|_| Block::new(SIZE, false)).collect();
        blocks.into_iter().for_each(give);
        assert_eq!(waiting(), 20);
        let again: Vec<_> = (0..20).filter_map(|_| Block::new(SIZE, false)).collect();
        assert_eq!(waiting(), 0);
        again.into_iter().for_each(give);
        // Memory that is wanted in another size does not come on top of what waits.
        let (used, bytes) = {
            let i = IDLE.lock();
            (i.used, i.bytes)
        };
        let other: Vec<_> = (0..10).filter_map(|_| Block::new(5 << 20, false)).collect();
        let idle = IDLE.lock();
        assert!(idle.bytes < bytes || idle.used < used + (50 << 20), "{} {bytes}", idle.bytes);
        drop(idle);
        other.into_iter().for_each(give);
        let keeper = KeptMemory::new();
        kept.release();
        assert!(IDLE.lock().bytes > IDLE_BYTES_MAX);
        drop(keeper);
        assert!(waiting() * SIZE <= IDLE_BYTES_MAX);
        drop(kept);
        let idle = IDLE.lock();
        assert!(idle.used <= idle.peak && idle.bytes <= idle.raised + IDLE_BYTES_MAX);
    }
}
