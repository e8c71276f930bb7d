//! Which readers of an object follow a pattern, and what they will want next.
//!
//! An access is a range of blocks. An object has some *streams*, each with a direction and the
//! place up to which it was read and requested ahead, and the last accesses that brought none of
//! them further. Two accesses of which one begins where the other ends make a stream, forwards or
//! backwards; four at equal steps make a strided one. With fewer, readers at random places would be
//! taken for one too often.
//!
//! Threads overtake each other on the way here. So an access belongs to a stream when it is a few
//! accesses behind or before the place of its reader, and not only when it is the very next.
//!
//! How far a stream may be ahead begins with what was read of it so far and doubles each time that
//! its reader has come half the way. So a wrong guess costs little, and a fast reader soon has
//! enough under way. Guesses are often wrong: of a reader of small blocks at random places, one
//! access in some hundreds is by chance beside one of the last. With a fixed beginning of 256 KiB,
//! 32 such readers were a fifth slower.

use super::lead::{Lead, Room};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Streams of an object that are followed at the same time.
const STREAMS_MAX: usize = 8;
/// Accesses that are remembered because they brought no stream further.
const RECENT_MAX: usize = 16;
/// Of these, the newest from which a strided stream may have come here.
const STEP_FROM: usize = 8;
/// Equal steps that make a strided stream.
const EQUAL_STEPS: i64 = 3;
/// Accesses that may overtake one of their stream. A reader that goes further is another one: at
/// random places of a file it would often come to where a stream has been.
const OVERTAKEN: u64 = 8;
/// Blocks that were read: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The first one.
    pub(crate) first: u64,
    /// How many.
    pub(crate) blocks: u64,
}

impl Access {
    fn end(self) -> u64 {
        self.first.saturating_add(self.blocks)
    }
}

/// How far streams of an object may be ahead, in its blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct AheadLimits {
    /// At first, at most: unless one access is larger.
    pub(super) start: u64,
    /// At most.
    pub(super) max: u64,
    /// Read by one thread at a time.
    pub(super) piece: u64,
    /// Blocks of the object.
    pub(super) end: u64,
}

impl AheadLimits {
    /// Blocks that a new stream is ahead, which was made by two accesses of `blocks` each.
    fn first(&self, blocks: u64) -> u64 {
        blocks.saturating_mul(2).min(self.start).max(blocks).min(self.max)
    }
}

/// What came of an access.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// The budget had too little room for what should be read ahead.
    pub(super) lacks_room: bool,
    /// The stream that the access belongs to, when reading ahead of it gains nothing.
    pub(super) barren: Option<Arc<Lead>>,
}

/// Blocks to read ahead, by one thread.
#[derive(Debug)]
pub(crate) struct Piece {
    /// First block and number of each range.
    pub(crate) ranges: Vec<(u64, u64)>,
    /// Room for them.
    pub(crate) room: Room,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Forwards,
    Backwards,
    /// From the beginning of one access to that of the next.
    Strided(i64),
}

#[derive(Debug)]
struct Stream {
    pattern: Pattern,
    /// The access that is furthest on its way.
    at: Access,
    /// Requested behind `at`: forwards and backwards in blocks, strided in accesses.
    requested: u64,
    /// Blocks that may be requested ahead of the reader.
    depth: u64,
    lead: Arc<Lead>,
    /// Of the object's accesses the how manieth brought its reader further.
    turn: u64,
    /// When its reader was seen last.
    seen: Duration,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.lead.end();
    }
}

/// `from + step * times`, when there is such a block.
fn stepped(from: u64, step: i64, times: u64) -> Option<u64> {
    let way = i128::from(step) * i128::from(times);
    u64::try_from(i128::from(from) + way).ok()
}

impl Stream {
    /// How far an access brings the stream's reader; 0: no further, it is where it was lately.
    /// `None`: the read does not belong to the stream.
    fn progress(&self, a: Access) -> Option<u64> {
        let slack = a.blocks.saturating_mul(OVERTAKEN);
        match self.pattern {
            Pattern::Forwards => {
                let end = self.at.end();
                let is_near = a.end().saturating_add(slack) >= end;
                let is_ours = is_near && a.first <= end.saturating_add(self.requested.min(slack));
                is_ours.then(|| a.end().saturating_sub(end))
            }
            Pattern::Backwards => {
                let first = self.at.first;
                let is_near = a.first <= first.saturating_add(slack);
                let is_ours = is_near && a.end() >= first.saturating_sub(self.requested.min(slack));
                is_ours.then(|| first.saturating_sub(a.first))
            }
            Pattern::Strided(step) => {
                let way = i128::from(a.first) - i128::from(self.at.first);
                let steps = way / i128::from(step);
                let is_step = a.blocks == self.at.blocks && way % i128::from(step) == 0;
                let reach = self.requested.clamp(1, OVERTAKEN);
                let is_ours = is_step && steps.abs() <= i128::from(reach);
                is_ours.then(|| u64::try_from(steps).unwrap_or(0))
            }
        }
    }

    /// The reader is `on` further than it was.
    fn advance(&mut self, a: Access, on: u64) {
        self.at = a;
        self.requested = self.requested.saturating_sub(on);
    }

    /// Blocks that it is ahead of its reader.
    fn distance(&self) -> u64 {
        match self.pattern {
            Pattern::Strided(_) => self.requested.saturating_mul(self.at.blocks),
            _ => self.requested,
        }
    }

    /// What to request next, and by how much `requested` grows then.
    fn next(&self, pace: &AheadLimits) -> Option<(Vec<(u64, u64)>, u64)> {
        let room = self.depth.saturating_sub(self.distance()).min(pace.piece);
        match self.pattern {
            Pattern::Forwards => {
                let from = self.at.end().saturating_add(self.requested);
                let blocks = room.min(pace.end.saturating_sub(from));
                (blocks > 0).then(|| (vec![(from, blocks)], blocks))
            }
            Pattern::Backwards => {
                let to = self.at.first.saturating_sub(self.requested);
                let blocks = room.min(to);
                (blocks > 0).then(|| (vec![(to - blocks, blocks)], blocks))
            }
            Pattern::Strided(step) => {
                let left = self.depth.saturating_sub(self.distance());
                let accesses = (room / self.at.blocks).max(u64::from(left >= self.at.blocks));
                let begin = |n| stepped(self.at.first, step, self.requested + n);
                let is_there = |first: &u64| *first < pace.end;
                let first = (1..=accesses).map_while(|n| begin(n).filter(is_there));
                let blocks = |first: u64| self.at.blocks.min(pace.end - first);
                let ranges: Vec<_> = first.map(|first| (first, blocks(first))).collect();
                let count = ranges.len() as u64;
                (count > 0).then_some((ranges, count))
            }
        }
    }

    /// Takes room for what is to be read now.
    fn extend(&mut self, pace: &AheadLimits, block_bytes: u64, out: &mut Vec<Piece>) -> Noted {
        let least = pace.first(self.at.blocks);
        if self.lead.is_barren() {
            self.depth = least;
            return Noted { barren: Some(Arc::clone(&self.lead)), ..Noted::default() };
        }
        if self.distance() > self.depth / 2 {
            return Noted::default();
        }
        let before = out.len();
        while let Some((ranges, count)) = self.next(pace) {
            let blocks: u64 = ranges.iter().map(|(_, blocks)| blocks).sum();
            let Some(room) = self.lead.reserve(blocks.saturating_mul(block_bytes)) else {
                self.depth = (self.depth / 2).max(least);
                return Noted { lacks_room: true, ..Noted::default() };
            };
            out.push(Piece { ranges, room });
            self.requested += count;
            if self.lead.is_barren() {
                // That was a trial.
                self.depth = least;
                return Noted::default();
            }
        }
        if out.len() > before {
            self.depth = self.depth.saturating_mul(2).min(pace.max);
        }
        Noted::default()
    }
}

/// The streams of one object.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    /// Accesses that brought none of them further, the newest last.
    recent: VecDeque<Access>,
    turn: u64,
}

impl Streams {
    /// Notes an access at the time `now` and adds to `out` what is to be read ahead of it. `lead`
    /// makes the lead of a new stream.
    pub(super) fn note(
        &mut self,
        (a, now): (Access, Duration),
        (pace, block_bytes): (&AheadLimits, u64),
        lead: impl FnOnce() -> Arc<Lead>,
        out: &mut Vec<Piece>,
    ) -> Noted {
        self.turn += 1;
        let (turn, is_late) = (self.turn, move |s: &Stream| s.progress(a) == Some(0));
        let on = |s: &Stream| s.progress(a).filter(|on| *on > 0);
        let known = self.streams.iter().enumerate().find_map(|(at, s)| Some((at, on(s)?)));
        let at = match known {
            Some((at, on)) => {
                self.streams[at].advance(a, on);
                at
            }
            None => {
                self.streams.iter_mut().filter(|s| is_late(s)).for_each(|s| s.seen = now);
                // An access that was overtaken belongs to its stream, and begins none of the same
                // kind.
                let late = || self.streams.iter().filter(|s| is_late(s));
                let is_new = |p: &Pattern| match p {
                    Pattern::Strided(_) => late().next().is_none(),
                    _ => late().all(|s| s.pattern != *p),
                };
                let pattern = self.recognize(a).filter(is_new);
                self.remember(a);
                let Some(pattern) = pattern else { return Noted::default() };
                self.make_room();
                let (at, depth) = (a, pace.first(a.blocks));
                let (lead, requested) = (lead(), 0);
                self.streams.push(Stream { pattern, at, requested, depth, lead, turn, seen: now });
                self.streams.len() - 1
            }
        };
        let Some(stream) = self.streams.get_mut(at) else { return Noted::default() };
        (stream.turn, stream.seen) = (turn, now);
        stream.extend(pace, block_bytes, out)
    }

    /// The pattern that an access makes with those before it.
    fn recognize(&self, a: Access) -> Option<Pattern> {
        // Readers of parts of blocks come to the last block again.
        let is_next = |r: Access, a: Access| {
            r.end() == a.first || (r.end() == a.first.saturating_add(1) && a.end() > r.end())
        };
        let is_before = |r: Access, a: Access| {
            a.end() == r.first || (a.end() == r.first.saturating_add(1) && a.first < r.first)
        };
        if self.recent.iter().any(|r| is_next(*r, a)) {
            return Some(Pattern::Forwards);
        }
        if self.recent.iter().any(|r| is_before(*r, a)) {
            return Some(Pattern::Backwards);
        }
        let was = |first: u64| self.recent.contains(&Access { first, ..a });
        let is_strided = |step: i64| {
            let steps = (2..=EQUAL_STEPS).map(|n| stepped(a.first, -step, n.unsigned_abs()));
            step.unsigned_abs() > a.blocks && steps.into_iter().all(|at| at.is_some_and(was))
        };
        let step = |r: &Access| i64::try_from(i128::from(a.first) - i128::from(r.first)).ok();
        let last = self.recent.iter().rev().take(STEP_FROM).filter(|r| r.blocks == a.blocks);
        let mut steps = last.filter_map(step).filter(|step| *step != i64::MIN);
        steps.find(|step| is_strided(*step)).map(Pattern::Strided)
    }

    fn remember(&mut self, a: Access) {
        // A reader of parts of a block comes to it often.
        if self.recent.back() == Some(&a) {
            return;
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(a);
    }

    /// The stream that was seen longest ago makes room for another one.
    fn make_room(&mut self) {
        if self.streams.len() < STREAMS_MAX {
            return;
        }
        let oldest = self.streams.iter().enumerate().min_by_key(|(_, s)| s.turn);
        if let Some((at, _)) = oldest {
            self.streams.swap_remove(at);
        }
    }

    /// Ends the streams whose readers were seen last before `time`.
    pub(super) fn end_older(&mut self, time: Duration) {
        self.streams.retain(|s| s.seen >= time);
    }
}

#[cfg(test)]
mod tests {
    use super::super::lead::Budget;
    use super::*;

    const PACE: AheadLimits = AheadLimits { start: 2, max: 16, piece: 4, end: 1000 };

    struct Reader {
        streams: Streams,
        budget: Arc<Budget>,
    }

    impl Reader {
        fn new(cap_bytes: u64) -> Self {
            Self { streams: Streams::default(), budget: Arc::new(Budget::new(cap_bytes)) }
        }

        /// Reads, and fills what is requested; blocks have one byte, and are used at once.
        fn read(&mut self, first: u64, blocks: u64) -> Vec<u64> {
            let (mut out, budget) = (Vec::new(), Arc::clone(&self.budget));
            let access = (Access { first, blocks }, Duration::ZERO);
            self.streams.note(access, (&PACE, 1), || Lead::new(&budget), &mut out);
            let fill = |mut piece: Piece| {
                let blocks: Vec<u64> =
                    piece.ranges.iter().flat_map(|(first, n)| *first..first + n).collect();
                if let Some(lead) = piece.room.fill(blocks.len() as u64) {
                    lead.used(blocks.len() as u64);
                }
                blocks
            };
            out.into_iter().flat_map(fill).collect()
        }
    }

    #[test]
    fn forwards_each_block_is_asked_for_once_and_the_depth_doubles() {
        let mut reader = Reader::new(100);
        assert_eq!(reader.read(10, 1), [0; 0]);
        assert_eq!(reader.read(11, 1), [12, 13]);
        assert_eq!(reader.read(12, 1), [14, 15, 16]);
        assert_eq!(reader.read(13, 1), [17, 18, 19, 20, 21]);
        let mut requested: Vec<u64> = (14..900).flat_map(|at| reader.read(at, 1)).collect();
        assert!(requested.iter().all(|b| *b < 900 + 16), "no further ahead than allowed");
        requested.dedup();
        assert_eq!(requested, (22..22 + requested.len() as u64).collect::<Vec<_>>());
        assert!(requested.len() > 850);
    }

    #[test]
    fn a_new_stream_is_ahead_by_what_was_read_of_it() {
        let limits = AheadLimits { start: 32, max: 64, ..PACE };
        assert_eq!([1, 4, 16, 20, 40, 100].map(|n| limits.first(n)), [2, 8, 32, 32, 40, 64]);
    }

    #[test]
    fn nothing_is_asked_for_behind_the_end() {
        let mut reader = Reader::new(100);
        let requested: Vec<u64> = (980..1000).flat_map(|at| reader.read(at, 1)).collect();
        assert_eq!(requested, (982..1000).collect::<Vec<_>>());
    }

    #[test]
    fn backwards_to_the_first_block() {
        let mut reader = Reader::new(100);
        let mut requested: Vec<u64> = (0..40).rev().flat_map(|at| reader.read(at, 1)).collect();
        requested.sort_unstable();
        assert_eq!(requested, (0..38).collect::<Vec<_>>());
    }

    #[test]
    fn parts_of_blocks_are_a_stream_as_well() {
        let mut reader = Reader::new(100);
        let parts = (0..40).flat_map(|block| [block; 5]);
        let mut requested: Vec<u64> = parts.flat_map(|block| reader.read(block, 1)).collect();
        requested.dedup();
        assert_eq!(requested[..5], [2, 3, 4, 5, 6]);
        assert_eq!(requested, (2..2 + requested.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn equal_steps_are_believed_the_third_time_in_both_directions() {
        for (from, step) in [(0, 10), (990, -10_i64)] {
            let mut reader = Reader::new(100);
            let place = |n| stepped(from, step, n).unwrap();
            for n in 0..3 {
                assert_eq!(reader.read(place(n), 2), [0; 0]);
            }
            let requested = reader.read(place(3), 2);
            assert_eq!(requested, [place(4), place(4) + 1]);
            let mut requested: Vec<u64> = (4..60).flat_map(|n| reader.read(place(n), 2)).collect();
            requested.sort_unstable();
            let before = requested.len();
            requested.dedup();
            assert_eq!(requested.len(), before, "each block once");
            let wanted = |b: &u64| (5..80).any(|n| place(n) == *b || place(n) + 1 == *b);
            assert!(requested.iter().all(wanted), "{requested:?}");
            assert!(before >= 110);
        }
    }

    #[test]
    fn several_streams_at_once_and_accesses_that_overtake_each_other() {
        let mut reader = Reader::new(100);
        let mut requested = Vec::new();
        for n in 0..50 {
            for from in [0, 300, 600] {
                // The second of a pair comes first.
                requested.extend(reader.read(from + (n ^ 1), 1));
            }
        }
        requested.sort_unstable();
        requested.dedup();
        for from in [0, 300, 600] {
            let found = requested.iter().filter(|b| (from + 8..from + 50).contains(*b)).count();
            assert_eq!(found, 42, "from {from}: {requested:?}");
        }
    }

    #[test]
    fn readers_at_random_places_are_left_alone() {
        let mut reader = Reader::new(1 << 20);
        let mut place = 1_u64;
        let pace = AheadLimits { end: 1 << 40, ..PACE };
        let mut out = Vec::new();
        for _ in 0..100_000 {
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            let access = (Access { first: place >> 30, blocks: 1 }, Duration::ZERO);
            let budget = Arc::clone(&reader.budget);
            reader.streams.note(access, (&pace, 1), || Lead::new(&budget), &mut out);
        }
        assert!(out.is_empty(), "{} pieces", out.len());
    }

    #[test]
    fn without_room_nothing_is_asked_for() {
        let mut reader = Reader::new(3);
        let requested: Vec<u64> = (0..20).flat_map(|at| reader.read(at, 1)).collect();
        assert!(!requested.is_empty());
        let mut reader = Reader::new(1);
        let requested: Vec<u64> = (0..20).flat_map(|at| reader.read(at, 1)).collect();
        assert_eq!(requested, [0; 0]);
    }

    /// The reader of a stream that nothing is read ahead of waits.
    fn wait(barren: Option<&Lead>) {
        let barren = barren.expect("nothing was gained");
        (0..2).for_each(|_| barren.has_read(true));
    }

    #[test]
    fn a_stream_in_memory_is_left_alone_until_its_reader_waits() {
        let mut reader = Reader::new(1 << 20);
        let budget = Arc::clone(&reader.budget);
        let (mut pieces, mut barren) = (0, None);
        for first in 0..900 {
            let access = (Access { first, blocks: 1 }, Duration::ZERO);
            let mut out = Vec::new();
            let noted = reader.streams.note(access, (&PACE, 1), || Lead::new(&budget), &mut out);
            // Nothing had to be read.
            pieces += out.len();
            barren = noted.barren;
            if first == 500 {
                wait(barren.as_deref());
            }
        }
        assert_eq!(pieces, 3, "two, and one when its reader had waited");
        assert_eq!(budget.stats().held_bytes, 0);
        wait(barren.as_deref());
        let requested: Vec<u64> = (900..990).flat_map(|at| reader.read(at, 1)).collect();
        assert!(requested.len() > 80, "what is not in memory is read ahead again");
    }

    #[test]
    fn the_stream_that_was_seen_longest_ago_makes_room() {
        let mut reader = Reader::new(1 << 20);
        for n in 0..=STREAMS_MAX as u64 {
            reader.read(n * n * 10, 1);
            assert!(!reader.read(n * n * 10 + 1, 1).is_empty());
        }
        assert_eq!(reader.streams.streams.len(), STREAMS_MAX);
        assert!(reader.streams.streams.iter().all(|s| s.at.first > 10));
        reader.streams.end_older(Duration::from_secs(1));
        assert!(reader.streams.streams.is_empty());
    }
}
