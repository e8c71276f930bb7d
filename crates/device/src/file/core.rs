//! The common part of all ways of reading and writing a file: its descriptors, geometry and
//! counters.
//!
//! There are two descriptors. The buffered one always exists; the other bypasses the page cache and
//! exists when direct I/O is requested and the file system opened it. Which one a request uses is
//! decided when it starts, so that direct I/O can be given up while requests are in flight.
//!
//! A device that is written to is locked through the buffered descriptor, which lives as long as
//! the device: files by `flock`, which every program of ours asks for, block devices by `O_EXCL`,
//! with which Linux keeps out mounts, volume managers and other openings of that kind. A loop
//! device is another name of the file behind it, so that file is locked as well.
//!
//! A process that had a device a moment ago may hold it a moment longer: a thread that ends its
//! last request, or a process that was being started just then, which has all descriptors of its
//! parent until it runs its own program. So a device that is in use is tried again for
//! [`LOCK_PATIENCE`].

use super::sys::{self, DirectSupport};
use super::{Direct, Options};
use crate::buf::ALIGNMENT;
use crate::stats::Counters;
use crate::{AlignedBuf, Displacement, Done, Error, ErrorKind, Shared, WriteDone, complete};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use parking_lot::Mutex;
use rt::Clock;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Sector size of a regular file: ZFS's smallest, which any file system can serve.
const FILE_SECTOR_BYTES: u32 = 512;

/// Alignment for direct I/O on a file system that does not say: a page serves all of them.
const UNKNOWN_UNIT: u32 = 4096;

/// Reads from this length on pass the page cache by where the device is otherwise read through it:
/// data, and not what leads to it.
const BULK_BYTES: usize = 128 << 10;

/// Pools have two labels of this size at the end of a device, from a multiple of it on. The first
/// half of each is written when its configuration is, and what is there is not zeros.
const LABEL_BYTES: u64 = 256 << 10;

/// How long a device in use is tried again: far longer than it takes to start a program on a busy
/// machine, and not long for a user who named a device that is really in use.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Time between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// The access for which a device is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    /// Reading and writing.
    Write,
}

/// A request that was accepted and has not ended.
pub(super) struct Request {
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) work: Work,
    /// When it was accepted, in the clock's monotonic time.
    pub(super) arrived: Duration,
}

/// A request, with the callback for its result.
pub(super) enum Work {
    Read(Done),
    /// The bytes, taken away when the write starts, and the callers' writes that became this one.
    Write(Vec<Shared>, Vec<Ack>),
}

/// One of the callers' writes.
pub(super) struct Ack {
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) done: WriteDone,
}

/// An open file or block device.
pub(super) struct Core {
    pub(super) name: Arc<str>,
    /// Where it was opened or followed to, whatever the working directory is now.
    path: Mutex<PathBuf>,
    /// Grows, and never shrinks.
    size: AtomicU64,
    pub(super) sector_size: u32,
    /// Whether it is a block device.
    pub(super) is_block: bool,
    /// Whether the system reports that it has moving parts.
    pub(super) is_rotating: bool,
    pub(super) counters: Counters,
    clock: Arc<dyn Clock>,
    buffered: File,
    /// The file behind a loop device, locked as well.
    _behind: Option<File>,
    direct: Option<DirectFile>,
    /// Only large reads of what is not in the page cache are direct.
    bulk_only: bool,
    /// Cleared when the device refuses direct I/O.
    direct_on: AtomicBool,
    /// Set once it was seen shorter than when it was opened: the next write behind its end makes
    /// the file long again, but what was cut off stays lost.
    was_cut: AtomicBool,
    /// The size with which there was data in the tail ([`Core::lost_its_tail`]).
    size_with_tail: AtomicU64,
}

/// The descriptor that passes the page cache by.
struct DirectFile {
    file: File,
    /// Offsets, lengths and addresses are multiples of this power of two, at most [`ALIGNMENT`].
    unit: usize,
}

/// Keeps out others that ask.
fn lock(file: &File) -> Result<(), ErrorKind> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(ErrorKind::InUse),
        Err(TryLockError::Error(e)) => Err(ErrorKind::from_io(&e)),
    }
}

impl Core {
    pub(super) fn open(path: &Path, options: &Options, access: Access) -> Result<Self, Error> {
        let name: Arc<str> = Arc::from(path.to_string_lossy());
        let began = Instant::now();
        loop {
            match Self::open_named(&name, path, options, access) {
                Err(ErrorKind::InUse) if began.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                other => return other.map_err(|kind| Error::open(kind, &name)),
            }
        }
    }

    fn open_named(
        name: &Arc<str>,
        path: &Path,
        options: &Options,
        access: Access,
    ) -> Result<Self, ErrorKind> {
        let kind = |e: io::Error| ErrorKind::from_io(&e);
        // Looked at first, because opening a pipe would wait for its writer.
        let meta = std::fs::metadata(path).map_err(kind)?;
        check_type(&meta)?;
        let claim = access == Access::Write && meta.file_type().is_block_device();
        let flags = if claim { libc::O_EXCL } else { 0 };
        let mut buffered = open_file(path, flags, access).map_err(|e| match kind(e) {
            ErrorKind::Io { errno: libc::EBUSY } => ErrorKind::InUse,
            kind => kind,
        })?;
        let meta = buffered.metadata().map_err(kind)?;
        check_type(&meta)?;
        let is_block = meta.file_type().is_block_device();
        let mut behind = None;
        if access == Access::Write {
            lock(&buffered)?;
            behind = sys::file_behind(&meta);
            behind.as_ref().map_or(Ok(()), lock)?;
        }
        let sector_size =
            if is_block { sys::logical_sector_size(&buffered) } else { Ok(FILE_SECTOR_BYTES) }
                .map_err(kind)?;
        // Works for both kinds, where the size in the metadata of a block device is zero.
        let size = buffered.seek(SeekFrom::End(0)).map_err(kind)?;
        let whole = is_block || access == Access::Write || is_huge(&meta);
        let (wanted, bulk_only) = match options.direct {
            Direct::On => (true, false),
            Direct::Off => (false, false),
            Direct::Auto => (true, !whole),
        };
        let unknown = if is_block { sector_size } else { UNKNOWN_UNIT };
        let direct = wanted.then(|| DirectFile::open(path, &meta, unknown, access)).flatten();
        // The last sectors of such a file could only be written through the page cache.
        let in_sectors = |d: &DirectFile| {
            let sector = FILE_SECTOR_BYTES as usize;
            d.unit <= sector && size.is_multiple_of(sector as u64)
        };
        let free = is_block || access == Access::Read || options.direct == Direct::On;
        let direct = direct.filter(|d| free || in_sectors(d));
        Ok(Self {
            name: Arc::clone(name),
            path: Mutex::new(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
            size: AtomicU64::new(size),
            sector_size,
            is_block,
            is_rotating: is_block && sys::is_rotating(&buffered),
            counters: Counters::default(),
            clock: Arc::clone(&options.clock),
            buffered,
            _behind: behind,
            direct_on: AtomicBool::new(direct.is_some()),
            was_cut: AtomicBool::new(false),
            size_with_tail: AtomicU64::new(0),
            direct,
            bulk_only,
        })
    }

    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// The size that it could have by now. In whole sectors, for what is behind the last one could
    /// only be written through the page cache.
    pub(super) fn size_now(&self) -> u64 {
        let sector = u64::from(self.sector_size.max(FILE_SECTOR_BYTES));
        let end = (&self.buffered).seek(SeekFrom::End(0));
        end.map_or(0, |end| end / sector * sector).max(self.size())
    }

    pub(super) fn grow(&self) {
        self.size.fetch_max(self.size_now(), Ordering::Relaxed);
    }

    /// How it was displaced since it was opened. If the system does not report anything, it was
    /// not.
    pub(super) fn displaced(&self) -> Option<Displacement> {
        let own = self.buffered.metadata().ok()?;
        if own.nlink() == 0 {
            return Some(Displacement::Deleted);
        }
        let (size, expected) = (own.len(), self.size());
        let is_short = !self.is_block && size < expected;
        if is_short || !self.is_block && self.lost_its_tail() {
            self.was_cut.store(true, Ordering::Relaxed);
        }
        // The lock is not held over a call that may hang.
        let path = self.path.lock().clone();
        match std::fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) != (own.dev(), own.ino()) => {
                Some(Displacement::Replaced)
            }
            Ok(_) if is_short => Some(Displacement::Short { size, expected }),
            Ok(_) => self.was_cut.load(Ordering::Relaxed).then_some(Displacement::Cut),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Some(Displacement::Moved),
            Err(_) => None,
        }
    }

    /// Where there was data there is a hole now: the file was shorter in between, and was not
    /// looked at then. A file system without holes never says so.
    fn lost_its_tail(&self) -> bool {
        let size = self.size();
        let Some(tail) = (size / LABEL_BYTES * LABEL_BYTES).checked_sub(2 * LABEL_BYTES) else {
            return false;
        };
        let Ok(data) = sys::data_from(&self.buffered, tail) else { return false };
        if data.is_some_and(|at| at < tail + LABEL_BYTES / 2) {
            self.size_with_tail.store(size, Ordering::Relaxed);
            return false;
        }
        self.size_with_tail.load(Ordering::Relaxed) == size
    }

    /// That it was cut short is forgotten, if it has its size again; whether it was.
    pub(super) fn accept_size(&self) -> bool {
        let has_size = self.buffered.metadata().is_ok_and(|own| own.len() >= self.size());
        if has_size {
            // What it has at its end by now is what it has to keep.
            self.size_with_tail.store(0, Ordering::Relaxed);
        }
        has_size && self.was_cut.swap(false, Ordering::Relaxed)
    }

    /// From now on it is looked for there, if it is there.
    pub(super) fn follow(&self, place: &Path) -> bool {
        let identity = |meta: &Metadata| (meta.dev(), meta.ino());
        let own = self.buffered.metadata();
        let is_there = !self.is_block
            && std::fs::metadata(place)
                .is_ok_and(|there| own.is_ok_and(|own| identity(&own) == identity(&there)));
        if is_there {
            *self.path.lock() = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
        }
        is_there
    }

    /// The unit of direct requests, while the device does them.
    pub(super) fn direct_unit(&self) -> Option<usize> {
        self.bulk_unit().filter(|_| !self.bulk_only)
    }

    fn bulk_unit(&self) -> Option<usize> {
        let unit = self.direct.as_ref().map(|direct| direct.unit);
        unit.filter(|_| self.direct_on.load(Ordering::Relaxed))
    }

    /// The unit of a direct read of this range; `None`: it goes through the page cache.
    pub(super) fn read_unit(&self, offset: u64, len: usize) -> Option<usize> {
        if !self.bulk_only {
            return self.direct_unit();
        }
        let unit = self.bulk_unit().filter(|_| len >= BULK_BYTES)?;
        // If the system does not report what is cached, all may be.
        let cached = sys::cached_bytes(&self.buffered, offset, len as u64)?;
        (cached < len as u64 / 2).then_some(unit)
    }

    /// The device refused a direct request: no more of them.
    pub(super) fn refuse_direct(&self) {
        self.direct_on.store(false, Ordering::Relaxed);
        self.counters.direct_refused();
    }

    /// The descriptor for direct or for buffered requests.
    pub(super) fn file(&self, direct: bool) -> &File {
        match &self.direct {
            Some(direct_file) if direct => &direct_file.file,
            _ => &self.buffered,
        }
    }

    /// Monotonic time.
    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Reads into the caller's memory, which need not be aligned, through the page cache. The
    /// range lies within the device.
    pub(super) fn read_buffered(&self, offset: u64, buf: &mut [u8]) -> Result<(), ErrorKind> {
        let mut got = 0;
        while let Some(rest) = buf.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match self.buffered.read_at(rest, offset + got as u64) {
                Ok(0) => return Err(ErrorKind::ShortRead { got }),
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(ErrorKind::from_io(&e)),
            }
        }
        Ok(())
    }

    /// Ends a request: counts it and gives its result to the caller. A read that succeeded has its
    /// bytes, a write none.
    pub(super) fn end(&self, request: Request, result: Result<Option<AlignedBuf>, ErrorKind>) {
        let Request { offset, len, work, arrived } = request;
        let took = self.now().saturating_sub(arrived);
        match work {
            Work::Read(done) => {
                // A success without bytes cannot be.
                let result = result.and_then(|bytes| bytes.ok_or(ErrorKind::Gone));
                self.counters.end(result.as_ref().map(|_| len).map_err(|_| ()), took);
                complete::deliver(done, result.map_err(|kind| self.error(kind, offset, len)));
            }
            Work::Write(_, acks) => {
                let result = result.map(|_| ());
                for Ack { offset, len, done } in acks {
                    self.counters.end_write(result.map(|()| len).map_err(|_| ()), took);
                    let error = |kind| Error::write(kind, &self.name, offset, len);
                    complete::deliver_write(done, result.map_err(error));
                }
            }
        }
    }

    /// A failed read of this device.
    pub(super) fn error(&self, kind: ErrorKind, offset: u64, len: usize) -> Error {
        if !self.is_block && matches!(kind, ErrorKind::ShortRead { .. }) {
            self.was_cut.store(true, Ordering::Relaxed);
        }
        Error::read(kind, &self.name, offset, len)
    }

    /// A core over descriptors the test made.
    #[cfg(test)]
    pub(super) fn for_test(buffered: File, direct: Option<(File, usize)>) -> Self {
        Self {
            path: Mutex::new(PathBuf::from("test")),
            name: Arc::from("test"),
            size: AtomicU64::new(1 << 40),
            sector_size: FILE_SECTOR_BYTES,
            is_block: false,
            is_rotating: false,
            counters: Counters::default(),
            clock: Arc::new(rt::RealClock),
            buffered,
            _behind: None,
            direct_on: AtomicBool::new(direct.is_some()),
            was_cut: AtomicBool::new(false),
            size_with_tail: AtomicU64::new(0),
            bulk_only: false,
            direct: direct.map(|(file, unit)| DirectFile { file, unit }),
        }
    }
}

impl DirectFile {
    /// `None` when the file system does not do it: the device is then read buffered.
    fn open(path: &Path, expected: &Metadata, unknown: u32, access: Access) -> Option<Self> {
        let file = open_file(path, libc::O_DIRECT, access).ok()?;
        let meta = file.metadata().ok()?;
        if (meta.dev(), meta.ino()) != (expected.dev(), expected.ino()) {
            // The path was replaced between the two openings.
            return None;
        }
        let unit = match sys::direct_support(&file) {
            DirectSupport::Alignment(unit) => unit,
            DirectSupport::Unknown => unknown,
            DirectSupport::No => return None,
        };
        let unit = usize::try_from(unit).ok()?;
        (unit.is_power_of_two() && unit <= ALIGNMENT).then_some(Self { file, unit })
    }
}

/// Opens, leaving the access time alone where that is allowed (to the file's owner).
fn open_file(path: &Path, flags: i32, access: Access) -> io::Result<File> {
    let write = access == Access::Write;
    let open = |flags| OpenOptions::new().read(true).write(write).custom_flags(flags).open(path);
    // A pipe that took the place of a file since that was looked at is not waited for.
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    match open(flags | libc::O_NOATIME) {
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => open(flags),
        result => result,
    }
}

fn check_type(meta: &Metadata) -> Result<(), ErrorKind> {
    let kind = meta.file_type();
    if kind.is_file() || kind.is_block_device() { Ok(()) } else { Err(ErrorKind::NotADevice) }
}

/// A file that would push everything else out of the page cache.
fn is_huge(meta: &Metadata) -> bool {
    // `blocks` counts 512 bytes, whatever the file system's blocks are.
    meta.blocks().saturating_mul(512) > sys::physical_memory() / 2
}
