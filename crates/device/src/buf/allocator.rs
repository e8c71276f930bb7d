//! The allocator of a program: the system's, and one clear line when that has no more.
//!
//! Nearly all memory is requested where nothing could be done without it: a name, a list, a node of
//! a tree. Rust's own answer to a refusal there is an abort with a core file. Here the program
//! prints a message and ends with the exit code of any failure. A pool that it had open for writing
//! is as after `kill -9`: everything that was synced is there.
//!
//! Buffers for I/O do not come through here ([`super::idle`]): they are large, claimed by what is
//! on disk, and a refusal is an error of the one operation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a program that failed.
const FAILED: libc::c_int = 1;

/// A thread has begun to print it.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// To be a program's `#[global_allocator]`.
#[derive(Debug)]
pub struct Allocator {
    program: &'static str,
}

impl Allocator {
    /// That of a program of this name.
    #[must_use]
    pub const fn of(program: &'static str) -> Self {
        Self { program }
    }

    fn must(&self, start: *mut u8, size: usize) -> *mut u8 {
        if start.is_null() {
            self.end(size);
        }
        start
    }

    /// Nothing here allocates, and no lock is taken: the refusal may have come under any.
    #[cold]
    fn end(&self, size: usize) -> ! {
        if IS_ENDING.swap(true, Ordering::Relaxed) {
            loop {
                // SAFETY: waits for a signal, and takes nothing. Another thread ends the process.
                unsafe { libc::pause() };
            }
        }
        let mut line = [0u8; 256];
        let mut rest = &mut line[..];
        let _ = write!(
            rest,
            "{}: out of memory: the system refused {size} bytes\n  hint: a limit of the process \
             (`ulimit -v`) may be too small; what was synced is safe\n",
            self.program
        );
        let left = rest.len();
        // SAFETY: the line is that long. Nothing of the process runs after the call that ends it.
        unsafe {
            libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len() - left);
            libc::_exit(FAILED)
        }
    }
}

// SAFETY: all is done by the system's allocator, whose results are handed on.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantees are those that are required here.
        self.must(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.must(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        self.must(unsafe { System.realloc(start, layout, size) }, size)
    }
}
