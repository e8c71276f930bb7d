//! Changes that are not promised: by object, and ready in the order in which they are written.

use super::{Itx, LoggedChange, SyncScope};
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
pub(super) struct Queue {
    /// With their numbers, ascending.
    ready: VecDeque<(u64, Itx)>,
    /// Of objects that were not synced yet.
    waiting: BTreeMap<u64, Vec<Itx>>,
    next: u64,
}

impl Queue {
    pub(super) fn add(&mut self, about: SyncScope, itx: Itx) {
        match about {
            SyncScope::Names => self.push(itx),
            SyncScope::Object(object) => self.waiting.entry(object).or_default().push(itx),
        }
    }

    fn push(&mut self, itx: Itx) {
        self.ready.push_back((self.next, itx));
        self.next += 1;
    }

    /// Makes the changes of an object ready.
    pub(super) fn make_ready(&mut self, object: u64) {
        for itx in self.waiting.remove(&object).unwrap_or_default() {
            self.push(itx);
        }
    }

    /// Data of an object, or of all, that wait to be made ready and that no other thread has been
    /// told of: (object, offset, length).
    pub(super) fn take_ranges(&mut self, object: Option<u64>) -> Vec<(u64, u64, u64)> {
        let lists = match object {
            Some(object) => self.waiting.range_mut(object..=object),
            None => self.waiting.range_mut(..),
        };
        let range = |itx: &mut Itx| match itx.what {
            LoggedChange::Data { object, offset, length } => {
                (!std::mem::replace(&mut itx.is_taken, true)).then_some((object, offset, length))
            }
            _ => None,
        };
        lists.flat_map(|(_, list)| list.iter_mut().filter_map(range)).collect()
    }

    pub(super) fn make_all_ready(&mut self) {
        for itx in std::mem::take(&mut self.waiting).into_values().flatten() {
            self.push(itx);
        }
    }

    pub(super) fn forget(&mut self, object: u64) {
        self.waiting.remove(&object);
    }

    /// The number that the next change gets when it becomes ready.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The lowest number of what is ready.
    pub(super) fn first(&self) -> u64 {
        self.ready.front().map_or(self.next, |(number, _)| *number)
    }

    /// All that is ready.
    pub(super) fn take(&mut self) -> Vec<Itx> {
        self.ready.drain(..).map(|(_, itx)| itx).collect()
    }

    /// `txg` is durable.
    pub(super) fn synced(&mut self, txg: u64) {
        self.ready.retain(|(_, itx)| itx.txg > txg);
        for list in self.waiting.values_mut() {
            list.retain(|itx| itx.txg > txg);
        }
        self.waiting.retain(|_, list| !list.is_empty());
    }
}
