//! One leaf of the vdev tree: a file, a block device, memory, a simulated disk, or a window over
//! another leaf.
//!
//! The rest of zinc sees a leaf only as [`Device`]. It reads byte ranges, in batches, without
//! waiting: a batch of [`Read`]s goes in with one call, and each read's [`Done`] is called when
//! its bytes are there. Nothing above knows whether io_uring or threads did it, whether the page
//! cache was passed by, or what alignment the device wants.
//!
//! Writing is a second trait over it, [`WriteDevice`], implemented by what a different function
//! opened ([`RwFileDevice`]) or wrapped.
//!
//! **Invariant: a [`DeviceRef`] cannot be written through.** [`Device`] has no method that changes
//! one, and [`FileDevice`] opens for reading only.

#![deny(unsafe_code)]

mod batch;
#[expect(unsafe_code, reason = "allocates with an alignment, and not initialised")]
mod buf;
mod complete;
mod crash;
mod crc32;
mod error;
mod fault;
mod file;
pub mod gpt;
mod histogram;
mod memory;
mod model;
mod partition;
mod silence;
mod sim;
mod source;
mod stats;
mod version;
mod write;

/// The methods of [`Device`] of what reads as its field `reader` does.
macro_rules! reads_as_its_reader {
    () => {
        fn name(&self) -> &str {
            self.reader.name()
        }

        fn size(&self) -> u64 {
            self.reader.size()
        }

        fn size_now(&self) -> u64 {
            self.reader.size_now()
        }

        fn sector_size(&self) -> u32 {
            self.reader.sector_size()
        }

        fn is_rotating(&self) -> bool {
            self.reader.is_rotating()
        }

        fn displaced(&self) -> Option<crate::Displacement> {
            self.reader.displaced()
        }

        fn ends_within(&self) -> Option<core::time::Duration> {
            self.reader.ends_within()
        }

        fn held_elsewhere(&self) -> Option<String> {
            self.reader.held_elsewhere()
        }

        fn follow(&self, place: &std::path::Path) -> bool {
            self.reader.follow(place)
        }

        fn accept_size(&self) -> bool {
            self.reader.accept_size()
        }

        fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), crate::Error> {
            self.reader.read(offset, buf)
        }

        fn read_new(&self, offset: u64, len: usize) -> Result<crate::AlignedBuf, crate::Error> {
            self.reader.read_new(offset, len)
        }

        fn submit(&self, batch: Vec<crate::Read>) {
            self.reader.submit(batch);
        }

        fn stats(&self) -> crate::Stats {
            self.reader.stats()
        }
    };
}
pub(crate) use reads_as_its_reader;

/// Helpers for implementations of devices to keep the rules of callbacks.
pub mod backend {
    pub use crate::complete::{Collector, Ticket, collect, deliver, deliver_write, delivering};
    pub use crate::range_within;
    pub use crate::stats::Counters;
    pub use crate::write::split_refused;
}

pub use batch::{read_batch, read_one};
pub use buf::{
    ALIGNMENT, AlignedBuf, Allocator, IdleMemory, KeptMemory, limit_arenas, map_large_blocks,
};
pub use crash::{CrashLog, CrashMode};
pub use error::{Error, ErrorKind, Operation};
pub use fault::{Fault, FaultDevice, RwFaultDevice};
pub use file::{
    Backend, Direct, FileDevice, Options, RwFileDevice, may_write, memory_bytes, was_stdout_closed,
};
pub use histogram::{
    AtomicHistogram, HISTOGRAM_CLASSES, Histogram, SAMPLE, SMALL_BYTES, histogram_class,
    sample_weight,
};
pub use memory::{MemoryDevice, is_zero};
pub use model::{DiskModel, ModelKind, ModelRequest, run_model};
pub use partition::{Partition, RwPartition};
pub use silence::SilenceWatch;
pub use sim::{SimCost, SimDevice, SimDisks, SimModel, SimOptions};
pub use source::{DeviceSource, LocalDevices, OpenPolicy};
pub use stats::{LATENCY_CLASSES, Stats, StoreUsage};
pub use version::Version;
pub use write::{Shared, Write, WriteDevice, WriteDeviceRef, write_batch};

use core::time::Duration;
use std::path::Path;
use std::sync::Arc;

/// Longest single read or write. A ZFS block has at most 16 MiB; this leaves room for aggregation,
/// and keeps a length that was made up from costing memory on a device that is large but sparse.
pub const MAX_READ_BYTES: usize = 256 << 20;

/// Called once with the result of a request.
///
/// It runs on one of the device's threads, or on the submitting one before
/// [`submit`](Device::submit) has returned, never inside another `Done`. It must not wait for
/// anything but a short lock: other requests wait behind it. Submitting more reads is fine.
pub type Done = Box<dyn FnOnce(Result<AlignedBuf, Error>) + Send>;

/// Called once with the result of a write, under the rules of [`Done`].
pub type WriteDone = Box<dyn FnOnce(Result<(), Error>) + Send>;

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

    /// Size in bytes: that of the time when it was opened, or was last told to
    /// [grow](WriteDevice::grow).
    fn size(&self) -> u64;

    /// Size in bytes that it could be used with by now: a file or disk may have grown while it is
    /// open. Asks the system each time.
    fn size_now(&self) -> u64 {
        self.size()
    }

    /// Logical sector size in bytes, a power of two: the unit of the device itself. Any offset and
    /// length may be requested; whole sectors are cheaper.
    fn sector_size(&self) -> u32;

    /// It has moving parts: the way between two places costs time, so it wants few and large
    /// requests.
    fn is_rotating(&self) -> bool {
        false
    }

    /// Why it will not be found, or not all of it, where it was opened, although it still works: a
    /// file that was deleted or replaced lives as long as it is open, and what is written to it is
    /// lost then. Asks the system each time.
    fn displaced(&self) -> Option<Displacement> {
        None
    }

    /// Within this time it ends each request by itself, since its name says how long one
    /// may take: silence of that length is no fault of it. `None`: nothing is known.
    fn ends_within(&self) -> Option<Duration> {
        None
    }

    /// What has it open for writing on another machine, for people, as far as it says so itself.
    /// May ask the device.
    fn held_elsewhere(&self) -> Option<String> {
        None
    }

    /// From now on `place` is where it is looked for, if the very file that is open is there:
    /// whether it is. A disk is no such file: what is plugged in under another name may be another.
    fn follow(&self, place: &Path) -> bool {
        let _ = place;
        false
    }

    /// It was cut short ([`Displacement::Cut`]), and is not displaced for that any more: the caller
    /// knows that what was cut off it is lost. Whether it was so.
    fn accept_size(&self) -> bool {
        false
    }

    /// Reads and waits. A range that is not within the device is [`ErrorKind::BeyondEnd`]; then,
    /// and after any other error, the contents of `buf` mean nothing.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error>;

    /// Reads into new memory and waits. Cheaper than [`read`](Device::read) into zeros, where the
    /// device can fill memory that was never written.
    fn read_new(&self, offset: u64, len: usize) -> Result<AlignedBuf, Error> {
        let fail = |kind| Error::read(kind, &Arc::from(self.name()), offset, len);
        // Before the allocation: a length from a damaged structure must not cost memory.
        range_within(self.size(), offset, len).map_err(fail)?;
        let mut buf = AlignedBuf::try_zeroed(len).ok_or_else(|| fail(ErrorKind::OutOfMemory))?;
        self.read(offset, &mut buf)?;
        Ok(buf)
    }

    /// Queues all reads of the batch and returns; each `done` is called exactly once, in any
    /// order, even when the device is dropped first.
    ///
    /// Hold no lock that a `done` takes: it may be called within this call, and this call waits
    /// while thousands of reads are queued already (except inside a `done`, where it never waits).
    fn submit(&self, batch: Vec<Read>);

    /// Its counts since it was opened; all zero for a device that does not count.
    fn stats(&self) -> Stats {
        Stats::default()
    }
}

/// How an open file or disk was displaced: see [`Device::displaced`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displacement {
    /// It has no name any more.
    Deleted,
    /// It is not where it was opened.
    Moved,
    /// Something else is where it was opened.
    Replaced,
    /// It is shorter than it was when it was opened.
    Short {
        /// Its size in bytes.
        size: u64,
        /// That which it had.
        expected: u64,
    },
    /// It was shorter for a while, and has its size again.
    Cut,
}

impl Displacement {
    /// It is where it was opened, and what was behind its end is lost.
    #[must_use]
    pub fn is_of_size(self) -> bool {
        matches!(self, Self::Short { .. } | Self::Cut)
    }
}

impl core::fmt::Display for Displacement {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Deleted => f.pad("was deleted"),
            Self::Moved => f.pad("was moved away"),
            Self::Replaced => f.pad("was replaced"),
            Self::Short { size, expected } => {
                write!(f, "is smaller than the pool expects: {size} bytes, not {expected}")
            }
            Self::Cut => f.pad("was cut short for a while"),
        }
    }
}

/// A shared device.
pub type DeviceRef = Arc<dyn Device>;

/// Checks that a range of any length lies within a device of `size` bytes.
pub(crate) fn range_within_all(size: u64, offset: u64, len: u64) -> Result<(), ErrorKind> {
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(ErrorKind::BeyondEnd { size }),
    }
}

/// Checks that a range may be read from, or written to, a device of `size` bytes.
///
/// # Errors
/// Why it may not.
pub fn range_within(size: u64, offset: u64, len: usize) -> Result<(), ErrorKind> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= size => {}
        _ => return Err(ErrorKind::BeyondEnd { size }),
    }
    if len > MAX_READ_BYTES { Err(ErrorKind::TooLong) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_without_overflow() {
        let beyond = Err(ErrorKind::BeyondEnd { size: 1000 });
        assert_eq!(range_within(1000, 0, 1000), Ok(()));
        assert_eq!(range_within(1000, 1000, 0), Ok(()));
        assert_eq!(range_within(1000, 1, 1000), beyond);
        assert_eq!(range_within(1000, 1001, 0), beyond);
        assert_eq!(range_within(1000, u64::MAX, usize::MAX), beyond);
        assert_eq!(range_within(u64::MAX, 0, MAX_READ_BYTES + 1), Err(ErrorKind::TooLong));
    }
}
