//! Blocks that have a pointer and are not on their devices yet.
//!
//! ```text
//! write --hold--> held --release--> in flight --all devices answered--> gone
//!      \------------------------/
//! ```
//!
//! The table knows every such block by its first address, so that a reader gets it from memory. The
//! flow counts what is in flight, keeps it below a bound, and keeps the first failure of each txg.
//! Locks are held only to look something up; a shard's, or that of what is kept (`unsynced.rs`),
//! may be taken under the flow's, never the other way round.

use crate::block::{Block, Place};
use crate::error::Error;
use device::Shared;
use ondisk::{BlkPtr, Dva};
use parking_lot::{Mutex, MutexGuard};
use rt::{Condvar, Rt};
use std::collections::btree_map::Entry as ByTxg;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shards of the table: many more than threads that write.
const SHARDS: usize = 64;

/// The writes of a held block.
pub(crate) struct HeldWrites {
    pub(crate) writes: Vec<(Dva, Shared)>,
    /// Everything allocated for it.
    pub(crate) taken: Vec<BlkPtr>,
    pub(crate) place: Place,
}

impl HeldWrites {
    /// Bytes that go to the vdevs.
    pub(crate) fn bytes(&self) -> u64 {
        self.writes.iter().map(|(_, b)| b.len() as u64).sum()
    }
}

/// A block on its way.
struct Entry {
    bp: BlkPtr,
    block: Arc<Block>,
    /// Tells an entry from a later one for the same address.
    serial: u64,
    held: Option<HeldWrites>,
    /// It is on its devices, and read from memory until its txg is durable.
    has_landed: bool,
}

/// All blocks on their way.
pub(crate) struct Table {
    shards: Vec<Mutex<Shard>>,
    /// Entries: most readers find it zero and lock nothing.
    len: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Dva, Entry>,
    serial: u64,
}

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Held,
    InFlight,
    /// On its devices, or never seen.
    Gone,
}

impl Table {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, len: AtomicUsize::new(0) }
    }

    fn shard(&self, key: Dva) -> &Mutex<Shard> {
        let [a, b] = key.words();
        // Fibonacci hashing: neighbours on a disk go to different shards.
        let mixed = (a ^ b.rotate_left(7)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 32) as usize % SHARDS]
    }

    /// Adds a block; returns the serial to remove it by. An earlier one at the same address is
    /// forgotten.
    pub(crate) fn insert(&self, bp: BlkPtr, block: Arc<Block>, held: Option<HeldWrites>) -> u64 {
        let key = bp.dva(0);
        let mut shard = self.shard(key).lock();
        shard.serial += 1;
        let serial = shard.serial;
        if shard.entries.insert(key, Entry { bp, block, serial, held, has_landed: false }).is_none()
        {
            self.len.fetch_add(1, Ordering::Release);
        }
        serial
    }

    pub(crate) fn remove(&self, key: Dva, serial: u64) {
        let mut shard = self.shard(key).lock();
        if shard.entries.get(&key).is_some_and(|e| e.serial == serial) {
            shard.entries.remove(&key);
            self.len.fetch_sub(1, Ordering::Release);
        }
    }

    /// The block is on its devices. It stays until [`Self::settle`]: they may lose it.
    pub(crate) fn land(&self, key: Dva, serial: u64) {
        let mut shard = self.shard(key).lock();
        if let Some(entry) = shard.entries.get_mut(&key).filter(|e| e.serial == serial) {
            entry.has_landed = true;
        }
    }

    /// Forgets a block that has landed.
    pub(crate) fn forget_landed(&self, bp: &BlkPtr) {
        let key = bp.dva(0);
        let mut shard = self.shard(key).lock();
        let is_it = shard.entries.get(&key).is_some_and(|e| e.has_landed && is_same(&e.bp, bp));
        if is_it {
            shard.entries.remove(&key);
            self.len.fetch_sub(1, Ordering::Release);
        }
    }

    /// Forgets what has landed of `txg` and of those before.
    pub(crate) fn settle(&self, txg: u64) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let settled = |_: &Dva, e: &mut Entry| e.has_landed && e.bp.logical_birth() <= txg;
            let gone: Vec<_> = shard.entries.extract_if(settled).collect();
            self.len.fetch_sub(gone.len(), Ordering::Release);
            drop(shard);
            drop(gone);
        }
    }

    /// The content of the block, when it is on its way.
    pub(crate) fn block(&self, bp: &BlkPtr) -> Option<Arc<Block>> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let shard = self.shard(bp.dva(0)).lock();
        let entry = shard.entries.get(&bp.dva(0)).filter(|e| is_same(&e.bp, bp))?;
        Some(Arc::clone(&entry.block))
    }

    pub(crate) fn standing(&self, bp: &BlkPtr) -> BlockState {
        let shard = self.shard(bp.dva(0)).lock();
        match shard.entries.get(&bp.dva(0)).filter(|e| is_same(&e.bp, bp)) {
            Some(Entry { held: Some(_), .. }) => BlockState::Held,
            Some(Entry { has_landed: true, .. }) => BlockState::Gone,
            Some(_) => BlockState::InFlight,
            None => BlockState::Gone,
        }
    }

    /// Everything that was allocated for a held block.
    pub(crate) fn taken(&self, bp: &BlkPtr) -> Option<Vec<BlkPtr>> {
        let shard = self.shard(bp.dva(0)).lock();
        let entry = shard.entries.get(&bp.dva(0)).filter(|e| is_same(&e.bp, bp))?;
        Some(entry.held.as_ref()?.taken.clone())
    }

    /// Forgets a held block.
    pub(crate) fn take_held(&self, bp: &BlkPtr) -> Option<HeldWrites> {
        let key = bp.dva(0);
        let mut shard = self.shard(key).lock();
        let entry = shard.entries.get_mut(&key).filter(|e| is_same(&e.bp, bp))?;
        let held = entry.held.take()?;
        shard.entries.remove(&key);
        self.len.fetch_sub(1, Ordering::Release);
        Some(held)
    }

    /// Takes what is to be written of all held blocks, in the order of their addresses. They stay
    /// in the table, in flight.
    pub(crate) fn release(&self) -> Vec<(BlkPtr, u64, HeldWrites)> {
        let mut out = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            for entry in shard.entries.values_mut() {
                out.extend(entry.held.take().map(|held| (entry.bp, entry.serial, held)));
            }
        }
        out.sort_unstable_by_key(|(bp, ..)| (bp.dva(0).vdev(), bp.dva(0).offset()));
        out
    }
}

/// The same version of the block at an address.
fn is_same(a: &BlkPtr, b: &BlkPtr) -> bool {
    a.dva(0) == b.dva(0)
        && a.logical_birth() == b.logical_birth()
        && a.psize() == b.psize()
        && a.checksum() == b.checksum()
}

/// Counts what is in flight.
///
/// Parked blocks (`unsynced.rs`) are not in flight: no thread waits for room or for devices because
/// of them. A thread that waits for its txg gets the failure.
pub(crate) struct Flow {
    state: Arc<Mutex<FlowState>>,
    changed: Condvar,
    /// A block that a thread waits for has ended.
    ended: Condvar,
}

struct FlowState {
    bytes: u64,
    max: u64,
    /// The same by txg, without those that have none: two or three at most.
    by_txg: BTreeMap<u64, u64>,
    waiting: usize,
    /// The first addresses of blocks that threads wait for, once for each.
    awaited: Vec<Dva>,
    /// First failure of each txg.
    errors: BTreeMap<u64, Error>,
    /// Writes that are parked, by txg, with the first failure.
    parked: BTreeMap<u64, (usize, Error)>,
}

impl FlowState {
    fn has_room(&self, bytes: u64) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= self.max
    }

    /// Nothing of `txg` or before is in flight.
    fn is_quiet(&self, txg: u64) -> bool {
        self.by_txg.range(..=txg).next().is_none()
    }

    fn take(&mut self, txg: u64, bytes: u64) -> bool {
        let fits = self.has_room(bytes);
        if fits {
            self.put(txg, bytes);
        }
        fits
    }

    fn put(&mut self, txg: u64, bytes: u64) {
        self.bytes += bytes;
        *self.by_txg.entry(txg).or_default() += bytes;
    }

    fn failure(&self, txgs: std::ops::RangeInclusive<u64>) -> Option<&Error> {
        let failed = self.errors.range(txgs.clone()).next().map(|(_, e)| e);
        failed.or_else(|| self.parked.range(txgs).next().map(|(_, (_, e))| e))
    }

    fn give(&mut self, txg: u64, bytes: u64) {
        self.bytes -= bytes;
        if let ByTxg::Occupied(mut of) = self.by_txg.entry(txg) {
            *of.get_mut() -= bytes;
            if *of.get() == 0 {
                of.remove();
            }
        }
    }
}

impl Flow {
    pub(crate) fn new(rt: &Rt, max: u64) -> Self {
        let (by_txg, errors) = (BTreeMap::new(), BTreeMap::new());
        let (parked, awaited) = (BTreeMap::new(), Vec::new());
        let state = FlowState { bytes: 0, max, by_txg, waiting: 0, awaited, errors, parked };
        let state = Arc::new(Mutex::new(state));
        Self { state, changed: rt.condvar(), ended: rt.condvar() }
    }

    /// Waits for room and takes it. A block larger than all the room there is goes alone.
    pub(crate) fn enter(&self, txg: u64, bytes: u64) {
        let mut state = self.state.lock();
        while !state.take(txg, bytes) {
            self.wait_for(&mut state, move |s| s.has_room(bytes));
        }
    }

    /// One wait of a thread that continues when it finds this.
    fn wait_for(
        &self,
        state: &mut MutexGuard<'_, FlowState>,
        found: impl Fn(&FlowState) -> bool + Send + Sync + 'static,
    ) {
        state.waiting += 1;
        self.changed.wait_among(&self.state, state, found);
        state.waiting -= 1;
    }

    /// Changes the bound, from now on.
    pub(crate) fn set_max(&self, max: u64) {
        self.state.lock().max = max;
        self.changed.notify_all();
    }

    /// Takes room when there is some.
    pub(crate) fn try_enter(&self, txg: u64, bytes: u64) -> bool {
        self.state.lock().take(txg, bytes)
    }

    /// Takes room, whether there is some or not.
    pub(crate) fn enter_anyway(&self, txg: u64, bytes: u64) {
        self.state.lock().put(txg, bytes);
    }

    /// A write of `txg` waits until it is tried again. It has not left yet.
    pub(crate) fn park(&self, txg: u64, error: Error) {
        self.state.lock().parked.entry(txg).or_insert((0, error)).0 += 1;
    }

    /// One that was parked is tried again, or not wanted any more.
    pub(crate) fn unpark(&self, txg: u64) {
        let mut state = self.state.lock();
        if let ByTxg::Occupied(mut of) = state.parked.entry(txg) {
            of.get_mut().0 -= 1;
            if of.get().0 == 0 {
                of.remove();
            }
        }
    }

    /// Writes of `txg` or before are parked.
    pub(crate) fn has_parked(&self, txg: u64) -> bool {
        self.state.lock().parked.range(..=txg).next().is_some()
    }

    /// A write of the block at `key` has ended.
    pub(crate) fn leave(&self, key: Dva, txg: u64, bytes: u64) {
        let mut state = self.state.lock();
        state.give(txg, bytes);
        let (waiting, is_awaited) = (state.waiting > 0, state.awaited.contains(&key));
        drop(state);
        if waiting {
            self.changed.notify_all();
        }
        if is_awaited {
            self.ended.notify_all();
        }
    }

    pub(crate) fn fail(&self, txg: u64, error: Error) {
        self.state.lock().errors.entry(txg).or_insert(error);
    }

    /// Waits until nothing of `txg` or before is in flight; the failure of the oldest of these txgs
    /// that had one.
    pub(crate) fn wait_until_txg(&self, txg: u64) -> Result<(), Error> {
        let mut state = self.state.lock();
        while !state.is_quiet(txg) {
            self.wait_for(&mut state, move |s| s.is_quiet(txg));
        }
        state.failure(0..=txg).cloned().map_or(Ok(()), Err)
    }

    /// The first failure of `txg`.
    pub(crate) fn failure_of(&self, txg: u64) -> Option<Error> {
        self.state.lock().failure(txg..=txg).cloned()
    }

    /// Waits until the block is not in flight: on its devices, or parked.
    pub(crate) fn wait_gone(&self, table: &Table, is_parked: impl Fn() -> bool, bp: &BlkPtr) {
        let (mut state, key) = (self.state.lock(), bp.dva(0));
        while table.standing(bp) == BlockState::InFlight && !is_parked() {
            state.awaited.push(key);
            self.ended.wait(&mut state);
            if let Some(at) = state.awaited.iter().position(|of| *of == key) {
                state.awaited.swap_remove(at);
            }
        }
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.state.lock().bytes
    }
}
