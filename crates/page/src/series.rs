//! An hour of one pool, in memory that does not grow.

use engine::live::TxgRecord;
use engine::stats::{Direction, Histogram, Snapshot};
use serde::Serialize;
use std::collections::VecDeque;

/// Points kept: an hour of one each second.
pub(crate) const POINTS_MAX: usize = 3600;
/// Txgs kept: an hour of more than one each second.
pub(crate) const TXGS_MAX: usize = 4096;

/// The totals of one interval. Rates are for one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// When it ended, in seconds since 1970.
    pub(crate) at: u64,
    /// Bytes read at the devices.
    pub(crate) read: f32,
    /// Bytes written there.
    pub(crate) written: f32,
    /// Reads.
    pub(crate) reads: f32,
    /// Writes.
    pub(crate) writes: f32,
    /// Half of the reads, and 99 of a hundred, took no longer: seconds, `None` without reads.
    pub(crate) read_wait: [Option<f32>; 2],
    /// The same of writes.
    pub(crate) write_wait: [Option<f32>; 2],
    /// Dirty bytes at its end.
    pub(crate) dirty: f32,
}

/// A percentile in seconds.
pub(crate) fn percentile(of: &Histogram, percent: f64) -> Option<f32> {
    of.percentile(percent).map(|ns| (ns as f64 / 1e9) as f32)
}

impl Point {
    /// Of the difference of two snapshots.
    pub(crate) fn of(interval: &Snapshot) -> Self {
        let seconds = (interval.span_ns as f64 / 1e9).max(1e-9);
        let rate = |count: u64| (count as f64 / seconds) as f32;
        let root = interval.root();
        let wait = |direction| {
            let total = root.map(|r| r.total(direction)).unwrap_or_default().total_ns;
            [percentile(&total, 50.0), percentile(&total, 99.0)]
        };
        let (reads, read) = interval.traffic(Direction::Read);
        let (writes, written) = interval.traffic(Direction::Write);
        Self {
            at: interval.wall_ns / 1_000_000_000,
            read: rate(read),
            written: rate(written),
            reads: rate(reads),
            writes: rate(writes),
            read_wait: wait(Direction::Read),
            write_wait: wait(Direction::Write),
            dirty: interval.dirty_bytes as f32,
        }
    }
}

/// Points as columns, which is a third of their size as objects.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Columns {
    at: Vec<u64>,
    read: Vec<u64>,
    written: Vec<u64>,
    reads: Vec<u64>,
    writes: Vec<u64>,
    read_p50: Vec<Option<f32>>,
    read_p99: Vec<Option<f32>>,
    write_p50: Vec<Option<f32>>,
    write_p99: Vec<Option<f32>>,
    dirty: Vec<u64>,
}

impl Columns {
    fn push(&mut self, p: &Point) {
        self.at.push(p.at);
        // A float that is too large becomes the largest number.
        self.read.push(p.read as u64);
        self.written.push(p.written as u64);
        self.reads.push(p.reads.ceil() as u64);
        self.writes.push(p.writes.ceil() as u64);
        self.read_p50.push(p.read_wait[0]);
        self.read_p99.push(p.read_wait[1]);
        self.write_p50.push(p.write_wait[0]);
        self.write_p99.push(p.write_wait[1]);
        self.dirty.push(p.dirty as u64);
    }
}

/// A txg, when it was opened by the wall clock, and when it was seen.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SeenTxg {
    /// Seconds since 1970.
    pub(crate) opened_at: f64,
    #[serde(skip)]
    seen_at: u64,
    /// The record of the txg.
    #[serde(flatten)]
    pub(crate) record: TxgRecord,
}

impl SeenTxg {
    /// One of `snapshot`'s pool, or one that is alive beside it.
    pub(crate) fn new(record: &TxgRecord, snapshot: &Snapshot) -> Self {
        let wall = snapshot.wall_ns as f64 / 1e9;
        let age = snapshot.at_ns as f64 / 1e9 - record.opened.as_secs_f64();
        let seen_at = snapshot.wall_ns / 1_000_000_000;
        Self { opened_at: wall - age, seen_at, record: record.clone() }
    }
}

/// The hour.
#[derive(Debug, Default)]
pub(crate) struct Series {
    points: VecDeque<Point>,
    txgs: VecDeque<SeenTxg>,
}

impl Series {
    /// Adds an interval. A clock that was set back restarts the series: times that do not grow
    /// would never be requested.
    pub(crate) fn add(&mut self, interval: &Snapshot) {
        let point = Point::of(interval);
        if self.points.back().is_some_and(|last| last.at > point.at) {
            *self = Self::default();
        }
        push(&mut self.points, point, POINTS_MAX);
        for record in &interval.txgs {
            push(&mut self.txgs, SeenTxg::new(record, interval), TXGS_MAX);
        }
    }

    /// Points later than `after`, in seconds since 1970.
    pub(crate) fn points_after(&self, after: u64) -> Columns {
        let mut out = Columns::default();
        let from = self.points.partition_point(|p| p.at <= after);
        self.points.range(from..).for_each(|p| out.push(p));
        out
    }

    /// Txgs seen later than that.
    pub(crate) fn txgs_after(&self, after: u64) -> Vec<SeenTxg> {
        let from = self.txgs.partition_point(|t| t.seen_at <= after);
        self.txgs.range(from..).cloned().collect()
    }

    #[cfg(test)]
    fn len(&self) -> (usize, usize) {
        (self.points.len(), self.txgs.len())
    }
}

fn push<T>(ring: &mut VecDeque<T>, value: T, max: usize) {
    if ring.len() >= max {
        ring.pop_front();
    }
    ring.push_back(value);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use engine::stats::{ClassCounts, ClassStats, VdevStats};
    use std::time::Duration;

    fn interval(second: u64, txg: u64) -> Snapshot {
        let mut total_ns = Histogram::default();
        total_ns.add(3_000_000);
        let counts = ClassCounts { ops: 2, bytes: 8192, total_ns, ..ClassCounts::default() };
        let class = ClassStats { class: "async_write".to_owned(), counts };
        Snapshot {
            span_ns: 2_000_000_000,
            at_ns: 60_000_000_000,
            wall_ns: second * 1_000_000_000,
            vdevs: vec![VdevStats { io: vec![class], ..VdevStats::default() }],
            txgs: vec![TxgRecord { txg, opened: Duration::from_secs(55), ..TxgRecord::default() }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn an_hour_and_no_more_is_kept() {
        let mut series = Series::default();
        for n in 0..3 * POINTS_MAX as u64 {
            series.add(&interval(1_000 + n, n));
        }
        assert_eq!(series.len(), (POINTS_MAX, TXGS_MAX));
        assert!(size_of::<Point>() <= 72 && size_of::<SeenTxg>() <= 300, "the bound holds");
        let last = 1_000 + 3 * POINTS_MAX as u64 - 1;
        let columns = series.points_after(last - 2);
        assert_eq!(columns.at, [last - 1, last]);
        assert_eq!((columns.written[0], columns.writes[0]), (4096, 1));
        assert_eq!((columns.read_p99[0], columns.write_p99[0]), (None, Some(0.004_194_304)));
        assert_eq!(series.txgs_after(last - 2).len(), 2);
        assert!(series.points_after(last).at.is_empty());
        assert_eq!(series.txgs_after(last - 1)[0].opened_at, last as f64 - 5.0);
    }

    #[test]
    fn a_clock_that_was_set_back_begins_anew() {
        let mut series = Series::default();
        series.add(&interval(1_000, 1));
        series.add(&interval(500, 2));
        assert_eq!(series.points_after(0).at, [500]);
    }
}
