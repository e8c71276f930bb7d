//! Reading: ranges become runs of segments, those that lie close together are read at once, and
//! more with them (`recent`). What a cache has is read there first.

use super::cache::{Answer, LINE, Lines};
use super::core::{Core, Phase, kind_of};
use super::format::segment_name;
use super::recent::{Found, MANY, USED, Whole};
use super::run::{Filling, Job, ReadDone, Run, Stored};
use crate::store::client::Urgency;
use crate::store::{Request, Response, StoreError};
use device::{AlignedBuf, ErrorKind};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes between two runs that are read and thrown away rather than asked for apart: what a store
/// takes for an answer is worth more of them, but a line may be slow.
const GAP: u64 = 128 << 10;
/// Bytes that are read with one request at most, unless a single run is longer: what a pool reads
/// ahead at a time, and a segment has, which does not lie together without a gap.
const AT_ONCE: u64 = (16 << 20) + 16 * GAP;
/// How often a read looks again where its bytes are, when they were moved and deleted under it.
const TRIES: u32 = 4;
/// Of an object of which less than this is alive, in percent, no more is read than is wanted.
const ALIVE: u64 = 75;

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
            runs.extend(stored.into_iter().map(|at| Run { job: Arc::clone(&job), at }));
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

    /// Fills in what is in memory; what is in the store.
    fn plan(&self, state: &super::core::State, offset: u64, bytes: &mut AlignedBuf) -> Vec<Stored> {
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
            let segment = state.index.segment(to.seq);
            let payload = segment.map_or(0, |s| u64::from(s.payload));
            let alive = segment.filter(|s| u64::from(s.live) * 100 >= u64::from(s.sectors) * ALIVE);
            let object = alive.map(|s| {
                let (sectors, live) = (u64::from(s.sectors), u64::from(s.live) * sector);
                Whole { from: payload, end: payload + sectors * sector, live }
            });
            stored.push(Stored { to: begin, len, seq: to.seq, from: payload + at, object });
        }
        stored
    }

    /// Gives the runs that a cache has, and reads the others.
    fn look(self: &Arc<Self>, lines: &mut Lines, runs: Vec<Run>) {
        let mut missing = Vec::new();
        for run in runs {
            match lines.read(run.at.seq, run.at.from, run.at.len) {
                Some(bytes) => self.arrived(&run, run.at.from, &Ok(Response::Bytes(bytes))),
                None => missing.push(run),
            }
        }
        self.fetch(missing);
    }

    /// Reads runs from the store.
    fn fetch(self: &Arc<Self>, mut runs: Vec<Run>) {
        let is_much = runs.iter().map(|run| run.at.len as u64).sum::<u64>() >= MANY;
        runs.sort_by_key(|run| (run.at.seq, run.at.from));
        let mut groups: Vec<Vec<Run>> = Vec::new();
        for run in runs {
            let fits = groups.last().is_some_and(|group| {
                let (Some(first), Some(last)) = (group.first(), group.last()) else { return false };
                let (first, last) = (&first.at, &last.at);
                let whole = run.at.end().saturating_sub(first.from);
                first.seq == run.at.seq && run.at.from <= last.end() + GAP && whole <= AT_ONCE
            });
            match groups.last_mut() {
                Some(group) if fits => group.push(run),
                _ => groups.push(vec![run]),
            }
        }
        for group in groups {
            // Also what the groups before have asked for is under way.
            let group: Vec<Run> = group.into_iter().filter_map(|run| self.recall(run)).collect();
            if !group.is_empty() {
                self.ask(group, is_much);
            }
        }
    }

    /// Gives a run that was read lately; it waits if it is being read. Else it is returned.
    fn recall(self: &Arc<Self>, run: Run) -> Option<Run> {
        let (seq, range) = (run.at.seq, (run.at.from, run.at.end()));
        match self.recent.find(seq, range, run) {
            Found::Here(run, from, answer) => self.arrived(&run, from, &answer),
            Found::UnderWay => {}
            Found::Nothing(run) => return Some(run),
        }
        None
    }

    /// Asks for runs of a segment with one request; for all of its object, if they are a part of
    /// much.
    fn ask(self: &Arc<Self>, group: Vec<Run>, is_much: bool) {
        let Some(first) = group.first().map(|run| &run.at) else { return };
        let (seq, object) = (first.seq, first.object.filter(|_| is_much));
        let (mut from, mut end) = (first.from, first.end());
        end = group.iter().map(|run| run.at.end()).max().unwrap_or(end);
        let used = group.iter().map(|run| run.at.len as u64).sum();
        let wider = self.recent.widen((seq, used), (from, end), object);
        match wider {
            Some(wider) => (from, end) = (wider.from, wider.end),
            None if self.cache.is_some() => {
                (from, end) = (from / LINE * LINE, end.next_multiple_of(LINE));
            }
            None => {}
        }
        let get = Request::Get { name: segment_name(seq), from, len: end - from };
        let core = Arc::clone(self);
        let answered = move |answer: Result<Response, StoreError>| {
            let answer = Arc::new(answer);
            // Before a reader is given its bytes and goes on to the next.
            let waiting = wider.map(|wider| core.keep_recent(wider.id, &answer));
            for run in group.iter().chain(waiting.iter().flatten()) {
                core.arrived(run, from, &answer);
            }
            if let (Some(cache), Ok(_)) = (&core.cache, &*answer) {
                cache.keep(seq, from, answer);
            }
        };
        self.client.submit(Urgency::Read, get, Box::new(answered));
    }

    /// Keeps an answer for the reads that come next, and for a short time; returns what waited.
    fn keep_recent(self: &Arc<Self>, id: u64, answer: &Answer) -> Vec<Run> {
        let waiting = self.recent.arrived(id, answer);
        if !self.is_forgetting.swap(true, Relaxed) {
            self.forget_later();
        }
        waiting
    }

    fn forget_later(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        self.client.rt().after(USED, move || {
            let Some(core) = core.upgrade() else { return };
            match core.recent.forget_old() {
                true => core.forget_later(),
                // What comes just now is forgotten with what comes next.
                false => core.is_forgetting.store(false, Relaxed),
            }
        });
    }

    /// The bytes of a run are there, or will not be.
    fn arrived(self: &Arc<Self>, run: &Run, from: u64, answer: &Result<Response, StoreError>) {
        let mut state = run.job.state.lock();
        let Stored { to, len, .. } = run.at;
        let at = (run.at.from - from) as usize;
        match answer {
            Ok(Response::Bytes(bytes)) => match bytes.get(at..at + len) {
                Some(own) => state.bytes[to..to + len].copy_from_slice(own),
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
