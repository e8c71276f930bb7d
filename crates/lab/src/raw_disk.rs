//! A bare disk that gets one request at a time: a file or device of this machine, a model, or a
//! volume of a pool.
//!
//! A model needs no runtime here, because nothing else happens at the same time: its clock is the
//! end of the last request. A file is opened directly (past the page cache) where its file system
//! does that.

use crate::disk::Preset;
use crate::error::LabError;
use core::time::Duration;
use engine::inside::device::{AlignedBuf, DiskModel, ModelKind, ModelRequest};
use engine::inside::rt::{Rng as _, Rt, Xoshiro256};
use engine::inside::zpl::Volume;
use rustix::fs::{FlockOperation, OFlags, SeekFrom as Place, flock, seek};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A disk that is asked one thing at a time.
pub trait RawDisk {
    /// Bytes it has.
    fn size(&self) -> u64;

    /// Reads and waits.
    ///
    /// # Errors
    /// The device's; [`std::io::ErrorKind::InvalidInput`] when it reads no less than a
    /// certain size at once.
    fn read(&mut self, offset: u64, len: u64) -> std::io::Result<()>;

    /// Writes bytes that do not compress, and waits until the device says that it is done.
    ///
    /// # Errors
    /// The device's.
    fn write(&mut self, offset: u64, len: u64) -> std::io::Result<()>;

    /// Time since some moment.
    fn now(&self) -> Duration;

    /// Processor time that requests took since some moment; `None` where it is not counted.
    fn cpu(&self) -> Option<Duration>;
}

/// A disk that can be fitted.
pub trait Fitted: RawDisk {
    /// Reads these places with this many requests under way; returns the seconds it took.
    ///
    /// # Errors
    /// The device's first one.
    fn read_many(&mut self, depth: usize, len: u64, offsets: &[u64]) -> std::io::Result<f64>;

    /// The same with writes. What the device may keep in its cache it keeps.
    ///
    /// # Errors
    /// The device's first one.
    fn write_many(&mut self, depth: usize, len: u64, offsets: &[u64]) -> std::io::Result<f64>;
}

/// A model of a disk.
pub struct ModelDisk {
    model: Box<dyn DiskModel>,
    size: u64,
    command_cpu: Duration,
    now: Duration,
    commands: u32,
    ended: Vec<u64>,
}

impl ModelDisk {
    /// One of these disks, whole.
    #[must_use]
    pub fn new(preset: &Preset, seed: u64) -> Self {
        Self {
            model: preset.model(0, seed),
            size: preset.capacity_bytes,
            command_cpu: Duration::from_nanos((preset.host.command_cpu_us * 1e3) as u64),
            now: Duration::ZERO,
            commands: 0,
            ended: Vec::new(),
        }
    }

    fn request(&mut self, kind: ModelKind, offset: u64, len: u64) -> std::io::Result<()> {
        let id = u64::from(self.commands);
        self.commands = self.commands.wrapping_add(1);
        self.model.arrive(self.now, ModelRequest { id, kind, offset, len });
        self.ended.clear();
        while !self.ended.contains(&id) {
            let Some(next) = self.model.next() else {
                return Err(std::io::Error::other("the model forgot a request"));
            };
            self.now = next.max(self.now);
            self.model.advance(self.now, &mut self.ended);
        }
        Ok(())
    }
}

impl ModelDisk {
    /// Keeps this many requests under way; the seconds it took.
    fn many(
        &mut self,
        kind: ModelKind,
        depth: usize,
        len: u64,
        offsets: &[u64],
    ) -> std::io::Result<f64> {
        let begin = self.now;
        let mut left = offsets.iter();
        let mut under_way = HashSet::new();
        loop {
            while under_way.len() < depth
                && let Some(offset) = left.next()
            {
                let id = u64::from(self.commands);
                self.commands = self.commands.wrapping_add(1);
                self.model.arrive(self.now, ModelRequest { id, kind, offset: *offset, len });
                under_way.insert(id);
            }
            let Some(next) = self.model.next().filter(|_| !under_way.is_empty()) else {
                return Ok((self.now - begin).as_secs_f64());
            };
            self.now = next.max(self.now);
            self.ended.clear();
            self.model.advance(self.now, &mut self.ended);
            for id in &self.ended {
                under_way.remove(id);
            }
        }
    }
}

impl Fitted for ModelDisk {
    fn read_many(&mut self, depth: usize, len: u64, offsets: &[u64]) -> std::io::Result<f64> {
        self.many(ModelKind::Read, depth, len, offsets)
    }

    fn write_many(&mut self, depth: usize, len: u64, offsets: &[u64]) -> std::io::Result<f64> {
        self.many(ModelKind::Write, depth, len, offsets)
    }
}

impl RawDisk for ModelDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&mut self, offset: u64, len: u64) -> std::io::Result<()> {
        self.request(ModelKind::Read, offset, len)
    }

    fn write(&mut self, offset: u64, len: u64) -> std::io::Result<()> {
        self.request(ModelKind::Write, offset, len)
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn cpu(&self) -> Option<Duration> {
        Some(self.command_cpu * self.commands)
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading.
    Read,
    /// For writing; the device may keep what it says is done in its cache.
    Write,
    /// For writing; what is done is safe from a power failure.
    WriteSafely,
}

/// A file or device of this machine.
pub struct FileDisk {
    file: File,
    size: u64,
    direct: bool,
    buf: AlignedBuf,
    begin: Instant,
}

/// The longest request.
const BUFFER_BYTES: usize = 32 << 20;

/// Bytes that do not compress. (Memory that was not touched is one page of zeros over and over,
/// which no data ever is; and the first request that it is read into would have to make its pages.)
fn buffer() -> Result<AlignedBuf, LabError> {
    let mut buf = AlignedBuf::try_zeroed(BUFFER_BYTES)
        .ok_or_else(|| LabError::new("no buffer", "out of memory"))?;
    Xoshiro256::seeded(1).fill(&mut buf);
    Ok(buf)
}

impl FileDisk {
    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be opened, or another program has it open for writing.
    pub fn open(path: &Path, access: Access) -> Result<Self, LabError> {
        let fail = |e: std::io::Error| LabError::new(format!("cannot open {}", path.display()), e);
        let is_disk = std::fs::metadata(path).map_err(fail)?.file_type().is_block_device();
        // A pipe is not waited for.
        let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        if access == Access::WriteSafely {
            flags |= OFlags::DSYNC;
        }
        if access != Access::Read && is_disk {
            flags |= OFlags::EXCL; // Not while it is mounted.
        }
        let open = |flags: OFlags| {
            let mut options = OpenOptions::new();
            let flags = i32::try_from(flags.bits()).unwrap_or(0);
            options.read(true).write(access != Access::Read).custom_flags(flags).open(path)
        };
        let (mut file, direct) = match open(flags | OFlags::DIRECT) {
            Ok(file) => (file, true),
            Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => {
                (open(flags).map_err(fail)?, false)
            }
            Err(e) => return Err(fail(e)),
        };
        let kind = file.metadata().map_err(fail)?.file_type();
        if !(kind.is_file() || kind.is_block_device()) {
            return Err(fail(std::io::Error::other("neither a file nor a disk")));
        }
        if access != Access::Read {
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|e| {
                LabError::new(format!("cannot write to {}", path.display()), e)
                    .hint("another program has it open for writing, a pool perhaps")
            })?;
        }
        let size = file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Self { file, size, direct, buf: buffer()?, begin: Instant::now() })
    }

    /// What makes figures of this file other than those of the disk that it is on.
    #[must_use]
    pub fn caveats(&self) -> Vec<&'static str> {
        let mut out = Vec::new();
        if !self.direct {
            out.push("Its file system has no direct I/O: the page cache is measured with it.");
        }
        let hole = seek(&self.file, Place::Hole(0));
        if hole.is_ok_and(|at| at < self.size) {
            out.push(
                "Some of it was never written: the first write to such a place also waits for the \
                 file\nsystem, which makes a note of it, and it is read from no disk. Write all of \
                 it first for\nfigures of the disk.",
            );
        }
        out
    }
}

/// Has this many threads do something at these places, each with a buffer of its own.
fn threads(
    depth: usize,
    len: u64,
    offsets: &[u64],
    one: impl Fn(&mut [u8], u64) -> std::io::Result<()> + Sync,
) -> std::io::Result<f64> {
    let begin = Instant::now();
    let len = (len as usize).min(BUFFER_BYTES);
    std::thread::scope(|scope| {
        let one = &one;
        let worker = |first: usize| {
            move || {
                let none = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
                let mut buf = AlignedBuf::try_zeroed(len).ok_or_else(none)?;
                Xoshiro256::seeded(first as u64).fill(&mut buf);
                let mut mine = offsets.iter().skip(first).step_by(depth);
                mine.try_for_each(|offset| one(&mut buf, *offset))
            }
        };
        let workers: Vec<_> = (0..depth).map(|first| scope.spawn(worker(first))).collect();
        workers.into_iter().try_for_each(|one| match one.join() {
            Ok(result) => result,
            Err(_) => Err(std::io::Error::other("a thread panicked")),
        })
    })?;
    Ok(begin.elapsed().as_secs_f64())
}

impl Fitted for FileDisk {
    fn read_many(&mut self, depth: usize, len: u64, offsets: &[u64]) -> std::io::Result<f64> {
        threads(depth, len, offsets, |buf, at| self.file.read_exact_at(buf, at))
    }

    fn write_many(&mut self, depth: usize, len: u64, offsets: &[u64]) -> std::io::Result<f64> {
        threads(depth, len, offsets, |buf, at| self.file.write_all_at(buf, at))
    }
}

impl RawDisk for FileDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&mut self, offset: u64, len: u64) -> std::io::Result<()> {
        let len = (len as usize).min(BUFFER_BYTES);
        self.file.read_exact_at(&mut self.buf[..len], offset)
    }

    fn write(&mut self, offset: u64, len: u64) -> std::io::Result<()> {
        let len = (len as usize).min(BUFFER_BYTES);
        self.file.write_all_at(&self.buf[..len], offset)
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Of this thread, as the kernel's scheduler counts it.
    fn cpu(&self) -> Option<Duration> {
        let text = std::fs::read_to_string(PathBuf::from("/proc/thread-self/schedstat")).ok()?;
        let nanos = text.split_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanos))
    }
}

/// A volume of a pool, through the engine.
pub struct VolumeDisk {
    volume: Volume,
    rt: Rt,
    buf: AlignedBuf,
}

impl VolumeDisk {
    /// This one, of a pool in this runtime.
    ///
    /// # Errors
    /// When there is no memory for a request.
    pub fn new(volume: Volume, rt: &Rt) -> Result<Self, LabError> {
        Ok(Self { volume, rt: rt.clone(), buf: buffer()? })
    }
}

impl RawDisk for VolumeDisk {
    fn size(&self) -> u64 {
        self.volume.size()
    }

    fn read(&mut self, offset: u64, len: u64) -> std::io::Result<()> {
        let len = (len as usize).min(BUFFER_BYTES);
        let read = self.volume.read_at(offset, &mut self.buf[..len]);
        read.map(drop).map_err(std::io::Error::other)
    }

    /// Done when the engine has it; durable when the pool was synced.
    fn write(&mut self, offset: u64, len: u64) -> std::io::Result<()> {
        let len = (len as usize).min(BUFFER_BYTES);
        self.volume.write_at(offset, &self.buf[..len]).map_err(std::io::Error::other)
    }

    fn now(&self) -> Duration {
        self.rt.now()
    }

    /// The engine's threads are not told from others.
    fn cpu(&self) -> Option<Duration> {
        None
    }
}

/// What requests of one kind and length achieved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Requests.
    pub count: u64,
    /// Bytes of each.
    pub len: u64,
    /// Seconds they took.
    pub seconds: f64,
    /// Seconds of processor time.
    pub cpu_seconds: Option<f64>,
}

impl Pace {
    /// Requests in a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.seconds.max(1e-9)
    }

    /// 2^20 bytes in a second.
    #[must_use]
    pub fn mib_per_second(&self) -> f64 {
        self.per_second() * self.len as f64 / f64::from(1 << 20)
    }

    /// Percent of the time in which the processor had nothing to do.
    #[must_use]
    pub fn idle_percent(&self) -> Option<f64> {
        self.cpu_seconds.map(|cpu| (100.0 * (1.0 - cpu / self.seconds.max(1e-9))).max(0.0))
    }
}

/// How long requests are repeated: until one of these is reached.
#[derive(Clone, Copy, Debug)]
pub struct StopAt {
    /// Seconds.
    pub seconds: f64,
    /// Requests.
    pub count: u64,
}

/// Repeats one request, at the offsets that `next` gives, one after the other.
///
/// # Errors
/// The device's first one.
pub fn pace(
    disk: &mut dyn RawDisk,
    kind: ModelKind,
    len: u64,
    until: StopAt,
    mut next: impl FnMut() -> u64,
) -> std::io::Result<Pace> {
    let (begin, cpu) = (disk.now(), disk.cpu());
    let mut count = 0;
    loop {
        let offset = next();
        match kind {
            ModelKind::Read => disk.read(offset, len)?,
            ModelKind::Write | ModelKind::Flush => disk.write(offset, len)?,
        }
        count += 1;
        let seconds = (disk.now() - begin).as_secs_f64();
        if count >= until.count || seconds >= until.seconds {
            let used = |end: Duration| Some((end - cpu?).as_secs_f64());
            return Ok(Pace { count, len, seconds, cpu_seconds: disk.cpu().and_then(used) });
        }
    }
}

/// Offsets in a row, from the beginning again at the end of `size`.
pub fn in_a_row(size: u64, len: u64) -> impl FnMut() -> u64 {
    let mut at = 0;
    move || {
        if at + len > size {
            at = 0;
        }
        at += len;
        at - len
    }
}
