//! The statistics of a pool, in one value: plain data that can be written to a file, sent over a
//! socket, and subtracted from a later one.
//!
//! # Theory
//!
//! Every layer counts for itself, always, from the moment the pool is opened: the queues of the
//! leaves (`vdev::queue`), the stages of the pipeline and the blocks by type and level (`zio`), the
//! datasets, the txg machine. A [`Snapshot`] reads all of them; nothing is reset by that, so any
//! number of observers can look at the same pool, each at its own pace. The activity of an interval
//! is the difference of two snapshots ([`Snapshot::since`]).
//!
//! *Counters* (what was done: `ops`, `bytes`, `reads` …) only grow; *gauges* (what is: `pending`,
//! `active`, `allocated` …) are what they are now, also in a difference.
//!
//! ```text
//! Snapshot -- vdevs, parents before children: space, errors, I/O by class
//!          |- stages: compress, checksum, allocate, write; read, verify, decompress
//!          |- profile: the stages of writing by kind of thread
//!          |- blocks by type and level
//!          |- datasets
//!          \- txgs: the records of the last hundred
//! ```

mod diff;
mod take;

pub use device::{Histogram, StoreUsage};

use crate::faults::ReadRepairs;
use crate::live::TxgRecord;
use serde::{Deserialize, Serialize};
use vdev::queue::ClassCounts;
use zio::profile::Profile;

/// Version of the layout; it grows when a field changes its meaning.
pub const SNAPSHOT_VERSION: u32 = 1;

/// The statistics of a pool since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// [`SNAPSHOT_VERSION`].
    pub version: u32,
    /// Name of the pool.
    pub pool: String,
    /// Its guid.
    pub guid: u64,
    /// When it was taken, in nanoseconds on the clock of the pool's runtime.
    pub at_ns: u64,
    /// Nanoseconds that it covers: since the pool was opened, or of the interval.
    pub span_ns: u64,
    /// When it was taken, in nanoseconds since 1970.
    pub wall_ns: u64,
    /// The last txg that is durable.
    pub txg: u64,
    /// Why the pool takes no more changes, when it was stopped; its state is `SUSPENDED` then.
    pub suspended: Option<String>,
    /// Bytes that are dirty now, and at most; 0 for a pool that is not open for writing.
    pub dirty_bytes: u64,
    /// See `dirty_bytes`.
    pub dirty_max_bytes: u64,
    /// The vdevs, parents before children, the first one the pool itself.
    pub vdevs: Vec<VdevStats>,
    /// The stages of the pipeline that were gone through.
    pub stages: Vec<StageStats>,
    /// The time of the threads of the write pipeline, by activity.
    pub profile: Profile,
    /// Reads and writes at the devices, by block type and level.
    pub blocks: Vec<BlockStats>,
    /// The datasets that were used.
    pub datasets: Vec<DatasetStats>,
    /// The last txgs, oldest first.
    pub txgs: Vec<TxgRecord>,
    /// The block cache.
    pub cache: CacheStats,
    /// What became of blocks of which readers met bad copies, since errors were cleared last.
    pub read_repairs: ReadRepairs,
}

/// A vdev of the pool. Of inner vdevs `io` is the sum of what is below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VdevStats {
    /// Steps below the pool, which has 0.
    pub depth: u32,
    /// Path of a device, a name such as `raidz1-0`, or the pool's.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// `root`, `mirror`, `raidz`, `disk`, `file` …
    pub kind: String,
    /// The pool has the whole disk, of which this is a partition.
    pub whole_disk: bool,
    /// Allocation class of a top-level vdev and what is below: empty (normal), `dedup`,
    /// `special`, `logs`, `cache` or `spares`.
    pub section: String,
    /// `ONLINE`, `DEGRADED` …; of the pool also `SUSPENDED`.
    pub state: String,
    /// It is below the pool directly: only then `size` and `allocated` mean something (and for the
    /// pool).
    pub has_space: bool,
    /// Bytes that can be allocated, used ones included.
    pub size_bytes: u64,
    /// Bytes allocated.
    pub allocated_bytes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Blocks that failed verification.
    pub checksum_errors: u64,
    /// Requests to its devices, by class; classes without any are left out.
    pub io: Vec<ClassStats>,
    /// Of a RAID-Z vdev that is spread over another disk, bytes that were moved, and that there
    /// are to move; 0 for all others.
    pub reflowed_bytes: u64,
    /// See `reflowed_bytes`.
    pub to_reflow_bytes: u64,
    /// Requests to the object stores that its devices are kept in; `None`: there is no store.
    pub store: Option<StoreUsage>,
}

/// The I/O of one class at a vdev's queue. Classes are named as their tunables are: `sync_read`,
/// `sync_write`, `async_read`, `async_write`, `scrub`, `removal`, `initializing`, `trim`,
/// `rebuild`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassStats {
    /// Its name.
    pub class: String,
    /// The counts of its requests.
    #[serde(flatten)]
    pub counts: ClassCounts,
}

/// A stage of the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageStats {
    /// Of writing `compress`, `checksum`, `allocate`, `write` (with the device); of reading `read`,
    /// `verify`, `decrypt`, `decompress`.
    pub stage: String,
    /// Blocks that went through it. Small ones are sampled, but in `read`.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds it took.
    pub time_ns: Histogram,
}

/// Blocks of one type and level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockStats {
    /// Name of the type, as zdb writes it.
    pub kind: String,
    /// 0 for data, 1 and more for indirect blocks.
    pub level: u8,
    /// Reads at devices.
    pub reads: u64,
    /// Bytes read there.
    pub read_bytes: u64,
    /// Writes at devices.
    pub writes: u64,
    /// Bytes written there.
    pub written_bytes: u64,
    /// Nanoseconds of each read; of one in a batch those of the batch.
    pub read_ns: Histogram,
    /// Nanoseconds of each write.
    pub write_ns: Histogram,
}

/// The use of a dataset, as users request it and not as it reaches the devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatasetStats {
    /// Its name.
    pub name: String,
    /// Number of its object set.
    pub objset: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read (`nread`).
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written (`nwritten`).
    pub written_bytes: u64,
    /// Nanoseconds of each read.
    pub read_ns: Histogram,
    /// Nanoseconds of each write, with the throttle.
    pub write_ns: Histogram,
}

/// The block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheStats {
    /// Lookups that found the block.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Bytes held now.
    pub bytes: u64,
    /// Bytes held at most.
    pub max_bytes: u64,
    /// Bytes of blocks that were read before a reader asked for them.
    pub ahead_bytes: u64,
    /// Of these, bytes of blocks that a reader came for.
    pub ahead_used_bytes: u64,
    /// Of these, bytes of blocks that none came for in time.
    pub ahead_wasted_bytes: u64,
}

impl ClassStats {
    /// Whether it reads, writes, or neither (trims).
    #[must_use]
    pub fn direction(&self) -> Option<Direction> {
        match self.class.as_str() {
            "sync_read" | "async_read" | "scrub" => Some(Direction::Read),
            "trim" => None,
            _ => Some(Direction::Write),
        }
    }
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

impl VdevStats {
    /// The I/O of a class, when there was any.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&ClassCounts> {
        self.io.iter().find(|c| c.class == name).map(|c| &c.counts)
    }

    /// The sum of all classes of a direction.
    #[must_use]
    pub fn total(&self, direction: Direction) -> ClassCounts {
        let mut sum = ClassCounts::default();
        for class in self.io.iter().filter(|c| c.direction() == Some(direction)) {
            sum.merge(&class.counts);
        }
        sum
    }
}

impl Snapshot {
    /// The pool itself, the sum of all vdevs; `None` in a snapshot that is empty.
    #[must_use]
    pub fn root(&self) -> Option<&VdevStats> {
        self.vdevs.first()
    }
}
