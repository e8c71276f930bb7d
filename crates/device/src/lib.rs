//! One leaf of the vdev tree: a file, a block device, memory.
//!
//! The rest of zinc sees a device only as [`Device`].

use std::sync::Arc;

/// Memory for I/O: 4096-byte aligned, length as asked.
pub struct AlignedBuf(Vec<u8>);

/// What went wrong with one request.
#[derive(Debug, Clone)]
pub struct Error;

/// Called once with the result of a request, on one of the device's threads: must not block.
pub type Done = Box<dyn FnOnce(Result<AlignedBuf, Error>) + Send>;

/// One read of a batch.
pub struct Read {
    /// Byte offset on the device; any value.
    pub offset: u64,
    /// Bytes to read; any value.
    pub len: usize,
    /// Receives the bytes or the error.
    pub done: Done,
}

/// A leaf.
pub trait Device: Send + Sync {
    /// Path or name, for messages.
    fn name(&self) -> &str;
    /// Size in bytes.
    fn size(&self) -> u64;
    /// Logical sector size in bytes.
    fn sector_size(&self) -> u32;
    /// Reads and waits.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error>;
    /// Queues all reads of the batch at once and returns; each `done` is called exactly once.
    fn submit(&self, batch: Vec<Read>);
}

/// A shared device.
pub type DeviceRef = Arc<dyn Device>;
