//! Writing to a leaf.
//!
//! [`WriteDevice`] is a second trait over [`Device`]: code that was given a [`DeviceRef`] cannot
//! write, whatever it refers to. Writes go in as reads do, in batches with a callback each, and
//! have no order among themselves; [`WriteDevice::flush`] is the only promise about what survives.

use crate::{AlignedBuf, Device, DeviceRef, Error, ErrorKind, WriteDone, complete, range_within};
use core::fmt;
use core::ops::{Deref, Range};
use rt::Rt;
use std::sync::Arc;

/// An immutable window of an [`AlignedBuf`] that many may hold: one block goes to both sides of a
/// mirror, and a part of it to each column of a stripe, without a copy.
#[derive(Clone)]
pub struct Shared {
    buf: Arc<AlignedBuf>,
    start: usize,
    len: usize,
}

impl Shared {
    /// A shared copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self::from(AlignedBuf::copy_of(bytes))
    }

    /// Whether it is known to hold zeros only ([`AlignedBuf::is_blank`]).
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.buf.is_blank()
    }

    /// The bytes of `range`, of the same memory.
    ///
    /// # Panics
    /// When `range` is not within the window.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        Self { buf: Arc::clone(&self.buf), start: self.start + range.start, len: range.len() }
    }
}

impl From<AlignedBuf> for Shared {
    fn from(buf: AlignedBuf) -> Self {
        Self::from(Arc::new(buf))
    }
}

impl From<Arc<AlignedBuf>> for Shared {
    fn from(buf: Arc<AlignedBuf>) -> Self {
        let len = buf.len();
        Self { buf, start: 0, len }
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buf[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({} bytes)", self.len)
    }
}

/// One write of a batch, gathered from parts.
pub struct Write {
    /// Byte offset on the device. Whole sectors are cheaper, and the only thing whose neighbours
    /// are safe from a power failure.
    pub offset: u64,
    /// The bytes: the parts lie on the device one after the other from `offset` on.
    pub parts: Vec<Shared>,
    /// Receives the result.
    pub done: WriteDone,
}

impl Write {
    /// Bytes of all parts together.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).fold(0, usize::saturating_add)
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.is_empty())
    }
}

/// A leaf that can be changed.
///
/// Writes that are under way at the same time, of one batch or of several, happen in any order;
/// where two of them overlap, or share a sector, the result is undefined. A write is *done* when
/// its callback was called: reads see it from then on. It *survives* a crash when a
/// [`flush`](WriteDevice::flush) that began later has succeeded; before that, all of it, some of
/// its sectors or nothing may be there after a crash.
pub trait WriteDevice: Device {
    /// Queues all writes of the batch and returns; each `done` is called exactly once, in any
    /// order, even when the device is dropped first. Locks: as for [`Device::submit`].
    fn submit_writes(&self, batch: Vec<Write>);

    /// Makes durable every write whose `done` was called before this call, and waits for it.
    ///
    /// # Errors
    /// Nothing is known then about any write since the last flush that succeeded, and a file or
    /// disk never flushes successfully again ([`Self::forget_failed_flush`]): the system may have
    /// dropped what it could not write.
    fn flush(&self) -> Result<(), Error>;

    /// What is left of it, whenever it stops, is what was done until some moment, and nothing that
    /// began later: a write that relies on others needs no flush between.
    fn keeps_order(&self) -> bool {
        false
    }

    /// A flush that failed says nothing of the next one any more. All that was written since the
    /// last flush that succeeded is to be written again, or not to be taken for granted.
    fn forget_failed_flush(&self) {}

    /// Writes and waits. Not durable before a flush.
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error>;

    /// Writes all of (offset, parts) and waits, as [`write_batch`] does. Devices that can do so
    /// without another thread do. Not for callbacks of a device.
    ///
    /// # Errors
    /// Of one of the writes.
    fn write_all(&self, writes: Vec<(u64, Vec<Shared>)>) -> Result<(), Error> {
        let ranges: Vec<(u64, usize)> = writes.iter().map(range_of).collect();
        let (collector, tickets) = complete::collect(&Rt::current(), writes.len());
        self.submit_writes(batch_of(writes, tickets));
        collected(self.name(), collector, ranges).into_iter().collect()
    }

    /// Writes all of (offset, parts), makes them and all that was done before durable, and waits:
    /// as [`Self::write_all`] and [`WriteDevice::flush`] do.
    /// Devices that can do so without another thread do. Not for callbacks of a device.
    ///
    /// # Errors
    /// Of one of the writes, and then nothing was flushed; or of the flush.
    fn write_durably(&self, writes: Vec<(u64, Vec<Shared>)>) -> Result<(), Error> {
        self.write_all(writes)?;
        self.flush()
    }

    /// Tells the device that the bytes of a range are not needed any more, and waits: it may keep
    /// other things there. Until they are written again they are anything. With writes of the range
    /// that are under way at the same time the result is undefined.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] by devices that have no use for that.
    fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        Err(Error::trim(ErrorKind::Unsupported, &Arc::from(self.name()), offset, len))
    }

    /// From now on its size is [`Device::size_now`], when that is larger. Nothing may be known of
    /// what is behind the old end.
    fn grow(&self) {}

    /// This device as a reader.
    fn as_device(self: Arc<Self>) -> DeviceRef;
}

type Ticket = complete::Ticket<Result<(), Error>>;

/// A shared device that can be changed.
pub type WriteDeviceRef = Arc<dyn WriteDevice>;

/// Submits all writes of (offset, parts) at once and waits; the results are in their order.
///
/// May not be called inside a callback of a device, where waiting is forbidden.
pub fn write_batch(
    device: &dyn WriteDevice,
    writes: Vec<(u64, Vec<Shared>)>,
) -> Vec<Result<(), Error>> {
    let ranges: Vec<(u64, usize)> = writes.iter().map(range_of).collect();
    let (collector, tickets) = complete::collect(&Rt::current(), writes.len());
    device.submit_writes(batch_of(writes, tickets));
    collected(device.name(), collector, ranges)
}

fn range_of((offset, parts): &(u64, Vec<Shared>)) -> (u64, usize) {
    (*offset, parts.iter().map(|part| part.len()).sum())
}

fn batch_of(writes: Vec<(u64, Vec<Shared>)>, tickets: Vec<Ticket>) -> Vec<Write> {
    let write = |((offset, parts), ticket): ((u64, Vec<Shared>), Ticket)| {
        let done: WriteDone = Box::new(move |result| ticket.give(result));
        Write { offset, parts, done }
    };
    writes.into_iter().zip(tickets).map(write).collect()
}

/// Waits for all; one that the device forgot has failed.
fn collected(
    name: &str,
    collector: complete::Collector<Result<(), Error>>,
    ranges: Vec<(u64, usize)>,
) -> Vec<Result<(), Error>> {
    let name: Arc<str> = Arc::from(name);
    let fill = |(slot, (offset, len)): (Option<_>, (u64, usize))| {
        slot.unwrap_or_else(|| Err(Error::write(ErrorKind::Gone, &name, offset, len)))
    };
    collector.wait().into_iter().zip(ranges).map(fill).collect()
}

/// Sorts a batch into what may be written to a device of `size` bytes, and what ends at once.
#[must_use]
pub fn split_refused(
    size: u64,
    name: &Arc<str>,
    batch: Vec<Write>,
) -> (Vec<Write>, Vec<(WriteDone, Error)>) {
    let mut refused = Vec::new();
    let mut accepted = Vec::with_capacity(batch.len());
    for write in batch {
        let len = write.len();
        match range_within(size, write.offset, len) {
            Ok(()) => accepted.push(write),
            Err(kind) => refused.push((write.done, Error::write(kind, name, write.offset, len))),
        }
    }
    (accepted, refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDevice, read_one};

    #[test]
    fn windows_share_memory() {
        let whole = Shared::copy_of(b"0123456789");
        let part = whole.slice(2..8);
        let inner = part.slice(1..3);
        assert_eq!((&part[..], &inner[..]), (&b"234567"[..], &b"34"[..]));
        assert_eq!(inner.as_ptr(), whole[3..].as_ptr());
        drop((whole, part));
        assert_eq!(&inner[..], b"34");
        assert!(inner.slice(2..2).is_empty());
    }

    #[test]
    fn a_batch_is_written_in_parts_and_answers_in_order() {
        let device = MemoryDevice::zeros("m", 1 << 20);
        let shared = Shared::copy_of(b"abcdef");
        let results = write_batch(
            &device,
            vec![
                (100, vec![shared.slice(3..6), shared.slice(0..3)]),
                ((1 << 20) - 2, vec![shared.slice(0..3)]),
                (0, vec![]),
                (200, vec![shared]),
            ],
        );
        let ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
        assert_eq!(ok, [true, false, true, true]);
        let error = results[1].clone().expect_err("beyond");
        assert_eq!((error.operation, error.len), (crate::Operation::Write, 3));
        assert_eq!(read_one(&device, 99, 8).map(|b| b.to_vec()), Ok(b"\0defabc\0".to_vec()));
        assert_eq!(read_one(&device, 200, 6).map(|b| b.to_vec()), Ok(b"abcdef".to_vec()));
    }

    #[test]
    fn a_write_device_reads_as_a_device() {
        let device: WriteDeviceRef = Arc::new(MemoryDevice::zeros("m", 1000));
        device.write(10, b"x").expect("write");
        let reader = Arc::clone(&device).as_device();
        assert_eq!(read_one(&*reader, 10, 1).map(|b| b.to_vec()), Ok(b"x".to_vec()));
    }
}
