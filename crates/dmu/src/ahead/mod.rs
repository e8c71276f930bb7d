//! Reading ahead: blocks that a reader will want are read before it asks.
//!
//! # Theory
//!
//! Every read of the contents of a file or volume is noted here. `streams` recognizes readers that
//! follow a pattern (forwards, backwards, at equal steps; several in one object) and returns the
//! blocks that come next. These go to threads of the store that read them into the block cache, in
//! pieces of [`PIECE_BYTES`], or larger ones ([`ReadAhead::set_piece`]).
//!
//! *A block is read once.* A piece claims its blocks among those that are being read (`flights`),
//! as every reader does. A reader that comes for one of them waits for it; when a reader was there
//! first, or the block is in the cache, the piece leaves it alone. A piece that is still in the
//! queue claims nothing, so a reader that overtakes it reads for itself.
//!
//! *The cost is bounded.* Blocks that wait for their reader, or are being read, take at most a
//! quarter of the cache ([`CACHE_PART`]), those of one stream at most the limit of
//! [`ReadAhead::set_max`] and half of that quarter. When there is no room, nothing is read ahead,
//! and streams whose readers were not seen for [`STALE`] end. Blocks that no reader used are
//! counted as wasted (`lead`). The block cache treats blocks that were read ahead like any other:
//! when the reader comes they are not hot, as if they had been read just then.
//!
//! *It is done where it gains something.* What is in the cache already, or in the memory of the
//! system, its reader gets as fast by itself, and on the same processor. A thread that reads a
//! piece sees that it waited for nothing, and that computing took little ([`gains`]). After two
//! such pieces nothing is read ahead of the stream. Its reader then looks at the clock before and
//! after each of its reads ([`ReadAhead::watch`]): when more than a few take long, one piece is
//! tried again. To try one every now and then would cost a thread each time. A single long read
//! says nothing: on a busy machine it is the thread that waited, for a processor. What the pieces
//! of a store gained last is how a new stream of it begins.
//!
//! *State.* Streams belong to objects, by the numbers of set and object, and not to what is open:
//! openers come and go, and several may read one object. Of [`OBJECTS_MAX`] objects at once, those
//! read last, in shards with a lock each; an object takes 2 KiB at most. Nothing is kept on behalf
//! of an object that is closed or destroyed: its entry is one that is not used any more.
//!
//! *Threads* exist as long as there are pieces in the queue: the first piece starts one, and each
//! ends when it finds the queue empty. So a pool that is idle has none of them, and nothing has to
//! be stopped but what is under way ([`ReadAhead::stop`]): a piece holds its object and with it the
//! devices, which the next that opens them wants for itself.
//!
//! *Errors* of blocks that were read ahead are dropped: the reader that wants the block reads it
//! again, and finds them.
//!
//! Lock order: a shard, the state of a lead. The queue's lock is held with no other one.

mod lead;
mod streams;

pub(crate) use lead::Lead;
pub use lead::{AheadStats, Room};
pub(crate) use streams::{Access, Piece};

use lead::Budget;
use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use streams::{AheadLimits, Streams};

/// Objects whose readers are followed, at most.
const OBJECTS_MAX: usize = 256;
const SHARDS: usize = 16;
/// Blocks that were read ahead and not yet used take at most one in this many bytes of the cache.
const CACHE_PART: usize = 4;
/// Bytes that one thread reads at a time. Large enough to start a thread for, small enough that a
/// reader does not wait long for the first of its blocks.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes that a new stream is ahead.
const START_BYTES: u64 = 256 << 10;
/// Threads of a store. They wait more than they compute: enough to keep devices at work while
/// others are verified.
const THREADS_MAX: usize = 4;
/// Streams whose readers were not seen for this time end when others want room.
const STALE: Duration = Duration::from_secs(2);

/// Bytes per second that a reader verifies and copies at the least, when it waits for no device and
/// has nothing to decompress or decrypt. To hand a block of 128 KiB from thread to thread, and from
/// the cache of one processor to another, takes a third of the time that this rate does.
const QUICK_BYTES_PER_S: u64 = 3 << 30;
/// What a block takes in addition, however small it is: to be looked up, allocated and cached.
const QUICK_BLOCK: Duration = Duration::from_micros(4);

/// The properties of an object that count here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of a block.
    pub(crate) block_bytes: u64,
    /// Blocks up to the last one.
    pub(crate) blocks: u64,
}

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Work>,
    /// Threads that there are.
    running: usize,
    stopped: bool,
}

struct Threads {
    rt: Rt,
    queue: Mutex<Queue>,
    /// A thread has ended.
    ended: Condvar,
}

struct Entry {
    /// Set and object.
    id: (u64, u64),
    turn: u64,
    streams: Streams,
}

#[derive(Default)]
struct Shard {
    entries: Vec<Entry>,
    turn: u64,
}

/// Reads ahead for the readers of one store.
pub struct ReadAhead {
    threads: Arc<Threads>,
    shards: [Mutex<Shard>; SHARDS],
    budget: Arc<Budget>,
    /// Bytes that one stream may be ahead; 0: nothing is read ahead.
    max_bytes: AtomicU64,
    /// Bytes that one thread reads at a time.
    piece_bytes: AtomicU64,
    /// Larger blocks are not cached.
    block_max: u64,
}

impl ReadAhead {
    /// For a cache of `cache_bytes`, which takes blocks of at most `block_max`. Nothing is read
    /// ahead before [`Self::set_max`].
    pub(crate) fn new(rt: &Rt, cache_bytes: usize, block_max: usize) -> Self {
        let threads = Threads { rt: rt.clone(), queue: Mutex::default(), ended: rt.condvar() };
        Self {
            threads: Arc::new(threads),
            shards: Default::default(),
            budget: Arc::new(Budget::new((cache_bytes / CACHE_PART) as u64)),
            max_bytes: AtomicU64::new(0),
            piece_bytes: AtomicU64::new(PIECE_BYTES),
            block_max: block_max as u64,
        }
    }

    /// From now on at most `bytes` are read ahead of one reader; 0: nothing is
    /// read ahead.
    pub fn set_max(&self, bytes: u64) {
        self.max_bytes.store(bytes, Ordering::Relaxed);
    }

    /// From now on one thread reads `bytes` at a time: more than usual where each request to
    /// the device has a price.
    pub fn set_piece(&self, bytes: u64) {
        self.piece_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Statistics of the read-ahead.
    #[must_use]
    pub fn stats(&self) -> AheadStats {
        self.budget.stats()
    }

    /// Blocks of object `id` (set and number) are about to be read. Returns what is to be read
    /// ahead of that, and the stream that they belong to when nothing is read ahead of it because
    /// that gains nothing: then the read is to be [watched](Self::watch).
    pub(crate) fn note(
        &self,
        id: (u64, u64),
        access: Access,
        shape: Shape,
    ) -> (Vec<Piece>, Option<Arc<Lead>>) {
        let mut out = Vec::new();
        let bytes = self.max_bytes.load(Ordering::Relaxed).min(self.budget.cap_bytes / 2);
        let block = shape.block_bytes;
        let is_whole = access.blocks >= shape.blocks;
        if block == 0 || block > self.block_max.min(bytes) || access.blocks == 0 || is_whole {
            return (out, None);
        }
        let max = bytes / block;
        let start = (START_BYTES / block).max(1).min(max);
        let piece = (self.piece_bytes.load(Ordering::Relaxed) / block).max(1);
        let pace = AheadLimits { start, max, piece, end: shape.blocks };
        let now = self.threads.rt.now();
        let noted = {
            let mut shard = self.shard(id).lock();
            let streams = shard.streams(id);
            streams.note((access, now), (&pace, block), || Lead::new(&self.budget), &mut out)
        };
        if noted.lacks_room {
            self.end_older(now.saturating_sub(STALE));
        }
        (out, noted.barren)
    }

    /// A reader's own read of blocks of a stream that nothing is read ahead of.
    pub(crate) fn watch<T>(
        &self,
        barren: &Lead,
        (blocks, bytes): (u64, u64),
        read: impl FnOnce() -> T,
    ) -> T {
        let began = self.threads.rt.now();
        let out = read();
        let took = self.threads.rt.now().saturating_sub(began);
        barren.has_read(takes_long(took, blocks, bytes));
        out
    }

    /// The time at which the calling thread begins to read a piece.
    pub(crate) fn begin(&self) -> Begun {
        let rt = &self.threads.rt;
        Begun { now: rt.now(), cpu: rt.thread_cpu() }
    }

    /// Whether it was worth another thread to read these blocks since then. In a simulation always:
    /// its threads take no processor time that could be compared. And always where a request has a
    /// price, which many blocks share.
    pub(crate) fn has_gained(&self, begun: &Begun, blocks: u64, bytes: u64) -> bool {
        if self.piece_bytes.load(Ordering::Relaxed) > PIECE_BYTES {
            return true;
        }
        let took = self.threads.rt.now().saturating_sub(begun.now);
        let cpu = self.threads.rt.thread_cpu().zip(begun.cpu);
        cpu.is_none_or(|(now, then)| gains((took, now.saturating_sub(then)), blocks, bytes))
    }

    fn shard(&self, (set, object): (u64, u64)) -> &Mutex<Shard> {
        let mixed = (set ^ object.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 60) as usize % SHARDS]
    }

    fn end_older(&self, time: Duration) {
        for shard in &self.shards {
            shard.lock().entries.iter_mut().for_each(|e| e.streams.end_older(time));
        }
    }

    /// Has a piece read by one of the threads. Without a thread, or after [`Self::stop`], it is not
    /// read.
    pub(crate) fn send(&self, piece: Work) {
        {
            let mut queue = self.threads.queue.lock();
            if queue.stopped {
                return;
            }
            queue.pieces.push_back(piece);
            if queue.running >= THREADS_MAX {
                return;
            }
            queue.running += 1;
        }
        let threads = Arc::clone(&self.threads);
        if self.threads.rt.spawn("read_ahead", move || threads.run()).is_err() {
            let mut queue = self.threads.queue.lock();
            queue.running -= 1;
            let left = if queue.running == 0 {
                std::mem::take(&mut queue.pieces)
            } else {
                VecDeque::new()
            };
            drop(queue);
            drop(left);
        }
    }

    /// Nothing is read ahead any more; waits until nothing is. In a simulation, which may be over,
    /// it does not wait.
    pub fn stop(&self) {
        let left = {
            let mut queue = self.threads.queue.lock();
            queue.stopped = true;
            std::mem::take(&mut queue.pieces)
        };
        // Not under the lock: the last holder of an object may be its piece.
        drop(left);
        if self.threads.rt.is_simulated() {
            return;
        }
        let mut queue = self.threads.queue.lock();
        while queue.running > 0 {
            self.threads.ended.wait(&mut queue);
        }
    }
}

/// When a thread began to read a piece.
pub(crate) struct Begun {
    now: Duration,
    cpu: Option<Duration>,
}

/// Whether a thread that took `took` for these blocks, `cpu` of it computing, saved their reader
/// some time: it waited, or had more to compute than a copy and a fast checksum.
fn gains((took, cpu): (Duration, Duration), blocks: u64, bytes: u64) -> bool {
    let has_waited = cpu < took * 7 / 8;
    has_waited || takes_long(took, blocks, bytes)
}

/// Whether to read these blocks took longer than to look them up, verify and copy them.
fn takes_long(took: Duration, blocks: u64, bytes: u64) -> bool {
    let copying = u128::from(bytes) * 1_000_000_000 / u128::from(QUICK_BYTES_PER_S);
    took.as_nanos() > QUICK_BLOCK.as_nanos() * u128::from(blocks) + copying
}

impl Shard {
    fn streams(&mut self, id: (u64, u64)) -> &mut Streams {
        self.turn += 1;
        let turn = self.turn;
        let at = match self.entries.iter().position(|e| e.id == id) {
            Some(at) => at,
            None => {
                if self.entries.len() == OBJECTS_MAX / SHARDS {
                    let oldest = self.entries.iter().enumerate().min_by_key(|(_, e)| e.turn);
                    let oldest = oldest.map_or(0, |(at, _)| at);
                    self.entries.swap_remove(oldest);
                }
                self.entries.push(Entry { id, turn, streams: Streams::default() });
                self.entries.len() - 1
            }
        };
        self.entries[at].turn = turn;
        &mut self.entries[at].streams
    }
}

/// A thread of the queue; dropped by a panic, it is one less.
struct Running<'a>(&'a Threads);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().running -= 1;
        self.0.ended.notify_all();
    }
}

impl Threads {
    fn run(&self) {
        let running = Running(self);
        loop {
            let mut queue = self.queue.lock();
            let Some(piece) = queue.pieces.pop_front() else {
                // Under the same lock: a piece that comes now starts a thread of its own.
                queue.running -= 1;
                drop(queue);
                self.ended.notify_all();
                std::mem::forget(running);
                return;
            };
            drop(queue);
            piece();
        }
    }
}

/// Stops reading ahead when it is dropped: what opened a store keeps it.
pub struct ReadAheadStopper(Arc<ReadAhead>);

impl ReadAheadStopper {
    /// For this store's readers.
    #[must_use]
    pub fn new(ahead: &Arc<ReadAhead>) -> Self {
        Self(Arc::clone(ahead))
    }
}

impl Drop for ReadAheadStopper {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_waits_or_computes_is_worth_a_thread() {
        let us = Duration::from_micros;
        // From memory, at 6 GB/s.
        assert!(!gains((us(43), us(42)), 2, 256 << 10));
        assert!(!gains((us(12), us(12)), 2, 16 << 10));
        // The same from a fast disk.
        assert!(gains((us(75), us(45)), 2, 256 << 10));
        // SHA-256, or decompression.
        assert!(gains((us(130), us(129)), 2, 256 << 10));
    }
}
