//! How much may be written before it is known what it takes.
//!
//! # Theory
//!
//! What a txg will take on the devices is known when it is synced, and then it is too late to
//! refuse: a sync that finds no space ends the engine. So a transaction is let in only when what is
//! *in flight* would find room at its worst. In flight is what live transactions may still make
//! dirty ([`Hold::bytes`](dmu::Hold), until each ends) and what is dirty in txgs that are not
//! durable. When the txg is durable, what it really took is in the figures, which is mostly far
//! less. So what does not fit waits for the txgs in flight, and is refused when nothing is in
//! flight any more, nothing that was freed waits for its txgs, and nothing is being destroyed. The
//! waiting is done in `transactions.rs`.
//!
//! The worst case counts the copies, the parity and padding of small blocks, and the metadata above
//! a block, which is large for small blocks ([`worst_of`]). It is asked of the whole pool, for all
//! heads together; each head is asked for its reservations and quota beside that, by what is in
//! flight in it alone. A quota does not protect the pool, so as in OpenZFS it refuses nothing
//! before it is reached: a transaction is let in as long as what is used and in flight is below it,
//! and exceeds it by its own size at most.
//!
//! Freeing needs space too: new versions of the metadata that points to what goes. It may use half
//! of the reserve; beyond that it still goes on, but a little per txg, so that what a txg takes
//! before the frees of older ones come back is small. The other half is for the sync itself: space
//! maps, the MOS, gang headers.

use dmu::SpaceUse;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Txgs alive at once, rounded up to a power of two.
const SLOTS: usize = 4;

/// Records above this size are written as a whole for a change of one byte of theirs, which holds
/// do not count.
const LARGE_RECORD: u64 = 1 << 20;

/// Bytes in flight, in one head or in the pool.
#[derive(Default)]
pub(super) struct InFlight {
    /// Promised to transactions that live.
    live: AtomicU64,
    /// Dirty, by txg.
    dirty: [AtomicU64; SLOTS],
}

impl InFlight {
    fn slot(&self, txg: u64) -> &AtomicU64 {
        &self.dirty[(txg % SLOTS as u64) as usize]
    }

    /// Promises `bytes` when they fit into `room` beside all that is in flight. Many may try at
    /// once, and as long as there is room for one of them one succeeds.
    fn promise_within(&self, bytes: u64, room: u64) -> bool {
        let more = |live: u64| {
            let dirty = self.dirty.iter().map(|d| d.load(Relaxed));
            let all = dirty.fold(live, u64::saturating_add).saturating_add(bytes);
            (all <= room).then(|| live.saturating_add(bytes))
        };
        self.live.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Promises `bytes` when all that is in flight is less than `room`: it may exceed it by them.
    fn promise_below(&self, bytes: u64, room: u64) -> bool {
        room > 0 && self.promise_within(bytes, (room - 1).saturating_add(bytes))
    }

    fn promise(&self, bytes: u64) {
        self.live.fetch_add(bytes, Relaxed);
    }

    fn take_back(&self, bytes: u64) {
        self.live.fetch_sub(bytes, Relaxed);
    }

    fn synced(&self, txg: u64) {
        self.slot(txg).store(0, Relaxed);
    }
}

/// Bytes that a pool has left beside its reserve.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolRoom {
    /// For what uses space.
    pub(super) for_writing: u64,
    /// For what frees it.
    pub(super) for_freeing: u64,
    /// Freed, and not yet in the two above.
    pub(super) deferred: u64,
}

/// Bytes that a head may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadRoom {
    /// Now.
    pub(super) now: u64,
    /// When what was freed is free.
    pub(super) later: u64,
    /// What limits it is a quota.
    pub(super) is_quota: bool,
}

/// How a transaction that wants room fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoomCheck {
    /// There is room.
    Now,
    /// There may be, when others are done.
    Later,
    /// There is none, even alone.
    Never,
}

/// Space of the pool, as of the last synced txg.
#[derive(Default)]
pub(super) struct Budget {
    in_flight: InFlight,
    /// For what uses space.
    for_writing: AtomicU64,
    /// For what frees it.
    for_freeing: AtomicU64,
    /// Freed, and free after a txg or two.
    deferred: AtomicU64,
}

impl Budget {
    /// `txg` is durable; this is what is left.
    pub(super) fn synced(&self, txg: u64, room: PoolRoom) {
        self.for_writing.store(room.for_writing, Relaxed);
        self.for_freeing.store(room.for_freeing, Relaxed);
        self.deferred.store(room.deferred, Relaxed);
        self.in_flight.synced(txg);
    }

    /// `txg` had nothing that is still to be written.
    pub(super) fn mark_clean(&self, txg: u64) {
        self.in_flight.synced(txg);
    }

    /// Promises a block of a log this many bytes, if there is room.
    pub(super) fn promise_log(&self, worst: u64) -> bool {
        self.in_flight.promise_within(worst, self.for_writing())
    }

    /// The block was allocated in `txg`.
    pub(super) fn log_took(&self, worst: u64, txg: u64) {
        self.in_flight.slot(txg).fetch_add(worst, Relaxed);
        self.in_flight.take_back(worst);
    }

    /// It was not.
    pub(super) fn log_did_not(&self, worst: u64) {
        self.in_flight.take_back(worst);
    }

    /// Bytes for what uses space, as of the last synced txg.
    pub(super) fn for_writing(&self) -> u64 {
        self.for_writing.load(Relaxed)
    }
}

/// What decides how much a head's blocks take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    /// Copies of its data.
    pub(super) copies: u64,
    /// Bytes of its records.
    pub(super) record: u64,
    /// Bytes that one copy of a record takes on the worst vdev.
    pub(super) stored: u64,
}

impl Weight {
    /// Bytes that a transaction may take that holds this many.
    fn of_hold(&self, bytes: u64) -> u64 {
        let record = self.record.max(512);
        let blocks = bytes.div_ceil(record);
        let data = blocks.saturating_mul(self.stored.max(record));
        let whole = if record > LARGE_RECORD { self.stored } else { 0 };
        data.saturating_add(whole).saturating_mul(self.copies.max(1)).saturating_add(bytes / 4)
    }

    /// Bytes that a dirty block may take, with what is above it.
    fn of_block(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(worst_of(bytes)).saturating_mul(self.copies.max(1))
    }
}

/// How many times its bytes a dirty block may take. One of a sector is padded, has up to three of
/// parity, and brings a block of dnodes or pointers with it; the larger a block is, the less of all
/// that counts.
fn worst_of(bytes: u64) -> u64 {
    match bytes {
        0..=4096 => 24,
        4097..=32768 => 6,
        _ => 2,
    }
}

/// What a head has in flight, and what it may use.
pub(super) struct HeadSpace {
    gone: AtomicBool,
    in_flight: InFlight,
    /// A [`HeadRoom`].
    now: AtomicU64,
    later: AtomicU64,
    is_quota: AtomicBool,
    weight: Mutex<Weight>,
}

impl HeadSpace {
    pub(super) fn new() -> Self {
        Self {
            gone: AtomicBool::new(false),
            in_flight: InFlight::default(),
            now: AtomicU64::new(u64::MAX),
            later: AtomicU64::new(u64::MAX),
            is_quota: AtomicBool::new(false),
            weight: Mutex::default(),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// No transaction gets in any more.
    pub(super) fn close(&self) {
        self.gone.store(true, Relaxed);
    }

    pub(super) fn set_weight(&self, weight: Weight) {
        *self.weight.lock() = weight;
    }

    /// `txg` is durable; this is what the head may still use.
    pub(super) fn synced(&self, txg: u64, room: HeadRoom) {
        self.set_room(room);
        self.in_flight.synced(txg);
    }

    pub(super) fn set_room(&self, room: HeadRoom) {
        self.now.store(room.now, Relaxed);
        self.later.store(room.later, Relaxed);
        self.is_quota.store(room.is_quota, Relaxed);
    }

    /// Bytes that a transaction may take that holds this many.
    pub(super) fn worst_of_hold(&self, bytes: u64) -> u64 {
        self.weight.lock().of_hold(bytes)
    }

    /// A block of this many bytes is dirty in `txg`.
    pub(super) fn dirtied(&self, pool: &Budget, txg: u64, bytes: u64) {
        let worst = self.weight.lock().of_block(bytes);
        self.in_flight.slot(txg).fetch_add(bytes, Relaxed);
        pool.in_flight.slot(txg).fetch_add(worst, Relaxed);
    }

    /// Blocks that take this many bytes, and are there already, are put into the head in `txg`.
    pub(super) fn shares(&self, txg: u64, bytes: u64) {
        self.in_flight.slot(txg).fetch_add(bytes, Relaxed);
    }

    /// What was lacking for a promise of `worst` bytes.
    pub(super) fn lack(&self, pool: &Budget, worst: u64) -> dmu::ErrorKind {
        match self.is_quota.load(Relaxed) && worst <= pool.for_writing() {
            true => dmu::ErrorKind::Quota,
            false => dmu::ErrorKind::NoSpace,
        }
    }

    /// Promises `bytes`, at worst `worst`, if there is room.
    pub(super) fn promise(
        &self,
        pool: &Budget,
        bytes: u64,
        worst: u64,
        space: SpaceUse,
    ) -> RoomCheck {
        match space {
            SpaceUse::Always => pool.in_flight.promise(worst),
            SpaceUse::Free => {
                let room = pool.for_freeing.load(Relaxed);
                if !pool.in_flight.promise_within(worst, room) {
                    return RoomCheck::Later;
                }
            }
            SpaceUse::Write | SpaceUse::Optional => {
                // What is above it matters to no other thread.
                let above = (bytes / 4).saturating_add(64 << 10);
                let (in_pool, here) = (pool.for_writing(), self.now.load(Relaxed));
                let in_pool_later = in_pool.saturating_add(pool.deferred.load(Relaxed));
                let is_quota = self.is_quota.load(Relaxed);
                let alone = if is_quota { 1 } else { bytes.saturating_add(above) };
                if worst > in_pool_later || alone > self.later.load(Relaxed) {
                    return RoomCheck::Never;
                }
                if !pool.in_flight.promise_within(worst, in_pool) {
                    return RoomCheck::Later;
                }
                let fits = match is_quota {
                    true => self.in_flight.promise_below(bytes, here),
                    false => here
                        .checked_sub(above)
                        .is_some_and(|room| self.in_flight.promise_within(bytes, room)),
                };
                if !fits {
                    pool.in_flight.take_back(worst);
                    return RoomCheck::Later;
                }
                return RoomCheck::Now;
            }
        }
        self.in_flight.promise(bytes);
        RoomCheck::Now
    }

    /// Promises them, room or not.
    pub(super) fn promise_anyway(&self, pool: &Budget, bytes: u64, worst: u64) {
        self.promise(pool, bytes, worst, SpaceUse::Always);
    }

    /// What was promised is used, or not wanted any more.
    pub(super) fn take_back(&self, pool: &Budget, bytes: u64, worst: u64) {
        self.in_flight.take_back(bytes);
        pool.in_flight.take_back(worst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_weigh_more() {
        let one = Weight { copies: 1, record: 128 << 10, stored: 128 << 10 };
        assert_eq!(one.of_block(128 << 10), 256 << 10);
        assert_eq!(one.of_block(512), 12 << 10);
        assert_eq!(one.of_hold(1), 128 << 10);
        let three = Weight { copies: 3, record: 512, stored: 9362 };
        assert_eq!(three.of_hold(1024), 3 * 2 * 9362 + 256);
        // A change of one byte writes the record.
        let large = Weight { copies: 1, record: 16 << 20, stored: 16 << 20 };
        assert!(large.of_hold(1) >= 16 << 20);
    }
    #[test]
    fn who_would_fit_alone_waits_and_who_would_not_is_refused() {
        let pool = Budget::default();
        pool.synced(0, PoolRoom { for_writing: 1000, for_freeing: 1500, deferred: 500 });
        let space = HeadSpace::new();
        let fits = |worst| {
            let fit = space.promise(&pool, 10, worst, SpaceUse::Write);
            if fit == RoomCheck::Now {
                space.take_back(&pool, 10, worst);
            }
            fit
        };
        pool.in_flight.promise(300);
        assert_eq!((fits(700), fits(701)), (RoomCheck::Now, RoomCheck::Later));
        assert_eq!((fits(1500), fits(1501)), (RoomCheck::Later, RoomCheck::Never));
        // A quota is not waited for.
        let room = (10 + 10 / 4) + (64 << 10);
        space.set_room(HeadRoom { now: room - 1, later: room - 1, is_quota: false });
        assert_eq!(fits(1), RoomCheck::Never);
        space.set_room(HeadRoom { now: room - 1, later: room, is_quota: false });
        assert_eq!(fits(1), RoomCheck::Later);
        // It is reached by the transaction that exceeds it.
        space.set_room(HeadRoom { now: 15, later: 15, is_quota: true });
        assert_eq!(space.promise(&pool, 10, 1, SpaceUse::Write), RoomCheck::Now);
        assert_eq!(space.promise(&pool, 10, 1, SpaceUse::Write), RoomCheck::Now);
        assert_eq!(space.promise(&pool, 10, 1, SpaceUse::Write), RoomCheck::Later);
        space.set_room(HeadRoom { now: 0, later: 0, is_quota: true });
        assert_eq!(space.promise(&pool, 10, 1, SpaceUse::Write), RoomCheck::Never);
        space.take_back(&pool, 20, 2);
        assert_eq!(space.promise(&pool, 10, 1201, SpaceUse::Free), RoomCheck::Later);
        assert_eq!(space.promise(&pool, 10, 1 << 40, SpaceUse::Always), RoomCheck::Now);
        assert_eq!(pool.in_flight.live.load(Relaxed), (1 << 40) + 300);
    }
}
