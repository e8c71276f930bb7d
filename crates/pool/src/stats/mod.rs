//! What a pool has done, in one value: plain data that can be written to a file, sent over a
//! socket, and subtracted from a later one.
//!
//! # Theory
//!
//! Every layer counts for itself, always, from the moment the pool is opened: the queues of the
//! leaves (`vdev::queue`), the stages of the pipeline and the blocks by type and level (`zio`), the
//! datasets, the txg machine. A [`Snapshot`] is taken by asking all of them; nothing is reset by
//! that, so any number of observers can look at the same pool, each at his own pace. What happened
//! in an interval is the difference of two snapshots ([`Snapshot::since`]).
//!
//! *Counters* (what was done: `ops`, `bytes`, `reads` …) only grow; *gauges* (what is: `pending`,
//! `active`, `allocated` …) are what they are now, also in a difference.
//!
//! ```text
//! Snapshot -- vdevs, parents before children: space, errors, I/O by class
//!          |- stages: compress, checksum, allocate, ...
//!          |- blocks by type and level
//!          |- datasets
//!          \- txgs: the records of the last hundred
//! ```

mod diff;
mod histogram;
mod prometheus;
mod take;

pub use histogram::Histogram;
pub use prometheus::prometheus;

use serde::{Deserialize, Serialize};

/// Version of the layout; it grows when a field changes its meaning.
pub const SNAPSHOT_VERSION: u32 = 1;

/// What a pool has done since it was opened.
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
    /// Bytes that are dirty now, and at most; 0 for a pool that is not open for writing.
    pub dirty_bytes: u64,
    /// See `dirty_bytes`.
    pub dirty_max_bytes: u64,
    /// The vdevs, parents before children, the first one the pool itself.
    pub vdevs: Vec<VdevStats>,
    /// The stages of the pipeline.
    pub stages: Vec<StageStats>,
    /// What was read and written at the devices, by block type and level.
    pub blocks: Vec<BlockStats>,
    /// The datasets that were used.
    pub datasets: Vec<DatasetStats>,
    /// What the last txgs did, oldest first.
    pub txgs: Vec<TxgStats>,
    /// The block cache.
    pub cache: CacheStats,
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
    /// `ONLINE`, `DEGRADED` …
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
    /// What went to its devices, by class; classes without any are left out.
    pub io: Vec<ClassStats>,
}

/// The I/O of one class at a vdev's queue. Classes are named as their tunables are: `sync_read`,
/// `sync_write`, `async_read`, `async_write`, `scrub`, `removal`, `initializing`, `trim`,
/// `rebuild`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassStats {
    /// Its name.
    pub class: String,
    /// Requests that ended at the device, aggregated ones once.
    pub ops: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
    /// Requests that wait in the queue now.
    pub pending: u64,
    /// Requests that are with the device now.
    pub active: u64,
    /// Nanoseconds from arrival to the device, of each that ended.
    pub queue_ns: Histogram,
    /// Nanoseconds at the device.
    pub disk_ns: Histogram,
    /// Both together.
    pub total_ns: Histogram,
    /// Bytes of requests that went to the device alone.
    pub individual_bytes: Histogram,
    /// Bytes of requests that were aggregated.
    pub aggregated_bytes: Histogram,
}

/// A stage of the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageStats {
    /// `compress`, `encrypt`, `checksum`, `allocate`, `submit`, `device`, …
    pub stage: String,
    /// Times it was gone through.
    pub count: u64,
    /// Bytes that went in.
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
}

/// What users did to a dataset, as it is asked for and not as it reaches the devices.
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
}

/// What one txg did: [`crate::live::TxgRecord`] as plain data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TxgStats {
    /// Its number.
    pub txg: u64,
    /// When it was opened, on the clock of `at_ns`.
    pub opened_ns: u64,
    /// How long it was open.
    pub open_ns: u64,
    /// How long its last transactions took to end.
    pub quiesce_ns: u64,
    /// How long it waited for its turn.
    pub wait_ns: u64,
    /// How long it took to sync.
    pub sync_ns: u64,
    /// Bytes that were dirty in it.
    pub dirty_bytes: u64,
    /// Bytes written (allocated sizes).
    pub written_bytes: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Delays of writers.
    pub delays: u64,
    /// Their sum.
    pub delayed_ns: u64,
    /// Limit that was in force; 0 for none.
    pub limit_bytes: u64,
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
    pub fn class(&self, name: &str) -> Option<&ClassStats> {
        self.io.iter().find(|c| c.class == name)
    }

    /// The sum of all classes of a direction.
    #[must_use]
    pub fn total(&self, direction: Direction) -> ClassStats {
        let mut sum = ClassStats::default();
        for class in self.io.iter().filter(|c| c.direction() == Some(direction)) {
            sum.merge(class);
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
