//! The writes of a txg, kept until the txg is durable.
//!
//! # Theory
//!
//! A pool that outlasts failures of its devices needs two things of what it has written:
//!
//! ```text
//!            answered well                    the txg is durable
//!   copy ---------------------> written ------------------------> forgotten
//!     \                             | all once more
//!      \  too few devices took it    v
//!       '--------------------> parked, until the writes are tried again
//! ```
//!
//! *Parked* is a copy of a block that too few devices took. Its block stays in the table of what is
//! on its way, so readers have it.
//!
//! *Written* is not durable before a flush. A device that vanished and came back may have lost what
//! it had answered for, and so may one whose flush failed. So after a failure all copies of the txg
//! are written once more, to the same places; a thread that frees a block in the txg that wrote it
//! takes it from here first, because its place may be written again by then.
//!
//! For the same reason such a block is read from memory until its txg is durable.
//!
//! Most of the bytes are in memory anyway, as dirty data or as blocks of the cache; what is
//! compressed is kept beside that.

use device::Shared;
use ondisk::{BlkPtr, Dva};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vdev::queue::IoClass;

/// One copy of a block, or a part of one.
pub(crate) struct UnsyncedCopy<F> {
    /// That of the block.
    pub(crate) flight: Arc<F>,
    pub(crate) block: BlockKey,
    pub(crate) dva: Dva,
    pub(crate) data: Shared,
    pub(crate) class: IoClass,
    /// It was not answered well before.
    pub(crate) is_first: bool,
}

/// The txg in which a block was born, and its first place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockKey {
    txg: u64,
    place: (u32, u64),
}

impl BlockKey {
    pub(crate) fn of(bp: &BlkPtr) -> Self {
        Self { txg: bp.logical_birth(), place: key(bp.dva(0)) }
    }
}

impl<F> UnsyncedCopy<F> {
    fn txg(&self) -> u64 {
        self.block.txg
    }
}

/// See the head of the file.
pub(crate) struct Unsynced<F> {
    is_on: AtomicBool,
    state: Mutex<State<F>>,
}

struct State<F> {
    /// By vdev and offset.
    written: HashMap<(u32, u64), UnsyncedCopy<F>>,
    /// All of a block together: threads that wait for one ask each time something has landed.
    parked: BTreeMap<BlockKey, Vec<UnsyncedCopy<F>>>,
}

impl<F> Default for Unsynced<F> {
    fn default() -> Self {
        Self { is_on: AtomicBool::new(false), state: Mutex::default() }
    }
}

impl<F> Default for State<F> {
    fn default() -> Self {
        Self { written: HashMap::new(), parked: BTreeMap::new() }
    }
}

fn key(dva: Dva) -> (u32, u64) {
    (dva.vdev(), dva.offset())
}

impl<F> Unsynced<F> {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn switch(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    pub(crate) fn written(&self, copy: UnsyncedCopy<F>) {
        let before = self.state.lock().written.insert(key(copy.dva), copy);
        drop(before);
    }

    pub(crate) fn park(&self, copy: UnsyncedCopy<F>) {
        self.state.lock().parked.entry(copy.block).or_default().push(copy);
    }

    /// A copy of the block is parked.
    pub(crate) fn has_parked(&self, bp: &BlkPtr) -> bool {
        self.is_on() && self.state.lock().parked.contains_key(&BlockKey::of(bp))
    }

    /// Takes the parked copies of a block, which is not wanted any more.
    pub(crate) fn take_parked(&self, bp: &BlkPtr) -> Vec<UnsyncedCopy<F>> {
        self.state.lock().parked.remove(&BlockKey::of(bp)).unwrap_or_default()
    }

    /// Forgets what was written to the places of a block.
    pub(crate) fn forget(&self, bp: &BlkPtr) {
        let mut state = self.state.lock();
        let copies: Vec<_> =
            bp.dvas().filter_map(|(_, dva)| state.written.remove(&key(dva))).collect();
        drop(state);
        drop(copies);
    }

    /// Takes everything of `txg` and of those before, parked or written, in the order of places.
    pub(crate) fn take(&self, txg: u64) -> (Vec<UnsyncedCopy<F>>, Vec<UnsyncedCopy<F>>) {
        let mut state = self.state.lock();
        let parked = state.parked.extract_if(.., |block, _| block.txg <= txg);
        let parked = parked.flat_map(|(_, copies)| copies).collect();
        let written = state.written.extract_if(|_, copy| copy.txg() <= txg);
        let mut written: Vec<_> = written.map(|(_, copy)| copy).collect();
        drop(state);
        written.sort_unstable_by_key(|copy| key(copy.dva));
        (parked, written)
    }

    /// `txg` is durable.
    pub(crate) fn settle(&self, txg: u64) {
        let mut state = self.state.lock();
        let settled: Vec<_> = state.written.extract_if(|_, copy| copy.txg() <= txg).collect();
        drop(state);
        drop(settled);
    }

    /// Forgets everything: copies hold what holds this.
    pub(crate) fn clear(&self) {
        self.switch(false);
        let state = std::mem::take(&mut *self.state.lock());
        drop(state);
    }
}
