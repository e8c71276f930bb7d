//! What a txg wrote, kept until the txg is durable.
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
//! are written once more, to the same places; who frees a block in the txg that wrote it takes it
//! from here first, because its place may be written again by then.
//!
//! For the same reason such a block is read from memory until its txg is durable.
//!
//! Most of the bytes are in memory anyway, as dirty data or as blocks of the cache; what is
//! compressed is kept beside that.

use crate::writer::Flight;
use device::Shared;
use ondisk::{BlkPtr, Dva};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vdev::queue::IoClass;

/// One copy of a block, or a part of one.
pub(crate) struct Copy {
    pub(crate) flight: Arc<Flight>,
    pub(crate) dva: Dva,
    pub(crate) data: Shared,
    pub(crate) class: IoClass,
    /// It was not answered well before.
    pub(crate) is_first: bool,
}

impl Copy {
    fn txg(&self) -> u64 {
        self.flight.txg()
    }
}

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Kept {
    is_on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By vdev and offset.
    written: HashMap<(u32, u64), Copy>,
    parked: Vec<Copy>,
}

fn key(dva: Dva) -> (u32, u64) {
    (dva.vdev(), dva.offset())
}

impl Kept {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn switch(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    pub(crate) fn written(&self, copy: Copy) {
        let before = self.state.lock().written.insert(key(copy.dva), copy);
        drop(before);
    }

    pub(crate) fn park(&self, copy: Copy) {
        self.state.lock().parked.push(copy);
    }

    /// A copy of the block is parked.
    pub(crate) fn has_parked(&self, bp: &BlkPtr) -> bool {
        self.is_on() && self.state.lock().parked.iter().any(|copy| copy.flight.is_of(bp))
    }

    /// Takes the parked copies of a block, which is not wanted any more.
    pub(crate) fn take_parked(&self, bp: &BlkPtr) -> Vec<Copy> {
        let mut state = self.state.lock();
        let (of, others) = state.parked.drain(..).partition(|copy| copy.flight.is_of(bp));
        state.parked = others;
        of
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
    pub(crate) fn take(&self, txg: u64) -> (Vec<Copy>, Vec<Copy>) {
        let mut state = self.state.lock();
        let (parked, others) = state.parked.drain(..).partition(|copy| copy.txg() <= txg);
        state.parked = others;
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
