//! A load that was recorded (`zinc top --record`).
//!
//! A recording has counters at some times. Between two of them users asked for a number of reads
//! and writes, and of bytes. Here as many are, each of their mean size, at equal distances.
//! They come at their time whether those before have ended or not, as long as a thread is free:
//! what a request waits for one is part of its latency. Where in a file they were, and which of
//! them were promised, no recording says: places are random and nothing is promised.

use crate::error::LabError;
use engine::recording::Recording;
use engine::stats::Snapshot;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The most requests of a load: their times are kept.
const REQUESTS_MAX: u64 = 20_000_000;
/// The most bytes of a request, as of other loads.
const BYTES_MAX: u64 = 64 << 20;

/// Requests, by the time at which they come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded(Arc<[Request]>);

/// A read or write that comes at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// When, since the begin.
    pub(super) due: Duration,
    /// It reads.
    pub(super) reads: bool,
    /// Its bytes.
    pub(super) bytes: u64,
}

/// What users did between two snapshots.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    begin_ns: u64,
    span_ns: u64,
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
}

impl Interval {
    fn between(begin: &Snapshot, end: &Snapshot, first_ns: u64) -> Self {
        let mut out = Self {
            begin_ns: begin.at_ns.saturating_sub(first_ns),
            span_ns: end.at_ns.saturating_sub(begin.at_ns),
            ..Self::default()
        };
        for dataset in end.since(begin).datasets {
            out.reads = out.reads.saturating_add(dataset.reads);
            out.read_bytes = out.read_bytes.saturating_add(dataset.read_bytes);
            out.writes = out.writes.saturating_add(dataset.writes);
            out.written_bytes = out.written_bytes.saturating_add(dataset.written_bytes);
        }
        out
    }

    /// Its requests of one kind.
    fn requests(self, reads: bool) -> impl Iterator<Item = Request> {
        let (count, bytes) = match reads {
            true => (self.reads, self.read_bytes),
            false => (self.writes, self.written_bytes),
        };
        let bytes = (bytes / count.max(1)).clamp(1, BYTES_MAX);
        let step = self.span_ns as f64 / count.max(1) as f64;
        (0..count).map(move |n| {
            let due = self.begin_ns + ((n as f64 + 0.5) * step) as u64;
            Request { due: Duration::from_nanos(due), reads, bytes }
        })
    }
}

impl Recorded {
    /// The load of a recording.
    ///
    /// # Errors
    /// It cannot be read, or has no requests or too many.
    pub fn open(path: &Path) -> Result<Self, LabError> {
        let wrong = |what: String, why: String| LabError::new(what, why);
        let unread =
            |e: engine::Error| wrong(format!("{} cannot be run", path.display()), e.to_string());
        let mut recording = Recording::open(path).map_err(unread)?;
        let (mut first_ns, mut last) = (None, None::<Snapshot>);
        let mut requests = Vec::new();
        while let Some(next) = recording.next_snapshot().map_err(unread)? {
            let first = *first_ns.get_or_insert(next.at_ns);
            if let Some(last) = &last {
                let interval = Interval::between(last, &next, first);
                let more = interval.reads.saturating_add(interval.writes);
                if more.saturating_add(requests.len() as u64) > REQUESTS_MAX {
                    let what = format!("{} is too long a load", path.display());
                    return Err(wrong(what, format!("more than {REQUESTS_MAX} requests")));
                }
                requests.extend(interval.requests(true).chain(interval.requests(false)));
            }
            last = Some(next);
        }
        if requests.is_empty() {
            return Err(LabError::new(
                format!("{} is not a load", path.display()),
                "nothing was read or written between its snapshots",
            )
            .hint("`zinc top --record FILE POOL` while a load runs"));
        }
        Ok(Self::of(requests))
    }

    fn of(mut requests: Vec<Request>) -> Self {
        requests.sort_by_key(|request| request.due);
        Self(requests.into())
    }

    /// A request by its number.
    pub(super) fn get(&self, number: usize) -> Option<Request> {
        self.0.get(number).copied()
    }

    /// Whether any request writes.
    pub(super) fn writes(&self) -> bool {
        self.0.iter().any(|request| !request.reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::recording::Recorder;
    use engine::stats::DatasetStats;

    fn snapshot(second: u64, reads: u64, writes: u64) -> Snapshot {
        let (read_bytes, written_bytes) = (reads * 8192, writes * 1000);
        let dataset = DatasetStats {
            objset: 54,
            reads,
            read_bytes,
            writes,
            written_bytes,
            ..Default::default()
        };
        Snapshot { at_ns: second * 1_000_000_000, datasets: vec![dataset], ..Snapshot::default() }
    }

    #[test]
    fn requests_come_as_they_were_recorded() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("load");
        let file = std::fs::File::create(&path).expect("a file");
        let mut recorder = Recorder::begin(file, &path).expect("a recording");
        for (second, reads, writes) in [(7, 100, 50), (8, 102, 51), (10, 102, 53)] {
            recorder.add(&snapshot(second, reads, writes)).expect("written");
        }
        let load = Recorded::open(&path).expect("a load");
        let ms = |request: &Request| (request.due.as_millis(), request.reads, request.bytes);
        let found: Vec<_> = load.0.iter().map(ms).collect();
        let (read, write) = (|at| (at, true, 8192), |at| (at, false, 1000));
        assert_eq!(found, [read(250), write(500), read(750), write(1500), write(2500)]);
        assert!(load.writes() && load.get(5).is_none());
    }

    #[test]
    fn what_is_no_load_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("load");
        assert!(Recorded::open(&path).is_err());
        let file = std::fs::File::create(&path).expect("a file");
        let mut recorder = Recorder::begin(file, &path).expect("a recording");
        recorder.add(&snapshot(1, 5, 5)).expect("written");
        recorder.add(&snapshot(2, 5, 5)).expect("written");
        let why = Recorded::open(&path).expect_err("nothing happened").to_string();
        assert!(why.contains("not a load"), "{why}");
        recorder.add(&snapshot(3, u64::MAX / 1_000_000, 5)).expect("written");
        let why = Recorded::open(&path).expect_err("too much happened").to_string();
        assert!(why.contains("too long"), "{why}");
    }
}
