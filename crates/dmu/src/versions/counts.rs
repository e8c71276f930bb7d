//! What belongs to whom, as it is counted.

use super::spec::Owner;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Change of bytes and of objects by id, of one table.
pub(crate) type Deltas = BTreeMap<u64, (i64, i64)>;

/// Changes of the tables of users, groups and projects.
#[derive(Default)]
pub(crate) struct Tables(pub(crate) [Deltas; 3]);

impl Tables {
    /// Adds bytes and objects of an owner.
    pub(crate) fn add_to(&mut self, owner: &Owner, (bytes, objects): (i64, i64)) {
        let ids = [Some(owner.uid), Some(owner.gid), owner.project];
        for (table, id) in self.0.iter_mut().zip(ids) {
            let Some(id) = id else { continue };
            let delta = table.entry(id).or_default();
            *delta = (delta.0.wrapping_add(bytes), delta.1.wrapping_add(objects));
        }
    }

    /// Adds what others have counted.
    pub(crate) fn add(&mut self, other: &Self) {
        for (table, other) in self.0.iter_mut().zip(&other.0) {
            for (id, (bytes, objects)) in other {
                let delta = table.entry(*id).or_default();
                *delta = (delta.0.wrapping_add(*bytes), delta.1.wrapping_add(*objects));
            }
        }
    }
}

/// What a recount has counted so far (`recount.rs`).
#[derive(Default)]
pub(crate) struct Recount {
    /// The first object that is not counted.
    pub(crate) next: u64,
    pub(crate) counted: Tables,
}

/// Whether a set is being counted anew.
#[derive(Default)]
pub(crate) struct Recounting {
    pub(crate) state: Mutex<Option<Recount>>,
    /// It was begun, and could not be ended.
    pub(crate) is_given_up: AtomicBool,
}
