//! What a plan has seen of a stream of several snapshots. Nothing of it is in the pool, and what
//! comes later needs it.

use std::collections::BTreeMap;

/// What came before.
#[derive(Default)]
pub(super) struct Planned {
    /// Datasets, by the names that they get, with those that they have.
    names: BTreeMap<String, String>,
    /// Snapshots, by their guids.
    snapshots: BTreeMap<u64, String>,
}

impl Planned {
    /// A snapshot of the dataset that is to be `wanted`, and is called otherwise now.
    pub(super) fn insert(&mut self, wanted: String, name: &str, snapshot: (u64, String)) {
        self.names.insert(wanted, name.to_owned());
        self.snapshots.insert(snapshot.0, snapshot.1);
    }

    /// The name that a dataset has now.
    pub(super) fn name_of(&self, wanted: &str) -> Option<&String> {
        self.names.get(wanted)
    }

    /// The snapshot with this guid.
    pub(super) fn snapshot(&self, guid: u64) -> Option<&String> {
        self.snapshots.get(&guid)
    }
}
