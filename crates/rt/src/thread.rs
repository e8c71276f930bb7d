//! Threads with names.

use core::fmt;
use std::cell::Cell;
use std::io;
use std::num::NonZero;
use std::sync::OnceLock;
use std::thread;

pub use std::thread::JoinHandle;

thread_local! {
    /// The calling thread's mark.
    static MARK: Cell<u8> = const { Cell::new(0) };
}

/// What the calling thread was marked with last; 0 at first.
///
/// For what a thread-local value cannot keep while [`crate::Rt::for_each_parallel`] works: there a
/// simulation may go on with a thread on another one of the system's, and the mark goes with it.
#[must_use]
pub fn mark() -> u8 {
    MARK.get()
}

/// Marks the calling thread; what it was marked with before.
pub fn replace_mark(mark: u8) -> u8 {
    MARK.replace(mark)
}

/// Starts a thread. Tools show the first 15 bytes of `name`.
///
/// # Errors
/// When the system refuses another thread. A caller that can work without it should.
pub fn spawn<F, T>(name: &str, body: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // A NUL cannot be in a thread's name, and names come from paths.
    thread::Builder::new().name(name.replace('\0', "?")).spawn(body)
}

/// How many threads can run at the same time here; 1 if the system does not report it. The system
/// is queried once: the answer takes several files of it, and every txg needs it.
#[must_use]
pub fn threads_available() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

/// A thread ended by a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// Its message.
    pub message: String,
}

impl Panicked {
    pub(crate) fn of(payload: &(dyn core::any::Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self { message: text.unwrap_or_else(|| "a panic without words".to_owned()) }
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a thread panicked: {}", self.message)
    }
}

impl std::error::Error for Panicked {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_their_names() {
        let name = || thread::current().name().map(str::to_owned);
        let handle = spawn("io disk\0", name).expect("thread");
        assert_eq!(handle.join().expect("join").as_deref(), Some("io disk?"));
        assert!(threads_available() >= 1);
    }
}
