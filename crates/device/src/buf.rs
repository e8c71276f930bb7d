//! Memory for I/O.
//!
//! Direct I/O wants memory at an alignment the device chooses, never more than a page; so every
//! allocation here starts at a multiple of [`ALIGNMENT`]. A buffer is a *window* over such an
//! allocation: a read that was widened to the device's sectors, or one long read made for several
//! callers, hands out windows instead of copies. Windows of one allocation never overlap, so each
//! is as exclusive as a `Vec`; the allocation lives until its last window is dropped.
//!
//! Freed allocations are kept for the next read, up to a small bound ([`idle`]): fresh memory costs
//! a page fault for every 4 KiB, which is more than the read itself costs this process.
//!
//! `Space` is memory not yet filled: the kernel writes into it, and only then does it become an
//! [`AlignedBuf`], so that no byte is zeroed first and none is seen before it was written.

mod allocator;
mod idle;
mod regions;

pub use allocator::Allocator;
use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use idle::Block;
pub use idle::{IdleMemory, KeptMemory, limit_arenas, map_large_blocks};
use std::alloc::{Layout, handle_alloc_error};
use std::sync::Arc;

/// Every allocation starts at a multiple of this many bytes: a page, which is enough for the
/// direct I/O of every device Linux knows.
pub const ALIGNMENT: usize = 4096;

/// An allocation. Knows nothing of its contents.
struct Memory(Block);

impl Memory {
    fn new(len: usize, zeroed: bool) -> Option<Self> {
        Block::new(len, zeroed).map(Self)
    }

    fn start(&self) -> NonNull<u8> {
        self.0.start
    }

    /// Bytes that may be used, at least as many as were requested.
    fn len(&self) -> usize {
        self.0.layout.size()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Self(Block { start, layout }) = *self;
        idle::give(Block { start, layout });
    }
}

/// Memory that is not filled yet, for the kernel to read into.
pub(crate) struct Space {
    memory: Memory,
    len: usize,
}

impl Space {
    /// Room for `len` bytes; `None` when the system has not that much memory.
    pub(crate) fn new(len: usize) -> Option<Self> {
        Some(Self { memory: Memory::new(len, false)?, len })
    }

    /// Address of the byte at `at`, which may be the end.
    ///
    /// # Panics
    /// When `at` is behind the end.
    pub(crate) fn at(&mut self, at: usize) -> *mut u8 {
        assert!(at <= self.len, "offset {at} in a space of {}", self.len);
        // SAFETY: `at` is within the allocation, or its end.
        unsafe { self.memory.start().as_ptr().add(at) }
    }

    /// The filled bytes of `window` as a buffer.
    ///
    /// # Safety
    /// All bytes of `window` have been written, and nothing writes to them any more.
    ///
    /// # Panics
    /// When `window` is not within the space.
    pub(crate) unsafe fn filled(self, window: Range<usize>) -> AlignedBuf {
        assert!(window.start <= window.end && window.end <= self.len, "{window:?}");
        // SAFETY: `window.start` is within the allocation, or its end.
        let start = unsafe { self.memory.start().add(window.start) };
        AlignedBuf { memory: Arc::new(self.memory), start, len: window.len(), is_blank: false }
    }
}

/// How often memory that is required is requested again, while other threads return theirs.
const TRIES: usize = 100;

/// Returns what `make` makes, or ends the process. The program's own allocator may have a message
/// for that ([`Allocator`]), so as much is requested of it.
fn insist<T>(len: usize, make: impl Fn() -> Option<T>) -> T {
    let size = len.max(1).checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
    let layout = Layout::from_size_align(size, ALIGNMENT).unwrap_or(Layout::new::<u8>());
    for _ in 0..TRIES {
        if let Some(made) = make() {
            return made;
        }
        // SAFETY: the layout's size is not 0. A compiler may leave an allocation out that nothing
        // looks at.
        let start = std::hint::black_box(unsafe { std::alloc::alloc(layout) });
        if start.is_null() {
            break;
        }
        // SAFETY: it was allocated just now, with this layout.
        unsafe { std::alloc::dealloc(start, layout) }
    }
    handle_alloc_error(layout)
}

/// A buffer that is filled from its start, so that no byte is written twice.
pub(crate) struct Filling {
    space: Space,
    filled: usize,
}

impl Filling {
    /// Room for `len` bytes; `None` when the system has not that much memory.
    pub(crate) fn new(len: usize) -> Option<Self> {
        Some(Self { space: Space::new(len)?, filled: 0 })
    }

    /// The next bytes.
    ///
    /// # Panics
    /// When there is no room for this many.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        assert!(end <= self.space.len, "{end} bytes in a space of {}", self.space.len);
        // SAFETY: the bytes from `filled` to `end` are within the allocation, which nothing else
        // refers to, so `bytes` is not in it.
        unsafe {
            self.space.at(self.filled).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.filled = end;
    }

    /// The next `len` bytes are zeros.
    ///
    /// # Panics
    /// When there is no room for this many.
    pub(crate) fn push_zeros(&mut self, len: usize) {
        let end = self.filled + len;
        assert!(end <= self.space.len, "{end} bytes in a space of {}", self.space.len);
        // SAFETY: the bytes from `filled` to `end` are within the allocation.
        unsafe { self.space.at(self.filled).write_bytes(0, len) };
        self.filled = end;
    }

    /// The buffer; what was not pushed is not in it.
    pub(crate) fn finish(self) -> AlignedBuf {
        // SAFETY: `filled` bytes from the start were written, by the calls above.
        unsafe { self.space.filled(0..self.filled) }
    }
}

/// Bytes for I/O.
///
/// A buffer that was just made starts at a multiple of [`ALIGNMENT`]. One that was cut from
/// another, or read from a device with direct I/O at an odd offset, may start anywhere.
pub struct AlignedBuf {
    /// Keeps the bytes alive; other windows of the same allocation share it.
    memory: Arc<Memory>,
    /// First byte of this window. The window's bytes are initialised and belong to it alone.
    start: NonNull<u8>,
    len: usize,
    /// It was made of zeros, and no caller could write to it since.
    is_blank: bool,
}

// SAFETY: the window's bytes belong to this value alone, as a `Vec`'s do.
unsafe impl Send for AlignedBuf {}
// SAFETY: a shared reference gives only `&[u8]`.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        insist(len, || Self::try_zeroed(len))
    }

    /// `len` zero bytes, or `None` when the system has not that much memory.
    #[must_use]
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let memory = Memory::new(len, true)?;
        let start = memory.start();
        Some(Self { memory: Arc::new(memory), start, len, is_blank: true })
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut filling = insist(bytes.len(), || Filling::new(bytes.len()));
        filling.push(bytes);
        filling.finish()
    }

    /// Bytes of memory that live as long as this buffer: its whole allocation, which may be much
    /// larger than a buffer that was cut from it. A caller that keeps buffers for long should copy
    /// then.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.memory.len()
    }

    /// Whether it is known to hold zeros only, without a look at them: it was made of zeros, and no
    /// caller could write to it since.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.is_blank
    }

    /// Keeps the first `len` bytes; nothing when there are not more than that.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Cuts the buffer in two without copying: keeps `[0, at)` and returns `[at, len)`.
    ///
    /// # Panics
    /// When `at` is behind the end.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.len, "cut at {at} in a buffer of {}", self.len);
        // SAFETY: `at` is within the window, or its end.
        let start = unsafe { self.start.add(at) };
        let (memory, is_blank) = (Arc::clone(&self.memory), self.is_blank);
        let tail = Self { memory, start, len: self.len - at, is_blank };
        self.len = at;
        tail
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the window is initialised, within the allocation, and only this value's.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.is_blank = false;
        // SAFETY: as for `deref`; `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Clone for AlignedBuf {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl Default for AlignedBuf {
    fn default() -> Self {
        Self::zeroed(0)
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_buffers_are_zero_and_aligned() {
        for len in [0, 1, 511, 4096, 100_000] {
            let buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr().addr() % ALIGNMENT, 0);
            assert!(buf.iter().all(|b| *b == 0));
        }
    }

    #[test]
    fn zeros_are_known_until_they_could_be_written_to() {
        let mut buf = AlignedBuf::zeroed(100);
        let mut tail = buf.split_off(50);
        assert!(buf.is_blank() && tail.is_blank());
        tail[0] = 0;
        assert!(buf.is_blank() && !tail.is_blank());
        assert!(!AlignedBuf::copy_of(&[0; 10]).is_blank());
    }

    #[test]
    fn windows_are_separate_and_outlive_the_whole() {
        let mut head = AlignedBuf::copy_of(b"headtail");
        let mut tail = head.split_off(4);
        head.fill(b'x');
        tail[0] = b'T';
        assert_eq!(&head[..], b"xxxx");
        drop(head);
        assert_eq!(&tail[..], b"Tail");
        let end = tail.split_off(4);
        assert!(end.is_empty());
        tail.truncate(2);
        tail.truncate(100);
        assert_eq!(&tail[..], b"Ta");
        assert_eq!(&tail.clone()[..], b"Ta");
    }

    #[test]
    fn a_small_window_keeps_a_large_allocation() {
        let mut buf = AlignedBuf::zeroed(1 << 20);
        let tail = buf.split_off((1 << 20) - 10);
        drop(buf);
        assert_eq!((tail.len(), tail.allocated()), (10, 1 << 20));
        assert_eq!(tail.clone().allocated(), ALIGNMENT);
    }

    #[test]
    fn memory_that_was_used_is_zeroed_again() {
        for _ in 0..10 {
            let mut buf = AlignedBuf::zeroed(300_000);
            assert!(buf.iter().all(|b| *b == 0));
            buf.fill(0xff);
        }
    }

    #[test]
    fn filled_space_becomes_its_window() {
        let mut space = Space::new(16).expect("memory");
        for at in 3..9 {
            // SAFETY: the byte is within the space, and no other thread uses it.
            unsafe { space.at(at).write(at as u8) };
        }
        // SAFETY: the loop above wrote all bytes of the window.
        let buf = unsafe { space.filled(3..9) };
        assert_eq!(&buf[..], &[3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_buffer_is_filled_piece_by_piece() {
        let mut filling = Filling::new(10).expect("memory");
        filling.push(b"abc");
        filling.push_zeros(2);
        filling.push(b"de");
        assert_eq!(&filling.finish()[..], b"abc\0\0de");
        assert!(Filling::new(0).expect("memory").finish().is_empty());
    }

    #[test]
    #[should_panic(expected = "11 bytes in a space of 10")]
    fn nothing_is_filled_beyond_the_end() {
        let mut filling = Filling::new(10).expect("memory");
        filling.push_zeros(4);
        filling.push(b"1234567");
    }

    #[test]
    fn impossible_lengths_are_refused_not_fatal() {
        assert!(AlignedBuf::try_zeroed(usize::MAX).is_none());
        assert!(Space::new(usize::MAX / 2).is_none());
    }
}
