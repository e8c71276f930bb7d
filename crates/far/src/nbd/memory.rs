//! A connection in memory, for hostile bytes.

use nbdwire::Connection;
use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A server that said all it has to say, and takes everything.
pub(super) struct MemoryConnection {
    left: Mutex<Vec<u8>>,
    sent: AtomicUsize,
}

impl MemoryConnection {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let left = bytes.iter().rev().copied().collect();
        Self { left: Mutex::new(left), sent: AtomicUsize::new(0) }
    }

    /// Bytes that it took.
    pub(super) fn sent(&self) -> usize {
        self.sent.load(Relaxed)
    }
}

impl Connection for MemoryConnection {
    fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        let mut left = self.left.lock();
        let n = out.len().min(left.len());
        for byte in out.iter_mut().take(n) {
            *byte = left.pop().unwrap_or_default();
        }
        Ok(n)
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let n = parts.iter().map(|part| part.len()).sum();
        self.sent.fetch_add(n, Relaxed);
        Ok(n)
    }

    fn set_patience(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn end_input(&self) {}

    fn hang_up(&self) {}
}
