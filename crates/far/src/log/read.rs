//! Reading: ranges become runs of segments, those that lie close together are read at once. What a
//! cache has is read there first.

use super::cache::{LINE, Lines};
use super::core::{Core, Phase, kind_of};
use super::format::segment_name;
use crate::store::client::Urgency;
use crate::store::{Request, Response, StoreError};
use device::{AlignedBuf, ErrorKind};
use parking_lot::Mutex;
use std::sync::Arc;

/// Bytes between two runs that are read and thrown away rather than asked for apart: what a store
/// takes for an answer is worth more of them, but a line may be slow.
const GAP: u64 = 128 << 10;
/// Bytes that are read with one request at most, unless a single run is longer: what a pool reads
/// ahead at a time, and a segment has, which does not lie together without a gap.
const AT_ONCE: u64 = (16 << 20) + 16 * GAP;
/// How often a read looks again where its bytes are, when they were moved and deleted under it.
const TRIES: u32 = 4;

/// Gets the bytes, or why there are none.
pub(super) type ReadDone = Box<dyn FnOnce(Result<AlignedBuf, ErrorKind>) + Send>;

/// A read that is under way.
struct Job {
    offset: u64,
    len: usize,
    tries: u32,
    state: Mutex<Filling>,
}

struct Filling {
    bytes: AlignedBuf,
    /// Runs that are not there yet.
    left: usize,
    /// Some run was not where it should be.
    is_absent: bool,
    failed: Option<ErrorKind>,
    give: Option<ReadDone>,
}

/// Bytes in the store that a read wants.
struct Run {
    job: Arc<Job>,
    /// Where they go.
    to: usize,
    len: usize,
    seq: u64,
    /// Where they are in the object.
    from: u64,
}

impl Core {
    /// Reads ranges that are within the disk; each is given when it is there, on a thread that must
    /// not wait.
    pub(super) fn submit_reads(self: &Arc<Self>, ranges: Vec<(u64, usize, ReadDone)>) {
        let jobs = ranges.into_iter().map(|(offset, len, give)| (offset, len, 0, give));
        self.read_jobs(jobs.collect());
    }

    fn read_jobs(self: &Arc<Self>, ranges: Vec<(u64, usize, u32, ReadDone)>) {
        let (mut runs, mut at_once) = (Vec::new(), Vec::new());
        let state = self.state.lock();
        let failed = match state.phase {
            Phase::Failed(kind) => Some(kind),
            Phase::Open | Phase::Closing => None,
        };
        for (offset, len, tries, give) in ranges {
            let bytes = AlignedBuf::try_zeroed(len);
            let Some(mut bytes) = bytes.filter(|_| failed.is_none()) else {
                let kind = failed.unwrap_or(ErrorKind::OutOfMemory);
                at_once.push((give, Err(kind)));
                continue;
            };
            let stored = self.plan(&state, offset, &mut bytes);
            if stored.is_empty() {
                at_once.push((give, Ok(bytes)));
                continue;
            }
            let (left, give) = (stored.len(), Some(give));
            let filling = Filling { bytes, left, is_absent: false, failed: None, give };
            let job = Arc::new(Job { offset, len, tries, state: Mutex::new(filling) });
            runs.extend(stored.into_iter().map(|(to, len, seq, from)| {
                let job = Arc::clone(&job);
                Run { job, to, len, seq, from }
            }));
        }
        drop(state);
        match &self.cache {
            Some(cache) if !runs.is_empty() => {
                let core = Arc::clone(self);
                cache.look(Box::new(move |lines| core.look(lines, runs)));
            }
            _ => self.fetch(runs),
        }
        at_once.into_iter().for_each(|(give, result)| give(result));
    }

    /// Fills in what is in memory; what is in the store: where it goes, how long it is, in which
    /// segment and where there.
    fn plan(
        &self,
        state: &super::core::State,
        offset: u64,
        bytes: &mut AlignedBuf,
    ) -> Vec<(usize, usize, u64, u64)> {
        let (sector, end) = (self.sector(), offset + bytes.len() as u64);
        let mut stored = Vec::new();
        let (first, last) = (offset / sector, end.div_ceil(sector));
        for piece in state.index.find(first, (last - first) as u32) {
            let Some(to) = piece.to else { continue };
            let start = (piece.lba * sector).max(offset);
            let stop = ((piece.lba + u64::from(piece.sectors)) * sector).min(end);
            let at = u64::from(to.at) * sector + (start - piece.lba * sector);
            let range = (start - offset) as usize..(stop - offset) as usize;
            let len = range.len();
            let begin = range.start;
            let writer = state.writer.as_ref();
            if writer.is_some_and(|writer| writer.copy(to.seq, at, &mut bytes[range])) {
                continue;
            }
            let payload = state.index.segment(to.seq).map_or(0, |s| u64::from(s.payload));
            stored.push((begin, len, to.seq, payload + at));
        }
        stored
    }

    /// Gives the runs that a cache has, and reads the others.
    fn look(self: &Arc<Self>, lines: &mut Lines, runs: Vec<Run>) {
        let mut missing = Vec::new();
        for run in runs {
            match lines.read(run.seq, run.from, run.len) {
                Some(bytes) => self.arrived(&run, run.from, &Ok(Response::Bytes(bytes))),
                None => missing.push(run),
            }
        }
        self.fetch(missing);
    }

    /// Reads runs from the store.
    fn fetch(self: &Arc<Self>, mut runs: Vec<Run>) {
        runs.sort_by_key(|run| (run.seq, run.from));
        let mut groups: Vec<Vec<Run>> = Vec::new();
        for run in runs {
            let fits = groups.last().is_some_and(|group| {
                let (Some(first), Some(last)) = (group.first(), group.last()) else { return false };
                let end = last.from + last.len as u64;
                let whole = (run.from + run.len as u64).saturating_sub(first.from);
                first.seq == run.seq && run.from <= end + GAP && whole <= AT_ONCE
            });
            match groups.last_mut() {
                Some(group) if fits => group.push(run),
                _ => groups.push(vec![run]),
            }
        }
        for group in groups {
            let (seq, mut from) = group.first().map_or((0, 0), |run| (run.seq, run.from));
            let mut end = group.iter().map(|run| run.from + run.len as u64).max().unwrap_or(from);
            if self.cache.is_some() {
                (from, end) = (from / LINE * LINE, end.next_multiple_of(LINE));
            }
            let get = Request::Get { name: segment_name(seq), from, len: end - from };
            let core = Arc::clone(self);
            let answered = move |answer: Result<Response, StoreError>| {
                for run in group {
                    core.arrived(&run, from, &answer);
                }
                if let (Some(cache), Ok(Response::Bytes(bytes))) = (&core.cache, answer) {
                    cache.keep(seq, from, bytes);
                }
            };
            self.client.submit(Urgency::Read, get, Box::new(answered));
        }
    }

    /// The bytes of a run are there, or will not be.
    fn arrived(self: &Arc<Self>, run: &Run, from: u64, answer: &Result<Response, StoreError>) {
        let mut state = run.job.state.lock();
        let at = (run.from - from) as usize;
        match answer {
            Ok(Response::Bytes(bytes)) => match bytes.get(at..at + run.len) {
                Some(own) => state.bytes[run.to..run.to + run.len].copy_from_slice(own),
                None => state.failed = Some(ErrorKind::Refused("one of its segments is too short")),
            },
            Ok(_) => state.failed = Some(ErrorKind::Io { errno: libc::EIO }),
            Err(error) => {
                state.is_absent |= *error == StoreError::Absent;
                state.failed = Some(kind_of(error));
            }
        }
        state.left -= 1;
        if state.left > 0 {
            return;
        }
        let Some(give) = state.give.take() else { return };
        let (bytes, failed) = (core::mem::take(&mut state.bytes), state.failed);
        let is_again = state.is_absent && run.job.tries < TRIES;
        drop(state);
        let Job { offset, len, tries, .. } = *run.job;
        match failed {
            None => give(Ok(bytes)),
            Some(_) if is_again => self.read_jobs(vec![(offset, len, tries + 1, give)]),
            Some(kind) => give(Err(kind)),
        }
    }
}
