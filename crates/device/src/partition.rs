//! A window over another device.

use crate::write::split_refused;
use crate::{
    AlignedBuf, Device, DeviceRef, Displacement, Error, Read, Shared, Stats, Write, WriteDevice,
    WriteDeviceRef, complete, range_within, range_within_all,
};
use core::time::Duration;
use std::sync::Arc;

/// Part of another device, as a device: a partition, or an image inside a larger one.
///
/// Its errors speak of itself: its own name, offsets from its own start.
///
/// The window may reach beyond the end of the parent, as the last partition of a truncated image
/// does: what is there can be read, the rest is [`crate::ErrorKind::BeyondEnd`].
pub struct Partition {
    parent: DeviceRef,
    name: Arc<str>,
    start: u64,
    len: u64,
}

impl Partition {
    /// The `len` bytes at `start` of `parent`. `label` distinguishes it from others on the same
    /// parent and is appended to the parent's name. A window that would end beyond 2^64 is cut
    /// there.
    #[must_use]
    pub fn new(parent: DeviceRef, label: &str, start: u64, len: u64) -> Self {
        let name = Arc::from(format!("{}{label}", parent.name()));
        let len = len.min(u64::MAX - start);
        Self { parent, name, start, len }
    }

    /// Byte offset on the parent where the window begins.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Bytes of the window that the parent really has.
    fn present(&self) -> u64 {
        self.parent.size().saturating_sub(self.start).min(self.len)
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), Error> {
        range_within(self.present(), offset, len)
            .map_err(|kind| Error::read(kind, &self.name, offset, len))
    }
}

/// The parent's error, in the window's words.
fn own(name: &Arc<str>, start: u64, mut error: Error) -> Error {
    error.device = Arc::clone(name);
    error.offset = error.offset.saturating_sub(start);
    error
}

impl Device for Partition {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.len
    }

    fn sector_size(&self) -> u32 {
        self.parent.sector_size()
    }

    fn is_rotating(&self) -> bool {
        self.parent.is_rotating()
    }

    fn displaced(&self) -> Option<Displacement> {
        self.parent.displaced()
    }

    fn ends_within(&self) -> Option<Duration> {
        self.parent.ends_within()
    }

    fn held_elsewhere(&self) -> Option<String> {
        self.parent.held_elsewhere()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.check(offset, buf.len())?;
        self.parent
            .read(self.start + offset, buf)
            .map_err(|error| own(&self.name, self.start, error))
    }

    fn read_new(&self, offset: u64, len: usize) -> Result<AlignedBuf, Error> {
        self.check(offset, len)?;
        self.parent
            .read_new(self.start + offset, len)
            .map_err(|error| own(&self.name, self.start, error))
    }

    fn submit(&self, batch: Vec<Read>) {
        let mut refused = Vec::new();
        let mut inside = Vec::with_capacity(batch.len());
        for Read { offset, len, done } in batch {
            if let Err(error) = self.check(offset, len) {
                refused.push((done, error));
                continue;
            }
            let (name, start) = (Arc::clone(&self.name), self.start);
            let done = Box::new(move |result: Result<_, _>| {
                done(result.map_err(|error| own(&name, start, error)));
            });
            inside.push(Read { offset: start + offset, len, done });
        }
        if !inside.is_empty() {
            self.parent.submit(inside);
        }
        for (done, error) in refused {
            complete::deliver(done, Err(error));
        }
    }

    /// The whole parent's: its counters do not tell windows apart.
    fn stats(&self) -> Stats {
        self.parent.stats()
    }
}

/// A [`Partition`] that can be written to.
pub struct RwPartition {
    reader: Partition,
    parent: WriteDeviceRef,
}

impl RwPartition {
    /// The window of [`Partition::new`], over a device that can be written to.
    #[must_use]
    pub fn new(parent: WriteDeviceRef, label: &str, start: u64, len: u64) -> Self {
        let reader = Partition::new(Arc::clone(&parent).as_device(), label, start, len);
        Self { reader, parent }
    }

    /// Byte offset on the parent where the window begins.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.reader.start
    }

    fn own(&self, error: Error) -> Error {
        own(&self.reader.name, self.reader.start, error)
    }

    /// Makes offsets in the window those of the parent.
    fn shift(&self, writes: &mut [(u64, Vec<Shared>)]) -> Result<(), Error> {
        for (offset, parts) in writes {
            let len = parts.iter().map(|part| part.len()).sum();
            range_within(self.reader.present(), *offset, len)
                .map_err(|kind| Error::write(kind, &self.reader.name, *offset, len))?;
            *offset += self.reader.start;
        }
        Ok(())
    }
}

impl Device for RwPartition {
    crate::reads_as_its_reader!();
}

impl WriteDevice for RwPartition {
    fn submit_writes(&self, batch: Vec<Write>) {
        let Partition { name, start, .. } = &self.reader;
        let (accepted, refused) = split_refused(self.reader.present(), name, batch);
        let shift = |Write { offset, parts, done }| {
            let (name, start) = (Arc::clone(name), *start);
            let done = Box::new(move |result: Result<(), _>| {
                done(result.map_err(|error| own(&name, start, error)));
            });
            Write { offset: start + offset, parts, done }
        };
        if !accepted.is_empty() {
            self.parent.submit_writes(accepted.into_iter().map(shift).collect());
        }
        for (done, error) in refused {
            complete::deliver_write(done, Err(error));
        }
    }

    fn flush(&self) -> Result<(), Error> {
        self.parent.flush().map_err(|error| self.own(error))
    }

    fn forget_failed_flush(&self) {
        self.parent.forget_failed_flush();
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        range_within(self.reader.present(), offset, data.len())
            .map_err(|kind| Error::write(kind, &self.reader.name, offset, data.len()))?;
        self.parent.write(self.reader.start + offset, data).map_err(|error| self.own(error))
    }

    fn write_all(&self, mut writes: Vec<(u64, Vec<Shared>)>) -> Result<(), Error> {
        self.shift(&mut writes)?;
        self.parent.write_all(writes).map_err(|error| self.own(error))
    }

    fn write_durably(&self, mut writes: Vec<(u64, Vec<Shared>)>) -> Result<(), Error> {
        self.shift(&mut writes)?;
        self.parent.write_durably(writes).map_err(|error| self.own(error))
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        range_within_all(self.reader.present(), offset, len)
            .map_err(|kind| Error::trim(kind, &self.reader.name, offset, len))?;
        self.parent.trim(self.reader.start + offset, len).map_err(|error| self.own(error))
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Fault, FaultDevice, MemoryDevice, read_batch, read_one};

    fn parent() -> DeviceRef {
        Arc::new(MemoryDevice::from_bytes("disk", &(0..200).collect::<Vec<u8>>()))
    }

    #[test]
    fn reads_are_shifted_and_bounded() {
        let part = Partition::new(parent(), "#1", 50, 100);
        assert_eq!((part.name(), part.size(), part.start()), ("disk#1", 100, 50));
        let results = read_batch(&part, &[(0, 3), (99, 1), (99, 2), (u64::MAX, 1)]);
        assert_eq!(results[0].as_ref().map(|b| b.to_vec()), Ok(vec![50, 51, 52]));
        assert_eq!(results[1].as_ref().map(|b| b.to_vec()), Ok(vec![149]));
        for (result, offset) in results[2..].iter().zip([99, u64::MAX]) {
            let error = result.as_ref().map(|_| ()).expect_err("outside");
            assert_eq!(error.kind, ErrorKind::BeyondEnd { size: 100 });
            assert_eq!((&*error.device, error.offset), ("disk#1", offset));
        }
        assert!(part.read(100, &mut [0]).is_err());
    }

    #[test]
    fn a_truncated_parent_gives_what_it_has() {
        let part = Partition::new(parent(), "#9", 150, u64::MAX);
        assert_eq!(part.size(), u64::MAX - 150);
        assert_eq!(read_one(&part, 49, 1).map(|b| b.to_vec()), Ok(vec![199]));
        let error = part.read(49, &mut [0; 2]).expect_err("outside");
        assert_eq!(error.kind, ErrorKind::BeyondEnd { size: 50 });
        let outside = Partition::new(parent(), "", 1000, 10);
        assert!(outside.read(0, &mut [0]).is_err());
    }

    #[test]
    fn the_parents_errors_are_told_as_its_own() {
        let faulty = FaultDevice::new(parent());
        let eio = ErrorKind::Io { errno: libc::EIO };
        faulty.add(Fault::fail(60..61, eio));
        let part = Partition::new(Arc::new(faulty), "#1", 50, 100);
        let mut results = read_batch(&part, &[(5, 10), (20, 1)]);
        assert!(results.pop().is_some_and(|r| r.is_ok()));
        let first = results.pop().map(|r| r.map(|_| ())).expect("two").expect_err("fault");
        let second = part.read(5, &mut [0; 10]).expect_err("fault");
        for error in [first, second] {
            assert_eq!((&*error.device, error.offset, error.kind), ("disk#1", 5, eio));
        }
    }

    #[test]
    fn writes_are_shifted_and_bounded() {
        let parent = Arc::new(MemoryDevice::zeros("disk", 200));
        let part = RwPartition::new(Arc::clone(&parent) as WriteDeviceRef, "#1", 50, 100);
        assert_eq!((part.start(), part.size()), (50, 100));
        part.write(99, b"x").expect("write");
        let data = crate::Shared::copy_of(b"abc");
        let results = crate::write_batch(
            &part,
            vec![(0, vec![data.clone()]), (98, vec![data.clone()]), (u64::MAX, vec![data])],
        );
        assert!(results[0].is_ok());
        for (result, offset) in results[1..].iter().zip([98, u64::MAX]) {
            let error = result.clone().expect_err("outside");
            assert_eq!(error.kind, ErrorKind::BeyondEnd { size: 100 });
            assert_eq!((&*error.device, error.offset), ("disk#1", offset));
        }
        assert!(part.write(99, b"xy").is_err());
        assert_eq!(read_one(&*parent, 49, 5).map(|b| b.to_vec()), Ok(b"\0abc\0".to_vec()));
        assert_eq!(read_one(&*parent, 149, 2).map(|b| b.to_vec()), Ok(b"x\0".to_vec()));
        part.flush().expect("flush");
    }
}
