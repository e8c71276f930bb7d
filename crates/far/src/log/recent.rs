//! What is being read of segments, and was lately, in memory, with what lies around it.
//!
//! What a txg wrote lies together in the log. So a small read brings its part of the object: what
//! opens a pool follows pointers from one small block to the next, each an answer to wait for, and
//! many of the next ones need not be asked for. And many reads that come together, as of a reader
//! in order or a scrub, bring whole objects: what is left of one the next of them want, and blocks
//! that were written out of order as well. So each object is asked for once, whatever the places
//! at which reads begin and end. Segments never change, so nothing here ever becomes wrong.
//!
//! *Readers at random places pay little for it.* Bytes that no reader asked for are paid from a
//! credit. What is found here earns as much as it has bytes, and what is read as it was asked for a
//! little. So what is read in vain is at most [`CREDIT`], and one byte in [`SHARE`].
//!
//! *And little memory.* What gives way first is an object of which all was used; each is forgotten
//! after a short time ([`USED`]), also because a scrub wants to know what the store has.

use super::cache::{Answer, LINE};
use crate::store::Response;
use core::time::Duration;
use parking_lot::Mutex;
use rt::Rt;
use std::collections::VecDeque;
use std::sync::Arc;

/// A read of this many bytes at most brings its part of an object of this length, or both that it
/// touches; whole lines of a cache. Blocks of the pool itself, and indirect blocks, of which one
/// with pointers to small blocks is larger.
const PARTS: [(u64, u64); 2] = [(32 << 10, 2 * LINE), (128 << 10, 8 * LINE)];
/// Bytes that are asked for together bring whole objects from this number on.
pub(super) const MANY: u64 = 512 << 10;
/// Bytes that are kept at most, but for what was read last: three objects.
const KEPT: u64 = 48 << 20;
/// How long they are used.
pub(super) const USED: Duration = Duration::from_secs(30);
/// Bytes that may be read before any was of use.
const CREDIT: u64 = 64 << 20;
/// An answer that took longer came over a slow line, which has no room for what is not wanted.
const SLOW: Duration = Duration::from_secs(8);
/// Bytes that are read as they were asked for, for one that may be read in addition.
const SHARE: u64 = 16;

/// What is here of a range.
pub(super) enum Found<W> {
    /// An answer that has it, and where that begins.
    Here(W, u64, Answer),
    /// It is being read: what waits for it is returned when that [has arrived](Recent::arrived).
    UnderWay,
    /// Nothing.
    Nothing(W),
}

/// The payload of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) from: u64,
    pub(super) end: u64,
    /// Bytes of it that are alive.
    pub(super) live: u64,
}

/// A larger range that is to be read in place of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widened {
    /// To be given back when the answer is there.
    pub(super) id: u64,
    pub(super) from: u64,
    pub(super) end: u64,
}

/// See the head of the file. `W` waits for bytes.
pub(super) struct Recent<W> {
    rt: Rt,
    state: Mutex<State<W>>,
}

struct State<W> {
    parts: VecDeque<Part<W>>,
    credit: u64,
    /// Of the next part.
    id: u64,
    /// Nothing is read any more.
    is_over: bool,
}

/// Bytes of a segment.
struct Part<W> {
    id: u64,
    seq: u64,
    from: u64,
    end: u64,
    /// Bytes that no reader has used.
    left: u64,
    content: Content<W>,
}

enum Content<W> {
    /// It is being read since then, and these wait for it.
    UnderWay(Duration, Vec<W>),
    /// It is here since then.
    Here(Duration, Answer),
}

impl<W> Part<W> {
    fn kept(&self) -> u64 {
        match self.content {
            Content::UnderWay(..) => 0,
            Content::Here(..) => self.end - self.from,
        }
    }
}

impl<W> State<W> {
    fn earn(&mut self, bytes: u64) {
        self.credit = (self.credit + bytes).min(CREDIT);
    }

    fn forget_old(&mut self, now: Duration) {
        let oldest = now.saturating_sub(USED);
        self.parts.retain(|part| match part.content {
            Content::UnderWay(..) => true,
            Content::Here(since, _) => since >= oldest,
        });
    }
}

impl<W> Recent<W> {
    pub(super) fn new(rt: &Rt) -> Self {
        let state = State { parts: VecDeque::new(), credit: CREDIT, id: 0, is_over: false };
        Self { rt: rt.clone(), state: Mutex::new(state) }
    }

    /// Looks for bytes of a segment, for `waiting`.
    pub(super) fn find(&self, seq: u64, (from, end): (u64, u64), waiting: W) -> Found<W> {
        let mut state = self.state.lock();
        state.forget_old(self.rt.now());
        let has = |p: &&mut Part<W>| p.seq == seq && p.from <= from && end <= p.end;
        let Some(part) = state.parts.iter_mut().find(has) else { return Found::Nothing(waiting) };
        part.left = part.left.saturating_sub(end - from);
        let found = match &mut part.content {
            Content::Here(_, answer) => Found::Here(waiting, part.from, Arc::clone(answer)),
            Content::UnderWay(_, all) => {
                all.push(waiting);
                Found::UnderWay
            }
        };
        state.earn(end - from);
        found
    }

    /// What to read in place of a range, which is not here: all of its object, if that is given, or
    /// its part. `None`: the range alone. `used` bytes of it are used at once.
    pub(super) fn widen(
        &self,
        (seq, used): (u64, u64),
        (from, end): (u64, u64),
        object: Option<Whole>,
    ) -> Option<Widened> {
        let wanted = end - from;
        let (first, last) = match object {
            Some(whole) => (from.min(whole.from), end.max(whole.end)),
            None => (from, end),
        };
        let part = PARTS.iter().find(|(most, _)| wanted <= *most).map(|(_, part)| *part);
        let part = if object.is_some() { Some(LINE) } else { part };
        let mut state = self.state.lock();
        let wider = part.map(|part| (first / part * part, last.next_multiple_of(part)));
        let affordable =
            wider.filter(|(first, last)| last - first - wanted <= state.credit && !state.is_over);
        let Some((first, last)) = affordable else {
            state.earn(wanted / SHARE);
            return None;
        };
        state.credit -= last - first - wanted;
        let id = state.id;
        state.id += 1;
        let left = object.map_or(last - first, |whole| whole.live).saturating_sub(used);
        let content = Content::UnderWay(self.rt.now(), Vec::new());
        state.parts.push_back(Part { id, seq, from: first, end: last, left, content });
        Some(Widened { id, from: first, end: last })
    }

    /// The answer for a larger range is there; what waited for it.
    pub(super) fn arrived(&self, id: u64, answer: &Answer) -> Vec<W> {
        let mut state = self.state.lock();
        let at = state.parts.iter().position(|part| part.id == id);
        let Some(mut part) = at.and_then(|at| state.parts.remove(at)) else { return Vec::new() };
        let now = self.rt.now();
        let content = Content::Here(now, Arc::clone(answer));
        let Content::UnderWay(sent, waiting) = core::mem::replace(&mut part.content, content)
        else {
            return Vec::new();
        };
        if now.saturating_sub(sent) > SLOW {
            state.credit = 0;
        }
        let Ok(Response::Bytes(bytes)) = &**answer else { return waiting };
        // An object may end before its last part does.
        part.end = part.end.min(part.from + bytes.len() as u64);
        state.parts.push_back(part);
        while state.parts.iter().map(Part::kept).sum::<u64>() > KEPT {
            let others = || state.parts.iter().filter(|part| part.kept() > 0 && part.id != id);
            let first = others().find(|part| part.left == 0).or_else(|| others().next());
            let Some(first) = first.map(|part| part.id) else { break };
            state.parts.retain(|part| part.id != first);
        }
        waiting
    }

    /// Forgets what was not used for long; whether there is more, which has to be forgotten later.
    pub(super) fn forget_old(&self) -> bool {
        let mut state = self.state.lock();
        state.forget_old(self.rt.now());
        !state.parts.is_empty()
    }

    /// Forgets everything, for good; returns what waited for what will not come.
    pub(super) fn end(&self) -> Vec<W> {
        let parts = {
            let mut state = self.state.lock();
            state.is_over = true;
            core::mem::take(&mut state.parts)
        };
        let waiting = parts.into_iter().map(|part| match part.content {
            Content::UnderWay(_, waiting) => waiting,
            Content::Here(..) => Vec::new(),
        });
        waiting.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;

    const PART: u64 = 2 * LINE;

    fn bytes(count: u64) -> Answer {
        Arc::new(Ok(Response::Bytes(vec![1; count as usize])))
    }

    /// Whether a range is here.
    fn is_here(recent: &Recent<u8>, seq: u64, from: u64, len: u64) -> bool {
        matches!(recent.find(seq, (from, from + len), 0), Found::Here(..))
    }

    #[test]
    fn small_reads_bring_their_part() {
        Rt::simulate(1, |rt| {
            let recent = Recent::new(rt);
            assert_eq!(recent.widen((7, 1), (0, LINE + 1), None), None);
            let wide = recent.widen((6, 1), (LINE, 2 * LINE), None).unwrap();
            assert_eq!((wide.from, wide.end), (0, 8 * LINE));
            recent.arrived(wide.id, &bytes(8 * LINE));
            let wide = recent.widen((7, 1), (PART - 512, PART + 512), None).unwrap();
            assert_eq!((wide.from, wide.end), (0, 2 * PART));
            assert!(matches!(recent.find(7, (5, 6), 3), Found::UnderWay));
            assert!(matches!(recent.find(7, (5, 2 * PART + 1), 4), Found::Nothing(4)));
            // A segment that ends before the part does.
            assert_eq!(recent.arrived(wide.id, &bytes(PART + 1000)), [3]);
            assert!(is_here(&recent, 7, PART + 990, 10) && is_here(&recent, 7, 0, 10));
            assert!(!is_here(&recent, 7, PART + 991, 10) && !is_here(&recent, 8, PART, 10));
            rt.sleep(USED + Duration::from_secs(1));
            assert!(!recent.forget_old() && !is_here(&recent, 7, 0, 10));
            // What failed is not here.
            let wide = recent.widen((9, 1), (0, 1), None).unwrap();
            assert!(matches!(recent.find(9, (0, 1), 5), Found::UnderWay));
            assert_eq!(recent.arrived(wide.id, &Arc::new(Err(StoreError::Lost))), [5]);
            assert!(!is_here(&recent, 9, 0, 1));
            // A slow line is spared.
            let wide = recent.widen((9, 1), (0, 1), None).unwrap();
            rt.sleep(SLOW + Duration::from_secs(1));
            recent.arrived(wide.id, &bytes(PART));
            assert_eq!(recent.widen((9, 1), (PART, PART + 1), None), None);
        });
    }

    #[test]
    fn at_random_places_it_comes_to_an_end_and_begins_again_where_it_is_of_use() {
        Rt::simulate(1, |rt| {
            let recent = Recent::<u8>::new(rt);
            let object = Some(Whole { from: 4096, end: 16 << 20, live: 15 << 20 });
            let ask = |n| recent.widen((n, 1 << 20), (1 << 20, 2 << 20), object);
            let wide: Vec<Widened> = (0..1000).map_while(ask).collect();
            assert_eq!(wide.len() as u64, CREDIT / (15 << 20));
            // Of what is not used, little is read, and little is kept.
            let again = (0..1000).filter(|n| ask(*n).is_some()).count() as u64;
            assert!((1000 / SHARE / 16..=1000 / SHARE / 15).contains(&again), "{again}");
            wide.iter().for_each(|wide| drop(recent.arrived(wide.id, &bytes(16 << 20))));
            let kept = (0..wide.len() as u64).filter(|n| is_here(&recent, *n, 0, 1)).count() as u64;
            assert_eq!(kept, KEPT >> 24);
            // What is used earns what it took, and gives way first.
            let last = wide.len() as u64 - 1;
            for at in 2..16 {
                assert!(is_here(&recent, last, at << 20, 1 << 20), "{at}");
            }
            let next = ask(5000).unwrap();
            recent.arrived(next.id, &bytes(16 << 20));
            assert!(!is_here(&recent, last, 0, 1) && is_here(&recent, last - 1, 0, 1));
        });
    }
}
