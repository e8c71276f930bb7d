//! Sequential writers over a pool on simulated disks, in virtual time: what `dd if=/dev/zero` does,
//! one write of 1 MiB after the other, as fast as the throttle lets them.
//!
//! The data are one block of zeros that every write refers to, so that gigabytes of dirty data take
//! the memory of one block, and the disks keep no page of zeros either. To the engine they are
//! blocks like others: they are allocated and written. Compression and checksums of data are off:
//! no experiment here charges what processors need for them.

use crate::error::LabError;
use crate::striped::striped;
use engine::inside::device::{AlignedBuf, WriteDeviceRef};
use engine::inside::dmu::{Hold, Object};
use engine::inside::ondisk::Endian;
use engine::inside::pool::live;
use engine::inside::pool::live::{CreateOptions, Devices, LivePool, NewTop, Setting};
use engine::inside::rt::{Rt, Task};
use engine::inside::zio::Block;
use engine::inside::zpl::Volume;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one write of an application.
pub const WRITE_BYTES: u64 = 1 << 20;

/// Bytes of a record.
pub const RECORD_BYTES: u32 = 128 << 10;

/// Metadata that a write makes dirty beside its data, at most.
pub(crate) const HOLD_TREE: u64 = 256 << 10;

/// Why a workload could not be run.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] engine::inside::pool::Error),
    /// An object failed.
    #[error(transparent)]
    Dmu(#[from] engine::inside::dmu::Error),
    /// A file failed.
    #[error(transparent)]
    File(#[from] engine::inside::zpl::Error),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// A tunable cannot be set.
    #[error(transparent)]
    Tunable(#[from] live::TunableError),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] engine::inside::device::Error),
    /// It was called off.
    #[error("it was called off, and what was made for it is destroyed")]
    CalledOff,
    /// A thread panicked.
    #[error("{0}")]
    Panicked(String),
}

/// A writer: where it writes, and how fast it could be.
#[derive(Clone, Debug)]
pub struct Writer {
    /// Name of its volume.
    pub volume: String,
    /// Number of its first write there; behind the last one comes the volume's first.
    pub first: u64,
    /// Time that it needs for one write beside what the pool makes it wait: reading `/dev/zero`,
    /// copying into the kernel.
    pub own_time: Duration,
    /// How much later than the others it begins.
    pub late: Duration,
    /// Bytes at the begin of the volume that it frees before it writes.
    pub frees: u64,
}

/// A write that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Write {
    /// When, on the clock of the runtime.
    pub ended: Duration,
    /// How long it was held back.
    pub held: Duration,
}

/// What a pool is like beside its disks.
pub(crate) struct Shape<'a> {
    /// Volumes `h/w0`, `h/w1` and so on.
    pub(crate) volumes: usize,
    /// Bytes of each.
    pub(crate) volume_bytes: u64,
    /// Bytes of their records.
    pub(crate) record: u32,
    /// Memory for blocks that were read.
    pub(crate) cache_bytes: usize,
    /// What is read ahead of all readers, at most. Studies say of their readers how many they were,
    /// and not what was read ahead of them.
    pub(crate) read_ahead_bytes: u64,
    /// Tunables, `NAME=VALUE`.
    pub(crate) tunables: &'a [String],
}

/// Memory for metadata that a sync writes: the next one wants them.
pub(crate) const CACHE_BYTES: usize = 256 << 20;

/// A pool of these disks, striped, with these tunables (`NAME=VALUE`), and a volume of such records
/// for each writer.
///
/// # Errors
/// When it cannot be made.
pub fn pool(
    rt: &Rt,
    disks: Vec<WriteDeviceRef>,
    writers: usize,
    record: u32,
    tunables: &[String],
) -> Result<LivePool, StreamError> {
    let size = disks.iter().map(|d| d.size()).sum::<u64>();
    let named = disks.into_iter().enumerate().map(|(n, disk)| (format!("disk{n:02}"), disk));
    let each = size / (writers as u64 + 1) / u64::from(record) * u64::from(record);
    let shape = Shape {
        volumes: writers,
        volume_bytes: each,
        record,
        cache_bytes: CACHE_BYTES,
        read_ahead_bytes: 0,
        tunables,
    };
    pool_of(rt, striped(named), &shape)
}

/// A pool of such vdevs.
pub(crate) fn pool_of(
    rt: &Rt,
    (devices, tops): (Devices, Vec<NewTop>),
    shape: &Shape<'_>,
) -> Result<LivePool, StreamError> {
    let settings: Result<Vec<Setting>, _> =
        shape.tunables.iter().map(|t| Setting::parse(t)).collect();
    let off = |name: &str| (name.to_owned(), "off".to_owned());
    let options = CreateOptions {
        ashift: Some(9),
        fs_properties: vec![off("compression"), off("checksum")],
        cache_bytes: shape.cache_bytes,
        read_ahead_bytes: shape.read_ahead_bytes,
        tunables: settings?,
        ..CreateOptions::new("h", tops)
    };
    let pool = live::create(rt, &options, &devices)?;
    for n in 0..shape.volumes {
        pool.create_volume(&format!("h/w{n}"), shape.volume_bytes, shape.record, Vec::new())?;
    }
    Ok(pool)
}

impl From<StreamError> for LabError {
    fn from(e: StreamError) -> Self {
        Self::new("the workload failed", e)
    }
}

/// A record of zeros.
pub(crate) fn zeros(record: u32) -> Arc<Block> {
    let zeros = AlignedBuf::zeroed(record as usize);
    Arc::new(Block::new(zeros, Endian::Little))
}

/// One write of an application: a transaction for each of its records, as ZFS writes files.
fn write(object: &Object, number: u64, zeros: &Arc<Block>) -> Result<(), StreamError> {
    let record = zeros.bytes().len() as u64;
    let blocks = WRITE_BYTES / record;
    for block in 0..blocks {
        let tx = object.objset().begin(Hold::write(record + HOLD_TREE))?;
        object.write_shared(&tx, number * blocks + block, zeros)?;
    }
    Ok(())
}

/// Writer `writer` does `count` writes in records of its volume's size, the first one number
/// `from`; the number of the next.
///
/// # Errors
/// When one fails.
pub fn write_mib(
    pool: &LivePool,
    writer: usize,
    from: u64,
    count: u64,
    record: u32,
) -> Result<u64, StreamError> {
    let volume = pool.volume(&format!("h/w{writer}"))?;
    write_range(&volume, from..from + count, record)?;
    Ok(from + count)
}

/// The writes of 1 MiB with these numbers, to an open volume.
pub(crate) fn write_range(
    volume: &Volume,
    numbers: Range<u64>,
    record: u32,
) -> Result<(), StreamError> {
    let zeros = zeros(record);
    for number in numbers {
        write(volume.object(), number, &zeros)?;
    }
    Ok(())
}

/// Writes the record of this number to an open volume, whose records it has the size of.
pub(crate) fn write_record(
    volume: &Volume,
    number: u64,
    block: &Arc<Block>,
) -> Result<(), StreamError> {
    let object = volume.object();
    let tx = object.objset().begin(Hold::write(block.bytes().len() as u64 + HOLD_TREE))?;
    Ok(object.write_shared(&tx, number, block)?)
}

/// Writes 1 MiB after the other to a volume until `end` on the clock of the runtime, and from its
/// begin again when it is full.
///
/// # Errors
/// When one fails.
pub fn write_until(pool: &LivePool, volume: &Volume, end: Duration) -> Result<(), StreamError> {
    let zeros = zeros(RECORD_BYTES);
    let writes = (volume.size() / WRITE_BYTES).max(1);
    for number in (0..writes).cycle() {
        if pool.rt().now() >= end {
            break;
        }
        write(volume.object(), number, &zeros)?;
    }
    Ok(())
}

/// Writers that are running.
pub struct Running(Vec<Task<Result<Vec<Write>, StreamError>>>);

/// Starts the writers, which run until `end` on the clock of the
/// runtime.
///
/// # Errors
/// When a volume cannot be opened or a thread not be started.
pub fn start(pool: &LivePool, writers: &[Writer], end: Duration) -> Result<Running, StreamError> {
    let zeros = zeros(RECORD_BYTES);
    let mut tasks = Vec::new();
    for writer in writers {
        let volume = pool.volume(&writer.volume)?;
        let (rt, zeros) = (pool.rt().clone(), Arc::clone(&zeros));
        let Writer { first, own_time, late, frees, .. } = *writer;
        let body = move || {
            let mut out = Vec::new();
            rt.sleep(late);
            if frees > 0 {
                volume.trim(0, frees.min(volume.size()))?;
            }
            let writes = (volume.size() / WRITE_BYTES).max(1);
            for number in first.. {
                rt.sleep(own_time);
                let began = rt.now();
                if began >= end {
                    break;
                }
                write(volume.object(), number % writes, &zeros)?;
                out.push(Write { ended: rt.now(), held: rt.now() - began });
            }
            Ok(out)
        };
        tasks.push(pool.rt().spawn("writer", body)?);
    }
    Ok(Running(tasks))
}

impl Running {
    /// Waits for all of them; their writes, in the order in which they ended.
    ///
    /// # Errors
    /// When one failed.
    pub fn finish(self) -> Result<Vec<Write>, StreamError> {
        let mut writes = Vec::new();
        for task in self.0 {
            writes.extend(task.join().map_err(|e| StreamError::Panicked(e.message))??);
        }
        writes.sort_unstable();
        Ok(writes)
    }
}
