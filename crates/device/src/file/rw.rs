//! Regular files and block devices that are written to.

use super::core::{Access, Ack, Core, Request, Work};
use super::{FileDevice, Options, backlog, sys, threads};
use crate::write::split_refused;
use crate::{
    Device, DeviceRef, Error, ErrorKind, Shared, Write, WriteDevice, complete, range_within,
    range_within_all,
};
use core::time::Duration;
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

/// A regular file or block device that this process alone writes to: it is locked as long as
/// it is open, against every other opening for writing, in this process too.
///
/// Neighbouring writes that wait go to the system as one; should it fail, all of them do.
pub struct RwFileDevice {
    reader: FileDevice,
    /// Held while a piece of a direct I/O unit is replaced, which is read and written as a whole.
    piecemeal: Mutex<()>,
    /// Why a flush has failed. The system reports lost bytes once and then forgets them, so no
    /// later flush may claim success.
    flush_failed: Mutex<Option<ErrorKind>>,
}

impl RwFileDevice {
    /// Opens a file or block device for reading and writing.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] when another program has it open for writing, or the system has it
    /// mounted or otherwise in use; else as for [`FileDevice::open`].
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        Ok(Self {
            reader: FileDevice::open_with(path, options, Access::Write)?,
            piecemeal: Mutex::default(),
            flush_failed: Mutex::default(),
        })
    }

    /// Makes a file of `size` zero bytes, none of which takes space yet, and opens it.
    ///
    /// # Errors
    /// When there is something at `path` already, and when it cannot be made.
    pub fn create(path: &Path, size: u64, options: &Options) -> Result<Self, Error> {
        let fail = |e: std::io::Error| {
            Error::open(ErrorKind::from_io(&e), &Arc::from(path.to_string_lossy()))
        };
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(fail)?;
        file.set_len(size).and_then(|()| file.sync_all()).map_err(fail)?;
        // Only then is its name durable too. A directory that cannot be opened is left alone.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Ok(directory) = File::open(parent.unwrap_or(Path::new("."))) {
            directory.sync_all().map_err(fail)?;
        }
        Self::open(path, options)
    }

    /// Whether requests pass the page cache by, as far as is known now.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.reader.is_direct()
    }

    /// As [`FileDevice::backend`].
    #[must_use]
    pub fn backend(&self) -> super::Backend {
        self.reader.backend()
    }

    fn core(&self) -> &Core {
        &self.reader.core
    }

    /// Whether a direct write of this range would have to replace a part of a unit.
    fn is_piecemeal(&self, offset: u64, len: usize) -> bool {
        let whole = |unit: usize| offset.is_multiple_of(unit as u64) && len.is_multiple_of(unit);
        len > 0 && self.core().direct_unit().is_some_and(|unit| !whole(unit))
    }

    /// Writes a range that is not a whole number of direct I/O units: reads the units, and writes
    /// them back with the new bytes. Not through the page cache, where a neighbour's direct write
    /// could be undone. Waits; but a caller that writes whole sectors to a disk never comes here.
    fn write_piecemeal(&self, offset: u64, parts: &[Shared]) -> Result<(), ErrorKind> {
        let _one_at_a_time = self.piecemeal.lock();
        let core = self.core();
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let unit = core.direct_unit().unwrap_or(1) as u64;
        let start = offset - offset % unit;
        // The last unit of a file may be cut off by its end; then the rest is buffered below.
        let end = (offset + len as u64).next_multiple_of(unit).min(core.size());
        let mut bytes = threads::read(core, start, (end - start) as usize)?;
        let mut at = (offset - start) as usize;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        threads::write(core, start, vec![Shared::from(bytes)])
    }

    /// Writes and waits, on this thread.
    fn write_parts(&self, offset: u64, parts: Vec<Shared>, len: usize) -> Result<(), Error> {
        let core = self.core();
        let begin = core.now();
        core.counters.begin();
        let checked = range_within(core.size(), offset, len);
        let result = checked.and_then(|()| {
            core.counters.write_call();
            match self.is_piecemeal(offset, len) {
                true => self.write_piecemeal(offset, &parts),
                false => threads::write(core, offset, parts),
            }
        });
        self.ended(result.map(|()| len).map_err(|_| ()), begin);
        result.map_err(|kind| Error::write(kind, &core.name, offset, len))
    }

    fn ended(&self, result: Result<usize, ()>, begin: Duration) {
        let took = self.core().now().saturating_sub(begin);
        self.core().counters.end_write(result, took);
    }
}

impl Device for RwFileDevice {
    crate::reads_as_its_reader!();
}

impl WriteDevice for RwFileDevice {
    fn submit_writes(&self, batch: Vec<Write>) {
        let core = self.core();
        let begin = core.now();
        batch.iter().for_each(|_| core.counters.begin());
        let (mut accepted, refused) = split_refused(core.size(), &core.name, batch);
        accepted.sort_by_key(|write| write.offset);
        let mut requests: Vec<Request> = Vec::with_capacity(accepted.len());
        let mut piecemeal = Vec::new();
        for write in accepted {
            let len = write.len();
            if self.is_piecemeal(write.offset, len) {
                piecemeal.push(write);
            } else {
                add(&mut requests, write, len, begin);
            }
        }
        if !requests.is_empty() {
            self.reader.enqueue(requests);
        }
        for Write { offset, parts, done } in piecemeal {
            let len = parts.iter().map(|part| part.len()).sum();
            core.counters.write_call();
            let result = self.write_piecemeal(offset, &parts);
            self.ended(result.map(|()| len).map_err(|_| ()), begin);
            let result = result.map_err(|kind| Error::write(kind, &core.name, offset, len));
            complete::deliver_write(done, result);
        }
        for (done, error) in refused {
            self.ended(Err(()), begin);
            complete::deliver_write(done, Err(error));
        }
    }

    fn flush(&self) -> Result<(), Error> {
        let core = self.core();
        let begin = core.now();
        // Held while flushing: a second caller then gets the answer of a flush that began after its
        // own call, and both get the same error.
        let mut failed = self.flush_failed.lock();
        let result = match *failed {
            Some(kind) => Err(kind),
            None => sync_data(core.file(false)),
        };
        *failed = result.err();
        drop(failed);
        core.counters.flushed(result.is_ok(), core.now().saturating_sub(begin));
        result.map_err(|kind| Error::flush(kind, &core.name))
    }

    fn forget_failed_flush(&self) {
        *self.flush_failed.lock() = None;
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.write_parts(offset, vec![Shared::copy_of(data)], data.len())
    }

    fn write_all(&self, writes: Vec<(u64, Vec<Shared>)>) -> Result<(), Error> {
        joined(writes)
            .into_iter()
            .try_for_each(|(offset, parts, len)| self.write_parts(offset, parts, len))
    }

    fn grow(&self) {
        self.core().grow();
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        let core = self.core();
        let done = range_within_all(core.size(), offset, len).and_then(|()| {
            let file = core.file(false);
            // A file gives the space back to its file system, and reads as zeros there.
            let done = match core.is_block {
                true => sys::discard(file, offset, len),
                false => sys::punch(file, offset, len),
            };
            done.map_err(|e| match e.raw_os_error() {
                Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS) => ErrorKind::Unsupported,
                _ => ErrorKind::from_io(&e),
            })
        });
        done.map_err(|kind| Error::trim(kind, &core.name, offset, len))
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

/// The same bytes in fewer writes (offset, parts, length): neighbours as one.
fn joined(mut writes: Vec<(u64, Vec<Shared>)>) -> Vec<(u64, Vec<Shared>, usize)> {
    writes.sort_by_key(|(offset, _)| *offset);
    let mut out: Vec<(u64, Vec<Shared>, usize)> = Vec::with_capacity(writes.len());
    for (offset, parts) in writes {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        match out.last_mut() {
            Some((begin, before, bytes)) if *begin + *bytes as u64 == offset => {
                before.extend(parts);
                *bytes += len;
            }
            _ => out.push((offset, parts, len)),
        }
    }
    out
}

/// Appends a write to the last request where it continues that one, else as a request of its own.
fn add(requests: &mut Vec<Request>, write: Write, len: usize, arrived: Duration) {
    let Write { offset, parts, done } = write;
    let ack = Ack { offset, len, done };
    let request = Request { offset, len, work: Work::Write(parts, vec![ack]), arrived };
    let rest = backlog::join(requests.last_mut().into_iter(), request);
    requests.extend(rest);
}

/// Flushes the file, and the disk's own cache behind it.
fn sync_data(file: &File) -> Result<(), ErrorKind> {
    loop {
        match file.sync_data() {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result.map_err(|e| ErrorKind::from_io(&e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use std::sync::OnceLock;

    const EINVAL: ErrorKind = ErrorKind::Io { errno: libc::EINVAL };

    fn over(file: File) -> RwFileDevice {
        let core = Arc::new(Core::for_test(file, None));
        let reader = FileDevice { core, options: Options::default(), engine: OnceLock::new() };
        RwFileDevice { reader, piecemeal: Mutex::default(), flush_failed: Mutex::default() }
    }

    #[test]
    fn neighbours_are_written_as_one() {
        let write = |offset, len| (offset, vec![Shared::copy_of(&vec![7; len])]);
        let joined = joined(vec![write(8192, 512), write(0, 4096), write(4096, 4096)]);
        let shapes: Vec<_> = joined.iter().map(|(at, parts, n)| (*at, parts.len(), *n)).collect();
        assert_eq!(shapes, [(0, 3, 8704)]);
        let device = over(tempfile::tempfile().expect("file"));
        assert!(device.write_all(Vec::new()).is_ok());
        let beyond = device.write_all(vec![write(0, 512), write(4096, 512), write(1 << 40, 512)]);
        assert_eq!(beyond.map_err(|e| e.offset), Err(1 << 40));
    }

    #[test]
    fn a_flush_that_failed_has_failed_for_good() {
        // Something that cannot be flushed.
        let device = over(sys::event().expect("event"));
        let error = device.flush().expect_err("no file");
        assert_eq!((error.kind, error.operation), (EINVAL, Operation::Flush));
        assert_eq!(*device.flush_failed.lock(), Some(EINVAL));
        // Something that can, but once could not.
        let device = over(tempfile::tempfile().expect("file"));
        device.flush().expect("flush");
        *device.flush_failed.lock() = Some(EINVAL);
        assert_eq!(device.flush().map_err(|e| e.kind), Err(EINVAL));
        let stats = device.stats();
        assert_eq!((stats.flushes, stats.flush_errors), (2, 1));
        device.forget_failed_flush();
        device.flush().expect("all is written again");
    }
}
