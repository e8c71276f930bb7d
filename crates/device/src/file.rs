//! Regular files and block devices: read-only here, written to in [`rw`].
//!
//! A single waiting read is a `pread` on the caller's thread. Batches go to a backend that is made
//! when the first one comes, because most of the files a search for pools opens are looked at once
//! and closed: [`uring`] or [`threads`], see [`Backend`]. Both move the same
//! [`transfer::Transfer`]s and differ only in what makes the system calls.
//!
//! [`Direct`] decides whether the page cache is bypassed. Files stay as they are by that: a write
//! fills a hole or a preallocated range as a buffered one does, and only where it is.

mod backlog;
mod core;
#[cfg_attr(test, expect(unsafe_code, reason = "the tests play the kernel"))]
mod gather;
mod rw;
mod standard;
#[expect(unsafe_code, reason = "system calls")]
mod sys;
#[expect(unsafe_code, reason = "the kernel writes into memory that is not initialised")]
mod threads;
#[expect(unsafe_code, reason = "the kernel writes into memory that is not initialised")]
mod transfer;
#[expect(unsafe_code, reason = "the kernel writes into memory that is not initialised")]
mod uring;
mod usable_memory;

pub use self::rw::RwFileDevice;
pub use self::standard::was_stdout_closed;

use self::core::{Access, Core, Request, Work};
use self::threads::Threads;
use self::uring::Uring;
use crate::{AlignedBuf, Device, Displacement, Error, ErrorKind, Read, Stats, range_within};
use rt::{Clock, RealClock, Rt};
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Bytes of memory that this process may use: those of the machine, or the limit of its control
/// group; 0 when that is not known.
#[must_use]
pub fn memory_bytes() -> u64 {
    usable_memory::usable(sys::physical_memory())
}

/// Whether this process may write to a file or block device, or to the disk that `DISK#N` is a
/// partition of, as far as that can be determined without opening it.
///
/// # Errors
/// Why it may not.
pub fn may_write(path: &Path) -> Result<(), ErrorKind> {
    let disk = path.to_str().and_then(|text| text.rsplit_once('#')).map(|(disk, _)| disk);
    let whole = disk.filter(|_| !path.exists()).map_or(path, Path::new);
    sys::may_write(whole).map_err(|e| ErrorKind::from_io(&e))
}

/// How system calls are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// io_uring for direct reads where the system allows it, else threads. Buffered reads gain
    /// nothing from io_uring, which hands them to threads of its own, and the copying from the page
    /// cache is better spread over several.
    #[default]
    Auto,
    /// io_uring, or fail to open.
    Uring,
    /// A pool of threads that make blocking calls.
    Threads,
}

/// Whether requests bypass the page cache. If the file system does not support that, they are
/// buffered all the same; [`FileDevice::is_direct`] tells which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// What is best for each.
    ///
    /// Block devices directly: another engine may write to the disk below the page cache, which
    /// would then show old bytes.
    ///
    /// Files that are written to directly, where the file system takes whole sectors so: a copy
    /// into the page cache, a lock that lets one thread write at a time, and the writing back cost
    /// several times what the device itself takes, and written data is hardly ever read through the
    /// file again. The system keeps readers of the same file that go through the page cache
    /// coherent: it writes back dirty pages before, and drops cached ones behind, each direct
    /// request. Where a file system requires more than a sector, or does not report its
    /// requirement, small writes would have to be read, changed and written back as larger units:
    /// such files are buffered.
    ///
    /// Files that are only read: small pieces through the page cache, which keeps what the next
    /// command will read again, and large ones that are not there directly: bringing them there is
    /// most of the work of reading them. All of a file directly that holds more than half of this
    /// machine's memory: reading it would only push everything else out.
    #[default]
    Auto,
    /// Through the page cache.
    Off,
    /// Directly.
    On,
}

/// How to open a file or block device.
#[derive(Clone)]
pub struct Options {
    /// How system calls are made.
    pub backend: Backend,
    /// Whether requests pass the page cache by.
    pub direct: Direct,
    /// Requests in the kernel at once, with io_uring. More wait their turn, without memory.
    pub depth: u32,
    /// The same with threads: how many there are, at most.
    pub threads: usize,
    /// Measures latency.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            direct: Direct::Auto,
            // Enough for a device with many channels; the layer above decides how much it uses.
            depth: 128,
            // Enough to keep a disk busy; more threads cost more than they bring.
            threads: 16,
            clock: Arc::new(RealClock),
        }
    }
}

/// A regular file or block device.
pub struct FileDevice {
    core: Arc<Core>,
    options: Options,
    engine: OnceLock<Engine>,
}

/// A backend that was started.
enum Engine {
    Uring(Uring),
    Threads(Threads),
}

impl FileDevice {
    /// Opens a file or block device for reading.
    ///
    /// # Errors
    /// When it cannot be opened, is something else, or io_uring was demanded and is not to be had.
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        Self::open_with(path, options, Access::Read)
    }

    fn open_with(path: &Path, options: &Options, access: Access) -> Result<Self, Error> {
        let core = Arc::new(Core::open(path, options, access)?);
        let device = Self { core, options: options.clone(), engine: OnceLock::new() };
        if options.backend == Backend::Uring {
            let ring = Uring::start(Arc::clone(&device.core), options.depth.max(1));
            let fail = |e: io::Error| Error::open(ErrorKind::from_io(&e), &device.core.name);
            // Just made, so it is empty.
            let _ = device.engine.set(Engine::Uring(ring.map_err(fail)?));
        }
        Ok(device)
    }

    /// Whether reads pass the page cache by, as far as is known now.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.core.direct_unit().is_some()
    }

    /// The backend that makes the system calls of batches; starts it if none was submitted yet.
    /// Never [`Backend::Auto`].
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self.engine() {
            Engine::Uring(_) => Backend::Uring,
            Engine::Threads(_) => Backend::Threads,
        }
    }

    fn engine(&self) -> &Engine {
        self.engine.get_or_init(|| {
            let Options { backend, depth, threads, .. } = &self.options;
            let ring = match backend {
                Backend::Auto => self.is_direct(),
                Backend::Uring => true,
                Backend::Threads => false,
            };
            if ring && let Ok(ring) = Uring::start(Arc::clone(&self.core), (*depth).max(1)) {
                return Engine::Uring(ring);
            }
            Engine::Threads(Threads::new(Arc::clone(&self.core), *threads))
        })
    }

    /// Hands requests to the backend.
    fn enqueue(&self, requests: Vec<Request>) {
        if Rt::current().is_simulated() {
            // A simulation does not wait for the world outside, so that is quick there: the
            // requests are made here and now, in no virtual time.
            requests.into_iter().for_each(|request| threads::serve_one(&self.core, request));
            return;
        }
        match self.engine() {
            Engine::Uring(ring) => ring.submit(requests),
            Engine::Threads(threads) => threads.submit(requests),
        }
    }

    /// Counts one waiting read of `len` bytes around `work`.
    fn counted<T>(
        &self,
        offset: u64,
        len: usize,
        work: impl FnOnce() -> Result<T, ErrorKind>,
    ) -> Result<T, Error> {
        let core = &self.core;
        let arrived = core.now();
        core.counters.begin();
        let result = range_within(core.size(), offset, len).and_then(|()| work());
        let took = core.now().saturating_sub(arrived);
        core.counters.end(result.as_ref().map(|_| len).map_err(|_| ()), took);
        result.map_err(|kind| core.error(kind, offset, len))
    }

    fn read_now(&self, offset: u64, buf: &mut [u8]) -> Result<(), ErrorKind> {
        if self.core.direct_unit().is_none() {
            return self.core.read_buffered(offset, buf);
        }
        // The caller's memory has any alignment, so direct bytes have to be copied.
        buf.copy_from_slice(&threads::read(&self.core, offset, buf.len())?);
        Ok(())
    }
}

impl Device for FileDevice {
    fn name(&self) -> &str {
        &self.core.name
    }

    fn size(&self) -> u64 {
        self.core.size()
    }

    fn size_now(&self) -> u64 {
        self.core.size_now()
    }

    fn sector_size(&self) -> u32 {
        self.core.sector_size
    }

    fn is_rotating(&self) -> bool {
        self.core.is_rotating
    }

    fn displaced(&self) -> Option<Displacement> {
        self.core.displaced()
    }

    fn follow(&self, place: &Path) -> bool {
        self.core.follow(place)
    }

    fn accept_size(&self) -> bool {
        self.core.accept_size()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.counted(offset, buf.len(), || self.read_now(offset, buf))
    }

    fn read_new(&self, offset: u64, len: usize) -> Result<AlignedBuf, Error> {
        self.counted(offset, len, || threads::read(&self.core, offset, len))
    }

    fn submit(&self, batch: Vec<Read>) {
        let arrived = self.core.now();
        let mut accepted = Vec::with_capacity(batch.len());
        let mut refused = Vec::new();
        for Read { offset, len, done } in batch {
            self.core.counters.begin();
            let request = Request { offset, len, work: Work::Read(done), arrived };
            match range_within(self.core.size(), offset, len) {
                Ok(()) => accepted.push(request),
                Err(kind) => refused.push((request, kind)),
            }
        }
        if !accepted.is_empty() {
            self.enqueue(accepted);
        }
        // After the others are under way, because the callbacks run on this thread.
        for (request, kind) in refused {
            self.core.end(request, Err(kind));
        }
    }

    fn stats(&self) -> Stats {
        self.core.counters.snapshot()
    }
}
