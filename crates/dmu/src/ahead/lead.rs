//! Blocks that were read ahead of a reader, and whether the reader used them.
//!
//! Room is taken from the budget before a block is read ([`Lead::reserve`]), and given back when a
//! reader comes for the block, when the cache drops it, or when the stream ends. So the memory that
//! guesses can take is bounded at every moment, whatever the guesses are.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Pieces in a row that gained nothing, after which nothing is read ahead of a stream until its
/// reader has waited.
const BARREN: u32 = 2;
/// Pieces in a row, of all streams of a store, that came from devices as fast as their readers
/// would have read them, after which a new stream begins as one that gains nothing.
const STORE_QUICK: u32 = 4;
/// Of the reads of a stream that nothing is read ahead of, one in this many has to be slow: a
/// device makes all of them slow, and a thread that has to wait for a processor one in hundreds.
const SLOW_PART: u32 = 8;
/// Slow reads, less the quick ones between them by that part, after which a piece is tried again.
const SLOW_READS: u32 = 2;

/// Statistics of the read-ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadStats {
    /// Bytes of blocks that were read before a reader asked for them.
    pub read_bytes: u64,
    /// Of these, bytes of blocks that a reader came for.
    pub used_bytes: u64,
    /// Of these, bytes that were given up: they left the cache, or their reader went elsewhere.
    pub wasted_bytes: u64,
    /// Bytes that are waiting for a reader, or being read.
    pub held_bytes: u64,
}

/// Bytes that may be ahead of all readers of a store together.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) cap_bytes: u64,
    held: AtomicU64,
    read: AtomicU64,
    used: AtomicU64,
    wasted: AtomicU64,
    /// Pieces in a row that came as fast as their readers would have read them.
    quick: AtomicU32,
}

impl Budget {
    pub(super) fn new(cap_bytes: u64) -> Self {
        Self { cap_bytes, ..Self::default() }
    }

    pub(super) fn stats(&self) -> AheadStats {
        AheadStats {
            read_bytes: self.read.load(Relaxed),
            used_bytes: self.used.load(Relaxed),
            wasted_bytes: self.wasted.load(Relaxed),
            held_bytes: self.held.load(Relaxed),
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let fits = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.cap_bytes);
        self.held.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Relaxed);
    }
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that were reserved and are not read yet.
    reserved: u64,
    /// Bytes of blocks in the cache that no reader has come for.
    waiting: u64,
    /// Pieces in a row that gained nothing: all of it was in the cache, or came as fast as its
    /// reader would have read it.
    barren: u32,
    /// Whether that is found out again.
    trial: Trial,
    /// The stream is no more.
    ended: bool,
}

/// A piece that is read ahead of a stream of which it gained nothing so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trial {
    #[default]
    None,
    /// The next piece is one.
    Due,
    /// It is being read, and no other until it is known what it gained.
    UnderWay,
}

/// What a piece has gained its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gain {
    /// Nothing had to be read.
    Cached,
    /// Its reader could as well have read it.
    Quick,
    /// Time.
    Time,
}

/// The blocks that were read ahead of one stream. Those in the cache point to it.
#[derive(Debug)]
pub(crate) struct Lead {
    budget: Arc<Budget>,
    state: Mutex<State>,
    /// Slow reads of its reader, [`SLOW_PART`] for each, less one for each quick one since.
    slow: AtomicU32,
}

impl Lead {
    pub(super) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        let is_quick = budget.quick.load(Relaxed) >= STORE_QUICK;
        let barren = if is_quick { BARREN } else { 0 };
        let state = Mutex::new(State { barren, ..State::default() });
        Arc::new(Self { budget: Arc::clone(budget), state, slow: AtomicU32::new(0) })
    }

    /// Takes room for `bytes` of blocks; `None` when there is no room.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Room> {
        let mut state = self.state.lock();
        if state.ended || !self.budget.take(bytes) {
            return None;
        }
        state.reserved += bytes;
        if state.trial == Trial::Due {
            state.trial = Trial::UnderWay;
        }
        Some(Room { lead: Arc::clone(self), left: bytes, gain: Gain::Cached })
    }

    /// Reading ahead gained nothing lately, and it is not the time to try it again.
    pub(super) fn is_barren(&self) -> bool {
        let state = self.state.lock();
        match state.trial {
            Trial::None => state.barren >= BARREN,
            Trial::Due => false,
            Trial::UnderWay => true,
        }
    }

    /// Its reader has read where nothing was read ahead, and had to wait or not. When it waits
    /// often, one more piece shows whether reading ahead gains something by now.
    pub(super) fn has_read(&self, slowly: bool) {
        let slow = self.slow.load(Relaxed);
        let slow = if slowly { slow + SLOW_PART } else { slow.saturating_sub(1) };
        if slow < SLOW_READS * SLOW_PART {
            // Of readers at the same time one count may be lost.
            return self.slow.store(slow, Relaxed);
        }
        self.slow.store(0, Relaxed);
        let mut state = self.state.lock();
        if state.barren >= BARREN && state.trial == Trial::None {
            (state.barren, state.trial) = (BARREN - 1, Trial::Due);
        }
    }

    /// A reader has come for a block.
    pub(crate) fn used(&self, bytes: u64) {
        self.left(bytes, &self.budget.used);
    }

    /// A block left the cache before a reader came.
    pub(crate) fn dropped(&self, bytes: u64) {
        self.left(bytes, &self.budget.wasted);
    }

    fn left(&self, bytes: u64, fate: &AtomicU64) {
        let mut state = self.state.lock();
        // Of a stream that has ended everything was counted.
        if let Some(rest) = state.waiting.checked_sub(bytes) {
            state.waiting = rest;
            self.budget.give_back(bytes);
            fate.fetch_add(bytes, Relaxed);
        }
    }

    /// No reader follows the stream any more. Its blocks are blocks of the cache like any other.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let waiting = std::mem::take(&mut state.waiting);
        self.budget.give_back(waiting + std::mem::take(&mut state.reserved));
        self.budget.wasted.fetch_add(waiting, Relaxed);
    }
}

/// Room for blocks of one piece that are not read yet. Dropped, it gives back what is left.
#[derive(Debug)]
pub struct Room {
    lead: Arc<Lead>,
    left: u64,
    gain: Gain,
}

impl Room {
    /// A block of `bytes` bytes was read and goes into the cache. The lead is noted there, unless
    /// the stream has ended.
    pub(crate) fn fill(&mut self, bytes: u64) -> Option<Arc<Lead>> {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        self.gain = Gain::Time;
        let mut state = self.lead.state.lock();
        self.lead.budget.read.fetch_add(bytes, Relaxed);
        if state.ended {
            self.lead.budget.wasted.fetch_add(bytes, Relaxed);
            return None;
        }
        state.reserved -= bytes;
        state.waiting += bytes;
        Some(Arc::clone(&self.lead))
    }

    /// What was read came so fast that its reader could as well have read it.
    pub(crate) fn has_gained_nothing(&mut self) {
        if self.gain == Gain::Time {
            self.gain = Gain::Quick;
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut state = self.lead.state.lock();
        let quick = &self.lead.budget.quick;
        match self.gain {
            Gain::Time => quick.store(0, Relaxed),
            Gain::Quick => _ = quick.fetch_add(1, Relaxed),
            Gain::Cached => {}
        }
        let has_gained = self.gain == Gain::Time;
        state.barren = if has_gained { 0 } else { state.barren.saturating_add(1) };
        state.trial = Trial::None;
        if !state.ended {
            state.reserved -= self.left;
            self.lead.budget.give_back(self.left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(budget: &Budget) -> [u64; 4] {
        let s = budget.stats();
        [s.read_bytes, s.used_bytes, s.wasted_bytes, s.held_bytes]
    }

    #[test]
    fn every_byte_of_the_budget_comes_back() {
        let budget = Arc::new(Budget::new(100));
        let lead = Lead::new(&budget);
        let mut room = lead.reserve(60).expect("room");
        assert!(lead.reserve(41).is_none(), "no more than the budget");
        let filled = room.fill(30).expect("followed");
        filled.used(10);
        filled.dropped(15);
        assert_eq!(stats(&budget), [30, 10, 15, 35]);
        drop(room);
        assert_eq!(stats(&budget), [30, 10, 15, 5]);
        lead.end();
        assert_eq!(stats(&budget), [30, 10, 20, 0]);
        // Later calls change nothing.
        filled.used(5);
        assert_eq!(stats(&budget), [30, 10, 20, 0]);
        assert!(lead.reserve(1).is_none());
    }

    #[test]
    fn what_is_read_for_a_stream_that_ended_is_wasted() {
        let budget = Arc::new(Budget::new(100));
        let lead = Lead::new(&budget);
        let mut room = lead.reserve(60).expect("room");
        lead.end();
        assert!(room.fill(30).is_none());
        drop(room);
        assert_eq!(stats(&budget), [30, 0, 30, 0]);
    }

    #[test]
    fn a_stream_that_gains_nothing_is_noticed() {
        let lead = Lead::new(&Arc::new(Budget::new(100)));
        drop(lead.reserve(1));
        assert!(!lead.is_barren());
        let mut room = lead.reserve(1).expect("room");
        room.fill(1);
        room.has_gained_nothing();
        drop(room);
        assert!(lead.is_barren());
        lead.has_read(true);
        assert!(lead.is_barren(), "one slow read can be the thread that waited");
        lead.has_read(true);
        assert!(!lead.is_barren());
        let trial = lead.reserve(1);
        assert!(lead.is_barren(), "one piece at a time");
        drop(trial);
        assert!(lead.is_barren(), "one piece is enough to see it again");
        lead.reserve(1).expect("room").fill(1);
        drop(lead.reserve(1));
        assert!(!lead.is_barren());
    }

    #[test]
    fn a_thread_that_waits_for_a_processor_now_and_then_has_no_slow_device() {
        let lead = Lead::new(&Arc::new(Budget::new(100)));
        (0..BARREN).for_each(|_| drop(lead.reserve(1)));
        for n in 0..10_000 {
            lead.has_read(n % 100 == 0);
            assert!(lead.is_barren(), "{n}");
        }
        // Every sixth is slow: another program reads ahead of the reader, and not enough.
        let noticed = (0..200).position(|n| {
            lead.has_read(n % 6 == 0);
            !lead.is_barren()
        });
        assert!(noticed.is_some_and(|n| n < 30), "{noticed:?}");
    }

    #[test]
    fn new_streams_begin_as_the_last_ones_of_their_store_ended() {
        let budget = Arc::new(Budget::new(100));
        let piece = |is_quick: bool| {
            let lead = Lead::new(&budget);
            let was_barren = lead.is_barren();
            let mut room = lead.reserve(1).expect("room");
            room.fill(1).expect("followed").used(1);
            if is_quick {
                room.has_gained_nothing();
            }
            was_barren
        };
        assert_eq!([(); 6].map(|()| piece(true)), [false, false, false, false, true, true]);
        // What is cached says nothing of the devices.
        drop(Lead::new(&budget).reserve(1));
        assert!(piece(false));
        assert!(!piece(true));
    }
}
