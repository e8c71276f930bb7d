//! How much may be written before it is known what it takes.
//!
//! # Theory
//!
//! What a txg will take on the devices is known when it is synced, and then it is too late to
//! refuse: a sync that finds no space ends the engine. So a transaction is let in only when what is
//! *in flight* would find room at its worst. In flight is what live transactions may still make
//! dirty ([`Hold::bytes`](dmu::Hold), until each ends) and what is dirty in txgs that are not
//! durable. When the txg is durable, what it really took is in the figures, which is mostly far
//! less. So whoever does not fit waits for the txgs in flight, and is refused when nothing is in
//! flight any more, nothing that was freed waits for its txgs, and nothing is being destroyed.
//!
//! The worst case counts the copies, the parity and padding of small blocks, and the metadata above
//! a block, which is large for small blocks ([`worst_of`]). It is asked of the whole pool, for all
//! heads together; each head is asked for its quota beside that, by what is in flight in it alone.
//!
//! Freeing needs space too: new versions of the metadata that points to what goes. It may use half
//! of the reserve; beyond that it still goes on, but a little per txg, so that what a txg takes
//! before the frees of older ones come back is small. The other half is for the sync itself: space
//! maps, the MOS, gang headers.

use super::shared::Shared;
use dmu::{Hold, SpaceUse, Transactions, Tx};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Txgs alive at once, rounded up to a power of two.
const SLOTS: usize = 4;

/// Txgs that a transaction waits for before there is no space: two until what was freed is free,
/// and one to write what is dirty now.
const TXGS_WAITED: u32 = 3;

/// Txgs that it waits for while something is being destroyed.
const TXGS_OF_DESTROYING: u32 = 1000;

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

    fn all(&self) -> u64 {
        let dirty = self.dirty.iter().map(|d| d.load(Relaxed));
        dirty.fold(self.live.load(Relaxed), u64::saturating_add)
    }

    fn synced(&self, txg: u64) {
        self.slot(txg).store(0, Relaxed);
    }
}

/// Space of the pool, as of the last synced txg.
#[derive(Default)]
pub(super) struct PoolSpace {
    in_flight: InFlight,
    /// For what uses space.
    for_writing: AtomicU64,
    /// For what frees it.
    for_freeing: AtomicU64,
}

impl PoolSpace {
    /// `txg` is durable; this is what is left.
    pub(super) fn synced(&self, txg: u64, for_writing: u64, for_freeing: u64) {
        self.for_writing.store(for_writing, Relaxed);
        self.for_freeing.store(for_freeing, Relaxed);
        self.in_flight.synced(txg);
    }

    /// `txg` had nothing that is still to be written.
    pub(super) fn nothing_in(&self, txg: u64) {
        self.in_flight.synced(txg);
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
    /// Bytes that a transaction may take that holds so many.
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

/// What a head has in flight, and the way into its transactions.
pub(super) struct Door {
    shared: Weak<Shared>,
    gone: AtomicBool,
    in_flight: InFlight,
    available: AtomicU64,
    weight: Mutex<Weight>,
}

impl Door {
    pub(super) fn new(shared: &Weak<Shared>) -> Self {
        Self {
            shared: Weak::clone(shared),
            gone: AtomicBool::new(false),
            in_flight: InFlight::default(),
            available: AtomicU64::new(u64::MAX),
            weight: Mutex::default(),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Nobody gets in any more.
    pub(super) fn close(&self) {
        self.gone.store(true, Relaxed);
    }

    pub(super) fn set_weight(&self, weight: Weight) {
        *self.weight.lock() = weight;
    }

    /// `txg` is durable; this is what the head may still use.
    pub(super) fn synced(&self, txg: u64, available: u64) {
        self.set_available(available);
        self.in_flight.synced(txg);
    }

    pub(super) fn set_available(&self, bytes: u64) {
        self.available.store(bytes, Relaxed);
    }

    /// Whether `bytes` fit that were promised already.
    fn fits(&self, pool: &PoolSpace, bytes: u64, space: SpaceUse) -> bool {
        let flying = pool.in_flight.all();
        match space {
            SpaceUse::Always => true,
            SpaceUse::Free => flying <= pool.for_freeing.load(Relaxed),
            SpaceUse::Write => {
                let here = self.in_flight.all();
                let here = here.saturating_add(bytes / 4).saturating_add(64 << 10);
                flying <= pool.for_writing.load(Relaxed) && here <= self.available.load(Relaxed)
            }
        }
    }

    fn promise(&self, shared: &Shared, bytes: u64, worst: u64) {
        self.in_flight.live.fetch_add(bytes, Relaxed);
        shared.space.in_flight.live.fetch_add(worst, Relaxed);
    }

    fn take_back(&self, shared: &Shared, bytes: u64, worst: u64) {
        self.in_flight.live.fetch_sub(bytes, Relaxed);
        shared.space.in_flight.live.fetch_sub(worst, Relaxed);
    }
}

/// The transactions of one head: what its live object set is given.
pub(super) struct Entrance(pub(super) Arc<Door>);

/// The source of one transaction: it takes its promise back when that ends.
struct Entered {
    door: Arc<Door>,
    shared: Arc<Shared>,
    bytes: u64,
    worst: u64,
}

fn stopped(objset: u64, why: &str) -> dmu::Error {
    dmu::Error { objset, object: 0, kind: dmu::ErrorKind::Stopped(why.to_owned()) }
}

impl Transactions for Entrance {
    fn begin(&self, objset: u64, hold: Hold) -> dmu::Result<Tx> {
        let door = &self.0;
        let shared = door.shared.upgrade();
        let shared = shared.ok_or_else(|| stopped(objset, "the pool is closed"))?;
        let bytes = hold.bytes;
        let worst = door.weight.lock().of_hold(bytes);
        for attempt in 0.. {
            if door.is_gone() {
                return Err(stopped(objset, "the dataset was destroyed or rolled back"));
            }
            door.promise(&shared, bytes, worst);
            if door.fits(&shared.space, bytes, hold.space) {
                break;
            }
            let more = if shared.reaping.load(Relaxed) { TXGS_OF_DESTROYING } else { TXGS_WAITED };
            if attempt >= more {
                if hold.space == SpaceUse::Free {
                    break;
                }
                door.take_back(&shared, bytes, worst);
                let kind = dmu::ErrorKind::NoSpace;
                return Err(dmu::Error { objset, object: 0, kind });
            }
            door.take_back(&shared, bytes, worst);
            let open = shared.txgs.open();
            shared.txgs.wait_synced(open).map_err(|why| stopped(objset, &why))?;
        }
        match shared.txgs.enter(hold.space == SpaceUse::Write) {
            Ok(txg) => {
                let door = Arc::clone(door);
                Ok(Tx::new(txg, Arc::new(Entered { door, shared, bytes, worst })))
            }
            Err(why) => {
                door.take_back(&shared, bytes, worst);
                Err(stopped(objset, &why))
            }
        }
    }

    fn wait_synced(&self, txg: u64) -> dmu::Result<()> {
        let shared = self.0.shared.upgrade();
        let shared = shared.ok_or_else(|| stopped(0, "the pool is closed"))?;
        shared.txgs.wait_synced(txg).map_err(|why| stopped(0, &why))
    }

    fn dirtied(&self, txg: u64, bytes: u64) {
        let Some(shared) = self.0.shared.upgrade() else { return };
        let worst = self.0.weight.lock().of_block(bytes);
        self.0.in_flight.slot(txg).fetch_add(bytes, Relaxed);
        shared.space.in_flight.slot(txg).fetch_add(worst, Relaxed);
        shared.txgs.dirtied(txg, bytes);
    }

    fn ended(&self, _txg: u64) {}
}

impl Transactions for Entered {
    fn begin(&self, objset: u64, hold: Hold) -> dmu::Result<Tx> {
        Entrance(Arc::clone(&self.door)).begin(objset, hold)
    }

    fn wait_synced(&self, txg: u64) -> dmu::Result<()> {
        Entrance(Arc::clone(&self.door)).wait_synced(txg)
    }

    fn dirtied(&self, txg: u64, bytes: u64) {
        Entrance(Arc::clone(&self.door)).dirtied(txg, bytes);
    }

    fn ended(&self, _txg: u64) {
        self.door.take_back(&self.shared, self.bytes, self.worst);
        self.shared.txgs.leave();
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
}
