//! Freed space that is not reused for now: a block is being written once more where it is, by a
//! thread that no txg waits for.
//!
//! # Theory
//!
//! What a txg frees can be allocated from the third sync on, its own the first ([`super`]). So a
//! thread that has seen in the durable tree that a place is its block's has time until then, and a
//! device may take longer. [`HeldFrees`] gives it all the time that it needs:
//!
//! ```text
//! held here   sync n      the block may be freed in this txg, and in no txg before
//!             sync n + 1  as usual: what waited longest was freed before `held`
//!             sync n + 2  what waits may be the block: everything goes on waiting
//! dropped
//!             sync n + k  the wait goes on where it stopped
//! ```
//!
//! One that is held for less than three syncs changes nothing, so a thread that takes one after the
//! other does not keep space from being reused. Frees on disk are what they are: only this process
//! waits.

use super::Allocator;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Syncs after which freed space is free: those during which it waits.
const WAITS: u64 = 2;

#[derive(Default)]
struct State {
    /// Syncs so far.
    syncs: u64,
    /// For how many was held, by the syncs that there had been.
    held: BTreeMap<u64, usize>,
}

/// What is held now.
#[derive(Default)]
pub(super) struct FreesHeld(Arc<Mutex<State>>);

/// Nothing is allocated that was freed since, as long as this lives.
pub(crate) struct HeldFrees {
    of: Arc<Mutex<State>>,
    since: u64,
}

impl FreesHeld {
    /// Another sync is done; whether what is freed goes on waiting.
    pub(super) fn sync_done(&self) -> bool {
        let mut state = self.0.lock();
        let oldest = state.held.first_key_value().map(|(since, _)| *since);
        let waits = oldest.is_some_and(|since| state.syncs - since >= WAITS);
        state.syncs += 1;
        waits
    }
}

impl Drop for HeldFrees {
    fn drop(&mut self) {
        let mut state = self.of.lock();
        if let Some(count) = state.held.get_mut(&self.since) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.since);
            }
        }
    }
}

impl Allocator {
    /// What is freed from now on is not allocated as long as the result lives. Called where no txg
    /// becomes durable.
    pub(crate) fn hold_frees(&self) -> HeldFrees {
        let of = Arc::clone(&self.frees_held.0);
        let since = {
            let mut state = of.lock();
            let since = state.syncs;
            *state.held.entry(since).or_default() += 1;
            since
        };
        HeldFrees { of, since }
    }
}
