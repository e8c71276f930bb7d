//! Allocations for I/O, and the freed ones that wait to be used again.
//!
//! Lengths are rounded up to one of a few sizes, four between a power of two and the next and all
//! whole pages, so that what was freed fits what is asked for next: at most a quarter is wasted,
//! and nothing on a power of two. Short ones are cut from regions ([`super::regions`]), long ones
//! are the system's. What waits is bounded in bytes for the whole process; an allocation that is
//! larger than any ZFS block, or one too many, goes back to where it came from at once.
//!
//! A pool that is written to fills and frees as much memory as may be dirty in it again and again,
//! and getting that from the system costs more than everything else that is done with it. So the
//! program that opens one keeps an [`IdleMemory`], which raises the bound, and lets go of what
//! waits when nothing happens. Beyond the small bound, what waits and what is used are together
//! never more than was used at once: waiting memory is taken from the past, not from others.

use super::ALIGNMENT;
use super::regions::{Regions, SHORT_BYTES_MAX};
use core::ptr::NonNull;
use parking_lot::Mutex;
use std::alloc::{GlobalAlloc as _, Layout, System};
use std::collections::BTreeMap;

/// Bytes that may wait while something is done, and from one pool to the next. Enough for the reads
/// of a deep queue on several disks.
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

/// The regions that short blocks are cut from. Locked while nothing else is.
static REGIONS: Mutex<Regions> = Mutex::new(Regions::new());

/// The list of this process. A test has its own, so that what others allocate does not count in it.
static IDLE: Mutex<Idle> = Mutex::new(Idle::new());

impl Idle {
    const fn new() -> Self {
        Self {
            bytes: 0,
            used: 0,
            peak: 0,
            raised: 0,
            keepers: 0,
            busy: false,
            blocks: BTreeMap::new(),
        }
    }

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

/// A list, with its accounts.
#[derive(Clone, Copy)]
struct List<'a>(&'a Mutex<Idle>);

impl List<'static> {
    fn raise(self, bytes: usize) -> IdleMemory {
        let mut idle = self.0.lock();
        idle.raised = idle.raised.saturating_add(bytes);
        IdleMemory { bytes, list: self }
    }

    fn keep(self) -> KeptMemory {
        self.0.lock().keepers += 1;
        keep_freed_in_allocator();
        KeptMemory(self)
    }
}

impl List<'_> {
    fn allocate(self, len: usize, zeroed: bool) -> Option<Block> {
        let size = rounded(len)?;
        let layout = Layout::from_size_align(size, ALIGNMENT).ok()?;
        let (waiting, freed) = {
            let mut idle = self.0.lock();
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
        freed.into_iter().for_each(Block::free);
        if let Some(block) = waiting {
            if zeroed {
                // SAFETY: a waiting block is an allocation of `size` bytes that is not in use.
                unsafe { block.start.write_bytes(0, size) };
            }
            return Some(block);
        }
        let block = Block::of_system(layout, zeroed);
        if block.is_none() {
            self.0.lock().used -= size;
        }
        block
    }

    /// Takes back an allocation that is not used any more.
    fn take_back(self, block: Block) {
        let size = block.layout.size();
        {
            let mut idle = self.0.lock();
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

    /// Gives what waits back to the system, but for `kept` bytes.
    fn shrink(self, kept: usize) {
        let (freed, was_busy) = {
            let mut idle = self.0.lock();
            idle.peak = idle.used;
            let was_busy = std::mem::take(&mut idle.busy);
            (idle.evict(|idle| idle.bytes > kept), was_busy)
        };
        freed.into_iter().for_each(Block::free);
        if was_busy {
            REGIONS.lock().trim();
            trim_allocator();
        }
    }
}

/// Lets more memory wait for its next use, as long as it lives. See [`IdleMemory::new`].
pub struct IdleMemory {
    bytes: usize,
    list: List<'static>,
}

impl IdleMemory {
    /// Lets `bytes` of freed buffers wait in this process, beside the little that always may.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        List(&IDLE).raise(bytes)
    }

    /// Another bound from now on.
    pub fn resize(&mut self, bytes: usize) {
        let mut idle = self.list.0.lock();
        idle.raised = idle.raised.saturating_sub(self.bytes).saturating_add(bytes);
        self.bytes = bytes;
    }

    /// Gives the memory that waits back to the system: there is nothing to do now. So does the
    /// allocator with what it keeps: after a load its arenas are full of holes between what stays,
    /// hundreds of megabytes that it never gives back by itself.
    ///
    /// Nothing is given back while there is a [`KeptMemory`].
    pub fn release(&self) {
        self.shrink(0);
    }

    fn shrink(&self, kept: usize) {
        if self.list.0.lock().keepers == 0 {
            self.list.shrink(kept);
        }
    }
}

/// As long as it lives, the process keeps what is freed, also when a pool is closed.
///
/// For a program that opens one pool after the other: the next one asks for as much memory as the
/// last one gave back, and to have the system clear it once more costs up to a third of the time.
/// When the last of several ends, what waits is given back once. The allocator keeps what it has
/// until then, too, and from then on gives back only when it is asked to
/// ([`IdleMemory::release`]).
pub struct KeptMemory(List<'static>);

impl KeptMemory {
    /// Begins now.
    #[must_use]
    pub fn new() -> Self {
        List(&IDLE).keep()
    }
}

impl Default for KeptMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for KeptMemory {
    fn drop(&mut self) {
        self.0.0.lock().keepers -= 1;
        self.0.shrink(IDLE_BYTES_MAX);
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

/// From here on the allocator gives nothing back by itself.
///
/// Else it asks the system for every list of some hundred KiB and gives it back, and each time the
/// system clears it: a seventh of the page faults of a simulation.
fn keep_freed_in_allocator() {
    /// Larger blocks are the system's still. Not more is allowed.
    #[cfg(target_env = "gnu")]
    const MAPPED_BYTES: libc::c_int = 32 << 20;
    #[cfg(target_env = "gnu")]
    // SAFETY: each takes two numbers, and changes a number of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
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

/// From here on all threads together allocate from this number of arenas.
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
        // The next pool may be opened at once.
        self.shrink(IDLE_BYTES_MAX);
    }
}

impl Block {
    /// An allocation of at least `len` bytes; `None` when the system has not that much memory.
    pub(super) fn new(len: usize, zeroed: bool) -> Option<Self> {
        List(&IDLE).allocate(len, zeroed)
    }

    /// One that is not of those that wait: cut from a region, or the system's, when it is long or
    /// when there is no room for another region.
    fn of_system(layout: Layout, zeroed: bool) -> Option<Self> {
        let size = layout.size();
        let is_short = size <= SHORT_BYTES_MAX;
        if let Some(start) = is_short.then(|| REGIONS.lock().take(size)).flatten() {
            if zeroed {
                // SAFETY: the block is that long, and nothing else has it.
                unsafe { start.write_bytes(0, size) };
            }
            return Some(Self { start, layout });
        }
        // SAFETY: the layout's size is at least a page.
        let start =
            unsafe { if zeroed { System.alloc_zeroed(layout) } else { System.alloc(layout) } };
        Some(Self { start: NonNull::new(start)?, layout })
    }

    /// Gives it back to its region, or to the system.
    fn free(self) {
        let size = self.layout.size();
        if size <= SHORT_BYTES_MAX && REGIONS.lock().give(self.start, size) {
            return;
        }
        // SAFETY: the block came from the system's allocator with this layout, and the one that had
        // it gave it away.
        unsafe { System.dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Takes back an allocation that is not used any more.
pub(super) fn give(block: Block) {
    List(&IDLE).take_back(block);
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

    /// A list that no other test allocates from.
    fn list() -> List<'static> {
        List(Box::leak(Box::new(Mutex::new(Idle::new()))))
    }

    fn some(list: List<'_>, count: usize, len: usize) -> Vec<Block> {
        (0..count).map(|_| list.allocate(len, false).unwrap()).collect()
    }

    fn free(list: List<'_>, blocks: Vec<Block>) {
        blocks.into_iter().for_each(|block| list.take_back(block));
    }

    #[test]
    fn what_waits_is_bounded() {
        let list = list();
        let blocks = some(list, 40, 3 << 20);
        free(list, blocks);
        let idle = list.0.lock();
        assert_eq!((idle.bytes, idle.used), (30 << 20, 0));
        let counted: usize = idle.blocks.iter().map(|(size, list)| size * list.len()).sum();
        assert_eq!(idle.bytes, counted);
    }

    #[test]
    fn more_waits_while_it_is_wanted() {
        const MIB: usize = 1 << 20;
        let list = list();
        let waiting = || list.0.lock().blocks.get(&(7 * MIB)).map_or(0, Vec::len);
        let mut kept = list.raise(512 * MIB);
        free(list, some(list, 20, 7 * MIB));
        assert_eq!(waiting(), 20);
        let again = some(list, 20, 7 * MIB);
        assert_eq!(waiting(), 0);
        free(list, again);
        // Memory that is needed in another size is not added to what waits.
        let other = some(list, 10, 5 * MIB);
        {
            let idle = list.0.lock();
            assert_eq!((idle.used, idle.peak), (50 * MIB, 140 * MIB));
            assert_eq!(idle.bytes, 12 * 7 * MIB);
        }
        free(list, other);
        let keeper = list.keep();
        kept.release();
        assert_eq!(list.0.lock().bytes, 134 * MIB);
        drop(keeper);
        // The largest go first, until 32 MiB are left at most.
        assert_eq!((waiting(), list.0.lock().bytes), (0, 30 * MIB));
        kept.release();
        assert_eq!(list.0.lock().bytes, 0);
        kept.resize(0);
        free(list, some(list, 20, 7 * MIB));
        let idle = list.0.lock();
        assert_eq!((idle.bytes, idle.used, idle.raised), (28 * MIB, 0, 0));
    }
}
