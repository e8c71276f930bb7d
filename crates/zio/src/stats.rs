//! Blocks written to and read from the devices, by type of block and level.
//!
//! A block counts where it is handed to the vdevs: one I/O for each copy that is read or written,
//! with the bytes as stored. Reads answered from memory (the cache, blocks in flight, holes,
//! embedded blocks) do not count; the requests that a vdev makes of one block (mirror sides,
//! parity) are counted there. Headers and parts of a gang count as the block that was split.
//!
//! One relaxed atomic per figure in a table of fixed size: counting takes no lock and a few
//! nanoseconds beside the microseconds of the I/O. The histograms of a type and level are made when
//! its first I/O ends. Of an I/O that was one of a batch the time is that of the batch.

use device::{AtomicHistogram, Histogram};
use ondisk::{BlkPtr, DmuType};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Levels that have a row of their own; the last row holds all that is above, too. A tree of the
/// largest object has seven levels.
const LEVELS: usize = 8;

/// Types: a byte.
const TYPES: usize = 256;

/// I/Os and bytes of one type and level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// I/Os.
    pub ios: u64,
    /// Bytes as stored.
    pub bytes: u64,
}

/// Reads and writes of one type and level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeCount {
    /// Type of the object the blocks belong to.
    pub kind: DmuType,
    /// Level above the data.
    pub level: u8,
    /// Read.
    pub read: Count,
    /// Written.
    pub written: Count,
}

/// As in the study of indirect blocks: `L2 ZFS plain file`.
impl fmt::Display for TypeCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{} {}", self.level, self.kind)
    }
}

/// The counters of a pool at one moment: every type and level that ever counted, by type and level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeStats {
    rows: Vec<TypeCount>,
}

impl TypeStats {
    /// The rows, by type, then level.
    #[must_use]
    pub fn rows(&self) -> &[TypeCount] {
        &self.rows
    }

    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let minus = |now: Count, then: Count| Count {
            ios: now.ios.saturating_sub(then.ios),
            bytes: now.bytes.saturating_sub(then.bytes),
        };
        let differ = |row: &TypeCount| {
            let then = earlier.find(row.kind, row.level);
            let (read, written) = (minus(row.read, then.read), minus(row.written, then.written));
            (read.ios + written.ios > 0).then_some(TypeCount { read, written, ..*row })
        };
        Self { rows: self.rows.iter().filter_map(differ).collect() }
    }

    /// One row; zeros where nothing was counted.
    #[must_use]
    pub fn find(&self, kind: DmuType, level: u8) -> TypeCount {
        let at = self.rows.binary_search_by_key(&(kind.0, level), |r| (r.kind.0, r.level));
        let none = TypeCount { kind, level, read: Count::default(), written: Count::default() };
        at.ok().and_then(|i| self.rows.get(i)).copied().unwrap_or(none)
    }
}

#[derive(Default)]
struct Cell {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    times: OnceLock<Box<Times>>,
}

#[derive(Default)]
struct Times {
    read_ns: AtomicHistogram,
    written_ns: AtomicHistogram,
}

/// How long the I/Os of one type and level took, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeTimes {
    /// Reads, small ones sampled.
    pub read_ns: Histogram,
    /// Writes, small ones sampled: from when they were sent off, so that waiting for a thread that
    /// issues them is part of it where there are such threads.
    pub written_ns: Histogram,
}

/// The counters.
pub struct ByType {
    on: AtomicBool,
    /// By type, then level.
    cells: Box<[Cell]>,
}

impl Default for ByType {
    fn default() -> Self {
        let cells = (0..TYPES * LEVELS).map(|_| Cell::default()).collect();
        Self { on: AtomicBool::new(true), cells }
    }
}

impl ByType {
    fn cell(&self, bp: &BlkPtr) -> Option<&Cell> {
        self.on.load(Ordering::Relaxed).then(|| self.at(bp.dmu_type(), bp.level()))?
    }

    fn at(&self, kind: DmuType, level: u8) -> Option<&Cell> {
        let level = usize::from(level).min(LEVELS - 1);
        self.cells.get(usize::from(kind.0) * LEVELS + level)
    }

    pub(crate) fn set_counting(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// `bytes` of block `bp` are read.
    pub(crate) fn read(&self, bp: &BlkPtr, bytes: u64) {
        if let Some(cell) = self.cell(bp) {
            cell.reads.fetch_add(1, Ordering::Relaxed);
            cell.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// `bytes` of block `bp` are written.
    pub(crate) fn written(&self, bp: &BlkPtr, bytes: u64) {
        if let Some(cell) = self.cell(bp) {
            cell.writes.fetch_add(1, Ordering::Relaxed);
            cell.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// A read of block `bp` took `time`, and represents `weight` reads.
    pub(crate) fn read_took(&self, bp: &BlkPtr, time: Duration, weight: u64) {
        if let Some(cell) = self.cell(bp) {
            let times = cell.times.get_or_init(Box::default);
            times.read_ns.add_many(crate::stages::nanos(time), weight);
        }
    }

    /// A write of block `bp` took `time`, and represents `weight` writes.
    pub(crate) fn write_took(&self, bp: &BlkPtr, time: Duration, weight: u64) {
        if let Some(cell) = self.cell(bp) {
            let times = cell.times.get_or_init(Box::default);
            times.written_ns.add_many(crate::stages::nanos(time), weight);
        }
    }

    /// How long the I/Os of one type and level took.
    #[must_use]
    pub fn times(&self, kind: DmuType, level: u8) -> TypeTimes {
        let times = self.at(kind, level).and_then(|cell| cell.times.get());
        times.map_or_else(TypeTimes::default, |t| TypeTimes {
            read_ns: t.read_ns.snapshot(),
            written_ns: t.written_ns.snapshot(),
        })
    }

    /// The counters now. Two figures of one row may be one I/O apart.
    #[must_use]
    pub fn snapshot(&self) -> TypeStats {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let row = |(i, cell): (usize, &Cell)| {
            let read = Count { ios: get(&cell.reads), bytes: get(&cell.read_bytes) };
            let written = Count { ios: get(&cell.writes), bytes: get(&cell.written_bytes) };
            let (kind, level) = (DmuType((i / LEVELS) as u8), (i % LEVELS) as u8);
            (read.ios + written.ios > 0).then_some(TypeCount { kind, level, read, written })
        };
        TypeStats { rows: self.cells.iter().enumerate().filter_map(row).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(kind: DmuType, level: u8) -> BlkPtr {
        let mut words = [0; 16];
        words[6] = u64::from(kind.0) << 48 | u64::from(level) << 56;
        BlkPtr::from_words(words)
    }

    #[test]
    fn rows_are_by_type_and_level_and_differences_leave_out_what_rested() {
        let stats = ByType::default();
        let file = |level| pointer(DmuType::PLAIN_FILE_CONTENTS, level);
        stats.read(&file(2), 7168);
        stats.written(&pointer(DmuType::SPACE_MAP, 0), 4096);
        let before = stats.snapshot();
        stats.read(&file(2), 7168);
        stats.read(&file(0), 8192);
        stats.written(&file(31), 512);
        let now = stats.snapshot();
        let names: Vec<String> = now.rows().iter().map(ToString::to_string).collect();
        let all = ["L0 SPA space map", "L0 ZFS plain file", "L2 ZFS plain file"];
        assert_eq!(names[..3], all);
        assert_eq!(names[3], "L7 ZFS plain file", "what is above the last row is in it");
        let since = now.since(&before);
        assert_eq!(since.rows().len(), 3);
        let l2 = since.find(DmuType::PLAIN_FILE_CONTENTS, 2);
        assert_eq!(l2.read, Count { ios: 1, bytes: 7168 });
        assert_eq!(since.find(DmuType::SPACE_MAP, 0).written, Count::default());
    }
}
