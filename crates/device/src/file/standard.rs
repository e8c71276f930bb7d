//! Whether the process began without standard output.
//!
//! The standard library opens `/dev/null` in the place of a standard stream that is closed, before
//! anything else of a program runs, and from then on that cannot be detected. The system's loader
//! calls [`look`] before that.

#![allow(unsafe_code, reason = "a call of the system before main")]

use std::sync::atomic::{AtomicBool, Ordering};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the section holds pointers to functions that the loader calls once, before `main` and
// before other threads; `look` takes no arguments, needs nothing of the standard library that is
// set up later, and does not unwind.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: it only reads the flags of a number, which need not be a descriptor.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    IS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Whether standard output was closed when the process began (`>&-`).
#[must_use]
pub fn was_stdout_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}
